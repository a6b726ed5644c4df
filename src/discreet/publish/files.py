"""Whole file: write all of a file or nothing of it.

The content is written under a name of its own first, which begins with a dot. A process that is killed meanwhile leaves
that file behind; whoever writes the same file next removes it. One that is being written is locked, and stays.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from json import dumps
from pathlib import Path
from typing import IO, Any, TextIO

from discreet.core.errors import DiscreetError, InvalidParameter, LedgerCorrupted, LedgerUnavailable
from discreet.core.files import open_regular, read_regular, reason
from discreet.core.ledger.balance import now
from discreet.results.display import printable
from discreet.results.ledger import Ledger

_NO_WAITING = getattr(os, "O_NONBLOCK", 0)
"""For somebody who reads a pipe: /dev/stdout and pipes that are read are logs like any other."""


if sys.platform != "win32":
    import fcntl


def write_whole(path: Path, content: str | bytes) -> Path:
    """Write a file, flushed, in one step: a reader sees the old content or the new one."""
    try:
        return _written_whole(path, content)
    except OSError as failure:
        raise DiscreetError(f"{path}: cannot be written: {reason(failure)}") from failure


def _written_whole(path: Path, content: str | bytes) -> Path:
    _remove_abandoned(path)
    file, name = _unfinished(path)
    try:
        with file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(name, _permissions(path))
            if sys.platform != "win32":
                os.replace(name, path)  # with the lock held
        if sys.platform == "win32":
            os.replace(name, path)  # it renames no open file, and has no such locks
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return path


def _permissions(path: Path) -> int:
    with suppress(OSError):
        return stat.S_IMODE(path.stat().st_mode)
    return 0o644


def _unfinished(path: Path) -> tuple[IO[bytes], str]:
    """A new file beside another, locked where the system has locks."""
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-", suffix=".part")
        if not _locked(handle, wait=True) or os.path.exists(name):
            return os.fdopen(handle, "wb"), name
        os.close(handle)  # it was taken for abandoned before it was locked


def _remove_abandoned(path: Path) -> None:
    """Remove what killed writers of a file left: what nobody holds a lock on."""
    for left in path.parent.glob(f".{glob.escape(path.name)}-*.part"):
        with suppress(OSError):
            if not stat.S_ISREG(left.lstat().st_mode):
                continue  # no file of ours: to open a pipe or a device may wait, or do something
            handle = os.open(left, os.O_RDWR)
            try:
                if _locked(handle, wait=False):
                    left.unlink()
            finally:
                os.close(handle)


def _locked(handle: int, *, wait: bool) -> bool:
    """Lock a file; whether that worked. It is released however the process ends."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def write_new(path: Path, content: str | bytes) -> None:
    """Write a file that must not be there yet; rows, which are bytes, for nobody else to read."""
    data = content.encode() if isinstance(content, str) else content
    try:
        with open(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if data is not content else 0o600), "wb"
        ) as file:
            file.write(data)
    except FileExistsError:
        raise DiscreetError(f"out = {str(path)!r}: exists already. Choose another name.") from None
    except OSError as failure:
        raise DiscreetError(f"out = {str(path)!r}: cannot be written: {reason(failure)}") from None


# ---- Anchors: heads of a ledger that are kept in a second place, so that rolling the ledger back shows.
#
# A head stands for everything before it. Whoever can rewrite a ledger, hashes included, or put an old copy of it in its
# place, cannot rewrite what was copied elsewhere: another disk, a repository, an archive.


_HEAD = re.compile(r"[0-9a-f]{64}")
_LARGEST = 64_000_000


