"""Protection: who is protected against what. Unit, neighbours, and every fact that is taken as public.

A guarantee without these three is half a sentence, so releases and ledger entries carry them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType


class Neighbours(Enum):
    """Which data sets must be hard to tell apart."""

    ADD_REMOVE = "add_remove"
    """One unit is added or removed; the number of units is private."""
    REPLACE_ONE = "replace_one"
    """One unit's data is replaced; the number of units is public."""

    @property
    def sides(self) -> int:
        """The number of times one unit's data counts: 1 where it comes or goes, 2 where other data replaces it."""
        return 2 if self is Neighbours.REPLACE_ONE else 1


class Fact(Enum):
    """Something about the data that counts as public, so that no noise protects it."""

    SIZE = "size"
    """The number of units."""
    TOTAL = "total"
    """The total of a table."""
    ARM = "arm"
    """Which arm of an experiment each unit is in, and so how many are in each."""
    PART = "part"
    """Which part of a partition each unit belongs to."""
    HISTORY = "history"
    """That rows are only added, and stay in the period in which they are."""
    WEIGHT = "weight"
    """That a unit's weight is a fact of its own data, which no other unit's presence moved."""
    STRATA = "strata"
    """How many there are in each stratum of the population."""


@dataclass(frozen=True)
class Unit:
    """Whose data is protected as one: a single row, or all rows that share a value of one column.

    It is a type of its own because a name cannot tell the two apart: a column may be called ``row``.

    Examples
    --------
    >>> str(Unit()), str(Unit("device")), Unit("row") == ROW
    ('row', 'device', False)
    """

    column: str | None = None

    def __post_init__(self) -> None:
        column: Any = self.column
        if column is not None and (not isinstance(column, str) or not column.strip()):
            raise WrongType("unit", column, "must be the name of an id column", 'Pass Unit("customer"), or ROW.')

    def __str__(self) -> str:
        return "row" if self.column is None else self.column

    @staticmethod
    def of(unit: Any) -> Unit:
        """The unit that a word stands for: ``"row"`` is a row, any other word a column of ids."""
        return unit if isinstance(unit, Unit) else ROW if unit == "row" else Unit(unit)

    def to_dict(self) -> dict[str, Any]:
        """The unit as JSON-ready data."""
        return {"kind": "row"} if self.column is None else {"kind": "id", "column": self.column}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Unit:
        """Read what `to_dict` wrote."""
        return Unit(data["column"]) if data["kind"] == "id" else ROW


ROW = Unit()
"""A single row."""

_CHANGES = {
    (Neighbours.ADD_REMOVE, True): "adding or removing one row",
    (Neighbours.ADD_REMOVE, False): "adding or removing all rows of one {unit}",
    (Neighbours.REPLACE_ONE, True): "replacing one row",
    (Neighbours.REPLACE_ONE, False): "replacing all rows of one {unit}",
}
_PUBLIC = {
    Fact.SIZE: "the number of {unit}s",
    Fact.TOTAL: "the total of the table",
    Fact.ARM: "the arm of each {unit}",
    Fact.PART: "the part that each {unit} belongs to",
    Fact.HISTORY: "that rows are only added and keep their period",
    Fact.WEIGHT: "that the weight of each {unit} depends on no other {unit}",
    Fact.STRATA: "the population of each stratum",
}


@dataclass(frozen=True)
class Protection:
    """Who is protected against what.

    Parameters
    ----------
    unit
        Whose data counts as one.
    neighbours
        Which data sets must be hard to tell apart.
    public
        Facts that are taken as public. Under replace-one neighbours the number of units always is.

    Examples
    --------
    >>> print(Protection(Unit("device"), Neighbours.REPLACE_ONE, [Fact.ARM]))
    replacing all rows of one device; taken as public: the number of devices, the arm of each device
    """

    unit: Unit = ROW
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    public: Iterable[Fact] = ()

    def __post_init__(self) -> None:
        requirements.instance("unit", self.unit, Unit, 'Unit("customer"), or ROW')
        requirements.instance("neighbours", self.neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        facts = {requirements.instance("public", fact, Fact, "[Fact.ARM]") for fact in self.public}
        if self.neighbours is Neighbours.REPLACE_ONE:
            facts.add(Fact.SIZE)
        elif Fact.SIZE in facts:
            raise InvalidParameter(
                "public", "size", "the number of units is private under add/remove", "Use Neighbours.REPLACE_ONE."
            )
        object.__setattr__(self, "public", tuple(fact for fact in Fact if fact in facts))

    def __str__(self) -> str:
        change = _CHANGES[self.neighbours, self.unit.column is None].format(unit=self.unit)
        known = ", ".join(_PUBLIC[fact].format(unit=self.unit) for fact in self.public)
        return f"{change}; taken as public: {known}" if known else change

    def to_dict(self) -> dict[str, Any]:
        """The protection as JSON-ready data; `from_dict` reads it back."""
        return {
            "unit": self.unit.to_dict(),
            "neighbours": self.neighbours.value,
            "public": [fact.value for fact in self.public],
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Protection:
        """Read what `to_dict` wrote."""
        facts = [Fact(name) for name in data["public"]]
        return Protection(Unit.from_dict(data["unit"]), Neighbours(data["neighbours"]), facts)
