"""Mechanisms that choose: laws against brute force, exact loss against claims, exact samplers, calibration."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import ApproxDP, GaussianDP, PureDP, ZeroConcentratedDP
from discreet.core.noise.choice import noisy_argmax
from discreet.core.noise.sampler import GumbelFamily, LaplaceFamily
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms import ExponentialMechanism, PermuteAndFlip, ReportNoisyMax
from discreet.mechanisms.choices.selection import RangeProfile
from discreet.mechanisms.mechanism import mechanism_from_dict
from tests.chosen_entropy import ChosenEntropy

COUNTS = Sensitivity(moves=(1,))
MOVED = Sensitivity(moves=(1, 1))
ALL = [
    ExponentialMechanism(0.8),
    PermuteAndFlip(0.8),
    ReportNoisyMax(1.25),
    ReportNoisyMax(1.25, "exponential"),
    ReportNoisyMax(1.25, "gaussian"),
]


def flip_by_permutations(chances: list[float]) -> list[float]:
    """Permute-and-flip over all orders."""
    result = [0.0] * len(chances)
    orders = list(itertools.permutations(range(len(chances))))
    for order in orders:
        alive = 1.0
        for i in order:
            result[i] += alive * chances[i] / len(orders)
            alive *= 1 - chances[i]
    return result


def test_permute_and_flip_law_by_all_orders() -> None:
    for scores in ([0, 1, 2], [5, 5, 5], [0.0, -3.0, 1.5, 1.5, 0.2]):
        chances = [math.exp(0.8 * (s - max(scores))) for s in scores]
        expected = flip_by_permutations(chances)
        np.testing.assert_allclose(PermuteAndFlip(0.8).probabilities(scores), expected, rtol=1e-12)
        # ding2021: the same law as the argmax with exponential noise.
        same = ReportNoisyMax(1 / 0.8, "exponential").probabilities(scores)
        np.testing.assert_allclose(same, expected, rtol=1e-12)


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "exponential"])
def test_noisy_max_law_by_another_quadrature(noise: str) -> None:
    law = {"laplace": stats.laplace, "gaussian": stats.norm, "exponential": stats.expon}[noise](scale=1.25)
    scores = [3.0, 1.0, 2.5, 0.0]
    expected = []
    for i, own in enumerate(scores):

        def integrand(x: float, i: int = i, own: float = own) -> float:
            others = [law.cdf(x - s) for j, s in enumerate(scores) if j != i]
            return float(law.pdf(x - own) * np.prod(others))

        kinks = sorted({*scores, -60.0, 60.0})
        expected.append(sum(integrate.quad(integrand, a, b, epsabs=1e-13)[0] for a, b in itertools.pairwise(kinks)))
    np.testing.assert_allclose(ReportNoisyMax(1.25, noise).probabilities(scores), expected, rtol=1e-9)


def test_many_candidates_and_far_scores_stay_a_law() -> None:
    scores = np.concatenate([np.zeros(3000), [40.0, 1e6, 1e6 - 1]])
    for mechanism in ALL:
        law = mechanism.probabilities(scores)
        assert law.sum() == pytest.approx(1.0)
        assert np.all(law >= 0)
        assert law[-2] == max(law)


def worst_loss(mechanism, moves: list[tuple[float, ...]], candidates: int) -> float:  # type: ignore[no-untyped-def]
    """Largest log-ratio of output probabilities over a grid of scores and the given moves of them."""
    worst = 0.0
    levels = [0.0, 1.0, 3.0, 10.0, 40.0]
    for scores in itertools.product(levels, repeat=candidates):
        before = mechanism.probabilities(np.array(scores))
        for move in moves:
            after = mechanism.probabilities(np.array(scores) + np.array(move))
            likely = (before > 1e-14) & (after > 1e-14)
            worst = max(worst, float(np.abs(np.log(after[likely] / before[likely])).max()))
    return worst


@pytest.mark.parametrize("mechanism", ALL[:4], ids=lambda m: f"{m.name}-{getattr(m, 'noise', '')}")
def test_loss_on_counts_is_within_the_claim_and_tight(mechanism) -> None:  # type: ignore[no-untyped-def]
    claim = mechanism.guarantee(COUNTS).epsilon
    assert claim == pytest.approx(0.8)
    one = [tuple(sign * float(i == j) for i in range(3)) for j in range(3) for sign in (1, -1)]
    found = worst_loss(mechanism, one, 3)
    assert 0.99 * claim <= found <= claim * (1 + 1e-9)


@pytest.mark.parametrize("mechanism", ALL[:4], ids=lambda m: f"{m.name}-{getattr(m, 'noise', '')}")
def test_loss_under_replacement_is_twice_as_large(mechanism) -> None:  # type: ignore[no-untyped-def]
    claim = mechanism.guarantee(MOVED).epsilon
    assert claim == pytest.approx(1.6)
    swaps = [p for p in itertools.product((1.0, 0.0, -1.0), repeat=2) if sum(p) == 0 and any(p)]
    found = worst_loss(mechanism, swaps, 2)
    # The difference of two Laplace variables has the tail (2 + t)·e^{−t}/4, which reaches the ratio slowly.
    least = 0.95 if getattr(mechanism, "noise", "") == "laplace" else 0.99
    assert least * claim <= found <= claim * (1 + 1e-9)


@pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlip])
def test_monotone_scores_halve_the_cost(kind) -> None:  # type: ignore[no-untyped-def]
    wide = Sensitivity(moves=(1,) * 3)
    assert kind(0.8).guarantee(wide).epsilon == pytest.approx(1.6)
    mechanism = kind(0.8, monotone=True)
    assert mechanism.guarantee(wide).epsilon == pytest.approx(0.8)
    ups = [p for p in itertools.product((0.0, 1.0), repeat=3) if any(p)]
    found = worst_loss(mechanism, ups, 3)
    assert 0.79 <= found <= 0.8 * (1 + 1e-9)


def test_gaussian_noise_is_post_processing_of_the_counts() -> None:
    mechanism = ReportNoisyMax(1.25, "gaussian")
    assert mechanism.guarantee(COUNTS) == GaussianDP(0.8)
    with pytest.raises(NoConversion):
        mechanism.guarantee(COUNTS, PureDP)
    profile = mechanism.profile(COUNTS)
    for scores in ([3.0, 3.0], [5.0, 2.0], [0.0, 4.0]):
        before, after = mechanism.probabilities(scores), mechanism.probabilities(np.add(scores, (1.0, 0.0)))
        for epsilon in (0.1, 0.5):
            delta = max(np.maximum(p - math.exp(epsilon) * q, 0).sum() for p, q in ((before, after), (after, before)))
            assert delta <= profile.delta_at(epsilon)


def test_bounded_range_curve_against_two_point_laws() -> None:
    """The worst η-bounded-range pair has two outcomes; the supremum over all of them by brute force."""
    eta = 1.3
    t = np.linspace(1e-6, eta - 1e-6, 20_001)
    q = (1 - np.exp(t - eta)) / (np.exp(t) - np.exp(t - eta))
    p = q * np.exp(t)
    profile = RangeProfile(Fraction(eta))
    for epsilon in (0.0, 0.2, 0.7, 1.2):
        found = float((p - math.exp(epsilon) * q).max())
        assert found <= profile.delta_at(epsilon)
        assert found == pytest.approx(profile.delta_at(epsilon), rel=1e-6)
        assert profile.epsilon_at(profile.delta_at(epsilon)) == pytest.approx(epsilon, abs=1e-9)
    mu = float((stats.norm.ppf(p) - stats.norm.ppf(q)).max())
    assert mu <= profile.gaussian().mu
    assert mu == pytest.approx(profile.gaussian().mu, rel=1e-6)
    orders = np.array([1.01, 1.5, 2.0, 5.0, 20.0])[:, None]
    heads, tails = np.log(q) + orders * t, np.log1p(-q) + orders * (t - eta)  # log of q·(p/q)^a, both outcomes
    renyi = np.logaddexp(heads, tails) / (orders - 1)
    orders = orders[:, 0]
    assert np.all(renyi.max(axis=1) <= orders * profile.concentrated().rho * (1 + 1e-9))
    assert (renyi.max(axis=1) / orders).max() >= 0.95 * profile.concentrated().rho


def test_exponential_mechanism_reaches_its_curve() -> None:
    """Many candidates: one of them moves up; the (ε, δ) curve is reached in the limit."""
    mechanism = ExponentialMechanism(1.0)
    profile = mechanism.profile(COUNTS)
    worst = 0.0
    for head in np.linspace(-3, 3, 601):
        p = 1 / (1 + math.exp(-head))
        up = 1 / (1 + math.exp(-head - 1))
        worst = max(worst, up - math.exp(0.3) * p, (1 - p) - math.exp(0.3) * (1 - up))
    assert 0.99 * profile.delta_at(0.3) <= worst <= profile.delta_at(0.3)


def test_permute_and_flip_is_not_bounded_range() -> None:
    """Its Rényi divergence exceeds ε²/8·a: the exponential mechanism's zCDP must not be claimed."""
    mechanism = PermuteAndFlip(1.0)
    worst = 0.0
    for gap in np.linspace(0, 6, 121):
        p = mechanism.probabilities([0.0, gap])
        for move in ((1.0, 0.0), (0.0, 1.0), (0.0, -1.0), (-1.0, 0.0)):
            q = mechanism.probabilities(np.array([0.0, gap]) + move)
            for order in (1.001, 2.0, 8.0):
                worst = max(worst, float(np.log((p**order * q ** (1 - order)).sum()) / (order - 1) / order))
    assert worst > 1 / 8
    assert worst <= mechanism.guarantee(COUNTS, ZeroConcentratedDP).rho


