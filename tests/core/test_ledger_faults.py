"""Damaged, full, locked, foreign and moved files: every fault is told, and nothing is drawn."""

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.core.errors import LedgerCorrupted, LedgerError, LedgerMismatch, LedgerUnavailable
from discreet.core.guarantee import PureDP
from discreet.core.ledger.account import Reservation
from discreet.core.ledger.balance import Approvals, Balance, fingerprint, state_of
from discreet.core.ledger.journal import ROOT, Entry, FileJournal, canonical, chained, without_secret
from discreet.core.protection import Protection
from discreet.results.ledger import Ledger
from tests.processes import output

SUFFIXES = ("", "-head")


def spend(ledger: Ledger, epsilon: float = 0.1, **options: Any) -> Reservation:
    release: dict[str, Any] = {
        "question": "count",
        "mechanism": {"name": "laplace", "scale": 10.0},
        "sensitivity": {"l1": 1.0},
        "protection": Protection(),
    }
    return ledger.reserve(PureDP(epsilon), **{**release, **options})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed ledger: everything is in the main file."""
    with Ledger(tmp_path / "ledger.db", PureDP(1.0)) as ledger:
        for _ in range(3):
            ledger.record_answer(spend(ledger), 1.5)
    return tmp_path / "ledger.db"


def rows(path: Path) -> list[tuple[Any, ...]]:
    """The entries as they stand in the file, read without the library."""
    header, *lines = path.read_bytes().decode("ascii").splitlines()
    assert header == "discreet ledger 2"
    split = [line.split(" ", 2) for line in lines]
    return [(seq, kind, body, digest) for seq, (digest, kind, body) in enumerate(split, start=1)]


def rewritten(path: Path, entries: Sequence[tuple[str, str, str]]) -> None:
    """Write hash, kind and body of entries as somebody does who knows the format."""
    lines = ["discreet ledger 2", *(f"{digest} {kind} {body}" for digest, kind, body in entries)]
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())


# -- flipped bytes and torn logs -----------------------------------------------------------------------------


def accepted(source: Path, copy: Path, suffix: str, content: bytes) -> list[tuple[Any, ...]] | None:
    """The entries of a damaged copy, or None where it is refused."""
    for old in copy.parent.glob(f"{copy.name}*"):
        old.unlink()
    for other in SUFFIXES:
        if os.path.exists(f"{source}{other}"):
            shutil.copyfile(f"{source}{other}", f"{copy}{other}")
    Path(f"{copy}{suffix}").write_bytes(content)
    try:
        with Ledger(copy) as ledger:
            ledger.verify()
    except LedgerError:
        return None
    return rows(copy)


def flipped_one_by_one(path: Path, copy: Path, suffix: str, places: Sequence[int]) -> int:
    """Flip one bit at each place in turn; how many of the copies were refused. The others must be unchanged."""
    intact, content = rows(path), Path(f"{path}{suffix}").read_bytes()
    refused = 0
    for place in places:
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        outcome = accepted(path, copy, suffix, bytes(flipped))
        assert outcome in (None, intact), f"byte {place} changed the entries unnoticed"
        refused += outcome is None
    return refused


@pytest.mark.parametrize(("suffix", "number"), [("", 600), ("-head", 200)])
def test_flipped_byte_is_found_or_harmless(path: Path, tmp_path: Path, suffix: str, number: int) -> None:
    content = Path(f"{path}{suffix}").read_bytes()
    # every byte that is not zero (text, keys, headers) and a tenth of the empty space between
    places = [place for place in range(len(content)) if content[place] or place % 10 == 0]
    chosen = places[:: max(1, len(places) // number)]
    assert flipped_one_by_one(path, tmp_path / "flipped.db", suffix, chosen) > len(chosen) / 2


@pytest.mark.deep
@pytest.mark.parametrize("suffix", ["", "-head"])
def test_every_flipped_byte_is_found_or_harmless(path: Path, tmp_path: Path, suffix: str) -> None:
    size = Path(f"{path}{suffix}").stat().st_size
    assert flipped_one_by_one(path, tmp_path / "flipped.db", suffix, range(size)) > 0


def test_cut_file_is_found(path: Path, tmp_path: Path) -> None:
    content = path.read_bytes()
    for place in range(0, len(content), 97):
        assert accepted(path, tmp_path / "cut.db", "", content[:place]) is None, f"cut at byte {place}"


@pytest.mark.parametrize("tail", [b"0", b"0" * 64 + b" spend {", b"\0" * 5000, b"\0" * 4096 + b'"x"}\n'])
def test_entry_that_was_being_written_does_not_count(path: Path, tail: bytes) -> None:
    """What a power cut leaves of a line that was not flushed: part of it, or zeros where blocks are missing."""
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    with Ledger(path, read_only=True) as ledger:
        assert ledger.verify().spends == 3
    assert path.read_bytes() == whole + tail
    with Ledger(path) as ledger:
        spend(ledger)
        assert ledger.verify().spends == 4
    assert len(rows(path)) == 8


def test_zeros_between_entries_are_damage(path: Path) -> None:
    lines = path.read_bytes().split(b"\n")
    lines[4] = b"\0" * len(lines[4])
    path.write_bytes(b"\n".join(lines))
    Path(f"{path}-head").unlink()
    with pytest.raises(LedgerCorrupted, match="entry 4: it is damaged"):
        Ledger(path)


def test_damaged_end_is_not_written_over(path: Path) -> None:
    """A process that did not see the last entry must not take its remains for those of a crash."""
    with Ledger(path) as late:
        with Ledger(path) as other:
            spend(other)
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(LedgerCorrupted, match="entry 8: it is damaged"):
            spend(late)
    assert path.read_bytes().count(b"\n") == 8


@pytest.mark.parametrize("content", [b"", b"discreet led", b"discreet ledger 2\n", b"discreet ledger 2\n00ab op"])
def test_creation_that_was_cut_short_is_done_again(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(content)
    with Ledger(path, PureDP(1.0)) as ledger:
        spend(ledger)
    assert len(rows(path)) == 2


def test_old_copy_is_found(path: Path, tmp_path: Path) -> None:
    shutil.copyfile(path, tmp_path / "old.db")
    with Ledger(path) as ledger:
        spend(ledger)
    shutil.copyfile(tmp_path / "old.db", path)
    with pytest.raises(LedgerCorrupted, match="entry 8 was written"):
        Ledger(path)


def test_deleted_ledger_is_not_started_anew_by_accident(path: Path) -> None:
    path.unlink()
    with pytest.raises(LedgerCorrupted, match="delete the -head file only if you mean to start a new ledger"):
        Ledger(path, PureDP(1.0))
    assert not path.exists()
    Path(f"{path}-head").unlink()
    Ledger(path, PureDP(1.0)).close()


def test_half_a_slot_of_the_witness_is_taken_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that has room for some bytes of a slot only: the entry itself is flushed, so the witness may lag."""
    head, write = Path(f"{path}-head"), os.pwrite
    size = head.stat().st_size

    def short(handle: int, content: bytes, place: int) -> int:
        witness = len(content) == 128 and content.endswith(b"\n")
        return write(handle, content[:37] if witness else content, place)

    with Ledger(path) as ledger:
        monkeypatch.setattr(os, "pwrite", short)
        spend(ledger)
        monkeypatch.undo()
    assert head.stat().st_size == size
    with Ledger(path) as ledger:
        assert len(ledger.events()) == 4
        ledger.verify()


