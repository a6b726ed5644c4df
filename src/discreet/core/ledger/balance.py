"""Balance: what the entries of a ledger add up to.

The balance is a fold over the entries: the same code follows other processes' spends, opens a file and verifies
it, so a total that was written can never differ unnoticed from a total that was computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any

from discreet.core.errors import DiscreetError, InsufficientBudget, InvalidParameter, LedgerCorrupted, LedgerMismatch
from discreet.core.guarantee import Guarantee
from discreet.core.ledger.accounting import Accounting, Amount, added, covers, less, peak
from discreet.core.ledger.journal import ROOT, Entry, chained
from discreet.core.protection import Neighbours, Unit

__all__ = ["FORMAT", "Balance", "Partition", "texts"]

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

    def check(self, neighbours: Neighbours | None, parts: Iterable[str] = ()) -> None:
        """Refuse parts that were not declared, and parallel composition where a unit may move between parts."""
        if neighbours is Neighbours.REPLACE_ONE and not self.membership_public:
            raise InvalidParameter(
                "membership_public", False,
                f"a replaced unit may leave one part of {self.name!r} and enter another, so the parts do not "
                "compose in parallel under REPLACE_ONE",
                "Use ADD_REMOVE, or declare membership_public=True if who belongs to which part is public.",
            )  # fmt: skip
        known = frozenset(self.parts) if parts else frozenset()
        unknown = [part for part in parts if part not in known]
        if unknown:
            raise InvalidParameter(
                "parts", unknown, f"are not parts of {self.name!r}", "Name parts that were declared."
            )


Costs = Mapping[str, Amount] | Amount
"""What a release costs: one amount, or one for each part that it reads."""


class ParallelSpending:
    """What single parts spent beyond what was spent in all of them alike."""

    def __init__(self, partition: Partition, nothing: Amount) -> None:
        self.partition = partition
        self._nothing = self._highest = nothing
        self._extra: dict[str, Amount] = {}

    def charge(self, costs: Costs) -> Amount:
        """How much the largest total over the parts would rise; one amount for all raises it by just that."""
        if not isinstance(costs, Mapping):
            return costs
        return less(reduce(peak, set(self._after(costs).values()), self._highest), self._highest)

    def _after(self, costs: Mapping[str, Amount]) -> dict[str, Amount]:
        """What the named parts would have spent by themselves."""
        return {part: added(self._extra.get(part, self._nothing), cost) for part, cost in costs.items()}

    def spend(self, costs: Costs) -> None:
        """Count it."""
        if isinstance(costs, Mapping):
            self._highest = added(self._highest, self.charge(costs))
            self._extra |= self._after(costs)


def texts(amount: Amount) -> list[str]:
    """An amount as it is written down: exact fractions."""
    return [str(number) for number in amount]


class Balance:
    """The state of a ledger after an entry."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.seq, self.head = 0, ROOT
        """Position and hash of the last entry; the hash stands for all of them."""
        self.accounting: Accounting
        self.opening: dict[str, Any] = {}
        self.neighbours: Neighbours | None = None
        self.unit: Unit | None = None
        self.sources: set[str] = set()
        self.anchors: set[str] = set()
        self.spent: Amount = ()
        self.partitions: dict[str, ParallelSpending] = {}
        self.requests: dict[str, int] = {}
        self.releases: dict[str, int] = {}
        self.answers: dict[int, int | None] = {}
        """Position of the answer, or None, by the position of the spend."""
        self._prices: dict[tuple[Any, ...], Amount] = {}

    def following(self, kind: str, body: str) -> Entry:
        """The entry that would come next."""
        seq = self.seq + 1
        return Entry(seq, kind, body, chained(self.head, seq, kind, body))

    def left(self) -> Amount:
        """What may still be spent."""
        return less(self.accounting.allowance, self.spent)

    def costs(self, content: Mapping[str, Any]) -> Costs:
        """What a spend's guarantees cost."""
        if content["guarantee"] is None:
            return {part: self._price(guarantee) for part, guarantee in content["parts"].items()}
        cost = self._price(content["guarantee"])
        return cost if content["parts"] is None else dict.fromkeys(content["parts"], cost)

    def _price(self, guarantee: dict[str, Any]) -> Amount:
        key = tuple(guarantee.values())  # its kind is among them
        price = self._prices.get(key)
        if price is None:
            price = self._prices[key] = self.accounting.cost(Guarantee.from_dict(guarantee))
        return price

    def charge(self, content: Mapping[str, Any], neighbours: Neighbours | None) -> Amount:
        """What a spend adds to the total; refuses parts that are not declared."""
        name, costs = content["partition"], self.costs(content)
        if name is None:
            if isinstance(costs, Mapping):
                raise InvalidParameter(
                    "partition", None, "is needed where parts are named", "Declare it with ledger.partition(…)."
                )
            return costs
        if name not in self.partitions:
            raise InvalidParameter("partition", name, "was not declared", "Call ledger.partition(name, parts) first.")
        self.partitions[name].partition.check(neighbours, content["parts"] or ())
        return self.partitions[name].charge(costs)

    def check_pins(self, neighbours: Neighbours | None, unit: Unit | None) -> None:
        """Refuse a guarantee that is about something else than those that were spent before."""
        if neighbours and self.neighbours and neighbours is not self.neighbours:
            raise LedgerMismatch(
                f"this ledger counts guarantees for neighbours = {self.neighbours.name}, not {neighbours.name}. "
                "Guarantees about different neighbours do not add up: use one ledger for each. Nothing was spent."
            )
        if unit and self.unit and unit != self.unit:
            raise LedgerMismatch(
                f"this ledger counts guarantees for unit = {str(self.unit)!r}, not {str(unit)!r}. Guarantees for "
                "different units do not add up: use one ledger for each. Nothing was spent."
            )

    def check_budget(self, charge: Amount) -> Amount:
        """The total after a charge, if the budget allows it."""
        total = added(self.spent, charge)
        if not covers(self.accounting.allowance, total):
            raise InsufficientBudget(self.accounting.at_least(charge), self.accounting.at_most(self.left()))
        return total

    # -- the fold ------------------------------------------------------------------------------------------

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
        self.seq, self.head = entry.seq, entry.hash

    def _broken(self, entry: Entry, what: str) -> LedgerCorrupted:
        return LedgerCorrupted(
            f"{self.where}, entry {entry.seq}: {what}. Restore the ledger from a copy that includes the last release."
        )

    def _open(self, entry: Entry, content: dict[str, Any]) -> None:
        if content["format"] != FORMAT:
            raise self._broken(entry, f"format {content['format']} is not the supported format {FORMAT}")
        allowance = tuple(Fraction(text) for text in content["allowance"])
        self.accounting = Accounting(content["accounting"], Guarantee.from_dict(content["budget"]), allowance)
        self.spent = self.accounting.nothing
        self.opening = content
        self._pin(content)

    def _pin(self, content: dict[str, Any]) -> None:
        """Fix neighbours and unit, or refuse others than those that are fixed."""
        neighbours = content["neighbours"] and Neighbours(content["neighbours"])
        unit = content["unit"] and Unit.from_dict(content["unit"])
        self.check_pins(neighbours, unit)
        self.neighbours, self.unit = self.neighbours or neighbours, self.unit or unit

    def _note(self, _: Entry, content: dict[str, Any]) -> None:
        self.sources.update(content["sources"])
        self.anchors.update(content["anchors"])

    def _partition(self, entry: Entry, content: dict[str, Any]) -> None:
        name = content["name"]
        if name in self.partitions:
            raise self._broken(entry, f"the partition {name!r} is declared twice")
        declared = Partition(name, tuple(content["parts"]), content["membership_public"])
        self.partitions[name] = ParallelSpending(declared, self.accounting.nothing)

    def _spend(self, entry: Entry, content: dict[str, Any]) -> None:
        self._pin(content["protection"])
        charge = self.charge(content, self.neighbours)
        total = added(self.spent, charge)
        if content["charge"] != texts(charge) or content["total"] != texts(total):
            raise self._broken(entry, "its charge or running total is not what the entries add up to")
        if not covers(self.accounting.allowance, total):
            raise self._broken(entry, "it overspends the budget")
        request, release = content["request"], content["release_id"]
        if request in self.requests or release in self.releases:
            raise self._broken(entry, "its request or release id was used before")
        if content["partition"] is not None:
            self.partitions[content["partition"]].spend(self.costs(content))
        self.spent = total
        self.releases[release] = entry.seq
        self.answers[entry.seq] = None
        if request is not None:
            self.requests[request] = entry.seq

    def _answer(self, entry: Entry, content: dict[str, Any]) -> None:
        spend = content["spend"]
        if spend not in self.answers:
            raise self._broken(entry, f"it answers entry {spend}, which is not a spend")
        if self.answers[spend] is not None:
            raise self._broken(entry, f"entry {spend} is answered twice")
        self.answers[spend] = entry.seq


_KINDS = {
    "open": Balance._open,
    "note": Balance._note,
    "partition": Balance._partition,
    "spend": Balance._spend,
    "answer": Balance._answer,
}
