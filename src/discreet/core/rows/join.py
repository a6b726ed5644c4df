"""Join: the rows of a unit meet its rows in other tables. Proof: ``docs/proofs/rows.md``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from discreet.core.columns import Bounds, Categories, Column
from discreet.core.rows.keep import START_DIGITS, digits, evenly
from discreet.core.rows.read import Dataset
from discreet.core.rows.snapshot import MARK, UNIT, Snapshot, stored, take
from discreet.core.schema import Related, Schema, related_schema

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["take_joined"]

_KEY = "k"


def take_joined(dataset: Dataset, schema: Schema, related: Mapping[str, Dataset], *, salt: str) -> Snapshot:
    """Read and encode the rows once, with the columns of the related tables that the schema names."""

    def attach(table: ir.Table, names: Mapping[str, str], marked: bool) -> ir.Table:
        for name, one in schema.related.items():
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
    return dataset, stored(dataset, rows.select(ids.name(_KEY), **{n: rows[x] for n, x in other.names.items()}))


def _joined(
    dataset: Dataset, table: ir.Table, kept: tuple[Dataset, ir.Table], one: Related, names: Mapping[str, str]
) -> ir.Table:
    """Each row with each row that its unit keeps in the other table, or with their number."""
    place, rows = kept
    if one.counted is not None:
        rows = rows.group_by(_KEY).aggregate(**{names[one.counted]: rows.count().clip(0, one.rows)})
    else:
        rows = rows.select(_KEY, **{names[name]: rows[name] for name in one.columns})
    if place.connection is not dataset.connection:
        rows = dataset.bring(place.fetch(rows))
    both = table.mutate(**{_KEY: table[UNIT].cast("string")}).left_join(rows, _KEY)
    added = {names[name]: _replaced(both[names[name]], declared) for name, declared in one.given().items()}
    return both.select(*table.columns, **added)


def _replaced(value: Any, declared: Column) -> Any:
    """A missing value as its column treats it: a unit without rows in the other table has one."""
    if isinstance(declared, Bounds):
        code = declared.null_index()
    else:
        code = declared.replacement("nulls") if isinstance(declared, Categories) else None
    return value if code is None else value.fill_null(code)
