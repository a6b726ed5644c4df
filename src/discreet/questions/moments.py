"""Bernstein moments: totals of which one row moves the sum by one, and what is read from them.

A row is split into Bernstein polynomials of its values, which are not negative and add up to one. Their totals know
the number of rows, means, variances, proportions and covariances. Proof: ``docs/proofs/parts.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property, partial, reduce
from itertools import product
from typing import Any, ClassVar, Literal, cast, get_args

import numpy as np
import scipy  # whose submodules load when first used
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee, is_pure
from discreet.core.noise.sampler import float_truth
from discreet.core.numbers import decimal, not_below
from discreet.core.protection import ROW, Neighbours, Protection, Unit
from discreet.core.rows import Selected, Snapshot, all_row_totals, coarsening, weighed_totals
from discreet.core.schema import Bounds, Contribution, in_parts
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.inference.moments import PairMoments, PartMoments, as_matrix, marginal, moment_weights, pairs
from discreet.inference.noise import combined_error, excess_kurtosis, largest_variance, ratio_interval
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.mechanism import Mechanism
from discreet.questions.bounded import PublicSizeRelease, checked_entry, root_interval
from discreet.questions.question import (
    DEFAULT_ROWS,
    Expected,
    Forecast,
    Measurement,
    bounds_of_columns,
    fractions,
)
from discreet.results.answer import name_of, pair_labels, pair_name
from discreet.results.display import Facts, Interval, expected, number
from discreet.results.frames import Reading
from discreet.results.plan import groups_of, sampling_error
from discreet.results.printed import told_numbers
from discreet.results.release import Release, Statistic
from discreet.results.wording import reading_line

# ---- Part weights: what parts are multiplied by before Gaussian noise is added, so that inner ones have less of it
#
# Laplace noise is as large as the parts of a row are together, and they add up to one wherever the row lies. Gaussian
# noise is as large as the root of the sum of their squares, which is one for a row at an end of the bounds and less for
# every other row. Weights above one for the inner parts use what is left. Proof: ``docs/proofs/parts.md``.


_WEIGHTS: Mapping[int, tuple[str, ...]] = {
    2: ("1", "1.87", "1"),
    4: ("1", "1.95", "1.9", "1.95", "1"),
}
"""By degree. The squares of weights times parts add up to at most 1 for every row, which a test proves in fractions."""


def part_weights(degree: int) -> tuple[Fraction, ...]:
    """The weights for Gaussian noise of the d + 1 parts of a row.

    Examples
    --------
    >>> [str(weight) for weight in part_weights(2)]
    ['1', '187/100', '1']
    """
    return tuple(Fraction(weight) for weight in _WEIGHTS.get(degree, ("1",) * (degree + 1)))


def weighed_sensitivity(sensitivity: Sensitivity, weights: Iterable[Fraction]) -> Sensitivity:
    """The sensitivity of parts with weights: ℓ₂ stays, and ℓ₁ grows at most by the largest weight.

    Examples
    --------
    >>> weighed_sensitivity(Sensitivity(l1=2.0, dimension=3), part_weights(2)).l1
    3.74
    """
    total = Fraction(sensitivity.require_l1()) * max(weights)
    return Sensitivity(l1=not_below(total), l2=sensitivity.require_l2(), dimension=sensitivity.dimension)


# ---- Readings together: the numbers of many groups in parts, with the intervals of all of them worked out at once


LEVEL = 0.95
_AT_ONCE = 200
"""Groups whose intervals are worked out at once: as many as a processor's cache holds with all points of a search."""


def together(parts: Sequence[MomentsRelease]) -> list[list[Reading]]:
    """The readings of each group, as the group alone would give them."""
    return [one for start in range(0, len(parts), _AT_ONCE) for one in _some(parts[start : start + _AT_ONCE])]


def _some(parts: Sequence[MomentsRelease]) -> list[list[Reading]]:
    kind = cast(BernsteinMoments, parts[0].statistic)
    if kind.degrees[0] < 2:
        return [[mean] for mean in _means(parts)]
    spreads = _spreads(parts, "standard deviation")
    if kind.of == "standard deviation":
        return [[spread] for spread in spreads]
    first = _spreads(parts, "variance") if kind.of == "variance" else _means(parts)
    return [list(pair) for pair in zip(first, spreads, strict=True)]


def _stacked(parts: Sequence[MomentsRelease]) -> PartMoments:
    """The moments of all groups, along the first axis."""
    values = np.array([np.asarray(part.value, dtype=float) for part in parts])
    return replace(parts[0].moments, totals=parts[0].divided(values))


