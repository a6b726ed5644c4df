"""Departures: how far noisy tables lie from a null hypothesis, for many tables at once.

Every function takes measurements along the last axis (or the last two) and works on stacks of simulated tables with
a fixed number of passes over the data. Definitions and reasons: ``docs/proofs/chi_square.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms.tables.clipping import onto_simplex
from discreet.mechanisms.tables.helmert import trend

__all__ = [
    "pearson_goodness",
    "pearson_homogeneity",
    "pearson_independence",
    "shrunken_goodness",
    "shrunken_homogeneity",
    "shrunken_independence",
]

Array = NDArray[np.float64]


def _shrunken(departure: Array, variance: Array, direction: Array, df: int, level: Any) -> Array:
    """Squared length, in units of the variance, of the James-Stein estimate of a departure.

    ``level`` is the mean variance of a departure per degree of freedom. The component along ``direction`` (all Helmert
    coordinates alike, as in M_rJS) is kept; the rest shrinks towards no departure at all.
    """
    along = departure @ (direction / float(direction @ direction))
    rest = departure - along[..., None] * direction
    if df > 3:
        square = np.einsum("...i,...i->...", rest, rest)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.maximum(1 - (df - 3) * level / square, 0.0)
        rest *= np.where(square > 0, factor, 0.0)[..., None]
    rest += along[..., None] * direction
    np.square(rest, out=rest)
    rest /= variance
    return np.asarray(rest.sum(axis=-1))


def _room(shares: Array) -> Array:
    """1 − Σπ², for estimates that may leave the simplex."""
    return np.asarray(np.clip(1 - np.einsum("...i,...i->...", shares, shares), 0.0, 1.0))


def shrunken_goodness(cells: Array, probabilities: Array, n: float | None, noise: float) -> Array:
    """Departures from N·π₀ of tables and of the nearest possible tables, added up.

    N is the table's own total where it is not public. The second departure uses that counts are not negative, which
    says much where noise exceeds the counts.
    """
    p = cells.shape[-1]
    total = np.asarray(cells.sum(axis=-1) if n is None else n, dtype=float)
    rows = np.maximum(total, 0.0)
    variance = rows[..., None] * probabilities + noise
    level = rows * _room(probabilities) / (p - 1) + noise
    direction = trend(p)
    measured = _shrunken(cells - total[..., None] * probabilities, variance, direction, p - 1, level)
    possible = onto_simplex(cells, rows) - rows[..., None] * probabilities
    return measured + _shrunken(possible, variance, direction, p - 1, level)


def shrunken_homogeneity(samples: Sequence[Array], sizes: Sequence[float | None], noises: Sequence[float]) -> Array:
    """Departures of several samples of tables from their common shares, added up."""
    p = samples[0].shape[-1]
    totals = [
        np.asarray(sample.sum(axis=-1) if size is None else size) for sample, size in zip(samples, sizes, strict=True)
    ]
    rows = [np.maximum(total, 0.0) for total in totals]
    everything = np.maximum(sum(rows), 1.0)
    pooled = sum(samples) / np.asarray(everything)[..., None]
    shares = np.maximum(pooled, 0.0)
    room, direction = _room(shares), trend(p)
    statistic: Any = 0.0
    for index, (sample, total) in enumerate(zip(samples, totals, strict=True)):
        own = rows[index] / everything
        noise = sum(((1.0 if other == index else 0.0) - own) ** 2 * amount for other, amount in enumerate(noises))
        sampling = rows[index] * (1 - own)
        variance = np.asarray(sampling)[..., None] * shares + np.asarray(noise)[..., None]
        departure = sample - np.asarray(total)[..., None] * pooled
        statistic = statistic + _shrunken(departure, variance, direction, p - 1, sampling * room / (p - 1) + noise)
    return np.asarray(statistic)


def shrunken_independence(tables: Array, n: float | None, noise: float) -> Array:
    """Departure of two-way tables (last two axes) from the product of their margins."""
    rows, columns = tables.shape[-2:]
    size = np.maximum(np.asarray(tables.sum(axis=(-2, -1)) if n is None else n), 1.0)
    by_row, by_column = tables.sum(axis=-1), tables.sum(axis=-2)
    expected = by_row[..., :, None] * (by_column / size[..., None])[..., None, :]
    df = (rows - 1) * (columns - 1)
    room = _room(np.maximum(by_row, 0.0) / size[..., None]) * _room(np.maximum(by_column, 0.0) / size[..., None])
    level = size * room / df + noise
    departure = (tables - expected).reshape(*tables.shape[:-2], rows * columns)
    variance = (np.maximum(expected, 0.0) + noise).reshape(departure.shape)
    direction = np.outer(trend(rows), trend(columns)).ravel()
    return _shrunken(departure, variance, direction, df, level)


def _pearson(observed: Array, expected: Array) -> Array:
    """Σ (O − E)²/E with 0/0 = 0, as lee2022 sets it; an impossible cell that is not empty counts as infinite."""
    difference = np.square(observed - expected)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = difference / expected
    return np.where(difference == 0, 0.0, share)


def pearson_goodness(cells: Array, probabilities: Array) -> Array:
    """T̃_GOF of lee2022, Algorithm 2, on published values."""
    return np.asarray(_pearson(cells, cells.sum(axis=-1)[..., None] * probabilities).sum(axis=-1))


def pearson_homogeneity(samples: Sequence[Array]) -> Array:
    """T̃_Hom of lee2022, Algorithm 3, on published values."""
    totals = [sample.sum(axis=-1)[..., None] for sample in samples]
    with np.errstate(divide="ignore", invalid="ignore"):
        pooled = np.nan_to_num(sum(samples) / sum(totals), nan=0.0, posinf=0.0, neginf=0.0)
    parts = [_pearson(sample, total * pooled).sum(axis=-1) for sample, total in zip(samples, totals, strict=True)]
    return np.asarray(sum(parts))


def pearson_independence(tables: Array) -> Array:
    """Pearson's statistic of published two-way tables (last two axes)."""
    total = tables.sum(axis=(-2, -1))[..., None, None]
    margins = tables.sum(axis=-1)[..., :, None] * tables.sum(axis=-2)[..., None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.nan_to_num(margins / total, nan=0.0, posinf=0.0, neginf=0.0)
    return np.asarray(_pearson(tables, expected).sum(axis=(-2, -1)))
