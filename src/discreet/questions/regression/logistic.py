"""Logistic regression: how the odds of an outcome go with other columns, from one release of moments.

Public: ``session.logistic_regression("income", ["age", "sex"], guarantee=guarantee)``. Proof:
``docs/proofs/logistic_regression.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from discreet.core.errors import InvalidParameter
from discreet.core.schema import Bounds
from discreet.inference.least_squares import Linear, LinearMoments
from discreet.inference.logistic import LogisticFit
from discreet.inference.noise import NoisyTotals, excess_kurtosis
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.mechanism import Mechanism
from discreet.questions.moments import MOST_PARTS, moments_measurement
from discreet.questions.question import DeclaredColumns, Expected, Forecast, Measurement
from discreet.questions.regression.fit import CoefficientsQuestion, ExpectedError, FittedModel, RegressionRelease
from discreet.questions.regression.moments import RegressionMoments
from discreet.questions.tables.table import table_measurement

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class LogisticMoments(RegressionMoments):
    """Joint moments of numbers by labels and an outcome of two labels, from noisy totals in tensor parts.

    Guarantee
    ---------
    A row is in one combination of labels, and its parts add up to 1. Add/remove: ℓ₁ = ℓ₂ = 1. Replace-one: 2 and √2.

    Parameters
    ----------
    bounds, degrees, columns
        Public bounds, highest powers and names of the numbers; there may be none.
    labels
        Public labels of the other columns, those of the outcome last; the first of each is the reference.
    outcome, on
        The column that is described, and the columns of the regression.

    Examples
    --------
    >>> labels = {"income": ["low", "high"]}
    >>> names = {"columns": ("age",), "labels": labels, "outcome": "income", "on": ("age",)}
    >>> moments = LogisticMoments(bounds=((0, 90),), degrees=(4,), **names)
    >>> moments.size * moments.cells
    10
    """

    name: ClassVar[str] = "logistic_moments"

    def __post_init__(self) -> None:
        super().__post_init__()
        if list(self.labels)[-1:] != [self.outcome] or len(self.labels[self.outcome]) != 2:
            raise InvalidParameter("outcome", self.outcome, "must be the last of `labels`, with two of them", "Check.")

    @property
    def title(self) -> str:
        return "logistic regression"

    def design(self, released: RegressionRelease) -> FittedModel:
        one = self.sensitivity(neighbours=released.neighbours)
        rows = max(1, round(released.sensitivity.require_l1() / one.require_l1()))
        return self.designed(released.on, released.mechanism, released.value, released.public.get("n"), rows)

    def designed(
        self, on: Sequence[str], mechanism: Mechanism, totals: Any, size: int | None, rows: int
    ) -> FittedModel:
        """The fit on some of the columns, from totals with noise and at most so many rows of a unit."""
        law, terms = mechanism.law(0.0), self.terms(on)
        # Terms do not depend on the outcome, which varies fastest among the labels.
        functions = tuple(Linear(one.constants[::2], one.slopes) for one in map(self.linear, terms))
        read = LinearMoments(
            totals=np.ravel(totals), noise=float(np.max(law.variance)), cells=self.cells, degrees=self.degrees
        )
        weights = np.array(
            [np.broadcast_to(one.by_cell, (self.cells, len(self.columns)))[::2, -1] for one in self.in_strata(read)]
        )
        sampled, observed = (
            LogisticFit(
                NoisyTotals(
                    totals=np.ravel(np.asarray(totals, dtype=float)),
                    noise=float(np.max(law.variance)),
                    kurtosis=excess_kurtosis(law),
                    size=size,
                    rows_per_unit=each,
                ),
                self.cells // 2,
                self.degrees,
                functions,
                weights=weights,
            )
            for each in (rows, 0)
        )
        return FittedModel(self.explained, terms, self.labels, sampled, observed)

    def expected_totals(self, rows: float) -> Array:
        """Totals in the scenario of a plan: all labels are equally frequent, and numbers spread evenly."""
        return np.full(self.cells * self.size, rows / (self.cells * self.size))


@dataclass(frozen=True)
class LogisticQuestion(CoefficientsQuestion):
    """Logistic regression of a column of two labels on numbers and other labels.

    Guarantee
    ---------
    That of `LogisticMoments`, for the rows that a unit keeps.

    Parameters
    ----------
    column
        The outcome: a column of two labels, of which the second counts as 1.
    on
        Numbers and columns of labels. The first label of a column is the reference.
    formula
        In the place of both, such as ``"owner ~ age * C(sex)"``.
    expected_rows
        Serves plans only.

    Examples
    --------
    >>> from discreet import Bounds, Categories, Schema
    >>> columns = {"age": Bounds(18, 90, grid=1), "income": Categories(["low", "high"])}
    >>> question = LogisticQuestion(Schema(columns=columns), "income", "age", epsilon=1.0)
    >>> question.measurement.statistic.degrees
    (4,)
    """

    topic: ClassVar[str] = "Relations"
    answers: ClassVar[str] = "How do the odds of one of two labels change with other columns?"
    ask: ClassVar[str] = "logistic_regression"
    also: ClassVar[tuple[str, ...]] = ("logit",)
    heading: ClassVar[str] = "What goes along with {subject}?"
    meaning: ClassVar[str] = "How the odds of {subject} go with other columns, by logistic regression."

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return {"column": columns.with_labels(2, 2), "on": columns.numbers[:1]}

    def _measured(self) -> Measurement:
        if isinstance(self.schema.column(self.column), Bounds) or len(self.schema.categories(self.column).labels) != 2:
            raise InvalidParameter(
                "column", self.column, "must have two labels", 'Declare Categories(["no", "yes"]), or use `regression`.'
            )
        return self._released(self._moments(self._predictors()))

    def _released(self, moments: LogisticMoments) -> Measurement:
        """The measurement of the moments: as a table where there are no numbers."""
        labels = tuple(moments.labels)
        read = f"the coefficient of {moments.terms(moments.on)[1].name}"
        if not moments.columns:
            table = table_measurement(self, labels, self.contribution)
            found = replace(table, statistic=moments, value=lambda counts, _: counts.astype(np.int64), read=read)
            return replace(found, forecast=lambda: self._forecast(found))
        size = self.public_size(*moments.columns, *labels)
        found = moments_measurement(
            self,
            moments,
            {name: self.schema.bounds(name) for name in moments.columns} | self._weight(),
            by=labels,
            read=read,
            forecast=lambda: self._forecast(found),
        )
        mechanism = additive_noise(self.guarantee, found.sensitivity)
        found = replace(found, statistic=moments, mechanism=mechanism, public={} if size is None else {"n": size})
        return found

    def _moments(self, on: tuple[str, ...]) -> LogisticMoments:
        """The statistic, or a refusal of what would be too large."""
        behind = self._behind(on, self._by_cell(0))
        numbers = [name for name in behind if isinstance(self.schema.column(name), Bounds)]
        bounds = {name: self.schema.bounds(name) for name in numbers}
        labels = self._labels([*(name for name in behind if name not in numbers), *self._strata(behind), self.column])
        for name, each in labels.items():
            if len(each) < 2:
                raise InvalidParameter("on", name, "has only one label", f"Leave {name!r} out.")
        many = sum(one.cells > 2 for one in bounds.values())
        degree = 4 if many <= 2 else 3
        weight = self._weight()
        degrees = (*(1 if one.cells == 2 else degree for one in bounds.values()), *[2] * len(weight))
        totals = math.prod(each + 1 for each in degrees) * math.prod(map(len, labels.values()))
        if many > self._most_numbers or totals > MOST_PARTS:
            raise InvalidParameter(
                "on", list(on),
                f"makes {totals:,} totals from {many} numbers of more than two values: at most {MOST_PARTS:,} from "
                f"{self._most_numbers}", "Leave columns out, or merge labels.",
            )  # fmt: skip
        return LogisticMoments(
            bounds=tuple((one.low, one.high) for one in (bounds | weight).values()),
            degrees=degrees,
            columns=(*bounds, *weight),
            **self._weighing(),
            labels=labels,
            outcome=self.column,
            on=on,
            made=self.made,
        )

    def _expected(self, found: Measurement) -> Expected:
        return Expected(rows=found.public.get("n", self.rows_planned))

    def _scenario(self, found: Measurement) -> FittedModel:
        """The fit that a plan expects."""
        moments = cast(LogisticMoments, found.statistic)
        totals = moments.expected_totals(self._expected(found).rows_per_group())
        return moments.designed(moments.on, found.mechanism, totals, found.public.get("n"), 1)

    def _forecast(self, found: Measurement) -> Forecast:
        scenario = self._scenario(found)
        weights = cast(LogisticFit, scenario.observed).noise_weights(scenario.units[1])
        words = self._expected(found).words(like=self._like)
        return Forecast(weights=tuple(weights.tolist()), scenario=words)

    def _expected_errors(self, found: Measurement) -> Iterator[ExpectedError]:
        scenario = self._scenario(found)
        for term, along in zip(scenario.terms[1:], scenario.units[1:], strict=True):
            both, noise = (float(fit.standard_error(along)) for fit in (scenario.sampled, scenario.observed))
            yield ExpectedError(term.name, noise, math.sqrt(max(both**2 - noise**2, 0.0)))
