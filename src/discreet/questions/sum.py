"""Sum: the total of a bounded column, alone or with the number of rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, ClassVar

from discreet.core import requirements
from discreet.core.guarantee import Guarantee, PureDP
from discreet.core.numbers import decimal, not_below, total
from discreet.core.protection import Neighbours
from discreet.core.schema import Bounds, Contribution, stability
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace
from discreet.questions import form
from discreet.questions.bounded import Domain, OneColumn
from discreet.questions.design import design_measurement, no_design_for
from discreet.questions.moments import MomentsRelease
from discreet.questions.question import DeclaredColumns, MeasuredQuestion, Measurement, column_names, fractions
from discreet.results.release import Release


@dataclass(frozen=True, kw_only=True)
class Sum(OneColumn):
    """The total of a column, clipped to public bounds.

    **Guarantee.** One row changes it by at most the larger absolute bound under add/remove and by c₁ − c₀ under
    replace-one.

    Parameters
    ----------
    bounds
        Public bounds (c₀, c₁) of a row; values outside are clipped.
    grid
        Resolution, a power of two; 1 for a column of whole numbers.
    n
        The public number of rows, where it is public; it bounds the domain.

    Examples
    --------
    >>> Sum(bounds=(-1, 3)).sensitivity(neighbours=Neighbours.ADD_REMOVE).l1
    3.0
    >>> Sum(bounds=(-1, 3)).sensitivity(neighbours=Neighbours.REPLACE_ONE).l1
    4.0
    """

    name: ClassVar[str] = "sum"
    n: int | None = None

    def domain(self, n: int | None = None) -> Domain:
        public = self.n if n is None else requirements.positive_integer("n", n)
        low, high = self.bounds
        if public is not None:
            return public * low, public * high
        return (0.0 if low >= 0 else -math.inf), (0.0 if high <= 0 else math.inf)

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        if neighbours is Neighbours.ADD_REMOVE:
            return Sensitivity(moves=(max(abs(end) for end in self.bounds),))
        return Sensitivity(moves=(not_below(self._grid.width),))

    def value(self, data: Any) -> Fraction:
        offsets = self._grid.offsets("data", data)
        return offsets.size * self._grid.origin + total(offsets) * self._grid.exact_step


# ---- NoisyAverage: a mean whose number of rows is protected too, as a noisy sum over a noisy count.


@dataclass(frozen=True, kw_only=True)
class NoisyAverage(OneColumn):
    """The mean of a column as sum over count, both noisy (miranda2026 §3.1).

    The value is the pair (Σ(x − centre)/reach, number of rows); one scale of noise serves both coordinates. Centred at
    the middle of the bounds a row moves the sum by at most half their width, so the noise is the least; with
    ``centred=False`` the sum is that of the column itself, as published.

    Guarantee
    ---------
    Add/remove: both coordinates move by at most 1 (ℓ₁ = 2, ℓ₂ = √2). Under replace-one the number of rows is public:
    use `Mean`.

    Parameters
    ----------
    bounds
        Public bounds of a row; values outside are clipped.
    grid
        Resolution, a power of two.
    centred
        Whether the sum is taken around the middle of the bounds.

    Examples
    --------
    >>> from discreet import Ledger, PureDP, release
    >>> from discreet.mechanisms import Laplace
    >>> age = NoisyAverage(bounds=(0, 125))
    >>> exact = age.exact([38] * 5000, neighbours=Neighbours.ADD_REMOVE)
    >>> mechanism = Laplace.calibrate(PureDP(1.0), exact.sensitivity)
    >>> noisy = release(exact, mechanism, ledger=Ledger(":memory:", budget=PureDP(1.0)))
    >>> abs(noisy.mean - 38) < 2, noisy.noise_interval(0.999999).contains(38)
    (True, True)
    """

    name: ClassVar[str] = "noisy_average"
    earlier: ClassVar[Mapping[str, Mapping[str, Any]]] = {"sum_and_count": {}}
    of: ClassVar[str] = "mean"
    degrees: ClassVar[tuple[int, ...]] = (1,)
    centred: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        requirements.instance("centred", self.centred, bool, "centred=True or False")

    @property
    def ends(self) -> tuple[float, float]:
        """Bounds of a row."""
        return self.bounds

    @property
    def middle(self) -> Fraction:
        """Where the sum is taken from."""
        return (Fraction(self.bounds[0]) + Fraction(self.bounds[1])) / 2 if self.centred else Fraction(0)

    @property
    def half(self) -> Fraction:
        """The largest distance of a row from where the sum is taken."""
        return max(abs(Fraction(end) - self.middle) for end in self.bounds)

    @classmethod
    def release_type(cls) -> type[Release]:
        return MomentsRelease

    def domain(self, n: int | None = None) -> Domain:
        rows = math.inf if n is None else float(requirements.positive_integer("n", n))
        return (-rows, 0.0), (rows, rows)

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        """One in each coordinate."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        if neighbours is Neighbours.ADD_REMOVE:
            return Sensitivity(moves=(1.0, 1.0))
        low, high = (Fraction(end) for end in self.bounds)
        return Sensitivity(moves=(math.nextafter(float((high - low) / self.half), math.inf),))

    def value(self, data: Any) -> Any:
        """Scaled sum and count. Private."""
        grid = self._grid
        offsets = grid.offsets("data", data)
        summed = offsets.size * (grid.origin - self.middle) + total(offsets) * grid.exact_step
        return fractions([summed / self.half, Fraction(offsets.size)])

    def comparison(self, guarantee: Guarantee, n: int, mean: float | None = None) -> dict[str, float]:
        """The noise of this average beside that of a mean with a public n, at equal privacy. Reads no data.

        Parameters
        ----------
        guarantee
            For both; `PureDP` compares Laplace noise, other kinds Gaussian.
        n
            Number of rows to plan for.
        mean
            Value to plan for; by default the worst.

        Examples
        --------
        >>> found = NoisyAverage(bounds=(0, 125)).comparison(PureDP(1.0), n=1000, mean=40)
        >>> {name: round(value, 4) for name, value in found.items()}
        {'public_n': 0.1768, 'noisy_n': 0.1879, 'ratio': 1.0628}
        """
        rows = requirements.positive_integer("n", n)
        spread = _noise_deviation(guarantee, Sensitivity(moves=(1.0, 1.0)))
        target = max(self.bounds, key=lambda end: abs(end - float(self.middle))) if mean is None else mean
        slope = (requirements.finite("mean", target) - float(self.middle)) / float(self.half)
        noisy = float(self.half) * spread * math.sqrt(1 + slope**2) / rows
        width = self.bounds[1] - self.bounds[0]
        known = _noise_deviation(guarantee, Sensitivity(moves=(width / rows,)))
        return {"public_n": known, "noisy_n": noisy, "ratio": noisy / known}


