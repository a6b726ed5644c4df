"""What limits and missing values leave out: exact counts, how far a unit moves them, and what is read."""

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from discreet import (
    Bounds,
    Categories,
    Contribution,
    Neighbours,
    PrivacyUnit,
    PureDP,
    Schema,
    Session,
    release,
)
from discreet.core.errors import InvalidParameter, NoPopulationInterval
from discreet.mechanisms import PoissonSample  # fmt: skip
from discreet.questions.dropped_rows import DroppedRows, DroppedRowsQuestion

COLUMNS = {"x": Bounds(0, 9, grid=1), "g": Categories(["a", "b", "c"])}
PEOPLE = Schema(columns=COLUMNS, unit=PrivacyUnit("person", contribution=Contribution(rows=2)))
KIND = pa.schema([("person", pa.int64()), ("x", pa.float64()), ("g", pa.string())])


def session(rows, schema=PEOPLE):
    return Session(pa.Table.from_pylist(rows, KIND), schema, ledger=":memory:", budget=PureDP(900.0))


def expected(rows, most, *, column, limits):
    """Units, rows beyond and rows without a value, in plain Python."""
    totals = np.zeros(3, dtype=int)
    for person in {row["person"] for row in rows if row["person"] is not None}:
        own = [row for row in rows if row["person"] == person]
        part = [row for row in own if column is None or row[column] is not None]
        cells = Counter(row["g"] for row in part) if "groups" in limits else Counter([0] * len(part))
        kept = sum(sorted((min(n, limits["rows"]) for n in cells.values()), reverse=True)[: limits.get("groups", 9)])
        over = min(len(part) - kept, most)
        missing = min(len(own) - len(part), most - over)
        totals += [over + missing > 0, over, missing]
    return totals.tolist()


def people(seed, count=40):
    rng = np.random.default_rng(seed)
    rows = []
    for person in range(count):
        rows += [
            {"person": person, "x": None if rng.random() < 0.3 else float(rng.integers(0, 12)), "g": "a"}
            for _ in range(rng.integers(1, 9))
        ]
    return [*rows, {"person": None, "x": 1.0, "g": "a"}]  # who has no id belongs to nobody


@pytest.mark.parametrize("column", [None, "x"])
@pytest.mark.parametrize("most", [1, 3, 100])
def test_counts_are_those_of_plain_python(column, most):
    rows = people(most)
    asked = DroppedRowsQuestion(PEOPLE, epsilon=1.0, columns=() if column is None else column, most_rows=most)
    units, over, missing = expected(rows, most, column=column, limits={"rows": 2})
    parts = [float(part) for part in session(rows).exact(asked).value]
    assert parts == pytest.approx([units - (over + missing) / most, over / most, missing / most])


def test_limits_on_groups_leave_out_whole_groups():
    rows = [{"person": 1, "x": 1.0, "g": g} for g in "aabbcc"] + [{"person": 2, "x": 1.0, "g": "a"}]
    answer = session(rows).dropped_rows(epsilon=400.0, by="g", contribution=Contribution(groups=1, rows=2))
    assert (answer.units, answer.rows_over_limit, answer.rows_missing) == (1, 4, 0)


UNITS = [
    [{"x": x, "g": "a"} for x in values]
    for size in range(5)
    for values in itertools.combinations_with_replacement((1.0, None), size)
]


@pytest.mark.parametrize("most", [1, 3])
def test_no_unit_moves_the_parts_further_than_the_sensitivity(most):
    """Every unit of up to four rows, with and without values, added to a data set and put in place of another."""
    asked = DroppedRowsQuestion(PEOPLE, epsilon=1.0, columns="x", most_rows=most)
    base = people(7, 3)
    parts = []
    for unit in UNITS:
        rows = base + [{"person": 99, **row} for row in unit]
        parts.append(np.array([float(part) for part in session(rows).exact(asked).value]))
    moved = [part - parts[0] for part in parts]
    assert max(np.abs(move).sum() for move in moved) == asked.measurement.sensitivity.l1 == 1.0
    replaced = DroppedRows(most=most, unit="person").sensitivity(neighbours=Neighbours.REPLACE_ONE)
    changes = [a - b for a, b in itertools.combinations(parts, 2)]
    assert max(np.abs(change).sum() for change in changes) <= replaced.l1 == 2.0
    assert max(np.linalg.norm(change) for change in changes) <= replaced.l2
    if most > 1:
        assert max(np.abs(change).sum() for change in changes) == pytest.approx(2.0)


