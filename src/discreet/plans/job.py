"""Job: a plan file, planned without data or run against its source and ledger."""

from __future__ import annotations

import errno
import glob
import hashlib
import hmac
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np

from discreet.core import errors
from discreet.core.files import open_regular, read_regular, reason
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, ZeroConcentratedDP
from discreet.core.ledger.balance import digest_of
from discreet.core.schema import Schema
from discreet.mechanisms.composition import compose
from discreet.plans.plan_file import PlanFile, PlannedQuestion, begun, differences, meaning, refuse_unusable
from discreet.plans.planner import Planner, Rehearsal, Rehearsing, Scenario
from discreet.publish.export import RESULTS_FORMAT, all_rows, export, read_facts
from discreet.publish.files import bundled_plan, check_not_rolled_back, write_anchor, write_whole
from discreet.publish.ledger_statement import planned_release
from discreet.publish.report import (
    ReportedRelease,
    as_markdown,
    as_page,
    methods_markdown,
    methods_page,
    report_facts,
)
from discreet.questions.profile.released_first import check_approvable, released_first
from discreet.results.charts import plot_readings
from discreet.results.display import Facts, expected
from discreet.results.frames import Row, Tidy
from discreet.results.ledger import Ledger
from discreet.results.plan import Plan
from discreet.session import Session

# ---- Job results: what a plan would release, how far a run is, and what it left behind.


@dataclass(frozen=True)
class RunProgress:
    """Progress of a run: release ``done`` of ``total`` is ready; ``fresh`` if it was drawn now."""

    name: str
    done: int
    total: int
    fresh: bool


_LEGEND = """\
error 95 %: in 95 of 100 releases the noise changes the result by at most this,
for data as described. worst case: for any data, where that is more.
detectable: the smallest difference a test at the 5 % level detects with 80 %
power. Comparisons, tests and regressions include sampling error; other
releases count noise only. No data was read."""


@dataclass(frozen=True)
class JobPlan(Tidy):
    """The releases of a plan, with their costs and errors, before a run.

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
        """The cost of a run, and of all periods together, in words."""
        now = str(self.cost or "nothing, as all of it is released already")
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
        texts = [("release", "applies to"), *((name, planned.told_read) for name, planned in self.releases)]
        first, second = _widths(texts, 80 - 2 - 3 * 12)
        heads: tuple[str, ...] = ("error 95 %", "worst case", "detectable")
        shown = [(_columns(texts[0], first, second), heads)]
        for name, planned in self.releases:
            errors = _errors(planned.error_95, planned.worst_error, planned.smallest_effect)
            shown.append((_columns((name, planned.told_read), first, second), errors))
            for part, error, effect in planned.told_parts:
                shown.append((_cut(f"  {part}", first + 2 + second), _errors(error, None, effect)))
        lines = [self.title, "", *("  ".join([said, *(f"{one:>10}" for one in errors)]) for said, errors in shown), ""]
        lines += [line for note, names in self._notes().items() for line in wrap(f"{', '.join(names)}: {note}", 80)]
        lines += ["", *(line for said in self.transforms for line in wrap(said, 80))] if self.transforms else []
        lines += self._rehearsed()
        lines += ["", *wrap(f"cost: {self.cost_words()}", 80), f"ledger: {self.remaining} left"]
        if self.refusal is not None:
            lines += wrap(f"A run would be refused: {self.refusal}", 80)
        lines += [line for warning in self.warnings for line in wrap(f"Warning: {warning}", 80)]
        return "\n".join([*lines, "", _LEGEND])


def _expected(planned: Plan) -> str:
    error = "" if planned.error_95 is None else f": {planned.told_read} within {planned.error_95:.4g}"
    return f"{planned.statistic.replace('_', ' ')} by {planned.mechanism.replace('_', ' ')}{error}"


@dataclass(frozen=True)
class JobResult(Tidy):
    """The files and answers of a run.

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


def _errors(*found: float | None) -> tuple[str, ...]:
    """Expected error, that of the worst case and the smallest effect, as a table shows them."""
    return tuple("–" if number is None else expected(number) for number in found)


