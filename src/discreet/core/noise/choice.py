"""Choice: exact random selection by log-weights.

A choice is a race: every candidate gets a standard exponential time divided by its weight (on the logarithmic scale:
its log-weight plus a Gumbel draw), the first wins, and candidate i wins with probability proportional to its weight.
The race runs in doubles with error bounds; only contenders that these cannot separate are refined, with more bits and
in ball arithmetic, until one is certainly ahead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.noise.sampler import LOG_BUDGET, SYSTEM_ENTROPY, Entropy, Family, Words, uniform_ball
from discreet.core.numbers import ball, precisely
from discreet.core.requirements import positive_integer, rational

# ---- Race: which candidate's score plus noise is largest, decided exactly
#
# The noisy scores are never rounded. Doubles with error bounds decide all but the closest finishes; those take more
# bits and are compared in ball arithmetic, so the winner has exactly the distribution of the real-valued argmax.


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


_CERTAIN_LOSS = 700.0
"""A log-weight this far below the best cannot win a race that the double path decides."""
_FEW_BITS = 2.0**-17
"""A uniform below this has too few leading bits; its time is left to the ball path."""
_BLOCK = 2**16
"""Candidates per pass when many choices are made at once."""


def _scores(values: ArrayLike) -> NDArray[np.float64]:
    try:
        scores = np.asarray(values, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise WrongType("scores", "…", "must be an array of numbers", "Pass one score per candidate.") from None
    if scores.ndim != 1 or scores.size == 0:
        raise InvalidParameter("scores", "…", "must be one non-empty row", "Pass one score per candidate.")
    if np.isnan(scores).any() or (scores == math.inf).any() or (scores == -math.inf).all():
        raise InvalidParameter(
            "scores",
            "…",
            "must be finite, or −∞ for candidates that cannot win, with one finite score at least",
            "Remove NaN and +∞.",
        )
    return scores


def choose(
    scores: ArrayLike,
    factor: float | Fraction = 1,
    *,
    multiplicity: ArrayLike | None = None,
    size: int | None = None,
    entropy: Entropy = SYSTEM_ENTROPY,
) -> int | NDArray[np.int64]:
    """Choose a candidate with probability proportional to ``multiplicity · exp(factor · score)``, exactly.

    Parameters
    ----------
    scores
        One score per candidate, exact as it stands; −∞ excludes a candidate.
    factor
        Exact multiplier of the scores, for example ε/2 over the sensitivity as a `fractions.Fraction`.
    multiplicity
        How many equal candidates each entry stands for (whole numbers ≥ 0, exact); one by default.
    size
        Number of independent choices; by default one, returned as an int.

    Examples
    --------
    >>> choose([0.0, -1e9, 5e3]), choose([0.0, 0.0], multiplicity=[1, 0])
    (2, 0)
    """
    values = _scores(scores)
    exact_factor = rational("factor", factor)
    counts = _multiplicities(multiplicity, values.size)
    race = _Race(values, exact_factor, counts)
    repeats = 1 if size is None else positive_integer("size", size)
    winners = race.winners(repeats, entropy)
    return int(winners[0]) if size is None else winners


def _multiplicities(values: ArrayLike | None, candidates: int) -> list[int] | None:
    if values is None:
        return None
    counts = [int(value) for value in np.asarray(values, dtype=object).ravel()]
    if len(counts) != candidates or any(count < 0 for count in counts) or not any(counts):
        raise InvalidParameter(
            "multiplicity", "…", "must hold one whole number ≥ 0 per candidate, not all zero", "Check its length."
        )
    return counts


class _Race:
    """Candidates with exact log-weights. Candidate i finishes at E_i/weight_i, E_i standard exponential; first wins."""

    def __init__(self, scores: NDArray[np.float64], factor: Fraction, counts: list[int] | None) -> None:
        self.scores, self.factor, self.counts = scores, factor, counts
        runs = np.isfinite(scores)
        if counts is not None:
            runs &= np.array([count > 0 for count in counts])
            if not runs.any():
                raise InvalidParameter("multiplicity", "…", "leaves no candidate", "Give one a positive number.")
        self.candidates = np.flatnonzero(runs)
        weights = scores[runs] * float(factor)
        magnitude = float(np.abs(weights).max())
        if counts is not None:
            logs = np.array([math.log(counts[index]) for index in self.candidates.tolist()])
            weights += logs
            magnitude += float(logs.max())
        # Relative to the best weight, so that no exponential overflows, whatever the scores are.
        self.handicaps = np.exp(np.minimum(weights.max() - weights, _CERTAIN_LOSS))
        # Product, logarithm and sums are each within a relative 2⁻⁵² of the magnitude, the exponential in its budget.
        self.error = magnitude * 2.0**-49 + 4 * LOG_BUDGET

    def winners(self, repeats: int, entropy: Entropy) -> NDArray[np.int64]:
        rows = max(1, _BLOCK // self.candidates.size)
        blocks = [self._block(min(rows, repeats - start), entropy) for start in range(0, repeats, rows)]
        return np.asarray(self.candidates[np.concatenate(blocks)], dtype=np.int64)

    def _block(self, rows: int, entropy: Entropy) -> NDArray[np.intp]:
        words = entropy.words(rows * self.candidates.size).reshape(rows, -1)
        with np.errstate(all="ignore"):
            finish, doubt = self._finish(words)
            earliest = finish - doubt
            bar = np.fmin.reduce(finish + doubt, axis=1, keepdims=True)
            contenders = ~(earliest > bar)  # NaN stays in the race
        first: NDArray[np.intp] = contenders.argmax(axis=1)
        for row in np.flatnonzero(contenders.sum(axis=1) > 1).tolist():
            bits = {i: int(words[row, i]) for i in np.flatnonzero(contenders[row]).tolist()}
            first[row] = photo_finish(bits, self._enclose, entropy)
        return first

    def _finish(self, words: Words) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Finishing times and bounds on their errors; the doubt is infinite where the bits are too few."""
        uniforms = (words >> np.uint64(1)).view(np.int64) * 2.0**-63
        times = np.log(uniforms)
        times *= -self.handicaps
        doubt = times * self.error
        doubt += self.handicaps * 2.0**-51  # a uniform near one is only known to 2⁻⁵³
        few = uniforms < _FEW_BITS
        if few.any():
            doubt[few] = math.inf
        return times, doubt

    def _enclose(self, candidate: int, bits: int, count: int) -> arb:
        """Log-weight plus a standard Gumbel draw −ln(−ln U) as a ball."""
        index = int(self.candidates[candidate])
        weight = ball(self.factor * Fraction(float(self.scores[index])))
        if self.counts is not None:
            weight += arb(self.counts[index]).log()
        return weight - (-uniform_ball(bits, count).log()).log()


# ---- Bernoulli draws: independent events with exact probabilities, however these are computed


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
    """True where U < p, where U begins with 64 known bits: more bits until the balls of both are apart."""
    count = _WORD
    while True:
        with precisely(count + 128):
            uniform = uniform_ball(bits, count)
            probability = enclose(index)
            if uniform < probability or probability >= 1:
                return True
            if uniform >= probability or probability <= 0:
                return False
        bits, count = (bits << _WORD) | int(entropy.words(1)[0]), count + _WORD
