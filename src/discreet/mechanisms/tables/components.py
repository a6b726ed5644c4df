"""Components of margins: every margin of a table as a sum of parts that do not overlap.

The *component* of a set A of axes is what the A-margin says beyond all smaller margins: the margin, centred along each
of its axes. A margin W is the sum of the components below it, each spread evenly over the axes it lacks. No matrix is
ever built: everything is a mean along an axis. Proof: ``docs/proofs/margins.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Axes",
    "below",
    "cell_covariance",
    "centred",
    "centred_share",
    "lifted",
    "margin_of",
    "scaled_centred",
    "shape_of",
]

Array = NDArray[np.float64]
Axes = tuple[int, ...]
"""Positions of some axes, in increasing order; the empty one stands for the total."""


def below(tables: Iterable[Axes]) -> tuple[Axes, ...]:
    """All margins of some tables, the smallest first.

    Examples
    --------
    >>> below([(0, 2), (1,)])
    ((), (0,), (1,), (2,), (0, 2))
    """
    found = {part for table in tables for size in range(len(table) + 1) for part in combinations(table, size)}
    return tuple(sorted(found, key=lambda axes: (len(axes), axes)))


def shape_of(sizes: Sequence[int], axes: Axes) -> tuple[int, ...]:
    """Shape of a margin."""
    return tuple(sizes[axis] for axis in axes)


def centred_share(sizes: Sequence[int], axes: Axes) -> Fraction:
    """p = ∏(1 − 1/d): squared length of one row in a component, and the part of the noise that centring leaves."""
    return math.prod((Fraction(sizes[axis] - 1, sizes[axis]) for axis in axes), start=Fraction(1))


def centred(margin: Array, first: int = 0) -> Array:
    """The component of a margin: its mean along every axis, from the ``first`` on, removed."""
    part = margin
    for axis in range(first, margin.ndim):
        part = part - part.mean(axis=axis, keepdims=True)
    return part


def lifted(component: Array, sizes: Sequence[int], axes: Axes, table: Axes) -> Array:
    """A component (or a stack of them) with an axis of length 1 for each axis of the table that it lacks."""
    spread = [sizes[axis] if axis in axes else 1 for axis in table]
    return component.reshape((*component.shape[: component.ndim - len(axes)], *spread))


def scaled_centred(margin: NDArray[Any]) -> NDArray[Any]:
    """The component times the number of cells: d·x − Σx along every axis, in whole numbers."""
    # |d·x − Σx| ≤ d·Σ|x| along every axis in turn; beyond 64 bits Python's own integers take over.
    largest = math.prod(margin.shape) * int(np.sum(np.abs(margin)))
    part = margin.astype(np.int64 if largest < 2**62 else object)
    for axis, size in enumerate(margin.shape):
        part = part * size - part.sum(axis=axis, keepdims=True)
    return np.asarray(part)


def margin_of(components: Mapping[Axes, Array], sizes: Sequence[int], table: Axes) -> Array:
    """A margin from the components below it."""
    total = np.zeros(shape_of(sizes, table))
    for axes in below([table]):
        if axes in components:
            others = math.prod(sizes[axis] for axis in table if axis not in axes)
            total += lifted(components[axes], sizes, axes, table) / others
    return total


def cell_covariance(
    variances: Mapping[Axes, float], sizes: Sequence[int], one: Mapping[int, int], other: Mapping[int, int]
) -> float:
    """Noise covariance of two cells, each given by its position along its own axes.

    ``variances`` are those of the noise in each component, before it is centred.
    """
    shared = tuple(sorted(set(one) & set(other)))
    found = 0.0
    for axes in below([shared]):
        if axes in variances:
            alike = math.prod((one[axis] == other[axis]) - 1 / sizes[axis] for axis in axes)
            spread = math.prod(sizes[axis] for cell in (one, other) for axis in cell if axis not in axes)
            found += variances[axes] * alike / spread
    return found
