"""Interrupts and threads: a ledger object goes on after Ctrl-C at any instruction, and so do all others."""

import gc
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from discreet.audit.interrupts import audit_interrupts, interrupted
from discreet.core.guarantee import PureDP
from discreet.core.ledger.file_journal import FileJournal
from discreet.ledgers import Ledger
from tests.processes import output
from tests.test_ledger_faults import spend


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
    gc.collect()  # here, where the warning is expected


def test_audit_finds_locks_that_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that gives its lock back only where nothing goes wrong."""

    def careless(journal: FileJournal, decide: Any) -> Any:
        entry = journal._written(decide, 0)
        journal.release()
        return entry

    monkeypatch.setattr(FileJournal, "write", careless)
    assert not audit_interrupts(20).passed


STORM = """
import signal, sys, threading, time, os
from discreet.core.guarantee import PureDP
from discreet.ledgers import Ledger
from tests.test_ledger_faults import spend
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
from discreet.ledgers import Ledger
from tests.test_ledger_faults import spend
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
