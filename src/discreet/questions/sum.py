"""Sum: the total of a bounded column, alone or with the number of rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, ClassVar, cast

import numpy as np
import scipy  # whose submodules load when first used

from discreet.core import requirements
from discreet.core.guarantee import Guarantee
from discreet.core.numbers import decimal, not_below, total
from discreet.core.protection import Neighbours
from discreet.core.schema import Bounds, Contribution, Schema, stability
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.additive import additive_noise
from discreet.questions.bounded import Domain, OneColumn, SizedColumn, fractions
from discreet.questions.question import (
    COLUMN,
    COLUMNS,
    UNSAID,
    DeclaredColumns,
    Form,
    MeasuredQuestion,
    Measurement,
    column_names,
)
from discreet.results.display import Interval
from discreet.results.release import Release

__all__ = ["Sum", "SumAndCount", "SumAndCountRelease", "SumQuestion"]


@dataclass(frozen=True, kw_only=True)
class Sum(SizedColumn):
    """The total of a column, clipped to public bounds.

    **Guarantee.** One row changes it by at most the larger absolute bound under add/remove and by c₁ − c₀ under
    replace-one.

    Parameters
    ----------
    bounds
        Public bounds (c₀, c₁) of a row; values outside are clipped.
    grid
        Resolution, a power of two; 1 for a column of whole numbers.
    n
        The public number of rows, where it is public; it bounds the domain.

    Examples
    --------
    >>> Sum(bounds=(-1, 3)).sensitivity(neighbours=Neighbours.ADD_REMOVE).l1
    3.0
    >>> Sum(bounds=(-1, 3)).sensitivity(neighbours=Neighbours.REPLACE_ONE).l1
    4.0
    """

    name: ClassVar[str] = "sum"

    def domain(self, n: int | None = None) -> Domain:
        public = self.n if n is None else requirements.positive_integer("n", n)
        low, high = self.bounds
        if public is not None:
            return public * low, public * high
        return (0.0 if low >= 0 else -math.inf), (0.0 if high <= 0 else math.inf)

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        if neighbours is Neighbours.ADD_REMOVE:
            return Sensitivity(moves=(max(abs(end) for end in self.bounds),))
        return Sensitivity(moves=(not_below(self._grid.width),))

    def value(self, data: Any) -> Fraction:
        offsets = self._grid.offsets("data", data)
        return offsets.size * self._grid.origin + total(offsets) * self._grid.exact_step


@dataclass(frozen=True, kw_only=True)
class SumAndCount(OneColumn):
    """A centred sum and the number of rows, released together: a mean that does not need a public n.

    The value is the pair (Σ(x − c)/h, number of rows), with c the middle and h half the width of the bounds, so
    that both coordinates move by at most 1. Its release gives the mean c + h·sum/count with an interval.

    **Guarantee.** Add/remove: each coordinate moves by at most 1 (ℓ₁ = 2). Replace-one: the sum by at most 2 and
    the count not at all, but the count is noised all the same.

    Parameters
    ----------
    bounds
        Public bounds of a row; values outside are clipped.
    grid
        Resolution, a power of two.

    Examples
    --------
    >>> pair = SumAndCount(bounds=(0, 10))
    >>> [str(x) for x in pair.value([0, 10, 10])]
    ['1', '3']
    >>> pair.sensitivity(neighbours=Neighbours.ADD_REMOVE).l1
    2.0
    """

    name: ClassVar[str] = "sum_and_count"

    @property
    def middle(self) -> Fraction:
        """Centre of the bounds."""
        return (Fraction(self.bounds[0]) + Fraction(self.bounds[1])) / 2

    @classmethod
    def release_type(cls) -> type[Release]:
        return SumAndCountRelease

    def domain(self, n: int | None = None) -> Domain:
        rows = math.inf if n is None else float(requirements.positive_integer("n", n))
        return (-rows, 0.0), (rows, rows)

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        return Sensitivity(moves=(1.0, 1.0) if neighbours is Neighbours.ADD_REMOVE else (2.0,))

    def value(self, data: Any) -> Any:
        grid = self._grid
        offsets = grid.offsets("data", data)
        centred = offsets.size * (grid.origin - self.middle) + total(offsets) * grid.exact_step
        return fractions([centred / (grid.width / 2), Fraction(offsets.size)])


@dataclass(frozen=True)
class SumAndCountRelease(Release):
    """A noisy centred sum and a noisy count, and the mean that follows from them."""

    def _of(self) -> SumAndCount:
        return cast(SumAndCount, self.statistic)

    @property
    def count(self) -> float:
        """The noisy number of rows."""
        return float(np.asarray(self.value)[1])

    @property
    def mean(self) -> float:
        """Noisy sum over noisy count, which is taken as 1 where it is below, inside the bounds."""
        low, high = self._of().bounds
        half = (high - low) / 2
        ratio = float(np.asarray(self.value)[0]) / max(self.count, 1.0)
        return min(max(float(self._of().middle) + half * ratio, low), high)

    def mean_interval(self, level: float = 0.95) -> Interval:
        """Interval for the data's mean, from the joint distribution of the two noises.

        Every pair inside the rectangle of two intervals of level (1 + level)/2 is possible at least at ``level``
        (Bonferroni); the mean's extremes over it lie at its corners, because a ratio is monotone in each part.
        """
        checked = requirements.level(level)
        sums, counts = zip(*self.noise_interval((1 + checked) / 2), strict=True)
        low, high = self._of().bounds
        half, middle = (high - low) / 2, float(self._of().middle)
        rows = [max(float(end), 1.0) for end in counts]
        ratios = [float(total) / number for total in sums for number in rows]
        ends = [min(max(middle + half * ratio, low), high) for ratio in (min(ratios), max(ratios))]
        return Interval(ends[0], ends[1], checked)

    def population_interval(self, level: float = 0.95, *, variance: float | None = None) -> Interval:
        """Interval for the population's mean; the largest possible variance is assumed where none is given.

        The data's mean and the sampling error each get half of 1 − level.
        """
        checked = requirements.level(level)
        share = (1 + checked) / 2
        data = self.mean_interval(share)
        low, high = self._of().bounds
        largest = (high - low) ** 2 / 4
        spread = largest if variance is None else min(requirements.positive("variance", variance), largest)
        fewest = max(float(np.asarray(self.noise_interval(share).low)[1]), 1.0)
        reach = float(scipy.special.ndtri((1 + share) / 2)) * math.sqrt(spread / fewest)
        return Interval(max(float(data.low) - reach, low), min(float(data.high) + reach, high), checked)


@dataclass(frozen=True)
class SumQuestion(MeasuredQuestion[Release]):
    """Total of a column, in all or by group.

    Guarantee
    ---------
    A unit that keeps r rows in each of k groups moves k totals by at most r times the larger absolute bound; where the
    number of rows is public, a replaced row moves the total by the width of the bounds. See `stability`.

    Examples
    --------
    >>> from discreet import PureDP
    >>> schema = Schema(columns={"spend": Bounds(0, 50, grid=0.5)})
    >>> SumQuestion(schema, "spend", epsilon=1.0).measurement.mechanism.scale
    50.0
    """

    topic: ClassVar[str] = "Numbers"
    answers: ClassVar[str] = "What is the total, in all or in each group?"
    ask: ClassVar[str] = "sum"
    meaning: ClassVar[str] = "The total of {subject}."
    forms: ClassVar[Mapping[str, Form]] = {"column": COLUMN, "by": COLUMNS}
    schema: Schema
    column: str
    _: KW_ONLY
    guarantee: Guarantee = UNSAID
    by: str | Sequence[str] = ()
    contribution: Contribution | None = None

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return columns.number()

    def _measured(self) -> Measurement:
        by, column = column_names(self.by), self.column
        bounds = self.schema.bounds(column)
        sensitivity = self._sensitivity(bounds, by)

        # Geometric noise on several fractions must know how far each of them moves.
        whole = bounds.step.denominator == 1 and (not by or sensitivity.moves is not None)

        def value(counts: Any, sums: Any) -> Any:
            totals = fractions([int(one) * bounds.step for one in sums[column,]])
            return totals if by else totals[0]

        return Measurement(
            statistic=self.grouped(Sum(bounds=(bounds.low, bounds.high)), by),
            sensitivity=sensitivity,
            mechanism=additive_noise(self.guarantee, sensitivity, whole=whole),
            by=by,
            columns=(column,),
            contribution=self.contribution,
            products=((column,),),
            public={},
            value=value,
            read="the total",
        )

    def _sensitivity(self, bounds: Bounds, by: tuple[str, ...]) -> Sensitivity:
        low, high = decimal(bounds.low), decimal(bounds.high)
        if not by and self.public_size(self.column) is not None:
            return Sensitivity(moves=(not_below(high - low),))
        limits, cells = self.schema.contribution(self.contribution), self.schema.cells(by)
        return stability(limits, cells=cells, neighbours=self.schema.neighbours, low=low, high=high)
