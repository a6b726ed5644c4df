"""The ε of outlier-score suppression: miranda2026, Theorem 5.4, in a form that is concave and so easy to certify.

With w = M − m, κ = 1 − m, μ = 1 − M, E = e^ε and s the mean excess distance of the neighbour's record, the two
families of the theorem are (l₁ at p = s/w, l₂ at p = 2 − w/s)

    l₁(s) = ln(E − (E − 1)(m + s)) + s/m + (1 − s/w)·s/(κ − s)            0 ≤ s ≤ w
    l₂(s) = ln(E − (E − 1)(m + s)) + (w − s)/μ + 2w/m − w²/(m·s)        w/2 ≤ s ≤ w

Both are concave in s, so a tangent at any point bounds the maximum: no search needs to be trusted. The reverse
direction adds three closed forms. ``docs/proofs/amplification.md`` has the derivation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from discreet.core.rounding import ball, decimal, precisely, up

__all__ = ["outlier_epsilon", "outlier_epsilon_up"]

Array = NDArray[np.float64]
Concave = Callable[[arb], tuple[arb, arb]]


def _log_slope(e: Array, m: Array, s: Array) -> Array:
    """Derivative of ln(E − (E − 1)(m + s)), without overflow for large ε."""
    shrink = np.exp(-e)
    return -(1 - shrink) / (1 - (1 - shrink) * (m + s))


def _slope_one(e: Array, m: Array, M: Array, s: Array) -> Array:
    w, k = M - m, 1 - m
    return _log_slope(e, m, s) + 1 / m + ((1 - 2 * s / w) * (k - s) + (1 - s / w) * s) / (k - s) ** 2


def _slope_two(e: Array, m: Array, M: Array, s: Array) -> Array:
    w = M - m
    return _log_slope(e, m, s) - 1 / (1 - M) + w**2 / (m * s**2)


def _stationary(slope: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Where a decreasing slope changes sign, clipped to [low, high]."""
    left, right = low.copy(), high.copy()
    for _ in range(60):
        middle = (left + right) / 2
        rising = slope(middle) > 0
        left, right = np.where(rising, middle, left), np.where(rising, right, middle)
    return np.where(slope(low) <= 0, low, np.where(slope(high) >= 0, high, (left + right) / 2))


def _peaks(e: Array, m: Array, M: Array) -> tuple[Array, Array]:
    """Maximisers of l₁ and l₂."""
    w = M - m
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        one = _stationary(lambda s: _slope_one(e, m, M, s), np.zeros_like(w), w)
        two = _stationary(lambda s: _slope_two(e, m, M, s), w / 2, w)
    return one, two


def outlier_epsilon(epsilon: ArrayLike, m: ArrayLike, M: ArrayLike) -> float | Array:
    """ε^S(ε, m, M) in floating point, element by element, for plots and plans.

    Examples
    --------
    >>> outlier_epsilon(1.0, [0.1, 0.4], [0.3, 0.5]).round(6).tolist()
    [2.789728, 0.871989]
    """
    e, low, high = np.broadcast_arrays(*(np.asarray(value, dtype=float) for value in (epsilon, m, M)))
    w, k, mu = high - low, 1 - low, 1 - high
    s, t = _peaks(e, low, high)
    apart = w > 0
    safe = np.where(apart, w, 1.0)
    shrink = np.exp(-e)

    def keep(a: Array) -> Array:
        return np.asarray(e + np.log1p(-(1 - shrink) * a))

    def lose(a: Array) -> Array:
        return np.asarray(-np.log(shrink + (1 - shrink) * a))

    one = keep(low + s) + s / low + (1 - s / safe) * s / (k - s)
    two = keep(low + t) + (w - t) / mu + 2 * w / low - np.where(apart, w**2 / (low * np.where(apart, t, 1.0)), 0.0)
    b = w / k
    back = np.maximum.reduce([lose(high) + b, lose(low) + w / high, lose((low + high) / 2) + b * (1 + b) / 2])
    values = np.where(apart, np.maximum.reduce([one, two, back]), keep(low))
    return float(values) if values.ndim == 0 else values


def outlier_epsilon_up(epsilon: float, m: float, M: float) -> float:
    """ε^S(ε, m, M), never rounded down."""
    peaks = [float(peak) for peak in _peaks(*(np.asarray(float(value)) for value in (epsilon, m, M)))]
    with precisely():
        e, low, high = (ball(decimal(value)) for value in (epsilon, m, M))
        E = e.exp()
        if decimal(m) == decimal(M):
            return max(0.0, up((E - (E - 1) * low).log()))
        w, k, mu = high - low, 1 - low, 1 - high
        bounds = [
            _tangent(_one(E, low, w, k), peaks[0], arb(0), w),
            _tangent(_two(E, low, w, mu), peaks[1], w / 2, w),
            *_reverse(E, low, high, w, k),
        ]
        return max(up(bound) for bound in bounds)


def _one(E: arb, m: arb, w: arb, k: arb) -> Concave:
    """l₁ and its derivative."""

    def value(s: arb) -> tuple[arb, arb]:
        inner = E - (E - 1) * (m + s)
        height = inner.log() + s / m + (1 - s / w) * s / (k - s)
        slope = -(E - 1) / inner + 1 / m + ((1 - 2 * s / w) * (k - s) + (1 - s / w) * s) / (k - s) ** 2
        return height, slope

    return value


def _two(E: arb, m: arb, w: arb, mu: arb) -> Concave:
    """l₂ and its derivative."""

    def value(s: arb) -> tuple[arb, arb]:
        inner = E - (E - 1) * (m + s)
        height = inner.log() + (w - s) / mu + 2 * w / m - w**2 / (m * s)
        return height, -(E - 1) / inner - 1 / mu + w**2 / (m * s**2)

    return value


def _tangent(value: Concave, peak: float, low: arb, high: arb) -> arb:
    """Upper bound of a concave function on [low, high] by its tangent at (about) ``peak``."""
    at = ball(peak)
    at = low if not at > low else high if not at < high else at
    height, slope = value(at)
    return height + (slope * (high - at)).max(slope * (low - at)).max(arb(0))


def _reverse(E: arb, m: arb, M: arb, w: arb, k: arb) -> list[arb]:
    """Bounds for the direction in which the record is absent first: l₃, its twin at m, and one for small data."""
    b = w / k

    def lose(a: arb) -> arb:
        return -(1 / E + (1 - 1 / E) * a).log()

    return [lose(M) + b, lose(m) + w / M, lose((m + M) / 2) + b * (1 + b) / 2]
