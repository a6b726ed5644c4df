"""Association in released two-way tables: odds ratio and Cramér's V, with intervals for sampling and noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # whose submodules load when first used
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.display import number
from discreet.core.errors import InvalidParameter
from discreet.core.interval import Interval
from discreet.core.result import Result
from discreet.inference.measured_table import MeasuredTable, independent_table
from discreet.inference.monte_carlo import MonteCarlo

if TYPE_CHECKING:
    from discreet.releases import Release

__all__ = ["CramersV", "OddsRatio", "cramers_v", "odds_ratio"]

Array = NDArray[np.float64]
_STRENGTHS = 33
"""Strengths of association that are simulated, finer near 0."""


@dataclass(frozen=True)
class OddsRatio(Result):
    """Odds ratio of a 2 × 2 table, ad/bc; infinite or NaN where noise leaves nothing to divide by."""

    estimate: float
    _cells: Array = field(repr=False)
    _covariance: Array = field(repr=False)

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """Fieller's interval: the ratios ψ for which ad − ψ·bc is no more than z standard errors from zero.

        It needs no logarithm of a noisy cell and may be unbounded above, where the data cannot exclude that. An
        interval from 0 to infinity says that noise or sampling error hide the association altogether.
        """
        checked = requirements.level(level)
        z2 = float(scipy.special.ndtri((1 - checked) / 2)) ** 2
        a, b, c, d = self._cells
        upper, lower = a * d, b * c
        gradient_upper, gradient_lower = np.array([d, 0, 0, a]), np.array([0, c, b, 0])
        spread = self._covariance
        # Products of two noisy cells also vary at second order, which matters where cells are near zero.
        own = np.diag(spread)
        uu = gradient_upper @ spread @ gradient_upper + own[0] * own[3]
        ll = gradient_lower @ spread @ gradient_lower + own[1] * own[2]
        ul = gradient_upper @ spread @ gradient_lower
        return Interval(*_fieller(upper, lower, z2 * uu, z2 * ul, z2 * ll), checked)

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


def _fieller(upper: float, lower: float, uu: float, ul: float, ll: float) -> tuple[float, float]:
    """The non-negative ψ with (upper − ψ·lower)² ≤ uu − 2ψ·ul + ψ²·ll, as one interval."""
    a, b, c = lower**2 - ll, upper * lower - ul, upper**2 - uu
    inside = b**2 - a * c
    if a <= 0:
        # ψ = ∞ is not excluded. The set is everything, or everything beyond a root.
        if inside <= 0 or c <= 0:
            return 0.0, math.inf
        roots = sorted([(b - math.sqrt(inside)) / a, (b + math.sqrt(inside)) / a]) if a < 0 else [0.0, c / (2 * b)]
        return (max(roots[1], 0.0), math.inf) if roots[1] > 0 else (0.0, math.inf)
    root = math.sqrt(max(inside, 0.0))
    return max((b - root) / a, 0.0), max((b + root) / a, 0.0)


def odds_ratio(release: Release) -> OddsRatio:
    """Odds ratio of a released 2 × 2 table."""
    table = _two_way(release)
    if table.shape != (2, 2):
        raise InvalidParameter("release", f"shape {table.shape}", "must be a 2 × 2 table", "Release such a table.")
    a, b, c, d = (float(cell) for cell in table.cells)
    upper, lower = max(a, 0.0) * max(d, 0.0), max(b, 0.0) * max(c, 0.0)
    estimate = upper / lower if lower > 0 else (math.inf if upper > 0 else math.nan)
    shares = table.shares()
    noise = np.eye(4) - (0.25 if table.n is not None else 0.0)
    sampling = np.diag(shares) - np.outer(shares, shares)
    return OddsRatio(estimate, table.cells, table.size * sampling + table.variance * noise)


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
