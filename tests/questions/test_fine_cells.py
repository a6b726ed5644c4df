"""Fine cells: one pass over the rows, against bisection in plain Python, for values that nobody hopes for."""

import itertools
import math
from bisect import bisect_right
from datetime import date, datetime
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from discreet import Neighbours, PrivacyUnit, PureDP, Schema, Session
from discreet.core.rows import take
from discreet.core.rows.source import open_source
from discreet.questions.profile.columns import (
    FIRST,
    ColumnCells,
    even_edges,
    number_cells,
    octave_quarters,
    unit_rows,
)
from discreet.questions.profile.columns import fine_counts as counts_of
from discreet.questions.profile.question import ProfileQuestion

NOTHING = Schema(columns={})
NUMBERS = frozenset("0123456789+-.eE")
WORDS = {"true": 1.0, "false": 0.0, "inf": math.inf, "+inf": math.inf, "-inf": -math.inf, "infinity": math.inf}


def fine_counts(snapshot, columns, order):
    return counts_of(unit_rows(snapshot, columns, order), columns)


def read(value):
    """The number, the day or None, and whether the value is missing: an oracle without an engine."""
    if value is None or value != value:
        return None, None, True
    if isinstance(value, date):
        return None, (value if type(value) is date else value.date()).toordinal() - date(1970, 1, 1).toordinal(), False
    if not isinstance(value, str):
        return float(value), None, False
    text = value.strip(" \t")
    if text and set(text) <= NUMBERS:
        try:
            return float(text), None, False
        except ValueError:
            pass
    if text.lower() in WORDS:
        return WORDS[text.lower()], None, False
    try:
        day = date.fromisoformat(text.removesuffix(" 12:00").replace("/", "-"))
        return None, day.toordinal() - date(1970, 1, 1).toordinal(), False
    except ValueError:
        return None, None, not text


def cell_of(value, grid):
    """The cell of a value, by exact comparisons with the edges."""
    number, day, missing = read(value)
    if number is not None:
        decimals = grid.split and math.isfinite(number) and number != math.floor(number)
        return 2 + bisect_right(grid.numbers, number) * (1 + grid.split) + decimals
    return 1 - missing if day is None else grid.first_date + bisect_right(grid.dates, day)


def counted(values, grid):
    cells = [0] * grid.size
    for value in values:
        cells[cell_of(value, grid)] += 1
    return cells


TEXTS = [
    "", " ", "\t", " \t ", "0", "-0", "1", "1.0", "01", "+7", " 7 ", "\t7", "1e3", "-2.5", ".5", "5.", "1e-320",
    "-1e-320", "0.0009765625", "0.0009", "1024", "1023.999", "-1024", "1e40", "-1e300", "1e999", "-1e999", "true",
    " FALSE ", "inf", "-inf", "Infinity", "12345678901234567890123", "9007199254740993", "2020-02-29", "2021-02-29",
    "1899-12-31", "1900-01-01", "2049-12-31", "2051-01-01", "0001-01-01", "9999-12-31", "0000-01-01", " 2020/01/05",
    "2020-13-01", "2020-01-05 12:00", "abc", "NA", "nan", "12,5", "1 2", "--1", "0x10", "é", "2020-01-05x", "t", "i",
    "1_000", "١٢",
]  # fmt: skip
EDGES = [edge for edge in FIRST.numbers if abs(edge) in (2.0**-10, 1.0, 2.0**40)]
FLOATS = [
    0.0, -0.0, 5e-324, -5e-324, math.inf, -math.inf, math.nan, None, 2.0**-16, -(2.0**-16), 2.0**48, -(2.0**48), 1e300,
    -1e300, 2.0**53 + 2, 0.1, -0.1, 1 / 3, 1e-12, -1e-12, *EDGES, *(math.nextafter(edge, math.inf) for edge in EDGES),
    *(math.nextafter(edge, -math.inf) for edge in EDGES),
]  # fmt: skip
COLUMNS = {
    "text": pa.array(TEXTS),
    "float": pa.array(FLOATS),
    "single": pa.array([0.1, -2.5, None, 3e38], pa.float32()),
    "whole": pa.array([0, -1, 2**63 - 1, -(2**63), 2**53 + 1, None]),
    "decimal": pa.array([Decimal("0.1"), Decimal("-12345678901234567890.5"), Decimal("7"), None], pa.decimal128(38, 5)),
    "boolean": pa.array([True, False, None]),
    "date": pa.array([date(1, 1, 1), date(9999, 12, 31), date(2020, 2, 29), date(1970, 1, 1), None]),
    "time": pa.array([datetime(1969, 12, 31, 23, 59, 59), datetime(2024, 1, 1), None]),
}
GRIDS = [
    FIRST,
    ColumnCells((-1.0, 0.0, 1.0, 2.5)),
    ColumnCells((), (-1.0, 0.0, 18262.0, 18322.0)),
    ColumnCells(),
    ColumnCells(octave_quarters(-4.0, 1024.0, whole=False), split=True),
    ColumnCells(even_edges(1792.0, 2560.0, whole=True), (0.0,)),
]


def values_of(column):
    return [one.replace(tzinfo=None) if isinstance(one, datetime) else one for one in column.to_pylist()]


@pytest.mark.parametrize("kind", COLUMNS)
def test_every_value_lies_in_the_cell_that_bisection_finds(kind):
    snapshot = take(open_source(pa.table({"x": COLUMNS[kind]})), NOTHING)
    found = fine_counts(snapshot, ["x"], "ymd")["x"]
    for grid in GRIDS:
        assert found.cells(grid) == counted(values_of(COLUMNS[kind]), grid)


