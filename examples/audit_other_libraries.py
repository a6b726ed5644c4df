"""Audit the Laplace mechanisms of other libraries with discreet's auditor.

Each library runs in an environment of its own and prints draws on two neighbouring inputs; discreet certifies from
them a lower bound on ε. `make bench` builds the environments.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np

from discreet import PureDP
from discreet.audit.statistical import StatisticalAudit, audit_draws

PEERS = Path(__file__).parent.parent / ".venv-peers"
DRAWS = 100_000

DIFFPRIVLIB = """
import sys
from diffprivlib.mechanisms import Laplace, LaplaceBoundedDomain
bounded = LaplaceBoundedDomain(epsilon=1.0, sensitivity=1.0, lower=0.0, upper=3.0)
made = {"plain": Laplace(epsilon=1.0, sensitivity=1.0), "bounded": bounded}
made = made[sys.argv[1]]
for truth in (0.0, 1.0):
    print(*(made.randomise(truth).hex() for _ in range(int(sys.argv[2]))))
"""
OPENDP = """
import sys
import opendp.prelude as dp
dp.enable_features("contrib")
count = int(sys.argv[2])
space = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=count), dp.l1_distance(T=float)
made = dp.m.make_laplace(*space, scale=1.0)
for truth in (0.0, 1.0):
    print(*(value.hex() for value in made([truth] * count)))
"""
SUBJECTS = [
    ("diffprivlib, Laplace", "diffprivlib", DIFFPRIVLIB, "plain", DRAWS),
    ("diffprivlib, bounded Laplace", "diffprivlib", DIFFPRIVLIB, "bounded", DRAWS // 2),
    ("OpenDP, Laplace", "opendp", OPENDP, "plain", DRAWS // 5),
]


def audited(environment: str, code: str, which: str, draws: int) -> StatisticalAudit | None:
    """Draws of another library, audited against a claim of ε = 1; None where its environment does not exist."""
    python = PEERS / environment / "bin" / "python"
    if not python.exists():
        return None
    printed = subprocess.run(
        [str(python), "-W", "ignore", "-c", code, which, str(draws)], capture_output=True, text=True, check=True
    ).stdout
    here, there = (np.array([float.fromhex(value) for value in line.split()]) for line in printed.splitlines())
    return audit_draws(here, there, PureDP(1.0))


def main() -> None:
    """Audit every library whose environment exists."""
    for name, environment, code, which, draws in SUBJECTS:
        audit = audited(environment, code, which, draws)
        if audit is None:
            print(f"{name}: no environment; `make bench` builds it\n")
            continue
        print(f"{name}\n{audit}\n")


if __name__ == "__main__":
    main()
