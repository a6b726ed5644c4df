"""Nested counts: the law of their noise, their loss by brute force, intervals that cover and are narrow."""

from fractions import Fraction
from itertools import combinations_with_replacement, product

import mpmath
import numpy as np
import pyarrow
import pytest

from discreet import (
    ApproxDP,
    Bounds,
    Categories,
    GaussianDP,
    Neighbours,
    PureDP,
    Schema,
    Session,
    ZeroConcentratedDP,
)
from discreet.core.errors import DiscreetError
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.choices import nested_counts
from discreet.mechanisms.choices.nested_counts import (
    Matchings,
    NestedCounts,
    _Counted,
    _possible,
    _sums,
    _variance,
    noise_beyond,
)
from discreet.mechanisms.geometric import GeometricLaw
from discreet.mechanisms.mechanism import mechanism_from_dict
from discreet.questions import QuantileQuestion, Quantiles

ADD, REPLACE, ONE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE, PureDP(1.0)


@pytest.mark.parametrize(("share", "scale"), [(0.0, 0.9), (0.2, 0.05), (0.5, 0.7), (0.9, 1.5), (0.99, 3.0), (1.0, 1.1)])
def test_the_law_of_the_noise_is_that_of_a_sum(share, scale):
    """Two cells of three lie below: all outcomes of the three noises one by one."""
    reach = np.arange(-round(22 * scale) - 2, round(22 * scale) + 3)
    chance = GeometricLaw(0, scale).pdf(reach)
    for reached in (-3.2, 0.0, 2.5, 6.0):
        moved = (1 - share) * (reach[:, None, None] + reach[None, :, None]) - share * reach[None, None, :]
        weights = chance[:, None, None] * chance[None, :, None] * chance[None, None, :]
        exact = float(weights[moved >= reached - 1e-9].sum())
        assert noise_beyond(share, np.array([reached]), np.array([2]), 3, scale)[0] == pytest.approx(exact, abs=2e-6)


def test_a_coarser_lattice_has_the_same_law():
    """Noise of scale 80 on a lattice of tens, beside the same on whole numbers."""
    masses = _sums(np.array([1]), 2, _variance(80.0))[0]
    middle = masses.size // 2
    for reached in (0.0, 50.0, 150.0, 300.0):
        # (1 − q)·a − q·b ≥ reached for one cell on each side
        steps = np.arange(masses.size) - middle
        places = np.clip(np.floor((0.1 * steps - reached) / 0.9) + middle, -1, masses.size - 1).astype(int)
        exact = float(np.sum(masses * np.where(places < 0, 0.0, np.cumsum(masses)[places])))
        assert noise_beyond(0.9, np.array([reached]), np.array([1]), 2, 80.0)[0] == pytest.approx(
            exact, rel=0.03, abs=1e-5
        )


@pytest.mark.parametrize("chance", [0.4, 0.025, 1e-4, 1e-9])
@pytest.mark.parametrize(("share", "scale"), [(0.5, 0.1), (0.9, 1.5), (0.01, 30.0)])
def test_what_a_bound_decides_the_law_would_decide_alike(share, scale, chance):
    for cells in (2, 5, 60):
        lower = np.arange(1, cells)
        for reached in np.linspace(-3, 30, 60) * scale * max(share, 1 - share):
            law = noise_beyond(share, np.full(lower.size, reached), lower, cells, scale) >= chance
            of = np.full(lower.size, cells)
            assert (_possible(share, np.full(lower.size, reached), lower, of, scale, chance) == law).all()


def test_a_hundred_quantiles_fit_into_memory():
    shares = tuple(np.arange(1, 100) / 100)
    statistic = Quantiles(probabilities=shares, bounds=Bounds(0, 10_000, grid=0.01), interval=0.95)
    exact = statistic.exact(np.linspace(0, 10_000, 100_000), neighbours=ADD)
    found = statistic.mechanism(ONE, exact.sensitivity).draw(exact.value, rng=1).reshape(99, 3)
    assert np.mean((found[:, 0] <= 100 * np.arange(1, 100)) & (found[:, 2] >= 100 * np.arange(1, 100))) > 0.9
    assert np.mean(found[:, 2] - found[:, 0]) < 100


class Scripted:
    """Noise whose outcomes are the same for all tables: what goes in is written down with its scale."""

    def __init__(self, seed):
        self.seed, self.rounds = seed, []

    def __call__(self, scale):
        self.scale = scale
        return self

    def draw(self, truth, *, rng):
        self.rounds.append((truth, self.scale))
        stream = np.random.default_rng([self.seed, len(self.rounds)])
        return np.rint(stream.choice([0, 0, 30, 800], truth.size) + stream.normal(0, self.seed, truth.size))


