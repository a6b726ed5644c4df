"""Interrupts and threads: a ledger object goes on after Ctrl-C at any instruction, and so do all others."""

import gc
import json
import os
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from discreet.audit.tampering import audit_interrupts, interrupted
from discreet.core.guarantee import PureDP
from discreet.core.ledger.journal import FileJournal
from discreet.results.ledger import Ledger
from tests.core.test_ledger_faults import spend
from tests.processes import output


@pytest.mark.parametrize("place", [":memory:", "file"])
def test_interrupt_at_any_instruction_of_a_spend(tmp_path: Path, place: str) -> None:
    path = place if place == ":memory:" else tmp_path / "ledger"
    with Ledger(path, PureDP(1000.0)) as ledger:
        other = ledger if place == ":memory:" else Ledger(path, timeout=0.2)
        total, _ = interrupted(lambda: spend(ledger, 0.001), None)
        reserved, kept = 1, []
        for at in range(1, total + 1, max(1, total // 250)):  # 250 interrupts, spread over the whole step
            _, stopped = interrupted(lambda: spend(ledger, 0.001), at)
            kept.append(stopped)
            spend(other, 0.001)  # nobody waits for the lock of an interrupted step
            spend(ledger, 0.001)
            reserved += 2 + (stopped is None)
        assert sum(stopped is not None for stopped in kept) >= 150
        assert reserved <= ledger.verify().spends <= reserved + len(kept)
        assert ledger.budget == PureDP(1000.0)
        other.close()


@pytest.mark.deep
def test_interrupt_at_every_instruction_of_a_spend(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger", PureDP(1000.0)) as ledger, Ledger(tmp_path / "ledger", timeout=0.2) as other:
        total, _ = interrupted(lambda: spend(ledger, 0.001), None)
        for at in range(1, total + 1):
            _, stopped = interrupted(lambda: spend(ledger, 0.001), at)
            spend(other, 0.001)
            del stopped
        assert ledger.verify().spends >= total


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file that the interrupt left open
def test_interrupt_while_opening(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger", PureDP(1000.0)) as ledger:
        for _ in range(3):
            spend(ledger)
    total, _ = interrupted(lambda: Ledger(tmp_path / "ledger").close(), None)
    for at in range(1, total, max(1, total // 200)):
        _, stopped = interrupted(lambda: Ledger(tmp_path / "ledger").close(), at)
        with Ledger(tmp_path / "ledger", timeout=0.2) as ledger:
            spend(ledger, 0.001)
        del stopped
    left = sys.exc_info()[1]  # an interrupt may leave an exception being handled, and with it open files
    while left is not None:
        traceback.clear_frames(left.__traceback__)
        left = left.__context__
    gc.collect()  # here, where the warning is expected


def test_audit_finds_locks_that_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that gives its lock back only where nothing goes wrong."""

    def careless(journal: FileJournal, decide: Any, flags: int = 0) -> Any:
        entry = journal._written(decide, flags)
        journal.release()
        return entry

    monkeypatch.setattr(FileJournal, "write", careless)
    assert not audit_interrupts(20).passed


STORM = """
import signal, sys, threading, time, os
from discreet.core.guarantee import PureDP
from discreet.results.ledger import Ledger
from tests.core.test_ledger_faults import spend
ledger = Ledger(sys.argv[1], PureDP(1000.0))
wanted, drawn, interrupts = int(sys.argv[2]), 0, 0
def storm():
    while interrupts < wanted:  # however many signals that takes: those that arrive together are one
        time.sleep(0.002)
        os.kill(os.getpid(), signal.SIGINT)
def interrupted(number, frame):
    global armed
    if armed:  # one at a time: a second one could hit the lines that handle the first
        armed = False
        raise KeyboardInterrupt
armed = False
signal.signal(signal.SIGINT, interrupted)
thread = threading.Thread(target=storm)
thread.start()
while thread.is_alive():
    try:
        while thread.is_alive():
            armed = True  # each time, as an interrupt in a destructor is lost
            spend(ledger, 0.001)
            drawn += 1
        armed = False
    except KeyboardInterrupt:
        interrupts += 1
signal.signal(signal.SIGINT, signal.SIG_IGN)
thread.join()
spend(ledger, 0.001)
report = ledger.verify()
print(drawn + 1, interrupts, report.spends)
"""


def test_storm_of_interrupts(tmp_path: Path) -> None:
    told = output([sys.executable, "-c", STORM, str(tmp_path / "ledger"), "150"])
    drawn, interrupts, spends = map(int, told.split())
    assert interrupts >= 150
    assert drawn <= spends <= drawn + interrupts


def test_eight_threads_share_a_ledger(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger", PureDP(0.4)) as ledger, ThreadPoolExecutor(8) as pool:

        def work(number: int) -> int:
            reservation = spend(ledger, 0.001, request=str(number // 2))
            return int(ledger.record_answer(reservation, number) // 2)

        assert list(pool.map(work, range(400))) == [number // 2 for number in range(400)]
        assert ledger.verify().spends == 200
        assert ledger.remaining() == PureDP(0.2)


FORKS = """
import os, sys, threading
from discreet.core.guarantee import PureDP
from discreet.results.ledger import Ledger
from tests.core.test_ledger_faults import spend
ledger = Ledger(sys.argv[1], PureDP(1000.0))
stop, spent = threading.Event(), [0] * 4
def spender(number):
    while not stop.is_set():
        spend(ledger, 0.001)
        spent[number] += 1
threads = [threading.Thread(target=spender, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        spend(ledger, 0.001)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for thread in threads:
    thread.join()
print(sum(spent) + 20, ledger.verify().spends)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forks_among_threads(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS, str(tmp_path / "ledger")]
    drawn, spends = map(int, output(command).split())
    assert drawn == spends


HANDLERS = """
import json, os, signal, sys, time
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from discreet.audit.tampering import interrupted
from discreet.core.errors import LedgerError
from discreet.core.guarantee import PureDP
from discreet.core.ledger.balance import Approvals
from discreet.results.ledger import Ledger
from tests.core.test_ledger_faults import spend

path, subject, action, wanted = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
key = Ed25519PrivateKey.generate()
ruled = subject in ("approval", "renewal")
rule = Approvals(1, {"officer": key.public_key().public_bytes_raw().hex()}) if ruled else None
ledger = Ledger(path, PureDP(500.0), approvals=rule, timeout=60.0)
numbers, problems = iter(range(10**9)), []

def approved(renewal):
    more = {"renew": PureDP(0.001).to_dict()} if renewal else {"releases": {}}
    return ledger.approve({"reason": next(numbers)} | more, by="officer", sign=key.sign)

calls = {
    "spend": lambda: spend(ledger, 0.001).hash,
    "look": lambda: str(ledger.remaining()),
    "approval": lambda: approved(False),
    "renewal": lambda: approved(True),
}
write = calls["approval" if ruled else "spend"]

def beside():  # a colleague, who tells which notes are written
    inlet, outlet = os.pipe()
    process = os.fork()
    if process == 0:
        with Ledger(path, timeout=60.0) as own:
            number = 0
            while os.getppid() == parent:
                own.note(sources=[f"{os.getpid()} {number}"])
                os.write(outlet, b"x")
                number += 1
                time.sleep(0.002)  # a statement that is signed needs a moment in which nobody else writes
        os._exit(0)
    os.close(outlet)
    return process, inlet

parent, results, children = os.getpid(), [], []
colleagues = [beside() for _ in range(2)]
for _, pipe in colleagues:  # each has written before anything begins
    os.read(pipe, 1)
outlet = os.open(f"{path}-told", os.O_WRONLY | os.O_CREAT | os.O_APPEND)  # a pipe would be full some time

def attempt(call):
    # What a call gives, or that it was refused in words.
    try:
        return call()
    except LedgerError as error:
        return f"refused: {error}"

def forked():
    child = os.fork()
    if child:
        children.append(child)
    elif action == "fork, and the child spends":
        os.write(outlet, (json.dumps(attempt(write)) + "\\n").encode())
        os._exit(0)

handler = {"look": lambda: results.append(("look", attempt(calls["look"]))),
           "spend": lambda: results.append(("handler", attempt(write)))}.get(action, forked)
found = []
total, _ = interrupted(calls[subject], None)
for at in range(1, total + 1, max(1, total // wanted)):
    found.clear()
    interrupted(lambda: found.append(attempt(calls[subject])), at, handler)
    if os.getpid() != parent:  # the child went on with the call that the fork hit
        os.write(outlet, (json.dumps(found[0] if found else None) + "\\n").encode())
        os._exit(0)
    if found[0].startswith("refused"):
        problems.append(f"the interrupted call at {at}: {found[0]}")
    results.append(("parent", found[0]))
    while children:
        if os.waitpid(children.pop(), 0)[1]:
            problems.append(f"a child of the fork at {at} failed")
with open(f"{path}-told") as told:
    results += [("child", json.loads(line)) for line in told]
notes = []
for process, pipe in colleagues:
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    count = 1
    while block := os.read(pipe, 65536):
        count += len(block)
    notes += [f"{process} {number}" for number in range(count)]
with Ledger(path) as fresh:
    fresh.verify()
    entries = fresh.entries()
    hashes = {entry.hash for entry in entries}
    plans = [entry.content["plan"] for entry in entries if entry.kind == "approval"]
    lost = [note for note in notes if not fresh.counts(note)]
problems += [f"lost: {note}" for note in lost]
given = [(who, one) for who, one in results if not one.startswith(("refused", "ε = "))]
problems += [f"lost by {who}: {one}" for who, one in given if one not in hashes and one not in plans]
print(json.dumps({"problems": problems, "notes": len(notes), "given": len(given), "places": at,
                  "refused": sorted({one for _, one in results if one.startswith("refused")})}))
"""
ACTIONS = ["look", "spend", "fork", "fork, and the child spends"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("wanted", [15, pytest.param(10**6, marks=pytest.mark.deep)])
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("subject", ["spend", "look", "approval", "renewal"])
def test_signal_handlers_and_forks_inside_a_step(tmp_path: Path, subject: str, action: str, wanted: int) -> None:
    """At instructions of a step, beside two writers; in the deep test at every one."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", HANDLERS, str(tmp_path / "ledger")]
    found = json.loads(output([*command, subject, action, str(wanted)], limit=3600.0))
    assert found["problems"] == []
    assert found["notes"] > 0
    assert all("in the middle of" in one for one in found["refused"])
