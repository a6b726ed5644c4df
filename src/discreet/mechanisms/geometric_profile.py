"""The exact privacy curve of two-sided geometric noise: finitely many losses, so every number is a finite sum.

Proofs: ``docs/proofs/geometric.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any

from flint import arb, arb_poly

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import GaussianDP, PureDP, ZeroConcentratedDP
from discreet.core.rounding import ball, decimal, least, precisely, thin, up
from discreet.mechanisms.curve_profile import CurveProfile, exact_positive
from discreet.mechanisms.loss_distribution import PrivacyLoss, geometric_loss

__all__ = ["GeometricProfile"]

_MOST_LOSSES = 4096
"""A longer list of losses is replaced by two, ±T·unit, which dominate it (section 5)."""


class GeometricProfile(CurveProfile):
    """Two-sided geometric noise of one scale on every coordinate; the worst neighbour moves coordinate i by m_i.

    Parameters
    ----------
    unit
        1/b, the loss of a move by one; a fraction stays exact.
    moves
        The whole numbers m_i of the coordinates that move.

    Notes
    -----
    **Guarantee.** With T = Σ m_i the curve is exactly T·unit-DP; δ(ε), ρ and μ are finite sums, all of them tight.
    Where T is above 4,096 they are those of randomised response with ε = T·unit, an upper bound.

    Examples
    --------
    >>> count = GeometricProfile(Fraction(1), [1])
    >>> print(count.pure(), count.concentrated(), count.gaussian())
    PureDP(ε=1) ZeroConcentratedDP(ρ=0.462117) GaussianDP(μ=1.23204)
    """

    def __init__(self, unit: float | Fraction, moves: Sequence[int]) -> None:
        exact = exact_positive("unit", unit)
        sizes = sorted((requirements.positive_integer("moves", move) for move in moves), reverse=True)
        if not sizes:
            raise InvalidParameter("moves", moves, "must not be empty", "Pass one move per moved coordinate.")
        total = sum(sizes)
        self.unit, self.moves = (exact, tuple(sizes)) if total <= _MOST_LOSSES else (exact * total, (1,))
        self.total = sum(self.moves)

    @cached_property
    def _counted(self) -> list[tuple[int, int]]:
        return list(Counter(self.moves).items())

    def _masses(self) -> list[arb]:
        """P(J = j) for j = 0, …, T, where the loss is (T − 2J)·unit, at the working precision."""
        product = arb_poly([1])
        for move, times in self._counted:
            product *= arb_poly(_one_coordinate(self.unit, move)) ** times
        return [product[j] for j in range(self.total + 1)]

    def _excess(self, epsilon: Fraction) -> arb:
        """Σ P(J)·(1 − e^{ε − loss}) over the losses above ε."""
        sum_ = arb(0)
        for j, mass in enumerate(self._masses()):
            gap = epsilon - (self.total - 2 * j) * self.unit
            if gap >= 0:
                break
            sum_ -= mass * ball(gap).expm1()
        return sum_

    def _delta(self, epsilon: float) -> float:
        exact = decimal(epsilon)
        if exact >= self.total * self.unit:  # no outcome loses more, and a ball around 0 would never get thin
            return 0.0
        return min(up(thin(lambda: self._excess(exact))), 1.0)

    def _epsilon(self, delta: float) -> float:
        if delta == 0:
            return up(self.total * self.unit)
        if self._delta(0.0) <= delta:
            return 0.0
        with precisely():
            # Exact where only the largest loss exceeds ε, as it does for a single count.
            kept = 1 - ball(decimal(delta)) / self._masses()[0]
            guess = float(ball(self.total * self.unit) + kept.log()) if kept > 0 else 0.0
        return least(lambda epsilon: self._delta(epsilon) <= delta, max(guess, 1e-9))

    def pure(self) -> PureDP:
        return PureDP(up(self.total * self.unit))

    def concentrated(self) -> ZeroConcentratedDP:
        def divergence() -> arb:
            return sum((times * _mean_loss(self.unit, move) for move, times in self._counted), arb(0))

        return ZeroConcentratedDP(up(thin(divergence)))

    def gaussian(self) -> GaussianDP:
        """The tightest μ: the trade-off function is a polygon, and G_μ lies below it where it does at the corners."""
        with precisely():
            beyond = list(accumulate(reversed(self._masses()[1:])))[::-1]  # P(J > k) for k = 0, …, T − 1
            quantiles = [(2 * tail).erfcinv() * arb(2).sqrt() for tail in beyond]
            pairs = zip(quantiles, reversed(quantiles), strict=True)
            return GaussianDP(max(up(one + other) for one, other in pairs))

    def losses(self) -> list[tuple[PrivacyLoss, int]]:
        return [(geometric_loss(self.unit, move), times) for move, times in self._counted]

    def _reach(self) -> float:
        return min(float(self.total * self.unit), 700.0)

    def to_dict(self) -> dict[str, Any]:
        return {"profile": "geometric", "unit": str(self.unit), "moves": list(self.moves)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GeometricProfile) and (self.unit, self.moves) == (other.unit, other.moves)

    def __hash__(self) -> int:
        return hash((self.unit, self.moves))

    def __repr__(self) -> str:
        return f"GeometricProfile({self.unit}, {list(self.moves)})"


def _one_coordinate(unit: Fraction, move: int) -> list[arb]:
    """Probabilities of the losses (m − 2j)·unit, j = 0, …, m, of one coordinate (section 2)."""
    shrink = (-ball(unit)).exp()
    first, inner = 1 / (1 + shrink), (1 - shrink) / (1 + shrink)
    return [first, *(inner * shrink**j for j in range(1, move)), first * shrink**move]


def _mean_loss(unit: Fraction, move: int) -> arb:
    """E L, which is the tight ρ of one coordinate (section 4)."""
    masses = _one_coordinate(unit, move)
    return ball(unit) * sum(((move - 2 * j) * mass for j, mass in enumerate(masses)), arb(0))