def rounds_of(rows, mechanism, seed, monkeypatch):
    """Counts and scales of every round on some rows, after the same outcomes."""
    script = Scripted(seed)
    steps, counts = np.unique([*rows, mechanism.lowest, mechanism.highest], return_counts=True)
    counts[[0, -1]] -= 1
    with monkeypatch.context() as patched:
        patched.setattr(nested_counts, "Gaussian" if mechanism.normal else "Geometric", script)
        mechanism._rounds([(steps, counts)], None, exact=True)
    return script.rounds


def worst_loss(neighbours, limit, monkeypatch, power=1):
    """The largest loss and move of a round over small tables and what a unit may do to them: ε, or squares, for μ²."""
    normal = power == 2
    mechanism = NestedCounts(rate=0.7, shares=(0.5, 0.9), miss=0.05, lowest=-3, highest=40, grid=1.0, normal=normal)
    places, lost, moved, many = (-3, 0, 1, 7, 40), 0.0, 0, 0
    units = [unit for size in range(limit + 1) for unit in combinations_with_replacement(places, size)]
    for seed, others in product(range(4), [(), (0, 7, 7), (40, 40, -3, 1)]):
        found = [rounds_of(others + unit, mechanism, seed, monkeypatch) for unit in units]
        many = max(many, len(found[0]))
        for here, there in product(range(len(units)), repeat=2):
            if neighbours is ADD and units[here]:  # all rows of a unit come or go
                continue
            pairs = list(zip(found[here], found[there], strict=True))
            assert all(a[1] == b[1] and a[0].shape == b[0].shape for a, b in pairs)  # what is public follows outcomes
            moves = [int((np.abs(a[0] - b[0]) ** power).sum()) for a, b in pairs]
            moved = max(moved, *moves)
            parts = zip(moves, pairs, strict=True)
            lost = max(lost, sum(Fraction(move) / Fraction(a[1]) ** power for move, (a, _) in parts))
    return float(lost), moved, many


@pytest.mark.parametrize("limit", [1, 2, 3])
@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
def test_neighbours_lose_what_is_declared_and_no_more(neighbours, limit, monkeypatch):
    """After the same outcomes all rounds together lose rate · Δ₁ on some tables, and more on none."""
    statistic = Quantiles(probabilities=(0.5, 0.9), bounds=Bounds(-3, 40, grid=1), interval=0.95)
    declared = statistic.sensitivity(neighbours=neighbours, rows_per_unit=limit).l1
    lost, moved, many = worst_loss(neighbours, limit, monkeypatch)
    assert many >= 3
    assert moved == declared == limit * neighbours.sides
    assert 0.999999 * 0.7 * declared < lost <= 0.7 * declared * (1 + 1e-15)


@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
def test_with_normal_noise_squares_add_up_to_what_is_declared(neighbours, limit, monkeypatch):
    statistic = Quantiles(probabilities=(0.5, 0.9), bounds=Bounds(-3, 40, grid=1), interval=0.95)
    declared = statistic.sensitivity(neighbours=neighbours, rows_per_unit=limit).l2
    lost, moved, many = worst_loss(neighbours, limit, monkeypatch, power=2)
    assert many >= 3
    assert moved == pytest.approx(declared**2) == limit**2 * neighbours.sides
    assert 0.999999 * 0.7 * declared**2 < lost <= 0.7 * declared**2 * (1 + 1e-15)


@pytest.mark.parametrize(("power", "name"), [(1, "not_below"), (2, "_root_not_below")])
def test_noise_of_too_small_a_scale_is_found(monkeypatch, power, name):
    monkeypatch.setattr(nested_counts, name, lambda ratio: float(ratio) ** (1 / power) / 1.1)
    assert worst_loss(ADD, 1, monkeypatch, power)[0] > 0.7 * 1.05


def test_what_is_claimed_is_what_the_rounds_may_spend():
    statistic = Quantiles(probabilities=(0.5, 0.9), bounds=Bounds(0, 100, grid=1), interval=0.95)
    for moved in (1.0, 2.0, 6.0):
        sensitivity = Sensitivity(l1=moved)
        mechanism = statistic.mechanism(ONE, sensitivity)
        assert 0.999999 < moved * mechanism.rate <= 1.0
        assert mechanism.guarantee(sensitivity).epsilon == 1.0
        assert mechanism.profile(sensitivity).delta_at(0.9) > 0
        for whole in (GaussianDP(1.0), ZeroConcentratedDP(0.5)):
            mechanism = statistic.mechanism(whole, sensitivity)
            claimed = mechanism.profile(sensitivity)
            assert claimed.within(whole)
            assert mechanism.guarantee(sensitivity) == claimed.gaussian()
            assert claimed.gaussian().mu > 0.999999
            assert mechanism.rate * moved**2 == pytest.approx(1.0)


