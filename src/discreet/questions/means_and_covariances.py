"""MeansAndCovariances: first and second moments of many columns, from totals that a row moves by at most one each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, ClassVar, cast

import numpy as np
import scipy  # whose submodules load when first used
from numpy.typing import NDArray

from discreet.answers import Answer, entry_facts, name_of, pair_name
from discreet.contract.statistic import Statistic
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.exact import Exact
from discreet.core.noise.truth import float_truth
from discreet.core.protection import ROW, Neighbours, Protection, Unit
from discreet.core.rounding import decimal
from discreet.core.sensitivity import Sensitivity
from discreet.display import Facts, number
from discreet.inference.noise_sum import combined_error
from discreet.inference.sampling import as_matrix, largest_fourth, pairs
from discreet.interval import Interval
from discreet.publish.readings import Reading
from discreet.questions.bounded import clipped, fractions
from discreet.questions.covariance import bounds_of_columns
from discreet.releases import Release

__all__ = ["MeansAndCovariances", "MeansAndCovariancesRelease", "correlation_range"]

Array = NDArray[np.float64]


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
        """What it is of: that products are measured matters less to a reader."""
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
        return MeansAndCovariancesRelease

    def parameters(self) -> dict[str, Any]:
        return {"bounds": [list(pair) for pair in self.bounds], "counted": self.counted}

    def sensitivity(self, *, neighbours: Neighbours, rows: int = 1) -> Sensitivity:
        """How far one row, or so many of one unit, move the totals."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        most = rows * neighbours.sides
        return Sensitivity(linf=float(most), dimension=self.coordinates)

    def worst_moves(self) -> tuple[float, ...]:
        """How far one unit of noise in its totals moves n times an entry of the matrix: the worst entry and truth.

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


@dataclass(frozen=True)
class MeansAndCovariancesRelease(Answer):
    """Noisy totals, and the means, covariances and correlations that follow from them."""

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
    def _rows_per_unit(self) -> float:
        sides = self.protection.neighbours.sides
        return max(self.sensitivity.require_linf() / sides, 1.0)

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
    def correlation(self) -> Array:
        """Correlations of the matrix, clamped to [−1, 1]; NaN where a variance is not positive."""
        matrix = self.matrix
        spread = np.sqrt(np.where(np.diag(matrix) > 0, np.diag(matrix), np.nan))
        correlation = np.clip(matrix / np.outer(spread, spread), -1, 1)
        np.fill_diagonal(correlation, 1.0)
        return np.asarray(correlation)

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """Intervals for the entries of the data's covariance matrix, each at ``level``; privacy noise only.

        An entry is read from at most four totals. Their intervals hold together (Bonferroni), and interval arithmetic
        gives what they leave open.
        """
        checked = requirements.level(level)
        each = 1 - (1 - checked) / (3 + self._of.counted)
        low, high = self.mechanism.confidence_interval(np.asarray(self.value, dtype=float), each)
        ends = np.array([low, high])
        d, halves = self._of.dimension, self._halves()
        found = np.array([self._entry(ends, j, k, position) for position, (j, k) in enumerate(pairs(d))])
        scale = np.array([halves[j] * halves[k] for j, k in pairs(d)])
        return Interval(as_matrix(found[:, 0] * scale, d), as_matrix(found[:, 1] * scale, d), checked)

    def _entry(self, ends: Array, j: int, k: int, position: int) -> tuple[float, float]:
        """Range of s/n − (a/n)(b/n) over the totals' intervals, within what the bounds allow."""
        rows = [max(float(end), 1.0) for end in ends[:, -1]] if self._of.counted else [max(self.count, 1.0)]
        shares = [np.clip([end / count for end in ends[:, place] for count in rows], -1, 1) for place in (j, k)]
        if j == k:
            squares = [float(x) ** 2 for x in shares[0]]
            crosses = [0.0 if min(shares[0]) <= 0 <= max(shares[0]) else min(squares), max(squares)]
        else:
            crosses = [float(a) * float(b) for a, b in product(*shares)]
        own = np.clip([end / count for end in ends[:, self._of.dimension + position] for count in rows], -1, 1)
        own, least = ((own + 1) / 2, 0.0) if j == k else (own, -1.0)
        return max(float(min(own)) - max(crosses), least), min(float(max(own)) - min(crosses), 1.0)

    def population_interval(self, level: float = 0.95) -> Interval:
        """Intervals for the entries of the population's covariance matrix, for any population on the bounds.

        The noise and the sampling error each get half of 1 − level. No fourth moments were measured, so they are the
        worst that the bounds and the variances allow.
        """
        self.require_sample()
        share = (1 + requirements.level(level)) / 2
        data = self.confidence_interval(share)
        score = float(scipy.special.ndtri((1 + share) / 2))
        missed = combined_error(self.mechanism, [1.0], share) if self._of.counted else 0.0
        # A unit's rows may be alike: by Cauchy and Schwarz they count as one, and as few as so many are left.
        fewest = max((self.count - missed) / self._rows_per_unit, 2.0)
        widths = 2 * self._halves()
        fourths = [_fourth(float(v), w, score, fewest) for v, w in zip(np.diag(data.high), widths, strict=True)]
        reach = score * np.sqrt(np.sqrt(np.outer(fourths, fourths)) / fewest)
        largest = np.outer(widths, widths) / 4
        least = np.where(np.eye(len(widths), dtype=bool), 0.0, -largest)
        return Interval(np.maximum(data.low - reach, least), np.minimum(data.high + reach, largest), level)

    def correlation_interval(self, level: float = 0.95, *, j: int, k: int) -> Interval:
        """Interval for the population's correlation of two columns, for any population on the bounds.

        The two variances and the covariance hold together at ``level`` (Bonferroni); the interval is the range of the
        correlation over them.
        """
        if j == k:
            raise InvalidParameter("k", k, "must be another column than j", "A column correlates with itself by 1.")
        if any(not 0 <= one < self._of.dimension for one in (j, k)):
            raise InvalidParameter("j, k", (j, k), f"must be below {self._of.dimension}", "Check the columns.")
        low, high = (np.asarray(end) for end in self.population_interval((2 + requirements.level(level)) / 3))
        first, second, both = (Interval(low[pair], high[pair], level) for pair in ((j, j), (k, k), (j, k)))
        return correlation_range(first, second, both)

    def facts(self) -> Facts:
        """What to show."""
        return [
            ("means", number(self.means)),
            *entry_facts(self.readings()),
            ("rows", number(round(self.count))),
            *self.protection_facts(),
        ]

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The entries of the covariance matrix, with their noise intervals."""
        matrix, interval = self.matrix, self.confidence_interval()
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
