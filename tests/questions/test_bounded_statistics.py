"""Statistics of bounded columns: exact values, domains, refusals, and reading them back."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import Neighbours, PureDP, Release, release
from discreet.core.errors import InvalidParameter
from discreet.core.numbers import Grid, product_total, total
from discreet.mechanisms import BoundedLaplace, Laplace
from discreet.questions import (
    CorrelationMatrix,
    Count,
    Covariance,
    CovarianceMatrix,
    Mean,
    NoisyAverage,
    PooledCovariance,
    PooledVariance,
    Proportion,
    ProportionVector,
    StandardDeviation,
    Sum,
    Variance,
)
from discreet.results.release import statistic_from_dict

REPLACE, ADD = Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE


def test_the_contract() -> None:
    assert Variance(bounds=(0, 10)).sensitivity(n=100, neighbours=REPLACE).l1 == 1.0
    exact = Mean(bounds=(0, 1)).exact([0.25, 0.5, 0.75], neighbours=REPLACE)
    assert exact.value == Fraction(1, 2)
    assert "1/2" not in repr(exact)
    assert "0.5" not in repr(exact)
    assert Variance(bounds=(0, 2)).domain(5) == (0.0, 5 * 4 / 16)


@given(st.lists(st.floats(-5, 15), min_size=2, max_size=40), st.floats(0.1, 10))
def test_values_agree_with_floats(rows: list[float], high: float) -> None:
    clipped = np.clip(rows, 0, high)
    bounds = (0.0, high)
    assert float(Sum(bounds=bounds).value(rows)) == pytest.approx(clipped.sum(), abs=1e-6 * len(rows) * high)
    assert float(Mean(bounds=bounds).value(rows)) == pytest.approx(clipped.mean(), abs=1e-8 * high)
    assert float(Variance(bounds=bounds).value(rows)) == pytest.approx(clipped.var(ddof=1), abs=1e-7 * high**2)


@given(st.lists(st.tuples(st.floats(-1, 2), st.floats(-1, 2), st.integers(0, 2)), min_size=6, max_size=30))
def test_two_column_values_agree_with_floats(rows: list[tuple[float, float, int]]) -> None:
    x, y, labels = (np.array(column) for column in zip(*rows, strict=True))
    a, b = np.clip(x, 0, 1), np.clip(y, 0, 1)
    pair = ((0, 1), (0, 1))
    assert float(Covariance(bounds=pair).value((x, y))) == pytest.approx(np.cov(a, b)[0, 1], abs=1e-7)
    matrix = CovarianceMatrix(bounds=pair).value(np.stack([x, y], axis=1))
    wanted = np.cov(a, b)
    assert np.allclose(matrix.astype(float), [wanted[0, 0], wanted[1, 1], wanted[0, 1]], atol=1e-7)
    within = sum(((a[labels == c] - a[labels == c].mean()) ** 2).sum() for c in set(labels)) / (len(rows) - 3)
    assert float(PooledVariance(bounds=(0, 1), cells=(0, 1, 2)).value((x, labels))) == pytest.approx(within, abs=1e-7)
    same = PooledCovariance(bounds=pair, cells=(0, 1, 2)).value((x, x, labels))
    assert float(same) == pytest.approx(within, abs=1e-7)


@given(st.permutations(list(range(12))))
def test_order_does_not_matter(order: list[int]) -> None:
    rows = np.array([0.1, 0.2, 0.3, 1e-9, 0.7, 0.11, 0.13, 0.17, 0.19, 0.23, 0.29, 0.31])
    assert Sum(bounds=(0, 1)).value(rows[order]) == Sum(bounds=(0, 1)).value(rows)
    assert Variance(bounds=(0, 1)).value(rows[order]) == Variance(bounds=(0, 1)).value(rows)


@given(
    st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=50),
    st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=50),
)
def test_sums_of_products_are_exact(first: list[int], second: list[int]) -> None:
    size = min(len(first), len(second))
    a, b = np.array(first[:size], dtype=np.int64), np.array(second[:size], dtype=np.int64)
    assert total(a) == sum(first[:size])
    assert product_total(a, b) == sum(x * y for x, y in zip(first[:size], second[:size], strict=True))


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(-2e6, 2e6))
@settings(max_examples=200)
def test_grid_points_stay_inside_the_bounds(low: float, width: float, x: float) -> None:
    grid = Grid(bounds=(low, low + width))
    (point,) = grid.values(grid.offsets("x", [x]))
    assert Fraction(grid.bounds[0]) <= point <= Fraction(grid.bounds[1])
    nearest = min(max(x, low), low + width)
    assert abs(point - Fraction(nearest)) <= grid.exact_step
    assert grid.exact_step <= Fraction(width) / 2**28 or grid.exact_step <= Fraction(abs(low) + width) / 2**49


STATISTICS: list[Any] = [
    Count(),
    Count(n=5),
    Sum(bounds=(0, 3), n=7),
    NoisyAverage(bounds=(-1, 1)),
    Mean(bounds=(0, 1), n=9),
    Proportion(n=4),
    Variance(bounds=(0, 1), grid=2**-10),
    StandardDeviation(bounds=(0, 1)),
    Covariance(bounds=((0, 1), (2, 3)), n=4),
    CovarianceMatrix(bounds=((0, 1), (2, 3), (0, 9))),
    CorrelationMatrix(bounds=((0, 1), (2, 3))),
    PooledVariance(bounds=(0, 1), cells=("a", "b"), sizes=(2, 3), moving=False),
    PooledCovariance(bounds=((0, 1), (0, 1)), cells=("a", "b")),
    ProportionVector(categories=("x", "y")),
]


@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda statistic: statistic.name)
def test_statistics_are_read_back(statistic: Any) -> None:
    assert statistic_from_dict(json.loads(json.dumps(statistic.to_dict()))) == statistic


BAD_COLUMNS = [[1.0, math.nan], [math.inf], ["a"], [[1.0], [2.0]], None]


@pytest.mark.parametrize("column", BAD_COLUMNS, ids=repr)
@pytest.mark.parametrize("statistic", [Sum(bounds=(0, 1)), Mean(bounds=(0, 1)), Variance(bounds=(0, 1))])
def test_bad_columns_are_refused(statistic: Any, column: Any) -> None:
    with pytest.raises((InvalidParameter, TypeError)):
        statistic.exact(column, neighbours=REPLACE)


def negative_variance() -> Any:
    """A variance that noise has made negative."""
    exact = StandardDeviation(bounds=(0, 1)).exact([0.5] * 9, neighbours=REPLACE)
    made: Any = release(exact, Laplace(scale=1.0), rng=1)
    return replace(made, value=-1.0)


def test_an_empty_column_is_refused_only_where_the_number_of_rows_is_public() -> None:
    """Where rows are added and removed, a refusal would tell that nobody is in the data."""
    for statistic in (Mean(bounds=(0, 1)), Variance(bounds=(0, 1))):
        with pytest.raises(InvalidParameter):
            statistic.exact([], neighbours=REPLACE)
    for statistic in (Count(), Sum(bounds=(1, 2)), NoisyAverage(bounds=(0, 1))):
        value = statistic.exact([], neighbours=Neighbours.ADD_REMOVE).value
        assert np.all(np.asarray(value, dtype=float) == 0)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Mean(bounds=(1, 0)), "bounds"),
        (lambda: Mean(bounds=(0, math.inf)), "bounds"),
        (lambda: Mean(bounds=(0, math.nan)), "bounds"),
        (lambda: Mean(bounds="01"), "bounds"),
        (lambda: Mean(bounds=(0, 1), n=0), "n"),
        (lambda: Mean(bounds=(0, 1), n=2.5), "n"),
        (lambda: Mean(bounds=(0, 1), grid=0.3), "step"),
        (lambda: Mean(bounds=(0, 1), grid=2.0**-40), "step"),
        (lambda: Mean(bounds=(1e300, 1.0000000000000002e300)), "bounds"),
        (lambda: Variance(bounds=(0, 1), n=1), "n"),
        (lambda: Variance(bounds=(0, 1)).sensitivity(neighbours=REPLACE), "n"),
        (lambda: Variance(bounds=(0, 1)).sensitivity(n=2, neighbours=ADD), "n"),
        (lambda: Variance(bounds=(0, 1)).exact([0.5], neighbours=REPLACE), "n"),
        (lambda: Mean(bounds=(0, 1)).exact([0.5, 1], neighbours=ADD), "n"),
        (lambda: Mean(bounds=(0, 1), n=3).exact([0.5, 1], neighbours=ADD), "n"),
        (lambda: Mean(bounds=(0, 1)).sensitivity(n=3, neighbours="replace"), "neighbours"),
        (lambda: Proportion().value([0, 2]), "data"),
        (lambda: Proportion().exact([], neighbours=REPLACE), "n"),
        (lambda: Covariance(bounds=((0, 1),)), "bounds"),
        (lambda: Covariance(bounds=((0, 1), (0, 1))).value(([1, 0], [1, 0, 1])), "data"),
        (lambda: CorrelationMatrix(bounds=((0, 1),)), "bounds"),
        (lambda: CovarianceMatrix(bounds=((0, 1), (0, 1))).value(np.zeros((3, 3))), "data"),
        (lambda: PooledVariance(bounds=(0, 1), cells=("a", "a")), "cells"),
        (lambda: PooledVariance(bounds=(0, 1), cells=("a",), sizes=(3,)), "sizes"),
        (lambda: PooledVariance(bounds=(0, 1), cells=("a",), sizes=(1,), moving=False), "sizes"),
        (lambda: PooledVariance(bounds=(0, 1), cells=("a",)).value(([0, 1, 1], ["a", "b", "a"])), "labels"),
        (lambda: ProportionVector(categories=("a",)), "categories"),
        (lambda: ProportionVector(categories="ab"), "categories"),
        (lambda: ProportionVector(categories=("a", "b")).value(["a", "c"]), "data"),
        (lambda: negative_variance().standard_deviation, "variance"),
    ],
)
def test_refusals_name_the_parameter(make: Any, name: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        make()
    assert caught.value.name == name


def test_add_remove_needs_a_declared_size_and_says_how() -> None:
    with pytest.raises(InvalidParameter, match="NoisyAverage"):
        Mean(bounds=(0, 1)).exact([0.5, 1.0], neighbours=ADD)
    exact = Mean(bounds=(0, 1), n=2).exact([0.5, 1.0], neighbours=ADD)
    assert exact.sensitivity.l1 == 0.5


def test_releases_keep_the_public_size() -> None:
    exact = Variance(bounds=(0, 1)).exact([0, 1, 0.5, 0.25], neighbours=REPLACE)
    mechanism = BoundedLaplace.calibrate(PureDP(1.0), exact.sensitivity, bounds=exact.statistic.domain())
    noisy = release(exact, mechanism, rng=1)
    again = Release.from_json(noisy.to_json())
    assert type(again) is type(noisy)
    assert again.statistic == noisy.statistic
    assert again.statistic.n == 4
    assert again.population_interval() == noisy.population_interval()
