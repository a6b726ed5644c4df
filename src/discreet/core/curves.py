"""Curves: functions of ε, δ or α, evaluated at a number or at each element of an array, and their closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.rounding import ball, normal_cdf

__all__ = ["Curve", "gaussian_delta", "gaussian_epsilon", "order_root", "order_slack", "plain", "pointwise", "type_one"]

Curve = float | NDArray[np.float64]


def pointwise(values: ArrayLike, function: Any) -> Curve:
    """Apply a scalar function to a number or to each element of an array."""
    if isinstance(values, str) or (not isinstance(values, Sequence) and np.ndim(values) == 0):
        return float(function(values.item() if isinstance(values, np.generic | np.ndarray) else values))
    array = _numbers("values", values)
    return np.array([function(float(value)) for value in array.ravel()]).reshape(array.shape)


def _numbers(name: str, values: ArrayLike) -> NDArray[np.float64]:
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise WrongType(name, values, "must be real numbers", "Pass a number or an array of numbers.") from None


def type_one(alpha: ArrayLike) -> NDArray[np.float64]:
    """Type-I error probabilities as an array; refuses what lies outside [0, 1]."""
    array = _numbers("alpha", alpha)
    if not np.all((array >= 0) & (array <= 1)):
        raise InvalidParameter("alpha", alpha, "must lie in [0, 1]", "Pass type-I error probabilities.")
    return array


def plain(array: NDArray[np.float64]) -> Curve:
    """A float for a single number, the array otherwise."""
    return float(array) if array.ndim == 0 else array


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
