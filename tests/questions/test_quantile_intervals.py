"""Quantiles with intervals: both stages follow their laws, lose what they claim, cover, and are short."""

import itertools
import math
from collections import Counter
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy import stats

from discreet import Bounds, Neighbours, PureDP, ZeroConcentratedDP
from discreet.core.errors import DiscreetError
from discreet.mechanisms.choices.quantile import (
    IntervalEnds,
    QuantileInterval,
    _cut,
    fine_pair,
    rough_pair,
    round_ladders,
    roundest,
    simulated,
)
from discreet.mechanisms.choices.selection import flip_probabilities
from discreet.questions.quantile import Quantiles, noise_miss, sampled_shares, typical_ranks
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


def by_distance(distances, factor, flip):
    """Probabilities of candidates with these distances, by weights or by permute and flip."""
    scores = -factor * np.array(list(distances.values()), dtype=float)
    weights = np.exp(scores - scores.max())
    chances = flip_probabilities(weights) if flip else weights / weights.sum()
    return dict(zip(distances, chances.tolist(), strict=True))


def rough_law(rows, targets, factor, flip=False):
    """Probability of every ordered pair of points of GRID, by enumeration of all pairs."""
    all_pairs = {
        (v, w): max(distance(rows, v, v, targets[0], (0, 5)), distance(rows, w, w, targets[1], (0, 5)))
        for v, w in itertools.product(range(6), repeat=2)
    }
    law = Counter()
    for (v, w), chance in by_distance(all_pairs, factor, flip).items():
        law[min(v, w), max(v, w)] += chance
    return dict(law)


ENDS = IntervalEnds.of(np.array([0, 1, 2, 3]), np.array([1, 2, 4, 5]), middle=2, factor=0.7, others=0.8)


def fine_law(rows, ends, targets, factor, flip=False):
    """Probability of every pair of ends on GRID, from the definition of their distance, row by row."""
    lower, upper, margins = ends.lower.tolist(), ends.upper.tolist(), ends.margins / 16

    def low_short(i, j):
        return sum(row < lower[i] for row in rows) - targets[0] + margins[i, j]

    def high_short(i, j):
        return targets[1] - sum(row <= upper[j] for row in rows) + margins[i, j]

    distances = {}
    for i, j in itertools.product(range(len(lower)), range(len(upper))):
        terms = ([low_short(i, j)] if i > 0 else []) + ([high_short(i, j)] if j < len(upper) - 1 else [])
        terms += [-low_short(i + 1, j)] if i < len(lower) - 1 else []
        distances[lower[i], upper[j]] = max(terms + ([-high_short(i, j - 1)] if j > 0 else []))
    return by_distance(distances, factor, flip)


