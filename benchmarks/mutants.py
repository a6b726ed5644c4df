"""Mutants: small faults in what must be right, and who notices them: the default audit, and the tests.

``mutation.py`` says which functions are in the scope, and changes one operator, constant, guard, argument order or
rounding direction at a time. ``mutant_judge.py`` runs the parts of the default audit that execute the changed line
until one of them notices; where none does, the tests that execute it. Controls, which change nothing, must go
unnoticed. A verdict holds until the function changes, so a run goes on where an earlier one stopped, and starts from
the results that the repository stores.

Run ``make mutants`` for all of them, or ``python benchmarks/mutants.py --sample 600`` for a random sample.
``--only undecided`` judges again what nobody noticed and nobody explained, with the limits of ``--seconds``.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from discreet.audit.run import RECOMPUTING

sys.path.insert(0, str(Path(__file__).resolve().parent))
from mutant_judge import OPEN, UNDECIDED, Item, Judge, Map, share_out
from mutation import SOURCE, Index, Mutant, all_mutants, index_of_functions, plant, sampled

ROOT = SOURCE.parent.parent
EXPLAINED = ROOT / "docs" / "audit" / "survivors.json"
RESULTS = ROOT / "docs" / "audit" / "mutants.json"
SECONDS = (120.0, 120.0)
"""Processor time that the audit and the tests have for one mutant."""
LONGEST = (120.0, 20.0)
"""Processor time of one task of the audit and of one test; longer ones are left out."""


# ---- the default audit, in tasks ------------------------------------------------------------------------------------


def loaded() -> None:
    """Import what the package imports late, so that no forked process has to."""
    late = ("duckdb", "ibis.backends.duckdb", "pandas", "polars", "pyarrow.parquet", "scipy.special", "scipy.stats")
    for name in (*late, "scipy.optimize", "psycopg"):
        import_module(name)
    for path in sorted(SOURCE.rglob("*.py")):
        if path.parent.name not in ("studio", "papers") and path.name != "__main__.py":
            import_module(".".join(path.relative_to(SOURCE.parent).with_suffix("").parts))


def audit_tasks(worlds: int) -> dict[str, Callable[[], bool]]:
    """Parts of the default audit, as small as they can be run alone; each tells whether it passes."""
    from discreet.audit import run
    from discreet.audit.attack_plan import PIPELINES
    from discreet.audit.catalogue import cases
    from discreet.audit.pipeline import audit_pipeline
    from discreet.audit.replay import replay_cases
    from discreet.audit.statistical import audit_pair
    from discreet.audit.worlds import attack_world, generated_worlds

    def piped(pipeline: Any) -> bool:
        audit = audit_pipeline(pipeline, scripts=1, pairs=6)
        return (audit.tightly() if pipeline.tight else audit).passed

    def exact(case: Any) -> bool:
        audit = case.exact()
        return bool((audit.tightly() if case.tight else audit).passed)

    def drawn(case: Any) -> bool:
        return bool(audit_pair(case.here, case.there, case.claim, draws=40_000, confidence=1 - 1e-9).passed)

    def attacked(world: Any) -> bool:
        return all(one.passed for one in attack_world(world))

    def lines(part: str) -> bool:
        return all(line.passed for line in run._part(part, False)[1])

    tasks: dict[str, Callable[[], bool]] = {}
    for source in PIPELINES.values():
        tasks |= {f"pipeline {one.name}": partial(piped, one) for one in source() if one.quick}
    tasks |= {f"exact {one.name}": partial(exact, one) for one in cases() if one.exact is not None}
    tasks |= {f"draws of {one.name}": partial(drawn, one) for one in cases() if not one.slow}
    tasks |= {f"replay {one.name}": lambda one=one: bool(one.audit(6).passed) for one in replay_cases()}  # type: ignore[misc]
    # What is in the tasks already; and times and the auditor's own false alarms, which notice nothing else.
    others = ("pipelines", "replay", "sessions", "calibration", "timing", "statistical", "sweep", "exact")
    parts = [part for part in run._PARTS if part.split(",")[0].split(" ")[0] not in others]
    tasks |= {part: partial(lines, part) for part in parts}
    # A world takes ten seconds and reaches almost every line, so only some of them are asked where all else is silent.
    return tasks | {world.name: partial(attacked, world) for world in islice(generated_worlds(), worlds)}


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


# ---- what is known --------------------------------------------------------------------------------------------------


@dataclass
class Known:
    """What was found so far: who noticed each mutant, by name and code, and what was noticed where nothing changed."""

    audit: dict[tuple[str, str], str | None] = field(default_factory=dict)
    tests: dict[tuple[str, str], str | None] = field(default_factory=dict)
    controls: dict[str, str | None] = field(default_factory=dict)

    @staticmethod
    def read(file: Path, stored: Path) -> Known:
        """Read the stored results, then what this and earlier runs wrote; the last word counts."""
        known = Known()
        for one in json.loads(stored.read_text())["list"] if stored.exists() else ():
            name = one["name"], one.get("code", "")
            if one["state"] == "undecided":
                continue
            known.audit[name] = one["by"] if one["state"] == "killed by the audit" else None
            if one["state"] != "killed by the audit":
                known.tests[name] = one["by"]
        for line in file.read_text().splitlines() if file.exists() else ():
            one = json.loads(line)
            who = "audit" if "audit" in one else "tests"
            if "control" in one:
                known.controls[f"{who} {one['control']}"] = one[who]
            else:
                getattr(known, who)[one["name"], one["code"]] = one[who]
        return known

    def waiting(self, mutants: list[Mutant], who: str, again: bool) -> list[Mutant]:
        """Mutants to judge: those without a verdict, and again those that neither was noticed nor is explained."""
        reasons, found = explanations(), self.audit if who == "audit" else self.tests
        waiting = []
        for one in mutants:
            key = one.name, one.code
            noticed = self.audit.get(key) not in OPEN or self.tests.get(key) not in OPEN
            explained = one.name in reasons or f"{one.file} {one.function}" in reasons
            if not noticed and (key not in found or (again and not explained)):
                waiting.append(one)
        return waiting


def explanations() -> dict[str, str]:
    """Reasons of survivors, by the name of a mutant or of a function."""
    return dict(json.loads(EXPLAINED.read_text())) if EXPLAINED.exists() else {}


# ---- the whole ------------------------------------------------------------------------------------------------------


def judged(who: str, judge: Judge, index: Index, end: float, out: Path, mutant: Mutant) -> None:
    """Who of the audit's tasks, or of the tests, notices a mutant; written down."""
    if time.monotonic() < end:
        found = judge.of(mutant, partial(plant, mutant, index))
        _note(out, {"name": mutant.name, "code": mutant.code, who: found})


