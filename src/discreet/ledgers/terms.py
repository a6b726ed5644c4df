"""Terms: what is fixed when a ledger is opened, and checked whenever it is opened again."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, LedgerMismatch, LedgerMissing
from discreet.core.guarantee import Guarantee
from discreet.core.ledger import claim
from discreet.core.ledger.accounting import Accounting, added, covers
from discreet.core.ledger.approval import Approvals
from discreet.core.ledger.balance import FORMAT, WINDOWS, Balance, texts
from discreet.core.ledger.journal import canonical
from discreet.core.protection import Neighbours, Unit
from discreet.ledgers.counting import accounting_name, accounting_of

__all__ = ["Terms", "check_window"]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What somebody who opens a ledger says about it; None for what they leave to the ledger."""

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
            claim.text("dataset", self.dataset)
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
            raise LedgerMissing(f"there is no ledger at {where}. A new ledger needs a budget: pass budget=PureDP(1.0).")
        counted = accounting_of(self.budget, self.accounting)
        self._check_teams(counted)
        fixed = {"format": FORMAT, "accounting": counted.name, "allowance": texts(counted.allowance)}
        return canonical(
            "dataset", {**self._stated(), **fixed, "secret": secrets.token_hex(32), "created": claim.now()}
        )

    def _check_teams(self, counted: Accounting) -> None:
        """Refuse parts that are more than the whole."""
        total = counted.nothing
        for name, part in (self.teams or {}).items():
            claim.text("teams", name)
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
                    f"{balance.where} was opened with {name} = {ours}, not {theirs}. A ledger keeps its {name}: give "
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
