"""Run every benchmark, print the tables and keep the raw figures in `results/`."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import footprint
import noise

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    """Measure everything once."""
    figures, versions = noise.measure()
    costs = footprint.measure()
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    RESULTS.mkdir(exist_ok=True)
    record = {"machine": machine, "versions": versions, "noise": figures, "footprint": costs}
    (RESULTS / "noise.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print("\n".join([*noise.lines(figures), "", *footprint.lines(costs), "", f"{machine}; {', '.join(versions)}"]))


if __name__ == "__main__":
    main()
