"""Table: how many rows fall into each public cell."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from discreet.answers import Answer
from discreet.contract.statistic import Statistic
from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType, spelling
from discreet.core.exact import Exact
from discreet.core.guarantee import Guarantee
from discreet.core.protection import ROW, Fact, Neighbours, Protection, Unit
from discreet.core.schema import Contribution, Schema
from discreet.core.sensitivity import Sensitivity, root_up
from discreet.core.stability import stability
from discreet.display import Facts
from discreet.inference.association import CramersV, OddsRatio, cramers_v, odds_ratio
from discreet.inference.measured_table import measured_table
from discreet.inference.monte_carlo import MonteCarlo
from discreet.interval import Interval
from discreet.mechanisms.additive import additive_noise
from discreet.publish.readings import Reading
from discreet.questions.cell_estimates import CellEstimates, margin, proportions
from discreet.questions.forms import COLUMNS, Form
from discreet.questions.question import MeasuredQuestion, Measurement, column_names
from discreet.questions.table_axes import Bins, Categories, column_values, in_order

__all__ = ["ContingencyTable", "TableQuestion", "TableRelease", "table_measurement"]

Counts = NDArray[np.int64]
MAX_CELLS = 10**8
"""Largest table; a billion cells of noise would not be a table any more."""
_SHOWN_AXES = 3  # a report shows margins of tables by at most so many columns


@dataclass(frozen=True)
class ContingencyTable(Statistic):
    """Counts of rows by one or more columns with public categories or bins.

    Categories are public facts, never read from the data. A row with a value outside them is refused, or counted in
    the column's own "other" cell; no row is ever dropped.

    Guarantee
    ---------
    With one row per unit: add/remove changes one cell by 1 (Δ₁ = Δ₂ = 1); replace-one moves a row between two cells
    (Δ₁ = 2, Δ₂ = √2), and leaves the total as it is (lee2022, Example 1).

    Parameters
    ----------
    columns
        For each column its public categories, or `Bins`.
    other
        True to add an "other" cell to every categorical column, or the names of the columns that get one.

    Examples
    --------
    >>> table = ContingencyTable({"arm": ["a", "b"], "outcome": ["no", "yes"]})
    >>> str(table.sensitivity(Neighbours.REPLACE_ONE))
    'ℓ₁ = 2, ℓ₂ = 1.41421'
    >>> table.counts({"arm": ["a", "a", "b"], "outcome": ["no", "yes", "yes"]})
    array([[1, 1],
           [0, 1]])
    """

    columns: Mapping[str, Any]
    other: bool | tuple[str, ...] = False
    name: ClassVar[str] = "contingency_table"

    def __post_init__(self) -> None:
        given: Any = in_order(self.columns)
        if not isinstance(given, Mapping) or not given:
            raise WrongType("columns", given, "must map column names to categories", 'Pass {"arm": ["a", "b"]}.')
        object.__setattr__(self, "columns", given)
        extra = self._with_other(self.other)
        axes = {name: _axis(name, spec, name in extra) for name, spec in given.items()}
        cells = math.prod(len(axis) for axis in axes.values())
        if cells < 2:
            raise InvalidParameter("columns", list(axes), "have only one label in all", "List two labels or more.")
        if cells > MAX_CELLS:
            raise InvalidParameter("columns", f"{cells} cells", f"must give at most {MAX_CELLS}", "Merge categories.")
        object.__setattr__(self, "columns", axes)
        object.__setattr__(self, "other", tuple(name for name, axis in axes.items() if getattr(axis, "other", False)))

    def _with_other(self, other: Any) -> set[str]:
        if isinstance(other, bool):
            plain = {name for name, spec in self.columns.items() if not isinstance(spec, Bins | Mapping)}
            return plain if other else set()
        names = (other,) if isinstance(other, str) else tuple(other)
        for name in names:
            if name not in self.columns or isinstance(self.columns[name], Bins | Mapping):
                raise InvalidParameter("other", name, "must name a categorical column", "Check the columns.")
        return set(names)

    @classmethod
    def release_type(cls) -> type[TableRelease]:
        """Releases of tables have margins, proportions and intervals."""
        return TableRelease

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of cells along each column."""
        return tuple(len(axis) for axis in self.columns.values())

    @property
    def cells(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the columns, in the order of the array's axes."""
        return tuple(self.columns)

    def labels(self, column: str) -> tuple[Hashable, ...]:
        """Labels of the cells along one column."""
        if column not in self.columns:
            raise InvalidParameter("column", column, "is not a column of the table", spelling(column, self.columns))
        names: tuple[Hashable, ...] = self.columns[column].names()
        return names

    def parameters(self) -> dict[str, Any]:
        """The public description as JSON-ready data."""
        return {
            "columns": [[name, axis.to_json()] for name, axis in self.columns.items()],
            "other": list(self.other) if isinstance(self.other, tuple) else self.other,
        }

    def sensitivity(self, neighbours: Neighbours = Neighbours.ADD_REMOVE, *, rows_per_unit: int = 1) -> Sensitivity:
        """How far one unit with at most ``rows_per_unit`` rows can move the table."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.REPLACE_ONE")
        rows = requirements.positive_integer("rows_per_unit", rows_per_unit)
        replaced = neighbours is Neighbours.REPLACE_ONE
        if rows == 1:
            return Sensitivity(moves=(1.0, 1.0) if replaced else (1.0,), dimension=self.cells)
        # The worst units have all their rows in one cell: k in one cell, or k out of one and k into another.
        square = 2 * rows**2 if replaced else rows**2
        l2 = root_up(Fraction(square))
        return Sensitivity(l1=float(2 * rows if replaced else rows), l2=l2, dimension=self.cells)

    def counts(self, data: Any) -> Counts:
        """The exact table of a frame (pandas, polars, pyarrow) or of a dict of arrays."""
        codes: list[NDArray[np.intp]] = []
        for name, axis in self.columns.items():
            found = axis.codes(column_values(data, name))
            if codes and found.size != codes[0].size:
                raise InvalidParameter(
                    "data", f"column {name!r}", "must be as long as the others", "Align the columns."
                )
            if found.size and int(found.min()) < 0:
                raise InvalidParameter(
                    "data",
                    f"column {name!r}",
                    "has values outside its public categories or bins",
                    f"Add the category, pass other=({name!r},), or clean the column by a public rule.",
                )
            codes.append(found)
        flat = np.ravel_multi_index(tuple(codes), self.shape)
        return np.bincount(flat, minlength=self.cells).reshape(self.shape).astype(np.int64)

    def exact(
        self,
        data: Any,
        *,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
        unit: Unit = ROW,
        rows_per_unit: int = 1,
    ) -> Exact:
        """The exact, still private table of a frame."""
        return self.exact_counts(self.counts(data), neighbours=neighbours, unit=unit, rows_per_unit=rows_per_unit)

    def exact_counts(
        self,
        counts: Any,
        *,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
        unit: Unit = ROW,
        rows_per_unit: int = 1,
    ) -> Exact:
        """The same from counts that were made elsewhere, such as by a database."""
        table = np.asarray(counts)
        if table.dtype.kind not in "iu" or table.shape != self.shape:
            raise WrongType(
                "counts", f"{table.dtype} array {table.shape}", f"must be whole numbers of shape {self.shape}",
                "Pass the counts in the order of the categories.",
            )  # fmt: skip
        if int(table.min()) < 0:
            raise InvalidParameter("counts", "…", "must not be negative", "Count rows.")
        public: dict[str, Any] = {}
        if neighbours is Neighbours.REPLACE_ONE and rows_per_unit == 1:
            public["n"] = int(table.sum())
            if public["n"] == 0:
                raise InvalidParameter("data", "no rows", "must have rows under replace-one", "Check the source.")
        return Exact(
            table,
            self.sensitivity(neighbours, rows_per_unit=rows_per_unit),
            Protection(unit, neighbours, [Fact.TOTAL] if public else []),
            statistic=self,
            public=public,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ContingencyTable) and self.parameters() == other.parameters()

    def __hash__(self) -> int:
        return hash(tuple(self.columns.items()))


def _axis(name: Any, spec: Any, other: bool) -> Categories | Bins:
    if not isinstance(name, str) or not name:
        raise WrongType("columns", name, "must be named by text", 'Pass {"arm": ["a", "b"]}.')
    if isinstance(spec, Bins):
        return spec
    if isinstance(spec, Categories):
        return Categories(spec.labels, spec.other or other)
    if isinstance(spec, Mapping):
        if set(spec) - {"edges", "outside"} or "edges" not in spec:
            raise InvalidParameter("columns", dict(spec), "must be categories or bins", "Pass Bins([0, 10]).")
        return Bins(**spec)
    if not isinstance(spec, Sequence | np.ndarray) or isinstance(spec, str):
        raise WrongType("categories", spec, "must be a list of values", 'Pass ["no", "yes"].')
    return Categories(tuple(spec), other)


@dataclass(frozen=True)
class TableRelease(Answer):
    """A released `ContingencyTable`; everything below is post-processing."""

    @property
    def table(self) -> ContingencyTable:
        """The public description of the cells."""
        return cast(ContingencyTable, self.statistic)

    @property
    def total(self) -> float:
        """The number of rows, exact where it is public, otherwise the noisy total."""
        measured = measured_table(self)
        return float(measured.n) if measured.n is not None else float(measured.cells.sum())

    def facts(self) -> Facts:
        """What to show: one line per cell, where the law of its noise is known."""
        try:
            cells = self.counts().facts()
        except InvalidParameter:
            return super().facts()
        return [*cells, ("intervals", "95 %, for the noise"), *self.protection_facts()]

    def heading(self) -> str:
        return f"{super().heading()} by {', '.join(self.table.axes)}"

    def counts(self) -> CellEstimates:
        """Every cell, with intervals for the true counts (noise) and for shares of the population."""
        return self.margin(*self.table.axes)

    def margin(self, *columns: str) -> CellEstimates:
        """Counts by some of the columns, summed over the others."""
        return margin(self, self._axes(columns))

    def proportions(self, *columns: str) -> CellEstimates:
        """Shares of the population by cell, or by some of the columns, with intervals for sampling and noise."""
        return proportions(self, self._axes(columns or self.table.axes))

    def population_interval(self, level: float = 0.95) -> Interval:
        """Intervals for the population's share of every cell: sampling and noise together."""
        self.require_sample()
        return self.proportions().confidence_interval(level)

    def odds_ratio(self) -> OddsRatio:
        """Odds ratio of a 2 × 2 table."""
        return odds_ratio(self)

    def cramers_v(self, null: MonteCarlo | None = None) -> CramersV:
        """Strength of association in a two-way table, from 0 to 1."""
        return cramers_v(self, null)

    def _axes(self, columns: tuple[str, ...]) -> tuple[int, ...]:
        known = self.table.axes
        for column in columns:
            if column not in known:
                raise InvalidParameter("column", column, "is not a column of the table", spelling(column, known))
        if not columns or len(set(columns)) != len(columns):
            raise InvalidParameter(
                "columns", columns, "must be different columns, at least one", "Name each column once."
            )
        return tuple(known.index(column) for column in columns)

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """Every cell, with its noise interval."""
        return self.counts().readings()

    def margin_readings(self) -> list[Reading]:
        """The total and the counts by fewer columns, of a table by two or three."""
        axes = range(len(self.table.axes))
        if not 1 < len(axes) <= _SHOWN_AXES:
            return []
        found = (margin(self, some) for count in axes for some in combinations(axes, count))
        return [reading for one in found for reading in one.readings()]


def table_measurement(
    question: MeasuredQuestion[Any], columns: tuple[str, ...], contribution: Contribution | None
) -> Measurement:
    """How the counts by the labels of some columns are measured."""
    schema = question.schema
    statistic = ContingencyTable({name: schema.categories(name).labels for name in columns})
    limits = schema.contribution(contribution)
    sensitivity = stability(limits, cells=statistic.cells, neighbours=schema.neighbours)
    size = question.public_size(*columns)
    return Measurement(
        statistic=statistic,
        sensitivity=sensitivity,
        mechanism=additive_noise(question.guarantee, sensitivity, whole=True),
        by=columns,
        contribution=contribution,
        public={} if size is None else {"n": size},
        value=lambda counts, sums: counts.astype(np.int64).reshape(statistic.shape),
        read="rows of a cell",
    )


@dataclass(frozen=True)
class TableQuestion(MeasuredQuestion[TableRelease]):
    """Counts by the labels of one or more columns.

    Guarantee
    ---------
    A unit that keeps r rows in each of k cells moves k counts by at most r, and twice as many when it is replaced: see
    `stability`.

    Examples
    --------
    >>> from discreet import Categories, PureDP, Schema
    >>> schema = Schema(columns={"arm": Categories(["A", "B"]), "sex": Categories(["f", "m"])})
    >>> TableQuestion(schema, ["arm", "sex"], PureDP(1.0)).measurement.statistic.shape
    (2, 2)
    """

    ask: ClassVar[str] = "table"
    meaning: ClassVar[str] = "How many rows fall into each cell."
    part: ClassVar[str] = "cell"
    forms: ClassVar[Mapping[str, Form]] = {"columns": COLUMNS}
    schema: Schema
    columns: str | Sequence[str]
    guarantee: Guarantee
    _: KW_ONLY
    contribution: Contribution | None = None

    def _measured(self) -> Measurement:
        return table_measurement(self, column_names(self.columns, "columns"), self.contribution)
