"""Inference from noisy totals in Bernstein parts: the mean and the variance of any population on the bounds.

The totals of degree d hold the first d moments. How a parameter is accepted: `discreet.inference.moments`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.noise.sampler import Floats, plain
from discreet.inference.noise import NoisyTotals
from discreet.mechanisms.mechanism import Mechanism
from discreet.results.display import Interval

if TYPE_CHECKING:
    from discreet.mechanisms.mechanism import Law


# ---- Noisy totals in parts, whatever they are moments of, and the test by which a parameter is accepted or not
#
# A parameter is accepted where a total that has mean zero under it lies within its quantiles. The variance of that
# total
# is noise, which is known, plus sampling, for which the measured moments are *tilted*: the population that has the
# parameter and is nearest to what was measured mixes the latter with as many rows at an extreme as are needed. So an
# interval widens towards the bounds as Wilson's does for a proportion, also where the sample has not seen a tail.
# Derivation, and what is exact: ``docs/proofs/population_intervals.md``.


Array = NDArray[np.float64]
Booleans = NDArray[np.bool_]

_GRID = 64
_ROUNDS = 4
_TINY = 1e-300
UNSEEN = 6.0
"""Rows of one kind that are expected, and of which a sample has none with probability e⁻⁶ = 0.25 %."""


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


def tilted(centre: Any, spread: Any, target: Any, ends: tuple[Any, Any]) -> Array:
    """Variance of the population with the mean ``target`` that is nearest to the measured one, between the ends.

    The measured one has the mean ``centre`` and the variance ``spread``. As many rows as are needed move to an end; no
    variance exceeds the largest that the ends allow.
    """
    low, high = ends
    far = np.where(target > centre, high, low)
    share = np.clip((target - centre) / np.where(far == centre, 1.0, far - centre), 0.0, 1.0)
    mixed = (1 - share) * (spread + (centre - target) ** 2) + share * (far - target) ** 2
    largest = np.maximum((target - low) * (high - target), 0.0)
    return np.asarray(np.maximum(np.minimum(mixed, largest), np.minimum(spread, largest)))


def within(
    total: tuple[Array, Array], variance: Array, third: tuple[Array, Array], fourth: Array, level: float
) -> Booleans:
    """True where a total of mean zero lies within its quantiles, by Cornish and Fisher, on the safe side.

    The total is told as the least and the most that it may be but for its bias, the third cumulant as the least and the
    most that it may be: it widens the longer side and leaves the other as it is. Heavier tails widen both sides.
    """
    z = -float(scipy.special.ndtri((1 - level) / 2))
    spread = np.sqrt(np.maximum(variance, _TINY))
    reach = z + max(z**3 - 3 * z, 0.0) / 24 * fourth / spread**4
    least, most = ((z * z - 1) / 6 * end / spread**3 for end in third)
    above = reach + np.maximum(most, 0.0)
    below = reach + np.maximum(-least, 0.0)
    return np.asarray((total[0] <= above * spread) & (total[1] >= -below * spread))


def hull(accepts: Callable[[Any], Booleans], centre: Array, ends: tuple[float, float], level: float) -> Interval:
    """The smallest interval that covers all accepted points: from the farthest of a grid, then by bisection."""
    return Interval(*reached(accepts, centre, ends), level)


def reached(accepts: Callable[[Any], Booleans], centre: Array, ends: tuple[float, float]) -> tuple[Array, Array]:
    """The farthest accepted points on either side of the centre."""
    low, high = (_farthest(accepts, centre, np.full(np.shape(centre), end)) for end in ends)
    return low, high


def _farthest(accepts: Callable[[Any], Booleans], centre: Array, end: Array) -> Array:
    """The accepted point farthest from the centre towards an end, rounded outwards; finer steps near the centre."""
    inside = np.zeros(np.shape(centre))
    outside = np.ones(np.shape(centre))
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


def moved_back(total: Array, rows: Array) -> Array:
    """What takes a noisy sum of numbers from 0 to 1 back to what it can be: from 0 to the number of rows.

    A test that asks how far the sum is from an expected one then accepts more, and never less.

    Examples
    --------
    >>> moved_back(np.array([-3.0, 4.0, 12.0]), np.array(10.0)).tolist()
    [3.0, 0.0, -2.0]
    """
    return np.asarray(np.where(rows > 0, np.clip(total, 0.0, np.maximum(rows, 0.0)) - total, 0.0))


def variance_moves(
    multiplied: ArrayLike, mean: float, variance: float | None = None, *, public_size: bool = False
) -> list[float]:
    """The moves of n times the variance V of u by noise in each part; without V, for the least favourable one.

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
        """True where the interval for the population's mean of u covers ``theta``."""
        point = np.asarray(theta, dtype=float)
        weights = moment_weights(self.degree, 1, point)
        first = moment_weights(self.degree, 1)
        total = self.total(weights) + moved_back(self.total(first), self.total(np.ones_like(first)))
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
        """True where the interval for the population's variance of u covers ``variance``."""
        value = np.asarray(variance, dtype=float)
        squares = self.total(self._squares_around[1])
        total = self.total(self._squares_around[1] - value[..., None])
        total = total + moved_back(squares, self.total(np.ones(self.degree + 1)))
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


