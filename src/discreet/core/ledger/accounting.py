"""Accounting: how guarantees add up against a budget, in exact fractions.

Each way of accounting is a *privacy filter*: the releases, their number and their parameters may be chosen
after seeing earlier answers; as long as the sum stays within the allowance, all of them together satisfy the
budget.
Proofs: ``docs/proofs/ledger.md``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

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


_CRUMBS = 10**12
"""Less than this part of the allowance is not worth a mention."""


@dataclass(frozen=True)
class Accounting(ABC):
    """A budget, what it allows in the unit of account, and what a guarantee costs in it."""

    budget: Guarantee
    allowance: Amount

    name: ClassVar[str]
    currency: ClassVar[type[Guarantee]]
    """The kind of guarantee that is charged. Ask a mechanism for this kind to be charged least."""

    @staticmethod
    def of(budget: Guarantee, name: str | None = None) -> Accounting:
        """The accounting called ``name`` for a budget; by default the budget's own.

        Parameters
        ----------
        budget
            What all releases together must satisfy.
        name
            ``"pure"``, ``"basic"``, ``"zcdp"`` or ``"gdp"``. An `ApproxDP` budget may be counted in any of
            the last three; every other budget only in its own kind.
        """
        return _NAMED[Accounting.chosen(budget, name)].opened(budget)

    @staticmethod
    def chosen(budget: Guarantee, name: str | None) -> str:
        """The name of the accounting that `of` would use; refuses what does not fit the budget."""
        requirements.instance("budget", budget, Guarantee, "a guarantee such as PureDP(1.0)")
        possible = _POSSIBLE.get(type(budget), ())
        name = possible[0] if possible and name is None else name
        if name not in possible:
            raise InvalidParameter(
                "accounting", name, f"must be one of {list(possible)} for a {type(budget).__name__} budget",
                "Leave it out, or choose one of these.",
            )  # fmt: skip
        if not any(value > 0 for value in budget.parameters().values()):
            raise InvalidParameter("budget", budget, "must allow something", "Pass a positive budget.")
        return str(name)

    @staticmethod
    def restored(budget: Guarantee, name: str, allowance: Amount) -> Accounting:
        """The accounting as a ledger recorded it, without solving for the allowance again."""
        return _NAMED[name](budget, allowance)

    @classmethod
    @abstractmethod
    def opened(cls, budget: Guarantee) -> Accounting:
        """The accounting with the largest allowance that keeps the budget."""

    @abstractmethod
    def kept(self) -> bool:
        """Whether spending the whole allowance certainly satisfies the budget."""

    @abstractmethod
    def cost(self, guarantee: Guarantee) -> Amount:
        """What a release with this guarantee adds; exact."""

    @abstractmethod
    def at_least(self, amount: Amount) -> Guarantee:
        """The amount as a guarantee, rounded up: for what was spent."""

    @abstractmethod
    def at_most(self, amount: Amount) -> Guarantee:
        """The amount as a guarantee, rounded down: for what is left. It can be spent."""

    def _rest(self, amount: Amount, place: int) -> float:
        """A number rounded down; what is left of the rounding of shares is as good as nothing."""
        crumb = amount[place] < self.allowance[place] / _CRUMBS
        return 0.0 if crumb else _rounded_down(amount[place])

    @property
    def nothing(self) -> Amount:
        """The zero amount."""
        return (Fraction(0),) * len(self.allowance)

    def converted(self, guarantee: Guarantee) -> Guarantee:
        """The guarantee in the currency, or a refusal that says what to do."""
        try:
            return _converted(guarantee, self.currency)
        except (InvalidParameter, NoConversion) as refusal:
            raise NoConversion(
                f"this ledger counts in {self.currency.__name__} and cannot charge {guarantee}: {refusal} "
                f"State the release's guarantee as {self.currency.__name__}, or use a ledger with another "
                "budget or accounting. Nothing was spent."
            ) from None


@lru_cache(maxsize=4096)
def _converted(guarantee: Guarantee, kind: type[Guarantee]) -> Guarantee:
    return guarantee.to(kind)


def _rounded_down(number: Fraction) -> float:
    return down(number) + 0.0  # never minus zero


class PureAccounting(Accounting):
    """ε adds."""

    name = "pure"
    currency = PureDP

    @classmethod
    def opened(cls, budget: Guarantee) -> Accounting:
        """The allowance is ε itself."""
        assert isinstance(budget, PureDP)
        return cls(budget, (decimal(budget.epsilon),))

    def kept(self) -> bool:
        """Σε ≤ ε."""
        return self.allowance == self.opened(self.budget).allowance

    def cost(self, guarantee: Guarantee) -> Amount:
        """ε."""
        pure = self.converted(guarantee)
        assert isinstance(pure, PureDP)
        return (decimal(pure.epsilon),)

    def at_least(self, amount: Amount) -> Guarantee:
        """ε rounded up."""
        return PureDP(up(amount[0]))

    def at_most(self, amount: Amount) -> Guarantee:
        """ε rounded down."""
        return PureDP(self._rest(amount, 0))


class BasicAccounting(Accounting):
    """ε adds and δ adds."""

    name = "basic"
    currency = ApproxDP

    @classmethod
    def opened(cls, budget: Guarantee) -> Accounting:
        """The allowance is (ε, δ) itself."""
        assert isinstance(budget, ApproxDP)
        return cls(budget, (decimal(budget.epsilon), decimal(budget.delta)))

    def kept(self) -> bool:
        """Σε ≤ ε and Σδ ≤ δ."""
        return self.allowance == self.opened(self.budget).allowance

    def cost(self, guarantee: Guarantee) -> Amount:
        """(ε, δ)."""
        approximate = self.converted(guarantee)
        assert isinstance(approximate, ApproxDP)
        return decimal(approximate.epsilon), decimal(approximate.delta)

    def at_least(self, amount: Amount) -> Guarantee:
        """Both rounded up."""
        return ApproxDP(up(amount[0]), up(amount[1]))

    def at_most(self, amount: Amount) -> Guarantee:
        """Both rounded down."""
        return ApproxDP(self._rest(amount, 0), self._rest(amount, 1))


def _implied(budget: Guarantee, make: Callable[[float], Guarantee], guess: float) -> float:
    """The largest parameter whose guarantee certainly implies an `ApproxDP` budget."""
    if isinstance(budget, ApproxDP) and budget.delta == 0:
        raise InvalidParameter(
            "accounting", budget, "needs a budget with δ > 0", 'Use a PureDP budget, or accounting="basic".'
        )
    return greatest(lambda parameter: parameter <= HUGE_EPSILON and make(parameter).within(budget), guess)


class ConcentratedAccounting(Accounting):
    """ρ adds."""

    name = "zcdp"
    currency = ZeroConcentratedDP

    @classmethod
    def opened(cls, budget: Guarantee) -> Accounting:
        """ρ itself, or the largest ρ that implies (ε, δ)."""
        if isinstance(budget, ZeroConcentratedDP):
            return cls(budget, (decimal(budget.rho),))
        assert isinstance(budget, ApproxDP)
        logarithm = -math.log(budget.delta) if budget.delta > 0 else 1.0
        guess = (math.sqrt(budget.epsilon + logarithm) - math.sqrt(logarithm)) ** 2
        return cls(budget, (decimal(_implied(budget, ZeroConcentratedDP, guess)),))

    def kept(self) -> bool:
        """ρ-zCDP implies the budget."""
        return ZeroConcentratedDP(up(self.allowance[0])).within(self.budget)

    def cost(self, guarantee: Guarantee) -> Amount:
        """ρ."""
        concentrated = self.converted(guarantee)
        assert isinstance(concentrated, ZeroConcentratedDP)
        return (decimal(concentrated.rho),)

    def at_least(self, amount: Amount) -> Guarantee:
        """ρ rounded up."""
        return ZeroConcentratedDP(up(amount[0]))

    def at_most(self, amount: Amount) -> Guarantee:
        """ρ rounded down."""
        return ZeroConcentratedDP(self._rest(amount, 0))


class GaussianAccounting(Accounting):
    """μ² adds."""

    name = "gdp"
    currency = GaussianDP

    @classmethod
    def opened(cls, budget: Guarantee) -> Accounting:
        """μ², or the square of the largest μ that implies (ε, δ)."""
        if isinstance(budget, GaussianDP):
            return cls(budget, (decimal(budget.mu) ** 2,))
        assert isinstance(budget, ApproxDP)
        guess = max(budget.epsilon / 4, 2.5 * budget.delta)
        return cls(budget, (decimal(_implied(budget, GaussianDP, guess)) ** 2,))

    def kept(self) -> bool:
        """μ-GDP implies the budget."""
        return self.at_least(self.allowance).within(self.budget)

    def cost(self, guarantee: Guarantee) -> Amount:
        """μ²."""
        gaussian = self.converted(guarantee)
        assert isinstance(gaussian, GaussianDP)
        return (decimal(gaussian.mu) ** 2,)

    def at_least(self, amount: Amount) -> Guarantee:
        """The smallest μ with μ² of at least the amount."""
        square = amount[0]
        if square == 0:
            return GaussianDP(0.0)
        return GaussianDP(least(lambda mu: decimal(mu) ** 2 >= square, math.sqrt(square)))

    def at_most(self, amount: Amount) -> Guarantee:
        """The largest μ with μ² of at most the amount."""
        square = amount[0]
        if square == 0:
            return GaussianDP(0.0)
        return GaussianDP(greatest(lambda mu: decimal(mu) ** 2 <= square, math.sqrt(square)))


_NAMED: dict[str, type[Accounting]] = {
    kind.name: kind for kind in (PureAccounting, BasicAccounting, ConcentratedAccounting, GaussianAccounting)
}
_POSSIBLE: dict[type[Guarantee], tuple[str, ...]] = {
    PureDP: ("pure",),
    ApproxDP: ("basic", "zcdp", "gdp"),
    ZeroConcentratedDP: ("zcdp",),
    GaussianDP: ("gdp",),
}
