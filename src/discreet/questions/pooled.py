"""Pooled variance and covariance: spread within the cells of a public classification."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.numbers import Grid, Indices, not_below
from discreet.core.protection import Neighbours
from discreet.core.sensitivity import Sensitivity
from discreet.inference.moments import GammaVariance, NormalCovariance
from discreet.questions.bounded import Domain, PublicSizeRelease, PublicSizeStatistic, bounds_of_columns, whole_bounds
from discreet.questions.covariance import cross_products, normal_covariance, same_length
from discreet.questions.variance import gamma_variance, largest_squares

__all__ = ["PooledCovariance", "PooledVariance"]


@dataclass(frozen=True, kw_only=True)
class _Pooled(PublicSizeStatistic):
    """Cells, their public sizes where they are public, and the checks on both."""

    bounds: Any
    cells: tuple[Any, ...]
    sizes: tuple[int, ...] | None = None
    moving: bool = True
    n: int | None = None
    grid: float | None = None

    def __post_init__(self) -> None:
        cells = requirements.listed("cells", self.cells, 'cells=("a", "b")')
        if not all(isinstance(cell, Hashable) and cell == cell for cell in cells):
            raise InvalidParameter("cells", cells, "must be plain labels", "List every public cell once.")
        if len(cells) == 0 or len(set(cells)) != len(cells):
            raise InvalidParameter("cells", cells, "must be distinct labels", "List every public cell once.")
        object.__setattr__(self, "cells", cells)
        if self.sizes is not None:
            self._check_sizes(tuple(self.sizes))
        if self.n is not None:
            object.__setattr__(self, "n", requirements.positive_integer("n", self.n, at_least=self.least_rows))

    def _check_sizes(self, sizes: tuple[Any, ...]) -> None:
        if len(sizes) != len(self.cells):
            raise InvalidParameter("sizes", sizes, "must be one size a cell", "Give as many sizes as cells.")
        if self.moving:
            raise InvalidParameter(
                "sizes", sizes, "are not public where a record may change its cell", "Pass moving=False, or no sizes."
            )
        checked = tuple(requirements.positive_integer("sizes", size, at_least=2) for size in sizes)
        object.__setattr__(self, "sizes", checked)
        if self.n is not None and self.n != sum(checked):
            raise InvalidParameter("n", self.n, f"is not the sum {sum(checked)} of the sizes", "Leave n out.")
        object.__setattr__(self, "n", sum(checked))

    @property
    def independent_rows(self) -> int | None:
        """As many rows as have the same degrees of freedom without cells."""
        return None if self.n is None else self.n - len(self.cells) + 1

    @property
    def least_rows(self) -> int:
        """One more row than cells, so that the divisor n − J is positive."""
        return len(self.cells) + 1

    def parameters(self) -> dict[str, Any]:
        return {
            "bounds": [list(end) if isinstance(end, tuple) else end for end in self.bounds],
            "cells": list(self.cells),
            "sizes": None if self.sizes is None else list(self.sizes),
            "moving": self.moving,
            "n": self.n,
            "grid": self.grid,
        }

    @property
    @abstractmethod
    def _unit(self) -> Fraction:
        """The square of the width, or the product of the two."""

    def _require_rows(self, n: int | None, neighbours: Neighbours) -> int:
        rows = self.require_n_between(n, neighbours)
        if self.sizes is not None and rows != sum(self.sizes):
            raise InvalidParameter("n", rows, f"is not the sum {sum(self.sizes)} of the sizes", "Leave n out.")
        return rows

    def _moves(self, factor: Fraction) -> Sensitivity:
        return Sensitivity(moves=(not_below(self._unit * factor),))

    def rows(self, data: Any) -> int:
        columns = requirements.instance("data", data, (tuple, list), "the columns and the labels: (x, labels)")
        return super().rows(columns[-1] if columns else None)

    def _split(self, data: Any, grids: tuple[Grid, ...]) -> list[list[Indices]]:
        """Offsets of every column, cell by cell."""
        if not isinstance(data, tuple | list) or len(data) != len(grids) + 1:
            wanted = "(x, labels)" if len(grids) == 1 else "(x, y, labels)"
            raise WrongType("data", "…", f"must be {wanted}", f"Pass exact({wanted}, …).")
        columns = [grid.offsets("data", values) for grid, values in zip(grids, data[:-1], strict=True)]
        labels = np.asarray(data[-1])
        if labels.ndim != 1 or labels.size != same_length(columns):
            raise InvalidParameter("labels", f"shape {labels.shape}", "must be one label per row", "Align the columns.")
        parts = [labels == cell for cell in self.cells]
        counts = [int(np.count_nonzero(part)) for part in parts]
        if sum(counts) != labels.size:
            raise InvalidParameter("labels", "…", f"must all be among {list(self.cells)}", "List every cell.")
        if self.sizes is not None and tuple(counts) != self.sizes:
            raise InvalidParameter("sizes", self.sizes, "are not the sizes of the cells", "Declare the right sizes.")
        return [[column[part] for column in columns] for part in parts]


@dataclass(frozen=True, kw_only=True)
class PooledVariance(_Pooled):
    """The pooled variance Σⱼ Σᵢ (xᵢⱼ − x̄ⱼ)²/(n − J) within J public cells (liu2019 G).

    **Guarantee.** With W = c₁ − c₀ one row changes it by at most W²/(n − J) times

    - public cell sizes, replace-one inside a cell: 1 − 1/n_max;
    - public cell sizes, add/remove: the larger of that and (n − J)/(n − J + 1)·(1 − 1/(n_max + 1));
    - sizes not public, and where a record may change its cell: 1 − 1/n; under add/remove the larger of that and
      M(n − 1)/(n − 1 − J), M(m) = ⌊m/2⌋⌈m/2⌉/m, which counts only where J is near n.

    Parameters
    ----------
    bounds
        Public bounds of a row.
    cells
        Every public cell label.
    sizes
        The cell sizes, each at least 2, where they are public and records keep their cell.
    moving
        Whether a replaced record may also change its cell; True is the safe answer.
    n
        The public number of rows.
    grid
        Resolution, a power of two.

    Notes
    -----
    ``data`` is the pair (values, labels). Cells with fewer than two rows contribute nothing.

    Examples
    --------
    >>> pooled = PooledVariance(bounds=(0, 1), cells=("a", "b"), sizes=(3, 5), moving=False)
    >>> round(pooled.sensitivity(neighbours=Neighbours.REPLACE_ONE).l1, 6)  # 0.8/6
    0.133333
    """

    name: ClassVar[str] = "pooled_variance"

    def sampling_model(  # type: ignore[override]  # each statistic names what may be known
        self, released: PublicSizeRelease, *, kurtosis: float | None = None
    ) -> GammaVariance:
        """As that of a variance; see `Variance.sampling_model`."""
        return gamma_variance(self.bounds, released, kurtosis)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", whole_bounds("bounds", self.bounds))
        super().__post_init__()
        self._grid  # noqa: B018  (refuses a bad grid at construction)

    @cached_property
    def _grid(self) -> Grid:
        return Grid(bounds=self.bounds, step=self.grid)

    @property
    def _unit(self) -> Fraction:
        return self._grid.width**2

    def domain(self, n: int | None = None) -> Domain:
        rows = self.require_n(n)
        sizes = (rows,) if self.sizes is None else self.sizes
        largest = sum((largest_squares(size) for size in sizes), Fraction(0))
        if self.sizes is None:  # Σ mⱼ/4 is a bound for every way to divide n rows into cells
            largest = Fraction(rows, 4)
        return 0.0, not_below(self._unit * largest / (rows - len(self.cells)))

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        rows = self._require_rows(n, neighbours)
        divisor = rows - len(self.cells)
        if self.sizes is None:
            factor = 1 - Fraction(1, rows)
            if neighbours is Neighbours.ADD_REMOVE:
                factor = max(factor, largest_squares(rows - 1) / (divisor - 1))
            return self._moves(factor / divisor)
        largest = max(self.sizes)
        inside = (1 - Fraction(1, largest)) / divisor
        if neighbours is Neighbours.REPLACE_ONE:
            return self._moves(inside)
        return self._moves(max(inside, (1 - Fraction(1, largest + 1)) / (divisor + 1)))

    def value(self, data: Any) -> Fraction:
        cells = self._split(data, (self._grid,))
        divisor = self.require_n(self.rows(data)) - len(self.cells)
        squares = sum((cross_products(part[0], part[0]) for part in cells), Fraction(0))
        return squares / divisor * self._grid.exact_step**2


@dataclass(frozen=True, kw_only=True)
class PooledCovariance(_Pooled):
    """The pooled covariance Σⱼ Σᵢ (xᵢⱼ − x̄ⱼ)(yᵢⱼ − ȳⱼ)/(n − J) within J public cells (liu2019 H).

    **Guarantee.** With W₁W₂ the product of the widths one row changes it by at most W₁W₂/(n − J) times

    - replace-one inside a cell: 1 − 1/n_max, or 1 − 1/n where sizes are not public;
    - replace-one where a record may change its cell: 2 − 1/⌈(n+1)/2⌉ − 1/⌊(n+1)/2⌋, because what it takes from
      one cell and what it brings to another add up;
    - add/remove: maxⱼ 1 − 1/nⱼ + Σᵢ≠ⱼ M(nᵢ)/(n − 1 − J), M(m) = ⌊m/2⌋⌈m/2⌉/m, and the same for the neighbour with
      n + 1 rows; where sizes are not public, the largest of 1 − 1/m + (n − m)/(4(n − 1 − J)) over whole m (H.1).

    Parameters
    ----------
    bounds
        Public bounds of the two columns.
    cells, sizes, moving, n, grid
        As in `PooledVariance`.

    Notes
    -----
    ``data`` is the triple (x, y, labels).
    """

    name: ClassVar[str] = "pooled_covariance"

    def sampling_model(  # type: ignore[override]  # each statistic names what may be known
        self, released: PublicSizeRelease, *, variances: Sequence[float | PublicSizeRelease] | None = None
    ) -> NormalCovariance:
        """As that of a covariance; see `Covariance.sampling_model`."""
        return normal_covariance(self.bounds, released, variances)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", bounds_of_columns("bounds", self.bounds, 2))
        super().__post_init__()
        self._grids  # noqa: B018  (refuses a bad grid at construction)

    @cached_property
    def _grids(self) -> tuple[Grid, Grid]:
        first, second = (Grid(bounds=pair, step=self.grid) for pair in self.bounds)
        return first, second

    @property
    def _unit(self) -> Fraction:
        return self._grids[0].width * self._grids[1].width

    def domain(self, n: int | None = None) -> Domain:
        rows = self.require_n(n)
        largest = Fraction(rows, 4)
        if self.sizes is not None:
            largest = sum((largest_squares(size) for size in self.sizes), Fraction(0))
        end = not_below(self._unit * largest / (rows - len(self.cells)))
        return -end, end

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        rows = self._require_rows(n, neighbours)
        if neighbours is Neighbours.REPLACE_ONE:
            return self._moves(self._replacing(rows) / (rows - len(self.cells)))
        if self.sizes is None:
            return self._moves(max(self._removing(rows), self._removing(rows + 1)))
        return self._moves(max(self._removed(self.sizes), self._added(self.sizes)))

    def _replacing(self, rows: int) -> Fraction:
        if self.sizes is not None:
            return 1 - Fraction(1, max(self.sizes))
        if not self.moving or len(self.cells) == 1:
            return 1 - Fraction(1, rows)
        half = (rows + 1) // 2
        return 2 - Fraction(1, half) - Fraction(1, rows + 1 - half)

    def _removing(self, rows: int) -> Fraction:
        """liu2019 (H.1) at its largest over all cell sizes; the last candidate counts only where J is near n."""
        rest = rows - 1 - len(self.cells)
        sizes = [1 - Fraction(1, size) + Fraction(rows - size, 4 * rest) for size in _around(rest, rows)]
        mixed = (1 - Fraction(1, rows)) / 4 + Fraction(rows - 1, 4 * rest)
        return max(*sizes, mixed) / (rows - len(self.cells))

    def _removed(self, sizes: tuple[int, ...]) -> Fraction:
        """One of ``sizes`` loses a record."""
        divisor = sum(sizes) - len(sizes)
        elsewhere = sum((largest_squares(size) for size in sizes), Fraction(0))
        worst = max(1 - Fraction(1, m) + (elsewhere - largest_squares(m)) / (divisor - 1) for m in sizes)
        return worst / divisor

    def _added(self, sizes: tuple[int, ...]) -> Fraction:
        """One of ``sizes`` gains a record: the removal from every enlarged data set."""
        best = Fraction(0)
        for index, size in enumerate(sizes):
            others = sizes[:index] + sizes[index + 1 :]
            divisor = sum(sizes) + 1 - len(sizes)
            elsewhere = sum((largest_squares(other) for other in others), Fraction(0))
            best = max(best, (1 - Fraction(1, size + 1) + elsewhere / (divisor - 1)) / divisor)
        return best

    def value(self, data: Any) -> Fraction:
        cells = self._split(data, self._grids)
        divisor = self.require_n(self.rows(data)) - len(self.cells)
        products = sum((cross_products(part[0], part[1]) for part in cells), Fraction(0))
        return products / divisor * self._grids[0].exact_step * self._grids[1].exact_step


def _around(rest: int, rows: int) -> range:
    """Whole numbers around 2√(n − 1 − J), where liu2019 (H.1) is largest."""
    middle = math.isqrt(4 * rest)
    return range(max(1, middle - 1), min(rows, middle + 2) + 1)
