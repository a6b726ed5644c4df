"""Privacy-loss distributions: both bounds against closed forms, a brute-force convolution and dp_accounting."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as peer
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import ApproxDP, GaussianDP, Profile, PureDP, ZeroConcentratedDP
from discreet.mechanisms.composition import ComposedProfile, ResponseProfile, Responses, compose_curves
from discreet.mechanisms.gaussian import GaussianProfile
from discreet.mechanisms.laplace import LaplaceProfile
from discreet.mechanisms.loss_distribution import (
    Convolution,
    CurveProfile,
    Lattice,
    curve_loss,
    gaussian_loss,
    laplace_loss,
    response_loss,
)

HALF = Fraction(1, 2)


# --- one loss on a lattice --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "loss",
    [
        laplace_loss(Fraction(1)),
        laplace_loss(Fraction(1, 7)),
        laplace_loss(Fraction(30)),
        gaussian_loss(Fraction(1)),
        gaussian_loss(Fraction(1, 10**6)),
        response_loss(0.7, 0.01),
        response_loss(0.1, 0.0),
        curve_loss(LaplaceProfile([1])._delta, 1.0),
    ],
    ids=["laplace 1", "laplace 1/7", "laplace 30", "gaussian 1", "gaussian 0.001", "failing", "response", "curve"],
)
@pytest.mark.parametrize("step", [2.0**-3, 2.0**-7, 2.0**-11])
def test_both_neighbours_keep_their_probability(loss: object, step: float) -> None:
    lattice = Lattice.of(loss, step)
    first, second = lattice.masses.sum(), (lattice.masses * np.exp(-lattice.losses)).sum()
    assert first == pytest.approx(1 - loss.infinite, abs=1e-10)
    assert second == pytest.approx(1 - loss.infinite, abs=1e-10)
    assert first >= 1 - loss.infinite  # rounded up, never down


# --- bounds against closed forms ----------------------------------------------------------------------------------

CASES = [
    ([(laplace_loss(Fraction(1)), 1)], LaplaceProfile([1]), 1.0),
    ([(laplace_loss(Fraction(1, 10)), 40)], LaplaceProfile([Fraction(1, 10)] * 40), 4.0),
    (
        [(laplace_loss(HALF), 2), (laplace_loss(Fraction(1, 3)), 3)],
        LaplaceProfile([HALF] * 2 + [Fraction(1, 3)] * 3),
        2,
    ),
    ([(gaussian_loss(Fraction(1)), 1)], GaussianProfile(1), 20.0),
    ([(gaussian_loss(Fraction(1, 4)), 4)], GaussianProfile(1), 20.0),
    ([(gaussian_loss(Fraction(9, 100)), 4), (gaussian_loss(Fraction(16, 25)), 1)], GaussianProfile(1), 9.0),
]


@pytest.mark.parametrize(("losses", "profile", "top"), CASES)
def test_bounds_enclose_the_closed_form_and_are_tight(losses: list, profile: Profile, top: float) -> None:
    convolution = Convolution(losses)
    for epsilon in np.linspace(0, 0.9 * top, 4).tolist():
        true = profile.delta_at(epsilon)
        lower, upper = convolution.lower(epsilon), convolution.upper(epsilon)
        assert lower <= true <= upper
        assert upper <= true * (1 + 1e-3)  # relative, even at δ = 1e-80
        assert lower >= true * 0.8


@given(
    epsilons=st.lists(st.sampled_from([0.05, 0.3, 1.0]), min_size=1, max_size=30),
    delta=st.sampled_from([0.0, 1e-6]),
    share=st.floats(0, 0.9),
)
@settings(max_examples=12)
def test_bounds_enclose_composed_responses(epsilons: list[float], delta: float, share: float) -> None:
    parts = [ApproxDP(epsilon, delta) for epsilon in epsilons]
    composed = ComposedProfile([ResponseProfile(epsilon, delta) for epsilon in epsilons])
    epsilon = share * sum(epsilons)
    lower, upper = composed.bounds_at(epsilon)
    true = Responses(parts).delta_at(epsilon)
    assert lower <= true <= upper
    assert upper <= true * 1.02 + 1e-300


def test_convolution_is_the_brute_force_one() -> None:
    """All 3^4 sums of four losses on a lattice of three points each, exactly."""
    losses = [response_loss(0.5, 0.0), response_loss(0.25, 0.125), response_loss(1.0, 0.0), response_loss(0.75, 0.0)]
    convolution = Convolution([(loss, 1) for loss in losses])
    for epsilon in (0.0, 0.6, 1.9):
        true = 1 - math.prod(1 - loss.infinite for loss in losses)
        for outcome in product(*(loss.atoms for loss in losses)):
            total, chance = sum(loss for loss, _ in outcome), math.prod(mass for _, mass in outcome)
            true += chance * max(0.0, -math.expm1(epsilon - total))
        assert convolution.upper(epsilon) == pytest.approx(true, rel=1e-6)
        assert convolution.lower(epsilon) <= true * (1 + 1e-12) <= convolution.upper(epsilon) * (1 + 2e-12)


def test_many_repetitions_by_powers() -> None:
    convolution = Convolution([(gaussian_loss(Fraction(1, 1000)), 1000)])
    for epsilon in (0.0, 2.0, 5.0):
        true = GaussianProfile(1).delta_at(epsilon)
        assert convolution.lower(epsilon) <= true <= convolution.upper(epsilon) <= true * (1 + 1e-5)


# --- dp_accounting ------------------------------------------------------------------------------------------------


def pair(build: object) -> tuple[object, object]:
    """dp_accounting's pessimistic and optimistic estimates."""
    return build(True), build(False)


