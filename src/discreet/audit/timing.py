"""Timing audit: whether the time a release takes tells anything about the secret value."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import requirements
from discreet.display import Facts
from discreet.result import Result

__all__ = ["TimingAudit", "audit_timing"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TimingAudit(Result):
    """How well running times tell two inputs apart.

    Attributes
    ----------
    auc
        Probability that a run on the second input takes longer than one on the first; 0.5 tells nothing.
    low, high
        Its 99.9 % interval.
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

    @property
    def passed(self) -> bool:
        """Whether no dependence beyond the effect size is certain."""
        return self.low <= 0.5 + self.effect and self.high >= 0.5 - self.effect

    def facts(self) -> Facts:
        """What to show."""
        return [
            ("AUC of running times", f"{self.auc:.4f} ({self.low:.4f} to {self.high:.4f}, 99.9 %)"),
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
            "passed": self.passed,
        }

    def heading(self) -> str:
        return "Timing audit"


def audit_timing(
    first: Callable[[], Any], second: Callable[[], Any], *, repeats: int = 5000, effect: float = 0.02
) -> TimingAudit:
    """Time two calls that differ in the secret only, in random order, and compare the times.

    The machine's own noise blurs both alike. Runs are interleaved at random so that drift cannot pass for a difference;
    what is compared are ranks, so that single interruptions do not matter.
    """
    count = requirements.positive_integer("repeats", repeats, at_least=100)
    width = requirements.probability("effect", effect)
    order = np.random.default_rng().permutation(np.repeat([False, True], count))
    calls = (first, second)
    for call in calls:
        call()
    gc.disable()
    try:
        times = np.array([_timed(calls[int(which)]) for which in order])
    finally:
        gc.enable()
    return _compared(times[~order], times[order], width)


def _timed(call: Callable[[], Any]) -> int:
    start = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - start


def _compared(first: Array, second: Array, effect: float) -> TimingAudit:
    """Mann–Whitney AUC with DeLong's standard error."""
    from scipy.stats import rankdata

    n, m = first.size, second.size
    ranks = rankdata(np.concatenate([first, second]))
    place_first = (ranks[:n] - rankdata(first)) / m
    place_second = (ranks[n:] - rankdata(second)) / n
    auc = float(place_second.mean())
    spread = float(np.sqrt(place_first.var() / n + place_second.var() / m))
    return TimingAudit(auc=auc, low=auc - 3.29 * spread, high=auc + 3.29 * spread, effect=effect, repeats=int(n))