def _widths(lines: Sequence[Sequence[str]], room: int) -> list[int]:
    """Widths of a table's columns of text: as long as they need, the longest ones cut where there is no room."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    while sum(widths) > room:
        widths[widths.index(max(widths))] -= 1
    return widths


def _columns(texts: Sequence[str], *widths: int) -> str:
    return "  ".join(_cut(text, width) for text, width in zip(texts, widths, strict=True))


def _cut(text: str, width: int) -> str:
    """A table's cell: text of that width, an ellipsis where it is longer."""
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"


# ---- Attacked: the record that `discreet attack` leaves beside a plan, and what a report says of it.


def plan_digest(text: str) -> str:
    """The hash that changes where a plan is edited."""
    return hashlib.sha256(text.encode()).hexdigest()


def _beside(plan: Path) -> Path:
    return plan.with_suffix(".attack.json")


def record_attack(plan: Path, found: dict[str, Any]) -> Path:
    """Write down what an attack on a plan found, beside the plan; an earlier record is replaced."""
    return write_whole(_beside(plan), json.dumps(found, indent=1, ensure_ascii=False) + "\n")


_MOST_MADE_UP = 200_000


def previewed(file: PlanFile, *, seed: int = 1) -> dict[str, Any]:
    """The facts of a report on rows like the plan's scenario, or spread evenly. Reads no data and spends nothing.

    Examples
    --------
    >>> text = '''
    ... [source]
    ... path = "nowhere.csv"
    ... [budget]
    ... epsilon = 1.0
    ... [schema.columns.age]
    ... low = 0
    ... high = 100
    ... [[release]]
    ... ask = "mean"
    ... column = "age"
    ... [scenario]
    ... rows = 5000
    ... columns = { age = { mean = 41, sd = 9 } }
    ... '''
    >>> [told] = previewed(PlanFile.parse(text, Path("plan.toml")))["releases"]
    >>> 39 < told["readings"][0]["estimate"] < 43
    True
    """
    asked = [one.question for one in file.questions]
    expected = [rows for rows in (getattr(one, "expected_rows", None) for one in asked) if rows]
    scenario = file.scenario or Scenario(rows=max(expected, default=1000))
    rows = file.schema.size or min(scenario.rows, _MOST_MADE_UP)  # a public size is that of the data
    made_up = replace(scenario, rows=rows).table(file.schema.of_rows, np.random.default_rng(seed))
    session = Session(made_up, file.schema, ledger=":memory:", budget=file.budget)
    entries = [
        ReportedRelease(name=one.name, title=one.title, question=one.question, answer=session.ask(one.question))
        for one in file.questions
    ]
    return report_facts(
        title=file.title, plan=file.text, schema=file.schema, ledger=session.ledger, entries=entries,
        variables=file.variables, sources=file.sources,
    ) | {"made_up": rows}  # fmt: skip


def attack_words(file: PlanFile) -> str | None:
    """The line of a report about the last attack on exactly this plan; None where there was none."""
    try:
        found = json.loads(read_regular(_beside(file.path), _LARGEST))
        if found["plan"] != plan_digest(file.text):
            return None
        verdict = "no release exceeded its guarantee" if found["passed"] else "a release EXCEEDED its guarantee"
        return f"This plan was attacked on {found['created'][:10]} on {found['tables']} synthetic data sets: {verdict}."
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


# ---- Job: a plan file, planned without data or run against its source and ledger.


# ---- Job cost: what the releases of a plan cost together, now and in all periods, and why they cannot be paid for


def charges_now(ledger: Ledger, waiting: Sequence[PlannedQuestion]) -> list[Guarantee]:
    """The guarantee that each of the releases would add to the ledger's total."""
    return [one.question.charge_now(ledger) for one in waiting]


def cost_of(charges: Sequence[Guarantee]) -> Guarantee | None:
    """The cost of releases together, rounded up to be shown; None where there are none."""
    return _together(charges) if charges else None


