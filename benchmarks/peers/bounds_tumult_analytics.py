"""Bounds of many columns with Tumult Analytics: `get_bounds` of each, for an even part of ε; a repeat is a group."""

import json
import sys
import time

import pandas as pd
from pyspark.sql import SparkSession
from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, Session

data = json.load(sys.stdin)
spark = (
    SparkSession.builder.config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.sql.execution.arrow.pyspark.enabled", "true")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
repeats, part = data["repeats"], data["epsilon"] / len(data["columns"])
copies = KeySet.from_dict({"copy": list(range(repeats))})
bounds, seconds = {}, []
for name, values in data["columns"].items():
    frame = pd.DataFrame({"x": [float(x) for x in values] * repeats})
    frame["copy"] = [copy for copy in range(repeats) for _ in values]
    rows = spark.createDataFrame(frame)
    session = Session.from_dataframe(PureDPBudget(100), "rows", rows, protected_change=AddOneRow())
    found = session.evaluate(QueryBuilder("rows").groupby(copies).get_bounds("x"), PureDPBudget(part)).toPandas()
    found = found.sort_values("copy")
    bounds[name] = [[float(a), float(b)] for a, b in zip(found["x_lower_bound"], found["x_upper_bound"], strict=True)]
    once = spark.createDataFrame(frame[frame["copy"] == 0][["x"]])
    session = Session.from_dataframe(PureDPBudget(100), "rows", once, protected_change=AddOneRow())
    start = time.perf_counter()
    session.evaluate(QueryBuilder("rows").get_bounds("x"), PureDPBudget(part)).toPandas()
    seconds.append(time.perf_counter() - start)
print(json.dumps({"bounds": bounds, "seconds": sum(seconds)}))
