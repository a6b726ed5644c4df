"""Intervals for cells, margins, proportions, odds ratios and Cramér's V: coverage, and what they say of themselves."""

import json
import math
import re

import numpy as np
import pyarrow as pa
import pytest

from discreet import Categories, Neighbours, PureDP, Schema, Session, release
from discreet.core.errors import InvalidParameter
from discreet.inference import MonteCarlo
from discreet.inference.moments import whole_interval
from discreet.inference.tables import accepted_ratios, measured_table
from discreet.mechanisms import Clipped, Gaussian, Geometric, JamesSteinGaussian, Laplace, RankDeficientGaussian
from discreet.questions import ContingencyTable

TABLE = ContingencyTable({"arm": ["a", "b"], "outcome": ["no", "perhaps", "yes"]})
TWO = ContingencyTable({"arm": ["a", "b"], "outcome": ["no", "yes"]})
SHARES = np.array([[0.05, 0.15, 0.3], [0.2, 0.2, 0.1]])
RUNS = 500
# A coverage of 95 % falls below this with probability 1e-4 in RUNS runs; one of 90 % stays above it in 20 %.
ENOUGH = 0.909


def releases(mechanism, table, shares, n, neighbours, runs=RUNS):
    rng = np.random.default_rng(17)
    for _ in range(runs):
        counts = rng.multinomial(n, np.ravel(shares)).reshape(table.shape)
        yield counts, release(table.exact_counts(counts, neighbours=neighbours), mechanism, rng=rng)


SETTINGS = [
    (JamesSteinGaussian(scale=6.0, rank_deficient=True, clip="simplex"), Neighbours.REPLACE_ONE),
    (Gaussian(6.0), Neighbours.ADD_REMOVE),
    (Clipped(mechanism=Laplace(4.0)), Neighbours.ADD_REMOVE),
    (Laplace(4.0), Neighbours.REPLACE_ONE),
]


@pytest.mark.parametrize(("mechanism", "neighbours"), SETTINGS, ids=["shrunken", "gaussian", "clipped", "laplace"])
def test_coverage_of_counts_margins_and_proportions(mechanism, neighbours):
    hits = {name: [] for name in ("count", "margin", "share", "margin share", "all counts", "all shares")}
    for counts, noisy in releases(mechanism, TABLE, SHARES, 300, neighbours):
        hits["count"].append(noisy.counts().noise_interval().contains(counts)[0, 0])
        hits["margin"].append(noisy.margin("arm").noise_interval().contains(counts.sum(axis=1))[0])
        hits["share"].append(noisy.proportions().population_interval().contains(SHARES)[0, 0])
        by_outcome = noisy.proportions("outcome").population_interval()
        hits["margin share"].append(by_outcome.contains(SHARES.sum(axis=0))[2])
        every = noisy.counts().noise_interval(0.95, simultaneous=True).contains(counts)
        hits["all counts"].append(every.all())
        shares = noisy.proportions().population_interval(0.95, simultaneous=True).contains(SHARES)
        hits["all shares"].append(shares.all())
    coverage = {name: float(np.mean(found)) for name, found in hits.items()}
    assert all(rate >= ENOUGH for rate in coverage.values()), coverage
    assert coverage["count"] < 0.995  # not only wide


def test_intervals_of_a_release_are_those_of_its_measurement():
    noisy = release(
        TABLE.exact_counts(np.full((2, 3), 2), neighbours=Neighbours.REPLACE_ONE),
        JamesSteinGaussian(scale=20.0, rank_deficient=True, clip="simplex"),
        rng=3,
    )
    interval = noisy.noise_interval(0.95)
    half = 1.959964 * 20 * math.sqrt(5 / 6)
    assert np.allclose(np.asarray(interval.high) - noisy.measured, half, rtol=1e-4)
    assert not np.allclose(noisy.value, noisy.measured)


