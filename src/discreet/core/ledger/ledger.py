"""Ledger: the durable record of what was spent on a data set, and the guard of its budget.

Order of a release: reserve (committed and flushed), draw, record the answer, return. A crash can therefore
over-count and never under-count. Why the sums are valid for releases chosen one after another:
``docs/proofs/ledger.md``.
"""

from __future__ import annotations

import hmac
import os
import secrets
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

from discreet.core import requirements
from discreet.core.errors import (
    InvalidParameter,
    LedgerCorrupted,
    LedgerMismatch,
    LedgerMissing,
    LedgerUnavailable,
    WrongType,
)
from discreet.core.guarantee import Guarantee
from discreet.core.ledger import claim
from discreet.core.ledger.accounting import Accounting, covers, less
from discreet.core.ledger.balance import FORMAT, Balance, Partition, texts
from discreet.core.ledger.file_journal import FileJournal
from discreet.core.ledger.journal import Entry, Journal, MemoryJournal, canonical
from discreet.core.ledger.postgres_journal import PostgresJournal
from discreet.core.ledger.records import Preview, Reservation, Spend, Statement, Verification
from discreet.core.protection import Neighbours, Protection, Unit
from discreet.core.result import Result

__all__ = ["Ledger", "Reservation"]

Decision = tuple[str, str] | None
"""Kind and body of the entry to append, or None for nothing."""


