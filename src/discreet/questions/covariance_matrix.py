"""Covariance and correlation matrices of bounded columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import cached_property, partial, reduce
from itertools import combinations_with_replacement, product
from typing import Any, ClassVar, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.noise.sampler import float_truth
from discreet.core.numbers import Grid, decimal, not_below
from discreet.core.protection import ROW, Neighbours, Protection, Unit
from discreet.core.schema import Bounds, Contribution
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.inference.moments import (
    GammaVariance,
    NormalCovariance,
    PairMoments,
    PartMoments,
    ReleaseLaw,
    as_matrix,
    largest_fourth,
    marginal,
    measured_coordinate,
    moment_weights,
    pairs,
    variance_moves,
)
from discreet.inference.noise import combined_error, excess_kurtosis, largest_variance
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.box_noise import BoxNoise
from discreet.mechanisms.mechanism import Mechanism
from discreet.questions import form
from discreet.questions.bounded import (
    Domain,
    PublicSizeStatistic,
    bounds_of_columns,
    clipped,
    columns_of,
    cross_products,
    fractions,
    largest_squares,
    same_length,
)
from discreet.questions.moments import BernsteinMoments, least_noise, moments_measurement, rows_per_unit
from discreet.questions.question import DeclaredColumns, Expected, Forecast, MeasuredQuestion, Measurement, column_names
from discreet.results.answer import entry_facts, name_of, pair_name
from discreet.results.display import Facts, Interval, number
from discreet.results.frames import Reading
from discreet.results.release import Release, Statistic

# ---- Covariance moments: means, covariances and correlations of several columns, from their Bernstein moments.


Array = NDArray[np.float64]
Entry = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class CovarianceMoments(BernsteinMoments):
    """Means, covariance matrix and correlations of columns in public bounds, from noisy Bernstein moments.

    Guarantee
    ---------
    Add/remove: ℓ₁ = ℓ₂ = 1 for any number of columns. Replace-one: 2 and √2. Weights change ℓ₁ alone.

    Parameters
    ----------
    bounds
        Public bounds of every column, as the decimals they print as; values outside are clipped.
    degrees
        Highest power of every column: 2 for covariances, 4 for measured intervals of variances and correlations.
    weighed
        Whether inner parts are multiplied by the weights for Gaussian noise.

    Examples
    --------
    >>> from discreet import Neighbours
    >>> moments = CovarianceMoments(bounds=((0, 10), (0, 2)), degrees=(1, 2))
    >>> [str(part) for part in moments.exact([[10, 1], [0, 2]], neighbours=Neighbours.ADD_REMOVE).value]
    ['0', '0', '1', '1/4', '1/2', '1/4']
    """

    name: ClassVar[str] = "covariances_in_parts"

    def parameters(self) -> dict[str, Any]:
        return {name: value for name, value in super().parameters().items() if name != "of"}

    @property
    def title(self) -> str:
        """The name for readers, to whom it matters less that it is measured in parts."""
        return "covariances"

    @classmethod
    def degrees_for(cls, columns: int) -> tuple[int, ...]:
        """Fourth moments of one or two columns; of more, whose parts multiply, the second ones."""
        return (4 if columns <= 2 else 2,) * columns

    @classmethod
    def release_type(cls) -> type[Release]:
        return CovariancesRelease

    @property
    def _factors(self) -> list[Array]:
        """The weights of every column as floats."""
        return [np.array([float(weight) for weight in axis]) for axis in self.axis_weights]

    def covariance_noise(self) -> float:
        """Noise variance of Σ(u − ½)(v − ½) over that of a total, for the columns with the finest parts."""
        others = [float((factors**-2.0).sum()) for factors in self._factors]
        axes = zip(self.degrees, self._factors, strict=True)
        own = [float(((moment_weights(degree, 1, 0.5) / factors) ** 2).sum()) for degree, factors in axes]
        ratios = sorted((one / other for one, other in zip(own, others, strict=True)), reverse=True)
        return math.prod(others) * math.prod(ratios[:2])

    def _moves(self, own: Mapping[int, Any]) -> Array:
        """The moves that noise in each total causes, given those of some columns; other columns are added up."""
        axes = [np.asarray(own.get(axis, 1 / factors)) for axis, factors in enumerate(self._factors)]
        return np.ravel(reduce(np.multiply.outer, axes))

    def worst_moves(self, *, public_size: bool) -> tuple[float, ...]:
        """The moves of n times an entry by noise in each total: of a variance, whose mean is at an end."""
        place = int(np.argmax(self.widths))
        moves = self._moves({place: variance_moves(self._factors[place], 1.0, public_size=public_size)})
        return tuple((moves * float(self.widths[place]) ** 2).tolist())

    def typical_moves(self, *, public_size: bool) -> tuple[float, ...]:
        """The same for independent columns that are spread evenly over their bounds, and the entry it moves most."""
        # The mean of (u − ½)(v − ½) over the parts is 0, so a public number of rows changes nothing there.
        along = [
            moment_weights(degree, 1, 0.5) / factors
            for degree, factors in zip(self.degrees, self._factors, strict=True)
        ]
        found = []
        for j, k in combinations_with_replacement(range(len(self.degrees)), 2):
            if j == k:
                moves = self._moves({j: variance_moves(self._factors[j], 0.5, 1 / 12, public_size=public_size)})
            else:
                moves = np.abs(self._moves({j: along[j], k: along[k]}))
            found.append(moves * float(self.widths[j] * self.widths[k]))
        return tuple(max(found, key=lambda moves: float(moves @ moves)).tolist())

    # ---- what a release of them is read as ---------------------------------------------------------------------------

    def rows_of(self, released: CovariancesRelease) -> float:
        """The number of rows, which is public or noisy."""
        return float(released.column(0).parts.sum())

    def means_of(self, released: CovariancesRelease) -> Array:
        """Means of the columns, inside their bounds."""
        lows = np.array([low for low, _ in self.bounds])
        return np.asarray(lows + self.widths * [float(released.column(j).mean) for j in range(len(self.bounds))])

    def matrix_of(self, released: CovariancesRelease) -> Array:
        """The covariance matrix (divisor n)."""
        count = len(self.bounds)
        return as_matrix(np.array([self._entry(released, j, k) for j, k in pairs(count)]), count)

    def _entry(self, released: CovariancesRelease, j: int, k: int) -> float:
        own = released.column(j).variance if j == k else released.pair(j, k).covariance
        return float(own * self.widths[j] * self.widths[k])

    def correlation_of(self, released: CovariancesRelease) -> Array:
        """Correlations, within ±1; NaN where noise leaves a column no variance."""
        count = len(self.bounds)
        found = [1.0 if j == k else float(released.pair(j, k).correlation) for j, k in pairs(count)]
        return as_matrix(np.array(found), count)

    def noise_interval_of(self, released: CovariancesRelease, level: float) -> Interval:
        """Intervals for the entries of the data's covariance matrix, each at ``level``."""
        return self._all(released, level, sampled=False)

    def population_interval_of(
        self, released: CovariancesRelease, level: float, entry: Entry | None, kurtosis: float | None
    ) -> Interval:
        """For any population: covariances have measured fourth moments, and so have variances of up to two columns."""
        released.require_sample()
        if entry is None:
            return self._all(released, level, sampled=True)
        return self._interval(released, level, *entry, sampled=True)

    def _interval(self, released: CovariancesRelease, level: float, j: int, k: int, *, sampled: bool) -> Interval:
        if j == k:
            found = released.column(j, sampled=sampled).variance_interval(level)
        else:
            found = released.pair(j, k, sampled=sampled).covariance_interval(level)
        scale = float(self.widths[j] * self.widths[k])
        return Interval(scale * float(found.low), scale * float(found.high), level)

    def _all(self, released: CovariancesRelease, level: float, *, sampled: bool) -> Interval:
        count = len(self.bounds)
        found = np.array([tuple(self._interval(released, level, j, k, sampled=sampled)) for j, k in pairs(count)])
        low, high = (as_matrix(ends, count) for ends in found.T)
        return Interval(low, high, level)

    def correlation_interval_of(self, released: CovariancesRelease, level: float, entry: Entry) -> Interval:
        """Noise and sampling together."""
        released.require_sample()
        low, high = released.pair(*entry).correlation_interval(level)
        return Interval(float(low), float(high), level)

    def readings_of(self, released: CovariancesRelease, columns: Sequence[str]) -> list[Reading]:
        """The entries of the covariance matrix, then the correlations, each with both intervals."""
        entries = pairs(len(self.bounds))
        covariances = [
            self._reading(
                released, columns, (j, k), "covariance", self._entry(released, j, k),
                partial(self._interval, released, 0.95, j, k),
            )
            for j, k in entries
        ]  # fmt: skip
        correlations = [
            self._reading(
                released, columns, (j, k), "correlation", float(released.pair(j, k).correlation),
                partial(self._related, released, j, k),
            )
            for j, k in entries
            if j != k
        ]  # fmt: skip
        return [*covariances, *correlations]

    def _related(self, released: CovariancesRelease, j: int, k: int, *, sampled: bool) -> Interval:
        low, high = released.pair(j, k, sampled=sampled).correlation_interval()
        return Interval(float(low), float(high), 0.95)

    def _reading(
        self,
        released: CovariancesRelease,
        columns: Sequence[str],
        entry: Entry,
        measure: str,
        value: float,
        interval: Callable[..., Interval],
    ) -> Reading:
        label, tested = pair_name(columns, *entry), measure == "correlation" and released.sampled is not None
        return Reading(
            label if measure == "covariance" else f"{label}, correlation",
            value,
            interval(sampled=False),
            None if released.sampled is None else interval(sampled=True),
            labels={"column": name_of(columns, entry[0]), "with": name_of(columns, entry[1])},
            measure=measure,
            pvalue=released.correlation_pvalue(j=entry[0], k=entry[1]) if tested else None,
        )


