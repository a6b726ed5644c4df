"""Features: one row per unit, made of all rows of that unit, the same on every engine."""

import itertools
import math
import random
import shutil
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from discreet import (
    Bands,
    Bounds,
    Categories,
    Contribution,
    Dates,
    ExpectedNumbers,
    Feature,
    Formula,
    Neighbours,
    PrivacyUnit,
    PrivateBounds,
    PrivateLabels,
    PureDP,
    Related,
    Scenario,
    Schema,
    Session,
)
from discreet.core.errors import DiscreetError, InvalidParameter
from discreet.core.rows import take
from discreet.core.rows.snapshot import UNIT
from discreet.core.rows.source import open_source
from discreet.plans.declarations import schema_from_dict
from discreet.plans.job import Job
from discreet.questions.mean import MeanQuestion

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
ENGINES = ["duckdb", pytest.param("spark", marks=[pytest.mark.spark, needs_java])]
LABELS = ("b", "a", "c")
COLUMNS = {
    "x": Bounds(-2, 7, grid=0.5),
    "wide": Bounds(-(2**39), 2**39, grid=1),
    "arm": Categories(LABELS),
    "day": Dates("2020-01-01", "2024-12-31"),
    "big": Categories([True, False], value=Formula("x > 1")),
}
FEATURES = {
    "sum": Feature(of="x", take="sum", low=-3, high=10),
    "wide sum": Feature(of="wide", take="sum", low=-(2**40), high=2**40),
    "rows": Feature(take="count", high=4),
    "values": Feature(of="x", take="count", low=1, high=3),
    "mean": Feature(of="x", take="mean", grid=0.125),
    "wide mean": Feature(of="wide", take="mean"),
    "min": Feature(of="x", take="min", low=0, high=5),
    "max": Feature(of="x", take="max", nulls=1.5),
    "any": Feature(of="big", take="any", nulls=False),
    "all": Feature(of="big", take="all"),
    "first": Feature(of="arm", take="first", order="day"),
    "last": Feature(of="x", take="last", order="arm", nulls=0),
    "arm": Feature(of="arm", take="max", nulls="=c"),
    "since": Feature(of="day", take="min"),
}
SCHEMA = Schema(columns=COLUMNS, unit=PrivacyUnit("who"), features=FEATURES)


def encoded(row):
    """The encoded values of a row, as documented: grid steps, codes, or None."""
    x, wide, day = row["x"], row["wide"], row["day"]
    dates, days = COLUMNS["day"], None
    if day in ("2021-03-01", "2022-07-09", "2023-01-01"):
        days = round(Dates(day, "2024-12-31").low)
    elif day == "1999-01-01":
        days = dates.lowest
    step = None if x is None or math.isnan(x) else COLUMNS["x"].index(x)
    return {
        "x": step,
        "wide": None if wide is None else COLUMNS["wide"].index(wide),
        "arm": LABELS.index(row["arm"]) if row["arm"] in LABELS else None,
        "day": days,
        "big": None if step is None else (0 if step * 0.5 > 1 else 1),
    }


def half_up(value):
    return math.floor(value + Fraction(1, 2))


def reference(rows, name):
    """A feature in plain Python, from the rows of one unit."""
    feature, declared = FEATURES[name], SCHEMA.per_unit().columns[name]
    held = [encoded(row) for row in rows]
    values = (
        [row[feature.of] for row in held if feature.of is None or row[feature.of] is not None] if feature.of else held
    )
    if feature.take == "count":
        found = len(values)
    elif feature.order is not None:
        placed = [(row[feature.order], row[feature.of]) for row in held]
        placed = [one for one in placed if None not in one]
        end = (min if feature.take == "first" else max)((at for at, _ in placed), default=None)
        found = min((value for at, value in placed if at == end), default=None)
    elif not values:
        found = None
    elif feature.take == "mean":
        finer = SCHEMA.bounds(feature.of).step / declared.step
        found = half_up(Fraction(sum(values), len(values)) * finer)
    elif feature.take in ("any", "all"):
        found = int((any if feature.take == "any" else all)(value == 0 for value in values))
    else:
        found = {"sum": sum, "min": min, "max": max}[feature.take](values)
    if isinstance(declared, Bounds):
        if found is None:
            return declared.null_index()
        return min(max(found, declared.lowest), declared.highest)
    return declared.replacement("nulls") if found is None else found


