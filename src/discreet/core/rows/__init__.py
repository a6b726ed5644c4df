"""Rows: from a source to exact totals of what each unit keeps."""

from discreet.core.rows.keep import Selected
from discreet.core.rows.snapshot import Snapshot, take
from discreet.core.rows.totals import Totals, histograms, matrix, totals, totals_by_partition, unit_counts

__all__ = [
    "Selected",
    "Snapshot",
    "Totals",
    "histograms",
    "matrix",
    "take",
    "totals",
    "totals_by_partition",
    "unit_counts",
]
