"""Grouped: one statistic for every combination of public labels, released at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.statistic import Statistic, statistic_from_dict
from discreet.questions.table_axes import in_order
from discreet.releases import Release

__all__ = ["Grouped"]


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
        from discreet.inference.grouped_release import GroupedRelease

        return GroupedRelease

    def parameters(self) -> dict[str, Any]:
        return {"of": self.of.to_dict(), "by": [[name, list(labels)] for name, labels in self.by.items()]}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grouped) and self.parameters() == other.parameters()

    def __hash__(self) -> int:
        return hash((self.of, *self.by.items()))
