"""What a released sum and count tell about the mean of the data.

For the true pair (S, n) and the released one (S + Z₁, n + Z₂), the mean θ = S/n satisfies
(S + Z₁) − θ(n + Z₂) = Z₁ − θZ₂, whose law is known exactly. The interval holds every θ within the bounds that
this law does not reject (as Fieller's does for normal noise), so its coverage is exact, for small counts too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.contract.mechanism import Mechanism
from discreet.core import requirements
from discreet.core.noise.truth import plain
from discreet.inference.noise_sum import NoiseSum, excess_kurtosis, half_cell
from discreet.interval import Interval

__all__ = ["ratio_interval"]

Array = NDArray[np.float64]
Weights = Callable[[Any], Array]
_STEPS = 401
_FINER = 33
_ROUNDS = 6
"""33 points in each of 6 rounds place an end within 10⁻⁹ of a grid step."""


def ratio_interval(
    totals: tuple[Any, Any],
    mechanism: Mechanism,
    bounds: tuple[float, float],
    centre: float,
    reach: float,
    level: float,
    weights: Weights,
) -> Interval:
    """Interval for centre + reach·S/n from the noisy pair (S, n), or from many pairs at once.

    S − θn has the law of Σ wᵢ(θ)Zᵢ, with independent noises Zᵢ that are alike and the ``weights`` wᵢ(θ).
    """
    alpha = 1 - requirements.level(level)
    top, bottom = np.broadcast_arrays(*(np.asarray(total, dtype=float) for total in totals))
    low, high = ((end - centre) / reach for end in bounds)
    tail = _tail(mechanism)

    def accepted(theta: Array) -> NDArray[np.bool_]:
        return np.asarray(tail(np.abs(top - theta * bottom), np.abs(weights(theta))) >= alpha)

    # The estimate itself is one of the points: an interval may be narrower than the grid.
    best = np.clip(np.divide(top, bottom, out=np.full(top.shape, low), where=bottom > 0), low, high)
    steps = np.linspace(low, high, _STEPS).reshape(-1, *[1] * top.ndim)
    grid = np.sort(np.concatenate([np.broadcast_to(steps, (_STEPS, *top.shape)), best[None]]), axis=0)
    held = accepted(grid)
    first, last = np.argmax(held, axis=0), len(grid) - 1 - np.argmax(held[::-1], axis=0)
    inner, outer = (
        np.array([np.take_along_axis(grid, np.clip(place, 0, len(grid) - 1)[None], axis=0)[0] for place in pair])
        for pair in ((first, last), (first - 1, last + 1))
    )
    shares = np.linspace(0.0, 1.0, _FINER).reshape(-1, *[1] * inner.ndim)
    for _ in range(_ROUNDS):
        points = inner + shares * (outer - inner)
        # The last point that is still accepted, and the next one, which is not (or is the end of the bounds).
        place = np.maximum(np.argmin(accepted(points), axis=0), 1)
        inner, outer = (np.take_along_axis(points, one[None], axis=0)[0] for one in (place - 1, place))
    # The noise of a tiny count can put every mean out of reach: claim nothing.
    ends = [np.where(held.any(axis=0), centre + reach * outer[k], bounds[k]) for k in (0, 1)]
    return Interval(plain(np.maximum(ends[0], bounds[0])), plain(np.minimum(ends[1], bounds[1])), level)


def _tail(mechanism: Mechanism) -> Callable[[Array, Array], Array]:
    """P(|Σ wᵢZᵢ| > t) as a function of t and the |wᵢ|, with half a grid cell of rounding each allowed for."""
    law = mechanism.law(0.0)
    cell, spread, kurtosis = half_cell(law), float(np.sqrt(np.max(law.variance))), excess_kurtosis(law)

    def tail(t: Array, weights: Array) -> Array:
        noise = NoiseSum(0.0, spread * weights, kurtosis)
        return 2 * noise.sf(np.maximum(t - cell * weights.sum(axis=0), 0.0))

    return tail
