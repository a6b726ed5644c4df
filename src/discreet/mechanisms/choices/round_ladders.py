"""Round ladders: where the public cells around two points begin and end.

People heap: ages at multiples of five, incomes at thousands. An interval that ends exactly on a heap leaves its rows on
the edge, and one that ends a step beside it encloses them all. So each rung of a ladder is the roundest number there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["round_ladders", "roundest"]

Integers = NDArray[np.int64]

_RATIO, _COARSE = 1.09, 1.5
"""Of the distances of neighbouring rungs from their point, and of those that are close to it."""
_CLOSE, _CLOSEST = 2.0**-6.5, 2.0**-10
"""Parts of half the way: beside a gap all rows between the points are that close to one of them."""
_BEYOND = 3
"""Rungs beyond the points are farther apart each time, up to the ends of the grid."""
_ACROSS, _FEW = 1.7, 11
"""The same ratio for the few rungs beyond the middle: where one point lies in an empty tail, both ends belong there."""


def round_ladders(low: int, high: int, lowest: int, highest: int) -> tuple[Integers, Integers]:
    """Edges for lower ends, from the lowest point of the grid to the middle, and for upper ends, on to the highest.

    Rungs become denser and denser towards ``low`` and ``high``: whatever the scale on which rows lie beside them, some
    rungs lie between these rows. Each list has a few edges on the other side of the middle, too.

    Examples
    --------
    >>> lower, upper = round_ladders(103, 197, 0, 1000)
    >>> lower[lower > 120].tolist()
    [122, 124, 125, 128, 130, 132, 135, 138, 140, 145, 150, 180, 185, 190, 192, 195, 196]
    >>> upper[upper > 190].tolist()
    [191, 192, 193, 194, 195, 196, 197, 200, 230, 300, 500, 1000]
    """
    half = max((high - low) / 2, 1.0)
    rungs = {lowest, low, high, highest, *_between(low, half, 1), *_between(high, half, -1)}
    rungs |= {*_beyond(low, half, -1, highest - lowest), *_beyond(high, half, 1, highest - lowest)}
    edges = np.array(sorted(rung for rung in rungs if lowest <= rung <= highest), dtype=np.int64)
    middle = (low + high) / 2
    lower = np.union1d(edges[edges <= middle], [*_across(high, half, -1)])
    upper = np.union1d(edges[edges >= middle], [*_across(low, half, 1)])
    return lower.astype(np.int64), upper.astype(np.int64)


def roundest(low: float, high: float) -> int | None:
    """The roundest whole number between two: a multiple of the largest of 1, 5, 10, 50, … that has one there.

    Examples
    --------
    >>> roundest(103, 197), roundest(103.5, 109), roundest(103.1, 103.9)
    (150, 105, None)
    """
    first, last = math.ceil(low), math.floor(high)
    if first > last:
        return None
    digits = len(str(max(-first, last)))
    steps = (five * 10**power for power in range(digits, -1, -1) for five in (5, 1))
    step: int = next(step for step in steps if last // step * step >= first)
    middle = round((first + last) / 2 / step) * step  # of several, the one in the middle
    return middle if first <= middle <= last else last // step * step


def _between(point: int, half: float, side: int) -> Iterator[int]:
    """Rungs on one side of a point, from half the way to the other down to the closest."""
    away = half
    while away >= max(half * _CLOSEST, 0.5):
        rung = roundest(*sorted((point + side * away / _RATIO, point + side * away)))
        away /= _RATIO if away > half * _CLOSE else _COARSE
        if rung is not None:
            yield rung


def _across(point: int, half: float, side: int) -> Iterator[int]:
    """Rungs on one side of a point, coarser, for the ends that belong on the other side of the middle."""
    for away in (half / _ACROSS**step for step in range(1, _FEW + 1)):
        rung = roundest(*sorted((point + side * away / _ACROSS, point + side * away)))
        if rung is not None:
            yield rung


def _beyond(point: int, half: float, side: int, most: int) -> Iterator[int]:
    """Rungs on one side of a point, farther and farther apart."""
    away, step = 0.0, max(half / 4, 1.0)
    while away < most:
        rung = roundest(*sorted((point + side * (away + 1), point + side * (away + step))))
        away, step = away + step, _BEYOND * step
        if rung is not None:
            yield rung
