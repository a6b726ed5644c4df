"""Releases of regressions by simulation: the totals of a sample in memory, noise of the question's own mechanisms."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import cast

import numpy as np
from numpy.typing import NDArray

from discreet import Bounds, Schema
from discreet.core.door import Step
from discreet.core.guarantee import Guarantee
from discreet.inference.least_squares import LeastSquares, MeasuredSquares
from discreet.mechanisms.mechanism import Mechanism, mechanism_of
from discreet.questions.regression.linear import RegressionQuestion
from discreet.questions.regression.moments import MomentBoxes, MomentProducts, Moments, first_fit, fit_on

Array = NDArray[np.float64]
_AT_ONCE = 1_000
"""Rows of a sample whose polynomials stay in the processor's cache."""


@dataclass(frozen=True)
class Simulation:
    """A regression of the last of some columns, which lie between 0 and 1, on the others.

    Rows have a 1, the numbers and the outcome along the last axis. Samples are axes in front of them.
    """

    two_values: tuple[bool, ...]
    guarantee: Guarantee
    models: tuple[tuple[str, ...], ...] = ()

    @cached_property
    def question(self) -> RegressionQuestion:
        """What a session would be asked."""
        names = [f"x{place}" for place in range(len(self.two_values) - 1)]
        grids = [1.0 if two else 2.0**-20 for two in self.two_values]
        columns = {name: Bounds(0.0, 1.0, grid=grid) for name, grid in zip((*names, "y"), grids, strict=True)}
        whole, schema = self.guarantee, Schema(columns=columns)
        return RegressionQuestion(schema, "y", names, guarantee=whole, models=self.models, beyond=False)

    @cached_property
    def moments(self) -> Moments:
        """What is measured."""
        return cast(Moments, self.question.measurement.statistic)

    @cached_property
    def _steps(self) -> tuple[Step, ...]:
        return tuple(self.question.claim(None).steps) if self.question.several_steps else ()

    def totals(self, rows: Array) -> Array:
        """The exact totals of samples."""
        of = self.moments
        if not isinstance(of, MomentProducts):
            return np.asarray(sum(_totals_in_parts(piece, of.degrees) for piece in _pieces(rows)))
        z = 2 * rows - 1
        every, n = np.swapaxes(z, -1, -2) @ z, rows.shape[-2]
        products = of.coordinates.products
        first, second = np.array([([0, 0] + [place + 1 for place in one])[-2:] for one in products]).T
        squares = [len(one) == 2 and one[0] == one[1] for one in products]
        found = np.where(squares, 2 * every[..., first, second] - n, every[..., first, second])
        return found @ of.coordinates.in_boxes.T if isinstance(of, MomentBoxes) else np.array(of.weights) * found

    @cached_property
    def _draws(self) -> list[tuple[Mechanism, Array]]:
        """The mechanism of every draw before the last step, and as many zeros as it has numbers."""
        of = self.moments
        mechanisms = [mechanism_of(step) for step in self._steps[:-1]] or [self.question.measurement.mechanism]
        zeros = np.zeros(of.size * (1 if isinstance(of, MomentProducts) else of.cells))
        values = of.apart(zeros) if isinstance(of, MomentBoxes) else [zeros]
        return list(zip(mechanisms, values, strict=True))

    @cached_property
    def _empty(self) -> LeastSquares:
        return first_fit(self.moments, self._draws, None, 1)

    def fit(self, totals: Array, rows: Array, rng: np.random.Generator) -> LeastSquares:
        """What a reader of the release knows; leading axes of totals and rows are repeats."""
        return self.fits(totals, rows, rng)[0]

    def fits(self, totals: Array, rows: Array, rng: np.random.Generator) -> list[LeastSquares]:
        """The same for the whole model and every smaller one that was named."""
        repeats, of = totals.shape[:-1], self.moments
        noise = np.concatenate([np.asarray(one.law(zeros).sample(repeats, rng=rng)) for one, zeros in self._draws], -1)
        whole = replace(self._empty, moments=replace(self._empty.moments, totals=totals + noise))
        models = [of.on, *self.question.smaller]
        found = [fit_on(of, on, whole) for on in models]
        if not self._steps:
            return found
        numbers = [[0, *(1 + of.columns.index(name) for name in on)] for on in models]
        exact = [_exact_squares(one, rows, places) for one, places in zip(found, numbers, strict=True)]
        law = mechanism_of(self._steps[-1]).law(np.zeros(sum(map(len, numbers))))
        drawn = np.concatenate(exact, axis=-1) + np.asarray(law.sample(repeats, rng=rng))
        each = np.split(drawn, np.cumsum([len(places) for places in numbers])[:-1], axis=-1)
        variance = float(np.max(law.variance))
        return [replace(one, squares=MeasuredSquares(one, own, variance)) for one, own in zip(found, each, strict=True)]


def _exact_squares(fit: LeastSquares, rows: Array, places: Sequence[int]) -> Array:
    """What the last step measures of a fit on some of the columns, the first of which are 1."""
    pulls, reaches, cut = MeasuredSquares.pulls(fit)
    repeats, width = fit.coefficients.shape[:-1], rows.shape[-1]
    along, residual = np.zeros((*repeats, width, len(places))), np.zeros((*repeats, width))
    along[..., places, :] = np.moveaxis(pulls / reaches[..., None], 0, -1)
    residual[..., places], residual[..., -1] = -fit.coefficients, 1.0
    residual /= np.asarray(cut)[..., None]
    return np.asarray(sum(_squares(piece, along, residual) for piece in _pieces(rows)))


def _pieces(rows: Array) -> Iterator[Array]:
    return (rows[..., start : start + _AT_ONCE, :] for start in range(0, rows.shape[-2], _AT_ONCE))


def _squares(rows: Array, along: Array, residual: Array) -> Array:
    """Totals of (2(w·z)² − 1)(2e² − 1), where e² is at most 1."""
    left = 2 * np.minimum((rows @ residual[..., None])[..., 0] ** 2, 1.0) - 1
    pulled = rows @ along
    pulled *= pulled
    return np.asarray(2 * (left[..., None, :] @ pulled)[..., 0, :] - left.sum(axis=-1, keepdims=True))


def _totals_in_parts(rows: Array, degrees: Sequence[int]) -> Array:
    """Totals of all products of Bernstein polynomials."""
    *front, last = (_parts(rows[..., place], degree) for place, degree in enumerate(degrees, start=1))
    shape = (*rows.shape[:-2], -1, rows.shape[-2])
    joined = reduce(lambda one, other: (one[..., :, None, :] * other[..., None, :, :]).reshape(shape), front)
    return np.reshape(joined @ np.swapaxes(last, -1, -2), (*rows.shape[:-2], -1))


def _parts(values: Array, degree: int) -> Array:
    """Bernstein polynomials, one row each."""
    u = np.ascontiguousarray(values)
    powers, others = ([np.ones_like(u)] for _ in range(2))
    for _ in range(degree):
        powers.append(powers[-1] * u)
        others.append(others[-1] * (1 - u))
    return np.stack([math.comb(degree, k) * powers[k] * others[degree - k] for k in range(degree + 1)], axis=-2)
