"""Covariance matrices of bounded columns, of a public or a protected number of rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import partial, reduce
from itertools import combinations_with_replacement, product
from typing import Any, ClassVar, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.numbers import decimal
from discreet.core.protection import ROW, Neighbours, Unit
from discreet.core.schema import Bounds, Contribution
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.inference.moments import as_matrix, correlations, largest_fourth, moment_weights, pairs, variance_moves
from discreet.inference.noise import combined_error, largest_variance
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.box_noise import BoxNoise
from discreet.mechanisms.mechanism import Mechanism
from discreet.questions import form, moments
from discreet.questions.bounded import (
    OUTPUTS,
    MatrixRelease,
    checked_entry,
    correlation_between,
    kept_inside,
    of_public_size,
    output_notes,
)
from discreet.questions.question import (
    DeclaredColumns,
    Expected,
    MeasuredQuestion,
    Measurement,
    bounds_of_columns,
    column_names,
)
from discreet.results.answer import pair_labels, pair_name
from discreet.results.display import Facts, Interval
from discreet.results.frames import Reading
from discreet.results.release import Release, Statistic

Array = NDArray[np.float64]


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
    >>> [str(part) for part in moments.exact([[10, 2], [0, 0]], neighbours=Neighbours.ADD_REMOVE).value]
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

    def release_type(self) -> type[Release]:
        return ProductsRelease

    @property
    def powers(self) -> tuple[tuple[int, ...], ...]:
        """The powers of all columns in each product that is added up; the first one counts rows."""
        chosen = [(), *((j,) for j in range(self.dimension)), *pairs(self.dimension)]
        return tuple(tuple(one.count(j) for j in range(self.dimension)) for one in chosen)

    def sensitivity(self, *, neighbours: Neighbours, rows: int = 1) -> Sensitivity:
        """The distance by which one row, or so many of one unit, move the totals."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        most = rows * neighbours.sides
        return Sensitivity(linf=float(most), dimension=self.coordinates)

    def moves(self) -> moments.Moves:
        """The moves of n times an entry of the matrix by one unit of noise in its totals: as expected, and the worst.

        n·var moves by h²(½t − 2m·z + (½ − q + 2m²)z_n), with t the total of 2z² − 1: the most at m = ±1, q = 1. For
        unrelated columns that are spread evenly over their bounds a covariance moves with its own total alone, a
        variance by h²(½t + z_n/6).
        """
        first, *others = sorted((float(half) for half in self.halves), reverse=True)
        own = (first**2 / 2, first**2 / 6) if self.counted else (first**2 / 2,)
        typical = max([own, *[(first * other,) for other in others[:1]]], key=lambda moves: math.hypot(*moves))
        worst = (first**2 / 2, 2 * first**2, 1.5 * first**2)
        return typical, worst if self.counted else worst[:2]

    def of_sums(self, sums: Mapping[tuple[int, ...], int | Fraction], reaches: Sequence[int]) -> list[Fraction]:
        """The totals, from Σ Πⱼ vⱼ^aⱼ for all `powers`, where vⱼ = reachⱼ·uⱼ and zⱼ = 2uⱼ − 1. Private."""
        shares = [
            Fraction(sums[powers]) / math.prod(map(pow, reaches, powers)) for powers in self.powers
        ]  # of 1, of every u, and of their products
        rows, first, products = shares[0], shares[1 : self.dimension + 1], shares[self.dimension + 1 :]
        second = [
            4 * both - 2 * first[j] - 2 * first[k] + rows
            for (j, k), both in zip(pairs(self.dimension), products, strict=True)
        ]
        squares, crosses = second[: self.dimension], second[self.dimension :]
        ends = [rows] * self.counted
        return [*(2 * u - rows for u in first), *(2 * one - rows for one in squares), *crosses, *ends]

    def exact(self, data: Any, *, neighbours: Neighbours, unit: Unit = ROW) -> Exact:
        """The totals of an n × d table, still private."""
        return moments.exact_totals(self, data, neighbours, unit)


