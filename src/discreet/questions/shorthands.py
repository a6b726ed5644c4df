"""Shorthands: the obvious names of questions that are special cases of others."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Unpack, overload

from discreet.core.columns import Label, Order
from discreet.core.guarantee import Guarantee
from discreet.core.schema import Bounds, Contribution, Schema
from discreet.questions.comparison.many import ArmComparisons, ArmsQuestion
from discreet.questions.count import CountRelease
from discreet.questions.distinct import DistinctQuestion
from discreet.questions.grouped import GroupedRelease
from discreet.questions.left_out import LeftOutQuestion, LeftOutRelease
from discreet.questions.named import NamedQuestions, Names
from discreet.questions.profile.question import ProfileQuestion, ProfileRelease
from discreet.questions.proportion import ProportionQuestion, ProportionReading
from discreet.questions.quality import QualityQuestion, QualityRelease
from discreet.questions.quantile import QuantileQuestion, QuantileRelease
from discreet.questions.question import Form, Question
from discreet.questions.spending import Spend, spending
from discreet.questions.variance import SpreadInPartsRelease, StandardDeviationQuestion

__all__ = ["SHORTHANDS", "Shorthand", "Shorthands"]


@dataclass(frozen=True)
class Shorthand:
    """Another name for a question, with some of its settings fixed.

    Examples
    --------
    >>> from discreet import Bounds, PureDP, Schema
    >>> schema = Schema(columns={"age": Bounds(0, 120, grid=1)})
    >>> SHORTHANDS["median"](schema, "age", PureDP(1.0)).probabilities
    0.5
    """

    kind: type[Question[Any]]
    fixed: Mapping[str, Any]

    @property
    def forms(self) -> Mapping[str, Form]:
        """The settings that are left, and how each is written in a plan file."""
        return {name: form for name, form in self.kind.forms.items() if name not in self.fixed}

    def fields(self) -> set[str]:
        """Names of everything that the question is made of, the settings that are fixed included."""
        return self.kind.fields()

    def settings(self) -> dict[str, bool]:
        """The settings of a plan file that are left, and whether each is required."""
        return {name: required for name, required in self.kind.settings().items() if name not in self.fixed}

    def __call__(self, schema: Schema, *settings: Any, **named: Any) -> Question[Any]:
        """The question, from what is left of its settings in their order."""
        free = [field.name for field in fields(self.kind) if field.name not in ("schema", *self.fixed)]  # type: ignore[arg-type]
        return self.kind(schema=schema, **dict(zip(free, settings, strict=False)), **named, **self.fixed)  # type: ignore[call-arg]


SHORTHANDS: dict[str, Shorthand] = {
    "median": Shorthand(QuantileQuestion, {"probabilities": 0.5}),
    "share": Shorthand(ProportionQuestion, {}),
}


class Shorthands(NamedQuestions):
    """The obvious names: ``median("age", …)`` is short for ``quantile("age", 0.5, …)``."""

    def profile(
        self, guarantee: Guarantee | None = None, *, columns: Names = (), proportion: float = 0.95,
        order: Order = "ymd", request: str | None = None, **spend: Unpack[Spend],
    ) -> ProfileRelease:  # fmt: skip
        """What columns hold of which nothing is declared: kinds, bounds, quartiles, missing and distinct values.

        ``columns`` are all columns of the source but the id by default; discreet reads their names alone for it.
        """
        question = ProfileQuestion(
            self.schema,
            spending(ProfileQuestion, guarantee, spend),
            columns=self.source_names() if isinstance(columns, tuple | list) and not columns else columns,
            proportion=proportion,
            order=order,
        )
        return self.ask(question, request)

    @abstractmethod
    def source_names(self) -> tuple[str, ...]:
        """Names of the source's columns but the id."""

    @overload
    def distinct(
        self, column: str, guarantee: Guarantee | None = None, *, contribution: Contribution | None = None,
        request: str | None = None, **spend: Unpack[Spend],
    ) -> CountRelease: ...  # fmt: skip
    @overload
    def distinct(
        self, column: str, guarantee: Guarantee | None = None, *, by: Names, contribution: Contribution | None = None,
        request: str | None = None, **spend: Unpack[Spend],
    ) -> GroupedRelease[CountRelease]: ...  # fmt: skip
    def distinct(
        self, column: str, guarantee: Guarantee | None = None, *, by: Names = (),
        contribution: Contribution | None = None, request: str | None = None, **spend: Unpack[Spend],
    ) -> CountRelease | GroupedRelease[CountRelease]:  # fmt: skip
        """How many different labels a column holds, in all or by group; of the id column, how many units there are."""
        question = DistinctQuestion(
            self.schema, column, spending(DistinctQuestion, guarantee, spend), by=by, contribution=contribution
        )
        return self.ask(question, request)

    def quality(
        self, guarantee: Guarantee | None = None, *, columns: Names = (), request: str | None = None,
        **spend: Unpack[Spend],
    ) -> QualityRelease:  # fmt: skip
        """Which share of each column's values can be used: read, inside the bounds, on the list."""
        question = QualityQuestion(self.schema, spending(QualityQuestion, guarantee, spend), columns=columns)
        return self.ask(question, request)

    def left_out(
        self, guarantee: Guarantee | None = None, *, columns: Names = (), by: Names = (),
        contribution: Contribution | None = None, most_rows: int | None = None, request: str | None = None,
        **spend: Unpack[Spend],
    ) -> LeftOutRelease:  # fmt: skip
        """How many rows and units the limits and missing values leave out of questions about some columns."""
        question = LeftOutQuestion(
            self.schema,
            spending(LeftOutQuestion, guarantee, spend),
            columns=columns,
            by=by,
            contribution=contribution,
            most_rows=most_rows,
        )
        return self.ask(question, request)

    def compare_arms(
        self, column: str, *, by: str, guarantee: Guarantee | None = None, partitions: int | None = None,
        censor: tuple[float, float] = (0.1, 0.1), method: str = "direct", arm: str = "public",
        unit_sum: Bounds | None = None, spread: float | None = None, expected_rows: int | None = None,
        request: str | None = None, **spend: Unpack[Spend],
    ) -> ArmComparisons:  # fmt: skip
        """Compare a column's mean between each arm and the control, the first label of ``by``.

        All arms cost what one costs; intervals and p-values are corrected for the number of comparisons. The other
        parameters are those of `compare_means`.
        """
        question = ArmsQuestion(
            self.schema,
            column,
            by=by,
            guarantee=spending(ArmsQuestion, guarantee, spend),
            partitions=partitions,
            censor=censor,
            method=method,
            arm=arm,
            unit_sum=unit_sum,
            spread=spread,
            expected_rows=expected_rows,
        )
        return self.ask(question, request)

    @overload
    def median(
        self, column: str, guarantee: Guarantee | None = None, *, interval: float | None = 0.95,
        rows_at_least: int | None = None, contribution: Contribution | None = None, unit_sum: Bounds | None = None,
        request: str | None = None, **spend: Unpack[Spend],
    ) -> QuantileRelease: ...  # fmt: skip
    @overload
    def median(
        self, column: str, guarantee: Guarantee | None = None, *, by: Names, interval: float | None = 0.95,
        rows_at_least: int | None = None, contribution: Contribution | None = None, unit_sum: Bounds | None = None,
        request: str | None = None, **spend: Unpack[Spend],
    ) -> GroupedRelease[QuantileRelease]: ...  # fmt: skip
    def median(
        self, column: str, guarantee: Guarantee | None = None, *, by: Names = (), interval: float | None = 0.95,
        rows_at_least: int | None = None, contribution: Contribution | None = None, unit_sum: Bounds | None = None,
        request: str | None = None, **spend: Unpack[Spend],
    ) -> QuantileRelease | GroupedRelease[QuantileRelease]:  # fmt: skip
        """Median of a column, in all or by group: `quantile` at 0.5."""
        question = QuantileQuestion(
            self.schema,
            column,
            0.5,
            spending(QuantileQuestion, guarantee, spend),
            by=by,
            interval=interval,
            rows_at_least=rows_at_least,
            contribution=contribution,
            unit_sum=unit_sum,
        )
        return self.ask(question, request)

    @overload
    def share(
        self, column: str, label: Label, guarantee: Guarantee | None = None, *,
        contribution: Contribution | None = None, weighted: bool = False, request: str | None = None,
        **spend: Unpack[Spend],
    ) -> ProportionReading: ...  # fmt: skip
    @overload
    def share(
        self, column: str, label: Label, guarantee: Guarantee | None = None, *, by: Names,
        contribution: Contribution | None = None, weighted: bool = False, request: str | None = None,
        **spend: Unpack[Spend],
    ) -> GroupedRelease[ProportionReading]: ...  # fmt: skip
    def share(
        self, column: str, label: Label, guarantee: Guarantee | None = None, *, by: Names = (),
        contribution: Contribution | None = None, weighted: bool = False, request: str | None = None,
        **spend: Unpack[Spend],
    ) -> ProportionReading | GroupedRelease[ProportionReading]:  # fmt: skip
        """Proportion of rows with a label, in all or by group: `proportion` under another name."""
        paid = spending(ProportionQuestion, guarantee, spend)
        question = ProportionQuestion(
            self.schema, column, label, paid, by=by, contribution=contribution, weighted=weighted
        )
        return self.ask(question, request)

    @overload
    def std(
        self, column: str, guarantee: Guarantee | None = None, *, contribution: Contribution | None = None,
        unit_sum: Bounds | None = None, expected_rows: int | None = None, expected_mean: float | None = None,
        request: str | None = None, **spend: Unpack[Spend],
    ) -> SpreadInPartsRelease: ...  # fmt: skip
    @overload
    def std(
        self, column: str, guarantee: Guarantee | None = None, *, by: Names, contribution: Contribution | None = None,
        unit_sum: Bounds | None = None, expected_rows: int | None = None, expected_mean: float | None = None,
        request: str | None = None, **spend: Unpack[Spend],
    ) -> GroupedRelease[SpreadInPartsRelease]: ...  # fmt: skip
    def std(
        self, column: str, guarantee: Guarantee | None = None, *, by: Names = (),
        contribution: Contribution | None = None, unit_sum: Bounds | None = None, expected_rows: int | None = None,
        expected_mean: float | None = None, request: str | None = None, **spend: Unpack[Spend],
    ) -> SpreadInPartsRelease | GroupedRelease[SpreadInPartsRelease]:  # fmt: skip
        """Standard deviation of a column, in all or by group, together with the mean."""
        question = StandardDeviationQuestion(
            self.schema,
            column,
            spending(StandardDeviationQuestion, guarantee, spend),
            by=by,
            contribution=contribution,
            unit_sum=unit_sum,
            expected_rows=expected_rows,
            expected_mean=expected_mean,
        )
        return self.ask(question, request)
