"""Curve profiles: what the privacy curve of a mechanism says besides its own numbers."""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.privacy_curve import Curve, plain, type_one
from discreet.core.privacy_profile import Profile
from discreet.mechanisms.loss_distribution import PrivacyLoss, curve_loss

__all__ = ["CurveProfile", "exact_positive", "privacy_losses"]

_KNOTS = 128


class CurveProfile(Profile):
    """A profile that answers from its curve δ(ε) alone what has no closed form: trade-offs and privacy losses."""

    @abstractmethod
    def _reach(self) -> float:
        """An ε beyond which the curve no longer matters for trade-offs."""

    def losses(self) -> list[tuple[PrivacyLoss, int]]:
        """Independent privacy losses that add up to this profile's, each with its number of repetitions.

        By default one loss on a few hundred points, made from the curve alone; it dominates the true one.
        """
        return [(curve_loss(self._delta, self._reach()), 1)]

    def tradeoff(self, alpha: ArrayLike) -> Curve:
        """The smallest type-II error of any test between the worst neighbours at type-I error ``alpha``.

        Examples
        --------
        >>> from discreet.mechanisms.laplace import LaplaceProfile
        >>> LaplaceProfile([1]).tradeoff([0.0, 0.25, 1.0]).round(4)
        array([1.    , 0.3679, 0.    ])
        """
        return self._tradeoff(type_one(alpha))

    def _tradeoff(self, alpha: NDArray[np.float64]) -> Curve:
        # f(α) is the largest 1 − δ(ε) − e^ε·α and e^{−ε}·(1 − δ(ε) − α) over ε ≥ 0: each is a valid lower
        # bound (dong2022, Proposition 2.12), so the search over ε needs no certificate.
        half = np.linspace(0.0, self._reach(), _KNOTS)
        kept = 1 - np.array([self._delta(float(knot)) for knot in half])
        knots, kept = np.concatenate([-half[:0:-1], half]), np.concatenate([kept[:0:-1], kept])
        return plain(np.array([self._power(a, knots, kept) for a in alpha.ravel().tolist()]).reshape(alpha.shape))

    def _power(self, alpha: float, knots: NDArray[np.float64], kept: NDArray[np.float64]) -> float:
        from scipy.optimize import minimize_scalar

        def height(epsilon: float) -> float:  # below 0: the second of the two bounds, at −ε
            rest = 1 - self._delta(abs(epsilon))
            return rest - math.exp(epsilon) * alpha if epsilon >= 0 else math.exp(epsilon) * (rest - alpha)

        heights = np.where(knots >= 0, kept - np.exp(knots) * alpha, np.exp(np.minimum(knots, 0.0)) * (kept - alpha))
        best = int(np.argmax(heights))
        window = (float(knots[max(best - 1, 0)]), float(knots[min(best + 1, len(knots) - 1)]))
        found = minimize_scalar(lambda e: -height(e), bounds=window, method="bounded", options={"xatol": 1e-9})
        return max(0.0, height(float(knots[best])), -float(found.fun))


def exact_positive(name: str, value: Any) -> Fraction:
    """A positive parameter as an exact fraction; a float counts as its binary value."""
    if isinstance(value, float | np.floating):
        return Fraction(requirements.positive(name, float(value)))
    number = requirements.rational(name, value)
    requirements.positive(name, float(number))
    return number


def privacy_losses(profile: Profile) -> list[tuple[PrivacyLoss, int]]:
    """The losses of a profile; of one that states none, a loss that its curve up to δ = 1e-12 dominates."""
    if isinstance(profile, CurveProfile):
        return profile.losses()
    return [(curve_loss(profile.delta_at, min(profile.epsilon_at(1e-12), 700.0)), 1)]
