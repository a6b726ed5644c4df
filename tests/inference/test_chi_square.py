"""χ² tests on releases: valid p-values, size, power, statistics against plain loops, refusals."""

import math
from functools import partial

import numpy as np
import pytest
from scipy import special, stats

from discreet import GaussianDP, Neighbours, release
from discreet.core.errors import InvalidParameter
from discreet.core.sensitivity import Sensitivity
from discreet.inference import Asymptotic, MonteCarlo, goodness_of_fit, homogeneity, independence
from discreet.inference import tables as chi_square
from discreet.inference.power import TestDesign
from discreet.inference.tables import measured_table, smallest_departure
from discreet.mechanisms import Clipped, Gaussian, JamesSteinGaussian, Laplace, RankDeficientGaussian
from discreet.papers.lee2022 import age_shares, default_rejections
from discreet.questions import ContingencyTable

KOREA, STATES = age_shares(9)
TABLE = ContingencyTable({"age": list(range(9))})
TWO_WAY = ContingencyTable({"row": ["a", "b", "c"], "column": [1, 2, 3]})
REPLACED = {"neighbours": Neighbours.REPLACE_ONE}


def released(mechanism, counts, table=TABLE, seed=0, **options):
    return release(table.exact_counts(np.asarray(counts), **(options or REPLACED)), mechanism, rng=seed)


# p-values.


@pytest.mark.parametrize(("resamples", "published"), [(20, 1 / 21), (30, 2 / 31), (100, 5 / 101)])
def test_pvalues_are_valid_for_every_number_of_resamples(resamples, published):
    """Exact over the rank of T among B + 1 exchangeable numbers; the paper rejects where p < 5 %, strictly."""
    values = np.arange(resamples + 1.0)
    pvalues = {}
    for as_published in (False, True):
        method = MonteCarlo(n_resamples=resamples, as_published=as_published)
        pvalues[as_published] = np.array([method.pvalue(value, np.delete(values, i)) for i, value in enumerate(values)])
        assert (pvalues[as_published].min() == 0) == as_published
    assert np.mean(pvalues[False] <= 0.05) <= 0.05
    assert np.mean(pvalues[True] < 0.05) == pytest.approx(published)
    assert (published > 0.05) == (resamples == 30)


def test_ties_count_against_rejection():
    assert MonteCarlo(n_resamples=9).pvalue(1.0, np.ones(9)) == 1.0


# Statistics against plain loops over the definition.


def plain_shrunken(departure, variance, direction, df, level):
    along = float(np.dot(departure, direction) / np.dot(direction, direction))
    rest = departure - along * direction
    square = float(rest @ rest)
    factor = max(1 - (df - 3) * level / square, 0.0) if df > 3 else 1.0
    estimate = along * direction + factor * rest
    return float(np.sum(estimate**2 / variance))


def helmert_sum(p):
    total = np.zeros(p)
    for k in range(2, p + 1):
        column = np.zeros(p)
        column[: k - 1], column[k - 1] = 1, 1 - k
        total += column / math.sqrt(k * (k - 1))
    return total


def minimize_distance(x, n):
    """The nearest table with non-negative cells and total n, by bisection on the threshold."""
    low, high = x.min() - n, x.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(x - middle, 0).sum() > n else (low, middle)
    return np.maximum(x - low, 0)


@pytest.mark.parametrize("known", [True, False])
def test_goodness_statistic(known):
    rng = np.random.default_rng(1)
    tables = rng.multinomial(200, KOREA, size=50) + rng.normal(0, 5, size=(50, 9))
    found = chi_square.shrunken_goodness(tables, KOREA, 200.0 if known else None, 25.0)
    for x, statistic in zip(tables, found, strict=True):
        n = 200.0 if known else x.sum()
        level = n * (1 - KOREA @ KOREA) / 8 + 25
        near = minimize_distance(x, n)
        expected = sum(
            plain_shrunken(table - n * KOREA, n * KOREA + 25, helmert_sum(9), 8, level) for table in (x, near)
        )
        assert statistic == pytest.approx(expected)


