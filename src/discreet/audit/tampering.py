"""Tampering: damaged, cut, forged and outdated ledgers are refused, and what a crash leaves behind is not counted.

A ledger that can be changed unnoticed forgets what was spent. Every file here is made from a good one by a single
change; it must be refused, or hold the very same entries.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import current_thread, main_thread
from types import FrameType, SimpleNamespace
from typing import Any
from unittest.mock import patch

from discreet.audit.replay import same_randomness
from discreet.audit.report import Audit, Compared, recomputed, refused
from discreet.audit.statistical import interleaved, no_collection
from discreet.core.door import Rng
from discreet.core.errors import DiscreetError, InsufficientBudget, LedgerError
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP
from discreet.core.ledger import account
from discreet.core.ledger.balance import FORMAT
from discreet.core.ledger.journal import ROOT, canonical, chained
from discreet.core.ledger.postgres_journal import PostgresJournal
from discreet.core.noise.sampler import Floats, Truth
from discreet.core.protection import Neighbours, Protection, Unit
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms.laplace import Laplace
from discreet.results import ledger as ledger_module
from discreet.results.ledger import Ledger
from discreet.results.release import release
from discreet.testing.ledgers import check_ledger

_HEADER = "discreet ledger 2"
_RELEASE: dict[str, Any] = {
    "question": {"ask": "count"},
    "mechanism": {"name": "laplace", "scale": 10.0},
    "sensitivity": {"l1": 1.0},
    "protection": Protection(),
}


def audit_tampering(flips: int = 120) -> Audit:
    """Change ledgers on disk in every way that a disk, a crash or a person does."""
    with TemporaryDirectory() as folder:
        parts = [partial(part, Path(folder)) for part in (_cut, _torn, _moved, _forged, _reopened, _terms, _conforming)]
        parts += [partial(_withheld, Path(folder)), partial(_asked_of_a_server)]
        return recomputed("Tampering", [partial(_flipped, Path(folder), flips), *parts])


def _made(folder: Path) -> Path:
    """A good ledger: three releases, one of them of a part, with answers."""
    path = folder / "good.ledger"
    for old in folder.glob("good.ledger*"):
        old.unlink()
    with Ledger(path, PureDP(1.0)) as ledger:
        region = ledger.partition("region", ["north", "south"])
        for options in ({}, {"partition": region, "parts": "north"}, {"request": "r"}):
            ledger.record_answer(ledger.reserve(PureDP(0.1), **{**_RELEASE, **options}), 1.5)
    return path


def _lines(path: Path) -> list[list[str]]:
    header, *lines = path.read_bytes().decode("ascii").splitlines()
    return [line.split(" ", 2) for line in lines] if header == _HEADER else []


def _written(path: Path, entries: Sequence[Sequence[str]]) -> None:
    path.write_bytes("".join(f"{line}\n" for line in [_HEADER, *(" ".join(entry) for entry in entries)]).encode())


def _kept(good: Path, content: bytes, suffix: str = "") -> list[list[str]] | None:
    """The entries of a changed copy, or None where it is refused."""
    copy = good.with_name("copy.ledger")
    for other in ("", "-head"):
        shutil.copyfile(f"{good}{other}", f"{copy}{other}")
    Path(f"{copy}{suffix}").write_bytes(content)
    try:
        with Ledger(copy) as ledger:
            ledger.verify()
    except LedgerError:
        return None
    return _lines(copy)


def _flipped(folder: Path, flips: int) -> Iterator[Compared]:
    good = _made(folder)
    intact = _lines(good)
    for suffix in ("", "-head"):
        content = Path(f"{good}{suffix}").read_bytes()
        places = [place for place in range(len(content)) if content[place]]
        refused = 0
        for place in places[:: max(1, len(places) // flips)]:
            changed = bytearray(content)
            changed[place] ^= 1 << place % 8
            found = _kept(good, bytes(changed), suffix)
            refused += found is None
            yield f"a changed byte of ledger{suffix}", found in (None, intact)
        yield f"changed bytes of ledger{suffix} are accepted", refused > 0


def _cut(folder: Path) -> Iterator[Compared]:
    """A file that lost its end is refused, and so are lost, repeated and exchanged entries, and zeros between them."""
    good = _made(folder)
    content, entries = good.read_bytes(), _lines(good)
    for place in (0, 5, 18, 40, len(content) // 2, len(content) - 200, len(content) - 2, len(content) - 1):
        yield "a file that was cut", _kept(good, content[:place]) is None
    for place in range(len(entries)):
        rest = [*entries[:place], *entries[place + 1 :]]
        twice = [*entries[: place + 1], *entries[place:]]
        swapped = [*rest[: place + 1], entries[place], *rest[place + 1 :]]
        for changed in (rest, twice, swapped if swapped != entries else rest):
            copy = folder / "changed"
            _written(copy, changed)
            yield "entries lost, repeated or exchanged", _kept(good, copy.read_bytes()) is None
    lines = content.split(b"\n")
    lines[4] = b"\0" * len(lines[4])
    yield "zeros between entries", _kept(good, b"\n".join(lines)) is None


def _torn(folder: Path) -> Iterator[Compared]:
    """The remains of an entry after a crash do not count, and the next one is written over them."""
    for tail in (b"0", b"0" * 64 + b" spend {", b"\0" * 5000, b"\0" * 4096 + b'"x"}\n'):
        good = _made(folder)
        whole, entries = good.read_bytes(), _lines(good)
        good.write_bytes(whole + tail)
        with Ledger(good, read_only=True) as ledger:
            yield "the remains of a crash count", ledger.verify().spends == 3
        yield "reading changed a file", good.read_bytes() == whole + tail
        with Ledger(good) as ledger:
            ledger.reserve(PureDP(0.1), **_RELEASE)
            right = ledger.verify().spends == 4 and ledger.spent() == PureDP(0.4)
            yield "an entry behind the remains of a crash", right
        yield "entries behind the remains", len(_lines(good)) == len(entries) + 1
    for content in (b"", b"discreet led", b"discreet ledger 2\n", b"discreet ledger 2\n00ab op"):
        path = folder / "new.ledger"
        for old in folder.glob("new.ledger*"):
            old.unlink()
        path.write_bytes(content)
        with Ledger(path, PureDP(1.0)) as ledger:
            ledger.reserve(PureDP(0.1), **_RELEASE)
        yield "a creation that was cut short", len(_lines(path)) == 2


def _moved(folder: Path) -> Iterator[Compared]:
    """An old copy, a deleted, emptied or replaced file, and files of other kinds."""
    good = _made(folder)
    old = good.read_bytes()
    with Ledger(good) as ledger:
        ledger.reserve(PureDP(0.1), **_RELEASE)
    yield "an old copy", _kept(good, old) is None
    yield "an emptied ledger", _kept(good, f"{_HEADER}\n".encode()) is None
    for content in (b"SQLite format 3\0", b"discreet ledger 1\n", b"something else\n"):
        yield "another kind of file", _kept(good, content) is None
    with Ledger(good) as ledger:
        good.rename(folder / "elsewhere")
        yield "a moved ledger", refused(partial(ledger.reserve, PureDP(0.1), **_RELEASE))
        shutil.copyfile(folder / "elsewhere", good)
        yield "a replaced ledger", refused(partial(ledger.reserve, PureDP(0.1), **_RELEASE))
    good.unlink()
    yield "a deleted ledger is begun again", refused(partial(Ledger, good, PureDP(1.0)))
    yield "no such ledger", refused(partial(Ledger, folder / "none.ledger")) and not (folder / "none.ledger").exists()
    with Ledger(folder / "unspent.ledger", PureDP(1.0)) as new, Ledger(":memory:", PureDP(1.0)) as kept:
        yield "a ledger without spends", new.verify().spends == 0 and kept.verify().entries == 1
        yield "an entry before the first", new._journal.entry(0) is None and kept._journal.entry(0) is None
    yield "no such folder", refused(partial(Ledger, folder / "none" / "a.ledger", PureDP(1.0)))
    yield "a folder", refused(partial(Ledger, folder, PureDP(1.0)))
    good = _made(folder)
    Path(f"{good}-head").unlink()
    with Ledger(good) as ledger:
        ledger.reserve(PureDP(0.1), **_RELEASE)
    yield "a lost witness is written again", Path(f"{good}-head").exists()
    many = folder / "many.ledger"
    with Ledger(many, PureDP(1.0)) as ledger:
        for _ in range(40):
            ledger.reserve(PureDP(0.01), **_RELEASE)
    with Ledger(many) as ledger:
        right = ledger.verify().spends == 40 and ledger.spent() == PureDP(0.4)
        yield "more entries than the witness has room for", right
    yield "the last of many entries", _refused_content(many, lambda content: content[: content[:-1].rfind(b"\n") + 1])


def _refused_content(path: Path, change: Callable[[bytes], bytes]) -> bool:
    path.write_bytes(change(path.read_bytes()))
    return refused(partial(Ledger, path))


_ROW = {"unit": {"kind": "row"}, "neighbours": "add_remove", "public": []}
_FORGED: tuple[tuple[int, str, dict[str, Any]], ...] = (
    (7, "refund", {}), (7, "open", {}), (1, "spend", {}), (1, "open", {"format": FORMAT + 1}),
    (1, "open", {"allowance": ["2"]}),
    (7, "spend", {"total": ["1/10"]}), (7, "spend", {"charge": ["0"]}),
    (7, "spend", {"guarantee": {"kind": "pure", "epsilon": 0.05}}),
    (7, "spend", {"guarantee": {"kind": "pure", "epsilon": 5.0}, "charge": ["5"], "total": ["26/5"]}),
    (7, "spend", {"protection": {**_ROW, "neighbours": "replace_one", "public": ["size"]}}),
    (7, "spend", {"protection": {**_ROW, "unit": {"kind": "id", "column": "row"}}}),
    (7, "spend", {"guarantee": {"kind": "magic"}}), (7, "spend", {"partition": "p"}), (8, "answer", {"spend": 4}),
    (8, "answer", {"spend": 3}),
)  # fmt: skip


def _forged(folder: Path) -> Iterator[Compared]:
    """Entries with hashes that fit and contents that do not."""
    for place, kind, change in _FORGED:
        good = _made(folder)
        entries = _lines(good)[: place - 1]
        body = canonical("body", {**json.loads(_lines(good)[place - 1][2]), **change})
        previous = entries[-1][0] if entries else ROOT
        _written(good, [*entries, [chained(previous, place, kind, body), kind, body]])
        Path(f"{good}-head").unlink()
        yield f"a forged {kind} of {change}", refused(partial(_verified, good))
    good = _made(folder)
    entries = _lines(good)
    spend = json.loads(entries[6][2])
    again = canonical("body", {**spend, "total": ["2/5"]})
    _written(good, [*entries, [chained(entries[-1][0], len(entries) + 1, "spend", again), "spend", again]])
    yield "a request that was used before", refused(partial(_verified, good))


def _verified(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.verify()


def _reopened(folder: Path) -> Iterator[Compared]:
    """Everything is read back, and a second process's entries are followed."""
    good = _made(folder)
    with Ledger(good) as first, Ledger(good) as second:
        second.reserve(PureDP(0.2), **_RELEASE, request="s")
        yield "another's spend is not counted", first.spent() == PureDP(0.5) == second.spent()
        yield "another's request is charged again", first.reserve(PureDP(0.2), **_RELEASE, request="s").seq == 9
        first.reserve(PureDP(0.5), **_RELEASE)
        yield "an overspent budget", refused(partial(second.reserve, PureDP(0.01), **_RELEASE))
        yield "what is left", second.remaining() == PureDP(0.0) and first.head == second.head
    with Ledger(good, read_only=True) as ledger:
        yield "a spend on a read-only ledger", refused(partial(ledger.reserve, PureDP(0.0), **_RELEASE))
        yield "an entry that is missing", ledger.verify().spends == 5


