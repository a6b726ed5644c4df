"""Sampling and suppression: known values, inverses, exactness of rounding, refusals."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import ApproxDP, GaussianDP, PureDP, ZeroConcentratedDP
from discreet.core.numbers import decimal
from discreet.core.protection import Neighbours
from discreet.mechanisms.gaussian import GaussianProfile
from discreet.mechanisms.laplace import LaplaceProfile
from discreet.mechanisms.omission.amplification import (
    before_outlier_suppression,
    before_poisson_sampling,
    deterministic_suppression,
    outlier_epsilon,
    outlier_epsilon_up,
    outlier_suppression,
    poisson_sampling,
    sampling_without_replacement,
)
from discreet.mechanisms.omission.behind import SampledProfile

epsilons = st.floats(0.01, 8.0)
rates = st.floats(0.01, 1.0)
spans = st.tuples(st.floats(0.02, 0.97), st.floats(0.0, 1.0)).map(lambda t: (t[0], t[0] + (0.98 - t[0]) * t[1]))


def test_values_of_the_contract() -> None:
    # Provenance: the closed forms of miranda2026 (§2.2 and Theorem 5.4), evaluated by hand for the issue.
    assert poisson_sampling(PureDP(1.0), rate=0.5).epsilon == pytest.approx(0.620115, abs=5e-7)
    assert outlier_suppression(PureDP(1.0), m=0.1, M=0.3).epsilon == pytest.approx(2.789728, abs=5e-7)
    assert outlier_suppression(PureDP(2.0), m=0.2, M=0.8).epsilon == pytest.approx(3.970460, abs=5e-7)
    assert before_poisson_sampling(PureDP(1.0), rate=0.5).epsilon == pytest.approx(1.489880, abs=5e-7)


@given(epsilons, rates)
@settings(max_examples=60, deadline=None)
def test_sampling_is_rounded_up_and_inverts(epsilon: float, rate: float) -> None:
    with mpmath.workdps(60):
        exact_rate, exact = mpmath.mpf(decimal(rate).numerator) / decimal(rate).denominator, mpmath.mpf(repr(epsilon))
        truth = mpmath.log(1 + exact_rate * mpmath.expm1(exact))
        sampled = poisson_sampling(PureDP(epsilon), rate).epsilon
        assert mpmath.mpf(repr(sampled)) >= truth
        assert sampled == pytest.approx(float(truth), rel=1e-14)
    back = before_poisson_sampling(PureDP(sampled), rate)
    assert back.epsilon == pytest.approx(epsilon, rel=1e-9)
    assert poisson_sampling(back, rate).epsilon <= sampled


@given(epsilons, spans)
@settings(max_examples=60, deadline=None)
def test_suppression_inverts_and_never_exceeds(epsilon: float, span: tuple[float, float]) -> None:
    m, M = span
    raised = outlier_epsilon_up(epsilon, m, M)
    if raised > 500:
        return
    back = before_outlier_suppression(PureDP(raised), m, M)
    assert back.epsilon == pytest.approx(epsilon, rel=1e-9, abs=1e-9)
    assert outlier_suppression(back, m, M).epsilon <= raised


@given(epsilons, spans)
@settings(max_examples=60, deadline=None)
def test_suppression_is_never_better_than_sampling_and_grows(epsilon: float, span: tuple[float, float]) -> None:
    m, M = span
    value = float(outlier_epsilon(epsilon, m, M))
    assert value >= math.log1p((1 - m) * math.expm1(epsilon)) - 1e-12  # miranda2026, Corollary B.13
    assert float(outlier_epsilon(epsilon + 0.1, m, M)) > value
    assert outlier_epsilon_up(epsilon, m, M) == pytest.approx(value, rel=1e-11, abs=1e-14)


def _closed_form(epsilon: float, m: float, M: float) -> float:
    """Proposition B.10: the cubic roots that maximise L₁ and L₂, as printed."""
    mp = mpmath
    e, m, M = mp.e ** mp.mpf(epsilon), mp.mpf(m), mp.mpf(M)
    f = e - 1
    a1 = f * M / m * (M - m) ** 2
    b1 = -(M - m) / m * ((m**2 - 4 * M * m + 2 * M) * f + e * M)
    c1 = (1 - m) / m * (f * (2 * m**2 - 4 * M * m - m) + (3 * e - 1) * M)
    d1 = -(1 - m) * (f * (m - 2) + e / m)
    a2 = (e - f * m) / m
    b2 = -(6 * e - f * (M + 5 * m)) / m
    c2 = (m * (f * (m + 9 * M - 9) - e) + 4 * M * (f * M - 4 * e + 1) + 12 * e) / ((1 - M) * m)
    d2 = -(2 * e - f * (M + m)) * ((4 - 4 * M - m) / ((1 - M) * m)) + 2 * f

    def root(a, b, c, d):  # type: ignore[no-untyped-def]
        zero, one = b**2 - 3 * a * c, 2 * b**3 - 9 * a * b * c + 27 * a**2 * d
        inside = one**2 - 4 * zero**3
        if inside > 0:
            up, low = (one + mp.sqrt(inside)) / 2, (one - mp.sqrt(inside)) / 2
            return -(b + mp.sign(up) * mp.cbrt(abs(up)) + mp.sign(low) * mp.cbrt(abs(low))) / (3 * a)
        return -(b + 2 * mp.sqrt(zero) * mp.cos(mp.acos(one / (2 * mp.sqrt(zero**3))) / 3)) / (3 * a)

    p, q = (min(mp.mpf(1), max(r, mp.mpf(0))) for r in (root(a1, b1, c1, d1), root(a2, b2, c2, d2)))
    middle = p * M + (1 - p) * m
    one = mp.log(e - f * middle) + p * M / m + (1 - p) * (1 - m) / (1 - middle) - 1
    at = (M + m - q * M) / (2 - q)
    two = mp.log(e - f * (q * M + (1 - q) * at)) + q * M / m + (1 - q) * (1 - at) / (1 - M) - 1
    three = -mp.log(1 / e + (1 - 1 / e) * M) + 1 - (1 - M) / (1 - m)
    return float(max(one, two, three))


def test_agrees_with_the_papers_closed_form() -> None:
    generator = np.random.default_rng(11)
    with mpmath.workdps(50):
        for _ in range(150):
            epsilon = float(generator.uniform(0.05, 6))
            m, M = np.sort(generator.uniform(0.02, 0.98, 2)).tolist()
            assert float(outlier_epsilon(epsilon, m, M)) == pytest.approx(_closed_form(epsilon, m, M), rel=1e-9)


def test_group_privacy_of_deterministic_suppression() -> None:
    assert deterministic_suppression(PureDP(0.4), 3) == PureDP(1.2)
    assert deterministic_suppression(ZeroConcentratedDP(0.1), 3) == ZeroConcentratedDP(0.9)
    assert deterministic_suppression(GaussianDP(0.5), 2) == GaussianDP(1.0)
    raised = deterministic_suppression(ApproxDP(0.5, 1e-6), 3)
    assert raised.to_dict()["delta"] == pytest.approx(1e-6 * (1 + math.exp(0.5) + math.exp(1.0)), rel=1e-12)


def test_largest_rate_counts() -> None:
    assert poisson_sampling(PureDP(1.0), [0.1, 0.5, 0.2]) == poisson_sampling(PureDP(1.0), 0.5)
    assert poisson_sampling(PureDP(1.0), 1.0).epsilon == pytest.approx(1.0, rel=1e-15)


@pytest.mark.parametrize("rate", [0.05, 0.4])
def test_sampled_curve_bounds_the_exact_mixture(rate: float) -> None:
    """Laplace: the hockey-stick divergence of (1−p)·Q + p·P against Q, both ways, by quadrature on a fine grid."""
    shift, grid = 1.5, np.linspace(-40, 40, 400_001)
    step = grid[1] - grid[0]
    q, p = np.exp(-np.abs(grid)) / 2, np.exp(-np.abs(grid - shift)) / 2
    mixture = (1 - rate) * q + rate * p
    profile = SampledProfile(LaplaceProfile([shift]), rate)
    for epsilon in (0.01, 0.05, 0.1, 0.3):
        exact = max(
            float(np.maximum(a - math.exp(epsilon) * b, 0).sum() * step) for a, b in ((mixture, q), (q, mixture))
        )
        claimed = profile.delta_at(epsilon)
        assert exact <= claimed + 1e-7
        assert exact >= 0.99 * claimed - 1e-7
    assert profile.pure() == poisson_sampling(PureDP(shift), rate)


def test_sampled_curve_round_trip() -> None:
    profile = SampledProfile(GaussianProfile(1), 0.1)
    for delta in (1e-3, 1e-6):
        assert profile.delta_at(profile.epsilon_at(delta)) == pytest.approx(delta, rel=1e-6)
    assert profile.gaussian() == GaussianDP(1.0)
    assert profile.concentrated() == ZeroConcentratedDP(0.5)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: poisson_sampling(PureDP(1.0), 0.0), InvalidParameter, "rate"),
        (lambda: poisson_sampling(PureDP(1.0), 1.5), InvalidParameter, "rate"),
        (lambda: poisson_sampling(PureDP(1.0), math.nan), InvalidParameter, "rate"),
        (lambda: poisson_sampling(PureDP(1.0), "half"), InvalidParameter, "rate"),
        (lambda: poisson_sampling(PureDP(1.0), []), InvalidParameter, "rate"),
        (lambda: poisson_sampling(1.0, 0.5), InvalidParameter, "guarantee"),
        (lambda: outlier_suppression(GaussianDP(1.0), 0.4, 0.5), NoConversion, "ApproxDP"),
        (lambda: poisson_sampling(PureDP(1.0), 0.5, neighbours=Neighbours.REPLACE_ONE), InvalidParameter, "ADD_REMOVE"),
        (lambda: sampling_without_replacement(PureDP(1.0), 5, 4), InvalidParameter, "population"),
        (
            lambda: sampling_without_replacement(PureDP(1.0), 5, 9, neighbours=Neighbours.ADD_REMOVE),
            InvalidParameter,
            "REPLACE_ONE",
        ),
        (lambda: before_poisson_sampling(ApproxDP(1.0, 0.5), 0.1), NoConversion, "no budget exists"),
        (lambda: outlier_suppression(PureDP(1.0), 0.0, 0.5), InvalidParameter, "m"),
        (lambda: outlier_suppression(PureDP(1.0), 0.5, 0.4), InvalidParameter, "M"),
        (lambda: outlier_suppression(PureDP(1.0), 0.5, 1.0), InvalidParameter, "M"),
        (lambda: outlier_suppression(PureDP(1.0), 0.0001, 0.9), InvalidParameter, "closer"),
        (lambda: before_outlier_suppression(PureDP(0.25), 0.1, 0.9), NoConversion, "no budget exists"),
        (lambda: deterministic_suppression(PureDP(1.0), 0), InvalidParameter, "sensitivity"),
        (lambda: deterministic_suppression(ApproxDP(2.0, 0.3), 4), NoConversion, "groups"),
    ],
)
def test_refusals(call, error, text) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=text):
        call()