def _together(guarantees: Sequence[Guarantee]) -> Guarantee:
    """The guarantee of all of them, or a refusal where no budget counts them together."""
    failing = [one for one in guarantees if isinstance(one, ApproxDP) and one.delta > 0]
    normal = [one for one in guarantees if isinstance(one, GaussianDP | ZeroConcentratedDP)]
    if failing and normal:
        raise errors.NoConversion(
            f"no ledger can be charged both {failing[0]} and {normal[0]}. Give all releases the same kind (epsilon and "
            "delta, rho, or mu), or write two plans with a ledger each, whose guarantees add up. Nothing was spent."
        )
    return compose(*guarantees)


def cost_in_all(file: PlanFile) -> Guarantee | None:
    """The cost of all periods that a plan covers; None where that is one run. A sequence is paid for once."""
    asked = [one.question for one in file.questions]
    if file.times == 1 and not any(question.continues for question in asked):
        return None
    runs = [1 if question.continues else file.times for question in asked]
    return _together([one.guarantee for one, times in zip(asked, runs, strict=True) for _ in range(times)])


def _shared(waiting: Sequence[PlannedQuestion]) -> bool:
    """True where a release has a share of the budget, and no guarantee of its own."""
    return any({"epsilon", "rho", "mu"}.isdisjoint(one.lines) for one in waiting if not one.look)


def refusal_of(
    ledger: Ledger, changed: int, charges: Sequence[Guarantee], shared: bool = True
) -> errors.DiscreetError | None:
    """Why releases of those charges, of which some were ``changed`` since they were made, cannot be paid for.

    ``shared`` says whether any of them has a share of the budget, and no guarantee of its own.
    """
    left, cost = ledger.remaining(), cost_of(charges)
    try:
        if cost is None or ledger.affords(charges):
            return None
    except errors.NoConversion:
        return errors.NoConversion(
            f"the ledger counts in {type(left).__name__} and cannot be charged {cost}. Give budget and releases the "
            "same kind: epsilon, epsilon and delta, rho, or mu. Nothing was spent."
        )
    fix = ledger.clock_warning()
    if changed:
        fix = (
            f"{changed} of them {'was' if changed == 1 else 'were'} released before with another question or share of "
            "the budget and would be released again: shares divide the whole budget. Put new questions into a second "
            "plan, or give each release its epsilon."
        )
    elif left != ledger.budget and not fix:
        shares = ", and shares divide the whole budget. Give each release its own epsilon, of what is left"
        fix = (
            f"A part of the budget is spent{shares if shared else '. Ask for less'}; a larger budget is for the owner "
            "of the data to decide."
        )
    return errors.InsufficientBudget(cost, left, what="the releases cost", fix=fix)


# ---- Other ledgers: those beside the data, the plan or its ledger that count the same source


def _matching(folder: Path, pattern: str) -> list[Path]:
    """The files of a folder with such names; none where its own name is longer than names can be."""
    try:
        return sorted(folder.glob(pattern))
    except OSError as failure:
        if failure.errno != errno.ENAMETOOLONG:
            raise
        return []


def other_ledgers(file: PlanFile) -> tuple[str, ...]:
    """A warning for each ledger nearby that counts releases of the plan's source and is not the plan's own."""
    places = {
        Path(one).parent for one in (file.ledger, file.open_options()["source"], file.path) if "://" not in str(one)
    }
    around = [other for place in places for other in _matching(place, "*.ledger")]
    others = sorted(other for other in around if not _same(other, file.ledger))
    return tuple(
        f"{other} already counts releases of this data. Two ledgers for the same people add up: what one of them "
        "guarantees does not include the other."
        for other in others
        if _counts(other, file.identities())
    )


def _same(path: Path, address: str) -> bool:
    return os.path.exists(address) and path.samefile(address)


def _counts(path: Path, identities: Sequence[str]) -> bool:
    try:
        with Ledger(path, read_only=True) as ledger:
            return any(ledger.counts(identity) for identity in identities)
    except errors.LedgerError:  # another kind of file, or a damaged one: it is not this plan's to judge
        return False


