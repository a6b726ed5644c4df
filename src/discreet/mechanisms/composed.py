"""Composed profiles: the privacy curve of several releases together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import GaussianDP, PureDP, ZeroConcentratedDP
from discreet.core.privacy_curve import Curve, plain
from discreet.core.privacy_profile import Profile
from discreet.core.rounding import decimal, up
from discreet.mechanisms.curve_profile import CurveProfile, privacy_losses
from discreet.mechanisms.envelope import first_certified
from discreet.mechanisms.gaussian import GaussianProfile
from discreet.mechanisms.laplace import LaplaceProfile
from discreet.mechanisms.laplace_curve import LaplaceCurve
from discreet.mechanisms.loss_distribution import Convolution, PrivacyLoss

__all__ = ["ComposedProfile", "compose_profiles"]

_MOST_SHIFTS = 128
_REFERENCE = np.linspace(0.0, 1.0, 5)


def compose_profiles(profiles: Iterable[Profile]) -> Profile:
    """The privacy curve of releases whose noise is independent.

    Gaussian noise composes to Gaussian noise and a moderate number of Laplace shifts to their exact curve in
    several dimensions; everything else is convolved numerically, with proved bounds on both sides.

    Examples
    --------
    >>> both = compose_profiles([LaplaceProfile([0.5]), GaussianProfile(0.5)])
    >>> lower, upper = both.bounds_at(2.0)
    >>> upper == both.delta_at(2.0), 0 <= upper - lower < 1e-4
    (True, True)
    """
    parts = _merged(profiles)
    if len(parts) == 1:
        only = parts[0]
        if isinstance(only, GaussianProfile):
            return only
        if isinstance(only, LaplaceProfile) and _affordable(only):
            return only
    return ComposedProfile(parts)


def _affordable(profile: LaplaceProfile) -> bool:
    return len(profile.shifts) <= _MOST_SHIFTS and LaplaceCurve.size(profile.shifts) <= LaplaceCurve.largest_size


def _merged(profiles: Iterable[Profile]) -> list[Profile]:
    """Flatten; put all Laplace shifts into one profile, and all Gaussian noise into one."""
    shifts: list[Fraction] = []
    square = Fraction(0)
    others: list[Profile] = []
    waiting = list(requirements.listed("profiles", profiles, "a list of profiles"))
    if not waiting:
        raise InvalidParameter("profiles", profiles, "must not be empty", "Pass at least one profile.")
    while waiting:
        profile = waiting.pop(0)
        requirements.instance("profiles", profile, Profile, "profiles such as mechanism.profile(sensitivity)")
        if isinstance(profile, ComposedProfile):
            waiting = [*profile.parts, *waiting]
        elif isinstance(profile, LaplaceProfile):
            shifts += profile.shifts
        elif isinstance(profile, GaussianProfile):
            square += profile.mu**2
        else:
            others.append(profile)
    laplace = [LaplaceProfile(shifts)] if shifts else []
    return [*laplace, *([GaussianProfile(_root(square))] if square else []), *others]


def _root(square: Fraction) -> Fraction:
    """√square, exact where it is rational, otherwise too large by at most 2^{−128} of it."""
    numerator, denominator = math.isqrt(square.numerator), math.isqrt(square.denominator)
    if Fraction(numerator**2, denominator**2) == square:
        return Fraction(numerator, denominator)
    unit = Fraction(2) ** ((square.numerator.bit_length() - square.denominator.bit_length()) // 2 - 130)
    scaled = square / unit**2
    return (math.isqrt(scaled.numerator // scaled.denominator) + 1) * unit


class ComposedProfile(CurveProfile):
    """Several independent releases together, by convolution of their privacy losses.

    ``delta_at`` and ``epsilon_at`` report the upper bound; `bounds_at` gives both bounds and `error_bound` the
    largest gap between them. Relative accuracy does not degrade for tiny δ.

    Parameters
    ----------
    profiles
        The profiles of the releases; `compose_profiles` picks an exact form where there is one.
    """

    def __init__(self, profiles: Iterable[Profile]) -> None:
        self.parts = tuple(_merged(profiles))

    @cached_property
    def _convolution(self) -> Convolution:
        losses: list[tuple[PrivacyLoss, int]] = []
        for part, times in Counter(self.parts).items():
            losses += [(loss, times * count) for loss, count in privacy_losses(part)]
        return Convolution(losses)

    def losses(self) -> list[tuple[PrivacyLoss, int]]:
        return [loss for part in self.parts for loss in privacy_losses(part)]

    def _delta(self, epsilon: float) -> float:
        # The decimal that ε prints as may lie half a unit below its binary value.
        return self._convolution.upper(math.nextafter(epsilon, 0.0))

    def bounds_at(self, epsilon: float) -> tuple[float, float]:
        """A lower and an upper bound on the true δ(ε)."""
        number = requirements.non_negative("epsilon", epsilon)
        return self._convolution.lower(math.nextafter(number, math.inf)), self._delta(number)

    @cached_property
    def error_bound(self) -> float:
        """The largest gap between the two bounds on δ, over a grid of ε that spans the curve."""
        gaps = [upper - lower for lower, upper in (self.bounds_at(float(e)) for e in _REFERENCE * self._reach())]
        return max(gaps)

    def _epsilon(self, delta: float) -> float:
        if self._delta(0.0) <= delta:
            return 0.0
        from scipy.optimize import brentq

        high = max(self._reach(), 1e-6)
        while self._delta(high) > delta:
            high *= 2
            if high > 2 * self._convolution.highest:
                return math.inf
        goal = math.log(max(delta, 1e-320))
        root = brentq(lambda e: math.log(max(self._delta(e), 1e-320)) - goal, 0.0, high, rtol=1e-9, xtol=1e-300)
        return first_certified(root, lambda e: self._delta(e) <= delta)

    def gaussian(self) -> GaussianDP:
        """√Σμ² over the parts: Gaussian guarantees compose exactly, so it is tight if each of them is."""
        square = sum((decimal(part.gaussian().mu) ** 2 for part in self.parts), Fraction(0))
        return GaussianDP(up(_root(square)))

    def pure(self) -> PureDP:
        return PureDP(up(sum((decimal(part.pure().epsilon) for part in self.parts), Fraction(0))))

    def concentrated(self) -> ZeroConcentratedDP:
        return ZeroConcentratedDP(up(sum((decimal(part.concentrated().rho) for part in self.parts), Fraction(0))))

    def _reach(self) -> float:
        return min(self._convolution.reach, 700.0)

    def _tradeoff(self, alpha: NDArray[np.float64]) -> Curve:
        # The trade-off curve of a pair on a lattice is piecewise linear between its likelihood-ratio tests.
        return plain(np.asarray(np.interp(alpha, *self._convolution.vertices)))

    def to_dict(self) -> dict[str, Any]:
        return {"profile": "composed", "parts": [part.to_dict() for part in self.parts]}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposedProfile) and Counter(self.parts) == Counter(other.parts)

    def __hash__(self) -> int:
        return hash(frozenset(Counter(self.parts).items()))

    def __repr__(self) -> str:
        return f"ComposedProfile([{', '.join(map(repr, self.parts))}])"

    def __str__(self) -> str:
        return "; together with ".join(str(part) for part in self.parts)
