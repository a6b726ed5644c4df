"""The common base of statistics of bounded columns: bounds, a grid, the number of rows, an exact value, a reading."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property, partial
from typing import Any, ClassVar, Self, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from discreet import inference
from discreet.core import requirements
from discreet.core.errors import DiscreetError, InvalidParameter, NoPopulationInterval, WrongType
from discreet.core.guarantee import is_pure
from discreet.core.numbers import Grid, Indices, decimal, not_below, product_total, total
from discreet.core.protection import ROW, Neighbours, Protection, Unit
from discreet.core.schema import Bounds
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.inference import moments
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.bounded.covariance import BoundedCovariance
from discreet.mechanisms.bounded.gaussian import BoundedGaussian
from discreet.mechanisms.bounded.laplace import BoundaryInflatedLaplace, BoundedLaplace
from discreet.questions.question import Forecast, Measurement, bounds_of_columns, fractions, whole_bounds
from discreet.results.answer import pair_labels, pair_name
from discreet.results.display import Facts, Interval, number
from discreet.results.frames import Reading
from discreet.results.printed import told_numbers
from discreet.results.release import Release, Statistic

Method: TypeAlias = "inference.DoubleSanitization"
Domain = tuple[Any, Any]
"""Lower and upper end of a statistic's value: two floats, or two arrays for a vector."""


class BoundedStatistic(Statistic):
    """A statistic of columns with public bounds.

    Subclasses say how to compute the exact value, its public domain and its sensitivity.
    """

    def __post_init__(self) -> None:
        given = getattr(self, "n", None)
        if given is not None:
            object.__setattr__(self, "n", requirements.positive_integer("n", given, at_least=self.least_rows))

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
    concluded_from_measured: ClassVar[bool] = False
    """Whether conclusions are drawn from the noisy measurement, and not from the value that is shown for it."""

    def release_type(self) -> type[Release]:
        return PublicSizeRelease

    @property
    def rooted(self) -> bool:
        """True where the root of what is protected is read."""
        return False

    @property
    def independent_rows(self) -> int | None:
        """The public number of rows, less what is estimated besides the mean."""
        return self.n

    def sampling_model(self, released: PublicSizeRelease, **known: Any) -> moments.SamplingModel:
        """The model of variation between samples, with what is ``known`` of the population."""
        raise NoPopulationInterval(
            "statistic", self.title, "has no model of how it varies between samples", "Release one number at a time."
        )

    def require_n(self, n: int | None) -> int:
        """The public number of rows: the one given, or the one declared."""
        rows = self.n if n is None else n
        if rows is None:
            raise InvalidParameter("n", None, "the public number of rows is needed", "Pass n=….")
        return requirements.positive_integer("n", rows, at_least=self.least_rows)

    def require_n_between(self, n: int | None, neighbours: Neighbours) -> int:
        """As `require_n`; under add/remove the neighbour with one row less must have a value too."""
        _require_neighbours(neighbours)
        rows = self.require_n(n)
        if neighbours is Neighbours.ADD_REMOVE and rows <= self.least_rows:
            raise InvalidParameter("n", rows, f"must be above {self.least_rows} under add/remove", "Collect more rows.")
        return rows

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
                f"Declare it public with {self.name.title().replace('_', '')}(…, n=…), use Neighbours.REPLACE_ONE, "
                "or release NoisyAverage, which protects the number of rows too.",
            )
        if self.n is not None and rows != self.n:
            raise InvalidParameter("n", self.n, "is not the number of rows of the data", "Declare the right n.")
        sized = self.of_size(rows)
        return replace(BoundedStatistic.exact(sized, data, neighbours=neighbours, unit=unit), public={"n": rows})


def _require_neighbours(neighbours: Any) -> None:
    requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.REPLACE_ONE")


@dataclass(frozen=True, kw_only=True)
class OneColumn(BoundedStatistic):
    """A statistic of one column, clipped to public bounds.

    Parameters
    ----------
    bounds
        Public bounds (c₀, c₁) of a row; values outside are clipped.
    grid
        Resolution, a power of two; 1 for a column of whole numbers.
    """

    bounds: tuple[float, float]
    grid: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "bounds", whole_bounds("bounds", self.bounds))
        self._grid  # noqa: B018  (refuses a bad grid at construction)

    @cached_property
    def _grid(self) -> Grid:
        return Grid(bounds=self.bounds, step=self.grid)


# ---- Sample moments: means, variances and covariances of a public number of rows


LEAST_SHARE = 1e-6
"""The least variance that a mean is taken to have, as a share of the largest."""


