"""Generated worlds: public facts drawn at random, and neighbours built to be the worst for exactly these facts.

A world is a schema (bounds that are symmetric, one-sided or wholly negative; every policy for what is missing or
unknown; every limit; both relations), a kind of source, a kind of guarantee, and a few tables. Neighbours differ in a
unit that is at every limit at once, at a corner of the domain, alone in the smallest group, over its limits, or full of
gaps. Every value of every factor occurs equally often, so a few dozen worlds hold all of them many times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.protection import Neighbours
from discreet.core.schema import Bounds, Categories, Contribution, PrivacyUnit, Schema

__all__ = ["ARMS", "GeneratedWorld", "generated_worlds"]

Row = dict[str, Any]
ARMS = ("A", "B", "C")
HALVES = ("L", "R")
ID = "person"
_FACTORS: dict[str, tuple[Any, ...]] = {
    "x": ((0, 2), (-10, 1), (-1, 10), (-3, -1), (1, 4), (-2, 2)),
    "y": ((-1, 1), (0, 3), (-5, 0), (-4, 1)),
    "numbers": ("drop", "replace", "refuse"),
    "labels": ("drop", "replace", "refuse"),
    "limits": (
        None,
        Contribution(groups=2, rows=2),
        Contribution(total=3),
        Contribution(rows=2),
        Contribution(groups=1, rows=3),
        None,
        Contribution(groups=2, rows=1),
        Contribution(total=2),
    ),
    "neighbours": (Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE),
    "source": ("csv", "pandas", "arrow", "parquet", "duckdb", "polars"),
    "asks": (0, 1),
    "guarantee": (PureDP(1.0), GaussianDP(1.0), PureDP(1.0), ApproxDP(1.0, 0.01), PureDP(1.0), ZeroConcentratedDP(0.5)),
}


@dataclass(frozen=True)
class GeneratedWorld:
    """Public facts with tables, and which of the tables are neighbours.

    Attributes
    ----------
    name
        Some of the facts in words.
    schema
        What is public.
    source
        The kind of source that holds the tables.
    guarantee
        What each question may spend.
    tables, pairs
        Small tables, and positions of neighbours among them.
    within
        Positions of tables in which no unit is over a limit, so that every row counts.
    refused
        A table that the schema refuses; None where it refuses nothing.
    asks
        Which questions are asked here: those whose number, divided by two, leaves this.
    """

    name: str
    schema: Schema
    source: str
    guarantee: Guarantee
    tables: tuple[tuple[Row, ...], ...]
    pairs: tuple[tuple[int, int], ...]
    within: tuple[int, ...]
    refused: tuple[Row, ...] | None
    asks: int

    @property
    def names(self) -> tuple[str, ...]:
        """All columns of the tables."""
        return ((ID,) if self.schema.unit.column else ()) + ("arm", "half", "x", "y")


def generated_worlds(count: int = 32, seed: int = 1) -> Iterator[GeneratedWorld]:
    """So many worlds, each value of each factor equally often.

    Examples
    --------
    >>> worlds = list(generated_worlds(24))
    >>> sum(world.schema.neighbours is Neighbours.REPLACE_ONE for world in worlds), len({w.source for w in worlds})
    (12, 6)
    """
    rng = np.random.default_rng(seed)
    drawn = {name: _balanced(values, count, rng) for name, values in _FACTORS.items()}
    for number in range(count):
        yield _world(number, **{name: values[number] for name, values in drawn.items()})


def _balanced(values: Sequence[Any], count: int, rng: np.random.Generator) -> list[Any]:
    """Values in random order, each as often as any other."""
    rounds = -(-count // len(values))
    return [values[place] for _ in range(rounds) for place in rng.permutation(len(values))][:count]


def _world(
    number: int,
    *,
    x: tuple[float, float],
    y: tuple[float, float],
    numbers: str,
    labels: str,
    limits: Contribution | None,
    neighbours: Neighbours,
    source: str,
    guarantee: Guarantee,
    asks: int,
) -> GeneratedWorld:
    replaced = neighbours is Neighbours.REPLACE_ONE
    schema = Schema(
        columns={
            "arm": Categories(ARMS, **_label_policies(labels)),
            "half": Categories(HALVES, **_label_policies(labels, HALVES[0])),
            "x": Bounds(*x, grid=0.5, nulls=x[0] if numbers == "replace" else numbers),
            "y": Bounds(*y, grid=1, nulls=y[1] if numbers == "replace" else numbers),
        },
        unit=PrivacyUnit() if limits is None else PrivacyUnit(ID, contribution=limits),
        neighbours=neighbours,
        size=4 if replaced else None,
    )
    corners = _Corners(x, y, gaps=numbers != "refuse", unknown=labels != "refuse")
    units = corners.records() if limits is None else corners.units(limits)
    base = [[corners.row("A", 1)], [corners.row("B", 1)], [corners.row("A", 2)]]
    tables, pairs = _neighbours(base, units, replaced)
    refused = None if corners.gaps and corners.unknown else _numbered([*base, [corners.forbidden()]])
    return GeneratedWorld(
        name=_name(number, schema, source),
        schema=schema,
        source=source,
        guarantee=guarantee,
        tables=tuple(_numbered(table) for table in tables),
        pairs=tuple(pairs),
        within=tuple(place for place, table in enumerate(tables) if all(_within(unit, limits) for unit in table)),
        refused=refused,
        asks=asks,
    )


def _label_policies(policy: str, label: str = ARMS[0]) -> dict[str, Any]:
    word = f"={label}" if policy == "replace" else policy
    return {"nulls": word, "unknown": word}


def _name(number: int, schema: Schema, source: str) -> str:
    limits = schema.unit.contribution
    unit = "rows" if limits is None else "people, " + " ".join(f"{k} {v}" for k, v in limits.to_dict().items())
    x = schema.bounds("x")
    relation = "added" if schema.neighbours is Neighbours.ADD_REMOVE else "replaced"
    return f"world {number + 1}: {unit}, {relation}, x {x.low:g}…{x.high:g}, {source}"


@dataclass(frozen=True)
class _Corners:
    """Rows at the corners of the domain and beyond."""

    x: tuple[float, float]
    y: tuple[float, float]
    gaps: bool
    unknown: bool

    def row(self, arm: str | None, corner: int, half: str | None = None) -> Row:
        """A row at one of four corners: high and high, low and low, and the two crossed ones; all beyond the bounds."""
        x = self.x[1] + 90.25 if corner in (0, 2) else self.x[0] - 90.25
        y = self.y[1] + 90.25 if corner in (0, 3) else self.y[0] - 90.25
        return {"arm": arm, "half": half or HALVES[corner % 2], "x": x, "y": y}

    def _middle(self, arm: str) -> Row:
        """A row inside the bounds and between two grid points."""
        return {"arm": arm, "half": "R", "x": sum(self.x) / 2 + 0.25, "y": sum(self.y) / 2 + 0.125}

    def _gappy(self) -> list[Row]:
        """Rows with gaps and with a label that nobody declared, as far as the schema lets them pass."""
        found = []
        if self.gaps:
            found += [{**self.row("C", 0), "x": None}, {**self.row("B", 1), "y": None}]
        if self.unknown:
            found += [self.row(None, 0), self.row("Z", 1), {**self.row("B", 0), "half": "?"}]
        return found

    def forbidden(self) -> Row:
        """A row that the schema refuses."""
        return {**self.row("A" if self.unknown else "Z", 0), **({} if self.gaps else {"x": None})}

    def records(self) -> list[list[Row]]:
        """Units of one row."""
        rows = [self.row("A", 0), self.row("C", 1), self.row("B", 2), self.row("A", 3)]
        rows += [self._middle("A"), self._middle("B")]  # between others of their group, where ranks move most
        return [[row] for row in (*rows, *self._gappy())]

    def units(self, limits: Contribution) -> list[list[Row]]:
        """Units at their limits and beyond, at one corner each; alone in a group; with gaps; in one group only."""
        everywhere = [[self.row(arm, corner) for arm in ARMS for _ in range(4)] for corner in (0, 1, 2)]
        groups = ARMS[: limits.groups or (1 if limits.total else len(ARMS))]
        at_limit = [
            [self.row(arm, corner, "L") for arm in groups for _ in range(limits.most_rows_in_a_group())]
            for corner in (0, 1)
        ]
        crowd = [self._middle("B") for _ in range(6)]
        turns = [self.row("A", 0), self.row("B", 1), self.row("A", 1), self.row("B", 0)] * 2
        between = [self._middle("A") for _ in range(limits.most_rows_in_a_group())]
        alone, gaps = [self.row("C", 1)], self._gappy()
        return [*everywhere, *at_limit, crowd, between, turns, alone, *([gaps * 2] if gaps else [])]


def _neighbours(
    base: list[list[Row]], units: list[list[Row]], replaced: bool
) -> tuple[list[list[list[Row]]], list[tuple[int, int]]]:
    """Tables with one unit more each; under replace-one any two of them are neighbours, else each and the base."""
    more = [[*base, unit] for unit in units]
    if replaced:
        return more, list(combinations(range(len(more)), 2))
    alone = [[units[0]]]
    tables = [base, *more, [], *alone]
    empty = len(more) + 1
    return tables, [*((0, place) for place in range(1, empty)), *((empty, empty + 1 + i) for i in range(len(alone)))]


def _numbered(units: Sequence[Sequence[Row]]) -> tuple[Row, ...]:
    """Rows that name their unit."""
    return tuple({ID: float(number), **row} for number, unit in enumerate(units) for row in unit)


def _within(unit: Sequence[Row], limits: Contribution | None) -> bool:
    """Whether every row of a unit counts, whatever is asked."""
    if limits is None:
        return True
    cells = {(row["arm"], row["half"]) for row in unit}
    return len(unit) <= limits.most_rows_in_a_group() and len(cells) <= (limits.groups or len(cells))
