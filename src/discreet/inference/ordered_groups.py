"""Ordered groups: tests whether groups differ along an ordered column, from one released table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discreet.inference.chi_square import ChiSquareResult
from discreet.inference.margin_tests import Departure, simulated_test
from discreet.inference.measured_table import independent_table
from discreet.inference.monte_carlo import MonteCarlo
from discreet.inference.ordered_departures import (
    correlation_of_ranks,
    difference_of_ranks,
    distance_of_distributions,
    rank_correlations,
)

if TYPE_CHECKING:
    from discreet.releases import Release

__all__ = ["kolmogorov_smirnov", "rank_correlation", "rank_correlation_error", "rank_test", "superiority_error"]

Array = NDArray[np.float64]


def rank_test(table: Release, null: MonteCarlo) -> ChiSquareResult:
    """Test whether groups have the same ranks: Mann and Whitney for two groups, Kruskal and Wallis for more.

    Parameters
    ----------
    table
        A released table with groups along the first axis and ordered labels along the second.
    null
        How many tables to simulate under the hypothesis, with the noise of the release.
    """
    return _tested("equal ranks", "ranks", table, difference_of_ranks, null, _cells(table).shape[0] - 1)


def kolmogorov_smirnov(table: Release, null: MonteCarlo) -> ChiSquareResult:
    """Test whether a column is distributed alike in all groups, by the largest distance; parameters as `rank_test`."""
    df = _cells(table).shape[0] - 1
    return _tested("equal distributions", "Kolmogorov-Smirnov", table, distance_of_distributions, null, df)


def rank_correlation(table: Release, null: MonteCarlo) -> ChiSquareResult:
    """Test whether two ordered columns go together, by Spearman's correlation; parameters as `rank_test`.

    The result names the correlation of the noisy table, which noise pulls towards 0.
    """
    found = float(rank_correlations(_cells(table)))
    return _tested("unrelated ranks", f"rank correlation {found:.2f}", table, correlation_of_ranks, null, 1)


def _cells(release: Release) -> Array:
    table = independent_table(release)
    return np.asarray(table.cells.reshape(table.shape))


def _tested(
    test: str, method: str, release: Release, departure: Departure, null: MonteCarlo, df: int
) -> ChiSquareResult:
    table = independent_table(release)
    cells = table.cells.reshape(table.shape)
    margins = [table.shares(np.maximum(cells.sum(axis=axis), 0.0) / table.size) for axis in (1, 0)]

    def noise(size: int, rng: np.random.Generator) -> Array:
        drawn = np.asarray(table.noise.sample((size, *table.shape), rng=rng), dtype=float)
        # Where the number of rows is public, the measurement was moved onto it.
        return drawn if table.n is None else drawn - drawn.mean(axis=(1, 2), keepdims=True)

    return simulated_test(
        test,
        method,
        cells,
        np.asarray(np.outer(*margins)),
        df,
        departure,
        rows=table.rows,
        public=table.n,
        noise_variance=table.variance,
        noise=noise,
        null=null,
    )


def superiority_error(rows: float, groups: int, labels: int, noise_variance: float) -> float:
    """Standard error of the difference of two groups' mean ranks, for groups and labels of equal size.

    The difference estimates P(x > y) + P(x = y)/2 − ½ for rows x and y of two groups.

    Examples
    --------
    >>> round(superiority_error(1000, 2, 8, 0.0), 4)  # without privacy: √(1/3n) for many labels
    0.0181
    """
    spread, size = (1 - 1 / labels**2) / 12, rows / groups
    return math.sqrt(2 * (spread / size + noise_variance * labels * spread / size**2))


def rank_correlation_error(rows: float, labels: tuple[int, int], noise_variance: float) -> float:
    """Standard error of the correlation of two unrelated columns' ranks, for labels of equal size.

    Examples
    --------
    >>> round(rank_correlation_error(1000, (8, 8), 0.0), 4)  # without privacy: 1/√n
    0.0316
    """
    return math.sqrt((1 + noise_variance * labels[0] * labels[1] / rows) / rows)
