"""Parts: moments of a column whose number of rows is protected too; a row is split into parts that add up to one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.numbers import decimal, not_below
from discreet.core.protection import ROW, Neighbours, Protection, Unit
from discreet.core.rows import Selected, Snapshot, weighted_totals
from discreet.core.schema import Bounds, Contribution, in_parts
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.inference.moments import PartMoments
from discreet.inference.noise import combined_error, excess_kurtosis, largest_variance, ratio_interval
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.gaussian import Gaussian, is_pure
from discreet.plans.sampling_error import groups_of, sampling_error
from discreet.questions.bounded import PrivateSizeColumn, fractions
from discreet.questions.clusters.lloyd import NoisyAverageRelease
from discreet.questions.question import DEFAULT_ROWS, Expected, Forecast, MeasuredQuestion, Measurement
from discreet.results.display import Facts, Interval, number
from discreet.results.frames import Reading
from discreet.results.release import Release

__all__ = [
    "MeanAndVarianceInParts", "MeanAndVarianceInPartsRelease", "MeanInParts", "MeanInPartsRelease", "Parts",
    "part_weights", "parts_measurement", "root_interval", "rows_per_unit", "together", "weighed_sensitivity",
    "with_less_noise", "check_weighted", "weighting_notes",
]  # fmt: skip


if TYPE_CHECKING:
    from discreet.questions.covariance_matrix import CovariancesInParts

    P = TypeVar("P", "Parts", CovariancesInParts)


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
    """How far a unit moves parts with weights: ℓ₂ stays, and ℓ₁ grows at most by the largest weight.

    Examples
    --------
    >>> weighed_sensitivity(Sensitivity(l1=2.0, dimension=3), part_weights(2)).l1
    3.74
    """
    total = Fraction(sensitivity.require_l1()) * max(weights)
    return Sensitivity(l1=not_below(total), l2=sensitivity.require_l2(), dimension=sensitivity.dimension)


def with_less_noise(guarantee: Guarantee, parts: P, measured: Callable[[P], Measurement]) -> Measurement:
    """The measurement with the smaller standard error of what is read: of parts as they are, or of weighed ones."""
    plain, weighed = measured(parts), replace(parts, weighed=True)
    if is_pure(guarantee) or weighed.multiplied == parts.multiplied:
        return plain
    return min(plain, measured(weighed), key=lambda one: one.standard_error() or 0.0)


# ---- Readings together: the numbers of many groups in parts, with the intervals of all of them worked out at once


LEVEL = 0.95
_AT_ONCE = 200
"""Groups whose intervals are worked out at once: as many as a processor's cache holds with all points of a search."""


def together(parts: Sequence[MeanInPartsRelease]) -> list[list[Reading]]:
    """The readings of each group, as the group alone would give them."""
    return [one for start in range(0, len(parts), _AT_ONCE) for one in _some(parts[start : start + _AT_ONCE])]


def _some(parts: Sequence[MeanInPartsRelease]) -> list[list[Reading]]:
    kind = cast("Parts", parts[0].statistic)
    if kind.degree < 2:
        return [[mean] for mean in _means(parts)]
    spreads = _spreads(parts, "standard deviation")
    if kind.title == "standard deviation":
        return [[spread] for spread in spreads]
    first = _spreads(parts, "variance") if kind.title == "variance" else _means(parts)
    return [list(pair) for pair in zip(first, spreads, strict=True)]


def _stacked(parts: Sequence[MeanInPartsRelease]) -> PartMoments:
    """The moments of all groups, along the first axis."""
    values = np.array([np.asarray(part.value, dtype=float) for part in parts])
    return replace(parts[0].moments, totals=parts[0].divided(values))


def _means(parts: Sequence[MeanInPartsRelease]) -> list[Reading]:
    """The mean of each group, with both intervals."""
    first, moments = parts[0], _stacked(parts)
    (low, high), centre, reach = first.place()
    top, bottom = moments.parts @ cast("Parts", first.statistic).positions, moments.parts.sum(axis=-1)
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


def _spreads(parts: Sequence[MeanInPartsRelease], measure: str) -> list[Reading]:
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


