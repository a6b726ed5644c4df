"""Composition: what several guarantees on the same data amount to together.

Sums are sums of the decimals that parameters print as, so ten releases at 0.1 cost exactly 1.0. Proofs and
sources: ``docs/proofs/composition.md``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.rounding import decimal, down, least, up
from discreet.mechanisms.composed import compose_profiles
from discreet.mechanisms.gaussian import GaussianProfile
from discreet.mechanisms.responses import MOST_OUTCOMES, ResponseProfile, Responses, any_failure

__all__ = ["compose"]


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
    ApproxDP(ε=4.77457, δ=1e-06)
    """
    parts = _Parts.of(guarantees)
    if delta is not None:
        return _approximate(parts, requirements.probability("delta", delta))
    if parts.failing:
        if parts.concentrated or parts.gaussian:
            raise InvalidParameter(
                "delta",
                None,
                "is needed to compose ApproxDP with GaussianDP or ZeroConcentratedDP",
                "Pass delta=1e-6, for example: the δ at which to state the result.",
            )
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
        """Whether a part may fail with positive probability."""
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
    return compose_profiles([*profiles, *normals]).epsilon_at(delta)


def _given_no_failure(parts: _Parts, together: Guarantee, delta: float) -> float:
    """Parts that are all zCDP or GDP unless one fails: δ = failure + (1 − failure)·δ'."""
    left = down((decimal(delta) - parts.failure) / (1 - parts.failure))
    return together.epsilon_at(left)
