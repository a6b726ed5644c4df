"""Whole-number noise: its law against mpmath, its curve against brute force, its sampler against the law."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import ApproxDP, GaussianDP, Neighbours, PureDP, ZeroConcentratedDP, release
from discreet.core.errors import InvalidParameter
from discreet.core.noise.sampler import GeometricFamily
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms import Gaussian, Geometric, Laplace, compose_curves
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.geometric import GeometricLaw, GeometricProfile, whole_truth
from discreet.questions import ContingencyTable, Count
from discreet.testing import check_calibration, check_mechanism

UNIT = Sensitivity(moves=(1,))
MOVES = [(1,), (1, 1), (3,), (2, 1, 1), (1,) * 6]
EVERY_KIND = [
    PureDP(1.0),
    PureDP(0.05),
    ApproxDP(1.0, 0.01),
    ApproxDP(0.1, 1e-6),
    ZeroConcentratedDP(0.5),
    GaussianDP(1.0),
    GaussianDP(0.1),
]


def masses(scale, reach):
    """P(K = k) for |k| ≤ reach by mpmath."""
    a = mpmath.exp(-1 / mpmath.mpf(scale))
    return {k: (1 - a) / (1 + a) * a ** abs(k) for k in range(-reach, reach + 1)}


@pytest.mark.parametrize("scale", [0.05, 0.5, 1.0, 7.3, 200.0])
def test_law_against_mpmath(scale):
    with mpmath.workdps(40):
        reach = max(4, math.ceil(90 * scale))
        chances = masses(scale, reach)
        law = GeometricLaw(3, scale)
        assert law.variance == pytest.approx(float(sum(k * k * p for k, p in chances.items())), rel=1e-12)
        below = mpmath.mpf(0)
        tail = 1 - sum(chances.values())
        for k in range(-min(reach, 40), min(reach, 40) + 1):
            below = tail / 2 + sum(p for j, p in chances.items() if j <= k)
            assert law.pdf(3 + k) == pytest.approx(float(chances[k]), rel=1e-12)
            assert law.cdf(3 + k) == pytest.approx(float(below), rel=1e-12)
            assert law.cdf(3 + k + 0.5) == law.cdf(3 + k)
        assert law.pdf(3.5) == 0


@given(st.floats(0.05, 1e4), st.integers(-50, 50))
def test_quantiles_invert_the_distribution_function(scale, steps):
    law = GeometricLaw(0, scale)
    value, before = law.cdf(steps), law.cdf(steps - 1)
    if before > 1e-4 and value < 1 - 1e-4 and value - before > 1e-6:
        assert law.quantile(value) == steps
        assert law.quantile((value + before) / 2) == steps


def brute_force(scale, moves, epsilon):
    """δ(ε) by summing over all outputs near the truth, one axis per coordinate."""
    reach = math.ceil(25 * scale) + max(moves)
    one = {k: float(p) for k, p in masses(scale, reach + max(moves)).items()}
    ks = np.arange(-reach, reach + 1)
    p, q = np.ones(1), np.ones(1)
    for move in moves:
        p = np.outer(p, [one[int(k)] for k in ks]).ravel()
        q = np.outer(q, [one[int(k) - move] for k in ks]).ravel()
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("moves", [(1,), (2,), (5,), (1, 1), (2, 1)])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.9])
def test_curve_is_the_sum_over_all_outputs(moves, epsilon):
    assert GeometricProfile(1 / Fraction(2), moves).delta_at(epsilon) == pytest.approx(
        brute_force(2.0, moves, epsilon), rel=1e-9, abs=1e-12
    )


@pytest.mark.parametrize("moves", MOVES)
def test_rho_is_the_supremum_over_the_orders(moves):
    unit, rho = 0.7, GeometricProfile(0.7, moves).concentrated().rho
    shrink = math.exp(-unit)

    def renyi(order, move):
        losses = [(move - 2 * j) * unit for j in range(move + 1)]
        chances = [1 / (1 + shrink), *((1 - shrink) / (1 + shrink) * shrink**j for j in range(1, move))]
        chances.append(shrink**move / (1 + shrink))
        return math.log(sum(p * math.exp((order - 1) * x) for p, x in zip(chances, losses, strict=True))) / (order - 1)

    found = [sum(renyi(order, move) for move in moves) / order for order in (1 + 1e-6, 1.1, 1.5, 2, 4, 10, 60)]
    assert max(found) <= rho * (1 + 1e-9)
    assert found[0] == pytest.approx(rho, rel=1e-4)


@pytest.mark.parametrize("moves", MOVES)
def test_mu_covers_the_curve_and_touches_it(moves):
    profile = GeometricProfile(0.7, moves)
    mu = profile.gaussian().mu
    levels = np.linspace(0, 0.7 * sum(moves), 60)
    own, normal = profile.delta_at(levels), GaussianDP(mu).delta_at(levels)
    assert (own <= normal + 1e-12).all()
    assert not (own <= GaussianDP(0.99 * mu).delta_at(levels)).all()


def test_many_losses_are_bounded_by_two():
    unit = Fraction(1, 1000)
    exact, bound = GeometricProfile(unit, [4000]), GeometricProfile(unit, [5000])
    assert bound.moves == (1,)
    assert bound.pure().epsilon == 5.0
    assert (exact.delta_at([0.5, 2.0, 3.5]) <= bound.delta_at([0.5, 2.0, 3.5])).all()


def test_composition_is_the_exact_convolution():
    two, pair = GeometricProfile(0.5, [1]), GeometricProfile(0.5, [1, 1])
    composed = compose_curves([two, two])
    for epsilon in (0.0, 0.2, 0.6):
        assert pair.delta_at(epsilon) <= composed.delta_at(epsilon) + 1e-15
        assert composed.delta_at(epsilon) == pytest.approx(pair.delta_at(epsilon), rel=1e-3)


@pytest.mark.parametrize("moves", [(1,), (1, 1), (8,), (3,) * 5])
@pytest.mark.parametrize("guarantee", EVERY_KIND, ids=str)
def test_calibration_is_met_and_tight(guarantee, moves):
    check_calibration(Geometric, [guarantee], Sensitivity(moves=moves))


@pytest.mark.parametrize(("scale", "size"), [(1.0, 1.0), (0.5, 1.0), (3.0, 2.0), (40.0, 4.0)])
def test_conformance(scale, size):
    """Claims reached to 99 %, sampler right to 5 % of the scale; rejects a right one less than once in 10⁷ (a seed)."""
    check_mechanism(Geometric(scale), Sensitivity(l1=size), truths=(0.0, 1e6), rng=11)
    check_mechanism(Geometric(scale), Sensitivity(l1=size), draws=20_000)


def test_the_fast_path_is_the_ball_path():
    """Every draw of the double path equals the one that ball arithmetic makes of the same bits."""
    words = np.random.default_rng(5).integers(0, 2**64, 3000, dtype=np.uint64)
    for scale in (0.3, 1.0, 12.7, 1e5):
        family = GeometricFamily(np.asarray(scale))
        noise, error = family.fast(words.copy(), slice(0, words.size))
        for i in range(0, words.size, 10):
            ball = family.enclose(0, int(words[i]) << 64, 128)
            assert abs(noise[i] - float(ball)) <= error


@given(st.fractions(-50, 50, max_denominator=40), st.fractions(0, 7, max_denominator=40))
def test_rounding_never_moves_numbers_further_apart_than_whole_steps(x, gap):
    y = x + gap
    for here, there in ((x, y), (float(x), float(x) + math.ceil(gap))):
        moved = abs(int(np.asarray(whole_truth(there))) - int(np.asarray(whole_truth(here))))
        assert moved <= math.ceil(gap)


def test_whole_numbers_beyond_floats_stay_exact():
    truth = 2**60 + 1
    draws = [int(GeometricLaw(truth, 1e-3).sample()) for _ in range(3)]
    assert draws == [int(float(truth))] * 3  # P(K ≠ 0) < 2e-434


def test_intervals_are_whole_and_cover():
    for scale, level in itertools.product((0.3, 1.0, 5.0), (0.5, 0.9, 0.95, 0.999)):
        low, high = Geometric(scale).noise_interval(10.0, level)
        assert low == int(low)
        law = GeometricLaw(0, scale)
        reach = high - 10
        assert law.cdf(reach) - law.cdf(-reach - 1) >= level - 1e-10
        assert reach == 0 or law.cdf(reach - 1) - law.cdf(-reach) < level


def test_less_noise_than_laplace_under_epsilon():
    for epsilon, gain in ((1.0, 0.959), (2.0, 0.851)):
        geometric = Geometric.calibrate(PureDP(epsilon), UNIT).law(0).variance
        laplace = Laplace.calibrate(PureDP(epsilon), UNIT).law(0.0).variance
        assert math.sqrt(geometric / laplace) == pytest.approx(gain, abs=1e-3)


def test_several_numbers_need_moves_or_must_be_whole():
    with pytest.raises(InvalidParameter, match="moves"):
        release(Exact([1.5, 2.5], Sensitivity(l1=1.0)), Geometric(1.0), rng=1)
    known = release(Exact(np.array([1, 2]), Sensitivity(l1=2.0)), Geometric(1.0), rng=1)
    assert known.guarantee == PureDP(2.0)
    assert known.mechanism.profile(known.sensitivity) == GeometricProfile(2, [1])


def test_counts_and_whole_sums_get_whole_noise():
    one, pair = Sensitivity(moves=(1,)), Sensitivity(moves=(1, 1))
    assert additive_noise(PureDP(1.0), one, whole=True) == Geometric(1.0)
    assert isinstance(additive_noise(ApproxDP(1.0, 1e-6), pair, whole=True), Geometric)
    assert isinstance(additive_noise(ApproxDP(0.1, 1e-2), Sensitivity(moves=(1,) * 30), whole=True), Gaussian)
    assert isinstance(additive_noise(GaussianDP(1.0), one, whole=True), Gaussian)
    assert isinstance(additive_noise(PureDP(1.0), Sensitivity(moves=(2**21,)), whole=True), Laplace)
    assert isinstance(additive_noise(PureDP(1.0), one), Laplace)


@pytest.mark.parametrize("guarantee", [PureDP(0.5), PureDP(3.0), GaussianDP(0.5), ApproxDP(1.0, 1e-6)], ids=str)
def test_a_presented_count_is_whole_and_lies_in_its_interval(guarantee):
    mechanism = additive_noise(guarantee, UNIT, whole=True)
    for truth in (0, 3):
        rows = [True] * truth + [False]
        held = 0
        for seed in range(200):
            found = release(Count().exact(rows, neighbours=Neighbours.ADD_REMOVE), mechanism, rng=seed)
            low, high = found.noise_interval()
            assert found.value == int(found.value)
            assert 0 <= low <= found.value <= high
            assert found.value == max(math.floor(found.measured + 0.5), 0)
            held += low <= truth <= high
        assert held >= 185


def test_a_presented_table_is_whole_and_covers():
    """Cells and margins, with noise as coarse as ε = 3 makes it."""
    table = ContingencyTable({"a": ["x", "y", "z"], "b": ["p", "q"]})
    counts = np.array([[0, 1], [5, 3], [40, 0]])
    exact = table.exact_counts(counts, neighbours=Neighbours.ADD_REMOVE)
    held, margins = 0, 0
    for seed in range(400):
        found = release(exact, Geometric.calibrate(PureDP(3.0), exact.sensitivity), rng=seed)
        for estimate, truth, add in ((found.counts(), counts, 0), (found.margin("a"), counts.sum(axis=1), 1)):
            interval = estimate.noise_interval()
            assert (estimate.estimate == np.floor(estimate.estimate)).all()
            assert ((interval.low <= estimate.estimate) & (estimate.estimate <= interval.high)).all()
            covered = int(((interval.low <= truth) & (truth <= interval.high)).sum())
            held, margins = held + (0 if add else covered), margins + (covered if add else 0)
    assert held >= 0.94 * 6 * 400
    assert margins >= 0.93 * 3 * 400


def test_sums_by_group_under_a_limit_in_all_are_answered():
    """Only ℓ₁ is known there, so that Laplace noise is taken."""
    import pyarrow

    from discreet import Bounds, Categories, Contribution, PrivacyUnit, PureDP, Schema, Session

    unit = PrivacyUnit("person", contribution=Contribution(total=2))
    schema = Schema(columns={"arm": Categories(["A", "B"]), "y": Bounds(-1, 1, grid=1)}, unit=unit)
    rows = pyarrow.table({"person": [1, 1, 2], "arm": ["A", "B", "B"], "y": [0.0, 1.0, 1.0]})
    session = Session(rows, schema, ledger=":memory:", budget=PureDP(1.0))
    assert session.sum("y", epsilon=1.0, by="arm").mechanism.name == "laplace"
