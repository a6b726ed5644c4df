"""Time a call. Standard library only, because the peers' environments use this file too."""

import json
import time
from collections.abc import Callable
from typing import TypedDict


class Figure(TypedDict):
    """Nanoseconds a draw of one subject at one task."""

    task: str
    subject: str
    draws: int
    ns: float


def figure(task: str, subject: str, call: Callable[[], object], *, draws: int, repeats: int = 5) -> Figure:
    """Time a call that makes `draws` draws: the best of `repeats`, after one to warm up.

    Other work on the machine only ever adds time, so the best is the least noisy estimate.
    """
    call()
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter_ns()
        call()
        best = min(best, time.perf_counter_ns() - start)
    return Figure(task=task, subject=subject, draws=draws, ns=best / draws)


def verdict(value: float, most: float | None) -> str:
    """Whether a figure is what it may be at most; nothing where that is not said."""
    return "" if most is None else f"  at most {most:g}: {'met' if value <= most else 'MISSED'}"


def tell(version: str, figures: list[Figure]) -> None:
    """Print a peer's figures for the process that asked for them."""
    print(json.dumps({"version": version, "figures": figures}))
