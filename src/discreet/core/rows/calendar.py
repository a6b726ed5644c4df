"""Calendar: dates as whole numbers on an engine.

Only text of one closed pattern is ever cast to a date, by a cast that cannot fail: engines agree on what such text
means, and text that is no day of the Gregorian calendar is missing.
"""

from __future__ import annotations

from typing import Any

from discreet.core.dates import EPOCH, Dates
from discreet.core.errors import WrongType

__all__ = ["civil", "date_count", "days_of"]

_BLANK = r"[ \t]*"
_DAY = 86_400_000
_REST = r"(?:[T ][0-9:.,+Z -]*)?(?:\t[ \t]*)?"  # a time, then blanks: each character has one reading, which is fast
_MARK = r"[-./]"
_YEAR = "([0-9]{4})"
_ISO = r"^[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}\z"
_OTHER = "([0-9]{1,2})"
_GROUPS = {
    "ymd": ((_YEAR, _OTHER, _OTHER), (1, 2, 3)),
    "dmy": ((_OTHER, _OTHER, _YEAR), (3, 2, 1)),
    "mdy": ((_OTHER, _OTHER, _YEAR), (3, 1, 2)),
}


def date_count(column: Any, dates: Dates, name: str) -> Any:
    """A column's days, months or years, as `Dates` counts them; null where there is no date."""
    kind = column.type()
    if dates.value is not None:  # a formula's date is the number of its day
        return _counted(_date(column), dates)
    if not (kind.is_date() or kind.is_timestamp() or kind.is_string()):
        raise WrongType("column", name, f"is of type {kind}, not a date", "Convert it to dates, or to text.")
    if kind.is_timestamp() and kind.timezone is not None and column.get_backend().name == "duckdb":
        return _counted(_utc_date(column), dates)
    parts, order = _GROUPS[dates.order if kind.is_string() else "ymd"]
    pattern = rf"^{_BLANK}{_MARK.join(parts)}{_REST}\z"
    text = column.cast("string")
    year, month, day = (text.re_extract(pattern, group) for group in order)
    year = year.nullif("0000")  # engines differ about the year 0
    written = year.concat("-", month, "-", day)
    if order == (1, 2, 3):  # most dates are written as engines read them, which is four times as fast
        written = text.re_search(_ISO).ifelse(text, written)
    return _counted(written.try_cast("date"), dates)


def _utc_date(column: Any) -> Any:
    """The day of a timestamp on DuckDB at UTC, whatever the connection's time zone is; null beyond four-digit years.

    A cast, and the seconds that ibis asks for, would be those of the connection's time zone.
    """
    import ibis
    from ibis.expr import datatypes

    instant = ibis.udf.scalar.builtin(name="epoch_ms", signature=((column.type(),), datatypes.int64))
    known = column.cast("string").re_search(r"^[1-9][0-9]{3}-")  # infinite ones have no milliseconds
    milliseconds = instant(lambda moment: moment)(known.ifelse(column, None))
    return _date(((milliseconds - (milliseconds % _DAY + _DAY) % _DAY) / _DAY).cast("int64")).cast("date")


def _counted(day: Any, dates: Dates) -> Any:
    import ibis

    if dates.unit == "day":
        return day.delta(ibis.date(EPOCH.isoformat()), unit="day").cast("float64")
    months = (day.year().cast("int64") - 1970) * 12 + day.month() - 1
    return (day.year() if dates.unit == "year" else months).cast("float64")


def _date(days: Any) -> Any:
    import ibis

    return ibis.date(EPOCH.isoformat()) + days.as_interval("D")


def days_of(count: Any, dates: Dates) -> Any:
    """Days since 1970-01-01 of what `Dates` counts: the first day of a month or year."""
    import ibis

    if dates.unit == "day":
        return count
    first = ibis.date(EPOCH.isoformat())
    day = first + (count - 1970).as_interval("Y") if dates.unit == "year" else first + count.as_interval("M")
    return day.cast("date").delta(first, unit="day").cast("int64")


def civil(days: Any) -> tuple[Any, Any, Any]:
    """Year, month and day of a number of days since 1970-01-01."""
    day = _date(days).cast("date")
    return day.year().cast("int64"), day.month().cast("int64"), day.day().cast("int64")
