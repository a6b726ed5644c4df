"""Implied profile: the privacy curve that follows from a stated guarantee alone."""

from __future__ import annotations

from typing import Any

from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.mechanisms.curve_profile import CurveProfile

__all__ = ["ImpliedProfile"]


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