# ---- MeansAndCovariances: first and second moments of many columns, from totals that a row moves by at most one each.


@dataclass(frozen=True, kw_only=True)
class MeansAndCovariances(Statistic):
    """Means and covariance matrix of columns in public bounds, from noisy totals.

    The value is (Σzⱼ and Σ(2zⱼ² − 1) for every column, Σzⱼzₖ for every pair, number of rows), in the order of `pairs`,
    with zⱼ = (xⱼ − middleⱼ)/half-widthⱼ. The release knows means, covariances (divisor n) and correlations.

    Guarantee
    ---------
    Add/remove: each of the 1 + d + d(d + 1)/2 coordinates moves by at most 1, all of them for a row in a corner of the
    bounds, so the bounds are tight: ℓ∞ = 1 for box noise. Replace-one: one row goes and one comes, at most twice that.
    Proof: ``docs/proofs/sensitivities.md``.

    Parameters
    ----------
    bounds
        Public bounds of every column, as the decimals they print as; values outside are clipped.
    counted
        Whether the number of rows is measured; False where it is public.

    Examples
    --------
    >>> moments = MeansAndCovariances(bounds=((0, 10), (0, 2)))
    >>> moments.coordinates, moments.sensitivity(neighbours=Neighbours.ADD_REMOVE).linf
    (6, 1.0)
    >>> exact = moments.of_sums(2, [Fraction(10), Fraction(2)], [Fraction(100), Fraction(4), Fraction(20)])
    >>> [str(part) for part in exact]
    ['0', '0', '2', '2', '2', '2']
    """

    name: ClassVar[str] = "covariances_in_products"
    bounds: tuple[tuple[float, float], ...]
    counted: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", bounds_of_columns("bounds", self.bounds))
        requirements.instance("counted", self.counted, bool, "counted=True or False")

    @property
    def title(self) -> str:
        """The name for readers, to whom it matters less that products are measured."""
        return "covariances"

    @property
    def dimension(self) -> int:
        """Number of columns d."""
        return len(self.bounds)

    @property
    def coordinates(self) -> int:
        """Number of totals."""
        return self.counted + self.dimension + len(pairs(self.dimension))

    @property
    def middles(self) -> list[Fraction]:
        """Centres of the bounds."""
        return [(decimal(low) + decimal(high)) / 2 for low, high in self.bounds]

    @property
    def halves(self) -> list[Fraction]:
        """Half the widths of the bounds."""
        return [(decimal(high) - decimal(low)) / 2 for low, high in self.bounds]

    @classmethod
    def release_type(cls) -> type[Release]:
        return CovariancesRelease

    def sensitivity(self, *, neighbours: Neighbours, rows: int = 1) -> Sensitivity:
        """The distance by which one row, or so many of one unit, move the totals."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        most = rows * neighbours.sides
        return Sensitivity(linf=float(most), dimension=self.coordinates)

    def worst_moves(self) -> tuple[float, ...]:
        """The moves of n times an entry of the matrix by one unit of noise in its totals: the worst entry and truth.

        n·var moves by h²(½t − 2m·z + (½ − q + 2m²)z_n), with t the total of 2z² − 1: the most at m = ±1, q = 1.
        """
        widest = float(max(self.halves)) ** 2
        return (widest / 2, 2 * widest, 1.5 * widest) if self.counted else (widest / 2, 2 * widest)

    def typical_moves(self) -> tuple[float, ...]:
        """The same for unrelated columns that are spread evenly over their bounds, and the entry that it moves most.

        A covariance moves with its own total alone, a variance by h²(½t + z_n/6).
        """
        first, *others = sorted((float(half) for half in self.halves), reverse=True)
        own = (first**2 / 2, first**2 / 6) if self.counted else (first**2 / 2,)
        return max([own, *[(first * other,) for other in others[:1]]], key=lambda moves: math.hypot(*moves))

    def of_sums(self, rows: int, totals: Sequence[Fraction], products: Sequence[Fraction]) -> Any:
        """The value from the number of rows, sums of columns and sums of their products, in `pairs` order. Private."""
        middles, halves = self.middles, self.halves
        first = [(total - rows * m) / h for total, m, h in zip(totals, middles, halves, strict=True)]
        second = [
            (product - middles[j] * totals[k] - middles[k] * totals[j] + rows * middles[j] * middles[k])
            / (halves[j] * halves[k])
            for (j, k), product in zip(pairs(self.dimension), products, strict=True)
        ]
        squares, crosses = second[: self.dimension], second[self.dimension :]
        return fractions([*first, *(2 * one - rows for one in squares), *crosses, *[Fraction(rows)] * self.counted])

    def exact(self, data: Any, *, neighbours: Neighbours, unit: Unit = ROW) -> Exact:
        """The totals of an n × d table, still private."""
        table = float_truth(data)
        if table.ndim != 2 or table.shape[1] != self.dimension:
            raise InvalidParameter("data", table.shape, f"must be rows × {self.dimension}", "Give every column bounds.")
        columns = [clipped(column, pair) for column, pair in zip(table.T.tolist(), self.bounds, strict=True)]
        totals = [sum(column, Fraction(0)) for column in columns]
        products = [
            sum((x * y for x, y in zip(columns[j], columns[k], strict=True)), Fraction(0))
            for j, k in pairs(self.dimension)
        ]
        value = self.of_sums(len(columns[0]), totals, products)
        return Exact(value, self.sensitivity(neighbours=neighbours), Protection(unit, neighbours), self)

    # ---- what a release of them is read as ---------------------------------------------------------------------------

    def _shares(self, released: CovariancesRelease) -> tuple[Array, Array]:
        """Means of z and of its products, in the order of `pairs`."""
        d, totals = self.dimension, np.asarray(released.value, dtype=float)
        shares = totals[: d + len(pairs(d))] / max(self.rows_of(released), 1.0)
        return shares[:d], np.concatenate([(shares[d : 2 * d] + 1) / 2, shares[2 * d :]])

    def _halves(self) -> Array:
        return np.array([float(half) for half in self.halves])

    def rows_of(self, released: CovariancesRelease) -> float:
        """The number of rows, which is public or noisy."""
        return float(np.asarray(released.value)[-1]) if self.counted else float(released.public["n"])

    def means_of(self, released: CovariancesRelease) -> Array:
        """Means of the columns, inside their bounds."""
        middles = np.array([float(middle) for middle in self.middles])
        return np.asarray(middles + self._halves() * np.clip(self._shares(released)[0], -1, 1))

    def matrix_of(self, released: CovariancesRelease) -> Array:
        """The covariance matrix (divisor n) as it follows from the totals; it need not be positive semidefinite."""
        position, products = self._shares(released)
        shape = as_matrix(products, self.dimension) - np.outer(position, position)
        return np.asarray(shape * np.outer(self._halves(), self._halves()))

    def correlation_of(self, released: CovariancesRelease) -> Array:
        """Correlations of the matrix."""
        return _correlations(self.matrix_of(released))

    def noise_interval_of(self, released: CovariancesRelease, level: float) -> Interval:
        """Intervals for the entries of the data's covariance matrix, each at ``level``; privacy noise only.

        An entry is read from at most four totals. Their intervals cover together (Bonferroni), and interval arithmetic
        gives what they leave open.
        """
        each = 1 - (1 - level) / (3 + self.counted)
        low, high = released.mechanism.noise_interval(np.asarray(released.value, dtype=float), each)
        ends = np.array([low, high])
        d, halves = self.dimension, self._halves()
        found = np.array(
            [
                self._entry(self._row_ends(released, ends), ends, j, k, position)
                for position, (j, k) in enumerate(pairs(d))
            ]
        )
        scale = np.array([halves[j] * halves[k] for j, k in pairs(d)])
        return Interval(as_matrix(found[:, 0] * scale, d), as_matrix(found[:, 1] * scale, d), level)

    def _row_ends(self, released: CovariancesRelease, ends: Array) -> list[float]:
        """The ends of the number of rows, or the number where it is public."""
        return [max(float(end), 1.0) for end in (ends[:, -1] if self.counted else [self.rows_of(released)])]

    def _entry(self, rows: Sequence[float], ends: Array, j: int, k: int, position: int) -> tuple[float, float]:
        """Range of s/n − (a/n)(b/n) over the totals' intervals, within what the bounds allow."""
        shares = [np.clip([end / count for end in ends[:, place] for count in rows], -1, 1) for place in (j, k)]
        if j == k:
            squares = [float(x) ** 2 for x in shares[0]]
            crosses = [0.0 if min(shares[0]) <= 0 <= max(shares[0]) else min(squares), max(squares)]
        else:
            crosses = [float(a) * float(b) for a, b in product(*shares)]
        own = np.clip([end / count for end in ends[:, self.dimension + position] for count in rows], -1, 1)
        own, least = ((own + 1) / 2, 0.0) if j == k else (own, -1.0)
        return max(float(min(own)) - max(crosses), least), min(float(max(own)) - min(crosses), 1.0)

    def population_interval_of(
        self, released: CovariancesRelease, level: float, entry: Entry | None, kurtosis: float | None
    ) -> Interval:
        """Intervals for the entries of the population's covariance matrix, for any population on the bounds.

        The noise and the sampling error each get half of 1 − level. No fourth moments were measured, so they are the
        worst that the bounds and the variances allow.
        """
        released.require_sample()
        share = (1 + level) / 2
        data = self.noise_interval_of(released, share)
        score = float(scipy.special.ndtri((1 + share) / 2))
        missed = combined_error(released.mechanism, [1.0], share) if self.counted else 0.0
        rows = max(released.sensitivity.require_linf() / released.neighbours.sides, 1.0)
        # A unit's rows may be alike: by Cauchy and Schwarz they count as one, and as few as so many are left.
        fewest = max((self.rows_of(released) - missed) / rows, 2.0)
        widths = 2 * self._halves()
        fourths = [_fourth(float(v), w, score, fewest) for v, w in zip(np.diag(data.high), widths, strict=True)]
        reach = score * np.sqrt(np.sqrt(np.outer(fourths, fourths)) / fewest)
        largest = np.outer(widths, widths) / 4
        least = np.where(np.eye(len(widths), dtype=bool), 0.0, -largest)
        low, high = np.maximum(data.low - reach, least), np.minimum(data.high + reach, largest)
        return Interval(low, high, level) if entry is None else Interval(low[entry], high[entry], level)

    def correlation_interval_of(self, released: CovariancesRelease, level: float, entry: Entry) -> Interval:
        """The two variances and the covariance hold together at ``level`` (Bonferroni)."""
        return _correlation_interval(self, released, level, entry)

    def readings_of(self, released: CovariancesRelease, columns: Sequence[str]) -> list[Reading]:
        """The entries of the covariance matrix, with their noise intervals."""
        matrix, interval = self.matrix_of(released), self.noise_interval_of(released, 0.95)
        low, high = np.asarray(interval.low), np.asarray(interval.high)
        return [
            Reading(
                pair_name(columns, j, k),
                float(matrix[j, k]),
                Interval(float(low[j, k]), float(high[j, k]), interval.level),
                labels={"column": name_of(columns, j), "with": name_of(columns, k)},
                measure="covariance",
            )
            for j, k in pairs(len(matrix))
        ]


