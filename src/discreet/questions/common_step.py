"""Common step: the grid that several numbers lie on together."""

from __future__ import annotations

import math
from fractions import Fraction

__all__ = ["common_step"]


def common_step(*numbers: Fraction) -> Fraction:
    """The largest step of which all numbers are multiples.

    Examples
    --------
    >>> common_step(Fraction(1, 2), Fraction(-3, 4), Fraction(0))
    Fraction(1, 4)
    """
    whole = math.lcm(*(number.denominator for number in numbers))
    return Fraction(math.gcd(*(int(number * whole) for number in numbers)), whole)
