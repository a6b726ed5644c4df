"""Bounded Laplace: exact scales, exact curve, tightness, and the papers' own numbers."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from discreet import ApproxDP, GaussianDP, Ledger, PureDP, ZeroConcentratedDP, release
from discreet.core.errors import DiscreetError, InvalidParameter
from discreet.core.numbers import ball, decimal, precisely
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms import BoundedLaplace
from discreet.mechanisms.bounded.curve import BoundedCurve, divergence, divergence_bound, largest_loss, worst_position
from discreet.mechanisms.bounded.scale import (
    BoundedLaplaceProfile,
    Coordinate,
    assigned_loss,
    bounded_laplace_scale,
    bounded_laplace_scales,
    spread_loss,
)
from discreet.testing import check_calibration, check_mechanism, exact_loss

UNIT = Sensitivity(l1=0.1)
KINDS = [PureDP(1.0), ApproxDP(1.0, 0.01), ApproxDP(0.1, 1e-6), GaussianDP(1.0), ZeroConcentratedDP(0.5)]


def test_contract_numbers():
    """Provenance: solved with mpmath at 50 digits before the code was written."""
    calibrate = BoundedLaplace.calibrate
    assert calibrate(PureDP(1.0), UNIT, bounds=(0, 1)).scale == pytest.approx(0.161156010442, abs=1e-12)
    assert calibrate(ApproxDP(1.0, 0.01), UNIT, bounds=(0, 1)).scale == pytest.approx(0.135497, abs=1e-6)
    published = calibrate(ApproxDP(1.0, 0.01), UNIT, bounds=(0, 1), as_published="holohan2018")
    assert published.scale == pytest.approx(0.159273, abs=1e-6)
    wide = calibrate(ApproxDP(0.5, 0.05), Sensitivity(l1=0.2), bounds=(0, 1))
    assert wide.scale == pytest.approx(0.382383, abs=1e-6)
    narrow = calibrate(ApproxDP(0.1, 0.01), Sensitivity(l1=0.01), bounds=(0, 1))
    assert narrow.scale == pytest.approx(0.105190, abs=1e-6)
    assert BoundedLaplace(scale=0.1, bounds=(0, 1)).guarantee(UNIT).epsilon == pytest.approx(1.489850, abs=5e-7)


def test_holohan2018_delta_is_far_below_its_claim():
    """At the paper's scale for (1, 0.01) the true δ is 4.7e-5, and the worst pair lies inside the domain."""
    published = BoundedLaplace.calibrate(ApproxDP(1.0, 0.01), UNIT, bounds=(0, 1), as_published="holohan2018")
    assert published.profile(UNIT).delta_at(1.0) == pytest.approx(4.69e-5, rel=0.01)
    tight = BoundedLaplace.calibrate(ApproxDP(1.0, 0.01), UNIT, bounds=(0, 1)).scale
    position = worst_position(np.asarray(1.0), np.asarray(0.1 / tight), np.asarray(0.9 / tight)) * tight
    assert float(position) == pytest.approx(0.0139, abs=1e-4)


@pytest.mark.parametrize(
    ("epsilon", "change", "true_epsilon"), [(1.0, 0.1, 1.4898), (0.1, 0.01, 0.1909), (1.0, 1.0, 1.0)]
)
def test_liu2019_scale_is_not_what_it_claims(epsilon, change, true_epsilon):
    sensitivity = Sensitivity(l1=change)
    made = BoundedLaplace.calibrate(PureDP(epsilon), sensitivity, bounds=(0, 1), as_published="liu2019")
    assert made.scale == pytest.approx(change / epsilon)
    assert made.guarantee(sensitivity).epsilon == pytest.approx(true_epsilon, abs=5e-5)
    found, _ = exact_loss(made.law(0.0), made.law(change))
    assert found == pytest.approx(true_epsilon, rel=1e-3)


def test_liu2019_scale_loses_at_most_twice_the_claim():
    sensitivity = Sensitivity(l1=1e-6)
    made = BoundedLaplace.calibrate(PureDP(1e-3), sensitivity, bounds=(0, 1), as_published="liu2019")
    assert 1.999e-3 < made.guarantee(sensitivity).epsilon < 2e-3