def _terms(folder: Path) -> Iterator[Compared]:
    """A ledger is opened on its own terms, or not at all."""
    path = folder / "terms.ledger"
    replaced = Protection(neighbours=Neighbours.REPLACE_ONE)
    with Ledger(
        path, ApproxDP(1.0, 1e-6), accounting="gdp", neighbours=Neighbours.ADD_REMOVE, unit=Unit("person")
    ) as ledger:
        person = {**_RELEASE, "protection": Protection(Unit("person"))}
        ledger.reserve(GaussianDP(0.1), **person)
        for change in (
            {"protection": Protection()},
            {"protection": replaced},
            {"protection": Protection(Unit("household"))},
        ):
            right = refused(partial(ledger.reserve, GaussianDP(0.1), **{**person, **change}))
            yield f"a spend on other terms: {change}", right
        yield "a guarantee that cannot be counted", refused(partial(ledger.reserve, ApproxDP(0.1, 1e-9), **person))
    terms: tuple[dict[str, Any], ...] = ({"budget": ApproxDP(2.0, 1e-6)}, {"budget": PureDP(1.0)},
            {"accounting": "zcdp"},
                                         {"neighbours": Neighbours.REPLACE_ONE},
                                         {"unit": Unit("household")})  # fmt: skip
    for other in terms:
        yield f"opened on other terms: {other}", refused(partial(Ledger, path, **other))
    with Ledger(
        path, ApproxDP(1.0, 1e-6), accounting="gdp", neighbours=Neighbours.ADD_REMOVE, unit=Unit("person")
    ) as ledger:
        yield "opened on its own terms", ledger.verify().spends == 1