def incomes(rows, rng):
    """Seven in ten have none, the others lognormal ones."""
    return np.where(rng.random(rows) < 0.7, 0.0, rng.lognormal(3, 1.2, rows))


def heavy(rows, rng):
    return rng.pareto(1.1, rows) + 1


def around(rows, rng):
    return 500 + 15 * rng.standard_t(2, rows)


def even(rows, rng):
    return 10_000 * rng.random(rows)


CASES = {
    "incomes, .9": (incomes, 1000, 0.1, 300, 0.9, 1.0, 80, 14),
    "incomes, .99": (incomes, 1000, 0.1, 3000, 0.99, 1.0, 220, 50),
    "Pareto, .9": (heavy, 10_000, 1.0, 300, 0.9, 1.0, 40, 8),
    "t, 2 df, .9": (around, 1000, 0.1, 300, 0.9, 1.0, 48, 9),
    "t, 2 df, .5": (around, 1000, 0.1, 1000, 0.5, 1.0, 1.7, 0.4),
    "even, .5": (even, 10_000, 0.1, 50_000, 0.5, 0.1, 80, 14),
    "even, .9": (even, 10_000, 0.1, 50_000, 0.9, 0.1, 95, 17),
}


@pytest.mark.parametrize("case", CASES)
def test_intervals_hold_the_quantile_and_are_narrow(case):
    """Chosen by rank they are 818, 783, 7,951, 357, 1.2, 64 and 112 wide."""
    draw, high, grid, rows, share, epsilon, widest, largest = CASES[case]
    rng, repeats = np.random.default_rng(7), 700
    schema = Schema(columns={"x": Bounds(0, high, grid=grid)})
    measured = QuantileQuestion(schema, "x", share, guarantee=PureDP(epsilon)).measurement
    statistic, mechanism = measured.statistic, measured.mechanism
    held, widths, errors = [], [], []
    for _ in range(repeats):
        data = np.rint(np.clip(draw(rows, rng), 0, high) / grid) * grid
        truth = np.sort(data)[int(np.ceil(share * rows - 1e-9)) - 1]
        low, estimate, top = np.asarray(mechanism.draw(statistic.exact(data, neighbours=ADD).value, rng=rng))
        assert low <= estimate <= top
        held.append(low - 1e-9 <= truth <= top + 1e-9)
        widths.append(top - low)
        errors.append(estimate - truth)
    assert np.mean(held) > 0.95 - 3 * np.sqrt(0.05 * 0.95 / repeats)
    assert np.mean(widths) < widest
    assert np.sqrt(np.mean(np.square(errors))) < largest


@pytest.mark.parametrize(("share", "scale"), [(0.2, 0.3), (0.9, 4.0)])
def test_the_law_of_normal_noise_is_that_of_a_sum(share, scale):
    """The point where it is decided, beside the exact tail of a normal number by mpmath."""
    lower, cells = np.array([3]), np.array([10])
    spread = mpmath.mpf(scale) * mpmath.sqrt((1 - share) ** 2 * 3 + share**2 * 7)
    for chance in (0.4, 0.025, 1e-6):
        far = float(spread * mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * mpmath.mpf(chance)))
        inside, outside = (
            _possible(share, np.array([far * factor]), lower, cells, scale, chance, normal=True)[0]
            for factor in (1 - 1e-6, 1 + 1e-4)
        )
        assert inside
        assert not outside


@pytest.mark.parametrize("normal", [False, True])
def test_the_interval_covers_with_the_chance_that_was_asked(normal):
    """Cells that cut at the quantile: no more than the level, or the noise would be larger than it must be."""
    rng, repeats, held = np.random.default_rng(8), 2000, 0
    part = (np.arange(100), np.full(100, 5))
    for _ in range(repeats):
        first, last, _ = _Counted.of(part, np.arange(101), 101, 1.5, rng, normal).left(0.9, 0.4)
        held += int(first[0] <= 89 <= last[0])
    assert 0.6 - 0.03 < held / repeats < 0.9


class ByCount(Scripted):
    """Noise that follows from the count alone, so that it is the same for a group wherever it stands."""

    def draw(self, truth, *, rng):
        return truth + np.rint(self.scale * (truth * 2654435761 % 7 - 3))


