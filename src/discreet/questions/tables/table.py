"""Table: how many rows fall into each public cell."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import cache, cached_property
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, NoConversion, NoPopulationInterval, WrongType, spelling
from discreet.core.guarantee import GaussianDP, Guarantee, ZeroConcentratedDP
from discreet.core.noise.sampler import Floats
from discreet.core.protection import ROW, Fact, Neighbours, Protection, Unit
from discreet.core.schema import Contribution, stability
from discreet.core.sensitivity import Exact, Sensitivity, root_up
from discreet.inference.moments import whole_count, whole_interval
from discreet.inference.noise import MonteCarlo
from discreet.inference.tables import cramers_v, measured_table, odds_ratio
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.mechanism import AdditiveNoise
from discreet.mechanisms.tables.james_stein import JamesSteinGaussian
from discreet.mechanisms.tables.post_processed import Clipped, PostProcessed
from discreet.questions import form
from discreet.questions.design import design_measurement, no_design_for
from discreet.questions.grouped import Bins, LabelAxis, column_values, in_order
from discreet.questions.question import DeclaredColumns, Forecast, MeasuredQuestion, Measurement, column_names
from discreet.results.charts import plot_readings
from discreet.results.display import DerivedNumber, Facts, Interval, Result, in_a_row, number, within
from discreet.results.frames import CAUTION, UNRELIABLE, Reading, Row, Tidy, tidy_rows
from discreet.results.plan import Plan, plan
from discreet.results.printed import told_numbers
from discreet.results.release import Release, Statistic
from discreet.results.wording import measure_words

if TYPE_CHECKING:
    from discreet.results.ledger import Ledger


# ---- Cells and margins of a released table, as counts and as shares, with intervals and flags


Array = NDArray[np.float64]
Ends = Callable[[float], tuple[Floats, Floats]]
"""The ends of intervals, by their level."""


@dataclass(frozen=True, kw_only=True)
class CellEstimates(Tidy):
    """Counts or shares of the cells of a released table, or of a margin of one.

    It behaves as the array of its estimates.

    Attributes
    ----------
    columns, labels
        The columns it is by, and the labels along each of them.
    kind
        ``"count"`` or ``"share"``.
    estimate
        The numbers to print; none is negative.
    measured
        From the noisy measurement, without bias; the intervals are built on it.
    standard_error
        Of counts: that of the noise. Of shares: that of sampling and noise together.
    presented
        Whole counts that add up over all tables of a release. None where they were not computed.
    possible
        False for cells that were declared to have no rows; their intervals are 0 to 0.
    mean_of
        The number whose mean in every cell was measured too.
    unit, guarantee
        Who is protected, and the guarantee of the release in symbols.
    words
        What was asked, in words for readers, where a session asked.
    """

    columns: tuple[str, ...]
    labels: tuple[tuple[Hashable, ...], ...]
    kind: str = "count"
    estimate: Array
    measured: Array
    standard_error: Array
    noise: Ends | None = field(default=None, repr=False)
    population: Ends | None = field(default=None, repr=False)
    presented: NDArray[np.int64] | None = None
    possible: NDArray[np.bool_] | None = None
    mean_of: str | None = None
    mean: tuple[Array, Ends] | None = field(default=None, repr=False)
    unit: str | None = None
    guarantee: str | None = None
    words: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the estimates."""
        return self.estimate.shape

    def noise_interval(self, level: float = 0.95, *, simultaneous: bool = False) -> Interval:
        """Intervals for the true counts in the data, cell by cell or for all cells at once; privacy noise only.

        Simultaneous intervals use Šidák's inequality, which holds for normal errors whatever their correlation.

        Parameters
        ----------
        level
            Confidence level.
        simultaneous
            Whether ``level`` is for all cells together.
        """
        if self.noise is None:
            raise InvalidParameter("noise_interval", self.kind, "is about the population", "Use population_interval().")
        return self._interval(self.noise, level, simultaneous)

    def population_interval(self, level: float = 0.95, *, simultaneous: bool = False) -> Interval:
        """Intervals for the population: its proportions, or the expected counts of a sample of this size."""
        if self.population is None:
            raise NoPopulationInterval(
                "table", "counts", "describe the rows that were counted", "Ask the release for population_interval()."
            )
        return self._interval(self.population, level, simultaneous)

    def _interval(self, ends: Ends, level: float, simultaneous: bool = False) -> Interval:
        checked = requirements.level(level)
        return Interval(*ends(checked ** (1 / self.estimate.size) if simultaneous else checked), checked)

    def flags(self) -> NDArray[Any]:
        """The reliability of each cell, by its standard error over its estimate.

        "" below 16.5 %, "caution" up to 33.3 %, "unreliable" beyond: a rule of published numbers alone.
        """
        variation = self.standard_error / np.maximum(self.estimate, 1e-9)
        flags = np.where(variation > UNRELIABLE, "unreliable", np.where(variation > CAUTION, "caution", ""))
        return flags if self.possible is None else np.where(self.possible, flags, "")

    def means(self) -> Array:
        """Mean of the summed number in every cell, inside its bounds; the middle where there are hardly any rows."""
        return self._summed()[0]

    def mean_interval(self, level: float = 0.95) -> Interval:
        """Intervals for the means in the data, which account for the noise of sum and count (Fieller)."""
        return self._interval(self._summed()[1], level)

    def _summed(self) -> tuple[Array, Ends]:
        """Means in the cells, and the ends of their intervals."""
        if self.mean is None:
            raise InvalidParameter("mean_of", None, "no means were measured", 'Release tables with mean_of="income".')
        return self.mean

    def _numbers(self, level: float) -> list[dict[str, float]]:
        """The numbers of each cell by name, as far as they are known."""
        parts: dict[str, Any] = {
            self.kind: self.estimate,
            "measured": self.measured,
            "standard_error": self.standard_error,
        }
        known = {"noise": self.noise, "population": self.population}
        if self.mean is not None:
            parts[f"mean_{self.mean_of}"], known[f"mean_{self.mean_of}"] = self.mean
        for name, ends in known.items():
            if ends is not None:
                parts |= zip((f"{name}_low", f"{name}_high"), self._interval(ends, level), strict=True)
        columns = [np.ravel(np.asarray(part, dtype=float)).tolist() for part in parts.values()]
        return [dict(zip(parts, numbers, strict=True)) for numbers in zip(*columns, strict=True)]

    def cells(self, level: float = 0.95, *, minimum: int = 0) -> list[dict[str, Any]]:
        """One dict per cell, in one row: as published and as measured, with intervals, means, and a flag.

        Parameters
        ----------
        level
            Of the intervals.
        minimum
            Counts below this public number are left out (None) and flagged "small": a rule of published numbers alone.
        """
        found = []
        for cell, told, flag in zip(product(*self.labels), self._numbers(level), np.ravel(self.flags()), strict=True):
            shown = told[self.kind] if self.presented is None else int(told[self.kind])
            small = shown < minimum
            own = told | {self.kind: None if small else shown, "flag": "small" if small else str(flag)}
            found.append(dict(zip(self.columns, cell, strict=True)) | own)
        return found

    def readings(self, level: float = 0.95) -> list[Reading]:
        """Every cell as it is published, with its intervals; and the mean in it, where a number was summed."""

        def between(name: str) -> Interval | None:
            return Interval(told[f"{name}_low"], told[f"{name}_high"], level) if f"{name}_low" in told else None

        found, mean = [], f"mean_{self.mean_of}"
        for cell, told in zip(product(*self.labels), self._numbers(level), strict=True):
            label = " · ".join(map(str, cell)) or "total"
            labels = dict(zip(self.columns, cell, strict=True))
            both, error = (between("noise"), between("population")), told["standard_error"]
            found.append(Reading(label, told[self.kind], *both, labels=labels, measure=self.kind, standard_error=error))
            if mean in told:
                words = f"mean of {self.mean_of}"
                found.append(Reading(label, told[mean], between(mean), labels=labels, measure=words))
        return found

    def rows(self) -> list[Row]:
        return tidy_rows([one.to_dict() for one in self.readings()], unit=self.unit, guarantee=self.guarantee)

    def plot(self) -> Any:
        """Altair chart of every cell with its 95 % intervals: thick for noise, thin for noise and sampling."""
        return plot_readings(self.heading(), [one.to_dict() for one in self.readings()], self.words)

    def heading(self) -> str:
        names, measured = self.words.get("names", {}), measure_words(self.words, self.kind)
        by = in_a_row([within(names[one]) if one in names else one for one in self.columns])
        return f"{measured[:1].upper()}{measured[1:]}{f' by {by}' if by else ' in all'}"

    def facts(self) -> Facts:
        """One line per cell, for up to 40 cells."""
        return told_numbers(one.to_dict() for one in self.readings())

    def to_dict(self) -> dict[str, Any]:
        """Kind, columns and cells as JSON-ready data."""
        return {"kind": self.kind, "columns": list(self.columns), "rows": self.cells()}

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.estimate, dtype=dtype, copy=True if copy is None else copy)

    def __len__(self) -> int:
        return len(self.estimate)

    def __getitem__(self, index: Any) -> Any:
        return self.estimate[index]


