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
from discreet.inference.correlation import CorrelationLaw
from discreet.inference.population import NoiseAware, ReleaseLaw, debiased
from discreet.inference.sampling import GammaVariance, NormalCovariance
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
        self, level: float = 0.95, *, j: int, k: int | None = None, kurtosis: float | None = None
    ) -> Interval:
        """Interval for the population's variance of column j, or its covariance with column k."""
        checked = requirements.level(level)
        other = j if k is None else k
        value, mechanism = self._coordinate(self._index(j, other))
        if j == other:
            law = ReleaseLaw(model=self._variance_model(j, kurtosis), mechanism=mechanism)
        else:
            law = ReleaseLaw(model=self._covariance_model(j, other), mechanism=mechanism)
        return NoiseAware().interval(law, value, checked)

    def _covariance_model(self, j: int, k: int) -> NormalCovariance:
        statistic = self._of()
        largest = float(np.asarray(statistic.domain()[1])[self._index(j, k)])
        product = self.debiased_variance(j) * self.debiased_variance(k)
        return NormalCovariance(
            n=statistic.require_n(None),
            variances=max(product, 1e-12 * largest**2),
            largest=largest,
            reach=largest,
        )

    def correlation_interval(self, level: float = 0.95, *, j: int, k: int, draws: int = 2000) -> Interval:
        """Interval for the population's correlation of two columns, by simulation (`CorrelationLaw`).

        Samples are normal; the debiased variances stand for the population's.
        """
        statistic = self._of()
        index = self._index(j, k)
        if j == k:
            raise InvalidParameter("k", k, "must be another column than j", "A column correlates with itself by 1.")
        measured = np.asarray(self.measured, dtype=float)
        least = 1e-9 * np.asarray(statistic.domain()[1])
        first, second = (max(self.debiased_variance(column), float(least[column])) for column in (j, k))
        law = CorrelationLaw(
            mechanism=self.mechanism,
            measured=measured,
            columns=(j, k),
            dimension=statistic.dimension,
            variances=(first, second),
            n=statistic.require_n(None),
            draws=draws,
        )
        product = measured[j] * measured[k]
        return law.interval(float(measured[index]) / math.sqrt(product) if product > 0 else 0.0, level)
