"""Regression moments: joint moments of the columns of a regression in tensor parts, and fits from noisy moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.core.contract import Mechanism
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
from discreet.questions.moment_products import MomentProducts
from discreet.questions.regression_columns import RegressionColumns
from discreet.questions.tensor_parts import TensorParts

__all__ = ["Moments", "RegressionMoments", "first_fit", "knows_squares", "moved_per_row"]

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
        return tuple(degree == 1 for degree in self.degrees)

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
        degree != 2 for name, degree in zip(moments.columns, moments.degrees, strict=True) if name != moments.outcome
    )


def first_fit(of: Moments, mechanism: Mechanism, value: Any, size: int | None, rows_per_unit: int) -> LeastSquares:
    """The fit on all columns from noisy totals."""
    law, totals = mechanism.law(0.0), np.ravel(np.asarray(value, dtype=float))
    shared: dict[str, Any] = {
        "totals": totals, "noise": float(np.max(np.asarray(law.variance))), "size": size, "rows_per_unit": rows_per_unit
    }  # fmt: skip
    moments: LinearMoments | ProductMoments
    if isinstance(of, MomentProducts):
        together = mechanism.dimension if isinstance(mechanism, BoxNoise) else None
        moments = ProductMoments(
            coordinates=of.coordinates, multiplied=np.array(of.weights), together=together, **shared
        )
    else:
        moments = LinearMoments(kurtosis=excess_kurtosis(law), cells=of.cells, degrees=of.degrees, **shared)
    return LeastSquares(moments, tuple(map(of.linear, of.terms(of.on))), of.linear(of.explained))


def moved_per_row(moments: Moments, term: Term) -> Array:
    """How far noise in each total moves a coefficient, times the number of rows.

    Around the middles, in the middle of the bounds or at equal shares, nothing but the slope is moved.
    """
    size = moments.size if isinstance(moments, MomentProducts) else moments.size * moments.cells
    middle = [0.5 if one.label is None else 1 / len(moments.labels[one.column]) for one in (term, moments.explained)]
    around = [
        Linear(function.constants - shift, function.slopes)
        for function, shift in zip(map(moments.linear, (term, moments.explained)), middle, strict=True)
    ]
    if isinstance(moments, MomentProducts):
        read = ProductMoments(
            coordinates=moments.coordinates, totals=np.zeros(size), multiplied=np.array(moments.weights), noise=1.0
        )
        moved = read.weights(*around)[not moments.counted :] / np.array(moments.weights)
    else:
        empty = LinearMoments(totals=np.zeros(size), noise=1.0, cells=moments.cells, degrees=moments.degrees)
        moved = empty.weights(*around)
    return np.asarray(moved * moments.explained.width / (term.width * moments.spread(term) ** 2))
