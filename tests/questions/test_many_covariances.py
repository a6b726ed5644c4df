"""Covariances of many columns: totals of products in box noise, what is read from them, and their plans."""

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
from discreet.core.errors import InvalidParameter
from discreet.mechanisms import BoxNoise, Gaussian
from discreet.questions import MeansAndCovariances
from discreet.questions.covariance_matrix import CovarianceMatrixQuestion

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
NAMES = [f"c{place}" for place in range(6)]
COLUMNS = {name: Bounds(0, 10 * (place + 1), grid=1, nulls=0) for place, name in enumerate(NAMES)}


def rows(count, seed=1):
    rng = np.random.default_rng(seed)
    common = rng.normal(0, 1, (count, 1))
    scaled = 0.5 + 0.15 * (common + rng.normal(0, 1, (count, 6)))
    return pd.DataFrame(np.clip(scaled, 0, 1) * [10 * (place + 1) for place in range(6)], columns=NAMES).round()


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
def test_sensitivity_by_brute_force(neighbours, counted):
    """All rows on three points of each of two columns, in fractions; every total moves as far as declared."""
    of = MeansAndCovariances(bounds=((0, 2), (0, 4)), counted=counted)
    found = [of.exact([row], neighbours=ADD).value for row in itertools.product((0, 1, 2), (0, 2, 4))]
    others = found if neighbours is REPLACE else [0 * found[0]]
    changes = [[abs(part) for part in one - other] for one in found for other in others]
    declared = of.sensitivity(neighbours=neighbours)
    assert max(map(max, changes)) == Fraction(declared.linf)
    assert max(map(sum, changes)) <= Fraction(declared.l1)
    assert max(sum(part * part for part in one) for one in changes) <= Fraction(declared.l2) ** 2
    assert len(changes[0]) == of.coordinates == declared.dimension
    if neighbours is ADD:
        assert max(map(sum, changes)) == Fraction(declared.l1)  # a corner moves all of them


@pytest.mark.parametrize(
    ("guarantee", "noise"),
    [
        (PureDP(1.0), BoxNoise),
        (ApproxDP(1.0, 1e-9), BoxNoise),
        (GaussianDP(1.0), Gaussian),
        (ZeroConcentratedDP(0.2), Gaussian),
    ],
)
@pytest.mark.parametrize(("neighbours", "size"), [(ADD, None), (REPLACE, 500)])
def test_the_noise_with_the_least_variance(guarantee, noise, neighbours, size):
    found = CovarianceMatrixQuestion(
        Schema(columns=COLUMNS, neighbours=neighbours, size=size), NAMES, guarantee=guarantee
    )
    assert isinstance(found.measurement.mechanism, noise)
    assert found.measurement.statistic.counted is (size is None)
    assert found.measurement.public.get("n") == size


@pytest.mark.parametrize(("neighbours", "size"), [(ADD, None), (REPLACE, 400)])
def test_what_a_session_reads(neighbours, size):
    table = rows(400)
    schema = Schema(columns=COLUMNS, neighbours=neighbours, size=size)
    session = Session(table, schema, ledger=Ledger(":memory:", budget=PureDP(900.0)))
    found = session.covariance_matrix(NAMES, epsilon=400.0)
    truth = table.cov(ddof=0).to_numpy()
    scale = np.outer(*[[10.0 * (place + 1) for place in range(6)]] * 2)
    assert np.abs((found.matrix - truth) / scale).max() < 2e-3
    assert np.allclose(found.means, table.mean(), rtol=0.01)
    assert found.count == pytest.approx(400, abs=2)
    inside, wider = found.noise_interval(), found.population_interval()
    assert inside.contains(truth).all()
    assert np.all(np.asarray(wider.width) > np.asarray(inside.width))
    assert found.correlation_interval(j=0, k=1).contains(table.corr().iloc[0, 1])
    again = Release.from_dict(found.to_dict())
    assert np.array_equal(again.matrix, found.matrix)
    assert len(found.readings(NAMES)) == 21
    with pytest.raises(InvalidParameter, match="another column"):
        found.correlation_interval(j=1, k=1)
    with pytest.raises(InvalidParameter, match="below 6"):
        found.correlation_interval(j=1, k=6)


@pytest.mark.parametrize(("neighbours", "size"), [(ADD, None), (REPLACE, 2000)])
def test_noise_and_its_plan_agree(neighbours, size):
    """300 releases of even columns know the spread of the covariance with the widest bounds to 4 %."""
    schema = Schema(columns=COLUMNS, neighbours=neighbours, size=size)
    measured = CovarianceMatrixQuestion(schema, NAMES, epsilon=2.0, expected_rows=2000).measurement
    rng = np.random.default_rng(6)
    table = np.stack([rng.permutation(2000) % (10 * (place + 1) + 1) for place in range(6)], axis=1)
    exact = measured.statistic.exact(table, neighbours=neighbours)
    first = release(exact, measured.mechanism, rng=rng)
    drawn = np.asarray(measured.mechanism.law(np.asarray(exact.value, dtype=float)).sample(300, rng=rng))
    read = [replace(first, value=value, public=dict(measured.public)).matrix[4, 5] for value in drawn]
    assert np.std(read) == pytest.approx(measured.standard_error(), rel=0.15)
    reach = np.quantile(np.abs(read - np.mean(read)), 0.95)
    assert reach == pytest.approx(measured.error(), rel=0.15)


def test_noise_intervals_cover_in_box_noise():
    table = rows(1500).to_numpy()
    statistic = MeansAndCovariances(bounds=tuple((0, 10 * (place + 1)) for place in range(6)))
    exact = statistic.exact(table, neighbours=ADD)
    mechanism = BoxNoise.calibrate(PureDP(1.0), exact.sensitivity)
    truth, rng = np.cov(table.T, ddof=0), np.random.default_rng(8)
    hits = np.mean([release(exact, mechanism, rng=rng).noise_interval().contains(truth) for _ in range(60)], axis=0)
    assert hits.min() >= 0.9


def test_rows_of_a_unit():
    table = rows(600).assign(person=np.arange(600) // 4)
    unit = PrivacyUnit("person", Contribution(rows=4))
    session = Session(table, Schema(columns=COLUMNS, unit=unit), ledger=Ledger(":memory:", budget=PureDP(900.0)))
    found = session.covariance_matrix(NAMES, epsilon=400.0)
    assert found.sensitivity.linf == 4.0
    assert found.mechanism.scale == pytest.approx(4 / 400)
    reach = np.asarray(found.population_interval().width)
    alone = Session(table[NAMES], Schema(columns=COLUMNS), ledger=Ledger(":memory:", budget=PureDP(900.0)))
    narrow = np.asarray(alone.covariance_matrix(NAMES, epsilon=400.0).population_interval().width)
    assert np.median(reach / narrow) > 1.5  # four rows that may be alike: twice the sampling error


def test_box_noise_in_place_of_laplace_noise():
    """A covariance of six columns has 2.3 times less noise, by the formulas of both laws."""
    of = MeansAndCovariances(bounds=((0, 1),) * 6)
    k = of.coordinates
    box = BoxNoise.calibrate(PureDP(1.0), of.sensitivity(neighbours=ADD))
    assert k == 28
    assert float(box.law(0.0).variance) == pytest.approx((k + 1) * (k + 2) / 3)
    assert math.sqrt(2 * k**2 / float(box.law(0.0).variance)) == pytest.approx(2.32, abs=0.01)
