"""One session, many threads: right answers, exact spends, nobody waits for ever."""

import asyncio
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest

from discreet import Bounds, Categories, Ledger, PureDP, Schema, Session
from tests.processes import output

ROOT = Path(__file__).parents[2]
SCHEMA = Schema(columns={"age": Bounds(18, 100, grid=1), "region": Categories(["north", "south", "west"])})
EPSILON = 10.0  # so that an answer tells for certain whether it is the right one


@pytest.fixture(params=["csv", "frame"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Session:
    shutil.copy(ROOT / "examples" / "survey.csv", tmp_path)
    path = tmp_path / "survey.csv"
    source = path if request.param == "csv" else pyarrow.csv.read_csv(path)
    return Session(source, SCHEMA, ledger=tmp_path / "survey.ledger", budget=PureDP(100 * EPSILON))


def truth() -> dict[str, int]:
    counts = pyarrow.csv.read_csv(ROOT / "examples" / "survey.csv")["region"].value_counts().to_pylist()
    return {one["values"]: one["counts"] for one in counts}


def right(session: Session, number: int) -> bool:
    if number % 2:
        answer = session.count(epsilon=EPSILON, name=f"count {number // 4}")
        return abs(float(answer.value) - sum(truth().values())) < 3
    answer = session.count(epsilon=EPSILON, by="region", name=f"regions {number // 4}")
    return all(abs(value - truth()[name]) < 3 for name, value in zip(SCHEMA_LABELS, answer.value, strict=True))


SCHEMA_LABELS = ("north", "south", "west")


def test_eight_threads_share_a_session(session: Session) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda number: right(session, number), range(200)))
    assert session.ledger.spent() == PureDP(100 * EPSILON)
    assert session.ledger.verify().spends == 100


def test_coroutines_share_a_session(session: Session) -> None:
    async def ask() -> list[bool]:
        return await asyncio.gather(*(asyncio.to_thread(right, session, number) for number in range(24)))

    assert all(asyncio.run(ask()))
    assert session.ledger.verify().spends == 12


def test_a_request_that_another_thread_pays_for_meanwhile_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the last of the budget between a look at the stored answers and a look at the budget."""
    session = Session(ROOT / "examples" / "survey.csv", SCHEMA, ledger=":memory:", budget=PureDP(EPSILON))
    preview, paid = Ledger.preview, []

    def late(ledger: Ledger, guarantee: Any, **options: Any) -> Any:
        if not paid:
            paid.append(True)
            session.count(epsilon=EPSILON, name="all")
        return preview(ledger, guarantee, **options)

    monkeypatch.setattr(Ledger, "preview", late)
    assert session.count(epsilon=EPSILON, name="all") == session.count(epsilon=EPSILON, name="all")
    assert session.ledger.verify().spends == 1


FORKED = """
import os, sys, threading
from discreet import Bounds, PureDP, Schema, Session
from discreet.core.errors import DiscreetError
from discreet.questions import MeanQuestion
schema = Schema(columns={"age": Bounds(18, 100, grid=1)})
session = Session(sys.argv[1], schema, ledger=sys.argv[2], budget=PureDP(900.0))
stop, begun = threading.Event(), threading.Event()
def ask():
    while not stop.is_set():
        session.mean("age", epsilon=0.01)
def hold():  # as a thread does that is asking at this moment
    with session._use, HELD:
        begun.set()
        stop.wait()
threads = [threading.Thread(target=one) for one in (ask, hold)]
for thread in threads:
    thread.start()
begun.wait()
told = []
for _ in range(8):
    inlet, outlet = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            session.mean("age", epsilon=0.01)
            os.write(outlet, b"answered")
        except DiscreetError as error:
            os.write(outlet, str(error).encode())
        os._exit(0)
    os.close(outlet)
    told.append(os.read(inlet, 1000).decode())
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for thread in threads:
    thread.join()
session.ledger.verify()
print("\\n".join(told))
"""


HELD = {
    "nothing": "threading.Lock()",
    "the lock of a cached property": 'getattr(MeanQuestion.measurement, "lock", threading.Lock())',
}
"""What the other thread holds beside the session; Python 3.12 took the lock away."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("held", HELD)
def test_children_of_a_session_in_use_are_refused_in_words(tmp_path: Path, held: str) -> None:
    """They would wait for ever for what another thread of their parent was doing."""
    shutil.copy(ROOT / "examples" / "survey.csv", tmp_path)
    code = FORKED.replace("HELD", HELD[held])
    command = [sys.executable, "-W", "ignore", "-c", code, tmp_path / "survey.csv"]
    for line in output([*command, tmp_path / "survey.ledger"]).splitlines():
        assert "was forked while another thread used this session" in line
