"""Run: every audit over everything that is shipped, and one report of what was found."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from discreet.audit.arithmetic import audit_amplified, audit_arithmetic, audit_guarantees
from discreet.audit.attack_plan import PIPELINES
from discreet.audit.catalogue import audit_shapes, cases
from discreet.audit.declarations import audit_declarations, audit_declared
from discreet.audit.exact_losses import audit_exhaustively, audit_false_alarms, audit_power, audit_sweep
from discreet.audit.hostile import HOSTILE, audit_hostile, hostile_calls, hostile_questions
from discreet.audit.identities import audit_identities, audit_near_ids, audit_orders
from discreet.audit.ledgers import audit_governed_ledgers, audit_ledger_programs
from discreet.audit.pipeline import audit_pipeline
from discreet.audit.reading import audit_adding_up, audit_engine, audit_formulas, audit_reading
from discreet.audit.replay import audit_deletions, replay_cases
from discreet.audit.report import Audit, AuditReport, Refusal, missing_package
from discreet.audit.sampling import audit_calibrations, audit_chosen_words
from discreet.audit.statistic_values import audit_measurements, audit_statistic_values
from discreet.audit.statistical import audit_pair, audit_repetition, audit_timing, timing_cases
from discreet.audit.tampering import audit_interrupts, audit_spending, audit_tampering
from discreet.audit.worlds import GeneratedWorld, attack_world, generated_worlds, spark_worlds
from discreet.audit.written import audit_failures, audit_written
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace

# ---- Recomputing: the audits that compute everything a second time, and how much of it in a short and in a deep run.


RECOMPUTING: dict[str, Callable[[bool], Audit]] = {
    "arithmetic": lambda _: audit_arithmetic(),
    "guarantees": lambda _: audit_guarantees(),
    "shapes": lambda _: audit_shapes(),
    "amplification": lambda _: audit_amplified(),
    "declarations": lambda _: audit_declarations(),
    "declared": lambda _: audit_declared(),
    "statistics": lambda _: audit_statistic_values(),
    "measurements": lambda _: audit_measurements(),
    "calibrations": lambda _: audit_calibrations(),
    "chosen words": lambda deep: audit_chosen_words(5_000 if deep else 150),
    "reading": lambda deep: audit_reading(3_000 if deep else 240),
    "engine": lambda _: audit_engine(),
    "adding up": lambda _: audit_adding_up(),
    "formulas": lambda _: audit_formulas(),
    "nearly equal ids": lambda _: audit_near_ids(),
    "governed ledgers": lambda deep: audit_governed_ledgers(60 if deep else 8),
    "tampering": lambda deep: audit_tampering(4_000 if deep else 120),
}
"""Name of a part to its audit; ``True`` asks for the deep one."""
TOLD = {
    f"{'plans' if runs else 'sessions'} of {kind}": partial(audit_written, kind, runs)
    for runs in (False, True)
    for kind in ("rows", "people")
}
"""What everything that is told is compared for."""


# ---- Run: every audit over everything that is shipped, and one report of what was found.


@dataclass(frozen=True)
class AuditProgress:
    """Progress of an audit: part ``done`` of ``total`` is ready, and about so many seconds are left."""

    name: str
    done: int
    total: int
    left: float


Progress = Callable[[AuditProgress], None]


def run_audit(
    *,
    deep: bool = False,
    quick: bool = False,
    parts: Sequence[str] = (),
    workers: int = 2,
    progress: Progress | None = None,
) -> AuditReport:
    """Audit every shipped mechanism, statistic, session path and the auditor itself.

    Parameters
    ----------
    deep
        Draw, replay and time enough to detect small violations; takes many minutes, otherwise a few.
    quick
        Run the parts that find most in a minute.
    parts
        Run these alone: names of `part_names`, or their first words.
    workers
        Number of processes.
    progress
        Called after each part.
    """
    requirements.positive_integer("workers", workers)
    chosen = _chosen(parts, quick)
    created = datetime.now(UTC).isoformat(timespec="seconds")
    start = time.monotonic()
    found: dict[str, tuple[list[Audit], float]] = {}
    for part, lines, seconds in _done(chosen, deep, workers, first_short=quick):
        found[part] = lines, seconds
        if progress is not None:
            waiting = sum(_weight(one) for one in chosen if one not in found)
            left = (time.monotonic() - start) * waiting / sum(map(_weight, found))
            progress(AuditProgress(part, len(found), len(chosen), left))
    lines = [line for part in chosen for line in found[part][0]]
    seconds = sum(seconds for _, seconds in found.values())
    dropped_rows = tuple(part for part in _PARTS if part not in found)
    return AuditReport(tuple(lines), deep, created, seconds, time.monotonic() - start, tuple(chosen), dropped_rows)


def part_names() -> tuple[str, ...]:
    """Names of the parts, in the order of the report."""
    return tuple(_PARTS)


def _chosen(names: Sequence[str], quick: bool) -> list[str]:
    """Parts by their names or first words; in a quick run those that find most in little time."""
    chosen = [part for part in _PARTS if part in _QUICK_PARTS] if quick else [*_PARTS]
    if not names:
        return chosen
    for name in names:
        if not any(_called(part, name) for part in _PARTS):
            raise InvalidParameter("part", name, "is not a part of the audit", "Run discreet audit --list.")
    return [part for part in _PARTS if any(_called(part, name) for name in names)]


def _called(part: str, name: str) -> bool:
    """True where a name is that of a part, or its first words."""
    return part == name or part.startswith((f"{name} ", f"{name},"))


def _done(
    chosen: Sequence[str], deep: bool, workers: int, first_short: bool = False
) -> Iterator[tuple[str, list[Audit], float]]:
    """Parts as they are done, with their lines and the processor time they took.

    The longest begin, so that all end early; where first verdicts shall come early, the shortest.
    """
    if workers == 1:
        yield from (_part(part, deep) for part in chosen)
        return
    in_order = sorted(chosen, key=_weight, reverse=not first_short)
    # Expressions of tables are many small objects, among which to look for cycles all the time takes a tenth of a run;
    # of two looks one still goes further back, as sessions must not pile up.
    with ProcessPoolExecutor(workers, initializer=gc.set_threshold, initargs=(50_000, 2, 2)) as pool:
        for future in as_completed([pool.submit(_part, part, deep) for part in in_order]):
            yield future.result()


def _part(part: str, deep: bool) -> tuple[str, list[Audit], float]:
    """All checks of a part; one that fails is a finding, and one that lacks a package is skipped."""
    start = time.process_time()
    lines: list[Audit] = []
    try:
        for name, check in _PARTS[part](deep):
            lines += _checked(name, check)
    except Exception as error:
        lines.append(_unable(part, error))
    return part, lines, time.process_time() - start


def _checked(name: str, check: Callable[[], Audit]) -> Iterator[Audit]:
    """One check by its name, and a line for each package without which some of it could not run."""
    try:
        found = check()
    except ImportError as missing:
        yield _unable(name, missing)
        return
    yield found.called(name or found.name)
    for package in found.measured.get("lacking", ()):
        yield _unable(f"{found.name}, {package}", ImportError(name=package))


def _unable(name: str, error: Exception) -> Audit:
    """The line for a check that could not run: skipped where a package is missing, otherwise a finding."""
    package = missing_package(error)
    if package is not None:
        return Audit("skipped", name, "runs", f"needs {package}, which is not installed", skipped=True)
    return Audit("aborted", name, "runs through", "", (str(Refusal.of(error)),))


_ALPHA = 1e-9
"""Chance of a false alarm that each check by draws or times has in a short run.

