"""Sanitizing one statistic of partition values at a time, as liu2023 does: exactly and singly, or simulated in bulk.

Partition values come sorted, one row per experiment; results have one column per sanitization.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.choices.exponential_mechanism import ExponentialMechanism
from discreet.mechanisms.choices.quantile_choice import QuantileChoice
from discreet.mechanisms.laplace import Laplace
from discreet.questions.comparison.noise_shares import Spending

__all__ = ["ExactSanitizer", "Ordered", "PlacedSanitizer", "Sanitizer", "SimulatedSanitizer", "simulated_quantiles"]

Array = NDArray[np.float64]

_GRID_BITS = 30
_NEGLIGIBLE = 60.0
"""Ranks whose weight is below e⁻⁶⁰ of the target's are left out of simulations."""


@dataclass(frozen=True)
class Ordered:
    """Sorted partition values, one row per experiment, with running sums that every method shares."""

    values: Array

    @classmethod
    def of(cls, values: Any) -> Ordered:
        """Sort rows of partition values."""
        return cls(np.sort(np.atleast_2d(np.asarray(values, dtype=float)), axis=1))

    @property
    def count(self) -> int:
        """Number of partitions."""
        return int(self.values.shape[1])

    @cached_property
    def running(self) -> Array:
        """Sums of the first 0, 1, 2, … values."""
        return _running(self.values)

    @cached_property
    def running_squares(self) -> Array:
        """Sums of the squares of the first 0, 1, 2, … values."""
        return _running(self.values**2)


def _running(values: Array) -> Array:
    sums = np.zeros((values.shape[0], values.shape[1] + 1))
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums


class Sanitizer(ABC):
    """How one share of the budget protects one statistic, m times over."""

    @abstractmethod
    def quantile(self, ordered: Array, q: float) -> Array:
        """Private quantiles of the sorted rows."""

    @abstractmethod
    def add(self, values: Array, sensitivity: Any) -> Array:
        """Values plus noise for a given (public) sensitivity, element by element."""


@dataclass(frozen=True)
class ExactSanitizer(Sanitizer):
    """Exact draws for a single experiment; every share buys one statistic.

    Attributes
    ----------
    spending
        One share.
    bounds
        Public bounds of a partition value.
    m
        Number of sanitizations.
    """

    spending: Spending
    bounds: tuple[float, float]
    m: int

    def quantile(self, ordered: Array, q: float) -> Array:
        low, high = self.bounds
        cells = 2**_GRID_BITS
        grid = (high - low) / cells
        # Values become cells of a public grid over the bounds; the choice is among its points.
        steps = np.clip(np.floor((ordered[0] - low) / grid + 0.5).astype(np.int64), 0, cells)
        seen, counts = np.unique(np.concatenate([[0, cells], steps]), return_counts=True)
        counts[0] -= 1
        counts[-1] -= 1
        choice = QuantileChoice(factor=_factor(self.spending), probabilities=(q,), lowest=0, highest=cells, grid=1.0)
        # One unit moves one of the P values, so every rank distance moves by at most one.
        histogram, moved = np.stack([seen, counts]), Sensitivity(l1=1.0)
        drawn = [float(np.asarray(self.spending.draw(choice, histogram, moved))) for _ in range(self.m)]
        return np.asarray([[low + grid * step for step in drawn]])

    def add(self, values: Array, sensitivity: Any) -> Array:
        values, scales = np.broadcast_arrays(np.asarray(values, dtype=float), np.asarray(sensitivity, dtype=float))
        noisy = [
            float(np.asarray(self.spending.measure(float(value), Sensitivity(l1=float(scale))).value))
            for value, scale in zip(values.ravel(), scales.ravel(), strict=True)
        ]
        return np.asarray(noisy).reshape(values.shape)


def _factor(spending: Spending) -> float:
    """The sharpest choice a share affords: one unit moves one of P values, so rank distances move by at most one."""
    return ExponentialMechanism.calibrate(spending.guarantee, Sensitivity(l1=1.0)).factor


@dataclass(frozen=True)
class SimulatedSanitizer(Sanitizer):
    """Floating-point draws for many experiments at once.

    Attributes
    ----------
    unit
        Scale of the noise for a sensitivity of one.
    laplace
        Laplace or normal noise.
    factor
        Inverse temperature of the quantiles.
    ends
        The bounds, where the quantile may fall into the end intervals; None leaves them out (liu2023, errata E3).
    m
        Number of sanitizations.
    """

    unit: float
    laplace: bool
    factor: float
    ends: tuple[float, float] | None
    m: int
    rng: np.random.Generator

    @classmethod
    def of(cls, spending: Spending, bounds: tuple[float, float], m: int, *, as_published: bool) -> SimulatedSanitizer:
        """For one share; as published, the quantile spends twice what it claims (errata E2)."""
        scale = spending.mechanism.calibrate(spending.guarantee, Sensitivity(l1=1.0)).scale
        certified = _factor(spending)
        return cls(
            unit=scale,
            laplace=spending.mechanism is Laplace,
            factor=2 * certified if as_published else certified,
            ends=None if as_published else bounds,
            m=m,
            rng=cast(np.random.Generator, spending.rng),
        )

    def quantile(self, ordered: Array, q: float) -> Array:
        return simulated_quantiles(ordered, q, self.factor, self.ends, self.m, self.rng)

    def add(self, values: Array, sensitivity: Any) -> Array:
        shape = np.broadcast_shapes(np.shape(values), np.shape(sensitivity))
        draw = self.rng.laplace(size=shape) if self.laplace else self.rng.standard_normal(shape)
        return np.asarray(values + self.unit * np.asarray(sensitivity) * draw)


@dataclass(frozen=True)
class PlacedSanitizer(Sanitizer):
    """Another sanitizer for sums and counts, with an interval that was placed before, by other means.

    Attributes
    ----------
    inner
        Protects the sums and counts.
    low, high
        The public interval, one row per experiment.
    """

    inner: Sanitizer
    low: Array
    high: Array

    def quantile(self, ordered: Array, q: float) -> Array:
        return self.low if q < 0.5 else self.high

    def add(self, values: Array, sensitivity: Any) -> Array:
        return self.inner.add(values, sensitivity)


def simulated_quantiles(
    ordered: Array, q: float, factor: float, ends: tuple[float, float] | None, size: int, rng: np.random.Generator
) -> Array:
    """liu2023 Algorithm 1 on sorted rows: interval j by gap · exp(−factor·|j − qP|), then uniform inside it."""
    rows, count = ordered.shape
    if ends is None:
        points, first = ordered, 1
    else:
        points, first = np.column_stack([np.full(rows, ends[0]), ordered, np.full(rows, ends[1])]), 0
    ranks = np.arange(first, first + points.shape[1] - 1)
    reach = _NEGLIGIBLE / factor
    kept = np.flatnonzero(np.abs(ranks - q * count) <= reach)
    points = points[:, kept[0] : kept[-1] + 2]
    weights = np.diff(points, axis=1)
    weights *= np.exp(-factor * np.abs(ranks[kept] - q * count))
    running = np.cumsum(weights, axis=1)
    running += 1e-300 * np.arange(1, running.shape[1] + 1)  # where all gaps are zero, any will do
    targets = rng.random((rows, size)) * running[:, -1:]
    chosen = np.stack([np.searchsorted(row, target) for row, target in zip(running, targets, strict=True)])
    chosen = np.minimum(chosen, running.shape[1] - 1)
    low = np.take_along_axis(points, chosen, axis=1)
    high = np.take_along_axis(points, chosen + 1, axis=1)
    return np.asarray(low + rng.random(chosen.shape) * (high - low))
