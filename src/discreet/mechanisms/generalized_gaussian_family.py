"""The exact sampler of generalized Gaussian noise: the inverse of its distribution function, in two precisions.

If G has the gamma law of shape 1/p, then ±G^{1/p} has density proportional to exp(−|z|^p). The tail of |z| is the
regularised incomplete gamma function Q(1/p, z^p), which is inverted here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy  # whose submodules load when first used
from flint import arb
from numpy.typing import NDArray

from discreet.core.noise.entropy import Words
from discreet.core.noise.exact_draws import uniform_ball
from discreet.core.rounding import ball

__all__ = ["QUANTILE_BUDGET", "GeneralizedGaussianFamily", "tail"]

Floats = NDArray[np.float64]

QUANTILE_BUDGET = 2.0**-36
"""Absolute error that the quantile in doubles may have, in scales; a test measures less than a hundredth of it."""

_FEW_BITS = 2**46
"""A tail below 2⁻¹⁷ has too few leading bits for doubles: the balls take such a draw, once in 2¹⁷."""


def tail(z: arb, order: int) -> arb:
    """P(|Z| > z) = Q(1/p, z^p) for z ≥ 0, as a ball; 1 where z is at most 0."""
    if z <= 0:
        return arb(1)
    if not z > 0:  # a ball around 0: the density of |Z| is at most p/Γ(1/p), so the tail hardly moves
        reach = z.abs_upper() * order / (1 / arb(order)).gamma()
        return (1 - reach / 2) + arb(0, 1) * reach / 2
    return (z**order).gamma_upper(1 / arb(order), regularized=1)


@dataclass(frozen=True)
class GeneralizedGaussianFamily:
    """±b·z with Q(1/p, z^p) = U: one bit for the sign, the others for U."""

    scale: Floats
    scale_in_cells: Floats
    order: int

    def fast(self, words: Words, part: slice) -> tuple[Floats, float]:
        """Noise in cells and its error bound."""
        magnitudes = (words >> np.uint64(1)).view(np.int64)
        quantile = scipy.special.gammainccinv(1 / self.order, magnitudes * 2.0**-63) ** (1 / self.order)
        quantile[magnitudes < _FEW_BITS] = math.nan
        scale = self.scale_in_cells if self.scale_in_cells.ndim == 0 else self.scale_in_cells[part]
        noise = np.asarray(quantile * scale)
        noise.view(np.uint64)[...] ^= words << np.uint64(63)  # the lowest bit is the sign
        # The unseen bits move U by 2⁻⁶³ and z by that over the density, which is at least 2⁻¹⁹ where U is above 2⁻¹⁷.
        return noise, float(np.max(scale)) * (QUANTILE_BUDGET + 2.0**-44)

    def enclose(self, index: int, bits: int, count: int) -> arb:
        """Noise as a ball: the quantiles of both ends of the uniform interval."""
        extra = count - 64
        first, rest = bits >> extra, bits & ((1 << extra) - 1)
        uniform = uniform_ball(((first >> 1) << extra) | rest, count - 1)
        scale = ball(float(self.scale if self.scale.ndim == 0 else self.scale[index]))
        return (-1 if first & 1 else 1) * scale * self._quantile(uniform)

    def _quantile(self, uniform: arb) -> arb:
        middle, density = self._newton(uniform.mid())
        radius = (uniform.rad() + abs(tail(middle, self.order) - uniform.mid())) / density
        while True:  # until both ends are proved to lie outside the interval
            radius = (4 * radius).upper()
            low, high = (middle - radius).lower(), (middle + radius).upper()
            above = bool(low <= 0) or bool(tail(low, self.order) >= uniform)
            if above and bool(tail(high, self.order) <= uniform):
                return middle + radius * arb(0, 1)

    def _newton(self, uniform: arb) -> tuple[arb, arb]:
        """An approximate quantile, as a point, and the density there; nothing rests on how good it is."""
        p = self.order
        z = arb(max(float(scipy.special.gammainccinv(1 / p, float(uniform))) ** (1 / p), 2.0**-60))
        factor = p / (1 / arb(p)).gamma()
        density = (factor * (-(z**p)).exp()).mid()
        for _ in range(12):
            moved = (z + (tail(z, p) - uniform) / density).mid()
            if not moved > 0:
                break
            z, density = moved, (factor * (-(moved**p)).exp()).mid()
        return z, density
