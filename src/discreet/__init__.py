"""discreet: statistics about people, and valid conclusions from them, under differential privacy.

Public names are imported when first used, so that ``import discreet`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers and editors see; a test keeps it in step with the table below
    from discreet.core.exact import Exact as Exact
    from discreet.core.guarantee import ApproxDP as ApproxDP
    from discreet.core.guarantee import GaussianDP as GaussianDP
    from discreet.core.guarantee import PureDP as PureDP
    from discreet.core.guarantee import ZeroConcentratedDP as ZeroConcentratedDP
    from discreet.core.protection import Neighbours as Neighbours
    from discreet.core.schema import Bands as Bands
    from discreet.core.schema import Bounds as Bounds
    from discreet.core.schema import Categories as Categories
    from discreet.core.schema import Contribution as Contribution
    from discreet.core.schema import Dates as Dates
    from discreet.core.schema import PrivacyUnit as PrivacyUnit
    from discreet.core.schema import Related as Related
    from discreet.core.schema import Schema as Schema
    from discreet.core.schema import Unlisted as Unlisted
    from discreet.core.sensitivity import Sensitivity as Sensitivity
    from discreet.declarations.language import Formula as Formula
    from discreet.declarations.plain_data import schema_from_dict as schema_from_dict
    from discreet.inference.chi_square import goodness_of_fit as goodness_of_fit
    from discreet.inference.chi_square import homogeneity as homogeneity
    from discreet.inference.chi_square import independence as independence
    from discreet.inference.monte_carlo import Asymptotic as Asymptotic
    from discreet.inference.monte_carlo import MonteCarlo as MonteCarlo
    from discreet.inference.multiple_synthesis import DoubleSanitization as DoubleSanitization
    from discreet.inference.multiple_synthesis import MultipleSynthesis as MultipleSynthesis
    from discreet.inference.sampling import NoiseAware as NoiseAware
    from discreet.interval import Interval as Interval
    from discreet.ledgers import Ledger as Ledger
    from discreet.mechanisms.bounded.boundary_inflated import BoundaryInflatedLaplace as BoundaryInflatedLaplace
    from discreet.mechanisms.bounded.bounded_covariance import BoundedCovariance as BoundedCovariance
    from discreet.mechanisms.bounded.bounded_laplace import BoundedLaplace as BoundedLaplace
    from discreet.mechanisms.bounded.bounded_proportions import BoundedProportions as BoundedProportions
    from discreet.mechanisms.bounded.bounded_scale import bounded_laplace_scales as bounded_laplace_scales
    from discreet.mechanisms.bounded.tied_pair import TiedPair as TiedPair
    from discreet.mechanisms.box_noise import BoxNoise as BoxNoise
    from discreet.mechanisms.choices.exponential_mechanism import ExponentialMechanism as ExponentialMechanism
    from discreet.mechanisms.choices.gaussian_threshold import GaussianThreshold as GaussianThreshold
    from discreet.mechanisms.choices.group_selection import OptimalSelection as OptimalSelection
    from discreet.mechanisms.choices.noisy_max import ReportNoisyMax as ReportNoisyMax
    from discreet.mechanisms.choices.permute_and_flip import PermuteAndFlip as PermuteAndFlip
    from discreet.mechanisms.choices.quantile_choice import QuantileChoice as QuantileChoice
    from discreet.mechanisms.choices.quantile_interval import QuantileInterval as QuantileInterval
    from discreet.mechanisms.composition import compose as compose
    from discreet.mechanisms.composition import compose_profiles as compose_profiles
    from discreet.mechanisms.discrete_gaussian import DiscreteGaussian as DiscreteGaussian
    from discreet.mechanisms.gaussian import Gaussian as Gaussian
    from discreet.mechanisms.generalized_gaussian import GeneralizedGaussian as GeneralizedGaussian
    from discreet.mechanisms.geometric import Geometric as Geometric
    from discreet.mechanisms.laplace import Laplace as Laplace
    from discreet.mechanisms.tables.clipped import Clipped as Clipped
    from discreet.mechanisms.tables.james_stein import JamesSteinGaussian as JamesSteinGaussian
    from discreet.mechanisms.tables.rank_deficient import RankDeficientGaussian as RankDeficientGaussian
    from discreet.mechanisms.whole_share import WholeShare as WholeShare
    from discreet.omission import OutlierSuppression as OutlierSuppression
    from discreet.omission import PoissonSample as PoissonSample
    from discreet.plans.plan import Plan as Plan
    from discreet.plans.plan import plan as plan
    from discreet.plans.scenario import ExpectedLabels as ExpectedLabels
    from discreet.plans.scenario import ExpectedNumbers as ExpectedNumbers
    from discreet.plans.scenario import Scenario as Scenario
    from discreet.publish.compare_laws import compare_laws as compare_laws
    from discreet.questions.comparison.compare import compare_means as compare_means
    from discreet.questions.comparison.comparison_plan import plan_comparison as plan_comparison
    from discreet.questions.comparison.many_arms import compare_arms as compare_arms
    from discreet.questions.count import Count as Count
    from discreet.questions.covariance import Covariance as Covariance
    from discreet.questions.covariance_matrix import CorrelationMatrix as CorrelationMatrix
    from discreet.questions.covariance_matrix import CovarianceMatrix as CovarianceMatrix
    from discreet.questions.margins import all_margins as all_margins
    from discreet.questions.margins import hierarchy as hierarchy
    from discreet.questions.mean import Mean as Mean
    from discreet.questions.means_and_covariances import MeansAndCovariances as MeansAndCovariances
    from discreet.questions.mode import Mode as Mode
    from discreet.questions.naive_bayes import GaussianNaiveBayes as GaussianNaiveBayes
    from discreet.questions.noisy_average import NoisyAverage as NoisyAverage
    from discreet.questions.pooled import PooledCovariance as PooledCovariance
    from discreet.questions.pooled import PooledVariance as PooledVariance
    from discreet.questions.profiles.released_first import PrivateBounds as PrivateBounds
    from discreet.questions.profiles.released_first import PrivateContribution as PrivateContribution
    from discreet.questions.proportion import Proportion as Proportion
    from discreet.questions.proportion_vector import ProportionVector as ProportionVector
    from discreet.questions.quantile import Quantiles as Quantiles
    from discreet.questions.sum import Sum as Sum
    from discreet.questions.sum import SumAndCount as SumAndCount
    from discreet.questions.table import ContingencyTable as ContingencyTable
    from discreet.questions.table_axes import Bins as Bins
    from discreet.questions.table_choice import best_table_mechanism as best_table_mechanism
    from discreet.questions.variance import StandardDeviation as StandardDeviation
    from discreet.questions.variance import Variance as Variance
    from discreet.releases import Release as Release
    from discreet.releases import release as release
    from discreet.session import Session as Session

__version__ = "0.1.0"

_PUBLIC = {
    # guarantees
    "PureDP": "core.guarantee",
    "ApproxDP": "core.guarantee",
    "ZeroConcentratedDP": "core.guarantee",
    "GaussianDP": "core.guarantee",
    "compose": "mechanisms.composition",
    "compose_profiles": "mechanisms.composition",
    "Neighbours": "core.protection",
    "Sensitivity": "core.sensitivity",
    # mechanisms
    "Laplace": "mechanisms.laplace",
    "Geometric": "mechanisms.geometric",
    "BoxNoise": "mechanisms.box_noise",
    "Gaussian": "mechanisms.gaussian",
    "DiscreteGaussian": "mechanisms.discrete_gaussian",
    "WholeShare": "mechanisms.whole_share",
    "GeneralizedGaussian": "mechanisms.generalized_gaussian",
    "GaussianThreshold": "mechanisms.choices.gaussian_threshold",
    "OptimalSelection": "mechanisms.choices.group_selection",
    "BoundedLaplace": "mechanisms.bounded.bounded_laplace",
    "bounded_laplace_scales": "mechanisms.bounded.bounded_scale",
    "BoundaryInflatedLaplace": "mechanisms.bounded.boundary_inflated",
    "BoundedCovariance": "mechanisms.bounded.bounded_covariance",
    "BoundedProportions": "mechanisms.bounded.bounded_proportions",
    "TiedPair": "mechanisms.bounded.tied_pair",
    "ExponentialMechanism": "mechanisms.choices.exponential_mechanism",
    "PermuteAndFlip": "mechanisms.choices.permute_and_flip",
    "ReportNoisyMax": "mechanisms.choices.noisy_max",
    "Mode": "questions.mode",
    "NoisyAverage": "questions.noisy_average",
    "MeansAndCovariances": "questions.means_and_covariances",
    "PoissonSample": "omission",
    "OutlierSuppression": "omission",
    "RankDeficientGaussian": "mechanisms.tables.rank_deficient",
    "JamesSteinGaussian": "mechanisms.tables.james_stein",
    "Clipped": "mechanisms.tables.clipped",
    "all_margins": "questions.margins",
    "hierarchy": "questions.margins",
    "best_table_mechanism": "questions.table_choice",
    "compare_laws": "publish.compare_laws",
    # statistics of bounded columns
    "Count": "questions.count",
    "Sum": "questions.sum",
    "SumAndCount": "questions.sum",
    "Mean": "questions.mean",
    "Proportion": "questions.proportion",
    "ProportionVector": "questions.proportion_vector",
    "Variance": "questions.variance",
    "StandardDeviation": "questions.variance",
    "Covariance": "questions.covariance",
    "CovarianceMatrix": "questions.covariance_matrix",
    "CorrelationMatrix": "questions.covariance_matrix",
    "PooledVariance": "questions.pooled",
    "PooledCovariance": "questions.pooled",
    # tables
    "ContingencyTable": "questions.table",
    "Bins": "questions.table_axes",
    # releasing
    "Exact": "core.exact",
    "Release": "releases",
    "release": "releases",
    "Plan": "plans.plan",
    "plan": "plans.plan",
    "Scenario": "plans.scenario",
    "ExpectedNumbers": "plans.scenario",
    "ExpectedLabels": "plans.scenario",
    "Ledger": "ledgers",
    # comparing
    "compare_means": "questions.comparison.compare",
    "compare_arms": "questions.comparison.many_arms",
    "plan_comparison": "questions.comparison.comparison_plan",
    # data
    "Bands": "core.schema",
    "Bounds": "core.schema",
    "PrivateBounds": "questions.profiles.released_first",
    "PrivateContribution": "questions.profiles.released_first",
    "Unlisted": "core.schema",
    "Categories": "core.schema",
    "Contribution": "core.schema",
    "Dates": "core.schema",
    "Formula": "declarations.language",
    "schema_from_dict": "declarations.plain_data",
    "PrivacyUnit": "core.schema",
    "Related": "core.schema",
    "Schema": "core.schema",
    "Session": "session",
    "Quantiles": "questions.quantile",
    "QuantileChoice": "mechanisms.choices.quantile_choice",
    "QuantileInterval": "mechanisms.choices.quantile_interval",
    # inference
    "NoiseAware": "inference.sampling",
    "MultipleSynthesis": "inference.multiple_synthesis",
    "DoubleSanitization": "inference.multiple_synthesis",
    "GaussianNaiveBayes": "questions.naive_bayes",
    "Interval": "interval",
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
