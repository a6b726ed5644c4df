"""Guarantees against mpmath (densities integrated, not the closed forms again), and the laws they must obey."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.core.errors import DiscreetError, InvalidParameter, NoConversion, WrongType
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.numbers import decimal, down, greatest, least, precisely, thin, up
from discreet.core.sensitivity import Sensitivity

mpmath.mp.dps = 30
parameters = st.floats(1e-4, 20.0)
deltas = st.floats(1e-12, 0.5)
KINDS = [PureDP, GaussianDP, ZeroConcentratedDP]


def printed(number: float) -> mpmath.mpf:
    """The decimal that a float prints as: what a reported parameter claims."""
    return mpmath.mpf(repr(float(number)))


def anything(parameter: float, delta: float) -> list[Guarantee]:
    return [PureDP(parameter), ApproxDP(parameter, delta), ZeroConcentratedDP(parameter), GaussianDP(parameter)]


# --- delta curves -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 4.0])
def test_gaussian_delta_is_the_integral_of_the_densities(mu: float, epsilon: float) -> None:
    m, e = printed(mu), printed(epsilon)
    start = e / m + m / 2  # where the likelihood ratio is e^ε
    true = mpmath.quad(lambda x: mpmath.npdf(x, m) - mpmath.exp(e) * mpmath.npdf(x), [start, start + 5, start + 40])
    reported = printed(GaussianDP(mu).delta_at(epsilon))
    assert true <= reported * (1 + mpmath.mpf(10) ** -20)
    assert reported <= true * (1 + mpmath.mpf(10) ** -14) + mpmath.mpf("5e-324")


def test_contract_value() -> None:
    assert round(GaussianDP(1.0).delta_at(1.0), 12) == 0.126936737507


@pytest.mark.parametrize(("top", "own"), [(0.5, 0.0), (1.0, 0.0), (1.0, 0.05), (3.0, 1e-6)])
def test_approximate_delta_is_that_of_the_failing_response(top: float, own: float) -> None:
    heads, failure = 1 / (1 + mpmath.exp(-printed(top))), printed(own)
    first = [failure, (1 - failure) * heads, (1 - failure) * (1 - heads), mpmath.mpf(0)]
    second = first[::-1]
    for epsilon in np.linspace(0, top + 0.5, 9):
        odds = mpmath.exp(printed(epsilon))
        true = sum(max(mpmath.mpf(0), p - odds * q) for p, q in zip(first, second, strict=True))
        reported = printed(ApproxDP(top, own).delta_at(float(epsilon)))
        assert true - mpmath.mpf(10) ** -28 <= reported <= true * (1 + mpmath.mpf(10) ** -14) + 1e-25
        assert own > 0 or printed(PureDP(top).delta_at(float(epsilon))) == reported


@pytest.mark.parametrize("rho", [1e-4, 0.05, 0.5, 5.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_concentrated_epsilon_is_the_best_over_all_orders(rho: float, delta: float) -> None:
    def bound(order: mpmath.mpf) -> mpmath.mpf:  # canonne2020, Corollary 13, term by term
        log_delta = mpmath.log(mpmath.mpf(repr(delta)))
        return order * mpmath.mpf(repr(rho)) + (
            mpmath.log(1 / (order * mpmath.exp(log_delta))) + (order - 1) * mpmath.log(1 - 1 / order)
        ) / (order - 1)

    grid = [1 + mpmath.mpf(10) ** (mpmath.mpf(j) / 200) for j in range(-1000, 1000)]
    best = min(bound(order) for order in grid)
    reported = ZeroConcentratedDP(rho).epsilon_at(delta)
    assert reported <= best
    assert reported >= best * (1 - mpmath.mpf(10) ** -4)
    assert reported < rho + 2 * math.sqrt(rho * math.log(1 / delta))  # the textbook bound


@pytest.mark.parametrize("mu", [0.05, 0.5, 2.0])
def test_concentrated_curve_covers_the_gaussian_it_came_from(mu: float) -> None:
    concentrated = GaussianDP(mu).to(ZeroConcentratedDP)
    epsilons = np.linspace(0, 6 * mu, 20)
    assert np.all(concentrated.delta_at(epsilons) >= GaussianDP(mu).delta_at(epsilons))


def test_the_discrete_gaussian_is_not_gaussian_dp() -> None:
    """At σ = Δ = 1 its δ at ε = 3.252 is 1.54 times that of continuous noise, though its ρ is the same."""
    epsilon, weights = mpmath.mpf("3.252"), [mpmath.exp(-mpmath.mpf(k * k) / 2) for k in range(-40, 42)]
    total = mpmath.fsum(weights)
    shifted = [mpmath.exp(-mpmath.mpf((k - 1) ** 2) / 2) for k in range(-40, 42)]
    pairs = zip(weights, shifted, strict=True)
    discrete = mpmath.fsum(max(mpmath.mpf(0), p - mpmath.exp(epsilon) * q) for p, q in pairs) / total
    assert float(discrete / printed(GaussianDP(1.0).delta_at(3.252))) == pytest.approx(1.54, abs=1e-4)


def test_concentrated_does_not_imply_the_gaussian_of_the_same_rho() -> None:
    response = PureDP(1.0)
    rho, mu = response.to(ZeroConcentratedDP).rho, response.to(GaussianDP).mu
    assert (round(mu, 3), round(math.sqrt(2 * rho), 3)) == (1.232, 0.961)


# --- conversions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 5.0, 30.0, 500.0, 1000.0])
def test_pure_to_gaussian_is_tight(epsilon: float) -> None:
    with mpmath.workdps(600):
        alpha = 1 / (1 + mpmath.exp(mpmath.mpf(repr(epsilon))))
        mu = mpmath.mpf(repr(PureDP(epsilon).to(GaussianDP).mu))
        assert mpmath.ncdf(-mu / 2) <= alpha  # lee2022 (12): enough,
        assert mpmath.ncdf(-mu * (1 - mpmath.mpf(10) ** -15) / 2) > alpha  # and no less would be


@given(epsilon=st.floats(0.01, 15.0))
@settings(max_examples=50)
def test_pure_to_gaussian_dominates_everywhere(epsilon: float) -> None:
    alpha = np.linspace(0, 1, 501)
    assert np.all(PureDP(epsilon).to(GaussianDP).tradeoff(alpha) <= PureDP(epsilon).tradeoff(alpha) + 1e-14)


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 1.0, 4.0, 20.0])
def test_pure_to_concentrated_is_tight_for_the_response(epsilon: float) -> None:
    heads = 1 / (1 + mpmath.exp(-printed(epsilon)))
    rho = PureDP(epsilon).to(ZeroConcentratedDP).rho

    def divergence(order: mpmath.mpf) -> mpmath.mpf:
        total = heads**order * (1 - heads) ** (1 - order) + (1 - heads) ** order * heads ** (1 - order)
        return mpmath.log(total) / (order - 1)

    ratios = [divergence(1 + mpmath.mpf(10) ** j) / (1 + mpmath.mpf(10) ** j) for j in (-9, -5, -2, -1, 0, 1, 2, 4)]
    assert max(ratios) <= rho
    assert max(ratios) >= rho * (1 - mpmath.mpf(10) ** -7)
    assert rho <= epsilon**2 / 2


@pytest.mark.parametrize(
    ("guarantee", "kind"),
    [
        (GaussianDP(1.0), PureDP),
        (ZeroConcentratedDP(1.0), PureDP),
        (ZeroConcentratedDP(1.0), GaussianDP),
        (ApproxDP(1.0, 1e-6), PureDP),
        (ApproxDP(1.0, 1e-6), ZeroConcentratedDP),
        (ApproxDP(1.0, 1e-6), GaussianDP),
    ],
)
def test_what_does_not_follow_is_refused_with_a_reason(guarantee: Guarantee, kind: type[Guarantee]) -> None:
    with pytest.raises(NoConversion, match=f"cannot be stated as {kind.__name__}: .+"):
        guarantee.to(kind)
    assert not guarantee.within(kind(900.0))


def test_a_constant_satisfies_every_kind() -> None:
    for kind in KINDS:
        for other in KINDS:
            assert kind(0.0).to(other) == other(0.0)
        assert kind(0.0).delta_at(0.0) == 0.0
        assert kind(0.0).epsilon_at(0.0) == 0.0


def test_approximate_without_failure_is_pure() -> None:
    assert ApproxDP(1.0, 0.0).to(PureDP) == PureDP(1.0)
    assert ApproxDP(1.0, 0.0).to(GaussianDP) == PureDP(1.0).to(GaussianDP)
    assert PureDP(1.0).to(ApproxDP) == ApproxDP(1.0, 0.0)


@given(parameter=parameters, delta=deltas)
@settings(max_examples=60)
def test_round_trips_never_gain(parameter: float, delta: float) -> None:
    for guarantee in anything(parameter, delta / 2):
        epsilon = guarantee.epsilon_at(delta)
        assert guarantee.delta_at(epsilon) <= delta
        if epsilon > 1e-6:
            assert guarantee.delta_at(epsilon * (1 - 1e-9)) > delta  # and it is the smallest such ε
        assert guarantee.within(guarantee.to(ApproxDP, delta=delta))


@pytest.mark.parametrize("parameter", [1e-300, 1e-12, 1e-3, 177.0, 1000.0])
@pytest.mark.parametrize("delta", [1e-320, 1e-300, 1e-12, 0.999999])
def test_round_trips_at_the_edge_of_the_floats(parameter: float, delta: float) -> None:
    for guarantee in [PureDP(parameter), ZeroConcentratedDP(parameter), GaussianDP(parameter)]:
        assert guarantee.delta_at(guarantee.epsilon_at(delta)) <= delta


# --- order, splitting, curves ---------------------------------------------------------------------------------


@given(low=parameters, factor=st.floats(1.0, 3.0), delta=deltas)
@settings(max_examples=40)
def test_more_is_never_within_less(low: float, factor: float, delta: float) -> None:
    high = low * factor
    for kind in KINDS:
        assert kind(low).within(kind(high))
        assert kind(low) <= kind(high)
        assert kind(high) >= kind(low)
        assert kind(high).within(kind(low)) == (high == low)
        assert kind(low).epsilon_at(delta) <= kind(high).epsilon_at(delta)


@given(parameter=parameters, weights=st.lists(st.floats(0.01, 10), min_size=1, max_size=8))
@settings(max_examples=60)
def test_split_parts_compose_to_at_most_the_whole(parameter: float, weights: list[float]) -> None:
    shares = PureDP(parameter).split(weights)
    assert sum((decimal(one.epsilon) for one in shares), Fraction(0)) <= decimal(parameter)
    shares = ZeroConcentratedDP(parameter).split(weights)
    assert sum((decimal(one.rho) for one in shares), Fraction(0)) <= decimal(parameter)
    shares = GaussianDP(parameter).split(weights)
    assert sum((decimal(one.mu) ** 2 for one in shares), Fraction(0)) <= decimal(parameter) ** 2
    for share, weight in zip(PureDP(parameter).split(weights), weights, strict=True):
        assert share.epsilon == pytest.approx(parameter * weight / sum(weights), rel=1e-12)


def test_split_into_equal_parts() -> None:
    assert PureDP(1.0).split(10) == (PureDP(0.1),) * 10
    assert GaussianDP(1.0).split(4) == (GaussianDP(0.5),) * 4
    assert ApproxDP(1.0, 1e-6).split(2) == (ApproxDP(0.5, 5e-7),) * 2


@given(parameter=st.floats(0.01, 8.0), delta=st.floats(0.0, 0.3))
@settings(max_examples=30)
def test_tradeoffs_are_convex_decreasing_and_below_guessing(parameter: float, delta: float) -> None:
    alpha = np.linspace(0, 1, 201)
    for guarantee in anything(parameter, delta):
        curve = np.asarray(guarantee.tradeoff(alpha))
        assert np.all(np.diff(curve) <= 1e-12)
        assert np.all(np.diff(curve, 2) >= -1e-12)
        assert np.all(curve <= 1 - alpha + 1e-12)
        assert np.all(curve >= 0)
        # Symmetry: f is its own inverse wherever it is positive.
        inner = curve > 1e-9
        again = np.asarray(guarantee.tradeoff(np.clip(curve[inner], 0, 1)))
        assert np.all(again <= alpha[inner] + 1e-9)


@given(parameter=st.floats(0.05, 5.0), epsilon=st.floats(0.0, 5.0))
@settings(max_examples=40)
def test_tradeoff_and_delta_are_two_views_of_one_curve(parameter: float, epsilon: float) -> None:
    alpha = np.linspace(0, 1, 4001)
    for guarantee in (PureDP(parameter), GaussianDP(parameter), ApproxDP(parameter, 0.01)):
        supremum = np.max(1 - np.asarray(guarantee.tradeoff(alpha)) - math.exp(epsilon) * alpha)
        assert guarantee.delta_at(epsilon) >= supremum - 1e-9
        assert guarantee.delta_at(epsilon) <= max(supremum, 0) + 2e-3 * math.exp(epsilon)


def test_written_and_read_back() -> None:
    for guarantee in anything(0.1, 1e-6):
        assert Guarantee.from_dict(guarantee.to_dict()) == guarantee
        assert len(guarantee.sentence()) > 20
        assert re.fullmatch(r"[εδρμ] = [\d.e-]+(, δ = [\d.e-]+)?", str(guarantee))
        assert type(guarantee).__name__ in repr(guarantee)


def test_guarantees_that_protect_nobody_have_words_too() -> None:
    for guarantee in (PureDP(900.0), ApproxDP(900.0, 1e-6), ZeroConcentratedDP(1000.0), GaussianDP(900.0)):
        assert "inf" not in guarantee.sentence()
    assert "e^900 times" in PureDP(900.0).sentence()
    assert "e^1232 times" in ZeroConcentratedDP(1000.0).sentence()  # ε at δ = 10⁻⁶ is beyond what ApproxDP takes


# --- refusals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("value", "error", "rule"),
    [
        (-1.0, InvalidParameter, "must not be negative"),
        (math.nan, InvalidParameter, "must be finite"),
        (math.inf, InvalidParameter, "must be finite"),
        (1e9, InvalidParameter, "even 10 protects little"),
        ("1", WrongType, "must be a real number"),
        (None, WrongType, "must be a real number"),
        (True, WrongType, "must be a real number"),
        (10**400, InvalidParameter, "too large for a 64-bit float"),
    ],
)
def test_refused_parameters(kind: type[Guarantee], value: object, error: type[Exception], rule: str) -> None:
    with pytest.raises(error, match=rule):
        kind(value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: g.delta_at(-1.0), "epsilon = -1.0: must not be negative"),
        (lambda g: g.delta_at([0.1, math.nan]), "epsilon = nan: must be finite"),
        (lambda g: g.delta_at("x"), "epsilon = 'x': must be a real number"),
        (lambda g: g.delta_at(["x"]), "must be real numbers"),
        (lambda g: g.epsilon_at(1.0), r"delta = 1.0: must lie in \[0, 1\)"),
        (lambda g: g.epsilon_at(-0.1), r"delta = -0.1: must lie in \[0, 1\)"),
        (lambda g: g.tradeoff(1.5), r"alpha = 1.5: must lie in \[0, 1\]"),
        (lambda g: g.tradeoff([math.nan]), r"must lie in \[0, 1\]"),
        (lambda g: g.tradeoff("x"), "must be real numbers"),
        (lambda g: g.to(float), "must be a guarantee class"),
        (lambda g: g.to(Guarantee), "must be a guarantee class"),
        (lambda g: g.to(type(g), delta=0.1), "has no meaning for"),
        (lambda g: g.split(0), "parts = 0: must be at least 1"),
        (lambda g: g.split(1.5), "parts = 1.5: must be an integer"),
        (lambda g: g.split([]), "must not be empty"),
        (lambda g: g.split([1.0, -1.0]), "weights = -1.0: must be positive"),
        (lambda g: g.within(1.0), "must be a Guarantee"),
        (lambda g: Guarantee.from_dict({"kind": "magic"}), "must be one of"),
        (lambda g: Guarantee.from_dict({"kind": "pure", "mu": 1.0}), "has the wrong fields"),
    ],
)
@pytest.mark.parametrize("guarantee", [PureDP(1.0), ZeroConcentratedDP(1.0), GaussianDP(1.0)], ids=str)
def test_refused_questions(guarantee: Guarantee, call: object, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        call(guarantee)


def test_refused_approximate() -> None:
    with pytest.raises(InvalidParameter, match=r"delta = 1.0: must lie in \[0, 1\)"):
        ApproxDP(1.0, 1.0)
    with pytest.raises(InvalidParameter, match="delta = None: is needed"):
        GaussianDP(1.0).to(ApproxDP)
    with pytest.raises(NoConversion, match="its own δ is larger"):
        ApproxDP(1.0, 1e-3).to(ApproxDP, delta=1e-6)


# --- rounding -----------------------------------------------------------------------------------------------------


@given(numerator=st.integers(-(10**40), 10**40), denominator=st.integers(1, 10**40))
def test_up_and_down_enclose_and_are_tight(numerator: int, denominator: int) -> None:
    ratio = Fraction(numerator, denominator)
    above, below = up(ratio), down(ratio)
    assert decimal(below) <= ratio <= decimal(above)
    assert decimal(math.nextafter(above, -math.inf)) < ratio
    assert decimal(math.nextafter(below, math.inf)) > ratio


@given(number=st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_stands_for_the_decimal_it_prints_as(number: float) -> None:
    assert float(decimal(number)) == number
    assert up(decimal(number)) == number
    assert down(decimal(number)) == number


def test_up_beyond_the_floats() -> None:
    assert up(Fraction(10) ** 400) == math.inf
    assert up(arb(10) ** 400) == math.inf
    assert up(arb(10) ** -(10**12)) == 5e-324
    assert up((arb(-1) * 10**80).exp() * arb(0, 1)) == 5e-324
    assert up(-(arb(10) ** -400)) == 0.0


@given(bound=st.floats(1e-300, 1e300), guess=st.floats(1e-300, 1e300))
def test_least_and_greatest_find_the_last_bit_from_any_guess(bound: float, guess: float) -> None:
    assert least(lambda x: x >= bound, guess) == bound
    assert greatest(lambda x: x <= bound, guess) == bound


def test_least_gives_up_loudly() -> None:
    with pytest.raises(ArithmeticError, match="no finite number"):
        least(lambda x: False, 1.0)


def test_thin_gets_past_cancellation() -> None:
    value = thin(lambda: (1 + arb(10) ** -200).log())
    with precisely():
        assert abs(value * arb(10) ** 200 - 1) < arb(10) ** -18


# --- sensitivity ----------------------------------------------------------------------------------------------------


def test_coordinates_fix_moves_and_norms_and_are_read_back() -> None:
    known = Sensitivity(coordinates=(1.0, 3.0, 2.0))
    assert (known.moves, known.l1, known.dimension) == ((3.0, 2.0, 1.0), 6.0, 3)
    assert Sensitivity.from_dict(json.loads(json.dumps(known.to_dict()))) == known
    for wrong in ({"l1": 1.0}, {"moves": (1.0,)}, {"dimension": 3}):
        with pytest.raises(InvalidParameter, match="coordinates"):
            Sensitivity(coordinates=(1.0, 3.0, 2.0), **wrong)
    for wrong in ((), "ab", 3.0, (0.0, 1.0)):
        with pytest.raises(DiscreetError, match="coordinates"):
            Sensitivity(coordinates=wrong)  # type: ignore[arg-type]


@given(moves=st.lists(st.floats(1e-200, 1e200), min_size=1, max_size=5))
def test_norms_of_moves_are_rounded_up(moves: list[float]) -> None:
    sensitivity = Sensitivity(moves=tuple(moves))
    total = sum(map(Fraction, moves))
    square = sum(Fraction(move) ** 2 for move in moves)
    assert Fraction(math.nextafter(sensitivity.l1, 0)) < total <= Fraction(sensitivity.l1)
    assert Fraction(math.nextafter(sensitivity.l2, 0)) ** 2 < square <= Fraction(sensitivity.l2) ** 2
    assert Sensitivity.from_dict(sensitivity.to_dict()) == sensitivity


def test_norms_follow_from_each_other() -> None:
    assert Sensitivity(l1=2.0).l2 == 2.0
    assert Sensitivity(l2=1.0, dimension=4).l1 == 2.0
    assert Sensitivity(l2=1.0).l1 is None
    assert Fraction(Sensitivity(l1=Fraction(1, 3)).l1) >= Fraction(1, 3)
    assert Sensitivity(moves=(1, 2)).moves == (2.0, 1.0)
    assert "ℓ₁ = 2" in str(Sensitivity(moves=(1, 1)))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "needs l1, l2, moves"),
        ({"l1": 0.0}, "l1 = 0.0: must be positive"),
        ({"l1": -1.0}, "must be positive"),
        ({"l1": math.nan}, "must be finite"),
        ({"l2": math.inf}, "must be finite"),
        ({"l1": "1"}, "must be a real number"),
        ({"l1": 1.0, "l2": 2.0}, "cannot exceed l1"),
        ({"l1": 1.0, "dimension": 0}, "dimension = 0: must be at least 1"),
        ({"l1": 1.0, "dimension": 1.5}, "must be an integer"),
        ({"moves": ()}, "must be a non-empty sequence"),
        ({"moves": "11"}, "must be a non-empty sequence"),
        ({"moves": (1, 0)}, "moves = 0: must be positive"),
        ({"moves": (1e308, 1e308)}, "too large for a 64-bit float"),
        ({"moves": (1, 1), "l1": 2.0}, "already fixes l1, l2 and linf"),
        ({"moves": (1, 1), "dimension": 1}, "more entries than dimension"),
    ],
)
def test_refused_sensitivities(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Sensitivity(**fields)


def test_a_mechanism_that_needs_l1_says_so() -> None:
    with pytest.raises(InvalidParameter, match=r"Pass Sensitivity\(l1=…\)"):
        Sensitivity(l2=1.0).require_l1()
