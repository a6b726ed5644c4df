"""Variance and standard deviation of a bounded column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Literal

from discreet.core.numbers import decimal
from discreet.core.schema import Bounds, Contribution
from discreet.inference.moments import variance_moves
from discreet.questions import form
from discreet.questions.bounded import OUTPUTS, kept_inside, of_public_size, output_notes
from discreet.questions.design import design_measurement, no_design_for
from discreet.questions.moments import BernsteinMoments, MomentReading, least_noise
from discreet.questions.question import DeclaredColumns, Expected, Forecast, MeasuredQuestion, Measurement, column_names


@dataclass(frozen=True)
class VarianceQuestion(MeasuredQuestion[MomentReading]):
    """Variance of a column, in all or by group; it comes with the mean.

    Guarantee
    ---------
    Totals in parts are released, of which a row moves the sum by one: ``docs/proofs/parts.md``. With ``output`` (as of
    `MeanQuestion`) the variance with divisor n − 1 is, which a replaced row moves by at most the squared width over n.

    Examples
    --------
    >>> from discreet import Bounds, Schema
    >>> schema = Schema(columns={"age": Bounds(0, 100, grid=1)})
    >>> VarianceQuestion(schema, "age", epsilon=1.0).plan().scenario
    '1,000 rows spread evenly over the bounds'
    """

    topic: ClassVar[str] = "Numbers"
    answers: ClassVar[str] = "How widely do values spread, squared?"
    ask: ClassVar[str] = "variance"
    also: ClassVar[tuple[str, ...]] = ("var",)
    heading: ClassVar[str] = "Variance of {subject}"
    meaning: ClassVar[str] = "How far values of {subject} spread around their mean."
    of: ClassVar[Literal["variance", "standard deviation"]] = "variance"
    under_design: ClassVar[bool] = True
    forms: ClassVar[form.Forms] = {
        "column": form.COLUMN,
        "by": form.COLUMNS,
        "expected_rows": form.WHOLE,
        "expected_mean": form.NUMBER,
        "output": form.METHOD,
    }
    column: str
    _: KW_ONLY
    by: str | Sequence[str] = ()
    contribution: Contribution | None = None
    expected_rows: int | None = None
    expected_mean: float | None = None
    output: str | None = None

    ways: ClassVar[Mapping[str, tuple[Any, ...]]] = {"output": tuple(OUTPUTS)}

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return columns.number()

    def _measured(self) -> Measurement:
        by = column_names(self.by)
        bounds = self.schema.bounds(self.column)
        if self.schema.design is not None:
            no_design_for(self, "contribution", "output", "expected_mean")
            return design_measurement(
                self,
                self.of,
                by,
                value=self.column,
                expected_rows=self.expected_rows,
                read=f"the {self.of.split()[-1]}",
            )
        expected = Expected(rows=self.expected_rows, mean=self.expected_mean)
        mean = (1 + expected.slope(bounds.low, bounds.high)) / 2
        moments = BernsteinMoments(bounds=((bounds.low, bounds.high),), degrees=(4,), of=self.of)
        size = None if by else self.public_size(self.column)
        public = size is not None
        if self.output is not None:
            kind = self.of.replace(" ", "_")
            return kept_inside(self, size, lambda size: of_public_size(self, kind, size, "the variance"))

        def moves(used: BernsteinMoments) -> tuple[list[float], list[float]]:
            unit = (2 * float(used.half)) ** 2
            typical = typical_variance(mean, bounds)
            multiplied = [float(weight) for weight in used.multiplied]
            expected_moves = variance_moves(multiplied, mean, typical, public_size=public)
            worst = variance_moves(multiplied, 1.0, public_size=public)
            return [unit * move for move in expected_moves], [unit * move for move in worst]

        found = {self.column: bounds}
        return least_noise(self, moments, found, by=by, read="the variance", expected=expected, moves=moves)

    def _notes(self, found: Measurement) -> tuple[str, ...]:
        return (*super()._notes(found), *output_notes(self, found))


def typical_variance(mean: float, bounds: Bounds) -> float:
    """Variance of (x − low)/(high − low) that a plan expects at this mean: a beta distribution that is even at ½.

    A beta distribution has the share 1/3 of the largest variance m(1 − m) that way; rounding even numbers to a grid
    with steps of h adds h²/6.
    """
    rounding = 2 / 3 * float(bounds.step / (decimal(bounds.high) - decimal(bounds.low))) ** 2
    return mean * (1 - mean) * min(1 / 3 + rounding, 1.0)


@dataclass(frozen=True)
class StandardDeviationQuestion(VarianceQuestion):
    """Standard deviation of a column, in all or by group; it comes with the mean.

    Guarantee
    ---------
    As `VarianceQuestion`, whose totals are the same.

    Examples
    --------
    >>> from discreet import Bounds, Schema
    >>> schema = Schema(columns={"age": Bounds(0, 100, grid=1)})
    >>> StandardDeviationQuestion(schema, "age", epsilon=1.0).measurement.statistic.title
    'standard deviation'
    """

    topic: ClassVar[str] = "Numbers"
    answers: ClassVar[str] = "How widely do values spread, in the unit of the column?"
    ask: ClassVar[str] = "std"
    also: ClassVar[tuple[str, ...]] = ("standard_deviation", "sd", "stdev")
    heading: ClassVar[str] = "Standard deviation of {subject}"
    of: ClassVar[Literal["variance", "standard deviation"]] = "standard deviation"

    def _measured(self) -> Measurement:
        found = super()._measured()
        if self.schema.design is not None:
            return found
        bounds = self.schema.bounds(self.column)
        if self.output is not None:  # |√a − √b| ≤ √|a − b|
            return replace(
                found, read="the deviation",
                forecast=lambda: replace(found.forecast(), error=lambda level: math.sqrt(found.error(level))),
            )  # fmt: skip
        mean = (1 + Expected(mean=self.expected_mean).slope(bounds.low, bounds.high)) / 2
        spread = (bounds.high - bounds.low) * math.sqrt(typical_variance(mean, bounds))

        def forecast() -> Forecast:
            of_variance = found.forecast()
            return replace(
                of_variance,
                weights=tuple(weight / (2 * spread) for weight in of_variance.weights),
                worst=None,
                bound=lambda level: math.sqrt(found.worst_error(level) or 0.0),  # |√a − √b| ≤ √|a − b|
            )

        return replace(found, read="the deviation", forecast=forecast)
