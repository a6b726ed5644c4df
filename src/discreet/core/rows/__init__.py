"""Rows: from a source to exact totals of what each unit keeps."""

from discreet.core.rows.keep import (
    Selected,
    Totals,
    coarsening,
    dropped_rows,
    histograms,
    matrix,
    totals,
    totals_by_partition,
    unit_counts,
    usable_totals,
    weighted_totals,
)
from discreet.core.rows.snapshot import Snapshot, take

__all__ = [
    "Selected", "Snapshot", "Totals", "coarsening", "histograms", "dropped_rows", "matrix", "take", "totals",
    "totals_by_partition", "unit_counts", "usable_totals", "weighted_totals",
]  # fmt: skip
