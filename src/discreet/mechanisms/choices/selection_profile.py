"""The profile of mechanisms of bounded range, such as the exponential mechanism."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

from flint import arb

from discreet.core.guarantee import GaussianDP, PureDP, ZeroConcentratedDP
from discreet.core.rounding import ball, decimal, precisely, up
from discreet.mechanisms.curve_profile import CurveProfile
from discreet.mechanisms.loss_distribution import PrivacyLoss, curve_loss

__all__ = ["RangeProfile"]


class RangeProfile(CurveProfile):
    """η-bounded range: between neighbours all log-probabilities change by amounts within an interval of length η.

    Parameters
    ----------
    span
        η, exact.

    Notes
    -----
    **Guarantee.** η-DP, η²/8-zCDP, μ-GDP for Φ(μ/2) = 1/(1 + e^{−η/2}), and δ(ε) = (1 − e^{(ε−η)/2})²/(1 − e^{−η});
    each is the smallest that holds for all η-bounded-range mechanisms, but for zCDP (``docs/proofs/selection.md``).

    Examples
    --------
    >>> profile = RangeProfile(Fraction(1))
    >>> print(profile.pure(), profile.concentrated(), profile.gaussian())
    PureDP(ε=1) ZeroConcentratedDP(ρ=0.125) GaussianDP(μ=0.623893)
    """

    def __init__(self, span: Fraction) -> None:
        self.span = span

    def _delta(self, epsilon: float) -> float:
        gap = decimal(epsilon) - self.span
        if gap >= 0:
            return 0.0
        with precisely():
            return min(up((ball(gap) / 2).expm1() ** 2 / -(-ball(self.span)).expm1()), 1.0)

    def _epsilon(self, delta: float) -> float:
        if self._delta(0.0) <= delta:
            return 0.0
        with precisely():
            root: arb = (ball(decimal(delta)) * -(-ball(self.span)).expm1()).sqrt()
            return max(0.0, up(ball(self.span) + 2 * (1 - root).log()))

    def gaussian(self) -> GaussianDP:
        return PureDP(up(self.span / 2)).to(GaussianDP)

    def pure(self) -> PureDP:
        return PureDP(up(self.span))

    def concentrated(self) -> ZeroConcentratedDP:
        return ZeroConcentratedDP(up(self.span**2 / 8))

    def losses(self) -> list[tuple[PrivacyLoss, int]]:
        return [(_range_loss(self.span), 1)]

    def _reach(self) -> float:
        return min(float(self.span), 700.0)

    def to_dict(self) -> dict[str, Any]:
        return {"profile": "range", "span": str(self.span)}


@lru_cache(maxsize=64)  # the steps of one release share η, and the door asks for each of them more than once
def _range_loss(span: Fraction) -> PrivacyLoss:
    profile = RangeProfile(span)
    return curve_loss(profile._delta, profile._reach())
