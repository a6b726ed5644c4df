"""Truncated Laplace law: Laplace noise conditioned on an interval (holohan2018's bounded Laplace)."""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from discreet.contract.mechanism import Law
from discreet.core.errors import InvalidParameter
from discreet.core.noise.entropy import SYSTEM_ENTROPY, Entropy
from discreet.core.noise.exact_draws import Family
from discreet.core.noise.families import TruncatedLaplaceFamily
from discreet.core.noise.location import Location, default_grid
from discreet.core.noise.truth import Floats, Truth, plain
from discreet.mechanisms.laplace import LaplaceLaw
from discreet.mechanisms.location_noise import LocationLaw, probabilities, spread

__all__ = [
    "ClampedLaplaceLaw", "TruncatedLaplaceLaw", "clamped_laplace_interval", "first_moment",
    "truncated_laplace_interval",
]  # fmt: skip


Array = NDArray[np.float64]


class TruncatedLaplaceLaw(LocationLaw):
    """Laplace noise conditioned on the output lying in [lower, upper].

    The location must lie within the bounds; mechanisms clamp it there first.

    Examples
    --------
    >>> law = TruncatedLaplaceLaw(0.2, 0.1, 0.0, 1.0)
    >>> round(law.mean, 6), round(law.variance, 6), law.support
    (0.221616, 0.013581, (0.0, 1.0))
    """

    def __init__(
        self,
        location: Truth,
        scale: ArrayLike,
        lower: ArrayLike,
        upper: ArrayLike,
        *,
        grid: ArrayLike | None = None,
    ) -> None:
        self.lower, self.upper = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
        if not np.all(self.lower < self.upper):
            raise InvalidParameter("lower", lower, "must be below upper everywhere", "Swap or widen the bounds.")
        super().__init__(location, scale, grid=grid)
        self._shape = np.broadcast_shapes(self._shape, self.lower.shape, self.upper.shape)
        if not np.all((self.location >= self.lower) & (self.location <= self.upper)):
            raise InvalidParameter("location", "…", "must lie within the bounds", "Clamp the truth first.")

    def _default_grid(self) -> Array:
        return np.asarray(default_grid(np.minimum(self.scale, self.upper - self.lower)))

    @property
    def support(self) -> tuple[Floats, Floats]:
        """The bounds."""
        return plain(np.broadcast_to(self.lower, self._shape)), plain(np.broadcast_to(self.upper, self._shape))

    @property
    def _sides(self) -> tuple[Array, Array]:
        """Distances to the bounds, in scales."""
        return (self.location - self.lower) / self.scale, (self.upper - self.location) / self.scale

    @property
    def _mass(self) -> tuple[Array, Array]:
        """1 − exp(−distance) to the left and right; their sum is twice holohan2018's C(q)."""
        left, right = self._sides
        return -np.expm1(-left), -np.expm1(-right)

    @property
    def mean(self) -> Floats:
        """liu2019 (6), in a form that does not cancel."""
        return plain(self.location + self.bias)

    @property
    def bias(self) -> Floats:
        """Expected output minus truth: positive left of the middle, negative right of it."""
        left, right = self._sides
        mass = sum(self._mass)
        return plain(self.scale * (first_moment(right) - first_moment(left)) / mass)

    @property
    def variance(self) -> Floats:
        """Second moment around the truth minus squared bias."""
        left, right = self._sides
        second = self.scale**2 * (_second_moment(left) + _second_moment(right)) / sum(self._mass)
        return plain(second - np.square(self.bias))

    def pdf(self, x: ArrayLike) -> Floats:
        """Density."""
        points = np.asarray(x, dtype=float)
        inside = (points >= self.lower) & (points <= self.upper)
        density = np.exp(-np.abs(self._standardised(points))) / (self.scale * sum(self._mass))
        return plain(np.where(inside, density, 0.0))

    def cdf(self, x: ArrayLike) -> Floats:
        """Distribution function."""
        z = self._standardised(np.clip(x, self.lower, self.upper))
        left, right = self._mass
        # exp(z) − exp(−left), without cancellation where the domain is short beside the scale.
        up_to = np.minimum(z, 0) + self._sides[0]
        below = np.exp(np.minimum(z, 0)) * -np.expm1(-up_to)
        return plain(np.where(z < 0, below, left - np.expm1(-np.maximum(z, 0))) / (left + right))

    def quantile(self, q: ArrayLike) -> Floats:
        """Inverse distribution function."""
        left, right = self._mass
        signed = probabilities(q) * (left + right) - left
        with np.errstate(divide="ignore"):
            noise = -np.sign(signed) * np.log1p(-np.abs(signed))
        return plain(np.clip(self.location + self.scale * noise, self.lower, self.upper))

    def _family(self, location: Location, scale: Array, grid: Array, shape: tuple[int, ...]) -> Family:
        lower, upper = (spread(bound, shape) for bound in (self.lower, self.upper))
        return TruncatedLaplaceFamily(scale, scale / grid, location, lower, upper)

    def _simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return np.asarray(self.quantile(rng.random(shape)))

    def sample(
        self,
        size: int | tuple[int, ...] | None = None,
        *,
        rng: int | np.random.Generator | None = None,
        entropy: Entropy = SYSTEM_ENTROPY,
    ) -> Floats:
        """Draw outputs; a bound that is not on the grid stays a bound."""
        draws = np.asarray(super().sample(size, rng=rng, entropy=entropy))
        return plain(draws if self._on_grid() else np.clip(draws, self.lower, self.upper, out=draws))

    def _on_grid(self) -> bool:
        """Whether both bounds are grid points, which rounding cannot pass; not asked for arrays of bounds."""
        if self.lower.ndim or self.upper.ndim or self.grid.ndim:
            return False
        cells = np.array([self.lower, self.upper]) / self.grid
        return bool(np.all(np.isinf(cells) | (cells == np.floor(cells))))


