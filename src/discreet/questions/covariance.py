"""Covariance of two bounded columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from itertools import product
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.noise.sampler import float_truth
from discreet.core.numbers import Grid, Indices, decimal, not_below, product_total, total
from discreet.core.protection import ROW, Neighbours, Protection, Unit
from discreet.core.rows import coarsening
from discreet.core.schema import Contribution, in_parts
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.inference.moments import NormalCovariance, largest_fourth, moment_weights
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.gaussian import Gaussian
from discreet.questions.bounded import Domain, MomentRelease, PublicSizeStatistic, clipped, fractions, whole_bounds
from discreet.questions.parts import weighed_sensitivity
from discreet.questions.question import Forecast, MeasuredQuestion, Measurement
from discreet.questions.variance import VarianceRelease, largest_squares, largest_variance
from discreet.results.release import Release, Statistic

__all__ = [
    "Covariance", "CovarianceRelease", "bounds_of_columns", "cross_products", "same_length", "TensorParts",
    "tensor_measurement",
]  # fmt: skip


def bounds_of_columns(name: str, value: Any, count: int | None = None) -> tuple[tuple[float, float], ...]:
    """One pair of finite bounds per column."""
    if isinstance(value, str) or not isinstance(value, list | tuple) or len(value) == 0:
        raise WrongType(name, value, "must be one pair of bounds per column", f"Pass {name}=((0, 1), (0, 5)).")
    if count is not None and len(value) != count:
        raise InvalidParameter(name, value, f"must be {count} pairs of bounds", f"Pass {name}=((0, 1), (0, 5)).")
    return tuple(whole_bounds(name, pair) for pair in value)


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

    @classmethod
    def release_type(cls) -> type[Release]:
        return CovarianceRelease

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


@dataclass(frozen=True)
class CovarianceRelease(MomentRelease):
    """A released covariance."""

    def _of(self) -> Covariance:
        return cast(Covariance, self.statistic)

    def sampling_model(  # type: ignore[override]  # each statistic names what may be known
        self, *, variances: Sequence[float | VarianceRelease] | None = None
    ) -> NormalCovariance:
        """Normal law of a sample covariance.

        Parameters
        ----------
        variances
            The two population variances, public or as private releases, whose upper ends at 99 % are used. Without
            them the largest possible fourth moments are assumed.
        """
        widths = [high - low for low, high in self._of().bounds]
        if variances is not None and len(variances) != 2:
            raise InvalidParameter("variances", len(variances), "must be two", "Pass one per column.")
        spreads = [width**2 / 4 for width in widths]
        fourths = [width**4 / 12 for width in widths]
        for place, given in enumerate(variances or ()):
            spreads[place] = min(largest_variance(given, 0.99), spreads[place])
            fourths[place] = largest_fourth(spreads[place], widths[place])
        return NormalCovariance(
            n=self.n,
            mixed=math.sqrt(math.prod(fourths)),
            largest=self.domain[1],
            reach=min(math.sqrt(math.prod(spreads)), self.domain[1]),
        )


# ---- Tensor parts: joint moments of several columns, from totals of which one row moves the sum by exactly one.
#
# For whoever builds on them: make a subclass of `TensorParts` with a ``name`` and a ``release_type``, give every
# column the degree that the wanted moments need (1 for yes/no columns, 2 for means and covariances, 4 for their
# intervals), and measure it with `tensor_measurement`. One query adds everything up, on any engine and by any public
# labels. What was released is read by `discreet.inference.moments`, or through `TensorParts.weights`: Σ weights ·
# totals is the total of a monomial in u = (x − low)/(high − low), and its noise variance is ν·Σ weights².


Array = NDArray[np.float64]
Powers = tuple[int, ...]
MOST_PARTS = 4096


@dataclass(frozen=True, kw_only=True)
class TensorParts(Statistic):
    """Totals of Πⱼ bₖⱼ(uⱼ) over all (k₁ … k_m), where bₖ(u) = (d over k)·uᵏ(1 − u)ᵈ⁻ᵏ has the degree of its column.

    The parts of a row are not negative and add up to 1. The totals know every moment Σ Πⱼ uⱼ^aⱼ with aⱼ up to the
    degree of column j; the value is flat, with the last column varying fastest.

    Guarantee
    ---------
    Add/remove: a row moves the totals by exactly 1 in ℓ₁ and by at most 1 in ℓ₂. Replace-one: by at most 2 and √2.
    With weights ℓ₂ stays the same, and ℓ₁ grows by at most the largest weight. Proof: ``docs/proofs/parts.md``.

    Parameters
    ----------
    bounds
        Public bounds of every column, as the decimals they print as; values outside are clipped.
    degrees
        Highest power of every column.
    """

    bounds: tuple[tuple[float, float], ...]
    degrees: tuple[int, ...]

    def __post_init__(self) -> None:
        # Without numbers there is one part, the row itself: totals are counts.
        bounds = () if self.bounds in ((), []) else bounds_of_columns("bounds", self.bounds)
        degrees = tuple(requirements.positive_integer("degrees", degree) for degree in self.degrees)
        if len(degrees) != len(bounds):
            raise InvalidParameter("degrees", degrees, f"must be {len(bounds)}, one per column", "Check both.")
        if math.prod(degree + 1 for degree in degrees) > MOST_PARTS:
            raise InvalidParameter("degrees", degrees, f"give more than {MOST_PARTS} parts", "Leave columns out.")
        object.__setattr__(self, "bounds", bounds)
        object.__setattr__(self, "degrees", degrees)

    def parameters(self) -> dict[str, Any]:
        return {"bounds": [list(pair) for pair in self.bounds], "degrees": list(self.degrees)}

    @property
    def axis_weights(self) -> tuple[tuple[Fraction, ...], ...]:
        """What the parts of every column are multiplied by before noise is added: nothing but for Gaussian noise."""
        return tuple((Fraction(1),) * count for count in self.shape)

    @property
    def multiplied(self) -> tuple[Fraction, ...]:
        """What each total is multiplied by: the product of the weights of its parts."""
        return tuple(math.prod(weights, start=Fraction(1)) for weights in product(*self.axis_weights))

    @property
    def shape(self) -> tuple[int, ...]:
        """Parts of every column."""
        return tuple(degree + 1 for degree in self.degrees)

    @property
    def size(self) -> int:
        """Number of parts."""
        return math.prod(self.shape)

    @property
    def powers(self) -> tuple[Powers, ...]:
        """The powers of all moments that the totals know, in the order of the parts."""
        return tuple(product(*(range(count) for count in self.shape)))

    def weights(self, powers: Sequence[int], centres: Sequence[float] | None = None) -> Array:
        """Weights of the totals that give Σ Πⱼ (uⱼ − cⱼ)^aⱼ."""
        around = [0.0] * len(self.degrees) if centres is None else centres
        axes = [moment_weights(*one) for one in zip(self.degrees, powers, around, strict=True)]
        return np.ravel(reduce(np.multiply.outer, axes))

    def sensitivity(self, *, neighbours: Neighbours) -> Sensitivity:
        """How far one row moves the totals."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        moved = in_parts(Contribution(groups=1, rows=1), 1, self.size, neighbours)
        return weighed_sensitivity(moved, self.multiplied)

    def of_sums(self, sums: Mapping[Powers, int], reaches: Sequence[int]) -> list[Fraction]:
        """The totals, from Σ Πⱼ vⱼ^aⱼ for all `powers`, where vⱼ = reachⱼ·uⱼ is a whole number. Private."""
        moments = np.array([sums[powers] for powers in self.powers], dtype=object).reshape(self.shape)
        for axis, (degree, reach) in enumerate(zip(self.degrees, reaches, strict=True)):
            moments = np.moveaxis(np.tensordot(_to_parts(degree, reach), moments, axes=(1, axis)), 0, axis)
        scale = math.prod(reach**degree for degree, reach in zip(self.degrees, reaches, strict=True))
        found = [Fraction(int(part), scale) for part in np.ravel(moments)]
        return [weight * part for weight, part in zip(self.multiplied, found, strict=True)]

    def exact(self, data: Any, *, neighbours: Neighbours, unit: Unit = ROW) -> Exact:
        """The totals of an n × m table, still private."""
        table = float_truth(data)
        if table.ndim != 2 or table.shape[1] != len(self.bounds):
            raise InvalidParameter("data", table.shape, f"must be rows × {len(self.bounds)}", "Give one bound each.")
        columns = [clipped(column, pair) for column, pair in zip(table.T.tolist(), self.bounds, strict=True)]
        rows = zip(*columns, strict=True)
        found = sum((self._row(row) for row in rows), np.full(self.size, Fraction(0), dtype=object))
        return Exact(
            fractions(list(found)), self.sensitivity(neighbours=neighbours), Protection(unit, neighbours), self
        )

    def _row(self, row: Sequence[Fraction]) -> NDArray[Any]:
        """The parts of one clipped row."""
        axes = []
        for x, (low, high), d in zip(row, self.bounds, self.degrees, strict=True):
            u = (x - decimal(low)) / (decimal(high) - decimal(low))
            axes.append(fractions([math.comb(d, k) * u**k * (1 - u) ** (d - k) for k in range(d + 1)]))
        return np.asarray(np.ravel(reduce(np.multiply.outer, axes)) * fractions(list(self.multiplied)))


