"""A first count of the rows of a CSV file with Tumult Analytics."""

import sys

from pyspark.sql import SparkSession
from tmlt.analytics import AddOneRow, PureDPBudget, QueryBuilder, Session

spark = SparkSession.builder.getOrCreate()
rows = spark.read.csv(sys.argv[1], header=True, schema="age INT, region STRING, visits INT, satisfied STRING")
session = Session.from_dataframe(PureDPBudget(1), "rows", rows, protected_change=AddOneRow())
print(session.evaluate(QueryBuilder("rows").count(), PureDPBudget(0.5)).collect())
