"""Ledger: the account of one data set, as people open it, look at it and approve plans in it.

What is spent, and that it stays within the budget, is the account's business (`discreet.core.ledger`).
"""

from __future__ import annotations

import hmac
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, LedgerUnavailable, WrongType
from discreet.core.guarantee import Guarantee
from discreet.core.ledger import claim
from discreet.core.ledger.account import Account, Decision, Reservation, alone
from discreet.core.ledger.accounting import added, covers, less
from discreet.core.ledger.approval import Approvals, Sign, digest_of, signed_text
from discreet.core.ledger.balance import Balance, Partition
from discreet.core.ledger.journal import canonical
from discreet.core.protection import Neighbours, Protection, Unit
from discreet.ledgers.records import Preview, Spend, Statement, Verification
from discreet.ledgers.terms import Terms
from discreet.result import Result

__all__ = ["ApprovedLedger", "Ledger"]


# ---- Approved ledger: an account, with the approvals that people sign in its entries


class ApprovedLedger(Account):
    """An account in which plans are approved, and under one of which the next releases are made."""

    def approve(self, meaning: Mapping[str, Any], *, by: str, sign: Sign) -> str:
        """Record that somebody approves a plan; returns the plan's digest.

        Parameters
        ----------
        meaning
            What the plan means, made of JSON values. ``releases`` says how often each release may be made, by the
            fingerprint of its claim; ``renew`` is a guarantee that is added to the budget.
        by, sign
            Who approves, and what makes their Ed25519 signature.
        """
        digest = digest_of(meaning)
        self._state({"plan": digest, "meaning": dict(meaning), "by": claim.text("by", by), "approves": True}, sign)
        return digest

    def withdraw(self, plan: str, *, by: str, sign: Sign) -> None:
        """Record that somebody no longer approves a plan. Releases that were made remain made."""
        self._state({"plan": plan, "meaning": None, "by": claim.text("by", by), "approves": False}, sign)

    def _state(self, said: dict[str, Any], sign: Sign) -> None:
        """Sign outside of the step, since ``sign`` may take its time, fork or use the ledger; again if others wrote."""
        deadline = time.monotonic() + self._journal.timeout
        while True:
            head = self._look().head
            content = said | {"signature": sign(signed_text(head, said)).hex(), "created": claim.now()}
            if self._step(partial(_stated, head, content)) is not None:
                return
            if time.monotonic() > deadline:
                raise LedgerUnavailable(
                    f"the ledger {self.path} cannot be used: others wrote whenever this was signed. Try "
                    "again. Nothing was approved or withdrawn."
                )

    def under(self, plan: str) -> None:
        """Make the next releases of this object under an approved plan, by its digest."""
        self._plan = claim.text("plan", plan)

    def check_allowed(self, claimed: str) -> None:
        """Refuse a claim, by its identity, that the plan of this object does not allow, or not once more."""
        self._look().consent.check(self._plan, claimed)

    def approving(self, plan: str) -> tuple[str, ...]:
        """Who approves a plan now."""
        return tuple(sorted(self._look().consent.approving.get(plan, ())))

    def agreed(self, plan: str) -> bool:
        """Whether enough people approve a plan; always where the ledger has no rule."""
        return self._look().consent.agreed(plan)

    def approved(self) -> tuple[Mapping[str, Any], ...]:
        """What was ever approved, oldest first."""
        return tuple(self._look().consent.meanings.values())

    @property
    def approvals(self) -> Approvals | None:
        """Who must approve; None where nobody has to."""
        return self._look().consent.rule


def _stated(head: str, content: dict[str, Any], balance: Balance) -> Decision:
    """The entry of a statement; nothing where the head is no longer the one that was signed."""
    if balance.head != head:
        return None
    balance.consent.check_statement(head, content)
    return "approval", canonical("meaning", content)


