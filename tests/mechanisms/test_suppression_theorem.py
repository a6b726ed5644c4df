"""Theorem 5.4 of miranda2026 against enumeration, growing data sets, and the polynomial step of its proof."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from flint import Ordering, fmpz_mpoly_ctx
from scipy.optimize import linprog
from scipy.special import logsumexp

from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import ApproxDP, GaussianDP, PureDP
from discreet.mechanisms.omission.amplification import deterministic_suppression, outlier_epsilon, poisson_sampling
from discreet.mechanisms.omission.step import independent_deletion, suppression, suppressor_sensitivity


def outlier_algorithm(m: Fraction, M: Fraction):  # type: ignore[no-untyped-def]
    """Outlier-score suppression of numbers in [0, 1] by absolute distance."""

    def deletion(data):  # type: ignore[no-untyped-def]
        return [m + (M - m) * sum((abs(x - y) for y in data), Fraction(0)) / len(data) for x in data]

    return independent_deletion(deletion)


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 2.0])
@pytest.mark.parametrize("span", [("1/10", "3/10"), ("2/5", "1/2"), ("1/5", "4/5"), ("3/5", "9/10")])
def test_enumeration_never_exceeds_the_theorem(epsilon: float, span: tuple[str, str]) -> None:
    m, M = Fraction(span[0]), Fraction(span[1])
    universe = [Fraction(0), Fraction(1, 2), Fraction(1)]
    found = suppression(ApproxDP(epsilon, 1e-3), outlier_algorithm(m, M), universe, largest=5)
    assert found.epsilon <= float(outlier_epsilon(epsilon, float(m), float(M)))
    assert found.delta == pytest.approx(1e-3 * float(1 - m), rel=1e-12)


def two_point_loss(epsilon: float, m: float, M: float, x: int, y: int) -> float:
    """Theorem 5.3 for D = x zeros and y ones plus a neighbour's one, in closed form: the largest over all subsets.

    Records of one kind have the same score, and each may be kept or deleted, whichever gives the larger ratio.
    """
    n = x + y
    w = M - m

    def score(count_same: int, total: int) -> float:
        return m + w * (total - count_same) / total

    own = score(y + 1, n + 1)
    pairs = [(x, score(x, n) if x else 0.5, score(x, n + 1) if x else 0.5)]
    pairs += [(y, score(y, n) if y else 0.5, score(y + 1, n + 1) if y else 0.5)]
    up = math.log(own + math.exp(epsilon) * (1 - own))
    down = -math.log(own + math.exp(-epsilon) * (1 - own))
    for count, before, after in pairs:
        logs = (math.log(after / before), math.log((1 - after) / (1 - before)))
        up += count * max(logs)
        down += count * max(-logs[0], -logs[1])
    return max(up, down)


@pytest.mark.parametrize(
    ("epsilon", "m", "M"), [(0.5, 0.1, 0.3), (1.0, 0.1, 0.3), (2.0, 0.3, 0.5), (1.0, 0.2, 0.4), (0.25, 0.05, 0.9)]
)
def test_two_point_data_approaches_the_bound_from_below(epsilon: float, m: float, M: float) -> None:
    """All records at one point and the neighbour far away: the case p = 1, where the bound is tight."""
    bound = float(outlier_epsilon(epsilon, m, M))
    losses = [
        max(two_point_loss(epsilon, m, M, x, total - x) for x in range(0, total + 1, max(1, total // 50)))
        for total in (5, 50, 500, 5000, 50_000)
    ]
    assert all(loss < bound for loss in losses)
    assert losses == sorted(losses)
    assert losses[-1] >= 0.99 * bound


def finite_bound(epsilon: float, m: float, M: float, records: int) -> float:
    """The relaxed optimum for one N over all a, z and subsets (B.21), on a grid of mean distances."""
    n, w, best = records + 1, M - m, -math.inf
    d = np.linspace(0, w, 201)
    for s in np.linspace(0, w * records / n, 41):
        outer = np.minimum((m + records * M) / n, d * (records - 1) / n + m + s)
        inner = (n * outer - (m + d)) / records
        height = np.maximum(np.log1p(d / m / n), np.log((1 - outer) / (1 - inner)))
        mean = n * s / records
        left, right = d <= mean + 1e-12, d >= mean - 1e-12
        span = d[right][None] - d[left][:, None]
        share = np.divide(mean - d[left][:, None], span, out=np.zeros_like(span), where=span > 0)
        envelope = (height[left][:, None] * (1 - share) + height[right][None] * share).max()
        best = max(best, math.log(math.exp(epsilon) - math.expm1(epsilon) * (m + s)) + records * envelope)
    return best


def test_no_finite_data_set_exceeds_the_bound() -> None:
    generator = np.random.default_rng(3)
    for _ in range(60):
        epsilon = float(generator.choice([0.0, 0.5, 1.0, 3.0]))
        m, M = np.sort(generator.uniform(0.02, 0.98, 2)).tolist()
        records = int(generator.choice([1, 2, 3, 5, 9, 30, 200]))
        assert finite_bound(epsilon, m, M, records) <= float(outlier_epsilon(epsilon, m, M)) + 1e-12


def polynomial_of_the_proof():  # type: ignore[no-untyped-def]
    """docs/proofs/amplification.md, case 3: N = 3 + s, x = 1/(1 + y), G = 5/(1 + t), cleared of denominators."""
    s, y, t = fmpz_mpoly_ctx.get(("s", "y", "t"), Ordering.lex).gens()
    N, one, T = 3 + s, 1 + y, 1 + t
    n = N + 1
    top, bottom = 5 * (n * one - 2), n * (one * T + 5)  # h = top / bottom
    log_top, log_bottom = top * (2 * bottom + top), 2 * bottom * (bottom + top)  # ln(1 + h) ≤ h/2·(1 + 1/(1 + h))
    c_top, c_bottom = n * (one * T + 5 * (N - 1) + 5 * one), 5 * one * N
    rest = c_bottom * log_bottom
    return (n * one - 1) * rest * one * T - N * (N - 1) * (c_top * log_top * one * T - (one * T + 5 * N) * rest)


def test_polynomial_of_the_proof_is_not_negative() -> None:
    """Negative terms are paid for by arithmetic–geometric means of positive ones; the sums are checked exactly."""
    terms = {tuple(int(e) for e in power): int(c) for power, c in polynomial_of_the_proof().terms()}
    negative = [power for power, c in terms.items() if c < 0]
    positive = [power for power, c in terms.items() if c > 0]
    moves = []
    for power in negative:
        for step in ((1, -1, 0), (1, 0, -1), (0, 1, -1), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, -1, 1), (1, -1, -1)):
            ends = tuple(tuple(a + k * b for a, b in zip(power, step, strict=True)) for k in (1, -1))
            if all(end in terms and terms[end] > 0 for end in ends):
                moves += [(power, *ends, Fraction(2) ** k) for k in range(-6, 7)]
    used = np.zeros((len(positive), len(moves)))
    gained = np.zeros((len(negative), len(moves)))
    for column, (power, first, second, ratio) in enumerate(moves):
        unit = abs(terms[power])
        used[positive.index(first), column] += float(ratio) * unit / terms[first]
        used[positive.index(second), column] += unit / float(ratio) / terms[second]
        gained[negative.index(power), column] += 2.0
    found = linprog(
        np.ones(len(moves)),
        A_ub=np.vstack([used, -gained]),
        b_ub=np.r_[np.full(len(positive), 0.999), np.full(len(negative), -1.001)],
        method="highs",
    )
    assert found.status == 0
    amounts = [Fraction(int(value * 2**40), 2**40) for value in found.x]
    left = {power: Fraction(c) for power, c in terms.items()}
    for (power, first, second, ratio), amount in zip(moves, amounts, strict=True):
        # amount·(ratio·A + B/ratio − 2√(AB)) ≥ 0 for monomials A, B with √(AB) the middle one.
        unit = abs(terms[power]) * amount
        left[first] -= ratio * unit
        left[second] -= unit / ratio
        left[power] += 2 * unit
    assert all(c >= 0 for c in left.values())


def test_theorem_needs_its_logarithm() -> None:
    """E7: without the logarithm the theorem's maximum is e^ε^S: for ½-sampling 1.859 instead of 0.620."""
    half = independent_deletion(lambda data: [Fraction(1, 2)] * len(data))
    found = suppression(PureDP(1.0), half, ["a"], largest=2)
    assert found.epsilon == pytest.approx(poisson_sampling(PureDP(1.0), 0.5).epsilon, rel=1e-15)
    assert math.exp(found.epsilon) == pytest.approx(0.5 + 0.5 * math.e)


