"""Measured margins: noisy components of counts, and what follows from them without any name of a column or label."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.mechanisms.tables.margins import Axes, MarginsNoise, below, cell_covariance, margin_of
from discreet.mechanisms.tables.post_processed import onto_simplex
from discreet.results.charts import plot_readings
from discreet.results.display import Facts, Interval, Result, number
from discreet.results.frames import CAUTION, UNRELIABLE, Reading, Row, Tidy, tidy_rows

if TYPE_CHECKING:
    import pyarrow as pa


# ---- Presented tables: whole, non-negative and consistent values near noisy margins
#
# All of them are margins of one table of whole numbers, so they add up by construction. That table is found in two
# steps,
# both post-processing: the nearest table without negative cells, then whole numbers near it. Small margins are kept
# more
# strictly than large ones: plain least squares would let thousands of cut cells push the total up.


Array = NDArray[np.float64]
MOST_PRESENTED = 2**17
"""Cells of the table of all columns up to which presented values are computed."""
_STRICTER = 50.0
"""The factor by which a margin is kept more strictly than those with one more column."""
_ROUNDS = 300
_STILL = 1e-3
"""Changes of a cell below this end the search: whole numbers follow anyway."""
_RELAXED = 1.6
"""Over-relaxation (Boyd et al. 2011, section 3.4.3)."""
_BATCHES, _FEW = 128, 64
"""Units are handed out in batches of one in so many that are missing; from a few on, all scores are computed again."""
_LEAST, _SCALINGS = 0.25, 30
"""Where scaling starts in cells that were measured at or below 0, and how often rows and columns take turns."""


def nearest_table(
    components: Mapping[Axes, Array],
    variances: Mapping[Axes, float],
    sizes: Sequence[int],
    possible: NDArray[np.bool_] | None = None,
) -> Array:
    """The table without negative cells whose components are nearest to noisy ones.

    Least squares, each component weighed by its precision, by the alternating direction method of multipliers. A cosine
    transform along every axis diagonalises the distance: the coefficients that vary along exactly the axes A belong to
    the component A, where a table of length 1 has a component of squared length ∏d over the other axes.

    Parameters
    ----------
    components, variances
        Noisy components and the variance of their noise; a component that is known has variance 0.
    sizes
        Number of labels along every axis.
    possible
        False for cells that cannot have rows.
    """
    axes = tuple(range(len(sizes)))
    target = margin_of(components, sizes, axes)
    weight = _weights(variances, sizes)
    # Between the weights of the most detailed components, which decide most cells, and the stricter ones.
    step = 4 * float(np.median(weight[weight > 0]))
    pulled = weight * scipy.fft.dctn(target, norm="ortho")
    table, dual = np.maximum(target, 0.0), np.zeros_like(target)
    for _ in range(_ROUNDS):
        coefficients = (pulled + step * scipy.fft.dctn(table - dual, norm="ortho")) / (weight + step)
        near = scipy.fft.idctn(coefficients, norm="ortho")
        ahead = _RELAXED * near + (1 - _RELAXED) * table
        last, table = table, np.maximum(ahead + dual, 0.0)
        if possible is not None:
            table = np.where(possible, table, 0.0)
        dual = dual + ahead - table
        if max(np.abs(table - last).max(), np.abs(table - near).max()) < _STILL:
            break
    return table


def _weights(variances: Mapping[Axes, float], sizes: Sequence[int]) -> Array:
    """Precision of every cosine coefficient; 0 where nothing was measured."""
    known = [variance for variance in variances.values() if variance > 0]
    least = min(known, default=1.0) * 1e-3  # stands for "known": a thousand times more precise than any measurement
    most, weight = max(map(len, variances)), np.zeros(tuple(sizes))
    for axes, variance in variances.items():
        place = tuple(slice(1, None) if axis in axes else slice(0, 1) for axis in range(len(sizes)))
        others = math.prod(size for axis, size in enumerate(sizes) if axis not in axes)
        weight[place] = others / max(variance, least) * _STRICTER ** (most - len(axes))
    return weight


def whole_table(
    table: Array, total: int, tables: Sequence[Axes], possible: NDArray[np.bool_] | None = None
) -> NDArray[np.int64]:
    """Whole numbers near a table, with a given total, whose margins stay near those of the table.

    Cells are cut to whole numbers; what is missing goes, a few units at a time, where the margins miss most. Where too
    much is there, which a public total can demand, units leave in the same way.
    """
    kept = np.floor(table + 1e-9)
    margins = [axes for axes in below(tables) if axes]
    allowed = np.ones(table.shape, dtype=bool) if possible is None else possible
    if not allowed.any():
        return kept.astype(np.int64)
    score, missing = _missed(table - kept, margins), int(total - kept.sum())
    while missing:
        sign = 1 if missing > 0 else -1
        open_cells = allowed if sign > 0 else allowed & (kept > 0)
        some = min(max(abs(missing) // _BATCHES, 1), int(open_cells.sum()))
        ranked = np.where(open_cells, sign * score, -np.inf).ravel()
        chosen = np.argpartition(ranked, -some)[-some:]
        kept.ravel()[chosen] += sign
        if some > _FEW:
            score = _missed(table - kept, margins)
        else:
            _lower(score, chosen, margins, sign)
        missing -= sign * some
    return kept.astype(np.int64)


def _lower(score: Array, chosen: NDArray[np.intp], margins: Sequence[Axes], sign: int) -> None:
    """Keep the score up to date where a few cells changed by one unit."""
    for cell in chosen.tolist():
        place = np.unravel_index(cell, score.shape)
        score[place] -= 2 * sign
        for axes in margins:
            score[tuple(place[axis] if axis in axes else slice(None) for axis in range(score.ndim))] -= sign


def _missed(left: Array, margins: Sequence[Axes]) -> Array:
    """The gain of a unit in each cell: how much nearer it brings the margins, and the cell."""
    score = 2 * left
    for axes in margins:
        others = tuple(axis for axis in range(left.ndim) if axis not in axes)
        score = score + left.sum(axis=others, keepdims=True)
    return np.asarray(score)


def whole_pairs(margins: Mapping[Axes, Array], total: int) -> dict[Axes, NDArray[np.int64]]:
    """Whole, non-negative margins of one and two axes that add up, where all axes together make too large a table.

    Margins of one axis come first, with the given total; each margin of two axes is fitted to its two smaller ones. A
    table with given row and column sums always exists, so this needs no common table behind all of them.
    """
    found: dict[Axes, NDArray[np.int64]] = {(): np.array(total, dtype=np.int64)}
    for axes, margin in margins.items():
        if len(axes) == 1:
            found[axes] = whole_table(onto_simplex(margin, float(total)), total, [axes])
    for axes, margin in margins.items():
        if len(axes) == 2:
            found[axes] = _with_sums(margin, found[axes[:1]], found[axes[1:]])
    return found


def _with_sums(table: Array, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Whole numbers near a table, with exact row and column sums: scale, cut, and hand out what is missing."""
    near = np.maximum(table, _LEAST)
    for _ in range(_SCALINGS):
        near *= (rows / near.sum(axis=1))[:, None]
        near *= columns / np.maximum(near.sum(axis=0), _LEAST)
        near = np.maximum(near, 1e-12)
    kept = np.floor(near).astype(np.int64)
    kept = np.minimum(kept, np.minimum(rows[:, None], columns[None, :]))
    _take_back(kept, rows)
    _take_back(kept.T, columns)
    left_rows, left_columns = rows - kept.sum(axis=1), columns - kept.sum(axis=0)
    while left_rows.any():  # both have the same total, so a cell with room along both axes is always there
        room = np.minimum(left_rows[:, None], left_columns[None, :])
        best = np.unravel_index(int(np.argmax(np.where(room > 0, near - kept, -np.inf))), kept.shape)
        some = max(1, min(int(room[best]), math.floor(near[best] - kept[best])))
        kept[best] += some
        left_rows[best[0]] -= some
        left_columns[best[1]] -= some
    return kept


