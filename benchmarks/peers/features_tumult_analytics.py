"""What Tumult Analytics does, by running it on a local Spark."""

import math
import pickle
import warnings
from importlib.metadata import version

import pandas as pd
from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddOneRow,
    AddRowsWithID,
    ApproxDPBudget,
    MaxRowsPerID,
    PureDPBudget,
    QueryBuilder,
    RhoZCDPBudget,
    Session,
)
from tmlt.core.random.laplace import laplace

import probing
from probing import absent, no, partly, refused, yes

warnings.simplefilter("ignore")
spark = (
    SparkSession.builder.config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.ui.showConsoleProgress", "false")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
everybody = pd.DataFrame({"age": [18 + i % 83 for i in range(300)], "gap": [18.0, math.nan, 50.0] * 100})
visits = pd.DataFrame({"person": [i // 3 for i in range(900)], "place": [f"place {i % 2}" for i in range(900)]})
purchases = pd.DataFrame({"person": list(range(300)), "paid": [1] * 300})
rows = Session.from_dataframe(PureDPBudget(100), "rows", spark.createDataFrame(everybody), protected_change=AddOneRow())
people = (
    Session.Builder()
    .with_privacy_budget(ApproxDPBudget(100, 0.1))
    .with_id_space("people")
    .with_private_dataframe("rows", spark.createDataFrame(visits), AddRowsWithID("person", "people"))
    .with_private_dataframe("purchases", spark.createDataFrame(purchases), AddRowsWithID("person", "people"))
    .build()
)


def ask(query, epsilon=1.0):
    """The number that a query about rows releases."""
    return rows.evaluate(query, PureDPBudget(epsilon)).toPandas().iloc[0, -1]


def mean(column="age", low=18, high=100, epsilon=1.0, condition="true"):
    """The mean of everybody."""
    return ask(QueryBuilder("rows").filter(condition).average(column, low, high), epsilon)


def missing(pattern):
    """Nothing public has such a name."""
    return lambda: absent("tmlt.analytics", pattern, "QueryBuilder")


def quantiles():
    """A median."""
    assert 18 <= ask(QueryBuilder("rows").median("age", 18, 100)) <= 100
    return yes()


def variance():
    """A variance, with a private count behind it."""
    assert math.isfinite(ask(QueryBuilder("rows").variance("age", 18, 100)))
    return yes()


def distinct():
    """The number of distinct ages."""
    assert 40 < ask(QueryBuilder("rows").count_distinct(["age"])) < 130
    return yes()


def bounded():
    """A mean of no rows leaves its bounds."""
    found = [mean(condition="age > 1000") for _ in range(3)]
    return no() if any(not 18 <= value <= 100 for value in found) else partly("means")


def many_rows():
    """Two of each person's three rows."""
    query = QueryBuilder("rows").enforce(MaxRowsPerID(2)).count()
    assert abs(people.evaluate(query, ApproxDPBudget(1, 0)).toPandas().iloc[0, -1] - 600) < 100
    return yes()


def groups():
    """Places are shown by their own size."""
    query = QueryBuilder("rows").enforce(MaxRowsPerID(1)).get_groups(["place"])
    assert len(people.evaluate(query, ApproxDPBudget(1, 1e-6)).toPandas()) == 2
    return yes()


def bounds():
    """Bounds that hold most values."""
    found = rows.evaluate(QueryBuilder("rows").get_bounds("age"), PureDPBudget(1)).toPandas()
    assert found.filter(like="upper").iloc[0, 0] >= 64
    return yes()


def joins():
    """Two private tables with the same people."""
    query = QueryBuilder("rows").join_private("purchases", join_columns=["person"]).enforce(MaxRowsPerID(1)).count()
    assert abs(people.evaluate(query, ApproxDPBudget(1, 0)).toPandas().iloc[0, -1] - 300) < 100
    return yes()


def guarantees():
    """A count under each kind of budget."""
    session = Session.from_dataframe(
        RhoZCDPBudget(1), "rows", spark.createDataFrame(everybody[["age"]]), protected_change=AddOneRow()
    )
    assert abs(session.evaluate(QueryBuilder("rows").count(), RhoZCDPBudget(1)).toPandas().iloc[0, 0] - 300) < 50
    assert abs(ask(QueryBuilder("rows").count()) - 300) < 50
    return "ε, (ε, δ), ρ", ""


def composed():
    """Gaussian noise needs a budget in ρ, and no call turns ρ into (ε, δ)."""
    absent("tmlt.analytics", "to_approx|to_epsilon|convert|rho_to|zcdp_to", "RhoZCDPBudget")
    absent("tmlt.core", "to_approx|to_epsilon|rho_to|zcdp_to", "laplace")
    return "–", "ρ = 0.5"


def awkward():
    """A mean of awkward inputs."""
    return probing.awkward(
        [
            lambda: mean(low=None, high=None),
            lambda: mean(low=100, high=18),
            lambda: mean(condition="age > 1000"),
            lambda: mean(column="gap", low=18.0, high=100.0),
            lambda: mean(epsilon=0),
            lambda: mean(epsilon=-1),
            lambda: mean(epsilon=math.nan),
        ],
        fine=("no rows", "a missing value"),
    )


def overspending():
    """A query beyond the budget."""
    assert refused(lambda: ask(QueryBuilder("rows").count(), 1000))
    return yes()


def outliving():
    """A session cannot be stored."""
    assert refused(lambda: pickle.dumps(rows))
    return no()


probing.tell(
    version("tmlt.analytics"),
    {
        "quantiles": quantiles,
        "variance": variance,
        "covariance": missing("covar|correl"),
        "distinct": distinct,
        "choice": missing("exponential|noisy_?max|permute"),
        "bounded": bounded,
        "responses": missing("randomi[sz]ed_?response"),
        "models": missing("regress|classif|kmeans|cluster|pca"),
        "running": missing("continual|running_?total|stream|tree_?aggregat"),
        "synthetic": missing("synth"),
        "many rows": many_rows,
        "groups": groups,
        "bounds": bounds,
        "joins": joins,
        "engines": lambda: ("Spark", "") if abs(ask(QueryBuilder("rows").count()) - 300) < 50 else no(),
        "planning": missing("accuracy|expected_?error|summar"),
        "noise interval": missing("interval|confidence"),
        "population interval": missing("interval|confidence"),
        "regression": missing("regress"),
        "tests": missing("chi_?2|chi_?sq|hypothesis|goodness|independence|p_?value"),
        "number tests": missing("kruskal|mann_?whitney|smirnov|rank_?test|wilcoxon"),
        "experiments": missing("ab_?test|compare|t_?test|experiment"),
        "guarantees": guarantees,
        "composition": composed,
        "bounded scale": lambda: ("–", "") if missing("truncated_?laplace|bounded_?laplace")() else no(),
        "impossible": lambda: probing.impossible(lambda truth: laplace(truth, 1.0)),
        "awkward": awkward,
        "overspending": overspending,
        "ledger": outliving,
        "audit": missing("audit|attack"),
    },
)
