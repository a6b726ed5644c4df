"""Ordered departures: how far groups differ along an ordered column, for many noisy tables at once.

Tables have groups along the last axis but one, and ordered labels along the last. The statistics are those of Kruskal
and Wallis, and of Kolmogorov and Smirnov, from noisy counts; their null distribution is simulated through the same
noise, so their scale decides power and never size.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["distance_of_distributions", "difference_of_ranks"]

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
    labels = np.maximum(cells.sum(axis=-2), 0.0)
    total = np.maximum(labels.sum(axis=-1, keepdims=True), 1.0)
    ranks = (np.cumsum(labels, axis=-1) - labels / 2) / total - 0.5
    spread = np.einsum("...i,...i->...", labels, ranks**2) / total[..., 0]
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
