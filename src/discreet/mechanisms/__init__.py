"""Mechanisms: how a value is protected."""

from discreet.mechanisms.boundary_inflated import BoundaryInflatedLaplace
from discreet.mechanisms.bounded_laplace import BoundedLaplace
from discreet.mechanisms.exponential_mechanism import ExponentialMechanism
from discreet.mechanisms.clipped import Clipped
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.james_stein import JamesSteinGaussian
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.mechanism import Mechanism, mechanism_from_dict
from discreet.mechanisms.rank_deficient import RankDeficientGaussian
from discreet.mechanisms.noisy_max import ReportNoisyMax
from discreet.mechanisms.permute_and_flip import PermuteAndFlip
from discreet.mechanisms.quantile import QuantileChoice

__all__ = [
    "BoundaryInflatedLaplace",
    "BoundedLaplace",
    "Clipped",
    "JamesSteinGaussian",
    "RankDeficientGaussian",
    "ExponentialMechanism",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "PermuteAndFlip",
    "QuantileChoice",
    "ReportNoisyMax",
    "mechanism_from_dict",
]
