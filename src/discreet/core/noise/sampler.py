"""Exact rounding: the real-valued output of a mechanism, rounded to its grid, without rounding error.

64 fresh bits are an *interval* of the uniform variable. The fast path evaluates the inverse distribution function
in doubles, with an error bound; where the whole interval and the error fit into one grid cell, that cell is the
answer. The rare other draws get more bits and are evaluated in ball arithmetic until one cell is left. So the
outcome has exactly the distribution of the ideal output, rounded (``docs/proofs/exact_noise.md``).
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, cast

import numpy as np
import scipy
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from flint import arb, fmpz
from numpy.typing import NDArray

from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.numbers import Floats, ball, plain, precisely

__all__ = [
    "Location", "default_grid", "power_of_two", "CHUNK", "Family", "exact_draws", "uniform_ball", "ExponentialFamily",
    "GaussianFamily", "GeometricFamily", "GumbelFamily", "LaplaceFamily", "LargestExponentialFamily",
    "TruncatedLaplaceFamily", "Floats", "Truth", "float_truth", "generator", "plain", "saturated", "SYSTEM_ENTROPY",
    "Entropy", "SystemEntropy",
]  # fmt: skip


# ---- Truth: a true value as it is handed to a mechanism, and the kinds of numbers around it.


Truth = float | int | Fraction | Sequence[Any] | NDArray[Any]
"""A true value: numbers are exact as they stand; fractions keep quotients such as means exact."""


def float_truth(truth: Truth) -> NDArray[np.float64]:
    """The truth as floats, for densities and moments; refuses what is not finite and real."""
    try:
        if np.asarray(truth).dtype.kind in "mM":  # times are no numbers, though numpy counts them
            raise TypeError
        array = np.asarray(truth, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise WrongType("truth", "…", "must be a real number or an array of them", "Pass numbers.") from None
    if not np.all(np.isfinite(array)):
        raise InvalidParameter("truth", "…", "must be finite everywhere", "Remove NaN and infinities first.")
    return array


def saturated(truth: Truth) -> Truth:
    """The truth, with whole numbers and fractions beyond the largest float moved to it.

    Whether a sum is that large may depend on one row, so it must not decide between an answer and an error. Two truths
    are never further apart afterwards: a sensitivity still holds.

    Examples
    --------
    >>> saturated(10**400) == sys.float_info.max
    True
    """
    try:
        np.asarray(truth, dtype=float)
    except OverflowError:
        largest = int(sys.float_info.max)
        given = np.asarray(truth, dtype=object)
        moved = [min(max(one, -largest), largest) if isinstance(one, int | Fraction) else one for one in given.ravel()]
        return cast(Truth, moved[0] if given.ndim == 0 else np.array(moved, dtype=object).reshape(given.shape))
    except (TypeError, ValueError):  # `float_truth` says what is wrong with it
        pass
    return truth


def generator(rng: Any) -> np.random.Generator:
    """The numpy generator behind a seed or a generator, for simulations only."""
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer) or rng < 0:
        raise WrongType("rng", rng, "must be None, a seed ≥ 0 or a numpy Generator", "Pass rng=7 to simulate.")
    return np.random.default_rng(int(rng))


# ---- Entropy: uniform 64-bit words that nobody can predict or repeat.
#
# Each batch takes a fresh 256-bit key from the operating system, expands it with AES-256 in counter mode and drops
# the key. No state survives a call, so forked, threaded, spawned or restored processes never share noise.


Words = NDArray[np.uint64]

_WORD_BYTES = 8
_AES_BLOCK_BYTES = 16
_SMALL_BATCH = 64
"""Up to this many words the operating system is asked directly: a key schedule would cost more."""


class Entropy(Protocol):
    """A source of independent uniform 64-bit words."""

    def words(self, count: int) -> Words:
        """``count`` fresh words."""


class SystemEntropy:
    """Operating-system entropy, expanded by AES-256-CTR."""

    def words(self, count: int) -> Words:
        """``count`` fresh words, from a key that is used for this call only."""
        size = count * _WORD_BYTES
        if count <= _SMALL_BATCH:
            return np.frombuffer(os.urandom(size), dtype=np.uint64)
        # One key per call, so the counter may start at zero: key and counter never repeat together.
        keystream = Cipher(AES256(os.urandom(32)), CTR(bytes(_AES_BLOCK_BYTES))).encryptor()
        stream = bytearray(size + _AES_BLOCK_BYTES - 1)
        keystream.update_into(bytes(size), stream)
        return np.frombuffer(stream, dtype=np.uint64, count=count)


SYSTEM_ENTROPY = SystemEntropy()


# ---- Location: the exact truth, split into a whole number of grid cells and a rest.
#
# The grid is a power of two, so dividing a float by it is exact. Only the rest, below one, meets the noise in
# floating point; a large truth therefore costs no accuracy.


GRID_BITS = 20
"""The default grid is this many bits finer than the scale: far below the noise, yet rarely ambiguous."""

_EXACT_INTEGERS = 2**53
"""Every whole number up to here is a float."""


def power_of_two(name: str, grid: float) -> float:
    """Return ``grid`` as a float if it is a power of two; every exactness argument rests on that."""
    try:
        number = float(grid)
    except (TypeError, ValueError, OverflowError):
        raise WrongType(name, grid, "must be a number", "Pass a power of two such as 2**-10 or 1.") from None
    if not math.isfinite(number) or number <= 0 or math.frexp(number)[0] != 0.5:
        raise InvalidParameter(name, grid, "must be a power of two", "Pass 2**-10, 0.5 or 1, for example.")
    return number


def default_grid(scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """The power of two that is `GRID_BITS` bits below the scale; it depends on public parameters only."""
    exponent = np.frexp(scale)[1] - 1 - GRID_BITS  # above −1000, so that 1/grid is a float too
    return np.asarray(np.ldexp(1.0, np.maximum(exponent, -1000)), dtype=float)


def _inexact_as_floats(truth: Truth, floats: NDArray[np.float64]) -> NDArray[np.object_] | None:
    """The truth as exact fractions where floats might round it: quotients and very large integers.

    Fractions stay fractions even where a float equals them: which path is taken, and how long it takes, must depend on
    the kind of the statistic and not on its secret value.
    """
    kind = truth.dtype.kind if isinstance(truth, np.ndarray | np.generic) else "f" if isinstance(truth, float) else "O"
    if kind == "f" or (kind in "iub" and np.all(np.abs(floats) < _EXACT_INTEGERS)):
        return None
    objects = np.asarray(truth, dtype=object)
    exact = np.vectorize(_fraction, otypes=[object])(objects)
    quotients = any(isinstance(value, Fraction) for value in objects.ravel())
    large = not np.all(np.abs(floats) < _EXACT_INTEGERS)
    return np.asarray(exact, dtype=object) if quotients or large else None


def _fraction(value: Any) -> Fraction:
    return value if isinstance(value, Fraction) else Fraction(value.item() if isinstance(value, np.generic) else value)


class Location:
    """True values that stay exact: floats and integers as they stand, fractions as quotients.

    Parameters
    ----------
    truth
        A number, a `fractions.Fraction`, or an array of them (dtype ``object`` for fractions).
    """

    def __init__(self, truth: Truth) -> None:
        self.floats = float_truth(truth)
        self.fractions = _inexact_as_floats(truth, self.floats)

    def broadcast(self, shape: tuple[int, ...]) -> Location:
        """The same location repeated to ``shape``, flattened."""
        wider = copy(self)
        wider.floats = np.broadcast_to(self.floats, shape).ravel()
        wider.fractions = None if self.fractions is None else np.broadcast_to(self.fractions, shape).ravel()
        return wider

    def split(self, part: slice, per_grid: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Whole cells and rest in [0, 1] of ``truth / grid``; the rest is within 2⁻⁵² of exact.

        Where the whole number is no float the rest is NaN: that draw must be resolved exactly.
        """
        if self.fractions is None:
            # A product with a power of two, a floor and a difference of neighbours: all three are exact.
            cells = self.floats[part] * per_grid
            whole = np.floor(cells)
            return whole, np.subtract(cells, whole, out=cells)
        factors = np.broadcast_to(per_grid, self.floats[part].shape)
        ratios = [value * Fraction(factor) for value, factor in zip(self.fractions[part], factors, strict=True)]
        floors = [math.floor(ratio) for ratio in ratios]
        rests = [
            float(ratio - floor) if abs(floor) <= _EXACT_INTEGERS else math.nan
            for ratio, floor in zip(ratios, floors, strict=True)
        ]
        wholes = [floor if abs(floor) <= _EXACT_INTEGERS else 0 for floor in floors]
        return np.array(wholes, dtype=float), np.array(rests)

    def exact(self, index: int) -> Fraction:
        """The exact value of one flattened element."""
        if self.fractions is not None:
            return Fraction(self.fractions[index])
        return Fraction(float(self.floats[index]))

    def above(self, bound: NDArray[np.float64], part: slice) -> NDArray[np.float64]:
        """``truth − bound``, correctly rounded."""
        if self.fractions is None:
            return np.asarray(self.floats[part] - bound)
        bounds = np.broadcast_to(bound, self.floats[part].shape).tolist()
        pairs = zip(self.fractions[part], bounds, strict=True)
        return np.array([float(value - Fraction(end)) if math.isfinite(end) else -end for value, end in pairs])

    def below(self, bound: NDArray[np.float64], part: slice) -> NDArray[np.float64]:
        """``bound − truth``, correctly rounded."""
        return -self.above(bound, part)


