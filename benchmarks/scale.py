"""Ten thousand million rows on a hundred executors, simulated from costs that were measured on one machine.

    python benchmarks/scale.py            # measures Spark's cost of a row, simulates, prints and stores
    python benchmarks/scale.py --stored   # simulates again, from the cost that was stored

The cost of a row is that of one more: the difference between 2 and 8 million rows, so that what every question costs
once does not count. A question reads rows in tasks of one block each, moves them to the partition of their unit, and
then sorts, chooses and adds up one partition in each task. Tasks begin in turn on the core that is free first. Cores
differ in speed, and one executor in fifty has half of it.
"""

from __future__ import annotations

import argparse
import heapq
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import rows

RESULTS = Path(__file__).parent / "results" / "scale.json"
FEW, MANY = 2_000_000, 8_000_000
ROWS, EXECUTORS, CORES = 10**10, 100, 4
MEMORY, NETWORK, DISK = 4e9, 1.25e9, 0.5e9
"""Bytes that a task can sort without its disk, and bytes a second of one executor."""
ROW_BYTES, BLOCK_ROWS, LAUNCH, FETCH = 48, 4_000_000, 0.005, 20e-6
"""Bytes of a row that moves, rows of a task that reads, and seconds to launch a task and to fetch a part of one."""
PARTITIONS, LARGEST = (200, 400, 4_000, 40_000), (0, 10**8, 10**9)


def measured() -> dict[str, float]:
    """Seconds of one core for one more row: of the first question, and of one with other groups."""
    found = []
    for count in (FEW, MANY):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "rows.parquet")
            rows.make_rows(path, count)
            found.append(rows.in_process("spark", path))
    return {name: (found[1][name] - found[0][name]) / (MANY - FEW) for name in ("first", "other groups")}


def together(tasks: Iterable[float], speeds: np.ndarray[Any, Any]) -> float:
    """Seconds until the last of the tasks ends, the longest of which begin first."""
    free = [(0.0, core) for core in range(speeds.size)]
    for number, seconds in enumerate(sorted(tasks, reverse=True)):
        began, core = heapq.heappop(free)
        began = max(began, number * LAUNCH)  # the driver launches one after another
        heapq.heappush(free, (began + seconds / speeds[core], core))
    return max(free)[0]


def simulated(cost: dict[str, float], partitions: int, largest: int) -> dict[str, float]:
    """Seconds of both questions where one unit has so many rows, and the bytes that the largest task sorts."""
    rng = np.random.default_rng(1)
    speeds = np.repeat(rng.lognormal(0, 0.1, EXECUTORS) / (1 + (np.arange(EXECUTORS) % 50 == 0)), CORES)
    blocks = ROWS // BLOCK_ROWS
    reading = together([BLOCK_ROWS * (cost["first"] - cost["other groups"])] * blocks, speeds)
    moving = ROWS * ROW_BYTES / EXECUTORS / NETWORK
    held = 4 * rng.poisson((ROWS - largest) / 4 / partitions, partitions)
    held[0] += largest
    size = held * ROW_BYTES
    choosing = held * cost["other groups"] + 2 * np.maximum(size - MEMORY, 0) / (DISK / CORES)
    again = together(choosing, speeds)
    first = reading + moving + together(choosing + blocks * FETCH, speeds)
    return {"first": first, "other groups": again, "largest task": float(size.max())}


def table(stored: dict[str, Any]) -> str:
    """The page's table."""
    heads = "| partitions | rows of the largest unit | first question | other groups | largest task sorts |"
    lines = [heads, "|---:|---:|---:|---:|---:|"]
    for partitions in PARTITIONS:
        for largest in LARGEST if partitions == PARTITIONS[2] else LARGEST[:1]:
            found = simulated(stored, partitions, largest)
            seconds = (f"{found[name]:,.0f} s" for name in ("first", "other groups"))
            most = f"{largest:,}" if largest else "a few"
            cells = [f"{partitions:,}", most, *seconds, f"{found['largest task'] / 1e9:.2g} GB"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, simulate, print and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stored", action="store_true")
    if not parser.parse_args().stored:
        RESULTS.write_text(json.dumps(measured(), indent=1) + "\n", encoding="utf-8")
    stored = json.loads(RESULTS.read_text(encoding="utf-8"))
    print(stored)
    print(table(stored))


if __name__ == "__main__":
    main()
