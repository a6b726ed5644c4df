"""Calibration: what the searches for the least noise share.

A scale is a float that the sampler uses as it stands, so its binary value counts; the guarantee is the decimal it
prints as. A search returns a float for which the true parameter of the noise is *proved* not to exceed the guarantee.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.numbers import PRECISION, least
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.loss_distribution import CurveProfile

__all__ = ["ImpliedProfile", "exact_moves", "least_scale", "quotient", "refuse_nothing", "working_bits"]


def exact_moves(sensitivity: Sensitivity) -> tuple[Fraction, ...]:
    """What each coordinate moves by, exactly; the single shift Δ₁ is the worst case where only ℓ₁ is known."""
    requirements.instance("sensitivity", sensitivity, Sensitivity, "Sensitivity(l1=1.0)")
    if sensitivity.moves is not None:
        return tuple(Fraction(move) for move in sensitivity.moves)
    return (Fraction(sensitivity.require_l1()),)


def refuse_nothing(guarantee: Guarantee) -> None:
    """Refuse what is no guarantee, and a guarantee that allows nothing."""
    requirements.instance("guarantee", guarantee, Guarantee, "a guarantee such as PureDP(1.0)")
    if not any(guarantee.parameters().values()):
        raise InvalidParameter(
            "guarantee",
            guarantee,
            "allows no information at all, so no finite noise meets it",
            "Raise it above 0.",
        )


def least_scale(holds: Callable[[float], bool], guess: float, guarantee: Guarantee) -> float:
    """The smallest scale that ``holds``, a monotone predicate."""
    try:
        return least(holds, guess)
    except ArithmeticError:
        raise InvalidParameter(
            "guarantee", guarantee, "needs a noise scale beyond the largest float", "Raise it."
        ) from None


def quotient(bound: Fraction, parameter: Fraction) -> float:
    """bound / parameter as a finite float, to start a search from."""
    return float(min(bound / parameter, Fraction(sys.float_info.max)))


def working_bits(delta: float) -> int:
    """Enough bits to tell numbers of the size of δ apart after cancellation against 1."""
    return PRECISION + max(0, -math.frexp(delta)[1])


# ---- Implied profile: the privacy curve that follows from a stated guarantee alone


class ImpliedProfile(CurveProfile):
    """What a guarantee implies, as the worst mechanism that satisfies it has it.

    Parameters
    ----------
    stated
        The guarantee that was proved.

    Examples
    --------
    >>> ImpliedProfile(PureDP(1.0)).delta_at(0.0) == PureDP(1.0).delta_at(0.0)
    True
    """

    def __init__(self, stated: Guarantee) -> None:
        self.stated = stated

    def _delta(self, epsilon: float) -> float:
        return self.stated.delta_at(epsilon)

    def _epsilon(self, delta: float) -> float:
        return self.stated.epsilon_at(delta)

    def pure(self) -> PureDP:
        return self.stated.to(PureDP)

    def gaussian(self) -> GaussianDP:
        return self.stated.to(GaussianDP)

    def concentrated(self) -> ZeroConcentratedDP:
        return self.stated.to(ZeroConcentratedDP)

    def guarantee(self, kind: type[Guarantee], *, delta: float | None = None) -> Guarantee:
        """The stated guarantee where it has the kind asked for, else what it implies."""
        if kind is ApproxDP and delta is None and isinstance(self.stated, ApproxDP):
            return self.stated
        return super().guarantee(kind, delta=delta)

    def within(self, budget: Guarantee) -> bool:
        """Whether the stated guarantee implies ``budget``."""
        return self.stated.within(budget)

    def _reach(self) -> float:
        return min(
            self.stated.epsilon_at(1e-12) if not isinstance(self.stated, ApproxDP) else self.stated.epsilon, 700.0
        )

    def to_dict(self) -> dict[str, Any]:
        return {"profile": "implied", "stated": self.stated.to_dict()}

    def __repr__(self) -> str:
        return f"ImpliedProfile({self.stated!r})"
