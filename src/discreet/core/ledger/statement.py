"""Statement: what a ledger shows to people: its spends, its balance, and what a verification found."""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from discreet.core.display import Facts, as_html, as_text
from discreet.core.guarantee import Guarantee
from discreet.core.ledger.balance import Balance
from discreet.core.ledger.journal import Entry
from discreet.core.protection import ROW, Neighbours, Protection, Unit
from discreet.core.result import Result

__all__ = ["Preview", "Spend", "Statement", "Verification"]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


@dataclass(frozen=True, kw_only=True)
class Spend(Result):
    """One release as the ledger recorded it, before anything was drawn; never a data value.

    Attributes
    ----------
    seq, created, release_id, request
        Position in the ledger, time (UTC), the release's id and the caller's request, if any.
    question, mechanism, sensitivity, protection
        What was asked, how the answer was protected, and for whom.
    guarantee
        What the release promises; one a part where the parts differ.
    partition, parts
        The disjoint groups it belongs to; ``parts`` is None for all of them.
    charge, spent
        What it added to the total and the total after it, in the ledger's currency, rounded up.
    answered
        Whether the public answer is stored.
    """

    seq: int
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
    charge: Guarantee
    spent: Guarantee
    answered: bool
    hash: str

    @staticmethod
    def read(entry: Entry, balance: Balance) -> Spend:
        """The spend that an entry records."""
        content, parts = entry.content, entry.content["parts"]
        rounded_up = balance.accounting.at_least
        same = ("created", "release_id", "request", "question", "mechanism", "sensitivity", "partition")
        return Spend(
            **{name: content[name] for name in same},
            seq=entry.seq,
            hash=entry.hash,
            protection=Protection.from_dict(content),
            guarantee=(
                {part: Guarantee.from_dict(one) for part, one in parts.items()}
                if content["guarantee"] is None
                else Guarantee.from_dict(content["guarantee"])
            ),
            parts=None if parts is None else tuple(parts),
            charge=rounded_up(tuple(Fraction(text) for text in content["charge"])),
            spent=rounded_up(tuple(Fraction(text) for text in content["total"])),
            answered=entry.seq in balance.answers,
        )

    @property
    def title(self) -> str:
        """The question in a few words."""
        asked = self.question.get("ask") if isinstance(self.question, dict) else self.question
        return f"{asked or 'release'} by {self.mechanism.get('name', 'a mechanism')}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready data."""
        several = isinstance(self.guarantee, dict)
        guarantee = (
            {part: one.to_dict() for part, one in self.guarantee.items()}
            if isinstance(self.guarantee, dict)
            else self.guarantee.to_dict()
        )
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            "protection": self.protection.to_dict(),
            "guarantee": None if several else guarantee,
            "parts": guarantee if several else None if self.parts is None else list(self.parts),
            "charge": self.charge.to_dict(),
            "spent": self.spent.to_dict(),
        }

    def heading(self) -> str:
        return f"Release {self.seq} of a ledger"

    def facts(self) -> Facts:
        each = "one a part" if isinstance(self.guarantee, dict) else str(self.guarantee)
        return [
            ("release", f"{self.release_id}, {self.created}"),
            ("what", self.title),
            ("protects against", str(self.protection)),
            ("guarantee", each),
            ("charge", f"{self.charge}; {self.spent} in all"),
            ("answer", "stored" if self.answered else "not stored"),
        ]

    def __str__(self) -> str:
        where = f" in {self.partition}" if self.partition is not None else ""
        return f"{self.seq:>5}  {self.created[:19]}  {self.title}{where}: {self.charge}"


@dataclass(frozen=True, kw_only=True)
class Preview(Result):
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

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready data."""
        after = None if self.after is None else self.after.to_dict()
        return {"charge": self.charge.to_dict(), "remaining": self.remaining.to_dict(), "after": after}

    def heading(self) -> str:
        return "Cost of a release"

    def facts(self) -> Facts:
        after = "the budget does not suffice" if self.after is None else str(self.after)
        return [("costs", str(self.charge)), ("left now", str(self.remaining)), ("left after", after)]

    def __str__(self) -> str:
        after = "more than is left" if self.after is None else f"{self.after} would be left"
        return f"costs {self.charge} of {self.remaining}: {after}"


@dataclass(frozen=True, kw_only=True)
class Verification(Result):
    """What `Ledger.verify` found: the file is whole and its entries add up.

    Whoever can rewrite the whole file can also rewrite all hashes. That can only be detected by comparing
    ``head`` with a copy kept elsewhere (printed, mailed, published): ``ledger.verify(anchor=copy)``.
    """

    path: str
    entries: int
    spends: int
    head: str
    spent: Guarantee
    remaining: Guarantee
    anchored: bool

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {**asdict(self), "spent": self.spent.to_dict(), "remaining": self.remaining.to_dict()}

    def heading(self) -> str:
        return f"{self.path}: intact"

    def facts(self) -> Facts:
        return [
            ("entries", f"{self.entries}, of which {_counted(self.spends, 'release')}"),
            ("spent", str(self.spent)),
            ("left", str(self.remaining)),
            ("head", self.head),
            ("anchor", "part of this history" if self.anchored else "none given"),
        ]

    def __str__(self) -> str:
        anchor = (
            "The anchor is part of this history: nothing before it was changed."
            if self.anchored
            else "A rewrite of the whole file shows only against a copy of the head kept\n"
            "elsewhere: pass it as the anchor next time."
        )
        return (
            f"{self.path}: intact\n"
            f"  {self.entries} entries, {_counted(self.spends, 'release')}\n"
            f"  spent {self.spent}, left {self.remaining}\n"
            f"  head {self.head}\n{anchor}"
        )


@dataclass(frozen=True, kw_only=True)
class Statement(Result):
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
        """Which change of the data the guarantees are about."""
        if self.neighbours is None:
            return "fixed by the first release"
        facts = {fact for spend in self.spends for fact in spend.protection.public}
        return str(Protection(self.unit or ROW, self.neighbours, facts))

    def facts(self) -> Facts:
        return [
            ("data set", self.dataset or "not named"),
            ("budget", f"{self.budget}, {self.accounting} accounting"),
            ("spent", f"{self.spent} in {_counted(len(self.spends), 'release')}"),
            ("remaining", str(self.remaining)),
            ("protects", self.protects),
            ("head", f"{self.head[:16]}… after {self.entries} entries"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            "budget": self.budget.to_dict(),
            "spent": self.spent.to_dict(),
            "remaining": self.remaining.to_dict(),
            "neighbours": None if self.neighbours is None else self.neighbours.value,
            "unit": None if self.unit is None else self.unit.to_dict(),
            "spends": [spend.to_dict() for spend in self.spends],
        }

    def heading(self) -> str:
        return f"Ledger {self.path}"

    def summary(self) -> str:
        """The statement without the list of releases."""
        return as_text(self.heading(), self.facts())

    def __str__(self) -> str:
        return "\n".join([self.summary(), *(str(spend) for spend in self.spends)])

    def _repr_html_(self) -> str:
        spends = "".join(
            "<tr>"
            + "".join(
                f"<td>{html.escape(text)}</td>"
                for text in (str(one.seq), one.created[:19], one.title, one.partition or "", str(one.charge))
            )
            + "</tr>"
            for one in self.spends
        )
        header = "".join(f"<th>{name}</th>" for name in ("#", "time (UTC)", "release", "partition", "charge"))
        listed = f"<table><thead><tr>{header}</tr></thead><tbody>{spends}</tbody></table>" if spends else ""
        return f"<div>{as_html(self.heading(), self.facts())}{listed}</div>"
