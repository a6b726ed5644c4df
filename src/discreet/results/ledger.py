"""Ledger: the account of one data set, as people open it, look at it and approve plans in it.

What is spent, and that it stays within the budget, is the account's business (`discreet.core.ledger`).
"""

from __future__ import annotations

import hmac
import math
import os
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial, reduce
from typing import Any

from discreet.core import requirements
from discreet.core.errors import (
    InvalidParameter,
    LedgerCorrupted,
    LedgerMismatch,
    LedgerMissing,
    LedgerUnavailable,
    WrongType,
)
from discreet.core.guarantee import HUGE_EPSILON, ApproxDP, Guarantee
from discreet.core.ledger import balance as clock
from discreet.core.ledger.account import Account, Decision, Reservation, alone
from discreet.core.ledger.balance import (
    CURRENCIES,
    FORMAT,
    WINDOWS,
    Accounting,
    Approvals,
    Balance,
    Guarantees,
    Partition,
    Sign,
    added,
    amount_of,
    covers,
    digest_of,
    less,
    scope,
    signed_text,
    text,
    texts,
)
from discreet.core.ledger.journal import Entry, canonical
from discreet.core.numbers import greatest
from discreet.core.protection import ROW, Neighbours, Protection, Unit
from discreet.results.display import Facts, Result

# ---- Records: what a ledger hands out, as frozen data. `discreet.publish.ledger_statement` renders it for readers.


_UNTOLD = ("path", "neighbours", "unit", "parts")
"""Fields that a heading or another line says."""


class _Record(Result):
    """Shown field by field."""

    def _fields(self) -> list[tuple[str, Any]]:
        names: dict[str, Any] = vars(type(self))["__dataclass_fields__"]
        return [(name, getattr(self, name)) for name in names]

    def heading(self) -> str:
        return type(self).__name__

    def facts(self) -> Facts:
        return [(name, str(value)) for name, value in self._fields() if value is not None and name not in _UNTOLD]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {name: _plain(value) for name, value in self._fields()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Neighbours):
        return value.value
    return value.to_dict() if hasattr(value, "to_dict") else value


@dataclass(frozen=True, kw_only=True)
class Spend(_Record):
    """One release as the ledger recorded it, before anything was drawn; never a data value.

    Attributes
    ----------
    seq, hash, created, release_id, request
        Position in the ledger, hash, time (UTC), the release's id and the caller's request, if any.
    question, mechanism, sensitivity, protection
        What was asked, how the answer was protected, and for whom.
    guarantee
        What the release guarantees; one guarantee per part where the parts differ.
    partition, parts
        The disjoint groups it belongs to; ``parts`` is None for all of them.
    plan, team
        The approved plan and the team it was spent for, if any.
    charge, spent
        What it added to the total and the total after it, in the ledger's currency, rounded up.
    answered
        Whether the public answer is stored.
    """

    seq: int
    hash: str
    created: str
    release_id: str
    request: str | None
    question: Any
    mechanism: dict[str, Any]
    sensitivity: dict[str, Any]
    protection: Protection
    guarantee: Guarantee | dict[str, Guarantee]
    partition: str | None
    parts: tuple[str, ...] | None
    plan: str | None
    team: str | None
    charge: Guarantee
    spent: Guarantee
    answered: bool

    @staticmethod
    def read(entry: Entry, balance: Balance) -> Spend:
        """The spend that an entry records; somebody may have made one up that costs what it says and says nothing."""
        try:
            return Spend._read(entry, balance)
        except (AttributeError, LookupError, TypeError, ValueError) as failure:
            raise LedgerCorrupted(
                f"{balance.where}, entry {entry.seq}: its content cannot be read ({type(failure).__name__}). Restore "
                "the ledger from a copy."
            ) from failure

    @staticmethod
    def _read(entry: Entry, balance: Balance) -> Spend:
        content = entry.content
        for name, kind in (("created", str), ("mechanism", dict), ("sensitivity", dict), ("release_id", str)):
            requirements.instance(name, content[name], kind, "what discreet writes")
        parts, one = content["parts"], content["guarantee"]
        rounded_up = balance.accounting.at_least
        same = ("created", "release_id", "request", "question", "mechanism", "sensitivity", "partition", "plan", "team")
        return Spend(
            **{name: content[name] for name in same},
            seq=entry.seq,
            hash=entry.hash,
            protection=Protection.from_dict(content["protection"]),
            guarantee=Guarantee.from_dict(one) if one else {p: Guarantee.from_dict(each) for p, each in parts.items()},
            parts=None if parts is None else tuple(parts),
            charge=rounded_up(tuple(Fraction(text) for text in content["charge"])),
            spent=rounded_up(tuple(Fraction(text) for text in content["total"])),
            answered=balance.answers[entry.seq] is not None,
        )

    @property
    def title(self) -> str:
        """The question in a few words."""
        asked = self.question.get("ask") if isinstance(self.question, dict) else self.question
        return f"{asked or 'release'} by {self.mechanism.get('name', 'a mechanism')}".replace("_", " ")

    def __str__(self) -> str:
        where = f" in {self.partition}" if self.partition is not None else ""
        return f"{self.seq:>5}  {self.created[:19]}  {self.title}{where}: {self.charge}"


