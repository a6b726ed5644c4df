"""A first look: which values can be used, from noisy shares alone, and a run that stops where a column is unusable."""

import json
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from discreet import (
    Bands,
    Bounds,
    Categories,
    Contribution,
    Dates,
    Formula,
    Ledger,
    Neighbours,
    PrivacyUnit,
    PrivateLabels,
    PureDP,
    Schema,
    Session,
)
from discreet.core.errors import InvalidParameter, PlanFileError, SourceError
from discreet.core.rows import take, usable_totals
from discreet.core.rows.keep import WHOLE
from discreet.core.rows.source import open_source
from discreet.plans.job import Job
from discreet.plans.plan_file import Unusable
from discreet.questions.usable_values import Usable, UsableValuesQuestion

COLUMNS = {
    "number": Bounds(0, 10, grid=1, nulls=5, missing=[7]),
    "label": Categories(["a", "b"], nulls="=a", unknown="=b", missing=["N"]),
    "day": Dates("2020-01-01", "2020-12-31"),
    "free": PrivateLabels(),
    "band": Bands(edges=[0, 5, 8], value=Formula("number")),
}
ROWS = [
    # number, label, day, free, and which of them, and of the band, can be used
    ("1", "a", "2020-05-05", "x", (1, 1, 1, 1, 1)),
    ("10", "b", "2020-12-31", "y", (1, 1, 1, 1, 0)),  # no band holds 10
    ("11", "c", "2021-01-01", "", (0, 0, 0, 0, 0)),
    ("-1", "", "2019-12-31", None, (0, 0, 0, 0, 1)),  # clipped to 0, which a band holds
    ("x", None, "2020-02-30", "z", (0, 0, 0, 1, 1)),  # replaced by 5
    ("7", "N", None, "z", (0, 0, 0, 1, 1)),
    (None, "A", "05.05.2020", "1", (0, 0, 0, 1, 1)),
]


def table(rows, unit=None):
    columns = {name: [row[place] for row in rows] for place, name in enumerate(("number", "label", "day", "free"))}
    return pa.table(
        {**({} if unit is None else {"who": unit}), **{n: pa.array(v, pa.string()) for n, v in columns.items()}}
    )


def test_usable_values_are_read_inside_bounds_and_on_the_list():
    for *values, usable in ROWS:
        snapshot = take(open_source(table([values])), Schema(columns=COLUMNS))
        assert usable_totals(snapshot, list(COLUMNS)) == (1, [WHOLE * one for one in usable]), values


