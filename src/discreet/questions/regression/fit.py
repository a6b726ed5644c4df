"""Linear fit: what is read from a regression, in the units of the data and under the names of statsmodels."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, NoPopulationInterval
from discreet.core.guarantee import Guarantee
from discreet.core.noise.sampler import Floats
from discreet.core.schema import Contribution, Schema
from discreet.inference.least_squares import JointTest, LeastSquares
from discreet.questions.question import (
    COLUMN,
    COLUMNS,
    UNSAID,
    WHOLE,
    Form,
    MeasuredQuestion,
    Measurement,
    column_names,
)
from discreet.results.display import Facts, Interval, Result, number
from discreet.results.frames import Reading, interval_frame
from discreet.results.ledger import Ledger
from discreet.results.plan import DETECTED, Plan
from discreet.results.release import Release
from discreet.results.wording import BOTH_INTERVALS, pvalue_equation, reading_line, reading_words

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Coefficients", "CoefficientsQuestion", "CoefficientsRelease", "Design", "ExpectedError", "Fitted",
    "LinearEstimate", "LinearFit", "SubModel", "Coefficient",
]  # fmt: skip


Array = NDArray[np.float64]
CONSTANT = "const"


class Fitted(Protocol):
    """The numbers read from a fit between the bounds: by least squares, or of another model linear in its terms."""

    @property
    def coefficients(self) -> Array:
        """One per term."""

    @property
    def rows(self) -> Floats:
        """Number of rows, known or estimated."""

    def standard_error(self, along: Array) -> Floats:
        """Of the estimate of ``along``·β."""

    def interval(self, along: Array, level: float) -> tuple[Floats, Floats]:
        """All values of ``along``·β that are not rejected."""

    def pvalue(self, along: Array, value: float = 0.0) -> Floats:
        """Of the hypothesis that ``along``·β has this value."""

    def covariance(self) -> Array:
        """Covariance matrix of the coefficients."""

    def wald(self, restrictions: Array, values: Array) -> JointTest:
        """Test that several combinations of coefficients have given values."""


F = TypeVar("F", bound=Fitted, covariant=True)


@dataclass(frozen=True)
class Coefficient:
    """One coefficient of a regression.

    Attributes
    ----------
    name
        As it is printed: ``age``, or ``sex[m]`` for a label.
    column
        The column it belongs to; empty for the constant.
    label
        The label that it stands for, where the column has labels.
    low, width
        Lower bound and width of the bounds of a number: the fit counts from 0 to 1 between them.
    """

    name: str
    column: str
    label: Any = None
    low: float = 0.0
    width: float = 1.0

    def at(self, values: Mapping[str, Any]) -> float:
        """The term for a row with these values, as the fit counts it."""
        if not self.column:
            return 1.0
        if self.label is not None:
            return float(values[self.column] == self.label)
        return (requirements.finite(self.column, values[self.column]) - self.low) / self.width


@dataclass(frozen=True)
class Design(Generic[F]):
    """A regression between the bounds, and how its coefficients are read in the units of the data.

    Attributes
    ----------
    outcome
        The outcome, with its bounds.
    terms
        One for every coefficient.
    labels
        Labels of the columns that have any; the first one is the reference.
    sampled, observed
        The fit with noise and sampling, and with noise alone.
    """

    outcome: Coefficient
    terms: tuple[Coefficient, ...]
    labels: Mapping[str, Sequence[Any]]
    sampled: F
    observed: F

    @cached_property
    def units(self) -> Array:
        """Row by row, what a coefficient in units of the data is of those between the bounds."""
        found = np.diag([self.outcome.width / term.width for term in self.terms])
        found[0, 1:] = [-self.outcome.width * term.low / term.width for term in self.terms[1:]]
        return found

    @property
    def shifts(self) -> Array:
        """The numbers added to each coefficient: the constant starts at the outcome's lower bound."""
        return np.array([self.outcome.low, *(0.0 for _ in self.terms[1:])])

    def along(self, values: Mapping[str, Any]) -> Array:
        """The combination of coefficients that predicts a row."""
        known = {term.column for term in self.terms if term.column}
        if set(values) != known:
            raise InvalidParameter(
                "values", sorted(values), f"must have a value for each of {sorted(known)}", "Add them."
            )
        for column, labels in self.labels.items():
            if column in known and values[column] not in labels:
                raise InvalidParameter(column, values[column], f"must be one of {list(labels)}", "Check the spelling.")
        return self.outcome.width * np.array([term.at(values) for term in self.terms])