def hostile_rows(seed, count=120):
    draw = random.Random(seed)
    return [
        {
            "who": draw.choice(["ann", "bob", "cy", "", "7", "07", "d'Arc", "e|f"]),
            "x": draw.choice([None, math.nan, math.inf, -math.inf, -9.0, 0.25, 1.0, 1.25, 3.3, 1e300]),
            "wide": draw.choice([None, 2.0**39, -(2.0**39), 1.0, 12345.0, 1e300]),
            "arm": draw.choice([None, "", "a", "b", "c", "A", "unknown", "'; drop table x"]),
            "day": draw.choice([None, "", "2021-03-01", "2022-07-09", "2023-01-01", "1999-01-01", "not a day"]),
        }
        for _ in range(count)
    ]


KINDS = {"who": pa.string(), "x": pa.float64(), "wide": pa.float64(), "arm": pa.string(), "day": pa.string()}


def table_of(rows, kinds=KINDS):
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})


def unit_rows(rows, schema=SCHEMA, engine=None):
    """What is stored of each unit."""
    snapshot = take(open_source(table_of(rows), engine=engine), schema.per_unit(), salt="5a" * 16)
    fetched = snapshot.dataset.fetch(snapshot.table).to_pylist()
    return {row[UNIT]: {name: row[place] for name, place in snapshot.names.items()} for row in fetched}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", [1, 2])
def test_features_are_those_of_plain_python(engine, seed):
    rows = hostile_rows(seed)
    wanted = {}
    for who in {row["who"] for row in rows} - {""}:
        own = [row for row in rows if row["who"] == who]
        wanted[who] = {name: reference(own, name) for name in FEATURES}
    assert unit_rows(rows, engine=engine) == wanted


@pytest.mark.parametrize("engine", ENGINES)
def test_the_order_of_rows_does_not_matter_and_no_row_is_an_answer(engine):
    rows = hostile_rows(3, count=60)
    assert unit_rows(rows, engine=engine) == unit_rows(rows[::-1], engine=engine)
    assert unit_rows([], engine=engine) == {}


def test_a_unit_has_the_same_features_whoever_else_is_there():
    rows = hostile_rows(4)
    alone = [row for row in rows if row["who"] == "bob"]
    assert unit_rows(alone)["bob"] == unit_rows(rows)["bob"]


# ---- Sensitivity: every pair of neighbours over a small universe


def tiny(neighbours, size=None, **settings):
    return Schema(
        columns={"x": Bounds(-1, 2, grid=1), "arm": Categories(["a", "b"])},
        unit=PrivacyUnit("who"),
        neighbours=neighbours,
        size=size,
        features={
            "total": Feature(of="x", take="sum", low=-1, high=3, nulls=0),
            "mean": Feature(of="x", take="mean", grid=0.5, nulls=0),
            "arm": Feature(of="arm", take="last", order="x", nulls="=a"),
        },
        **settings,
    ).per_unit()


CELLS = [(None, "a"), (-5, "b"), (2, None), (9, "a")]
UNITS = [[], *([one] for one in CELLS), *map(list, itertools.combinations_with_replacement(CELLS, 2)), [(9, "b")] * 4]


def rows_of(*units):
    return table_of(
        [{"who": f"u{number}", "x": x, "arm": arm} for number, unit in enumerate(units) for x, arm in unit],
        {"who": pa.string(), "x": pa.float64(), "arm": pa.string()},
    )


