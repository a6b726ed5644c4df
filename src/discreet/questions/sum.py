"""Sum: the total of a bounded column, alone or with the number of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from discreet.core import requirements
from discreet.core.grid import total
from discreet.core.protection import Neighbours
from discreet.core.rounding import not_below
from discreet.core.sensitivity import Sensitivity
from discreet.questions.bounded import Domain, fractions
from discreet.questions.one_column import OneColumn, SizedColumn
from discreet.releases import Release

__all__ = ["Sum", "SumAndCount"]


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
        from discreet.inference.ratio import SumAndCountRelease

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
