"""Many processes and threads, forks and kills: no release without a durable spend, no budget overspent."""

import json
import multiprocessing
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from discreet.core.guarantee import PureDP
from discreet.results.ledger import Ledger
from tests.core.test_ledger_faults import spend
from tests.processes import LIMIT, output


def run(program: str, *arguments: object, limit: float = LIMIT) -> list[Any]:
    """The JSON lines that a program prints; forking is left to processes without the test runner's threads."""
    command = [sys.executable, "-W", "error", "-c", program, *map(str, arguments)]
    return [json.loads(line) for line in output(command, limit=limit).splitlines()]


# -- kills ---------------------------------------------------------------------------------------------------

TRIALS = """
import dataclasses, json, sys
from discreet.testing.crashes import crash_trials
report = crash_trials(sys.argv[1], int(sys.argv[2]), seed=int(sys.argv[3]))
print(json.dumps(dataclasses.asdict(report)))
"""


def survived(directory: Path, trials: int, seed: int) -> None:
    (report,) = run(TRIALS, directory, trials, seed, limit=max(LIMIT, trials))
    assert report["lost"] == 0, report["findings"]
    assert min(report[name] for name in ("lines", "moments", "torn", "starved")) >= trials / 50
    assert report["drawn"] >= trials / 20  # the trials did reach the interesting steps


def test_killed_starved_and_torn(tmp_path: Path) -> None:
    survived(tmp_path, 500, seed=1)


@pytest.mark.deep
def test_killed_starved_and_torn_ten_thousand_times(tmp_path: Path) -> None:
    survived(tmp_path, 10_000, seed=2)


DISTURBED = """
import dataclasses, json, sys
from discreet.testing.crashes import crash_trials
print(json.dumps(dataclasses.asdict(crash_trials(sys.argv[1], int(sys.argv[2]), seed=int(sys.argv[3]), writers=8))))
"""


@pytest.mark.parametrize("trials", [250, pytest.param(3000, marks=pytest.mark.deep)])
def test_handlers_and_forks_of_eight_writers(tmp_path: Path, trials: int) -> None:
    """Signals in the middle of payments, whose handlers look, spend and fork, until the writers are killed."""
    (report,) = run(DISTURBED, tmp_path, trials, 4, limit=max(LIMIT, trials))
    assert report["lost"] == 0, report["findings"]
    assert min(report[name] for name in ("moments", "handled", "forked", "drawn")) >= trials / 50


RUNS = """
import dataclasses, json, sys
from discreet.testing.crashes import run_trials
print(json.dumps(dataclasses.asdict(run_trials(sys.argv[1], int(sys.argv[2]), seed=5))))
"""


@pytest.mark.parametrize("trials", [12, pytest.param(1000, marks=pytest.mark.deep)])
def test_killed_runs_are_resumed(tmp_path: Path, trials: int) -> None:
    (report,) = run(RUNS, tmp_path, trials, limit=max(LIMIT, 5.0 * trials))
    assert report["lost"] == 0, report["findings"]
    assert report["moments"] >= trials


MUTANT = """
import json, sys
from discreet.testing.crashes import crash_trials
from discreet.core.ledger.account import Reservation
from discreet.results.ledger import Ledger

{mutation}
report = crash_trials(sys.argv[1], 200, seed=3)
print(json.dumps(report.lost))
"""
LAZY = """
# Draws first and spends when the answer is recorded.
pay, record = Ledger.pay, Ledger.record_answer
def lazy(self, content, **options):
    self.waiting = (content, options)
    return Reservation(seq=1, hash="00" * 32, release_id="", request=None)
def late(self, reservation, answer):
    content, options = self.waiting
    return record(self, pay(self, content, **options), answer)
Ledger.pay, Ledger.record_answer = lazy, late
"""
NO_WITNESS = """
from discreet.core.ledger.journal import FileJournal
FileJournal.attest = lambda self, entry: None
"""
FORGETFUL = """
# Writes three of four entries, and does not read them back.
from discreet.core.ledger.journal import FileJournal
append = FileJournal._append
FileJournal._append = lambda self, handle, entry: append(self, handle, entry) if entry.seq % 4 else None
Ledger._read_back = lambda self, entry: None
"""


@pytest.mark.parametrize("mutation", [LAZY, NO_WITNESS, FORGETFUL], ids=["lazy", "no witness", "forgetful"])
def test_trials_find_faults(tmp_path: Path, mutation: str) -> None:
    (lost,) = run(MUTANT.format(mutation=mutation), tmp_path)
    assert lost > 0


# -- races ---------------------------------------------------------------------------------------------------