ASKED = {
    "count": lambda s: s.count(epsilon=1.0),
    "count by arm": lambda s: s.count(epsilon=1.0, by="arm"),
    "sum": lambda s: s.sum("total", epsilon=1.0),
    "sum by arm": lambda s: s.sum("total", epsilon=1.0, by="arm"),
    "mean": lambda s: s.mean("total", epsilon=1.0),
    "variance": lambda s: s.variance("mean", epsilon=1.0),
    "table": lambda s: s.table(["arm"], epsilon=1.0),
    "histogram": lambda s: s.histogram("total", epsilon=1.0, bins=2),
    "regression": lambda s: s.regression("total", ["mean"], epsilon=1.0),
}


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("where", [None, "total > 0"])
def test_no_unit_moves_a_question_beyond_its_sensitivity(neighbours, where):
    replaced = neighbours is Neighbours.REPLACE_ONE
    schema = tiny(neighbours, 2 if replaced else None)
    schema = schema if where is None else replace(schema, where=Formula(where))
    units = [unit for unit in UNITS if unit] if replaced else UNITS
    other = [(9, "a"), (None, None)]
    sessions = [Session(rows_of(other, unit), schema, ledger=":memory:", budget=PureDP(1.0)) for unit in units]
    for name, ask in ASKED.items():
        question = ask(Asking(schema))
        found = [np.ravel(np.asarray(session.exact(question).value, dtype=float)) for session in sessions]
        pairs = itertools.combinations(found, 2) if replaced else ((one, found[0]) for one in found[1:])
        moved = max(float(np.abs(one - two).sum()) for one, two in pairs)
        most = question.measurement.sensitivity.l1
        assert moved <= most * (1 + 1e-12), name


class Asking:
    """Makes questions instead of answering them."""

    def __init__(self, schema):
        self.session = Session("none.csv", schema, ledger=":memory:", budget=PureDP(1.0))

    def __getattr__(self, name):
        made = []
        self.session.ask = made.append

        def call(*args, **settings):
            getattr(self.session, name)(*args, **settings)
            return made[0]

        return call


def test_one_row_each_is_the_sensitivity_of_one_row():
    people, rows = tiny(Neighbours.ADD_REMOVE), Schema(columns={"total": Bounds(-1, 3, grid=1)})
    of_people = MeanQuestion(people, "total", epsilon=1.0).measurement
    assert of_people.sensitivity == MeanQuestion(rows, "total", epsilon=1.0).measurement.sensitivity
    assert people.contribution() == Contribution(groups=1, rows=1)
    replaced = tiny(Neighbours.REPLACE_ONE, 50)
    assert MeanQuestion(replaced, "total", epsilon=1.0).measurement.public == {"n": 50}
    filtered = replace(replaced.made_from, where=Formula("x > 0")).per_unit()
    assert "n" not in MeanQuestion(filtered, "total", epsilon=1.0).measurement.public  # a unit may have no row left


# ---- Declarations


@pytest.mark.parametrize(
    ("feature", "words"),
    [
        ({"take": "median", "of": "x"}, "take = 'median'"),
        ({"take": "sum"}, "of = None"),
        ({"take": "sum", "of": "x"}, "features.f.low = None"),
        ({"take": "count", "of": "x"}, "features.f.high = None"),
        ({"take": "sum", "of": "x", "low": 0.25, "high": 5}, "features.f.low = 0.25"),
        ({"take": "sum", "of": "x", "low": 0, "high": 5, "grid": 1}, "grid = 1"),
        ({"take": "mean", "of": "x", "grid": 0.3, "low": 0, "high": 3}, "must divide that of the column"),
        ({"take": "mean", "of": "wide", "grid": 0.01}, "more than 2"),
        ({"take": "mean", "of": "arm"}, "there is no 'mean'"),
        ({"take": "any", "of": "x"}, "features.f.of = 'x'"),
        ({"take": "any", "of": "arm"}, "there is no 'any'"),
        ({"take": "sum", "of": "day", "low": 0, "high": 1}, "features.f.of = 'day'"),
        ({"take": "first", "of": "x"}, "order = None"),
        ({"take": "max", "of": "x", "order": "day"}, "order = 'day'"),
        ({"take": "max", "of": "nothing"}, "is not declared"),
        ({"take": "max", "of": "x", "nulls": "refuse"}, "cannot refuse"),
        ({"take": "max", "of": "x", "nulls": 99}, "nulls = 99"),
        ({"take": "min", "of": "arm", "low": 1}, "has no meaning for labels"),
        ({"take": "max", "of": "word"}, "no public list"),
        ({"take": "max", "of": "income"}, "bounds are not known"),
        (3, "must be"),
    ],
)
def test_what_cannot_be_made_is_refused_when_it_is_declared(feature, words):
    columns = {**COLUMNS, "word": PrivateLabels(), "income": PrivateBounds(0, 9, epsilon=0.1)}

    def declared():
        made = Feature(**feature) if isinstance(feature, dict) else feature
        return Schema(columns=columns, unit=PrivacyUnit("who"), features={"f": made})

    with pytest.raises(InvalidParameter, match=words):
        declared()


