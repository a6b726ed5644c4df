"""Conversion: the (ε, δ) pairs that each kind of guarantee implies, in numbers that are never rounded down.

Formulas and their proofs: ``docs/proofs/guarantees.md``.
"""

from __future__ import annotations

import math

from flint import arb

from discreet.core.curves import gaussian_delta, gaussian_epsilon, order_root, order_slack
from discreet.core.rounding import ball, decimal, least, normal_cdf, precisely, thin, up

__all__ = [
    "concentrated_delta",
    "concentrated_epsilon",
    "normal_delta",
    "normal_epsilon",
    "response_delta",
    "response_epsilon",
    "tightest_mu",
]


def response_delta(stated_epsilon: float, stated_delta: float, epsilon: float) -> float:
    """δ at ε of the worst pair that a stated (ε, δ) allows: randomised response that fails (kairouz2015)."""
    if epsilon >= stated_epsilon:
        return stated_delta
    with precisely():
        top, wanted = ball(decimal(stated_epsilon)).exp(), ball(decimal(epsilon)).exp()
        own = ball(decimal(stated_delta))
        return min(up(own + (1 - own) * (top - wanted) / (1 + top)), 1.0)


def response_epsilon(stated_epsilon: float, stated_delta: float, delta: float) -> float:
    """ε at δ of the same pair; infinity where δ is below the stated one."""
    if delta < stated_delta:
        return math.inf
    with precisely():
        top, own = ball(decimal(stated_epsilon)).exp(), ball(decimal(stated_delta))
        inner = top - (ball(decimal(delta)) - own) / (1 - own) * (1 + top)
        return 0.0 if inner <= 1 else max(0.0, min(up(inner.log()), stated_epsilon))


def tightest_mu(epsilon: arb) -> float:
    """The smallest μ that ε-DP implies: both trade-off curves pass through α = 1/(1 + e^ε) (lee2022 (12) inverted)."""
    target = 1 / (1 + epsilon.exp())
    guess = float((2 * target).erfcinv() * arb(8).sqrt())
    return least(lambda mu: bool(normal_cdf(-ball(decimal(mu)) / 2) <= target), guess)


def concentrated_delta(rho: float, epsilon: float) -> float:
    """δ at ε that ρ-zCDP implies (canonne2020), at the best order a = 1 + s."""
    if rho == 0:
        return 0.0
    # The exponent is convex in s = a − 1, and least where ρ(1 + 2s) = ε + log(1 + 1/s).
    s = order_root(lambda t: rho * (1 + 2 * math.exp(t)) - epsilon - math.log1p(math.exp(-t)))
    with precisely():
        order, exact = ball(s), ball(decimal(rho))
        return min(up((order * ((1 + order) * exact - ball(decimal(epsilon))) + order_slack(order)).exp()), 1.0)


def concentrated_epsilon(rho: float, delta: float) -> float:
    """ε at δ that ρ-zCDP implies."""
    if rho == 0:
        return 0.0
    if delta == 0:
        return math.inf
    # The bound on ε is least where ρs² + log(1 + s) = log 1/δ.
    s = order_root(lambda t: rho * math.exp(2 * t) + math.log1p(math.exp(t)) + math.log(delta))
    with precisely():
        order, exact = ball(s), ball(decimal(rho))
        return max(0.0, up((1 + order) * exact + (order_slack(order) - ball(decimal(delta)).log()) / order))


def normal_delta(mu: float, epsilon: float) -> float:
    """δ at ε of N(0, 1) against N(μ, 1)."""
    if mu == 0:
        return 0.0
    if epsilon > 1e6 * max(1.0, mu) ** 2:
        return math.ulp(0.0)  # δ ≤ Φ(μ/2 − ε/μ) is far below the smallest float
    return min(up(thin(lambda: gaussian_delta(ball(decimal(mu)), decimal(epsilon)))), 1.0)


def normal_epsilon(mu: float, delta: float) -> float:
    """ε at δ of the same pair."""
    if mu == 0 or normal_delta(mu, 0.0) <= delta:
        return 0.0
    if delta == 0:
        return math.inf
    return least(lambda epsilon: normal_delta(mu, epsilon) <= delta, gaussian_epsilon(mu, delta))
