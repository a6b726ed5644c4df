"""Partitioning: the arms of a comparison from the totals of a data set, per arm and partition."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.errors import InvalidParameter
from discreet.core.rows import Selected, Snapshot, totals, totals_by_partition
from discreet.core.rows.totals import BUCKETS
from discreet.questions.comparison.arms import Arms

__all__ = ["arms_by_column", "arms_on_engine"]

MOST_PARTITIONS = BUCKETS // 8
"""Beyond this, folding buckets would make partitions unequal."""


def arms_by_column(snapshot: Snapshot, selected: Selected) -> Arms:
    """Totals by arm and natural partition: two columns of labels, of which a unit keeps one combination."""
    name = selected.columns[0]
    outcome = selected.unit_sum or snapshot.schema.bounds(name)
    found = totals(snapshot, selected, [(name,), (name, name)])
    counts, sums, squares = found.counts, found.sums[(name,)], found.sums[name, name]
    low = outcome.lowest
    offsets = (counts, sums - low * counts, squares - 2 * low * sums + low**2 * counts)
    return _arms(snapshot, selected, *offsets)


def arms_on_engine(snapshot: Snapshot, selected: Selected, partitions: int | None) -> Arms:
    """Totals of the units of every arm: the cells of ``selected``, whose single column is the outcome."""
    if len(selected.by) != 1 or len(selected.columns) != 1:
        raise InvalidParameter("by", selected.by, "must be one column of arms, with one outcome", "Name one of each.")
    if partitions is not None and partitions > MOST_PARTITIONS:
        raise InvalidParameter("partitions", partitions, f"must be at most {MOST_PARTITIONS}", "Use fewer partitions.")
    if selected.unit_sum is not None:
        return _arms(snapshot, selected, *totals_by_partition(snapshot, selected, partitions))
    if partitions is not None:
        raise InvalidParameter(
            "partitions", partitions, "needs an id column as privacy unit, to tell units apart",
            'Declare PrivacyUnit("id"), or use method="direct".',
        )  # fmt: skip
    return arms_by_column(snapshot, selected)


def _arms(
    snapshot: Snapshot, selected: Selected, counts: NDArray[Any], sums: NDArray[Any], squares: NDArray[Any]
) -> Arms:
    """Arms from counts, sums and squares of offsets from the lower bound, one row per arm."""
    labels = tuple(str(label) for label in snapshot.schema.categories(selected.by[0]).labels)
    outcome = selected.unit_sum or snapshot.schema.bounds(selected.columns[0])
    shape = (len(labels), -1)
    largest = outcome.highest - outcome.lowest
    return Arms(
        low=float(outcome.lowest * outcome.step),
        width=float(largest * outcome.step),
        largest=largest,
        counts=counts.reshape(shape).astype(np.int64),
        sums=sums.reshape(shape),
        squares=tuple(int(value) for value in squares.reshape(shape).sum(axis=1)),
        labels=labels,
    )
