"""What noisy totals in Bernstein parts tell about the mean and the variance of any population on the bounds.

The totals of degree d hold the first d moments. A parameter is accepted where the total that has mean zero under it
lies within its quantiles. The variance of that total is noise, which is known, plus sampling, for which the measured
moments are *tilted*: the population that has the parameter and is nearest to what was measured mixes the latter with as
many rows at the bound as are needed. So the interval widens towards the bounds as Wilson's does for a proportion, also
where the sample has not seen a tail. Derivation, and what is exact: ``docs/proofs/population_intervals.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy  # whose submodules load when first used
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.interval import Interval

__all__ = ["PartMoments", "moment_weights", "variance_moves"]

Array = NDArray[np.float64]
Booleans = NDArray[np.bool_]

_GRID = 64
_ROUNDS = 4
_TINY = 1e-300


def moment_weights(degree: int, power: int, centre: Any = 0.0) -> Array:
    """Weights wₖ with (u − c)ʲ = Σ wₖbₖ(u), along the last axis; c may be an array.

    By uⁱ = Σ (k over i)/(d over i)·bₖ(u), for i up to the degree.

    Examples
    --------
    >>> moment_weights(4, 1).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    >>> moment_weights(2, 2, 0.5).tolist()
    [0.25, -0.25, 0.25]
    """
    c = np.asarray(centre, dtype=float)[..., None]
    raw = np.array([[math.comb(k, i) / math.comb(degree, i) for k in range(degree + 1)] for i in range(power + 1)])
    weights: Any = sum(math.comb(power, i) * (-c) ** (power - i) * raw[i] for i in range(power + 1))
    return np.asarray(weights)


def variance_moves(degree: int, mean: float, *, public_size: bool = False) -> list[float]:
    """How far noise in each part moves n times the variance V of u, for the least favourable V at this mean.

    To first order by (wₖ(mean) − V)·Zₖ; the sum of squares is convex in V, so an end of its range is the worst. A
    public size takes the mean of the weights away, and V with it.
    """
    weights = moment_weights(degree, 2, mean)
    if public_size:
        return [abs(float(move)) for move in weights - weights.mean()]
    ends = [np.abs(weights - end) for end in (0.0, mean * (1 - mean))]
    return [float(move) for move in max(ends, key=lambda moves: float(moves @ moves))]


@dataclass(frozen=True, kw_only=True)
class PartMoments:
    """Noisy totals in parts, read as moments of u = (x − low)/(high − low); leading axes are repeats of a simulation.

    Parameters
    ----------
    totals
        The noisy totals along the last axis.
    noise
        Variance of the noise on each of them.
    kurtosis
        Excess kurtosis of that noise.
    size
        The public number of rows, or None where it is read from the totals.
    rows_per_unit
        At most so many rows are one unit's. Units are independent; by Cauchy and Schwarz the squared deviation of a
        unit's rows together is at most so many times the sum of theirs. 0 stands for rows that are the whole
        population: intervals then hold the noise alone.

    Examples
    --------
    >>> rows = np.linspace(0, 1, 1001)
    >>> totals = [math.comb(4, k) * (rows**k * (1 - rows) ** (4 - k)).sum() for k in range(5)]
    >>> moments = PartMoments(totals=totals, noise=2.0, kurtosis=3.0)
    >>> round(float(moments.mean), 3), round(float(moments.variance), 2)
    (0.5, 0.08)
    >>> low, high = moments.mean_interval(0.95)
    >>> round(low, 3), round(high, 3)
    (0.481, 0.519)
    """

    totals: Any
    noise: Any
    kurtosis: float = 0.0
    size: int | None = None
    rows_per_unit: int = 1

    @cached_property
    def parts(self) -> Array:
        """The totals; where their sum is public, the nearest ones that have it."""
        found = np.asarray(self.totals, dtype=float)
        if self.size is None:
            return found
        shares = self._noise / self._noise.sum()
        return np.asarray(found + (self.size - found.sum(axis=-1))[..., None] * shares)

    @cached_property
    def _noise(self) -> Array:
        return np.broadcast_to(np.asarray(self.noise, dtype=float), np.shape(self.totals)[-1:])

    @property
    def degree(self) -> int:
        """Number of parts less one."""
        return int(np.shape(self.totals)[-1]) - 1

    @cached_property
    def rows(self) -> Array:
        """Number of rows, known or estimated; at least 1."""
        return np.asarray(np.maximum(self.parts.sum(axis=-1), 1.0))

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

    def noise_of(self, weights: Array) -> tuple[Array, Array]:
        """Variance and fourth cumulant of Σ wₖZₖ."""
        used = weights
        if self.size is not None:  # the sum of the noise was taken out, each part its share
            shares = self._noise / self._noise.sum()
            used = weights - (weights * shares).sum(axis=-1)[..., None]
        variances = used**2 * self._noise
        return variances.sum(axis=-1), self.kurtosis * (variances**2).sum(axis=-1)

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
        found = self._central(power)
        weights = moment_weights(self.degree, power, self.mean) - found[..., None]
        return np.asarray(np.maximum(found, 0.0) + np.sqrt(self.noise_of(weights)[0]) / self.rows)

    # ---- mean ---------------------------------------------------------------------------------------------------

    def accepts_mean(self, theta: Any, level: float = 0.95) -> Booleans:
        """Whether the interval for the population's mean of u holds ``theta``."""
        point = np.asarray(theta, dtype=float)
        weights = moment_weights(self.degree, 1, point)
        total = (self.parts * weights).sum(axis=-1)
        noise, fourth = self.noise_of(weights)
        sampling = self.rows_per_unit * self.rows * self._mean_spread(point)
        # A right-skewed population (its mean near the lower bound) has the longer tail above.
        skew = sampling * (1 - 2 * point)
        return _within(total, total, noise + sampling, skew, fourth, level)

    def _mean_spread(self, theta: Array) -> Array:
        """Variance of the tilted population with mean θ."""
        largest = theta * (1 - theta)
        if self.degree < 2:  # no second moment was measured: the worst that the bounds allow
            return np.asarray(largest)
        least, mean = self._spread, self.mean
        up = theta > mean
        far = np.where(up, 1.0, 0.0)
        share = np.clip((theta - mean) / np.where(far == mean, 1.0, far - mean), 0.0, 1.0)
        tilted = (1 - share) * (least + (mean - theta) ** 2) + share * (far - theta) ** 2
        return np.asarray(np.maximum(np.minimum(tilted, largest), np.minimum(least, largest)))

    def mean_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population's mean of u."""
        checked = requirements.level(level)
        return _hull(lambda theta: self.accepts_mean(theta, checked), self.mean, (0.0, 1.0), checked)

    # ---- variance -----------------------------------------------------------------------------------------------

    def accepts_variance(self, variance: Any, level: float = 0.95) -> Booleans:
        """Whether the interval for the population's variance of u holds ``variance``."""
        value = np.asarray(variance, dtype=float)
        total = (self.parts * (self._squares_around[1] - value[..., None])).sum(axis=-1)
        off = self._mean_error
        noise, fourth = self._noise_around(value)
        sampling = self.rows_per_unit * self.rows * self._variance_spread(value)
        spread = noise + sampling + 2 * (self.rows * off) ** 2
        reach = np.maximum(self.mean, 1 - self.mean) ** 2
        skew = sampling * (reach - 2 * value)
        # A mean that noise took out of the bounds was moved back, which adds to squared distances.
        beyond = self.parts @ moment_weights(self.degree, 1) / self.rows - self.mean
        return _within(total + self.rows * off, total - self.rows * beyond**2, spread, skew, fourth, level)

    @cached_property
    def _mean_error(self) -> Array:
        """Mean squared error of the estimated mean, which takes so much from the variance on average."""
        noise = self.noise_of(moment_weights(self.degree, 1, self.mean))[0] / self.rows**2
        return np.asarray(noise + self.rows_per_unit * self._cautious(2) / self.rows)

    @cached_property
    def _squares_around(self) -> list[Array]:
        """Weights of Σ(u − c)² for the mean c and for those one error away."""
        error = np.sqrt(self._mean_error)
        centres = [np.clip(self.mean + side * error, 0.0, 1.0) for side in (-1.0, 0.0, 1.0)]
        return [moment_weights(self.degree, 2, centre) for centre in centres]

    def _noise_around(self, value: Array) -> tuple[Array, Array]:
        """Variance and fourth cumulant of the noise in Σ(u − c)² − n·value, for the worst of these c."""
        found = [self.noise_of(weights - value[..., None]) for weights in self._squares_around]
        return np.maximum.reduce([one[0] for one in found]), np.maximum.reduce([one[1] for one in found])

    def _variance_spread(self, value: Array) -> Array:
        """Variance of (u − mean)² in the tilted population with variance ``value``."""
        reach = np.maximum(self.mean, 1 - self.mean) ** 2
        centre = self.variance
        largest = np.maximum(value * (reach - value), 0.0)
        if self.degree < 4:  # no fourth moment was measured
            return np.asarray(largest)
        least = self._fourth
        up = value > centre
        far = np.where(up, reach, 0.0)
        share = np.clip((value - centre) / np.where(far == centre, 1.0, far - centre), 0.0, 1.0)
        tilted = (1 - share) * (least + (centre - value) ** 2) + share * (far - value) ** 2
        return np.asarray(np.maximum(np.minimum(tilted, largest), np.minimum(least, largest)))

    def variance_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population's variance of u."""
        checked = requirements.level(level)
        return _hull(lambda value: self.accepts_variance(value, checked), self.variance, (0.0, 0.25), checked)