def _summed(release: TableRelease, cells: Array, axes: tuple[int, ...]) -> Array:
    table = cells.reshape(release.table.shape)
    others = tuple(axis for axis in range(table.ndim) if axis not in axes)
    summed = table.sum(axis=others) if others else table
    order = sorted(axes)
    return np.asarray(np.transpose(summed, [order.index(axis) for axis in axes]))


def margin(release: TableRelease, axes: tuple[int, ...]) -> CellEstimates:
    """Counts by the given axes."""
    table = measured_table(release)
    measured = _summed(release, table.cells, axes)
    estimate = whole_count(_summed(release, table.value, axes))
    merged = table.cells.size // measured.size
    error = math.sqrt(table.count_variance(merged))

    def ends(level: float) -> tuple[Floats, Floats]:
        reach = table.reach(merged, level) * error
        return whole_interval(measured - reach, measured + reach, estimate)

    return CellEstimates(
        **_described(release, axes),
        estimate=np.asarray(estimate),
        measured=measured,
        standard_error=np.full(measured.shape, error),
        noise=ends,
    )


def proportions(release: TableRelease, axes: tuple[int, ...]) -> CellEstimates:
    """Shares by the given axes; negative cells count as 0, so that shares are possible and add up to 1."""
    table = measured_table(release)
    published = np.maximum(_summed(release, table.value, axes), 0.0)
    total = float(published.sum())
    measured = _summed(release, table.cells, axes) / table.size
    merged = table.cells.size // published.size
    return CellEstimates(
        **_described(release, axes),
        kind="share",
        estimate=published / total if total > 0 else np.full(published.shape, 1 / published.size),
        measured=measured,
        standard_error=table.share_error(merged, measured),
        population=lambda level: table.share_ends(merged, measured, level),
    )