# ---- Exact rounding: the real-valued output of a mechanism, rounded to its grid, without rounding error.


CHUNK = 8192
"""Elements per pass: the buffers of one pass stay in the second-level cache."""

_LARGEST = float(np.finfo(float).max)
_REST_ERROR = 2.0**-48
"""Covers the rounding of the truth's rest (2⁻⁵²) and of adding three numbers below one."""


class Family(Protocol):
    """A family of distributions around zero, as an inverse distribution function in two precisions."""

    def fast(self, words: Words, part: slice) -> tuple[NDArray[np.float64], float | NDArray[np.float64]]:
        """Noise in units of the grid, and a bound on its absolute error; NaN where bits are too few."""

    def enclose(self, index: int, bits: int, count: int) -> arb:
        """The noise, in units of the data, as a ball that holds all values the first ``count`` bits allow."""


def uniform_ball(bits: int, count: int) -> arb:
    """The interval of uniforms whose first ``count`` bits are ``bits``."""
    return arb(fmpz(2 * bits + 1), 1) * arb(2) ** -(count + 1)


def exact_draws(
    family: Family, location: Location, grid: NDArray[np.float64], entropy: Entropy = SYSTEM_ENTROPY
) -> NDArray[np.float64]:
    """One draw per flattened location, each the ideal output rounded to its grid (halves up)."""
    total = location.floats.size
    result = np.empty(total)
    with np.errstate(all="ignore"):  # NaN is the fast path's way to pass a draw on
        for start in range(0, total, CHUNK):
            part = slice(start, min(start + CHUNK, total))
            _draw_chunk(family, location, grid if grid.ndim == 0 else grid[part], part, entropy, result)
    return result


