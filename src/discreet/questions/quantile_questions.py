"""Questions about the distribution of a number: its quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.guarantee import Guarantee
from discreet.core.schema import Bounds
from discreet.mechanisms.choices.quantile_choice import QuantileChoice
from discreet.questions.quantiles import MOST_POINTS, Quantiles
from discreet.questions.question import Histograms, PublicFacts, Question, Selection

__all__ = ["QuantileQuestions"]


class QuantileQuestions(PublicFacts):
    """Makes questions about ranks."""

    def quantile(
        self,
        column: str,
        probabilities: float | Sequence[float],
        guarantee: Guarantee,
        chosen: Selection,
        *,
        interval: float | None = None,
        rows_at_least: int | None = None,
        recursive: bool = False,
    ) -> Question:
        """Quantiles of a column, in all or by group."""
        fine = self._values(column, chosen)
        bounds, coarse = _coarsened(fine)
        if rows_at_least is not None:  # k rows of a unit say no more of the population than one of them, at the worst
            sampled = requirements.positive_integer("rows_at_least", rows_at_least)
            rows_at_least = max(1, sampled // self._limits(chosen).most_rows(1))
        statistic = Quantiles(
            probabilities=probabilities
            if isinstance(probabilities, float | int)
            else requirements.listed("probabilities", probabilities, "a quantile such as 0.5, or a list of them"),
            bounds=bounds,
            interval=interval,
            rows_at_least=rows_at_least,
            recursive=recursive,
        )
        groups = self.schema.cells(chosen.by)
        rows = self._limits(chosen).most_rows(groups)
        sensitivity = statistic.sensitivity(
            neighbours=self.schema.neighbours, rows_per_unit=rows, grouped=bool(chosen.by)
        )

        def value(found: Histograms) -> Any:
            return _stacked([statistic.whole((steps + coarse // 2) // coarse, rows) for steps, rows in found], bounds)

        mechanism = QuantileChoice.calibrate(guarantee, sensitivity, statistic=statistic, groups=groups)
        return Question(
            guarantee=guarantee,
            statistic=self._grouped(statistic, chosen.by),
            sensitivity=sensitivity,
            mechanism=mechanism,
            by=chosen.by,
            columns=(column,),
            contribution=chosen.contribution,
            unit_sum=chosen.unit_sum,
            public={},
            from_histograms=value,
            read="ranks",
            bound=mechanism.rank_error,
        )


def _coarsened(bounds: Bounds) -> tuple[Bounds, int]:
    """The column's grid, or the finest multiple of it with few enough points to weigh each."""
    coarse = 1
    while (bounds.highest - bounds.lowest) // coarse >= MOST_POINTS:
        coarse *= 10
    if coarse == 1:
        return bounds, 1
    step = bounds.step * coarse
    low, high = (bounds.lowest + coarse // 2) // coarse, (bounds.highest + coarse // 2) // coarse
    return Bounds(float(low * step), float(high * step), grid=float(step)), coarse


def _stacked(histograms: list[NDArray[np.int64]], bounds: Bounds) -> NDArray[np.int64]:
    """Histograms of groups one after another on one long grid."""
    shifted = [np.array([one[0] + group * bounds.cells, one[1]]) for group, one in enumerate(histograms)]
    return np.concatenate(shifted, axis=1)