@dataclass(frozen=True)
class LinearEstimate(Result):
    """A combination of coefficients: a coefficient itself, a difference of two, or a prediction.

    Attributes
    ----------
    estimate, standard_error
        The standard error counts noise and sampling.
    """

    estimate: float
    standard_error: float
    _design: Design[Fitted] = field(repr=False)
    _along: Array = field(repr=False)

    def population_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population: noise and sampling together.

        Raises
        ------
        NoPopulationInterval
            Where the noise leaves nothing to conclude from.
        """
        low, high = self._ends(self._design.sampled, level)
        if not math.isfinite(high - low):
            raise NoPopulationInterval(
                "guarantee", number(self.estimate), "leaves so much noise that nothing can be said about this number",
                "Ask with fewer columns, tighter bounds, more rows or a larger budget.",
            )  # fmt: skip
        return Interval(low, high, level)

    def heading(self) -> str:
        return "Estimate from a regression"

    def facts(self) -> Facts:
        low, high = self._ends(self._design.sampled, 0.95)
        return [
            ("estimate", f"{self.estimate:.4g}"),
            ("standard error", f"{self.standard_error:.3g}"),
            ("population interval, 95 %", f"{low:.4g} to {high:.4g}"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Estimate, standard error and 95 % interval as JSON-ready data."""
        ends = dict(zip(("low", "high"), self._ends(self._design.sampled, 0.95), strict=True))
        return {"estimate": self.estimate, "standard_error": self.standard_error, "population_interval": ends}

    def _ends(self, fit: Fitted, level: float) -> tuple[float, float]:
        low, high = fit.interval(self._along, requirements.level(level))
        shift = self.estimate - float(self._along @ fit.coefficients)
        return float(low) + shift, float(high) + shift

    def pvalue(self, value: float = 0.0) -> float:
        """Of the hypothesis that it has this value in the population."""
        shift = self.estimate - float(self._along @ self._design.sampled.coefficients)
        return float(self._design.sampled.pvalue(self._along, requirements.finite("value", value) - shift))


