"""Keep: which groups and rows of a unit count, where it has more than its limits.

A unit's groups, and its rows, are put in an order that only its own data decide. Of N it keeps k at even distances,
from a start that SHA-256 draws from the data set's salt and the unit's id. So each is equally likely to be kept, no
other unit has a part in the choice, and every engine makes the same one. Proofs: ``docs/proofs/bounding.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from discreet.core.errors import SourceError
from discreet.core.rows.snapshot import UNIT, Snapshot, stored
from discreet.core.schema import Bounds, Contribution
from discreet.core.stability import check_unit_sum

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = [
    "CELL", "START_DIGITS", "Selected", "digits", "evenly", "keep_groups", "kept_rows", "refuse_excess", "scope_of",
    "taking_part",
]  # fmt: skip

Scope = tuple[str, ...]
"""The columns whose values tell apart what a limit on rows is about: units, or their groups."""
CELL = "c"
"""Column of cell numbers in what is kept."""
_SALT_DIGITS = 32
"""128 secret bits: with most ids the text then fits one block of SHA-256, which halves its cost."""
START_DIGITS = 12
"""A start among N is off uniform by at most N/2⁴⁸."""
_MOST_BITS = 62
"""Up to this many cells, those that a unit reaches are the bits of one number."""
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
        Numeric columns that are read.
    contribution
        Limits per unit, where the schema's own do not apply.
    unit_sum
        Where given, each unit counts once per cell, with the sum of its single numeric column clipped to these
        bounds (on the column's grid), instead of once per row.
    whole
        Columns of labels that a row must have, though they make no cells: totals by different columns are then of the
        same rows.
    first
        Keep a unit's first groups, in the order of the cells, instead of groups at even distances: where cells are
        periods and rows are only added, a unit then never moves to a later one.
    weighted
        Keep all rows in a unit's groups, of which the limit says how much they weigh together.
    """

    by: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    contribution: Contribution | None = None
    unit_sum: Bounds | None = None
    whole: tuple[str, ...] = ()
    first: bool = False
    weighted: bool = False


def digits(snapshot: Snapshot, count: int, *parts: Any) -> Any:
    """The number that the first hexadecimal digits of a SHA-256 write: of half of the salt and the parts in turn."""
    import ibis

    text = ibis.literal(snapshot.salt[:_SALT_DIGITS])
    for part in parts:
        text = text.concat("|", part if isinstance(part, str) else part.cast("string"))
    first = text.hexdigest("sha256").left(count)
    if snapshot.dataset.engine == "duckdb":
        return ("0x" + first).cast("int64")
    return _builtin("conv")(first, 16, 10).cast("int64")


@cache
def _builtin(name: str) -> Any:
    """Functions of DuckDB and Spark that ibis has no name for, or not on both."""
    import ibis

    def conv(text: str, base: int, to: int) -> str: ...  # type: ignore[empty-body]
    def bit_count(number: int) -> int: ...  # type: ignore[empty-body]
    def bit_or(number: int) -> int: ...  # type: ignore[empty-body]

    if name == "bit_or":
        return ibis.udf.agg.builtin(bit_or)
    return ibis.udf.scalar.builtin({"conv": conv, "bit_count": bit_count}[name])


def evenly(position: Any, count: Any, start: Any, limit: int) -> Any:
    """Whether a position among ``count`` is one of the ``limit`` that are kept; all are where count ≤ limit."""
    turned = (position + start) % count
    if limit > 2**22:  # 2⁴⁰ rows of one unit must not overflow
        turned = turned.cast("decimal(38, 0)")
    return (count <= limit) | ((turned * limit) % count < limit)


def kept_rows(snapshot: Snapshot, selected: Selected) -> ir.Table:
    """The rows that count: unit, cell, and the grid steps of all numeric columns."""
    schema = snapshot.schema
    snapshot.require(*selected.by, *selected.columns, *selected.whole)
    cells, limits = schema.cells(selected.by), schema.contribution(selected.contribution)
    rows = taking_part(snapshot, selected)
    if selected.unit_sum is not None:
        check_unit_sum(schema, selected.columns, selected.unit_sum)
    if snapshot.by_row:
        return rows
    groups = None if limits.groups is None or limits.groups >= cells else limits.groups
    whole = selected.weighted or selected.unit_sum is not None
    most = None if whole else limits.most_rows_in_a_group()
    scope = scope_of(limits)
    gaps = snapshot.gaps.intersection((*selected.columns, *selected.whole))
    choice = (selected.by, gaps, groups, most, scope, selected.first)
    with snapshot.lock:
        if choice not in snapshot.kept:
            if len(snapshot.kept) == _MOST_KEPT:
                del snapshot.kept[next(iter(snapshot.kept))]
            snapshot.kept[choice] = _choose(snapshot, rows, cells, groups, most, scope, selected.first)
        return snapshot.kept[choice]


def scope_of(limits: Contribution) -> Scope:
    """What a limit on rows is about."""
    return (UNIT,) if limits.rows is None else (UNIT, CELL)


