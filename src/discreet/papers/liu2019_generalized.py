"""liu2019 (3): the scale of generalized Gaussian noise by the paper's rule, as printed and as it must be meant."""

from __future__ import annotations

import math

from discreet.core.guarantee import ApproxDP

__all__ = ["meant_scale", "printed_scale"]


def _scale(order: int, delta: float, move: float, reach_at: float, least: float) -> float:
    """The b with Pr((|x| + Δ)^p − |x|^p − Δ^p > reach·b^p − least) = δ for one number that moves by Δ."""
    from scipy.optimize import brentq
    from scipy.special import gammaincc

    def excess(b: float) -> float:
        allowed = reach_at * b**order - least
        if allowed <= 0:
            return 1.0

        # a(y) = (y + Δ)^p − y^p − Δ^p increases in y, so the event is |x| > y.
        def over(y: float) -> float:
            return (y + move) ** order - y**order - move**order - allowed

        high = max(b, move)
        while over(high) < 0:
            high *= 2
        edge = brentq(over, 0.0, high, xtol=1e-12, rtol=1e-14)
        return float(gammaincc(1 / order, (edge / b) ** order)) / delta - 1

    low = high = move
    while excess(low) < 0:
        low /= 2
    while excess(high) > 0:
        high *= 2
    return math.exp(brentq(lambda log_b: excess(math.exp(log_b)), math.log(low), math.log(high), xtol=1e-12))


def printed_scale(guarantee: ApproxDP, move: float, order: int) -> float:
    """b by the rule as printed: Pr(Σa_j > b^p − ε·δ_p^p) < δ. Below ε = 1 it does not give (ε, δ)-DP.

    Examples
    --------
    >>> round(printed_scale(ApproxDP(1.0, 0.01), 1.0, 4), 4)
    8.9094
    """
    return _scale(order, guarantee.delta, move, 1.0, guarantee.epsilon * move**order)


def meant_scale(guarantee: ApproxDP, move: float, order: int) -> float:
    """b by the rule that bounds the loss: Pr(Σa_j > ε·b^p − δ_p^p) < δ.

    Examples
    --------
    >>> round(meant_scale(ApproxDP(0.5, 0.01), 1.0, 4), 4)
    16.7431
    """
    return _scale(order, guarantee.delta, move, guarantee.epsilon, move**order)