@pytest.mark.parametrize("lowest", [-5, 0, 30])
def test_groups_at_once_are_groups_one_by_one(lowest, monkeypatch):
    mechanism = NestedCounts(rate=0.5, shares=(0.5, 0.9), miss=0.05, lowest=lowest, highest=100_000, grid=1.0)
    rng, parts = np.random.default_rng(4), []
    for rows, top in ((0, 50), (40, 90_000), (3000, 500), (100, 100_000), (20_000, 100_000), (20_000, 2000)):
        data = np.append(rng.integers(lowest, top + 1, rows), [lowest, 100_000])
        parts.append(np.unique(data, return_counts=True))
    monkeypatch.setattr(nested_counts, "Geometric", ByCount(0))
    together = mechanism._rounds(parts, None, exact=True)
    for group, part in enumerate(parts):
        assert (together[group] == mechanism._rounds([part], None, exact=True)[0]).all()


@pytest.mark.parametrize("rate", [0.1, 1.0, 8.0])
def test_what_plans_simulate_is_as_wide_as_what_is_drawn(rate):
    mechanism = NestedCounts(rate=rate, shares=(0.5, 0.95), miss=0.05, lowest=0, highest=5000, grid=1.0)
    steps, counts = np.unique(
        np.append(np.random.default_rng(6).integers(0, 5001, 2000), [0, 5000]), return_counts=True
    )
    both = [
        mechanism._rounds([(steps, counts)] * 300, np.random.default_rng(2), exact=exact) for exact in (True, False)
    ]
    drawn, simulated = (np.mean(one[..., 2] - one[..., 0], axis=0) for one in both)
    np.testing.assert_allclose(simulated, drawn, rtol=0.06, atol=1)


@pytest.mark.parametrize(("rows", "pairs"), [(2, 3), (9, 4), (60, 16), (61, 16), (200, 4), (1000, 16)])
def test_pairs_exceed_a_half_by_the_mean_of_the_upper_part(rows, pairs):
    """By drawing, for the matching that is counted; and no number of rows above has more pairs for one of it."""
    of = Matchings(pairs, rows)
    assert of.counted(rows) == sum(min(pairs, rows - 1 - one) for one in range(rows))
    heads = np.sort(np.random.default_rng(2).binomial(of.disjoint(rows), 0.5, 400_000))[::-1]
    for chance in (0.5, 0.1, 0.01):
        above = heads[: int(400_000 * chance)].mean() - of.disjoint(rows) / 2
        assert of.beyond(of.counted(rows), np.array([chance]))[0] >= 0.99 * of.alike * above
        assert of.beyond(of.counted(rows), np.array([chance]))[0] < 1.01 * of.alike * max(above, 0.5) + 1e-6
    for more in range(rows, rows + 400):
        assert of.counted(more) / of.disjoint(more) <= of.alike


@pytest.mark.parametrize("given", [{"shares": (0.4,)}, {"shares": (0.5, 0.6)}, {"together": 2}, {"groups": 2}])
def test_pairs_have_a_median_alone(given):
    usual = {"shares": (0.5,), "together": 1, "groups": 1, "pairs": 4, "lowest": 0, "highest": 9, "grid": 1.0}
    with pytest.raises(DiscreetError, match="pairs"):
        NestedCounts(rate=1.0, miss=0.05, **usual | given)


@pytest.mark.parametrize("first", [(500,), (40, 80, 160, 640), (1, 1000)])
def test_given_edges_begin_the_first_round_and_intervals_hold(first):
    """The wrong edges cost width alone: 200 releases of a quantile far from them."""
    found = NestedCounts(rate=1.0, shares=(0.9,), miss=0.05, lowest=0, highest=1000, grid=1.0, first=first)
    assert found.ladder.tolist() == [0, *first, 1001]
    rng, steps = np.random.default_rng(4), np.arange(1001)
    drawn = np.array([found.draw(np.array([steps, np.full(1001, 2)]), rng=rng) for _ in range(200)])
    assert np.mean((drawn[:, 0] <= 900) & (drawn[:, 2] >= 900)) > 0.9
    assert np.median(drawn[:, 2] - drawn[:, 0]) < 60
    assert mechanism_from_dict(found.to_dict()) == found


@pytest.mark.parametrize("first", [(0,), (1001,), (5, 5), (9, 3), (0.5,)])
def test_edges_that_are_no_edges_are_refused(first):
    with pytest.raises(DiscreetError, match="first"):
        NestedCounts(rate=1.0, shares=(0.9,), miss=0.05, lowest=0, highest=1000, grid=1.0, first=first)


