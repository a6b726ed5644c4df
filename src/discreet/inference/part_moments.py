"""What noisy totals in Bernstein parts tell about the mean and the variance of any population on the bounds.

The totals of degree d hold the first d moments. How a parameter is accepted: `discreet.inference.noisy_totals`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.inference.noisy_totals import NoisyTotals, hull, moment_weights, tilted, within
from discreet.interval import Interval

__all__ = ["PartMoments", "variance_moves"]

Array = NDArray[np.float64]
Booleans = NDArray[np.bool_]


def variance_moves(
    multiplied: ArrayLike, mean: float, variance: float | None = None, *, public_size: bool = False
) -> list[float]:
    """How far noise in each part moves n times the variance V of u; where V is not told, for the least favourable one.

    To first order by (wₖ(mean) − V)·Zₖ, over what the part was multiplied by before noise was added. The sum of squares
    is convex in V, so an end of its range is the worst. A public size takes the mean of the weights away, and V too.
    """
    factors = np.asarray(multiplied, dtype=float)
    weights = moment_weights(factors.size - 1, 2, mean)
    if public_size:
        return [abs(float(move)) for move in (weights - np.average(weights, weights=factors**-2.0)) / factors]
    ends = [np.abs(weights - end) / factors for end in ((0.0, mean * (1 - mean)) if variance is None else (variance,))]
    return [float(move) for move in max(ends, key=lambda moves: float(moves @ moves))]


@dataclass(frozen=True, kw_only=True)
class PartMoments(NoisyTotals):
    """Noisy totals in parts, read as moments of u = (x − low)/(high − low); parameters as `NoisyTotals`.

    Examples
    --------
    >>> import math
    >>> rows = np.linspace(0, 1, 1001)
    >>> totals = [math.comb(4, k) * (rows**k * (1 - rows) ** (4 - k)).sum() for k in range(5)]
    >>> moments = PartMoments(totals=totals, noise=2.0, kurtosis=3.0)
    >>> round(float(moments.mean), 3), round(float(moments.variance), 2)
    (0.5, 0.08)
    >>> low, high = moments.mean_interval(0.95)
    >>> round(low, 3), round(high, 3)
    (0.481, 0.519)
    """

    @property
    def degree(self) -> int:
        """Number of parts less one."""
        return int(np.shape(self.totals)[-1]) - 1

    @cached_property
    def mean(self) -> Array:
        """Mean of u, in [0, 1]."""
        return np.asarray(np.clip(self.parts @ moment_weights(self.degree, 1) / self.rows, 0.0, 1.0))

    def _central(self, power: int) -> Array:
        """Estimated moment around the mean; noise may make it negative."""
        weights = moment_weights(self.degree, power, self.mean)
        return np.asarray((self.parts * weights).sum(axis=-1) / self.rows)

    @cached_property
    def variance(self) -> Array:
        """Variance of u, at least 0 and at most what the mean allows."""
        return np.asarray(np.clip(self._central(2), 0.0, self.mean * (1 - self.mean)))

    @cached_property
    def _spread(self) -> Array:
        """The variance plus one standard deviation of its noise, as the mean allows."""
        largest = self.mean * (1 - self.mean) + 1 / (4 * self.rows)
        return np.asarray(np.minimum(self._cautious(2), largest))

    @cached_property
    def _fourth(self) -> Array:
        """Variance of (u − mean)², from the fourth moment plus one standard deviation of its noise."""
        return np.asarray(np.maximum(self._cautious(4) - self.variance**2, 0.0))

    def _cautious(self, power: int) -> Array:
        return self.cautious(moment_weights(self.degree, power, self.mean))

    @cached_property
    def variance_error(self) -> Array:
        """Mean squared error of the estimated variance, to first order."""
        weights = moment_weights(self.degree, 2, self.mean) - self.variance[..., None]
        spread = self._fourth if self.degree >= 4 else self.variance * (np.maximum(self.mean, 1 - self.mean) ** 2)
        return np.asarray(self.noise_of(weights)[0] / self.rows**2 + self.rows_per_unit * spread / self.rows)

    @cached_property
    def likely_variance(self) -> Array:
        """The variance, or the standard deviation of its noise where that is larger."""
        weights = moment_weights(self.degree, 2, self.mean) - self.variance[..., None]
        return np.asarray(np.maximum(self.variance, np.sqrt(self.noise_of(weights)[0]) / self.rows))

    # ---- mean ---------------------------------------------------------------------------------------------------

    def accepts_mean(self, theta: Any, level: float = 0.95) -> Booleans:
        """Whether the interval for the population's mean of u holds ``theta``."""
        point = np.asarray(theta, dtype=float)
        weights = moment_weights(self.degree, 1, point)
        total = self.total(weights)
        noise, fourth = self.noise_of(weights)
        sampling = self.rows_per_unit * self.rows * self._mean_spread(point)
        # A right-skewed population (its mean near the lower bound) has the longer tail above.
        skew = sampling * (1 - 2 * point)
        return within((total, total), noise + sampling, (skew, skew), fourth, level)

    def _mean_spread(self, theta: Array) -> Array:
        """Variance of the tilted population with mean θ."""
        if self.degree < 2:  # no second moment was measured: the worst that the bounds allow
            return np.asarray(theta * (1 - theta))
        return tilted(self.mean, self._spread, theta, (0.0, 1.0))

    def mean_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population's mean of u."""
        checked = requirements.level(level)
        return hull(lambda theta: self.accepts_mean(theta, checked), self.mean, (0.0, 1.0), checked)

    # ---- variance -----------------------------------------------------------------------------------------------

    def accepts_variance(self, variance: Any, level: float = 0.95) -> Booleans:
        """Whether the interval for the population's variance of u holds ``variance``."""
        value = np.asarray(variance, dtype=float)
        total = self.total(self._squares_around[1] - value[..., None])
        off = self.mean_error
        noise, fourth = self._noise_around(value)
        sampling = self.rows_per_unit * self.rows * self._variance_spread(value)
        spread = noise + sampling + 2 * (self.rows * off) ** 2
        reach = np.maximum(self.mean, 1 - self.mean) ** 2
        skew = sampling * (reach - 2 * value)
        # A mean that noise took out of the bounds was moved back, which adds to squared distances.
        beyond = self.parts @ moment_weights(self.degree, 1) / self.rows - self.mean
        ends = (total - self.rows * beyond**2, total + self.rows * off)
        return within(ends, spread, (skew, skew), fourth, level)

    @cached_property
    def mean_error(self) -> Array:
        """Mean squared error of the estimated mean, which takes so much from the variance on average."""
        noise = self.noise_of(moment_weights(self.degree, 1, self.mean))[0] / self.rows**2
        return np.asarray(noise + self.rows_per_unit * self._cautious(2) / self.rows)

    @cached_property
    def _squares_around(self) -> list[Array]:
        """Weights of Σ(u − c)² for the mean c and for those one error away."""
        error = np.sqrt(self.mean_error)
        centres = [np.clip(self.mean + side * error, 0.0, 1.0) for side in (-1.0, 0.0, 1.0)]
        return [moment_weights(self.degree, 2, centre) for centre in centres]

    def _noise_around(self, value: Array) -> tuple[Array, Array]:
        """Variance and fourth cumulant of the noise in Σ(u − c)² − n·value, for the worst of these c."""
        found = [self.noise_of(weights - value[..., None]) for weights in self._squares_around]
        return np.maximum.reduce([one[0] for one in found]), np.maximum.reduce([one[1] for one in found])

    def _variance_spread(self, value: Array) -> Array:
        """Variance of (u − mean)² in the tilted population with variance ``value``."""
        reach = np.maximum(self.mean, 1 - self.mean) ** 2
        if self.degree < 4:  # no fourth moment was measured
            return np.asarray(np.maximum(value * (reach - value), 0.0))
        return tilted(self.variance, self._fourth, value, (0.0, reach))

    def variance_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population's variance of u."""
        checked = requirements.level(level)
        return hull(lambda value: self.accepts_variance(value, checked), self.variance, (0.0, 0.25), checked)
