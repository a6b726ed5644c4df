"""Gaussian noise conditioned on a domain: its law, its guarantee against integration, its draws and intervals."""

import itertools
import math

import numpy as np
import pytest
from mpmath import mp
from scipy import integrate, stats

from discreet import (
    ApproxDP,
    Bounds,
    GaussianDP,
    Ledger,
    Neighbours,
    PureDP,
    Schema,
    Session,
    ZeroConcentratedDP,
    release,
)
from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms import BoundaryInflatedLaplace, BoundedGaussian, Gaussian
from discreet.mechanisms.bounded.gaussian import TruncatedGaussianLaw
from discreet.questions.mean import MeanQuestion

DOMAINS = [(0.0, 1.0, 0.3), (0.0, 1.0, 5.0), (0.0, 1e-6, 1.0), (-2.0, 40.0, 1.0), (0.0, math.inf, 0.7)]


@pytest.mark.parametrize(("low", "high", "scale"), DOMAINS)
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 1.0])
def test_the_law_is_the_conditioned_density(low, high, scale, share):
    """Mean, variance, distribution function and quantiles against integrals in 30 digits."""
    truth = low + share * (min(high, 3.0) - low)
    law = TruncatedGaussianLaw(truth, scale, low, high)
    with mp.workdps(30):
        ends = [mp.mpf(low), mp.mpf(truth), mp.mpf(high) if math.isfinite(high) else mp.mpf(truth + 40 * scale)]
        density = lambda x: mp.exp(-(((x - truth) / mp.mpf(scale)) ** 2) / 2)  # noqa: E731
        total = mp.quad(density, ends)
        mean = mp.quad(lambda x: x * density(x), ends) / total
        variance = mp.quad(lambda x: (x - mean) ** 2 * density(x), ends) / total
        width = float(min(high, truth + 3 * scale)) - low
        assert float(law.mean) == pytest.approx(float(mean), rel=1e-12, abs=1e-13 * width)
        assert float(law.variance) == pytest.approx(float(variance), rel=1e-9)
        for part in (0.1, 0.6, 0.95):
            x = low + part * width
            found = mp.quad(density, [low, x] if x < truth else [low, truth, x]) / total
            assert float(law.cdf(x)) == pytest.approx(float(found), abs=1e-12)
            assert float(law.quantile(float(found))) == pytest.approx(x, rel=1e-7, abs=1e-9 * width)
    assert law.cdf(low) == 0.0
    assert law.support == (low, high)


def hockey_stick(first, second, epsilon, ends):
    """sup P(A) − e^ε·Q(A), where P/Q is monotone: the best set begins or ends where the ratio is e^ε."""
    found = 0.0
    grid = np.linspace(*ends, 4001)
    for one, other in ((first, second), (second, first)):
        gap = np.asarray(one.cdf(grid)) - math.exp(epsilon) * np.asarray(other.cdf(grid))
        found = max(found, float(gap.max()), float((1 - math.exp(epsilon) - gap).max()))
    return found


def test_conditioning_costs_nothing():
    """δ(ε) of all pairs of truths a move apart, at and off the ends, never exceeds that of plain Gaussian noise."""
    closest = 1.0
    for scale, change in itertools.product((0.05, 0.3, 2.0), (0.05, 0.3, 1.0)):
        mechanism = BoundedGaussian(scale=scale, bounds=(0.0, 1.0))
        claim = mechanism.profile(Sensitivity(l2=change))
        for start in np.linspace(0.0, 1.0 - change, 7):
            pair = mechanism.law(float(start)), mechanism.law(float(min(start + change, 1.0)))
            for epsilon in (0.0, 0.3, 1.0, 3.0):
                found = hockey_stick(*pair, epsilon, (0.0, 1.0))
                claimed = claim.delta_at(epsilon)
                assert found <= claimed + 1e-12
                if claimed > 1e-3:
                    closest = min(closest, claimed - found)
    assert closest < 1e-3  # inside a wide domain nothing is given away


def test_the_theorem_holds_on_a_triangle():
    """Conditioned on a polygon in the plane, for truths inside and outside of it: sums over a fine grid."""
    step = 0.01
    x, y = np.meshgrid(np.arange(0, 1, step) + step / 2, np.arange(0, 1, step) + step / 2)
    inside = (x + y < 1) & (y > 0.3 * x)
    points = np.stack([x[inside], y[inside]])
    for scale, (here, there) in itertools.product(
        (0.2, 1.0), [((0.2, 0.3), (0.5, 0.4)), ((-0.3, 0.0), (0.0, 0.2)), ((0.9, 0.1), (0.1, 0.9))]
    ):
        laws = []
        for truth in (here, there):
            weights = np.exp(-np.square(points - np.array(truth)[:, None]).sum(axis=0) / (2 * scale**2))
            laws.append(weights / weights.sum())
        mu = math.dist(here, there) / scale
        for epsilon in (0.0, 0.5, 1.5):
            claimed = GaussianDP(mu).delta_at(epsilon)
            for one, other in (laws, laws[::-1]):
                assert np.maximum(one - math.exp(epsilon) * other, 0).sum() <= claimed + 2e-3


def test_a_smaller_scale_would_be_found_out():
    """Planted fault: noise a tenth too small, in a wide domain, exceeds the claim."""
    claim = GaussianDP(1.0)
    weak = BoundedGaussian(scale=0.09, bounds=(0.0, 1.0))
    assert hockey_stick(weak.law(0.45), weak.law(0.55), 1.0, (0.0, 1.0)) > 1.1 * claim.delta_at(1.0)