def test_a_delta_changes_nothing_and_is_charged():
    """Counts have the noise of ε alone, which meets (ε, δ)."""
    schema = Schema(columns={"x": Bounds(0, 1000, grid=1)})
    pure, approximate = (
        QuantileQuestion(schema, "x", 0.9, guarantee=one).measurement for one in (PureDP(1.0), ApproxDP(1.0, 1e-6))
    )
    assert pure.mechanism == approximate.mechanism
    assert approximate.mechanism.profile(approximate.sensitivity).delta_at(1.0) == 0.0
    rows = pyarrow.table({"x": [0.0] * 210 + [float(k) for k in range(90)]})
    session = Session(rows, schema, ledger=":memory:", budget=ApproxDP(2.0, 1e-5))
    found = session.quantile("x", 0.9, epsilon=1.0, delta=1e-6)
    assert found.noise_interval().contains(59.0)
    assert found.noise_interval().width < 500  # a choice by rank has all of the bounds
    assert session.ledger.remaining().epsilon == pytest.approx(1.0)


def test_the_guarantee_and_the_interval_decide():
    def named(guarantee=ONE, **settings):
        schema = Schema(columns={"x": Bounds(0, 1000, grid=1)})
        return QuantileQuestion(schema, "x", 0.9, guarantee=guarantee, **settings).measurement.mechanism.name

    assert named() == named(PureDP(20.0)) == named(expected_rows=10**6) == "nested_counts"
    assert named(ApproxDP(1.0, 1e-6)) == "nested_counts"
    assert named(ZeroConcentratedDP(0.1)) == named(GaussianDP(1.0)) == "nested_counts"
    assert named(rows_at_least=300) == "nested_counts"
    assert named(interval=None) == named(recursive=True) == "quantile_choice"
    for refused in (np.array([1, 2]), 0, 2.5, "many"):
        with pytest.raises(DiscreetError, match="expected_rows"):
            named(expected_rows=refused)


@pytest.mark.parametrize("whole", [PureDP(1.0), GaussianDP(1.0)])
def test_wide_bounds_cost_little(whole):
    """A median within ±10⁹ in hundredths, 2·10¹¹ points, where nothing is known of the bounds."""
    schema = Schema(columns={"x": Bounds(-1e9, 1e9, grid=0.01)})
    measured = QuantileQuestion(schema, "x", 0.5, guarantee=whole).measurement
    rng, found = np.random.default_rng(3), []
    for _ in range(60):
        data = np.round(rng.lognormal(10, 1, 1000), 2)
        low, _, high = np.asarray(
            measured.mechanism.draw(measured.statistic.exact(data, neighbours=ADD).value, rng=rng)
        )
        found.append((high - low, low - 0.01 <= np.sort(data)[499] <= high + 0.01))
    widths, held = np.mean(found, axis=0)
    assert widths < 2100
    assert held > 0.9


@pytest.mark.parametrize("q", [1e-9, 1e-4, 0.9999, 1 - 1e-9])
@pytest.mark.parametrize("rows", [0, 1, 60])
def test_the_ends_of_the_data_have_answers(q, rows):
    statistic = Quantiles(probabilities=q, bounds=Bounds(0, 1000, grid=1), interval=0.95)
    exact = statistic.exact(np.arange(rows), neighbours=ADD)
    for whole in (PureDP(1e-6), PureDP(1.0), PureDP(1000.0), GaussianDP(1e-6), GaussianDP(1.0), GaussianDP(1000.0)):
        low, estimate, high = statistic.mechanism(whole, exact.sensitivity).draw(exact.value)
        assert 0 <= low <= estimate <= high <= 1000


def test_many_quantiles_of_groups_from_one_release():
    rng = np.random.default_rng(3)
    rows = pyarrow.table({"x": rng.integers(0, 1001, 6000).astype(float), "g": ["a", "b"] * 3000})
    schema = Schema(columns={"x": Bounds(0, 1000, grid=1), "g": Categories(["a", "b"])})
    session = Session(rows, schema, ledger=":memory:", budget=PureDP(30.0))
    found = session.quantile("x", [0.1, 0.9], by="g", epsilon=20.0, name="x")
    for group in ("a", "b"):
        inside = found[group].noise_interval()
        own = np.sort(rows["x"].to_numpy()[np.array(rows["g"].to_pylist()) == group])
        truth = own[[299, 2699]]
        assert (inside.low <= truth).all()
        assert (inside.high >= truth).all()
        assert found[group].estimate == pytest.approx(truth, abs=10)
    again = session.quantile("x", [0.1, 0.9], by="g", epsilon=20.0, name="x")
    assert again.to_json() == found.to_json()
