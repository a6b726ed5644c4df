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
from fractions import Fraction
from typing import Any

from flint import arb, ctx, fmpq

PRECISION = 256
"""Bits of working precision for certified evaluations."""


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
