"""Schema: the public facts about a data set. Everything here is declared by its owner, nothing is read from data.

A schema says whose presence is protected (the privacy unit), which data sets count as neighbours, and for every
column that may be used either its bounds and grid or its list of categories. A column that is not declared cannot
be released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal, get_args

from discreet.core import requirements
from discreet.core.columns import (
    MOST_CELLS,
    Bands,
    Bounds,
    Categories,
    Column,
    Dates,
    ForReaders,
    Label,
    Policy,
    PrivateLabels,
    RowExpression,
)
from discreet.core.errors import InvalidParameter, WrongType, spelling
from discreet.core.notebook import facts_html
from discreet.core.numbers import decimal, not_below
from discreet.core.protection import Fact, Neighbours, Protection, Unit
from discreet.core.sensitivity import Sensitivity, root_up

__all__ = [
    "Bands", "Bounds", "Categories", "Column", "Contribution", "Dates", "Design", "Feature", "PrivacyUnit",
    "PrivateLabels", "Related", "Schema", "Take", "in_parts", "related_schema", "stability",
]  # fmt: skip


# ---- Related: another table about the same units, joined to the rows of the first by the unit's id


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
    What a unit's rows become depends on the rows of that unit alone, in all tables. Proof: ``docs/proofs/rows.md``.

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


# ---- Feature: one value of each unit, made of all of its rows.


Take = Literal["sum", "count", "mean", "min", "max", "any", "all", "first", "last"]
MOST_ACROSS = 2**41
"""Steps of the mean of a unit's rows, at most: its sum over 2³¹ rows then fits two numbers of 53 bits."""