def test_features_need_units_and_rows_that_are_not_repeated():
    feature = {"rows": Feature(take="count", high=9)}
    with pytest.raises(InvalidParameter, match="id column"):
        Schema(columns={}, features=feature)
    with pytest.raises(InvalidParameter, match="features"):
        Schema(columns={}, unit=PrivacyUnit("who")).per_unit()
    joined = Related(id="who", rows=2, columns={"cost": Bounds(0, 9, grid=1)})
    with pytest.raises(InvalidParameter, match="would repeat the rows"):
        Schema(columns={}, unit=PrivacyUnit("who"), features=feature, related={"visits": joined})
    with pytest.raises(InvalidParameter, match="Change the feature"):
        SCHEMA.per_unit().declaring(sum=Bounds(0, 1, grid=0.5))
    with pytest.raises(InvalidParameter, match="has one row"):
        MeanQuestion(SCHEMA.per_unit(), "sum", epsilon=1.0, contribution=Contribution(rows=2))


def test_a_counted_table_can_be_a_feature():
    schema = Schema(
        columns={"x": Bounds(0, 9, grid=1)},
        unit=PrivacyUnit("who"),
        related={"visits": Related(id="id", rows=3, counted="visits")},
        features={"visits": Feature(of="visits", take="max"), "total": Feature(of="x", take="sum", low=0, high=20)},
    )
    people = pa.table({"who": [1, 1, 2, 3], "x": [4.0, 5.0, 6.0, None]})
    visits = pa.table({"id": [1, 1, 1, 1, 3, 9]})
    session = Session(people, schema.per_unit(), ledger=":memory:", budget=PureDP(1.0), related={"visits": visits})
    assert session.exact(Asking(schema.per_unit()).sum("visits", epsilon=1.0)).value == 3 + 0 + 1
    assert session.exact(Asking(schema.per_unit()).sum("total", epsilon=1.0)).value == 9 + 6


def test_declarations_are_read_back_as_they_were_written():
    columns = {name: column for name, column in COLUMNS.items() if name != "big"}
    features = {name: one for name, one in FEATURES.items() if one.of != "big"}
    schema = Schema(columns=columns, unit=PrivacyUnit("who"), features=features)
    assert schema_from_dict(schema.to_dict()) == schema
    assert schema_from_dict(schema.per_unit().to_dict()) == schema.per_unit()
    narrowed = replace(schema.per_unit(), where=Formula("sum > 1"))
    assert schema_from_dict(narrowed.to_dict()) == narrowed
    banded = replace(
        schema, columns={**columns, "age": Bands(edges=[0, 18, 99])}, features={"age": Feature(of="age", take="max")}
    )
    assert banded.per_unit().categories("age").labels == ("0–17", "18–99")


# ---- Sessions and plan files


