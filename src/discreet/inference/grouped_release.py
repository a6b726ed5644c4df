"""Releases of groups: a mapping from labels to the release of that group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from discreet.core.display import Facts, number
from discreet.core.errors import InvalidParameter, NoPopulationInterval
from discreet.core.interval import Interval
from discreet.questions.grouped import Grouped
from discreet.releases import Release

__all__ = ["GroupedRelease"]


@dataclass(frozen=True)
class GroupedRelease(Release):
    """All groups of one release; ``release["A"]`` is the release of one of them."""

    @property
    def grouping(self) -> Grouped:
        """The public description of the groups."""
        return cast(Grouped, self.statistic)

    def labels(self) -> tuple[Any, ...]:
        """Labels of the groups: single ones for one column, tuples for several."""
        labels = self.grouping.labels()
        return tuple(one[0] for one in labels) if len(self.grouping.by) == 1 else labels

    def __getitem__(self, label: Any) -> Release:
        labels = self.labels()
        if label not in labels:
            raise InvalidParameter("label", label, f"must be one of {list(labels)}", "Check the spelling.")
        values = np.asarray(self.value, dtype=float).reshape(len(labels), -1)[labels.index(label)]
        kind = self.grouping.of.release_type() or Release
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        fields |= {"value": float(values[0]) if values.size == 1 else values, "statistic": self.grouping.of}
        return kind(**fields)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.labels())

    def items(self) -> list[tuple[Any, Release]]:
        """Labels with their releases."""
        return [(label, self[label]) for label in self.labels()]

    def population_interval(self, level: float = 0.95) -> Interval:
        """Refused: every group has its own."""
        label = self.labels()[0]
        raise NoPopulationInterval(
            "release", self.heading(), "has one interval per group", f"Use release[{label!r}].population_interval()."
        )

    def facts(self) -> Facts:
        """What to show: one line a group."""
        lines = []
        for label, part in self.items():
            shown = getattr(part, "mean", getattr(part, "estimate", part.value))
            interval = part.confidence_interval()
            lines.append((str(label), f"{number(shown)} ({number(interval.low)} to {number(interval.high)})"))
        common = [fact for fact in super().facts() if fact[0] not in ("value", "95 % interval")]
        return [*lines, ("intervals", "95 %, for the noise"), *common]

    def heading(self) -> str:
        return f"Release of {self.grouping.of.title} by {', '.join(self.grouping.by)}"
