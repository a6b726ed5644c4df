"""Snapshot: a session reads its source once, whatever the source does afterwards, and however many threads ask."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import duckdb
import ibis
import numpy as np
import pyarrow as pa
import pytest

from discreet import Bounds, Categories, Contribution, Feature, Ledger, Neighbours, PrivacyUnit, PureDP, Schema, Session
from discreet.core.errors import ReleaseFailed, SourceError
from discreet.core.rows import Selected, choice, engines, histograms, keep, take, totals
from discreet.core.rows.engines import remove_directory, spill_directory
from discreet.core.rows.read import Dataset
from discreet.core.rows.source import open_source
from discreet.questions.comparison.question import arms_on_engine
from discreet.questions.count import CountQuestion
from tests.processes import output, started, told

ONE_ROW = PrivacyUnit("u", contribution=Contribution(groups=1, rows=1))
LABELS = {"l": Categories(["a", "b"]), "x": Bounds(0, 9, grid=1)}


def rows_of(session):
    """The rows that an ordinary question is asked of."""
    return session._rows(CountQuestion(session.schema, epsilon=1.0))


def test_a_source_that_moves_between_scans_keeps_every_limit():
    """A view over random() gives other rows at each scan; one unit with limit 1 counts at most once."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 1 AS u, 'a' AS l, i % 7 AS x FROM range(1000) r(i)")
    connection.execute("CREATE VIEW v AS SELECT * FROM t WHERE random() < 0.5")
    for _ in range(20):
        snapshot = take(open_source(connection, table="v"), Schema(columns=LABELS, unit=ONE_ROW))
        for selected in (Selected(by=("l",)), Selected(by=("l",), columns=("x",))):
            assert totals(snapshot, selected).counts.tolist() == [1, 0]
        [(_, counts), _] = histograms(snapshot, Selected(by=("l",), columns=("x",)))
        assert counts.tolist() == [1]


