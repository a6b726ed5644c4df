"""Journal on a PostgreSQL server: one ledger for several hosts.

Each step is one serialisable transaction that locks the table before it reads, so that no two hosts decide on the same
state, and that is flushed before it counts (``synchronous_commit``). See ``docs/decisions/ledger-durability.md``.
"""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from discreet.core.errors import InvalidParameter, LedgerCorrupted, LedgerUnavailable, MissingExtra
from discreet.core.ledger.journal import Entry, Journal, forked

if TYPE_CHECKING:
    import psycopg


_REFUSAL = "BEGIN RAISE EXCEPTION 'entries are never changed'; END"
_SCHEMA = (
    "CREATE SCHEMA IF NOT EXISTS {schema}",
    "CREATE TABLE {schema}.entries"
    " (seq BIGINT PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL, hash TEXT NOT NULL)",
    f"CREATE FUNCTION {{schema}}.refuse() RETURNS trigger LANGUAGE plpgsql AS $${_REFUSAL}$$",
    "CREATE TRIGGER never_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON {schema}.entries"
    " FOR EACH STATEMENT EXECUTE FUNCTION {schema}.refuse()",
)
_TRIGGERS = (
    "SELECT tgname, tgenabled::text, prosrc FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid"
    " WHERE tgrelid = %s::regclass AND NOT tgisinternal"
)
_ATTEMPTS = 20
"""The number of tries of a step that the server could not serialise: nothing of it was written."""
_CREATION = 0x64736372  # "dscr": two processes that create a ledger wait for each other by this number