@pytest.mark.parametrize("bounds", [(0, 1), (0, None), (None, 1), (-3, 5)], ids=str)
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
@pytest.mark.parametrize("change", [0.01, 0.5, 1.0])
def test_conformance(bounds, epsilon, change):
    sensitivity = Sensitivity(l1=change)
    made = BoundedLaplace.calibrate(PureDP(epsilon), sensitivity, bounds=bounds)
    end = bounds[1] if bounds[0] is None else bounds[0]
    report = check_mechanism(made, sensitivity, truths=(end, 0.4), draws=60_000)
    assert report.tightness >= 0.99


@pytest.mark.parametrize("bounds", [(0, 1), (0, None)], ids=str)
@pytest.mark.parametrize("guarantee", KINDS, ids=str)
def test_calibration_is_met_and_tight(guarantee, bounds):
    check_calibration(BoundedLaplace, [guarantee], UNIT, bounds=bounds)


@pytest.mark.parametrize(
    ("scale", "change", "epsilon"),
    [(0.135, 0.1, 1.0), (0.4, 0.2, 0.5), (0.1, 0.01, 0.1), (0.05, 0.3, 4.0), (3.0, 0.5, 0.1)],
)
def test_curve_against_every_pair_of_neighbours(scale, change, epsilon):
    """δ found by integrating both densities over a mesh, for all pairs on a mesh, both ways round."""
    made = BoundedLaplace(scale=scale, bounds=(0, 1))
    starts = np.unique(np.concatenate([np.linspace(0, 1 - change, 25), np.linspace(0, min(0.1, 1 - change), 25)]))
    losses = [exact_loss(made.law(q), made.law(q + change), (epsilon,))[1][0] for q in starts]
    claimed = made.profile(Sensitivity(l1=change)).delta_at(epsilon)
    assert max(losses) <= claimed * (1 + 1e-7)
    assert max(losses) >= 0.99 * claimed


def test_shorter_moves_lose_less():
    made = BoundedLaplace(scale=0.135, bounds=(0, 1))
    claimed = made.profile(UNIT).delta_at(1.0)
    rng = np.random.default_rng(5)
    for q, z in zip(rng.uniform(0, 0.9, 40), rng.uniform(0, 0.1, 40), strict=True):
        assert exact_loss(made.law(q), made.law(q + z), (1.0,))[1][0] <= claimed * (1 + 1e-7)


def test_closed_form_of_one_pair_against_quadrature():
    with mpmath.workdps(30):
        for shift, width, t, epsilon in [(0.7, 7.0, 0.1, 1.0), (0.01, 0.1, 0.03, 0.005), (3.0, 30.0, 2.0, 2.5)]:
            p = _density(t, width)
            q = _density(t + shift, width)
            end = mpmath.findroot(
                lambda x, p=p, q=q, e=epsilon: mpmath.log(p(x) / q(x)) - e, (t, t + shift), solver="ridder"
            )
            wanted = mpmath.quad(lambda x, p=p, q=q, e=epsilon: p(x) - mpmath.exp(e) * q(x), [0, t, end])
            found = divergence(np.asarray(epsilon), np.asarray(t), np.asarray(shift), np.asarray(width - shift))
            assert float(found) == pytest.approx(float(wanted), rel=1e-12)


def _density(centre, width):
    mass = 2 - mpmath.exp(-centre) - mpmath.exp(centre - width)
    return lambda x: mpmath.exp(-abs(x - centre)) / mass


def test_divergence_rises_then_falls_before_the_middle():
    """The theorem that the certificates rest on, over random settings: one sign change of the slope, by rest/2."""
    rng = np.random.default_rng(11)
    for _ in range(400):
        shift = math.exp(rng.uniform(-7, 3))
        rest = shift * math.exp(rng.uniform(-6, 7))
        epsilon = float(largest_loss(np.asarray(shift), np.asarray(rest))) * rng.uniform(0, 1)
        t = np.sort(np.concatenate([rng.uniform(0, rest / 2, 150), rest / 2 * np.exp(-rng.uniform(0, 20, 150))]))
        steps = np.diff(divergence(np.asarray(epsilon), t, np.asarray(shift), np.asarray(rest)))
        steps = steps[np.abs(steps) > 1e-13]
        assert np.count_nonzero(np.diff(np.sign(steps))) <= 1
        assert steps.size == 0 or steps[0] > 0 or np.all(steps < 0)


