"""Populations of many shapes, as points on [0, 1] with their probabilities.

Continuous ones stand at 400 equally likely quantiles, clipped: that is itself a population, whose moments are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import stats

__all__ = ["POPULATIONS", "Population"]

Array = NDArray[np.float64]
_QUANTILES = (np.arange(400) + 0.5) / 400


@dataclass(frozen=True)
class Population:
    """Points and their probabilities, with the moments that intervals are about."""

    points: Array
    weights: Array

    @cached_property
    def mean(self) -> float:
        """Mean."""
        return float(self.weights @ self.points)

    @cached_property
    def variance(self) -> float:
        """Variance."""
        return self.moment(2)

    def moment(self, power: int) -> float:
        """Central moment."""
        return float(self.weights @ (self.points - self.mean) ** power)

    def samples(self, rows: int, repeats: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """How often each point occurs, sample by sample."""
        return rng.multinomial(rows, self.weights, size=repeats)


def _of(points: object, weights: object = None) -> Population:
    places = np.clip(np.asarray(points, dtype=float), 0.0, 1.0)
    shares = np.ones(places.size) if weights is None else np.asarray(weights, dtype=float)
    return Population(places, shares / shares.sum())


def _yes(share: float) -> Population:
    return _of([0.0, 1.0], [1 - share, share])


def _heaped() -> Population:
    """Ages from 18 to 100, told in fives and tens by many."""
    ages = np.arange(18, 101)
    heaps = np.where(ages % 10 == 0, 8, np.where(ages % 5 == 0, 4, 1))
    return _of((ages - 18) / 82, heaps * np.exp(-(((ages - 40) / 18) ** 2) / 2))


def _bimodal() -> Population:
    half = stats.norm.ppf(_QUANTILES[::2])
    return _of(np.concatenate([0.1 + 0.01 * half, 0.8 + 0.02 * half]))


def _hurdle() -> Population:
    """Four in five spend nothing, the others a gamma amount."""
    return _of(np.append(stats.gamma(1.2, scale=0.08).ppf(_QUANTILES), 0.0), np.append(np.full(400, 0.2 / 400), 0.8))


POPULATIONS: dict[str, Population] = {
    "yes .5": _yes(0.5),
    "yes .3": _yes(0.3),
    "yes .03": _yes(0.03),
    "yes .001": _yes(0.001),
    "U-shaped": _of(stats.beta(0.4, 0.4).ppf(_QUANTILES)),
    "heaped": _heaped(),
    "bimodal": _bimodal(),
    "hurdle": _hurdle(),
    "Pareto": _of(stats.pareto(1.5).ppf(_QUANTILES) / 100),
    "lognormal": _of(stats.lognorm(1.5).ppf(_QUANTILES) / 50),
    "t, 2.2 df": _of(0.5 + stats.t(2.2).ppf(_QUANTILES) / 60),
    "ties": _of([0.2, 0.2001, 0.9], [0.6, 0.39, 0.01]),
    "narrow": _of(0.3 + 0.01 * stats.norm.ppf(_QUANTILES)),
    "t, 3 df": _of(0.5 + stats.t(3).ppf(_QUANTILES) / 40),
}
