"""Store: where a ledger's entries are kept."""

from __future__ import annotations

import os
from typing import Any

from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.ledger.file_journal import FileJournal
from discreet.core.ledger.journal import Journal, MemoryJournal
from discreet.core.ledger.postgres_journal import PostgresJournal

__all__ = ["address_of", "journal_at", "second"]


def address_of(path: Any) -> str:
    """Where the ledger is: an absolute path, an address, or ``":memory:"``."""
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        raise WrongType("path", path, "must be a path", 'Pass a file name, or ":memory:".')
    name = os.fspath(path)
    if name == "" or "\0" in name:
        raise InvalidParameter("path", path, "must name a file", 'Pass a file name, or ":memory:".')
    return name if name == ":memory:" or _on_a_server(name) else os.path.abspath(name)


def journal_at(address: str, timeout: float, read_only: bool) -> Journal:
    """The journal behind an address."""
    if address == ":memory:":
        return MemoryJournal()
    kind = PostgresJournal if _on_a_server(address) else FileJournal
    return kind(address, timeout=timeout, read_only=read_only)


def second(journal: Journal, address: str) -> Journal:
    """Another reader of the same entries, which shares nothing that changes with the first."""
    if isinstance(journal, MemoryJournal):
        return MemoryJournal(journal.kept)
    return journal_at(address, journal.timeout, True)


def _on_a_server(address: str) -> bool:
    return address.startswith(("postgresql://", "postgres://"))