@dataclass(frozen=True)
class ProductsRelease(Release):
    """Noisy totals of columns and of their products: means, covariances and correlations, with intervals."""

    @property
    def _of(self) -> MeansAndCovariances:
        return cast(MeansAndCovariances, self.statistic)

    def _shares(self) -> tuple[Array, Array]:
        """Means of z and of its products, in the order of `pairs`."""
        d, totals = self._of.dimension, np.asarray(self.value, dtype=float)
        shares = totals[: d + len(pairs(d))] / max(self.count, 1.0)
        return shares[:d], np.concatenate([(shares[d : 2 * d] + 1) / 2, shares[2 * d :]])

    def _halves(self) -> Array:
        return np.array([float(half) for half in self._of.halves])

    @property
    def count(self) -> float:
        """The number of rows, which is public or noisy."""
        return float(np.asarray(self.value)[-1]) if self._of.counted else float(self.public["n"])

    @property
    def means(self) -> Array:
        """Means of the columns, inside their bounds."""
        middles = np.array([float(middle) for middle in self._of.middles])
        return np.asarray(middles + self._halves() * np.clip(self._shares()[0], -1, 1))

    @property
    def matrix(self) -> Array:
        """The covariance matrix (divisor n) as it follows from the totals; it need not be positive semidefinite."""
        position, products = self._shares()
        shape = as_matrix(products, self._of.dimension) - np.outer(position, position)
        return np.asarray(shape * np.outer(self._halves(), self._halves()))

    @property
    def estimate(self) -> Array:
        """The covariance matrix."""
        return self.matrix

    @property
    def correlation(self) -> Array:
        """Correlations of the matrix, within ±1; NaN where a variance is not positive."""
        return correlations(self.matrix)

    def noise_interval(self, level: float = 0.95) -> Interval:
        """Intervals for the entries of the data's covariance matrix, each at ``level``; privacy noise only.

        An entry is read from at most four totals. Their intervals cover together (Bonferroni), and interval arithmetic
        gives what they leave open.
        """
        each = 1 - (1 - requirements.level(level)) / (3 + self._of.counted)
        low, high = self.mechanism.noise_interval(np.asarray(self.value, dtype=float), each)
        ends = np.array([low, high])
        d, halves = self._of.dimension, self._halves()
        found = np.array(
            [self._entry(self._row_ends(ends), ends, j, k, position) for position, (j, k) in enumerate(pairs(d))]
        )
        scale = np.array([halves[j] * halves[k] for j, k in pairs(d)])
        return Interval(as_matrix(found[:, 0] * scale, d), as_matrix(found[:, 1] * scale, d), level)

    def _row_ends(self, ends: Array) -> list[float]:
        """The ends of the number of rows, or the number where it is public."""
        return [max(float(end), 1.0) for end in (ends[:, -1] if self._of.counted else [self.count])]

    def _entry(self, rows: Sequence[float], ends: Array, j: int, k: int, position: int) -> tuple[float, float]:
        """Range of s/n − (a/n)(b/n) over the totals' intervals, within what the bounds allow."""
        shares = [np.clip([end / count for end in ends[:, place] for count in rows], -1, 1) for place in (j, k)]
        if j == k:
            squares = [float(x) ** 2 for x in shares[0]]
            crosses = [0.0 if min(shares[0]) <= 0 <= max(shares[0]) else min(squares), max(squares)]
        else:
            crosses = [float(a) * float(b) for a, b in product(*shares)]
        own = np.clip([end / count for end in ends[:, self._of.dimension + position] for count in rows], -1, 1)
        own, least = ((own + 1) / 2, 0.0) if j == k else (own, -1.0)
        return max(float(min(own)) - max(crosses), least), min(float(max(own)) - min(crosses), 1.0)

    def population_interval(self, level: float = 0.95, *, j: int | None = None, k: int | None = None) -> Interval:
        """Interval for the population's variance of column j, or its covariance with column k; else for all entries.

        The noise and the sampling error each get half of 1 − level. No fourth moments were measured, so they are the
        worst that the bounds and the variances allow.
        """
        self.require_sample()
        share = (1 + requirements.level(level)) / 2
        data = self.noise_interval(share)
        score = float(scipy.special.ndtri((1 + share) / 2))
        missed = combined_error(self.mechanism, [1.0], share) if self._of.counted else 0.0
        rows = max(self.sensitivity.require_linf() / self.neighbours.sides, 1.0)
        # A unit's rows may be alike: by Cauchy and Schwarz they count as one, and as few as so many are left.
        fewest = max((self.count - missed) / rows, 2.0)
        widths = 2 * self._halves()
        fourths = [_fourth(float(v), w, score, fewest) for v, w in zip(np.diag(data.high), widths, strict=True)]
        reach = score * np.sqrt(np.sqrt(np.outer(fourths, fourths)) / fewest)
        largest = np.outer(widths, widths) / 4
        least = np.where(np.eye(len(widths), dtype=bool), 0.0, -largest)
        low = np.maximum(data.low - reach, least)
        high = np.minimum(data.high + reach, largest)
        if j is None:
            return Interval(low, high, level)
        entry = checked_entry(self._of.dimension, j, j if k is None else k)
        return Interval(low[entry], high[entry], level)

    def correlation_interval(self, level: float = 0.95, *, j: int, k: int) -> Interval:
        """Interval for the population's correlation of two columns, for any population on the bounds."""
        return correlation_between(self, level, *checked_entry(self._of.dimension, j, k, apart=True))

    def facts(self) -> Facts:
        """The facts to show."""
        return moments.covariance_facts(self)

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The entries of the covariance matrix, with their noise intervals."""
        matrix, interval = self.matrix, self.noise_interval()
        low = np.asarray(interval.low)
        high = np.asarray(interval.high)
        return [
            Reading(
                pair_name(columns, j, k),
                float(matrix[j, k]),
                Interval(float(low[j, k]), float(high[j, k]), interval.level),
                labels=pair_labels(columns, j, k),
                measure="covariance",
            )
            for j, k in pairs(len(matrix))
        ]


def _fourth(variance: float, width: float, score: float, rows: float) -> float:
    """Largest fourth moment of a population whose variance is at most the data's plus the sampling error it allows."""
    largest = width**2 / 4
    for _ in range(20):  # falls from the largest variance to the one that explains itself
        largest = min(variance + score * math.sqrt(largest_fourth(largest, width) / rows), largest)
    return largest_fourth(largest, width)


