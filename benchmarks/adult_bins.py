"""Six columns of Adult in bins, and a place for figures from different environments."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

EDGES = {
    "age": [0, 20, 30, 40, 50, 60, 70, 80, 126],
    "fnlwgt": [0, 100_000, 200_000, 300_000, 10_000_000],
    "education-num": list(range(1, 18)),
    "capital-gain": [0, 1, 5_000, 20_000, 1_000_000],
    "capital-loss": [0, 1, 1_500, 2_000, 100_000],
    "hours-per-week": [0, 10, 20, 30, 40, 41, 50, 60, 101],
}
RESULTS = Path(__file__).parent / "results" / "three_ways.json"


def codes(path: str) -> NDArray[np.int64]:
    """The bin of every number, one column each."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = [
        np.searchsorted(edges, [float(row[name]) for row in rows], side="right") - 1 for name, edges in EDGES.items()
    ]
    return np.stack(columns, axis=1)


def keep(name: str, figures: dict[str, object]) -> None:
    """Put the figures of one library beside the others."""
    found = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps(found | {name: figures}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
