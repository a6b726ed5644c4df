"""Session: data, schema and ledger in one object."""

from __future__ import annotations

import os
from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.core import requirements
from discreet.core.dialect import Dialect
from discreet.core.door import Allowance, Claim, Passed, charged_guarantee, pass_through, recall
from discreet.core.errors import InvalidParameter
from discreet.core.exact import Exact
from discreet.core.guarantee import Guarantee
from discreet.core.ledger import Ledger
from discreet.core.protection import Fact
from discreet.core.rows import Selected, Snapshot, histograms, matrix, take, totals, unit_counts
from discreet.core.rows.read import Dataset, open_source
from discreet.core.schema import Bounds, Contribution, Schema
from discreet.plans.planner import PlannedRelease, Planner
from discreet.plans.planning import affordable
from discreet.questions import Question
from discreet.questions.asking import Asking
from discreet.questions.tested import TestedRelease
from discreet.releases import Release, release

if TYPE_CHECKING:
    from discreet.core.schema import Column
    from discreet.inference.mean_difference_release import MeanComparison
    from discreet.omission import Omission
    from discreet.questions.clusters.model import ClusterModel
    from discreet.questions.comparison.column import ColumnComparison
    from discreet.questions.group_questions import GroupQuestion
    from discreet.questions.released_groups import ReleasedGroups

__all__ = ["PlannedRelease", "Planner", "Session", "TestedRelease"]


