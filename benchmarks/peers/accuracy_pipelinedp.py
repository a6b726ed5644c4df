"""Many releases of the same statistics with PipelineDP: each release is a public partition with its own people."""

import json
import operator
import sys
from importlib.metadata import version

import pipeline_dp

data = json.load(sys.stdin)
low, high = data["bounds"]
repeats, ages = data["repeats"], data["ages"]
extractors = pipeline_dp.DataExtractors(
    privacy_id_extractor=operator.itemgetter(0),
    partition_extractor=operator.itemgetter(1),
    value_extractor=operator.itemgetter(2),
)


def aggregate(rows, partitions, metric, *, delta=0.0, **limits):
    """One metric of each partition, in the order of the partitions."""
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1.0, total_delta=delta)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    asked = pipeline_dp.AggregateParams(
        metrics=[metric],
        noise_kind=pipeline_dp.NoiseKind.GAUSSIAN if delta else pipeline_dp.NoiseKind.LAPLACE,
        max_contributions_per_partition=1,
        **limits,
    )
    answer = engine.aggregate(rows, asked, extractors, public_partitions=partitions)
    accountant.compute_budgets()
    found = {partition: float(values[0]) for partition, values in answer}
    return [found[partition] for partition in partitions]


def repeated(people, metric, **limits):
    """A metric of the same people once for each repeat; every repeat has people of its own."""
    copies = [((copy, person), copy, value) for copy in range(repeats) for person, value in people]
    return aggregate(copies, list(range(repeats)), metric, max_partitions_contributed=1, **limits)


def cells(labels, size, times):
    """The counts of cells, several times over."""
    copies = [((copy, person), (copy, label), 1.0) for copy in range(times) for person, label in enumerate(labels)]
    partitions = [(copy, label) for copy in range(times) for label in range(size)]
    found = aggregate(copies, partitions, pipeline_dp.Metrics.COUNT, max_partitions_contributed=1)
    return [found[size * copy : size * (copy + 1)] for copy in range(times)]


def answers():
    """Totals of twenty answers of each person."""
    rows = [
        (person, question, 1.0)
        for person, said in enumerate(data["answers"])
        for question, yes in enumerate(said)
        if yes
    ]
    count = pipeline_dp.Metrics.COUNT
    return aggregate(rows, list(range(20)), count, delta=1e-6, max_partitions_contributed=20)


everybody = list(enumerate(map(float, ages)))
bounds = {"min_value": float(low), "max_value": float(high)}
paid = list(enumerate(map(float, data["incomes"])))
purse = {"min_value": 0.0, "max_value": float(data["richest"])}
edges = data["edges"]
bins = [max(place for place in range(20) if edges[place] <= age) for age in ages]
crossed = [5 * row + column for row, column in zip(data["rows"], data["columns"], strict=True)]
metrics = pipeline_dp.Metrics
old = [(person, age) for person, age in everybody if age >= 65]
found = {
    "count": {"call": "Metrics.COUNT", "values": repeated(old, metrics.COUNT)},
    "sum": {"call": "Metrics.SUM", "values": repeated(everybody, metrics.SUM, **bounds)},
    "mean": {"call": "Metrics.MEAN", "values": repeated(everybody, metrics.MEAN, **bounds)},
    "variance": {"call": "Metrics.VARIANCE", "values": repeated(everybody, metrics.VARIANCE, **bounds)},
    "median": {"call": "Metrics.PERCENTILE(50)", "values": repeated(paid, metrics.PERCENTILE(50), **purse)},
    "histogram": {"call": "Metrics.COUNT", "values": cells(bins, 20, repeats // 10)},
    "table": {"call": "Metrics.COUNT", "values": cells(crossed, 20, repeats // 10)},
    "answers": {"call": "Metrics.COUNT, Gaussian noise", "values": [answers() for _ in range(repeats // 10)]},
}
print(json.dumps({"version": version("pipeline-dp"), "answers": found}))
