"""Exact noise beside other libraries, numpy's insecure generator and raw entropy, all in one run.

A peer is measured by its script in `peers/`, with the interpreter of its own environment. Slow peers make
fewer draws; every figure is in nanoseconds a draw.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from discreet.core.noise.choice import choose
from discreet.mechanisms import Gaussian, Laplace
from discreet.mechanisms.bounded.laplace import TruncatedLaplaceLaw
from timing import Figure, figure

HERE = Path(__file__).parent
PEERS = ("opendp", "pydp", "diffprivlib", "tumult")
DRAWS = 1_000_000

# How many times faster than each subject discreet has to be.
TARGETS = {
    ("Laplace", "OpenDP"): 500,
    ("Gaussian", "OpenDP"): 500,
    ("Laplace", "PyDP"): 50,
    ("Gaussian", "PyDP"): 50,
    ("Laplace", "numpy (insecure)"): 1 / 3,
    ("Gaussian", "numpy (insecure)"): 1 / 3,
    ("truncated Laplace", "diffprivlib (insecure)"): 500,
    ("choice of 10,000", "OpenDP, exponential noise"): 30,
    ("choice of 10,000", "OpenDP, Gumbel noise"): 30,
}


def measure() -> tuple[list[Figure], list[str]]:
    """Time discreet and the installed peers; the figures, and the peers' versions."""
    figures, versions = ours(), [f"numpy {np.__version__}"]
    for name in PEERS:
        python = HERE.parent / ".venv-peers" / name / "bin" / "python"
        if not python.exists():
            print(f"{name} is not installed and left out", file=sys.stderr)
            continue
        command = [python, HERE / "peers" / f"measure_{name}.py"]
        environment = os.environ | {"PYTHONPATH": str(HERE)}
        run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        answer = json.loads(run.stdout)
        figures += answer["figures"]
        versions.append(answer["version"])
    return figures, versions


def ours() -> list[Figure]:
    """Time discreet, and what it is built on."""
    truth = np.zeros(DRAWS)
    rng = np.random.default_rng()
    truncated = TruncatedLaplaceLaw(location=np.full(DRAWS, 0.3), scale=0.1, lower=0.0, upper=1.0)
    log_weights = np.arange(10_000) % 100 / 10.0
    timed = partial(figure, draws=DRAWS, repeats=9)
    return [
        timed("Laplace", "discreet", Laplace(scale=1.0).law(truth).sample),
        timed("Gaussian", "discreet", Gaussian(scale=1.0).law(truth).sample),
        timed("truncated Laplace", "discreet", truncated.sample),
        figure("choice of 10,000", "discreet", lambda: choose(log_weights), draws=1, repeats=99),
        timed("Laplace", "numpy (insecure)", lambda: rng.laplace(truth, 1.0)),
        timed("Gaussian", "numpy (insecure)", lambda: rng.normal(truth, 1.0)),
        timed("Laplace", "64 bits of AES-256-CTR", keystream),
    ]


def keystream() -> None:
    """The random bits that `DRAWS` draws start from, made in chunks that stay in cache."""
    stream = Cipher(AES(os.urandom(32)), CTR(bytes(16))).encryptor()
    chunk = bytes(8 * 16_000)
    for _ in range(0, DRAWS, 16_000):
        stream.update(chunk)


def lines(figures: list[Figure]) -> list[str]:
    """The figures as a table of 85 columns; the speed-up is a subject's time over discreet's."""
    table = [f"{'task':<19}{'subject':<27}{'draws':>9}{'ns a draw':>12}{'speed-up':>10}{'target':>8}"]
    own = {row["task"]: row["ns"] for row in figures if row["subject"] == "discreet"}
    for task, base in own.items():
        table.append("")
        for row in sorted((row for row in figures if row["task"] == task), key=lambda row: row["ns"]):
            speedup, least = row["ns"] / base, TARGETS.get((task, row["subject"]))
            line = f"{task:<19}{row['subject']:<27}{row['draws']:>9,}{row['ns']:>12,.1f}{number(speedup):>10}"
            verdict = "met" if least is None or speedup >= least else "MISSED"
            table.append(line if least is None else f"{line}{number(least):>8}  {verdict}")
    return table


def number(value: float) -> str:
    """Two decimals for small numbers, none for large ones."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}"
