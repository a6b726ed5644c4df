"""Planner: what a session's questions would give and cost, from public facts alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from discreet.core.errors import InvalidParameter, spelling
from discreet.core.schema import Schema
from discreet.mechanisms.omission.step import Omission
from discreet.questions import Question, asked
from discreet.questions.facade import Questions
from discreet.questions.omitted import behind
from discreet.results.ledger import Ledger

__all__ = ["Planner", "grouped"]


class Planner(Questions):
    """Answers every question of a session with what it would give and cost. Reads no data and spends nothing.

    Examples
    --------
    >>> from discreet import Bounds, Schema
    >>> planner = Planner(Schema(columns={"age": Bounds(0, 120, grid=1)}))
    >>> planner.mean("age", epsilon=1.0, expected_rows=10_000).read
    'the mean'
    """

    def __init__(
        self, schema: Schema, ledger: Ledger | None = None, step: Omission | None = None, *, by: Sequence[str] = ()
    ) -> None:
        self.schema, self.ledger, self.step, self.groups_by = schema, ledger, step, tuple(by)

    def ask(self, question: Question[Any]) -> Any:
        """The plan of a question: its error and cost."""
        question = grouped(question, self.groups_by) if self.groups_by else question
        return (question if self.step is None else behind(question, self.step)).plan(self.ledger)

    def __call__(self, question: Question[Any]) -> Any:
        """The plan of a question: its error and cost."""
        return self.ask(question)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"there is no question {name!r}. {spelling(name, [*asked()])}")


def grouped(question: Question[Any], by: Sequence[str]) -> Any:
    """The question for each group, where it has groups."""
    if "by" not in question.fields():
        raise InvalidParameter("by", list(by), f"{question.ask} has no groups", "Ask without by(…).")
    return question.changed(by=tuple(by))
