"""Laws of bounded noise: moments against quadrature, liu2019's propositions, samplers, intervals."""

import math

import mpmath
import numpy as np
import pytest

from discreet import GaussianDP, PureDP
from discreet.core.errors import DiscreetError
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms import BoundaryInflatedLaplace, BoundedLaplace, Laplace
from discreet.mechanisms.bounded.laplace import ClampedLaplaceLaw, TruncatedLaplaceLaw, truncated_laplace_interval
from discreet.testing import check_calibration, check_mechanism, check_sampler

# Scales far above and far below the domain, truths at the ends, near them and in the middle.
SETTINGS = [
    (truth, scale, low, high)
    for scale in (1e-8, 0.1, 1.0, 1e8)
    for low, high in ((0.0, 1.0), (0.0, math.inf), (-math.inf, 1.0))
    for truth in (0.0, 1e-6, 0.2, 0.999)
    if not (scale > 1e3 and math.isinf(high - low))
]


def _moments(truth, scale, low, high):
    """Mean − truth, second moment around the truth and variance, by quadrature; conditioned and clamped."""
    with mpmath.workdps(30):
        s, b = mpmath.mpf(truth), mpmath.mpf(scale)
        start = mpmath.mpf(low) if math.isfinite(low) else s - 90 * b
        end = mpmath.mpf(high) if math.isfinite(high) else s + 90 * b
        cuts = sorted(
            {start, max(start, s - 80 * b), max(start, s - 9 * b), s, min(end, s + 9 * b), min(end, s + 80 * b), end}
        )
        mass, first, second = (
            mpmath.quad(lambda x, p=power: (x - s) ** p * mpmath.exp(-abs(x - s) / b) / (2 * b), cuts)
            for power in range(3)
        )
        left, right = mpmath.exp(-(s - start) / b) / 2, mpmath.exp(-(end - s) / b) / 2
        inflated = first + left * (start - s) + right * (end - s)
        squares = second + left * (start - s) ** 2 + right * (end - s) ** 2
        return [
            tuple(float(number) for number in (bias, around, around - bias**2))
            for bias, around in ((first / mass, second / mass), (inflated, squares))
        ]


def test_moments_against_quadrature():
    for truth, scale, low, high in SETTINGS:
        wanted = _moments(truth, scale, low, high)
        for kind, (bias, around, variance) in zip((TruncatedLaplaceLaw, ClampedLaplaceLaw), wanted, strict=True):
            law = kind(truth, scale, low, high)
            case = (kind, truth, scale, low, high)
            assert law.bias == pytest.approx(bias, rel=1e-10, abs=1e-13 * min(scale, high - low)), case
            assert law.mean == pytest.approx(truth + bias, rel=1e-10, abs=1e-15), case
            assert law.mse == pytest.approx(around, rel=1e-10), case
            assert law.variance == pytest.approx(variance, rel=1e-10), case


def test_printed_formulas_of_liu2019():
    """(6), (7), (9), (10) as printed, where they do not cancel."""
    s, b, low, high = 0.3, 0.4, 0.0, 1.0
    left, right = math.exp((low - s) / b), math.exp((s - high) / b)
    mean = s + ((b - low + s) / 2 * left - (b + high - s) / 2 * right) / (1 - left / 2 - right / 2)
    assert TruncatedLaplaceLaw(s, b, low, high).mean == pytest.approx(mean, rel=1e-14)
    assert ClampedLaplaceLaw(s, b, low, high).mean == pytest.approx(s + b / 2 * (left - right), rel=1e-14)
    half = s + (b - low + s) / 2 * left / (1 - left / 2)
    assert TruncatedLaplaceLaw(s, b, low, math.inf).mean == pytest.approx(half, rel=1e-14)
    assert ClampedLaplaceLaw(s, b, low, math.inf).mean == pytest.approx(s + b / 2 * left, rel=1e-14)
    upper = s - (b + high - s) / 2 * right / (1 - right / 2)
    assert TruncatedLaplaceLaw(s, b, -math.inf, high).mean == pytest.approx(upper, rel=1e-14)
    assert ClampedLaplaceLaw(s, b, -math.inf, high).mean == pytest.approx(s - b / 2 * right, rel=1e-14)


