"""Location: the exact truth, split into a whole number of grid cells and a rest.

The grid is a power of two, so dividing a float by it is exact. Only the rest, below one, meets the noise in
floating point; a large truth therefore costs no accuracy.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.noise.truth import Truth, float_truth

__all__ = ["Location", "default_grid", "power_of_two"]

GRID_BITS = 20
"""The default grid is this many bits finer than the scale: far below the noise, yet rarely ambiguous."""

_EXACT_INTEGERS = 2**53
"""Every whole number up to here is a float."""


def power_of_two(name: str, grid: float) -> float:
    """Return ``grid`` as a float if it is a power of two; every exactness argument rests on that."""
    try:
        number = float(grid)
    except (TypeError, ValueError, OverflowError):
        raise WrongType(name, grid, "must be a number", "Pass a power of two such as 2**-10 or 1.") from None
    if not math.isfinite(number) or number <= 0 or math.frexp(number)[0] != 0.5:
        raise InvalidParameter(name, grid, "must be a power of two", "Pass 2**-10, 0.5 or 1, for example.")
    return number


def default_grid(scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """The power of two that is `GRID_BITS` bits below the scale; it depends on public parameters only."""
    exponent = np.frexp(scale)[1] - 1 - GRID_BITS  # above −1000, so that 1/grid is a float too
    return np.asarray(np.ldexp(1.0, np.maximum(exponent, -1000)), dtype=float)


def _inexact_as_floats(truth: Truth, floats: NDArray[np.float64]) -> NDArray[np.object_] | None:
    """The truth as exact fractions where floats might round it: quotients and very large integers.

    Fractions stay fractions even where a float equals them: which path is taken, and how long it takes, must depend on
    the kind of the statistic and not on its secret value.
    """
    kind = truth.dtype.kind if isinstance(truth, np.ndarray | np.generic) else "f" if isinstance(truth, float) else "O"
    if kind == "f" or (kind in "iub" and np.all(np.abs(floats) < _EXACT_INTEGERS)):
        return None
    objects = np.asarray(truth, dtype=object)
    exact = np.vectorize(_fraction, otypes=[object])(objects)
    quotients = any(isinstance(value, Fraction) for value in objects.ravel())
    large = not np.all(np.abs(floats) < _EXACT_INTEGERS)
    return np.asarray(exact, dtype=object) if quotients or large else None


def _fraction(value: Any) -> Fraction:
    return value if isinstance(value, Fraction) else Fraction(value.item() if isinstance(value, np.generic) else value)


class Location:
    """True values that stay exact: floats and integers as they stand, fractions as quotients.

    Parameters
    ----------
    truth
        A number, a `fractions.Fraction`, or an array of them (dtype ``object`` for fractions).
    """

    def __init__(self, truth: Truth) -> None:
        self.floats = float_truth(truth)
        self.fractions = _inexact_as_floats(truth, self.floats)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the truth."""
        return self.floats.shape

    def broadcast(self, shape: tuple[int, ...]) -> Location:
        """The same location repeated to ``shape``, flattened."""
        wider = Location(0.0)
        wider.floats = np.broadcast_to(self.floats, shape).ravel()
        wider.fractions = None if self.fractions is None else np.broadcast_to(self.fractions, shape).ravel()
        return wider

    def split(self, part: slice, per_grid: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Whole cells and rest in [0, 1] of ``truth / grid``; the rest is within 2⁻⁵² of exact.

        Where the whole number is no float the rest is NaN: that draw must be resolved exactly.
        """
        if self.fractions is None:
            # A product with a power of two, a floor and a difference of neighbours: all three are exact.
            cells = self.floats[part] * per_grid
            whole = np.floor(cells)
            return whole, np.subtract(cells, whole, out=cells)
        factors = np.broadcast_to(per_grid, self.floats[part].shape)
        ratios = [value * Fraction(factor) for value, factor in zip(self.fractions[part], factors, strict=True)]
        floors = [math.floor(ratio) for ratio in ratios]
        rests = [
            float(ratio - floor) if abs(floor) <= _EXACT_INTEGERS else math.nan
            for ratio, floor in zip(ratios, floors, strict=True)
        ]
        wholes = [floor if abs(floor) <= _EXACT_INTEGERS else 0 for floor in floors]
        return np.array(wholes, dtype=float), np.array(rests)

    def exact(self, index: int) -> Fraction:
        """The exact value of one flattened element."""
        if self.fractions is not None:
            return Fraction(self.fractions[index])
        return Fraction(float(self.floats[index]))

    def above(self, bound: NDArray[np.float64], part: slice) -> NDArray[np.float64]:
        """``truth − bound``, correctly rounded."""
        if self.fractions is None:
            return np.asarray(self.floats[part] - bound)
        bounds = np.broadcast_to(bound, self.floats[part].shape).tolist()
        pairs = zip(self.fractions[part], bounds, strict=True)
        return np.array([float(value - Fraction(end)) if math.isfinite(end) else -end for value, end in pairs])

    def below(self, bound: NDArray[np.float64], part: slice) -> NDArray[np.float64]:
        """``bound − truth``, correctly rounded."""
        return -self.above(bound, part)
