"""Months of releases on growing data, by four writers at once that are killed at random: what must hold all the time.

Run as a program: ``python -m tests.months FOLDER MONTHS UNITS SEED``. Prints one line of JSON with what happened.
"""

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

from discreet.core.errors import DiscreetError, InsufficientBudget
from discreet.core.guarantee import GaussianDP
from discreet.plans.job import Job
from discreet.results.ledger import Ledger

BUDGET = GaussianDP(1.0)
HEAD = """
period = "{month}"
[source]
path = "visits.csv"
[ledger]
path = "visits.ledger"
[budget]
mu = 1.0
[schema.unit]
column = "person"
rows = 2
[schema.columns.month]
categories = MONTHS
[schema.columns.spend]
low = 0
high = 50
grid = 1
[schema.columns.region]
categories = ["north", "south"]
"""
PLANS = {
    "visits": 'ask = "running_total"\nover = "month"\nmu = 0.6',
    "spend": 'ask = "running_total"\nover = "month"\ncolumn = "spend"\nmu = 0.6',
    "regions": 'ask = "count"\nby = "region"\nmu = 0.1',
    "greedy": 'ask = "count"\nmu = 0.7',
}
"""The first is run by two writers at once. What the last one wants is never left when it asks."""
WRITERS = ("visits", "visits", "spend", "regions")
REFUSED = 3


def prepare(folder: Path, months: list[str], units: int, seed: int) -> list[str]:
    """Write the plans; return the rows of the register, in the order in which they arrive."""
    for name, asked in PLANS.items():
        text = HEAD.replace("MONTHS", json.dumps(months)) + f'[[release]]\nname = "{name}"\n{asked}\n'
        (folder / f"{name}.toml").write_text(text)
    rng = np.random.default_rng(seed)
    people = np.sort(rng.integers(0, len(months), units))
    return [
        f"{person},{months[month]},{rng.integers(0, 50)},{'north' if person % 3 else 'south'}"
        for person, month in enumerate(people)
        for _ in range(1 + person % 2)
    ]


def write(folder: Path, name: str, month: str) -> None:
    """One writer: run a plan, and leave with the status that a scheduler would see."""
    try:
        Job(folder / f"{name}.toml", period=month).run()
        os._exit(0)
    except InsufficientBudget:
        os._exit(REFUSED)
    except DiscreetError as refusal:
        print(refusal, file=sys.stderr)
        os._exit(1)


def start(folder: Path, name: str, month: str) -> int:
    child = os.fork()
    if child == 0:
        write(folder, name, month)
    return child


def check(folder: Path, counted: Counter[str]) -> None:
    """The ledger is whole and within its budget, and no file is half written."""
    with Ledger(folder / "visits.ledger", read_only=True) as ledger:
        found = ledger.verify()
        if not found.spent.within(BUDGET):
            raise SystemExit(f"overspent: {found.spent}")
        requests = [spend.request for spend in ledger.events()]
        if len(set(requests)) != len(requests):
            raise SystemExit("a release was paid for twice")
        counted["unanswered"] = max(counted["unanswered"], sum(not spend.answered for spend in ledger.events()))
        for results in folder.glob("*-report/*/results.json"):
            for release in json.loads(results.read_text())["releases"].values():
                if json.loads(json.dumps(ledger.answer(release["release_id"])["value"])) != release["value"]:
                    raise SystemExit(f"{results}: holds another value than the ledger")
        for page in folder.glob("*-report/*/report.html"):
            if not page.read_text().rstrip().endswith("</html>"):
                raise SystemExit(f"{page}: is half written")
    counted["checks"] += 1


def month_of(folder: Path, month: str, rng: random.Random, counted: Counter[str], late: bool, rounds: int) -> None:
    """Start all writers until all have ended by themselves; kill some of them in the first rounds."""
    waiting, around = list(WRITERS) + ["greedy"] * late, 0
    while waiting:
        children = {start(folder, name, month): name for name in waiting}
        doomed = rng.sample(sorted(children), k=2) if around < rounds and len(children) > 1 else []
        for child in doomed:
            time.sleep(rng.uniform(0.0, 0.35))
            os.kill(child, signal.SIGKILL)
        waiting = []
        for child, name in children.items():
            status = os.waitpid(child, 0)[1]
            if os.WIFSIGNALED(status):
                counted["killed"] += 1
                waiting.append(name)
            elif os.WEXITSTATUS(status) == (REFUSED if name == "greedy" else 0):
                counted["refused" if name == "greedy" else "finished"] += 1
            else:
                raise SystemExit(f"{name}, {month}: status {os.WEXITSTATUS(status)}")
        check(folder, counted)
        around += 1


def main(folder: Path, count: int, units: int, seed: int) -> None:
    months = [f"{2026 + place // 12}-{1 + place % 12:02d}" for place in range(count)]
    rows, rng, counted = prepare(folder, months, units, seed), random.Random(seed), Counter[str]()
    published: dict[str, float] = {}
    for place, month in enumerate(months):
        arrived = [row for row in rows if row.split(",")[1] <= month]
        (folder / "visits.csv").write_text("\n".join(["person,month,spend,region", *arrived]) + "\n")
        month_of(folder, month, rng, counted, late=place >= 5 * count // 6, rounds=1 + (count > 6))
        page = json.loads((folder / "visits-report" / month / "results.json").read_text())
        told = {one["label"]: one["estimate"] for one in page["facts"]["releases"][0]["readings"]
                if one["measure"] == "rows so far"}  # fmt: skip
        if {**told, **published} != told or sorted(told.values()) != [*told.values()]:
            raise SystemExit(f"{month}: what was published before has changed, or fell")
        published = told
    with Ledger(folder / "visits.ledger", read_only=True) as ledger:
        spends = ledger.events()
        counted["releases"], counted["unanswered at the end"] = len(spends), sum(not one.answered for one in spends)
        truth = sum(1 for row in rows)
        print(json.dumps({**counted, "spent": ledger.spent().mu, "published": published[months[-1]], "truth": truth}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:5]))
