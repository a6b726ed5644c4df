"""Class moments: rows, sums and squares of every class, released at once with the least noise.

A row belongs to one class, and moves each total of it by at most 1: the totals of a class are a box, and all boxes
together move by 1. Under ε they get box noise (``docs/proofs/box_noise.md``, section 4), else what has less variance of
that and Gaussian noise. Sensitivities: ``docs/proofs/sensitivities.md``, "Naive Bayes".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy  # whose submodules load when first used
from numpy.typing import ArrayLike, NDArray

from discreet.contract.mechanism import Mechanism
from discreet.core.grid import Grid, product_total, total
from discreet.core.guarantee import Guarantee
from discreet.core.protection import Neighbours
from discreet.core.sensitivity import Sensitivity, root_up
from discreet.inference.noise_sum import largest_variance
from discreet.mechanisms.box_noise import BoxNoise
from discreet.mechanisms.gaussian import Gaussian, is_pure
from discreet.questions.bounded import fractions

__all__ = ["ClassMoments", "centred_sum", "mean_within"]

Array = NDArray[np.float64]

_FEATURE_REPLACED = Fraction(51447, 10000)
"""Above (71 + 8√2)/16, the largest squared distance of two points (z, 2z² − 1)."""
_FAR = 4.0
"""Standard errors by which an estimate may lie outside: one beyond counts as that far, where tails are still exact."""
_FLAT = 1e3
"""Widths of the interval; an estimate with a larger standard error says as little as one with this."""


@dataclass(frozen=True, kw_only=True)
class ClassMoments:
    """Totals of 1, zⱼ and 2zⱼ² − 1 over the rows of every class, with zⱼ a feature that bounds put between −1 and 1.

    Parameters
    ----------
    classes, features
        How many there are.
    neighbours
        Which data sets must be hard to tell apart.

    Examples
    --------
    >>> from discreet import PureDP
    >>> moments = ClassMoments(classes=3, features=4, neighbours=Neighbours.ADD_REMOVE)
    >>> moments.noise(PureDP(1.0))[0]
    BoxNoise(scale=1.0, dimension=9, grid=None, boxes=3)
    """

    classes: int
    features: int
    neighbours: Neighbours

    @property
    def together(self) -> int:
        """How many totals a class has."""
        return 1 + 2 * self.features

    def sensitivities(self) -> tuple[Sensitivity, Sensitivity]:
        """How far a row moves the boxes, each of which counts as one coordinate; and how far all totals."""
        size, replaced = self.classes * self.together, self.neighbours is Neighbours.REPLACE_ONE
        sides = self.neighbours.sides
        # A row that stays in its class moves the features alone, but each by more than two classes share.
        square = max(Fraction(sides * self.together), _FEATURE_REPLACED * self.features if replaced else Fraction(0))
        every = Sensitivity(
            l1=float(sides * self.together), l2=root_up(square), linf=float(sides), dimension=size
        )  # fmt: skip
        return Sensitivity(l1=float(sides), dimension=self.classes), every

    def noise(self, guarantee: Guarantee) -> tuple[Mechanism, Sensitivity]:
        """The noise of least variance, and the sensitivity that it is for."""
        boxes, every = self.sensitivities()
        box = BoxNoise.calibrate(guarantee, boxes, in_boxes_of=self.together)
        if is_pure(guarantee):
            return box, boxes
        normal = Gaussian.calibrate(guarantee, every)
        less = largest_variance(normal) < largest_variance(box)
        return (normal, every) if less else (box, boxes)

    def of(self, cells: list[list[NDArray[np.int64]]], grids: list[Grid]) -> Any:
        """The totals, class after class, from the offsets of every feature in every class."""
        totals: list[Fraction] = []
        for own in cells:
            rows = int(own[0].size)
            columns = list(zip(own, grids, strict=True))
            sums = [centred_sum(cell, grid) for cell, grid in columns]
            squares = [2 * _centred_squares(cell, grid) - rows for cell, grid in columns]
            totals += [Fraction(rows), *sums, *squares]
        return fractions(totals)

    def read(self, noisy: ArrayLike, mechanism: Mechanism) -> tuple[Array, Array, Array]:
        """Rows, means and variances of z for every class, from the noisy totals alone.

        Means and variances are averages over all that bounds allow, weighed by how likely the noise makes them. So
        they are never outside, and never at the end at which a variance would be of no use.
        """
        counts, sums, squares = np.split(
            np.reshape(np.asarray(noisy, dtype=float), (self.classes, self.together)), [1, 1 + self.features], axis=1
        )
        rows = np.maximum(counts, 1.0)
        error = math.sqrt(largest_variance(mechanism)) / rows
        raw = np.clip(sums / rows, -1.0, 1.0)
        means = mean_within(sums / rows, error * np.sqrt(1 + raw**2), -1.0, 1.0)
        found = (squares / rows + 1) / 2 - raw**2
        most = 1 - means**2
        inside = np.clip(found, 0.0, most)
        spread = error * np.sqrt(0.25 + (0.5 - inside + raw**2) ** 2 + 4 * raw**2)
        return rows[:, 0], means, mean_within(found, spread, 0.0, most)


def mean_within(estimate: ArrayLike, error: ArrayLike, low: ArrayLike, high: ArrayLike) -> Array:
    """The mean of a normal law that is cut to an interval.

    Examples
    --------
    >>> mean_within([0.3, -50.0, 7.0], [1e-6, 1.0, 1e9], 0.0, 1.0).round(2).tolist()
    [0.3, 0.22, 0.5]
    """
    value, spread, bottom, top = (np.asarray(one, dtype=float) for one in (estimate, error, low, high))
    width = top - bottom
    spread = np.minimum(spread, _FLAT * width)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # an interval of one point is its own mean
        centre = np.clip(value, bottom - _FAR * spread, top + _FAR * spread)
        start, end = (bottom - centre) / spread, (top - centre) / spread
        ends = np.exp(-(start**2) / 2) - np.exp(-(end**2) / 2)
        # Of the lower tail, so that no difference is one of two numbers near 1.
        start, end = np.where(start > 0, -end, start), np.where(start > 0, -start, end)
        mass = scipy.special.ndtr(end) - scipy.special.ndtr(start)
        moved = centre + spread * ends / (mass * math.sqrt(2 * math.pi))
    return np.asarray(np.clip(np.where(width > 0, moved, bottom), bottom, top))


def centred_sum(cell: NDArray[np.int64], grid: Grid) -> Fraction:
    """Σz with z = (x − middle)/half-width: every row contributes between −1 and 1."""
    start, step = _lowest(grid)
    return int(cell.size) * start + total(cell) * step


def _centred_squares(cell: NDArray[np.int64], grid: Grid) -> Fraction:
    """Σz²."""
    start, step = _lowest(grid)
    return int(cell.size) * start**2 + 2 * start * step * total(cell) + step**2 * product_total(cell, cell)


def _lowest(grid: Grid) -> tuple[Fraction, Fraction]:
    """z of the lowest grid point, and how far two of them lie apart."""
    half = grid.width / 2
    return (grid.origin - Fraction(grid.bounds[0]) - half) / half, grid.exact_step / half
