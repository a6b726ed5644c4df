"""What a spend costs beside the least that the disk allows: one flushed commit of the same size."""

from __future__ import annotations

import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from discreet.guarantees import PureDP
from discreet.ledger import Ledger
from discreet.sensitivity import Neighbours

SPENDS = 1000
TARGET = 2.0  # times the bare commit; the milliseconds are the disk's


def _median_ms(call: Callable[[], object]) -> float:
    times = []
    for _ in range(SPENDS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def _spend(ledger: Ledger) -> None:
    ledger.reserve(
        PureDP(0.001),
        statistic={"name": "count"},
        mechanism={"name": "laplace", "scale": 1000.0},
        sensitivity={"l1": 1.0},
        neighbours=Neighbours.ADD_REMOVE,
        unit="row",
    )


def _flushed_write(path: Path) -> float:
    with open(path, "wb") as file:

        def write() -> None:
            file.write(b"x" * 8192)
            file.flush()
            os.fdatasync(file.fileno())

        return _median_ms(write)


def _bare_commit(path: Path) -> float:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE entries (seq INTEGER PRIMARY KEY, body TEXT)")

    def commit() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO entries (body) VALUES (?)", ("x" * 600,))
        connection.execute("COMMIT")

    median = _median_ms(commit)
    connection.close()
    return median


def measure() -> dict[str, float]:
    """Milliseconds, all in one run on one disk."""
    with tempfile.TemporaryDirectory(dir=".") as directory:
        place = Path(directory)
        figures = {
            "flushed write of 8 kB": _flushed_write(place / "raw"),
            "bare SQLite commit, WAL, FULL": _bare_commit(place / "bare.db"),
        }
        with Ledger(place / "ledger.db", PureDP(1000.0)) as ledger:
            figures["spend, in a file"] = _median_ms(lambda: _spend(ledger))
        start = time.perf_counter()
        Ledger(place / "ledger.db").close()
        figures[f"opening with {SPENDS} spends"] = (time.perf_counter() - start) * 1e3
    with Ledger(":memory:", PureDP(1000.0)) as ledger:
        figures["spend, in memory"] = _median_ms(lambda: _spend(ledger))
    return figures


def lines(figures: dict[str, float]) -> list[str]:
    """The table."""
    floor = figures["bare SQLite commit, WAL, FULL"]
    rows = [f"{'ledger':<34}{'median ms':>10}{'ratio':>8}  target"]
    for name, figure in figures.items():
        target = ""
        if name == "spend, in a file":
            target = f"≤ {TARGET:g} × the bare commit: met {'yes' if figure <= TARGET * floor else 'no'}"
        rows.append(f"{name:<34}{figure:>10.3f}{figure / floor:>8.2f}  {target}".rstrip())
    return rows


def main() -> None:
    """Measure and print."""
    print("\n".join(lines(measure())))


if __name__ == "__main__":
    main()