@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: f"{m.name}-{getattr(m, 'noise', '')}")
def test_exact_sampler_follows_the_law_and_no_other(mechanism) -> None:  # type: ignore[no-untyped-def]
    """χ² at 1e-6 false alarms; a strength off by 30 % is rejected with near certainty at 8,000 draws."""
    scores, draws = [0, 1, 2, 2], 8_000
    counts = np.bincount([mechanism.choose(scores) for _ in range(draws)], minlength=4)
    fits = stats.chisquare(counts, mechanism.probabilities(scores) * draws).pvalue
    assert fits > 1e-6
    changed = dict(mechanism.parameters())
    key = "scale" if "scale" in changed else "factor"
    changed[key] *= 1.3
    assert stats.chisquare(counts, type(mechanism)(**changed).probabilities(scores) * draws).pvalue < 1e-6
    simulated = np.bincount([mechanism.choose(scores, rng=np.random.default_rng(i)) for i in range(4000)], minlength=4)
    assert stats.chisquare(simulated, mechanism.probabilities(scores) * 4000).pvalue > 1e-6


def test_race_resolves_ties_of_the_first_word_with_more_bits() -> None:
    word = 0x8000000000000000
    entropy = ChosenEntropy([word, word, word], further=[1, 5, 3])
    winner = noisy_argmax([Fraction(1), Fraction(1), Fraction(1)], LaplaceFamily, 1.0, entropy=entropy)
    # Equal first words mean equal magnitudes to 64 bits; a smaller tail of U is a larger −ln U.
    assert winner == 0
    assert entropy.extra_words == 3
    assert noisy_argmax([Fraction(0), Fraction(10**30)], GumbelFamily, 1.0) == 1