def _conforming(folder: Path) -> Iterator[Compared]:
    """The public conformance kit, in memory and in files."""
    check_ledger(lambda budget: Ledger(":memory:", budget))
    numbers = iter(range(1000))
    check_ledger(lambda budget: Ledger(folder / f"{next(numbers)}.ledger", budget))
    yield "the conformance kit", True


def _withheld(folder: Path) -> Iterator[Compared]:
    """A bundle may show the digest of an answer that it keeps back: the same answer must have another one each time.

    Few answers are likely, so whoever can write down the body of an entry from what is public finds its answer.
    """
    bodies = []
    for place in ("first", "second"):
        path = folder / f"{place}.withheld"
        with Ledger(path, PureDP(1.0)) as ledger, same_randomness(1):
            made = release(_EXACT, Laplace(1.0), ledger=ledger, name="r")
        text = path.read_text().splitlines()[-1].partition(" ")[2]
        bodies.append((made.value, text.replace(made.release_id or "", "id")))
    (one, first), (two, second) = bodies
    yield "the same noise gives the same answer", one == two and "answer" in first
    yield "an answer that is kept back can be found by its digest", first != second


def _asked_of_a_server() -> Iterator[Compared]:
    """Questions of a PostgreSQL ledger to any server before it trusts it; no server is needed to hear them."""
    asked: dict[str, str] = {}

    def prepared(lasting: bool) -> None:
        def execute(text: str, given: tuple[str, ...] = ()) -> Any:
            asked.update(pairwise(given))
            return SimpleNamespace(fetchone=lambda: (lasting,))

        journal: Any = object.__new__(PostgresJournal)
        journal.timeout, journal.read_only, journal.where = 1.0, False, "a server"
        PostgresJournal._prepare(journal, SimpleNamespace(execute=execute))  # type: ignore[arg-type]

    prepared(True)
    yield "a spend is flushed before it counts", asked.get("synchronous_commit") == "on"
    yield "a server that does not answer is not waited for", int(asked.get("lock_timeout", "0")) > 0
    yield "a server that may lose what was committed is refused", refused(partial(prepared, False))


