"""Bounds of 16 made-up census columns beside Tumult's `get_bounds` and OpenDP's quantiles, all for ε = 1 together.

``python benchmarks/bounds_beside.py`` keeps the share held, the width and the seconds in `results/private_bounds.json`.
A peer that is not installed is left out.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa

import peer
from discreet import PureDP, Schema, Session
from private_bounds import DATES, keep, people

N, REPEATS = 10_000, 5
PEERS = {"OpenDP": "bounds_opendp", "Tumult Analytics": "bounds_tumult_analytics"}


def main() -> None:
    """Ask each library for the bounds of the same columns, and compare them with the values."""
    columns = {name: values for name, values in people(N).items() if name not in DATES}
    asked = {"columns": {name: one.tolist() for name, one in columns.items()}, "epsilon": 1.0, "repeats": REPEATS}
    answers = {"discreet": own(columns), **{name: peer.ask(name, script, asked) for name, script in PEERS.items()}}
    told = {name: compared(columns, one) for name, one in answers.items() if one is not None}
    print(told)
    keep("beside", {"people": N, "repeats": REPEATS, "columns": len(columns), "libraries": told})


def own(columns: dict[str, np.ndarray]) -> dict[str, Any]:
    """Profiles of all columns at once."""
    table = pa.table(columns)
    bounds: dict[str, list[list[float]]] = {name: [] for name in columns}
    start = time.perf_counter()
    for _ in range(REPEATS):
        found = Session(table, Schema(columns={}), ledger=":memory:", budget=PureDP(1.0)).profile(epsilon=1.0)
        for name, one in found.columns.items():
            bounds[name].append([one.low or 0.0, one.high or 0.0])
    return {"bounds": bounds, "seconds": (time.perf_counter() - start) / REPEATS}


def compared(columns: dict[str, np.ndarray], answer: dict[str, Any]) -> dict[str, float]:
    """Proportion held, how often it is 95 % or more, and the width in units of the 5 % to 95 % range."""
    held, width = [], []
    for name, values in columns.items():
        usual = float(np.subtract(*np.quantile(values, [0.95, 0.05])))
        for low, high in answer["bounds"][name]:
            held.append(float(np.mean((values >= low) & (values <= high))))
            width.append((high - low) / usual)
    kept, wide = np.array(held), np.array(width)
    return {
        "held": float(kept.mean()),
        "all": float((kept >= 0.95).mean()),
        "width": float(np.median(wide)),
        "right": float(((kept >= 0.95) & (wide <= 2)).mean()),
        "seconds": float(answer["seconds"]),
    }


if __name__ == "__main__":
    main()
