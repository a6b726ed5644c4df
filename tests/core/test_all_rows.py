"""Rows with weights: totals beside fractions in plain Python, how far a unit moves them, and what is read."""

import itertools
import math
import random
import shutil
from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from discreet import Feature, Neighbours, PureDP, Session
from discreet.core.errors import DiscreetError, InvalidParameter, ReleaseFailed, SourceError
from discreet.core.rows import Selected, all_row_totals, keep, take
from discreet.core.rows.source import open_source
from discreet.core.schema import Bounds, Categories, Contribution, PrivacyUnit, Schema, in_parts
from discreet.inference.moments import PartMoments
from discreet.inference.noise import excess_kurtosis
from discreet.mechanisms.additive import additive_noise
from discreet.plans.job import Job
from discreet.questions.mean import MeanQuestion
from discreet.questions.proportion import ProportionQuestion
from discreet.testing.sources import documented_choice

SALT = "c0" * 32
LARGEST = 2**30
NUMBERS = {
    "few": Bounds(-1, 4, grid=1),
    "fine": Bounds(-3, 997, grid=0.25, nulls=0),
    "vast": Bounds(-(2**39), 2**39 - 1, grid=1),
}


def rows_of(seed=3, units=60):
    """Units of 1 to 40 rows, with missing values, labels that are not on the list, and values outside the bounds."""
    draw, found = random.Random(seed), []
    for who in range(units):
        for _ in range(draw.choice((1, 2, 3, 5, 8, 40))):
            numbers = {name: draw.uniform(float(b.low) - 1, float(b.high) + 1) for name, b in NUMBERS.items()}
            numbers |= {name: draw.choice((None, b.low, b.high)) for name, b in NUMBERS.items() if draw.random() < 0.3}
            found.append({"who": who if who else None, "g": draw.choice(("a", "b", "c", "?", None)), **numbers})
    return found


def schema_of(limits):
    return Schema(columns={"g": Categories(["a", "b", "c"]), **NUMBERS}, unit=PrivacyUnit("who", contribution=limits))


def snapshot(rows, schema, engine="duckdb"):
    kinds = pa.schema([("who", pa.int64()), ("g", pa.string()), *((name, pa.float64()) for name in NUMBERS)])
    return take(open_source(pa.Table.from_pylist(rows, kinds), engine=engine), schema, salt=SALT)


def row_parts(bounds, value, degree):
    """What a row is split into, and its parts, in exact arithmetic."""
    if bounds is None:
        return LARGEST, [LARGEST]
    across = bounds.highest - bounds.lowest
    u, size = Fraction(bounds.index(value) - bounds.lowest, across), across**degree
    exact = size <= LARGEST
    whole, nudge = LARGEST - LARGEST % size if exact else LARGEST, Fraction(1 if exact else -1, 1024)
    shares = [whole * math.comb(degree, j) * u**j * (1 - u) ** (degree - j) for j in range(degree + 1)]
    parts = [max(math.floor(share + nudge), 0) for share in shares]
    assert all(0 <= part <= share for part, share in zip(parts, shares, strict=True))
    return whole, parts


