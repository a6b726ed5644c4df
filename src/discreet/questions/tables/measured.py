"""Margins as they are published: whole counts that add up, and synthetic rows that repeat them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
from numpy.typing import NDArray

from discreet.mechanisms.tables.margins import Axes, below, margin_of
from discreet.mechanisms.tables.post_processed import onto_simplex
from discreet.results.display import DerivedNumber

if TYPE_CHECKING:
    import pyarrow as pa


# ---- Presented tables: whole, non-negative and consistent values near noisy margins
#
# All of them are margins of one table of whole numbers, so they add up by construction. That table is found in two
# steps,
# both post-processing: the nearest table without negative cells, then whole numbers near it. Small margins are kept
# more
# strictly than large ones: plain least squares would let thousands of cut cells push the total up.


Array = NDArray[np.float64]
MOST_PRESENTED = 2**17
"""Cells of the table of all columns up to which presented values are computed."""
_STRICTER = 50.0
"""The factor by which a margin is kept more strictly than those with one more column."""
_ROUNDS = 300
_STILL = 1e-3
"""Changes of a cell below this end the search: whole numbers follow anyway."""
_RELAXED = 1.6
"""Over-relaxation (Boyd et al. 2011, section 3.4.3)."""
_BATCHES, _FEW = 128, 64
"""Units are handed out in batches of one in so many that are missing; from a few on, all scores are computed again."""
_LEAST, _SCALINGS = 0.25, 30
"""Where scaling starts in cells that were measured at or below 0, and how often rows and columns take turns."""


def nearest_table(
    components: Mapping[Axes, Array],
    variances: Mapping[Axes, float],
    sizes: Sequence[int],
    possible: NDArray[np.bool_] | None = None,
) -> Array:
    """The table without negative cells whose components are nearest to noisy ones.

    Least squares, each component weighed by its precision, by the alternating direction method of multipliers. A cosine
    transform along every axis diagonalises the distance: the coefficients that vary along exactly the axes A belong to
    the component A, where a table of length 1 has a component of squared length ∏d over the other axes.

    Parameters
    ----------
    components, variances
        Noisy components and the variance of their noise; a component that is known has variance 0.
    sizes
        Number of labels along every axis.
    possible
        False for cells that cannot have rows.
    """
    axes = tuple(range(len(sizes)))
    target = margin_of(components, sizes, axes)
    weight = _weights(variances, sizes)
    # Between the weights of the most detailed components, which decide most cells, and the stricter ones.
    step = 4 * float(np.median(weight[weight > 0]))
    pulled = weight * scipy.fft.dctn(target, norm="ortho")
    table, dual = np.maximum(target, 0.0), np.zeros_like(target)
    for _ in range(_ROUNDS):
        coefficients = (pulled + step * scipy.fft.dctn(table - dual, norm="ortho")) / (weight + step)
        near = scipy.fft.idctn(coefficients, norm="ortho")
        ahead = _RELAXED * near + (1 - _RELAXED) * table
        last, table = table, np.maximum(ahead + dual, 0.0)
        if possible is not None:
            table = np.where(possible, table, 0.0)
        dual = dual + ahead - table
        if max(np.abs(table - last).max(), np.abs(table - near).max()) < _STILL:
            break
    return table


def _weights(variances: Mapping[Axes, float], sizes: Sequence[int]) -> Array:
    """Precision of every cosine coefficient; 0 where nothing was measured."""
    known = [variance for variance in variances.values() if variance > 0]
    least = min(known, default=1.0) * 1e-3  # stands for "known": a thousand times more precise than any measurement
    most = max(map(len, variances))
    weight = np.zeros(tuple(sizes))
    for axes, variance in variances.items():
        place = tuple(slice(1, None) if axis in axes else slice(0, 1) for axis in range(len(sizes)))
        others = math.prod(size for axis, size in enumerate(sizes) if axis not in axes)
        weight[place] = others / max(variance, least) * _STRICTER ** (most - len(axes))
    return weight


def whole_table(
    table: Array, total: int, tables: Sequence[Axes], possible: NDArray[np.bool_] | None = None
) -> NDArray[np.int64]:
    """Whole numbers near a table, with a given total, whose margins stay near those of the table.

    Cells are cut to whole numbers; what is missing goes, a few units at a time, where the margins miss most. Where too
    much is there, which a public total can demand, units leave in the same way.
    """
    kept = np.floor(table + 1e-9)
    margins = [axes for axes in below(tables) if axes]
    allowed = np.ones(table.shape, dtype=bool) if possible is None else possible
    if not allowed.any():
        return kept.astype(np.int64)
    score = _missed(table - kept, margins)
    missing = int(total - kept.sum())
    while missing:
        sign = 1 if missing > 0 else -1
        open_cells = allowed if sign > 0 else allowed & (kept > 0)
        some = min(max(abs(missing) // _BATCHES, 1), int(open_cells.sum()))
        ranked = np.where(open_cells, sign * score, -np.inf).ravel()
        chosen = np.argpartition(ranked, -some)[-some:]
        kept.ravel()[chosen] += sign
        if some > _FEW:
            score = _missed(table - kept, margins)
        else:
            _lower(score, chosen, margins, sign)
        missing -= sign * some
    return kept.astype(np.int64)


def _lower(score: Array, chosen: NDArray[np.intp], margins: Sequence[Axes], sign: int) -> None:
    """Keep the score up to date where a few cells changed by one unit."""
    for cell in chosen.tolist():
        place = np.unravel_index(cell, score.shape)
        score[place] -= 2 * sign
        for axes in margins:
            score[tuple(place[axis] if axis in axes else slice(None) for axis in range(score.ndim))] -= sign


def _missed(left: Array, margins: Sequence[Axes]) -> Array:
    """The gain of a unit in each cell: how much nearer it brings the margins, and the cell."""
    score = 2 * left
    for axes in margins:
        others = tuple(axis for axis in range(left.ndim) if axis not in axes)
        score = score + left.sum(axis=others, keepdims=True)
    return np.asarray(score)


def whole_pairs(margins: Mapping[Axes, Array], total: int) -> dict[Axes, NDArray[np.int64]]:
    """Whole, non-negative margins of one and two axes that add up, where all axes together make too large a table.

    Margins of one axis come first, with the given total; each margin of two axes is fitted to its two smaller ones. A
    table with given row and column sums always exists, so this needs no common table behind all of them.
    """
    found: dict[Axes, NDArray[np.int64]] = {(): np.array(total, dtype=np.int64)}
    for axes, margin in margins.items():
        if len(axes) == 1:
            found[axes] = whole_table(onto_simplex(margin, float(total)), total, [axes])
    for axes, margin in margins.items():
        if len(axes) == 2:
            found[axes] = _with_sums(margin, found[axes[:1]], found[axes[1:]])
    return found


def _with_sums(table: Array, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Whole numbers near a table, with exact row and column sums: scale, cut, and hand out what is missing."""
    near = np.maximum(table, _LEAST)
    for _ in range(_SCALINGS):
        near *= (rows / near.sum(axis=1))[:, None]
        near *= columns / np.maximum(near.sum(axis=0), _LEAST)
        near = np.maximum(near, 1e-12)
    kept = np.floor(near).astype(np.int64)
    kept = np.minimum(kept, np.minimum(rows[:, None], columns[None, :]))
    _take_back(kept, rows)
    _take_back(kept.T, columns)
    left_rows = rows - kept.sum(axis=1)
    left_columns = columns - kept.sum(axis=0)
    while left_rows.any():  # both have the same total, so a cell with room along both axes is always there
        room = np.minimum(left_rows[:, None], left_columns[None, :])
        best = np.unravel_index(int(np.argmax(np.where(room > 0, near - kept, -np.inf))), kept.shape)
        some = max(1, min(int(room[best]), math.floor(near[best] - kept[best])))
        kept[best] += some
        left_rows[best[0]] -= some
        left_columns[best[1]] -= some
    return kept


