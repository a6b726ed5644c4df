"""Releases of tables: margins, proportions and what can be said about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from discreet.core.display import Facts
from discreet.core.errors import InvalidParameter
from discreet.core.interval import Interval
from discreet.questions.tables import ContingencyTable
from discreet.releases import Release

if TYPE_CHECKING:
    from discreet.inference.association import CramersV, OddsRatio
    from discreet.inference.monte_carlo import MonteCarlo
    from discreet.inference.table_intervals import CellEstimates

__all__ = ["TableRelease"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TableRelease(Release):
    """A released `ContingencyTable`; everything below is post-processing."""

    @property
    def table(self) -> ContingencyTable:
        """The public description of the cells."""
        return cast(ContingencyTable, self.statistic)

    @property
    def total(self) -> float:
        """The number of rows: exact where it is public, otherwise the noisy total."""
        from discreet.inference.measured_table import measured_table

        measured = measured_table(self)
        return float(measured.n) if measured.n is not None else float(measured.cells.sum())

    def facts(self) -> Facts:
        """What to show: one line a cell, where the law of its noise is known."""
        facts = super().facts()
        try:
            cells = self.counts().facts()
        except InvalidParameter:
            return facts
        common = [fact for fact in facts if fact[0] not in ("value", "95 % interval")]
        return [*cells, ("intervals", "95 %, for the noise"), *common]

    def heading(self) -> str:
        return f"{super().heading()} by {', '.join(self.table.axes)}"

    def counts(self) -> CellEstimates:
        """Every cell, with intervals for the true counts (noise) and for shares of the population."""
        return self.margin(*self.table.axes)

    def margin(self, *columns: str) -> CellEstimates:
        """Counts by some of the columns, summed over the others."""
        from discreet.inference.table_intervals import margin

        return margin(self, self._axes(columns))

    def proportions(self, *columns: str) -> CellEstimates:
        """Shares of the population by cell, or by some of the columns, with intervals for sampling and noise."""
        from discreet.inference.table_intervals import proportions

        return proportions(self, self._axes(columns or self.table.axes))

    def population_interval(self, level: float = 0.95) -> Interval:
        """Intervals for the population's share of every cell: sampling and noise together."""
        return self.proportions().confidence_interval(level)

    def odds_ratio(self) -> OddsRatio:
        """Odds ratio of a 2 × 2 table."""
        from discreet.inference.association import odds_ratio

        return odds_ratio(self)

    def cramers_v(self, null: MonteCarlo | None = None) -> CramersV:
        """Strength of association in a two-way table, from 0 to 1."""
        from discreet.inference.association import cramers_v

        return cramers_v(self, null)

    def _axes(self, columns: tuple[str, ...]) -> tuple[int, ...]:
        known = self.table.axes
        for column in columns:
            if column not in known:
                raise InvalidParameter("column", column, f"must be one of {list(known)}", "Check the spelling.")
        if not columns or len(set(columns)) != len(columns):
            raise InvalidParameter(
                "columns", columns, "must be different columns, at least one", "Name each column once."
            )
        return tuple(known.index(column) for column in columns)
