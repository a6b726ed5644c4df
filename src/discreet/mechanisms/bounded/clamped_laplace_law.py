"""Clamped Laplace law: Laplace noise, then the nearest point of an interval (liu2019's boundary-inflated law)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.contract.law import Law
from discreet.core.errors import InvalidParameter
from discreet.core.noise.entropy import SYSTEM_ENTROPY, Entropy
from discreet.core.noise.truth import Floats, Truth, plain
from discreet.mechanisms.bounded.truncated_laplace_law import first_moment
from discreet.mechanisms.laplace import LaplaceLaw

__all__ = ["ClampedLaplaceLaw", "clamped_laplace_interval"]

Array = NDArray[np.float64]


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
