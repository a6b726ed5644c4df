"""Grids: released numbers as tables with labels down the side and across, and totals in their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

__all__ = ["TOTAL", "Grid", "grids", "label_columns", "label_words", "place_of"]

Reading = Mapping[str, Any]
TOTAL = "total"
_FEWEST = 4  # numbers; fewer are as clear in a list
_WIDEST = 12  # labels across; a page shows no more


@dataclass(frozen=True)
class Grid:
    """One table.

    Attributes
    ----------
    down, across
        Columns whose labels stand at the side, and the one whose labels stand above.
    heads
        The labels above; None for the total.
    lines
        Labels at the side, None for a total, with the readings beside them; None where nothing was released.
    """

    down: tuple[str, ...]
    across: str
    heads: tuple[Any, ...]
    lines: tuple[tuple[tuple[Any, ...], tuple[Reading | None, ...]], ...]

    @property
    def name(self) -> str:
        """The columns of the table."""
        return " × ".join((*self.down, self.across))

    def readings(self) -> list[Reading]:
        """All numbers in the table."""
        return [one for _, cells in self.lines for one in cells if one is not None]


def place_of(reading: Reading) -> dict[str, Any]:
    """Where a number belongs: columns with their labels; a margin lacks the columns that it is summed over."""
    labels = dict(reading["labels"])
    rest = {name: label for name, label in labels.items() if name != "table"}
    return rest if labels.get("table") == (" × ".join(rest) or TOTAL) else labels


def label_columns(readings: Iterable[Reading]) -> list[str]:
    """The columns whose labels tell these numbers apart, for a list of them."""
    return list(dict.fromkeys(name for reading in readings for name in place_of(reading)))


def label_words(label: Any, column: str = "") -> str:
    """A label as readers see it; the total where there is none."""
    if label is None:
        return TOTAL
    return f"{100 * label:g} %" if column == "probability" else str(label)


def grids(readings: Sequence[Reading]) -> list[Grid]:
    """The tables that show these numbers of one measure; none where a list is clearer.

    Numbers by two or more columns are a table. Where margins of one another are among them, each largest table shows
    those that belong to it as totals.

    Examples
    --------
    >>> cells = [{"labels": {"a": a, "b": b}, "estimate": 1.0} for a in "xy" for b in "pq"]
    >>> cells += [{"labels": {"a": a}, "estimate": 2.0} for a in "xy"]
    >>> grid, = grids(cells)
    >>> grid.name, grid.heads, [side for side, _ in grid.lines]
    ('a × b', ('p', 'q', None), [('x',), ('y',)])
    """
    placed = {tuple(sorted(place_of(one).items(), key=str)): one for one in readings}
    kinds = list(dict.fromkeys(tuple(place_of(one)) for one in readings))
    largest = [one for one in kinds if not any(set(one) < set(other) for other in kinds)]
    if len(placed) < _FEWEST or any(len(one) < 2 for one in largest):
        return []
    made = [_grid(columns, readings, placed, kinds) for columns in largest]
    return [grid for grid in made if grid is not None] if None not in made else []


def _grid(
    columns: tuple[str, ...], readings: Sequence[Reading], placed: Mapping[Any, Reading], kinds: Iterable[Sequence[str]]
) -> Grid | None:
    """The table over these columns; None where cells are missing or too many would stand side by side."""
    own = [place for place in map(place_of, readings) if set(place) == set(columns)]
    labels = {name: list(dict.fromkeys(place[name] for place in own)) for name in columns}
    if len(own) != prod(len(found) for found in labels.values()):
        return None
    across = columns[-1] if len(labels[columns[-1]]) <= _WIDEST else min(columns, key=lambda name: len(labels[name]))
    if len(labels[across]) > _WIDEST:
        return None
    down = tuple(name for name in columns if name != across)
    within = [set(kind) for kind in kinds if set(kind) <= set(columns)]
    ends: dict[str, list[Any]] = {
        name: [*labels[name], *([None] if any(name not in kind for kind in within) else [])] for name in columns
    }
    lines = []
    for side in product(*(ends[name] for name in down)):
        cells = tuple(_at(placed, (*zip(down, side, strict=True), (across, head))) for head in ends[across])
        if any(cell is not None for cell in cells):
            lines.append((side, cells))
    return Grid(down, across, tuple(ends[across]), tuple(lines))


def _at(placed: Mapping[Any, Reading], place: Iterable[tuple[str, Any]]) -> Reading | None:
    return placed.get(tuple(sorted(((name, label) for name, label in place if label is not None), key=str)))
