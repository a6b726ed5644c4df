"""Plan: what would be released, with what error and at what cost, before any data is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np

from discreet.core import requirements
from discreet.core.errors import InsufficientBudget
from discreet.core.guarantee import Guarantee
from discreet.core.noise.sampler import Floats
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.mechanism import Mechanism, charged_guarantee
from discreet.results.charts import plot_readings
from discreet.results.display import Facts, expected, number
from discreet.results.frames import Row, Tidy
from discreet.results.ledger import Ledger

__all__ = ["DETECTED", "EXPECTED_ROWS", "Plan", "affordable", "plan"]


DETECTED = NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(0.8)
"""Multiple of the standard error that a 5 % test detects with 80 % power."""
EXPECTED_ROWS = "give expected_rows to see the error for your number of rows"


@dataclass(frozen=True, kw_only=True)
class Plan(Tidy):
    """A release that has not happened.

    Attributes
    ----------
    statistic, mechanism, scale
        What would be measured and how it would be protected.
    guarantee
        What it would guarantee, and cost; None where nothing is proved.
    read
        What the error is of: rows, the mean, the share, ranks, …
    error_95
        The error stays below this with probability ``level``, in the scenario; None where too little is known to tell.
    scenario
        What the data is taken to be like; empty where the error does not depend on it.
    worst_error
        The same whatever the data is like; None where the expected error is that, or where nothing bounds it.
    level
        Of both.
    standard_error
        Root mean square of the error; None for choices, whose error depends on the data.
    smallest_effect
        What a 5 % test detects with 80 % power: a difference in what is read, from noise alone; for tests of tables
        Cohen's w and for comparisons the difference of means, with sampling.
    remaining, remaining_after
        The ledger's budget before and after; None without a ledger.
    notes
        What the reader must know besides.
    details
        More of the plan as JSON-ready data.
    """

    statistic: str = "value"
    mechanism: str
    scale: Any = None
    guarantee: Guarantee | None
    read: str = "the value"
    error_95: Any
    scenario: str = ""
    worst_error: float | None = None
    level: float = 0.95
    standard_error: float | None = None
    smallest_effect: float | None = None
    remaining: Guarantee | None = None
    remaining_after: Guarantee | None = None
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    def facts(self) -> Facts:
        """The facts to show."""
        error, effect = self.error_95, self.smallest_effect
        known = f"at most {expected(error)} ({100 * self.level:g} %), of {self.read}" if error is not None else "–"
        facts = [("statistic", self.statistic), ("expected error", known)]
        if self.scenario:
            facts.append(("scenario", self.scenario))
        if self.worst_error is not None:
            facts.append(("error at worst", f"at most {expected(self.worst_error)}, for any data"))
        if effect is not None:
            facts.append(("smallest effect", f"{expected(effect)} (5 % test, 80 % power)"))
        facts.append(("mechanism", self.mechanism))
        if self.scale is not None:
            facts.append(("scale", number(self.scale)))
        facts.append(("guarantee", "none" if self.guarantee is None else str(self.guarantee)))
        if self.remaining is not None:
            facts += [("ledger now", str(self.remaining)), ("ledger after", str(self.remaining_after))]
        return [*facts, *(("note", note) for note in self.notes)]

    def rows(self) -> list[Row]:
        """One row: what would be read, with what error, and at what cost."""
        return [
            {
                "statistic": self.statistic,
                "mechanism": self.mechanism,
                "measure": self.read,
                "error_95": None if self.error_95 is None else float(np.max(self.error_95)),
                "worst_error": self.worst_error,
                "scenario": self.scenario,
                "standard_error": self.standard_error,
                "smallest_effect": self.smallest_effect,
                "scale": None if self.scale is None else float(np.max(self.scale)),
                "guarantee": None if self.guarantee is None else str(self.guarantee),
            }
        ]

    def error_readings(self, name: str = "error") -> list[dict[str, Any]]:
        """The expected error as an interval around zero, for a chart; none where it is not known."""
        reach = self.rows()[0]["error_95"]
        measure, noise = f"error of {self.read}", {"low": -(reach or 0.0), "high": reach}
        shown = {"label": name, "measure": measure, "estimate": 0.0, "noise": noise, "population": None}
        return [] if reach is None else [shown]

    def plot(self) -> Any:
        """Altair chart of how far the noise would move the result."""
        return plot_readings(self.heading(), self.error_readings())

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        shown = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name in ("guarantee", "remaining", "remaining_after"):
            shown[name] = None if shown[name] is None else shown[name].to_dict()
        for name in ("scale", "error_95"):
            shown[name] = None if shown[name] is None else np.asarray(shown[name]).tolist()
        return shown | {"notes": list(self.notes), "details": dict(self.details)}

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
    """The cost of a release and the size of its error. Reads no data and spends nothing.

    Raises
    ------
    InsufficientBudget
        Where the ledger could not pay for it.

    Examples
    --------
    >>> from discreet import PureDP, plan
    >>> from discreet.core.sensitivity import Sensitivity
    >>> from discreet.mechanisms import Laplace
    >>> planned = plan(Sensitivity(l1=1.0), Laplace.calibrate(PureDP(1.0), Sensitivity(l1=1.0)))
    >>> round(planned.error_95, 3), planned.guarantee
    (2.996, PureDP(epsilon=1.0))
    """
    requirements.instance("sensitivity", sensitivity, Sensitivity, "Sensitivity(l1=1.0), for example")
    requirements.instance("mechanism", mechanism, Mechanism, "a mechanism such as Laplace(scale=1.0)")
    checked = requirements.level(level)
    charged = charged_guarantee(mechanism, sensitivity, ledger, guarantee)
    remaining, after = affordable(ledger, charged)
    error: Floats = mechanism.error(checked)
    return Plan(
        mechanism=mechanism.name,
        scale=getattr(mechanism, "scale", None),
        guarantee=charged,
        error_95=error,
        level=checked,
        remaining=remaining,
        remaining_after=after,
        details={"mechanism": mechanism.to_dict(), "sensitivity": sensitivity.to_dict()},
    )


def affordable(
    ledger: Ledger | None, charged: Guarantee | None, request: str | None = None
) -> tuple[Guarantee | None, Guarantee | None]:
    """The ledger's budget before and after a release, or an error where it cannot pay; a paid request costs nothing."""
    if ledger is None or charged is None:
        return None, None
    preview = ledger.preview(charged)
    # Asked after the preview: another thread may pay for the same request at any moment before it.
    if request is not None and ledger.requested(request) is not None:
        return ledger.remaining(), ledger.remaining()
    if preview.after is None:
        raise InsufficientBudget(charged, preview.remaining)
    return preview.remaining, preview.after
