"""All three-way tables of six columns of Adult, by OpenDP's AIM at the ρ that gives (1, 10⁻⁹)."""

import json
import sys
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import opendp.prelude as dp
import polars as pl

sys.path.insert(0, str(Path(__file__).parents[1]))

from adult_bins import EDGES, codes, keep

RHO = 0.014973
"""The largest ρ whose tightest known (ε, 10⁻⁹) has ε ≤ 1."""


def main(path: str, repeats: int = 3) -> None:
    """Release, project on every table, and compare."""
    dp.enable_features("contrib")
    found, names = codes(path), [name.replace("-", "_") for name in EDGES]
    frame = pl.DataFrame({name: found[:, place] for place, name in enumerate(names)}).lazy()
    sizes = [len(edges) - 1 for edges in EDGES.values()]
    tables = list(combinations(range(len(names)), 3))
    squares, absolute, cells, seconds = 0.0, 0.0, 0, []
    for _ in range(repeats):
        start = time.perf_counter()
        context = dp.Context.compositor(
            data=frame, privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(rho=RHO)
        )
        keys = {name: list(range(size)) for name, size in zip(names, sizes, strict=True)}
        query = context.query(rho=RHO).select(*names).contingency_table(keys=keys, algorithm=dp.mbi.AIM(queries=3))
        table = query.release()
        seconds.append(time.perf_counter() - start)
        for axes in tables:
            truth = np.histogramdd(found[:, axes], bins=[np.arange(sizes[axis] + 1) - 0.5 for axis in axes])[0]
            estimate = np.asarray(table.project(tuple(names[axis] for axis in axes)))
            # The last place along each axis is for values that are not among the keys: there are none.
            errors = estimate[tuple(slice(size) for size in truth.shape)] - truth
            squares, cells = squares + float((errors**2).sum()), cells + truth.size
            absolute += float(np.abs(errors).sum())
    figures = {
        "RMSE of a cell": (squares / cells) ** 0.5,
        "absolute error of a table, per row": absolute / repeats / len(tables) / len(found),
        "seconds": seconds,
    }
    keep("OpenDP 0.16.0, AIM", figures)
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1])
