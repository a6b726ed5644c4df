"""Journal: an append-only list of entries, each bound to all before it by a hash, durable before it counts.

Where the entries are kept is a journal's own business: in memory here, in a file (`file_journal`) or on a server
that several hosts share (`postgres_journal`). What they mean is the balance's.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any
from weakref import WeakSet

from discreet.core.errors import InvalidParameter, LedgerUnavailable, WrongType

__all__ = [
    "ROOT", "Entry", "Journal", "MemoryJournal", "canonical", "chained", "digest_of_body", "forked", "sealed",
    "without_secret",
]  # fmt: skip


ROOT = "0" * 64
"""The hash before the first entry."""


@dataclass(frozen=True)
class Entry:
    """One row: its position, its kind, its content as canonical JSON, and the hash of everything up to it."""

    seq: int
    kind: str
    body: str
    hash: str

    @property
    def content(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)


_SECRET = re.compile('"secret":"([0-9a-f]{64})"')


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
    return sealed(previous, seq, kind, digest_of_body(without_secret(body) if kind == "open" else body))


def without_secret(body: str) -> str:
    """The body of a first entry with the hash of its secret in the secret's place: what an excerpt may show."""
    return _SECRET.sub(
        lambda found: f'"secret_hash":"{hashlib.sha256(bytes.fromhex(found[1])).hexdigest()}"', body, count=1
    )


def digest_of_body(body: str) -> str:
    """The hash that stands for a body in the hash of its entry."""
    return hashlib.sha256(body.encode()).hexdigest()


def sealed(previous: str, seq: int, kind: str, digest: str) -> str:
    """The hash of an entry by the digest of its body: an excerpt may keep the body of an entry to itself."""
    return hashlib.sha256(f"{previous}\n{seq}\n{kind}\n{digest}".encode()).hexdigest()


class Journal(ABC):
    """Where entries are kept. One thread at a time uses it; the ledger sees to that, with ``lock``."""

    def __init__(self, where: str, *, timeout: float = 0.0, read_only: bool = False) -> None:
        self.where, self.timeout, self.read_only = where, timeout, read_only
        self.lock = threading.RLock()
        self.user: FrameType | None = None
        """The call that uses the journal now; one that an interrupt ended may still be named."""
        self._owner, self._closed = os.getpid(), False
        _JOURNALS.add(self)

    @abstractmethod
    def is_empty(self) -> bool:
        """True where nothing is there yet; refuses anything but a ledger."""

    @abstractmethod
    def create(self, first: Entry) -> None:
        """Begin with the first entry, unless another process was faster."""

    @abstractmethod
    def write(self, decide: Callable[[], Entry | None]) -> Entry | None:
        """One atomic step: append what ``decide`` returns, which may read, and keep everybody else out meanwhile.

        The entry is durable when this returns. After an error or an interrupt, at whatever line, the step left
        either nothing or a whole entry, and after the next `recover` no lock.
        """

    @abstractmethod
    def entries(self, after: int = 0) -> Iterator[Entry]:
        """The entries behind a position, in order."""

    @abstractmethod
    def entry(self, seq: int) -> Entry | None:
        """The entry at a position."""

    def interrupted(self) -> bool:
        """True where a signal handler makes this call in the middle of a use by its own thread."""
        here = None if self.user is None else sys._getframe()
        while here is not None and here is not self.user:
            here = here.f_back
        return here is not None

    def recover(self) -> None:
        """End what an interrupt left open; called before each use."""
        self.release()
        if self._closed:
            raise LedgerUnavailable("the ledger is closed. Open it again; nothing was spent.")

    def release(self) -> None:  # noqa: B027  (most stores have nothing to do)
        """Give up the lock of a step and what the step has opened; as often as one likes."""

    def witness(self) -> Mapping[int, str]:
        """Positions and hashes of recent entries that are noted a second time, elsewhere."""
        return {}

    def attest(self, entry: Entry) -> None:  # noqa: B027  (most stores have nothing to do)
        """Note a durable entry a second time."""

    def checkpoint(self) -> Any:
        """The state that was kept last, where it belongs to the entries that are there; None where there is none."""
        return None

    def keep(self, state: Mapping[str, Any]) -> None:  # noqa: B027  (most stores have nothing to do)
        """Keep a state of the entries up to one of them, so that opening need not read them all."""

    def check_structure(self) -> None:  # noqa: B027  (most stores have nothing to do)
        """Let the store check itself."""

    def forget(self) -> None:  # noqa: B027  (most stores have nothing to do)
        """Lead nowhere what the parent has opened; called in the child of a fork before anything else."""

    def close(self) -> None:
        """Close for good; a step that a signal handler interrupts ends first."""
        self._closed = True
        if not self.interrupted():
            with self.lock:
                self.release()

    def __del__(self) -> None:
        with suppress(Exception):  # the interpreter may be half gone
            self.close()


_JOURNALS: WeakSet[Journal] = WeakSet()


def forked() -> LedgerUnavailable:
    """The refusal of a step that goes on in the child of a fork."""
    return LedgerUnavailable(
        "the process was forked in the middle of a ledger's step, which goes on in the parent alone. Spend after the "
        "fork in the child. Nothing was drawn here."
    )


def _after_fork() -> None:
    """In the child: let go of what the parent has open, and of locks whose threads are no more."""
    for journal in list(_JOURNALS):
        journal.forget()
        if journal.lock.acquire(blocking=False):
            journal.lock.release()
        else:
            journal.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class MemoryJournal(Journal):
    """Entries of one process, for studies."""

    def __init__(self, entries: list[Entry] | None = None) -> None:
        super().__init__(":memory:")
        self.kept: list[Entry] = [] if entries is None else entries

    def is_empty(self) -> bool:
        return not self.kept

    def create(self, first: Entry) -> None:
        self.kept.append(first)

    def recover(self) -> None:
        super().recover()
        if self._owner != os.getpid():
            raise LedgerUnavailable(
                "an in-memory ledger cannot be used in a forked process: both copies would spend the same "
                "budget. Use a ledger in a file; nothing was spent."
            )

    def write(self, decide: Callable[[], Entry | None]) -> Entry | None:
        entry = decide()
        if entry is not None:
            self.kept.append(entry)
        return entry

    def entries(self, after: int = 0) -> Iterator[Entry]:
        return iter(self.kept[after:])

    def entry(self, seq: int) -> Entry | None:
        return self.kept[seq - 1] if 0 < seq <= len(self.kept) else None
