"""Worlds: all tables of a few records, and which of them are neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Any

from discreet.core.protection import Neighbours

__all__ = ["World", "row_world", "unit_world"]


@dataclass(frozen=True)
class World:
    """Tables with their neighbours.

    Attributes
    ----------
    tables
        Small tables.
    pairs
        Positions of neighbouring tables.
    neighbours, unit
        What neighbours are, and whose data one may differ in.
    """

    tables: tuple[Any, ...]
    pairs: tuple[tuple[int, int], ...]
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    unit: str = "row"

    def rows(self, table: Any) -> int:
        """Number of rows."""
        return len(table)

    def cut(self, pairs: int | None) -> World:
        """The first so many pairs, and the tables they need."""
        kept = self.pairs[:pairs]
        needed = sorted({position for pair in kept for position in pair})
        places = {position: place for place, position in enumerate(needed)}
        return replace(
            self,
            tables=tuple(self.tables[position] for position in needed),
            pairs=tuple((places[a], places[b]) for a, b in kept),
        )


def row_world(
    records: Sequence[Any], *, most: int, least: int = 0, neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> World:
    """All tables (lists) of at least ``least`` and at most ``most`` rows; under replace-one, of ``most`` rows.

    The record in which neighbours differ is the last one of each.

    Examples
    --------
    >>> world = row_world(["a", "b"], most=2)
    >>> len(world.tables), len(world.pairs)
    (7, 6)
    >>> len(row_world(["a", "b"], most=2, neighbours=Neighbours.REPLACE_ONE).pairs)
    2
    """
    return _world(records, most, least, neighbours, "row", lambda chosen: list(chosen))


def unit_world(
    units: Sequence[Sequence[dict[str, Any]]],
    *,
    most: int,
    least: int = 0,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    unit: str = "person",
) -> World:
    """All tables of a few units, each with several rows; every row names its unit by its place in the table.

    Examples
    --------
    >>> world = unit_world([[{"x": 1}], [{"x": 2}, {"x": 2}]], most=2)
    >>> world.tables[-1]
    [{'person': 0, 'x': 2}, {'person': 0, 'x': 2}, {'person': 1, 'x': 2}, {'person': 1, 'x': 2}]
    """

    def table(chosen: Sequence[Any]) -> list[dict[str, Any]]:
        return [{unit: place, **row} for place, rows in enumerate(chosen) for row in rows]

    return _world(units, most, least, neighbours, unit, table)


def _world(
    records: Sequence[Any],
    most: int,
    least: int,
    neighbours: Neighbours,
    unit: str,
    table: Callable[[Sequence[Any]], Any],
) -> World:
    """Every multiset of others with each last record (or none)."""
    tables: dict[tuple[int, ...], int] = {}
    pairs: list[tuple[int, int]] = []

    def place(chosen: tuple[int, ...]) -> int:
        return tables.setdefault(chosen, len(tables))

    sizes = range(most - 1, most) if neighbours is Neighbours.REPLACE_ONE else range(least, most)
    for size in sizes:
        for others in combinations_with_replacement(range(len(records)), size):
            lasts = [place((*others, last)) for last in range(len(records))]
            if neighbours is Neighbours.ADD_REMOVE:
                pairs += [(place(others), position) for position in lasts]
            else:
                pairs += [(a, b) for a in lasts for b in lasts if a < b]
    made = tuple(table([records[index] for index in chosen]) for chosen in tables)
    return World(made, tuple(pairs), neighbours, unit)
