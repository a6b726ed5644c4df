"""Unit count: how many units there are, from histograms in each of which every unit lies once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from discreet.contract.mechanism import Mechanism
from discreet.inference.noise_sum import NoiseSum, largest_variance
from discreet.interval import Interval
from discreet.questions.profiles.column_profile import Estimate
from discreet.questions.profiles.found_bounds import kurtosis_of

__all__ = ["counted_units"]

_LEAST = 1e-12
"""Noise that is all but nothing counts as this variance."""


def counted_units(histograms: Iterable[tuple[Mechanism, Sequence[float]]], level: float) -> Estimate:
    """The number of units, not below zero: the mean of all histograms' totals, each weighed by its precision.

    Examples
    --------
    >>> from discreet import Gaussian
    >>> round(counted_units([(Gaussian(1.0), [30.0, 70.0]), (Gaussian(1.0), [103.0])], 0.95).value)
    102
    """
    totals, variances, shapes = [], [], []
    for mechanism, counts in histograms:
        totals.append(float(np.sum(counts)))
        variances.append(len(counts) * max(largest_variance(mechanism), _LEAST))
        shapes.append(kurtosis_of(mechanism) / len(counts))
    precisions = 1 / np.asarray(variances)
    weights = precisions / precisions.sum()
    deviation = float(precisions.sum() ** -0.5)
    # A sum's fourth cumulant is the sum of its parts': each part has its kurtosis times its squared variance.
    kurtosis = float(np.sum(np.asarray(shapes) * (weights**2 * variances) ** 2)) / deviation**4
    reach = float(NoiseSum(0.0, [deviation], kurtosis).quantile((1 + level) / 2))
    found = float(weights @ totals)
    return Estimate(max(found, 0.0), Interval(max(found - reach, 0.0), max(found + reach, 0.0), level))
