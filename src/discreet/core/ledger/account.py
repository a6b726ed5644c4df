"""Account: a budget that the door spends from, and the record of everything that was.

The *door*, `discreet.core.door`, is the one place where a private value becomes public: every release passes it.
Order of a release: reserve (committed and flushed), draw, record the answer, return. A crash can therefore
over-count and never under-count. Why the sums are valid for releases chosen one after another:
``docs/proofs/ledger.md``.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from discreet.core import errors, requirements
from discreet.core.guarantee import Guarantee
from discreet.core.ledger import balance as clock
from discreet.core.ledger.balance import (
    EVERY,
    Balance,
    fingerprint,
    identified,
    restored,
    state_of,
    text,
    texts,
    written,
)
from discreet.core.ledger.journal import Entry, FileJournal, Journal, MemoryJournal, canonical, forked
from discreet.core.ledger.postgres_journal import PostgresJournal

# ---- Store: where a ledger's entries are kept.


def address_of(path: Any) -> str:
    """Where the ledger is: an absolute path, an address, or ``":memory:"``."""
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        raise errors.WrongType("path", path, "must be a path", 'Pass a file name, or ":memory:".')
    name = os.fspath(path)
    if name == "" or "\0" in name:
        raise errors.InvalidParameter("path", path, "must name a file", 'Pass a file name, or ":memory:".')
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


# ---- Account: a budget that the door spends from, and the record of everything that was.


Decision = tuple[str, str] | None
"""Kind and body of the entry to append, or None for nothing."""
A = TypeVar("A", bound="Account")
P = ParamSpec("P")
T = TypeVar("T")


def alone(look: Callable[Concatenate[A, P], T]) -> Callable[Concatenate[A, P], T]:
    """Let one thread at a time look, and what it looks at stay the same meanwhile.

    A signal handler that interrupts a use by its own thread looks through a second reader of the same entries: it must
    touch neither the state nor the lock of what it interrupted.
    """

    @wraps(look)
    def looking(account: A, /, *arguments: P.args, **options: P.kwargs) -> T:
        journal = account._journal
        if not journal.interrupted():
            with journal.lock:
                journal.user = sys._getframe()
                try:
                    journal.recover()
                    return look(account, *arguments, **options)
                finally:
                    journal.user = None
        other: A = object.__new__(type(account))
        vars(other).update(vars(account), _journal=second(journal, account._address), _balance=None)
        return looking(other, *arguments, **options)

    return looking


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """A spend that is on disk: the permission to draw once.

    Attributes
    ----------
    seq, hash
        The spend's position and hash.
    release_id
        The id under which it was recorded; a repeated request gets the id of the first.
    request
        The caller's own key, if any.
    answered, answer
        Whether a public answer is stored, and the answer. Then return it, and draw nothing.
    """

    seq: int
    hash: str
    release_id: str
    request: str | None
    answered: bool = False
    answer: Any = None


class Account:
    """A budget, the journal of what was spent from it, and the balance that its entries add up to.

    `discreet.Ledger` adds how people open it, look at it and approve plans in it.
    """

    _plan: str | None = None
    _team: str | None = None
    """The approved plan and the team that the next releases are paid for, by the names that the journal knows."""

    def __init__(
        self, path: str | os.PathLike[str], first: Callable[[str], str], *, timeout: float, read_only: bool
    ) -> None:
        """Open the ledger at a path; where there is none, begin with the entry whose body ``first`` gives."""
        self._address = address_of(path)
        self._balance: Balance | None = None
        self._journal = journal_at(self._address, requirements.positive("timeout", timeout), bool(read_only))
        try:
            balance = self._open(first)
        except BaseException:
            self._journal.close()
            raise
        self._opening, self._accounting = balance.opening, balance.accounting

    @property
    def path(self) -> str:
        """The file, the server's address without its password, or ``":memory:"``."""
        return self._journal.where

    @property
    def salt(self) -> bytes:
        """Random bytes, fixed for this data set, for choices that must not change between releases."""
        return bytes.fromhex(self._opening["salt"] if "salt" in self._opening else self._opening["secret"])

    def _open(self, first: Callable[[str], str]) -> Balance:
        """Read every entry, after writing the first where there is none."""
        witness = self._journal.witness()  # before the entries, so that it cannot be ahead of them
        if self._journal.is_empty():
            if witness:
                raise self._lost(max(witness))
            if self._journal.read_only:
                raise errors.LedgerMissing(f"there is no ledger at {self.path}. Check the path.")
            body = first(self.path)  # refuses bad terms before anything is created
            self._journal.create(Balance(self.path).following("open", body))
        self._balance = known = self._kept()
        balance = self._follow()
        self._check_witness(witness)
        if "secret_hash" in balance.opening:  # an excerpt may leave the secret out, a ledger may not
            raise errors.LedgerCorrupted(
                f"{self.path}, entry 1: its secret was removed. Restore the ledger from a copy."
            )
        if not self._journal.read_only:
            self._journal.attest(Entry(balance.seq, "", "", balance.head))
            if balance.seq - (known.seq if known else 0) >= EVERY:
                self._journal.keep(state_of(balance))
        return balance

    def _kept(self) -> Balance | None:
        """The balance of a checkpoint; None where there is none for these entries."""
        state = self._journal.checkpoint()
        return None if state is None else restored(self.path, self._entry(1), state)

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
                raise errors.LedgerCorrupted(
                    f"{self.path}, entry {known.seq}: it is not the one seen before. The file was replaced: restore it."
                )
        balance = known or Balance(self.path)
        for entry in self._journal.entries(after=balance.seq):
            self._balance = None
            balance.apply(entry)
        if balance.seq == 0:
            raise errors.LedgerCorrupted(f"{self.path}: the ledger has no entries. Restore it from a copy.")
        self._balance = balance
        return balance

    @alone
    def _look(self) -> Balance:
        """The newest state, to read one of its fields; `alone` where it is more than one."""
        return self._follow()

    def _now(self) -> Balance:
        """The newest state, at this moment: a window may have ended since the last spend."""
        return self._look().at(clock.now())

    def _step(self, decide: Callable[[Balance], Decision], process: int | None = None) -> Entry | None:
        """One atomic step on the newest state; what it appends is durable, and was read back, when this returns.

        ``process`` is the one in which ``decide`` was made; the child of a fork since then is refused.
        """

        def entry() -> Entry | None:
            if process != os.getpid():
                raise forked()
            balance = self._follow()
            decided = decide(balance)
            return None if decided is None else balance.following(*decided)

        journal, process = self._journal, process or os.getpid()
        if journal.interrupted():
            raise errors.LedgerUnavailable(
                "a signal handler cannot spend in the middle of another use of the ledger by its own thread. Spend "
                "when the handler has returned. Nothing was spent."
            )
        with journal.lock:
            journal.user = sys._getframe()
            try:
                journal.recover()
                if journal.read_only:
                    raise errors.LedgerUnavailable(
                        f"the ledger {self.path} was opened with read_only=True. Open it for writing to spend from it."
                    )
                appended = journal.write(entry)
                if appended is not None:
                    self._read_back(appended)
                if process != os.getpid():
                    raise forked()
                return appended
            except errors.LedgerError:
                if process != os.getpid():  # a child finds nothing where its parent was reading
                    raise forked() from None
                raise
            finally:
                journal.user = None

    def _read_back(self, appended: Entry) -> None:
        """Refuse to go on where an entry is not where it was written."""
        self._follow()  # so that this process notices if its own entry should vanish later
        found = self._journal.entry(appended.seq)
        if found is None or found.hash != appended.hash:
            raise errors.LedgerCorrupted(
                f"{self.path}, entry {appended.seq}: it was written and is not there. Another program changes the "
                "ledger. Nothing was drawn."
            )
        self._journal.attest(appended)

    def _check_witness(self, witness: Mapping[int, str]) -> None:
        for seq, digest in witness.items():
            found = self._journal.entry(seq)
            if found is None or found.hash != digest:
                raise self._lost(seq)

    def _lost(self, seq: int) -> errors.LedgerCorrupted:
        return errors.LedgerCorrupted(
            f"{self.path}: entry {seq} was written, as {self.path}-head tells, and is missing or changed now. "
            "The end of the ledger was lost or an old copy was put in its place: releasing could overspend. "
            "Restore the file; delete the -head file only if you mean to start a new ledger."
        )

    def _entry(self, seq: int) -> Entry:
        """The entry at a position that is known to exist."""
        entry = self._journal.entry(seq)
        if entry is None:
            raise errors.LedgerCorrupted(f"{self.path}, entry {seq}: it is missing. Restore the ledger from a copy.")
        return entry

    @alone
    def entries(self) -> tuple[Entry, ...]:
        """Everything that was written, in order."""
        return tuple(self._journal.entries())

    @alone
    def missing(self, heads: Iterable[str]) -> set[str]:
        """Those of some heads that no entry has: this ledger is older than they are, or another one."""
        wanted = set(heads)
        return wanted.difference(entry.hash for entry in self._journal.entries()) if wanted else wanted

    # -- checking ------------------------------------------------------------------------------------------

    @alone
    def recomputed(self, heads: Collection[str] = ()) -> Balance:
        """Check every page, hash, kind, sum and trigger again, from the store alone, and that it has these heads."""
        witness = self._journal.witness()
        if self._journal.is_empty():
            raise errors.LedgerCorrupted(f"{self.path}: the ledger is empty. Restore it from a copy.")
        self._journal.check_structure()
        fresh, missing = Balance(self.path), set(heads)
        for entry in self._journal.entries():
            fresh.apply(entry)
            missing.discard(entry.hash)
        self._check_witness(witness)
        if state_of(fresh) != state_of(self._follow()):  # what this process counted must be part of it
            raise errors.LedgerCorrupted(
                f"{self.path}: {self.path}-state is not what the entries add up to. Delete that file."
            )
        if missing:
            raise errors.LedgerCorrupted(
                f"{self.path}: no entry has the hash {min(missing)!r}. The history before the anchor was changed, an "
                "older copy was put in the ledger's place, or the anchor is another ledger's."
            )
        return fresh

    # -- spending ------------------------------------------------------------------------------------------

    @property
    def currency(self) -> type[Guarantee]:
        """The kind of guarantee that is charged; ask mechanisms for this kind."""
        return self._accounting.currency

    def pay(
        self, content: Mapping[str, Any], *, release_id: str | None = None, request: str | None = None
    ) -> Reservation:
        """Spend, durably, before anything is drawn.

        Parameters
        ----------
        content
            What the release says of itself: the fields of `fingerprint`, made of JSON values.
        release_id, request
            As in `discreet.Ledger.reserve`.
        """
        process = os.getpid()  # a child of a fork from here on would spend under the same release_id
        content = {**content, **identified(release_id, request), "plan": self._plan, "team": self._team}
        written(content)  # refuses what is not JSON before the lock is taken
        earlier: list[Reservation] = []

        def decide(balance: Balance) -> Decision:
            if request in balance.requests:
                earlier.append(self._repeated(balance, content))
                return None
            _, charge, total = balance.admit(content)
            return "spend", written(content | {"charge": texts(charge), "total": texts(total)})

        entry = self._step(decide, process)
        if entry is None:
            return earlier[-1]
        return Reservation(seq=entry.seq, hash=entry.hash, release_id=content["release_id"], request=request)

    def _repeated(self, balance: Balance, content: Mapping[str, Any]) -> Reservation:
        """The reservation of a repeated request."""
        request = content["request"]
        if fingerprint(content) != fingerprint(self._entry(balance.requests[request]).content):
            raise errors.InvalidParameter(
                "name", request, "was used for a different release",
                "Use a new name, or repeat the release exactly as it was. Nothing was spent.",
            )  # fmt: skip
        return self._reserved(balance, request)

    def _reserved(self, balance: Balance, request: str) -> Reservation:
        spend = self._entry(balance.requests[request])
        place = balance.answers[spend.seq]
        return Reservation(
            seq=spend.seq, hash=spend.hash, release_id=spend.content["release_id"], request=request,
            answered=place is not None, answer=None if place is None else self._entry(place).content["answer"],
        )  # fmt: skip

    @alone
    def requested(self, request: str) -> Reservation | None:
        """The reservation made for a request, with its answer where one is stored; None where it is new."""
        balance = self._follow()
        return self._reserved(balance, request) if text("request", request) in balance.requests else None

    def record_answer(self, reservation: Reservation, answer: Any) -> Any:
        """Store the public answer and return the one that is stored.

        The first answer stays: of two processes that race with one request, both return the same value.
        ``answer`` is made of JSON values.
        """
        requirements.instance("reservation", reservation, Reservation, "what reserve() returned")
        # A bundle may show the digest of an answer it keeps back; few answers are likely, so the digest alone tells it.
        body = canonical("answer", {"spend": reservation.seq, "answer": answer, "nonce": secrets.token_hex(16)})
        stored: list[Entry] = []

        def decide(balance: Balance) -> Decision:
            spend = self._journal.entry(reservation.seq)
            if spend is None or spend.hash != reservation.hash:
                raise errors.LedgerMismatch("the reservation belongs to another ledger. Record it where it was made.")
            place = balance.answers[spend.seq]
            if place is not None:
                stored.append(self._entry(place))
                return None
            return "answer", body

        return (self._step(decide) or stored[-1]).content["answer"]

    # -- life ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the file or the server; the ledger cannot be used afterwards."""
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