@pytest.mark.parametrize("guarantee", [GaussianDP(0.7), ZeroConcentratedDP(0.2), ApproxDP(1.0, 1e-6)])
def test_the_scale_is_that_of_plain_noise(guarantee):
    move = Sensitivity(l2=0.1)
    made = BoundedGaussian.calibrate(guarantee, move, bounds=(0, 1))
    assert made.scale == Gaussian.calibrate(guarantee, move).scale
    assert made.guarantee(move, type(guarantee), **({"delta": 1e-6} if type(guarantee) is ApproxDP else {})).within(
        guarantee
    )
    whole = BoundedGaussian.calibrate(guarantee, Sensitivity(l2=5.0), bounds=(0, 1))
    assert whole.scale == Gaussian.calibrate(guarantee, Sensitivity(l2=1.0)).scale  # no number moves beyond its domain
    with pytest.raises(NoConversion):
        BoundedGaussian.calibrate(PureDP(1.0), move, bounds=(0, 1))


@pytest.mark.parametrize("kind", [BoundaryInflatedLaplace, BoundedGaussian])
def test_several_numbers_are_not_taken_for_one(kind):
    """A norm of 5 may be one number's, which cannot move beyond its interval of 1, or that of five numbers together."""
    guarantee = PureDP(1.0) if kind is BoundaryInflatedLaplace else GaussianDP(1.0)
    far = Sensitivity(l1=5.0)
    made = kind.calibrate(guarantee, far, bounds=(0, 1))
    ledger = Ledger(":memory:", budget=guarantee)
    with pytest.raises(InvalidParameter, match="does not say how a change is divided among 5"):
        release(Exact(np.full(5, 0.5), far), made, ledger=ledger)
    assert ledger.remaining() == guarantee
    said = Sensitivity(l1=5.0, dimension=5)
    wide = kind.calibrate(guarantee, said, bounds=(0, 1))
    assert wide.scale > made.scale
    assert release(Exact(np.full(5, 0.5), said), wide, ledger=ledger).value.shape == (5,)
    assert 0 <= release(Exact(0.5, far), made, rng=1).value <= 1


def test_draws_have_the_law_and_keep_to_the_domain():
    for low, high, scale, truth in ((0.0, 1.0, 0.4, 0.1), (0.0, math.inf, 0.4, 0.1), (-1.0, 1.0, 30.0, 1.0)):
        law = TruncatedGaussianLaw(truth, scale, low, high)
        for draws in (law.sample(20_000), law.sample(20_000, rng=1)):
            assert draws.min() >= low
            assert draws.max() <= high
            assert stats.kstest(draws, law.cdf).pvalue > 1e-6


@pytest.mark.parametrize("scale", [0.1, 0.6, 4.0])
def test_noise_intervals_cover_every_truth(scale):
    """Coverage by integration over the outputs, at both ends and between."""
    mechanism = BoundedGaussian(scale=scale, bounds=(0.0, 1.0))
    for truth in (0.0, 0.05, 0.5, 0.93, 1.0):
        law = mechanism.law(truth)
        outputs = np.asarray(law.quantile((np.arange(2000) + 0.5) / 2000))
        low, high = mechanism.noise_interval(outputs, 0.9)
        assert np.all(low <= np.maximum(outputs, 0))
        assert np.all(high >= np.minimum(outputs, 1))
        assert np.mean((low <= truth) & (truth <= high)) >= 0.9 - 1e-3
    half = BoundedGaussian(scale=scale, bounds=(0.0, None))
    low, high = half.noise_interval(np.array([0.0, 0.3, 50.0]), 0.95)
    assert low[0] == 0.0
    assert (low[2], high[2]) == pytest.approx((50 - 1.959964 * scale, 50 + 1.959964 * scale), abs=1e-5)


def test_the_stated_error_is_that_of_the_least_favourable_truth():
    mechanism = BoundedGaussian(scale=0.4, bounds=(0.0, 1.0))
    stated = mechanism.error(0.9)
    within = []
    for truth in np.linspace(0, 1, 21):
        law = mechanism.law(float(truth))
        within.append(integrate.quad(law.pdf, max(truth - stated, 0.0), min(truth + stated, 1.0), epsabs=1e-10)[0])
    assert min(within) == pytest.approx(0.9, abs=1e-9)


SCHEMA = Schema(columns={"x": Bounds(0, 20, grid=1, nulls=0)}, neighbours=Neighbours.REPLACE_ONE, size=200)


def test_a_bounded_mean_takes_the_noise_with_the_smaller_error():
    """Under μ and ρ conditioned Gaussian noise: less mean squared error than by default; under ε Laplace noise."""
    for guarantee in ({"mu": 0.2}, {"rho": 0.02}, {"epsilon": 0.2, "delta": 0.01}):
        plan = MeanQuestion(SCHEMA, "x", output="bounded", **guarantee).plan()
        assert plan.mechanism == "bounded_gaussian"
        measured = MeanQuestion(SCHEMA, "x", output="bounded", **guarantee).measurement
        default = MeanQuestion(SCHEMA, "x", **guarantee).measurement
        assert measured.forecast().squares[0] < default.standard_error() ** 2
    assert MeanQuestion(SCHEMA, "x", output="bounded", epsilon=0.2).plan().mechanism == "bounded_laplace"


def test_a_session_releases_it_with_intervals_that_hold():
    pa = pytest.importorskip("pyarrow")
    rows = np.random.default_rng(4).integers(0, 3, 200)
    held = 0
    for _ in range(40):
        session = Session(pa.table({"x": rows}), SCHEMA, ledger=":memory:", budget=GaussianDP(1.0))
        found = session.mean("x", mu=0.2, output="bounded")
        assert 0 <= float(found.value) <= 20
        interval = found.noise_interval(0.95)
        held += float(interval.low) <= rows.mean() <= float(interval.high)
    assert held >= 33
