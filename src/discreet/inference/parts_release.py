"""What totals in parts tell about the mean, and the variance, of the data.

The parts lie at public positions pₖ between the bounds, so Σz = Σ pₖPₖ and n = Σ Pₖ, and for the mean θ = Σz/n the
released totals satisfy Σz − θn = Σ (pₖ − θ)Zₖ: a combination of independent noises, whose law is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.inference.mean_and_variance_release import MeanAndVarianceRelease
from discreet.inference.noise_sum import combined_error, half_cell
from discreet.inference.noisy_average_release import NoisyAverageRelease
from discreet.questions.parts import Parts
from discreet.releases import Release

__all__ = ["MeanAndVarianceInPartsRelease", "MeanInPartsRelease"]

Array = NDArray[np.float64]
_MOMENTS = np.array([[-1.0, 0.0, 1.0], [1.0, -1.0, 1.0], [1.0, 1.0, 1.0]])
"""Rows: how Σz, Σz² and n are read from the three parts."""


def _parts(release: Release) -> tuple[Parts, Array]:
    return cast(Parts, release.statistic), np.asarray(release.value, dtype=float)


def _weights(release: Release, theta: Any) -> Array:
    return np.array([place - np.asarray(theta) for place in _parts(release)[0].positions])


@dataclass(frozen=True)
class MeanInPartsRelease(NoisyAverageRelease):
    """Two noisy totals, and the mean that follows from them."""

    def _totals(self) -> tuple[float, float]:
        of, parts = _parts(self)
        return float(parts @ of.positions), float(parts.sum())

    def _place(self) -> tuple[tuple[float, float], float, float]:
        of, _ = _parts(self)
        return of.bounds, float(of.middle), float(of.half)

    def _weights(self, theta: Any) -> Array:
        return _weights(self, theta)


@dataclass(frozen=True)
class MeanAndVarianceInPartsRelease(MeanAndVarianceRelease):
    """Three noisy totals, and the moments that follow from them."""

    def _totals(self) -> tuple[float, float, float]:
        first, second, rows = _MOMENTS @ _parts(self)[1]
        return float(first), float(second), float(rows)

    def _weights(self, theta: Any) -> Array:
        return _weights(self, theta)

    def _ends(self, level: float) -> tuple[list[float], list[float]]:
        rounded = half_cell(self.mechanism.law(0.0)) * np.abs(_MOMENTS).sum(axis=1)  # each part may be half a cell off
        noise = [combined_error(self.mechanism, weights, (2 + level) / 3) for weights in _MOMENTS]
        errors = (np.array(noise) + rounded).tolist()
        pairs = list(zip(self._totals(), errors, strict=True))
        return [total - error for total, error in pairs], [total + error for total, error in pairs]

    @property
    def _rows_per_unit(self) -> int:
        """A unit with k rows in each of g groups moves Δ₁ = gk and Δ₂² = gk², and twice both when it is replaced."""
        l1, l2 = self.sensitivity.require_l1(), self.sensitivity.require_l2()
        return max(1, round(l2**2 / l1))