def _means(parts: Sequence[MomentsRelease]) -> list[Reading]:
    """The mean of each group, with both intervals."""
    first, moments = parts[0], _stacked(parts)
    (low, high), centre, reach = first.place()
    top = moments.parts @ cast(BernsteinMoments, first.statistic).positions
    bottom = moments.parts.sum(axis=-1)
    noise = ratio_interval((top, bottom), first.mechanism, (low, high), centre, reach, LEVEL, first.noise_weights)
    divided = np.clip(centre + reach * top / np.maximum(bottom, 1.0), low, high)
    shared = np.where(bottom >= 1, divided, np.clip((low + high) / 2, noise.low, noise.high))
    errors = reach * np.linalg.norm(first.noise_weights((shared - centre) / reach), axis=0) / np.maximum(bottom, 1.0)
    deviation = float(np.sqrt(largest_variance(first.mechanism)))
    population = [np.clip(low + (high - low) * np.asarray(end), low, high) for end in moments.mean_interval(LEVEL)]
    return [
        Reading(
            "", mean, _interval(noise, place), _interval(population, place), measure=first.measure,
            standard_error=deviation * error if rows >= 1 else None,
        )
        for place, (mean, error, rows) in enumerate(zip(shared.tolist(), errors.tolist(), bottom.tolist(), strict=True))
    ]  # fmt: skip


def _spreads(parts: Sequence[MomentsRelease], measure: str) -> list[Reading]:
    """The standard deviation of each group, or its variance, with both intervals."""
    moments = _stacked(parts)
    (low, high), _, _ = parts[0].place()
    read = np.sqrt if measure == "standard deviation" else np.asarray

    def scaled(value: Any) -> NDArray[np.float64]:
        return np.asarray(read((high - low) ** 2 * np.maximum(np.asarray(value, dtype=float), 0.0)))

    noise, population = (
        [scaled(end) for end in one.variance_interval(LEVEL)] for one in (replace(moments, rows_per_unit=0), moments)
    )
    return [
        Reading("", value, _interval(noise, place), _interval(population, place), measure=measure)
        for place, value in enumerate(scaled(moments.variance).tolist())
    ]


def _interval(ends: Any, place: int) -> Interval:
    low, high = ends
    return Interval(float(np.asarray(low)[place]), float(np.asarray(high)[place]), LEVEL)


Array = NDArray[np.float64]
Powers = tuple[int, ...]
Of = Literal["mean", "proportion", "variance", "standard deviation", "covariances"]
MOST_PARTS = 4096


