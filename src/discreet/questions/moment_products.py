"""Moment products: totals of products of two coordinates, which a regression on many columns is read from.

Every coordinate lies between −1 and 1, and so does every product: a row moves each total by at most 1. Under ε they are
put into three boxes (`MomentBoxes`); Gaussian noise goes by their number, where totals that matter more are weighed up.
Proof: ``docs/proofs/regression.md``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.contract.statistic import Statistic
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.exact import Exact
from discreet.core.noise.truth import float_truth
from discreet.core.protection import ROW, Neighbours, Protection, Unit
from discreet.core.rounding import decimal, not_below
from discreet.core.sensitivity import Sensitivity, root_up
from discreet.inference.product_moments import Coordinates
from discreet.questions.bounded import clipped, fractions
from discreet.questions.covariance import bounds_of_columns
from discreet.questions.regression_columns import GUESSED_MEAN, GUESSED_SLOPE, RegressionColumns

__all__ = ["MomentBoxes", "MomentProducts", "weighed"]

Array = NDArray[np.float64]
_VARIANCE = 0.16
"""The variance of a number between −1 and 1 that weights are made for."""


@dataclass(frozen=True, kw_only=True)
class MomentProducts(RegressionColumns, Statistic):
    """Totals of 1, of the coordinates of a row, of their products, and of 2z² − 1 for a number z.

    Guarantee
    ---------
    Add/remove: a row moves every total by at most its weight w. Replace-one: by at most 2w. So ℓ∞ is the largest
    weight, ℓ₂ the root of the sum of their squares, and ℓ₁ their sum, or twice that.

    Parameters
    ----------
    bounds, columns, labels, outcome, on, two_values
        As for `RegressionColumns`.
    counted
        Whether the number of rows is measured; False where it is public.
    weights
        What each total is multiplied by; by default 1.

    Examples
    --------
    >>> names = {"columns": ("age", "hours"), "outcome": "hours", "on": ("age",)}
    >>> products = MomentProducts(bounds=((0, 90), (0, 60)), **names)
    >>> products.size, products.sensitivity(neighbours=Neighbours.ADD_REMOVE).linf
    (5, 1.0)
    """

    counted: bool = True
    weights: Sequence[float] | None = None
    name: ClassVar[str] = "moment_products"

    def __post_init__(self) -> None:
        bounds = bounds_of_columns("bounds", self.bounds)
        object.__setattr__(self, "bounds", bounds)
        self.settle(len(bounds))
        given = [1.0] * self.size if self.weights is None else list(self.weights)
        if len(given) != self.size:
            raise InvalidParameter("weights", len(given), f"must be {self.size}, one per total", "Leave weights out.")
        object.__setattr__(self, "weights", tuple(requirements.positive("weights", one) for one in given))

    @cached_property
    def coordinates(self) -> Coordinates:
        """The coordinates of a row: numbers first, then labels but for the first of each column."""
        names = [*self.columns, *(name for name, each in self.labels.items() for _ in each[1:])]
        counts = tuple(len(each) for each in self.labels.values())
        return Coordinates(self.two_valued, counts, names.index(self.outcome))

    @property
    def size(self) -> int:
        """Number of totals."""
        return len(self.coordinates.products) - (not self.counted)

    def parameters(self) -> dict[str, Any]:
        return {
            "bounds": [list(pair) for pair in self.bounds],
            "counted": self.counted,
            "weights": list(self.weights or ()),
        } | self.named()

    def sensitivity(self, *, neighbours: Neighbours, rows: int = 1) -> Sensitivity:
        """How far one row, or so many of one unit, move the totals."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        each = [Fraction(weight) for weight in self.weights or ()]
        sides = rows * neighbours.sides
        return Sensitivity(
            l1=not_below(sides * sum(each, Fraction(0))),
            l2=root_up(sides**2 * sum((one**2 for one in each), Fraction(0))),
            linf=not_below(sides * max(each)),
            dimension=self.size,
        )

    @cached_property
    def products_of(self) -> Array:
        """Takes the totals to the products of coordinates; a public number of rows is none of them."""
        found = np.diag(1 / np.array(self.weights or ()))
        return found if self.counted else np.vstack([np.zeros(self.size), found])

    def of_sums(self, counts: Any, sums: Mapping[tuple[str, ...], Any], reaches: Sequence[int]) -> Any:
        """The weighed totals, from sums of products of v = reach·u by combination of labels. Private."""
        marks = self.coordinates.of_cells[:, 1:].astype(int)
        numbers, found = len(self.columns), []
        for product in self.coordinates.products[not self.counted :]:
            total = Fraction(0)
            for cell, rows in enumerate(counts):
                sign = int(np.prod([marks[cell, i - numbers] for i in product if i >= numbers]))
                inside = tuple(i for i in product if i < numbers)
                total += sign * self._of_numbers(inside, cell, int(rows), sums, reaches)
            found.append(total)
        return fractions([Fraction(weight) * one for weight, one in zip(self.weights or (), found, strict=True)])

    def _of_numbers(
        self, inside: tuple[int, ...], cell: int, rows: int, sums: Mapping[tuple[str, ...], Any], reaches: Sequence[int]
    ) -> Fraction:
        """Σ Π z over the rows of a cell, with z = 2u − 1; for a square, Σ 2z² − 1."""
        if not inside:
            return Fraction(rows)
        first, last = (self.columns[i] for i in (inside[0], inside[-1]))
        u, v = (Fraction(sums[self.columns[i],][cell]) / reaches[i] for i in (inside[0], inside[-1]))
        if len(inside) == 1:
            return 2 * u - rows
        both = Fraction(sums[first, last][cell]) / (reaches[inside[0]] * reaches[inside[1]])
        product = 4 * both - 2 * u - 2 * v + rows
        return 2 * product - rows if first == last else product

    @property
    def number_products(self) -> tuple[tuple[str, ...], ...]:
        """The products of numbers that have to be added up."""
        numbers = len(self.columns)
        inside = [
            tuple(self.columns[i] for i in one) for one in self.coordinates.products if max(one, default=0) < numbers
        ]
        return tuple(one for one in inside if one)

    def exact(self, data: Any, *, neighbours: Neighbours, unit: Unit = ROW) -> Exact:
        """The totals of a table of numbers, one column each, still private."""
        table = float_truth(data)
        if self.labels or table.ndim != 2 or table.shape[1] != len(self.bounds):
            raise InvalidParameter("data", table.shape, f"must be rows × {len(self.bounds)}", "Give one bound each.")
        columns = {
            name: [(x - decimal(low)) / (decimal(high) - decimal(low)) for x in clipped(column, (low, high))]
            for name, column, (low, high) in zip(self.columns, table.T.tolist(), self.bounds, strict=True)
        }
        sums = {
            names: [sum((math.prod(row) for row in zip(*(columns[name] for name in names), strict=True)), Fraction(0))]
            for names in self.number_products
        }
        value = self.of_sums([len(table)], sums, [1] * len(self.bounds))
        return Exact(value, self.sensitivity(neighbours=neighbours), Protection(unit, neighbours), self)

    def worth(self) -> Array:
        """How far noise in each total moves the coefficients together, where data is as weights are made for it."""
        every = self.coordinates
        spreads = [1.0] * every.size
        for i, known in enumerate(self.two_valued):
            spreads[i] = 1.0 if known else _VARIANCE
        found = np.zeros((every.size, len(every.products)))
        for j in (one for one in range(every.size) if one != every.outcome):
            # (z_j − mean)·(y − b₀ − Σ b·z)/variance, each product of the two with its size.
            slopes = [(one, GUESSED_SLOPE) for one in range(every.size) if one != every.outcome]
            left: list[tuple[int | None, float]] = [(every.outcome, 1.0), (None, GUESSED_MEAN), *slopes]
            pulled: list[tuple[int | None, float]] = [(None, GUESSED_MEAN), (j, 1.0)]
            for (mine, own), (its, other) in itertools.product(pulled, left):
                for product, share in _expanded(every, mine, its).items():
                    found[j, every.products.index(product)] += abs(share) * own * other / math.sqrt(spreads[j])
        return np.asarray(np.sqrt((found**2).sum(axis=0))[not self.counted :])


