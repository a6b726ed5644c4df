"""Grouped: one statistic for every combination of public labels, released at once, and what is read from it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np

from discreet.answers import Answer
from discreet.contract.statistic import Statistic, statistic_from_dict
from discreet.core import requirements
from discreet.core.errors import InvalidParameter, spelling
from discreet.display import Facts
from discreet.interval import Interval
from discreet.publish.readings import Reading
from discreet.publish.wording import BOTH_INTERVALS, reading_line
from discreet.questions.table_axes import in_order
from discreet.releases import Release

__all__ = ["Grouped", "GroupedIntervals", "GroupedRelease"]

R = TypeVar("R", bound=Answer, covariant=True)
_SHOWN = 40


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
    def groups(self) -> int:
        """Number of groups."""
        return math.prod(len(labels) for labels in self.by.values())

    def labels(self) -> tuple[tuple[Any, ...], ...]:
        """Labels of the groups, in the order of the value."""
        return tuple(product(*self.by.values()))

    @classmethod
    def release_type(cls) -> type[Release]:
        return GroupedRelease

    def parameters(self) -> dict[str, Any]:
        return {"of": self.of.to_dict(), "by": [[name, list(labels)] for name, labels in self.by.items()]}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grouped) and self.parameters() == other.parameters()

    def __hash__(self) -> int:
        return hash((self.of, *self.by.items()))


@dataclass(frozen=True)
class GroupedIntervals(Interval):
    """Intervals of all groups, in the order of their labels; ``intervals["A"]`` is the interval of one of them."""

    labels: tuple[Any, ...] = ()

    def __getitem__(self, label: Any) -> Interval:
        place = _place(label, self.labels)
        return Interval(np.asarray(self.low)[place], np.asarray(self.high)[place], self.level)


@dataclass(frozen=True)
class GroupedRelease(Answer, Generic[R]):
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
        return self._part(_place(label, self.labels()))

    def _part(self, place: int) -> R:
        values = np.asarray(self.value, dtype=float).reshape(self.grouping.groups, -1)[place]
        kind = self.grouping.of.release_type() or Answer
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        fields |= {"value": float(values[0]) if values.size == 1 else values, "statistic": self.grouping.of}
        return cast(R, kind(**fields))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.labels())

    def items(self) -> list[tuple[Any, R]]:
        """Labels with their releases."""
        return [(label, self._part(place)) for place, label in enumerate(self.labels())]

    def _each(self, name: str) -> dict[Any, Any]:
        """One thing that every group's release says, by label."""
        return {label: getattr(part, name) for label, part in self.items()}

    @property
    def estimate(self) -> dict[Any, Any]:
        """What was asked for, by group."""
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

    def confidence_interval(self, level: float | None = None) -> GroupedIntervals:
        """Intervals for what was asked for in the data of each group; privacy noise only.

        The level is 95 % unless it was fixed when the intervals were released.
        """
        given = {} if level is None else {"level": level}
        return _intervals({label: part.confidence_interval(**given) for label, part in self.items()})

    def population_interval(self, level: float = 0.95) -> GroupedIntervals:
        """Intervals for what was asked for in the population of each group: noise and sampling together."""
        return _intervals({label: part.population_interval(level) for label, part in self.items()})

    def facts(self) -> Facts:
        """What to show: one line per number, for up to 40 groups."""
        lines: list[tuple[str, str]] = []
        for label in self.labels()[:_SHOWN]:
            found = self[label].readings()
            for one in found:
                name = _joined(label, one.label)
                lines.append(
                    (name if one.measure == found[0].measure else f"{name}, {one.measure}", reading_line(one.to_dict()))
                )
        hidden = len(self.labels()) - _SHOWN
        more = [("…", f"{hidden} more groups")] if hidden > 0 else []
        return [*lines, *more, ("intervals", BOTH_INTERVALS), *self.protection_facts()]

    def heading(self) -> str:
        return f"Release of {self.grouping.of.title} by {', '.join(self.grouping.by)}"

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The readings of each group, under its labels."""
        return [
            replace(
                part,
                label=_joined(label, part.label),
                labels={**dict(zip(self.grouping.by, cell, strict=True)), **part.labels},
            )
            for cell, label, found in zip(self.grouping.labels(), self.labels(), self._read(), strict=True)
            for part in found
        ]

    def _read(self) -> list[list[Reading]]:
        parts = [part for _, part in self.items()]
        if self.sampled != 1.0:  # intervals then count the choice of rows, group by group
            return [part.readings() for part in parts]
        return type(parts[0]).readings_together(parts)


def _place(label: Any, labels: Sequence[Any]) -> int:
    if label not in labels:
        raise InvalidParameter("label", label, "is not one of the groups", spelling(label, labels))
    return labels.index(label)


def _intervals(found: Mapping[Any, Interval]) -> GroupedIntervals:
    low, high = (np.array([getattr(one, end) for one in found.values()]) for end in ("low", "high"))
    return GroupedIntervals(low, high, next(iter(found.values())).level, tuple(found))


def _joined(label: Any, rest: str) -> str:
    first = " · ".join(str(part) for part in label) if isinstance(label, tuple) else str(label)
    return f"{first} · {rest}" if rest else first
