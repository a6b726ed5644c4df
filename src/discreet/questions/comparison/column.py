"""Column comparison: an A/B test of a column between two arms, described from public facts alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.protection import Neighbours
from discreet.core.schema import Bounds, Contribution, Schema
from discreet.core.stability import check_unit_sum
from discreet.questions.comparison.compare import Terms, method_named, public_facts
from discreet.questions.comparison.comparison_plan import ComparisonPlan, plan_methods
from discreet.questions.comparison.methods import Best, Direct, Method, NoiseAware, Setting
from discreet.questions.comparison.noise_shares import Spending
from discreet.questions.mean_difference import MeanDifference, size_is_public

if TYPE_CHECKING:
    from discreet.core.ledger import Ledger

__all__ = ["ColumnComparison"]


@dataclass(frozen=True, kw_only=True)
class ColumnComparison:
    """Two arms of a data set that a schema describes, and how to compare the mean of a column between them.

    Under replace-one the sizes of arms count as public only where rows are the units and no row can drop out.

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

    schema: Schema
    column: str
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
            raise InvalidParameter("by", self.by, "must have two labels, control first", "Declare two labels.")
        if self.unit_sum is not None:
            check_unit_sum(self.schema, (self.column,), self.unit_sum)
        if self.expected_rows is not None:
            requirements.positive_integer("expected_rows", self.expected_rows, at_least=4)
        chosen = self._method
        if self.statistic.partitions is None and not isinstance(chosen, Direct | Best):
            raise InvalidParameter("partitions", None, f"is needed by {chosen.name}", "Pass partitions=….")

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

    @cached_property
    def statistic(self) -> MeanDifference:
        """What is measured."""
        labels, column = self.schema.categories(self.by), self.schema.bounds(self.column)
        fixed = not self._by_id and labels.keeps_every_row and column.keeps_every_row
        replaced = self.schema.neighbours is Neighbours.REPLACE_ONE
        return MeanDifference(
            bounds=(self.outcome.low, self.outcome.high),
            partitions=self.partitions if self.partition_by is None else self._natural_partitions(self.partition_by),
            censor=requirements.listed("censor", self.censor, "censor=(0.1, 0.1)"),
            arm="private" if replaced and not fixed else self.arm,
        )

    def _natural_partitions(self, column: str) -> int:
        """Number of natural partitions; refuses what the proof does not cover."""
        count = self.schema.categories(column).cells
        if self.partitions is not None and self.partitions != count:
            raise InvalidParameter(
                "partitions", self.partitions, f"column {column!r} has {count} labels", "Leave it out."
            )
        if self.schema.neighbours is Neighbours.REPLACE_ONE:
            raise InvalidParameter(
                "partition_by", column, "a replaced record could change its partition, and move two of them",
                "Use add/remove neighbours, or partitions by digest.",
            )  # fmt: skip
        return count

    @property
    def method_name(self) -> str:
        """Name of the method that was asked for."""
        return self._method.name

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
            "schema": self.schema.facts_of(columns),
        }

    def _setting(self) -> Setting:
        public = size_is_public(self.schema.neighbours, self.statistic.arm) and self.expected_rows is not None
        return Setting(self.statistic, self.schema.neighbours, self._sizes() if public else None)

    def _sizes(self) -> tuple[int, int]:
        rows = cast(int, self.expected_rows)
        return -(-rows // 2), rows // 2

    def _single(self) -> Method:
        """The method that would run."""
        chosen = self._method
        return chosen.chosen(Spending(self.guarantee), self._setting()) if isinstance(chosen, Best) else chosen

    def selection(self) -> dict[str, Any]:
        """What has to be added up, as `discreet.core.rows.Selected` takes it."""
        return {
            "by": (self.by,) if self.partition_by is None else (self.by, self.partition_by),
            "columns": (self.column,),
            "contribution": Contribution(groups=1, rows=1) if self._by_id else None,
            "unit_sum": self.outcome if self._by_id else None,
        }

    def terms(self, ledger: Ledger) -> Terms:
        """Validated arguments of the comparison itself."""
        facts = public_facts(self.schema.neighbours, self.statistic.arm)
        return Terms.of(
            self.guarantee, self.statistic, self.schema.protection(*facts), method=self._method, spread=self.spread,
            question=self.content(), ledger=ledger,
        )  # fmt: skip

    def plan(self) -> ComparisonPlan | None:
        """What the comparison would show; None where nothing says how many units there are, or no formula does."""
        single = self._single()
        if self.expected_rows is None or not isinstance(single, Direct | NoiseAware):
            return None
        guess = (self.outcome.high - self.outcome.low) / 100 if self.spread is None else self.spread
        planned = plan_methods([single], Spending(self.guarantee), self._setting(), self._sizes(), guess)
        return planned if isinstance(single, NoiseAware) else replace(planned, notes=())  # they are about partitions