def test_bound_covers_the_maximum_and_little_more():
    rng = np.random.default_rng(12)
    shift = np.exp(rng.uniform(-20, 3, 3000))
    rest = shift * np.exp(rng.uniform(-15, 20, 3000))
    epsilon = largest_loss(shift, rest) * rng.uniform(0, 0.999, 3000)
    bound = divergence_bound(epsilon, shift, rest)
    for fraction in (0.0, 1e-6, 1e-3, 0.1, 0.5, 1.0):
        with np.errstate(all="ignore"):
            here = divergence(epsilon, np.minimum(rest / 2, 40.0) * fraction, shift, rest)
        assert np.all(here <= bound)
    at = divergence(epsilon, worst_position(epsilon, shift, rest), shift, rest)
    assert np.quantile(bound / at - 1, 0.99) < 1e-7


@pytest.mark.parametrize("epsilon", [1e-9, 1e-4, 0.3, 50.0])
@pytest.mark.parametrize("change", [1e-9, 1e-3, 0.25, 1.0])
def test_scale_against_mpmath(epsilon, change):
    """holohan2018's fixed point at 60 digits, in its own form, which cancels in doubles but not here."""
    with mpmath.workdps(60):
        delta_q, eps = mpmath.mpf(Fraction(change).numerator) / Fraction(change).denominator, mpmath.mpf(repr(epsilon))

        def gap(log_b):
            b = mpmath.exp(log_b)
            ratio = (1 - (mpmath.exp(-delta_q / b) + mpmath.exp(-(1 - delta_q) / b)) / 2) / (
                1 - (1 + mpmath.exp(-1 / b)) / 2
            )
            return delta_q / b + mpmath.log(ratio) - eps

        start = mpmath.log(delta_q / eps)
        wanted = mpmath.exp(mpmath.findroot(gap, (start - mpmath.mpf("1e-9"), start + 1), solver="anderson", tol=1e-80))
    scale = bounded_laplace_scale(PureDP(epsilon), Fraction(change), Fraction(1))
    assert mpmath.mpf(scale) == pytest.approx(wanted, rel=4e-16)
    assert mpmath.mpf(scale) >= wanted * (1 - mpmath.mpf("1e-30"))
    fast = float(bounded_laplace_scales(epsilon, 0.0, change, 0.0, 1.0))
    assert 0 <= fast / scale - 1 < 1e-13


def test_no_rounding_ever_exceeds_the_claim():
    """True ε above the claim in none of 4,000 random settings (vectorised scales, checked in ball arithmetic)."""
    rng = np.random.default_rng(13)
    count = 4000
    epsilon = np.exp(rng.uniform(np.log(1e-9), np.log(50), count))
    width = np.exp(rng.uniform(-10, 10, count))
    low = rng.normal(0, 1, count) * width
    change = width * np.exp(rng.uniform(np.log(1e-9), 0, count))
    scales = bounded_laplace_scales(epsilon, 0.0, change, low, low + width)
    with precisely():
        for e, c, lo, hi, b in zip(epsilon, change, low, low + width, scales, strict=True):
            exact = Fraction(b)
            curve = BoundedCurve(Fraction(c) / exact, (Fraction(hi) - Fraction(lo)) / exact)
            assert curve.loss() <= ball(decimal(e))
            nearer = Fraction(b * (1 - 1e-12))
            wasteful = BoundedCurve(Fraction(c) / nearer, (Fraction(hi) - Fraction(lo)) / nearer)
            assert wasteful.loss() > ball(decimal(e))


