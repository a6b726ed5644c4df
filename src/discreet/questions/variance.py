"""Variance and standard deviation of a bounded column."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.grid import product_total, total
from discreet.core.protection import Neighbours
from discreet.core.rounding import not_below
from discreet.core.sensitivity import Sensitivity
from discreet.questions.bounded import Domain, PublicSizeStatistic
from discreet.questions.one_column import SizedColumn
from discreet.releases import Release

__all__ = ["StandardDeviation", "Variance", "largest_squares"]


def largest_squares(n: int) -> Fraction:
    """The largest Σ(x − x̄)² of n numbers in [0, 1]: ⌊n/2⌋·⌈n/2⌉/n, half of them at each end."""
    return Fraction((n // 2) * ((n + 1) // 2), n) if n > 0 else Fraction(0)


@dataclass(frozen=True, kw_only=True)
class Variance(SizedColumn, PublicSizeStatistic):
    """The sample variance (divisor n − 1) of a column, clipped to public bounds.

    **Guarantee.** One row changes it by at most (c₁ − c₀)²/n, under replace-one and, with n declared public,
    under add/remove (liu2019 E). Its domain is [0, n(c₁ − c₀)²/(4(n − 1))].

    Parameters
    ----------
    bounds
        Public bounds (c₀, c₁) of a row; values outside are clipped.
    n
        The public number of rows, at least 2; needed under add/remove (there at least 3), taken from the data
        under replace-one.
    grid
        Resolution, a power of two.

    Examples
    --------
    >>> Variance(bounds=(0, 10)).sensitivity(n=100, neighbours=Neighbours.REPLACE_ONE).l1
    1.0
    >>> Variance(bounds=(0, 1)).value([0, 1, 1])
    Fraction(1, 3)
    """

    name: ClassVar[str] = "variance"

    @property
    def least_rows(self) -> int:
        return 2

    @classmethod
    def release_type(cls) -> type[Release]:
        from discreet.inference.moments import VarianceRelease

        return VarianceRelease

    def domain(self, n: int | None = None) -> Domain:
        rows = self.require_n(n)
        return 0.0, not_below(self._grid.width**2 * rows / (4 * (rows - 1)))

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        rows = self.require_n_between(n, neighbours)
        return Sensitivity(moves=(not_below(self._grid.width**2 / rows),))

    def value(self, data: Any) -> Fraction:
        offsets = self._grid.offsets("data", data)
        rows = requirements.positive_integer("rows", offsets.size, at_least=2)
        squares = rows * product_total(offsets, offsets) - total(offsets) ** 2
        return Fraction(squares, rows * (rows - 1)) * self._grid.exact_step**2


@dataclass(frozen=True, kw_only=True)
class StandardDeviation(Variance):
    """The standard deviation, by back-transformation (liu2019 section 2.2).

    A standard deviation moves by as much as (c₁ − c₀)/√n (in a column of equal values one row moves to the other
    end), far more than a variance does in its own units; so the *variance* is protected, with the variance's
    sensitivity, and the release takes the root: ``release(…).standard_deviation``, with its interval.

    Examples
    --------
    >>> StandardDeviation(bounds=(0, 10)).sensitivity(n=100, neighbours=Neighbours.REPLACE_ONE).l1
    1.0
    """

    name: ClassVar[str] = "standard_deviation"

    @classmethod
    def release_type(cls) -> type[Release]:
        from discreet.inference.moments import StandardDeviationRelease

        return StandardDeviationRelease

    @staticmethod
    def transform(variance: float) -> float:
        """√ of a released variance, which must not be negative: release it with a bounded mechanism."""
        if variance < 0:
            raise InvalidParameter(
                "variance",
                variance,
                "a negative released variance has no root",
                "Release it with BoundedLaplace or BoundaryInflatedLaplace.",
            )
        return math.sqrt(variance)
