"""Tensor parts: exact sensitivity, exact sums on engines, the loss, and intervals of covariances and correlations."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from discreet import (
    Bounds,
    Categories,
    Contribution,
    GaussianDP,
    Ledger,
    Neighbours,
    PrivacyUnit,
    PureDP,
    Release,
    Schema,
    Session,
)
from discreet.core.errors import InvalidParameter
from discreet.core.rows import Selected, coarsening, take, totals
from discreet.core.rows.source import open_source
from discreet.core.schema import in_parts
from discreet.inference.moments import PairMoments, marginal
from discreet.mechanisms import Laplace
from discreet.questions.covariance_matrix import CovarianceMatrixQuestion
from discreet.questions.moments import BernsteinMoments

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
ENDS = ((-2.0, 6.0), (0.0, 1.0), (1.0, 4.0))
POINTS = ((-2, 0.5, 6, 99), (0, 0.25, 1), (1, 2.5, 4))


def moment_share(place, powers, degrees):
    """What one part counts in a moment: the product of (k over a)/(d over a)."""
    columns = zip(place, powers, degrees, strict=True)
    return math.prod(Fraction(math.comb(k, a), math.comb(d, a)) for k, a, d in columns)


@pytest.mark.parametrize("degrees", [(2, 2), (4, 1), (1, 2, 3)])
def test_a_row_in_tensor_parts(degrees):
    """Parts are not negative, add up to one, and hold every moment up to the degrees: in fractions."""
    of = BernsteinMoments(of="covariances", bounds=ENDS[: len(degrees)], degrees=degrees)
    for row in itertools.product(*POINTS[: len(degrees)]):
        parts = of.exact([row], neighbours=ADD).value
        assert all(part >= 0 for part in parts)
        assert sum(parts) == 1
        within = [Fraction(min(max(x, low), high)) for x, (low, high) in zip(row, of.bounds, strict=True)]
        shares = [(x - Fraction(low)) / Fraction(high - low) for x, (low, high) in zip(within, of.bounds, strict=True)]
        for powers in of.powers:
            found = sum(
                moment_share(place, powers, degrees) * part for place, part in zip(of.powers, parts, strict=True)
            )
            assert found == math.prod(u**a for u, a in zip(shares, powers, strict=True))
            assert of.weights(powers) @ [float(part) for part in parts] == pytest.approx(float(found), abs=1e-12)


@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
@pytest.mark.parametrize(("groups", "rows"), [(1, 1), (1, 2), (2, 1)])
def test_sensitivity_by_brute_force(neighbours, groups, rows):
    of = BernsteinMoments(of="covariances", bounds=ENDS[:2], degrees=(2, 1))
    points = list(itertools.product([-2, 2, 6], [0, 1]))
    one = [
        of.exact(np.array(chosen, dtype=float).reshape(-1, 2), neighbours=ADD).value
        for size in range(rows + 1)
        for chosen in itertools.combinations_with_replacement(points, size)
    ]
    units = [np.concatenate(parts) for parts in itertools.product(one, repeat=groups)]
    others = units if neighbours is REPLACE else [0 * units[0]]
    changes = [unit - other for unit in units for other in others]
    declared = in_parts(Contribution(groups=groups, rows=rows), groups, of.size, neighbours)
    assert max(sum(abs(part) for part in change) for change in changes) == Fraction(declared.l1)
    squares = max(sum(part * part for part in change) for change in changes)
    assert squares <= Fraction(declared.l2) ** 2
    assert math.sqrt(squares) == pytest.approx(declared.l2, rel=1e-12)
    if groups == rows == 1:
        assert of.sensitivity(neighbours=neighbours) == declared


def test_exact_loss_is_the_claim():
    of = BernsteinMoments(of="covariances", bounds=ENDS[:2], degrees=(4, 4))
    exact = of.exact([[0.5, 0.3]], neighbours=ADD)
    mechanism = Laplace.calibrate(PureDP(0.7), exact.sensitivity)
    shift = np.array([float(part) for part in exact.value])
    loss = (np.abs(np.full(25, 9.0)) - np.abs(9.0 - shift)).sum() / mechanism.scale
    assert 0.99 * 0.7 <= loss <= 0.7 * (1 + 1e-12)


def data(rows=300):
    rng = np.random.default_rng(4)
    x = rng.normal(50, 12, rows).clip(0, 100).round(1)
    return pd.DataFrame(
        {
            "x": x,
            "y": (x / 20 + rng.normal(0, 1, rows)).clip(-1, 9).round(2),
            "z": (rng.random(rows) < 0.4).astype(float),
            "arm": rng.choice(["A", "B"], rows),
            "person": np.arange(rows) // 3,
        }
    )


COLUMNS = {
    "x": Bounds(0, 100, grid=0.1),
    "y": Bounds(-1, 9, grid=0.01),
    "z": Bounds(0, 1, grid=1),
    "arm": Categories(["A", "B"]),
}


def test_sums_of_a_session_are_those_of_the_rows():
    """The same fractions from the engine as row by row, where nothing is coarsened."""
    found = CovarianceMatrixQuestion(Schema(columns=COLUMNS), ["x", "y"], epsilon=1.0).measurement
    table = data(40)
    exact = found.exact(take(open_source(table), Schema(columns=COLUMNS)))
    of = BernsteinMoments(of="covariances", bounds=((0, 100), (-1, 9)), degrees=(4, 4))
    rows = [[Fraction(str(x)), Fraction(str(y))] for x, y in zip(table.x, table.y, strict=True)]
    shares = [
        [(x - low) / (high - low) for x, (low, high) in zip(row, ((0, 100), (-1, 9)), strict=True)] for row in rows
    ]
    expected = [
        sum(
            math.prod(math.comb(4, k) * u**k * (1 - u) ** (4 - k) for k, u in zip(place, row, strict=True))
            for row in shares
        )
        for place in of.powers
    ]
    merged = [coarsening(COLUMNS[name], 8)[0] for name in ("x", "y")]
    assert merged == [1, 1]
    assert list(exact) == list(expected)


def test_steps_merge_where_products_are_long():
    fine = Bounds(0, 2.0**40, grid=1)
    assert coarsening(fine, 4) == (1, 2**40)
    assert coarsening(fine, 6) == (2**27, 2**13)
    assert coarsening(Bounds(0, 100, grid=1), 10) == (1, 100)


def test_products_of_many_factors_need_a_lower_bound():
    schema = Schema(columns={"a": Bounds(0, 1, grid=0.1)})
    with pytest.raises(InvalidParameter, match="one to four"):
        totals(take(open_source(pd.DataFrame({"a": [0.5]})), schema), Selected(columns=("a",)), (("a",) * 5,))


@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
@pytest.mark.parametrize("columns", [["x"], ["x", "y"], ["x", "y", "z"]])
def test_covariances_of_a_session(neighbours, columns):
    table = data(3000)
    size = 3000 if neighbours is REPLACE else None
    schema = Schema(columns=COLUMNS, neighbours=neighbours, size=size)
    session = Session(table, schema, ledger=Ledger(":memory:", budget=PureDP(1000.0)))
    found = session.covariance_matrix(columns, epsilon=1000.0)
    assert np.allclose(found.means, table[columns].mean(), rtol=1e-3)
    truth = table[columns].cov(ddof=0).to_numpy()
    assert np.allclose(found.matrix, truth, atol=1e-3 * np.sqrt(np.outer(np.diag(truth), np.diag(truth))))
    assert np.allclose(found.correlation, table[columns].corr(), atol=2e-3)
    inside = found.noise_interval()
    assert np.all((np.asarray(inside.low) <= found.matrix) & (found.matrix <= np.asarray(inside.high)))
    wider = found.population_interval()
    assert np.all(np.asarray(wider.width) > np.asarray(inside.width))
    again = Release.from_dict(found.to_dict())
    assert np.array_equal(again.matrix, found.matrix)
    assert len(found.readings(columns)) == {1: 1, 2: 4, 3: 9}[len(columns)]


def test_rows_of_a_unit_widen():
    schema = Schema(columns=COLUMNS, unit=PrivacyUnit("person", Contribution(rows=3)))
    session = Session(data(), schema, ledger=Ledger(":memory:", budget=PureDP(20.0)))
    found = session.covariance_matrix(["x", "y"], epsilon=10.0)
    assert found.sensitivity.l1 == 3.0
    assert found.pair(0, 1).rows_per_unit == 3


def test_many_columns_take_totals_of_products():
    columns = {f"c{i}": Bounds(0, 1, grid=0.1) for i in range(6)}
    of = [
        CovarianceMatrixQuestion(
            Schema(columns=columns), list(columns)[:count], guarantee=guarantee
        ).measurement.statistic.name
        for count, guarantee in ((5, PureDP(1.0)), (6, PureDP(1.0)), (2, GaussianDP(1.0)), (5, GaussianDP(1.0)))
    ]
    assert of == ["covariances_in_parts", "covariances_in_products", "covariances_in_parts", "covariances_in_products"]


def test_degrees_are_checked():
    with pytest.raises(InvalidParameter, match="one per column"):
        BernsteinMoments(of="covariances", bounds=ENDS, degrees=(2, 2))
    with pytest.raises(InvalidParameter, match="4096"):
        BernsteinMoments(of="covariances", bounds=((0, 1),) * 7, degrees=(4,) * 7)


def pairs_of(kind, rng, size=40_000):
    z = rng.standard_normal((size, 2))
    z[:, 1] = 0.6 * z[:, 0] + 0.8 * z[:, 1]
    if kind == "lognormal":
        return np.clip(np.exp(z) / 30, 0, 1)
    if kind == "yes/no":
        first = rng.random(size) < 0.3
        return np.stack([first, np.where(rng.random(size) < 0.6, first, rng.random(size) < 0.3)], axis=1).astype(float)
    return np.clip(0.5 + z / np.sqrt(rng.chisquare(3, (size, 1)) / 3) / 40, 0, 1)


@pytest.mark.parametrize("kind", ["lognormal", "yes/no", "t, 3 df"])
@pytest.mark.parametrize(("n", "epsilon"), [(100, 1.0), (2000, 1.0), (2000, 10.0)])
def test_covariance_and_correlation_cover(kind, n, epsilon):
    """300 samples of populations that no interval was made for: 93.5 % less 2.4 standard errors."""
    rng = np.random.default_rng(8)
    rows = pairs_of(kind, rng)
    one, two = (np.stack([math.comb(4, k) * u**k * (1 - u) ** (4 - k) for k in range(5)], 1) for u in rows.T)
    parts = (one[:, :, None] * two[:, None, :]).reshape(len(rows), -1)
    samples = np.stack([parts[rng.integers(0, len(rows), n)].sum(axis=0) for _ in range(300)])
    noisy = samples + rng.laplace(0, 1 / epsilon, samples.shape)
    pair = PairMoments(totals=noisy, noise=2 / epsilon**2, kurtosis=3.0, shape=(5, 5))
    truth = np.cov(rows.T, bias=True)
    correlation = truth[0, 1] / math.sqrt(truth[0, 0] * truth[1, 1])
    assert np.mean(pair.accepts_covariance(truth[0, 1])) >= 0.9
    assert np.mean(pair.accepts_correlation(correlation)) >= 0.9
    low, high = PairMoments(totals=noisy[:20], noise=2 / epsilon**2, kurtosis=3.0, shape=(5, 5)).covariance_interval()
    assert np.all(pair.accepts_covariance(truth[0, 1])[:20] <= ((low <= truth[0, 1]) & (truth[0, 1] <= high)))


def test_marginals_add_up():
    tensor = np.arange(24.0).reshape(2, 3, 4)
    found, added = marginal(tensor.ravel(), (2, 3, 4), (0, 2))
    assert added == 3
    assert np.array_equal(found.reshape(2, 4), tensor.sum(axis=1))
