"""Curves: closed forms behind the guarantees, in ball arithmetic, and the starting points of certified searches.

Formulas and their proofs: ``docs/proofs/guarantees.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from flint import arb

from discreet.core.rounding import ball, decimal, least, normal_cdf

__all__ = ["gaussian_delta", "gaussian_epsilon", "order_root", "order_slack", "tightest_mu"]


def order_slack(s: arb) -> arb:
    """log of (1 − 1/a)^a / (a − 1) with a = 1 + s (canonne2020, Corollary 13)."""
    return -s * (1 / s).log1p() - s.log1p()


def order_root(increasing: Callable[[float], float]) -> float:
    """The s = e^t at which an increasing function of t vanishes. Any s is valid, so it needs no certificate."""
    from scipy.optimize import brentq

    low, high = -300.0, 350.0
    if increasing(low) >= 0:
        return math.exp(low)
    return math.exp(float(brentq(increasing, low, high, xtol=1e-14))) if increasing(high) > 0 else math.exp(high)


def gaussian_delta(mu: arb, epsilon: Fraction) -> arb:
    """δ of N(0, 1) against N(μ, 1) at ε (balle2018, Theorem 8; dong2022, Corollary 2.13)."""
    e = ball(epsilon)
    return normal_cdf(mu / 2 - e / mu) - e.exp() * normal_cdf(-mu / 2 - e / mu)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """A float solution of δ_μ(ε) = δ; only a starting point for the certified search."""
    from scipy.optimize import brentq
    from scipy.special import log_ndtr

    def excess(u: float) -> float:  # u = ε/μ keeps tiny μ in range
        first, second = float(log_ndtr(mu / 2 - u)), mu * u + float(log_ndtr(-mu / 2 - u))
        return first + math.log(max(-math.expm1(min(second - first, 0.0)), 1e-300)) - math.log(delta)

    high = 1.0
    while excess(high) > 0:
        high *= 2
    return mu * float(brentq(excess, 0.0, high, xtol=1e-14, rtol=1e-14)) if excess(0.0) > 0 else mu


def tightest_mu(epsilon: arb) -> float:
    """The smallest μ that ε-DP implies: both trade-off curves pass through α = 1/(1 + e^ε) (lee2022 (12) inverted)."""
    target = 1 / (1 + epsilon.exp())
    guess = float((2 * target).erfcinv() * arb(8).sqrt())
    return least(lambda mu: bool(normal_cdf(-ball(decimal(mu)) / 2) <= target), guess)