LIMITED = """
import resource, signal, sys
from discreet.results.ledger import Ledger
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
Ledger(sys.argv[1]).close()
"""


@pytest.mark.parametrize("room", [1, 64, 127])
@pytest.mark.parametrize("old", [0, 40])
def test_older_slot_is_not_half_written_over(path: Path, room: int, old: int) -> None:
    """The writer before died between its entry and its slot, and this one's files may not grow as far."""
    head = Path(f"{path}-head")
    with Ledger(path) as ledger:
        while ledger._look().seq < old:
            spend(ledger, 0.001)
        before = head.read_bytes()
        seq = spend(ledger, 0.001).seq
    head.write_bytes(before)
    output([sys.executable, "-c", LIMITED, str(path), str(seq % 32 * 128 + room)])
    assert head.read_bytes() == before
    with Ledger(path) as ledger:
        assert ledger.verify().entries == seq


def test_missing_witness_is_written_again(path: Path) -> None:
    Path(f"{path}-head").unlink()
    Ledger(path).close()
    assert Path(f"{path}-head").stat().st_size > 0


# -- tampering -----------------------------------------------------------------------------------------------


def changed(path: Path, seq: int, change: Any) -> None:
    entries = [(digest, kind, body) for _, kind, body, digest in rows(path)]
    entries[seq - 1] = change(*entries[seq - 1])
    rewritten(path, [entry for entry in entries if entry is not None])