def test_homogeneity_statistic_of_two_equal_samples_is_that_of_their_difference():
    rng = np.random.default_rng(2)
    first, second = rng.multinomial(300, KOREA, size=(2, 20)) + rng.normal(0, 4, size=(2, 20, 9))
    found = chi_square.shrunken_homogeneity([first, second], [300.0, 300.0], [16.0, 16.0])
    for x, y, statistic in zip(first, second, found, strict=True):
        pooled = (x + y) / 600
        shares = np.maximum(pooled, 0)
        level = 150 * (1 - shares @ shares) / 8 + 8
        one = plain_shrunken((x - y) / 2, 150 * shares + 8, helmert_sum(9), 8, level)
        assert statistic == pytest.approx(2 * one)
    swapped = chi_square.shrunken_homogeneity([second, first], [300.0, 300.0], [16.0, 16.0])
    assert np.allclose(swapped, found)


@pytest.mark.parametrize("known", [True, False])
def test_independence_statistic(known):
    rng = np.random.default_rng(3)
    tables = rng.multinomial(400, KOREA, size=20).reshape(20, 3, 3) + rng.normal(0, 4, size=(20, 3, 3))
    found = chi_square.shrunken_independence(tables, 400.0 if known else None, 16.0)
    direction = np.outer(helmert_sum(3), helmert_sum(3)).ravel()
    for x, statistic in zip(tables, found, strict=True):
        n = 400.0 if known else x.sum()
        rows, columns = x.sum(axis=1), x.sum(axis=0)
        expected = np.outer(rows, columns) / n
        room = (1 - np.sum((rows / n) ** 2)) * (1 - np.sum((columns / n) ** 2))
        want = plain_shrunken((x - expected).ravel(), expected.ravel() + 16, direction, 4, n * room / 4 + 16)
        assert statistic == pytest.approx(want)


def test_pearson_statistics_are_scipys():
    rng = np.random.default_rng(4)
    counts = rng.multinomial(500, KOREA, size=3).astype(float)
    assert chi_square.pearson_goodness(counts[0], KOREA) == pytest.approx(
        stats.chisquare(counts[0], 500 * KOREA).statistic
    )
    two_way = stats.chi2_contingency(counts, correction=False).statistic
    assert chi_square.pearson_homogeneity([counts[0], counts[1], counts[2]]) == pytest.approx(two_way)
    assert chi_square.pearson_independence(counts) == pytest.approx(two_way)
    empty = np.array([5.0, 5.0, 0.0])
    assert chi_square.pearson_goodness(empty, np.array([0.5, 0.5, 0.0])) == 0  # 0/0 = 0
    assert chi_square.pearson_homogeneity([np.zeros(3), np.zeros(3)]) == 0


def quadratic_by_definition(residual, covariance, jacobian):
    inverse = np.linalg.pinv(covariance, rcond=1e-10)
    inner = np.linalg.pinv(jacobian.T @ inverse @ jacobian, rcond=1e-10) if jacobian.size else np.zeros((0, 0))
    form = inverse - inverse @ jacobian @ inner @ jacobian.T @ inverse if jacobian.size else inverse
    return float(residual @ form @ residual)


@pytest.mark.parametrize("known", [True, False])
def test_quadratic_forms_against_pseudo_inverses(known):
    """The closed form and the solver against the definition with the singular covariance of M_r."""
    options = REPLACED if known else {"neighbours": Neighbours.ADD_REMOVE}
    counts = np.random.default_rng(5).multinomial(400, KOREA)
    noisy = released(Gaussian(6.0), counts, seed=3, **options)
    table = measured_table(noisy)
    n, kept = table.size, np.eye(9) - (1 / 9 if known else 0)
    covariance = n * (np.diag(KOREA) - np.outer(KOREA, KOREA)) + 36 * kept
    jacobian = np.zeros((9, 0)) if known else KOREA[:, None]
    expected = quadratic_by_definition(table.cells - n * KOREA, covariance, jacobian)
    found = goodness_of_fit(noisy, KOREA, null=Asymptotic())
    assert found.statistic == pytest.approx(expected)
    assert found.df == 8
    assert found.pvalue == pytest.approx(stats.chi2.sf(expected, 8))


