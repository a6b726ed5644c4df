"""Cells: in which of a public list of cells the values of a column lie, where nothing is declared of the column.

Whether a value is missing, a number, a date or something else depends on that value alone, and so does its cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from discreet.core.dates import Dates, Order
from discreet.core.rows.calendar import date_count
from discreet.core.rows.expressions import identifier, number_of, stripped
from discreet.core.rows.frames import LARGEST_WHOLE_FLOAT
from discreet.core.rows.keep import Selected, kept_rows
from discreet.core.rows.read import Dataset
from discreet.core.rows.snapshot import UNIT, Snapshot, stored
from discreet.core.schema import Bounds, Contribution

__all__ = ["Grid", "cell_counts", "typed_rows", "unit_sizes"]

_MISSING, _OTHER, _NUMBER, _DATE = range(4)


class Grid(NamedTuple):
    """The cells of a column: missing is 0, other text 1; then numbers between edges, and dates between edges.

    A cell holds its lower edge and not its upper one; the first and the last are open. Where they are ``split``, each
    cell of numbers is two: of whole numbers, and of others.
    """

    numbers: tuple[float, ...] = ()
    dates: tuple[float, ...] = ()
    split: bool = False

    @property
    def first_date(self) -> int:
        """Number of the first cell of dates."""
        return 2 + (len(self.numbers) + 1) * (1 + self.split)


def typed_rows(snapshot: Snapshot, columns: Sequence[str], order: Order) -> Any:
    """For each column its values' kinds ``k0, k1, …`` and numbers ``v0, v1, …``, one row of each unit. Private."""
    dataset, unit = snapshot.dataset, snapshot.schema.unit.column
    dataset.require(unit, *columns)
    fields: dict[str, Any] = {}
    for place, name in enumerate(columns):
        fields[f"k{place}"], fields[f"v{place}"] = _typed(dataset, name, order)
    if unit is None:
        return stored(dataset, dataset.table.select(**fields))
    rows = dataset.table.select(**{UNIT: identifier(dataset.table[unit], unit)}, **fields)
    schema = replace(snapshot.schema, columns={name: Bounds(0, 1) for name in fields}, where=None, related={})
    table, names = stored(dataset, rows.filter(rows[UNIT].notnull())), {name: name for name in fields}
    typed = replace(snapshot, schema=schema, table=table, names=names, gaps=frozenset(), kept={})
    return kept_rows(typed, Selected(contribution=Contribution(total=1)))


def _typed(dataset: Dataset, name: str, order: Order) -> tuple[Any, Any]:
    """Kind and number of a column's values; a date's number is its day."""
    import ibis

    column, number = dataset.table[name], ibis.literal(None, type="float64")
    kind, text, day, missing = column.type(), column.type().is_string(), number, column.isnull()
    if text or kind.is_numeric() or kind.is_boolean():
        number = number_of(column, name, dataset.decimal, dataset.thousands)
    if text or kind.is_date() or kind.is_timestamp():
        day = date_count(column, Dates("1900-01-01", "2099-12-31", order=order), name)
    if text or kind.is_floating():
        missing = missing | (stripped(column) == "" if text else column.isnan())
    found = ibis.cases((number.notnull(), _NUMBER), (day.notnull(), _DATE), (missing, _MISSING), else_=_OTHER)
    return found.cast("int8"), number.coalesce(day)


def cell_counts(snapshot: Snapshot, rows: Any, grids: Mapping[int, Grid]) -> dict[tuple[int, int], int]:
    """How many typed rows each cell holds, by the place of a column and the number of a cell. Private."""
    import ibis

    alike: dict[Grid, list[Any]] = {}  # columns of one grid share one expression, so that plans stay short
    for place, grid in grids.items():
        own = rows.select(j=ibis.literal(place, type="int32"), kind=rows[f"k{place}"], value=rows[f"v{place}"])
        alike.setdefault(grid, []).append(own)
    coded = []
    for grid, parts in alike.items():
        of = ibis.union(parts[0], *parts[1:])
        small = (of.value.abs() <= LARGEST_WHOLE_FLOAT).ifelse(of.value, None)  # engines cast others with an error
        fraction = (small != small.floor()).fill_null(False).ifelse(1, 0) if grid.split else 0
        number = 2 + _placed(of.value, grid.numbers) * (1 + grid.split) + fraction
        date = grid.first_date + _placed(of.value, grid.dates)
        cell = ibis.cases((of.kind == _NUMBER, number), (of.kind == _DATE, date), else_=of.kind)
        coded.append(of.select("j", c=cell.cast("int32")))
    return _counted(snapshot, coded)


def _counted(snapshot: Snapshot, coded: Sequence[Any]) -> dict[tuple[int, int], int]:
    """How many rows have each pair of ``j`` and ``c``."""
    import ibis

    counts = [one.group_by(["j", "c"]).aggregate(n=one.count()) for one in coded]
    found = snapshot.dataset.fetch(ibis.union(counts[0], *counts[1:])).to_pydict() if counts else {}
    return {(j, c): n for j, c, n in zip(*found.values(), strict=True)}


def _placed(value: Any, edges: Sequence[float], start: int = 0) -> Any:
    """How many edges a value reaches: exact comparisons, halving the edges that are left."""
    import ibis

    if not edges:
        return ibis.literal(start, type="int32")
    middle = len(edges) // 2
    below, above = _placed(value, edges[:middle], start), _placed(value, edges[middle + 1 :], start + middle + 1)
    return (value < edges[middle]).ifelse(below, above)


def unit_sizes(snapshot: Snapshot, edges: Sequence[float]) -> dict[tuple[int, int], int]:
    """How many units have so many rows, between edges. Private."""
    units = snapshot.table.group_by(UNIT).aggregate(held=snapshot.table.count())
    return _counted(snapshot, [units.select(j=0, c=_placed(units.held, edges))])