# ---- Spending audit: no value leaves before its cost is on record, and no budget is spent twice.


ReleaseFunction = Callable[..., Any]


def audit_spending(
    release_function: ReleaseFunction = release,
    open_ledger: Callable[[Guarantee], Any] = lambda budget: Ledger(":memory:", budget),
) -> Audit:
    """Audit a function that is called as `discreet.release` is.

    The cost must be on record when noise is drawn (``spent_first``), be what the guarantee says (``charged``), and not
    be asked for again under one name (``repeated_free``). When many threads want more than the budget holds, no more
    than it holds succeed (``raced``). Two threads that look at a ledger to which another process added find what was
    spent (``followed``), and two ledgers on one file take turns (``alone``). What is written is on the disk before
    anything is drawn or returned (``flushed``), and a child that was forked has no second budget (``one_copy``).
    """
    ledger = open_ledger(PureDP(10.0))
    witness = _witness(ledger)
    release_function(_EXACT, witness, ledger=ledger)
    spent_first = witness.seen == [PureDP(9.0)]
    charged = ledger.remaining() == PureDP(9.0)
    first = release_function(_EXACT, witness, ledger=ledger, name="again")
    second = release_function(_EXACT, witness, ledger=ledger, name="again")
    repeated = first.value == second.value and len(witness.seen) == 2 and ledger.remaining() == PureDP(8.0)
    racing, holds = _race(release_function, open_ledger)
    right = {
        "spent_first": spent_first, "charged": charged, "repeated_free": repeated, "raced": racing <= holds,
        "followed": _looks(), "alone": _taking_turns(), "flushed": _flushed(), "one_copy": _one_copy(),
    }  # fmt: skip
    wrong = tuple(f"not {name.replace('_', ' ')}" for name, one in right.items() if not one)
    found, measured = f"{racing} of {holds} in a race", {**right, "racing": [racing, holds]}
    return Audit("randomness", "release and ledger", "spent, then drawn", found, wrong, measured=measured)


