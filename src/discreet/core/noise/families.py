"""Families: inverse distribution functions in doubles (with error bounds) and in ball arithmetic.

Error budgets. The double-precision logarithm and exponential are taken to be within a relative 2⁻⁴⁴ and the
normal quantile within 2⁻⁴⁰; the worst errors found are below 2⁻⁵¹, so the budgets are loose by a factor of more
than 2000 and 200. A test re-measures them on this machine against ball arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy  # whose submodules load when first used
from flint import arb
from numpy.typing import NDArray

from discreet.core.noise.entropy import Words
from discreet.core.noise.exact_draws import uniform_ball
from discreet.core.noise.location import Location
from discreet.core.rounding import ball

__all__ = [
    "ExponentialFamily", "GaussianFamily", "GeometricFamily", "GumbelFamily", "LaplaceFamily",
    "LargestExponentialFamily", "TruncatedLaplaceFamily",
]  # fmt: skip

LOG_BUDGET = 2.0**-44
NORMAL_BUDGET = 2.0**-40

_FEW_BITS = 2**46
"""A magnitude below this has too few leading bits for the double path; it happens once in 2¹⁷ draws."""
_INTERVAL_ERROR = 2.0**-45
"""What the unseen bits and the conversion to a double can change in a logarithm of at least `_FEW_BITS`."""

Floats = NDArray[np.float64]


def _part(values: Floats, part: slice) -> Floats:
    return values if values.ndim == 0 else values[part]


def _element(values: Floats, index: int) -> float:
    return float(values if values.ndim == 0 else values[index])


def _largest(values: Floats) -> float:
    return float(values if values.ndim == 0 else values.max())


def _magnitudes(words: Words) -> tuple[NDArray[np.int64], int]:
    """The upper 63 bits as non-negative integers, and the smallest of them."""
    magnitudes = (words >> np.uint64(1)).view(np.int64)
    return magnitudes, int(magnitudes.min())


def _give_up_below(noise: Floats, magnitudes: NDArray[np.int64], smallest: int) -> int:
    """Mark draws with too few bits as NaN; return the smallest magnitude that the double path still serves."""
    if smallest >= _FEW_BITS:
        return smallest
    noise[magnitudes < _FEW_BITS] = math.nan
    return _FEW_BITS


def _with_sign(noise: Floats, words: Words) -> Floats:
    """Flip the sign of each number by the lowest bit of its word."""
    noise.view(np.uint64)[...] ^= words << np.uint64(63)
    return noise


def _sign(bits: int, count: int) -> tuple[int, int, int]:
    """Sign, magnitude bits and their number: bit 64 of the stream is the sign, the others the magnitude."""
    extra = count - 64
    first, rest = bits >> extra, bits & ((1 << extra) - 1)
    return (-1 if first & 1 else 1), ((first >> 1) << extra) | rest, count - 1


def _exponential_noise(words: Words, scale: Floats) -> tuple[Floats, float]:
    """−b·ln U from the upper 63 bits, in cells, and its error bound."""
    magnitudes, smallest = _magnitudes(words)
    noise = np.multiply(magnitudes, 2.0**-63, dtype=float)
    np.log(noise, out=noise)
    noise *= -scale
    # The bound of the worst draw of the chunk serves all: one number is cheaper than an array of them.
    smallest = _give_up_below(noise, magnitudes, smallest)
    largest_log = 63 * math.log(2) - math.log(smallest)
    return noise, _largest(scale) * (largest_log * LOG_BUDGET + _INTERVAL_ERROR)


@dataclass(frozen=True)
class LaplaceFamily:
    """±b·(−ln U): one bit for the sign, the others for U."""

    scale: Floats
    scale_in_cells: Floats

    def fast(self, words: Words, part: slice) -> tuple[Floats, float]:
        """Noise in cells and its error bound."""
        noise, error = _exponential_noise(words, _part(self.scale_in_cells, part))
        return _with_sign(noise, words), error

    def enclose(self, index: int, bits: int, count: int) -> arb:
        """Noise as a ball."""
        sign, magnitude, length = _sign(bits, count)
        return -sign * ball(_element(self.scale, index)) * uniform_ball(magnitude, length).log()


@dataclass(frozen=True)
class GeometricFamily:
    """±(b·(−ln U) + c − ½) with c = b·ln(2/(1 + e^{−1/b})): rounded to a whole number, two-sided geometric noise.

    The magnitude ⌊b·(−ln U) + c⌋ is at least m ≥ 1 with probability 2e^{−m/b}/(1 + e^{−1/b})
    (``docs/proofs/geometric.md``, section 1), so one logarithm draws it as fast as Laplace noise. The grid must be 1.
    """

    scale: Floats

    def fast(self, words: Words, part: slice) -> tuple[Floats, float]:
        """Noise before rounding and its error bound."""
        scale = _part(self.scale, part)
        noise, error = _exponential_noise(words, scale)
        # (1 + e^{−1/b})/2 as 1 + expm1(−1/b)/2: for a large b the difference from 1 is what counts. c is at most ½.
        noise -= scale * np.log1p(np.expm1(-1 / scale) / 2) + 0.5
        return _with_sign(noise, words), error + 4 * LOG_BUDGET

    def enclose(self, index: int, bits: int, count: int) -> arb:
        """Noise before rounding as a ball."""
        sign, magnitude, length = _sign(bits, count)
        scale = ball(_element(self.scale, index))
        drawn = uniform_ball(magnitude, length) * (1 + (-1 / scale).exp()) / 2
        return sign * (-scale * drawn.log() - arb(1) / 2)


@dataclass(frozen=True)
class GaussianFamily:
    """±σ·Φ⁻¹(1 − U/2): one bit for the sign, the others for U."""

    scale: Floats
    scale_in_cells: Floats

    def fast(self, words: Words, part: slice) -> tuple[Floats, float]:
        """Noise in cells and its error bound."""
        magnitudes, smallest = _magnitudes(words)
        noise = np.multiply(magnitudes, 2.0**-64, dtype=float)
        scipy.special.ndtri(noise, out=noise)
        scale = _part(self.scale_in_cells, part)
        noise *= -scale
        smallest = _give_up_below(noise, magnitudes, smallest)
        # −Φ⁻¹(p) ≤ √(2 ln(1/p)), and d(Φ⁻¹)/d(ln p) = p/φ ≤ 1.2533.
        largest = math.sqrt(2 * (64 * math.log(2) - math.log(smallest)))
        error = _largest(scale) * (largest * NORMAL_BUDGET + 2 * _INTERVAL_ERROR)
        return _with_sign(noise, words), error

    def enclose(self, index: int, bits: int, count: int) -> arb:
        """Noise as a ball."""
        sign, magnitude, length = _sign(bits, count)
        tail = uniform_ball(magnitude, length).erfcinv()
        return sign * ball(_element(self.scale, index)) * arb(2).sqrt() * tail


@dataclass(frozen=True)
class ExponentialFamily:
    """b·(−ln U)."""

    scale: Floats
    scale_in_cells: Floats

    def fast(self, words: Words, part: slice) -> tuple[Floats, float]:
        """Noise in cells and its error bound; the lowest bit stays for the ball path."""
        return _exponential_noise(words, _part(self.scale_in_cells, part))

    def enclose(self, index: int, bits: int, count: int) -> arb:
        """Noise as a ball."""
        return -ball(_element(self.scale, index)) * uniform_ball(bits, count).log()


def standard_gumbel(words: Words) -> tuple[Floats, float]:
    """−ln E for a standard exponential E, and its error bound; NaN where bits are too few.

    U near 0 is a small E and must be taken from its leading bits, U near 1 a large E and must be taken from the
    leading bits of 1 − U: each half of the unit interval uses the accurate form.
    """
    upper = words.view(np.int64) < 0
    distance = np.where(upper, ~words, words).view(np.int64)  # from the nearer end, in units of 2⁻⁶⁴
    near = distance * 2.0**-64
    exponential = np.where(upper, -np.log(near), -np.log1p(-near))
    noise = -np.log(exponential)
    noise[distance < _FEW_BITS] = math.nan
    # 64 ln 2 bounds E, and both E and ln E are relative to their budgets; the interval moves ln E by ≤ 2/k.
    return noise, 46 * LOG_BUDGET + 4 * _INTERVAL_ERROR


@dataclass(frozen=True)
class LargestExponentialFamily:
    """The largest of m standard exponentials, −ln(1 − e^(−E/m)) for a standard exponential E; one m per draw."""

    counts: Floats

    def fast(self, words: Words, part: slice) -> tuple[Floats, float]:
        """Noise and its error bound: a relative error of E/m moves the logarithm by no more."""
        gumbel, error = standard_gumbel(words)
        noise = -np.log(-np.expm1(-np.exp(-gumbel - np.log(self.counts[part]))))
        # The exponent stays below 100, the noise too, and each function is within its budget of them.
        return noise, error + 256 * LOG_BUDGET

    def enclose(self, index: int, bits: int, count: int) -> arb:
        """Noise as a ball: −ln(1 − (1 − U)^(1/m))."""
        share = (1 - uniform_ball(bits, count)).log() / int(self.counts[index])
        return -(-share.expm1()).log()


@dataclass(frozen=True)
class GumbelFamily:
    """b·G with G standard Gumbel (maximum)."""

    scale: Floats
    scale_in_cells: Floats

    def fast(self, words: Words, part: slice) -> tuple[Floats, float]:
        """Noise in cells and its error bound."""
        noise, error = standard_gumbel(words)
        scale = _part(self.scale_in_cells, part)
        return noise * scale, _largest(scale) * error

    def enclose(self, index: int, bits: int, count: int) -> arb:
        """Noise as a ball: −b·ln(−ln(1 − U))."""
        return -ball(_element(self.scale, index)) * (-(1 - uniform_ball(bits, count)).log()).log()


_SIGN_BIT = np.uint64(1 << 63)
_WIDE = 2.0**-6
_NEGLIGIBLE_TAIL = 64.0
"""exp(−64) is far below the error budget; capping here keeps slow subnormal numbers out of the exponential."""


@dataclass(frozen=True)
class TruncatedLaplaceFamily:
    """Laplace noise conditioned so that location plus noise lies between two bounds; one uniform, no rejection.

    With A = 1 − exp(−(c−l)/b) and D = 1 − exp(−(u−c)/b), the signed mass s = U·(A + D) − A from the centre gives
    the noise −sign(s)·b·ln(1 − |s|). A rejection loop would show through its running time where the centre lies.
    """

    scale: Floats
    scale_in_cells: Floats
    location: Location
    lower: Floats
    upper: Floats

    def fast(self, words: Words, part: slice) -> tuple[Floats, Floats]:
        """Noise in cells and its error bound."""
        scale, lower, upper = (_part(values, part) for values in (self.scale, self.lower, self.upper))
        # Whether the quick forms are accurate is decided from public numbers only: the branch must not tell
        # where the centre lies. With a mass of at least 2⁻⁷ they lose no more than the budget allows.
        width = (upper - lower) / scale
        wide = bool(np.all(width > _WIDE))
        if wide and bool(np.all(width < _NEGLIGIBLE_TAIL)):
            left, mass = self._masses_of_one_exponential(lower, scale, width, part)
        else:
            left = _one_minus_exp(self.location.above(lower, part) / scale, wide)
            mass = left + _one_minus_exp(self.location.below(upper, part) / scale, wide)
        signed = np.multiply((words >> np.uint64(1)).view(np.int64), 2.0**-63, dtype=float)
        signed *= mass
        signed -= left
        noise = np.abs(signed, out=mass if wide else None)
        tail = np.subtract(1.0, noise, out=left)
        noise = np.log(tail, out=noise) if wide else np.log1p(-noise)
        in_cells = _part(self.scale_in_cells, part)
        noise *= -in_cells
        # s is within 2⁻⁴³ of the mass, which is at most 2; the logarithm magnifies that by 1/(1 − |s|), and has its
        # own error, below the budget times ln(1/tail) ≤ 1/tail. In short domains the mass is far below 2.
        if wide:
            error = np.divide(in_cells * (5 * LOG_BUDGET), tail, out=tail)
        else:
            error = in_cells * mass * (2 * LOG_BUDGET) / tail + noise * LOG_BUDGET
        # As copysign, which numpy does one by one: the noise is not negative, so its sign bit is free.
        noise.view(np.uint64)[...] |= np.bitwise_and(signed.view(np.uint64), _SIGN_BIT, out=signed.view(np.uint64))
        return noise, error

    def _masses_of_one_exponential(
        self, lower: Floats, scale: Floats, width: Floats, part: slice
    ) -> tuple[Floats, Floats]:
        """A and A + D with a single exponential per draw: e^{−(u−c)/b} = e^{−(u−l)/b} / e^{−(c−l)/b}."""
        near = self.location.above(lower, part) * (-1.0 / scale)
        np.exp(near, out=near)
        mass = np.exp(-width) / near
        mass += near
        np.subtract(2.0, mass, out=mass)
        return np.subtract(1.0, near, out=near), mass

    def enclose(self, index: int, bits: int, count: int) -> arb:
        """Noise as a ball."""
        scale, centre = ball(_element(self.scale, index)), self.location.exact(index)
        lower, upper = _element(self.lower, index), _element(self.upper, index)
        left = arb(1) if math.isinf(lower) else _mass(centre - Fraction(lower), scale)
        right = arb(1) if math.isinf(upper) else _mass(Fraction(upper) - centre, scale)
        signed = uniform_ball(bits, count) * (left + right) - left
        return signed.sgn() * -scale * (1 - abs(signed)).log()


def _one_minus_exp(distance: Floats, wide: bool) -> Floats:
    if not wide:
        return np.asarray(-np.expm1(-distance))
    capped = np.minimum(distance, _NEGLIGIBLE_TAIL)
    return np.asarray(1.0 - np.exp(np.negative(capped)))


def _mass(distance: Fraction, scale: arb) -> arb:
    return -(-ball(distance) / scale).expm1()
