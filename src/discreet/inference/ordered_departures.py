"""Ordered departures: how far groups differ along an ordered column, for many noisy tables at once.

Tables have groups along the last axis but one, and ordered labels along the last; where both have an order, ranks of
one may go with ranks of the other. The statistics are those of Kruskal and Wallis, of Kolmogorov and Smirnov, and
Spearman's correlation, from noisy counts. Their null distribution is simulated through the same noise, so their scale
decides power and never size.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["correlation_of_ranks", "difference_of_ranks", "distance_of_distributions", "rank_correlations"]

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
