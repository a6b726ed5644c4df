"""Many tables from one release: margins of one table that add up, each with its exact standard error.

Public: ``session.tables([["region"], ["region", "age"]], mu=0.5)``. The noise is on the components of the margins
(`MarginsGaussian`), so every wanted table, and everything below it, follows from one release. Proof:
``docs/proofs/margins.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.columns import MOST_CELLS
from discreet.core.errors import InvalidParameter, NoConversion, WrongType
from discreet.core.guarantee import Guarantee
from discreet.core.noise.sampler import generator
from discreet.core.protection import Neighbours, Protection
from discreet.core.schema import Bounds, Contribution, Schema
from discreet.core.sensitivity import Exact, Sensitivity, root_up
from discreet.mechanisms.tables.margins import (
    Accuracy,
    Axes,
    MarginsGaussian,
    MarginsLaplace,
    MarginsNoise,
    Workload,
    margin_of,
    shape_of,
)
from discreet.questions.grouped import Bins, public_bins
from discreet.questions.question import (
    BINS,
    COLUMN,
    FLAG,
    TABLES,
    UNSAID,
    WEIGHTS,
    WHOLE,
    DeclaredColumns,
    Forecast,
    Form,
    MeasuredQuestion,
    Measurement,
)
from discreet.questions.tables.measured import MOST_PRESENTED, MarginTests, MeasuredMargins, SyntheticRows
from discreet.results.charts import plot_readings
from discreet.results.display import Facts, Interval, Result, number
from discreet.results.frames import CAUTION, UNRELIABLE, Reading, Row, Tidy, tidy_rows
from discreet.results.release import Release, Statistic

if TYPE_CHECKING:
    pass

__all__ = [
    "Combination", "MarginTable", "Margins", "MarginsRelease", "Weights", "all_margins", "distinct_columns",
    "hierarchy", "impossible_labels", "place_of", "positions", "TablesQuestion",
]  # fmt: skip


# ---- Margin table: one released table cell by cell, and combinations of cells, with intervals and flags


Array = NDArray[np.float64]
Reach = Callable[[float], float]
_SHOWN = 40


def fieller(above: Array, below: Array, variances: tuple[float, float, float], z: float) -> tuple[Array, Array]:
    """All ratios r with (a − r·b)² ≤ z²·Var(a − r·b), as an interval; unbounded where b may be 0 (Fieller 1954)."""
    of_above, of_both, of_below = variances
    lead = below**2 - z**2 * of_below
    middle = above * below - z**2 * of_both
    root = np.sqrt(np.maximum(middle**2 - lead * (above**2 - z**2 * of_above), 0.0))
    known = (lead > 0) & (below > 0)
    safe = np.where(known, lead, 1.0)
    return np.where(known, (middle - root) / safe, -np.inf), np.where(known, (middle + root) / safe, np.inf)


@dataclass(frozen=True)
class Combination(Result):
    """A sum, difference or share of released cells.

    Attributes
    ----------
    estimate, standard_error
        Of the number in the data; only the noise is uncertain. The standard error of a share is approximate, its
        interval is not.
    reach
        How many standard errors the noise stays below, by probability.
    """

    estimate: float
    standard_error: float
    reach: Reach = field(repr=False, compare=False)
    _ratio: tuple[tuple[float, float], tuple[float, float, float]] | None = None

    @classmethod
    def ratio(cls, parts: tuple[float, float], variances: tuple[float, float, float], reach: Reach) -> Combination:
        """The first number over the second, from their variances and covariance."""
        above, below = parts
        estimate = above / below if below > 0 else math.nan
        of_above, of_both, of_below = variances
        square = of_above - 2 * estimate * of_both + estimate**2 * of_below
        error = math.sqrt(max(square, 0.0)) / below if below > 0 else math.inf
        return cls(estimate, error, reach, (parts, variances))

    def noise_interval(self, level: float = 0.95) -> Interval:
        """Interval for the number in the data, from the known distribution of the noise."""
        z = self.reach(requirements.level(level))
        if self._ratio is None:
            reach = z * self.standard_error
            return Interval(self.estimate - reach, self.estimate + reach, level)
        (above, below), variances = self._ratio
        low, high = fieller(np.asarray(above), np.asarray(below), variances, z)
        return Interval(float(np.clip(low, 0.0, 1.0)), float(np.clip(high, 0.0, 1.0)), level)

    def heading(self) -> str:
        return "Combination of cells"

    def facts(self) -> Facts:
        """The facts to show."""
        return [
            ("estimate", number(self.estimate)),
            ("standard error", number(self.standard_error)),
            ("95 % interval", str(self.noise_interval())),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Estimate, standard error and 95 % interval as JSON-ready data."""
        interval = self.noise_interval().to_dict()
        return {"estimate": self.estimate, "standard_error": self.standard_error, "noise_interval": interval}


