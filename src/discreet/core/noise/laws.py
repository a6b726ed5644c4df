"""Laws: Laplace, Gaussian, truncated Laplace, exponential and Gumbel noise around a truth.

Densities and moments describe the real-valued output. `sample` returns that output rounded to the law's grid, which
by default is 2⁻²⁰ of the scale or finer; halving a grid cell therefore bounds the difference.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
import scipy  # whose submodules load when first used
from numpy.typing import ArrayLike, NDArray

from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.noise.entropy import SYSTEM_ENTROPY, Entropy
from discreet.core.noise.exact import Family, exact_draws
from discreet.core.noise.families import (
    ExponentialFamily,
    GaussianFamily,
    GumbelFamily,
    LaplaceFamily,
    TruncatedLaplaceFamily,
)
from discreet.core.noise.law import Floats, Law, Truth, generator, plain
from discreet.core.noise.location import Location, default_grid, power_of_two

__all__ = ["ExponentialLaw", "GaussianLaw", "GumbelLaw", "LaplaceLaw", "TruncatedLaplaceLaw"]

Array = NDArray[np.float64]


def _positive_array(name: str, values: ArrayLike) -> Array:
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise WrongType(name, values, "must be a number or an array of numbers", "Pass numbers.") from None
    if not np.all(np.isfinite(array) & (array > 0)):
        raise InvalidParameter(name, values, "must be finite and positive everywhere", f"Pass {name} > 0.")
    return array


def _probabilities(q: ArrayLike) -> Array:
    array = np.asarray(q, dtype=float)
    if not np.all((array >= 0) & (array <= 1)):
        raise InvalidParameter("q", q, "must lie in [0, 1]", "Pass probabilities.")
    return array


class LocationLaw(Law):
    """A law that is a location plus scaled noise of one family.

    Parameters
    ----------
    location
        The truth: numbers or fractions, exact as they stand.
    scale
        Scale of the noise, broadcast against the location.
    grid
        Power of two to which draws are rounded; by default 2⁻²⁰ of the scale.
    """

    def __init__(self, location: Truth, scale: ArrayLike, *, grid: ArrayLike | None = None) -> None:
        self._location = Location(location)
        self.scale = _positive_array("scale", scale)
        self._shape = np.broadcast_shapes(self._location.shape, self.scale.shape)
        if grid is None:
            self.grid = self._default_grid()
        else:
            self.grid = np.vectorize(lambda value: power_of_two("grid", value), otypes=[float])(grid)

    def _default_grid(self) -> Array:
        return np.asarray(default_grid(self.scale))

    @property
    def location(self) -> Array:
        """The truth, as floats."""
        return self._location.floats

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one draw."""
        return self._shape

    @property
    def support(self) -> tuple[Floats, Floats]:
        """The whole line, unless a law says otherwise."""
        return -math.inf, math.inf

    @property
    def bias(self) -> Floats:
        """Expected output minus truth."""
        return plain(self.mean - self.location)

    def _standardised(self, x: ArrayLike) -> Array:
        return np.asarray((np.asarray(x, dtype=float) - self.location) / self.scale)

    @abstractmethod
    def _family(self, location: Location, scale: Array, grid: Array, shape: tuple[int, ...]) -> Family:
        """The exact sampler's family for flattened parameters."""

    @abstractmethod
    def _simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draws by numpy's generators, before rounding."""

    def sample(
        self,
        size: int | tuple[int, ...] | None = None,
        *,
        rng: int | np.random.Generator | None = None,
        entropy: Entropy = SYSTEM_ENTROPY,
    ) -> Floats:
        """Draw outputs, exactly; or, with ``rng``, simulate them in floating point."""
        front = () if size is None else (size,) if isinstance(size, int | np.integer) else tuple(size)
        shape = (*front, *self._shape)
        if rng is not None:
            draws = self._simulate(shape, generator(rng))
            return plain(np.floor(draws / self.grid + 0.5) * self.grid)
        scale, grid = (_flat(values, shape) for values in (self.scale, self.grid))
        location = self._location.broadcast(shape)
        draws = exact_draws(self._family(location, scale, grid, shape), location, grid, entropy)
        return plain(draws.reshape(shape))


def _flat(values: Array, shape: tuple[int, ...]) -> Array:
    """Scalars stay scalars, which the samplers use; arrays are spread over the draws."""
    return values if values.ndim == 0 else np.broadcast_to(values, shape).ravel()


class LaplaceLaw(LocationLaw):
    """Laplace noise: density exp(−|x − truth|/b) / 2b.

    Examples
    --------
    >>> law = LaplaceLaw(10.0, 2.0)
    >>> law.mean, law.variance, law.cdf(10.0)
    (10.0, 8.0, 0.5)
    """

    @property
    def mean(self) -> Floats:
        """The truth."""
        return plain(np.broadcast_to(self.location, self._shape))

    @property
    def variance(self) -> Floats:
        """2·b²."""
        return plain(np.broadcast_to(2 * self.scale**2, self._shape))

    def pdf(self, x: ArrayLike) -> Floats:
        """Density."""
        return plain(np.exp(-np.abs(self._standardised(x))) / (2 * self.scale))

    def cdf(self, x: ArrayLike) -> Floats:
        """Distribution function."""
        z = self._standardised(x)
        half = np.exp(-np.abs(z)) / 2
        return plain(np.where(z < 0, half, 1 - half))

    def quantile(self, q: ArrayLike) -> Floats:
        """Inverse distribution function."""
        p = _probabilities(q)
        with np.errstate(divide="ignore"):
            z = np.where(p < 0.5, np.log(2 * p), -np.log(2 * (1 - p)))
        return plain(self.location + self.scale * z)

    def _family(self, location: Location, scale: Array, grid: Array, shape: tuple[int, ...]) -> Family:
        return LaplaceFamily(scale, scale / grid)

    def _simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return rng.laplace(self.location, self.scale, size=shape)


