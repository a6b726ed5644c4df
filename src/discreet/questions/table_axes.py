"""Table axes: the public categories, or the public bins, along which rows are counted."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.rounding import decimal
from discreet.core.schema import Bounds

__all__ = ["OTHER", "Bins", "Categories", "column_values", "in_order", "public_bins"]

Codes = NDArray[np.intp]
OTHER = "other"
"""Label of the cell that counts rows outside the public categories."""


def in_order(columns: Any) -> Any:
    """Columns as stored, a list of pairs, as a mapping again; a JSON object may be stored with sorted keys."""
    stored = isinstance(columns, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in columns)
    return dict(columns) if stored else columns


def column_values(data: Any, name: str) -> NDArray[Any]:
    """One column of a frame (pandas, polars, pyarrow) or of a mapping of arrays, as a numpy array."""
    try:
        column = data[name]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise InvalidParameter(
            "data", type(data).__name__, f"has no column {name!r}", "Pass a frame, or a dict of arrays, with it."
        ) from None
    except Exception as error:  # every frame library has its own error for a missing column
        raise InvalidParameter(
            "data", type(data).__name__, f"has no column {name!r} ({type(error).__name__})", "Check its columns."
        ) from None
    values = column.to_numpy() if hasattr(column, "to_numpy") else column
    array = values if isinstance(values, np.ndarray) else _array(values)
    if array.ndim != 1:
        raise WrongType("data", f"column {name!r}", "must have one dimension", "Pass one value per row.")
    return array


def _array(values: Any) -> NDArray[Any]:
    """Python values keep their types: numpy would turn [1, "a"] into two strings, and refuse ["a", ["b"]]."""
    try:
        array = np.asarray(values)
    except ValueError:
        return np.fromiter(values, dtype=object)
    if array.dtype.kind in "biuf" or array.ndim != 1:
        return array
    return np.fromiter(values, dtype=object, count=array.size)


@dataclass(frozen=True)
class Categories:
    """Public categories in the order of the cells; ``other`` adds one cell for everything else."""

    labels: tuple[Hashable, ...]
    other: bool = False

    def __post_init__(self) -> None:
        given: Any = self.labels
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise WrongType("categories", given, "must be a list of values", 'Pass ["no", "yes"].')
        labels = tuple(_plain_label(label) for label in given)
        if len(labels) == 0 or len(set(labels)) != len(labels):
            raise InvalidParameter(
                "categories", list(labels), "must be distinct and at least one", "List every public value once."
            )
        if self.other and OTHER in labels:
            raise InvalidParameter("categories", list(labels), f"already name {OTHER!r}", "Rename that category.")
        object.__setattr__(self, "labels", labels)

    def __len__(self) -> int:
        return len(self.labels) + self.other

    def names(self) -> tuple[Hashable, ...]:
        """The labels of all cells."""
        return (*self.labels, OTHER) if self.other else self.labels

    def codes(self, values: NDArray[Any]) -> Codes:
        """The cell of every value; −1 for values outside."""
        numeric = all(isinstance(label, int | float) for label in self.labels)
        if numeric and values.dtype.kind in "biuf":
            found = _search(values, np.array(self.labels))
        else:
            index = {label: code for code, label in enumerate(self.labels)}
            found = np.fromiter((_lookup(index, value) for value in values.tolist()), np.intp, values.size)
        return np.where(found < 0, len(self.labels), found) if self.other else found

    def to_json(self) -> list[Any]:
        """The labels."""
        return list(self.labels)


def _plain_label(label: Any) -> Hashable:
    value = label.item() if isinstance(label, np.generic) else label
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidParameter("categories", value, "must be finite", "Leave missing values to other=True.")
    if not isinstance(value, str | int | float | bool):
        raise WrongType("categories", value, "must be text, numbers or booleans", "Pass plain values.")
    return value


def _lookup(index: dict[Hashable, int], value: Any) -> int:
    try:
        return index.get(value, -1)
    except TypeError:  # unhashable
        return -1


def _search(values: NDArray[Any], labels: NDArray[Any]) -> Codes:
    order = np.argsort(labels)
    place = np.minimum(np.searchsorted(labels, values, sorter=order), labels.size - 1)
    found = order[place]
    return np.where(labels[found] == values, found, -1)


@dataclass(frozen=True)
class Bins:
    """Bins of a bounded numeric column between public edges: [e₀, e₁), [e₁, e₂), …, the last one closed.

    Parameters
    ----------
    edges
        At least two increasing numbers.
    outside
        What to do with values outside the edges: ``"refuse"`` them, or ``"clamp"`` them into the end bins. Missing
        values are refused either way.

    Examples
    --------
    >>> Bins([0, 18, 65, 120]).names()
    ('[0, 18)', '[18, 65)', '[65, 120]')
    """

    edges: tuple[float, ...]
    outside: Literal["refuse", "clamp"] = "refuse"

    def __post_init__(self) -> None:
        given = requirements.listed("edges", self.edges, "Bins([0, 10, 20])")
        edges = tuple(requirements.finite("edges", edge) for edge in given)
        if len(edges) < 2 or any(low >= high for low, high in pairwise(edges)):
            raise InvalidParameter("edges", list(edges), "must be at least two, increasing", "Sort them.")
        if self.outside not in ("refuse", "clamp"):
            raise InvalidParameter("outside", self.outside, "must be 'refuse' or 'clamp'", "Check the spelling.")
        object.__setattr__(self, "edges", edges)

    def __len__(self) -> int:
        return len(self.edges) - 1

    def names(self) -> tuple[Hashable, ...]:
        """The labels of all cells."""
        ends = [f"{edge:g}" for edge in self.edges]
        names = [f"[{low}, {high})" for low, high in pairwise(ends)]
        return (*names[:-1], names[-1][:-1] + "]")

    def codes(self, values: NDArray[Any]) -> Codes:
        """The bin of every value; −1 for values outside that are not clamped."""
        try:
            numbers = np.asarray(values, dtype=float)
        except (TypeError, ValueError, OverflowError):
            return np.full(values.size, -1, dtype=np.intp)
        if self.outside == "clamp":
            numbers = np.clip(numbers, self.edges[0], self.edges[-1])
        found = np.searchsorted(np.array(self.edges), numbers, side="right") - 1
        found = np.where(numbers == self.edges[-1], len(self) - 1, found)
        inside = (numbers >= self.edges[0]) & (numbers <= self.edges[-1])
        return np.where(inside, found, -1)

    def to_json(self) -> dict[str, Any]:
        """Edges and rule."""
        return {"edges": list(self.edges), "outside": self.outside}

    def steps(self, bounds: Bounds) -> tuple[int, ...]:
        """The grid steps at which a new bin starts; the decimals that the edges print as count."""
        return tuple(math.ceil(decimal(edge) / bounds.step) for edge in self.edges[1:-1])


def public_bins(name: str, bounds: Bounds, given: int | Sequence[float]) -> Bins:
    """Bins of a bounded number: those between the edges given, or so many as equal in width as the grid allows.

    Examples
    --------
    >>> public_bins("bins", Bounds(0, 120, grid=1), 4).edges
    (0.0, 30.0, 60.0, 90.0, 120.0)
    """
    if isinstance(given, int):
        number, steps = requirements.positive_integer(name, given), bounds.highest - bounds.lowest
        if number > steps:
            raise InvalidParameter(name, number, f"must be at most {steps}, one per grid step", "Use fewer bins.")
        given = [float((bounds.lowest + steps * place // number) * bounds.step) for place in range(number + 1)]
    bins = Bins(given)  # type: ignore[arg-type]
    if bins.edges[0] > bounds.low or bins.edges[-1] < bounds.high:
        raise InvalidParameter(
            name, list(bins.edges), f"must cover the bounds {bounds.low:g} to {bounds.high:g}", "Add outer edges."
        )
    return bins
