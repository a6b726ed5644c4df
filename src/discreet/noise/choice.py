"""Choice: exact random selection by log-weights, and exact coin flips with probability exp(−x).

A choice is a race: every candidate gets its log-weight plus a Gumbel draw, the largest wins, and candidate i wins
with probability proportional to its weight. The race runs in doubles with an error bound; only contenders within
twice that bound of the leader are refined, with more bits and in ball arithmetic, until one is certainly ahead.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidParameter, WrongType
from discreet.noise.entropy import SYSTEM_ENTROPY, Entropy, Words
from discreet.noise.exact import uniform_ball
from discreet.noise.families import LOG_BUDGET, gumbel_ball, standard_gumbel
from discreet.noise.law import generator
from discreet.requirements import positive_integer, rational
from discreet.rounding import ball, precisely

__all__ = ["bernoulli_exp", "choose"]


def _scores(values: ArrayLike) -> NDArray[np.float64]:
    try:
        scores = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise WrongType("scores", values, "must be an array of numbers", "Pass one score per candidate.") from None
    if scores.ndim != 1 or scores.size == 0:
        raise InvalidParameter("scores", values, "must be one non-empty row", "Pass one score per candidate.")
    if np.isnan(scores).any() or (scores == math.inf).any() or (scores == -math.inf).all():
        raise InvalidParameter(
            "scores", "…", "must be finite, or −∞ for candidates that cannot win, with one finite score at least",
            "Remove NaN and +∞.",
        )
    return scores


def choose(
    scores: ArrayLike,
    factor: float | Fraction = 1,
    *,
    multiplicity: ArrayLike | None = None,
    size: int | None = None,
    rng: int | np.random.Generator | None = None,
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
    rng
        A seed or numpy generator simulates the choice in floating point.

    Examples
    --------
    >>> choose([0.0, -1e9, 5e3]), choose([0.0, 0.0], multiplicity=[1, 0])
    (2, 0)
    """
    values, exact_factor = _scores(scores), rational("factor", factor)
    counts = _multiplicities(multiplicity, values.size)
    race = _Race(values, exact_factor, counts)
    repeats = 1 if size is None else positive_integer("size", size)
    if rng is None:
        winners = np.array([race.winner(entropy) for _ in range(repeats)], dtype=np.int64)
    else:
        gumbel = generator(rng).gumbel(size=(repeats, values.size))
        winners = np.argmax(race.log_weights + gumbel, axis=1)
    return int(winners[0]) if size is None else winners


def _multiplicities(values: ArrayLike | None, candidates: int) -> list[int] | None:
    if values is None:
        return None
    counts = [int(value) for value in np.asarray(values, dtype=object).ravel()]
    if len(counts) != candidates or any(count < 0 for count in counts) or not any(counts):
        raise InvalidParameter(
            "multiplicity", values, "must hold one whole number ≥ 0 per candidate, not all zero", "Check its length."
        )
    return counts


class _Race:
    """Candidates with their log-weights in doubles (with an error bound) and exactly."""

    def __init__(self, scores: NDArray[np.float64], factor: Fraction, counts: list[int] | None) -> None:
        self.scores, self.factor, self.counts = scores, factor, counts
        with np.errstate(invalid="ignore"):
            self.log_weights = np.where(np.isneginf(scores), -math.inf, scores * float(factor))
        finite = np.abs(self.log_weights[np.isfinite(self.log_weights)])
        magnitude = float(finite.max())
        if counts is not None:
            with np.errstate(divide="ignore"):
                logs = np.array([math.log(count) if count else -math.inf for count in counts])
            self.log_weights = self.log_weights + logs
            magnitude += float(np.abs(logs[np.isfinite(logs)]).max())
        # Product, logarithm and sum are each within a relative 2⁻⁵² of exact; 2⁻⁵⁰ covers them together.
        self.error = magnitude * 2.0**-50

    def winner(self, entropy: Entropy) -> int:
        words = entropy.words(self.scores.size)
        with np.errstate(all="ignore"):
            gumbel, noise_error = standard_gumbel(words)
            totals = self.log_weights + gumbel
            error = self.error + noise_error + 2.0**-44
        unresolved = np.isnan(totals) & ~np.isneginf(self.log_weights)
        leader = np.nanmax(totals) if not np.isnan(totals).all() else -math.inf
        contenders = np.flatnonzero((totals >= leader - 2 * error) | unresolved)
        if contenders.size == 1 and not unresolved.any():
            return int(contenders[0])
        return self._photo_finish(contenders, words, entropy)

    def _log_weight_ball(self, index: int) -> arb:
        weight = ball(self.factor * Fraction(float(self.scores[index])))
        return weight if self.counts is None else weight + arb(self.counts[index]).log()

    def _photo_finish(self, contenders: NDArray[np.intp], words: Words, entropy: Entropy) -> int:
        bits = {int(index): int(words[index]) for index in contenders}
        count = 64
        while len(bits) > 1:
            count += 64
            more = entropy.words(len(bits))
            bits = {index: (old << 64) | int(new) for (index, old), new in zip(bits.items(), more, strict=True)}
            with precisely(2 * count + 128):
                totals = {i: self._log_weight_ball(i) + gumbel_ball(b, count) for i, b in bits.items()}
                finite = [total.lower() for total in totals.values() if total.is_finite()]
                bar = max(finite) if finite else None
                bits = {
                    i: bits[i] for i, total in totals.items() if bar is None or not (total.is_finite() and total < bar)
                }
        return next(iter(bits))


def bernoulli_exp(
    x: ArrayLike, *, rng: int | np.random.Generator | None = None, entropy: Entropy = SYSTEM_ENTROPY
) -> bool | NDArray[np.bool_]:
    """Flip a coin for each ``x`` ≥ 0 that is true with probability exp(−x), exactly.

    Examples
    --------
    >>> bernoulli_exp(0.0), bernoulli_exp(1e6)
    (True, False)
    """
    exponents = np.asarray(x, dtype=float)
    if not np.all((exponents >= 0) & np.isfinite(exponents)):
        raise InvalidParameter("x", x, "must be finite and ≥ 0 everywhere", "Pass non-negative exponents.")
    flat = exponents.ravel()
    if rng is not None:
        flips = generator(rng).random(flat.size) < np.exp(-flat)
    else:
        words = entropy.words(flat.size)
        uniforms, chances = words * 2.0**-64, np.exp(-flat)
        flips = uniforms < chances
        # Both sides are within 2⁻⁴³ of the chance plus 2⁻⁶³ of exact.
        close = np.abs(uniforms - chances) <= chances * (4 * LOG_BUDGET) + 2.0**-60
        for index in np.flatnonzero(close & (flat > 0)).tolist():
            flips[index] = _resolve_flip(float(flat[index]), int(words[index]), entropy)
        flips[flat == 0] = True
    flips = flips.reshape(exponents.shape)
    return bool(flips) if flips.ndim == 0 else flips


def _resolve_flip(x: float, word: int, entropy: Entropy) -> bool:
    bits, count = word, 64
    while True:
        bits, count = (bits << 64) | int(entropy.words(1)[0]), count + 64
        with precisely(2 * count + 64):
            uniform, chance = uniform_ball(bits, count), (-ball(x)).exp()
            if uniform < chance:
                return True
            if uniform > chance:
                return False
