"""Mean and proportion: averages over a public number of rows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from discreet.core import requirements
from discreet.core.grid import total
from discreet.core.protection import Neighbours
from discreet.core.rounding import not_below
from discreet.core.sensitivity import Sensitivity
from discreet.questions.bounded import Domain, PublicSizeStatistic
from discreet.questions.count import flags
from discreet.questions.one_column import SizedColumn
from discreet.releases import Release

__all__ = ["Mean", "Proportion"]


@dataclass(frozen=True, kw_only=True)
class Mean(SizedColumn, PublicSizeStatistic):
    """The mean of a column, clipped to public bounds.

    **Guarantee.** One row changes it by at most (c₁ − c₀)/n, under replace-one and, with n declared public,
    under add/remove (liu2019 D).

    Parameters
    ----------
    bounds
        Public bounds (c₀, c₁) of a row; values outside are clipped.
    n
        The public number of rows; needed under add/remove, taken from the data under replace-one.
    grid
        Resolution, a power of two.

    Examples
    --------
    >>> Mean(bounds=(0, 1)).sensitivity(n=50, neighbours=Neighbours.REPLACE_ONE).l1
    0.02
    >>> Mean(bounds=(0, 1)).value([0.25, 0.5, 9.0])
    Fraction(7, 12)
    """

    name: ClassVar[str] = "mean"

    @classmethod
    def release_type(cls) -> type[Release]:
        from discreet.inference.moments import MeanRelease

        return MeanRelease

    def domain(self, n: int | None = None) -> Domain:
        return self.bounds

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        rows = self.require_n_between(n, neighbours)
        return Sensitivity(moves=(not_below(self._grid.width / rows),))

    def value(self, data: Any) -> Fraction:
        offsets = self._grid.offsets("data", data)
        rows = requirements.positive_integer("rows", offsets.size)
        return self._grid.origin + Fraction(total(offsets), rows) * self._grid.exact_step


@dataclass(frozen=True, kw_only=True)
class Proportion(PublicSizeStatistic):
    """The share of rows for which the data is true.

    **Guarantee.** One row changes it by at most 1/n, under replace-one and, with n declared public, under
    add/remove (liu2019 D).

    Parameters
    ----------
    n
        The public number of rows; needed under add/remove, taken from the data under replace-one.

    Examples
    --------
    >>> Proportion().sensitivity(n=100, neighbours=Neighbours.REPLACE_ONE).l1
    0.01
    >>> Proportion().value([True, False, True])
    Fraction(2, 3)
    """

    name: ClassVar[str] = "proportion"
    n: int | None = None

    def __post_init__(self) -> None:
        if self.n is not None:
            object.__setattr__(self, "n", requirements.positive_integer("n", self.n))

    @classmethod
    def release_type(cls) -> type[Release]:
        from discreet.inference.moments import ProportionRelease

        return ProportionRelease

    def parameters(self) -> dict[str, Any]:
        return {"n": self.n}

    def domain(self, n: int | None = None) -> Domain:
        return 0.0, 1.0

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        return Sensitivity(moves=(not_below(Fraction(1, self.require_n_between(n, neighbours))),))

    def value(self, data: Any) -> Fraction:
        yes = flags(data)
        rows = requirements.positive_integer("rows", yes.size)
        return Fraction(int(np.count_nonzero(yes)), rows)