@dataclass(frozen=True, kw_only=True)
class Parts(PrivateSizeColumn):
    """Totals of (d over k)·uᵏ(1 − u)ᵈ⁻ᵏ for k = 0 … d, with u = (x − low)/(high − low) and d the ``degree``.

    The d + 1 parts of a row are not negative and add up to 1, so the totals add up to the number of rows, and they know
    the first d moments of the column.

    Guarantee
    ---------
    Add/remove: a row moves the totals by exactly 1 in ℓ₁ and by at most 1 in ℓ₂. Replace-one: by at most 2 and √2.
    With weights ℓ₂ stays the same, and ℓ₁ grows by at most the largest weight. Proof: ``docs/proofs/parts.md``.

    Parameters
    ----------
    bounds
        Public bounds of a row, as the decimals they print as; values outside are clipped.
    weighed
        Whether inner parts are multiplied by the weights for Gaussian noise.
    """

    degree: ClassVar[int]
    weighed: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        requirements.instance("weighed", self.weighed, bool, "weighed=True or False")

    def parameters(self) -> dict[str, Any]:
        return {**super().parameters(), "weighed": self.weighed}

    @property
    def multiplied(self) -> tuple[Fraction, ...]:
        """What each total is multiplied by before noise is added."""
        return part_weights(self.degree) if self.weighed else (Fraction(1),) * (self.degree + 1)

    @property
    def title(self) -> str:
        """What it is of: that it is measured in parts matters less to a reader."""
        return super().title.removesuffix(" in parts")

    @property
    def positions(self) -> tuple[float, ...]:
        """Where each part lies between the bounds, from −1 to 1: the mean is their mean, weighted by the totals."""
        return tuple(2 * k / self.degree - 1 for k in range(self.degree + 1))

    def sensitivity(self, *, neighbours: Neighbours) -> Sensitivity:
        """How far one row moves the totals."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        moved = in_parts(Contribution(groups=1, rows=1), 1, self.degree + 1, neighbours)
        return weighed_sensitivity(moved, self.multiplied)

    def of_sums(self, rows: int, *sums: Fraction) -> Any:
        """The value from the number of rows and the sums of their powers, up to the degree. Private."""
        low, width, d = decimal(self.bounds[0]), 2 * self.half, self.degree
        raw = (Fraction(rows), *sums)
        moments = [
            sum((math.comb(j, i) * raw[i] * (-low) ** (j - i) for i in range(j + 1)), Fraction(0)) / width**j
            for j in range(d + 1)
        ]
        return fractions(
            [
                weight
                * math.comb(d, k)
                * sum(math.comb(d - k, j - k) * (-1) ** (j - k) * moments[j] for j in range(k, d + 1))
                for k, weight in enumerate(self.multiplied)
            ]
        )

    def exact(self, data: Sequence[float], *, neighbours: Neighbours, unit: Unit = ROW) -> Exact:
        """The totals of a column, still private."""
        rows, sums = self._power_sums(data, self.degree)
        return Exact(
            self.of_sums(rows, *sums), self.sensitivity(neighbours=neighbours), Protection(unit, neighbours), self
        )


@dataclass(frozen=True, kw_only=True)
class MeanInParts(Parts):
    """The mean of a column in public bounds, from the two noisy totals Σ(1 − u) and Σu.

    Their sum is the number of rows; the release knows the mean and an interval. For 0/1 rows the totals are the numbers
    of noes and of yeses, and the mean is the share.

    Guarantee
    ---------
    Add/remove: ℓ₁ = ℓ₂ = 1, half the ℓ₁ of `NoisyAverage`. Replace-one: 2 and √2.

    Parameters
    ----------
    bounds
        Public bounds of a row, as the decimals they print as; values outside are clipped.

    Examples
    --------
    >>> ages = MeanInParts(bounds=(0, 100))
    >>> [str(part) for part in ages.of_sums(3, Fraction(120))]
    ['9/5', '6/5']
    >>> ages.sensitivity(neighbours=Neighbours.ADD_REMOVE).l1
    1.0
    """

    name: ClassVar[str] = "mean_in_parts"
    degree: ClassVar[int] = 1

    @classmethod
    def release_type(cls) -> type[Release]:
        return MeanInPartsRelease


@dataclass(frozen=True, kw_only=True)
class MeanAndVarianceInParts(Parts):
    """Mean and variance of a column in public bounds, from the five noisy totals Σ (4 over k)·uᵏ(1 − u)⁴⁻ᵏ.

    Their sum is the number of rows. They hold four moments: the mean and the variance, and what says how far both vary
    from sample to sample, whatever the population is.

    Guarantee
    ---------
    Add/remove: ℓ₁ = ℓ₂ = 1. Replace-one: 2 and √2.

    Parameters
    ----------
    bounds
        Public bounds of a row, as the decimals they print as; values outside are clipped.

    Examples
    --------
    >>> moments = MeanAndVarianceInParts(bounds=(0, 10))
    >>> [str(part) for part in moments.of_sums(2, Fraction(10), Fraction(100), Fraction(1000), Fraction(10000))]
    ['1', '0', '0', '0', '1']
    """

    name: ClassVar[str] = "mean_and_variance_in_parts"
    degree: ClassVar[int] = 4

    @classmethod
    def release_type(cls) -> type[Release]:
        return MeanAndVarianceInPartsRelease


@dataclass(frozen=True)
class MeanInPartsRelease(NoisyAverageRelease):
    """Noisy totals in parts, and the mean that follows from them; the totals are as the statistic multiplies them."""

    @property
    def _of(self) -> Parts:
        return cast(Parts, self.statistic)

    @classmethod
    def readings_together(cls, parts: Sequence[Any]) -> list[list[Reading]]:
        behind_a_step = "omission" in parts[0].public  # whose intervals are of another kind
        return super().readings_together(parts) if behind_a_step else together(parts)

    @cached_property
    def moments(self) -> PartMoments:
        """The totals as moments between the bounds, with the law of their noise."""
        law = self.mechanism.law(0.0)
        return PartMoments(
            totals=self.divided(self.value),
            noise=float(np.max(law.variance)) * self.divided(1.0) ** 2,
            kurtosis=excess_kurtosis(law),
            size=self.public.get("n"),
            rows_per_unit=rows_per_unit(self.sensitivity, self._of.multiplied),
        )

    def divided(self, totals: Any) -> Array:
        """Totals without the weights, the parts along the last axis."""
        return np.asarray(np.divide(totals, [float(weight) for weight in self._of.multiplied]), dtype=float)

    def count_error(self, level: float) -> float:
        """The noise in the number of rows stays below this with probability ``level``; 0 where the number is public."""
        return combined_error(self.mechanism, self.divided(1.0), level) if self.moments.size is None else 0.0

    def _totals(self) -> tuple[float, float]:
        parts = self.moments.parts
        return float(parts @ self._of.positions), float(parts.sum())

    def place(self) -> tuple[tuple[float, float], float, float]:
        return self._of.bounds, float(self._of.middle), float(self._of.half)

    def noise_weights(self, theta: Any) -> Array:
        # A public n is exact: its noise was taken out of the totals, of parts alike on both sides of the middle.
        moved = np.asarray(theta) if self.moments.size is None else np.zeros(np.shape(theta))
        return np.array(
            [
                (place - moved) / float(weight)
                for place, weight in zip(self._of.positions, self._of.multiplied, strict=True)
            ]
        )

    @property
    def _of_all_rows(self) -> PartMoments:
        """The moments for intervals about the data: a Poisson sample of a share p leaves 1 − p of sampling variance."""
        return replace(self.moments, rows_per_unit=0.0 if self.sampled is None else 1 - self.sampled)

    def noise_interval(self, level: float = 0.95) -> Interval:
        """Interval for the mean of the data: privacy noise, and the choice of rows where a Poisson sample was taken."""
        if self.sampled in (None, 1.0):
            return super().noise_interval(level)
        low, high = self._of_all_rows.mean_interval(level)
        return Interval(self._value(low), self._value(high), level)

    def population_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population's mean: noise and sampling together, for any population on the bounds.

        Where no second moment was released it is the worst that the bounds allow, which is exact for 0/1 rows. Ask
        with ``variance=True`` for a narrower one.
        """
        self.require_sample()
        low, high = self.moments.mean_interval(level)
        return Interval(self._value(low), self._value(high), level)

    def _value(self, share: Any) -> float:
        low, high = self._of.bounds
        return min(max(low + (high - low) * float(share), low), high)

    @property
    def measure(self) -> str:
        return self._of.title