def control(who: str, judge: Judge, end: float, out: Path, mutant: Mutant) -> None:
    """The place of a mutant, with nothing changed: whatever is noticed there is no mutant."""
    if time.monotonic() < end:
        _note(out, {"control": mutant.name, who: judge.of(mutant, lambda: True)})


def _note(out: Path, found: dict[str, Any]) -> None:
    with out.open("a") as file:
        file.write(json.dumps(found, ensure_ascii=False) + "\n")


def report(chosen: list[Mutant], known: Known, total: int, seed: int) -> dict[str, Any]:
    """Counts and the list; survivors that are explained have their reason."""
    reasons, listed = explanations(), []
    for one in chosen:
        key = one.name, one.code
        by_audit, by_tests = known.audit.get(key, UNDECIDED), known.tests.get(key, UNDECIDED)
        killer = by_audit if by_audit not in OPEN else by_tests if by_tests not in OPEN else None
        state = "undecided" if UNDECIDED in (by_audit, by_tests) else "survived"
        reason = None if killer else reasons.get(one.name) or reasons.get(f"{one.file} {one.function}")
        if killer:
            state = f"killed by {'the audit' if killer == by_audit else 'tests'}"
        elif reason:
            state = "equivalent" if reason.startswith("Equivalent") else "survived"
        listed.append(
            {"name": one.name, "line": one.line, "code": one.code, "state": state, "by": killer, "reason": reason}
        )
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
        "rate": round(killed / judged, 4) if judged else None,
        "audit_rate": round(count["killed by the audit"] / judged, 4) if judged else None,
        "controls": len(known.controls),
        "controls_noticed": sum(found not in OPEN for found in known.controls.values()),
        "list": sorted(listed, key=lambda one: one["name"]),
    }


