"""Questions about numbers: totals, means, variances and covariances."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, cast

from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.protection import Neighbours
from discreet.core.rounding import decimal, not_below
from discreet.core.schema import Bounds
from discreet.core.sensitivity import Sensitivity
from discreet.core.stability import doubled, in_every_group, in_parts, stability
from discreet.inference.part_moments import variance_moves
from discreet.mechanisms.additive import additive_noise
from discreet.questions.bounded import fractions
from discreet.questions.covariance_matrix import CovarianceMatrix, pairs
from discreet.questions.mean import Mean
from discreet.questions.means_and_covariances import MeansAndCovariances
from discreet.questions.parts import MeanAndVarianceInParts, MeanInParts, Parts, VarianceInParts
from discreet.questions.question import Expected, PublicFacts, Question, Selection
from discreet.questions.sum import Sum

__all__ = ["MomentQuestions"]


class MomentQuestions(PublicFacts):
    """Makes questions that add up numbers."""

    def sum(self, column: str, guarantee: Guarantee, chosen: Selection) -> Question:
        """Total of a column, in all or by group."""
        bounds = self._values(column, chosen)
        limits, cells = self._limits(chosen), self.schema.cells(chosen.by)
        low, high = decimal(bounds.low), decimal(bounds.high)
        if not chosen.by and self._every_unit_once((column,)):
            sensitivity = Sensitivity(moves=(not_below(high - low),))
        else:
            sensitivity = stability(limits, cells=cells, neighbours=self.schema.neighbours, low=low, high=high)

        def value(counts: Any, sums: Any) -> Any:
            totals = fractions([int(total) * bounds.step for total in sums[column,]])
            return totals if chosen.by else totals[0]

        return Question(
            guarantee=guarantee,
            statistic=self._grouped(Sum(bounds=(bounds.low, bounds.high)), chosen.by),
            sensitivity=sensitivity,
            mechanism=additive_noise(guarantee, sensitivity),
            by=chosen.by,
            columns=(column,),
            contribution=chosen.contribution,
            unit_sum=chosen.unit_sum,
            products=((column,),),
            public={},
            value=value,
            read="the total",
        )

    def mean(
        self,
        column: str,
        guarantee: Guarantee,
        chosen: Selection,
        *,
        spread: bool = False,
        expected: Expected | None = None,
    ) -> Question:
        """Mean of a column, in all or by group; with its variance where ``spread``."""
        bounds = self._values(column, chosen)
        expectation = expected or Expected()
        slope = expectation.slope(bounds.low, bounds.high)
        if not chosen.by and not spread and self._every_unit_once((column,)):
            return self._public_mean(column, bounds, guarantee)
        parts = (MeanAndVarianceInParts if spread else MeanInParts)(bounds=(bounds.low, bounds.high))
        # Noise Zₖ in the total of the part at pₖ moves n·mean by (pₖ − mean)·Zₖ, in units of half the width; where n
        # is public, by pₖ·Zₖ, whatever the mean is.
        public = self._public_size(column, chosen)
        moves = [float(parts.half) * abs(place - (0 if public else slope)) for place in parts.positions]
        return self._totals(
            parts, column, bounds, guarantee, chosen, read="the mean", moves=moves, expected=expectation
        )

    def _totals(
        self,
        parts: Parts,
        column: str,
        bounds: Bounds,
        guarantee: Guarantee,
        chosen: Selection,
        *,
        read: str,
        moves: Sequence[float],
        expected: Expected,
    ) -> Question:
        """Noisy totals in parts per group, from which the mean or the variance is read."""
        products = tuple((column,) * power for power in range(1, parts.degree + 1))

        def value(counts: Any, sums: Any) -> Any:
            found: list[Fraction] = []
            for cell, count in enumerate(counts):
                powers = (int(sums[product][cell]) * bounds.step ** len(product) for product in products)
                found += list(parts.of_sums(int(count), *powers))
            return fractions(found)

        public, groups = self._public_size(column, chosen), self.schema.cells(chosen.by)
        expectation = Expected(rows=public["n"], mean=expected.mean) if public else expected
        sensitivity = in_parts(self._limits(chosen), groups, parts.degree + 1, self.schema.neighbours)
        return Question(
            guarantee=guarantee,
            statistic=self._grouped(parts, chosen.by),
            sensitivity=sensitivity,
            mechanism=additive_noise(guarantee, sensitivity),
            by=chosen.by,
            columns=(column,),
            contribution=chosen.contribution,
            unit_sum=chosen.unit_sum,
            products=products,
            public=public,
            value=value,
            read=read,
            weights=expectation.per_group(groups, moves),
        )

    def _public_mean(self, column: str, bounds: Bounds, guarantee: Guarantee) -> Question:
        statistic = Mean(bounds=(bounds.low, bounds.high), n=self.schema.size)
        low, high = decimal(bounds.low), decimal(bounds.high)
        sensitivity = Sensitivity(moves=(not_below((high - low) / cast(int, self.schema.size)),))
        return Question(
            guarantee=guarantee,
            statistic=statistic,
            sensitivity=sensitivity,
            mechanism=additive_noise(guarantee, sensitivity),
            columns=(column,),
            products=((column,),),
            public={"n": self.schema.size},
            value=lambda counts, sums: Fraction(int(sums[column,][0]), int(counts[0])) * bounds.step,
            read="the mean",
        )

    def variance(
        self, column: str, guarantee: Guarantee, chosen: Selection, expected: Expected | None = None
    ) -> Question:
        """Variance of a column, in all or by group; it comes with the mean."""
        bounds = self._values(column, chosen)
        expectation = expected or Expected()
        slope = expectation.slope(bounds.low, bounds.high)
        parts = VarianceInParts(bounds=(bounds.low, bounds.high))
        public = bool(self._public_size(column, chosen))
        moved = variance_moves(parts.degree, (1 + slope) / 2, public_size=public)
        moves = [(2 * float(parts.half)) ** 2 * move for move in moved]
        return self._totals(
            parts, column, bounds, guarantee, chosen, read="the variance", moves=moves, expected=expectation
        )

    def _public_size(self, column: str, chosen: Selection) -> dict[str, Any]:
        """The number of rows, where every unit has one and their number is public."""
        return {"n": self.schema.size} if not chosen.by and self._every_unit_once((column,)) else {}

    def covariance_matrix(
        self, columns: Sequence[str], guarantee: Guarantee, chosen: Selection, expected: Expected | None = None
    ) -> Question:
        """Covariance matrix of several columns; with a private number of rows it comes with the means."""
        names = tuple(columns)
        bounds = [self.schema.bounds(name) for name in names]
        if len(set(names)) != len(names) or not names:
            raise InvalidParameter("columns", list(names), "must be different columns", "Name each column once.")
        if not self._every_unit_once(names):
            return self._cross_totals(names, bounds, guarantee, chosen, expected or Expected())
        statistic = CovarianceMatrix(bounds=tuple((one.low, one.high) for one in bounds), n=self.schema.size)
        sensitivity = statistic.sensitivity(neighbours=self.schema.neighbours)

        def value(counts: Any, sums: Any) -> Any:
            n = int(counts[0])
            found = []
            for j, k in pairs(len(names)):
                cross = n * int(sums[names[j], names[k]][0]) - int(sums[names[j],][0]) * int(sums[names[k],][0])
                found.append(Fraction(cross, n * (n - 1)) * bounds[j].step * bounds[k].step)
            return fractions(found)

        return Question(
            guarantee=guarantee,
            statistic=statistic,
            sensitivity=sensitivity,
            mechanism=additive_noise(guarantee, sensitivity),
            columns=names,
            products=_products(names),
            public={"n": self.schema.size},
            value=value,
            read="an entry",
        )

    def _cross_totals(
        self, names: tuple[str, ...], bounds: list[Bounds], guarantee: Guarantee, chosen: Selection, expected: Expected
    ) -> Question:
        """Noisy sums of columns and of their products, with a noisy number of rows (`MeansAndCovariances`)."""
        statistic = MeansAndCovariances(bounds=tuple((one.low, one.high) for one in bounds))
        moved = in_every_group(self._limits(chosen), 1, statistic.coordinates)
        sensitivity = moved if self.schema.neighbours is Neighbours.ADD_REMOVE else doubled(moved)

        def value(counts: Any, sums: Any) -> Any:
            totals = [int(sums[name,][0]) * one.step for name, one in zip(names, bounds, strict=True)]
            products = [
                int(sums[names[j], names[k]][0]) * bounds[j].step * bounds[k].step for j, k in pairs(len(names))
            ]
            return statistic.of_sums(int(counts[0]), totals, products)

        return Question(
            guarantee=guarantee,
            statistic=statistic,
            sensitivity=sensitivity,
            mechanism=additive_noise(guarantee, sensitivity),
            columns=names,
            contribution=chosen.contribution,
            products=_products(names),
            public={},
            value=value,
            read="an entry",
            weights=expected.per_group(1, statistic.worst_moves()),
        )


def _products(names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return (*((name,) for name in names), *((names[j], names[k]) for j, k in pairs(len(names))))