def follows(draw, law, count=2000):
    """χ² at 10⁻⁵ for seeded draws; cells with an expectation below 8 are pooled."""
    seen = Counter(draw() for _ in range(count))
    assert set(seen) <= set(law)
    rare = [pair for pair, chance in law.items() if count * chance < 8]
    groups = [[pair] for pair in law if pair not in rare] + ([rare] if rare else [])
    found = [sum(seen[pair] for pair in group) for group in groups]
    expected = [count * sum(law[pair] for pair in group) for group in groups]
    return stats.chisquare(found, expected).pvalue > 1e-5


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("rows", [[], [3], [0, 0, 2, 5], [2, 2, 2, 2, 3]])
def test_both_stages_follow_their_laws(rows, flip):
    statistic, rng = Quantiles(probabilities=0.5, bounds=GRID), np.random.default_rng(3)
    steps, counts = statistic.exact(np.array(rows, dtype=float), neighbours=Neighbours.ADD_REMOVE).value
    targets = (Fraction(len(rows), 2) - 1, Fraction(len(rows), 2) + Fraction(3, 2))
    part, factor = (steps, counts), Fraction(7, 10)
    rough, fine = rough_law(rows, targets, 0.7, flip), Counter()
    for ends, chance in fine_law(rows, ENDS, targets, 0.7, flip).items():
        fine[min(ends), max(ends)] += chance  # ends that cross are put in order
    assert follows(lambda: rough_pair(part, targets, factor, rng, flip=flip), rough)
    assert follows(lambda: fine_pair(part, ENDS, targets, factor, rng, flip=flip), fine)
    assert follows(lambda: fine_pair(part, ENDS, targets, factor, None, flip=flip), fine, 1000)
    assert rough_pair(part, targets, factor, None, flip=flip) in rough


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize(("low", "high"), [(0.5, 0.5), (0.2, 0.3)])
def test_pairs_lose_no_more_than_one_choice(neighbours, low, high, flip):
    """Exhaustive: all data sets of up to three rows on the grid, both stages, every neighbour."""
    moved = 1.0 if neighbours is Neighbours.REPLACE_ONE else max(low, high, 1 - low, 1 - high)
    factor, worst = 1 / (2 * moved), 0.0

    @cache
    def laws(data):
        aims = low * len(data) - 1, high * len(data) + 1
        fine = fine_law(data, ENDS, aims, factor, flip)
        return [np.log(list(law.values())) for law in (rough_law(data, aims, factor, flip), fine)]

    for size in range(4):
        for data in itertools.combinations_with_replacement(range(6), size):
            if neighbours is Neighbours.ADD_REMOVE:
                others = [(*data, extra) for extra in range(6)]
            else:
                others = [(*data[:i], new, *data[i + 1 :]) for i in range(size) for new in range(6)]
            for other in others:
                pairs = zip(laws(data), laws(tuple(sorted(other))), strict=True)
                worst = max(worst, *(np.abs(here - there).max() for here, there in pairs))
    assert worst <= 1 + 1e-9


@pytest.mark.parametrize("shape", ["uniform", "incomes", "one value"])
@pytest.mark.parametrize("points", [100, 10**4, 2 * 10**6])
def test_intervals_of_the_median_are_short_and_cover(shape, points):
    """At most 35 ranks at n = 1000, ε = 1; the seeds are fixed."""
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
    assert np.mean(widths) <= 35
    assert held >= 57


@pytest.mark.parametrize(
    "changed",
    [
        {"first": 0.0}, {"miss": 0.0}, {"miss": 1.5}, {"shares": ()}, {"shares": ((0.6, 0.4),)},
        {"highest": 0}, {"highest": 2**26 + 1}, {"shares": ((1 / 999983, 1 / 999979),)}, {"groups": 0},
    ],
)  # fmt: skip
def test_intervals_refuse_parameters_that_make_no_sense(changed):
    sound = {"first": 0.3, "second": 0.7, "shares": ((0.5, 0.5),), "miss": 0.05, "lowest": 0, "highest": 9, "grid": 1.0}
    QuantileInterval(**sound)
    with pytest.raises(DiscreetError):
        QuantileInterval(**(sound | changed))