_EXACT = Exact(0.0, Sensitivity(l1=1.0))


class _Witness(Laplace):
    """Laplace noise that notes what the ledger held when it was asked for."""

    seen: list[Guarantee]
    ledger: Any

    def draw(self, truth: Truth, *, rng: Rng = None) -> Floats:
        self.seen.append(self.ledger.remaining())
        return super().draw(truth, rng=rng)


def _witness(ledger: Any) -> _Witness:
    witness = _Witness(1.0)
    object.__setattr__(witness, "seen", [])
    object.__setattr__(witness, "ledger", ledger)
    return witness


_EVERY = 7
"""A second thread looks at every so many lines of the ledger's code."""


def _looks() -> bool:
    """Two threads look at a ledger that somebody else spent from, one at a line of the other's."""
    with TemporaryDirectory() as folder, Ledger(f"{folder}/a.ledger", PureDP(1.0)) as ledger:
        for stop in count(0, _EVERY):
            with Ledger(f"{folder}/a.ledger") as other:
                release(_EXACT, Laplace(1000.0), ledger=other)
                spent = other.spent()
            try:
                found, passed = interleaved(ledger.spent, stop, _LEDGER)
            except DiscreetError:
                return False
            if found != [spent, spent]:
                return False
            if not passed:
                return True
    return False


