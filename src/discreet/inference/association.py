"""Association in released two-way tables: odds ratio and Cramér's V, with intervals for sampling and noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.display import number
from discreet.inference.measured_table import MeasuredTable, independent_table
from discreet.inference.monte_carlo import MonteCarlo
from discreet.interval import Interval
from discreet.result import Result

if TYPE_CHECKING:
    from discreet.releases import Release

__all__ = ["CramersV", "OddsRatio", "cramers_v", "odds_ratio"]

Array = NDArray[np.float64]
_RATIOS = (1e-6, 1e6)
"""Odds ratios that are told from 0 and from infinity."""
_STRENGTHS = 33
"""Strengths of association that are simulated, finer near 0."""


@dataclass(frozen=True)
class OddsRatio(Result):
    """Odds ratio of a 2 × 2 table, ad/bc; infinite or NaN where noise leaves nothing to divide by."""

    estimate: float
    _table: MeasuredTable = field(repr=False)

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """The ratios ψ whose simulated releases do not make ad − ψ·bc extreme: a test, inverted.

        It needs no logarithm of a noisy cell and holds for small cells. It is unbounded above where the data cannot
        exclude that: from 0 to infinity, noise or sampling error hide the association altogether.
        """
        checked = requirements.level(level)
        ratios = np.geomspace(*_RATIOS, 41)
        if _RATIOS[0] < self.estimate < _RATIOS[1]:  # where the departure is 0: a narrow interval lies between others
            ratios = np.sort(np.append(ratios, self.estimate))
        held = np.flatnonzero(self.accepts(ratios, checked))
        if held.size == 0:
            return Interval(0.0, math.inf, checked)
        first, last = int(held[0]), int(held[-1])
        low = 0.0 if first == 0 else self._edge(float(ratios[first]), float(ratios[first - 1]), checked)
        furthest = last == ratios.size - 1
        high = math.inf if furthest else self._edge(float(ratios[last]), float(ratios[last + 1]), checked)
        inside = self.estimate if not math.isnan(self.estimate) else low
        return Interval(min(low, inside), max(high, inside), checked)

    def _edge(self, inner: float, outer: float, level: float) -> float:
        """Where acceptance ends between an accepted ratio and one that is not, rounded outwards."""
        ratios = np.geomspace(inner, outer, 13)
        held = np.flatnonzero(self.accepts(ratios, level))
        return float(ratios[min(int(held[-1]) + 1 if held.size else 1, 12)])

    def accepts(self, ratios: Array, level: float = 0.95) -> NDArray[np.bool_]:
        """Whether the test of each ψ does not reject it: ad − ψ·bc has mean 0 whatever the margins are."""
        tail = (1 - level) / 2
        table, rng = self._table, np.random.default_rng(0)  # the same release gives the same interval
        draws = max(399, math.ceil(15 / tail))
        shares = np.array([_with_ratio(*_margins(table), ratio) for ratio in ratios.tolist()])
        counts = rng.multinomial(table.rows, shares, (draws, ratios.size))
        drawn, found = (
            x[..., 0] * x[..., 3] - ratios * x[..., 1] * x[..., 2] for x in (table.remeasured(counts, rng), table.cells)
        )
        below, above = ((1 + (side * drawn <= side * found).sum(axis=0)) / (1 + draws) for side in (1, -1))
        return np.asarray(np.minimum(below, above) >= tail)

    def to_dict(self) -> dict[str, Any]:
        """Estimate and 95 % interval as JSON-ready data; infinite ends become null."""
        interval = self.confidence_interval()
        ends = [float(end) if math.isfinite(end) else None for end in (interval.low, interval.high)]
        estimate = self.estimate if math.isfinite(self.estimate) else None
        return {"estimate": estimate, "low": ends[0], "high": ends[1], "level": interval.level}

    def facts(self) -> list[tuple[str, str]]:
        """What to show."""
        return [("estimate", number(self.estimate)), ("interval", str(self.confidence_interval()))]

    def heading(self) -> str:
        return "Odds ratio"


def _margins(table: MeasuredTable) -> tuple[float, float]:
    """Shares of the first row and the first column, kept off the ends by one row and by the noise of a margin."""
    square = table.cells.reshape(2, 2)
    least = 1 + math.sqrt(2 * table.variance)
    first, second = ((float(part) + least) / (table.size + 2 * least) for part in (square[0].sum(), square[:, 0].sum()))
    edge = least / (table.size + 2 * least)
    return min(max(first, edge), 1 - edge), min(max(second, edge), 1 - edge)


def _with_ratio(row: float, column: float, ratio: float) -> Array:
    """The 2 × 2 shares with these margins and this odds ratio (Plackett 1965)."""
    if abs(ratio - 1) < 1e-9:
        first = row * column
    else:
        s = 1 + (row + column) * (ratio - 1)
        first = (s - math.sqrt(max(s * s - 4 * row * column * ratio * (ratio - 1), 0.0))) / (2 * (ratio - 1))
    first = min(max(first, row + column - 1, 0.0), row, column)
    shares = np.maximum([first, row - first, column - first, 1 - row - column + first], 0.0)
    return np.asarray(shares / shares.sum())


def odds_ratio(release: Release) -> OddsRatio:
    """Odds ratio of a released 2 × 2 table."""
    table = _two_way(release)
    if table.shape != (2, 2):
        raise InvalidParameter("release", f"shape {table.shape}", "must be a 2 × 2 table", "Release such a table.")
    a, b, c, d = (float(cell) for cell in table.cells)
    upper, lower = max(a, 0.0) * max(d, 0.0), max(b, 0.0) * max(c, 0.0)
    estimate = upper / lower if lower > 0 else (math.inf if upper > 0 else math.nan)
    return OddsRatio(estimate, table)


@dataclass(frozen=True)
class CramersV(Result):
    """Cramér's V of a two-way table, with what noise adds to it taken away."""

    estimate: float
    _strengths: Array = field(repr=False)
    _below: Array = field(repr=False)
    _above: Array = field(repr=False)

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """The strengths whose simulated releases do not make the released table extreme: a test, inverted.

        An interval from 0 to 1 says that noise or sampling error hide the association altogether.
        """
        checked = requirements.level(level)
        tail = (1 - checked) / 2
        held = np.flatnonzero((self._below >= tail) & (self._above >= tail))
        if held.size == 0:  # between two strengths of the grid
            held = np.array([np.argmax(np.minimum(self._below, self._above))])
        first, last = int(held[0]), int(held[-1])
        low = 0.0 if first == 0 else float(self._strengths[first - 1])
        high = 1.0 if last == self._strengths.size - 1 else float(self._strengths[last + 1])
        return Interval(min(low, self.estimate), max(high, self.estimate), checked)

    def to_dict(self) -> dict[str, Any]:
        """Estimate and 95 % interval as JSON-ready data."""
        return {"estimate": self.estimate, **self.confidence_interval().to_dict()}

    def facts(self) -> list[tuple[str, str]]:
        """What to show."""
        return [("estimate", number(self.estimate)), ("interval", str(self.confidence_interval()))]

    def heading(self) -> str:
        return "Cramér's V"


