"""discreet: statistics about people, and valid conclusions from them, under differential privacy.

Public names are imported when first used, so that ``import discreet`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    # guarantees
    "PureDP": "guarantees",
    "ApproxDP": "guarantees",
    "ZeroConcentratedDP": "guarantees",
    "GaussianDP": "guarantees",
    "compose": "composition",
    "compose_profiles": "profiles.composed",
    "Neighbours": "sensitivity",
    "Sensitivity": "sensitivity",
    # mechanisms
    "Laplace": "mechanisms.laplace",
    "Gaussian": "mechanisms.gaussian",
    "BoundedLaplace": "mechanisms.bounded_laplace",
    "bounded_laplace_scales": "profiles.bounded_scale",
    "BoundaryInflatedLaplace": "mechanisms.boundary_inflated",
    "BoundedCovariance": "mechanisms.covariance",
    "BoundedProportions": "mechanisms.proportion_vector",
    "TiedPair": "mechanisms.tied_pair",
    "ExponentialMechanism": "mechanisms.exponential_mechanism",
    "PermuteAndFlip": "mechanisms.permute_and_flip",
    "ReportNoisyMax": "mechanisms.noisy_max",
    "Mode": "statistics.modes",
    "NoisyAverage": "statistics.noisy_average",
    "PoissonSample": "omission",
    "OutlierSuppression": "omission",
    "RankDeficientGaussian": "mechanisms.rank_deficient",
    "JamesSteinGaussian": "mechanisms.james_stein",
    "Clipped": "mechanisms.clipped",
    "best_table_mechanism": "mechanisms.table_choice",
    # statistics of bounded columns
    "Count": "statistics.count",
    "Sum": "statistics.sum",
    "SumAndCount": "statistics.sum",
    "Mean": "statistics.mean",
    "Proportion": "statistics.mean",
    "ProportionVector": "statistics.proportion_vector",
    "Variance": "statistics.variance",
    "StandardDeviation": "statistics.variance",
    "Covariance": "statistics.covariance",
    "CovarianceMatrix": "statistics.covariance_matrix",
    "CorrelationMatrix": "statistics.covariance_matrix",
    "PooledVariance": "statistics.pooled",
    "PooledCovariance": "statistics.pooled",
    # tables
    "ContingencyTable": "statistics.tables",
    "Bins": "statistics.table_axes",
    # releasing
    "Exact": "releases",
    "Release": "releases",
    "release": "releases",
    "Plan": "planning",
    "plan": "planning",
    "Ledger": "ledger",
    # comparing
    "compare_means": "comparing.compare",
    "compare_arms": "comparing.many_arms",
    "plan_comparison": "comparing.planning",
    # data
    "Bounds": "schema",
    "Categories": "schema",
    "Contribution": "schema",
    "PrivacyUnit": "schema",
    "Schema": "schema",
    "Session": "session",
    "Quantiles": "statistics.quantiles",
    "QuantileChoice": "mechanisms.quantile",
    # inference
    "NoiseAware": "inference.population",
    "MultipleSynthesis": "inference.multiple_synthesis",
    "DoubleSanitization": "inference.multiple_synthesis",
    "GaussianNaiveBayes": "estimators.naive_bayes",
    "Interval": "inference.results",
    "MonteCarlo": "inference.monte_carlo",
    "Asymptotic": "inference.monte_carlo",
    "goodness_of_fit": "inference.chi_square",
    "homogeneity": "inference.chi_square",
    "independence": "inference.chi_square",
}

__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'discreet' has no attribute {name!r}")
    value = getattr(import_module(f"discreet.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
