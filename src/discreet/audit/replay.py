"""Replay audit: neighbours, the same randomness, and what differs.

A release function runs twice, on neighbouring data, with one and the same stream of random words. Three things must
hold: the exact value moved by no more than the declared sensitivity, everything that is treated as public is the same,
and both runs took the same path through the code.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import discreet
from discreet.audit.collection import no_collection
from discreet.core.errors import InvalidParameter
from discreet.core.exact import Exact
from discreet.core.noise.entropy import SYSTEM_ENTROPY, SystemEntropy
from discreet.core.sensitivity import Sensitivity
from discreet.display import Facts, number
from discreet.result import Result

__all__ = ["ReplayAudit", "audit_replay", "coordinate_changes", "path_taken", "same_randomness"]

_ROOM = str(Path(discreet.__file__).parent)

Changes = Callable[[Exact, Exact], list[Fraction] | None]


@dataclass(frozen=True)
class ReplayAudit(Result):
    """What neighbours changed, over all pairs that were tried.

    Attributes
    ----------
    declared_l1, measured_l1, declared_l2, measured_l2
        The declared sensitivity and the largest change found; infinite where neighbours have values of unlike shape.
    within
        Whether every change was within the declaration, compared exactly, coordinate by coordinate where declared so.
    same_public
        Whether everything treated as public (shape, sensitivity, public facts) was the same on both sides.
    same_path
        Whether every pair took the same path through the code.
    pairs
        Number of pairs.
    """

    declared_l1: float | None
    measured_l1: float
    declared_l2: float
    measured_l2: float
    within: bool
    same_public: bool
    same_path: bool
    pairs: int

    @property
    def passed(self) -> bool:
        """Whether every change was within the declaration, and nothing public and no path differed."""
        return self.within and self.same_public and self.same_path

    @property
    def tightness(self) -> float:
        """Largest share of the declared sensitivity that was reached."""
        if self.declared_l1 is not None:
            return self.measured_l1 / self.declared_l1
        return self.measured_l2 / self.declared_l2

    def facts(self) -> Facts:
        """What to show."""
        return [
            ("ℓ₁ declared", "–" if self.declared_l1 is None else number(self.declared_l1)),
            ("ℓ₁ measured", number(self.measured_l1)),
            ("ℓ₂ declared", number(self.declared_l2)),
            ("ℓ₂ measured", number(self.measured_l2)),
            ("public facts", "the same" if self.same_public else "DIFFER BETWEEN NEIGHBOURS"),
            ("same path", "yes" if self.same_path else "NO"),
            ("pairs", f"{self.pairs:,}"),
            ("verdict", "holds" if self.passed else "EXCEEDED"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {
            "declared_l1": self.declared_l1,
            "measured_l1": None if np.isinf(self.measured_l1) else self.measured_l1,
            "declared_l2": self.declared_l2,
            "measured_l2": None if np.isinf(self.measured_l2) else self.measured_l2,
            "within": self.within,
            "same_public": self.same_public,
            "same_path": self.same_path,
            "pairs": self.pairs,
            "passed": self.passed,
        }

    def heading(self) -> str:
        return "Replay audit"


def coordinate_changes(first: Exact, second: Exact) -> list[Fraction] | None:
    """Absolute change of every coordinate, exactly; None where the two values have unlike shapes."""
    here, there = (np.asarray(exact.value, dtype=object) for exact in (first, second))
    if here.shape != there.shape:
        return None
    return [abs(Fraction(a) - Fraction(b)) for a, b in zip(here.ravel(), there.ravel(), strict=True)]


def audit_replay(
    measure: Callable[[Any], Exact],
    pairs: Iterable[tuple[Any, Any]],
    *,
    draw: Callable[[Exact], Any] | None = None,
    changes: Changes = coordinate_changes,
    traced: int = 3,
) -> ReplayAudit:
    """Measure neighbours and compare.

    Parameters
    ----------
    measure
        From data to `Exact`.
    pairs
        Neighbouring data sets.
    draw
        From `Exact` to an output. It is traced on both sides with the same random words; its path must be the same.
    changes
        How far apart two exact values are, where that is not the change of their coordinates.
    traced
        How many of the pairs to draw from; tracing is slow.

    Examples
    --------
    >>> from discreet import Neighbours, Sum
    >>> total = Sum(bounds=(0, 10))
    >>> audit_replay(lambda rows: total.exact(rows, neighbours=Neighbours.ADD_REMOVE), [([1, 10], [1])]).passed
    True
    """
    l1 = l2 = 0.0
    sensitivity: Sensitivity | None = None
    within, public, path, count = True, True, True, 0
    for here, there in pairs:
        first, second = measure(here), measure(there)
        moved = changes(first, second)
        sensitivity = first.sensitivity
        public = public and moved is not None and _public_facts(first) == _public_facts(second)
        if moved is None:
            within, l1, l2 = False, np.inf, np.inf
        else:
            squares = sum((change**2 for change in moved), Fraction(0))
            l1, l2 = max(l1, float(sum(moved, Fraction(0)))), max(l2, float(squares) ** 0.5)
            within = within and _within(moved, squares, sensitivity)
        if draw is not None and count < traced:
            path = path and _same_path(draw, first, second, count)
        count += 1
    if sensitivity is None:
        raise InvalidParameter("pairs", "none", "there must be one at least", "Pass pairs of neighbours.")
    return ReplayAudit(sensitivity.l1, l1, sensitivity.require_l2(), l2, within, public, path, count)


def _within(moved: list[Fraction], squares: Fraction, declared: Sensitivity) -> bool:
    """Whether a change is no more than declared, without any rounding."""
    if declared.l1 is not None and sum(moved, Fraction(0)) > Fraction(declared.l1):
        return False
    if squares > Fraction(declared.require_l2()) ** 2:
        return False
    if declared.moves is None:
        return True
    largest = sorted((change for change in moved if change), reverse=True)
    fits = zip(largest, declared.moves, strict=False)
    return len(largest) <= len(declared.moves) and all(change <= Fraction(move) for change, move in fits)


def _public_facts(exact: Exact) -> str:
    """What a release of this value would show besides the value."""
    statistic = None if exact.statistic is None else exact.statistic.to_dict()
    facts = [exact.sensitivity.to_dict(), exact.neighbours.value, exact.unit, statistic, dict(exact.public)]
    return json.dumps(facts, sort_keys=True, default=str)


def _same_path(draw: Callable[[Exact], Any], first: Exact, second: Exact, seed: int) -> bool:
    paths = []
    draw(first)  # what is imported or computed once per process is no part of the path
    for exact in (first, second):
        with same_randomness(seed):
            paths.append(path_taken(lambda: draw(exact)))  # noqa: B023
    return paths[0] == paths[1]


@contextmanager
def same_randomness(seed: int) -> Iterator[None]:
    """Let this thread's exact samplers read a repeatable stream of words; other threads keep real entropy."""
    stream, audited = np.random.default_rng(seed), threading.get_ident()

    def words(count: int) -> Any:
        if threading.get_ident() != audited:
            return SystemEntropy.words(SYSTEM_ENTROPY, count)
        return stream.integers(0, 2**64, count, dtype=np.uint64)

    SYSTEM_ENTROPY.words = words  # type: ignore[method-assign]
    try:
        yield
    finally:
        del SYSTEM_ENTROPY.words


def path_taken(call: Callable[[], Any]) -> frozenset[tuple[str, int, int]]:
    """The steps from line to line of discreet that a call takes; how often a loop runs does not count."""
    steps: set[tuple[str, int, int]] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(_ROOM):
            return None
        previous = 0

        def line(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal previous
            if event == "line" and previous != frame.f_lineno:
                steps.add((frame.f_code.co_filename, previous, frame.f_lineno))
                previous = frame.f_lineno
            return line

        return line

    before = sys.gettrace()
    with no_collection():
        sys.settrace(trace)
        try:
            call()
        finally:
            sys.settrace(before)
    return frozenset(steps)
