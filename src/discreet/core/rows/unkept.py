"""Left out: what limits and missing values keep out of a question, unit by unit and up to a public number of rows."""

from __future__ import annotations

from discreet.core.rows.keep import Selected, kept_rows, taking_part
from discreet.core.rows.snapshot import UNIT, Snapshot

__all__ = ["left_out"]


def left_out(snapshot: Snapshot, selected: Selected, most: int) -> tuple[int, int, int]:
    """Units with rows left out, rows beyond the limits, rows without a value: ``most`` rows of a unit. Private.

    A unit's rows beyond the limits count first. Both numbers are clipped, so that no engine can make one unit count
    for more than ``most``.
    """
    taking = taking_part(snapshot, selected)
    if snapshot.by_row:
        both = [snapshot.dataset.fetch(rows.aggregate(n=rows.count())) for rows in (snapshot.table, taking)]
        whole, part = (int(found.column("n")[0].as_py()) for found in both)
        return whole - part, 0, whole - part
    kept = kept_rows(snapshot, selected)
    units = snapshot.table.group_by(UNIT).aggregate(held=snapshot.table.count())
    for rows, name in ((taking, "part"), (kept, "kept")):
        own = rows.group_by(UNIT).aggregate(n=rows.count())
        units = units.left_join(own, UNIT).select(*units.columns, **{name: own.n.fill_null(0)})
    over = (units.part - units.kept).clip(0, most)
    units = units.mutate(over=over, missing=(units.held - units.part).clip(0, most))
    units = units.mutate(missing=(units.missing + units.over > most).ifelse(most - units.over, units.missing))
    any_row = (units.over + units.missing > 0).ifelse(1, 0)
    sums = units.aggregate(units=any_row.sum(), over=units.over.sum(), missing=units.missing.sum())
    found = snapshot.dataset.fetch(sums).to_pylist()[0]
    return tuple(int(found[name] or 0) for name in ("units", "over", "missing"))  # type: ignore[return-value]
