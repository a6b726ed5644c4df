"""Fit: what is read from a regression, in the units of the data and under the names of statsmodels."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, NoPopulationInterval
from discreet.core.schema import Bounds, Categories, Contribution, Design
from discreet.inference.least_squares import JointTest, LeastSquares
from discreet.inference.logistic import LogisticFit
from discreet.inference.moments import UNSEEN
from discreet.questions import form
from discreet.questions.design import likely_weights, no_design_for, weights_words
from discreet.questions.question import MeasuredQuestion, Measurement, column_names
from discreet.questions.regression.formula import Parts, RegressionFormula
from discreet.results.display import Facts, Interval, Result, expected, number
from discreet.results.frames import Reading, interval_frame
from discreet.results.ledger import Ledger
from discreet.results.plan import DETECTED, Plan
from discreet.results.printed import Printed, told_numbers
from discreet.results.release import Release
from discreet.results.wording import pvalue_equation, reading_line, reading_words

if TYPE_CHECKING:
    import pandas as pd


Array = NDArray[np.float64]
CONSTANT = "const"
_LOW, _LONG = 0.1, 10.0
"""A number whose mean is so near its lower bound, within bounds so long, is spread more evenly by a logarithm."""


Fit = LeastSquares | LogisticFit
"""A fit between the bounds, linear in its terms."""


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
    parts
        Of an interaction, the columns that it multiplies, with labels where their indicators count.
    """

    name: str
    column: str
    label: Any = None
    low: float = 0.0
    width: float = 1.0
    parts: Parts = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose values decide it."""
        return tuple(name for name, _ in self.parts) or ((self.column,) if self.column else ())

    @property
    def together(self) -> str:
        """The name that it shares with the other coefficients of its columns."""
        return ":".join(self.columns)

    def at(self, values: Mapping[str, Any]) -> float:
        """The term for a row with these values, as the fit counts it."""
        if not self.column:
            return 1.0
        if self.label is not None:
            return float(values[self.column] == self.label)
        value = 1.0
        for name, label in self.parts or ((self.column, None),):
            value *= requirements.finite(name, values[name]) if label is None else values[name] == label
        return (value - self.low) / self.width


@dataclass(frozen=True)
class FittedModel:
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
    sampled: Fit
    observed: Fit

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

    def doubts(self, places: Sequence[int]) -> list[str]:
        """What keeps these coefficients of least squares from being known, and what to declare or to leave out."""
        if not isinstance(self.sampled, LeastSquares):
            return []
        blamed, found = self.sampled.blamed(), []
        alike = [self.terms[place].name for place in places if blamed[place] == "along"]
        if alike:
            *others, last = alike
            together = f"{', '.join(others)} and {last} vary" if others else f"{last} varies"
            found.append(f"Noise hides how much {together} beside other columns: leave one of them out.")
        narrow = [place for place, told in enumerate(blamed) if told == "narrow"]
        # A term that varies enough for itself suffers from those that do not.
        own = narrow if any(not blamed[place] for place in places) else [one for one in narrow if one in places]
        return [*found, *(self._narrow(self.terms[place], float(self.sampled.means[place])) for place in own)]

    def _narrow(self, term: Coefficient, mean: float) -> str:
        """What to do about a term of which noise hides how much it varies, from its noisy mean between its bounds."""
        if term.label is not None:
            return f"Noise hides how many rows have {term.name}: merge rare labels."
        fixes = ["declare bounds closer to its values"]
        if mean < _LOW and term.low >= 0 and term.width >= _LONG and not term.parts:
            fixes.append(f"take log1p({term.name}) in a formula")
        fixes.append("leave it out" if len(self.terms) > 2 else "ask for a slope by pairs")
        ends = f"{number(term.low)} to {number(term.low + term.width)}"
        hidden = f"Noise hides how much {term.name} varies within its bounds, {ends}"
        return f"{hidden}: {', '.join(fixes[:-1])}, or {fixes[-1]}."

    def along(self, values: Mapping[str, Any]) -> Array:
        """The combination of coefficients that predicts a row."""
        known = {name for term in self.terms for name in term.columns}
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
        The standard error counts noise and sampling. A predicted probability has none: its log-odds have.
    log_odds
        Of a predicted probability, the log-odds that it is read from.
    """

    estimate: float
    standard_error: float | None
    _design: FittedModel = field(repr=False)
    _along: Array = field(repr=False)
    log_odds: LinearEstimate | None = field(default=None, repr=False)

    def population_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population: noise and sampling together.

        Raises
        ------
        NoPopulationInterval
            Where the noise leaves nothing to conclude from.
        """
        read = self if self.log_odds is None else self.log_odds
        low, high = read.ends(self._design.sampled, level)
        if not math.isfinite(high - low):
            rule = "leaves so much noise that nothing can be said about this number"
            told = self._design.doubts(np.flatnonzero(read._along).tolist())
            fix = " ".join(told) or "Ask with fewer columns, tighter bounds, more rows or a larger budget."
            raise NoPopulationInterval("guarantee", number(read.estimate), rule, fix)
        return Interval(*self.ends(self._design.sampled, level), level)

    def heading(self) -> str:
        return "Estimate from a regression" if self.log_odds is None else "Predicted probability"

    def facts(self) -> Facts:
        low, high = self.ends(self._design.sampled, 0.95)
        if self.standard_error is None:
            return [("estimate", f"{self.estimate:.3f}"), ("population interval, 95 %", f"{low:.3f} to {high:.3f}")]
        return [
            ("estimate", f"{self.estimate:.4g}"),
            ("standard error", expected(self.standard_error)),
            ("population interval, 95 %", f"{low:.4g} to {high:.4g}"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Estimate, standard error and 95 % interval as JSON-ready data."""
        ends = dict(zip(("low", "high"), self.ends(self._design.sampled, 0.95), strict=True))
        error = {} if self.standard_error is None else {"standard_error": self.standard_error}
        return {"estimate": self.estimate, **error, "population_interval": ends}

    def ends(self, fit: Fit, level: float) -> tuple[float, float]:
        """The ends of the interval that a fit gives, infinite where nothing can be said."""
        if self.log_odds is not None:
            low, high = (float(scipy.special.expit(end)) for end in self.log_odds.ends(fit, level))
            return low, high
        first, last = fit.interval(self._along, requirements.level(level))
        shift = self.estimate - float(self._along @ fit.coefficients)
        return float(first) + shift, float(last) + shift

    def pvalue(self, value: float = 0.0) -> float:
        """Of the hypothesis that it has this value in the population."""
        if self.log_odds is not None:
            return self.log_odds.pvalue(float(scipy.special.logit(requirements.probability("value", value))))
        shift = self.estimate - float(self._along @ self._design.sampled.coefficients)
        return float(self._design.sampled.pvalue(self._along, requirements.finite("value", value) - shift))


