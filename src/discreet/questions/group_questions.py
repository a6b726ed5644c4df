"""The question of groups: which labels of a column are common enough to be shown."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from discreet.core.door import Claim, Step
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import ApproxDP, Guarantee
from discreet.core.protection import Neighbours
from discreet.core.schema import Contribution, Schema
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.choices.gaussian_threshold import GaussianThreshold
from discreet.mechanisms.choices.group_selection import GroupSelection, OptimalSelection, selecting_guarantee

__all__ = ["GroupQuestion"]

_RULES: dict[str, tuple[type[GroupSelection], ...]] = {
    "optimal": (OptimalSelection,),
    "gaussian": (GaussianThreshold,),
    "best": (OptimalSelection, GaussianThreshold),
}


@dataclass(frozen=True, kw_only=True)
class GroupQuestion:
    """Which labels of an unlisted column to show, from public facts alone.

    Attributes
    ----------
    column
        A column that the schema declares as `Unlisted`.
    guarantee
        (ε, δ) with δ > 0.
    contribution
        Limits per unit: a unit counts once in each of at most ``groups`` (or ``total``) of its labels.
    method
        ``"optimal"``, ``"gaussian"``, or ``"best"``: the one that shows smaller groups.
    """

    schema: Schema
    column: str
    guarantee: Guarantee
    contribution: Contribution | None = None
    method: str = "best"

    def __post_init__(self) -> None:
        self.schema.unlisted(self.column)
        selecting_guarantee(self.guarantee)
        method: Any = self.method
        if not isinstance(method, str) or method not in _RULES:
            raise InvalidParameter("method", self.method, f"must be one of {', '.join(_RULES)}", 'Pass "best".')
        self.mechanism  # noqa: B018  (refuses what cannot be met)

    @cached_property
    def groups(self) -> int:
        """At most this many labels of one unit."""
        limits = self.schema.contribution(self.contribution)
        most = limits.groups if limits.rows is not None else limits.total
        if most is None:
            raise InvalidParameter(
                "contribution", limits, "must say how many groups one unit may be in", "Pass groups=1, rows=1."
            )
        return most

    @property
    def sensitivity(self) -> Sensitivity:
        """One unit changes this many counts by one each."""
        replaced = self.schema.neighbours is Neighbours.REPLACE_ONE
        return Sensitivity(moves=(1.0,) * (2 * self.groups if replaced else self.groups))

    @cached_property
    def mechanism(self) -> GroupSelection:
        """The rule that shows smaller groups at this guarantee."""
        rules = [kind.calibrate(self.guarantee, self.sensitivity) for kind in _RULES[self.method]]
        return min(rules, key=lambda rule: rule.size_shown())

    @property
    def claim(self) -> ApproxDP:
        """The guarantee to charge."""
        return selecting_guarantee(self.guarantee)

    def full_claim(self) -> Claim:
        """What the list of groups says of itself before it is made."""
        return Claim(
            guarantee=self.claim,
            protection=self.schema.protection(),
            question={
                "ask": "groups",
                "column": self.column,
                "groups_per_unit": self.groups,
                "schema": self.schema.facts_of([self.column]),
            },
            mechanism=self.mechanism.to_dict(),
            sensitivity=self.sensitivity,
            steps=[Step(self.mechanism, self.sensitivity, self.claim)],
        )