def test_a_unit_with_very_many_rows_counts_like_one_with_a_few():
    few, many = ([{"person": 1, "x": 1.0, "g": "a"}] * count for count in (10, 5000))
    asked = DroppedRowsQuestion(PEOPLE, epsilon=1.0, most_rows=8)
    assert session(few).exact(asked).value.tolist() == session(many).exact(asked).value.tolist() == [0, 1, 0]


def test_rows_as_units_count_dropped_rows_only():
    rows = [{"person": None, "x": x, "g": g} for x, g in [(1.0, "a"), (None, "b"), (2.0, "elsewhere"), (None, None)]]
    answer = session(rows, Schema(columns=COLUMNS)).dropped_rows(epsilon=400.0, columns=["x", "g"])
    assert (answer.rows_missing, answer.rows_over_limit, answer.units, answer.mechanism.name) == (3, 0, 3, "geometric")
    assert tuple(answer.units_interval()) == (3, 3)


def test_intervals_cover_and_hold_the_estimate():
    rows = people(5)
    units, over, missing = expected(rows, 8, column="x", limits={"rows": 2})
    asked, covered = DroppedRowsQuestion(PEOPLE, mu=0.5, columns="x"), np.zeros(3)
    exact = session(rows).exact(asked)
    for seed in range(200):
        answer = release(exact, asked.measurement.mechanism, rng=seed)
        for place, (reading, truth) in enumerate(zip(answer.readings(), (units, over, missing), strict=True)):
            assert reading.noise.low <= reading.estimate <= reading.noise.high
            assert reading.estimate == int(reading.estimate) >= 0
            covered[place] += reading.noise.low <= truth <= reading.noise.high
    assert (covered >= 180).all()  # 95 % of 200, less five standard errors
    with pytest.raises(NoPopulationInterval):
        answer.population_interval()


def test_says_how_many_rows_of_a_unit_are_counted():
    answer = session(people(1)).dropped_rows(epsilon=1.0)
    assert "rows left out, at most 8 of each person" in str(answer)
    assert answer.most == 8


def test_behind_a_sample():
    """Rows that a sample drops are no part of what is left out."""
    rows = [{"person": None, "x": None, "g": "a"}] * 1000
    sampled = session(rows, Schema(columns=COLUMNS)).omitting(PoissonSample(0.5)).dropped_rows(epsilon=5.0, columns="x")
    assert 400 < sampled.rows_missing < 600


@pytest.mark.parametrize(
    ("schema", "settings", "names"),
    [
        (Schema(columns=COLUMNS), {}, "columns"),
        (Schema(columns=COLUMNS), {"columns": "x", "most_rows": 2}, "most_rows"),
        (PEOPLE, {"most_rows": 0}, "most_rows"),
        (PEOPLE, {"most_rows": 2**21}, "most_rows"),
        (PEOPLE, {"columns": "y"}, "column"),
        (PEOPLE, {"by": "x"}, "column"),
    ],
)
def test_refusals(schema, settings, names):
    with pytest.raises((InvalidParameter, TypeError), match=names):
        DroppedRowsQuestion(schema, epsilon=1.0, **settings)


def test_the_interval_that_includes_the_choice_of_rows_holds_for_every_ledger():
    """Sixteen ledgers choose different rows; units have up to 40 rows, a tenth of them beyond a limit of five."""
    rng = np.random.default_rng(6)
    limits = PrivacyUnit("person", contribution=Contribution(rows=5))
    schema = Schema(columns={"x": Bounds(0, 9, grid=1)}, unit=limits)
    sizes = np.where(rng.random(600) < 0.1, rng.integers(6, 40, 600), rng.integers(1, 6, 600))
    person = np.repeat(np.arange(600), sizes)
    own = rng.integers(0, 9, 600)[person]
    x = np.where(rng.random(person.size) < 0.5, own, rng.integers(0, 10, person.size)).astype(float)
    weights = np.minimum(1, 5 / sizes)[person]
    truth = float((weights * x).sum() / weights.sum())
    covered, noise_only = 0, 0
    for _ in range(16):
        asked = Session(pa.table({"person": person, "x": x}), schema, ledger=":memory:", budget=PureDP(20.0))
        mean, lost = asked.mean("x", epsilon=10.0), asked.dropped_rows(epsilon=5.0, columns="x")
        covered += lost.mean_interval(mean).contains(truth)
        noise_only += mean.noise_interval().contains(truth)
    assert covered == 16
    assert noise_only < 14  # what the noise interval leaves out
