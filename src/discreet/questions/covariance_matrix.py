"""Covariance and correlation matrices of bounded columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from discreet.answers import Answer, name_of, pair_name
from discreet.contract.mechanism import Mechanism
from discreet.core import requirements
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.grid import Grid
from discreet.core.guarantee import Guarantee
from discreet.core.protection import Neighbours
from discreet.core.rounding import not_below
from discreet.core.schema import Bounds, Contribution, Schema
from discreet.core.sensitivity import Sensitivity
from discreet.inference.noise_sum import largest_variance
from discreet.inference.sampling import (
    GammaVariance,
    NoiseAware,
    NormalCovariance,
    ReleaseLaw,
    as_matrix,
    largest_fourth,
    measured_coordinate,
    pairs,
)
from discreet.interval import Interval
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.box_noise import BoxNoise
from discreet.publish.readings import Reading
from discreet.questions.bounded import Domain, PublicSizeStatistic, fractions
from discreet.questions.covariance import bounds_of_columns, cross_products, same_length
from discreet.questions.covariances_in_parts import CovariancesInParts, CovariancesInPartsRelease
from discreet.questions.forms import COLUMNS, WHOLE, Form
from discreet.questions.means_and_covariances import MeansAndCovariances, MeansAndCovariancesRelease, correlation_range
from discreet.questions.parts import with_less_noise
from discreet.questions.question import Expected, Forecast, MeasuredQuestion, Measurement, column_names
from discreet.questions.tensor_parts import tensor_measurement
from discreet.questions.variance import largest_squares
from discreet.releases import Release

__all__ = [
    "CorrelationMatrix", "CovarianceMatrix", "CovarianceMatrixQuestion", "CovarianceMatrixRelease", "CovariancesReading"
]  # fmt: skip

MOST_IN_PARTS = 5
"""Columns that are measured in tensor parts; of five there are 243."""


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


@dataclass(frozen=True)
class CovarianceMatrixRelease(Answer):
    """A released covariance matrix.

    ``value`` is the vector of variances and covariances in the order of
    `discreet.inference.sampling.pairs`, or the matrix.
    """

    def _of(self) -> CovarianceMatrix:
        return cast(CovarianceMatrix, self.statistic)

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The released matrix as it stands; it need not be positive semidefinite."""
        value = np.asarray(self.value, dtype=float)
        return value if value.ndim == 2 else as_matrix(value, self._of().dimension)

    @property
    def correlation(self) -> NDArray[np.float64]:
        """Correlations of the released matrix, clamped to [−1, 1]; NaN where a variance is not positive."""
        matrix = self.matrix
        spread = np.sqrt(np.where(np.diag(matrix) > 0, np.diag(matrix), np.nan))
        correlation = np.clip(matrix / np.outer(spread, spread), -1, 1)
        np.fill_diagonal(correlation, 1.0)
        return np.asarray(correlation)

    def _index(self, j: int, k: int) -> int:
        ordered = (min(j, k), max(j, k))
        coordinates = pairs(self._of().dimension)
        if ordered not in coordinates:
            raise InvalidParameter("j, k", (j, k), f"must be below {self._of().dimension}", "Check the columns.")
        return coordinates.index(ordered)

    def _coordinate(self, index: int) -> tuple[float, Mechanism]:
        return measured_coordinate(self.mechanism, self.measured, index)

    def _variance_model(self, j: int, kurtosis: float | None = None) -> GammaVariance:
        statistic = self._of()
        low, high = statistic.bounds[j]
        largest = float(np.asarray(statistic.domain()[1])[j])
        return GammaVariance(n=statistic.require_n(None), width=high - low, largest=largest, kurtosis=kurtosis)

    def population_interval(
        self, level: float = 0.95, *, j: int | None = None, k: int | None = None, kurtosis: float | None = None
    ) -> Interval:
        """Interval for the population's variance of column j, or its covariance with column k; else for all entries."""
        checked = requirements.level(level)
        if j is None:
            dimension = self._of().dimension
            found = np.array([tuple(self.population_interval(level, j=a, k=b)) for a, b in pairs(dimension)])
            low, high = (as_matrix(ends, dimension) for ends in found.T)
            return Interval(low, high, checked)
        other = j if k is None else k
        value, mechanism = self._coordinate(self._index(j, other))
        if j == other:
            law = ReleaseLaw(model=self._variance_model(j, kurtosis), mechanism=mechanism)
        else:
            law = ReleaseLaw(model=self._covariance_model(j, other), mechanism=mechanism)
        return NoiseAware().interval(law, value, checked)

    def _covariance_model(self, j: int, k: int) -> NormalCovariance:
        """Fourth moments are the worst that the bounds and the upper ends of the released variances allow."""
        statistic = self._of()
        largest = float(np.asarray(statistic.domain()[1])[self._index(j, k)])
        spreads = [float(self.population_interval(0.99, j=column).high) for column in (j, k)]
        widths = [high - low for low, high in (statistic.bounds[column] for column in (j, k))]
        fourths = [largest_fourth(spread, width) for spread, width in zip(spreads, widths, strict=True)]
        return NormalCovariance(
            n=statistic.require_n(None),
            mixed=max(math.sqrt(math.prod(fourths)), 1e-12 * largest**2),
            largest=largest,
            reach=min(math.sqrt(math.prod(spreads)), largest),
        )

    def correlation_interval(self, level: float = 0.95, *, j: int, k: int) -> Interval:
        """Interval for the population's correlation of two columns, for any population on the bounds.

        The two variances and the covariance hold together at ``level`` (Bonferroni); the interval is the range of the
        correlation over them.
        """
        if j == k:
            raise InvalidParameter("k", k, "must be another column than j", "A column correlates with itself by 1.")
        each = (2 + requirements.level(level)) / 3
        first, second, both = (self.population_interval(each, j=a, k=b) for a, b in ((j, j), (k, k), (j, k)))
        return replace(correlation_range(first, second, both), level=level)

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The released coordinates under the names of their columns."""
        entries = list(pairs(self._of().dimension))
        found = super().readings()
        if len(found) != len(entries):  # a repaired matrix holds every covariance twice
            return found
        return [
            replace(
                one,
                label=pair_name(columns, j, k),
                labels={"column": name_of(columns, j), "with": name_of(columns, k)},
            )
            for one, (j, k) in zip(found, entries, strict=True)
        ]


CovariancesReading = CovariancesInPartsRelease | MeansAndCovariancesRelease
"""What covariances are read from: totals in parts, or, for many columns, totals of products."""

_WORTH_MOMENTS = 0.8
"""Totals of products are taken where they have so much of the noise of parts: parts measure fourth moments too, which
make narrower intervals for the population."""


@dataclass(frozen=True)
class CovarianceMatrixQuestion(MeasuredQuestion[CovariancesReading]):
    """Covariance matrix of several columns, with their means and correlations.

    Guarantee
    ---------
    As `CovariancesInParts`: a row moves totals by one in all. For many columns, whose parts multiply, as
    `MeansAndCovariances`: a row moves totals by one each, which box noise covers under ε.

    Examples
    --------
    >>> from discreet import Bounds, PureDP
    >>> schema = Schema(columns={"x": Bounds(0, 1, grid=0.1), "y": Bounds(0, 5, grid=1)})
    >>> CovarianceMatrixQuestion(schema, ["x", "y"], PureDP(1.0)).measurement.statistic.name
    'covariances_in_parts'
    """

    ask: ClassVar[str] = "covariance_matrix"
    meaning: ClassVar[str] = "How columns vary together."
    forms: ClassVar[Mapping[str, Form]] = {"columns": COLUMNS, "expected_rows": WHOLE}
    schema: Schema
    columns: str | Sequence[str]
    guarantee: Guarantee
    _: KW_ONLY
    contribution: Contribution | None = None
    expected_rows: int | None = None

    def _measured(self) -> Measurement:
        names = column_names(self.columns, "columns")
        if not names:
            raise InvalidParameter("columns", list(names), "must name at least one column", "Name a column.")
        bounds = [self.schema.bounds(name) for name in names]
        size = self.public_size(*names)
        other = self._totals(names, bounds, size)
        if len(names) > MOST_IN_PARTS:
            return other
        in_parts = self._in_parts(names, bounds, size)
        return in_parts if len(names) <= 2 or not self._much_less(other, in_parts) else other

    def _in_parts(self, names: tuple[str, ...], bounds: list[Bounds], size: int | None) -> Measurement:
        statistic = CovariancesInParts(
            bounds=tuple((one.low, one.high) for one in bounds), degrees=CovariancesInParts.degrees_for(len(names))
        )
        expected = Expected(rows=self.expected_rows if size is None else size)

        def measured(used: CovariancesInParts) -> Measurement:
            def forecast() -> Forecast:
                moves, worst = (of(public_size=size is not None) for of in (used.typical_moves, used.worst_moves))
                return _forecast(expected, moves, worst)

            return tensor_measurement(
                self, used, names, contribution=self.contribution, read="an entry", forecast=forecast
            )

        return with_less_noise(self.guarantee, statistic, measured)

    def _much_less(self, totals: Measurement, in_parts: Measurement) -> bool:
        """Whether a covariance, for means in the middle, has much less noise from totals of products."""
        statistic = cast(CovariancesInParts, in_parts.statistic)
        own, other = (largest_variance(one.mechanism) for one in (totals, in_parts))
        # Totals of products are of z = 2u − 1, so four times as large.
        return own / 16 < _WORTH_MOMENTS**2 * other * statistic.covariance_noise()

    def _totals(self, names: tuple[str, ...], bounds: list[Bounds], size: int | None) -> Measurement:
        """Noisy sums of columns and of their products, with a noisy or a public number of rows."""
        statistic = MeansAndCovariances(bounds=tuple((one.low, one.high) for one in bounds), counted=size is None)
        rows = self.limits(self.contribution).most_rows(1)
        sensitivity = statistic.sensitivity(neighbours=self.schema.neighbours, rows=rows)

        def value(counts: Any, sums: Any) -> Any:
            totals = [int(sums[name,][0]) * one.step for name, one in zip(names, bounds, strict=True)]
            products = [
                int(sums[names[j], names[k]][0]) * bounds[j].step * bounds[k].step for j, k in pairs(len(names))
            ]
            return statistic.of_sums(int(counts[0]), totals, products)

        expected = Expected(rows=self.expected_rows if size is None else size)
        return Measurement(
            statistic=statistic,
            sensitivity=sensitivity,
            mechanism=_noise(self.guarantee, sensitivity),
            columns=names,
            contribution=self.contribution,
            products=_products(names),
            public={} if size is None else {"n": size},
            value=value,
            read="an entry",
            forecast=lambda: _forecast(expected, statistic.typical_moves(), statistic.worst_moves()),
        )


def _noise(guarantee: Guarantee, sensitivity: Sensitivity) -> Mechanism:
    """The noise of least variance on totals that all move by as much."""
    choices: list[Mechanism] = [BoxNoise.calibrate(guarantee, sensitivity), additive_noise(guarantee, sensitivity)]
    return min(choices, key=largest_variance)


def _forecast(expected: Expected, moves: Sequence[float], worst: Sequence[float]) -> Forecast:
    return Forecast(
        weights=expected.per_group(1, moves),
        worst=expected.per_group(1, worst),
        scenario=expected.words(like="of unrelated columns, spread evenly"),
    )


def _products(names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return (*((name,) for name in names), *((names[j], names[k]) for j, k in pairs(len(names))))
