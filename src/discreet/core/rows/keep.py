"""Keep: which groups and rows of a unit count, where it has more than its limits.

A unit's groups, and its rows, are put in an order that only its own data and the data set's salt decide, and those
whose rank is within the limit are kept. The order follows SHA-256 keys, so the choice is uniform, the same on every
engine, and never depends on anybody else. Only units over their limit need keys. Proofs: ``docs/proofs/bounding.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discreet.core.errors import SourceError
from discreet.core.rows.snapshot import UNIT, Snapshot, stored
from discreet.core.schema import Bounds, Contribution, Schema
from discreet.core.stability import check_unit_sum

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["CELL", "Selected", "digest", "kept_rows", "within_groups"]

CELL = "c"
"""Column of cell numbers in what is kept."""
_SALT_DIGITS = 32
"""128 secret bits: the text then fits one block of SHA-256, which halves its cost."""
_CELL_DIGITS = 8
"""Hexadecimal digits that order a unit's cells; one SHA-256 serves eight cells."""
_CELLS_PER_HASH = 64 // _CELL_DIGITS
_MOST_BLOCKS = 4
_ROW_DIGITS = 12
"""Hexadecimal digits that order a unit's rows; DuckDB keeps twelve characters inline."""
_MOST_KEPT = 4
"""Choices that a session remembers."""


@dataclass(frozen=True, kw_only=True)
class Selected:
    """Which rows take part, and how many of each unit.

    Parameters
    ----------
    by
        Columns of labels whose combinations are the cells; the last one varies fastest.
    columns
        Numeric columns that are read; a row that misses one is dropped or has its replacement.
    contribution
        Limits per unit, where the schema's own do not apply.
    unit_sum
        Where given, each unit counts once per cell, with the sum of its single numeric column clipped to these
        bounds (on the column's grid), instead of once per row.
    """

    by: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    contribution: Contribution | None = None
    unit_sum: Bounds | None = None

    def limits(self, schema: Schema) -> Contribution | None:
        """Limits in force; None where every row counts. A clipped sum needs all rows of the groups it keeps."""
        limits = schema.contribution(self.contribution)
        if self.unit_sum is not None:
            check_unit_sum(schema, self.columns, self.unit_sum)
        return None if schema.unit.column is None else limits


def digest(snapshot: Snapshot, kind: str, *parts: Any) -> Any:
    """SHA-256 over one text: half of the salt, what is ordered, the parts in turn and, last, the unit."""
    import ibis

    text = ibis.literal(f"{snapshot.salt[:_SALT_DIGITS]}|{kind}")
    for part in parts:
        text = text.concat("|", part.cast("string"))
    return text.hexdigest("sha256")


def kept_rows(snapshot: Snapshot, selected: Selected) -> ir.Table:
    """The rows that count: unit, cell, and the grid steps of all numeric columns."""
    schema = snapshot.schema
    snapshot.dataset.require(*selected.by, *selected.columns)
    cells, limits = schema.cells(selected.by), selected.limits(schema)
    rows = _taking_part(snapshot, selected)
    groups = None if limits is None or limits.groups is None or limits.groups >= cells else limits.groups
    most = None if limits is None or selected.unit_sum is not None else limits.most_rows_in_a_group()
    if groups is None and most is None:
        return rows
    scope = (UNIT,) if limits is not None and limits.rows is None else (UNIT, CELL)
    dropping = frozenset(selected.columns) & snapshot.gaps
    choice = (selected.by, dropping, groups, most, scope)
    with snapshot.lock:
        if choice not in snapshot.kept:
            while len(snapshot.kept) >= _MOST_KEPT:
                snapshot.kept.pop(next(iter(snapshot.kept)))
            snapshot.kept[choice] = _chosen(snapshot, rows, groups, most, scope, cells)
        return snapshot.kept[choice]


def _taking_part(snapshot: Snapshot, selected: Selected) -> ir.Table:
    """Rows with all their values: the cell, and whatever else the snapshot has."""
    table = snapshot.table
    cell = _cell(snapshot, selected.by)
    needed = [
        table[snapshot.names[name]].notnull() for name in (*selected.by, *selected.columns) if name in snapshot.gaps
    ]
    rows = table.filter(needed) if needed else table
    return rows.mutate(**{CELL: cell})


def _cell(snapshot: Snapshot, by: Sequence[str]) -> Any:
    import ibis

    cell: Any = ibis.literal(0, type="int16")
    for position, name in enumerate(by):
        code = snapshot.table[snapshot.names[name]]
        labels = snapshot.schema.categories(name).cells
        cell = code if position == 0 else cell.cast("int64") * labels + code
    return cell.cast("int32" if snapshot.schema.cells(by) >= 2**15 else "int16")