def test_mass_at_the_upper_end_is_the_tail():
    """liu2019 (5) prints 1 − ½·exp(−(c₁−s)/λ); the masses and the density only add up with ½·exp(−(c₁−s)/λ)."""
    law = ClampedLaplaceLaw(0.7, 0.2, 0.0, 1.0)
    lower, upper = law.masses
    inside = law.cdf(np.nextafter(1.0, 0.0)) - law.cdf(0.0)
    assert lower + inside + upper == pytest.approx(1.0, abs=1e-12)
    draws = law.sample(200_000, rng=1)
    assert np.mean(draws == 1.0) == pytest.approx(upper, abs=5 * math.sqrt(0.25 / 200_000))


def _random_settings(count, seed):
    rng = np.random.default_rng(seed)
    low = rng.normal(0, 3, count)
    high = low + np.exp(rng.normal(0, 2, count))
    truth = low + rng.random(count) * (high - low)
    scale = np.exp(rng.normal(-1, 3, count))
    return truth, scale, low, high


def test_proposition_1_direction_and_order_of_the_biases():
    truth, scale, low, high = _random_settings(20_000, 3)
    conditioned = TruncatedLaplaceLaw(truth, scale, low, high).bias
    clamped = ClampedLaplaceLaw(truth, scale, low, high).bias
    slack = 1e-14 * np.minimum(scale, high - low)
    side = np.sign((high - truth) - (truth - low))
    assert np.all(side * conditioned >= -slack)
    assert np.all(side * clamped >= -slack)
    assert np.all(np.abs(conditioned) >= np.abs(clamped) - slack)
    middle = (low + high) / 2
    assert np.all(np.abs(TruncatedLaplaceLaw(middle, scale, low, high).bias) <= 1e-12 * (high - low))


def test_proposition_2_mean_squared_error_is_at_most_that_of_laplace():
    truth, scale, low, high = _random_settings(20_000, 4)
    for law in (TruncatedLaplaceLaw(truth, scale, low, high), ClampedLaplaceLaw(truth, scale, low, high)):
        assert np.all(law.mse <= 2 * scale**2 * (1 + 1e-12))
    tiny = TruncatedLaplaceLaw(0.0, 1e-7, 0.0, 1.0).mse / ClampedLaplaceLaw(0.5, 1e-7, 0.0, 1.0).mse
    assert tiny == pytest.approx(1.0)


