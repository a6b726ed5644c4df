"""Cell estimates: the cells and margins of a released table, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # whose submodules load when first used
from numpy.typing import DTypeLike, NDArray

from discreet.core import requirements
from discreet.display import number
from discreet.inference.measured_table import MeasuredTable, measured_table
from discreet.inference.noise_sum import NoiseSum, coarse, sum_quantile
from discreet.inference.whole_counts import whole_count, whole_interval
from discreet.interval import Interval
from discreet.publish.charts import plot_readings
from discreet.publish.readings import Reading
from discreet.publish.tidy import Row, Tidy, tidy_rows

if TYPE_CHECKING:
    from discreet.questions.table import TableRelease

__all__ = ["CellEstimates", "margin", "proportions"]

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

    def confidence_interval(self, level: float = 0.95, *, simultaneous: bool = False) -> Interval:
        """Intervals cell by cell, or for all cells at once.

        Counts: for the true count in the data; only the noise is uncertain. Shares: for the population's share, by
        inverting a score test with the variance of sampling plus noise. Simultaneous intervals use Šidák's inequality,
        which holds for normal errors whatever their correlation.

        Parameters
        ----------
        level
            Confidence level.
        simultaneous
            Whether ``level`` is for all cells together.
        """
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
        """How many standard deviations the noise of a count stays below, where a normal one stays below z."""
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
        interval = self.confidence_interval()
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
            "confidence_interval": self.confidence_interval().to_dict(),
        }

    def readings(self) -> list[Reading]:
        """Every cell with its 95 % interval: of counts for the noise, of shares for the population."""
        interval = self.confidence_interval()
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