_FEW = 6


@dataclass(frozen=True)
class RegressionRelease(Release):
    """Noisy moments, and the regressions that follow from them: on all columns, or on any of them (`model`).

    The names are those of statsmodels. Intervals, standard errors and p-values count noise and sampling.

    Least squares: the coefficients are those of the best linear description in the population of clipped values, for
    errors of any distribution. Logistic: where log-odds are linear in the columns, the intervals are for those
    coefficients. Where they are not, they are for the coefficients at which the same score has mean zero: within a few
    per cent of a row's weight those of maximum likelihood.
    """

    @property
    def on(self) -> tuple[str, ...]:
        """The columns of the regression."""
        return tuple(self.public.get("model", cast(Any, self.statistic).on))

    @cached_property
    def design(self) -> FittedModel:
        """The fit and its units."""
        found: FittedModel = cast(Any, self.statistic).design(self)
        return found

    def model(self, *on: str) -> Self:
        """The regression on some of the columns, from the same release: it costs nothing more.

        Its intervals rest on bounds where the release took several steps and the model was not named among ``models``.
        """
        named = {one.column: one.together for one in self.design.terms}
        chosen = [[name for name in self.on if column in (name, named[name])] for column in on]
        found = [name for names in chosen for name in names]
        if not all(chosen) or len(set(found)) < len(found):
            raise InvalidParameter("on", list(on), f"must be some of {list(self.on)}, each once", "Check the names.")
        return replace(self, public={**self.public, "model": found})

    def _along(self, along: Array, shift: float = 0.0) -> LinearEstimate:
        """A combination of coefficients between the bounds, moved by ``shift``."""
        fit = self.design.sampled
        estimate = float(along @ fit.coefficients + shift)
        return LinearEstimate(estimate, float(fit.standard_error(along)), self.design, along)

    @cached_property
    def coefficients(self) -> dict[str, LinearEstimate]:
        """Every coefficient by name, with its own intervals and tests."""
        each = zip(self.design.terms, self.design.units, self.design.shifts.tolist(), strict=True)
        return {term.name: self._along(along, shift) for term, along, shift in each}

    @property
    def params(self) -> dict[str, float]:
        """The coefficients."""
        return {name: one.estimate for name, one in self.coefficients.items()}

    @property
    def bse(self) -> dict[str, float]:
        """Their standard errors: noise and sampling together, whatever the errors' variance."""
        return {name: cast(float, one.standard_error) for name, one in self.coefficients.items()}

    @property
    def tvalues(self) -> dict[str, float]:
        """Coefficients over their standard errors."""
        return {name: self.params[name] / error for name, error in self.bse.items()}

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
        return {name: Interval(*one.ends(self.design.sampled, level), level) for name, one in self.coefficients.items()}

    def noise_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Noise intervals at level 1 − alpha, for the coefficients in the data: as `conf_int`."""
        return interval_frame(self.noise_intervals(alpha))

    def noise_intervals(self, alpha: float = 0.05) -> dict[str, Interval]:
        """Intervals for the coefficients in the data, which the noise alone keeps from being known."""
        level = requirements.level(1 - alpha)
        return {
            name: Interval(*one.ends(self.design.observed, level), level) for name, one in self.coefficients.items()
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
        return self._along(each @ self.design.units, float(each @ self.design.shifts))

    def wald_test(self, *columns: str) -> JointTest:
        """Test that the coefficients of some columns, by default of all, are 0 together."""
        terms = [(place, term) for place, term in enumerate(self.design.terms) if term.column]
        known = list(dict.fromkeys(term.together for _, term in terms))
        used = columns or known
        found = {column: [place for place, one in terms if column in (one.together, one.column)] for column in used}
        for column, places in found.items():
            if not places:
                raise InvalidParameter("columns", column, f"must be one of {known}", "Check the spelling.")
        chosen = sorted({place for places in found.values() for place in places})
        return self.design.sampled.wald(np.eye(len(self.design.terms))[chosen], np.zeros(len(chosen)))

    def _table(self, alpha: float) -> list[tuple[str, ...]]:
        """The coefficients as lines of a table."""
        intervals = self.intervals(alpha)
        pvalues = self.pvalues
        letter = "z" if self._logistic else "t"
        head = ("", "coef", "std err", letter, f"P>|{letter}|", f"[{alpha / 2:g}", f"{1 - alpha / 2:g}]")
        lines: list[tuple[str, ...]] = [head]
        for name, spread in self.bse.items():
            ends = intervals[name]
            numbers = (self.params[name], spread, float(ends.low), float(ends.high))
            estimate, error, low, high = (f"{value:.{_decimals(spread)}f}" for value in numbers)
            told = (low, high) if math.isfinite(float(ends.width)) else ("nothing can", "be said")
            lines.append((name, estimate, error, f"{self.tvalues[name]:.2f}", f"{pvalues[name]:.3f}", *told))
        return lines

    @cached_property
    def effective_respondents(self) -> float | None:
        """Kish's effective sample size, (Σw)²/Σw²; None where rows have no weights."""
        of = cast(Any, self.statistic)
        return None if of.weight is None else float(of.effective_rows(self))

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """Every coefficient with both intervals; then, under a design, what its weights are like."""
        effective = self.effective_respondents
        if effective is None:
            return self._coefficient_readings()
        told = {
            "respondents": round(self.nobs), "effective respondents": effective,
            "design effect": max(self.nobs, 1.0) / effective,
        }  # fmt: skip
        return [*self._coefficient_readings(), *(Reading("", one, measure=name) for name, one in told.items())]

    def _coefficient_readings(self) -> list[Reading]:
        """Of every coefficient; None stands for an interval without an end."""
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
        unsaid = {"estimate": "nothing known", "noise": None}
        read = [one for one in self.told_readings() if one["measure"] == "coefficient"]
        told = told_numbers({**one, **(unsaid if one["population"] is None else {})} for one in read)
        return [*told, self._fit_fact(), ("rows", self._rows_words()), *self.protection_facts()]

    def _rows_words(self, noun: str = "") -> str:
        """The number of rows, and under a design that of effective ones."""
        effective = self.effective_respondents
        return f"{round(self.nobs):,}{noun}{'' if effective is None else f' ({effective:,.0f} effective)'}"

    def verdict(self) -> Mapping[str, Any]:
        """The verdict on any relation between columns and outcome, by the joint test of all columns."""
        pvalue = self.wald_test().pvalue
        return {"test": "no relation", "pvalue": pvalue, "said": [self._together(pvalue), self._each()]}

    def _together(self, pvalue: float) -> str:
        *others, last = self.on
        columns = f"{', '.join(others)} and {last}" if others else last
        related = f"{columns} {'go' if others else 'goes'} with {self.design.outcome.column}"
        evidence = "evidence" if pvalue <= 0.05 else "no evidence"
        shown = f"{pvalue_equation(pvalue)}; {' '.join(self._fit_fact())}; {self._rows_words(' rows')}"
        return f"There is {evidence} that {related} ({shown})."

    def _each(self) -> str:
        """Every coefficient but the constant in words, or which of many differ from 0."""
        slopes = self._coefficient_readings()[1:]
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

    # ---- what least squares and logistic regressions do not share ----------------------------------------------------

    @property
    def _logistic(self) -> bool:
        return isinstance(self.design.sampled, LogisticFit)

    @property
    def _squares(self) -> LeastSquares:
        fit = self.design.sampled
        if not isinstance(fit, LeastSquares):
            raise AttributeError("a logistic regression has no least squares. Read prsquared, or ask for a regression.")
        return fit

    @property
    def rsquared(self) -> float:
        """The share of the outcome's variance that least squares describe, from 0 to 1."""
        return self._squares.r_squared

    @property
    def scale(self) -> float:
        """Variance of what least squares leave."""
        return self._squares.residual_variance * self.design.outcome.width**2

    @property
    def odds_ratios(self) -> dict[str, float]:
        """Of a logistic regression, by what the odds are multiplied per unit of each column."""
        self._likelihood  # noqa: B018  (refuses least squares)
        return {name: float(np.exp(value)) for name, value in self.params.items()}

    def odds_ratio_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Population intervals of the odds ratios, as `conf_int`; from 0 to ∞ where nothing can be said."""
        self._likelihood  # noqa: B018  (refuses least squares)
        with np.errstate(over="ignore"):
            return np.exp(self.conf_int(alpha))

    @property
    def _likelihood(self) -> LogisticFit:
        fit = self.design.sampled
        if not isinstance(fit, LogisticFit):
            raise AttributeError("least squares have no odds. Read rsquared, or ask for a logistic regression.")
        return fit

    @property
    def prsquared(self) -> float:
        """McFadden's R² of a logistic regression, from 0 to 1: by how much the columns reduce the deviance."""
        return self._likelihood.likelihood_gain

    def predict(self, values: Mapping[str, Any]) -> LinearEstimate:
        """The mean outcome, or its probability, for rows with these values, with its interval."""
        along = self.design.along(requirements.instance("values", values, Mapping, '{"age": 40, "sex": "m"}'))
        if not self._logistic:
            return self._along(along, self.design.outcome.low)
        found = self._along(along)
        return LinearEstimate(float(scipy.special.expit(found.estimate)), None, self.design, along, found)

    def heading(self) -> str:
        kind = "Logistic regression" if self._logistic else "Regression"
        return str(self.words.get("heading", f"{kind} of {self.design.outcome.name}"))

    def _fit_fact(self) -> tuple[str, str]:
        """How well the fit describes the outcome."""
        return ("pseudo R²", f"{self.prsquared:.3f}") if self._logistic else ("R²", f"{self.rsquared:.3f}")

    def summary(self, alpha: float = 0.05) -> Printed:
        """The regression as a table: text, which a notebook shows as a table."""
        outcome, on = self.design.outcome, ", ".join(self.on)
        facts = f"{self._rows_words(' rows')}, {' '.join(self._fit_fact())}"
        if self._logistic:
            head = f"Logistic regression of {outcome.column} = {outcome.label} on {on}"
            words = "Log-odds; standard errors, tests and intervals count noise and sampling."
        else:
            head = f"Least squares of {outcome.name} on {on}"
            facts += f", residual standard deviation {expected(math.sqrt(self.scale))}"
            words = "Standard errors, tests and intervals count noise and sampling, for any errors."
            ends = self.intervals(alpha).values()
            open_ = [place for place, one in enumerate(ends) if place and not math.isfinite(float(one.width))]
            words = " ".join([words, *self.design.doubts(open_)])
        return Printed.of(head, self._table(alpha), facts, note=words)

    def to_markdown(self) -> str:
        """The table of `summary` as markdown."""
        return self.summary().to_markdown()

    def to_latex(self) -> str:
        """The table of `summary` for LaTeX, with the package booktabs."""
        return self.summary().to_latex()