class Session(Asking):
    """Ask questions of a data set; every answer is charged to its ledger.

    Parameters
    ----------
    source
        Anything `open_source` reads: a frame, a path, a connection. The first question reads it, once, and the
        session answers every question from what it read then: planning reads no data, and what changes in the source
        later has no part in the answers of this session.
    schema
        The public facts.
    ledger
        A `Ledger`, or the path of one; created with ``budget`` where there is none.
    budget
        The budget of a new ledger.
    table, engine, memory
        Passed on to `open_source`.
    delimiter, decimal, encoding, header
        How a CSV file is written: see `Dialect`. discreet never guesses it from the file.

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
        delimiter: str | None = None,
        decimal: str = ".",
        encoding: str = "utf-8",
        header: bool = True,
    ) -> None:
        self.schema = requirements.instance("schema", schema, Schema, "a Schema")
        self._source = source
        self._lock = RLock()
        self._opened: Dataset | None = None
        self._taken: Snapshot | None = None
        dialect = Dialect(delimiter=delimiter, decimal=decimal, encoding=encoding, header=header)
        self._options = {"table": table, "engine": engine, "memory": memory, **vars(dialect)}
        if isinstance(ledger, Ledger):
            if budget is not None and budget != ledger.budget:
                raise InvalidParameter("budget", budget, f"the ledger has {ledger.budget}", "Leave budget out.")
            self.ledger = ledger
        else:
            self.ledger = Ledger(ledger, budget, neighbours=schema.neighbours, unit=schema.unit.unit)

    @property
    def plan(self) -> Planner:
        """The same questions, answered with what they would give and cost."""
        return Planner(self.schema, self.ledger)

    @property
    def dataset(self) -> Dataset:
        """The data; opened by the first question."""
        with self._lock:
            if self._opened is None:
                self._opened = open_source(self._source, **self._options)
            return self._opened

    def _snapshot(self) -> Snapshot:
        """The rows that the next question is asked of: read once, by the first one."""
        with self._lock:
            if self._taken is None:
                self._taken = take(self.dataset, self.schema, salt=self.ledger.salt.hex())
            return self._taken

    def _selected_rows(
        self,
        *,
        by: tuple[str, ...] = (),
        columns: tuple[str, ...] = (),
        contribution: Contribution | None = None,
        unit_sum: Bounds | None = None,
    ) -> Selected:
        """What a question reads; one row per unit where neither the question nor the schema says how many."""
        limits = contribution
        if limits is None and self.schema.unit.column is not None:
            limits = self.schema.unit.contribution or Contribution(rows=1)
        return Selected(by=by, columns=columns, contribution=limits, unit_sum=unit_sum)

    def omitting(self, step: Omission) -> Session:
        """The same session, with rows left out by ``step`` before each question; a fresh, secret choice every time.

        Guarantees given to its questions are those of the whole: the noise is calibrated to what may be spent behind
        the step. See `discreet.omission.amplification`.

        Examples
        --------
        >>> import pyarrow
        >>> from discreet import Categories, PoissonSample, PureDP, Schema, Session
        >>> rows = pyarrow.table({"arm": ["A", "B"] * 5000})
        >>> schema = Schema(columns={"arm": Categories(["A", "B"])})
        >>> session = Session(rows, schema, ledger=":memory:", budget=PureDP(1.0))
        >>> sampled = session.omitting(PoissonSample(0.5)).count(PureDP(0.5))
        >>> abs(sampled.value - 5000) < 400, round(sampled.guarantee.epsilon, 6), round(sampled.mechanism.scale, 4)
        (True, 0.5, 1.2022)
        """
        from discreet.omission.omitting_session import OmittingSession

        return OmittingSession(self, step)

    def exact(self, question: Question) -> Exact:
        """The true, still private value of a question, with its sensitivity."""
        selected = self._selected_rows(
            by=question.by, columns=question.columns, contribution=question.contribution, unit_sum=question.unit_sum
        )
        if question.from_histograms is not None:
            value = question.from_histograms(histograms(self._snapshot(), selected))
        elif question.from_blocks is not None:
            snapshot, of_same_rows = self._snapshot(), replace(selected, whole=question.by)
            value = question.from_blocks(
                {by: totals(snapshot, replace(of_same_rows, by=by), question.products) for by in question.blocks}
            )
        elif question.value is not None:
            found = totals(self._snapshot(), selected, question.products)
            value = question.value(found.counts, found.sums)
        else:
            raise InvalidParameter("question", question.statistic, "says no value", "Give value or from_histograms.")
        facts = [Fact.TOTAL] if question.keeps_total else []
        return Exact(value, question.sensitivity, self.schema.protection(*facts), question.statistic, question.public)

    def _answer(self, question: Question, request: str | None) -> Release:
        claim = self._claim(question)
        stored = recall(claim, Release.from_dict, ledger=self.ledger, request=request)
        if stored is not None:
            return stored  # it needs no data
        affordable(self.ledger, claim.guarantee, request)  # refuse before reading any data
        return release(
            self.exact(question),
            question.mechanism,
            ledger=self.ledger,
            guarantee=question.claim,
            request=request,
            question=claim.question,
        )

    def _claim(self, question: Question) -> Claim:
        """What the answer to a question will say of itself."""
        facts = [Fact.TOTAL] if question.keeps_total else []
        guarantee = charged_guarantee(question.mechanism, question.sensitivity, self.ledger, question.claim)
        return Claim(
            guarantee=question.guarantee if guarantee is None else guarantee,
            protection=self.schema.protection(*facts),
            question=question.content(self.schema),
            mechanism=question.mechanism.to_dict(),
            sensitivity=question.sensitivity,
        )

    def _tested(self, test: Any, answer: Release, *, df: int, cells: int, rows: int | None) -> TestedRelease:
        return TestedRelease(test(answer), answer)

    def _compared(self, comparison: ColumnComparison, request: str | None) -> MeanComparison:
        from discreet.inference.mean_difference_release import MeanComparison
        from discreet.questions.comparison.partitioning import compare_column

        claim = comparison.terms(self.ledger).claim(comparison.statistic)
        if claim is not None:
            stored = recall(claim, MeanComparison.from_dict, ledger=self.ledger, request=request)
            if stored is not None:
                return stored
        affordable(self.ledger, comparison.guarantee, request)
        selected = self._selected_rows(**comparison.selection())
        return compare_column(self._snapshot(), selected, comparison, self.ledger, request=request)

    def _selected(self, question: GroupQuestion, request: str | None) -> ReleasedGroups:
        from discreet.questions.released_groups import ReleasedGroups

        claim = question.full_claim()
        stored = recall(claim, ReleasedGroups.from_dict, ledger=self.ledger, request=request)
        if stored is not None:
            return stored
        claim.verify()
        affordable(self.ledger, claim.guarantee, request)
        labels, counts = unit_counts(self._snapshot(), question.column, groups=question.groups)

        def run(allowance: Allowance, passed: Passed) -> ReleasedGroups:
            shown = np.asarray(allowance.draw(claim.steps[0], counts)) > 0
            return ReleasedGroups(
                column=question.column,
                labels=tuple(sorted(label for label, one in zip(labels, shown.tolist(), strict=True) if one)),
                mechanism=question.mechanism,
                sensitivity=question.sensitivity,
                guarantee=claim.guarantee,
                protection=claim.protection,
                **vars(passed),
            )

        return pass_through(
            claim, run, write=ReleasedGroups.to_dict, read=ReleasedGroups.from_dict, ledger=self.ledger, request=request
        )

    def declaring(self, **columns: Column) -> Session:
        """The same data and ledger, with columns declared anew; for groups that were released.

        Examples
        --------
        >>> import pyarrow
        >>> from discreet import ApproxDP, Schema, Session, Unlisted
        >>> rows = pyarrow.table({"city": ["Oslo"] * 600 + ["Bergen"] * 400 + ["a hamlet"]})
        >>> schema = Schema(columns={"city": Unlisted()})
        >>> session = Session(rows, schema, ledger=":memory:", budget=ApproxDP(2.0, 1e-6))
        >>> found = session.groups("city", ApproxDP(1.0, 5e-7))
        >>> found.labels, found.size_shown()
        (('Bergen', 'Oslo'), 17)
        >>> counts = session.declaring(city=found.categories()).count(ApproxDP(1.0, 5e-7), by="city")
        >>> bool(abs(counts.value[1] - 600) < 60)
        True
        """
        return Session(self._source, self.schema.declaring(**columns), ledger=self.ledger, **self._options)

    def _clustered(self, model: ClusterModel, columns: tuple[str, ...], request: str | None) -> ClusterModel:
        asked = {"ask": "clusters", "columns": list(columns), "schema": self.schema.facts_of(columns)}
        stored = model.recall(self.ledger, request, asked)
        if stored is not None:
            return stored
        affordable(self.ledger, model.plan().guarantee, request)
        return model.fit(matrix(self._snapshot(), columns), ledger=self.ledger, request=request, question=asked)

    def __repr__(self) -> str:
        return f"Session(unit={self.schema.unit.name!r}, ledger={self.ledger!r})"
