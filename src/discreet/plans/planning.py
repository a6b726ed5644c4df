"""Plan: what would be released, with what error and at what cost, before any data is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.core import requirements
from discreet.core.contract import Mechanism
from discreet.core.display import Facts, number
from discreet.core.door import charged_guarantee
from discreet.core.errors import InsufficientBudget
from discreet.core.guarantee import Guarantee
from discreet.core.noise.law import Floats
from discreet.core.result import Result
from discreet.core.sensitivity import Sensitivity

if TYPE_CHECKING:
    from discreet.core.ledger import Ledger

__all__ = ["Plan", "affordable", "plan"]


@dataclass(frozen=True)
class Plan(Result):
    """A release that has not happened.

    Attributes
    ----------
    mechanism, sensitivity, guarantee
        What would be done, and what it would guarantee.
    expected_error
        The noise stays below this with probability ``level``, for the least favourable truth.
    remaining, remaining_after
        The ledger's budget before and after; None without a ledger.
    """

    mechanism: Mechanism
    sensitivity: Sensitivity
    guarantee: Guarantee | None
    expected_error: Floats
    level: float
    remaining: Guarantee | None
    remaining_after: Guarantee | None

    @property
    def scale(self) -> Any:
        """Scale of the noise."""
        return getattr(self.mechanism, "scale", None)

    def facts(self) -> Facts:
        """What to show of a plan."""
        facts = [
            ("mechanism", self.mechanism.name),
            ("scale", "–" if self.scale is None else number(self.scale)),
            (f"error at {100 * self.level:g} %", f"at most {number(self.expected_error)}"),
            ("guarantee", "none" if self.guarantee is None else str(self.guarantee)),
        ]
        if self.remaining is not None:
            facts += [("ledger now", str(self.remaining)), ("ledger after", str(self.remaining_after))]
        return facts

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {
            "mechanism": self.mechanism.to_dict(),
            "sensitivity": self.sensitivity.to_dict(),
            "guarantee": None if self.guarantee is None else self.guarantee.to_dict(),
            "expected_error": np.asarray(self.expected_error).tolist(),
            "level": self.level,
            "remaining": None if self.remaining is None else self.remaining.to_dict(),
            "remaining_after": None if self.remaining_after is None else self.remaining_after.to_dict(),
        }

    def heading(self) -> str:
        return "Plan"


def plan(
    sensitivity: Sensitivity,
    mechanism: Mechanism,
    *,
    ledger: Ledger | None = None,
    guarantee: Guarantee | None = None,
    level: float = 0.95,
) -> Plan:
    """What a release would cost and how far off it would be. Reads no data and spends nothing.

    Raises
    ------
    InsufficientBudget
        Where the ledger could not pay for it.

    Examples
    --------
    >>> from discreet import Laplace, PureDP, Sensitivity, plan
    >>> planned = plan(Sensitivity(l1=1.0), Laplace.calibrate(PureDP(1.0), Sensitivity(l1=1.0)))
    >>> round(planned.expected_error, 3), planned.guarantee
    (2.996, PureDP(epsilon=1.0))
    """
    requirements.instance("sensitivity", sensitivity, Sensitivity, "Sensitivity(l1=1.0), for example")
    requirements.instance("mechanism", mechanism, Mechanism, "a mechanism such as Laplace(scale=1.0)")
    checked = requirements.level(level)
    claim = charged_guarantee(mechanism, sensitivity, ledger, guarantee)
    remaining, after = affordable(ledger, claim)
    return Plan(
        mechanism=mechanism,
        sensitivity=sensitivity,
        guarantee=claim,
        expected_error=mechanism.expected_error(checked),
        level=checked,
        remaining=remaining,
        remaining_after=after,
    )


def affordable(
    ledger: Ledger | None, claim: Guarantee | None, request: str | None = None
) -> tuple[Guarantee | None, Guarantee | None]:
    """The ledger's budget before and after a release, or an error where it cannot pay; a paid request costs nothing."""
    if ledger is None or claim is None:
        return None, None
    if request is not None and ledger.requested(request) is not None:
        return ledger.remaining(), ledger.remaining()
    preview = ledger.preview(claim)
    if preview.after is None:
        raise InsufficientBudget(claim, preview.remaining)
    return preview.remaining, preview.after
