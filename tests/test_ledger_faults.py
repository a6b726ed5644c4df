"""Damaged, full, locked, foreign and moved files: every fault is told, and nothing is drawn."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from discreet.core.errors import LedgerCorrupted, LedgerError, LedgerMismatch, LedgerUnavailable
from discreet.core.guarantee import PureDP
from discreet.core.ledger import Ledger, Reservation
from discreet.core.ledger.journal import ROOT, canonical, chained
from discreet.core.protection import Protection

SUFFIXES = ("", "-wal", "-head")


def spend(ledger: Ledger, epsilon: float = 0.1, **options: Any) -> Reservation:
    release: dict[str, Any] = {
        "question": {"ask": "count"},
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


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A ledger as a killed process leaves it: the last entries are only in the log."""
    with Ledger(tmp_path / "open.db", PureDP(1.0)) as ledger:
        for _ in range(3):
            ledger.record_answer(spend(ledger), 1.5)
        for suffix in SUFFIXES:
            shutil.copyfile(f"{tmp_path}/open.db{suffix}", f"{tmp_path}/killed.db{suffix}")
    return tmp_path / "killed.db"


def rows(path: Path) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT seq, kind, body, hash FROM entries").fetchall()
    finally:
        connection.close()


def tampered(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


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


@pytest.mark.parametrize(("suffix", "number"), [("", 1500), ("-head", 200)])
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


def test_damaged_log_is_found_or_harmless(killed: Path, tmp_path: Path) -> None:
    content = Path(f"{killed}-wal").read_bytes()
    intact = accepted(killed, tmp_path / "copy.db", "-wal", content)
    assert intact is not None
    assert len(intact) == 7
    outcomes = []
    for place in range(0, len(content), 211):
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        for damaged in (bytes(flipped), content[:place]):
            outcome = accepted(killed, tmp_path / "torn.db", "-wal", damaged)
            assert outcome in (None, intact), f"damage at byte {place} of the log lost entries unnoticed"
            outcomes.append(outcome)
    assert outcomes.count(None) > len(outcomes) / 2


def test_lost_log_is_found(killed: Path) -> None:
    Path(f"{killed}-wal").unlink()
    with pytest.raises(LedgerCorrupted, match="missing or changed now"):
        Ledger(killed, PureDP(1.0))


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


def test_missing_witness_is_written_again(path: Path) -> None:
    Path(f"{path}-head").unlink()
    Ledger(path).close()
    assert Path(f"{path}-head").stat().st_size > 0


# -- tampering -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET body = '{}' WHERE seq = 2",
        "DELETE FROM entries WHERE seq = 7",
        "INSERT OR REPLACE INTO entries VALUES (7, 'spend', '{}', '')",
        "INSERT INTO entries VALUES (9, 'spend', '{}', '')",
    ],
)
def test_entries_are_append_only(path: Path, statement: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match=r"entries are (never|appended)"):
        tampered(path, statement)


@pytest.mark.parametrize(
    ("statements", "text"),
    [
        (["DROP TRIGGER never_deleted"], "does not have the table and triggers"),
        (["CREATE TABLE other (x)"], "does not have the table and triggers"),
        (["PRAGMA application_id = 1"], "a database of another program (application id 0x1)"),
    ],
)
def test_changed_structure_is_refused(path: Path, statements: list[str], text: str) -> None:
    tampered(path, *statements)
    with pytest.raises(LedgerError, match=re.escape(text)):
        Ledger(path)


def without_triggers(path: Path, *statements: str) -> None:
    """Tamper as somebody does who knows the triggers."""
    connection = sqlite3.connect(path)
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    connection.close()
    dropped = [f"DROP TRIGGER {name}" for name, _ in triggers]
    tampered(path, *dropped, *statements, *(sql for _, sql in triggers))


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("UPDATE entries SET body = replace(body, '0.1', '0.0') WHERE seq = 4", "entry 4: its hash does not fit"),
        ("UPDATE entries SET kind = 'answer' WHERE seq = 4", "entry 4: its hash does not fit"),
        ("UPDATE entries SET hash = upper(hash) WHERE seq = 3", "entry 3: its hash does not fit"),
        ("UPDATE entries SET body = x'00ff' WHERE seq = 3", "entry 3: it holds no text"),
        ("UPDATE entries SET body = CAST(x'ff' AS TEXT) WHERE seq = 3", "is not an intact ledger"),
        ("DELETE FROM entries WHERE seq = 4", "entry 4 is missing"),
        ("DELETE FROM entries WHERE seq = 7", "entry 7 was written"),
        ("DELETE FROM entries WHERE seq = 1", "entry 1 is missing"),
        ("DELETE FROM entries", "has no entries"),
    ],
)
def test_changed_entries_are_named(path: Path, statement: str, text: str) -> None:
    without_triggers(path, statement)
    with pytest.raises(LedgerCorrupted, match=re.escape(text)):
        Ledger(path)


