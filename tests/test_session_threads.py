"""One session, many threads: right answers, exact spends, nobody waits for ever."""

import asyncio
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest

from discreet import Bounds, Categories, Ledger, PureDP, Schema, Session

ROOT = Path(__file__).parents[1]
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
        answer = session.count(PureDP(EPSILON), request=f"count {number // 4}")
        return abs(float(answer.value) - sum(truth().values())) < 3
    answer = session.count(PureDP(EPSILON), by="region", request=f"regions {number // 4}")
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
            session.count(PureDP(EPSILON), request="all")
        return preview(ledger, guarantee, **options)

    monkeypatch.setattr(Ledger, "preview", late)
    assert session.count(PureDP(EPSILON), request="all") == session.count(PureDP(EPSILON), request="all")
    assert session.ledger.verify().spends == 1
