"""Hypotheses about margins: χ² tests on released tables, with the noise of the release in the null distribution.

The null distribution is simulated: tables that fit the hypothesis, measured with the noise of the same release.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from discreet.inference.chi_square import ChiSquareResult, cell_probabilities
from discreet.inference.departures import shrunken_goodness, shrunken_independence
from discreet.inference.margin_tests import Departure, simulated_test
from discreet.inference.monte_carlo import MonteCarlo
from discreet.mechanisms.tables.clipping import onto_simplex
from discreet.mechanisms.tables.components import Axes
from discreet.questions.measured_margins import MeasuredMargins

__all__ = ["goodness_of_margin", "independence_of_margin"]

Array = NDArray[np.float64]


def independence_of_margin(
    measured: MeasuredMargins, axes: Axes, *, public: int | None, null: MonteCarlo | None
) -> ChiSquareResult:
    """Whether the two axes of a margin are independent."""
    observed = measured.margin(axes)
    expected = np.outer(*(_possible_shares(observed.sum(axis=axis)) for axis in (1, 0)))
    df = (observed.shape[0] - 1) * (observed.shape[1] - 1)
    return _tested("independence", measured, axes, expected, df, shrunken_independence, public, null)


def goodness_of_margin(
    measured: MeasuredMargins, axes: Axes, shares: Sequence[float], *, public: int | None, null: MonteCarlo | None
) -> ChiSquareResult:
    """Whether the labels along one axis have given shares."""
    expected = cell_probabilities(shares, measured.noise.sizes[axes[0]])

    def departure(cells: Array, n: float | None, noise: float) -> Array:
        return shrunken_goodness(cells, expected, n, noise)

    return _tested("goodness of fit", measured, axes, expected, expected.size - 1, departure, public, null)


def _tested(
    test: str,
    measured: MeasuredMargins,
    axes: Axes,
    expected: Array,
    df: int,
    departure: Departure,
    public: int | None,
    null: MonteCarlo | None,
) -> ChiSquareResult:
    return simulated_test(
        test,
        measured.margin(axes),
        expected,
        df,
        departure,
        rows=max(round(measured.at({})), 1),
        public=public,
        noise_variance=measured.noise.standard_error(axes) ** 2,
        noise=lambda size, rng: measured.noise.simulated(axes, size, rng),
        null=null or MonteCarlo(),
    )


def _possible_shares(counts: Array) -> Array:
    total = max(float(counts.sum()), 1.0)
    projected = onto_simplex(counts, total)
    return np.asarray(projected / projected.sum())
