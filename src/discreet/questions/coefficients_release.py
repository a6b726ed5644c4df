"""Coefficients of a release: what the releases of all regressions share, whatever they fit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.answers import Answer
from discreet.core.errors import InvalidParameter
from discreet.display import Facts, number
from discreet.interval import Interval
from discreet.publish.readings import Reading
from discreet.publish.wording import BOTH_INTERVALS, pvalue_equation, reading_line, reading_words
from discreet.questions.linear_fit import Coefficients, Design, F

__all__ = ["CoefficientsRelease"]

_FEW = 6


@dataclass(frozen=True)
class CoefficientsRelease(Answer, Coefficients[F]):
    """Noisy moments, and the coefficients that follow from them."""

    @abstractmethod
    def _fitted(self, on: Sequence[str]) -> Design[F]:
        """The fit on some of the columns."""

    @abstractmethod
    def fit_facts(self) -> Facts:
        """How well the fit describes the outcome."""

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

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """Intervals for the coefficients in the data; privacy noise only."""
        return _stacked(self.noise_int(1 - level), level)

    def population_interval(self, level: float = 0.95) -> Interval:
        """Intervals for the coefficients in the population: noise and sampling together."""
        return _stacked(self.conf_int(1 - level), level)

    def facts(self) -> Facts:
        """Every coefficient with its intervals, then how it was protected."""
        lines = [(one.label, _in_words(one)) for one in self.coefficient_readings()]
        lines.append(("intervals", BOTH_INTERVALS))
        fit = [*self.fit_facts(), ("rows", number(round(self.nobs)))]
        return [*lines, *fit, *self.protection_facts()]

    def verdict(self) -> Mapping[str, Any]:
        """Whether any column goes with the outcome, by the joint test of all of them."""
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
