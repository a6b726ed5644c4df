"""Exact rounding: the real-valued output of a mechanism, rounded to its grid, without rounding error.

64 fresh bits are an *interval* of the uniform variable. The fast path evaluates the inverse distribution function
in doubles, with an error bound; where the whole interval and the error fit into one grid cell, that cell is the
answer. The rare other draws get more bits and are evaluated in ball arithmetic until one cell is left. So the
outcome has exactly the distribution of the ideal output, rounded (``docs/proofs/exact_noise.md``).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Protocol

import numpy as np
from flint import arb, fmpz
from numpy.typing import NDArray

from discreet.core.noise.entropy import SYSTEM_ENTROPY, Entropy, Words
from discreet.core.noise.location import Location
from discreet.core.rounding import ball, precisely

__all__ = ["CHUNK", "Family", "exact_draws", "uniform_ball"]

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
    family: Family,
    location: Location,
    grid: NDArray[np.float64],
    entropy: Entropy = SYSTEM_ENTROPY,
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
