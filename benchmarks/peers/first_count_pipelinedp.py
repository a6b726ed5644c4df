"""A first count of the rows of a CSV file with PipelineDP, on its local backend."""

import csv
import operator
import sys

import pipeline_dp

with open(sys.argv[1], newline="", encoding="utf-8") as file:
    rows = [(place, "all", float(row["age"])) for place, row in enumerate(csv.DictReader(file))]
accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=0.5, total_delta=1e-6)
engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
asked = pipeline_dp.AggregateParams(
    metrics=[pipeline_dp.Metrics.COUNT], max_partitions_contributed=1, max_contributions_per_partition=1
)
extractors = pipeline_dp.DataExtractors(
    privacy_id_extractor=operator.itemgetter(0),
    partition_extractor=operator.itemgetter(1),
    value_extractor=operator.itemgetter(2),
)
answer = engine.aggregate(rows, asked, extractors, public_partitions=["all"])
accountant.compute_budgets()
print(list(answer))
