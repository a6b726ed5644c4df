"""Left out: how many rows and units the limits and missing values kept out of a question."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, ClassVar, cast

import numpy as np

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.protection import Neighbours
from discreet.core.rows import Selected, Snapshot, dropped_rows
from discreet.core.schema import Contribution, in_parts
from discreet.core.sensitivity import Sensitivity
from discreet.inference.moments import whole_count, whole_interval
from discreet.inference.noise import combined_error
from discreet.mechanisms.additive import additive_noise
from discreet.questions import form
from discreet.questions.moments import MomentsRelease
from discreet.questions.question import (
    DeclaredColumns,
    Forecast,
    MeasuredQuestion,
    Measurement,
    column_names,
    fractions,
)
from discreet.results.display import Facts, Interval
from discreet.results.frames import Reading
from discreet.results.release import Release, Statistic
from discreet.results.wording import reading_line

_MOST_COUNTED = 1000
"""Rows of one unit that are counted by default at most."""


@dataclass(frozen=True, kw_only=True)
class DroppedRows(Statistic):
    """The rows that a question drops, in parts that add up to at most 1 for each unit.

    Let o be the rows of a unit beyond its limits and g its rows without a value, counted up to ``most`` together, the
    first ones first. Its parts are (1 − (o + g)/most, o/most, g/most), or nothing where no row is left out. So all
    parts together are the units with rows left out, and the last two, times ``most``, are rows. Where a row is the
    unit, only the rows without a value are counted.

    **Guarantee.** Parts are not negative and add up to 0 or 1: a unit that comes or goes moves ℓ₁ and ℓ₂ by at most 1,
    one that is replaced ℓ₁ by at most 2 and ℓ₂ by at most √2, however many rows it has. Proof:
    ``docs/proofs/parts.md``.

    Parameters
    ----------
    most
        Rows left out of one unit that are counted; 1 where a row is the unit.
    unit
        What one unit is called.
    limited
        Whether units have limits: ids are the units.

    Examples
    --------
    >>> DroppedRows(most=8, unit="device").value(units=3, over=10, missing=2)
    array([Fraction(3, 2), Fraction(5, 4), Fraction(1, 4)], dtype=object)
    """

    name: ClassVar[str] = "dropped_rows"
    most: int
    unit: str
    limited: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "most", requirements.positive_integer("most", self.most))

    @classmethod
    def release_type(cls) -> type[Release]:
        return DroppedRowsRelease

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        """One whole for each unit that comes or goes."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        if not self.limited:
            return Sensitivity(moves=(1.0,))
        return in_parts(Contribution(groups=1, rows=1), 1, 3, neighbours)

    def value(self, *, units: int, over: int, missing: int) -> Any:
        """The parts, from what was counted. Private."""
        if not self.limited:
            return missing
        rows = Fraction(over, self.most), Fraction(missing, self.most)
        return fractions([Fraction(units) - sum(rows), *rows])


