"""Association in released two-way tables: odds ratio and Cramér's V, with intervals for sampling and noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

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
        z2 = float(ndtri((1 - checked) / 2)) ** 2
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
    _draws: Array = field(repr=False)

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """Basic bootstrap interval: simulated tables around the estimate, through the same noise."""
        checked = requirements.level(level)
        tail = (1 - checked) / 2
        low, high = np.quantile(self._draws, [tail, 1 - tail])
        ends = 2 * self.estimate - high, 2 * self.estimate - low
        return Interval(float(np.clip(ends[0], 0, 1)), float(np.clip(ends[1], 0, 1)), checked)

    @property
    def standard_error(self) -> float:
        """Standard deviation of the simulated estimates."""
        return float(self._draws.std())

    def to_dict(self) -> dict[str, Any]:
        """Estimate and 95 % interval as JSON-ready data."""
        return {"estimate": self.estimate, **self.confidence_interval().to_dict()}

    def facts(self) -> list[tuple[str, str]]:
        """What to show."""
        return [("estimate", number(self.estimate)), ("interval", str(self.confidence_interval()))]

    def heading(self) -> str:
        return "Cramér's V"


def cramers_v(release: Release, null: MonteCarlo | None = None) -> CramersV:
    """Cramér's V of a released two-way table."""
    table = _two_way(release)
    method = null or MonteCarlo(n_resamples=1999)
    rng = method.generator()
    counts = rng.multinomial(table.rows, table.shares(), size=method.n_resamples)
    draws = _association(table.remeasured(counts, rng), table)
    return CramersV(float(_association(table.cells, table)), draws)


def _association(cells: Array, table: MeasuredTable) -> Array:
    """V from measurements (last axis): Σ(x − E)²/E without the part that noise and sampling add on average."""
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
    squared = (excess - added).sum(axis=(-2, -1)) / size[..., 0, 0] / (min(rows, columns) - 1)
    return np.asarray(np.sqrt(np.clip(squared, 0.0, 1.0)))


def _two_way(release: Release) -> MeasuredTable:
    table = independent_table(release)
    if len(table.shape) != 2 or min(table.shape) < 2:
        raise InvalidParameter(
            "release", f"shape {table.shape}", "must have two axes of at least two cells", "Release such a table."
        )
    return table
