"""Covariance of two bounded columns, and variance and covariance within public cells."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
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
from discreet.inference.moments import GammaVariance, NormalCovariance, largest_fourth
from discreet.questions.bounded import Domain, PublicSizeRelease, PublicSizeStatistic, bounds_of_columns, whole_bounds
from discreet.questions.variance import gamma_variance, largest_squares, largest_variance


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
        super().__post_init__()
        self._grids  # noqa: B018  (refuses a bad grid at construction)

    @property
    def least_rows(self) -> int:
        return 2

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


# ---- Pooled variance and covariance: within public cells


@dataclass(frozen=True, kw_only=True)
class PooledCovariance(PublicSizeStatistic):
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
        super().__post_init__()
        self._check_bounds()
        self._grids  # noqa: B018  (refuses a bad grid at construction)

    def _check_bounds(self) -> None:
        object.__setattr__(self, "bounds", bounds_of_columns("bounds", self.bounds, 2))

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

    @property
    def _unit(self) -> Fraction:
        """Product of the widths of two columns, or the square of one."""
        return self._grids[0].width * self._grids[-1].width

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

    def _split(self, data: Any) -> list[list[Indices]]:
        """Offsets of every column, cell by cell."""
        grids = self._grids
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

    def sampling_model(  # type: ignore[override]  # each statistic names what may be known
        self, released: PublicSizeRelease, *, variances: Sequence[float | PublicSizeRelease] | None = None
    ) -> NormalCovariance:
        """As that of a covariance; see `Covariance.sampling_model`."""
        return normal_covariance(self.bounds, released, variances)

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
        cells = self._split(data)
        divisor = self.require_n(self.rows(data)) - len(self.cells)
        products = sum((cross_products(part[0], part[-1]) for part in cells), Fraction(0))
        return products / divisor * self._grids[0].exact_step * self._grids[-1].exact_step


@dataclass(frozen=True, kw_only=True)
class PooledVariance(PooledCovariance):
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

    def _check_bounds(self) -> None:
        object.__setattr__(self, "bounds", whole_bounds("bounds", self.bounds))

    @cached_property
    def _grids(self) -> tuple[Grid, ...]:
        return (Grid(bounds=self.bounds, step=self.grid),)

    def domain(self, n: int | None = None) -> Domain:
        return 0.0, super().domain(n)[1]

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


def _around(rest: int, rows: int) -> range:
    """Whole numbers around 2√(n − 1 − J), where liu2019 (H.1) is largest."""
    middle = math.isqrt(4 * rest)
    return range(max(1, middle - 1), min(rows, middle + 2) + 1)
