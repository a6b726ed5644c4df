"""Inference about a mean of rows from noisy totals of units, each of which may hold several rows.

The totals hold the first two moments of what a unit's rows add up to, so the variance of the mean is measured, however
alike the rows of a unit are. Derivation: ``docs/proofs/population_intervals.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.inference.design import measured_moments
from discreet.inference.moments import Array, Booleans, hull, moved_back, tilted, within
from discreet.inference.noise import NoisyTotals
from discreet.results.display import Interval


def unit_moments(inner: float) -> dict[str, NDArray[np.float64]]:
    """The weights of the parts of units that give Σu, Σuy, Σu², Σu²y and Σu²y², named by powers.

    Examples
    --------
    >>> unit_moments(2.0)["uy"].tolist()
    [0.0, 0.5, 1.0, 0.0, 0.5, 0.0]
    """
    return {name: weights[:-1] for name, weights in measured_moments(2, inner).items()}  # no weight is trimmed


@dataclass(frozen=True, kw_only=True)
class UnitMoments(NoisyTotals):
    """Noisy totals over units with weights u and mean values y, both from 0 to 1; other parameters as `NoisyTotals`.

    Parameters
    ----------
    inner
        How often u(1 − u) counts in the parts: see `unit_moments`.

    Examples
    --------
    >>> u, y = np.tile([0.5, 1.0], 500), np.linspace(0, 1, 1000)
    >>> seconds, firsts = u**2, 2 * u * (1 - u)
    >>> parts = [seconds * (1 - y) ** 2, seconds * 2 * y * (1 - y), seconds * y**2, firsts * (1 - y), firsts * y]
    >>> totals = [float(part.sum()) for part in (*parts, (1 - u) ** 2)]
    >>> low, high = UnitMoments(totals=totals, noise=1e-9, inner=2.0).mean_interval(0.95)
    >>> round(low, 3), round(high, 3)
    (0.48, 0.52)
    """

    inner: float

    @cached_property
    def _of(self) -> dict[str, NDArray[np.float64]]:
        return unit_moments(self.inner)

    @cached_property
    def mean(self) -> Array:
        """Mean of the rows, in [0, 1]."""
        return np.asarray(np.clip(self.total(self._of["uy"]) / self.at_least_noise(self._of["u"]), 0.0, 1.0))

    def accepts_mean(self, theta: Any, level: float = 0.95) -> Booleans:
        """True where the interval for the population's mean of rows covers ``theta``."""
        point = np.asarray(theta, dtype=float)
        across = point[..., None]
        weights = self._of["uy"] - across * self._of["u"]
        total = self.total(weights) + moved_back(self.total(self._of["uy"]), self.total(self._of["u"]))
        noise, fourth = self.noise_of(weights)
        # u(y − θ) of a unit lies between −θ and 1 − θ, and has the mean 0 where θ is the mean of rows
        squares = self.cautious(self._of["uuyy"] - 2 * across * self._of["uuy"] + across**2 * self._of["uu"])
        off = total / self.rows
        spread = tilted(off, squares - off**2, 0.0, (-point, 1 - point))
        sampling = self.rows_per_unit * self.rows * spread
        skew = sampling * (1 - 2 * point)
        return within((total, total), noise + sampling, (skew, skew), fourth, level)

    def mean_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population's mean of rows."""
        checked = requirements.level(level)
        return hull(lambda theta: self.accepts_mean(theta, checked), self.mean, (0.0, 1.0), checked)
