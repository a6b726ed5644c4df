"""Unlisted: how many units hold each label of a column whose labels are not public."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.errors import WrongType
from discreet.core.rows.expressions import identifier
from discreet.core.rows.read import Dataset
from discreet.core.schema import Schema

__all__ = ["unit_counts"]


def unit_counts(
    dataset: Dataset, schema: Schema, column: str, *, groups: int, salt: str
) -> tuple[list[Any], NDArray[np.int64]]:
    """The labels that occur, and how many units keep each: at most ``groups`` labels of a unit. Private.

    A unit's labels are ordered by the first twelve digits of SHA-256 over the salt, the label and the unit's id, ties
    by label; the first ones are kept. No other unit has a part in that (``docs/proofs/bounding.md``).
    """
    import ibis

    unit = schema.unit.column
    dataset.require(column, unit)
    table = dataset.table
    label = _label(table[column], column)
    if unit is None:
        held = table.select(l=label)
        held = held.filter(held.l.notnull())
    else:
        pairs = table.select(u=identifier(table[unit], unit), l=label)
        pairs = dataset.keep(pairs.filter(pairs.u.notnull(), pairs.l.notnull()).distinct())
        over = pairs.group_by("u").aggregate(labels=pairs.count())
        over = over.filter(over.labels > groups).select("u")
        some = pairs.semi_join(over, "u")
        text = ibis.literal(f"{salt}|g|").concat(some.l.cast("string"), "|", some.u.cast("string"))
        keyed = some.mutate(key=text.hexdigest("sha256").left(12))
        ranked = keyed.mutate(rank=ibis.row_number().over(ibis.window(group_by=keyed.u, order_by=[keyed.key, keyed.l])))
        kept = ranked.filter(ranked["rank"] < groups).select("u", "l")
        held = pairs.anti_join(over, "u").union(kept)
    found = dataset.fetch(held.group_by("l").aggregate(n=held.count()))
    return found.column("l").to_pylist(), found.column("n").to_numpy().astype(np.int64)


def _label(column: Any, name: str) -> Any:
    """A text or a whole number; what has no canonical form is refused by its type."""
    kind = column.type()
    if kind.is_string() or kind.is_integer() or kind.is_floating() or kind.is_uuid() or kind.is_date():
        return identifier(column, name)
    raise WrongType("column", name, f"labels of type {kind} have no canonical text", "Cast it to text.")
