"""Asking: the vocabulary that a session and its planner share, and what a planner answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.display import Facts, as_html, as_text, number
from discreet.errors import InvalidParameter
from discreet.guarantees import Guarantee
from discreet.ledger import Ledger
from discreet.planning import Plan, plan
from discreet.questions import Question, Questions, Selection
from discreet.releases import Release
from discreet.schema import Bounds, Contribution, Schema
from discreet.statistics.tables import ContingencyTable

if TYPE_CHECKING:
    from discreet.inference.chi_square import ChiSquareResult
    from discreet.statistics.statistic import Statistic

__all__ = ["Asking", "PlannedRelease", "Planner", "TestedRelease"]

_POWER = NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(0.8)
"""Multiple of the standard error that a 5 % test finds with 80 % power."""


@dataclass(frozen=True)
class TestedRelease:
    """A test with the release it was computed from; the test is post-processing and costs nothing more."""

    __test__ = False  # not a test case

    result: ChiSquareResult
    release: Release

    @property
    def pvalue(self) -> float:
        """The p-value."""
        return self.result.pvalue

    @property
    def statistic(self) -> float:
        """The test statistic."""
        return self.result.statistic

    def to_dict(self) -> dict[str, Any]:
        """Both as JSON-ready data."""
        return {"result": self.result.to_dict(), "release": self.release.to_dict()}

    def __str__(self) -> str:
        return f"{self.result}\n{self.release}"

    def _repr_html_(self) -> str:
        return self.result._repr_html_() + self.release._repr_html_()


@dataclass(frozen=True)
class PlannedRelease:
    """What a question would give and cost.

    Attributes
    ----------
    plan
        Mechanism, scale, noise and ledger.
    statistic
        What would be measured.
    expected_error
        95 % of the noise stays below this, in units of what is read (ranks for quantiles).
    smallest_effect
        Difference that a 5 % test finds with 80 % power, from noise alone; None for quantiles.
    """

    plan: Plan
    statistic: Statistic
    expected_error: float
    smallest_effect: float | None

    def facts(self) -> Facts:
        """What to show."""
        effect = "–" if self.smallest_effect is None else number(self.smallest_effect)
        shown = [(name, value) for name, value in self.plan.facts() if not name.startswith("error")]
        return [
            ("statistic", self.statistic.name),
            ("expected error", f"at most {number(self.expected_error)} (95 %)"),
            ("smallest effect", f"{effect} (5 % test, 80 % power, noise alone)"),
            *shown,
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {
            "statistic": self.statistic.to_dict(),
            "expected_error": self.expected_error,
            "smallest_effect": self.smallest_effect,
            **self.plan.to_dict(),
        }

    def __str__(self) -> str:
        return as_text("Plan", self.facts())

    def _repr_html_(self) -> str:
        return as_html("Plan", self.facts())


class Asking(ABC):
    """The vocabulary that a session and its planner share; each says what to do with a question."""

    schema: Schema

    @abstractmethod
    def _answer(self, question: Question, request: str | None) -> Any:
        """What is done with a question."""

    @abstractmethod
    def _tested(self, test: Any, answer: Any) -> Any:
        """What is done with a test of an answer."""

    def _independent_rows(self, contribution: Contribution | None) -> None:
        """Tests take rows as independent, which several rows of one unit are not."""
        limits = self.schema.contribution(contribution)
        if limits.total != 1 and (limits.groups, limits.rows) != (1, 1):
            raise InvalidParameter(
                "contribution",
                limits,
                "a test needs independent rows, so at most one of each unit",
                "Pass contribution=Contribution(total=1).",
            )

    @property
    def _questions(self) -> Questions:
        return Questions(self.schema)

    def count(
        self,
        guarantee: Guarantee,
        *,
        by: str | Sequence[str] = (),
        contribution: Contribution | None = None,
        request: str | None = None,
    ) -> Any:
        """Number of rows, in all or by group."""
        chosen = Selection(by=_names(by), contribution=contribution)
        return self._answer(self._questions.count(guarantee, chosen), request)

    def sum(
        self,
        column: str,
        guarantee: Guarantee,
        *,
        by: str | Sequence[str] = (),
        contribution: Contribution | None = None,
        unit_sum: Bounds | None = None,
        request: str | None = None,
    ) -> Any:
        """Total of a column, in all or by group."""
        chosen = Selection(by=_names(by), contribution=contribution, unit_sum=unit_sum)
        return self._answer(self._questions.sum(column, guarantee, chosen), request)

    def mean(
        self,
        column: str,
        guarantee: Guarantee,
        *,
        by: str | Sequence[str] = (),
        spread: bool = False,
        contribution: Contribution | None = None,
        unit_sum: Bounds | None = None,
        expected_rows: int | None = None,
        request: str | None = None,
    ) -> Any:
        """Mean of a column over rows, or over units with ``unit_sum``; in all or by group.

        ``spread`` releases the variance too, so that intervals include sampling error. ``expected_rows`` only serves
        plans: it turns the noise in sums into noise in the mean.
        """
        chosen = Selection(by=_names(by), contribution=contribution, unit_sum=unit_sum)
        question = self._questions.mean(column, guarantee, chosen, spread=spread, rows=expected_rows)
        return self._answer(question, request)

    def proportion(
        self,
        column: str,
        label: Any,
        guarantee: Guarantee,
        *,
        contribution: Contribution | None = None,
        request: str | None = None,
    ) -> Any:
        """Share of rows with a label."""
        chosen = Selection(contribution=contribution)
        return self._answer(self._questions.proportion(column, label, guarantee, chosen), request)

    def variance(
        self,
        column: str,
        guarantee: Guarantee,
        *,
        by: str | Sequence[str] = (),
        contribution: Contribution | None = None,
        unit_sum: Bounds | None = None,
        request: str | None = None,
    ) -> Any:
        """Variance of a column; where the number of rows is private, together with the mean."""
        chosen = Selection(by=_names(by), contribution=contribution, unit_sum=unit_sum)
        return self._answer(self._questions.variance(column, guarantee, chosen), request)

    def covariance_matrix(self, columns: Sequence[str], guarantee: Guarantee, *, request: str | None = None) -> Any:
        """Covariance matrix of several columns; the number of rows must be public."""
        return self._answer(self._questions.covariance_matrix(columns, guarantee, Selection()), request)

    def quantile(
        self,
        column: str,
        probabilities: float | Sequence[float],
        guarantee: Guarantee,
        *,
        by: str | Sequence[str] = (),
        interval: float | None = None,
        rows_at_least: int | None = None,
        recursive: bool = False,
        contribution: Contribution | None = None,
        unit_sum: Bounds | None = None,
        request: str | None = None,
    ) -> Any:
        """Quantiles of a column, in all or by group, with intervals where a level is given."""
        chosen = Selection(by=_names(by), contribution=contribution, unit_sum=unit_sum)
        question = self._questions.quantile(
            column,
            probabilities,
            guarantee,
            chosen,
            interval=interval,
            rows_at_least=rows_at_least,
            recursive=recursive,
        )
        return self._answer(question, request)

    def histogram(
        self,
        column: str,
        guarantee: Guarantee,
        *,
        edges: Sequence[float] | None = None,
        contribution: Contribution | None = None,
        unit_sum: Bounds | None = None,
        request: str | None = None,
    ) -> Any:
        """Counts by the labels of a column, or by public bins of a number."""
        chosen = Selection(contribution=contribution, unit_sum=unit_sum)
        if not isinstance(self.schema.column(column), Bounds):
            return self._answer(self._questions.table((column,), guarantee, chosen), request)
        if edges is None:
            raise InvalidParameter("edges", None, "bins of a number need public edges", "Pass edges=[0, 10, 20].")
        return self._answer(self._questions.histogram(column, edges, guarantee, chosen), request)

    def table(
        self,
        columns: str | Sequence[str],
        guarantee: Guarantee,
        *,
        contribution: Contribution | None = None,
        request: str | None = None,
    ) -> Any:
        """Counts by the labels of one or more columns."""
        chosen = Selection(contribution=contribution)
        return self._answer(self._questions.table(_names(columns), guarantee, chosen), request)

    def mode(
        self,
        column: str,
        guarantee: Guarantee,
        *,
        contribution: Contribution | None = None,
        request: str | None = None,
    ) -> Any:
        """The most frequent label of a column; only the choice is published, no count."""
        chosen = Selection(contribution=contribution)
        return self._answer(self._questions.mode(column, guarantee, chosen), request)

    def goodness_of_fit(
        self,
        column: str,
        probabilities: Sequence[float],
        guarantee: Guarantee,
        *,
        contribution: Contribution | None = None,
        request: str | None = None,
    ) -> Any:
        """Test whether the labels of a column have given shares; releases the table and tests it."""
        from discreet.inference.chi_square import goodness_of_fit

        self._independent_rows(contribution)
        answer = self.table(column, guarantee, contribution=contribution, request=request)
        return self._tested(lambda table: goodness_of_fit(table, probabilities), answer)

    def homogeneity(
        self,
        column: str,
        by: str,
        guarantee: Guarantee,
        *,
        contribution: Contribution | None = None,
        request: str | None = None,
    ) -> Any:
        """Test whether the labels of a column are distributed alike in all groups."""
        from discreet.inference.chi_square import homogeneity

        self._independent_rows(contribution)
        answer = self.table((by, column), guarantee, contribution=contribution, request=request)
        return self._tested(lambda table: homogeneity(_rows(table)), answer)

    def independence(
        self,
        columns: Sequence[str],
        guarantee: Guarantee,
        *,
        contribution: Contribution | None = None,
        request: str | None = None,
    ) -> Any:
        """Test whether two columns of labels are independent."""
        from discreet.inference.chi_square import independence

        self._independent_rows(contribution)
        answer = self.table(columns, guarantee, contribution=contribution, request=request)
        return self._tested(independence, answer)


class Planner(Asking):
    """Answers every question of a session with what it would give and cost. Reads no data, spends nothing."""

    def __init__(self, schema: Schema, ledger: Ledger | None = None) -> None:
        self.schema, self.ledger = schema, ledger

    def _answer(self, question: Question, request: str | None) -> PlannedRelease:
        planned = plan(question.sensitivity, question.mechanism, ledger=self.ledger, guarantee=question.claim)
        error = float(np.max(planned.expected_error)) * (question.error_factor or 1.0)
        scale = planned.scale
        effect = None
        if scale is not None:
            deviation = float(np.sqrt(np.max(np.asarray(question.mechanism.law(0.0).variance))))
            effect = _POWER * deviation * (question.error_factor or 1.0)
        return PlannedRelease(planned, question.statistic, error, effect)

    def _tested(self, test: Any, answer: PlannedRelease) -> PlannedRelease:
        return answer


def _names(by: str | Sequence[str]) -> tuple[str, ...]:
    names = (by,) if isinstance(by, str) else tuple(by)
    if len(set(names)) != len(names):
        raise InvalidParameter("by", by, "must not repeat a column", "Name each column once.")
    return names


def _rows(table: Release) -> list[Release]:
    """One release per row of a two-way table: the groups of a test of homogeneity."""
    whole = table.statistic
    assert isinstance(whole, ContingencyTable)
    column = whole.axes[1]
    one = ContingencyTable({column: whole.columns[column]})
    values = np.asarray(table.value)
    parts = [None] * len(values) if table.measurement is None else list(np.asarray(table.measurement))
    return [
        replace(table, value=value, measurement=part, statistic=one, public={})
        for value, part in zip(values, parts, strict=True)
    ]
