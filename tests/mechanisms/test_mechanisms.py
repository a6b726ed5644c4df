"""Laplace and Gaussian through the conformance kit, calibrated to every kind of guarantee."""

import math

import numpy as np
import pytest

from discreet import ApproxDP, GaussianDP, PureDP, ZeroConcentratedDP
from discreet.core.errors import DiscreetError, InvalidParameter, NoConversion, WrongType
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms import Gaussian, Laplace
from discreet.testing import check_calibration, check_mechanism

UNIT = Sensitivity(l1=1.0, l2=1.0)
EVERY_KIND = [
    PureDP(1.0),
    PureDP(0.05),
    ApproxDP(1.0, 0.01),
    ApproxDP(0.1, 1e-6),
    ZeroConcentratedDP(0.5),
    ZeroConcentratedDP(0.01),
    GaussianDP(1.0),
    GaussianDP(0.1),
]
WITHOUT_PURE = [guarantee for guarantee in EVERY_KIND if not isinstance(guarantee, PureDP)]


@pytest.mark.parametrize("size", [0.01, 1.0, 300.0])
@pytest.mark.parametrize("guarantee", EVERY_KIND, ids=str)
def test_laplace_calibration_is_met_and_tight(guarantee, size):
    check_calibration(Laplace, [guarantee], Sensitivity(l1=size))


@pytest.mark.parametrize("size", [0.01, 1.0, 300.0])
@pytest.mark.parametrize("guarantee", WITHOUT_PURE, ids=str)
def test_gaussian_calibration_is_met_and_tight(guarantee, size):
    check_calibration(Gaussian, [guarantee], Sensitivity(l2=size))


@pytest.mark.parametrize(
    "mechanism",
    [
        Laplace.calibrate(PureDP(1.0), UNIT),
        Laplace.calibrate(PureDP(0.1), UNIT),
        Laplace.calibrate(GaussianDP(1.0), UNIT),
        Gaussian.calibrate(GaussianDP(1.0), UNIT),
        Gaussian.calibrate(ApproxDP(1.0, 1e-5), UNIT),
    ],
    ids=str,
)
def test_conformance(mechanism):
    check_mechanism(mechanism, UNIT, truths=(0.0, 1e6 + 0.1))


class Underscaled(Laplace):
    """A planted fault: claims the profile of its scale but draws ten per cent less noise."""

    name = "underscaled"

    def law(self, truth):
        return type(super().law(truth))(truth, self.scale * 0.9)


def test_the_kit_finds_a_mechanism_that_draws_too_little():
    with pytest.raises(AssertionError):
        check_mechanism(Underscaled(1.0), UNIT)


def test_two_coordinates_cost_less_than_their_sum():
    """The exact loss of a record that moves two cells, by summing the product density over a fine mesh."""
    moves, scale = Sensitivity(moves=(1, 1)), 2.0
    mu = Laplace(scale).guarantee(moves, GaussianDP).mu
    assert mu < Laplace(scale).guarantee(Sensitivity(l1=2.0), GaussianDP).mu
    grid = np.linspace(-40, 40, 3201)
    middle = (grid[1:] + grid[:-1]) / 2
    x, y = np.meshgrid(middle, middle)
    p = np.exp(-(np.abs(x) + np.abs(y)) / scale) / (4 * scale**2)
    q = np.exp(-(np.abs(x - 1) + np.abs(y - 1)) / scale) / (4 * scale**2)
    found = np.maximum(p - math.exp(0.4) * q, 0).sum() * (grid[1] - grid[0]) ** 2
    assert Laplace(scale).profile(moves).delta_at(0.4) == pytest.approx(found, rel=2e-3)


def test_golden_scales():
    # lee2022, Section 4.2: scales of the tight Laplace mechanism on tables; the rest from the closed forms.
    table = Sensitivity(moves=(1, 1))
    for mu, scale in ((0.1, 15.489098), (0.3, 5.006956), (1.0, 1.358905)):
        assert Laplace.calibrate(GaussianDP(mu), table).scale == pytest.approx(scale, abs=5e-7)
    assert Laplace.calibrate(PureDP(1.0), Sensitivity(l1=2.0)).scale == 2.0
    assert Laplace.calibrate(ApproxDP(1.0, 0.01), UNIT).scale == pytest.approx(1 / (1 - 2 * math.log(0.99)), rel=1e-14)
    assert Gaussian.calibrate(GaussianDP(0.5), Sensitivity(l2=1.0)).scale == 2.0
    assert Gaussian.calibrate(ZeroConcentratedDP(0.5), Sensitivity(l2=1.0)).scale == 1.0
    # balle2018: analytic Gaussian mechanism at (1, 1e-5), computed by their published algorithm.
    assert Gaussian.calibrate(ApproxDP(1.0, 1e-5), Sensitivity(l2=1.0)).scale == pytest.approx(3.730632, abs=5e-7)


def test_vectors_are_drawn_coordinate_by_coordinate():
    draw = Laplace(1.0).draw(np.arange(6.0).reshape(2, 3))
    assert draw.shape == (2, 3)
    low, high = Laplace(1.0).noise_interval(draw, 0.95)
    assert np.allclose(high - low, 2 * math.log(20), rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: Laplace(0.0), InvalidParameter, "scale"),
        (lambda: Laplace(-1.0), InvalidParameter, "scale"),
        (lambda: Laplace(math.nan), InvalidParameter, "scale"),
        (lambda: Laplace(math.inf), InvalidParameter, "scale"),
        (lambda: Laplace("1"), WrongType, "scale"),
        (lambda: Laplace(True), WrongType, "scale"),
        (lambda: Laplace(1.0, grid=0.3), InvalidParameter, "grid"),
        (lambda: Gaussian(0.0), InvalidParameter, "scale"),
        (lambda: Laplace.calibrate(1.0, UNIT), WrongType, "guarantee"),
        (lambda: Laplace.calibrate(PureDP(1.0), 1.0), WrongType, "sensitivity"),
        (lambda: Laplace.calibrate(PureDP(0.0), UNIT), DiscreetError, "epsilon"),
        (lambda: Laplace.calibrate(PureDP(1.0), Sensitivity(l2=1.0)), InvalidParameter, "l1"),
        (lambda: Gaussian.calibrate(PureDP(1.0), UNIT), NoConversion, "PureDP"),
        (lambda: Gaussian(1.0).guarantee(UNIT, PureDP), NoConversion, "PureDP"),
        (lambda: Gaussian(1.0).guarantee(UNIT, ApproxDP), InvalidParameter, "delta"),
        (lambda: Laplace(1.0).law(math.nan), InvalidParameter, "truth"),
    ],
)
def test_refusals_name_what_is_wrong(call, error, text):
    with pytest.raises(error, match=text):
        call()