# ---- What noisy totals in tensor parts tell about covariances and correlations of two columns on their bounds
#
# How a parameter is accepted: `discreet.inference.moments`; which totals have mean zero under it, and what remains
# of the errors of the two means: ``docs/proofs/population_intervals.md``.


_LEAST_PVALUE = 1e-12


def marginal(totals: Any, shape: tuple[int, ...], kept: tuple[int, ...]) -> tuple[Array, int]:
    """Totals of some columns, flat as before, and how many totals were added up for each."""
    found = np.asarray(totals, dtype=float)
    leading = found.shape[:-1]
    tensor = found.reshape(*leading, *shape)
    added = tuple(len(leading) + axis for axis in range(len(shape)) if axis not in kept)
    number = int(np.prod([tensor.shape[axis] for axis in added], initial=1))
    return tensor.sum(axis=added).reshape(*leading, -1), number


@dataclass(frozen=True, kw_only=True)
class PairMoments(NoisyTotals):
    """Noisy totals in tensor parts of two columns, u and v, both between 0 and 1; other parameters as `NoisyTotals`.

    Parameters
    ----------
    shape
        Parts of the two columns. The totals are flat, those of the second column varying fastest.

    Examples
    --------
    >>> totals = np.outer([100, 200, 100], [100, 200, 100]) / 400
    >>> pair = PairMoments(totals=totals.ravel(), noise=2.0, kurtosis=3.0, shape=(3, 3))
    >>> abs(round(float(pair.covariance), 6))
    0.0
    >>> low, high = pair.covariance_interval(0.95)
    >>> round(float(high), 3)
    0.006
    """

    shape: tuple[int, int]

    @cached_property
    def columns(self) -> tuple[PartMoments, PartMoments]:
        """The moments of each column; its totals add up those of the other one, with their noise."""
        return self._column(0), self._column(1)

    def _column(self, axis: int) -> PartMoments:
        totals, added = marginal(self.totals, self.shape, (axis,))
        # The fourth cumulant of a sum of noises is the sum of theirs, their squared variance grows with the square.
        return PartMoments(
            totals=totals,
            noise=marginal(self._noise, self.shape, (axis,))[0],
            kurtosis=self.kurtosis / added,
            size=self.size,
            rows_per_unit=self.rows_per_unit,
        )

    def _weights(self, first: int, second: int, centres: tuple[Any, Any] | None = None) -> Array:
        """Weights of Σ(u − a)ⁱ(v − b)ʲ; around both means unless told otherwise."""
        around = (self.columns[0].mean, self.columns[1].mean) if centres is None else centres
        left, right = (
            moment_weights(count - 1, power, centre)
            for count, power, centre in zip(self.shape, (first, second), around, strict=True)
        )
        product = left[..., :, None] * right[..., None, :]
        return product.reshape(*product.shape[:-2], -1)

    @cached_property
    def covariance(self) -> Array:
        """Covariance of u and v (divisor n), within what the bounds allow."""
        return np.asarray(np.clip(self.total(self._weights(1, 1)) / self.rows, -0.25, 0.25))

    @cached_property
    def correlation(self) -> Array:
        """Correlation of u and v, within ±1; 0 where noise leaves a column no variance."""
        product = self.columns[0].variance * self.columns[1].variance
        quotient = self.covariance / np.sqrt(np.where(product > 0, product, 1.0))
        return np.asarray(np.where(product > 0, np.clip(quotient, -1.0, 1.0), 0.0))

    # ---- errors of the two means ------------------------------------------------------------------------------------

    @cached_property
    def _mean_errors(self) -> tuple[Array, Array]:
        first, second = (column.mean_error for column in self.columns)
        return first, second

    @cached_property
    def _joint_error(self) -> Array:
        """E(û − μ)(v̂ − ν): what the errors of both means take from the covariance on average."""
        first, second = (self._weights(*powers) for powers in ((1, 0), (0, 1)))
        noise = (self.used(first) * self.used(second) * self._noise).sum(axis=-1) / self.rows**2
        return np.asarray(noise + self.rows_per_unit * self.covariance / self.rows)

    @cached_property
    def _corners(self) -> tuple[list[Array], list[Array]]:
        first, second = (column.mean for column in self.columns)
        return [-first, 1 - first], [-second, 1 - second]

    # ---- covariance -------------------------------------------------------------------------------------------------

    def accepts_covariance(self, covariance: Any, level: float = 0.95) -> Booleans:
        """True where the interval for the population's covariance of u and v covers ``covariance``."""
        value = np.asarray(covariance, dtype=float)
        total = self.total(self._weights(1, 1) - value[..., None])
        noise, fourth = self._noise_around(value)
        low, high = self._product_ends
        sampling = self.rows_per_unit * self.rows * tilted(self.covariance, self._product_variance, value, (low, high))
        off = self.rows * self._joint_error
        second_order = self.rows**2 * self._mean_errors[0] * self._mean_errors[1] + off**2
        ends = (total + np.minimum(off, 0.0), total + np.maximum(off, 0.0))
        third = (sampling * (low - value), sampling * (high - value))
        return within(ends, noise + sampling + second_order, third, fourth, level)

    @cached_property
    def _product_ends(self) -> tuple[Array, Array]:
        """The least and the most that (u − û)(v − v̂) can be: at corners of the bounds."""
        found = [a * b for a in self._corners[0] for b in self._corners[1]]
        return np.minimum.reduce(found), np.maximum.reduce(found)

    @cached_property
    def _product_variance(self) -> Array:
        """Variance of (u − μ)(v − ν), from the mixed fourth moment plus one standard deviation of its noise."""
        if min(self.shape) < 3:  # a yes/no column is its own square up to its mean: no moment beyond the first is known
            low, high = self._product_ends
            return np.asarray(np.maximum((self.covariance - low) * (high - self.covariance), 0.0))
        return np.asarray(np.maximum(self.cautious(self._weights(2, 2)) - self.covariance**2, 0.0))

    def _noise_around(self, value: Array) -> tuple[Array, Array]:
        """Variance and fourth cumulant of the noise, for the worst of the centres one error around the two means."""
        first, second = (column.mean for column in self.columns)
        one, two = (np.sqrt(error) for error in self._mean_errors)
        centres = [(first, second), *((first + a * one, second + b * two) for a in (-1, 1) for b in (-1, 1))]
        inside = [(np.clip(a, 0.0, 1.0), np.clip(b, 0.0, 1.0)) for a, b in centres]
        found = [self.noise_of(self._weights(1, 1, centre) - value[..., None]) for centre in inside]
        return np.maximum.reduce([one[0] for one in found]), np.maximum.reduce([one[1] for one in found])

    def covariance_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population's covariance of u and v."""
        checked = requirements.level(level)
        return hull(lambda value: self.accepts_covariance(value, checked), self.covariance, (-0.25, 0.25), checked)

    # ---- correlation ------------------------------------------------------------------------------------------------

    def accepts_correlation(self, correlation: Any, level: float = 0.95) -> Booleans:
        """True where the interval for the population's correlation of u and v covers ``correlation``."""
        value = np.asarray(correlation, dtype=float)
        weights = self._mixed(value, (1, 1), (2, 0), (0, 2))
        total = self.total(weights)
        noise, fourth = self.noise_of(weights)
        low, high = self._departure_ends(value)
        spread = np.maximum(-low * high, 0.0) if min(self.shape) < 5 else self._departure_spread(value)
        sampling = self.rows_per_unit * self.rows * tilted(total / self.rows, spread, 0.0, (low, high))
        off = self.rows * self._departure_bias(value)
        ends = (total - off, total + off)
        third = (sampling * low, sampling * high)
        return within(ends, noise + sampling + 2 * off**2, third, fourth, level)

    def correlation_pvalue(self) -> float:
        """Of the hypothesis that u and v are uncorrelated: below 1 − level where that interval leaves 0 out.

        For one release, not for the repeats of a simulation.
        """
        low, high = _LEAST_PVALUE, 1.0
        while high > (1 + 1e-6) * low:
            middle = math.sqrt(low * high)
            rejected = not bool(self.accepts_correlation(0.0, 1 - middle))
            low, high = (low, middle) if rejected else (middle, high)
        return high

    @cached_property
    def _scale(self) -> Array:
        """λ = σᵥ/σᵤ, from variances that are at least the standard deviation of their noise."""
        first, second = (column.likely_variance for column in self.columns)
        return np.asarray(np.sqrt(second / np.maximum(first, _TINY)))

    def _mixed(self, value: Array, *powers: tuple[int, int]) -> Array:
        """Weights of Σ ab − ½r(λa² + b²/λ) for the deviations a and b: its mean is zero where r is the correlation."""
        both, first, second = (self._weights(*pair) for pair in powers)
        scale, r = self._scale[..., None], value[..., None]
        return np.asarray(both - r / 2 * (scale * first + second / scale))

    def _departure_ends(self, value: Array) -> tuple[Array, Array]:
        """Bounds of ab − ½r(λa² + b²/λ): by λa² + b²/λ ≥ 2|ab| on one side, at a corner on the other."""
        scale = self._scale
        low, high = self._product_ends
        found = [
            a * b - value / 2 * (scale * a * a + b * b / scale) for a in self._corners[0] for b in self._corners[1]
        ]
        least = np.where(value >= 0, np.minimum.reduce(found), (1 + value) * low)
        most = np.where(value >= 0, (1 - value) * high, np.maximum.reduce(found))
        return least, most

    def _departure_spread(self, value: Array) -> Array:
        """Mean of the squared departure, from mixed fourth moments plus one standard deviation of their noise."""
        scale, r = self._scale[..., None], value[..., None]
        w22, w31, w13, w40, w04 = self._fourths
        weights = w22 - r * (scale * w31 + w13 / scale) + r**2 / 4 * (scale**2 * w40 + 2 * w22 + w04 / scale**2)
        return self.cautious(weights)

    @cached_property
    def _fourths(self) -> list[Array]:
        return [self._weights(*powers) for powers in ((2, 2), (3, 1), (1, 3), (4, 0), (0, 4))]

    def _departure_bias(self, value: Array) -> Array:
        """The move of the departure's mean by errors of means and of λ: both are of second order."""
        scale, size = self._scale, np.abs(value)
        centres = np.abs(self._joint_error) + size / 2 * (scale * self._mean_errors[0] + self._mean_errors[1] / scale)
        # λV + W/λ exceeds 2√(VW) by √(VW)·δ², where δ, the error of log λ, is half that of log V − log W.
        first, second = (column.likely_variance for column in self.columns)
        relative = [column.variance_error / np.maximum(column.likely_variance, _TINY) ** 2 for column in self.columns]
        return np.asarray(centres + size / 2 * np.sqrt(first * second) * (relative[0] + relative[1]) / 4)

    def correlation_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population's correlation of u and v."""
        checked = requirements.level(level)
        return hull(lambda value: self.accepts_correlation(value, checked), self.correlation, (-1.0, 1.0), checked)


