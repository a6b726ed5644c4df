"""Tests of ordered columns between groups: statistics beside scipy's, size under the null, power, refusals."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.stats

import discreet as d
from discreet.core.errors import DiscreetError
from discreet.core.protection import Neighbours
from discreet.inference import MonteCarlo
from discreet.inference.ranks import (
    correlation_of_ranks,
    difference_of_ranks,
    distance_of_distributions,
    kept_by_bins,
    rank_correlation_error,
    rank_correlations,
    rank_test,
    smallest_distance,
    smallest_rank_difference,
    superiority_error,
)
from discreet.mechanisms import Geometric
from discreet.questions import ContingencyTable
from discreet.questions.tables.margins import Margins, margins_noise


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
            test = getattr(release, name)("x", "arm", null=MonteCarlo(n_resamples=199, rng=seed))
            found[name] += test.pvalue <= 0.05
    # Seeded; at most 5 % expected, with a standard deviation of 2.4 %.
    assert all(hits / repeats < 0.13 for hits in found.values()), found


def test_a_rare_group_under_much_noise_keeps_the_level():
    """97 rows beside 3 at ε = 0.1: the noise of the number of rows is as large as the number."""
    rng, repeats, rejected = np.random.default_rng(5), 4000, 0
    table, noise = ContingencyTable({"arm": ["a", "b"], "x": list(range(8))}), Geometric(10.0)
    for seed in range(repeats):
        rows = {"arm": ["a"] * 97 + ["b"] * 3, "x": rng.choice(8, 100, p=HEAPED)}
        release = d.release(table.exact(rows, neighbours=Neighbours.ADD_REMOVE), noise, rng=rng)
        rejected += rank_test(release, MonteCarlo(n_resamples=199, rng=seed)).pvalue <= 0.05
    assert rejected / repeats <= 0.06


@pytest.mark.parametrize("guarantee", [d.PureDP(0.1), d.GaussianDP(0.1)])
def test_a_rare_group_keeps_the_level_among_many_tables(guarantee):
    """The same of one table of many, which rejected 7.5 % of them."""
    found = enumerate(releases(np.random.default_rng(7), [HEAPED] * 2, (97, 3), guarantee, 2000))
    tested = [one.rank_test("x", "arm", null=MonteCarlo(n_resamples=199, rng=seed)) for seed, one in found]
    assert np.mean([one.pvalue <= 0.05 for one in tested]) <= 0.06


def test_a_second_null_does_not_change_the_number_of_rows():
    release = next(releases(np.random.default_rng(7), [HEAPED] * 2, (97, 3), d.PureDP(0.1), 1))
    assert release.rank_test("x", "arm", null=MonteCarlo(rng=1)).n == (max(round(release.total), 1),)


def test_a_shift_is_found_by_ranks_before_it_is_by_a_table():
    rng, repeats = np.random.default_rng(4), 60
    even = np.full(8, 1 / 8)
    shifted = even * np.linspace(0.75, 1.25, 8)
    found = {"rank_test": 0, "independence": 0, "kolmogorov_smirnov": 0}
    both = [even, shifted / shifted.sum()]
    for seed, release in enumerate(releases(rng, both, (600, 600), d.GaussianDP(0.3), repeats)):
        for name in found:
            test = getattr(release, name)("x", "arm", null=MonteCarlo(n_resamples=199, rng=seed))
            found[name] += test.pvalue <= 0.05
    assert found["rank_test"] > found["independence"]
    assert found["rank_test"] > 0.5 * repeats


def test_columns_may_come_in_any_order():
    rng = np.random.default_rng(5)
    release = next(releases(rng, [HEAPED, HEAPED[::-1]], (400, 200), d.GaussianDP(1.0), 1))
    null = MonteCarlo(n_resamples=99, rng=1)
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
    found = session.tables([["arm", "pay"]], epsilon=1.0, bins={"pay": [0, 10, 20, 30, 50, 100, 200]})
    assert found.rank_test("pay", "arm", null=MonteCarlo(rng=1)).pvalue < 0.05
    assert found.kolmogorov_smirnov("pay", "arm", null=MonteCarlo(rng=1)).method == "Kolmogorov-Smirnov"


PAY = d.Bounds(0, 200, grid=1)
SCHEMA = d.Schema(
    columns={"arm": d.Categories(["old", "new"]), "pay": PAY, "mood": d.Categories(["bad", "fair", "good"])}
)


def staff(n=3000, seed=7, gap=0.15):
    rng = np.random.default_rng(seed)
    arm = rng.choice(["old", "new"], n, p=[0.8, 0.2])
    pay = np.clip(np.round(rng.lognormal(3.0 + gap * (arm == "new"), 0.8)), 0, 200)
    mood = np.where(rng.random(n) < 0.2 + 0.2 * (arm == "new"), "good", np.where(rng.random(n) < 0.5, "fair", "bad"))
    return pa.table({"arm": arm, "pay": pay, "mood": mood, "who": np.arange(n) // 2})


@pytest.mark.parametrize("name", ["rank_test", "kolmogorov_smirnov"])
def test_a_session_asks_for_a_test(name):
    session = d.Session(staff(), SCHEMA, ledger=":memory:", budget=d.PureDP(3.0))
    found = getattr(session, name)("pay", "arm", epsilon=1.0, edges=[0, 10, 20, 30, 50, 100, 200], name="pay")
    assert found.pvalue < 0.05
    assert found.result.df == 1
    assert "(p " in found.verdict()["test"] or found.verdict()["pvalue"] == found.pvalue
    again = getattr(session, name)("pay", "arm", epsilon=1.0, edges=[0, 10, 20, 30, 50, 100, 200], name="pay")
    assert again.pvalue == found.pvalue
    assert session.ledger.remaining() == d.PureDP(2.0)
    with pytest.raises(DiscreetError, match="different release"):
        getattr(session, name)("pay", "arm", epsilon=1.0, bins=6, name="pay")
    labels = getattr(session, name)("mood", "arm", epsilon=1.0)
    assert labels.pvalue < 0.01
    assert labels.release.value.shape == (2, 3)


def test_the_table_of_a_test_is_that_of_the_rows():
    rows = staff(500)
    session = d.Session(rows, SCHEMA, ledger=":memory:", budget=d.PureDP(900.0))
    found = session.rank_test("pay", "arm", epsilon=900.0, edges=[0, 10, 50, 200]).release.value
    arm, pay = np.array(rows["arm"]), np.array(rows["pay"])
    bins = np.searchsorted([10, 50], pay, side="right")
    assert found.tolist() == [[int(((arm == one) & (bins == k)).sum()) for k in range(3)] for one in ("old", "new")]


def test_a_public_number_of_rows_is_part_of_the_null():
    columns = {
        "arm": d.Categories(["old", "new"], nulls="=old", unknown="=old"),
        "pay": d.Bounds(0, 200, grid=1, nulls=0),
    }
    schema, hits = d.Schema(columns=columns, neighbours=Neighbours.REPLACE_ONE, size=400), 0
    for seed in range(30):
        session = d.Session(staff(400, seed, gap=0.0), schema, ledger=":memory:", budget=d.PureDP(1.0))
        found = session.rank_test("pay", "arm", epsilon=1.0, bins=6)
        hits += found.pvalue <= 0.05
    assert found.result.n == (400.0,)
    assert found.release.sensitivity.moves == (1.0, 1.0)  # a replaced row leaves one cell and enters another
    assert hits <= 5  # seeded; 1.5 expected


def test_the_planned_effect_is_that_of_ranks():
    """Mean ranks of two groups of equal bins: their difference has the stated standard error."""
    rng, n, noise = np.random.default_rng(8), 600, 2.0
    found = []
    for _ in range(2000):
        cells = rng.multinomial(n // 2, np.full(8, 1 / 8), size=2) + rng.laplace(0, 1.0, (2, 8))
        ranks = (np.arange(8) + 0.5) / 8 - 0.5
        found.append(cells[0] @ ranks / (n / 2) - cells[1] @ ranks / (n / 2))
    assert np.std(found) == pytest.approx(superiority_error(n, 2, 8, noise), rel=0.06)
    planned = d.Session("none.csv", SCHEMA, ledger=":memory:", budget=d.PureDP(1.0)).plan.rank_test(
        "pay", "arm", epsilon=1.0, bins=8, expected_rows=600
    )
    in_bins = 2.8016 * superiority_error(600, 2, 8, 1.8413)
    assert planned.smallest_effect == pytest.approx(in_bins / (1 - 1 / 64), rel=1e-3)


@pytest.mark.parametrize(
    ("test", "settings"),
    [
        ("rank_test", {"column": "pay", "by": "arm", "bins": 8}),
        ("rank_correlation", {"columns": ["pay", "mood"], "bins": {"pay": 8}}),
    ],
)
def test_an_effect_that_cannot_be_is_said_to_be_none(test, settings):
    session = d.Session("none.csv", SCHEMA, ledger=":memory:", budget=d.PureDP(9.0))
    few, many = (
        getattr(session.plan, test)(**settings, epsilon=epsilon, expected_rows=rows)
        for rows, epsilon in ((20, 0.1), (5000, 1.0))
    )
    assert any("no effect is larger" in note for note in few.notes)
    assert not any("no effect is larger" in note for note in many.notes)


@pytest.mark.parametrize(("test", "groups"), [("rank_test", 2), ("rank_test", 4), ("kolmogorov_smirnov", 3)])
def test_the_planned_effect_is_found_in_four_of_five(test, groups):
    """Where one group's density rises evenly, another one's falls, and the others lie in between."""
    rng, n, labels = np.random.default_rng(9), 1200, 6
    smallest = {"rank_test": smallest_rank_difference, "kolmogorov_smirnov": smallest_distance}[test]
    departure = {"rank_test": difference_of_ranks, "kolmogorov_smirnov": distance_of_distributions}[test]
    effect = smallest(n, groups, labels, 2.0) / (1 - 1 / labels**2)
    middles = (np.arange(labels) + 0.5) / labels
    shares = np.full((groups, labels), 1 / labels)
    shares[:2] += np.outer([1, -1], 6 * effect * (middles - 0.5) / labels)

    def drawn(shares):
        cells = np.array([rng.multinomial(n // groups, one, 4000) for one in shares]).swapaxes(0, 1)
        return departure(cells + rng.laplace(0, 1.0, cells.shape), None, 2.0)

    critical = np.quantile(drawn(np.full((groups, labels), 1 / labels)), 0.95)
    assert np.mean(drawn(shares) > critical) == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda s: s.rank_test("pay", "arm", epsilon=1.0), "either edges or bins"),
        (lambda s: s.rank_test("pay", "arm", epsilon=1.0, bins=4, edges=[0, 200]), "either edges or bins"),
        (lambda s: s.rank_test("pay", "arm", epsilon=1.0, bins=1), "two labels or bins"),
        (lambda s: s.rank_test("pay", "arm", epsilon=1.0, edges=[10, 20]), "must cover the bounds"),
        (lambda s: s.rank_test("mood", "arm", epsilon=1.0, bins=3), "no bins"),
        (lambda s: s.rank_test("arm", "arm", epsilon=1.0), "another column"),
        (lambda s: s.rank_test("mood", "pay", epsilon=1.0), "pay"),
    ],
)
def test_tests_that_make_no_sense_are_refused_before_spending(call, match):
    session = d.Session(staff(50), SCHEMA, ledger=":memory:", budget=d.PureDP(1.0))
    with pytest.raises(DiscreetError, match=match):
        call(session)
    assert session.ledger.remaining() == d.PureDP(1.0)


def test_the_rank_correlation_is_spearmans():
    """Against scipy on the rows behind a table, where ties are those of the bins."""
    rng = np.random.default_rng(12)
    first, second = rng.integers(0, 4, 500), rng.integers(0, 3, 500)
    second = np.where(rng.random(500) < 0.4, first // 2, second)
    cells = np.zeros((4, 3))
    np.add.at(cells, (first, second), 1)
    assert float(rank_correlations(cells)) == pytest.approx(scipy.stats.spearmanr(first, second).statistic, abs=1e-12)
    assert float(rank_correlations(cells[::-1])) == pytest.approx(-float(rank_correlations(cells)))
    assert float(correlation_of_ranks(cells, None, 0.0)) == pytest.approx(500 * float(rank_correlations(cells)) ** 2)


def paired(n, seed, share):
    rng = np.random.default_rng(seed)
    pay = rng.integers(0, 201, n)
    age = np.where(rng.random(n) < share, 18 + pay * 72 // 200, rng.integers(18, 91, n))
    return pa.table({"pay": pay, "age": age})


@pytest.mark.parametrize(("share", "least", "most"), [(0.0, 0, 5), (0.2, 20, 30)])
def test_numbers_that_go_together_are_found_and_others_are_not(share, least, most):
    schema = d.Schema(columns={"pay": d.Bounds(0, 200, grid=1), "age": d.Bounds(18, 90, grid=1)})
    hits = 0
    for seed in range(30):
        session = d.Session(paired(600, seed, share), schema, ledger=":memory:", budget=d.PureDP(1.0))
        found = session.rank_correlation(["pay", "age"], epsilon=1.0, bins={"pay": 5, "age": [18, 36, 54, 72, 90]})
        hits += found.pvalue <= 0.05
    assert found.release.value.shape == (5, 4)
    assert least <= hits <= most  # seeded; 1.5 expected without a relation


def test_the_planned_rank_correlation_is_that_of_unrelated_columns():
    rng, found = np.random.default_rng(13), []
    for _ in range(2000):
        cells = rng.multinomial(600, np.full(20, 1 / 20)).reshape(5, 4) + rng.laplace(0, 1.0, (5, 4))
        found.append(float(rank_correlations(cells)))
    assert np.std(found) == pytest.approx(rank_correlation_error(600, (5, 4), 2.0), rel=0.06)


def test_bins_keep_the_planned_part_of_a_rank_correlation():
    both = np.random.default_rng(14).multivariate_normal([0, 0], [[1, 0.1], [0.1, 1]], 2_000_000)
    ranks = scipy.stats.norm.cdf(both)
    binned = np.floor(ranks * [5, 4])
    kept = scipy.stats.spearmanr(*binned.T).statistic / scipy.stats.spearmanr(*ranks.T).statistic
    assert kept == pytest.approx(kept_by_bins(5) * kept_by_bins(4), abs=0.01)


@pytest.mark.parametrize(
    ("columns", "bins", "match"),
    [
        (["pay", "mood"], {}, "bins for each number"),
        (["pay", "mood"], {"pay": 4, "mood": 3}, "and for no other"),
        (["pay", "mood"], {"pay": 1}, "two labels or bins"),
        (["pay", "mood"], [4], "Mapping"),
        (["pay"], {"pay": 4}, "two columns"),
        (["pay", "pay"], {"pay": 4}, "must not repeat"),
    ],
)
def test_rank_correlations_that_make_no_sense_are_refused(columns, bins, match):
    session = d.Session(staff(50), SCHEMA, ledger=":memory:", budget=d.PureDP(1.0))
    with pytest.raises(DiscreetError, match=match):
        session.rank_correlation(columns, epsilon=1.0, bins=bins)
    assert session.ledger.remaining() == d.PureDP(1.0)


def test_several_rows_of_a_unit_are_refused():
    schema = d.Schema(columns=SCHEMA.columns, unit=d.PrivacyUnit("who", contribution=d.Contribution(total=2)))
    session = d.Session(staff(100), schema, ledger=":memory:", budget=d.PureDP(1.0))
    with pytest.raises(DiscreetError, match="independent rows"):
        session.rank_test("mood", "arm", epsilon=1.0)
    once = d.Contribution(total=1)
    assert 0 < session.rank_test("mood", "arm", epsilon=1.0, contribution=once).pvalue <= 1


def test_stored_sizes_keep_the_level():
    root = Path(__file__).parents[2]
    stored = json.loads((root / "benchmarks" / "results" / "number_tests.json").read_text(encoding="utf-8"))
    error = np.sqrt(0.05 * 0.95 / stored["repeats of size"])
    rates = np.array([one["rejected"] for one in stored["size"] if "rejected" in one])
    # Of some hundred rates the largest is about three standard deviations above its mean by chance.
    assert rates.max() < 0.05 + 3.5 * error
    assert rates.mean() < 0.05 + error


def test_stored_tests_of_tables_keep_the_level_and_detect_as_much_as_published_rules():
    """Errors are 1.1 to 2.5 %."""
    root = Path(__file__).parents[2]
    stored = json.loads((root / "benchmarks" / "results" / "number_tests.json").read_text(encoding="utf-8"))["tables"]
    for independent, related in zip(stored[::2], stored[1::2], strict=True):
        assert independent["independence"] < 0.05 + 3 * 0.011
        assert related["independence"] >= related["simulated χ² 2016"]
    assert max(one["DPrivStats 2026"] for one in stored[::2]) > 0.3


def test_stored_powers_are_at_least_those_of_published_tests():
    root = Path(__file__).parents[2]
    stored = json.loads((root / "benchmarks" / "results" / "number_tests.json").read_text(encoding="utf-8"))
    best = {
        "two groups": "rank_test", "three groups": "rank_test", "two numbers": "rank_correlation, chosen edges",
        "pairs": "signed_rank",
    }  # fmt: skip
    for setting in {one["setting"] for one in stored["power"]}:
        rows = [one for one in stored["power"] if one["setting"] == setting]
        ours = next((name for start, name in best.items() if setting.startswith(start)), None)
        for one in rows:
            others = [rate for name, rate in one.items() if name.endswith(("2018", "2019", "2023"))]
            assert ours is None or one[ours] >= max(others)
