"""Ratio: a mean from a noisy sum over a noisy count, where the number of rows is private too."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from discreet.core import requirements
from discreet.core.interval import Interval
from discreet.releases import Release

if TYPE_CHECKING:
    from discreet.questions.sum import SumAndCount

__all__ = ["SumAndCountRelease"]


@dataclass(frozen=True)
class SumAndCountRelease(Release):
    """A noisy centred sum and a noisy count, and the mean that follows from them."""

    def _of(self) -> SumAndCount:
        return self.statistic  # type: ignore[return-value]

    @property
    def count(self) -> float:
        """The noisy number of rows."""
        return float(np.asarray(self.value)[1])

    @property
    def mean(self) -> float:
        """Noisy sum over noisy count, inside the bounds; the middle of the bounds where the count is below 1."""
        low, high = self._of().bounds
        half = (high - low) / 2
        ratio = float(np.asarray(self.value)[0]) / max(self.count, 1.0)
        return min(max(float(self._of().middle) + half * ratio, low), high)

    def mean_interval(self, level: float = 0.95) -> Interval:
        """Interval for the data's mean, from the joint law of the two noises.

        Every pair inside the rectangle of two intervals of level (1 + level)/2 is possible at least at ``level``
        (Bonferroni); the mean's extremes over it lie at its corners, because a ratio is monotone in each part.
        """
        checked = requirements.level(level)
        sums, counts = zip(*self.confidence_interval((1 + checked) / 2), strict=True)
        low, high = self._of().bounds
        half, middle = (high - low) / 2, float(self._of().middle)
        rows = [max(float(end), 1.0) for end in counts]
        ratios = [float(total) / number for total in sums for number in rows]
        ends = [min(max(middle + half * ratio, low), high) for ratio in (min(ratios), max(ratios))]
        return Interval(ends[0], ends[1], checked)

    def population_interval(self, level: float = 0.95, *, variance: float | None = None) -> Interval:
        """Interval for the population's mean; the largest possible variance is assumed where none is given.

        The data's mean and the sampling error each get half of 1 − level.
        """
        checked = requirements.level(level)
        share = (1 + checked) / 2
        data = self.mean_interval(share)
        low, high = self._of().bounds
        largest = (high - low) ** 2 / 4
        spread = largest if variance is None else min(requirements.positive("variance", variance), largest)
        fewest = max(float(np.asarray(self.confidence_interval(share).low)[1]), 1.0)
        from scipy.special import ndtri

        reach = float(ndtri((1 + share) / 2)) * math.sqrt(spread / fewest)
        return Interval(max(float(data.low) - reach, low), min(float(data.high) + reach, high), checked)