# ---- Sampling models: how a statistic of n rows varies around the population's parameter.
#
# Each model gives, for a parameter, the distribution of the data's statistic as weighted points. Mixing a
# mechanism's law over these points gives the distribution of the *release*, sampling and noise together.


_REACH, _NODES, _CELLS = 6.0, 384, 480
_FEW = 5.0
_EXACT_BINOMIAL = 20_000


@cache
def _normal_nodes(count: int = _NODES) -> tuple[Array, Array]:
    """Points of a standard normal and their probabilities.

    The trapezium rule: its error is below 1e-3 even for a step function far in a tail, and
    negligible for a smooth one.
    """
    points = np.linspace(-_REACH, _REACH, count)
    weights = np.exp(-points * points / 2)
    return points, weights / weights.sum()


def _edges(centre: float, spread: float, cells: int, low: float, high: float) -> Array:
    """Ends of cells around a centre, inside [low, high]: 12 deviations on each side, and the rest in one cell."""
    inner = np.linspace(max(low, centre - 12 * spread), min(high, centre + 12 * spread), cells + 1)
    return np.unique(np.concatenate([[low], inner, [high]]))


def _middles(edges: Array, cumulative: Array) -> tuple[Array, Array]:
    """Middles of cells and their probabilities."""
    weights = np.diff(cumulative)
    kept = weights > 0
    return ((edges[1:] + edges[:-1]) / 2)[kept], weights[kept] / weights[kept].sum()


