"""Grouped: one statistic for every combination of public labels, released at once, and what is read from it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np

from discreet.core import requirements
from discreet.core.display import Facts, number
from discreet.core.errors import InvalidParameter, NoPopulationInterval
from discreet.core.interval import Interval
from discreet.core.statistic import Statistic, statistic_from_dict
from discreet.publish.readings import Reading
from discreet.questions.answer import Answer
from discreet.questions.table_axes import in_order
from discreet.releases import Release

__all__ = ["Grouped", "GroupedRelease"]

R = TypeVar("R", bound=Answer, covariant=True)


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
        labels = self.labels()
        if label not in labels:
            raise InvalidParameter("label", label, f"must be one of {list(labels)}", "Check the spelling.")
        values = np.asarray(self.value, dtype=float).reshape(len(labels), -1)[labels.index(label)]
        kind = self.grouping.of.release_type() or Answer
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        fields |= {"value": float(values[0]) if values.size == 1 else values, "statistic": self.grouping.of}
        return cast(R, kind(**fields))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.labels())

    def items(self) -> list[tuple[Any, R]]:
        """Labels with their releases."""
        return [(label, self[label]) for label in self.labels()]

    def population_interval(self, level: float = 0.95) -> Interval:
        """Refused: every group has its own."""
        label = self.labels()[0]
        raise NoPopulationInterval(
            "release", self.heading(), "has one interval per group", f"Use release[{label!r}].population_interval()."
        )

    def facts(self) -> Facts:
        """What to show: one line per group."""
        lines = []
        for label, part in self.items():
            shown = getattr(part, "mean", getattr(part, "estimate", part.value))
            interval = part.confidence_interval()
            lines.append((str(label), f"{number(shown)} ({number(interval.low)} to {number(interval.high)})"))
        common = [fact for fact in super().facts() if fact[0] not in ("value", "95 % interval")]
        return [*lines, ("intervals", "95 %, for the noise"), *common]

    def heading(self) -> str:
        return f"Release of {self.grouping.of.title} by {', '.join(self.grouping.by)}"

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The readings of each group, under its labels."""
        return [
            Reading(_joined(label, part.label), part.estimate, part.noise, part.population)
            for label, one in self.items()
            for part in one.readings()
        ]

    def spread_words(self) -> str | None:
        found = [(label, part.spread_words()) for label, part in self.items()]
        return "; ".join(f"{label} {spread}" for label, spread in found if spread is not None) or None


def _joined(label: Any, rest: str) -> str:
    first = " · ".join(str(part) for part in label) if isinstance(label, tuple) else str(label)
    return f"{first} · {rest}" if rest else first
