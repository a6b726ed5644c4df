"""Planner: what a session's questions would give and cost, from public facts alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, cast

from discreet.core.display import Facts, number
from discreet.core.guarantee import Guarantee
from discreet.core.ledger import Ledger
from discreet.core.result import Result
from discreet.core.schema import Schema
from discreet.plans.planning import affordable, plan
from discreet.questions import Question
from discreet.questions.asking import Asking

if TYPE_CHECKING:
    from discreet.questions.clusters.model import ClusterModel
    from discreet.questions.comparison.column import ColumnComparison
    from discreet.questions.group_questions import GroupQuestion

__all__ = ["PlannedRelease", "Planner"]

_POWER = NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(0.8)
"""Multiple of the standard error that a 5 % test finds with 80 % power."""
_WITHIN = NormalDist().inv_cdf(0.975)
_FEW = "give expected_rows to see the error"


@dataclass(frozen=True, kw_only=True)
class PlannedRelease(Result):
    """What a question would give and cost.

    Attributes
    ----------
    statistic, mechanism, scale
        What would be measured and how it would be protected.
    guarantee
        What it would cost.
    read
        What the error is of: rows, the mean, the share, ranks, …
    expected_error
        95 % of the errors stay below this; None where too little is known to tell.
    standard_error
        Root mean square of the error; None for choices, whose error depends on the data.
    smallest_effect
        What a 5 % test finds with 80 % power: a difference in what is read, from noise alone; for tests of tables
        Cohen's w and for comparisons the difference of means, with sampling.
    remaining, remaining_after
        The ledger's budget before and after; None without a ledger.
    notes
        What the planner must know besides.
    details
        More of the plan as JSON-ready data.
    """

    statistic: str
    mechanism: str
    scale: float | None
    guarantee: Guarantee
    read: str
    expected_error: float | None
    standard_error: float | None
    smallest_effect: float | None
    remaining: Guarantee | None = None
    remaining_after: Guarantee | None = None
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    def facts(self) -> Facts:
        """What to show."""
        error, effect = self.expected_error, self.smallest_effect
        facts = [
            ("statistic", self.statistic),
            ("expected error", "–" if error is None else f"at most {number(error)} (95 %), of {self.read}"),
            ("smallest effect", "–" if effect is None else f"{number(effect)} (5 % test, 80 % power)"),
            ("mechanism", self.mechanism),
            ("scale", "–" if self.scale is None else number(self.scale)),
            ("guarantee", str(self.guarantee)),
        ]
        if self.remaining is not None:
            facts += [("ledger now", str(self.remaining)), ("ledger after", str(self.remaining_after))]
        return [*facts, *(("note", note) for note in self.notes)]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        shown = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name in ("guarantee", "remaining", "remaining_after"):
            shown[name] = None if shown[name] is None else shown[name].to_dict()
        return shown | {"notes": list(self.notes), "details": dict(self.details)}

    def heading(self) -> str:
        return "Plan"


class Planner(Asking):
    """Answers every question of a session with what it would give and cost. Reads no data, spends nothing."""

    def __init__(self, schema: Schema, ledger: Ledger | None = None) -> None:
        self.schema, self.ledger = schema, ledger

    def _answer(self, question: Question, request: str | None) -> PlannedRelease:
        planned = plan(question.sensitivity, question.mechanism, ledger=self.ledger, guarantee=question.claim)
        standard, error = question.standard_error(), question.expected_error()
        return PlannedRelease(
            statistic=question.statistic.name,
            mechanism=planned.mechanism.name,
            scale=None if planned.scale is None else float(planned.scale),
            guarantee=cast(Guarantee, planned.guarantee),  # a question always claims one
            read=question.read,
            expected_error=error,
            standard_error=standard,
            smallest_effect=None if standard is None else _POWER * standard,
            remaining=planned.remaining,
            remaining_after=planned.remaining_after,
            notes=() if error is not None else (_FEW,),
            details={
                "statistic": question.statistic.to_dict(),
                "mechanism": question.mechanism.to_dict(),
                "sensitivity": question.sensitivity.to_dict(),
            },
        )

    def _tested(self, test: Any, answer: PlannedRelease, *, df: int, cells: int, rows: int | None) -> PlannedRelease:
        from discreet.inference.power import smallest_departure

        if rows is None:
            return replace(answer, smallest_effect=None, notes=("give expected_rows to see the smallest effect",))
        noise = cast(float, answer.standard_error)  # a table of counts always has one
        effect = smallest_departure(df=df, cells=cells, n=rows, noise_variance=noise**2)
        return replace(answer, smallest_effect=effect, notes=("the effect is Cohen's w, for cells of equal size",))

    def _compared(self, comparison: ColumnComparison, request: str | None) -> PlannedRelease:
        remaining, after = affordable(self.ledger, comparison.guarantee)
        planned = comparison.plan()
        error = None if planned is None else planned.standard_error[planned.method]
        notes = (_FEW,) if comparison.expected_rows is None else ()
        if comparison.expected_rows is not None and comparison.spread is None:
            notes = ("spread is taken as a hundredth of the bounds' width",)
        return PlannedRelease(
            statistic=comparison.statistic.name,
            mechanism=comparison.method_name if planned is None else planned.method,
            scale=comparison.noise_scale(),
            guarantee=comparison.guarantee,
            read="the difference",
            expected_error=None if error is None else _WITHIN * error,
            standard_error=error,
            smallest_effect=None if planned is None else planned.smallest_effect,
            remaining=remaining,
            remaining_after=after,
            notes=notes if planned is None else (*notes, *planned.notes),
            details={"statistic": comparison.statistic.to_dict()},
        )

    def _selected(self, question: GroupQuestion, request: str | None) -> PlannedRelease:
        remaining, after = affordable(self.ledger, question.claim)
        rule = question.mechanism
        alone = float(rule.chance([1])[0])
        return PlannedRelease(
            statistic="groups",
            mechanism=rule.name,
            scale=getattr(rule, "scale", None),
            guarantee=question.claim,
            read="hidden units",
            expected_error=float(rule.size_shown()),
            standard_error=None,
            smallest_effect=None,
            remaining=remaining,
            remaining_after=after,
            notes=(
                f"groups of {rule.size_shown()} are shown with probability 95 %, of "
                f"{rule.size_shown(0.5)} with 50 %, of one with {alone:.2g}",
            ),
            details={"mechanism": rule.to_dict(), "sensitivity": question.sensitivity.to_dict()},
        )

    def _clustered(self, model: ClusterModel, columns: tuple[str, ...], request: str | None) -> PlannedRelease:
        planned = model.plan()
        remaining, after = affordable(self.ledger, planned.guarantee)
        return PlannedRelease(
            statistic=model.name,
            mechanism=planned.mechanism,
            scale=planned.scale,
            guarantee=planned.guarantee,
            read=planned.read,
            expected_error=planned.expected_error,
            standard_error=planned.standard_error,
            smallest_effect=None,
            remaining=remaining,
            remaining_after=after,
            notes=() if planned.expected_error is not None else (_FEW,),
            details=planned.to_dict(),
        )
