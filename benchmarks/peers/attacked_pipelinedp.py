"""PipelineDP's aggregations on worst neighbours: each draw is a public partition with people of its own."""

import math
import operator
import sys
from importlib.metadata import version

import pipeline_dp
from attacked import tell

LIBRARY = f"PipelineDP {version('pipeline-dp')}"
SCALE = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
DRAWS = int(6000 * SCALE)
Metrics = pipeline_dp.Metrics
extractors = pipeline_dp.DataExtractors(
    privacy_id_extractor=operator.itemgetter(0),
    partition_extractor=operator.itemgetter(1),
    value_extractor=operator.itemgetter(2),
)


def aggregated(people, metric, **limits):
    """One metric of the same people, once for each draw."""
    rows = [((copy, person), copy, value) for copy in range(DRAWS) for person, value in enumerate(people)]
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1.0, total_delta=0.0)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    asked = pipeline_dp.AggregateParams(
        metrics=[metric],
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        max_contributions_per_partition=1,
        max_partitions_contributed=1,
        **limits,
    )
    answer = engine.aggregate(rows, asked, extractors, public_partitions=list(range(DRAWS)))
    accountant.compute_budgets()
    found = {partition: float(values[0]) for partition, values in answer}
    return [found[partition] for partition in range(DRAWS)]


def attack(name, metric, here, there, **limits):
    """Tell draws of one metric."""
    drawn = [iter(aggregated(people, metric, **limits)) for people in (here, there)]
    tell(LIBRARY, name, "one person added", {"kind": "pure", "epsilon": 1.0}, next, *drawn, DRAWS)


attack("count", Metrics.COUNT, [0.0], [0.0, 0.0])
attack("sum", Metrics.SUM, [0.0], [0.0, 1.0], min_value=0.0, max_value=1.0)
attack("sum, beyond its bounds", Metrics.SUM, [0.0], [0.0, 1e9], min_value=0.0, max_value=1.0)
attack("sum of NaN", Metrics.SUM, [0.0], [0.0, math.nan], min_value=0.0, max_value=1.0)
attack("mean", Metrics.MEAN, [0.0, 0.0], [0.0, 0.0, 1.0], min_value=0.0, max_value=1.0)
attack("variance", Metrics.VARIANCE, [0.0, 0.0], [0.0, 0.0, 1.0], min_value=0.0, max_value=1.0)
attack("privacy_id_count", Metrics.PRIVACY_ID_COUNT, [0.0], [0.0, 0.0])
