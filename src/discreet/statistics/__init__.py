"""Statistics: what is measured, with its public domain and its sensitivity."""

from discreet.statistics.count import Count
from discreet.statistics.covariance import Covariance
from discreet.statistics.covariance_matrix import CorrelationMatrix, CovarianceMatrix
from discreet.statistics.grouped import Grouped
from discreet.statistics.mean import Mean, Proportion
from discreet.statistics.mean_and_variance import MeanAndVariance
from discreet.statistics.mean_difference import MeanDifference, WinsorizedMoments
from discreet.statistics.means_and_covariances import MeansAndCovariances
from discreet.statistics.modes import Mode
from discreet.statistics.noisy_average import NoisyAverage
from discreet.statistics.parts import MeanAndVarianceInParts, MeanInParts
from discreet.statistics.pooled import PooledCovariance, PooledVariance
from discreet.statistics.proportion_vector import ProportionVector
from discreet.statistics.quantiles import Quantiles
from discreet.statistics.statistic import Statistic, statistic_from_dict
from discreet.statistics.sum import Sum, SumAndCount
from discreet.statistics.table_axes import Bins
from discreet.statistics.tables import ContingencyTable
from discreet.statistics.variance import StandardDeviation, Variance

__all__ = [
    "Bins",
    "ContingencyTable",
    "CorrelationMatrix",
    "Count",
    "Covariance",
    "CovarianceMatrix",
    "Grouped",
    "Mean",
    "MeanDifference",
    "MeanAndVariance",
    "MeanAndVarianceInParts",
    "MeanInParts",
    "MeansAndCovariances",
    "Mode",
    "NoisyAverage",
    "PooledCovariance",
    "PooledVariance",
    "Proportion",
    "ProportionVector",
    "Quantiles",
    "StandardDeviation",
    "Statistic",
    "Sum",
    "SumAndCount",
    "Variance",
    "WinsorizedMoments",
    "statistic_from_dict",
]
