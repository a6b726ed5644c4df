"""Composition of guarantees: the table of rules, brute force, dp_accounting, and never less than the truth."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import mpmath
import pytest
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as peer
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.numbers import decimal
from discreet.mechanisms.composition import Responses, compose

mpmath.mp.dps = 30


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        ([PureDP(0.1)] * 10, PureDP(1.0)),
        ([PureDP(0.1), PureDP(0.2)], PureDP(0.3)),  # decimals, not 0.30000000000000004
        ([ZeroConcentratedDP(0.1)] * 3, ZeroConcentratedDP(0.3)),
        ([GaussianDP(0.5)] * 4, GaussianDP(1.0)),
        ([GaussianDP(0.3), GaussianDP(0.4)], GaussianDP(0.5)),
        ([ApproxDP(0.5, 1e-6), ApproxDP(0.25, 2e-6)], ApproxDP(0.75, 3e-6)),
        ([ApproxDP(0.5, 1e-6), PureDP(0.25)], ApproxDP(0.75, 1e-6)),
        ([ApproxDP(0.5, 0.0), PureDP(0.25)], PureDP(0.75)),
        ([ApproxDP(0.5, 0.0)], ApproxDP(0.5, 0.0)),
        ([PureDP(0.0), GaussianDP(1.0)], GaussianDP(1.0)),
        ([PureDP(0.0), PureDP(0.0)], PureDP(0.0)),
        ([GaussianDP(1.0), ZeroConcentratedDP(0.5)], ZeroConcentratedDP(1.0)),
    ],
)
def test_rules(parts: list[Guarantee], whole: Guarantee) -> None:
    assert compose(*parts) == whole
    assert compose(*parts[::-1]) == whole


def test_pure_parts_join_others_by_their_tight_conversion() -> None:
    mu = PureDP(0.5).to(GaussianDP).mu
    assert compose(PureDP(0.5), GaussianDP(1.0)).mu == pytest.approx(math.hypot(mu, 1.0), rel=1e-15)
    rho = PureDP(0.5).to(ZeroConcentratedDP).rho
    assert compose(PureDP(0.5), ZeroConcentratedDP(1.0)).rho == pytest.approx(1 + rho, rel=1e-15)


@given(mus=st.lists(st.floats(0.001, 5), min_size=1, max_size=6))
def test_root_sum_square_is_rounded_up_to_the_last_bit(mus: list[float]) -> None:
    square = sum(decimal(mu) ** 2 for mu in mus)
    whole = compose(*map(GaussianDP, mus)).mu
    assert decimal(whole) ** 2 >= square > decimal(math.nextafter(whole, 0)) ** 2


@given(parameter=st.floats(0.01, 10), count=st.integers(1, 12))
def test_split_and_composed_again_fits(parameter: float, count: int) -> None:
    for whole in (PureDP(parameter), ZeroConcentratedDP(parameter), GaussianDP(parameter), ApproxDP(parameter, 1e-6)):
        assert compose(*whole.split(count)).within(whole)


# --- optimal composition --------------------------------------------------------------------------------------------


def brute_force(parts: list[ApproxDP], epsilon: float) -> mpmath.mpf:
    """Every outcome of every failing response, one by one."""
    laws = []
    for part in parts:
        e, d = mpmath.mpf(repr(part.epsilon)), mpmath.mpf(repr(part.delta))
        heads = 1 / (1 + mpmath.exp(-e))
        laws.append(
            [(d, mpmath.mpf(0)), ((1 - d) * heads, (1 - d) * (1 - heads)), ((1 - d) * (1 - heads), (1 - d) * heads)]
        )
    factor, total = mpmath.exp(mpmath.mpf(repr(epsilon))), mpmath.mpf(0)
    for outcome in product(*laws):
        first = mpmath.fprod(p for p, _ in outcome)
        second = mpmath.fprod(q for _, q in outcome)
        total += max(mpmath.mpf(0), first - factor * second)
    return total


@pytest.mark.parametrize(
    "parts",
    [
        [ApproxDP(0.5, 0.0)] * 6,
        [ApproxDP(0.5, 1e-3)] * 6,
        [ApproxDP(0.3, 0.01), ApproxDP(0.7, 0.0), ApproxDP(0.3, 0.0), ApproxDP(1.1, 1e-4), ApproxDP(0.0, 0.02)],
    ],
)
def test_optimal_composition_is_the_brute_force_one(parts: list[ApproxDP]) -> None:
    responses = Responses(parts)
    for epsilon in (0.0, 0.25, 1.0, 2.2):
        true, reported = brute_force(parts, epsilon), mpmath.mpf(repr(responses.delta_at(epsilon)))
        assert true * (1 - mpmath.mpf(10) ** -25) <= reported <= true * (1 + mpmath.mpf(10) ** -14)
    for delta in (0.04, 0.05, 0.2, 0.5):
        epsilon = responses.epsilon_at(delta)
        assert responses.delta_at(epsilon) <= delta
        assert epsilon == 0 or responses.delta_at(epsilon * (1 - 1e-12)) > delta
        assert compose(*parts, delta=delta).epsilon <= epsilon


@pytest.mark.parametrize(("epsilon", "count"), [(0.1, 100), (0.5, 30), (0.01, 2000)])
def test_optimal_composition_against_the_formula_of_kairouz2015(epsilon: float, count: int) -> None:
    """Theorem 3.3: δ_i at ε_i = (k − 2i)·ε, from its own sum."""
    e = mpmath.mpf(repr(epsilon))
    for i in (count // 2, count // 3, count // 4):
        terms = [
            mpmath.binomial(count, j) * (mpmath.exp((count - j) * e) - mpmath.exp((count - 2 * i + j) * e))
            for j in range(i)
        ]
        true = mpmath.fsum(terms) / (1 + mpmath.exp(e)) ** count
        exact = float(Fraction(repr(epsilon)) * (count - 2 * i))
        assert Responses([ApproxDP(epsilon, 0.0)] * count).delta_at(exact) == pytest.approx(float(true), rel=1e-9)


def test_optimal_composition_against_dp_accounting() -> None:
    parameters = common.DifferentialPrivacyParameters(0.1, 1e-9)
    pessimistic = peer.from_privacy_parameters(parameters).self_compose(100)
    ours = compose(*[ApproxDP(0.1, 1e-9)] * 100, delta=1e-6).epsilon
    assert ours == pytest.approx(pessimistic.get_epsilon_for_delta(1e-6), rel=1e-3)
    assert ours <= pessimistic.get_epsilon_for_delta(1e-6)


# --- the best of several ways ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parts",
    [
        [PureDP(0.1)] * 50,
        [PureDP(0.1), GaussianDP(0.5)],
        [ApproxDP(0.1, 1e-7), GaussianDP(0.5)],
        [ApproxDP(0.1, 1e-7), ZeroConcentratedDP(0.125)],
        [PureDP(0.1), GaussianDP(0.5), ZeroConcentratedDP(0.01)],
        [PureDP(0.1 + i / 1000) for i in range(20)],
        [PureDP(20.0), GaussianDP(0.1)],
    ],
    ids=lambda parts: f"{len(parts)} parts, {parts[0]}",
)
@pytest.mark.parametrize("delta", [1e-6, 1e-12])
def test_the_best_way_is_never_worse_than_any(parts: list[Guarantee], delta: float) -> None:
    failing = sum(getattr(part, "delta", 0.0) for part in parts)
    if failing > delta:
        with pytest.raises(NoConversion, match="Raise delta"):
            compose(*parts, delta=delta)
        return
    best = compose(*parts, delta=delta)
    assert best.delta == delta
    if not failing:
        assert best.epsilon <= compose(*parts).epsilon_at(delta) * (1 + 1e-9)
    shares = [
        part.epsilon_at(max(getattr(part, "delta", 0.0), (delta - failing) / len(parts) / 1.01)) for part in parts
    ]
    assert best.epsilon <= sum(shares) * (1 + 1e-9)


def test_gaussian_parts_compose_exactly_at_any_delta() -> None:
    assert compose(*[GaussianDP(0.5)] * 4, delta=1e-6).epsilon == pytest.approx(GaussianDP(1.0).epsilon_at(1e-6))


@given(epsilons=st.lists(st.sampled_from([0.1, 0.2, 0.5]), min_size=1, max_size=10), delta=st.floats(1e-9, 0.1))
@settings(max_examples=40)
def test_optimal_composition_lies_between_the_largest_part_and_the_sum(epsilons: list[float], delta: float) -> None:
    whole = compose(*map(PureDP, epsilons), delta=delta)
    assert max(PureDP(e).epsilon_at(delta) for e in epsilons) <= whole.epsilon + 1e-12
    assert decimal(whole.epsilon) <= sum(map(decimal, epsilons))


def test_ten_thousand_parts() -> None:
    assert compose(*[ApproxDP(0.01, 1e-10)] * 10_000, delta=1e-5).epsilon < 5


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: compose(), "must not be empty"),
        (lambda: compose(1.0), "must be a Guarantee"),
        (lambda: compose([PureDP(1.0)]), "must be a Guarantee"),
        (lambda: compose(PureDP(1.0), None), "must be a Guarantee"),
        (lambda: compose(PureDP(1.0), delta=1.0), r"delta = 1.0: must lie in \[0, 1\)"),
        (lambda: compose(PureDP(1.0), delta=-0.1), "must lie in"),
        (lambda: compose(PureDP(1.0), delta="x"), "must be a real number"),
        (lambda: compose(ApproxDP(1.0, 1e-6), GaussianDP(1.0)), "delta = None: is needed"),
        (lambda: compose(ApproxDP(1.0, 1e-6), ZeroConcentratedDP(1.0)), "delta = None: is needed"),
        (lambda: compose(PureDP(600.0), PureDP(600.0)), "epsilon = 1200.0: must be at most 1000"),
        (lambda: compose(ApproxDP(1.0, 0.6), ApproxDP(1.0, 0.6)), "delta = 1.2: must lie in"),
    ],
)
def test_refusals(call: object, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        call()


def test_no_delta_below_the_parts_own() -> None:
    with pytest.raises(NoConversion, match="so no ε will do"):
        compose(ApproxDP(1.0, 1e-3), PureDP(1.0), delta=1e-4)