def _take_back(kept: NDArray[np.int64], sums: NDArray[np.int64]) -> None:
    """Lower rows that are above their sum, the largest cells first."""
    for row, most in zip(kept, sums.tolist(), strict=True):
        while (above := int(row.sum()) - most) > 0:
            place = int(np.argmax(row))
            row[place] -= min(above, max(int(row[place]) // 2, 1))


# ---- Synthetic rows: data sets drawn from the model of maximum entropy that fits released margins
#
# Everything here is post-processing of a release. Rows repeat what the released tables say and nothing else: columns
# that
# no released table has together are independent given the others. Each data set is fitted to margins with fresh noise
# of
# the release's own law, so that what differs between the data sets measures noise and sampling together.


_ROWS_ROUNDS = 200
_FITTED = 1e-6
"""Largest share of rows by which a margin may still be off when the fit ends."""


def maximum_entropy(table: Array, margins: Sequence[Axes], possible: NDArray[np.bool_] | None = None) -> Array:
    """The distribution of maximum entropy that has the given margins of a table without negative cells.

    Iterative proportional fitting from the uniform distribution (Deming and Stephan 1940): each step scales the table
    to one of its margins, and the limit is the log-linear model with these margins.
    """
    wanted = table / max(float(table.sum()), 1e-300)
    fitted = np.ones(table.shape) if possible is None else possible.astype(float)
    fitted = fitted / fitted.sum()
    largest = [axes for axes in margins if not any(set(axes) < set(other) for other in margins)]
    for _ in range(_ROWS_ROUNDS):
        off = 0.0
        for axes in largest:
            others = tuple(axis for axis in range(table.ndim) if axis not in axes)
            has, should = fitted.sum(axis=others, keepdims=True), wanted.sum(axis=others, keepdims=True)
            off = max(off, float(np.abs(has - should).max()))
            fitted = fitted * np.divide(should, has, out=np.zeros_like(has), where=has > 0)
        if off < _FITTED:
            break
    return np.asarray(fitted / fitted.sum())


@dataclass(frozen=True)
class SyntheticEstimate(Result):
    """A number computed on every synthetic data set, and combined.

    Attributes
    ----------
    estimate, standard_error
        The mean of the results, and √((1 + 1/m)·B) with B their variance over m data sets.
    results
        One per data set.
    """

    estimate: float
    standard_error: float
    results: tuple[float, ...] = field(repr=False)

    def population_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population: Student's t with m − 1 degrees of freedom."""
        tail = (1 + requirements.level(level)) / 2
        reach = float(scipy.special.stdtrit(len(self.results) - 1, tail)) * self.standard_error
        return Interval(self.estimate - reach, self.estimate + reach, level)

    def heading(self) -> str:
        return "Estimate from synthetic rows"

    def facts(self) -> Facts:
        """The facts to show."""
        return [
            ("estimate", number(self.estimate)),
            ("standard error", number(self.standard_error)),
            ("95 % interval", str(self.population_interval())),
            ("data sets", str(len(self.results))),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {
            "estimate": self.estimate,
            "standard_error": self.standard_error,
            "population_interval": self.population_interval().to_dict(),
            "results": list(self.results),
        }


@dataclass(frozen=True)
class SyntheticRows:
    """Several synthetic data sets, each as counts over the table of all columns.

    Attributes
    ----------
    columns
        The labels of every column.
    counts
        One table per data set.
    """

    columns: Mapping[str, Sequence[Any]]
    counts: tuple[NDArray[np.int64], ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.counts)

    def table(self, position: int) -> pa.Table:
        """One data set as an Arrow table, one row per synthetic row."""
        import pyarrow as pa

        counts = self.counts[position]
        places = np.repeat(np.arange(counts.size), counts.ravel())
        codes = np.unravel_index(places, counts.shape)
        return pa.table(
            {
                name: pa.array([labels[code] for code in column.tolist()])
                for (name, labels), column in zip(self.columns.items(), codes, strict=True)
            }
        )

    def estimate(self, analysis: Callable[[pa.Table], float]) -> SyntheticEstimate:
        """Run an analysis on every data set and combine the results.

        Each result differs from the population by sampling and noise, once in the data and once more in the synthetic
        rows, so the variance of the mean of m results is (1 + 1/m) times their variance.
        """
        results = np.array([float(analysis(self.table(position))) for position in range(len(self))])
        between = float(results.var(ddof=1))
        error = math.sqrt((1 + 1 / results.size) * between)
        return SyntheticEstimate(float(results.mean()), error, tuple(results.tolist()))


Place = Mapping[int, int]
"""A cell: its position along each of its axes."""


@dataclass(frozen=True)
class MeasuredMargins:
    """The counts of a release of margins.

    Attributes
    ----------
    components
        What was measured; a public total is one of them.
    noise
        The mechanism that made them.
    tables
        Axes of the wanted tables.
    possible
        False for cells of the table of all axes that cannot have rows; None where all can.
    """

    components: Mapping[Axes, Array]
    noise: MarginsNoise
    tables: Sequence[Axes]
    possible: NDArray[np.bool_] | None

    @property
    def fits(self) -> bool:
        """True where the table of all axes is small enough to be computed."""
        return math.prod(self.noise.sizes) <= MOST_PRESENTED

    def margin(self, axes: Axes) -> Array:
        """Any margin of a wanted table."""
        return margin_of(self.components, self.noise.sizes, axes)

    def at(self, place: Place) -> float:
        """One cell."""
        axes = tuple(sorted(place))
        return float(self.margin(axes)[tuple(place[axis] for axis in axes)])

    def covariance(self, one: Sequence[tuple[Place, float]], other: Sequence[tuple[Place, float]]) -> float:
        """Noise covariance of two weighted sums of cells."""
        variances = self.noise.variances()
        return sum(
            first * second * cell_covariance(variances, self.noise.sizes, cell, another)
            for cell, first in one
            for another, second in other
        )

    def presented(self) -> NDArray[np.int64]:
        """The table of all axes in whole numbers whose margins are presented."""
        near = self._nearest(self.components)
        return whole_table(near, max(round(float(self.components[()])), 0), self.tables, self.possible)

    @cached_property
    def pairs(self) -> Mapping[Axes, NDArray[np.int64]] | None:
        """Presented margins where the table of all axes is too large; None where one of more than two is wanted."""
        if max(map(len, self.tables)) > 2:
            return None
        margins = {axes: self.margin(axes) for axes in below(self.tables)}
        return whole_pairs(margins, max(round(float(self.components[()])), 0))

    def synthetic(self, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Fresh noise on the measurement, the nearest possible table, the model of its margins, and rows from it."""
        nothing = np.zeros(self.noise.dimension, dtype=np.int64)
        parts = dict(self.components)
        for one, block in self.noise.blocks(self.noise.measure(nothing, rng=rng)):
            if one.layer == 0:
                parts[one.axes] = parts[one.axes] + block
        shares = maximum_entropy(self._nearest(parts), self.tables, self.possible)
        return rng.multinomial(rows, shares.ravel()).reshape(shares.shape).astype(np.int64)

    def _nearest(self, components: Mapping[Axes, Array]) -> Array:
        variances = {(): 0.0, **self.noise.variances()}  # a public total is known
        return nearest_table(components, variances, self.noise.sizes, self.possible)


# ---- Margin table: one released table cell by cell, and combinations of cells, with intervals and flags


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


def unrelated(table: Array) -> Array:
    """Cell probabilities where rows and columns are independent, from the margins of a noisy table."""
    return np.asarray(np.outer(*(_possible_shares(table.sum(axis=axis)) for axis in (1, 0))))


def _possible_shares(counts: Array) -> Array:
    total = max(float(counts.sum()), 1.0)
    projected = onto_simplex(counts, total)
    return np.asarray(projected / projected.sum())
