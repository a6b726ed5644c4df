"""Run: every audit over everything that is shipped, and one report of what was found."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from discreet import __version__
from discreet.audit.audit_page import audit_markdown, audit_page
from discreet.audit.catalogue import cases
from discreet.audit.deletions import audit_deletions
from discreet.audit.exhaustive import audit_exhaustively
from discreet.audit.generated_worlds import generated_worlds
from discreet.audit.hostile import HOSTILE, audit_hostile
from discreet.audit.hostile_calls import hostile_calls
from discreet.audit.hostile_questions import hostile_questions
from discreet.audit.interrupts import audit_interrupts
from discreet.audit.ledger_programs import audit_ledger_programs
from discreet.audit.model_pipelines import model_pipelines
from discreet.audit.pipeline import Pipeline, Refusal, audit_pipeline
from discreet.audit.recomputing import RECOMPUTING
from discreet.audit.release_pipelines import release_pipelines
from discreet.audit.repetition import audit_repetition
from discreet.audit.replay_cases import replay_cases
from discreet.audit.session_attacks import attack_world
from discreet.audit.session_pipelines import session_pipelines
from discreet.audit.spending_attacks import audit_spending
from discreet.audit.statistical import audit_pair
from discreet.audit.sweep import audit_false_alarms, audit_power, audit_sweep
from discreet.audit.timing import audit_timing
from discreet.audit.timing_cases import timing_cases
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.display import Facts
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace
from discreet.result import Result

__all__ = ["AuditReport", "Line", "run_audit"]

Progress = Callable[[str], None]

_SECTIONS = {
    "exact": (
        "Exact audit: the loss computed from the laws",
        "The largest loss between worst-case neighbours, from distribution functions. 100 % reached means that no "
        "noise is wasted; more would be a breach.",
    ),
    "pipeline": (
        "Pipeline audit: from rows to what is published",
        "Sessions, models, comparisons and releases as they run, on every table of a small world: what neighbours lose "
        "through all draws together, beside what the ledger was charged. Nothing else that is published may differ.",
    ),
    "session": (
        "Session audit: generated worlds and their worst neighbours",
        "Every question on data with random public facts. Between worst neighbours the exact value moves by no more "
        "than declared, the loss is within the charge, real draws certify no more, and nothing else differs.",
    ),
    "statistical": (
        "Statistical audit: lower bounds from draws",
        "What an attacker can prove from outputs alone, with 99.9 % confidence. It must stay below the claim.",
    ),
    "exhaustive": (
        "Exhaustive audit: all pairs on finite grids",
        "Every cell of outputs of every pair of neighbours, decided in interval arithmetic of 2048 bits.",
    ),
    "sweep": ("Random neighbours", "Draws on pairs of data sets that nobody chose."),
    "calibration": (
        "The auditor itself: power and false alarms",
        "Whether a claim that is 5 % too small is found, and whether right claims are left alone.",
    ),
    "replay": (
        "Replay audit: declared and measured change",
        "How far a statistic really moves between neighbours, beside the sensitivity that it declares.",
    ),
    "timing": (
        "Timing audit: AUC of running times",
        "How well running times tell two values apart: 0.5 is a coin, 1 is certainty; the interval is in brackets.",
    ),
    "randomness": (
        "Randomness and spending",
        "No output repeats, not even after a fork, and nothing is drawn before it is paid for.",
    ),
    "ledger": (
        "Ledger programs",
        "Random spends, requests, partitions and restarts, beside a model of twenty lines in fractions.",
    ),
    "recomputed": (
        "Computed twice: arithmetic, noise, reading, ledgers",
        "Rounding, curves and grids beside fractions, draws from chosen words beside their laws in 400 bits, files "
        "beside a slow reader, and ledgers that were changed on disk.",
    ),
    "hostile": (
        "Hostile arguments",
        "Calls that must be refused in words or answered in finite time.",
    ),
    "aborted": (
        "Audits that could not run",
        "Something that must work refused or failed, which is a finding by its name.",
    ),
}
"""Key to heading and what the reader learns from it."""


@dataclass(frozen=True)
class Line:
    """One thing audited: what was claimed, what was found, and whether that is within the claim."""

    section: str
    name: str
    claimed: str
    found: str
    reached: float | None
    passed: bool
    details: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {
            "section": self.section,
            "name": self.name,
            "claimed": self.claimed,
            "found": self.found,
            "reached": self.reached,
            "passed": self.passed,
            "details": self.details,
        }


@dataclass(frozen=True)
class AuditReport(Result):
    """All lines of a run.

    Attributes
    ----------
    lines
        What was audited.
    deep
        Whether it was the deep run.
    created, seconds, elapsed
        When, how much processor time it took, and how long one had to wait for it, in seconds.
    """

    lines: tuple[Line, ...]
    deep: bool
    created: str
    seconds: float
    elapsed: float

    @property
    def passed(self) -> bool:
        """Whether nothing exceeded its claim."""
        return all(line.passed for line in self.lines)

    def heading(self) -> str:
        return "Audit of every guarantee"

    def facts(self) -> Facts:
        shown = [(section["title"], section["lines"]) for section in self.to_dict()["sections"]]
        return [(title, f"{sum(line['passed'] for line in lines)} of {len(lines)} hold") for title, lines in shown]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        sections = []
        for key, (title, words) in _SECTIONS.items():
            lines = [line.to_dict() for line in self.lines if line.section == key]
            if lines:
                sections.append({"key": key, "title": title, "words": words, "lines": lines})
        return {
            "discreet": "audit",
            "title": self.heading(),
            "version": __version__,
            "machine": f"Python {platform.python_version()}, {platform.system()} {platform.machine()}",
            "created": self.created,
            "seconds": self.seconds,
            "elapsed": self.elapsed,
            "deep": self.deep,
            "passed": self.passed,
            "failed": [line.name for line in self.lines if not line.passed],
            "sections": sections,
        }

    def to_html(self) -> str:
        """One page that needs nothing else."""
        return audit_page(self.to_dict())

    def to_markdown(self) -> str:
        """The tables in markdown."""
        return audit_markdown(self.to_dict())

    def written(self, suffix: str) -> str:
        """The report as the kind of file that a suffix asks for."""
        kinds = {".html": self.to_html, ".json": lambda: self.to_json(indent=1), ".md": self.to_markdown}
        if suffix not in kinds:
            raise InvalidParameter("out", suffix, f"must end in one of {sorted(kinds)}", "Pass audit.html.")
        return kinds[suffix]()

    def __str__(self) -> str:
        parts = []
        for section in self.to_dict()["sections"]:
            parts.append(section["title"])
            parts += [_row(line) for line in section["lines"]]
            parts.append("")
        failed = [line.name for line in self.lines if not line.passed]
        verdict = f"{len(self.lines)} audits, nothing exceeds its claim" if not failed else f"EXCEEDED: {failed}"
        return "\n".join([*parts, f"{verdict} ({self.elapsed:.0f} s, {self.seconds:.0f} s of processor time)"])

    def _repr_html_(self) -> str:
        return self.to_html()


def _row(line: dict[str, Any]) -> str:
    """Eighty columns: mark, name, claim, what was found; a long name stands on a line of its own."""
    mark, name = " " if line["passed"] else "!", line["name"]
    name = f"{name:<37}" if len(name) <= 37 else f"{name}\n{'':<39}"
    claimed = f"{line['claimed']:>17}"
    return f"{mark} {name} {claimed} {line['found']:>{39 - len(claimed)}}"


def run_audit(*, deep: bool = False, workers: int = 2, progress: Progress | None = None) -> AuditReport:
    """Audit every shipped mechanism, statistic, session path and the auditor itself.

    Parameters
    ----------
    deep
        Draw, replay and time enough to detect small violations; takes many minutes, otherwise a few.
    workers
        Number of processes.
    progress
        Called with the name of each part that is done.
    """
    requirements.positive_integer("workers", workers)
    created, start = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    found: dict[str, tuple[list[Line], float]] = {}
    for part, lines, seconds in _done(deep, workers):
        found[part] = lines, seconds
        if progress is not None:
            progress(part)
    lines = [line for part in _PARTS for line in found[part][0]]
    seconds = sum(seconds for _, seconds in found.values())
    return AuditReport(tuple(lines), deep, created, seconds, time.monotonic() - start)


def _done(deep: bool, workers: int) -> Iterator[tuple[str, list[Line], float]]:
    """Parts as they are done, with their lines and the processor time they took."""
    if workers == 1:
        yield from (_part(part, deep) for part in _PARTS)
        return
    longest_first = sorted(_PARTS, key=lambda part: not part.startswith(("sessions", "pipelines")))
    with ProcessPoolExecutor(workers) as pool:
        for future in as_completed([pool.submit(_part, part, deep) for part in longest_first]):
            yield future.result()


def _part(part: str, deep: bool) -> tuple[str, list[Line], float]:
    start = time.process_time()
    lines = []
    try:
        for line in _PARTS[part](deep):
            lines.append(line)
    except Exception as error:
        refusal = Refusal.of(error)
        lines.append(Line("aborted", part, "runs through", str(refusal), None, False, vars(refusal)))
    return part, lines, time.process_time() - start


_ALPHA = 1e-9
"""Chance of a false alarm that each check by draws or times has in a short run.

