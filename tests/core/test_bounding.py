"""Bounded totals: the same cells on every engine, exact limits, a uniform choice, and no influence of others."""

import gc
import itertools
import shutil
from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from scipy import stats

from discreet.core.errors import DiscreetError, SourceError
from discreet.core.rows import Selected, choice, histograms, take, totals
from discreet.core.rows.choice import CELL
from discreet.core.rows.keep import kept_rows
from discreet.core.rows.read import Dataset
from discreet.core.rows.source import open_source
from discreet.core.schema import Bounds, Categories, Contribution, Feature, PrivacyUnit, Schema
from discreet.questions.formulas import Formula
from discreet.testing import check_source
from discreet.testing.sources import _evenly, documented_choice

ARMS, REGIONS = ["A", "B"], ["north", "south", "east", "west", 'it\'s "x"; DROP']
SPEND, VISITS = Bounds(-2, 10, grid=0.25), Bounds(0, 7, grid=1, nulls=3)
ODD = 'sp"end; DROP TABLE source --'


def make_rows(rows=900, units=90, seed=5):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "user": pd.array(rng.integers(0, units, rows), dtype="Int64"),
            "arm": rng.choice(ARMS, rows),
            "region": rng.choice(REGIONS, rows, p=[0.5, 0.2, 0.1, 0.1, 0.1]),
            ODD: np.round(rng.normal(3, 4, rows), 2),
            "visits": pd.array(rng.integers(-1, 9, rows), dtype="Int64"),
        }
    )
    table.loc[0, "user"] = pd.NA
    table.loc[1, "arm"] = None
    table.loc[2, "region"] = "elsewhere"
    table.loc[3, ODD] = np.nan
    table.loc[4, ODD] = np.inf
    table.loc[5, ODD] = -np.inf
    table.loc[6, ODD] = 1e308
    table.loc[7, "visits"] = pd.NA
    return table


def make_schema(contribution=None, unit="user", **options):
    columns = {"arm": Categories(ARMS), "region": Categories(REGIONS), ODD: SPEND, "visits": VISITS}
    return Schema(columns=columns, unit=PrivacyUnit(unit, contribution=contribution), **options)


def to_engine(kind, table, directory):
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    if kind == "pandas":
        return open_source(table)
    if kind == "polars":
        return open_source(pl.from_arrow(arrow))
    if kind == "pyarrow":
        return open_source(arrow)
    if kind == "duckdb":
        import duckdb

        connection = duckdb.connect(str(directory / "rows.db"))
        connection.execute("CREATE TABLE clicks AS SELECT * FROM arrow")
        return open_source(connection, table="clicks")
    if kind == "csv":
        pa.csv.write_csv(arrow, directory / "rows.csv")
        return open_source(directory / "rows.csv")
    half = arrow.num_rows // 2
    pa.parquet.write_table(arrow.slice(0, half), directory / "rows1.parquet")
    pa.parquet.write_table(arrow.slice(half), directory / "rows2.parquet")
    return open_source(str(directory / "rows*.parquet"), engine="spark" if kind == "spark" else None)


ENGINES = [
    "pandas",
    "polars",
    "pyarrow",
    "duckdb",
    "csv",
    "parquet",
    pytest.param(
        "spark",
        marks=[
            pytest.mark.spark,
            pytest.mark.skipif(shutil.which("java") is None, reason="a local Spark needs Java, and there is none"),
        ],
    ),
]


def encoded(table, by, columns, schema):
    """Independent encoding: (user, cell, codes and steps of all columns…) of the rows that take part."""
    for row in table.to_dict("records"):
        values = {}
        for name, declared in schema.columns.items():
            missing = pd.isna(row[name])
            if isinstance(declared, Bounds):
                values[name] = declared.null_index() if missing else declared.index(row[name])
            else:
                values[name] = declared.labels.index(row[name]) if row[name] in declared.labels else None
        if pd.isna(row["user"]) or None in [values[name] for name in (*by, *columns)]:
            continue
        cell = 0
        for name in by:
            cell = cell * schema.categories(name).cells + values[name]
        yield (int(row["user"]), cell, *values.values())