def _rows(n: int, at_least: int) -> int:
    return requirements.positive_integer("n", n, at_least=at_least)


@dataclass(frozen=True, kw_only=True)
class Binomial:
    """A proportion of n independent rows: exactly binomial."""

    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", _rows(self.n, 1))

    @property
    def range(self) -> tuple[float, float]:
        """[0, 1]."""
        return 0.0, 1.0

    def variance(self, parameter: float) -> float:
        """p(1 − p)/n."""
        return parameter * (1 - parameter) / self.n

    def nodes(self, parameter: float) -> tuple[Array, Array]:
        """k/n with binomial probabilities; above 20,000 rows, quantiles of the beta distribution that matches it."""
        if parameter in (0.0, 1.0):
            return np.array([parameter]), np.array([1.0])
        if self.n > _EXACT_BINOMIAL:
            return BetaMean(n=self.n).nodes(parameter)
        reach = 9 * math.sqrt(self.n * parameter * (1 - parameter)) + 30
        first = max(0, math.floor(self.n * parameter - reach))
        k = np.arange(first, min(self.n, math.ceil(self.n * parameter + reach)) + 1)
        log_pmf = (
            scipy.special.gammaln(self.n + 1)
            - scipy.special.gammaln(k + 1)
            - scipy.special.gammaln(self.n - k + 1)
            + scipy.special.xlogy(k, parameter)
            + scipy.special.xlog1py(self.n - k, -parameter)
        )
        weights = np.exp(log_pmf)
        return k / self.n, weights / weights.sum()


