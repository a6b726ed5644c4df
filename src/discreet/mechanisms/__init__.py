"""Mechanisms: how a value is protected."""

from discreet.mechanisms.behind_omission import BehindOmission
from discreet.mechanisms.boundary_inflated import BoundaryInflatedLaplace
from discreet.mechanisms.bounded_laplace import BoundedLaplace
from discreet.mechanisms.clipped import Clipped
from discreet.mechanisms.covariance import BoundedCovariance
from discreet.mechanisms.exponential_mechanism import ExponentialMechanism
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.gaussian_threshold import GaussianThreshold
from discreet.mechanisms.group_selection import OptimalSelection
from discreet.mechanisms.james_stein import JamesSteinGaussian
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.mechanism import Mechanism, mechanism_from_dict
from discreet.mechanisms.noisy_max import ReportNoisyMax
from discreet.mechanisms.permute_and_flip import PermuteAndFlip
from discreet.mechanisms.proportion_vector import BoundedProportions
from discreet.mechanisms.quantile import QuantileChoice
from discreet.mechanisms.rank_deficient import RankDeficientGaussian
from discreet.mechanisms.tied_pair import TiedPair

__all__ = [
    "BehindOmission",
    "TiedPair",
    "BoundedProportions",
    "BoundedCovariance",
    "BoundaryInflatedLaplace",
    "BoundedLaplace",
    "Clipped",
    "JamesSteinGaussian",
    "RankDeficientGaussian",
    "ExponentialMechanism",
    "Gaussian",
    "GaussianThreshold",
    "Laplace",
    "Mechanism",
    "OptimalSelection",
    "PermuteAndFlip",
    "QuantileChoice",
    "ReportNoisyMax",
    "mechanism_from_dict",
]
