"""Many releases of the same statistics with Tumult Analytics: each release is a group with its own people."""

import json
import sys
from importlib.metadata import version

import pandas as pd
from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddOneRow,
    AddRowsWithID,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    PureDPBudget,
    QueryBuilder,
    RhoZCDPBudget,
    Session,
)

data = json.load(sys.stdin)
low, high = data["bounds"]
repeats, ages = data["repeats"] // 2, data["ages"]  # fewer than others, as a query takes seconds
spark = (
    SparkSession.builder.config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.ui.showConsoleProgress", "false")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
one = PureDPBudget(1)


def copied(columns, times):
    """A session with the same rows several times over, one group each, and a query of every group and further keys."""
    frame = pd.DataFrame({name: list(values) * times for name, values in columns.items()})
    frame["copy"] = [copy for copy in range(times) for _ in range(len(frame) // times)]
    rows = spark.createDataFrame(frame)
    session = Session.from_dataframe(PureDPBudget(100), "rows", rows, protected_change=AddOneRow())
    return session, KeySet.from_dict({"copy": list(range(times))})


def told(call, session, query, column):
    """The call and what it answered for each copy."""
    found = session.evaluate(query, one).toPandas().sort_values("copy")
    return {"call": call, "values": [float(value) for value in found[column]]}


def cells(labels, times):
    """The counts of twenty cells, several times over."""
    session, copies = copied({"cell": labels}, times)
    keys = copies * KeySet.from_dict({"cell": list(range(20))})
    found = session.evaluate(QueryBuilder("rows").groupby(keys).count(), one).toPandas().sort_values(["copy", "cell"])
    counts = [float(count) for count in found["count"]]
    return {"call": "count", "values": [counts[20 * copy : 20 * (copy + 1)] for copy in range(times)]}


def answers(times):
    """Totals of twenty answers of each person: Gaussian noise under the ρ that gives (1, 10⁻⁶)."""
    said = [(i, question) for i, replies in enumerate(data["answers"]) for question, yes in enumerate(replies) if yes]
    rows = spark.createDataFrame(pd.DataFrame(said, columns=["person", "question"]))
    builder = Session.Builder().with_privacy_budget(RhoZCDPBudget(2 * times * data["rho"])).with_id_space("people")
    session = builder.with_private_dataframe("rows", rows, AddRowsWithID("person", "people")).build()
    limits = QueryBuilder("rows").enforce(MaxGroupsPerID("question", 20)).enforce(MaxRowsPerGroupPerID("question", 1))
    query = limits.groupby(KeySet.from_dict({"question": list(range(20))})).count()
    values = []
    for _ in range(times):
        found = session.evaluate(query, RhoZCDPBudget(data["rho"])).toPandas().sort_values("question")
        values.append([float(count) for count in found["count"]])
    return {"call": "count, RhoZCDPBudget", "values": values}


edges = data["edges"]
bins = [max(place for place in range(20) if edges[place] <= age) for age in ages]
crossed = [5 * row + column for row, column in zip(data["rows"], data["columns"], strict=True)]
session, copies = copied({"age": ages, "income": data["incomes"]}, repeats)
query = QueryBuilder("rows").groupby(copies)
old = QueryBuilder("rows").filter("age >= 65").groupby(copies)
found = {
    "count": told("count", session, old.count(), "count"),
    "sum": told("sum", session, query.sum("age", low, high), "age_sum"),
    "mean": told("average", session, query.average("age", low, high), "age_average"),
    "variance": told("variance", session, query.variance("age", low, high), "age_variance"),
    "median": told("median", session, query.median("income", 0, data["richest"]), "income_median"),
    "histogram": cells(bins, repeats // 4),
    "table": cells(crossed, repeats // 4),
    "answers": answers(repeats // 12),
}
print(json.dumps({"version": version("tmlt.analytics"), "answers": found}))
