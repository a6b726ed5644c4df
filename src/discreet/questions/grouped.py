"""Grouped: one statistic for every combination of public labels, released at once, and what is read from it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any, ClassVar, Generic, Literal, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType, spelling
from discreet.core.numbers import decimal
from discreet.core.schema import Bounds
from discreet.results.display import Facts, Interval
from discreet.results.frames import Reading
from discreet.results.printed import MOST_SHOWN, told_numbers
from discreet.results.release import Release, Statistic, statistic_from_dict

# ---- Table axes: the public categories, or the public bins, along which rows are counted.


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
class LabelAxis:
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
        number = requirements.positive_integer(name, given)
        steps = bounds.highest - bounds.lowest
        if number > steps:
            raise InvalidParameter(name, number, f"must be at most {steps}, one per grid step", "Use fewer bins.")
        given = [float((bounds.lowest + steps * place // number) * bounds.step) for place in range(number + 1)]
    bins = Bins(given)  # type: ignore[arg-type]
    if bins.edges[0] > bounds.low or bins.edges[-1] < bounds.high:
        raise InvalidParameter(
            name, list(bins.edges), f"must cover the bounds {bounds.low:g} to {bounds.high:g}", "Add outer edges."
        )
    return bins


# ---- Grouped: one statistic for every combination of public labels, released at once, and what is read from it.


R = TypeVar("R", bound=Release, covariant=True)


@dataclass(frozen=True, kw_only=True)
class Grouped(Statistic):
    """The same statistic in every cell of a public grouping.

    The value is the array of the groups' values, in the order of `labels`. All groups are one release: a unit that can
    reach k groups moves k of them, which the sensitivity says, and nothing is charged for the others (parallel
    composition).

    Parameters
    ----------
    of
        The statistic of one group.
    by
        Columns of the grouping with their public labels; the last one varies fastest.

    Examples
    --------
    >>> from discreet.questions.count import Count
    >>> Grouped(of=Count(), by={"arm": ("A", "B"), "year": (1, 2)}).labels()
    (('A', 1), ('A', 2), ('B', 1), ('B', 2))
    """

    name: ClassVar[str] = "grouped"
    of: Statistic
    by: Mapping[str, tuple[Any, ...]]

    def __post_init__(self) -> None:
        if isinstance(self.of, Mapping):
            object.__setattr__(self, "of", statistic_from_dict(dict(self.of)))
        requirements.instance("of", self.of, Statistic, "a statistic")
        if not self.by:
            raise InvalidParameter("by", self.by, "must name at least one column", "Leave grouping out.")
        object.__setattr__(self, "by", {name: tuple(labels) for name, labels in in_order(self.by).items()})

    @property
    def title(self) -> str:
        return f"{self.of.title} by group"

    @property
    def groups(self) -> int:
        """Number of groups."""
        return math.prod(len(labels) for labels in self.by.values())

    def labels(self) -> tuple[tuple[Any, ...], ...]:
        """Labels of the groups, in the order of the value."""
        return tuple(product(*self.by.values()))

    @classmethod
    def release_type(cls) -> type[Release]:
        return GroupedRelease

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grouped) and self.parameters() == other.parameters()

    def __hash__(self) -> int:
        return hash((self.of, *self.by.items()))


@dataclass(frozen=True)
class GroupedIntervals(Interval):
    """Intervals of all groups, in the order of their labels; ``intervals["A"]`` is the interval of one of them."""

    labels: tuple[Any, ...] = ()

    def __getitem__(self, label: Any) -> Interval:
        place = place_of(label, self.labels)
        return Interval(np.asarray(self.low)[place], np.asarray(self.high)[place], self.level)


@dataclass(frozen=True)
class GroupedRelease(Release, Generic[R]):
    """All groups of one release; ``release["A"]`` is the release of one of them."""

    @property
    def grouping(self) -> Grouped:
        """The public description of the groups."""
        return cast(Grouped, self.statistic)

    def labels(self) -> tuple[Any, ...]:
        """Labels of the groups: single ones for one column, tuples for several."""
        labels = self.grouping.labels()
        return tuple(one[0] for one in labels) if len(self.grouping.by) == 1 else labels

    def __getitem__(self, label: Any) -> R:
        return self.part(place_of(label, self.labels()))

    def part(self, place: int) -> R:
        """The release of the group at a place."""
        values = np.asarray(self.value, dtype=float).reshape(self.grouping.groups, -1)[place]
        kind = self.grouping.of.release_type() or Release
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        fields |= {"value": float(values[0]) if values.size == 1 else values, "statistic": self.grouping.of}
        if self.titled is not None:
            fields["titled"] = (*self.titled[:2], joined(self.labels()[place], ""))
        if (shared := self.grouping.of.shared(self.value)) is not None:
            fields["public"] = {**self.public, **shared}
        return cast(R, kind(**fields))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.labels())

    def items(self) -> list[tuple[Any, R]]:
        """Labels with their releases."""
        return [(label, self.part(place)) for place, label in enumerate(self.labels())]

    def _each(self, name: str) -> dict[Any, Any]:
        """One thing that every group's release says, by label."""
        return {label: getattr(part, name) for label, part in self.items()}

    @property
    def estimate(self) -> dict[Any, Any]:
        """The estimates that were asked for, by group."""
        return self._each("estimate")

    @property
    def mean(self) -> dict[Any, float]:
        """The mean of each group."""
        return self._each("mean")

    @property
    def count(self) -> dict[Any, float]:
        """The noisy number of rows of each group, where it was released with a mean."""
        return self._each("count")

    @property
    def variance(self) -> dict[Any, float]:
        """The variance of each group, where it was released."""
        return self._each("variance")

    @property
    def standard_deviation(self) -> dict[Any, float]:
        """The standard deviation of each group, where it was released."""
        return self._each("standard_deviation")

    def noise_interval(self, level: float | None = None) -> GroupedIntervals:
        """Intervals for what was asked for in the data of each group; privacy noise only.

        The level is 95 % unless it was fixed when the intervals were released.
        """
        given = {} if level is None else {"level": level}
        return intervals_by({label: part.noise_interval(**given) for label, part in self.items()})

    def population_interval(self, level: float = 0.95) -> GroupedIntervals:
        """Intervals for what was asked for in the population of each group: noise and sampling together."""
        return intervals_by({label: part.population_interval(level) for label, part in self.items()})

    def facts(self) -> Facts:
        """The facts to show: one line per number, for up to 40 groups."""
        hidden = len(self.labels()) - MOST_SHOWN
        told = told_numbers(self.told_readings(most=MOST_SHOWN), hidden=max(hidden, 0))
        return [*told, *self.protection_facts()]

    def heading(self) -> str:
        title = self.grouping.of.title
        return str(self.words.get("heading", f"{title[:1].upper()}{title[1:]} by {', '.join(self.grouping.by)}"))

    def readings(self, columns: Sequence[str] = (), *, most: int | None = None) -> list[Reading]:
        """The readings of each group, under its labels; of at most so many groups."""
        return [
            replace(
                part,
                label=joined(label, part.label),
                labels={**dict(zip(self.grouping.by, cell, strict=True)), **part.labels},
            )
            for cell, label, found in zip(self.grouping.labels(), self.labels(), self._read(most), strict=False)
            for part in found
        ]

    def _read(self, most: int | None) -> list[list[Reading]]:
        parts = [self.part(place) for place in range(len(self.labels()))[:most]]
        if self.sampled != 1.0:  # intervals then count the choice of rows, group by group
            return [part.readings() for part in parts]
        return type(parts[0]).readings_together(parts)


def place_of(label: Any, labels: Sequence[Any]) -> int:
    """The place of a group."""
    if label not in labels:
        raise InvalidParameter("label", label, "is not one of the groups", spelling(label, labels))
    return labels.index(label)


def intervals_by(found: Mapping[Any, Interval]) -> GroupedIntervals:
    """The intervals of all groups, by label."""
    low, high = (np.array([getattr(one, end) for one in found.values()]) for end in ("low", "high"))
    return GroupedIntervals(low, high, next(iter(found.values())).level, tuple(found))


def joined(label: Any, rest: str) -> str:
    """The label of a number of a group."""
    first = " · ".join(str(part) for part in label) if isinstance(label, tuple) else str(label)
    return f"{first} · {rest}" if rest else first