def test_homogeneity_form_of_two_samples_is_the_form_of_their_difference():
    rng = np.random.default_rng(6)
    noisy = [released(Gaussian(6.0), rng.multinomial(n, KOREA), seed=n) for n in (300, 700)]
    tables = [measured_table(one) for one in noisy]
    pooled = tables[0].shares((tables[0].cells + tables[1].cells) / 1000)
    covariance = sum(
        (np.diag(pooled) - np.outer(pooled, pooled)) / t.n + 36 * (np.eye(9) - 1 / 9) / t.n**2 for t in tables
    )
    difference = tables[0].cells / 300 - tables[1].cells / 700
    expected = quadratic_by_definition(difference, covariance, np.zeros((9, 0)))
    assert homogeneity(noisy, null=Asymptotic()).statistic == pytest.approx(expected)


# Size and power.


@pytest.mark.parametrize("test", ["goodness of fit", "homogeneity", "independence"])
@pytest.mark.parametrize(("mu", "n"), [(0.1, 100), (0.3, 500)])
def test_size_of_the_defaults(test, mu, n):
    """600 runs; a true size of 5 % fails with probability 1e-5 a case, one of 12 % is caught in 95 % of cases."""
    null, _ = age_shares(18)
    if test == "independence":
        square = null.reshape(3, 6)
        null = np.outer(square.sum(axis=1), square.sum(axis=0)).ravel()
    size = default_rejections(test, "replace-one", mu, n, null, null, 600, 99, seed=8)
    assert size <= 0.093


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_size_of_the_quadratic_form(neighbours):
    """300 runs; a true size of 5 % fails with probability 1e-5 a test, one of 16 % is caught in 95 % of cases."""
    mechanism = Gaussian.calibrate(GaussianDP(0.3), TABLE.sensitivity(neighbours))
    margins = KOREA.reshape(3, 3)
    product = np.outer(margins.sum(axis=1), margins.sum(axis=0)).ravel()
    rng = np.random.default_rng(31)
    rejected = np.zeros(3)
    for _ in range(300):
        first, second = (
            released(mechanism, counts, seed=rng, neighbours=neighbours)
            for counts in rng.multinomial(500, KOREA, size=2)
        )
        counts = rng.multinomial(500, product).reshape(3, 3)
        square = released(mechanism, counts, TWO_WAY, rng, neighbours=neighbours)
        results = (
            goodness_of_fit(first, KOREA, null=Asymptotic()),
            homogeneity([first, second], null=Asymptotic()),
            independence(square, null=Asymptotic()),
        )
        rejected += [result.pvalue <= 0.05 for result in results]
    assert rejected.max() <= 33


def test_size_through_the_front_door():
    """Homogeneity of James-Stein releases at μ = 0.1, p = 18, N = 500, where the paper's test rejects 9 % and more.

    300 runs; a true size of 5 % fails with probability 1e-5.
    """
    korea, _ = age_shares(18)
    table = ContingencyTable({"age": list(range(18))})
    mechanism = JamesSteinGaussian.calibrate(
        GaussianDP(0.1), table.sensitivity(Neighbours.REPLACE_ONE), rank_deficient=True, clip="simplex"
    )
    rng = np.random.default_rng(21)
    rejected = 0
    for _ in range(300):
        noisy = [
            release(table.exact_counts(counts, **REPLACED), mechanism, rng=rng)
            for counts in rng.multinomial(500, korea, size=2)
        ]
        rejected += homogeneity(noisy, null=MonteCarlo(n_resamples=99, rng=rng)).pvalue <= 0.05
    assert rejected <= 33


def test_default_has_at_least_the_power_of_the_papers_best():
    """Goodness of fit, p = 18, μ = 0.3, N = 500; same null by simulation, 8,000 runs (standard error 0.008)."""
    korea, states = age_shares(18)
    rng = np.random.default_rng(9)
    sigma, n, runs = math.sqrt(2) / 0.3, 500, 8000
    plain = JamesSteinGaussian(scale=sigma, rank_deficient=True, clip="nonnegative", as_published=True)

    def statistics(shares):
        counts = rng.multinomial(n, shares, size=runs)
        measured = counts + sigma * rng.standard_normal(counts.shape)
        measured += ((n - measured.sum(axis=1)) / 18)[:, None]
        ours = chi_square.shrunken_goodness(measured, korea, float(n), sigma**2)
        return ours, chi_square.pearson_goodness(plain.process(measured), korea)

    null, alternative = statistics(korea), statistics(states)
    ours, theirs = (np.mean(alt > np.quantile(base, 0.95)) for base, alt in zip(null, alternative, strict=True))
    assert ours > theirs + 0.03