@dataclass(frozen=True, kw_only=True)
class Preview(_Record):
    """The cost of a release that was not made; nothing was written.

    Attributes
    ----------
    charge
        What it would add to the total, in the ledger's currency, rounded up.
    remaining
        What is left now.
    after
        What would be left, or None where the budget does not suffice.
    """

    charge: Guarantee
    remaining: Guarantee
    after: Guarantee | None

    @property
    def affordable(self) -> bool:
        """True where the budget suffices."""
        return self.after is not None


@dataclass(frozen=True, kw_only=True)
class Verification(_Record):
    """The result of `Ledger.verify`: the ledger is whole and its entries add up.

    Whoever can rewrite the whole ledger can also rewrite all hashes. Only a copy of the head that was kept elsewhere
    (printed, mailed, published) shows that: ``ledger.verify(anchor=copy)``.
    """

    path: str
    entries: int
    spends: int
    spent: Guarantee
    remaining: Guarantee
    head: str
    anchored: bool

    def heading(self) -> str:
        return f"{self.path}: intact"

    def facts(self) -> Facts:
        """The facts to show; they say in words if a copy of the head was compared."""
        compared = "yes, a copy of its head was compared" if self.anchored else "no copy of its head was compared"
        return [(name, compared if name == "anchored" else value) for name, value in super().facts()]


@dataclass(frozen=True, kw_only=True)
class Statement(_Record):
    """A statement of account: the budget, what was spent on what, and what is left."""

    path: str
    dataset: str | None
    budget: Guarantee
    accounting: str
    spent: Guarantee
    remaining: Guarantee
    neighbours: Neighbours | None
    unit: Unit | None
    entries: int
    head: str
    spends: tuple[Spend, ...]

    @property
    def protects(self) -> str:
        """Which change of the data the guarantees are about, and every fact that a release took as public."""
        if self.neighbours is None:
            return "fixed by the first release"
        facts = {fact for spend in self.spends for fact in spend.protection.public}
        return str(Protection(self.unit or ROW, self.neighbours, facts))

    def heading(self) -> str:
        return f"Ledger {self.path}"

    def facts(self) -> Facts:
        """Everything but the list of releases."""
        told = [fact for fact in super().facts() if fact[0] != "spends"]
        return [*told, ("releases", str(len(self.spends))), ("protects", self.protects)]

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *map(str, self.spends)])


# ---- Terms: what is fixed when a ledger is opened, and checked whenever it is opened again.


# ---- Counting: the accounting of a budget, with the largest allowance that a search finds
#
# A search may be wrong, so nobody has to believe it: the core refuses an allowance that does not keep its budget
# (`Accounting.kept`), in the first entry of a ledger and in the claim of a release.


def _rho(epsilon: float, delta: float) -> float:
    logarithm = -math.log(delta)
    return (math.sqrt(epsilon + logarithm) - math.sqrt(logarithm)) ** 2


_GUESSES: Mapping[str, Callable[[float, float], float]] = {
    "zcdp": _rho,
    "gdp": lambda epsilon, delta: max(epsilon / 4, 2.5 * delta),
}
"""Near the largest parameter that implies (ε, δ): where the search for it starts."""