def cramers_v(release: Release, null: MonteCarlo | None = None) -> CramersV:
    """Cramér's V of a released two-way table.

    Tables of every strength are simulated through the same noise: those between independence, with the measured
    margins, and the farthest table in the direction of the measured departure that has no negative cell.
    """
    table = _two_way(release)
    method = null or MonteCarlo(n_resamples=499)
    rng = method.generator()
    independent, departure = _family(table)
    most = float(np.min(independent[departure < 0] / -departure[departure < 0]))
    observed = _squared(table.cells, table)
    tails, strengths = [], []
    for share in np.linspace(0.0, 1.0, _STRENGTHS) ** 2:
        shares = np.maximum(independent + share * most * departure, 0.0)
        counts = rng.multinomial(table.rows, shares / shares.sum(), size=method.n_resamples)
        drawn = _squared(table.remeasured(counts, rng), table)
        tails.append([method.pvalue(-float(observed), -drawn), method.pvalue(float(observed), drawn)])
        strengths.append(_strength(shares.reshape(table.shape)))
    below, above = np.array(tails).T
    estimate = float(np.sqrt(np.clip(observed, 0.0, 1.0)))
    return CramersV(estimate, np.array(strengths), below, above)


def _family(table: MeasuredTable) -> tuple[Array, Array]:
    """Shares under independence with the measured margins, and the measured departure from them."""
    square = table.shares().reshape(table.shape)
    by_row, by_column = (np.maximum(square.sum(axis=axis), 1e-9) for axis in (1, 0))
    independent = np.outer(by_row / by_row.sum(), by_column / by_column.sum())
    departure = square - independent
    if np.max(np.abs(departure)) < 1e-9:  # nothing was measured: any direction that keeps the margins
        slopes = [share * (place - share @ place) for share, place in _places(by_row, by_column)]
        departure = np.outer(*slopes)
    return independent.ravel(), departure.ravel()


def _places(*margins: Array) -> list[tuple[Array, Array]]:
    return [(margin / margin.sum(), np.arange(margin.size, dtype=float)) for margin in margins]


def _strength(shares: Array) -> float:
    """Cramér's V of a population."""
    expected = np.outer(shares.sum(axis=1), shares.sum(axis=0)) / shares.sum()
    squared = ((shares - expected) ** 2 / np.maximum(expected, 1e-300)).sum() / shares.sum()
    return math.sqrt(min(float(squared) / (min(shares.shape) - 1), 1.0))


def _squared(cells: Array, table: MeasuredTable) -> Array:
    """V² from measurements (last axis): Σ(x − E)²/E without what noise and sampling add on average.

    It is negative where they added less; simulated and released values are compared as they are.
    """
    rows, columns = table.shape
    square = cells.reshape(*cells.shape[:-1], rows, columns)
    size = np.maximum(square.sum(axis=(-2, -1)), 1.0)[..., None, None]
    by_row = np.maximum(square.sum(axis=-1), 0.5)[..., :, None]
    by_column = np.maximum(square.sum(axis=-2), 0.5)[..., None, :]
    expected = by_row * by_column / size
    excess = (square - expected) ** 2 / expected
    free_rows, free_columns = 1 - by_row / size, 1 - by_column / size
    share = (rows - 1) * (columns - 1) / (rows * columns)
    added = np.clip(free_rows * free_columns, 0.0, 1.0) + table.variance * share / expected
    return np.asarray((excess - added).sum(axis=(-2, -1)) / size[..., 0, 0] / (min(rows, columns) - 1))


def _two_way(release: Release) -> MeasuredTable:
    table = independent_table(release)
    if len(table.shape) != 2 or min(table.shape) < 2:
        raise InvalidParameter(
            "release", f"shape {table.shape}", "must have two axes of at least two cells", "Release such a table."
        )
    return table