class Ledger(ApprovedLedger):
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
    approvals
        Who must approve a plan before the ledger pays for its releases; nothing else can then be released.
    window
        ``"year"``, ``"quarter"`` or ``"month"`` (UTC): the budget holds for each of them anew. People who are in the
        data in several windows lose the sum.
    teams
        What each team may spend of the budget; together at most the budget.
    team
        On whose part this object spends.
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
    >>> from discreet.core.protection import Protection
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
        approvals: Approvals | None = None,
        window: str | None = None,
        teams: Mapping[str, Guarantee] | None = None,
        team: str | None = None,
        timeout: float = 30.0,
        read_only: bool = False,
    ) -> None:
        terms = Terms(
            budget=budget, accounting=accounting, dataset=dataset, neighbours=neighbours, unit=unit,
            approvals=approvals, window=window, teams=teams,
        )  # fmt: skip
        super().__init__(path, terms.opening, timeout=timeout, read_only=read_only)
        self._team = team
        try:
            terms.check(self._look())
        except BaseException:
            self.close()
            raise

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
        content = _described(question, mechanism, sensitivity, protection)
        return self.pay(content | _scope(guarantee, partition, parts), release_id=release_id, request=request)

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
        declared = Partition(claim.text("name", name), tuple(_names(parts)), membership_public)
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
    def budget(self) -> Guarantee:
        """What all releases together satisfy."""
        return self._accounting.budget

    @property
    def accounting(self) -> str:
        """How guarantees add up."""
        return self._accounting.name

    @property
    def dataset(self) -> str | None:
        """Name of the data set."""
        name: str | None = self._opening["dataset"]
        return name

    @property
    def salt(self) -> bytes:
        """Random bytes, fixed for this data set, for choices that must not change between releases."""
        return bytes.fromhex(self._opening["salt"] if "salt" in self._opening else self._opening["secret"])

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
        return self._accounting.at_least(self._now().spent)

    def spent_in_all(self) -> Guarantee:
        """What was spent in all windows together: what somebody loses whose data is in each of them."""
        return self._accounting.at_least(self._look().ever)

    def remaining(self) -> Guarantee:
        """What is left, in the ledger's currency, rounded down: a release at this guarantee is possible."""
        return self._accounting.at_most(self._now().left_to(self._team))

    def clock_warning(self) -> str:
        """What to know where spends are dated in a later window than now; empty where none is."""
        return self._look().ahead_of(claim.now())

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
        fresh = self.recomputed(heads)
        return Verification(
            path=self.path, entries=fresh.seq, spends=len(fresh.answers), head=fresh.head, anchored=bool(heads),
            spent=fresh.accounting.at_least(fresh.spent), remaining=fresh.accounting.at_most(fresh.left()),
        )  # fmt: skip

    @alone
    def preview(
        self,
        guarantee: claim.Guarantees,
        *,
        partition: str | Partition | None = None,
        parts: str | Iterable[str] | None = None,
    ) -> Preview:
        """What a release would cost and leave; writes nothing."""
        content, balance = _scope(guarantee, partition, parts), self._follow().at(claim.now())
        charge, left = balance.charge(content, balance.neighbours), balance.left_to(self._team)
        rounded_down = self._accounting.at_most
        after = rounded_down(less(left, charge)) if covers(left, charge) else None
        return Preview(charge=self._accounting.at_least(charge), remaining=rounded_down(left), after=after)

    @alone
    def affords(self, guarantees: Iterable[Guarantee]) -> bool:
        """Whether releases with all of these guarantees can be paid for, counted as they would be charged."""
        left = self._follow().at(claim.now()).left_to(self._team)
        return covers(left, reduce(added, map(self._accounting.cost, guarantees), self._accounting.nothing))

    def events(self) -> tuple[Spend, ...]:
        """Every spend, in order."""
        return self.statement().spends

    @alone
    def answer(self, release_id: str) -> Any:
        """The stored public answer of a release, or None."""
        balance = self._follow()
        place = balance.answers.get(balance.releases.get(release_id, 0))
        return None if place is None else self._entry(place).content["answer"]

    @alone
    def statement(self) -> Statement:
        """Everything the ledger can show."""
        balance = self._follow().at(claim.now())
        return Statement(
            path=self.path, dataset=self.dataset, budget=self.budget, accounting=self.accounting,
            spent=self._accounting.at_least(balance.spent), remaining=self._accounting.at_most(balance.left()),
            neighbours=balance.neighbours, unit=balance.unit, entries=balance.seq, head=balance.head,
            spends=tuple(Spend.read(self._entry(seq), balance) for seq in balance.answers),
        )  # fmt: skip

    # -- life ----------------------------------------------------------------------------------------------

    def __reduce__(self) -> tuple[Callable[[], Ledger], tuple[()], dict[str, Any]]:
        if self._address == ":memory:":
            raise LedgerUnavailable(
                "an in-memory ledger cannot be copied to another process: both would spend the same budget. "
                "Use a ledger in a file."
            )
        journal = self._journal
        again = partial(Ledger, self._address, team=self._team, timeout=journal.timeout, read_only=journal.read_only)
        return again, (), {"_plan": self._plan}

    def __repr__(self) -> str:
        return f"Ledger({self.path!r}, budget={self.budget!r})"

    def __str__(self) -> str:
        return Result.__str__(self.statement())

    def _repr_html_(self) -> str:
        return self.statement()._repr_html_()


def _names(parts: Iterable[Any]) -> list[str]:
    """Return the names of parts, which must be distinct."""
    if not isinstance(parts, Iterable):
        raise WrongType("parts", parts, "must be a collection of names", 'Pass ["north", "south"].')
    listed = [claim.text("parts", part) for part in parts]
    if not listed:
        raise InvalidParameter("parts", listed, "must not be empty", "Name at least one part.")
    if len(set(listed)) != len(listed):
        raise InvalidParameter("parts", listed, "must be distinct", "Name each part once.")
    return listed


def _described(
    question: Any, mechanism: Mapping[str, Any], sensitivity: Mapping[str, Any], protection: Protection
) -> dict[str, Any]:
    """The fields that describe the release."""
    for name, value in (("mechanism", mechanism), ("sensitivity", sensitivity)):
        requirements.instance(name, value, dict, f"{name}.to_dict()")
    requirements.instance("protection", protection, Protection, "Protection()")
    return {
        "question": question,
        "mechanism": mechanism,
        "sensitivity": sensitivity,
        "protection": protection.to_dict(),
    }


def _scope(
    guarantee: claim.Guarantees, partition: str | Partition | None, parts: str | Iterable[str] | None
) -> dict[str, Any]:
    """The fields that say what is promised, and to which groups."""
    for one in guarantee.values() if isinstance(guarantee, Mapping) else (guarantee,):
        requirements.instance("guarantee", one, Guarantee, "a guarantee such as PureDP(0.1)")
    name = partition.name if isinstance(partition, Partition) else partition
    if name is not None:
        claim.text("partition", name)
    if isinstance(guarantee, Mapping):
        if parts is not None:
            raise InvalidParameter("parts", parts, "already follow from the guarantees", "Leave parts out.")
        _names(guarantee)
        return claim.scope(guarantee, name)
    chosen = None if parts is None else _names((parts,) if isinstance(parts, str) else parts)
    return claim.scope(guarantee, name) | {"parts": chosen}
