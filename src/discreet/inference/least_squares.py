"""Least squares from noisy moments: coefficients, intervals and tests that account for noise and for any errors.

With ŝ and Ŝ the noisy moments of z·y and z·zᵀ, the coefficients solve Ŝb = ŝ. For the true β of the population,
ŝ − Ŝβ = Σ z·e + noise, where e = y − β·z: a sum of mean zero whose variance is known up to Σ(w·z)²e², which the totals
hold too. An interval covers every value under which that sum lies within its quantiles, as Fieller's does for a ratio.
So errors may be skewed and have any variance, and where noise leaves nothing to divide by, the interval has no end.
Proof: ``docs/proofs/regression.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from itertools import product
from statistics import NormalDist
from typing import Any, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from discreet.core.errors import InvalidParameter
from discreet.core.noise.sampler import Floats, plain
from discreet.inference.moments import UNSEEN
from discreet.inference.noise import NoisyTotals
from discreet.results.display import Facts, Result

# ---- Noise along a line of weights: variance and fourth cumulant of Σ(sₖ − t·dₖ)Zₖ as polynomials in t
#
# An interval tries many parameters, and each has weights of its own. They lie on a line, so the variance of the noise
# is
# a polynomial of degree 2 in the parameter, and its fourth cumulant one of degree 4: both are worked out once.


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


# ---- Moments of linear functions of a row, from noisy totals in tensor parts
#
# Rows lie in cells (combinations of labels); in each, the totals are those of all products of Bernstein polynomials of
# the numbers, which lie between 0 and 1. Any product of linear functions whose powers stay within the degrees is then a
# weighted sum of the totals, and the law of its noise is known.


@dataclass(frozen=True)
class Linear:
    """A linear function of a row: a constant in every cell, plus a multiple of each number.

    ``own`` holds what the slopes are more in each cell, where they differ between cells. Leading axes are repeats of a
    simulation, or several functions.
    """

    constants: Array
    slopes: Array
    own: Array | None = None

    @property
    def by_cell(self) -> Array:
        """The slopes in every cell: cells and numbers are the last two axes."""
        shared = np.asarray(self.slopes)[..., None, :]
        return shared if self.own is None else shared + self.own

    @classmethod
    def combined(cls, weights: Array, functions: Sequence[Linear]) -> Linear:
        """The weighted sum of some functions."""
        constants, slopes = (
            np.array(each) for each in zip(*((one.constants, one.slopes) for one in functions), strict=True)
        )
        owned = [(place, one.own) for place, one in enumerate(functions) if one.own is not None]
        own = None
        if owned:
            places, each = zip(*owned, strict=True)
            own = np.tensordot(weights[..., list(places)], np.array(each), axes=1)
        return cls(weights @ constants, weights @ slopes, own)

    def __sub__(self, other: Linear) -> Linear:
        own = self.own
        if other.own is not None:
            own = (0.0 if own is None else own) - other.own
        return Linear(self.constants - other.constants, self.slopes - other.slopes, own)


def noise_of_slopes(
    read: LinearMoments | ProductMoments,
    terms: Sequence[Linear],
    outcome: Linear,
    inverse: Array,
    slope: float,
) -> float:
    """Variance of the noise of all slopes together, relative to sampling, where terms lie about 0 and have a slope.

    ``inverse`` is that of the covariances of the terms.
    """
    left = outcome - Linear.combined(np.full(len(terms), slope), terms)
    pulls = [Linear.combined(row, terms) for row in inverse]
    spreads = 1 / np.sqrt(np.diag(inverse))
    weights = np.array([read.weights(one, left) * spread for one, spread in zip(pulls, spreads, strict=True)])
    return float(read.noise_of(weights)[0].sum())


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

    def gram(self, functions: Sequence[Linear], *weight: Linear) -> Array:
        """Σ f·g over all rows, weighted or not, for all pairs of some linear functions."""
        found = np.zeros((*np.shape(self.totals)[:-1], len(functions), len(functions)))
        for j, one in enumerate(functions):
            for k, other in enumerate(functions[: j + 1]):
                found[..., j, k] = found[..., k, j] = self.total(self.weights(one, other, *weight))
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
    def means(self) -> Array:
        """Means of the numbers, between 0 and 1, along the last axis."""
        numbers = [Linear(np.zeros(self.cells), one) for one in np.eye(len(self.degrees))]
        return np.clip(np.stack([self.total(self.weights(one)) / self.rows for one in numbers], axis=-1), 0.0, 1.0)

    def _times(self, powers: Array, factor: Linear, above: bool) -> Array:
        """The coefficients of a polynomial, multiplied by a linear function."""
        found = powers * _before(factor.constants, len(self.degrees))
        for axis, degree in self._axes:
            slope = factor.by_cell[..., axis]
            if not np.any(slope):
                continue
            last = np.take(powers, [degree], axis=axis)
            raised = np.roll(powers, 1, axis=axis)
            if np.any(last):  # the highest power came round to the constant
                raised = raised + last * self._folded(axis, above)
            found = found + _before(slope, len(self.degrees)) * raised
        return found

    def _folded(self, axis: int, above: bool) -> Array:
        """Coefficients of what stands for the first power above the degree, less the constant that came round."""
        degree = self.degrees[axis]
        if degree == 1:
            return _before(np.array([-1.0, 1.0]), -axis - 1)
        if degree == 3 and above:
            t = self.means[..., axis]
            found = np.stack([-np.ones_like(t), t**2, -(t**2) - 2 * t, 2 * t + 1], axis=-1)
            # Repeats come first, then cells and the numbers before this one.
            within = (*found.shape[:-1], *(1,) * (len(self.degrees) + axis + 1), degree + 1)
            return _before(found.reshape(within), -axis - 1)
        raise InvalidParameter("degrees", self.degrees, "are too low for this moment", "Measure higher powers.")


def _before(values: Array, axes: int) -> Array:
    """The same with so many axes of length 1 behind it."""
    return np.reshape(values, (*np.shape(values), *(1,) * axes))


# ---- Moments of linear functions of a row, from noisy totals of products of two coordinates
#
# A coordinate lies between −1 and 1: a number between its bounds, or whether a row has a label (1) or not (−1). The
# totals are those of 1, of the coordinates, of their products, and of 2z² − 1 for a number z: all between −1 and 1 too.
# Any product of two linear functions is a weighted sum of them.


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
        """The measured products: () stands for 1, (i,) for a coordinate, (i, j) for a product, (i, i) for 2z² − 1."""
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
        """Products of pairs of (1, coordinates) by what is measured, with its place, the pair and how much.

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

    @property
    def means(self) -> Array:
        """Means of the numbers, between 0 and 1, along the last axis."""
        numbers = len(self.coordinates.two_valued)
        return np.asarray(np.clip((self._totals[..., 1 : numbers + 1] / self.rows[..., None] + 1) / 2, 0.0, 1.0))

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

    def gram(self, functions: Sequence[Linear], *weight: Linear) -> Array:
        """Σ f·g over all rows, for all pairs of linear functions without outcome; products know no weights."""
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