def correlation_range(first: Interval, second: Interval, both: Interval) -> Interval:
    """The correlations that intervals of two variances and of their covariance leave possible."""
    least, most = (math.sqrt(max(float(x) * float(y), 0.0)) for x, y in zip(first, second, strict=True))
    low, high = _quotient(float(both.low), least, most), _quotient(float(both.high), most, least)
    return Interval(low, high, both.level)


def _quotient(covariance: float, below: float, above: float) -> float:
    """covariance / spread within ±1: over ``below`` where the covariance is negative, else over ``above``."""
    spread = below if covariance < 0 else above
    return float(np.clip(covariance / spread, -1.0, 1.0)) if spread > 0 else float(np.sign(covariance))


def _fourth(variance: float, width: float, score: float, rows: float) -> float:
    """Largest fourth moment of a population whose variance is at most the data's plus the sampling error it allows."""
    largest = width**2 / 4
    for _ in range(20):  # falls from the largest variance to the one that explains itself
        largest = min(variance + score * math.sqrt(largest_fourth(largest, width) / rows), largest)
    return largest_fourth(largest, width)


# ---- Covariance and correlation matrices of bounded columns.


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
        The public number of rows; see `SampleMoment`.
    grid
        Resolution of every column, a power of two.
    of
        What is read: ``"covariance_matrix"``, or ``"correlation_matrix"`` (`CorrelationMatrix` is short for it).

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
    kinds: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        of: {"of": of} for of in ("covariance_matrix", "correlation_matrix")
    }
    bounds: tuple[tuple[float, float], ...]
    n: int | None = None
    grid: float | None = None
    of: str = "covariance_matrix"

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", requirements.one_of("of", self.of, [*self.kinds]))
        object.__setattr__(self, "bounds", bounds_of_columns("bounds", self.bounds))
        if self.of == "correlation_matrix" and self.dimension < 2:
            raise InvalidParameter("bounds", self.bounds, "needs at least two columns", "Add a column.")
        super().__post_init__()
        self._grids  # noqa: B018  (refuses a bad grid at construction)

    def parameters(self) -> dict[str, Any]:
        return {name: value for name, value in super().parameters().items() if name != "of"}

    @property
    def least_rows(self) -> int:
        return 2

    @property
    def dimension(self) -> int:
        """Number of columns d."""
        return len(self.bounds)

    def release_type(self) -> type[Release]:
        return CovariancesRelease

    @cached_property
    def _grids(self) -> tuple[Grid, ...]:
        return tuple(Grid(bounds=pair, step=self.grid) for pair in self.bounds)

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
        """The largest move of each coordinate by one row."""
        rows = self.require_n_between(n, neighbours)
        return np.array([not_below(unit / rows) for unit in self._units()])

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        moves = self.coordinate_sensitivities(n=n, neighbours=neighbours)
        return Sensitivity(coordinates=tuple(moves.tolist()))

    def rows(self, data: Any) -> int:
        return len(columns_of(data, self.dimension)[0])

    def value(self, data: Any) -> Any:
        columns = zip(self._grids, columns_of(data, self.dimension), strict=True)
        offsets = [grid.offsets("data", column) for grid, column in columns]
        rows = requirements.positive_integer("rows", same_length(offsets), at_least=2)
        steps = [grid.exact_step for grid in self._grids]
        return fractions(
            [
                cross_products(offsets[j], offsets[k]) / (rows - 1) * steps[j] * steps[k]
                for j, k in pairs(self.dimension)
            ]
        )

    # ---- what a release of it is read as -----------------------------------------------------------------------------

    def rows_of(self, released: CovariancesRelease) -> float:
        """The public number of rows."""
        return float(self.require_n(None))

    def matrix_of(self, released: CovariancesRelease) -> Array:
        """The released matrix as it stands."""
        value = np.asarray(released.value, dtype=float)
        return value if value.ndim == 2 else as_matrix(value, self.dimension)

    def correlation_of(self, released: CovariancesRelease) -> Array:
        """Correlations of the matrix."""
        return _correlations(self.matrix_of(released))

    def noise_interval_of(self, released: CovariancesRelease, level: float) -> Interval:
        """Intervals for the variances and covariances that were protected."""
        return Release.noise_interval(released, level)

    def population_interval_of(
        self, released: CovariancesRelease, level: float, entry: Entry | None, kurtosis: float | None
    ) -> Interval:
        """By the distribution of a sample variance or covariance of independent rows, and the noise."""
        if entry is None:
            every = [self.population_interval_of(released, level, one, kurtosis) for one in pairs(self.dimension)]
            low, high = (as_matrix(ends, self.dimension) for ends in np.array([tuple(one) for one in every]).T)
            return Interval(low, high, level)
        j, k = entry
        place = pairs(self.dimension).index((min(entry), max(entry)))
        value, mechanism = measured_coordinate(released.mechanism, released.measured, place)
        model = self._variance_model(j, kurtosis) if j == k else self._covariance_model(released, j, k)
        return ReleaseLaw(model=model, mechanism=mechanism).interval(value, level)

    def _variance_model(self, j: int, kurtosis: float | None = None) -> GammaVariance:
        low, high = self.bounds[j]
        largest = float(np.asarray(self.domain()[1])[j])
        return GammaVariance(n=self.require_n(None), width=high - low, largest=largest, kurtosis=kurtosis)

    def _covariance_model(self, released: CovariancesRelease, j: int, k: int) -> NormalCovariance:
        """Fourth moments are the worst that the bounds and the upper ends of the released variances allow."""
        largest = float(np.asarray(self.domain()[1])[pairs(self.dimension).index((min(j, k), max(j, k)))])
        spreads = [float(self.population_interval_of(released, 0.99, (column, column), None).high) for column in (j, k)]
        widths = [high - low for low, high in (self.bounds[column] for column in (j, k))]
        fourths = [largest_fourth(spread, width) for spread, width in zip(spreads, widths, strict=True)]
        return NormalCovariance(
            n=self.require_n(None),
            mixed=max(math.sqrt(math.prod(fourths)), 1e-12 * largest**2),
            largest=largest,
            reach=min(math.sqrt(math.prod(spreads)), largest),
        )

    def correlation_interval_of(self, released: CovariancesRelease, level: float, entry: Entry) -> Interval:
        """The two variances and the covariance hold together at ``level`` (Bonferroni)."""
        return _correlation_interval(self, released, level, entry)

    def readings_of(self, released: CovariancesRelease, columns: Sequence[str]) -> list[Reading]:
        """The released coordinates under the names of their columns."""
        entries = list(pairs(self.dimension))
        found = Release.readings(released)
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