@dataclass(frozen=True, kw_only=True)
class MarginTable(Tidy):
    """One released table.

    Attributes
    ----------
    columns, labels
        The columns it is by, and the labels along each of them.
    estimate, standard_error
        Counts as measured, without bias, and the exact standard error of the noise, the same in every cell.
    reach
        How many standard errors the noise stays below, by probability.
    presented
        Whole, non-negative counts; those of all tables of a release add up. None where they were not computed.
    possible
        False for cells that were declared to have no rows; their intervals are 0 to 0.
    total
        The number of rows, known or estimated, at least 1.
    rows_per_unit
        At most this many rows are one unit's. Units are independent; the rows of one of them need not be.
    sums, sum_error, summed
        Where a number was summed: its sums in steps from the middle of the bounds, and its public description.
    unit, guarantee
        Who is protected, and the guarantee in symbols.
    """

    columns: tuple[str, ...]
    labels: tuple[tuple[Hashable, ...], ...]
    estimate: Array
    standard_error: float
    reach: Reach = field(repr=False)
    presented: NDArray[np.int64] | None
    possible: NDArray[np.bool_]
    total: float
    rows_per_unit: int = 1
    sums: Array | None = None
    sum_error: float = 0.0
    summed: tuple[str, int, int, str] | None = None
    unit: str = "row"
    guarantee: str | None = None

    @property
    def published(self) -> Array:
        """The counts to print: presented ones, or measured ones without negative values."""
        measured = np.where(self.possible, np.maximum(self.estimate, 0.0), 0.0)
        return measured if self.presented is None else self.presented.astype(float)

    def noise_interval(self, level: float = 0.95, *, simultaneous: bool = False) -> Interval:
        """Intervals for the true counts in the data: only the noise is uncertain.

        From the measurement, cut at 0, and widened to the presented count where that lies outside. Widening can only
        raise the probability of covering the truth. Simultaneous intervals use Šidák's inequality, which holds for
        normal errors whatever their correlation.
        """
        checked = requirements.level(level)
        each = checked ** (1 / self.estimate.size) if simultaneous else checked
        reach = self.reach(each) * self.standard_error
        ends = (np.maximum(self.estimate - reach, 0.0), np.maximum(self.estimate + reach, 0.0))
        return Interval(*self._around_presented(*ends), checked)

    def population_interval(self, level: float = 0.95) -> Interval:
        """Intervals for the expected counts of a sample of this size: sampling and noise are uncertain.

        All λ with (x − λ)² ≤ z²·(σ² + kλ(1 − λ/N)): the noise, and k rows per unit drawn from a population. Never less
        than the noise interval: near the total, an estimated N would leave next to nothing for sampling.
        """
        noise = self.noise_interval(level)
        z2, spread = self.reach(requirements.level(level)) ** 2, float(self.rows_per_unit)
        lead, middle = 1 + z2 * spread / self.total, 2 * self.estimate + z2 * spread
        root = np.sqrt(np.maximum(middle**2 - 4 * lead * (self.estimate**2 - z2 * self.standard_error**2), 0.0))
        low = np.minimum(np.clip((middle - root) / (2 * lead), 0.0, None), noise.low)
        high = np.maximum(np.clip((middle + root) / (2 * lead), 0.0, None), noise.high)
        return Interval(*self._around_presented(low, high), level)

    def _around_presented(self, low: Array, high: Array) -> tuple[Array, Array]:
        low, high = np.where(self.possible, low, 0.0), np.where(self.possible, high, 0.0)
        if self.presented is None:
            return low, high
        return np.minimum(low, self.presented), np.maximum(high, self.presented)

    def flags(self) -> NDArray[Any]:
        """The reliability of each cell, by its standard error over its count.

        "" below 16.5 %, "caution" up to 33.3 %, "unreliable" beyond: a rule of published numbers alone.
        """
        variation = self.standard_error / np.maximum(self.published, 1e-9)
        flags = np.where(variation > UNRELIABLE, "unreliable", np.where(variation > CAUTION, "caution", ""))
        return np.where(self.possible, flags, "")

    def means(self) -> Array:
        """Mean of the summed number in every cell, inside its bounds; the middle where there are hardly any rows."""
        low, high, _, middle, step = self._number()
        ratio = np.asarray(self.sums) / np.maximum(self.estimate, 1.0)
        return np.clip((middle + ratio) * step, low, high)

    def mean_interval(self, level: float = 0.95) -> Interval:
        """Intervals for the means in the data, which account for the noise of sum and count (Fieller)."""
        low, high, sums, middle, step = self._number()
        variances = (self.sum_error**2, 0.0, self.standard_error**2)
        ends = np.array(fieller(sums, self.estimate, variances, self.reach(requirements.level(level))))
        lower, upper = np.clip((middle + ends) * step, low, high)
        return Interval(lower, upper, level)

    def _number(self) -> tuple[float, float, Array, int, float]:
        """Bounds, sums, middle and grid step of the number that was summed."""
        summed = requirements.instance("summed", self.summed, tuple, 'tables released with mean_of="income"')
        _, lowest, highest, step = summed
        grid = float(Fraction(step))
        return lowest * grid, highest * grid, np.asarray(self.sums), (lowest + highest) // 2, grid

    def rows(self) -> list[Row]:
        told = [one.to_dict() for one in self.readings()]
        of_cells = [one | {"labels": {name: one["labels"][name] for name in self.columns}} for one in told]
        return tidy_rows(of_cells, unit=self.unit, guarantee=self.guarantee)

    def cells(self, level: float = 0.95, *, minimum: int = 0) -> list[dict[str, Any]]:
        """One dict per cell, in one row: counts as published and as measured, intervals, means, and a flag.

        Parameters
        ----------
        level
            Of the intervals.
        minimum
            Counts below this public number are left out (None) and flagged "small": a rule of published numbers alone.
        """
        noise, population, flags = self.noise_interval(level), self.population_interval(level), self.flags()
        parts = [self.published, self.estimate, noise.low, noise.high, population.low, population.high]
        columns = [np.ravel(np.asarray(part)).tolist() for part in parts]
        means = self._mean_columns(level)
        rows = []
        for place, (cell, flag) in enumerate(zip(product(*self.labels), np.ravel(flags).tolist(), strict=True)):
            count, measured, *ends = (column[place] for column in columns)
            small = count < minimum
            rows.append(
                dict(zip(self.columns, cell, strict=True))
                | {"count": None if small else int(count) if self.presented is not None else count}
                | {"measured": measured, "standard_error": self.standard_error}
                | dict(zip(("noise_low", "noise_high", "population_low", "population_high"), ends, strict=True))
                | {name: values[place] for name, values in means.items()}
                | {"flag": "small" if small else flag}
            )
        return rows

    def _mean_columns(self, level: float) -> dict[str, list[float]]:
        if self.summed is None:
            return {}
        interval = self.mean_interval(level)
        parts = {"": self.means(), "_low": interval.low, "_high": interval.high}
        return {f"mean_{self.summed[0]}{end}": np.ravel(np.asarray(part)).tolist() for end, part in parts.items()}

    def readings(self, level: float = 0.95) -> list[Reading]:
        """Every cell as it is published, with both intervals; and the mean in it, where a number was summed."""
        name = " × ".join(self.columns) or "total"
        found = []
        for row in self.cells(level):
            place = {column: row[column] for column in self.columns}
            label, labels = " · ".join(map(str, place.values())) or "total", {"table": name, **place}
            found.append(
                Reading(
                    label,
                    float(row["count"]),
                    Interval(row["noise_low"], row["noise_high"], level),
                    Interval(row["population_low"], row["population_high"], level),
                    labels=labels,
                    measure="count",
                    standard_error=self.standard_error,
                )
            )
            if self.summed is not None:
                mean = f"mean_{self.summed[0]}"
                noise = Interval(row[f"{mean}_low"], row[f"{mean}_high"], level)
                words = f"mean of {self.summed[0]}"
                found.append(Reading(label, float(row[mean]), noise, labels=labels, measure=words))
        return found

    def plot(self) -> Any:
        """Altair chart of every cell with its 95 % intervals: thick for noise, thin for noise and sampling."""
        return plot_readings(self.heading(), [one.to_dict() for one in self.readings()])

    def heading(self) -> str:
        return f"Counts by {', '.join(self.columns)}" if self.columns else "Total"

    def facts(self) -> Facts:
        """One line per cell, for up to 40 cells."""
        interval = self.noise_interval()
        parts = (np.ravel(np.asarray(part)).tolist() for part in (self.published, interval.low, interval.high))
        names = [", ".join(map(str, cell)) or "total" for cell in product(*self.labels)]
        lines = [
            (name, f"{number(value)}  ({number(low)} to {number(high)})")
            for name, value, low, high in zip(names, *parts, strict=True)
        ]
        hidden = len(lines) - _SHOWN
        return [*lines[:_SHOWN], ("…", f"{hidden} more cells")] if hidden > 0 else lines

    def to_dict(self) -> dict[str, Any]:
        """Columns and cells as JSON-ready data."""
        return {"columns": list(self.columns), "rows": self.cells()}


