"""Regression moments: joint moments of the columns of a regression in tensor parts, and fits from noisy moments."""

from __future__ import annotations

import itertools
import math
from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, cached_property, reduce
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.columns import Label
from discreet.core.errors import InvalidParameter, NoPopulationInterval
from discreet.core.numbers import not_below
from discreet.core.protection import ROW, Neighbours, Protection, Unit
from discreet.core.schema import Contribution, in_parts
from discreet.core.sensitivity import Exact, Sensitivity, root_up
from discreet.inference.least_squares import (
    Coordinates,
    LeastSquares,
    Linear,
    LinearMoments,
    MeasuredSquares,
    ProductMoments,
    noise_of_slopes,
)
from discreet.inference.noise import excess_kurtosis, largest_variance
from discreet.mechanisms.box_noise import BoxNoise
from discreet.mechanisms.mechanism import Mechanism, mechanism_from_dict
from discreet.questions.moments import BernsteinMoments, unit_columns
from discreet.questions.question import bounds_of_columns, fractions
from discreet.questions.regression.fit import CONSTANT, Coefficient, FittedModel, RegressionRelease
from discreet.questions.regression.formula import Parts
from discreet.results.release import Statistic

__all__ = [
    "GUESSED_MEAN", "GUESSED_SLOPE", "MomentBoxes", "MomentProducts", "Moments", "NUMBER_SPREAD", "RegressionColumns",
    "RegressionMoments", "even_totals", "expected_pull", "first_fit", "fit_on", "guessed_noise", "knows_squares",
    "moved_per_row", "read_moments", "weighed",
]  # fmt: skip


# ---- Regression columns: which columns a regression is of, and its terms as linear functions of a row


NUMBER_SPREAD = 12**-0.5
"""The standard deviation of a number that a plan expects, as a share of the width of its bounds."""
GUESSED_MEAN, GUESSED_SLOPE = 0.3, 0.2
"""The guesses that noise is spread for: the distance of the mean of a number in [−1, 1] from 0, and the slope of the
outcome in it. Other data has the same guarantee, and somewhat more noise than a guess of its own would give."""


