"""discreet: statistics about people, and valid conclusions from them, under differential privacy.

Public names are imported when first used, so that ``import discreet`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers and editors see; a test keeps it in step with the table below
    from discreet.comparing.compare import compare_means as compare_means
    from discreet.comparing.many_arms import compare_arms as compare_arms
    from discreet.comparing.planning import plan_comparison as plan_comparison
    from discreet.composition import compose as compose
    from discreet.estimators.naive_bayes import GaussianNaiveBayes as GaussianNaiveBayes
    from discreet.guarantees import ApproxDP as ApproxDP
    from discreet.guarantees import GaussianDP as GaussianDP
    from discreet.guarantees import PureDP as PureDP
    from discreet.guarantees import ZeroConcentratedDP as ZeroConcentratedDP
    from discreet.inference.chi_square import goodness_of_fit as goodness_of_fit
    from discreet.inference.chi_square import homogeneity as homogeneity
    from discreet.inference.chi_square import independence as independence
    from discreet.inference.monte_carlo import Asymptotic as Asymptotic
    from discreet.inference.monte_carlo import MonteCarlo as MonteCarlo
    from discreet.inference.multiple_synthesis import DoubleSanitization as DoubleSanitization
    from discreet.inference.multiple_synthesis import MultipleSynthesis as MultipleSynthesis
    from discreet.inference.population import NoiseAware as NoiseAware
    from discreet.inference.results import Interval as Interval
    from discreet.ledger import Ledger as Ledger
    from discreet.mechanisms.boundary_inflated import BoundaryInflatedLaplace as BoundaryInflatedLaplace
    from discreet.mechanisms.bounded_laplace import BoundedLaplace as BoundedLaplace
    from discreet.mechanisms.clipped import Clipped as Clipped
    from discreet.mechanisms.covariance import BoundedCovariance as BoundedCovariance
    from discreet.mechanisms.exponential_mechanism import ExponentialMechanism as ExponentialMechanism
    from discreet.mechanisms.gaussian import Gaussian as Gaussian
    from discreet.mechanisms.gaussian_threshold import GaussianThreshold as GaussianThreshold
    from discreet.mechanisms.group_selection import OptimalSelection as OptimalSelection
    from discreet.mechanisms.james_stein import JamesSteinGaussian as JamesSteinGaussian
    from discreet.mechanisms.laplace import Laplace as Laplace
    from discreet.mechanisms.noisy_max import ReportNoisyMax as ReportNoisyMax
    from discreet.mechanisms.permute_and_flip import PermuteAndFlip as PermuteAndFlip
    from discreet.mechanisms.proportion_vector import BoundedProportions as BoundedProportions
    from discreet.mechanisms.quantile import QuantileChoice as QuantileChoice
    from discreet.mechanisms.rank_deficient import RankDeficientGaussian as RankDeficientGaussian
    from discreet.mechanisms.table_choice import best_table_mechanism as best_table_mechanism
    from discreet.mechanisms.tied_pair import TiedPair as TiedPair
    from discreet.omission import OutlierSuppression as OutlierSuppression
    from discreet.omission import PoissonSample as PoissonSample
    from discreet.planning import Plan as Plan
    from discreet.planning import plan as plan
    from discreet.profiles.bounded_scale import bounded_laplace_scales as bounded_laplace_scales
    from discreet.profiles.composed import compose_profiles as compose_profiles
    from discreet.releases import Exact as Exact
    from discreet.releases import Release as Release
    from discreet.releases import release as release
    from discreet.schema import Bounds as Bounds
    from discreet.schema import Categories as Categories
    from discreet.schema import Contribution as Contribution
    from discreet.schema import PrivacyUnit as PrivacyUnit
    from discreet.schema import Schema as Schema
    from discreet.schema import Unlisted as Unlisted
    from discreet.sensitivity import Neighbours as Neighbours
    from discreet.sensitivity import Sensitivity as Sensitivity
    from discreet.session import Session as Session
    from discreet.statistics.count import Count as Count
    from discreet.statistics.covariance import Covariance as Covariance
    from discreet.statistics.covariance_matrix import CorrelationMatrix as CorrelationMatrix
    from discreet.statistics.covariance_matrix import CovarianceMatrix as CovarianceMatrix
    from discreet.statistics.mean import Mean as Mean
    from discreet.statistics.mean import Proportion as Proportion
    from discreet.statistics.means_and_covariances import MeansAndCovariances as MeansAndCovariances
    from discreet.statistics.modes import Mode as Mode
    from discreet.statistics.noisy_average import NoisyAverage as NoisyAverage
    from discreet.statistics.pooled import PooledCovariance as PooledCovariance
    from discreet.statistics.pooled import PooledVariance as PooledVariance
    from discreet.statistics.proportion_vector import ProportionVector as ProportionVector
    from discreet.statistics.quantiles import Quantiles as Quantiles
    from discreet.statistics.sum import Sum as Sum
    from discreet.statistics.sum import SumAndCount as SumAndCount
    from discreet.statistics.table_axes import Bins as Bins
    from discreet.statistics.tables import ContingencyTable as ContingencyTable
    from discreet.statistics.variance import StandardDeviation as StandardDeviation
    from discreet.statistics.variance import Variance as Variance

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
    "GaussianThreshold": "mechanisms.gaussian_threshold",
    "OptimalSelection": "mechanisms.group_selection",
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
    "MeansAndCovariances": "statistics.means_and_covariances",
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
    "Unlisted": "schema",
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
