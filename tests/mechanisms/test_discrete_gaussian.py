"""Discrete Gaussian noise: its law against mpmath, its curve against sums over all outputs, its sampler."""

import itertools
import math
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

from discreet import ApproxDP, GaussianDP, Neighbours, PureDP, ZeroConcentratedDP, release
from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.numbers import precisely
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, compose_curves
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.discrete_gaussian import (
    TABLE_ERROR,
    DiscreteGaussianFamily,
    DiscreteGaussianLaw,
    DiscreteGaussianProfile,
    at_least,
    family_of,
)
from discreet.questions import ContingencyTable, Count
from discreet.testing import check_calibration, check_mechanism, check_sampler
from discreet.testing.mechanisms import NotConformant

UNIT = Sensitivity(moves=(1,))
MOVES = [(1,), (1, 1), (3,), (2, 1, 1), (1,) * 6]


def masses(scale, reach):
    """P(K = k) for |k| ≤ reach by mpmath, normalised over twice the reach."""
    weights = {k: mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * mpmath.mpf(scale) ** 2)) for k in range(2 * reach + 1)}
    total = weights[0] + 2 * sum(weights[k] for k in range(1, 2 * reach + 1))
    return {k: weights[abs(k)] / total for k in range(-reach, reach + 1)}


@pytest.mark.parametrize("scale", [0.05, 0.3, 1.0, 7.3, 90.0])
def test_law_against_mpmath(scale):
    with mpmath.workdps(40):
        reach = max(4, math.ceil(12 * scale))
        chances = masses(scale, reach)
        law = DiscreteGaussianLaw(3, scale)
        assert law.variance == pytest.approx(float(sum(k * k * p for k, p in chances.items())), rel=1e-12)
        assert law.variance <= scale**2 * (1 + 1e-12)
        below = (1 - sum(chances.values())) / 2
        for k in range(-reach, reach + 1):
            below += chances[k]
            assert law.pdf(3 + k) == pytest.approx(float(chances[k]), rel=1e-10)
            if below > 1e-30:
                assert law.cdf(3 + k) == pytest.approx(float(below), rel=1e-10)
            assert law.cdf(3 + k + 0.5) == law.cdf(3 + k)
        assert law.pdf(3.5) == 0


@given(st.floats(0.05, 900.0), st.integers(-50, 50))
def test_quantiles_invert_the_distribution_function(scale, steps):
    law = DiscreteGaussianLaw(0, scale)
    value, before = law.cdf(steps), law.cdf(steps - 1)
    if before > 1e-4 and value < 1 - 1e-4 and value - before > 1e-6:
        assert law.quantile(value) == steps
        assert law.quantile((value + before) / 2) == steps


def test_quantiles_at_the_ends():
    assert DiscreteGaussianLaw(5, 2.0).quantile([0.0, 0.5, 1.0]).tolist() == [-math.inf, 5.0, math.inf]


def brute_force(scale, moves, epsilon):
    """δ(ε) by summing over all outputs near the truth, one axis per coordinate."""
    reach = math.ceil(9 * scale) + max(moves)
    one = {k: float(p) for k, p in masses(scale, reach + max(moves)).items()}
    ks = np.arange(-reach, reach + 1)
    p, q = np.ones(1), np.ones(1)
    for move in moves:
        p = np.outer(p, [one[int(k)] for k in ks]).ravel()
        q = np.outer(q, [one[int(k) - move] for k in ks]).ravel()
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("moves", [(1,), (2,), (5,), (1, 1), (2, 1)])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.9, 2.0])
def test_curve_is_the_sum_over_all_outputs(moves, epsilon):
    found = DiscreteGaussianProfile(Fraction(9, 4), moves).delta_at(epsilon)
    wanted = brute_force(1.5, moves, epsilon)
    if len(moves) == 1:
        assert found == pytest.approx(wanted, rel=1e-9)
    else:  # a convolution on a lattice, rounded up
        assert wanted * (1 - 1e-9) <= found <= wanted * 1.005


@given(st.floats(0.2, 30.0), st.integers(1, 6), st.floats(0.01, 5.0))
def test_curve_lies_below_what_rho_implies(scale, move, epsilon):
    profile = DiscreteGaussianProfile(Fraction(scale) ** 2, [move])
    assert profile.delta_at(epsilon) <= profile.concentrated().delta_at(epsilon)