def first_moment(t: Array) -> Array:
    """∫₀ᵗ z·e⁻ᶻ dz = 1 − (1 + t)·e⁻ᵗ, as an incomplete gamma function: accurate for small and large t."""
    return np.asarray(scipy.special.gammainc(2.0, t))


def _second_moment(t: Array) -> Array:
    """∫₀ᵗ z²·e⁻ᶻ dz = 2 − (2 + 2t + t²)·e⁻ᵗ, likewise."""
    return np.asarray(2 * scipy.special.gammainc(3.0, t))


def truncated_laplace_interval(
    value: ArrayLike, level: float, scale: Array, lower: ArrayLike, upper: ArrayLike, grid: ArrayLike = 0.0
) -> tuple[Floats, Floats]:
    """Interval for a truth in [lower, upper] behind a bounded Laplace output.

    A truth is kept where the value lies in the shortest region that holds it with probability ``level``, the points
    within d(truth) of the truth. The coverage is exactly ``level`` at every truth, the bounds included, and the
    interval always holds the value itself. Proof: ``docs/proofs/population_intervals.md``.
    """
    points, half = np.asarray(value, dtype=float), np.asarray(grid, dtype=float) / 2
    low_end, high_end = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
    right = np.clip(points + half, low_end, high_end)
    left = np.clip(points - half, low_end, high_end)
    above, below = (high_end - right) / scale, (left - low_end) / scale
    upward = _reach((right - low_end) / scale, above, 1 - level)
    downward = _reach((high_end - left) / scale, below, 1 - level)
    # An end that is reached is returned as such: a rounding error must not cut it off.
    high = np.where(upward >= above, high_end, right + scale * upward)
    low = np.where(downward >= below, low_end, left - scale * downward)
    return plain(np.clip(low, low_end, high_end)), plain(np.clip(high, low_end, high_end))


def _reach(behind: Array, ahead: Array, alpha: float) -> Array:
    """How far ahead of the value, in scales, a truth may lie; ``behind`` and ``ahead`` are the distances to the ends.

    The truth at distance d ahead has d(truth) = d. With p = e^d, g = e^{−behind} and M = e^{−ahead} that is quadratic
    in p: (1−α)M·p² + 2α·p + (1−α)g − 2 = 0 where the region is cut by neither end, and α·M·p² − 2α·p + 1 − (1−α)g = 0
    where it is cut by the end ahead.
    """
    near, far = np.exp(-behind), np.exp(-ahead)
    with np.errstate(all="ignore"):
        whole = 2 - (1 - alpha) * near
        free = np.log(whole / (alpha + np.sqrt(alpha**2 + (1 - alpha) * far * whole)))
        rest = 1 - (1 - alpha) * near
        inside = alpha**2 - alpha * far * rest
        cut = np.where(inside > 0, np.log(rest / (alpha + np.sqrt(np.maximum(inside, 0)))), ahead)
    return np.asarray(np.where(2 * free <= ahead, free, np.minimum(cut, ahead)))


# ---- Clamped Laplace law: Laplace noise, then the nearest point of an interval (liu2019's boundary-inflated law)


