"""Released groups: a public list of labels that were common enough to be shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from discreet.core.columns import Categories, Label
from discreet.core.contract import mechanism_from_dict
from discreet.core.display import Facts
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.protection import Protection
from discreet.core.result import Result
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.choices.group_selection import GroupSelection

__all__ = ["ReleasedGroups"]

FORMAT = 2
_SHOWN = 12


@dataclass(frozen=True, kw_only=True)
class ReleasedGroups(Result):
    """The labels of a column that are shown. Who is missing may be rare, or just unlucky.

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

    def heading(self) -> str:
        return f"Groups of {self.column}"

    def facts(self) -> Facts:
        """What to show."""
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