def _settings(seed, count):
    """Random (ε, δ, Δ, l, u): extreme ones, half-lines, moves of the whole domain and nearly all of it."""
    rng = np.random.default_rng(seed)
    epsilon = np.exp(rng.uniform(np.log(1e-9), np.log(50), count))
    delta = np.exp(rng.uniform(np.log(1e-15), np.log(0.9), count))
    width = np.exp(rng.uniform(-10, 10, count))
    low = rng.normal(0, 1, count) * width
    high = low + width
    change = width * np.exp(rng.uniform(np.log(1e-9), 0, count))
    tenth = count // 10
    epsilon[:tenth] *= rng.uniform(0, 1, tenth) < 0.8
    high[tenth : 2 * tenth] = np.inf
    change[2 * tenth : 3 * tenth] = width[2 * tenth : 3 * tenth] * (1 - np.exp(rng.uniform(-30, -1, tenth)))
    change[3 * tenth : 4 * tenth] = width[3 * tenth : 4 * tenth] * rng.uniform(0.9, 2, tenth)
    return epsilon, delta, change, low, high


def test_vectorised_approximate_scales_are_certified_and_the_smallest():
    """In ball arithmetic: δ is met at every scale, and at none that is 1e-12 smaller (1e-11 for ε = 0)."""
    problems = _settings(14, 400)
    scales = bounded_laplace_scales(*problems)
    with precisely():
        for e, d, c, lo, hi, b in zip(*problems, scales, strict=True):
            width = None if np.isinf(hi) else Fraction(hi) - Fraction(lo)

            def delta(scale, e=e, c=c, width=width):
                exact = Fraction(scale)
                return BoundedCurve(Fraction(c) / exact, width and width / exact).delta(decimal(e))

            assert delta(b) <= ball(decimal(d)), (e, d, c, width)
            assert delta(b * (1 - (1e-12 if e else 1e-11))) > ball(decimal(d)), (e, d, c, width)


def test_vectorised_scales_agree_with_those_of_one_problem():
    problems = _settings(16, 60)
    for e, d, c, lo, hi, fast in zip(*problems, bounded_laplace_scales(*problems), strict=True):
        width = None if np.isinf(hi) else Fraction(hi) - Fraction(lo)
        assert fast == pytest.approx(bounded_laplace_scale(ApproxDP(e, d), Fraction(c), width), rel=1e-11)


def test_approximate_scales_against_mpmath():
    """The largest divergence over all pairs, from the textbook normalisers at 60 digits and by golden sections."""
    rng = np.random.default_rng(17)
    with mpmath.workdps(60):
        for _ in range(5):
            epsilon, delta = (float(f"{math.exp(rng.uniform(*ends)):.6g}") for ends in ((-4, 1.5), (-16, -1)))
            change = float(math.exp(rng.uniform(-6, 0)))
            scale = mpmath.mpf(float(bounded_laplace_scales(epsilon, delta, change, 0.0, 1.0)))
            eps, wanted = mpmath.mpf(repr(epsilon)), mpmath.mpf(repr(delta))
            assert _brute_force_delta(eps, change, scale) <= wanted
            assert _brute_force_delta(eps, change, scale * (1 - mpmath.mpf(10) ** -12)) > wanted


def _brute_force_delta(epsilon, change, scale):
    """sup over t of P_t[0, x] − e^ε·P_{t+D}[0, x] at the x where the densities' ratio is e^ε."""
    shift, width = mpmath.mpf(change) / scale, 1 / scale

    def at(t):
        first, second = (2 - mpmath.exp(-q) - mpmath.exp(q - width) for q in (t, t + shift))
        x = t + (shift + mpmath.log(second / first) - epsilon) / 2
        if x <= t:
            return mpmath.mpf(0)
        below = (1 - mpmath.exp(-t) + 1 - mpmath.exp(t - x)) / first
        return below - mpmath.exp(epsilon) * (mpmath.exp(x - t - shift) - mpmath.exp(-t - shift)) / second

    rest = width - shift
    mesh = [rest / 2 * mpmath.exp(-mpmath.mpf(k) / 4) for k in range(120)] + [mpmath.mpf(0)]
    best = max(range(len(mesh)), key=lambda k: at(mesh[k]))
    low, high = mesh[min(best + 1, len(mesh) - 1)], mesh[max(best - 1, 0)]
    cut = (mpmath.sqrt(5) - 1) / 2
    for _ in range(70):
        left, right = high - cut * (high - low), low + cut * (high - low)
        low, high = (low, right) if at(left) > at(right) else (left, high)
    return at((low + high) / 2)