RACE = """
import json, os, sys
from discreet.core.errors import InsufficientBudget
from discreet.core.guarantee import PureDP
from discreet.results.ledger import Ledger
from tests.core.test_ledger_faults import spend

def racer(budget):
    succeeded = 0
    with Ledger(sys.argv[1], budget) as ledger:
        for _ in range(int(sys.argv[2])):
            try:
                spend(ledger, 0.01)
                succeeded += 1
            except InsufficientBudget:
                pass
    return succeeded

children = []
for _ in range(int(sys.argv[3])):
    inlet, outlet = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(outlet, b"%d" % racer(PureDP(0.5)))
        os._exit(0)
    os.close(outlet)
    children.append((child, inlet))
for child, inlet in children:
    print(int(os.read(inlet, 9)))
    os.waitpid(child, 0)
"""


def test_processes_race_for_the_last_of_the_budget(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    succeeded = run(RACE, path, 20, 8)  # they also race to create the file
    assert sum(succeeded) == 50
    with Ledger(path) as ledger:
        assert ledger.verify().spends == 50
        assert ledger.remaining() == PureDP(0.0)


SAME_REQUEST = """
import json, os, sys
from discreet.core.guarantee import PureDP
from discreet.results.ledger import Ledger
from tests.core.test_ledger_faults import spend

children = []
for number in range(8):
    inlet, outlet = os.pipe()
    child = os.fork()
    if child == 0:
        with Ledger(sys.argv[1]) as ledger:
            for request in range(10):
                reservation = spend(ledger, 0.1, request=str(request))
                answer = reservation.answer if reservation.answered else ledger.record_answer(reservation, number)
                os.write(outlet, b"%d" % answer)
        os._exit(0)
    os.close(outlet)
    children.append((child, inlet))
for child, inlet in children:
    os.waitpid(child, 0)
    print(json.dumps(os.read(inlet, 10).decode()))
"""


def test_one_request_has_one_answer(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    Ledger(path, PureDP(1.0)).close()
    answers = run(SAME_REQUEST, path)
    assert len(answers) == 8
    assert len(answers[0]) == 10
    assert len(set(answers)) == 1
    with Ledger(path) as ledger:
        assert ledger.verify().spends == 10


def test_threads_share_a_ledger(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db", PureDP(1.0)) as ledger, ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda number: ledger.record_answer(spend(ledger, 0.01), number), range(100)))
        assert done == list(range(100))
        assert ledger.verify().entries == 201


def worker(ledger: Ledger) -> int:
    return spend(ledger, 0.1).seq


def test_spawned_workers_share_a_ledger(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db", PureDP(1.0)) as ledger:
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            positions = pool.map_async(worker, [ledger] * 4).get(LIMIT)
        assert sorted(positions) == [2, 3, 4, 5]
        assert ledger.remaining() == PureDP(0.6)


# -- forks ---------------------------------------------------------------------------------------------------

FORKED = """
import json, os, sys, time
from discreet.core.errors import LedgerUnavailable
from discreet.core.guarantee import PureDP
from discreet.results.ledger import Ledger
from tests.core.test_ledger_faults import spend

memory = Ledger(":memory:", PureDP(1.0))
ledger = Ledger(sys.argv[1], PureDP(1.0))
spend(ledger)
inlet, outlet = os.pipe()
if os.fork() == 0:
    # The parent closes its ledger, and with it the log, while the child goes on.
    spend(ledger)
    os.write(outlet, b"ready")
    time.sleep(0.3)
    spend(ledger)
    try:
        spend(memory)
    except LedgerUnavailable as error:
        print(json.dumps(str(error)), flush=True)
    os._exit(0)
os.close(outlet)
os.read(inlet, 5)  # nothing, where the child failed
spend(ledger)
spend(memory)
ledger.close()
assert os.wait()[1] == 0
with Ledger(sys.argv[1]) as ledger:
    print(ledger.verify().spends)
"""


def test_forked_child_spends_from_the_same_file(tmp_path: Path) -> None:
    refusal, spends = run(FORKED, tmp_path / "ledger.db")
    assert "an in-memory ledger cannot be used in a forked process" in refusal
    assert spends == 4


def test_fork_hooks_hold_no_lock(tmp_path: Path) -> None:
    if not hasattr(os, "fork"):
        pytest.skip("no fork on this system")
    program = """
import os, sys, threading
from discreet.core.guarantee import PureDP
from discreet.results.ledger import Ledger
from tests.core.test_ledger_faults import spend

ledger = Ledger(sys.argv[1], PureDP(1000.0))
stop = threading.Event()
def spender():
    while not stop.is_set():
        spend(ledger, 0.001)
thread = threading.Thread(target=spender)
thread.start()
for _ in range(5):
    child = os.fork()
    if child == 0:
        spend(ledger, 0.001)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
thread.join()
print(len(ledger.events()))
"""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, str(tmp_path / "ledger.db")]
    assert int(output(command)) >= 5
