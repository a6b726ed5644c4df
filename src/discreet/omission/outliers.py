"""Outlier scores: the mean distance of each record to all records, for distances normalised by public bounds.

miranda2026 (§5.3) deletes record x with probability out_D(x) = m + (M − m)·mean_y d(x, y). Every distance here
lies in [0, 1] by public facts alone: values outside the bounds count as the nearest bound.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.rounding import ball
from discreet.core.rows.frames import canonical_text

__all__ = [
    "AbsoluteDistance",
    "DiscreteDistance",
    "Distance",
    "EuclideanDistance",
    "outlier_scores",
    "distance_from_dict",
]

Array = NDArray[np.float64]
_BLOCK = 1 << 22
"""Distances held at once by the Euclidean blocks: 32 MB."""


class Distance(ABC):
    """A distance between records with values in [0, 1] that satisfies the triangle inequality."""

    name: ClassVar[str]

    @abstractmethod
    def prepare(self, data: Any) -> NDArray[Any]:
        """The records as an array; refuses what the distance is not defined for."""

    @abstractmethod
    def mean_distances(self, data: Any) -> Array:
        """Mean distance of each record to all records, itself included."""

    @abstractmethod
    def mean_distance_ball(self, data: NDArray[Any], index: int) -> arb:
        """The same for one prepared record, as a rigorous enclosure."""

    @abstractmethod
    def error(self, count: int) -> float:
        """Bound on the rounding error of `mean_distances` for ``count`` records."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The distance as JSON-ready data."""


def _numbers(data: Any, low: NDArray[np.float64] | float, high: NDArray[np.float64] | float, dimensions: int) -> Array:
    """Numbers within the bounds. What is missing or not a number counts as the lower bound, as any fixed point would.

    Each value is converted by itself and none is refused: a refusal would tell that somebody's value is odd.
    """
    array = np.asarray(data)
    if array.ndim != dimensions:
        shape = "one number per record" if dimensions == 1 else "one row per record"
        raise InvalidParameter("data", array.shape, f"must have {shape}", "Reshape it.")
    if array.dtype.kind not in "biuf":
        array = np.array([_number(value) for value in array.reshape(-1)]).reshape(array.shape)
    numbers = np.asarray(array, dtype=float)
    return np.clip(np.where(np.isnan(numbers), low, numbers), low, high)


def _number(value: Any) -> float:
    try:
        return float(canonical_text(value) or "nan")
    except ValueError:
        return math.nan


@dataclass(frozen=True)
class AbsoluteDistance(Distance):
    """|x − y| / (high − low) for numbers, in O(n log n).

    Examples
    --------
    >>> AbsoluteDistance((0, 10)).mean_distances([0, 0, 0, 10]).tolist()
    [0.25, 0.25, 0.25, 0.75]
    """

    bounds: tuple[float, float]
    name: ClassVar[str] = "absolute"

    def __post_init__(self) -> None:
        low, high = requirements.ordered_bounds("bounds", self.bounds)
        requirements.finite("bounds", low), requirements.finite("bounds", high)
        object.__setattr__(self, "bounds", (low, high))

    def prepare(self, data: Any) -> Array:
        """Numbers, clamped to the bounds."""
        return _numbers(data, *self.bounds, dimensions=1)

    def mean_distances(self, data: Any) -> Array:
        """Sorting turns Σ|x − y| into prefix sums."""
        values = self.prepare(data) - self.bounds[0]
        if values.size == 0:
            return np.asarray(values)
        order = np.argsort(values, kind="stable")
        ranked = values[order]
        below = np.arange(ranked.size)
        prefix = np.concatenate([[0.0], np.cumsum(ranked)[:-1]])
        total = prefix[-1] + ranked[-1]
        sums = ranked * below - prefix + (total - prefix - ranked) - ranked * (ranked.size - 1 - below)
        result = np.empty_like(sums)
        result[order] = np.clip(sums / (ranked.size * (self.bounds[1] - self.bounds[0])), 0.0, 1.0)
        return np.asarray(result)

    def mean_distance_ball(self, data: NDArray[Any], index: int) -> arb:
        """Exact: a sum of fractions."""
        values, counts = np.unique(data, return_counts=True)
        own = Fraction(float(data[index]))
        total = sum((abs(Fraction(float(v)) - own) * int(c) for v, c in zip(values, counts, strict=True)), Fraction(0))
        width = Fraction(self.bounds[1]) - Fraction(self.bounds[0])
        return ball(total / (len(data) * width))

    def error(self, count: int) -> float:
        """Sums of n rounded numbers below the width: at most 4n units in the last place, with a margin."""
        return 8.0 * (count + 8) * 2.0**-53

    def to_dict(self) -> dict[str, Any]:
        """Name and bounds."""
        return {"name": self.name, "bounds": list(self.bounds)}


