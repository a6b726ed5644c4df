"""Bounded profile: the privacy curve of Laplace noise conditioned on a domain, coordinate by coordinate."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.rounding import ball, decimal, least, precisely, up
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.bounded.bounded_curve import BoundedCurve, concentration_bound, divergence, worst_position
from discreet.mechanisms.bounded.bounded_scale import WEAK_MU, bounded_laplace_scale
from discreet.mechanisms.gaussian import is_pure
from discreet.mechanisms.loss_distribution import (
    Convolution,
    CurveProfile,
    PrivacyLoss,
    dominates,
    first_certified,
    knotted_loss,
    loss_knots,
)

__all__ = ["BoundedLaplaceProfile", "Coordinate", "assigned_loss", "common_scale", "spread_loss"]


class BoundedLaplaceProfile(CurveProfile):
    """Bounded Laplace noise; the worst neighbour moves coordinate i by t_i scales in a domain of w_i scales.

    Parameters
    ----------
    moves
        Pairs (t_i, w_i) as fractions; w_i is None for a half-line.
    shares
        Parts of ε, adding up to one, that the coordinates were calibrated to; tried where their δ are added.

    Notes
    -----
    **Guarantee.** For one coordinate the curve is exact: δ(ε) is the maximum over all pairs of neighbours, which for
    0 < ε < the largest loss lies inside the domain; μ is the tightest up to 1e-11 and ρ up to 0.5 %. For several
    coordinates the largest losses, the μ² and the ρ of the coordinates add; the sum of the losses is attained. δ(ε)
    is that of the coordinates' worst curves, convolved. Proofs: ``docs/proofs/bounded_laplace.md``.

    Examples
    --------
    >>> profile = BoundedLaplaceProfile([(Fraction(1), Fraction(10))])
    >>> print(profile.pure(), profile.gaussian())
    PureDP(ε=1.48985) GaussianDP(μ=1.02856)
    >>> round(profile.delta_at(1.0), 6)
    0.07293
    """

    def __init__(
        self, moves: Iterable[tuple[Fraction, Fraction | None]], shares: Sequence[Fraction] | None = None
    ) -> None:
        self.moves = tuple(moves)
        self.shares = None if shares is None else tuple(shares)

    @cached_property
    def _curves(self) -> tuple[BoundedCurve, ...]:
        return tuple(BoundedCurve(*move) for move in self.moves)

    @cached_property
    def _counts(self) -> dict[tuple[Fraction, Fraction | None], int]:
        return Counter(self.moves)

    @cached_property
    def _total(self) -> Fraction:
        return sum((curve.total for curve in self._curves), Fraction(0))

    def _delta(self, epsilon: float) -> float:
        if decimal(epsilon) >= self._total:
            return 0.0
        with precisely():
            if len(self.moves) == 1:
                return min(up(self._curves[0].delta(decimal(epsilon))), 1.0)
            # Every split of ε over the coordinates gives a valid bound, so the least of some of them is one.
            added = min(self._added(decimal(epsilon), shares) for shares in self._splits())
        # The decimal that ε prints as may lie half a unit below its binary value.
        return min(added, self._convolution.upper(math.nextafter(epsilon, 0.0)), self.pure().delta_at(epsilon))

    def losses(self) -> list[tuple[PrivacyLoss, int]]:
        """The loss of a pair that dominates all pairs of neighbours, for each coordinate."""
        found = []
        for move, count in self._counts.items():
            curve = BoundedCurve(*move)
            ratios, epsilons = loss_knots(min(float(curve.total), 700.0))
            found.append((knotted_loss(ratios, curve.bounds(epsilons)), count))
        return found

    @cached_property
    def _convolution(self) -> Convolution:
        return Convolution(self.losses())

    def _splits(self) -> list[tuple[Fraction, ...]]:
        """Ways to split ε: evenly, by the coordinates' losses, and as they were calibrated."""
        even = (Fraction(1, len(self.moves)),) * len(self.moves)
        by_loss = tuple(curve.total / self._total for curve in self._curves)
        return [even, by_loss] if self.shares is None else [even, by_loss, self.shares]

    def _added(self, epsilon: Fraction, shares: tuple[Fraction, ...]) -> float:
        """Basic composition: the δ of the coordinates at their shares of ε, added."""
        parts = Counter(zip(self.moves, shares, strict=True))
        total = arb(0)
        for (move, share), count in parts.items():
            total += count * BoundedCurve(*move).delta(epsilon * share)
        return min(up(total), 1.0)

    def _epsilon(self, delta: float) -> float:
        if delta == 0:
            return up(self._total)
        if self._delta(0.0) <= delta:
            return 0.0
        if len(self.moves) > 1:
            return self._bisected(delta, min(self.pure().epsilon_at(delta), float(self._total)))
        return least(lambda epsilon: self._delta(epsilon) <= delta, self._epsilon_guess(delta))

    def _bisected(self, delta: float, high: float) -> float:
        """An ε with δ(ε) ≤ δ, within 2⁻³⁰ of the smallest."""
        low = 0.0
        while high - low > 2.0**-30 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self._delta(middle) <= delta else (middle, high)
        return high

    def _epsilon_guess(self, delta: float) -> float:
        from scipy.optimize import brentq

        curve = self._curves[0]
        shift = np.asarray(float(curve.shift))
        rest = np.asarray(math.inf if curve.rest is None else float(curve.rest))

        def gap(epsilon: float) -> float:
            at = np.asarray(epsilon)
            return math.sqrt(float(divergence(at, worst_position(at, shift, rest), shift, rest))) - math.sqrt(delta)

        top = float(self._total)
        return float(brentq(gap, 0.0, top, xtol=1e-300, rtol=1e-14)) if gap(0.0) > 0 > gap(top) else top

    @cached_property
    def _mu(self) -> float:
        with precisely():
            square = Fraction(0)
            for move, count in self._counts.items():
                square += count * decimal(_tightest_mu(BoundedCurve(*move))) ** 2
            if len(self.moves) == 1:
                return _tightest_mu(self._curves[0])
            return least(lambda mu: decimal(mu) ** 2 >= square, math.sqrt(square))

    def gaussian(self) -> GaussianDP:
        return GaussianDP(self._mu)

    def pure(self) -> PureDP:
        return PureDP(up(self._total))

    @cached_property
    def _rho(self) -> float:
        total = Fraction(0)
        for (shift, width), count in self._counts.items():
            reach = shift if width is None else min(shift, width)
            rest = math.inf if width is None else float(width - reach)
            total += count * Fraction(concentration_bound(float(reach), rest))
        return up(total)

    def concentrated(self) -> ZeroConcentratedDP:
        return ZeroConcentratedDP(self._rho)

    def _reach(self) -> float:
        return min(float(self._total), 700.0)

    def to_dict(self) -> dict[str, Any]:
        return {
            "profile": "bounded_laplace",
            "moves": [[str(shift), None if width is None else str(width)] for shift, width in self.moves],
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundedLaplaceProfile) and self.moves == other.moves

    def __hash__(self) -> int:
        return hash(self.moves)

    def __repr__(self) -> str:
        return f"BoundedLaplaceProfile({list(self.moves)!r})"

    def __str__(self) -> str:
        shift, width = self.moves[0]
        domain = "a half-line" if width is None else f"a domain of {float(width):.6g} scales"
        more = f" and {len(self.moves) - 1} more" if len(self.moves) > 1 else ""
        return f"bounded Laplace noise, shifted by {float(shift):.6g} scales in {domain}{more}"


def _tightest_mu(curve: BoundedCurve) -> float:
    """The smallest μ whose Gaussian curve covers this one: the two touch at ε = 0; certified everywhere."""
    guess = 2 * math.sqrt(2) * float(curve.overlap().erfcinv())
    if not guess <= WEAK_MU:
        return PureDP(up(curve.total)).to(GaussianDP).mu
    return first_certified(guess * (1 + 2.0**-38), lambda mu: dominates(ball(decimal(mu)), curve))


# ---- Bounded loss: the largest privacy loss of bounded Laplace noise when a change may spread over coordinates
#
# In one coordinate the loss e(z) of a change z is concave in z, so a change of given ℓ₁ size loses most when it is
# spread: unlike for Laplace noise, the ℓ₁ sensitivity alone does not settle the guarantee of a vector.


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