@pytest.mark.parametrize("q", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("rows", [10, 100, 1000, 10_000])
def test_shares_of_a_sample_leave_the_quantile_as_seldom_as_they_say(q, rows):
    """Binomial tails for the declared number of rows and for more, against a bound that is nearly sharp."""
    low, high = sampled_shares(q, rows, 0.0125)
    tails = [0.0]
    for n in [*range(rows, rows + 40), 2 * rows, 7 * rows]:  # an end of 0 or 1 takes the end of the grid
        tails += [float(stats.binom.cdf(math.floor(low * n), n, q))] if low > 0 else []
        tails += [float(stats.binom.sf(math.ceil(high * n) - 1, n, q))] if high < 1 else []
    assert max(tails) <= 0.0125
    if rows == 10_000:
        assert max(tails) >= 0.009


def chances_of(part, ends, half, flip):
    """Probability of each pair, and whether it misses the median."""
    apart = ends.distances(part, (half, half), 16)
    chances = np.array(list(by_distance(dict(enumerate(apart.tolist())), 0.7 / 16, flip).values()))
    low, high = ends.at(np.arange(apart.size))
    ranks = np.concatenate([[0], np.cumsum(part[1])])
    below, upto = ranks[np.searchsorted(part[0], low)], ranks[np.searchsorted(part[0], high, side="right")]
    return apart, chances, (below > half) | (upto < half)


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize(("lower", "upper"), [(3, 3), (12, 12), (40, 40), (40, 2)])
def test_the_margin_holds_for_the_worst_rows_and_is_no_larger_than_they_need(lower, upper, flip):
    """As many rows on the lowest point as it has to leave below, the other half on the next: other lower ends miss."""
    others = 0.05 * (2 if flip else 1)
    ends = IntervalEnds.of(np.arange(lower), lower + np.arange(upper), middle=lower - 0.5, factor=0.7, others=others)
    half, last = 500, lower + upper - 1
    first = half - int(ends.margins[1, 0]) // 16
    part = np.array([0, 1, last]), np.array([first, half + 1 - first, half - 1])
    _, chances, misses = chances_of(part, ends, Fraction(half), flip)
    assert chances[misses].sum() <= 0.05
    if not flip:
        assert chances[misses].sum() >= 0.004


@pytest.mark.parametrize("seed", range(40))
def test_a_right_pair_of_ends_is_always_near(seed):
    """Theorem 4 for rows of every kind: some pair is at most 0 away, and wrong ones are rare."""
    rng = np.random.default_rng(seed)
    points = int(rng.choice([5, 60, 10**4, 2 * 10**6]))
    low, high = np.sort(rng.integers(0, points + 1, 2)).tolist()
    ends = IntervalEnds.of(*round_ladders(low, high, 0, points), middle=(low + high) / 2, factor=0.7, others=0.1)
    edges = np.concatenate([ends.lower, ends.upper])
    places = np.clip(rng.choice(edges, rng.integers(1, 9)) + rng.integers(-1, 2), 0, points)
    steps = np.unique(np.concatenate([[0, points], places]))
    part = steps, rng.integers(0, rng.choice([2, 20, 300]), steps.size)
    half = Fraction(int(part[1].sum()), 2)
    apart, chances, misses = chances_of(part, ends, half, True)
    assert apart.min() <= 0
    assert chances[misses].sum() <= 0.05


def test_margins_grow_outwards_and_share_what_may_go_wrong():
    ends = IntervalEnds.of(np.arange(30), np.arange(29, 80), middle=29, factor=0.3, others=0.1)
    assert (np.diff(ends.margins, axis=0) <= 0).all()
    assert (np.diff(ends.margins, axis=1) >= 0).all()
    assert 0.095 <= np.exp(-0.3 * ends.margins / 16).sum() <= 0.1
    across = IntervalEnds.of(np.arange(40), np.arange(20, 80), middle=29, factor=0.3, others=0.1)
    assert (
        len(set(across.margins[30:, 0])) == len(set(across.margins[39, :10])) == 1
    )  # those across the middle are alike
    assert (np.diff(across.margins, axis=0) <= 0).all()
    whole = IntervalEnds.of(np.arange(30), np.arange(29, 80), middle=29, factor=1e-12, others=0.1)
    assert [*whole.lower, *whole.upper] == [0, 79]  # no margin is wide enough


@pytest.mark.parametrize("factor", [0.03, 0.4, 5.0])
@pytest.mark.parametrize("q", [0.01, 0.5, 0.9])
@pytest.mark.parametrize("rows", [30, 1000, 10_000])
def test_noise_and_sampling_together_leave_the_quantile_as_seldom_as_they_say(q, rows, factor):
    """E min(1, miss · e^(−factor·(X − share·n))) over the binomial law, both ends, at least the declared rows."""
    shares = sampled_shares(q, rows, 0.02)
    miss = noise_miss(q, shares, rows, 0.05, factor)
    total = []
    for n in (rows, rows + 7, 3 * rows):
        x = np.arange(n + 1)
        for share, at in ((shares[0], q), (1 - shares[1], 1 - q)):
            inside = x - share * n
            total.append(
                stats.binom.pmf(x, n, at) @ np.where(inside >= 0, miss * np.exp(-factor * inside.clip(0)), 1.0)
            )
    assert max(np.add(total[::2], total[1::2])) <= 0.05
    if rows == 10_000:
        assert sum(total[:2]) >= (0.025 if q == 0.01 else 0.035)  # of a hundred rows, one is a good deal


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
        ("heaped", 20), ("all in heaps", 5), ("gap of a fifth", 38), ("gap of four fifths", 41),
        ("heaps beside round values", 130),
    ],
)  # fmt: skip
@pytest.mark.parametrize("points", [10**4, 2 * 10**6])
def test_intervals_beside_gaps_and_heaps(shape, most, points):
    """Rows strictly inside; the seeds are fixed."""
    rng, inside = np.random.default_rng(points), []
    statistic = Quantiles(probabilities=0.5, bounds=Bounds(0, points, grid=1), interval=0.95)
    for _ in range(13):
        exact = statistic.exact(rows_of(shape, rng) * points, neighbours=Neighbours.ADD_REMOVE)
        rows, mechanism = np.repeat(*exact.value), statistic.mechanism(PureDP(1.0), exact.sensitivity)
        for _ in range(3):
            low, _, high = mechanism.draw(exact.value, rng=rng)
            assert low <= rows[500]
            assert high >= rows[499]
            inside.append(max(np.searchsorted(rows, high, "left") - np.searchsorted(rows, low, "right"), 0))
    assert np.mean(inside) <= most


