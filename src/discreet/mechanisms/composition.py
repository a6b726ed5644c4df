"""Composition: what several guarantees on the same data amount to together.

Sums are sums of the decimals that parameters print as, so ten releases at 0.1 cost exactly 1.0. Proofs and
sources: ``docs/proofs/composition.md``.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from flint import arb
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import ApproxDP, Curve, GaussianDP, Guarantee, Profile, PureDP, ZeroConcentratedDP, plain
from discreet.core.numbers import ball, decimal, down, least, precisely, up
from discreet.mechanisms import loss_distribution
from discreet.mechanisms.gaussian import GaussianProfile
from discreet.mechanisms.laplace import LaplaceProfile

# ---- Composed profiles: the privacy curve of several releases together


_MOST_SHIFTS = 128
_REFERENCE = np.linspace(0.0, 1.0, 5)


def compose_curves(profiles: Iterable[Profile]) -> Profile:
    """The privacy curve of releases whose noise is independent.

    Gaussian noise composes to Gaussian noise and a moderate number of Laplace shifts to their exact curve in
    several dimensions; everything else is convolved numerically, with proved bounds on both sides.

    Examples
    --------
    >>> both = compose_curves([LaplaceProfile([0.5]), GaussianProfile(0.5)])
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
    return len(profile.shifts) <= _MOST_SHIFTS and profile.size(profile.shifts) <= profile.largest_size


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
    numerator = math.isqrt(square.numerator)
    denominator = math.isqrt(square.denominator)
    if Fraction(numerator**2, denominator**2) == square:
        return Fraction(numerator, denominator)
    unit = Fraction(2) ** ((square.numerator.bit_length() - square.denominator.bit_length()) // 2 - 130)
    scaled = square / unit**2
    return (math.isqrt(scaled.numerator // scaled.denominator) + 1) * unit


class ComposedProfile(loss_distribution.CurveProfile):
    """Several independent releases together, by convolution of their privacy losses.

    ``delta_at`` and ``epsilon_at`` report the upper bound; `bounds_at` gives both bounds and `error_bound` the
    largest gap between them. Relative accuracy does not degrade for tiny δ.

    Parameters
    ----------
    profiles
        The profiles of the releases; `compose_curves` picks an exact form where there is one.
    """

    made_of: ClassVar[tuple[str, ...]] = ("parts",)

    def __init__(self, profiles: Iterable[Profile]) -> None:
        self.parts = tuple(_merged(profiles))

    @cached_property
    def _convolution(self) -> loss_distribution.Convolution:
        losses: list[tuple[loss_distribution.PrivacyLoss, int]] = []
        for part, times in Counter(self.parts).items():
            losses += [(loss, times * count) for loss, count in loss_distribution.privacy_losses(part)]
        return loss_distribution.Convolution(losses)

    def losses(self) -> list[tuple[loss_distribution.PrivacyLoss, int]]:
        return [loss for part in self.parts for loss in loss_distribution.privacy_losses(part)]

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
        return loss_distribution.first_certified(root, lambda e: self._delta(e) <= delta)

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

    def _key(self) -> tuple[Any, ...]:
        return (frozenset(Counter(self.parts).items()),)  # in any order

    def __str__(self) -> str:
        return "; together with ".join(str(part) for part in self.parts)


# ---- Randomised responses: the worst mechanisms that (ε, δ)-DP allows, and their exact composition
#
# A mechanism is (ε, δ)-DP if and only if it is a post-processing of randomised response that fails with
# probability δ (kairouz2015), so the composition of those responses is the optimal composition of the guarantees.


MOST_OUTCOMES = 20_000
_BITS = 640


class ResponseProfile(loss_distribution.CurveProfile):
    """The privacy curve of the worst (ε, δ)-DP mechanism.

    Examples
    --------
    >>> print(ResponseProfile(1.0).concentrated())
    ρ = 0.462117
    """

    made_of: ClassVar[tuple[str, ...]] = ("epsilon", "delta")

    def __init__(self, epsilon: float, delta: float = 0.0) -> None:
        self.bound = ApproxDP(epsilon, delta)
        self.epsilon, self.delta = self.bound.epsilon, self.bound.delta

    def _delta(self, epsilon: float) -> float:
        return self.bound._delta(epsilon)

    def _epsilon(self, delta: float) -> float:
        return self.bound._epsilon(delta)

    def gaussian(self) -> GaussianDP:
        return self.bound.to(GaussianDP)

    def pure(self) -> PureDP:
        return self.bound.to(PureDP)

    def concentrated(self) -> ZeroConcentratedDP:
        return self.bound.to(ZeroConcentratedDP)

    def losses(self) -> list[tuple[loss_distribution.PrivacyLoss, int]]:
        return [(loss_distribution.response_loss(self.bound.epsilon, self.bound.delta), 1)]

    def _reach(self) -> float:
        return min(self.bound.epsilon, 700.0)

    def __str__(self) -> str:
        return f"The worst mechanism within {self.bound}"


class Responses:
    """Exact composition of randomised responses (kairouz2015; murtagh2016 where they differ).

    Parameters
    ----------
    parts
        The (ε, δ) guarantees. Responses with the same ε share their outcomes: k of them have k + 1.

    Examples
    --------
    >>> round(Responses([ApproxDP(0.1, 0.0)] * 100).epsilon_at(1e-6), 4)
    4.7746
    """

    def __init__(self, parts: Iterable[ApproxDP]) -> None:
        guarantees = list(parts)
        times = Counter(decimal(part.epsilon) for part in guarantees if part.epsilon > 0)
        self.failure = any_failure(guarantees)
        with precisely(_BITS):
            outcomes: dict[Fraction, arb] = {Fraction(0): arb(1)}
            for epsilon, count in times.items():
                outcomes = _extended(outcomes, epsilon, count)
            self._losses = sorted(outcomes)
            # Tail sums from the largest loss down: P(L > l) and Q(L > l) between neighbouring losses.
            first, second = [arb(0)], [arb(0)]
            for loss in reversed(self._losses):
                first.append(first[-1] + outcomes[loss])
                second.append(second[-1] + outcomes[loss] * (-ball(loss)).exp())
        self._first, self._second = first[::-1], second[::-1]

    @staticmethod
    def outcomes(parts: Iterable[ApproxDP]) -> int:
        """Number of distinct outcomes, to see whether the exact composition is affordable."""
        return math.prod(count + 1 for count in Counter(part.epsilon for part in parts).values())

    def delta_at(self, epsilon: float) -> float:
        """Smallest δ such that the composition is (ε, δ)-DP, rounded up."""
        exact = decimal(epsilon)
        above = bisect_right(self._losses, exact)
        with precisely(_BITS):
            hidden = self._first[above] - ball(exact).exp() * self._second[above]
            return min(up(ball(self.failure) + (1 - ball(self.failure)) * hidden), 1.0)

    def epsilon_at(self, delta: float) -> float:
        """Smallest ε such that the composition is (ε, δ)-DP, rounded up; infinity where there is none."""
        if decimal(delta) < self.failure:
            return math.inf
        target = (decimal(delta) - self.failure) / (1 - self.failure)
        with precisely(_BITS):
            wanted = ball(target)
            low, high = bisect_right(self._losses, 0), len(self._losses)
            while low < high:  # the first loss at which δ has come down to the target
                middle = (low + high) // 2
                at = self._first[middle + 1] - ball(self._losses[middle]).exp() * self._second[middle + 1]
                low, high = (low, middle) if at <= wanted else (middle + 1, high)
            if low == len(self._losses):
                return up(self._losses[-1])
            ratio = (self._first[low] - wanted) / self._second[low]
            return 0.0 if ratio <= 1 else max(0.0, up(ratio.log()))


def any_failure(parts: Iterable[ApproxDP]) -> Fraction:
    """Probability that at least one of the responses fails."""
    counts = Counter(part.delta for part in parts)
    return 1 - math.prod(((1 - decimal(delta)) ** times for delta, times in counts.items()), start=Fraction(1))


def _extended(outcomes: dict[Fraction, arb], epsilon: Fraction, count: int) -> dict[Fraction, arb]:
    """Outcomes after ``count`` more responses of the same ε."""
    odds = ball(epsilon).exp()
    chances = [(1 + odds) ** -count]
    for j in range(count):
        chances.append(chances[-1] * odds * (count - j) / (j + 1))
    grown: dict[Fraction, arb] = {}
    for loss, chance in outcomes.items():
        for j, factor in enumerate(chances):
            sum_ = loss + (2 * j - count) * epsilon
            grown[sum_] = grown.get(sum_, arb(0)) + chance * factor
    return grown


def compose(*guarantees: Guarantee, delta: float | None = None) -> Guarantee:
    """The guarantee of releases that each have one of ``guarantees``, even if chosen adaptively.

    Parameters
    ----------
    *guarantees
        One per release.
    delta
        State the result as `ApproxDP` at this δ: the best of basic and optimal composition, and of the ways
        through zCDP and GDP. Without it the result keeps the strongest kind that all parts share: ε adds, ρ adds,
        μ² adds; pure parts join Gaussian or zero-concentrated ones, Gaussian parts join zero-concentrated ones;
        pure and approximate parts add up ε and δ.

    Examples
    --------
    >>> compose(*[PureDP(0.1)] * 10)
    PureDP(epsilon=1.0)
    >>> compose(*[GaussianDP(0.5)] * 4)
    GaussianDP(mu=1.0)
    >>> print(compose(*[PureDP(0.1)] * 100, delta=1e-6))  # not 10
    ε = 4.77457, δ = 1e-06
    """
    parts = _Parts.of(guarantees)
    if delta is not None:
        return _approximate(parts, requirements.probability("delta", delta))
    if parts.failing:
        if parts.concentrated or parts.gaussian:
            rule = "is needed to compose ApproxDP with GaussianDP or ZeroConcentratedDP"
            fix = "Pass delta=1e-6, for example: the δ at which to state the result."
            raise InvalidParameter("delta", None, rule, fix)
        return ApproxDP(up(parts.basic_epsilon), up(parts.basic_delta))
    if parts.concentrated:
        return parts.as_concentrated()
    if parts.gaussian:
        return parts.as_gaussian()
    total = up(parts.basic_epsilon)
    return ApproxDP(total, 0.0) if all(isinstance(one, ApproxDP) for one in guarantees) else PureDP(total)


@dataclass(frozen=True)
class _Parts:
    """Guarantees sorted by kind; pure ones are approximate ones with δ = 0, and zeros are left out."""

    responses: tuple[ApproxDP, ...]
    concentrated: tuple[ZeroConcentratedDP, ...]
    gaussian: tuple[GaussianDP, ...]

    @classmethod
    def of(cls, guarantees: Sequence[Any]) -> _Parts:
        if not guarantees:
            raise InvalidParameter("guarantees", guarantees, "must not be empty", "Pass at least one guarantee.")
        for guarantee in guarantees:
            requirements.instance("guarantees", guarantee, Guarantee, "guarantees such as PureDP(0.5)")
        spent = [guarantee for guarantee in guarantees if any(guarantee.parameters().values())]
        pure = [ApproxDP(part.epsilon, 0.0) for part in spent if isinstance(part, PureDP)]
        return cls(
            tuple(pure + [part for part in spent if isinstance(part, ApproxDP)]),
            tuple(part for part in spent if isinstance(part, ZeroConcentratedDP)),
            tuple(part for part in spent if isinstance(part, GaussianDP)),
        )

    @property
    def failing(self) -> bool:
        """True where a part may fail with positive probability."""
        return any(part.delta > 0 for part in self.responses)

    @cached_property
    def failure(self) -> Fraction:
        """Probability that at least one part fails."""
        return any_failure(self.responses)

    @property
    def basic_epsilon(self) -> Fraction:
        return sum((decimal(part.epsilon) for part in self.responses), Fraction(0))

    @property
    def basic_delta(self) -> Fraction:
        return sum((decimal(part.delta) for part in self.responses), Fraction(0))

    def _counted(self) -> Counter[Guarantee]:
        """All parts, each with its number; the responses as they are given that none fails."""
        pure = [PureDP(part.epsilon) for part in self.responses if part.epsilon > 0]
        return Counter([*self.concentrated, *self.gaussian, *pure])

    def as_concentrated(self) -> ZeroConcentratedDP:
        """ρ adds; pure and Gaussian parts imply zCDP. Given that no response fails."""
        rhos = [times * decimal(part.to(ZeroConcentratedDP).rho) for part, times in self._counted().items()]
        return ZeroConcentratedDP(up(sum(rhos, Fraction(0))))

    def as_gaussian(self) -> GaussianDP:
        """μ² adds; pure parts imply GDP. Given that no response fails, and without zero-concentrated parts."""
        squares = [times * decimal(part.to(GaussianDP).mu) ** 2 for part, times in self._counted().items()]
        square = sum(squares, Fraction(0))
        return GaussianDP(least(lambda mu: decimal(mu) ** 2 >= square, math.sqrt(square)) if square else 0.0)


def _approximate(parts: _Parts, delta: float) -> ApproxDP:
    if parts.failure > decimal(delta):
        raise NoConversion(
            f"the parts fail together with probability up to {float(parts.failure):.6g}, more than delta = {delta:g}, "
            "so no ε will do. Raise delta."
        )
    # Each way gives a valid ε at this δ; the least of them is reported.
    candidates = [_basic(parts, delta)]
    if not parts.concentrated:
        candidates.append(_optimal(parts, delta))
    if parts.concentrated or parts.gaussian or len(parts.responses) > 1:
        candidates.append(_given_no_failure(parts, parts.as_concentrated(), delta))
    if parts.gaussian and not parts.concentrated:
        candidates.append(_given_no_failure(parts, parts.as_gaussian(), delta))
    return ApproxDP(min(candidates), delta)


def _basic(parts: _Parts, delta: float) -> float:
    """ε and δ add; what δ is left states the Gaussian or zero-concentrated parts."""
    left = decimal(delta) - parts.basic_delta
    if left < 0:
        return math.inf
    if not (parts.concentrated or parts.gaussian):
        return up(parts.basic_epsilon)
    smooth = _Parts((), parts.concentrated, parts.gaussian)
    both = smooth.as_concentrated() if parts.concentrated else smooth.as_gaussian()
    epsilon = both.epsilon_at(down(left))
    return math.inf if math.isinf(epsilon) else up(parts.basic_epsilon + decimal(epsilon))


def _optimal(parts: _Parts, delta: float) -> float:
    """The worst mechanisms of the parts, composed: in closed form, or by convolution of their losses."""
    if not parts.gaussian and Responses.outcomes(parts.responses) <= MOST_OUTCOMES:
        return Responses(parts.responses).epsilon_at(delta)
    profiles = [ResponseProfile(part.epsilon, part.delta) for part in parts.responses]
    normals = [GaussianProfile(decimal(part.mu)) for part in parts.gaussian]
    return compose_curves([*profiles, *normals]).epsilon_at(delta)


def _given_no_failure(parts: _Parts, together: Guarantee, delta: float) -> float:
    """Parts that are all zCDP or GDP unless one fails: δ = failure + (1 − failure)·δ'."""
    left = down((decimal(delta) - parts.failure) / (1 - parts.failure))
    return together.epsilon_at(left)
