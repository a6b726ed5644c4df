"""Other ledgers: those beside the data, the plan or its ledger that count the same source."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from discreet.core.errors import LedgerError
from discreet.ledgers import Ledger
from discreet.plans.plan_file import PlanFile

__all__ = ["other_ledgers"]


def other_ledgers(file: PlanFile) -> tuple[str, ...]:
    """A warning for each ledger nearby that counts releases of the plan's source and is not the plan's own."""
    places = {
        Path(one).parent for one in (file.ledger, file.open_options()["source"], file.path) if "://" not in str(one)
    }
    others = sorted(other for place in places for other in place.glob("*.ledger") if not _same(other, file.ledger))
    return tuple(
        f"{other} already counts releases of this data. Two ledgers for the same people add up: what one of them "
        "guarantees does not include the other."
        for other in others
        if _counts(other, file.identities())
    )


def _same(path: Path, address: str) -> bool:
    return os.path.exists(address) and path.samefile(address)


def _counts(path: Path, identities: Sequence[str]) -> bool:
    try:
        with Ledger(path, read_only=True) as ledger:
            return any(ledger.counts(identity) for identity in identities)
    except LedgerError:  # another kind of file, or a damaged one: it is not this plan's to judge
        return False