# ---- Source state: whether a file changed since a release was made of it, which a run does not say
#
# The record lies beside the ledger, on the machine that has the data anyway, and is in no report and no bundle. It
# holds
# a keyed hash of the file's size, time and ends; never a value.


_END = 1_000_000


class SourceState:
    """The state of a plan's source when its releases were made.

    Parameters
    ----------
    file, ledger
        The plan and its open ledger.
    """

    def __init__(self, file: PlanFile, ledger: Ledger) -> None:
        self._period = file.period or ""
        self._record = Path(file.ledger).with_name(f"{Path(file.ledger).name}-sources")
        if "://" in file.ledger:  # a ledger on a server has no place beside it: the record is beside the plan
            self._record = file.path.with_suffix(".sources")
        self._plan = file.path.name
        self._plans = self._recorded()
        self._seen = self._plans.get(self._plan, {})
        self._now = _keyed(file.open_options()["source"], ledger.salt)

    def words(self) -> list[str]:
        """Sentences that compare the source with that of earlier releases: facts on its rows, for its owner alone."""
        if self._now is None or not self._seen:
            return []
        before = self._seen.get(self._period)
        if before is not None:
            return [
                "The source is the one that the releases were made of."
                if before == self._now
                else "The source changed after these answers were released; they describe it as it was."
            ]
        same = [period for period, state in self._seen.items() if state == self._now]
        return [f"The source is the one of {max(same)}: nothing in it changed since then."] if same else []

    def remember(self, drawn: int) -> None:
        """Note the source of new releases. A record that cannot be written is done without."""
        if self._now is None or not drawn:
            return
        plans = self._plans | {self._plan: self._seen | {self._period: self._now}}
        with suppress(OSError):
            write_whole(self._record, json.dumps(plans, indent=1))

    def _recorded(self) -> dict[str, dict[str, str]]:
        try:
            found = json.loads(read_regular(self._record, _LARGEST))
        except (OSError, ValueError, RecursionError):
            return {}
        plans = found.items() if isinstance(found, dict) else ()
        return {plan: seen for plan, seen in plans if isinstance(seen, dict)}


def _keyed(source: str, salt: bytes) -> str | None:
    """A keyed hash of a file's size, time and both ends; None where the source is no single file."""
    try:
        with open(open_regular(os.path.realpath(source)), "rb") as file:
            told = os.fstat(file.fileno())
            first = file.read(_END)
            file.seek(max(0, told.st_size - _END))
            ends = first + file.read(_END)
    except (OSError, ValueError):
        return None
    return hmac.new(salt, f"{told.st_size} {told.st_mtime_ns} ".encode() + ends, "sha256").hexdigest()


if sys.platform != "win32":
    import fcntl


_LARGEST = 1 << 30
_PATIENCE = 60.0
"""Seconds for another run into the same directory: whoever may read a directory could hold its lock for ever."""


