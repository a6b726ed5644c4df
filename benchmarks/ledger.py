"""What a spend costs beside the least that the disk allows: one flushed commit of the same size."""

from __future__ import annotations

import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from discreet.core.guarantee import PureDP
from discreet.core.protection import Protection
from discreet.results.ledger import Ledger

SPENDS = 1000
TARGET = 2.0  # times the bare commit; the milliseconds are the disk's
COMMIT, SPEND = "bare SQLite commit, WAL, FULL", "spend, in a file"


def _medians(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Milliseconds of each call, taken in turns, so that other work on the disk hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(SPENDS):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) * 1e3 for name, taken in times.items()}


def _spend(ledger: Ledger) -> None:
    ledger.reserve(
        PureDP(0.001),
        question={"ask": "count"},
        mechanism={"name": "laplace", "scale": 1000.0},
        sensitivity={"l1": 1.0},
        protection=Protection(),
    )


def _bare(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE entries (seq INTEGER PRIMARY KEY, body TEXT)")
    return connection


def _commit(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO entries (body) VALUES (?)", ("x" * 600,))
    connection.execute("COMMIT")


def _write(handle: int) -> None:
    os.write(handle, b"x" * 8192)
    os.fsync(handle)


def measure() -> dict[str, float]:
    """Milliseconds, all in one run on one disk."""
    with tempfile.TemporaryDirectory(dir=".") as directory:
        place = Path(directory)
        connection, handle = _bare(place / "bare.db"), os.open(place / "raw", os.O_WRONLY | os.O_CREAT)
        with Ledger(place / "bench.ledger", PureDP(1000.0)) as ledger, Ledger(":memory:", PureDP(1000.0)) as memory:
            figures = _medians(
                {
                    "flushed write of 8 kB": lambda: _write(handle),
                    COMMIT: lambda: _commit(connection),
                    SPEND: lambda: _spend(ledger),
                    "spend, in memory": lambda: _spend(memory),
                }
            )
        os.close(handle)
        connection.close()
        start = time.perf_counter()
        Ledger(place / "bench.ledger").close()
        figures[f"opening with {SPENDS} spends"] = (time.perf_counter() - start) * 1e3
    return figures


def lines(figures: dict[str, float]) -> list[str]:
    """The table."""
    floor = figures[COMMIT]
    rows = [f"{'ledger':<34}{'median ms':>10}{'ratio':>8}  target"]
    for name, figure in figures.items():
        met = "yes" if figure <= TARGET * floor else "no"
        target = f"≤ {TARGET:g} × the bare commit: met {met}" if name == SPEND else ""
        rows.append(f"{name:<34}{figure:>10.3f}{figure / floor:>8.2f}  {target}".rstrip())
    return rows


def main() -> None:
    """Measure and print."""
    print("\n".join(lines(measure())))


if __name__ == "__main__":
    main()
