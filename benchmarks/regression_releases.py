"""Releases of regressions by simulation: the totals of a sample in memory, noise of the question's own mechanisms."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet import Bounds, Schema
from discreet.core.door import Step
from discreet.core.guarantee import Guarantee
from discreet.inference.least_squares import LeastSquares, MeasuredSquares
from discreet.questions.moment_products import MomentBoxes, MomentProducts
from discreet.questions.regression import RegressionQuestion
from discreet.questions.regression_moments import Moments, first_fit

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Simulation:
    """A regression of the last of some columns, which lie between 0 and 1, on the others."""

    two_values: tuple[bool, ...]
    guarantee: Guarantee

    @cached_property
    def question(self) -> RegressionQuestion:
        """What a session would be asked."""
        names = [f"x{place}" for place in range(len(self.two_values) - 1)]
        grids = [1.0 if two else 2.0**-20 for two in self.two_values]
        columns = {name: Bounds(0.0, 1.0, grid=grid) for name, grid in zip((*names, "y"), grids, strict=True)}
        return RegressionQuestion(Schema(columns=columns), "y", names, self.guarantee)

    @cached_property
    def moments(self) -> Moments:
        """What is measured."""
        return cast(Moments, self.question.measurement.statistic)

    @cached_property
    def _steps(self) -> tuple[Step, ...]:
        return tuple(self.question.claim(None).steps) if self.question.several_steps else ()

    def totals(self, rows: Array) -> Array:
        """The exact totals of a sample, outcome last."""
        of = self.moments
        if not isinstance(of, MomentProducts):
            axes = [_parts(values, degree) for values, degree in zip(rows.T, of.degrees, strict=True)]
            *front, last = axes
            joined = reduce(lambda one, other: (one[:, :, None] * other[:, None, :]).reshape(len(rows), -1), front)
            return np.ravel(joined.T @ last)
        z = np.column_stack([np.ones(len(rows)), 2 * rows - 1])
        every = z.T @ z
        found = [every[tuple(([0, 0] + [place + 1 for place in one])[-2:])] for one in of.coordinates.products]
        squares = [len(one) == 2 and one[0] == one[1] for one in of.coordinates.products]
        products = np.where(squares, 2 * np.array(found) - len(rows), found)
        return of.coordinates.in_boxes @ products if isinstance(of, MomentBoxes) else np.array(of.weights) * products

    def fit(self, totals: Array, rows: Array, rng: np.random.Generator) -> LeastSquares:
        """What a reader of the release knows."""
        of, found = self.moments, self.question.measurement
        steps = self._steps[:-1]
        mechanisms = [step.mechanism for step in steps] or [found.mechanism]
        values = of.apart(totals) if isinstance(of, MomentBoxes) else [totals]
        drawn: list[Any] = [
            (one, np.asarray(one.law(value).sample(rng=rng))) for one, value in zip(mechanisms, values, strict=True)
        ]
        fit = first_fit(of, drawn, None, 1)
        if not self._steps:
            return fit
        pulls, reaches, cut = MeasuredSquares.pulls(fit)
        design = np.column_stack([np.ones(len(rows)), rows[:, :-1]])
        left = np.minimum(((rows[:, -1] - design @ fit.coefficients) / cut) ** 2, 1.0) * 2 - 1
        along = np.minimum((design @ (pulls / reaches[:, None]).T) ** 2, 1.0) * 2 - 1
        law = self._steps[-1].mechanism.law(left @ along)
        measured = MeasuredSquares(fit, np.asarray(law.sample(rng=rng)), float(np.max(law.variance)))
        return replace(fit, squares=measured)


def _parts(values: Array, degree: int) -> Array:
    """Bernstein polynomials, one column each."""
    return np.stack(
        [math.comb(degree, k) * values**k * (1 - values) ** (degree - k) for k in range(degree + 1)], axis=1
    )
