"""Typed values: what the values of a column are, where nothing is declared of it: numbers, days, other text, missing.

Each value is typed by itself. The embedded engine brings values here in batches; others may hold more than fits here,
so they shorten numbers to their first binary digits and count equal ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from discreet.core.dates import Dates, Order
from discreet.core.rows.calendar import date_count
from discreet.core.rows.expressions import identifier, number_of
from discreet.core.rows.keep import Selected, kept_rows
from discreet.core.rows.read import Dataset
from discreet.core.rows.snapshot import UNIT, Snapshot, stored
from discreet.core.schema import Bounds, Contribution

__all__ = ["EXACT_DIGITS", "MISSING", "OTHER", "Visit", "unit_sizes", "visit_values"]

MISSING, OTHER = -(10**9), 1 - 10**9
"""In the place of a day, where there is none."""
EXACT_DIGITS = 8
"""Binary digits after the first: cells whose edges have no more of them are exact, also among shortened numbers."""
_SMALL, _LARGE = 2.0**-20, 2.0**60
"""Numbers beyond are alike when they are shortened."""
_AT_ONCE, _ROWS = 2**23, 2**16
"""Values, and rows, that are brought here at a time: one column then fits a processor's cache."""
_MAYBE_DATE = r"^[ \t]*[0-9]{1,4}[-./][0-9]{1,2}[-./][0-9]"

Visit = Callable[[int, Any, Any, Any, Any], None]
"""Of a column's place: numbers (NaN where there is none), whether they have decimals, days, and how often each counts.

Arrays of one length, or one value for all. Days count from 1970-01-01, and speak where there is no number.
"""


def visit_values(snapshot: Snapshot, columns: Sequence[str], order: Order, visit: Visit) -> None:
    """Call ``visit`` with all values of each column, one row of each unit, in one pass. Private."""
    rows, dataset = _one_row_each(snapshot, columns, order), snapshot.dataset

    def batch(found: Any) -> None:
        values = {name: _array(found.column(name)) for name in found.schema.names if name[0] in "nd"}
        for place in range(len(columns)):
            numbers = values.get(f"n{place}", np.float64(np.nan))
            visit(place, numbers, numbers != np.floor(numbers), values.get(f"d{place}", MISSING), 1)

    if dataset.engine == "duckdb":
        plain = {name: rows[name].fill_null(np.nan) for name in rows.columns if name.startswith("n")}
        dataset.scan(rows.mutate(**plain), batch, min(max(_AT_ONCE // len(columns), 1), _ROWS))
        return
    counted = dataset.fetch(_shortened(stored(dataset, rows), len(columns)))
    places, numbers, decimals, days, held = (one.to_numpy() for one in counted.columns)
    for place in range(len(columns)):
        own = places == place
        visit(place, numbers[own], decimals[own], days[own], held[own])


def _array(column: Any) -> Any:
    """An Arrow column without nulls, straight from its buffer: Arrow's own way imports pandas."""
    return np.frombuffer(column.buffers()[1], column.type.to_pandas_dtype(), column.offset + len(column))[
        column.offset :
    ]


def _one_row_each(snapshot: Snapshot, columns: Sequence[str], order: Order) -> Any:
    """One row of each unit: numbers ``n0, n1, …`` and days ``d0, d1, …`` of the columns."""
    dataset, unit = snapshot.dataset, snapshot.schema.unit.column
    dataset.require(unit, *columns)
    rows = _typed(dataset, columns, order, {} if unit is None else {UNIT: identifier(dataset.table[unit], unit)})
    if unit is None:
        return rows
    names = {name: name for name in rows.columns if name != UNIT}
    schema = replace(snapshot.schema, columns={name: Bounds(0, 1) for name in names}, where=None, related={})
    table = stored(dataset, rows.filter(rows[UNIT].notnull()))
    typed = replace(snapshot, schema=schema, table=table, names=names, gaps=frozenset(), kept={})
    return kept_rows(typed, Selected(contribution=Contribution(total=1)))


def _typed(dataset: Dataset, columns: Sequence[str], order: Order, keys: Mapping[str, Any]) -> Any:
    """Rows with numbers and days; a column whose type has no numbers, or nothing else, lacks them."""
    read: dict[str, Any] = {}
    for place, name in enumerate(columns):
        column, kind = dataset.table[name], dataset.table[name].type()
        plain = kind.is_numeric() or kind.is_boolean()
        if plain or kind.is_string():
            read[f"n{place}"] = number_of(column, name, dataset.written)
        if not plain:
            read[f"d{place}"] = column
    rows = dataset.table.select(**keys, **read).view()  # a view, so that engines compute each number once
    return rows.mutate(**{name: _day(rows, name, order) for name in read if name.startswith("d")})


def _day(rows: Any, name: str, order: Order) -> Any:
    """Day of a date; `OTHER` or `MISSING` where there is none, and missing where there is a number."""
    import ibis

    column, kind = rows[name], rows[name].type()
    known, missing = [], column.isnull()
    if kind.is_string() or kind.is_date() or kind.is_timestamp():
        day = date_count(column, Dates("1900-01-01", "2099-12-31", order=order), name).cast("int32").fill_null(OTHER)
        known = [(column.notnull(), day)]
    if kind.is_string():  # cheap tests first: most texts are numbers, and most others do not begin like a date
        missing = missing | column.re_search(r"^[ \t]*\z")
        known = [(rows[f"n{name[1:]}"].notnull(), MISSING), (column.re_search(_MAYBE_DATE), day)]
    return ibis.cases(*known, (missing, MISSING), else_=OTHER).cast("int32")


def _shortened(rows: Any, columns: int) -> Any:
    """Columns' places, shortened numbers, whether they had decimals, days, and how many rows have them.

    A number moves down to a multiple of a power of two that is 2¹¹ to 2¹³ times smaller, however the engine rounds a
    logarithm. So it passes no edge of at most `EXACT_DIGITS`. Dividing by a power of two is exact.
    """
    import ibis

    parts = []
    for place in range(columns):
        number, day = (rows[name] if name in rows.columns else None for name in (f"n{place}", f"d{place}"))
        value = (ibis.literal(None, type="float64") if number is None else number).clip(-_LARGE, _LARGE)
        step = 2.0 ** (value.abs().clip(_SMALL, None).log2().floor() - 12)
        decimals = (value != value.floor()).fill_null(False)
        code = ibis.literal(MISSING, type="int32") if day is None else day
        parts.append(rows.select(j=ibis.literal(place), n=(value / step).floor() * step, f=decimals, d=code))
    both = ibis.union(parts[0], *parts[1:])
    return both.group_by(["j", "n", "f", "d"]).aggregate(held=both.count())


def unit_sizes(snapshot: Snapshot) -> Any:
    """Numbers of rows that units have, and how many units have each. Private."""
    units = snapshot.table.group_by(UNIT).aggregate(held=snapshot.table.count())
    return snapshot.dataset.fetch(units.group_by("held").aggregate(n=units.count()))
