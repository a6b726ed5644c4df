"""Related: another table about the same units, joined to the rows of the first by the unit's id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from discreet.core import requirements
from discreet.core.columns import Bounds, Column
from discreet.core.errors import InvalidParameter
from discreet.core.row_expression import RowExpression

__all__ = ["Related"]


@dataclass(frozen=True, kw_only=True)
class Related:
    """Public facts about another table that holds rows of the same units.

    Each row of the first table meets each of at most ``rows`` rows that its unit keeps here; a unit without any has
    missing values. With ``counted``, rows do not multiply: a number says how many rows the unit has here.

    Parameters
    ----------
    id
        The column of unit ids in this table.
    rows
        At most this many rows of one unit count.
    columns
        What is declared of the columns of this table. Names must differ from those of other tables.
    where
        Which rows take part, as in `Schema`.
    counted
        The name of a number from 0 to ``rows``: how many rows a unit has here.

    Guarantee
    ---------
    What a unit's rows become depends on the rows of that unit alone, in all tables. Proof: ``docs/proofs/joins.md``.

    Examples
    --------
    >>> Related(id="person", rows=3, counted="visits").given()["visits"].high
    3.0
    """

    id: str
    rows: int
    columns: Mapping[str, Column] = field(default_factory=dict)
    where: RowExpression | None = None
    counted: str | None = None

    def __post_init__(self) -> None:
        requirements.instance("id", self.id, str, 'the id column, such as "person"')
        requirements.positive_integer("rows", self.rows)
        requirements.instance("columns", self.columns, Mapping, '{"cost": Bounds(0, 100, grid=1)}')
        object.__setattr__(self, "columns", requirements.Frozen(self.columns))
        if self.counted is not None:
            requirements.instance("counted", self.counted, str, 'a name such as "visits"')
        elif not self.columns:
            raise InvalidParameter("columns", {}, "must not be empty", 'Declare columns, or pass counted="visits".')

    def given(self) -> dict[str, Column]:
        """The columns that this table adds to the rows of the first."""
        return dict(self.columns) if self.counted is None else {self.counted: Bounds(0, self.rows, grid=1, nulls=0)}

    def to_dict(self) -> dict[str, Any]:
        """The declaration as plain data."""
        columns = {name: column.to_dict() for name, column in self.columns.items()}
        said = {"where": None if self.where is None else self.where.text, "counted": self.counted}
        known = {name: value for name, value in said.items() if value is not None}
        return {"id": self.id, "rows": self.rows, **known, "columns": columns}
