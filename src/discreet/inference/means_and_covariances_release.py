"""Released means and covariances of columns whose number of rows is private, with intervals for the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from discreet.core import requirements
from discreet.core.display import Facts, number
from discreet.core.interval import Interval
from discreet.inference.noise_sum import combined_error
from discreet.inference.sampling import largest_fourth
from discreet.questions.covariance_matrix import as_matrix, pairs
from discreet.questions.means_and_covariances import MeansAndCovariances
from discreet.releases import Release

__all__ = ["MeansAndCovariancesRelease"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MeansAndCovariancesRelease(Release):
    """Noisy totals, and the means, covariances and correlations that follow from them."""

    @property
    def _of(self) -> MeansAndCovariances:
        return cast(MeansAndCovariances, self.statistic)

    def _split(self, totals: Array) -> tuple[Array, Array, float]:
        d = self._of.dimension
        return totals[:d], totals[d:-1], float(totals[-1])

    def _halves(self) -> Array:
        return np.array([float(half) for half in self._of.halves])

    @property
    def count(self) -> float:
        """The noisy number of rows."""
        return float(np.asarray(self.value)[-1])

    @property
    def means(self) -> Array:
        """Means of the columns, inside their bounds."""
        first, _, rows = self._split(np.asarray(self.value, dtype=float))
        middles = np.array([float(middle) for middle in self._of.middles])
        return np.asarray(middles + self._halves() * np.clip(first / max(rows, 1.0), -1, 1))

    @property
    def matrix(self) -> Array:
        """The covariance matrix (divisor n) as it follows from the totals; it need not be positive semidefinite."""
        first, second, rows = self._split(np.asarray(self.value, dtype=float))
        position = first / max(rows, 1.0)
        shape = as_matrix(second / max(rows, 1.0), self._of.dimension) - np.outer(position, position)
        return np.asarray(shape * np.outer(self._halves(), self._halves()))

    @property
    def correlation(self) -> Array:
        """Correlations of the matrix, clamped to [−1, 1]; NaN where a variance is not positive."""
        matrix = self.matrix
        spread = np.sqrt(np.where(np.diag(matrix) > 0, np.diag(matrix), np.nan))
        correlation = np.clip(matrix / np.outer(spread, spread), -1, 1)
        np.fill_diagonal(correlation, 1.0)
        return np.asarray(correlation)

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """Intervals for the entries of the data's covariance matrix, each at ``level``; privacy noise only.

        An entry is read from at most four totals. Their intervals hold together (Bonferroni), and interval arithmetic
        gives what they leave open.
        """
        checked = requirements.level(level)
        low, high = self.mechanism.confidence_interval(np.asarray(self.value, dtype=float), (3 + checked) / 4)
        ends = np.array([low, high])
        d, halves = self._of.dimension, self._halves()
        found = np.array([self._entry(ends, j, k, position) for position, (j, k) in enumerate(pairs(d))])
        scale = np.array([halves[j] * halves[k] for j, k in pairs(d)])
        return Interval(as_matrix(found[:, 0] * scale, d), as_matrix(found[:, 1] * scale, d), checked)

    def _entry(self, ends: Array, j: int, k: int, position: int) -> tuple[float, float]:
        """Range of s/n − (a/n)(b/n) over the totals' intervals, within what the bounds allow."""
        rows = [max(float(end), 1.0) for end in ends[:, -1]]
        shares = [np.clip([end / count for end in ends[:, place] for count in rows], -1, 1) for place in (j, k)]
        if j == k:
            squares = [float(x) ** 2 for x in shares[0]]
            crosses = [0.0 if min(shares[0]) <= 0 <= max(shares[0]) else min(squares), max(squares)]
        else:
            crosses = [float(a) * float(b) for a, b in product(*shares)]
        own = np.clip([end / count for end in ends[:, self._of.dimension + position] for count in rows], -1, 1)
        least = 0.0 if j == k else -1.0
        return max(float(min(own)) - max(crosses), least), min(float(max(own)) - min(crosses), 1.0)

    def population_interval(self, level: float = 0.95) -> Interval:
        """Intervals for the entries of the population's covariance matrix, for any population on the bounds.

        The noise and the sampling error each get half of 1 − level. No fourth moments were measured, so they are the
        worst that the bounds and the variances allow.
        """
        share = (1 + requirements.level(level)) / 2
        data = self.confidence_interval(share)
        score = float(ndtri((1 + share) / 2))
        fewest = max(self.count - combined_error(self.mechanism, [1.0], share), 2.0)
        widths = 2 * self._halves()
        fourths = [_fourth(float(v), w, score, fewest) for v, w in zip(np.diag(data.high), widths, strict=True)]
        reach = score * np.sqrt(np.sqrt(np.outer(fourths, fourths)) / fewest)
        largest = np.outer(widths, widths) / 4
        least = np.where(np.eye(len(widths), dtype=bool), 0.0, -largest)
        return Interval(np.maximum(data.low - reach, least), np.minimum(data.high + reach, largest), level)

    def facts(self) -> Facts:
        """What to show."""
        hidden = ("value", "95 % interval")
        return [
            ("means", number(self.means)),
            ("covariances", number(self.matrix)),
            ("rows", number(self.count)),
            *(fact for fact in super().facts() if fact[0] not in hidden),
        ]


def _fourth(variance: float, width: float, score: float, rows: float) -> float:
    """Largest fourth moment of a population whose variance is at most the data's plus the sampling error it allows."""
    largest = width**2 / 4
    for _ in range(20):  # falls from the largest variance to the one that explains itself
        largest = min(variance + score * math.sqrt(largest_fourth(largest, width) / rows), largest)
    return largest_fourth(largest, width)
