"""Correlation: an interval for the population's correlation behind a noisy covariance matrix.

The released correlation is a ratio of three noisy numbers, so its distribution has no formula. It is simulated:
samples (Wishart, exact for normal data) and noise (the mechanism's own laws) from the same random numbers for every
correlation, and the correlations that accept the released one form the interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.contract import Mechanism
from discreet.core.guarantee import ApproxDP, PureDP
from discreet.core.interval import Interval
from discreet.inference.coordinates import measured_coordinate
from discreet.inference.population import last_that_holds, share_below
from discreet.mechanisms.bounded.boundary_inflated import BoundaryInflatedLaplace
from discreet.mechanisms.bounded.bounded_covariance import BoundedCovariance
from discreet.mechanisms.bounded.bounded_scale import bounded_laplace_scales
from discreet.mechanisms.bounded.clamped_laplace_law import ClampedLaplaceLaw
from discreet.mechanisms.bounded.truncated_laplace_law import TruncatedLaplaceLaw
from discreet.questions.covariance_matrix import pairs

__all__ = ["CorrelationLaw"]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class CorrelationLaw:
    """Distribution of a released correlation, by simulation.

    Parameters
    ----------
    mechanism
        What protected the covariance matrix.
    measured
        The measured vector of variances and covariances.
    columns
        The two columns.
    dimension
        Number of columns of the matrix.
    variances
        The population variances of the two columns; debiased releases stand for them.
    n
        The public number of rows.
    draws, seed
        Size and seed of the simulation.
    """

    mechanism: Mechanism
    measured: Any
    columns: tuple[int, int]
    dimension: int
    variances: tuple[float, float]
    n: int
    draws: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        requirements.positive_integer("draws", self.draws, at_least=100)
        requirements.positive_integer("n", self.n, at_least=3)

    def _randomness(self) -> tuple[Array, Array, Array, Array]:
        """Bartlett's decomposition of a 2 × 2 Wishart matrix, and three uniforms for the noise."""
        rng = np.random.default_rng(self.seed)
        first = np.sqrt(rng.chisquare(self.n - 1, self.draws))
        second = np.sqrt(rng.chisquare(self.n - 2, self.draws))
        return first, second, rng.standard_normal(self.draws), rng.random((3, self.draws))

    def sample(self, correlation: float) -> Array:
        """Released correlations for a population with this correlation."""
        first, second, cross, uniforms = self._randomness()
        left, right = (math.sqrt(value / (self.n - 1)) for value in self.variances)
        x = left * first
        along, across = correlation, math.sqrt(max(1 - correlation**2, 0.0))
        y_1, y_2 = right * (along * first + across * cross), right * across * second
        indices = [pairs(self.dimension).index(pair) for pair in self._pairs()]
        noisy = [
            np.asarray(measured_coordinate(self.mechanism, self.measured, index)[1].law(truth).quantile(uniform))
            for index, truth, uniform in zip(indices[:2], (x * x, y_1**2 + y_2**2), uniforms[:2], strict=True)
        ]
        reach = np.sqrt(np.maximum(noisy[0] * noisy[1], 0.0))
        covariance = self._covariance(indices[2], x * y_1, reach, uniforms[2])
        ratio = np.divide(covariance, reach, out=np.zeros_like(reach), where=reach > 0)
        return np.asarray(np.clip(ratio, -1, 1))

    def _pairs(self) -> tuple[tuple[int, int], ...]:
        j, k = self.columns
        return (j, j), (k, k), (min(j, k), max(j, k))

    def _covariance(self, index: int, truth: Array, reach: Array, uniform: Array) -> Array:
        """Noisy covariances; where their domain is built from the noisy variances, each draw has its own."""
        mechanism = measured_coordinate(self.mechanism, self.measured, index)[1]
        if not isinstance(self.mechanism, BoundedCovariance):
            return np.asarray(mechanism.law(truth).quantile(uniform))
        ends = np.where(reach > 0, reach, 1.0)
        clamped = np.clip(truth, -ends, ends)
        scale: Any = mechanism.parameters()["scale"]
        if isinstance(mechanism, BoundaryInflatedLaplace):
            law: Any = ClampedLaplaceLaw(clamped, scale, -ends, ends)
        else:
            law = TruncatedLaplaceLaw(clamped, self._scales(index, ends, scale), -ends, ends)
        return np.asarray(law.quantile(uniform))

    def _scales(self, index: int, ends: Array, observed: float) -> Any:
        """A domain of another width has another scale; other kinds of budget keep the observed one."""
        outer = cast(BoundedCovariance, self.mechanism)
        shares = len(outer.changes) if outer.weights is None else list(outer.weights)
        part = outer.budget.split(shares)[index]
        if outer.as_published or not isinstance(part, PureDP | ApproxDP):
            return observed
        numbers = part.parameters()
        change = np.minimum(outer.changes[index], 2 * ends)
        return bounded_laplace_scales(numbers["epsilon"], numbers.get("delta", 0.0), change, -ends, ends)

    def accepts(self, value: float, correlation: float, level: float = 0.95) -> bool:
        """Whether the interval for the released ``value`` holds ``correlation``."""
        return all(self._outcome(min(max(value, -1.0), 1.0), correlation, 1 - level))

    def interval(self, value: float, level: float = 0.95) -> Interval:
        """The correlations that accept the released ``value``."""
        checked = requirements.level(level)
        released = min(max(requirements.finite("value", value), -1.0), 1.0)
        alpha = 1 - checked
        upper = last_that_holds(lambda theta: self._outcome(released, theta, alpha)[0], -1.0, 1.0, steps=14)
        lower = -last_that_holds(lambda theta: self._outcome(released, -theta, alpha)[1], -1.0, 1.0, steps=14)
        return Interval(min(lower, upper), max(lower, upper), checked)

    def _outcome(self, released: float, correlation: float, alpha: float) -> tuple[bool, bool]:
        """Whether the value is not too low, and not too high, for the correlation."""
        drawn = self.sample(correlation)
        spread = max(float(np.std(drawn)), 1e-6)
        below = alpha * share_below(correlation, (-1.0, 1.0), spread)
        reached = (1 + np.count_nonzero(drawn <= released)) / (self.draws + 1)
        exceeded = (1 + np.count_nonzero(drawn >= released)) / (self.draws + 1)
        return bool(reached >= below), bool(exceeded >= alpha - below)