def _draw_chunk(
    family: Family,
    location: Location,
    grid: NDArray[np.float64],
    part: slice,
    entropy: Entropy,
    result: NDArray[np.float64],
) -> None:
    words = entropy.words(part.stop - part.start)
    noise, error = family.fast(words, part)
    whole, rest = location.split(part, 1.0 / grid)
    noise += rest
    noise += 0.5
    cells = np.floor(noise)
    noise -= cells
    # What is left of the cell must clear both edges by the error bound; NaN never does.
    clear = np.abs(np.subtract(noise, 0.5, out=noise), out=noise) < (0.5 - _REST_ERROR) - error
    cells += whole
    np.multiply(cells, grid, out=result[part])
    if not clear.all():
        for offset in np.flatnonzero(~clear).tolist():
            step = Fraction(float(grid if grid.ndim == 0 else grid[offset]))
            index = part.start + offset
            result[index] = _resolve(family, location.exact(index), step, index, int(words[offset]), entropy)


def _resolve(family: Family, truth: Fraction, grid: Fraction, index: int, word: int, entropy: Entropy) -> float:
    """One draw, from as many further bits as it takes."""
    bits, count = word, 64  # the word of the fast path is kept: a fresh one would change the distribution
    offset = truth / grid + Fraction(1, 2)
    magnitude = max(abs(offset.numerator).bit_length() - offset.denominator.bit_length(), 0)
    while True:
        bits, count = (bits << 64) | int(entropy.words(1)[0]), count + 64
        # Enough bits for the whole part of a large truth, and for a logarithm that cancels half of its own.
        with precisely(2 * count + magnitude + 64):
            cell = (family.enclose(index, bits, count) / ball(grid) + ball(offset)).floor().unique_fmpz()
        if cell is not None:
            return _nearest_float(int(cell) * grid)


