"""Repetition audit: noise that comes twice protects nobody.

A release is made many times: one after another, after the global random generators were set to a fixed state, in two
threads of which one runs at every line of the other, and in forked processes. Single values of a continuous mechanism
on a fine grid do coincide now and then: among 456 draws on a grid of 2⁻²⁰ of the scale in 2 of 100 audits. So *three
values in a row* are compared. With N values in all, of which any two are equal with probability c, sound noise is
suspected with probability N²c³/2 at most: 2e-13 for N = 5,000 and c = 2.4e-7, the Laplace mechanism's, and below 1e-9
wherever c is below 1e-5.
"""

from __future__ import annotations

import os
import pickle
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import Any

import numpy as np

from discreet.core.noise import entropy
from discreet.display import Facts
from discreet.result import Result

__all__ = ["RepetitionAudit", "audit_repetition"]

_BYTES = 1 << 20
_ROW = 3
_NOISE = str(Path(entropy.__file__).parent)
_MOST_LINES = 400
_PATIENCE = 0.1
"""Seconds to wait for a thread that a lock may hold; a sound lock makes the audit slower, and no worse."""


@dataclass(frozen=True)
class RepetitionAudit(Result):
    """How much noise was seen before.

    Attributes
    ----------
    repeats
        Places where three values in a row had been seen before.
    draws
        Values in all.
    where
        Where the first repetition came from.
    """

    repeats: int
    draws: int
    where: str | None

    @property
    def passed(self) -> bool:
        """Whether all noise was new."""
        return self.repeats == 0

    def facts(self) -> Facts:
        """What to show."""
        return [
            ("values", f"{self.draws:,}"),
            ("seen before", f"{self.repeats:,}" + (f", first {self.where}" if self.where else "")),
            ("verdict", "all new" if self.passed else "NOISE REPEATS"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {"repeats": self.repeats, "draws": self.draws, "where": self.where, "passed": self.passed}

    def heading(self) -> str:
        return "Repetition audit"


def audit_repetition(draw: Callable[[], Any], *, times: int = 50, forks: int = 8) -> RepetitionAudit:
    """Call ``draw`` in a row, with reset global generators, in threads and in forks; look for noise seen before.

    Parameters
    ----------
    draw
        Draws noise on a fine grid: one number or an array.

    Examples
    --------
    >>> from discreet import Laplace
    >>> audit_repetition(lambda: Laplace(1.0).draw([0.0] * 8), forks=2).passed
    True
    """
    seen: set[tuple[float, ...]] = set()
    repeats, draws, where = 0, 0, None
    for source, values in _sources(draw, times, forks):
        draws += len(values)
        for start in range(len(values) - _ROW + 1):
            row = tuple(values[start : start + _ROW])
            if row in seen:
                repeats, where = repeats + 1, where or source
            seen.add(row)
    return RepetitionAudit(repeats, draws, where)


def _sources(draw: Callable[[], Any], times: int, forks: int) -> Iterator[tuple[str, Sequence[float]]]:
    yield "between calls", [value for _ in range(times) for value in _values(draw())]
    for _ in range(min(times, 5)):
        yield "after the global generators were reset", _reset_values(draw)
    for values in _interleaved_values(draw):
        yield "between threads", values
    if hasattr(os, "fork"):
        for values in _forked_values(draw, forks):
            yield "between forked processes", values


def _interleaved_values(draw: Callable[[], Any]) -> Iterator[Sequence[float]]:
    """What two threads draw, where the second draws while the first stands at some line of the noise's own code.

    Every line has its turn, so what a pool without a lock hands out twice is seen in every run and not by luck.
    """
    for stop in range(_MOST_LINES):
        found: list[Sequence[float]] = []
        second = Thread(target=lambda into=found: into.append(_row_of_values(draw)))
        passed = _draw_with(second, stop, draw, found)
        second.join()
        yield from found
        if not passed:  # there are no more lines
            return


def _draw_with(second: Thread, stop: int, draw: Callable[[], Any], found: list[Sequence[float]]) -> bool:
    """Draw, and let the other thread run at line number ``stop``; whether there is such a line."""
    lines = 0

    def at_line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        if event == "line":
            if lines == stop:
                second.start()
                second.join(_PATIENCE)  # it waits where a lock is held, as it should
            lines += 1
        return at_line

    def entered(frame: FrameType, event: str, argument: Any) -> Any:
        return at_line if frame.f_code.co_filename.startswith(_NOISE) else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        found.append(_row_of_values(draw))
    finally:
        sys.settrace(before)
    if lines <= stop:
        second.start()
    return lines > stop


def _row_of_values(draw: Callable[[], Any]) -> list[float]:
    """What one call draws, or as many calls as make a row."""
    values = _values(draw())
    while len(values) < _ROW:
        values += _values(draw())
    return values


def _values(output: Any) -> list[float]:
    return [float(value) for value in np.asarray(output, dtype=float).ravel()]


def _reset_values(draw: Callable[[], Any]) -> list[float]:
    states = random.getstate(), np.random.get_state()  # noqa: NPY002  (the global state is what is audited)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    try:
        return _row_of_values(draw)
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


def _forked_values(draw: Callable[[], Any], forks: int) -> list[Sequence[float]]:
    """What as many children draw; every child ends at once, without running anything of the parent's."""
    readers: list[tuple[int, int]] = []
    for _ in range(forks):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            _send(draw, write)
        os.close(write)
        readers.append((read, child))
    return [_received(read, child) for read, child in readers]


def _send(draw: Callable[[], Any], write: int) -> None:
    try:
        os.write(write, pickle.dumps(_row_of_values(draw)))
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
