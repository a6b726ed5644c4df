"""Laws against mpmath quadrature, and samplers that reject a scale five per cent off."""

import math

import mpmath
import numpy as np
import pytest

from discreet.core.errors import InvalidParameter, WrongType
from discreet.mechanisms.bounded.laplace import TruncatedLaplaceLaw
from discreet.mechanisms.gaussian import GaussianLaw
from discreet.mechanisms.laplace import LaplaceLaw
from discreet.testing import check_sampler

LAWS = {
    "laplace": LaplaceLaw(1.5, 2.0),
    "gaussian": GaussianLaw(-3.0, 0.5),
    "truncated": TruncatedLaplaceLaw(0.2, 0.1, 0.0, 1.0),
    "truncated, wide": TruncatedLaplaceLaw(0.9, 50.0, 0.0, 1.0),
    "truncated, half line": TruncatedLaplaceLaw(0.3, 0.5, 0.0, math.inf),
}


def densities(name):
    """The laws' densities, written down again for mpmath from their textbook definitions."""
    law = LAWS[name]
    c, b = mpmath.mpf(float(law.location)), mpmath.mpf(float(law.scale))
    shapes = {
        "laplace": lambda x: mpmath.exp(-abs(x - c) / b) / (2 * b),
        "gaussian": lambda x: mpmath.npdf(x, c, b),
    }
    return shapes.get(name, lambda x: mpmath.exp(-abs(x - c) / b))


def pieces(name):
    law = LAWS[name]
    low, high = (float(np.asarray(end)) for end in law.support)
    c, b = float(law.location), float(law.scale)
    inner = [c + k * b for k in (-60, -20, -5, -1, 0, 1, 5, 20, 60, 200) if low < c + k * b < high]
    return [max(low, c - 200 * b), *inner, min(high, c + 400 * b)]


@pytest.mark.parametrize("name", LAWS)
def test_moments_and_distribution_agree_with_quadrature(name):
    law, density, cuts = LAWS[name], densities(name), pieces(name)
    with mpmath.workdps(30):
        mass = mpmath.quad(density, cuts)
        mean = mpmath.quad(lambda x: x * density(x), cuts) / mass
        variance = mpmath.quad(lambda x: (x - mean) ** 2 * density(x), cuts) / mass
        assert law.mean == pytest.approx(float(mean), rel=1e-10, abs=1e-10)
        assert law.variance == pytest.approx(float(variance), rel=1e-10)
        assert law.mse == pytest.approx(float(variance + (mean - float(law.location)) ** 2), rel=1e-10)
        for q in (0.003, 0.2, 0.5, 0.77, 0.999):
            x = law.quantile(q)
            below = mpmath.quad(density, [cut for cut in cuts if cut < x] + [x]) / mass
            assert float(below) == pytest.approx(q, rel=1e-9)
            assert law.cdf(x) == pytest.approx(q, rel=1e-12)
            assert law.pdf(x) == pytest.approx(float(density(mpmath.mpf(x)) / mass), rel=1e-11)


@pytest.mark.parametrize("name", LAWS)
def test_exact_draws_follow_the_law(name):
    check_sampler(LAWS[name])


@pytest.mark.parametrize("name", LAWS)
def test_simulated_draws_follow_the_law_and_repeat(name):
    law = LAWS[name]
    check_sampler(law, rng=20260101)
    assert np.array_equal(law.sample(5, rng=3), law.sample(5, rng=3))


@pytest.mark.parametrize("factor", [0.95, 1.05])
@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_a_scale_five_per_cent_off_is_rejected(name, factor):
    law = LAWS[name]
    wrong = type(law)(float(law.location), float(law.scale) * factor)

    class Impostor:
        cdf, quantile, support = law.cdf, law.quantile, law.support

        @staticmethod
        def sample(size, rng=None):
            return wrong.sample(size, rng=rng)

    with pytest.raises(AssertionError):
        check_sampler(Impostor())


def test_draws_lie_on_the_grid_and_within_bounds():
    draws = LaplaceLaw(np.zeros(1000), 3.0, grid=0.25).sample()
    assert np.array_equal(draws * 4, np.round(draws * 4))
    bounded = TruncatedLaplaceLaw(np.full(1000, 0.11), 5.0, 0.1, 0.3).sample()
    assert bounded.min() >= 0.1
    assert bounded.max() <= 0.3


def test_shapes():
    law = GaussianLaw(np.zeros((2, 3)), 1.0)
    assert law.shape == (2, 3)
    assert law.sample().shape == (2, 3)
    assert law.sample(4).shape == (4, 2, 3)
    assert isinstance(GaussianLaw(0.0, 1.0).sample(), float)
    assert LaplaceLaw(0.0, 1.0).quantile([0.1, 0.9]).shape == (2,)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: LaplaceLaw(0.0, 0.0), InvalidParameter, "scale"),
        (lambda: LaplaceLaw(0.0, -1.0), InvalidParameter, "scale"),
        (lambda: LaplaceLaw(0.0, math.nan), InvalidParameter, "scale"),
        (lambda: LaplaceLaw(0.0, "wide"), WrongType, "scale"),
        (lambda: LaplaceLaw(math.nan, 1.0), InvalidParameter, "truth"),
        (lambda: LaplaceLaw([0.0, math.inf], 1.0), InvalidParameter, "truth"),
        (lambda: LaplaceLaw("ten", 1.0), WrongType, "truth"),
        (lambda: LaplaceLaw(0.0, 1.0, grid=0.1), InvalidParameter, "power of two"),
        (lambda: LaplaceLaw(0.0, 1.0, grid=0), InvalidParameter, "power of two"),
        (lambda: LaplaceLaw(0.0, 1.0, grid="fine"), WrongType, "grid"),
        (lambda: LaplaceLaw(0.0, 1.0).quantile(1.5), InvalidParameter, "q"),
        (lambda: LaplaceLaw(0.0, 1.0).sample(rng=-1), WrongType, "rng"),
        (lambda: LaplaceLaw(0.0, 1.0).sample(rng=True), WrongType, "rng"),
        (lambda: LaplaceLaw(0.0, 1.0).sample(rng="seed"), WrongType, "rng"),
        (lambda: TruncatedLaplaceLaw(0.5, 1.0, 1.0, 0.0), InvalidParameter, "lower"),
        (lambda: TruncatedLaplaceLaw(2.0, 1.0, 0.0, 1.0), InvalidParameter, "location"),
    ],
)
def test_refusals_name_what_is_wrong(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_a_refusal_does_not_print_the_truth():
    with pytest.raises(InvalidParameter) as caught:
        LaplaceLaw([123456.5, math.nan], 1.0)
    assert "123456" not in str(caught.value)
