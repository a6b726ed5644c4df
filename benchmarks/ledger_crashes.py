"""Kill, starve, tear, fork and interrupt ledgers and whole runs, and count the releases that have no durable spend.

Run with what is tried (``file``, ``handlers``, ``server`` or ``runs``), the number of trials, and a directory on the
disk in question. ``server`` starts a PostgreSQL server of its own, kills it and drops its connections.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from pathlib import Path

from discreet.testing.crashes import CrashReport, crash_trials, run_trials, server_trials

TARGETS = {"file": 10_000, "handlers": 3000, "server": 2500, "runs": 1000}
WRITERS = 8


def tried(what: str, trials: int, directory: str, seed: int) -> CrashReport:
    """The trials of one sort."""
    if what == "runs":
        return run_trials(directory, trials, seed=seed)
    if what != "server":
        return crash_trials(directory, trials, seed=seed, writers=WRITERS if what == "handlers" else None)
    sys.path.insert(0, str(Path(__file__).parents[1]))
    server = importlib.import_module("tests.postgres_server").Server()

    def crash() -> None:
        server.kill()
        server.start()

    try:
        return server_trials(server.address, trials, seed=seed, writers=WRITERS, crash=crash)
    finally:
        server.stop()


def lines(report: CrashReport, what: str, seconds: float) -> list[str]:
    """The table."""
    sorts = {
        "killed at a line of the code": report.lines,
        "killed at a random moment": report.moments,
        "log cut or flipped": report.torn,
        "disk full": report.starved,
        "connection dropped or server killed": report.dropped,
        "looks and spends of signal handlers": report.handled,
        "forks of signal handlers": report.forked,
    }
    met = "yes" if report.trials >= TARGETS[what] and report.lost == 0 else "no"
    return [
        f"{f'crash trials: {what}':<44}{'trials':>9}",
        *(f"{name:<44}{count:>9,}" for name, count in sorts.items() if count),
        f"{'all':<44}{report.trials:>9,}",
        f"{'draws':<44}{report.drawn:>9,}",
        f"{'damaged ledgers refused (others were whole)':<44}{report.refused:>9,}",
        f"{'lost, double, overspent, damaged':<44}{report.lost:>9,}   target 0 of {TARGETS[what]:,}: met {met}",
        f"{seconds:.0f} s",
        *report.findings,
    ]


def main() -> None:
    """Run the trials and print what they found."""
    what = sys.argv[1] if len(sys.argv) > 1 else "file"
    trials = int(sys.argv[2]) if len(sys.argv) > 2 else TARGETS[what]
    place = Path(sys.argv[3]) if len(sys.argv) > 3 else Path()
    with tempfile.TemporaryDirectory(dir=place) as directory:
        start = time.perf_counter()
        report = tried(what, trials, directory, int(time.time()))
        print("\n".join(lines(report, what, time.perf_counter() - start)))
    sys.exit(report.lost > 0)


if __name__ == "__main__":
    main()
