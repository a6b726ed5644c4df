"""Book: a journal and its balance, kept in step with every other thread and process that writes to the file."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from discreet.core.errors import LedgerCorrupted, LedgerMismatch, LedgerUnavailable
from discreet.core.guarantee import Guarantee
from discreet.core.ledger.accounting import Accounting
from discreet.core.ledger.balance import FORMAT, Balance, texts
from discreet.core.ledger.claim import now
from discreet.core.ledger.journal import Entry, Journal, canonical

__all__ = ["Book", "Terms"]


@dataclass(frozen=True)
class Terms:
    """What a ledger is opened with; None means: as the file says."""

    budget: Guarantee | None
    accounting: str | None
    dataset: str | None

    def opening(self) -> dict[str, Any] | None:
        """The first entry of a new ledger."""
        if self.budget is None:
            return None
        accounting = Accounting.of(self.budget, self.accounting)
        return {
            "format": FORMAT,
            "budget": self.budget.to_dict(),
            "accounting": accounting.name,
            "allowance": texts(accounting.allowance),
            "dataset": self.dataset,
            "neighbours": None,
            "unit": None,
            "salt": secrets.token_hex(32),
            "created": now(),
        }

    def check(self, recorded: Mapping[str, Any], path: str) -> None:
        """Refuse a ledger that was opened with other terms."""
        budget = None if self.budget is None else self.budget.to_dict()
        for name, wish in (("budget", budget), ("dataset", self.dataset), ("accounting", self.accounting)):
            if wish is not None and wish != recorded[name]:
                raise LedgerMismatch(
                    f"{path} was opened with {name} = {_worded(recorded[name])}, not {_worded(wish)}. A ledger keeps "
                    f"its {name}: give the same one or leave it out. A new ledger at another path would count from "
                    "nothing, which is for the owner of the data to decide."
                )


def _worded(term: Any) -> str:
    """A term of a ledger as a reader writes it."""
    return str(Guarantee.from_dict(term)) if isinstance(term, dict) else repr(term)


class Book:
    """Read and append, always on the newest state."""

    def __init__(self, path: str | None, terms: Terms, *, timeout: float, read_only: bool) -> None:
        self.lock = threading.RLock()
        self.path = path or ":memory:"
        self.journal = Journal(path, timeout=timeout, read_only=read_only)
        self.balance = Balance(self.path)
        try:
            self._open(terms)
            terms.check(self.balance.opening, self.path)
        except BaseException:
            self.journal.close()
            raise
        _OPEN.add(self)

    def _open(self, terms: Terms) -> None:
        witness = self.journal.witness()  # before the entries, so that it cannot be ahead of them
        exists = self.journal.path is not None and os.path.exists(self.journal.path)
        if self.journal.path is not None:
            self._check_place(self.journal.path)
        opening = None
        if not exists:  # refuse bad terms before there is a file
            opening = self._creation(terms, witness)
        if self.journal.is_empty():
            self._create(opening or self._creation(terms, witness))
        self.journal.set_log_mode()
        self.follow()
        self._check_witness(witness)
        if self.balance.last is not None and not self.journal.read_only:
            self.journal.attest(self.balance.last)

    def _check_place(self, path: str) -> None:
        if not os.path.isdir(os.path.dirname(path)):
            raise LedgerUnavailable(f"the directory of {path} does not exist. Create it first.")
        if os.path.isdir(path):
            raise LedgerUnavailable(f"{path} is a directory. Pass the path of a file.")

    def _creation(self, terms: Terms, witness: Mapping[int, str]) -> dict[str, Any]:
        if witness:
            raise self._lost(max(witness))
        opening = None if self.journal.read_only else terms.opening()
        if opening is None:
            fix = "Check the path." if self.journal.read_only else "Pass a budget to create one."
            raise LedgerUnavailable(f"there is no ledger at {self.path}. {fix}")
        return opening

    def _create(self, opening: dict[str, Any]) -> None:
        body = canonical("dataset", opening)
        self.journal.set_log_mode()
        with self.journal.writing():
            if self.journal.is_empty():  # another process may have been faster
                self.journal.create()
                self.journal.append(None, "open", body)

    def _check_witness(self, witness: Mapping[int, str]) -> None:
        for seq, digest in witness.items():
            if self.journal.hash_at(seq) != digest:
                raise self._lost(seq)

    def _lost(self, seq: int) -> LedgerCorrupted:
        return LedgerCorrupted(
            f"{self.path}: entry {seq} was written, as {self.path}-head tells, and is missing or changed now. "
            "The end of the ledger was lost or an old copy was put in its place: releasing could overspend. "
            "Restore the file and its -wal; delete the -head file only if you mean to start a new ledger."
        )

    def follow(self) -> None:
        """Catch up with what other processes appended."""
        try:
            seq = self.balance.seq
            if seq and self.journal.hash_at(seq) != self.balance.head:
                raise LedgerCorrupted(
                    f"{self.path}, entry {seq}: it is not the one seen before. The file was replaced: restore it."
                )
            for entry in self.journal.entries(after=seq):
                self.balance.apply(entry)
        except LedgerCorrupted:
            self.balance = Balance(self.path)  # never trust half of it: the next use starts at the first entry
            raise
        if self.balance.last is None:
            raise LedgerCorrupted(f"{self.path}: the ledger has no entries. Restore it from a copy.")

    @contextlib.contextmanager
    def step(self) -> Iterator[Balance]:
        """One atomic step on the newest state; what it appends is on disk when it ends."""
        with self.lock:
            added: list[Entry] = []
            self._added = added
            with self.journal.writing():
                self.follow()
                yield self.balance
            for entry in added:
                self.balance.apply(entry)
                self.journal.attest(entry)

    @contextlib.contextmanager
    def look(self) -> Iterator[Balance]:
        """The newest state, to read."""
        with self.lock:
            self.follow()
            yield self.balance

    def append(self, kind: str, body: str) -> Entry:
        """Write one entry, given in canonical form; inside `step`, and once only."""
        entry = self.journal.append(self.balance.last, kind, body)
        self._added.append(entry)
        return entry

    def entry(self, seq: int) -> Entry:
        """The entry at a position that is known to exist."""
        entry = self.journal.entry(seq)
        if entry is None:
            raise LedgerCorrupted(f"{self.path}, entry {seq}: it is missing. Restore the ledger from a copy.")
        return entry

    def answer(self, spend: int) -> Any:
        """The stored answer of a spend that has one."""
        return self.entry(self.balance.answers[spend]).content["answer"]

    def recomputed(self, anchor: str | None) -> tuple[Balance, bool]:
        """The balance computed from the file alone, and whether ``anchor`` is one of its hashes."""
        with self.lock:
            witness = self.journal.witness()
            if self.journal.is_empty():
                raise LedgerCorrupted(f"{self.path}: the ledger is empty. Restore it from a copy.")
            self.journal.check_structure()
            fresh, anchored = Balance(self.path), False
            for entry in self.journal.entries():
                fresh.apply(entry)
                anchored = anchored or entry.hash == anchor
            self._check_witness(witness)
            if fresh.last is None or not fresh.accounting.kept():
                raise LedgerCorrupted(f"{self.path}, entry 1: its allowance is more than its budget implies.")
            self.follow()
            return fresh, anchored

    def close(self) -> None:
        """Close for good."""
        with self.lock:
            self.journal.close()


_OPEN: weakref.WeakSet[Book] = weakref.WeakSet()
_HELD: list[Book] = []


def _before_fork() -> None:
    """Close every file: in a child, SQLite would believe to hold locks that only the parent holds.

    Without them another process that closes the ledger removes the log while the child still writes to it,
    and the child's spends are lost.
    """
    for book in list(_OPEN):
        book.lock.acquire()
        book.journal.suspend()
        _HELD.append(book)


def _after_fork() -> None:
    while _HELD:
        _HELD.pop().lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
