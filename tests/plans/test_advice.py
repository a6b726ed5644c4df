"""Advice on omitting records: against simulation, and the inequality behind it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.mechanisms.omission.amplification import before_poisson_sampling
from discreet.plans.advice import advise
from discreet.questions.clusters.lloyd import DPLloyd


@given(st.floats(0.01, 10.0), st.floats(0.001, 1.0))
def test_sampling_never_lowers_the_noise_of_a_scaled_estimate(epsilon: float, rate: float) -> None:
    assert rate * before_poisson_sampling(PureDP(epsilon), rate).epsilon <= epsilon * (1 + 1e-12)


def test_mean_errors_against_simulation() -> None:
    """20,000 repeats: standard errors are known to 2 % at four standard deviations."""
    advice = advise("mean", 2000, PureDP(0.5), bounds=(0, 100), expected_sd=20)
    generator = np.random.default_rng(1)
    data = np.clip(generator.normal(50, 20, 2000), 0, 100)
    assert not advice.omission_helps
    for name, rate in (("all records", 1.0), ("sample 0.25", 0.25)):
        option = next(option for option in advice.options if option.name == name)
        repeats = 4000
        kept = generator.random((repeats, 2000)) < rate
        noise = generator.laplace(scale=2 / option.spends.epsilon, size=(2, repeats))
        centred = kept @ (data - 50) / 50 + noise[0]
        simulated = (50 + 50 * centred / (kept.sum(axis=1) + noise[1])).std()
        assert simulated == pytest.approx(option.error, rel=0.08)


def test_mode_errors_against_simulation() -> None:
    advice = advise("mode", 1000, PureDP(0.5), shares=(0.3, 0.27), candidates=4)
    generator = np.random.default_rng(2)
    shares = np.array([0.3, 0.27, 0.215, 0.215])
    for name, rate in (("all records", 1.0), ("sample 0.5", 0.5)):
        option = next(option for option in advice.options if option.name == name)
        counts = generator.binomial((1000 * shares).astype(int), rate, size=(20_000, 4))
        noisy = counts + generator.laplace(scale=1 / option.spends.epsilon, size=counts.shape)
        assert (np.argmax(noisy, axis=1) != 0).mean() == pytest.approx(option.error, abs=0.04)


def test_quantile_errors_against_simulation() -> None:
    """The median of a sample by a private choice, in rows of the whole: 4,000 repeats."""
    advice = advise("quantile", 2000, PureDP(1.0))
    generator = np.random.default_rng(3)
    for name, rate in (("all records", 1.0), ("sample 0.25", 0.25)):
        option = next(option for option in advice.options if option.name == name)
        found = []
        for _ in range(4000):
            kept = np.flatnonzero(generator.random(2000) < rate)
            ranks = np.arange(kept.size + 1)
            scores = -np.abs(ranks - kept.size / 2) * option.spends.epsilon  # type: ignore[union-attr]
            place = np.argmax(scores + generator.gumbel(size=scores.size))
            found.append(kept[min(place, kept.size - 1)] - 1000)
        assert np.std(found) == pytest.approx(option.error, rel=0.1)


def test_cluster_errors_against_simulation() -> None:
    """Centres of three narrow clusters, by the model itself on a sample: 400 runs."""
    advice = advise("clusters", 6000, PureDP(1.0), bounds=(-1, 1), expected_sd=0.05, clusters=3)
    option = next(option for option in advice.options if option.name == "sample 0.25")
    generator, found = np.random.default_rng(5), []
    centres = np.array([-0.45, 0.0, 0.45])
    rows = np.repeat(centres, 2000) + generator.normal(0, 0.05, 6000)
    for seed in range(400):
        kept = rows[generator.random(6000) < 0.25]
        model = DPLloyd(3, guarantee=option.spends, bounds=[(-1, 1)], expected_rows=1500)  # type: ignore[arg-type]
        found.append(np.sort(model.fit(kept[:, None], rng=seed).cluster_centers_.ravel())[[0, 2]] - centres[[0, 2]])
    assert np.std(found) == pytest.approx(option.error, rel=0.25)


KINDS = [PureDP(0.1), PureDP(1.0), ApproxDP(1.0, 1e-6), ZeroConcentratedDP(0.1), GaussianDP(0.5)]


@pytest.mark.parametrize(
    "statistic", ["count", "sum", "mean", "proportion", "table", "histogram", "quantile", "mode", "clusters"]
)
@pytest.mark.parametrize("guarantee", KINDS, ids=str)
def test_all_records_are_best_and_the_answer_says_so(statistic: str, guarantee: Guarantee) -> None:
    if statistic == "mode" and not isinstance(guarantee, PureDP):
        with pytest.raises(WrongType):
            advise(statistic, 500, guarantee)
        return
    advice = advise(statistic, 500, guarantee, bounds=(0, 10))
    assert not advice.omission_helps
    assert "Use all records" in str(advice)
    assert advice.to_dict()["options"][0]["name"] == "all records"
    assert all(len(line) <= 80 for line in str(advice).splitlines())
    assert "<table" in advice._repr_html_()


@pytest.mark.parametrize(
    "call",
    [
        lambda: advise("median", 100, PureDP(1.0)),
        lambda: advise("mean", 1, PureDP(1.0)),
        lambda: advise("mean", 100, 1.0),  # type: ignore[arg-type]
        lambda: advise("mean", 100, PureDP(0.0)),
        lambda: advise("mean", 100, PureDP(1.0), bounds=(1, 0)),
        lambda: advise("mean", 100, PureDP(1.0), expected_sd=math.nan),
        lambda: advise("mode", 100, PureDP(1.0), shares=(0.2, 0.3)),
    ],
)
def test_refusals(call) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidParameter):
        call()


def test_a_proportion_is_a_mean_of_ones_and_a_cell_a_count() -> None:
    share = advise("proportion", 2000, PureDP(0.5), expected_sd=0.3)
    mean = advise("mean", 2000, PureDP(0.5), bounds=(0, 1), expected_sd=0.3)
    assert [one.error for one in share.options] == [one.error for one in mean.options]
    half = next(one for one in share.options if one.name == "sample 0.5")
    rng = np.random.default_rng(6)
    ones, kept = rng.binomial(200, 0.5, 20_000), rng.binomial(1800, 0.5, 20_000)  # 0.1 of 2,000, deviation 0.3
    assert np.std(ones / (ones + kept)) == pytest.approx(half.omission_error, rel=0.03)
    cell, count = advise("table", 50, PureDP(1.0)), advise("count", 50, PureDP(1.0))
    assert [one.error for one in cell.options] == [one.error for one in count.options]
    assert cell.measure == "standard error of a cell"
