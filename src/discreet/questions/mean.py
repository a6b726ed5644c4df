"""Mean: the average of a column, over a public or a protected number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, ClassVar

from discreet.core import requirements
from discreet.core.numbers import decimal, not_below, total
from discreet.core.protection import Neighbours
from discreet.core.schema import Bounds, Contribution
from discreet.core.sensitivity import Sensitivity
from discreet.inference.moments import BetaMean
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
    check_weighted,
    least_noise,
    moments_forecast,
    moments_measurement,
    weighting_notes,
)
from discreet.questions.question import DeclaredColumns, Expected, MeasuredQuestion, Measurement, column_names
from discreet.questions.variance import LEAST_SHARE, largest_variance


@dataclass(frozen=True, kw_only=True)
class Mean(OneColumn, PublicSizeStatistic):
    """The mean of a column, clipped to public bounds.

    **Guarantee.** One row changes it by at most (c₁ − c₀)/n, under replace-one and, with n declared public,
    under add/remove (liu2019 D).

    Parameters
    ----------
    bounds
        Public bounds (c₀, c₁) of a row; values outside are clipped.
    n
        The public number of rows; needed under add/remove, taken from the data under replace-one.
    grid
        Resolution, a power of two.

    Examples
    --------
    >>> Mean(bounds=(0, 1)).sensitivity(n=50, neighbours=Neighbours.REPLACE_ONE).l1
    0.02
    >>> Mean(bounds=(0, 1)).value([0.25, 0.5, 9.0])
    Fraction(7, 12)
    """

    name: ClassVar[str] = "mean"
    n: int | None = None

    def sampling_model(  # type: ignore[override]  # each statistic names what may be known
        self, released: PublicSizeRelease, *, variance: float | PublicSizeRelease | None = None
    ) -> BetaMean:
        """Beta distribution of a mean in bounds.

        Parameters
        ----------
        variance
            The population's variance, if public, or a private release of it, whose upper end at 98 % is used. Without
            it the largest possible variance (μ − c₀)(c₁ − μ) is assumed, which is valid for every population in the
            bounds and wide for most.
        """
        low, high = self.bounds
        largest = (released.debiased - low) * (high - released.debiased)
        if variance is None or largest <= 0:
            return BetaMean(n=released.n, bounds=self.bounds)
        spread = largest_variance(variance, 0.98)
        return BetaMean(n=released.n, bounds=self.bounds, dispersion=min(1.0, max(spread / largest, LEAST_SHARE)))

    def domain(self, n: int | None = None) -> Domain:
        return self.bounds

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        rows = self.require_n_between(n, neighbours)
        return Sensitivity(moves=(not_below(self._grid.width / rows),))

    def value(self, data: Any) -> Fraction:
        offsets = self._grid.offsets("data", data)
        rows = requirements.positive_integer("rows", offsets.size)
        return self._grid.origin + Fraction(total(offsets), rows) * self._grid.exact_step


MeanReading = PublicSizeRelease | MomentsRelease
"""The measurements that a mean is read from: one number where the number of rows is public, else totals."""


@dataclass(frozen=True)
class MeanQuestion(MeasuredQuestion[MeanReading]):
    """Mean of a column over rows, in all or by group.

    Guarantee
    ---------
    Where the number of rows is public, a replaced row moves the mean by at most the width of the bounds over n. Else
    totals in parts are released, of which a row moves the sum by one: ``docs/proofs/parts.md``.

    Parameters
    ----------
    column, by
        The column, and columns of labels to group by.
    variance
        Whether to release the variance too, for a narrower interval for the population.
    contribution
        Limits per unit.
    expected_rows, expected_mean
        What a plan is told to expect: by default 1,000 rows per group, spread evenly over the bounds. The number of
        rows turns noise in totals into noise in the mean, which is the largest for a mean at an end of the bounds.
    all_rows
        Whether all rows of a unit count, with weights that add up to its limit, instead of some that it keeps.
    output
        Where the number of rows is public: ``"bounded"`` conditions Laplace noise on the bounds (holohan2018), and
        ``"inflated"`` moves what falls outside to the ends (liu2019). A plan states what that costs.

    Examples
    --------
    >>> from discreet import Bounds, Schema
    >>> schema = Schema(columns={"age": Bounds(0, 100, grid=1)})
    >>> planned = MeanQuestion(schema, "age", epsilon=1.0, expected_rows=1000).plan()
    >>> planned.read, round(planned.error_95, 2)
    ('the mean', 0.21)
    >>> round(planned.worst_error, 2)
    0.3
    """

    topic: ClassVar[str] = "Numbers"
    answers: ClassVar[str] = "What is the average, in all or in each group?"
    ask: ClassVar[str] = "mean"
    also: ClassVar[tuple[str, ...]] = ("average", "avg")
    heading: ClassVar[str] = "Mean {subject}"
    meaning: ClassVar[str] = "The mean of {subject}."
    forms: ClassVar[form.Forms] = {
        "column": form.COLUMN,
        "by": form.COLUMNS,
        "variance": form.FLAG,
        "expected_rows": form.WHOLE,
        "expected_mean": form.NUMBER,
        "all_rows": form.FLAG,
        "output": form.METHOD,
    }
    column: str
    _: KW_ONLY
    by: str | Sequence[str] = ()
    variance: bool = False
    contribution: Contribution | None = None
    expected_rows: int | None = None
    expected_mean: float | None = None
    all_rows: bool = False
    output: str | None = None

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return columns.number()

    def _measured(self) -> Measurement:
        requirements.instance("variance", self.variance, bool, "variance=True or False")
        if self.all_rows is not False:
            check_weighted(self)
        by, bounds = column_names(self.by), self.schema.bounds(self.column)
        expected = Expected(rows=self.expected_rows, mean=self.expected_mean)
        slope = expected.slope(bounds.low, bounds.high)
        size = None if by else self.public_size(self.column)
        alone = None if self.variance else size
        if self.output is not None:
            return kept_inside(self, alone, lambda size: self._of_public_size(bounds, size))
        if alone is not None:
            return self._of_public_size(bounds, alone)
        moments = BernsteinMoments(bounds=((bounds.low, bounds.high),), degrees=(4 if self.variance else 1,))

        # Noise Zₖ in the total of the part at pₖ moves n·mean by (pₖ − mean)·Zₖ, in units of half the width; where n
        # is public, by pₖ·Zₖ, whatever the mean is.
        def moves(used: BernsteinMoments) -> tuple[list[float], list[float] | None]:
            half, centres = float(used.half), (slope, 1.0) if size is None else (0.0, 0.0)
            placed = list(zip(used.positions, map(float, used.multiplied), strict=True))
            typical, worst = ([half * abs(place - centre) / weight for place, weight in placed] for centre in centres)
            return typical, worst if size is None else None

        def measured(used: BernsteinMoments) -> Measurement:
            return moments_measurement(
                self, used, (self.column,), by=by, contribution=self.contribution, all_rows=self.all_rows,
                read="the mean", forecast=lambda: moments_forecast(self, by, expected, moves(used)),
            )  # fmt: skip

        return least_noise(self.guarantee, moments, measured)

    def _notes(self, found: Measurement) -> tuple[str, ...]:
        return (*super()._notes(found), *weighting_notes(self, found), *output_notes(self, found))

    def _of_public_size(self, bounds: Bounds, size: int) -> Measurement:
        column = self.column
        sensitivity = Sensitivity(moves=(not_below((decimal(bounds.high) - decimal(bounds.low)) / size),))
        return Measurement(
            statistic=Mean(bounds=(bounds.low, bounds.high), n=size),
            sensitivity=sensitivity,
            mechanism=additive_noise(self.guarantee, sensitivity),
            columns=(column,),
            products=((column,),),
            public={"n": size},
            value=lambda counts, sums: Fraction(int(sums[column,][0]), int(counts[0])) * bounds.step,
            read="the mean",
        )
