"""Events: what an attacker may look for in a released number.

A *view* turns outputs into labels: their size, their bits, their place on grids, the pattern of their trailing zeros.
An *event* is a set of labels of one view. Views are fixed; which labels make the event is learned from one half of
the draws and tested on the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Event", "View", "views_of"]

Outputs = NDArray[np.float64]
Labels = NDArray[np.int64]

_BINS = 64
_LOW_BITS = 8


@dataclass(frozen=True)
class View:
    """A named function from outputs to small whole numbers."""

    name: str
    label: Callable[[Outputs], Labels]


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


def views_of(sample: Outputs) -> list[View]:
    """Views that suit outputs such as ``sample`` (draws in rows, coordinates in columns)."""
    columns = sample.shape[1]
    views: list[View] = []
    for column in range(columns):
        views += _scalar_views(sample[:, column], column, f" of coordinate {column}" if columns > 1 else "")
    if columns > 1:
        views += _joint_views(sample)
    return views


def _scalar_views(values: Outputs, column: int, suffix: str) -> list[View]:
    distinct = np.unique(values[:20_000])
    if distinct.size <= 256:
        atoms = np.unique(values)
        if atoms.size <= 4096:
            return [View(f"value{suffix}", lambda x: _position(x[:, column], atoms))]
    views = [View(f"size{suffix}", _binned(values, column)), View(f"tails{suffix}", _tails(values, column))]
    views += [
        View(f"low bits{suffix}", lambda x: _low_bits(x[:, column])),
        View(f"trailing zeros{suffix}", lambda x: _trailing_zeros(x[:, column])),
        View(f"exponent{suffix}", lambda x: np.frexp(x[:, column])[1].astype(np.int64)),
    ]
    return views


def _position(values: Outputs, atoms: Outputs) -> Labels:
    """Index among known values; values that were never seen share the label −1."""
    index = np.searchsorted(atoms, values)
    known = (index < atoms.size) & (atoms[np.minimum(index, atoms.size - 1)] == values)
    return np.where(known, index, -1).astype(np.int64)


def _binned(values: Outputs, column: int) -> Callable[[Outputs], Labels]:
    edges = np.unique(np.quantile(values, np.linspace(0, 1, _BINS + 1)[1:-1]))
    return lambda x: np.searchsorted(edges, x[:, column], side="right").astype(np.int64)


def _tails(values: Outputs, column: int) -> Callable[[Outputs], Labels]:
    levels = np.array([1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2])
    edges = np.unique(np.quantile(values, np.concatenate([levels, 1 - levels])))
    return lambda x: np.searchsorted(edges, x[:, column], side="right").astype(np.int64)


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


def _joint_views(sample: Outputs) -> list[View]:
    """The sum, the largest coordinate and its place: what one record that moves several coordinates shifts."""
    total = sample.sum(axis=1)
    edges = np.unique(np.quantile(total, np.linspace(0, 1, _BINS + 1)[1:-1]))
    views = [
        View("total", lambda x: np.searchsorted(edges, x.sum(axis=1), side="right").astype(np.int64)),
        View("place of the largest", lambda x: np.argmax(x, axis=1).astype(np.int64)),
    ]
    if sample.shape[1] <= 8:
        medians = np.median(sample, axis=0)
        weights = 2 ** np.arange(sample.shape[1])
        views.append(View("above the medians", lambda x: ((x > medians) @ weights).astype(np.int64)))
    return views