@dataclass(frozen=True, kw_only=True)
class Feature(ForReaders):
    """One value of each unit, made of all of its rows; see `Schema.per_unit`.

    Rows without a usable value do not take part. A unit that has none left has a missing value, or a count of 0.

    Parameters
    ----------
    of
        The column of the rows; a count may leave it out.
    take
        ``"sum"``, ``"count"`` or ``"mean"``; ``"min"`` or ``"max"``, where labels are ordered as in their list;
        ``"any"`` or ``"all"`` of true and false; ``"first"`` or ``"last"``.
    low, high
        Public bounds, to which the value is clipped. A sum needs both and a count needs ``high``; others have by
        default those of the column.
    grid
        Public resolution, for a mean alone: the grid of its column divided by a whole number. By default a power of
        ten times as fine, with 1,000 steps or more. All other values lie on the grid of the column.
    nulls
        What becomes of a missing value: ``"drop"`` the unit, or the number or label that takes its place, written as
        for `Bounds` and `Categories`.
    order
        The column that says which row is first or last, such as a date. Of rows at the same place the smallest value
        counts, or the label that is listed first.
    label, measured_in
        What readers are told, as for `Bounds`.

    Guarantee
    ---------
    A unit's value depends on the rows of that unit alone. Proof: ``docs/proofs/rows.md``.

    Examples
    --------
    >>> rows = Schema(
    ...     columns={"amount": Bounds(0, 20, grid=0.5)},
    ...     unit=PrivacyUnit("person"),
    ...     features={"spend": Feature(of="amount", take="sum", low=0, high=60)},
    ... )
    >>> rows.per_unit().bounds("spend").cells
    121
    """

    of: str | None = None
    take: Take
    low: float | None = None
    high: float | None = None
    grid: float | None = None
    nulls: Label | float = "drop"
    order: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        requirements.one_of("take", self.take, get_args(Take), 'Write "sum".')
        for name in ("of", "order"):
            if getattr(self, name) is not None:
                requirements.instance(name, getattr(self, name), str, 'the name of a column, such as "amount"')
        if self.of is None and self.take != "count":
            raise InvalidParameter("of", None, f"is needed for the {self.take}", 'Name a column: of="amount".')
        if (self.order is None) == (self.take in ("first", "last")):
            rule = "says which row is first or last, and nothing else"
            raise InvalidParameter("order", self.order, rule, 'Write take="first" and order="day", or leave both out.')
        for name in ("low", "high", "grid", "nulls"):
            if not isinstance(getattr(self, name), str | bool | None):
                requirements.finite(name, getattr(self, name))
        if self.nulls == "refuse":
            raise InvalidParameter("nulls", self.nulls, "a feature cannot refuse", 'Write "drop", or a replacement.')
        if self.grid is not None and self.take != "mean":
            raise InvalidParameter("grid", self.grid, "is that of the column, but for a mean", "Leave grid out.")

    def names(self) -> tuple[str, ...]:
        """The columns of the rows that the value is made of."""
        return tuple(name for name in (self.of, self.order) if name is not None)

    def words(self, unit: str) -> str:
        """The meaning of the value, for readers."""
        of = "" if self.of is None else f" of {self.of!r}"
        by = "" if self.order is None else f" by {self.order!r}"
        return f"{self.take}{of}{by} over all rows of a {unit}"

    def column(self, rows: Schema) -> Column:
        """Declaration of the value, as a column of the table with one row per unit."""
        for key in ("of", "order"):
            name = getattr(self, key)
            if name is not None and name not in rows.columns:
                fix = f"{spelling(name, rows.columns)} Or declare it."
                raise InvalidParameter(key, name, "is not declared in the schema", fix)
        if self.take == "count":
            low = 0 if self.low is None else self.low
            return Bounds(low, self._given("high"), grid=1, nulls=max(low, 0))
        of = rows.column(str(self.of))
        if isinstance(of, PrivateLabels) or isinstance(rows.columns.get(str(self.order)), PrivateLabels):
            raise WrongType("of", self.of, "has no public list of labels", "List them as categories.")
        if isinstance(of, Categories):
            return self._of_labels(of)
        if self.take in ("any", "all") or (isinstance(of, Dates) and self.take in ("sum", "mean")):
            fix = 'Declare Categories([False, True], value=Formula("amount > 0")).'
            raise WrongType("of", self.of, f"is not a column of which there is {self.take!r}", fix)
        low = self._given("low") if self.take == "sum" else of.low if self.low is None else self.low
        high = self._given("high") if self.take == "sum" else of.high if self.high is None else self.high
        found = replace(of, low=low, high=high, grid=self._grid(of), nulls=self.nulls, value=None, missing=())
        if self.take == "mean" and self.finer(of, found) * (of.highest - of.lowest) > MOST_ACROSS:
            raise InvalidParameter(
                "grid", found.grid, "makes more than 2^41 steps of the column", "Use a coarser grid."
            )
        return found

    def _given(self, name: str) -> float:
        value: float | None = getattr(self, name)
        if value is None:
            raise InvalidParameter(name, None, f"is needed for the {self.take}", "Pass low=0 and high=60, for example.")
        return value

    def _of_labels(self, of: Categories) -> Categories:
        if (self.low, self.high) != (None, None):
            raise InvalidParameter("low", self.low, "has no meaning for labels", "Leave low and high out.")
        if self.take in ("any", "all") and isinstance(of.labels[0], bool):
            return Categories([False, True], nulls=self.nulls, unknown=self.nulls)  # type: ignore[arg-type]
        if self.take not in ("min", "max", "first", "last"):
            raise WrongType("of", self.of, f"is a column of which there is no {self.take!r}", 'Write take="max".')
        nulls: Any = self.nulls
        return replace(of, nulls=nulls, unknown=nulls, value=None, missing=(), aliases={}, ignore_case=False)

    def _grid(self, of: Bounds) -> float:
        if self.take != "mean":
            return of.grid
        if self.grid is not None:
            return self.grid
        finer = 1
        while (of.highest - of.lowest) * finer < 1000:
            finer *= 10
        return float(of.step / finer)

    @staticmethod
    def finer(of: Bounds, found: Bounds) -> int:
        """Grid steps of a mean in one of its column."""
        steps = of.step / found.step
        if steps.denominator != 1:
            raise InvalidParameter(
                "grid", found.grid, f"must divide that of the column, {of.grid:g}", f"Pass grid={of.grid / 10:g}."
            )
        return int(steps)

    def to_dict(self) -> dict[str, Any]:
        """The declaration as plain data."""
        said = {"of": self.of, "take": self.take, "low": self.low, "high": self.high, "grid": self.grid,
                "nulls": None if self.nulls == "drop" else self.nulls, "order": self.order}  # fmt: skip
        return {name: value for name, value in said.items() if value is not None}


