"""Bounds of many columns with OpenDP: two private quantiles of each, over candidates that must be named."""

import json
import sys
import time
import warnings

import opendp.prelude as dp
import polars as pl

warnings.simplefilter("ignore", FutureWarning)
dp.enable_features("contrib")
data = json.load(sys.stdin)
quarters = [2.0**power * (1 + part / 4) for power in range(-4, 24) for part in range(4)]
candidates = [*(-edge for edge in reversed(quarters)), 0.0, *quarters]
part = data["epsilon"] / len(data["columns"])


def bounds(values):
    """Quantiles at 2.5 % and 97.5 %, each for half of a column's part."""
    rows = pl.LazyFrame({"x": [float(x) for x in values]})
    context = dp.Context.compositor(
        data=rows,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=part),
        split_evenly_over=1,
        margins=[dp.polars.Margin(max_length=10 * len(values))],
    )
    ends = [pl.col.x.fill_null(0.0).dp.quantile(q, candidates).alias(f"q{q}") for q in (0.025, 0.975)]
    found = context.query().select(ends).release().collect()
    return [float(found[name][0]) for name in found.columns]


start = time.perf_counter()
found = {name: [bounds(values) for _ in range(data["repeats"])] for name, values in data["columns"].items()}
print(json.dumps({"bounds": found, "seconds": (time.perf_counter() - start) / data["repeats"]}))
