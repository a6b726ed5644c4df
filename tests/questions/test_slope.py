"""Slopes by pairs: one row more by brute force, intervals against populations, refusals before the payment."""

import itertools
import math
from collections import Counter

import numpy as np
import pyarrow
import pytest
from scipy import stats

from discreet import (
    ApproxDP,
    Bounds,
    Categories,
    GaussianDP,
    Neighbours,
    PrivacyUnit,
    PureDP,
    Schema,
    Session,
    ZeroConcentratedDP,
)
from discreet.core.errors import InvalidParameter, NoPopulationInterval
from discreet.questions import SlopeQuestion
from discreet.questions.slope import PairSlopes, keyed, ladder_edges, pair_slopes

SMALL = {"predictor": Bounds(0, 2, grid=1), "outcome": Bounds(0, 1, grid=1)}
WIDE = Schema(columns={"x": Bounds(0, 1, grid=1e-6), "y": Bounds(0, 1, grid=1e-6)})


def cells(of: PairSlopes, rows: list[tuple[float, float]], salt: str) -> Counter[int]:
    """The histogram of some rows."""
    steps, counts = of.histogram(np.array(rows, dtype=float).reshape(-1, 2), salt)
    return Counter(dict(zip(steps.tolist(), counts.tolist(), strict=True)))


def moved(one: Counter[int], other: Counter[int]) -> tuple[int, int]:
    """ℓ₁ distance of two histograms, and the square of their ℓ₂ distance."""
    changes = [abs(one[step] - other[step]) for step in one.keys() | other.keys()]
    return sum(changes), sum(change**2 for change in changes)


@pytest.mark.parametrize("pairs", [1, 2, 3])
def test_one_row_more_moves_three_cells_for_each_pair(pairs):
    """All rows of a universe of six, with many ties, and data sets of up to 14 rows."""
    of = PairSlopes(**SMALL, pairs=pairs)
    universe = [(float(x), float(y)) for x, y in itertools.product(range(3), range(2))]
    rng, added, replaced = np.random.default_rng(7), [], []
    for trial in range(250):
        rows = [universe[i] for i in rng.integers(6, size=rng.integers(0, 15))]
        less, *more = (cells(of, [*rows, *one], str(trial)) for one in ([], *([row] for row in universe)))
        added += [moved(less, one) for one in more]
        replaced += [moved(*both) for both in itertools.combinations(more, 2)]
    for found, neighbours, reached in ((added, Neighbours.ADD_REMOVE, 1.0), (replaced, Neighbours.REPLACE_ONE, 0.6)):
        declared = of.sensitivity(neighbours=neighbours)
        assert reached * declared.l1 <= max(one for one, _ in found) <= declared.l1
        assert 0.4 * declared.l2**2 < max(square for _, square in found) <= declared.l2**2
    assert declared.l1 == 6 * pairs


def test_the_order_of_others_stays_and_does_not_follow_the_values():
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 4, (40, 2)).astype(float)
    before = [tuple(row) for row in keyed(rows, "salt")[0]]
    after = [tuple(row) for row in keyed(np.vstack([[2.0, 2.0], rows[::-1]]), "salt")[0]]
    place = next(i for i in range(41) if i == 40 or before[i] != after[i])
    assert after[:place] + after[place + 1 :] == before
    many = np.column_stack([np.arange(4000.0), np.zeros(4000)])
    assert abs(stats.spearmanr(keyed(many, "salt")[0][:, 0], np.arange(4000)).statistic) < 0.06
    assert keyed(many, "salt")[0].tolist() != keyed(many, "other")[0].tolist()


def test_slopes_are_those_of_pairs_by_hand():
    rows, bits = keyed(rows_of := np.array([[0.0, 1.0], [2.0, 0.0], [1.0, 1.0], [1.0, 0.0], [1.0, 0.0]]), "s")
    wanted = []
    for apart in (1, 2):
        for i in range(5 - apart):
            (x1, y1), (x2, y2) = rows[i], rows[i + apart]
            side = (1 if bits[i] != bits[i + apart] else -1) if y1 == y2 else y2 - y1
            wanted.append((y2 - y1) / (x2 - x1) if x1 != x2 else math.copysign(math.inf, side))
    assert pair_slopes(rows_of, 2, "s").tolist() == wanted


def line(rng, n, spread=0.05):
    x = np.clip(rng.normal(0.5, spread, n), 0, 1)
    return np.column_stack([x, np.clip(0.3 + 0.4 * x + rng.normal(0, 0.05, n), 0, 1)])


def skewed(rng, n, spread=0.05):
    """Errors that are skewed and grow with x: pairs of them are symmetric given both rows' spread, not else."""
    x = rng.beta(0.5, 3, n)
    return np.column_stack([x, np.clip(0.1 + 0.4 * x + 0.05 * rng.exponential(size=n), 0, 1)])


def few_values(rng, n, spread=0.05):
    x = rng.integers(0, 3, n) / 2
    return np.column_stack([x, np.clip(np.round(0.3 + 0.4 * x + rng.normal(0, 0.1, n), 1), 0, 1)])


