"""Schema: the public facts about a data set. Everything here is declared by its owner, nothing is read from data.

A schema says whose presence is protected (the privacy unit), which data sets count as neighbours, and for every
column that may be used either its bounds and grid or its list of categories. A column that is not declared cannot
be released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from discreet.core import requirements
from discreet.core.columns import MOST_CELLS, Bounds, Categories, Column, Label, Policy, Unlisted, one_of
from discreet.core.errors import InvalidParameter, WrongType, spelling
from discreet.core.protection import Fact, Neighbours, Protection, Unit

__all__ = ["Bounds", "Categories", "Column", "Contribution", "PrivacyUnit", "Schema", "Unlisted"]


@dataclass(frozen=True)
class Contribution:
    """How much one unit may contribute; rows beyond are dropped by a random choice among the unit's own rows.

    Parameters
    ----------
    groups
        At most this many groups of a grouped release.
    rows
        At most this many rows in each group (or in all, where nothing is grouped).
    total
        At most this many rows over all groups together; instead of the other two.

    Examples
    --------
    >>> Contribution(groups=2, rows=3).most_rows(cells=12)
    6
    """

    groups: int | None = None
    rows: int | None = None
    total: int | None = None

    def __post_init__(self) -> None:
        for name in ("groups", "rows", "total"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, requirements.positive_integer(name, getattr(self, name)))
        if self.rows is None and self.total is None:
            raise InvalidParameter(
                "contribution", self, "needs a limit on rows", "Pass rows=… (per group) or total=… (in all)."
            )
        if self.total is not None and (self.rows is not None or self.groups is not None):
            raise InvalidParameter(
                "total", self.total, "cannot be combined with groups or rows", "Limit the rows in all, or per group."
            )

    def most_groups(self, cells: int) -> int:
        """Largest number of groups one unit can reach among ``cells``."""
        limits = [cells, *(limit for limit in (self.groups, self.total) if limit is not None)]
        return min(limits)

    def most_rows(self, cells: int) -> int:
        """Largest number of rows of one unit over all groups."""
        return self.total if self.rows is None else self.rows * self.most_groups(cells)  # type: ignore[return-value]

    def most_rows_in_a_group(self) -> int:
        """Largest number of rows of one unit in one group."""
        return self.rows or self.total  # type: ignore[return-value]

    def to_dict(self) -> dict[str, int]:
        """The limits that are set."""
        limits = {"groups": self.groups, "rows": self.rows, "total": self.total}
        return {name: limit for name, limit in limits.items() if limit is not None}


@dataclass(frozen=True)
class PrivacyUnit:
    """Whose presence is protected: one row, or everybody who shares an id.

    Parameters
    ----------
    column
        The id column; None protects single rows.
    contribution
        Default limits for releases about ids.
    nulls
        Rows without an id: ``"drop"`` or ``"refuse"``.

    Examples
    --------
    >>> PrivacyUnit().name, PrivacyUnit("device", contribution=Contribution(rows=4)).name
    ('row', 'device')
    """

    column: str | None = None
    contribution: Contribution | None = None
    nulls: Policy = "drop"

    def __post_init__(self) -> None:
        column: Any = self.column
        if column is not None and (not isinstance(column, str) or column == ""):
            raise WrongType("column", self.column, "must be the name of the id column", 'Pass "customer_id".')
        if self.contribution is not None:
            requirements.instance("contribution", self.contribution, Contribution, "Contribution(rows=4)")
            if self.column is None:
                raise InvalidParameter(
                    "contribution",
                    self.contribution,
                    "a single row contributes exactly one row",
                    "Leave it out, or name the id column.",
                )
        one_of("nulls", self.nulls, ("drop", "refuse"), 'Write "drop" or "refuse".')

    @property
    def unit(self) -> Unit:
        """Whose data counts as one."""
        return Unit(self.column)

    @property
    def name(self) -> str:
        """What one unit is called."""
        return str(self.unit)

    def to_dict(self) -> dict[str, Any]:
        """The declaration as plain data."""
        if self.column is None:
            return {}
        limits = {} if self.contribution is None else self.contribution.to_dict()
        return {"column": self.column, **limits, "nulls": self.nulls}


@dataclass(frozen=True, kw_only=True)
class Schema:
    """Public facts about a data set, declared by its owner.

    Parameters
    ----------
    columns
        Name of each column that may be used, with its `Bounds` or `Categories`, or as `Unlisted`.
    unit
        Whose presence is protected; a single row by default.
    neighbours
        Which data sets must be hard to tell apart.
    size
        The public number of units; required for replace-one neighbours, and only there.

    Examples
    --------
    >>> schema = Schema(columns={"age": Bounds(0, 120, grid=1), "arm": Categories(["A", "B"])})
    >>> schema.unit.name, schema.bounds("age").high
    ('row', 120.0)
    >>> Schema.from_dict(schema.to_dict()) == schema
    True
    """

    columns: Mapping[str, Column]
    unit: PrivacyUnit = field(default_factory=PrivacyUnit)
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    size: int | None = None

    def __post_init__(self) -> None:
        requirements.instance("unit", self.unit, PrivacyUnit, 'PrivacyUnit("customer_id")')
        requirements.instance("neighbours", self.neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        requirements.instance("columns", self.columns, Mapping, '{"age": Bounds(0, 120, grid=1)}')
        for name, column in self.columns.items():
            requirements.instance("column", name, str, "its name as text")
            kinds = (Bounds, Categories, Unlisted)
            requirements.instance(f"columns[{name!r}]", column, kinds, "Bounds(0, 1, grid=0.01)")
        if self.unit.column in self.columns:
            raise InvalidParameter(
                "unit", self.unit.column, "the id column cannot be released", "Remove it from the columns."
            )
        self._check_size()
        object.__setattr__(self, "columns", dict(self.columns))

    def _check_size(self) -> None:
        replace = self.neighbours is Neighbours.REPLACE_ONE
        if self.size is not None:
            if not replace:
                raise InvalidParameter(
                    "size",
                    self.size,
                    "the number of units is private under add/remove neighbours",
                    "Leave it out, or declare neighbours = replace_one.",
                )
            requirements.positive_integer("size", self.size)
        elif replace:
            raise InvalidParameter(
                "size", None, "replace-one neighbours need the public number of units", "Pass size=…."
            )

    def facts_of(self, names: Sequence[str]) -> dict[str, Any]:
        """What is declared of some columns and of the unit: part of what a question asks."""
        return {
            "unit": self.unit.to_dict(),
            "size": self.size,
            "columns": {name: self.column(name).to_dict() for name in names},
        }

    def protection(self, *public: Fact) -> Protection:
        """Who is protected, where these facts are taken as public too."""
        return Protection(self.unit.unit, self.neighbours, public)

    def column(self, name: str) -> Column:
        """Declaration of a column, or an error that lists the ones there are."""
        requirements.instance("column", name, str, 'the name of one column, such as "age"')
        if name not in self.columns:
            raise InvalidParameter(
                "column",
                name,
                "is not declared in the schema",
                f"{spelling(name, self.columns)} Or declare it.",
            )
        return self.columns[name]

    def bounds(self, name: str) -> Bounds:
        """Declaration of a numeric column."""
        column = self.column(name)
        if not isinstance(column, Bounds):
            raise WrongType("column", name, "is a column of labels, not a number", "Use a column with bounds.")
        return column

    def categories(self, name: str) -> Categories:
        """Declaration of a column of labels."""
        column = self.column(name)
        if isinstance(column, Unlisted):
            raise WrongType(
                "column",
                name,
                "has no public list of labels",
                "List them as categories, or release them first: ask for groups, then declare what was found.",
            )
        if not isinstance(column, Categories):
            raise WrongType("column", name, "is a number, not a list of categories", "Use a column with categories.")
        return column

    def unlisted(self, name: str) -> Unlisted:
        """Declaration of a column whose labels are not public."""
        column = self.column(name)
        if not isinstance(column, Unlisted):
            raise WrongType("column", name, "is declared with its values already", "Declare it as Unlisted().")
        return column

    def declaring(self, **columns: Column) -> Schema:
        """The same facts, with columns declared anew.

        Examples
        --------
        >>> schema = Schema(columns={"city": Unlisted()}).declaring(city=Categories(["Bergen", "Oslo"]))
        >>> schema.categories("city").cells
        2
        """
        for name in columns:
            self.column(name)
        return replace(self, columns={**self.columns, **columns})

    def cells(self, names: Sequence[str]) -> int:
        """Number of cells of the table over some columns of labels."""
        product = 1
        for name in names:
            product *= self.categories(name).cells
        if product > MOST_CELLS:
            raise InvalidParameter(
                "by", names, f"makes {product:,} cells, more than {MOST_CELLS:,}", "Use fewer columns, or merge labels."
            )
        return product

    def contribution(self, override: Contribution | None = None) -> Contribution:
        """Limits in force: those asked for, else the schema's; a row always contributes one row."""
        if self.unit.column is None:
            if override is not None:
                raise InvalidParameter(
                    "contribution",
                    override,
                    "rows are the privacy unit and contribute one row each",
                    "Leave contribution out.",
                )
            return Contribution(groups=1, rows=1)
        if override is not None:
            requirements.instance("contribution", override, Contribution, "Contribution(rows=4)")
        limits = override if override is not None else self.unit.contribution
        if limits is None:
            raise InvalidParameter(
                "contribution",
                None,
                f"say how much one {self.unit.name} may contribute",
                "Pass contribution=Contribution(rows=4), or set it in the schema's unit.",
            )
        return limits

    def to_dict(self) -> dict[str, Any]:
        """The schema as plain data, as in a plan file; `from_dict` reads it back."""
        data: dict[str, Any] = {"neighbours": self.neighbours.value}
        if self.size is not None:
            data["size"] = self.size
        if self.unit.column is not None:
            data["unit"] = self.unit.to_dict()
        data["columns"] = {name: column.to_dict() for name, column in self.columns.items()}
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schema:
        """Read what `to_dict` wrote, or the ``[schema]`` part of a plan file; unknown keys are refused."""
        fields = _known("schema", data, {"neighbours", "size", "unit", "columns"})
        neighbours = fields.get("neighbours", Neighbours.ADD_REMOVE.value)
        names = [one.value for one in Neighbours]
        one_of("schema.neighbours", neighbours, names, "Most data sets want add_remove.")
        columns = _table("schema.columns", fields.get("columns", {}))
        return cls(
            columns={name: _column(f"schema.columns.{name}", column) for name, column in columns.items()},
            unit=_unit(fields.get("unit", {})),
            neighbours=Neighbours(neighbours),
            size=fields.get("size"),
        )


