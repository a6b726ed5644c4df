"""Coverage of population intervals: the study behind `docs/studies/coverage/coverage.md`, with its targets.

``python benchmarks/coverage.py [--quick] [DIRECTORY]`` computes what is missing in the directory and prints a table.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping
from pathlib import Path

from discreet.papers import run
from discreet.papers.coverage import STUDY
from discreet.papers.coverage_cells import LEAST
from discreet.papers.study import Progress, Row

HERE = Path(__file__).parent


def lines(tables: Mapping[str, list[Row]]) -> list[str]:
    """One line per statistic: the least coverage over its settings beside the target, and the median width."""
    shown = [f"{'statistic':<18} {'settings':>8} {'least':>7} {'width':>7}  target        met"]
    for name, rows in tables.items():
        least = min(float(row["coverage"]) for row in rows)
        ample = [row for row in rows if int(row["n"]) >= 1000 and float(row["budget"]) >= 1 and row["width_ratio"]]
        width = statistics.median(float(row["width_ratio"]) for row in ample)
        slack = 3 * max(float(row["standard_error"]) for row in rows)
        met = "yes" if least >= LEAST else "within three Monte-Carlo errors" if least >= LEAST - slack else "NO"
        shown.append(f"{name:<18} {len(rows):>8} {least:>7.1%} {width:>7.2f}  ≥ {LEAST:.1%}       {met}")
    return shown


def _progress(progress: Progress) -> None:
    print(f"\r{progress.done}/{progress.total} {progress.part:<12}", end="", file=sys.stderr, flush=True)


def main() -> None:
    """Run the study and print its table."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--quick"]
    out = Path(arguments[0]) if arguments else HERE / "results" / "coverage"
    result = run(STUDY, out, quick="--quick" in sys.argv, progress=_progress)
    print(file=sys.stderr)
    print("\n".join(lines(result.rows)))


if __name__ == "__main__":
    main()
