"""The law of a normal sampling error plus independent Laplace noises: what an interval around a release needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr, ndtri

from discreet.core.contract import Mechanism
from discreet.core.noise.laws import LaplaceLaw

__all__ = ["NormalPlusLaplace", "combined_error"]

Array = NDArray[np.float64]

_APART = 0.01
"""Equal scales are spread by this much, which moves probabilities by less than 1e-4 of their distance to a normal's."""
_HALVINGS = 60


@dataclass(frozen=True)
class NormalPlusLaplace:
    """N(0, variance) + Σ Laplace(scaleᵢ), symmetric around zero; arrays give one law per element.

    Parameters
    ----------
    variance
        Variance of the normal part.
    scales
        Scales of the Laplace noises along the first axis; may be empty.

    Notes
    -----
    With distinct scales the product of Laplace characteristic functions is the signed mixture Σ wᵢ/(1 + bᵢ²t²) with
    wᵢ = Π_{j≠i} bᵢ²/(bᵢ² − bⱼ²), and normal plus one Laplace has a closed distribution function.

    Examples
    --------
    >>> law = NormalPlusLaplace(0.0, [1.0])
    >>> round(float(law.quantile(0.975)), 3), round(float(law.standard_deviation), 4)
    (2.996, 1.4142)
    >>> round(float(NormalPlusLaplace(1.0, []).quantile(0.975)), 4)
    1.96
    """

    variance: Any
    scales: Any

    @property
    def standard_deviation(self) -> Array:
        """Standard deviation of the sum."""
        scales = np.asarray(self.scales, dtype=float)
        noise = 2 * (scales**2).sum(axis=0) if scales.size else 0.0
        return np.asarray(np.sqrt(np.asarray(self.variance, dtype=float) + noise))

    def _mixture(self) -> list[tuple[Array, Array]]:
        """Weights and scales of the signed mixture; noises far below the others are left out."""
        scales = np.asarray(self.scales, dtype=float)
        if scales.size == 0:
            return []
        largest = np.maximum(scales.max(axis=0), 1e-300)
        scales = np.sort(np.maximum(scales, 1e-3 * largest), axis=0)
        power = (scales**2).sum(axis=0)
        for i in range(1, len(scales)):
            scales[i] = np.maximum(scales[i], scales[i - 1] * (1 + _APART))
        scales *= np.sqrt(power / (scales**2).sum(axis=0))  # the variance stays what it was
        mixture = []
        for i, scale in enumerate(scales):
            weight = np.ones_like(scale)
            for j, other in enumerate(scales):
                if j != i:
                    weight = weight * scale**2 / (scale**2 - other**2)
            mixture.append((weight, scale))
        return mixture

    def sf(self, x: Any) -> Array:
        """P(sum > x) for x ≥ 0."""
        spread = np.sqrt(np.maximum(np.asarray(self.variance, dtype=float), (1e-9 * self.standard_deviation) ** 2))
        spread = np.maximum(spread, 1e-300)
        point = np.asarray(x, dtype=float)
        mixture = self._mixture()
        if not mixture:
            return np.asarray(ndtr(-point / spread))
        total = np.zeros(np.broadcast_shapes(point.shape, spread.shape))
        for weight, scale in mixture:
            ratio = spread / scale
            near = np.exp(np.minimum(0.5 * ratio**2 - point / scale + log_ndtr(point / spread - ratio), 700))
            far = np.exp(np.minimum(0.5 * ratio**2 + point / scale + log_ndtr(-point / spread - ratio), 700))
            total = total + weight * (ndtr(-point / spread) + 0.5 * (near - far))
        return np.clip(total, 0.0, 0.5)

    def quantile(self, q: Any) -> Array:
        """The value with P(sum ≤ value) = q, for q ≥ ½."""
        tail = 1 - np.asarray(q, dtype=float)
        shape = np.broadcast_shapes(tail.shape, self.standard_deviation.shape)
        low = np.zeros(shape)
        high = self.standard_deviation * (5 + 3 * np.log(0.5 / np.maximum(tail, 1e-300)))
        high = np.broadcast_to(high, shape).copy()
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            above = self.sf(middle) > tail
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return np.asarray(0.5 * (low + high))

    def score(self, x: Any) -> Array:
        """The standard normal quantile that has the same tail as |x|: a normal score."""
        return np.asarray(-ndtri(np.maximum(self.sf(np.abs(x)), 1e-300)))


def combined_error(mechanism: Mechanism, weights: ArrayLike, level: float) -> float:
    """|Σ wᵢZᵢ| stays below this with probability ``level``, for independent noises Zᵢ of one mechanism."""
    law, sizes = mechanism.law(0.0), np.abs(np.asarray(weights, dtype=float))
    if isinstance(law, LaplaceLaw):
        scales = float(np.max(law.scale)) * sizes[sizes > 0]
        return float(NormalPlusLaplace(0.0, scales).quantile((1 + level) / 2))
    return float(np.max(law.quantile((1 + level) / 2))) * math.hypot(*sizes)
