"""Events: what an attacker may look for in a released number.

A *view* turns outputs into labels: their size, their bits, their place on grids, the pattern of their trailing zeros,
and for rows of numbers what tells two neighbours apart jointly. An *event* is a set of labels of one view. Views and
events are learned from one half of the draws and tested on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Event", "View", "views_of"]

Outputs = NDArray[np.float64]
Labels = NDArray[np.int64]

_BINS = 64
_COARSE = 12
_LOW_BITS = 8
_FEW_COLUMNS = 4
_ATOMS = 256
_LEVELS = np.array([1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2])


@dataclass(frozen=True)
class View:
    """A named function from outputs to small whole numbers; ``ordered`` where these have a natural order."""

    name: str
    label: Callable[[Outputs], Labels]
    ordered: bool = False


@dataclass(frozen=True)
class Event:
    """A set of labels of one view."""

    view: View
    labels: NDArray[np.int64]

    def count(self, outputs: Outputs) -> int:
        """How many outputs fall into the event."""
        return int(np.isin(self.view.label(outputs), self.labels).sum())

    def __str__(self) -> str:
        return f"{self.view.name}: {self.labels.size} of its labels"


def views_of(here: Outputs, there: Outputs) -> list[View]:
    """Views that suit outputs such as these (draws in rows, coordinates in columns)."""
    both = np.concatenate([here, there])
    columns = both.shape[1]
    views: list[View] = []
    for column in range(columns):
        suffix = f" of coordinate {column}" if columns > 1 else ""
        views += _scalar_views(both[:, column], column, suffix)
    if columns > 1:
        views += _joint_views(here, there)
    return views


def _scalar_views(values: Outputs, column: int, suffix: str) -> list[View]:
    if np.unique(values[:: max(1, values.size // 4096)]).size <= _ATOMS:
        atoms = np.unique(values)
        if atoms.size <= 4096:
            return [View(f"value{suffix}", lambda x: _position(x[:, column], atoms), ordered=True)]
    size, tails = _cut(values, np.linspace(0, 1, _BINS + 1)[1:-1]), _cut(values, np.concatenate([_LEVELS, 1 - _LEVELS]))
    return [
        View(f"size{suffix}", lambda x: size(x[:, column]), ordered=True),
        View(f"tails{suffix}", lambda x: tails(x[:, column]), ordered=True),
        View(f"low bits{suffix}", lambda x: _low_bits(x[:, column])),
        View(f"trailing zeros{suffix}", lambda x: _trailing_zeros(x[:, column]), ordered=True),
        View(f"exponent{suffix}", lambda x: np.frexp(x[:, column])[1].astype(np.int64), ordered=True),
    ]


def _cut(values: Outputs, shares: NDArray[np.float64]) -> Callable[[Outputs], Labels]:
    """Places between the quantiles of some values."""
    edges = np.unique(np.quantile(values, shares))
    return lambda x: np.searchsorted(edges, x, side="right").astype(np.int64)


def _position(values: Outputs, atoms: Outputs) -> Labels:
    """Index among known values; values that were never seen share the label −1."""
    index = np.searchsorted(atoms, values)
    known = (index < atoms.size) & (atoms[np.minimum(index, atoms.size - 1)] == values)
    return np.where(known, index, -1).astype(np.int64)


def _mantissa(values: Outputs) -> NDArray[np.uint64]:
    return np.ascontiguousarray(values).view(np.uint64) & np.uint64(2**52 - 1)


def _low_bits(values: Outputs) -> Labels:
    return (_mantissa(values) & np.uint64(2**_LOW_BITS - 1)).astype(np.int64)


def _trailing_zeros(values: Outputs) -> Labels:
    """Power of the largest power of two that divides the number: on which grid it lies."""
    mantissa = _mantissa(values) | np.uint64(2**52)
    lowest = mantissa & (~mantissa + np.uint64(1))
    zeros = np.frexp(lowest.astype(float))[1] - 1
    return np.asarray(np.frexp(values)[1] - 53 + zeros, dtype=np.int64)


# ---- rows of numbers ----------------------------------------------------------------------------------------------


def _joint_views(here: Outputs, there: Outputs) -> list[View]:
    """What one record that moves several coordinates shifts together."""
    both = np.concatenate([here, there])
    views = [
        *_scored("total", lambda x: x.sum(axis=1), both),
        *_scored("linear discriminant", _discriminant(here, there), both),
        *_scored("likelihood ratio", _likelihood_ratio(here, there), both),
        View("place of the largest", lambda x: np.argmax(x, axis=1).astype(np.int64)),
    ]
    if both.shape[1] <= 2 * _FEW_COLUMNS:
        medians = np.median(both, axis=0)
        weights = 2 ** np.arange(both.shape[1])
        views.append(View("above the medians", lambda x: ((x > medians) @ weights).astype(np.int64)))
    if both.shape[1] <= _FEW_COLUMNS:
        views += list(_pairs(both))
    return views


def _scored(name: str, score: Callable[[Outputs], Outputs], both: Outputs) -> list[View]:
    """A number made of all coordinates, cut into equal shares and into tails."""
    values = score(both)
    size, tails = _cut(values, np.linspace(0, 1, _BINS + 1)[1:-1]), _cut(values, np.concatenate([_LEVELS, 1 - _LEVELS]))
    return [
        View(name, lambda x: size(score(x)), ordered=True),
        View(f"tails of the {name}", lambda x: tails(score(x)), ordered=True),
    ]


def _discriminant(here: Outputs, there: Outputs) -> Callable[[Outputs], Outputs]:
    """Fisher's direction. A hair of ridge keeps directions without noise, where all is told, in play."""
    spread = np.cov(np.concatenate([here - here.mean(axis=0), there - there.mean(axis=0)]), rowvar=False)
    spread = np.atleast_2d(spread) + 1e-12 * (np.trace(np.atleast_2d(spread)) + 1e-300) * np.eye(here.shape[1])
    direction = np.linalg.lstsq(spread, there.mean(axis=0) - here.mean(axis=0), rcond=None)[0]
    largest = float(np.abs(direction).max())
    unit = direction / largest if largest > 0 else direction
    return lambda x: np.asarray(x @ unit)


def _likelihood_ratio(here: Outputs, there: Outputs) -> Callable[[Outputs], Outputs]:
    """Sum of the coordinates' own log-ratios, from histograms: the best score where coordinates are independent."""
    parts = []
    for column in range(here.shape[1]):
        cut = _cut(np.concatenate([here[:, column], there[:, column]]), np.linspace(0, 1, _BINS + 1)[1:-1])
        counts = [np.bincount(cut(side[:, column]), minlength=_BINS) + 1.0 for side in (here, there)]
        parts.append((column, cut, np.log(counts[1] / counts[0])))
    return lambda x: np.sum([ratios[cut(x[:, column])] for column, cut, ratios in parts], axis=0)


def _pairs(both: Outputs) -> Iterator[View]:
    """Joint histograms of two coordinates."""
    cuts = [_cut(column, np.linspace(0, 1, _COARSE + 1)[1:-1]) for column in both.T]
    for i, j in combinations(range(len(cuts)), 2):

        def label(x: Outputs, i: int = i, j: int = j) -> Labels:
            return cuts[i](x[:, i]) * _COARSE + cuts[j](x[:, j])

        yield View(f"coordinates {i} and {j}", label)
