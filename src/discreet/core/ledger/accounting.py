"""Accounting: how guarantees add up against a budget, in exact fractions.

Each way of accounting is a *privacy filter*: the releases, their number and their parameters may be chosen
after seeing earlier answers; as long as the sum stays within the allowance, all of them together satisfy the
budget.
Proofs: ``docs/proofs/ledger.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import HUGE_EPSILON, ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.rounding import decimal, down, greatest, least, up

__all__ = ["Accounting", "Amount", "added", "covers", "less", "peak"]

Amount = tuple[Fraction, ...]
"""What is counted: (Σε,), (Σε, Σδ), (Σρ,) or (Σμ²,)."""


def added(first: Amount, second: Amount) -> Amount:
    """Sum, coordinate by coordinate."""
    return tuple(a + b for a, b in zip(first, second, strict=True))


def less(first: Amount, second: Amount) -> Amount:
    """Difference, coordinate by coordinate."""
    return tuple(a - b for a, b in zip(first, second, strict=True))


def peak(first: Amount, second: Amount) -> Amount:
    """The larger of the two, coordinate by coordinate."""
    return tuple(max(a, b) for a, b in zip(first, second, strict=True))


def covers(allowance: Amount, amount: Amount) -> bool:
    """Whether no coordinate of ``amount`` exceeds the allowance."""
    return all(a <= b for a, b in zip(amount, allowance, strict=True))


@dataclass(frozen=True)
class _Currency:
    """A kind of guarantee, and which power of its parameters adds up: ε, δ and ρ themselves, but μ²."""

    kind: Any
    power: int
    guess: Callable[[float, float], float] | None = None
    """Near the largest parameter that implies (ε, δ): where the search for it starts."""


def _rho(epsilon: float, delta: float) -> float:
    logarithm = -math.log(delta)
    return (math.sqrt(epsilon + logarithm) - math.sqrt(logarithm)) ** 2


_CURRENCIES = {
    "pure": _Currency(PureDP, 1),
    "basic": _Currency(ApproxDP, 1),
    "zcdp": _Currency(ZeroConcentratedDP, 1, _rho),
    "gdp": _Currency(GaussianDP, 2, lambda epsilon, delta: max(epsilon / 4, 2.5 * delta)),
}
_POSSIBLE: dict[type[Guarantee], tuple[str, ...]] = {
    PureDP: ("pure",),
    ApproxDP: ("basic", "zcdp", "gdp"),
    ZeroConcentratedDP: ("zcdp",),
    GaussianDP: ("gdp",),
}
_CRUMB = Fraction(1, 10**12)
"""Less than this part of the allowance is left by the rounding of shares, and is not worth a mention."""


@dataclass(frozen=True)
class Accounting:
    """A budget, what it allows in the unit of account, and what a guarantee costs in it.

    Attributes
    ----------
    name
        ``"pure"`` (ε adds), ``"basic"`` (ε and δ add), ``"zcdp"`` (ρ adds) or ``"gdp"`` (μ² adds).
    budget
        What all releases together must satisfy.
    allowance
        How much may be spent in all.
    """

    name: str
    budget: Guarantee
    allowance: Amount

    @staticmethod
    def of(budget: Guarantee, name: str | None = None) -> Accounting:
        """The accounting called ``name`` with the largest allowance that keeps the budget.

        By default the budget's own. An `ApproxDP` budget may be counted in ``"basic"``, ``"zcdp"`` or ``"gdp"``;
        every other budget only in its own kind.
        """
        chosen = Accounting.chosen(budget, name)
        currency = _CURRENCIES[chosen]
        limit = budget if isinstance(budget, currency.kind) else _implied(budget, currency)
        return Accounting(chosen, budget, _amount(limit, currency.power))

    @staticmethod
    def chosen(budget: Guarantee, name: str | None) -> str:
        """The name of the accounting that `of` would use; refuses what does not fit the budget."""
        requirements.instance("budget", budget, Guarantee, "a guarantee such as PureDP(1.0)")
        possible = _POSSIBLE.get(type(budget), ())
        found = possible[0] if possible and name is None else name
        if found not in possible:
            raise InvalidParameter(
                "accounting", name, f"must be one of {list(possible)} for a {type(budget).__name__} budget",
                "Leave it out, or choose one of these.",
            )  # fmt: skip
        if not any(value > 0 for value in budget.parameters().values()):
            raise InvalidParameter("budget", budget, "must allow something", "Pass a positive budget.")
        return str(found)

    @property
    def currency(self) -> type[Guarantee]:
        """The kind of guarantee that is charged. Ask a mechanism for this kind to be charged least."""
        kind: type[Guarantee] = _CURRENCIES[self.name].kind
        return kind

    @property
    def nothing(self) -> Amount:
        """The zero amount."""
        return (Fraction(0),) * len(self.allowance)

    def kept(self) -> bool:
        """Whether spending the whole allowance certainly satisfies the budget."""
        return self.at_least(self.allowance).within(self.budget)

    def cost(self, guarantee: Guarantee) -> Amount:
        """What a release with this guarantee adds; exact."""
        try:
            charged = _converted(guarantee, self.currency)
        except (InvalidParameter, NoConversion) as refusal:
            raise NoConversion(
                f"this ledger counts in {self.currency.__name__} and cannot charge {guarantee}: {refusal} "
                f"State the release's guarantee as {self.currency.__name__}, or use a ledger with another "
                "budget or accounting. Nothing was spent."
            ) from None
        return _amount(charged, _CURRENCIES[self.name].power)

    def at_least(self, amount: Amount) -> Guarantee:
        """The amount as a guarantee, rounded up: for what was spent."""
        if self.name != "gdp" or amount == self.nothing:
            return self._stated(map(up, amount))
        return GaussianDP(least(lambda mu: decimal(mu) ** 2 >= amount[0], math.sqrt(amount[0])))

    def at_most(self, amount: Amount) -> Guarantee:
        """The amount as a guarantee, rounded down: for what is left. It can be spent."""
        if self.name != "gdp" or amount == self.nothing:
            crumbs = [part < _CRUMB * whole for part, whole in zip(amount, self.allowance, strict=True)]
            left = (0.0 if crumb else down(part) + 0.0 for part, crumb in zip(amount, crumbs, strict=True))
            return self._stated(left)  # adding 0.0 never shows minus zero
        return GaussianDP(greatest(lambda mu: decimal(mu) ** 2 <= amount[0], math.sqrt(amount[0])))

    def _stated(self, parameters: Iterable[float]) -> Guarantee:
        kind: Any = self.currency
        stated: Guarantee = kind(*parameters)
        return stated


def _amount(guarantee: Guarantee, power: int) -> Amount:
    return tuple(decimal(parameter) ** power for parameter in guarantee.parameters().values())


def _implied(budget: Guarantee, currency: _Currency) -> Guarantee:
    """The largest guarantee of the currency found that certainly implies an `ApproxDP` budget."""
    if not isinstance(budget, ApproxDP) or budget.delta == 0 or currency.guess is None:
        raise InvalidParameter(
            "accounting", budget, "needs a budget with δ > 0", 'Use a PureDP budget, or accounting="basic".'
        )
    fits = lambda parameter: parameter <= HUGE_EPSILON and currency.kind(parameter).within(budget)  # noqa: E731
    implied: Guarantee = currency.kind(greatest(fits, currency.guess(budget.epsilon, budget.delta)))
    return implied


@lru_cache(maxsize=4096)
def _converted(guarantee: Guarantee, kind: type[Guarantee]) -> Guarantee:
    return guarantee.to(kind)
