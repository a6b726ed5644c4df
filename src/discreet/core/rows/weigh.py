"""Weigh: totals of all rows of units, in which the rows of one unit weigh no more than its limit lets it keep.

A row is a public whole number, split into whole parts. A unit with m rows and a limit of k counts each
sum of its parts times k/m, rounded down. So nothing is chosen, and no unit adds up to more than k rows. Proofs:
``docs/proofs/weighted_rows.md``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.rows.keep import CELL, Selected, kept_rows, refuse_excess, scope_of
from discreet.core.rows.snapshot import UNIT, Snapshot, stored
from discreet.core.rows.totals import by_cell, clipped, exact_sum

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["weighted_totals"]

_LARGEST_WHOLE = 2**30
"""What a row is split into, at most: fewer than 2³¹ rows of a unit then add up to less than 2⁶¹."""
_TOO_MANY = 2**31
"""A unit with so many rows counts nothing, because its sums could leave 64 bits."""
_NUDGE = 2**-10
"""More than floating point can be off: parts that are whole stay so, and others are never more than they should be."""


def weighted_totals(snapshot: Snapshot, selected: Selected, degree: int) -> NDArray[Any]:
    """For every cell the weights of its rows in Bernstein parts of the degree, as fractions. Private.

    Of the single column that is selected, or, of degree 0 and for no column, the weights themselves.
    """
    limits = snapshot.schema.contribution(selected.contribution)
    most = min(limits.most_rows_in_a_group(), _TOO_MANY)
    rows = kept_rows(snapshot, selected)
    whole, parts = _row_parts(snapshot, rows, selected, degree)
    names = [f"p{place}" for place in range(degree + 1)]
    rows = rows.select(UNIT, CELL, **dict(zip(names, parts, strict=True)))
    sums = {name: clipped(exact_sum([rows[name]], [whole]), 0, whole * _TOO_MANY) for name in names}
    units = rows.group_by([UNIT, CELL]).aggregate(n=rows.count(), **sums)
    scope = scope_of(limits)
    units = units.mutate(held=units.n.sum().over(group_by=list(scope)).cast("int64"))
    units = units.filter(units.held < _TOO_MANY)
    weighed = {name: _weighed(units[name], units.held, most) for name in names}
    units = stored(snapshot.dataset, units.select(UNIT, CELL, **weighed))
    limit = most * whole
    weight = sum((units[name] < 0).ifelse(limit + 1, units[name]) for name in names)  # none may be negative either
    refuse_excess(snapshot, units.group_by(list(scope)).aggregate(n=weight.sum()), limit)
    totals = {name: exact_sum([units[name]], [limit]) for name in names}
    fetched = snapshot.dataset.fetch(units.group_by(CELL).aggregate(**totals)).to_pydict()
    cells = snapshot.schema.cells(selected.by)
    found = np.array([by_cell(fetched, name, cells) for name in names], dtype=object)
    return np.asarray(np.vectorize(lambda total: Fraction(total, whole), otypes=[object])(found.T))


def _row_parts(snapshot: Snapshot, rows: ir.Table, selected: Selected, degree: int) -> tuple[int, list[Any]]:
    """What a row is split into, and its parts: whole, not negative, and none more than its exact share."""
    import ibis

    if not selected.columns:
        return _LARGEST_WHOLE, [ibis.literal(_LARGEST_WHOLE).cast("int64")]
    bounds = snapshot.schema.bounds(selected.columns[0])
    across = bounds.highest - bounds.lowest
    exact = across**degree <= _LARGEST_WHOLE
    whole = _LARGEST_WHOLE - _LARGEST_WHOLE % (across**degree if exact else 1)
    nudge = _NUDGE if exact else -_NUDGE
    above = snapshot.column(rows, selected.columns[0]) - bounds.lowest
    up, down = (steps.cast("float64") / float(across) for steps in (above, across - above))
    parts: list[Any] = []
    for place in range(degree + 1):
        share: Any = float(math.comb(degree, place) * whole)
        share = math.prod([up] * place + [down] * (degree - place), start=share)  # not powers: engines multiply alike
        parts.append((share + nudge).floor().cast("int64").clip(0, whole))
    return whole, parts


def _weighed(total: Any, held: Any, most: int) -> Any:
    """A unit's total times most/held, rounded down, where it holds more rows than the most that may count."""
    over = _quotient(total, held) * most + _quotient(total % held * most, held)
    return (held <= most).ifelse(total, over)


def _quotient(number: Any, by: Any) -> Any:
    """How often ``by`` goes into a number. Engines divide whole numbers each in their own way, or not at all."""
    return ((number - number % by) / by).round().cast("int64")
