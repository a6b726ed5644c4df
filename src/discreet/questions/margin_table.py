"""Margin table: one released table cell by cell, and combinations of cells, with intervals and flags."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.display import Facts, number
from discreet.interval import Interval
from discreet.publish.charts import plot_readings
from discreet.publish.readings import CAUTION, UNRELIABLE, Reading
from discreet.publish.tidy import Tidy
from discreet.result import Result

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Combination", "MarginTable"]

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

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """Interval for the number in the data, from the known law of the noise."""
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
        """What to show."""
        return [
            ("estimate", number(self.estimate)),
            ("standard error", number(self.standard_error)),
            ("95 % interval", str(self.confidence_interval())),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Estimate, standard error and 95 % interval as JSON-ready data."""
        interval = self.confidence_interval().to_dict()
        return {"estimate": self.estimate, "standard_error": self.standard_error, "confidence_interval": interval}


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

    @property
    def published(self) -> Array:
        """What to print: presented counts, or measured ones without negative values."""
        measured = np.where(self.possible, np.maximum(self.estimate, 0.0), 0.0)
        return measured if self.presented is None else self.presented.astype(float)

    def confidence_interval(self, level: float = 0.95, *, simultaneous: bool = False) -> Interval:
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
        noise = self.confidence_interval(level)
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
        """How reliable each cell is, by its standard error over its count.

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

    def rows(self, level: float = 0.95, *, minimum: int = 0) -> list[dict[str, Any]]:
        """Tidy rows, one per cell, ready for any frame.

        Parameters
        ----------
        level
            Of the intervals.
        minimum
            Counts below this public number are left out (None) and flagged "small": a rule of published numbers alone.
        """
        noise, population, flags = self.confidence_interval(level), self.population_interval(level), self.flags()
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

    def to_arrow(self, level: float = 0.95, *, minimum: int = 0) -> pa.Table:
        """The tidy rows as an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_pylist(self.rows(level, minimum=minimum))

    def readings(self, level: float = 0.95) -> list[Reading]:
        """Every cell as it is published, with both intervals; and the mean in it, where a number was summed."""
        name = " × ".join(self.columns) or "total"
        found = []
        for row in self.rows(level):
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
        interval = self.confidence_interval()
        parts = (np.ravel(np.asarray(part)).tolist() for part in (self.published, interval.low, interval.high))
        names = [", ".join(map(str, cell)) or "total" for cell in product(*self.labels)]
        lines = [
            (name, f"{number(value)}  ({number(low)} to {number(high)})")
            for name, value, low, high in zip(names, *parts, strict=True)
        ]
        hidden = len(lines) - _SHOWN
        return [*lines[:_SHOWN], ("…", f"{hidden} more cells")] if hidden > 0 else lines

    def to_dict(self) -> dict[str, Any]:
        """Columns and tidy rows as JSON-ready data."""
        return {"columns": list(self.columns), "rows": self.rows()}