ROWS = pa.table({
    "who": [k // 3 for k in range(1500)],
    "amount": [float(k % 5) for k in range(1500)],
    "arm": ["A" if k // 3 % 2 else "B" for k in range(1500)],
})  # fmt: skip
PAID = Schema(
    columns={"amount": Bounds(0, 20, grid=0.5), "arm": Categories(["A", "B"])},
    unit=PrivacyUnit("who", contribution=Contribution(rows=2)),
    features={"spend": Feature(of="amount", take="sum", low=0, high=60), "arm": Feature(of="arm", take="min")},
)


def test_every_question_runs_on_units():
    session = Session(ROWS, PAID, ledger=":memory:", budget=PureDP(1000.0))
    people, sharp = session.per_unit(), PureDP(100.0)
    assert session.per_unit() is people
    assert people.per_unit() is people
    spend = np.array(ROWS["amount"]).reshape(-1, 3).sum(axis=1)
    assert people.mean("spend", guarantee=sharp).mean == pytest.approx(spend.mean(), abs=0.01)
    assert people.where("spend > 6").count(guarantee=sharp).value == (spend > 6).sum()
    assert people.table("arm", guarantee=sharp).value.tolist() == [250, 250]
    assert people.quantile("spend", 0.5, guarantee=sharp).value == pytest.approx(np.median(spend), abs=1)
    found = people.compare_means("spend", by="arm", guarantee=sharp)
    assert found.estimate == pytest.approx(spend[0::2].mean() - spend[1::2].mean(), abs=0.05)
    assert people.mean("spend", epsilon=1.0).public["counted"] == "each who once, with features of all its rows"
    assert session.mean("amount", guarantee=sharp).mean < 4  # rows are still there
    assert session.ask(MeanQuestion(PAID.per_unit(), "spend", guarantee=sharp)).mean == pytest.approx(
        spend.mean(), abs=0.01
    )
    with pytest.raises(DiscreetError, match="is not declared"):
        people.mean("amount", guarantee=sharp)
    with pytest.raises(DiscreetError, match="changes as rows are added"):
        people.plan.running_total("arm", mu=1.0, period="A")
    assert people.plan.mean("spend", epsilon=1.0).error_95 < 1


def test_a_rehearsal_describes_the_features():
    session = Session("none.csv", PAID.per_unit(), ledger=":memory:", budget=PureDP(1.0))
    scenario = Scenario(rows=500, columns={"spend": ExpectedNumbers(mean=6.0, sd=3.0)})
    assert 0 < session.rehearsing(scenario, repeats=20).mean("spend", epsilon=1.0).error < 2


PLAN = """
[source]
path = "rows.csv"

[budget]
epsilon = 900.0

[schema]
neighbours = "add_remove"
{per_unit}

[schema.unit]
column = "who"
rows = 2

[schema.columns.amount]
low = 0
high = 20
grid = 0.5

[schema.columns.arm]
categories = ["A", "B"]

[schema.features.spend]
of = "amount"
take = "sum"
low = 0
high = 60
source = "the price list"

[schema.features.arm]
of = "arm"
take = "min"

[[release]]
name = "spend"
ask = "mean"
column = "spend"
by = "arm"
{own}
"""


@pytest.mark.parametrize(("per_unit", "own"), [("per_unit = true", ""), ("", "per_unit = true")])
def test_a_plan_file_declares_features(tmp_path, per_unit, own):
    lines = ["who,amount,arm", *(f"{row['who']},{row['amount']},{row['arm']}" for row in ROWS.to_pylist())]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    path = tmp_path / "plan.toml"
    path.write_text(PLAN.format(per_unit=per_unit, own=own))
    job = Job(path)
    assert job.file.questions[0].question.schema == PAID.per_unit()
    made = job.run()
    found = pd.read_csv(made.table)
    found = found[found["measure"] == "mean"]
    spend = np.array(ROWS["amount"]).reshape(-1, 3).sum(axis=1)
    assert found["estimate"].tolist() == pytest.approx([spend[1::2].mean(), spend[0::2].mean()], abs=0.01)
    assert "sum of 'amount' over all rows of a who" in made.markdown.read_text()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('take = "sum"', 'take = "total"', "26: take = 'total'"),
        ('take = "sum"', "", "24: .*take.* is missing"),
        ('of = "amount"', 'of = "amuont"', "25: .*is not declared"),
        ("high = 60", "hihg = 60", "28: .*is not a setting"),
        ("per_unit = true", "per_unit = 3", "must be a table of settings"),
    ],
)
def test_a_mistake_in_a_feature_is_told_with_its_line(tmp_path, old, new, words):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN.format(per_unit="per_unit = true", own="").replace(old, new, 1))
    with pytest.raises(DiscreetError, match=words):
        Job(path)