class GaussianLaw(LocationLaw):
    """Normal noise with standard deviation ``scale``.

    Examples
    --------
    >>> law = GaussianLaw(10.0, 2.0)
    >>> law.variance, round(law.quantile(0.975), 3)
    (4.0, 13.92)
    """

    @property
    def mean(self) -> Floats:
        """The truth."""
        return plain(np.broadcast_to(self.location, self._shape))

    @property
    def variance(self) -> Floats:
        """σ²."""
        return plain(np.broadcast_to(self.scale**2, self._shape))

    def pdf(self, x: ArrayLike) -> Floats:
        """Density."""
        z = self._standardised(x)
        return plain(np.exp(-z * z / 2) / (math.sqrt(2 * math.pi) * self.scale))

    def cdf(self, x: ArrayLike) -> Floats:
        """Distribution function."""
        return plain(scipy.special.ndtr(self._standardised(x)))

    def quantile(self, q: ArrayLike) -> Floats:
        """Inverse distribution function."""
        return plain(self.location + self.scale * scipy.special.ndtri(_probabilities(q)))

    def _family(self, location: Location, scale: Array, grid: Array, shape: tuple[int, ...]) -> Family:
        return GaussianFamily(scale, scale / grid)

    def _simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return rng.normal(self.location, self.scale, size=shape)


class ExponentialLaw(LocationLaw):
    """Exponential noise above the truth, with mean ``scale``."""

    @property
    def support(self) -> tuple[Floats, Floats]:
        """From the truth upwards."""
        return plain(np.broadcast_to(self.location, self._shape)), math.inf

    @property
    def mean(self) -> Floats:
        """Truth plus b."""
        return plain(self.location + self.scale)

    @property
    def variance(self) -> Floats:
        """b²."""
        return plain(np.broadcast_to(self.scale**2, self._shape))

    def pdf(self, x: ArrayLike) -> Floats:
        """Density."""
        z = self._standardised(x)
        return plain(np.where(z < 0, 0.0, np.exp(-np.maximum(z, 0)) / self.scale))

    def cdf(self, x: ArrayLike) -> Floats:
        """Distribution function."""
        return plain(-np.expm1(-np.maximum(self._standardised(x), 0)))

    def quantile(self, q: ArrayLike) -> Floats:
        """Inverse distribution function."""
        with np.errstate(divide="ignore"):
            return plain(self.location - self.scale * np.log1p(-_probabilities(q)))

    def _family(self, location: Location, scale: Array, grid: Array, shape: tuple[int, ...]) -> Family:
        return ExponentialFamily(scale, scale / grid)

    def _simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return np.asarray(self.location + rng.exponential(self.scale, size=shape))


class GumbelLaw(LocationLaw):
    """Gumbel (maximum) noise: distribution function exp(−exp(−(x − truth)/b))."""

    @property
    def mean(self) -> Floats:
        """Truth plus b times Euler's constant."""
        return plain(self.location + np.euler_gamma * self.scale)

    @property
    def variance(self) -> Floats:
        """π²·b²/6."""
        return plain(np.broadcast_to(math.pi**2 / 6 * self.scale**2, self._shape))

    def pdf(self, x: ArrayLike) -> Floats:
        """Density."""
        z = self._standardised(x)
        with np.errstate(over="ignore"):
            return plain(np.exp(-z - np.exp(-z)) / self.scale)

    def cdf(self, x: ArrayLike) -> Floats:
        """Distribution function."""
        with np.errstate(over="ignore"):
            return plain(np.exp(-np.exp(-self._standardised(x))))

    def quantile(self, q: ArrayLike) -> Floats:
        """Inverse distribution function."""
        with np.errstate(divide="ignore"):
            return plain(self.location - self.scale * np.log(-np.log(_probabilities(q))))

    def _family(self, location: Location, scale: Array, grid: Array, shape: tuple[int, ...]) -> Family:
        return GumbelFamily(scale, scale / grid)

    def _simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return rng.gumbel(self.location, self.scale, size=shape)


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
        signed = _probabilities(q) * (left + right) - left
        with np.errstate(divide="ignore"):
            noise = -np.sign(signed) * np.log1p(-np.abs(signed))
        return plain(np.clip(self.location + self.scale * noise, self.lower, self.upper))

    def _family(self, location: Location, scale: Array, grid: Array, shape: tuple[int, ...]) -> Family:
        lower, upper = (_flat(bound, shape) for bound in (self.lower, self.upper))
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