@pytest.mark.parametrize("moves", MOVES)
def test_rho_is_reached_at_order_two_and_never_exceeded(moves):
    scale, rho = 0.8, DiscreteGaussianProfile(Fraction(16, 25), moves).concentrated().rho
    chances = masses(scale, 60)

    def renyi(order, move):
        total = sum(chances[k] ** order * chances[k - move] ** (1 - order) for k in range(-45, 46))
        return mpmath.log(total) / (order - 1)

    found = {order: sum(renyi(order, move) for move in moves) / order for order in (1.01, 1.3, 1.5, 2, 2.5, 3, 4)}
    assert max(found.values()) <= rho * (1 + 1e-9)
    assert float(found[2]) == pytest.approx(rho, rel=1e-12)


def test_it_is_not_gaussian_dp():
    """δ exceeds that of Gaussian noise of the same scale, so μ = Δ/σ does not hold and is not stated."""
    profile = DiscreteGaussian(1.0).profile(UNIT)
    assert profile.delta_at(3.252) > 1.5 * GaussianDP(1.0).delta_at(3.252)
    with pytest.raises(NoConversion, match="not stated in μ"):
        profile.gaussian()
    with pytest.raises(NoConversion, match="unbounded"):
        profile.pure()
    for guarantee in (GaussianDP(1.0), PureDP(1.0), ApproxDP(1.0, 0.0)):
        assert not profile.within(guarantee)
        with pytest.raises(NoConversion):
            DiscreteGaussian.calibrate(guarantee, UNIT)


def test_composition_is_the_convolution_of_losses():
    one, pair = DiscreteGaussianProfile(4, [1]), DiscreteGaussianProfile(4, [1, 1])
    composed = compose_curves([one, one])
    for epsilon in (0.0, 0.2, 0.6, 2.0):
        assert composed.delta_at(epsilon) == pytest.approx(pair.delta_at(epsilon), rel=1e-6)
        assert composed.delta_at(epsilon) == pytest.approx(brute_force(2.0, (1, 1), epsilon), rel=5e-3)


def test_where_only_the_norm_is_known_rho_is_that_of_whole_vectors():
    spread = Sensitivity(l1=6.0, l2=math.nextafter(math.sqrt(18), 5), dimension=12)
    profile = DiscreteGaussian(3.0).profile(spread)
    assert profile.concentrated() == ZeroConcentratedDP(1.0)
    assert profile.delta_at(1.0) == ZeroConcentratedDP(1.0).delta_at(1.0)
    # One number may be a fraction, which rounding moves to the next whole one.
    assert DiscreteGaussian(1.0).profile(Sensitivity(l1=1.5)).norm == 4
    assert DiscreteGaussian(1.0).profile(Sensitivity(l1=0.2)).moves == (1,)


@pytest.mark.parametrize("moves", MOVES)
@pytest.mark.parametrize("rho", [0.001, 0.5, 4.0])
def test_calibration_is_met_and_tight(rho, moves):
    check_calibration(DiscreteGaussian, [ZeroConcentratedDP(rho)], Sensitivity(moves=moves))


@pytest.mark.parametrize("guarantee", [ApproxDP(1.0, 0.01), ApproxDP(0.5, 1e-6)], ids=str)
def test_calibration_to_a_pair(guarantee):
    (made,) = check_calibration(DiscreteGaussian, [guarantee], Sensitivity(moves=(2,)))
    assert made.scale == pytest.approx(Gaussian.calibrate(guarantee, Sensitivity(moves=(2,))).scale, rel=0.02)


@pytest.mark.parametrize(("scale", "size"), [(0.5, 1.0), (1.0, 1.0), (3.0, 2.0), (40.0, 4.0)])
def test_conformance(scale, size):
    """Claims reached to 99 %, sampler right to 5 % of the scale."""
    sensitivity = Sensitivity(moves=(size,))
    check_mechanism(DiscreteGaussian(scale), sensitivity, truths=(0.0, 1e6), rng=11)
    check_mechanism(DiscreteGaussian(scale), sensitivity, draws=20_000)


@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_a_wrong_scale_is_rejected(factor, monkeypatch):
    law = DiscreteGaussianLaw(0, 2.0)
    monkeypatch.setattr(law, "_family", lambda *_: DiscreteGaussianFamily(2.0 * factor))
    with pytest.raises(NotConformant, match=r"spread|from the law"):
        check_sampler(law)