def weighed(rows, schema, column, degree, by, limits):
    """The documented totals: every unit of one scope weighs at most its limit."""
    bounds = None if column is None else schema.bounds(column)
    labels, own, sizes, whole = list(schema.categories("g").labels), defaultdict(Counter), Counter(), LARGEST
    for row in rows:
        value = 0 if column is None else row[column]
        value = 0 if value is None and column == "fine" else value
        if row["who"] is None or value is None or (by and row["g"] not in labels):
            continue
        cell = labels.index(row["g"]) if by else 0
        scope = row["who"] if limits.rows is None else (row["who"], cell)
        whole, parts = row_parts(bounds, value, degree)
        sizes[scope] += 1
        for place, part in enumerate(parts):
            own[scope][cell, place] += part
    totals = np.full((3 if by else 1, degree + 1), Fraction(0))
    for scope, sums in own.items():
        most, held = limits.rows or limits.total, sizes[scope]
        for (cell, place), part in sums.items():
            totals[cell, place] += Fraction(part if held <= most else part * most // held, whole)
    return totals


LIMITS = [Contribution(total=4), Contribution(rows=1), Contribution(total=2**40)]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_totals_are_those_of_fractions(limits):
    rows, schema = rows_of(), schema_of(limits)
    read = snapshot(rows, schema)
    columns = [(None, 0), *itertools.product(NUMBERS, (1, 4))]
    for (column, degree), by in zip(columns, itertools.cycle((("g",), ()))):
        asked = Selected(by=by, columns=() if column is None else (column,), all_rows=True)
        found = all_row_totals(read, asked, degree)
        assert (found == weighed(rows, schema, column, degree, by, limits)).all(), (column, degree, by)


@pytest.mark.spark
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_spark_divides_alike():
    rows, limits = rows_of(units=20), Contribution(total=3)
    read = snapshot(rows, schema_of(limits), "spark")
    found = all_row_totals(read, Selected(by=("g",), columns=("fine",), all_rows=True), 4)
    assert (found == weighed(rows, schema_of(limits), "fine", 4, ("g",), limits)).all()


def test_groups_are_chosen_before_rows_are_weighed():
    rows, limits = rows_of(), Contribution(groups=1, rows=3)
    read = snapshot(rows, schema_of(limits))
    found = all_row_totals(read, Selected(by=("g",), columns=("few",), all_rows=True), 1)
    encoded = [
        (row["who"], labels.index(row["g"]), *map(str, row.values()), row)
        for labels in [["a", "b", "c"]]
        for row in rows
        if row["who"] is not None and row["few"] is not None and row["g"] in labels
    ]
    kept = {}  # of each unit the group that the documented choice keeps
    for who, cell, *_ in documented_choice([one[:2] for one in encoded], Contribution(groups=1, rows=99), SALT):
        kept[who] = cell
    chosen = [one[-1] for one in encoded if kept[one[0]] == one[1]]
    assert len(kept) < len({one[:2] for one in encoded})
    assert (found == weighed(chosen, schema_of(limits), "few", 1, ("g",), limits)).all()


def test_division_is_exact_up_to_its_limits():
    """Both divisions of the largest unit that counts, and of totals just around multiples."""
    draw, numbers = random.Random(5), []
    for _ in range(4000):
        held = draw.choice((draw.randrange(1, 50), draw.randrange(1, 2**31), 2**31 - 1))
        around = draw.randrange(LARGEST + 1) * held + draw.choice((-1, 0, 1))
        numbers.append((min(max(draw.choice((around, draw.randrange(LARGEST * held + 1))), 0), LARGEST * held), held))
    table = ibis.memtable({"total": [one for one, _ in numbers], "held": [one for _, one in numbers]})
    for most in (1, 7, 2**31 - 2, 2**31):
        found = ibis.duckdb.connect().to_pyarrow(table.select(v=keep._weighed(table.total, table.held, most)))
        assert found.column("v").to_pylist() == [t if h <= most else t * most // h for t, h in numbers]


def test_too_many_rows_of_a_unit_count_nothing(monkeypatch):
    monkeypatch.setattr(keep, "TOO_MANY", 4)
    rows, limits = rows_of(), Contribution(total=2)
    sizes = Counter(row["who"] for row in rows if row["few"] is not None)
    read = snapshot(rows, schema_of(limits))
    found = all_row_totals(read, Selected(columns=("few",), all_rows=True), 1)
    few = [row for row in rows if sizes[row["who"]] < 4]
    assert len(few) < len(rows)
    assert (found == weighed(few, schema_of(limits), "few", 1, (), limits)).all()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda number, by: ((number - number % by) / by).round().cast("int64") + 1,
        lambda number, by: (number * 0 - 1).cast("int64"),
    ],
    ids=["up", "negative"],
)
def test_an_engine_that_divides_otherwise_is_refused(monkeypatch, wrong):
    monkeypatch.setattr(keep, "quotient", wrong)
    with pytest.raises(SourceError, match=r"more of a unit than its limits allow.*Nothing was spent"):
        all_row_totals(snapshot(rows_of(), schema_of(Contribution(total=2))), Selected(all_rows=True), 0)


# ---- how far a unit moves the totals --------------------------------------------------------------------------------


def questions(schema):
    one = PureDP(1.0)
    yield MeanQuestion(schema, "fine", mu=1.0, variance=True, all_rows=True)  # inner parts weigh more
    yield MeanQuestion(schema, "few", guarantee=one, by="g", variance=True, all_rows=True)
    yield ProportionQuestion(schema, "g", "b", guarantee=one, all_rows=True)