@dataclass(frozen=True, kw_only=True)
class RegressionColumns(ABC):
    """The columns of a regression.

    Parameters
    ----------
    columns
        Names of the numbers, in the order of their bounds.
    labels
        Public labels of the other columns; the first one is the reference.
    outcome
        The column that is described: a number, or one of two labels, of which the second counts as 1.
    on
        The columns of the regression, in the order in which its coefficients are printed; interactions are among them.
    two_values
        The numbers that have but two values, which are their bounds.
    made
        For each interaction, what it multiplies: numbers, and labels whose indicators they are. One that is not among
        the ``columns`` multiplies labels and at most one number: it is linear in every combination of labels.
    weight
        Under a design, the name of the weight, a number from 0 to the trim: the last of the ``columns``.
    strata, population
        The column of strata, and how many of the population are in each, where weights add up to that.
    """

    bounds: tuple[tuple[float, float], ...]
    columns: tuple[str, ...]
    labels: Mapping[str, Sequence[Label]] = field(default_factory=dict)
    outcome: str
    on: Sequence[str]
    two_values: Sequence[str] = ()
    made: Mapping[str, Parts] = field(default_factory=dict)
    weight: str | None = None
    strata: str | None = None
    population: Sequence[float] = ()

    @property
    def weighing(self) -> tuple[Linear, ...]:
        """The weight as a function of a row, over the largest; nothing where rows have none."""
        own = [float(name == self.weight) for name in self.columns]
        return (Linear(np.zeros(self.cells), np.array(own)),) if self.weight is not None else ()

    def in_strata(self, read: LinearMoments) -> tuple[Linear, ...]:
        """The weight of a row in each public stratum, so that they add up to the population; or that of all rows."""
        if not self.population:
            return self.weighing
        one, found = self.weighing[0], []
        for label, people in zip(self.labels[str(self.strata)], self.population, strict=True):
            inside = self._cells_with({str(self.strata): label})[:, None] * one.slopes
            own = Linear(one.constants, np.zeros_like(one.slopes), inside)
            found.append((own, people / float(read.at_least_noise(read.weights(own)))))
        most = max(scale for _, scale in found)
        return tuple(replace(own, own=cast(Array, own.own) * scale / most) for own, scale in found)

    def effective_rows(self, released: RegressionRelease) -> float:
        """Kish's effective number of rows, (Σu)²/Σu², between 1 and their number."""
        read = read_moments(cast(Moments, self), [(released.mechanism, released.value)])
        first, second = (float(read.total(read.weights(*self.weighing * power))) for power in (1, 2))
        return float(np.clip(max(first, 0.0) ** 2 / max(second, 1e-300), 1.0, float(read.rows)))

    @property
    def two_valued(self) -> tuple[bool, ...]:
        """For every number, whether it has but two values."""
        return tuple(name in self.two_values for name in self.columns)

    @property
    def title(self) -> str:
        return "regression"

    @classmethod
    def release_type(cls) -> type[Any]:
        return RegressionRelease

    def design(self, released: RegressionRelease) -> FittedModel:
        """The fit on the columns that a release is read for, with sampling and without."""
        of = cast(Moments, self)
        one = of.sensitivity(neighbours=released.neighbours)
        # All rows of a unit may move together, in whatever cells they are.
        rows = max(1, round(released.sensitivity.require_l1() / one.require_l1()))
        sampled, observed = (_released_fit(of, released, each) for each in (rows, 0))
        return FittedModel(self.explained, self.terms(released.on), self.labels, sampled, observed)

    def settle(self, numbers: int) -> None:
        """Check the names, and make plain tuples of them."""
        given: Any = self.labels
        pairs = given.items() if isinstance(given, Mapping) else given  # as stored: a list of pairs keeps its order
        object.__setattr__(self, "labels", {name: tuple(labels) for name, labels in pairs})
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "on", tuple(self.on))
        object.__setattr__(self, "two_values", tuple(self.two_values))
        parts = {name: tuple((one, label) for one, label in each) for name, each in self.made.items()}
        object.__setattr__(self, "made", {name: parts[name] for name in self.on if name in parts})
        inside = {one for name in self.by_cell for one, _ in self.made[name]}
        object.__setattr__(self, "population", tuple(self.population))
        asked = {self.outcome, *self.on, *([] if self.weight is None else [self.weight])}
        asked |= {str(self.strata)} if self.population else set()
        named = [*self.columns, *self.labels, *self.by_cell]
        wrong = not inside <= {*self.columns, *self.labels} or not {self.outcome, self.weight}.isdisjoint(self.on)
        if wrong or len(self.columns) != numbers or sorted(asked | inside) != sorted(named):
            raise InvalidParameter(
                "columns", self.columns, f"must be {numbers} names, the outcome's and those of `on`",
                "Name each column once.",
            )  # fmt: skip

    def named(self) -> dict[str, Any]:
        """The names as JSON-ready data."""
        labels = [[name, list(each)] for name, each in self.labels.items()]
        named = {"columns": list(self.columns), "labels": labels, "outcome": self.outcome, "on": list(self.on)}
        made = {name: [list(one) for one in each] for name, each in self.made.items()}
        weighed: dict[str, Any] = {} if self.weight is None else {"weight": self.weight}
        weighed |= {"strata": self.strata, "population": list(self.population)} if self.population else {}
        return {**named, "two_values": list(self.two_values), **({"made": made} if made else {}), **weighed}

    @property
    def cells(self) -> int:
        """Combinations of labels."""
        return math.prod(len(labels) for labels in self.labels.values())

    @property
    def by_cell(self) -> tuple[str, ...]:
        """The interactions that are linear in every combination of labels, and no numbers of their own."""
        return tuple(name for name in self.made if name not in self.columns)

    def _cells_with(self, chosen: Mapping[str, Label]) -> Array:
        """Which combinations of labels have these."""
        masks = [
            np.array(each) == chosen[name] if name in chosen else np.ones(len(each), dtype=bool)
            for name, each in self.labels.items()
        ]
        return np.ravel(reduce(np.multiply.outer, masks, np.ones(()))).astype(float)

    def linear(self, term: Coefficient) -> Linear:
        """A term as a function of a row."""
        constants = np.zeros(self.cells)
        slopes = np.zeros(len(self.columns))
        if term.column in self.columns:
            slopes[self.columns.index(term.column)] = 1.0
        elif term.parts:
            return self._in_cells(term)
        elif term.column:
            constants = self._cells_with({term.column: term.label})
        else:
            constants += 1.0
        return Linear(constants, slopes)

    def _in_cells(self, term: Coefficient) -> Linear:
        """An interaction of labels and at most one number; it counts from its own lower bound, as others do."""
        inside = self._cells_with({name: label for name, label in term.parts if label is not None})
        slopes = np.zeros((self.cells, len(self.columns)))
        value = inside
        for name in (name for name, label in term.parts if label is None):
            place = self.columns.index(name)
            low, high = self.bounds[place]
            slopes[:, place] = inside * (high - low) / term.width
            value = inside * low
        own = slopes if slopes.any() else None
        return Linear((value - term.low) / term.width, np.zeros(len(self.columns)), own)

    def _terms(self, column: str) -> list[Coefficient]:
        """The term of a number, or those of all labels but the first."""
        if column in self.columns:
            low, high = self.bounds[self.columns.index(column)]
            return [Coefficient(column, column, low=low, width=high - low, parts=self.made.get(column, ()))]
        if column in self.made:
            numbers = [self.bounds[self.columns.index(name)] for name, label in self.made[column] if label is None]
            low, high = numbers[0] if numbers else (0.0, 1.0)
            low, high = min(low, 0.0), max(high, 0.0)
            return [Coefficient(column, column, low=low, width=high - low, parts=self.made[column])]
        return [Coefficient(f"{column}[{label}]", column, label) for label in self.labels[column][1:]]

    @property
    def explained(self) -> Coefficient:
        """The outcome."""
        return self._terms(self.outcome)[0]

    def terms(self, on: Sequence[str]) -> tuple[Coefficient, ...]:
        """The terms of a regression on some of the columns."""
        return (Coefficient(CONSTANT, ""), *(term for column in on for term in self._terms(column)))

    def spread(self, term: Coefficient) -> float:
        """The standard deviation of a term between its bounds that a plan expects."""
        if term.label is not None:
            share = 1 / len(self.labels[term.column])
            return math.sqrt(share * (1 - share))
        return 0.5 if self.two_valued[self.columns.index(term.column)] else NUMBER_SPREAD

    @cached_property
    def expected(self) -> tuple[Array, Array]:
        """Means of the terms but the constant that a plan expects, and the inverse of their covariances.

        Columns are unrelated and spread evenly. Of interactions follows what their columns make them.
        """
        terms = self.terms(self.on)[1:]
        if not self.made:
            means = np.array([0.5 if one.label is None else 1 / len(self.labels[one.column]) for one in terms])
            found = np.diag([self.spread(one) ** 2 for one in terms])
            for j, k in itertools.combinations(range(len(terms)), 2):
                if terms[j].column == terms[k].column:  # a row has one label of a column at most
                    found[j, k] = found[k, j] = -means[j] * means[k]
            return means, np.linalg.inv(found)
        rng, size = np.random.default_rng(1), 20_000
        rows: dict[str, NDArray[Any]] = {name: rng.integers(len(each), size=size) for name, each in self.labels.items()}
        for name, (low, high), two in zip(self.columns, self.bounds, self.two_valued, strict=True):
            rows[name] = rng.choice([low, high], size) if two else rng.uniform(low, high, size)
        drawn = np.array([(self._drawn(term, rows) - term.low) / term.width for term in terms])
        return drawn.mean(axis=1), np.linalg.pinv(np.atleast_2d(np.cov(drawn)))

    def _drawn(self, term: Coefficient, rows: Mapping[str, NDArray[Any]]) -> Array:
        """A term in rows with these numbers and places of labels."""
        known = all(name in rows for name in term.columns)
        found = np.ones(())
        for name, label in term.parts if term.parts and known else ((term.column, term.label),):
            found = found * (rows[name] if label is None else rows[name] == list(self.labels[name]).index(label))
        return np.asarray(found, dtype=float)


