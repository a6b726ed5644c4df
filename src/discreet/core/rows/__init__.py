"""Rows: from a source to exact totals of what each unit keeps."""

from discreet.core.rows.keep import (
    DesignTotals,
    Selected,
    Totals,
    all_row_totals,
    coarsening,
    design_totals,
    dropped_rows,
    histograms,
    matrix,
    totals,
    totals_by_partition,
    unit_counts,
    unit_totals,
    usable_totals,
    weighed_totals,
)
from discreet.core.rows.snapshot import Snapshot, take

__all__ = [
    "DesignTotals", "Selected", "Snapshot", "Totals", "all_row_totals", "coarsening", "design_totals", "histograms",
    "dropped_rows", "matrix", "take", "totals", "totals_by_partition", "unit_counts", "unit_totals",
    "usable_totals", "weighed_totals",
]  # fmt: skip
