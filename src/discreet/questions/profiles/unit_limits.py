"""Unit limits: how many rows units have, and the limit that loses least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from discreet.contract.mechanism import Mechanism
from discreet.core.guarantee import Guarantee
from discreet.core.sensitivity import Sensitivity
from discreet.interval import Interval
from discreet.mechanisms.additive import additive_noise
from discreet.questions.profiles.cell_edges import UNIT_SIZES
from discreet.questions.profiles.column_profile import Estimate, percent
from discreet.questions.profiles.found_bounds import CellCounts

__all__ = ["UnitSizes"]


@dataclass(frozen=True)
class UnitSizes:
    """The released distribution of rows per unit.

    Attributes
    ----------
    counts
        Noisy numbers of units, between the sizes of `cell_edges.UNIT_SIZES`.
    mechanism
        Whose noise they carry.
    guarantee
        At which guarantee limits are compared: the profile's own.
    """

    counts: Sequence[float]
    mechanism: Mechanism
    guarantee: Guarantee

    @cached_property
    def _cells(self) -> CellCounts:
        return CellCounts(tuple(map(float, UNIT_SIZES)), np.asarray(self.counts, dtype=float), self.mechanism)

    @cached_property
    def _units(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Sizes and how many units have each; what noise explains counts as nothing."""
        cells = self._cells
        run = cells.standing_out() or (0, 0)
        sizes = [(low + high - 1) / 2 for low, high in pairwise((1, *UNIT_SIZES, 2 * UNIT_SIZES[-1]))]
        inside = np.arange(len(sizes))
        kept = np.where((inside >= run[0]) & (inside <= run[1]), np.maximum(cells.counts, 0.0), 0.0)
        return np.asarray(sizes), kept

    @property
    def rows(self) -> float:
        """About how many rows there are; those of the largest units are counted too low."""
        sizes, units = self._units
        return float(sizes @ units)

    def dropped(self, limit: int) -> float:
        """About which proportion of the rows lies beyond a limit."""
        sizes, units = self._units
        return float(np.maximum(sizes - limit, 0) @ units / max(self.rows, 1.0))

    def error(self, limit: int) -> float:
        """Error of a count of all rows under a limit: what it drops, and the noise that it costs, in rows."""
        noise = additive_noise(self.guarantee, Sensitivity(moves=(1.0,)), whole=True).law(0.0).variance
        return float(np.hypot(self.dropped(limit) * self.rows, limit * np.sqrt(np.max(np.asarray(noise)))))

    @cached_property
    def best_limit(self) -> int:
        """The limit whose error is least."""
        return min((edge - 1 for edge in UNIT_SIZES), key=self.error)

    def whole(self, level: float) -> Estimate:
        """Proportion of the units that the best limit leaves whole, with an interval that holds for every limit."""
        beyond, least, most = self._cells.beyond(UNIT_SIZES.index(self.best_limit + 1), level)
        units = max(float(self._cells.counts.sum()), 1.0)
        kept = [min(max(1 - lost / units, 0.0), 1.0) for lost in (beyond, most, least)]
        return Estimate(kept[0], Interval(kept[1], kept[2], level))

    def words(self, unit: str) -> str:
        """The limit, and what it loses, in a sentence."""
        best, whole = self.best_limit, self.whole(0.95)
        sizes, units = self._units
        usual = float(sizes @ units / max(units.sum(), 1.0))
        return (
            f"about {usual:.3g}; a limit of {best} loses least: {percent(whole.value)} (at least "
            f"{percent(float(whole.interval.low))}) of the {unit}s have no more, it drops about "
            f"{100 * self.dropped(best):.1f} % of the rows, and the error of a count at this guarantee is about "
            f"{self.error(best):,.0f} rows"
        )
