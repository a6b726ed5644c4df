"""What totals in parts tell about the mean, and the variance, of the data and of the population behind it.

The parts lie at public positions pₖ between the bounds, so Σz = Σ pₖPₖ and n = Σ Pₖ, and for the mean θ = Σz/n the
released totals satisfy Σz − θn = Σ (pₖ − θ)Zₖ: a combination of independent noises, whose law is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.core.display import Facts, number
from discreet.core.interval import Interval
from discreet.inference.noise_sum import excess_kurtosis
from discreet.inference.noisy_average_release import NoisyAverageRelease
from discreet.inference.part_moments import PartMoments
from discreet.questions.parts import Parts

__all__ = ["MeanAndVarianceInPartsRelease", "MeanInPartsRelease", "VarianceInPartsRelease"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MeanInPartsRelease(NoisyAverageRelease):
    """Noisy totals in parts, and the mean that follows from them."""

    @property
    def _of(self) -> Parts:
        return cast(Parts, self.statistic)

    @cached_property
    def moments(self) -> PartMoments:
        """The totals as moments between the bounds, with the law of their noise."""
        law = self.mechanism.law(0.0)
        return PartMoments(
            totals=np.asarray(self.value, dtype=float),
            noise=float(np.max(law.variance)),
            kurtosis=excess_kurtosis(law),
            size=self.public.get("n"),
            rows_per_unit=self._rows_per_unit,
        )

    def _totals(self) -> tuple[float, float]:
        parts = self.moments.parts
        return float(parts @ self._of.positions), float(parts.sum())

    def _place(self) -> tuple[tuple[float, float], float, float]:
        return self._of.bounds, float(self._of.middle), float(self._of.half)

    def _weights(self, theta: Any) -> Array:
        # A public n is exact: its noise was taken out of the totals in equal parts, and the positions' mean is 0.
        moved = np.asarray(theta) if self.moments.size is None else np.zeros(np.shape(theta))
        return np.array([place - moved for place in self._of.positions])

    @property
    def _rows_per_unit(self) -> int:
        """A unit with k rows in each of g groups moves Δ₁ = gk and Δ₂² = gk², and twice both when it is replaced."""
        l1, l2 = self.sensitivity.require_l1(), self.sensitivity.require_l2()
        return max(1, round(l2**2 / l1))

    def population_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population's mean: noise and sampling together, for any population on the bounds.

        Where no second moment was released it is the worst that the bounds allow, which is exact for 0/1 rows. Ask
        with ``spread=True`` for a narrower one.
        """
        low, high = self.moments.mean_interval(level)
        return Interval(self._value(low), self._value(high), level)

    def _value(self, share: Any) -> float:
        low, high = self._of.bounds
        return min(max(low + (high - low) * float(share), low), high)

    def facts(self) -> Facts:
        """What to show, with the interval for the population after that for the noise."""
        both = self.population_interval()
        first, (_, noise), *rest = super().facts()
        both_words = f"{number(both.low)} to {number(both.high)}"
        return [first, ("noise interval, 95 %", noise), ("population interval, 95 %", both_words), *rest]


@dataclass(frozen=True)
class MeanAndVarianceInPartsRelease(MeanInPartsRelease):
    """Five noisy totals, and the moments that follow from them."""

    def _scaled(self, interval: Interval) -> Interval:
        width = 2 * float(self._of.half)
        return Interval(width**2 * float(interval.low), width**2 * float(interval.high), interval.level)

    @property
    def variance(self) -> float:
        """The variance (divisor n), at least 0 and at most what the bounds allow."""
        return (2 * float(self._of.half)) ** 2 * float(self.moments.variance)

    @property
    def standard_deviation(self) -> float:
        """Root of the variance."""
        return math.sqrt(self.variance)

    def variance_interval(self, level: float = 0.95) -> Interval:
        """Interval for the variance of the data; privacy noise only."""
        return self._scaled(replace(self.moments, rows_per_unit=0).variance_interval(level))

    def population_variance_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population's variance: noise and sampling together, from measured fourth moments."""
        return self._scaled(self.moments.variance_interval(level))

    def facts(self) -> Facts:
        """What to show, with the standard deviation after the mean."""
        shown = list(super().facts())
        return [*shown[:3], ("standard deviation", number(self.standard_deviation)), *shown[3:]]


@dataclass(frozen=True)
class VarianceInPartsRelease(MeanAndVarianceInPartsRelease):
    """The same totals, asked for the variance: both intervals are the variance's."""

    @property
    def estimate(self) -> float:
        """The variance."""
        return self.variance

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """Interval for the variance of the data; privacy noise only."""
        return self.variance_interval(level)

    def population_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population's variance: noise and sampling together, from measured fourth moments."""
        return self.population_variance_interval(level)

    def facts(self) -> Facts:
        """What to show, with the variance first."""
        return [("variance", number(self.variance)), *super().facts()[1:], ("mean", number(self.mean))]
