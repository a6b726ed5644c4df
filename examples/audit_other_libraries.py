"""Audit other libraries with discreet's auditor: their mechanisms, statistics and models, on worst neighbours.

Each library runs in an environment of its own (``benchmarks/peers/attacked_*.py``) and prints draws on two neighbouring
inputs. discreet certifies from them a lower bound on ε, or on μ. An answer that is not a number, and an error, are
outcomes like any other. Bounds of all rows together are right with 99.9 % probability.

Run ``make bench PEERS="opendp diffprivlib pipelinedp"`` once to build the environments, then
``python examples/audit_other_libraries.py``; a number makes all draws so many times as many. Environments elsewhere are
named by a second argument. A library that is not installed is skipped in words.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from discreet.audit.statistical import audit_draws
from discreet.core.guarantee import Guarantee

ROOT = Path(__file__).parent.parent
LIBRARIES = {"diffprivlib": 18, "opendp": 7, "pipelinedp": 7}
"""Environment to the number of functions that are attacked there."""
LEVEL = 1 - 0.001 / sum(LIBRARIES.values())


def drawn(library: str, environments: Path, scale: str) -> Iterator[dict[str, Any]]:
    """What a library answers on both sides, function by function."""
    script = ROOT / "benchmarks" / "peers" / f"attacked_{library}.py"
    command = [str(environments / library / "bin" / "python"), "-W", "ignore", script.name, scale]
    with subprocess.Popen(command, cwd=script.parent, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout is not None:
            yield from map(json.loads, process.stdout)


def numbers(rows: list[list[str]]) -> np.ndarray[Any, Any]:
    """Draws, printed in full, as an array."""
    return np.array([[float.fromhex(value) for value in row] for row in rows])


def main(scale: str = "1", environments: str = str(ROOT / ".venv-peers")) -> None:
    """Attack every library whose environment exists, and print a table."""
    print("| library | function | neighbours | claimed | certified | |\n|---|---|---|---|---|---|")
    skipped = [name for name in LIBRARIES if not (Path(environments) / name / "bin" / "python").exists()]
    for library in LIBRARIES:
        if library in skipped:
            continue
        for told in drawn(library, Path(environments), scale):
            claim = Guarantee.from_dict(told["claim"])
            audit = audit_draws(numbers(told["here"]), numbers(told["there"]), claim, confidence=LEVEL)
            at = f" at δ {audit['at_delta']:.3g}" if audit["at_delta"] else ""
            certified = f"{audit['symbol']} ≥ {max(audit['certified'], 0):.3f}{at}"
            verdict = "not refuted" if audit.passed else f"refuted: {audit['event']}"
            row = told["library"], told["name"], told["neighbours"], str(claim), certified, verdict
            print("|", " | ".join(row), "|", flush=True)
    for library in skipped:
        print(f'\n{library} is not installed: `make bench PEERS="{library}"` builds its environment.')


if __name__ == "__main__":
    main(*sys.argv[1:])
