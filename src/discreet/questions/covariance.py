"""Covariance of two bounded columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.numbers import Grid, Indices, not_below, product_total, total
from discreet.core.protection import Neighbours
from discreet.core.sensitivity import Sensitivity
from discreet.inference.moments import NormalCovariance, largest_fourth
from discreet.questions.bounded import Domain, PublicSizeRelease, PublicSizeStatistic, bounds_of_columns
from discreet.questions.variance import largest_squares, largest_variance

__all__ = [
    "Covariance", "cross_products", "normal_covariance", "same_length",
]  # fmt: skip


def same_length(columns: list[Indices]) -> int:
    """The common number of rows."""
    sizes = {column.size for column in columns}
    if len(sizes) != 1:
        raise InvalidParameter("data", sorted(sizes), "columns must have equally many rows", "Align the columns.")
    return sizes.pop()


def cross_products(first: Indices, second: Indices) -> Fraction:
    """Σ(x − x̄)(y − ȳ) of two columns of offsets, in products of their steps."""
    rows = first.size
    if rows == 0:
        return Fraction(0)
    return Fraction(rows * product_total(first, second) - total(first) * total(second), rows)


@dataclass(frozen=True, kw_only=True)
class Covariance(PublicSizeStatistic):
    """The sample covariance (divisor n − 1) of two columns, clipped to public bounds.

    **Guarantee.** One row changes it by at most (c₁₁ − c₁₀)(c₂₁ − c₂₀)/n, under replace-one and, with n declared
    public, under add/remove (liu2019 F).

    Parameters
    ----------
    bounds
        Public bounds of the two columns, ``((c₁₀, c₁₁), (c₂₀, c₂₁))``.
    n
        The public number of rows; see `discreet.questions.variance.Variance`.
    grid
        Resolution of both columns, a power of two.

    Notes
    -----
    ``data`` is an n × 2 array or a pair of columns.

    Examples
    --------
    >>> pair = Covariance(bounds=((0, 1), (0, 2)))
    >>> pair.sensitivity(n=10, neighbours=Neighbours.REPLACE_ONE).l1
    0.2
    >>> pair.value(([0, 1, 1], [2, 0, 0]))
    Fraction(-2, 3)
    """

    name: ClassVar[str] = "covariance"
    bounds: tuple[tuple[float, float], tuple[float, float]]
    n: int | None = None
    grid: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", bounds_of_columns("bounds", self.bounds, 2))
        if self.n is not None:
            object.__setattr__(self, "n", requirements.positive_integer("n", self.n, at_least=2))
        self._grids  # noqa: B018  (refuses a bad grid at construction)

    @property
    def least_rows(self) -> int:
        return 2

    @cached_property
    def _grids(self) -> tuple[Grid, Grid]:
        first, second = (Grid(bounds=pair, step=self.grid) for pair in self.bounds)
        return first, second

    @property
    def widths(self) -> Fraction:
        """Product of the two widths."""
        return self._grids[0].width * self._grids[1].width

    def sampling_model(  # type: ignore[override]  # each statistic names what may be known
        self, released: PublicSizeRelease, *, variances: Sequence[float | PublicSizeRelease] | None = None
    ) -> NormalCovariance:
        """Normal distribution of a sample covariance.

        Parameters
        ----------
        variances
            The two population variances, public or as private releases, whose upper ends at 99 % are used. Without
            them the largest possible fourth moments are assumed.
        """
        return normal_covariance(self.bounds, released, variances)

    def parameters(self) -> dict[str, Any]:
        return {"bounds": [list(pair) for pair in self.bounds], "n": self.n, "grid": self.grid}

    def domain(self, n: int | None = None) -> Domain:
        rows = self.require_n(n)
        largest = not_below(self.widths * largest_squares(rows) / (rows - 1))
        return -largest, largest

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        rows = self.require_n_between(n, neighbours)
        return Sensitivity(moves=(not_below(self.widths / rows),))

    def rows(self, data: Any) -> int:
        return super().rows(two_columns(data)[0])

    def value(self, data: Any) -> Fraction:
        offsets = [grid.offsets("data", values) for grid, values in zip(self._grids, two_columns(data), strict=True)]
        rows = requirements.positive_integer("rows", same_length(offsets), at_least=2)
        steps = self._grids[0].exact_step * self._grids[1].exact_step
        return cross_products(offsets[0], offsets[1]) / (rows - 1) * steps


def two_columns(data: Any) -> tuple[Any, Any]:
    """A pair of columns, or the columns of an n × 2 array."""
    if isinstance(data, tuple | list) and len(data) == 2:
        return data[0], data[1]
    array = np.asarray(data)
    if array.ndim != 2 or array.shape[1] != 2:
        raise WrongType("data", f"shape {array.shape}", "must be n × 2 or a pair of columns", "Pass (x, y).")
    return array[:, 0], array[:, 1]


def normal_covariance(
    bounds: Sequence[tuple[float, float]],
    released: PublicSizeRelease,
    variances: Sequence[float | PublicSizeRelease] | None,
) -> NormalCovariance:
    """Normal distribution of a released covariance of two columns in bounds."""
    widths = [high - low for low, high in bounds]
    if variances is not None and len(variances) != 2:
        raise InvalidParameter("variances", len(variances), "must be two", "Pass one per column.")
    spreads = [width**2 / 4 for width in widths]
    fourths = [width**4 / 12 for width in widths]
    for place, given in enumerate(variances or ()):
        spreads[place] = min(largest_variance(given, 0.99), spreads[place])
        fourths[place] = largest_fourth(spreads[place], widths[place])
    return NormalCovariance(
        n=released.n,
        mixed=math.sqrt(math.prod(fourths)),
        largest=released.domain[1],
        reach=min(math.sqrt(math.prod(spreads)), released.domain[1]),
    )