# ---- Covariances in parts, as a plan expects them


def _factors(of: moments.BernsteinMoments) -> list[Array]:
    """The weights of every column as floats."""
    return [np.array([float(weight) for weight in axis]) for axis in of.axis_weights]


def covariance_noise(of: moments.BernsteinMoments) -> float:
    """Noise variance of Σ(u − ½)(v − ½) over that of a total, for the columns with the finest parts."""
    every = _factors(of)
    others = [float((factors**-2.0).sum()) for factors in every]
    axes = zip(of.degrees, every, strict=True)
    own = [float(((moment_weights(degree, 1, 0.5) / factors) ** 2).sum()) for degree, factors in axes]
    ratios = sorted((one / other for one, other in zip(own, others, strict=True)), reverse=True)
    return math.prod(others) * math.prod(ratios[:2])


def _moves(every: list[Array], own: Mapping[int, Any]) -> Array:
    """The moves that noise in each total causes, given those of some columns; other columns are added up."""
    return np.ravel(reduce(np.multiply.outer, [np.asarray(own.get(axis, 1 / one)) for axis, one in enumerate(every)]))


def covariance_moves(of: moments.BernsteinMoments, *, public_size: bool) -> moments.Moves:
    """The moves of n times an entry by noise in each total.

    First as expected of independent columns that are spread evenly over their bounds, for the entry that it moves most;
    then of a variance whose mean is at an end.
    """
    every, widths = _factors(of), of.widths
    # The mean of (u − ½)(v − ½) over the parts is 0, so a public number of rows changes nothing there.
    along = [moment_weights(degree, 1, 0.5) / factors for degree, factors in zip(of.degrees, every, strict=True)]
    found = []
    for j, k in combinations_with_replacement(range(len(every)), 2):
        if j == k:
            moves = _moves(every, {j: variance_moves(every[j], 0.5, 1 / 12, public_size=public_size)})
        else:
            moves = np.abs(_moves(every, {j: along[j], k: along[k]}))
        found.append(moves * float(widths[j] * widths[k]))
    widest = int(np.argmax(widths))
    worst = _moves(every, {widest: variance_moves(every[widest], 1.0, public_size=public_size)})
    typical = max(found, key=lambda moves: float(moves @ moves))
    return typical.tolist(), (worst * float(widths[widest]) ** 2).tolist()


