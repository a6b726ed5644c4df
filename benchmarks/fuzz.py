"""Plans, data files, bundles, ledgers and requests that nobody would write: each is answered or refused, soon.

Run with what is tried (``plans``, ``files``, ``bundles``, ``ledgers`` or ``requests``; all of them by default), a
number, and the first seed. A plan that is accepted is run, an accepted bundle or ledger is shown. Counted are errors
that are none of the library's own (``failed``, which the command line would show as a traceback) and answers that took
longer than they may. Each sort has a process of its own, whose memory is measured.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.cli.main import main as command_line
from discreet.core.errors import DiscreetError
from discreet.core.ledger.journal import ROOT, chained
from discreet.plans.job import Job

TARGETS = {"plans": 3000, "files": 2000, "bundles": 1000, "ledgers": 1000, "requests": 500}
SECONDS, MEGABYTES = 10.0, 1000.0
_HERE = Path(__file__).parents[1]
Trial = Callable[[random.Random], str]
"""Tries one thing and says how it ended."""


@dataclass
class Fuzz:
    """How the trials of one sort ended, the slowest of them, the most memory, and what must not be."""

    ended: Counter[str]
    slowest: float
    megabytes: float
    findings: list[str]

    @property
    def passed(self) -> bool:
        """Whether each was answered or refused, soon, and within its memory."""
        return not self.findings and self.slowest <= SECONDS and self.megabytes < MEGABYTES


def _tests(name: str) -> Any:
    sys.path.insert(0, str(_HERE))
    return importlib.import_module(f"tests.{name}")


def _run_before(folder: Path) -> Path:
    """A plan that was run, its ledger, and a bundle of both."""
    made = folder / "made"
    made.mkdir()
    return Path(_tests("test_hostile_files").published(made))


def _commanded(*arguments: str) -> str:
    """How a command ends; what it prints is of no interest here."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        try:
            command_line(list(arguments))
        except SystemExit as ended:
            return f"exit {ended.code}"
    return "exit 0"


def plans(folder: Path) -> Trial:
    """Plans with other settings, or pieces cut out, doubled or moved. What stays in its folder is run."""
    tests, made = _tests("test_hostile_files"), _run_before(folder)
    text = (made / "survey.toml").read_text()

    def trial(chance: random.Random) -> str:
        changed, place = text, folder / "plan"
        change = tests.changed_setting if chance.random() < 0.6 else tests.changed_text
        for _ in range(chance.randint(1, 3)):
            changed = change(changed, chance)
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        shutil.copy(made / "survey.csv", place)
        plan = place / "survey.toml"
        plan.write_text(changed, encoding="utf-8", errors="replace")
        try:
            file = Job(plan).file
        except DiscreetError:
            return _commanded("plan", str(plan))
        own = all(os.path.realpath(one).startswith(f"{place}/") for one in (file.ledger, file.output))
        return _commanded(*(("run", str(plan), "--quiet") if own else ("plan", str(plan))))

    return trial


def files(folder: Path) -> Trial:
    """Tables of hard values, broken quotes, other encodings, and noise: described, counted, and a mean taken."""
    tests = _tests("test_hostile_input")

    def trial(chance: random.Random) -> str:
        place = tests.hostile_file(chance, folder)
        ended = str(tests.look_at(place, chance))
        place.unlink()
        return ended

    return trial


def bundles(folder: Path) -> Trial:
    """Bundles with another value somewhere, half of them signed again; or other bytes."""
    tests = _tests("test_hostile_files")
    bundle, place = json.loads((_run_before(folder) / "survey.bundle").read_text()), folder / "a.bundle"

    def trial(chance: random.Random) -> str:
        text = json.dumps(tests.changed_bundle(bundle, chance))
        place.write_text(tests.changed_text(text, chance) if chance.random() < 0.3 else text, errors="replace")
        return _commanded("verify", str(place))

    return trial


