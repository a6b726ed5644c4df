"""Regression: how an outcome goes with other columns, by least squares from one release of moments.

Public: ``session.regression("hours", ["age", "sex"], guarantee)``. Proof: ``docs/proofs/regression.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import reduce
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from discreet.core.columns import Label
from discreet.core.display import Facts, number
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.protection import Neighbours
from discreet.core.schema import Bounds, Contribution, Schema
from discreet.core.sensitivity import Sensitivity
from discreet.core.stability import in_parts
from discreet.inference.least_squares import LeastSquares
from discreet.inference.linear_moments import Linear, LinearMoments
from discreet.inference.noise_sum import excess_kurtosis
from discreet.plans.plan import DETECTED
from discreet.questions.coefficients_release import CoefficientsRelease
from discreet.questions.forecast import Forecast
from discreet.questions.forms import COLUMN, COLUMNS, WHOLE, Form
from discreet.questions.linear_fit import CONSTANT, Design, LinearFit, SubModel, Term
from discreet.questions.question import Expected, MeasuredQuestion, Measurement, column_names
from discreet.questions.tensor_parts import MOST_PARTS, TensorParts, tensor_measurement
from discreet.releases import Release

__all__ = ["RegressionMoments", "RegressionQuestion", "RegressionRelease"]

Array = NDArray[np.float64]
_EXACT_NUMBERS, _MOST_NUMBERS = 2, 4
"""Numbers of more than two values on which an outcome is regressed. Their fourth powers are measured up to the first
of these; beyond, they would bring more noise than the bound that takes their place."""
_SPREAD = 12**-0.5
"""What a plan expects: the standard deviation of a number, as a share of the width of its bounds."""


@dataclass(frozen=True, kw_only=True)
class RegressionMoments(TensorParts):
    """Joint moments of an outcome, other numbers and labels, from noisy totals in tensor parts.

    They hold Σ w²e² for every linear function w of the other columns and every residual e, or an upper bound where
    there are more than two numbers, so the errors of a regression may have any law.

    Guarantee
    ---------
    A row is in one combination of labels, and its parts add up to 1. Add/remove: ℓ₁ = ℓ₂ = 1. Replace-one: 2 and √2.

    Parameters
    ----------
    bounds, degrees
        Public bounds and highest powers of the numbers.
    columns
        Their names.
    labels
        Public labels of the other columns; the first one is the reference.
    outcome
        The column that is described: a number, or one of two labels, of which the second counts as 1.
    on
        The columns of the regression, in the order in which its coefficients are printed.

    Examples
    --------
    >>> names = {"columns": ("age", "hours"), "outcome": "hours", "on": ("age",)}
    >>> moments = RegressionMoments(bounds=((0, 90), (0, 60)), degrees=(4, 2), **names)
    >>> moments.size, moments.cells
    (15, 1)
    """

    columns: tuple[str, ...]
    labels: Mapping[str, Sequence[Label]] = field(default_factory=dict)
    outcome: str
    on: Sequence[str]
    name: ClassVar[str] = "regression_moments"

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.labels
        pairs = given.items() if isinstance(given, Mapping) else given  # as stored: a list of pairs keeps its order
        object.__setattr__(self, "labels", {name: tuple(labels) for name, labels in pairs})
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "on", tuple(self.on))
        named = sorted((*self.columns, *self.labels))
        if len(self.columns) != len(self.degrees) or sorted((self.outcome, *self.on)) != named:
            raise InvalidParameter(
                "columns", self.columns, f"must be {len(self.degrees)} names, the outcome's and those of `on`",
                "Name each column once.",
            )  # fmt: skip

    @property
    def title(self) -> str:
        return "regression"

    @classmethod
    def release_type(cls) -> type[Release]:
        return RegressionRelease

    @property
    def cells(self) -> int:
        """Combinations of labels."""
        return math.prod(len(labels) for labels in self.labels.values())

    def sensitivity(self, *, neighbours: Neighbours) -> Sensitivity:
        """How far one row moves the totals."""
        return in_parts(Contribution(groups=1, rows=1), self.cells, self.size, neighbours)

    def parameters(self) -> dict[str, Any]:
        labels = [[name, list(each)] for name, each in self.labels.items()]
        return super().parameters() | {
            "columns": list(self.columns),
            "labels": labels,
            "outcome": self.outcome,
            "on": list(self.on),
        }

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
        return 0.5 if self.degrees[self.columns.index(term.column)] == 1 else _SPREAD


@dataclass(frozen=True)
class RegressionRelease(CoefficientsRelease[LeastSquares], LinearFit):
    """Noisy moments, and the regressions that follow from them: on all columns, or on any of them (`model`)."""

    @property
    def _of(self) -> RegressionMoments:
        return cast(RegressionMoments, self.statistic)

    def _moments(self, rows_per_unit: int) -> LinearMoments:
        law = self.mechanism.law(0.0)
        return LinearMoments(
            totals=np.ravel(np.asarray(self.value, dtype=float)),
            noise=float(np.max(law.variance)),
            kurtosis=excess_kurtosis(law),
            size=self.public.get("n"),
            rows_per_unit=rows_per_unit,
            cells=self._of.cells,
            degrees=self._of.degrees,
        )

    def _fitted(self, on: Sequence[str]) -> Design[LeastSquares]:
        terms, outcome = self._of.terms(on), self._of.explained
        functions, explained = tuple(map(self._of.linear, terms)), self._of.linear(outcome)
        sampled, observed = (
            LeastSquares(self._moments(rows), functions, explained) for rows in (self._rows_per_unit, 0)
        )
        return Design(outcome, terms, self._of.labels, sampled, observed)

    def model(self, *on: str) -> SubModel:
        """The regression on some of the columns, from the same release: it costs nothing more."""
        return SubModel(self._fitted_on(on))

    def heading(self) -> str:
        return f"Regression of {self._of.explained.name}"

    def fit_facts(self) -> Facts:
        return [("R²", f"{self.rsquared:.3f}")]


@dataclass(frozen=True)
class RegressionQuestion(MeasuredQuestion[RegressionRelease]):
    """Least squares of a number on other numbers and labels.

    Guarantee
    ---------
    That of `RegressionMoments`, for the rows that a unit keeps.

    Parameters
    ----------
    column
        The outcome: a number, or a column of two labels, of which the second counts as 1.
    on
        Numbers and columns of labels. The first label of a column is the reference.
    expected_rows
        Serves plans only.

    Examples
    --------
    >>> from discreet import Bounds, Categories, PureDP, Schema
    >>> columns = {"hours": Bounds(0, 60, grid=1), "age": Bounds(18, 90, grid=1), "sex": Categories(["f", "m"])}
    >>> question = RegressionQuestion(Schema(columns=columns), "hours", ["age", "sex"], PureDP(1.0))
    >>> question.measurement.statistic.degrees, question.measurement.statistic.cells
    ((4, 2), 2)
    """

    ask: ClassVar[str] = "regression"
    meaning: ClassVar[str] = "How {subject} goes with other columns, by least squares."
    forms: ClassVar[Mapping[str, Form]] = {"column": COLUMN, "on": COLUMNS, "expected_rows": WHOLE}
    schema: Schema
    column: str
    on: str | Sequence[str]
    guarantee: Guarantee
    _: KW_ONLY
    contribution: Contribution | None = None
    expected_rows: int | None = None

    def columns_read(self) -> tuple[str, ...]:
        return (self.column, *column_names(self.on, "on"))

    def _measured(self) -> Measurement:
        on = column_names(self.on, "on")
        declared = self.schema.column(self.column)
        if not isinstance(declared, Bounds) and len(self.schema.categories(self.column).labels) != 2:
            raise InvalidParameter(
                "column", self.column, "must be a number, or have two labels", "Use another outcome."
            )
        if not on or self.column in on:
            raise InvalidParameter("on", list(on), "must name other columns, at least one", 'Pass on=["age", "sex"].')
        numbers = [name for name in (*on, self.column) if isinstance(self.schema.column(name), Bounds)]
        labels = self._labels([name for name in (*on, self.column) if name not in numbers])
        bounds = {name: self.schema.bounds(name) for name in numbers}
        degrees = _degrees(bounds, self.column)
        self._check_size(bounds, degrees, labels)
        moments = RegressionMoments(
            bounds=tuple((one.low, one.high) for one in bounds.values()),
            degrees=degrees,
            columns=tuple(bounds),
            labels=labels,
            outcome=self.column,
            on=on,
        )
        term = moments.terms(on)[1]
        found = tensor_measurement(
            self,
            moments,
            moments.columns,
            by=tuple(labels),
            contribution=self.contribution,
            read=f"coefficient of {term.name}",
            forecast=lambda: Forecast(
                weights=self._moves(moments, term),
                scenario=self._expected(moments).words(like="of unrelated columns, spread evenly"),
            ),
        )
        size = self.public_size(*bounds, *labels)
        return replace(found, statistic=moments, public={} if size is None else {"n": size})

    def _check_size(
        self, bounds: Mapping[str, Bounds], degrees: tuple[int, ...], labels: Mapping[str, Sequence[Any]]
    ) -> None:
        if not bounds:
            raise InvalidParameter(
                "on", list(column_names(self.on, "on")), "must have a number where the outcome has labels",
                f"Ask for a table instead: table({[*column_names(self.on, 'on'), self.column]}).",
            )  # fmt: skip
        for name, each in labels.items():
            if len(each) < 2:
                raise InvalidParameter("on", name, "has only one label", f"Leave {name!r} out.")
        many = sum(degree > 1 for name, degree in zip(bounds, degrees, strict=True) if name != self.column)
        totals = math.prod(degree + 1 for degree in degrees) * math.prod(map(len, labels.values()))
        if many > _MOST_NUMBERS or totals > MOST_PARTS:
            raise InvalidParameter(
                "on", list(column_names(self.on, "on")),
                f"makes {totals:,} totals from {many} numbers of more than two values: at most {MOST_PARTS:,} from "
                f"{_MOST_NUMBERS}", "Leave columns out, or merge labels.",
            )  # fmt: skip

    def _expected(self, moments: RegressionMoments) -> Expected:
        size = self.public_size(*moments.columns, *moments.labels)
        return Expected(rows=self.expected_rows if size is None else size)

    def _moves(self, moments: RegressionMoments, term: Term) -> tuple[float, ...]:
        """How far noise in each total moves a coefficient, in the scenario of a plan."""
        rows = self._expected(moments).rows_per_group()
        empty = np.zeros(moments.size * moments.cells)
        read = LinearMoments(totals=empty, noise=1.0, cells=moments.cells, degrees=moments.degrees)
        # Around the middles, in the middle of the bounds or at equal shares, nothing but the slope is moved.
        around = [_around(moments.linear(one), _middle(moments, one)) for one in (term, moments.explained)]
        width = moments.explained.width / term.width
        return tuple((read.weights(*around) * width / (rows * moments.spread(term) ** 2)).tolist())

    def _notes(self, found: Measurement) -> tuple[str, ...]:
        """Noise and sampling of every coefficient, where numbers are spread evenly over their bounds.

        Columns are taken to be unrelated, and labels to be equally frequent.
        """
        moments = cast(RegressionMoments, found.statistic)
        rows = self._expected(moments).rows_per_group()
        noise = math.sqrt(float(np.max(np.asarray(found.mechanism.law(0.0).variance))))
        notes, left = [*super()._notes(found)], moments.explained.width * moments.spread(moments.explained)
        for term in moments.terms(moments.on)[1:]:
            moved = noise * math.hypot(*self._moves(moments, term))
            sampled = left / (term.width * moments.spread(term) * math.sqrt(rows))
            both = math.hypot(moved, sampled)
            notes.append(
                f"{term.name}: standard error {number(both)} ({number(moved)} noise, {number(sampled)} sampling); "
                f"a 5 % test detects {number(DETECTED * both)} with 80 % power"
            )
        return tuple(notes)


def _middle(moments: RegressionMoments, term: Term) -> float:
    return 0.5 if term.label is None else 1 / len(moments.labels[term.column])


def _around(function: Linear, middle: float) -> Linear:
    return Linear(function.constants - middle, function.slopes)


def _degrees(bounds: Mapping[str, Bounds], outcome: str) -> tuple[int, ...]:
    """Powers of the numbers: two values need but the first."""
    others = sum(one.cells > 2 for name, one in bounds.items() if name != outcome)
    most = 4 if others <= _EXACT_NUMBERS else 3
    return tuple(1 if one.cells == 2 else 2 if name == outcome else most for name, one in bounds.items())
