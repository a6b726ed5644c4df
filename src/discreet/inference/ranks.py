"""Ordered groups: tests whether groups differ along an ordered column, from one released table."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.inference.moments import Binomial
from discreet.inference.noise import MonteCarlo, solved
from discreet.inference.tables import ChiSquareResult, Departure, independent_table, simulated_test, smallest_departure
from discreet.mechanisms.mechanism import Law
from discreet.results.display import Interval

if TYPE_CHECKING:
    from discreet.results.release import Release


# ---- Ordered departures: how far groups differ along an ordered column, for many noisy tables at once
#
# Tables have groups along the last axis but one, and ordered labels along the last; where both have an order, ranks of
# one may go with ranks of the other. The statistics are those of Kruskal and Wallis, of Kolmogorov and Smirnov, and
# Spearman's correlation, from noisy counts. Their null distribution is simulated through the same noise, so their scale
# decides power and never size.


Array = NDArray[np.float64]


def difference_of_ranks(cells: Array, n: float | None, noise: float) -> Array:
    """Squared distances of the groups' mean ranks from the middle, in units of their variances, added up.

    A label has the middle rank of its rows, from −½ to ½. For two groups it is the test of Mann and Whitney.

    Examples
    --------
    >>> alike, apart = np.array([[10.0, 10.0], [10.0, 10.0]]), np.array([[20.0, 0.0], [0.0, 20.0]])
    >>> float(difference_of_ranks(alike, None, 1.0)), float(difference_of_ranks(apart, None, 1.0)) > 10
    (0.0, True)
    """
    ranks, spread = _ranks(cells.sum(axis=-2))
    summed = np.einsum("...ij,...j->...i", cells, ranks)
    rows = np.maximum(cells.sum(axis=-1), 0.0)
    variance = rows * spread[..., None] + noise * np.einsum("...i,...i->...", ranks, ranks)[..., None]
    return np.asarray((summed**2 / np.maximum(variance, 1e-12)).sum(axis=-1))


def distance_of_distributions(cells: Array, n: float | None, noise: float) -> Array:
    """The largest distance of a group's cumulated counts from those that its share of all rows would have.

    Examples
    --------
    >>> alike, apart = np.array([[10.0, 10.0], [10.0, 10.0]]), np.array([[20.0, 0.0], [0.0, 20.0]])
    >>> float(distance_of_distributions(alike, None, 1.0)), float(distance_of_distributions(apart, None, 1.0)) > 2
    (0.0, True)
    """
    rows = cells.sum(axis=-1, keepdims=True)
    total = np.maximum(cells.sum(axis=(-1, -2))[..., None, None], 1.0)
    share = np.clip(rows / total, 0.0, 1.0)
    apart = np.cumsum(cells, axis=-1) - share * np.cumsum(cells.sum(axis=-2), axis=-1)[..., None, :]
    variance = np.maximum(rows, 0.0) * (1 - share) / 4 + noise * cells.shape[-1] / 4
    return np.asarray((np.abs(apart) / np.sqrt(np.maximum(variance, 1e-12))).max(axis=(-1, -2)))


def rank_correlations(cells: Array) -> Array:
    """Spearman's correlation of two ordered columns: that of middle ranks, between −1 and 1.

    Examples
    --------
    >>> float(rank_correlations(np.array([[20.0, 0.0], [0.0, 20.0]])))
    1.0
    """
    (_, one), (_, two), together = _products(cells)
    rows = np.maximum(cells.sum(axis=(-1, -2)), 1.0)
    return np.asarray(np.clip(together / np.maximum(rows * np.sqrt(one * two), 1e-12), -1.0, 1.0))


def correlation_of_ranks(cells: Array, n: float | None, noise: float) -> Array:
    """The squared sum of products of both columns' ranks, in units of its variance where they are unrelated.

    Examples
    --------
    >>> alike, apart = np.array([[10.0, 10.0], [10.0, 10.0]]), np.array([[20.0, 0.0], [0.0, 20.0]])
    >>> float(correlation_of_ranks(alike, None, 1.0)), float(correlation_of_ranks(apart, None, 1.0)) > 10
    (0.0, True)
    """
    (first, one), (second, two), together = _products(cells)
    rows = np.maximum(cells.sum(axis=(-1, -2)), 0.0)
    squares = [np.einsum("...i,...i->...", ranks, ranks) for ranks in (first, second)]
    return np.asarray(together**2 / np.maximum(rows * one * two + noise * squares[0] * squares[1], 1e-12))


def _products(cells: Array) -> tuple[tuple[Array, Array], tuple[Array, Array], Array]:
    """Ranks and variances of two ordered columns, and the sum of products of their ranks over all rows."""
    first, second = (_ranks(cells.sum(axis=axis)) for axis in (-1, -2))
    return first, second, np.einsum("...ij,...i,...j->...", cells, first[0], second[0])


def _ranks(margin: Array) -> tuple[Array, Array]:
    """Middle ranks of ordered labels from noisy counts, from −½ to ½, and their variance over the rows."""
    labels = np.maximum(margin, 0.0)
    total = np.maximum(labels.sum(axis=-1, keepdims=True), 1.0)
    ranks = (np.cumsum(labels, axis=-1) - labels / 2) / total - 0.5
    return ranks, np.einsum("...i,...i->...", labels, ranks**2) / total[..., 0]


def rank_test(table: Release, null: MonteCarlo) -> ChiSquareResult:
    """Test whether groups have the same ranks: Mann and Whitney for two groups, Kruskal and Wallis for more.

    Parameters
    ----------
    table
        A released table with groups along the first axis and ordered labels along the second.
    null
        How many tables to simulate under the hypothesis, with the noise of the release.
    """
    return _tested("equal ranks", "ranks", table, difference_of_ranks, null, _cells(table).shape[0] - 1)


def kolmogorov_smirnov(table: Release, null: MonteCarlo) -> ChiSquareResult:
    """Test whether a column is distributed alike in all groups, by the largest distance; parameters as `rank_test`."""
    df = _cells(table).shape[0] - 1
    return _tested("equal distributions", "Kolmogorov-Smirnov", table, distance_of_distributions, null, df)


def rank_correlation(table: Release, null: MonteCarlo) -> ChiSquareResult:
    """Test whether two ordered columns go together, by Spearman's correlation; parameters as `rank_test`.

    The result names the correlation of the noisy table, which noise pulls towards 0.
    """
    found = float(rank_correlations(_cells(table)))
    return _tested("unrelated ranks", f"rank correlation {found:.2f}", table, correlation_of_ranks, null, 1)


def _cells(release: Release) -> Array:
    table = independent_table(release)
    return np.asarray(table.cells.reshape(table.shape))


def _tested(
    test: str, method: str, release: Release, departure: Departure, null: MonteCarlo, df: int
) -> ChiSquareResult:
    table = independent_table(release)
    cells = table.cells.reshape(table.shape)
    groups, labels = (table.shares(np.maximum(cells.sum(axis=axis), 0.0) / table.size) for axis in (1, 0))

    def noise(size: int, rng: np.random.Generator) -> Array:
        drawn = np.asarray(table.noise.sample((size, *table.shape), rng=rng), dtype=float)
        # Where the number of rows is public, the measurement was moved onto it.
        return drawn if table.n is None else drawn - drawn.mean(axis=(1, 2), keepdims=True)

    unsure = math.sqrt(table.variance * cells.size) if table.n is None else 0.0
    return simulated_test(
        test,
        method,
        cells,
        ordered_nulls(groups, labels, table.rows, unsure),
        df,
        departure,
        public=table.n,
        noise_variance=table.variance,
        noise=noise,
        null=null,
    )


def ordered_nulls(groups: Array, labels: Array, rows: int, unsure: float) -> list[tuple[Array, int]]:
    """Cell probabilities and numbers of rows under which groups do not differ, for `simulated_test`.

    Parameters
    ----------
    groups, labels
        Shares of the groups and of the ordered labels, as measured.
    rows, unsure
        The number of rows, as measured, and the standard deviation of its noise.
    """
    nulls = [(np.asarray(np.outer(groups, labels)), rows)]
    # Noise that hides the number of rows makes small groups seem larger, and simulated departures too small: the
    # p-value is then the larger one of two nulls, the second with more rows, all in one group.
    if 3 * unsure > rows / 2:
        one = np.eye(groups.size)[np.argmax(groups)]
        nulls.append((np.asarray(np.outer(one, labels)), rows + round(2 * unsure)))
    return nulls


def superiority_error(rows: float, groups: int, labels: int, noise_variance: float) -> float:
    """Standard error of the difference of two groups' mean ranks, for groups and labels of equal size.

    The difference estimates P(x > y) + P(x = y)/2 − ½ for rows x and y of two groups.

    Examples
    --------
    >>> round(superiority_error(1000, 2, 8, 0.0), 4)  # without privacy: √(1/3n) for many labels
    0.0181
    """
    spread, size = (1 - 1 / labels**2) / 12, rows / groups
    return math.sqrt(2 * (spread / size + noise_variance * labels * spread / size**2))


def smallest_rank_difference(rows: float, groups: int, labels: int, noise_variance: float) -> float:
    """The difference of two groups' mean ranks that `rank_test` finds in 80 of 100 tables, the others in between.

    Examples
    --------
    >>> round(smallest_rank_difference(1000, 2, 8, 0.0), 4), round(smallest_rank_difference(1000, 3, 8, 0.0), 4)
    (0.0507, 0.0689)
    """
    found = smallest_departure(df=groups - 1, cells=1, n=1, noise_variance=0.0)
    return found * superiority_error(rows, groups, labels, noise_variance)


def smallest_distance(rows: float, groups: int, labels: int, noise_variance: float) -> float:
    """The same for `kolmogorov_smirnov`, where one group's density rises along the column as another one's falls.

    Cumulated counts are then those of a bridge of the variance (1 − 1/G)(n/G + Kσ²)F(1 − F), and the groups that
    differ by e in mean ranks drift by 3e(n/G)F(1 − F).

    Examples
    --------
    >>> 1.05 < smallest_distance(1000, 2, 8, 0.0) / smallest_rank_difference(1000, 2, 8, 0.0) < 1.15
    True
    """
    size = rows / groups
    spread = math.sqrt((1 - 1 / groups) * (size + noise_variance * labels))
    return _smallest_drift(groups, labels) * spread / (3 * size) * (1 - 1 / labels**2)


@lru_cache(maxsize=64)
def _smallest_drift(groups: int, labels: int) -> float:
    """The drift λF(1 − F) of two of these bridges that shows in 80 of 100 tables, by simulation."""
    rng = np.random.default_rng(1)
    steps = rng.standard_normal((max(_BRIDGES // (groups * labels), 500), groups, labels))
    steps = (steps - steps.mean(axis=1, keepdims=True)) * math.sqrt(groups / (groups - 1) / labels)
    upto = np.arange(1, labels + 1) / labels
    bridges = np.cumsum(steps, axis=-1)
    bridges -= upto * bridges[..., -1:]
    critical = np.quantile(np.abs(bridges).max(axis=(-1, -2)), 0.95)
    drift = np.zeros((groups, labels))
    drift[:2] = np.outer([1, -1], upto * (1 - upto))

    def found(size: float) -> float:
        return float(np.mean(np.abs(bridges + size * drift).max(axis=(-1, -2)) > critical))

    return solved(found, 0.8)


_BRIDGES = 1_000_000
"""Numbers that are drawn for them."""


def rank_correlation_error(rows: float, labels: tuple[int, int], noise_variance: float) -> float:
    """Standard error of the correlation of two unrelated columns' ranks, for labels of equal size.

    Examples
    --------
    >>> round(rank_correlation_error(1000, (8, 8), 0.0), 4)  # without privacy: 1/√n
    0.0316
    """
    return math.sqrt((1 + noise_variance * labels[0] * labels[1] / rows) / rows)


def kept_by_bins(labels: int) -> float:
    """The part of a small rank correlation of two normal numbers that is left where one of them is in equal bins.

    Examples
    --------
    >>> round(kept_by_bins(4), 3), round(kept_by_bins(20), 3)  # four to six bins lose little
    (0.947, 0.997)
    """
    normal = NormalDist()
    heights = [0.0, *(normal.pdf(normal.inv_cdf(k / labels)) for k in range(1, labels)), 0.0]
    ranks = (np.arange(labels) + 0.5) / labels - 0.5
    together = float(-ranks @ np.diff(heights))  # of rank and value; 1/(2√π) without bins
    return together * 2 * math.sqrt(math.pi) / math.sqrt(1 - 1 / labels**2)


# ---- Paired differences: a test, an estimate and intervals from one released balance of signed scores.


# ---- Scores of differences: what each pair adds to a test of whether differences lean to one side
#
# A pair scores the sign of its difference, or that sign times the rank of its size. The sum of all scores is released
# as
# a *balance*, which one row moves by at most one whatever the other rows are: see ``docs/proofs/tests.md``.


_SIGNS_AT_ONCE = 4_000_000
_NORMAL_FROM = 500
"""From so many rows on, null rank sums are drawn from the normal law: their excess kurtosis is −3.6 over the rows."""


@dataclass(frozen=True)
class PairedScores:
    """A rule that turns a sum of scores into a balance, and the variation of that balance.

    The *lean* of differences is their sum of scores over the largest there is, between −1 and 1.

    Wilcoxon's signed ranks: the balance of a rank sum W of n rows is 2mW/(2m² + |W|) with m = n + 1: about W/n where
    differences are balanced. W/n itself would move by up to 3/2 where they are not. Signs: how many more differences
    are positive than negative.

    Parameters
    ----------
    signs
        Whether a pair scores its sign alone.
    public
        Whether the number of rows is public: then the rank sum is divided by it.

    Examples
    --------
    >>> from fractions import Fraction
    >>> ranks = PairedScores()
    >>> ranks.balance(Fraction(6), 3), ranks.total(Fraction(24, 19), 3)
    (Fraction(24, 19), Fraction(6, 1))
    >>> PairedScores(signs=True).balance(3, 7), PairedScores(signs=True).most(7)
    (3, 7)
    """

    signs: bool = False
    public: bool = False

    @property
    def name(self) -> str:
        """The method, as questions ask for it."""
        return "signs" if self.signs else "ranks"

    @property
    def hypothesis(self) -> str:
        """The assumption of a test by these scores."""
        return "balanced signs" if self.signs else "symmetric differences"

    @property
    def null_variance(self) -> float:
        """Of the balance, for each row, where differences are balanced."""
        return 1.0 if self.signs else 1 / 3

    @property
    def share_moved(self) -> float:
        """The move of the share by a balance of one per row, there."""
        return 0.5 if self.signs else 1.0

    def most(self, rows: Any) -> Any:
        """The largest sum of scores of so many rows."""
        return rows if self.signs else rows * (rows + 1) / 2

    def balance(self, total: Any, rows: Any) -> Any:
        """The balance of a sum of scores; exact for exact numbers."""
        if self.signs or self.public:
            return total if self.signs else total / rows
        beyond = rows + 1
        return 2 * beyond * total / (2 * beyond * beyond + abs(total))

    def total(self, balance: Any, rows: Any) -> Any:
        """The sum of scores that has a balance."""
        if self.signs or self.public:
            return balance if self.signs else balance * rows
        beyond = rows + 1
        # No sum of scores has a balance of 2/5 of the rows: a noisy one beyond is far from its pole at 2m.
        return 2 * beyond * beyond * balance / (2 * beyond - abs(balance))

    def null_totals(self, rows: int, size: int, rng: np.random.Generator) -> Array:
        """So many sums of scores of differences without ties that are as likely to be positive as negative."""
        if self.signs:
            return np.asarray(2.0 * rng.binomial(rows, 0.5, size) - rows)
        if rows >= _NORMAL_FROM:
            return rng.normal(0.0, math.sqrt(rows * (rows + 1) * (2 * rows + 1) / 6), size)
        ranks, found = np.arange(1.0, rows + 1), []
        for start in range(0, size, step := max(_SIGNS_AT_ONCE // max(rows, 1), 1)):
            positive = rng.random((min(step, size - start), rows), dtype=np.float32) < 0.5
            found.append(2 * (positive @ ranks) - ranks.sum())
        return np.concatenate(found)

    def independent_signs(self, rows: int) -> int:
        """The number of independent signs whose mean spreads as widely as the lean does, over all populations."""
        # Means over disjoint pairs of rows, averaged over all ways to pair them, are the lean (Hoeffding 1963, 5a).
        return rows if self.signs else max(rows // 2, 1)


METHODS = ("ranks", "signs")
"""Names under which questions ask for scores."""


_CLOSE = 2.0**-38
"""Leans so close are one: where whole-number noise is most often zero, rounding must not part equal releases."""


@dataclass(frozen=True)
class PairedDifferences:
    """The released balance of differences, with its tests and intervals.

    Attributes
    ----------
    balance
        The noisy balance: positive where differences tend to be positive.
    rows
        The number of rows that have a difference, or of all rows where that is public; noisy unless public.
    public
        Whether the number of rows is public, so that noise is on the balance alone.
    noise
        The distribution of the noise on each released number.
    scores
        What each pair scores.
    """

    balance: float
    rows: float
    public: bool
    noise: Law
    scores: PairedScores

    @property
    def whole_rows(self) -> int:
        """The number of rows for simulations."""
        return max(round(self.rows), 1)

    @property
    def noise_variance(self) -> float:
        """Of the balance."""
        return (1 if self.public else 2) * float(np.max(np.asarray(self.noise.variance)))

    @property
    def share(self) -> float:
        """The chance that two rows' differences add up to more than 0 (ranks), or one row's is (signs); ties half."""
        lean = float(self.scores.total(self._within(), self.whole_rows)) / float(self.scores.most(self.whole_rows))
        return (1 + min(max(lean, -1.0), 1.0)) / 2

    def _within(self) -> float:
        most = float(self.scores.balance(self.scores.most(self.whole_rows), self.whole_rows))
        return min(max(self.balance, -most), most)

    def test(self, null: MonteCarlo) -> ChiSquareResult:
        """Test whether differences are symmetric about zero, or as often positive as negative.

        The release is simulated under the hypothesis: signs that a fair coin throws, and the noise of the release.
        """
        rng, rows, size = null.generator(), self.whole_rows, null.n_resamples
        drawn = np.asarray(self.scores.balance(self.scores.null_totals(rows, size, rng), rows))
        moved, counted = self._noise(size, rng)
        simulated = self._standardized(drawn + moved, rows + counted)
        statistic = float(self._standardized(np.array(self.balance), np.array(self.rows)))
        pvalue = null.pvalue(statistic, simulated)
        method = f"signed ranks, share {self.share:.2f}" if self.scores.name == "ranks" else f"share {self.share:.2f}"
        return ChiSquareResult(self.scores.hypothesis, method, statistic, pvalue, 1, simulated, (float(rows),))

    def _standardized(self, balance: Array, rows: Array) -> Array:
        """The size of a balance in standard deviations, with the noisy number of rows that came with it."""
        sampled = np.maximum(rows, 0.0) * self.scores.null_variance
        return np.asarray(np.abs(balance) / np.sqrt(sampled + self.noise_variance))

    def _noise(self, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Noise of the balance and of the number of rows, so many of each."""
        if self.public:
            return np.asarray(self.noise.sample(size, rng=rng), dtype=float), np.zeros(size)
        first, second = np.asarray(self.noise.sample((2, size), rng=rng), dtype=float)
        return first - second, first + second

    def interval(self, level: float, null: MonteCarlo, *, sampled: bool) -> Interval:
        """Interval for the share: in the data, or in the population that the rows are a sample of.

        A share belongs to it where the release is no rarer than ``level`` allows on either side, by simulation.
        """
        tails = self._tails(null, sampled=sampled)
        rare = (1 - requirements.level(level)) / 2
        low = _first(lambda lean: tails(lean)[1] > rare)
        high = -_first(lambda lean: tails(-lean)[0] > rare)
        return Interval((1 + low) / 2, (1 + high) / 2, level)

    def accepts(self, share: float, level: float, null: MonteCarlo, *, sampled: bool) -> bool:
        """True where the interval covers a share, without computing its ends."""
        return min(self._tails(null, sampled=sampled)(2 * share - 1)) > (1 - requirements.level(level)) / 2

    def _tails(self, null: MonteCarlo, *, sampled: bool) -> Callable[[float], tuple[float, float]]:
        """By lean: how likely a release is at most, and at least, as high as this one.

        A balance that no rows have is read as the nearest that some have, so that the interval covers the estimate.
        Where noise alone may have made the number of rows there may be none, and then every lean is as likely.
        """
        rng = null.generator()
        rows = self.whole_rows
        scores = self.scores
        own = self._within()
        moved, counted = self._noise(null.n_resamples, rng)
        noisy_rows = np.maximum(rows + counted, 1.0)
        most = float(scores.most(rows))
        noisy_most, close = scores.most(noisy_rows), _CLOSE * rows
        no_rows = 0 if self.public else np.count_nonzero(counted >= self.rows)
        drawings = 1 + null.n_resamples
        model = Binomial(n=scores.independent_signs(rows))
        chances = rng.random(null.n_resamples)

        def tails(lean: float) -> tuple[float, float]:
            drawn = 2 * _drawn(model, (1 + lean) / 2, chances) - 1 if sampled else lean
            simulated = scores.balance(drawn * most, rows) + moved - scores.balance(lean * noisy_most, noisy_rows)
            above = np.asarray(simulated) - (own - scores.balance(lean * most, rows))
            as_low = np.count_nonzero(above <= close)
            as_high = np.count_nonzero(above >= -close)
            return (1 + max(as_low, no_rows)) / drawings, (1 + max(as_high, no_rows)) / drawings

        return tails

    @cached_property
    def standard_error(self) -> float:
        """Of the noise in the share, where differences are balanced."""
        return lean_error(self.scores, self.whole_rows, self.noise_variance, sampled=False)


def _drawn(model: Binomial, share: float, chances: Array) -> Array:
    """Shares of samples at quantiles of their distribution."""
    points, weights = model.nodes(share)
    return points[np.minimum(np.searchsorted(np.cumsum(weights), chances), points.size - 1)]


def _first(holds: Callable[[float], bool]) -> float:
    """The smallest lean for which something holds, that then goes on to hold; a little outside rather than inside."""
    low, high = -1.0, 1.0
    if holds(low):
        return low
    if not holds(high):
        return high
    while high - low > _CLOSE:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low


def lean_error(scores: PairedScores, rows: float, noise_variance: float, *, sampled: bool = True) -> float:
    """Standard error of the share where differences are balanced, with or without sampling error.

    Examples
    --------
    >>> round(lean_error(PairedScores(), 300, 0.0), 4), round(lean_error(PairedScores(signs=True), 100, 0.0), 4)
    (0.0333, 0.05)
    """
    return math.sqrt(sampled * rows * scores.null_variance + noise_variance) * scores.share_moved / rows