def test_fractions_are_exact_in_every_sampler() -> None:
    thirds = np.array([Fraction(1, 3), Fraction(2, 3), Fraction(10**20, 3)], dtype=object)
    for mechanism in ALL:
        assert mechanism.choose(thirds) == 2


@pytest.mark.parametrize("sensitivity", [COUNTS, MOVED, Sensitivity(l1=2.0), Sensitivity(moves=(1,) * 5)])
@pytest.mark.parametrize("monotone", [False, True])
def test_calibration_meets_the_target_and_wastes_nothing(sensitivity, monotone) -> None:  # type: ignore[no-untyped-def]
    for kind in (ExponentialMechanism, PermuteAndFlip, ReportNoisyMax):
        for target in (PureDP(0.7), ApproxDP(0.7, 1e-4), ZeroConcentratedDP(0.1)):
            mechanism = kind.calibrate(target, sensitivity, monotone=monotone)
            assert mechanism.profile(sensitivity).within(target)
            name = "scale" if kind is ReportNoisyMax else "factor"
            better = dict(mechanism.parameters())
            better[name] *= 0.999 if name == "scale" else 1.001
            assert not kind(**better).profile(sensitivity).within(target)
    assert ReportNoisyMax.calibrate(PureDP(1.0), COUNTS, noise="exponential").scale == 1.0


def test_score_loss_bounds_the_quantile() -> None:
    for mechanism in ALL:
        bound = mechanism.score_loss(5, 0.9)
        for scores in ([0.0] * 5, [bound + 0.01, 0.0, 0.0, 0.0, 0.0], [3.0, 2.0, 1.0, 0.5, 0.0]):
            law = mechanism.probabilities(scores)
            behind = max(scores) - np.array(scores)
            assert law[behind > bound].sum() <= 0.1 + 1e-9


def test_law_object_and_round_trip() -> None:
    for mechanism in ALL:
        law = mechanism.law([0, 3])
        assert law.cdf(0) == pytest.approx(law.pdf(0))
        assert law.quantile(1.0) == 1.0
        assert set(law.sample(50).tolist()) <= {0, 1}
        assert mechanism_from_dict(mechanism.to_dict()) == mechanism


def test_softmax_in_high_precision() -> None:
    with mpmath.workdps(40):
        weights = [mpmath.e ** (mpmath.mpf("0.8") * s) for s in (0, 1, 2)]
        expected = [float(w / sum(weights)) for w in weights]
    np.testing.assert_allclose(ExponentialMechanism(0.8).probabilities([0, 1, 2]), expected, rtol=1e-14)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ExponentialMechanism(0.0),
        lambda: ExponentialMechanism(math.nan),
        lambda: PermuteAndFlip(-1.0),
        lambda: ReportNoisyMax(1.0, "uniform"),
        lambda: ReportNoisyMax(math.inf),
        lambda: ExponentialMechanism(1.0).choose([]),
        lambda: ExponentialMechanism(1.0).choose([[1.0, 2.0]]),
        lambda: ReportNoisyMax(1.0).choose([1.0, math.nan]),
        lambda: PermuteAndFlip(1.0).choose("abc"),
        lambda: ExponentialMechanism.calibrate(PureDP(0.0), COUNTS),
        lambda: ReportNoisyMax(1.0, "gaussian").span(COUNTS),
    ],
)
def test_refusals(call) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidParameter):
        call()