@pytest.mark.parametrize("scale", [0.3, 1.0, 12.7, 150.0])
def test_the_table_is_within_its_error_of_the_balls(scale):
    table, square = family_of(scale), Fraction(scale) ** 2
    steps = sorted({1, 2, 3, math.ceil(scale), math.ceil(4 * scale), math.ceil(9 * scale)})
    with precisely(200):
        for step in steps:
            exact = 2 * at_least(square, step)
            assert abs(arb(float(table.tails[step - 1])) / exact - 1) < TABLE_ERROR / 10


def test_tails_against_mpmath():
    with mpmath.workdps(60):
        chances = masses(5.3, 90)
        for step in (-4, 0, 1, 7, 40):
            wanted = sum(p for k, p in chances.items() if k >= step)
            with precisely(160):
                assert abs(float(at_least(Fraction(5.3) ** 2, step) / arb(mpmath.nstr(wanted, 50))) - 1) < 1e-15


def test_the_fast_path_is_the_ball_path():
    """Every draw of the double path equals the one that ball arithmetic makes of the same bits."""
    rng = np.random.default_rng(5)
    for scale, count in ((0.3, 400), (1.0, 200), (12.7, 60), (70.0, 12)):
        low, _ = family_of(scale).thresholds
        near = (low[low > 2**20][-count // 6 :, None] + np.array([0, 2**40], dtype=np.uint64)).ravel() << np.uint64(1)
        words = np.concatenate([rng.integers(0, 2**64, count, dtype=np.uint64), near])
        family = DiscreteGaussianFamily(scale)
        noise, error = family.fast(words.copy(), slice(0, words.size))
        assert error == 0
        for word, drawn in zip(words.tolist(), noise.tolist(), strict=True):
            with precisely(320):
                ball = family.enclose(0, word << 64, 128)
            assert math.isnan(drawn) or (drawn == float(ball) and ball.rad() == 0)


def test_words_on_a_threshold_are_left_to_the_balls():
    low, high = family_of(3.0).thresholds
    at = ((low[-1] + high[-1]) // np.uint64(2)) << np.uint64(1)
    family = DiscreteGaussianFamily(3.0)
    assert np.isnan(family.fast(np.array([at, 0], dtype=np.uint64), slice(0, 2))[0]).all()
    with precisely(400):
        # The end of the interval that few bits leave open is undecided, more bits decide it.
        assert family.enclose(0, int(at), 64).rad() <= 1
        tiny = family.enclose(0, 0, 128)
    assert tiny.rad() > 0 or float(tiny) > 20


def test_fractions_are_rounded_and_large_numbers_stay_exact():
    assert DiscreteGaussianLaw(Fraction(5, 2), 1e-3).sample() == 3.0
    truth = 2**60 + 1
    assert int(DiscreteGaussianLaw(truth, 1e-3).sample()) == int(float(truth))


def test_intervals_are_whole_and_cover():
    for scale, level in itertools.product((0.3, 1.0, 5.0), (0.5, 0.9, 0.95, 0.999)):
        low, high = DiscreteGaussian(scale).noise_interval(10.0, level)
        law, reach = DiscreteGaussianLaw(0, scale), high - 10
        assert low == int(low)
        assert law.cdf(reach) - law.cdf(-reach - 1) >= level - 1e-10
        assert reach == 0 or law.cdf(reach - 1) - law.cdf(-reach) < level


def test_several_numbers_need_moves_or_must_be_whole():
    with pytest.raises(InvalidParameter, match="moves"):
        release(Exact([1.5, 2.5], Sensitivity(l2=1.0)), DiscreteGaussian(1.0), rng=1)
    known = release(Exact(np.array([1, 2]), Sensitivity(l2=1.0)), DiscreteGaussian(1.0), rng=1)
    assert known.guarantee == ZeroConcentratedDP(0.5)


def test_large_scales_are_refused_with_what_to_use():
    with pytest.raises(InvalidParameter, match="Gaussian\\(scale=2000, grid=1\\)"):
        DiscreteGaussian(2000.0)


def test_whole_numbers_under_rho_get_the_least_noise():
    rho = ZeroConcentratedDP(0.1)
    assert isinstance(additive_noise(rho, UNIT, whole=True), DiscreteGaussian)
    assert isinstance(additive_noise(rho, UNIT), Gaussian)
    assert isinstance(additive_noise(GaussianDP(0.5), UNIT, whole=True), Gaussian)
    assert isinstance(additive_noise(ApproxDP(0.1, 1e-2), Sensitivity(moves=(1,) * 30), whole=True), Gaussian)
    coarse = additive_noise(rho, Sensitivity(moves=(100,)), whole=True)
    assert coarse == Gaussian(coarse.scale, grid=1.0)
    assert isinstance(additive_noise(ZeroConcentratedDP(5.0), UNIT, whole=True), Geometric)
    rounded = additive_noise(ZeroConcentratedDP(4.0), Sensitivity(moves=(90,)), whole=True)
    assert rounded == Laplace(rounded.scale, grid=1.0)
    assert isinstance(additive_noise(ZeroConcentratedDP(4.0), Sensitivity(moves=(2**25,)), whole=True), Laplace)


@pytest.mark.parametrize("moves", [(1,), (1, 1), (2,), (5,), (1,) * 5, (30,)], ids=str)
def test_no_other_noise_would_have_less_variance(moves):
    """But for Laplace noise, which must have 5 % less before numbers that are whole stop being so."""
    for parameter in (0.01, 0.2, 0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0):
        guarantee, sensitivity = ZeroConcentratedDP(parameter), Sensitivity(moves=moves)
        best = additive_noise(guarantee, sensitivity, whole=True).law(0).variance
        for kind, slack in ((Geometric, 1.0), (Laplace, 0.95), (Gaussian, 1.0)):
            assert best * slack <= kind.calibrate(guarantee, sensitivity).law(0).variance * (1 + 1e-9)


def test_the_proof_page_tells_the_standard_deviations():
    page = (Path(__file__).parents[2] / "docs" / "proofs" / "gaussian.md").read_text(encoding="utf-8")
    steps, rows = np.arange(-40, 41), 0
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0].replace(".", "").isdigit():
            guarantee = ZeroConcentratedDP(float(cells[0]))
            normal = Gaussian.calibrate(guarantee, UNIT).law(0.0)
            rounded = float(steps**2 @ (normal.cdf(steps + 0.5) - normal.cdf(steps - 0.5)))
            whole, geometric = (kind.calibrate(guarantee, UNIT).law(0) for kind in (DiscreteGaussian, Geometric))
            found = [f"{math.sqrt(one):.3f}" for one in (whole.variance, rounded, geometric.variance)]
            assert found == cells[1:]
            rows += 1
    assert rows == 6


def test_a_presented_count_is_whole_and_lies_in_its_interval():
    mechanism = additive_noise(ZeroConcentratedDP(0.3), UNIT, whole=True)
    for truth in (0, 3):
        exact = Count().exact([True] * truth + [False], neighbours=Neighbours.ADD_REMOVE)
        held = 0
        for seed in range(200):
            found = release(exact, mechanism, rng=seed)
            low, high = found.noise_interval()
            assert found.value == int(found.value) == max(found.measured, 0)
            assert 0 <= low <= found.value <= high
            held += low <= truth <= high
        assert held >= 185


def test_a_presented_table_is_whole_and_covers():
    table = ContingencyTable({"a": ["x", "y", "z"], "b": ["p", "q"]})
    counts = np.array([[0, 1], [5, 3], [40, 0]])
    exact = table.exact_counts(counts, neighbours=Neighbours.REPLACE_ONE)
    noise = DiscreteGaussian.calibrate(ZeroConcentratedDP(1.0), exact.sensitivity)
    cells = margins = 0
    for seed in range(300):
        found = release(exact, noise, rng=seed)
        for estimate, truth in ((found.counts(), counts), (found.margin("a"), counts.sum(axis=1))):
            interval = estimate.noise_interval()
            assert (estimate.estimate == np.floor(estimate.estimate)).all()
            assert ((interval.low <= estimate.estimate) & (estimate.estimate <= interval.high)).all()
            covered = int(((interval.low <= truth) & (truth <= interval.high)).sum())
            cells, margins = cells + covered * (truth.size == 6), margins + covered * (truth.size == 3)
    assert cells >= 0.94 * 6 * 300
    assert margins >= 0.93 * 3 * 300
