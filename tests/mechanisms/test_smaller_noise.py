"""(ε, δ) is met with whichever of Laplace and Gaussian noise is smaller."""

import math

import pytest

from discreet import ApproxDP, Bounds, Categories, GaussianDP, PureDP, Schema, ZeroConcentratedDP
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms import Gaussian, Laplace
from discreet.mechanisms.additive import additive_noise
from discreet.plans.planner import Planner

ONE = Sensitivity(moves=(1.0,))


def _deviation(mechanism: Laplace | Gaussian) -> float:
    return mechanism.scale * (math.sqrt(2) if isinstance(mechanism, Laplace) else 1.0)


@pytest.mark.parametrize("count", [1, 3, 10, 20, 37, 40])
@pytest.mark.parametrize("guarantee", [ApproxDP(1.0, 1e-6), ApproxDP(0.2, 1e-9), ApproxDP(6.0, 1e-12)])
def test_the_smaller_noise_is_chosen_and_keeps_the_promise(count: int, guarantee: ApproxDP) -> None:
    moves = Sensitivity(moves=(1.0,) * count)
    chosen = additive_noise(guarantee, moves)
    assert isinstance(chosen, Laplace | Gaussian)
    others = [kind.calibrate(guarantee, moves) for kind in (Laplace, Gaussian)]
    assert _deviation(chosen) == min(_deviation(other) for other in others)
    assert chosen.profile(moves).delta_at(guarantee.epsilon) <= guarantee.delta


def test_one_number_gets_no_more_noise_from_a_delta() -> None:
    for epsilon in (0.1, 1.0, 5.0):
        pure = _deviation(additive_noise(PureDP(epsilon), ONE))
        assert _deviation(additive_noise(ApproxDP(epsilon, 1e-6), ONE)) <= pure
        assert _deviation(additive_noise(ApproxDP(epsilon, 0.0), ONE)) == pure


@pytest.mark.parametrize("guarantee", [GaussianDP(1.0), ZeroConcentratedDP(0.5)])
def test_gaussian_noise_meets_its_own_kinds_with_less(guarantee: GaussianDP | ZeroConcentratedDP) -> None:
    assert isinstance(additive_noise(guarantee, ONE), Gaussian)


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("guarantee", [GaussianDP(9.0), GaussianDP(3.0), ZeroConcentratedDP(12.0)])
def test_the_least_variance_decides_for_every_kind(guarantee: GaussianDP | ZeroConcentratedDP, count: int) -> None:
    moves = Sensitivity(moves=(1.0,) * count)
    chosen = additive_noise(guarantee, moves)
    assert _deviation(chosen) == min(_deviation(kind.calibrate(guarantee, moves)) for kind in (Laplace, Gaussian))
    assert chosen.profile(moves).within(guarantee)


def test_a_sensitivity_without_l1_takes_gaussian_noise() -> None:
    assert additive_noise(ApproxDP(1.0, 1e-6), Sensitivity(l2=1.0)).name == "gaussian"


def test_a_comparison_gets_no_more_noise_from_a_delta() -> None:
    planner = Planner(Schema(columns={"arm": Categories(["a", "b"]), "income": Bounds(0, 100, grid=1)}))
    pure, approximate = (
        planner.compare_means("income", by="arm", guarantee=guarantee, expected_rows=1000)
        for guarantee in (PureDP(1.0), ApproxDP(1.0, 1e-6))
    )
    assert approximate.scale <= pure.scale
    assert approximate.standard_error <= pure.standard_error
