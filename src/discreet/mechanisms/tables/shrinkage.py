"""Shrinkage: James-Stein estimators of noisy tables, and their exact mean squared error.

Formulas and proofs: ``docs/proofs/james_stein.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy  # whose submodules load when first used
from numpy.typing import NDArray

from discreet.mechanisms.tables.helmert import trend

__all__ = ["Target", "Towards", "james_stein_risk", "shrunk", "target"]

Array = NDArray[np.float64]
Towards = Literal["zero", "mean"]

_SERIES_UP_TO = 1e8
"""Largest noncentrality whose Poisson mixture is summed; beyond it an expansion is exact to 1e-14."""


@dataclass(frozen=True)
class Target:
    """Where shrinkage goes: ``dimensions`` of the table are shrunk, ``kept`` are not, the others carry no noise."""

    towards: Towards
    rank_deficient: bool
    dimensions: int
    kept: int

    @property
    def constant(self) -> int:
        """The James-Stein constant k − 2; 0, and so no shrinkage, where two dimensions or fewer could shrink."""
        return max(self.dimensions - 2, 0)


def target(cells: int, towards: Towards, rank_deficient: bool) -> Target:
    """The dimensions that each James-Stein mechanism shrinks (lee2022, Lemma B.3)."""
    free = cells - 1 if rank_deficient else cells
    kept = 1 if towards == "mean" else 0
    return Target(towards, rank_deficient, max(free - kept, 0), min(kept, free))


def _split(table: Array, goal: Target) -> tuple[Array, Array]:
    """The part of each table that stays, and the part that shrinks."""
    if goal.towards == "zero" and not goal.rank_deficient:
        return np.zeros_like(table), table
    centre = np.broadcast_to(table.mean(axis=-1, keepdims=True), table.shape)
    rest = table - centre
    if not (goal.towards == "mean" and goal.rank_deficient) or table.shape[-1] < 2:
        return centre, rest
    direction = trend(table.shape[-1])
    # m̃ of lee2022 (10), the mean of the Helmert coordinates: U_θ·1 has squared length p − 1.
    level = (rest @ direction / (table.shape[-1] - 1))[..., None] * direction
    return centre + level, rest - level


def shrunk(table: Array, variance: float | Array, goal: Target, *, positive_part: bool = True) -> Array:
    """James-Stein estimates of the tables along the last axis from observations with this noise variance.

    Examples
    --------
    >>> goal = target(4, "zero", rank_deficient=False)
    >>> shrunk(np.array([3.0, 4.0, 0.0, 0.0]), 1.0, goal).round(2)
    array([2.76, 3.68, 0.  , 0.  ])
    """
    if goal.constant == 0:
        return table
    stays, shrinks = _split(table, goal)
    square = np.einsum("...i,...i->...", shrinks, shrinks)
    with np.errstate(divide="ignore"):
        factor = 1 - goal.constant * np.asarray(variance) / square
    if positive_part:
        factor = np.maximum(factor, 0.0)
    # A table that is exactly at its target stays there.
    factor = np.where(square > 0, factor, 0.0)
    return np.asarray(stays + factor[..., None] * shrinks)


def james_stein_risk(truth: Array, variance: float, goal: Target, *, positive_part: bool = True) -> float:
    """E‖estimate − truth‖² in closed form (lee2022, Lemma B.3; for the positive part see the proof page).

    Examples
    --------
    >>> goal = target(5, "zero", rank_deficient=False)
    >>> james_stein_risk(np.zeros(5), 1.0, goal, positive_part=False)  # 5 − 3²/3
    2.0
    """
    k, c = goal.dimensions, goal.constant
    if c == 0:
        return (k + goal.kept) * variance
    _, shrinks = _split(truth, goal)
    noncentrality = float(shrinks @ shrinks) / variance
    risk = k - c**2 * _mean_reciprocal(k, noncentrality)
    if positive_part:
        risk -= _positive_part_gain(k, noncentrality)
    return (goal.kept + risk) * variance


def _mixture(noncentrality: float, first: float, last: float) -> tuple[Array, Array]:
    """Poisson(λ/2) weights and their indices between two bounds."""
    half = noncentrality / 2
    start, stop = max(math.floor(first), 0), math.ceil(last) + 1
    index = np.arange(min(start, stop), stop, dtype=float)
    if half == 0:
        return index, (index == 0).astype(float)
    return index, np.exp(index * math.log(half) - half - scipy.special.gammaln(index + 1))


def _mean_reciprocal(k: int, noncentrality: float) -> float:
    """E[1/W] for W ~ χ²_k(λ), k ≥ 3: the mean of 1/(k − 2 + 2J) for J ~ Poisson(λ/2)."""
    if noncentrality <= _SERIES_UP_TO:
        half, spread = noncentrality / 2, 40 + 12 * math.sqrt(noncentrality / 2)
        index, weight = _mixture(noncentrality, half - spread, half + spread)
        return float(np.sum(weight / (k - 2 + 2 * index)))
    # Expansion around the mean m with the cumulants 2^{r−1}(r−1)!(k + rλ); the next term is below 1e-14.
    mean = k + noncentrality
    second, third = 2 * (k + 2 * noncentrality), 8 * (k + 3 * noncentrality)
    return (1 + second / mean**2 - third / mean**3 + 3 * second**2 / mean**4) / mean


def _positive_part_gain(k: int, noncentrality: float) -> float:
    """How much the positive part saves: E[(W − 2c + c²/W − 2λ(1 − c/W'))·1{· < c}].

    W ~ χ²_k(λ) and W' ~ χ²_{k+2}(λ), c = k − 2. Only mixture components below about c matter, so the sum is short
    for any λ.
    """
    c = k - 2
    half = noncentrality / 2
    # The chance that χ²_{k+2j} falls below k − 2 is negligible (< 1e-20) for j beyond this.
    last = 60 + 12 * math.sqrt(k)
    index, weight = _mixture(noncentrality, max(0.0, half - 40 - 12 * math.sqrt(half)), last)
    if index.size == 0:
        return 0.0
    below = {shift: scipy.special.gammainc((k + shift + 2 * index) / 2, c / 2) for shift in (-2, 0, 2)}
    df = k + 2 * index
    own = df * below[2] - 2 * c * below[0] + c**2 * below[-2] / (df - 2)
    cross = below[2] - c * below[0] / df
    return float(np.sum(weight * (own - 2 * noncentrality * cross)))
