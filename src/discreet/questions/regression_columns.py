"""Regression columns: which columns a regression is of, and its terms as linear functions of a row."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from importlib import import_module
from typing import Any

import numpy as np

from discreet.core.columns import Label
from discreet.core.errors import InvalidParameter
from discreet.inference.linear_moments import Linear
from discreet.questions.linear_fit import CONSTANT, Term

__all__ = ["GUESSED_MEAN", "GUESSED_SLOPE", "NUMBER_SPREAD", "RegressionColumns"]

NUMBER_SPREAD = 12**-0.5
"""What a plan expects: the standard deviation of a number, as a share of the width of its bounds."""
GUESSED_MEAN, GUESSED_SLOPE = 0.3, 0.2
"""What noise is spread for: how far the mean of a number between −1 and 1 is from 0, and how steep the outcome is in
it. Other data has the same guarantee, and somewhat more noise than a guess of its own would give."""


@dataclass(frozen=True, kw_only=True)
class RegressionColumns(ABC):
    """The columns of a regression.

    Parameters
    ----------
    columns
        Names of the numbers, in the order of their bounds.
    labels
        Public labels of the other columns; the first one is the reference.
    outcome
        The column that is described: a number, or one of two labels, of which the second counts as 1.
    on
        The columns of the regression, in the order in which its coefficients are printed.
    two_values
        The numbers that have but two values, which are their bounds.
    """

    bounds: tuple[tuple[float, float], ...]
    columns: tuple[str, ...]
    labels: Mapping[str, Sequence[Label]] = field(default_factory=dict)
    outcome: str
    on: Sequence[str]
    two_values: Sequence[str] = ()

    @property
    def two_valued(self) -> tuple[bool, ...]:
        """For every number, whether it has but two values."""
        return tuple(name in self.two_values for name in self.columns)

    @property
    def title(self) -> str:
        return "regression"

    @classmethod
    def release_type(cls) -> type[Any]:
        """Releases need fits, and fits these columns; so the name is looked up."""
        found: type[Any] = import_module("discreet.questions.regression_release").RegressionRelease
        return found

    def settle(self, numbers: int) -> None:
        """Check the names, and make plain tuples of them."""
        given: Any = self.labels
        pairs = given.items() if isinstance(given, Mapping) else given  # as stored: a list of pairs keeps its order
        object.__setattr__(self, "labels", {name: tuple(labels) for name, labels in pairs})
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "on", tuple(self.on))
        object.__setattr__(self, "two_values", tuple(self.two_values))
        named = sorted((*self.columns, *self.labels))
        if len(self.columns) != numbers or sorted((self.outcome, *self.on)) != named:
            raise InvalidParameter(
                "columns", self.columns, f"must be {numbers} names, the outcome's and those of `on`",
                "Name each column once.",
            )  # fmt: skip

    def named(self) -> dict[str, Any]:
        """The names as JSON-ready data."""
        labels = [[name, list(each)] for name, each in self.labels.items()]
        named = {"columns": list(self.columns), "labels": labels, "outcome": self.outcome, "on": list(self.on)}
        return {**named, "two_values": list(self.two_values)}

    @property
    def cells(self) -> int:
        """Combinations of labels."""
        return math.prod(len(labels) for labels in self.labels.values())

    def linear(self, term: Term) -> Linear:
        """A term as a function of a row."""
        constants, slopes = np.zeros(self.cells), np.zeros(len(self.columns))
        if term.column in self.columns:
            slopes[self.columns.index(term.column)] = 1.0
        elif term.column:
            masks = [
                np.array(each) == term.label if name == term.column else np.ones(len(each), dtype=bool)
                for name, each in self.labels.items()
            ]
            constants = np.ravel(reduce(np.multiply.outer, masks)).astype(float)
        else:
            constants += 1.0
        return Linear(constants, slopes)

    def _terms(self, column: str) -> list[Term]:
        """The term of a number, or those of all labels but the first."""
        if column in self.columns:
            low, high = self.bounds[self.columns.index(column)]
            return [Term(column, column, low=low, width=high - low)]
        return [Term(f"{column}[{label}]", column, label) for label in self.labels[column][1:]]

    @property
    def explained(self) -> Term:
        """The outcome."""
        return self._terms(self.outcome)[0]

    def terms(self, on: Sequence[str]) -> tuple[Term, ...]:
        """The terms of a regression on some of the columns."""
        return (Term(CONSTANT, ""), *(term for column in on for term in self._terms(column)))

    def spread(self, term: Term) -> float:
        """What a plan expects of a term's standard deviation between its bounds."""
        if term.label is not None:
            share = 1 / len(self.labels[term.column])
            return math.sqrt(share * (1 - share))
        return 0.5 if self.two_valued[self.columns.index(term.column)] else NUMBER_SPREAD
