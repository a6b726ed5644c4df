"""What a released sum and count tell about the mean of the data.

For the true pair (S, n) and the released one (S + Z₁, n + Z₂), the mean θ = S/n satisfies
(S + Z₁) − θ(n + Z₂) = Z₁ − θZ₂, whose law is known exactly. The interval holds every θ within the bounds that
this law does not reject (as Fieller's does for normal noise), so its coverage is exact, for small counts too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy  # whose submodules load when first used
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.contract import Mechanism
from discreet.core.interval import Interval
from discreet.inference.noise_sum import NoiseSum, excess_kurtosis, half_cell

__all__ = ["ratio_interval"]

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
    left = low if first == 0 else scipy.optimize.brentq(accepted, grid[first - 1], grid[first], xtol=1e-14)
    right = high if last == len(grid) - 1 else scipy.optimize.brentq(accepted, grid[last], grid[last + 1], xtol=1e-14)
    return Interval(centre + reach * float(left), centre + reach * float(right), level)


def _tail(mechanism: Mechanism) -> Callable[[Array, Array], Array]:
    """P(|Σ wᵢZᵢ| > t) as a function of t and the |wᵢ|, with half a grid cell of rounding each allowed for."""
    law = mechanism.law(0.0)
    cell, spread, kurtosis = half_cell(law), float(np.sqrt(np.max(law.variance))), excess_kurtosis(law)

    def tail(t: Array, weights: Array) -> Array:
        noise = NoiseSum(0.0, spread * weights, kurtosis)
        return 2 * noise.sf(np.maximum(t - cell * weights.sum(axis=0), 0.0))

    return tail