def _nearest_float(value: Fraction) -> float:
    """A deterministic function of the exact grid point, hence post-processing; saturates instead of overflowing."""
    try:
        return float(value)
    except OverflowError:
        return math.copysign(_LARGEST, value)


# ---- Families: inverse distribution functions in doubles (with error bounds) and in ball arithmetic.
#
# Error budgets. The double-precision logarithm and exponential are taken to be within a relative 2⁻⁴⁴ and the
# normal quantile within 2⁻⁴⁰; the worst errors found are below 2⁻⁵¹, so the budgets are loose by a factor of more
# than 2000 and 200. A test re-measures them on this machine against ball arithmetic.


LOG_BUDGET = 2.0**-44
NORMAL_BUDGET = 2.0**-40

_FEW_BITS = 2**46
"""A magnitude below this has too few leading bits for the double path; it happens once in 2¹⁷ draws."""
_INTERVAL_ERROR = 2.0**-45
"""The most that unseen bits and the conversion to a double can change in a logarithm of at least `_FEW_BITS`."""

FloatArray = NDArray[np.float64]


def _part(values: FloatArray, part: slice) -> FloatArray:
    return values if values.ndim == 0 else values[part]


def _element(values: FloatArray, index: int) -> float:
    return float(values if values.ndim == 0 else values[index])


def _largest(values: FloatArray) -> float:
    return float(values if values.ndim == 0 else values.max())


def _magnitudes(words: Words) -> tuple[NDArray[np.int64], int]:
    """The upper 63 bits as non-negative integers, and the smallest of them."""
    magnitudes = (words >> np.uint64(1)).view(np.int64)
    return magnitudes, int(magnitudes.min())


def _give_up_below(noise: FloatArray, magnitudes: NDArray[np.int64], smallest: int) -> int:
    """Mark draws with too few bits as NaN; return the smallest magnitude that the double path still serves."""
    if smallest >= _FEW_BITS:
        return smallest
    noise[magnitudes < _FEW_BITS] = math.nan
    return _FEW_BITS


def with_sign(noise: FloatArray, words: Words) -> FloatArray:
    """Flip the sign of each number by the lowest bit of its word."""
    noise.view(np.uint64)[...] ^= words << np.uint64(63)
    return noise


def _sign(bits: int, count: int) -> tuple[int, int, int]:
    """Sign, magnitude bits and their number: bit 64 of the stream is the sign, the others the magnitude."""
    extra = count - 64
    first, rest = bits >> extra, bits & ((1 << extra) - 1)
    return (-1 if first & 1 else 1), ((first >> 1) << extra) | rest, count - 1


def exponential_ball(bits: int, count: int) -> tuple[int, arb]:
    """A sign, and −ln U of the other bits as a ball."""
    sign, magnitude, length = _sign(bits, count)
    return sign, -uniform_ball(magnitude, length).log()


def exponential_noise(words: Words, scale: FloatArray) -> tuple[FloatArray, float]:
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

    scale: FloatArray
    scale_in_cells: FloatArray

    def fast(self, words: Words, part: slice) -> tuple[FloatArray, float]:
        """Noise in cells and its error bound."""
        noise, error = exponential_noise(words, _part(self.scale_in_cells, part))
        return with_sign(noise, words), error

    def enclose(self, index: int, bits: int, count: int) -> arb:
        """Noise as a ball."""
        sign, exponential = exponential_ball(bits, count)
        return sign * ball(_element(self.scale, index)) * exponential