def accounting_name(budget: Guarantee, name: str | None = None) -> str:
    """The name of the accounting that `accounting_of` would use; refuses what does not fit the budget."""
    requirements.instance("budget", budget, Guarantee, "a guarantee such as PureDP(1.0)")
    own = Accounting.own(budget).name
    possible = [own, *_GUESSES] if isinstance(budget, ApproxDP) else [own]
    if name is not None and name not in possible:
        raise InvalidParameter(
            "accounting", name, f"must be one of {possible} for a {type(budget).__name__} budget",
            "Leave it out, or choose one of these.",
        )  # fmt: skip
    if not any(value > 0 for value in budget.parameters().values()):
        raise InvalidParameter("budget", budget, "must allow something", "Pass a positive budget.")
    return own if name is None else name


def accounting_of(budget: Guarantee, name: str | None = None) -> Accounting:
    """The accounting called ``name`` with the largest allowance that keeps the budget.

    By default the budget's own. An `ApproxDP` budget may be counted in ``"basic"``, ``"zcdp"`` or ``"gdp"``; every
    other budget only in its own kind.

    Examples
    --------
    >>> from discreet import ApproxDP, PureDP
    >>> accounting_of(PureDP(0.5)).allowance
    (Fraction(1, 2),)
    >>> accounting_of(ApproxDP(1.0, 1e-6), "gdp").kept()
    True
    """
    chosen = accounting_name(budget, name)
    kind, power = CURRENCIES[chosen]
    if isinstance(budget, kind):
        return Accounting.own(budget)
    if not isinstance(budget, ApproxDP) or budget.delta == 0:
        raise InvalidParameter(
            "accounting", budget, "needs a budget with δ > 0", 'Use a PureDP budget, or accounting="basic".'
        )
    fits = lambda parameter: parameter <= HUGE_EPSILON and kind(parameter).within(budget)  # noqa: E731
    return Accounting(
        chosen, budget, amount_of(kind(greatest(fits, _GUESSES[chosen](budget.epsilon, budget.delta))), power)
    )


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The terms that somebody states when opening a ledger; None for those left to the ledger."""

    budget: Guarantee | None
    accounting: str | None
    dataset: str | None
    neighbours: Neighbours | None
    unit: Unit | str | None
    approvals: Approvals | None
    window: str | None
    teams: Mapping[str, Guarantee] | None

    def __post_init__(self) -> None:
        if self.budget is not None:
            accounting_name(self.budget, self.accounting)
        if self.dataset is not None:
            text("dataset", self.dataset)
        if self.neighbours is not None:
            requirements.instance("neighbours", self.neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        if self.approvals is not None:
            requirements.instance("approvals", self.approvals, Approvals, "an Approvals")
        check_window(self.window)

    def _stated(self) -> dict[str, Any]:
        """The terms as they are written down."""
        return {
            "budget": self.budget and self.budget.to_dict(),
            "accounting": self.accounting,
            "dataset": self.dataset,
            "neighbours": self.neighbours and self.neighbours.value,
            "unit": None if self.unit is None else Unit.of(self.unit).to_dict(),
            "approvals": self.approvals and self.approvals.to_dict(),
            "window": self.window,
            "teams": self.teams and {name: part.to_dict() for name, part in self.teams.items()},
        }

    def opening(self, where: str) -> str:
        """The first entry of a new ledger with these terms."""
        if self.budget is None:
            raise LedgerMissing(
                f"ledger = {where!r}: there is no ledger, and a new one needs a budget. Pass budget=PureDP(1.0)."
            )
        counted = accounting_of(self.budget, self.accounting)
        self._check_teams(counted)
        fixed = {"format": FORMAT, "accounting": counted.name, "allowance": texts(counted.allowance)}
        return canonical(
            "dataset", {**self._stated(), **fixed, "secret": secrets.token_hex(32), "created": clock.now()}
        )

    def _check_teams(self, counted: Accounting) -> None:
        """Refuse parts that are more than the whole."""
        total = counted.nothing
        for name, part in (self.teams or {}).items():
            text("teams", name)
            requirements.instance("teams", part, Guarantee, "a guarantee for each team")
            total = added(total, counted.cost(part))
        if not covers(counted.allowance, total):
            raise InvalidParameter("teams", self.teams, "are allotted more than the budget", "Lower their parts.")

    def check(self, balance: Balance) -> None:
        """Refuse a ledger that was opened with other terms. Unit and neighbours may also be fixed by a release."""
        stated, rule = self._stated(), balance.consent.rule
        written = balance.opening | {"approvals": rule and rule.to_dict()}  # keys in their one spelling
        for name in ("budget", "dataset", "accounting", "approvals", "window", "teams"):
            wish, found = stated[name], written[name]
            if wish is not None and wish != found:
                ours, theirs = (_shown(name, term) for term in (found, wish))
                raise LedgerMismatch(
                    f"{balance.where} was opened with {name} {ours}, not {theirs}. A ledger keeps its {name}: give "
                    "the same one or leave it out. A new ledger at another path would count from nothing, which is "
                    "for the owner of the data to decide."
                )
        balance.check_pins(self.neighbours, None if self.unit is None else Unit.of(self.unit))


def _shown(name: str, term: Any) -> str:
    return str(Guarantee.from_dict(term)) if name == "budget" else repr(term)


def check_window(length: str | None) -> None:
    """Refuse a length that is none of the calendar's."""
    if length is not None and length not in WINDOWS:
        raise InvalidParameter("window", length, f"must be one of {list(WINDOWS)}", "Leave it out, or choose one.")