class Job:
    """A plan file that can be planned and run.

    Parameters
    ----------
    plan
        The plan, or the path of its file.
    period
        The period to release, instead of the one that the plan names.
    """

    def __init__(self, plan: PlanFile | str | Path, *, period: str | None = None) -> None:
        self.file = plan if isinstance(plan, PlanFile) else PlanFile.read(plan, period=period)

    def ledger(self, *, write: bool) -> Ledger:
        """The ledger of the plan; a plan that is only looked at leaves no file behind."""
        file, schema = self.file, self.file.schema
        kept = not write and begun(file.ledger)
        ledger = Ledger(
            file.ledger if write or kept else ":memory:",
            file.budget,
            dataset=file.dataset,
            approvals=file.terms.approvals,
            window=file.terms.window,
            teams=file.terms.teams,
            team=file.terms.team,
            neighbours=None if kept else schema.neighbours,
            unit=None if kept else schema.unit.unit,
            read_only=kept,
        )
        if write:
            ledger.note(sources=file.identities())
        return ledger

    def meaning(self, ledger: Ledger) -> dict[str, Any]:
        """The meaning of the plan, without its words: people approve this."""
        return meaning(self.file, ledger)

    def _check_approved(self, ledger: Ledger) -> None:
        """Refuse a plan that the ledger's rule wants approved and that is not; before any data is read."""
        if ledger.approvals is None:
            return
        said = self.meaning(ledger)
        refusal = _not_agreed(ledger, ledger.approvals.need, said)
        if refusal is not None:
            raise refusal
        ledger.under(digest_of(said))

    def not_approved(self, ledger: Ledger) -> errors.NotApproved | None:
        """The refusal that a run would meet where people have yet to approve the plan."""
        rule = ledger.approvals
        return None if rule is None else _not_agreed(ledger, rule.need, self.meaning(ledger))

    def _located(self, question: PlannedQuestion, failure: errors.DiscreetError) -> errors.PlanFileError:
        return errors.PlanFileError(f"{self.file.path}:{question.line(failure)}: release {question.name!r}: {failure}")

    def spends(self, ledger: Ledger) -> frozenset[int]:
        """Positions of the spends of this plan's latest run in a ledger, and of the sequences that it continues."""
        made = _Made(ledger, self.file)
        found = (ledger.requested(self.file.request(question, made.run())) for question in self.file.questions)
        own = {one.seq for one in found if one is not None}
        asked = (one.question for one in self.file.questions if one.question.continues)
        sequences = {question.claim(None).partition for question in asked}
        return frozenset(own | {spend.seq for spend in ledger.events() if spend.partition in sequences})

    def plan(self, *, rehearse: bool = True) -> JobPlan:
        """The errors and costs to expect of the releases; reads no data, spends nothing.

        Where the plan has a scenario, its releases are rehearsed on rows drawn from it, unless ``rehearse`` is False.
        """
        with self.ledger(write=False) as ledger:
            planner = Planner(self.file.schema)
            planned = []
            for question in self.file.questions:
                try:
                    planned.append((question.name, planner(question.question)))
                except errors.DiscreetError as failure:
                    raise self._located(question, failure) from failure
            made = _Made(ledger, self.file)
            waiting = made.waiting(made.run())
            charges = charges_now(ledger, waiting)
            refusal = refusal_of(ledger, made.changed(), charges, _shared(waiting))
            return JobPlan(
                self.file.title,
                tuple(planned),
                cost_of(charges),
                ledger.remaining(),
                None if refusal is None else str(refusal),
                (*_missing(self.file.open_options()), *_warnings(self.file, ledger)),
                self._rehearsed() if rehearse else (),
                _transforms(self.file.schema),
                cost_in_all(self.file),
            )

    def _rehearsed(self) -> tuple[tuple[str, Rehearsal], ...]:
        """The rehearsals of the releases on rows like the plan's scenario; none where it has no scenario."""
        if self.file.scenario is None:
            return ()
        rehearsing = Rehearsing(self.file.schema, self.file.scenario, Session)
        asked = [one for one in self.file.questions if one.question.rehearsed and one.question.omit is None]
        return tuple((one.name, rehearsing(one.question)) for one in asked)

    def finished(self) -> bool:
        """True where every release of the plan is in the ledger already, so that running again spends nothing."""
        if not begun(self.file.ledger):
            return False
        with self.ledger(write=False) as ledger:
            made = _Made(ledger, self.file)
            return all(made.answered(question, made.run()) for question in self.file.questions)

    def check(self) -> JobPlan:
        """Refuse what a run would refuse, down to missing columns; read no rows, spend nothing, write nothing."""
        planned = self.plan(rehearse=False)
        with self.ledger(write=False) as ledger:
            made = _Made(ledger, self.file)
            waiting = made.waiting(made.run())
            self._check_newest(ledger, self._directory)
            self._check_payable(ledger, made, waiting)
            options = self.file.open_options()
            session = Session(options.pop("source"), self.file.schema, ledger=ledger, **options)
            self._check_columns(session, waiting)
        return planned

    def check_source(self) -> list[str]:
        """Sentences for the owner of the data: the rows can be read, and they changed or not since earlier releases.

        Raises
        ------
        SourceError
            With the reason, where the rows cannot be read as the plan declares them.
        """
        with self.ledger(write=False) as ledger:
            options = self.file.open_options()
            Session(options.pop("source"), self.file.schema, ledger=ledger, **options).check_source()
            return ["The rows can be read as the plan declares them.", *SourceState(self.file, ledger).words()]

    def check_approvable(self, ledger: Ledger) -> None:
        """Refuse bounds and limits that must be released first, where people approve every release."""
        first = [released_first(one.question, self.file.schema) for one in self.file.questions]
        check_approvable(dict.fromkeys(name for one in first for name in one), ledger)

    def _check_payable(self, ledger: Ledger, made: _Made, waiting: Sequence[PlannedQuestion]) -> None:
        """Refuse releases that the budget, their own rules or the rule on approvals do not allow."""
        self.check_approvable(ledger)
        if waiting:  # an edited plan is not approved, whatever is left
            self._check_approved(ledger)
        refusal = refusal_of(ledger, made.changed(), charges_now(ledger, waiting), _shared(waiting))
        if refusal is not None:
            raise refusal
        for question in waiting:
            try:
                ledger.check_allowed(question.question.claim(ledger).identity())
            except errors.DiscreetError as failure:
                raise self._located(question, failure) from failure

    @property
    def _directory(self) -> Path:
        return self.file.output / (self.file.period or "")

    def _newest_ledger(self, directory: Path) -> Ledger:
        """The ledger to pay from; refuses one that is older than what was published, before anything is written."""
        with self.ledger(write=False) as ledger:
            self._check_newest(ledger, directory)
        return self.ledger(write=True)

    def _check_newest(self, ledger: Ledger, directory: Path) -> None:
        check_not_rolled_back(ledger, self.file.anchor, [*self._published(directory), *self._bundles()])

    def _published(self, directory: Path) -> list[Path]:
        """Results of the plan in a directory, where it puts them by itself, and of all its periods."""
        periods = _matching(self.file.output, "*/") if self.file.period is not None else ()
        places = dict.fromkeys([directory, self._directory, *sorted(periods)])
        return [one for place in places for one in (place / "results.json", *_matching(place, "results-[0-9]*.json"))]

    def _bundles(self) -> list[Path]:
        """Bundles of the plan beside it, whatever they are called."""
        own = self.file.path.with_suffix(".bundle")
        others = (one for one in _matching(own.parent, "*.bundle") if one != own)
        return [own, *(one for one in others if bundled_plan(one) == self.file.path.name)]

    def run(
        self, *, again: bool = False, output: Path | None = None, progress: Callable[[RunProgress], None] | None = None
    ) -> JobResult:
        """Make the releases that are not in the ledger yet; write results and report.

        Parameters
        ----------
        again
            Where all of them are, release everything anew and spend again.
        output
            Directory for results and report; the plan's own by default.
        progress
            Called after every release.
        """
        directory = output or self._directory
        if again and any(one.question.continues for one in self.file.questions):
            raise errors.DiscreetError(
                "a running total is released once per period, so this plan cannot be released again. Put its other "
                "releases into a plan of their own. Nothing was spent."
            )
        _check_writable(directory)
        self.plan(rehearse=False)  # every question is checked before the first one spends
        with _alone_in(directory), self._newest_ledger(directory) as ledger:
            made = _Made(ledger, self.file)
            run = made.run() + 1 if again and self.finished() else made.run()
            waiting = made.waiting(run)
            self._check_payable(ledger, made, waiting)
            source = SourceState(self.file, ledger)
            answers, drawn = self._ask(ledger, made, run, progress)
            source.remember(drawn)
            if self.file.anchor is not None:
                write_anchor(ledger, self.file.anchor)
            return self._write(directory, ledger, answers, drawn)

    def _check_columns(self, session: Session, waiting: Sequence[PlannedQuestion]) -> None:
        """Refuse a missing column before anything is spent; stored answers need no data."""
        for question in waiting:
            try:
                own = session if question.question.schema.made_from is None else session.per_unit()
                omit = question.question.omit
                own.require(*question.question.columns_read(), *(() if omit is None else omit.columns or ()))
            except errors.DiscreetError as failure:
                raise self._located(question, failure) from failure

    def _ask(
        self, ledger: Ledger, made: _Made, run: int, progress: Callable[[RunProgress], None] | None
    ) -> tuple[list[tuple[PlannedQuestion, Any]], int]:
        options = self.file.open_options()
        session = Session(options.pop("source"), self.file.schema, ledger=ledger, **options)
        self._check_columns(session, [one for one in self.file.questions if not made.answered(one, run)])
        answers, drawn = [], 0
        for done, question in enumerate(self.file.questions, start=1):
            fresh = not made.answered(question, run)
            try:
                answer = session.ask(question.question, self.file.request(question, run))
            except errors.DiscreetError as failure:
                raise self._located(question, failure) from failure
            drawn += fresh
            if question.look:
                refuse_unusable(answer, question.question.guarantee)
            answers.append((question, answer))
            if progress is not None:
                progress(RunProgress(question.name, done, len(self.file.questions), fresh))
        return answers, drawn

    def _write(
        self, directory: Path, ledger: Ledger, answers: list[tuple[PlannedQuestion, Any]], drawn: int
    ) -> JobResult:
        entries = [
            ReportedRelease(name=one.name, title=one.title, question=one.question, answer=answer)
            for one, answer in answers
        ]
        facts = report_facts(
            title=self.file.title,
            plan=self.file.text,
            schema=self.file.schema,
            ledger=ledger,
            entries=entries,
            variables=self.file.variables,
            sources=self.file.sources,
        )
        attacked = attack_words(self.file)
        facts["assumptions"] += [] if attacked is None else [attacked]
        results: dict[str, Any] = {
            "discreet": "results",
            "format": RESULTS_FORMAT,
            "title": self.file.title,
            "facts": facts,
            # A test is made of a release again whenever it is read.
            "releases": {one.name: getattr(answer, "release", answer).to_dict() for one, answer in answers},
        }
        kept = _keep_others(directory / "results.json", results["releases"])
        write_whole(directory / "results.json", json.dumps(results, indent=1, ensure_ascii=False, allow_nan=False))
        write_whole(directory / "report.md", as_markdown(facts))
        write_whole(directory / "methods.md", methods_markdown(facts))
        page: Path | None = directory / "report.html"
        try:
            write_whole(directory / "report.html", as_page(facts))
            write_whole(directory / "methods.html", methods_page(facts))
        except errors.MissingExtra:  # results and text do not need it
            page = None
        (table,) = export(directory / "results.json", "csv")
        workbook: Path | None = directory / "results.xlsx"
        try:
            export(directory / "results.json", "xlsx")
        except errors.MissingExtra:
            workbook = None
        return JobResult(
            directory / "results.json",
            page,
            directory / "report.md",
            directory / "methods.md",
            table,
            workbook,
            drawn,
            len(answers) - drawn,
            ledger.spent(),
            ledger.remaining(),
            ledger.head,
            kept,
            _warnings(self.file, ledger),
        )