A short run makes fewer than 1,000 of them, so one is wrong in fewer than one run in a million (Bonferroni), and in
1,000 runs with less than one chance in a thousand. Exact audits, replays and ledger programs have none.
"""


WORLDS = {False: 32, True: 96}
"""How many worlds a short and a deep run generate."""


def _attacked(deep: bool, part: int) -> Iterator[Line]:
    """A share of the generated worlds, a line for each; more of them in a deep run."""
    for number, world in enumerate(generated_worlds(WORLDS[deep])):
        if number % _WORLD_SHARES != part - 1:
            continue
        found = list(attack_world(world, draws=20_000 if deep else 2_000, confidence=1 - _ALPHA))
        wrong = [f"{one.question}: {one.findings[0]}" for one in found if not one.passed]
        reached = max(one.reached for one in found)
        told = wrong[0] if wrong else f"{100 * reached:.1f} % lost"
        details = {"questions": [one.to_dict() for one in found], "schema": world.schema.to_dict()}
        yield Line("session", world.name, f"{len(found)} questions", told, reached, not wrong, details)


def _programmed(deep: bool) -> Iterator[Line]:
    audit = audit_ledger_programs(200 if deep else 12)
    found = audit.findings[0] if audit.findings else "agree"
    yield Line("ledger", f"{audit.steps:,} steps", "as the model", found, None, audit.passed, audit.to_dict())


def _deleted(deep: bool) -> Iterator[Line]:
    audit = audit_deletions(300 if deep else 30)
    found = audit.findings[0] if audit.findings else "the same"
    yield Line(
        "replay", f"deletion of {audit.rows:,} rows", "the definition", found, None, audit.passed, audit.to_dict()
    )


def _exhaustive(deep: bool) -> Iterator[Line]:
    audit = audit_exhaustively(1200 if deep else 48)
    name = f"{sum(audit.sets.values()):,} parameter sets"
    found = f"{audit.comparisons:,} comparisons"
    yield Line("exhaustive", name, "p ≤ e^ε·q", found, audit.tightest, audit.passed, audit.to_dict())


def _swept(deep: bool, part: int) -> Iterator[Line]:
    """A share of all pairs; all bounds of a deep run's shares together are right with 99.9 % probability."""
    pairs, draws = (10_000, 50_000) if deep else (60, 10_000)
    share = -(-pairs // _SHARES)
    level = 1 - 0.001 / _SHARES if deep else 1 - _ALPHA
    sweep = audit_sweep(pairs=share, draws=draws, confidence=level, seed=part)
    name = f"{sweep.pairs:,} pairs × {sweep.draws:,} draws, {part} of {_SHARES}"
    found = f"{len(sweep.violations)} violations"
    yield Line("sweep", name, "none certified", found, sweep.tightest, sweep.passed, sweep.to_dict())


def _hostile(deep: bool) -> Iterator[Line]:
    some = HOSTILE if deep else HOSTILE[::4]
    audit = audit_hostile({**hostile_calls(), **hostile_questions()}, some)
    name, found = f"{audit.calls:,} calls", f"{len(audit.findings)} findings"
    yield Line("hostile", name, "refused or finite", found, None, audit.passed, audit.to_dict())


def _recomputed(deep: bool, part: str) -> Iterator[Line]:
    found = RECOMPUTING[part](deep)
    told = found.findings[0] if found.findings else "the same"
    yield Line("recomputed", found.title, f"{found.checks:,} results", told, None, found.passed, found.to_dict())


def _exact(deep: bool) -> Iterator[Line]:
    for case in cases():
        if case.exact is None:
            continue
        audit = case.exact()
        passed = audit.passed and (audit.tightness >= 0.99 or not case.tight)
        if audit.claimed_epsilon is not None and audit.found_epsilon is not None:
            claimed, found = f"ε {audit.claimed_epsilon:.6g}", f"ε {audit.found_epsilon:.6g}"
        else:
            claimed, found = f"δ(1) {audit.claimed_deltas[3]:.4g}", f"δ(1) {audit.found_deltas[3]:.4g}"
        yield Line("exact", case.name, claimed, found, audit.tightness, passed, audit.to_dict())


def _pipelined(deep: bool, source: Callable[[], Iterator[Pipeline]]) -> Iterator[Line]:
    for pipeline in source():
        if not (deep or pipeline.quick):
            continue
        audit = audit_pipeline(pipeline, scripts=4 if deep else 1, pairs=None if deep else 6)
        passed = audit.passed and (audit.loss.tightness >= 0.99 or not pipeline.tight)
        found = f"{100 * audit.loss.tightness:.1f} % lost" if not audit.findings else audit.findings[0]
        reached = audit.loss.tightness
        yield Line("pipeline", pipeline.name, str(audit.charged), found, reached, passed, audit.to_dict())


def _statistical(deep: bool, slow: bool) -> Iterator[Line]:
    for case in cases():
        short = case.slow and (case.deep_only or case.exact is not None)  # what is also audited exactly
        if case.slow != slow or (short and not deep):
            continue
        draws = (8_000 if deep else 1_000) if case.slow else (16_000_000 if deep else 40_000)
        if case.deep_only:  # whole fits and sessions
            draws = 1_000
        elif "thirds" in case.name or "two" in case.name:  # exact fractions and several coordinates take longer
            draws = min(draws, 4_000_000)
        level = 0.999 if deep else 1 - _ALPHA
        audit = audit_pair(case.here, case.there, case.claim, draws=draws, confidence=level)
        claimed = f"{audit.symbol} {audit.claimed:.4g}" + (f", δ {audit.at_delta:.2g}" if audit.at_delta else "")
        found = f"{audit.symbol} ≥ {audit.certified:.4f}" if audit.certified > 0 else "nothing certified"
        yield Line("statistical", case.name, claimed, found, audit.reached, audit.passed, audit.to_dict())


def _calibration(deep: bool) -> Iterator[Line]:
    power = audit_power(audits=300 if deep else 4)
    found = f"{power.found} of {power.audits}"
    yield Line("calibration", "true ε 1.05, claimed 1", "≥ 99 % found", found, None, power.passed, power.to_dict())
    alarms = audit_false_alarms(audits=1_000 if deep else 60)
    found = f"{alarms.alarms} of {alarms.audits:,}"
    claimed = f"≤ {alarms.allowed}"
    yield Line("calibration", "false alarms at 99.9 %", claimed, found, None, alarms.passed, alarms.to_dict())


def _replayed(deep: bool) -> Iterator[Line]:
    for case in replay_cases():
        audit = case.audit(400 if deep else 6)
        claimed, found = f"ℓ₁ {audit.declared_l1:.6g}", f"ℓ₁ {audit.measured_l1:.6g}"
        reached = audit.tightness
        yield Line("replay", case.name, claimed, found, reached, audit.passed, audit.to_dict())


def _timed(deep: bool) -> Iterator[Line]:
    for name, first, second in timing_cases():
        audit = audit_timing(first, second, repeats=20_000 if deep else 400, confidence=0.999 if deep else 1 - _ALPHA)
        claimed, found = "0.48 to 0.52", f"{audit.auc:.3f} ({audit.low:.3f}–{audit.high:.3f})"
        yield Line("timing", name, claimed, found, None, audit.passed, audit.to_dict())


def _randomness(deep: bool) -> Iterator[Line]:
    for mechanism in (Laplace(1.0), Gaussian(1.0)):
        audit = audit_repetition(lambda mechanism=mechanism: mechanism.draw([0.0] * 4))  # type: ignore[misc]
        found = f"{audit.repeats} of {audit.draws} repeat"
        yield Line(
            "randomness", f"{mechanism.name}: calls, forks", "all new", found, None, audit.passed, audit.to_dict()
        )
    spending = audit_spending()
    found = f"{spending.racing[0]} of {spending.racing[1]} in a race"
    yield Line(
        "randomness", "release and ledger", "spent, then drawn", found, None, spending.passed, spending.to_dict()
    )
    stopped = audit_interrupts(400 if deep else 40)
    found = f"{stopped.interrupts} interrupts"
    yield Line("randomness", "Ctrl-C in a spend", "goes on counting", found, None, stopped.passed, stopped.to_dict())


_SHARES, _WORLD_SHARES = 4, 8
_PARTS: dict[str, Callable[[bool], Iterator[Line]]] = {
    "exact": _exact,
    "pipelines of releases": partial(_pipelined, source=release_pipelines),
    "pipelines of sessions": partial(_pipelined, source=session_pipelines),
    "pipelines of models": partial(_pipelined, source=model_pipelines),
    "statistical, many draws": partial(_statistical, slow=False),
    "statistical, one by one": partial(_statistical, slow=True),
    "exhaustive": _exhaustive,
    **{f"sweep {part}": partial(_swept, part=part) for part in range(1, _SHARES + 1)},
    "calibration": _calibration,
    **{f"sessions {part}": partial(_attacked, part=part) for part in range(1, _WORLD_SHARES + 1)},
    "ledger programs": _programmed,
    "omission": _deleted,
    "replay": _replayed,
    "timing": _timed,
    "randomness": _randomness,
    **{part: partial(_recomputed, part=part) for part in RECOMPUTING},
    "hostile": _hostile,
}
