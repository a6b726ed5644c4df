"""The exact sampler of discrete Gaussian noise: the tail of its magnitude as a table, in two precisions.

One bit is the sign and the others are a uniform U: the magnitude is at least m ≥ 1 exactly where U is below
P(|K| ≥ m). Doubles with an error bound decide nearly every draw; balls decide the others.
Proof: ``docs/proofs/discrete_gaussian.md``, section 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from discreet.core.noise.entropy import Words
from discreet.core.noise.exact_draws import uniform_ball
from discreet.core.rounding import ball

__all__ = ["LARGEST_SCALE", "DiscreteGaussianFamily", "MagnitudeTable", "at_least", "magnitude_table"]

Floats = NDArray[np.float64]

LARGEST_SCALE = 1024.0
"""A larger table would be slow, and would gain nothing: rounding adds 1/12 to a variance of a million."""
_REACH = 38.6
"""Standard deviations that the table spans: what lies beyond is below 1e-320."""
TABLE_ERROR = 2.0**-36
"""Relative error of the tails in doubles: fewer than 2¹⁶ additions of 2⁻⁵³ each, and exponents within 2⁻⁴⁰."""
_FEWEST_BITS, _MOST_BITS = 10, 15
"""So many first bits of a uniform look up its magnitude; a draw that they do not settle is searched for."""


class MagnitudeTable:
    """The tails P(|K| ≥ m), m = 1, 2, …, of discrete Gaussian noise in doubles, and P(K = 0).

    Examples
    --------
    >>> table = magnitude_table(1.0)
    >>> table.tails[:3].round(4).tolist(), round(table.centre, 4)
    ([0.6011, 0.1171, 0.0091], 0.3989)
    """

    def __init__(self, scale: float) -> None:
        steps = np.arange(1, math.ceil(_REACH * scale) + 2)
        with np.errstate(over="ignore", under="ignore"):
            weights = np.exp(-((steps / scale) ** 2) / 2)
        beyond = np.cumsum(weights[::-1])[::-1]  # from the small end, so that errors stay relative
        total = 1 + 2 * float(beyond[0])
        self.centre = 1 / total
        self.weights, self.tails = weights / total, 2 * beyond / total
        bits = min(_FEWEST_BITS + math.ceil(math.log2(scale + 1)), _MOST_BITS)  # many times the tails that matter
        self.shift = np.uint64(63 - bits)

    @cached_property
    def rising(self) -> Floats:
        """The tails in rising order."""
        return self.tails[::-1]

    def magnitudes(self, uniforms: Floats) -> NDArray[np.int64]:
        """How many tails exceed each number of (0, 1)."""
        return np.asarray(self.tails.size - np.searchsorted(self.rising, uniforms, side="right"), dtype=np.int64)

    @cached_property
    def thresholds(self) -> tuple[Words, Words]:
        """The tails in units of 2⁻⁶³, rounded down and up by more than their error; in rising order."""
        parts = self.rising * 2.0**63
        low, high = np.floor(parts * (1 - TABLE_ERROR)), np.ceil(parts * (1 + TABLE_ERROR))
        return low.astype(np.uint64), np.minimum(high, 2.0**63).astype(np.uint64)

    @cached_property
    def guide(self) -> NDArray[np.float64]:
        """Magnitude by the first bits of a uniform; NaN where they leave two possible."""
        cell = np.uint64(1) << self.shift
        first = np.arange(2 ** (63 - int(self.shift)), dtype=np.uint64) * cell
        least, most = self.between(first + (cell - np.uint64(1)), first)
        return np.where(least == most, least, math.nan)

    def between(self, last: Words, first: Words) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The least and the largest magnitude of all uniforms between two, in units of 2⁻⁶³."""
        low, high = self.thresholds
        return (
            low.size - np.searchsorted(low, last, side="right"),
            high.size - np.searchsorted(high, first, side="right"),
        )


@lru_cache(maxsize=64)
def magnitude_table(scale: float) -> MagnitudeTable:
    """The table of a scale; tables are kept, because a session asks for the same scales again."""
    return MagnitudeTable(scale)


def _weight(square: Fraction, step: int) -> arb:
    return (-ball(step**2 / (2 * square))).exp()


@lru_cache(maxsize=64)
def _sum_from(square: Fraction, first: int, bits: int) -> arb:
    """Σ e^{−k²/2σ²} over k ≥ ``first`` ≥ 1, good to ``bits``, which must be the working precision."""
    weight, ratio = _weight(square, first), _weight(square, 1) ** (2 * first + 1)
    falls = _weight(square, 1) ** 2
    total, negligible = arb(0), weight * arb(2) ** -(bits + 8)
    # Successive weights have falling ratios, so the rest is less than a geometric series.
    while not (weight < negligible and ratio < arb(1) / 2):
        total += weight
        weight, ratio = weight * ratio, ratio * falls
    return total + weight * arb(1, 1)  # the rest lies between 0 and twice the first weight left out


def at_least(square: Fraction, step: int) -> arb:
    """P(K ≥ step) for discrete Gaussian noise with σ² = ``square``, as a ball at the working precision."""
    if step <= 0:
        return 1 - at_least(square, 1 - step)
    return _sum_from(square, step, ctx.prec) / (1 + 2 * _sum_from(square, 1, ctx.prec))


@dataclass(frozen=True)
class DiscreteGaussianFamily:
    """±m with P(|K| ≥ m + 1) ≤ U < P(|K| ≥ m): one bit for the sign, the others for U. The grid must be 1."""

    scale: float

    def fast(self, words: Words, part: slice) -> tuple[Floats, float]:
        """Noise, and no error: a draw that doubles cannot decide is NaN."""
        table = magnitude_table(self.scale)
        uniforms = words >> np.uint64(1)
        noise = table.guide[uniforms >> table.shift]
        open_ = np.flatnonzero(np.isnan(noise))
        if open_.size:
            least, most = table.between(uniforms[open_], uniforms[open_])
            noise[open_] = np.where(least == most, least, math.nan)
        noise.view(np.uint64)[...] ^= words << np.uint64(63)  # the lowest bit is the sign
        return noise, 0.0

    def enclose(self, index: int, bits: int, count: int) -> arb:
        """The magnitude as a point where the bits decide it; otherwise a ball around two of them."""
        extra = count - 64
        first, rest = bits >> extra, bits & ((1 << extra) - 1)
        uniform = uniform_ball(((first >> 1) << extra) | rest, count - 1)
        square = Fraction(self.scale) ** 2
        size = int(magnitude_table(self.scale).magnitudes(np.asarray(float(uniform.mid()))))
        while uniform < 2 * at_least(square, size + 1):
            size += 1
        while size > 0 and uniform >= 2 * at_least(square, size):
            size -= 1
        decided = uniform >= 2 * at_least(square, size + 1) and (
            size == 0 or bool(uniform < 2 * at_least(square, size))
        )
        return (-1 if first & 1 else 1) * (arb(size) if decided else arb(size, 1))