class _Made:
    """The ledger's records of a plan's releases."""

    def __init__(self, ledger: Ledger, file: PlanFile) -> None:
        self.ledger, self.file = ledger, file

    def run(self) -> int:
        """Number of the latest run: the one to resume, or to show."""
        # Bounds that were released serve every run, under one name.
        own = [one for one in self.file.questions if self.file.request(one, 1) != self.file.request(one, 2)]
        run = 1
        while any(self.reserved(question, run + 1) for question in own):
            run += 1
        return run

    def waiting(self, run: int) -> list[PlannedQuestion]:
        """The releases that are not paid for."""
        return [question for question in self.file.questions if not self.reserved(question, run)]

    def changed(self) -> int:
        """Number of waiting releases whose name was released before, for another question or another share."""
        made = {planned_release(spend.request) for spend in self.ledger.events()}
        return sum((question.name, self.file.period) in made for question in self.waiting(self.run()))

    def reserved(self, question: PlannedQuestion, run: int) -> bool:
        """True where a release is paid for."""
        return self.ledger.requested(self.file.request(question, run)) is not None

    def answered(self, question: PlannedQuestion, run: int) -> bool:
        """True where a release is paid for and its value is stored."""
        made = self.ledger.requested(self.file.request(question, run))
        return made is not None and made.answered