def test_database_and_columns_side_by_side():
    """Types that frames do not keep, and several columns with values of different lengths, in one pass."""
    size = max(len(column) for column in COLUMNS.values())
    table = pa.table({k: pa.array([*values_of(c), *[None] * (size - len(c))], c.type) for k, c in COLUMNS.items()})
    connection = duckdb.connect()
    connection.register("arrow", table)
    connection.execute("CREATE TABLE people AS SELECT * FROM arrow")
    found = fine_counts(take(open_source(connection, table="people"), NOTHING), [*COLUMNS], "ymd")
    for name in COLUMNS:
        assert found[name].cells(FIRST) == counted(values_of(table[name]), FIRST), name


@pytest.mark.deep
def test_spark_finds_the_same_cells():
    pytest.importorskip("pyspark")
    columns = {name: column for name, column in COLUMNS.items() if name not in ("decimal", "date", "time")}
    size = max(len(column) for column in columns.values())
    table = pa.table({k: pa.array([*values_of(c), *[None] * (size - len(c))], c.type) for k, c in columns.items()})
    found = fine_counts(take(open_source(table, engine="spark"), NOTHING), [*columns], "ymd")
    for name, grid in itertools.product(columns, GRIDS):
        assert found[name].cells(grid) == counted(values_of(table[name]), grid), name
    session = Session(table, Schema(columns={}), engine="spark", ledger=":memory:", budget=PureDP(1.0))
    assert set(session.profile(epsilon=1.0).columns) == set(columns)


def test_cells_are_ordered_and_edges_exact():
    rng = np.random.default_rng(3)
    values = np.sort(np.concatenate([rng.normal(size=4000) * 2.0 ** rng.integers(-30, 60, 4000), [-np.inf, 0, np.inf]]))
    assert (np.diff(number_cells(values)) >= 0).all()
    grid = ColumnCells(tuple(rng.normal(size=300) * 2.0 ** rng.integers(-15, 47, 300)))
    edges = np.array(grid.numbers)
    assert ColumnCells(grid.numbers) == grid
    for near in (edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)):
        cells = number_cells(near)
        assert (np.searchsorted(number_cells(edges), cells, "right") == np.searchsorted(edges, near, "right")).all()


def test_one_and_two_threads_and_any_batches_count_the_same(monkeypatch):
    rng = np.random.default_rng(5)
    rows = pa.table({"x": rng.lognormal(5, 2, 300_000), "t": rng.choice(["7", "x", "", "2020-01-01"], 300_000)})
    connection, found = duckdb.connect(), []
    connection.register("rows", rows)
    connection.execute("CREATE TABLE people AS SELECT * FROM rows")
    for threads, at_once in ((1, 2**23), (2, 2**23), (2, 5000)):
        monkeypatch.setattr("discreet.questions.profile.columns._AT_ONCE", at_once)
        connection.execute(f"SET threads = {threads}")
        counts = fine_counts(take(open_source(connection, table="people"), NOTHING), ["x", "t"], "ymd")
        found.append({name: one.cells(FIRST) for name, one in counts.items()})
    assert found[0] == found[1] == found[2]
    assert sum(found[0]["x"]) == sum(found[0]["t"]) == 300_000


def test_a_unit_counts_with_one_row():
    table = pa.table(
        {"u": ["a", "a", "a", "b", None], "x": ["1", "2", "z", "2020-01-01", "5"], "y": [1.0, 2.0, 3.0, None, 5.0]}
    )
    snapshot = take(open_source(table), Schema(columns={}, unit=PrivacyUnit("u")), salt="s" * 64)
    found = fine_counts(snapshot, ["x", "y"], "ymd")
    assert sum(found["x"].cells(FIRST)) == sum(found["y"].cells(FIRST)) == 2
    assert found["x"].cells(FIRST)[FIRST.first_date + bisect_right(FIRST.dates, 18262)] == 1
    assert found["y"].cells(FIRST)[0] == 1
    assert "1" not in repr(found["x"])


def test_a_unit_moves_one_count_of_each_column():
    """Brute force over all pairs of small tables: what the sensitivity says of one draw."""
    values, grid = ["", "3", "x"], ColumnCells((0.0,), (0.0,), True)
    tables = [rows for n in range(3) for rows in itertools.product(values, repeat=n)]

    def counts(rows):
        snapshot = take(open_source(pa.table({"a": pa.array(rows, "string"), "b": pa.array(rows, "string")})), NOTHING)
        fine = fine_counts(snapshot, ["a", "b"], "ymd")
        return np.array([fine[name].cells(grid) for name in "ab"])

    found = {rows: counts(rows) for rows in tables}
    worst = dict.fromkeys(Neighbours, 0)
    for one, other in itertools.combinations(found, 2):
        added = len(other) == len(one) + 1 and other[: len(one)] == one
        replaced = len(one) == len(other) and sum(x != y for x, y in zip(one, other, strict=True)) == 1
        moves = abs(found[one] - found[other])
        for relation, near in ((Neighbours.ADD_REMOVE, added), (Neighbours.REPLACE_ONE, replaced)):
            if near:
                assert moves.max() <= 1
                worst[relation] = max(worst[relation], int(moves.sum()))
    for relation, size in ((Neighbours.ADD_REMOVE, None), (Neighbours.REPLACE_ONE, 2)):
        schema = Schema(columns={}, neighbours=relation, size=size)
        said = ProfileQuestion(schema, epsilon=1.0, columns=["a", "b"]).claim(None).sensitivity.l1
        assert said == worst[relation]