@pytest.mark.parametrize(("n", "q", "most"), [(1000, 0.9, 230), (100, 0.5, 330), (1000, 0.5, 13)])
def test_intervals_beside_an_empty_tail(n, q, most):
    """The first stage aims beyond the rows, and finds the end of the grid; the interval must stay with the rows."""
    rng, widths = np.random.default_rng(4), []
    statistic = Quantiles(probabilities=q, bounds=Bounds(0, 10_000, grid=1), interval=0.95)
    for _ in range(20):
        rows = np.rint(np.minimum(rng.lognormal(-3.5, 0.5, n), 1) * 10_000)
        exact = statistic.exact(rows, neighbours=Neighbours.ADD_REMOVE)
        low, _, high = statistic.mechanism(PureDP(1.0), exact.sensitivity).draw(exact.value, rng=rng)
        widths.append(high - low)
    assert np.mean(widths) <= most


@pytest.mark.parametrize(("q", "most"), [(0.5, 1.2), (0.9, 1.4)])
def test_intervals_for_the_population_are_little_wider_than_without_privacy(q, most):
    """Forty samples of their own; the seeds are fixed."""
    rng, widths, held = np.random.default_rng(4), [], 0
    statistic = Quantiles(probabilities=q, bounds=Bounds(0, 10_000, grid=1), interval=0.95, rows_at_least=10_000)
    for _ in range(40):
        exact = statistic.exact(rng.random(10_000) * 10_000, neighbours=Neighbours.ADD_REMOVE)
        low, _, high = statistic.mechanism(PureDP(1.0), exact.sensitivity).draw(exact.value, rng=rng)
        widths.append(high - low)
        held += low <= q * 10_000 <= high
    assert held >= 36
    assert np.mean(widths) <= most * 2 * 1.96 * 100 * math.sqrt(q * (1 - q))


