"""Reference values: what a question must add up, from the rows as they are, in a few lines of plain Python.

They share no code with the engine: an error in reading, dropping, clipping or adding shows as a difference. They hold
where no unit is over a limit, so that nobody's rows are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from discreet.core.schema import Bounds, Categories, Schema

__all__ = ["REFERENCES"]

Row = dict[str, Any]


def _label(value: Any, column: Categories) -> Any:
    """The label that counts; None where the row is dropped."""
    policy = column.nulls if value is None else value if value in column.labels else column.unknown
    if policy == "drop":
        return None
    return policy[1:] if isinstance(policy, str) and policy.startswith("=") else policy


def _number(value: Any, column: Bounds) -> Fraction | None:
    """The value on its grid; None where the row is dropped."""
    if value is None:
        return None if column.nulls == "drop" else Fraction(str(column.nulls))
    grid = Fraction(str(column.grid))
    clipped = min(max(Fraction(value), Fraction(str(column.low))), Fraction(str(column.high)))
    return math.floor(clipped / grid + Fraction(1, 2)) * grid


def _taking_part(rows: Sequence[Row], schema: Schema, labels: Sequence[str], numbers: Sequence[str]) -> list[Row]:
    """Rows that have everything the question reads."""
    found = []
    for row in rows:
        read = {name: _label(row[name], schema.categories(name)) for name in labels}
        read |= {name: _number(row[name], schema.bounds(name)) for name in numbers}
        if None not in read.values():
            found.append(read)
    return found


def _totals(rows: Sequence[Row], schema: Schema, by: Sequence[str], number: str | None) -> list[Fraction]:
    """Rows, or the sum of a number, in each cell, the last label fastest."""
    found = dict.fromkeys(product(*(schema.categories(name).labels for name in by)), Fraction(0))
    for row in _taking_part(rows, schema, by, [] if number is None else [number]):
        found[tuple(row[name] for name in by)] += 1 if number is None else row[number]
    return list(found.values())


def _parts_of_mean(rows: Sequence[Row], schema: Schema, by: Sequence[str], number: str) -> list[Fraction]:
    """Each row adds how far it is from the high bound, and from the low one, as shares of their distance."""
    bounds = schema.bounds(number)
    low, high = Fraction(str(bounds.low)), Fraction(str(bounds.high))
    taking = _taking_part(rows, schema, by, [number])
    found = []
    for cell in product(*(schema.categories(name).labels for name in by)):
        inside = [row[number] for row in taking if tuple(row[name] for name in by) == cell]
        up = sum(((value - low) / (high - low) for value in inside), Fraction(0))
        found += [len(inside) - up, up]
    return found


REFERENCES: dict[str, Callable[[Sequence[Row], Schema], list[Fraction]]] = {
    "count": lambda rows, schema: _totals(rows, schema, [], None),
    "count by arm": lambda rows, schema: _totals(rows, schema, ["arm"], None),
    "table of arm and half": lambda rows, schema: _totals(rows, schema, ["arm", "half"], None),
    "sum of x": lambda rows, schema: _totals(rows, schema, [], "x"),
    "sum of y": lambda rows, schema: _totals(rows, schema, [], "y"),
    "sum of x by arm": lambda rows, schema: _totals(rows, schema, ["arm"], "x"),
    "sum of y by arm": lambda rows, schema: _totals(rows, schema, ["arm"], "y"),
    "mean of x by arm": lambda rows, schema: _parts_of_mean(rows, schema, ["arm"], "x"),
    "mean of y by half": lambda rows, schema: _parts_of_mean(rows, schema, ["half"], "y"),
}
"""By question: the exact value, cell after cell."""
