"""Coefficients question: what the questions of all regressions share, whatever they fit."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.schema import Contribution, Schema
from discreet.ledgers import Ledger
from discreet.plans.plan import DETECTED, Plan
from discreet.questions.coefficients_release import CoefficientsRelease
from discreet.questions.forms import COLUMN, COLUMNS, WHOLE, Form
from discreet.questions.question import MeasuredQuestion, Measurement, column_names

__all__ = ["CoefficientsQuestion", "ExpectedError"]

R = TypeVar("R", bound=CoefficientsRelease[Any])


class ExpectedError(NamedTuple):
    """Standard errors that a plan expects of a coefficient, from noise and from sampling."""

    name: str
    noise: float
    sampling: float

    @property
    def both(self) -> float:
        """Noise and sampling together."""
        return math.hypot(self.noise, self.sampling)

    def words(self) -> str:
        """For readers of the plan."""
        return (
            f"{self.name}: standard error {self.both:.3g} ({self.noise:.3g} noise, {self.sampling:.3g} sampling); "
            f"a 5 % test detects {DETECTED * self.both:.3g} with 80 % power"
        )


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

    @abstractmethod
    def _expected_errors(self, found: Measurement) -> Iterator[ExpectedError]:
        """What a plan says of every coefficient but the constant, for unrelated columns that are spread evenly."""

    def plan(self, ledger: Ledger | None = None) -> Plan:
        first = next(iter(self._expected_errors(self.measurement)))
        return replace(super().plan(ledger), smallest_effect=DETECTED * first.both)

    def _notes(self, found: Measurement) -> tuple[str, ...]:
        return (*super()._notes(found), *(one.words() for one in self._expected_errors(found)))
