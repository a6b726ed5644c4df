"""Ledger view: what was spent, by release, team and period; whether the ledger is intact."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from discreet import Ledger
from discreet.core.errors import DiscreetError, LedgerMissing
from discreet.plans.job import Job
from discreet.plans.plan_file import PlanFile
from discreet.publish.anchors import anchored_heads, write_anchor
from discreet.publish.ledger_statement import planned_release

__all__ = ["anchored", "ledger_view", "verified"]


def ledger_view(file: PlanFile) -> dict[str, Any] | None:
    """The account of a plan's ledger; None where nothing was released yet."""
    try:
        with Ledger(file.ledger, read_only=True) as ledger:
            statement = ledger.statement()
    except LedgerMissing:
        return None
    rows, by = [], {"team": defaultdict[str, int](int), "period": defaultdict[str, int](int)}
    for spend in statement.spends:
        planned = planned_release(spend.request)
        name, period = planned if planned is not None else (spend.request or spend.release_id[:12], None)
        by["team"][spend.team or "no team"] += 1
        by["period"][period or "no period"] += 1
        rows.append(
            {
                "seq": spend.seq,
                "created": spend.created[:16].replace("T", " "),
                "name": name,
                "period": period or "",
                "team": spend.team or "",
                "title": spend.title,
                "charge": str(spend.charge),
                "spent": str(spend.spent),
            }
        )
    return {
        "path": file.ledger_name,
        "budget": str(statement.budget),
        "spent": str(statement.spent),
        "remaining": str(statement.remaining),
        "protects": statement.protects,
        "head": statement.head,
        "rows": rows,
        "groups": {kind: sorted(counted.items()) for kind, counted in by.items() if set(counted) - {f"no {kind}"}},
    }


def verified(file: PlanFile) -> list[str]:
    """Check every entry of the ledger again; what was found, line by line."""
    with Ledger(file.ledger, read_only=True) as ledger:
        found = ledger.verify(anchor=anchored_heads(ledger, None))
    return [f"{name}: {value}" for name, value in found.facts()]


def anchored(file: PlanFile, place: Path) -> str:
    """Append the head to a file that is kept elsewhere."""
    if place.exists() and not place.name.endswith(".txt"):
        raise DiscreetError(f"file = {place.name!r}: must end in .txt. Choose another name.")
    with Job(file).ledger(write=True) as ledger:
        return write_anchor(ledger, place)