def ledgers(folder: Path) -> Trial:
    """Ledgers whose hashes fit, as somebody makes them who knows the format; or other bytes. Some are written to."""
    tests, made = _tests("test_hostile_files"), _run_before(folder)
    header, *lines = (made / "survey.ledger").read_text().splitlines()
    split = [line.split(" ", 2) for line in lines]

    def trial(chance: random.Random) -> str:
        place, before, written = chance.randrange(len(split)), ROOT, [header]
        for seq, (_, kind, body) in enumerate(split, start=1):
            if seq == place + 1:
                body = json.dumps(tests.changed_value(json.loads(body), chance), sort_keys=True, separators=(",", ":"))
            before = chained(before, seq, kind, body)
            written.append(f"{before} {kind} {body}")
        text = "\n".join([*written, ""])
        ledger = made / "survey.ledger"
        ledger.write_text(tests.changed_text(text, chance) if chance.random() < 0.3 else text, errors="replace")
        for beside in ("-head", "-state", "-sources"):
            Path(f"{ledger}{beside}").unlink(missing_ok=True)
        shown = [("ledger", "show", str(ledger)), ("ledger", "show", str(ledger), "--by", "release", "--json")]
        used = [("ledger", "verify", str(ledger)), ("run", str(made / "survey.toml"), "--quiet")]
        return max(_commanded(*one) for one in (*shown, *used))

    return trial


def requests(folder: Path) -> Trial:
    """Requests to the studio, whose plan is written anew now and then."""
    tests = _tests("test_hostile_input")
    work = folder / "work"
    work.mkdir()
    tests.write_people(work / "people.csv", 50)
    browser = tests.Browser(work)

    def trial(chance: random.Random) -> str:
        if chance.random() < 0.3 or not (work / "people.toml").exists():
            (work / "people.toml").write_text(tests.PLAN)
        answer = tests.hostile_request(chance, browser)
        if answer.status_code >= 500 or tests.app.FAILED in answer.text:
            raise RuntimeError(f"{answer.status_code}: {answer.url}")
        return str(answer.status_code)

    return trial


SORTS: dict[str, Callable[[Path], Trial]] = {
    "plans": plans, "files": files, "bundles": bundles, "ledgers": ledgers, "requests": requests,
}  # fmt: skip


def timed(trial: Trial, seed: str, found: Fuzz) -> tuple[str, float]:
    """How a trial ended, and after how many seconds."""
    start = time.perf_counter()
    try:
        ended = trial(random.Random(seed))
    except Exception as failure:  # that is what is looked for
        ended = "failed"
        found.findings.append(f"{seed}: {type(failure).__name__}: {str(failure)[:200]}")
    return ended, time.perf_counter() - start


def tried(what: str, number: int, first: int) -> Fuzz:
    """The trials of one sort, in this process."""
    found = Fuzz(Counter(), 0.0, 0.0, [])
    with tempfile.TemporaryDirectory() as name:
        os.environ |= {"HOME": name, "XDG_CONFIG_HOME": name}
        folder = Path(os.path.realpath(name))
        trial = SORTS[what](folder)
        for seed in range(first, first + number):
            ended, taken = timed(trial, f"{what} {seed}", found)
            if taken > SECONDS:  # a busy machine is slow once, a hang again
                taken = min(taken, timed(trial, f"{what} {seed}", found)[1])
            found.ended[ended] += 1
            found.slowest = max(found.slowest, taken)
            if taken > SECONDS:
                found.findings.append(f"{what} {seed}: {taken:.0f} s")
    found.megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    return found


def lines(what: str, found: Fuzz, seconds: float) -> list[str]:
    """The rows of the table for one sort."""
    ends = ", ".join(f"{name}: {count:,}" for name, count in sorted(found.ended.items()))
    number = sum(found.ended.values())
    met = "yes" if found.passed and number >= TARGETS[what] else "no"
    return [
        f"{what:<10}{number:>7,}{found.ended['failed']:>8}{found.slowest:>10.1f} s{found.megabytes:>7.0f} MB"
        f"{seconds:>7.0f} s   target {TARGETS[what]:,}: met {met}",
        f"{'':<10}{ends}",
        *found.findings,
    ]


def main() -> None:
    """Try each sort in a process of its own, and print what was found."""
    if len(sys.argv) > 3:
        what, number, first = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
        start = time.perf_counter()
        found = tried(what, number, first)
        print("\n".join(lines(what, found, time.perf_counter() - start)))
        sys.exit(not found.passed)
    print(f"{'fuzz':<10}{'tried':>7}{'failed':>8}{'slowest':>12}{'memory':>10}{'in all':>9}")
    statuses = []
    for what in sys.argv[1:2] or SORTS:
        wanted = sys.argv[2] if len(sys.argv) > 2 else str(TARGETS[what])
        command = [sys.executable, "-W", "ignore", __file__, what, wanted, str(int(time.time()))]
        with open(os.devnull, "w") as nowhere:  # refusals are words on the other stream
            statuses.append(subprocess.run(command, check=False, stderr=nowhere).returncode)
    sys.exit(any(statuses))


if __name__ == "__main__":
    main()
