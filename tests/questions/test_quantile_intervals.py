"""Quantiles with intervals: for the data and for the population, and choices without one."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

from discreet import Bounds, Contribution, GaussianDP, Neighbours, PrivacyUnit, PureDP, Schema, ZeroConcentratedDP
from discreet.core.errors import DiscreetError
from discreet.mechanisms.choices.nested_counts import NestedCounts, _all_beyond, convex_steps, sampled_beyond
from discreet.mechanisms.choices.quantile import _cut, simulated
from discreet.mechanisms.choices.selection import flip_probabilities
from discreet.questions import QuantileQuestion
from discreet.questions.quantile import Quantiles
from discreet.results.release import Release, release

GRID = Bounds(0, 5, grid=1)


def distance(rows, v, w, target, ends):
    """Rank distance of the points v to w, straight from its definition."""
    terms = []
    if v != ends[0]:
        terms.append(sum(row < v for row in rows) - target)
    if w != ends[1]:
        terms.append(target - sum(row <= w for row in rows))
    return max(terms)


@pytest.mark.parametrize("shape", ["uniform", "incomes", "one value"])
@pytest.mark.parametrize("points", [100, 10**4, 2 * 10**6])
def test_intervals_of_the_median_are_short_and_cover(shape, points):
    """At most 40 ranks at n = 1000, ε = 1; the seeds are fixed."""
    rng, widths, held = np.random.default_rng(points), [], 0
    statistic = Quantiles(probabilities=0.5, bounds=Bounds(0, points, grid=1), interval=0.95)
    for _ in range(30):
        drawn = {"uniform": rng.random(1000), "incomes": rng.lognormal(-3.5, 0.8, 1000), "one value": [0.3] * 1000}
        exact = statistic.exact(np.minimum(drawn[shape], 1) * points, neighbours=Neighbours.ADD_REMOVE)
        mechanism, rows = statistic.mechanism(PureDP(1.0), exact.sensitivity), np.repeat(*exact.value)
        for _ in range(2):
            low, estimate, high = mechanism.draw(exact.value, rng=rng)
            assert low <= estimate <= high
            widths.append(np.searchsorted(rows, high, "left") - np.searchsorted(rows, low, "right"))
            held += low <= rows[500] and high >= rows[499]
    assert np.mean(widths) <= 40
    assert held >= 57


@pytest.mark.parametrize(
    "changed",
    [
        {"rate": 0.0}, {"miss": 0.0}, {"miss": 1.5}, {"shares": ()}, {"shares": (1.5,)}, {"highest": 0}, {"groups": 0},
        {"normal": 1}, {"together": -1}, {"together": 1.5},
    ],
)  # fmt: skip
def test_intervals_refuse_parameters_that_make_no_sense(changed):
    sound = {"rate": 0.3, "shares": (0.5,), "miss": 0.05, "lowest": 0, "highest": 9, "grid": 1.0}
    NestedCounts(**sound)
    with pytest.raises(DiscreetError):
        NestedCounts(**(sound | changed))


@pytest.mark.parametrize("q", [0.01, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("rows", [1, 10, 300, 10_000])
def test_a_sample_goes_beyond_its_share_as_seldom_as_is_said(q, rows):
    """Beside scipy's binomial law, and not by much more than it must be where the law is near a normal one."""
    far = np.array([0.0, 0.5, 1.96, 3.5])
    for deviations, beyond in zip(far, sampled_beyond(q, np.array([float(rows)]), far)[0], strict=True):
        chance = stats.binom.sf(math.floor(q * rows + beyond + 1e-9), rows, q)
        assert chance <= stats.norm.sf(deviations) * (1 + 1e-9)
        if rows * q * (1 - q) > 50:
            assert beyond <= 1.1 * deviations * math.sqrt(rows * q * (1 - q)) + 2


@pytest.mark.parametrize("widest", [0.05, 0.2, 0.6, 1.2, 1.5])
@pytest.mark.parametrize("miss", [0.3, 0.025, 1e-4])
def test_no_choice_of_the_noise_misses_more_often(miss, widest):
    """Whoever sees the sample and chooses the size of the noise for it reaches the chance at most."""
    sampled, noise = convex_steps(miss, widest)
    assert (np.diff(sampled) <= 1e-12).all()
    assert (np.diff(noise) >= -1e-12).all()
    sizes = np.geomspace(0.003, 300, 400)
    ends = np.max(sampled + sizes[:, None] * noise, axis=1)  # a statistic beyond is a miss
    places = np.linspace(-8, 8, 8001)
    worst = [stats.norm.pdf(one) * np.max(stats.norm.sf((ends - one) / sizes)) for one in places]
    assert 0.7 * miss < integrate.trapezoid(worst, places) <= miss
    if widest == 0.05:  # where next to nothing is noise, next to nothing is lost
        assert stats.norm.sf(np.max(sampled + 0.02 * noise) / math.hypot(1, 0.02)) > 0.9 * miss


