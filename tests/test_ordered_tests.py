"""Tests of ordered columns between groups: statistics beside scipy's, size under the null, power, refusals."""

import numpy as np
import pyarrow as pa
import pytest
import scipy.stats

import discreet as d
from discreet.core.errors import DiscreetError
from discreet.inference.ordered_departures import difference_of_ranks, distance_of_distributions
from discreet.questions.many_tables import margins_noise
from discreet.questions.margins import Margins


def groups(cells):
    return [np.repeat(np.arange(row.size), row) for row in cells]


@pytest.mark.parametrize("shape", [(2, 5), (3, 7)])
def test_without_noise_they_are_the_classical_statistics(shape):
    cells = np.random.default_rng(1).integers(1, 30, size=shape)
    n = cells.sum()
    kruskal = scipy.stats.kruskal(*groups(cells)).statistic
    assert float(difference_of_ranks(cells.astype(float), None, 0.0)) == pytest.approx(kruskal * n / (n - 1))
    if shape[0] == 2:
        distance = scipy.stats.ks_2samp(*groups(cells)).statistic
        one, other = cells.sum(axis=1)
        expected = 2 * distance * np.sqrt(one * other / n)
        assert float(distance_of_distributions(cells.astype(float), None, 0.0)) == pytest.approx(expected)


def test_stacks_are_taken_one_by_one():
    cells = np.random.default_rng(2).normal(10, 5, size=(4, 3, 6))
    for statistic in (difference_of_ranks, distance_of_distributions):
        assert np.allclose(statistic(cells, None, 2.0), [statistic(one, None, 2.0) for one in cells])


def releases(rng, shares, sizes, guarantee, repeats):
    """Releases of new samples; the noise is calibrated once."""
    margins = Margins(columns={"x": range(8), "arm": range(len(sizes))}, tables=[["arm", "x"]])
    noise = margins_noise(guarantee, margins.sensitivity(), margins.workload())
    for _ in range(repeats):
        counts = np.stack([rng.multinomial(size, each) for size, each in zip(sizes, shares, strict=True)])
        yield d.release(margins.exact(counts.T), noise, rng=rng)


HEAPED = np.array([0.55, 0.05, 0.02, 0.2, 0.03, 0.1, 0.04, 0.01])


@pytest.mark.parametrize("guarantee", [d.GaussianDP(0.5), d.PureDP(0.5)])
@pytest.mark.parametrize("sizes", [(300, 60), (150, 80, 40)])
def test_equal_groups_are_rarely_told_apart(guarantee, sizes):
    rng, repeats = np.random.default_rng(3), 80
    found = {"rank_test": 0, "kolmogorov_smirnov": 0}
    for seed, release in enumerate(releases(rng, [HEAPED] * len(sizes), sizes, guarantee, repeats)):
        for name in found:
            test = getattr(release, name)("x", "arm", null=d.MonteCarlo(n_resamples=199, rng=seed))
            found[name] += test.pvalue <= 0.05
    # Seeded; at most 5 % expected, with a standard deviation of 2.4 %.
    assert all(hits / repeats < 0.13 for hits in found.values()), found


def test_a_shift_is_found_by_ranks_before_it_is_by_a_table():
    rng, repeats = np.random.default_rng(4), 60
    even = np.full(8, 1 / 8)
    shifted = even * np.linspace(0.75, 1.25, 8)
    found = {"rank_test": 0, "independence": 0, "kolmogorov_smirnov": 0}
    both = [even, shifted / shifted.sum()]
    for seed, release in enumerate(releases(rng, both, (600, 600), d.GaussianDP(0.3), repeats)):
        for name in found:
            test = getattr(release, name)("x", "arm", null=d.MonteCarlo(n_resamples=199, rng=seed))
            found[name] += test.pvalue <= 0.05
    assert found["rank_test"] > found["independence"]
    assert found["rank_test"] > 0.5 * repeats


def test_columns_may_come_in_any_order():
    rng = np.random.default_rng(5)
    release = next(releases(rng, [HEAPED, HEAPED[::-1]], (400, 200), d.GaussianDP(1.0), 1))
    null = d.MonteCarlo(n_resamples=99, rng=1)
    assert release.rank_test("x", "arm", null=null).df == 1
    assert release.rank_test("arm", "x", null=null).df == 7
    assert release.rank_test("x", "arm", null=null).pvalue == pytest.approx(0.01)
    with pytest.raises(DiscreetError, match="must be one of"):
        release.rank_test("x", "nothing")


def test_numbers_of_a_session_are_compared_through_bins():
    rng = np.random.default_rng(7)
    arm = rng.choice(["old", "new"], 3000)
    pay = rng.lognormal(3.0 + 0.15 * (arm == "new"), 0.8)
    schema = d.Schema(columns={"arm": d.Categories(["old", "new"]), "pay": d.Bounds(0, 200, grid=1)})
    session = d.Session(pa.table({"arm": arm, "pay": pay}), schema, ledger=":memory:", budget=d.PureDP(1.0))
    found = session.tables([["arm", "pay"]], d.PureDP(1.0), bins={"pay": [0, 10, 20, 30, 50, 100, 200]})
    assert found.rank_test("pay", "arm", null=d.MonteCarlo(rng=1)).pvalue < 0.05
    assert found.kolmogorov_smirnov("pay", "arm", null=d.MonteCarlo(rng=1)).method == "Kolmogorov-Smirnov"
