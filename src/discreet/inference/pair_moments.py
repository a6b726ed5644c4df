"""What noisy totals in tensor parts tell about the covariance and the correlation of any two columns on their bounds.

How a parameter is accepted: `discreet.inference.noisy_totals`; which totals have mean zero under it, and what remains
of the errors of the two means: ``docs/proofs/population_intervals.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.inference.noisy_totals import NoisyTotals, hull, moment_weights, tilted, within
from discreet.inference.part_moments import PartMoments
from discreet.interval import Interval

__all__ = ["PairMoments", "marginal"]

Array = NDArray[np.float64]
Booleans = NDArray[np.bool_]
_TINY = 1e-300
_LEAST_PVALUE = 1e-12


def marginal(totals: Any, shape: tuple[int, ...], kept: tuple[int, ...]) -> tuple[Array, int]:
    """Totals of some columns, flat as before, and how many totals were added up for each."""
    found = np.asarray(totals, dtype=float)
    leading = found.shape[:-1]
    tensor = found.reshape(*leading, *shape)
    added = tuple(len(leading) + axis for axis in range(len(shape)) if axis not in kept)
    number = int(np.prod([tensor.shape[axis] for axis in added], initial=1))
    return tensor.sum(axis=added).reshape(*leading, -1), number


@dataclass(frozen=True, kw_only=True)
class PairMoments(NoisyTotals):
    """Noisy totals in tensor parts of two columns, u and v, both between 0 and 1; other parameters as `NoisyTotals`.

    Parameters
    ----------
    shape
        Parts of the two columns. The totals are flat, those of the second column varying fastest.

    Examples
    --------
    >>> totals = np.outer([100, 200, 100], [100, 200, 100]) / 400
    >>> pair = PairMoments(totals=totals.ravel(), noise=2.0, kurtosis=3.0, shape=(3, 3))
    >>> abs(round(float(pair.covariance), 6))
    0.0
    >>> low, high = pair.covariance_interval(0.95)
    >>> round(float(high), 3)
    0.006
    """

    shape: tuple[int, int]

    @cached_property
    def columns(self) -> tuple[PartMoments, PartMoments]:
        """The moments of each column; its totals add up those of the other one, with their noise."""
        return self._column(0), self._column(1)

    def _column(self, axis: int) -> PartMoments:
        totals, added = marginal(self.totals, self.shape, (axis,))
        # The fourth cumulant of a sum of noises is the sum of theirs, their squared variance grows with the square.
        return PartMoments(
            totals=totals,
            noise=marginal(self._noise, self.shape, (axis,))[0],
            kurtosis=self.kurtosis / added,
            size=self.size,
            rows_per_unit=self.rows_per_unit,
        )

    def _weights(self, first: int, second: int, centres: tuple[Any, Any] | None = None) -> Array:
        """Weights of Σ(u − a)ⁱ(v − b)ʲ; around both means unless told otherwise."""
        around = (self.columns[0].mean, self.columns[1].mean) if centres is None else centres
        left, right = (
            moment_weights(count - 1, power, centre)
            for count, power, centre in zip(self.shape, (first, second), around, strict=True)
        )
        product = left[..., :, None] * right[..., None, :]
        return product.reshape(*product.shape[:-2], -1)

    @cached_property
    def covariance(self) -> Array:
        """Covariance of u and v (divisor n), within what the bounds allow."""
        return np.asarray(np.clip(self.total(self._weights(1, 1)) / self.rows, -0.25, 0.25))

    @cached_property
    def correlation(self) -> Array:
        """Correlation of u and v, within ±1; 0 where noise leaves a column no variance."""
        product = self.columns[0].variance * self.columns[1].variance
        quotient = self.covariance / np.sqrt(np.where(product > 0, product, 1.0))
        return np.asarray(np.where(product > 0, np.clip(quotient, -1.0, 1.0), 0.0))

    # ---- errors of the two means ------------------------------------------------------------------------------------

    @cached_property
    def _mean_errors(self) -> tuple[Array, Array]:
        first, second = (column.mean_error for column in self.columns)
        return first, second

    @cached_property
    def _joint_error(self) -> Array:
        """E(û − μ)(v̂ − ν): what the errors of both means take from the covariance on average."""
        first, second = (self._weights(*powers) for powers in ((1, 0), (0, 1)))
        noise = (self.used(first) * self.used(second) * self._noise).sum(axis=-1) / self.rows**2
        return np.asarray(noise + self.rows_per_unit * self.covariance / self.rows)

    @cached_property
    def _corners(self) -> tuple[list[Array], list[Array]]:
        first, second = (column.mean for column in self.columns)
        return [-first, 1 - first], [-second, 1 - second]

    # ---- covariance -------------------------------------------------------------------------------------------------

    def accepts_covariance(self, covariance: Any, level: float = 0.95) -> Booleans:
        """Whether the interval for the population's covariance of u and v holds ``covariance``."""
        value = np.asarray(covariance, dtype=float)
        total = self.total(self._weights(1, 1) - value[..., None])
        noise, fourth = self._noise_around(value)
        low, high = self._product_ends
        sampling = self.rows_per_unit * self.rows * tilted(self.covariance, self._product_variance, value, (low, high))
        off = self.rows * self._joint_error
        second_order = self.rows**2 * self._mean_errors[0] * self._mean_errors[1] + off**2
        ends = (total + np.minimum(off, 0.0), total + np.maximum(off, 0.0))
        third = (sampling * (low - value), sampling * (high - value))
        return within(ends, noise + sampling + second_order, third, fourth, level)

    @cached_property
    def _product_ends(self) -> tuple[Array, Array]:
        """The least and the most that (u − û)(v − v̂) can be: at corners of the bounds."""
        found = [a * b for a in self._corners[0] for b in self._corners[1]]
        return np.minimum.reduce(found), np.maximum.reduce(found)

    @cached_property
    def _product_variance(self) -> Array:
        """Variance of (u − μ)(v − ν), from the mixed fourth moment plus one standard deviation of its noise."""
        if min(self.shape) < 3:  # a yes/no column is its own square up to its mean: no moment beyond the first is known
            low, high = self._product_ends
            return np.asarray(np.maximum((self.covariance - low) * (high - self.covariance), 0.0))
        return np.asarray(np.maximum(self.cautious(self._weights(2, 2)) - self.covariance**2, 0.0))

    def _noise_around(self, value: Array) -> tuple[Array, Array]:
        """Variance and fourth cumulant of the noise, for the worst of the centres one error around the two means."""
        first, second = (column.mean for column in self.columns)
        one, two = (np.sqrt(error) for error in self._mean_errors)
        centres = [(first, second), *((first + a * one, second + b * two) for a in (-1, 1) for b in (-1, 1))]
        inside = [(np.clip(a, 0.0, 1.0), np.clip(b, 0.0, 1.0)) for a, b in centres]
        found = [self.noise_of(self._weights(1, 1, centre) - value[..., None]) for centre in inside]
        return np.maximum.reduce([one[0] for one in found]), np.maximum.reduce([one[1] for one in found])

    def covariance_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population's covariance of u and v."""
        checked = requirements.level(level)
        return hull(lambda value: self.accepts_covariance(value, checked), self.covariance, (-0.25, 0.25), checked)

    # ---- correlation ------------------------------------------------------------------------------------------------

    def accepts_correlation(self, correlation: Any, level: float = 0.95) -> Booleans:
        """Whether the interval for the population's correlation of u and v holds ``correlation``."""
        value = np.asarray(correlation, dtype=float)
        weights = self._mixed(value, (1, 1), (2, 0), (0, 2))
        total = self.total(weights)
        noise, fourth = self.noise_of(weights)
        low, high = self._departure_ends(value)
        spread = np.maximum(-low * high, 0.0) if min(self.shape) < 5 else self._departure_spread(value)
        sampling = self.rows_per_unit * self.rows * tilted(total / self.rows, spread, 0.0, (low, high))
        off = self.rows * self._departure_bias(value)
        ends = (total - off, total + off)
        third = (sampling * low, sampling * high)
        return within(ends, noise + sampling + 2 * off**2, third, fourth, level)

    def correlation_pvalue(self) -> float:
        """Of the hypothesis that u and v are uncorrelated: below 1 − level where that interval leaves 0 out.

        For one release, not for the repeats of a simulation.
        """
        low, high = _LEAST_PVALUE, 1.0
        while high > (1 + 1e-6) * low:
            middle = math.sqrt(low * high)
            rejected = not bool(self.accepts_correlation(0.0, 1 - middle))
            low, high = (low, middle) if rejected else (middle, high)
        return high

    @cached_property
    def _scale(self) -> Array:
        """λ = σᵥ/σᵤ, from variances that are at least the standard deviation of their noise."""
        first, second = (column.likely_variance for column in self.columns)
        return np.asarray(np.sqrt(second / np.maximum(first, _TINY)))

    def _mixed(self, value: Array, *powers: tuple[int, int]) -> Array:
        """Weights of Σ ab − ½r(λa² + b²/λ) for the deviations a and b: its mean is zero where r is the correlation."""
        both, first, second = (self._weights(*pair) for pair in powers)
        scale, r = self._scale[..., None], value[..., None]
        return np.asarray(both - r / 2 * (scale * first + second / scale))

    def _departure_ends(self, value: Array) -> tuple[Array, Array]:
        """Bounds of ab − ½r(λa² + b²/λ): by λa² + b²/λ ≥ 2|ab| on one side, at a corner on the other."""
        scale = self._scale
        low, high = self._product_ends
        found = [
            a * b - value / 2 * (scale * a * a + b * b / scale) for a in self._corners[0] for b in self._corners[1]
        ]
        least = np.where(value >= 0, np.minimum.reduce(found), (1 + value) * low)
        most = np.where(value >= 0, (1 - value) * high, np.maximum.reduce(found))
        return least, most

    def _departure_spread(self, value: Array) -> Array:
        """Mean of the squared departure, from mixed fourth moments plus one standard deviation of their noise."""
        scale, r = self._scale[..., None], value[..., None]
        w22, w31, w13, w40, w04 = self._fourths
        weights = w22 - r * (scale * w31 + w13 / scale) + r**2 / 4 * (scale**2 * w40 + 2 * w22 + w04 / scale**2)
        return self.cautious(weights)

    @cached_property
    def _fourths(self) -> list[Array]:
        return [self._weights(*powers) for powers in ((2, 2), (3, 1), (1, 3), (4, 0), (0, 4))]

    def _departure_bias(self, value: Array) -> Array:
        """How far errors of means and of λ move the mean of the departure: both are of second order."""
        scale, size = self._scale, np.abs(value)
        centres = np.abs(self._joint_error) + size / 2 * (scale * self._mean_errors[0] + self._mean_errors[1] / scale)
        # λV + W/λ exceeds 2√(VW) by √(VW)·δ², where δ, the error of log λ, is half that of log V − log W.
        first, second = (column.likely_variance for column in self.columns)
        relative = [column.variance_error / np.maximum(column.likely_variance, _TINY) ** 2 for column in self.columns]
        return np.asarray(centres + size / 2 * np.sqrt(first * second) * (relative[0] + relative[1]) / 4)

    def correlation_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population's correlation of u and v."""
        checked = requirements.level(level)
        return hull(lambda value: self.accepts_correlation(value, checked), self.correlation, (-1.0, 1.0), checked)
