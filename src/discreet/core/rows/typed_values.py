"""Typed values: what the values of a column are, where nothing is declared of it: numbers, days, other text, missing.

Each value is typed by itself. Engines that hold more than fits here shorten numbers to their first binary digits and
count equal ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from discreet.core.columns import Dates, Order
from discreet.core.dialect import Dialect
from discreet.core.rows.expressions import date_count, identifier, number_of
from discreet.core.rows.keep import Selected, kept_rows
from discreet.core.rows.snapshot import UNIT, Snapshot, stored
from discreet.core.schema import Bounds, Contribution

__all__ = ["EXACT_DIGITS", "MISSING", "OTHER", "one_row_each", "shortened", "typed", "typed_texts"]

MISSING, OTHER = -(10**9), 1 - 10**9
"""In the place of a day, where there is none."""
EXACT_DIGITS = 8
"""Binary digits after the first: cells whose edges have no more of them are exact, also among shortened numbers."""
_SMALL, _LARGE = 2.0**-20, 2.0**60
"""Numbers beyond are alike when they are shortened."""
_MAYBE_DATE = r"^[ \t]*[0-9]{1,4}[-./][0-9]{1,2}[-./][0-9]"
_KEY, _ROW = "key", "row"


def one_row_each(snapshot: Snapshot, columns: Sequence[str], order: Order) -> Any:
    """One row of each unit: of column k its numbers ``nk``, its days ``dk``, or its texts ``tk``. Private."""
    import ibis

    dataset, unit = snapshot.dataset, snapshot.schema.unit.column
    dataset.require(unit, *columns)
    read = dict(_readable(dataset.table[name], name, place, order) for place, name in enumerate(columns))
    if unit is None:
        return dataset.table.select(**read)
    rows = dataset.table.select(**{UNIT: identifier(dataset.table[unit], unit)}, **read)
    rows = rows.filter(rows[UNIT].notnull())
    if dataset.engine != "duckdb":
        return _one_each(snapshot, stored(dataset, rows), [*read]).select(*read)
    # Narrow rows are sorted and joined faster. Rows of a unit have one key only where they are alike.
    rows = stored(dataset, rows.mutate(**{_ROW: ibis.row_number()}))
    keys = rows.select(UNIT, _ROW, **{_KEY: ibis.struct({name: rows[name] for name in read}).hash()})
    return rows.semi_join(_one_each(snapshot, stored(dataset, keys), [_KEY, _ROW]), _ROW).select(*read)


def _one_each(snapshot: Snapshot, table: Any, ordered_by: Sequence[str]) -> Any:
    schema = replace(snapshot.schema, columns={name: Bounds(0, 1) for name in ordered_by}, where=None, related={})
    names = {name: name for name in ordered_by}
    rows = replace(snapshot, schema=schema, table=table, names=names, gaps=frozenset(), kept={})
    return kept_rows(rows, Selected(contribution=Contribution(total=1)))


def _readable(column: Any, name: str, place: int, order: Order) -> tuple[str, Any]:
    """A column's numbers or days, where its type has no others; or its texts."""
    kind = column.type()
    if kind.is_numeric() or kind.is_boolean():
        return f"n{place}", number_of(column, name)
    if kind.is_date() or kind.is_timestamp():
        return f"d{place}", _day(column, None, order)
    return f"t{place}", column if kind.is_string() else column.cast("string")


def typed(rows: Any, written: Dialect, order: Order) -> Any:
    """The rows with numbers and days in the place of texts."""
    places = [name[1:] for name in rows.columns if name[0] == "t"]
    rows = rows.mutate(**{f"n{k}": number_of(rows[f"t{k}"], "", written) for k in places})
    rows = rows.view()  # so that engines compute each number once
    days = {f"d{k}": _day(rows[f"t{k}"], rows[f"n{k}"], order) for k in places}
    return rows.mutate(**days).drop(*(f"t{k}" for k in places))


def typed_texts(counted: Any, written: Dialect, order: Order) -> Any:
    """Of counted texts ``j, t0, held``, in an Arrow table, what `shortened` tells, with their whole numbers."""
    import ibis

    rows = typed(ibis.memtable(counted), written, order)
    return rows.select("j", n=rows.n0, f=_decimals(rows.n0), d=rows.d0, held=rows.held)


def _day(column: Any, number: Any, order: Order) -> Any:
    """Day of a date; `OTHER` or `MISSING` where there is none, and missing where a text is a number."""
    import ibis

    day = date_count(column, Dates("1900-01-01", "2099-12-31", order=order), "").cast("int32").fill_null(OTHER)
    if number is None:
        return column.isnull().ifelse(MISSING, day).cast("int32")
    missing = column.isnull() | column.re_search(r"^[ \t]*\z")
    # cheap tests first: most texts are numbers, and most others do not begin like a date
    known = [(number.notnull(), MISSING), (column.re_search(_MAYBE_DATE), day), (missing, MISSING)]
    return ibis.cases(*known, else_=OTHER).cast("int32")


def _decimals(number: Any) -> Any:
    """1 where a number has decimals, else 0; clipped first, because engines round to 64 bits."""
    number = number.clip(-_LARGE, _LARGE)
    return (number != number.floor()).fill_null(False).cast("int8")


def shortened(rows: Any) -> Any:
    """Columns' places, shortened numbers, whether they had decimals, days, and how many rows have them.

    A number moves down to a multiple of a power of two that is 2¹¹ to 2¹³ times smaller, however the engine rounds a
    logarithm. So it passes no edge of at most `EXACT_DIGITS`. Dividing by a power of two is exact.
    """
    import ibis

    parts = []
    for place in sorted({int(name[1:]) for name in rows.columns}):
        number, day = (rows[name] if name in rows.columns else None for name in (f"n{place}", f"d{place}"))
        value = (ibis.literal(None, type="float64") if number is None else number).clip(-_LARGE, _LARGE)
        step = 2.0 ** (value.abs().clip(_SMALL, None).log2().floor() - 12)
        code = ibis.literal(MISSING, type="int32") if day is None else day
        number = (value / step).floor() * step
        parts.append(rows.select(j=ibis.literal(place, type="int64"), n=number, f=_decimals(value), d=code))
    both = ibis.union(parts[0], *parts[1:])
    return both.group_by(["j", "n", "f", "d"]).aggregate(held=both.count())
