"""Choices by log-weights and coins with probability exp(−x)."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from discreet.core.errors import DiscreetError, InvalidParameter, WrongType
from discreet.core.noise.choice import choose, exact_events
from discreet.core.noise.sampler import float_truth
from discreet.core.numbers import ball

DRAWS = 200_000


def assert_follows(winners, probabilities):
    """χ² at level 1e-6; with 200,000 draws a probability of 0.1 that is 5 % off gives a statistic above 50."""
    counts = np.bincount(winners, minlength=len(probabilities))
    assert chisquare(counts, probabilities * counts.sum()).pvalue > 1e-6
    wrong = probabilities * 0.95
    wrong[-1] = 1 - wrong[:-1].sum()
    assert chisquare(counts, wrong * counts.sum()).pvalue < 1e-6


def test_probabilities_are_proportional_to_weights():
    scores, factor = np.array([0.0, 1.0, 2.0, -1.0]), Fraction(2, 3)
    weights = np.exp(scores * 2 / 3)
    assert_follows(choose(scores, factor, size=DRAWS), weights / weights.sum())


def test_multiplicities_count_equal_candidates():
    counts = np.array([1, 0, 5, 10**12])
    scores = np.array([0.0, 9.0, 1.0, -math.log(2e11)])
    weights = counts * np.exp(scores)
    winners = choose(scores, multiplicity=counts, size=DRAWS)
    assert not (winners == 1).any()
    relabelled = np.searchsorted([0, 2, 3], winners)
    assert_follows(relabelled, np.delete(weights, 1) / weights.sum())


class TiedEntropy:
    """All candidates get the same first bits; the further ones decide."""

    def __init__(self, winner):
        self.winner, self.calls = winner, 0

    def words(self, count):
        self.calls += 1
        words = np.full(count, 2**63, dtype=np.uint64)
        if self.calls > 1:
            words[self.winner] += np.uint64(2**60)
        return words


@pytest.mark.parametrize("winner", [0, 1, 2])
def test_ties_are_broken_by_further_bits(winner):
    entropy = TiedEntropy(winner)
    assert choose([1.0, 1.0, 1.0], entropy=entropy) == winner
    assert entropy.calls == 2


def test_far_apart_scores_do_not_overflow():
    assert choose([0.0, 1e300, -1e300]) == 1
    assert choose([-math.inf, -1e308]) == 1
    assert choose([7.0]) == 0


class OneWord:
    def __init__(self, *words):
        self.stream = list(words)

    def words(self, count):
        return np.array([self.stream.pop(0) for _ in range(count)], dtype=np.uint64)


def test_a_close_event_is_decided_exactly():
    # exp(−ln 2 as a float) is just above 1/2; the first 64 bits of U equal those of exactly one half.
    x = math.log(2)
    happens = exact_events(np.array([0.5]), 2.0**-50, lambda _: (-ball(x)).exp(), entropy=OneWord(2**63, 0, 0, 0))
    assert happens[0] == (Fraction(x) < Fraction(6931471805599453094172321, 10**25))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: choose([]), InvalidParameter),
        (lambda: choose([[1.0, 2.0]]), InvalidParameter),
        (lambda: choose([math.nan, 1.0]), InvalidParameter),
        (lambda: choose([math.inf, 1.0]), InvalidParameter),
        (lambda: choose([-math.inf]), InvalidParameter),
        (lambda: choose("ab"), WrongType),
        (lambda: choose([1.0], math.nan), InvalidParameter),
        (lambda: choose([1.0], size=0), InvalidParameter),
        (lambda: choose([1.0, 2.0], multiplicity=[1]), InvalidParameter),
        (lambda: choose([1.0, 2.0], multiplicity=[0, 0]), InvalidParameter),
        (lambda: choose([1.0, 2.0], multiplicity=[-1, 1]), InvalidParameter),
        (lambda: choose([-math.inf, 2.0], multiplicity=[1, 0]), InvalidParameter),
    ],
)
def test_refusals(call, error):
    with pytest.raises(error):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: choose([[4711.0]]),
        lambda: choose(["4711x"]),
        lambda: choose([0.0, 1.0], multiplicity=[4711, -4711]),
        lambda: float_truth([4711.0, "x"]),
    ],
)
def test_what_is_private_is_not_quoted_where_it_is_refused(call):
    with pytest.raises(DiscreetError) as refused:
        call()
    assert "4711" not in str(refused.value)
