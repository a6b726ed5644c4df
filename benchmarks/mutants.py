"""Mutants: small faults in what must be right, and who notices them: the default audit, and the tests.

``mutation.py`` says which functions are in the scope, and changes one operator, constant, guard, argument order or
rounding direction at a time. A mutant runs in a forked process in which the function's code is replaced, so
everything is imported once. The tasks of the default audit that execute the changed line run first, those that
noticed other mutants of the function before the others and the quickest before the slow, until one notices; where
none does, the tests that execute the line. Limits are processor time, so that a busy machine decides nothing.
Controls, which change nothing, must go unnoticed.

Run ``make mutants`` for all of them, or ``python benchmarks/mutants.py --sample 600`` for a random sample.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from discreet.audit.recomputing import RECOMPUTING

sys.path.insert(0, str(Path(__file__).resolve().parent))
from mutant_page import page
from mutation import SOURCE, Index, Mutant, all_mutants, index_of_functions, plant, sampled

ROOT = SOURCE.parent.parent
EXPLAINED = ROOT / "docs" / "audit" / "survivors.json"
RESULTS = ROOT / "docs" / "audit" / "mutants.json"
AUDIT_SECONDS, TEST_SECONDS = 4.0, 6.0
"""Processor time that the audit and the tests have for one mutant."""
LONGEST_TEST = 6.0
UNDECIDED = "out of time"
OPEN = (None, UNDECIDED)
Place = tuple[str, int]


@dataclass
class Item:
    """Something that can notice a mutant: what it runs, how long that takes, and which lines it executes."""

    name: str
    check: Callable[[], bool]
    seconds: float = 0.0
    reaches: frozenset[Place] = frozenset()


# ---- the default audit, in tasks ------------------------------------------------------------------------------------


def loaded() -> None:
    """Import what the package imports late, so that no forked process has to."""
    late = ("duckdb", "ibis.backends.duckdb", "pandas", "polars", "pyarrow.parquet", "scipy.special", "scipy.stats")
    for name in (*late, "scipy.optimize", "psycopg"):
        import_module(name)
    for path in sorted(SOURCE.rglob("*.py")):
        if path.parent.name not in ("studio", "papers") and path.name != "__main__.py":
            import_module(".".join(path.relative_to(SOURCE.parent).with_suffix("").parts))


def audit_tasks() -> dict[str, Callable[[], bool]]:
    """Parts of the default audit, as small as they can be run alone; each tells whether it passes."""
    from discreet.audit import run
    from discreet.audit.catalogue import cases
    from discreet.audit.generated_worlds import generated_worlds
    from discreet.audit.model_pipelines import model_pipelines
    from discreet.audit.pipeline import audit_pipeline
    from discreet.audit.release_pipelines import release_pipelines
    from discreet.audit.replay_cases import replay_cases
    from discreet.audit.session_attacks import attack_world
    from discreet.audit.session_pipelines import session_pipelines

    def piped(pipeline: Any) -> bool:
        audit = audit_pipeline(pipeline, scripts=1, pairs=6)
        return audit.passed and (audit.loss.tightness >= 0.99 or not pipeline.tight)

    def exact(case: Any) -> bool:
        audit = case.exact()
        return bool(audit.passed and (audit.tightness >= 0.99 or not case.tight))

    def attacked(world: Any) -> bool:
        return all(one.passed for one in attack_world(world))

    def lines(part: str) -> bool:
        return all(line.passed for line in run._part(part, False)[1])

    tasks: dict[str, Callable[[], bool]] = {}
    for source in (release_pipelines, session_pipelines, model_pipelines):
        tasks |= {f"pipeline {one.name}": partial(piped, one) for one in source() if one.quick}
    tasks |= {f"exact {one.name}": partial(exact, one) for one in cases() if one.exact is not None}
    tasks |= {f"replay {one.name}": lambda one=one: bool(one.audit(6).passed) for one in replay_cases()}  # type: ignore[misc]
    tasks |= {world.name: partial(attacked, world) for world in generated_worlds()}
    # What is in the tasks already; and draws and times, which would notice a little more, but take long.
    others = ("pipelines", "replay", "sessions", "calibration", "timing", "statistical", "sweep", "exact")
    parts = [part for part in run._PARTS if part.split(",")[0].split(" ")[0] not in others]
    return tasks | {part: partial(lines, part) for part in parts}


# ---- what an item executes ------------------------------------------------------------------------------------------


def traced(item: Item, wanted: frozenset[str]) -> tuple[float, list[Place], bool]:
    """Run an item once and note every line of the mutated files that it executes."""
    seen: set[Place] = set()

    def lines(frame: Any, event: str, argument: Any) -> Any:
        seen.add((frame.f_code.co_filename, frame.f_lineno))
        return lines

    def calls(frame: Any, event: str, argument: Any) -> Any:
        return lines if frame.f_code.co_filename in wanted else None

    start = time.process_time()
    sys.settrace(calls)
    try:
        passed = quietly(item.check)
    finally:
        sys.settrace(None)
    return (time.process_time() - start) / 3, sorted(seen), passed  # a trace makes it about three times as slow


def quietly(check: Callable[[], bool]) -> bool:
    """Run a check without its words; an error is a finding."""
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        try:
            return check()
        except BaseException:
            return False


def forked(work: Callable[[], Any], seconds: float) -> Any:
    """What a function returns in a process of its own; None where it takes too long or dies."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(reading)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.alarm(int(8 * seconds))  # waits for nothing forever
        limit_processor(seconds)
        resource.setrlimit(resource.RLIMIT_AS, (2**34, 2**34))
        try:
            answer = json.dumps(work())
        except BaseException:
            answer = "null"
        with os.fdopen(writing, "w") as pipe:
            pipe.write(answer)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else None