CorrelationMatrix = partial(CovarianceMatrix, of="correlation_matrix")
"""The correlation matrix, by back-transformation: one row can move a sample correlation by as much as its whole range.

So the covariance matrix is protected, with its own sensitivity, and the release divides: ``release(…).correlation``.
"""


# ---- Release: what is read of covariances, whatever was protected


@dataclass(frozen=True)
class CovariancesRelease(Release):
    """Noisy totals in tensor parts, totals of products, or a noisy matrix, and what follows from them.

    Means follow from totals, covariances and correlations from all three. A matrix itself (`CovarianceMatrix`) is the
    vector of variances and covariances in the order of `discreet.inference.moments.pairs`, or the whole.
    """

    @property
    def _of(self) -> Any:
        return self.statistic

    @property
    def _dimension(self) -> int:
        return len(self._of.bounds)

    def _marginal(self, *columns: int, sampled: bool = True) -> dict[str, Any]:
        """Totals of some of the columns, with the distribution of their noise."""
        law, multiplied = self.mechanism.law(0.0), self._of.multiplied
        factors = np.array([float(weight) for weight in multiplied])
        totals, added = marginal(np.asarray(self.value, dtype=float) / factors, self._of.shape, columns)
        own = rows_per_unit(self.sensitivity, multiplied)
        return {
            "totals": totals,
            "noise": marginal(float(np.max(law.variance)) / factors**2, self._of.shape, columns)[0],
            "kurtosis": excess_kurtosis(law) / added,
            "size": self.public.get("n"),
            "rows_per_unit": own if sampled else 1 - (self.sampled or 1.0),
        }

    def column(self, j: int, *, sampled: bool = True) -> PartMoments:
        """Moments of one column between its bounds; without sampling, of the data alone."""
        return PartMoments(**self._marginal(j, sampled=sampled))

    def pair(self, j: int, k: int, *, sampled: bool = True) -> PairMoments:
        """Joint moments of two columns between their bounds, the first of which comes first in the release."""
        first, second = sorted((j, k))
        shape = (self._of.shape[first], self._of.shape[second])
        return PairMoments(**self._marginal(first, second, sampled=sampled), shape=shape)

    @property
    def count(self) -> float:
        """The number of rows, which is public or noisy."""
        found: float = self._of.rows_of(self)
        return found

    @property
    def means(self) -> Array:
        """Means of the columns, inside their bounds."""
        found: Array = self._of.means_of(self)
        return found

    @property
    def matrix(self) -> Array:
        """The covariance matrix; it need not be positive semidefinite."""
        found: Array = self._of.matrix_of(self)
        return found

    @property
    def estimate(self) -> Array:
        """The covariance matrix."""
        return self.matrix

    @property
    def correlation(self) -> Array:
        """Correlations, within ±1; NaN where a variance is not positive."""
        found: Array = self._of.correlation_of(self)
        return found

    def noise_interval(self, level: float = 0.95) -> Interval:
        """Intervals for the entries of the data's covariance matrix, each at ``level``; privacy noise only."""
        found: Interval = self._of.noise_interval_of(self, requirements.level(level))
        return found

    def population_interval(
        self, level: float = 0.95, *, j: int | None = None, k: int | None = None, kurtosis: float | None = None
    ) -> Interval:
        """Interval for the population's variance of column j, or its covariance with column k; else for all entries.

        Noise and sampling together, for any population on the bounds.
        """
        entry = None if j is None else self._checked(j, j if k is None else k)
        found: Interval = self._of.population_interval_of(self, requirements.level(level), entry, kurtosis)
        return found

    def correlation_interval(self, level: float = 0.95, *, j: int, k: int) -> Interval:
        """Interval for the population's correlation of two columns, for any population on the bounds."""
        entry = self._two(j, k)
        found: Interval = self._of.correlation_interval_of(self, requirements.level(level), entry)
        return found

    def correlation_pvalue(self, *, j: int, k: int) -> float:
        """Of the hypothesis that two columns are uncorrelated in the population: noise and sampling together."""
        entry = self._two(j, k)
        self.require_sample()
        return self.pair(*entry).correlation_pvalue()

    def _two(self, j: int, k: int) -> Entry:
        entry = self._checked(j, k)
        if j == k:
            raise InvalidParameter("k", k, "must be another column than j", "A column correlates with itself by 1.")
        return entry

    def _checked(self, j: int, k: int) -> Entry:
        if any(not 0 <= one < self._dimension for one in (j, k)):
            raise InvalidParameter("j, k", (j, k), f"must be below {self._dimension}", "Check the columns.")
        return j, k

    def facts(self) -> Facts:
        """The facts to show."""
        if isinstance(self.statistic, CovarianceMatrix):
            return super().facts()
        return [
            ("means", number(self.means)),
            *entry_facts(self.readings()),
            ("rows", number(round(self.count))),
            *self.protection_facts(),
        ]

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The entries of the covariance matrix with their intervals, and the correlations where they are measured."""
        found: list[Reading] = self._of.readings_of(self, columns)
        return found


def _correlations(matrix: Array) -> Array:
    """Correlations of a matrix, clamped to [−1, 1]; NaN where a variance is not positive."""
    spread = np.sqrt(np.where(np.diag(matrix) > 0, np.diag(matrix), np.nan))
    correlation = np.clip(matrix / np.outer(spread, spread), -1, 1)
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(correlation)


def _correlation_interval(of: Any, released: CovariancesRelease, level: float, entry: Entry) -> Interval:
    """The range of a correlation over intervals of two variances and their covariance, which cover together."""
    j, k = entry
    ends = [of.population_interval_of(released, (2 + level) / 3, one, None) for one in ((j, j), (k, k), (j, k))]
    return replace(correlation_range(*ends), level=level)


_WORTH_MOMENTS = 0.8
"""Totals of products are taken where they have so much of the noise of parts: parts measure fourth moments too, which
make narrower intervals for the population."""


@dataclass(frozen=True)
class CovarianceMatrixQuestion(MeasuredQuestion[CovariancesRelease]):
    """Covariance matrix of several columns, with their means and correlations.

    Guarantee
    ---------
    As `CovarianceMoments`: a row moves totals by one in all. For many columns, whose parts multiply, as
    `MeansAndCovariances`: a row moves totals by one each, which box noise covers under ε.

    Examples
    --------
    >>> from discreet import Bounds, Schema
    >>> schema = Schema(columns={"x": Bounds(0, 1, grid=0.1), "y": Bounds(0, 5, grid=1)})
    >>> CovarianceMatrixQuestion(schema, ["x", "y"], epsilon=1.0).measurement.statistic.name
    'covariances_in_parts'
    """

    topic: ClassVar[str] = "Relations"
    answers: ClassVar[str] = "Which numbers move together? With means and correlations."
    ask: ClassVar[str] = "covariance_matrix"
    also: ClassVar[tuple[str, ...]] = ("correlation", "covariance", "cov", "corr")
    heading: ClassVar[str] = "How {columns} vary together"
    meaning: ClassVar[str] = "How columns vary together."
    forms: ClassVar[form.Forms] = {"columns": form.COLUMNS, "expected_rows": form.WHOLE}
    columns: str | Sequence[str]
    _: KW_ONLY
    contribution: Contribution | None = None
    expected_rows: int | None = None

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return {"columns": columns.numbers[:3]}

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
        statistic = CovarianceMoments(
            bounds=tuple((one.low, one.high) for one in bounds), degrees=CovarianceMoments.degrees_for(len(names))
        )
        expected = Expected(rows=self.expected_rows if size is None else size)

        def measured(used: CovarianceMoments) -> Measurement:
            def forecast() -> Forecast:
                moves, worst = (of(public_size=size is not None) for of in (used.typical_moves, used.worst_moves))
                return _forecast(expected, moves, worst)

            return moments_measurement(
                self, used, names, contribution=self.contribution, read="an entry", forecast=forecast
            )

        return least_noise(self.guarantee, statistic, measured)

    def _much_less(self, totals: Measurement, in_parts: Measurement) -> bool:
        """True where a covariance, for means in the middle, has much less noise from totals of products."""
        statistic = cast(CovarianceMoments, in_parts.statistic)
        own, other = (largest_variance(one.mechanism) for one in (totals, in_parts))
        # Totals of products are of z = 2u − 1, so four times as large.
        return own / 16 < _WORTH_MOMENTS**2 * other * statistic.covariance_noise()

    def _totals(self, names: tuple[str, ...], bounds: list[Bounds], size: int | None) -> Measurement:
        """Noisy sums of columns and of their products, with a noisy or a public number of rows."""
        statistic = MeansAndCovariances(bounds=tuple((one.low, one.high) for one in bounds), counted=size is None)
        rows = self.schema.contribution(self.contribution).most_rows(1)
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