MECHANISMS = [
    Gaussian(5.0),
    Laplace(4.0),
    Clipped(mechanism=Laplace(4.0)),
    RankDeficientGaussian(scale=5.0, clip="simplex", integers=True),
    JamesSteinGaussian(scale=5.0, towards="zero"),
    JamesSteinGaussian(scale=5.0, rank_deficient=True, clip="simplex"),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.name)
@pytest.mark.parametrize("statistic", ["shrunken", "pearson"])
def test_every_mechanism_and_statistic_tells_truth_from_falsehood(mechanism, statistic):
    method = MonteCarlo(n_resamples=299, rng=1)
    even = np.full(9, 200)
    skewed = np.array([400, 300, 250, 200, 150, 150, 150, 100, 100])
    one, two, three = (released(mechanism, counts, seed=s) for s, counts in enumerate((even, even, skewed)))
    options = {"null": method, "statistic": statistic}
    assert goodness_of_fit(one, [1 / 9] * 9, **options).pvalue > 0.001
    assert goodness_of_fit(three, [1 / 9] * 9, **options).pvalue < 0.01
    assert homogeneity([one, two], **options).pvalue > 0.001
    assert homogeneity([one, two, three], **options).pvalue < 0.01
    square = np.array([[300, 200, 100], [200, 200, 200], [100, 200, 300]])
    assert independence(released(mechanism, square, TWO_WAY), **options).pvalue < 0.01
    flat = independence(released(mechanism, np.full((3, 3), 200), TWO_WAY), **options)
    assert flat.pvalue > 0.001
    assert flat.null_distribution.shape == (299,)


def test_presentation_does_not_change_the_default_test():
    """Shrinking, clipping and rounding are for the reader; the test uses the measurement."""
    counts = np.random.default_rng(0).multinomial(100, KOREA)
    results = []
    for options in ({}, {"clip": "simplex"}, {"clip": "nonnegative", "as_published": True}):
        mechanism = JamesSteinGaussian(scale=14.0, rank_deficient=True, **options)
        results.append(goodness_of_fit(released(mechanism, counts, seed=5), KOREA, null=MonteCarlo(rng=2)))
    assert len({round(result.statistic, 9) for result in results}) == 1
    assert len({result.pvalue for result in results}) == 1


@pytest.mark.parametrize("counts", [np.zeros(9, dtype=int), np.eye(9, dtype=int)[0]])
@pytest.mark.parametrize("statistic", ["shrunken", "pearson"])
def test_tables_of_pure_noise(counts, statistic):
    """Ñ ≤ 0, fractional Ñ and zero cells: a p-value comes out, and it is not small for every seed."""
    pvalues = []
    for seed in range(12):
        noisy = released(Gaussian(8.0), counts, seed=seed, neighbours=Neighbours.ADD_REMOVE)
        options = {"null": MonteCarlo(n_resamples=99, rng=seed), "statistic": statistic}
        pvalues.append(goodness_of_fit(noisy, KOREA, **options).pvalue)
        assert 0 < homogeneity([noisy, noisy], **options).pvalue <= 1
        square = released(Gaussian(8.0), counts.reshape(3, 3), TWO_WAY, seed, neighbours=Neighbours.ADD_REMOVE)
        assert 0 < independence(square, **options).pvalue <= 1
    assert all(0 < p <= 1 for p in pvalues)
    if statistic == "shrunken":
        assert max(pvalues) > 0.1


def test_impossible_cells_in_the_null_are_tested():
    null = np.array([0.5, 0.5, 0, 0, 0, 0, 0, 0, 0])
    fits = released(Gaussian(1.0), [50, 50, 0, 0, 0, 0, 0, 0, 0])
    fails = released(Gaussian(1.0), [40, 40, 20, 0, 0, 0, 0, 0, 0])
    assert goodness_of_fit(fits, null, null=MonteCarlo(rng=0)).pvalue > 0.01
    assert goodness_of_fit(fails, null, null=MonteCarlo(rng=0)).pvalue < 0.01