def _warnings(file: PlanFile, ledger: Ledger) -> tuple[str, ...]:
    """Warnings before and after a run: other ledgers of the same data, and clocks that were wrong."""
    return (*other_ledgers(file), *filter(None, [ledger.clock_warning()]))


def _missing(options: Mapping[str, Any]) -> Iterator[str]:
    """Files that the plan reads and that are not there yet, those of related tables included."""
    place = str(options["source"])
    if "://" not in place and not os.path.exists(place) and not glob.glob(place):
        yield f"there is no file {Path(place).name}. The plan needs none, `discreet run` does."
    for related in options.get("related", {}).values():
        yield from _missing(related)


def _transforms(schema: Schema) -> tuple[str, ...]:
    """Which rows take part, and how columns are computed."""
    schema = schema.of_rows
    values = [f"{name} is the {one.words(schema.unit.name)}." for name, one in schema.features.items()]
    chosen = [] if schema.where is None else [f"Only rows with {schema.where.text} take part."]
    joined = [f"{name}: at most {one.rows} rows of each {schema.unit.name}." for name, one in schema.related.items()]
    made = [f"{name} is {one.value.text}." for name, one in schema.columns.items() if one.value is not None]
    return (*joined, *chosen, *made, *values)


def _check_writable(directory: Path) -> None:
    """Fail before anything is spent where results could not be kept."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as failure:
        raise errors.DiscreetError(
            f"output = {str(directory)!r}: cannot be written: {reason(failure)} Or choose another directory. Nothing "
            "was spent."
        ) from None


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Let another run into the same directory end first, so that each says truly what it released itself."""
    if sys.platform == "win32":
        yield
        return
    handle = os.open(directory, os.O_RDONLY)
    deadline = time.monotonic() + _PATIENCE
    try:
        while not _locked(handle):
            if time.monotonic() > deadline:
                raise errors.DiscreetError(
                    f"output = {str(directory)!r}: another process has it locked, for more than {_PATIENCE:g} s. Let "
                    "that run end, or choose another directory. Nothing was spent."
                )
            time.sleep(0.02)
        yield
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    """Try to lock a directory; whether that worked."""
    with suppress(BlockingIOError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _keep_others(path: Path, releases: Mapping[str, Any]) -> Path | None:
    """Move results aside that hold other releases than those that are about to be written; where to."""
    try:
        before = _ids(json.loads(read_regular(path, _LARGEST))["releases"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        before = None  # not one of ours: not ours to write over
    if before is not None and before <= _ids(releases):
        return None
    number = 1
    while (target := path.with_name(f"{path.stem}-{number}{path.suffix}")).exists():
        number += 1
    path.rename(target)
    return target


def _ids(releases: Any) -> set[str]:
    return {str(release.get("release_id")) for release in releases.values()}


def _not_agreed(ledger: Ledger, need: int, said: dict[str, Any]) -> errors.NotApproved | None:
    """The refusal of a plan that fewer people than needed have approved."""
    plan = digest_of(said)
    if ledger.agreed(plan):
        return None
    earlier = [one for one in ledger.approved() if one.get("discreet") == "plan"]
    changed = differences(earlier[-1], said) if earlier and not ledger.approving(plan) else []
    since = f" Since the plan that was approved last: {' '.join(changed)}" if changed else ""
    return errors.NotApproved(
        f"{len(ledger.approving(plan))} of the {need} people needed approve this plan.{since} Run "
        "`discreet review` and `discreet approve`. Nothing was read or spent."
    )
