"""Omitting: a session that leaves out rows, secretly and afresh, before each question."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import ApproxDP, Guarantee, PureDP
from discreet.core.rows import Snapshot, take
from discreet.core.rows.read import Dataset, open_source
from discreet.omission import Omission
from discreet.omission.behind_omission import BehindOmission
from discreet.plans.planner import Planner
from discreet.questions import Expected, Question, Questions
from discreet.questions.asking import Asking
from discreet.session import Session

__all__ = ["OmittingSession"]


class _QuestionsBehind:
    """The same questions, asked behind a step: for less inside, and for what was asked outside."""

    def __init__(self, questions: Questions, step: Omission) -> None:
        self._inner, self._step = questions, step

    def __getattr__(self, name: str) -> Any:
        ask = getattr(self._inner, name)

        def asked_behind(*arguments: Any, **options: Any) -> Question:
            asked = next(one for one in arguments if isinstance(one, Guarantee))
            inside = _before(self._step, asked)
            behind = (inside if one is asked else self._kept(one) for one in arguments)
            question: Question = ask(*behind, **{name: self._kept(option) for name, option in options.items()})
            return replace(
                question,
                guarantee=asked,
                mechanism=BehindOmission(inner=question.mechanism, step=self._step),
                public={**question.public, "omission": self._step.to_dict()},
            )

        return asked_behind

    def _kept(self, argument: Any) -> Any:
        """What a plan expects of the rows that a Poisson sample keeps; other arguments as they are."""
        rate = getattr(self._step, "rate", None)
        if not isinstance(argument, Expected) or argument.rows is None or rate is None:
            return argument
        return replace(argument, rows=max(1, round(argument.rows * rate)))


def _before(step: Omission, asked: Guarantee) -> Guarantee:
    if isinstance(asked, PureDP):
        return step.before(asked)
    if isinstance(asked, ApproxDP):
        return step.before(asked)
    raise InvalidParameter("guarantee", asked, "must be PureDP or ApproxDP behind a step", "Pass PureDP(1.0).")


class _Refusing(Asking):
    """Questions behind a step; refuses what is not proved there."""

    step: Omission

    @property
    def _questions(self) -> Any:
        return _QuestionsBehind(Questions(self.schema), self.step)

    def _compared(self, comparison: Any, request: str | None) -> Any:
        """Refused: nothing is proved for partitions of omitted rows."""
        raise InvalidParameter("step", self.step, "is not proved for comparisons of means", "Compare without omitting.")

    def _selected(self, question: Any, request: str | None) -> Any:
        """Refused: the counts of kept rows would show other groups each time."""
        raise InvalidParameter("step", self.step, "is not offered for lists of groups", "Ask without omitting.")

    def _clustered(self, model: Any, columns: tuple[str, ...], request: str | None) -> Any:
        """Refused: the iterations would share one choice of rows, which adds up differently."""
        raise InvalidParameter("step", self.step, "is not proved for several iterations", "Cluster without omitting.")


class OmittingPlanner(_Refusing, Planner):
    """Plans of questions behind a step."""

    def __init__(self, session: OmittingSession) -> None:
        super().__init__(session.schema, session.ledger)
        self.step = session.step


class OmittingSession(_Refusing, Session):
    """A session whose questions see only the rows that a step leaves; made by `Session.omitting`.

    Values and intervals are those of the rows that were kept: a count on a Poisson sample estimates the rate times the
    number of rows. The rows are brought to this machine to be chosen, so the data must fit its memory.

    Guarantee
    ---------
    Each release makes its own secret choice of rows, so their amplified guarantees add up in the ledger as others do.
    Refused under replace-one neighbours and for units with several rows, for which nothing is proved.
    """

    def __init__(self, session: Session, step: Omission) -> None:
        self.step: Omission = requirements.instance("step", step, Omission, "a step such as PoissonSample(0.5)")
        self.step.require(session.schema.neighbours, session.schema.unit.unit)
        self._session = session
        self.schema, self.ledger = session.schema, session.ledger

    @property
    def plan(self) -> OmittingPlanner:
        """The same questions, answered with what they would give and cost."""
        return OmittingPlanner(self)

    @property
    def dataset(self) -> Dataset:
        """The data, before anything is left out."""
        return self._session.dataset

    def _snapshot(self) -> Snapshot:
        whole = self.dataset
        left = open_source(self.step.apply(whole.fetch(whole.table)), decimal=whole.decimal)
        return take(left, self.schema, salt=self.ledger.salt.hex())

    def __repr__(self) -> str:
        return f"{self._session!r}.omitting({self.step!r})"
