"""Attacks on the low bits of released numbers: neighbours must not differ by more than the claim on any event.

Every event's frequency on two neighbours gives a Clopper–Pearson lower bound on ε; with a Bonferroni correction over
all events the largest of them exceeds a claim that holds with probability at most one in a thousand.
"""

import math

import numpy as np
import pytest
from scipy.stats import beta

from discreet import GaussianDP, PureDP
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms import BoundedLaplace, Gaussian, Laplace

DRAWS = 1_000_000
ALPHA = 1e-3
UNIT = Sensitivity(l1=1.0, l2=1.0)


def events(values):
    """Indicator functions of the bit pattern of a double, of its tail and of its residues."""
    bits = values.view(np.uint64)
    mantissa = bits & np.uint64(2**52 - 1)
    yield from ((mantissa >> np.uint64(k)) & np.uint64(1) == 1 for k in range(52))
    for power in range(0, 54, 3):
        yield np.mod(values, 2.0**-power) == 0
    yield from (values > cut for cut in (-8.0, -2.0, -0.5, 0.0, 0.5, 1.0, 3.0, 8.0))
    trailing = np.zeros(values.size)
    for k in range(1, 53):
        trailing += mantissa % np.uint64(2**k) == 0 if k < 52 else 0
    yield from (trailing == k for k in range(40))
    yield (np.abs(values) < 0.5) & (np.mod(values, 2.0**-53) != 0)


def lower_bound(first, second, delta=0.0):
    """The largest certified ε over all events and their complements, both ways."""
    counts = np.array([[int(np.sum(event)) for event in events(side)] for side in (first, second)])
    counts = np.concatenate([counts, DRAWS - counts], axis=1)
    level = ALPHA / (4 * counts.shape[1])
    low = np.where(counts > 0, beta.ppf(level, np.maximum(counts, 1), DRAWS - counts + 1), 0.0)
    high = np.where(counts < DRAWS, beta.isf(level, counts + 1, np.maximum(DRAWS - counts, 1)), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.log(np.maximum(low - delta, 0) / high[::-1])
    return float(np.nanmax(ratios))


@pytest.mark.parametrize(
    ("mechanism", "delta", "claim"),
    [
        (Laplace(1.0), 0.0, 1.0),
        (Laplace.calibrate(PureDP(0.3), UNIT), 0.0, 0.3),
        (BoundedLaplace.calibrate(PureDP(1.0), UNIT, bounds=(-4.0, 5.0)), 0.0, 1.0),
        (Gaussian(1.0), GaussianDP(1.0).delta_at(1.0), 1.0),
    ],
    ids=["laplace", "laplace 0.3", "bounded", "gaussian"],
)
def test_no_event_of_the_bits_exceeds_the_claim(mechanism, delta, claim):
    here, there = (np.asarray(mechanism.law(np.full(DRAWS, truth)).sample()) for truth in (0.0, 1.0))
    assert lower_bound(here, there, delta) <= claim


def test_the_attack_finds_noise_made_in_floating_point():
    rng = np.random.default_rng(1)
    here, there = (truth + np.sign(rng.random(DRAWS) - 0.5) * -np.log(rng.random(DRAWS)) for truth in (0.0, 1.0))
    assert lower_bound(here, there) > 1.0
    assert math.isfinite(lower_bound(here, there))
