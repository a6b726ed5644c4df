"""Job: a plan file, planned without data or run against its source and ledger."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from discreet.core.errors import (
    DiscreetError,
    MissingExtra,
    NotApproved,
    PlanFileError,
)
from discreet.core.ledger.approval import digest_of
from discreet.core.regular_file import read_regular, reason
from discreet.core.schema import Schema
from discreet.ledgers import Ledger
from discreet.plans.attacked import attack_words
from discreet.plans.first_look import refuse_unusable
from discreet.plans.job_cost import charges_now, cost_in_all, cost_of, refusal_of
from discreet.plans.job_results import JobPlan, JobResult, Progress
from discreet.plans.ledger_terms import begun
from discreet.plans.meaning import differences, meaning
from discreet.plans.other_ledgers import other_ledgers
from discreet.plans.plan_file import PlanFile
from discreet.plans.planned_question import PlannedQuestion
from discreet.plans.planner import Planner
from discreet.plans.rehearsal import NOT_REHEARSED, Rehearsal, Rehearsing
from discreet.plans.source_state import SourceState
from discreet.publish.anchors import check_not_rolled_back, write_anchor
from discreet.publish.export import RESULTS_FORMAT, export
from discreet.publish.facts import Entry, report_facts
from discreet.publish.ledger_statement import planned_release
from discreet.publish.methods_note import methods_markdown, methods_page
from discreet.publish.prose import as_markdown
from discreet.publish.report_page import as_page
from discreet.publish.whole_file import write_whole
from discreet.questions.profiles.released_first import check_approvable, released_first
from discreet.session import Session

if sys.platform != "win32":
    import fcntl

__all__ = ["Job"]

_LARGEST = 1 << 30


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
        """What the plan says, without its words: what people approve."""
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

    def not_approved(self, ledger: Ledger) -> NotApproved | None:
        """What a run would be refused with where people have yet to approve the plan."""
        rule = ledger.approvals
        return None if rule is None else _not_agreed(ledger, rule.need, self.meaning(ledger))

    def _located(self, question: PlannedQuestion, failure: DiscreetError) -> PlanFileError:
        return PlanFileError(f"{self.file.path}:{question.line(failure)}: release {question.name!r}: {failure}")

    def spends(self, ledger: Ledger) -> frozenset[int]:
        """Positions of the spends of this plan's latest run in a ledger, and of the sequences that it continues."""
        made = _Made(ledger, self.file)
        found = (ledger.requested(self.file.request(question, made.run())) for question in self.file.questions)
        own = {one.seq for one in found if one is not None}
        asked = (one.question for one in self.file.questions if one.question.continues)
        sequences = {question.claim(None).partition for question in asked}
        return frozenset(own | {spend.seq for spend in ledger.events() if spend.partition in sequences})

    def plan(self, *, rehearse: bool = True) -> JobPlan:
        """What the releases would give and cost; reads no data, spends nothing.

        Where the plan has a scenario, its releases are rehearsed on rows drawn from it, unless ``rehearse`` is False.
        """
        with self.ledger(write=False) as ledger:
            planner = Planner(self.file.schema)
            planned = []
            for question in self.file.questions:
                try:
                    planned.append((question.name, planner(question.question)))
                except DiscreetError as failure:
                    raise self._located(question, failure) from failure
            made = _Made(ledger, self.file)
            charges = charges_now(ledger, made.waiting(made.run()))
            refusal = refusal_of(ledger, made.changed(), charges)
            return JobPlan(
                self.file.title,
                tuple(planned),
                cost_of(charges),
                ledger.remaining(),
                None if refusal is None else str(refusal),
                _warnings(self.file, ledger),
                self._rehearsed() if rehearse else (),
                _transforms(self.file.schema),
                cost_in_all(self.file),
            )

    def _rehearsed(self) -> tuple[tuple[str, Rehearsal], ...]:
        """What the releases would give on rows like the plan's scenario; nothing where it has none."""
        if self.file.scenario is None:
            return ()
        rehearsing = Rehearsing(self.file.schema, self.file.scenario, Session)
        asked = [one for one in self.file.questions if one.question.ask not in NOT_REHEARSED]
        return tuple((one.name, rehearsing(one.question)) for one in asked)

    def finished(self) -> bool:
        """Whether every release of the plan is in the ledger already, so that running again spends nothing."""
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
        """What the owner of the data may know of the rows: that they can be read, and whether they changed.

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
        refusal = refusal_of(ledger, made.changed(), charges_now(ledger, waiting))
        if refusal is not None:
            raise refusal
        if waiting:
            self._check_approved(ledger)
        for question in waiting:
            try:
                ledger.check_allowed(question.question.claim(ledger).identity())
            except DiscreetError as failure:
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
        published = (directory / "results.json", self.file.path.with_suffix(".bundle"))
        check_not_rolled_back(ledger, self.file.anchor, published)

    def run(
        self, *, again: bool = False, output: Path | None = None, progress: Callable[[Progress], None] | None = None
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
            raise DiscreetError(
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
                session.require(*question.question.columns_read())
            except DiscreetError as failure:
                raise self._located(question, failure) from failure

    def _ask(
        self, ledger: Ledger, made: _Made, run: int, progress: Callable[[Progress], None] | None
    ) -> tuple[list[tuple[PlannedQuestion, Any]], int]:
        options = self.file.open_options()
        session = Session(options.pop("source"), self.file.schema, ledger=ledger, **options)
        self._check_columns(session, [one for one in self.file.questions if not made.answered(one, run)])
        answers, drawn = [], 0
        for done, question in enumerate(self.file.questions, start=1):
            fresh = not made.answered(question, run)
            try:
                answer = session.ask(question.question, self.file.request(question, run))
            except DiscreetError as failure:
                raise self._located(question, failure) from failure
            drawn += fresh
            if question.look:
                refuse_unusable(answer, question.question.guarantee)
            answers.append((question, answer))
            if progress is not None:
                progress(Progress(question.name, done, len(self.file.questions), fresh))
        return answers, drawn

    def _write(
        self,
        directory: Path,
        ledger: Ledger,
        answers: list[tuple[PlannedQuestion, Any]],
        drawn: int,
    ) -> JobResult:
        entries = [
            Entry(name=one.name, title=one.title, question=one.question, answer=answer) for one, answer in answers
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
        except MissingExtra:  # results and text do not need it
            page = None
        (table,) = export(directory / "results.json", "csv")
        workbook: Path | None = directory / "results.xlsx"
        try:
            export(directory / "results.json", "xlsx")
        except MissingExtra:
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
    """What the ledger knows of a plan's releases."""

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
        """Whether a release is paid for."""
        return self.ledger.requested(self.file.request(question, run)) is not None

    def answered(self, question: PlannedQuestion, run: int) -> bool:
        """Whether a release is paid for and its value is stored."""
        made = self.ledger.requested(self.file.request(question, run))
        return made is not None and made.answered