@dataclass(frozen=True)
class Contribution:
    """The most that one unit may contribute; rows beyond are dropped by a random choice among the unit's own rows.

    Parameters
    ----------
    groups, rows
        For grouped releases: at most this many groups, and at most this many rows in each of them (or in all, where
        nothing is grouped).
    total
        At most this many rows over all groups together: the usual limit, instead of the other two.

    Examples
    --------
    At most four rows per device, and at most three rows in each of two groups:

    >>> PrivacyUnit("device", contribution=Contribution(total=4)).contribution.most_rows(cells=12)
    4
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
                "contribution", self, "sets no limit on rows", "Write Contribution(total=4) for four rows per unit."
            )
        if self.total is not None and (self.rows is not None or self.groups is not None):
            raise InvalidParameter(
                "total",
                self.total,
                "excludes groups and rows",
                f"Write Contribution(total={self.total}), or omit total.",
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


_ONE_ROW = Contribution(groups=1, rows=1)


@dataclass(frozen=True)
class PrivacyUnit(ForReaders):
    """Whose presence is protected: one row, or everybody who shares an id.

    Parameters
    ----------
    column
        The id column; None protects single rows.
    contribution
        How many rows per id count, unless a question sets its own limit.
    nulls
        Rows without an id: ``"drop"`` or ``"refuse"``.
    label
        What readers are told in the place of the column's name: ``"person"``.

    Examples
    --------
    >>> PrivacyUnit().name, PrivacyUnit("device", contribution=Contribution(rows=4)).name
    ('row', 'device')
    """

    column: str | None = None
    contribution: Contribution | None = None
    nulls: Policy = "drop"

    def __post_init__(self) -> None:
        super().__post_init__()
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
        requirements.one_of("nulls", self.nulls, ("drop", "refuse"), 'Write "drop" or "refuse".')

    @property
    def unit(self) -> Unit:
        """Whose data counts as one."""
        return Unit(self.column)

    @property
    def name(self) -> str:
        """The name of one unit."""
        return str(self.unit)

    def to_dict(self) -> dict[str, Any]:
        """The declaration as plain data."""
        if self.column is None:
            return {}
        limits = {} if self.contribution is None else self.contribution.to_dict()
        return {"column": self.column, **limits, "nulls": self.nulls}


# ---- Design: how the rows were sampled, and how many of the population each of them stands for


@dataclass(frozen=True, kw_only=True)
class Design(ForReaders):
    """How the rows were sampled: the weights, strata and clusters by which a survey speaks of its population.

    Under a design, questions are about the population, with design-based intervals. Weights are facts of each row:
    that another respondent's presence moved them (by calibration, say) is not covered.

    Parameters
    ----------
    weight
        The column of weights: how many of the population a row stands for. A row without a weight above zero takes no
        part. A column that is not declared gets bounds of its own, twice as wide as ``weight_high``.
    weight_high
        The trim: the largest weight that counts. Larger ones are moved down to it, and the answer says how many.
    strata
        A column of labels: the strata, each sampled by itself.
    population
        How many there are in each stratum, where that is public: estimates add up to it, and a sampling fraction
        narrows intervals.
    cluster
        The id column of the privacy unit, where units are sampled whole: households, schools. ``weight_high`` is then
        the largest weight of a unit's rows together.
    expected
        What weights are likely to be: their quantiles at even distances, as a codebook or an earlier year has them. It
        serves plans only.

    Examples
    --------
    >>> Design(weight="PWGTP", weight_high=300).to_dict()
    {'weight': 'PWGTP', 'weight_high': 300.0}
    """

    weight: str
    weight_high: float
    strata: str | None = None
    population: Mapping[Label, float] = field(default_factory=dict)
    cluster: str | None = None
    expected: Sequence[float] = ()

    def __post_init__(self) -> None:
        requirements.instance("weight", self.weight, str, 'the name of a column, such as "PWGTP"')
        object.__setattr__(self, "weight_high", requirements.positive("weight_high", self.weight_high))
        for name in ("strata", "cluster"):
            if getattr(self, name) is not None:
                requirements.instance(name, getattr(self, name), str, 'the name of a column, such as "region"')
        requirements.instance("population", self.population, Mapping, '{"north": 120_000}')
        if self.population and self.strata is None:
            raise InvalidParameter("population", dict(self.population), "needs strata", 'Name them: strata="region".')
        totals = {label: requirements.positive(f"population.{label}", one) for label, one in self.population.items()}
        object.__setattr__(self, "population", requirements.Frozen(totals))
        likely = requirements.listed("expected", self.expected, "[5, 20, 60, 300]")
        object.__setattr__(self, "expected", tuple(requirements.positive("expected", one) for one in likely))

    def bounds(self) -> Bounds:
        """The bounds of weights that are not declared: as fine as those of the weights that count."""
        fine = Bounds(0, self.weight_high).grid
        return Bounds(0, float(2 * decimal(self.weight_high)), grid=fine)

    def check(self, columns: Mapping[str, Column], unit: PrivacyUnit) -> None:
        """Refuse a design that does not fit the declared columns or the privacy unit."""
        weights = columns[self.weight]
        if type(weights) is not Bounds:
            rule = "is no column of numbers with public bounds"
            raise WrongType("design.weight", self.weight, rule, "Declare it as Bounds.")
        if not weights.grid <= self.weight_high <= weights.high:
            rule = f"must lie within {weights.grid:g} … {weights.high:g}, a step and the upper bound of the weights"
            raise InvalidParameter("design.weight_high", self.weight_high, rule, "Lower it, or widen the bounds.")
        if decimal(self.weight_high) % weights.step:
            rule = f"is not a multiple of {weights.grid:g}, the grid of the weights"
            raise InvalidParameter("design.weight_high", self.weight_high, rule, "Round it, or declare a finer grid.")
        if self.strata is not None:
            strata = columns.get(self.strata)
            if not isinstance(strata, Categories):
                fix = f"Declare {self.strata!r} as Categories."
                raise InvalidParameter("design.strata", self.strata, "is no declared column of labels", fix)
            if self.population and {*self.population} != {*strata.labels}:
                rule = f"must say how many there are in each of {list(strata.labels)}, and nothing else"
                raise InvalidParameter("design.population", dict(self.population), rule, "Name every stratum.")
        if self.cluster != unit.column:
            fix = (
                f"Write cluster={unit.column!r}." if unit.column else "Declare unit=PrivacyUnit(…) with its id column."
            )
            raise InvalidParameter("design.cluster", self.cluster, "must be the id column of the privacy unit", fix)

    def words(self) -> str:
        """The design in one sentence, for readers."""
        known = ", whose populations are public" if self.population else ""
        strata = "" if self.strata is None else f", in strata by {self.strata!r}{known}"
        units = "" if self.cluster is None else f", by clusters of one {self.cluster!r}"
        return f"a sample with weights {self.weight!r} of at most {self.weight_high:g}{strata}{units}"

    def to_dict(self, *, plans: bool = True) -> dict[str, Any]:
        """The declaration as plain data; without what serves ``plans`` only, if so asked."""
        given = {
            "strata": self.strata, "population": dict(self.population), "cluster": self.cluster,
            "expected": list(self.expected) if plans else [],
        }  # fmt: skip
        told = {name: one for name, one in given.items() if one}
        return {"weight": self.weight, "weight_high": self.weight_high, **told}


@dataclass(frozen=True, kw_only=True)
class Schema:
    """Public facts about a data set, declared by its owner.

    Parameters
    ----------
    columns
        Name of each column that may be used, with its `Bounds` or `Categories`, or as `PrivateLabels`.
    unit
        Whose presence is protected; a single row by default.
    neighbours
        Which data sets must be hard to tell apart: those that differ by adding or removing one unit
        (``Neighbours.ADD_REMOVE``, the default) or by replacing one (``Neighbours.REPLACE_ONE``).
    size
        The public number of units; required for replace-one neighbours, and only there.
    where
        Which rows take part: ``Formula("age >= 18 and region != 'Islands'")``, for example. A row for which it is
        neither true nor false, because a value is missing, does not. ``size`` still counts all units.
    related
        Other tables about the same units, by name: see `Related`.
    features
        Values of units, made of their rows: see `Feature`. `per_unit` makes a table of them.
    made_from
        The declarations of the rows, where the columns are features; filled by `per_unit`.
    design
        How the rows were sampled, where they stand for a population: see `Design`.
    noun
        What a row is, for readers: ``"person"``.

    Examples
    --------
    >>> age = Bounds(0, 120, grid=1, label="age", measured_in="years")
    >>> schema = Schema(columns={"AGEP": age, "arm": Categories(["A", "B"])}, noun="person")
    >>> schema.unit.name, schema.bounds("AGEP").high
    ('row', 120.0)
    >>> schema.names_for_readers()
    {'AGEP': 'age in years', 'row': 'person'}
    """

    columns: Mapping[str, Column]
    unit: PrivacyUnit = field(default_factory=PrivacyUnit)
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    size: int | None = None
    where: RowExpression | None = None
    related: Mapping[str, Related] = field(default_factory=dict)
    features: Mapping[str, Feature] = field(default_factory=dict)
    made_from: Schema | None = None
    design: Design | None = None
    noun: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        requirements.words("noun", self.noun)
        requirements.instance("unit", self.unit, PrivacyUnit, 'PrivacyUnit("customer_id")')
        requirements.instance("neighbours", self.neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        requirements.instance("columns", self.columns, Mapping, '{"age": Bounds(0, 120, grid=1)}')
        for name, column in self.columns.items():
            requirements.instance("column", name, str, "its name as text")
            kinds = (Bounds, Categories, PrivateLabels)
            requirements.instance(f"columns[{name!r}]", column, kinds, "Bounds(0, 1, grid=0.01)")
        if self.unit.column in self.columns:
            raise InvalidParameter(
                "unit", self.unit.column, "the id column cannot be released", "Remove it from the columns."
            )
        self._check_size()
        columns = {**self.columns, **self._related_columns()}
        if self.design is not None:
            requirements.instance("design", self.design, Design, 'Design(weight="PWGTP", weight_high=300)')
            columns.setdefault(self.design.weight, self.design.bounds())
            self.design.check(columns, self.unit)
        object.__setattr__(self, "columns", requirements.Frozen(columns))
        if self.noun and "row" in columns:
            raise InvalidParameter("noun", self.noun, "names rows, as a column is called row", "Leave noun out.")
        object.__setattr__(self, "related", requirements.Frozen(self.related))
        self._check_formulas()
        requirements.instance("features", self.features, Mapping, '{"spend": Feature(of="amount", take="sum", …)}')
        object.__setattr__(self, "features", requirements.Frozen(self.features))
        if self.features:
            self.per_unit()  # refuses features that cannot be made

    def _repr_html_(self) -> str:
        """For notebooks: who is protected, and what is declared of each column."""
        unit = "single rows" if self.unit.column is None else f"everybody, told apart by {self.unit.column}"
        facts = [("protects", f"{unit}; neighbours: {self.neighbours.value}")]
        facts += [] if self.where is None else [("rows", f"those where {self.where.text}")]
        for name, column in self.columns.items():
            facts.append((name, column.words()))
        return facts_html("Schema", facts)

    def names_for_readers(self) -> dict[str, str]:
        """What readers are told in the place of the names of columns, of the unit and of a row."""
        rows = self.of_rows
        named: dict[str, ForReaders] = {**rows.columns, **rows.features}
        if rows.unit.column is not None:
            named[rows.unit.column] = rows.unit
        if rows.design is not None and rows.design.named():  # whose weights need no declaration of their own
            named[rows.design.weight] = rows.design
        told = {name: one.name_for_readers(name) for name, one in named.items() if one.named()}
        shown = [told.get(name, name) for name in rows.columns]  # of which no two may be called the same
        told = {name: words for name, words in told.items() if shown.count(words) < 2}
        return told | ({"row": rows.noun} if rows.noun else {})

    def per_unit(self) -> Schema:
        """The facts about a table with one row per unit, whose columns are the features.

        Examples
        --------
        >>> rows = Schema(
        ...     columns={"amount": Bounds(0, 20, grid=0.5), "arm": Categories(["A", "B"])},
        ...     unit=PrivacyUnit("person"),
        ...     features={
        ...         "spend": Feature(of="amount", take="sum", low=0, high=60),
        ...         "arm": Feature(of="arm", take="min"),
        ...     },
        ... )
        >>> people = rows.per_unit()
        >>> list(people.columns), people.contribution().most_rows(cells=2)
        (['spend', 'arm'], 1)
        """
        if self.made_from is not None:
            return self
        self._check_features()
        columns: dict[str, Column] = {}
        for name, feature in self.features.items():
            try:
                made = feature.column(self)
                columns[name] = replace(made, label=feature.label, measured_in=feature.measured_in)
            except InvalidParameter as failure:
                place = f"features.{name}.{failure.name}"
                raise type(failure)(place, failure.value, failure.rule, failure.fix) from None
        behind = self.columns_behind([one for feature in self.features.values() for one in feature.names()])
        public = (Bounds, Dates, Categories, Bands, PrivateLabels)
        if private := [name for name in behind if type(self.columns[name]) not in public]:
            raise InvalidParameter("features", private[0], "is a column whose bounds are not known", "Declare them.")
        unit = replace(self.unit, contribution=None)
        return Schema(columns=columns, unit=unit, neighbours=self.neighbours, size=self.size, made_from=self)

    def _check_features(self) -> None:
        if not self.features or self.unit.column is None:
            raise InvalidParameter(
                "features", [*self.features], "are made of the rows of units, which an id column tells apart",
                'Declare unit=PrivacyUnit("person") and features={"spend": Feature(…)}.',
            )  # fmt: skip
        if self.design is not None:
            raise InvalidParameter(
                "features", [*self.features], "have no design: weights are those of rows",
                "Leave them out: design.cluster adds up the rows of a unit.",
            )  # fmt: skip
        for name, feature in self.features.items():
            requirements.instance(f"features.{name}", feature, Feature, 'Feature(of="amount", take="max")')
        if joined := [name for name, one in self.related.items() if one.counted is None]:
            raise InvalidParameter(
                "related", joined, "would repeat the rows that features are made of",
                'Count its rows with counted="visits", or leave the features out.',
            )  # fmt: skip

    @property
    def of_rows(self) -> Schema:
        """The facts about the rows of the source: these, or those that features are made from."""
        return self if self.made_from is None else self.made_from

    @property
    def unit_is_row(self) -> bool:
        """True where each unit has exactly one row: because rows are the units, or because of features."""
        return self.unit.column is None or self.made_from is not None

    def _related_columns(self) -> dict[str, Column]:
        """The columns that related tables add; refused where two tables have one name, or a row is the unit."""
        found: dict[str, Column] = {}
        requirements.instance("related", self.related, Mapping, '{"visits": Related(id="person", rows=3, …)}')
        if self.related and self.unit.column is None:
            raise InvalidParameter("related", [*self.related], "needs an id column as privacy unit", "Name the column.")
        for table, one in self.related.items():
            requirements.instance(f"related.{table}", one, Related, 'Related(id="person", rows=3, …)')
            try:
                related_schema(one)  # its own formulas are checked
            except InvalidParameter as failure:
                name = f"related.{table}.{failure.name}"
                raise InvalidParameter(name, failure.value, failure.rule, failure.fix) from None
            for name, given in one.given().items():
                column = replace(given, value=None) if given.value else given
                if name in found or name == self.unit.column or self.columns.get(name, column) != column:
                    raise InvalidParameter(f"related.{table}", name, "is a column of two tables", "Rename one.")
                found[name] = column
        return found

    def _check_formulas(self) -> None:
        """Refuse formulas that read no column, give another kind of value than declared, or lead back to themselves."""
        formulas = {name: one.value for name, one in self.columns.items() if one.value is not None}
        asked = [(f"columns.{name}.value", one, self.columns[name].computed_kinds) for name, one in formulas.items()]
        for name, formula, kinds in [*asked, *([] if self.where is None else [("where", self.where, ("condition",))])]:
            requirements.instance(name, formula, RowExpression, 'Formula("age >= 18")')
            formula.check(self.columns, name, kinds)
        waiting = dict(formulas)
        while waiting:
            ready = [name for name, formula in waiting.items() if not formula.names() & waiting.keys()]
            if not ready:
                name, formula = next(iter(waiting.items()))
                raise InvalidParameter(f"columns.{name}.value", formula.text, "leads back to itself", "Name another.")
            for name in ready:
                del waiting[name]

    def columns_behind(self, names: Sequence[str]) -> tuple[str, ...]:
        """These declared columns, and all that their formulas and ``where`` name, in the order of the schema."""
        found = set[str]()
        waiting = [*names, *([] if self.where is None else self.where.names())]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                formula = self.column(name).value
                waiting += [] if formula is None else formula.names()
        return tuple(name for name in self.columns if name in found)

    def source_columns(self, names: Sequence[str]) -> tuple[str, ...]:
        """The columns that the source must have for questions about these."""
        behind = self.columns_behind(names)
        if self.made_from is not None:
            features = self.made_from.features
            return self.made_from.source_columns([one for name in behind for one in features[name].names()])
        elsewhere = {name for one in self.related.values() for name in one.given()}
        return tuple(name for name in behind if self.columns[name].value is None and name not in elsewhere)

    def computed_already(self) -> Schema:
        """The facts about rows whose formulas have been worked out."""
        columns = {name: replace(one, value=None) if one.value else one for name, one in self.columns.items()}
        return replace(self, columns=columns, where=None, related={}, features={})

    def keeps_every_row(self, names: Sequence[str]) -> bool:
        """True where every row takes part in a question about these columns, whatever its values are."""
        no_filter = self.where is None and self.of_rows.where is None
        return no_filter and all(self.column(name).keeps_every_row for name in names)

    def _check_size(self) -> None:
        replace = self.neighbours is Neighbours.REPLACE_ONE
        if self.size is not None:
            if not replace:
                raise InvalidParameter(
                    "size",
                    self.size,
                    "add/remove neighbours keep the number of units private",
                    "Remove size, or add neighbours=Neighbours.REPLACE_ONE to make it public.",
                )
            requirements.positive_integer("size", self.size)
        elif replace:
            raise InvalidParameter(
                "size", None, "replace-one neighbours need the public number of units", "Pass size=…."
            )

    def facts_of(self, names: Sequence[str]) -> dict[str, Any]:
        """The declared facts about some columns and the unit: part of the record of a question."""
        made: dict[str, Any] = {}
        if self.made_from is not None:
            features = {name: self.made_from.features[name] for name in self.columns_behind(names)}
            behind = [one for feature in features.values() for one in feature.names()]
            made["features"] = {name: feature.to_dict() for name, feature in features.items()}
            made["made_from"] = self.made_from.facts_of(behind)
        return {
            **made,
            "unit": self.unit.to_dict(),
            "size": self.size,
            "columns": {name: self.column(name).to_dict() for name in [*names, *self.columns_behind(names)]},
            **({} if self.where is None else {"where": self.where.text}),
            **({"related": {name: one.to_dict() for name, one in self.related.items()}} if self.related else {}),
            **({} if self.design is None else {"design": self.design.to_dict(plans=False)}),
        }

    def protection(self, *public: Fact) -> Protection:
        """Who is protected, where these facts are taken as public too."""
        if self.design is not None:
            public = (*public, Fact.WEIGHT, *([Fact.STRATA] if self.design.population else []))
        return Protection(self.unit.unit, self.neighbours, public)

    def column(self, name: str) -> Column:
        """Declaration of a column, or an error that lists the ones there are."""
        requirements.instance("column", name, str, 'the name of one column, such as "age"')
        if name not in self.columns:
            raise InvalidParameter(
                "column", name, "is not declared in the schema", f"{spelling(name, self.columns)} Or declare it."
            )
        return self.columns[name]

    def bounds(self, name: str) -> Bounds:
        """Declaration of a numeric column."""
        column = self.column(name)
        if not isinstance(column, Bounds):
            raise WrongType("column", name, "is a column of labels, not a number", "Use a column with bounds.")
        return column

    def categories(self, name: str, parameter: str = "column") -> Categories:
        """Declaration of a column of labels, which somebody passed as this ``parameter``."""
        column = self.column(name)
        if isinstance(column, PrivateLabels):
            raise WrongType(
                parameter,
                name,
                "has no public list of labels",
                "List them as categories, or release them first: ask for groups, then declare what was found.",
            )
        if not isinstance(column, Categories):
            raise WrongType(
                parameter,
                name,
                "is numeric, and labels are needed",
                f'Declare "{name}": Bands(edges=[18, 40, 65, 100]).',
            )
        return column

    def unlisted(self, name: str) -> PrivateLabels:
        """Declaration of a column whose labels are not public."""
        column = self.column(name)
        if not isinstance(column, PrivateLabels):
            raise WrongType("column", name, "is declared with its values already", "Declare it as PrivateLabels().")
        return column

    def declaring(self, **columns: Column) -> Schema:
        """The same facts, with columns declared anew.

        Examples
        --------
        >>> schema = Schema(columns={"city": PrivateLabels()}).declaring(city=Categories(["Bergen", "Oslo"]))
        >>> schema.categories("city").cells
        2
        """
        for name in columns:
            self.column(name)
            if self.made_from is not None:
                raise InvalidParameter("columns", name, "is a feature of a unit", "Change the feature itself.")
        known: dict[str, Any] = {**columns}  # what is no declaration is refused with the others below
        for name, one in known.items():
            was = self.columns[name]
            if isinstance(one, Column) and not one.named():
                known[name] = replace(one, label=was.label, measured_in=was.measured_in)
        return replace(self, columns={**self.columns, **known})

    def cells(self, names: Sequence[str], parameter: str = "column") -> int:
        """Number of cells of the table over some columns of labels."""
        product = 1
        for name in names:
            product *= self.categories(name, parameter).cells
        if product > MOST_CELLS:
            raise InvalidParameter(
                "by", names, f"makes {product:,} cells, more than {MOST_CELLS:,}", "Use fewer columns, or merge labels."
            )
        return product

    def contribution(self, override: Contribution | None = None) -> Contribution:
        """Limits in force: those asked for, else the schema's; a row always contributes one row."""
        if self.unit_is_row:
            if override is not None:
                raise InvalidParameter(
                    "contribution", override, "each privacy unit has one row, which counts", "Leave contribution out."
                )
            return _ONE_ROW
        if override is not None:
            requirements.instance("contribution", override, Contribution, "Contribution(rows=4)")
        limits = override if override is not None else self.unit.contribution
        if limits is None:
            raise InvalidParameter(
                "contribution", None, f"is needed, as one {self.unit.name} may have any number of rows",
                f'Write PrivacyUnit("{self.unit.column}", contribution=Contribution(total=4)).',
            )  # fmt: skip
        return limits

    def to_dict(self, *, named: bool = True) -> dict[str, Any]:
        """The schema as plain data, as in a plan file; `discreet.schema_from_dict` reads it back.

        Without what readers are told in the place of names, if it is not to be ``named``.
        """

        def told(named_ones: Mapping[str, ForReaders]) -> dict[str, dict[str, Any]]:
            return {name: one.to_dict() | (one.named() if named else {}) for name, one in named_ones.items()}

        if self.made_from is not None:
            per_unit = True if self.where is None else {"where": self.where.text}
            return self.made_from.to_dict(named=named) | {"per_unit": per_unit}
        data: dict[str, Any] = {"neighbours": self.neighbours.value}
        if self.size is not None:
            data["size"] = self.size
        if self.where is not None:
            data["where"] = self.where.text
        if self.unit.column is not None:
            data |= told({"unit": self.unit})
        elsewhere = {name for one in self.related.values() for name in one.given()}
        data["columns"] = told({name: one for name, one in self.columns.items() if name not in elsewhere})
        if self.related:
            tables = self.related.items()
            data["related"] = {name: one.to_dict() | {"columns": told(one.columns)} for name, one in tables}
        if self.features:
            data["features"] = told(self.features)
        if self.design is not None:
            data |= told({"design": self.design})
        return data | ({"noun": self.noun} if named and self.noun else {})


