"""Run the benchmarks, print their tables and keep raw figures in `results/`.

`python benchmarks/run.py` runs all of them; `python benchmarks/run.py noise bounded` runs some.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import footprint
import noise

HERE = Path(__file__).parent
RESULTS = HERE / "results"
SCRIPTS = (
    "noise",
    "compare",
    "features",
    "accuracy",
    "ledger",
    "session_requests",
    "bounded",
    "tables",
    "margins",
    "omission",
    "rows",
    "waits",
    "ab_tests",
    "rounding_check",
)


def noise_and_footprint() -> None:
    """Noise beside its peers, import time and size, in one run."""
    figures, versions = noise.measure()
    costs = footprint.measure()
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    RESULTS.mkdir(exist_ok=True)
    record = {"machine": machine, "versions": versions, "noise": figures, "footprint": costs}
    (RESULTS / "noise.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print("\n".join([*noise.lines(figures), "", *footprint.lines(costs), "", f"{machine}; {', '.join(versions)}"]))


def main() -> None:
    """Measure what was named, or everything, one after another."""
    wanted = sys.argv[1:] or list(SCRIPTS)
    unknown = [name for name in wanted if name not in SCRIPTS]
    if unknown:
        sys.exit(f"unknown benchmark {unknown[0]!r}; choose from {', '.join(SCRIPTS)}")
    for name in wanted:
        print(f"\n== {name} ==", flush=True)
        if name == "noise":
            noise_and_footprint()
        else:
            subprocess.run([sys.executable, str(HERE / f"{name}.py")], check=True)


if __name__ == "__main__":
    main()