class Coefficients(ABC, Generic[F]):
    """Coefficients of a model that is linear in its terms: the names are those of statsmodels.

    Intervals, standard errors and p-values count noise and sampling.
    """

    @property
    @abstractmethod
    def design(self) -> Design[F]:
        """The fit and its units."""

    def _estimate(self, position: int) -> LinearEstimate:
        along = self.design.units[position]
        estimate = float(along @ self.design.sampled.coefficients + self.design.shifts[position])
        return LinearEstimate(estimate, float(self.design.sampled.standard_error(along)), self.design, along)

    @cached_property
    def coefficients(self) -> dict[str, LinearEstimate]:
        """Every coefficient by name, with its own intervals and tests."""
        return {term.name: self._estimate(position) for position, term in enumerate(self.design.terms)}

    @property
    def params(self) -> dict[str, float]:
        """The coefficients."""
        return {name: one.estimate for name, one in self.coefficients.items()}

    @property
    def bse(self) -> dict[str, float]:
        """Their standard errors: noise and sampling together, whatever the errors' variance."""
        return {name: one.standard_error for name, one in self.coefficients.items()}

    @property
    def tvalues(self) -> dict[str, float]:
        """Coefficients over their standard errors."""
        return {name: one.estimate / one.standard_error for name, one in self.coefficients.items()}

    @property
    def pvalues(self) -> dict[str, float]:
        """Of the hypotheses that a coefficient is 0. They agree with the intervals, more than `tvalues` do."""
        return {name: one.pvalue() for name, one in self.coefficients.items()}

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Population intervals at level 1 − alpha: a frame with ``low`` and ``high`` by term.

        They reach from −∞ to ∞ where nothing can be said about a coefficient.
        """
        return interval_frame(self.intervals(alpha))

    def intervals(self, alpha: float = 0.05) -> dict[str, Interval]:
        """Population intervals of the coefficients, by term: noise and sampling together."""
        level = requirements.level(1 - alpha)
        return {
            name: Interval(*one._ends(self.design.sampled, level), level) for name, one in self.coefficients.items()
        }

    def noise_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Noise intervals at level 1 − alpha, for the coefficients in the data: as `conf_int`."""
        return interval_frame(self.noise_intervals(alpha))

    def noise_intervals(self, alpha: float = 0.05) -> dict[str, Interval]:
        """Intervals for the coefficients in the data, which the noise alone keeps from being known."""
        level = requirements.level(1 - alpha)
        return {
            name: Interval(*one._ends(self.design.observed, level), level) for name, one in self.coefficients.items()
        }

    def cov_params(self) -> Array:
        """Covariance matrix of the coefficients: noise and sampling together."""
        units = self.design.units
        return np.asarray(units @ self.design.sampled.covariance() @ units.T)

    @property
    def nobs(self) -> float:
        """Number of rows, which is public or noisy."""
        return float(self.design.sampled.rows)

    def combine(self, weights: Mapping[str, float]) -> LinearEstimate:
        """A weighted sum of coefficients, such as the difference of two."""
        names = [term.name for term in self.design.terms]
        unknown = [name for name in weights if name not in names]
        if unknown:
            raise InvalidParameter("weights", unknown[0], f"must be one of {names}", "Check the spelling.")
        each = np.array([requirements.finite("weights", weights.get(name, 0.0)) for name in names])
        along = each @ self.design.units
        estimate = float(along @ self.design.sampled.coefficients + each @ self.design.shifts)
        return LinearEstimate(estimate, float(self.design.sampled.standard_error(along)), self.design, along)

    def wald_test(self, *columns: str) -> JointTest:
        """Test that the coefficients of some columns, by default of all, are 0 together."""
        known = list(dict.fromkeys(term.column for term in self.design.terms if term.column))
        for column in columns:
            if column not in known:
                raise InvalidParameter("columns", column, f"must be one of {known}", "Check the spelling.")
        used = columns or known
        chosen = [position for position, term in enumerate(self.design.terms) if term.column in used]
        return self.design.sampled.wald(np.eye(len(self.design.terms))[chosen], np.zeros(len(chosen)))

    @property
    def _on(self) -> str:
        return ", ".join(dict.fromkeys(term.column for term in self.design.terms if term.column))

    def _table(self, alpha: float, letter: str) -> list[str]:
        """The coefficients as lines of a table."""
        intervals, pvalues = self.intervals(alpha), self.pvalues
        head = ("", "coef", "std err", letter, f"P>|{letter}|", f"[{alpha / 2:g}", f"{1 - alpha / 2:g}]")
        lines: list[tuple[str, ...]] = [head]
        for name, one in self.coefficients.items():
            ends = intervals[name]
            known = math.isfinite(float(ends.width))
            digits = _decimals(one.standard_error)
            numbers = (one.estimate, one.standard_error, float(ends.low), float(ends.high))
            estimate, error, *shown = (f"{value:.{digits}f}" for value in numbers)
            ratio = f"{one.estimate / one.standard_error:.2f}"
            told = shown if known else ["nothing can", "be said"]
            lines.append((name, estimate, error, ratio, f"{pvalues[name]:.3f}", *told))
        widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
        return [
            "  ".join(
                [line[0].ljust(widths[0]), *(one.rjust(width) for one, width in zip(line[1:], widths[1:], strict=True))]
            )
            for line in lines
        ]

    def coefficient_readings(self) -> list[Reading]:
        """Every coefficient with both intervals; None stands for an interval without an end."""
        noise, both = self.noise_intervals(), self.intervals()
        return [
            Reading(
                name,
                one.estimate,
                _finite(noise[name]),
                _finite(both[name]),
                labels={"term": name},
                measure="coefficient",
                standard_error=one.standard_error,
                pvalue=one.pvalue(),
            )
            for name, one in self.coefficients.items()
        ]


