"""Logistic reading: what is read from a logistic regression, under the names of statsmodels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy  # whose submodules load when first used

from discreet.core import requirements
from discreet.display import Facts, number
from discreet.inference.logistic_fit import LogisticFit
from discreet.interval import Interval
from discreet.questions.linear_fit import Coefficients, Design, LinearEstimate
from discreet.result import Result

__all__ = ["LogisticReading", "LogisticSubModel", "PredictedProbability"]


@dataclass(frozen=True)
class PredictedProbability(Result):
    """The probability of the outcome for given values.

    Attributes
    ----------
    estimate
        The probability.
    log_odds
        The same as log-odds, with their standard error.
    """

    estimate: float
    log_odds: LinearEstimate = field(repr=False)

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population: noise and sampling together.

        Raises
        ------
        NoPopulationInterval
            Where the noise leaves nothing to conclude from.
        """
        found = self.log_odds.confidence_interval(level)
        return Interval(float(scipy.special.expit(found.low)), float(scipy.special.expit(found.high)), level)

    def heading(self) -> str:
        return "Predicted probability"

    def facts(self) -> Facts:
        told = self.to_dict()
        low, high = (told["population_interval"][end] for end in ("low", "high"))
        return [("estimate", f"{self.estimate:.3f}"), ("population interval, 95 %", f"{low:.3f} to {high:.3f}")]

    def to_dict(self) -> dict[str, Any]:
        """Probability and 95 % interval as JSON-ready data."""
        told = self.log_odds.to_dict()["population_interval"]
        ends = {end: float(scipy.special.expit(value)) for end, value in told.items()}
        return {"estimate": self.estimate, "population_interval": ends}


class LogisticReading(Coefficients[LogisticFit]):
    """Coefficients of a logistic regression: changes of the log-odds of an outcome per unit of a column.

    Where log-odds are linear in the columns, the intervals are for those coefficients. Where they are not, they are for
    the coefficients at which the same score has mean zero: within a few per cent of a row's weight those of maximum
    likelihood.
    """

    @property
    def odds_ratios(self) -> dict[str, float]:
        """By what the odds are multiplied per unit of each column."""
        return {name: float(np.exp(value)) for name, value in self.params.items()}

    def odds_ratio_int(self, alpha: float = 0.05) -> dict[str, Interval]:
        """Intervals of the odds ratios at level 1 − alpha; from 0 to ∞ where nothing can be said."""
        with np.errstate(over="ignore"):
            return {
                name: Interval(float(np.exp(ends.low)), float(np.exp(ends.high)), ends.level)
                for name, ends in self.conf_int(alpha).items()
            }

    @property
    def prsquared(self) -> float:
        """McFadden's R², from 0 to 1: by how much the columns reduce the deviance."""
        return self.design.sampled.likelihood_gain

    def predict(self, values: Mapping[str, Any]) -> PredictedProbability:
        """The probability of the outcome for rows with these values, with its interval."""
        along = self.design.along(requirements.instance("values", values, Mapping, '{"age": 40, "sex": "m"}'))
        fit = self.design.sampled
        log_odds = LinearEstimate(float(along @ fit.coefficients), fit.standard_error(along), self.design, along)
        return PredictedProbability(float(scipy.special.expit(log_odds.estimate)), log_odds)

    def summary(self, alpha: float = 0.05) -> str:
        """The regression as a table."""
        outcome = self.design.outcome
        facts = f"rows {number(round(self.nobs))}, pseudo R² {self.prsquared:.3f}"
        words = "Log-odds; standard errors, tests and intervals count noise and sampling."
        head = f"Logistic regression of {outcome.column} = {outcome.label} on {self._on}"
        return "\n".join([head, facts, *self._table(alpha, "z"), words])


@dataclass(frozen=True)
class LogisticSubModel(LogisticReading):
    """A logistic regression on some of the columns of a release: it costs nothing more."""

    fitted: Design[LogisticFit]

    @property
    def design(self) -> Design[LogisticFit]:
        return self.fitted

    def __str__(self) -> str:
        return self.summary()
