"""Generalized Gaussian noise (liu2019 (3)) against quadrature, brute force and the Gaussian mechanism."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import arb, ctx
from scipy.special import gammainccinv

from discreet import ApproxDP, GaussianDP, Ledger, PureDP, release
from discreet.core.errors import DiscreetError, NoConversion
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms import Gaussian, GeneralizedGaussian
from discreet.mechanisms.generalized_gaussian import (
    QUANTILE_BUDGET,
    GeneralizedGaussianFamily,
    GeneralizedGaussianLaw,
    GeneralizedGaussianProfile,
    tail,
)
from discreet.papers.claims.liu2019_claims import meant_scale, printed_scale
from discreet.testing import check_calibration, check_mechanism

UNIT = Sensitivity(l1=1.0)


def density(z, order):
    return mpmath.exp(-(abs(z) ** order)) * order / (2 * mpmath.gamma(mpmath.mpf(1) / order))


def hockey_stick(shift, order, epsilon):
    """∫ (g(z) − e^ε g(z − t))₊ by quadrature, the kink found by bisection on the densities themselves."""
    t = mpmath.mpf(shift)

    def excess(z):
        return density(z, order) - mpmath.exp(epsilon) * density(z - t, order)

    low, high = mpmath.mpf(-12), t
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    points = [-mpmath.inf, low - 2, low - 1, low - mpmath.mpf(1) / 2, low]
    return mpmath.quad(excess, points)


@pytest.mark.parametrize("order", [3, 4, 7])
@pytest.mark.parametrize(
    ("shift", "epsilon"), [(0.25, 0.0), (0.25, 1.0), (1.0, 1.0), (1.0, 0.999), (0.1, 0.3), (2.0, 6.0)]
)
def test_the_curve_is_the_hockey_stick_of_the_densities(order, shift, epsilon):
    claimed = GeneralizedGaussianProfile(shift, order=order).delta_at(epsilon)
    with mpmath.workdps(40):
        found = hockey_stick(shift, order, epsilon)
    assert float(found) <= claimed * (1 + 1e-14)
    assert claimed == pytest.approx(float(found), rel=1e-12)


def test_where_the_edge_is_the_centre_itself():
    # |x − t|^p − |x|^p = ε at x = 0 for ε = t^p: the ball around the edge holds 0.
    profile = GeneralizedGaussianProfile(Fraction(1, 2), order=4)
    around = [profile.delta_at(epsilon) for epsilon in (0.0624, 0.0625, 0.0626)]
    assert around[0] > around[1] > around[2]
    assert around[1] == pytest.approx((around[0] + around[2]) / 2, rel=1e-5)


@pytest.mark.parametrize("order", [3, 4])
def test_a_larger_move_is_never_more_private(order):
    curves = [
        [GeneralizedGaussianProfile(t, order=order).delta_at(e) for e in (0.0, 0.5, 2.0)] for t in (0.2, 0.5, 1.1)
    ]
    assert np.all(np.diff(curves, axis=0) > 0)


def test_order_two_is_the_gaussian_mechanism():
    guarantee = ApproxDP(1.0, 1e-5)
    made, gaussian = GeneralizedGaussian.calibrate(guarantee, UNIT, order=2), Gaussian.calibrate(guarantee, UNIT)
    assert made.scale == pytest.approx(math.sqrt(2) * gaussian.scale, rel=1e-14)
    assert made.law(0.0).variance == pytest.approx(gaussian.law(0.0).variance, rel=1e-12)
    assert made.profile(UNIT).within(guarantee)
    assert GeneralizedGaussian.calibrate(GaussianDP(1.0), UNIT, order=2).guarantee(UNIT, GaussianDP).mu <= 1.0


@pytest.mark.parametrize("order", [3, 4])
def test_conformance(order):
    check_mechanism(GeneralizedGaussian(2.0, order=order), UNIT, draws=20_000, rng=order)
    check_calibration(GeneralizedGaussian, [ApproxDP(1.0, 1e-6), ApproxDP(0.1, 0.01)], UNIT, order=order)


def test_the_scale_is_the_smallest_float_that_holds():
    guarantee = ApproxDP(0.5, 1e-4)
    made = GeneralizedGaussian.calibrate(guarantee, Sensitivity(l1=2.5), order=3)
    less = GeneralizedGaussian(math.nextafter(made.scale, 0.0), order=3)
    assert made.profile(Sensitivity(l1=2.5)).within(guarantee)
    assert not less.profile(Sensitivity(l1=2.5)).within(guarantee)


def test_two_coordinates_lose_less_than_one_that_moves_as_far():
    order, scale = 4, 3.0
    pair = GeneralizedGaussian(scale, order=order).profile(Sensitivity(moves=(1, 1)))
    merged = GeneralizedGaussian(scale, order=order).profile(Sensitivity(l1=2.0))
    grid = (np.arange(-4000, 4000) + 0.5) * 2.0**-9
    g = np.exp(-(np.abs(grid) ** order))
    g /= g.sum()
    shifted = np.exp(-(np.abs(grid - 1 / scale) ** order))
    shifted /= shifted.sum()
    # The loss of the pair on a lattice of cells: an independent convolution in plain floats.
    loss = np.abs(grid - 1 / scale) ** order - np.abs(grid) ** order
    kept = g > 1e-12
    edges = np.linspace(-60, 60, 24_001)
    spread = np.histogram(loss[kept], bins=edges, weights=g[kept])[0]
    both = np.convolve(spread, spread)
    at = 2 * edges[0] + (np.arange(both.size) + 1) * (edges[1] - edges[0])
    for epsilon in (0.0, 0.5, 1.5):
        found = float(np.sum(both * np.maximum(1 - np.exp(epsilon - at), 0.0)))
        claimed = pair.delta_at(epsilon)
        assert claimed == pytest.approx(found, abs=0.004)
        assert claimed <= merged.delta_at(epsilon) * (1 + 1e-9)


def test_error_budget_of_the_quantile_holds_with_a_factor_of_a_hundred_to_spare():
    points = np.concatenate(
        [np.random.default_rng(3).random(200), np.logspace(-5.1, 0, 100), 1 - np.logspace(-15, -1, 60)]
    )
    for order in (2, 3, 4, 9, 16):
        exact = GeneralizedGaussianFamily(np.array(1.0), np.array(1.0), order)
        quick = gammainccinv(1 / order, points) ** (1 / order)
        with ctx.workprec(160):
            worst = max(
                abs(float(exact._quantile(arb(u)) - arb(z)))
                for u, z in zip(points.tolist(), quick.tolist(), strict=True)
                if 2.0**-17 <= u < 1
            )
        assert worst < QUANTILE_BUDGET / 100


def test_enclosed_quantiles_hold_the_quantile():
    family = GeneralizedGaussianFamily(np.array(1.0), np.array(1.0), 3)
    with ctx.workprec(300):
        for u in ("0.3", "0.999999999999", "1e-30"):
            uniform = arb(u) + arb(0, 1) * arb(2) ** -120
            z = family._quantile(uniform)
            assert tail(z.lower(), 3) >= arb(u)
            assert tail(z.upper(), 3) <= arb(u)
            assert z.rad() < arb(2) ** -10


def test_moments_against_quadrature():
    law = GeneralizedGaussianLaw(1.5, 0.7, order=5)
    with mpmath.workdps(25):
        second = mpmath.quad(lambda z: z**2 * density(z, 5), [-4, 0, 4])
    assert law.variance == pytest.approx(0.49 * float(second), rel=1e-12)
    assert law.mean == 1.5
    assert law.bias == 0.0
    levels = np.array([0.0001, 0.3, 0.5, 0.9])
    assert law.cdf(law.quantile(levels)) == pytest.approx(levels, rel=1e-10)


def test_no_other_guarantee_exists_above_order_two():
    profile = GeneralizedGaussianProfile(1.0, order=3)
    for ask in (profile.pure, profile.concentrated, profile.gaussian):
        with pytest.raises(NoConversion, match="no"):
            ask()
    for guarantee in (PureDP(1.0), GaussianDP(1.0), ApproxDP(1.0, 0.0)):
        with pytest.raises(NoConversion):
            GeneralizedGaussian.calibrate(guarantee, UNIT, order=3)
        assert not profile.within(guarantee)


@pytest.mark.parametrize("order", [1, 17, 2.5, "4", None, True])
def test_orders_that_are_none_are_refused(order):
    with pytest.raises(DiscreetError, match="order"):
        GeneralizedGaussian(1.0, order=order)


def test_a_release_passes_the_door_and_a_false_claim_does_not():
    claim = ApproxDP(1.0, 1e-6)
    ledger = Ledger(":memory:", budget=ApproxDP(1.0, 1e-5))
    made = GeneralizedGaussian.calibrate(claim, UNIT, order=3)
    weak = GeneralizedGaussian(made.scale / 2, order=3)
    with pytest.raises(DiscreetError):
        release(Exact(10.0, UNIT), weak, guarantee=claim, ledger=ledger)
    assert ledger.remaining() == ApproxDP(1.0, 1e-5)
    assert release(Exact(10.0, UNIT), made, guarantee=claim, ledger=ledger).guarantee == claim


def test_the_rule_of_liu2019_is_loose_as_meant_and_fails_as_printed():
    for epsilon, delta, order in ((1.0, 0.01, 4), (0.5, 1e-4, 3)):
        guarantee = ApproxDP(epsilon, delta)
        exact = GeneralizedGaussian.calibrate(guarantee, UNIT, order=order).scale
        assert exact < meant_scale(guarantee, 1.0, order)
    small = ApproxDP(0.1, 0.01)
    printed = GeneralizedGaussian(printed_scale(small, 1.0, 4), order=4)
    assert printed.profile(UNIT).delta_at(0.1) > 3 * small.delta
    assert printed_scale(ApproxDP(1.0, 0.01), 1.0, 4) == pytest.approx(meant_scale(ApproxDP(1.0, 0.01), 1.0, 4))
