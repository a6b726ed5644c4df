"""Spending: one durable entry in the ledger before an algorithm with several noisy steps draws anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discreet.guarantees import Guarantee
from discreet.releases import check_simulation
from discreet.sensitivity import Neighbours, Sensitivity

if TYPE_CHECKING:
    from discreet.ledger import Ledger

__all__ = ["spend"]


def spend(
    guarantee: Guarantee, description: dict[str, Any], sensitivity: Sensitivity, ledger: Ledger | None, rng: Any
) -> None:
    """Reserve the whole cost; refuses real data without a ledger and simulations on a ledger that lasts."""
    check_simulation(ledger, rng)
    if ledger is not None:
        ledger.reserve(
            guarantee,
            statistic={"name": description["name"]},
            mechanism=description,
            sensitivity=sensitivity.to_dict(),
            neighbours=Neighbours.ADD_REMOVE,
            unit="row",
        )
