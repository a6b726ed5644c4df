"""Partition: disjoint groups of privacy units, and what was spent in each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

from discreet.core.errors import InvalidParameter
from discreet.core.ledger.accounting import Amount, added, less, peak
from discreet.core.protection import Neighbours

__all__ = ["Costs", "ParallelSpending", "Partition"]


@dataclass(frozen=True)
class Partition:
    """Disjoint groups of privacy units that are charged in parallel.

    Attributes
    ----------
    name
        What the groups are.
    parts
        Their names: public, fixed before any release, and each unit belongs to at most one of them.
    membership_public
        Whether it is public which unit belongs to which part, so that a replaced unit stays in its part.
    """

    name: str
    parts: tuple[str, ...]
    membership_public: bool = False

    def check(self, neighbours: Neighbours | None, parts: Iterable[str] = ()) -> None:
        """Refuse parts that were not declared, and parallel composition where a unit may move between parts."""
        if neighbours is Neighbours.REPLACE_ONE and not self.membership_public:
            raise InvalidParameter(
                "membership_public", False,
                f"a replaced unit may leave one part of {self.name!r} and enter another, so the parts do not "
                "compose in parallel under REPLACE_ONE",
                "Use ADD_REMOVE, or declare membership_public=True if who belongs to which part is public.",
            )  # fmt: skip
        known = frozenset(self.parts) if parts else frozenset()
        unknown = [part for part in parts if part not in known]
        if unknown:
            raise InvalidParameter(
                "parts", unknown, f"are not parts of {self.name!r}", "Name parts that were declared."
            )


Costs = Mapping[str, Amount] | Amount
"""What a release costs: one amount, or one for each part that it reads."""


class ParallelSpending:
    """What single parts spent beyond what was spent in all of them alike."""

    def __init__(self, partition: Partition, nothing: Amount) -> None:
        self.partition = partition
        self._nothing = self.highest = nothing
        self.extra: dict[str, Amount] = {}

    def charge(self, costs: Costs) -> Amount:
        """How much the largest total over the parts would rise; one amount for all raises it by just that."""
        if not isinstance(costs, Mapping):
            return costs
        return less(reduce(peak, set(self._after(costs).values()), self.highest), self.highest)

    def _after(self, costs: Mapping[str, Amount]) -> dict[str, Amount]:
        """What the named parts would have spent by themselves."""
        return {part: added(self.extra.get(part, self._nothing), cost) for part, cost in costs.items()}

    def spend(self, costs: Costs) -> None:
        """Count it."""
        if isinstance(costs, Mapping):
            self.highest = added(self.highest, self.charge(costs))
            self.extra |= self._after(costs)