@pytest.mark.parametrize(
    ("seq", "change", "text"),
    [
        (4, lambda digest, kind, body: (digest, kind, body.replace("0.1", "0.0")), "entry 4: its hash does not fit"),
        (4, lambda digest, kind, body: (digest, "answer", body), "entry 4: its hash does not fit"),
        (3, lambda digest, kind, body: (digest.upper(), kind, body), "entry 3: its hash does not fit"),
        (3, lambda digest, kind, body: (digest, kind, "\xff"), "entry 3: its hash does not fit"),
        (4, lambda *_: None, "entry 4: its hash does not fit"),
        (7, lambda *_: None, "entry 7 was written"),
        (1, lambda *_: None, "entry 1: its hash does not fit"),
    ],
)
def test_changed_entries_are_named(path: Path, seq: int, change: Any, text: str) -> None:
    changed(path, seq, change)
    with pytest.raises(LedgerCorrupted, match=re.escape(text)):
        Ledger(path)


def test_emptied_ledger_is_found(path: Path) -> None:
    rewritten(path, [])
    with pytest.raises(LedgerCorrupted, match="entry 7 was written"):
        Ledger(path, PureDP(1.0))


def forged(path: Path, kind: str, change: dict[str, Any], seq: int) -> None:
    """Replace an entry and everything behind it, with hashes that fit; the witness goes, too."""
    kept = [(digest, old, body) for _, old, body, digest in rows(path)][: seq - 1]
    previous = kept[-1][0] if kept else ROOT
    body = canonical("body", {**json.loads(rows(path)[seq - 1][2]), **change})
    rewritten(path, [*kept, (chained(previous, seq, kind, body), kind, body)])
    Path(f"{path}-head").unlink()


@pytest.mark.parametrize(
    ("seq", "kind", "change", "text"),
    [
        (6, "refund", {}, "entry 6: its kind 'refund' is unknown"),
        (6, "open", {}, "entry 6: a ledger begins with one entry of kind 'open'"),
        (1, "spend", {}, "entry 1: a ledger begins with one entry of kind 'open'"),
        (1, "open", {"format": 9}, "it is not of format 3"),
        (6, "spend", {"total": ["1/10"]}, "entry 6: its charge or running total"),
        (6, "spend", {"charge": ["0"]}, "entry 6: its charge or running total"),
        (6, "spend", {"guarantee": {"kind": "pure", "epsilon": 0.05}}, "entry 6: its charge or running total"),
        (
            6,
            "spend",
            {"guarantee": {"kind": "pure", "epsilon": 5.0}, "charge": ["5"], "total": ["26/5"]},
            "entry 6: it overspends the budget",
        ),
        (
            6,
            "spend",
            {"protection": {"unit": {"kind": "row"}, "neighbours": "replace_one", "public": ["size"]}},
            "this ledger counts guarantees for neighbours = ADD_REMOVE",
        ),
        (
            6,
            "spend",
            {"protection": {"unit": {"kind": "id", "column": "row"}, "neighbours": "add_remove", "public": []}},
            "this ledger counts guarantees for unit = 'row'",
        ),
        (6, "spend", {"guarantee": {"kind": "magic"}}, "entry 6: its content cannot be read"),
        (6, "spend", {"partition": "p"}, "entry 6: its content cannot be read"),
        *(
            (6, "spend", {name: wrong}, "entry 6: its content cannot be read (TypeError: a name is no text)")
            for name, wrong in (("request", 5), ("request", [1]), ("team", 1), ("plan", {"a": 1}), ("release_id", 7))
        ),
        (6, "note", {"sources": [3], "anchors": []}, "entry 6: its content cannot be read"),
        (6, "note", {"sources": [], "anchors": [None]}, "entry 6: its content cannot be read"),
        (1, "open", {"dataset": 5}, "entry 1: its content cannot be read (TypeError: a name is no text)"),
        (7, "answer", {"spend": 3}, "entry 7: it answers entry 3, which is not a spend"),
        (7, "answer", {"spend": 2}, "entry 7: entry 2 is answered twice"),
        (6, "answer", {"spend": 4}, "entry 6: its content cannot be read (KeyError: 'answer')"),
    ],
)
def test_forged_entries_are_named(path: Path, seq: int, kind: str, change: dict[str, Any], text: str) -> None:
    forged(path, kind, change, seq)
    with pytest.raises(LedgerCorrupted, match=re.escape(text)):
        Ledger(path)


