"""Book: the entries of a ledger, followed as this and other processes write them, and checked."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from discreet.core import requirements
from discreet.core.errors import LedgerCorrupted, LedgerMissing
from discreet.core.ledger import claim
from discreet.core.ledger.balance import Balance
from discreet.core.ledger.journal import Entry
from discreet.core.ledger.records import Verification
from discreet.core.ledger.store import address_of, journal_at, survive_forks
from discreet.core.ledger.terms import Terms
from discreet.core.protection import Unit

__all__ = ["Book", "Decision"]

Decision = tuple[str, str] | None
"""Kind and body of the entry to append, or None for nothing."""


class Book:
    """A journal and the balance that its entries add up to."""

    def __init__(self, path: str | os.PathLike[str], terms: Terms, *, timeout: float, read_only: bool) -> None:
        self._address = address_of(path)
        self._lock = threading.RLock()
        self._balance: Balance | None = None
        self._journal = journal_at(self._address, requirements.positive("timeout", timeout), bool(read_only))
        try:
            balance = self._open(terms)
            self._opening, self._accounting = balance.opening, balance.accounting
            terms.check(balance.opening, self.path)
            balance.check_pins(terms.neighbours, None if terms.unit is None else Unit.of(terms.unit))
        except BaseException:
            self._journal.close()
            raise
        survive_forks(self)

    @property
    def path(self) -> str:
        """The file, the server's address without its password, or ``":memory:"``."""
        return self._journal.where

    def _open(self, terms: Terms) -> Balance:
        """Read every entry, after writing the first where there is none."""
        witness = self._journal.witness()  # before the entries, so that it cannot be ahead of them
        if self._journal.is_empty():
            body = self._first(terms, witness)  # refuses bad terms before anything is created
            self._journal.create(Balance(self.path).following("open", body))
        balance = self._follow()
        self._check_witness(witness)
        if not self._journal.read_only:
            self._journal.attest(Entry(balance.seq, "", "", balance.head))
        return balance

    def _first(self, terms: Terms, witness: Mapping[int, str]) -> str:
        """The first entry of a new ledger."""
        if witness:
            raise self._lost(max(witness))
        if terms.budget is None or self._journal.read_only:
            new = "A new ledger needs a budget: pass budget=PureDP(1.0)."
            fix = "Check the path." if self._journal.read_only else new
            raise LedgerMissing(f"there is no ledger at {self.path}. {fix}")
        return terms.opening()

    # -- following the journal -----------------------------------------------------------------------------

    def _follow(self) -> Balance:
        """The balance after what this and other processes appended.

        It is taken out while it changes and put back whole: an interrupt leaves either the old one or none, and then
        the next use adds up all entries again.
        """
        known = self._balance
        if known is not None:
            last = self._journal.entry(known.seq)
            if last is None or last.hash != known.head:
                self._balance = None
                raise LedgerCorrupted(
                    f"{self.path}, entry {known.seq}: it is not the one seen before. The file was replaced: restore it."
                )
        balance = known or Balance(self.path)
        for entry in self._journal.entries(after=balance.seq):
            self._balance = None
            balance.apply(entry)
        if balance.seq == 0:
            raise LedgerCorrupted(f"{self.path}: the ledger has no entries. Restore it from a copy.")
        self._balance = balance
        return balance

    def _look(self) -> Balance:
        """The newest state, to read; inside the lock where more than one of its fields is."""
        with self._lock:
            self._journal.recover()
            return self._follow()

    def _now(self) -> Balance:
        """The newest state, at this moment: a window may have ended since the last spend."""
        return self._look().at(claim.now())

    def _step(self, decide: Callable[[Balance], Decision]) -> Entry | None:
        """One atomic step on the newest state; what it appends is durable when this returns."""

        def entry() -> Entry | None:
            balance = self._follow()
            decided = decide(balance)
            return None if decided is None else balance.following(*decided)

        with self._lock:
            self._journal.recover()
            appended = self._journal.write(entry)
            if appended is not None:
                self._journal.attest(appended)
                self._follow()  # so that this process notices if its own entry should vanish
            return appended

    def _check_witness(self, witness: Mapping[int, str]) -> None:
        for seq, digest in witness.items():
            found = self._journal.entry(seq)
            if found is None or found.hash != digest:
                raise self._lost(seq)

    def _lost(self, seq: int) -> LedgerCorrupted:
        return LedgerCorrupted(
            f"{self.path}: entry {seq} was written, as {self.path}-head tells, and is missing or changed now. "
            "The end of the ledger was lost or an old copy was put in its place: releasing could overspend. "
            "Restore the file; delete the -head file only if you mean to start a new ledger."
        )

    def _entry(self, seq: int) -> Entry:
        """The entry at a position that is known to exist."""
        entry = self._journal.entry(seq)
        if entry is None:
            raise LedgerCorrupted(f"{self.path}, entry {seq}: it is missing. Restore the ledger from a copy.")
        return entry

    def entries(self) -> tuple[Entry, ...]:
        """Everything that was written, in order."""
        with self._lock:
            self._journal.recover()
            return tuple(self._journal.entries())

    # -- checking ------------------------------------------------------------------------------------------

    def verify(self, *, anchor: str | Sequence[str] | None = None) -> Verification:
        """Check every page, hash, kind, sum and trigger again, from the store.

        Parameters
        ----------
        anchor
            A head that was noted earlier and kept elsewhere, or several. Only this can show that somebody rewrote the
            whole ledger, hashes included, or put an older copy of everything in its place.

        Raises
        ------
        LedgerCorrupted
            Naming the entry that is wrong.
        """
        wanted = () if anchor is None else anchor if isinstance(anchor, list | tuple) else (anchor,)
        heads = {claim.text("anchor", head) for head in wanted}
        fresh, missing = self._recomputed(heads)
        if missing:
            raise LedgerCorrupted(
                f"{self.path}: no entry has the hash {min(missing)!r}. The history before the anchor was changed, an "
                "older copy was put in the ledger's place, or the anchor is another ledger's."
            )
        return Verification(
            path=self.path, entries=fresh.seq, spends=len(fresh.answers), head=fresh.head, anchored=bool(heads),
            spent=fresh.accounting.at_least(fresh.spent), remaining=fresh.accounting.at_most(fresh.left()),
        )  # fmt: skip

    def _recomputed(self, heads: set[str]) -> tuple[Balance, set[str]]:
        """The balance computed from the store alone, and those of ``heads`` that are none of its hashes."""
        with self._lock:
            self._journal.recover()
            witness = self._journal.witness()
            if self._journal.is_empty():
                raise LedgerCorrupted(f"{self.path}: the ledger is empty. Restore it from a copy.")
            self._journal.check_structure()
            fresh, missing = Balance(self.path), set(heads)
            for entry in self._journal.entries():
                fresh.apply(entry)
                missing.discard(entry.hash)
            self._check_witness(witness)
            if fresh.seq == 0 or not fresh.accounting.kept():
                raise LedgerCorrupted(f"{self.path}, entry 1: its allowance is more than its budget implies.")
            self._follow()  # what this process counted must be part of it
            return fresh, missing

    # -- life ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the file or the server; the ledger cannot be used afterwards."""
        with self._lock:
            self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
