"""Groups: which labels of a column are common enough to be shown, where no list of them is public."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from discreet.core.columns import Categories, Label
from discreet.core.door import Allowance, Claim, Passed, Step
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import ApproxDP, Guarantee
from discreet.core.protection import Neighbours, Protection
from discreet.core.rows import Snapshot, unit_counts
from discreet.core.schema import Contribution
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.choices.group_selection import (
    GaussianThreshold,
    GroupSelection,
    OptimalSelection,
    selecting_guarantee,
)
from discreet.mechanisms.mechanism import mechanism_from_dict
from discreet.questions import form
from discreet.questions.question import DeclaredColumns, Question, first_of
from discreet.results.answer import Readable, protection_published
from discreet.results.display import Facts
from discreet.results.frames import Reading
from discreet.results.ledger import Ledger
from discreet.results.plan import Plan, affordable

FORMAT = 2
_SHOWN = 12
_RULES: dict[str, tuple[type[GroupSelection], ...]] = {
    "optimal": (OptimalSelection,),
    "gaussian": (GaussianThreshold,),
    "best": (OptimalSelection, GaussianThreshold),
}


@dataclass(frozen=True, kw_only=True)
class ReleasedGroups(Readable):
    """The labels of a column that are shown. A label that is missing may be rare, or just unlucky.

    Attributes
    ----------
    column
        Whose labels they are.
    labels
        The labels, in alphabetical (or numerical) order.
    mechanism, sensitivity, guarantee, protection
        How they were chosen, and what that guarantees.
    """

    column: str
    labels: tuple[Label, ...]
    mechanism: GroupSelection
    sensitivity: Sensitivity
    guarantee: Guarantee
    protection: Protection
    release_id: str
    created: str
    simulated: bool = False

    def categories(self, *, nulls: Label = "drop", unknown: Label = "drop") -> Categories:
        """The list as a column's declaration, for releases by these groups."""
        if not self.labels:
            raise InvalidParameter(
                "labels",
                [],
                f"no group was large enough to be shown (95 % of those with {self.size_shown()} are)",
                "Spend more, or use coarser labels.",
            )
        return Categories(self.labels, nulls=nulls, unknown=unknown)

    def size_shown(self, probability: float = 0.95) -> int:
        """Size of the smallest groups that are shown with this probability."""
        return self.mechanism.size_shown(probability)

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[Label]:
        return iter(self.labels)

    def __contains__(self, label: object) -> bool:
        return label in self.labels

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The labels."""
        return [Reading(str(label), "shown", labels={self.column: label}, measure="shown") for label in self.labels]

    def published(self) -> dict[str, Any]:
        return protection_published(self, self.mechanism.to_dict(), str(self.sensitivity))

    def heading(self) -> str:
        return f"Groups of {self.column}"

    def facts(self) -> Facts:
        """The facts to show."""
        some = ", ".join(str(label) for label in self.labels[:_SHOWN])
        more = f", … ({len(self)} in all)" if len(self) > _SHOWN else ""
        return [
            ("groups", f"{some}{more}" or "none was large enough"),
            ("shown", f"with probability 95 % from {self.size_shown()} on (each {self.protection.unit} counts once)"),
            ("guarantee", f"{self.guarantee}: {self.guarantee.sentence()}"),
            ("protects against", str(self.protection)),
            ("mechanism", self.mechanism.name),
            ("release", f"{self.release_id[:8]}, {self.created}"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data; `from_dict` reads it back."""
        return {
            "discreet": "groups",
            "format": FORMAT,
            "column": self.column,
            "labels": list(self.labels),
            "mechanism": self.mechanism.to_dict(),
            "sensitivity": self.sensitivity.to_dict(),
            "guarantee": self.guarantee.to_dict(),
            "protection": self.protection.to_dict(),
            "release_id": self.release_id,
            "created": self.created,
        }

    @staticmethod
    def from_dict(data: Any) -> ReleasedGroups:
        """Read what `to_dict` wrote."""
        if not isinstance(data, dict) or data.get("discreet") != "groups" or data.get("format") != FORMAT:
            raise InvalidParameter("data", data, f"must be groups of format {FORMAT}", "Check the file.")
        mechanism = mechanism_from_dict(data["mechanism"])
        if not isinstance(mechanism, GroupSelection):
            raise InvalidParameter("mechanism", data["mechanism"], "does not select groups", "Check the file.")
        return ReleasedGroups(
            column=data["column"],
            labels=tuple(data["labels"]),
            mechanism=mechanism,
            sensitivity=Sensitivity.from_dict(data["sensitivity"]),
            guarantee=Guarantee.from_dict(data["guarantee"]),
            protection=Protection.from_dict(data["protection"]),
            release_id=data["release_id"],
            created=data["created"],
        )


