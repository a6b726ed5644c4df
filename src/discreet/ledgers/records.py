"""Records: what a ledger hands out, as frozen data. `discreet.publish.ledger_statement` renders it for readers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.core import requirements
from discreet.core.errors import LedgerCorrupted
from discreet.core.guarantee import Guarantee
from discreet.core.ledger.balance import Balance
from discreet.core.ledger.journal import Entry
from discreet.core.protection import ROW, Neighbours, Protection, Unit
from discreet.display import Facts
from discreet.result import Result

__all__ = ["Preview", "Spend", "Statement", "Verification"]


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
        return f"{asked or 'release'} by {self.mechanism.get('name', 'a mechanism')}"

    def __str__(self) -> str:
        where = f" in {self.partition}" if self.partition is not None else ""
        return f"{self.seq:>5}  {self.created[:19]}  {self.title}{where}: {self.charge}"


@dataclass(frozen=True, kw_only=True)
class Preview(_Record):
    """What a release would cost; nothing was written.

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
        """Whether the budget suffices."""
        return self.after is not None


@dataclass(frozen=True, kw_only=True)
class Verification(_Record):
    """What `Ledger.verify` found: the ledger is whole and its entries add up.

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
        """What to show; whether a copy of the head was compared is said in words."""
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
