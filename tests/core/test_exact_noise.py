"""The released number is the real-valued output rounded to the grid, with no mismatch against 200-bit arithmetic.

The oracle below computes each draw from the definition of the law at high precision; it shares no formula evaluation
with the sampler beyond which bit of the stream is the sign.
"""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from flint import arb, ctx, fmpz

from discreet.core.noise import sampler
from discreet.core.noise.sampler import CHUNK, ExponentialFamily, GumbelFamily, Location, default_grid, exact_draws
from discreet.mechanisms.bounded.laplace import TruncatedLaplaceLaw
from discreet.mechanisms.gaussian import GaussianLaw
from discreet.mechanisms.laplace import LaplaceLaw
from tests.chosen_entropy import InterleavedEntropy

FURTHER = 0x9E3779B97F4A7C15
PRECISION = 200


def words(count, seed):
    return np.random.default_rng(seed).integers(0, 2**64, size=count, dtype=np.uint64)


def uniform(word, bits):
    """(word's leading ``bits`` bits, then the further words) as a number in (0, 1)."""
    tail = (FURTHER << 64) | FURTHER
    leading = word >> (64 - bits)
    return arb(fmpz((leading << 128) | tail)) * arb(2) ** -(bits + 128)


def laplace_oracle(word, c, b, **_):
    sign = -1 if word & 1 else 1
    return arb(c) - sign * arb(b) * uniform(word, 63).log()


def exponential_oracle(word, c, b, **_):
    return arb(c) - arb(b) * uniform(word, 64).log()


def gumbel_oracle(word, c, b, **_):
    return arb(c) - arb(b) * (-(1 - uniform(word, 64)).log()).log()


def gaussian_oracle(word, c, b, **_):
    sign = -1 if word & 1 else 1
    return arb(c) + sign * arb(b) * arb(2).sqrt() * uniform(word, 63).erfcinv()


def truncated_oracle(word, c, b, lower, upper):
    # From the distribution function of the law itself: F(x) = U, written with exponentials of the two sides.
    c, b, u = arb(c), arb(b), uniform(word, 64)
    left, right = ((arb(lower) - c) / b).exp(), ((c - arb(upper)) / b).exp()
    mass = 2 - left - right
    height = u * mass + left
    return c + b * height.log() if height < 1 else c - b * (2 - height).log()


class Drawn:
    """Draws of a family that only races use: around a location, rounded to a grid."""

    def __init__(self, family, location, scale):
        self.family, self.location, self.scale = family, Location(location), np.asarray(scale)
        self.grid = default_grid(self.scale)

    def sample(self, *, entropy):
        location = self.location.broadcast((self.location.floats.size,))
        return exact_draws(self.family(self.scale, self.scale / self.grid), location, self.grid, entropy)


exponential_draws, gumbel_draws = partial(Drawn, ExponentialFamily), partial(Drawn, GumbelFamily)


def mismatches(law, oracle, count, seed, **parameters):
    drawn_words = words(count, seed)
    entropy = InterleavedEntropy(drawn_words, [FURTHER])
    draws = law.sample(entropy=entropy)
    grid = float(law.grid)
    with ctx.workprec(PRECISION):
        scaled, half = arb(1 / grid), arb(1) / 2
        wrong = 0
        for word, draw in zip(drawn_words.tolist(), draws.tolist(), strict=True):
            cell = (oracle(word, **parameters) * scaled + half).floor().unique_fmpz()
            assert cell is not None
            wrong += draw != min(
                max(int(cell) * grid, parameters.get("lower", -math.inf)), parameters.get("upper", math.inf)
            )
    return wrong, entropy.extra_words