# ---- Names for tables of several columns: lists of margins, hierarchies, and checks of columns and labels


def all_margins(columns: Sequence[str], up_to: int | None = None) -> list[list[str]]:
    """Every table over some of the columns, from the total up to ``up_to`` columns.

    Examples
    --------
    >>> all_margins(["region", "age", "sex"], up_to=1)
    [[], ['region'], ['age'], ['sex']]
    """
    names = requirements.listed("columns", columns, '["region", "age"]')
    most = len(names) if up_to is None else requirements.positive_integer("up_to", up_to, at_least=0)
    return [list(table) for size in range(min(most, len(names)) + 1) for table in combinations(names, size)]


def hierarchy(column: str, within: str, groups: Mapping[Any, Sequence[Any]]) -> list[dict[str, Any]]:
    """The combinations that cannot occur where one column's labels lie within another's, as districts within regions.

    Parameters
    ----------
    column, within
        The finer column, and the one it lies within.
    groups
        For each label of ``within``, the labels of ``column`` that belong to it.

    Examples
    --------
    >>> hierarchy("district", "region", {"north": ["n1", "n2"], "south": ["s1"]})
    [{'region': 'north', 'district': ['s1']}, {'region': 'south', 'district': ['n1', 'n2']}]
    """
    for name, value in (("column", column), ("within", within)):
        requirements.instance(name, value, str, "the name of a column")
    requirements.instance("groups", groups, Mapping, '{"north": ["n1", "n2"]}')
    every = [label for labels in groups.values() for label in requirements.listed("groups", labels, '["n1", "n2"]')]
    if len(set(every)) != len(every):
        raise InvalidParameter("groups", dict(groups), "must name each label once", "A district has one region.")
    return [
        {within: group, column: [label for label in every if label not in labels]} for group, labels in groups.items()
    ]