def _to_parts(degree: int, reach: int) -> NDArray[Any]:
    """Whole numbers that take (Σvʲ for j = 0 … d) to reachᵈ·Σbₖ(v/reach)."""
    found = np.zeros((degree + 1, degree + 1), dtype=object)
    for k in range(degree + 1):
        for j in range(k, degree + 1):
            sign = (-1) ** (j - k)
            found[k, j] = sign * math.comb(degree, k) * math.comb(degree - k, j - k) * reach ** (degree - j)
    return found


def tensor_measurement(
    question: MeasuredQuestion[Any],
    parts: TensorParts,
    columns: tuple[str, ...],
    *,
    by: tuple[str, ...] = (),
    contribution: Contribution | None = None,
    read: str,
    forecast: Callable[[], Forecast],
) -> Measurement:
    """How totals in tensor parts are measured: exact sums of products of grid steps, all in one query.

    Parameters
    ----------
    question, parts, columns
        What is asked, the statistic of one group, and the numeric columns in its order.
    by, contribution
        Columns of labels, of which every combination has totals of its own, and limits per unit.
    read, forecast
        What a reader takes from the release, and what a plan says of its error.

    Notes
    -----
    Products of more than four grid steps are added in coarser steps where 38 digits would not hold them
    (`discreet.core.rows.coarsening`): with six factors 2¹⁴ steps lie between the bounds, with ten 2⁸.
    """
    schema, groups = question.schema, question.schema.cells(by)
    products = {
        powers: tuple(n for n, p in zip(columns, powers, strict=True) for _ in range(p)) for powers in parts.powers
    }
    reaches = [coarsening(schema.bounds(name), sum(parts.degrees))[1] for name in columns]

    def value(counts: Any, sums: Any) -> Any:
        found: list[Fraction] = []
        for cell, count in enumerate(counts):
            own = {powers: int(sums[named][cell]) if named else int(count) for powers, named in products.items()}
            found += parts.of_sums(own, reaches)
        return fractions(found)

    size = None if by else question.public_size(*columns)
    moved = in_parts(question.schema.contribution(contribution), groups, parts.size, schema.neighbours)
    weighed = max(parts.multiplied) > 1
    sensitivity = weighed_sensitivity(moved, parts.multiplied) if weighed else moved
    noise = Gaussian.calibrate if weighed else additive_noise
    return Measurement(
        statistic=question.grouped(parts, by),
        sensitivity=sensitivity,
        mechanism=noise(question.guarantee, sensitivity),
        by=by,
        columns=columns,
        contribution=contribution,
        products=tuple(named for named in products.values() if named),
        from_lowest=True,
        public={} if size is None else {"n": size},
        value=value,
        read=read,
        forecast=forecast,
    )
