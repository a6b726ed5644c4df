"""Dates: a column of days, months or years between two public dates, counted in whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar, Literal

from discreet.core.columns import Bounds
from discreet.core.errors import WrongType
from discreet.core.requirements import one_of
from discreet.core.row_expression import RowExpression

__all__ = ["Dates", "Order"]

Order = Literal["ymd", "dmy", "mdy"]
EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Dates(Bounds):
    """A column of dates: clipped to [low, high] and counted in days since 1970-01-01, months since then, or years.

    Questions about numbers release these counts: the median of dates is a day's number, and `day` is its date. Formulas
    read the date: ``"year(born)"``, ``"age(born, 2024-06-30)"``, ``"left - entered"`` in days.

    Parameters
    ----------
    low, high
        Public limits: dates, or text such as ``"2024-01-31"``. Dates outside are moved to the nearer limit.
    grid
        ``"day"``, ``"month"`` or ``"year"``.
    nulls
        What to do with missing values and text that is not a date: ``"drop"`` the row, ``"refuse"`` the data set, or
        the date that takes their place.
    value, missing
        As for `Bounds`.
    order
        How text is written: ``"ymd"``, ``"dmy"`` or ``"mdy"``, between dashes, dots or slashes. A time after the date
        is ignored.

    Examples
    --------
    >>> born = Dates("1900-01-01", "2024-12-31")
    >>> born.day(born.lowest), born.cells
    (datetime.date(1900, 1, 1), 45656)
    """

    low: Any
    high: Any
    grid: Any = "day"
    nulls: Any = "drop"
    value: RowExpression | None = None
    missing: Sequence[str | float] = ()
    unit: str = "day"
    order: Order = "ymd"
    computed_kinds: ClassVar[tuple[str, ...]] = ("date",)

    def __post_init__(self) -> None:
        if isinstance(self.grid, str):  # a copy with other settings holds counts already
            object.__setattr__(self, "unit", one_of("grid", self.grid, ("day", "month", "year"), 'Write "month".'))
            for name in ("low", "high", "nulls"):
                given = getattr(self, name)
                if name != "nulls" or not (isinstance(given, str) and given in ("drop", "refuse")):
                    object.__setattr__(self, name, _count(_date(name, given), self.unit))
        one_of("order", self.order, ("ymd", "dmy", "mdy"), 'Write "dmy" for 31.01.2024.')
        object.__setattr__(self, "grid", 1.0)
        super().__post_init__()

    def day(self, count: float) -> date:
        """The date of a count; the first day of a month or year.

        Examples
        --------
        >>> Dates("2020-01-01", "2024-12-01", grid="month").day(649)
        datetime.date(2024, 2, 1)
        """
        whole = round(count)
        if self.unit == "day":
            return date.fromordinal(EPOCH.toordinal() + whole)
        return date(whole, 1, 1) if self.unit == "year" else date(1970 + whole // 12, whole % 12 + 1, 1)

    def to_dict(self) -> dict[str, Any]:
        """The declaration as plain data."""
        said = super().to_dict() | {"low": self.day(self.low), "high": self.day(self.high), "grid": self.unit}
        if not isinstance(self.nulls, str):
            said["nulls"] = self.day(self.nulls)
        order = {} if self.order == "ymd" else {"order": self.order}
        return {name: str(value) if isinstance(value, date) else value for name, value in said.items()} | order


def _count(day: date, unit: str) -> int:
    if unit == "day":
        return day.toordinal() - EPOCH.toordinal()
    return day.year if unit == "year" else (day.year - 1970) * 12 + day.month - 1


def _date(name: str, given: Any) -> date:
    try:
        return date.fromisoformat(str(given)[:10])
    except ValueError:
        raise WrongType(name, given, "must be a date", 'Write "2024-01-31".') from None
