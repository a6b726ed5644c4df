"""Mean: the average of a column, over a public or a protected number of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, ClassVar

from discreet.core import requirements
from discreet.core.schema import Bounds, Contribution
from discreet.questions import form
from discreet.questions.bounded import OUTPUTS, kept_inside, of_public_size, output_notes
from discreet.questions.design import design_measurement, no_design_for
from discreet.questions.moments import (
    BernsteinMoments,
    MomentReading,
    all_rows_notes,
    check_all_rows,
    least_noise,
)
from discreet.questions.question import DeclaredColumns, Expected, MeasuredQuestion, Measurement, column_names
from discreet.questions.unit_means import units_measurement
from discreet.results.display import expected


@dataclass(frozen=True)
class MeanQuestion(MeasuredQuestion[MomentReading]):
    """Mean of a column over rows, in all or by group.

    Guarantee
    ---------
    Where the number of rows is public, a replaced row moves the mean by at most the width of the bounds over n. Else
    totals in parts are released, of which a row moves the sum by one: ``docs/proofs/parts.md``.

    Parameters
    ----------
    column, by
        The column, and columns of labels to group by.
    variance
        Whether the variance is released, too, for an interval for the population that is several times narrower. By
        default it is where that costs a tenth to a fifth more noise: not where the number of rows is public, which
        makes it 1.6 times as much, nor of two values, whose mean tells it. The plan says what it costs. Where units
        have several rows the default measures how much units differ instead, so that the interval holds however alike
        the rows of a unit are, and is no wider than they are; True releases the variance of rows.
    contribution
        Limits per unit.
    expected_rows, expected_mean
        What a plan is told to expect: by default 1,000 rows per group, spread evenly over the bounds. The number of
        rows turns noise in totals into noise in the mean, which is the largest for a mean at an end of the bounds.
    all_rows
        Whether all rows of a unit count, with weights that add up to its limit, instead of some that it keeps.
    beyond
        Whether the answer tells which share of the values lies beyond the bounds: by default under ρ and μ, where that
        makes other noise 2 % larger, and with private bounds. Under ε it makes other noise a tenth larger.
    output
        Where the number of rows is public: ``"bounded"`` conditions Laplace noise on the bounds (holohan2018), and
        ``"inflated"`` moves what falls outside to the ends (liu2019). A plan states what that costs.

    Examples
    --------
    >>> from discreet import Bounds, Schema
    >>> schema = Schema(columns={"age": Bounds(0, 100, grid=1)})
    >>> planned = MeanQuestion(schema, "age", epsilon=1.0, expected_rows=1000).plan()
    >>> planned.read, round(planned.error_95, 2)
    ('the mean', 0.23)
    >>> planned.notes
    ('variance=False leaves out the variance: error 0.2057, and a wider population_interval()',)
    """

    topic: ClassVar[str] = "Numbers"
    answers: ClassVar[str] = "What is the average, in all or in each group?"
    ask: ClassVar[str] = "mean"
    also: ClassVar[tuple[str, ...]] = ("average", "avg")
    heading: ClassVar[str] = "Mean {subject}"
    meaning: ClassVar[str] = "The mean of {subject}."
    forms: ClassVar[form.Forms] = {
        "column": form.COLUMN,
        "by": form.COLUMNS,
        "variance": form.FLAG,
        "expected_rows": form.WHOLE,
        "expected_mean": form.NUMBER,
        "all_rows": form.FLAG,
        "output": form.METHOD,
        "beyond": form.FLAG,
    }
    ways: ClassVar[Mapping[str, tuple[Any, ...]]] = {"output": tuple(OUTPUTS)}
    under_design: ClassVar[bool] = True
    column: str
    _: KW_ONLY
    by: str | Sequence[str] = ()
    variance: bool | None = None
    contribution: Contribution | None = None
    expected_rows: int | None = None
    expected_mean: float | None = None
    all_rows: bool = False
    output: str | None = None
    beyond: bool | None = None

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return columns.number()

    def _measured(self) -> Measurement:
        if self.variance is not None:
            requirements.instance("variance", self.variance, bool, "variance=True or False")
        by = column_names(self.by)
        bounds = self.schema.bounds(self.column)
        if self.schema.design is not None:
            no_design_for(self, "contribution", "all_rows", "output", "variance", "expected_mean")
            return design_measurement(
                self, "mean", by, value=self.column, expected_rows=self.expected_rows, read="the mean"
            )
        if self.all_rows is not False:
            check_all_rows(self)
        expected = Expected(rows=self.expected_rows, mean=self.expected_mean)
        slope = expected.slope(bounds.low, bounds.high)
        size = self._size
        by_default = self.variance is None and self.output is None
        if by_default and (by_units := units_measurement(self, by, bounds, expected)) is not None:
            return by_units
        spread = self._spread(bounds)
        alone = None if spread else size
        if self.output is not None:
            return kept_inside(self, alone, lambda size: of_public_size(self, "mean", size, "the mean"))
        if alone is not None:
            return of_public_size(self, "mean", alone, "the mean")
        moments = BernsteinMoments(bounds=((bounds.low, bounds.high),), degrees=(4 if spread else 1,))

        # Noise Zₖ in the total of the part at pₖ moves n·mean by (pₖ − mean)·Zₖ, in units of half the width; where n
        # is public, by pₖ·Zₖ, whatever the mean is.
        def moves(used: BernsteinMoments) -> tuple[list[float], list[float] | None]:
            half = float(used.half)
            centres = (slope, 1.0) if size is None else (0.0, 0.0)
            placed = list(zip(used.positions, map(float, used.multiplied), strict=True))
            typical, worst = ([half * abs(place - centre) / weight for place, weight in placed] for centre in centres)
            return typical, worst if size is None else None

        found = {self.column: bounds}
        return least_noise(self, moments, found, by=by, read="the mean", expected=expected, moves=moves)

    @cached_property
    def _size(self) -> int | None:
        """The number of rows, where it is public."""
        return None if column_names(self.by) else self.public_size(self.column)

    def _spread(self, bounds: Bounds) -> bool:
        """Whether the variance is released: by default where it costs little and tells something."""
        if self.variance is not None:
            return self.variance
        two_values = bounds.high - bounds.low == bounds.grid  # whose mean tells their variance
        return self._size is None and self.output is None and not two_values

    def _notes(self, found: Measurement) -> tuple[str, ...]:
        if self.schema.design is not None:
            return super()._notes(found)
        notes = *self._variance_note(found), *all_rows_notes(self, found), *output_notes(self, found)
        return (*super()._notes(found), *notes)

    def _variance_note(self, found: Measurement) -> tuple[str, ...]:
        """What the variance costs, where it is released unasked."""
        if self.variance is not None:
            return ()
        alone = self.changed(variance=False).measurement
        if alone.statistic == found.statistic:
            return ()
        error = expected(alone.error())
        return (f"variance=False leaves out the variance: error {error}, and a wider population_interval()",)