@dataclass(frozen=True)
class DroppedRowsRelease(Release):
    """The number of units with dropped rows, and of dropped rows: beyond the limits, and without a value.

    ``value`` holds the noisy parts that a `DroppedRows` describes. Of one unit at most `most` rows are counted, so more
    rows may have been left out than `rows_over_limit` and `rows_missing` say.
    """

    @property
    def _of(self) -> DroppedRows:
        return cast(DroppedRows, self.statistic)

    @property
    def most(self) -> int:
        """Rows left out of one unit that are counted."""
        return self._of.most

    @property
    def units(self) -> float:
        """Units with at least one row left out."""
        return float(whole_count(float(np.sum(self.measured))))

    @property
    def rows_over_limit(self) -> float:
        """Rows beyond the limits, at most `most` of each unit; 0 where a row is the unit."""
        return self._rows(1) if self._of.limited else 0.0

    @property
    def rows_missing(self) -> float:
        """Rows that a missing or unlisted value drops, together with the former at most `most` of each unit."""
        return self._rows(-1)

    def _rows(self, part: int) -> float:
        return float(whole_count(self.most * float(np.ravel(self.measured)[part])))

    def units_interval(self, level: float = 0.95) -> Interval:
        """Interval for the number of units with dropped rows, from the distribution of the noise."""
        checked = requirements.level(level)
        if not self._of.limited:
            return self.rows_interval(checked, missing=True)
        measured = float(np.sum(self.measured))
        reach = combined_error(self.mechanism, (1.0, 1.0, 1.0), checked)
        return Interval(*whole_interval(measured - reach, measured + reach, self.units), checked)

    def rows_interval(self, level: float = 0.95, *, missing: bool = False) -> Interval:
        """Interval for the rows beyond the limits, or for those without a value, from the distribution of the noise."""
        checked = requirements.level(level)
        ends = (self.most * np.ravel(np.asarray(end, dtype=float)) for end in self.noise_interval(checked))
        low, high = (float(end[-1 if missing else 1]) for end in ends)
        shown = self.rows_missing if missing else self.rows_over_limit
        return Interval(*whole_interval(low, high, shown), checked)

    def mean_interval(self, mean: MomentsRelease, level: float = 0.95) -> Interval:
        """Interval for the mean of all rows with a value, where a unit with m rows and a limit of k has weights k/m.

        The rows that a unit keeps are a random choice whose mean is that weighted mean. Noise gets half of 1 − level;
        what the choice adds is bounded for any data (``docs/proofs/bounding.md``): it is narrow where few units are
        over their limit.

        Parameters
        ----------
        mean
            The mean, or the share, of the rows that were kept: of the same columns, groups and limits. Where all rows
            count with weights, nothing was chosen, and its noise interval is the answer.
        level
            Of the interval.
        """
        checked = requirements.level(level)
        if mean.public.get("all_rows"):
            return mean.noise_interval(checked)
        miss = 1 - checked
        data = mean.noise_interval(1 - miss / 2)
        over = float(self.units_interval(1 - miss / 8).high)
        rows = max(mean.count - mean.count_error(1 - miss / 8), 1.0)
        (low, high), _, _ = mean.place()
        most = mean.most_rows * (high - low)
        reach = most * math.sqrt(over * math.log(8 / miss) / 2) / rows
        return Interval(max(float(data.low) - reach, low), min(float(data.high) + reach, high), checked)

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """Units, rows beyond the limits, and rows without a value."""
        missing = Reading(
            "without a value",
            self.rows_missing,
            self.rows_interval(missing=True),
            labels={"why": "missing"},
            measure="number of rows left out",
        )
        if not self._of.limited:
            return [missing]
        units = f"number of units ({self._of.unit}) with rows left out"
        return [
            Reading("", self.units, self.units_interval(), labels={"why": "any"}, measure=units),
            Reading(
                "beyond the limits",
                self.rows_over_limit,
                self.rows_interval(),
                labels={"why": "limits"},
                measure="number of rows left out",
            ),
            missing,
        ]

    def facts(self) -> Facts:
        """The facts to show."""
        shown = [
            (
                f"{reading.measure.removeprefix('number of ')}{', ' if reading.label else ''}{reading.label}",
                reading_line(reading.to_dict()),
            )
            for reading in self.readings()
            if reading.noise is not None
        ]
        offer = [("instead", "all_rows=True makes means and proportions count all rows")] if self._any_over() else []
        return [*shown, *offer, *self.protection_facts()]

    def _any_over(self) -> bool:
        """True where the noise alone does not explain that rows are beyond the limits."""
        return self._of.limited and float(self.rows_interval().low) > 0


