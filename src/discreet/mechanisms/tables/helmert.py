"""Helmert coordinates: the directions in which a table can move while its total stands still.

The Helmert matrix (lee2022, section 4.1) has the constant column u₁ = p^{−1/2}·1 and, for k = 2, …, p, the columns
u_k = [k(k−1)]^{−1/2}·(1, …, 1, 1−k, 0, …, 0). It is never built: both directions are running sums, so a table of p
cells takes O(p) time and memory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["from_helmert", "to_helmert", "trend"]

Array = NDArray[np.float64]


def _weights(cells: int) -> tuple[Array, Array]:
    """k − 1 and [k(k−1)]^{−1/2} for k = 2, …, p."""
    before = np.arange(1.0, cells)
    return before, 1 / np.sqrt(before * (before + 1))


def to_helmert(table: Array) -> Array:
    """The p − 1 coordinates U_θᵀx of the part of a table that does not change its total (last axis).

    Examples
    --------
    >>> to_helmert(np.array([3.0, 1.0, 2.0])).round(4)
    array([1.4142, 0.    ])
    """
    before, weight = _weights(table.shape[-1])
    coordinates = np.cumsum(table[..., :-1], axis=-1)
    coordinates -= before * table[..., 1:]
    coordinates *= weight
    return coordinates


def from_helmert(coordinates: Array) -> Array:
    """The table U_θ·z with total zero that has these Helmert coordinates.

    Examples
    --------
    >>> table = np.array([3.0, 1.0, 2.0])
    >>> (2 + from_helmert(to_helmert(table))).round(12)
    array([3., 1., 2.])
    """
    cells = coordinates.shape[-1] + 1
    before, weight = _weights(cells)
    scaled = coordinates * weight
    table = np.zeros((*coordinates.shape[:-1], cells))
    table[..., :-1] = np.cumsum(scaled[..., ::-1], axis=-1)[..., ::-1]
    table[..., 1:] -= before * scaled
    return table


def trend(cells: int) -> Array:
    """The direction U_θ·1 in which all Helmert coordinates grow alike: high first cells, low last ones.

    Its squared length is p − 1. M_rJS leaves this direction unshrunk (lee2022 (10)).

    Examples
    --------
    >>> trend(3).round(4)
    array([ 1.1154, -0.2989, -0.8165])
    """
    return from_helmert(np.ones(cells - 1))