class LinearFit(Coefficients[LeastSquares]):
    """Coefficients of a regression with intervals that are valid for errors of any distribution.

    The coefficients are those of the best linear description in the population of clipped values. Intervals, standard
    errors and p-values assume neither normal errors nor errors of equal variance.
    """

    @property
    def rsquared(self) -> float:
        """The share of the outcome's variance that is described, from 0 to 1."""
        return self.design.sampled.r_squared

    @property
    def scale(self) -> float:
        """Variance of what is left."""
        return self.design.sampled.residual_variance * self.design.outcome.width**2

    def predict(self, values: Mapping[str, Any]) -> LinearEstimate:
        """The mean outcome of rows with these values, with its interval."""
        along = self.design.along(requirements.instance("values", values, Mapping, '{"age": 40, "sex": "m"}'))
        estimate = float(along @ self.design.sampled.coefficients) + self.design.outcome.low
        return LinearEstimate(estimate, float(self.design.sampled.standard_error(along)), self.design, along)

    def summary(self, alpha: float = 0.05) -> str:
        """The regression as a table."""
        spread = f"{math.sqrt(self.scale):.4g}"
        facts = f"rows {number(round(self.nobs))}, R² {self.rsquared:.3f}, residual standard deviation {spread}"
        words = "Standard errors, tests and intervals count noise and sampling, for any errors."
        head = f"Least squares of {self.design.outcome.name} on {self._on}"
        return "\n".join([head, facts, *self._table(alpha, "t"), words])


def _decimals(error: float) -> int:
    """Decimals that leave a standard error three digits: a table's numbers show no more than is known."""
    return max(2 - math.floor(math.log10(error)), 0) if 0 < error < math.inf else 6


def _finite(interval: Interval) -> Interval | None:
    return interval if math.isfinite(float(interval.width)) else None


@dataclass(frozen=True)
class SubModel(LinearFit):
    """A regression on some of the columns of a release: it costs nothing more."""

    fitted: Design[LeastSquares]

    @property
    def design(self) -> Design[LeastSquares]:
        return self.fitted

    def __str__(self) -> str:
        return self.summary()


# ---- Coefficients of a release: what the releases of all regressions share, whatever they fit


_FEW = 6


@dataclass(frozen=True)
class CoefficientsRelease(Release, Coefficients[F]):
    """Noisy moments, and the coefficients that follow from them."""

    @abstractmethod
    def _fitted(self, on: Sequence[str]) -> Design[F]:
        """The fit on some of the columns."""

    @abstractmethod
    def fit_facts(self) -> Facts:
        """The facts that tell how well the fit describes the outcome."""

    @property
    def on(self) -> tuple[str, ...]:
        """The columns of the regression."""
        return tuple(cast(Any, self.statistic).on)

    @property
    def _rows_per_unit(self) -> int:
        """All rows of a unit may move together, in whatever cells they are."""
        sides = self.neighbours.sides
        return max(1, round(self.sensitivity.require_l1() / sides))

    @cached_property
    def design(self) -> Design[F]:
        return self._fitted(self.on)

    def _fitted_on(self, on: Sequence[str]) -> Design[F]:
        """The fit on columns that a user named."""
        for column in on:
            if column not in self.on or on.count(column) > 1:
                raise InvalidParameter(
                    "on", list(on), f"must be some of {list(self.on)}, each once", "Check the names."
                )
        return self._fitted(on)

    @property
    def estimate(self) -> NDArray[np.float64]:
        """The coefficients, the constant first."""
        return np.array(list(self.params.values()))

    def noise_interval(self, level: float = 0.95) -> Interval:
        """Intervals for the coefficients in the data; privacy noise only."""
        return _stacked(self.noise_intervals(1 - level), level)

    def population_interval(self, level: float = 0.95) -> Interval:
        """Intervals for the coefficients in the population: noise and sampling together."""
        return _stacked(self.intervals(1 - level), level)

    def facts(self) -> Facts:
        """Every coefficient with its intervals, then how it was protected."""
        lines = [(one.label, _in_words(one)) for one in self.coefficient_readings()]
        lines.append(("intervals", BOTH_INTERVALS))
        fit = [*self.fit_facts(), ("rows", number(round(self.nobs)))]
        return [*lines, *fit, *self.protection_facts()]

    def verdict(self) -> Mapping[str, Any]:
        """The verdict on any relation between columns and outcome, by the joint test of all columns."""
        pvalue = self.wald_test().pvalue
        return {"test": "no relation", "pvalue": pvalue, "said": [self._together(pvalue), self._each()]}

    def _together(self, pvalue: float) -> str:
        *others, last = self.on
        columns = f"{', '.join(others)} and {last}" if others else last
        related = f"{columns} {'go' if others else 'goes'} with {self.design.outcome.column}"
        evidence = "evidence" if pvalue <= 0.05 else "no evidence"
        fit = "; ".join(f"{name} {value}" for name, value in self.fit_facts()[:1])
        shown = f"{pvalue_equation(pvalue)}; {fit}; {round(self.nobs):,} rows"
        return f"There is {evidence} that {related} ({shown})."

    def _each(self) -> str:
        """Every coefficient but the constant in words, or which of many differ from 0."""
        slopes = self.coefficient_readings()[1:]
        if len(slopes) > _FEW:
            found = [one.label for one in slopes if one.pvalue is not None and one.pvalue <= 0.05]
            names = f": {', '.join(found)}" if found else ""
            return f"{len(found)} of {len(slopes)} coefficients differ from 0 at the 5 % level{names}."
        told = []
        for one in slopes:
            estimate, _, interval = reading_words(one.to_dict())
            shown = f"{estimate} ({interval}; {pvalue_equation(one.pvalue or 0.0)})"
            told.append(f"{one.label} {shown}" if one.population is not None else f"{one.label}: nothing can be said")
        return f"Coefficients, with population intervals: {'; '.join(told)}."

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """Every coefficient, with both intervals."""
        return self.coefficient_readings()