@dataclass(frozen=True)
class GeometricFamily:
    """±(b·(−ln U) + c − ½) with c = b·ln(2/(1 + e^{−1/b})): rounded to a whole number, two-sided geometric noise.

    The magnitude ⌊b·(−ln U) + c⌋ is at least m ≥ 1 with probability 2e^{−m/b}/(1 + e^{−1/b})
    (``docs/proofs/geometric.md``, section 1), so one logarithm draws it as fast as Laplace noise. The grid must be 1.
    """

    scale: FloatArray

    def fast(self, words: Words, part: slice) -> tuple[FloatArray, float]:
        """Noise before rounding and its error bound."""
        scale = _part(self.scale, part)
        noise, error = exponential_noise(words, scale)
        # (1 + e^{−1/b})/2 as 1 + expm1(−1/b)/2: for a large b the difference from 1 is what counts. c is at most ½.
        noise -= scale * np.log1p(np.expm1(-1 / scale) / 2) + 0.5
        return with_sign(noise, words), error + 4 * LOG_BUDGET

    def enclose(self, index: int, bits: int, count: int) -> arb:
        """Noise before rounding as a ball."""
        sign, magnitude, length = _sign(bits, count)
        scale = ball(_element(self.scale, index))
        drawn = uniform_ball(magnitude, length) * (1 + (-1 / scale).exp()) / 2
        return sign * (-scale * drawn.log() - arb(1) / 2)


@dataclass(frozen=True)
class GaussianFamily:
    """±σ·Φ⁻¹(1 − U/2): one bit for the sign, the others for U."""

    scale: FloatArray
    scale_in_cells: FloatArray

    def fast(self, words: Words, part: slice) -> tuple[FloatArray, float]:
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
        return with_sign(noise, words), error

    def enclose(self, index: int, bits: int, count: int) -> arb:
        """Noise as a ball."""
        sign, magnitude, length = _sign(bits, count)
        tail = uniform_ball(magnitude, length).erfcinv()
        return sign * ball(_element(self.scale, index)) * arb(2).sqrt() * tail


@dataclass(frozen=True)
class ExponentialFamily:
    """b·(−ln U)."""

    scale: FloatArray
    scale_in_cells: FloatArray

    def fast(self, words: Words, part: slice) -> tuple[FloatArray, float]:
        """Noise in cells and its error bound; the lowest bit stays for the ball path."""
        return exponential_noise(words, _part(self.scale_in_cells, part))

    def enclose(self, index: int, bits: int, count: int) -> arb:
        """Noise as a ball."""
        return -ball(_element(self.scale, index)) * uniform_ball(bits, count).log()


def standard_gumbel(words: Words) -> tuple[FloatArray, float]:
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

    counts: FloatArray

    def fast(self, words: Words, part: slice) -> tuple[FloatArray, float]:
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

    scale: FloatArray
    scale_in_cells: FloatArray

    def fast(self, words: Words, part: slice) -> tuple[FloatArray, float]:
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

    scale: FloatArray
    scale_in_cells: FloatArray
    location: Location
    lower: FloatArray
    upper: FloatArray

    def fast(self, words: Words, part: slice) -> tuple[FloatArray, FloatArray]:
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
        self, lower: FloatArray, scale: FloatArray, width: FloatArray, part: slice
    ) -> tuple[FloatArray, FloatArray]:
        """A and A + D with a single exponential per draw: e^{−(u−c)/b} = e^{−(u−l)/b} / e^{−(c−l)/b}."""
        near = self.location.above(lower, part) * (-1.0 / scale)
        np.exp(near, out=near)
        mass = np.exp(-width) / near
        mass += near
        np.subtract(2.0, mass, out=mass)
        return np.subtract(1.0, near, out=near), mass

    def enclose(self, index: int, bits: int, count: int) -> arb:
        """Noise as a ball."""
        scale = ball(_element(self.scale, index))
        centre = self.location.exact(index)
        lower = _element(self.lower, index)
        upper = _element(self.upper, index)
        left = arb(1) if math.isinf(lower) else _mass(centre - Fraction(lower), scale)
        right = arb(1) if math.isinf(upper) else _mass(Fraction(upper) - centre, scale)
        signed = uniform_ball(bits, count) * (left + right) - left
        return signed.sgn() * -scale * (1 - abs(signed)).log()


def _one_minus_exp(distance: FloatArray, wide: bool) -> FloatArray:
    if not wide:
        return np.asarray(-np.expm1(-distance))
    capped = np.minimum(distance, _NEGLIGIBLE_TAIL)
    return np.asarray(1.0 - np.exp(np.negative(capped)))


def _mass(distance: Fraction, scale: arb) -> arb:
    return -(-ball(distance) / scale).expm1()
