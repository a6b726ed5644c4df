"""The question of a comparison: an A/B test of a column between two arms, described from public facts alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.door import Allowance, Claim, Passed
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.protection import Neighbours
from discreet.core.rows import Selected, Snapshot, totals, totals_by_partition
from discreet.core.rows.totals import BUCKETS
from discreet.core.schema import Bounds, Contribution, Schema
from discreet.core.stability import check_unit_sum
from discreet.display import number
from discreet.ledgers import Ledger
from discreet.plans.plan import EXPECTED_ROWS, Plan, affordable
from discreet.questions.comparison.arms import Arms
from discreet.questions.comparison.compare import MeanComparison, Terms, compare_totals, method_named, public_facts
from discreet.questions.comparison.comparison_plan import ComparisonPlan, plan_methods
from discreet.questions.comparison.methods import Best, Direct, Method, NoiseAware, Setting, Spending
from discreet.questions.forms import COLUMN, METHOD, NUMBER, PAIR, UNIT_SUM, WHOLE, Form
from discreet.questions.mean_difference import MeanDifference, size_is_public
from discreet.questions.question import DEFAULT_ROWS, Question

__all__ = ["ComparisonQuestion", "OutcomesOfArms", "arms_by_column", "arms_on_engine"]


# ---- Partitioning: the arms of a comparison from the totals of a data set, per arm and partition


MOST_PARTITIONS = BUCKETS // 8
"""Beyond this, folding buckets would make partitions unequal."""


def arms_by_column(snapshot: Snapshot, selected: Selected) -> Arms:
    """Totals by arm and natural partition: two columns of labels, of which a unit keeps one combination."""
    name = selected.columns[0]
    outcome = selected.unit_sum or snapshot.schema.bounds(name)
    found = totals(snapshot, selected, [(name,), (name, name)])
    counts, sums, squares = found.counts, found.sums[(name,)], found.sums[name, name]
    low = outcome.lowest
    offsets = (counts, sums - low * counts, squares - 2 * low * sums + low**2 * counts)
    return _arms(snapshot, selected, *offsets)


def arms_on_engine(snapshot: Snapshot, selected: Selected, partitions: int | None) -> Arms:
    """Totals of the units of every arm: the cells of ``selected``, whose single column is the outcome."""
    if len(selected.by) != 1 or len(selected.columns) != 1:
        raise InvalidParameter("by", selected.by, "must be one column of arms, with one outcome", "Name one of each.")
    if partitions is not None and partitions > MOST_PARTITIONS:
        raise InvalidParameter("partitions", partitions, f"must be at most {MOST_PARTITIONS}", "Use fewer partitions.")
    if selected.unit_sum is not None:
        return _arms(snapshot, selected, *totals_by_partition(snapshot, selected, partitions))
    if partitions is not None:
        raise InvalidParameter(
            "partitions", partitions, "needs an id column as privacy unit, to tell units apart",
            'Declare PrivacyUnit("id"), or use method="direct".',
        )  # fmt: skip
    return arms_by_column(snapshot, selected)


def _arms(
    snapshot: Snapshot, selected: Selected, counts: NDArray[Any], sums: NDArray[Any], squares: NDArray[Any]
) -> Arms:
    """Arms from counts, sums and squares of offsets from the lower bound, one row per arm."""
    labels = tuple(str(label) for label in snapshot.schema.categories(selected.by[0]).labels)
    outcome = selected.unit_sum or snapshot.schema.bounds(selected.columns[0])
    shape = (len(labels), -1)
    largest = outcome.highest - outcome.lowest
    return Arms(
        low=float(outcome.lowest * outcome.step),
        width=float(largest * outcome.step),
        largest=largest,
        counts=counts.reshape(shape).astype(np.int64),
        sums=sums.reshape(shape),
        squares=tuple(int(value) for value in squares.reshape(shape).sum(axis=1)),
        labels=labels,
    )


# ---- Outcomes of arms: what questions about two arms and about several have in common


A = TypeVar("A")


class OutcomesOfArms(Question[A]):
    """A column, the column of its arms, and how outcomes are bounded, protected and added up.

    The fields are those of the questions: their order is that of the methods of a session.
    """

    column: str
    by: str
    censor: tuple[float, float]
    method: str | Method
    arm: str
    unit_sum: Bounds | None
    spread: float | None
    statistic: MeanDifference

    @property
    def _by_id(self) -> bool:
        return self.schema.unit.column is not None

    @property
    def outcome(self) -> Bounds:
        """Bounds of one unit's outcome."""
        return self.unit_sum or self.schema.bounds(self.column)

    @property
    def _method(self) -> Method:
        return method_named(self.method, spread=self.spread)

    @property
    def _guess(self) -> float:
        """The standard deviation that a plan expects."""
        return (self.outcome.high - self.outcome.low) / 100 if self.spread is None else self.spread

    def _scenario(self, rows: int) -> str:
        """What a plan takes the data to be."""
        guessed = "" if self.spread is not None else ", a hundredth of the bounds' width"
        spread = f"a standard deviation of {number(self._guess)}{guessed}"
        return f"{rows:,} rows per arm, most at the lower bound, with {spread}"

    def _measured(self, *, arms: int, partitions: int | None) -> MeanDifference:
        """What is measured. Sizes of arms are public only where rows are the units and no row can drop out."""
        self.schema.bounds(self.column)  # refuses labels
        fixed = not self._by_id and self.schema.keeps_every_row([self.by, self.column])
        replaced = self.schema.neighbours is Neighbours.REPLACE_ONE
        return MeanDifference(
            bounds=(self.outcome.low, self.outcome.high),
            arms=arms,
            partitions=partitions,
            censor=requirements.listed("censor", self.censor, "censor=(0.1, 0.1)"),
            arm="private" if replaced and not fixed else self.arm,
        )

    def _selected(self, *within: str) -> Selected:
        """What has to be added up, by arm and by the columns ``within`` them."""
        return Selected(
            by=(self.by, *within),
            columns=(self.column,),
            contribution=Contribution(groups=1, rows=1) if self._by_id else None,
            unit_sum=self.outcome if self._by_id else None,
        )

    def _terms(self) -> Terms:
        """Validated arguments of the comparison itself."""
        facts = public_facts(self.schema.neighbours, self.statistic.arm)
        return Terms.of(
            self.guarantee, self.statistic, self.schema.protection(*facts), method=self._method,
            question=self.content(),
        )  # fmt: skip

    def claim(self, ledger: Ledger | None) -> Claim:
        return self._terms().certified_claim(self.statistic)


