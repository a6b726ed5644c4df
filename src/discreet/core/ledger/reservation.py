"""Reservation: a spend that is on disk, and what must hold before one is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet.core.errors import InsufficientBudget, InvalidParameter, LedgerMismatch
from discreet.core.ledger import claim
from discreet.core.ledger.accounting import Amount, added, covers
from discreet.core.ledger.balance import Balance
from discreet.core.protection import Neighbours, Unit

__all__ = ["Reservation", "charged", "check_pins", "check_scope"]


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


def check_pins(balance: Balance, neighbours: Neighbours | None, unit: Unit | None) -> None:
    """Refuse a guarantee that is about something else than those that were spent before."""
    if neighbours and balance.neighbours and neighbours is not balance.neighbours:
        raise LedgerMismatch(
            f"this ledger counts guarantees for neighbours = {balance.neighbours.name}, not {neighbours.name}. "
            "Guarantees about different neighbours do not add up: use one ledger for each. Nothing was spent."
        )
    if unit and balance.unit and unit != balance.unit:
        raise LedgerMismatch(
            f"this ledger counts guarantees for unit = {str(balance.unit)!r}, not {str(unit)!r}. "
            "Guarantees for different units do not add up: use one ledger for each. Nothing was spent."
        )


def check_scope(balance: Balance, content: Mapping[str, Any], neighbours: Neighbours | None) -> None:
    """Refuse parts that were not declared, or that a unit could leave."""
    name = content["partition"]
    if name is None:
        return
    if name not in balance.partitions:
        raise InvalidParameter("partition", name, "was not declared", "Call ledger.partition(name, parts) first.")
    spending = balance.partitions[name]
    claim.require_stable_membership(spending.partition, neighbours)
    unknown = spending.unknown(content["parts"] or ())
    if unknown:
        raise InvalidParameter("parts", unknown, f"are no parts of {name!r}", "Name parts that were declared.")


def charged(balance: Balance, content: Mapping[str, Any]) -> tuple[Amount, Amount]:
    """What the spend adds and what the total becomes, if the budget allows it."""
    charge = balance.charge(content)
    total = added(balance.spent, charge)
    if not covers(balance.accounting.allowance, total):
        accounting = balance.accounting
        raise InsufficientBudget(accounting.at_least(charge), accounting.at_most(balance.left()))
    return charge, total
