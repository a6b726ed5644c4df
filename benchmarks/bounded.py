"""Bounded Laplace noise beside diffprivlib and the exact Laplace sampler, all in one run.

Calibrating 100,000 scales and drawing 1,000,000 values. diffprivlib solves and draws one at a time, so it gets fewer of
the same problems; every figure is in nanoseconds for one. Its (ε, δ) scales are holohan2018's, which are larger than
need be; discreet's are the smallest over all pairs of neighbours (to 1e-12), certified.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms import BoundaryInflatedLaplace, BoundedLaplace, Laplace
from discreet.mechanisms.bounded.scale import bounded_laplace_scales
from timing import Figure, figure

HERE = Path(__file__).parent
SCALES = 100_000
DRAWS = 1_000_000
PEER_PROBLEMS = 400

# How many times faster than each subject discreet has to be.
TARGETS = {
    ("ε-DP scales", "diffprivlib"): 300,
    ("(ε, δ) scales", "diffprivlib"): 300,
    ("bounded draws", "diffprivlib (insecure)"): 300,
    ("bounded draws", "exact Laplace"): 1 / 2,
}


def problems(count: int, *, approximate: bool) -> NDArray[np.float64]:
    """Rows of (ε, δ, Δ) over the ranges that releases use."""
    rng = np.random.default_rng(7)
    epsilon = np.exp(rng.uniform(np.log(0.01), np.log(10), count))
    sensitivity = np.exp(rng.uniform(np.log(1e-4), 0, count))
    delta = np.exp(rng.uniform(np.log(1e-9), np.log(0.01), count)) if approximate else np.zeros(count)
    return np.column_stack([epsilon, delta, sensitivity])


def scales(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve rows of (ε, δ, Δ) on [0, 1]."""
    return bounded_laplace_scales(rows[:, 0], rows[:, 1], rows[:, 2], 0.0, 1.0)


def ours() -> list[Figure]:
    """Time discreet."""
    pure, approximate = (problems(SCALES, approximate=kind) for kind in (False, True))
    truth = np.full(DRAWS, 0.3)
    return [
        figure("ε-DP scales", "discreet", lambda: scales(pure), draws=SCALES),
        figure("(ε, δ) scales", "discreet", lambda: scales(approximate), draws=SCALES),
        *draws(truth),
    ]


def draws(truth: NDArray[np.float64]) -> list[Figure]:
    """Time the samplers in turns, so that other work on the machine meets them alike; the best of each counts."""
    subjects = {
        "discreet": BoundedLaplace(scale=0.16, bounds=(0, 1)).law(truth).sample,
        "discreet, clamped": BoundaryInflatedLaplace(scale=0.16, bounds=(0, 1)).law(truth).sample,
        "exact Laplace": Laplace(scale=0.16).law(truth).sample,
    }
    rounds = [
        [figure("bounded draws", name, call, draws=DRAWS, repeats=1) for name, call in subjects.items()]
        for _ in range(20)
    ]
    return [min(column, key=lambda row: row["ns"]) for column in zip(*rounds, strict=True)]


def peer() -> tuple[list[Figure], list[str]]:
    """Time diffprivlib in its own environment, where it is installed."""
    python = HERE.parent / ".venv-peers" / "diffprivlib" / "bin" / "python"
    if not python.exists():
        print("diffprivlib is not installed and left out", file=sys.stderr)
        return [], []
    tasks = {
        "ε-DP scales": problems(PEER_PROBLEMS, approximate=False).tolist(),
        "(ε, δ) scales": problems(PEER_PROBLEMS, approximate=True).tolist(),
    }
    run = subprocess.run(
        [python, HERE / "peers" / "measure_diffprivlib_bounded.py"],
        env=os.environ | {"PYTHONPATH": str(HERE)},
        input=json.dumps(tasks),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    answer = json.loads(run.stdout)
    return answer["figures"], [answer["version"]]


def lines(figures: list[Figure]) -> list[str]:
    """The figures as a table; the speed-up is a subject's time over discreet's."""
    table = [f"{'task':<15}{'subject':<24}{'number':>10}{'ns each':>12}{'speed-up':>10}{'target':>8}"]
    own = {row["task"]: row["ns"] for row in figures if row["subject"] == "discreet"}
    for task, base in own.items():
        for row in sorted((row for row in figures if row["task"] == task), key=lambda row: row["ns"]):
            speedup, least = row["ns"] / base, TARGETS.get((task, row["subject"]))
            line = f"{task:<15}{row['subject']:<24}{row['draws']:>10,}{row['ns']:>12,.1f}{speedup:>10,.2f}"
            verdict = "met" if least is None or speedup >= least else "MISSED"
            table.append(line if least is None else f"{line}{least:>8,.1f}  {verdict}")
    return table


def main() -> None:
    """Measure everything once and print the table."""
    figures, versions = peer()
    print("\n".join([*lines(ours() + figures), "", ", ".join([f"numpy {np.__version__}", *versions])]))


if __name__ == "__main__":
    main()
