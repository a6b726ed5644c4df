"""What the statistics of bounded columns share: a public number of rows, a public domain, an exact value."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from fractions import Fraction
from typing import Any, Self

import numpy as np

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.exact import Exact
from discreet.core.protection import ROW, Neighbours, Protection, Unit
from discreet.core.sensitivity import Sensitivity
from discreet.core.statistic import Statistic

__all__ = ["BoundedStatistic", "Domain", "PublicSizeStatistic", "whole_bounds"]

Domain = tuple[Any, Any]
"""Lower and upper end of a statistic's value: two floats, or two arrays for a vector."""


def whole_bounds(name: str, value: Any) -> tuple[float, float]:
    """Two finite ends."""
    low, high = requirements.ordered_bounds(name, tuple(value) if isinstance(value, list) else value)
    if math.isinf(low) or math.isinf(high):
        raise InvalidParameter(name, value, "must be finite", "Give both ends; they must be public knowledge.")
    return low, high


class BoundedStatistic(Statistic):
    """A statistic of columns with public bounds.

    Subclasses say how to compute the exact value, its public domain and its sensitivity.
    """

    @property
    def least_rows(self) -> int:
        """The fewest rows for which the statistic has a value."""
        return 1

    @abstractmethod
    def domain(self, n: int | None = None) -> Domain:
        """The smallest public set that holds the value, for ``n`` rows where it depends on them."""

    @abstractmethod
    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        """The largest change between neighbours."""

    @abstractmethod
    def value(self, data: Any) -> Any:
        """The exact value: a fraction, an integer, or an object array of fractions. Private."""

    def rows(self, data: Any) -> int:
        """Number of rows."""
        try:
            return len(data)
        except TypeError:
            raise WrongType(
                "data", type(data).__name__, "must be a column", "Pass a list, an array or a series."
            ) from None

    def exact(self, data: Any, *, neighbours: Neighbours, unit: Unit = ROW) -> Exact:
        """The exact, still private value, ready for `discreet.release`.

        Parameters
        ----------
        data
            The column, or what the statistic says it takes.
        neighbours
            Which data sets must be hard to tell apart.
        unit
            Whose presence is protected; one unit must be one row here.
        """
        _require_neighbours(neighbours)
        return Exact(
            self.value(data),
            self.sensitivity(neighbours=neighbours),
            Protection(unit, neighbours),
            statistic=self,
        )


class PublicSizeStatistic(BoundedStatistic):
    """A statistic that divides by the number of rows, which must therefore be public.

    Under replace-one the number of rows is public by definition and is taken from the data. Under add/remove it
    is private, so it must be declared (``n=…`` at construction): then neighbours have n and n ± 1 rows, as in
    liu2019 "Def 2", the noise is fixed by the declared n, and n itself is not protected.
    """

    n: int | None

    def require_n(self, n: int | None) -> int:
        """The public number of rows: the one given, or the one declared."""
        number = self.n if n is None else n
        if number is None:
            raise InvalidParameter("n", None, "the public number of rows is needed", "Pass n=….")
        return requirements.positive_integer("n", number, at_least=self.least_rows)

    def require_n_between(self, n: int | None, neighbours: Neighbours) -> int:
        """As `require_n`; under add/remove the neighbour with one row less must have a value too."""
        _require_neighbours(neighbours)
        number = self.require_n(n)
        if neighbours is Neighbours.ADD_REMOVE and number <= self.least_rows:
            raise InvalidParameter(
                "n", number, f"must be above {self.least_rows} under add/remove", "Collect more rows."
            )
        return number

    def of_size(self, n: int) -> Self:
        """The statistic with its number of rows declared."""
        return replace(self, n=n)  # type: ignore[type-var]

    def exact(self, data: Any, *, neighbours: Neighbours, unit: Unit = ROW) -> Exact:
        """The exact, still private value, ready for `discreet.release`; see `BoundedStatistic.exact`."""
        _require_neighbours(neighbours)
        rows = self.rows(data)
        if neighbours is Neighbours.ADD_REMOVE and self.n is None:
            raise InvalidParameter(
                "n",
                None,
                "the number of rows is private under add/remove, and this statistic divides by it",
                f"Declare it public with {type(self).__name__}(…, n=…), use Neighbours.REPLACE_ONE, "
                "or release SumAndCount, which protects the number of rows too.",
            )
        if self.n is not None and rows != self.n:
            raise InvalidParameter("n", self.n, "is not the number of rows of the data", "Declare the right n.")
        sized = self.of_size(rows)
        return Exact(
            sized.value(data),
            sized.sensitivity(neighbours=neighbours),
            Protection(unit, neighbours),
            statistic=sized,
            public={"n": rows},
        )


def _require_neighbours(neighbours: Any) -> None:
    requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.REPLACE_ONE")


def fractions(values: list[Fraction]) -> np.ndarray[Any, np.dtype[np.object_]]:
    """An object array of fractions."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