def _flushed() -> bool:
    """True where every write to a ledger's file is flushed before the next draw and before the answer is returned."""
    steps: list[str] = []

    def noted(word: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            found = call(*arguments, **options)
            # What stands beside the ledger may be lost: it is made again from the entries.
            if word == "d" or os.fstat(arguments[0]).st_ino == os.stat(path).st_ino:
                steps.append(word)
            return found

        return step

    words = {"write": "w", "pwrite": "w", "fsync": "f"}
    with TemporaryDirectory() as folder, ExitStack() as stack:
        path = f"{folder}/a.ledger"
        ledger = stack.enter_context(Ledger(path, PureDP(9.0)))
        for name, word in words.items():
            stack.enter_context(patch.object(os, name, noted(word, getattr(os, name))))
        stack.enter_context(patch.object(Laplace, "draw", noted("d", Laplace.draw)))
        release(_EXACT, Laplace(1.0), ledger=ledger, name="r")
    paid, _, stored = "".join(steps).partition("d")
    return all("w" in part and part.rfind("f") > part.rfind("w") for part in (paid, stored))


def _one_copy() -> bool:
    """True where a child that inherits a ledger in memory is refused: its copy would spend the same budget again."""
    if not hasattr(os, "fork"):
        return True
    with Ledger(":memory:", PureDP(1.0)) as ledger:
        child = os.fork()
        if child == 0:
            spent = not refused(partial(release, _EXACT, Laplace(1.0), ledger=ledger), Exception)
            os._exit(int(spent))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


_LEDGER = str(Path(account.__file__).parent)
_SELDOM = 17


def _taking_turns() -> bool:
    """Two ledgers on one file, as two processes have: one spends while the other stands at a line of a spend.

    Locks of files are held by whoever opened them, so a second one in this process waits as another process would.
    Every spend that was told to have succeeded is on record, and the record is whole.
    """
    with TemporaryDirectory() as folder:
        path = f"{folder}/a.ledger"
        with Ledger(path, PureDP(1000.0)) as one, Ledger(path) as two:

            def spend() -> Any:
                return release(_EXACT, Laplace(1000.0), ledger=one if current_thread() is main_thread() else two)

            told = 0
            for stop in count(0, _SELDOM):
                try:
                    found, passed = interleaved(spend, stop, _LEDGER)
                except DiscreetError:
                    return False
                told += len(found)
                if not passed:
                    break
            try:
                return len({one.release_id for one in two.events()}) == told == one.verify().spends
            except DiscreetError:
                return False


def _race(release_function: ReleaseFunction, open_ledger: Callable[[Guarantee], Any]) -> tuple[int, int]:
    ledger, holds = open_ledger(PureDP(4.0)), 4

    def attempt(_: int) -> bool:
        try:
            release_function(_EXACT, Laplace(1.0), ledger=ledger)
        except InsufficientBudget:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        return sum(pool.map(attempt, range(16))), holds


# ---- Interrupt audit: Ctrl-C at any instruction of a spend leaves a ledger that goes on counting.
#
# A signal may stop Python between any two instructions. The audit raises `KeyboardInterrupt` at instructions spread
# over a whole spend, keeps every traceback as a notebook does, and then spends again: from the same ledger, and from
# another object on the same file, which must not wait for a lock that nobody gives back.


_CODE = (_LEDGER, str(Path(ledger_module.__file__).parent))
_SPEND: dict[str, Any] = {"question": "count", "mechanism": {}, "sensitivity": {}, "protection": Protection()}


def audit_interrupts(interrupts: int = 40) -> Audit:
    """Interrupt spends from a ledger in a file, each at another instruction.

    Examples
    --------
    >>> audit_interrupts(10).passed
    True
    """
    reserved, kept, failure = 0, [], None
    with TemporaryDirectory() as folder:
        path = f"{folder}/audit.ledger"
        with Ledger(path, PureDP(1000.0)) as ledger, Ledger(path, timeout=5.0) as other:
            total, _ = interrupted(lambda: _spend(ledger), None)
            reserved += 1
            try:
                for place in range(interrupts):
                    stopped = interrupted(lambda: _spend(ledger), 1 + place * total // interrupts)[1]
                    kept.append(stopped)
                    _spend(other)
                    _spend(ledger)
                    reserved += 2 + (stopped is None)
            except LedgerError as error:
                failure = str(error)
            counted = ledger.verify().spends if failure is None else 0
    stopped_by = sum(stopped is not None for stopped in kept)
    # Every spend that was told to have succeeded is counted; an interrupted one may be.
    right = failure is None and reserved <= counted <= reserved + stopped_by
    findings = () if right else (failure or f"{reserved} spends were told, and {counted} are counted",)
    measured = {"interrupts": stopped_by, "reserved": reserved, "counted": counted}
    found = f"{stopped_by} interrupts"
    return Audit("randomness", "Ctrl-C in a spend", "goes on counting", found, findings, measured=measured)


def _spend(ledger: Ledger) -> None:
    ledger.reserve(PureDP(0.001), **_SPEND)


def _ctrl_c() -> None:
    raise KeyboardInterrupt


class _Interrupt:
    """Counts instructions of the ledger's code and does something at one of them, as a signal handler would."""

    def __init__(self, at: int | None, handler: Callable[[], object]) -> None:
        self.at, self.handler, self.count = at, handler, 0

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Follow the ledger's code only."""
        if not frame.f_code.co_filename.startswith(_CODE):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.count += 1
            if self.count == self.at:
                self.handler()
        return self.trace


def interrupted(
    call: Callable[[], object], at: int | None, handler: Callable[[], object] = _ctrl_c
) -> tuple[int, BaseException | None]:
    """The number of instructions of the ledger's code in a call, and the interrupt that hit it at one of them.

    ``handler`` runs there: Ctrl-C by default, or what another signal's handler would do.
    """
    interrupt, before = _Interrupt(at, handler), sys.gettrace()
    with no_collection():
        sys.settrace(interrupt.trace)
        try:
            call()
        except KeyboardInterrupt as stopped:
            return interrupt.count, stopped
        finally:
            sys.settrace(before)
    return interrupt.count, None
