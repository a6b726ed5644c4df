"""What PipelineDP does, by running it on its local backend."""

import math
import operator
from importlib.metadata import version
from importlib.util import find_spec

import pipeline_dp
from pipeline_dp import dp_computations
from pydp.algorithms.numerical_mechanisms import LaplaceMechanism
from scipy.optimize import brentq

import probing
from probing import absent, no, number, partly, refused, yes

Metrics = pipeline_dp.Metrics
everybody = [(person, "all", 18.0 + person % 83) for person in range(1000)]
extractors = pipeline_dp.DataExtractors(
    privacy_id_extractor=operator.itemgetter(0),
    partition_extractor=operator.itemgetter(1),
    value_extractor=operator.itemgetter(2),
)


def ask(metric, rows=everybody, *, epsilon=1.0, delta=0.0, public=("all",), low=18.0, high=100.0, **more):
    """One metric of each partition."""
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=delta)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    limits = {
        "max_partitions_contributed": 1,
        "max_contributions_per_partition": 1,
        "min_value": low,
        "max_value": high,
    }
    asked = pipeline_dp.AggregateParams(metrics=[metric], **(limits | more))
    found = engine.aggregate(rows, asked, extractors, public_partitions=None if public is None else list(public))
    accountant.compute_budgets()
    return dict(found)


def mean(**more):
    """The mean of everybody."""
    return ask(Metrics.MEAN, **more)["all"].mean


def missing(pattern):
    """Nothing public has such a name."""
    return lambda: absent("pipeline_dp", pattern, "aggregate")


def quantiles():
    """A percentile."""
    assert 0 < ask(Metrics.PERCENTILE(50))["all"].percentile_50 < 200
    return yes("percentiles, from one tree")


def variance():
    """A variance, with a private count behind it."""
    assert math.isfinite(ask(Metrics.VARIANCE)["all"].variance)
    return yes()


def distinct():
    """The number of people in a partition."""
    assert abs(ask(Metrics.PRIVACY_ID_COUNT)["all"].privacy_id_count - 1000) < 50
    return partly("people")


def many_rows():
    """Ten people with a hundred rows each count ten times."""
    rows = [(i % 10, "all", 20.0) for i in range(1000)]
    assert abs(ask(Metrics.COUNT, rows)["all"].count - 10) < 30
    return yes()


def groups():
    """Partitions are shown by their own size."""
    rows = [(i, "large", 20.0) for i in range(1000)] + [(1000, "small", 20.0)]
    assert "large" in ask(Metrics.COUNT, rows, public=None, delta=1e-9)
    return yes()


def bounds():
    """How many partitions people contribute to."""
    found = probing.public_names("pipeline_dp", "calculate_?private_?contribution_?bounds")
    assert found
    assert hasattr(pipeline_dp.DPEngine, "calculate_private_contribution_bounds")
    return partly("limits of contributions")


def engines():
    """A backend for each."""
    assert mean()
    assert pipeline_dp.BeamBackend()
    assert pipeline_dp.SparkRDDBackend
    return "local, Beam, Spark", ""


def planned():
    """The standard deviation of some mechanisms; utility analysis is not part of the package."""
    assert find_spec("analysis") is None
    assert find_spec("utility_analysis") is None
    assert math.isclose(dp_computations.LaplaceMechanism.create_from_epsilon(1.0, 1.0).std, math.sqrt(2))
    return partly("standard deviation of the mechanism")


def noise_interval():
    """Standard deviations come with counts and sums; means have none."""
    assert ask(Metrics.COUNT, output_noise_stddev=True)["all"].count_noise_stddev > 1
    assert not hasattr(ask(Metrics.MEAN, output_noise_stddev=True)["all"], "mean_noise_stddev")
    return partly("standard deviation of counts and sums")


def guarantees():
    """Laplace noise without δ, Gaussian with."""
    assert mean()
    assert ask(Metrics.COUNT, delta=1e-6, noise_kind=pipeline_dp.NoiseKind.GAUSSIAN)
    return "ε, (ε, δ)", ""