def taking_part(snapshot: Snapshot, selected: Selected) -> ir.Table:
    """Rows that no column drops, with the number of their cell."""
    import ibis

    table = snapshot.table
    cell: Any = ibis.literal(0)  # untyped, so that the cast below reaches the engine
    for name in selected.by:
        cell = cell.cast("int32") * snapshot.schema.categories(name).cells + table[snapshot.names[name]]
    cell = cell.cast("int16" if snapshot.schema.cells(selected.by) < 2**15 else "int32")  # short keys group faster
    gaps = snapshot.gaps.intersection((*selected.by, *selected.columns, *selected.whole))
    whole = [table[snapshot.names[name]].notnull() for name in sorted(gaps)]
    rows = table.mutate(**{CELL: cell})
    return rows.filter(whole) if whole else rows


def _choose(
    snapshot: Snapshot, rows: ir.Table, cells: int, groups: int | None, most: int | None, scope: Scope, first: bool
) -> ir.Table:
    """Choose groups, then rows in them. Each step is computed once, and checked before it is used."""
    if groups is not None:
        if cells <= _MOST_BITS:
            rows = stored(snapshot.dataset, _rows_of_groups(snapshot, rows, groups, first))
        else:
            pairs = keep_groups(snapshot, rows.select(UNIT, CELL).distinct(), groups, first)
            rows = stored(snapshot.dataset, rows.semi_join(pairs, [UNIT, CELL]))
    held = rows.group_by(list(scope)).aggregate(held=rows.count())
    if groups is not None:
        held = stored(snapshot.dataset, held)
        refuse_excess(snapshot, held.group_by(UNIT).aggregate(n=held.count()), groups)
    if most is None:
        return rows
    parts = ["r", *(held[name] for name in reversed(scope))]
    over = held.filter(held.held > most).mutate(start=digits(snapshot, START_DIGITS, *parts) % held.held)
    over = stored(snapshot.dataset, over)
    chosen = stored(snapshot.dataset, _first_rows(snapshot, rows.join(over, list(scope)), scope, most))
    refuse_excess(snapshot, chosen.group_by(list(scope)).aggregate(n=chosen.count()), most)
    steps = [name for column, name in snapshot.names.items() if isinstance(snapshot.schema.columns[column], Bounds)]
    within = rows.anti_join(over, list(scope))
    return stored(snapshot.dataset, within.select(UNIT, CELL, *steps).union(chosen.select(UNIT, CELL, *steps)))


def _rows_of_groups(snapshot: Snapshot, rows: ir.Table, groups: int, first: bool) -> ir.Table:
    """The rows in the groups that are kept, where a unit's groups are the bits of one number."""
    import ibis

    bits = _builtin("bit_count")
    one = ibis.literal(1).cast("int64")  # cast, not typed: engines would take a bare 1 for 32 bits
    units = rows.group_by(UNIT).aggregate(mask=_builtin("bit_or")(one << rows[CELL].cast("int32")))
    units = units.mutate(count=bits(units.mask))
    units = units.mutate(start=_start(snapshot, units, groups, first))
    both = rows.join(units, UNIT)
    position = bits(both.mask & ((one << both[CELL].cast("int32")) - 1))
    return both.filter(evenly(position, both["count"], both.start, groups)).select(*rows.columns)


def _start(snapshot: Snapshot, units: ir.Table, groups: int, first: bool) -> Any:
    """Where the groups that a unit keeps begin, among its own."""
    if first:
        return 0
    return (units["count"] > groups).ifelse(digits(snapshot, START_DIGITS, "g", units[UNIT]) % units["count"], 0)


def keep_groups(snapshot: Snapshot, pairs: ir.Table, groups: int, first: bool = False) -> ir.Table:
    """The pairs of unit and group that are kept, of any number of groups; a group is told by all other columns."""
    import ibis

    own = ibis.window(group_by=pairs[UNIT])
    ordered = ibis.window(group_by=pairs[UNIT], order_by=[pairs[name] for name in pairs.columns if name != UNIT])
    ranked = pairs.mutate(count=pairs.count().over(own), position=ibis.row_number().over(ordered))
    ranked = ranked.mutate(start=_start(snapshot, ranked, groups, first))
    return ranked.filter(evenly(ranked.position, ranked["count"], ranked.start, groups)).select(*pairs.columns)


def _first_rows(snapshot: Snapshot, rows: ir.Table, scope: Scope, most: int) -> ir.Table:
    """The rows that are kept, in the order of all their values; equal rows are interchangeable."""
    import ibis

    values = [rows[name] for name in (CELL, *snapshot.names.values())]
    window = ibis.window(group_by=[rows[name] for name in scope], order_by=values)
    placed = rows.mutate(position=ibis.row_number().over(window))
    return placed.filter(evenly(placed.position, placed.held, placed.start, most))


def refuse_excess(snapshot: Snapshot, held: ir.Table, limit: int) -> None:
    """Noise is calibrated to the limits, so an engine that counts more ``n`` of a unit must not be believed."""
    most = snapshot.dataset.fetch(held.aggregate(most=held.n.max())).column("most")[0].as_py()
    if (most or 0) > limit:
        raise SourceError(
            f"engine = {snapshot.dataset.engine!r}: kept more of a unit than its limits allow, so its totals cannot be "
            "used. Check the engine with discreet.testing.check_source. Nothing was spent."
        )
