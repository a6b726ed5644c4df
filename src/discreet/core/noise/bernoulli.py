"""Bernoulli draws: independent events with exact probabilities, however these are computed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from flint import arb
from numpy.typing import NDArray

from discreet.core.noise.entropy import SYSTEM_ENTROPY, Entropy
from discreet.core.noise.exact_draws import uniform_ball
from discreet.core.rounding import precisely

__all__ = ["exact_events"]

_WORD = 64
_UNIFORM_ERROR = 2.0**-52
"""Conversion of 64 bits to a double, and the bits beyond them."""


def exact_events(
    probabilities: NDArray[np.float64],
    error: float,
    enclose: Callable[[int], arb],
    *,
    entropy: Entropy = SYSTEM_ENTROPY,
) -> NDArray[np.bool_]:
    """Independent events, each with exactly the probability that ``enclose`` encloses.

    Parameters
    ----------
    probabilities
        The probabilities in floating point.
    error
        Bound on their absolute errors. They decide all draws that are not within it.
    enclose
        Position → ball around the exact probability, at the working precision; asked for close draws only.

    Examples
    --------
    >>> exact_events(np.array([0.0, 1.0]), 0.0, lambda index: arb(index)).tolist()
    [False, True]
    """
    words = entropy.words(probabilities.size)
    uniforms = words.astype(float) * 2.0**-_WORD
    happens = np.asarray(uniforms < probabilities)
    close = np.abs(uniforms - probabilities) <= error + _UNIFORM_ERROR
    for index in np.flatnonzero(close).tolist():
        happens[index] = _decided(int(words[index]), index, enclose, entropy)
    return happens


def _decided(bits: int, index: int, enclose: Callable[[int], arb], entropy: Entropy) -> bool:
    """Whether U < p, where U begins with 64 known bits: more bits until the balls of both are apart."""
    count = _WORD
    while True:
        with precisely(count + 128):
            uniform, probability = uniform_ball(bits, count), enclose(index)
            if uniform < probability or probability >= 1:
                return True
            if uniform >= probability or probability <= 0:
                return False
        bits, count = (bits << _WORD) | int(entropy.words(1)[0]), count + _WORD
