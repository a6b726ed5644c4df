"""Many tables from one release: margins of one table that add up, each with its exact standard error.

Public: ``session.tables([["region"], ["region", "age"]], mu=0.5)``. The noise is on the components of the margins
(`MarginsGaussian`), so every wanted table, and everything below it, follows from one release. Proof:
``docs/proofs/margins.md``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.columns import MOST_CELLS
from discreet.core.door import Allowance, Claim, Passed
from discreet.core.errors import InvalidParameter, NoConversion, WrongType
from discreet.core.guarantee import Guarantee
from discreet.core.noise.sampler import generator
from discreet.core.protection import Neighbours, Protection
from discreet.core.rows import Snapshot
from discreet.core.schema import Bounds, Contribution, Schema
from discreet.core.sensitivity import Exact, Sensitivity, root_up
from discreet.inference.noise import MonteCarlo
from discreet.inference.ranks import difference_of_ranks, distance_of_distributions, ordered_nulls
from discreet.inference.tables import (
    ChiSquareResult,
    Departure,
    cell_probabilities,
    shrunken_goodness,
    shrunken_independence,
    simulated_test,
)
from discreet.mechanisms.tables.margins import (
    Accuracy,
    Axes,
    MarginsGaussian,
    MarginsLaplace,
    MarginsNoise,
    Workload,
    below,
    cell_covariance,
    margin_of,
    shape_of,
)
from discreet.questions import form
from discreet.questions.design import tables_measurement, tables_of
from discreet.questions.grouped import Bins, public_bins
from discreet.questions.question import DeclaredColumns, Forecast, MeasuredQuestion, Measurement, column_names
from discreet.questions.tables.measured import (
    MOST_PRESENTED,
    SyntheticRows,
    fieller,
    maximum_entropy,
    nearest_table,
    possible_margins,
    whole_pairs,
    whole_table,
)
from discreet.questions.tables.table import CellEstimates, Ends
from discreet.results.display import DerivedNumber, Facts, Interval, number
from discreet.results.frames import Reading
from discreet.results.printed import MOST_SHOWN, told_numbers
from discreet.results.release import Release, Statistic

Array = NDArray[np.float64]


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
Place = Mapping[int, int]
"""The same by position."""
Reach = Callable[[float], float]
"""How many standard errors noise stays below, by probability."""


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


def _margin(joint: NDArray[Any], axes: Axes) -> NDArray[Any]:
    return np.asarray(joint.sum(axis=tuple(axis for axis in range(joint.ndim) if axis not in axes)))


@dataclass(frozen=True)
class MarginsRelease(Release):
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

    def counts(self, axes: Axes) -> Array:
        """The noisy counts of a margin, by position."""
        return margin_of(self._components[0], self.noise.sizes, axes)

    def _at(self, place: Place) -> float:
        """The noisy count of one cell."""
        axes = tuple(sorted(place))
        return float(self.counts(axes)[tuple(place[axis] for axis in axes)])

    def _covariance(self, one: Sequence[tuple[Place, float]], other: Sequence[tuple[Place, float]]) -> float:
        """Noise covariance of two weighted sums of cells."""
        variances = self.noise.variances()
        return sum(
            first * second * cell_covariance(variances, self.noise.sizes, cell, another)
            for cell, first in one
            for another, second in other
        )

    @property
    def total(self) -> float:
        """The number of rows, exact where it is public, otherwise with noise."""
        return self._at({})

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

    def table(self, *columns: str) -> CellEstimates:
        """A released table, or any margin of one, cell by cell: estimates, standard errors, intervals, flags."""
        columns = column_names(columns[0] if len(columns) == 1 else columns, "columns")
        axes = self.asked(columns)
        names = [list(self.margins.columns)[axis] for axis in axes]
        order = [names.index(name) for name in columns]

        def placed(values: NDArray[Any]) -> NDArray[Any]:
            return np.transpose(values, order) if columns else values

        measured = placed(self.counts(axes))
        error = self.noise.standard_error(axes)
        reach = self.noise.reach
        whole = self._whole(axes)
        possible = placed(self.margins.possible(axes))
        shown = np.where(possible, np.maximum(measured, 0.0), 0.0) if whole is None else placed(whole).astype(float)
        total = max(self.total, 1.0)
        spread = float(self.rows_per_unit)

        def around(low: Array, high: Array) -> tuple[Array, Array]:
            """Widened to the count that is presented, which can only raise the probability of covering the truth."""
            low, high = np.where(possible, low, 0.0), np.where(possible, high, 0.0)
            return (low, high) if whole is None else (np.minimum(low, shown), np.maximum(high, shown))

        def noise(level: float) -> tuple[Array, Array]:
            far = reach(level) * error
            return around(np.maximum(measured - far, 0.0), np.maximum(measured, 0.0) + far)  # around 0 if below

        def population(level: float) -> tuple[Array, Array]:
            # All λ with (x − λ)² ≤ z²·(σ² + kλ(1 − λ/N)): the noise, and k rows per unit drawn from a population. Units
            # are independent; the rows of one of them need not be. Never less than the noise interval: near the total,
            # an estimated N would leave next to nothing for sampling.
            z2, least = reach(level) ** 2, noise(level)
            lead, middle = 1 + z2 * spread / total, 2 * measured + z2 * spread
            root = np.sqrt(np.maximum(middle**2 - 4 * lead * (measured**2 - z2 * error**2), 0.0))
            low, high = (np.clip((middle + side * root) / (2 * lead), 0.0, None) for side in (-1, 1))
            return around(np.minimum(low, least[0]), np.maximum(high, least[1]))

        mean = None
        if self.margins.summed is not None:
            sums = placed(margin_of(self._components[1], self.margins.sizes, axes))
            pair = (sums, self.noise.standard_error(axes, 1))
            mean = _mean_intervals(self.margins.summed, pair, (measured, error), reach)
        return CellEstimates(
            columns=tuple(columns),
            labels=tuple(tuple(self.margins.columns[name]) for name in columns),
            estimate=shown,
            measured=measured,
            standard_error=np.full(measured.shape, error),
            noise=noise,
            population=population,
            presented=None if whole is None else placed(whole),
            possible=possible,
            mean_of=None if self.margins.summed is None else self.margins.summed[0],
            mean=mean,
            unit=str(self.protection.unit),
            guarantee=None if self.guarantee is None else str(self.guarantee),
            words=self.words,
        )

    margin = table

    def _whole(self, axes: Axes) -> NDArray[np.int64] | None:
        """Presented counts of a margin."""
        if self.presented is not None:
            return _margin(self.presented, axes)
        pairs = None if self.margins.impossible else self._pairs
        return None if pairs is None else pairs[axes]

    @cached_property
    def _wanted(self) -> list[Axes]:
        return [self.margins.axes(table) for table in self.margins.tables]

    @cached_property
    def _pairs(self) -> Mapping[Axes, NDArray[np.int64]] | None:
        """Presented margins where the table of all columns is too large; None where one of more than two is wanted."""
        if max(map(len, self._wanted)) > 2:
            return None
        return whole_pairs({axes: self.counts(axes) for axes in below(self._wanted)}, max(round(self.total), 0))

    def tables(self) -> list[CellEstimates]:
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
        if math.prod(self.margins.sizes) > MOST_PRESENTED:
            return None
        near = self._nearest(self._components[0])
        return whole_table(near, max(round(self.total), 0), self._wanted, self._possible)

    @property
    def _possible(self) -> NDArray[np.bool_] | None:
        """False for cells of the table of all columns that cannot have rows; None where all can."""
        return self.margins.possible(tuple(range(len(self.margins.sizes)))) if self.margins.impossible else None

    def _nearest(self, components: Mapping[Axes, Array]) -> Array:
        variances = {(): 0.0, **self.noise.variances()}  # a public total is known
        return nearest_table(components, variances, self.noise.sizes, self._possible)

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
        if math.prod(self.margins.sizes) > MOST_PRESENTED:
            raise InvalidParameter(
                "tables", f"{math.prod(self.margins.sizes):,} combinations of labels",
                f"are too many for synthetic rows: at most {MOST_PRESENTED:,}", "Release tables of fewer columns.",
            )  # fmt: skip
        source = np.random.default_rng() if rng is None else generator(rng)
        each = max(round(self.total), 1) if rows is None else requirements.positive_integer("rows", rows)
        return SyntheticRows(self.margins.columns, tuple(self._synthetic(each, source) for _ in range(wanted)))

    def _synthetic(self, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Fresh noise on the measurement, the nearest possible table, the model of its margins, and rows from it."""
        parts = dict(self._components[0])
        for one, block in self.noise.blocks(
            self.noise.measure(np.zeros(self.noise.dimension, dtype=np.int64), rng=rng)
        ):
            if one.layer == 0:
                parts[one.axes] = parts[one.axes] + block
        shares = maximum_entropy(self._nearest(parts), self._wanted, self._possible)
        return rng.multinomial(rows, shares.ravel()).reshape(shares.shape).astype(np.int64)

    def combine(self, cells: Sequence[tuple[Cell, float]]) -> DerivedNumber:
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
        >>> round(women.estimate - float(noisy.table("sex").measured[0]), 9)
        0.0
        """
        placed = [(self._place(cell), requirements.finite("weight", weight)) for cell, weight in cells]
        estimate = float(sum(weight * self._at(place) for place, weight in placed))
        error = math.sqrt(max(self._covariance(placed, placed), 0.0))

        def ends(level: float) -> tuple[float, float]:
            reach = self.noise.reach(level) * error
            return estimate - reach, estimate + reach

        return DerivedNumber("Combination of cells", estimate, ends, standard_error=error, of_data=True)

    def share(self, part: Cell, of: Cell | None = None) -> DerivedNumber:
        """One cell as a share of another, or of the total; its interval accounts for the noise of both (Fieller).

        Its standard error is approximate, its interval is not.
        """
        if not (of or {}).items() <= part.items():
            raise InvalidParameter("part", dict(part), f"must be part of {dict(of or {})}", "Give it the same labels.")
        one, whole = self._place(part), self._place(of or {})
        pairs = ((one, one), (one, whole), (whole, whole))
        of_above, of_both, of_below = (self._covariance([(a, 1.0)], [(b, 1.0)]) for a, b in pairs)
        top, bottom = self._at(one), self._at(whole)
        estimate = top / bottom if bottom > 0 else math.nan
        square = of_above - 2 * estimate * of_both + estimate**2 * of_below
        error = math.sqrt(max(square, 0.0)) / bottom if bottom > 0 else math.inf

        def ends(level: float) -> tuple[float, float]:
            variances = (of_above, of_both, of_below)
            low, high = fieller(np.asarray(top), np.asarray(bottom), variances, self.noise.reach(level))
            return float(np.clip(low, 0.0, 1.0)), float(np.clip(high, 0.0, 1.0))

        return DerivedNumber("Share of cells", estimate, ends, standard_error=error, of_data=True)

    def _place(self, cell: Cell) -> dict[int, int]:
        self.asked(tuple(cell))
        return place_of(cell, self.margins.columns)

    # ---- tests: the null distribution is of tables that fit the hypothesis, with the noise of the same release ------

    def independence(self, one: str, other: str, *, null: MonteCarlo | None = None) -> ChiSquareResult:
        """Test whether two columns are independent, from their released table."""
        table = self._table((one, other))
        df = (table.shape[0] - 1) * (table.shape[1] - 1)
        nulls = [(np.asarray(np.outer(*possible_margins(table))), self._rows)]
        return self._tested("independence", "shrunken", (one, other), nulls, df, shrunken_independence, null)

    def goodness_of_fit(
        self, column: str, probabilities: Sequence[float], *, null: MonteCarlo | None = None
    ) -> ChiSquareResult:
        """Test whether the labels of a column have given shares."""
        expected = cell_probabilities(probabilities, self._table((column,)).size)

        def departure(cells: Array, n: float | None, noise: float) -> Array:
            return shrunken_goodness(cells, expected, n, noise)

        nulls = [(expected, self._rows)]
        return self._tested("goodness of fit", "shrunken", (column,), nulls, expected.size - 1, departure, null)

    def rank_test(self, column: str, by: str, *, null: MonteCarlo | None = None) -> ChiSquareResult:
        """Test whether groups differ in an ordered column: Mann and Whitney for two, Kruskal and Wallis for more.

        The labels of the column count in their declared order; bins of a number have theirs.
        """
        return self._ordered("equal ranks", "ranks", column, by, difference_of_ranks, null)

    def kolmogorov_smirnov(self, column: str, by: str, *, null: MonteCarlo | None = None) -> ChiSquareResult:
        """Test whether an ordered column is distributed alike in all groups, by the largest distance."""
        return self._ordered("equal distributions", "Kolmogorov-Smirnov", column, by, distance_of_distributions, null)

    def _ordered(
        self, test: str, method: str, column: str, by: str, departure: Departure, null: MonteCarlo | None
    ) -> ChiSquareResult:
        table = self._table((by, column))
        unsure = self.noise.standard_error(()) if self.margins.total is None else 0.0
        nulls = ordered_nulls(*possible_margins(table), self._rows, unsure)
        return self._tested(test, method, (by, column), nulls, table.shape[0] - 1, departure, null)

    @property
    def _rows(self) -> int:
        """The number of rows to simulate."""
        return max(round(self.total), 1)

    def _table(self, columns: Sequence[str]) -> Array:
        """The measured table with the columns in this order."""
        axes = self.asked(columns)
        if self.rows_per_unit > 1:
            raise InvalidParameter(
                "release", f"at most {self.rows_per_unit} rows of each unit",
                "a test needs independent rows, so at most one of each unit",
                "Release the tables with contribution=Contribution(total=1).",
            )  # fmt: skip
        return np.transpose(self.counts(axes), self._order(columns))

    def _order(self, columns: Sequence[str]) -> list[int]:
        axes = self.asked(columns)
        return [axes.index(self.margins.axes((name,))[0]) for name in columns]

    def _tested(
        self,
        test: str,
        method: str,
        columns: Sequence[str],
        nulls: Sequence[tuple[Array, int]],
        df: int,
        departure: Departure,
        null: MonteCarlo | None,
    ) -> ChiSquareResult:
        axes, order = self.asked(columns), self._order(columns)
        return simulated_test(
            test,
            method,
            self._table(columns),
            nulls,
            df,
            departure,
            public=self.margins.total,
            noise_variance=self.noise.standard_error(axes) ** 2,
            noise=lambda size, rng: np.transpose(
                self.noise.simulated(axes, size, rng), (0, *(place + 1 for place in order))
            ),
            null=null or MonteCarlo(),
        )

    def heading(self) -> str:
        return str(self.words.get("heading", f"{len(self.margins.tables)} tables that add up"))

    def facts(self) -> Facts:
        """The facts to show: every number of a few, else one line per table; and how it was protected."""
        if sum(table.estimate.size for table in self.tables()) <= MOST_SHOWN:
            return [*told_numbers(self.told_readings(), "table"), *self.protection_facts()]
        lines = [
            (" × ".join(table) or "total", f"{_cells(self, table)}, standard error {number(self._error(table))}")
            for table in self.margins.tables
        ]
        return [*lines, *self.protection_facts()]

    def _error(self, table: Sequence[str]) -> float:
        return self.noise.standard_error(self.margins.axes(table))

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """Every cell of every wanted table, with both intervals."""
        return [
            replace(one, labels={"table": " × ".join(table.columns) or "total", **one.labels})
            for table in self.tables()
            for one in table.readings()
        ]


def _mean_intervals(
    summed: tuple[str, int, int, str], sums: tuple[Array, float], counts: tuple[Array, float], reach: Reach
) -> tuple[Array, Ends]:
    """Means of a number in each cell, from its sums and the counts with their standard errors, and their intervals."""
    _, lowest, highest, step = summed
    middle, grid = (lowest + highest) // 2, float(Fraction(step))

    def inside(ratio: Array) -> Array:
        return np.clip((middle + ratio) * grid, lowest * grid, highest * grid)

    def ends(level: float) -> tuple[Array, Array]:
        low, high = fieller(sums[0], counts[0], (sums[1] ** 2, 0.0, counts[1] ** 2), reach(level))
        return inside(low), inside(high)

    return inside(sums[0] / np.maximum(counts[0], 1.0)), ends


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
        Lists of columns; the empty list is the total. Or a sentence: ``"all margins of region, age, sex up to 2"``.
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
    >>> from discreet import Bounds, Categories, Schema
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
    under_design: ClassVar[bool] = True
    also: ClassVar[tuple[str, ...]] = ("margins",)
    heading: ClassVar[str] = "Number of {noun} in tables that add up"
    meaning: ClassVar[str] = "How many {noun} fall into each cell of several tables, which add up."
    part: ClassVar[str] = "cell"
    forms: ClassVar[form.Forms] = {
        "tables": form.TABLES,
        "weights": form.WEIGHTS,
        "accuracy": form.Form(lambda value: value in ("sum", "largest"), '"sum" or "largest"'),
        "mean_of": form.COLUMN,
        "public_total": form.WHOLE,
        "impossible": form.Form(
            lambda value: isinstance(value, list) and all(isinstance(one, dict) and one for one in value),
            'a list of cells, such as [{ age = "child", status = "married" }]',
        ),
        "bins": form.BINS,
        "presented": form.FLAG,
    }
    tables: str | Sequence[str | Sequence[str]]
    _: KW_ONLY
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
        if self.schema.design is not None:
            return super().content() | {"tables": _lists_of_names(self.tables)}
        weights = self.weights if isinstance(self.weights, str) else list(self.weights)
        edges = {name: list(bins.edges) for name, bins in self._bins().items()}
        return super().content() | {"weights": weights, "accuracy": self.accuracy, "bins": edges}

    def _measured(self) -> Measurement:
        schema, mean_of = self.schema, self.mean_of
        wanted = _lists_of_names(self.tables)
        if schema.design is not None:
            return tables_measurement(self, wanted, self._columns)
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
        workload = statistic.workload(self.weights, self.accuracy)
        replaced = schema.neighbours is Neighbours.REPLACE_ONE
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
            read="rows of a cell",
            forecast=lambda: Forecast(error=lambda level: mechanism.reach(level) * max(errors)),
        )

    def draw(self, rows: Snapshot, claim: Claim, allowance: Allowance, passed: Passed) -> MarginsRelease:
        return tables_of(self, super().draw(rows, claim, allowance, passed), _lists_of_names(self.tables))

    def read(self, stored: Any) -> MarginsRelease:
        return tables_of(self, super().read(stored), _lists_of_names(self.tables))

    def _plan_parts(self, found: Measurement) -> tuple[tuple[str, float, float | None], ...]:
        """The error of every table, where there are several."""
        if self.schema.design is not None:
            return ()
        statistic, noise = cast(Margins, found.statistic), cast(MarginsNoise, found.mechanism)
        tables = statistic.tables[:_SHOWN] if len(statistic.tables) > 1 else ()
        return tuple(
            (" × ".join(one) or "total", noise.reach(0.95) * noise.standard_error(statistic.axes(one)), None)
            for one in tables
        )

    def _notes(self, found: Measurement) -> tuple[str, ...]:
        if self.schema.design is not None:
            return (*super()._notes(found), "the error is that of a cell of the table by all columns")
        more = len(cast(Margins, found.statistic).tables) - _SHOWN
        return (*super()._notes(found), *([f"{more} more tables, with errors up to that"] if more > 0 else []))

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


_SHOWN = 20
"""Tables whose errors a plan lists."""
_ALL_MARGINS = re.compile(r"all margins of (.+?)(?: up to (\d+))?")


def _lists_of_names(tables: Any) -> list[list[str]]:
    """The tables, each as a list of columns; those that a sentence names are written out, smaller ones first."""
    if isinstance(tables, str) and (told := _ALL_MARGINS.fullmatch(tables)):
        names = [name.strip() for name in told[1].split(",")]
        most = min(int(told[2] or len(names)), len(names))
        return [list(table) for size in range(1, most + 1) for table in combinations(names, size)]
    listed = isinstance(tables, Sequence) and not isinstance(tables, str)
    wanted: list[Any] = [[table] if isinstance(table, str) else table for table in tables] if listed else [None]
    if not all(isinstance(one, Sequence) and all(isinstance(name, str) for name in one) for one in wanted):
        fix = 'Pass [["region"], ["region", "age"]] or "all margins of region, age, sex up to 2".'
        raise WrongType("tables", tables, "must be a list of tables", fix)
    return [list(one) for one in wanted]


def _summed(schema: Schema, column: str | None) -> tuple[str, int, int, str] | None:
    if column is None:
        return None
    bounds = schema.bounds(column)
    return column, bounds.lowest, bounds.highest, str(bounds.step)
