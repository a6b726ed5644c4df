"""Spread: initial centres that are far from each other and from the edges, and read no data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["spread_centres"]

Array = NDArray[np.float64]
_TRIES = 200
_HALVINGS = 12


def spread_centres(count: int, dimension: int, rng: np.random.Generator) -> Array:
    """Sphere packing in [−1, 1]^d (su2017): the largest radius a for which random points fit that are 2a apart
    and a from the edges, found by bisection.

    Examples
    --------
    >>> spread_centres(3, 2, np.random.default_rng(1)).shape
    (3, 2)
    """
    low, high = 0.0, 1.0
    best = rng.uniform(-1, 1, (count, dimension))
    for _ in range(_HALVINGS):
        radius = (low + high) / 2
        packed = _packed(count, dimension, radius, rng)
        if packed is None:
            high = radius
        else:
            low, best = radius, packed
    return best


def _packed(count: int, dimension: int, radius: float, rng: np.random.Generator) -> Array | None:
    """Random points one after another, each a valid one of many candidates; None where one cannot be placed."""
    points = np.empty((0, dimension))
    for _ in range(count):
        candidates = rng.uniform(-1 + radius, 1 - radius, (_TRIES, dimension))
        gaps = np.linalg.norm(candidates[:, None] - points[None], axis=2)
        fits = np.flatnonzero((gaps >= 2 * radius).all(axis=1))
        if fits.size == 0:
            return None
        points = np.vstack([points, candidates[fits[0]]])
    return points
