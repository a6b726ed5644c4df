"""Outlier scores and omission steps: brute force, exact coins, refusals."""

from __future__ import annotations

import json
import math
from collections import Counter
from itertools import combinations, product

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from flint import arb

from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import ApproxDP, GaussianDP, PureDP, ZeroConcentratedDP
from discreet.core.noise.choice import exact_events
from discreet.core.protection import Neighbours
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms import FixedSample, Gaussian, OutlierSuppression, PoissonSample, SampleByLabel
from discreet.mechanisms.omission.behind import BehindOmission
from discreet.mechanisms.omission.step import (
    AbsoluteDistance,
    DiscreteDistance,
    EuclideanDistance,
    omission_from_dict,
    outlier_scores,
)
from tests.chosen_entropy import ChosenEntropy


def test_absolute_scores_by_brute_force() -> None:
    data = np.random.default_rng(1).integers(0, 126, 300)
    brute = np.abs(data[:, None] - data[None]).mean(axis=1) / 125
    np.testing.assert_allclose(AbsoluteDistance((0, 125)).mean_distances(data), brute, rtol=1e-13)


def test_discrete_scores_by_brute_force() -> None:
    generator = np.random.default_rng(2)
    for data in (generator.integers(-3, 4, 200), generator.choice(list("abc"), 200), generator.random(50).round(1)):
        brute = (data[:, None] != data[None]).mean(axis=1)
        np.testing.assert_allclose(DiscreteDistance().mean_distances(data), brute, rtol=1e-15)
    rows = generator.integers(0, 2, (100, 3))
    brute = (rows[:, None] != rows[None]).any(axis=2).mean(axis=1)
    np.testing.assert_allclose(DiscreteDistance().mean_distances(rows), brute, rtol=1e-15)


def test_euclidean_scores_by_brute_force_and_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(3).normal(size=(120, 3))
    bounds = ((-1, 1), (-2, 2), (0, 3))
    clipped = np.clip(rows, [-1, -2, 0], [1, 2, 3])
    brute = np.linalg.norm(clipped[:, None] - clipped[None], axis=2).mean(axis=1) / math.sqrt(4 + 16 + 9)
    whole = EuclideanDistance(bounds).mean_distances(rows)
    monkeypatch.setattr("discreet.mechanisms.omission.step._BLOCK", 500)
    np.testing.assert_allclose(EuclideanDistance(bounds).mean_distances(rows), whole, rtol=1e-15)
    np.testing.assert_allclose(whole, brute, rtol=1e-13)


@pytest.mark.parametrize(
    ("distance", "data"),
    [
        (AbsoluteDistance((0.1, 0.9)), np.random.default_rng(4).random(400)),
        (DiscreteDistance(), np.random.default_rng(5).integers(0, 9, 400)),
        (EuclideanDistance(((0, 1), (0, 2))), np.random.default_rng(6).random((150, 2))),
    ],
)
def test_error_bounds_cover_the_floats(distance, data) -> None:  # type: ignore[no-untyped-def]
    floats, rows = distance.mean_distances(data), distance.prepare(data)
    for index in range(0, len(data), 37):
        exact = distance.mean_distance_ball(rows, index)
        assert abs(float(exact) - floats[index]) <= distance.error(len(data))
        assert exact.rel_accuracy_bits() > 40


def test_scores_lie_between_the_limits_for_any_data() -> None:
    for data in ([5.0], [0.0, 1e9, -1e9], [3.0] * 7):
        scores = outlier_scores(data, 0.2, 0.7, AbsoluteDistance((0, 10)))
        assert np.all((scores >= 0.2) & (scores <= 0.7))
    assert outlier_scores([], 0.2, 0.7, AbsoluteDistance((0, 10))).size == 0


def test_exact_coin_takes_more_bits_when_close() -> None:
    """U = ½ exactly in its first 64 bits against p = ½ + 2⁻¹⁰⁰: decided by later bits."""
    for further, expected in ((0, True), (2**64 - 1, False)):
        entropy = ChosenEntropy([2**63], further=[further])
        assert exact_events(np.array([0.5]), 0.0, lambda _: arb(1) / 2 + arb(2) ** -100, entropy=entropy)[0] == expected
        assert entropy.extra_words >= 1


