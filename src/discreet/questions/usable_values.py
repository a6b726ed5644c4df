"""Quality: which share of each column's values can be used. A cheap look before the rest of a budget is spent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, ClassVar, cast

import numpy as np

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.protection import Neighbours
from discreet.core.rows import Snapshot, usable_totals
from discreet.core.rows.keep import WHOLE
from discreet.core.schema import Contribution
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.additive import additive_noise
from discreet.questions import form
from discreet.questions.question import MeasuredQuestion, Measurement, column_names, fractions
from discreet.results.display import Facts, Interval
from discreet.results.frames import Reading
from discreet.results.release import Release, Statistic

UNUSABLE = 0.1
"""A column of which surely less than this share can be used is all but unusable."""


@dataclass(frozen=True, kw_only=True)
class Usable(Statistic):
    """The number of units, and for each column the number of them whose values can be used.

    A value can be used if it is read, lies inside its bounds and is on its list. Where units have several rows, a unit
    counts for the share of its rows, rounded down to 1/256.

    **Guarantee.** Each of the 1 + k numbers adds up parts between 0 and 1, one for each unit. So a unit that comes,
    goes or is replaced moves each of them by at most 1, also where a filter drops it.

    Parameters
    ----------
    columns
        The columns.
    unit
        What one unit is called.

    Examples
    --------
    >>> Usable(columns=("age", "sex"), unit="row").sensitivity(neighbours=Neighbours.ADD_REMOVE).l1
    3.0
    """

    name: ClassVar[str] = "usable"
    columns: Sequence[str]
    unit: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", column_names(self.columns, "columns"))
        if not self.columns:
            raise InvalidParameter("columns", (), "name at least one column", 'Pass columns=["age"].')

    @classmethod
    def release_type(cls) -> type[Release]:
        return UsableValuesRelease

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        """One in the number of units, and one in each column."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        return Sensitivity(moves=(1.0,) * (1 + len(self.columns)))

    def value(self, units: int, parts: Sequence[int]) -> Any:
        """The numbers, from what was counted. Private."""
        return fractions([Fraction(units), *(Fraction(part, WHOLE) for part in parts)])


@dataclass(frozen=True)
class UsableValuesRelease(Release):
    """Which share of each column's values can be used."""

    @property
    def _of(self) -> Usable:
        return cast(Usable, self.statistic)

    def share(self, column: str) -> float:
        """The estimated share of a column's values that can be used."""
        units, *usable = (float(value) for value in np.ravel(self.measured))
        place = self._of.columns.index(column)
        return min(max(usable[place] / max(units, 1.0), 0.0), 1.0)

    def share_interval(self, column: str, level: float = 0.95) -> Interval:
        """Interval for that share: both numbers lie in theirs at once."""
        checked = requirements.level(level)
        both = (np.ravel(np.asarray(end, dtype=float)) for end in self.noise_interval(1 - (1 - checked) / 2))
        (least, *lows), (most, *highs) = (end.tolist() for end in both)
        place = self._of.columns.index(column)
        shown = self.share(column)
        low = min(max(lows[place] / max(most, 1.0), 0.0), shown)
        high = 1.0 if least < 1.0 else min(max(highs[place] / least, shown), 1.0)
        return Interval(low, high, checked)

    def unusable(self) -> tuple[str, ...]:
        """Columns that are all but unusable: the whole 95 % interval of their share lies below `UNUSABLE`."""
        return tuple(name for name in self._of.columns if self.share_interval(name).high < UNUSABLE)

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """One share per column."""
        measure = "share of usable values"
        return [
            Reading(name, self.share(name), self.share_interval(name), labels={"column": name}, measure=measure)
            for name in self._of.columns
        ]

    def facts(self) -> Facts:
        """The facts to show."""
        shown = [
            (
                f"usable, {reading.label}",
                f"{100 * reading.estimate:.0f} % "
                f"({100 * reading.noise.low:.0f} to {100 * reading.noise.high:.0f} %, 95 %)",
            )
            for reading in self.readings()
            if reading.noise is not None
        ]
        return [*shown, *self.protection_facts()]


@dataclass(frozen=True)
class UsableValuesQuestion(MeasuredQuestion[UsableValuesRelease]):
    """Which share of each column's values can be used: read, inside the bounds, on the list.

    Guarantee
    ---------
    A unit moves the number of units by 1, and each column's by at most 1: see `Usable`.

    Attributes
    ----------
    columns
        The columns; all that the schema declares by default.

    Examples
    --------
    >>> from discreet import Bounds, Schema
    >>> asked = UsableValuesQuestion(Schema(columns={"age": Bounds(0, 120, grid=1)}), epsilon=0.1)
    >>> asked.measurement.sensitivity.l1
    2.0
    """

    topic: ClassVar[str] = "Is the data usable?"
    answers: ClassVar[str] = "What proportion of each column's values can be used?"
    under_design: ClassVar[bool] = True
    ask: ClassVar[str] = "usable_values"
    heading: ClassVar[str] = "Usable values"
    meaning: ClassVar[str] = "Which share of each column's values can be used: read, inside the bounds, on the list."
    leads: ClassVar[bool] = True
    forms: ClassVar[form.Forms] = {"columns": form.COLUMNS}
    _: KW_ONLY
    columns: str | Sequence[str] = ()

    def _measured(self) -> Measurement:
        by_row = self.schema.unit_is_row
        names = column_names(self.columns, "columns") or tuple(self.schema.columns)
        for name in names:
            self.schema.column(name)
        statistic = Usable(columns=names, unit=self.schema.unit.name)
        sensitivity = statistic.sensitivity(neighbours=self.schema.neighbours)

        def from_rows(rows: Snapshot) -> Any:
            return statistic.value(*usable_totals(rows, names))

        return Measurement(
            statistic=statistic,
            sensitivity=sensitivity,
            mechanism=additive_noise(self.guarantee, sensitivity, whole=by_row),
            columns=names,
            contribution=None if by_row else Contribution(groups=1, rows=1),
            public={},
            from_rows=from_rows,
            read=f"usable {statistic.unit}s",
        )

    def columns_read(self) -> tuple[str, ...]:
        return tuple(self.measurement.columns)

    def counted_words(self) -> str | None:
        unit = self.schema.unit
        return None if self.schema.unit_is_row else f"each {unit.name} once, with the share of its rows"