@dataclass(frozen=True)
class DroppedRowsQuestion(MeasuredQuestion[DroppedRowsRelease]):
    """The number of rows and units that limits and missing values drop from questions about some columns.

    Guarantee
    ---------
    A unit moves the parts by 1 in ℓ₁, however many rows it has: see `DroppedRows`.

    Attributes
    ----------
    columns
        Columns that a question reads; rows without a value there are left out.
    by
        Columns of labels that it groups by: limits on groups and on rows in each group count by them.
    contribution
        Limits per unit.
    most_rows
        Rows left out of one unit that are counted: a public number. The noise in rows grows with it, and rows beyond
        it are not seen. By default four times what one unit may contribute, at most 1,000.

    Examples
    --------
    >>> from discreet import Bounds, Contribution, PrivacyUnit, Schema
    >>> unit = PrivacyUnit("device", contribution=Contribution(rows=8))
    >>> schema = Schema(columns={"spend": Bounds(0, 50, grid=0.5)}, unit=unit)
    >>> asked = DroppedRowsQuestion(schema, epsilon=0.1, columns="spend")
    >>> asked.statistic.most, asked.measurement.mechanism.scale
    (32, 10.0)
    """

    topic: ClassVar[str] = "Is the data usable?"
    answers: ClassVar[str] = "How many rows do limits and missing values leave out?"
    under_design: ClassVar[bool] = True
    ask: ClassVar[str] = "dropped_rows"
    also: ClassVar[tuple[str, ...]] = ("left_out",)
    heading: ClassVar[str] = "Rows left out"
    meaning: ClassVar[str] = "How many rows and units the limits and missing values left out."
    leads: ClassVar[bool] = True
    forms: ClassVar[form.Forms] = {
        "columns": form.COLUMNS,
        "by": form.COLUMNS,
        "most_rows": form.WHOLE,
    }
    _: KW_ONLY
    columns: str | Sequence[str] = ()
    by: str | Sequence[str] = ()
    contribution: Contribution | None = None
    most_rows: int | None = None

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return {"columns": [*columns.numbers[:1], *columns.listed[:1]]}

    @property
    def statistic(self) -> DroppedRows:
        """The statistic that is counted, up to so many rows of one unit."""
        unit = self.schema.unit
        if self.schema.unit_is_row:
            given = 1 if self.most_rows is None else requirements.positive_integer("most_rows", self.most_rows)
            if given != 1:
                raise InvalidParameter(
                    "most_rows", self.most_rows, "a unit has one row, which counts once", "Leave most_rows out."
                )
            return DroppedRows(most=1, unit=unit.name, limited=False)
        cells = self.schema.cells(column_names(self.by))
        default = min(4 * self.schema.contribution(self.contribution).most_rows(cells), _MOST_COUNTED)
        most = default if self.most_rows is None else requirements.positive_integer("most_rows", self.most_rows)
        if most > 2**20:
            raise InvalidParameter("most_rows", most, "must be at most 2²⁰", "Count fewer rows of each unit.")
        return DroppedRows(most=most, unit=unit.name)

    def _measured(self) -> Measurement:
        by = column_names(self.by)
        columns = column_names(self.columns, "columns")
        for name in (*columns, *by):
            self.schema.column(name)
        statistic = self.statistic
        if not statistic.limited and not (by or columns):
            raise InvalidParameter(
                "columns", (), "are needed: if rows are units, only missing values drop them", 'Write columns=["age"].'
            )
        selected = Selected(by=by, contribution=self.contribution, whole=columns)
        sensitivity = statistic.sensitivity(neighbours=self.schema.neighbours)

        def from_rows(rows: Snapshot) -> Any:
            units, over, missing = dropped_rows(rows, selected, statistic.most)
            return statistic.value(units=units, over=over, missing=missing)

        return Measurement(
            statistic=statistic,
            sensitivity=sensitivity,
            mechanism=additive_noise(self.guarantee, sensitivity, whole=not statistic.limited),
            by=by,
            columns=columns,
            contribution=self.contribution,
            public={},
            from_rows=from_rows,
            read="rows left out",
            forecast=lambda: Forecast(weights=(float(statistic.most),)),
        )

    def counted_words(self) -> str | None:
        if self.schema.unit_is_row:
            return None
        return f"rows left out, at most {self.statistic.most} of each {self.schema.unit.name}"