def test_a_unit_counts_once_with_the_share_of_its_rows():
    schema = Schema(columns=COLUMNS, unit=PrivacyUnit("who", contribution=Contribution(total=2)))
    rows = table([row[:4] for row in ROWS], unit=[1, 1, 1, 2, 2, None, 3])
    units, parts = usable_totals(take(open_source(rows), schema), ["number", "free"])
    assert units == 3
    assert parts == [int(2 * WHOLE / 3), int(2 * WHOLE / 3) + WHOLE // 2 + WHOLE]


def test_filters_come_first():
    schema = Schema(columns=COLUMNS, where=Formula("label == 'b'"))
    units, parts = usable_totals(take(open_source(table([row[:4] for row in ROWS])), schema), ["number"])
    assert (units, parts) == (3, [WHOLE])  # b itself, and the unknown c and A, which count as b


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("unit", [None, "who"])
def test_no_neighbour_moves_a_number_by_more_than_one(neighbours, unit):
    """Every pair of neighbouring tables of two units, brute force."""
    replaced = neighbours is Neighbours.REPLACE_ONE
    schema = Schema(
        columns=COLUMNS, unit=PrivacyUnit(unit), neighbours=neighbours, size=2 if replaced else None,
        where=Formula("number <= 5"),
    )  # fmt: skip
    chosen = [[row[:4]] * (1 if unit is None else count) for row, count in zip(ROWS[:4], (1, 3, 2, 2), strict=True)]
    if unit is not None:
        chosen += [[ROWS[0][:4], ROWS[2][:4], ROWS[4][:4]]]

    def measured(units):
        ids = [place for place, rows in enumerate(units) for _ in rows]
        data = table([row for rows in units for row in rows], None if unit is None else ids)
        found, parts = usable_totals(take(open_source(data), schema), ["number", "label", "free"])
        return np.array([Fraction(found), *(Fraction(part, WHOLE) for part in parts)])

    base = [chosen[0]]
    values = [measured([*base, one]) for one in chosen]
    pairs = [(p, q) for p in values for q in values] if replaced else [(measured(base), value) for value in values]
    moved = np.max([np.abs(p - q) for p, q in pairs], axis=0)
    limit = Usable(columns=["number", "label", "free"], unit="row").sensitivity(neighbours=neighbours)
    assert (moved <= 1).all()
    assert moved[0] == 1
    assert len(limit.moves) == 4


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("unit", [None, "who"])
def test_no_neighbour_moves_a_column_with_its_sides_by_more_than_is_declared(neighbours, unit):
    """Every pair of neighbouring tables of two units: ℓ₁ of all numbers, and the numbers that a row moves."""
    replaced = neighbours is Neighbours.REPLACE_ONE
    schema = Schema(
        columns=COLUMNS, unit=PrivacyUnit(unit), neighbours=neighbours, size=2 if replaced else None,
        where=Formula("number <= 5"),
    )  # fmt: skip
    kinds = [row[:4] for row in ROWS]
    units = [[row] for row in kinds] if unit is None else [[kinds[0], kinds[3], kinds[2]], [kinds[3]], [kinds[4]]]

    def measured(rows):
        ids = [place for place, own in enumerate(rows) for _ in own]
        data = table([row for own in rows for row in own], None if unit is None else ids)
        found, parts = usable_totals(take(open_source(data), schema), ["number", "label"], ["number"])
        return np.array([Fraction(found), *(Fraction(part, WHOLE) for part in parts)])

    values = [measured([units[0], one]) for one in units]
    pairs = [(p, q) for p in values for q in values] if replaced else [(measured([units[0]]), q) for q in values]
    of = Usable(columns=["number", "label"], unit="row", sides=["number"])
    limit = of.sensitivity(neighbours=neighbours, by_row=unit is None)
    assert max(np.abs(p - q).sum() for p, q in pairs) <= limit.l1 == 3 + replaced
    if unit is None:
        assert max(np.count_nonzero(p - q) for p, q in pairs) <= len(limit.moves)
        assert max(np.abs(p - q).max() for p, q in pairs) == 1


def test_values_below_and_above_the_bounds_are_told_apart():
    schema = Schema(columns={"x": Bounds(0, 10, grid=1, missing=[99]), "g": Categories(["a"])})
    values = [-3, -1, 0, 5, 10, 10.4, 11, 99, None, math.nan, math.inf, -math.inf]
    data = pa.table({"x": pa.array(values, pa.float64()), "g": ["a"] * len(values)})
    assert usable_totals(take(open_source(data), schema), ["x"], ["x"]) == (12, [3 * WHOLE, 3 * WHOLE, 3 * WHOLE])
    session = Session(data, schema, ledger=":memory:", budget=PureDP(400.0))
    found = session.usable_values(epsilon=200.0, sides=True)
    assert found.beyond("x")["above"].contains(3 / 12)
    assert [(one.label, round(one.estimate, 2)) for one in found.readings()] == [
        ("x", 0.25), ("g", 1.0), ("x below", 0.25), ("x above", 0.25)
    ]  # fmt: skip
    assert "x above" in str(found)
    assert type(found).from_json(found.to_json()).beyond("x") == found.beyond("x")
    with pytest.raises(InvalidParameter, match="sides=True"):
        found.beyond("g")
    with pytest.raises(InvalidParameter, match="sides"):
        Usable(columns=["x"], unit="row", sides=["g"])


def test_shares_and_intervals():
    rows = table([ROWS[0][:4]] * 900 + [ROWS[2][:4]] * 100)
    session = Session(rows, Schema(columns=COLUMNS), ledger=":memory:", budget=PureDP(100.0))
    found = session.usable_values(epsilon=50.0, columns=["number", "label"])
    assert found.share("number") == pytest.approx(0.9, abs=0.01)
    assert found.share_interval("number").low <= 0.9 <= found.share_interval("number").high
    assert found.unusable() == ()
    assert "usable, number" in str(found)
    assert [reading.label for reading in found.readings()] == ["number", "label"]
    with pytest.raises(InvalidParameter, match="column"):
        session.usable_values(epsilon=1.0, columns=["nmber"])


def test_few_rows_stop_nothing():
    """Where noise hides the number of rows, nobody knows that a column is unusable."""
    rows = table([ROWS[2][:4]] * 3)
    session = Session(rows, Schema(columns=COLUMNS), ledger=":memory:", budget=PureDP(1.0))
    assert session.usable_values(epsilon=0.1).unusable() == ()


def test_all_declared_columns_are_looked_at():
    asked = UsableValuesQuestion(Schema(columns=COLUMNS), epsilon=1.0)
    assert asked.columns_read() == tuple(COLUMNS)
    with pytest.raises(InvalidParameter, match="columns"):
        UsableValuesQuestion(Schema(columns={}), epsilon=1.0)


PLAN = """\
title = "Incomes"
first_look = 0.05

[source]
path = "rows.csv"
delimiter = ";"

[budget]
epsilon = 20.0

[schema.columns.income]
low = 0
high = 100
grid = 0.01

[schema.columns.age]
low = 0
high = 120
grid = 1

[schema.columns.unread]
categories = ["x"]

[[release]]
name = "income"
ask = "mean"
column = "income"

[[release]]
name = "age"
ask = "mean"
column = "age"
"""


def written(folder, plan=PLAN, count=200):
    (folder / "rows.csv").write_text(
        "who;income;age;unread\n" + "".join(f"{n // 4};39,20;40;y\n" for n in range(count))
    )
    (folder / "plan.toml").write_text(plan)
    return Job(folder / "plan.toml")


def test_a_run_stops_after_the_look(tmp_path):
    job = written(tmp_path, count=8000)  # of 2,000 people, among whom noise shows no whole per cent
    assert [name for name, _ in job.plan().releases] == ["usable_values", "income", "age"]
    with pytest.raises(
        Unusable, match=r"'income' \(0 % usable\), so the run stops.*Only this look was paid for"
    ) as stopped:
        job.run()
    assert "age" not in str(stopped.value)
    with Ledger(tmp_path / "rows.ledger", read_only=True) as ledger:
        assert ledger.spent().epsilon == pytest.approx(1.0)
    with pytest.raises(Unusable):
        Job(tmp_path / "plan.toml").run()
    with Ledger(tmp_path / "rows.ledger", read_only=True) as ledger:
        assert ledger.spent().epsilon == pytest.approx(1.0)


def test_a_usable_file_goes_on(tmp_path):
    result = written(tmp_path, PLAN.replace('delimiter = ";"', 'delimiter = ";"\ndecimal = ","')).run()
    released = json.loads(result.results.read_text())["releases"]
    assert list(released) == ["usable_values", "income", "age"]
    assert result.spent.epsilon == pytest.approx(20.0)
    assert "Usable values" in result.markdown.read_text()


def test_units_with_limits_are_looked_at_too(tmp_path):
    plan = (
        PLAN.replace('delimiter = ";"', 'delimiter = ";"\ndecimal = ","') + '[schema.unit]\ncolumn = "who"\ntotal = 2\n'
    )
    result = written(tmp_path, plan).run()
    released = json.loads(result.results.read_text())["releases"]
    assert list(released) == ["usable_values", "dropped_rows", "income", "age"]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("first_look = 0.05", "first_look = 5", "plan.toml:2: first_look = 5 must be a share"),
        ("first_look = 0.05", "first_look = true", "plan.toml:2: first_look = True must be a share"),
        ('name = "income"', 'name = "usable_values"', "Give yours another name"),
    ],
)
def test_mistakes_are_told(tmp_path, before, after, words):
    with pytest.raises(PlanFileError) as refused:
        written(tmp_path, PLAN.replace(before, after))
    assert words in str(refused.value)


def test_a_column_that_is_not_there_is_refused_before_spending(tmp_path):
    job = written(tmp_path, PLAN.replace("columns.age]", "columns.agee]").replace('column = "age"', 'column = "agee"'))
    with pytest.raises((PlanFileError, SourceError), match="has no column"):
        job.run()
    with Ledger(tmp_path / "rows.ledger", read_only=True) as ledger:
        assert ledger.spent().epsilon == 0
