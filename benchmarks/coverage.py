"""Coverage of population intervals: the study behind `docs/studies/coverage.md`, with its targets.

``python benchmarks/coverage.py [--quick] [DIRECTORY]`` computes what is missing in the directory and prints a table.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from discreet.papers import run
from discreet.papers.coverage import LEAST, MOST, STUDY
from discreet.papers.study import Progress

HERE = Path(__file__).parent


def lines(tables: dict[str, Path]) -> list[str]:
    """One line a statistic: the extremes over its settings beside the target."""
    shown = [f"{'statistic':<12} {'settings':>8} {'least':>7} {'most':>7} {'noise ignored':>15}  target        met"]
    for name, path in tables.items():
        with path.open(encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if not row.get("remark")]
        coverage = [float(row["coverage"]) for row in rows]
        ignored = [float(row["noise_ignored"]) for row in rows]
        slack = 3 * max(float(row["standard_error"]) for row in rows)
        met = "yes" if min(coverage) >= LEAST and max(coverage) <= MOST else "NO"
        if met == "NO" and max(abs(value - 0.95) for value in coverage) <= slack:
            met = "no, by less than three Monte-Carlo errors"
        shown.append(
            f"{name:<12} {len(rows):>8} {min(coverage):>7.1%} {max(coverage):>7.1%} "
            f"{min(ignored):>6.1%} –{max(ignored):>6.1%}  {LEAST:.1%}–{MOST:.1%}  {met}"
        )
    return shown


def _progress(progress: Progress) -> None:
    print(f"\r{progress.done}/{progress.total} {progress.part:<12}", end="", file=sys.stderr, flush=True)


def main() -> None:
    """Run the study and print its table."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--quick"]
    out = Path(arguments[0]) if arguments else HERE / "results" / "coverage"
    result = run(STUDY, out, quick="--quick" in sys.argv, progress=_progress)
    print(file=sys.stderr)
    print("\n".join(lines(result.tables)))


if __name__ == "__main__":
    main()
