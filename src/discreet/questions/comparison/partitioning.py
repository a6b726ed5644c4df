"""Partitioning: the totals of a comparison, per arm and partition, added up on the engine.

A unit's partition is fixed by the first digits of the salted SHA-256 of its own id, so it never depends on anybody
else and is the same on every engine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.core.errors import InvalidParameter
from discreet.core.ledger import Ledger
from discreet.core.rows import Bounded
from discreet.core.stability import unit_sum_steps
from discreet.inference.mean_difference_release import MeanComparison
from discreet.questions.comparison.arms import Arms
from discreet.questions.comparison.column import ColumnComparison
from discreet.questions.comparison.compare import compare_totals

__all__ = ["arms_on_engine", "compare_column"]

_DIGITS = 4
_BUCKETS = 16**_DIGITS
MOST_PARTITIONS = _BUCKETS // 8
"""Beyond this, folding buckets would make partitions unequal."""


def compare_column(
    bounded: Bounded, comparison: ColumnComparison, ledger: Ledger, *, request: str | None = None
) -> MeanComparison:
    """Compare two arms of a data set on its engine; ``bounded`` is what the comparison selects."""
    natural = comparison.partition_by is not None
    settled, statistic = comparison.settled(ledger), comparison.statistic
    arms = arms_by_column(bounded) if natural else arms_on_engine(bounded, statistic.partitions)
    return compare_totals(arms, statistic, settled, request=request)


def arms_by_column(bounded: Bounded) -> Arms:
    """Totals by arm and natural partition: two columns of labels, of which a unit keeps one combination."""
    name = bounded.columns[0]
    labels = tuple(str(label) for label in bounded.schema.categories(bounded.by[0]).labels)
    outcome = bounded.schema.bounds(name)
    if bounded.unit_sum is None:
        low, high = outcome.lowest, outcome.highest
    else:
        low, high = unit_sum_steps(bounded.schema, bounded.columns, bounded.unit_sum)
    totals = bounded.totals([(name,), (name, name)])
    shape = (len(labels), -1)
    counts, sums, squares = (
        np.asarray(values, dtype=object).reshape(shape)
        for values in (totals.counts, totals.sums[(name,)], totals.sums[name, name])
    )
    return Arms(
        low=float(low * outcome.step),
        width=float((high - low) * outcome.step),
        largest=high - low,
        counts=counts.astype(np.int64),
        sums=sums - low * counts,
        squares=tuple(int(value) for value in (squares - 2 * low * sums + low**2 * counts).sum(axis=1)),
        labels=labels,
    )


def arms_on_engine(bounded: Bounded, partitions: int | None) -> Arms:
    """Totals of the units of every arm: the cells of ``bounded``, whose single column is the outcome."""
    if len(bounded.by) != 1 or len(bounded.columns) != 1:
        raise InvalidParameter("by", bounded.by, "must be one column of arms, with one outcome", "Name one of each.")
    if partitions is not None and partitions > MOST_PARTITIONS:
        raise InvalidParameter("partitions", partitions, f"must be at most {MOST_PARTITIONS}", "Use fewer partitions.")
    outcome = bounded.schema.bounds(bounded.columns[0])
    labels = tuple(str(label) for label in bounded.schema.categories(bounded.by[0]).labels)
    if bounded.unit_sum is None:
        if partitions is not None:
            raise InvalidParameter(
                "partitions", partitions, "needs an id column as privacy unit, to tell units apart",
                'Declare PrivacyUnit("id"), or use method="direct".',
            )  # fmt: skip
        return arms_by_column(bounded)
    low, high = unit_sum_steps(bounded.schema, bounded.columns, bounded.unit_sum)
    count = 1 if partitions is None else partitions
    counts, sums = np.zeros((len(labels), count), dtype=object), np.zeros((len(labels), count), dtype=object)
    squares = [0] * len(labels)
    parts = [(1, bounded._pairs)]
    if bounded._lost_pairs is not None:
        parts.append((-1, bounded._lost_pairs))
    for sign, pairs in parts:
        fetched = bounded.dataset.fetch(_added_up(bounded, pairs, (low, high), partitions))
        columns = {name: np.array(fetched.column(name).to_pylist()) for name in fetched.column_names}
        arms = columns["c"].astype(np.int64)
        cells = (arms, _folded(columns.get("h", np.zeros_like(arms)), count))
        np.add.at(counts, cells, sign * columns["n"].astype(object))
        np.add.at(sums, cells, sign * columns["t"].astype(object))
        for arm in range(len(labels)):
            squares[arm] += sign * sum(int(value) for value in columns["q"][arms == arm])
    step = outcome.step
    return Arms(
        low=float(low * step),
        width=float((high - low) * step),
        largest=high - low,
        counts=counts.astype(np.int64),
        sums=sums,
        squares=tuple(squares),
        labels=labels,
    )


def _folded(digits: Any, partitions: int) -> Any:
    """Partition numbers from the digits of digests; numbers were folded on the engine."""
    if digits.dtype.kind != "U":
        return digits.astype(np.int64)
    return np.array([int(one, 16) * partitions // _BUCKETS for one in digits], dtype=np.int64)


def _added_up(bounded: Bounded, pairs: Any, steps: tuple[int, int], partitions: int | None) -> Any:
    """Units, offsets and squared offsets by arm and partition (or first digits of the unit's digest)."""
    low, high = steps
    offset = pairs.s0.cast("int64").clip(lower=low, upper=high) - low
    fields = {"c": pairs.c, "v": offset}
    if partitions is not None:
        # Half of the salt, 128 bits, keeps the text within one block of SHA-256.
        text = f"{bounded.salt[:32]}|p|" + pairs.u.cast("string")
        fields["h"] = text.hexdigest("sha256").left(_DIGITS)
        if bounded.dataset.engine == "duckdb":  # it reads hexadecimal numbers; others are folded after the fetch
            fields["h"] = ("0x" + fields["h"]).cast("int64") * partitions // _BUCKETS
    values = pairs.select(**fields)
    # Offsets below 2¹⁵ have squares below 2³⁰: sums over 2³² units fit 64 bits. Beyond, decimals are used.
    wide = high - low >= 2**15
    kind = "decimal(38, 0)" if wide else "int64"
    offsets = values.v.cast(kind)
    groups = ["c"] if partitions is None else ["c", "h"]
    totals = {"n": values.count(), "t": offsets.sum().cast(kind), "q": (offsets * offsets).sum().cast(kind)}
    return values.group_by(groups).aggregate(**totals)
