"""How far one bounded unit can move totals: formulas against every unit of a small universe."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from discreet import Bounds, Categories, Contribution, Neighbours, Schema
from discreet.core.rows import Selected, take, totals
from discreet.core.rows.source import open_source
from discreet.core.schema import in_parts, stability
from discreet.questions.count import CountQuestion

LIMITS = [
    Contribution(groups=1, rows=1),
    Contribution(groups=1, rows=2),
    Contribution(groups=2, rows=1),
    Contribution(groups=2, rows=2),
    Contribution(groups=9, rows=1),
    Contribution(rows=1),
    Contribution(rows=2),
    Contribution(total=1),
    Contribution(total=2),
    Contribution(total=3),
]
BOUNDS = [(0, 1), (0, 3), (-1, 10), (-10, 1), (-2, 3), (2, 3), (-3, -2), (-7, 0), (-1, 1), (-100, 1)]
ROUNDING = 1 + 1e-12


def row_counts(limits, cells):
    """Rows per cell that a unit may keep, from the words of `Contribution` alone."""
    most = limits.total if limits.rows is None else limits.rows
    for rows in itertools.product(range(most + 1), repeat=cells):
        reached = sum(count > 0 for count in rows)
        within = limits.groups is None or reached <= limits.groups
        if within and (limits.total is None or sum(rows) <= limits.total):
            yield rows


def cell_sums(limits, cells, low, high):
    """Sums per cell that a unit can have: every number of rows at either bound, mixed in between."""
    found = set()
    for rows in row_counts(limits, cells):
        per_cell = [{count * low, count * high} if count else {0} for count in rows]
        found.update(itertools.product(*per_cell))
    return np.array(sorted(found), dtype=float)


def worst(units, neighbours):
    """Largest ℓ₁ and ℓ₂ distance between two units, or between a unit and nobody."""
    others = units if neighbours is Neighbours.REPLACE_ONE else np.zeros((1, units.shape[1]))
    gaps = np.abs(units[:, None, :] - others[None, :, :])
    return gaps.sum(axis=2).max(), np.sqrt((gaps**2).sum(axis=2).max())


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize(("low", "high"), BOUNDS)
@pytest.mark.parametrize("limits", LIMITS, ids=lambda one: str(one.to_dict()))
def test_no_unit_moves_sums_by_more(neighbours, low, high, limits):
    for cells in (1, 2, 4):
        declared = stability(limits, cells=cells, neighbours=neighbours, low=low, high=high)
        l1, l2 = worst(cell_sums(limits, cells, low, high), neighbours)
        assert l1 <= declared.l1 * ROUNDING
        assert l2 <= declared.l2 * ROUNDING
        assert declared.dimension == cells


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize(("low", "high"), BOUNDS)
@pytest.mark.parametrize("limits", LIMITS[:4], ids=lambda one: str(one.to_dict()))
def test_the_formula_is_reached_where_there_are_cells_enough(neighbours, low, high, limits):
    declared = stability(limits, cells=4, neighbours=neighbours, low=low, high=high)
    l1, l2 = worst(cell_sums(limits, 4, low, high), neighbours)
    assert l1 == pytest.approx(declared.l1, rel=1e-12)
    assert l2 == pytest.approx(declared.l2, rel=1e-12)


def test_long_vectors_have_the_same_norms_as_short_ones():
    # Beyond 64 moves only the norms are kept; they are those of the moves.
    limits = Contribution(groups=65, rows=2)
    declared = stability(limits, cells=100, neighbours=Neighbours.ADD_REMOVE, low=0, high=3)
    assert declared.moves is None
    assert declared.l1 == 65 * 6
    assert declared.l2 == pytest.approx(6 * np.sqrt(65), rel=1e-15)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("limits", LIMITS, ids=lambda one: str(one.to_dict()))
def test_parts_that_add_up_to_one(neighbours, limits):
    """Each row moves two totals of its group by parts that add up to one; the corners are whole rows."""
    groups = 2
    units = []
    for rows in row_counts(limits, groups):
        for yes in itertools.product(*(range(count + 1) for count in rows)):
            units.append([part for count, one in zip(rows, yes, strict=True) for part in (count - one, one)])
    l1, l2 = worst(np.array(units, dtype=float), neighbours)
    declared = in_parts(limits, groups, 2, neighbours)
    assert (l1, l2) == pytest.approx((declared.l1, declared.l2), rel=1e-12)


@pytest.mark.parametrize("nulls", ["drop", 0.0])
def test_the_number_of_rows_is_public_only_where_none_can_drop_out(nulls):
    column = Bounds(0, 1, grid=1, nulls=nulls)
    schema = Schema(columns={"x": column}, neighbours=Neighbours.REPLACE_ONE, size=2)
    counted = set()
    for values in ([1.0, 1.0], [1.0, None]):
        snapshot = take(open_source(pa.table({"x": values})), schema)
        counted.add(int(totals(snapshot, Selected(columns=("x",))).counts[0]))
    size = CountQuestion(schema, epsilon=1.0).public_size("x")
    assert size == (2 if len(counted) == 1 else None)


def test_the_number_of_units_is_private_under_add_remove_and_for_ids():
    column = {"x": Bounds(0, 1, grid=1, nulls=0), "l": Categories(["a"], nulls="=a", unknown="=a")}
    assert CountQuestion(Schema(columns=column), epsilon=1.0).public_size("x", "l") is None
    rows = Schema(columns=column, neighbours=Neighbours.REPLACE_ONE, size=2)
    assert CountQuestion(rows, epsilon=1.0).public_size("x", "l") == 2
