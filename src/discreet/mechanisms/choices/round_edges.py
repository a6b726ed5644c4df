"""Round edges: where the public cells around two points begin and end.

People heap: ages at multiples of five, incomes at thousands. An interval that ends exactly on a heap leaves its rows on
the edge, and one that ends a step beside it encloses them all. So cells begin and end at round numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["round_edges"]

_BEYOND = (1, 3, 7, *(7 * 10**k for k in range(1, 8)))
"""Edges beyond the two points, in widths of a cell: close at first, then in tenfold steps to the ends of the grid."""
_FINER = 6
"""Edges inside the first and the last cell: beside a wide gap all rows between the two points are close to these."""


def round_edges(low: int, high: int, lowest: int, highest: int, cells: int) -> NDArray[np.int64]:
    """Edges of cells over a whole grid, in order: ``cells`` or up to five times as many between two points.

    Examples
    --------
    >>> edges = round_edges(103, 197, 0, 1000, 2).tolist()
    >>> [edge for edge in edges if 103 <= edge <= 150]  # cells of 10, finer ones at the end
    [103, 104, 105, 108, 110, 120, 130, 140, 150]
    >>> [edge for edge in edges if edge >= 197]
    [197, 200, 220, 260, 890, 1000]
    """
    width = _round_width((high - low + 1) / cells)
    first = -(-low // width) * width
    last = max(high // width * width, first)
    edges = {lowest, low, high, highest, *range(first, last + 1, width)}
    for beyond in _BEYOND:
        edges |= {first - beyond * width, last + beyond * width}
    for near in _below(width):
        step = _round_width(near / 5)
        edges |= {(low + near) // step * step, -((near - high) // step) * step}
    return np.array(sorted(edge for edge in edges if lowest <= edge <= highest), dtype=np.int64)


def _round_width(most: float) -> int:
    """The largest of 1, 5, 10, 50, … that is at most so much: each divides the next, so edges of all scales agree."""
    power = 1
    while 10 * power <= most:
        power *= 10
    return 5 * power if 5 * power <= most else power


def _below(width: int) -> list[int]:
    """The largest of 1, 2, 5, 10, 20, … below a width."""
    digits = len(str(width))
    return [k * 10**p for p in reversed(range(digits)) for k in (5, 2, 1) if k * 10**p < width][:_FINER]
