"""Moments of linear functions of a row, from noisy totals of products of two coordinates.

A coordinate lies between −1 and 1: a number between its bounds, or whether a row has a label (1) or not (−1). The
totals are those of 1, of the coordinates, of their products, and of 2z² − 1 for a number z: all between −1 and 1 too.
Any product of two linear functions is a weighted sum of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from discreet.core.errors import InvalidParameter
from discreet.inference.linear_moments import Linear
from discreet.inference.noise_along import NoiseAlong

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
    def in_boxes(self) -> Array:
        """Takes the products to three boxes: (1 − y)(1, z) and y(1, z) for the others z, and what is without outcome.

        The outcome y is between 0 and 1 here, so a row adds to the first two boxes 1 in all, by their largest moves.
        """
        places = {one: at for at, one in enumerate(self.products)}
        others = [(), *((i,) for i in range(self.size) if i != self.outcome)]
        found = np.zeros((len(places), len(places)))
        for at, one in enumerate(others):
            with_outcome = places[tuple(sorted((*one, self.outcome)))]
            found[[at, at + self.size], places[one]] = 0.5
            found[[at, at + self.size], with_outcome] = -0.5, 0.5
        rest = [one for one in self.products if len(one) == 2 and self.outcome not in one]
        for at, one in enumerate(rest, start=2 * self.size):
            found[at, places[one]] = 1.0
        return found

    @cached_property
    def of_cells(self) -> Array:
        """For every combination of labels, the last column varying fastest: 1 and the coordinates of the labels."""
        codes = np.indices(self.labels).reshape(len(self.labels), -1).T if self.labels else np.zeros((1, 0), dtype=int)
        marks = [2.0 * (codes[:, [c]] == np.arange(1, count)) - 1 for c, count in enumerate(self.labels)]
        return np.hstack([np.ones((len(codes), 1)), *marks])

    @cached_property
    def from_cells(self) -> Array:
        """Takes a number per combination of labels to weights of 1 and of the coordinates of the labels."""
        return np.asarray(np.linalg.pinv(self.of_cells))

    @cached_property
    def expansion(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Array]:
        """Products of pairs of (1, coordinates) in terms of what is measured: which, of which pair, how much.

        In the order of what is measured, which all occur.
        """
        places, found = {one: at for at, one in enumerate(self.products)}, []
        for i, j in product(range(self.size + 1), repeat=2):
            single = {tuple(k - 1 for k in (i, j) if k): 1.0}
            known = (self.known(i - 1, j - 1) or {}) if i and j else single
            found += [(places[one], i, j, share) for one, share in known.items()]
        which, first, second, shares = zip(*sorted(found), strict=True)
        return np.array(which), np.array(first), np.array(second), np.array(shares)

    @cached_property
    def to_pairs(self) -> Array:
        """Takes what is measured to the products of all pairs of (1, coordinates), one after another."""
        (which, i, j, shares), size = self.expansion, self.size + 1
        found = np.zeros((len(self.products), size**2))
        found[which, i * size + j] = shares
        return found

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
    totals, variances
        What was released, along the last axis, and the variance of the noise on each of them. Leading axes are repeats
        of a simulation.
    products_of
        Takes the totals to `Coordinates.products`.
    boxes
        Sizes of the boxes that share a radius, one after another, for box noise; none for normal noise.
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
    >>> moments = ProductMoments(coordinates=one, totals=totals, variances=np.ones(5), products_of=np.eye(5))
    >>> number = Linear(np.zeros(1), np.array([2.0, 0.0]))  # 2u = z + 1
    >>> float(moments.total(moments.weights(number, number)))  # Σ z² + 2Σ z + n
    145.0
    """

    coordinates: Coordinates
    totals: Array
    variances: Array
    products_of: Array
    boxes: tuple[int, ...] = ()
    size: int | None = None
    rows_per_unit: float = 1

    @cached_property
    def _products_of(self) -> Array:
        """The same, without what is measured of a public number of rows."""
        known = np.arange(len(self.products_of)) == 0 if self.size is not None else False
        return np.where(np.reshape(known, (-1, 1)), 0.0, self.products_of)

    @cached_property
    def _totals(self) -> Array:
        found = self.totals @ self._products_of.T
        if self.size is not None:
            found[..., 0] = self.size
        return np.asarray(found)

    @property
    def rows(self) -> Array:
        """Number of rows, known or estimated; at least 1."""
        return np.asarray(np.maximum(self._totals[..., 0], 1.0))

    def _vector(self, function: Linear) -> Array:
        """A linear function as weights of 1 and of the coordinates: u = (z + 1)/2."""
        labels = function.constants @ self.coordinates.from_cells.T
        constant = labels[..., :1] + function.slopes.sum(axis=-1, keepdims=True) / 2
        return np.concatenate([constant, function.slopes / 2, labels[..., 1:]], axis=-1)

    def weights(self, *factors: Linear) -> Array:
        """Weights of the totals that add up the product of one or two linear functions over all rows."""
        first, *rest = (self._vector(one) for one in factors)
        second = rest[0] if rest else np.eye(self.coordinates.size + 1)[0]
        y = self.coordinates.outcome
        square = np.any(first[..., y + 1] * second[..., y + 1])
        if len(rest) > 1 or (square and self.coordinates.known(y, y) is None):
            raise InvalidParameter("factors", len(factors), "need moments that are not measured", "Measure them.")
        which, i, j, shares = self.coordinates.expansion
        each = shares * first[..., i] * second[..., j]
        return np.asarray(np.add.reduceat(each, np.searchsorted(which, np.arange(len(self.products_of))), axis=-1))

    def gram(self, functions: Sequence[Linear]) -> Array:
        """Σ f·g over all rows, for all pairs of linear functions without outcome."""
        vectors = np.array([self._vector(one) for one in functions])
        size = self.coordinates.size + 1
        every = (self._totals @ self.coordinates.to_pairs).reshape(*self._totals.shape[:-1], size, size)
        return np.asarray(vectors @ every @ vectors.T)

    def total(self, weights: Array) -> Array:
        """Σ wₖTₖ."""
        return np.asarray((self._totals * weights).sum(axis=-1))

    def noise_of(self, weights: Array) -> tuple[Array, Array]:
        """Variance and fourth cumulant of the noise in Σ wₖTₖ."""
        return self.noise_along(weights, np.zeros_like(weights))(np.zeros(()))

    def noise_along(self, start: Array, step: Array) -> NoiseAlong:
        """`noise_of` for all weights start − t·step (docs/proofs/box_noise.md, section 2)."""
        radial = [(k, (k + 3) * (k + 4) / ((k + 1) * (k + 2))) for k in self.boxes]
        groups = tuple((k, 3 * one - 3, -1.2 * one) for k, one in radial)
        return NoiseAlong(start @ self._products_of, step @ self._products_of, self.variances, groups)