@pytest.mark.parametrize("case", ["laplace", "mixed", "responses"])
def test_bounds_agree_with_dp_accounting(case: str) -> None:
    if case == "laplace":
        profile = ComposedProfile([LaplaceProfile([HALF])] * 10)
        pessimistic, optimistic = pair(
            lambda p: peer.from_laplace_mechanism(2.0, pessimistic_estimate=p).self_compose(10)
        )
    elif case == "mixed":
        profile = compose_curves([LaplaceProfile([HALF])] * 3 + [GaussianProfile(HALF)] * 4)

        def build(p: bool) -> object:
            laplace = peer.from_laplace_mechanism(2.0, pessimistic_estimate=p).self_compose(3)
            return laplace.compose(peer.from_gaussian_mechanism(2.0, pessimistic_estimate=p).self_compose(4))

        pessimistic, optimistic = pair(build)
    else:
        profile = ComposedProfile([ResponseProfile(0.25, 1e-7)] * 12)
        parameters = common.DifferentialPrivacyParameters(0.25, 1e-7)
        pessimistic = peer.from_privacy_parameters(parameters).self_compose(12)
        optimistic = None
    for epsilon in (0.0, 1.0, 2.0):
        lower, upper = profile.bounds_at(epsilon)
        assert lower <= pessimistic.get_delta_for_epsilon(epsilon)
        assert upper <= pessimistic.get_delta_for_epsilon(epsilon) * (1 + 1e-3) + 1e-12
        if optimistic is not None:
            assert upper >= optimistic.get_delta_for_epsilon(epsilon)


# --- composed profiles --------------------------------------------------------------------------------------------


def test_exact_forms_are_used_where_there_are_any() -> None:
    assert compose_curves([GaussianProfile(3), GaussianProfile(4)]) == GaussianProfile(5)
    assert compose_curves([LaplaceProfile([1, 2]), LaplaceProfile([3])]) == LaplaceProfile([1, 2, 3])
    irrational = compose_curves([GaussianProfile(1)] * 2)
    assert isinstance(irrational, GaussianProfile)
    assert 0 < irrational.mu**2 - 2 < Fraction(1, 10**30)
    mixed = compose_curves([LaplaceProfile([1]), GaussianProfile(1), LaplaceProfile([1])])
    assert isinstance(mixed, ComposedProfile)
    assert mixed == compose_curves([GaussianProfile(1), compose_curves([LaplaceProfile([1, 1])])])
    assert mixed.to_dict()["profile"] == "composed"
    assert "together with" in str(mixed)


