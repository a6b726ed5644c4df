"""discreet: statistics about people, and valid conclusions from them, under differential privacy.

Public names are imported when first used, so that ``import discreet`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers and editors see; a test keeps it in step with the table below
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
    from discreet.core.schema import Feature as Feature
    from discreet.core.schema import PrivacyUnit as PrivacyUnit
    from discreet.core.schema import PrivateLabels as PrivateLabels
    from discreet.core.schema import Related as Related
    from discreet.core.schema import Schema as Schema
    from discreet.core.sensitivity import Exact as Exact
    from discreet.core.sensitivity import Sensitivity as Sensitivity
    from discreet.inference.moments import NoiseAware as NoiseAware
    from discreet.inference.noise import Asymptotic as Asymptotic
    from discreet.inference.noise import MonteCarlo as MonteCarlo
    from discreet.inference.tables import goodness_of_fit as goodness_of_fit
    from discreet.inference.tables import homogeneity as homogeneity
    from discreet.inference.tables import independence as independence
    from discreet.inference.two_sample import DoubleSanitization as DoubleSanitization
    from discreet.inference.two_sample import MultipleSynthesis as MultipleSynthesis
    from discreet.mechanisms.bounded.covariance import BoundedCovariance as BoundedCovariance
    from discreet.mechanisms.bounded.laplace import BoundaryInflatedLaplace as BoundaryInflatedLaplace
    from discreet.mechanisms.bounded.laplace import BoundedLaplace as BoundedLaplace
    from discreet.mechanisms.bounded.proportions import BoundedProportions as BoundedProportions
    from discreet.mechanisms.bounded.proportions import TiedPair as TiedPair
    from discreet.mechanisms.bounded.scale import bounded_laplace_scales as bounded_laplace_scales
    from discreet.mechanisms.box_noise import BoxNoise as BoxNoise
    from discreet.mechanisms.choices.group_selection import GaussianThreshold as GaussianThreshold
    from discreet.mechanisms.choices.group_selection import OptimalSelection as OptimalSelection
    from discreet.mechanisms.choices.quantile import QuantileChoice as QuantileChoice
    from discreet.mechanisms.choices.quantile import QuantileInterval as QuantileInterval
    from discreet.mechanisms.choices.selection import ExponentialMechanism as ExponentialMechanism
    from discreet.mechanisms.choices.selection import PermuteAndFlip as PermuteAndFlip
    from discreet.mechanisms.choices.selection import ReportNoisyMax as ReportNoisyMax
    from discreet.mechanisms.composition import compose as compose
    from discreet.mechanisms.composition import compose_curves as compose_curves
    from discreet.mechanisms.discrete_gaussian import DiscreteGaussian as DiscreteGaussian
    from discreet.mechanisms.gaussian import Gaussian as Gaussian
    from discreet.mechanisms.generalized_gaussian import GeneralizedGaussian as GeneralizedGaussian
    from discreet.mechanisms.geometric import Geometric as Geometric
    from discreet.mechanisms.laplace import Laplace as Laplace
    from discreet.mechanisms.omission.step import OutlierSuppression as OutlierSuppression
    from discreet.mechanisms.omission.step import PoissonSample as PoissonSample
    from discreet.mechanisms.tables.james_stein import JamesSteinGaussian as JamesSteinGaussian
    from discreet.mechanisms.tables.james_stein import RankDeficientGaussian as RankDeficientGaussian
    from discreet.mechanisms.tables.post_processed import Clipped as Clipped
    from discreet.mechanisms.whole_share import WholeShare as WholeShare
    from discreet.plans.declarations import Formula as Formula
    from discreet.plans.declarations import schema_from_dict as schema_from_dict
    from discreet.plans.rehearsal import ExpectedLabels as ExpectedLabels
    from discreet.plans.rehearsal import ExpectedNumbers as ExpectedNumbers
    from discreet.plans.rehearsal import Scenario as Scenario
    from discreet.publish.compare_laws import compare_laws as compare_laws
    from discreet.questions.clusters.lloyd import NoisyAverage as NoisyAverage
    from discreet.questions.comparison.compare import compare_means as compare_means
    from discreet.questions.comparison.many import compare_arms as compare_arms
    from discreet.questions.comparison.question import plan_comparison as plan_comparison
    from discreet.questions.count import Count as Count
    from discreet.questions.covariance import Covariance as Covariance
    from discreet.questions.covariance_matrix import CorrelationMatrix as CorrelationMatrix
    from discreet.questions.covariance_matrix import CovarianceMatrix as CovarianceMatrix
    from discreet.questions.covariance_matrix import MeansAndCovariances as MeansAndCovariances
    from discreet.questions.grouped import Bins as Bins
    from discreet.questions.mean import Mean as Mean
    from discreet.questions.mode import Mode as Mode
    from discreet.questions.naive_bayes import GaussianNaiveBayes as GaussianNaiveBayes
    from discreet.questions.pooled import PooledCovariance as PooledCovariance
    from discreet.questions.pooled import PooledVariance as PooledVariance
    from discreet.questions.profile.released_first import PrivateBounds as PrivateBounds
    from discreet.questions.profile.released_first import PrivateLimit as PrivateLimit
    from discreet.questions.proportion import Proportion as Proportion
    from discreet.questions.proportion import ProportionVector as ProportionVector
    from discreet.questions.quantile import Quantiles as Quantiles
    from discreet.questions.sum import Sum as Sum
    from discreet.questions.sum import SumAndCount as SumAndCount
    from discreet.questions.tables.margins import all_margins as all_margins
    from discreet.questions.tables.margins import hierarchy as hierarchy
    from discreet.questions.tables.table import ContingencyTable as ContingencyTable
    from discreet.questions.tables.table import best_table_mechanism as best_table_mechanism
    from discreet.questions.variance import StandardDeviation as StandardDeviation
    from discreet.questions.variance import Variance as Variance
    from discreet.results.display import Interval as Interval
    from discreet.results.ledger import Ledger as Ledger
    from discreet.results.plan import Plan as Plan
    from discreet.results.plan import plan as plan
    from discreet.results.release import Release as Release
    from discreet.results.release import release as release
    from discreet.session import Session as Session

__version__ = "0.1.0"

_PUBLIC = {
    # guarantees
    "PureDP": "core.guarantee",
    "ApproxDP": "core.guarantee",
    "ZeroConcentratedDP": "core.guarantee",
    "GaussianDP": "core.guarantee",
    "compose": "mechanisms.composition",
    "compose_curves": "mechanisms.composition",
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
    "GaussianThreshold": "mechanisms.choices.group_selection",
    "OptimalSelection": "mechanisms.choices.group_selection",
    "BoundedLaplace": "mechanisms.bounded.laplace",
    "bounded_laplace_scales": "mechanisms.bounded.scale",
    "BoundaryInflatedLaplace": "mechanisms.bounded.laplace",
    "BoundedCovariance": "mechanisms.bounded.covariance",
    "BoundedProportions": "mechanisms.bounded.proportions",
    "TiedPair": "mechanisms.bounded.proportions",
    "ExponentialMechanism": "mechanisms.choices.selection",
    "PermuteAndFlip": "mechanisms.choices.selection",
    "ReportNoisyMax": "mechanisms.choices.selection",
    "Mode": "questions.mode",
    "NoisyAverage": "questions.clusters.lloyd",
    "MeansAndCovariances": "questions.covariance_matrix",
    "PoissonSample": "mechanisms.omission.step",
    "OutlierSuppression": "mechanisms.omission.step",
    "RankDeficientGaussian": "mechanisms.tables.james_stein",
    "JamesSteinGaussian": "mechanisms.tables.james_stein",
    "Clipped": "mechanisms.tables.post_processed",
    "all_margins": "questions.tables.margins",
    "hierarchy": "questions.tables.margins",
    "best_table_mechanism": "questions.tables.table",
    "compare_laws": "publish.compare_laws",
    # statistics of bounded columns
    "Count": "questions.count",
    "Sum": "questions.sum",
    "SumAndCount": "questions.sum",
    "Mean": "questions.mean",
    "Proportion": "questions.proportion",
    "ProportionVector": "questions.proportion",
    "Variance": "questions.variance",
    "StandardDeviation": "questions.variance",
    "Covariance": "questions.covariance",
    "CovarianceMatrix": "questions.covariance_matrix",
    "CorrelationMatrix": "questions.covariance_matrix",
    "PooledVariance": "questions.pooled",
    "PooledCovariance": "questions.pooled",
    # tables
    "ContingencyTable": "questions.tables.table",
    "Bins": "questions.grouped",
    # releasing
    "Exact": "core.sensitivity",
    "Release": "results.release",
    "release": "results.release",
    "Plan": "results.plan",
    "plan": "results.plan",
    "Scenario": "plans.rehearsal",
    "ExpectedNumbers": "plans.rehearsal",
    "ExpectedLabels": "plans.rehearsal",
    "Ledger": "results.ledger",
    # comparing
    "compare_means": "questions.comparison.compare",
    "compare_arms": "questions.comparison.many",
    "plan_comparison": "questions.comparison.question",
    # data
    "Bands": "core.schema",
    "Bounds": "core.schema",
    "PrivateBounds": "questions.profile.released_first",
    "PrivateLimit": "questions.profile.released_first",
    "PrivateLabels": "core.schema",
    "Categories": "core.schema",
    "Contribution": "core.schema",
    "Dates": "core.schema",
    "Formula": "plans.declarations",
    "schema_from_dict": "plans.declarations",
    "PrivacyUnit": "core.schema",
    "Feature": "core.schema",
    "Related": "core.schema",
    "Schema": "core.schema",
    "Session": "session",
    "Quantiles": "questions.quantile",
    "QuantileChoice": "mechanisms.choices.quantile",
    "QuantileInterval": "mechanisms.choices.quantile",
    # inference
    "NoiseAware": "inference.moments",
    "MultipleSynthesis": "inference.two_sample",
    "DoubleSanitization": "inference.two_sample",
    "GaussianNaiveBayes": "questions.naive_bayes",
    "Interval": "results.display",
    "MonteCarlo": "inference.noise",
    "Asymptotic": "inference.noise",
    "goodness_of_fit": "inference.tables",
    "homogeneity": "inference.tables",
    "independence": "inference.tables",
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