def added(data, schema, products=(), *, salt="", **selected):
    """Totals of a fresh snapshot."""
    return totals(take(open_source(data), schema, salt=salt), Selected(**selected), products)


@pytest.mark.parametrize("kind", ENGINES)
def test_every_engine_keeps_the_documented_rows(kind, tmp_path):
    """One body for all engines: cells, limits, histograms, and what others keep when a unit is removed."""
    places = itertools.count()

    def make(arrow):
        directory = tmp_path / str(next(places))
        directory.mkdir()
        return to_engine(kind, arrow.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get), directory)

    report = check_source(make, quick=kind == "spark")
    assert report.engine == ("pyspark" if kind == "spark" else "duckdb")


def test_a_faulty_engine_is_found():
    def swapped(arrow):
        half = arrow.num_rows // 2
        return open_source(pa.concat_tables([arrow.slice(0, half), arrow.slice(half).slice(1)]))

    with pytest.raises(AssertionError, match="differ"):
        check_source(swapped, quick=True)


@pytest.mark.parametrize("kind", ENGINES)
def test_histograms_and_sums_of_units_agree_with_plain_python(kind, tmp_path):
    table, limits = make_rows(), Contribution(groups=1, rows=2)
    data, schema = to_engine(kind, table, tmp_path), make_schema(limits)
    snapshot = take(data, schema, salt="s2")
    found = histograms(snapshot, Selected(by=("arm",), columns=(ODD,)))
    rows = list(encoded(table, ("arm",), (ODD,), schema))
    expected = [Counter(), Counter()]
    for _, cell, _, _, spend, _ in documented_choice(rows, limits, "s2"):
        expected[cell][spend] += 1
    assert [dict(zip(*map(list, one), strict=True)) for one in found] == [dict(one) for one in expected]

    people = replace(schema, features={ODD: Feature(of=ODD, take="sum", low=0, high=20)}).per_unit()
    found = totals(take(data, people, salt="s2"), Selected(columns=(ODD,)), [(ODD,), (ODD, ODD)])
    sums = Counter()
    for user, _, _, _, spend, _ in encoded(table, (), (ODD,), schema):
        sums[user] += spend
    clipped = np.clip(list(sums.values()), 0, 80)
    assert (found.counts[0], found.sums[ODD,][0], found.sums[ODD, ODD][0]) == (
        len(clipped),
        clipped.sum(),
        (clipped**2).sum(),
    )


def test_each_unit_keeps_exactly_what_it_may():
    table = make_rows()
    for groups in (1, 2, 5):
        schema = make_schema(Contribution(groups=groups, rows=1))
        held = defaultdict(set)
        for user, cell, *_ in encoded(table, ("arm", "region"), (), schema):
            held[user].add(cell)
        kept = added(table, schema, by=("arm", "region"), salt="s").counts.sum()
        assert kept == sum(min(groups, len(cells)) for cells in held.values())


def test_a_removed_unit_changes_only_its_own_contribution():
    table, by, columns = make_rows(), ("arm", "region"), (ODD,)
    schema = make_schema(Contribution(groups=2, rows=2))

    def both(rows):
        found = added(rows, schema, [(ODD,)], by=by, columns=columns, salt="s")
        return np.array([found.counts, found.sums[ODD,]])

    whole = both(table)
    for user in (3, 17, 42):
        own = (table["user"] == user).fillna(False)
        np.testing.assert_array_equal(whole - both(table[~own]), both(table[own]))


