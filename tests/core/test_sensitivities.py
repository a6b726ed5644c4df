"""Every declared sensitivity against brute force over small universes, under both neighbour relations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from discreet.core.protection import Neighbours
from discreet.questions.bounded import (
    Covariance,
    CovarianceMatrix,
    Mean,
    PooledCovariance,
    PooledVariance,
    SampleMoment,
    Variance,
)
from discreet.questions.count import Count
from discreet.questions.proportion import Proportion, ProportionVector
from discreet.questions.sum import NoisyAverage, Sum
from discreet.testing.mechanisms import check_statistic, worst_change

REPLACE, ADD = Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE
HALF = Fraction(1, 2)


def _worst(value: Any, records: Iterable[Any], n: int, neighbours: Neighbours) -> Fraction:
    return worst_change(value, records, n=n, neighbours=neighbours)


def _column(statistic: Any) -> Callable[[tuple[Any, ...]], Any]:
    return lambda rows: statistic.value([float(row) for row in rows])


def _columns(statistic: Any) -> Callable[[tuple[Any, ...]], Any]:
    return lambda rows: statistic.value(np.array([[float(x) for x in row] for row in rows]))


LINE = [Fraction(0), HALF, Fraction(1)]
SQUARE = [(Fraction(a), Fraction(b)) for a in (0, 1) for b in (0, 1)]


def _check(statistic: Any, worst: Fraction, n: int, neighbours: Neighbours) -> None:
    declared = statistic.sensitivity(n=n, neighbours=neighbours).l1
    assert Fraction(declared) >= worst
    assert declared == pytest.approx(float(worst), rel=1e-12)


@pytest.mark.parametrize("neighbours", [REPLACE, ADD])
@pytest.mark.parametrize("n", [3, 4, 5, 6])
@pytest.mark.parametrize(
    "statistic",
    [
        Count(),
        Sum(bounds=(0, 1)),
        NoisyAverage(bounds=(0, 1)),
        Mean(bounds=(0, 1)),
        Proportion(),
        Variance(bounds=(0, 1)),
    ],
    ids=lambda statistic: statistic.name,
)
def test_one_column(statistic: Any, n: int, neighbours: Neighbours) -> None:
    universe = [Fraction(0), Fraction(1)] if statistic.name in ("count", "proportion") else LINE
    _check(statistic, _worst(_column(statistic), universe, n, neighbours), n, neighbours)


@pytest.mark.parametrize("neighbours", [REPLACE, ADD])
def test_sum_with_bounds_of_both_signs(neighbours: Neighbours) -> None:
    statistic = Sum(bounds=(-1, 3))
    universe = [Fraction(x) for x in (-1, 0, 3)]
    _check(statistic, _worst(_column(statistic), universe, 3, neighbours), 3, neighbours)


@pytest.mark.parametrize("neighbours", [REPLACE, ADD])
@pytest.mark.parametrize("n", [3, 4, 5, 6])
@pytest.mark.parametrize("kind", [Covariance, CovarianceMatrix])
def test_two_columns(kind: Any, n: int, neighbours: Neighbours) -> None:
    """Affine in every record's coordinate given the others' means, so the corners hold the extremes; see the proof."""
    statistic = kind(bounds=((0, 1), (0, 1)))
    _check(statistic, _worst(_columns(statistic), SQUARE, n, neighbours), n, neighbours)


def test_covariance_inside_the_square_is_no_worse() -> None:
    statistic = Covariance(bounds=((0, 1), (0, 1)))
    inner = [(a, b) for a in LINE for b in LINE]
    for neighbours in (REPLACE, ADD):
        worst = _worst(_columns(statistic), inner, 4, neighbours)
        assert worst <= Fraction(statistic.sensitivity(n=4, neighbours=neighbours).l1)


@pytest.mark.parametrize(("n", "neighbours"), [(3, REPLACE), (4, REPLACE), (3, ADD), (5, ADD)])
def test_proportion_vector(n: int, neighbours: Neighbours) -> None:
    statistic = ProportionVector(categories=("a", "b", "c"), n=n)
    worst = _worst(lambda rows: statistic.value(list(rows)), "abc", n, neighbours)
    _check(statistic, worst, n, neighbours)


def test_proportions_of_each_data_set_move_twice_as_far_as_liu2019_states() -> None:
    """liu2019 D, Def 2 states 1/n; with each data set's own divisor the worst is 2/n (errata)."""
    own = ProportionVector(categories=("a", "b", "c"))
    assert _worst(lambda rows: own.value(list(rows)), "abc", 4, ADD) == Fraction(2, 4)