# ---- Ledger: the account of one data set, as people open it, look at it and approve plans in it.


def _stated(head: str, content: dict[str, Any], balance: Balance) -> Decision:
    """The entry of a statement; nothing where the head is no longer the one that was signed."""
    if balance.head != head:
        return None
    balance.consent.check_statement(head, content)
    return "approval", canonical("meaning", content)


class Ledger(Account):
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
        ``"year"``, ``"quarter"`` or ``"month"`` (UTC): the budget starts again in each window. For a person in k
        windows, ε is k times as large.
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
    >>> import pandas as pd
    >>> from discreet import Ledger, PureDP, Schema, Session
    >>> ledger = Ledger(":memory:", budget=PureDP(1.0))
    >>> session = Session(pd.DataFrame({"age": [31, 45]}), Schema(columns={}), ledger=ledger)
    >>> released = session.count(epsilon=0.3)
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
        guarantee: Guarantees,
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
        declared = Partition(text("name", name), tuple(_names(parts)), membership_public)
        content = {"name": name, "parts": list(declared.parts), "membership_public": membership_public}

        def decide(balance: Balance) -> Decision:
            known = balance.partitions.get(name)
            if known is not None and known.partition != declared:
                raise InvalidParameter("name", name, "names another partition", "Choose another name.")
            declared.check(balance.neighbours)
            return None if known else ("partition", canonical("parts", content | {"created": clock.now()}))

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
        found = [self._keyed(text("sources", source)) for source in sources]
        places = [text("anchors", place) for place in anchors]
        if self._look().sources.issuperset(found) and self._look().anchors.issuperset(places):
            return
        content = {"sources": found, "anchors": places, "created": clock.now()}
        self._step(lambda _: ("note", canonical("note", content)))

    def counts(self, source: str) -> bool:
        """True where this ledger was told that it counts for a source."""
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
        """The guarantee that all releases together satisfy."""
        return self._accounting.budget

    @property
    def accounting(self) -> str:
        """The name of the rule by which guarantees add up."""
        return self._accounting.name

    @property
    def dataset(self) -> str | None:
        """Name of the data set."""
        name: str | None = self._opening["dataset"]
        return name

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
        """The guarantee spent so far, in the ledger's currency, rounded up."""
        return self._accounting.at_least(self._now().spent)

    def spent_in_all(self) -> Guarantee:
        """The guarantee spent in all windows together: the loss of somebody whose data is in each of them."""
        return self._accounting.at_least(self._look().ever)

    def remaining(self) -> Guarantee:
        """The guarantee that is left, in the ledger's currency, rounded down: a release can cost this much."""
        return self._accounting.at_most(self._now().left_to(self._team))

    def clock_warning(self) -> str:
        """A warning where spends are dated in a later window than now; empty where none is."""
        return self._look().ahead_of(clock.now())

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
        heads = {text("anchor", head) for head in wanted}
        fresh = self.recomputed(heads)
        return Verification(
            path=self.path, entries=fresh.seq, spends=len(fresh.answers), head=fresh.head, anchored=bool(heads),
            spent=fresh.accounting.at_least(fresh.spent), remaining=fresh.accounting.at_most(fresh.left()),
        )  # fmt: skip

    @alone
    def preview(
        self,
        guarantee: Guarantees,
        *,
        partition: str | Partition | None = None,
        parts: str | Iterable[str] | None = None,
    ) -> Preview:
        """The cost of a release and the budget after it; writes nothing."""
        content = _scope(guarantee, partition, parts)
        balance = self._follow().at(clock.now())
        charge = balance.charge(content, balance.neighbours)
        left = balance.left_to(self._team)
        rounded_down = self._accounting.at_most
        after = rounded_down(less(left, charge)) if covers(left, charge) else None
        return Preview(charge=self._accounting.at_least(charge), remaining=rounded_down(left), after=after)

    @alone
    def affords(self, guarantees: Iterable[Guarantee]) -> bool:
        """True where releases with all of these guarantees can be paid for, counted as they would be charged."""
        left = self._follow().at(clock.now()).left_to(self._team)
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
        balance = self._follow().at(clock.now())
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

    # ---- approvals that people sign --------------------------------------------------------------------------------

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
        self._state({"plan": digest, "meaning": dict(meaning), "by": text("by", by), "approves": True}, sign)
        return digest

    def withdraw(self, plan: str, *, by: str, sign: Sign) -> None:
        """Record that somebody no longer approves a plan. Releases that were made remain made."""
        self._state({"plan": plan, "meaning": None, "by": text("by", by), "approves": False}, sign)

    def _state(self, said: dict[str, Any], sign: Sign) -> None:
        """Sign outside of the step, since ``sign`` may take its time, fork or use the ledger; again if others wrote."""
        deadline = time.monotonic() + self._journal.timeout
        while True:
            head = self._look().head
            content = said | {"signature": sign(signed_text(head, said)).hex(), "created": clock.now()}
            if self._step(partial(_stated, head, content)) is not None:
                return
            if time.monotonic() > deadline:
                raise LedgerUnavailable(
                    f"the ledger {self.path} cannot be used: others wrote whenever this was signed. Try "
                    "again. Nothing was approved or withdrawn."
                )

    def under(self, plan: str) -> None:
        """Make the next releases of this object under an approved plan, by its digest."""
        self._plan = text("plan", plan)

    def check_allowed(self, claimed: str) -> None:
        """Refuse a claim, by its identity, that the plan of this object does not allow, or not once more."""
        self._look().consent.check(self._plan, claimed)

    def approving(self, plan: str) -> tuple[str, ...]:
        """Who approves a plan now."""
        return tuple(sorted(self._look().consent.approving.get(plan, ())))

    def agreed(self, plan: str) -> bool:
        """True where enough people approve a plan; always where the ledger has no rule."""
        return self._look().consent.agreed(plan)

    def approved(self) -> tuple[Mapping[str, Any], ...]:
        """All plans that were ever approved, oldest first."""
        return tuple(self._look().consent.meanings.values())

    @property
    def approvals(self) -> Approvals | None:
        """Who must approve; None where nobody has to."""
        return self._look().consent.rule


def _names(parts: Iterable[Any]) -> list[str]:
    """Return the names of parts, which must be distinct."""
    if not isinstance(parts, Iterable):
        raise WrongType("parts", parts, "must be a collection of names", 'Pass ["north", "south"].')
    listed = [text("parts", part) for part in parts]
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
    guarantee: Guarantees, partition: str | Partition | None, parts: str | Iterable[str] | None
) -> dict[str, Any]:
    """The fields that say what is promised, and to which groups."""
    for one in guarantee.values() if isinstance(guarantee, Mapping) else (guarantee,):
        requirements.instance("guarantee", one, Guarantee, "a guarantee such as PureDP(0.1)")
    name = partition.name if isinstance(partition, Partition) else partition
    if name is not None:
        text("partition", name)
    if isinstance(guarantee, Mapping):
        if parts is not None:
            raise InvalidParameter("parts", parts, "already follow from the guarantees", "Leave parts out.")
        _names(guarantee)
        return scope(guarantee, name)
    chosen = None if parts is None else _names((parts,) if isinstance(parts, str) else parts)
    return scope(guarantee, name) | {"parts": chosen}
