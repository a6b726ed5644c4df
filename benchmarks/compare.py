"""What a user meets first, beside other libraries: size, time to import, time to a first count, time of a draw.

Prints the table of the README and of the comparison page, and keeps the figures in `results/compare.json`. A peer that
is not installed is left out; `make bench PEERS="opendp diffprivlib pipelinedp tumult-analytics tumult"` installs all.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import footprint
from discreet import __version__

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parent / ".venv-peers"
RESULTS = HERE / "results"
ROUNDS = 3
# Name, environment, module to import, environment whose sampler is timed
PEERS = (
    ("OpenDP", "opendp", "opendp.prelude", "opendp"),
    ("Tumult Analytics", "tumult-analytics", "tmlt.analytics", "tumult"),
    ("diffprivlib", "diffprivlib", "diffprivlib", "diffprivlib"),
    ("PipelineDP", "pipelinedp", "pipeline_dp", "pipelinedp"),
)
OURS = """
from discreet import Exact, Laplace, Ledger, PureDP, Sensitivity, release
one = Sensitivity(l1=1.0)
ledger = Ledger(":memory:", budget=PureDP(1.0))
print(release(Exact(len(range(1000)), one), Laplace.calibrate(PureDP(1.0), one), ledger=ledger).value)
"""
DRAWS = """
import json, numpy, timing
from discreet import Laplace
law = Laplace(scale=1.0).law(numpy.zeros(1_000_000))
print(json.dumps({"figures": [timing.figure("Laplace", "discreet", law.sample, draws=1_000_000, repeats=9)]}))
"""
FACTS = {
    "megabytes": "installed (MB)",
    "import": "import (s)",
    "first count": "first count, from process start (s)",
    "draw": "one Laplace draw in a vector or loop (ns)",
}


def process(command: list[str], rounds: int = ROUNDS) -> tuple[float, str]:
    """Seconds of the fastest of a few runs of a process, and what it printed."""
    best, printed = float("inf"), ""
    for _ in range(rounds):
        start = time.perf_counter()
        environment = os.environ | {"PYTHONPATH": str(HERE), "PYSPARK_PYTHON": command[0]}
        with tempfile.TemporaryDirectory() as elsewhere:  # some leave files behind
            run = subprocess.run(command, env=environment, cwd=elsewhere, capture_output=True, text=True, check=True)
        best, printed = min(best, time.perf_counter() - start), run.stdout
    return best, printed


def megabytes(environment: Path) -> float:
    """Size of what is installed, without pip, setuptools and bytecode."""
    [packages] = environment.glob("lib/python3*/site-packages")
    tools = ("pip", "setuptools", "_distutils_hack", "pkg_resources")
    files = [
        path
        for path in packages.rglob("*")
        if path.is_file() and path.suffix != ".pyc" and not path.relative_to(packages).parts[0].startswith(tools)
    ]
    return sum(path.stat().st_size for path in files) / 1e6


def imported(python: str, module: str) -> float:
    """Seconds of an import in a fresh process, the best of a few."""
    timed = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
    return min(float(process([python, "-c", timed], rounds=1)[1]) for _ in range(2 * ROUNDS))


def laplace(python: str, program: list[str]) -> float:
    """Nanoseconds of one Laplace draw, the best of a few processes."""
    runs = [json.loads(process([python, *program], rounds=1)[1])["figures"] for _ in range(ROUNDS)]
    return float(min(row["ns"] for figures in runs for row in figures if row["task"] == "Laplace"))


def ours() -> dict[str, Any]:
    """The figures of discreet: the base installation, and a count paid for in a ledger."""
    return {
        "version": f"discreet {__version__}",
        "megabytes": footprint.megabytes(bytecode=False),
        "import": imported(sys.executable, "discreet"),
        "first count": process([sys.executable, "-c", OURS])[0],
        "draw": laplace(sys.executable, ["-c", DRAWS]),
    }


def theirs(environment: str, module: str, sampler: str) -> dict[str, Any] | None:
    """The figures of a peer; None where it is not installed."""
    python = str(ENVIRONMENTS / environment / "bin" / "python")
    if not (ENVIRONMENTS / environment / ".installed").exists():
        return None
    script = str(HERE / "peers" / f"first_count_{environment.replace('-', '_')}.py")
    found: dict[str, Any] = {
        "megabytes": megabytes(ENVIRONMENTS / environment),
        "import": imported(python, module),
        "first count": process([python, script])[0],
        "draw": None,
    }
    if (ENVIRONMENTS / sampler / ".installed").exists():
        program = [str(HERE / "peers" / f"measure_{sampler}.py")]
        found["draw"] = laplace(str(ENVIRONMENTS / sampler / "bin" / "python"), program)
    return found


def table(figures: dict[str, dict[str, Any]]) -> str:
    """The figures as markdown."""
    lines = ["| | " + " | ".join(figures) + " |", "|---|" + "---:|" * len(figures)]
    for key, words in FACTS.items():
        shown = ["–" if one[key] is None else _number(one[key]) for one in figures.values()]
        lines.append(f"| {words} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def main() -> None:
    """Measure, print and keep the figures."""
    figures: dict[str, dict[str, Any]] = {"discreet": ours()}
    for name, environment, module, sampler in PEERS:
        found = theirs(environment, module, sampler)
        if found is None:
            print(f"{name} is not installed and left out", file=sys.stderr)
        else:
            figures[name] = found
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    RESULTS.mkdir(exist_ok=True)
    record = {"machine": machine, "figures": figures}
    (RESULTS / "compare.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"{table(figures)}\n\n{machine}")


if __name__ == "__main__":
    main()
