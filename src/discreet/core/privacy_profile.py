"""Profile: the privacy curve that a mechanism states, whoever wrote it, and that the door compares with a claim."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike

from discreet.core.errors import InvalidParameter, NoConversion, WrongType
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.privacy_curve import Curve, PrivacyCurve

__all__ = ["Profile"]


class Profile(PrivacyCurve):
    """The exact privacy curve of a mechanism for one sensitivity; what is reported is never rounded down.

    A profile knows more than any single guarantee: every (ε, δ) pair, the trade-off function, and the tightest
    parameter of each kind of guarantee.
    """

    @abstractmethod
    def pure(self) -> PureDP:
        """The tightest ε-DP guarantee; raises `NoConversion` where the privacy loss is unbounded."""

    @abstractmethod
    def concentrated(self) -> ZeroConcentratedDP:
        """The tightest ρ-zCDP guarantee."""

    @abstractmethod
    def gaussian(self) -> GaussianDP:
        """The tightest μ-GDP guarantee."""

    @abstractmethod
    def tradeoff(self, alpha: ArrayLike) -> Curve:
        """The smallest type-II error of any test between the worst neighbours at type-I error ``alpha``."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The profile as JSON-ready data."""

    def guarantee(self, kind: type[Guarantee], *, delta: float | None = None) -> Guarantee:
        """The tightest guarantee of one kind; `ApproxDP` needs the δ at which to state it."""
        if kind is ApproxDP:
            if delta is None:
                raise InvalidParameter("delta", None, "is needed for ApproxDP", "Pass delta=1e-6.")
            return ApproxDP(self.epsilon_at(delta), delta)
        if delta is not None:
            raise InvalidParameter("delta", delta, "only goes with ApproxDP", "Leave delta out.")
        ways: dict[type[Guarantee], Callable[[], Guarantee]] = {
            PureDP: self.pure,
            ZeroConcentratedDP: self.concentrated,
            GaussianDP: self.gaussian,
        }
        if kind not in ways:
            raise WrongType("kind", kind, "must be a guarantee class", "Pass PureDP, ApproxDP, … itself.")
        return ways[kind]()

    def within(self, budget: Guarantee) -> bool:
        """Whether whatever has this profile satisfies ``budget``: what the door asks before every release."""
        if isinstance(budget, ApproxDP) and budget.delta > 0:
            return self.delta_at(budget.epsilon) <= budget.delta
        try:
            return self.guarantee(PureDP if isinstance(budget, ApproxDP) else type(budget)).within(budget)
        except NoConversion:
            return False