def _take_back(kept: NDArray[np.int64], sums: NDArray[np.int64]) -> None:
    """Lower rows that are above their sum, the largest cells first."""
    for row, most in zip(kept, sums.tolist(), strict=True):
        while (above := int(row.sum()) - most) > 0:
            place = int(np.argmax(row))
            row[place] -= min(above, max(int(row[place]) // 2, 1))


# ---- Synthetic rows: data sets drawn from the model of maximum entropy that fits released margins
#
# Everything here is post-processing of a release. Rows repeat what the released tables say and nothing else: columns
# that
# no released table has together are independent given the others. Each data set is fitted to margins with fresh noise
# of
# the release's own law, so that what differs between the data sets measures noise and sampling together.


_ROWS_ROUNDS = 200
_FITTED = 1e-6
"""Largest share of rows by which a margin may still be off when the fit ends."""


def maximum_entropy(table: Array, margins: Sequence[Axes], possible: NDArray[np.bool_] | None = None) -> Array:
    """The distribution of maximum entropy that has the given margins of a table without negative cells.

    Iterative proportional fitting from the uniform distribution (Deming and Stephan 1940): each step scales the table
    to one of its margins, and the limit is the log-linear model with these margins.
    """
    fitted = np.ones(table.shape) if possible is None else possible.astype(float)
    fitted = fitted / fitted.sum()
    if not table.any():  # noise has hidden every row: nothing is known of any cell
        return np.asarray(fitted)
    wanted = table / float(table.sum())
    largest = [axes for axes in margins if not any(set(axes) < set(other) for other in margins)]
    for _ in range(_ROWS_ROUNDS):
        off = 0.0
        for axes in largest:
            others = tuple(axis for axis in range(table.ndim) if axis not in axes)
            has = fitted.sum(axis=others, keepdims=True)
            should = wanted.sum(axis=others, keepdims=True)
            off = max(off, float(np.abs(has - should).max()))
            fitted = fitted * np.divide(should, has, out=np.zeros_like(has), where=has > 0)
        if off < _FITTED:
            break
    return np.asarray(fitted / fitted.sum())


def synthetic_estimate(results: Sequence[float]) -> DerivedNumber:
    """A number that was computed on each of m synthetic data sets: the mean of its results, with Student's t.

    Each result differs from the population by sampling and noise, once in the data and once more in the synthetic
    rows, so the variance of the mean of m results is (1 + 1/m) times their variance.
    """
    found, sets = np.asarray(results, dtype=float), len(results)
    estimate = float(found.mean())
    error = math.sqrt((1 + 1 / sets) * float(found.var(ddof=1)))

    def ends(level: float) -> tuple[float, float]:
        reach = float(scipy.special.stdtrit(sets - 1, (1 + level) / 2)) * error
        return estimate - reach, estimate + reach

    return DerivedNumber(f"Estimate from {sets} data sets of synthetic rows", estimate, ends, standard_error=error)


@dataclass(frozen=True)
class SyntheticRows:
    """Several synthetic data sets, each as counts over the table of all columns.

    Attributes
    ----------
    columns
        The labels of every column.
    counts
        One table per data set.
    """

    columns: Mapping[str, Sequence[Any]]
    counts: tuple[NDArray[np.int64], ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.counts)

    def table(self, position: int) -> pa.Table:
        """One data set as an Arrow table, one row per synthetic row."""
        import pyarrow as pa

        counts = self.counts[position]
        places = np.repeat(np.arange(counts.size), counts.ravel())
        codes = np.unravel_index(places, counts.shape)
        return pa.table(
            {
                name: pa.array([labels[code] for code in column.tolist()])
                for (name, labels), column in zip(self.columns.items(), codes, strict=True)
            }
        )

    def estimate(self, analysis: Callable[[pa.Table], float]) -> DerivedNumber:
        """Run an analysis on every data set and combine the results."""
        return synthetic_estimate([float(analysis(self.table(position))) for position in range(len(self))])


# ---- Ratios of noisy cells, and cells under a hypothesis


def fieller(above: Array, below: Array, variances: tuple[float, float, float], z: float) -> tuple[Array, Array]:
    """All ratios r with (a − r·b)² ≤ z²·Var(a − r·b), as an interval; unbounded where b may be 0 (Fieller 1954)."""
    of_above, of_both, of_below = variances
    lead = below**2 - z**2 * of_below
    middle = above * below - z**2 * of_both
    root = np.sqrt(np.maximum(middle**2 - lead * (above**2 - z**2 * of_above), 0.0))
    known = (lead > 0) & (below > 0)
    safe = np.where(known, lead, 1.0)
    return np.where(known, (middle - root) / safe, -np.inf), np.where(known, (middle + root) / safe, np.inf)


def possible_margins(table: Array) -> tuple[Array, Array]:
    """Shares of the rows and of the columns of a noisy table; where both are independent, cells have their product."""
    rows, columns = (_possible_shares(table.sum(axis=axis)) for axis in (1, 0))
    return rows, columns


def _possible_shares(counts: Array) -> Array:
    total = max(float(counts.sum()), 1.0)
    projected = onto_simplex(counts, total)
    return np.asarray(projected / projected.sum())
