"""Table: how many rows fall into each public cell."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import scipy
from numpy.typing import DTypeLike, NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, NoConversion, NoPopulationInterval, WrongType, spelling
from discreet.core.guarantee import GaussianDP, Guarantee, ZeroConcentratedDP
from discreet.core.protection import ROW, Fact, Neighbours, Protection, Unit
from discreet.core.schema import Contribution, stability
from discreet.core.sensitivity import Exact, Sensitivity, root_up
from discreet.inference.moments import whole_count, whole_interval
from discreet.inference.noise import MonteCarlo, NoiseSum, coarse, sum_quantile
from discreet.inference.tables import CramersV, MeasuredTable, OddsRatio, cramers_v, measured_table, odds_ratio
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.mechanism import AdditiveNoise
from discreet.mechanisms.tables.james_stein import JamesSteinGaussian
from discreet.mechanisms.tables.post_processed import Clipped, PostProcessed
from discreet.questions import form
from discreet.questions.grouped import Bins, LabelAxis, column_values, in_order
from discreet.questions.question import DeclaredColumns, Forecast, MeasuredQuestion, Measurement, column_names
from discreet.results.charts import plot_readings
from discreet.results.display import Facts, Interval, Result, number
from discreet.results.frames import Reading, Row, Tidy, tidy_rows
from discreet.results.plan import Plan, plan
from discreet.results.release import Release, Statistic

if TYPE_CHECKING:
    from discreet.results.ledger import Ledger


# ---- Cell estimates: the cells and margins of a released table, with their intervals


Array = NDArray[np.float64]
_MANY = 8
"""The sum of more noises than this is taken to have the tails of so many, which are wider than its own."""


@dataclass(frozen=True)
class CellEstimates(Tidy):
    """Estimated counts or shares of cells. It behaves as the array of its estimates.

    Attributes
    ----------
    estimate
        From the published value; counts are whole and not negative.
    measured
        From the noisy measurement; the intervals are built on it.
    columns, labels
        The columns it is by, and the labels along each of them.
    unit, guarantee
        Who is protected, and the guarantee of the release in symbols.
    """

    estimate: Array
    measured: Array
    columns: tuple[str, ...]
    labels: tuple[tuple[Hashable, ...], ...]
    kind: str
    _table: MeasuredTable = field(repr=False)
    unit: str | None = None
    guarantee: str | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the estimates."""
        return self.estimate.shape

    @property
    def _merged(self) -> int:
        """Table cells behind one estimate."""
        return self._table.cells.size // self.estimate.size

    @property
    def _noise_variance(self) -> float:
        """Noise variance of one count; a public total takes its share away."""
        merged, cells = self._merged, self._table.cells.size
        kept = merged * (1 - merged / cells) if self._table.n is not None else merged
        return self._table.variance * kept

    @property
    def standard_error(self) -> Array:
        """Of counts: that of the noise. Of shares: that of sampling and noise together."""
        if self.kind == "count":
            return np.full(self.shape, math.sqrt(self._noise_variance))
        size = self._table.size
        share = np.clip(self.measured, 0.0, 1.0)
        return np.sqrt(self._table.rows_per_unit * share * (1 - share) / size + self._share_noise(share) / size**2)

    def _share_noise(self, share: Array) -> Array:
        """Noise variance of count − share·total."""
        if self._table.n is not None:
            return np.full(self.shape, self._noise_variance)
        merged, cells = self._merged, self._table.cells.size
        return np.asarray(self._table.variance * (merged * (1 - share) ** 2 + (cells - merged) * share**2))

    def noise_interval(self, level: float = 0.95, *, simultaneous: bool = False) -> Interval:
        """Intervals for the true counts in the data, cell by cell or for all cells at once; privacy noise only.

        Parameters
        ----------
        level
            Confidence level.
        simultaneous
            Whether ``level`` is for all cells together.
        """
        if self.kind != "count":
            raise InvalidParameter("noise_interval", self.kind, "is about the population", "Use population_interval().")
        return self._interval(level, simultaneous)

    def population_interval(self, level: float = 0.95, *, simultaneous: bool = False) -> Interval:
        """Intervals for the population's proportions, by inverting a score test with sampling and noise.

        Simultaneous intervals use Šidák's inequality, which holds for normal errors whatever their correlation.
        """
        if self.kind == "count":
            raise NoPopulationInterval(
                "table", "counts", "describe the rows that were counted", "Ask the release for population_interval()."
            )
        return self._interval(level, simultaneous)

    def _interval(self, level: float, simultaneous: bool) -> Interval:
        checked = requirements.level(level)
        each = checked ** (1 / self.estimate.size) if simultaneous else checked
        z = -float(scipy.special.ndtri((1 - each) / 2))
        ends = self._count_ends(z) if self.kind == "count" else self._share_ends(z)
        return Interval(*ends, checked)

    def _count_ends(self, z: float) -> tuple[Array, Array]:
        reach = self._quantile(z) * math.sqrt(self._noise_variance)
        low, high = whole_interval(self.measured - reach, self.measured + reach, self.estimate)
        return np.asarray(low), np.asarray(high)

    def _quantile(self, z: float) -> float:
        """The standard deviations that the noise of a count stays below, where a normal one stays below z."""
        tail, law = math.erfc(z / math.sqrt(2)) / 2, self._table.noise
        # Cells and a public total weigh in at most `merged` noises; fewer of them have the heavier tails.
        count = min(self._merged, _MANY)
        if coarse(law):
            variance = max(count * self._table.variance, 1e-300)  # next to no noise is still some
            return sum_quantile(law, count, 1 - tail) / math.sqrt(variance)
        if self._merged == 1 and self._table.n is None:
            return float(np.max(law.quantile(1 - tail))) / math.sqrt(self._table.variance)
        noise = NoiseSum.of(law, np.ones(count))
        return float(noise.quantile(1 - tail)) / float(noise.standard_deviation)

    def _share_ends(self, z: float) -> tuple[Array, Array]:
        size, x = self._table.size, self.measured * self._table.size
        # Noise that is nearly always 0 has a quantile of 0, sampling has not: never less than the normal score.
        reach = max(self._quantile(z), z)
        # Rare rows make counts skewed to the right, and rare absences to the left: by Cornish and Fisher the limit on
        # the side of the short tail moves out by (z² − 1)/6·(1 − 2π), as far as sampling is what varies.
        share = np.clip(self.measured, 0.0, 1.0)
        sampling = self._table.rows_per_unit * (size * share * (1 - share) + 1)
        skew = (reach**2 - 1) / 6 * self._table.rows_per_unit * sampling / (sampling + self._share_noise(share))
        below = np.minimum(x, np.maximum(x - skew * np.maximum(1 - 2 * share, 0.0), 0.0))
        above = np.maximum(x, np.minimum(x + skew * np.maximum(2 * share - 1, 0.0), size))
        return self._score_ends(below, reach**2)[0], self._score_ends(above, reach**2)[1]

    def _score_ends(self, x: Array, z2: float) -> tuple[Array, Array]:
        # (x − πS)² ≤ z²·(kNπ(1−π) + noise(π)): a quadratic inequality in π for known and for estimated N. By Cauchy and
        # Schwarz, the squared deviation of a unit's k rows together is at most k times those of its rows.
        size, spread = self._table.size, self._table.rows_per_unit * self._table.size
        if self._table.n is not None:
            noise = self._noise_variance
            a, b, c = size**2 + z2 * spread, 2 * x * size + z2 * spread, x**2 - z2 * noise
        else:
            merged, variance = self._merged, self._table.variance
            total = self._table.cells.size * variance
            a = size**2 + z2 * (spread - total)
            b = 2 * x * size + z2 * (spread - 2 * merged * variance)
            c = x**2 - z2 * merged * variance
        if np.any(np.asarray(a) <= 0):
            return np.zeros(self.shape), np.ones(self.shape)  # the total is lost in noise: nothing is excluded
        root = np.sqrt(np.maximum(b**2 - 4 * a * c, 0.0))
        return np.clip((b - root) / (2 * a), 0.0, 1.0), np.clip((b + root) / (2 * a), 0.0, 1.0)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.estimate, dtype=dtype, copy=True if copy is None else copy)

    def __len__(self) -> int:
        return len(self.estimate)

    def __getitem__(self, index: Any) -> Any:
        return self.estimate[index]

    def facts(self) -> list[tuple[str, str]]:
        """One line a cell, for up to 40 cells."""
        interval = self._interval(0.95, False)
        low, high = np.asarray(interval.low), np.asarray(interval.high)
        lines = []
        for index in list(np.ndindex(self.shape))[:40]:
            name = ", ".join(str(labels[i]) for labels, i in zip(self.labels, index, strict=True))
            lines.append((name, f"{number(self.estimate[index])}  ({number(low[index])} to {number(high[index])})"))
        hidden = self.estimate.size - len(lines)
        return [*lines, ("…", f"{hidden} more cells")] if hidden else lines

    def to_dict(self) -> dict[str, Any]:
        """Estimates with 95 % intervals as JSON-ready data."""
        return {
            "kind": self.kind,
            "columns": list(self.columns),
            "labels": [list(labels) for labels in self.labels],
            "estimate": self.estimate.tolist(),
            "standard_error": self.standard_error.tolist(),
            "interval": self._interval(0.95, False).to_dict(),
        }

    def readings(self) -> list[Reading]:
        """Every cell with its 95 % interval: of counts for the noise, of shares for the population."""
        interval = self._interval(0.95, False)
        parts = (self.estimate, self.standard_error, interval.low, interval.high)
        numbers = zip(*(np.ravel(np.asarray(part, dtype=float)).tolist() for part in parts), strict=True)
        counted = self.kind == "count"
        return [
            Reading(
                " · ".join(map(str, cell)),
                value,
                noise=Interval(low, high, interval.level) if counted else None,
                population=None if counted else Interval(low, high, interval.level),
                labels=dict(zip(self.columns, cell, strict=True)),
                measure=self.kind,
                standard_error=error,
            )
            for cell, (value, error, low, high) in zip(product(*self.labels), numbers, strict=True)
        ]

    def rows(self) -> list[Row]:
        return tidy_rows([one.to_dict() for one in self.readings()], unit=self.unit, guarantee=self.guarantee)

    def plot(self) -> Any:
        """Altair chart of every cell with its 95 % interval."""
        return plot_readings(self.heading(), [one.to_dict() for one in self.readings()])

    def heading(self) -> str:
        return f"{self.kind.capitalize()} by {', '.join(self.columns)} (95 % intervals)"


