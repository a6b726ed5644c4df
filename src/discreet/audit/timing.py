"""Timing audit: whether the time a release takes tells anything about the secret value."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np

from discreet.audit.collection import no_collection
from discreet.contract.mechanism import Mechanism
from discreet.core import requirements
from discreet.core.guarantee import PureDP
from discreet.core.noise.entropy import Words
from discreet.core.sensitivity import Sensitivity
from discreet.display import Facts
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
from discreet.result import Result

__all__ = ["TimingAudit", "audit_timing", "timing_cases"]


@dataclass(frozen=True)
class TimingAudit(Result):
    """How well running times tell two inputs apart.

    Attributes
    ----------
    auc
        Probability that a run on the second input takes longer than one on the first right beside it; 0.5 tells
        nothing.
    low, high
        Its interval at level ``confidence``.
    effect
        The distance of auc from 0.5 up to which times count as alike.
    repeats
        Runs on each input.
    """

    auc: float
    low: float
    high: float
    effect: float
    repeats: int
    confidence: float = 0.999

    @property
    def passed(self) -> bool:
        """Whether no dependence beyond the effect size is certain."""
        return self.low <= 0.5 + self.effect and self.high >= 0.5 - self.effect

    def facts(self) -> Facts:
        """What to show."""
        return [
            (
                "AUC of running times",
                f"{self.auc:.4f} ({self.low:.4f} to {self.high:.4f}, {100 * self.confidence:.7g} %)",
            ),
            ("allowed", f"{0.5 - self.effect:.2f} to {0.5 + self.effect:.2f}"),
            ("runs", f"{self.repeats:,} on each input"),
            ("verdict", "alike" if self.passed else "DEPENDS ON THE SECRET"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {
            "auc": self.auc,
            "low": self.low,
            "high": self.high,
            "effect": self.effect,
            "repeats": self.repeats,
            "confidence": self.confidence,
            "passed": self.passed,
        }

    def heading(self) -> str:
        return "Timing audit"


def audit_timing(
    first: Callable[[], Any],
    second: Callable[[], Any],
    *,
    repeats: int = 5000,
    effect: float = 0.02,
    confidence: float = 0.999,
) -> TimingAudit:
    """Time two calls that differ in the secret only, in pairs, and count which of the two took longer.

    The two calls of a pair follow each other at once, in random order, so that what else the machine does slows both
    alike: load widens the interval, but cannot pass for a difference. Only the order of the two times counts, so
    that single interruptions do not matter either.
    """
    count = requirements.positive_integer("repeats", repeats, at_least=100)
    width = requirements.probability("effect", effect)
    swapped = np.random.default_rng().integers(0, 2, count).astype(bool)
    for call in (first, second):
        call()
    with no_collection():
        times = np.array([_pair(second, first) if swap else _pair(first, second) for swap in swapped])
    slower = np.sign(times[:, 1] - times[:, 0]) * np.where(swapped, -1, 1)  # 1 where the second input took longer
    auc = float((slower.mean() + 1) / 2)
    deviations = NormalDist().inv_cdf((1 + requirements.level(confidence)) / 2)
    spread = deviations * float(slower.std()) / 2 / math.sqrt(count)
    return TimingAudit(auc=auc, low=auc - spread, high=auc + spread, effect=width, repeats=count, confidence=confidence)


def _pair(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[int, int]:
    start = time.perf_counter_ns()
    first()
    middle = time.perf_counter_ns()
    second()
    return middle - start, time.perf_counter_ns() - middle


# ---- Timing cases: calls that differ in the secret only


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