def largest_squares(n: int) -> Fraction:
    """The largest Σ(x − x̄)² of n numbers in [0, 1]: ⌊n/2⌋·⌈n/2⌉/n, half of them at each end."""
    return Fraction((n // 2) * ((n + 1) // 2), n) if n > 0 else Fraction(0)


def products_around(rows: int, first: int, second: int, product: int) -> Fraction:
    """Σ(x − x̄)(y − ȳ) of so many rows, from Σx, Σy and Σxy."""
    return Fraction(rows * product - first * second, rows) if rows else Fraction(0)


def cross_products(first: Indices, second: Indices) -> Fraction:
    """Σ(x − x̄)(y − ȳ) of two columns of offsets, in products of their steps."""
    return products_around(first.size, total(first), total(second), product_total(first, second))


def same_length(columns: list[Indices]) -> int:
    """The common number of rows."""
    sizes = {column.size for column in columns}
    if len(sizes) != 1:
        raise InvalidParameter("data", sorted(sizes), "columns must have equally many rows", "Align the columns.")
    return sizes.pop()


def columns_of(data: Any, count: int) -> list[Any]:
    """Some columns, or the columns of an array with so many."""
    if isinstance(data, tuple | list) and len(data) == count and all(np.ndim(one) == 1 for one in data):
        return list(data)
    array = np.asarray(data)
    if array.ndim != 2 or array.shape[1] != count:
        rule = f"must be n × {count} or {count} columns"
        raise WrongType("data", f"shape {array.shape}", rule, "Pass one column for each pair of bounds.")
    return list(array.T)


@dataclass(frozen=True, kw_only=True)
class SampleMoment(PublicSizeStatistic):
    """A mean, a variance (divisor n − 1) or a covariance of columns clipped to public bounds, alone or within cells.

    Within J public cells it is Σⱼ Σᵢ (xᵢⱼ − x̄ⱼ)(yᵢⱼ − ȳⱼ)/(n − J); a variance is the covariance of a column and itself.
    A standard deviation moves by as much as (c₁ − c₀)/√n (in a column of equal values one row moves to the other end),
    far more than a variance does in its own units. So the *variance* is protected, and the release takes the root
    (liu2019 section 2.2): ``release(…).standard_deviation``, with its interval. So does a correlation matrix, which one
    row can move by as much as its whole range: the covariance matrix is protected, and ``release(…).correlation``
    divides. A matrix is the vector of the d variances followed by the d(d − 1)/2 covariances above the diagonal, row by
    row (`pairs`).

    Guarantee
    ---------
    With W the width of the bounds, or the product of two, under replace-one and, with n declared public, under
    add/remove:

    - a mean changes by at most W/n (liu2019 D), a variance by W²/n (E), a covariance by W₁W₂/n (F);
    - coordinate (j, k) of a matrix by at most WⱼWₖ/n, all of them at once in the worst case, so ℓ₁ = Σ WⱼWₖ/n and
      ℓ₂ = √Σ(WⱼWₖ/n)² (Table 1, E, F);
    - a pooled variance by W²/(n − J) times 1 − 1/n_max where sizes of cells are public, or under add/remove the larger
      of that and (n − J)/(n − J + 1)·(1 − 1/(n_max + 1)); else times 1 − 1/n, or under add/remove the larger of that
      and M(n − 1)/(n − 1 − J), M(m) = ⌊m/2⌋⌈m/2⌉/m, which counts only where J is near n (G);
    - a pooled covariance by W₁W₂/(n − J) times

      - replace-one inside a cell: 1 − 1/n_max, or 1 − 1/n where sizes are not public;
      - replace-one where a record may change its cell: 2 − 1/⌈(n+1)/2⌉ − 1/⌊(n+1)/2⌋, because what it takes from
        one cell and what it brings to another add up;
      - add/remove: maxⱼ 1 − 1/nⱼ + Σᵢ≠ⱼ M(nᵢ)/(n − 1 − J), and the same for the neighbour with n + 1 rows; where sizes
        are not public, the largest of 1 − 1/m + (n − m)/(4(n − 1 − J)) over whole m (H.1).

    Parameters
    ----------
    of
        Which moment; `Mean`, `Variance`, `StandardDeviation`, `Covariance`, `PooledVariance`, `PooledCovariance`,
        `CovarianceMatrix` and `CorrelationMatrix` are short for it.
    bounds
        Public bounds (c₀, c₁) of a row, or those of every column; values outside are clipped.
    cells
        Every public cell label, of pooled moments. Cells with fewer than two rows contribute nothing.
    sizes
        The cell sizes, each at least 2, where they are public and records keep their cell.
    moving
        Whether a replaced record may also change its cell; True is the safe answer.
    grid
        Resolution of the columns, a power of two.
    n
        The public number of rows; needed under add/remove, taken from the data under replace-one.

    Notes
    -----
    ``data`` is a column, an n × d array or d columns; within cells (x, labels) or (x, y, labels).

    Examples
    --------
    >>> Mean(bounds=(0, 1)).sensitivity(n=50, neighbours=Neighbours.REPLACE_ONE).l1
    0.02
    >>> Mean(bounds=(0, 1)).value([0.25, 0.5, 9.0]), Variance(bounds=(0, 1)).value([0, 1, 1])
    (Fraction(7, 12), Fraction(1, 3))
    >>> pair = Covariance(bounds=((0, 1), (0, 2)))
    >>> pair.sensitivity(n=10, neighbours=Neighbours.REPLACE_ONE).l1, pair.value(([0, 1, 1], [2, 0, 0]))
    (0.2, Fraction(-2, 3))
    >>> pooled = PooledVariance(bounds=(0, 1), cells=("a", "b"), sizes=(3, 5), moving=False)
    >>> round(pooled.sensitivity(neighbours=Neighbours.REPLACE_ONE).l1, 6)  # 0.8/6
    0.133333
    >>> matrix = CovarianceMatrix(bounds=((-3, 3), (-4.5, 4.5)))
    >>> [float(x) for x in matrix.coordinate_sensitivities(n=54, neighbours=Neighbours.REPLACE_ONE)]
    [0.6666666666666667, 1.5, 1.0]
    """

    name: ClassVar[str] = "sample_moment"
    kinds: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        of: {"of": of}
        for of in (
            "mean", "variance", "standard_deviation", "covariance", "pooled_variance", "pooled_covariance",
            "covariance_matrix", "correlation_matrix",
        )
    }  # fmt: skip
    of: str
    bounds: Any
    cells: tuple[Any, ...] = ()
    sizes: tuple[int, ...] | None = None
    moving: bool = True
    grid: float | None = None
    n: int | None = None

    def __post_init__(self) -> None:
        of = requirements.one_of("of", self.of, [*self.kinds])
        if type(self) is SampleMoment:  # which is stored under what it is of; somebody else's goes by a name of its own
            object.__setattr__(self, "name", of)
        object.__setattr__(self, "bounds", self._checked_bounds())
        if self.pooled:
            self._check_cells()
        elif self.cells or self.sizes is not None:
            raise InvalidParameter("cells", self.cells, f"are those of a pooled {self.title}", "Leave cells out.")
        super().__post_init__()
        self._grids  # noqa: B018  (refuses a bad grid at construction)

    def _checked_bounds(self) -> Any:
        if not self.several:
            return whole_bounds("bounds", self.bounds)
        bounds = bounds_of_columns("bounds", self.bounds, None if self.matrix else 2)
        if self.of == "correlation_matrix" and len(bounds) < 2:
            raise InvalidParameter("bounds", self.bounds, "needs at least two columns", "Add a column.")
        return bounds

    def _check_cells(self) -> None:
        cells = requirements.listed("cells", self.cells, 'cells=("a", "b")')
        if not all(isinstance(cell, Hashable) and cell == cell for cell in cells):
            raise InvalidParameter("cells", cells, "must be plain labels", "List every public cell once.")
        if len(cells) == 0 or len(set(cells)) != len(cells):
            raise InvalidParameter("cells", cells, "must be distinct labels", "List every public cell once.")
        object.__setattr__(self, "cells", cells)
        if self.sizes is not None:
            self._check_sizes(tuple(self.sizes))

    def _check_sizes(self, sizes: tuple[Any, ...]) -> None:
        if len(sizes) != len(self.cells):
            raise InvalidParameter("sizes", sizes, "must be one size a cell", "Give as many sizes as cells.")
        if self.moving:
            raise InvalidParameter(
                "sizes", sizes, "are not public where a record may change its cell", "Pass moving=False, or no sizes."
            )
        checked = tuple(requirements.positive_integer("sizes", size, at_least=2) for size in sizes)
        object.__setattr__(self, "sizes", checked)
        if self.n is None:
            object.__setattr__(self, "n", sum(checked))
        self._require_sum(self.n)

    def _require_sum(self, n: int | None) -> None:
        if self.sizes is not None and n != sum(self.sizes):
            raise InvalidParameter("n", n, f"is not the sum {sum(self.sizes)} of the sizes", "Leave n out.")

    def parameters(self) -> dict[str, Any]:
        untold = () if self.pooled else ("cells", "sizes", "moving")
        return {name: value for name, value in super().parameters().items() if name not in untold}

    def release_type(self) -> type[Release]:
        return MatrixRelease if self.matrix else PublicSizeRelease

    @property
    def matrix(self) -> bool:
        """True of all variances and covariances of several columns."""
        return self.of.endswith("matrix")

    @property
    def several(self) -> bool:
        """True of two columns or more."""
        return self.matrix or self.of.endswith("covariance")

    @property
    def entries(self) -> list[tuple[int, int]]:
        """The columns of each number: (j, j) for a variance, (j, k) for a covariance."""
        return moments.pairs(len(self.bounds)) if self.matrix else [(0, len(self._grids) - 1)]

    @property
    def pooled(self) -> bool:
        """True within cells."""
        return self.of.startswith("pooled")

    @property
    def rooted(self) -> bool:
        return self.of == "standard_deviation"

    @cached_property
    def _grids(self) -> tuple[Grid, ...]:
        return tuple(Grid(bounds=pair, step=self.grid) for pair in (self.bounds if self.several else [self.bounds]))

    @property
    def _lost(self) -> int:
        """Degrees of freedom that means take: J, one without cells, none of a mean itself."""
        return 0 if self.of == "mean" else max(len(self.cells), 1)

    @property
    def independent_rows(self) -> int | None:
        """As many rows as have the same degrees of freedom without cells."""
        return None if self.n is None else self.n - max(len(self.cells), 1) + 1

    @property
    def least_rows(self) -> int:
        """One more row than the means take, so that the divisor is positive."""
        return self._lost + 1

    def sampling_model(self, released: PublicSizeRelease, **known: Any) -> moments.SamplingModel:
        """Beta distribution of a mean in bounds, gamma of a sample variance, normal of a sample covariance.

        Parameters
        ----------
        variance
            Of a mean: the population's variance, if public, or a private release of it, whose upper end at 98 % is
            used. Without it the largest possible variance (μ − c₀)(c₁ − μ) is assumed, which is valid for every
            population in the bounds and wide for most.
        kurtosis
            Of a variance: the population's μ₄/σ⁴, where it is known; by default the worst that the bounds allow.
        variances
            Of a covariance: the two population variances, public or as private releases, whose upper ends at 99 % are
            used. Without them the largest possible fourth moments are assumed.
        """
        model = _beta_mean if self.of == "mean" else _normal_covariance if self.several else _gamma_variance
        return model(self.bounds, released, **known)

    def domain(self, n: int | None = None) -> Domain:
        if self.of == "mean":
            return cast(Domain, self.bounds)
        rows = self.require_n(n)
        high = np.array(
            [
                not_below(unit * self._largest(rows, apart=j != k) / (rows - self._lost))
                for unit, (j, k) in zip(self._units(), self.entries, strict=True)
            ]
        )
        low = np.where([j == k for j, k in self.entries], 0.0, -high)
        return (low, high) if self.matrix else (float(low[0]), float(high[0]))

    def _largest(self, rows: int, *, apart: bool) -> Fraction:
        """The largest sum of products in units of the bounds, of two columns or of one."""
        if self.sizes is not None:
            return sum((largest_squares(size) for size in self.sizes), Fraction(0))
        return largest_squares(rows) if apart and not self.pooled else Fraction(rows, 4)

    def _units(self, widths: Sequence[Fraction] | None = None) -> list[Fraction]:
        """The width of a mean, the product of two widths of a covariance, the square of one of a variance."""
        own = [grid.width for grid in self._grids] if widths is None else widths
        return [own[0]] if self.of == "mean" else [own[j] * own[k] for j, k in self.entries]

    def sensitivity(
        self, *, n: int | None = None, neighbours: Neighbours, widths: Sequence[Fraction] | None = None
    ) -> Sensitivity:
        """The largest change between neighbours; ``widths`` are those of bounds that mean the decimals they print."""
        moves = tuple(self.coordinate_sensitivities(n=n, neighbours=neighbours, widths=widths).tolist())
        return Sensitivity(coordinates=moves) if self.matrix else Sensitivity(moves=moves)

    def coordinate_sensitivities(
        self, *, n: int | None = None, neighbours: Neighbours, widths: Sequence[Fraction] | None = None
    ) -> NDArray[np.float64]:
        """The largest move of each number by one row; see `sensitivity`."""
        rows = self.require_n_between(n, neighbours)
        self._require_sum(rows)
        factor = Fraction(1, rows)
        if self.pooled:
            factor = (self._pooled_pair if self.several else self._pooled_column)(rows, neighbours)
        return np.array([not_below(unit * factor) for unit in self._units(widths)])

    def _pooled_column(self, rows: int, neighbours: Neighbours) -> Fraction:
        divisor = rows - len(self.cells)
        if self.sizes is None:
            factor = 1 - Fraction(1, rows)
            if neighbours is Neighbours.ADD_REMOVE:
                factor = max(factor, largest_squares(rows - 1) / (divisor - 1))
            return factor / divisor
        largest = max(self.sizes)
        inside = (1 - Fraction(1, largest)) / divisor
        if neighbours is Neighbours.REPLACE_ONE:
            return inside
        return max(inside, (1 - Fraction(1, largest + 1)) / (divisor + 1))

    def _pooled_pair(self, rows: int, neighbours: Neighbours) -> Fraction:
        if neighbours is Neighbours.REPLACE_ONE:
            return self._replacing(rows) / (rows - len(self.cells))
        if self.sizes is None:
            return max(self._removing(rows), self._removing(rows + 1))
        return max(self._removed(self.sizes), self._added(self.sizes))

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
        middle = math.isqrt(4 * rest)  # it is largest around 2√(n − 1 − J)
        around = range(max(1, middle - 1), min(rows, middle + 2) + 1)
        sizes = [1 - Fraction(1, size) + Fraction(rows - size, 4 * rest) for size in around]
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

    def rows(self, data: Any) -> int:
        if self.pooled:
            columns = requirements.instance("data", data, (tuple, list), "the columns and the labels: (x, labels)")
            return super().rows(columns[-1] if columns else None)
        return super().rows(columns_of(data, len(self.bounds))[0] if self.several else data)

    def _by_cell(self, data: Any) -> list[list[Indices]]:
        """Offsets of every column, cell by cell; one cell holds all rows where none are named."""
        grids, labelled = self._grids, self.pooled
        if labelled and (not isinstance(data, tuple | list) or len(data) != len(grids) + 1):
            wanted = "(x, y, labels)" if self.several else "(x, labels)"
            raise WrongType("data", "…", f"must be {wanted}", f"Pass exact({wanted}, …).")
        given = data[:-1] if labelled else columns_of(data, len(grids)) if self.several else [data]
        columns = [grid.offsets("data", values) for grid, values in zip(grids, given, strict=True)]
        size = same_length(columns)
        if not labelled:
            return [columns]
        labels = np.asarray(data[-1])
        if labels.ndim != 1 or labels.size != size:
            raise InvalidParameter("labels", f"shape {labels.shape}", "must be one label per row", "Align the columns.")
        parts = [labels == cell for cell in self.cells]
        counts = [int(np.count_nonzero(part)) for part in parts]
        if sum(counts) != labels.size:
            raise InvalidParameter("labels", "…", f"must all be among {list(self.cells)}", "List every cell.")
        if self.sizes is not None and tuple(counts) != self.sizes:
            raise InvalidParameter("sizes", self.sizes, "are not the sizes of the cells", "Declare the right sizes.")
        return [[column[part] for column in columns] for part in parts]

    def value(self, data: Any) -> Any:
        cells = self._by_cell(data)
        steps = [grid.exact_step for grid in self._grids]
        rows = requirements.positive_integer("rows", sum(part[0].size for part in cells), at_least=self.least_rows)
        if self.of == "mean":
            return self._grids[0].origin + Fraction(total(cells[0][0]), rows) * steps[0]
        found = [
            sum((cross_products(part[j], part[k]) for part in cells), Fraction(0))
            / (rows - self._lost)
            * steps[j]
            * steps[k]
            for j, k in self.entries
        ]
        return fractions(found) if self.matrix else found[0]


Mean = partial(SampleMoment, of="mean")
Variance = partial(SampleMoment, of="variance")
StandardDeviation = partial(SampleMoment, of="standard_deviation")
Covariance = partial(SampleMoment, of="covariance")
PooledVariance = partial(SampleMoment, of="pooled_variance")
PooledCovariance = partial(SampleMoment, of="pooled_covariance")
CovarianceMatrix = partial(SampleMoment, of="covariance_matrix")
CorrelationMatrix = partial(SampleMoment, of="correlation_matrix")


def _beta_mean(
    bounds: tuple[float, float], released: PublicSizeRelease, *, variance: float | PublicSizeRelease | None = None
) -> moments.BetaMean:
    low, high = bounds
    largest = (released.debiased - low) * (high - released.debiased)
    if variance is None or largest <= 0:
        return moments.BetaMean(n=released.n, bounds=bounds)
    spread = _largest_variance(variance, 0.98)
    return moments.BetaMean(n=released.n, bounds=bounds, dispersion=min(1.0, max(spread / largest, LEAST_SHARE)))


def _gamma_variance(
    bounds: tuple[float, float], released: PublicSizeRelease, *, kurtosis: float | None = None
) -> moments.GammaVariance:
    width = bounds[1] - bounds[0]
    return moments.GammaVariance(n=released.n, width=width, largest=released.domain[1], kurtosis=kurtosis)


def _normal_covariance(
    bounds: Sequence[tuple[float, float]],
    released: PublicSizeRelease,
    *,
    variances: Sequence[float | PublicSizeRelease] | None = None,
) -> moments.NormalCovariance:
    widths = [high - low for low, high in bounds]
    if variances is not None and len(variances) != 2:
        raise InvalidParameter("variances", len(variances), "must be two", "Pass one per column.")
    spreads = [width**2 / 4 for width in widths]
    fourths = [width**4 / 12 for width in widths]
    for place, given in enumerate(variances or ()):
        spreads[place] = min(_largest_variance(given, 0.99), spreads[place])
        fourths[place] = moments.largest_fourth(spreads[place], widths[place])
    return moments.NormalCovariance(
        n=released.n,
        mixed=math.sqrt(math.prod(fourths)),
        largest=released.domain[1],
        reach=min(math.sqrt(math.prod(spreads)), released.domain[1]),
    )


def _largest_variance(value: float | PublicSizeRelease, level: float) -> float:
    """A known variance, or the largest one that a release leaves possible."""
    if isinstance(value, PublicSizeRelease):
        return float(value.protected_interval(level).high)
    return requirements.non_negative("variance", value)


@dataclass(frozen=True)
class PublicSizeRelease(Release):
    """A released mean, variance, standard deviation or covariance of a public number of rows.

    ``value`` is what was protected: for a standard deviation its square. Intervals are for what was asked for.
    """

    @property
    def _of(self) -> PublicSizeStatistic:
        return cast(PublicSizeStatistic, self.statistic)

    @property
    def n(self) -> int:
        """The public number of rows; of a pooled statistic one more than its degrees of freedom."""
        return requirements.positive_integer("n", self._of.independent_rows)

    @property
    def domain(self) -> tuple[float, float]:
        """The public domain of the statistic."""
        low, high = self._of.domain()
        return float(low), float(high)

    @property
    def debiased(self) -> float:
        """The value corrected for the bias of bounded noise, inside the domain."""
        return moments.debiased(self.mechanism, self._number(), self.domain)

    def _number(self) -> float:
        if np.ndim(self.value) != 0:
            raise WrongType("value", self.value, "must be one number", "Release one statistic at a time.")
        return float(self.measured if self._of.concluded_from_measured else self.value)

    @property
    def mean(self) -> float:
        """The released mean."""
        if self._of.name != "mean":
            raise AttributeError(f"a {self._of.title} has no mean. Release Mean(…).")
        return self._number()

    @property
    def variance(self) -> float:
        """The released variance (divisor n − 1)."""
        if self._of.name not in ("variance", "standard_deviation"):
            raise AttributeError(f"a {self._of.title} has no variance. Release Variance(…).")
        return self._number()

    @property
    def standard_deviation(self) -> float:
        """Root of the released variance, which must not be negative: release it with a bounded mechanism."""
        if not self._of.rooted:
            raise AttributeError(f"a {self._of.title} has no standard deviation. Release StandardDeviation(…).")
        if self._number() < 0:
            raise InvalidParameter(
                "variance", self._number(), "a negative released variance has no root",
                "Release it with BoundedLaplace or BoundaryInflatedLaplace.",
            )  # fmt: skip
        return math.sqrt(self._number())

    def sampling_model(self, **known: Any) -> moments.SamplingModel:
        """The model of variation between samples, with what is ``known`` of the population."""
        return self._of.sampling_model(self, **known)

    def sampling_variance(self, **known: Any) -> float:
        """Sampling variance of the statistic, at the debiased value."""
        return self.sampling_model(**known).variance(self.debiased)

    def noise_interval(self, level: float = 0.95) -> Interval:
        """Interval for the data, from the known distribution of the noise."""
        found = super().noise_interval(level)
        return root_interval(found) if self._of.rooted else found

    def population_interval(self, level: float = 0.95, *, method: Method | None = None, **known: Any) -> Interval:
        """Interval for the population's parameter: sampling error and noise together.

        Parameters
        ----------
        level
            Confidence level.
        method
            By default the exact distribution of the release is inverted (`ReleaseLaw`); `DoubleSanitization(m=…)` adds
            the variance of repeated noise.
        known
            What is known of the population; see the statistic's `sampling_model`.
        """
        found = self.protected_interval(level, method=method, **known)
        return root_interval(found) if self._of.rooted else found

    def protected_interval(self, level: float, *, method: Method | None = None, **known: Any) -> Interval:
        """The same for what was protected: of a standard deviation the variance."""
        checked = requirements.level(level)
        if method is not None:
            requirements.instance("method", method, inference.DoubleSanitization, "DoubleSanitization(m=1000), or none")
            combined = method.combine(self._number(), self.mechanism, self.sampling_variance(**known))
            return combined.population_interval(checked)
        return moments.ReleaseLaw(model=self.sampling_model(**known), mechanism=self.mechanism).interval(
            self._number(), checked
        )

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The number, with both intervals."""
        (read,) = super().readings(columns)
        read = replace(read, population=self.known_population_interval())
        if not self._of.rooted:
            return [read]
        return [replace(read, estimate=math.sqrt(max(self._number(), 0.0)), standard_error=None)]

    def facts(self) -> Facts:
        """The facts to show; a standard deviation before the variance that was protected."""
        asked, *others = super().facts()
        return [(self._of.title, number(self.standard_deviation)) if self._of.rooted else asked, *others]

    def known_population_interval(self) -> Interval | None:
        """The 95 % interval for the population, or None where there is none.

        Such intervals are for independent rows; several rows of one unit are not.
        """
        if self.unit.column is not None and not self.public.get("per_unit"):
            return None
        try:
            return self.population_interval()
        except DiscreetError:
            return None


@dataclass(frozen=True)
class MatrixRelease(Release):
    """A released covariance matrix of a public number of rows: variances and covariances, or the whole, repaired."""

    @property
    def _of(self) -> SampleMoment:
        return cast(SampleMoment, self.statistic)

    @property
    def count(self) -> float:
        """The public number of rows."""
        return float(self._of.require_n(None))

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The covariance matrix as it was released; it need not be positive semidefinite."""
        value = np.asarray(self.value, dtype=float)
        return value if value.ndim == 2 else moments.as_matrix(value, len(self._of.bounds))

    @property
    def estimate(self) -> NDArray[np.float64]:
        """The covariance matrix."""
        return self.matrix

    @property
    def correlation(self) -> NDArray[np.float64]:
        """Correlations of the matrix, within ±1; NaN where a variance is not positive."""
        return moments.correlations(self.matrix)

    def population_interval(
        self, level: float = 0.95, *, j: int | None = None, k: int | None = None, kurtosis: float | None = None
    ) -> Interval:
        """Interval for the population's variance of column j, or its covariance with column k; else for all entries.

        By the distribution of a sample variance or covariance of independent rows, and the noise.
        """
        checked = requirements.level(level)
        count = len(self._of.bounds)
        if j is None:
            every = [self.population_interval(checked, j=a, k=b, kurtosis=kurtosis) for a, b in self._of.entries]
            low, high = (moments.as_matrix(ends, count) for ends in np.array([tuple(one) for one in every]).T)
            return Interval(low, high, checked)
        entry = checked_entry(count, j, j if k is None else k)
        place = self._of.entries.index((min(entry), max(entry)))
        if entry[0] != entry[1] and 0 in np.asarray(self.measured, dtype=float)[list(entry)]:
            low, high = self._of.domain()
            return Interval(float(low[place]), float(high[place]), checked)  # a variance of 0 leaves it no range
        value, mechanism = moments.measured_coordinate(self.mechanism, self.measured, place)
        return moments.ReleaseLaw(model=self._model(entry, place, kurtosis), mechanism=mechanism).interval(
            value, checked
        )

    def _model(self, entry: tuple[int, int], place: int, kurtosis: float | None) -> moments.SamplingModel:
        """Fourth moments are the worst that the bounds and the upper ends of the released variances allow."""
        of = self._of
        rows = of.require_n(None)
        largest = float(np.asarray(of.domain()[1])[place])
        widths = [high - low for low, high in (of.bounds[column] for column in entry)]
        if entry[0] == entry[1]:
            return moments.GammaVariance(n=rows, width=widths[0], largest=largest, kurtosis=kurtosis)
        spreads = [float(self.population_interval(0.99, j=column).high) for column in entry]
        fourths = [moments.largest_fourth(spread, width) for spread, width in zip(spreads, widths, strict=True)]
        return moments.NormalCovariance(
            n=rows,
            mixed=max(math.sqrt(math.prod(fourths)), 1e-12 * largest**2),
            largest=largest,
            reach=min(math.sqrt(math.prod(spreads)), largest),
        )

    def correlation_interval(self, level: float = 0.95, *, j: int, k: int) -> Interval:
        """Interval for the population's correlation of two columns, for any population on the bounds."""
        return correlation_between(self, level, *checked_entry(len(self._of.bounds), j, k, apart=True))

    def facts(self) -> Facts:
        """The facts to show: the entries, the number of rows, the protection."""
        told = told_numbers(self.told_readings())
        return [*told, ("rows", f"{round(self.count):,}"), *self.protection_facts()]

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The released coordinates under the names of their columns."""
        found = super().readings(columns)
        if len(found) != len(self._of.entries):  # a repaired matrix holds every covariance twice
            return found
        return [
            replace(one, label=pair_name(columns, j, k), labels=pair_labels(columns, j, k), measure="covariance")
            for one, (j, k) in zip(found, self._of.entries, strict=True)
        ]


def checked_entry(columns: int, j: int, k: int, *, apart: bool = False) -> tuple[int, int]:
    """An entry of the matrix of so many columns; ``apart``, of two of them."""
    if any(not 0 <= one < columns for one in (j, k)):
        raise InvalidParameter("j, k", (j, k), f"must be below {columns}", "Check the columns.")
    if apart and j == k:
        raise InvalidParameter("k", k, "must be another column than j", "A column correlates with itself by 1.")
    return j, k


def correlation_between(released: Any, level: float, j: int, k: int) -> Interval:
    """The range of a correlation over intervals of two variances and their covariance, which cover together."""
    each = (2 + requirements.level(level)) / 3  # Bonferroni
    ends = [released.population_interval(each, j=one, k=other) for one, other in ((j, j), (k, k), (j, k))]
    return replace(moments.correlation_range(*ends), level=level)


def root_interval(interval: Interval) -> Interval:
    """The interval of a variance as one of the standard deviation: the root is monotone."""
    low, high = (math.sqrt(max(float(end), 0.0)) for end in interval)
    return Interval(low, high, interval.level)


def of_public_size(question: Any, of: str, size: int, read: str, names: Sequence[str] = ()) -> Measurement:
    """The measurement of a moment of the question's column, or of all of a matrix, of a public number of rows."""
    names = tuple(names) or (question.column,)
    columns: list[Bounds] = [question.schema.bounds(name) for name in names]
    ends = tuple((one.low, one.high) for one in columns)
    matrix = of == "covariance_matrix"
    statistic = SampleMoment(of=of, bounds=ends if matrix else ends[0], n=size)
    widths = [decimal(one.high) - decimal(one.low) for one in columns]
    sensitivity = statistic.sensitivity(neighbours=Neighbours.REPLACE_ONE, widths=widths)

    def value(counts: Any, sums: Any) -> Any:
        rows = int(counts[0])
        first = [int(sums[name,][0]) for name in names]
        if of == "mean":
            return Fraction(first[0], rows) * columns[0].step
        found = [
            products_around(rows, first[j], first[k], int(sums[names[j], names[k]][0]))
            / (rows - 1)
            * columns[j].step
            * columns[k].step
            for j, k in statistic.entries
        ]
        return fractions(found) if matrix else found[0]

    single = tuple((name,) for name in names)
    return Measurement(
        statistic=statistic,
        sensitivity=sensitivity,
        mechanism=additive_noise(question.guarantee, sensitivity),
        columns=names,
        products=single if of == "mean" else (*single, *((names[j], names[k]) for j, k in statistic.entries)),
        from_lowest=of != "mean",
        public={"n": size},
        value=value,
        read=read,
    )


# ---- Outputs that lie where the statistic can lie: noise conditioned on that (holohan2018), or clamped to it (liu2019)


OUTPUTS: Mapping[str, tuple[type[BoundedLaplace | BoundedGaussian | BoundaryInflatedLaplace], ...]] = {
    "bounded": (BoundedLaplace, BoundedGaussian),
    "inflated": (BoundaryInflatedLaplace,),
}
"""The kinds of noise that keep to a domain. Of several, the one with the least mean squared error over it is taken."""
_PLACES, _POINTS = 21, 2000
_SHARES, _DRAWS = 7, 1000


def kept_inside(question: Any, size: int | None, measured: Callable[[int], Measurement]) -> Measurement:
    """The measurement of one number of a public ``size``, by the noise that the question names as its ``output``."""
    if isinstance(question.output, str) and question.output == "truncated":
        rule = "is bounded noise of a scale that exceeds the guarantee (liu2019)"
        raise InvalidParameter("output", question.output, rule, 'Write output = "bounded", at a scale that keeps it.')
    kinds = OUTPUTS[requirements.one_of("output", question.output, [*OUTPUTS])]
    if size is None:
        rule = "needs one number of a public number of rows; what is read from totals lies within the bounds anyway"
        fix = 'Leave output out, or declare neighbours = "replace_one" and size, and ask without groups.'
        raise InvalidParameter("output", question.output, rule, fix)
    found = measured(size)
    domain = cast(PublicSizeStatistic, found.statistic).domain()
    if np.ndim(domain[0]):
        return _matrix_inside(question, found)
    made = [
        kind.calibrate(question.guarantee, found.sensitivity, bounds=domain)
        for kind in kinds
        if kind is not BoundedGaussian or not is_pure(question.guarantee)
    ]
    every = [_kept(replace(found, mechanism=mechanism)) for mechanism in made]
    return every[0] if len(every) == 1 else min(every, key=lambda one: cast(Any, one.forecast().squares)[0])


def _kept(found: Measurement) -> Measurement:
    """The measurement with the forecast of noise that keeps to the domain."""
    return replace(found, forecast=cache(lambda: _inside(found)))


def _matrix_inside(question: Any, found: Measurement) -> Measurement:
    """Variances kept to their domains, covariances to what these leave, a matrix that can exist (liu2019 4.1)."""
    of = cast(SampleMoment, found.statistic)
    _, high = of.domain()
    changes = of.coordinate_sensitivities(neighbours=Neighbours.REPLACE_ONE)
    mechanism = BoundedCovariance.calibrate(
        question.guarantee, found.sensitivity, changes=changes.tolist(), inflated=question.output == "inflated",
        variance_bounds=[(0.0, float(end)) for end in high[: len(of.bounds)]],
    )  # fmt: skip
    kept = replace(found, mechanism=mechanism)
    return replace(kept, forecast=cache(lambda: _matrix_forecast(kept)))


def _matrix_forecast(found: Measurement) -> Forecast:
    """The same of a matrix, for its worst entry: at shares of the largest variances, and at correlations, by draws."""
    of, mechanism = cast(SampleMoment, found.statistic), cast(BoundedCovariance, found.mechanism)
    low, high = (np.asarray(end, dtype=float) for end in of.domain())
    told = Forecast(error=lambda level: float(mechanism.error(level).max()), ends=(float(low.min()), float(high.max())))
    if not mechanism.quickly_scaled:
        return told
    apart = np.array([j != k for j, k in of.entries])
    bias: list[float] = []
    squares: list[float] = []
    for share in np.linspace(0, 1, _SHARES):
        for correlation in (-1.0, 0.0, 1.0) if apart.any() else (0.0,):
            truth = share * np.where(apart, correlation * high, high)
            moved = mechanism.simulate(truth, _DRAWS, rng=len(squares)) - truth
            bias.append(float(np.abs(moved.mean(axis=0)).max()))
            squares.append(float((moved**2).mean(axis=0).max()))
    return replace(told, bias=max(bias), squares=(float(np.mean(squares)), max(squares)))


def _inside(found: Measurement) -> Forecast:
    """The error, bias and mean squared errors of noise that keeps to the domain, at true values across it."""
    statistic = cast(PublicSizeStatistic, found.statistic)
    read = np.sqrt if statistic.rooted else np.asarray
    chances = (np.arange(_POINTS) + 0.5) / _POINTS
    low, high = (float(end) for end in statistic.domain())
    truths = np.linspace(low, high, _PLACES)
    moved = np.array([read(found.mechanism.law(one).quantile(chances)) - read(one) for one in truths])
    squared = (moved**2).mean(axis=1)
    return Forecast(
        error=lambda level: float(found.mechanism.error(level)),
        bias=float(np.abs(moved.mean(axis=1)).max()),
        squares=(float(squared.mean()), float(squared.max())),
        ends=(float(read(low)), float(read(high))),
    )


def output_notes(question: Any, found: Measurement) -> tuple[str, ...]:
    """The cost of an ``output`` in bias and mean squared error, over the domain, beside what the default has."""
    if question.output is None:
        return ()
    told = found.forecast()
    usual = question.changed(output=None).measurement.standard_error()
    if told.squares is None:
        return (f"output = {question.output!r} has a bias that depends on the variances it draws; it is not stated",)
    mean, largest = told.squares
    return (
        f"output = {question.output!r} has a bias of up to {told.bias:.3g} and a mean squared error of "
        f"{mean:.3g}, at most {largest:.3g}, over all values of {found.read}; by default it is {usual**2:.3g}",
    )
