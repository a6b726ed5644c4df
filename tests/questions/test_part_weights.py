"""Weights of parts under Gaussian noise: proved in fractions, used where they help, and read back rightly."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from discreet import (
    ApproxDP,
    Bounds,
    Contribution,
    GaussianDP,
    Ledger,
    Neighbours,
    PrivacyUnit,
    PureDP,
    Release,
    Schema,
    Session,
    ZeroConcentratedDP,
    release,
)
from discreet.core.errors import DiscreetError
from discreet.core.schema import in_parts
from discreet.mechanisms import Gaussian, Laplace
from discreet.questions.covariance_matrix import CovarianceMatrixQuestion, covariance_noise
from discreet.questions.mean import MeanQuestion
from discreet.questions.moments import BernsteinMoments, part_weights, weighed_sensitivity
from discreet.questions.variance import (
    StandardDeviationQuestion,
    VarianceQuestion,
)

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE


def halved(coefficients):
    """De Casteljau: the Bernstein coefficients of a polynomial on both halves of its interval."""
    rows = [list(coefficients)]
    while len(rows[-1]) > 1:
        rows.append([(a + b) / 2 for a, b in itertools.pairwise(rows[-1])])
    return [row[0] for row in rows], [row[-1] for row in reversed(rows)]


def not_negative(coefficients, depth=12):
    """Whether a polynomial is certainly not negative on its interval: all its coefficients are, on some division."""
    if min(coefficients) >= 0:
        return True
    ends_negative = coefficients[0] < 0 or coefficients[-1] < 0  # the values at the ends
    return depth > 0 and not ends_negative and all(not_negative(half, depth - 1) for half in halved(coefficients))


def slack(weights):
    """1 − Σ wₖ²bₖ² in Bernstein form: bₖ² is (d over k)²/(2d over 2k) of the part 2k of degree 2d."""
    d = len(weights) - 1
    found = [Fraction(1)] * (2 * d + 1)
    for k, weight in enumerate(weights):
        found[2 * k] -= weight**2 * Fraction(math.comb(d, k) ** 2, math.comb(2 * d, 2 * k))
    return found


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 7])
def test_a_row_with_weights_has_a_length_of_at_most_one(degree):
    weights = part_weights(degree)
    assert all(weight >= 1 for weight in weights)
    assert weights == weights[::-1]
    assert not_negative(slack(weights))
    for u in np.linspace(0, 1, 101):
        parts = [math.comb(degree, k) * u**k * (1 - u) ** (degree - k) for k in range(degree + 1)]
        assert sum((float(w) * b) ** 2 for w, b in zip(weights, parts, strict=True)) <= 1 + 1e-12


@pytest.mark.parametrize(("degree", "place"), [(2, 1), (4, 1), (4, 2)])
def test_larger_weights_would_not_pass(degree, place):
    """The certificate can fail, and little is left: 2 % more on an inner part exceeds 1."""
    weights = list(part_weights(degree))
    for k in {place, degree - place}:
        weights[k] *= Fraction(102, 100)
    assert not not_negative(slack(weights))


@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
@pytest.mark.parametrize(
    "of",
    [
        BernsteinMoments(bounds=((0, 4),), degrees=(4,), weighed=True),
        BernsteinMoments(of="covariances", bounds=((0, 4), (0, 4)), degrees=(2, 4), weighed=True),
    ],
)
def test_sensitivity_by_brute_force(of, neighbours):
    """Units of up to two rows on five points, or with two columns on nine, in fractions."""
    points = range(5) if len(of.bounds) == 1 else list(itertools.product((0, 2, 4), repeat=2))
    units = [
        of.exact(list(rows), neighbours=ADD).value
        for size in (1, 2)
        for rows in itertools.combinations_with_replacement(points, size)
    ]
    others = units if neighbours is REPLACE else [0 * units[0]]
    changes = [unit - other for unit in units for other in others]
    moved = in_parts(Contribution(groups=1, rows=2), 1, len(units[0]), neighbours)
    declared = weighed_sensitivity(moved, of.multiplied)
    squares = max(sum(part * part for part in change) for change in changes)
    assert squares <= Fraction(declared.l2) ** 2
    assert math.sqrt(squares) == pytest.approx(declared.l2, rel=1e-12)  # rows at the ends attain it
    assert max(sum(abs(part) for part in change) for change in changes) <= Fraction(declared.l1)
    single = of.sensitivity(neighbours=neighbours)
    assert (2 * single.l1, 2 * single.l2) == pytest.approx((declared.l1, declared.l2))


def asked(kind, guarantee, *, neighbours=ADD, size=None, unit=None, **more):
    columns = {"age": Bounds(0, 100, grid=1, nulls=0), "sex": Bounds(0, 1, grid=1)}
    unit = {} if unit is None else {"unit": unit}
    return kind(Schema(columns=columns, neighbours=neighbours, size=size, **unit), "age", guarantee=guarantee, **more)


@pytest.mark.parametrize(
    ("guarantee", "noise"),
    [
        (PureDP(1.0), Laplace),
        (ApproxDP(1.0, 1e-6), Laplace),
        (ApproxDP(0.5, 0.02), Gaussian),
        (GaussianDP(0.5), Gaussian),
        (ZeroConcentratedDP(0.1), Gaussian),
    ],
)
def test_weights_come_with_gaussian_noise(guarantee, noise):
    for question in (asked(VarianceQuestion, guarantee), asked(MeanQuestion, guarantee, variance=True)):
        found = question.measurement
        assert isinstance(found.mechanism, noise)
        assert found.statistic.weighed is (noise is Gaussian)
    assert not asked(
        MeanQuestion, guarantee, variance=False
    ).measurement.statistic.weighed  # of two parts none is inner


@pytest.mark.parametrize("read", ["mean", "variance", "standard deviation"])
def test_weights_are_taken_out_of_what_is_read(read):
    data = [3, 10, 50, 51, 52, 77, 100, 100]
    exact = BernsteinMoments(bounds=((0, 100),), degrees=(4,), of=read, weighed=True).exact(data, neighbours=ADD)
    found = release(exact, Gaussian(0.002), rng=np.random.default_rng(1))
    assert found.mean == pytest.approx(np.mean(data), rel=0.01)
    assert found.variance == pytest.approx(np.var(data), rel=0.01)
    assert found.count == pytest.approx(8, abs=0.02)
    again = Release.from_dict(found.to_dict())
    assert again.statistic.weighed
    assert again.variance == found.variance


@pytest.mark.parametrize(("neighbours", "size"), [(ADD, None), (REPLACE, 200)])
@pytest.mark.parametrize("kind", [MeanQuestion, VarianceQuestion, StandardDeviationQuestion])
def test_noise_and_its_plan_agree(kind, neighbours, size):
    """400 releases know their spread to 4 %; a mean in the middle of 200 even rows, as the plan expects."""
    more = {"variance": True} if kind is MeanQuestion else {}
    question = asked(kind, GaussianDP(1.0), neighbours=neighbours, size=size, expected_rows=200, **more)
    found = question.measurement
    data = np.repeat(np.arange(0, 100, 1.01), 2)[:200].round()
    exact = found.statistic.exact(data.tolist(), neighbours=neighbours)
    rng = np.random.default_rng(3)
    noise = np.asarray(found.mechanism.law([float(part) for part in exact.value]).sample(400, rng=rng))
    assert found.public.get("n") == size
    whole = release(exact, found.mechanism, rng=rng)
    reads = []
    for value in noise:
        one = replace(whole, value=value, public=found.public)
        reads.append(one.mean if kind is MeanQuestion else one.estimate)
    assert np.std(reads) == pytest.approx(found.standard_error(), rel=0.15)


@pytest.mark.parametrize("guarantee", [GaussianDP(0.5), ZeroConcentratedDP(0.05)])
def test_intervals_cover(guarantee):
    """600 releases of a skewed column: 95 % ± 3.5 points is four standard errors."""
    rng = np.random.default_rng(4)
    data = rng.gamma(1.5, 12, 300).clip(0, 100).round()
    exact = BernsteinMoments(bounds=((0, 100),), degrees=(4,), weighed=True).exact(data, neighbours=ADD)
    mechanism = Gaussian.calibrate(guarantee, exact.sensitivity)
    drawn = [release(exact, mechanism, rng=rng) for _ in range(600)]
    means = np.mean([one.noise_interval().contains(float(np.mean(data))) for one in drawn])
    assert 0.915 <= means <= 0.985
    assert np.mean([one.variance_interval().contains(float(np.var(data))) for one in drawn[:200]]) >= 0.9


def test_covariances_are_read_and_cover():
    rng = np.random.default_rng(5)
    first = rng.normal(40, 15, 400).clip(0, 100)
    table = np.stack([first, (first / 20 + rng.normal(0, 1, 400)).clip(0, 5)], axis=1).round(1)
    of = BernsteinMoments(of="covariances", bounds=((0, 100), (0, 5)), degrees=(4, 4), weighed=True)
    exact = of.exact(table, neighbours=ADD)
    sharp = release(exact, Gaussian(0.002), rng=rng)
    assert np.allclose(sharp.matrix, np.cov(table.T, ddof=0), rtol=1e-3)
    mechanism = Gaussian.calibrate(GaussianDP(1.0), exact.sensitivity)
    truth = float(np.cov(table.T, ddof=0)[0, 1])
    drawn = [release(exact, mechanism, rng=rng) for _ in range(150)]
    inside = [one.noise_interval().low[0, 1] <= truth <= one.noise_interval().high[0, 1] for one in drawn]
    assert np.mean(inside) >= 0.88  # 95 % less four standard errors
    noise = np.std([one.matrix[0, 1] for one in drawn]) * 400 / 500
    assert noise == pytest.approx(mechanism.scale * math.sqrt(covariance_noise(of)), rel=0.35)
    assert drawn[0].pair(0, 1).rows_per_unit == 1


def test_four_columns_stay_in_parts_under_mu():
    columns = {name: Bounds(0, 1, grid=0.1) for name in "abcde"}
    found = [
        CovarianceMatrixQuestion(Schema(columns=columns), list(columns)[:count], mu=1.0).measurement
        for count in (2, 4, 5)
    ]
    assert [one.statistic.name for one in found[:2]] == ["covariances_in_parts"] * 2
    assert [one.statistic.weighed for one in found[:2]] == [True, True]
    assert found[2].statistic.name == "covariances_in_products"


def test_units_of_several_rows_and_groups():
    frame = pd.DataFrame({"person": np.arange(900) // 3, "age": np.arange(900) % 90, "sex": np.arange(900) % 2})
    unit = PrivacyUnit("person", Contribution(rows=3))
    schema = Schema(columns={"age": Bounds(0, 100, grid=1), "sex": Bounds(0, 1, grid=1)}, unit=unit)
    session = Session(frame, schema, ledger=Ledger(":memory:", budget=GaussianDP(10.0)))
    found = session.mean("age", mu=3.0, variance=True)
    assert found.statistic.weighed
    assert found.moments.rows_per_unit == 3
    assert found.mean == pytest.approx(frame["age"].mean(), abs=5)
    assert found.population_interval().width > found.noise_interval().width
    left = session.dropped_rows(mu=5.0, columns="age")
    assert left.mean_interval(found).contains(frame["age"].mean())


def test_a_flag_is_a_flag():
    with pytest.raises(DiscreetError, match="weighed"):
        BernsteinMoments(bounds=((0, 1),), degrees=(1,), weighed=2)
    with pytest.raises(DiscreetError, match="weighed"):
        BernsteinMoments(of="covariances", bounds=((0, 1),), degrees=(2,), weighed="yes")
