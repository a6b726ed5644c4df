"""Neighbour search: inputs on which a statistic moves most.

First from structure: records at the bounds, ties, columns of one value, records just beyond a bound or on either side
of a censoring boundary, units with the most rows, units alone in their group. Then by random search from the worst of
these.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.core.protection import Neighbours

__all__ = ["Pair", "column_pairs", "numeric_candidates", "unit_pairs", "worst_pair"]

Pair = tuple[Any, Any]
Column = list[Any]
Table = dict[str, list[Any]]


def column_pairs(
    candidates: Sequence[Any], rows: int, neighbours: Neighbours, *, random: int = 8, seed: int = 1
) -> Iterator[Pair]:
    """Neighbouring columns of about ``rows`` records, each record one of the candidates.

    Examples
    --------
    >>> len(list(column_pairs([0, 1], 3, Neighbours.ADD_REMOVE, random=0)))
    10
    """
    for column in _columns(candidates, rows, random, np.random.default_rng(seed)):
        for record in candidates:
            if neighbours is Neighbours.ADD_REMOVE:
                yield column, [*column, record]
            elif column[-1] != record:
                yield column, [*column[:-1], record]


def _columns(candidates: Sequence[Any], rows: int, random: int, rng: np.random.Generator) -> Iterator[Column]:
    first, last = candidates[0], candidates[-1]
    yield from ([one] * rows for one in candidates)  # ties
    yield [first] * (rows // 2) + [last] * (rows - rows // 2)
    yield [first] * (rows - 1) + [last]
    yield [last] * (rows - 1) + [first]
    for _ in range(random):
        yield [candidates[i] for i in rng.integers(0, len(candidates), rows)]


def numeric_candidates(low: float, high: float, boundaries: Sequence[float] = ()) -> list[float]:
    """Ends, middle, and values just on either side of every end and boundary."""
    places = [low, *boundaries, high]
    around = [
        side for place in places for side in (math.nextafter(place, -math.inf), place, math.nextafter(place, math.inf))
    ]
    beyond = [low - (high - low), high + (high - low)]
    return [low, *sorted({(low + high) / 2, *around, *beyond} - {low, high}), high]


def worst_pair(
    change: Callable[[Pair], Fraction | float],
    pairs: Iterator[Pair],
    candidates: Sequence[Any],
    *,
    rounds: int = 200,
    seed: int = 1,
) -> tuple[Pair, Fraction | float]:
    """The pair that moves a value most: the worst proposal, improved by changing one record after another.

    Examples
    --------
    >>> from discreet import Variance
    >>> variance = Variance(bounds=(0, 1))
    >>> start = column_pairs([0.0, 0.5, 1.0], 4, Neighbours.REPLACE_ONE, random=0)
    >>> gap = lambda pair: abs(variance.value(pair[0]) - variance.value(pair[1]))
    >>> worst_pair(gap, start, [0.0, 0.5, 1.0])[1]
    Fraction(1, 4)
    """
    rng = np.random.default_rng(seed)
    worst, largest = max(((pair, change(pair)) for pair in pairs), key=lambda found: found[1])
    for _ in range(rounds):
        here, there = list(worst[0]), list(worst[1])
        place = int(rng.integers(0, min(len(here), len(there))))
        record = candidates[int(rng.integers(0, len(candidates)))]
        if here[place] == there[place]:
            here[place] = there[place] = record
        else:
            (here, there)[int(rng.integers(0, 2))][place] = record
        found = change((here, there))
        if found >= largest:
            worst, largest = (here, there), found
    return worst, largest


def unit_pairs(table: Mapping[str, Sequence[Any]], unit: str, extremes: Mapping[str, Sequence[Any]]) -> Iterator[Pair]:
    """Tables with and without one unit.

    Parameters
    ----------
    table
        Columns of the data.
    unit
        The column that names units.
    extremes
        For the other columns: values at the ends of what is allowed, and beyond.
    """
    rows: Table = {name: list(values) for name, values in table.items()}
    sizes = Counter(rows[unit]).most_common()
    for name in {sizes[0][0], sizes[-1][0], *_alone(rows, unit)}:
        yield rows, _without(rows, unit, name)
    newcomer = "newcomer" if isinstance(rows[unit][0], str) else max(rows[unit]) + 1
    for count in (1, 3, 12):
        for place in (*range(max(len(values) for values in extremes.values())), None):
            yield rows, _with(rows, unit, newcomer, extremes, count, place)


def _alone(rows: Table, unit: str) -> list[Any]:
    """A unit that has some value of another column to itself: without it that group is empty."""
    for name, values in rows.items():
        if name == unit:
            continue
        owners: dict[Any, set[Any]] = {}
        for value, owner in zip(values, rows[unit], strict=True):
            owners.setdefault(value, set()).add(owner)
        single = [next(iter(who)) for who in owners.values() if len(who) == 1]
        if single:
            return single[:1]
    return []


def _without(rows: Table, unit: str, name: Any) -> Table:
    keep = [place for place, owner in enumerate(rows[unit]) if owner != name]
    return {column: [values[place] for place in keep] for column, values in rows.items()}


def _with(
    rows: Table, unit: str, name: Any, extremes: Mapping[str, Sequence[Any]], count: int, place: int | None
) -> Table:
    """A unit more, with so many rows: all alike, or (None) taking turns through the extremes."""
    turns = [row if place is None else place for row in range(count)]
    added = {column: [values[turn % len(values)] for turn in turns] for column, values in extremes.items()}
    return {
        column: [*values, *(added[column] if column != unit else [name] * count)] for column, values in rows.items()
    }
