"""Truth: a true value as it is handed to a mechanism, and the kinds of numbers around it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol, cast

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from discreet.core.errors import InvalidParameter, WrongType

__all__ = [
    "Floats", "Truth", "float_truth", "generator", "plain", "saturated", "SYSTEM_ENTROPY", "Entropy",
    "SystemEntropy",
]  # fmt: skip


Floats = float | NDArray[np.float64]
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


def plain(values: Any) -> Floats:
    """A float for a single number, otherwise an array."""
    return float(values) if np.ndim(values) == 0 else np.asarray(values)


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