def test_general_theorem_contains_deterministic_suppression() -> None:
    """B.6 with an output that only one side can leave: everything is deleted as soon as there are two records."""

    def at_most_one(data):  # type: ignore[no-untyped-def]
        return {frozenset(range(len(data))) if len(data) <= 1 else frozenset(): 1.0}

    found = suppression(PureDP(0.7), at_most_one, ["a", "b"], largest=3)
    sensitivity = suppressor_sensitivity(lambda data: range(len(data)) if len(data) <= 1 else [], ["a", "b"], 3)
    assert sensitivity == 1
    assert found.epsilon == pytest.approx(deterministic_suppression(PureDP(0.7), sensitivity).epsilon, rel=1e-15)
    approximate = suppression(ApproxDP(0.7, 1e-4), at_most_one, ["a", "b"], largest=3)
    assert approximate.epsilon == pytest.approx(0.7, rel=1e-15)
    assert approximate.delta == pytest.approx(1e-4, rel=1e-15)


def test_distance_rules_have_unbounded_sensitivity() -> None:
    """Proposition B.2: deleting what is far from the rest has a sensitivity that grows with the data."""

    def near(data):  # type: ignore[no-untyped-def]
        return [i for i, x in enumerate(data) if sum(abs(x - y) for y in data) <= len(data) / 2]

    found = [suppressor_sensitivity(near, [0, 1], largest) for largest in (2, 4, 6, 8)]
    assert found == sorted(found)
    assert found[-1] > found[0]