def write_anchor(ledger: Ledger, place: str | os.PathLike[str]) -> str:
    """Append the ledger's head to a file, flushed; the ledger remembers the file. Returns the head.

    Examples
    --------
    >>> import tempfile
    >>> from discreet import Ledger, PureDP
    >>> with tempfile.TemporaryDirectory() as folder, Ledger(f"{folder}/survey.ledger", PureDP(1.0)) as ledger:
    ...     head = write_anchor(ledger, f"{folder}/heads.txt")
    ...     anchored_heads(ledger) == [head], ledger.verify(anchor=head).anchored
    (True, True)
    """
    target = os.path.realpath(place)
    ledger.note(anchors=[target])  # before the head is read, since a note is an entry, too
    head = ledger.head
    line = f"{now()} {_identity(ledger)} {head}\n"
    try:
        with open(open_regular(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "a", encoding="utf-8") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as failure:
        raise LedgerUnavailable(f"anchor = {target!r}: cannot be written: {reason(failure)}") from None
    return head


def anchored_heads(ledger: Ledger, given: str | None = None) -> list[str]:
    """The heads to verify against: a head itself, those in a file, or those in every file that the ledger remembers.

    Parameters
    ----------
    given
        A head, a file that `write_anchor` wrote, or the ``results.json`` of a run. Left out: all files that the ledger
        remembers and that exist.
    """
    if given is not None and _HEAD.fullmatch(given):
        return [given]
    if given is not None:
        return _heads_of(ledger, Path(given))
    return [head for place in ledger.anchors if os.path.exists(place) for head in _heads_of(ledger, Path(place))]


def check_not_rolled_back(ledger: Ledger, anchor: Path | None, published: Iterable[Path]) -> None:
    """Refuse a ledger without a head that its anchors, or results and bundles that were published, hold.

    Parameters
    ----------
    ledger
        The ledger that the next releases would be paid from.
    anchor
        The file to which a plan copies heads; those that the ledger remembers are read, too.
    published
        Results and bundles. One that does not exist, or holds something else, says nothing.
    """
    places = [Path(place) for place in ledger.anchors] + ([] if anchor is None else [anchor])
    found = {place: _heads_of(ledger, place) for place in places if place.exists()}
    for place in published:
        with suppress(InvalidParameter):
            found[place] = _heads_of(ledger, place)
    missing = ledger.missing(head for heads in found.values() for head in heads)
    holding = [place for place, heads in found.items() if not missing.isdisjoint(heads)]
    if holding:
        which = "the new ledger" if ledger.path == ":memory:" else ledger.path
        head = next(one for one in found[holding[0]] if one in missing)
        others = f" and {len(holding) - 1} more" if len(holding) > 1 else ""
        raise LedgerCorrupted(
            f"{which}: no entry has the head {head[:16]}…, which {holding[0]} holds. The ledger is older than what was "
            "published, or another one: a run would publish other values for releases that are out, and not count "
            "the first ones. Put the newest ledger back. If it is lost, and the owner of the data decides to go on "
            f"with this one, prove that: take the head out of {holding[0]}{others} (move results and bundles away), "
            "and plan with a budget that leaves out what was spent since. Nothing was drawn."
        )


def bundled_plan(place: Path) -> str | None:
    """The name of the plan that a bundle is of; None where there is no bundle."""
    try:
        name = json.loads(read_regular(place, _LARGEST))["plan"]["name"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return name if isinstance(name, str) else None


def _heads_of(ledger: Ledger, place: Path) -> list[str]:
    try:
        text = read_regular(place, _LARGEST).decode()
        if text.startswith("{"):
            content = json.loads(text)
            newest = [content["ledger"][-1]["hash"]] if "results" in content else []  # others may have spent since
            heads = [content.get("results", content)["facts"]["privacy"]["head"], *newest]
            return [one for one in heads if _HEAD.fullmatch(one)]
    except OSError as failure:
        raise InvalidParameter(
            "anchor", str(place), f"cannot be read: {reason(failure)}", "Pass a head, or a file with heads."
        ) from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise InvalidParameter(
            "anchor", str(place), "holds no head of a ledger", "Pass a head, a file with heads, or results of a run."
        ) from None
    lines = [line.split() for line in text.splitlines()]
    return [line[2] for line in lines if len(line) == 3 and line[1] == _identity(ledger)]


def _identity(ledger: Ledger) -> str:
    """Tells the lines of several ledgers in one file apart; says nothing about the data."""
    return hashlib.sha256(b"identity" + ledger.salt).hexdigest()[:16]


# ---- Run log: what a scheduled run did, one line of JSON per event, appended to a file.


class RunLog:
    """Appends events to a file; to nothing where there is none. Events hold names and costs, never a value.

    Examples
    --------
    >>> RunLog(None, "survey.toml").write("released", name="ages")
    """

    def __init__(self, path: Path | None, plan: str) -> None:
        self._path, self._plan = path, plan

    def write(self, event: str, **facts: Any) -> None:
        """Append one event; lines of two runs never mix."""
        if self._path is None:
            return
        told = {"time": now(), "plan": self._plan, "event": event, **facts}
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _NO_WAITING, 0o644)
            try:
                os.write(handle, f"{printable(dumps(told, ensure_ascii=False))}\n".encode())
            finally:
                os.close(handle)
        except OSError as failure:
            unread = "it is a FIFO that nobody reads, or a socket. Pass the path of a file."
            words = unread if failure.errno == errno.ENXIO else reason(failure)
            raise DiscreetError(f"log = {str(self._path)!r}: cannot be written: {words}") from None

    def following(self, shown: Callable[[Any], None] | None) -> Callable[[Any], None]:
        """A function that notes each release of a run, and then shows it."""

        def note(step: Any) -> None:
            self.write("released" if step.fresh else "repeated", name=step.name)
            if shown is not None:
                shown(step)

        return note

    def end(self, done: Any) -> None:
        """Note the end of a run."""
        told = done.to_dict()
        self.write("done", **{name: told[name] for name in ("drawn", "reused", "spent", "remaining") if name in told})


@contextmanager
def logged(path: Path | None, plan: str, status: Callable[[DiscreetError], int]) -> Iterator[RunLog]:
    """A log of one run; a refusal is noted with its exit status, and raised again."""
    log = RunLog(path, plan)
    log.write("started")  # a log that cannot be written is refused before anything is spent
    try:
        yield log
    except DiscreetError as refusal:
        log.write("refused", status=status(refusal), why=str(refusal))
        raise


# ---- Terminal: print text that holds nothing a terminal would obey.


def say(text: object, file: TextIO | None = None) -> None:
    """Print at once."""
    print(printable(str(text)), file=file or sys.stdout, flush=True)


def tell(found: Any, json: bool) -> None:
    """Print a result for people, or for programs."""
    say(dumps(found.to_dict(), indent=1, ensure_ascii=False) if json else found)


def progress_line(verb: str) -> Any:
    """A progress line on a terminal; plain lines elsewhere."""
    live = sys.stderr.isatty()

    def shown(step: Any) -> None:
        name = getattr(step, "name", None) or getattr(step, "part", "")
        known = "" if getattr(step, "fresh", True) else " (from the ledger)"
        left = getattr(step, "left", None)
        rest = "" if not left else f", about {_duration(left)} left"
        text = f"[{step.done}/{step.total}] {verb} {name}{known}{rest}"
        end = "\n" if not live or step.done == step.total else ""
        print(f"\r\x1b[K{printable(text)}" if live else printable(text), end=end, file=sys.stderr, flush=True)

    return shown


def _duration(seconds: float) -> str:
    for most, unit, size in ((100, "s", 1), (6000, "min", 60)):
        if seconds < most:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 3600:.1f} h"
