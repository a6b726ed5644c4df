"""Seconds to count a million rows in 100 groups with Tumult Analytics, once Spark runs."""

import sys
import time

from pyspark.sql import SparkSession
from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, Session

spark = SparkSession.builder.getOrCreate()
rows = spark.range(int(sys.argv[1])).selectExpr("id % 100 as code").cache()
assert rows.count() == int(sys.argv[1])
start = time.perf_counter()
session = Session.from_dataframe(PureDPBudget(1), "rows", rows, protected_change=AddOneRow())
query = QueryBuilder("rows").groupby(KeySet.from_dict({"code": list(range(100))})).count()
counts = session.evaluate(query, PureDPBudget(1)).collect()
print(time.perf_counter() - start)
assert len(counts) == 100
