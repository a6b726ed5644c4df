"""Cell edges: the public grids on which a profile counts, each chosen from what was released before.

The first grid covers every number and date: octaves on both sides of zero, and decades. The second divides what the
first found into quarters of octaves. The third divides a narrow range once more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date

from discreet.core.dates import EPOCH
from discreet.questions.profiles.fine_cells import Grid

__all__ = [
    "FIRST", "UNIT_SIZES", "between", "even_edges", "octave_quarters",
    "tidy_bounds",
]  # fmt: skip

_SMALLEST, _LARGEST = -10, 40
"""Octaves begin at 2^-10; numbers beyond 2^40 share one cell."""
_OCTAVES = tuple(2.0**power for power in range(_SMALLEST, _LARGEST + 1))
FIRST_NUMBERS = (*(-octave for octave in reversed(_OCTAVES)), *_OCTAVES)
FIRST_DATES = tuple(float((date(year, 1, 1) - EPOCH).days) for year in range(1900, 2051, 10))
UNIT_SIZES = (2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025)
"""Units have one row, two, three, four, 5–6, 7–8, 9–12, …, or more than 1,024."""
_PARTS = 4
"""Parts of an octave. More of them add up to more noise in a tail; fewer make bounds too wide."""
_DEPTH = 3
"""Octaves that are divided, from the largest down: what is smaller than an eighth of it is close to zero."""


FIRST = Grid(FIRST_NUMBERS, FIRST_DATES, split=True)
"""The cells of a column of which nothing is known."""


def octave_quarters(low: float, high: float, *, whole: bool) -> tuple[float, ...]:
    """Edges between two edges of the first grid: quarters of the largest octaves, and one octave beyond.

    Examples
    --------
    >>> octave_quarters(16.0, 32.0, whole=True)
    (8.0, 16.0, 20.0, 24.0, 28.0, 32.0, 64.0)
    """
    largest = max(abs(low), abs(high))
    edges: set[float] = set()
    for sign, end, start in ((1.0, high, max(low, 0.0)), (-1.0, -low, max(-high, 0.0))):
        octave = end
        while octave > max(start, 0.0) and octave > largest / 2**_DEPTH:
            half = octave / 2
            edges |= {sign * (half + half * part / _PARTS) for part in range(_PARTS + 1)}
            octave = half
        if end > 0:
            edges |= {sign * octave, sign * 2 * end} | ({0.0} if start < octave else {sign * start / 2})
    if 0.0 in edges and high > 0:
        edges.add(1.0 if whole else _OCTAVES[0])  # zero gets a cell of its own: many columns have a spike there
    return tuple(sorted({math.ceil(edge) + 0.0 for edge in edges} if whole else edges))


def even_edges(low: float, high: float, *, whole: bool, parts: int = 16) -> tuple[float, ...]:
    """Edges at even distances; whole numbers where values are whole.

    Examples
    --------
    >>> even_edges(1984.0, 2048.0, whole=True, parts=4)
    (1984.0, 2000.0, 2016.0, 2032.0, 2048.0)
    """
    step = (high - low) / parts
    step = max(1.0, math.ceil(step)) if whole else step
    count = max(1, math.ceil((high - low) / step - 1e-9))
    return tuple(low + step * place for place in range(count + 1))


def tidy_bounds(low: float, high: float, *, whole: bool) -> tuple[float, float]:
    """Bounds moved outwards to short decimals, by at most a hundredth of their distance.

    Examples
    --------
    >>> tidy_bounds(0.375, 51.25, whole=False)
    (0.3, 51.3)
    """
    if whole:
        return float(math.floor(low)), float(math.ceil(high))
    digits = 2 - math.floor(math.log10(high - low))
    scale = 10.0**digits
    return round(math.floor(low * scale) / scale, digits), round(math.ceil(high * scale) / scale, digits)


def between(edges: Sequence[float], first: int, last: int) -> tuple[float, float]:
    """The ends of a run of cells; an open end is one cell further, and what is all but zero is zero."""
    low = 2 * edges[0] - edges[1] if first == 0 else edges[first - 1]
    high = 2 * edges[-1] - edges[-2] if last == len(edges) else edges[last]
    low, high = (0.0 if abs(end) <= _OCTAVES[0] else end for end in (low, high))
    return (low, high) if low < high else (0.0, 1.0)