def _in_words(reading: Reading) -> str:
    """A coefficient with its intervals, or that nothing can be said of it."""
    if reading.population is None:
        return f"{number(reading.estimate)} (nothing can be said)"
    return reading_line(reading.to_dict())


def _stacked(intervals: Mapping[str, Interval], level: float) -> Interval:
    low, high = (np.array([getattr(one, end) for one in intervals.values()]) for end in ("low", "high"))
    return Interval(low, high, level)


# ---- Coefficients question: what the questions of all regressions share, whatever they fit


R = TypeVar("R", bound=CoefficientsRelease[Any])


class ExpectedError(NamedTuple):
    """Standard errors that a plan expects of a coefficient, from noise and from sampling."""

    name: str
    noise: float
    sampling: float

    @property
    def both(self) -> float:
        """Noise and sampling together."""
        return math.hypot(self.noise, self.sampling)

    def words(self) -> str:
        """For readers of the plan."""
        return (
            f"{self.name}: standard error {self.both:.3g} ({self.noise:.3g} noise, {self.sampling:.3g} sampling); "
            f"a 5 % test detects {DETECTED * self.both:.3g} with 80 % power"
        )


@dataclass(frozen=True)
class CoefficientsQuestion(MeasuredQuestion[R]):
    """A question about the relation of an outcome to other columns."""

    forms: ClassVar[Mapping[str, Form]] = {"column": COLUMN, "on": COLUMNS, "expected_rows": WHOLE}
    schema: Schema
    column: str
    on: str | Sequence[str]
    _: KW_ONLY
    guarantee: Guarantee = UNSAID
    contribution: Contribution | None = None
    expected_rows: int | None = None

    def columns_read(self) -> tuple[str, ...]:
        return (self.column, *column_names(self.on, "on"))

    def _predictors(self) -> tuple[str, ...]:
        """The columns beside the outcome; refuses none, and the outcome itself."""
        on = column_names(self.on, "on")
        if not on or self.column in on:
            raise InvalidParameter("on", list(on), "must name other columns, at least one", 'Pass on=["age", "sex"].')
        return on

    @abstractmethod
    def _expected_errors(self, found: Measurement) -> Iterator[ExpectedError]:
        """The errors that a plan states of every coefficient but the constant, for unrelated columns spread evenly."""

    def plan(self, ledger: Ledger | None = None) -> Plan:
        first = next(iter(self._expected_errors(self.measurement)))
        return replace(super().plan(ledger), smallest_effect=DETECTED * first.both)

    def _notes(self, found: Measurement) -> tuple[str, ...]:
        return (*super()._notes(found), *(one.words() for one in self._expected_errors(found)))
