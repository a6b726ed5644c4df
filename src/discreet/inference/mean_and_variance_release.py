"""Released mean and variance, with intervals for noise alone and for noise and sampling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from discreet.core import requirements
from discreet.core.display import Facts, number
from discreet.core.interval import Interval
from discreet.core.protection import Neighbours
from discreet.inference.noisy_average_release import ratio_interval
from discreet.questions.private_size import PrivateSizeColumn
from discreet.releases import Release

__all__ = ["MeanAndVarianceRelease"]


@dataclass(frozen=True)
class MeanAndVarianceRelease(Release):
    """Three noisy totals, and the moments that follow from them."""

    @property
    def _of(self) -> PrivateSizeColumn:
        return cast(PrivateSizeColumn, self.statistic)

    def _totals(self) -> tuple[float, float, float]:
        first, second, rows = (float(part) for part in np.asarray(self.value))
        return first, second, rows

    @property
    def count(self) -> float:
        """The noisy number of rows (or units)."""
        return self._totals()[2]

    @property
    def mean(self) -> float:
        """The mean, inside the bounds; their middle where the count is below one."""
        first, _, rows = self._totals()
        return self._value(first / max(rows, 1.0) if rows >= 1 else 0.0)

    @property
    def variance(self) -> float:
        """The variance (divisor n), at least 0 and at most what the bounds allow."""
        first, second, rows = self._totals()
        shape = second / max(rows, 1.0) - (first / max(rows, 1.0)) ** 2
        return float(self._of.half) ** 2 * min(max(shape, 0.0), 1.0)

    @property
    def standard_deviation(self) -> float:
        """Root of the variance."""
        return math.sqrt(self.variance)

    def _value(self, position: float) -> float:
        return float(self._of.middle) + float(self._of.half) * min(max(position, -1.0), 1.0)

    def _ends(self, level: float) -> tuple[list[float], list[float]]:
        """Intervals of the three totals that hold together at ``level`` (Bonferroni)."""
        low, high = self.mechanism.confidence_interval(np.asarray(self.value, dtype=float), (2 + level) / 3)
        return [float(end) for end in np.asarray(low)], [float(end) for end in np.asarray(high)]

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """Interval for the mean of the data; privacy noise only. It is exact: see `ratio_interval`."""
        first, _, rows = self._totals()
        of = self._of
        place = of.bounds, float(of.middle), float(of.half)
        return ratio_interval((first, rows), self.mechanism, *place, level, self._weights)

    def _weights(self, theta: Any) -> NDArray[np.float64]:
        """Weights of the noises in Σz − θn."""
        return np.array([np.ones_like(theta), -theta])

    def variance_interval(self, level: float = 0.95) -> Interval:
        """Interval for the variance of the data; privacy noise only."""
        checked = requirements.level(level)
        low, high = self._ends(checked)
        rows = [max(low[2], 1.0), max(high[2], 1.0)]
        seconds = [max(total, 0.0) / count for total in (low[1], high[1]) for count in rows]
        firsts = [total / count for total in (low[0], high[0]) for count in rows]
        least = 0.0 if min(firsts) <= 0 <= max(firsts) else min(x * x for x in firsts)
        most = max(x * x for x in firsts)
        scale = float(self._of.half) ** 2
        return Interval(
            scale * min(max(min(seconds) - most, 0.0), 1.0), scale * min(max(max(seconds) - least, 0.0), 1.0), checked
        )

    def population_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population's mean: noise and sampling error (normal, for independent units) together.

        The noise in the mean, the sampling error and the variance that the latter is taken from each get a third of
        1 − level; the variance is taken at the upper end of its own interval.
        """
        share = (2 + requirements.level(level)) / 3
        noise = self.confidence_interval(share)
        reach = float(ndtri((1 + share) / 2)) * self.sampling_error(share)
        low, high = self._of.bounds
        return Interval(max(float(noise.low) - reach, low), min(float(noise.high) + reach, high), level)

    def sampling_error(self, level: float = 0.95) -> float:
        """Standard error of the mean from sampling alone, at the cautious end of what noise leaves open.

        Units are independent, the k rows of one of them need not be: by Cauchy and Schwarz, the squared deviation of
        their sum is at most k times the sum of theirs.
        """
        fewest = max(self._ends(level)[0][2], 1.0)
        return math.sqrt(self._rows_per_unit * float(self.variance_interval(level).high) / fewest)

    @property
    def _rows_per_unit(self) -> int:
        """A unit with k rows in a group moves each of its m totals by at most k: Δ₁ = mk and Δ₂² = mk²."""
        l1, l2 = self.sensitivity.require_l1(), self.sensitivity.require_l2()
        return max(1, round(l2**2 / l1 / (2 if self.neighbours is Neighbours.REPLACE_ONE else 1)))

    def facts(self) -> Facts:
        """What to show."""
        noise, both = self.confidence_interval(), self.population_interval()
        return [
            ("mean", number(self.mean)),
            ("95 % interval, noise", f"{number(noise.low)} to {number(noise.high)}"),
            ("95 % interval, noise and sampling", f"{number(both.low)} to {number(both.high)}"),
            ("standard deviation", number(self.standard_deviation)),
            ("rows", number(self.count)),
            *(fact for fact in super().facts() if fact[0] not in ("value", "95 % interval")),
        ]