def test_forged_allowance_is_found(path: Path) -> None:
    forged(path, "open", {"allowance": ["2"]}, 1)
    with pytest.raises(LedgerCorrupted, match="more than its budget implies"):
        Ledger(path)


def test_consistent_rewrite_shows_only_against_an_anchor(path: Path) -> None:
    with Ledger(path) as ledger:
        anchor = ledger.head
    forged(path, "spend", {"question": "sum"}, 6)
    with Ledger(path) as ledger:
        ledger.verify()
        with pytest.raises(LedgerCorrupted, match="The history before the anchor was changed"):
            ledger.verify(anchor=anchor)


def test_change_under_an_open_ledger_is_noticed(path: Path) -> None:
    with Ledger(path) as ledger:
        content = path.read_bytes()
        path.write_bytes(content.replace(rows(path)[6][3].encode(), b"0" * 64))
        with pytest.raises(LedgerCorrupted, match="entry 7: it is not the one seen before"):
            spend(ledger)
        with pytest.raises(LedgerCorrupted, match="entry 7: its hash does not fit"):
            ledger.remaining()
        assert (ledger.budget, repr(ledger)[:7]) == (PureDP(1.0), "Ledger(")
        path.write_bytes(content)
        spend(ledger)
        assert ledger.verify().spends == 4


# -- other files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"name,age\nAnn,41\n", "is another kind of file"),
        (b"x", "is another kind of file"),
        (b"\0" * 100, "is another kind of file"),
        (b"SQLite format 3\0" * 64, "is a ledger of another version"),
        (b"discreet ledger 3\n", "is a ledger of another version"),
    ],
)
def test_other_files_are_not_touched(tmp_path: Path, content: bytes, text: str) -> None:
    path = tmp_path / "other.txt"
    path.write_bytes(content)
    with pytest.raises(LedgerMismatch, match=text):
        Ledger(path, PureDP(1.0))
    assert path.read_bytes() == content


def test_directory_and_missing_file(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable, match="is a directory"):
        Ledger(tmp_path, PureDP(1.0))
    for read_only, budget in ((False, None), (True, PureDP(1.0))):
        with pytest.raises(LedgerUnavailable, match="there is no ledger"):
            Ledger(tmp_path / "none.db", budget, read_only=read_only)
    with pytest.raises(LedgerUnavailable, match="does not exist"):
        Ledger(tmp_path / "no" / "none.db", PureDP(1.0))
    assert list(tmp_path.iterdir()) == []


def test_bad_budget_leaves_no_file(tmp_path: Path) -> None:
    from discreet.core.errors import InvalidParameter
    from discreet.core.guarantee import ApproxDP

    with pytest.raises(InvalidParameter):
        Ledger(tmp_path / "x.db", ApproxDP(1.0, 0.0), accounting="gdp")
    assert list(tmp_path.iterdir()) == []


def test_path_may_hold_any_character(tmp_path: Path) -> None:
    with Ledger(tmp_path / "a b?c#d%20&é.db", PureDP(1.0)) as ledger:
        spend(ledger)
    assert (tmp_path / "a b?c#d%20&é.db").exists()


# -- no space, no permission, no lock ------------------------------------------------------------------------

