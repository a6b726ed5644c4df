"""Paired differences: a test, an estimate and intervals from one released balance of signed scores."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.contract.mechanism import Law
from discreet.core import requirements
from discreet.inference.chi_square import ChiSquareResult
from discreet.inference.monte_carlo import MonteCarlo
from discreet.inference.sampling import Binomial
from discreet.interval import Interval

__all__ = [
    "METHODS", "PairedDifferences", "PairedScores", "PublicRankScores", "RankScores", "SignScores", "lean_error",
    "scores_of",
]  # fmt: skip


# ---- Scores of differences: what each pair adds to a test of whether differences lean to one side
#
# A pair scores the sign of its difference, or that sign times the rank of its size. The sum of all scores is released
# as
# a *balance*, which one row moves by at most one whatever the other rows are: see ``docs/proofs/tests.md``.


Array = NDArray[np.float64]
_SIGNS_AT_ONCE = 4_000_000
_NORMAL_FROM = 500
"""From so many rows on, null rank sums are drawn from the normal law: their excess kurtosis is −3.6 over the rows."""


class PairedScores(ABC):
    """How a sum of scores becomes a balance, and how it varies.

    The *lean* of differences is their sum of scores over the largest there is, between −1 and 1.
    """

    name: ClassVar[str]
    hypothesis: ClassVar[str]
    """What a test by these scores assumes."""
    null_variance: ClassVar[float]
    """Of the balance, for each row, where differences are balanced."""
    share_moved: ClassVar[float]
    """How far a balance of one per row moves the share, there."""

    @abstractmethod
    def most(self, rows: Any) -> Any:
        """The largest sum of scores of so many rows."""

    @abstractmethod
    def balance(self, total: Any, rows: Any) -> Any:
        """The balance of a sum of scores; exact for exact numbers."""

    @abstractmethod
    def total(self, balance: Any, rows: Any) -> Any:
        """The sum of scores that has a balance."""

    @abstractmethod
    def null_totals(self, rows: int, size: int, rng: np.random.Generator) -> Array:
        """So many sums of scores of differences without ties that are as likely to be positive as negative."""

    @abstractmethod
    def independent_signs(self, rows: int) -> int:
        """How many independent signs have a mean that spreads as widely as the lean does, over all populations."""


class RankScores(PairedScores):
    """Wilcoxon's signed ranks.

    The balance of a rank sum W of n rows is 2mW/(2m² + |W|) with m = n + 1: about W/n where differences are balanced.
    W/n itself would move by up to 3/2 where they are not.

    Examples
    --------
    >>> from fractions import Fraction
    >>> ranks = RankScores()
    >>> ranks.balance(Fraction(6), 3), ranks.total(Fraction(24, 19), 3)
    (Fraction(24, 19), Fraction(6, 1))
    """

    name, hypothesis = "ranks", "symmetric differences"
    null_variance, share_moved = 1 / 3, 1.0

    def most(self, rows: Any) -> Any:
        return rows * (rows + 1) / 2

    def balance(self, total: Any, rows: Any) -> Any:
        beyond = rows + 1
        return 2 * beyond * total / (2 * beyond * beyond + abs(total))

    def total(self, balance: Any, rows: Any) -> Any:
        beyond = rows + 1
        # No sum of scores has a balance of 2/5 of the rows: a noisy one beyond is far from its pole at 2m.
        return 2 * beyond * beyond * balance / (2 * beyond - abs(balance))

    def null_totals(self, rows: int, size: int, rng: np.random.Generator) -> Array:
        if rows >= _NORMAL_FROM:
            return rng.normal(0.0, math.sqrt(rows * (rows + 1) * (2 * rows + 1) / 6), size)
        ranks, found = np.arange(1.0, rows + 1), []
        for start in range(0, size, step := max(_SIGNS_AT_ONCE // max(rows, 1), 1)):
            positive = rng.random((min(step, size - start), rows), dtype=np.float32) < 0.5
            found.append(2 * (positive @ ranks) - ranks.sum())
        return np.concatenate(found)

    def independent_signs(self, rows: int) -> int:
        # Means over disjoint pairs of rows, averaged over all ways to pair them, are the lean (Hoeffding 1963, 5a).
        return max(rows // 2, 1)


class PublicRankScores(RankScores):
    """The same for a public number of rows, by which the rank sum is divided."""

    def balance(self, total: Any, rows: Any) -> Any:
        return total / rows

    def total(self, balance: Any, rows: Any) -> Any:
        return balance * rows


class SignScores(PairedScores):
    """Signs alone: how many more differences are positive than negative.

    Examples
    --------
    >>> SignScores().balance(3, 7), SignScores().most(7)
    (3, 7)
    """

    name, hypothesis = "signs", "balanced signs"
    null_variance, share_moved = 1.0, 0.5

    def most(self, rows: Any) -> Any:
        return rows

    def balance(self, total: Any, rows: Any) -> Any:
        return total

    def total(self, balance: Any, rows: Any) -> Any:
        return balance

    def null_totals(self, rows: int, size: int, rng: np.random.Generator) -> Array:
        return np.asarray(2.0 * rng.binomial(rows, 0.5, size) - rows)

    def independent_signs(self, rows: int) -> int:
        return rows


METHODS = ("ranks", "signs")
"""Names under which questions ask for scores."""


def scores_of(method: str, *, public: bool) -> PairedScores:
    """The scores of a method, for a public or a private number of rows."""
    if method == "signs":
        return SignScores()
    return PublicRankScores() if public else RankScores()


_CLOSE = 2.0**-38
"""Leans so close are one: where whole-number noise is most often zero, rounding must not part equal releases."""


@dataclass(frozen=True)
class PairedDifferences:
    """What a release says of differences.

    Attributes
    ----------
    balance
        The noisy balance: positive where differences tend to be positive.
    rows
        The number of rows that have a difference, or of all rows where that is public; noisy unless public.
    public
        Whether the number of rows is public, so that noise is on the balance alone.
    noise
        The law of the noise on each released number.
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
        """How often two rows' differences add up to more than zero (ranks), or one row's is (signs); ties half."""
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
        tails, rare = self._tails(null, sampled=sampled), (1 - requirements.level(level)) / 2
        low = _first(lambda lean: tails(lean)[1] > rare)
        high = -_first(lambda lean: tails(-lean)[0] > rare)
        return Interval((1 + low) / 2, (1 + high) / 2, level)

    def accepts(self, share: float, level: float, null: MonteCarlo, *, sampled: bool) -> bool:
        """Whether the interval holds a share, without computing its ends."""
        return min(self._tails(null, sampled=sampled)(2 * share - 1)) > (1 - requirements.level(level)) / 2

    def _tails(self, null: MonteCarlo, *, sampled: bool) -> Callable[[float], tuple[float, float]]:
        """By lean: how likely a release is at most, and at least, as high as this one.

        A balance that no rows have is read as the nearest that some have, so that the interval holds the estimate.
        Where noise alone may have made the number of rows there may be none, and then every lean is as likely.
        """
        rng, rows, scores, own = null.generator(), self.whole_rows, self.scores, self._within()
        moved, counted = self._noise(null.n_resamples, rng)
        noisy_rows, most = np.maximum(rows + counted, 1.0), float(scores.most(rows))
        noisy_most, close = scores.most(noisy_rows), _CLOSE * rows
        no_rows = 0 if self.public else np.count_nonzero(counted >= self.rows)
        drawings = 1 + null.n_resamples
        model, chances = Binomial(n=scores.independent_signs(rows)), rng.random(null.n_resamples)

        def tails(lean: float) -> tuple[float, float]:
            drawn = 2 * _drawn(model, (1 + lean) / 2, chances) - 1 if sampled else lean
            simulated = scores.balance(drawn * most, rows) + moved - scores.balance(lean * noisy_most, noisy_rows)
            above = np.asarray(simulated) - (own - scores.balance(lean * most, rows))
            as_low, as_high = np.count_nonzero(above <= close), np.count_nonzero(above >= -close)
            return (1 + max(as_low, no_rows)) / drawings, (1 + max(as_high, no_rows)) / drawings

        return tails

    @cached_property
    def standard_error(self) -> float:
        """Of the noise in the share, where differences are balanced."""
        return lean_error(self.scores, self.whole_rows, self.noise_variance, sampled=False)


def _drawn(model: Binomial, share: float, chances: Array) -> Array:
    """Shares of samples at quantiles of their law."""
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
    >>> from discreet.inference.paired_differences import RankScores, SignScores
    >>> round(lean_error(RankScores(), 300, 0.0), 4), round(lean_error(SignScores(), 100, 0.0), 4)
    (0.0333, 0.05)
    """
    return math.sqrt(sampled * rows * scores.null_variance + noise_variance) * scores.share_moved / rows
