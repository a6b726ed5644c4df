"""What a user meets first, beside other libraries: size, time to import, time to a first count, time of a draw.

Prints the table of the README and of the comparison page, and keeps the figures in `results/compare.json`. A peer that
is not installed is left out; the comparison page has the command that installs all.
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

import footprint
import peer
from discreet import __version__

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parent / ".venv-peers"
ROUNDS = 5
# Name, environment, module to import, environment whose sampler is timed
PEERS = (
    ("OpenDP", "opendp", "opendp.prelude", "opendp"),
    ("Tumult Analytics", "tumult-analytics", "tmlt.analytics", "tumult"),
    ("diffprivlib", "diffprivlib", "diffprivlib", "diffprivlib"),
    ("PipelineDP", "pipelinedp", "pipeline_dp", "pipelinedp"),
)
SURVEY = HERE.parent / "examples" / "survey.csv"
"""The file of the README's first example; every library counts its rows, for ε = 0.5."""
OURS = """
import sys
from discreet import Bounds, Schema, Session
schema = Schema(columns={"age": Bounds(18, 100, grid=1)})
print(Session(sys.argv[1], schema, ledger="survey.ledger", epsilon=1.0).count(epsilon=0.5).value)
"""
DRAWS = """
import json, numpy, timing
from discreet.mechanisms import Laplace
law = Laplace(scale=1.0).law(numpy.zeros(1_000_000))
print(json.dumps({"figures": [timing.figure("Laplace", "discreet", law.sample, draws=1_000_000, repeats=9)]}))
"""
FACTS = {
    "megabytes": "installed, base package only (MB)",
    "import": "import (s)",
    "first count": "rows of a CSV file counted, from process start (s)",
    "draw": "one Laplace draw in a vector or loop (ns)",
    "grouped count": "a million rows counted in 100 groups (s)",
}


def run(command: list[str]) -> tuple[float, str]:
    """Seconds of a process, and what it printed."""
    environment = os.environ | {"PYTHONPATH": str(HERE), "PYSPARK_PYTHON": command[0]}
    with tempfile.TemporaryDirectory() as elsewhere:  # some leave files behind
        start = time.perf_counter()
        done = subprocess.run(command, env=environment, cwd=elsewhere, capture_output=True, text=True, check=True)
        return time.perf_counter() - start, done.stdout


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


class Library:
    """One library: the interpreters and programs that measure it."""

    def __init__(self, environment: str | None, module: str, sampler: str | None) -> None:
        if environment is None or sampler is None:
            self.python = self.sampling = sys.executable
            self.counting, self.drawing = ["-c", OURS, str(SURVEY)], ["-c", DRAWS]
            self.megabytes = footprint.megabytes(bytecode=False)
        else:
            self.python = str(ENVIRONMENTS / environment / "bin" / "python")
            self.sampling = str(ENVIRONMENTS / sampler / "bin" / "python")
            self.counting = [str(HERE / "peers" / f"first_count_{environment.replace('-', '_')}.py"), str(SURVEY)]
            self.drawing = [str(HERE / "peers" / f"measure_{sampler}.py")]
            self.megabytes = megabytes(ENVIRONMENTS / environment)
        self.importing = (
            f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
        )

    def once(self) -> dict[str, float]:
        """One round."""
        drawn = json.loads(run([self.sampling, *self.drawing])[1])["figures"]
        return {
            "import": float(run([self.python, "-c", self.importing])[1]),
            "first count": run([self.python, *self.counting])[0],
            "draw": min(row["ns"] for row in drawn if row["task"] == "Laplace"),
        }


def grouped_count(name: str) -> float:
    """Seconds of a count by group, the best of two; not in every round, as some take a minute."""
    python = peer.interpreter(name)
    script = HERE / "peers" / f"grouped_count_{name.lower().replace(' ', '_')}.py"
    return min(float(run([str(python), str(script), "1000000"])[1].split()[-1]) for _ in range(2))


def libraries() -> dict[str, Library]:
    """discreet and the peers that are installed."""
    found = {"discreet": Library(None, "discreet", None)}
    for name, environment, module, sampler in PEERS:
        needed = {environment, sampler, peer.ENVIRONMENTS[name]}
        if all((ENVIRONMENTS / one / ".installed").exists() for one in needed):
            found[name] = Library(environment, module, sampler)
        else:
            print(f"{name} is not installed and left out", file=sys.stderr)
    return found


def measure() -> dict[str, dict[str, float]]:
    """The best of a few rounds; in each round every library has its turn, so that all see the same machine."""
    subjects = libraries()
    rounds = [{name: library.once() for name, library in subjects.items()} for _ in range(ROUNDS)]
    return {
        name: {
            "megabytes": library.megabytes,
            **{fact: min(one[name][fact] for one in rounds) for fact in rounds[0][name]},
            "grouped count": grouped_count(name),
        }
        for name, library in subjects.items()
    }


def table(figures: dict[str, dict[str, float]]) -> str:
    """The figures as markdown."""
    lines = ["| | " + " | ".join(figures) + " |", "|---|" + "---:|" * len(figures)]
    for key, words in FACTS.items():
        if any(key not in one for one in figures.values()):
            continue  # the figures are older than this fact
        shown = [_number(one[key]) for one in figures.values()]
        lines.append(f"| {words} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def main() -> None:
    """Measure, print and keep the figures."""
    figures = measure()
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    peer.keep("compare", {"machine": machine, "version": __version__, "figures": figures})
    print(f"{table(figures)}\n\n{machine}")


if __name__ == "__main__":
    main()