def _protection(release: TableRelease) -> tuple[str, str | None]:
    return str(release.protection.unit), None if release.guarantee is None else str(release.guarantee)


def _summed(release: TableRelease, cells: Array, axes: tuple[int, ...]) -> Array:
    table = cells.reshape(release.table.shape)
    others = tuple(axis for axis in range(table.ndim) if axis not in axes)
    summed = table.sum(axis=others) if others else table
    order = sorted(axes)
    return np.asarray(np.transpose(summed, [order.index(axis) for axis in axes]))


def margin(release: TableRelease, axes: tuple[int, ...]) -> CellEstimates:
    """Counts by the given axes."""
    table = measured_table(release)
    columns = tuple(release.table.axes[axis] for axis in axes)
    return CellEstimates(
        np.asarray(whole_count(_summed(release, table.value, axes))),
        _summed(release, table.cells, axes),
        columns,
        tuple(release.table.labels(column) for column in columns),
        "count",
        table,
        *_protection(release),
    )


def proportions(release: TableRelease, axes: tuple[int, ...]) -> CellEstimates:
    """Shares by the given axes; negative cells count as 0, so that shares are possible and add up to 1."""
    table = measured_table(release)
    columns = tuple(release.table.axes[axis] for axis in axes)
    published = np.maximum(_summed(release, table.value, axes), 0.0)
    total = float(published.sum())
    shares = published / total if total > 0 else np.full(published.shape, 1 / published.size)
    return CellEstimates(
        shares,
        _summed(release, table.cells, axes) / table.size,
        columns,
        tuple(release.table.labels(column) for column in columns),
        "share",
        table,
        *_protection(release),
    )


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
        """The largest move of the table by one unit with at most ``rows_per_unit`` rows."""
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


