"""Spark Connect: the same rows as everywhere, from a session that only sends what it wants to a server."""

import importlib.util
import shutil
import sys
import textwrap

import pytest

from tests.processes import output

NEEDED = ("pyspark", "grpc", "grpc_status")
CODE = """
from pyspark.sql import SparkSession
from discreet import PureDP, Bounds, Schema, Session
from discreet.core.rows.source import open_source
from discreet.testing import check_source

spark = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
print(check_source(lambda rows: open_source(rows, engine=spark), quick=True).engine)
schema = Schema(columns={"id": Bounds(0, 9, grid=1)})
for source, table in ((spark.range(10), None), (spark, "ten")):
    spark.range(10).createOrReplaceTempView("ten")
    session = Session(source, schema, table=table, ledger=":memory:", budget=PureDP(1000.0))
    print(session.count(epsilon=900.0).estimate)
"""


@pytest.mark.spark
@pytest.mark.skipif(
    shutil.which("java") is None or not all(map(importlib.util.find_spec, NEEDED)),
    reason="a local Spark Connect server needs Java and pyspark[connect]",
)
def test_a_session_of_spark_connect_is_read_as_every_other():
    said = output([sys.executable, "-c", textwrap.dedent(CODE)]).split()
    assert [word for word in said if word in ("pyspark", "10", "10.0")][-3:] in (
        ["pyspark", "10", "10"],
        ["pyspark", "10.0", "10.0"],
    )