def test_large_tables_are_simulated_in_chunks():
    table = ContingencyTable({"cell": list(range(60_000))})
    noisy = released(Gaussian(2.0), np.full(60_000, 3), table)
    result = goodness_of_fit(noisy, np.full(60_000, 1 / 60_000), null=MonteCarlo(n_resamples=99, rng=1))
    assert result.null_distribution.shape == (99,)
    with pytest.raises(InvalidParameter):
        homogeneity([noisy, noisy], null=Asymptotic())


def test_results_print_and_export():
    result = homogeneity([released(Gaussian(5.0), np.full(9, 20), seed=s) for s in (1, 2)], null=MonteCarlo(rng=1))
    assert max(len(line) for line in str(result).splitlines()) <= 80
    assert "homogeneity" in result._repr_html_()
    assert result.to_dict()["n_resamples"] == 4999
    assert 0 < result.standard_error < 0.01
    assert '"test"' in result.to_json()


ONE = released(Gaussian(1.0), np.full(9, 10))
SQUARE = released(Gaussian(1.0), np.full((3, 3), 10), TWO_WAY)


@pytest.mark.parametrize(
    "call",
    [
        lambda: goodness_of_fit(ONE, [1 / 8] * 8),
        lambda: goodness_of_fit(ONE, [0.2] * 9),
        lambda: goodness_of_fit(ONE, [math.nan] * 9),
        lambda: goodness_of_fit(ONE, [2.0] + [-1 / 8] * 8),
        lambda: goodness_of_fit(ONE, "uniform"),
        lambda: goodness_of_fit(np.ones(9), KOREA),
        lambda: goodness_of_fit(ONE, KOREA, null="bootstrap"),
        lambda: goodness_of_fit(ONE, KOREA, statistic="deviance"),
        lambda: goodness_of_fit(ONE, KOREA, statistic="pearson", null=Asymptotic()),
        lambda: goodness_of_fit(ONE, KOREA, statistic="quadratic"),
        lambda: goodness_of_fit(released(Laplace(1.0), np.full(9, 10)), KOREA, null=Asymptotic()),
        lambda: homogeneity(ONE),
        lambda: homogeneity([ONE]),
        lambda: homogeneity([ONE, SQUARE]),
        lambda: independence(ONE),
        lambda: MonteCarlo(n_resamples=0),
        lambda: MonteCarlo(n_resamples=10.5),
        lambda: MonteCarlo(rng="seed"),
    ],
)
def test_refusals(call):
    with pytest.raises(InvalidParameter):
        call()


# Power for planning.


@pytest.mark.parametrize("df", [1, 2, 5, 60, 3000])
@pytest.mark.parametrize(("alpha", "power"), [(0.05, 0.8), (0.001, 0.99), (0.5, 0.3)])
def test_the_smallest_departure_is_that_of_scipy(df, alpha, power):
    critical = special.chdtri(df, alpha)
    noncentrality = float(special.chndtrinc(critical, df, 1 - power)) if power > alpha else 0.0
    found = smallest_departure(df=df, cells=4, n=100, noise_variance=25.0, alpha=alpha, power=power)
    assert found == pytest.approx(math.sqrt(2 * noncentrality / 100), rel=1e-9)


def test_planned_power_is_near_the_simulated_one():
    """2,000 runs, standard error 0.011; the χ² limit may be off by a little more."""
    for n, mu in ((200, 1.0), (700, 0.3)):
        design = TestDesign.goodness_of_fit(KOREA, STATES)
        sigma = Gaussian.calibrate(GaussianDP(mu), Sensitivity(moves=(1, 1))).scale
        rng = np.random.default_rng(1)
        counts = rng.multinomial(n, STATES, size=2000)
        measured = counts + sigma * rng.standard_normal(counts.shape)
        measured += ((n - measured.sum(axis=1)) / 9)[:, None]
        residual, diagonal = measured - n * KOREA, n * KOREA + sigma**2
        weighted = KOREA / diagonal
        form = (residual**2 / diagonal).sum(axis=1)
        form += n * (residual @ weighted) ** 2 / (1 - n * weighted @ KOREA)
        simulated = np.mean(form > stats.chi2.isf(0.05, 8))
        assert abs(design.power(n=n, guarantee=GaussianDP(mu)) - simulated) < 0.06


