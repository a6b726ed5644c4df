"""What a released sum and count tell about the mean of the data.

For the true pair (S, n) and the released one (S + Z₁, n + Z₂), the mean θ = S/n satisfies
(S + Z₁) − θ(n + Z₂) = Z₁ − θZ₂, whose law is known exactly. The interval holds every θ within the bounds that
this law does not reject (as Fieller's does for normal noise), so its coverage is exact, for small counts too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import erfc

from discreet import requirements
from discreet.display import Facts, number
from discreet.inference.results import Interval
from discreet.mechanisms.mechanism import Mechanism
from discreet.noise.laws import GaussianLaw
from discreet.releases import Release
from discreet.statistics.noisy_average import NoisyAverage

__all__ = ["NoisyAverageRelease", "ratio_interval"]

Array = NDArray[np.float64]
_STEPS = 2001


def laplace_pair_tail(t: ArrayLike, first: ArrayLike, second: ArrayLike) -> Array:
    """P(|X + Y| > t) for independent Laplace X and Y with scales ``first`` ≥ ``second`` ≥ 0."""
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    x = np.asarray(t, dtype=float)
    near = (a - b) / a < 1e-6
    apart = np.where(near, 1.0, a * a - b * b)
    with np.errstate(divide="ignore"):
        small = b * b * np.exp(-x / np.where(b > 0, b, 1e-300))
    return np.asarray(np.where(near, (1 + x / (2 * a)) * np.exp(-x / a), (a * a * np.exp(-x / a) - small) / apart))


def ratio_interval(
    totals: tuple[float, float],
    mechanism: Mechanism,
    bounds: tuple[float, float],
    centre: float,
    reach: float,
    level: float,
) -> Interval:
    """Interval for centre + reach·S/n from the noisy pair (S, n), whose two noises are independent and alike."""
    alpha = 1 - requirements.level(level)
    top, bottom = totals
    low, high = ((end - centre) / reach for end in bounds)
    tail = _pair_tail(mechanism)

    def accepted(theta: Any) -> Any:
        return tail(np.abs(top - theta * bottom), np.abs(theta)) - alpha

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


def _pair_tail(mechanism: Mechanism) -> Callable[[Array, Array], Array]:
    """P(|Z₁ − θZ₂| > t) as a function of t and |θ|, with half a grid cell of rounding allowed for."""
    law = mechanism.law(np.zeros(2))
    scale, cell = float(np.max(law.scale)), float(np.max(law.grid))  # type: ignore[attr-defined]

    def rest(t: Array, slope: Array) -> Array:
        return np.maximum(t - cell * (1 + slope) / 2, 0.0)

    if isinstance(law, GaussianLaw):
        return lambda t, slope: np.asarray(erfc(rest(t, slope) / (scale * np.sqrt(2 * (1 + slope**2)))))
    return lambda t, slope: laplace_pair_tail(
        rest(t, slope), scale * np.maximum(1.0, slope), scale * np.minimum(1.0, slope)
    )


@dataclass(frozen=True)
class NoisyAverageRelease(Release):
    """A released sum and count, with the mean that follows from them."""

    @property
    def _average(self) -> NoisyAverage:
        assert isinstance(self.statistic, NoisyAverage)
        return self.statistic

    @property
    def count(self) -> float:
        """The noisy number of rows."""
        return float(np.asarray(self.value)[1])

    @property
    def mean(self) -> float:
        """Noisy sum over noisy count, within the bounds; their middle where the count is below one."""
        low, high = self._average.bounds
        if self.count < 1:
            return (low + high) / 2
        slope = float(np.asarray(self.value)[0]) / self.count
        return min(max(float(self._average.centre) + float(self._average.reach) * slope, low), high)

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """Interval for the mean of the data; noise only."""
        top, bottom = (float(part) for part in np.asarray(self.value))
        average = self._average
        return ratio_interval(
            (top, bottom), self.mechanism, average.bounds, float(average.centre), float(average.reach), level
        )

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
