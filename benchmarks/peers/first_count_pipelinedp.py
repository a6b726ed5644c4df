"""A first count of 1,000 rows with PipelineDP, on its local backend."""

import operator

import pipeline_dp

rows = [(i, "all", 1.0) for i in range(1000)]
accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1.0, total_delta=1e-6)
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
