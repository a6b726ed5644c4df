"""Usability: how many values of each column can be read, lie inside the bounds and are on the list."""

from __future__ import annotations

from collections.abc import Sequence

from discreet.core.rows.snapshot import MARK, UNIT, Snapshot, take

__all__ = ["WHOLE", "usable_totals"]

WHOLE = 256
"""Parts of a unit whose values can all be used."""


def usable_totals(snapshot: Snapshot, names: Sequence[str]) -> tuple[int, list[int]]:
    """Units that take part, and for each column the parts of them, of `WHOLE`, whose values can be used. Private.

    A unit counts for the share of its rows, rounded down and clipped, so that none counts for more than `WHOLE`.
    """
    snapshot.require(*names)
    marked = take(snapshot.dataset, snapshot.schema, salt=snapshot.salt, marked=True, attach=snapshot.attach)
    table = marked.table
    marks = {f"s{place}": table[MARK + marked.names[name]].cast("int64").sum() for place, name in enumerate(names)}
    if not snapshot.by_row:
        units = table.group_by(UNIT).aggregate(held=table.count(), **marks)
        shares = {name: (units[name] * WHOLE / units.held).floor().cast("int64").clip(0, WHOLE) for name in marks}
        table = units.select(**shares)
        marks = {name: table[name].sum() for name in marks}
    found = marked.dataset.fetch(table.aggregate(n=table.count(), **marks)).to_pylist()[0]
    scale = WHOLE if snapshot.by_row else 1
    return int(found["n"]), [int(found[name] or 0) * scale for name in marks]
