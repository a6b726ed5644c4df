"""The question of several arms: each against the control, described from public facts alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any, ClassVar

from discreet.core import requirements
from discreet.core.door import Allowance, Claim, Passed
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.rows import Snapshot
from discreet.core.schema import Bounds, Schema
from discreet.core.stability import check_unit_sum
from discreet.ledgers import Ledger
from discreet.plans.plan import EXPECTED_ROWS, Plan, affordable
from discreet.questions.comparison.comparison_plan import plan_methods
from discreet.questions.comparison.comparison_question import OutcomesOfArms, arms_on_engine
from discreet.questions.comparison.many_arms import ArmComparisons, compare_arm_totals
from discreet.questions.comparison.methods import Setting, Spending
from discreet.questions.forms import COLUMN, METHOD, NUMBER, PAIR, UNIT_SUM, WHOLE, Form
from discreet.questions.mean_difference import MeanDifference, size_is_public
from discreet.questions.question import DEFAULT_ROWS

__all__ = ["ArmsQuestion"]


@dataclass(frozen=True)
class ArmsQuestion(OutcomesOfArms[ArmComparisons]):
    """Several arms of a data set, and how the mean of a column differs between each of them and the control.

    All arms are measured at once: a unit is in one arm, so they cost what one of them costs. Intervals and p-values are
    corrected for the number of comparisons (Bonferroni).

    Guarantee
    ---------
    As asked for, for the schema's units and neighbours. Proof: ``docs/proofs/mean_difference.md``.

    Attributes
    ----------
    column, by
        The outcome, and the column of arms: two labels or more, control first.
    method
        ``"direct"``, or ``"noise_aware"`` for winsorized partition means of every arm.
    expected_rows
        Number of units in all arms together, for plans only.

    The others are those of `discreet.compare_means`.
    """

    ask: ClassVar[str] = "compare_arms"
    meaning: ClassVar[str] = "Whether the means of the arms differ from that of the control, and by how much."
    forms: ClassVar[Mapping[str, Form]] = {
        "column": COLUMN,
        "by": COLUMN,
        "partitions": WHOLE,
        "censor": PAIR,
        "method": METHOD,
        "arm": METHOD,
        "unit_sum": UNIT_SUM,
        "spread": NUMBER,
        "expected_rows": WHOLE,
    }
    schema: Schema
    column: str
    _: KW_ONLY
    by: str
    guarantee: Guarantee
    partitions: int | None = None
    censor: tuple[float, float] = (0.1, 0.1)
    method: str = "direct"
    arm: str = "public"
    unit_sum: Bounds | None = None
    spread: float | None = None
    expected_rows: int | None = None

    def __post_init__(self) -> None:
        requirements.instance("guarantee", self.guarantee, Guarantee, "a guarantee such as PureDP(1.0)")
        requirements.one_of("method", self.method, ("direct", "noise_aware"))
        if self.schema.categories(self.by).cells < 2:
            raise InvalidParameter("by", self.by, "must have two labels or more, control first", "Declare two labels.")
        if self.unit_sum is not None:
            check_unit_sum(self.schema, (self.column,), self.unit_sum)
        if self.expected_rows is not None:
            arms = self.schema.categories(self.by).cells
            requirements.positive_integer("expected_rows", self.expected_rows, at_least=2 * arms)
        if self.spread is not None:
            requirements.positive("spread", self.spread)
        if self.method == "noise_aware" and self.statistic.partitions is None:
            raise InvalidParameter("partitions", None, "is needed by noise_aware", "Pass partitions=….")
        self.statistic  # noqa: B018  (refuses what cannot be answered before anything is planned or spent)

    @cached_property
    def statistic(self) -> MeanDifference:  # type: ignore[override]  # worked out once, and never set
        """What is measured."""
        return self._measured(arms=self.schema.categories(self.by).cells, partitions=self.partitions)

    def content(self) -> dict[str, Any]:
        return {
            "ask": self.ask,
            "column": self.column,
            "by": self.by,
            "unit_sum": None if self.unit_sum is None else self.unit_sum.to_dict(),
            "statistic": self.statistic.to_dict(),
            "method": self._method.parameters(),
            "schema": self.schema.facts_of([self.column, self.by]),
        }

    def draw(self, rows: Snapshot, claim: Claim, allowance: Allowance, passed: Passed) -> ArmComparisons:
        arms = arms_on_engine(rows, self._selected(), self.statistic.partitions)
        return compare_arm_totals(arms, self.statistic, self._terms(), allowance, passed, against_control=True)

    def read(self, stored: Any) -> ArmComparisons:
        return ArmComparisons.from_dict(stored)

    def plan(self, ledger: Ledger | None = None) -> Plan:
        remaining, after = affordable(ledger, self.claim(ledger).guarantee)
        error, effect = self._expected()
        notes = [f"corrected for {self.statistic.arms - 1} comparisons with the control"]
        if self.expected_rows is None:
            notes.append(EXPECTED_ROWS)
        return Plan(
            statistic=self.statistic.name,
            mechanism=self.method,
            guarantee=self.guarantee,
            read="a difference",
            expected_error=NormalDist().inv_cdf(0.975) * error,
            scenario=self._scenario(self._arm_rows),
            standard_error=error,
            smallest_effect=effect,
            remaining=remaining,
            remaining_after=after,
            notes=tuple(notes),
            details={"statistic": self.statistic.to_dict()},
        )

    @property
    def _arm_rows(self) -> int:
        return DEFAULT_ROWS if self.expected_rows is None else self.expected_rows // self.statistic.arms

    def _expected(self) -> tuple[float, float]:
        """Standard error and smallest effect of one difference, with arms of equal sizes, after the correction."""
        size = self._arm_rows
        public = size_is_public(self.schema.neighbours, self.statistic.arm)
        setting = Setting(self.statistic, self.schema.neighbours, (size, size) if public else None)
        level = 1 - 0.05 / (self.statistic.arms - 1)
        planned = plan_methods(
            [self._method], Spending(self.guarantee), setting, (size, size), self._guess, level=level
        )
        return planned.standard_error[planned.method], planned.smallest_effect