@dataclass(frozen=True, kw_only=True)
class BetaMean:
    """A mean of n independent rows in public bounds: a beta distribution with the right mean, variance and support.

    Parameters
    ----------
    n
        Number of rows.
    bounds
        Public bounds of a row.
    dispersion
        Population variance as a share of its largest possible value (μ − c₀)(c₁ − μ), in (0, 1]. 1 is the worst
        case (all rows at the two bounds) and needs no knowledge of the population. Given as a *share*, the
        variance shrinks as μ nears a bound, so that intervals behave there as Wilson's does for a proportion.
    """

    n: int
    bounds: tuple[float, float] = (0.0, 1.0)
    dispersion: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", _rows(self.n, 1))
        if requirements.probability("dispersion", self.dispersion, below_one=False) == 0:
            raise InvalidParameter("dispersion", self.dispersion, "must be positive", "Use 1 where nothing is known.")

    @property
    def range(self) -> tuple[float, float]:
        """The bounds of a row."""
        return self.bounds

    def variance(self, parameter: float) -> float:
        """Share × (μ − c₀)(c₁ − μ)/n."""
        low, high = self.bounds
        return self.dispersion * (parameter - low) * (high - parameter) / self.n

    def nodes(self, parameter: float) -> tuple[Array, Array]:
        """Cells of the beta law, or of several of them."""
        low, high = self.bounds
        position = (parameter - low) / (high - low)
        if not 0 < position < 1:
            return np.array([parameter]), np.array([1.0])
        values, weights = self._cells(position, self.n / self.dispersion - 1)
        return np.asarray(low + (high - low) * values), weights

    @staticmethod
    def _cells(position: float, concentration: float) -> tuple[Array, Array]:
        if concentration <= 0:  # one row, at the bounds: nothing is known but its mean
            return np.array([0.0, 1.0]), np.array([1 - position, position])
        spread = math.sqrt(position * (1 - position) / (concentration + 1))
        edges = _edges(position, spread, _CELLS, 0.0, 1.0)
        return _middles(edges, scipy.special.betainc(position * concentration, (1 - position) * concentration, edges))


def largest_fourth(variance: float, width: float) -> float:
    """Largest fourth central moment of a population on an interval, given its variance: at most width⁴/12.

    Deviations reach at most D, where the mean lies as near an end as the variance V allows, so μ₄ ≤ V·D².

    Examples
    --------
    >>> largest_fourth(0.25, 1.0), round(largest_fourth(1e-9, 1.0) / 1e-9, 6)
    (0.0625, 1.0)
    """
    room = max(width**2 - 4 * variance, 0.0)
    reach = (width + math.sqrt(room)) / 2
    return min(variance * reach**2, width**4 / 12)


