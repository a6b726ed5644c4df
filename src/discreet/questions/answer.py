"""Answer: what a question is answered with. Numbers that people read, chart and report."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.core.interval import Interval
from discreet.core.result import Result
from discreet.publish.charts import interval_chart
from discreet.publish.prose import guarantee_words
from discreet.publish.readings import Reading
from discreet.releases import Release

__all__ = ["Answer", "Readable", "name_of", "pair_name"]


class Readable(Result):
    """What a report, a chart and a notebook need of an answer, whatever kind of result it is."""

    @abstractmethod
    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """All numbers of the answer, in order; ``columns`` name the coordinates of centres and covariances."""

    @abstractmethod
    def published(self) -> dict[str, Any]:
        """How the answer is protected and where the ledger has it, as JSON-ready data for a report."""

    def spread_words(self) -> str | None:
        """Standard deviations in words, where they were released with the mean."""
        return None

    def verdict(self) -> Mapping[str, Any] | None:
        """The test that was made, with its name and p-value; None where there is none."""
        return None

    def chart(self) -> Any:
        """Altair chart of every number with its 95 % intervals: thick for noise, thin for noise and sampling."""
        return interval_chart(self.heading(), [reading.to_dict() for reading in self.readings()])


@dataclass(frozen=True)
class Answer(Release, Readable):
    """A release of one statistic, and what can be read from it."""

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """One reading per number of the value, with its noise interval."""
        values = np.ravel(np.asarray(self.value, dtype=float))
        interval = self.confidence_interval()
        low, high = (np.ravel(np.broadcast_to(np.asarray(end, dtype=float), values.shape)) for end in interval)
        labels = [""] if values.size == 1 else [str(position + 1) for position in range(values.size)]
        return [
            Reading(label, float(value), Interval(float(a), float(b), interval.level))
            for label, value, a, b in zip(labels, values, low, high, strict=True)
        ]

    def published(self) -> dict[str, Any]:
        return {
            "guarantee": guarantee_words(self.guarantee, str(self.protection.unit)),
            "protects": str(self.protection),
            "mechanism": self.mechanism.to_dict(),
            "sensitivity": str(self.sensitivity),
            "release_id": self.release_id,
            "created": self.created,
        }


def name_of(columns: Sequence[str], position: int) -> str:
    """What a coordinate is called."""
    return columns[position] if position < len(columns) else str(position + 1)


def pair_name(columns: Sequence[str], j: int, k: int) -> str:
    """What an entry of a covariance matrix is called."""
    return name_of(columns, j) if j == k else f"{name_of(columns, j)} · {name_of(columns, k)}"