class Ledger:
    """A budget for one data set and the record of everything that was spent from it.

    One object may be used by any number of threads.

    Parameters
    ----------
    path
        A file, created where there is none; ``"postgresql://…"`` for a ledger that several hosts share (a fragment
        such as ``#survey`` tells several ledgers of one database apart); or ``":memory:"`` for studies.
    budget
        What all releases together must satisfy. May be left out for a ledger that exists.
    dataset
        A public name of the data set. A ledger belongs to one data set.
    neighbours, unit
        Between which data sets and for whom the guarantees hold. Fixed here or by the first release.
    accounting
        How guarantees add up: ``"pure"``, ``"basic"``, ``"zcdp"`` or ``"gdp"``. By default the budget's own;
        an `ApproxDP` budget may be counted in ``"zcdp"`` or ``"gdp"``, which allows more releases.
    timeout
        Seconds to wait for another process's lock.
    read_only
        Open an existing ledger to look at it or verify it.

    Guarantee
    ---------
    Whatever is released through the ledger, chosen one after another in any way, satisfies ``budget`` for the
    neighbours and the unit of the ledger: Σε ≤ ε (pure), Σε ≤ ε and Σδ ≤ δ (basic), Σρ ≤ ρ (zCDP), Σμ² ≤ μ²
    (GDP), in exact arithmetic.

    Examples
    --------
    >>> from discreet.core.guarantee import PureDP
    >>> ledger = Ledger(":memory:", budget=PureDP(1.0))
    >>> for _ in range(3):
    ...     reservation = ledger.reserve(
    ...         PureDP(0.1),
    ...         question={"ask": "count"},
    ...         mechanism={"name": "laplace", "scale": 10.0},
    ...         sensitivity={"l1": 1.0},
    ...         protection=Protection(),
    ...     )
    >>> ledger.remaining()
    PureDP(epsilon=0.7)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        budget: Guarantee | None = None,
        *,
        dataset: str | None = None,
        neighbours: Neighbours | None = None,
        unit: Unit | str | None = None,
        accounting: str | None = None,
        timeout: float = 30.0,
        read_only: bool = False,
    ) -> None:
        if budget is not None:
            Accounting.chosen(budget, accounting)
        if dataset is not None:
            claim.text("dataset", dataset)
        if neighbours is not None:
            requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        terms = {
            "budget": budget and budget.to_dict(),
            "accounting": accounting,
            "dataset": dataset,
            "neighbours": neighbours and neighbours.value,
            "unit": None if unit is None else Unit.of(unit).to_dict(),
        }
        self._address = _address(path)
        self._lock = threading.RLock()
        self._balance: Balance | None = None
        self._journal = _journal(self._address, requirements.positive("timeout", timeout), bool(read_only))
        try:
            balance = self._open(terms)
            self._opening, self._accounting = balance.opening, balance.accounting
            self._check(terms, balance)
        except BaseException:
            self._journal.close()
            raise
        _OPEN.add(self)

    def _open(self, terms: dict[str, Any]) -> Balance:
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

    def _first(self, terms: dict[str, Any], witness: Mapping[int, str]) -> str:
        """The first entry of a new ledger."""
        if witness:
            raise self._lost(max(witness))
        if terms["budget"] is None or self._journal.read_only:
            new = "A new ledger needs a budget: pass budget=PureDP(1.0)."
            fix = "Check the path." if self._journal.read_only else new
            raise LedgerMissing(f"there is no ledger at {self.path}. {fix}")
        counted = Accounting.of(Guarantee.from_dict(terms["budget"]), terms["accounting"])
        fixed = {"format": FORMAT, "accounting": counted.name, "allowance": texts(counted.allowance)}
        return canonical("dataset", {**terms, **fixed, "salt": secrets.token_hex(32), "created": claim.now()})

    def _check(self, terms: dict[str, Any], balance: Balance) -> None:
        """Refuse a ledger that was opened with other terms, or that counts for somebody else."""
        for name in ("budget", "dataset", "accounting"):
            wish, found = terms[name], self._opening[name]
            if wish is not None and wish != found:
                ours, theirs = (
                    str(Guarantee.from_dict(term)) if isinstance(term, dict) else repr(term) for term in (found, wish)
                )
                raise LedgerMismatch(
                    f"{self.path} was opened with {name} = {ours}, not {theirs}. A ledger keeps its {name}: give the "
                    "same one or leave it out. A new ledger at another path would count from nothing, which is for "
                    "the owner of the data to decide."
                )
        neighbours, unit = terms["neighbours"], terms["unit"]
        balance.check_pins(neighbours and Neighbours(neighbours), unit and Unit.from_dict(unit))

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

    # -- spending ------------------------------------------------------------------------------------------

    def reserve(
        self,
        guarantee: claim.Guarantees,
        *,
        question: Any,
        mechanism: dict[str, Any],
        sensitivity: dict[str, Any],
        protection: Protection,
        release_id: str | None = None,
        request: str | None = None,
        partition: str | Partition | None = None,
        parts: str | Iterable[str] | None = None,
    ) -> Reservation:
        """Spend, durably, before anything is drawn.

        Parameters
        ----------
        guarantee
            What the release guarantees. In a partition also a mapping from part to guarantee.
        question, mechanism, sensitivity
            Public descriptions made of JSON values; never a data value. The question is all of what is asked: a
            request is the same request only if all of it is the same.
        protection
            For whom the guarantee holds; unit and neighbours are the same for every release of a ledger.
        release_id
            A unique id; made up where it is left out.
        request
            The caller's own key. A repeated request with the same content gets the existing reservation and is
            not charged again. **With a request, use no value before `record_answer` has returned it.**
        partition, parts
            The disjoint groups (see `partition`) and which of them the release reads; None means all of them,
            each with ``guarantee``.

        Raises
        ------
        InsufficientBudget
            Where less is left; nothing is written.
        LedgerUnavailable
            Where the spend could not be made durable; draw nothing.
        """
        content = claim.described(question, mechanism, sensitivity, protection)
        content |= claim.scope(guarantee, partition, parts)
        content |= claim.identified(release_id, request)
        claim.written(content)  # refuses what is not JSON before the lock is taken
        earlier: list[Reservation] = []

        def decide(balance: Balance) -> Decision:
            if request in balance.requests:
                earlier.append(self._repeated(balance, content))
                return None
            balance.check_pins(protection.neighbours, protection.unit)
            if content["release_id"] in balance.releases:
                raise InvalidParameter("release_id", release_id, "was used before", "Leave release_id out.")
            charge = balance.charge(content, protection.neighbours)
            total = balance.check_budget(charge)
            return "spend", claim.written(content | {"charge": texts(charge), "total": texts(total)})

        entry = self._step(decide)
        if entry is None:
            return earlier[0]
        return Reservation(seq=entry.seq, hash=entry.hash, release_id=content["release_id"], request=request)

    def _repeated(self, balance: Balance, content: Mapping[str, Any]) -> Reservation:
        """The reservation of a repeated request."""
        request = content["request"]
        recorded = self._entry(balance.requests[request]).content
        if claim.fingerprint(content) != claim.fingerprint(recorded):
            raise InvalidParameter(
                "request", request, "was used for a different release",
                "Use a new request, or repeat the release exactly as it was. Nothing was spent.",
            )  # fmt: skip
        return self._reserved(balance, request)

    def _reserved(self, balance: Balance, request: str) -> Reservation:
        spend = self._entry(balance.requests[request])
        place = balance.answers[spend.seq]
        return Reservation(
            seq=spend.seq, hash=spend.hash, release_id=spend.content["release_id"], request=request,
            answered=place is not None, answer=None if place is None else self._entry(place).content["answer"],
        )  # fmt: skip

    def requested(self, request: str) -> Reservation | None:
        """The reservation made for a request, with its answer where one is stored; None where it is new."""
        claim.text("request", request)
        with self._lock:
            balance = self._look()
            return self._reserved(balance, request) if request in balance.requests else None

    def record_answer(self, reservation: Reservation, answer: Any) -> Any:
        """Store the public answer and return the one that is stored.

        The first answer stays: of two processes that race with one request, both return the same value.
        ``answer`` is made of JSON values.
        """
        requirements.instance("reservation", reservation, Reservation, "what reserve() returned")
        body = canonical("answer", {"spend": reservation.seq, "answer": answer, "created": claim.now()})
        stored: list[Entry] = []

        def decide(balance: Balance) -> Decision:
            spend = self._journal.entry(reservation.seq)
            if spend is None or spend.hash != reservation.hash:
                raise LedgerMismatch("the reservation belongs to another ledger. Record it where it was made.")
            place = balance.answers[spend.seq]
            if place is not None:
                stored.append(self._entry(place))
                return None
            return "answer", body

        return (self._step(decide) or stored[0]).content["answer"]

    def partition(self, name: str, parts: Iterable[str], *, membership_public: bool = False) -> Partition:
        """Declare disjoint groups, which are then charged in parallel: the largest total counts, not the sum.

        Parameters
        ----------
        name
            What the groups are. Declaring the same partition again returns it.
        parts
            Names of the groups: public, not read from the data. Each privacy unit belongs to at most one part,
            with **all** its rows.
        membership_public
            Declare that it is public which unit belongs to which part. Needed under `Neighbours.REPLACE_ONE`,
            where a replaced unit may otherwise leave one part and enter another. What the ledger then guarantees
            covers everything about a unit but the part it belongs to.
        """
        if isinstance(parts, str):
            raise WrongType("parts", parts, "must be a collection of names", 'Pass ["north", "south"].')
        requirements.instance("membership_public", membership_public, bool, "True or False")
        declared = Partition(claim.text("name", name), tuple(claim.names(parts)), membership_public)
        content = {"name": name, "parts": list(declared.parts), "membership_public": membership_public}

        def decide(balance: Balance) -> Decision:
            known = balance.partitions.get(name)
            if known is not None and known.partition != declared:
                raise InvalidParameter("name", name, "names another partition", "Choose another name.")
            declared.check(balance.neighbours)
            return None if known else ("partition", canonical("parts", content | {"created": claim.now()}))

        self._step(decide)
        return declared

    # -- what belongs to it --------------------------------------------------------------------------------

    def note(self, *, sources: Iterable[str] = (), anchors: Iterable[str] = ()) -> None:
        """Remember where the data is and where heads are kept, so that both can be found again.

        Parameters
        ----------
        sources
            What identifies the data: a path, a table, a name; never its content. Only a keyed hash is stored.
        anchors
            Files to which heads of this ledger are copied.
        """
        found = [self._keyed(claim.text("sources", source)) for source in sources]
        places = [claim.text("anchors", place) for place in anchors]
        if self._look().sources.issuperset(found) and self._look().anchors.issuperset(places):
            return
        content = {"sources": found, "anchors": places, "created": claim.now()}
        self._step(lambda _: ("note", canonical("note", content)))

    def counts(self, source: str) -> bool:
        """Whether this ledger was told that it counts for a source."""
        return self._keyed(source) in self._look().sources

    def _keyed(self, source: str) -> str:
        return hmac.new(self.salt, source.encode(), "sha256").hexdigest()

    @property
    def anchors(self) -> tuple[str, ...]:
        """Files to which heads of this ledger are copied."""
        return tuple(sorted(self._look().anchors))

    # -- looking -------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The file, the server's address without its password, or ``":memory:"``."""
        return self._journal.where

    @property
    def budget(self) -> Guarantee:
        """What all releases together satisfy."""
        return self._accounting.budget

    @property
    def accounting(self) -> str:
        """How guarantees add up."""
        return self._accounting.name

    @property
    def currency(self) -> type[Guarantee]:
        """The kind of guarantee that is charged; ask mechanisms for this kind."""
        return self._accounting.currency

    @property
    def dataset(self) -> str | None:
        """Name of the data set."""
        name: str | None = self._opening["dataset"]
        return name

    @property
    def salt(self) -> bytes:
        """Random bytes, fixed for this data set, for choices that must not change between releases."""
        return bytes.fromhex(self._opening["salt"])

    @property
    def neighbours(self) -> Neighbours | None:
        """The neighbour relation, once fixed."""
        return self._look().neighbours

    @property
    def unit(self) -> Unit | None:
        """The privacy unit, once fixed."""
        return self._look().unit

    @property
    def head(self) -> str:
        """Hash of the last entry: a copy kept elsewhere proves later that nothing before it was changed."""
        return self._look().head

    def spent(self) -> Guarantee:
        """What was spent, in the ledger's currency, rounded up."""
        return self._accounting.at_least(self._look().spent)

    def remaining(self) -> Guarantee:
        """What is left, in the ledger's currency, rounded down: a release at this guarantee is possible."""
        return self._accounting.at_most(self._look().left())

    def preview(
        self,
        guarantee: claim.Guarantees,
        *,
        partition: str | Partition | None = None,
        parts: str | Iterable[str] | None = None,
    ) -> Preview:
        """What a release would cost and leave; writes nothing."""
        content = claim.scope(guarantee, partition, parts)
        with self._lock:
            balance = self._look()
            charge, left = balance.charge(content, balance.neighbours), balance.left()
        rounded_down = self._accounting.at_most
        after = rounded_down(less(left, charge)) if covers(left, charge) else None
        return Preview(charge=self._accounting.at_least(charge), remaining=rounded_down(left), after=after)

    def events(self) -> tuple[Spend, ...]:
        """Every spend, in order."""
        return self.statement().spends

    def answer(self, release_id: str) -> Any:
        """The stored public answer of a release, or None."""
        with self._lock:
            balance = self._look()
            place = balance.answers.get(balance.releases.get(release_id, 0))
            return None if place is None else self._entry(place).content["answer"]

    def statement(self) -> Statement:
        """Everything the ledger can show."""
        with self._lock:
            balance = self._look()
            return Statement(
                path=self.path, dataset=self.dataset, budget=self.budget, accounting=self.accounting,
                spent=self._accounting.at_least(balance.spent), remaining=self._accounting.at_most(balance.left()),
                neighbours=balance.neighbours, unit=balance.unit, entries=balance.seq, head=balance.head,
                spends=tuple(Spend.read(self._entry(seq), balance) for seq in balance.answers),
            )  # fmt: skip

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

    def __reduce__(self) -> tuple[type[Ledger], tuple[str]]:
        if self._address == ":memory:":
            raise LedgerUnavailable(
                "an in-memory ledger cannot be copied to another process: both would spend the same budget. "
                "Use a ledger in a file."
            )
        return Ledger, (self._address,)

    def __repr__(self) -> str:
        return f"Ledger({self.path!r}, budget={self.budget!r})"

    def __str__(self) -> str:
        return Result.__str__(self.statement())

    def _repr_html_(self) -> str:
        return self.statement()._repr_html_()


def _address(path: Any) -> str:
    """Where the ledger is: an absolute path, an address, or ``":memory:"``."""
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        raise WrongType("path", path, "must be a path", 'Pass a file name, or ":memory:".')
    name = os.fspath(path)
    if name == "" or "\0" in name:
        raise InvalidParameter("path", path, "must name a file", 'Pass a file name, or ":memory:".')
    return name if name == ":memory:" or _on_a_server(name) else os.path.abspath(name)


def _on_a_server(address: str) -> bool:
    return address.startswith(("postgresql://", "postgres://"))


def _journal(address: str, timeout: float, read_only: bool) -> Journal:
    if address == ":memory:":
        return MemoryJournal()
    kind = PostgresJournal if _on_a_server(address) else FileJournal
    return kind(address, timeout=timeout, read_only=read_only)


_OPEN: weakref.WeakSet[Ledger] = weakref.WeakSet()
_HELD: list[Ledger] = []


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