def test_longer_moves_and_longer_domains_lose_more():
    """Lemma 2, on which rounding up rests: the largest δ grows with the shift and with the rest of the domain."""
    rng = np.random.default_rng(18)
    shift = np.exp(rng.uniform(-8, 3, 4000))
    rest = shift * np.exp(rng.uniform(-6, 8, 4000))
    epsilon = largest_loss(shift, rest) * rng.uniform(0, 0.99, 4000)
    here = divergence(epsilon, worst_position(epsilon, shift, rest), shift, rest)
    for further, wider in ((1.01, 1.0), (1.0, 1.01), (1.0, 2.0), (1.001, 1.1)):
        at = worst_position(epsilon, shift * further, rest * wider)
        assert np.all(divergence(epsilon, at, shift * further, rest * wider) >= here * (1 - 1e-12))


def test_gaussian_and_concentrated_parameters_against_quadrature():
    """μ: no ε may need a larger one. ρ: Rényi divergences in closed form over a mesh of pairs and orders."""
    shift, width = 1.0, 10.0
    profile = BoundedLaplaceProfile([(Fraction(1), Fraction(10))])
    mu = profile.gaussian()
    for epsilon in (0.0, 0.05, 0.3, 0.8, 1.2, 1.4):
        assert profile.delta_at(epsilon) <= mu.delta_at(epsilon) * (1 + 1e-9)
    assert mu.delta_at(0.0) == pytest.approx(profile.delta_at(0.0), rel=1e-9)
    found = max(
        _renyi(t, shift, width, order) / order
        for t in np.linspace(0, width - shift, 181)
        for order in (1.0001, 1.05, 1.2, 1.5, 2.0, 4.0, 16.0)
    )
    assert found <= profile.concentrated().rho <= 1.01 * found


def _renyi(t, shift, width, order):
    mass = [2 - math.exp(-q) - math.exp(q - width) for q in (t, t + shift)]
    k = order - 1
    inner = math.exp(k * shift) * (-math.expm1(-t) - math.expm1(-(2 * order - 1) * shift) / (2 * order - 1))
    inner += math.exp(-k * shift) * (math.exp(-shift) - math.exp(t - width))
    return math.log(mass[1] / mass[0]) + math.log(inner / mass[0]) / k