def test_a_file_that_grows_has_no_part_in_later_answers(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("u,l,x\n" + "".join(f"{i},a,1\n" for i in range(100)))
    session = Session(path, Schema(columns=LABELS, unit=ONE_ROW), ledger=":memory:", budget=PureDP(1.0))
    first = totals(rows_of(session), Selected(by=("l",))).counts.tolist()
    with path.open("a") as file:
        file.write("".join(f"{i},b,2\n" for i in range(5000)))
    again = totals(rows_of(session), Selected(by=("l",), columns=("x",)), [("x",)])
    assert first == again.counts.tolist() == [100, 0]
    assert again.sums["x",].tolist() == [100, 0]


def test_the_source_is_scanned_once():
    """Nine more questions about the same groups and limits store nothing: the rows are encoded and bounded once."""
    scans = []
    rows = pa.table({"u": [1, 2, 3], "l": ["a", "b", "a"], "x": [1, 2, 3]})

    class Counting(Dataset):
        def store(self, name, expression, together=()):
            scans.append(name)
            return super().store(name, expression, together)

    opened = open_source(rows)
    dataset = Counting(opened.table, opened.connection, opened.name)
    snapshot = take(dataset, Schema(columns=LABELS, unit=ONE_ROW), salt="s")
    assert len(scans) == 1
    totals(snapshot, Selected(by=("l",)))
    stored = len(scans)
    for _ in range(3):
        totals(snapshot, Selected(by=("l",)))
        totals(snapshot, Selected(by=("l",), columns=("x",)), [("x",), ("x", "x")])
        histograms(snapshot, Selected(by=("l",), columns=("x",)))
    assert len(scans) == stored


def test_columns_with_gaps_are_bounded_apart():
    """A row that misses x counts where x is not asked for, and only there."""
    rows = pa.table({"u": [1, 1, 2], "l": ["a", "a", "b"], "x": [None, 4, 5]})
    schema = Schema(columns=LABELS, unit=ONE_ROW)
    for salt in range(20):
        snapshot = take(open_source(rows), schema, salt=str(salt))
        assert totals(snapshot, Selected(by=("l",))).counts.tolist() == [1, 1]
        assert totals(snapshot, Selected(by=("l",), columns=("x",)), [("x",)]).sums["x",].tolist() == [4, 5]


def test_choices_beyond_the_remembered_ones_are_made_again():
    rows = pa.table({"u": [1] * 6, "l": ["a", "b"] * 3, "x": range(6)})
    snapshot = take(open_source(rows), Schema(columns=LABELS, unit=ONE_ROW), salt="s")
    for _ in range(2):
        for most in range(1, 8):
            limits = Contribution(total=most)
            assert totals(snapshot, Selected(by=("l",), contribution=limits)).counts.sum() == min(most, 6)
    assert len([one for one in snapshot.kept if isinstance(one, tuple)]) == keep._MOST_KEPT


def test_an_engine_that_keeps_too_much_is_not_believed(monkeypatch):
    rows = pa.table({"u": [1] * 6, "l": ["a", "b"] * 3, "x": range(6)})
    schema = Schema(columns=LABELS, unit=PrivacyUnit("u"))
    monkeypatch.setattr(choice, "evenly", lambda position, *_: position >= 0)
    for limits in (Contribution(groups=1, rows=9), Contribution(rows=2), Contribution(total=2)):
        with pytest.raises(SourceError, match="more of a unit than its limits"):
            totals(take(open_source(rows), schema), Selected(by=("l",), contribution=limits))


@pytest.mark.parametrize(
    ("memory", "engine"), [(None, 2.3e9), ("3GB", 2.3e9), ("1.5 gb", 8e8), ("600MB", 3e8), ("2GiB", 2 * 2**30)]
)
def test_what_the_engine_may_take_leaves_room_for_the_rest(memory, engine):
    connection = open_source(pa.table({"x": [1]}), memory=memory).connection
    shown, unit = connection.con.execute("SELECT current_setting('memory_limit')").fetchone()[0].split()
    assert float(shown) * {"MiB": 2**20, "GiB": 2**30}[unit] == pytest.approx(engine, rel=0.05)


# ---- the public size ----------------------------------------------------------------------------------------------


SIZED = Schema(
    columns={"x": Bounds(0, 1, grid=1, nulls=0)}, neighbours=Neighbours.REPLACE_ONE, size=1_000_000
)  # fmt: skip


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: s.mean("x", epsilon=1.0),
        lambda s: s.count(epsilon=1.0, by=()),
        lambda s: s.quantile("x", 0.5, epsilon=1.0),
        lambda s: s.variance("x", epsilon=1.0),
    ],
)
def test_the_declared_size_is_that_of_the_rows_that_answer(ask):
    session = Session(pa.table({"x": [1.0] * 10}), SIZED, ledger=":memory:", budget=PureDP(1.0))
    with pytest.raises(ReleaseFailed):
        ask(session)
    assert session.ledger.remaining() == PureDP(0.0)
    with pytest.raises(SourceError, match=r"size = 1000000: .*10 units"):
        session.check_source()


def test_rows_deleted_after_the_first_question_are_still_in_the_rows():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 1.0 AS x FROM range(1000)")
    schema = Schema(columns={"x": Bounds(0, 1, grid=1, nulls=0)}, neighbours=Neighbours.REPLACE_ONE, size=1000)
    session = Session(connection, schema, table="t", ledger=":memory:", budget=PureDP(2.0))
    session.mean("x", epsilon=1.0)
    connection.execute("DELETE FROM t WHERE rowid >= 10")
    assert totals(rows_of(session), Selected(columns=("x",))).counts[0] == 1000
    again = Session(connection, schema, table="t", ledger=session.ledger)
    with pytest.raises(ReleaseFailed):
        again.mean("x", epsilon=1.0)