@dataclass(frozen=True)
class DiscreteDistance(Distance):
    """0 for equal records and 1 for different ones, in O(n log n) at most.

    Examples
    --------
    >>> DiscreteDistance().mean_distances(["a", "a", "a", "b"]).tolist()
    [0.25, 0.25, 0.25, 0.75]
    """

    name: ClassVar[str] = "discrete"

    def prepare(self, data: Any) -> NDArray[Any]:
        """Codes of the distinct records."""
        array = np.asarray(data)
        if array.ndim not in (1, 2):
            raise InvalidParameter("data", array.shape, "must have one value or one row per record", "Reshape it.")
        if array.size == 0:
            return np.zeros(0, dtype=np.int64)
        if array.ndim == 1 and array.dtype.kind in "iu" and int(array.max()) - int(array.min()) < 1 << 24:
            return (array.astype(np.int64) - int(array.min())).astype(np.int64)
        if array.dtype.kind == "O":  # values of several kinds have no order; a missing one equals other missing ones
            array = np.array([canonical_text(value) or "" for value in array.reshape(-1)]).reshape(array.shape)
        axis = None if array.ndim == 1 else 0
        return np.unique(array, axis=axis, return_inverse=True)[1].reshape(-1).astype(np.int64)

    def mean_distances(self, data: Any) -> Array:
        """1 − (share of equal records), from one count."""
        codes = self.prepare(data)
        if codes.size == 0:
            return np.zeros(0)
        return np.asarray((codes.size - np.bincount(codes)[codes]) / codes.size)

    def mean_distance_ball(self, data: NDArray[Any], index: int) -> arb:
        """Exact: a quotient of counts."""
        return ball(Fraction(int(np.count_nonzero(data != data[index])), len(data)))

    def error(self, count: int) -> float:
        """One correctly rounded division."""
        return 2.0**-52

    def to_dict(self) -> dict[str, Any]:
        """Name only."""
        return {"name": self.name}


@dataclass(frozen=True)
class EuclideanDistance(Distance):
    """‖x − y‖ over the diameter of a public box, exactly and in blocks: O(n²·d) time, O(n) memory.

    Parameters
    ----------
    bounds
        One pair (low, high) per coordinate.

    Examples
    --------
    >>> EuclideanDistance(((0, 3), (0, 4))).mean_distances([[0, 0], [3, 4]]).tolist()
    [0.5, 0.5]
    """

    bounds: tuple[tuple[float, float], ...]
    name: ClassVar[str] = "euclidean"

    def __post_init__(self) -> None:
        if np.ndim(self.bounds) != 2 or len(self.bounds) == 0:
            raise WrongType("bounds", self.bounds, "must hold a pair per coordinate", "Pass bounds=((0, 1), (0, 1)).")
        clean = tuple(requirements.ordered_bounds("bounds", pair) for pair in self.bounds)
        for pair in clean:
            requirements.finite("bounds", pair[0]), requirements.finite("bounds", pair[1])
        object.__setattr__(self, "bounds", clean)

    def prepare(self, data: Any) -> Array:
        """Rows, clamped to the box."""
        shape, (low, high) = np.shape(data), np.asarray(self.bounds).T
        if len(shape) == 2 and shape[1] != len(self.bounds):
            raise InvalidParameter(
                "data", shape, f"must have {len(self.bounds)} columns, one per bound", "Select the columns."
            )
        return _numbers(data, low, high, dimensions=2)

    def _diameter(self) -> float:
        low, high = np.asarray(self.bounds).T
        return float(np.linalg.norm(high - low))

    def mean_distances(self, data: Any) -> Array:
        """Blocks of rows against all rows."""
        from scipy.spatial.distance import cdist

        rows = self.prepare(data)
        count = len(rows)
        result = np.empty(count)
        block = max(1, _BLOCK // max(count, 1))
        for start in range(0, count, block):
            result[start : start + block] = cdist(rows[start : start + block], rows).sum(axis=1)
        return np.clip(result / (max(count, 1) * self._diameter()), 0.0, 1.0)

    def mean_distance_ball(self, data: NDArray[Any], index: int) -> arb:
        """A sum of square-root balls."""
        total = arb(0)
        for row in data:
            square = sum(
                ((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in zip(row, data[index], strict=True)),
                Fraction(0),
            )
            total += ball(square).sqrt()
        width = sum(((Fraction(high) - Fraction(low)) ** 2 for low, high in self.bounds), Fraction(0))
        return total / (len(data) * ball(width).sqrt())

    def error(self, count: int) -> float:
        """Pairwise sums of n correctly rounded distances, with a margin for the d squares in each."""
        return 8.0 * (count + 8 * len(self.bounds) + 8) * 2.0**-53

    def to_dict(self) -> dict[str, Any]:
        """Name and bounds."""
        return {"name": self.name, "bounds": [list(pair) for pair in self.bounds]}


def outlier_scores(data: ArrayLike, m: float, M: float, distance: Distance) -> Array:
    """out_D(x) = m + (M − m)·(mean distance of x to all records), in floating point.

    Examples
    --------
    >>> outlier_scores([0, 0, 0, 10], 0.1, 0.5, AbsoluteDistance((0, 10))).round(3).tolist()
    [0.2, 0.2, 0.2, 0.4]
    """
    requirements.instance("distance", distance, Distance, "AbsoluteDistance((0, 125))")
    return np.asarray(m + (M - m) * distance.mean_distances(data))


def distance_from_dict(data: Mapping[str, Any]) -> Distance:
    """Read what `Distance.to_dict` wrote; unknown distances are refused.

    Examples
    --------
    >>> distance_from_dict({"name": "absolute", "bounds": [0, 125]})
    AbsoluteDistance(bounds=(0.0, 125.0))
    """
    fields = dict(data)
    kinds: dict[Any, type[Distance]] = {
        kind.name: kind for kind in (AbsoluteDistance, DiscreteDistance, EuclideanDistance)
    }
    name = fields.pop("name", None)
    if name not in kinds:
        raise InvalidParameter("distance", name, f"must be one of {sorted(kinds)}", "Check the file.")
    return kinds[name](**fields)