def test_composed_guarantees() -> None:
    both = compose_curves([LaplaceProfile([1]), ResponseProfile(0.5)])
    assert both.pure() == PureDP(1.5)
    assert both.gaussian().mu == pytest.approx(
        math.hypot(LaplaceProfile([1]).gaussian().mu, PureDP(0.5).to(GaussianDP).mu)
    )
    rho = LaplaceProfile([1]).concentrated().rho + PureDP(0.5).to(ZeroConcentratedDP).rho
    assert both.concentrated().rho == pytest.approx(rho)
    for epsilon in (0.0, 0.4, 1.2):
        for guarantee in (both.pure(), both.gaussian(), both.concentrated()):
            assert both.delta_at(epsilon) <= guarantee.delta_at(epsilon) * (1 + 1e-6)
    with pytest.raises(NoConversion):
        compose_curves([LaplaceProfile([1]), GaussianProfile(1)]).pure()


def test_composed_epsilon_inverts_delta() -> None:
    both = compose_curves([LaplaceProfile([HALF]), GaussianProfile(HALF)])
    for delta in (0.3, 1e-6, 1e-30):
        epsilon = both.epsilon_at(delta)
        assert both.delta_at(epsilon) <= delta
        assert epsilon == 0 or both.delta_at(epsilon * (1 - 1e-6)) > delta
    assert both.epsilon_at(0.0) == math.inf
    assert 0 < both.error_bound < 1e-3


def test_composed_tradeoff_encloses_that_of_the_exact_product() -> None:
    alpha = np.linspace(0.01, 0.99, 25)
    numerical = np.asarray(ComposedProfile([LaplaceProfile([HALF, HALF])]).tradeoff(alpha))
    exact = np.asarray(LaplaceProfile([HALF, HALF]).tradeoff(alpha))
    assert np.all(numerical <= exact + 1e-15)
    np.testing.assert_allclose(numerical, exact, atol=1e-4)


class KnownCurve(CurveProfile):
    """A third party's profile that knows nothing but its curve."""

    def _delta(self, epsilon: float) -> float:
        return LaplaceProfile([1])._delta(epsilon)

    def _epsilon(self, delta: float) -> float:
        return LaplaceProfile([1])._epsilon(delta)

    def _reach(self) -> float:
        return 1.0

    def gaussian(self) -> GaussianDP:
        return LaplaceProfile([1]).gaussian()

    def pure(self) -> PureDP:
        return PureDP(1.0)

    def concentrated(self) -> ZeroConcentratedDP:
        return LaplaceProfile([1]).concentrated()

    def to_dict(self) -> dict[str, object]:
        return {}


def test_a_profile_that_is_only_a_curve_composes_from_above() -> None:
    from_curves = compose_curves([KnownCurve(), KnownCurve()])
    exact = LaplaceProfile([1, 1])
    for epsilon in (0.0, 0.5, 1.5, 1.9):
        assert exact.delta_at(epsilon) <= from_curves.delta_at(epsilon) <= exact.delta_at(epsilon) * 1.01


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: compose_curves([]), "must not be empty"),
        (lambda: compose_curves([1.0]), "must be a Profile"),
        (lambda: ComposedProfile([PureDP(1.0)]), "must be a Profile"),
        (lambda: ComposedProfile([ResponseProfile(1.0)]).bounds_at(-1.0), "must not be negative"),
        (lambda: ResponseProfile(-1.0), "epsilon = -1.0: must not be negative"),
        (lambda: ResponseProfile(1.0, 1.0), "delta = 1.0: must lie in"),
    ],
)
def test_refusals(call: object, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        call()