# ---- pooled statistics -----------------------------------------------------------------------------------------


def _pooled_value(statistic: Any) -> Callable[[tuple[Any, ...]], Any]:
    def value(rows: tuple[Any, ...]) -> Fraction:
        columns = list(zip(*rows, strict=True))
        *values, labels = columns
        return statistic.value((*(np.array([float(x) for x in column]) for column in values), np.array(labels)))

    return value


def _worst_with_sizes(value: Any, universe: list[Any], sizes: tuple[int, ...], neighbours: Neighbours) -> Fraction:
    """Cells keep their sizes: a record is replaced inside its cell, removed from it or added to it."""
    from itertools import combinations_with_replacement

    def join(cells: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
        return tuple((*record, label) for label, cell in enumerate(cells) for record in cell)

    worst = Fraction(0)
    fillings = [list(combinations_with_replacement(universe, size)) for size in sizes]
    for cells in product(*fillings):
        base = value(join(cells))
        for index, cell in enumerate(cells):
            smaller = {cell[:at] + cell[at + 1 :] for at in range(len(cell))}
            if neighbours is REPLACE:
                others = {(*few, record) for few in smaller for record in universe}
            else:
                others = smaller | {(*cell, record) for record in universe}
            for other in others:
                changed = [*cells[:index], other, *cells[index + 1 :]]
                worst = max(worst, abs(base - value(join(changed))))
    return worst


POINTS = [(Fraction(x),) for x in (0, 1)]


@pytest.mark.parametrize("neighbours", [REPLACE, ADD])
@pytest.mark.parametrize("sizes", [(2, 2), (3, 2), (4, 3), (2, 2, 2), (2, 2, 2, 2), (5,), (3, 3, 2)])
def test_pooled_variance_with_public_sizes(sizes: tuple[int, ...], neighbours: Neighbours) -> None:
    cells = tuple(range(len(sizes)))
    declared = PooledVariance(bounds=(0, 1), cells=cells, sizes=sizes, moving=False)
    free = PooledVariance(bounds=(0, 1), cells=cells, moving=False)
    worst = _worst_with_sizes(_pooled_value(free), POINTS, sizes, neighbours)
    _check(declared, worst, sum(sizes), neighbours)
    assert Fraction(free.sensitivity(n=sum(sizes), neighbours=neighbours).l1) >= worst


@pytest.mark.parametrize("sizes", [(2, 2), (2, 2, 2)])
def test_two_rows_a_cell_need_no_case_of_their_own(sizes: tuple[int, ...]) -> None:
    """liu2019 G gives (n − 1)/(n(n − 2)) where n = 2J; removing a record moves it by 1/n only (errata)."""
    n = sum(sizes)
    free = PooledVariance(bounds=(0, 1), cells=tuple(range(len(sizes))), moving=False)
    value = _pooled_value(free)
    worst = Fraction(0)
    for points in product((0, 1, HALF), repeat=n):
        rows = tuple((Fraction(x), i // 2) for i, x in enumerate(points))
        worst = max(worst, abs(value(rows) - value(rows[1:])))
    assert worst == Fraction(1, n) < Fraction(n - 1, n * (n - 2))


@pytest.mark.parametrize("neighbours", [REPLACE, ADD])
@pytest.mark.parametrize(("n", "cells"), [(4, 1), (4, 2), (5, 2), (5, 3), (6, 3), (6, 4)])
def test_pooled_variance_where_records_change_cell(n: int, cells: int, neighbours: Neighbours) -> None:
    statistic = PooledVariance(bounds=(0, 1), cells=tuple(range(cells)))
    universe = [(Fraction(x), cell) for x in (0, 1) for cell in range(cells)]
    worst = _worst(_pooled_value(statistic), universe, n, neighbours)
    _check(statistic, worst, n, neighbours)


CORNERS = [(Fraction(a), Fraction(b)) for a in (0, 1) for b in (0, 1)]


@pytest.mark.parametrize("neighbours", [REPLACE, ADD])
@pytest.mark.parametrize("sizes", [(2, 2), (3, 2), (4,), (3, 3)])
def test_pooled_covariance_with_public_sizes(sizes: tuple[int, ...], neighbours: Neighbours) -> None:
    cells = tuple(range(len(sizes)))
    declared = PooledCovariance(bounds=((0, 1), (0, 1)), cells=cells, sizes=sizes, moving=False)
    free = PooledCovariance(bounds=((0, 1), (0, 1)), cells=cells, moving=False)
    worst = _worst_with_sizes(_pooled_value(free), CORNERS, sizes, neighbours)
    _check(declared, worst, sum(sizes), neighbours)
    assert Fraction(free.sensitivity(n=sum(sizes), neighbours=neighbours).l1) >= worst


@pytest.mark.parametrize(("n", "cells"), [(4, 1), (4, 2), (5, 2)])
def test_pooled_covariance_where_records_change_cell(n: int, cells: int) -> None:
    """Twice liu2019's bound in the limit, because a record takes from one cell and brings to another (errata)."""
    statistic = PooledCovariance(bounds=((0, 1), (0, 1)), cells=tuple(range(cells)))
    universe = [(*corner, cell) for corner in CORNERS for cell in range(cells)]
    _check(statistic, _worst(_pooled_value(statistic), universe, n, REPLACE), n, REPLACE)
    adding = _worst(_pooled_value(statistic), universe, n, ADD)
    declared = Fraction(statistic.sensitivity(n=n, neighbours=ADD).l1)
    assert adding <= declared <= adding * Fraction(4, 3)


# ---- the conformance check itself ------------------------------------------------------------------------------


class _TooSmall(SampleMoment):
    """A mutant that declares half of its sensitivity."""

    name = "too_small"

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Any:
        return SampleMoment.sensitivity(self, n=2 * (n or 0), neighbours=neighbours)


class _TooLarge(SampleMoment):
    """A mutant that declares twice its sensitivity."""

    name = "too_large"

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Any:
        return SampleMoment.sensitivity(self, n=(n or 0) // 2, neighbours=neighbours)


def test_the_check_passes_right_statistics_and_fails_wrong_ones() -> None:
    universe = [0.0, 0.5, 1.0]
    assert check_statistic(Variance(bounds=(0, 1)), universe, n=4, neighbours=REPLACE) == pytest.approx(1)
    assert check_statistic(
        Covariance(bounds=((0, 1), (0, 1))), [(0, 0), (0, 1), (1, 0), (1, 1)], n=4, neighbours=ADD, data=np.array
    ) == pytest.approx(1)
    with pytest.raises(AssertionError, match="more than the declared"):
        check_statistic(_TooSmall(of="mean", bounds=(0, 1)), universe, n=4, neighbours=REPLACE)
    with pytest.raises(AssertionError, match="reaches only"):
        check_statistic(_TooLarge(of="mean", bounds=(0, 1)), universe, n=4, neighbours=REPLACE)


def test_a_record_that_changes_its_cell_moves_a_pooled_variance_further():
    """Two cells of three rows, by enumeration over the ends of the bounds: 0.1875 against 0.1667 (errata E10)."""

    def pooled(*cells):
        return sum(((np.array(cell) - np.mean(cell)) ** 2).sum() for cell in cells) / (
            sum(map(len, cells)) - len(cells)
        )

    stays = moves = 0.0
    for one in product((0.0, 1.0), repeat=3):
        for other in product((0.0, 1.0), repeat=3):
            before = pooled(one, other)
            for value in (0.0, 1.0):
                stays = max(stays, abs(pooled((value, *one[1:]), other) - before))
                moves = max(moves, abs(pooled(one[1:], (*other, value)) - before))
    assert (stays, moves) == pytest.approx((1 / 6, 0.1875))
    declared = PooledVariance(bounds=(0, 1), cells=(0, 1), n=6).sensitivity(neighbours=Neighbours.REPLACE_ONE)
    assert declared.l1 >= moves
