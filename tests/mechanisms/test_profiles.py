"""Profiles against integrals of the densities, lee2022's own formulas, and the laws of privacy curves."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise, product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.numbers import ball, decimal, precisely
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.gaussian import Gaussian, GaussianProfile, gaussian_scale
from discreet.mechanisms.laplace import Laplace, LaplaceProfile, laplace_scale
from discreet.mechanisms.loss_distribution import dominates

mpmath.mp.dps = 30
shift_lists = st.lists(st.floats(0.01, 3.0), min_size=1, max_size=5)
TABLE = Sensitivity(moves=(1, 1))


# --- independent oracles ----------------------------------------------------------------------------------------


NODES, WEIGHTS = (column.tolist() for column in np.polynomial.legendre.leggauss(12))


def panels(function: object, edges: list[float]) -> float:
    """Gauss-Legendre on each panel; the integrands are analytic there, so 12 nodes reach about 1e-15."""
    total = 0.0
    for low, high in pairwise(edges):
        middle, half = (low + high) / 2, (high - low) / 2
        if half > 0:
            total += half * sum(w * function(middle + half * x) for x, w in zip(NODES, WEIGHTS, strict=True))
    return total


def laplace_delta(shifts: list[float], epsilon: float) -> float:
    """E (1 − e^{ε−L})₊ integrated over the noise, coordinate by coordinate; nothing of the closed form is used."""
    if not shifts:
        return max(0.0, -math.expm1(epsilon))
    t, rest = shifts[0], shifts[1:]

    def inner(x: float) -> float:
        loss = abs(x - t) - abs(x)
        return math.exp(-abs(x)) / 2 * laplace_delta(rest, epsilon - loss)

    # Below 0 and above t the loss is constant; between, the integrand has kinks where the rest runs out.
    kinks = {0.0, t}
    for signs in product((-1, 1), repeat=len(rest)):
        reached = sum(s * other for s, other in zip(signs, rest, strict=True))
        kinks.add(min(max((t - epsilon + reached) / 2, 0.0), t))
    middle = panels(inner, sorted(kinks))
    return laplace_delta(rest, epsilon - t) / 2 + middle + math.exp(-t) / 2 * laplace_delta(rest, epsilon + t)


def lee_tradeoff(alpha: float, d1: float, d2: float) -> float:
    """lee2022 (14) with δ₁ ≥ 0 ≥ δ₂, |δ₁| ≥ |δ₂|; K₁ and K₂ by bisection."""
    e, s = math.exp, d1 - d2

    def solve(f: object, low: float, high: float) -> float:
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if f(middle) > alpha else (low, middle)
        return low

    if alpha < e(-s) / 4:
        return 1 - e(s) * alpha
    if alpha < e(-d1) * (1 - d2) / 4:
        k = solve(lambda k: e(-(s + k) / 2) * (1 + (s - k) / 2) / 4, d1 + d2, s)
        return e(-(s - k) / 2) * (3 + (s - k) / 2) / 4
    if alpha < e(-d1) * (2 - d2) / 4:
        return -e(d1 + d2) * alpha + e(d2) * (2 - d2) / 2
    if alpha < e(d2) * (2 - d2) / 4:
        return e(-s) * (2 - d2) ** 2 / (16 * alpha)
    if alpha < e(d2) * (3 - d2) / 4:
        return -e(-d1 - d2) * alpha + e(-d1) * (2 - d2) / 2
    if alpha < 0.75:
        k = solve(lambda k: e(-(s + k) / 2) * (3 + (s + k) / 2) / 4, -s, -d1 - d2)
        return e(-(s - k) / 2) * (1 + (s + k) / 2) / 4
    return e(-s) * (1 - alpha)


def printed(number: float) -> mpmath.mpf:
    return mpmath.mpf(repr(float(number)))


# --- Laplace: the curve -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shifts", [[0.3], [1.0], [4.0], [0.5, 0.5], [1.0, 0.25], [2.0, 1.5], [0.5, 0.5, 0.5], [1.0, 0.5, 0.25]], ids=str
)
def test_laplace_delta_is_the_integral_of_the_densities(shifts: list[float]) -> None:
    total = sum(shifts)
    for epsilon in (0.0, 0.3 * total, 0.9 * total) if len(shifts) < 3 else (0.25 * total,):
        true = laplace_delta(shifts, epsilon)
        assert LaplaceProfile(shifts).delta_at(epsilon) == pytest.approx(true, rel=1e-12, abs=1e-14)
    assert LaplaceProfile(shifts).delta_at(total) == 0.0
    assert LaplaceProfile(shifts).delta_at(total + 1) == 0.0


def test_contract_value() -> None:
    assert LaplaceProfile([1]).delta_at(0.5) == pytest.approx(0.221199, abs=1e-6)


@pytest.mark.parametrize("shifts", [[1.0, 1.0], [0.4, 0.4], [1.5, 0.5], [3.0, 0.1]], ids=str)
def test_tradeoff_is_lee2022_equation_14(shifts: list[float]) -> None:
    alpha = np.array([0.001, 0.02, 0.08, 0.15, 0.25, 0.4, 0.55, 0.7, 0.74, 0.8, 0.99])
    expected = [lee_tradeoff(a, shifts[0], -shifts[1]) for a in alpha]
    np.testing.assert_allclose(LaplaceProfile(shifts).tradeoff(alpha), expected, atol=1e-12)


def test_equation_16_as_printed_is_a_slip() -> None:
    """The second case of lee2022 (16) needs exp(−1/b + K₁/2): as printed the curve jumps at its left end."""
    b, alpha = 2.0, math.exp(-2 / 2.0) / 4
    k = 2 / b  # K₁ at the left end of the second case
    printed_formula = math.exp(-1 + k / 2) / 4 * (3 + 1 / b - k / 2)
    corrected = math.exp(-1 / b + k / 2) / 4 * (3 + 1 / b - k / 2)
    first_case = 1 - math.exp(2 / b) * alpha
    assert corrected == pytest.approx(first_case, abs=1e-15)
    assert abs(printed_formula - first_case) > 0.2
    assert LaplaceProfile([1 / b, 1 / b]).tradeoff(alpha) == pytest.approx(first_case, abs=1e-12)


@given(shifts=shift_lists, share=st.floats(0.0, 1.0))
@settings(max_examples=60)
def test_one_coordinate_is_the_worst_case(shifts: list[float], share: float) -> None:
    """lee2022, Conjecture 12: f_{δ₁} ⊗ … ⊗ f_{δ_p} ≥ f_{δ₁+…+δ_p}, for every p."""
    exact = [Fraction(shift) for shift in shifts]
    epsilon = share * sum(shifts)
    assert LaplaceProfile(exact).delta_at(epsilon) <= LaplaceProfile([sum(exact)]).delta_at(epsilon)


@given(shifts=shift_lists, share=st.floats(0.0, 0.99), factor=st.floats(1.0, 2.0))
@settings(max_examples=60)
def test_larger_shifts_cost_more(shifts: list[float], share: float, factor: float) -> None:
    epsilon = share * sum(shifts)
    larger = [shift * factor for shift in shifts]
    assert LaplaceProfile(shifts).delta_at(epsilon) <= LaplaceProfile(larger).delta_at(epsilon)
    assert LaplaceProfile(shifts).delta_at(epsilon) <= LaplaceProfile([*shifts, 0.1]).delta_at(epsilon)


def test_many_different_shifts_are_merged_upwards(monkeypatch: pytest.MonkeyPatch) -> None:
    shifts = [0.1 + 0.01 * i for i in range(8)]
    exact = LaplaceProfile(shifts).delta_at([0.0, 0.3, 0.8])
    monkeypatch.setattr(LaplaceProfile, "largest_size", 20)
    merged = LaplaceProfile(shifts).delta_at([0.0, 0.3, 0.8])
    assert np.all(merged >= exact)
    assert sum(LaplaceProfile(shifts).merged) == sum(LaplaceProfile(shifts).shifts)
    assert len(LaplaceProfile(shifts).merged) < 8


# --- Laplace: its guarantees ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [1e-6, 0.1, 1.0, 5.0, 40.0])
def test_single_shift_guarantees_are_tight(shift: float) -> None:
    profile, t = LaplaceProfile([shift]), mpmath.mpf(shift)
    with mpmath.workdps(60):
        mu = printed(profile.gaussian().mu)
        target = mpmath.exp(-t / 2) / 2  # lee2022, Proposition 9
        assert mpmath.ncdf(-mu / 2) <= target < mpmath.ncdf(-mu * (1 - mpmath.mpf(10) ** -15) / 2)
        rho = printed(profile.concentrated().rho)
        assert 0 <= rho - (t + mpmath.exp(-t) - 1) <= rho * mpmath.mpf(10) ** -15
        assert 0 <= printed(profile.pure().epsilon) - t <= t * mpmath.mpf(10) ** -15


@pytest.mark.parametrize("shifts", [[0.5], [3.0], [1.0, 1.0], [2.0, 0.5]], ids=str)
def test_rho_is_the_supremum_over_the_orders(shifts: list[float]) -> None:
    def divergence(order: mpmath.mpf) -> mpmath.mpf:
        total = mpmath.mpf(0)
        for t in map(mpmath.mpf, shifts):

            def ratio(x: mpmath.mpf, t: mpmath.mpf = t) -> mpmath.mpf:
                return mpmath.exp(-order * abs(x) - (1 - order) * abs(x - t)) / 2

            total += mpmath.log(mpmath.quad(ratio, [-60, -5, 0, t, t + 5, t + 60]))
        return total / (order - 1)

    rho = LaplaceProfile(shifts).concentrated().rho
    orders = [mpmath.mpf(order) for order in (1.0001, 1.01, 1.3, 2, 4, 16, 64)]
    ratios = [divergence(order) / order for order in orders]
    assert all(ratio <= rho for ratio in ratios)
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[0] >= rho * (1 - mpmath.mpf(10) ** -3)


@pytest.mark.parametrize("shifts", [[0.5, 0.5], [0.01, 0.01], [2.0, 2.0], [1.0, 0.3], [0.4, 0.3, 0.2]], ids=str)
def test_gaussian_of_several_shifts_is_certified_and_tight(shifts: list[float]) -> None:
    profile = LaplaceProfile(shifts)
    mu, curve = profile.gaussian().mu, profile
    grid = [Fraction(i, 500) * curve.total for i in range(500)]
    with precisely():
        assert all(GaussianProfile(decimal(mu)).delta_at(float(e)) >= profile.delta_at(float(e)) for e in grid[::5])
        assert dominates(ball(decimal(mu)), curve.delta, curve.total)
        assert not dominates(ball(decimal(mu) * (1 - Fraction(1, 10**9))), curve.delta, curve.total)
    assert mu < LaplaceProfile([sum(profile.shifts)]).gaussian().mu


@given(shifts=st.lists(st.floats(0.01, 3.0), min_size=1, max_size=3))
@settings(max_examples=15)
def test_guarantees_cover_the_curve(shifts: list[float]) -> None:
    profile = LaplaceProfile(shifts)
    for epsilon in np.linspace(0, sum(shifts), 5).tolist():
        delta = profile.delta_at(epsilon)
        for guarantee in (profile.pure(), profile.gaussian(), profile.concentrated()):
            assert delta <= guarantee.delta_at(epsilon)


@given(shifts=shift_lists, delta=st.floats(1e-9, 0.5))
@settings(max_examples=40)
def test_epsilon_inverts_delta(shifts: list[float], delta: float) -> None:
    for profile in (LaplaceProfile(shifts), GaussianProfile(sum(shifts))):
        epsilon = profile.epsilon_at(delta)
        assert profile.delta_at(epsilon) <= delta
        assert epsilon < 1e-9 or profile.delta_at(epsilon * (1 - 1e-9)) > delta


@given(shifts=st.lists(st.floats(0.05, 2.0), min_size=1, max_size=3))
@settings(max_examples=8)
def test_tradeoffs_are_convex_symmetric_and_decreasing(shifts: list[float]) -> None:
    alpha = np.linspace(0, 1, 41)
    for profile in (LaplaceProfile(shifts), GaussianProfile(sum(shifts))):
        curve = np.asarray(profile.tradeoff(alpha))
        assert curve[0] == pytest.approx(1.0)
        assert curve[-1] == pytest.approx(0.0)
        assert np.all(np.diff(curve) <= 1e-10)
        assert np.all(np.diff(curve, 2) >= -1e-9)
        np.testing.assert_allclose(profile.tradeoff(np.clip(curve, 0, 1)), alpha, atol=1e-6)


# --- Gaussian -----------------------------------------------------------------------------------------------------


def test_gaussian_profile_is_the_guarantee_itself() -> None:
    profile = GaussianProfile(Fraction(1, 2))
    assert profile.gaussian() == GaussianDP(0.5)
    assert profile.concentrated() == ZeroConcentratedDP(0.125)
    np.testing.assert_array_equal(profile.delta_at([0.0, 1.0]), GaussianDP(0.5).delta_at([0.0, 1.0]))
    np.testing.assert_array_equal(profile.tradeoff([0.1, 0.7]), GaussianDP(0.5).tradeoff([0.1, 0.7]))
    with pytest.raises(NoConversion, match="privacy loss is unbounded"):
        profile.pure()
    assert profile.epsilon_at(0.0) == math.inf


# --- calibration ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("guarantee", "sensitivity", "scale"),
    [
        (PureDP(1.0), Sensitivity(l1=2.0), 2.0),
        (ApproxDP(1.0, 0.0), Sensitivity(l1=2.0), 2.0),
        (ApproxDP(1.0, 0.01), Sensitivity(l1=1.0), 0.980295403910),
        (GaussianDP(1.0), Sensitivity(l1=2.0), 2.071402997003),
        (GaussianDP(0.1), TABLE, 15.489098),  # lee2022 (17), figures of the tight table scale
        (GaussianDP(0.3), TABLE, 5.006956),
        (GaussianDP(1.0), TABLE, 1.358905),
        (PureDP(1.0), TABLE, 2.0),
    ],
)
def test_laplace_scales(guarantee: Guarantee, sensitivity: Sensitivity, scale: float) -> None:
    assert laplace_scale(guarantee, sensitivity) == pytest.approx(scale, abs=6e-7)


@pytest.mark.parametrize(
    ("sensitivity", "crossing"),
    [(TABLE, 3.6871), (Sensitivity(l1=2.0, l2=math.sqrt(2)), 6.1301), (Sensitivity(l1=1.0), 3.3608)],
)
def test_where_laplace_overtakes_gaussian(sensitivity: Sensitivity, crossing: float) -> None:
    """Equal variances: 2b² = σ². lee2022, section 4.2.1, gives the first as 3.9xx and as 3.67."""

    def ratio(mu: float) -> float:
        guarantee = GaussianDP(mu)
        return math.sqrt(2) * laplace_scale(guarantee, sensitivity) / gaussian_scale(guarantee, sensitivity)

    assert ratio(crossing - 1e-4) > 1 > ratio(crossing + 1e-4)


@pytest.mark.parametrize(
    ("guarantee", "scale"),
    [(GaussianDP(0.5), 2.0), (ZeroConcentratedDP(0.5), 1.0), (ApproxDP(1.0, 1e-5), 3.730631634816)],
)
def test_gaussian_scales(guarantee: Guarantee, scale: float) -> None:
    assert gaussian_scale(guarantee, Sensitivity(l2=1.0)) == pytest.approx(scale, abs=1e-12)


def test_round_numbers_stay_round() -> None:
    assert laplace_scale(PureDP(1.0), Sensitivity(l1=2.0)) == 2.0
    assert laplace_scale(PureDP(0.1), Sensitivity(l1=1.0)) == 10.0
    assert gaussian_scale(GaussianDP(0.5), Sensitivity(l2=1.0)) == 2.0
    assert gaussian_scale(ZeroConcentratedDP(0.5), Sensitivity(l2=1.0)) == 1.0


guarantees = st.one_of(
    st.builds(PureDP, st.floats(0.01, 10)),
    st.builds(ApproxDP, st.floats(0.01, 10), st.floats(1e-12, 0.2)),
    st.builds(ZeroConcentratedDP, st.floats(1e-4, 10)),
    st.builds(GaussianDP, st.floats(0.01, 5)),
)


@given(guarantee=guarantees, size=st.floats(1e-3, 1e3))
@settings(max_examples=80)
def test_scales_are_the_smallest_floats_that_meet_the_guarantee(guarantee: Guarantee, size: float) -> None:
    sensitivity = Sensitivity(l1=size)
    scale = laplace_scale(guarantee, sensitivity)
    assert Laplace(scale).profile(sensitivity).within(guarantee)
    smaller = math.nextafter(scale, 0.0) * (1 - 1e-15)
    assert not Laplace(smaller).profile(sensitivity).within(guarantee)
    if not isinstance(guarantee, PureDP):
        scale = gaussian_scale(guarantee, sensitivity)
        assert Gaussian(scale).profile(sensitivity).within(guarantee)
        smaller = math.nextafter(scale, 0.0) * (1 - 1e-15)
        assert not Gaussian(smaller).profile(sensitivity).within(guarantee)


@given(guarantee=guarantees, moves=st.lists(st.floats(0.1, 5.0), min_size=2, max_size=3))
@settings(max_examples=15)
def test_known_moves_need_less_noise(guarantee: Guarantee, moves: list[float]) -> None:
    exact = Sensitivity(moves=tuple(moves))
    scale = laplace_scale(guarantee, exact)
    assert Laplace(scale).profile(exact).within(guarantee)
    assert scale <= laplace_scale(guarantee, Sensitivity(l1=exact.l1)) * (1 + 1e-12)


@pytest.mark.parametrize("moves", [(1,), (1, 1), (2, 1), (1, 1, 1, 1)])
@pytest.mark.parametrize("guarantee", [GaussianDP(1e-3), GaussianDP(7.0), ApproxDP(1e-3, 1e-12), ApproxDP(9.0, 0.3)])
def test_extreme_calibrations(guarantee: Guarantee, moves: tuple[int, ...]) -> None:
    sensitivity = Sensitivity(moves=moves)
    assert Laplace(laplace_scale(guarantee, sensitivity)).profile(sensitivity).within(guarantee)


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LaplaceProfile([]), "shifts = .*: must not be empty"),
        (lambda: LaplaceProfile("1"), "shifts = '1': must be a list"),
        (lambda: LaplaceProfile(1.0), "must be a list"),
        (lambda: LaplaceProfile([0.0]), "shifts = 0.0: must be positive"),
        (lambda: LaplaceProfile([1.0, -1]), "must be positive"),
        (lambda: LaplaceProfile([math.nan]), "must be finite"),
        (lambda: LaplaceProfile(["1"]), "must be a real number"),
        (lambda: GaussianProfile(0), "mu = 0.*: must be positive"),
        (lambda: GaussianProfile(math.inf), "must be finite"),
        (lambda: GaussianProfile("1"), "must be a real number"),
        (lambda: LaplaceProfile([1]).delta_at(-0.1), "epsilon = -0.1: must not be negative"),
        (lambda: LaplaceProfile([1]).epsilon_at(1.0), "delta = 1.0: must lie in"),
        (lambda: LaplaceProfile([1]).tradeoff(2), "alpha = 2: must lie in"),
        (lambda: LaplaceProfile([1]).guarantee(ApproxDP), "delta = None: is needed"),
        (lambda: LaplaceProfile([1]).guarantee(PureDP, delta=0.1), "only goes with ApproxDP"),
        (lambda: LaplaceProfile([1]).guarantee(float), "must be a guarantee class"),
        (lambda: laplace_scale(PureDP(0.0), TABLE), "no finite noise meets it"),
        (lambda: laplace_scale(1.0, TABLE), "must be a Guarantee"),
        (lambda: laplace_scale(PureDP(1.0), 1.0), "must be a Sensitivity"),
        (lambda: laplace_scale(PureDP(1.0), Sensitivity(l2=1.0)), "Pass Sensitivity"),
        (lambda: laplace_scale(PureDP(1e-300), Sensitivity(l1=1e300)), "beyond the largest float"),
        (lambda: gaussian_scale(GaussianDP(0.0), TABLE), "no finite noise meets it"),
        (lambda: gaussian_scale(GaussianDP(1e-300), Sensitivity(l1=1e300)), "beyond the largest float"),
    ],
)
def test_refusals(call: object, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        call()


@pytest.mark.parametrize("guarantee", [PureDP(1.0), ApproxDP(1.0, 0.0)])
def test_gaussian_noise_is_never_pure(guarantee: Guarantee) -> None:
    with pytest.raises(NoConversion, match="never meets a PureDP guarantee"):
        gaussian_scale(guarantee, TABLE)


def test_profiles_describe_themselves() -> None:
    profile = LaplaceProfile([0.5, Fraction(1, 3)])
    assert str(profile) == "Laplace noise, shifted by 0.5, 0.333333 scales"
    assert profile.to_dict() == {"profile": "laplace", "shifts": ["1/2", "1/3"]}
    assert profile == LaplaceProfile([Fraction(1, 3), 0.5])
    assert len({profile, LaplaceProfile([Fraction(1, 3), 0.5])}) == 1
    assert str(GaussianProfile(0.5)) == "Gaussian noise, shifted by 0.5 standard deviations"
    assert GaussianProfile(0.5).to_dict() == {"profile": "gaussian", "mu": "1/2"}