@pytest.mark.parametrize(
    ("low", "high"),
    [(-(10**6), 10**6), (0, 0), (-7, -7), (10**6, 10**6), (103, 197), (-4001, 12_345), (999_999, 10**6)],
)
def test_ladders_cover_the_grid_and_are_few_and_round(low, high):
    lower, upper = round_ladders(low, high, -(10**6), 10**6)
    assert (np.diff(lower) > 0).all()
    assert (np.diff(upper) > 0).all()
    assert lower[0] == -(10**6)
    assert upper[-1] == 10**6
    assert lower[-1] <= max(high, low)
    assert min(high, low) <= upper[0]
    assert (lower > (low + high) / 2).sum() <= 11  # across the middle
    assert (upper < (low + high) / 2).sum() <= 11
    assert {low, high} <= {*lower.tolist(), *upper.tolist()}
    assert max(lower.size, upper.size) <= 80
    if high - low > 10_000:
        assert np.mean(np.concatenate([lower, upper]) % 100 == 0) > 0.5
        half = (high - low) / 2
        near = lower[(lower >= low + half / 100) & (lower <= low + half)] - low
        assert (np.diff(near) <= 0.2 * near[1:]).all()  # a fifth of the way, at most, from rung to rung


def test_the_roundest_number_is_the_one_with_most_zeros():
    rng = np.random.default_rng(1)
    for low, width in zip(rng.integers(-5000, 5000, 300).tolist(), rng.integers(0, 900, 300).tolist(), strict=True):
        best = max(
            next(step for step in (10**4, 5000, 1000, 500, 100, 50, 10, 5, 1) if number % step == 0)
            for number in range(low, low + width + 1)
        )
        found = roundest(low, low + width)
        assert low <= found <= low + width
        assert found % best == 0


def test_simulated_choices_are_those_that_draw_one_by_one():
    apart, counts, rng = np.array([0, 2, -1, 3]), np.array([5, 0, 1, 40]), np.random.default_rng(2)
    for flip in (False, True):
        heads = np.exp(-0.6 * (apart[counts > 0] + 1.0))
        law = flip_probabilities(heads, counts[counts > 0]) if flip else heads / (heads @ counts[counts > 0])
        seen = np.bincount(simulated(apart, 0.6, counts, rng, flip=flip, size=4000), minlength=4)
        assert seen[1] == 0
        assert stats.chisquare(seen[counts > 0], 4000 * law * counts[counts > 0]).pvalue > 1e-4


def test_only_pure_guarantees_flip_intervals():
    of = Quantiles(probabilities=0.5, bounds=GRID, interval=0.9)
    moved = of.sensitivity(neighbours=Neighbours.ADD_REMOVE)
    assert of.mechanism(PureDP(1.0), moved).flip
    assert not of.mechanism(ZeroConcentratedDP(0.1), moved).flip


@pytest.mark.parametrize("interval", [None, 0.9])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_what_is_claimed_is_what_all_stages_lose(interval, neighbours):
    """Two quantiles: each choice may lose 2·factor·Δ, and by permute and flip ρ follows from that ε alone."""
    of = Quantiles(probabilities=(0.25, 0.5), bounds=GRID, interval=interval)
    moved = of.sensitivity(neighbours=neighbours)
    for asked in (PureDP(1.0), ZeroConcentratedDP(0.1)):
        made = of.mechanism(asked, moved)
        factors = [made.factor] if interval is None else [made.first, made.second]
        losses = 2 * [2 * factor * moved.l1 for factor in factors]
        pure, concentrated = (made.guarantee(moved, kind) for kind in (PureDP, ZeroConcentratedDP))
        assert pure.epsilon == pytest.approx(sum(losses), rel=1e-9)
        rho = [one * math.tanh(one / 2) if made.flip else one**2 / 8 for one in losses]
        assert concentrated.rho == pytest.approx(sum(rho), rel=1e-9)
        assert made.profile(moved).within(asked)
        assert not made.profile(moved).within(asked.split([0.98, 0.02])[0])


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


def test_hardly_any_weight_chooses_the_whole_grid_and_no_error():
    interval = QuantileInterval(
        first=1e-22, second=1e-22, shares=((0.333333, 0.333334),), lowest=0, highest=5, grid=1.0, miss=0.05
    )
    rows = np.array([np.arange(6), [1, 0, 0, 2, 0, 0]])
    assert interval.draw(rows, rng=1).tolist() == [0.0, 2.0, 5.0]
    assert typical_ranks(interval, (0.333333,), 1000) <= 1000
