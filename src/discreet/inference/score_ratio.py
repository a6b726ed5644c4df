"""Score ratio: a score over its standard deviation, what it may be under a hypothesis, and where that ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import scipy  # whose submodules load when first used

__all__ = ["ScoreRatio", "crossing"]

_END = 1e-3
"""Ends of intervals are found to this accuracy, in standard errors."""


@dataclass(frozen=True)
class ScoreRatio:
    """A score over its standard deviation, the largest bias over the same, and the excess kurtosis of the score."""

    distance: float
    bias: float
    kurtosis: float

    def _critical(self, z: float) -> float:
        """The quantile of |x + bias| for a normal x, widened by heavier tails (Cornish and Fisher)."""
        level = 2 * NormalDist().cdf(z) - 1
        if self.bias > 8:  # one side is out of reach
            reach = self.bias + NormalDist().inv_cdf(max(level, 1e-12))
        else:
            reach = math.sqrt(float(scipy.special.chndtrix(level, 1, self.bias**2))) if self.bias > 1e-9 else z
        return reach + max(z**3 - 3 * z, 0.0) / 24 * self.kurtosis

    def beyond(self, level: float) -> float:
        """By how much the distance exceeds what the level allows."""
        return self.distance - self._critical(NormalDist().inv_cdf((1 + level) / 2))

    def pvalue(self) -> float:
        """Below 1 − level exactly where the level rejects."""
        low, high = 0.0, min(self.distance, 8.0)
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if self._critical(middle) < self.distance else (low, middle)
        return 2 * NormalDist().cdf(-high)


def crossing(beyond: Callable[[float], float], guess: float, reach: float) -> float:
    """Where a function that is below 0 at 0 becomes positive, rounded outwards; infinity beyond the reach.

    It is nearly a straight line, so secants find it in few steps (the rule of Illinois halves the end that stays).
    """
    (inside, low), (outside, high) = (0.0, -guess), (guess, beyond(guess))
    while high < 0:
        if outside > reach:
            return math.inf
        (inside, low), outside = (outside, high), 1.5 * outside
        high = beyond(outside)
    moved = 0
    while outside - inside > _END:
        middle = inside + low / (low - high) * (outside - inside)
        value = beyond(middle)
        if abs(value) < _END:
            return middle + _END
        if value < 0:
            inside, low, high, moved = middle, value, high / 2 if moved < 0 else high, -1
        else:
            outside, high, low, moved = middle, value, low / 2 if moved > 0 else low, 1
    return outside