MOST_IN_PARTS = 5
"""Columns that are measured in tensor parts; of five there are 243."""
_UNRELATED = "of unrelated columns, spread evenly"
_WORTH_MOMENTS = 0.8
"""Totals of products are taken where they have so much of the noise of parts: parts measure fourth moments too, which
make narrower intervals for the population."""


CovarianceReading = moments.CovariancesRelease | ProductsRelease | MatrixRelease
"""The measurements that covariances are read from: totals in parts, or of many columns totals of products; with an
``output`` the matrix itself."""


@dataclass(frozen=True)
class CovarianceMatrixQuestion(MeasuredQuestion[CovarianceReading]):
    """Covariance matrix of several columns, with their means and correlations.

    Guarantee
    ---------
    As `BernsteinMoments`: a row moves totals by one in all. For many columns, whose parts multiply, as
    `MeansAndCovariances`: a row moves totals by one each, which box noise covers under ε. With ``output`` (as of
    `MeanQuestion`) as `BoundedCovariance`: variances with divisor n − 1 first, then covariances inside what these
    leave, then the nearest matrix that can exist.

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
    forms: ClassVar[form.Forms] = {"columns": form.COLUMNS, "expected_rows": form.WHOLE, "output": form.METHOD}
    ways: ClassVar[Mapping[str, tuple[Any, ...]]] = {"output": tuple(OUTPUTS)}
    columns: str | Sequence[str]
    _: KW_ONLY
    contribution: Contribution | None = None
    expected_rows: int | None = None
    output: str | None = None

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return {"columns": columns.numbers[:3]}

    def _measured(self) -> Measurement:
        names = column_names(self.columns, "columns")
        if not names:
            raise InvalidParameter("columns", list(names), "must name at least one column", "Name a column.")
        columns = {name: self.schema.bounds(name) for name in names}
        size = self.public_size(*names)
        if self.output is not None:
            return kept_inside(
                self, size, lambda size: of_public_size(self, "covariance_matrix", size, "an entry", names)
            )
        ends = tuple((one.low, one.high) for one in columns.values())
        other = self._totals(columns, MeansAndCovariances(bounds=ends, counted=size is None))
        if len(names) > MOST_IN_PARTS:
            return other
        # Fourth moments of one or two columns; of more, whose parts multiply, the second ones.
        degrees = (4 if len(names) <= 2 else 2,) * len(names)
        in_parts = moments.least_noise(
            self, moments.BernsteinMoments(bounds=ends, degrees=degrees, of="covariances"), columns, read="an entry",
            expected=Expected(rows=self.expected_rows), moves=partial(covariance_moves, public_size=size is not None),
            like=_UNRELATED,
        )  # fmt: skip
        return in_parts if len(names) <= 2 or not self._much_less(other, in_parts) else other

    def _notes(self, found: Measurement) -> tuple[str, ...]:
        return (*super()._notes(found), *output_notes(self, found))

    def _much_less(self, totals: Measurement, in_parts: Measurement) -> bool:
        """True where a covariance, for means in the middle, has much less noise from totals of products."""
        own, other = (largest_variance(one.mechanism) for one in (totals, in_parts))
        # Totals of products are of z = 2u − 1, so four times as large.
        parts = cast(moments.BernsteinMoments, in_parts.statistic)
        return own / 16 < _WORTH_MOMENTS**2 * other * covariance_noise(parts)

    def _totals(self, columns: Mapping[str, Bounds], statistic: MeansAndCovariances) -> Measurement:
        """Noisy sums of columns and of their products, with a noisy or a public number of rows."""
        rows = self.schema.contribution(self.contribution).most_rows(1)
        sensitivity = statistic.sensitivity(neighbours=self.schema.neighbours, rows=rows)
        expected = Expected(rows=self.expected_rows)
        return moments.moments_measurement(
            self, statistic, columns, noise=(sensitivity, _noise(self.guarantee, sensitivity)), read="an entry",
            forecast=partial(moments.moments_forecast, self, (), expected, statistic.moves, _UNRELATED),
        )  # fmt: skip


def _noise(guarantee: Guarantee, sensitivity: Sensitivity) -> Mechanism:
    """The noise of least variance on totals that all move by as much."""
    choices: list[Mechanism] = [BoxNoise.calibrate(guarantee, sensitivity), additive_noise(guarantee, sensitivity)]
    return min(choices, key=largest_variance)
