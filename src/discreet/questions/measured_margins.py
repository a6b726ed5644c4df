"""Measured margins: noisy components of counts, and what follows from them without any name of a column or label."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms.tables.components import Axes, below, cell_covariance, margin_of
from discreet.mechanisms.tables.margins_noise import MarginsNoise
from discreet.questions.presented_tables import MOST_PRESENTED, nearest_table, whole_pairs, whole_table
from discreet.questions.synthetic_rows import maximum_entropy

__all__ = ["MeasuredMargins", "Place"]

Array = NDArray[np.float64]
Place = Mapping[int, int]
"""A cell: its position along each of its axes."""


@dataclass(frozen=True)
class MeasuredMargins:
    """The counts of a release of margins.

    Attributes
    ----------
    components
        What was measured; a public total is one of them.
    noise
        The mechanism that made them.
    tables
        Axes of the wanted tables.
    possible
        False for cells of the table of all axes that cannot have rows; None where all can.
    """

    components: Mapping[Axes, Array]
    noise: MarginsNoise
    tables: Sequence[Axes]
    possible: NDArray[np.bool_] | None

    @property
    def fits(self) -> bool:
        """Whether the table of all axes is small enough to be computed."""
        return math.prod(self.noise.sizes) <= MOST_PRESENTED

    def margin(self, axes: Axes) -> Array:
        """Any margin of a wanted table."""
        return margin_of(self.components, self.noise.sizes, axes)

    def at(self, place: Place) -> float:
        """One cell."""
        axes = tuple(sorted(place))
        return float(self.margin(axes)[tuple(place[axis] for axis in axes)])

    def covariance(self, one: Sequence[tuple[Place, float]], other: Sequence[tuple[Place, float]]) -> float:
        """Noise covariance of two weighted sums of cells."""
        variances = self.noise.variances()
        return sum(
            first * second * cell_covariance(variances, self.noise.sizes, cell, another)
            for cell, first in one
            for another, second in other
        )

    def presented(self) -> NDArray[np.int64]:
        """The table of all axes in whole numbers whose margins are presented."""
        near = self._nearest(self.components)
        return whole_table(near, max(round(float(self.components[()])), 0), self.tables, self.possible)

    @cached_property
    def pairs(self) -> Mapping[Axes, NDArray[np.int64]] | None:
        """Presented margins where the table of all axes is too large; None where one of more than two is wanted."""
        if max(map(len, self.tables)) > 2:
            return None
        margins = {axes: self.margin(axes) for axes in below(self.tables)}
        return whole_pairs(margins, max(round(float(self.components[()])), 0))

    def synthetic(self, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Fresh noise on the measurement, the nearest possible table, the model of its margins, and rows from it."""
        nothing = np.zeros(self.noise.dimension, dtype=np.int64)
        parts = dict(self.components)
        for one, block in self.noise.blocks(self.noise.measure(nothing, rng=rng)):
            if one.layer == 0:
                parts[one.axes] = parts[one.axes] + block
        shares = maximum_entropy(self._nearest(parts), self.tables, self.possible)
        return rng.multinomial(rows, shares.ravel()).reshape(shares.shape).astype(np.int64)

    def _nearest(self, components: Mapping[Axes, Array]) -> Array:
        variances = {(): 0.0, **self.noise.variances()}  # a public total is known
        return nearest_table(components, variances, self.noise.sizes, self.possible)
