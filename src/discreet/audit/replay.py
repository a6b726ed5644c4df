"""Replay audit: neighbours, the same randomness, and what differs.

A release function runs twice, on neighbouring data, with one and the same stream of random words. Two things must
hold: the exact value moved by no more than the declared sensitivity, and both runs took the same path through the code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import discreet
from discreet.display import Facts, as_html, as_text, number
from discreet.releases import Exact

__all__ = ["ReplayAudit", "audit_replay", "measured_change", "path_taken"]

_ROOM = str(Path(discreet.__file__).parent)


@dataclass(frozen=True)
class ReplayAudit:
    """What neighbours changed, over all pairs that were tried.

    Attributes
    ----------
    declared_l1, measured_l1, declared_l2, measured_l2
        The declared sensitivity and the largest change found.
    same_path
        Whether every pair took the same path through the code.
    pairs
        Number of pairs.
    """

    declared_l1: float | None
    measured_l1: float
    declared_l2: float
    measured_l2: float
    same_path: bool
    pairs: int

    @property
    def passed(self) -> bool:
        """Whether every change was within the declaration and no path differed."""
        within = self.declared_l1 is None or self.measured_l1 <= self.declared_l1
        return within and self.measured_l2 <= self.declared_l2 * (1 + 2.0**-50) and self.same_path

    def facts(self) -> Facts:
        """What to show."""
        return [
            ("ℓ₁ declared", "–" if self.declared_l1 is None else number(self.declared_l1)),
            ("ℓ₁ measured", number(self.measured_l1)),
            ("ℓ₂ declared", number(self.declared_l2)),
            ("ℓ₂ measured", number(self.measured_l2)),
            ("same path", "yes" if self.same_path else "NO"),
            ("pairs", f"{self.pairs:,}"),
            ("verdict", "holds" if self.passed else "EXCEEDED"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {
            "declared_l1": self.declared_l1,
            "measured_l1": self.measured_l1,
            "declared_l2": self.declared_l2,
            "measured_l2": self.measured_l2,
            "same_path": self.same_path,
            "pairs": self.pairs,
            "passed": self.passed,
        }

    def __str__(self) -> str:
        return as_text("Replay audit", self.facts())

    def _repr_html_(self) -> str:
        return as_html("Replay audit", self.facts())


def audit_replay(
    measure: Callable[[Any], Exact],
    pairs: Iterable[tuple[Any, Any]],
    *,
    draw: Callable[[Exact], Any] | None = None,
) -> ReplayAudit:
    """Measure neighbours and compare.

    Parameters
    ----------
    measure
        From data to `Exact`.
    pairs
        Neighbouring data sets.
    draw
        From `Exact` to an output, with fixed randomness; its path through the code must not depend on the data.
    """
    l1 = l2 = 0.0
    declared_l1: float | None = None
    declared_l2, same, count = 0.0, True, 0
    for here, there in pairs:
        first, second = measure(here), measure(there)
        change = measured_change(first, second)
        l1, l2 = max(l1, change[0]), max(l2, change[1])
        declared_l1 = first.sensitivity.l1
        declared_l2 = first.sensitivity.require_l2()
        if draw is not None:
            same = same and path_taken(lambda: draw(first)) == path_taken(lambda: draw(second))  # noqa: B023
        count += 1
    return ReplayAudit(declared_l1, l1, declared_l2, l2, same, count)


def measured_change(first: Exact, second: Exact) -> tuple[float, float]:
    """ℓ₁ and ℓ₂ distance of two exact values, computed exactly and rounded once."""
    flat = [np.asarray(exact.value, dtype=object).ravel() for exact in (first, second)]
    changes = [abs(Fraction(a) - Fraction(b)) for a, b in zip(*flat, strict=True)]
    return float(sum(changes, Fraction(0))), float(sum((change**2 for change in changes), Fraction(0))) ** 0.5


def path_taken(call: Callable[[], Any]) -> int:
    """A fingerprint of the lines of discreet that a call runs through, in order."""
    fingerprint = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal fingerprint
        if not frame.f_code.co_filename.startswith(_ROOM):
            return None
        if event == "line":
            fingerprint = hash((fingerprint, frame.f_code.co_filename, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return fingerprint