def forged(path: Path, kind: str, change: dict[str, Any], seq: int) -> None:
    """Replace an entry and everything behind it, with hashes that fit; the witness goes, too."""
    import json

    kept = rows(path)[: seq - 1]
    previous = kept[-1][3] if kept else ROOT
    body = canonical("body", {**json.loads(rows(path)[seq - 1][2]), **change})
    digest = chained(previous, seq, kind, body)
    quoted = body.replace("'", "''")
    insert = f"INSERT INTO entries VALUES ({seq}, '{kind}', '{quoted}', '{digest}')"
    without_triggers(path, f"DELETE FROM entries WHERE seq >= {seq}", insert)
    Path(f"{path}-head").unlink()


@pytest.mark.parametrize(
    ("seq", "kind", "change", "text"),
    [
        (6, "refund", {}, "entry 6: its kind 'refund' is unknown"),
        (6, "open", {}, "entry 6: a ledger begins with one entry of kind 'open'"),
        (1, "spend", {}, "entry 1: a ledger begins with one entry of kind 'open'"),
        (1, "open", {"format": 3}, "format 3 is not the supported format 2"),
        (6, "spend", {"total": ["1/10"]}, "entry 6: its charge or running total"),
        (6, "spend", {"charge": ["0"]}, "entry 6: its charge or running total"),
        (6, "spend", {"guarantee": {"kind": "pure", "epsilon": 0.05}}, "entry 6: its charge or running total"),
        (
            6,
            "spend",
            {"guarantee": {"kind": "pure", "epsilon": 5.0}, "charge": ["5"], "total": ["26/5"]},
            "entry 6: it overspends the budget",
        ),
        (6, "spend", {"neighbours": "replace_one"}, "entry 6: it has other neighbours"),
        (6, "spend", {"unit": {"kind": "id", "column": "user"}}, "entry 6: it has other unit"),
        (6, "spend", {"guarantee": {"kind": "magic"}}, "entry 6: its content cannot be read"),
        (6, "spend", {"partition": "p"}, "entry 6: its content cannot be read"),
        (7, "answer", {"spend": 3}, "entry 7: it answers entry 3, which is no spend"),
        (7, "answer", {"spend": 2}, "entry 7: entry 2 is answered twice"),
    ],
)
def test_forged_entries_are_named(path: Path, seq: int, kind: str, change: dict[str, Any], text: str) -> None:
    forged(path, kind, change, seq)
    with pytest.raises(LedgerCorrupted, match=re.escape(text)):
        Ledger(path)


def test_forged_allowance_is_found_by_verify(path: Path) -> None:
    forged(path, "open", {"allowance": ["2"]}, 1)
    with Ledger(path) as ledger, pytest.raises(LedgerCorrupted, match="more than its budget implies"):
        ledger.verify()


def test_consistent_rewrite_shows_only_against_an_anchor(path: Path) -> None:
    with Ledger(path) as ledger:
        anchor = ledger.head
    forged(path, "spend", {"question": {"ask": "sum"}}, 6)
    with Ledger(path) as ledger:
        ledger.verify()
        with pytest.raises(LedgerCorrupted, match="The history before the anchor was changed"):
            ledger.verify(anchor=anchor)


def test_replacement_under_an_open_ledger_is_noticed(path: Path) -> None:
    with Ledger(path) as ledger:
        without_triggers(path, "UPDATE entries SET hash = 'x' WHERE seq = 7")
        with pytest.raises(LedgerCorrupted, match="entry 7: it is not the one seen before"):
            spend(ledger)
        with pytest.raises(LedgerCorrupted, match="entry 7: its hash does not fit"):
            ledger.remaining()


# -- other files ---------------------------------------------------------------------------------------------