@dataclass(frozen=True, kw_only=True)
class BernsteinMoments(Statistic):
    """Totals of Πⱼ bₖⱼ(uⱼ) over all (k₁ … k_m), where bₖ(u) = (d over k)·uᵏ(1 − u)ᵈ⁻ᵏ and u = (x − low)/(high − low).

    The parts of a row are not negative and add up to 1, so the totals add up to the number of rows. They know every
    moment Σ Πⱼ uⱼ^aⱼ with aⱼ up to the degree d of column j. The value is flat, with the last column varying fastest.

    Guarantee
    ---------
    Add/remove: a row moves the totals by exactly 1 in ℓ₁ and by at most 1 in ℓ₂. Replace-one: by at most 2 and √2.
    With weights ℓ₂ stays the same, and ℓ₁ grows by at most the largest weight. Proof: ``docs/proofs/parts.md``.

    Parameters
    ----------
    bounds
        Public bounds of every column, as the decimals they print as; values outside are clipped.
    degrees
        Highest power of every column: 1 for a mean or proportion, 2 for covariances, 4 where the totals must also say
        how far variances vary from sample to sample.
    of
        What is read: of one column ``"mean"``, ``"proportion"``, ``"variance"`` or ``"standard deviation"``, of several
        their ``"covariances"``, with means and correlations.
    weighed
        Whether inner parts are multiplied by the weights for Gaussian noise.

    Examples
    --------
    >>> ages = BernsteinMoments(bounds=((0, 100),), degrees=(1,))
    >>> [str(part) for part in ages.exact([20, 40, 60], neighbours=Neighbours.ADD_REMOVE).value]
    ['9/5', '6/5']
    >>> pair = BernsteinMoments(bounds=((0, 10), (0, 2)), degrees=(1, 2))
    >>> [str(part) for part in pair.exact([[10, 1], [0, 2]], neighbours=Neighbours.ADD_REMOVE).value]
    ['0', '0', '1', '1/4', '1/2', '1/4']
    """

    name: ClassVar[str] = "bernstein_moments"
    kinds: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "bernstein_moments": {},
        "covariances_in_parts": {"of": "covariances"},
    }
    earlier: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "mean_in_parts": {"degrees": (1,)},
        "proportion_in_parts": {"degrees": (1,), "of": "proportion"},
        "mean_and_variance_in_parts": {"degrees": (4,)},
        "variance_in_parts": {"degrees": (4,), "of": "variance"},
        "standard_deviation_in_parts": {"degrees": (4,), "of": "standard deviation"},
    }
    bounds: tuple[tuple[float, float], ...]
    degrees: tuple[int, ...]
    of: Of = "mean"
    weighed: bool = False

    def __post_init__(self) -> None:
        given: Any = self.bounds
        # Earlier releases give the two ends of their only column.
        alone = isinstance(given, tuple | list) and len(given) == 2 and not isinstance(given[0], tuple | list)
        # Without numbers there is one part, the row itself: totals are counts.
        bounds = () if given in ((), []) else bounds_of_columns("bounds", (given,) if alone else given)
        degrees = tuple(requirements.positive_integer("degrees", degree) for degree in self.degrees)
        if len(degrees) != len(bounds):
            raise InvalidParameter("degrees", degrees, f"must be {len(bounds)}, one per column", "Check both.")
        if math.prod(degree + 1 for degree in degrees) > MOST_PARTS:
            raise InvalidParameter("degrees", degrees, f"give more than {MOST_PARTS} parts", "Leave columns out.")
        object.__setattr__(self, "bounds", bounds)
        object.__setattr__(self, "degrees", degrees)
        requirements.instance("weighed", self.weighed, bool, "weighed=True or False")
        requirements.one_of("of", self.of, get_args(Of), 'Write "mean".')
        if self.of == "covariances":
            object.__setattr__(self, "name", "covariances_in_parts")

    def release_type(self) -> type[Release]:
        return CovariancesRelease if self.of == "covariances" else MomentsRelease

    @property
    def title(self) -> str:
        """The name for readers, to whom it matters less that it is measured in parts."""
        return "mean and variance" if self.of == "mean" and max(self.degrees) > 1 else self.of

    @property
    def axis_weights(self) -> tuple[tuple[Fraction, ...], ...]:
        """The factors of every column's parts before noise is added: all 1 but for Gaussian noise."""
        return tuple(part_weights(one) if self.weighed else (Fraction(1),) * (one + 1) for one in self.degrees)

    @property
    def multiplied(self) -> tuple[Fraction, ...]:
        """The factor of each total: the product of the weights of its parts."""
        return tuple(math.prod(weights, start=Fraction(1)) for weights in product(*self.axis_weights))

    @property
    def factors(self) -> Array:
        """The same as floats."""
        return np.array([float(weight) for weight in self.multiplied])

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

    @property
    def counts(self) -> Array:
        """The weights of the totals that give the number of rows."""
        return np.ones(self.size)

    def moments_of(self, release: Release) -> PartMoments:
        """What was released, as moments between the bounds."""
        return PartMoments(**marginal_totals(release, 0))

    def rows_of_unit(self, moments: PartMoments) -> float:
        """The most rows of one unit in a group."""
        return moments.rows_per_unit

    @property
    def ends(self) -> tuple[float, float]:
        """Bounds of the first column."""
        return self.bounds[0]

    @property
    def middle(self) -> Fraction:
        """Centre of the first column's bounds."""
        return (decimal(self.ends[0]) + decimal(self.ends[1])) / 2

    @property
    def half(self) -> Fraction:
        """Half the width of the first column's bounds."""
        return (decimal(self.ends[1]) - decimal(self.ends[0])) / 2

    @property
    def positions(self) -> tuple[float, ...]:
        """Where each part lies between the first bounds, from −1 to 1: the mean is their mean, weighted by totals."""
        return tuple(2 * k / self.degrees[0] - 1 for k in range(self.degrees[0] + 1))

    @property
    def widths(self) -> Array:
        """Widths of the bounds."""
        return np.array([float(decimal(high) - decimal(low)) for low, high in self.bounds])

    def weights(self, powers: Sequence[int], centres: Sequence[float] | None = None) -> Array:
        """Weights of the totals that give Σ Πⱼ (uⱼ − cⱼ)^aⱼ."""
        around = [0.0] * len(self.degrees) if centres is None else centres
        axes = [moment_weights(*one) for one in zip(self.degrees, powers, around, strict=True)]
        return np.ravel(reduce(np.multiply.outer, axes))

    def sensitivity(self, *, neighbours: Neighbours) -> Sensitivity:
        """The distance by which one row moves the totals."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        moved = in_parts(Contribution(groups=1, rows=1), 1, self.size, neighbours)
        return weighed_sensitivity(moved, self.multiplied)

    def of_sums(self, sums: Mapping[Powers, int | Fraction], reaches: Sequence[int]) -> list[Fraction]:
        """The totals, from Σ Πⱼ vⱼ^aⱼ for all `powers`, where vⱼ = reachⱼ·uⱼ. Private."""
        moments = np.array([sums[powers] for powers in self.powers], dtype=object).reshape(self.shape)
        for axis, (degree, reach) in enumerate(zip(self.degrees, reaches, strict=True)):
            moments = np.moveaxis(np.tensordot(_to_parts(degree, reach), moments, axes=(1, axis)), 0, axis)
        scale = math.prod(reach**degree for degree, reach in zip(self.degrees, reaches, strict=True))
        found = [Fraction(part) / scale for part in np.ravel(moments)]
        return [weight * part for weight, part in zip(self.multiplied, found, strict=True)]

    def exact(self, data: Any, *, neighbours: Neighbours, unit: Unit = ROW) -> Exact:
        """The totals of a column, or of an n × m table, still private."""
        return exact_totals(self, data, neighbours, unit)


def exact_totals(statistic: Any, data: Any, neighbours: Neighbours, unit: Unit) -> Exact:
    """The exact value of a statistic ``of_sums``, from rows at hand: the same sums that an engine adds up."""
    columns = unit_columns(data, statistic.bounds)
    rows = list(zip(*columns, strict=True))
    sums = {
        powers: sum((math.prod(map(pow, row, powers), start=Fraction(1)) for row in rows), Fraction(0))
        for powers in statistic.powers
    }
    value = fractions(statistic.of_sums(sums, (1,) * len(columns)))
    return Exact(value, statistic.sensitivity(neighbours=neighbours), Protection(unit, neighbours), statistic)


def unit_columns(data: Any, bounds: Sequence[tuple[float, float]]) -> list[list[Fraction]]:
    """The columns of a table, or a column, as shares of their bounds, from 0 to 1. Private."""
    table = float_truth(data)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or table.shape[1] != len(bounds):
        raise InvalidParameter("data", table.shape, f"must be rows × {len(bounds)}", "Give one bound each.")
    columns = []
    for values, (low, high) in zip(table.T.tolist(), bounds, strict=True):
        start, end = decimal(low), decimal(high)
        inside = [min(max(Fraction(requirements.finite("data", x)), start), end) for x in values]
        columns.append([(x - start) / (end - start) for x in inside])
    return columns


def _to_parts(degree: int, reach: int) -> NDArray[Any]:
    """Whole numbers that take (Σvʲ for j = 0 … d) to reachᵈ·Σbₖ(v/reach)."""
    every = range(degree + 1)
    return np.array([[_share(degree, k, j) * reach ** (degree - j) for j in every] for k in every], dtype=object)


@cache
def _share(degree: int, k: int, j: int) -> int:
    """The coefficient of uʲ in bₖ(u)."""
    return (-1) ** (j - k) * math.comb(degree, k) * math.comb(degree - k, j - k) if j >= k else 0


@dataclass(frozen=True)
class MomentsRelease(Release):
    """Noisy totals of one column, and the mean or proportion, variance or deviation that is read from them.

    Both intervals are of what was asked for. The totals are as the statistic multiplies them: Bernstein moments, or a
    sum and a count (`NoisyAverage`).
    """

    @property
    def _in_parts(self) -> bool:
        return isinstance(self.statistic, BernsteinMoments)

    @property
    def _in_two(self) -> bool:
        """True where a sum and a count were released, and no parts."""
        return not hasattr(self.statistic, "moments_of")

    @property
    def _of(self) -> BernsteinMoments:
        return cast(BernsteinMoments, self.statistic)

    @property
    def measure(self) -> str:
        return self._of.of

    @property
    def _spread(self) -> bool:
        """True where the variance or the standard deviation was asked for."""
        return self.measure in ("variance", "standard deviation")

    @classmethod
    def readings_together(cls, parts: Sequence[Any]) -> list[list[Reading]]:
        alone = "omission" in parts[0].public or not parts[0]._in_parts  # whose intervals are of another kind
        return super().readings_together(parts) if alone else together(parts)

    @cached_property
    def moments(self) -> PartMoments:
        """The totals as moments between the bounds, with the distribution of their noise."""
        return self._of.moments_of(self)

    def divided(self, totals: Any) -> Array:
        """Totals without the weights, the parts along the last axis."""
        return np.asarray(np.divide(totals, self._of.factors), dtype=float)

    @property
    def most_rows(self) -> float:
        """The most rows of one unit in a group."""
        return self._of.rows_of_unit(self.moments)

    def count_error(self, level: float) -> float:
        """The noise in the number of rows stays below this with probability ``level``; 0 where the number is public."""
        return (
            combined_error(self.mechanism, self.divided(self._of.counts), level) if self.moments.size is None else 0.0
        )

    def _totals(self) -> tuple[float, float]:
        """The noisy sum of positions and the noisy count."""
        if self._in_two:
            top, bottom = (float(part) for part in np.asarray(self.value))
            return top, bottom
        parts = self.moments.parts
        return float(parts @ self._of.positions), float(parts @ self._of.counts)

    def place(self) -> tuple[tuple[float, float], float, float]:
        """Bounds, centre and reach: the mean is centre + reach·sum/count."""
        return self._of.ends, float(self._of.middle), float(self._of.half)

    def noise_weights(self, theta: Any) -> Array:
        """Weights of the noises in sum − θ·count."""
        if self._in_two:
            return np.array([np.ones_like(theta), -theta])
        # A public n is exact: its noise was taken out of the totals, of parts alike on both sides of the middle.
        moved = np.asarray(theta) if self.moments.size is None else np.zeros(np.shape(theta))
        weights = np.add.outer(self._of.positions, 0 * moved) - np.multiply.outer(self._of.counts, moved)
        return np.asarray((weights.T / self._of.factors).T)

    @property
    def count(self) -> float:
        """The noisy number of rows."""
        return self._totals()[1]

    @property
    def mean(self) -> float:
        """Noisy sum over noisy count, within the bounds.

        Where the count is below one their ratio says nothing: it is the value of the interval nearest to the middle.
        """
        (low, high), centre, reach = self.place()
        top, bottom = self._totals()
        if bottom < 1:
            held = self._mean_noise_interval()
            return min(max((low + high) / 2, float(held.low)), float(held.high))
        return min(max(centre + reach * top / bottom, low), high)

    @property
    def _of_all_rows(self) -> PartMoments:
        """The moments for intervals about the data: a Poisson sample of a share p leaves 1 − p of sampling variance."""
        return PartMoments(**marginal_totals(self, 0, sampled=False))

    @property
    def variance(self) -> float:
        """The variance (divisor n), at least 0 and at most what the bounds allow."""
        self._require_squares()
        return (2 * float(self._of.half)) ** 2 * float(self.moments.variance)

    def _require_squares(self) -> None:
        if self._of.degrees[0] < 2:
            raise AttributeError(f"a {self.measure} alone has no variance of rows. Ask with variance=True.")

    @property
    def standard_deviation(self) -> float:
        """Root of the variance."""
        return math.sqrt(self.variance)

    @property
    def estimate(self) -> float:
        """The estimate that was asked for."""
        if not self._spread:
            return self.mean
        return self.variance if self.measure == "variance" else self.standard_deviation

    @property
    def standard_error(self) -> float | None:
        """Of the noise in the mean, to first order in it; None where the count is below one, and for a spread."""
        if self._spread:
            return None
        _, centre, reach = self.place()
        _, rows = self._totals()
        if rows < 1:
            return None
        deviation = math.sqrt(largest_variance(self.mechanism))
        weights = self.noise_weights(np.asarray((self.mean - centre) / reach))
        return reach * deviation * float(np.linalg.norm(weights)) / rows

    def variance_interval(self, level: float = 0.95) -> Interval:
        """Interval for the variance of the data; privacy noise only."""
        self._require_squares()
        return self._scaled(self._of_all_rows.variance_interval(level))

    def population_variance_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population's variance: noise and sampling together, from measured fourth moments."""
        self._require_squares()
        self.require_sample()
        return self._scaled(self.moments.variance_interval(level))

    def standard_deviation_interval(self, level: float = 0.95) -> Interval:
        """Interval for the standard deviation of the data; privacy noise only."""
        return root_interval(self.variance_interval(level))

    def population_standard_deviation_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population's standard deviation: noise and sampling together."""
        return root_interval(self.population_variance_interval(level))

    def noise_interval(self, level: float = 0.95) -> Interval:
        """Interval for the data: privacy noise, and the choice of rows where a Poisson sample was taken."""
        if self._spread:
            return self._as_asked(self.variance_interval(level))
        return self._mean_noise_interval(level)

    def _mean_noise_interval(self, level: float = 0.95) -> Interval:
        if not self._in_parts or self.sampled in (None, 1.0):  # exact: see `ratio_interval`
            return ratio_interval(self._totals(), self.mechanism, *self.place(), level, self.noise_weights)
        return self._placed(self._of_all_rows.mean_interval(level))

    def population_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population: noise and sampling together, for any population on the bounds.

        Of a mean with ``variance=False`` it is the worst that the bounds allow, which is exact for 0/1 rows.
        """
        if self._spread:
            return self._as_asked(self.population_variance_interval(level))
        if self._in_two:
            return self._worst_interval(level)
        self.require_sample()
        return self._placed(self.moments.mean_interval(level))

    def _worst_interval(self, level: float) -> Interval:
        """Interval for the population's mean, for any population on the bounds.

        The noise and the sampling error each get half of 1 − level; the latter is the worst that the bounds allow.
        """
        share = (1 + requirements.level(level)) / 2
        data = self.noise_interval(share)
        low, high = self.place()[0]
        fewest = max(float(self.count) - combined_error(self.mechanism, [1.0], share), 1.0)
        reach = float(scipy.special.ndtri((1 + share) / 2)) * (high - low) / 2 / math.sqrt(fewest)
        return Interval(max(float(data.low) - reach, low), min(float(data.high) + reach, high), level)

    def _as_asked(self, variance: Interval) -> Interval:
        return variance if self.measure == "variance" else root_interval(variance)

    def _placed(self, shares: Interval) -> Interval:
        """An interval of shares of the bounds, in the unit of the column."""
        low, high = self._of.ends
        first, last = (min(max(low + (high - low) * float(share), low), high) for share in shares)
        return Interval(first, last, shares.level)

    def _scaled(self, interval: Interval) -> Interval:
        width = 2 * float(self._of.half)
        return Interval(width**2 * float(interval.low), width**2 * float(interval.high), interval.level)

    def facts(self) -> Facts:
        """The facts to show: what was asked for, its intervals, the other moments, and the number of rows."""
        asked, *others = (one.to_dict() for one in self.readings())
        mean = Reading("", self.mean, self._mean_noise_interval(), measure="mean").to_dict()
        return [
            *told_numbers([asked]),
            *((one["measure"], reading_line(one)) for one in others),
            *([("mean", reading_line(mean))] if self._spread else []),
            (self.rows_name, f"{round(self.count):,}"),
            *self.protection_facts(),
        ]

    @property
    def rows_name(self) -> str:
        """The name of what the noisy count counts."""
        return "sum of weights" if self.public.get("all_rows") else "rows"

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The number that was asked for, and the standard deviation where it is known, each with both intervals."""
        noise = self.noise_interval()
        population = self.known_population_interval()
        asked = Reading("", self.estimate, noise, population, measure=self.measure, standard_error=self.standard_error)
        if self._of.degrees[0] < 2 or self.measure == "standard deviation":
            return [asked]
        noise = self.standard_deviation_interval()
        population = None if self.sampled is None else self.population_standard_deviation_interval()
        return [asked, Reading("", self.standard_deviation, noise, population, measure="standard deviation")]


