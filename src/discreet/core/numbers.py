"""Directed rounding: no reported number is ever rounded in the data subject's disfavour.

A float that carries a privacy parameter stands for **the decimal it prints as**: ``PureDP(0.1)`` claims
exactly one tenth, not the binary number next to it. So ten releases at 0.1 fit a budget of 1.0, and what a
reader sees on the page is what was proved. Scales and sensitivities are different: the computation uses their
binary value, so there the binary value counts (`Fraction(x)`).

Balls (`flint.arb`) are rigorous enclosures: a comparison of two balls is true only when it is certain.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np
from flint import arb, ctx, fmpq
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType

PRECISION = 256
"""Bits of working precision for certified evaluations."""


Floats = float | NDArray[np.float64]


def plain(values: Any) -> Floats:
    """A float for a single number, otherwise an array."""
    return float(values) if np.ndim(values) == 0 else np.asarray(values)


def precisely(bits: int = PRECISION) -> AbstractContextManager[Any]:
    """Context in which balls carry ``bits`` bits (more bits, thinner balls; never less rigour)."""
    manager: AbstractContextManager[Any] = ctx.workprec(bits)
    return manager


def decimal(number: float) -> Fraction:
    """The exact value of the shortest decimal that prints this float."""
    return Fraction(repr(float(number)))


def ball(number: float | Fraction) -> arb:
    """Enclose a rational exactly (up to the working precision); a float counts as its binary value."""
    ratio = Fraction(number)
    return arb(fmpq(ratio.numerator, ratio.denominator))


def thin(evaluate: Callable[[], arb]) -> arb:
    """Evaluate with more and more bits until the ball is good to 64 bits, or is certainly below every float.

    The exact value must not be zero: a ball around zero never gets thin.
    """
    bits = PRECISION
    while True:
        with precisely(bits):
            value = evaluate()
            # 64 bits are 11 more than a float has, so rounding up a thin ball is off by one float at most.
            if value.rel_accuracy_bits() > 64 or abs(value) < arb(2) ** -1080:
                return value
        bits *= 2


def _upper_end(value: arb) -> Fraction:
    """Midpoint plus radius, both exact: `arb.upper` would round to whatever precision is in force.

    Ends far beyond the floats are clipped: their fractions could fill the memory.
    """
    if not value.is_finite() or value.upper() > _VAST:
        return Fraction(2) ** 1400
    return _exact(value.mid()) + _exact(value.rad())


_VAST = arb(2) ** 1400


def _exact(point: arb) -> Fraction:
    if abs(point) < 1 / _VAST:
        return Fraction(2) ** -1400 if point > 0 else Fraction(0)
    mantissa, exponent = point.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def up(value: Fraction | arb) -> float:
    """The smallest float whose printed decimal is at least ``value``; infinity where there is none."""
    ratio = value if isinstance(value, Fraction) else _upper_end(value)
    try:
        number = float(ratio)  # correctly rounded, so the answer is this float or one of the next
    except OverflowError:
        return math.inf if ratio > 0 else -sys.float_info.max
    # Not the binary value: a shortest decimal may lie below its float, and the decimal is what is claimed.
    while decimal(number) < ratio:
        number = math.nextafter(number, math.inf)
    return number


def not_below(ratio: Fraction | int) -> float:
    """The smallest float whose binary value is at least ``ratio``; for scales and sensitivities.

    Examples
    --------
    >>> not_below(Fraction(1, 2)), not_below(Fraction(1, 10)) > Fraction(1, 10)
    (0.5, True)
    """
    number = float(ratio)
    return number if Fraction(number) >= ratio else math.nextafter(number, math.inf)


def down(value: Fraction | arb) -> float:
    """The largest float whose printed decimal is at most ``value``."""
    return -up(-value)


def _index(number: float) -> int:
    """Position of a non-negative float among all floats, so that bisection can run on whole numbers."""
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def _at(index: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", index))[0])


_LAST = _index(math.nextafter(math.inf, 0.0))


def _boundary(holds: Callable[[float], bool], guess: float) -> tuple[float, float]:
    """Neighbouring floats (false, true) around the point where a monotone predicate turns true.

    The search starts at ``guess`` and doubles its stride, so a guess that is good to a few units in the last
    place costs a handful of evaluations.
    """
    # Positive floats are ordered like their bit patterns, so 64 halvings reach any of them.
    low = high = min(max(_index(abs(guess)), 1), _LAST)
    stride = 1
    if holds(_at(high)):
        low = max(high - stride, 0)
        while low > 0 and holds(_at(low)):
            high, stride = low, stride * 4
            low = max(low - stride, 0)
    else:
        high = min(low + stride, _LAST)
        while not holds(_at(high)):
            if high == _LAST:
                raise ArithmeticError("no finite number satisfies the requirement")
            low, stride = high, stride * 4
            high = min(high + stride, _LAST)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(_at(middle)) else (middle, high)
    return _at(low), _at(high)


def least(holds: Callable[[float], bool], guess: float) -> float:
    """The smallest positive float that ``holds``, a monotone predicate (false, then true)."""
    return _boundary(holds, guess)[1]


def greatest(holds: Callable[[float], bool], guess: float) -> float:
    """The largest non-negative float that ``holds``, a monotone predicate (true, then false)."""
    return _boundary(lambda number: not holds(number), guess)[0]


def normal_cdf(x: arb) -> arb:
    """Standard normal distribution function Φ as a ball."""
    return (-x / arb(2).sqrt()).erfc() / 2


# ---- Grid: values as integers on a public power-of-two grid, so that sums are exact and do not depend on order.
#
# A float sum depends on the order of its terms, and its true sensitivity is not the one on paper. Here a value is
# clipped to its public bounds and becomes the integer ``floor(x/g + 1/2)``; sums are sums of integers, and a
# statistic is a quotient of integers: an exact fraction whose sensitivity is exactly the one declared.


Indices = NDArray[np.int64]

MAX_ROWS = 2**30
"""Most rows of one sum. With offsets below 2³¹ no partial sum of `total` or `product_total` reaches 2⁶²."""

_CELLS = 30  # a column is resolved to 2⁻³⁰ of its width, or 2⁻⁵¹ of its largest absolute value
_EXACT = 51  # below this many bits, x/g + 1/2 is exact in a float


def column(name: str, values: Any) -> NDArray[np.float64]:
    """A one-dimensional column of finite numbers; everything else is refused before anything is computed.

    It may be empty: where rows are added and removed, a refusal would tell that nobody is in the data.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise WrongType(name, "…", "must be a column of numbers", "Pass a list, an array or a series.") from None
    if array.ndim != 1:
        raise WrongType(name, f"shape {array.shape}", "must have one dimension", "Pass one column.")
    if array.size > MAX_ROWS:
        raise InvalidParameter(name, f"{array.size} rows", "has more than 2³⁰ rows", "Aggregate in parts.")
    if not np.all(np.isfinite(array)):
        raise InvalidParameter(
            name, "…", "must not contain NaN or infinity", "Drop or replace missing values by a public rule."
        )
    return array


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A public power-of-two grid over public bounds.

    The grid points used lie inside the bounds, so whatever is proved for values in ``bounds`` holds for the
    values on the grid; where the bounds are grid points themselves, it is also tight.

    Parameters
    ----------
    bounds
        Public bounds; values outside are clipped.
    step
        Distance of grid points, a power of two; by default about 2⁻³⁰ of the width.

    Examples
    --------
    >>> grid = Grid(bounds=(0, 10))
    >>> grid.step == 2**-26
    True
    >>> [str(x) for x in grid.values(grid.offsets("x", [-3.0, 0.5, 99.0]))]
    ['0', '1/2', '10']
    """

    bounds: tuple[float, float]
    step: float | None = None

    def __post_init__(self) -> None:
        low, high = requirements.ordered_bounds("bounds", self.bounds)
        if math.isinf(low) or math.isinf(high):
            raise InvalidParameter("bounds", self.bounds, "must be finite", "Give both ends of the column.")
        object.__setattr__(self, "bounds", (low, high))
        step = self._default_step() if self.step is None else requirements.positive("step", self.step)
        object.__setattr__(self, "step", step)
        if math.frexp(step)[0] != 0.5:
            raise InvalidParameter("step", step, "must be a power of two", "Pass 1, 0.5, 2**-10, …")
        if self.largest >= 2**31 or max(abs(low), abs(high)) / step >= 2**_EXACT:
            raise InvalidParameter("step", step, "is too fine for these bounds", "Leave step out.")
        if self.largest < 1:
            raise InvalidParameter(
                "bounds", self.bounds, "hold fewer than two grid points", "Widen the bounds or shift the column."
            )

    def _default_step(self) -> float:
        low, high = self.bounds
        width = high - low
        if not math.isfinite(width):
            raise InvalidParameter("bounds", self.bounds, "are too wide for a float", "Narrow them.")
        fine = math.frexp(width)[1] - _CELLS
        coarse = math.frexp(max(abs(low), abs(high)))[1] - _EXACT
        return max(math.ldexp(1.0, max(fine, coarse)), 2.0**-1022)

    @property
    def exact_step(self) -> Fraction:
        """The step as a fraction."""
        return Fraction(cast(float, self.step))

    @property
    def first(self) -> int:
        """Index of the lowest grid point inside the bounds."""
        return math.ceil(Fraction(self.bounds[0]) / self.exact_step)

    @property
    def largest(self) -> int:
        """The largest offset: number of steps from the lowest to the highest grid point."""
        return math.floor(Fraction(self.bounds[1]) / self.exact_step) - self.first

    @property
    def width(self) -> Fraction:
        """Upper minus lower bound, exactly."""
        return Fraction(self.bounds[1]) - Fraction(self.bounds[0])

    @property
    def origin(self) -> Fraction:
        """The lowest grid point."""
        return self.first * self.exact_step

    def offsets(self, name: str, values: Any) -> Indices:
        """Clip and round a column; the result counts steps above the lowest grid point."""
        clipped = np.clip(column(name, values), *self.bounds)
        index = np.floor(clipped / float(self.exact_step) + 0.5).astype(np.int64)
        return np.clip(index - self.first, 0, self.largest)

    def values(self, offsets: Indices) -> list[Fraction]:
        """The numbers that offsets stand for."""
        return [self.origin + int(offset) * self.exact_step for offset in offsets]


def total(offsets: Indices) -> int:
    """Σ of offsets: at most 2³⁰ terms below 2³¹, so the sum stays below 2⁶¹."""
    return int(offsets.sum())


def product_total(first: Indices, second: Indices) -> int:
    """Σ of products of two columns of offsets, exactly.

    Each offset is split into its upper 15 and lower 16 bits; a product of two parts is below 2³², so each of
    the four sums of at most 2³⁰ terms stays below 2⁶².
    """
    upper_1, lower_1, upper_2, lower_2 = first >> 16, first & 0xFFFF, second >> 16, second & 0xFFFF
    high = int((upper_1 * upper_2).sum())
    middle = int((upper_1 * lower_2).sum()) + int((lower_1 * upper_2).sum())
    return (high << 32) + (middle << 16) + int((lower_1 * lower_2).sum())