def test_foreign_database_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    tampered(path, "CREATE TABLE people (name)")
    before = path.read_bytes()
    with pytest.raises(LedgerMismatch, match="a database of another program"):
        Ledger(path, PureDP(1.0))
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"not a database, but longer than its header" * 100, b"SQLite format 3\0" * 64])
def test_no_database_is_not_touched(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.txt"
    path.write_bytes(content)
    with pytest.raises(LedgerCorrupted, match="is not an intact ledger"):
        Ledger(path, PureDP(1.0))
    assert path.read_bytes() == content


def test_directory_and_missing_file(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable, match="is a directory"):
        Ledger(tmp_path, PureDP(1.0))
    for read_only, budget in ((False, None), (True, PureDP(1.0))):
        with pytest.raises(LedgerUnavailable, match="there is no ledger at"):
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
from discreet.core.ledger import Ledger
from tests.test_ledger_faults import spend
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
ledger = Ledger(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
drawn = 0
try:
    while True:
        spend(ledger, 0.0001)
        drawn += 1
except LedgerUnavailable as error:
    print(drawn, error)
"""


def test_full_disk_is_told_and_nothing_is_drawn(path: Path) -> None:
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", FILL, str(path)], capture_output=True, text=True, cwd=root, check=True)
    drawn, text = done.stdout.split(" ", 1)
    assert "reading or writing failed" in text or "the disk is full" in text
    assert "Nothing was drawn" in text
    with Ledger(path) as ledger:
        assert len(ledger.events()) == 3 + int(drawn)
        ledger.verify()


def test_full_database_is_told(path: Path) -> None:
    with Ledger(path) as ledger:
        connection = ledger._book.journal.connection()
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(LedgerUnavailable, match=r"the disk is full\. Free some space"):
            spend(ledger, question="x" * 100_000)
        assert ledger.verify().spends == 3
        connection.execute("PRAGMA max_page_count = 100000")
        spend(ledger)


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
    with pytest.raises(LedgerUnavailable, match="cannot be used"), Ledger(path) as ledger:
        spend(ledger)
    with pytest.raises(LedgerUnavailable, match="the file cannot be opened or created"):
        Ledger(unprivileged / "new.db", PureDP(1.0))
    with Ledger(path, read_only=True) as ledger:
        assert ledger.verify().spends == 1


def test_unreadable_file(unprivileged: Path) -> None:
    path = unprivileged / "ledger.db"
    Ledger(path, PureDP(1.0)).close()
    path.chmod(0)
    with pytest.raises(LedgerUnavailable, match="the file cannot be opened or created"):
        Ledger(path)


def test_read_only_connection_is_told(path: Path) -> None:
    """What SQLite reports for a read-only file, for every user."""
    with Ledger(path) as ledger:
        ledger._book.journal.connection().execute("PRAGMA query_only = ON")
        with pytest.raises(LedgerUnavailable, match="the file or its directory is read-only"):
            spend(ledger)


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
    blocker = sqlite3.connect(path, isolation_level=None)
    with Ledger(path, timeout=0.05) as ledger:
        blocker.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerUnavailable, match=r"another process held its lock for more than 0.05 s"):
            spend(ledger)
        assert ledger.remaining() == PureDP(0.7)  # readers need no lock
        blocker.execute("ROLLBACK")
        spend(ledger)
    blocker.close()


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize("replaced", [False, True])
def test_moved_file_is_noticed(path: Path, suffix: str, replaced: bool) -> None:
    with Ledger(path) as ledger:
        spend(ledger)
        os.rename(f"{path}{suffix}", f"{path}.moved")
        if replaced:
            shutil.copyfile(f"{path}.moved", f"{path}{suffix}")
        with pytest.raises(LedgerError, match=r"moved, deleted or replaced while it was open|cannot be used"):
            spend(ledger)


def test_every_commit_is_flushed(path: Path) -> None:
    with Ledger(path) as ledger:
        connection = ledger._book.journal.connection()
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_interrupted_step_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with Ledger(path) as ledger:
        head = ledger.head
        with monkeypatch.context() as patch:
            patch.setattr("discreet.core.ledger.ledger.texts", interrupt)
            with pytest.raises(KeyboardInterrupt):
                spend(ledger)
        assert ledger.head == head
        spend(ledger)
