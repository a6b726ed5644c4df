"""Session: data, schema and ledger in one object."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet import requirements
from discreet.bounding import Bounded
from discreet.display import Facts, as_html, as_text, number
from discreet.errors import InvalidParameter, SourceError
from discreet.guarantees import Guarantee
from discreet.ledger import Ledger
from discreet.planning import Plan, plan
from discreet.questions import Question, Questions, Selection
from discreet.releases import Exact, Release, release
from discreet.schema import Bounds, Contribution, Schema
from discreet.sensitivity import Neighbours
from discreet.sources import Dataset, open_source
from discreet.statistics.tables import ContingencyTable

if TYPE_CHECKING:
    from discreet.inference.chi_square import ChiSquareResult
    from discreet.inference.mean_difference import MeanComparison
    from discreet.statistics.statistic import Statistic

__all__ = ["PlannedRelease", "Planner", "Session", "TestedRelease"]

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


class _Asking:
    """The vocabulary that a session and its planner share; each says what to do with a question."""

    schema: Schema

    def _answer(self, question: Question, request: str | None) -> Any:
        raise NotImplementedError

    def _tested(self, test: Any, answer: Any) -> Any:
        raise NotImplementedError

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


class Planner(_Asking):
    """Answers every question of a session with what it would give and cost. Reads no data, spends nothing."""

    def __init__(self, schema: Schema, ledger: Ledger | None = None) -> None:
        self.schema, self.ledger = schema, ledger

    def _answer(self, question: Question, request: str | None) -> PlannedRelease:
        planned = plan(question.sensitivity, question.mechanism, ledger=self.ledger)
        error = float(np.max(planned.expected_error)) * (question.error_factor or 1.0)
        scale = planned.scale
        effect = None
        if scale is not None:
            deviation = float(np.sqrt(np.max(np.asarray(question.mechanism.law(0.0).variance))))
            effect = _POWER * deviation * (question.error_factor or 1.0)
        return PlannedRelease(planned, question.statistic, error, effect)

    def _tested(self, test: Any, answer: PlannedRelease) -> PlannedRelease:
        return answer


class Session(_Asking):
    """Ask questions of a data set; every answer is charged to its ledger.

    Parameters
    ----------
    source
        Anything `discreet.sources.open_source` reads: a frame, a path, a connection. It is opened by the first
        question, so planning reads no data.
    schema
        The public facts.
    ledger
        A `Ledger`, or the path of one; created with ``budget`` where there is none.
    budget
        The budget of a new ledger.
    table, engine, memory
        Passed on to `open_source`.

    Examples
    --------
    >>> import pyarrow
    >>> from discreet import Categories, PureDP, Schema, Session
    >>> rows = pyarrow.table({"arm": ["A", "B"] * 500})
    >>> schema = Schema(columns={"arm": Categories(["A", "B"])})
    >>> session = Session(rows, schema, ledger=":memory:", budget=PureDP(1.0))
    >>> session.plan.count(PureDP(0.5)).expected_error < 6
    True
    >>> abs(session.count(PureDP(0.5)).value - 1000) < 60, session.ledger.remaining()
    (True, PureDP(epsilon=0.5))
    """

    def __init__(
        self,
        source: Any,
        schema: Schema,
        *,
        ledger: Ledger | str | os.PathLike[str],
        budget: Guarantee | None = None,
        table: str | None = None,
        engine: Any = None,
        memory: str | None = None,
    ) -> None:
        self.schema = requirements.instance("schema", schema, Schema, "a Schema")
        self._source = source
        self._options = {"table": table, "engine": engine, "memory": memory}
        if isinstance(ledger, Ledger):
            if budget is not None and budget != ledger.budget:
                raise InvalidParameter("budget", budget, f"the ledger has {ledger.budget}", "Leave budget out.")
            self.ledger = ledger
        else:
            self.ledger = Ledger(ledger, budget, neighbours=schema.neighbours, unit=schema.unit.name)

    @property
    def plan(self) -> Planner:
        """The same questions, answered with what they would give and cost."""
        return Planner(self.schema, self.ledger)

    @cached_property
    def dataset(self) -> Dataset:
        """The data; opened by the first question."""
        return open_source(self._source, **self._options)

    @cached_property
    def _checked_size(self) -> bool:
        """Under replace-one neighbours the number of units is public; the data must have it."""
        if self.schema.neighbours is Neighbours.REPLACE_ONE:
            found = self._bounded(by=(), columns=(), contribution=None, unit_sum=None, squares=False).units()
            if found != self.schema.size:
                raise SourceError(f"size = {self.schema.size}: the data has {found} units. Correct the schema's size.")
        return True

    def _bounded(self, **selection: Any) -> Bounded:
        limits = selection.pop("contribution")
        if limits is None and self.schema.unit.column is not None:
            limits = self.schema.unit.contribution or Contribution(rows=1)
        return Bounded(
            dataset=self.dataset, schema=self.schema, contribution=limits, salt=self.ledger.salt.hex(), **selection
        )

    def exact(self, question: Question) -> Exact:
        """The true, still private value of a question, with its sensitivity."""
        assert self._checked_size
        squares = any(len(product) == 2 for product in question.products)
        bounded = self._bounded(
            by=question.by,
            columns=question.columns,
            contribution=question.contribution,
            unit_sum=question.unit_sum,
            squares=squares,
        )
        if question.from_histograms is not None:
            value = question.from_histograms(bounded.histograms())
        else:
            assert question.value is not None
            totals = bounded.totals(question.products)
            value = question.value(totals.counts, totals.sums)
        return Exact(
            value,
            question.sensitivity,
            neighbours=self.schema.neighbours,
            unit=self.schema.unit.name,
            statistic=question.statistic,
            public=question.public,
        )

    def _answer(self, question: Question, request: str | None) -> Release:
        stored = self._stored(question, request)
        if stored is not None:
            return stored
        if not self._paid(request):
            plan(question.sensitivity, question.mechanism, ledger=self.ledger)  # refuse before reading any data
        return release(self.exact(question), question.mechanism, ledger=self.ledger, request=request)

    def _paid(self, request: str | None) -> bool:
        """Whether a release is in the ledger, so that asking again needs no budget."""
        return request is not None and any(spend.request == request for spend in self.ledger.events())

    def _stored(self, question: Question, request: str | None) -> Release | None:
        """The answer of an earlier, equal request; it needs no data."""
        for spend in self.ledger.events() if request is not None else ():
            answer = self.ledger.answer(spend.release_id) if spend.request == request else None
            if answer is not None:
                made = Release.from_dict(answer)
                asked = (question.statistic, question.mechanism, question.sensitivity)
                return made if (made.statistic, made.mechanism, made.sensitivity) == asked else None
        return None

    def _tested(self, test: Any, answer: Release) -> TestedRelease:
        return TestedRelease(test(answer), answer)

    def compare_means(
        self,
        column: str,
        *,
        by: str,
        guarantee: Guarantee,
        partitions: int | None = None,
        partition_by: str | None = None,
        censor: tuple[float, float] = (0.1, 0.1),
        method: str = "best",
        arm: str = "public",
        unit_sum: Bounds | None = None,
        spread: float | None = None,
    ) -> MeanComparison:
        """Compare a column's mean between two arms, over units; ``by`` has two labels, control first.

        A unit with an id counts once, in one arm, with its sum clipped to ``unit_sum`` (by default the column's own
        bounds). Its partition is a salted digest of its id, or its label in ``partition_by``. The other parameters are
        those of `discreet.compare_means`.
        """
        from discreet.partitioning import compare_column

        assert self._checked_size
        by_id = self.schema.unit.column is not None
        bounded = self._bounded(
            by=(by,) if partition_by is None else (by, partition_by),
            columns=(column,),
            contribution=Contribution(groups=1, rows=1) if by_id else None,
            unit_sum=(unit_sum or self.schema.bounds(column)) if by_id else None,
            squares=not by_id or partition_by is not None,
        )
        return compare_column(
            bounded, self.ledger, guarantee, partitions=partitions, censor=censor, method=method, arm=arm, spread=spread
        )

    def __repr__(self) -> str:
        return f"Session(unit={self.schema.unit.name!r}, ledger={self.ledger!r})"


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