def _table(name: str, data: Any) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise WrongType(name, data, "must be a table of settings", f"Write [{name}] and its keys below.")
    return data


def _known(name: str, data: Any, allowed: set[str]) -> dict[str, Any]:
    """The settings of a table, or an error that names the first unknown one."""
    table = _table(name, data)
    for key in table:
        if key not in allowed:
            raise InvalidParameter(f"{name}.{key}", table[key], "is not a setting", spelling(key, sorted(allowed)))
    return dict(table)


def _unit(data: Any) -> PrivacyUnit:
    fields = _known("schema.unit", data, {"column", "groups", "rows", "total", "nulls"})
    limits = {name: fields.pop(name) for name in ("groups", "rows", "total") if name in fields}
    return PrivacyUnit(contribution=Contribution(**limits) if limits else None, **fields)


def _column(name: str, data: Any) -> Column:
    table = _table(name, data)
    if "categories" in table:
        fields = _known(name, table, {"categories", "nulls", "unknown"})
        labels = fields.pop("categories")
        return Categories(_labels(name, labels), **fields)
    if "unlisted" in table:
        if _known(name, table, {"unlisted"})["unlisted"] is not True:
            raise WrongType(f"{name}.unlisted", table["unlisted"], "must be true", "Write unlisted = true.")
        return Unlisted()
    fields = _known(name, table, {"low", "high", "grid", "nulls"})
    for key in ("low", "high"):
        if key not in fields:
            raise InvalidParameter(
                f"{name}.{key}",
                None,
                "is missing",
                "Give low and high for a number; categories, or unlisted = true, for labels.",
            )
    return Bounds(**fields)


def _labels(name: str, labels: Any) -> tuple[Label, ...]:
    if not isinstance(labels, list | tuple):
        raise WrongType(f"{name}.categories", labels, "must be a list of labels", 'Write ["north", "south"].')
    return tuple(labels)