@dataclass(frozen=True, kw_only=True)
class GammaVariance:
    """A sample variance of n independent rows: a gamma distribution with the moments of a sample variance.

    Parameters
    ----------
    n
        Number of rows.
    largest
        Upper end of the statistic's domain.
    width
        Width of the bounds of a row.
    kurtosis
        μ₄/σ⁴ of the population, where it is known: 3 for normal data. By default the worst that the bounds allow for
        the variance, so that the interval is valid for any population; release a variance in parts
        (`Session.variance`) for one that measures it.
    """

    n: int
    width: float
    largest: float
    kurtosis: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", _rows(self.n, 2))
        if self.kurtosis is not None and requirements.positive("kurtosis", self.kurtosis) < 1:
            raise InvalidParameter("kurtosis", self.kurtosis, "cannot be below 1", "Pass μ₄/σ⁴, 3 for normal data.")

    @property
    def range(self) -> tuple[float, float]:
        """Zero to a quarter of the squared width, the largest population variance."""
        return 0.0, self.width**2 / 4

    def variance(self, parameter: float) -> float:
        """(μ₄ − σ⁴(n − 3)/(n − 1))/n; where μ₄ is assumed, its last term, 2σ⁴/n², counts twice.

        Near the largest variance only that term is left: the distribution is that of a square, with a longer tail.
        """
        known = None if self.kurtosis is None else self.kurtosis * parameter**2
        fourth = largest_fourth(parameter, self.width) if known is None else known
        # Noise may ask for variances whose worst case no gamma law reaches; a little is always left.
        left = parameter**2 * (1e-12 if known is not None else 2 / (self.n * (self.n - 1)))
        return left + max((fourth - parameter**2 * (self.n - 3) / (self.n - 1)) / self.n, 0.0)

    def nodes(self, parameter: float) -> tuple[Array, Array]:
        """Cells of the gamma law, inside the domain; of few yeses among noes, half of it is a scaled Poisson law."""
        if parameter <= 0:
            return np.array([0.0]), np.array([1.0])
        spread = math.sqrt(self.variance(parameter))
        shape = (parameter / spread) ** 2
        edges = _edges(parameter, spread, _CELLS, 0.0, parameter + 40 * spread)
        below = np.asarray(scipy.special.gammainc(shape, edges * (shape / parameter)), dtype=float)
        values, weights = _middles(edges, below)
        if self.kurtosis is None and shape < _FEW:  # rows at a distance that occur `shape` times on average
            counts = np.arange(60)
            poisson = np.exp(scipy.special.xlogy(counts, shape) - shape - scipy.special.gammaln(counts + 1))
            values = np.append(values, counts * spread**2 / parameter)
            weights = np.append(weights, poisson / poisson.sum()) / 2
        return np.minimum(values, self.largest), weights


@dataclass(frozen=True, kw_only=True)
class NormalCovariance:
    """A sample covariance of n independent rows: normal, with the largest variance that is possible.

    Parameters
    ----------
    n
        Number of rows.
    mixed
        Upper bound of E[(x − μ)²(y − ν)²]; by Cauchy and Schwarz the root of the product of two `largest_fourth`.
    largest
        Upper end of the statistic's domain.
    reach
        Largest absolute covariance of the population.
    """

    n: int
    mixed: float
    largest: float
    reach: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", _rows(self.n, 2))

    @property
    def range(self) -> tuple[float, float]:
        """± the largest absolute covariance."""
        return -self.reach, self.reach

    def variance(self, parameter: float) -> float:
        """(E[(x − μ)²(y − ν)²] − σ₁₂²)/(n − 1), which exceeds what a sample covariance has."""
        return max(self.mixed - parameter**2, 1e-12 * self.mixed) / (self.n - 1)

    def nodes(self, parameter: float) -> tuple[Array, Array]:
        """Normal points, inside the domain."""
        points, weights = _normal_nodes()
        values = parameter + math.sqrt(self.variance(parameter)) * points
        return np.clip(values, -self.largest, self.largest), weights


SamplingModel = Binomial | BetaMean | GammaVariance | NormalCovariance
"""The distribution of a statistic of n rows, given the population's parameter: its ``range``, the statistic's values
with their probabilities (``nodes``), and its sampling variance."""


# ---- Population: intervals for the population's parameter, from sampling error and noise together
#
# The release R of a statistic s of n rows has the distribution of the mechanism's law at s, mixed over the sampling
# distribution of s. For every parameter θ this gives an acceptance region for R of probability exactly ``level``;
# the interval holds the parameters that accept the value that was released. Nothing is approximated in the noise,
# so coverage is that of the sampling model, near the bounds of a domain as well as inside it.


_STEPS = 40