# ---- Moment products: totals of products of two coordinates, which a regression on many columns is read from
#
# Every coordinate lies between −1 and 1, and so does every product: a row moves each total by at most 1. Under ε they
# are
# put into three boxes (`MomentBoxes`); Gaussian noise goes by their number, where totals that matter more are weighed
# up.
# Proof: ``docs/proofs/regression.md``.


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
        given = [requirements.positive("weights", one) for one in self.weights or ()] or [1.0] * self.size
        if len(given) != self.size:
            raise InvalidParameter("weights", len(given), f"must be {self.size}, one per total", "Leave weights out.")
        object.__setattr__(self, "weights", tuple(given))

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
        """The distance by which one row, or so many of one unit, move the totals."""
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
        if self.labels:
            raise InvalidParameter("data", "…", "must be numbers: labels are added up by cell", "Leave labels out.")
        columns = dict(zip(self.columns, unit_columns(data, self.bounds), strict=True))
        sums = {
            names: [sum((math.prod(row) for row in zip(*(columns[name] for name in names), strict=True)), Fraction(0))]
            for names in self.number_products
        }
        value = self.of_sums([len(columns[self.columns[0]])], sums, [1] * len(self.bounds))
        return Exact(value, self.sensitivity(neighbours=neighbours), Protection(unit, neighbours), self)

    def worth(self) -> Array:
        """The move of all coefficients together by noise in each total, where data is as weights are made for it."""
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

    @cached_property
    def together(self) -> int:
        """Numbers in each of the first two boxes."""
        return self.coordinates.size

    @cached_property
    def outcome_share(self) -> float:
        """The share of the moments' guarantee that goes to the boxes with the outcome, in 64ths.

        Noise of variance Y/s² + S/(1 − s)² is least where s : 1 − s is as the third roots of Y and S.
        """
        both, count = self.together, self.size - 2 * self.together
        first = np.arange(self.size) < 2 * both
        read = ProductMoments(
            coordinates=self.coordinates, totals=np.zeros(self.size), products_of=self.products_of,
            variances=np.where(first, _unit_variance(both, 2), _unit_variance(count, 1)), boxes=(both, both, count),
        )  # fmt: skip
        own, rest = (
            guessed_noise(self, replace(read, variances=np.where(one, read.variances, 0.0))) ** (1 / 3)
            for one in (first, ~first)
        )
        return float(min(max(round(64 * own / (own + rest)), 1), 63) / 64)

    def apart(self, totals: NDArray[Any]) -> list[NDArray[Any]]:
        """The totals of the first two boxes, which are drawn together, and those of the third."""
        return np.split(totals, [2 * self.together])

    @cached_property
    def products_of(self) -> Array:
        return np.asarray(np.linalg.inv(self.coordinates.in_boxes))

    def sensitivity(self, *, neighbours: Neighbours, rows: int = 1) -> Sensitivity:
        """The distance by which one row, or so many of one unit, move the totals.

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


@cache
def _unit_variance(dimension: int, boxes: int) -> float:
    """Variance of box noise of scale 1."""
    return float(BoxNoise(1.0, dimension, boxes=boxes).law(0.0).variance)


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


@dataclass(frozen=True, kw_only=True)
class RegressionMoments(RegressionColumns, BernsteinMoments):
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
        """The distance by which one row moves the totals."""
        return in_parts(Contribution(groups=1, rows=1), self.cells, self.size, neighbours)

    def parameters(self) -> dict[str, Any]:
        bounds = [list(pair) for pair in self.bounds]
        return {"bounds": bounds, "degrees": list(self.degrees)} | self.named()


Moments = RegressionMoments | MomentProducts
"""The measurements that a regression may be read from."""


def knows_squares(moments: Moments) -> bool:
    """True where the totals contain Σ w²e², so that nothing has to be measured after the fit."""
    return isinstance(moments, RegressionMoments) and all(
        two or degree > 2 - (name in (moments.outcome, moments.weight))
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
        noise = float(np.max(np.asarray(laws[0].variance)))
        kurtosis = excess_kurtosis(laws[0])
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
    terms = tuple(map(of.linear, of.terms(of.on)))
    weights = of.in_strata(moments) if isinstance(moments, LinearMoments) else ()
    return LeastSquares(moments, terms, of.linear(of.explained), weights=weights)


def fit_on(of: Moments, on: Sequence[str], fit: LeastSquares) -> LeastSquares:
    """The fit on some of the columns, from the same totals."""
    return replace(fit, terms=tuple(map(of.linear, of.terms(on))))


def _released_fit(of: Moments, released: RegressionRelease, rows_per_unit: int) -> LeastSquares:
    drawn = [(released.mechanism, released.value)]
    products = released.public.get("products")
    if products is not None:
        drawn.append((mechanism_from_dict(products["mechanism"]), products["value"]))
    stored = released.public.get("centred_squares")
    if stored is None and not knows_squares(of):
        raise NoPopulationInterval(
            "release", of.title, "lacks the last step, which intervals need", "Ask a session for it."
        )
    whole = first_fit(of, drawn, released.public.get("n"), rows_per_unit)
    found = fit_on(of, released.on, whole)
    if stored is None:
        return found
    around, before = _measured_around(of, released.on, stored)
    fit, terms = fit_on(of, around, whole), of.terms(around)
    variance = largest_variance(mechanism_from_dict(stored["mechanism"]))
    own = np.array(stored["value"][before : before + len(terms)], dtype=float)
    places = tuple(map(terms.index, of.terms(released.on)))
    return replace(found, squares=MeasuredSquares(fit, own, variance), places=places)


def _measured_around(of: Moments, on: Sequence[str], stored: Mapping[str, Any]) -> tuple[Sequence[str], int]:
    """The model with the same columns whose squares were measured, or the whole; and what is stored before it."""
    before = len(of.terms(of.on))
    for one in stored.get("models", ()):
        if set(one) == set(on):
            return one, before
        before += len(of.terms(one))
    return of.on, 0


def expected_pull(moments: Moments, term: Coefficient) -> tuple[Linear, Linear]:
    """What a row moves a coefficient by, times the number of rows, and what it is multiplied by: the residual.

    Around the middles, in the middle of the bounds or at equal shares, nothing but the slope is moved.
    """
    terms = moments.terms(moments.on)[1:]
    means, inverse = moments.expected
    centred = [_around(moments, one, mean) for one, mean in zip(terms, means.tolist(), strict=True)]
    pull = Linear.combined(inverse[terms.index(term)], centred)
    return pull, _around(moments, moments.explained, _middle(moments, moments.explained))


def moved_per_row(moments: Moments, term: Coefficient) -> Array:
    """The move of a coefficient by noise in each total, times the number of rows."""
    pull, left = expected_pull(moments, term)
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
        moved = even_totals(moments).weights(pull, left, *moments.weighing)
    return np.asarray(moved * moments.explained.width / term.width)


def even_totals(moments: RegressionMoments) -> LinearMoments:
    """One row, spread evenly over all that the bounds and labels allow, with noise of variance 1."""
    size = moments.size * moments.cells
    return LinearMoments(totals=np.full(size, 1 / size), noise=1.0, cells=moments.cells, degrees=moments.degrees)


def guessed_noise(moments: Moments, read: LinearMoments | ProductMoments) -> float:
    """Variance of the noise of all slopes together, relative to sampling, for data as it is guessed to be.

    The guess decides how noise is spread, and no guarantee: numbers lie off the middle of their bounds, and all terms
    have a slope. Labels of a column count as if they were unrelated, lest many of them outweigh all numbers.
    """
    terms = moments.terms(moments.on)[1:]
    means, inverse = moments.expected
    if not moments.made:
        inverse = np.diag([moments.spread(one) ** -2.0 for one in terms])
    middles = [*zip(terms, means.tolist(), strict=True), (moments.explained, _middle(moments, moments.explained))]
    *centred, outcome = (
        _around(moments, one, mean + (one.label is None and not one.parts) * GUESSED_MEAN / 2) for one, mean in middles
    )
    return noise_of_slopes(read, centred, outcome, inverse, GUESSED_SLOPE)


def _middle(moments: Moments, term: Coefficient) -> float:
    return 0.5 if term.label is None else 1 / len(moments.labels[term.column])


def _around(moments: Moments, term: Coefficient, mean: float) -> Linear:
    found = moments.linear(term)
    return Linear(found.constants - mean, found.slopes, found.own)
