"""Releases of a covariance matrix: the matrix, the correlations, and intervals for the population's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.interval import Interval
from discreet.inference.coordinates import measured_coordinate
from discreet.inference.population import NoiseAware, ReleaseLaw, debiased
from discreet.inference.sampling import GammaVariance, NormalCovariance, largest_fourth
from discreet.questions.covariance_matrix import as_matrix, pairs
from discreet.releases import Release

if TYPE_CHECKING:
    from discreet.core.contract import Mechanism
    from discreet.questions.covariance_matrix import CovarianceMatrix

__all__ = ["CovarianceMatrixRelease"]


@dataclass(frozen=True)
class CovarianceMatrixRelease(Release):
    """A released covariance matrix.

    ``value`` is the vector of variances and covariances in the order of
    `discreet.questions.covariance_matrix.pairs`, or the matrix.
    """

    def _of(self) -> CovarianceMatrix:
        return self.statistic  # type: ignore[return-value]

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The released matrix as it stands; it need not be positive semidefinite."""
        value = np.asarray(self.value, dtype=float)
        return value if value.ndim == 2 else as_matrix(value, self._of().dimension)

    @property
    def correlation(self) -> NDArray[np.float64]:
        """Correlations of the released matrix, clamped to [−1, 1]; NaN where a variance is not positive."""
        matrix = self.matrix
        spread = np.sqrt(np.where(np.diag(matrix) > 0, np.diag(matrix), np.nan))
        correlation = np.clip(matrix / np.outer(spread, spread), -1, 1)
        np.fill_diagonal(correlation, 1.0)
        return np.asarray(correlation)

    def _index(self, j: int, k: int) -> int:
        ordered = (min(j, k), max(j, k))
        coordinates = pairs(self._of().dimension)
        if ordered not in coordinates:
            raise InvalidParameter("j, k", (j, k), f"must be below {self._of().dimension}", "Check the columns.")
        return coordinates.index(ordered)

    def _coordinate(self, index: int) -> tuple[float, Mechanism]:
        return measured_coordinate(self.mechanism, self.measured, index)

    def _variance_model(self, j: int, kurtosis: float | None = None) -> GammaVariance:
        statistic = self._of()
        low, high = statistic.bounds[j]
        largest = float(np.asarray(statistic.domain()[1])[j])
        return GammaVariance(n=statistic.require_n(None), width=high - low, largest=largest, kurtosis=kurtosis)

    def debiased_variance(self, j: int) -> float:
        """The variance of column j, corrected for the bias of bounded noise."""
        value, mechanism = self._coordinate(j)
        return debiased(mechanism, value, (0.0, self._variance_model(j).largest))

    def population_interval(
        self, level: float = 0.95, *, j: int | None = None, k: int | None = None, kurtosis: float | None = None
    ) -> Interval:
        """Interval for the population's variance of column j, or its covariance with column k; else for all entries."""
        checked = requirements.level(level)
        if j is None:
            dimension = self._of().dimension
            found = np.array([tuple(self.population_interval(level, j=a, k=b)) for a, b in pairs(dimension)])
            low, high = (as_matrix(ends, dimension) for ends in found.T)
            return Interval(low, high, checked)
        other = j if k is None else k
        value, mechanism = self._coordinate(self._index(j, other))
        if j == other:
            law = ReleaseLaw(model=self._variance_model(j, kurtosis), mechanism=mechanism)
        else:
            law = ReleaseLaw(model=self._covariance_model(j, other), mechanism=mechanism)
        return NoiseAware().interval(law, value, checked)

    def _covariance_model(self, j: int, k: int) -> NormalCovariance:
        """Fourth moments are the worst that the bounds and the upper ends of the released variances allow."""
        statistic = self._of()
        largest = float(np.asarray(statistic.domain()[1])[self._index(j, k)])
        spreads = [float(self.population_interval(0.99, j=column).high) for column in (j, k)]
        widths = [high - low for low, high in (statistic.bounds[column] for column in (j, k))]
        fourths = [largest_fourth(spread, width) for spread, width in zip(spreads, widths, strict=True)]
        return NormalCovariance(
            n=statistic.require_n(None),
            mixed=max(math.sqrt(math.prod(fourths)), 1e-12 * largest**2),
            largest=largest,
            reach=min(math.sqrt(math.prod(spreads)), largest),
        )

    def correlation_interval(self, level: float = 0.95, *, j: int, k: int) -> Interval:
        """Interval for the population's correlation of two columns, for any population on the bounds.

        The two variances and the covariance hold together at ``level`` (Bonferroni); the interval is the range of the
        correlation over them.
        """
        if j == k:
            raise InvalidParameter("k", k, "must be another column than j", "A column correlates with itself by 1.")
        each = (2 + requirements.level(level)) / 3
        first, second = (self.population_interval(each, j=column) for column in (j, k))
        both = self.population_interval(each, j=j, k=k)
        least, most = (math.sqrt(float(x) * float(y)) for x, y in zip(first, second, strict=True))
        return Interval(_quotient(float(both.low), least, most), _quotient(float(both.high), most, least), level)


def _quotient(covariance: float, below: float, above: float) -> float:
    """covariance / spread within ±1: over ``below`` where the covariance is negative, else over ``above``."""
    spread = below if covariance < 0 else above
    return float(np.clip(covariance / spread, -1.0, 1.0)) if spread > 0 else float(np.sign(covariance))