def limit_processor(seconds: float) -> None:
    """End this process after so much more processor time."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


def share_out(tasks: list[Callable[[], None]]) -> None:
    """Each task in a process of its own, all at once."""
    children = []
    for task in tasks:
        child = os.fork()
        if child == 0:
            task()
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


class Map:
    """What each item executes, kept in a file so that a second run need not find it again."""

    def __init__(self, file: Path, wanted: frozenset[str], workers: int) -> None:
        self.file, self.wanted, self.workers = file, wanted, workers
        known = file.read_text().splitlines() if file.exists() else []
        self.found: dict[str, Any] = dict(map(json.loads, known))

    def of(self, items: list[Item], longest: float) -> list[Item]:
        """Items with their times and lines, quickest first; without those that fail by themselves or take too long."""
        missing = [item for item in items if item.name not in self.found]
        share_out([partial(self._trace, missing[number :: self.workers]) for number in range(self.workers)])
        self.found |= dict(map(json.loads, self.file.read_text().splitlines() if self.file.exists() else []))
        kept = []
        for item in items:
            seconds, places, passed = self.found.get(item.name) or (0.0, [], False)
            if passed and seconds <= longest:
                reaches = frozenset((str(SOURCE / file), line) for file, line in places)
                kept.append(Item(item.name, item.check, seconds, reaches))
            else:
                print(f"left out: {item.name} ({f'{seconds:.0f} s' if passed else 'fails or hangs'})", flush=True)
        return sorted(kept, key=lambda item: item.seconds)

    def _trace(self, items: list[Item]) -> None:
        for item in items:
            found = forked(partial(traced, item, self.wanted), 240)
            if found is not None:
                found[1] = [(str(Path(file).relative_to(SOURCE)), line) for file, line in found[1]]
            with self.file.open("a") as file:
                file.write(json.dumps([item.name, found]) + "\n")


# ---- who notices a mutant -------------------------------------------------------------------------------------------


@dataclass
class Judge:
    """Runs items on mutants, and remembers which items noticed others in the same function or file."""

    items: list[Item]
    seconds: float
    broad: frozenset[str] = frozenset()
    noticed: Counter[tuple[str, str]] = field(default_factory=Counter)

    def of(self, mutant: Mutant, change: Callable[[], bool]) -> str | None:
        """The first item that notices; one that hangs or dies is noticed too. None where all of them passed."""
        lines = range(mutant.line, mutant.last_line + 1)
        places = {(str(SOURCE / mutant.file), line) for line in lines}
        reaching = [item for item in self.items if item.reaches & places]
        if not reaching:
            return None
        reaching.sort(key=lambda item: self._promise(mutant, item))
        answer = forked(partial(self._run, reaching, change), 3 * self.seconds)
        found = "hangs or dies" if answer is None else answer
        if found and found not in ("hangs or dies", UNDECIDED):
            self.noticed[mutant.file, found] += 1
            self.noticed[f"{mutant.file} {mutant.function}", found] += 4
        return found or None

    def _promise(self, mutant: Mutant, item: Item) -> float:
        before = self.noticed[mutant.file, item.name] + self.noticed[f"{mutant.file} {mutant.function}", item.name]
        broad = 6 if item.name in self.broad else 1  # what computes everything twice notices most
        return (item.seconds + 0.05) / (broad + before)

    def _run(self, reaching: list[Item], change: Callable[[], bool]) -> str:
        if not change():
            return ""
        start, skipped = time.process_time(), False
        for item in reaching:
            if time.process_time() - start + item.seconds > self.seconds:
                skipped = True
                continue
            limit_processor(3 + 5 * item.seconds)  # a loop without end is noticed too
            if not quietly(item.check):
                return item.name
        return UNDECIDED if skipped else ""


# ---- tests ----------------------------------------------------------------------------------------------------------


class Collected:
    """A plugin of pytest that hands the collected tests over instead of running them."""

    def __init__(self, then: Callable[[list[Item]], None]) -> None:
        self.then = then
        self.tests: list[Any] = []

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        self.tests.extend(items)

    def pytest_runtestloop(self, session: Any) -> bool:
        session.config.option.verbose = -2
        self.then([Item(one.nodeid, partial(_passes, one)) for one in self.tests])
        return True


def _passes(test: Any) -> bool:
    from _pytest.runner import runtestprotocol

    return all(report.outcome != "failed" for report in runtestprotocol(test, log=False, nextitem=None))


def with_tests(files: list[str], then: Callable[[list[Item]], None]) -> None:
    """Collect tests and go on inside pytest, where they can be run."""
    import pytest

    only = "not deep and not optimised and not spark and not false_failure"
    pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", only, *files], [Collected(then)])


# ---- the whole ------------------------------------------------------------------------------------------------------


def judged(mutants: list[Mutant], who: str, judge: Judge, index: Index, end: float, out: Path) -> None:
    """Who of the audit's tasks, or of the tests, notices each mutant; written down one by one."""
    for mutant in mutants:
        if time.monotonic() > end:
            break
        found = judge.of(mutant, partial(plant, mutant, index))
        with out.open("a") as file:
            file.write(json.dumps({"name": mutant.name, **asdict(mutant), who: found}) + "\n")