def _chosen(
    snapshot: Snapshot, rows: ir.Table, groups: int | None, most: int | None, scope: tuple[str, ...], cells: int
) -> ir.Table:
    """Count first, choose groups, then rows; everything is computed once and checked against the limits."""
    held = rows.group_by(list(scope)).aggregate(held=rows.count().cast("int32"))
    if groups is not None:
        pairs = stored(snapshot.dataset, held)
        held = stored(snapshot.dataset, within_groups(snapshot, pairs, CELL, groups, cells))
    joined = rows.join(held, list(scope)).select(*rows.columns, "held")
    if most is not None:
        some = stored(snapshot.dataset, joined)
        over = _first_rows(snapshot, some.filter(some.held > most), scope, most)
        joined = some.filter(some.held <= most).union(over)
    steps = [name for column, name in snapshot.names.items() if isinstance(snapshot.schema.columns[column], Bounds)]
    kept = stored(snapshot.dataset, joined.select(UNIT, CELL, *steps))
    _check(snapshot, kept, groups, most, scope)
    return kept


def within_groups(snapshot: Snapshot, pairs: ir.Table, cell: str, groups: int, cells: int | None) -> ir.Table:
    """The pairs of unit and cell (or label) whose rank among those of the unit is within the limit."""
    import ibis

    counted = pairs.group_by(UNIT).aggregate(groups=pairs.count())
    over = counted.filter(counted.groups > groups).select(over=counted[UNIT])
    blocks = None if cells is None else -(-cells // _CELLS_PER_HASH)
    if blocks is not None and blocks <= _MOST_BLOCKS:  # few hashes per unit serve all of its cells
        over = over.mutate(
            **{f"h{block}": digest(snapshot, "g", ibis.literal(block), over.over) for block in range(blocks)}
        )
    some = pairs.left_join(over, pairs[UNIT] == over.over)
    if blocks is None:
        key = digest(snapshot, "l", some[cell], some[UNIT])
    elif blocks <= _MOST_BLOCKS:
        key = ibis.cases(*((some[cell] < (b + 1) * _CELLS_PER_HASH, some[f"h{b}"]) for b in range(blocks)))
    else:
        key = digest(snapshot, "g", some[cell] // _CELLS_PER_HASH, some[UNIT])
    if blocks is not None:
        key = key.substr(some[cell] % _CELLS_PER_HASH * _CELL_DIGITS, _CELL_DIGITS)
    # Who is within the limit needs no key: any order keeps everything.
    keyed = some.mutate(key=some.over.notnull().ifelse(key, None))
    order = ibis.window(group_by=keyed[UNIT], order_by=[keyed.key, keyed[cell]])
    # Not row_number: DuckDB turns a filter on it into a slower aggregate.
    ranked = keyed.mutate(rank=ibis.rank().over(order))
    return ranked.filter(ranked["rank"] < groups).select(*pairs.columns)


def _first_rows(snapshot: Snapshot, rows: ir.Table, scope: tuple[str, ...], most: int) -> ir.Table:
    """The rows whose rank is within the limit.

    Rows are numbered in the order of all their values; equal rows are interchangeable. A key belongs to a number, so
    what is in a row has no part in whether it is kept.
    """
    import ibis

    group = [rows[name] for name in scope]
    values = [rows[name] for name in snapshot.names.values()]
    numbered = rows.mutate(position=ibis.row_number().over(ibis.window(group_by=group, order_by=[rows[CELL], *values])))
    text = [numbered[name] for name in (CELL, "position", UNIT)]
    keyed = numbered.mutate(key=digest(snapshot, "r", *text).left(_ROW_DIGITS))
    order = ibis.window(group_by=[keyed[name] for name in scope], order_by=[keyed.key, keyed.position])
    ranked = keyed.mutate(rank=ibis.rank().over(order))
    return ranked.filter(ranked["rank"] < most).select(*rows.columns)


def _check(snapshot: Snapshot, kept: ir.Table, groups: int | None, most: int | None, scope: tuple[str, ...]) -> None:
    """Noise is calibrated to the limits, so an engine that kept more of a unit must not be believed."""
    pairs = kept.group_by([UNIT, CELL]).aggregate(rows=kept.count())
    units = pairs.group_by(UNIT).aggregate(groups=pairs.count(), most=pairs.rows.max(), rows=pairs.rows.sum())
    worst = snapshot.dataset.fetch(
        units.aggregate(groups=units.groups.max(), most=units.most.max(), rows=units.rows.max())
    )
    found = {name: value or 0 for name, value in worst.to_pylist()[0].items()}
    rows = found["rows"] if scope == (UNIT,) else found["most"]
    if (groups is not None and found["groups"] > groups) or (most is not None and rows > most):
        raise SourceError(
            f"engine = {snapshot.dataset.engine!r}: kept more of a unit than its limits allow, so its totals cannot be "
            "used. Check the engine with discreet.testing.check_source. Nothing was spent."
        )