def _warnings(file: PlanFile, ledger: Ledger) -> tuple[str, ...]:
    """What to know before and after a run: other ledgers of the same data, and clocks that were wrong."""
    return (*other_ledgers(file), *filter(None, [ledger.clock_warning()]))


def _transforms(schema: Schema) -> tuple[str, ...]:
    """Which rows take part, and how columns are computed."""
    chosen = [] if schema.where is None else [f"Only rows with {schema.where.text} take part."]
    joined = [f"{name}: at most {one.rows} rows of each {schema.unit.name}." for name, one in schema.related.items()]
    made = [f"{name} is {one.value.text}." for name, one in schema.columns.items() if one.value is not None]
    return (*joined, *chosen, *made)


def _check_writable(directory: Path) -> None:
    """Fail before anything is spent where results could not be kept."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as failure:
        raise DiscreetError(
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
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


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


def _not_agreed(ledger: Ledger, need: int, said: dict[str, Any]) -> NotApproved | None:
    """The refusal of a plan that fewer people than needed have approved."""
    plan = digest_of(said)
    if ledger.agreed(plan):
        return None
    earlier = [one for one in ledger.approved() if one.get("discreet") == "plan"]
    changed = differences(earlier[-1], said) if earlier and not ledger.approving(plan) else []
    since = f" Since the plan that was approved last: {' '.join(changed)}" if changed else ""
    return NotApproved(
        f"{len(ledger.approving(plan))} of the {need} people needed approve this plan.{since} Run "
        "`discreet review` and `discreet approve`. Nothing was read or spent."
    )