def rows_per_unit(sensitivity: Sensitivity, multiplied: Iterable[Fraction] = (Fraction(1),)) -> int:
    """A unit with k rows in each of g groups moves Δ₁ = gk and Δ₂² = gk², and twice both when it is replaced.

    Δ₁ is stated for the largest of the weights by which parts are ``multiplied``.
    """
    return max(1, round(float(max(multiplied)) * sensitivity.require_l2() ** 2 / sensitivity.require_l1()))


def root_interval(interval: Interval) -> Interval:
    """The interval of a variance as one of the standard deviation: the root is monotone."""
    low, high = (math.sqrt(max(float(end), 0.0)) for end in interval)
    return Interval(low, high, interval.level)


@dataclass(frozen=True)
class MeanAndVarianceInPartsRelease(MeanInPartsRelease):
    """Five noisy totals, and the moments that follow from them."""

    def _scaled(self, interval: Interval) -> Interval:
        width = 2 * float(self._of.half)
        return Interval(width**2 * float(interval.low), width**2 * float(interval.high), interval.level)

    @property
    def variance(self) -> float:
        """The variance (divisor n), at least 0 and at most what the bounds allow."""
        return (2 * float(self._of.half)) ** 2 * float(self.moments.variance)

    @property
    def standard_deviation(self) -> float:
        """Root of the variance."""
        return math.sqrt(self.variance)

    def variance_interval(self, level: float = 0.95) -> Interval:
        """Interval for the variance of the data; privacy noise only."""
        return self._scaled(self._of_all_rows.variance_interval(level))

    def population_variance_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population's variance: noise and sampling together, from measured fourth moments."""
        self.require_sample()
        return self._scaled(self.moments.variance_interval(level))

    def facts(self) -> Facts:
        """What to show, with the standard deviation after the mean."""
        shown = list(super().facts())
        place = next(place for place, (name, _) in enumerate(shown) if name == self.rows_name)
        return [*shown[:place], ("standard deviation", number(self.standard_deviation)), *shown[place:]]

    @property
    def measure(self) -> str:
        return "mean"

    def standard_deviation_interval(self, level: float = 0.95) -> Interval:
        """Interval for the standard deviation of the data; privacy noise only."""
        return root_interval(self.variance_interval(level))

    def population_standard_deviation_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population's standard deviation: noise and sampling together."""
        return root_interval(self.population_variance_interval(level))

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """What was asked for, and the standard deviation, each with both intervals."""
        spread = Reading(
            "",
            self.standard_deviation,
            self.standard_deviation_interval(),
            None if self.sampled is None else self.population_standard_deviation_interval(),
            measure="standard deviation",
        )
        return [*super().readings(columns), spread]


