"""Coefficients question: what the questions of all regressions share, whatever they fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, TypeVar

from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.schema import Contribution, Schema
from discreet.questions.coefficients_release import CoefficientsRelease
from discreet.questions.forms import COLUMN, COLUMNS, WHOLE, Form
from discreet.questions.question import MeasuredQuestion, column_names

__all__ = ["CoefficientsQuestion"]

R = TypeVar("R", bound=CoefficientsRelease[Any])


@dataclass(frozen=True)
class CoefficientsQuestion(MeasuredQuestion[R]):
    """How an outcome goes with other columns."""

    forms: ClassVar[Mapping[str, Form]] = {"column": COLUMN, "on": COLUMNS, "expected_rows": WHOLE}
    schema: Schema
    column: str
    on: str | Sequence[str]
    guarantee: Guarantee
    _: KW_ONLY
    contribution: Contribution | None = None
    expected_rows: int | None = None

    def columns_read(self) -> tuple[str, ...]:
        return (self.column, *column_names(self.on, "on"))

    def _predictors(self) -> tuple[str, ...]:
        """The columns beside the outcome; refuses none, and the outcome itself."""
        on = column_names(self.on, "on")
        if not on or self.column in on:
            raise InvalidParameter("on", list(on), "must name other columns, at least one", 'Pass on=["age", "sex"].')
        return on
