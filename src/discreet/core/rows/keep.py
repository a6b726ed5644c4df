"""Keep: which groups and rows of a unit count, where it has more than its limits.

A unit's groups, and its rows, are put in an order that only its own data decide. Of N it keeps k at even distances,
from a start that SHA-256 draws from the data set's salt and the unit's id. So each is equally likely to be kept, no
other unit has a part in the choice, and every engine makes the same one. Proofs: ``docs/proofs/bounding.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from discreet.core.columns import Dates, Order
from discreet.core.errors import SourceError
from discreet.core.rows.expressions import date_count, identifier, number_of
from discreet.core.rows.read import Dataset, Dialect
from discreet.core.rows.snapshot import MARK, UNIT, Snapshot, stored, take
from discreet.core.schema import (
    Bounds,
    Categories,
    Column,
    Contribution,
    Related,
    Schema,
    related_schema,
)

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = [
    "CELL", "START_DIGITS", "Selected", "digits", "evenly", "keep_groups", "kept_rows", "refuse_excess", "scope_of",
    "taking_part", "take_joined", "EXACT_DIGITS", "MISSING", "OTHER", "one_row_each", "shortened", "typed",
    "typed_texts",
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
    """True where a position among ``count`` is one of the ``limit`` that are kept; all are where count ≤ limit."""
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
    if snapshot.by_row:
        return rows
    groups = None if limits.groups is None or limits.groups >= cells else limits.groups
    most = None if selected.weighted else limits.most_rows_in_a_group()
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
    """The columns that a limit on rows applies within."""
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


# ---- Join: the rows of a unit meet its rows in other tables. Proof: ``docs/proofs/rows.md``.


_JOINED_BY = "k"


def take_joined(dataset: Dataset, schema: Schema, related: Mapping[str, Dataset], *, salt: str) -> Snapshot:
    """Read and encode the rows once, with the columns of the related tables that the schema names."""

    def attach(table: ir.Table, names: Mapping[str, str], marked: bool) -> ir.Table:
        for name, one in schema.of_rows.related.items():
            kept = _kept(related[name], one, salt)
            table = stored(dataset, _joined(dataset, table, kept, one, names))
            if marked:
                marks = {MARK + names[column]: table[names[column]].notnull() for column in one.given()}
                table = table.mutate(**{mark: usable.cast("int8") for mark, usable in marks.items()})
        return table

    return take(dataset, schema, salt=salt, attach=attach)


def _kept(dataset: Dataset, one: Related, salt: str) -> tuple[Dataset, ir.Table]:
    """The rows that units keep in a related table: at even distances, in an order that only their own rows decide."""
    import ibis

    other = take(dataset, related_schema(one), salt=salt)
    other.require(*one.columns)
    rows = other.table
    own = ibis.window(group_by=rows[UNIT])
    ordered = ibis.window(group_by=rows[UNIT], order_by=[rows[name] for name in other.names.values()] or [rows[UNIT]])
    rows = rows.mutate(held=rows.count().over(own), position=ibis.row_number().over(ordered))
    start = digits(other, START_DIGITS, "j", rows[UNIT]) % rows.held
    rows = rows.mutate(start=start)
    rows = rows.filter(evenly(rows.position, rows.held, rows.start, one.rows))
    ids = rows[UNIT].cast("string")  # one table may hold whole numbers where another holds text
    return dataset, stored(dataset, rows.select(ids.name(_JOINED_BY), **{n: rows[x] for n, x in other.names.items()}))


def _joined(
    dataset: Dataset, table: ir.Table, kept: tuple[Dataset, ir.Table], one: Related, names: Mapping[str, str]
) -> ir.Table:
    """Each row with each row that its unit keeps in the other table, or with their number."""
    place, rows = kept
    if one.counted is not None:
        rows = rows.group_by(_JOINED_BY).aggregate(**{names[one.counted]: rows.count().clip(0, one.rows)})
    else:
        rows = rows.select(_JOINED_BY, **{names[name]: rows[name] for name in one.columns})
    if place.connection is not dataset.connection:
        rows = dataset.bring(place.fetch(rows))
    both = table.mutate(**{_JOINED_BY: table[UNIT].cast("string")}).left_join(rows, _JOINED_BY)
    added = {names[name]: _replaced(both[names[name]], declared) for name, declared in one.given().items()}
    return both.select(*table.columns, **added)


def _replaced(value: Any, declared: Column) -> Any:
    """A missing value as its column treats it: a unit without rows in the other table has one."""
    if isinstance(declared, Bounds):
        code = declared.null_index()
    else:
        code = declared.replacement("nulls") if isinstance(declared, Categories) else None
    return value if code is None else value.fill_null(code)


# ---- Typed values: what the values of a column are, where nothing is declared of it: numbers, days, other text,
# missing.
#
# Each value is typed by itself. Engines that hold more than fits here shorten numbers to their first binary digits and
# count equal ones.


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
    declared = {name: Bounds(0, 1) for name in ordered_by}
    # of the rows: a schema of features would take each of them for a unit
    schema = replace(snapshot.schema.of_rows, columns=declared, where=None, related={}, features={})
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