def _decimals(error: float) -> int:
    """Decimals that leave a standard error three digits: a table's numbers show no more than is known."""
    return max(2 - math.floor(math.log10(error)), 0) if 0 < error < math.inf else 6


def _finite(interval: Interval) -> Interval | None:
    return interval if math.isfinite(float(interval.width)) else None


def _in_words(reading: Reading) -> str:
    """A coefficient with its intervals, or that nothing can be said of it."""
    if reading.population is None:
        return f"{number(reading.estimate)} (nothing can be said)"
    return reading_line(reading.to_dict())


def _stacked(intervals: Mapping[str, Interval], level: float) -> Interval:
    low, high = (np.array([getattr(one, end) for one in intervals.values()]) for end in ("low", "high"))
    return Interval(low, high, level)


# ---- Coefficients question: what the questions of all regressions share, whatever they fit


_MOST_NUMBERS = 4
_FOUND, _REJECTED = 0.8, 0.975
_STEPS = 60


@dataclass(frozen=True)
class ExpectedError:
    """What a plan expects of a coefficient.

    Attributes
    ----------
    name
        Of the coefficient.
    noise, sampling
        Standard errors.
    caution
        What a test adds to the variance for the noise in what it knows of the sampling error.
    pull
        How far one outcome moves the coefficient, from the lower end of its bounds to the upper one, at most.
    """

    name: str
    noise: float
    sampling: float
    caution: float = 0.0
    pull: float = 0.0

    @property
    def smallest_effect(self) -> float:
        """What a 5 % test finds with 80 % power, where outcomes are in the middle of their bounds.

        The test has the variance that it knows, more for outcomes that a sample may lack the larger the effect is
        (`LeastSquares`); the estimate has that of noise and sampling.
        """
        known = self.noise**2 + self.sampling**2
        z, power = (NormalDist().inv_cdf(chance) for chance in (_REJECTED, _FOUND))
        effect = DETECTED * math.sqrt(known)
        for _ in range(_STEPS):  # grows towards the solution, ever more slowly
            unseen = min(effect * self.pull, UNSEEN * self.pull**2) / 4
            effect = z * math.sqrt(known + self.caution + unseen) + power * math.sqrt(known)
        return effect


