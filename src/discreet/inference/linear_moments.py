"""Moments of linear functions of a row, from noisy totals in tensor parts.

Rows lie in cells (combinations of labels); in each, the totals are those of all products of Bernstein polynomials of
the numbers, which lie between 0 and 1. Any product of linear functions whose powers stay within the degrees is then a
weighted sum of the totals, and the law of its noise is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from discreet.core.errors import InvalidParameter
from discreet.inference.noisy_totals import NoisyTotals

__all__ = ["Linear", "LinearMoments"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Linear:
    """A linear function of a row: a constant in every cell, plus a multiple of each number."""

    constants: Array
    slopes: Array

    @classmethod
    def combined(cls, weights: Array, functions: Sequence[Linear]) -> Linear:
        """The weighted sum of some functions."""
        constants = np.tensordot(weights, np.array([one.constants for one in functions]), axes=1)
        return cls(constants, np.tensordot(weights, np.array([one.slopes for one in functions]), axes=1))

    def __sub__(self, other: Linear) -> Linear:
        return Linear(self.constants - other.constants, self.slopes - other.slopes)


@cache
def _to_parts(degree: int) -> Array:
    """Takes the coefficients of a polynomial to its weights on the parts: uʲ = Σ (k over j)/(d over j)·bₖ(u)."""
    places = range(degree + 1)
    return np.array([[math.comb(k, j) / math.comb(degree, j) for j in places] for k in places])


@dataclass(frozen=True, kw_only=True)
class LinearMoments(NoisyTotals):
    """Noisy totals in tensor parts by cell, read as moments of linear functions; other parameters as `NoisyTotals`.

    Parameters
    ----------
    cells
        Combinations of labels; the totals are flat, those of the last column varying fastest.
    degrees
        Highest power of every number. A number of degree 1 is 0 or 1, so that its square is itself.

    Examples
    --------
    >>> moments = LinearMoments(totals=np.array([30.0, 10.0]), noise=2.0, cells=1, degrees=(1,))
    >>> number = Linear(np.zeros(1), np.ones(1))
    >>> float(moments.total(moments.weights(number, number)))
    10.0
    """

    cells: int
    degrees: tuple[int, ...]

    def weights(self, *factors: Linear) -> Array:
        """Weights of the totals that add up the product of some linear functions over all rows."""
        return self._weights(factors, above=False)

    def gram(self, functions: Sequence[Linear]) -> Array:
        """Σ f·g over all rows, for all pairs of some linear functions."""
        found = np.zeros((len(functions), len(functions)))
        for j, one in enumerate(functions):
            for k, other in enumerate(functions[: j + 1]):
                found[j, k] = found[k, j] = float(self.total(self.weights(one, other)))
        return found

    def weights_above(self, *factors: Linear) -> Array:
        """The same for a product of two squares, where the fourth power of a number of degree 3 is not measured.

        It is replaced by (2t + 1)u³ − (t² + 2t)u² + t²u, which exceeds u⁴ by u(1 − u)(u − t)² ≥ 0; t is the mean. In a
        product of squares no coefficient of a fourth power is negative, so what is added up is never less than it is.
        """
        return self._weights(factors, above=True)

    def _weights(self, factors: Sequence[Linear], *, above: bool) -> Array:
        powers = np.zeros((self.cells, *(degree + 1 for degree in self.degrees)))
        powers.reshape(self.cells, -1)[:, 0] = 1.0
        for factor in factors:
            powers = self._times(powers, factor, above)
        for axis, degree in enumerate(self.degrees, start=1):
            powers = np.moveaxis(np.tensordot(_to_parts(degree), powers, axes=(1, axis)), 0, axis)
        return powers.ravel()

    @cached_property
    def _means(self) -> Array:
        """Means of the numbers, between 0 and 1."""
        numbers = [Linear(np.zeros(self.cells), one) for one in np.eye(len(self.degrees))]
        return np.array([min(max(float(self.total(self.weights(one)) / self.rows), 0.0), 1.0) for one in numbers])

    def _times(self, powers: Array, factor: Linear, above: bool) -> Array:
        """The coefficients of a polynomial, multiplied by a linear function."""
        found = powers * factor.constants.reshape(-1, *(1,) * len(self.degrees))
        for place, (degree, slope) in enumerate(zip(self.degrees, factor.slopes.tolist(), strict=True)):
            if slope == 0:
                continue
            last = np.take(powers, [degree], axis=place + 1)
            raised = np.roll(powers, 1, axis=place + 1)
            if np.any(last):  # the highest power came round to the constant
                folded = self._folded(place, above).reshape(-1, *(1,) * (len(self.degrees) - place - 1))
                raised = raised + last * folded
            found = found + slope * raised
        return found

    def _folded(self, place: int, above: bool) -> Array:
        """Coefficients of what stands for the first power above the degree, less the constant that came round."""
        degree, t = self.degrees[place], float(self._means[place]) if above else 0.0
        if degree == 1:
            return np.array([-1.0, 1.0])
        if degree == 3 and above:
            return np.array([-1.0, t**2, -(t**2) - 2 * t, 2 * t + 1])
        raise InvalidParameter("degrees", self.degrees, "are too low for this moment", "Measure higher powers.")