@pytest.mark.parametrize(("cells", "scale"), [(1, 1.0), (30, 1.25), (7, 40.0)])
def test_the_number_of_rows_is_exceeded_as_rarely_as_said(cells, scale):
    """Sums of whole noise, beside draws: rounded up, and not by much."""
    rng = np.random.default_rng(5)
    shrink = math.exp(-1 / scale)
    drawn = (rng.geometric(1 - shrink, (400_000, cells)) - rng.geometric(1 - shrink, (400_000, cells))).sum(axis=1)
    for chance in (0.3, 0.01):
        reach = _all_beyond(cells, scale, chance)
        error = 4 * math.sqrt(chance / 400_000)
        assert np.mean(drawn >= reach) <= chance + error + (0.01 * chance if scale > 8 else 0)
        step = max(scale / 8, 1)
        assert np.mean(drawn >= reach - step) >= chance - error - (0.01 * chance if scale > 8 else 0)
    assert math.isfinite(_all_beyond(cells, scale, 1e-300))


def rows_of(shape, rng):
    """A thousand numbers between 0 and 1 with a gap, heaps at round values, or heaps elsewhere."""
    incomes = np.minimum(rng.lognormal(-3.5, 0.8, 1000), 1)
    return {
        "heaped": np.where(rng.random(1000) < 0.5, np.round(incomes * 200) / 200, incomes),
        "all in heaps": np.round(incomes * 200) / 200,
        "gap of a fifth": np.where(rng.random(1000) < 0.5, 0.4 * rng.random(1000), 1 - 0.4 * rng.random(1000)),
        "gap of four fifths": np.where(rng.random(1000) < 0.5, 0.1 * rng.random(1000), 1 - 0.1 * rng.random(1000)),
        "heaps beside round values": 0.0213 + 0.1037 * rng.integers(0, 9, 1000),
    }[shape]


@pytest.mark.parametrize(
    ("shape", "most"),
    [
        ("heaped", 55), ("all in heaps", 95), ("gap of a fifth", 60), ("gap of four fifths", 90),
        ("heaps beside round values", 130),
    ],
)  # fmt: skip
@pytest.mark.parametrize("points", [10**4, 2 * 10**6])
def test_intervals_beside_gaps_and_heaps(shape, most, points):
    """Rows strictly inside; the seeds are fixed."""
    rng, inside, held = np.random.default_rng(points), [], 0
    statistic = Quantiles(probabilities=0.5, bounds=Bounds(0, points, grid=1), interval=0.95)
    for _ in range(13):
        exact = statistic.exact(rows_of(shape, rng) * points, neighbours=Neighbours.ADD_REMOVE)
        rows, mechanism = np.repeat(*exact.value), statistic.mechanism(PureDP(1.0), exact.sensitivity)
        for _ in range(3):
            low, _, high = mechanism.draw(exact.value, rng=rng)
            held += low <= rows[500] and high >= rows[499]
            inside.append(max(np.searchsorted(rows, high, "left") - np.searchsorted(rows, low, "right"), 0))
    assert np.mean(inside) <= most
    assert held >= 36


@pytest.mark.parametrize(("n", "q", "most"), [(1000, 0.9, 230), (100, 0.5, 330), (1000, 0.5, 13)])
def test_intervals_beside_an_empty_tail(n, q, most):
    """The interval stays with the rows, however far the end of the grid is."""
    rng, widths = np.random.default_rng(4), []
    statistic = Quantiles(probabilities=q, bounds=Bounds(0, 10_000, grid=1), interval=0.95)
    for _ in range(20):
        rows = np.rint(np.minimum(rng.lognormal(-3.5, 0.5, n), 1) * 10_000)
        exact = statistic.exact(rows, neighbours=Neighbours.ADD_REMOVE)
        low, _, high = statistic.mechanism(PureDP(1.0), exact.sensitivity).draw(exact.value, rng=rng)
        widths.append(high - low)
    assert np.mean(widths) <= most


@pytest.mark.parametrize("whole", [PureDP(1.0), GaussianDP(1.0)])
@pytest.mark.parametrize(
    ("n", "q", "most"), [(10_000, 0.5, 1.2), (10_000, 0.9, 1.3), (300, 0.5, 1.75), (300, 0.9, 2.1)]
)
def test_intervals_for_the_population_are_little_wider_than_without_privacy(whole, n, q, most):
    """Forty samples of their own; the seeds are fixed. Chosen by rank they were 1.2, 1.4, 2.2 and 5.6 as wide."""
    rng, widths, held = np.random.default_rng(4), [], 0
    statistic = Quantiles(probabilities=q, bounds=Bounds(0, 10_000, grid=1), interval=0.95, rows_at_least=n)
    for _ in range(40):
        exact = statistic.exact(rng.random(n) * 10_000, neighbours=Neighbours.ADD_REMOVE)
        low, _, high = statistic.mechanism(whole, exact.sensitivity).draw(exact.value, rng=rng)
        widths.append(high - low)
        held += low <= q * 10_000 <= high
    assert held >= 36
    assert np.mean(widths) <= most * 2 * 1.96 * 10_000 * math.sqrt(q * (1 - q) / n)


