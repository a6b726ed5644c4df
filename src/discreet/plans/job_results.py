"""Job results: what a plan would release, how far a run is, and what it left behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

from discreet.core.guarantee import Guarantee
from discreet.display import Facts, expected
from discreet.plans.plan import Plan
from discreet.plans.rehearsal import Rehearsal
from discreet.publish.charts import plot_readings
from discreet.publish.export import all_rows, read_facts
from discreet.publish.tidy import Row, Tidy

__all__ = ["JobPlan", "JobResult", "Progress"]


@dataclass(frozen=True)
class Progress:
    """Progress of a run: release ``done`` of ``total`` is ready; ``fresh`` if it was drawn now."""

    name: str
    done: int
    total: int
    fresh: bool


_LEGEND = """\
error 95 %: in 95 of 100 releases the noise changes the result by at most this,
for data as described; at worst: for any data, where that is more.
effect: the smallest difference a test at the 5 % level detects with 80 %
power. Comparisons, tests and regressions include sampling error; other
releases count noise only. No data was read."""


@dataclass(frozen=True)
class JobPlan(Tidy):
    """What a plan would release and cost.

    Attributes
    ----------
    releases
        Name and plan of every release.
    cost
        What those that are not yet released would spend together; None where nothing is left to release.
    remaining
        What the ledger has now.
    refusal
        Why a run would be refused; None where the budget is enough.
    warnings
        Other ledgers that count releases of the same data.
    rehearsals
        Name and rehearsal of every release that can be rehearsed, where the plan has a scenario.
    transforms
        Which rows take part, and how columns are computed, in words.
    in_all
        What all periods of the plan cost somebody who is in the data in each of them; None where it has one.
    """

    title: str
    releases: tuple[tuple[str, Plan], ...]
    cost: Guarantee | None
    remaining: Guarantee
    refusal: str | None
    warnings: tuple[str, ...] = ()
    rehearsals: tuple[tuple[str, Rehearsal], ...] = ()
    transforms: tuple[str, ...] = ()
    in_all: Guarantee | None = None

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON-ready data."""
        return {
            "title": self.title,
            "releases": [{"name": name, **planned.to_dict()} for name, planned in self.releases],
            "cost": None if self.cost is None else self.cost.to_dict(),
            "remaining": self.remaining.to_dict(),
            "refusal": self.refusal,
            "warnings": list(self.warnings),
            "rehearsals": [{"name": name, **one.to_dict()} for name, one in self.rehearsals],
            "transforms": list(self.transforms),
            "in_all": None if self.in_all is None else self.in_all.to_dict(),
        }

    def rows(self) -> list[Row]:
        """One row per release."""
        return [{"release": name, **row} for name, planned in self.releases for row in planned.rows()]

    def plot(self) -> Any:
        """Altair chart of how far the noise would move each result."""
        return plot_readings(self.title, [one for name, plan in self.releases for one in plan.error_readings(name)])

    def heading(self) -> str:
        return self.title

    def cost_words(self) -> str:
        """What a run costs, and what all periods cost together."""
        now = str(self.cost or "nothing: all of it is released")
        return now if self.in_all is None else f"{now} now; {self.in_all} in all periods together"

    def facts(self) -> Facts:
        shown = [(name, _expected(planned)) for name, planned in self.releases]
        refused = [] if self.refusal is None else [("refused", self.refusal)]
        warned = [("warning", warning) for warning in self.warnings]
        return [*shown, ("cost", self.cost_words()), ("ledger", f"{self.remaining} left"), *refused, *warned]

    def _rehearsed(self) -> list[str]:
        """Lines about the rehearsals: what happened on rows from the scenario."""
        if not self.rehearsals:
            return []
        lines = ["", f"{'rehearsed':<18} {'of':<20} {'error 95 %':>10} {'width':>9} {'population':>10} {'power':>7}"]
        for name, one in self.rehearsals:
            for measured in one.measures:
                widths = (measured.error, measured.noise_width, measured.population_width)
                error, noise, both = ("–" if number is None else f"{number:.4g}" for number in widths)
                power = "–" if one.power is None else f"{100 * one.power:.0f} %"
                lines.append(
                    f"{_cut(name, 18)} {_cut(measured.measure, 20)} {error:>10} {noise:>9} {both:>10} {power:>7}"
                )
        repeats = self.rehearsals[0][1].repeats
        return [*lines, f"Rehearsed {repeats} times on rows from the scenario. Widths are those of 95 % intervals."]

    def _notes(self) -> dict[str, list[str]]:
        """Each scenario and note, with the names of the releases that it is about."""
        found: dict[str, list[str]] = {}
        for name, planned in self.releases:
            for note in ((f"for {planned.scenario}",) if planned.scenario else ()) + planned.notes:
                found.setdefault(note, []).append(name)
        return found

    def __str__(self) -> str:
        texts = [("release", "mechanism", "of"), *((name, one.mechanism, one.read) for name, one in self.releases)]
        numbers = [("error 95 %", "at worst", "effect"), *(_errors(one) for _, one in self.releases)]
        widths = _widths(texts, 80 - len(f"{'':>10} {'':>8} {'':>7}   "))
        lines = [self.title, ""]
        for words, (error, worst, effect) in zip(texts, numbers, strict=True):
            name, mechanism, read = (_cut(text, width) for text, width in zip(words, widths, strict=True))
            lines.append(f"{name} {mechanism} {error:>10} {worst:>8} {read} {effect:>7}")
        lines += [line for note, names in self._notes().items() for line in wrap(f"{', '.join(names)}: {note}", 80)]
        lines += ["", *(line for said in self.transforms for line in wrap(said, 80))] if self.transforms else []
        lines += self._rehearsed()
        lines += ["", *wrap(f"cost: {self.cost_words()}", 80), f"ledger: {self.remaining} left"]
        if self.refusal is not None:
            lines += wrap(f"A run would be refused: {self.refusal}", 80)
        lines += [line for warning in self.warnings for line in wrap(f"Warning: {warning}", 80)]
        return "\n".join([*lines, "", _LEGEND])