def related_schema(one: Related) -> Schema:
    """The facts about a related table, as those of a table by itself."""
    return Schema(columns=one.columns, unit=PrivacyUnit(one.id), where=one.where)


# ---- Stability: how far one bounded unit can move sums per cell.


_MOST_MOVES = 64
"""Up to this many coordinates the worst change is listed one by one; beyond, its norms say enough."""


def stability(
    limits: Contribution, *, cells: int, neighbours: Neighbours, low: Fraction | int = 0, high: Fraction | int = 1
) -> Sensitivity:
    """Sensitivity of per-cell sums of values in [low, high] when each unit is bounded by ``limits``.

    Guarantee
    ---------
    Add/remove: at most k cells change, each by at most r·M with M = max(|low|, |high|); or, with a limit m on rows
    in all, ℓ₁ and ℓ₂ are at most m·M. Replace-one: a unit's old rows go and its new rows come, so twice as many
    cells may change. Counts are sums of ones. Proof: ``docs/proofs/bounding.md``.

    Examples
    --------
    >>> stability(Contribution(groups=2, rows=3), cells=12, neighbours=Neighbours.ADD_REMOVE)
    Sensitivity(l1=6.0, l2=4.242640687119286, dimension=12, moves=(3.0, 3.0))
    """
    largest = max(abs(Fraction(low)), abs(Fraction(high)))
    replaced = neighbours is Neighbours.REPLACE_ONE
    if limits.rows is None:
        size = largest * limits.most_rows(cells) * neighbours.sides
        return Sensitivity(l1=not_below(size), l2=not_below(size), dimension=cells)
    groups, rows = limits.most_groups(cells), limits.rows
    spread = max(Fraction(high), Fraction(0)) - min(Fraction(low), Fraction(0))
    if replaced and spread > largest:  # a cell may go from one sign to the other
        square = max(groups * spread**2, 2 * groups * largest**2) * rows**2
        total = min(2 * groups * largest, cells * spread) * rows
        return Sensitivity(l1=not_below(total), l2=min(not_below(total), root_up(square)), dimension=cells)
    moved = min(2 * groups, cells) if replaced else groups
    if moved <= _MOST_MOVES:
        return Sensitivity(moves=(not_below(rows * largest),) * moved, dimension=cells)
    step = Fraction(not_below(rows * largest))
    return Sensitivity(l1=not_below(step * moved), l2=root_up(step**2 * moved), dimension=cells)


def in_parts(limits: Contribution, groups: int, coordinates: int, neighbours: Neighbours) -> Sensitivity:
    """Sensitivity of totals per group, where the parts of a row are not negative and add up to one.

    A group's totals move by at most r in ℓ₁ and in ℓ₂ with r rows. Two vectors without negative parts have a product
    of at least 0, so replacing one by the other moves ℓ₂ by at most √2·r. Proof: ``docs/proofs/parts.md``.

    Examples
    --------
    >>> in_parts(Contribution(groups=4, rows=3), 5, 2, Neighbours.ADD_REMOVE)
    Sensitivity(l1=12.0, l2=6.0, dimension=10, moves=None)
    """
    if limits.rows is None:
        rows = limits.most_rows(groups)
        total, square = rows, rows**2
    else:
        reached = limits.most_groups(groups)
        total, square = reached * limits.rows, reached * limits.rows**2
    sides = neighbours.sides
    return Sensitivity(l1=float(sides * total), l2=root_up(Fraction(sides * square)), dimension=groups * coordinates)