@pytest.mark.parametrize("draw", [line, skewed, few_values])
@pytest.mark.parametrize("guarantee", [PureDP(1.0), ZeroConcentratedDP(0.5), GaussianDP(1.0), ApproxDP(1.0, 1e-6)])
def test_intervals_cover(draw, guarantee):
    """The noise interval the median of the data's pairs, the population interval that of the population."""
    rng, n, repeats = np.random.default_rng(3), 400, 120
    far = draw(rng, 400_000)
    truth = float(np.median(pair_slopes(far, 1, "far")))
    held = np.zeros(2)
    for declared in (None, n):
        found = SlopeQuestion(WIDE, "y", on="x", guarantee=guarantee, rows_at_least=declared).measurement
        of, mechanism = found.statistic, found.mechanism
        for trial in range(repeats):
            data = draw(rng, n)
            low, high = of.ends(mechanism.draw(of.histogram(data, str(trial)), rng=rng))
            wanted = float(np.median(pair_slopes(data, of.pairs, str(trial)))) if declared is None else truth
            held[declared is not None] += low <= wanted <= high
    # At 95 % fewer than 107 of 120 come about once in 400 times.
    assert held.min() >= 107


@pytest.mark.parametrize(("n", "spread", "error", "width"), [(300, 0.05, 0.11, 0.9), (300, 0.2, 0.026, 0.27)])
def test_a_narrow_predictor_is_no_obstacle(n, spread, error, width):
    """Medians of 100 releases; least squares from moments over the same bounds err by 0.6 and 0.05."""
    rng, errors, widths = np.random.default_rng(5), [], []
    found = SlopeQuestion(WIDE, "y", on="x", epsilon=1.0).measurement
    for trial in range(100):
        drawn = found.mechanism.draw(found.statistic.histogram(line(rng, n, spread), str(trial)), rng=rng)
        errors.append(abs(found.statistic.shown_value(drawn) - 0.4))
        low, high = found.statistic.ends(drawn)
        widths.append(high - low)
    assert np.median(errors) < error
    assert np.median(widths) < width


def test_the_first_counts_lie_on_the_ladder_whatever_the_bounds():
    for run, rise in itertools.product((1.0, 1e-3, 1e9), (1.0, 1e9)):
        of = PairSlopes(predictor=Bounds(0, run, grid=min(run, 1.0)), outcome=Bounds(0, rise, grid=1.0))
        found = of.mechanism(PureDP(1.0), of.sensitivity(neighbours=Neighbours.ADD_REMOVE))
        edges = found.ladder
        assert edges[1:-1].tolist() == (-edges[1:-1][::-1]).tolist()
        assert (np.diff(edges) > 0).all()
        assert (edges[0], edges[-1]) == (-of.cells, of.cells + 1)
        assert 6 <= len(edges) <= 12


def test_the_planned_error_is_that_of_releases():
    """400 releases of rows that are spread evenly; the plan's own 40 data sets tell the 95 % point to about a fifth."""
    question = SlopeQuestion(WIDE, "y", on="x", epsilon=1.0, expected_rows=400)
    rng, found, farther = np.random.default_rng(11), question.measurement, []
    for trial in range(400):
        drawn = found.mechanism.draw(found.statistic.histogram(rng.uniform(size=(400, 2)), str(trial)), rng=rng)
        farther.append(max(map(abs, found.statistic.ends(drawn))))
    assert 0.8 < np.quantile(farther, 0.95) / question.plan().error_95 < 1.25


def test_a_plan_of_hardly_any_rows_expects_no_end():
    assert SlopeQuestion(WIDE, "y", on="x", epsilon=0.1, expected_rows=20).plan().error_95 == math.inf


def test_a_session_answers_stores_and_reads_back():
    rows = line(np.random.default_rng(8), 3000, 0.2)
    table = pyarrow.table({"x": rows[:, 0], "y": rows[:, 1]})
    session = Session(table, WIDE, ledger=":memory:", budget=PureDP(4.0))
    found = session.slope("y", on="x", epsilon=2.0, name="s")
    low, high = found.noise_interval()  # of the pairs of these rows, whose median slope is near the line's
    assert 0.3 < low <= found.estimate <= high < 0.5
    assert session.slope("y", on="x", epsilon=2.0, name="s").estimate == found.estimate
    assert type(found).from_json(found.to_json()).noise_interval() == found.noise_interval()
    with pytest.raises(NoPopulationInterval, match="rows_at_least"):
        found.population_interval()
    wide = session.slope("y", on="x", epsilon=2.0, rows_at_least=2500)
    assert wide.population_interval().contains(0.4)
    assert "slope" in str(found)
    assert "population interval" in str(wide)


