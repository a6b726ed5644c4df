"""Cells: in which of a public list of cells the values of a column lie, where nothing is declared of the column.

Whether a value is missing, a number, a date or something else depends on that value alone, and so does its cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.dates import Dates, Order
from discreet.core.rows.calendar import date_count
from discreet.core.rows.expressions import identifier, number_of, stripped
from discreet.core.rows.keep import CELL, Selected, keep_groups, kept_rows, taking_part
from discreet.core.rows.read import Dataset
from discreet.core.rows.snapshot import UNIT, Snapshot, stored
from discreet.core.schema import Bounds, Contribution

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["Cells", "cell_counts", "distinct_labels", "typed_rows", "unit_sizes"]

_MISSING, _OTHER, _NUMBER, _DATE = range(4)


@dataclass(frozen=True)
class Cells:
    """The cells of one column: missing, other text, numbers between edges, dates between edges.

    A cell holds its lower edge and not its upper one; the first and the last are open. ``split`` tells whole numbers
    from others: each cell of numbers is then two, the whole ones first.
    """

    column: str
    numbers: tuple[float, ...] = ()
    dates: tuple[float, ...] = ()
    split: bool = False

    @property
    def first_date(self) -> int:
        """Number of the first cell of dates, after those of numbers."""
        return 2 + (len(self.numbers) + 1) * (1 + self.split)

    @property
    def count(self) -> int:
        """How many cells there are."""
        return self.first_date + len(self.dates) + 1


def typed_rows(snapshot: Snapshot, columns: Sequence[str], order: Order) -> ir.Table:
    """For each column its values' kinds ``k0, k1, …`` and numbers ``v0, v1, …``, one row of each unit. Private."""
    dataset, unit = snapshot.dataset, snapshot.schema.unit.column
    dataset.require(unit, *columns)
    fields = {} if unit is None else {UNIT: identifier(dataset.table[unit], unit)}
    for place, name in enumerate(columns):
        fields |= _typed(dataset, name, place, order)
    rows = dataset.table.select(**fields)
    table = stored(dataset, rows if unit is None else rows.filter(rows[UNIT].notnull()))
    if unit is None:
        return table
    names = [name for name in fields if name != UNIT]
    schema = replace(snapshot.schema, columns={name: Bounds(0, 1) for name in names}, where=None, related={})
    typed = replace(snapshot, schema=schema, table=table, names={n: n for n in names}, gaps=frozenset(), kept={})
    return kept_rows(typed, Selected(contribution=Contribution(total=1)))


def _typed(dataset: Dataset, name: str, place: int, order: Order) -> dict[str, Any]:
    """Kind and number of a column's values; a date's number is its day."""
    import ibis

    column = dataset.table[name]
    kind, none = column.type(), ibis.literal(None, type="float64")
    dated = kind.is_string() or kind.is_date() or kind.is_timestamp()
    number = (
        number_of(column, name, dataset.decimal, dataset.thousands)
        if kind.is_numeric() or kind.is_boolean() or kind.is_string()
        else none
    )
    day = date_count(column, Dates("1900-01-01", "2099-12-31", order=order), name) if dated else none
    missing = column.isnull() | (stripped(column) == "") if kind.is_string() else column.isnull()
    found = ibis.cases(
        (number.notnull(), _NUMBER), (day.notnull(), _DATE), (missing, _MISSING), else_=_OTHER
    )  # fmt: skip
    if kind.is_floating():
        found = number.notnull().ifelse(_NUMBER, _MISSING)
    return {f"k{place}": found.cast("int8"), f"v{place}": number.coalesce(day)}


def cell_counts(
    snapshot: Snapshot, rows: ir.Table, places: Sequence[int], cells: Sequence[Cells]
) -> list[NDArray[np.int64]]:
    """How many typed rows each cell holds, for columns at these places. Private."""
    import ibis

    alike: dict[tuple[Any, ...], list[int]] = {}  # columns of the same cells share one expression: plans stay short
    for number, one in enumerate(cells):
        alike.setdefault((one.numbers, one.dates, one.split), []).append(number)
    counted = []
    for numbers in alike.values():
        parts = [
            rows.select(j=ibis.literal(one, type="int32"), kind=rows[f"k{places[one]}"], value=rows[f"v{places[one]}"])
            for one in numbers
        ]
        values = ibis.union(*parts) if len(parts) > 1 else parts[0]
        coded = values.select("j", c=_code(values.kind, values.value, cells[numbers[0]]).cast("int32"))
        counted.append(coded.group_by(["j", "c"]).aggregate(n=coded.count()))
    found = [np.zeros(one.count, np.int64) for one in cells]
    if counted:
        fetched = snapshot.dataset.fetch(ibis.union(*counted) if len(counted) > 1 else counted[0]).to_pydict()
        for number, code, count in zip(fetched["j"], fetched["c"], fetched["n"], strict=True):
            found[number][code] += count
    return found


def _code(kind: Any, value: Any, cells: Cells) -> Any:
    """Number of the cell of a value."""
    import ibis

    number = 2 + _placed(value, cells.numbers) * (1 + cells.split)
    number = number + (value != value.floor()).ifelse(1, 0) if cells.split else number
    date = cells.first_date + _placed(value, cells.dates)
    return ibis.cases((kind == _NUMBER, number), (kind == _DATE, date), else_=kind)


def _placed(value: Any, edges: Sequence[float], start: int = 0) -> Any:
    """How many edges a value reaches: exact comparisons, halving the edges that are left."""
    import ibis

    if not edges:
        return ibis.literal(start, type="int32")
    middle = len(edges) // 2
    below, above = _placed(value, edges[:middle], start), _placed(value, edges[middle + 1 :], start + middle + 1)
    return (value < edges[middle]).ifelse(below, above)


def unit_sizes(snapshot: Snapshot, edges: Sequence[float]) -> NDArray[np.int64]:
    """How many units have so many rows, between edges. Private."""
    table = snapshot.table
    units = table.group_by(UNIT).aggregate(held=table.count())
    coded = units.select(c=_placed(units.held, edges))
    fetched = snapshot.dataset.fetch(coded.group_by("c").aggregate(n=coded.count())).to_pydict()
    found = np.zeros(len(edges) + 1, np.int64)
    found[fetched["c"]] = fetched["n"]
    return found


def distinct_labels(snapshot: Snapshot, column: str, by: Sequence[str], groups: int) -> NDArray[np.int64]:
    """How many labels of a column occur in each cell, where a unit counts with at most ``groups`` of its own. Private.

    A unit's pairs of cell and label are chosen as its groups are; a row that is a unit has one.
    """
    units = column == snapshot.schema.unit.column
    snapshot.require(*by, *([] if units else [column]))
    rows = taking_part(snapshot, Selected(by=tuple(by)))
    label = rows[UNIT if units else snapshot.names[column]].cast("string")
    held = rows.select(*([] if snapshot.by_row else [UNIT]), CELL, label=label)
    held = held.filter(held.label.notnull())
    if not snapshot.by_row:
        pairs = held.distinct()
        pairs = pairs.mutate(pair=pairs[CELL].cast("string").concat("|", pairs.label))
        held = keep_groups(snapshot, pairs, "pair", groups)
    labels = held.select(CELL, "label").distinct()
    fetched = snapshot.dataset.fetch(labels.group_by(CELL).aggregate(n=labels.count())).to_pydict()
    found = np.zeros(snapshot.schema.cells(by), np.int64)
    found[fetched[CELL]] = fetched["n"]
    return found
