"""Bounded profile: the privacy curve of Laplace noise conditioned on a domain, coordinate by coordinate."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb

from discreet.core.guarantee import GaussianDP, PureDP, ZeroConcentratedDP
from discreet.core.rounding import ball, decimal, least, precisely, up
from discreet.mechanisms.bounded.bounded_concentration import concentration_bound
from discreet.mechanisms.bounded.bounded_curve import BoundedCurve, divergence, worst_position
from discreet.mechanisms.bounded.bounded_scale import WEAK_MU
from discreet.mechanisms.curve_profile import CurveProfile
from discreet.mechanisms.envelope import dominates, first_certified
from discreet.mechanisms.loss_distribution import Convolution, PrivacyLoss, knotted_loss, loss_knots

__all__ = ["BoundedLaplaceProfile"]


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