def unit_rows(who, values, labels="abc"):
    turns = zip(values, itertools.cycle(labels))
    return [{"who": who, "g": g, "few": v, "fine": v, "vast": v} for v, g in turns]


UNITS = [([4.0] * 3, "b"), ([-1.0] * 7, "b"), ([0.0, 1.0, 4.0, 2.0, 3.0], "abc"), ([-1e9, 4.0, None] * 3, "ab")]
"""Values and labels of one unit: as many rows as its limit, and more."""


@pytest.mark.parametrize("limits", [Contribution(total=3), Contribution(groups=2, rows=2)], ids=str)
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_no_unit_moves_more_than_declared(limits, neighbours):
    replaced = neighbours is Neighbours.REPLACE_ONE
    unit = PrivacyUnit("who", contribution=limits)
    columns = {"g": Categories(["a", "b", "c"]), **NUMBERS}
    schema = Schema(columns=columns, unit=unit, neighbours=neighbours, size=2 if replaced else None)
    others = unit_rows(9, [0.5, 2.0, 2.0, 3.0])
    units = [[], *(unit_rows(1, *unit) for unit in UNITS)][replaced:]
    reads = [snapshot(others + unit, schema) for unit in units]
    for asked in questions(schema):
        values = [np.asarray(asked.exact(read).value, dtype=object) for read in reads]
        declared = asked.measurement.sensitivity
        moved = [a - b for a, b in itertools.product(values, values if replaced else values[:1])]
        l1, square = max(sum(abs(one)) for one in moved), max(sum(one**2) for one in moved)
        assert l1 <= declared.l1
        assert square <= Fraction(declared.l2) ** 2
        if limits.total and "few" in asked.columns_read():  # as many rows as the limit, at one end or at both
            assert l1 == declared.l1
            assert square >= Fraction(declared.l2) ** 2 * (1 - Fraction(1, 10**12))


# ---- what is asked and read -----------------------------------------------------------------------------------------

PEOPLE = Schema(
    columns={"x": Bounds(0, 10, grid=0.5), "g": Categories(["a", "b"])},
    unit=PrivacyUnit("who", contribution=Contribution(total=2)),
)


def session(schema=PEOPLE, x=(0.0, 10.0, 10.0, 10.0, 2.0), budget=1000.0):
    rows = {"who": [1, 1, 1, 1, 2], "g": ["a", "a", "b", "b", "b"], "x": x}
    return Session(pa.table(rows), schema, ledger=":memory:", budget=PureDP(budget))


def parts_of(question, **data):
    """The true totals of a question, as (value, weight) from parts of degree one."""
    asked = session(question.schema, **data)
    no, yes = question.exact(asked._rows(question)).value
    return yes / (no + yes), no + yes


def test_the_mean_of_all_rows_where_a_unit_counts_as_much_as_its_limit():
    """Person 1 has the mean 7.5 and counts twice, person 2 once: (2·7.5 + 2)/3."""
    one = PureDP(1.0)
    assert parts_of(MeanQuestion(PEOPLE, "x", guarantee=one, variance=False, all_rows=True)) == (Fraction(17, 30), 3)
    assert parts_of(ProportionQuestion(PEOPLE, "g", "b", guarantee=one, all_rows=True)) == (Fraction(2, 3), 3)
    asked = session()
    mean = asked.mean("x", epsilon=100.0, all_rows=True)
    assert mean.noise_interval(0.999999).contains(17 / 3)
    assert dict(mean.facts())["counted"] == "all rows, with weights of at most 2 in all for each who"
    assert "sum of weights" in dict(mean.facts())
    assert "rows" not in dict(mean.facts())
    spread = asked.mean("x", epsilon=300.0, variance=True, all_rows=True)
    assert spread.variance == pytest.approx((100 * 1.5 + 4) / 3 - (17 / 3) ** 2, abs=1.0)
    by = asked.mean("x", epsilon=300.0, by="g", all_rows=True)
    assert (by["a"].mean, by["b"].mean) == (pytest.approx(5, abs=0.3), pytest.approx(6, abs=0.3))
    assert asked.proportion("g", "b", epsilon=100.0, all_rows=True).mean == pytest.approx(2 / 3, abs=0.1)


