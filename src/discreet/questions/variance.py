"""Variance and standard deviation of a bounded column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from discreet.core import requirements
from discreet.core.numbers import decimal, not_below, product_total, total
from discreet.core.protection import Neighbours
from discreet.core.schema import Bounds, Contribution
from discreet.core.sensitivity import Sensitivity
from discreet.inference.moments import GammaVariance, variance_moves
from discreet.mechanisms.additive import additive_noise
from discreet.questions import form
from discreet.questions.bounded import (
    Domain,
    OneColumn,
    PublicSizeRelease,
    PublicSizeStatistic,
    kept_inside,
    output_notes,
)
from discreet.questions.moments import (
    BernsteinMoments,
    MomentsRelease,
    Of,
    least_noise,
    moments_forecast,
    moments_measurement,
)
from discreet.questions.question import DeclaredColumns, Expected, Forecast, MeasuredQuestion, Measurement, column_names

LEAST_SHARE = 1e-6


def largest_squares(n: int) -> Fraction:
    """The largest Σ(x − x̄)² of n numbers in [0, 1]: ⌊n/2⌋·⌈n/2⌉/n, half of them at each end."""
    return Fraction((n // 2) * ((n + 1) // 2), n) if n > 0 else Fraction(0)


@dataclass(frozen=True, kw_only=True)
class Variance(OneColumn, PublicSizeStatistic):
    """The sample variance (divisor n − 1) of a column, clipped to public bounds.

    **Guarantee.** One row changes it by at most (c₁ − c₀)²/n, under replace-one and, with n declared public,
    under add/remove (liu2019 E). Its domain is [0, n(c₁ − c₀)²/(4(n − 1))].

    Parameters
    ----------
    bounds
        Public bounds (c₀, c₁) of a row; values outside are clipped.
    n
        The public number of rows, at least 2; needed under add/remove (there at least 3), taken from the data
        under replace-one.
    grid
        Resolution, a power of two.

    Examples
    --------
    >>> Variance(bounds=(0, 10)).sensitivity(n=100, neighbours=Neighbours.REPLACE_ONE).l1
    1.0
    >>> Variance(bounds=(0, 1)).value([0, 1, 1])
    Fraction(1, 3)
    """

    name: ClassVar[str] = "variance"
    n: int | None = None

    @property
    def least_rows(self) -> int:
        return 2

    def sampling_model(  # type: ignore[override]  # each statistic names what may be known
        self, released: PublicSizeRelease, *, kurtosis: float | None = None
    ) -> GammaVariance:
        """Gamma distribution of a sample variance.

        Parameters
        ----------
        kurtosis
            The population's μ₄/σ⁴, where it is known; by default the worst that the bounds allow.
        """
        return gamma_variance(self.bounds, released, kurtosis)

    def domain(self, n: int | None = None) -> Domain:
        rows = self.require_n(n)
        return 0.0, not_below(self._grid.width**2 * rows / (4 * (rows - 1)))

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        rows = self.require_n_between(n, neighbours)
        return Sensitivity(moves=(not_below(self._grid.width**2 / rows),))

    def value(self, data: Any) -> Fraction:
        offsets = self._grid.offsets("data", data)
        rows = requirements.positive_integer("rows", offsets.size, at_least=2)
        squares = rows * product_total(offsets, offsets) - total(offsets) ** 2
        return Fraction(squares, rows * (rows - 1)) * self._grid.exact_step**2


@dataclass(frozen=True, kw_only=True)
class StandardDeviation(Variance):
    """The standard deviation, by back-transformation (liu2019 section 2.2).

    A standard deviation moves by as much as (c₁ − c₀)/√n (in a column of equal values one row moves to the other
    end), far more than a variance does in its own units; so the *variance* is protected, with the variance's
    sensitivity, and the release takes the root: ``release(…).standard_deviation``, with its interval.

    Examples
    --------
    >>> StandardDeviation(bounds=(0, 10)).sensitivity(n=100, neighbours=Neighbours.REPLACE_ONE).l1
    1.0
    """

    name: ClassVar[str] = "standard_deviation"
    rooted: ClassVar[bool] = True


def gamma_variance(bounds: tuple[float, float], released: PublicSizeRelease, kurtosis: float | None) -> GammaVariance:
    """Gamma distribution of a released variance of a column in bounds."""
    width = bounds[1] - bounds[0]
    return GammaVariance(n=released.n, width=width, largest=released.domain[1], kurtosis=kurtosis)


def largest_variance(value: float | PublicSizeRelease, level: float) -> float:
    """A known variance, or the largest one that a release leaves possible."""
    if isinstance(value, PublicSizeRelease):
        return float(value.protected_interval(level).high)
    return requirements.non_negative("variance", value)


VarianceReading = PublicSizeRelease | MomentsRelease
"""The measurements that a variance is read from: totals, or with ``output`` one number of a public number of rows."""


@dataclass(frozen=True)
class VarianceQuestion(MeasuredQuestion[VarianceReading]):
    """Variance of a column, in all or by group; it comes with the mean.

    Guarantee
    ---------
    Totals in parts are released, of which a row moves the sum by one: ``docs/proofs/parts.md``. With ``output`` (as of
    `MeanQuestion`) the variance with divisor n − 1 is, which a replaced row moves by at most the squared width over n.

    Examples
    --------
    >>> from discreet import Bounds, Schema
    >>> schema = Schema(columns={"age": Bounds(0, 100, grid=1)})
    >>> VarianceQuestion(schema, "age", epsilon=1.0).plan().scenario
    '1,000 rows spread evenly over the bounds'
    """

    topic: ClassVar[str] = "Numbers"
    answers: ClassVar[str] = "How widely do values spread, squared?"
    ask: ClassVar[str] = "variance"
    also: ClassVar[tuple[str, ...]] = ("var",)
    heading: ClassVar[str] = "Variance of {subject}"
    meaning: ClassVar[str] = "How far values of {subject} spread around their mean."
    of: ClassVar[Of] = "variance"
    forms: ClassVar[form.Forms] = {
        "column": form.COLUMN,
        "by": form.COLUMNS,
        "expected_rows": form.WHOLE,
        "expected_mean": form.NUMBER,
        "output": form.METHOD,
    }
    column: str
    _: KW_ONLY
    by: str | Sequence[str] = ()
    contribution: Contribution | None = None
    expected_rows: int | None = None
    expected_mean: float | None = None
    output: str | None = None

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return columns.number()

    def _measured(self) -> Measurement:
        by, bounds = column_names(self.by), self.schema.bounds(self.column)
        expected = Expected(rows=self.expected_rows, mean=self.expected_mean)
        mean = (1 + expected.slope(bounds.low, bounds.high)) / 2
        moments = BernsteinMoments(bounds=((bounds.low, bounds.high),), degrees=(4,), of=self.of)
        size = None if by else self.public_size(self.column)
        public = size is not None
        if self.output is not None:
            return kept_inside(self, size, lambda size: self._of_public_size(bounds, size))

        def moves(used: BernsteinMoments) -> tuple[list[float], list[float]]:
            unit, typical = (2 * float(used.half)) ** 2, typical_variance(mean, bounds)
            multiplied = [float(weight) for weight in used.multiplied]
            expected_moves = variance_moves(multiplied, mean, typical, public_size=public)
            worst = variance_moves(multiplied, 1.0, public_size=public)
            return [unit * move for move in expected_moves], [unit * move for move in worst]

        def measured(used: BernsteinMoments) -> Measurement:
            return moments_measurement(
                self, used, (self.column,), by=by, contribution=self.contribution,
                read="the variance", forecast=lambda: moments_forecast(self, by, expected, moves(used)),
            )  # fmt: skip

        return least_noise(self.guarantee, moments, measured)

    def _of_public_size(self, bounds: Bounds, size: int) -> Measurement:
        column, kind = self.column, StandardDeviation if self.of == "standard deviation" else Variance
        width = decimal(bounds.high) - decimal(bounds.low)

        def value(counts: Any, sums: Any) -> Fraction:
            rows, total = int(counts[0]), int(sums[column,][0])
            return Fraction(rows * int(sums[column, column][0]) - total**2, rows * (rows - 1)) * bounds.step**2

        return Measurement(
            statistic=kind(bounds=(bounds.low, bounds.high), n=size),
            sensitivity=(moved := Sensitivity(moves=(not_below(width**2 / size),))),
            mechanism=additive_noise(self.guarantee, moved),
            columns=(column,),
            products=((column,), (column, column)),
            from_lowest=True,
            public={"n": size},
            value=value,
            read="the variance",
        )

    def _notes(self, found: Measurement) -> tuple[str, ...]:
        return (*super()._notes(found), *output_notes(self, found))


def typical_variance(mean: float, bounds: Bounds) -> float:
    """Variance of (x − low)/(high − low) that a plan expects at this mean: a beta distribution that is even at ½.

    A beta distribution has the share 1/3 of the largest variance m(1 − m) that way; rounding even numbers to a grid
    with steps of h adds h²/6.
    """
    rounding = 2 / 3 * float(bounds.step / (decimal(bounds.high) - decimal(bounds.low))) ** 2
    return mean * (1 - mean) * min(1 / 3 + rounding, 1.0)


@dataclass(frozen=True)
class StandardDeviationQuestion(VarianceQuestion):
    """Standard deviation of a column, in all or by group; it comes with the mean.

    Guarantee
    ---------
    As `VarianceQuestion`, whose totals are the same.

    Examples
    --------
    >>> from discreet import Bounds, Schema
    >>> schema = Schema(columns={"age": Bounds(0, 100, grid=1)})
    >>> StandardDeviationQuestion(schema, "age", epsilon=1.0).measurement.statistic.title
    'standard deviation'
    """

    topic: ClassVar[str] = "Numbers"
    answers: ClassVar[str] = "How widely do values spread, in the unit of the column?"
    ask: ClassVar[str] = "std"
    also: ClassVar[tuple[str, ...]] = ("standard_deviation", "sd", "stdev")
    heading: ClassVar[str] = "Standard deviation of {subject}"
    of: ClassVar[Of] = "standard deviation"

    def _measured(self) -> Measurement:
        found, bounds = super()._measured(), self.schema.bounds(self.column)
        if self.output is not None:  # |√a − √b| ≤ √|a − b|
            rooted = Forecast(error=lambda level: math.sqrt(found.error(level)))
            return replace(found, read="the deviation", forecast=lambda: rooted)
        mean = (1 + Expected(mean=self.expected_mean).slope(bounds.low, bounds.high)) / 2
        spread = (bounds.high - bounds.low) * math.sqrt(typical_variance(mean, bounds))

        def forecast() -> Forecast:
            of_variance = found.forecast()
            return replace(
                of_variance,
                weights=tuple(weight / (2 * spread) for weight in of_variance.weights),
                worst=None,
                bound=lambda level: math.sqrt(found.worst_error(level) or 0.0),  # |√a − √b| ≤ √|a − b|
            )

        return replace(found, read="the deviation", forecast=forecast)
