"""Kill, starve and tear ledgers, and count the releases that have no durable spend.

Run with the number of trials (10,000 by default) and a directory on the disk in question.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from discreet.audit.crashes import CrashReport, crash_trials

TARGET = 10_000


def lines(report: CrashReport, seconds: float) -> list[str]:
    """The table."""
    sorts = {
        "killed at a line of the code": report.lines,
        "killed at a random moment": report.moments,
        "log cut or flipped": report.torn,
        "disk full": report.starved,
    }
    met = "yes" if report.trials >= TARGET and report.lost == 0 else "no"
    return [
        f"{'crash trials of the ledger':<44}{'trials':>9}",
        *(f"{name:<44}{count:>9,}" for name, count in sorts.items()),
        f"{'all':<44}{report.trials:>9,}",
        f"{'draws':<44}{report.drawn:>9,}",
        f"{'damaged ledgers refused (others were whole)':<44}{report.refused:>9,}",
        f"{'releases without a durable spend':<44}{report.lost:>9,}   target 0 of {TARGET:,}: met {met}",
        f"{seconds:.0f} s",
        *report.findings,
    ]


def main() -> None:
    """Run the trials and print what they found."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    place = Path(sys.argv[2]) if len(sys.argv) > 2 else Path()
    with tempfile.TemporaryDirectory(dir=place) as directory:
        start = time.perf_counter()
        report = crash_trials(directory, trials, seed=int(time.time()))
        print("\n".join(lines(report, time.perf_counter() - start)))
    sys.exit(report.lost > 0)


if __name__ == "__main__":
    main()