def _described(release: TableRelease, axes: tuple[int, ...]) -> dict[str, Any]:
    """Columns and labels along some axes, and how they were protected."""
    columns = tuple(release.table.axes[axis] for axis in axes)
    guarantee = None if release.guarantee is None else str(release.guarantee)
    labels = tuple(release.table.labels(column) for column in columns)
    told = {"unit": str(release.protection.unit), "guarantee": guarantee, "words": release.words}
    return {"columns": columns, "labels": labels, **told}


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
        return [*cells, *self.protection_facts()]

    def heading(self) -> str:
        return super().heading() if self.words else f"{super().heading()} by {', '.join(self.table.axes)}"

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

    def odds_ratio(self) -> DerivedNumber:
        """Odds ratio of a 2 × 2 table."""
        return odds_ratio(self)

    def cramers_v(self, null: MonteCarlo | None = None) -> DerivedNumber:
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
    known
        With ``shrink``: totals that are public, from an earlier publication for example, by column and label. The cells
        agree with them. They are taken as they are given, and not checked.
    between
        With ``shrink``: the smallest and the largest number of rows that a cell can have, where that is public.

    Examples
    --------
    >>> from discreet import Categories, Schema
    >>> schema = Schema(columns={"arm": Categories(["A", "B"]), "sex": Categories(["f", "m"])})
    >>> TableQuestion(schema, ["arm", "sex"], epsilon=1.0).measurement.statistic.shape
    (2, 2)
    >>> shrunk = TableQuestion(schema, ["arm", "sex"], mu=1.0, shrink=True, known={"arm": {"A": 50}})
    >>> shrunk.measurement.mechanism.values
    (50.0,)
    """

    topic: ClassVar[str] = "Counts and shares"
    answers: ClassVar[str] = "How many rows have each combination of labels?"
    ask: ClassVar[str] = "table"
    under_design: ClassVar[bool] = True
    also: ClassVar[tuple[str, ...]] = ("crosstab", "contingency_table", "group_by")
    heading: ClassVar[str] = "Number of {noun} by {columns}"
    meaning: ClassVar[str] = "How many {noun} fall into each cell."
    part: ClassVar[str] = "cell"
    forms: ClassVar[form.Forms] = {
        "columns": form.COLUMNS,
        "shrink": form.FLAG,
        "known": form.TOTALS,
        "between": form.INTERVAL,
    }
    ways: ClassVar[Mapping[str, tuple[Any, ...]]] = {"shrink": (True,)}
    columns: str | Sequence[str]
    _: KW_ONLY
    contribution: Contribution | None = None
    shrink: bool = False
    known: Mapping[str, Mapping[Any, float]] | None = None
    between: Sequence[float] | None = None

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return {"columns": columns.listed[:2]}

    def _measured(self) -> Measurement:
        names = column_names(self.columns, "columns")
        if self.schema.design is not None:
            no_design_for(self, "contribution", "shrink", "known", "between")
            return design_measurement(self, "estimated count", names, read="the number in the population")
        found = table_measurement(self, names, self.contribution)
        if not requirements.instance("shrink", self.shrink, bool, "shrink=True or False"):
            for name in ("known", "between"):
                if getattr(self, name) is not None:
                    rule = "belongs to a table that is shrunk"
                    raise InvalidParameter(name, getattr(self, name), rule, f"Set shrink=True, or leave {name} out.")
            return found
        if not isinstance(self.guarantee, GaussianDP | ZeroConcentratedDP):
            rule = "is for Gaussian noise, which μ and ρ pay for"
            raise InvalidParameter("shrink", True, rule, "Give mu or rho, or leave shrink out.")
        noise = Gaussian.calibrate(self.guarantee, found.sensitivity)
        settings: dict[str, Any] = {}
        if self.known is not None:
            table = cast(ContingencyTable, found.statistic)
            settings["constraints"], settings["values"] = public_totals(table, self.known, found.public.get("n"))
        if self.between is not None:
            ends = requirements.ordered_bounds("between", self.between)
            settings |= {"clip": "box", "box": (tuple(requirements.finite("between", end) for end in ends),)}
        # The total is public, and kept, where a table knows its number of rows.
        shrunk = JamesSteinGaussian(
            scale=noise.scale, rank_deficient=bool(self.known) or "n" in found.public, **settings
        )

        @cache
        def forecast() -> Forecast:
            cells = self.schema.cells(found.by)
            largest = _unclipped(shrunk).l2_cost(shrunk.agreeing(_spread_out(cells))) / cells
            bias = None if self.between is not None else shrunk.largest_bias(cells)
            ends = (None, None) if self.between is None else (float(self.between[0]), float(self.between[1]))
            error = lambda level: float(noise.error(level))  # noqa: E731
            return Forecast(error=error, bias=bias, squares=(largest, largest), ends=ends)

        return replace(found, mechanism=shrunk, forecast=forecast)

    def _notes(self, found: Measurement) -> tuple[str, ...]:
        if not self.shrink:
            return super()._notes(found)
        cells = self.schema.cells(found.by)
        mechanism = cast(JamesSteinGaussian, found.mechanism)
        plain = cells * mechanism.scale**2
        open_ended = _unclipped(mechanism)
        even, most = (open_ended.l2_cost(mechanism.agreeing(one)) for one in (np.zeros(cells), _spread_out(cells)))
        bias = f"No cell has a bias above {mechanism.largest_bias(cells):.3g}"
        if self.between is not None:
            bias = "Cells between their ends are closer to the truth, and biased towards the middle"
        taken = "" if self.known is None else f" Totals by {', '.join(self.known)} are taken as public, unchecked."
        return (
            f"shrink: the squared errors of all {cells} cells add up to {even:.3g} where cells are equal and at most "
            f"{most:.3g}, on average; without it {plain:.3g}. {bias}.{taken} The error is that of the cells before",
        )


def _unclipped(mechanism: JamesSteinGaussian) -> JamesSteinGaussian:
    return replace(mechanism, clip="none", box=None)


def public_totals(
    table: ContingencyTable, known: Mapping[str, Mapping[Any, float]], rows: int | None
) -> tuple[tuple[tuple[float, ...], ...], tuple[float, ...]]:
    """Public totals as linear facts about the cells: their coefficients, and their values.

    Of a column that is known whole after another one, the last label says nothing new.

    Examples
    --------
    >>> table = ContingencyTable({"arm": ["A", "B"], "sex": ["f", "m"]})
    >>> public_totals(table, {"arm": {"A": 50, "B": 40}, "sex": {"f": 60, "m": 30}}, None)
    (((1.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 1.0), (1.0, 0.0, 1.0, 0.0)), (50.0, 40.0, 60.0))
    """
    everybody = None if rows is None else float(rows)
    coefficients: list[tuple[float, ...]] = []
    values: list[float] = []
    if rows is not None:
        coefficients.append((1.0,) * table.cells)
        values.append(float(rows))
    form_of_known = 'known={"region": {"north": 1200}}'
    if not requirements.instance("known", known, Mapping, form_of_known):
        raise InvalidParameter("known", known, "must name a column", f"Pass {form_of_known}, or leave it out.")
    for column, totals in known.items():
        requirements.instance("known", totals, Mapping, form_of_known)
        if column not in table.axes:
            raise InvalidParameter("known", column, "is not a column of the table", spelling(column, table.axes))
        axis = table.axes.index(column)
        labels = list(table.columns[column].labels)
        listed = {label: requirements.finite("known", total) for label, total in totals.items()}
        if not listed or not {*listed} <= {*labels}:
            raise InvalidParameter(
                "known", dict(totals), f"must be totals of labels of {column}", f"Its labels: {labels}."
            )
        if len(listed) == len(labels):
            whole = math.fsum(listed.values())
            if everybody is not None and whole != everybody:
                rule = f"must add up to the same number of rows: {whole:g} by {column}, {everybody:g} before"
                raise InvalidParameter("known", dict(totals), rule, "Correct the totals.")
            if everybody is not None:
                del listed[labels[-1]]
            everybody = whole
        for label, total in listed.items():
            inside = np.zeros(table.shape)
            np.moveaxis(inside, axis, 0)[labels.index(label)] = 1.0
            coefficients.append(tuple(inside.ravel().tolist()))
            values.append(total)
    return tuple(coefficients), tuple(values)


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