@pytest.mark.parametrize(
    "guarantee",
    [
        ApproxDP(0.0, 0.01),
        ApproxDP(0.0, 1e-12),
        ApproxDP(1e-9, 1e-30),
        ApproxDP(700.0, 0.9),
        GaussianDP(1e-9),
        GaussianDP(20.0),
        ZeroConcentratedDP(1e-18),
        PureDP(1000.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("change", [1e-9, 0.5, 1.0])
def test_extreme_guarantees_are_met(guarantee, change):
    sensitivity = Sensitivity(l1=change)
    made = BoundedLaplace.calibrate(guarantee, sensitivity, bounds=(0, 1))
    assert made.profile(sensitivity).within(guarantee)


def test_elementary_functions_are_within_their_budget():
    """The float bounds allow 2⁻⁴⁷ for a whole formula: expm1, exp and log1p must be good to 2⁻⁵⁰ on this machine."""
    rng = np.random.default_rng(15)
    points = np.concatenate([-np.exp(rng.uniform(-30, 4, 1500)), -np.exp(rng.uniform(-3, 3, 500))])
    for function, name in ((np.expm1, "expm1"), (np.exp, "exp"), (np.log1p, "log1p")):
        arguments = -points if name == "log1p" else points
        with precisely():
            for x, found in zip(arguments.tolist(), function(arguments).tolist(), strict=True):
                exact = getattr(ball(x), name)()
                assert abs(ball(found) / exact - 1) < ball(2.0**-50), (name, x)


def test_half_line_is_the_limit_of_long_domains():
    half = BoundedLaplace(scale=0.1, bounds=(0, None)).guarantee(UNIT).epsilon
    long = BoundedLaplace(scale=0.1, bounds=(0, 1e9)).guarantee(UNIT).epsilon
    mirrored = BoundedLaplace(scale=0.1, bounds=(None, 0)).guarantee(UNIT).epsilon
    assert half == mirrored == pytest.approx(long, rel=1e-12)
    assert half == pytest.approx(1 + math.log(2 - math.exp(-1)), rel=1e-12)


def test_a_change_loses_more_when_it_is_spread():
    """Two coordinates, the change split every way: the largest total loss is at equal slopes, above Δ in one."""
    same = [Coordinate(Fraction(1), Fraction(10))] * 2
    mixed = [Coordinate(Fraction(1), Fraction(10)), Coordinate(Fraction(2), Fraction(3))]
    change = Fraction(3, 2)
    for coordinates in (same, mixed):
        with precisely():
            split = [Fraction(k, 200) * change for k in range(201)]
            totals = [float(coordinates[0].loss(z) + coordinates[1].loss(change - z)) for z in split]
        assert max(totals) <= spread_loss(coordinates, change) <= max(totals) * (1 + 1e-4)
        assert spread_loss(coordinates, change) > totals[0]


def test_moves_are_assigned_to_the_worst_coordinates():
    coordinates = [
        Coordinate(Fraction(1), Fraction(10)),
        Coordinate(Fraction(3), Fraction(5)),
        Coordinate(Fraction(2), None),
    ]
    moves = [Fraction(1), Fraction(1, 2)]
    with precisely():
        every = [
            float(coordinates[i].loss(moves[0]) + coordinates[j].loss(moves[1]))
            for i in range(3)
            for j in range(3)
            if i != j
        ]
    assert assigned_loss(coordinates, moves) == pytest.approx(max(every), rel=1e-9)


@pytest.mark.parametrize("guarantee", KINDS, ids=str)
def test_vectors_are_split_by_coordinate(guarantee):
    sensitivities = [Sensitivity(l1=0.1), Sensitivity(l1=0.3)]
    made = BoundedLaplace.calibrate(guarantee, sensitivities, bounds=[(0, 1), (-2, 2)], shares=(2.0, 1.0))
    assert made.profile(sensitivities).within(guarantee)
    assert made.profile(Sensitivity(coordinates=(0.1, 0.3))).within(guarantee)
    for unordered in (Sensitivity(moves=(0.3, 0.1)), Sensitivity(l1=0.4), Sensitivity(coordinates=(0.3, 0.1))):
        with pytest.raises(InvalidParameter, match="coordinate by coordinate"):
            made.profile(unordered)
    parts = guarantee.split([2.0, 1.0])
    alone = [
        bounded_laplace_scale(parts[0], Fraction(0.1), Fraction(1)),
        bounded_laplace_scale(parts[1], Fraction(0.3), Fraction(4)),
    ]
    assert made.scale == pytest.approx(alone)


def test_the_largest_loss_of_a_vector_is_attained():
    """The densities' ratio at the lower ends reaches the claim, for known changes and for a spread change."""
    with precisely():
        changes, coordinates = (Fraction(1, 10), Fraction(2, 5)), [Coordinate(Fraction(1), Fraction(3))] * 2
        spread = float(spread_loss(coordinates, Fraction(1, 2)))
    assert spread == pytest.approx(2 * _log_ratio_at_the_end(0.25, 3.0), rel=1e-14)
    profile = BoundedLaplaceProfile([one.move(change) for one, change in zip(coordinates, changes, strict=True)])
    attained = sum(_log_ratio_at_the_end(float(change), 3.0) for change in changes)
    assert profile.pure().epsilon == pytest.approx(attained, rel=1e-14)


def _log_ratio_at_the_end(change, width):
    here, there = _density(mpmath.mpf(0), width), _density(mpmath.mpf(change), width)
    return float(mpmath.log(here(0) / there(0)))


@pytest.mark.parametrize(
    ("scales", "widths", "changes"), [((0.93, 0.82), (1, 2), (0.1, 0.4)), ((0.2, 0.2), (1, 1), (0.1, 0.1))]
)
def test_convolved_curve_covers_every_pair_of_neighbours(scales, widths, changes):
    """Both coordinates' pairs on a mesh of positions, both ways round: below the claim, and within 15 % of it."""
    moves = [
        Coordinate(Fraction(b), Fraction(w)).move(Fraction(c)) for b, w, c in zip(scales, widths, changes, strict=True)
    ]
    profile = BoundedLaplaceProfile(moves)
    epsilons = np.array([0.0, 0.3, 0.6]) * profile.pure().epsilon
    found = np.zeros(epsilons.size)
    for first in _pairs(moves[0]):
        for second in _pairs(moves[1]):
            p, q = (np.outer(a, b).ravel() for a, b in zip(first, second, strict=True))
            found = np.maximum(found, [np.maximum(p - math.exp(e) * q, 0).sum() for e in epsilons])
    claimed = profile.delta_at(epsilons)
    assert np.all(found <= claimed)
    assert np.all(found >= 0.85 * claimed)


def _pairs(move):
    """Cell probabilities of the pairs at some positions, both laws; the loss is constant outside [t, t + shift]."""
    shift, width = (float(length) for length in move)
    rest = width - shift
    for share in (0.0, 0.03, 0.06, 0.12, 0.2, 0.3, 0.5, 0.8, 1.0):
        edges = np.concatenate([[0.0], np.linspace(share * rest, share * rest + shift, 80), [width]])
        laws = BoundedLaplace(scale=1.0, bounds=(0, width))
        yield tuple(np.diff(laws.law(share * rest + at).cdf(edges)) for at in (0.0, shift))


@pytest.mark.parametrize(("count", "most"), [(2, 0.99), (20, 0.55)])
def test_vector_scales_are_below_those_of_basic_composition(count, most):
    guarantee, sensitivity = ApproxDP(1.0, 1e-6), Sensitivity(moves=(0.1,) * count)
    made = BoundedLaplace.calibrate(guarantee, sensitivity, bounds=(0, 1))
    assert made.profile(sensitivity).within(guarantee)
    assert made.scale <= most * bounded_laplace_scale(guarantee.split(count)[0], Fraction(0.1), Fraction(1))
    assert not BoundedLaplace(scale=made.scale * 0.998, bounds=(0, 1)).profile(sensitivity).within(guarantee)


def test_default_shares_are_proportional_to_the_sensitivities():
    """liu2019 (8) as published: then all coordinates have one scale, δ₁/ε."""
    sensitivities = [Sensitivity(l1=0.1), Sensitivity(l1=0.3)]
    made = BoundedLaplace.calibrate(PureDP(1.0), sensitivities, bounds=(0, 1), as_published="liu2019")
    assert made.scale == pytest.approx((0.4, 0.4))


def test_a_move_longer_than_the_domain_counts_as_the_domain():
    far = BoundedLaplace.calibrate(PureDP(1.0), Sensitivity(l1=50.0), bounds=(0, 1))
    assert far.scale == 1.0


def test_truths_outside_are_clamped_exactly():
    made = BoundedLaplace(scale=0.1, bounds=(0, 1))
    assert made.law(7.0).location == 1.0
    assert made.law(Fraction(-1, 3)).location == 0.0
    assert made._domain.clamp(Fraction(1, 3)) == Fraction(1, 3)
    assert made.law(10**30).location == 1.0
    assert np.array_equal(made.law(np.array([-1.0, 0.5, 2.0])).location, [0.0, 0.5, 1.0])


def test_release_end_to_end():
    ledger = Ledger(":memory:", budget=PureDP(2.0))
    made = BoundedLaplace.calibrate(PureDP(1.0), UNIT, bounds=(0, 1))
    noisy = release(Exact(Fraction(1, 3), UNIT), made, ledger=ledger)
    assert 0 <= noisy.value <= 1
    assert noisy.guarantee.epsilon <= 1.0
    assert ledger.remaining().epsilon >= 1.0
    low, high = noisy.noise_interval(0.95)
    assert low <= noisy.value <= high
    assert type(noisy).from_json(noisy.to_json()).mechanism == made


def test_a_vector_needs_a_sensitivity_that_says_how_it_spreads():
    made = BoundedLaplace(scale=0.1, bounds=(0, 1))
    ledger = Ledger(":memory:", budget=PureDP(9.0))
    with pytest.raises(DiscreetError, match="does not say how a change is divided among 2 coordinates"):
        release(Exact(np.array([0.1, 0.2]), UNIT), made, ledger=ledger)
    assert ledger.remaining() == PureDP(9.0)
    release(Exact(np.array([0.1, 0.2]), Sensitivity(l1=0.1, dimension=2)), made, ledger=ledger)


@pytest.mark.parametrize(
    "build",
    [
        lambda: BoundedLaplace(scale=0.0, bounds=(0, 1)),
        lambda: BoundedLaplace(scale=math.nan, bounds=(0, 1)),
        lambda: BoundedLaplace(scale="1", bounds=(0, 1)),
        lambda: BoundedLaplace(scale=1.0, bounds=(1, 0)),
        lambda: BoundedLaplace(scale=1.0, bounds=(0, 0)),
        lambda: BoundedLaplace(scale=1.0, bounds=(None, None)),
        lambda: BoundedLaplace(scale=1.0, bounds=(0, math.nan)),
        lambda: BoundedLaplace(scale=1.0, bounds=()),
        lambda: BoundedLaplace(scale=1.0, bounds=(0, 1, 2)),
        lambda: BoundedLaplace(scale=1.0, bounds="01"),
        lambda: BoundedLaplace(scale=(1.0, 2.0), bounds=(0, 1)),
        lambda: BoundedLaplace(scale=1.0, bounds=(0, 1), grid=0.3),
        lambda: BoundedLaplace(scale=(1.0, 2.0), bounds=[(0, 1), (0, 1)], changes=(1.0,)),
        lambda: BoundedLaplace.calibrate(PureDP(0.0), UNIT, bounds=(0, 1)),
        lambda: BoundedLaplace.calibrate(PureDP(1.0), UNIT),
        lambda: BoundedLaplace.calibrate(1.0, UNIT, bounds=(0, 1)),
        lambda: BoundedLaplace.calibrate(PureDP(1.0), 0.1, bounds=(0, 1)),
        lambda: BoundedLaplace.calibrate(PureDP(1.0), UNIT, bounds=(0, 1), as_published=True),
        lambda: BoundedLaplace.calibrate(PureDP(1.0), UNIT, bounds=(0, 1), shares=(1.0,)),
        lambda: BoundedLaplace.calibrate(GaussianDP(1.0), UNIT, bounds=(0, 1), as_published="holohan2018"),
        lambda: BoundedLaplace.calibrate(ApproxDP(1.0, 0.1), UNIT, bounds=(0, 1), as_published="liu2019"),
        lambda: BoundedLaplace.calibrate(PureDP(1.0), [UNIT, UNIT], bounds=[(0, 1)] * 3),
        lambda: BoundedLaplace.calibrate(PureDP(1.0), [UNIT, UNIT], bounds=(0, 1), shares=(1.0,)),
        lambda: BoundedLaplace(scale=1.0, bounds=(0, 1)).law(math.nan),
        lambda: BoundedLaplace(scale=1.0, bounds=(0, 1)).law("x"),
        lambda: BoundedLaplace(scale=1.0, bounds=[(0, 1), (0, 1)]).law([0.1, 0.2, 0.3]),
        lambda: BoundedLaplace(scale=1.0, bounds=[(0, 1), (0, 1)], changes=(0.1, 0.1)).guarantee(Sensitivity(l1=0.3)),
        lambda: bounded_laplace_scales(0.0, 0.0, 1.0, 0.0, 1.0),
        lambda: bounded_laplace_scales(1.0, 1.0, 1.0, 0.0, 1.0),
        lambda: bounded_laplace_scales(1.0, 0.0, -1.0, 0.0, 1.0),
        lambda: bounded_laplace_scales(1.0, 0.0, 1.0, 1.0, 0.0),
        lambda: bounded_laplace_scales([1.0, math.nan], 0.0, 1.0, 0.0, 1.0),
    ],
)
def test_refusals(build):
    with pytest.raises(DiscreetError):
        build()
