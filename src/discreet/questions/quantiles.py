"""Quantiles: values below which given shares of the rows lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.exact import Exact
from discreet.core.protection import ROW, Neighbours, Protection, Unit
from discreet.core.rounding import decimal, not_below
from discreet.core.schema import Bounds
from discreet.core.sensitivity import Sensitivity
from discreet.core.statistic import Statistic
from discreet.releases import Release

__all__ = ["MOST_POINTS", "Quantiles"]

MOST_POINTS = 2**22
"""Finest grid for quantiles; every point is a candidate that must be weighed."""


@dataclass(frozen=True, kw_only=True)
class Quantiles(Statistic):
    """One quantile or several of a column with a public grid; protect them with `QuantileChoice`.

    Parameters
    ----------
    probabilities
        A share such as 0.5 for the median, or several.
    bounds
        The column's public limits and grid.
    interval
        Confidence level of an interval to be published with each quantile; None publishes the quantiles alone,
        with three times the budget each.
    rows_at_least
        Public lower bound on the number of rows: the interval then covers the quantile of the population the rows
        are a random sample of; without it, the quantile of the data.
    recursive
        Choose several quantiles by splitting the data, so that the cost grows with the logarithm of their number.

    Notes
    -----
    **Guarantee.** A unit with m rows changes the distance of any point from a target rank by at most
    m·max(q, 1−q) under add/remove and m under replace-one (``docs/proofs/quantile.md``).

    Examples
    --------
    >>> median = Quantiles(probabilities=0.5, bounds=Bounds(0, 100, grid=1))
    >>> median.sensitivity(neighbours=Neighbours.ADD_REMOVE).l1
    0.5
    """

    name: ClassVar[str] = "quantiles"
    probabilities: float | tuple[float, ...]
    bounds: Bounds
    interval: float | None = None
    rows_at_least: int | None = None
    recursive: bool = False

    def __post_init__(self) -> None:
        given: Any = self.probabilities
        if isinstance(given, np.ndarray) and given.ndim == 0:
            given = given.item()
        many = tuple(given) if isinstance(given, Sequence | np.ndarray) else (given,)
        clean = tuple(requirements.probability("probabilities", q, below_one=False) for q in many)
        if not clean or len(set(clean)) != len(clean) or 0 in clean or 1 in clean:
            raise InvalidParameter(
                "probabilities", given, "must be different numbers strictly between 0 and 1", "Pass 0.5, for example."
            )
        object.__setattr__(self, "probabilities", clean if isinstance(given, Sequence | np.ndarray) else clean[0])
        if isinstance(self.bounds, dict):
            object.__setattr__(self, "bounds", _bounds(self.bounds))
        requirements.instance("bounds", self.bounds, Bounds, "Bounds(0, 100, grid=1)")
        if self.bounds.cells > MOST_POINTS:
            raise InvalidParameter(
                "grid", self.bounds.grid, f"makes more than {MOST_POINTS:,} grid points", "Use a coarser grid."
            )
        if self.interval is not None:
            requirements.level(self.interval)
        if self.rows_at_least is not None:
            requirements.positive_integer("rows_at_least", self.rows_at_least)
        if self.recursive and self.interval is not None:
            raise InvalidParameter("recursive", True, "has no intervals", "Leave out one of the two.")

    @property
    def shares(self) -> tuple[float, ...]:
        """The probabilities as a tuple."""
        return self.probabilities if isinstance(self.probabilities, tuple) else (self.probabilities,)

    @classmethod
    def release_type(cls) -> type[Release]:
        from discreet.inference.quantile_release import QuantileRelease

        return QuantileRelease

    def parameters(self) -> dict[str, Any]:
        many = isinstance(self.probabilities, tuple)
        return {
            "probabilities": list(self.shares) if many else self.probabilities,
            "bounds": self.bounds.to_dict(),
            "interval": self.interval,
            "rows_at_least": self.rows_at_least,
            "recursive": self.recursive,
        }

    def _aims(self) -> list[float]:
        """Shares to aim at: the quantiles, each between the shares of its interval where one is wanted."""
        if self.interval is None:
            return list(self.shares)
        aims: list[float] = []
        for q in self.shares:
            low, high = (q, q) if self.rows_at_least is None else _sampling(q, self.rows_at_least, self._miss())
            aims += [low, q, high]
        return aims

    def _miss(self) -> float:
        """Error probability of each of the events that an interval rests on."""
        return (1 - cast(float, self.interval)) / (2 if self.rows_at_least is None else 4)

    def targets(self, factor: float) -> dict[str, Any]:
        """Parameters of the mechanism that depend on the statistic; ``factor`` sets the width of intervals."""
        margins = None
        if self.interval is not None:
            # Points off by more than this many ranks have probability at most `_miss` (docs/proofs/quantile.md).
            reach = math.ceil(math.log((self.bounds.cells - 1) / self._miss()) / factor * (1 + 1e-12))
            margins = (-float(reach), 0.0, float(reach)) * len(self.shares)
        return {
            "probabilities": tuple(self._aims()),
            "lowest": self.bounds.lowest,
            "highest": self.bounds.highest,
            "grid": self.bounds.grid,
            "margins": margins,
            "recursive": self.recursive,
        }

    def sensitivity(self, *, neighbours: Neighbours, rows_per_unit: int = 1, grouped: bool = False) -> Sensitivity:
        """Largest change of a rank distance; in groups, of the sum over groups of their largest changes."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        rows = requirements.positive_integer("rows_per_unit", rows_per_unit)
        if neighbours is Neighbours.REPLACE_ONE and not (self.recursive or grouped):
            return Sensitivity(l1=float(rows))
        worst = Fraction(1) if self.recursive else max(max(decimal(q), 1 - decimal(q)) for q in self._aims())
        # In parts of the data a replaced row is removed from one and added to another.
        return Sensitivity(l1=not_below(rows * worst * (2 if neighbours is Neighbours.REPLACE_ONE else 1)))

    def exact_histogram(
        self,
        steps: ArrayLike,
        counts: ArrayLike,
        *,
        neighbours: Neighbours,
        unit: Unit = ROW,
        rows_per_unit: int = 1,
    ) -> Exact:
        """The private histogram from grid steps that occur and their counts, such as a database makes."""
        return Exact(
            self.whole(np.asarray(steps, dtype=np.int64), np.asarray(counts, dtype=np.int64)),
            self.sensitivity(neighbours=neighbours, rows_per_unit=rows_per_unit),
            Protection(unit, neighbours),
            statistic=self,
        )

    def whole(self, steps: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Steps and counts with both ends of the grid, each step once. Private."""
        ends = np.array([self.bounds.lowest, self.bounds.highest])
        places, position = np.unique(np.concatenate([ends, steps]), return_inverse=True)
        if places[0] < ends[0] or places[-1] > ends[1]:
            raise InvalidParameter("steps", "…", "must lie on the grid", "Clip the data first.")
        totals = np.zeros(places.size, dtype=np.int64)
        np.add.at(totals, position, np.concatenate([[0, 0], counts]))
        return np.array([places, totals])

    def exact(self, data: ArrayLike, *, neighbours: Neighbours, unit: Unit = ROW) -> Exact:
        """The private histogram of a column; values are clipped to the bounds and rounded to the grid."""
        try:
            column = np.asarray(data, dtype=float)
        except (TypeError, ValueError, OverflowError):
            raise WrongType("data", "…", "must be a column of numbers", "Pass a list, an array or a series.") from None
        if column.ndim != 1 or not np.isfinite(column).all():
            raise InvalidParameter("data", "…", "must be one column of finite numbers", "Drop missing values first.")
        clipped = np.clip(column, self.bounds.low, self.bounds.high)
        steps = np.clip(np.floor(clipped / self.bounds.grid + 0.5), self.bounds.lowest, self.bounds.highest)
        found, counts = np.unique(steps.astype(np.int64), return_counts=True)
        return self.exact_histogram(found, counts, neighbours=neighbours, unit=unit)


def _bounds(stored: dict[str, Any]) -> Bounds:
    """Bounds that were written out as data."""
    try:
        return Bounds(**stored)
    except TypeError:
        raise InvalidParameter(
            "bounds", stored, "must hold low, high and grid", "Pass Bounds(0, 1, grid=0.1)."
        ) from None


def _sampling(q: float, rows: int, miss: float) -> tuple[float, float]:
    """Shares around q that a binomial share of at least ``rows`` draws leaves with probability ``miss`` each side."""
    from scipy import optimize, special  # heavy, and only needed for intervals

    budget = math.log(1 / miss) / rows

    def spent(share: float) -> float:
        return float(special.rel_entr(share, q) + special.rel_entr(1 - share, 1 - q)) - budget

    low = 0.0 if spent(0.0) <= 0 else float(optimize.brentq(spent, 0.0, q))
    high = 1.0 if spent(1.0) <= 0 else float(optimize.brentq(spent, q, 1.0))
    # Outwards to six digits: shares stay short decimals, so ranks stay exact.
    return float(Fraction(math.floor(low * 10**6), 10**6)), float(Fraction(math.ceil(high * 10**6), 10**6))