def test_rows_of_a_unit_that_are_alike_are_covered_too():
    """Each unit has four equal rows: four times the variance of as many independent ones."""
    unit = PrivacyUnit("who", contribution=Contribution(total=4))
    schema = Schema(columns={"x": Bounds(0, 1000, grid=1)}, unit=unit)
    found = QuantileQuestion(schema, "x", 0.5, epsilon=20.0, rows_at_least=400).measurement
    assert found.mechanism.together == 4
    rng, held = np.random.default_rng(2), 0
    for _ in range(150):
        rows = np.repeat(rng.integers(0, 1001, 100), 4)
        low, _, high = found.mechanism.draw(
            found.statistic.exact(rows, neighbours=Neighbours.ADD_REMOVE).value, rng=rng
        )
        held += low <= 500 <= high
    assert held >= 137


def test_simulated_choices_are_those_that_draw_one_by_one():
    apart, counts, rng = np.array([0, 2, -1, 3]), np.array([5, 0, 1, 40]), np.random.default_rng(2)
    for flip in (False, True):
        heads = np.exp(-0.6 * (apart[counts > 0] + 1.0))
        law = flip_probabilities(heads, counts[counts > 0]) if flip else heads / (heads @ counts[counts > 0])
        seen = np.bincount(simulated(apart, 0.6, counts, rng, flip=flip, size=4000), minlength=4)
        assert seen[1] == 0
        assert stats.chisquare(seen[counts > 0], 4000 * law * counts[counts > 0]).pvalue > 1e-4


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_what_is_claimed_is_what_all_choices_lose(neighbours):
    """Two quantiles: each choice may lose 2·factor·Δ, and by permute and flip ρ follows from that ε alone."""
    of = Quantiles(probabilities=(0.25, 0.5), bounds=GRID)
    moved = of.sensitivity(neighbours=neighbours)
    for asked in (PureDP(1.0), ZeroConcentratedDP(0.1)):
        made = of.mechanism(asked, moved)
        losses = 2 * [2 * made.factor * moved.l1]
        pure, concentrated = (made.guarantee(moved, kind) for kind in (PureDP, ZeroConcentratedDP))
        assert pure.epsilon == pytest.approx(sum(losses), rel=1e-9)
        rho = [one * math.tanh(one / 2) if made.flip else one**2 / 8 for one in losses]
        assert concentrated.rho == pytest.approx(sum(rho), rel=1e-9)
        assert made.profile(moved).within(asked)
        assert not made.profile(moved).within(asked.split([0.98, 0.02])[0])
        assert made.flip is isinstance(asked, PureDP)


def moved_ranks(here, there, share, ends):
    """The largest change of a rank distance between the rows of a part and its rows after a change."""
    points = range(ends[0], ends[1] + 1)
    apart = [[distance(rows, v, v, share * len(rows), ends) for v in points] for rows in (here, there)]
    return max(abs(one - other) for one, other in zip(*apart, strict=True))


@pytest.mark.parametrize("q", [0.25, 0.5])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_ranks_of_all_groups_together_move_as_far_as_declared(q, neighbours):
    """A replaced row may leave one group for another, and moves the ranks of both."""
    of, ends, share = Quantiles(probabilities=q, bounds=Bounds(0, 2, grid=1)), (0, 2), Fraction(q)
    groups = list(itertools.chain.from_iterable(
        itertools.combinations_with_replacement(range(3), size) for size in range(5)
    ))  # fmt: skip
    one = max(moved_ranks(rows, (*rows, more), share, ends) for rows in groups for more in range(3))
    both = one if neighbours is Neighbours.ADD_REMOVE else 2 * one  # each group by itself, as a row comes or goes
    declared = of.sensitivity(neighbours=neighbours, grouped=True)
    assert declared.l1 == both == max(q, 1 - q) * (1 if neighbours is Neighbours.ADD_REMOVE else 2)
    assert of.sensitivity(neighbours=neighbours, grouped=True, rows_per_unit=3).l1 == 3 * both


@pytest.mark.parametrize("at", range(7))
def test_a_recursion_puts_every_row_into_one_part(at):
    steps, counts = np.array([0, 2, 3, 6]), np.array([1, 4, 0, 5])
    (low, under), (high, over) = _cut(steps, counts, at)
    assert (low[-1], high[0]) == (at, at)
    assert (under.sum(), over.sum()) == (counts[steps <= at].sum(), counts[steps > at].sum())
    several = Quantiles(probabilities=(0.2, 0.5, 0.7), bounds=GRID, recursive=True)
    assert [several.sensitivity(neighbours=one).l1 for one in (Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE)] == [1, 2]


def test_releases_with_settings_of_another_version_are_refused():
    of = Quantiles(probabilities=0.5, bounds=GRID, interval=0.9)
    exact = of.exact([1.0, 2.0, 2.0, 4.0], neighbours=Neighbours.ADD_REMOVE)
    data = release(exact, of.mechanism(PureDP(1.0), exact.sensitivity), rng=1).to_dict()
    assert Release.from_dict(data).to_dict() == data
    data["mechanism"]["cells"] = 12
    with pytest.raises(DiscreetError, match="settings that this version does not know"):
        Release.from_dict(data)