@pytest.mark.parametrize("rows", [0, 1, 2, 3])
def test_next_to_no_rows_are_answered(rows):
    data = line(np.random.default_rng(9), 3)[:rows]
    table = pyarrow.table({"x": pyarrow.array(data[:, 0]), "y": pyarrow.array(data[:, 1])})
    session = Session(table, WIDE, ledger=":memory:", budget=PureDP(2.0))
    found = session.slope("y", on="x", epsilon=1.0)
    assert math.isfinite(found.estimate)
    low, high = found.noise_interval()
    assert low <= found.estimate <= high
    assert found.to_json()


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"on": "y"}, "is the outcome itself"),
        ({"on": "z"}, "z"),
        ({"on": "x", "pairs": 0}, "pairs"),
        ({"on": "x", "pairs": 101}, "at most 100"),
        ({"on": "x", "interval": 1.0}, "level"),
        ({"on": "x", "rows_at_least": 0}, "rows_at_least"),
    ],
)
def test_refused_before_anything_is_spent(given, rule):
    session = Session(pyarrow.table({"x": [0.5], "y": [0.5]}), WIDE, ledger=":memory:", budget=PureDP(1.0))
    with pytest.raises(InvalidParameter, match=rule):
        session.slope("y", **given, epsilon=1.0)
    assert session.ledger.remaining() == PureDP(1.0)


def test_units_of_several_rows_are_refused():
    unit = Schema(columns=WIDE.columns, unit=PrivacyUnit("id"))
    with pytest.raises(InvalidParameter, match="a unit must be a row"):
        SlopeQuestion(unit, "y", on="x", epsilon=1.0)


def test_cells_are_found_by_comparisons_and_end_at_the_steepest_slope():
    of = PairSlopes(**SMALL)
    edges = ladder_edges(of.scale, of.cells)
    assert np.all(np.diff(edges) > 0)
    assert edges.size == 2 * of.cells
    steps, counts = of.histogram(np.array([[0.0, 0.0], [1.0, 1.0]]), "s")
    slope = steps[np.flatnonzero(counts)][0]
    assert edges[slope + of.cells - 1] < 1.0 <= edges[slope + of.cells]
    assert slope < of.cells


def test_a_regression_of_which_nothing_is_known_warns_of_nothing():
    data = line(np.random.default_rng(11), 300)
    table = pyarrow.table({"x": data[:, 0], "y": data[:, 1]})
    for _ in range(20):  # warnings are errors here; a square next to zero came about once in twenty
        session = Session(table, WIDE, ledger=":memory:", budget=PureDP(1.0))
        assert session.regression("y", on=["x"], epsilon=1.0).conf_int() is not None


def test_a_regression_says_which_column_keeps_it_from_an_answer():
    rng = np.random.default_rng(2)
    narrow = line(rng, 300)
    x = rng.random(4000)
    data = {
        "x": x,
        "z": np.clip(x + rng.normal(0, 0.01, 4000), 0, 1),
        "y": 0.3 + 0.4 * x,
        "g": pyarrow.array(np.where(rng.random(4000) < 0.002, "b", "a")),
    }
    columns = {name: Bounds(0, 1, grid=1e-3) for name in "xyz"} | {"g": Categories(["a", "b"])}
    alone = Session(pyarrow.table({"x": narrow[:, 0], "y": narrow[:, 1]}), WIDE, ledger=":memory:", budget=PureDP(9.0))
    many = Session(pyarrow.table(data), Schema(columns=columns), ledger=":memory:", budget=PureDP(9.0))
    found = alone.regression("y", on=["x"], epsilon=0.2)
    assert "how much x varies within its bounds, 0 to 1" in str(found.summary())
    with pytest.raises(NoPopulationInterval, match="declare bounds closer to its values"):
        found.coefficients["x"].population_interval()
    assert "how much x and z vary beside other columns" in str(
        many.regression("y", on=["x", "z"], epsilon=1.0).summary()
    )
    assert "how many rows have g[b]: merge" in str(many.regression("y", on=["x", "g"], epsilon=0.5).summary())
    assert "Noise hides" not in str(many.regression("y", on=["x"], epsilon=2.0).summary())


def test_a_column_that_varies_little_is_named_for_what_it_hides_of_others():
    """An amount of which noise hides the spread is the cause, and not the number beside it; its logarithm has one."""
    rng = np.random.default_rng(4)
    amount, x = np.round(np.clip(rng.lognormal(2, 1, 2000), 0, 1000), 2), np.round(rng.random(2000), 3)
    columns = {"amount": Bounds(0, 1000, grid=0.01), "x": Bounds(0, 1, grid=1e-3), "y": Bounds(0, 1, grid=1e-3)}
    y = np.clip(0.3 + 0.1 * x + 0.05 * np.log1p(amount) + rng.normal(0, 0.05, 2000), 0, 1)
    table = pyarrow.table({"amount": amount, "x": x, "y": y})
    session = Session(table, Schema(columns=columns), ledger=":memory:", budget=PureDP(20.0))
    found = session.regression("y", on=["amount", "x"], epsilon=0.5)
    blamed = found.design.sampled.blamed()
    assert blamed == ["", "narrow", ""]
    (told,) = found.design.doubts([2])
    assert told.startswith("Noise hides how much amount varies within its bounds, 0 to 1000")
    assert "take log1p(amount) in a formula, or leave it out" in told
    evenly = session.regression(formula="y ~ log1p(amount) + x", epsilon=2.0)
    assert 0 < evenly.intervals()["log1p(amount)"].width < 0.2
    assert evenly.design.sampled.blamed() == [""] * 3
