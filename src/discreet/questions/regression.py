"""Regression: how an outcome goes with other columns, by least squares from one release of moments.

Public: ``session.regression("hours", ["age", "sex"], guarantee)``. Proof: ``docs/proofs/regression.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from discreet.core.door import Allowance, Claim, Passed, Step, pass_through
from discreet.core.errors import InvalidParameter
from discreet.core.exact import Exact
from discreet.core.guarantee import ApproxDP, Guarantee, PureDP
from discreet.core.ledger import Ledger
from discreet.core.rows import Selected, Snapshot
from discreet.core.schema import Bounds
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.box_noise import BoxNoise
from discreet.mechanisms.gaussian import Gaussian
from discreet.questions.coefficients_question import CoefficientsQuestion, ExpectedError
from discreet.questions.forecast import Forecast
from discreet.questions.linear_fit import Term
from discreet.questions.moment_products import MomentProducts, weighed
from discreet.questions.question import Expected, Measurement, column_names
from discreet.questions.regression_moments import Moments, RegressionMoments, first_fit, knows_squares, moved_per_row
from discreet.questions.regression_release import RegressionRelease
from discreet.questions.regression_squares import SHARE, exact_squares, squares_step
from discreet.questions.tensor_parts import MOST_PARTS, tensor_measurement

__all__ = ["RegressionInOneStep", "RegressionQuestion"]

_EXACT_NUMBERS, _MOST_NUMBERS = 2, 4
"""Numbers of more than two values on which an outcome is regressed. Their fourth powers are measured up to the first
of these; beyond, they would bring more noise than the bound that takes their place."""
_MOST_TERMS = 40
"""Coefficients of a regression whose squares are measured after the fit."""
_WORTH_IT = 1.25
"""How much less noise the moments must have where squares are measured after them: those have noise of their own."""


@dataclass(frozen=True)
class RegressionQuestion(CoefficientsQuestion[RegressionRelease]):
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
    one_step: ClassVar[bool] = False

    def _measured(self) -> Measurement:
        declared = self.schema.column(self.column)
        if not isinstance(declared, Bounds) and len(self.schema.categories(self.column).labels) != 2:
            raise InvalidParameter(
                "column", self.column, "must be a number, or have two labels", "Use another outcome."
            )
        on = self._predictors()
        numbers = [name for name in (*on, self.column) if isinstance(self.schema.column(name), Bounds)]
        labels = self._labels([name for name in (*on, self.column) if name not in numbers])
        bounds = {name: self.schema.bounds(name) for name in numbers}
        self._check_size(bounds, labels)
        size = self.public_size(*bounds, *labels)
        ways = [replace(way, public={} if size is None else {"n": size}) for way in self._ways(bounds, labels, size)]
        if not ways:
            raise InvalidParameter(
                "on", list(on),
                f"makes more than {_MOST_TERMS} coefficients, {MOST_PARTS:,} combinations of labels, or, in one step, "
                f"{_MOST_NUMBERS} numbers of more than two values", "Leave columns out, or merge labels.",
            )  # fmt: skip
        return min(ways, key=_noise_of)

    def _ways(
        self, bounds: Mapping[str, Bounds], labels: Mapping[str, Sequence[Any]], size: int | None
    ) -> Iterator[Measurement]:
        """Every way to measure the moments, each with the guarantee that it leaves for them."""
        named: dict[str, Any] = {
            "bounds": tuple((one.low, one.high) for one in bounds.values()),
            "columns": tuple(bounds), "labels": labels, "outcome": self.column, "on": column_names(self.on, "on"),
        }  # fmt: skip
        first = self._steps[0]
        cells = math.prod(map(len, labels.values()))
        for degrees in dict.fromkeys((_degrees(bounds, self.column), _degrees(bounds, self.column, most=2))):
            many = sum(degree > 2 for degree in degrees)
            if many <= _MOST_NUMBERS and math.prod(degree + 1 for degree in degrees) * cells <= MOST_PARTS:
                parts = RegressionMoments(degrees=degrees, **named)
                if knows_squares(parts) or not self.one_step:
                    yield self._in_parts(parts)
        terms = sum(len(each) - 1 for each in labels.values()) + len(bounds)
        if terms <= _MOST_TERMS and cells <= MOST_PARTS and not self.one_step:
            two_values = tuple(name for name, one in bounds.items() if one.cells == 2)
            products = MomentProducts(two_values=two_values, counted=size is None, **named)
            yield self._in_products(products, BoxNoise)
            if not isinstance(first, PureDP) and not (isinstance(first, ApproxDP) and first.delta == 0):
                yield self._in_products(weighed(products), Gaussian)

    @property
    def _steps(self) -> tuple[Guarantee, ...]:
        """What the moments may cost where squares are measured after them, and what these may."""
        return self.guarantee.split([1 - SHARE, SHARE])

    def _in_parts(self, parts: RegressionMoments) -> Measurement:
        found = tensor_measurement(
            self,
            parts,
            parts.columns,
            by=tuple(parts.labels),
            contribution=self.contribution,
            read=f"coefficient of {parts.terms(parts.on)[1].name}",
            forecast=lambda: self._forecast(parts),
        )
        if knows_squares(parts):
            return replace(found, statistic=parts)
        return replace(found, statistic=parts, mechanism=additive_noise(self._steps[0], found.sensitivity))

    def _in_products(self, products: MomentProducts, kind: type[BoxNoise] | type[Gaussian]) -> Measurement:
        """Sums of products of two grid steps, in one query."""
        rows = self.limits(self.contribution).most_rows(products.cells)
        sensitivity = products.sensitivity(neighbours=self.schema.neighbours, rows=rows)
        reaches = [one.highest - one.lowest for one in map(self.schema.bounds, products.columns)]
        return Measurement(
            statistic=products,
            sensitivity=sensitivity,
            mechanism=kind.calibrate(self._steps[0], sensitivity),
            by=tuple(products.labels),
            columns=products.columns,
            contribution=self.contribution,
            products=products.number_products,
            from_lowest=True,
            public={},
            value=lambda counts, sums: products.of_sums(counts, sums, reaches),
            read=f"coefficient of {products.terms(products.on)[1].name}",
            forecast=lambda: self._forecast(products),
        )

    def _check_size(self, bounds: Mapping[str, Bounds], labels: Mapping[str, Sequence[Any]]) -> None:
        if not bounds:
            raise InvalidParameter(
                "on", list(column_names(self.on, "on")), "must have a number where the outcome has labels",
                f"Ask for a table instead: table({[*column_names(self.on, 'on'), self.column]}).",
            )  # fmt: skip
        for name, each in labels.items():
            if len(each) < 2:
                raise InvalidParameter("on", name, "has only one label", f"Leave {name!r} out.")

    # ---- two steps --------------------------------------------------------------------------------------------------

    @property
    def several_steps(self) -> bool:
        """Whether squares are measured after the moments."""
        return not knows_squares(cast(Any, self.measurement.statistic))

    def in_one_step(self) -> RegressionQuestion:
        given = {name: getattr(self, name) for name in ("contribution", "expected_rows")}
        return RegressionInOneStep(self.schema, self.column, self.on, self.guarantee, **given)

    def claim(self, ledger: Ledger | None) -> Claim:
        found = super().claim(ledger) if not self.several_steps else None
        if found is not None:
            return found
        measured, (first, second) = self.measurement, self._steps
        products = cast(Moments, measured.statistic)
        rows = self.limits(self.contribution).most_rows(products.cells)
        steps = [
            Step(measured.mechanism, measured.sensitivity, first),
            squares_step(second, len(products.terms(products.on)), rows),
        ]
        return Claim(
            guarantee=self.guarantee,
            protection=self.schema.protection(*measured.public_facts),
            question=self.content(),
            mechanism={"name": "steps", "steps": [step.mechanism.to_dict() for step in steps]},
            sensitivity=measured.sensitivity,
            steps=steps,
        )

    def released(
        self, rows: Snapshot, ledger: Ledger, request: str | None, content: Mapping[str, Any]
    ) -> RegressionRelease:
        if not self.several_steps:
            return super().released(rows, ledger, request, content)
        claim, exact = replace(self.claim(ledger), question=content), self.exact(rows)
        return pass_through(
            claim,
            lambda allowance, passed: self._two_steps(rows, exact, claim, allowance, passed),
            write=RegressionRelease.to_dict,
            read=self.read,
            ledger=ledger,
            request=request,
        )

    def _two_steps(
        self, rows: Snapshot, exact: Exact, claim: Claim, allowance: Allowance, passed: Passed
    ) -> RegressionRelease:
        """Moments, then squares around what they say: the second step reads nothing private of the first."""
        (first, second), found = claim.steps, self.measurement
        products = cast(Moments, found.statistic)
        value = np.asarray(allowance.draw(first, exact.value), dtype=float)
        fit = first_fit(products, first.mechanism, value, exact.public.get("n"), 1)
        selected = Selected(by=found.by, columns=found.columns, contribution=found.contribution)
        squares = exact_squares(rows, selected, fit, products.terms(products.on), products.explained)
        measured = np.asarray(allowance.draw(second, squares), dtype=float)
        stored = {"value": measured.tolist(), "mechanism": second.mechanism.to_dict()}
        return RegressionRelease(
            value=value,
            mechanism=first.mechanism,
            sensitivity=found.sensitivity,
            guarantee=claim.guarantee,
            protection=claim.protection,
            statistic=products,
            public={**exact.public, "squares": stored},
            **vars(passed),
        )

    # ---- what a plan expects ----------------------------------------------------------------------------------------

    def _forecast(self, moments: Moments) -> Forecast:
        """What a plan says of the first coefficient."""
        return Forecast(
            weights=self._moves(moments, moments.terms(moments.on)[1]),
            scenario=self._expected(moments).words(like="of unrelated columns, spread evenly"),
        )

    def _expected(self, moments: Moments) -> Expected:
        size = self.public_size(*moments.columns, *moments.labels)
        return Expected(rows=self.expected_rows if size is None else size)

    def _moves(self, moments: Moments, term: Term) -> tuple[float, ...]:
        """How far noise in each total moves a coefficient, in the scenario of a plan."""
        return tuple((moved_per_row(moments, term) / self._expected(moments).rows_per_group()).tolist())

    def _expected_errors(self, found: Measurement) -> Iterator[ExpectedError]:
        moments = cast(Moments, found.statistic)
        rows = self._expected(moments).rows_per_group()
        noise = math.sqrt(float(np.max(np.asarray(found.mechanism.law(0.0).variance))))
        left = moments.explained.width * moments.spread(moments.explained)
        for term in moments.terms(moments.on)[1:]:
            sampled = left / (term.width * moments.spread(term) * math.sqrt(rows))
            yield ExpectedError(term.name, noise * math.hypot(*self._moves(moments, term)), sampled)


@dataclass(frozen=True)
class RegressionInOneStep(RegressionQuestion):
    """The same, where everything must be measured at once, as behind an omission step."""

    one_step: ClassVar[bool] = True


def _noise_of(way: Measurement) -> float:
    """Expected noise of the coefficients together, relative to what sampling would give them."""
    moments = cast(Moments, way.statistic)
    variance = float(np.max(np.asarray(way.mechanism.law(0.0).variance)))
    noise = [
        variance * float(np.sum((moved_per_row(moments, term) * term.width * moments.spread(term)) ** 2))
        for term in moments.terms(moments.on)[1:]
    ]
    return math.sqrt(sum(noise)) * (1.0 if knows_squares(moments) else _WORTH_IT)


def _degrees(bounds: Mapping[str, Bounds], outcome: str, most: int = 4) -> tuple[int, ...]:
    """Powers of the numbers: two values need but the first."""
    others = sum(one.cells > 2 for name, one in bounds.items() if name != outcome)
    power = min(most, 4 if others <= _EXACT_NUMBERS else 3)
    return tuple(1 if one.cells == 2 else 2 if name == outcome else power for name, one in bounds.items())
