"""Regression moments: joint moments of the columns of a regression in tensor parts, and fits from noisy moments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.contract.mechanism import Mechanism
from discreet.core.protection import Neighbours
from discreet.core.schema import Contribution
from discreet.core.sensitivity import Sensitivity
from discreet.core.stability import in_parts
from discreet.inference.least_squares import LeastSquares
from discreet.inference.linear_moments import Linear, LinearMoments
from discreet.inference.noise_sum import excess_kurtosis
from discreet.inference.product_moments import ProductMoments
from discreet.mechanisms.box_noise import BoxNoise
from discreet.questions.linear_fit import Term
from discreet.questions.moment_products import MomentBoxes, MomentProducts
from discreet.questions.regression_columns import GUESSED_MEAN, GUESSED_SLOPE, RegressionColumns
from discreet.questions.tensor_parts import TensorParts

__all__ = [
    "Moments", "RegressionMoments", "first_fit", "fit_on", "guessed_noise", "knows_squares", "moved_per_row",
    "read_moments",
]  # fmt: skip

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class RegressionMoments(RegressionColumns, TensorParts):
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
    two_values
        Numbers that have but two values. All of degree 1 do, but perhaps the outcome.

    Examples
    --------
    >>> names = {"columns": ("age", "hours"), "outcome": "hours", "on": ("age",)}
    >>> moments = RegressionMoments(bounds=((0, 90), (0, 60)), degrees=(4, 2), **names)
    >>> moments.size, moments.cells
    (15, 1)
    """

    name: ClassVar[str] = "regression_moments"

    @property
    def two_valued(self) -> tuple[bool, ...]:
        """For every number, whether it has but two values."""
        named = zip(self.columns, self.degrees, strict=True)
        return tuple(name in self.two_values or (degree == 1 and name != self.outcome) for name, degree in named)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.settle(len(self.degrees))

    def sensitivity(self, *, neighbours: Neighbours) -> Sensitivity:
        """How far one row moves the totals."""
        return in_parts(Contribution(groups=1, rows=1), self.cells, self.size, neighbours)

    def parameters(self) -> dict[str, Any]:
        return TensorParts.parameters(self) | self.named()


Moments = RegressionMoments | MomentProducts
"""What a regression may be read from."""


def knows_squares(moments: Moments) -> bool:
    """Whether the totals hold Σ w²e², so that nothing has to be measured after the fit."""
    return isinstance(moments, RegressionMoments) and all(
        two or degree > 2 - (name == moments.outcome)
        for name, degree, two in zip(moments.columns, moments.degrees, moments.two_valued, strict=True)
    )


def read_moments(
    of: Moments, drawn: Sequence[tuple[Mechanism, Any]], size: int | None = None, rows_per_unit: int = 1
) -> LinearMoments | ProductMoments:
    """Noisy totals, from every draw that they were released in."""
    totals = np.concatenate([np.ravel(np.asarray(value, dtype=float)) for _, value in drawn])
    shared: dict[str, Any] = {"totals": totals, "size": size, "rows_per_unit": rows_per_unit}
    laws = [mechanism.law(0.0) for mechanism, _ in drawn]
    if not isinstance(of, MomentProducts):
        noise, kurtosis = float(np.max(np.asarray(laws[0].variance))), excess_kurtosis(laws[0])
        return LinearMoments(noise=noise, kurtosis=kurtosis, cells=of.cells, degrees=of.degrees, **shared)
    boxes = [(one.dimension,) * one.boxes for one, _ in drawn if isinstance(one, BoxNoise)]
    variances = [np.full(np.size(value), float(law.variance)) for law, (_, value) in zip(laws, drawn, strict=True)]
    return ProductMoments(
        coordinates=of.coordinates,
        variances=np.concatenate(variances),
        products_of=of.products_of,
        boxes=tuple(size for each in boxes for size in each),
        **shared,
    )


def first_fit(
    of: Moments, drawn: Sequence[tuple[Mechanism, Any]], size: int | None, rows_per_unit: int
) -> LeastSquares:
    """The fit on all columns from noisy totals."""
    moments = read_moments(of, drawn, size, rows_per_unit)
    return LeastSquares(moments, tuple(map(of.linear, of.terms(of.on))), of.linear(of.explained))


def fit_on(of: Moments, on: Sequence[str], fit: LeastSquares) -> LeastSquares:
    """The fit on some of the columns, from the same totals."""
    return replace(fit, terms=tuple(map(of.linear, of.terms(on))))


def moved_per_row(moments: Moments, term: Term) -> Array:
    """How far noise in each total moves a coefficient, times the number of rows.

    Around the middles, in the middle of the bounds or at equal shares, nothing but the slope is moved.
    """
    pull, left = (_around(moments, one, _middle(moments, one)) for one in (term, moments.explained))
    if isinstance(moments, MomentProducts):
        read = ProductMoments(
            coordinates=moments.coordinates,
            totals=np.zeros(moments.size),
            variances=np.ones(moments.size),
            products_of=moments.products_of,
        )
        moved = read.weights(pull, left) @ moments.products_of
        moved = moved[: 2 * moments.together] if isinstance(moments, MomentBoxes) else moved
    else:
        size = moments.size * moments.cells
        empty = LinearMoments(totals=np.zeros(size), noise=1.0, cells=moments.cells, degrees=moments.degrees)
        moved = empty.weights(pull, left)
    return np.asarray(moved * moments.explained.width / (term.width * moments.spread(term) ** 2))


def guessed_noise(moments: Moments, read: LinearMoments | ProductMoments) -> float:
    """Variance of the noise of all slopes together, relative to sampling, for data as it is guessed to be.

    The guess decides how noise is spread, and no guarantee: numbers lie off the middle of their bounds, and all terms
    have a slope.
    """
    terms = moments.terms(moments.on)[1:]
    means = {one: _middle(moments, one) + (one.label is None) * GUESSED_MEAN / 2 for one in (*terms, moments.explained)}
    centred = {one: _around(moments, one, mean) for one, mean in means.items()}
    fitted = Linear.combined(np.full(len(terms), GUESSED_SLOPE), [centred[one] for one in terms])
    left = centred[moments.explained] - fitted
    weights = np.array([read.weights(centred[term], left) / moments.spread(term) for term in terms])
    return float(read.noise_of(weights)[0].sum())


def _middle(moments: Moments, term: Term) -> float:
    return 0.5 if term.label is None else 1 / len(moments.labels[term.column])


def _around(moments: Moments, term: Term, mean: float) -> Linear:
    found = moments.linear(term)
    return Linear(found.constants - mean, found.slopes)
