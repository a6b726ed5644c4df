"""Accounting: how guarantees add up against a budget, in exact fractions.

Each way of accounting is a *privacy filter*: the releases, their number and their parameters may be chosen
after seeing earlier answers; as long as the sum stays within the allowance, all of them together satisfy the
budget.
Proofs: ``docs/proofs/ledger.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.rounding import decimal, down, greatest, least, up

__all__ = ["CURRENCIES", "Accounting", "Amount", "added", "amount_of", "covers", "less", "peak"]

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


CURRENCIES: dict[str, tuple[Any, int]] = {
    "pure": (PureDP, 1),
    "basic": (ApproxDP, 1),
    "zcdp": (ZeroConcentratedDP, 1),
    "gdp": (GaussianDP, 2),
}
"""By accounting: the kind of guarantee, and which power of its parameters adds up. ε, δ and ρ themselves, but μ²."""
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
    def own(budget: Guarantee) -> Accounting:
        """A guarantee counted in its own kind. `discreet.ledgers.terms` counts it in others."""
        name, power = next((name, power) for name, (kind, power) in CURRENCIES.items() if kind is type(budget))
        return Accounting(name, budget, amount_of(budget, power))

    @property
    def currency(self) -> type[Guarantee]:
        """The kind of guarantee that is charged. Ask a mechanism for this kind to be charged least."""
        kind: type[Guarantee] = CURRENCIES[self.name][0]
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
        return amount_of(charged, CURRENCIES[self.name][1])

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


def amount_of(guarantee: Guarantee, power: int) -> Amount:
    """What a guarantee counts in its own kind."""
    return tuple(decimal(parameter) ** power for parameter in guarantee.parameters().values())


@lru_cache(maxsize=4096)
def _converted(guarantee: Guarantee, kind: type[Guarantee]) -> Guarantee:
    return guarantee.to(kind)
