"""Anchors: heads of a ledger that are kept in a second place, so that rolling the ledger back shows.

A head stands for everything before it. Whoever can rewrite a ledger, hashes included, or put an old copy of it in its
place, cannot rewrite what was copied elsewhere: another disk, a repository, an archive.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from discreet.core.errors import InvalidParameter, LedgerCorrupted, LedgerUnavailable
from discreet.core.regular_file import open_regular, read_regular, reason
from discreet.ledgers import Ledger

__all__ = ["anchored_heads", "check_not_rolled_back", "write_anchor"]

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
    line = f"{datetime.now(UTC).isoformat(timespec='seconds')} {_identity(ledger)} {head}\n"
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
    for place, heads in found.items():
        for head in (one for one in heads if one in missing):
            which = "the new ledger" if ledger.path == ":memory:" else ledger.path
            raise LedgerCorrupted(
                f"{which}: no entry has the head {head[:16]}…, which {place} holds. The ledger is older than what was "
                "published, or another one: a run would publish other values for releases that are out, and not count "
                "the first ones. Put the newest ledger back. If it is lost, and the owner of the data decides to go on "
                f"with this one, prove that: take the head out of {place} (move results and bundles away), and plan "
                "with a budget that leaves out what was spent since. Nothing was drawn."
            )


def _heads_of(ledger: Ledger, place: Path) -> list[str]:
    try:
        text = read_regular(place, _LARGEST).decode()
        if text.startswith("{"):
            content = json.loads(text)
            return [content.get("results", content)["facts"]["privacy"]["head"]]
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
