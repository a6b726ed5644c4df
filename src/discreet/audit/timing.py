"""Timing audit: whether the time a release takes tells anything about the secret value."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from discreet.audit.collection import no_collection
from discreet.core import requirements
from discreet.display import Facts
from discreet.result import Result

__all__ = ["TimingAudit", "audit_timing"]


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