@dataclass(frozen=True)
class GroupsQuestion(Question[ReleasedGroups]):
    """Which labels of an unlisted column to show.

    Guarantee
    ---------
    (ε, δ): a unit counts once in each of at most ``groups`` (or ``total``) of its labels, and a label that only one
    unit holds is shown with probability δ at most. Proof: ``docs/proofs/group_selection.md``.

    Attributes
    ----------
    column
        A column that the schema declares as `PrivateLabels`.
    guarantee
        (ε, δ) with δ > 0.
    contribution
        Limits per unit.
    method
        ``"optimal"``, ``"gaussian"``, or ``"best"``: the one that shows smaller groups.
    """

    topic: ClassVar[str] = "Counts and shares"
    answers: ClassVar[str] = "Which labels occur at all, where the list itself is not public? Needs a δ."
    rehearsed: ClassVar[bool] = False
    needs_delta: ClassVar[bool] = True
    ask: ClassVar[str] = "common_labels"
    also: ClassVar[tuple[str, ...]] = ("top", "value_counts")
    heading: ClassVar[str] = "Common labels of {subject}"
    meaning: ClassVar[str] = "Labels that are common enough to be shown; those that are missing may be rare."
    forms: ClassVar[form.Forms] = {"column": form.COLUMN, "method": form.METHOD}
    column: str
    _: KW_ONLY
    contribution: Contribution | None = None
    method: str = "best"

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return {"column": first_of(columns.unlisted)}

    def _validate(self) -> None:
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
    def charged(self) -> ApproxDP:
        """The guarantee to charge."""
        return selecting_guarantee(self.guarantee)

    def content(self) -> dict[str, Any]:
        return {
            "ask": self.ask,
            "column": self.column,
            "groups_per_unit": self.groups,
            "method": self.method,
            "schema": self.schema.facts_of([self.column]),
        }

    def claim(self, ledger: Ledger | None) -> Claim:
        return Claim(
            guarantee=self.charged,
            protection=self.schema.protection(),
            question=self.content(),
            mechanism=self.mechanism.to_dict(),
            sensitivity=self.sensitivity,
            steps=[Step(self.mechanism, self.sensitivity, self.charged)],
        )

    def draw(self, rows: Snapshot, claim: Claim, allowance: Allowance, passed: Passed) -> ReleasedGroups:
        labels, counts = unit_counts(rows, self.column, groups=self.groups)
        shown = np.asarray(allowance.draw(claim.steps[0], counts)) > 0
        return ReleasedGroups(
            column=self.column,
            labels=tuple(sorted(label for label, one in zip(labels, shown.tolist(), strict=True) if one)),
            mechanism=self.mechanism,
            sensitivity=self.sensitivity,
            guarantee=claim.guarantee,
            protection=claim.protection,
            **vars(passed),
        )

    def read(self, stored: Any) -> ReleasedGroups:
        return ReleasedGroups.from_dict(stored)

    def plan(self, ledger: Ledger | None = None) -> Plan:
        remaining, after = affordable(ledger, self.charged)
        rule = self.mechanism
        alone = float(rule.chance([1])[0])
        return Plan(
            statistic=self.ask,
            mechanism=rule.name,
            scale=getattr(rule, "scale", None),
            guarantee=self.charged,
            read="hidden units",
            error_95=float(rule.size_shown()),
            remaining=remaining,
            remaining_after=after,
            notes=(
                f"groups of {rule.size_shown()} are shown with probability 95 %, of "
                f"{rule.size_shown(0.5)} with 50 %, of one with {alone:.2g}",
            ),
            details={"mechanism": rule.to_dict(), "sensitivity": self.sensitivity.to_dict()},
        )