@pytest.mark.parametrize(("nulls", "expected"), [("drop", (1, 2)), (4.0, (Fraction(7, 10), 3))])
def test_missing_values_follow_their_policy_before_rows_are_weighed(nulls, expected):
    """Person 1 has 10, 10, 10 and a gap, person 2 a gap: a dropped row weighs nothing, a replaced one like any."""
    schema = replace(PEOPLE, columns={"x": Bounds(0, 10, grid=0.5, nulls=nulls), "g": Categories(["a", "b"])})
    question = MeanQuestion(schema, "x", epsilon=1.0, variance=False, all_rows=True)
    assert parts_of(question, x=[10.0, 10.0, 10.0, None, None]) == expected


def test_refused_values_fail_behind_the_payment_and_the_owner_can_look():
    schema = replace(PEOPLE, columns={"x": Bounds(0, 10, grid=0.5, nulls="refuse"), "g": Categories(["a", "b"])})
    asked = session(schema, x=[10.0, 10.0, 10.0, None, None])
    with pytest.raises(ReleaseFailed):
        asked.mean("x", epsilon=1.0, all_rows=True)
    assert asked.ledger.spent() == PureDP(1.0)
    with pytest.raises(SourceError, match="column 'x': holds values that are missing"):
        asked.check_source()


def test_a_weighted_question_is_another_question():
    asked = session(budget=4.0)
    kept, weighted = (MeanQuestion(PEOPLE, "x", epsilon=1.0, all_rows=flag) for flag in (False, True))
    assert kept.content() != weighted.content()
    first = asked.ask(weighted, "mean")
    assert asked.ask(weighted, "mean").release_id == first.release_id
    with pytest.raises(DiscreetError):
        asked.ask(kept, "mean")


def test_weights_are_refused_where_they_mean_nothing():
    rows = Schema(columns=PEOPLE.columns)
    with pytest.raises(InvalidParameter, match="each unit has one row"):
        MeanQuestion(rows, "x", epsilon=1.0, all_rows=True)
    with pytest.raises(InvalidParameter, match="each unit has one row"):
        ProportionQuestion(rows, "g", "a", epsilon=1.0, all_rows=True)
    features = {"x": Feature(of="x", take="sum", low=0, high=10)}
    with pytest.raises(InvalidParameter, match="each unit has one row"):
        MeanQuestion(replace(PEOPLE, features=features).per_unit(), "x", epsilon=1.0, all_rows=True)
    with pytest.raises(DiscreetError, match="all_rows = 'yes'"):
        MeanQuestion(PEOPLE, "x", epsilon=1.0, all_rows="yes")


def test_plans_offer_weights_with_what_they_gain():
    (offer,) = MeanQuestion(PEOPLE, "x", epsilon=1.0, variance=False, expected_rows=5000).plan().notes
    assert offer.startswith("all_rows=True counts all rows of a who, at the same noise")
    weighted = MeanQuestion(PEOPLE, "x", epsilon=1.0, variance=False, expected_rows=5000, all_rows=True).plan()
    assert weighted.notes == ("counted: all rows, with weights of at most 2 in all for each who",)
    assert (
        weighted.standard_error
        == MeanQuestion(PEOPLE, "x", epsilon=1.0, variance=False, expected_rows=5000).plan().standard_error
    )
    noisy = MeanQuestion(PEOPLE, "x", epsilon=0.001, variance=False, expected_rows=5000).plan()
    assert noisy.notes == ()  # noise hides the choice


def test_what_is_left_out_offers_weights_and_knows_that_nothing_was_chosen():
    rows = {"who": np.repeat(np.arange(500), 6), "x": np.tile([0.0, 2, 4, 6, 8, 10], 500), "g": ["a"] * 3000}
    asked = Session(pa.table(rows), PEOPLE, ledger=":memory:", budget=PureDP(10.0))
    lost = asked.dropped_rows(epsilon=1.0, columns="x")
    assert "all_rows=True" in dict(lost.facts())["instead"]
    mean = asked.mean("x", epsilon=1.0, all_rows=True)
    assert lost.mean_interval(mean) == mean.noise_interval()
    assert lost.mean_interval(asked.mean("x", epsilon=1.0)).width > 2 * mean.noise_interval().width


