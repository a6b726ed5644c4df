"""Regression: how an outcome goes with other columns, by least squares from one release of moments.

Public: ``session.regression("hours", ["age", "sex"], guarantee=guarantee)``. Proof: ``docs/proofs/regression.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from discreet.core.door import Allowance, Claim, Passed, Step
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.guarantee import Guarantee, is_pure
from discreet.core.protection import Neighbours
from discreet.core.rows import Selected, Snapshot
from discreet.core.rows.keep import SHARES, squares
from discreet.core.schema import Bounds, Schema
from discreet.core.sensitivity import Sensitivity
from discreet.inference.least_squares import CAUTION, LeastSquares, MeasuredSquares, reach_of
from discreet.inference.noise import largest_variance
from discreet.mechanisms.box_noise import BoxNoise
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.mechanism import Mechanism, mechanism_of
from discreet.questions import form
from discreet.questions.moments import MOST_PARTS, moments_measurement
from discreet.questions.question import DeclaredColumns, Expected, Forecast, Measurement, column_names, fractions
from discreet.questions.regression.fit import Coefficient, CoefficientsQuestion, ExpectedError, RegressionRelease
from discreet.questions.regression.moments import (
    MomentBoxes,
    MomentProducts,
    Moments,
    RegressionMoments,
    even_totals,
    expected_pull,
    first_fit,
    fit_on,
    guessed_noise,
    knows_squares,
    moved_per_row,
    read_moments,
    weighed,
)
from discreet.results.ledger import Ledger

# ---- Squares after a fit: what the intervals of a regression on many columns need, measured in a second step
#
# The coefficients are public once the first step is. So each row's (w·z)² and e², over the largest values that the
# bounds
# allow, are numbers between 0 and 1 that its own columns decide. What is added up is (2(w·z)² − 1)(2e² − 1), which a
# row
# moves by at most 1: with Σ(w·z)², which the first step holds, it gives Σ(w·z)²e². All steps pass the door as one
# release. Proof: ``docs/proofs/regression.md``.


SHARE = 0.05
"""Of the guarantee, for the squares. With 1,000 to 5,000 people a tenth would narrow intervals by 2 to 10 %, and give
the slopes themselves 5 % more noise."""


def squares_step(guarantee: Guarantee, terms: int, rows: int, neighbours: Neighbours) -> Step:
    """The last step: one total per term, of which a row moves each by at most 1, or by 2 where it is replaced."""
    sides = neighbours.sides
    sensitivity = Sensitivity(linf=float(rows * sides), dimension=terms)
    choices: list[Mechanism] = [BoxNoise.calibrate(guarantee, sensitivity)]
    if not is_pure(guarantee):
        choices.append(Gaussian.calibrate(guarantee, sensitivity))
    best = min(choices, key=largest_variance)
    return Step(best, sensitivity, guarantee)


def exact_squares(
    rows: Snapshot, selected: Selected, fit: LeastSquares, terms: Sequence[Coefficient], outcome: Coefficient
) -> NDArray[Any]:
    """Totals of (2(w·z)² − 1)(2e² − 1), each square over its largest value, still private."""
    pulls, reaches, cut = MeasuredSquares.pulls(fit)
    schema = rows.schema
    every = [*zip((-fit.coefficients).tolist(), terms, strict=True), (1.0, outcome)]
    residual = _linear(schema, selected, [(value / cut, term) for value, term in every])
    along = [
        _linear(schema, selected, list(zip((pull / reach).tolist(), terms, strict=True)))
        for pull, reach in zip(pulls, reaches, strict=True)
    ]
    return fractions([Fraction(total, SHARES) for total in squares(rows, selected, along, residual)])


def _linear(schema: Schema, selected: Selected, parts: Sequence[tuple[float, Coefficient]]) -> dict[str, list[float]]:
    """Σ value·term as a function of grid steps and labels."""
    found = {"": [0.0], **{name: [0.0] for name in selected.columns}}
    found |= {name: [0.0] * len(schema.categories(name).labels) for name in selected.by}
    for value, term in parts:
        if not term.column:
            found[""][0] += value
        elif term.label is not None:
            found[term.column][list(schema.categories(term.column).labels).index(term.label)] += value
        else:
            found[""][0] -= value * term.low / term.width
            found[term.column][0] += value * float(schema.bounds(term.column).step) / term.width
    return found


Way = tuple[Measurement, list[Mechanism]]
"""A measurement of moments, and the mechanism of every draw that it takes."""
_EXACT_NUMBERS = 2
"""Numbers of more than two values whose fourth powers are measured; of more they would bring more noise than the bound
that takes their place."""
_MOST_TERMS = 40
"""Coefficients of a regression whose squares are measured after the fit."""
_WORTH_IT = 1.25
"""The factor by which moments must have less noise where squares are measured after them, with noise of their own."""


@dataclass(frozen=True)
class RegressionQuestion(CoefficientsQuestion):
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
    formula
        In the place of both, such as ``"hours ~ age * C(sex)"``: see the how-to page on regressions.
    expected_rows
        Serves plans only.
    models
        Smaller models, each some of the columns of ``on``, whose intervals shall be as narrow as those of the whole.
        All others can be read as well, with wider ones. Each adds its coefficients to what is measured last.

    Examples
    --------
    >>> from discreet import Bounds, Categories, Schema
    >>> columns = {"hours": Bounds(0, 60, grid=1), "age": Bounds(18, 90, grid=1), "sex": Categories(["f", "m"])}
    >>> question = RegressionQuestion(Schema(columns=columns), "hours", ["age", "sex"], epsilon=1.0)
    >>> question.measurement.statistic.degrees, question.measurement.statistic.cells
    ((4, 2), 2)
    """

    topic: ClassVar[str] = "Relations"
    answers: ClassVar[str] = "How does one number change with others, all else equal?"
    ask: ClassVar[str] = "regression"
    also: ClassVar[tuple[str, ...]] = ("ols", "linear_regression", "anova")
    heading: ClassVar[str] = "What goes along with {subject}?"
    meaning: ClassVar[str] = "How {subject} goes with other columns, by least squares."
    forms: ClassVar[form.Forms] = {**CoefficientsQuestion.forms, "models": form.MODELS}
    _: KW_ONLY
    models: Sequence[str | Sequence[str]] = ()
    one_step: bool = field(default=False, init=False, repr=False)

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return {**columns.number(), "on": columns.numbers[1:2] or columns.listed[:1]}

    def _measured(self) -> Measurement:
        declared = self.schema.column(self.column)
        if not isinstance(declared, Bounds) and len(self.schema.categories(self.column).labels) != 2:
            raise InvalidParameter(
                "column", self.column, "must be a number, or have two labels", "Use another outcome."
            )
        on = self._predictors()
        bounds, labels = self._apart(on)
        self._check_size(bounds, labels)
        self._check_models(labels)
        size = self.public_size(*bounds, *labels)
        ways = list(self._ways(bounds, labels, size))
        if by_cell := self._by_cell(1):
            numbers, others = self._apart(self._behind(on, by_cell))
            ways += self._parts(numbers, others, True)
        if not ways:
            raise InvalidParameter(
                "on", list(on),
                f"makes more than {_MOST_TERMS} coefficients, {MOST_PARTS:,} combinations of labels, or, in one step, "
                f"{self._most_numbers} numbers of more than two values", "Leave columns out, or merge labels.",
            )  # fmt: skip
        return replace(min(ways, key=self._noise_of)[0], public={} if size is None else {"n": size})

    def _apart(self, on: Sequence[str]) -> tuple[dict[str, Bounds], dict[str, tuple[Any, ...]]]:
        """The numbers among these columns and the outcome, and the columns of labels."""
        named = (*on, self.column)
        numbers = [name for name in named if isinstance(self.schema.column(name), Bounds)]
        labels = self._labels([*(name for name in named if name not in numbers), *self._strata(on)])
        return {name: self.schema.bounds(name) for name in numbers}, labels

    def _named(self, bounds: Mapping[str, Bounds], labels: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """What every statistic is told of the columns."""
        weight = self._weight()
        return {
            "bounds": tuple((one.low, one.high) for one in [*bounds.values(), *weight.values()]),
            "columns": (*bounds, *weight), "labels": labels, "outcome": self.column, "on": column_names(self.on, "on"),
            "two_values": tuple(name for name, one in bounds.items() if one.cells == 2), "made": self.made,
            **self._weighing(),
        }  # fmt: skip

    def _parts(self, bounds: Mapping[str, Bounds], labels: Mapping[str, Sequence[Any]], at_once: bool) -> Iterator[Way]:
        """The ways to measure in tensor parts, or those that need no second step."""
        cells = math.prod(map(len, labels.values()))
        for degrees in _degrees({name: one.cells for name, one in bounds.items()}, self.column):
            many = sum(degree > 2 for degree in degrees)
            degrees = (*degrees, *[2] * len(self._weight()))
            if many <= self._most_numbers and math.prod(degree + 1 for degree in degrees) * cells <= MOST_PARTS:
                parts = RegressionMoments(degrees=degrees, **self._named(bounds, labels))
                if knows_squares(parts) or not at_once:
                    yield self._in_parts(parts)

    def _ways(
        self, bounds: Mapping[str, Bounds], labels: Mapping[str, Sequence[Any]], size: int | None
    ) -> Iterator[Way]:
        """Every way to measure the moments, each with the guarantee that it leaves for them."""
        yield from self._parts(bounds, labels, self._at_once)
        named, cells = self._named(bounds, labels), math.prod(map(len, labels.values()))
        terms = sum(len(each) - 1 for each in labels.values()) + len(bounds)
        if terms <= _MOST_TERMS and cells <= MOST_PARTS and not self._at_once:
            boxes = MomentBoxes(**named)
            if boxes.size > 2 * boxes.together:
                yield self._in_products(boxes)
            if not is_pure(self.guarantee):
                yield self._in_products(weighed(MomentProducts(counted=size is None, **named)))

    @property
    def _at_once(self) -> bool:
        """Whether everything must be measured in one step: behind an omission step, and under a design."""
        return self.one_step or self.schema.design is not None

    def _in_parts(self, parts: RegressionMoments) -> Way:
        found = moments_measurement(
            self,
            parts,
            {name: self.schema.bounds(name) for name in parts.columns} | self._weight(),
            by=tuple(parts.labels),
            guarantee=None if knows_squares(parts) else self._costs(parts)[0],
            read=f"the coefficient of {parts.terms(parts.on)[1].name}",
            forecast=lambda: self._forecast(parts),
        )
        return replace(found, statistic=parts), [found.mechanism]

    def _in_products(self, products: MomentProducts) -> Way:
        """Sums of products of two grid steps, in one query."""
        draws = [mechanism_of(step) for step in self._draws(products)]
        found = Measurement(
            statistic=products,
            sensitivity=products.sensitivity(neighbours=self.schema.neighbours, rows=self._rows(products)),
            mechanism=draws[0],
            by=tuple(products.labels),
            columns=products.columns,
            contribution=self.contribution,
            products=products.number_products,
            from_lowest=True,
            public={},
            value=lambda counts, sums: products.of_sums(counts, sums, self._reaches(products)),
            read=f"the coefficient of {products.terms(products.on)[1].name}",
            forecast=lambda: self._forecast(products),
        )
        return found, draws

    def _reaches(self, products: MomentProducts) -> list[int]:
        """Grid steps between the bounds of every number."""
        return [one.highest - one.lowest for one in map(self.schema.bounds, products.columns)]

    def _check_size(self, bounds: Mapping[str, Bounds], labels: Mapping[str, Sequence[Any]]) -> None:
        if not bounds:
            raise InvalidParameter(
                "on", list(column_names(self.on, "on")), "must have a number where the outcome has labels",
                f"Ask for a table instead: table({[*column_names(self.on, 'on'), self.column]}).",
            )  # fmt: skip
        for name, each in labels.items():
            if len(each) < 2:
                raise InvalidParameter("on", name, "has only one label", f"Leave {name!r} out.")

    @cached_property
    def smaller(self) -> tuple[tuple[str, ...], ...]:
        """The columns of every smaller model that is measured, in the order of the whole one."""
        on = column_names(self.on, "on")
        if isinstance(self.models, str) or not isinstance(self.models, Sequence):
            raise WrongType("models", self.models, "must be a list of models", 'Pass models=[["age"], ["age", "sex"]].')
        named = [{name for column in column_names(one, "models") for name in self._term(column)} for one in self.models]
        for one in named:
            if not one or not one < set(on) or named.count(one) > 1:
                raise InvalidParameter(
                    "models", sorted(one), f"must be some of {list(on)}, but not all, and no model twice",
                    "Name columns of the regression.",
                )  # fmt: skip
        return tuple(tuple(name for name in on if name in one) for one in named)

    def _term(self, column: str) -> Sequence[str]:
        """A column, or all columns of an interaction."""
        together = [name for name, parts in self.made.items() if ":".join(one for one, _ in parts) == column]
        return together or [column]

    def _check_models(self, labels: Mapping[str, Sequence[Any]]) -> None:
        count = sum(1 + sum(len(labels.get(name, "ab")) - 1 for name in one) for one in self.smaller)
        if count > _MOST_TERMS:
            raise InvalidParameter(
                "models", count, f"must have at most {_MOST_TERMS} coefficients together", "Name fewer models."
            )

    def content(self) -> dict[str, Any]:
        named = [list(one) for one in self.smaller]
        return super().content() | ({"models": named} if named else {})

    # ---- several steps ----------------------------------------------------------------------------------------------

    @property
    def several_steps(self) -> bool:
        """True where squares are measured after the moments."""
        return not knows_squares(cast(Any, self.measurement.statistic))

    def in_one_step(self) -> RegressionQuestion:
        """The same, where everything must be measured at once, as behind an omission step."""
        found = self.changed()
        object.__setattr__(found, "one_step", True)
        vars(found).pop("measurement", None)
        found._validate()
        return found

    def _rows(self, moments: Moments) -> int:
        """The number of rows of a unit that count."""
        return self.schema.contribution(self.contribution).most_rows(moments.cells)

    def _costs(self, moments: Moments) -> tuple[Guarantee, ...]:
        """The cost that every draw of the moments may have, and last the cost of the squares."""
        if not isinstance(moments, MomentBoxes):
            return self.guarantee.split([1 - SHARE, SHARE])
        outcome = moments.outcome_share
        return self.guarantee.split([(1 - SHARE) * outcome, (1 - SHARE) * (1 - outcome), SHARE])

    def _draws(self, products: MomentProducts) -> list[Step]:
        """The draws of products: all at once, or what has the outcome first."""
        rows, neighbours = self._rows(products), self.schema.neighbours
        first, *more = self._costs(products)
        if not isinstance(products, MomentBoxes):
            sensitivity = products.sensitivity(neighbours=neighbours, rows=rows)
            return [Step(Gaussian.calibrate(first, sensitivity), sensitivity, first)]
        sides = float(rows * neighbours.sides)
        both = Sensitivity(l1=sides, dimension=2)
        rest = Sensitivity(linf=sides, dimension=products.size - 2 * products.together)
        return [
            Step(BoxNoise.calibrate(first, both, in_boxes_of=products.together), both, first),
            Step(BoxNoise.calibrate(more[0], rest), rest, more[0]),
        ]

    def claim(self, ledger: Ledger | None) -> Claim:
        if self.beside is not None or not self.several_steps:
            return super().claim(ledger)
        measured = self.measurement
        moments = cast(Moments, measured.statistic)
        costs = self._costs(moments)
        terms = sum(len(moments.terms(one)) for one in (moments.on, *self.smaller))
        draws = (
            self._draws(moments)
            if isinstance(moments, MomentProducts)
            else [Step(measured.mechanism, measured.sensitivity, costs[0])]
        )
        steps = [*draws, squares_step(costs[-1], terms, self._rows(moments), self.schema.neighbours)]
        return Claim(
            guarantee=self.guarantee,
            protection=self.schema.protection(*measured.public_facts),
            question=self.content(),
            mechanism={"name": "steps", "steps": [mechanism_of(step).to_dict() for step in steps]},
            sensitivity=measured.sensitivity,
            steps=steps,
        )

    def draw(self, rows: Snapshot, claim: Claim, allowance: Allowance, passed: Passed) -> RegressionRelease:
        if self.beside is not None or not self.several_steps:
            return super().draw(rows, claim, allowance, passed)
        # Moments, then squares around what they say: the last step reads nothing private of the others.
        *draws, last = claim.steps
        exact = self.exact(rows)
        found, size = self.measurement, exact.public.get("n")
        moments = cast(Moments, found.statistic)
        whole = np.asarray(exact.value)
        values = moments.apart(whole) if isinstance(moments, MomentBoxes) else [whole]
        drawn = [
            (mechanism_of(step), np.asarray(allowance.draw(step, value), dtype=float))
            for step, value in zip(draws, values, strict=True)
        ]
        fit = first_fit(moments, drawn, size, 1)
        selected = Selected(by=found.by, columns=found.columns, contribution=found.contribution)
        squares = [
            exact_squares(rows, selected, fit_on(moments, one, fit), moments.terms(one), moments.explained)
            for one in (moments.on, *self.smaller)
        ]
        later = dict(zip(("products",), drawn[1:], strict=False))
        later["centred_squares"] = (
            mechanism_of(last),
            np.asarray(allowance.draw(last, np.concatenate(squares)), dtype=float),
        )
        stored: dict[str, Any] = {
            name: {"value": one.tolist(), "mechanism": noise.to_dict()} for name, (noise, one) in later.items()
        }
        if self.smaller:
            stored["centred_squares"]["models"] = [list(one) for one in self.smaller]
        return RegressionRelease(
            value=drawn[0][1],
            mechanism=drawn[0][0],
            sensitivity=found.sensitivity,
            guarantee=claim.guarantee,
            protection=claim.protection,
            statistic=moments,
            public={**exact.public, **stored},
            **vars(passed),
        )

    # ---- what a plan expects ----------------------------------------------------------------------------------------

    def _forecast(self, moments: Moments) -> Forecast:
        """The error that a plan states of the first coefficient."""
        return Forecast(
            weights=self._moves(moments, moments.terms(moments.on)[1]),
            scenario=self._expected(moments).words(like=self._like),
        )

    def _noise_of(self, way: Way) -> float:
        """Expected noise of the slopes together, relative to what sampling would give them."""
        moments = cast(Moments, way[0].statistic)
        zeros = np.zeros(moments.size * (moments.cells if isinstance(moments, RegressionMoments) else 1))
        values = moments.apart(zeros) if isinstance(moments, MomentBoxes) else [zeros]
        noise = math.sqrt(guessed_noise(moments, read_moments(moments, list(zip(way[1], values, strict=True)))))
        return noise * (1.0 if knows_squares(moments) else _WORTH_IT)

    def _expected(self, moments: Moments) -> Expected:
        size = self.public_size(*moments.columns, *moments.labels)
        return Expected(rows=self.rows_planned if size is None else size)

    def _moves(self, moments: Moments, term: Coefficient) -> tuple[float, ...]:
        """The moves of a coefficient by noise in each total, in the scenario of a plan."""
        rows = self._expected(moments).rows_per_group() * self._likely[0]
        return tuple((moved_per_row(moments, term) / rows).tolist())

    def _expected_errors(self, found: Measurement) -> Iterator[ExpectedError]:
        moments = cast(Moments, found.statistic)
        rows = self._expected(moments).rows_per_group() * self._likely[1]
        noise = math.sqrt(largest_variance(found.mechanism))
        left = moments.explained.width * moments.spread(moments.explained)
        apart = 1 / np.sqrt(np.diag(moments.expected[1]))  # the spread of a term that the others leave
        for term, spread in zip(moments.terms(moments.on)[1:], apart.tolist(), strict=True):
            sampled = left / (term.width * spread * math.sqrt(rows))
            unit = moments.explained.width / term.width / rows
            pull = unit * float(reach_of(expected_pull(moments, term)[0]))
            caution = CAUTION * unit**2 * self._noise_of_squares(found, term)
            yield ExpectedError(term.name, noise * math.hypot(*self._moves(moments, term)), sampled, caution, pull)

    def _noise_of_squares(self, found: Measurement, term: Coefficient) -> float:
        """The standard deviation of the noise in Σ(w·z)²e² of a coefficient, times the number of rows squared."""
        moments = cast(Moments, found.statistic)
        pull, left = expected_pull(moments, term)
        if isinstance(moments, RegressionMoments) and knows_squares(moments):
            even, twice = even_totals(moments), (*moments.weighing, *moments.weighing)
            heavy, effective = self._likely  # sums go by weights, and `rows` by how many are effective
            factor = math.sqrt(largest_variance(found.mechanism)) * (effective / heavy) ** 2
            return factor * float(np.sqrt(even.noise_of(even.weights_above(pull, pull, left, left, *twice))[0]))
        terms = sum(len(moments.terms(one)) for one in (moments.on, *self.smaller))
        last = squares_step(self._costs(moments)[-1], terms, self._rows(moments), self.schema.neighbours)
        return float(reach_of(pull) * reach_of(left)) ** 2 * math.sqrt(largest_variance(mechanism_of(last)) / 8)


def _degrees(sizes: Mapping[str, int], outcome: str) -> Iterator[tuple[int, ...]]:
    """Powers of the numbers: those that intervals need, then those of a fit alone. Two values need but the first."""
    others = sum(values > 2 for name, values in sizes.items() if name != outcome)
    power = 4 if others <= _EXACT_NUMBERS else 3
    for own, other in ((2, power), (1, 2)) if others else ((2, power),):
        yield tuple(1 if values == 2 else own if name == outcome else other for name, values in sizes.items())
