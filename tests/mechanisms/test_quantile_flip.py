"""Quantiles by permute and flip: the law against brute force, the loss, the sampler, and less error at the same ε."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from discreet import Bounds, GaussianDP, Neighbours, PureDP, ZeroConcentratedDP
from discreet.core.noise.sampler import LargestExponentialFamily
from discreet.core.numbers import precisely
from discreet.mechanisms.choices.quantile import QuantileChoice
from discreet.questions.quantile import Quantiles

DATA = np.array([[0, 3, 4, 9, 20], [0, 5, 2, 6, 0]])


def choice(flip, factor=0.7):
    return QuantileChoice(factor=factor, probabilities=(0.5,), lowest=0, highest=20, grid=1.0, flip=flip)


def test_the_law_is_that_of_going_through_in_random_order():
    """Five points in all 120 orders: stop at a point with probability e^(−factor·(distance − least))."""
    small = QuantileChoice(factor=0.7, probabilities=(0.5,), lowest=0, highest=4, grid=1.0, flip=True)
    truth = np.array([[0, 1, 4], [0, 3, 2]])
    weights = QuantileChoice(factor=0.7, probabilities=(0.5,), lowest=0, highest=4, grid=1.0).chances(truth)
    heads = weights / weights.max()
    found = np.zeros(5)
    for order in itertools.permutations(range(5)):
        left = 1 / 120
        for point in order:
            found[point] += left * heads[point]
            left *= 1 - heads[point]
    assert small.chances(truth) == pytest.approx(found, abs=1e-12)


@pytest.mark.parametrize("rng", [None, np.random.default_rng(3)], ids=["exact", "simulated"])
def test_draws_have_the_law(rng):
    drawn = np.bincount([int(choice(True).draw(DATA, rng=rng)) for _ in range(4000)], minlength=21)
    assert stats.chisquare(drawn, 4000 * choice(True).chances(DATA)).pvalue > 1e-4
    assert stats.chisquare(drawn, 4000 * choice(True, 0.85).chances(DATA)).pvalue < 1e-4


def test_the_loss_reaches_the_claim_and_never_exceeds_it():
    of = Quantiles(probabilities=0.5, bounds=Bounds(0, 6, grid=1))
    sensitivity = of.sensitivity(neighbours=Neighbours.ADD_REMOVE)
    sharp = QuantileChoice.calibrate(PureDP(1.0), sensitivity, statistic=of)
    assert sharp.flip
    losses = []
    for rows in itertools.chain.from_iterable(
        itertools.combinations_with_replacement([0, 2, 3, 6], size) for size in (0, 1, 2, 7, 8)
    ):
        for extra in (0, 2, 3, 6):
            laws = [
                sharp.chances(of.exact(list(one), neighbours=Neighbours.ADD_REMOVE).value)
                for one in (rows, (*rows, extra))
            ]
            losses.append(np.abs(np.log(laws[0] / laws[1])).max())
    assert max(losses) <= 1 + 1e-9
    assert max(losses) >= 0.9


def test_only_pure_guarantees_flip():
    of = Quantiles(probabilities=0.5, bounds=Bounds(0, 6, grid=1))
    sensitivity = of.sensitivity(neighbours=Neighbours.ADD_REMOVE)
    for guarantee in (ZeroConcentratedDP(0.1), GaussianDP(0.5)):
        assert not QuantileChoice.calibrate(guarantee, sensitivity, statistic=of).flip


def test_it_is_never_worse_and_sharper_where_few_points_are_near():
    distances = -np.log(choice(False).chances(DATA))  # of ranks, up to a factor and a constant
    flipped, weighed = (float(choice(flip).chances(DATA) @ distances) for flip in (True, False))
    assert flipped < weighed
    lonely = np.array([[0, 9, 10, 20], [0, 50, 50, 0]])
    near = [choice(flip, 0.05).chances(lonely)[9:11].sum() for flip in (True, False)]
    assert near[0] > near[1]


def test_the_largest_of_many_exponentials_in_doubles_and_in_balls():
    rng = np.random.default_rng(1)
    counts = np.array([1.0, 2.0, 1000.0, 2.0**40] * 50)
    words = rng.integers(0, 2**64, counts.size, dtype=np.uint64)
    family = LargestExponentialFamily(counts)
    noise, error = family.fast(words, slice(0, counts.size))
    for place, word in enumerate(words.tolist()):
        with precisely(256):
            inside = family.enclose(place, word, 64)
        assert math.isnan(noise[place]) or abs(noise[place] - float(inside.mid())) <= error + float(inside.rad())
    ones = LargestExponentialFamily(np.full(20_000, 7.0)).fast(
        rng.integers(0, 2**64, 20_000, dtype=np.uint64), slice(0, 20_000)
    )[0]
    assert stats.kstest(ones, lambda x: (1 - np.exp(-x)) ** 7).pvalue > 1e-4