@dataclass(frozen=True, kw_only=True)
class ReleaseLaw:
    """Distribution of a release over samples and noise, for every value of the parameter, and the interval it gives.

    The acceptance region of a parameter leaves α = 1 − level outside, α/2 on each side where there is room. Near
    an end of the parameter's range all of α goes to the other side, because a release on that side of the range
    is no evidence against the end; the same where the noise law has an atom there that is larger than its share.
    The split changes monotonically, so the accepted parameters form an interval, which is never empty.
    """

    model: SamplingModel
    mechanism: Mechanism

    def at(self, parameter: float) -> tuple[Law, Array]:
        """The mechanism's distribution at the values that the statistic takes in samples, and their weights."""
        points, weights = self.model.nodes(parameter)
        return self.mechanism.law(points[:, None]), weights

    def tails(self, parameter: float, value: ArrayLike) -> tuple[Array, Array]:
        """P(R ≤ value) and P(R ≥ value), for one value or many."""
        return _mixed_tails(*self.at(parameter), value)

    def spread(self, parameter: float) -> float:
        """Standard deviation of sampling and noise together, as if there were no bounds."""
        return math.sqrt(self.model.variance(parameter) + self._noise_variance)

    @cached_property
    def _noise_variance(self) -> float:
        low, high = self.model.range
        return float(np.max(np.asarray(self.mechanism.law((low + high) / 2).variance)))

    def accepts(self, value: ArrayLike, parameter: float, level: float = 0.95) -> Any:
        """True where the interval for ``value`` covers ``parameter``; for many values at once, an array."""
        below, above = self._outcome(value, parameter, 1 - level)
        accepted = below & above
        return bool(accepted[0]) if np.ndim(value) == 0 else accepted

    def interval(self, value: float, level: float = 0.95) -> Interval:
        """The parameters that accept ``value``."""
        checked = requirements.level(level)
        number = requirements.finite("value", value)
        low, high = self.model.range

        def outcome(parameter: float) -> tuple[bool, bool]:
            below, above = self._outcome(number, parameter, 1 - checked)
            return bool(below[0]), bool(above[0])

        upper = last_that_holds(lambda theta: outcome(theta)[0], low, high)
        lower = -last_that_holds(lambda theta: outcome(-theta)[1], -high, -low)
        return Interval(min(lower, upper), max(lower, upper), checked)

    def _outcome(self, value: ArrayLike, parameter: float, alpha: float) -> tuple[Any, Any]:
        """True where each value is not too low, and true where it is not too high, for the parameter."""
        mixed = self.at(parameter)
        below = alpha * share_below(parameter, self.model.range, self.spread(parameter))
        outside_below, outside_above = settled_shares(below, _atoms(*mixed), alpha)
        reached, exceeded = _mixed_tails(*mixed, value)
        return reached >= outside_below, exceeded >= outside_above


def _mixed_tails(law: Law, weights: Array, value: ArrayLike) -> tuple[Array, Array]:
    """Both tails of a distribution that is mixed over some values of the truth."""
    values = np.atleast_1d(np.asarray(value, dtype=float))
    reached, below = (
        np.asarray(weights @ np.broadcast_to(law.cdf(at), (weights.size, at.size)))
        for at in (values, np.nextafter(values, -math.inf))
    )
    return reached, 1 - below


def _atoms(law: Law, weights: Array) -> tuple[float, float]:
    """P(R = lower end) and P(R = upper end) of the noise's support; zero for a continuous distribution."""
    low = float(np.min(law.support[0]))
    high = float(np.max(law.support[1]))
    lower = float(_mixed_tails(law, weights, low)[0][0]) if math.isfinite(low) else 0.0
    upper = float(_mixed_tails(law, weights, high)[1][0]) if math.isfinite(high) else 0.0
    return lower, max(upper, 0.0)


def settled_shares(below: float, atoms: tuple[float, float], alpha: float) -> tuple[float, float]:
    """The shares left outside below and above, once an atom that is larger than its share has been let in."""
    lower_atom, upper_atom = atoms
    blocked_below, blocked_above = below < lower_atom, alpha - below < upper_atom
    if not blocked_below and not blocked_above:
        return below, alpha - below
    if blocked_below and blocked_above:
        blocked_below = lower_atom >= upper_atom
    if blocked_below:
        return (0.0, alpha) if upper_atom <= alpha else (0.0, 0.0)
    return (alpha, 0.0) if lower_atom <= alpha else (0.0, 0.0)


def share_below(parameter: float, ends: tuple[float, float], spread: float) -> float:
    """Which share of α is left outside below: 0 near the lower end, 1 near the upper one, 1/2 far from both.

    It is 0 for a distance of 1.5 deviations (or a quarter of the range), so that no release, however low, leaves an
    interval shorter than that.
    """
    low, high = ends
    margin = min(1.5, (high - low) / spread / 4)
    above_low, below_high = (parameter - low) / spread - margin, (high - parameter) / spread - margin
    room_below = -math.expm1(-(max(above_low, 0.0) ** 2))
    room_above = -math.expm1(-(max(below_high, 0.0) ** 2))
    return room_below / (room_below + room_above)


def last_that_holds(holds: Callable[[float], bool], low: float, high: float, *, steps: int = _STEPS) -> float:
    """The last point of [low, high] at which a predicate holds that is true first and false later."""
    if holds(high):
        return high
    if not holds(low):
        return low
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def debiased(mechanism: Mechanism, value: float, bounds: tuple[float, float]) -> float:
    """The truth for which ``value`` is the expected output; the nearest end of ``bounds`` where there is none.

    A law on a bounded domain is biased towards its middle (liu2019 Proposition 1), more so near its ends; this
    undoes the bias as far as the domain allows. For unbiased noise it only clamps.
    """
    low, high = bounds
    number = requirements.finite("value", value)

    def mean(truth: float) -> float:
        return float(np.asarray(mechanism.law(truth).mean))

    clamped = min(max(number, low), high)
    # With one end only, the bias points away from it, so the truth lies between it and the value.
    first = low if math.isfinite(low) else clamped
    last = high if math.isfinite(high) else clamped
    return last_that_holds(lambda truth: mean(truth) <= number, first, last)