CASES = {
    "laplace": (LaplaceLaw, laplace_oracle, 400_000, {"c": 0.3, "b": 1.7}),
    "laplace far from zero": (LaplaceLaw, laplace_oracle, 100_000, {"c": 123456789.123, "b": 0.01}),
    "exponential": (exponential_draws, exponential_oracle, 100_000, {"c": -2.0, "b": 3.3}),
    "gumbel": (gumbel_draws, gumbel_oracle, 100_000, {"c": 0.0, "b": 0.5}),
    "gaussian": (GaussianLaw, gaussian_oracle, 100_000, {"c": 5.5, "b": 12.0}),
    "truncated": (TruncatedLaplaceLaw, truncated_oracle, 120_000, {"c": 0.3, "b": 0.1, "lower": 0.0, "upper": 1.0}),
    "truncated, wide noise": (
        TruncatedLaplaceLaw,
        truncated_oracle,
        50_000,
        {"c": 0.01, "b": 4000.0, "lower": 0.0, "upper": 1.0},
    ),
    "truncated at its edge": (
        TruncatedLaplaceLaw,
        truncated_oracle,
        50_000,
        {"c": 2.0, "b": 0.7, "lower": 2.0, "upper": 5.0},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_no_draw_differs_from_two_hundred_bit_arithmetic(name):
    kind, oracle, count, parameters = CASES[name]
    bounds = {key: parameters[key] for key in ("lower", "upper") if key in parameters}
    law = kind(np.full(count, parameters["c"]), parameters["b"], **bounds)
    wrong, _ = mismatches(law, oracle, count, seed=len(name), **parameters)
    assert wrong == 0


@pytest.mark.deep
@pytest.mark.parametrize("block", range(100))
@pytest.mark.parametrize("name", CASES)
def test_no_draw_in_a_hundred_million_differs(name, block):
    kind, oracle, count, parameters = CASES[name]
    bounds = {key: parameters[key] for key in ("lower", "upper") if key in parameters}
    law = kind(np.full(count, parameters["c"]), parameters["b"], **bounds)
    wrong, _ = mismatches(law, oracle, count, seed=1000 + block, **parameters)
    assert wrong == 0


def test_a_million_draws_are_compared():
    assert sum(count for _, _, count, _ in CASES.values()) >= 1_000_000


def exact_float(number):
    ratio = Fraction(number)
    return arb(ratio.numerator) / arb(ratio.denominator)


def truncated_uniform(x):
    centre, scale = exact_float(0.3), exact_float(0.125)
    left, right = (-centre / scale).exp(), ((centre - 1) / scale).exp()
    mass = 2 - left - right
    if x < centre:
        return (((x - centre) / scale).exp() - left) / mass
    return 1 - (((centre - x) / scale).exp() - right) / mass


EDGES = {  # law, its uniform for an output, bits of the first word that belong to the uniform, typical outputs
    "laplace": (LaplaceLaw(0.0, 1.0), lambda x: (-x).exp(), 63, (0.1, 1.0, 5.0)),
    "exponential": (exponential_draws(0.0, 1.0), lambda x: (-x).exp(), 64, (0.1, 1.0, 5.0)),
    "gaussian": (GaussianLaw(0.0, 1.0), lambda x: (x / arb(2).sqrt()).erfc(), 63, (0.01, 0.7, 3.0)),
    "gumbel": (gumbel_draws(0.0, 1.0), lambda x: 1 - (-(-x).exp()).exp(), 64, (-0.9, 0.3, 4.0)),
    "truncated": (TruncatedLaplaceLaw(0.3, 0.125, 0.0, 1.0), truncated_uniform, 64, (0.05, 0.29, 0.31, 0.9)),
}


@pytest.mark.parametrize("offset", [-1, 0, 1])
@pytest.mark.parametrize("depth", [64, 128])
@pytest.mark.parametrize("name", EDGES)
def test_draws_built_to_be_ambiguous_fall_on_the_right_side(name, depth, offset):
    """The stream agrees with a cell's edge for all but its last bits; only those decide, and they decide exactly.

    The uniform of an edge is computed from the distribution function; the stream is that number's binary expansion cut
    after ``depth`` further bits, moved by ``offset`` units there, and continued by ones and zeros.
    """
    law, uniform_of, first_bits, outputs = EDGES[name]
    grid = float(law.grid)
    total = first_bits + depth
    for output in outputs:
        cell = math.floor(output / grid)
        with ctx.workprec(800):
            edge = uniform_of((arb(cell) + arb(1) / 2) * arb(grid))
            cut = int((edge * arb(2) ** total).floor().unique_fmpz())
            bits = cut + offset
            stream = (arb(fmpz(2 * bits + 1))) * arb(2) ** -(total + 1)
            beyond = bool(stream > edge)
        # Outputs fall as the uniform grows, but for the truncated law.
        upper = beyond == (name == "truncated")
        expected = (cell + 1 if upper else cell) * grid
        first = (bits >> depth) << (64 - first_bits)
        further = [(bits >> (depth - 64 * (i + 1))) & (2**64 - 1) for i in range(depth // 64)]
        entropy = SequenceEntropy([first], [*further, 2**63, 0, 0, 0])
        drawn = law.sample(entropy=entropy)
        assert drawn == expected
        assert entropy.used >= 1


class SequenceEntropy:
    def __init__(self, first, further):
        self.stream, self.used = [*first, *further], -1

    def words(self, count):
        assert count == 1
        self.used += 1
        return np.array([self.stream[self.used]], dtype=np.uint64)


def test_quotients_are_drawn_around_their_exact_value():
    third = Fraction(1, 3)
    count = 20_000
    drawn_words = words(count, 5)
    exact = LaplaceLaw(np.full(count, third, dtype=object), 1.0, grid=2.0**-40)
    draws = exact.sample(entropy=InterleavedEntropy(drawn_words, [FURTHER]))
    with ctx.workprec(PRECISION):
        for word, draw in zip(drawn_words.tolist()[::40], draws.tolist()[::40], strict=True):
            sign = -1 if word & 1 else 1
            output = arb(1) / 3 - sign * uniform(word, 63).log()
            assert draw == int((output * 2**40 + arb(1) / 2).floor().unique_fmpz()) * 2.0**-40


@pytest.mark.parametrize("truth", [1e300, -1e300, 10**30, Fraction(10**40, 7), 1e-300, 2**53 + 1])
def test_extreme_truths_give_finite_draws(truth):
    draw = LaplaceLaw(truth, 1e-3).sample()
    assert math.isfinite(draw)
    assert abs(Fraction(draw) - Fraction(truth)) <= max(abs(Fraction(truth)) * Fraction(1, 2**50), 1)


def test_error_budgets_hold_on_this_machine_with_a_factor_of_a_hundred_to_spare():
    points = np.concatenate([np.random.default_rng(3).random(3000), np.logspace(-18, 0, 1000, endpoint=False)])
    from scipy.special import ndtri

    with ctx.workprec(120):
        log_error = max(
            abs(float((arb(value) - arb(x).log()) / arb(x).log()))
            for x, value in zip(points.tolist(), np.log(points).tolist(), strict=True)
        )
        exp_error = max(
            abs(float(arb(value) / (-arb(x) * 60).exp() - 1))
            for x, value in zip(points.tolist(), np.exp(-points * 60).tolist(), strict=True)
        )
        halves = points / 2
        normal_error = max(
            abs(float(arb(value) / (-arb(2).sqrt() * (2 * arb(p)).erfcinv()) - 1))
            for p, value in zip(halves.tolist(), ndtri(halves).tolist(), strict=True)
        )
    assert log_error < sampler.LOG_BUDGET / 100
    # −60·x itself is rounded once, which moves the exponential by up to 60·2⁻⁵³.
    assert exp_error < sampler.LOG_BUDGET / 100 + 60 * 2.0**-53
    assert normal_error < sampler.NORMAL_BUDGET / 100


def test_the_ball_path_is_rare_enough_to_be_cheap():
    count = 40 * CHUNK
    entropy = InterleavedEntropy(words(count, 11), [FURTHER])
    GaussianLaw(np.zeros(count), 1.0).sample(entropy=entropy)
    assert entropy.extra_words < count * 1e-3


@pytest.mark.parametrize("law", [LaplaceLaw, GaussianLaw, exponential_draws, gumbel_draws])
def test_arrays_of_scales_and_grids_draw_like_their_elements(law):
    scales = np.array([0.5, 3.0, 1000.0])
    drawn_words = words(3, 8)
    together = law(np.array([1.0, 2.0, 3.0]), scales).sample(entropy=InterleavedEntropy(drawn_words, [FURTHER]))
    single = [
        law(location, scale).sample(entropy=SequenceEntropy([word], [FURTHER] * 4))
        for location, scale, word in zip([1.0, 2.0, 3.0], scales.tolist(), drawn_words.tolist(), strict=True)
    ]
    assert together.tolist() == single
