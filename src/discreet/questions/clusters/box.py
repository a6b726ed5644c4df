"""Box: rows scaled to [−1, 1]^d by public bounds, as whole numbers of a fine grid.

Cluster sums are sums of whole numbers, so they are exact and independent of the order of rows; a row's label is
computed from that row alone by correctly rounded operations, so it cannot change when other rows come or go.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType

__all__ = ["Box"]

Array = NDArray[np.float64]
RESOLUTION = 2.0**20
"""Grid cells per unit of the scaled rows."""
_CHUNK = 16384


class Box:
    """Public bounds of all coordinates.

    Parameters
    ----------
    bounds
        One pair (low, high) per coordinate.
    """

    def __init__(self, bounds: Any) -> None:
        try:
            paired = np.ndim(bounds) == 2 and len(bounds) > 0
        except ValueError:  # rows of unlike length
            paired = False
        if not paired:
            raise WrongType("bounds", bounds, "must hold a pair per coordinate", "Pass bounds=[(0, 125), (0, 100)].")
        pairs = [requirements.ordered_bounds("bounds", tuple(pair)) for pair in bounds]
        if not all(math.isfinite(end) for pair in pairs for end in pair):
            raise InvalidParameter("bounds", bounds, "must be finite", "Give both ends of every coordinate.")
        self.bounds = tuple(pairs)
        low, high = np.array(pairs).T
        self.middle, self.half = (low + high) / 2, (high - low) / 2

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return len(self.bounds)

    def cells(self, rows: ArrayLike) -> Array:
        """Columns of grid cells: whole numbers in ±2²⁰, one row of the result per coordinate."""
        try:
            array = np.asarray(rows, dtype=float)
        except (TypeError, ValueError, OverflowError):
            raise WrongType("X", "…", "must be numbers", "Pass a table of numbers.") from None
        if array.ndim != 2 or array.shape[1] != self.dimension:
            raise InvalidParameter(
                "X", array.shape, f"must have {self.dimension} columns, one per bound", "Select the columns."
            )
        if not np.all(np.isfinite(array)):
            raise InvalidParameter("X", "…", "must be finite", "Remove or replace missing values by a public rule.")
        result = np.empty((self.dimension, len(array)))
        for j in range(self.dimension):
            scaled = (array[:, j] - self.middle[j]) / self.half[j]
            np.clip(scaled, -1.0, 1.0, out=scaled)
            scaled *= RESOLUTION
            np.rint(scaled, out=result[j])
        return result

    def scaled(self, centres: Array) -> Array:
        """Centres in [−1, 1]^d from centres in the units of the data."""
        return np.asarray((centres - self.middle) / self.half)

    def original(self, centres: Array) -> Array:
        """Centres in the units of the data."""
        return np.asarray(centres * self.half + self.middle)


def labels_of(cells: Array, centres: Array) -> NDArray[np.intp]:
    """Nearest centre of every row; ties go to the first."""
    result = np.empty(cells.shape[1], dtype=np.intp)
    for start in range(0, cells.shape[1], _CHUNK):
        part = slice(start, start + _CHUNK)
        result[part] = _nearest(cells[:, part], centres)
    return result


def _nearest(cells: Array, centres: Array) -> NDArray[np.intp]:
    """argmax of x·c − |c|²/2, which orders centres like the distance; no fused or blocked arithmetic."""
    best = np.zeros(cells.shape[1], dtype=np.intp)
    highest = np.full(cells.shape[1], -np.inf)
    score, product = np.empty(cells.shape[1]), np.empty(cells.shape[1])
    for index, centre in enumerate(centres):
        np.multiply(cells[0], centre[0] / RESOLUTION, out=score)
        score -= float(np.dot(centre, centre)) / 2
        for column, value in zip(cells[1:], centre[1:], strict=True):
            np.multiply(column, value / RESOLUTION, out=product)
            score += product
        closer = score > highest
        np.maximum(score, highest, out=highest)
        best[closer] = index
    return best


def cluster_totals(cells: Array, centres: Array) -> tuple[Array, Array]:
    """Exact sums (k × d, in units of [−1, 1]) and counts of the rows nearest to each centre. Private."""
    count = len(centres)
    which = np.arange(count)[:, None]
    sums, counts = np.zeros((count, len(cells))), np.zeros(count)
    for start in range(0, cells.shape[1], _CHUNK):
        chunk = cells[:, start : start + _CHUNK]
        labels = _nearest(chunk, centres)
        counts += np.bincount(labels, minlength=count)
        sums += (labels == which).astype(float) @ chunk.T  # of whole numbers: exact in any order
    return sums / RESOLUTION, counts