FILL = """
import resource, signal, sys
from discreet.core.errors import LedgerUnavailable
from discreet.results.ledger import Ledger
from tests.core.test_ledger_faults import spend
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
ledger = Ledger(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
drawn = 0
try:
    while True:
        spend(ledger, 0.0001)
        drawn += 1
except LedgerUnavailable as error:
    print(drawn, error)
"""


def test_full_disk_is_told_and_nothing_is_drawn(path: Path) -> None:
    drawn, text = output([sys.executable, "-c", FILL, str(path)]).split(" ", 1)
    assert "the file may not grow any more" in text
    assert "Nothing was drawn" in text
    with Ledger(path) as ledger:
        assert len(ledger.events()) == 3 + int(drawn)
        ledger.verify()


@pytest.mark.parametrize(("number", "words"), [(errno.ENOSPC, "the disk is full"), (errno.EIO, "Input/output error")])
@pytest.mark.parametrize("call", ["pwrite", "fsync"])
def test_failing_disk_is_told(path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, words: str) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with Ledger(path) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(f"discreet.core.ledger.journal.os.{call}", fail)
            with pytest.raises(LedgerUnavailable, match=words):
                spend(ledger)
        spend(ledger)
        assert ledger.verify().spends == (4 if call == "pwrite" else 5)  # what was not flushed counts, in doubt


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A directory of a user whom file permissions bind; root becomes that user for the test."""
    with tempfile.TemporaryDirectory() as directory:
        user = os.geteuid()
        if user == 0:
            os.chown(directory, 65534, 65534)
            os.seteuid(65534)
        try:
            yield Path(directory)
        finally:
            os.seteuid(user)
            os.chmod(directory, 0o700)


def test_read_only_file(unprivileged: Path) -> None:
    path = unprivileged / "ledger.db"
    Ledger(path, PureDP(1.0)).close()
    path.chmod(0o444)
    with pytest.raises(LedgerUnavailable, match="the file or its directory is read-only"), Ledger(path) as ledger:
        spend(ledger)
    with Ledger(path, read_only=True) as ledger:
        assert ledger.verify().spends == 0


def test_read_only_directory(unprivileged: Path) -> None:
    path = unprivileged / "ledger.db"
    with Ledger(path, PureDP(1.0)) as ledger:
        spend(ledger)
    unprivileged.chmod(0o555)
    with Ledger(path) as ledger:
        spend(ledger)
    with pytest.raises(LedgerUnavailable, match="the file or its directory is read-only"):
        Ledger(unprivileged / "new.db", PureDP(1.0))
    with Ledger(path, read_only=True) as ledger:
        assert ledger.verify().spends == 2


def test_unreadable_file(unprivileged: Path) -> None:
    path = unprivileged / "ledger.db"
    Ledger(path, PureDP(1.0)).close()
    path.chmod(0)
    with pytest.raises(LedgerUnavailable, match="permission denied"):
        Ledger(path)


def test_read_only_ledger_can_be_read(path: Path) -> None:
    with Ledger(path, read_only=True) as ledger:
        assert ledger.remaining() == PureDP(0.7)
        assert ledger.verify().spends == 3
        with pytest.raises(LedgerUnavailable, match="opened with read_only=True"):
            spend(ledger)
        with Ledger(path) as other:
            spend(other)
        assert ledger.remaining() == PureDP(0.6)


def test_lock_is_told(path: Path) -> None:
    with Ledger(path, timeout=0.05) as ledger, open(path, "rb") as blocker:
        fcntl.flock(blocker, fcntl.LOCK_EX)
        with pytest.raises(LedgerUnavailable, match=r"another process held its lock for more than 0.05 s"):
            spend(ledger)
        assert ledger.remaining() == PureDP(0.7)  # readers need no lock
        fcntl.flock(blocker, fcntl.LOCK_UN)
        spend(ledger)


@pytest.mark.parametrize("replaced", [False, True])
def test_moved_file_is_noticed(path: Path, replaced: bool) -> None:
    with Ledger(path) as ledger:
        spend(ledger)
        os.rename(path, f"{path}.moved")
        if replaced:
            shutil.copyfile(f"{path}.moved", path)
        with pytest.raises(LedgerUnavailable, match="was moved, deleted or replaced while it was open"):
            spend(ledger)
        if not replaced:
            os.rename(f"{path}.moved", path)
            spend(ledger)


def test_every_spend_is_flushed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed = []
    fsync = os.fsync
    monkeypatch.setattr("discreet.core.ledger.journal.os.fsync", lambda handle: flushed.append(fsync(handle)))
    with Ledger(path) as ledger:
        for number in range(2, 5):
            spend(ledger)
            assert len(flushed) == number  # one for what was found, one for each spend


def test_entry_of_a_writer_that_died_is_flushed_before_it_is_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed = []
    with Ledger(path) as ledger:
        with monkeypatch.context() as patch:  # a writer that dies between its write and its flush
            patch.setattr("discreet.core.ledger.journal.FileJournal._flush", lambda journal: None)
            with Ledger(path) as dying:
                dying.record_answer(spend(dying, request="r"), 1.5)
        fsync = os.fsync
        monkeypatch.setattr("discreet.core.ledger.journal.os.fsync", lambda handle: flushed.append(fsync(handle)))
        earlier = ledger.requested("r")
        assert earlier is not None
        assert earlier.answer == 1.5
        assert flushed


@pytest.mark.parametrize(("number", "told"), [(0, False), (errno.ENOTSUP, False), (errno.EIO, True)])
def test_macos_flushes_the_memory_of_the_drive(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int, told: bool
) -> None:
    asked = []

    def control(handle: int, command: int) -> None:
        asked.append(command)
        if number:
            raise OSError(number, os.strerror(number))

    with Ledger(path) as ledger, monkeypatch.context() as patch:
        patch.setattr("sys.platform", "darwin")
        patch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
        patch.setattr(fcntl, "fcntl", control)
        with pytest.raises(LedgerUnavailable, match="Input/output error") if told else nullcontext():
            spend(ledger)
    assert set(asked) == {51}


def test_windows_locks_a_byte_that_no_ledger_reaches(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With this system's locks behind the calls of Windows, which were not run on Windows itself."""
    places = set()

    def locking(handle: int, mode: int, length: int) -> None:
        places.add((os.lseek(handle, 0, os.SEEK_CUR), length))
        fcntl.flock(handle, mode)  # raises where another handle has it, as Windows does

    windows = SimpleNamespace(locking=locking, LK_NBLCK=fcntl.LOCK_EX | fcntl.LOCK_NB, LK_UNLCK=fcntl.LOCK_UN)
    with monkeypatch.context() as patch:
        patch.setattr("sys.platform", "win32")
        patch.setattr("discreet.core.ledger.journal.msvcrt", windows, raising=False)
        with Ledger(path, timeout=0.05) as ledger, path.open("rb") as other:
            spend(ledger)
            fcntl.flock(other, fcntl.LOCK_EX)
            with pytest.raises(LedgerUnavailable, match="another process held its lock"):
                spend(ledger)
            fcntl.flock(other, fcntl.LOCK_UN)
            spend(ledger)
    assert places == {(1 << 40, 1)}
    assert Ledger(path).verify().spends == 5


