"""Bounded loss: the largest privacy loss of bounded Laplace noise when a change may spread over coordinates.

In one coordinate the loss e(z) of a change z is concave in z, so a change of given ℓ₁ size loses most when it is
spread: unlike for Laplace noise, the ℓ₁ sensitivity alone does not settle the guarantee of a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import NDArray

from discreet.core.guarantee import ApproxDP, Guarantee, PureDP
from discreet.core.rounding import ball, decimal, precisely, up
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.bounded.bounded_curve import BoundedCurve
from discreet.mechanisms.bounded.bounded_profile import BoundedLaplaceProfile
from discreet.mechanisms.bounded.bounded_scale import bounded_laplace_scale
from discreet.mechanisms.gaussian import is_pure

__all__ = ["Coordinate", "assigned_loss", "common_scale", "spread_loss"]


@dataclass(frozen=True)
class Coordinate:
    """One coordinate: its scale and the length of its domain, None for a half-line."""

    scale: Fraction
    width: Fraction | None

    def move(self, change: Fraction) -> tuple[Fraction, Fraction | None]:
        """A change in units of the scale, with the domain."""
        return change / self.scale, None if self.width is None else self.width / self.scale

    def loss(self, change: Fraction) -> arb:
        """The largest loss of a change; 0 for none."""
        return BoundedCurve(*self.move(change)).loss() if change > 0 else arb(0)

    def slope(self, change: Fraction) -> arb:
        """The derivative of the loss, (1 + Z′/Z)/b with Z the normaliser; 0 beyond the domain."""
        shift, width = self.move(change)
        if width is not None and shift >= width:
            return arb(0)
        away = (-ball(shift)).exp()
        back = arb(0) if width is None else ball(shift - width).exp()
        return (1 + (away - back) / (2 - away - back)) / ball(self.scale)


def spread_loss(coordinates: Sequence[Coordinate], change: Fraction) -> float:
    """An upper bound of Σ e_j(z_j) over all z ≥ 0 with Σ z_j ≤ change; equal to it up to the accuracy of the split.

    For any z the tangents give Σ e_j(y_j) ≤ Σ (e_j(z_j) − e_j′(z_j)·z_j) + change·max e_j′(z_j), as each e_j is
    concave.
    """
    with precisely():
        if len(set(coordinates)) == 1:
            return up(len(coordinates) * coordinates[0].loss(change / len(coordinates)))
        parts = _even_slopes(coordinates, change)
        slopes = [one.slope(part) for one, part in zip(coordinates, parts, strict=True)]
        total = ball(change) * max((slope.upper() for slope in slopes), key=float)
        for one, part, slope in zip(coordinates, parts, slopes, strict=True):
            total += one.loss(part) - slope * ball(part)
        return up(total)


def _even_slopes(coordinates: Sequence[Coordinate], change: Fraction) -> list[Fraction]:
    """A split of the change at which all slopes are about equal (floats; any split gives a valid bound)."""
    scales = np.array([float(one.scale) for one in coordinates])
    widths = np.array([np.inf if one.width is None else float(one.width) for one in coordinates])

    def split(level: float) -> NDArray[np.float64]:
        low, high = np.zeros_like(scales), np.minimum(widths, float(change))
        for _ in range(60):
            middle = (low + high) / 2
            away, back = np.exp(-middle / scales), np.exp((middle - widths) / scales)
            steep = (1 + (away - back) / (2 - away - back)) / scales > level
            low, high = np.where(steep, middle, low), np.where(steep, high, middle)
        return np.asarray((low + high) / 2)

    low, high = 0.0, 2 / scales.min()
    for _ in range(80):
        level = (low + high) / 2
        low, high = (level, high) if split(level).sum() > float(change) else (low, level)
    return [Fraction(float(part)) for part in split((low + high) / 2)]


def assigned_loss(coordinates: Sequence[Coordinate], moves: Sequence[Fraction]) -> float:
    """The largest Σ e_j(i)(m_i) over all ways to give the moves to different coordinates, rounded up."""
    from scipy.optimize import linear_sum_assignment

    with precisely():
        kinds = sorted(set(coordinates), key=lambda one: (one.scale, one.width or Fraction(-1)))
        table = {(one, move): up(one.loss(move)) for one in kinds for move in set(moves)}
    losses = np.array([[table[one, move] for one in coordinates] for move in moves])
    rows, columns = linear_sum_assignment(losses, maximize=True)
    # The assignment is optimal up to rounding in its own comparisons.
    total = sum((Fraction(losses[i, j]) for i, j in zip(rows, columns, strict=True)), Fraction(0))
    return up(total * (1 + Fraction(1, 2**40)))


def common_scale(guarantee: Guarantee, sensitivity: Sensitivity, widths: Sequence[Fraction | None]) -> float:
    """A single scale at which the noise of all coordinates together meets ``guarantee``.

    It is the smallest one for PureDP. In equal domains with known moves it is, for ApproxDP, the smallest by the
    convolved curve, up to 0.1 %, and for the other kinds the smallest by addition where the moves are equal. Elsewhere
    it is the scale whose bounded loss implies the guarantee.
    """
    moves = None if sensitivity.moves is None else [Fraction(move) for move in sensitivity.moves]
    same = len(set(widths)) == 1
    if moves is not None and same and not is_pure(guarantee):
        sufficient = bounded_laplace_scale(guarantee.split(len(moves))[0], max(moves), widths[0])
        if isinstance(guarantee, ApproxDP) and len(moves) > 1:
            return _convolved_scale(guarantee, moves, widths[0], sufficient)
        return sufficient
    loss = decimal(_loss_allowed(guarantee))
    change = Fraction(sensitivity.require_l1())

    def holds(scale: float) -> bool:
        coordinates = [Coordinate(Fraction(scale), width) for width in widths]
        if moves is None:
            return decimal(spread_loss(coordinates, change)) <= loss
        if same:
            with precisely():
                return bool(sum((coordinates[0].loss(move) for move in moves), arb(0)) <= ball(loss))
        return decimal(assigned_loss(coordinates, moves)) <= loss

    sufficient = 2 * float(change / loss) * (1 + 2.0**-46)  # the loss is below 2Δ/b
    return _least_scale(holds, sufficient / 4, sufficient, 2.0**-46)


def _convolved_scale(
    guarantee: ApproxDP, moves: Sequence[Fraction], width: Fraction | None, sufficient: float
) -> float:
    """A scale, at most that of basic composition, at which the convolved curve of all moves meets (ε, δ)."""

    def holds(scale: float) -> bool:
        coordinate = Coordinate(Fraction(scale), width)
        profile = BoundedLaplaceProfile([coordinate.move(move) for move in moves])
        return profile.delta_at(guarantee.epsilon) <= guarantee.delta

    alone = bounded_laplace_scale(guarantee, max(moves), width)
    return _least_scale(holds, min(alone, sufficient), sufficient, 2.0**-10)


def _least_scale(holds: Callable[[float], bool], low: float, high: float, accuracy: float) -> float:
    """A scale that holds, not above ``high``, which does, and relatively within ``accuracy`` of the smallest."""
    while high - low > accuracy * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _loss_allowed(guarantee: Guarantee) -> float:
    """The largest loss ε, up to 2⁻⁵⁰, such that ε-DP implies the guarantee."""
    if isinstance(guarantee, PureDP | ApproxDP) and getattr(guarantee, "delta", 0.0) == 0:
        return guarantee.epsilon
    low, high = getattr(guarantee, "epsilon", 0.0), 2.0**-40
    while high <= low or PureDP(high).within(guarantee):
        low, high = max(low, high), 2 * high
    while high - low > 2.0**-50 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if PureDP(middle).within(guarantee) else (low, middle)
    return low