def control(mutants: list[Mutant], who: str, judge: Judge, end: float, out: Path) -> None:
    """Places of mutants, with nothing changed: whatever is noticed there is no mutant."""
    for mutant in mutants:
        if time.monotonic() < end:
            found = judge.of(mutant, lambda: True)
            with out.open("a") as file:
                file.write(json.dumps({"control": mutant.name, who: found}) + "\n")


def report(chosen: list[Mutant], known: Known, total: int, seed: int) -> dict[str, Any]:
    """Counts and the list; survivors that are explained have their reason."""
    reasons = json.loads(EXPLAINED.read_text()) if EXPLAINED.exists() else {}
    listed = []
    for one in (one for one in chosen if one.name in known.audit):
        by_audit, by_tests = known.audit[one.name], known.tests.get(one.name, UNDECIDED)
        killer = by_audit if by_audit not in OPEN else by_tests if by_tests not in OPEN else None
        state = "undecided" if UNDECIDED in (by_audit, by_tests) else "survived"
        reason = None if killer else reasons.get(one.name) or reasons.get(f"{one.file} {one.function}")
        if killer:
            state = f"killed by {'the audit' if killer == by_audit else 'tests'}"
        elif reason and reason.startswith("Equivalent"):
            state = "equivalent"
        listed.append({"name": one.name, "line": one.line, "state": state, "by": killer, "reason": reason})
    count = Counter(one["state"] for one in listed)
    killed = count["killed by the audit"] + count["killed by tests"]
    judged = len(listed) - count["equivalent"]
    return {
        "mutants": total,
        "seed": seed,
        "sampled": len(listed),
        "killed": killed,
        "survived": count["survived"],
        "equivalent": count["equivalent"],
        "undecided": count["undecided"],
        "killed_by_audit": count["killed by the audit"],
        "asked_of_tests": sum(one.name in known.tests for one in chosen),
        "rate": round(killed / judged, 4) if judged else None,
        "audit_rate": round(count["killed by the audit"] / judged, 4) if judged else None,
        "controls": len(known.controls),
        "controls_noticed": sum(found not in OPEN for found in known.controls.values()),
        "list": sorted(listed, key=lambda one: one["name"]),
    }


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sample", type=int, help="a random sample instead of all mutants")
    parser.add_argument("--seed", type=int, default=15, help="of the sample")
    parser.add_argument("--controls", type=int, default=10, help="how many places to run with nothing changed")
    parser.add_argument("--minutes", type=float, default=600.0, help="stop after so long")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--work", type=Path, default=ROOT / ".mutants", help="folder of what is known so far")
    parser.add_argument("--again", action="store_true", help="run what survived or stayed undecided again")
    parser.add_argument("--report", action="store_true", help="run nothing; only count what is known")
    parser.add_argument("--tests", nargs="*", default=[], help="files of tests to ask where the audit notices nothing")
    options = parser.parse_args()
    every = all_mutants()
    chosen = sampled(every, options.sample, options.seed)
    print(f"{len(every):,} mutants, {len(chosen):,} of them chosen", flush=True)
    options.work.mkdir(parents=True, exist_ok=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    file = options.work / f"judged-{_version()}.jsonl"

    end = time.monotonic() + 60 * options.minutes
    maps = Map(
        options.work / f"map-{_version()}.jsonl", frozenset(str(SOURCE / one.file) for one in every), options.workers
    )

    def judge(who: str, items: list[Item], longest: float, seconds: float) -> None:
        gc.unfreeze()
        gc.collect()
        index = index_of_functions()
        gc.freeze()  # so that a forked process shares what it does not change
        reaching = Judge(maps.of(items, longest), seconds, frozenset(RECOMPUTING))
        print(f"{len(reaching.items)} items of {who}", flush=True)
        known = Known.read(file)
        asked = chosen if who == "audit" else [one for one in chosen if known.audit.get(one.name, "") in OPEN]
        before = known.audit if who == "audit" else known.tests
        waiting = [one for one in asked if one.name not in before]
        waiting += [one for one in asked if one.name in before and options.again and _again(known, one.name)]
        print(f"{len(waiting)} mutants for {who}", flush=True)
        shares = [waiting[number :: options.workers] for number in range(options.workers)]
        share_out([partial(judged, share, who, reaching, index, end, file) for share in shares])
        if not known.controls:
            control(chosen[: options.controls], who, reaching, end, file)

    if not options.report:
        loaded()
        judge("audit", [Item(name, check) for name, check in audit_tasks().items()], 120.0, AUDIT_SECONDS)
        if options.tests:
            with_tests(options.tests, lambda collected: judge("tests", collected, LONGEST_TEST, TEST_SECONDS))
    found = report(chosen, Known.read(file), len(every), options.seed)
    options.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    options.out.with_suffix(".md").write_text(page(found, (AUDIT_SECONDS, TEST_SECONDS)))
    print(json.dumps({name: value for name, value in found.items() if name != "list"}, indent=1))


def _version() -> str:
    """A name for the code as it stands: what was found for other code does not count."""
    whole = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCE.rglob("*.py"))))
    return whole.hexdigest()[:12]


@dataclass
class Known:
    """What was found so far: who noticed each mutant, by name, and what was noticed where nothing was changed."""

    audit: dict[str, str | None] = field(default_factory=dict)
    tests: dict[str, str | None] = field(default_factory=dict)
    controls: dict[str, str | None] = field(default_factory=dict)

    @staticmethod
    def read(file: Path) -> Known:
        """Read what `judged` and `control` wrote; the last word counts."""
        known = Known()
        for line in file.read_text().splitlines() if file.exists() else ():
            one = json.loads(line)
            who = "audit" if "audit" in one else "tests"
            if "control" in one:
                known.controls[f"{who} {one['control']}"] = one[who]
            else:
                getattr(known, who)[one["name"]] = one[who]
        return known


def _again(known: Known, name: str) -> bool:
    """Whether neither the audit nor a test noticed a mutant."""
    return known.audit.get(name) in OPEN and known.tests.get(name) in OPEN


if __name__ == "__main__":
    main()