def test_interrupted_step_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with Ledger(path) as ledger:
        head = ledger.head
        with monkeypatch.context() as patch:
            patch.setattr("discreet.core.ledger.account.texts", interrupt)
            with pytest.raises(KeyboardInterrupt):
                spend(ledger)
        assert ledger.head == head
        spend(ledger)


# -- what others put in its place ----------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("kind", ["fifo", "device"])
@pytest.mark.parametrize("read_only", [False, True])
def test_fifo_or_device_is_refused_at_once(tmp_path: Path, suffix: str, kind: str, read_only: bool) -> None:
    path = tmp_path / "ledger.db"
    if suffix:
        Ledger(path, PureDP(1.0)).close()
        Path(f"{path}{suffix}").unlink()
    if kind == "fifo":
        os.mkfifo(f"{path}{suffix}")
    else:
        os.symlink("/dev/zero", f"{path}{suffix}")  # a ledger's own link is followed, its witness's is not
    with pytest.raises(LedgerUnavailable, match=r"it is a FIFO, a device or a socket|it is a symbolic link"):
        Ledger(path, PureDP(1.0), read_only=read_only)


def test_witness_does_not_follow_links(path: Path, tmp_path: Path) -> None:
    """Who may write in the directory must not choose which file of the owner is written over."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious" * 1000)
    with Ledger(path) as ledger:
        os.remove(f"{path}-head")
        os.symlink(victim, f"{path}-head")
        spend(ledger)
    with pytest.raises(LedgerUnavailable, match=r"-head, a second record .* it is a symbolic link"):
        Ledger(path)
    assert victim.read_bytes() == b"precious" * 1000


def test_first_entry_may_be_long(tmp_path: Path) -> None:
    path, name = tmp_path / "ledger.db", "survey " * 300_000
    Ledger(path, PureDP(1.0), dataset=name).close()
    Path(f"{path}-head").unlink()
    content = path.read_bytes()
    assert len(content) > 2 << 20
    with Ledger(path) as ledger:
        assert ledger.dataset == name
        spend(ledger)
    assert path.read_bytes().startswith(content)


def test_endless_entry_is_refused(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.core.ledger.journal._LONGEST", 1 << 21)
    first = tmp_path / "first.db"
    first.write_bytes(b"discreet ledger 2\n" + b"0" * (5 << 20))
    with path.open("ab") as file:
        file.write(b"0" * (5 << 20))
    for place, entry in ((first, 1), (path, 8)):
        with pytest.raises(LedgerCorrupted, match=f"entry {entry}: it has more than 2 MiB, which no entry has"):
            Ledger(place, PureDP(1.0))
    with Ledger(tmp_path / "own.db", PureDP(1.0)) as ledger:
        with pytest.raises(LedgerUnavailable, match="at most 2 MiB in one entry"):
            spend(ledger, question="x" * (3 << 20))
        assert ledger.remaining() == PureDP(1.0)


def test_entry_that_is_not_where_it_was_written_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody writes another entry in its place, with a hash that fits, before it is read back."""
    append = FileJournal._append

    def other(journal: FileJournal, handle: int, entry: Entry) -> None:
        body = entry.body.replace("count", "total")
        previous = rows(path)[-1][3]
        append(journal, handle, Entry(entry.seq, entry.kind, body, chained(previous, entry.seq, entry.kind, body)))

    monkeypatch.setattr(FileJournal, "_append", other)
    with Ledger(path) as ledger, pytest.raises(LedgerCorrupted, match="entry 8: it was written and is not there"):
        spend(ledger)


