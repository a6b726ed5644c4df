"""Bounded concentration: an upper bound of the zCDP parameter of Laplace noise conditioned on a domain.

The Rényi divergence of order a of a pair is a mixture of its hockey-stick divergences: with H its curve in one
direction and K in the other,

    exp((a−1)·R_a) = 1 + a(a−1)·∫₀^∞ (e^{(a−1)ε}·H(ε) + e^{−aε}·K(ε)) dε.

The pairs are cut into cells of positions t; on a cell, `bounded_curve` bounds H and K from above, the
integral is bounded by chords (a hockey-stick divergence is convex in e^ε), and the order runs over short intervals.
The cell with the largest bound is halved until that gains little. Details: ``docs/proofs/bounded_laplace.md``.
"""

from __future__ import annotations

import heapq
from itertools import pairwise

import numpy as np
import scipy  # whose submodules load when first used
from numpy.typing import NDArray

from discreet.mechanisms.bounded.bounded_curve import Ridge, largest_loss

__all__ = ["concentration_bound", "largest_divergence"]

Array = NDArray[np.float64]

_KNOTS = 160
_ORDERS = 300
_FIRST_CELLS = 16
_MOST_CELLS = 64
_ENOUGH = 2e-4
_WIDE = 120.0
"""A domain longer than this many scales cannot be told from a half-line."""
_SAFETY = 1 + 2.0**-40


def concentration_bound(shift: float, rest: float) -> float:
    """A ρ for which every pair at distance ``shift`` (in scales) satisfies R_a ≤ a·ρ for all orders a > 1."""
    width = min(rest, _WIDE + shift)
    total = float(largest_loss(np.asarray(shift), np.asarray(width))) * _SAFETY
    knots = total * np.linspace(0.0, 1.0, _KNOTS + 1)
    ridge = Ridge(knots, shift, width)
    edges = _positions(width)
    cells = [(-_cell_bound(ridge, low, high, knots), low, high) for low, high in pairwise(edges)]
    heapq.heapify(cells)
    last = -cells[0][0]
    for count in range(_MOST_CELLS):
        _, low, high = heapq.heappop(cells)
        middle = (low + high) / 2
        for part in ((low, middle), (middle, high)):
            heapq.heappush(cells, (-_cell_bound(ridge, *part, knots), *part))
        if count % 8 == 7:
            now = -cells[0][0]
            if last - now <= _ENOUGH * now:
                break
            last = now
    return -cells[0][0] * _SAFETY


def largest_divergence(shift: float, rest: float) -> float:
    """The largest Kullback–Leibler divergence of a pair, over a fine mesh of positions: a lower bound of ρ."""
    width = min(rest, _WIDE + shift)
    t = np.unique(np.concatenate([np.linspace(0.0, width, 401), _positions(width)]))
    left, right, decay = -np.expm1(-t), -np.expm1(t - width - shift), np.exp(-shift)
    drift = np.sign(width - 2 * t) * np.exp(-np.minimum(t, width - t)) * -np.expm1(-np.abs(width - 2 * t))
    gain = -np.expm1(-shift) * drift / (left + right)
    # The loss falls from its top by 2·min(x − t, shift) as the output x moves right.
    fallen = (scipy.special.gammainc(2.0, shift) + shift * decay * -np.expm1(t - width)) / (left + right)
    return float(np.max(shift + np.log1p(gain) - 2 * fallen))


def _positions(width: float) -> list[float]:
    """Cells that are even in the distance from the nearer end, on the scale of the noise."""
    if width == 0:
        return [0.0, 0.0]
    half = _FIRST_CELLS // 2
    near = -np.log1p(np.linspace(0.0, 1.0, half + 1) * np.expm1(-min(width, 20.0) / 2))
    near[-1] = width / 2
    return [*near.tolist(), *(width - near[-2::-1]).tolist()]


def _cell_bound(ridge: Ridge, low: float, high: float, knots: Array) -> float:
    return _largest_ratio(ridge.bound(low, high), ridge.bound(ridge.rest - high, ridge.rest - low), knots)


def _largest_ratio(forward: Array, backward: Array, knots: Array) -> float:
    """An upper bound of R_a/a over all a > 1, from upper bounds of the two curves at the knots."""
    total = knots[-1]
    # Beyond the order total/ρ the largest loss alone is enough; ρ is at least the value at a = 1.
    first = float(np.sum(_integrals(np.array([1.0]), forward, backward, knots)))
    last = max(total / first, 1.0)
    orders = 1 + (last - 1) * np.linspace(0.0, 1.0, _ORDERS + 1)
    up, down = _integrals(orders, forward, backward, knots)
    largest, smallest = up[1:] + down[:-1], up[:-1] + down[1:]
    argument = orders[:-1] * (orders[:-1] - 1) * smallest
    with np.errstate(invalid="ignore", divide="ignore"):
        damping = np.where(argument > 0, np.log1p(argument) / argument, 1.0)
    return float(max(np.max(largest * damping), first))


def _integrals(orders: Array, forward: Array, backward: Array, knots: Array) -> tuple[Array, Array]:
    """Upper bounds of the two integrals for each order: increasing and decreasing in the order."""
    step = knots[1]
    rate = (orders - 1)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_up = np.where(rate > 0, np.expm1(rate * step) / rate, step)
    mean_down = -np.expm1(-orders * step) / orders
    up = np.exp(rate * knots[:-1]) * mean_up
    down = np.exp(-orders[:, None] * knots[:-1]) * mean_down[:, None]
    # A chord in e^ε leaves at least half of the drop below it, up to the curvature of the exponentials.
    drop_up = (forward[:-1] - forward[1:]) * (np.exp(-step) / 2)
    drop_down = (backward[:-1] - backward[1:])[None, :] * np.exp(-(1 + orders) * step)[:, None] / 2
    return up @ (forward[:-1] - drop_up), np.sum(down * (backward[:-1] - drop_down), axis=1)
