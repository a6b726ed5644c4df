"""Balance: what the entries of a ledger add up to.

The balance is a fold over the entries: the same code follows other processes' spends, opens a file and verifies
it, so a total that was written can never differ unnoticed from a total that was computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from fractions import Fraction
from typing import Any

from discreet.core.errors import DiscreetError, InsufficientBudget, InvalidParameter, LedgerCorrupted, LedgerMismatch
from discreet.core.guarantee import Guarantee
from discreet.core.ledger.accounting import Accounting, Amount, added, covers, less
from discreet.core.ledger.approval import Approvals
from discreet.core.ledger.claim import fingerprint
from discreet.core.ledger.consent import Consent
from discreet.core.ledger.journal import ROOT, Entry, chained
from discreet.core.ledger.partition import Costs, ParallelSpending, Partition
from discreet.core.ledger.windows import window_of
from discreet.core.protection import Neighbours, Unit

__all__ = ["FORMAT", "Balance", "texts"]

FORMAT = 3
"""Version of the entries. Kinds and fields are added under a new version and never re-meant."""


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
        self.consent = Consent(None)
        self.window = ""
        self.spent: Amount = ()
        """What was spent in the window of the last spend; in all where the budget has no windows."""
        self.ever: Amount = ()
        """What was spent in all windows together."""
        self.renewed: Amount = ()
        self.renewals: set[str] = set()
        self.by_team: dict[str, Amount] = {}
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

    @property
    def allowance(self) -> Amount:
        """What may be spent in a window: the budget and its approved renewals."""
        return added(self.accounting.allowance, self.renewed)

    def left(self) -> Amount:
        """What may still be spent."""
        return less(self.allowance, self.spent)

    def left_to(self, team: str | None) -> Amount:
        """What a team may still spend of what was allotted to it, and of what is left to all."""
        allotted = self.opening["teams"]
        if not allotted:
            return self.left()
        if team is None or team not in allotted:
            raise InvalidParameter("team", team, f"must be one of {sorted(allotted)}", "Pass team=… to Ledger.")
        own = less(self._price(allotted[team]), self.by_team.get(team, self.accounting.nothing))
        return tuple(map(min, own, self.left()))

    def at(self, created: str) -> Balance:
        """The balance at a time: a new window begins with nothing spent. A clock that goes back changes nothing."""
        window = window_of(self.opening["window"], created)
        if window <= self.window:
            return self
        later, nothing = copy(self), self.accounting.nothing
        later.window, later.spent, later.by_team = window, nothing, {}
        later.partitions = {name: ParallelSpending(one.partition, nothing) for name, one in self.partitions.items()}
        return later

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

    def check_budget(self, charge: Amount, team: str | None = None) -> Amount:
        """The total after a charge, if the budget and the team's part of it allow it."""
        left = self.left_to(team)
        if not covers(left, charge):
            raise InsufficientBudget(self.accounting.at_least(charge), self.accounting.at_most(left))
        return added(self.spent, charge)

    # -- the fold ------------------------------------------------------------------------------------------

    def apply(self, entry: Entry) -> None:
        """Follow one entry; refuse it where the chain, its kind or its numbers are wrong."""
        if entry.seq != self.seq + 1:
            raise self._broken(entry, f"entry {self.seq + 1} is missing")
        # Ledgers of older formats hash their entries differently, so the format is looked at first.
        if entry.seq == 1 and '"format":' in entry.body and f'"format":{FORMAT},' not in entry.body:
            raise self._broken(entry, f"it is not of format {FORMAT}, which this version reads")
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
        allowance = tuple(Fraction(text) for text in content["allowance"])
        self.accounting = Accounting(content["accounting"], Guarantee.from_dict(content["budget"]), allowance)
        self.spent = self.ever = self.renewed = self.accounting.nothing
        self.opening = content
        self.consent = Consent(content["approvals"] and Approvals.from_dict(content["approvals"]))
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

    def _approval(self, entry: Entry, content: dict[str, Any]) -> None:
        plan = content["plan"]
        was = self.consent.agreed(plan)
        self.consent.state(self.head, content)
        renewal = self.consent.meanings[plan].get("renew")
        if renewal is not None and not was and self.consent.agreed(plan) and plan not in self.renewals:
            self.renewals.add(plan)  # what was granted stays granted: it may have been spent
            self.renewed = added(self.renewed, self._price(renewal))

    def _spend(self, entry: Entry, content: dict[str, Any]) -> None:
        vars(self).update(vars(self.at(content["created"])))
        self._pin(content["protection"])
        charge, team, plan = self.charge(content, self.neighbours), content["team"], content["plan"]
        total = added(self.spent, charge)
        if content["charge"] != texts(charge) or content["total"] != texts(total):
            raise self._broken(entry, "its charge or running total is not what the entries add up to")
        if not covers(self.left_to(team), charge):
            raise self._broken(entry, "it overspends the budget")
        if self.consent.rule is not None:
            said = fingerprint(content)
            self.consent.check(plan, said)
            self.consent.make(plan, said)
        if team is not None:
            self.by_team[team] = added(self.by_team.get(team, self.accounting.nothing), charge)
        self.ever = added(self.ever, charge)
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
    "approval": Balance._approval,
    "spend": Balance._spend,
    "answer": Balance._answer,
}
