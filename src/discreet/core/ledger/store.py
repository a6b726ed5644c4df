"""Store: where a ledger's entries are kept, and what happens to open ones in a fork."""

from __future__ import annotations

import os
from typing import Any, Protocol
from weakref import WeakSet

from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.ledger.file_journal import FileJournal
from discreet.core.ledger.journal import Journal, MemoryJournal
from discreet.core.ledger.postgres_journal import PostgresJournal

__all__ = ["address_of", "journal_at", "survive_forks"]


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


def _on_a_server(address: str) -> bool:
    return address.startswith(("postgresql://", "postgres://"))


class _Forkable(Protocol):
    """A ledger, as a fork sees it."""

    _lock: Any
    _journal: Journal


_OPEN: WeakSet[Any] = WeakSet()
_HELD: list[_Forkable] = []


def survive_forks(ledger: _Forkable) -> None:
    """Let go of the ledger's store before each fork, as long as the ledger is in use."""
    _OPEN.add(ledger)


def _before_fork() -> None:
    """Let go of every store: a child inherits locks and connections that it would share with its parent."""
    for ledger in list(_OPEN):
        ledger._lock.acquire()
        ledger._journal.suspend()
        _HELD.append(ledger)


def _after_fork() -> None:
    while _HELD:
        _HELD.pop()._lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
