"""Job: a plan file, planned without data or run against its source and ledger."""

from __future__ import annotations

import hmac
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from discreet.core.errors import (
    DiscreetError,
    InsufficientBudget,
    LedgerError,
    MissingExtra,
    NoConversion,
    NotApproved,
    PlanFileError,
)
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, ZeroConcentratedDP
from discreet.core.ledger.approval import digest_of
from discreet.core.regular_file import read_regular, reason
from discreet.core.schema import Schema
from discreet.ledgers import Ledger
from discreet.mechanisms.composition import compose
from discreet.plans.attacked import attack_words
from discreet.plans.job_results import JobPlan, JobResult, Progress
from discreet.plans.ledger_terms import begun
from discreet.plans.meaning import differences, meaning
from discreet.plans.plan_file import PlanFile, PlannedQuestion, refuse_unusable
from discreet.plans.planner import Planner
from discreet.plans.rehearsal import NOT_REHEARSED, Rehearsal, Rehearsing
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

__all__ = ["Job", "SourceState", "charges_now", "cost_in_all", "cost_of", "other_ledgers", "refusal_of"]


# ---- Job cost: what the releases of a plan cost together, now and in all periods, and why they cannot be paid for


def charges_now(ledger: Ledger, waiting: Sequence[PlannedQuestion]) -> list[Guarantee]:
    """What each of the releases would add to the ledger's total."""
    return [one.question.charge_now(ledger) for one in waiting]


def cost_of(charges: Sequence[Guarantee]) -> Guarantee | None:
    """What releases cost together, rounded up to be shown; None where there are none."""
    return _together(charges) if charges else None


def _together(guarantees: Sequence[Guarantee]) -> Guarantee:
    """The guarantee of all of them, or a refusal where no budget counts them together."""
    failing = [one for one in guarantees if isinstance(one, ApproxDP) and one.delta > 0]
    normal = [one for one in guarantees if isinstance(one, GaussianDP | ZeroConcentratedDP)]
    if failing and normal:
        raise NoConversion(
            f"no ledger can be charged both {failing[0]} and {normal[0]}. Give all releases the same kind (epsilon and "
            "delta, rho, or mu), or write two plans with a ledger each, whose guarantees add up. Nothing was spent."
        )
    return compose(*guarantees)


def cost_in_all(file: PlanFile) -> Guarantee | None:
    """What all periods that a plan covers cost together; None where that is one run. A sequence is paid for once."""
    asked = [one.question for one in file.questions]
    if file.times == 1 and not any(question.continues for question in asked):
        return None
    runs = [1 if question.continues else file.times for question in asked]
    return _together([one.guarantee for one, times in zip(asked, runs, strict=True) for _ in range(times)])


def refusal_of(ledger: Ledger, changed: int, charges: Sequence[Guarantee]) -> DiscreetError | None:
    """Why releases of those charges, of which some were ``changed`` since they were made, cannot be paid for."""
    left, cost = ledger.remaining(), cost_of(charges)
    try:
        if cost is None or ledger.affords(charges):
            return None
    except NoConversion:
        return NoConversion(
            f"the ledger counts in {type(left).__name__} and cannot be charged {cost}. Give budget and releases the "
            "same kind: epsilon, epsilon and delta, rho, or mu. Nothing was spent."
        )
    fix = ledger.clock_warning()
    if changed:
        fix = (
            f"{changed} of them were released before with another question or share of the budget and would be "
            "released again: shares divide the whole budget. Put new questions into a second plan, or give each "
            "release its epsilon."
        )
    elif left != ledger.budget and not fix:
        fix = (
            "A part of the budget is spent, and shares divide the whole budget. Give each release its own epsilon, of "
            "what is left; a larger budget is for the owner of the data to decide."
        )
    return InsufficientBudget(cost, left, what="the releases cost", fix=fix)


# ---- Other ledgers: those beside the data, the plan or its ledger that count the same source


def other_ledgers(file: PlanFile) -> tuple[str, ...]:
    """A warning for each ledger nearby that counts releases of the plan's source and is not the plan's own."""
    places = {
        Path(one).parent for one in (file.ledger, file.open_options()["source"], file.path) if "://" not in str(one)
    }
    others = sorted(other for place in places for other in place.glob("*.ledger") if not _same(other, file.ledger))
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
    except LedgerError:  # another kind of file, or a damaged one: it is not this plan's to judge
        return False


# ---- Source state: whether a file changed since a release was made of it, which a run does not say
#
# The record lies beside the ledger, on the machine that has the data anyway, and is in no report and no bundle. It
# holds
# a keyed hash of the file's size, time and ends; never a value.


_END = 1_000_000


class SourceState:
    """What the source of a plan looked like when its releases were made.

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
        """Whether the source is the one of earlier releases: a fact about its rows, for its owner alone."""
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
            found = json.loads(self._record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def _keyed(source: str, salt: bytes) -> str | None:
    """A keyed hash of a file's size, time and both ends; None where the source is no single file."""
    try:
        told = os.stat(source)
        with open(source, "rb") as file:
            first = file.read(_END)
            file.seek(max(0, told.st_size - _END))
            ends = first + file.read(_END)
    except (OSError, ValueError):
        return None
    return hmac.new(salt, f"{told.st_size} {told.st_mtime_ns} ".encode() + ends, "sha256").hexdigest()


if sys.platform != "win32":
    import fcntl


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
