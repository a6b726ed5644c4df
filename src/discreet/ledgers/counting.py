"""Counting: the accounting of a budget, with the largest allowance that a search finds.

A search may be wrong, so nobody has to believe it: the core refuses an allowance that does not keep its budget
(`Accounting.kept`), in the first entry of a ledger and in the claim of a release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import HUGE_EPSILON, ApproxDP, Guarantee
from discreet.core.ledger.accounting import CURRENCIES, Accounting, amount_of
from discreet.core.rounding import greatest

__all__ = ["accounting_name", "accounting_of"]


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
