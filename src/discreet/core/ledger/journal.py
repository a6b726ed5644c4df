"""Journal: an append-only file of entries, each bound to all before it by a hash, committed before it counts.

The file is an SQLite database (write-ahead log, ``synchronous=FULL``). Next to it lies a *witness*,
``<file>-head``: position and hash of the last entries. SQLite drops the end of a damaged write-ahead log
without a word; the witness tells that entries are missing. See ``docs/decisions/ledger-durability.md``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote

from discreet.core.errors import InvalidParameter, LedgerCorrupted, LedgerMismatch, LedgerUnavailable, WrongType

__all__ = ["ROOT", "Entry", "Journal", "canonical", "chained"]

ROOT = "0" * 64
"""The hash before the first entry."""
_APPLICATION = 0x64736372  # "dscr" in the database header: tells a ledger from any other SQLite file
_SCHEMA = {
    ("table", "entries"): (
        "CREATE TABLE entries (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL, hash TEXT NOT NULL)"
    ),
    ("trigger", "append_only"): (
        "CREATE TRIGGER append_only BEFORE INSERT ON entries"
        " WHEN NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM entries)"
        " BEGIN SELECT raise(ABORT, 'entries are appended in order'); END"
    ),
    ("trigger", "never_updated"): (
        "CREATE TRIGGER never_updated BEFORE UPDATE ON entries"
        " BEGIN SELECT raise(ABORT, 'entries are never changed'); END"
    ),
    ("trigger", "never_deleted"): (
        "CREATE TRIGGER never_deleted BEFORE DELETE ON entries"
        " BEGIN SELECT raise(ABORT, 'entries are never deleted'); END"
    ),
}


@dataclass(frozen=True)
class Entry:
    """One row: its position, its kind, its content as canonical JSON, and the hash of everything up to it."""

    seq: int
    kind: str
    body: str
    hash: str

    @cached_property
    def content(self) -> Any:
        """The body, parsed once."""
        return json.loads(self.body)


def canonical(name: str, content: Any) -> str:
    """One text for one content: sorted keys, no spaces, ASCII, no NaN; refuses what is not JSON."""
    try:
        return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, RecursionError):
        raise WrongType(
            name, content, "must be made of JSON values", "Use dict, list, str, int, float, bool and None."
        ) from None
    except ValueError:
        raise InvalidParameter(
            name, content, "must not contain NaN, infinity or a cycle", "Write such values as text."
        ) from None


def chained(previous: str, seq: int, kind: str, body: str) -> str:
    """The hash of an entry. Position and kind hold no line break, so the text is unambiguous."""
    return hashlib.sha256(f"{previous}\n{seq}\n{kind}\n{body}".encode()).hexdigest()


class Journal:
    """The file, or with ``path=None`` a journal in memory."""

    def __init__(self, path: str | None, *, timeout: float, read_only: bool) -> None:
        self.path, self.timeout, self.read_only = path, timeout, read_only
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._log_identity: tuple[int, int] | None = None
        self._owner = os.getpid()
        self._closed = False

    # -- the connection ------------------------------------------------------------------------------------

    def connection(self) -> sqlite3.Connection:
        """The open connection of this process."""
        if self._closed:
            raise LedgerUnavailable("the ledger is closed. Open it again; nothing was spent.")
        if self._owner != os.getpid() and self.path is None:
            raise LedgerUnavailable(
                "an in-memory ledger cannot be used in a forked process: both copies would spend the same "
                "budget. Use a ledger in a file; nothing was spent."
            )
        if self._owner != os.getpid() and self._connection is not None:
            raise LedgerUnavailable(
                "the process was forked in the middle of a ledger's step. Open the ledger again in the child."
            )
        if self._connection is None:
            with self.faults():
                self._connection = self._connect()
            self._owner = os.getpid()
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        if self.path is None:
            return self._connected(":memory:")
        address = f"file:{quote(self.path)}?mode="
        if not self.read_only:
            return self._connected(f"{address}rwc")
        try:
            return self._connected(f"{address}ro")
        except sqlite3.OperationalError:
            if os.path.exists(f"{self.path}-wal"):
                raise
            # Without a log the file is complete in itself, and can be read where nothing may be written.
            return self._connected(f"{address}ro&immutable=1")

    def _connected(self, address: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            address, uri=self.path is not None, timeout=self.timeout,
            isolation_level=None, check_same_thread=False,
        )  # fmt: skip
        try:
            # FULL flushes the log at every commit; NORMAL could lose a committed spend at power loss.
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA cell_size_check = ON")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    def suspend(self) -> None:
        """Close the connection; the next use opens it again. SQLite's locks do not survive a fork."""
        if self.path is None or self._connection is None or self._connection.in_transaction:
            return
        self._connection.close()
        self._connection = self._log_identity = None

    def close(self) -> None:
        """Close for good."""
        self._closed = True
        if self._connection is not None and self._owner == os.getpid():
            self._connection.close()
            self._connection = None

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # the interpreter may be half gone
            self.close()

    # -- faults --------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def faults(self) -> Iterator[None]:
        """Turn SQLite's errors into the library's, each with what to do."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter where a message quotes damaged text
            raise self._explained(error) from error

    def _explained(self, error: Exception) -> Exception:
        code = getattr(error, "sqlite_errorcode", None)
        primary = None if code is None else code & 0xFF
        if primary in _DAMAGE or "decode" in str(error):  # text that is no UTF-8 has no code of its own
            return LedgerCorrupted(
                f"{self.path} is not an intact ledger ({error}). Do not release from this data set until the "
                "ledger has been restored from a copy that includes the last release; nothing was spent."
            )
        reason = _REASONS.get(primary or 0, "SQLite reports: {error}.").format(error=error, timeout=self.timeout)
        return LedgerUnavailable(f"the ledger {self.path} cannot be used: {reason} Nothing was drawn.")

    # -- reading and writing -------------------------------------------------------------------------------

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """One atomic, durable step. No other process can read-then-write in between.

        When the block ends without an error, what was appended is on disk, in the file that carries the name.
        """
        if self.read_only:
            raise LedgerUnavailable(
                f"the ledger {self.path} was opened with read_only=True. Open it for writing to spend from it."
            )
        connection = self.connection()
        with self.faults():
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
        self._check_identity()

    def _check_identity(self) -> None:
        """Refuse to go on after the file was moved, deleted or replaced: entries would go nowhere."""
        if self.path is None:
            return
        identity, log = _identity(self.path), _identity(f"{self.path}-wal")
        self._identity, self._log_identity = self._identity or identity, self._log_identity or log
        if identity is None or log is None or (identity, log) != (self._identity, self._log_identity):
            raise LedgerUnavailable(
                f"the ledger {self.path}, or its log {self.path}-wal, was moved, deleted or replaced while it "
                "was open. Put it back and open it again; nothing was drawn."
            )

    def create(self) -> None:
        """Make the table and its triggers; inside `writing`."""
        with self.faults():
            for statement in _SCHEMA.values():
                self.connection().execute(statement)
            self.connection().execute(f"PRAGMA application_id = {_APPLICATION}")

    def set_log_mode(self) -> None:
        """Switch a new file to the write-ahead log."""
        if self.path is None or self.read_only:
            return
        with self.faults():
            mode = self._log_mode(time.monotonic() + self.timeout)
        if mode != "wal":
            raise LedgerUnavailable(
                f"the file system of {self.path} has no shared memory for the ledger's log. Use a local disk."
            )

    def _log_mode(self, deadline: float) -> str:
        while True:  # SQLite does not wait here for another process that does the same
            try:
                (mode,) = self.connection().execute("PRAGMA journal_mode = WAL").fetchone()
                return str(mode)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(0.005)

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """Several reads of one state: another process may be creating the ledger right now."""
        connection = self.connection()
        if connection.in_transaction:
            yield connection
            return
        connection.execute("BEGIN")
        try:
            yield connection
        finally:
            with contextlib.suppress(sqlite3.OperationalError):  # an error may have ended it
                connection.execute("ROLLBACK")

    def is_empty(self) -> bool:
        """Whether the file holds nothing yet; anything but a ledger is refused."""
        with self.faults(), self._snapshot() as connection:
            rows = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
            (application,) = connection.execute("PRAGMA application_id").fetchone()
        if not rows and application == 0:
            return True
        if application != _APPLICATION:
            raise LedgerMismatch(
                f"{self.path} is a database of another program (application id {application:#x}). "
                "Choose another path; the file was not changed."
            )
        if {(kind, name): sql for kind, name, sql in rows} != _SCHEMA:
            raise LedgerCorrupted(
                f"{self.path} does not have the table and triggers of a ledger. They were changed by another "
                "program; restore the ledger from a copy."
            )
        return False

    def append(self, after: Entry | None, kind: str, body: str) -> Entry:
        """Add an entry; inside `writing`."""
        seq, previous = (1, ROOT) if after is None else (after.seq + 1, after.hash)
        entry = Entry(seq, kind, body, chained(previous, seq, kind, body))
        with self.faults():
            self.connection().execute(
                "INSERT INTO entries VALUES (?, ?, ?, ?)", (entry.seq, entry.kind, entry.body, entry.hash)
            )
        return entry

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """The entries behind a position, in order."""
        with self.faults():
            rows = self.connection().execute(
                "SELECT seq, kind, body, hash FROM entries WHERE seq > ? ORDER BY seq", (after,)
            )
            for seq, kind, body, digest in rows:
                if not (isinstance(kind, str) and isinstance(body, str) and isinstance(digest, str)):
                    raise LedgerCorrupted(f"{self.path}, entry {seq}: it holds no text. Restore the ledger.")
                yield Entry(seq, kind, body, digest)

    def entry(self, seq: int) -> Entry | None:
        """The entry at a position."""
        with self.faults():
            row = (
                self.connection().execute("SELECT seq, kind, body, hash FROM entries WHERE seq = ?", (seq,)).fetchone()
            )
        return None if row is None else Entry(*row)

    def hash_at(self, seq: int) -> str | None:
        """The stored hash at a position."""
        with self.faults():
            row = self.connection().execute("SELECT hash FROM entries WHERE seq = ?", (seq,)).fetchone()
        return None if row is None else row[0]

    def check_structure(self) -> None:
        """Let SQLite check every page of the file."""
        with self.faults():
            findings = [row[0] for row in self.connection().execute("PRAGMA integrity_check")]
        if findings != ["ok"]:
            raise LedgerCorrupted(f"{self.path}: the file is damaged: {findings[0]}. Restore it from a copy.")

    # -- the witness ---------------------------------------------------------------------------------------

    def attest(self, entry: Entry) -> None:
        """Note a committed entry in the witness.

        Not flushed: the entry itself is, so the witness may lag behind and never runs ahead. A failure is
        ignored for the same reason: an older witness is still true. Each entry has a slot of its own, so that
        two processes need no order among them.
        """
        if self.path is None:
            return
        with contextlib.suppress(OSError):
            handle = os.open(f"{self.path}-head", _WRITE, 0o666)
            try:
                os.lseek(handle, entry.seq % _SLOTS * _SLOT, os.SEEK_SET)
                os.write(handle, _slot(entry.seq, entry.hash))
            finally:
                os.close(handle)

    def witness(self) -> dict[int, str]:
        """Positions and hashes of recent entries that the witness holds; read it before the entries."""
        if self.path is None:
            return {}
        for attempt in range(4):
            try:
                return _witnessed(self._witness_file())
            except ValueError:
                time.sleep(0.002 * attempt)  # it may be half written
        raise LedgerCorrupted(
            f"{self.path}-head is damaged. It is a second record of the last entries: compare the ledger's head "
            "with a copy you trust, then delete this file."
        )

    def _witness_file(self) -> bytes:
        try:
            with open(f"{self.path}-head", "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise LedgerUnavailable(f"the ledger's {self.path}-head cannot be read: {error}.") from error


_SLOTS, _SLOT = 32, 128
_WRITE = os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0)


def _slot(seq: int, digest: str) -> bytes:
    text = f"{seq:020d} {digest}".encode("latin-1")
    return (text + b" %08x" % zlib.crc32(text)).ljust(_SLOT - 1) + b"\n"


def _witnessed(record: bytes) -> dict[int, str]:
    """What the slots say; ValueError where one of them is damaged. An empty slot says nothing."""
    found: dict[int, str] = {}
    for start in range(0, len(record), _SLOT):
        slot = record[start : start + _SLOT]
        if slot.strip(b"\0"):
            seq, digest = int(slot[:20]), slot[21:85].decode("latin-1")
            if slot != _slot(seq, digest) or seq % _SLOTS != start // _SLOT:
                raise ValueError("damaged")
            found[seq] = digest
    return found


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG)
_REASONS = {
    sqlite3.SQLITE_BUSY: "another process held its lock for more than {timeout:g} s. Try again.",
    sqlite3.SQLITE_LOCKED: "another connection holds its lock. Try again.",
    sqlite3.SQLITE_FULL: "the disk is full. Free some space and try again.",
    sqlite3.SQLITE_READONLY: "the file or its directory is read-only. Make both writable.",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened or created. Check its path and permissions.",
    sqlite3.SQLITE_PERM: "permission denied. Check the file's permissions.",
    sqlite3.SQLITE_IOERR: "reading or writing failed ({error}). Check the disk and its free space.",
}
