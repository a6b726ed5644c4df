"""Terms: what is fixed when a ledger is opened, and checked whenever it is opened again."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, LedgerMismatch, LedgerMissing
from discreet.core.guarantee import HUGE_EPSILON, ApproxDP, Guarantee
from discreet.core.ledger import claim
from discreet.core.ledger.accounting import CURRENCIES, Accounting, added, amount_of, covers
from discreet.core.ledger.approval import Approvals
from discreet.core.ledger.balance import FORMAT, WINDOWS, Balance, texts
from discreet.core.ledger.journal import canonical
from discreet.core.protection import Neighbours, Unit
from discreet.core.rounding import greatest

__all__ = ["Terms", "accounting_name", "accounting_of", "check_window"]


# ---- Counting: the accounting of a budget, with the largest allowance that a search finds
#
# A search may be wrong, so nobody has to believe it: the core refuses an allowance that does not keep its budget
# (`Accounting.kept`), in the first entry of a ledger and in the claim of a release.


def _rho(epsilon: float, delta: float) -> float:
    logarithm = -math.log(delta)
    return (math.sqrt(epsilon + logarithm) - math.sqrt(logarithm)) ** 2


_GUESSES: Mapping[str, Callable[[float, float], float]] = {
    "zcdp": _rho,
    "gdp": lambda epsilon, delta: max(epsilon / 4, 2.5 * delta),
}
"""Near the largest parameter that implies (ε, δ): where the search for it starts."""


def accounting_name(budget: Guarantee, name: str | None = None) -> str:
    """The name of the accounting that `accounting_of` would use; refuses what does not fit the budget."""
    requirements.instance("budget", budget, Guarantee, "a guarantee such as PureDP(1.0)")
    own = Accounting.own(budget).name
    possible = [own, *_GUESSES] if isinstance(budget, ApproxDP) else [own]
    if name is not None and name not in possible:
        raise InvalidParameter(
            "accounting", name, f"must be one of {possible} for a {type(budget).__name__} budget",
            "Leave it out, or choose one of these.",
        )  # fmt: skip
    if not any(value > 0 for value in budget.parameters().values()):
        raise InvalidParameter("budget", budget, "must allow something", "Pass a positive budget.")
    return own if name is None else name


def accounting_of(budget: Guarantee, name: str | None = None) -> Accounting:
    """The accounting called ``name`` with the largest allowance that keeps the budget.

    By default the budget's own. An `ApproxDP` budget may be counted in ``"basic"``, ``"zcdp"`` or ``"gdp"``; every
    other budget only in its own kind.

    Examples
    --------
    >>> from discreet import ApproxDP, PureDP
    >>> accounting_of(PureDP(0.5)).allowance
    (Fraction(1, 2),)
    >>> accounting_of(ApproxDP(1.0, 1e-6), "gdp").kept()
    True
    """
    chosen = accounting_name(budget, name)
    kind, power = CURRENCIES[chosen]
    if isinstance(budget, kind):
        return Accounting.own(budget)
    if not isinstance(budget, ApproxDP) or budget.delta == 0:
        raise InvalidParameter(
            "accounting", budget, "needs a budget with δ > 0", 'Use a PureDP budget, or accounting="basic".'
        )
    fits = lambda parameter: parameter <= HUGE_EPSILON and kind(parameter).within(budget)  # noqa: E731
    return Accounting(
        chosen, budget, amount_of(kind(greatest(fits, _GUESSES[chosen](budget.epsilon, budget.delta))), power)
    )


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
