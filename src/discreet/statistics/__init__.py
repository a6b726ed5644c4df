"""Statistics: what is measured, with its public domain and its sensitivity."""

from discreet.statistics.count import Count
from discreet.statistics.covariance import Covariance
from discreet.statistics.covariance_matrix import CorrelationMatrix, CovarianceMatrix
from discreet.statistics.mean import Mean, Proportion
from discreet.statistics.pooled import PooledCovariance, PooledVariance
from discreet.statistics.proportion_vector import ProportionVector
from discreet.statistics.statistic import Statistic, statistic_from_dict
from discreet.statistics.sum import Sum, SumAndCount
from discreet.statistics.variance import StandardDeviation, Variance

__all__ = [
    "CorrelationMatrix",
    "Count",
    "Covariance",
    "CovarianceMatrix",
    "Mean",
    "PooledCovariance",
    "PooledVariance",
    "Proportion",
    "ProportionVector",
    "StandardDeviation",
    "Statistic",
    "Sum",
    "SumAndCount",
    "Variance",
    "statistic_from_dict",
]