def test_margins_follow_the_order_asked_for():
    counts = np.arange(6).reshape(2, 3) * 10
    noisy = release(TABLE.exact_counts(counts), Gaussian(0.001), rng=1)
    assert np.allclose(noisy.margin("outcome"), counts.sum(axis=0), atol=0.1)
    assert np.allclose(noisy.margin("outcome", "arm"), counts.T, atol=0.1)
    assert noisy.margin("outcome", "arm").labels == (("no", "perhaps", "yes"), ("a", "b"))
    assert noisy.margin("arm").standard_error[0] == pytest.approx(0.001 * math.sqrt(3))
    assert np.allclose(np.asarray(noisy.proportions()).sum(), 1)
    assert noisy.total == pytest.approx(150, abs=0.1)
    for columns in ((), ("age",), ("arm", "arm")):
        with pytest.raises(InvalidParameter):
            noisy.margin(*columns)


def test_a_public_total_narrows_margins_and_makes_the_whole_exact():
    counts = np.full((2, 3), 50)
    kept = release(TABLE.exact_counts(counts, neighbours=Neighbours.REPLACE_ONE), Gaussian(6.0), rng=1)
    assert kept.margin("arm").standard_error[0] == pytest.approx(6 * math.sqrt(3 * (1 - 3 / 6)))
    assert kept.total == 300
    declared = RankDeficientGaussian(scale=6.0, total=300)
    assert release(TABLE.exact_counts(counts), declared, rng=1).total == 300


def test_shares_of_pure_noise_exclude_nothing():
    noisy = release(TABLE.exact_counts(np.zeros((2, 3), dtype=int)), Gaussian(50.0), rng=4)
    interval = noisy.proportions().population_interval()
    assert np.all(np.asarray(interval.low) == 0)
    assert np.asarray(noisy.proportions()).sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("mechanism", "neighbours"),
    [(Gaussian(3.0), Neighbours.ADD_REMOVE), (RankDeficientGaussian(scale=10.0), Neighbours.REPLACE_ONE)],
)
def test_coverage_of_the_odds_ratio(mechanism, neighbours):
    shares = np.array([[0.35, 0.15], [0.2, 0.3]])
    truth = 0.35 * 0.3 / (0.15 * 0.2)
    found = [
        accepted_ratios(measured_table(noisy), np.array([truth]))[0]
        for _, noisy in releases(mechanism, TWO, shares, 300, neighbours)
    ]
    assert ENOUGH <= np.mean(found) < 0.995


def test_odds_ratio_under_heavy_noise_says_nothing():
    noisy = release(TWO.exact_counts(np.full((2, 2), 5)), Gaussian(40.0), rng=2)
    interval = noisy.odds_ratio().population_interval()
    assert interval.low == 0
    assert interval.high == math.inf
    assert json.loads(noisy.odds_ratio().to_json())["population_interval"]["high"] is None
    with pytest.raises(InvalidParameter):
        release(TABLE.exact_counts(np.full((2, 3), 5)), Gaussian(1.0), rng=2).odds_ratio()


@pytest.mark.parametrize("shares", [[[0.005, 0.045], [0.05, 0.9]], [[0.002, 0.298], [0.2, 0.5]]])
def test_odds_ratios_of_small_cells_are_covered(shares):
    """Cells of about one row, where an interval from standard errors covers 82 %."""
    (a, b), (c, d) = shares
    noisy = [one for _, one in releases(Geometric(1 / 3), TWO, np.array(shares), 300, Neighbours.ADD_REMOVE)]
    assert np.mean([accepted_ratios(measured_table(one), np.array([a * d / b / c]))[0] for one in noisy]) >= ENOUGH


def test_the_interval_of_an_odds_ratio_is_what_its_test_accepts():
    for counts in ([[70, 30], [40, 60]], [[1, 90], [60, 150]], [[3000, 1000], [1000, 3000]]):
        noisy = release(TWO.exact_counts(np.array(counts)), Geometric(1.0), rng=3)
        ratio, table = noisy.odds_ratio(), measured_table(noisy)
        interval = ratio.population_interval()
        assert interval.low <= ratio.estimate <= interval.high
        inside = np.geomspace(max(float(interval.low), 1e-5) * 1.1, float(interval.high) / 1.1, 7)[1:-1]
        assert accepted_ratios(table, inside).all()
        outside = np.array([float(interval.low) / 1.5, float(interval.high) * 1.5])
        assert not accepted_ratios(table, outside[outside > 1e-6]).any()
        assert interval == ratio.population_interval()  # simulated from the same seed
        assert ratio.population_interval(0.99).width >= interval.width