def parts_measurement(
    question: MeasuredQuestion[Any],
    parts: Parts,
    column: str,
    bounds: Bounds,
    *,
    by: tuple[str, ...],
    contribution: Contribution | None,
    all_rows: bool = False,
    expected: Expected,
    moves: Callable[[Parts], tuple[Sequence[float], Sequence[float] | None]],
    read: str,
) -> Measurement:
    """How noisy totals in parts per group are measured, from which a mean or a variance is read.

    Parameters
    ----------
    question, parts, column, bounds
        What is asked, the statistic of one group, its column, and the bounds of what is added up.
    by, contribution, all_rows
        As the question has them.
    expected, moves, read
        What a plan is told to expect; how far noise in each total moves n times what is read, then and for the least
        favourable data (None where that is the same); and what is read.
    """
    products = tuple((column,) * power for power in range(1, parts.degree + 1))
    groups, schema, size = question.schema.cells(by), question.schema, None if by else question.public_size(column)
    moved = in_parts(schema.contribution(contribution), groups, parts.degree + 1, schema.neighbours)

    def measured(used: Parts) -> Measurement:
        sensitivity = weighed_sensitivity(moved, used.multiplied) if used.weighed else moved
        noise = Gaussian.calibrate if used.weighed else additive_noise

        def value(counts: Any, sums: Any) -> Any:
            found: list[Fraction] = []
            for cell, count in enumerate(counts):
                powers = (int(sums[product][cell]) * bounds.step ** len(product) for product in products)
                found += list(used.of_sums(int(count), *powers))
            return fractions(found)

        def of_all_rows(rows: Snapshot) -> Any:
            selected = Selected(by=by, columns=(column,), contribution=contribution, weighted=True)
            return (weighted_totals(rows, selected, used.degree) * np.array(used.multiplied)).ravel()

        def forecast() -> Forecast:
            rows = expected if size is None else Expected(rows=size, mean=expected.mean)
            typical, worst = moves(used)
            return Forecast(
                weights=rows.per_group(groups, typical),
                worst=None if worst is None else rows.per_group(groups, worst),
                scenario=rows.words(groups),
            )

        return Measurement(
            statistic=question.grouped(used, by),
            sensitivity=sensitivity,
            mechanism=noise(question.guarantee, sensitivity),
            by=by,
            columns=(column,),
            contribution=contribution,
            products=products,
            public={"all_rows": True} if all_rows else {} if size is None else {"n": size},
            value=value,
            from_rows=of_all_rows if all_rows else None,
            read=read,
            forecast=forecast,
        )

    return measured(parts) if parts.degree == 1 else with_less_noise(question.guarantee, parts, measured)


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


def check_weighted(question: Any) -> None:
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


def weighting_notes(question: Any, found: Measurement) -> tuple[str, ...]:
    """What a plan says of rows beyond a limit: that they count, or what it would gain if they did."""
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
        f"each, the standard error is {noise:.3g} instead of {both:.3g}",
    )
