"""Box noise: its law against mpmath, its curve against brute force, its joint sampler against both."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import ApproxDP, GaussianDP, Ledger, PureDP, Release, ZeroConcentratedDP, release
from discreet.core.errors import DiscreetError, InvalidParameter
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.inference.noise import excess_kurtosis
from discreet.mechanisms import BoxNoise, Laplace
from discreet.mechanisms.box_noise import BoxLaw, _BoxFamily
from discreet.testing import check_calibration, check_mechanism, check_sampler

EVERY_KIND = [PureDP(1.0), PureDP(0.05), ApproxDP(1.0, 0.01), ZeroConcentratedDP(0.5), GaussianDP(1.0)]


def over_radius(k, given_radius, start):
    """The mean of something over the radius, which is a gamma variable of shape k + 1."""
    weight = lambda r: r**k * mpmath.exp(-r) / mpmath.factorial(k)  # noqa: E731
    return mpmath.quad(lambda r: weight(r) * given_radius(r), [start, start + k, start + 3 * k + 20, start + 400])


@pytest.mark.parametrize("k", [1, 2, 7, 55])
def test_law_against_mpmath(k):
    law = BoxLaw(3.0, 2.0, dimension=k)
    for x in (0.0, 0.5, 3.0, float(k), 2.0 * k + 5):
        density = over_radius(k, lambda r: 1 / (2 * r), x)
        above = over_radius(k, lambda r, x=x: (r - x) / (2 * r), x)
        assert law.pdf(3 + 2 * x) == pytest.approx(float(density) / 2, rel=1e-9)
        assert law.cdf(3 - 2 * x) == pytest.approx(float(above), rel=1e-9)
        assert law.cdf(3 + 2 * x) == pytest.approx(1 - float(above), rel=1e-9)
    assert law.variance == pytest.approx(4 * float(over_radius(k, lambda r: r * r / 3, 0)), rel=1e-9)


def test_one_number_has_laplace_noise():
    box, laplace = BoxLaw(1.0, 3.0, dimension=1), Laplace(3.0).law(1.0)
    for x in (-20.0, 0.0, 1.0, 4.0):
        assert box.pdf(x) == pytest.approx(laplace.pdf(x), rel=1e-12)
        assert box.cdf(x) == pytest.approx(laplace.cdf(x), rel=1e-12)
    assert box.variance == laplace.variance


@given(st.integers(1, 300), st.floats(0.001, 0.999))
def test_quantiles_invert_the_distribution_function(k, q):
    law = BoxLaw(0.0, 1.5, dimension=k)
    assert law.cdf(law.quantile(q)) == pytest.approx(q, rel=1e-9)
    assert law.quantile(1 - q) == pytest.approx(-law.quantile(q), rel=1e-6, abs=1e-9)


def test_ends_of_the_law():
    law = BoxLaw(0.0, 1.0, dimension=4)
    assert law.quantile([0.0, 0.5, 1.0]).tolist() == [-math.inf, 0.0, math.inf]
    assert (law.cdf(-math.inf), law.cdf(math.inf)) == (0.0, 1.0)


@pytest.mark.parametrize("weights", [(1,), (1, 1), (3, -1, 0.5)])
def test_weighted_sums_have_the_kurtosis_of_the_proof(weights):
    k, w = 6, np.array(weights, dtype=float)
    ratio = float((w**4).sum() / (w**2).sum() ** 2)
    claimed = (k + 3) * (k + 4) / ((k + 1) * (k + 2)) * (3 - 1.2 * ratio) - 3
    drawn = np.asarray(BoxLaw(np.zeros(k), 1.0, dimension=k).sample(400_000, rng=3))[:, : w.size] @ w
    assert np.mean(drawn**2) == pytest.approx((w**2).sum() * (k + 1) * (k + 2) / 3, rel=0.01)
    assert np.mean(drawn**4) / np.mean(drawn**2) ** 2 - 3 == pytest.approx(claimed, abs=0.06)
    if w.size == 1:
        assert excess_kurtosis(BoxLaw(0.0, 1.0, dimension=k)) == pytest.approx(claimed, abs=1e-6)


def curve(moves, epsilon, reach=12.0, cells=240):
    """δ(ε) for a truth that moves so, by adding up a fine grid of outputs in two or three dimensions."""
    k = len(moves)
    points = (np.arange(2 * cells) + 0.5) / cells * reach - reach
    grid = np.meshgrid(*[points] * k, indexing="ij")
    far = np.max(np.abs(grid), axis=0)
    other = np.max([np.abs(axis - move) for axis, move in zip(grid, moves, strict=True)], axis=0)
    p, q = (np.exp(-one) * (reach / cells) ** k / (2**k * math.factorial(k)) for one in (far, other))
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.9])
def test_the_curve_is_that_of_one_number_and_the_diagonal_is_worst(epsilon):
    claim = BoxNoise(1.0, 2).profile(Sensitivity(linf=1.0, dimension=2))
    diagonal = curve((1.0, 1.0), epsilon)
    assert diagonal == pytest.approx(claim.delta_at(epsilon), rel=0.01, abs=1e-4)
    for other in ((1.0, 0.0), (1.0, -0.6), (0.4, 1.0), (0.9, 0.9)):
        assert curve(other, epsilon) <= diagonal + 1e-6
    three = curve((1.0, -1.0, 1.0), epsilon, cells=60)
    assert three == pytest.approx(claim.delta_at(epsilon), rel=0.05, abs=2e-3)


@pytest.mark.parametrize("guarantee", EVERY_KIND, ids=str)
@pytest.mark.parametrize("sensitivity", [Sensitivity(linf=1.0, dimension=9), Sensitivity(moves=(2, 1), dimension=3)])
def test_calibration_is_met_and_tight(guarantee, sensitivity):
    [made] = check_calibration(BoxNoise, [guarantee], sensitivity)
    alone = Laplace.calibrate(guarantee, Sensitivity(l1=sensitivity.linf))
    assert made.scale == alone.scale
    assert made.dimension == sensitivity.dimension


def test_conformance():
    """Claims reached to 99 % for one number; the marginal law of several to 5 % of its scale."""
    check_mechanism(BoxNoise(0.7, 1), Sensitivity(l1=1.0), draws=20_000)
    check_sampler(BoxLaw(5.0, 2.0, dimension=12), 30_000)


@pytest.mark.parametrize("rng", [None, 5])
def test_numbers_are_drawn_together(rng):
    """The largest coordinate has a gamma law of shape k, as the density says, and the signs are independent."""
    import scipy

    k = 4
    drawn = np.asarray(BoxLaw(np.zeros((2, 2)), 1.0, dimension=k).sample(20_000, rng=rng)).reshape(-1, k)
    radii = np.abs(drawn).max(axis=1)
    assert scipy.stats.kstest(radii, scipy.stats.gamma(k).cdf).pvalue > 1e-6
    assert scipy.stats.kstest(1.05 * radii, scipy.stats.gamma(k).cdf).pvalue < 1e-6
    patterns = np.bincount((drawn > 0) @ (2 ** np.arange(k)), minlength=2**k)
    assert scipy.stats.chisquare(patterns).pvalue > 1e-6


def test_the_fast_path_is_the_ball_path():
    """Every draw of the double path is within its bound of what ball arithmetic makes of the same bits."""
    for together, scale in itertools.product((1, 3), (0.3, 1e5)):
        family = _BoxFamily(scale, scale, 60, 3, together)
        words = np.random.default_rng(5).integers(0, 2**64, 60 * together, dtype=np.uint64)
        noise, error = family.fast(words.copy(), slice(0, words.size))
        for i in range(words.size):
            ball = family.enclose(i, int(words[i]) << 64, 128)
            assert abs(noise[i] - float(ball)) <= error[i]
            assert family.radius(i // together, 128).overlaps(family.radius(i // together, 256))


def test_a_radius_with_too_few_bits_is_worked_out_exactly():
    class FirstZero:
        calls = 0

        def words(self, count):
            self.calls += 1
            return np.array([0 if self.calls == 1 else 2**63, *[2**63] * (count - 1)], dtype=np.uint64)

    family = _BoxFamily(1.0, 1.0, 1, 2, entropy=FirstZero())
    assert math.isnan(family.radii[0])
    assert float(family.radius(0, 128)) > 64 * math.log(2)


def test_fractions_and_large_truths_stay_exact():
    law = BoxLaw(np.array([Fraction(1, 3), Fraction(2**60 + 1)]), 2.0**-30, dimension=2, grid=1.0)
    assert law.sample().tolist() == [0.0, float(2**60 + 1)]


def test_several_boxes_cost_what_they_move_together():
    """Pure losses add up over boxes: by brute force on two boxes of two numbers, at random outputs."""
    rng, noise = np.random.default_rng(8), BoxNoise(0.5, 2, boxes=2)
    both = Sensitivity(l1=1.0, dimension=2)
    claimed = noise.guarantee(both).epsilon
    outputs = np.concatenate([rng.normal(scale=3, size=(4000, 2, 2)), 9 * rng.choice([-1, 1], size=(64, 2, 2))])
    worst = 0.0
    for share in (0.0, 0.3, 0.5, 1.0):
        for signs in itertools.product((-1, 0.5, 1), repeat=4):
            moved = np.array(signs).reshape(2, 2) * np.array([[share], [1 - share]])
            far = [np.abs(outputs - at).max(axis=2).sum(axis=1) / 0.5 for at in (0.0, moved)]
            worst = max(worst, float(np.abs(far[0] - far[1]).max()))
    assert claimed * 0.999 <= worst <= claimed * (1 + 1e-12)
    for guarantee in EVERY_KIND:
        [made] = check_calibration(BoxNoise, [guarantee], both, in_boxes_of=7)
        assert (made.dimension, made.boxes) == (7, 2)
        assert made.scale == Laplace.calibrate(guarantee, Sensitivity(l1=1.0)).scale
    apart = Sensitivity(l1=2.0, l2=1.5, linf=1.0, dimension=2)
    assert noise.guarantee(apart).epsilon == 4.0  # all that the boxes move, not the most that one of them does
    assert BoxNoise.calibrate(PureDP(1.0), apart, in_boxes_of=7).scale == 2.0
    with pytest.raises(InvalidParameter, match="each of the 2 boxes"):
        noise.profile(Sensitivity(linf=1.0, dimension=4))
    with pytest.raises(InvalidParameter, match="each of the 2 boxes"):
        noise.profile(Sensitivity(l1=1.0))
    for value in (3.0, [1.0, 2.0], [0.0] * 5):
        with pytest.raises(InvalidParameter, match="as many as there are numbers"):
            noise.check(Exact(value, both))


@pytest.mark.parametrize("rng", [None, 5])
def test_every_box_has_a_radius_of_its_own(rng):
    import scipy

    drawn = np.asarray(BoxNoise(1.0, 3, boxes=2).law(np.zeros(6)).sample(20_000, rng=rng)).reshape(-1, 2, 3)
    radii = np.abs(drawn).max(axis=2)
    for one in radii.T:
        assert scipy.stats.kstest(one, scipy.stats.gamma(3).cdf).pvalue > 1e-6
    assert abs(np.corrcoef(radii.T)[0, 1]) < 6 / math.sqrt(20_000)


def test_release_and_read_back():
    ledger = Ledger(":memory:", budget=PureDP(1.0))
    each = Sensitivity(linf=1.0, dimension=3)
    found = release(Exact([1.0, 2.0, 3.0], each), BoxNoise.calibrate(PureDP(1.0), each), ledger=ledger)
    assert found.guarantee == PureDP(1.0)
    low, high = found.noise_interval()
    assert (low < found.value).all()
    assert (found.value < high).all()
    again = Release.from_json(found.to_json())
    assert (again.mechanism, again.sensitivity) == (found.mechanism, each)


def test_refusals():
    with pytest.raises(InvalidParameter, match="dimension"):
        BoxNoise.calibrate(PureDP(1.0), Sensitivity(l1=1.0))
    with pytest.raises(InvalidParameter, match="must be 2, as many"):
        release(Exact([1.0, 2.0], Sensitivity(l1=1.0)), BoxNoise(1.0, 3), rng=1)
    with pytest.raises(InvalidParameter, match="must be 3, or one"):
        BoxNoise(1.0, 3).law([1.0, 2.0])
    for scale, dimension, grid in ((0.0, 3, None), (1.0, 0, None), (1.0, 2.5, None), (1.0, 3, 0.3)):
        with pytest.raises(DiscreetError):
            BoxNoise(scale, dimension, grid)


def test_sensitivity_knows_its_largest_coordinate():
    assert Sensitivity(l1=3.0).linf == 3.0
    assert Sensitivity(l1=3.0, l2=2.0).linf == 2.0
    assert Sensitivity(moves=(1, 3, 2)).linf == 3.0
    assert Sensitivity(coordinates=(0.5, 0.25)).linf == 0.5
    each = Sensitivity(linf=0.5, dimension=4)
    assert (each.l1, each.l2) == (2.0, 1.0)
    assert Sensitivity.from_dict(each.to_dict()) == each
    ninth = Sensitivity(linf=0.1, dimension=3)
    assert Fraction(ninth.l1) >= 3 * Fraction(0.1)
    assert Fraction(ninth.l2) ** 2 >= 3 * Fraction(0.1) ** 2
    for wrong in (
        {"linf": 1.0},
        {"linf": 2.0, "l1": 1.0},
        {"linf": 1.0, "moves": (1,)},
        {"linf": -1.0, "dimension": 2},
    ):
        with pytest.raises(DiscreetError):
            Sensitivity(**wrong)
    with pytest.raises(DiscreetError):
        Sensitivity(linf=1.0, coordinates=(1.0,))
