"""Behind a question: the same question, asked of the rows that a secret omission step leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar, cast

from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import ApproxDP, Guarantee, PureDP
from discreet.core.schema import Schema
from discreet.omission.behind_omission import BehindOmission
from discreet.omission.step import Omission, PoissonSample
from discreet.questions.question import MeasuredQuestion, Measurement, Question
from discreet.questions.table_tests import TableTest

__all__ = ["behind"]

A = TypeVar("A")


def behind(question: Question[A], step: Omission) -> Question[A]:
    """The question asked behind a step: for less inside, and for what was asked outside.

    A test needs rows that are a sample of the population, so only a Poisson sample may stand before one. Nothing is
    proved for procedures of several steps, which would share one choice of rows.
    """
    if isinstance(question, MeasuredQuestion) and (isinstance(step, PoissonSample) or not question.tests):
        return _behind(question.in_one_step(), step)
    if isinstance(question, TableTest) and isinstance(step, PoissonSample):
        return cast(Question[A], _kept(question, step).of_table(_behind(question.table, step)))
    raise InvalidParameter(
        "step", step, f"is not proved for {question.ask}", "Ask this question without omitting rows."
    )


def _behind(question: MeasuredQuestion[A], step: Omission) -> MeasuredQuestion[A]:
    inside = _before(step, question.guarantee)
    return _BehindStep(question.schema, question.guarantee, _kept(question, step, guarantee=inside), step)


def _before(step: Omission, asked: Guarantee) -> Guarantee:
    if isinstance(asked, PureDP):
        return step.before(asked)
    if isinstance(asked, ApproxDP):
        return step.before(asked)
    raise InvalidParameter("guarantee", asked, "must be PureDP or ApproxDP behind a step", "Pass PureDP(1.0).")


Q = TypeVar("Q", bound=Question[Any])


def _kept(question: Q, step: Omission, **changed: Any) -> Q:
    """The question with what a plan expects of the rows that a Poisson sample keeps."""
    rows, rate = getattr(question, "expected_rows", None), getattr(step, "rate", None)
    if rows is not None and rate is not None:
        changed["expected_rows"] = max(1, round(rows * rate))
    least = getattr(question, "rows_at_least", None)
    if least is not None:
        changed["rows_at_least"] = _least_kept(least, step)
    return cast(Q, replace(cast(Any, question), **changed))


def _least_kept(least: int, step: Omission) -> int:
    """A Poisson sample of so many rows keeps at least this many, but for a chance of 1e-9: six standard deviations."""
    if not isinstance(step, PoissonSample):
        rule = "rows kept by a suppression are no sample"
        raise InvalidParameter("rows_at_least", least, rule, "Leave rows_at_least out.")
    kept = math.floor(step.rate * least - 6 * math.sqrt(step.rate * (1 - step.rate) * least))
    if kept < 1:
        raise InvalidParameter("rows_at_least", least, f"{step} may keep none of them", "Raise it or leave it out.")
    return kept


@dataclass(frozen=True)
class _BehindStep(MeasuredQuestion[A]):
    """A question whose mechanism sees the kept rows alone."""

    ask: ClassVar[str] = "behind"
    meaning: ClassVar[str] = ""
    forms: ClassVar[dict[str, Any]] = {}
    schema: Schema
    guarantee: Guarantee
    inner: MeasuredQuestion[A]
    step: Omission

    def _measured(self) -> Measurement:
        found = self.inner.measurement
        return replace(
            found,
            mechanism=BehindOmission(inner=found.mechanism, step=self.step),
            public={**found.public, "omission": self.step.to_dict()},
        )

    def content(self) -> dict[str, Any]:
        return self.inner.content() | {"omission": self.step.to_dict()}
