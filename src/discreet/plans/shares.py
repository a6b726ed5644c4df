"""Shares: a budget, divided among releases."""

from __future__ import annotations

from discreet.core.guarantee import GaussianDP, Guarantee
from discreet.core.rounding import decimal, down

__all__ = ["divided"]


def divided(budget: Guarantee, shares: list[float]) -> list[Guarantee]:
    """Parts of the budget; the last one takes what rounding left over, so that a finished plan leaves nothing."""
    *parts, last = budget.split(shares)
    if isinstance(budget, GaussianDP):  # its squares add, and are rounded already
        return [*parts, last]
    rest = {
        name: down(decimal(whole) - sum(decimal(part.parameters()[name]) for part in parts))
        for name, whole in budget.parameters().items()
    }
    return [*parts, type(budget)(**rest)]
