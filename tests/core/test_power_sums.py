"""Sums of third and fourth powers of grid steps, exact whatever the bounds."""

import math
import shutil

import pandas as pd
import pytest

from discreet.core.rows import Selected, coarsening, take, totals
from discreet.core.rows.source import open_source
from discreet.core.schema import Bounds, Schema

NO_JAVA = pytest.mark.skipif(shutil.which("java") is None, reason="a local Spark needs Java, and there is none")


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=[pytest.mark.spark, NO_JAVA])])
@pytest.mark.parametrize(
    "high", [50.0, 46_000.0, 3_000_000.0, 2.0**31, 2.0**40], ids=["small", "64 bits", "38 digits", "edge", "halves"]
)
def test_powers_are_exact(engine, high, tmp_path):
    values = [high, -high, high - 1, 7.0, -3.0, 1.0, 0.0, high // 3, -(high // 7) - 1]
    others = [high, high, -high, 2.0, 5.0, -1.0, 9.0, high // 5, high - 3]
    pd.DataFrame({"x": values, "y": others}).to_parquet(tmp_path / "rows.parquet")
    schema = Schema(columns={name: Bounds(-high, high, grid=1) for name in "xy"})
    products = [("x",), ("x", "x"), ("x", "x", "x"), ("x", "x", "x", "x"), ("x", "y", "y"), ("x", "x", "y", "y")]
    dataset = open_source(str(tmp_path / "rows.parquet"), engine=None if engine == "duckdb" else engine)
    found = totals(take(dataset, schema, salt=""), Selected(columns=("x", "y")), products)
    rows = [{"x": int(x), "y": int(y)} for x, y in zip(values, others, strict=True)]
    for product in products:
        expected = 0
        for row in rows:
            term = 1
            for name in product:
                term *= row[name]
            expected += term
        assert found.sums[product][0] == expected, product


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=[pytest.mark.spark, NO_JAVA])])
@pytest.mark.parametrize("high", [50.0, 3_000_000.0, 2.0**40], ids=["small", "merged", "merged most"])
def test_long_products_count_from_the_lower_bound(engine, high, tmp_path):
    """Eight factors: 10 bits each. The same whole numbers as by hand, on every engine."""
    values = [high, -high, high - 1, 7.0, -3.0, 1.0, 0.0, high // 3, -(high // 7) - 1]
    others = [high, high, -high, 2.0, 5.0, -1.0, 9.0, high // 5, high - 3]
    pd.DataFrame({"x": values, "y": others}).to_parquet(tmp_path / "rows.parquet")
    schema = Schema(columns={name: Bounds(-high, high, grid=1) for name in "xy"})
    products = [("x",), ("x", "x", "y"), ("x",) * 4 + ("y",) * 4]
    dataset = open_source(str(tmp_path / "rows.parquet"), engine=None if engine == "duckdb" else engine)
    found = totals(take(dataset, schema, salt=""), Selected(columns=("x", "y")), products, from_lowest=True)
    merged, reach = coarsening(schema.bounds("x"), 8)
    assert reach**8 <= 2**86
    above = [[(int(x) + int(high) + merged // 2) // merged for x in column] for column in (values, others)]
    for product in products:
        terms = (math.prod(x if name == "x" else y for name in product) for x, y in zip(*above, strict=True))
        assert found.sums[product][0] == sum(terms), product
