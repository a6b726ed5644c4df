"""Moments of linear functions of a row, from noisy totals of products of two coordinates.

A coordinate lies between −1 and 1: a number between its bounds, or whether a row has a label (1) or not (−1). The
totals are those of 1, of the coordinates, of their products, and of 2z² − 1 for a number z: all between −1 and 1 too,
so box noise covers them together. Any product of two linear functions is a weighted sum of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.errors import InvalidParameter
from discreet.inference.linear_moments import Linear

__all__ = ["Coordinates", "ProductMoments"]

Array = NDArray[np.float64]
Product = tuple[int, ...]


@dataclass(frozen=True)
class Coordinates:
    """The coordinates of a row, and which products of them have to be measured.

    Attributes
    ----------
    two_valued
        For every number, whether it is one of its bounds: then its square is known.
    labels
        For every column of labels, how many it has; the first is the reference, and has no coordinate.
    outcome
        Position of the coordinate whose square nobody needs.
    """

    two_valued: tuple[bool, ...]
    labels: tuple[int, ...]
    outcome: int

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return len(self.two_valued) + sum(self.labels) - len(self.labels)

    @cached_property
    def column_of(self) -> tuple[int, ...]:
        """For every coordinate, its column: numbers first."""
        numbers = range(len(self.two_valued))
        return (*numbers, *(len(numbers) + c for c, count in enumerate(self.labels) for _ in range(count - 1)))

    @cached_property
    def products(self) -> tuple[Product, ...]:
        """What is measured: () stands for 1, (i,) for a coordinate, (i, j) for a product, (i, i) for 2z² − 1."""
        every = range(self.size)
        squares = [(i, i) for i, known in enumerate(self.two_valued) if not known and i != self.outcome]
        pairs = [(i, j) for j in every for i in range(j) if self.column_of[i] != self.column_of[j]]
        return ((), *((i,) for i in every), *squares, *pairs)

    @cached_property
    def of_cells(self) -> Array:
        """For every combination of labels, the last column varying fastest: 1 and the coordinates of the labels."""
        codes = np.indices(self.labels).reshape(len(self.labels), -1).T if self.labels else np.zeros((1, 0), dtype=int)
        marks = [2.0 * (codes[:, [c]] == np.arange(1, count)) - 1 for c, count in enumerate(self.labels)]
        return np.hstack([np.ones((len(codes), 1)), *marks])

    def known(self, i: int, j: int) -> dict[Product, float] | None:
        """The product of two coordinates in terms of what is measured; None where it is not."""
        if i != j:
            if self.column_of[i] != self.column_of[j]:
                return {(min(i, j), max(i, j)): 1.0}
            return {(i,): -1.0, (j,): -1.0, (): -1.0}  # two labels of a column: a row has at most one of them
        if i >= len(self.two_valued) or self.two_valued[i]:
            return {(): 1.0}
        return None if i == self.outcome else {(i, i): 0.5, (): 0.5}


@dataclass(frozen=True, kw_only=True)
class ProductMoments:
    """Noisy totals of products, read as moments of linear functions.

    Parameters
    ----------
    coordinates
        What the totals are of.
    totals
        One for each of `Coordinates.products`, times its weight; without the first where ``size`` is public.
    multiplied
        By how much each total was multiplied before noise was added.
    noise
        Variance of the noise on each of them.
    together
        For box noise how many numbers share a radius; None for normal noise.
    size
        The public number of rows, or None where it is measured.
    rows_per_unit
        As for `NoisyTotals`.

    Examples
    --------
    >>> one = Coordinates((False, False), (), outcome=1)
    >>> one.products
    ((), (0,), (1,), (0, 0), (0, 1))
    >>> totals = np.array([100.0, 10.0, 20.0, -50.0, 5.0])
    >>> moments = ProductMoments(coordinates=one, totals=totals, multiplied=np.ones(5), noise=1.0)
    >>> number = Linear(np.zeros(1), np.array([2.0, 0.0]))  # 2u = z + 1
    >>> float(moments.total(moments.weights(number, number)))  # Σ z² + 2Σ z + n
    145.0
    """

    coordinates: Coordinates
    totals: Any
    multiplied: Any
    noise: float
    together: int | None = None
    size: int | None = None
    rows_per_unit: float = 1

    @cached_property
    def _totals(self) -> Array:
        found = np.asarray(self.totals, dtype=float) / np.asarray(self.multiplied, dtype=float)
        return found if self.size is None else np.concatenate([[float(self.size)], found])

    @cached_property
    def _noise(self) -> Array:
        found = self.noise / np.asarray(self.multiplied, dtype=float) ** 2
        return np.asarray(found if self.size is None else np.concatenate([[0.0], found]))

    @property
    def rows(self) -> float:
        """Number of rows, known or estimated; at least 1."""
        return max(float(self._totals[0]), 1.0)

    @cached_property
    def _expansion(self) -> NDArray[Any]:
        """Takes the products of all pairs of (1, coordinates) to what is measured."""
        size, places = self.coordinates.size + 1, {one: at for at, one in enumerate(self.coordinates.products)}
        found = np.zeros((len(places), size, size))
        for i in range(size):
            found[places[(i - 1,) if i else ()], i, 0] = found[places[(i - 1,) if i else ()], 0, i] = 1.0
            for j in range(1, size) if i else ():
                for product, share in (self.coordinates.known(i - 1, j - 1) or {}).items():
                    found[places[product], i, j] += share
        return found

    @cached_property
    def _of_cells(self) -> Array:
        return np.asarray(np.linalg.pinv(self.coordinates.of_cells))

    def _vector(self, function: Linear) -> Array:
        """A linear function as weights of 1 and of the coordinates: u = (z + 1)/2."""
        labels = self._of_cells @ function.constants
        return np.concatenate([[labels[0] + function.slopes.sum() / 2], function.slopes / 2, labels[1:]])

    def weights(self, *factors: Linear) -> Array:
        """Weights of the totals that add up the product of one or two linear functions over all rows."""
        first, *rest = (self._vector(one) for one in factors)
        second = rest[0] if rest else np.eye(self.coordinates.size + 1)[0]
        outer, y = np.outer(first, second), self.coordinates.outcome
        if len(rest) > 1 or (outer[y + 1, y + 1] != 0 and self.coordinates.known(y, y) is None):
            raise InvalidParameter("factors", len(factors), "need moments that are not measured", "Measure them.")
        return np.asarray(np.einsum("pij,ij->p", self._expansion, outer))

    def total(self, weights: Array) -> Array:
        """Σ wₖTₖ."""
        return np.asarray((self._totals * weights).sum(axis=-1))

    def noise_of(self, weights: Array) -> tuple[Array, Array]:
        """Variance and fourth cumulant of Σ wₖZₖ (docs/proofs/box_noise.md, section 2)."""
        variances = weights**2 * self._noise
        variance, squares = variances.sum(axis=-1), (variances**2).sum(axis=-1)
        if self.together is None:
            return variance, np.zeros_like(variance)
        k = self.together
        radial = (k + 3) * (k + 4) / ((k + 1) * (k + 2))
        return variance, radial * (3 * variance**2 - 1.2 * squares) - 3 * variance**2