def test_poisson_sample_keeps_with_its_rate() -> None:
    """Binomial at 6 standard deviations: a false alarm once in 5e8; a rate off by 0.01 is seen surely at 200,000."""
    kept = PoissonSample(0.3).kept(range(200_000))
    assert abs(kept.mean() - 0.3) < 6 * math.sqrt(0.21 / 200_000)
    assert PoissonSample(1.0).kept(range(1000)).all()
    again = PoissonSample(0.3).kept(range(200_000))
    assert (kept != again).any()


def test_sample_by_label_keeps_with_the_rate_of_the_label() -> None:
    """Binomial at 6 standard deviations, as above; unlisted and missing labels have the rate of others."""
    labels = np.array(["north", "south", "else", None], dtype=object).repeat(50_000)
    step = SampleByLabel("region", {"north": 0.1, "south": 0.5}, others=0.2)
    for table in (pa.table({"region": labels}), pd.DataFrame({"region": labels})):
        kept = step.kept(table).reshape(4, -1).mean(axis=1)
        assert np.all(np.abs(kept - [0.1, 0.5, 0.2, 0.2]) < 6 * 0.5 / math.sqrt(50_000))
    assert step.amplify(PureDP(1.0)) == PoissonSample(0.5).amplify(PureDP(1.0))
    assert SampleByLabel("region", {"north": 0.1}).kept(pa.table({"region": ["south"] * 99})).sum() == 0
    assert len({step, SampleByLabel("region", {"north": 0.1, "south": 0.5}, 0.2)}) == 1


def test_a_fixed_sample_is_a_uniform_choice_of_so_many() -> None:
    """Every one of the ten pairs of five rows, 20,000 times: 6 standard deviations each."""
    step = FixedSample(2, 5)
    found = Counter(tuple(np.flatnonzero(step.kept(range(5)))) for _ in range(20_000))
    assert set(found) == set(combinations(range(5), 2))
    assert all(abs(n - 2000) < 6 * math.sqrt(20_000 * 0.09) for n in found.values())
    fewer = [int(FixedSample(50, 100).kept(range(10)).sum()) for _ in range(2000)]
    assert abs(np.mean(fewer) - 5) < 6 * math.sqrt(10 / 4 / 2000)  # still half of the rows, and not all of them
    assert FixedSample(50, 100).kept(range(1000)).sum() == 50


def test_equal_keys_are_drawn_again() -> None:
    entropy = ChosenEntropy([7, 7, 9, 1, 1, 2], further=[3, 2, 1, 0, 0, 0])
    assert FixedSample(1, 3).kept(range(3), entropy=entropy).tolist() == [False, False, True]


def test_a_fixed_sample_costs_what_it_claims_and_no_less() -> None:
    """Exact outcomes of randomised response on whether the sample holds a given record: all samples enumerated."""
    epsilon, size, population = 1.3, 3, 7
    chance = {
        (here, answer): sum(
            math.exp(epsilon * ((here and 0 in sample) == answer)) / (1 + math.exp(epsilon))
            for sample in combinations(range(population), size)
        )
        for here in (True, False)
        for answer in (True, False)
    }
    losses = [abs(math.log(chance[True, answer] / chance[False, answer])) for answer in (True, False)]
    claimed = FixedSample(size, population).amplify(PureDP(epsilon)).epsilon
    assert max(losses) == pytest.approx(claimed, rel=1e-12)


def test_suppression_deletes_by_the_scores() -> None:
    data = np.repeat([0.0, 100.0], [90_000, 10_000])
    step = OutlierSuppression(0.1, 0.8, AbsoluteDistance((0, 100)))
    kept = step.kept(data)
    for value, deleted in ((0.0, 0.1 + 0.7 * 0.1), (100.0, 0.1 + 0.7 * 0.9)):
        rows = data == value
        assert abs(1 - kept[rows].mean() - deleted) < 6 * math.sqrt(deleted * (1 - deleted) / rows.sum())


def test_apply_keeps_the_container() -> None:
    frame = pd.DataFrame({"x": range(100)})
    step = PoissonSample(0.5)
    for data in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame), frame["x"].to_numpy(), list(range(100))):
        part = step.apply(data, rng=1)
        assert type(part) is type(data)
        assert len(part) == int(step.kept(data, rng=1).sum())


