"""Ledger: the durable record of what was spent on a data set, and the guard of its budget.

Order of a release: reserve (committed and flushed), draw, record the answer, return. A crash can therefore
over-count and never under-count. Why the sums are valid for releases chosen one after another:
``docs/proofs/ledger.md``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Self

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, LedgerCorrupted, LedgerMismatch, LedgerUnavailable, WrongType
from discreet.core.guarantee import Guarantee
from discreet.core.ledger import claim
from discreet.core.ledger.accounting import Accounting, covers, less
from discreet.core.ledger.balance import Balance, Partition, fingerprint, texts
from discreet.core.ledger.book import Book, Terms
from discreet.core.ledger.journal import canonical
from discreet.core.ledger.reservation import Reservation, charged, check_pins, check_scope
from discreet.core.ledger.statement import Preview, Spend, Statement, Verification
from discreet.core.protection import Neighbours, Protection, Unit

__all__ = ["Ledger", "Reservation"]


class Ledger:
    """A budget for one data set and the record of everything that was spent from it.

    Parameters
    ----------
    path
        A file, created where there is none, or ``":memory:"`` for studies.
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
        name = _absolute(path)
        if budget is not None:
            Accounting.chosen(budget, accounting)
        if dataset is not None:
            claim.text("dataset", dataset)
        if neighbours is not None:
            requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        seconds = requirements.positive("timeout", timeout)
        terms = Terms(budget, accounting, dataset)
        self._book = Book(name, terms, timeout=seconds, read_only=bool(read_only))
        try:
            self._pin(neighbours, None if unit is None else Unit.of(unit))
        except BaseException:
            self.close()
            raise

    def _pin(self, neighbours: Neighbours | None, unit: Unit | None) -> None:
        with self._book.look() as balance:
            check_pins(balance, neighbours, unit)
            if (neighbours is None or balance.neighbours) and (unit is None or balance.unit):
                return
        with self._book.step() as balance:
            check_pins(balance, neighbours, unit)
            new = {
                "neighbours": None if neighbours is None else neighbours.value,
                "unit": None if unit is None else unit.to_dict(),
            }
            self._book.append("pin", canonical("unit", new | {"created": claim.now()}))

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
            What the release promises. In a partition also a mapping from part to guarantee.
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
        self._book.balance.costs(content)  # refuses what has no conversion, before the lock is taken
        with self._book.step() as balance:
            earlier = self._earlier(balance, content)
            if earlier is not None:
                return earlier
            check_pins(balance, protection.neighbours, protection.unit)
            check_scope(balance, content, protection.neighbours)
            if content["release_id"] in balance.releases:
                raise InvalidParameter("release_id", release_id, "was used before", "Leave it out.")
            charge, total = charged(balance, content)
            sums = {"charge": texts(charge), "total": texts(total)}
            entry = self._book.append("spend", claim.written(content | sums))
        return Reservation(seq=entry.seq, hash=entry.hash, release_id=content["release_id"], request=request)

    def _earlier(self, balance: Balance, content: Mapping[str, Any]) -> Reservation | None:
        """The reservation of a repeated request."""
        request = content["request"]
        if request is None or request not in balance.requests:
            return None
        if fingerprint(content) != balance.requests[request][1]:
            raise InvalidParameter(
                "request", request, "was used for a different release",
                "Use a new request, or repeat the release exactly as it was. Nothing was spent.",
            )  # fmt: skip
        return self._reserved(balance, request)

    def _reserved(self, balance: Balance, request: str) -> Reservation:
        seq = balance.requests[request][0]
        spend, answered = self._book.entry(seq), seq in balance.answers
        return Reservation(
            seq=seq, hash=spend.hash, release_id=spend.content["release_id"], request=request,
            answered=answered, answer=self._book.answer(seq) if answered else None,
        )  # fmt: skip

    def requested(self, request: str) -> Reservation | None:
        """The reservation made for a request, with its answer where one is stored; None where it is new."""
        claim.text("request", request)
        with self._book.look() as balance:
            return self._reserved(balance, request) if request in balance.requests else None

    def record_answer(self, reservation: Reservation, answer: Any) -> Any:
        """Store the public answer and return the one that is stored.

        The first answer stays: of two processes that race with one request, both return the same value.
        ``answer`` is made of JSON values.
        """
        requirements.instance("reservation", reservation, Reservation, "what reserve() returned")
        body = canonical("answer", {"spend": reservation.seq, "answer": answer, "created": claim.now()})
        with self._book.step() as balance:
            if self._book.journal.hash_at(reservation.seq) != reservation.hash:
                raise LedgerMismatch("the reservation belongs to another ledger. Record it where it was made.")
            if reservation.seq in balance.answers:
                return self._book.answer(reservation.seq)
            entry = self._book.append("answer", body)
        return entry.content["answer"]

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
            where a replaced unit may otherwise leave one part and enter another. What the ledger then promises
            covers everything about a unit but the part it belongs to.
        """
        if isinstance(parts, str):
            raise WrongType("parts", parts, "must be a collection of names", 'Pass ["north", "south"].')
        requirements.instance("membership_public", membership_public, bool, "True or False")
        declared = Partition(claim.text("name", name), tuple(claim.names(parts)), membership_public)
        with self._book.step() as balance:
            known = balance.partitions.get(name)
            if known is not None and known.partition != declared:
                raise InvalidParameter("name", name, "names another partition", "Choose another name.")
            claim.require_stable_membership(declared, balance.neighbours)
            if known is None:
                content = {"name": name, "parts": list(declared.parts), "membership_public": membership_public}
                self._book.append("partition", canonical("parts", content | {"created": claim.now()}))
        return declared

    # -- looking -------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The file, or ``":memory:"``."""
        return self._book.path

    @property
    def budget(self) -> Guarantee:
        """What all releases together satisfy."""
        return self._book.balance.accounting.budget

    @property
    def accounting(self) -> str:
        """How guarantees add up."""
        return self._book.balance.accounting.name

    @property
    def currency(self) -> type[Guarantee]:
        """The kind of guarantee that is charged; ask mechanisms for this kind."""
        return self._book.balance.accounting.currency

    @property
    def dataset(self) -> str | None:
        """Name of the data set."""
        name: str | None = self._book.balance.opening["dataset"]
        return name

    @property
    def salt(self) -> bytes:
        """Random bytes, fixed for this data set, for choices that must not change between releases."""
        return bytes.fromhex(self._book.balance.opening["salt"])

    @property
    def neighbours(self) -> Neighbours | None:
        """The neighbour relation, once fixed."""
        with self._book.look() as balance:
            return balance.neighbours

    @property
    def unit(self) -> Unit | None:
        """The privacy unit, once fixed."""
        with self._book.look() as balance:
            return balance.unit

    @property
    def head(self) -> str:
        """Hash of the last entry: a copy kept elsewhere proves later that nothing before it was changed."""
        with self._book.look() as balance:
            return balance.head

    def spent(self) -> Guarantee:
        """What was spent, in the ledger's currency, rounded up."""
        with self._book.look() as balance:
            return balance.accounting.at_least(balance.spent)

    def remaining(self) -> Guarantee:
        """What is left, in the ledger's currency, rounded down: a release at this guarantee is possible."""
        with self._book.look() as balance:
            return balance.accounting.at_most(balance.left())

    def preview(
        self,
        guarantee: claim.Guarantees,
        *,
        partition: str | Partition | None = None,
        parts: str | Iterable[str] | None = None,
    ) -> Preview:
        """What a release would cost and leave; writes nothing."""
        content = claim.scope(guarantee, partition, parts)
        with self._book.look() as balance:
            check_scope(balance, content, balance.neighbours)
            charge, left, accounting = balance.charge(content), balance.left(), balance.accounting
            after = accounting.at_most(less(left, charge)) if covers(left, charge) else None
            return Preview(charge=accounting.at_least(charge), remaining=accounting.at_most(left), after=after)

    def events(self) -> tuple[Spend, ...]:
        """Every spend, in order."""
        with self._book.look() as balance:
            spends = (entry for entry in self._book.journal.entries() if entry.kind == "spend")
            return tuple(Spend.read(entry, balance) for entry in spends)

    def answer(self, release_id: str) -> Any:
        """The stored public answer of a release, or None."""
        with self._book.look() as balance:
            seq = balance.releases.get(release_id)
            return None if seq is None or seq not in balance.answers else self._book.answer(seq)

    def statement(self) -> Statement:
        """Everything the ledger can show."""
        with self._book.lock:
            spends, balance = self.events(), self._book.balance
            return Statement(
                path=self.path, dataset=self.dataset, budget=self.budget, accounting=self.accounting,
                spent=balance.accounting.at_least(balance.spent),
                remaining=balance.accounting.at_most(balance.left()),
                neighbours=balance.neighbours, unit=balance.unit, entries=balance.seq, head=balance.head,
                spends=spends,
            )  # fmt: skip

    def verify(self, *, anchor: str | None = None) -> Verification:
        """Check every page, hash, kind, sum and trigger again, from the file.

        Parameters
        ----------
        anchor
            A head that was noted earlier and kept elsewhere. Only this can show that somebody rewrote the
            whole file, hashes included, or put an older copy of everything in its place.

        Raises
        ------
        LedgerCorrupted
            Naming the entry that is wrong.
        """
        if anchor is not None:
            claim.text("anchor", anchor)
        fresh, anchored = self._book.recomputed(anchor)
        if anchor is not None and not anchored:
            raise LedgerCorrupted(
                f"{self.path}: no entry has the hash {anchor!r}. The history before the anchor was changed, or the "
                "anchor is another ledger's."
            )
        return Verification(
            path=self.path, entries=fresh.seq, spends=len(fresh.releases), head=fresh.head, anchored=anchored,
            spent=fresh.accounting.at_least(fresh.spent), remaining=fresh.accounting.at_most(fresh.left()),
        )  # fmt: skip

    # -- life ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the file; the ledger cannot be used afterwards."""
        self._book.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[Ledger], tuple[str]]:
        if self.path == ":memory:":
            raise LedgerUnavailable(
                "an in-memory ledger cannot be copied to another process: both would spend the same budget. "
                "Use a ledger in a file."
            )
        return Ledger, (self.path,)

    def __repr__(self) -> str:
        return f"Ledger({self.path!r}, budget={self.budget!r})"

    def __str__(self) -> str:
        return self.statement().summary()

    def _repr_html_(self) -> str:
        return self.statement()._repr_html_()


def _absolute(path: Any) -> str | None:
    """The absolute path, or None for a ledger in memory."""
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        raise WrongType("path", path, "must be a path", 'Pass a file name, or ":memory:".')
    name = os.fspath(path)
    if name == "" or "\0" in name:
        raise InvalidParameter("path", path, "must name a file", 'Pass a file name, or ":memory:".')
    return None if name == ":memory:" else os.path.abspath(name)