_WITHIN = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class ComparisonQuestion(OutcomesOfArms[MeanComparison]):
    """Two arms of a data set that a schema describes, and how to compare the mean of a column between them.

    Under replace-one the sizes of arms count as public only where rows are the units and no row can drop out.

    Guarantee
    ---------
    As asked for, for the schema's units and neighbours. Proof: ``docs/proofs/mean_difference.md``.

    Attributes
    ----------
    column, by
        The outcome, and the column of arms: two labels, control first.
    partition_by
        Column of natural partitions; by default a unit's partition is a salted digest of its id.
    expected_rows
        Number of units in both arms together, for plans only.

    The others are those of `discreet.compare_means`.
    """

    ask: ClassVar[str] = "compare_means"
    meaning: ClassVar[str] = "Whether the means of the two arms differ, and by how much."
    forms: ClassVar[Mapping[str, Form]] = {
        "column": COLUMN,
        "by": COLUMN,
        "partitions": WHOLE,
        "partition_by": COLUMN,
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
    partition_by: str | None = None
    censor: tuple[float, float] = (0.1, 0.1)
    method: str | Method = "best"
    arm: str = "public"
    unit_sum: Bounds | None = None
    spread: float | None = None
    expected_rows: int | None = None

    def __post_init__(self) -> None:
        requirements.instance("guarantee", self.guarantee, Guarantee, "a guarantee such as PureDP(1.0)")
        if self.schema.categories(self.by).cells != 2:
            raise InvalidParameter(
                "by",
                self.by,
                "must have two labels, control first",
                "For more of them ask compare_arms; or list two labels, so that rows with others are dropped.",
            )
        if self.unit_sum is not None:
            check_unit_sum(self.schema, (self.column,), self.unit_sum)
        if self.expected_rows is not None:
            requirements.positive_integer("expected_rows", self.expected_rows, at_least=4)
        chosen = self._method
        if self.statistic.partitions is None and not isinstance(chosen, Direct | Best):
            raise InvalidParameter("partitions", None, f"is needed by {chosen.name}", "Pass partitions=….")

    @cached_property
    def statistic(self) -> MeanDifference:  # type: ignore[override]  # worked out once, and never set
        """What is measured."""
        natural = self.partition_by
        return self._measured(
            arms=self.schema.categories(self.by).cells,
            partitions=self.partitions if natural is None else self._natural_partitions(natural),
        )

    def _natural_partitions(self, column: str) -> int:
        """Number of natural partitions; refuses what the proof does not cover."""
        count = self.schema.categories(column).cells
        if self.partitions is not None and self.partitions != count:
            raise InvalidParameter(
                "partitions", self.partitions, f"column {column!r} has {count} labels", "Leave partitions out."
            )
        if self.schema.neighbours is Neighbours.REPLACE_ONE:
            raise InvalidParameter(
                "partition_by", column, "a replaced record could change its partition, and move two of them",
                "Use add/remove neighbours, or partitions by digest.",
            )  # fmt: skip
        return count

    def noise_scale(self) -> float | None:
        """Scale of the noise on an arm's total, where arms are measured directly with the whole budget."""
        if not isinstance(self._single(), Direct):
            return None
        spending = Spending(self.guarantee)
        moved = replace(self.statistic, norm=spending.norm).sensitivity(neighbours=self.schema.neighbours)
        return spending.mechanism.calibrate(self.guarantee, moved).scale * (self.outcome.high - self.outcome.low)

    def content(self) -> dict[str, Any]:
        """All of what is asked, as JSON-ready data."""
        columns = [self.column, self.by, *([] if self.partition_by is None else [self.partition_by])]
        return {
            "ask": "compare_means",
            "column": self.column,
            "by": self.by,
            "partition_by": self.partition_by,
            "unit_sum": None if self.unit_sum is None else self.unit_sum.to_dict(),
            "statistic": self.statistic.to_dict(),
            "method": self._method.parameters(),
            "schema": self.schema.facts_of(columns),
        }

    def _setting(self) -> Setting:
        public = size_is_public(self.schema.neighbours, self.statistic.arm) and self.expected_rows is not None
        return Setting(self.statistic, self.schema.neighbours, self._sizes() if public else None)

    def _sizes(self) -> tuple[int, int]:
        rows = self.expected_rows or 0
        return -(-rows // 2), rows // 2

    def _single(self) -> Method:
        """The method that would run."""
        chosen = self._method
        return chosen.chosen(Spending(self.guarantee), self._setting()) if isinstance(chosen, Best) else chosen

    def draw(self, rows: Snapshot, claim: Claim, allowance: Allowance, passed: Passed) -> MeanComparison:
        if self.partition_by is None:
            arms = arms_on_engine(rows, self._selected(), self.statistic.partitions)
        else:
            arms = arms_by_column(rows, self._selected(self.partition_by))
        return compare_totals(arms, self.statistic, self._terms(), allowance, passed)

    def read(self, stored: Any) -> MeanComparison:
        return MeanComparison.from_dict(stored)

    def plan(self, ledger: Ledger | None = None) -> Plan:
        remaining, after = affordable(ledger, self.claim(ledger).guarantee)
        told = self.expected_rows is not None
        planned = (self if told else replace(self, expected_rows=2 * DEFAULT_ROWS)).methods_plan()
        error = None if planned is None else planned.standard_error[planned.method]
        notes = () if told else (EXPECTED_ROWS,)
        return Plan(
            statistic=self.statistic.name,
            mechanism=self._method.name if planned is None else planned.method,
            scale=self.noise_scale(),
            guarantee=self.guarantee,
            read="the difference",
            expected_error=None if error is None else _WITHIN * error,
            scenario="" if planned is None else self._scenario((self.expected_rows or 2 * DEFAULT_ROWS) // 2),
            standard_error=error,
            smallest_effect=None if planned is None else planned.smallest_effect,
            remaining=remaining,
            remaining_after=after,
            notes=notes if planned is None else (*notes, *planned.notes),
            details={"statistic": self.statistic.to_dict()},
        )

    def methods_plan(self) -> ComparisonPlan | None:
        """What the chosen method would show; None where nothing says how many units there are, or no formula does."""
        single = self._single()
        if self.expected_rows is None or not isinstance(single, Direct | NoiseAware):
            return None
        planned = plan_methods([single], Spending(self.guarantee), self._setting(), self._sizes(), self._guess)
        return planned if isinstance(single, NoiseAware) else replace(planned, notes=())  # they are about partitions