@dataclass(frozen=True, kw_only=True)
class MomentBoxes(MomentProducts):
    """The same totals in three boxes: (1 − y)(1, z), y(1, z), and the products without outcome.

    Here y is the outcome between 0 and 1, and z are the other coordinates. Slopes rest on the first two boxes, where
    noise matters most: they have few numbers, and a row moves both together by no more than it would move one.

    Guarantee
    ---------
    Add/remove: the largest moves of a row in the first two boxes add up to at most 1, and it moves each number of the
    third by at most 1. Replace-one: twice that.

    Examples
    --------
    >>> names = {"columns": ("age", "hours"), "outcome": "hours", "on": ("age",)}
    >>> boxes = MomentBoxes(bounds=((0, 90), (0, 60)), **names)
    >>> boxes.together, boxes.size
    (2, 5)
    """

    name: ClassVar[str] = "moment_boxes"

    @property
    def together(self) -> int:
        """Numbers in each of the first two boxes."""
        return self.coordinates.size

    def apart(self, totals: NDArray[Any]) -> list[NDArray[Any]]:
        """The totals of the first two boxes, which are drawn together, and those of the third."""
        return np.split(totals, [2 * self.together])

    @cached_property
    def products_of(self) -> Array:
        return np.asarray(np.linalg.inv(self.coordinates.in_boxes))

    def sensitivity(self, *, neighbours: Neighbours, rows: int = 1) -> Sensitivity:
        """How far one row, or so many of one unit, move the totals.

        (1 − y)|z| + y|z| ≤ 1 and ((1 − y)² + y²)z² ≤ 1: the first two boxes count as one.
        """
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        sides, count = rows * neighbours.sides, self.size - self.together
        return Sensitivity(
            l1=sides * count, l2=root_up(Fraction(sides**2 * count)), linf=float(sides), dimension=self.size
        )

    def of_sums(self, counts: Any, sums: Mapping[tuple[str, ...], Any], reaches: Sequence[int]) -> Any:
        """The totals by box. Private."""
        found = super().of_sums(counts, sums, reaches)
        mixed = [[Fraction(share) * one for share, one in zip(row, found, strict=True) if share] for row in self._rows]
        return fractions([sum(row, Fraction(0)) for row in mixed])

    @cached_property
    def _rows(self) -> list[list[float]]:
        found: list[list[float]] = self.coordinates.in_boxes.tolist()
        return found


def _expanded(coordinates: Coordinates, i: int | None, k: int | None) -> Mapping[tuple[int, ...], float]:
    """The product of two coordinates, or of one and 1, in terms of what is measured."""
    if i is None or k is None:
        return {tuple(one for one in (i, k) if one is not None): 1.0}
    return coordinates.known(i, k) or {}


def weighed(products: MomentProducts) -> MomentProducts:
    """The same totals with weights for Gaussian noise: their squares add up to 1, in proportion to what each is worth.

    With variances σ²/w² the noise of a coefficient that totals move by g is σ²Σg²/w², which is least for w² ∝ |g|.
    """
    worth = np.maximum(products.worth(), 1e-3 * products.worth().max())
    return replace(products, weights=tuple(np.sqrt(worth / worth.sum()).tolist()))
