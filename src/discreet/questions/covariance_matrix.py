"""Covariance and correlation matrices of bounded columns."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.grid import Grid
from discreet.core.protection import Neighbours
from discreet.core.rounding import not_below
from discreet.core.sensitivity import Sensitivity
from discreet.questions.bounded import Domain, PublicSizeStatistic, fractions
from discreet.questions.covariance import bounds_of_columns, cross_products, same_length
from discreet.questions.variance import largest_squares
from discreet.releases import Release

__all__ = ["CorrelationMatrix", "CovarianceMatrix", "as_matrix", "pairs"]


def pairs(dimension: int) -> list[tuple[int, int]]:
    """Coordinates of a covariance vector: the variances, then the covariances above the diagonal, row by row."""
    above = [(j, k) for j in range(dimension) for k in range(j + 1, dimension)]
    return [(j, j) for j in range(dimension)] + above


def as_matrix(vector: Any, dimension: int) -> NDArray[np.float64]:
    """The symmetric matrix of a covariance vector."""
    matrix = np.zeros((dimension, dimension))
    for (j, k), value in zip(pairs(dimension), np.asarray(vector, dtype=float), strict=True):
        matrix[j, k] = matrix[k, j] = value
    return matrix


@dataclass(frozen=True, kw_only=True)
class CovarianceMatrix(PublicSizeStatistic):
    """The sample covariance matrix (divisor n − 1) of d columns, clipped to public bounds.

    The value is the vector of the d variances followed by the d(d − 1)/2 covariances above the diagonal, row by
    row (`pairs`); `as_matrix` makes the matrix of it.

    **Guarantee.** One row changes coordinate (j, k) by at most WⱼWₖ/n, all of them at once in the worst case, so
    ℓ₁ = Σ WⱼWₖ/n and ℓ₂ = √Σ(WⱼWₖ/n)², under replace-one and, with n declared public, under add/remove
    (liu2019 Table 1, E, F).

    Parameters
    ----------
    bounds
        Public bounds of every column.
    n
        The public number of rows; see `discreet.questions.variance.Variance`.
    grid
        Resolution of every column, a power of two.

    Notes
    -----
    ``data`` is an n × d array or a list of d columns.

    Examples
    --------
    >>> matrix = CovarianceMatrix(bounds=((-3, 3), (-4.5, 4.5)))
    >>> [float(x) for x in matrix.coordinate_sensitivities(n=54, neighbours=Neighbours.REPLACE_ONE)]
    [0.6666666666666667, 1.5, 1.0]
    """

    name: ClassVar[str] = "covariance_matrix"
    bounds: tuple[tuple[float, float], ...]
    n: int | None = None
    grid: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", bounds_of_columns("bounds", self.bounds))
        if self.n is not None:
            object.__setattr__(self, "n", requirements.positive_integer("n", self.n, at_least=2))
        self._grids  # noqa: B018  (refuses a bad grid at construction)

    @property
    def least_rows(self) -> int:
        return 2

    @cached_property
    def _grids(self) -> tuple[Grid, ...]:
        return tuple(Grid(bounds=pair, step=self.grid) for pair in self.bounds)

    @property
    def dimension(self) -> int:
        """Number of columns d."""
        return len(self.bounds)

    @classmethod
    def release_type(cls) -> type[Release]:
        from discreet.inference.covariances import CovarianceMatrixRelease

        return CovarianceMatrixRelease

    def parameters(self) -> dict[str, Any]:
        return {"bounds": [list(pair) for pair in self.bounds], "n": self.n, "grid": self.grid}

    def _units(self) -> list[Fraction]:
        return [self._grids[j].width * self._grids[k].width for j, k in pairs(self.dimension)]

    def domain(self, n: int | None = None) -> Domain:
        """Ends of every coordinate: variances as in `Variance`, covariances ± as in `Covariance`."""
        rows = self.require_n(n)
        quarter = Fraction(rows, 4 * (rows - 1))
        exact = largest_squares(rows) / (rows - 1)
        low, high = [], []
        for (j, k), unit in zip(pairs(self.dimension), self._units(), strict=True):
            high.append(not_below(unit * (quarter if j == k else exact)))
            low.append(0.0 if j == k else -high[-1])
        return np.array(low), np.array(high)

    def coordinate_sensitivities(self, *, n: int | None = None, neighbours: Neighbours) -> NDArray[np.float64]:
        """How far one row can move each coordinate."""
        rows = self.require_n_between(n, neighbours)
        return np.array([not_below(unit / rows) for unit in self._units()])

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        moves = self.coordinate_sensitivities(n=n, neighbours=neighbours)
        return Sensitivity(coordinates=tuple(moves.tolist()))

    def _columns(self, data: Any) -> list[Any]:
        if isinstance(data, tuple | list) and len(data) == self.dimension and np.ndim(data[0]) == 1:
            return list(data)
        array = np.asarray(data)
        if array.ndim != 2 or array.shape[1] != self.dimension:
            raise WrongType(
                "data",
                f"shape {array.shape}",
                f"must be n × {self.dimension} or {self.dimension} columns",
                "Give one column a pair of bounds.",
            )
        return [array[:, j] for j in range(self.dimension)]

    def rows(self, data: Any) -> int:
        return len(self._columns(data)[0])

    def value(self, data: Any) -> Any:
        columns = self._columns(data)
        offsets = [grid.offsets("data", column) for grid, column in zip(self._grids, columns, strict=True)]
        rows = requirements.positive_integer("rows", same_length(offsets), at_least=2)
        return fractions(
            [
                cross_products(offsets[j], offsets[k])
                / (rows - 1)
                * self._grids[j].exact_step
                * self._grids[k].exact_step
                for j, k in pairs(self.dimension)
            ]
        )


@dataclass(frozen=True, kw_only=True)
class CorrelationMatrix(CovarianceMatrix):
    """The correlation matrix, by back-transformation of a released covariance matrix.

    One row can move a sample correlation by as much as its whole range, so the covariance matrix is protected,
    with its own sensitivity, and the release divides: ``release(…).correlation``.
    """

    name: ClassVar[str] = "correlation_matrix"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dimension < 2:
            raise InvalidParameter("bounds", self.bounds, "needs at least two columns", "Add a column.")
