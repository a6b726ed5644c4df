"""Whole noise: what mechanisms share that add whole numbers to whole numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from discreet.contract.mechanism import Mechanism
from discreet.core.errors import InvalidParameter
from discreet.core.noise.location import Location
from discreet.core.noise.truth import Floats, Truth

if TYPE_CHECKING:
    from discreet.core.exact import Exact

__all__ = ["WholeNoise", "whole_truth"]


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

    def confidence_interval(self, value: Floats, level: float) -> tuple[Floats, Floats]:
        """Whole ends: the truth, as a whole number, lies between them with probability at least ``level``."""
        reach = self.law(0).quantile((1 + level) / 2)
        return value - reach, value + reach

    def parameters(self) -> dict[str, Any]:
        """The parameters as JSON-ready data."""
        return {"scale": self.scale}
