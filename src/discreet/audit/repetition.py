"""Repetition audit: noise that comes twice protects nobody.

A release is made many times: one after another, after the global random generators were set to a fixed state, and in
forked processes. Outputs of a continuous mechanism on a fine grid practically never repeat; where they do, the
randomness did.
"""

from __future__ import annotations

import os
import pickle
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.core.display import Facts
from discreet.core.result import Result

__all__ = ["RepetitionAudit", "audit_repetition"]

_BYTES = 1 << 20


@dataclass(frozen=True)
class RepetitionAudit(Result):
    """How many outputs were seen before, of how many.

    Attributes
    ----------
    repeats
        Outputs that had been seen before.
    draws
        Outputs in all.
    where
        Where the first repetition came from.
    """

    repeats: int
    draws: int
    where: str | None

    @property
    def passed(self) -> bool:
        """Whether every output was new."""
        return self.repeats == 0

    def facts(self) -> Facts:
        """What to show."""
        return [
            ("outputs", f"{self.draws:,}"),
            ("seen before", f"{self.repeats:,}" + (f", first {self.where}" if self.where else "")),
            ("verdict", "all new" if self.passed else "NOISE REPEATS"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {"repeats": self.repeats, "draws": self.draws, "where": self.where, "passed": self.passed}

    def heading(self) -> str:
        return "Repetition audit"


def audit_repetition(draw: Callable[[], Any], *, times: int = 50, forks: int = 8) -> RepetitionAudit:
    """Call ``draw`` in a row, with reset global generators and in forked processes; count outputs seen before.

    Examples
    --------
    >>> from discreet import Laplace
    >>> audit_repetition(lambda: Laplace(1.0).draw([0.0] * 8), forks=2).passed
    True
    """
    seen: set[float] = set()
    repeats, draws, where = 0, 0, None
    for source, call in _sources(draw, times, forks):
        for value in call():
            draws += 1
            if value in seen:
                repeats, where = repeats + 1, where or source
            seen.add(value)
    return RepetitionAudit(repeats, draws, where)


def _sources(draw: Callable[[], Any], times: int, forks: int) -> list[tuple[str, Callable[[], list[float]]]]:
    in_a_row = [("between calls", lambda: _values(draw()))] * times
    reset = [("after the global generators were reset", lambda: _reset_values(draw))] * min(times, 5)
    forked = [("between forked processes", lambda: _forked_values(draw, forks))] if hasattr(os, "fork") else []
    return [*in_a_row, *reset, *forked]


def _values(output: Any) -> list[float]:
    return [float(value) for value in np.asarray(output, dtype=float).ravel()]


def _reset_values(draw: Callable[[], Any]) -> list[float]:
    states = random.getstate(), np.random.get_state()  # noqa: NPY002  (the global state is what is audited)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    try:
        return _values(draw())
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


def _forked_values(draw: Callable[[], Any], forks: int) -> list[float]:
    """What as many children draw; every child ends at once, without running anything of the parent's."""
    readers: list[tuple[int, int]] = []
    for _ in range(forks):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            _send(draw, write)
        os.close(write)
        readers.append((read, child))
    return [value for read, child in readers for value in _received(read, child)]


def _send(draw: Callable[[], Any], write: int) -> None:
    try:
        os.write(write, pickle.dumps(_values(draw())))
    finally:
        os._exit(0)


def _received(read: int, child: int) -> Sequence[float]:
    parts = []
    while part := os.read(read, _BYTES):
        parts.append(part)
    os.close(read)
    os.waitpid(child, 0)
    values: Sequence[float] = pickle.loads(b"".join(parts)) if parts else []
    return values