def test_nothing_is_offered_where_noise_hides_what_is_left_out():
    assert "instead" not in dict(session(budget=1.0).dropped_rows(epsilon=0.1, columns="x").facts())


def test_weights_remove_the_error_of_the_choice():
    """Units of 20 rows, limit 2: kept rows depend on the salt by several times the noise, weighted rows not at all."""
    rng, schema = np.random.default_rng(8), replace(PEOPLE, columns={"x": Bounds(0, 10, grid=0.5)})
    rows = pa.table({"who": np.repeat(np.arange(400), 20), "x": rng.uniform(0, 10, 8000)})
    reads = [take(open_source(rows), schema, salt=f"{salt:02x}" * 32) for salt in range(8)]
    kept, weighted = (
        MeanQuestion(schema, "x", epsilon=1.0, variance=False, all_rows=flag, expected_rows=800)
        for flag in (False, True)
    )
    truths = [weighted.exact(read).value for read in reads]
    assert all((truth == truths[0]).all() for truth in truths)
    no, yes = truths[0]
    off = [
        10 * float(one / (zero + one) - yes / (no + yes)) for zero, one in (kept.exact(read).value for read in reads)
    ]
    assert np.sqrt(np.mean(np.square(off))) > 2 * weighted.plan().standard_error


def outcomes(kind, rows, rng):
    """A value for every row, where units have so many rows each."""
    if kind == "more rows, higher":
        return np.clip(np.repeat(rows / 31, rows) + rng.normal(0, 0.2, rows.sum()), 0, 1)
    if kind == "few rows, often yes":  # and all rows of a unit alike: the worst case
        return np.repeat(rng.random(rows.size) < np.where(rows < 4, 0.6, 0.02), rows).astype(float)
    return rng.beta(0.3, 0.6, rows.sum())


@pytest.mark.parametrize("kind", ["more rows, higher", "few rows, often yes", "independent rows"])
@pytest.mark.parametrize("degree", [1, 4])
def test_population_intervals_hold_for_units_of_1_to_30_rows(kind, degree):
    rng, limit = np.random.default_rng(degree), 4

    def drawn(units):
        rows = rng.integers(1, 31, units)
        u, weights = outcomes(kind, rows, rng), np.repeat(np.minimum(1, limit / rows), rows)
        parts = [math.comb(degree, j) * u**j * (1 - u) ** (degree - j) for j in range(degree + 1)]
        return np.array([(weights * part).sum() for part in parts])

    population, totals = drawn(60_000), np.array([drawn(100) for _ in range(250)])
    mean = population @ np.arange(degree + 1) / degree / population.sum()
    law = additive_noise(PureDP(1.0), in_parts(Contribution(total=limit), 1, degree + 1, Neighbours.ADD_REMOVE)).law(
        0.0
    )
    noisy = PartMoments(
        totals=totals + np.asarray(law.sample(totals.shape, rng=rng)),
        noise=float(np.max(law.variance)),
        kurtosis=excess_kurtosis(law),
        rows_per_unit=limit,
    )
    covered = noisy.accepts_mean(mean, 0.95).mean()
    assert covered > 0.935 - 3 * math.sqrt(0.05 * 0.95 / 250)


PLAN = """\
title = "Weights"

[source]
path = "rows.parquet"

[budget]
epsilon = 3.0

[schema.unit]
column = "who"
total = 2

[schema.columns.x]
low = 0
high = 10
grid = 0.5

[[release]]
name = "all"
ask = "mean"
column = "x"
variance = true
all_rows = true

[[release]]
name = "kept"
ask = "mean"
column = "x"
"""


def test_a_plan_file_asks_for_weights_and_its_report_says_so(tmp_path):
    table = pa.table({"who": np.repeat(np.arange(200), 5), "x": np.tile([1.0, 2, 3, 4, 9], 200)})
    pa.parquet.write_table(table, tmp_path / "rows.parquet")
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    assert "counted: all rows, with weights of at most 2 in all for each who" in " ".join(str(Job(path).plan()).split())
    report = " ".join(Job(path).run().markdown.read_text().split())
    assert "all rows, with weights of at most 2 in all for each who" in report
    assert "or all rows where a release says so" in report
    assert "weights all of them where a release says so" in report