def test_coverage_and_consistency_of_cramers_v():
    shares = np.array([[0.3, 0.1, 0.1], [0.1, 0.1, 0.3]])
    expected = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    truth = math.sqrt(np.sum((shares - expected) ** 2 / expected))
    found = []
    for _, noisy in releases(
        JamesSteinGaussian(scale=6.0, rank_deficient=True), TABLE, shares, 600, Neighbours.REPLACE_ONE, 200
    ):
        association = noisy.cramers_v(MonteCarlo(n_resamples=399, rng=1))
        found.append((association.estimate, association.population_interval().contains(truth)))
    estimates, covered = np.array(found).T
    assert abs(estimates.mean() - truth) < 0.02
    assert covered.mean() >= 0.88  # 95 % falls below with probability 1e-4 in 200 runs


def test_estimates_print_and_export():
    noisy = release(TABLE.exact_counts(np.full((2, 3), 20)), Gaussian(2.0), rng=2)
    for result in (
        noisy.counts(),
        noisy.proportions("arm"),
        noisy.margin("outcome"),
        noisy.cramers_v(MonteCarlo(rng=1)),
    ):
        assert max(len(line) for line in str(result).splitlines()) <= 80
        assert result._repr_html_().startswith("<table>")
        assert result.to_json().startswith("{")
    big = ContingencyTable({"x": list(range(100))})
    shown = str(release(big.exact_counts(np.full(100, 5)), Gaussian(1.0), rng=1).counts())
    assert re.search(r"… +60 more", shown)
    two = release(TWO.exact_counts(np.full((2, 2), 20)), Gaussian(2.0), rng=2).odds_ratio()
    assert "Odds ratio" in str(two)
    assert len(noisy.margin("arm")) == 2
    assert noisy.margin("arm")[0] == np.asarray(noisy.margin("arm"))[0]


@pytest.mark.parametrize("slope", [0.0, 0.04, 0.2])
def test_weak_associations_are_covered(slope):
    """120 tables each: fewer than 107 of 120 are covered once in 300 where the truth is 95 %; seeds are fixed."""
    shares = np.array([[0.3, 0.3], [0.2, 0.2]]) + slope / 4 * np.array([[1, -1], [-1, 1]])
    expected = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    truth = math.sqrt(np.sum((shares - expected) ** 2 / expected))
    rng, found = np.random.default_rng(3), []
    for _ in range(120):
        counts = rng.multinomial(800, shares.ravel()).reshape(2, 2)
        noisy = release(TWO.exact_counts(counts, neighbours=Neighbours.ADD_REMOVE), Laplace(2.0), rng=rng)
        interval = noisy.cramers_v(MonteCarlo(n_resamples=199, rng=rng)).population_interval()
        assert float(interval.width) > 0.01  # never "0 to 0"
        found.append(interval.contains(truth))
    assert np.mean(found) >= 0.89


def test_shares_count_sampling_where_noise_is_nearly_always_zero():
    """Whole-number noise that is 0 in 9,999 of 10,000 draws: the interval is that of a sample without noise."""
    noisy = release(TABLE.exact_counts(np.full((2, 3), 50)), Geometric(0.1), rng=2)
    width = np.asarray(noisy.population_interval().width)
    assert np.allclose(width, 2 * 1.96 * math.sqrt(1 / 6 * 5 / 6 / 300), rtol=0.05)


def test_a_count_measured_below_zero_is_not_told_as_certain():
    """Its interval reaches as far as around 0: that of the measurement alone may hold no count, or 0 alone."""
    assert whole_interval(-25.0, -5.0, 0.0) == (0.0, 10.0)
    assert whole_interval(-12.0, 8.0, 0.0) == (0.0, 10.0)
    assert whole_interval(-8.0, 12.0, 2.0) == (0.0, 12.0)  # from 0 on nothing changes
    rows = pa.table({"a": ["x"] * 50, "b": ["p"] * 50})
    schema = Schema(columns={"a": Categories(["x", "y", "z"]), "b": Categories(["p", "q"])})
    session = Session(rows, schema, ledger=":memory:", budget=PureDP(1000.0))
    for _ in range(20):
        empty = [
            *session.table("a", epsilon=0.2).readings(),
            *session.tables([["a"], ["a", "b"]], epsilon=0.2).readings(),
        ]
        assert min(one.noise.width for one in empty) >= 14  # noise of ε = 0.2 reaches 15 or more
