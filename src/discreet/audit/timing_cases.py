"""Timing cases: calls that differ in the secret only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.contract.mechanism import Mechanism
from discreet.core.guarantee import PureDP
from discreet.core.noise.entropy import Words
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.bounded.boundary_inflated import BoundaryInflatedLaplace
from discreet.mechanisms.bounded.bounded_laplace import BoundedLaplace
from discreet.mechanisms.box_noise import BoxNoise
from discreet.mechanisms.choices.exponential_mechanism import ExponentialMechanism
from discreet.mechanisms.choices.noisy_max import ReportNoisyMax
from discreet.mechanisms.choices.permute_and_flip import PermuteAndFlip
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.geometric import Geometric
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.tables.james_stein import JamesSteinGaussian
from discreet.mechanisms.tables.rank_deficient import RankDeficientGaussian

__all__ = ["timing_cases"]

Call = Callable[[], Any]


def timing_cases() -> Iterator[tuple[str, Call, Call]]:
    """Small against large truths, centres at the edge against the middle, clear against close winners."""
    bounded = BoundedLaplace.calibrate(PureDP(1.0), Sensitivity(l1=0.1), bounds=(0, 1))
    inflated = BoundaryInflatedLaplace.calibrate(PureDP(1.0), Sensitivity(l1=0.1), bounds=(0, 1))
    pairs: list[tuple[str, Mechanism, Any, Any]] = [
        ("Laplace: small, large", Laplace(1.0), 0.0, 1e6),
        ("Laplace: a float, a third", Laplace(1.0), Fraction(1, 2), Fraction(1, 3)),
        ("geometric: small, large", Geometric(1.0), 0, 10**6),
        ("Gaussian: small, large", Gaussian(1.0), 0.0, 1e6),
        ("box noise: small, large", BoxNoise(1.0, 2), [0.0, 0.0], [1e6, 1e6]),
        ("discrete Gaussian: small, large", DiscreteGaussian(1.0), 0, 10**6),
        ("bounded Laplace: edge, middle", bounded, 0.0, 0.5),
        ("boundary-inflated: edge, middle", inflated, 0.0, 0.5),
        ("exponential: close, clear", ExponentialMechanism(1.0), [5, 5, 5, 5], [0, 0, 0, 9]),
        ("permute-and-flip: close, clear", PermuteAndFlip(1.0), [5, 5, 5, 5], [0, 0, 0, 9]),
        ("noisy max: close, clear", ReportNoisyMax(1.0), [5, 5, 5, 5], [0, 0, 0, 9]),
        ("rank-deficient: flat, uneven", RankDeficientGaussian(scale=1.0), [5, 5, 5, 5], [0, 0, 0, 20]),
        ("James-Stein: flat, uneven", JamesSteinGaussian(scale=1.0), [5, 5, 5, 5], [0, 0, 0, 20]),
    ]
    for name, mechanism, here, there in pairs:
        yield name, _draw(mechanism, here), _draw(mechanism, there)
    yield "Laplace: small, large noise", *_by_noise(Laplace(1.0))
    yield "bounded Laplace: small, large noise", *_by_noise(bounded)


def _draw(mechanism: Mechanism, truth: Any) -> Call:
    return lambda: mechanism.draw(truth)


def _by_noise(mechanism: Mechanism) -> tuple[Call, Call]:
    """Draws whose words make the noise small, and draws whose words make it large."""
    law: Any = mechanism.law(0.5)
    random = np.random.default_rng()

    class Chosen:
        """Words near the middle of the distribution, or in its tails."""

        def __init__(self, low: float, high: float) -> None:
            self.ends = int(low * 2**63), int(high * 2**63)

        def words(self, count: int) -> Words:
            return random.integers(*self.ends, count, dtype=np.uint64)

    small, large = Chosen(0.4, 0.6), Chosen(0.001, 0.01)
    return lambda: law.sample(entropy=small), lambda: law.sample(entropy=large)