def _expected(planned: Plan) -> str:
    error = "" if planned.expected_error is None else f": {planned.read} within {planned.expected_error:.4g}"
    return f"{planned.statistic} by {planned.mechanism}{error}"


@dataclass(frozen=True)
class JobResult(Tidy):
    """What a run left behind.

    Attributes
    ----------
    results, page, markdown
        The files: releases as JSON, the report as HTML and markdown.
    methods
        How the numbers were protected, as markdown to be pasted into a publication; a page of it is beside it.
    table, workbook
        The same numbers as CSV, one row per number, and as a workbook, one sheet per release.
    drawn, reused
        Number of releases drawn now, and of those taken from the ledger.
    spent, remaining, head
        State of the ledger. A copy of the head, kept elsewhere, shows later that the ledger was not rolled back.
    kept
        Where earlier results of other releases were moved, if there were any in the directory.
    warnings
        Other ledgers that count releases of the same data.
    """

    results: Path
    page: Path | None
    markdown: Path
    methods: Path
    table: Path
    workbook: Path | None
    drawn: int
    reused: int
    spent: Guarantee
    remaining: Guarantee
    head: str
    kept: Path | None = None
    warnings: tuple[str, ...] = ()

    def rows(self) -> list[Row]:
        """One row per number of every release, as in the CSV file."""
        return all_rows(read_facts(self.results))

    def plot(self) -> Any:
        """Altair charts of all releases, one below the other."""
        facts = read_facts(self.results)
        readings = [
            {**one, "measure": f"{release['title']}: {one['measure']}"}
            for release in facts["releases"]
            for one in release["readings"]
        ]
        return plot_readings(facts["title"], readings)

    def heading(self) -> str:
        return f"{self.drawn} released now, {self.reused} taken from the ledger"

    def facts(self) -> Facts:
        spent = ("spent", f"{self.spent} in all; {self.remaining} left")
        page = [("report", str(self.page))] if self.page else []
        kept = [("earlier results", str(self.kept))] if self.kept else []
        book = [("workbook", str(self.workbook))] if self.workbook else []
        told = [
            *page,
            ("text", str(self.markdown)),
            ("methods", str(self.methods)),
            ("table", str(self.table)),
            *book,
            *kept,
        ]
        return [spent, ("results", str(self.results)), *told, *(("warning", one) for one in self.warnings)]

    def to_dict(self) -> dict[str, Any]:
        """The files and the state of the ledger as JSON-ready data."""
        return {
            "results": str(self.results),
            "page": None if self.page is None else str(self.page),
            "markdown": str(self.markdown),
            "methods": str(self.methods),
            "table": str(self.table),
            "workbook": None if self.workbook is None else str(self.workbook),
            "drawn": self.drawn,
            "reused": self.reused,
            "spent": self.spent.to_dict(),
            "remaining": self.remaining.to_dict(),
            "head": self.head,
            "kept": None if self.kept is None else str(self.kept),
            "warnings": list(self.warnings),
        }


def _errors(planned: Plan) -> tuple[str, ...]:
    """Expected error, that at worst and the smallest effect, as a table shows them."""
    found = (planned.expected_error, planned.worst_error, planned.smallest_effect)
    return tuple("–" if number is None else expected(number) for number in found)


def _widths(lines: Sequence[Sequence[str]], room: int) -> list[int]:
    """Widths of a table's columns of text: as long as they need, the longest ones cut where there is no room."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    while sum(widths) > room:
        widths[widths.index(max(widths))] -= 1
    return widths


def _cut(text: str, width: int) -> str:
    """A table's cell: text of that width, an ellipsis where it is longer."""
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"