def test_sample_size_and_mu_invert_power():
    designs = (
        TestDesign.goodness_of_fit(KOREA, STATES),
        TestDesign.homogeneity([KOREA, STATES]),
        TestDesign.independence([[0.3, 0.2], [0.2, 0.3]]),
    )
    for design in designs:
        n = design.sample_size(guarantee=GaussianDP(0.3), power=0.9)
        assert design.power(n=n, guarantee=GaussianDP(0.3)) >= 0.9
        assert design.power(n=n - 1, guarantee=GaussianDP(0.3)) < 0.9
        mu = design.mu(n=2 * n, power=0.9)
        assert design.power(n=2 * n, guarantee=mu) >= 0.9 - 1e-9
        assert design.power(n=2 * n, guarantee=GaussianDP(0.99 * mu.mu)) < 0.9
        assert mu.mu < 0.3
    for call in (
        lambda: TestDesign.goodness_of_fit(KOREA, KOREA).sample_size(guarantee=GaussianDP(1.0)),
        lambda: designs[0].mu(n=10),
        lambda: designs[0].power(n=0, guarantee=GaussianDP(1.0)),
        lambda: TestDesign.goodness_of_fit(KOREA, [0.5, 0.5]),
        lambda: TestDesign.homogeneity([KOREA]),
        lambda: TestDesign.independence([0.5, 0.5]),
        lambda: designs[0].sample_size(guarantee=GaussianDP(1.0), power=0.01),
    ):
        with pytest.raises(InvalidParameter):
            call()


@pytest.mark.parametrize(
    ("resamples", "level"), [(19, 0.05), (39, 0.05), (99, 0.05), (199, 0.05), (20, 1 / 21), (30, 2 / 31)]
)
def test_the_level_of_the_published_pvalue(resamples: int, level: float) -> None:
    """Rejecting where the share of B statistics at or above the observed one is below α: level ⌈αB⌉/(B + 1).

    The rank of the observed one among B + 1 is uniform, so all ranks can be tried.
    """
    method = MonteCarlo(n_resamples=resamples, as_published=True)
    everything = np.arange(resamples + 1.0)
    rejected = [method.pvalue(one, np.delete(everything, place)) < 0.05 for place, one in enumerate(everything)]
    assert np.mean(rejected) == pytest.approx(level)


def test_as_published_is_the_papers_algorithm_without_a_second_argument() -> None:
    """Algorithms 2 and 3: Pearson's statistic of the published table, and the share of resamples at or above it."""
    table = ContingencyTable({"side": ["a", "b", "c"]})
    tables = [
        release(table.exact_counts(np.array(one), neighbours=Neighbours.REPLACE_ONE), Gaussian(2.0), rng=seed)
        for seed, one in enumerate(([30, 30, 45], [33, 29, 40]))
    ]
    shares = [0.3, 0.3, 0.4]
    for test in (partial(goodness_of_fit, tables[0], shares), partial(homogeneity, tables)):
        found = test(null=MonteCarlo(n_resamples=99, rng=3, as_published=True))
        named = test(null=MonteCarlo(n_resamples=99, rng=3, as_published=True), statistic="pearson")
        assert (found.statistic, found.pvalue) == (named.statistic, named.pvalue)
        assert found.pvalue * 99 == pytest.approx(round(found.pvalue * 99))  # a share of 99, not of 100
        other = test(null=MonteCarlo(n_resamples=99, rng=3, as_published=True), statistic="shrunken")
        assert other.statistic != found.statistic
    value = np.asarray(tables[0].value)
    wanted = float(np.sum((value - value.sum() * np.array(shares)) ** 2 / (value.sum() * np.array(shares))))
    found = goodness_of_fit(tables[0], shares, null=MonteCarlo(n_resamples=9, rng=3, as_published=True))
    assert found.statistic == pytest.approx(wanted, rel=1e-12)