def arguments() -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sample", type=int, help="a random sample instead of all mutants")
    parser.add_argument("--seed", type=int, default=15, help="of the sample")
    parser.add_argument("--only", choices=("new", "undecided"), default="new", help="what to judge")
    parser.add_argument("--among", default="", help="judge only mutants whose names match this pattern")
    parser.add_argument("--seconds", type=float, nargs=2, default=SECONDS, help="of the audit and of the tests")
    parser.add_argument("--worlds", type=int, default=4, help="how many generated worlds of the audit to run")
    parser.add_argument("--controls", type=int, default=10, help="how many places to run with nothing changed")
    parser.add_argument("--minutes", type=float, default=600.0, help="stop after so long")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--work", type=Path, default=ROOT / ".mutants", help="folder of what is known so far")
    parser.add_argument("--report", action="store_true", help="run nothing; only count what is known")
    parser.add_argument("--tests", nargs="*", default=[], help="files of tests to ask where the audit notices nothing")
    return parser.parse_args()


@dataclass
class Run:
    """One run over the chosen mutants."""

    options: argparse.Namespace
    chosen: list[Mutant]
    end: float

    @property
    def file(self) -> Path:
        """Where verdicts are written down."""
        return Path(self.options.work) / "judged.jsonl"

    def known(self) -> Known:
        """What was found so far."""
        return Known.read(self.file, RESULTS)

    def ask(self, who: str, items: list[Item], seconds: float, longest: float) -> None:
        """Judge what waits for the audit, or for the tests."""
        known, again = self.known(), self.options.only == "undecided"
        asked = [one for one in self.chosen if who == "audit" or known.audit.get((one.name, one.code), "") in OPEN]
        waiting = [one for one in known.waiting(asked, who, again) if re.search(self.options.among, one.name)]
        print(f"{len(waiting)} mutants for {who}", flush=True)
        maps = Map(self.options.work / "map.jsonl", waiting, self.options.workers)
        traced = maps.of(items, longest, (time.monotonic() + self.end) / 2)
        judge = Judge(traced, seconds, frozenset(RECOMPUTING), maps.complete(items))
        for one in self.chosen:
            noticed = (known.audit if who == "audit" else known.tests).get((one.name, one.code))
            if noticed not in OPEN:
                judge.remember(one, str(noticed))
        gc.unfreeze()
        gc.collect()
        index = index_of_functions()
        gc.freeze()  # so that a forked process shares what it does not change
        share_out(partial(judged, who, judge, index, self.end, self.file), waiting, self.options.workers)
        missing = [one for one in waiting[: self.options.controls] if f"{who} {one.name}" not in known.controls]
        if len(known.controls) < self.options.controls:
            share_out(partial(control, who, judge, self.end, self.file), missing, self.options.workers)


def main() -> None:
    """Read the options and run."""
    options = arguments()
    every = all_mutants()
    chosen = sampled(every, options.sample, options.seed)
    print(f"{len(every):,} mutants, {len(chosen):,} of them chosen", flush=True)
    options.work.mkdir(parents=True, exist_ok=True)
    run = Run(options, chosen, time.monotonic() + 60 * options.minutes)
    if not options.report:
        loaded()
        code = b"".join(path.read_bytes() for path in sorted((SOURCE / "audit").glob("*.py")))
        version = hashlib.sha256(code).hexdigest()[:8]
        tasks = [
            Item(name, check, version=version if name in RECOMPUTING else "")
            for name, check in audit_tasks(options.worlds).items()
        ]
        run.ask("audit", tasks, options.seconds[0], LONGEST[0])
        if options.tests:
            with_tests(options.tests, lambda tests: run.ask("tests", tests, options.seconds[1], LONGEST[1]))
    found = report(chosen, run.known(), len(every), options.seed)
    options.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps({name: value for name, value in found.items() if name != "list"}, indent=1))


if __name__ == "__main__":
    main()
