"""Comparing means: sensitivities, losses, likelihoods, coverage, and the contract of compare_means."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from discreet import GaussianDP, Ledger, Neighbours, PureDP, ZeroConcentratedDP
from discreet.core.errors import DiscreetError, InsufficientBudget, InvalidParameter, NotCertified
from discreet.core.protection import Fact
from discreet.core.sensitivity import Sensitivity
from discreet.inference.noise import MonteCarlo, NoiseSum
from discreet.inference.two_sample import (
    CensoredNormal,
    Contrast,
    LocationEstimate,
    MultipleSynthesis,
    NoiseAwarePosterior,
    WinsorizedLaw,
    arm_mean,
    contrast,
    equal_means,
)
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace
from discreet.papers.comparisons import LAWS, simulated_contrast, summary
from discreet.questions import compare_arms, compare_means
from discreet.questions.comparison.methods import (
    CURVATURE_WEIGHT,
    Best,
    Direct,
    MeanDifference,
    PartitionLikelihood,
    Setting,
    Spending,
    WinsorizedMoments,
    arm_moments,
    arms_from_columns,
    placed,
)
from discreet.questions.comparison.paper import (
    Ordered,
    PaperMethod,
    combined,
    paper_method,
    simulated_quantiles,
)
from discreet.questions.comparison.question import plan_comparison
from discreet.results.release import statistic_from_dict
from discreet.testing import check_mechanism

SHARES = [Fraction(k, 40) for k in range(41)]
PAPER = (
    "2S", "4S", "4SDD", "6S", "6SDD", "winsorized", "trimmed", "winsorizedDD", "trimmedDD", "winsorized6", "trimmed6",
    "winsorized6DD", "trimmed6DD", "naive", "naiveDD", "naive5", "naive5DD",
)  # fmt: skip


def moments_of(share, *, public, weight=Fraction(1)):
    return arm_moments(1, share.numerator, share.numerator**2, share.denominator, public=public, weight=weight)


# ---- sensitivities -----------------------------------------------------------------------------------------------


def test_the_second_moment_is_free():
    changes = [
        sum(abs(x - y) for x, y in zip(moments_of(a, public=True), moments_of(b, public=True), strict=True))
        for a, b in itertools.product(SHARES, SHARES)
    ]
    assert max(changes) == 1 == MeanDifference(bounds=(0, 1)).sensitivity(neighbours=Neighbours.REPLACE_ONE).l1


def test_the_second_moment_is_free_in_the_euclidean_norm():
    weight = CURVATURE_WEIGHT["l2"]
    squares = [
        sum(
            (x - y) ** 2
            for x, y in zip(
                moments_of(a, public=True, weight=weight), moments_of(b, public=True, weight=weight), strict=True
            )
        )
        for a, b in itertools.product(SHARES, SHARES)
    ]
    assert max(squares) == 1
    # The weight could not be much larger.
    a = Fraction(8, 13)
    assert a**2 * (1 + Fraction(7, 2) ** 2 * (1 - a) ** 2) > 1


@pytest.mark.parametrize("arm", ["public", "private"])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_sensitivity_over_a_small_universe(neighbours, arm):
    statistic = MeanDifference(bounds=(0, 4), arm=arm)
    declared = statistic.sensitivity(neighbours=neighbours)

    def value(units):
        result = []
        for group in (0, 1):
            own = [y for y, where in units if where == group]
            result += statistic.value(len(own), sum(own), sum(y * y for y in own), 4, neighbours)
        return result

    universe = list(itertools.product(range(5), (0, 1)))
    largest_1, largest_2 = 0.0, 0.0
    for base in itertools.product(universe, repeat=2):
        if neighbours is Neighbours.ADD_REMOVE:
            others = [base[:1]]
        else:
            others = [(base[0], new) for new in universe if arm == "private" or new[1] == base[1][1]]
        for other in others:
            change = [abs(x - y) for x, y in zip(value(base), value(other), strict=True)]
            largest_1 = max(largest_1, sum(change))
            largest_2 = max(largest_2, math.sqrt(sum(x**2 for x in change)))
    assert largest_1 == declared.l1
    assert largest_2 <= declared.require_l2()


def test_winsorized_moments_over_every_move_of_one_partition():
    pieces = WinsorizedMoments(interval=(1.0, 1.2), partitions=3)
    points = np.array([-9.0, 1.0, 1.0000001, 1.05, 1.1, 1.15, 1.1999999, 1.2, 9.0])  # across every boundary
    rest = np.array([1.01, 1.3])
    values = [pieces.value(np.append(rest, z)) for z in points]
    changes = [float(sum(abs(x - y) for x, y in zip(a, b, strict=True))) for a, b in itertools.product(values, values)]
    assert max(changes) == 1.0 == pieces.sensitivity().l1
    assert statistic_from_dict(pieces.to_dict()) == pieces


def test_published_sums_move_by_more_than_claimed():
    low, high = 1.0, 1.2
    inside = lambda z: z if low < z < high else 0.0  # noqa: E731
    moved = abs(inside(1.1999) - inside(9.0))
    assert moved > 5.9 * (high - low)  # errata E4: 1.2 against 0.2


def test_certified_sums_stay_within_their_sensitivity():
    rng = np.random.default_rng(5)
    for _ in range(300):
        low, high = np.sort(rng.normal(1.0, 1.0, 2))
        centre, half = (low + high) / 2, (high - low) / 2
        one, other = rng.choice([low - 1, low + 1e-9, centre, high - 1e-9, high + 1, rng.uniform(low, high)], 2)
        terms = [(z - centre, (z - centre) ** 2) if low < z < high else (0.0, 0.0) for z in (one, other)]
        assert abs(terms[0][0] - terms[1][0]) <= high - low
        assert abs(terms[0][1] - terms[1][1]) <= half**2 * (1 + 1e-12)


def test_sums_inside_raw_quantiles_have_no_bound():
    # Errata E5: one replaced value moves the raw quantiles, and with them a value far outside (l*, u*).
    values = np.concatenate([np.full(5, -50.0), np.linspace(-0.1, 0.1, 10), np.full(5, 50.0)])
    other = np.sort(np.append(values[1:], 50.0))

    def raw(sample):
        ordered = np.sort(sample)
        return ordered[5:-5].sum()

    assert abs(raw(values) - raw(other)) > 20 * 0.2  # (l*, u*) may well be (−0.1, 0.1)


# ---- end-to-end loss ----------------------------------------------------------------------------------------------


def loss_of_direct(first, second, guarantee):
    """Exact worst log-ratio of the outputs of `Direct` on two data sets: noise is independent Laplace."""
    statistic = MeanDifference(bounds=(0, 1024))
    values = []
    for control, treatment in (first, second):
        arms = arms_from_columns(
            {"control": control, "treatment": treatment}, bounds=(0, 1024), partitions=1, equal=True, rng=1
        )
        values.append(
            [
                moment
                for arm in (0, 1)
                for moment in statistic.value(
                    arms.size(arm), arms.total(arm), arms.squares[arm], arms.largest, Neighbours.REPLACE_ONE
                )
            ]
        )
    scale = Laplace.calibrate(guarantee, statistic.sensitivity(neighbours=Neighbours.REPLACE_ONE)).scale
    return float(sum(abs(x - y) for x, y in zip(*values, strict=True)) / Fraction(scale))


def test_the_loss_of_direct_is_its_claim():
    rng = np.random.default_rng(3)
    control, treatment = rng.uniform(0, 1024, 20), rng.uniform(0, 1024, 20)
    losses = []
    for old, new in itertools.product([0.0, 1.0, 512.0, 1023.0, 1024.0, 5000.0], repeat=2):
        losses.append(
            loss_of_direct((control, np.append(treatment, old)), (control, np.append(treatment, new)), PureDP(0.7))
        )
    assert 0.99 * 0.7 <= max(losses) <= 0.7


class Recorder(Spending):
    """A spending that writes down every truth it protects and the scale of the noise."""

    log: list

    def split(self, weights):
        parts = [Recorder(part, self.rng) for part in self.guarantee.split(weights)]
        for part in parts:
            object.__setattr__(part, "log", self.log)
        return parts

    def measure(self, truth, sensitivity):
        drawn = Spending(self.guarantee, np.random.default_rng(8)).measure(np.zeros(len(truth)), sensitivity)
        # The same released value for both neighbours, so that the second stage sees the same public interval.
        fixed = np.asarray(drawn.value) + self.offset[: len(truth)]
        self.log.append((np.asarray(truth, dtype=object), drawn.scale))
        return replace(drawn, value=fixed)

    offset = np.zeros(8)


@pytest.mark.parametrize("moved", [-3.0, -1.1, -1.0, 0.0, 1.0, 1.1, 3.0])
def test_the_loss_of_noise_aware_is_within_its_claim(moved):
    """A unit moves its partition across every censoring boundary; both measurements together stay within ε."""
    partitions, guarantee = 40, PureDP(0.9)
    rng = np.random.default_rng(2)
    labels = {"control": np.arange(partitions), "treatment": np.arange(partitions)}
    control, treatment = rng.uniform(40, 60, partitions), rng.uniform(40, 60, partitions)
    statistic = MeanDifference(bounds=(0, 100), partitions=partitions, censor=(0.1, 0.1))
    setting = Setting(statistic, Neighbours.REPLACE_ONE, (partitions, partitions))
    losses = []
    for extreme in (0.0, 50.0 + 10 * moved, 100.0):
        truths = []
        for last in (50.0, extreme):
            columns = {"control": control, "treatment": np.append(treatment[:-1], last)}
            arms = arms_from_columns(columns, bounds=(0, 100), partitions=partitions, equal=True, labels=labels, rng=1)
            spending = Recorder(guarantee, np.random.default_rng(0))
            object.__setattr__(spending, "log", [])
            Recorder.offset = np.array([20.0, 8.0, 20.0, 8.0, 0, 0, 0, 0])
            PartitionLikelihood().run(arms, spending, setting)
            truths.append(spending.log)
        loss = sum(
            float(sum(abs(x - y) for x, y in zip(one, other, strict=True)) / Fraction(scale))
            for (one, scale), (other, _) in zip(*truths, strict=True)
        )
        losses.append(loss)
    assert max(losses) <= 0.9 * (1 + 1e-12)


@pytest.mark.parametrize("mechanism", [Laplace(1 / 0.7), Gaussian(2.0)])
def test_every_noise_passes_the_conformance_kit(mechanism):
    sensitivity = Sensitivity(l1=1.0)
    report = check_mechanism(mechanism, sensitivity, draws=40_000)
    assert report.tightness >= 0.99


class Fixed:
    """The same public interval for all data, and a record of every value that noise would protect."""

    def __init__(self):
        self.log, self.quantiles = [], 0

    def quantile(self, ordered, q):
        self.quantiles += 1
        return np.full((1, 2), 1.0 if q < 0.5 else 1.2)

    def add(self, values, sensitivity):
        self.log.append((np.broadcast_to(values, (1, 2)), np.broadcast_to(sensitivity, (1, 2))))
        return values + 0 * np.asarray(sensitivity)


@pytest.mark.parametrize("name", PAPER)
def test_certified_pieces_stay_within_their_share(name):
    """One value moves across every censoring boundary; no sanitized statistic moves by more than it is noised for."""
    method, rest = paper_method(name, m=2), np.random.default_rng(1).normal(1.1, 0.1, 29)
    logs = []
    for z in (-20.0, 0.9999, 1.0, 1.00001, 1.1, 1.19999, 1.2, 1.21, 20.0):
        fixed = Fixed()
        method.sanitized(Ordered.of(np.append(rest, z)[None]), fixed, (-20.0, 20.0), (0.1, 0.1))
        # Every statistic costs one share, m times over, and there are no others.
        assert fixed.quantiles + len(fixed.log) == method.shares()
        logs.append(fixed.log)
    tight = 0.0
    for first, second in itertools.product(logs, logs):
        for (one, most), (other, _) in zip(first, second, strict=True):
            assert np.all(np.abs(one - other) <= most)
            tight = max(tight, float(np.max(np.abs(one - other) / most)))
    assert tight > 0.99


def test_the_whole_budget_is_split_and_never_exceeded():
    from discreet import compose

    for guarantee in (PureDP(1.0), ZeroConcentratedDP(0.1), GaussianDP(0.5)):
        shares = [part.guarantee for part in Spending(guarantee).split([0.3, 0.7])]
        assert compose(*shares).within(guarantee)


# ---- laws and likelihoods -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("variance", "scales"), [(1.0, [0.5]), (0.2, [1.0, 1.0]), (1e-4, [1.0, 0.3]), (1.0, [])])
def test_normal_plus_laplace_against_quadrature(variance, scales):
    law = NoiseSum(variance, math.sqrt(2) * np.asarray(scales), 3.0)

    def characteristic(t):
        return math.exp(-variance * t * t / 2) / math.prod(1 + (b * t) ** 2 for b in scales)

    for x in (0.3, 1.7, 3.0):
        value = integrate.quad(lambda t: math.sin(t * x) * characteristic(t) / t, 1e-12, 200, limit=2000)[0]  # noqa: B023
        assert float(law.sf(x)) == pytest.approx(0.5 - value / math.pi, abs=2e-4)
    assert float(law.sf(law.quantile(0.975))) == pytest.approx(0.025, rel=1e-6)


def test_winsorized_law_against_quadrature():
    theta, sigma, low, high = 0.4, 1.3, -1.0, 2.5
    law = WinsorizedLaw.of(theta, sigma, low, high)
    share = lambda z: (min(max(z, low), high) - low) / (high - low)  # noqa: E731
    curve = lambda z: share(z) * (1 - share(z))  # noqa: E731

    def mean(function):
        density = stats.norm(theta, sigma).pdf
        return sum(
            integrate.quad(lambda z: function(z) * density(z), a, b)[0]
            for a, b in ((-20, low), (low, high), (high, 20))
        )

    a, c = mean(share), mean(curve)
    assert float(law.mean_a) == pytest.approx(a, abs=1e-9)
    assert float(law.mean_c) == pytest.approx(c, abs=1e-9)
    assert float(law.var_a) == pytest.approx(mean(lambda z: (share(z) - a) ** 2), abs=1e-9)
    assert float(law.var_c) == pytest.approx(mean(lambda z: (curve(z) - c) ** 2), abs=1e-9)
    assert float(law.cov_ac) == pytest.approx(mean(lambda z: (share(z) - a) * (curve(z) - c)), abs=1e-9)
    stein_a = sigma**2 * float(law.inside) / (high - low)
    stein_c = sigma**2 * float(law.slope) / (high - low)
    assert stein_a == pytest.approx(mean(lambda z: (z - theta) * share(z)), abs=1e-9)
    assert stein_c == pytest.approx(mean(lambda z: (z - theta) * curve(z)), abs=1e-9)


CENSORED = CensoredNormal(below=8.0, inside=77.0, above=15.0, lower=-1.0, upper=1.1, total=9.0, squares=25.0)


def test_maximum_likelihood_against_an_optimiser():
    found = CENSORED.maximum()
    best = optimize.minimize(
        lambda x: -float(CENSORED.log_likelihood(x[0], x[1])), [0.1, 0.0], method="Nelder-Mead",
        options={"xatol": 1e-10, "fatol": 1e-12, "maxiter": 5000},
    )  # fmt: skip
    assert float(found.estimate) == pytest.approx(best.x[0], abs=1e-6)


def test_posterior_against_adaptive_quadrature_and_metropolis():
    found = CENSORED.posterior()
    top = float(CENSORED.log_likelihood(*CENSORED.mode()[:2]))
    density = lambda tau, theta: math.exp(float(CENSORED.log_likelihood(theta, tau)) - top)  # noqa: E731
    box = (-0.8, 1.0, -1.0, 0.8)
    mass = integrate.dblquad(density, *box, epsabs=1e-7)[0]
    mean = integrate.dblquad(lambda s, t: t * density(s, t), *box, epsabs=1e-7)[0] / mass
    assert float(found.estimate) == pytest.approx(mean, abs=1e-3 * math.sqrt(found.variance))
    # A Metropolis chain of 20,000 steps: standard error of its mean about 0.03 posterior deviations.
    rng, state, chain = np.random.default_rng(4), np.array([0.1, -0.2]), []
    value = float(CENSORED.log_likelihood(*state))
    for step in rng.normal(0, [0.15, 0.12], (20_000, 2)):
        trial = state + step
        new = float(CENSORED.log_likelihood(*trial))
        if math.log(rng.random()) < new - value:
            state, value = trial, new
        chain.append(state[0])
    assert abs(np.mean(chain[1000:]) - found.estimate) < 0.15 * math.sqrt(found.variance)
    assert np.var(chain[1000:]) == pytest.approx(float(found.variance), rel=0.2)


def test_multiple_sanitization_is_the_combination_rule():
    theta, variance = np.array([[1.0, 2.0, 4.0]]), np.array([[0.5, 0.7, 0.6]])
    mine = combined(LocationEstimate(theta, variance))
    oracle = MultipleSynthesis(m=3).combine(theta[0], variance[0])
    assert float(mine.estimate[0]) == pytest.approx(oracle.estimate)
    assert float(mine.standard_error[0]) == pytest.approx(oracle.standard_error)
    assert float(mine.df[0]) == pytest.approx(oracle.df)
    assert 2 * float(mine.half_width(0.95)[0]) == pytest.approx(oracle.population_interval().width, rel=1e-4)


class Silent:
    """No noise at all: the methods then give their non-private estimates."""

    def quantile(self, ordered, q):
        return np.quantile(ordered, q, axis=1)[:, None]

    def add(self, values, sensitivity):
        return values + 0 * np.asarray(sensitivity)


@pytest.mark.parametrize("name", PAPER)
@pytest.mark.parametrize("published", [False, True])
def test_published_methods_without_noise_estimate_the_mean(name, published):
    z = np.random.default_rng(6).normal(0.7, 2.0, (1, 4000))
    method = paper_method(name, as_published=published, m=1)
    found = method.sanitized(Ordered.of(z), Silent(), (-50.0, 50.0), (0.1, 0.1))
    error = 2.0 / math.sqrt(4000)
    assert abs(float(found.estimate[0, 0]) - z.mean()) < 1.5 * error
    expected = 0.6 if name.startswith("naive") else 1.0  # the naive variance ignores the censoring
    assert math.sqrt(found.variance[0, 0]) / error == pytest.approx(expected, abs=0.15)


def test_asymmetric_censoring_is_not_biased():
    z = np.random.default_rng(7).normal(0.7, 2.0, (1, 20_000))
    for name in ("4S", "4SDD", "6S", "6SDD"):
        for inference in ("ml", "bayes"):
            method = PaperMethod(counts=name.startswith("6"), double_down=name.endswith("DD"), inference=inference, m=1)
            found = method.sanitized(Ordered.of(z), Silent(), (-50.0, 50.0), (0.05, 0.15))
            assert method.name == name
            assert float(found.estimate[0, 0]) == pytest.approx(z.mean(), abs=0.03)


def test_unequal_partitions_are_weighted_by_their_known_sizes():
    ratios, shares = (0.5, 2.0), (0.5, 0.5)
    rng = np.random.default_rng(8)
    z = rng.normal(1.0, np.repeat(ratios, 50_000))
    a = (np.clip(z, -1.0, 3.0) + 1.0) / 4
    posterior = NoiseAwarePosterior(
        partitions=100_000, low=-1.0, high=3.0, first=a.sum(), second=(a * (1 - a)).sum(), weight=1.0,
        noise_variance=1.0, plain=1.0, plain_noise=100.0, spread=2.125, spread_error=10.0, ratios=ratios, shares=shares,
    )  # fmt: skip
    mean, variance, sigma = posterior.moments()
    assert float(sigma) == pytest.approx(1.0, abs=0.02)
    assert abs(float(mean) - 1.0) < 4 * math.sqrt(variance)


# ---- placement ----------------------------------------------------------------------------------------------------


def test_placement_from_moments_beats_the_certified_quantile():
    """At P = 100, ε = 1 and wide bounds, the certified quantile mostly misses; the placement does not."""
    law, rng = LAWS["ZILN"], np.random.default_rng(9)
    sample = law.sample(100_000, 100, 200, True, rng)
    from discreet.papers.comparisons import direct

    start = contrast(direct(sample, Spending(PureDP(0.3), rng), law.bounds), [-1.0, 1.0], kurtosis=3.0)
    low, high = placed(start, 100, (0.1, 0.1))
    true = np.quantile(sample.differences, [0.1, 0.9], axis=1)
    width = true[1] - true[0]
    ends = [simulated_quantiles(sample.ordered.values, q, 0.075, (-5000.0, 5000.0), 1, rng)[:, 0] for q in (0.1, 0.9)]
    ours = np.mean(high - low < 4 * width)
    quantile = np.mean(np.abs(ends[1] - ends[0]) < 4 * width)
    assert ours > 0.9
    assert quantile < 0.5


# ---- coverage -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", list(LAWS))
@pytest.mark.parametrize("different", [False, True])
def test_the_default_covers_and_beats_4s(law, different):
    """1,000 repeats: coverage has a standard error of 0.7 %; the band of ± 3.5 of them fails wrongly once in 2,000."""
    outcome, rng = LAWS[law], np.random.default_rng(10)
    sample = outcome.sample(100_000, 100, 1000, different, rng)
    truth = outcome.effect(different)
    for epsilon in (0.5, 2.0):
        ours, theirs = (
            summary(
                simulated_contrast(
                    name, sample, PureDP(epsilon), bounds=outcome.bounds, censor=(0.1, 0.1), rng=rng,
                    as_published=name == "4S",
                ),
                truth,
            )
            for name in ("direct", "4S")
        )  # fmt: skip
        # Noise hides the variances here, and an interval that trusted small ones would not hold in uneven arms.
        assert 0.935 - 0.015 <= ours["coverage"] <= 0.975 + 0.015
        assert ours["rmse"] < theirs["rmse"]
        assert ours["width"] < theirs["width"]


def test_noise_aware_covers():
    outcome, rng = LAWS["ZINB"], np.random.default_rng(11)
    sample = outcome.sample(300_000, 300, 300, True, rng)
    for guarantee in (PureDP(1.0), ZeroConcentratedDP(0.05)):
        found = simulated_contrast("noise_aware", sample, guarantee, bounds=outcome.bounds, censor=(0.1, 0.1), rng=rng)
        # 300 repeats: standard error 1.3 %; four of them.
        assert 0.90 <= summary(found, outcome.effect(True))["coverage"] <= 0.995


def test_pvalues_are_uniform_where_means_are_equal():
    outcome, rng = LAWS["ZILN"], np.random.default_rng(12)
    sample = outcome.sample(100_000, 100, 1000, False, rng)
    found = simulated_contrast("direct", sample, PureDP(1.0), bounds=outcome.bounds, censor=(0.1, 0.1), rng=rng)
    pvalues = found.pvalue()
    assert stats.kstest(pvalues, "uniform").pvalue > 1e-4
    low, high = found.ends(0.95)
    assert np.all((pvalues < 0.05) == ((low > 0) | (high < 0)))


# ---- the contract -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(13)
    return rng.poisson(3.0, 20_000).astype(float), rng.poisson(2.5, 20_000).astype(float)


@pytest.mark.parametrize("method", ["best", "direct", "noise_aware", *PAPER])
def test_every_method_spends_exactly_what_was_asked(columns, method):
    ledger = Ledger(":memory:", budget=PureDP(2.0))
    result = compare_means(
        *columns, bounds=(0, 20), guarantee=PureDP(1.5), partitions=100, ledger=ledger, method=method
    )
    assert ledger.remaining() == PureDP(0.5)
    assert result.guarantee == PureDP(1.5)
    assert not result.simulated
    assert math.isfinite(result.estimate)
    assert result.standard_error > 0
    assert 0 <= result.pvalue <= 1
    assert result.population_interval(0.95).contains(result.estimate)
    assert "guarantee" in str(result)
    assert result.to_dict()["method"] == result.method
    assert f"{result.treatment} − {result.against}" in result._repr_html_()


def test_own_methods_find_the_effect(columns):
    for method in ("direct", "noise_aware"):
        for guarantee in (PureDP(1.0), ZeroConcentratedDP(0.1), GaussianDP(0.5)):
            result = compare_means(*columns, bounds=(0, 20), guarantee=guarantee, partitions=100, method=method, rng=3)
            assert result.population_interval(0.9999).contains(0.5)
            assert result.pvalue < 1e-6
    lift, interval = result.lift()
    assert interval.contains(lift)
    assert interval.contains(0.2)
    assert 0 < result.privacy_share < 1


@pytest.mark.parametrize("epsilon", [1e-4, 1e-2, 900.0])
def test_extreme_budgets_give_honest_answers(columns, epsilon):
    for seed in range(5):
        for method in ("direct", "noise_aware"):
            result = compare_means(
                *columns, bounds=(0, 20), guarantee=PureDP(epsilon), partitions=100, method=method, rng=seed
            )
            assert math.isfinite(result.estimate)
            assert result.population_interval(0.9999).contains(0.5)


@pytest.mark.parametrize("arm", ["public", "private"])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_both_neighbour_relations(columns, neighbours, arm):
    result = compare_means(*columns, bounds=(0, 20), guarantee=PureDP(1.0), neighbours=neighbours, arm=arm, rng=4)
    assert result.population_interval(0.9999).contains(0.5)
    assert result.protection.neighbours is neighbours
    assert (Fact.ARM in result.protection.public) == (neighbours is Neighbours.REPLACE_ONE and arm == "public")


def test_published_methods_with_a_better_placement(columns):
    for name in ("4S", "6SDD", "winsorized", "naive"):
        method = replace(paper_method(name), placement="moments")
        ledger = Ledger(":memory:", budget=PureDP(2.0))
        result = compare_means(
            *columns, bounds=(0, 20), guarantee=PureDP(2.0), partitions=200, ledger=ledger, method=method
        )
        assert ledger.remaining() == PureDP(0.0)
        assert abs(result.estimate - 0.5) < 2  # quantiles over (−20, 20) often miss by more
        assert method.parameters()["placement"] == "moments"
    with pytest.raises(InvalidParameter):
        PaperMethod(placement="guess")
    with pytest.raises(InvalidParameter):
        PaperMethod(placement="moments", as_published=True)


def test_published_forms_are_simulated_and_promise_nothing(columns):
    ask = {"bounds": (0, 20), "guarantee": PureDP(1.0), "partitions": 100, "method": "4S", "as_published": True}
    result = compare_means(*columns, rng=7, **ask)
    assert result.simulated
    assert result.guarantee is None
    assert "no guarantee" in result.notes[0]
    with pytest.raises(NotCertified):
        compare_means(*columns, ledger=Ledger(":memory:", budget=PureDP(1.0)), **ask)
    certified = compare_means(*columns, rng=7, **(ask | {"as_published": False}))
    assert "nothing can be certified" in certified.notes[0]


def test_a_refusal_costs_nothing(columns):
    ledger = Ledger(":memory:", budget=PureDP(1.0))
    with pytest.raises(InsufficientBudget):
        compare_means(*columns, bounds=(0, 20), guarantee=PureDP(1.5), ledger=ledger)
    assert ledger.remaining() == PureDP(1.0)


BAD = [
    {"bounds": (5, 5)},
    {"bounds": (0, math.inf)},
    {"bounds": (0, math.nan)},
    {"guarantee": 1.0},
    {"guarantee": PureDP(0.0)},
    {"partitions": 5},
    {"partitions": 1.5},
    {"partitions": None, "method": "4S"},
    {"censor": (0.1,)},
    {"censor": (0.6, 0.1)},
    {"censor": (0.0, 0.1)},
    {"censor": (0.05, 0.15), "method": "winsorized"},
    {"method": "5S"},
    {"method": "direct", "as_published": True},
    {"arm": "secret"},
    {"neighbours": "replace"},
    {"unit": 3},
    {"rng": -1},
    {"rng": None},
    {"expected_sd": -1.0},
    {"partition_labels": ([0], [0])},
    {"treatment": [1.0, math.nan]},
    {"treatment": []},
    {"treatment": [[1.0]]},
    {"treatment": ["a", "b"]},
    {"treatment": [1.0]},
]


@pytest.mark.parametrize("wrong", BAD, ids=str)
def test_bad_arguments_are_refused(columns, wrong):
    ask = {
        "treatment": columns[0], "control": columns[1], "bounds": (0, 20), "guarantee": PureDP(1.0),
        "partitions": 100, "rng": 1,
    }  # fmt: skip
    with pytest.raises(DiscreetError):
        compare_means(**(ask | wrong))


def test_arms_hide_their_values(columns):
    arms = arms_from_columns(
        {"control": columns[0], "treatment": columns[1]}, bounds=(0, 20), partitions=10, equal=True, rng=1
    )
    assert str(int(columns[0].sum())) not in repr(arms)
    assert arms.differences().mean() == pytest.approx(columns[1].mean() - columns[0].mean(), abs=1e-9)
    assert arms.total(0) == round(columns[0].sum() / 20 * arms.largest)


def test_natural_partitions_and_their_advice(columns):
    labels = tuple(np.arange(20_000) % 50 for _ in range(2))
    result = compare_means(
        *columns, bounds=(0, 20), guarantee=PureDP(2.0), partitions=50, method="noise_aware",
        partition_labels=labels, rng=5,
    )  # fmt: skip
    assert result.population_interval(0.9999).contains(0.5)
    assert len(result.notes) == 2  # too few partitions, and too few units in each


def test_more_than_two_arms(columns):
    third = np.random.default_rng(14).poisson(3.0, 10_000)
    ledger = Ledger(":memory:", budget=PureDP(1.0))
    found = compare_arms(
        {"a": columns[1], "b": columns[0], "c": third}, bounds=(0, 20), guarantee=PureDP(1.0), ledger=ledger
    )
    assert ledger.remaining() == PureDP(0.0)
    assert found["b", "a"].population_interval(0.999).contains(0.5)
    assert found["c", "b"].population_interval(0.999).contains(0.0)
    alone = found["b", "a"]
    assert alone.population_interval().width > 2 * alone.contrast.half_width(0.95)  # all pairs at once
    with pytest.raises(InvalidParameter):
        found["a", "b"]
    assert "b − a" in str(found)


@pytest.mark.parametrize("arm", ["public", "private"])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_many_arms_from_partition_means(columns, neighbours, arm):
    third = np.random.default_rng(14).poisson(3.0, 20_000)
    found = compare_arms(
        {"a": columns[1], "b": columns[0], "c": third}, bounds=(0, 20), guarantee=PureDP(1.0), partitions=100,
        method="noise_aware", neighbours=neighbours, arm=arm, rng=6,
    )  # fmt: skip
    assert found["b", "a"].population_interval(0.9999).contains(0.5)
    assert found["c", "b"].population_interval(0.9999).contains(0.0)
    with pytest.raises(DiscreetError):
        compare_arms({"a": third, "b": third}, bounds=(0, 20), guarantee=PureDP(1.0), method="noise_aware", rng=1)
    with pytest.raises(DiscreetError):
        compare_arms({"a": third, "b": third}, bounds=(0, 20), guarantee=PureDP(1.0), method="4S", rng=1)
    with pytest.raises(DiscreetError):
        compare_arms({"a": third}, bounds=(0, 20), guarantee=PureDP(1.0), rng=1)


def test_the_chart_shows_private_outputs_only(columns):
    result = compare_means(*columns, bounds=(0, 20), guarantee=PureDP(0.1), rng=3)
    drawn = result.chart().to_dict()
    areas = {}
    for row in max(drawn["datasets"].values(), key=len):
        areas[row["error"]] = areas.get(row["error"], 0.0) + row["density"] * result.standard_error / 20
    assert areas == pytest.approx({"sampling alone": 1.0, "sampling and privacy noise": 1.0}, abs=0.02)


def test_the_best_method_is_chosen_from_public_facts():
    statistic = MeanDifference(bounds=(0, 50_000), partitions=800, censor=(0.1, 0.1))
    setting = Setting(statistic, Neighbours.REPLACE_ONE, (3_000_000, 3_000_000))
    spending = Spending(PureDP(0.5))
    assert isinstance(Best(expected_sd=10.0).chosen(spending, setting), PartitionLikelihood)  # far bounds
    assert isinstance(Best(expected_sd=500.0).chosen(spending, setting), Direct)
    assert PartitionLikelihood().share(spending, setting) == 0.3
    assert PartitionLikelihood(0.2).share(spending, setting) == 0.2
    assert PartitionLikelihood(expected_sd=10.0).share(spending, setting) == 0.4  # far bounds: place with care
    assert PartitionLikelihood(expected_sd=10.0).share(Spending(PureDP(5.0)), setting) == 0.3
    assert (
        PartitionLikelihood(expected_sd=10.0).share(Spending(PureDP(50.0)), setting) == 0.2
    )  # little is unknown, little is needed


def test_plans_agree_with_simulations():
    outcome, rng = LAWS["ZILN"], np.random.default_rng(15)
    sample = outcome.sample(100_000, 100, 400, False, rng)
    plan = plan_comparison((100_000, 100_000), bounds=outcome.bounds, guarantee=PureDP(1.0), expected_sd=38.0)
    for name in ("direct", "noise_aware"):
        found = simulated_contrast(name, sample, PureDP(1.0), bounds=outcome.bounds, censor=(0.1, 0.1), rng=rng)
        assert summary(found, 0.0)["rmse"] == pytest.approx(plan.standard_error[name], rel=0.25)
    assert 1.0 <= plan.smallest_effect / (2.8 * plan.standard_error[plan.method]) <= 1.15  # variances are not trusted
    assert plan_comparison((50_000, 50_000), bounds=(0, 1), guarantee=PureDP(1.0), expected_sd=0.1).partitions is None
    assert plan_comparison((50_000, 50_000), bounds=(0, 1), guarantee=PureDP(1.0), expected_sd=0.1, partitions=80).notes


def test_a_contrast_with_its_parts():
    plain = Contrast(1.0, 4.0, 1e9)
    assert float(plain.half_width(0.95)) == pytest.approx(2 * 1.959964, rel=1e-5)
    assert float(plain.pvalue()) == pytest.approx(2 * stats.norm.sf(0.5), rel=1e-6)


# ---- uneven arms --------------------------------------------------------------------------------------------------


def arms_of(share, sizes, epsilon, repeats, *, public=False, seed=7):
    """Two arms of yes/no outcomes with private or public sizes, measured many times."""
    rng = np.random.default_rng(seed)
    found = []
    for size in sizes:
        yes = rng.binomial(size, share, repeats).astype(float)
        exact = [yes, np.zeros(repeats)] if public else [size - yes, np.zeros(repeats), yes]
        noisy = np.stack(exact, axis=-1) + rng.laplace(0, 1 / epsilon, (repeats, len(exact)))
        found.append(
            arm_mean(
                noisy, size=size if public else None, low=0.0, width=1.0, weight=1.0, noise_variance=2 / epsilon**2,
                kurtosis=3.0,
            )
        )  # fmt: skip
    return found


UNEVEN = [
    (0.01, (20_000, 300), 5.0), (0.001, (100_000, 5_000), 2.0), (0.001, (100_000, 5_000), 5.0),
    (0.001, (100_000, 5_000), 20.0), (0.002, (2_000, 500), 20.0), (0.05, (500, 500), 1.0), (0.01, (300, 20_000), 5.0),
]  # fmt: skip


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize(("share", "sizes", "epsilon"), UNEVEN)
def test_uneven_arms_of_rare_outcomes_are_covered(share, sizes, epsilon, public):
    """The plug-in interval covered .83 to .92 of these; 4,000 repeats, three standard errors below 93.5 %."""
    found = contrast(arms_of(share, sizes, epsilon, 4000, public=public), [-1.0, 1.0], kurtosis=3.0)
    missed = found.excludes(0.0, 0.95)
    assert 1 - missed.mean() >= 0.935 - 3 * 0.0039
    plug_in = np.abs(found.estimate) <= found.half_width(0.95)
    if share < 0.05:
        assert missed.mean() < 1 - plug_in.mean()
    few = contrast(arms_of(share, sizes, epsilon, 40, public=public), [-1.0, 1.0], kurtosis=3.0)
    low, high = few.ends(0.95)
    assert np.array_equal((low > 0) | (high < 0), few.excludes(0.0, 0.95))
    assert np.array_equal(few.pvalue() < 0.05, few.excludes(0.0, 0.95))


def test_a_joint_test_of_uneven_arms_keeps_its_size():
    """Size .085 to .093 with plug-in variances; 600 repeats, three standard errors above 5 %."""
    arms = [arms_of(0.01, (size,), 5.0, 600, seed=seed)[0] for seed, size in enumerate((20_000, 300, 300))]
    rejected = 0
    for place in range(600):
        scores = [
            Contrast(0.0, 1.0, 1.0, arms=(replace(one.score, **{
                name: float(getattr(one.score, name)[place]) for name in ("share", "rows", "spread")
            }),))
            for one in arms
        ]  # fmt: skip
        rejected += equal_means(scores, MonteCarlo(n_resamples=399, rng=place)).pvalue <= 0.05
    assert rejected / 600 <= 0.05 + 3 * 0.009


def test_the_lift_of_uneven_arms_covers():
    """Treatment has 1.5 times the control's 2 %; intervals of ratios from those of both means."""
    rng, held = np.random.default_rng(3), 0
    for _ in range(300):
        treatment = (rng.random(800) < 0.03).astype(float)
        control = (rng.random(20_000) < 0.02).astype(float)
        found = compare_means(treatment, control, bounds=(0, 1), guarantee=PureDP(5.0), rng=rng)
        estimate, interval = found.lift()
        assert interval.low <= estimate <= interval.high
        held += interval.contains(0.5)
    assert held / 300 >= 0.935 - 3 * 0.0135
