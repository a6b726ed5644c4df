"""Answers: what a question is answered with. Numbers that people read, chart and report."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from discreet.core.errors import NoPopulationInterval
from discreet.core.guarantee import Guarantee
from discreet.core.protection import Protection
from discreet.results.charts import plot_readings
from discreet.results.display import Facts, Interval
from discreet.results.frames import Reading, Row, Tidy, tidy_rows
from discreet.results.printed import (
    ReadingFacts,
    latex_table,
    listed,
    markdown_table,
    named_quantiles,
    named_reading,
    told_numbers,
)
from discreet.results.wording import guarantee_words


class Readable(Tidy):
    """The part of an answer that a report, a frame and a chart need, whatever kind of result it is."""

    @abstractmethod
    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """All numbers of the answer, in order; ``columns`` name the coordinates of centres and covariances."""

    @abstractmethod
    def published(self) -> dict[str, Any]:
        """The protection of the answer and its place in the ledger, as JSON-ready data for a report."""

    def population_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population that the data is a sample of; most answers have one.

        Raises
        ------
        NoPopulationInterval
            Where the answer does not hold enough for one; the message says what to ask instead.
        """
        raise NoPopulationInterval(
            "answer",
            self.heading(),
            "describes the rows that were counted, not the population they come from",
            "Ask for a mean, a proportion, a variance or a table.",
        )

    @property
    def words(self) -> Mapping[str, Any]:
        """What was asked, in words for readers: see `Question.told_words`. Empty where no session asked."""
        return cast(Mapping[str, Any], getattr(self, "asked", {}))

    def told_readings(self, **which: Any) -> list[ReadingFacts]:
        """The numbers as plain data, with columns called as readers know them."""
        names, columns = self.words.get("names", {}), self.words.get("columns", ())
        return [*named_quantiles([named_reading(one.to_dict(), names) for one in self.readings(columns, **which)])]

    def margin_readings(self) -> list[Reading]:
        """Sums of the numbers over some of their columns, where a report should show them beside the numbers."""
        return []

    def verdict(self) -> Mapping[str, Any] | None:
        """The test that was made, with its name and p-value; None where there is none."""
        return None

    def rows(self) -> list[Row]:
        published = self.published()
        guarantee = published["guarantee"]
        return tidy_rows(
            [reading.to_dict() for reading in self.readings()],
            unit=published["unit"],
            guarantee=None if guarantee is None else guarantee["symbols"],
            test=self.verdict(),
        )

    def to_markdown(self) -> str:
        """The numbers with their 95 % intervals as a markdown table, with the digits that the noise leaves."""
        return "\n".join(markdown_table(listed(self._told())))

    def to_latex(self) -> str:
        """The same table for LaTeX, with the package booktabs."""
        return latex_table(listed(self._told()), f"{self.heading()}, with 95 % intervals")

    def _told(self) -> list[ReadingFacts]:
        """The readings as plain data, with what they measure among the labels where that differs."""
        told = self.told_readings()
        several = len({one["measure"] for one in told}) > 1
        return [{**one, "labels": {"measure": one["measure"], **one["labels"]}} for one in told] if several else told

    def plot(self) -> Any:
        """Altair chart of every number with its 95 % intervals: thick for noise, thin for noise and sampling."""
        return plot_readings(self.heading(), self.told_readings(), self.words)


@dataclass(frozen=True)
class FromRelease(Readable):
    """An answer that is read from one release, and is stored as that release."""

    release: Any

    @property
    def words(self) -> Mapping[str, Any]:
        return cast(Mapping[str, Any], self.release.words)

    def published(self) -> dict[str, Any]:
        found: dict[str, Any] = self.release.published()
        return found

    def to_dict(self) -> dict[str, Any]:
        """The release that everything follows from, as JSON-ready data."""
        found: dict[str, Any] = self.release.to_dict()
        return found

    @property
    @abstractmethod
    def _title(self) -> str:
        """What the answer is called where nobody gave it a heading."""

    def heading(self) -> str:
        return str(self.words.get("heading", self._title))

    def facts(self) -> Facts:
        return [*told_numbers(self.told_readings()), *self.release.protection_facts()]


class Protected(Protocol):
    """An answer that knows how it was protected and where the ledger has it."""

    @property
    def protection(self) -> Protection: ...
    @property
    def guarantee(self) -> Guarantee | None: ...
    @property
    def release_id(self) -> str: ...
    @property
    def created(self) -> str: ...


def protection_published(answer: Protected, mechanism: Mapping[str, Any], sensitivity: str | None) -> dict[str, Any]:
    """The protection of an answer as a report states it, as JSON-ready data."""
    unit = str(answer.protection.unit)
    return {
        "unit": unit,
        "guarantee": guarantee_words(answer.guarantee, unit),
        "protects": str(answer.protection),
        "mechanism": dict(mechanism),
        "sensitivity": sensitivity,
        "release_id": answer.release_id,
        "created": answer.created,
    }


def name_of(columns: Sequence[str], position: int) -> str:
    """The name of a coordinate."""
    return columns[position] if position < len(columns) else str(position + 1)


def pair_labels(columns: Sequence[str], j: int, k: int) -> dict[str, str]:
    """The labels of an entry of a covariance matrix."""
    return {"column": name_of(columns, j), "with": name_of(columns, k)}


def pair_name(columns: Sequence[str], j: int, k: int) -> str:
    """The name of an entry of a covariance matrix."""
    return name_of(columns, j) if j == k else f"{name_of(columns, j)} · {name_of(columns, k)}"