def test_columns_of_frames() -> None:
    generator = np.random.default_rng(8)
    frame = pd.DataFrame({"x": generator.random(200), "y": generator.random(200), "z": ["a"] * 200})
    tables = (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame))
    plane = OutlierSuppression(0.2, 0.6, EuclideanDistance(((0, 1), (0, 1))), columns=("x", "y"))
    line = OutlierSuppression(0.2, 0.6, AbsoluteDistance((0, 1)), columns=("x",))
    for step, array in ((plane, frame[["x", "y"]].to_numpy()), (line, frame["x"].to_numpy())):
        plain = OutlierSuppression(step.m, step.M, step.distance).kept(array, rng=1)
        for table in tables:
            np.testing.assert_array_equal(step.kept(table, rng=1), plain)
            assert len(step.apply(table, rng=1)) == plain.sum()
    with pytest.raises(InvalidParameter, match="columns"):
        OutlierSuppression(0.2, 0.6, AbsoluteDistance((0, 1)), columns=("w",)).kept(frame)


SAMPLES = [PoissonSample(0.25), SampleByLabel("x", {"a": 0.25, "b": 0.1}), FixedSample(2, 7)]


def test_guarantees_of_steps_invert() -> None:
    for step in (*SAMPLES, OutlierSuppression(0.4, 0.5, DiscreteDistance())):
        target = ApproxDP(1.0, 1e-6)
        spent = step.before(target)
        assert step.amplify(spent).within(target)
        assert step.amplify(spent).epsilon == pytest.approx(1.0, rel=1e-9)
        assert step.to_dict()["name"] == step.name
        assert omission_from_dict(json.loads(json.dumps(step.to_dict()))) == step


def test_samples_claim_no_less_than_the_mechanism_under_rho_and_mu() -> None:
    for step, guarantee in product(SAMPLES, (GaussianDP(0.5), ZeroConcentratedDP(0.1))):
        assert step.amplify(guarantee) == guarantee == step.before(guarantee)
        behind = BehindOmission.calibrate(guarantee, Sensitivity(l1=1.0, l2=1.0), mechanism=Gaussian, step=step)
        profile = behind.profile(Sensitivity(l1=1.0, l2=1.0))
        kind = profile.gaussian() if isinstance(guarantee, GaussianDP) else profile.concentrated()
        assert kind.within(guarantee)


def test_settings_without_a_theorem_are_refused() -> None:
    for step in (PoissonSample(0.25), OutlierSuppression(0.4, 0.5, DiscreteDistance())):
        step.require(Neighbours.ADD_REMOVE)
        with pytest.raises(InvalidParameter, match="added and removed"):
            step.require(Neighbours.REPLACE_ONE)
        with pytest.raises(InvalidParameter, match="several rows"):
            step.require(Neighbours.ADD_REMOVE, unit="person")
    with pytest.raises(InvalidParameter, match="replaced rows only"):
        FixedSample(5, 10).require(Neighbours.ADD_REMOVE)


@pytest.mark.parametrize(
    "call",
    [
        lambda: PoissonSample(0.0),
        lambda: PoissonSample(1.1),
        lambda: PoissonSample("x"),  # type: ignore[arg-type]
        lambda: OutlierSuppression(0.0, 0.5, DiscreteDistance()),
        lambda: OutlierSuppression(0.5, 0.4, DiscreteDistance()),
        lambda: OutlierSuppression(0.1, 0.4, "absolute"),  # type: ignore[arg-type]
        lambda: AbsoluteDistance((1, 0)),
        lambda: AbsoluteDistance((0, math.inf)),
        lambda: EuclideanDistance(()),
        lambda: AbsoluteDistance((0, 1)).mean_distances([[0.0]]),
        lambda: EuclideanDistance(((0, 1),)).mean_distances([[0.0, 1.0]]),
        lambda: PoissonSample(0.5).kept(3),
        lambda: FixedSample(11, 10),
        lambda: FixedSample(0, 10),
        lambda: SampleByLabel("x", {}),
        lambda: SampleByLabel("x", {"a": 0.0}),
        lambda: SampleByLabel("x", {"a": 1.5}),
        lambda: SampleByLabel("x", {"a": 0.5}).kept([1, 2]),
    ],
)
def test_refusals(call) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidParameter):
        call()


def test_no_budget_where_suppression_alone_costs_more() -> None:
    with pytest.raises(NoConversion, match="no budget exists"):
        OutlierSuppression(0.1, 0.9, DiscreteDistance()).before(PureDP(1.0))


def test_exact_score_is_a_fraction() -> None:
    distance = AbsoluteDistance((0, 3))
    assert distance.mean_distance_ball(distance.prepare([0, 1, 3]), 0).contains(arb(4) / 9)
