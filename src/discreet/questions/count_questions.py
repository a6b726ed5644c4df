"""Questions about labels: how many rows, in which cells, and which label is the most frequent."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee, PureDP
from discreet.core.protection import Neighbours
from discreet.core.rounding import not_below
from discreet.core.schema import Contribution
from discreet.core.sensitivity import Sensitivity
from discreet.core.stability import in_parts, stability
from discreet.core.statistic import Statistic
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.choices.exponential_mechanism import ExponentialMechanism
from discreet.mechanisms.choices.permute_and_flip import PermuteAndFlip
from discreet.questions.bounded import fractions
from discreet.questions.count import Count
from discreet.questions.mean import Proportion
from discreet.questions.modes import Mode
from discreet.questions.parts import MeanInParts
from discreet.questions.question import Expected, Histograms, PublicFacts, Question, Selection
from discreet.questions.table_axes import Bins
from discreet.questions.tables import ContingencyTable

__all__ = ["CountQuestions"]


class CountQuestions(PublicFacts):
    """Makes questions that count rows."""

    def count(self, guarantee: Guarantee, chosen: Selection) -> Question:
        """Number of rows, in all or by group."""
        if chosen.by:
            return self.table(chosen.by, guarantee, Selection(contribution=chosen.contribution))
        limits = self._limits(chosen)
        sensitivity = stability(limits, cells=1, neighbours=self.schema.neighbours)
        return Question(
            guarantee=guarantee,
            statistic=Count(),
            sensitivity=sensitivity,
            mechanism=additive_noise(guarantee, sensitivity),
            contribution=chosen.contribution,
            public={},
            value=lambda counts, sums: int(counts[0]),
            read="rows",
        )

    def table(self, columns: Sequence[str], guarantee: Guarantee, chosen: Selection) -> Question:
        """Counts by the labels of some columns."""
        names = tuple(columns)
        statistic, sensitivity = self._cells(names, chosen)
        public = {"n": self.schema.size} if self._every_unit_once(names) else {}
        return Question(
            guarantee=guarantee,
            statistic=statistic,
            sensitivity=sensitivity,
            mechanism=additive_noise(guarantee, sensitivity),
            by=names,
            contribution=chosen.contribution,
            public=public,
            value=lambda counts, sums: counts.astype(np.int64).reshape(statistic.shape),
            read="rows of a cell",
        )

    def _cells(self, names: tuple[str, ...], chosen: Selection) -> tuple[ContingencyTable, Sensitivity]:
        """The counts by the labels of some columns, and how far one unit moves them."""
        statistic = ContingencyTable(dict(self._labels(names)))
        limits = self._limits(chosen)
        return statistic, stability(limits, cells=statistic.cells, neighbours=self.schema.neighbours)

    def mode(self, column: str, guarantee: Guarantee, chosen: Selection) -> Question:
        """The most frequent label of a column, chosen without publishing any count."""
        table, sensitivity = self._cells((column,), chosen)
        kind = PermuteAndFlip if isinstance(guarantee, PureDP) else ExponentialMechanism
        # A unit that comes or goes moves all of its counts one way.
        one_way = self.schema.neighbours is Neighbours.ADD_REMOVE
        chooser = kind.calibrate(guarantee, sensitivity, monotone=one_way)
        labels = self._labels((column,))[column]
        return Question(
            guarantee=guarantee,
            statistic=Mode(categories=labels),
            sensitivity=sensitivity,
            mechanism=chooser,
            by=(column,),
            contribution=chosen.contribution,
            public={},
            value=lambda counts, sums: counts.astype(np.int64).reshape(table.shape),
            read="rows behind",
            bound=lambda level: chooser.score_loss(len(labels), level),
        )

    def histogram(self, column: str, edges: Sequence[float], guarantee: Guarantee, chosen: Selection) -> Question:
        """Counts by bins of a number; the edges are public."""
        bounds = self._values(column, chosen)
        bins = Bins(edges)  # type: ignore[arg-type]
        statistic = ContingencyTable({column: bins})
        limits = self._limits(chosen)
        rows = Contribution(total=limits.most_rows(1))
        sensitivity = stability(rows, cells=statistic.cells, neighbours=self.schema.neighbours)
        if bins.edges[0] > bounds.low or bins.edges[-1] < bounds.high:
            raise InvalidParameter(
                "edges", list(edges), f"must cover the bounds {bounds.low:g} to {bounds.high:g}", "Add outer edges."
            )

        def counts(found: Histograms) -> NDArray[np.int64]:
            steps, rows_at = found[0]
            places = bins.codes(np.array([float(int(step) * bounds.step) for step in steps]))
            return np.bincount(places, weights=rows_at, minlength=statistic.cells).astype(np.int64)

        return Question(
            guarantee=guarantee,
            statistic=statistic,
            sensitivity=sensitivity,
            mechanism=additive_noise(guarantee, sensitivity),
            columns=(column,),
            contribution=chosen.contribution,
            unit_sum=chosen.unit_sum,
            public={"n": self.schema.size} if self._every_unit_once((column,)) else {},
            from_histograms=counts,
            read="rows of a bin",
        )

    def proportion(
        self, column: str, label: Any, guarantee: Guarantee, chosen: Selection, expected: Expected | None = None
    ) -> Question:
        """Share of rows with a label, in all or by group.

        The value per group is (noes, yeses): a row moves one of them by one, `MeanInParts` on (0, 1). A unit's rows are
        limited in all, whatever their label: a limit per cell would keep labels, not rows, at random.
        """
        labels = self.schema.categories(column).labels
        if not isinstance(label, str | int) or label not in labels:
            raise InvalidParameter("label", label, f"must be one of {list(labels)}", "Check the spelling.")
        if column in chosen.by:
            raise InvalidParameter("by", chosen.by, f"must not hold {column!r} itself", "Name another column.")
        expectation = expected or Expected()
        slope = expectation.slope(0.0, 1.0, "expected_share")
        if not chosen.by and self._every_unit_once((column,)):
            return self._public_proportion(column, list(labels).index(label), guarantee)
        groups, place = self.schema.cells(chosen.by), list(labels).index(label)
        rows = self._limits(chosen).most_rows(groups)
        one_group = rows == 1 or groups == 1
        limits = Contribution(groups=1, rows=rows) if one_group else Contribution(total=rows)
        sensitivity = in_parts(limits, groups, 2, self.schema.neighbours)

        def value(counts: Any, sums: Any) -> Any:
            parts: list[Fraction] = []
            for group in np.asarray(counts).reshape(groups, len(labels)):
                yes, total = int(group[place]), int(group.sum())
                parts += [Fraction(total - yes), Fraction(yes)]
            return fractions(parts)

        return Question(
            guarantee=guarantee,
            statistic=self._grouped(MeanInParts(bounds=(0.0, 1.0)), chosen.by),
            sensitivity=sensitivity,
            mechanism=additive_noise(guarantee, sensitivity),
            by=(*chosen.by, column),
            contribution=None if self.schema.unit.column is None else Contribution(total=rows),
            public={},
            value=value,
            read="the share",
            weights=expectation.per_group(groups, ((1 + slope) / 2, (1 - slope) / 2)),
        )

    def _public_proportion(self, column: str, place: int, guarantee: Guarantee) -> Question:
        size = cast(int, self.schema.size)
        statistic: Statistic = Proportion(n=size)
        sensitivity = Sensitivity(moves=(not_below(Fraction(1, size)),))
        return Question(
            guarantee=guarantee,
            statistic=statistic,
            sensitivity=sensitivity,
            mechanism=additive_noise(guarantee, sensitivity),
            by=(column,),
            public={"n": size},
            value=lambda counts, sums: Fraction(int(counts[place]), int(counts.sum())),
            read="the share",
        )