def _noise_deviation(guarantee: Guarantee, sensitivity: Sensitivity) -> float:
    if isinstance(guarantee, PureDP):
        return math.sqrt(2) * Laplace.calibrate(guarantee, sensitivity).scale
    return Gaussian.calibrate(guarantee, sensitivity).scale


@dataclass(frozen=True)
class SumQuestion(MeasuredQuestion[Release]):
    """Total of a column, in all or by group.

    Guarantee
    ---------
    A unit that keeps r rows in each of k groups moves k totals by at most r times the larger absolute bound; where the
    number of rows is public, a replaced row moves the total by the width of the bounds. See `stability`.

    Examples
    --------
    >>> from discreet import Bounds, Schema
    >>> schema = Schema(columns={"spend": Bounds(0, 50, grid=0.5)})
    >>> SumQuestion(schema, "spend", epsilon=1.0).measurement.mechanism.scale
    50.0
    """

    topic: ClassVar[str] = "Numbers"
    answers: ClassVar[str] = "What is the total, in all or in each group?"
    ask: ClassVar[str] = "sum"
    also: ClassVar[tuple[str, ...]] = ("total",)
    heading: ClassVar[str] = "Total {subject}"
    meaning: ClassVar[str] = "The total of {subject}."
    forms: ClassVar[form.Forms] = {"column": form.COLUMN, "by": form.COLUMNS, "beyond": form.FLAG}
    under_design: ClassVar[bool] = True
    column: str
    _: KW_ONLY
    by: str | Sequence[str] = ()
    contribution: Contribution | None = None
    beyond: bool | None = None

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return columns.number()

    def _measured(self) -> Measurement:
        by, column = column_names(self.by), self.column
        bounds = self.schema.bounds(column)
        if self.schema.design is not None:
            no_design_for(self, "contribution")
            return design_measurement(self, "estimated total", by, value=column, read="the total")
        sensitivity = self._sensitivity(bounds, by)

        # Geometric noise on several fractions must know how far each of them moves.
        whole = bounds.step.denominator == 1 and (not by or sensitivity.moves is not None)

        def value(counts: Any, sums: Any) -> Any:
            totals = fractions([int(one) * bounds.step for one in sums[column,]])
            return totals if by else totals[0]

        return Measurement(
            statistic=self.grouped(Sum(bounds=(bounds.low, bounds.high)), by),
            sensitivity=sensitivity,
            mechanism=additive_noise(self.guarantee, sensitivity, whole=whole, single=_moves_one(sensitivity, by)),
            by=by,
            columns=(column,),
            contribution=self.contribution,
            products=((column,),),
            public={},
            value=value,
            read="the total",
        )

    def _sensitivity(self, bounds: Bounds, by: tuple[str, ...]) -> Sensitivity:
        low, high = decimal(bounds.low), decimal(bounds.high)
        if not by and self.public_size(self.column) is not None:
            return Sensitivity(moves=(not_below(high - low),))
        limits = self.schema.contribution(self.contribution)
        cells = self.schema.cells(by, "by")
        return stability(limits, cells=cells, neighbours=self.schema.neighbours, low=low, high=high)


def _moves_one(sensitivity: Sensitivity, by: tuple[str, ...]) -> bool:
    """Whether a unit moves the total of one group at most."""
    return not by if sensitivity.moves is None else len(sensitivity.moves) == 1
