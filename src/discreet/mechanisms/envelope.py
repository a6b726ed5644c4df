"""Envelopes: certified proofs that one privacy curve lies above another everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

import numpy as np
from flint import arb

from discreet.core.curves import gaussian_delta
from discreet.core.rounding import ball, normal_cdf, precisely

__all__ = ["BallCurve", "dominates", "first_certified", "gaussian_parameter", "supremum"]

_MOST_CELLS = 5000
_BITS = 192


class BallCurve(Protocol):
    """δ(ε) of a symmetric set of pairs, in ball arithmetic; convex in e^ε, and 0 from ``total`` on."""

    @property
    def total(self) -> Fraction:
        """The largest privacy loss."""

    def delta(self, epsilon: Fraction) -> arb:
        """δ at one ε ≥ 0."""


def dominates(mu: arb, curve: BallCurve) -> bool:
    """Whether δ_μ(ε) ≥ δ(ε) is proved for every ε, so that the mechanism behind ``curve`` is μ-GDP.

    Both curves are convex in x = e^ε. On a cell [x₀, x₁] the Gaussian one lies above its tangent at the
    middle and the other below its chord, so two comparisons at the ends settle the whole cell; a cell that
    they do not settle is halved. Symmetric pairs need ε ≥ 0 only, and δ(ε) = 0 beyond the curve's total.
    """
    # A comparison of balls is true only when it is certain: a doubt halves a cell and never passes it.
    with precisely(_BITS):
        known: dict[Fraction, arb] = {}
        cells = [(Fraction(0), curve.total)]
        for _ in range(_MOST_CELLS):
            if not cells:
                return True
            low, high = cells.pop()
            for end in (low, high):
                if end not in known:
                    known[end] = curve.delta(end)
                    if gaussian_delta(mu, end) < known[end]:
                        return False
            if not _settled(mu, low, high, known):
                middle = (low + high) / 2
                cells += [(low, middle), (middle, high)]
        return False


def _settled(mu: arb, low: Fraction, high: Fraction, known: dict[Fraction, arb]) -> bool:
    centre = (low + high) / 2
    # dδ_μ/dx = −Φ(−μ/2 − ε/μ): the terms that contain the density cancel.
    height, slope = gaussian_delta(mu, centre), -normal_cdf(-mu / 2 - ball(centre) / mu)
    at = ball(centre).exp()
    return all(bool(height + slope * (ball(end).exp() - at) >= known[end]) for end in (low, high))


def supremum(function: Callable[[float], float], low: float, high: float) -> float:
    """The largest value of a function that is smooth between few kinks; a numerical estimate, not a bound."""
    from scipy.optimize import minimize_scalar

    grid = np.linspace(low, high, 33)
    values = [function(float(x)) for x in grid]
    best = int(np.argmax(values))
    window = (float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)]))
    found = minimize_scalar(lambda x: -function(x), bounds=window, method="bounded", options={"xatol": 1e-12})
    return max(values[best], -float(found.fun))


def gaussian_parameter(epsilon: float, delta: float) -> float:
    """A float solution μ of δ_μ(ε) = δ; only a starting point for certified searches."""
    from scipy.optimize import brentq

    if delta < 1e-300:
        return 0.0
    exact = Fraction(epsilon)

    def excess(log_mu: float) -> float:
        value = gaussian_delta(ball(math.exp(log_mu)), exact)
        return float(value.log()) - math.log(delta) if value > 0 else -1e9

    return math.exp(brentq(excess, -700.0, 8.0, xtol=1e-15, rtol=1e-15))


def first_certified(guess: float, holds: Callable[[float], bool]) -> float:
    """The first of guess·(1 + 2^{−46}), guess·(1 + 2^{−44}), … for which a certificate exists."""
    # Each step gives up two bits of tightness, never of rigour: only what is certified is returned.
    for bits in range(46, 0, -2):
        candidate = guess * (1 + 2.0**-bits)
        if holds(candidate):
            return candidate
    raise ArithmeticError("no certificate was found near the numerical solution")