def composed():
    """Even shares of ε and δ; the accountant of loss distributions needs another package and has no engine yet."""
    assert refused(lambda: pipeline_dp.PLDBudgetAccountant(total_epsilon=1.0, total_delta=1e-6)) == "ImportError"

    def noise(epsilon):
        return dp_computations.GaussianMechanism.create_from_epsilon_delta(epsilon, 1e-8, 1.0).std

    each = brentq(lambda epsilon: noise(epsilon) - 10, 0.01, 5)
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=100 * each, total_delta=1e-6)
    specs = [accountant.request_budget(pipeline_dp.aggregate_params.MechanismType.GAUSSIAN) for _ in range(100)]
    accountant.compute_budgets()
    assert math.isclose(specs[0].eps, each)
    assert math.isclose(specs[0].delta, 1e-8)
    return number(100 * each, "another accountant is experimental")


def impossible():
    """The noise its engine adds."""
    return probing.impossible(dp_computations.LaplaceMechanism.create_from_epsilon(1.0, 1.0).add_noise)


def awkward():
    """A mean of awkward inputs."""
    return probing.awkward(
        [
            lambda: mean(low=None, high=None),
            lambda: mean(low=100.0, high=18.0),
            lambda: mean(rows=[]),
            lambda: mean(rows=[*everybody, (1000, "all", math.nan)]),
            lambda: mean(epsilon=0),
            lambda: mean(epsilon=-1),
            lambda: mean(epsilon=math.nan),
        ],
        fine=("no rows", "a missing value"),
    )


def overspending():
    """A request after the budget has been shared out."""
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1.0, total_delta=0.0)
    accountant.request_budget(pipeline_dp.aggregate_params.MechanismType.LAPLACE)
    accountant.compute_budgets()
    assert refused(lambda: accountant.request_budget(pipeline_dp.aggregate_params.MechanismType.LAPLACE))
    return yes("shared out once")


def outliving():
    """A second process can run the pipeline again with all of the budget."""
    assert mean()
    assert mean()
    absent("pipeline_dp", "ledger|persist|load|save|restore", "aggregate")
    return no()


def bounded():
    """Means are clamped, counts are not."""
    found = [ask(Metrics.MEAN, everybody[:1], epsilon=0.01)["all"].mean for _ in range(20)]
    assert all(18 <= value <= 100 for value in found) or any(value < 18 or value > 100 for value in found)
    inside = all(18 <= value <= 100 for value in found)
    return partly("means are clamped") if inside else no()


assert LaplaceMechanism(epsilon=1.0, sensitivity=1.0).add_noise(0.0) != 0
probing.tell(
    version("pipeline-dp"),
    {
        "quantiles": quantiles,
        "variance": variance,
        "covariance": missing("covariance|correlation"),
        "distinct": distinct,
        "choice": missing("permute|noisy_?max"),
        "bounded": bounded,
        "responses": missing("randomi[sz]ed_?response|local_?dp"),
        "models": missing("regress|classif|kmeans|cluster|pca"),
        "running": missing("continual|running_?total|stream|tree_?aggregat"),
        "synthetic": missing("synth"),
        "many rows": many_rows,
        "groups": groups,
        "bounds": bounds,
        "joins": missing("^join|merge_?tables"),
        "engines": engines,
        "planning": planned,
        "noise interval": noise_interval,
        "population interval": missing("confidence"),
        "regression": missing("regress"),
        "tests": missing("chi_?2|chi_?sq|hypothesis|goodness|independence|p_?value"),
        "number tests": missing("kruskal|mann_?whitney|smirnov|rank_?test|wilcoxon"),
        "experiments": missing("ab_?test|compare|t_?test|experiment"),
        "guarantees": guarantees,
        "composition": composed,
        "bounded scale": lambda: ("–", "") if missing("truncated_?laplace|bounded_?laplace")() else no(),
        "impossible": impossible,
        "awkward": awkward,
        "overspending": overspending,
        "ledger": outliving,
        "audit": missing("audit|attack|verify"),
    },
)