@pytest.mark.parametrize("kind", [TruncatedLaplaceLaw, ClampedLaplaceLaw])
@pytest.mark.parametrize("truth", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("scale", [0.05, 0.5])
def test_sampler_follows_the_law_and_no_other(kind, truth, scale):
    """Accepts the law (false alarm below 1e-5) and tells a spread 5 % off from it."""
    check_sampler(kind(truth, scale, 0.0, 1.0), 150_000)


@pytest.mark.parametrize("kind", [TruncatedLaplaceLaw, ClampedLaplaceLaw])
def test_quantile_inverts_the_distribution_function(kind):
    for truth, scale in [(0.0, 0.1), (0.3, 1e6), (0.3, 1e-4), (1.0, 2.0)]:
        law = kind(truth, scale, 0.0, 1.0)
        q = np.linspace(0.001, 0.999, 500)
        x = np.asarray(law.quantile(q))
        inside = (x > 0) & (x < 1)
        assert np.asarray(law.cdf(x))[inside] == pytest.approx(q[inside], rel=1e-9)
        assert law.cdf(-0.1) == 0.0
        assert law.cdf(1.0) == pytest.approx(1.0)


def test_short_domains_do_not_cancel():
    law = TruncatedLaplaceLaw(0.5, 1e9, 0.0, 1.0)
    x = np.array([1e-6, 0.25, 0.5, 0.75])
    assert law.cdf(x) == pytest.approx(x, rel=1e-8)


@pytest.mark.parametrize("bounds", [(0, 1), (0, None), (None, 1)], ids=str)
@pytest.mark.parametrize("scale", [0.02, 0.161, 1.0, 5.0])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_interval_covers_exactly_at_its_level(bounds, scale, level):
    """Coverage of the closed form by stratified quantiles: exact at every truth, the bounds included."""
    low, high = (-math.inf if bounds[0] is None else 0.0), (math.inf if bounds[1] is None else 1.0)
    for truth in (0.0, 0.001, 0.05, 0.3, 0.5, 0.97, 1.0):
        outcomes = TruncatedLaplaceLaw(truth, scale, low, high).quantile((np.arange(20_000) + 0.5) / 20_000)
        start, end = truncated_laplace_interval(outcomes, level, np.asarray(scale), low, high)
        assert np.all((start <= outcomes) & (outcomes <= end))
        assert np.mean((start <= truth) & (truth <= end)) == pytest.approx(level, abs=3e-4)


@pytest.mark.parametrize("truth", [0.0, 0.02, 0.5, 1.0])
def test_clamped_interval_covers(truth):
    made = BoundaryInflatedLaplace(scale=0.3, bounds=(0, 1))
    draws = made.law(truth).sample(40_000, rng=2)
    low, high = made.noise_interval(draws, 0.9)
    covered = np.mean((low <= truth) & (truth <= high))
    assert covered >= 0.9 - 5 * math.sqrt(0.09 / 40_000)


@pytest.mark.parametrize("guarantee", [PureDP(1.0), GaussianDP(0.5)], ids=str)
@pytest.mark.parametrize("bounds", [(0, 1), (0, None)], ids=str)
def test_boundary_inflated_conformance(guarantee, bounds):
    """Clamping loses nothing of the Laplace loss for truths inside: the claim is tight."""
    sensitivity = Sensitivity(l1=0.1)
    (made,) = check_calibration(BoundaryInflatedLaplace, [guarantee], sensitivity, bounds=bounds)
    assert made.scale == Laplace.calibrate(guarantee, sensitivity).scale
    report = check_mechanism(made, sensitivity, truths=(0.0, 0.45), draws=60_000)
    assert report.tightness >= 0.99


def test_boundary_inflated_counts_no_more_than_the_domain():
    made = BoundaryInflatedLaplace.calibrate(PureDP(1.0), Sensitivity(l1=9.0), bounds=(0, 2))
    assert made.scale == 2.0
    spread = BoundaryInflatedLaplace.calibrate(PureDP(1.0), Sensitivity(l1=9.0, dimension=8), bounds=(0, 2))
    assert spread.scale == 9.0
    moves = BoundaryInflatedLaplace.calibrate(PureDP(1.0), Sensitivity(moves=(3, 1)), bounds=(0, 2))
    assert moves.scale == 3.0


def test_expected_error_holds_at_the_worst_truth():
    for made in (BoundedLaplace(scale=0.1, bounds=(0, 1)), BoundaryInflatedLaplace(scale=0.1, bounds=(0, 1))):
        error = made.error(0.9)
        inside = [made.law(t).cdf(t + error) - made.law(t).cdf(t - error - 1e-12) for t in np.linspace(0, 1, 21)]
        assert min(inside) == pytest.approx(0.9, abs=1e-9)


@pytest.mark.parametrize(
    "build",
    [
        lambda: ClampedLaplaceLaw(2.0, 1.0, 0.0, 1.0),
        lambda: ClampedLaplaceLaw(0.5, 1.0, 1.0, 0.0),
        lambda: ClampedLaplaceLaw(0.5, -1.0, 0.0, 1.0),
        lambda: BoundaryInflatedLaplace(scale=0.0, bounds=(0, 1)),
        lambda: BoundaryInflatedLaplace(scale=1.0, bounds=(0, 0)),
        lambda: BoundaryInflatedLaplace(scale=1.0, bounds=(None, None)),
        lambda: BoundaryInflatedLaplace.calibrate(PureDP(1.0), Sensitivity(l1=1.0)),
        lambda: BoundaryInflatedLaplace.calibrate(PureDP(0.0), Sensitivity(l1=1.0), bounds=(0, 1)),
        lambda: BoundaryInflatedLaplace(scale=1.0, bounds=(0, 1)).law(math.nan),
    ],
)
def test_refusals(build):
    with pytest.raises(DiscreetError):
        build()


def test_a_law_outside_its_domain_is_the_law_at_the_nearer_end():
    """exp(−|s − x|/λ), normalised over [0, 1], does not depend on s beyond the end (errata, withdrawn E6)."""
    x = np.linspace(0, 1, 2001)
    for outside, end in ((1.7, 1.0), (-0.4, 0.0)):
        densities = [np.exp(-np.abs(centre - x) / 0.3) for centre in (outside, end)]
        beyond, at_end = (density / density.sum() for density in densities)
        assert np.allclose(beyond, at_end, rtol=1e-12)
