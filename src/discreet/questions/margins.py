"""Many tables from one release: margins of one table that add up, each with its exact standard error.

Public: ``session.tables([["region"], ["region", "age"]], guarantee)``. The noise is on the components of the margins
(`MarginsGaussian`), so every wanted table, and everything below it, follows from one release. Proof:
``docs/proofs/margins.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.answers import Answer
from discreet.contract.statistic import Statistic
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.exact import Exact
from discreet.core.noise.truth import generator
from discreet.core.protection import Neighbours, Protection
from discreet.core.sensitivity import Sensitivity, root_up
from discreet.display import Facts, number
from discreet.interval import Interval
from discreet.mechanisms.tables.components import Axes, margin_of, shape_of
from discreet.mechanisms.tables.margin_scales import Accuracy
from discreet.mechanisms.tables.margins_noise import MarginsNoise, Workload
from discreet.publish.readings import Reading
from discreet.questions.margin_hypotheses import MarginTests
from discreet.questions.margin_names import distinct_columns, impossible_labels, place_of, positions
from discreet.questions.margin_table import Combination, MarginTable
from discreet.questions.measured_margins import MeasuredMargins
from discreet.questions.presented_tables import MOST_PRESENTED
from discreet.questions.synthetic_rows import SyntheticRows

__all__ = ["Margins", "MarginsRelease", "Weights"]

Array = NDArray[np.float64]
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
        """How far one row moves a count, and a sum in steps from its middle."""
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
        """What is wanted, for the mechanism.

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
class MarginsRelease(Answer, MarginTests):
    """Released margins: tables that add up, with the exact law of their noise. All below is post-processing."""

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
        >>> from discreet.mechanisms.tables.marginals import MarginsGaussian
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
        """What to show: one line per table, and how it was protected."""
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