_FURTHEST = 2.0**20
"""An interval that reaches so many standard errors has no end."""
_ROUNDS, _POINTS, _NEWTON = 4, 33, 12
CAUTION = 0.5
"""The number of standard deviations of its noise that are added to a measured fourth moment."""
_HIDDEN = 3.0
"""Standard errors of the noise below which nothing is known of how much a term varies."""


@dataclass(frozen=True)
class JointTest(Result):
    """A test of several restrictions at once.

    Attributes
    ----------
    statistic, df, pvalue
        A quadratic form, the number of restrictions, and how likely it is to be that large under the hypothesis.
    """

    statistic: float
    df: int
    pvalue: float

    def heading(self) -> str:
        return "Joint test"

    def facts(self) -> Facts:
        return [("statistic", f"{self.statistic:.4g}"), ("df", str(self.df)), ("p-value", f"{self.pvalue:.3g}")]

    def to_dict(self) -> dict[str, Any]:
        """The test as JSON-ready data."""
        return asdict(self)


@dataclass(frozen=True)
class LeastSquares:
    """The best linear description of an outcome by some terms.

    Leading axes of the totals are repeats of a simulation: coefficients, errors, intervals and p-values have them too.

    Attributes
    ----------
    moments
        What was released.
    terms, outcome
        Linear functions of a row. The first term is the constant.
    squares
        What was measured of Σ(w·z)²e² after a fit on at least these terms; None where ``moments`` hold it.
    places
        Of the terms, among those of that fit.
    weights
        The weight of a row, where there is one: a linear function between 0 and 1; or one in each stratum, where they
        were made to add up to its population.
    """

    moments: LinearMoments | ProductMoments
    terms: tuple[Linear, ...]
    outcome: Linear
    squares: MeasuredSquares | None = None
    places: tuple[int, ...] = ()
    weights: tuple[Linear, ...] = ()

    @cached_property
    def weight(self) -> tuple[Linear, ...]:
        """The weight of a row, in whatever stratum it is."""
        return (Linear.combined(np.ones(len(self.weights)), self.weights),) if self.weights else ()

    @property
    def _known(self) -> LinearMoments:
        """The moments of weighted rows, which are never products."""
        return cast(LinearMoments, self.moments)

    def _moved(self, *factors: Linear) -> Array:
        """Weights of the noise in the sum of a product over weighted rows.

        Where weights add up to the population of a stratum, noise in its weights moves only what differs from its mean.
        """
        found = self.moments.weights(*factors, *self.weight)
        for own in self.weights if len(self.weights) > 1 else ():
            each, total = self.moments.weights(own), self.moments.total(self.moments.weights(*factors, own))
            found = found - (total / self._known.at_least_noise(each))[..., None] * each
        return found

    @cached_property
    def _matrix(self) -> Array:
        return self.moments.gram(self.terms, *self.weight)

    @cached_property
    def mass(self) -> Array:
        """Σ of the weights over all rows, at least one deviation of its noise; without weights the number of rows."""
        if not self.weight:
            return self.moments.rows
        return self._known.at_least_noise(self.moments.weights(*self.weight))

    @cached_property
    def _inverse(self) -> Array:
        try:
            return np.asarray(np.linalg.inv(self._matrix))
        except np.linalg.LinAlgError:  # a label without rows, and next to no noise
            return np.asarray(np.linalg.pinv(self._matrix, hermitian=True))

    @cached_property
    def means(self) -> Array:
        """The mean of every term; of the constant 1."""
        return np.asarray(self._matrix[0] / max(float(self._matrix[0, 0]), 1.0))

    def blamed(self) -> list[str]:
        """For every term, what keeps its coefficient from being known: that it is ``"narrow"``, so that noise hides how
        much it varies; or goes ``"along"`` with others that are not, so that noise hides how much it varies beside
        them; or "".
        """
        every = range(1, len(self.terms))
        constant = [Linear.combined(self.means[place : place + 1], self.terms[:1]) for place in every]
        found = ["", *("" if self._surely(self.terms[k] - constant[k - 1]) else "narrow" for k in every)]
        wide = [place for place, told in enumerate(found) if not told]
        terms = tuple(self.terms[place] for place in wide)
        for place, row in zip(wide[1:], replace(self, terms=terms, squares=None)._inverse[1:], strict=True):
            # What the other terms leave of a term is its pull, divided by its own weight in it.
            left = Linear.combined(row / (row[wide.index(place)] or 1.0), terms)
            found[place] = "" if self._surely(left) else "along"
        return found

    def _surely(self, function: Linear) -> bool:
        """Whether it surely varies: noise alone would hardly ever make so large a sum of its squares."""
        weights = self.moments.weights(function, function, *self.weight)
        return bool(self.moments.total(weights) >= _HIDDEN * np.sqrt(self.moments.noise_of(weights)[0]))

    @cached_property
    def coefficients(self) -> Array:
        """One per term."""
        weights = self.moments.weights
        products = [self.moments.total(weights(one, self.outcome, *self.weight)) for one in self.terms]
        return np.asarray((self._inverse @ np.stack(products, axis=-1)[..., None])[..., 0])

    @property
    def rows(self) -> Floats:
        """Number of rows, known or estimated."""
        return plain(self.moments.rows if self.moments.size is None else self.moments.size)

    @cached_property
    def residual_variance(self) -> float:
        """Σe²/(n − k), at least 0; of weighted squares their mean times n/(n − k)."""
        return float(max(self._left, 0.0) / self._free * self.moments.rows / self.mass)

    @cached_property
    def _left(self) -> float:
        """Σe²."""
        if self.squares is not None:
            more = self.squares.fit._described - self._described
            return self.squares.left + more
        residual = self._residual(self.coefficients)
        return float(self.moments.total(self.moments.weights(residual, residual, *self.weight)))

    @cached_property
    def _described(self) -> float:
        """Σ(b·z − mean)²: what the terms describe of the outcome's squares."""
        mean = np.eye(len(self.terms))[0] * float(self.coefficients @ self._matrix[0]) / self._matrix[0, 0]
        centred = self.coefficients - mean
        return float(centred @ self._matrix @ centred)

    @cached_property
    def r_squared(self) -> float:
        """The share of the outcome's variance that the terms describe, from 0 to 1; 0 where noise leaves none."""
        if self.squares is not None:
            described = max(self._described, 0.0)
            return described / max(described + max(self._left, 0.0), 1e-300)
        mean = float(self.moments.total(self.moments.weights(self.outcome, *self.weight)) / self.mass)
        centred = self.outcome - Linear(np.full_like(self.outcome.constants, mean), np.zeros_like(self.outcome.slopes))
        spread = float(self.moments.total(self.moments.weights(centred, centred, *self.weight)))
        return min(max(1 - self._left / spread, 0.0), 1.0) if spread > 0 else 0.0

    def _residual(self, coefficients: Array) -> Linear:
        return self.outcome - Linear.combined(coefficients, self.terms)

    def _cautious(self, weights: Array) -> Array:
        """A total of squares, at least 0, plus a part of the standard deviation of its noise."""
        noise, _ = self.moments.noise_of(weights)
        return np.asarray(np.maximum(self.moments.total(weights), 0.0) + CAUTION * np.sqrt(noise))

    @property
    def _free(self) -> Floats:
        """Rows less terms, at least 1."""
        return plain(np.maximum(self.rows - len(self.terms), 1.0))

    @property
    def _sampled(self) -> Floats:
        """The factor of a measured square: the rows of a unit may move together, and k terms were fitted."""
        return self.moments.rows_per_unit * self.rows / self._free

    def _spread(self, along: Array) -> Callable[[Array], tuple[Array, Array]]:
        """Variance, and fourth cumulant, of the estimate of ``along``·β where the truth is off it by so much."""
        pulled = self._inverse @ along
        reach = pulled @ along
        pull = Linear.combined(pulled, self.terms)
        left = self._residual(self.coefficients)
        noise = self.moments.noise_along(self._moved(pull, left), self._moved(pull, pull) / reach[..., None])
        sampled = self._squares(pulled, pull, left)
        unseen = self._unseen(pull, reach)

        def spread(off: Array) -> tuple[Array, Array]:
            variance, fourth = noise(off)
            # Tails that are lighter than those of a normal law count as if they were not.
            sampling = self._sampled * (sampled(off / reach) + unseen(off))
            return np.maximum(variance, 0.0) + sampling, np.maximum(fourth, 0.0)

        return spread

    def _unseen(self, pull: Linear, reach: Array) -> Callable[[Array], Array]:
        """Σ(w·z)²e² of outcomes that the sample may not have: those that take the mean to where the truth is off.

        Where a level has no yes among its rows, its residuals say nothing of how far another sample would move. The
        truth is off by c where the mean of a row's outcome differs by (c/Σ(w·z)²)(w·z): so many outcomes lie at an end
        of the bounds instead. Of a kind of which six rows are expected, a sample has one (but for e⁻⁶ = 0.25 %).
        """
        square = np.maximum(np.asarray(reach), 1e-300)  # Σ(w·z)², since w is the row of the inverse matrix
        weight, lean = self._weights_of(pull, square)
        total = self.moments.total(self.moments.weights(self.outcome, *self.weight))
        mean = np.clip(total / self.mass, 0.0, 1.0)
        # Up to the upper end go outcomes of rows with w·z > 0 where the truth is above, and of the others where below.
        above = (1 + lean) / 2 * (1 - mean) ** 2 + (1 - lean) / 2 * mean**2
        below = (1 - lean) / 2 * (1 - mean) ** 2 + (1 + lean) / 2 * mean**2
        most = UNSEEN * weight**2
        return lambda off: np.asarray(np.where(off > 0, above, below) * np.minimum(np.abs(off) * weight, most))

    def _weights_of(self, pull: Linear, square: Array) -> tuple[Array, Array]:
        """The size of |w·z| in the rows that count, Σ|w·z|³ ≤ size·Σ(w·z)², and how far these lean to w·z > 0.

        From measured fourth and third moments; where they were not measured, from the labels, whose cells are known,
        and for numbers as if they were normal. With weights u: Σu²|w·z|³ ≤ √(Σu²(w·z)²·Σu²(w·z)⁴) = size·Σu(w·z)².
        """
        rows, largest = self.moments.rows, reach_of(pull)
        usual = np.sqrt(3 * square / rows)
        if self.squares is not None or isinstance(self.moments, ProductMoments):
            middle = pull.constants + (pull.slopes * self.moments.means).sum(-1)[..., None]
            return np.minimum(np.maximum(np.abs(middle).max(-1), usual), largest), np.ones(np.shape(square))
        twice = (*self.weight, *self.weight)
        fourth = self._cautious(self.moments.weights_above(pull, pull, pull, pull, *twice))
        with np.errstate(over="ignore"):  # where nothing is known of a slope, its square is next to zero
            usual = np.sqrt(fourth / square)
            if self.weight:
                usual = usual * np.sqrt(self._cautious(self.moments.weights(pull, pull, *twice)) / square)
        weight = np.clip(usual, np.sqrt(square / rows), np.maximum(largest, np.sqrt(square / rows)))
        third = self.moments.total(self.moments.weights(pull, pull, pull, *twice))
        return weight, np.clip(third / (weight * square), -1.0, 1.0)

    def _squares(self, pulled: Array, pull: Linear, left: Linear) -> Callable[[Array], Array]:
        """Σ(w·z)²e² where the residuals are off by a multiple of w·z."""
        if self.squares is not None:
            known = self.squares.root(pulled, self) ** 2
            return lambda further: np.full(np.shape(further), known)
        if isinstance(self.moments, ProductMoments):
            raise InvalidParameter("squares", None, "were not measured", "Measure them after the fit.")
        square, twice = self.moments.weights_above, (*self.weight, *self.weight)
        factors = [(left, left), (pull, left), (pull, pull)]
        each = [k * square(pull, pull, *of, *twice) for k, of in zip((1, -2, 1), factors, strict=True)]
        totals = [self.moments.total(one) for one in each]
        noise = self.moments.noise_of_parabola(*each)
        return lambda further: np.asarray(
            np.maximum(polynomial(totals, further), 0.0)
            + CAUTION * np.sqrt(np.maximum(polynomial(noise, further), 0.0))
        )

    def standard_error(self, along: Array) -> Floats:
        """Of the estimate of ``along``·β: noise and sampling together."""
        return plain(np.sqrt(self._spread(along)(np.zeros(()))[0]))

    def interval(self, along: Array, level: float) -> tuple[Floats, Floats]:
        """All values of ``along``·β that are not rejected; without an end where noise leaves nothing to divide by."""
        estimate, spread = self.coefficients @ along, self._spread(along)
        z = NormalDist().inv_cdf((1 + level) / 2)

        def rejected(off: Array) -> NDArray[np.bool_]:
            variance, fourth = spread(off)
            tails = max(z**3 - 3 * z, 0.0) / 24 * fourth / variance**2
            return np.asarray(np.abs(off) > (z + tails) * np.sqrt(variance))

        unit = np.sqrt(spread(np.zeros(()))[0])
        below, above = _end(rejected, np.stack([-unit, unit]))
        return plain(estimate - below), plain(estimate + above)

    def pvalue(self, along: Array, value: float = 0.0) -> Floats:
        """Of the hypothesis that ``along``·β has this value; below 1 − level exactly where the interval excludes it."""
        off = value - self.coefficients @ along
        variance, fourth = self._spread(along)(off)
        tails, ratio = fourth / variance**2 / 24, np.abs(off) / np.sqrt(variance)
        # The z of a ratio beyond √3 solves z + tails·(z³ − 3z) = ratio, which is convex there; p is 0 beyond 40.
        z = np.clip(ratio, math.sqrt(3), 40.0)
        for _ in range(_NEWTON):
            z = z - (z + tails * (z**3 - 3 * z) - ratio) / (1 + 3 * tails * (z**2 - 1))
        z = np.where(ratio > math.sqrt(3), z, ratio)
        return plain(2 * scipy.special.ndtr(-z))

    def covariance(self) -> Array:
        """Covariance matrix of the coefficients: noise and sampling together.

        Where only the variances of the sampling part were measured, its correlations are those of equal variances.
        """
        found = self._joint(self._inverse, self.coefficients)
        if self.squares is None:
            return found
        roots = np.array([self.squares.root(row, self) for row in self._inverse])
        spreads = np.sqrt(np.abs(np.diag(self._inverse)))
        alike = np.clip(self._inverse / np.outer(spreads, spreads), -1.0, 1.0)
        np.fill_diagonal(alike, 1.0)
        bound = self._joint_squares(self._inverse, [], self.outcome)
        return np.asarray(found + self._sampled * (np.outer(roots, roots) * alike - bound))

    def _joint(self, pulled: Array, coefficients: Array) -> Array:
        """Covariance of linear functions of ŝ − Ŝβ, each row of ``pulled`` one of them."""
        pulls = [Linear.combined(row, self.terms) for row in pulled]
        left = self._residual(coefficients)
        used = np.array([self._moved(pull, left) for pull in pulls])
        found = self._sampled * self._joint_squares(pulled, pulls, left)
        for j in range(len(pulls)):
            for k in range(len(pulls)):
                both, difference = (self.moments.noise_of(used[j] + sign * used[k])[0] for sign in (1, -1))
                found[j, k] += float(both - difference) / 4
        return found

    def _joint_squares(self, pulled: Array, pulls: list[Linear], left: Linear) -> Array:
        """Σ(v·z)(w·z)e² for all pairs; a bound of that matrix where only its diagonal was measured."""
        if self.squares is not None:
            roots = np.array([self.squares.root(row, self) for row in pulled])
            # No covariance matrix of m numbers exceeds m times its diagonal.
            return np.diag(roots**2) * len(pulled)
        if isinstance(self.moments, ProductMoments):
            raise InvalidParameter("squares", None, "were not measured", "Measure them after the fit.")
        found = np.zeros((len(pulls), len(pulls)))
        for j, one in enumerate(pulls):
            for k, other in enumerate(pulls[: j + 1]):
                square = self.moments.weights_above(one, other, left, left, *self.weight, *self.weight)
                sampled = float(self._cautious(square) if j == k else self.moments.total(square))
                found[j, k] = found[k, j] = sampled
        return found

    def wald(self, restrictions: Array, values: Array) -> JointTest:
        """Test that several combinations of coefficients have given values, from the residuals under the hypothesis."""
        off = restrictions @ self.coefficients - values
        pulled = restrictions @ self._inverse
        fitted = self.coefficients - pulled.T @ np.linalg.solve(pulled @ restrictions.T, off)
        covariance = self._joint(pulled, fitted)
        for place, row in enumerate(pulled):
            found = self._unseen(Linear.combined(row, self.terms), row @ restrictions[place])
            covariance[place, place] += self._sampled * float(found(-off[place]))
        # Off-diagonal moments are measured with noise: at worst nothing but the diagonal is used.
        least = float(np.linalg.eigvalsh(covariance).min())
        if least <= 0:
            return JointTest(0.0, off.size, 1.0)
        statistic = float(off @ np.linalg.solve(covariance, off))
        return JointTest(statistic, off.size, float(scipy.special.chdtrc(off.size, statistic)))