# ---- Coordinates: one measured number of a vector release, and the one-dimensional mechanism that protected it


def pairs(dimension: int) -> list[tuple[int, int]]:
    """Coordinates of a covariance vector: the variances, then the covariances above the diagonal, row by row."""
    above = [(j, k) for j in range(dimension) for k in range(j + 1, dimension)]
    return [(j, j) for j in range(dimension)] + above


def as_matrix(vector: Any, dimension: int) -> NDArray[np.float64]:
    """The symmetric matrix of a covariance vector."""
    matrix = np.zeros((dimension, dimension))
    for (j, k), value in zip(pairs(dimension), np.asarray(vector, dtype=float), strict=True):
        matrix[j, k] = matrix[k, j] = value
    return matrix


def correlations(matrix: Array) -> Array:
    """Correlations of a matrix, clamped to [−1, 1]; NaN where a variance is not positive."""
    spread = np.sqrt(np.where(np.diag(matrix) > 0, np.diag(matrix), np.nan))
    correlation = np.clip(matrix / np.outer(spread, spread), -1, 1)
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(correlation)


def correlation_range(first: Interval, second: Interval, both: Interval) -> Interval:
    """The correlations that intervals of two variances and of their covariance leave possible."""
    least, most = (math.sqrt(max(float(x) * float(y), 0.0)) for x, y in zip(first, second, strict=True))
    low = _quotient(float(both.low), least, most)
    high = _quotient(float(both.high), most, least)
    return Interval(low, high, both.level)


def _quotient(covariance: float, below: float, above: float) -> float:
    """covariance / spread within ±1: over ``below`` where the covariance is negative, else over ``above``."""
    spread = below if covariance < 0 else above
    return float(np.clip(covariance / spread, -1.0, 1.0)) if spread > 0 else float(np.sign(covariance))


def measured_coordinate(mechanism: Mechanism, measured: Any, index: int) -> tuple[float, Mechanism]:
    """The measurement of coordinate ``index`` and the mechanism that acted on it.

    Conclusions are drawn from measurements, not from what post-processing (rescaling, repair) made of them, because
    measurements have a known distribution. A mechanism that draws coordinates one after another says which one acted
    through its own ``coordinate``; others have parameters per coordinate, or the same for all.
    """
    values = np.asarray(measured, dtype=float)
    own = getattr(mechanism, "coordinate", None)
    if own is not None:
        value, inner = own(values, index)
        return float(value), inner
    parameters = mechanism.parameters()
    if "scale" not in parameters:
        raise InvalidParameter(
            "mechanism",
            mechanism.name,
            "does not protect each coordinate by itself, so none has a law of its own",
            "Release the vector with independent noise on every coordinate.",
        )
    fields = parameters | {"scale": _pick(parameters["scale"], index)}
    if "bounds" in parameters:
        bounds = parameters["bounds"]
        fields["bounds"] = bounds[index] if np.ndim(bounds[0]) == 1 else bounds
    return float(values[index]), type(mechanism)(**fields)


def _pick(scale: Any, index: int) -> float:
    return float(scale if np.ndim(scale) == 0 else np.asarray(scale)[index])


# ---- Whole counts: what is shown of a noisy count, and of its interval


def whole_count(value: Floats) -> Floats:
    """The count nearest to a noisy one: whole, and not below 0."""
    return plain(np.maximum(np.floor(np.asarray(value, dtype=float) + 0.5), 0.0))


def whole_interval(low: Floats, high: Floats, shown: Floats) -> tuple[Floats, Floats]:
    """The counts within an interval, together with the one that is shown.

    Nothing is lost: the truth is a count, so it lies in an interval if and only if it is one of the counts in it. Of
    those around a measurement below 0 few or none would be left: the interval reaches as far as around 0, and covers
    more.
    """
    # Ends that are whole but for rounding errors are whole.
    first = np.ceil(np.asarray(low) - 1e-9)
    half = (np.asarray(high) - np.asarray(low)) / 2
    last = np.floor(np.maximum(high, half) + 1e-9)
    return plain(np.minimum(np.maximum(first, 0.0), shown)), plain(np.maximum(last, shown))
