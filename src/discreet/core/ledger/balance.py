"""Balance: what the entries of a ledger add up to.

The balance is a fold over the entries: the same code follows other processes' spends, opens a file and verifies
it, so a total that was written can never differ unnoticed from a total that was computed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.core.errors import DiscreetError, LedgerCorrupted
from discreet.core.guarantee import Guarantee
from discreet.core.ledger.accounting import Accounting, Amount, added, covers, less, peak
from discreet.core.ledger.journal import ROOT, Entry, canonical, chained
from discreet.core.protection import Neighbours, Unit

__all__ = ["FORMAT", "Balance", "Partition", "fingerprint", "texts"]

FORMAT = 2
"""Version of the entries. Kinds and fields are added under a new version and never re-meant."""


@dataclass(frozen=True)
class Partition:
    """Disjoint groups of privacy units that are charged in parallel.

    Attributes
    ----------
    name
        What the groups are.
    parts
        Their names: public, fixed before any release, and each unit belongs to at most one of them.
    membership_public
        Whether it is public which unit belongs to which part, so that a replaced unit stays in its part.
    """

    name: str
    parts: tuple[str, ...]
    membership_public: bool = False


class ParallelSpending:
    """What single parts spent beyond what was spent in all of them alike."""

    def __init__(self, partition: Partition, nothing: Amount) -> None:
        self.partition = partition
        self._known = frozenset(partition.parts)
        self._highest = nothing
        self._extra: dict[str, Amount] = {}
        self._nothing = nothing

    def unknown(self, parts: Iterable[str]) -> list[str]:
        """Those that are no parts of the partition."""
        return [part for part in parts if part not in self._known]

    def charge(self, costs: Mapping[str, Amount] | Amount) -> Amount:
        """How much the largest total over the parts would rise."""
        if not isinstance(costs, Mapping):
            return costs
        highest = self._highest
        for amount in {id(amount): amount for amount in self._after(costs).values()}.values():
            highest = peak(highest, amount)
        return less(highest, self._highest)

    def _after(self, costs: Mapping[str, Amount]) -> dict[str, Amount]:
        """What the named parts would have spent by themselves.

        Most parts of a large partition share one history, and so one object: each pair is added once.
        """
        sums: dict[tuple[int, int], Amount] = {}
        after: dict[str, Amount] = {}
        for part, cost in costs.items():
            before = self._extra.get(part, self._nothing)
            pair = (id(before), id(cost))
            if pair not in sums:
                sums[pair] = added(before, cost)
            after[part] = sums[pair]
        return after

    def spend(self, costs: Mapping[str, Amount] | Amount) -> None:
        """Count it. One amount for all parts raises the largest as much as any, and changes nothing here."""
        if isinstance(costs, Mapping):
            self._highest = added(self._highest, self.charge(costs))
            self._extra |= self._after(costs)


def texts(amount: Amount) -> list[str]:
    """An amount as it is written down: exact fractions."""
    return [str(number) for number in amount]


def fingerprint(content: Mapping[str, Any]) -> str:
    """What makes two spends the same request: everything but identity, time and running totals."""
    same = {key: value for key, value in content.items() if key not in ("release_id", "created", "total", "charge")}
    return hashlib.sha256(canonical("request", same).encode()).hexdigest()


class Balance:
    """The state of a ledger after an entry."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.last: Entry | None = None
        self.accounting: Accounting
        self.opening: dict[str, Any] = {}
        self.neighbours: Neighbours | None = None
        self.unit: Unit | None = None
        self.spent: Amount = ()
        self.partitions: dict[str, ParallelSpending] = {}
        self.requests: dict[str, tuple[int, str]] = {}
        self.releases: dict[str, int] = {}
        self.positions: set[int] = set()
        self.answers: dict[int, int] = {}
        self._prices: dict[tuple[tuple[str, Any], ...], Amount] = {}

    @property
    def seq(self) -> int:
        """Position of the last entry."""
        return 0 if self.last is None else self.last.seq

    @property
    def head(self) -> str:
        """Hash of the last entry; it stands for all of them."""
        return ROOT if self.last is None else self.last.hash

    def left(self) -> Amount:
        """What may still be spent."""
        return less(self.accounting.allowance, self.spent)

    def costs(self, content: Mapping[str, Any]) -> Mapping[str, Amount] | Amount:
        """What a spend's guarantees cost: one amount, or one a part."""
        if content["guarantee"] is None:
            return {part: self._price(guarantee) for part, guarantee in content["parts"].items()}
        cost = self._price(content["guarantee"])
        return cost if content["parts"] is None else dict.fromkeys(content["parts"], cost)

    def _price(self, guarantee: dict[str, Any]) -> Amount:
        key = tuple(sorted(guarantee.items()))
        price = self._prices.get(key)
        if price is None:
            price = self._prices[key] = self.accounting.cost(Guarantee.from_dict(guarantee))
        return price

    def charge(self, content: Mapping[str, Any]) -> Amount:
        """What a spend adds to the total."""
        costs = self.costs(content)
        if content["partition"] is not None:
            return self.partitions[content["partition"]].charge(costs)
        assert not isinstance(costs, Mapping)
        return costs

    def apply(self, entry: Entry) -> None:
        """Follow one entry; refuse it where the chain, its kind or its numbers are wrong."""
        if entry.seq != self.seq + 1:
            raise self._broken(entry, f"entry {self.seq + 1} is missing")
        if entry.hash != chained(self.head, entry.seq, entry.kind, entry.body):
            raise self._broken(entry, "its hash does not fit its content and the entries before it")
        follow = _KINDS.get(entry.kind)
        if follow is None:
            raise self._broken(entry, f"its kind {entry.kind!r} is unknown. A newer version may have written it")
        if (entry.seq == 1) != (entry.kind == "open"):
            raise self._broken(entry, "a ledger begins with one entry of kind 'open'")
        try:
            follow(self, entry, entry.content)
        except LedgerCorrupted:
            raise
        except (ArithmeticError, AttributeError, DiscreetError, KeyError, TypeError, ValueError) as error:
            raise self._broken(entry, f"its content cannot be read ({type(error).__name__}: {error})") from error
        self.last = Entry(entry.seq, entry.kind, "", entry.hash)  # the body may be large and is not needed again

    def _broken(self, entry: Entry, what: str) -> LedgerCorrupted:
        return LedgerCorrupted(
            f"{self.where}, entry {entry.seq}: {what}. Restore the ledger from a copy that includes the last release."
        )

    def _open(self, entry: Entry, content: dict[str, Any]) -> None:
        if content["format"] != FORMAT:
            raise self._broken(entry, f"format {content['format']} is not the supported format {FORMAT}")
        allowance = tuple(Fraction(text) for text in content["allowance"])
        self.accounting = Accounting.restored(Guarantee.from_dict(content["budget"]), content["accounting"], allowance)
        self.spent = self.accounting.nothing
        self.opening = content
        self._pin(entry, content)

    def _pin(self, entry: Entry, content: dict[str, Any]) -> None:
        for name in ("neighbours", "unit"):
            if content[name] is not None:
                value = Neighbours(content[name]) if name == "neighbours" else Unit.from_dict(content[name])
                if getattr(self, name) not in (None, value):
                    raise self._broken(entry, f"it has other {name} than the entries before it")
                setattr(self, name, value)

    def _partition(self, entry: Entry, content: dict[str, Any]) -> None:
        name = content["name"]
        if name in self.partitions:
            raise self._broken(entry, f"the partition {name!r} is declared twice")
        declared = Partition(name, tuple(content["parts"]), content["membership_public"])
        self.partitions[name] = ParallelSpending(declared, self.accounting.nothing)

    def _spend(self, entry: Entry, content: dict[str, Any]) -> None:
        self._pin(entry, content)
        partition = content["partition"]
        if partition is not None and self.partitions[partition].unknown(content["parts"] or ()):
            raise self._broken(entry, f"it names parts that the partition {partition!r} does not have")
        charge = self.charge(content)
        total = added(self.spent, charge)
        if content["charge"] != texts(charge) or content["total"] != texts(total):
            raise self._broken(entry, "its charge or running total is not what the entries add up to")
        if not covers(self.accounting.allowance, total):
            raise self._broken(entry, "it overspends the budget")
        request, release = content["request"], content["release_id"]
        if request in self.requests or release in self.releases:
            raise self._broken(entry, "its request or release id was used before")
        if partition is not None:
            self.partitions[partition].spend(self.costs(content))
        self.spent = total
        self.releases[release] = entry.seq
        self.positions.add(entry.seq)
        if request is not None:
            self.requests[request] = (entry.seq, fingerprint(content))

    def _answer(self, entry: Entry, content: dict[str, Any]) -> None:
        spend = content["spend"]
        if spend not in self.positions:
            raise self._broken(entry, f"it answers entry {spend}, which is no spend")
        if spend in self.answers:
            raise self._broken(entry, f"entry {spend} is answered twice")
        self.answers[spend] = entry.seq


_KINDS = {
    "open": Balance._open,
    "pin": Balance._pin,
    "partition": Balance._partition,
    "spend": Balance._spend,
    "answer": Balance._answer,
}
