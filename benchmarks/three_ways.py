"""All three-way tables of six columns of Adult at (1, 10⁻⁹), beside OpenDP's AIM.

``python benchmarks/three_ways.py adult.csv`` runs discreet; ``benchmarks/peers/three_ways_aim.py`` runs AIM on the same
file in an environment with ``opendp[mbi,polars]``. Both keep their figures in ``results/three_ways.json``.
"""

from __future__ import annotations

import math
import sys
import time
from itertools import combinations

import numpy as np

from adult_bins import EDGES, codes, keep
from discreet import ApproxDP, release
from discreet.questions.tables.margins import Margins, MarginsRelease, margins_noise


def main(path: str, repeats: int = 3) -> None:
    """Errors of presented counts, coverage of their intervals, and seconds from the exact table to presented ones."""
    found = codes(path)
    sizes = [len(edges) - 1 for edges in EDGES.values()]
    joint = np.histogramdd(found, bins=[np.arange(size + 1) - 0.5 for size in sizes])[0].astype(np.int64)
    margins = Margins(
        columns={name: range(size) for name, size in zip(EDGES, sizes, strict=True)},
        tables=[list(table) for table in combinations(EDGES, 3)],
    )
    squares, absolute, inside, seconds, cells = 0.0, 0.0, 0, [], 0
    for seed in range(repeats):
        start = time.perf_counter()
        exact = margins.exact(joint)
        answer = release(
            exact, margins_noise(ApproxDP(1.0, 1e-9), exact.sensitivity, margins.workload("cells")), rng=seed
        )
        if not isinstance(answer, MarginsRelease):
            raise TypeError("a release of margins was expected")
        tables = answer.tables()
        seconds.append(time.perf_counter() - start)
        for table in tables:
            axes = margins.axes(table.columns)
            truth = joint.sum(axis=tuple(axis for axis in range(joint.ndim) if axis not in axes))
            errors = table.estimate - truth
            squares += float((errors**2).sum())
            absolute += float(np.abs(errors).sum())
            inside += int(np.sum(table.noise_interval().contains(truth)))
            cells += truth.size
    figures: dict[str, object] = {
        "RMSE of a cell": math.sqrt(squares / cells),
        "absolute error of a table, per row": absolute / repeats / len(margins.tables) / len(found),
        "cells in their 95 % interval": inside / cells,
        "seconds": seconds,
    }
    keep("discreet", figures)
    print(figures)


if __name__ == "__main__":
    main(sys.argv[1])
