"""Whether a session stays fast: a request to a ledger of thousands beside a request to an empty one."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from discreet import PureDP, Schema, Session
from discreet.core.protection import Protection
from discreet.results.ledger import Ledger

RELEASES, REPEATS = 2000, 40
TARGET = 1.5  # times the first requests


def _fill(ledger: Ledger, count: int) -> None:
    for number in range(count):
        reservation = ledger.reserve(
            PureDP(0.001),
            question={"ask": "count"},
            mechanism={"name": "laplace", "scale": 1000.0},
            sensitivity={"l1": 1.0},
            protection=Protection(),
            request=f"earlier {number}",
        )
        ledger.record_answer(reservation, {"value": number})


def _median(call: Callable[[int], object]) -> float:
    taken = []
    for number in range(REPEATS):
        start = time.perf_counter()
        call(number)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1e3


def measure() -> dict[str, tuple[float, float]]:
    """Milliseconds of new and of repeated requests: with an empty ledger, and with one of 2,000 releases."""
    rows = pa.table({"x": list(range(1000))})
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "bench.ledger", PureDP(1000.0))
        session = Session(rows, Schema(columns={}), ledger=ledger)
        session.count(epsilon=0.001)  # opens the data
        fresh = _median(lambda i: session.count(epsilon=0.001, name=f"first {i}"))
        again = _median(lambda i: session.count(epsilon=0.001, name=f"first {i}"))
        _fill(ledger, RELEASES)
        late = _median(lambda i: session.count(epsilon=0.001, name=f"last {i}"))
        repeated = _median(lambda i: session.count(epsilon=0.001, name=f"first {i}"))
    return {"new request": (fresh, late), "repeated request": (again, repeated)}


def main() -> None:
    """Print the table."""
    late = f"{RELEASES:,}th, ms"
    print(f"{'session.count on 1,000 rows':<28} {'first, ms':>10} {late:>11} {'ratio':>6} {'target':>7} met")
    for name, (first, last) in measure().items():
        met = "yes" if last / first <= TARGET else "no"
        print(f"{name:<28} {first:>10.2f} {last:>11.2f} {last / first:>6.2f} {TARGET:>7.1f} {met}")


if __name__ == "__main__":
    main()