A short run makes fewer than 1,000 of them, so one is wrong in fewer than one run in a million (Bonferroni), and in
1,000 runs with less than one chance in a thousand. Exact audits, replays and ledger programs have none.
"""


WORLDS = {False: 32, True: 96}
"""How many worlds a short and a deep run generate."""
_EVERY = {False: 4, True: 1}
"""A short run draws real noise for every so many questions of a world; the exact audits are of all."""

Check = tuple[str, Callable[[], Audit]]
"""The name of a check, empty where the check gives its own, and what runs it."""


def _attacked(deep: bool, part: int) -> Iterator[Check]:
    """A share of the generated worlds; more of them in a deep run."""
    for number, world in enumerate(generated_worlds(WORLDS[deep])):
        if number % _WORLD_SHARES == part - 1:
            yield world.name, partial(_world, world, deep)


def _on_spark(deep: bool) -> Iterator[Check]:
    """Worlds on Spark, in a deep run alone."""
    for world in spark_worlds() if deep else ():
        yield world.name, partial(_world, world, False)


def _world(world: GeneratedWorld, deep: bool) -> Audit:
    """All questions of a world in one."""
    draws = 20_000 if deep else 2_000
    found = list(attack_world(world, draws=draws, confidence=1 - _ALPHA, every=_EVERY[deep]))
    wrong = tuple(f"{one.name}: {one.findings[0]}" for one in found if not one.passed)
    reached = max(one.reached or 0.0 for one in found)
    measured = {"questions": [one.to_dict() for one in found], "schema": world.schema.to_dict()}
    words = f"{100 * reached:.1f} % of charge"
    return Audit("session", world.name, f"{len(found)} questions", words, wrong, reached, measured)


def _swept(deep: bool, part: int) -> Iterator[Check]:
    """A share of all pairs; all bounds of a deep run's shares together are right with 99.9 % probability."""
    pairs, draws = (10_000, 50_000) if deep else (60, 10_000)
    level = 1 - 0.001 / _SHARES if deep else 1 - _ALPHA
    name = f"random neighbours, {part} of {_SHARES}"
    yield name, partial(audit_sweep, pairs=-(-pairs // _SHARES), draws=draws, confidence=level, seed=part)


def _exact(deep: bool) -> Iterator[Check]:
    for case in cases():
        if case.exact is not None:
            yield case.name, partial(_tight, case.exact, case.tight)


def _tight(check: Callable[[], Audit], tight: bool) -> Audit:
    found = check()
    return found.tightly() if tight else found


def _pipelined(deep: bool, about: str) -> Iterator[Check]:
    """Every pipeline; those that others stand for on their first pairs of neighbours alone."""
    for pipeline in PIPELINES[about]():
        pairs = None if deep else 6 if pipeline.quick else 2
        check = partial(audit_pipeline, pipeline, scripts=4 if deep else 1, pairs=pairs)
        yield pipeline.name, partial(_tight, check, pipeline.tight and (deep or pipeline.quick))


def _statistical(deep: bool, slow: bool) -> Iterator[Check]:
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
        yield case.name, partial(audit_pair, case.here, case.there, case.claim, draws=draws, confidence=level)


def _timed(deep: bool) -> Iterator[Check]:
    repeats, level = (20_000, 0.999) if deep else (400, 1 - _ALPHA)
    for name, first, second in timing_cases():
        yield name, partial(audit_timing, first, second, repeats=repeats, confidence=level)


def _randomness(deep: bool) -> Iterator[Check]:
    for mechanism in (Laplace(1.0), Gaussian(1.0)):
        yield f"{mechanism.name}: calls, forks", partial(audit_repetition, partial(mechanism.draw, [0.0] * 4))
    yield "", audit_spending
    yield "", partial(audit_interrupts, 400 if deep else 40)


def _replayed(deep: bool) -> Iterator[Check]:
    for case in replay_cases():
        yield case.name, partial(case.audit, 400 if deep else 6)


def _calibration(deep: bool) -> Iterator[Check]:
    yield "", partial(audit_power, audits=300 if deep else 4)
    yield "", partial(audit_false_alarms, audits=1_000 if deep else 60)


def _hostile(deep: bool) -> Audit:
    return audit_hostile({**hostile_calls(), **hostile_questions()}, HOSTILE if deep else HOSTILE[::4])


def _alone(check: Callable[[bool], Audit]) -> Callable[[bool], Iterator[Check]]:
    """A part of one check."""
    return lambda deep: iter([("", partial(check, deep))])


_SHARES, _WORLD_SHARES = 4, 8
_PARTS: dict[str, Callable[[bool], Iterator[Check]]] = {
    "exact": _exact,
    **{f"pipelines of {about}": partial(_pipelined, about=about) for about in PIPELINES},
    "statistical, many draws": partial(_statistical, slow=False),
    "statistical, one by one": partial(_statistical, slow=True),
    "exhaustive": _alone(lambda deep: audit_exhaustively(1200 if deep else 48)),
    **{f"sweep {part}": partial(_swept, part=part) for part in range(1, _SHARES + 1)},
    "calibration": _calibration,
    **{f"sessions {part}": partial(_attacked, part=part) for part in range(1, _WORLD_SHARES + 1)},
    "worlds on Spark": _on_spark,
    **{f"told by {words}": _alone(check) for words, check in TOLD.items()},
    "failures": _alone(audit_failures),
    "keys of sessions": _alone(audit_orders),
    "keys of ledgers": _alone(lambda _: audit_identities()),
    "ledger programs": _alone(lambda deep: audit_ledger_programs(200 if deep else 12)),
    "omission": _alone(lambda deep: audit_deletions(300 if deep else 30)),
    "replay": _replayed,
    "timing": _timed,
    "randomness": _randomness,
    **{part: _alone(check) for part, check in RECOMPUTING.items()},
    "hostile": _alone(_hostile),
}

_LONG = {
    "pipelines of questions, replaced": 38, "pipelines of questions": 28, "pipelines of designs": 20,
    "told by sessions of rows": 12, "pipelines of sessions": 11, "pipelines of widest declarations": 10,
    "keys of sessions": 10, "shapes": 9, "pipelines of models": 8, "failures": 7, "keys of ledgers": 6, "hostile": 5,
}  # fmt: skip
"""Seconds of processor time of the parts that take long, about."""


def _weight(part: str) -> float:
    return _LONG.get(part, 15.0 if part.startswith("sessions") else 6.0 if part.startswith("told") else 2.0)


_QUICK_PARTS = (
    "exact", "pipelines of releases", "pipelines of questions", "statistical, many draws", "exhaustive",
    "told by sessions of rows", "ledger programs", "omission", "replay", "randomness", *RECOMPUTING,
)  # fmt: skip
"""What finds most in a minute: every question once, every law, all arithmetic, and what sessions tell."""