@dataclass(frozen=True)
class MeasuredSquares:
    """Σ(w·z)²e² for the coefficients of a fit, measured after it.

    Attributes
    ----------
    fit
        The fit on all terms. `pulls` of it says what was measured.
    totals, noise
        Noisy totals of (2(w·z)² − 1)(2e² − 1), both squares over the largest values that the bounds allow, and the
        variance of their noise.
    """

    fit: LeastSquares
    totals: Array
    noise: float

    @staticmethod
    def pulls(fit: LeastSquares) -> tuple[Array, Array, Floats]:
        """The w, the largest |w·z| of each, and the largest |e|, or the width of the bounds where that is less.

        The first w is 1/n at the constant, so that its square is Σe²; the others are those of the coefficients.
        """
        found = np.moveaxis(fit._inverse, -2, 0).copy()
        found[0] = np.eye(len(fit.terms))[0] / np.asarray(fit.rows)[..., None]
        reaches = reach_of(Linear.combined(found, fit.terms))
        cut = reach_of(fit._residual(fit.coefficients))
        return found, np.maximum(reaches, 1e-300), plain(np.clip(cut, 1e-300, 1.0))

    @cached_property
    def _pulls(self) -> tuple[Array, Array, Floats]:
        return self.pulls(self.fit)

    @cached_property
    def _in_pulls(self) -> Array:
        """Takes a v to its multiples of the w."""
        return np.asarray(np.linalg.pinv(np.moveaxis(self._pulls[0], 0, -1)))

    @cached_property
    def _shares(self) -> tuple[Array, Array]:
        """Σ(w·z)²e² over its largest value, and the variance of its noise.

        With h = 2(w·z)² − 1 and g = 2e² − 1 it is ½Σ(w·z)² + ¼(Σg + Σgh); the first w·z is 1, so that its h is too.
        """
        found, reaches, _ = self._pulls
        pulled = Linear.combined(found / reaches[..., None], self.fit.terms)
        weights = self.fit.moments.weights(pulled, pulled)
        squares = self.fit.moments.total(weights)
        noise = self.fit.moments.noise_of(weights)[0]
        most = np.clip(squares, 0.0, self.fit.rows)
        totals = np.moveaxis(self.totals, -1, 0)
        noise = noise / 4 + self.noise / 8
        noise[0] += self.noise / 8
        return np.clip(most / 2 + (totals[0] + totals) / 4, 0.0, most), noise

    @cached_property
    def _roots(self) -> Array:
        """√Σ(w·z)²e², with a part of the standard deviation of the noise."""
        _, reaches, cut = self._pulls
        shares, noise = self._shares
        return np.asarray(reaches * cut * np.sqrt(shares + CAUTION * np.sqrt(noise)))

    @property
    def left(self) -> float:
        """Σe² of the fit."""
        return float(self._shares[0][0] * self._pulls[2] ** 2)

    def root(self, pulled: Array, fit: LeastSquares) -> Array:
        """√Σ(v·z)²e², or a bound of it, for a v of a fit on these terms or on some of them.

        v is a sum of multiples of the w, and such roots are norms, so that their sum is a bound. Residuals on fewer
        terms are off by d·z, which is at most its largest value.
        """
        places = list(fit.places or range(len(fit.terms)))
        whole, own = (np.zeros_like(self.fit.coefficients) for _ in range(2))
        whole[..., places], own[..., places] = pulled, fit.coefficients
        shares = np.abs(self._in_pulls @ whole[..., None])[..., 0]
        found = (shares * np.moveaxis(self._roots, 0, -1)).sum(-1)
        if fit is self.fit or len(places) == len(self.fit.terms):
            return np.asarray(found)
        gap = reach_of(Linear.combined(self.fit.coefficients - own, self.fit.terms))
        squares = (whole * (self.fit._matrix @ whole[..., None])[..., 0]).sum(-1)
        return np.asarray(found + gap * np.sqrt(np.maximum(squares, 0.0)))


def reach_of(function: Linear) -> Array:
    """The largest size that a linear function has between the bounds."""
    high = (function.constants + np.maximum(function.by_cell, 0).sum(-1)).max(-1)
    low = (function.constants + np.minimum(function.by_cell, 0).sum(-1)).min(-1)
    return np.asarray(np.maximum(np.abs(high), np.abs(low)))


def _end(rejected: Callable[[Array], NDArray[Any]], unit: Array) -> Array:
    """The distance from the estimate to the first rejected value, in the direction and size of ``unit``."""
    steps = np.concatenate([[0.0], np.geomspace(0.25, _FURTHEST, 89)]).reshape(-1, *(1,) * np.ndim(unit))
    endless = np.asarray(False)
    for _ in range(_ROUNDS):
        out = rejected(steps * unit)
        endless = endless | ~out.any(axis=0)
        first = np.maximum(np.argmax(out, axis=0), 1)
        near, far = (
            np.take_along_axis(np.broadcast_to(steps, out.shape), at[None], axis=0)[0] for at in (first - 1, first)
        )
        steps = np.linspace(near, far, _POINTS)
    return np.where(endless, np.inf, steps[-1] * np.abs(unit))