def impossible_labels(cell: Any, columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """A declaration of impossible cells, once its columns and labels are known."""
    requirements.instance("impossible", cell, Mapping, '[{"age": "child", "status": "married"}]')
    if not cell:
        raise InvalidParameter("impossible", {}, "must name at least one column", "Leave the empty cell out.")
    for name, labels in cell.items():
        if name not in columns:
            raise InvalidParameter("impossible", name, f"must be one of {list(columns)}", "Check the spelling.")
        positions(columns[name], labels)
    return dict(cell)


def positions(labels: Sequence[Any], wanted: Any) -> list[int]:
    """Places of one label, of several, or of all of them."""
    if wanted is None:
        return list(range(len(labels)))
    several = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
    for label in several:
        if label not in labels:
            raise InvalidParameter("impossible", label, f"must be one of {list(labels)}", "Check the spelling.")
    return [labels.index(label) for label in several]


def place_of(cell: Mapping[str, Any], columns: Mapping[str, Sequence[Any]]) -> dict[int, int]:
    """A cell, given by its labels, as a position along each of its columns."""
    names, place = list(columns), {}
    for name, label in cell.items():
        labels = list(columns[name])
        if label not in labels:
            raise InvalidParameter(name, label, f"must be one of {labels}", "Check the spelling.")
        place[names.index(name)] = labels.index(label)
    return place


def distinct_columns(table: Any, columns: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns of one table, once each is known to be declared and named once."""
    names = (table,) if isinstance(table, str) else tuple(table)
    for name in names:
        if name not in columns:
            raise InvalidParameter("tables", name, f"must be one of {list(columns)}", "Check the spelling.")
    if len(set(names)) != len(names):
        raise InvalidParameter("tables", list(names), "must not repeat a column", "Name each column once.")
    return names


Weights = Literal["tables", "cells"] | Sequence[float]
Cell = Mapping[str, Any]
"""A cell of a table: a label for each of its columns."""


@dataclass(frozen=True, kw_only=True)
class Margins(Statistic):
    """Margins of one table of counts, and of sums of a number over the same cells.

    Its value is a vector: the margins along the columns of every component, one after another.

    Parameters
    ----------
    columns
        Public labels of every column, in order.
    tables
        Wanted tables, each as the names of its columns; the empty one is the total.
    total
        The number of rows where it is public.
    summed
        Where sums are released too: the column, and the smallest and largest step and the step of its grid.
    impossible
        Cells that cannot have rows, each as a label, or a list of labels, for some of the columns. Presented counts are
        0 there; what is measured does not change.

    Examples
    --------
    >>> margins = Margins(columns={"sex": ["f", "m"], "age": ["young", "old"]}, tables=[["sex"], ["sex", "age"]])
    >>> margins.exact(np.array([[3, 1], [2, 2]]))
    Exact(value=‹private›, sensitivity=ℓ₁ = 4, ℓ₂ = 2, protects against adding or removing one row)
    """

    columns: Mapping[str, Sequence[Any]]
    tables: Sequence[Sequence[str]]
    total: int | None = None
    summed: tuple[str, int, int, str] | None = None
    impossible: Sequence[Mapping[str, Any]] = ()
    name: ClassVar[str] = "margins"

    def __post_init__(self) -> None:
        given: Any = dict(self.columns)
        columns = {name: tuple(labels) for name, labels in given.items()}
        tables = tuple(distinct_columns(table, columns) for table in self.tables)
        if not tables or len(set(map(frozenset, tables))) != len(tables):
            raise InvalidParameter(
                "tables", [list(table) for table in tables], "must be different tables, at least one",
                'Pass [["region"], ["region", "age"]].',
            )  # fmt: skip
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "tables", tables)
        if self.summed is not None:
            object.__setattr__(self, "summed", tuple(self.summed))
        if self.total is not None:
            object.__setattr__(self, "total", requirements.positive_integer("total", self.total))
        given = requirements.listed("impossible", self.impossible, '[{"age": "child", "status": "married"}]')
        object.__setattr__(self, "impossible", tuple({**impossible_labels(cell, columns)} for cell in given))

    def possible(self, axes: Axes) -> NDArray[np.bool_]:
        """Which cells of a margin can have rows: False only where one declaration covers the whole cell."""
        names = [list(self.columns)[axis] for axis in axes]
        found = np.ones(shape_of(self.sizes, axes), dtype=bool)
        for cell in self.impossible:
            if set(cell) <= set(names):
                places = [positions(self.columns[name], cell.get(name)) for name in names]
                found[np.ix_(*places)] = False
        return found

    @classmethod
    def release_type(cls) -> type[MarginsRelease]:
        """Releases of margins have tables, sums of cells and tests."""
        return MarginsRelease

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of labels of every column."""
        return tuple(len(labels) for labels in self.columns.values())

    @property
    def reaches(self) -> tuple[int, ...]:
        """The moves by one row: of a count, and of a sum in steps from its middle."""
        if self.summed is None:
            return (1,)
        return 1, max(self.summed[2] - self.middle, self.middle - self.summed[1])

    @property
    def middle(self) -> int:
        """The step that sums count from: the middle of the bounds halves what a row can move."""
        return 0 if self.summed is None else (self.summed[1] + self.summed[2]) // 2

    def axes(self, table: Sequence[str]) -> Axes:
        """Positions of the columns of a table."""
        return tuple(sorted(list(self.columns).index(name) for name in table))

    def workload(self, weights: Weights = "tables", accuracy: Accuracy = "sum") -> Workload:
        """The wanted tables, for the mechanism.

        ``weights`` weigh the mean squared error of a cell of each table: all alike for ``"tables"``, by the number of
        cells for ``"cells"``, or as given.
        """
        tables = tuple(map(self.axes, self.tables))
        if isinstance(weights, str):
            by_cell = requirements.one_of("weights", weights, ("tables", "cells")) == "cells"
            weighed = [float(math.prod(shape_of(self.sizes, axes))) if by_cell else 1.0 for axes in tables]
        else:
            given = requirements.listed("weights", weights, "weights=[1, 2]")
            weighed = [requirements.positive("weights", weight) for weight in given]
        return Workload(
            sizes=self.sizes,
            tables=tables,
            weights=tuple(weighed),
            accuracy=accuracy,
            total_public=self.total is not None,
            reaches=self.reaches,
        )

    @cached_property
    def layout(self) -> tuple[tuple[int, Axes], ...]:
        """Layer and axes of every component, in the order of the vector."""
        return self.workload().layout()

    def sensitivity(self, neighbours: Neighbours = Neighbours.ADD_REMOVE, *, rows_per_unit: int = 1) -> Sensitivity:
        """A row moves one cell of every margin; a unit has at most ``rows_per_unit`` of them."""
        rows = requirements.positive_integer("rows_per_unit", rows_per_unit)
        reaches = [self.reaches[layer] for layer, _ in self.layout]
        if neighbours is Neighbours.ADD_REMOVE:
            square = sum(reach**2 for reach in reaches)
            return Sensitivity(l1=float(rows * sum(reaches)), l2=root_up(Fraction(rows**2 * square)))
        # Counts leave one cell and come to another; a sum may change its sign in one cell, which is more.
        square = sum((4 if layer else 2) * self.reaches[layer] ** 2 for layer, _ in self.layout)
        return Sensitivity(l1=float(2 * rows * sum(reaches)), l2=root_up(Fraction(rows**2 * square)))

    def stacked(self, counts: Any, sums: Any = None) -> NDArray[Any]:
        """The vector of margins from the table of all columns, and from its sums in steps of the grid."""
        return self.stacked_from({tuple(self.columns): (counts, sums)})

    def stacked_from(self, blocks: Mapping[tuple[str, ...], tuple[Any, Any]]) -> NDArray[Any]:
        """The same from tables of some columns each, of which every wanted table is a margin."""
        found: dict[Axes, list[NDArray[Any]]] = {}
        for names, (counts, sums) in blocks.items():
            axes = self.axes(names)
            layers = [np.asarray(counts).reshape(shape_of(self.sizes, axes))]
            if self.summed is not None:
                layers.append(np.asarray(sums).reshape(layers[0].shape) - self.middle * layers[0])
            found[axes] = layers
        parts = []
        for layer, axes in self.layout:
            block = next(one for one in found if set(axes) <= set(one))
            places = tuple(block.index(axis) for axis in axes)
            parts.append(np.ravel(_margin(found[block][layer], places)))
        return np.concatenate(parts)

    def exact(
        self,
        counts: Any,
        sums: Any = None,
        *,
        protection: Protection | None = None,
        rows_per_unit: int = 1,
    ) -> Exact:
        """The exact, still private margins of the table of all columns."""
        who = protection or Protection()
        public = {} if self.total is None else {"n": self.total}
        sensitivity = self.sensitivity(who.neighbours, rows_per_unit=rows_per_unit)
        return Exact(self.stacked(counts, sums), sensitivity, who, self, public)

    def parameters(self) -> dict[str, Any]:
        """The public description as JSON-ready data."""
        return {
            "columns": [[name, list(labels)] for name, labels in self.columns.items()],
            "tables": [list(table) for table in self.tables],
            "total": self.total,
            "summed": None if self.summed is None else list(self.summed),
            "impossible": [dict(cell) for cell in self.impossible],
        }


def _margin(joint: NDArray[Any], axes: Axes) -> NDArray[Any]:
    return np.asarray(joint.sum(axis=tuple(axis for axis in range(joint.ndim) if axis not in axes)))


@dataclass(frozen=True)
class MarginsRelease(Release, MarginTests):
    """Released margins: tables that add up, with the exact distribution of their noise. The rest is post-processing."""

    @property
    def margins(self) -> Margins:
        """The public description of the tables."""
        statistic: Margins = requirements.instance("statistic", self.statistic, Margins, "a release of Margins")
        return statistic

    @property
    def noise(self) -> MarginsNoise:
        """The mechanism that made it."""
        used = getattr(self.mechanism, "inner", self.mechanism)  # behind an omission step, on the kept rows
        mechanism: MarginsNoise = requirements.instance("mechanism", used, MarginsNoise, "noise on margins")
        return mechanism

    @cached_property
    def _components(self) -> tuple[dict[Axes, Array], ...]:
        """Measured components of counts, and of sums; a public total is one of them."""
        found: tuple[dict[Axes, Array], ...] = tuple({} for _ in self.margins.reaches)
        if self.margins.total is not None:
            found[0][()] = np.array(float(self.margins.total))
        for one, block in self.noise.blocks(self.value):
            found[one.layer][one.axes] = block
        return found

    @cached_property
    def measured_counts(self) -> MeasuredMargins:
        """The noisy counts, by position."""
        tables = [self.margins.axes(table) for table in self.margins.tables]
        everything = tuple(range(len(self.margins.sizes)))
        possible = self.margins.possible(everything) if self.margins.impossible else None
        return MeasuredMargins(self._components[0], self.noise, tables, possible)

    @property
    def total(self) -> float:
        """The number of rows, exact where it is public, otherwise with noise."""
        return self.measured_counts.at({})

    @property
    def rows_per_unit(self) -> int:
        """At most this many rows are one unit's."""
        sides = self.neighbours.sides
        each = sum(self.margins.reaches[layer] for layer, _ in self.margins.layout) * sides
        return max(1, round(self.sensitivity.require_l1() / each))

    def asked(self, columns: Sequence[str]) -> Axes:
        """Positions of the columns of a released table, or an error that lists those there are."""
        axes = self.margins.axes(distinct_columns(columns, self.margins.columns))
        if not any(set(axes) <= set(self.margins.axes(table)) for table in self.margins.tables):
            released = "; ".join(", ".join(table) or "total" for table in self.margins.tables)
            raise InvalidParameter(
                "columns", list(columns), "is neither a released table nor a margin of one",
                f"Ask for columns of one of: {released}.",
            )  # fmt: skip
        return axes

    def table(self, *columns: str) -> MarginTable:
        """A released table, or any margin of one, cell by cell: estimates, standard errors, intervals, flags."""
        axes = self.asked(columns)
        names = [list(self.margins.columns)[axis] for axis in axes]
        order = [names.index(name) for name in columns]

        def placed(values: NDArray[Any]) -> NDArray[Any]:
            return np.transpose(values, order) if columns else values

        sums = None
        if self.margins.summed is not None:
            sums = placed(margin_of(self._components[1], self.margins.sizes, axes))
        return MarginTable(
            columns=tuple(columns),
            labels=tuple(tuple(self.margins.columns[name]) for name in columns),
            estimate=placed(self.measured_counts.margin(axes)),
            standard_error=self.noise.standard_error(axes),
            reach=self.noise.reach,
            presented=None if (whole := self._whole(axes)) is None else placed(whole),
            possible=placed(self.margins.possible(axes)),
            total=max(self.total, 1.0),
            rows_per_unit=self.rows_per_unit,
            sums=sums,
            sum_error=0.0 if sums is None else self.noise.standard_error(axes, 1),
            summed=self.margins.summed,
            unit=str(self.protection.unit),
            guarantee=None if self.guarantee is None else str(self.guarantee),
        )

    margin = table

    def _whole(self, axes: Axes) -> NDArray[np.int64] | None:
        """Presented counts of a margin."""
        if self.presented is not None:
            return _margin(self.presented, axes)
        pairs = None if self.margins.impossible else self.measured_counts.pairs
        return None if pairs is None else pairs[axes]

    def tables(self) -> list[MarginTable]:
        """Every wanted table."""
        return [self.table(*columns) for columns in self.margins.tables]

    def population_interval(self, level: float = 0.95) -> Interval:
        """Intervals for the expected counts of all cells of the wanted tables, one table after another."""
        found = [table.population_interval(level) for table in self.tables()]
        low, high = (np.concatenate([np.ravel(getattr(one, end)) for one in found]) for end in ("low", "high"))
        return Interval(low, high, level)

    @cached_property
    def presented(self) -> NDArray[np.int64] | None:
        """The table of all columns in whole numbers whose margins are presented; None where it is too large.

        It serves its margins: nothing was measured of cells beyond the wanted tables.
        """
        return self.measured_counts.presented() if self.measured_counts.fits else None

    def synthetic_rows(
        self, data_sets: int = 20, *, rows: int | None = None, rng: int | np.random.Generator | None = None
    ) -> SyntheticRows:
        """Data sets of synthetic rows that repeat what the released tables say, and nothing else.

        Parameters
        ----------
        data_sets
            How many; analyses are run on each of them and combined (see `SyntheticRows.estimate`).
        rows
            Rows of each; by default as many as there are, as far as the release tells.
        rng
            Seed or generator. No private value is involved, so ordinary pseudo-random numbers do.
        """
        wanted = requirements.positive_integer("data_sets", data_sets, at_least=2)
        if not self.measured_counts.fits:
            raise InvalidParameter(
                "tables", f"{math.prod(self.margins.sizes):,} combinations of labels",
                f"are too many for synthetic rows: at most {MOST_PRESENTED:,}", "Release tables of fewer columns.",
            )  # fmt: skip
        source = np.random.default_rng() if rng is None else generator(rng)
        each = max(round(self.total), 1) if rows is None else requirements.positive_integer("rows", rows)
        counts = tuple(self.measured_counts.synthetic(each, source) for _ in range(wanted))
        return SyntheticRows(self.margins.columns, counts)

    def combine(self, cells: Sequence[tuple[Cell, float]]) -> Combination:
        """A weighted sum of any cells of any released tables, with its exact standard error.

        Parameters
        ----------
        cells
            Pairs of a cell, as a label for each of its columns, and its weight. The empty cell is the total.

        Examples
        --------
        >>> margins = Margins(columns={"sex": ["f", "m"], "age": ["young", "old"]}, tables=[["sex", "age"]])
        >>> from discreet import GaussianDP, release
        >>> from discreet.mechanisms.tables.margins import MarginsGaussian
        >>> exact = margins.exact(np.array([[30, 10], [20, 20]]))
        >>> noise = MarginsGaussian.calibrate(GaussianDP(1.0), exact.sensitivity, workload=margins.workload())
        >>> noisy = release(exact, noise, rng=1)
        >>> women = noisy.combine([({"sex": "f", "age": "young"}, 1.0), ({"sex": "f", "age": "old"}, 1.0)])
        >>> round(women.estimate - float(noisy.table("sex").estimate[0]), 9)
        0.0
        """
        placed = [(self._place(cell), requirements.finite("weight", weight)) for cell, weight in cells]
        counts = self.measured_counts
        estimate = sum(weight * counts.at(place) for place, weight in placed)
        error = math.sqrt(max(counts.covariance(placed, placed), 0.0))
        return Combination(float(estimate), error, self.noise.reach)

    def share(self, part: Cell, of: Cell | None = None) -> Combination:
        """One cell as a share of another, or of the total; its interval accounts for the noise of both (Fieller)."""
        if not (of or {}).items() <= part.items():
            raise InvalidParameter("part", dict(part), f"must be part of {dict(of or {})}", "Give it the same labels.")
        counts, one, whole = self.measured_counts, self._place(part), self._place(of or {})
        pairs = ((one, one), (one, whole), (whole, whole))
        first, both, second = (counts.covariance([(a, 1.0)], [(b, 1.0)]) for a, b in pairs)
        return Combination.ratio((counts.at(one), counts.at(whole)), (first, both, second), self.noise.reach)

    def _place(self, cell: Cell) -> dict[int, int]:
        self.asked(tuple(cell))
        return place_of(cell, self.margins.columns)

    def heading(self) -> str:
        return f"Release of {len(self.margins.tables)} tables that add up"

    def facts(self) -> Facts:
        """The facts to show: one line per table, and how it was protected."""
        lines = [
            (" × ".join(table) or "total", f"{_cells(self, table)}, standard error {number(self._error(table))}")
            for table in self.margins.tables
        ]
        common = [fact for fact in self.protection_facts() if fact[0] != "mechanism"]
        return [*lines, ("mechanism", self.mechanism.name), *common]

    def _error(self, table: Sequence[str]) -> float:
        return self.noise.standard_error(self.margins.axes(table))

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """Every cell of every wanted table, with both intervals."""
        return [one for table in self.tables() for one in table.readings()]


def _cells(release: MarginsRelease, table: Sequence[str]) -> str:
    cells = math.prod(shape_of(release.margins.sizes, release.margins.axes(table)))
    return "1 cell" if cells == 1 else f"{cells} cells"


# ---- Many tables: the question of several tables in one release, which add up.
#
# Public: ``session.tables([["region"], ["region", "age"]], mu=0.5)``.


_BLOCK_CELLS = 2**14
"""Tables that are counted together may have so many cells."""


@dataclass(frozen=True)
class TablesQuestion(MeasuredQuestion[MarginsRelease]):
    """Several tables in one release: they add up, and so do all of their margins.

    Guarantee
    ---------
    That of `MarginsGaussian`, or of `MarginsLaplace` under a pure guarantee, for the rows that a unit keeps. Proof:
    ``docs/proofs/margins.md``.

    Parameters
    ----------
    tables
        Lists of columns; the empty list is the total.
    weights
        Of the mean squared error of each table: ``"tables"`` (all alike), ``"cells"`` (by size), or numbers.
    accuracy
        Whether the weighted ``"sum"`` or the ``"largest"`` of these errors is made least.
    mean_of
        A number whose mean in every cell is measured with half of the budget.
    public_total
        The number of rows, where it is known without the data.
    impossible
        Cells that cannot have rows (see `hierarchy`).
    bins
        For each number that a table names, the edges of its bins, or how many.
    presented
        Whether counts are to be presented whole and adding up. False allows tables of three columns and more where all
        columns together make too many combinations for that: their counts are then measurements alone.

    Examples
    --------
    >>> from discreet import Bounds, Categories, GaussianDP, Schema
    >>> schema = Schema(columns={"sex": Categories(["f", "m"]), "age": Categories(["young", "old"])})
    >>> round(TablesQuestion(schema, [["sex"], ["sex", "age"]], mu=1.0).plan().error_95, 3)
    2.358
    >>> schema = schema.declaring(age=Bounds(0, 120, grid=1))
    >>> by_age = TablesQuestion(schema, [["sex", "age"]], mu=1.0, bins={"age": [0, 18, 65, 120]})
    >>> by_age.measurement.statistic.columns["age"]
    ('[0, 18)', '[18, 65)', '[65, 120]')
    """

    topic: ClassVar[str] = "Counts and shares"
    answers: ClassVar[str] = "Several tables with their margins, in one release in which everything adds up."
    ask: ClassVar[str] = "tables"
    meaning: ClassVar[str] = "How many rows fall into each cell of several tables, which add up."
    part: ClassVar[str] = "cell"
    forms: ClassVar[Mapping[str, Form]] = {
        "tables": TABLES,
        "weights": WEIGHTS,
        "accuracy": Form(lambda value: value in ("sum", "largest"), '"sum" or "largest"'),
        "mean_of": COLUMN,
        "public_total": WHOLE,
        "impossible": Form(
            lambda value: isinstance(value, list) and all(isinstance(one, dict) and one for one in value),
            'a list of cells, such as [{ age = "child", status = "married" }]',
        ),
        "bins": BINS,
        "presented": FLAG,
    }
    schema: Schema
    tables: Sequence[str | Sequence[str]]
    _: KW_ONLY
    guarantee: Guarantee = UNSAID
    weights: Weights = "tables"
    accuracy: Accuracy = "sum"
    mean_of: str | None = None
    public_total: int | None = None
    impossible: Sequence[Mapping[str, Any]] = ()
    bins: Mapping[str, int | Sequence[float]] | None = None
    presented: bool = True
    contribution: Contribution | None = None

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        two = columns.listed[:2]
        return {"tables": [[one] for one in two] + ([two] if len(two) == 2 else [])}

    def columns_read(self) -> tuple[str, ...]:
        return (*self.measurement.by, *self.measurement.columns)

    def content(self) -> dict[str, Any]:
        weights = self.weights if isinstance(self.weights, str) else list(self.weights)
        edges = {name: list(bins.edges) for name, bins in self._bins().items()}
        return super().content() | {"weights": weights, "accuracy": self.accuracy, "bins": edges}

    def _measured(self) -> Measurement:
        schema, mean_of = self.schema, self.mean_of
        wanted = _lists_of_names(self.tables)
        columns = self._columns(wanted)
        size = self.public_size(*columns, *([] if mean_of is None else [mean_of]))
        statistic = Margins(
            columns=columns,
            tables=wanted,
            total=self.public_total if size is None else size,
            summed=_summed(schema, mean_of),
            impossible=self.impossible,
        )
        cells = math.prod(statistic.sizes)
        self._check_presented(wanted, cells)
        if cells > MOST_CELLS and not schema.unit_is_row:
            raise InvalidParameter(
                "tables", f"{cells:,} combinations of labels",
                f"are too many to limit what one {schema.unit.name} contributes: at most {MOST_CELLS:,}",
                "Ask for tables of fewer columns at a time, or merge labels.",
            )  # fmt: skip
        rows = schema.contribution(self.contribution).most_rows(cells)
        sensitivity = statistic.sensitivity(schema.neighbours, rows_per_unit=rows)
        workload, replaced = (
            statistic.workload(self.weights, self.accuracy),
            schema.neighbours is Neighbours.REPLACE_ONE,
        )
        mechanism = margins_noise(self.guarantee, sensitivity, workload, replaced=replaced)
        errors = [mechanism.standard_error(statistic.axes(table)) for table in statistic.tables]
        return Measurement(
            statistic=statistic,
            sensitivity=sensitivity,
            mechanism=mechanism,
            by=tuple(columns),
            columns=() if mean_of is None else (mean_of,),
            products=() if mean_of is None else ((mean_of,),),
            bands={name: bins.steps(schema.bounds(name)) for name, bins in self._bins().items()},
            contribution=self.contribution,
            public={} if statistic.total is None else {"n": statistic.total},
            blocks=(tuple(columns),) if cells <= MOST_CELLS else _blocks(columns, statistic.tables),
            from_blocks=lambda found: statistic.stacked_from(
                {names: (one.counts, one.sums.get((str(mean_of),))) for names, one in found.items()}
            ),
            read="rows of a cell, worst table",
            forecast=lambda: Forecast(error=lambda level: mechanism.reach(level) * max(errors)),
        )

    def _columns(self, wanted: list[list[str]]) -> dict[str, tuple[Any, ...]]:
        """Labels of every column that a table names, in the order of the schema."""
        used = [name for name in self.schema.columns if any(name in table for table in wanted)]
        unknown = [name for table in wanted for name in table if name not in used]
        bins = self._bins()
        for name in bins:
            if name not in used or name == self.mean_of:
                raise InvalidParameter(
                    "bins", name, "must be a number that a table names, and not the one whose mean is taken",
                    "Leave its bins out, or ask for the mean by itself.",
                )  # fmt: skip
        for name in used:
            if isinstance(self.schema.column(name), Bounds) and name not in bins:
                raise InvalidParameter(
                    "tables",
                    name,
                    "is a number, so it needs bins",
                    f"Pass bins={{{name!r}: [0, 10, 20]}} or bins={{{name!r}: 5}}.",
                )
        columns = {
            name: bins[name].names() if name in bins else self._labels((name,))[name] for name in (*used, *unknown)
        }
        for name, labels in columns.items():
            if len(labels) < 2:
                raise InvalidParameter("tables", name, "has only one label", f"Leave {name!r} out of the tables.")
        return columns

    def _bins(self) -> dict[str, Bins]:
        given = requirements.instance(
            "bins", {} if self.bins is None else self.bins, Mapping, '{"age": [0, 18, 65, 120]}'
        )
        return {name: public_bins(f"bins[{name!r}]", self.schema.bounds(name), edges) for name, edges in given.items()}

    def _check_presented(self, wanted: Sequence[Sequence[str]], cells: int) -> None:
        """Beyond some size, counts that add up are found for tables of at most two columns, all cells possible."""
        requirements.instance("presented", self.presented, bool, "True or False")
        if not self.presented or cells <= MOST_PRESENTED:
            return
        if max(map(len, wanted)) > 2 or self.impossible:
            raise InvalidParameter(
                "tables", f"{cells:,} combinations of labels",
                "are too many to present whole counts that add up, in tables of three columns or with impossible "
                f"cells: at most {MOST_PRESENTED:,}",
                "Ask for fewer columns at a time, for tables of at most two columns, or for measurements alone with "
                "presented=False.",
            )  # fmt: skip


def margins_noise(
    guarantee: Guarantee, sensitivity: Sensitivity, workload: Workload, *, replaced: bool = False
) -> MarginsNoise:
    """The noise that makes the wanted tables most accurate: only Laplace noise meets a pure guarantee.

    Under (ε, δ) the accuracy asked for decides; a guarantee that allows both never gets the worse.
    """
    calibrated: list[MarginsNoise] = []
    for kind in (MarginsGaussian, MarginsLaplace):
        try:
            calibrated.append(kind.calibrate(guarantee, sensitivity, workload=workload, replaced=replaced))
        except NoConversion as refusal:
            last = refusal
    if not calibrated:
        raise last

    def error(noise: MarginsNoise) -> float:
        pairs = zip(workload.weights, workload.tables, strict=True)
        errors = [weight * noise.standard_error(table) ** 2 for weight, table in pairs]
        return sum(errors) if workload.accuracy == "sum" else max(errors)

    return min(calibrated, key=error)


def _blocks(columns: Mapping[str, Any], tables: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """Sets of columns that hold all tables: few, so that rows are passed few times, and of few cells each."""
    left = {frozenset(table) for table in tables}
    blocks = []
    while left:
        widest: frozenset[str] = max(left, key=lambda table: (len(table), sorted(table)))
        block = set(widest)
        while True:
            cells = math.prod(len(columns[name]) for name in block)
            room = [name for name in columns if name not in block and cells * len(columns[name]) <= _BLOCK_CELLS]
            gains = {name: sum(table <= block | {name} and name in table for table in left) for name in room}
            best = max(room, key=lambda name: gains[name], default=None)
            if best is None or gains[best] == 0:
                break
            block.add(best)
        left = {table for table in left if not table <= block}
        blocks.append(tuple(name for name in columns if name in block))
    return tuple(blocks)


def _lists_of_names(tables: Any) -> list[list[str]]:
    listed = isinstance(tables, Sequence) and not isinstance(tables, str)
    wanted: list[Any] = [[table] if isinstance(table, str) else table for table in tables] if listed else [None]
    if not all(isinstance(one, Sequence) and all(isinstance(name, str) for name in one) for one in wanted):
        raise WrongType("tables", tables, "must be a list of tables", 'Pass [["region"], ["region", "age"]].')
    return [list(one) for one in wanted]


def _summed(schema: Schema, column: str | None) -> tuple[str, int, int, str] | None:
    if column is None:
        return None
    bounds = schema.bounds(column)
    return column, bounds.lowest, bounds.highest, str(bounds.step)
