"""What a released sum and count tell about the mean of the data.

For the true pair (S, n) and the released one (S + Z₁, n + Z₂), the mean θ = S/n satisfies
(S + Z₁) − θ(n + Z₂) = Z₁ − θZ₂, whose law is known exactly. The interval holds every θ within the bounds that
this law does not reject (as Fieller's does for normal noise), so its coverage is exact, for small counts too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtri

from discreet.core import requirements
from discreet.core.contract import Mechanism
from discreet.core.display import Facts, number
from discreet.core.interval import Interval
from discreet.inference.noise_sum import NoiseSum, combined_error, excess_kurtosis, half_cell
from discreet.questions.noisy_average import NoisyAverage
from discreet.releases import Release

__all__ = ["NoisyAverageRelease", "ratio_interval"]

Array = NDArray[np.float64]
Weights = Callable[[Any], Array]
_STEPS = 401


def ratio_interval(
    totals: tuple[float, float],
    mechanism: Mechanism,
    bounds: tuple[float, float],
    centre: float,
    reach: float,
    level: float,
    weights: Weights,
) -> Interval:
    """Interval for centre + reach·S/n from the noisy pair (S, n).

    S − θn has the law of Σ wᵢ(θ)Zᵢ, with independent noises Zᵢ that are alike and the ``weights`` wᵢ(θ).
    """
    alpha = 1 - requirements.level(level)
    top, bottom = totals
    low, high = ((end - centre) / reach for end in bounds)
    tail = _tail(mechanism)

    def accepted(theta: Any) -> Any:
        return tail(np.abs(top - theta * bottom), np.abs(weights(theta))) - alpha

    grid = np.linspace(low, high, _STEPS)
    if bottom > 0:
        grid = np.unique(np.append(grid, np.clip(top / bottom, low, high)))
    signs = accepted(grid) >= 0
    if not signs.any():  # the noise of a tiny count can put every mean out of reach: claim nothing
        return Interval(*bounds, level)
    first, last = int(np.argmax(signs)), len(grid) - 1 - int(np.argmax(signs[::-1]))
    left = low if first == 0 else brentq(accepted, grid[first - 1], grid[first], xtol=1e-14)
    right = high if last == len(grid) - 1 else brentq(accepted, grid[last], grid[last + 1], xtol=1e-14)
    return Interval(centre + reach * float(left), centre + reach * float(right), level)


def _tail(mechanism: Mechanism) -> Callable[[Array, Array], Array]:
    """P(|Σ wᵢZᵢ| > t) as a function of t and the |wᵢ|, with half a grid cell of rounding each allowed for."""
    law = mechanism.law(0.0)
    cell, spread, kurtosis = half_cell(law), float(np.sqrt(np.max(law.variance))), excess_kurtosis(law)

    def tail(t: Array, weights: Array) -> Array:
        noise = NoiseSum(0.0, spread * weights, kurtosis)
        return 2 * noise.sf(np.maximum(t - cell * weights.sum(axis=0), 0.0))

    return tail


@dataclass(frozen=True)
class NoisyAverageRelease(Release):
    """A released sum and count, with the mean that follows from them."""

    def _totals(self) -> tuple[float, float]:
        """The noisy sum of positions and the noisy count."""
        top, bottom = (float(part) for part in np.asarray(self.value))
        return top, bottom

    def _place(self) -> tuple[tuple[float, float], float, float]:
        """Bounds, centre and reach: the mean is centre + reach·sum/count."""
        average = cast(NoisyAverage, self.statistic)
        return average.bounds, float(average.centre), float(average.reach)

    def _weights(self, theta: Any) -> Array:
        """Weights of the noises in sum − θ·count: Z₁ − θZ₂."""
        return np.array([np.ones_like(theta), -theta])

    @property
    def count(self) -> float:
        """The noisy number of rows."""
        return self._totals()[1]

    @property
    def mean(self) -> float:
        """Noisy sum over noisy count, within the bounds; their middle where the count is below one."""
        (low, high), centre, reach = self._place()
        top, bottom = self._totals()
        return min(max(centre + reach * top / bottom, low), high) if bottom >= 1 else (low + high) / 2

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """Interval for the mean of the data; noise only. It is exact: see `ratio_interval`."""
        return ratio_interval(self._totals(), self.mechanism, *self._place(), level, self._weights)

    def population_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population's mean, for any population on the bounds.

        The noise and the sampling error each get half of 1 − level; the latter is the worst that the bounds allow.
        """
        share = (1 + requirements.level(level)) / 2
        data = self.confidence_interval(share)
        low, high = self._place()[0]
        fewest = max(float(self.count) - combined_error(self.mechanism, [1.0], share), 1.0)
        reach = float(ndtri((1 + share) / 2)) * (high - low) / 2 / math.sqrt(fewest)
        return Interval(max(float(data.low) - reach, low), min(float(data.high) + reach, high), level)

    def facts(self) -> Facts:
        """What to show."""
        interval = self.confidence_interval()
        hidden = ("value", "95 % interval")
        return [
            ("mean", number(self.mean)),
            ("95 % interval", f"{number(interval.low)} to {number(interval.high)}"),
            ("rows", number(self.count)),
            *(fact for fact in super().facts() if fact[0] not in hidden),
        ]
