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
from discreet.inference.noise_along import NoiseAlong, square_of_parabola
from discreet.inference.noisy_totals import NoisyTotals

__all__ = ["Linear", "LinearMoments"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Linear:
    """A linear function of a row: a constant in every cell, plus a multiple of each number.

    Leading axes are repeats of a simulation, or several functions.
    """

    constants: Array
    slopes: Array

    @classmethod
    def combined(cls, weights: Array, functions: Sequence[Linear]) -> Linear:
        """The weighted sum of some functions."""
        constants, slopes = (
            np.array(each) for each in zip(*((one.constants, one.slopes) for one in functions), strict=True)
        )
        return cls(weights @ constants, weights @ slopes)

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
        found = np.zeros((*np.shape(self.totals)[:-1], len(functions), len(functions)))
        for j, one in enumerate(functions):
            for k, other in enumerate(functions[: j + 1]):
                found[..., j, k] = found[..., k, j] = self.total(self.weights(one, other))
        return found

    def weights_above(self, *factors: Linear) -> Array:
        """The same for a product of two squares, where the fourth power of a number of degree 3 is not measured.

        It is replaced by (2t + 1)u³ − (t² + 2t)u² + t²u, which exceeds u⁴ by u(1 − u)(u − t)² ≥ 0; t is the mean. In a
        product of squares no coefficient of a fourth power is negative, so what is added up is never less than it is.
        """
        return self._weights(factors, above=True)

    def noise_along(self, start: Array, step: Array) -> NoiseAlong:
        """`noise_of` for all weights start − t·step."""
        used = self.used(start), self.used(step)
        return NoiseAlong(*used, self._noise, ((self._noise.size, 0.0, self.kurtosis),))

    def noise_of_parabola(self, constant: Array, linear: Array, square: Array) -> list[Array]:
        """Variance of the noise for weights c + l·t + q·t², as a polynomial in t from the constant up."""
        each = square_of_parabola(self.used(constant), self.used(linear), self.used(square))
        return [(one * self._noise).sum(-1) for one in each]

    def _weights(self, factors: Sequence[Linear], *, above: bool) -> Array:
        powers = np.zeros((self.cells, *(degree + 1 for degree in self.degrees)))
        powers.reshape(self.cells, -1)[:, 0] = 1.0
        for factor in factors:
            powers = self._times(powers, factor, above)
        for axis, degree in self._axes:
            powers = np.moveaxis(np.tensordot(powers, _to_parts(degree), axes=(axis, 1)), -1, axis)
        return powers.reshape(*powers.shape[: -len(self.degrees) - 1], -1)

    @property
    def _axes(self) -> list[tuple[int, int]]:
        """The axis of every number, from the last, and its degree."""
        return [(place - len(self.degrees), degree) for place, degree in enumerate(self.degrees)]

    @cached_property
    def _means(self) -> Array:
        """Means of the numbers, between 0 and 1, along the last axis."""
        numbers = [Linear(np.zeros(self.cells), one) for one in np.eye(len(self.degrees))]
        return np.clip(np.stack([self.total(self.weights(one)) / self.rows for one in numbers], axis=-1), 0.0, 1.0)

    def _times(self, powers: Array, factor: Linear, above: bool) -> Array:
        """The coefficients of a polynomial, multiplied by a linear function."""
        found = powers * _before(factor.constants, len(self.degrees))
        for axis, degree in self._axes:
            slope = factor.slopes[..., axis]
            if not np.any(slope):
                continue
            last = np.take(powers, [degree], axis=axis)
            raised = np.roll(powers, 1, axis=axis)
            if np.any(last):  # the highest power came round to the constant
                raised = raised + last * self._folded(axis, above)
            found = found + _before(slope, len(self.degrees) + 1) * raised
        return found

    def _folded(self, axis: int, above: bool) -> Array:
        """Coefficients of what stands for the first power above the degree, less the constant that came round."""
        degree = self.degrees[axis]
        if degree == 1:
            return _before(np.array([-1.0, 1.0]), -axis - 1)
        if degree == 3 and above:
            t = self._means[..., axis]
            found = np.stack([-np.ones_like(t), t**2, -(t**2) - 2 * t, 2 * t + 1], axis=-1)
            # Repeats come first, then cells and the numbers before this one.
            within = (*found.shape[:-1], *(1,) * (len(self.degrees) + axis + 1), degree + 1)
            return _before(found.reshape(within), -axis - 1)
        raise InvalidParameter("degrees", self.degrees, "are too low for this moment", "Measure higher powers.")


def _before(values: Array, axes: int) -> Array:
    """The same with so many axes of length 1 behind it."""
    return np.reshape(values, (*np.shape(values), *(1,) * axes))
