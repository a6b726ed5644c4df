"""Entropy: uniform 64-bit words that nobody can predict or repeat.

Each batch takes a fresh 256-bit key from the operating system, expands it with AES-256 in counter mode and drops
the key. No state survives a call, so forked, threaded, spawned or restored processes never share noise.
"""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

__all__ = ["SYSTEM_ENTROPY", "Entropy", "SystemEntropy"]

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