def test_every_group_and_row_is_equally_likely():
    # The engines keep exactly what the documented choice keeps (above), so that is what is tested, over fixed salts:
    # nothing here is random. Two of five cells and four of twelve rows, all equally likely: χ² over the starts, which
    # decide everything, would exceed its 1 − 10⁻⁴ quantile for one fixed set of salts in 10⁴.
    cells, rows = Counter(), Counter()
    twelve = [(1, 0, step) for step in range(12)]
    for salt in range(4000):
        kept = documented_choice([(1, cell) for cell in range(5)], Contribution(groups=2, rows=1), str(salt))
        assert len(kept) == 2
        cells[tuple(sorted(cell for _, cell in kept))] += 1
        chosen = documented_choice(twelve, Contribution(rows=4), str(salt))
        assert len(chosen) == 4
        rows[tuple(sorted(step for *_, step in chosen))] += 1
    for starts, members, count in ((cells, range(5), 2), (rows, range(12), 4)):
        assert stats.chisquare(list(starts.values())).pvalue > 1e-4
        # Every member lies in as many of the possible sets as any other.
        reached = Counter(one for chosen in starts for one in chosen)
        assert {reached[one] for one in members} == {len(starts) * count // len(members)}


def test_groups_and_the_rows_in_them_are_chosen_independently():
    """Of two groups of two rows, a unit that keeps one row of one group keeps each of the four as often."""
    four = [(1, cell, step) for cell in range(2) for step in range(2)]
    kept = Counter(documented_choice(four, Contribution(groups=1, rows=1), str(salt))[0] for salt in range(4000))
    assert stats.chisquare([kept[row] for row in four]).pvalue > 1e-4
    # One number for both, undivided, keeps only two of the four: what the proof warns of.
    same = Counter((start % 2, start % 2) for start in range(4000))
    assert len(same) == 2


@pytest.mark.parametrize(("size", "few"), [(1, 8), (7, 1), (64, 8), (64, 4), (10**6, 8)])
@pytest.mark.parametrize(
    "limits",
    [Contribution(total=2), Contribution(groups=1, rows=2), Contribution(rows=1), Contribution(groups=2, rows=9)],
)
def test_pieces_of_any_size_keep_the_documented_rows(size, few, limits, monkeypatch):
    """Units longer than a piece, or than few rows, rows that take no part at their ends, single rows, and a filter."""
    monkeypatch.setattr(choice, "_PIECE", size)
    monkeypatch.setattr(choice, "_FEW", few)
    table = make_rows(rows=400, units=60, seed=9)
    table["user"] = table["user"].mask(table["user"] > 50, table["user"] + 1000 * np.arange(400))  # of one row each
    schema = make_schema(limits)
    for by, columns in ((("region",), (ODD,)), ((), (ODD,)), (("arm", "region"), ())):
        found = added(table, schema, [(one,) for one in columns], by=by, columns=columns, salt="s")
        expected = np.zeros((2, schema.cells(by)), dtype=int)
        for _, cell, _, _, spend, _ in documented_choice(encoded(table, by, columns, schema), limits, "s"):
            expected[:, cell] += [1, spend]
        assert found.counts.tolist() == expected[0].tolist()
        if columns:
            assert found.sums[ODD,].tolist() == expected[1].tolist()
    few = replace(schema, where=Formula("visits > 3"))
    found = added(table, few, by=("region",), salt="s").counts
    rows = [row for row in encoded(table, ("region",), (), schema) if row[-1] > 3]
    expected = Counter(row[1] for row in documented_choice(rows, limits, "s"))
    assert found.tolist() == [expected[cell] for cell in range(len(REGIONS))]


@pytest.mark.parametrize("limits", [Contribution(total=1), Contribution(groups=1, rows=1)])
def test_an_engine_that_forgets_the_order_of_its_rows_is_not_believed(limits, monkeypatch):
    """A unit whose rows come in two places would count as two."""

    class Shuffled(Dataset):
        def store(self, name, expression, together=()):
            ordered = "ORDER BY" in self.connection.compile(expression)
            return super().store(name, expression.order_by(expression.x0) if ordered else expression, together)

    rows = pa.table({"user": [1, 2, 1, 2, 3], "x": [1, 2, 3, 4, 5]})
    schema = Schema(columns={"x": Bounds(0, 5, grid=1)}, unit=PrivacyUnit("user", contribution=limits))
    opened = open_source(rows)
    snapshot = take(Shuffled(opened.table, opened.connection, opened.name), schema, salt="s")
    with pytest.raises(SourceError, match="more of a unit than its limits"):
        totals(snapshot, Selected(columns=("x",)))


@pytest.mark.parametrize("engine", [None, ENGINES[-1]])
def test_units_of_every_length_keep_the_documented_rows(engine):
    """All lengths around the one from which rows are sorted; labels in few and in many cells, rows alike and not."""
    rng = np.random.default_rng(4)
    lengths = rng.permutation(np.repeat(np.arange(1, 21), 6))
    unit = np.repeat(np.arange(lengths.size), lengths)
    cells = np.where(unit % 2, rng.integers(0, 12, unit.size), rng.integers(0, 3, unit.size))
    steps = rng.integers(0, 3, unit.size)
    given = list(zip(*(one.tolist() for one in (unit, cells, cells, steps)), strict=True))
    labels = [f"l{place}" for place in range(12)]
    table = pa.table({"u": unit, "l": [labels[cell] for cell in cells], "x": steps})
    schema = Schema(columns={"l": Categories(labels), "x": Bounds(0, 2, grid=1)}, unit=PrivacyUnit("u"))
    snapshot = take(open_source(table, engine=engine), schema, salt="s")

    def kept(limits, **selected):
        chosen = Selected(by=("l",), columns=("x",), contribution=limits, **selected)
        rows = kept_rows(snapshot, chosen)
        found = snapshot.dataset.fetch(rows.mutate(x0=rows[CELL]))
        return Counter(zip(*(found.column(name).to_pylist() for name in ("u", "c", "x0", "x1")), strict=True))

    for groups, rows in [(1, 1), (2, 2), (3, 1), (7, 3), (None, 2)]:
        limits = Contribution(groups=groups, rows=rows)
        assert kept(limits) == Counter(documented_choice(given, limits, "s"))
    both = Contribution(groups=2, rows=99)
    assert kept(replace(both, rows=1), all_rows=True) == Counter(documented_choice(given, both, "s"))
    least = {one: cells[unit == one].min() for one in range(lengths.size)}
    own = [row for row in given if row[1] == least[row[0]]]
    assert kept(Contribution(groups=1, rows=2), first=True) == Counter(
        documented_choice(own, Contribution(rows=2), "s")
    )
    total = Contribution(total=3)
    assert kept(total) == Counter(documented_choice(given, total, "s"))


def test_an_engine_that_puts_a_choice_beside_other_rows_is_not_believed():
    class Shifted(Dataset):
        def marked(self, name, table, bits):
            return super().marked(name, table, np.roll(bits, -1))

    rows = pa.table({"user": [1, 1, 2, 3, 3], "x": [1, 2, 3, 4, 5]})
    limits = Contribution(total=1)
    schema = Schema(columns={"x": Bounds(0, 5, grid=1)}, unit=PrivacyUnit("user", contribution=limits))
    opened = open_source(rows)
    with pytest.raises(SourceError, match="more of a unit than its limits"):
        totals(take(Shifted(opened.table, opened.connection, opened.name), schema, salt="s"), Selected(columns=("x",)))


def test_all_groupings_share_the_rows_of_a_limit_in_all():
    table, limits = make_rows(), Contribution(total=2)
    snapshot = take(open_source(table), make_schema(limits), salt="s")
    for by in ((), ("arm",), ("region",), ("arm", "region")):
        totals(snapshot, Selected(by=by))
    chosen = [one for one in snapshot.kept if isinstance(one, tuple)]
    gaps = [by for by, *_ in chosen]
    assert gaps == [()] * len(chosen)
    assert len(chosen) == 4  # arm and region have gaps: one choice for each set of rows that take part
    whole = take(
        open_source(table.fillna({"arm": "A", "region": "east"}).replace("elsewhere", "east")), make_schema(limits)
    )
    for by in ((), ("arm",), ("region",), ("arm", "region")):
        totals(whole, Selected(by=by))
    assert len([one for one in whole.kept if isinstance(one, tuple)]) == 1


@pytest.mark.parametrize("kind", [pa.uint64(), pa.int8(), pa.float64(), pa.string(), pa.date32()])
def test_ids_of_every_type_are_told_apart(kind):
    ids = pa.array([1, 2, 1, 3, 2, 1], pa.int32()).cast(kind)
    table = pa.table({"user": ids, "x": [5, 1, 4, 3, 2, 0]})
    schema = Schema(columns={"x": Bounds(0, 5, grid=1)}, unit=PrivacyUnit("user", contribution=Contribution(total=1)))
    assert added(table, schema, columns=("x",), salt="s").counts.tolist() == [3]


@pytest.mark.parametrize(
    "ids",
    [
        [2**64 - 1, 0, 2**63, 5], [-(2**63), 2**63 - 1, 0, -1], ["'", "", "a''b", "ä"],
        ["\U0001f600", "\uffff", "z", "\0"], ["x" * 40 + "1", "x" * 40 + "2", "x" * 40, "?"],
    ],
)  # fmt: skip
def test_pieces_end_at_ids_of_every_kind(ids, monkeypatch):
    """Rows are asked for by the ids that pieces lie between, whatever is in them; an empty text is none."""
    monkeypatch.setattr(choice, "_PIECE", 1)
    kind = pa.string() if isinstance(ids[0], str) else pa.uint64() if max(ids) >= 2**63 else pa.int64()
    table = pa.table({"user": pa.array(ids * 3, kind), "x": range(12)})
    limits = Contribution(total=2)
    schema = Schema(columns={"x": Bounds(0, 12, grid=1)}, unit=PrivacyUnit("user", contribution=limits))
    rows = [(one, 0, step) for step, one in enumerate(ids * 3) if one != ""]
    expected = documented_choice(rows, limits, "s")
    found = added(table, schema, [("x",)], columns=("x",), salt="s")
    assert (found.counts[0], found.sums["x",][0]) == (len(expected), sum(step for *_, step in expected))


def test_choices_that_are_forgotten_leave_nothing_behind():
    table = pa.table({"user": [1] * 9, "x": range(9)})
    snapshot = take(open_source(table), Schema(columns={"x": Bounds(0, 9, grid=1)}, unit=PrivacyUnit("user")))
    found = [kept_rows(snapshot, Selected(contribution=Contribution(total=most))) for most in range(1, 8)]
    connection = snapshot.dataset.connection.con

    def stored():
        asked = ("FROM duckdb_views() WHERE view_name", "FROM duckdb_tables() WHERE table_name")
        return [len(connection.execute(f"{one} LIKE 'discreet_marked%'").fetchall()) for one in asked]

    assert stored() == [7, 7]
    assert [len(snapshot.dataset.fetch(rows)) for rows in found] == [*range(1, 8)]  # also those that are not remembered
    del found
    gc.collect()
    snapshot.dataset.store("other", snapshot.table.limit(1))
    assert stored() == [4, 4]


@pytest.mark.parametrize("count", range(1, 30))
def test_even_distances_keep_exactly_the_limit(count):
    """From every start, min(k, N) of N positions are kept, and each as often as any other."""
    for limit in range(1, 31):
        kept = Counter()
        for start in range(count):
            chosen = _evenly(range(count), limit, start)
            assert len(chosen) == min(limit, count)
            kept.update(chosen)
        assert set(kept.values()) == {min(limit, count)}


@pytest.mark.parametrize("cells", [50, 62, 63, 130])
def test_cells_of_large_tables_are_chosen_as_documented(cells):
    # Up to 62 cells are the bits of a number; more take the other path to the same choice.
    labels = [f"label {i}" for i in range(cells)]
    rng = np.random.default_rng(8)
    table = pd.DataFrame({"user": rng.integers(0, 40, 600), "label": rng.choice(labels, 600)})
    schema = Schema(columns={"label": Categories(labels)}, unit=PrivacyUnit("user"))
    limits = Contribution(groups=4, rows=1)
    found = added(table, schema, by=("label",), contribution=limits, salt="s")
    rows = [(int(user), labels.index(label)) for user, label in table.itertuples(index=False)]
    expected = Counter(cell for _, cell in documented_choice(rows, limits, "s"))
    assert found.counts.tolist() == [expected[cell] for cell in range(cells)]


@pytest.mark.parametrize("others", [[], ["007", "-0", "+7", " 7", "7.0", "1_0", "0x7", str(2**63), "1e5", "٧", "id"]])
def test_ids_of_digits_keep_the_same_rows_whatever_other_ids_there_are(others):
    """They are stored as numbers where all ids are: faster, and nothing else."""
    ids, limits = [*map(str, (*range(-5, 20), 2**63 - 1, -(2**63))), *others], Contribution(total=2)
    rows = [(unit, 0, value) for unit in ids for value in range(6)]
    schema = Schema(columns={"x": Bounds(0, 5, grid=1)}, unit=PrivacyUnit("u", contribution=limits))
    table = pa.table({"u": ["", None, *(row[0] for row in rows)], "x": [1, 2, *(row[2] for row in rows)]})
    snapshot = take(open_source(table), schema, salt="s")
    found = snapshot.dataset.fetch(kept_rows(snapshot, Selected(columns=("x",))))
    assert pa.types.is_integer(found.schema.field("u").type) is not bool(others)
    kept = Counter(
        (str(unit), 0, value)
        for unit, value in zip(*(found.column(name).to_pylist() for name in ("u", "x0")), strict=True)
    )
    assert kept == Counter((str(unit), 0, value) for unit, _, value in documented_choice(rows, limits, "s"))


def test_row_units_need_no_choice():
    table = make_rows()
    schema = make_schema(unit=None)
    found = added(table, schema, [("visits",)], by=("arm",), columns=("visits",))
    known = table[table["arm"].notna()]
    steps = known["visits"].fillna(3).clip(0, 7).astype(int)
    assert found.counts.tolist() == [int((known["arm"] == arm).sum()) for arm in ARMS]
    assert found.sums["visits",].tolist() == [int(steps[known["arm"] == arm].sum()) for arm in ARMS]


@pytest.mark.parametrize(
    ("table", "schema", "says"),
    [
        ({"x": [1.0, None]}, {"x": Bounds(0, 1, 1, nulls="refuse")}, "'x'"),
        ({"x": [1.0, float("nan")]}, {"x": Bounds(0, 1, 1, nulls="refuse")}, "'x'"),
        ({"x": ["1", "one"]}, {"x": Bounds(0, 1, 1, nulls="refuse")}, "'x'"),
        ({"x": ["a", "c"]}, {"x": Categories(["a", "b"], unknown="refuse")}, "'x'"),
        ({"x": ["a", None]}, {"x": Categories(["a", "b"], nulls="refuse")}, "'x'"),
        ({"y": ["a", "b"]}, {"x": Categories(["a", "b"])}, "no column 'x'"),
    ],
)
def test_refused_data_is_named_but_never_shown(table, schema, says):
    declared = Schema(columns=schema)
    by, columns = (("x",), ()) if isinstance(schema["x"], Categories) else ((), ("x",))
    with pytest.raises(SourceError, match=says) as refusal:
        added(pa.table(table), declared, by=by, columns=columns)
    assert "one" not in str(refusal.value).split("'x'")[0]


def test_awkward_types_are_read_the_same_way():
    bounds = Schema(columns={"x": Bounds(0, 5, grid=0.5)})
    for column in (
        pa.array([0, 1, 9, None]),
        pa.array([0.0, 1.2, 1e308, float("nan")]),
        pa.array(["0", " 1e0 ", "inf", "nan?"]),
        pa.array([0, 1, 7, None], type=pa.decimal128(10, 2)),
    ):
        found = added(pa.table({"x": column}), bounds, [("x",)], columns=("x",))
        assert (found.counts[0], found.sums["x",][0]) == (3, 12)
    labels = Schema(columns={"x": Categories([1, 2])})
    for column in (pa.array([1, 2, 3]), pa.array([1.0, 2.0, None]), pa.array(["1", "2.0", "2.5"])):
        found = added(pa.table({"x": column}), labels, by=("x",))
        assert found.counts.tolist() == [1, 1]
    truth = Schema(columns={"x": Categories([True, False])})
    for column in (pa.array([True, False, None]), pa.array(["True", "false", "yes"])):
        found = added(pa.table({"x": column}), truth, by=("x",))
        assert found.counts.tolist() == [1, 1]


@pytest.mark.parametrize("rows", [0, 1])
def test_tiny_tables(rows):
    table = pa.table({"user": pa.array([7][:rows], pa.int64()), "x": pa.array([3][:rows], pa.int64())})
    schema = Schema(
        columns={"x": Bounds(0, 5, grid=1)}, unit=PrivacyUnit("user", contribution=Contribution(groups=1, rows=1))
    )
    assert added(table, schema, [("x",)], columns=("x",)).counts[0] == rows
    [(values, counts)] = histograms(take(open_source(table), schema), Selected(columns=("x",)))
    assert values.tolist() == [3][:rows]
    assert counts.tolist() == [1][:rows]


def test_sums_beyond_64_bits_are_exact():
    bounds = Bounds(0, 2**40, grid=1)
    table = pa.table({"x": [2.0**41] * 5, "user": [1, 1, 2, 3, 4]})
    plain = Schema(columns={"x": bounds})
    found = added(table, plain, [("x", "x")], columns=("x",))
    assert found.sums["x", "x"][0] == 5 * 2**80
    by_user = Schema(columns={"x": bounds}, unit=PrivacyUnit("user", contribution=Contribution(rows=1)))
    found = added(table, by_user, [("x", "x")], columns=("x",))
    assert found.sums["x", "x"][0] == 4 * 2**80


@pytest.mark.parametrize(
    "build",
    [
        lambda: open_source(12),
        lambda: open_source("rows.xlsx"),
        lambda: open_source("missing.csv"),
        lambda: open_source("missing*.parquet"),
        lambda: open_source("duckdb://missing.db", table="t"),
        lambda: open_source("rows.csv", table="t"),
        lambda: open_source("nosuchengine://x", table="t"),
        lambda: open_source(pa.table({"x": [1]}), engine=3),
    ],
)
def test_unreadable_sources_are_refused(build):
    with pytest.raises(DiscreetError):
        build()


@pytest.mark.parametrize("content", ["a,b\n1,2\n3\n4,5,6\n", 'a,b\n"1,2\n'])
def test_malformed_csv_is_refused_without_quoting_it(content, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(content.encode("latin-1"))
    schema = Schema(columns={"a": Bounds(0, 9, grid=1)})
    with pytest.raises(SourceError) as refusal:
        added(path, schema, [("a",)], columns=("a",))
    assert "4,5,6" not in str(refusal.value)


def test_bytes_of_another_encoding_spoil_their_own_field_alone(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a,b\n1,\xff\n\xff,2\n3,4\n")
    found = added(path, Schema(columns={"a": Bounds(0, 9, grid=1)}), [("a",)], columns=("a",))
    assert (int(found.counts[0]), int(found.sums["a",][0])) == (2, 4)


def test_grid_steps_equal_exact_rounding_on_dyadic_grids():
    rng = np.random.default_rng(3)
    values = rng.uniform(-4, 4, 500)
    bounds = Bounds(-3, 3, grid=0.125)
    data = open_source(pa.table({"x": values}))
    [(steps, counts)] = histograms(take(data, Schema(columns={"x": bounds})), Selected(columns=("x",)))
    exact = [(Fraction(min(max(x, -3.0), 3.0)) / Fraction(1, 8) + Fraction(1, 2)).__floor__() for x in values]
    assert dict(zip(steps.tolist(), counts.tolist(), strict=True)) == dict(Counter(exact))


def test_every_kind_of_connection_opens_the_same_rows(tmp_path):
    import duckdb
    import ibis

    arrow = pa.table({"x": [1, 2, 3]})
    schema = Schema(columns={"x": Bounds(0, 5, grid=1)})
    path = tmp_path / "rows.db"
    with duckdb.connect(str(path)) as writer:
        writer.execute("CREATE TABLE numbers AS SELECT * FROM arrow")
    backend = ibis.duckdb.connect()
    table = backend.create_table("numbers", arrow)
    pa.csv.write_csv(arrow, tmp_path / "rows.tsv", pa.csv.WriteOptions(delimiter="\t"))
    sources = [
        open_source(f"duckdb://{path}", table="numbers"),
        open_source(table),
        open_source(backend, table="numbers"),
        open_source(arrow, engine=ibis.duckdb.connect()),
        open_source(arrow.to_batches()[0]),
        open_source(pl.from_arrow(arrow).lazy()),
        open_source(tmp_path / "rows.tsv"),
    ]
    for data in sources:
        found = added(data, schema, [("x",)], columns=("x",))
        assert (found.counts[0], found.sums["x",][0]) == (3, 6)
        assert "private" in repr(found)
    with pytest.raises(SourceError, match="no such table"):
        open_source(backend, table="others")
    with pytest.raises(DiscreetError, match="table"):
        open_source(backend)