@dataclass(frozen=True)
class CoefficientsQuestion(MeasuredQuestion[RegressionRelease]):
    """A question about the relation of an outcome to other columns."""

    detects: ClassVar[str] = "a coefficient of the first column"
    under_design: ClassVar[bool] = True
    forms: ClassVar[form.Forms] = {
        "column": form.COLUMN,
        "on": form.COLUMNS,
        "formula": form.FORMULA,
        "expected_rows": form.WHOLE,
        "beyond": form.FLAG,
    }
    column: str = ""
    on: str | Sequence[str] = ()
    _: KW_ONLY
    formula: str | None = None
    contribution: Contribution | None = None
    expected_rows: int | None = None
    beyond: bool | None = None
    made: Mapping[str, Parts] = field(default_factory=dict, init=False, repr=False, compare=False)
    computed: Sequence[str] = field(default=(), init=False, repr=False, compare=False)

    def _validate(self) -> None:
        given: Any = self.column  # which may be anything but a name, and is refused as such
        if self.formula is not None:
            self._settle(self.formula)
        elif isinstance(given, str) and not given:
            fix = 'Pass column="income" and on=["age", "sex"], or formula="income ~ age + sex".'
            raise InvalidParameter("column", None, "is missing", fix)
        if self.schema.design is not None:
            self._check_design(self.schema.design)
        super()._validate()

    def _check_design(self, design: Design) -> None:
        """Refuse what weighted rows do not tell."""
        no_design_for(self, "contribution")
        if design.weight in (*column_names(self.column, "column"), *column_names(self.on, "on")):
            raise InvalidParameter("column", design.weight, "is what the design is made of", "Ask about other columns.")
        if self.schema.unit.column is not None:
            rule = "leaves sums over the rows of a cluster, whose squares no sum over rows tells"
            fix = "Declare rows as units where one of each cluster was asked, or compare means by groups."
            raise InvalidParameter("design.cluster", self.schema.unit.column, rule, fix)
        if design.population and (design.strata == self.column or self.schema.where is not None):
            rule = "leaves no population of a stratum that is known: it is the outcome, or a filter takes rows away"
            raise InvalidParameter("design.population", dict(design.population), rule, "Leave population out.")

    def _strata(self, on: Sequence[str]) -> list[str]:
        """The column of strata whose populations are public, unless it is among these already."""
        design = self.schema.design
        known = design is not None and design.population and design.strata not in on
        return [str(cast(Design, design).strata)] if known else []

    def _weighing(self) -> dict[str, Any]:
        """What a statistic is told of the weight and of public strata."""
        design = self.schema.design
        if design is None:
            return {}
        if not design.population:
            return {"weight": design.weight}
        people = tuple(design.population[one] for one in self.schema.categories(str(design.strata)).labels)
        return {"weight": design.weight, "strata": design.strata, "population": people}

    def _weight(self) -> dict[str, Bounds]:
        """Under a design the weight, a number from 0 to the trim."""
        design = self.schema.design
        if design is None:
            return {}
        return {design.weight: replace(self.schema.bounds(design.weight), low=0, high=design.weight_high)}

    @property
    def _most_numbers(self) -> int:
        """Numbers of more than two values on which an outcome is regressed in one step; a weight is one of them."""
        return _MOST_NUMBERS - len(self._weight())

    @property
    def _likely(self) -> tuple[float, float]:
        """The mean weight over the largest, and the share of rows that are effective, as a plan takes them to be."""
        if self.schema.design is None:
            return 1.0, 1.0
        heavy, share = likely_weights(self.schema.design)
        return heavy * share / self.schema.design.weight_high, share

    @property
    def _like(self) -> str:
        """The scenario of a plan in words."""
        return ", ".join(filter(None, ["of unrelated columns, spread evenly", weights_words(self.schema.design)]))

    def _settle(self, formula: str) -> None:
        """Read the formula: its columns, and the schema with those that are computed."""
        read = RegressionFormula(formula, self.schema)
        given = (self.column or read.outcome, tuple(self.on) or read.on)
        if given != (read.outcome, read.on):
            raise InvalidParameter(
                "column", self.column, f"is given beside the formula {formula!r}", "Leave column and on out."
            )
        found = {"schema": read.schema, "column": read.outcome, "on": read.on, "made": read.made}
        for name, value in {**found, "computed": tuple(read.computed)}.items():
            object.__setattr__(self, name, value)

    def subject_words(self, words: Mapping[str, str]) -> str | None:
        """The outcome; of two labels the one that counts as yes."""
        told, outcome = super().subject_words(words), self.schema.columns.get(self.column)
        return f"{told} = {outcome.labels[-1]}" if isinstance(outcome, Categories) else told

    def columns_read(self) -> tuple[str, ...]:
        waiting, found = [*column_names(self.column, "column"), *column_names(self.on, "on")], list[str]()
        while waiting:
            name = waiting.pop(0)
            value = self.schema.column(name).value if name in self.computed else None
            if value is not None:  # the data has what it is computed of
                waiting += sorted(value.names())
            elif name not in found:
                found.append(name)
        return tuple(found)

    def _by_cell(self, numbers: int) -> tuple[str, ...]:
        """The interactions of labels and at most so many numbers: linear in every combination of labels."""
        counted = {name: sum(label is None for _, label in parts) for name, parts in self.made.items()}
        return tuple(name for name, count in counted.items() if count <= min(numbers, len(self.made[name]) - 1))

    def _behind(self, on: Sequence[str], by_cell: Sequence[str]) -> tuple[str, ...]:
        """The columns to measure where these interactions are read from what they multiply."""
        inside = [one for name in by_cell for one, _ in self.made[name]]
        return tuple(dict.fromkeys([*(name for name in on if name not in by_cell), *inside]))

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
        planned = super().plan(ledger)
        if self.beside is not None:  # the plan of the question alone, which has it
            return planned
        return replace(planned, smallest_effect=next(iter(self._expected_errors(self.measurement))).smallest_effect)

    def _plan_parts(self, found: Measurement) -> tuple[tuple[str, float, float | None], ...]:
        """Of every coefficient but the constant: the effect counts noise and sampling."""
        errors = list(self._expected_errors(found))
        most = found.error() / errors[0].noise
        return tuple((one.name, most * one.noise, one.smallest_effect) for one in errors)