def test_the_declared_size_is_compared_without_assertions():
    """The same under ``python -O``, which removes assert statements."""
    code = """
        import pyarrow as pa
        from discreet import Bounds, Neighbours, PureDP, Schema, Session
        from discreet.core.errors import SourceError
        schema = Schema(columns={"x": Bounds(0, 1, grid=1, nulls=0)}, neighbours=Neighbours.REPLACE_ONE, size=1_000_000)
        try:
            Session(pa.table({"x": [1.0] * 10}), schema, ledger=":memory:", budget=PureDP(1.0)).mean("x", epsilon=1.0)
        except SourceError as refusal:
            print("refused:", type(refusal).__name__)
        assert False, "not run"
    """
    said = output([sys.executable, "-O", "-c", textwrap.dedent(code)])
    assert said.startswith("refused: ReleaseFailed")


# ---- threads ------------------------------------------------------------------------------------------------------


def crowd(rows=20_000):
    rng = np.random.default_rng(6)
    return pa.table(
        {"u": rng.integers(0, rows // 4, rows), "l": rng.choice(["a", "b"], rows), "x": rng.integers(0, 10, rows)}
    )


def test_eight_threads_get_the_answers_of_one():
    unit = PrivacyUnit("u", contribution=Contribution(groups=1, rows=2))
    schema = Schema(columns=LABELS, unit=unit)
    alone = Session(crowd(), schema, ledger=Ledger(":memory:", PureDP(1.0)))
    shared = Session(crowd(), schema, ledger=alone.ledger)
    kinds = [
        (lambda s: totals(rows_of(s), Selected(by=("l",))).counts.tolist()),
        (lambda s: totals(rows_of(s), Selected(columns=("x",)), [("x", "x")]).sums["x", "x"].tolist()),
        (lambda s: [one.tolist() for one in histograms(rows_of(s), Selected(columns=("x",)))[0]]),
        (lambda s: totals(rows_of(s), Selected(by=("l",), contribution=Contribution(total=1))).counts.tolist()),
    ]
    expected = [kind(alone) for kind in kinds]
    together = threading.Barrier(8)

    def ask(place):
        together.wait()
        return [kinds[(place + turn) % 4](shared) for turn in range(8)]

    with ThreadPoolExecutor(8) as pool:
        for place, found in enumerate(pool.map(ask, range(8))):
            assert found == [expected[(place + turn) % 4] for turn in range(8)]


def test_questions_in_the_background_of_an_event_loop():
    session = Session(crowd(), Schema(columns=LABELS), ledger=":memory:", budget=PureDP(8.0))

    async def all_at_once():
        return await asyncio.gather(*(asyncio.to_thread(session.count, epsilon=1.0, by="l") for _ in range(8)))

    for answer in asyncio.run(all_at_once()):
        # Geometric noise at ε = 1 exceeds 100 with probability below 1e-40.
        assert abs(float(np.sum(answer.value)) - 20_000) < 200
    assert session.ledger.remaining() == PureDP(0.0)


# ---- large numbers ------------------------------------------------------------------------------------------------


def test_sums_are_clipped_before_they_are_cast():
    """8.5 million rows of 2⁴⁰ of one unit overflow 64 bits; the clipped sum does not."""
    connection = duckdb.connect()
    connection.execute("CREATE VIEW v AS SELECT 1 AS u, 'a' AS l, 1099511627776 AS x FROM range(8500000)")
    columns = {"l": Categories(["a", "b"]), "x": Bounds(0, 2**40, grid=1)}
    features = {
        "x": Feature(of="x", take="sum", low=0, high=2**40),
        "l": Feature(of="l", take="min"),
        "m": Feature(of="x", take="mean"),
    }
    schema = Schema(columns=columns, unit=PrivacyUnit("u"), features=features).per_unit()
    snapshot = take(open_source(connection, table="v"), schema, salt="s")
    arms = arms_on_engine(snapshot, Selected(by=("l",), columns=("x",)), 4)
    assert (arms.counts.sum(), arms.total(0), arms.squares) == (1, 2**40, (2**80, 0))
    found = totals(snapshot, Selected(columns=("x", "m")), [("x",), ("m",)])
    assert (found.sums["x",].tolist(), found.sums["m",].tolist()) == ([2**40], [2**40])


def test_batches_are_whole_although_others_use_the_connection():
    """A result that streams would end at the next query on its connection, and say nothing."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT range AS x FROM range(10000)")
    dataset = open_source(connection, table="t")
    found = []

    def visit(batch):
        found.append(len(batch))
        connection.execute("DROP TABLE IF EXISTS other")

    dataset.scan(dataset.table, visit, 2048)
    assert len(found) > 1
    assert sum(found) == 10_000


# ---- spilling -----------------------------------------------------------------------------------------------------


def test_what_dead_processes_spilled_is_removed_and_what_live_ones_spill_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code = "from discreet.core.rows.engines import *; d = spill_directory(); print(d[0], flush=True); input()"
    places = {**os.environ, "TMPDIR": str(tmp_path)}
    both = [started([sys.executable, "-c", code], env=places, stdin=subprocess.PIPE) for _ in range(2)]
    dead, live = (tmp_path / Path(one.stdout.readline().strip()) for one in both)
    assert tmp_path not in (dead, live), both[0].communicate("\n")
    (dead / "block.tmp").write_bytes(b"private")
    both[0].send_signal(signal.SIGKILL)
    both[0].communicate()
    assert dead.exists()
    mine, held = spill_directory()
    assert not dead.exists()
    assert live.exists()
    assert mine.stat().st_mode & 0o077 == 0
    remove_directory(mine, held)
    assert not mine.exists()
    told(both[1], given="\n")


def test_a_session_spills_within_its_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    # Each thread of the engine needs some megabytes, and a large machine has many.
    monkeypatch.setattr(ibis.duckdb, "connect", partial(ibis.duckdb.connect, threads=4))
    schema = Schema(columns=LABELS, unit=PrivacyUnit("u", contribution=Contribution(groups=1, rows=1)))
    session = Session(crowd(400_000), schema, ledger=":memory:", budget=PureDP(1.0), memory="60MB")
    assert totals(rows_of(session), Selected(by=("l",))).counts.sum() == len(set(crowd(400_000)["u"].to_pylist()))
    assert [one.name.startswith("discreet-spills-") for one in tmp_path.iterdir()] == [True]
    del session
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_being_made_is_not_swept_away(tmp_path, monkeypatch):
    """Another process may look for dead directories at any moment, also before this one holds its lock."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    lock, swept = engines._locked, []

    def interrupted(directory, *, wait):
        if wait and not swept:
            swept.append(directory)
            remove_directory(*spill_directory())  # as another process does
            assert not directory.exists()
        return lock(directory, wait=wait)

    monkeypatch.setattr(engines, "_locked", interrupted)
    directory, held = spill_directory()
    assert directory.is_dir()
    assert swept != [directory]
    remove_directory(*spill_directory())
    assert directory.is_dir()
    remove_directory(directory, held)
    assert not directory.exists()


def test_what_other_users_name_like_a_directory_of_ours_is_left_alone(tmp_path, monkeypatch):
    """A pipe would wait for ever to be opened; a link, or a directory of somebody else, is not ours to remove."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    outside = tmp_path / "kept"
    outside.mkdir()
    os.mkfifo(tmp_path / "discreet-spills-pipe")
    (tmp_path / "discreet-spills-file").touch()
    (tmp_path / "discreet-spills-link").symlink_to(outside)
    (tmp_path / "discreet-spills-theirs").mkdir()
    found = os.lstat
    monkeypatch.setattr(os, "lstat", lambda path, **more: theirs(found(path, **more), path))
    code = "from discreet.core.rows.engines import *; remove_directory(*spill_directory())"
    output([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)})  # hangs where the pipe is opened
    (tmp_path / "discreet-spills-theirs").mkdir(exist_ok=True)
    remove_directory(*spill_directory())
    left = {one.name.removeprefix("discreet-spills-") for one in tmp_path.iterdir()}
    assert left == {"pipe", "file", "link", "theirs", "kept"}


def theirs(found, path):
    """What the system says of a path, as if another user owned those named so."""
    stranger = found.st_uid + 1 if str(path).endswith("theirs") else found.st_uid
    return os.stat_result([*found[:4], stranger, *found[5:]])
