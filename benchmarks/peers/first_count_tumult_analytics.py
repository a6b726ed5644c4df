"""A first count of 1,000 rows with Tumult Analytics."""

from pyspark.sql import SparkSession
from tmlt.analytics import AddOneRow, PureDPBudget, QueryBuilder, Session

spark = SparkSession.builder.getOrCreate()
rows = spark.createDataFrame([(i,) for i in range(1000)], ["x"])
session = Session.from_dataframe(PureDPBudget(1), "rows", rows, protected_change=AddOneRow())
print(session.evaluate(QueryBuilder("rows").count(), PureDPBudget(1)).collect())
