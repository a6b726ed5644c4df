"""Ordered groups: tests whether groups differ along an ordered column, from one released table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discreet.inference.chi_square import ChiSquareResult, Departure, simulated_test
from discreet.inference.measured_table import independent_table
from discreet.inference.monte_carlo import MonteCarlo

if TYPE_CHECKING:
    from discreet.releases import Release

__all__ = [
    "correlation_of_ranks", "difference_of_ranks", "distance_of_distributions", "kolmogorov_smirnov",
    "rank_correlation", "rank_correlation_error", "rank_correlations", "rank_test", "superiority_error",
]  # fmt: skip


# ---- Ordered departures: how far groups differ along an ordered column, for many noisy tables at once
#
# Tables have groups along the last axis but one, and ordered labels along the last; where both have an order, ranks of
# one may go with ranks of the other. The statistics are those of Kruskal and Wallis, of Kolmogorov and Smirnov, and
# Spearman's correlation, from noisy counts. Their null distribution is simulated through the same noise, so their scale
# decides power and never size.


Array = NDArray[np.float64]


def difference_of_ranks(cells: Array, n: float | None, noise: float) -> Array:
    """Squared distances of the groups' mean ranks from the middle, in units of their variances, added up.

    A label has the middle rank of its rows, from −½ to ½. For two groups it is the test of Mann and Whitney.

    Examples
    --------
    >>> alike, apart = np.array([[10.0, 10.0], [10.0, 10.0]]), np.array([[20.0, 0.0], [0.0, 20.0]])
    >>> float(difference_of_ranks(alike, None, 1.0)), float(difference_of_ranks(apart, None, 1.0)) > 10
    (0.0, True)
    """
    ranks, spread = _ranks(cells.sum(axis=-2))
    summed = np.einsum("...ij,...j->...i", cells, ranks)
    rows = np.maximum(cells.sum(axis=-1), 0.0)
    variance = rows * spread[..., None] + noise * np.einsum("...i,...i->...", ranks, ranks)[..., None]
    return np.asarray((summed**2 / np.maximum(variance, 1e-12)).sum(axis=-1))


def distance_of_distributions(cells: Array, n: float | None, noise: float) -> Array:
    """The largest distance of a group's cumulated counts from those that its share of all rows would have.

    Examples
    --------
    >>> alike, apart = np.array([[10.0, 10.0], [10.0, 10.0]]), np.array([[20.0, 0.0], [0.0, 20.0]])
    >>> float(distance_of_distributions(alike, None, 1.0)), float(distance_of_distributions(apart, None, 1.0)) > 2
    (0.0, True)
    """
    rows = cells.sum(axis=-1, keepdims=True)
    total = np.maximum(cells.sum(axis=(-1, -2))[..., None, None], 1.0)
    share = np.clip(rows / total, 0.0, 1.0)
    apart = np.cumsum(cells, axis=-1) - share * np.cumsum(cells.sum(axis=-2), axis=-1)[..., None, :]
    variance = np.maximum(rows, 0.0) * (1 - share) / 4 + noise * cells.shape[-1] / 4
    return np.asarray((np.abs(apart) / np.sqrt(np.maximum(variance, 1e-12))).max(axis=(-1, -2)))


def rank_correlations(cells: Array) -> Array:
    """Spearman's correlation of two ordered columns: that of middle ranks, between −1 and 1.

    Examples
    --------
    >>> float(rank_correlations(np.array([[20.0, 0.0], [0.0, 20.0]])))
    1.0
    """
    (_, one), (_, two), together = _products(cells)
    rows = np.maximum(cells.sum(axis=(-1, -2)), 1.0)
    return np.asarray(np.clip(together / np.maximum(rows * np.sqrt(one * two), 1e-12), -1.0, 1.0))


def correlation_of_ranks(cells: Array, n: float | None, noise: float) -> Array:
    """The squared sum of products of both columns' ranks, in units of its variance where they are unrelated.

    Examples
    --------
    >>> alike, apart = np.array([[10.0, 10.0], [10.0, 10.0]]), np.array([[20.0, 0.0], [0.0, 20.0]])
    >>> float(correlation_of_ranks(alike, None, 1.0)), float(correlation_of_ranks(apart, None, 1.0)) > 10
    (0.0, True)
    """
    (first, one), (second, two), together = _products(cells)
    rows = np.maximum(cells.sum(axis=(-1, -2)), 0.0)
    squares = [np.einsum("...i,...i->...", ranks, ranks) for ranks in (first, second)]
    return np.asarray(together**2 / np.maximum(rows * one * two + noise * squares[0] * squares[1], 1e-12))


def _products(cells: Array) -> tuple[tuple[Array, Array], tuple[Array, Array], Array]:
    """Ranks and variances of two ordered columns, and the sum of products of their ranks over all rows."""
    first, second = (_ranks(cells.sum(axis=axis)) for axis in (-1, -2))
    return first, second, np.einsum("...ij,...i,...j->...", cells, first[0], second[0])


def _ranks(margin: Array) -> tuple[Array, Array]:
    """Middle ranks of ordered labels from noisy counts, from −½ to ½, and their variance over the rows."""
    labels = np.maximum(margin, 0.0)
    total = np.maximum(labels.sum(axis=-1, keepdims=True), 1.0)
    ranks = (np.cumsum(labels, axis=-1) - labels / 2) / total - 0.5
    return ranks, np.einsum("...i,...i->...", labels, ranks**2) / total[..., 0]


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