@pytest.mark.parametrize(
    "change",
    [
        {"allowance": ["1e999999999"]},
        {"allowance": [1]},
        {"teams": "x"},
        {"window": "day"},
        {"salt": "?"},
        {"secret": "?"},
        {"approvals": [[]]},
    ],
)
def test_hostile_opening_is_refused_in_words(path: Path, change: dict[str, Any]) -> None:
    forged(path, "open", change, 1)
    with pytest.raises(LedgerCorrupted, match="entry 1: "):
        Ledger(path)


def test_deeply_nested_entry_is_refused_in_words(path: Path) -> None:
    kept = [(digest, kind, body) for _, kind, body, digest in rows(path)]
    body = '{"spend":2,"answer":' + "[" * 100_000 + "]" * 100_000 + "}"
    rewritten(path, [*kept, (chained(kept[-1][0], 8, "answer", body), "answer", body)])
    with pytest.raises(LedgerCorrupted, match="entry 8: its content cannot be read"):
        Ledger(path)


# -- checkpoints ---------------------------------------------------------------------------------------------


@pytest.fixture
def long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger with everything in it that a checkpoint keeps, and a checkpoint behind which it goes on."""
    monkeypatch.setattr("discreet.core.ledger.account.EVERY", 10)
    path, key = tmp_path / "long.db", Ed25519PrivateKey.generate()
    rule = Approvals(1, {"officer": key.public_key().public_bytes_raw().hex()})
    teams = {"health": PureDP(0.6), "trade": PureDP(0.4)}
    with Ledger(path, PureDP(1.0), approvals=rule, window="year", teams=teams, team="trade") as ledger:
        ledger.partition("regions", ["north", "south"])
        ledger.note(sources=["rows.csv"], anchors=["/elsewhere"])
        ledger.approve({"renew": PureDP(0.5).to_dict()}, by="officer", sign=key.sign)
        releases = {claimed(part): 3 for part in (None, "north")}
        plan = ledger.approve({"releases": releases}, by="officer", sign=key.sign)
        ledger.under(plan)
        for part in (None, "north", None, "north"):
            options = {} if part is None else {"partition": "regions", "parts": part}
            ledger.record_answer(spend(ledger, 0.05, request=f"{part} {ledger.head}", **options), 1.5)
    Ledger(path).close()
    assert Path(f"{path}-state").exists()
    with Ledger(path, team="health") as ledger:
        ledger.under(plan)
        spend(ledger, 0.05)
    return path


def claimed(part: str | None) -> str:
    said = {"question": "count", "mechanism": {"name": "laplace", "scale": 10.0}, "sensitivity": {"l1": 1.0}}
    protection, guarantee = Protection().to_dict(), PureDP(0.05).to_dict()
    where = {"partition": part and "regions", "parts": part and [part]}
    return fingerprint({**said, "protection": protection, "guarantee": guarantee, **where})


def added_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, dict[str, Any]]:
    """How many entries were added up to open a ledger, and what it then holds."""
    applied: list[int] = []
    apply = Balance.apply
    with monkeypatch.context() as patch:
        patch.setattr(Balance, "apply", lambda balance, entry: (applied.append(entry.seq), apply(balance, entry)))
        with Ledger(path, read_only=True) as ledger:
            return len(applied), state_of(ledger._look())


def test_checkpoint_spares_adding_up(long: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number, state = added_up(long, monkeypatch)
    with Ledger(long, read_only=True) as ledger:
        assert ledger.verify().spends == 5
    Path(f"{long}-state").unlink()
    assert (number, state) == (2, added_up(long, monkeypatch)[1])  # the first and the last
    assert added_up(long, monkeypatch)[0] == len(rows(long))


def test_checkpoint_of_other_entries_or_people_is_ignored(long: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number, state, kept = len(rows(long)), added_up(long, monkeypatch)[1], Path(f"{long}-state").read_bytes()
    for damaged in (kept[:-1], kept.replace(b'"spent"', b'"spend"'), b"", kept[65:], b"\xff" + kept):
        Path(f"{long}-state").write_bytes(damaged)
        assert damaged == kept or added_up(long, monkeypatch) == (number, state)
    Path(f"{long}-state").write_bytes(kept)
    with monkeypatch.context() as patch:
        patch.setattr("discreet.core.ledger.journal.os.geteuid", lambda: 12345)
        assert added_up(long, monkeypatch) == (number, state)
    for place in range(20, long.stat().st_size, 97):  # what it covers is looked at, byte by byte
        content = bytearray(long.read_bytes())
        content[place] ^= 1
        other = long.with_name("other.db")
        for suffix, text in (("", bytes(content)), ("-state", kept)):
            Path(f"{other}{suffix}").write_bytes(text)
        with pytest.raises(LedgerError):
            Ledger(other, read_only=True)


def test_verification_does_not_believe_a_checkpoint(long: Path) -> None:
    text = Path(f"{long}-state").read_bytes().partition(b"\n")[2]
    forged_state = json.loads(text)
    forged_state["state"]["amounts"][0] = ["0"]
    text = json.dumps(forged_state).encode()
    Path(f"{long}-state").write_bytes(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
    with pytest.raises(LedgerCorrupted), Ledger(long, read_only=True) as ledger:
        ledger.verify()


def test_ledger_without_its_secret_is_refused(path: Path) -> None:
    """The hash of the first entry covers the secret's hash alone, so that an excerpt can leave the secret out."""
    kept = [(digest, kind, body) for _, kind, body, digest in rows(path)]
    digest, kind, body = kept[0]
    rewritten(path, [(digest, kind, without_secret(body)), *kept[1:]])
    with pytest.raises(LedgerCorrupted, match="entry 1: its secret was removed"):
        Ledger(path)