@pytest.mark.parametrize(
    ("algorithm", "text"),
    [
        (lambda data: {frozenset(): 0.5}, "add up to 1"),
        (lambda data: {frozenset({9}): 1.0}, "beyond the data"),
    ],
)
def test_refuses_what_is_no_law(algorithm, text) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidParameter, match=text):
        suppression(PureDP(1.0), algorithm, ["a"], largest=1)


def test_refuses_other_guarantees_and_empty_universes() -> None:
    half = independent_deletion(lambda data: [0.5] * len(data))
    with pytest.raises(InvalidParameter, match="PureDP or ApproxDP"):
        suppression(GaussianDP(1.0), half, ["a"], largest=1)
    with pytest.raises(InvalidParameter, match="universe"):
        suppression(PureDP(1.0), half, [], largest=1)
    with pytest.raises(InvalidParameter, match="largest"):
        suppression(PureDP(1.0), half, ["a"], largest=0)


def outcomes(data: list[float], m: float, M: float):  # type: ignore[no-untyped-def]
    """Every subset that suppression may keep, by positions, with its probability."""
    chances = [1 - m - (M - m) * sum(abs(x - y) for y in data) / len(data) for x in data]
    for kept in itertools.product((True, False), repeat=len(data)):
        weight = math.prod(p if one else 1 - p for p, one in zip(chances, kept, strict=True))
        yield [x for x, one in zip(data, kept, strict=True) if one], weight


def renyi(first: np.ndarray, second: np.ndarray, order: float, step: float) -> float:
    """D_α of two densities on a grid."""
    logs = order * np.log(first) + (1 - order) * np.log(second)
    return float((logsumexp(logs) + math.log(step)) / (order - 1))


@pytest.mark.parametrize(("m", "M"), [(0.3, 0.3), (0.2, 0.5), (0.1, 0.9)])
def test_suppression_under_zcdp_and_with_a_replaced_record(m: float, M: float) -> None:
    """All data sets of up to four records of {0, ½, 1}, against Gaussian sums and a mechanism that tells its size."""
    universe, sigma, epsilon = (0.0, 0.5, 1.0), 0.8, 0.7
    grid, step = np.linspace(-14.0, 18.0, 6401), 0.005
    c = (M - m) / min(m, 1 - M)
    own = math.log(max((1 - m) / (1 - M), M / m))
    rho = 1 / (2 * sigma**2)

    def density(data: list[float], value):  # type: ignore[no-untyped-def]
        parts = (weight * np.exp(-(((grid - value(kept)) / sigma) ** 2) / 2) for kept, weight in outcomes(data, m, M))
        return sum(parts) / (sigma * math.sqrt(2 * math.pi))

    def told(data: list[float], y: float) -> dict[tuple[int, bool], float]:
        """The size of what is kept, and by randomised response whether y is in it."""
        found: dict[tuple[int, bool], float] = {}
        for kept, weight in outcomes(data, m, M):
            for said in (True, False):
                right = 1 / (1 + math.exp(-epsilon))
                chance = right if said == (y in kept) else 1 - right
                found[len(kept), said] = found.get((len(kept), said), 0.0) + weight * chance
        return found

    most_added = most_replaced = most_told = 0.0
    for size in range(4):
        for data in itertools.combinations_with_replacement(universe, size):
            for y in universe:
                rest, larger = list(data), [*data, y]
                pair = density(rest, len), density(larger, len)  # a count moves by one
                for order in (1.5, 2.0, 8.0):
                    worst = max(renyi(*pair, order, step), renyi(*pair[::-1], order, step))
                    assert worst <= order * (rho + c**2 * size / (2 * (size + 1) ** 2)) + 1e-9
                    most_added = max(most_added, worst / (order * rho))
                for other in universe:
                    replaced = [*data, other]
                    n = size + 1
                    both = density(larger, sum), density(replaced, sum)  # a sum moves by one at most
                    allowed = rho + own**2 / 2 + c**2 * (n - 1) / (2 * n**2)
                    worst = max(renyi(*both, 2.0, step), renyi(*both[::-1], 2.0, step))
                    assert worst <= 2 * allowed + 1e-9
                    most_replaced = max(most_replaced, worst / (2 * rho))
                    one, two = told(larger, y), told(replaced, y)
                    loss = max(abs(math.log(one[key] / two[key])) for key in one)
                    assert loss <= c + max(epsilon + math.log((1 - m) / (1 - M)), math.log(M / m)) + 1e-12
                    most_told = max(most_told, loss)
    assert most_told >= epsilon - 1e-12  # nothing is amplified with a replaced record
    assert most_added > 0.3
    if m == M:
        assert most_told == pytest.approx(epsilon, rel=1e-12)
        # With one record or none the parameter grows towards ρ, by at least what its chance of staying leaves.
        found = [renyi(density([1.0], len), density([], len), order, step) / order for order in (2.0, 6.0, 14.0)]
        assert found == sorted(found)
        assert rho - math.log(1 / (1 - m)) / 13.0 - 1e-6 <= found[-1] <= rho + 1e-9
