"""Privacy curve: δ as a function of ε, which guarantees imply and profiles know exactly."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, overload

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.rounding import ball, decimal, least, normal_cdf

__all__ = [
    "Curve", "PrivacyCurve", "gaussian_delta", "gaussian_epsilon", "order_root", "order_slack", "plain",
    "tightest_mu", "type_one",
]  # fmt: skip


Curve = float | NDArray[np.float64]


class PrivacyCurve(ABC):
    """Every (ε, δ)-DP that holds: the smallest δ for an ε, and the smallest ε for a δ; never rounded down."""

    @abstractmethod
    def _delta(self, epsilon: float) -> float:
        """The smallest δ at one ε ≥ 0, rounded up."""

    @abstractmethod
    def _epsilon(self, delta: float) -> float:
        """The smallest ε at one δ, rounded up; infinity where there is none."""

    @overload
    def delta_at(self, epsilon: float) -> float: ...
    @overload
    def delta_at(self, epsilon: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]: ...
    def delta_at(self, epsilon: ArrayLike) -> Curve:
        """The smallest δ of (ε, δ)-DP at each ε ≥ 0; of a profile, the hockey-stick divergence of the worst neighbours.

        Examples
        --------
        >>> from discreet import GaussianDP
        >>> from discreet.mechanisms.laplace import LaplaceProfile
        >>> round(GaussianDP(1.0).delta_at(1.0), 12), LaplaceProfile([1]).delta_at(0.5)
        (0.126936737507, 0.22119921692859515)
        """
        return _pointwise(epsilon, lambda e: self._delta(requirements.non_negative("epsilon", e)))

    @overload
    def epsilon_at(self, delta: float) -> float: ...
    @overload
    def epsilon_at(self, delta: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]: ...
    def epsilon_at(self, delta: ArrayLike) -> Curve:
        """The smallest ε of (ε, δ)-DP at each δ; infinity where no ε will do.

        Examples
        --------
        >>> from discreet.mechanisms.gaussian import GaussianProfile
        >>> GaussianProfile(1).epsilon_at([1e-3, 1e-6]).round(4)
        array([3.1387, 4.8866])
        """
        return _pointwise(delta, lambda d: self._epsilon(requirements.probability("delta", d)))


def _pointwise(values: ArrayLike, function: Callable[[Any], float]) -> Curve:
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


# ---- Curves: closed forms behind the guarantees, in ball arithmetic, and the starting points of certified searches
#
# Formulas and their proofs: ``docs/proofs/guarantees.md``.


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
