"""Stability: how far one bounded unit can move sums per cell."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from discreet.core.errors import InvalidParameter
from discreet.core.protection import Neighbours
from discreet.core.rounding import not_below
from discreet.core.schema import Bounds, Contribution, Schema
from discreet.core.sensitivity import Sensitivity, root_up

__all__ = ["check_unit_sum", "in_parts", "stability", "unit_sum_steps"]

_MOST_MOVES = 64
"""Up to this many coordinates the worst change is listed one by one; beyond, its norms say enough."""


def check_unit_sum(schema: Schema, columns: Sequence[str], unit_sum: Bounds) -> None:
    """Refuse sums per unit that are not of one column, or not on its grid."""
    if schema.unit.column is None:
        raise InvalidParameter(
            "unit_sum",
            unit_sum,
            "needs an id column as privacy unit",
            'Leave unit_sum out, or declare unit=PrivacyUnit("person").',
        )
    if len(columns) != 1:
        raise InvalidParameter("unit_sum", unit_sum, "sums exactly one numeric column", "Name one column.")
    unit_sum_steps(schema, columns, unit_sum)


def unit_sum_steps(schema: Schema, columns: Sequence[str], unit_sum: Bounds | None) -> tuple[int, int]:
    """Bounds of a unit's sum, in grid steps of its column."""
    if unit_sum is None:
        raise InvalidParameter("unit_sum", None, "is needed for sums per unit", "Pass unit_sum=Bounds(…).")
    column = schema.bounds(columns[0])
    if unit_sum.step != column.step:
        raise InvalidParameter(
            "unit_sum", unit_sum.grid, f"must use the grid of the column, {column.grid:g}", "Use the same grid."
        )
    return unit_sum.lowest, unit_sum.highest


def stability(
    limits: Contribution,
    *,
    cells: int,
    neighbours: Neighbours,
    low: Fraction | int = 0,
    high: Fraction | int = 1,
) -> Sensitivity:
    """Sensitivity of per-cell sums of values in [low, high] when each unit is bounded by ``limits``.

    Guarantee
    ---------
    Add/remove: at most k cells change, each by at most r·M with M = max(|low|, |high|); or, with a limit m on rows
    in all, ℓ₁ and ℓ₂ are at most m·M. Replace-one: a unit's old rows go and its new rows come, so twice as many
    cells may change. Counts are sums of ones. Proof: ``docs/proofs/bounding.md``.

    Examples
    --------
    >>> stability(Contribution(groups=2, rows=3), cells=12, neighbours=Neighbours.ADD_REMOVE)
    Sensitivity(l1=6.0, l2=4.242640687119286, dimension=12, moves=(3.0, 3.0))
    """
    largest = max(abs(Fraction(low)), abs(Fraction(high)))
    replaced = neighbours is Neighbours.REPLACE_ONE
    if limits.rows is None:
        size = largest * limits.most_rows(cells) * neighbours.sides
        return Sensitivity(l1=not_below(size), l2=not_below(size), dimension=cells)
    groups, rows = limits.most_groups(cells), limits.rows
    spread = max(Fraction(high), Fraction(0)) - min(Fraction(low), Fraction(0))
    if replaced and spread > largest:  # a cell may go from one sign to the other
        square = max(groups * spread**2, 2 * groups * largest**2) * rows**2
        total = min(2 * groups * largest, cells * spread) * rows
        return Sensitivity(l1=not_below(total), l2=min(not_below(total), root_up(square)), dimension=cells)
    moved = min(2 * groups, cells) if replaced else groups
    if moved <= _MOST_MOVES:
        return Sensitivity(moves=(not_below(rows * largest),) * moved, dimension=cells)
    step = Fraction(not_below(rows * largest))
    return Sensitivity(l1=not_below(step * moved), l2=root_up(step**2 * moved), dimension=cells)


def in_parts(limits: Contribution, groups: int, coordinates: int, neighbours: Neighbours) -> Sensitivity:
    """Sensitivity of totals per group, where the parts of a row are not negative and add up to one.

    A group's totals move by at most r in ℓ₁ and in ℓ₂ with r rows. Two vectors without negative parts have a product
    of at least 0, so replacing one by the other moves ℓ₂ by at most √2·r. Proof: ``docs/proofs/parts.md``.

    Examples
    --------
    >>> in_parts(Contribution(groups=4, rows=3), 5, 2, Neighbours.ADD_REMOVE)
    Sensitivity(l1=12.0, l2=6.0, dimension=10, moves=None)
    """
    if limits.rows is None:
        rows = limits.most_rows(groups)
        total, square = rows, rows**2
    else:
        reached = limits.most_groups(groups)
        total, square = reached * limits.rows, reached * limits.rows**2
    sides = neighbours.sides
    return Sensitivity(l1=float(sides * total), l2=root_up(Fraction(sides * square)), dimension=groups * coordinates)