def _within(most: Array, least: Array, variance: Array, third: Array, fourth: Array, level: float) -> Booleans:
    """Whether a total of mean zero lies within its quantiles, by Cornish and Fisher, on the safe side.

    Heavier tails widen both sides; a third cumulant widens the longer one and leaves the other as it is.
    """
    z = -float(scipy.special.ndtri((1 - level) / 2))
    spread = np.sqrt(np.maximum(variance, _TINY))
    reach = z + max(z**3 - 3 * z, 0.0) / 24 * fourth / spread**4
    skew = (z * z - 1) / 6 * third / spread**3
    above, below = reach + np.maximum(skew, 0.0), reach + np.maximum(-skew, 0.0)
    return np.asarray((least <= above * spread) & (most >= -below * spread))


def _hull(accepts: Callable[[Any], Booleans], centre: Array, ends: tuple[float, float], level: float) -> Interval:
    """The smallest interval that holds all accepted points: from the farthest of a grid, then by bisection."""
    found = [_farthest(accepts, centre, np.full(np.shape(centre), end)) for end in ends]
    return Interval(found[0], found[1], level)


def _farthest(accepts: Callable[[Any], Booleans], centre: Array, end: Array) -> Array:
    """The accepted point farthest from the centre towards an end, rounded outwards; finer steps near the centre."""
    inside, outside = np.zeros(np.shape(centre)), np.ones(np.shape(centre))
    steps = np.linspace(0.0, 1.0, _GRID + 1)
    for round_ in range(_ROUNDS):
        shares = (steps**2 if round_ == 0 else steps).reshape(-1, *[1] * np.ndim(centre))
        points = inside + shares * (outside - inside)
        held = accepts(centre + points * (end - centre))
        # Where nothing is accepted, noise has hidden everything: nothing is excluded.
        last = np.where(held.any(axis=0), _GRID - np.argmax(held[::-1], axis=0), _GRID)
        inside, outside = (
            np.take_along_axis(points, np.minimum(place, _GRID)[None], axis=0)[0] for place in (last, last + 1)
        )
    return np.asarray(centre + outside * (end - centre))
