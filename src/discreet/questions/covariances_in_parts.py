"""CovariancesInParts: means, covariances and correlations of several columns, from totals in tensor parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial, reduce
from itertools import combinations_with_replacement
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from discreet.answers import Answer, entry_facts, name_of, pair_name
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.rounding import decimal
from discreet.display import Facts, number
from discreet.inference.noise_sum import excess_kurtosis
from discreet.inference.part_moments import PairMoments, PartMoments, marginal, moment_weights, variance_moves
from discreet.inference.sampling import as_matrix, pairs
from discreet.interval import Interval
from discreet.publish.readings import Reading
from discreet.questions.parts import part_weights, rows_per_unit
from discreet.questions.tensor_parts import TensorParts
from discreet.releases import Release

__all__ = ["CovariancesInParts", "CovariancesInPartsRelease"]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class CovariancesInParts(TensorParts):
    """Means, covariance matrix and correlations of columns in public bounds, from noisy totals in tensor parts.

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
    >>> moments = CovariancesInParts(bounds=((0, 10), (0, 2)), degrees=(1, 2))
    >>> [str(part) for part in moments.exact([[10, 1], [0, 2]], neighbours=Neighbours.ADD_REMOVE).value]
    ['0', '0', '1', '1/4', '1/2', '1/4']
    """

    name: ClassVar[str] = "covariances_in_parts"
    weighed: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        requirements.instance("weighed", self.weighed, bool, "weighed=True or False")

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "weighed": self.weighed}

    @property
    def axis_weights(self) -> tuple[tuple[Fraction, ...], ...]:
        return tuple(map(part_weights, self.degrees)) if self.weighed else super().axis_weights

    @property
    def title(self) -> str:
        """What it is of: that it is measured in parts matters less to a reader."""
        return "covariances"

    @classmethod
    def degrees_for(cls, columns: int) -> tuple[int, ...]:
        """Fourth moments of one or two columns; of more, whose parts multiply, the second ones."""
        return (4 if columns <= 2 else 2,) * columns

    @classmethod
    def release_type(cls) -> type[Release]:
        return CovariancesInPartsRelease

    @property
    def widths(self) -> Array:
        """Widths of the bounds."""
        return np.array([float(decimal(high) - decimal(low)) for low, high in self.bounds])

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
        """How far noise in each total moves what its columns have these moves for; other columns are added up."""
        axes = [np.asarray(own.get(axis, 1 / factors)) for axis, factors in enumerate(self._factors)]
        return np.ravel(reduce(np.multiply.outer, axes))

    def worst_moves(self, *, public_size: bool) -> tuple[float, ...]:
        """How far noise in each total moves n times an entry of the matrix: a variance, whose mean is at an end."""
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


@dataclass(frozen=True)
class CovariancesInPartsRelease(Answer):
    """Noisy totals in tensor parts, and the means, covariances and correlations that follow from them."""

    @property
    def _of(self) -> CovariancesInParts:
        return cast(CovariancesInParts, self.statistic)

    @property
    def _dimension(self) -> int:
        return len(self._of.bounds)

    def _marginal(self, *columns: int, sampled: bool = True) -> dict[str, Any]:
        """Totals of some of the columns, with the law of their noise."""
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
        return float(self.column(0).parts.sum())

    @property
    def means(self) -> Array:
        """Means of the columns, inside their bounds."""
        lows = np.array([low for low, _ in self._of.bounds])
        return np.asarray(lows + self._of.widths * [float(self.column(j).mean) for j in range(self._dimension)])

    def _entry(self, j: int, k: int) -> float:
        own = self.column(j).variance if j == k else self.pair(j, k).covariance
        return float(own * self._of.widths[j] * self._of.widths[k])

    @property
    def matrix(self) -> Array:
        """The covariance matrix (divisor n); it need not be positive semidefinite."""
        return as_matrix(np.array([self._entry(j, k) for j, k in pairs(self._dimension)]), self._dimension)

    @property
    def estimate(self) -> Array:
        """The covariance matrix."""
        return self.matrix

    @property
    def correlation(self) -> Array:
        """Correlations, within ±1; NaN where noise leaves a column no variance."""
        found = [1.0 if j == k else float(self.pair(j, k).correlation) for j, k in pairs(self._dimension)]
        return as_matrix(np.array(found), self._dimension)

    def _interval(self, level: float, j: int, k: int, *, sampled: bool) -> Interval:
        if j == k:
            found = self.column(j, sampled=sampled).variance_interval(level)
        else:
            found = self.pair(j, k, sampled=sampled).covariance_interval(level)
        scale = float(self._of.widths[j] * self._of.widths[k])
        return Interval(scale * float(found.low), scale * float(found.high), level)

    def _all(self, level: float, one: Callable[[int, int], Interval]) -> Interval:
        found = np.array([tuple(one(j, k)) for j, k in pairs(self._dimension)])
        low, high = (as_matrix(ends, self._dimension) for ends in found.T)
        return Interval(low, high, level)

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """Intervals for the entries of the data's covariance matrix, each at ``level``; privacy noise only."""
        checked = requirements.level(level)
        return self._all(checked, lambda j, k: self._interval(checked, j, k, sampled=False))

    def population_interval(self, level: float = 0.95, *, j: int | None = None, k: int | None = None) -> Interval:
        """Interval for the population's variance of column j, or its covariance with column k; else for all entries.

        Noise and sampling together, for any population on the bounds: covariances have measured fourth moments, and so
        have variances of up to two columns.
        """
        checked = requirements.level(level)
        self.require_sample()
        if j is None:
            return self._all(checked, lambda a, b: self._interval(checked, a, b, sampled=True))
        self._check(j, j if k is None else k)
        return self._interval(checked, j, j if k is None else k, sampled=True)

    def correlation_interval(self, level: float = 0.95, *, j: int, k: int) -> Interval:
        """Interval for the population's correlation of two columns: noise and sampling together."""
        self._check(j, k)
        self.require_sample()
        if j == k:
            raise InvalidParameter("k", k, "must be another column than j", "A column correlates with itself by 1.")
        low, high = self.pair(j, k).correlation_interval(requirements.level(level))
        return Interval(float(low), float(high), level)

    def correlation_pvalue(self, *, j: int, k: int) -> float:
        """Of the hypothesis that two columns are uncorrelated in the population: noise and sampling together."""
        self._check(j, k)
        self.require_sample()
        if j == k:
            raise InvalidParameter("k", k, "must be another column than j", "A column correlates with itself by 1.")
        return self.pair(j, k).correlation_pvalue()

    def _check(self, *columns: int) -> None:
        if any(not 0 <= one < self._dimension for one in columns):
            raise InvalidParameter("j, k", columns, f"must be below {self._dimension}", "Check the columns.")

    def facts(self) -> Facts:
        """What to show."""
        return [
            ("means", number(self.means)),
            *entry_facts(self.readings()),
            ("rows", number(round(self.count))),
            *self.protection_facts(),
        ]

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The entries of the covariance matrix, then the correlations, each with both intervals."""
        entries = pairs(self._dimension)
        covariances = [
            self._reading(columns, (j, k), "covariance", self._entry(j, k), partial(self._interval, 0.95, j, k))
            for j, k in entries
        ]
        correlations = [
            self._reading(
                columns, (j, k), "correlation", float(self.pair(j, k).correlation), partial(self._related, j, k)
            )
            for j, k in entries
            if j != k
        ]
        return [*covariances, *correlations]

    def _related(self, j: int, k: int, *, sampled: bool) -> Interval:
        low, high = self.pair(j, k, sampled=sampled).correlation_interval()
        return Interval(float(low), float(high), 0.95)

    def _reading(
        self,
        columns: Sequence[str],
        entry: tuple[int, int],
        measure: str,
        value: float,
        interval: Callable[..., Interval],
    ) -> Reading:
        label, tested = pair_name(columns, *entry), measure == "correlation" and self.sampled is not None
        return Reading(
            label if measure == "covariance" else f"{label}, correlation",
            value,
            interval(sampled=False),
            None if self.sampled is None else interval(sampled=True),
            labels={"column": name_of(columns, entry[0]), "with": name_of(columns, entry[1])},
            measure=measure,
            pvalue=self.correlation_pvalue(j=entry[0], k=entry[1]) if tested else None,
        )