class PostgresJournal(Journal):
    """Entries in a table of a server; a fragment of the address names its schema."""

    def __init__(self, address: str, *, timeout: float, read_only: bool) -> None:
        self._connection: psycopg.Connection[Any] | None = None
        self._step: psycopg.Connection[Any] | None = None
        """The connection on which the transaction of a step began; the step uses no other."""
        self._inherited: list[psycopg.Connection[Any]] = []
        self._address, _, fragment = address.partition("#")
        parts = urlsplit(self._address)
        name = unquote(fragment) or "discreet"
        if len(name.encode()) > 63:
            raise InvalidParameter("path", f"#{name}", "must be a name of at most 63 bytes", "Choose a shorter one.")
        # Nobody must read a password in a message: what stands before the host and behind the path is left out.
        shown = f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}#{name}"
        super().__init__(shown, timeout=timeout, read_only=read_only)
        self._schema = '"' + name.replace('"', '""') + '"'
        self._table = f"{self._schema}.entries"

    # -- the connection ------------------------------------------------------------------------------------

    def connection(self) -> psycopg.Connection[Any]:
        """The open connection of this process; a new one where the last one broke, but not within a step."""
        if self._step is not None:
            return self._step
        if self._connection is None or self._connection.closed:
            process, connection = os.getpid(), self._connect()
            if process != os.getpid():
                raise forked()
            self._connection = connection
        return self._connection

    def _connect(self) -> psycopg.Connection[Any]:
        import psycopg

        connection = psycopg.connect(
            self._address, autocommit=True, connect_timeout=math.ceil(self.timeout), application_name="discreet"
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: psycopg.Connection[Any]) -> None:
        milliseconds = math.ceil(self.timeout * 1000)
        for setting, value in (
            ("synchronous_commit", "on"),  # whatever the server's default: a spend is flushed before it counts
            ("lock_timeout", str(milliseconds)),
            # A host that vanishes in the middle of a step must not lock the others out for good.
            ("idle_in_transaction_session_timeout", str(2 * milliseconds)),
            ("default_transaction_read_only", "on" if self.read_only else "off"),
        ):
            connection.execute("SELECT set_config(%s, %s, false)", (setting, value))
        lasting = connection.execute("SELECT current_setting('fsync') = 'on' AND NOT pg_is_in_recovery()").fetchone()
        if lasting != (True,) and not self.read_only:
            raise LedgerUnavailable(
                f"the server of {self.where} is a standby or runs with fsync = off, so a committed spend could be "
                "lost. Use the primary server with fsync = on; nothing was spent."
            )

    def forget(self) -> None:
        if self._connection is not None and not self._connection.closed:
            # The number stays taken and leads nowhere; to close the connection would end the parent's.
            nothing, other = socket.socketpair()
            os.dup2(nothing.fileno(), self._connection.fileno(), inheritable=False)
            nothing.close()
            other.close()
            self._inherited.append(self._connection)
        self._connection = None

    def close(self) -> None:
        super().close()
        if self._connection is not None and not self.interrupted():
            self._connection.close()

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        try:
            import psycopg
        except ImportError:
            raise MissingExtra("psycopg", "team") from None
        try:
            done = self.connection().execute(statement, values or None)
            return done.fetchall() if done.description else [done.statusmessage]
        except (psycopg.errors.DataCorrupted, psycopg.errors.IntegrityError) as error:
            raise LedgerCorrupted(f"{self.where} is not an intact ledger ({_line(error)}). Restore it.") from error
        except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
            raise
        except psycopg.Error as error:
            raise LedgerUnavailable(
                f"the ledger {self.where} cannot be used: the server reports: {_line(error)}. Check the address, the "
                "permissions and the server, and try again. Nothing was drawn."
            ) from error

    # -- steps ---------------------------------------------------------------------------------------------

    def release(self) -> None:
        """Roll back what an interrupt left open; a connection that cannot is dropped, and the server rolls back."""
        self._step = None
        connection = self._connection
        if connection is None or connection.closed:
            return
        state = connection.info.transaction_status.name
        if state in ("INTRANS", "INERROR"):
            self.execute("ROLLBACK")
        elif state != "IDLE":  # an interrupt hit between question and answer
            connection.close()

    def write(self, decide: Callable[[], Entry | None]) -> Entry | None:
        return self._write(f"LOCK TABLE {self._table} IN EXCLUSIVE MODE", decide)

    def _write(self, lock: str, decide: Callable[[], Entry | None]) -> Entry | None:
        self.execute("SELECT")  # connects, and tells of a missing driver, outside of the step
        import psycopg

        for attempt in range(_ATTEMPTS):
            try:
                return self._written(lock, decide)
            except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected) as error:
                time.sleep(0.001 * attempt)
                failure = error
            finally:
                self.release()
        raise LedgerUnavailable(
            f"the ledger {self.where} cannot be used: {_ATTEMPTS} times the server could not serialise a step "
            f"({_line(failure)}). Try again. Nothing was drawn."
        )

    def _written(self, lock: str, decide: Callable[[], Entry | None]) -> Entry | None:
        """Lock before the first read: the transaction then sees everything that was committed before the lock."""
        process, self._step = os.getpid(), self.connection()
        self.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
        self.execute(lock)
        entry = decide()
        if entry is not None:
            row = (entry.seq, entry.kind, entry.body, entry.hash)
            self.execute(f"INSERT INTO {self._table} VALUES (%s, %s, %s, %s)", row)
        if process != os.getpid():
            raise forked()
        # PostgreSQL answers ROLLBACK, without an error, where the transaction had failed.
        if self.execute("COMMIT") != ["COMMIT"]:
            raise LedgerUnavailable(f"the ledger {self.where} did not commit. Try again; nothing was drawn.")
        return entry

    def create(self, first: Entry) -> None:
        def make() -> Entry | None:
            if not self.is_empty():  # another process was faster
                return None
            for statement in _SCHEMA:
                self.execute(statement.format(schema=self._schema))
            return first

        self._write(f"SELECT pg_advisory_xact_lock({_CREATION})", make)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        while block := self._read("seq > %s ORDER BY seq LIMIT 1000", after):
            yield from block
            after = block[-1].seq

    def entry(self, seq: int) -> Entry | None:
        return next(iter(self._read("seq = %s", seq)), None)

    def _read(self, which: str, seq: int) -> list[Entry]:
        rows = self.execute(f"SELECT seq, kind, body, hash FROM {self._table} WHERE {which}", (seq,))
        return [Entry(*row) for row in rows]

    def is_empty(self) -> bool:
        return self.execute("SELECT to_regclass(%s)::text", (self._table,)) == [(None,)]

    def check_structure(self) -> None:
        if self.execute(_TRIGGERS, (self._table,)) != [("never_changed", "O", _REFUSAL)]:
            raise LedgerCorrupted(
                f"{self.where} does not have the trigger that keeps entries from being changed. It was removed by "
                "another program; restore the ledger from a copy."
            )


def _line(error: Exception) -> str:
    """The first line of a message; the others may quote rows."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
