"""What totals in parts tell about the mean, and the variance, of the data.

The parts lie at public positions pₖ between the bounds, so Σz = Σ pₖPₖ and n = Σ Pₖ, and for the mean θ = Σz/n the
released totals satisfy Σz − θn = Σ (pₖ − θ)Zₖ: a combination of independent noises, whose law is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet import requirements
from discreet.inference.mean_and_variance import MeanAndVarianceRelease
from discreet.inference.noisy_average import NoisyAverageRelease
from discreet.inference.results import Interval
from discreet.releases import Release
from discreet.statistics.parts import Parts

__all__ = ["MeanAndVarianceInPartsRelease", "MeanInPartsRelease"]

Array = NDArray[np.float64]


def _parts(release: Release) -> tuple[Parts, Array]:
    return cast(Parts, release.statistic), np.asarray(release.value, dtype=float)


def _weights(release: Release, theta: Any) -> Array:
    return np.array([place - np.asarray(theta) for place in _parts(release)[0].positions])


@dataclass(frozen=True)
class MeanInPartsRelease(NoisyAverageRelease):
    """Two noisy totals, and the mean that follows from them."""

    def _totals(self) -> tuple[float, float]:
        of, parts = _parts(self)
        return float(parts @ of.positions), float(parts.sum())

    def _place(self) -> tuple[tuple[float, float], float, float]:
        of, _ = _parts(self)
        return of.bounds, float(of.middle), float(of.half)

    def _weights(self, theta: Any) -> Array:
        return _weights(self, theta)


@dataclass(frozen=True)
class MeanAndVarianceInPartsRelease(MeanAndVarianceRelease):
    """Three noisy totals, and the moments that follow from them."""

    def _totals(self) -> tuple[float, float, float]:
        first, between, last = (float(part) for part in np.asarray(self.value))
        return last - first, first + last - between, first + between + last

    def _weights(self, theta: Any) -> Array:
        return _weights(self, theta)

    def _fewest(self, level: float) -> float:
        return max(sum(max(end, 0.0) for end in self._ends(level)[0]), 1.0)

    def variance_interval(self, level: float = 0.95) -> Interval:
        """Interval for the variance of the data; privacy noise only.

        It holds the variances of all totals within three intervals that hold together (Bonferroni). The variance falls
        in the middle total and rises, then falls, in each of the others, so its extremes are at corners and at the
        turning points on the edges.
        """
        checked = requirements.level(level)
        (first, between, last), (first_high, between_high, last_high) = (
            [max(end, 0.0) for end in ends] for ends in self._ends(checked)
        )
        scale = float(self._of.half) ** 2
        if first_high + between_high + last_high < 1:  # no rows, as far as the noise shows: claim nothing
            return Interval(0.0, scale, checked)
        outer, others = (first, first_high), (last, last_high)
        least = min(_shape(a, between_high, b) for a in outer for b in others)
        most = max(
            *(_shape(min(max(_turn(between, b), first), first_high), between, b) for b in others),
            *(_shape(a, between, min(max(_turn(between, a), last), last_high)) for a in outer),
        )
        return Interval(scale * min(max(least, 0.0), 1.0), scale * min(max(most, 0.0), 1.0), checked)

    @property
    def _rows_per_unit(self) -> int:
        """A unit with k rows in each of g groups moves Δ₁ = gk and Δ₂² = gk², and twice both when it is replaced."""
        l1, l2 = self.sensitivity.require_l1(), self.sensitivity.require_l2()
        return max(1, round(l2**2 / l1))


def _shape(first: float, between: float, last: float) -> float:
    """Variance of the scaled rows, from their totals in parts."""
    rows = first + between + last
    return 1 - 2 * between / rows - ((last - first) / rows) ** 2 if rows > 0 else 0.0


def _turn(between: float, other: float) -> float:
    """Where the variance stops rising in an outer total, given the other two."""
    return (between**2 + 2 * between * other + 2 * other**2) / (2 * other) if other > 0 else float("inf")