class ClampedLaplaceLaw(Law):
    """Laplace noise, then the nearest point of [lower, upper]: a density inside, and mass on both ends.

    Parameters
    ----------
    location
        The truth; it must lie within the bounds.
    scale
        Scale of the noise.
    lower, upper
        The bounds; either may be infinite.
    grid
        Power of two to which draws are rounded before they are clamped.

    Examples
    --------
    >>> law = ClampedLaplaceLaw(0.2, 0.1, 0.0, 1.0)
    >>> round(law.mean, 6), round(law.mse, 6), [round(mass, 6) for mass in law.masses]
    (0.20675, 0.01591, [0.067668, 0.000168])
    """

    def __init__(
        self,
        location: Truth,
        scale: ArrayLike,
        lower: ArrayLike,
        upper: ArrayLike,
        *,
        grid: ArrayLike | None = None,
    ) -> None:
        self._noise = LaplaceLaw(location, scale, grid=grid)
        self.lower, self.upper = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
        if not np.all(self.lower < self.upper):
            raise InvalidParameter("lower", lower, "must be below upper everywhere", "Swap or widen the bounds.")
        if not np.all((self.location >= self.lower) & (self.location <= self.upper)):
            raise InvalidParameter("location", "…", "must lie within the bounds", "Clamp the truth first.")
        self._shape = np.broadcast_shapes(self._noise.shape, self.lower.shape, self.upper.shape)

    @property
    def location(self) -> Array:
        """The truth, as floats."""
        return self._noise.location

    @property
    def scale(self) -> Array:
        """Scale of the noise."""
        return self._noise.scale

    @property
    def grid(self) -> Array:
        """Spacing of the draws."""
        return self._noise.grid

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one draw."""
        return self._shape

    @property
    def support(self) -> tuple[Floats, Floats]:
        """The bounds."""
        return plain(np.broadcast_to(self.lower, self._shape)), plain(np.broadcast_to(self.upper, self._shape))

    @property
    def _sides(self) -> tuple[Array, Array]:
        """Distances to the bounds, in scales."""
        return (self.location - self.lower) / self.scale, (self.upper - self.location) / self.scale

    @property
    def masses(self) -> tuple[Floats, Floats]:
        """Probability of each end: exp(−distance/b)/2 (liu2019 (5), whose mass at the upper end is misprinted)."""
        left, right = self._sides
        return plain(np.exp(-left) / 2), plain(np.exp(-right) / 2)

    @property
    def mean(self) -> Floats:
        """Truth plus bias (liu2019 (7), (9), (10))."""
        return plain(np.clip(self.location + self.bias, self.lower, self.upper))

    @property
    def bias(self) -> Floats:
        """b/2·(e^{−left} − e^{−right}), without cancellation."""
        left, right = self._sides
        near = np.minimum(left, right)
        with np.errstate(invalid="ignore"):
            gap = np.where(np.isinf(left) & np.isinf(right), 0.0, np.abs(right - left))
        size = self.scale / 2 * np.exp(-near) * -np.expm1(-gap)
        return plain(np.where(left <= right, size, -size))

    @property
    def mse(self) -> Floats:
        """E(output − truth)² = b²·(2 − (1 + left)·e^{−left} − (1 + right)·e^{−right}) ≤ 2b²."""
        left, right = self._sides
        return plain(self.scale**2 * (first_moment(left) + first_moment(right)))

    @property
    def variance(self) -> Floats:
        """Mean squared error minus squared bias."""
        return plain(np.asarray(self.mse) - np.square(self.bias))

    def pdf(self, x: ArrayLike) -> Floats:
        """Density strictly between the bounds; the ends carry `masses` instead."""
        points = np.asarray(x, dtype=float)
        inside = (points > self.lower) & (points < self.upper)
        return plain(np.where(inside, self._noise.pdf(points), 0.0))

    def cdf(self, x: ArrayLike) -> Floats:
        """Distribution function; it jumps at the bounds."""
        points = np.asarray(x, dtype=float)
        inner = np.asarray(self._noise.cdf(points))
        return plain(np.where(points < self.lower, 0.0, np.where(points >= self.upper, 1.0, inner)))

    def quantile(self, q: ArrayLike) -> Floats:
        """Inverse distribution function."""
        return plain(np.clip(np.asarray(self._noise.quantile(q)), self.lower, self.upper))

    def sample(
        self,
        size: int | tuple[int, ...] | None = None,
        *,
        rng: int | np.random.Generator | None = None,
        entropy: Entropy = SYSTEM_ENTROPY,
    ) -> Floats:
        """Draw Laplace outputs and clamp them."""
        front = () if size is None else (size,) if isinstance(size, int | np.integer) else tuple(size)
        extra = self._shape[: len(self._shape) - len(self._noise.shape)]
        draws = self._noise.sample((*front, *extra) or None, rng=rng, entropy=entropy)
        return plain(np.clip(draws, self.lower, self.upper))


def clamped_laplace_interval(
    value: ArrayLike, level: float, scale: Array, lower: ArrayLike, upper: ArrayLike, grid: ArrayLike = 0.0
) -> tuple[Floats, Floats]:
    """Interval for a truth in [lower, upper] behind a clamped Laplace output: value ± b·ln(1/(1 − level)), cut.

    Clamping loses nothing here: the atom at an end is a tail event of the Laplace law.
    """
    points, reach = np.asarray(value, dtype=float), scale * -math.log(1 - level) + np.asarray(grid) / 2
    return plain(np.clip(points - reach, lower, upper)), plain(np.clip(points + reach, lower, upper))
