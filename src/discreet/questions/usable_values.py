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
from discreet.core.schema import Bounds, Contribution
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.additive import additive_noise
from discreet.questions import form
from discreet.questions.clipped import percent
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

    With ``sides`` the values below and above the bounds of these columns are counted, too. A row's value of a column is
    usable, below, above or none of them: so the three numbers of a column move by at most 1 together where a unit comes
    or goes, and by 2 where it is replaced.

    Parameters
    ----------
    columns
        The columns.
    unit
        What one unit is called.
    sides
        Columns of numbers whose values beyond the bounds are counted on either side.

    Examples
    --------
    >>> Usable(columns=("age", "sex"), unit="row").sensitivity(neighbours=Neighbours.ADD_REMOVE).l1
    3.0
    """

    name: ClassVar[str] = "usable"
    columns: Sequence[str]
    unit: str
    sides: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("columns", "sides"):
            object.__setattr__(self, name, column_names(getattr(self, name), name))
        if not {*self.sides} <= {*self.columns}:
            raise InvalidParameter("sides", self.sides, "must be among the columns", "Name them in columns, too.")
        if not self.columns:
            raise InvalidParameter("columns", (), "name at least one column", 'Pass columns=["age"].')

    @classmethod
    def release_type(cls) -> type[Release]:
        return UsableValuesRelease

    def parameters(self) -> dict[str, Any]:
        """The fields; answers that were stored before there were sides say nothing of them."""
        told = super().parameters()
        return told if self.sides else {name: told[name] for name in told if name != "sides"}

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours, by_row: bool = True) -> Sensitivity:
        """One in the number of units, and one in each column; of a replaced unit one in each of its sides, too."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        moved = 1 + len(self.columns) + len(self.sides) * (neighbours.sides - 1)
        if by_row or not self.sides:
            return Sensitivity(moves=(1.0,) * moved)
        # Rows of a unit may spread over the three numbers of a column: all of them move by 1 together.
        return Sensitivity(l1=float(moved), dimension=1 + len(self.columns) + 2 * len(self.sides))

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

    def beyond(self, column: str, level: float = 0.95) -> dict[str, Interval]:
        """Intervals for the shares of a column's values that lie below and above its bounds, of all units."""
        of, checked = self._of, requirements.level(level)
        if column not in of.sides:
            fix = f"Ask with columns={column!r}, sides=True."
            raise InvalidParameter("column", column, "was not asked about its sides", fix)
        both = (np.ravel(np.asarray(end, dtype=float)) for end in self.noise_interval(1 - (1 - checked) / 2))
        (least, *lows), (most, *highs) = (end.tolist() for end in both)
        first = len(of.columns) + 2 * of.sides.index(column)
        return {
            side: Interval(
                min(max(lows[place] / max(most, 1.0), 0.0), 1.0),
                1.0 if least < 1.0 else min(max(highs[place] / least, 0.0), 1.0),
                checked,
            )
            for side, place in (("below", first), ("above", first + 1))
        }

    def unusable(self) -> tuple[str, ...]:
        """Columns that are all but unusable: the whole 95 % interval of their share lies below `UNUSABLE`."""
        return tuple(name for name in self._of.columns if self.share_interval(name).high < UNUSABLE)

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """One share per column; then those below and above the bounds, where they were asked for."""
        measure = "share of usable values"
        found = [
            Reading(name, self.share(name), self.share_interval(name), labels={"column": name}, measure=measure)
            for name in self._of.columns
        ]
        rows, *numbers = np.ravel(np.asarray(self.measured, dtype=float)).tolist()
        beside = numbers[len(self._of.columns) :]
        sides = [(name, side, ends) for name in self._of.sides for side, ends in self.beyond(name).items()]
        for (name, side, ends), number in zip(sides, beside, strict=True):
            share = float(np.clip(number / max(rows, 1.0), ends.low, ends.high))
            told, measure = {"column": name, "side": side}, f"share {side} the bounds"
            found.append(Reading(f"{name} {side}", share, ends, labels=told, measure=measure))
        return found

    def facts(self) -> Facts:
        """The facts to show."""
        shown = [
            (
                f"usable, {reading['label']}" if "side" not in reading["labels"] else reading["label"],
                f"{percent(reading['estimate'])} % "
                f"({percent(reading['noise']['low'])} to {percent(reading['noise']['high'])} %, 95 %)",
            )
            for reading in self.told_readings()
            if reading["noise"] is not None
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
    sides
        Whether to tell, of columns of numbers, how many values lie below their bounds and how many above: these are
        moved to the bounds in means, sums, regressions and comparisons.

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
    forms: ClassVar[form.Forms] = {"columns": form.COLUMNS, "sides": form.FLAG}
    _: KW_ONLY
    columns: str | Sequence[str] = ()
    sides: bool = False

    def _measured(self) -> Measurement:
        by_row = self.schema.unit_is_row
        names = column_names(self.columns, "columns") or tuple(self.schema.columns)
        for name in names:
            self.schema.column(name)
        requirements.instance("sides", self.sides, bool, "sides=True or False")
        numbers = [name for name in names if isinstance(self.schema.column(name), Bounds)] if self.sides else []
        statistic = Usable(columns=names, unit=self.schema.unit.name, sides=numbers)
        sensitivity = statistic.sensitivity(neighbours=self.schema.neighbours, by_row=by_row)

        def from_rows(rows: Snapshot) -> Any:
            return statistic.value(*usable_totals(rows, names, numbers))

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