MomentReading = PublicSizeRelease | MomentsRelease
"""The measurements that a moment is read from: one number where the number of rows is public, else totals."""


@dataclass(frozen=True)
class CovariancesRelease(Release):
    """Noisy totals in tensor parts of several columns: their means, covariances and correlations, with intervals."""

    @property
    def _of(self) -> BernsteinMoments:
        return cast(BernsteinMoments, self.statistic)

    def column(self, j: int, *, sampled: bool = True) -> PartMoments:
        """Moments of one column between its bounds; without sampling, of the data alone."""
        return PartMoments(**marginal_totals(self, j, sampled=sampled))

    def pair(self, j: int, k: int, *, sampled: bool = True) -> PairMoments:
        """Joint moments of two columns between their bounds, the first of which comes first in the release."""
        first, second = sorted((j, k))
        shape = (self._of.shape[first], self._of.shape[second])
        return PairMoments(**marginal_totals(self, first, second, sampled=sampled), shape=shape)

    @property
    def count(self) -> float:
        """The number of rows, which is public or noisy."""
        return float(self.column(0).parts.sum())

    @property
    def means(self) -> Array:
        """Means of the columns, inside their bounds."""
        lows = np.array([low for low, _ in self._of.bounds])
        return np.asarray(lows + self._of.widths * [float(self.column(j).mean) for j in range(len(lows))])

    @property
    def matrix(self) -> Array:
        """The covariance matrix (divisor n); it need not be positive semidefinite."""
        return self._filled(self._entry)

    @property
    def estimate(self) -> Array:
        """The covariance matrix."""
        return self.matrix

    @property
    def correlation(self) -> Array:
        """Correlations, within ±1; 0 where noise leaves a column no variance."""
        return self._filled(lambda j, k: 1.0 if j == k else float(self.pair(j, k).correlation))

    def _entry(self, j: int, k: int) -> float:
        own = self.column(j).variance if j == k else self.pair(j, k).covariance
        return float(own * self._of.widths[j] * self._of.widths[k])

    def _filled(self, entry: Callable[[int, int], float]) -> Array:
        count = len(self._of.bounds)
        return as_matrix([entry(j, k) for j, k in pairs(count)], count)

    def noise_interval(self, level: float = 0.95) -> Interval:
        """Intervals for the entries of the data's covariance matrix, each at ``level``; privacy noise only."""
        return self._intervals(requirements.level(level), sampled=False)

    def population_interval(self, level: float = 0.95, *, j: int | None = None, k: int | None = None) -> Interval:
        """Interval for the population's variance of column j, or its covariance with column k; else for all entries.

        Noise and sampling together, for any population on the bounds: covariances have measured fourth moments, and so
        have variances of up to two columns.
        """
        checked = requirements.level(level)
        self.require_sample()
        if j is None:
            return self._intervals(checked, sampled=True)
        return self._interval(*checked_entry(len(self._of.bounds), j, j if k is None else k), checked, sampled=True)

    def _interval(self, j: int, k: int, level: float = 0.95, *, sampled: bool) -> Interval:
        if j == k:
            found = self.column(j, sampled=sampled).variance_interval(level)
        else:
            found = self.pair(j, k, sampled=sampled).covariance_interval(level)
        scale = float(self._of.widths[j] * self._of.widths[k])
        return Interval(scale * float(found.low), scale * float(found.high), level)

    def _intervals(self, level: float, *, sampled: bool) -> Interval:
        count = len(self._of.bounds)
        found = np.array([tuple(self._interval(j, k, level, sampled=sampled)) for j, k in pairs(count)])
        low, high = (as_matrix(ends, count) for ends in found.T)
        return Interval(low, high, level)

    def correlation_interval(self, level: float = 0.95, *, j: int, k: int) -> Interval:
        """Interval for the population's correlation of two columns, for any population on the bounds."""
        self.require_sample()
        return self._related(*self._two(j, k), requirements.level(level), sampled=True)

    def _related(self, j: int, k: int, level: float = 0.95, *, sampled: bool) -> Interval:
        low, high = self.pair(j, k, sampled=sampled).correlation_interval(level)
        return Interval(float(low), float(high), level)

    def correlation_pvalue(self, *, j: int, k: int) -> float:
        """Of the hypothesis that two columns are uncorrelated in the population: noise and sampling together."""
        entry = self._two(j, k)
        self.require_sample()
        return self.pair(*entry).correlation_pvalue()

    def _two(self, j: int, k: int) -> tuple[int, int]:
        return checked_entry(len(self._of.bounds), j, k, apart=True)

    def facts(self) -> Facts:
        """The facts to show."""
        return covariance_facts(self)

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The entries of the covariance matrix, then the correlations, each with both intervals."""
        entries = pairs(len(self._of.bounds))
        covariances = [self._reading(columns, j, k, self._entry(j, k), self._interval) for j, k in entries]
        correlations = [
            replace(
                self._reading(columns, j, k, float(self.pair(j, k).correlation), self._related),
                label=f"{pair_name(columns, j, k)}, correlation",
                measure="correlation",
                pvalue=None if self.sampled is None else self.correlation_pvalue(j=j, k=k),
            )
            for j, k in entries
            if j != k
        ]
        return [*covariances, *correlations]

    def _reading(
        self, columns: Sequence[str], j: int, k: int, value: float, interval: Callable[..., Interval]
    ) -> Reading:
        noise = interval(j, k, sampled=False)
        population = None if self.sampled is None else interval(j, k, sampled=True)
        labels = pair_labels(columns, j, k)
        return Reading(pair_name(columns, j, k), value, noise, population, labels=labels, measure="covariance")


def marginal_totals(released: Release, *columns: int, sampled: bool = True) -> dict[str, Any]:
    """Totals of some of the columns, with the distribution of their noise; without sampling, of the data alone."""
    law = released.mechanism.law(0.0)
    of = cast(BernsteinMoments, released.statistic)
    totals, added = marginal(np.asarray(released.value, dtype=float) / of.factors, of.shape, columns)
    own = rows_per_unit(released.sensitivity, of.multiplied)
    return {
        "totals": totals,
        "noise": marginal(float(np.max(law.variance)) / of.factors**2, of.shape, columns)[0],
        "kurtosis": excess_kurtosis(law) / added,
        "size": released.public.get("n"),
        "rows_per_unit": own if sampled else 1 - (released.sampled or 1.0),
    }


def covariance_facts(released: Any) -> Facts:
    """The facts to show of means and covariances."""
    columns = released.words.get("columns", ())
    named = (f"{name_of(columns, place)} {number(mean)}" for place, mean in enumerate(released.means))
    return [
        ("means", ", ".join(named)),
        *told_numbers(released.told_readings()),
        ("rows", f"{round(released.count):,}"),
        *released.protection_facts(),
    ]


def rows_per_unit(sensitivity: Sensitivity, multiplied: Iterable[Fraction] = (Fraction(1),)) -> int:
    """A unit with k rows in each of g groups moves Δ₁ = gk and Δ₂² = gk², and twice both when it is replaced.

    Δ₁ is stated for the largest of the weights by which parts are ``multiplied``.
    """
    return max(1, round(float(max(multiplied)) * sensitivity.require_l2() ** 2 / sensitivity.require_l1()))


Moves = tuple[Sequence[float], Sequence[float] | None]
"""How far noise in each total moves n times what is read: as a plan expects it, and for the least favourable data (None
where that is the same)."""
SPREAD_EVENLY = "spread evenly over the bounds"


def least_noise(
    question: Any,
    moments: BernsteinMoments,
    columns: Mapping[str, Bounds],
    *,
    by: tuple[str, ...] = (),
    read: str,
    expected: Expected,
    moves: Callable[[BernsteinMoments], Moves],
    like: str = SPREAD_EVENLY,
) -> Measurement:
    """The measurement with the smaller standard error of what is read: of parts as they are, or of weighed ones.

    Parameters
    ----------
    question, moments, columns, by, read
        As for `moments_measurement`.
    expected, moves, like
        What a plan is told to expect and what that is like, and how far noise moves what is read.
    """

    def measured(used: BernsteinMoments) -> Measurement:
        forecast = partial(moments_forecast, question, by, expected, partial(moves, used), like)
        return moments_measurement(question, used, columns, by=by, read=read, forecast=forecast)

    plain = measured(moments)
    if not any(degree in _WEIGHTS for degree in moments.degrees) or is_pure(question.guarantee):
        return plain
    return min(plain, measured(replace(moments, weighed=True)), key=lambda one: one.standard_error() or 0.0)


def moments_forecast(
    question: Any, by: tuple[str, ...], expected: Expected, moves: Callable[[], Moves], like: str = SPREAD_EVENLY
) -> Forecast:
    """The error that a plan states; parameters as of `least_noise`."""
    groups = question.schema.cells(by, "by")
    size = None if by else question.public_size(*question.columns_read())
    rows = expected if size is None else Expected(rows=size, mean=expected.mean)
    typical, worst = moves()
    return Forecast(
        weights=rows.per_group(groups, typical),
        worst=None if worst is None else rows.per_group(groups, worst),
        scenario=rows.words(groups, like),
    )


def moments_measurement(
    question: Any,
    moments: Any,
    columns: Mapping[str, Bounds],
    *,
    by: tuple[str, ...] = (),
    guarantee: Guarantee | None = None,
    noise: tuple[Sensitivity, Mechanism] | None = None,
    read: str,
    forecast: Callable[[], Forecast],
) -> Measurement:
    """The measurement of the totals: exact sums of products of grid steps, all in one query.

    Parameters
    ----------
    question, moments, columns
        What is asked, the statistic of one group, and the numeric columns in its order with their bounds.
    by
        Columns of labels, of which every combination has totals of its own.
    guarantee
        What the totals may cost, where that is less than the whole.
    noise
        How far a unit moves the totals, and what protects them; by default those of parts.
    read, forecast
        What a reader takes from the release, and what a plan says of its error.

    Notes
    -----
    Products of more than four grid steps are added in coarser steps where 38 digits would not hold them
    (`discreet.core.rows.coarsening`): with six factors 2¹⁴ steps lie between the bounds, with ten 2⁸.
    """
    groups = question.schema.cells(by, "by") if by else 1
    names = tuple(columns)
    all_rows = getattr(question, "all_rows", False)
    products = {
        powers: tuple(n for n, p in zip(columns, powers, strict=True) for _ in range(p)) for powers in moments.powers
    }
    reaches = [coarsening(one, max(map(sum, moments.powers)))[1] for one in columns.values()]

    def value(counts: Any, sums: Any) -> Any:
        found: list[Fraction] = []
        for cell, count in enumerate(counts):
            own = {powers: int(sums[named][cell]) if named else int(count) for powers, named in products.items()}
            found += moments.of_sums(own, reaches)
        return fractions(found)

    def of_all_rows(rows: Snapshot) -> Any:
        selected = Selected(by=by, columns=names, contribution=question.contribution, all_rows=True)
        return (all_row_totals(rows, selected, moments.degrees[0]) * np.array(moments.multiplied)).ravel()

    def of_weighed_rows(rows: Snapshot) -> Any:
        found = weighed_totals(rows, Selected(by=by, columns=names), moments.degrees)
        return (found * np.array(moments.multiplied)).ravel()

    from_rows = of_all_rows if all_rows else None if question.schema.design is None else of_weighed_rows
    size = None if by else question.public_size(*columns)
    sensitivity, mechanism = noise or _noise_of_parts(question, moments, groups, guarantee or question.guarantee)
    public = {"all_rows": True} if all_rows else {} if size is None else {"n": size}
    return Measurement(
        statistic=question.grouped(moments, by), sensitivity=sensitivity, mechanism=mechanism, by=by, columns=names,
        contribution=question.contribution, products=tuple(filter(None, products.values())), from_lowest=True,
        public=public, value=value, from_rows=from_rows, read=read, forecast=forecast,
    )  # fmt: skip


def _noise_of_parts(
    question: Any, moments: BernsteinMoments, groups: int, guarantee: Guarantee
) -> tuple[Sensitivity, Mechanism]:
    """How far a unit moves totals in parts, and the noise for them."""
    limits = question.schema.contribution(question.contribution)
    moved = in_parts(limits, groups, moments.size, question.schema.neighbours)
    if max(moments.multiplied) == 1:
        return moved, additive_noise(guarantee, moved)
    sensitivity = weighed_sensitivity(moved, moments.multiplied)
    return sensitivity, Gaussian.calibrate(guarantee, sensitivity)


# ---- Weighted: questions in which all rows of a unit may count, with weights that add up to its limit.
#
# A unit with m rows and a limit of k counts each of them k/m times where m > k, so k times in all. Its parts are not
# negative and add up to at most k, as those of k rows that it would keep, so the sensitivity is the same. Proof:
# ``docs/proofs/bounding.md``.


_TIMES_THE_LIMIT = 2
"""The offer is for units with so many times as many rows as their limit."""
_WORTH_IT = 1.1
"""It is made where it takes a tenth off the error."""
_ONE_ERROR = math.erf(math.sqrt(0.5))
"""The level of one standard error."""


def check_all_rows(question: Any) -> None:
    """Refuse weights where no unit can have several rows, or where a unit counts once."""
    if not requirements.instance("all_rows", question.all_rows, bool, "all_rows=True or False"):
        return
    if question.schema.unit_is_row:
        raise InvalidParameter(
            "all_rows",
            True,
            "each unit has one row, which always counts once",
            'Leave all_rows out, or declare unit=PrivacyUnit("person").',
        )


def all_rows_notes(question: Any, found: Measurement) -> tuple[str, ...]:
    """The notes of a plan on rows beyond a limit: that they count, or the gain if they did."""
    unit = question.schema.unit
    if question.all_rows:
        return (f"counted: {question.counted_words()}",)
    if question.schema.unit_is_row:
        return ()
    noise = found.standard_error()
    chance = sampling_error(question, rows=DEFAULT_ROWS * groups_of(question), level=_ONE_ERROR)
    if noise is None or chance is None:
        return ()
    # Choosing k of m rows leaves 1 − k/m of the variance that a sample of k rows has.
    both = math.hypot(noise, chance * math.sqrt(1 - 1 / _TIMES_THE_LIMIT))
    if both < _WORTH_IT * noise:
        return ()
    return (
        f"all_rows=True counts all rows of a {unit.name}, at the same noise. With twice as many rows as the limit "
        f"each, the standard error is {expected(noise)} instead of {expected(both)}",
    )
