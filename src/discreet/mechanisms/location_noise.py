"""Location noise: a truth plus independent noise of one law and one scale on every coordinate.

Densities and moments describe the real-valued output. `sample` returns that output rounded to the law's grid, which
by default is 2⁻²⁰ of the scale or finer; halving a grid cell therefore bounds the difference.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.noise.sampler import Family, Location, default_grid, exact_draws, power_of_two
from discreet.core.noise.truth import SYSTEM_ENTROPY, Entropy, Floats, Truth, generator, plain
from discreet.mechanisms.mechanism import Law, Mechanism

if TYPE_CHECKING:
    from discreet.core.exact import Exact

__all__ = ["AdditiveNoise", "LocationLaw", "WholeNoise", "probabilities", "spread", "whole_truth"]


Array = NDArray[np.float64]


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
        elif np.ndim(grid) == 0:  # a law is set up for every parameter that an interval tries
            self.grid = np.asarray(power_of_two("grid", grid))  # type: ignore[arg-type]
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
    def mean(self) -> Floats:
        """The truth, around which noise is symmetric, unless a law says otherwise."""
        return plain(np.broadcast_to(self.location, self._shape))

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
        # Scalars stay scalars, so that samplers multiply by one number and not by an array of equal ones.
        scale, grid = (spread(values, shape) for values in (self.scale, self.grid))
        location = self._location.broadcast(shape)
        draws = exact_draws(self._family(location, scale, grid, shape), location, grid, entropy)
        return plain(draws.reshape(shape))


def _positive_array(name: str, values: ArrayLike) -> Array:
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise WrongType(name, values, "must be a number or an array of numbers", "Pass numbers.") from None
    if not np.all(np.isfinite(array) & (array > 0)):
        raise InvalidParameter(name, values, "must be finite and positive everywhere", f"Pass {name} > 0.")
    return array


def probabilities(q: ArrayLike) -> Array:
    """Probabilities as an array; refuses what lies outside [0, 1]."""
    array = np.asarray(q, dtype=float)
    if not np.all((array >= 0) & (array <= 1)):
        raise InvalidParameter("q", q, "must lie in [0, 1]", "Pass probabilities.")
    return array


def spread(values: Array, shape: tuple[int, ...]) -> Array:
    """Arrays, spread over the draws; a scalar as it is."""
    return values if values.ndim == 0 else np.broadcast_to(values, shape).ravel()


@dataclass(frozen=True)
class AdditiveNoise(Mechanism):
    """Noise of one law and one scale on every coordinate.

    Parameters
    ----------
    scale
        Scale of the noise, in units of the statistic.
    grid
        Power of two to which outputs are rounded; by default 2⁻²⁰ of the scale. Rounding is post-processing.
    """

    scale: float
    grid: float | None = None
    _law: ClassVar[type[LocationLaw]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", requirements.positive("scale", self.scale))
        if self.grid is not None:
            object.__setattr__(self, "grid", power_of_two("grid", self.grid))

    def law(self, truth: Truth) -> LocationLaw:
        """The exact distribution of the output given the truth."""
        return self._law(truth, self.scale, grid=self.grid)

    def l2_cost(self, truth: Truth) -> float:
        """Expected squared distance between output and truth, summed over coordinates (lee2022 (5), Lemma 13)."""
        return float(np.sum(self.law(truth).variance))

    def parameters(self) -> dict[str, Any]:
        """The parameters as JSON-ready data."""
        return {"scale": self.scale, "grid": self.grid}


# ---- Whole noise: what mechanisms share that add whole numbers to whole numbers


def whole_truth(truth: Truth) -> Truth:
    """The truth, each number rounded to the next whole one, halves up: ⌊x + ½⌋, exactly.

    Numbers at most m apart, m whole, are at most m apart afterwards. (Rounding halves to even would not do: 0.5 and 1.5
    would be two apart.)
    """
    location = Location(truth)
    if location.fractions is not None:
        exact = np.vectorize(lambda value: math.floor(value + Fraction(1, 2)), otypes=[object])(location.fractions)
        return np.asarray(exact, dtype=object)
    below = np.floor(location.floats)
    return below + (location.floats - below >= 0.5)  # the difference is exact, a sum with ½ would not be


@dataclass(frozen=True)
class WholeNoise(Mechanism):
    """Whole-number noise of one law and one scale on every coordinate."""

    words: ClassVar[str]
    """What the noise is called."""
    scale: float

    def _need_moves(self, exact: Exact, *, several: bool) -> None:
        """Refuse several numbers that need not be whole, where only a norm is known: rounding could move each."""
        known = exact.sensitivity
        if known.moves is None and several and np.asarray(exact.value).dtype.kind not in "iu":
            raise InvalidParameter(
                "sensitivity",
                known,
                f"{self.words} on several numbers needs moves, or an array of integers",
                "Pass Sensitivity(moves=(1, 1)), for example.",
            )

    def noise_interval(self, value: Floats, level: float) -> tuple[Floats, Floats]:
        """Whole ends: the truth, as a whole number, lies between them with probability at least ``level``."""
        reach = self.law(0).quantile((1 + level) / 2)
        return value - reach, value + reach

    def parameters(self) -> dict[str, Any]:
        """The parameters as JSON-ready data."""
        return {"scale": self.scale}
