"""Race: which candidate's score plus noise is largest, decided exactly.

The noisy scores are never rounded. Doubles with error bounds decide all but the closest finishes; those take more
bits and are compared in ball arithmetic, so the winner has exactly the distribution of the real-valued argmax.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import NDArray

from discreet.core.noise.entropy import SYSTEM_ENTROPY, Entropy
from discreet.core.noise.exact_draws import Family
from discreet.core.rounding import ball, precisely

__all__ = ["noisy_argmax", "photo_finish"]

Array = NDArray[np.float64]
_WORD = 64


def noisy_argmax(
    scores: Sequence[Fraction],
    family: Callable[[Array, Array], Family],
    scale: float,
    *,
    behind: Array | None = None,
    entropy: Entropy = SYSTEM_ENTROPY,
) -> int:
    """The position of the largest score plus independent noise.

    Parameters
    ----------
    scores
        Exact scores.
    family
        Class of the noise, for example `LaplaceFamily`.
    scale
        Scale of the noise.
    behind
        The same scores minus the best one as floats, within a relative 2⁻⁵²; exact where they are whole numbers.
    """
    # In units of the scale, and downwards from the best: what matters is close to zero and so well resolved.
    gaps = behind / scale if behind is not None else _gaps(scores, scale)
    noise_law = family(np.asarray(scale), np.asarray(1.0))
    words = entropy.words(len(scores))
    with np.errstate(all="ignore"):
        noise, error = noise_law.fast(words, slice(0, len(scores)))
        doubt = np.asarray(error) + (np.abs(gaps) + np.abs(noise)) * 2.0**-51
        finish = gaps + noise
        bar = np.fmax.reduce(finish - doubt)
        contenders = np.flatnonzero(~(finish + doubt < bar))  # NaN stays in the race
    if contenders.size == 1:
        return int(contenders[0])
    bits = {int(i): int(words[i]) for i in contenders}
    return photo_finish(bits, lambda i, b, count: ball(scores[i]) + noise_law.enclose(i, b, count), entropy)


def _gaps(scores: Sequence[Fraction], scale: float) -> Array:
    best = max(scores)
    return np.array([float((score - best) / Fraction(scale)) for score in scores])


def photo_finish(bits: dict[int, int], enclose: Callable[[int, int, int], arb], entropy: Entropy) -> int:
    """The leader among contenders that 64 bits each cannot separate: more bits until one is certainly ahead.

    ``enclose`` gives a contender's total as a ball, from its bits and their number.
    """
    count = _WORD
    while len(bits) > 1:
        count += _WORD
        more = entropy.words(len(bits))
        bits = {i: (old << _WORD) | int(new) for (i, old), new in zip(bits.items(), more, strict=True)}
        # Twice the bits for the precision: a logarithm near one cancels about half of them.
        with precisely(2 * count + 128):
            totals = {i: enclose(i, b, count) for i, b in bits.items()}
            known = [total.lower() for total in totals.values() if total.is_finite()]
            if known:
                bar = max(known)
                bits = {i: bits[i] for i, total in totals.items() if not (total.is_finite() and total < bar)}
    return next(iter(bits))
