"""Noise along a line of weights: variance and fourth cumulant of Σ(sₖ − t·dₖ)Zₖ as polynomials in t.

An interval tries many parameters, and each has weights of its own. They lie on a line, so the variance of the noise is
a polynomial of degree 2 in the parameter, and its fourth cumulant one of degree 4: both are worked out once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

__all__ = ["NoiseAlong", "polynomial", "square_of_line", "square_of_parabola"]

Array = NDArray[np.float64]


def polynomial(coefficients: Sequence[Array], at: Array) -> Array:
    """Its value, from the constant up."""
    found = np.asarray(coefficients[-1])
    for one in coefficients[-2::-1]:
        found = found * at + one
    return np.asarray(found)


def square_of_line(start: Array, step: Array, weights: Array | float = 1.0) -> list[Array]:
    """Σ w(s − t·d)² over the last axis, from the constant up."""
    return [(weights * start**2).sum(-1), -2 * (weights * start * step).sum(-1), (weights * step**2).sum(-1)]


def square_of_parabola(constant: Array, linear: Array, square: Array) -> list[Array]:
    """(c + l·t + q·t²)², from the constant up."""
    middle = linear**2 + 2 * constant * square
    return [constant**2, 2 * constant * linear, middle, 2 * linear * square, square**2]


@dataclass(frozen=True)
class NoiseAlong:
    """Variance and fourth cumulant of the noise in Σ(sₖ − t·dₖ)Tₖ, for any t.

    Attributes
    ----------
    start, step
        s and d, along the last axis.
    variances
        Of the noise on every total.
    groups
        Sizes of groups of totals, one after another, with a and b each: the fourth cumulant of a group is a·V² + b·Σv²,
        where v are the variances of its parts and V is their sum.

    Examples
    --------
    >>> line = NoiseAlong(np.array([1.0, 0.0]), np.array([0.0, 2.0]), np.ones(2), ((2, 0.0, 3.0),))
    >>> [one.tolist() for one in line(np.array([0.0, 1.0]))]  # weights (1, 0), then (1, −2)
    [[1.0, 5.0], [3.0, 51.0]]
    """

    start: Array
    step: Array
    variances: Array
    groups: tuple[tuple[int, float, float], ...] = ()

    @cached_property
    def _variance(self) -> list[Array]:
        return square_of_line(self.start, self.step, self.variances)

    @cached_property
    def _fourth(self) -> list[Array]:
        found, begin = [np.zeros(())] * 5, 0
        for size, of_sum, of_parts in self.groups:
            own, begin = slice(begin, begin + size), begin + size
            s, d, v = self.start[..., own], self.step[..., own], self.variances[own]
            parts = square_of_parabola(s**2, -2 * s * d, d**2)
            both = square_of_parabola(*square_of_line(s, d, v))
            found = [
                one + of_sum * pair + of_parts * (v**2 * part).sum(-1)
                for one, pair, part in zip(found, both, parts, strict=True)
            ]
        return found

    def __call__(self, at: Array) -> tuple[Array, Array]:
        """Variance and fourth cumulant at t, whose leading axes are points."""
        return polynomial(self._variance, at), polynomial(self._fourth, at)
