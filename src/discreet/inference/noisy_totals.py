"""Noisy totals in parts, whatever they are moments of, and the test by which a parameter is accepted or not.

A parameter is accepted where a total that has mean zero under it lies within its quantiles. The variance of that total
is noise, which is known, plus sampling, for which the measured moments are *tilted*: the population that has the
parameter and is nearest to what was measured mixes the latter with as many rows at an extreme as are needed. So an
interval widens towards the bounds as Wilson's does for a proportion, also where the sample has not seen a tail.
Derivation, and what is exact: ``docs/proofs/population_intervals.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy  # whose submodules load when first used
from numpy.typing import NDArray

from discreet.interval import Interval

__all__ = ["NoisyTotals", "hull", "moment_weights", "tilted", "within"]

Array = NDArray[np.float64]
Booleans = NDArray[np.bool_]

_GRID = 64
_ROUNDS = 4
_TINY = 1e-300


def moment_weights(degree: int, power: int, centre: Any = 0.0) -> Array:
    """Weights wₖ with (u − c)ʲ = Σ wₖbₖ(u), along the last axis; c may be an array.

    By uⁱ = Σ (k over i)/(d over i)·bₖ(u), for i up to the degree.

    Examples
    --------
    >>> moment_weights(4, 1).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    >>> moment_weights(2, 2, 0.5).tolist()
    [0.25, -0.25, 0.25]
    """
    c = np.asarray(centre, dtype=float)[..., None]
    raw = np.array([[math.comb(k, i) / math.comb(degree, i) for k in range(degree + 1)] for i in range(power + 1)])
    weights: Any = sum(math.comb(power, i) * (-c) ** (power - i) * raw[i] for i in range(power + 1))
    return np.asarray(weights)


@dataclass(frozen=True, kw_only=True)
class NoisyTotals:
    """Totals that add up to the number of rows, each with independent noise; leading axes are repeats of a simulation.

    Parameters
    ----------
    totals
        The noisy totals along the last axis.
    noise
        Variance of the noise on each of them.
    kurtosis
        Excess kurtosis of that noise.
    size
        The public number of rows, or None where it is read from the totals.
    rows_per_unit
        At most so many rows are one unit's. Units are independent; by Cauchy and Schwarz the squared deviation of a
        unit's rows together is at most so many times the sum of theirs. 0 stands for rows that are the whole
        population: intervals then hold the noise alone. 1 − p stands for a Poisson sample of a share p of it.
    """

    totals: Any
    noise: Any
    kurtosis: float = 0.0
    size: int | None = None
    rows_per_unit: float = 1

    @cached_property
    def parts(self) -> Array:
        """The totals; where their sum is public, the nearest ones that have it."""
        found = np.asarray(self.totals, dtype=float)
        if self.size is None:
            return found
        shares = self._noise / self._noise.sum()
        return np.asarray(found + (self.size - found.sum(axis=-1))[..., None] * shares)

    @cached_property
    def _noise(self) -> Array:
        return np.broadcast_to(np.asarray(self.noise, dtype=float), np.shape(self.totals)[-1:])

    @cached_property
    def rows(self) -> Array:
        """Number of rows, known or estimated; at least 1."""
        return np.asarray(np.maximum(self.parts.sum(axis=-1), 1.0))

    def total(self, weights: Array) -> Array:
        """Σ wₖPₖ."""
        return np.asarray((self.parts * weights).sum(axis=-1))

    def noise_of(self, weights: Array) -> tuple[Array, Array]:
        """Variance and fourth cumulant of Σ wₖZₖ."""
        variances = self.used(weights) ** 2 * self._noise
        return variances.sum(axis=-1), self.kurtosis * (variances**2).sum(axis=-1)

    def used(self, weights: Array) -> Array:
        """What the weights are of the noise, whose sum a public size takes out, each part its share."""
        if self.size is None:
            return weights
        shares = self._noise / self._noise.sum()
        return np.asarray(weights - (weights * shares).sum(axis=-1, keepdims=True))

    def cautious(self, weights: Array) -> Array:
        """The mean over rows of what the weights add up, at least 0, plus one standard deviation of its noise."""
        found = self.total(weights) / self.rows
        noise = self.noise_of(weights - found[..., None])[0]
        return np.asarray(np.maximum(found, 0.0) + np.sqrt(noise) / self.rows)


def tilted(centre: Any, spread: Any, target: Any, ends: tuple[Any, Any]) -> Array:
    """Variance of the population with the mean ``target`` that is nearest to the measured one, between the ends.

    The measured one has the mean ``centre`` and the variance ``spread``. As many rows as are needed move to an end; no
    variance exceeds the largest that the ends allow.
    """
    low, high = ends
    far = np.where(target > centre, high, low)
    share = np.clip((target - centre) / np.where(far == centre, 1.0, far - centre), 0.0, 1.0)
    mixed = (1 - share) * (spread + (centre - target) ** 2) + share * (far - target) ** 2
    largest = np.maximum((target - low) * (high - target), 0.0)
    return np.asarray(np.maximum(np.minimum(mixed, largest), np.minimum(spread, largest)))


def within(
    total: tuple[Array, Array], variance: Array, third: tuple[Array, Array], fourth: Array, level: float
) -> Booleans:
    """Whether a total of mean zero lies within its quantiles, by Cornish and Fisher, on the safe side.

    The total is told as the least and the most that it may be but for its bias, the third cumulant as the least and the
    most that it may be: it widens the longer side and leaves the other as it is. Heavier tails widen both sides.
    """
    z = -float(scipy.special.ndtri((1 - level) / 2))
    spread = np.sqrt(np.maximum(variance, _TINY))
    reach = z + max(z**3 - 3 * z, 0.0) / 24 * fourth / spread**4
    least, most = ((z * z - 1) / 6 * end / spread**3 for end in third)
    above, below = reach + np.maximum(most, 0.0), reach + np.maximum(-least, 0.0)
    return np.asarray((total[0] <= above * spread) & (total[1] >= -below * spread))


def hull(accepts: Callable[[Any], Booleans], centre: Array, ends: tuple[float, float], level: float) -> Interval:
    """The smallest interval that holds all accepted points: from the farthest of a grid, then by bisection."""
    found = [_farthest(accepts, centre, np.full(np.shape(centre), end)) for end in ends]
    return Interval(found[0], found[1], level)


def _farthest(accepts: Callable[[Any], Booleans], centre: Array, end: Array) -> Array:
    """The accepted point farthest from the centre towards an end, rounded outwards; finer steps near the centre."""
    inside, outside = np.zeros(np.shape(centre)), np.ones(np.shape(centre))
    steps = np.linspace(0.0, 1.0, _GRID + 1)
    for round_ in range(_ROUNDS):
        shares = (steps**2 if round_ == 0 else steps).reshape(-1, *[1] * np.ndim(centre))
        points = inside + shares * (outside - inside)
        held = accepts(centre + points * (end - centre))
        # Where nothing is accepted, noise has hidden everything: nothing is excluded.
        last = np.where(held.any(axis=0), _GRID - np.argmax(held[::-1], axis=0), _GRID)
        inside, outside = (
            np.take_along_axis(points, np.minimum(place, _GRID)[None], axis=0)[0] for place in (last, last + 1)
        )
    return np.asarray(centre + outside * (end - centre))