def _axis(name: Any, spec: Any, other: bool) -> LabelAxis | Bins:
    if not isinstance(name, str) or not name:
        raise WrongType("columns", name, "must be named by text", 'Pass {"arm": ["a", "b"]}.')
    if isinstance(spec, Bins):
        return spec
    if isinstance(spec, LabelAxis):
        return LabelAxis(spec.labels, spec.other or other)
    if isinstance(spec, Mapping):
        if set(spec) - {"edges", "outside"} or "edges" not in spec:
            raise InvalidParameter("columns", dict(spec), "must be categories or bins", "Pass Bins([0, 10]).")
        return Bins(**spec)
    if not isinstance(spec, Sequence | np.ndarray) or isinstance(spec, str):
        raise WrongType("categories", spec, "must be a list of values", 'Pass ["no", "yes"].')
    return LabelAxis(tuple(spec), other)


@dataclass(frozen=True)
class TableRelease(Release):
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
        """The facts to show: one line per cell, where the distribution of its noise is known."""
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
        return self.proportions().population_interval(level)

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
    """The measurement of the counts by the labels of some columns."""
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
    `stability`. Shrinkage reads the noisy counts alone: ``docs/proofs/table_noise.md``.

    Parameters
    ----------
    columns
        The columns whose labels make the cells.
    contribution
        Limits per unit.
    shrink
        Under μ and ρ, whether to move the noisy cells towards their mean (lee2022), which lowers the squared error of
        all cells together on average, for every table. Intervals come from the noisy cells behind.

    Examples
    --------
    >>> from discreet import Categories, Schema
    >>> schema = Schema(columns={"arm": Categories(["A", "B"]), "sex": Categories(["f", "m"])})
    >>> TableQuestion(schema, ["arm", "sex"], epsilon=1.0).measurement.statistic.shape
    (2, 2)
    """

    topic: ClassVar[str] = "Counts and shares"
    answers: ClassVar[str] = "How many rows have each combination of labels?"
    ask: ClassVar[str] = "table"
    heading: ClassVar[str] = "Number of {noun} by {columns}"
    meaning: ClassVar[str] = "How many rows fall into each cell."
    part: ClassVar[str] = "cell"
    forms: ClassVar[form.Forms] = {"columns": form.COLUMNS, "shrink": form.FLAG}
    columns: str | Sequence[str]
    _: KW_ONLY
    contribution: Contribution | None = None
    shrink: bool = False

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return {"columns": columns.listed[:2]}

    def _measured(self) -> Measurement:
        found = table_measurement(self, column_names(self.columns, "columns"), self.contribution)
        if not requirements.instance("shrink", self.shrink, bool, "shrink=True or False"):
            return found
        if not isinstance(self.guarantee, GaussianDP | ZeroConcentratedDP):
            rule = "is for Gaussian noise, which μ and ρ pay for"
            raise InvalidParameter("shrink", True, rule, "Give mu or rho, or leave shrink out.")
        noise = Gaussian.calibrate(self.guarantee, found.sensitivity)
        # The total is public, and kept, where a table knows its number of rows.
        shrunk = JamesSteinGaussian(scale=noise.scale, rank_deficient="n" in found.public)
        forecast = Forecast(error=lambda level: float(noise.error(level)))
        return replace(found, mechanism=shrunk, forecast=lambda: forecast)

    def _notes(self, found: Measurement) -> tuple[str, ...]:
        if not self.shrink:
            return super()._notes(found)
        cells, mechanism = self.schema.cells(found.by), cast(JamesSteinGaussian, found.mechanism)
        even, any_table = mechanism.l2_cost(np.zeros(cells)), mechanism.l2_cost(_spread_out(cells))
        plain = cells * mechanism.scale**2
        return (
            f"shrink: the squared errors of all {cells} cells add up to {even:.3g} where cells are equal and at most "
            f"{any_table:.3g}, on average; without it {plain:.3g}. The error is that of the cells before",
        )


# ---- The best mechanism for a table, chosen from public facts before any data is read.


_TABLES = 32


@dataclass(frozen=True)
class TableChoice(Result):
    """A mechanism for a table, and why it was chosen.

    Attributes
    ----------
    mechanism
        The mechanism.
    reason
        One sentence.
    costs
        Expected squared error over all cells of every candidate, by name.
    """

    mechanism: PostProcessed
    reason: str
    costs: dict[str, float]
    sensitivity: Sensitivity

    def plan(self, *, ledger: Ledger | None = None) -> Plan:
        """The plan of a release with it, with the reason for the choice."""
        base = plan(self.sensitivity, self.mechanism, ledger=ledger)
        told = (*base.notes, self.reason)
        return replace(base, statistic=ContingencyTable.name, read="rows of a cell", notes=told)

    def facts(self) -> Facts:
        """The facts to show of a choice."""
        costs = [(f"cost of {name}", number(cost)) for name, cost in self.costs.items()]
        return [("mechanism", self.mechanism.name), ("reason", self.reason), *costs]

    def to_dict(self) -> dict[str, Any]:
        """The choice as JSON-ready data."""
        return {"mechanism": self.mechanism.to_dict(), "reason": self.reason, "costs": dict(self.costs)}

    def heading(self) -> str:
        return "Choice of mechanism"


def best_table_mechanism(
    guarantee: Guarantee,
    table: ContingencyTable,
    *,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    n: int | None = None,
    integers: bool = False,
) -> TableChoice:
    """The mechanism with the least expected squared error for a table, by public facts alone.

    Between Gaussian and Laplace noise the exactly calibrated variances decide; with Gaussian noise shrinkage is always
    added, because it never costs anything on average (lee2022, Theorems 4 to 6), and clipping likewise (Proposition 8).
    Where the total is public it is kept.

    Parameters
    ----------
    guarantee
        What is to be guaranteed, of any kind; `PureDP` leaves only Laplace noise.
    table
        The public description of the cells.
    neighbours
        Under replace-one the total is public.
    n
        The number of rows where it is public. Under add/remove, giving it declares it public.
    integers
        Whether the cells shall be whole numbers.

    Examples
    --------
    >>> from discreet import GaussianDP
    >>> from discreet.questions import ContingencyTable
    >>> table = ContingencyTable({"group": list(range(18))})
    >>> choice = best_table_mechanism(GaussianDP(0.3), table, neighbours=Neighbours.REPLACE_ONE)
    >>> choice.mechanism.name, choice.mechanism.clip
    ('james_stein_gaussian', 'simplex')
    """
    requirements.instance("table", table, ContingencyTable, 'ContingencyTable({"arm": ["a", "b"]})')
    rows = None if n is None else requirements.positive_integer("n", n)
    sensitivity = table.sensitivity(neighbours)
    known = neighbours is Neighbours.REPLACE_ONE or rows is not None
    total = rows if neighbours is Neighbours.ADD_REMOVE else None
    clip: Any = "simplex" if known else "nonnegative"
    candidates: dict[str, PostProcessed] = {}
    for kind in (Gaussian, Laplace):
        scale = _scale(kind, guarantee, sensitivity)
        if scale is None:
            continue
        if kind is Gaussian:
            candidates["shrunken Gaussian"] = JamesSteinGaussian(
                scale=scale, towards="mean", rank_deficient=known, total=total, clip=clip, integers=integers
            )
        else:
            candidates["Laplace"] = Clipped(
                mechanism=Laplace(scale), rank_deficient=known, total=total, clip=clip, integers=integers
            )
    costs = {name: _expected_cost(mechanism, table.cells, rows) for name, mechanism in candidates.items()}
    best = min(costs, key=lambda name: costs[name])
    return TableChoice(candidates[best], _reason(best, costs, guarantee, table, rows), costs, sensitivity)


def _scale(kind: type[AdditiveNoise], guarantee: Guarantee, sensitivity: Sensitivity) -> float | None:
    try:
        return kind.calibrate(guarantee, sensitivity).scale
    except NoConversion:
        return None


def _expected_cost(mechanism: PostProcessed, cells: int, n: int | None) -> float:
    """Cost before clipping: over tables drawn evenly from all shares where N is public; else for any table."""
    plain = replace(mechanism, clip="none", integers=False)
    if n is None:
        # The least favourable table: shrinkage gains nothing where cells differ much.
        return plain.l2_cost(_spread_out(cells))
    shares = np.random.default_rng(0).dirichlet(np.ones(cells), size=_TABLES if cells <= 10_000 else 1)
    return float(np.mean([plain.l2_cost(n * share) for share in shares]))


def _spread_out(cells: int) -> Any:
    table = np.zeros(cells)
    table[::2] = 1e12
    return table


def _reason(best: str, costs: dict[str, float], guarantee: Guarantee, table: ContingencyTable, n: int | None) -> str:
    facts = f"{table.cells} cells" if n is None else f"{table.cells} cells, {n} rows"
    if len(costs) == 1:
        return f"only {best} noise meets {guarantee}"
    other = next(name for name in costs if name != best)
    return f"squared error {number(costs[best])}, {other} {number(costs[other])} ({facts})"
