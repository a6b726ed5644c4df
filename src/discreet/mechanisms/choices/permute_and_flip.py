"""Permute-and-flip: never worse than the exponential mechanism in expected score, at the same ε."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.core.guarantee import PureDP
from discreet.core.noise.choice import exact_events
from discreet.core.noise.entropy import SYSTEM_ENTROPY
from discreet.core.noise.truth import Truth, float_truth, generator
from discreet.core.rounding import ball, up
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.calibration import ImpliedProfile
from discreet.mechanisms.choices.selection import WeighedSelection, exact_scores, whole_gaps

__all__ = ["PermuteAndFlip", "flip_probabilities"]

_NODES = 400
"""Gauss–Legendre nodes; exact for up to 800 candidates."""
_nodes_and_weights = lru_cache(maxsize=32)(np.polynomial.legendre.leggauss)
"""Kept, as they are eigenvalues of a matrix of this size."""
_CLUSTERED = 8
"""With more candidates one of the first is heads: at times wᵏ nodes lie close enough to 0 for 10¹² of them."""

_NOWHERE = np.uint64(2**64 - 1)
"""Behind every place."""


def flip_probabilities(
    chances: NDArray[np.float64], multiplicity: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """p_i · ∫₀¹ Π_{j≠i} (1 − p_j·u) du: the expansion over subsets, summed by an exact quadrature.

    The candidates' order is a sort by uniform times u; i wins at time u if its coin (p_i) shows heads and none of
    the others, each earlier with probability u, had heads before. Where entries stand for several candidates each, the
    result is the probability of one of them.
    """
    counts = np.ones(chances.size, dtype=np.int64) if multiplicity is None else multiplicity
    candidates = int(counts.sum())
    nodes, weights = _nodes_and_weights(min(_NODES, candidates // 2 + 1))
    power = 1 if candidates <= 2 * _NODES else _CLUSTERED
    even = (nodes + 1) / 2
    times, weights = even**power, weights / 2 * power * even ** (power - 1)
    losses = np.log1p(-np.minimum(chances[:, None] * times, 1.0))
    others = np.exp(counts @ losses - losses)
    result = chances * (others @ weights)
    return np.asarray(result / (counts @ result))


@dataclass(frozen=True)
class PermuteAndFlip(WeighedSelection):
    """Go through the candidates in random order and stop at i with probability exp(factor · (score_i − best)).

    Its output has the law of report noisy max with exponential noise of scale 1/factor.

    Parameters
    ----------
    factor
        Inverse temperature.
    monotone
        Whether all scores move in the same direction between neighbours.

    Guarantee
    ---------
    With Δ the largest change of a single score: ε = factor·Δ where scores are monotone and 2·factor·Δ otherwise
    (mckenna2020). It is not of bounded range: zCDP follows from ε alone, ρ = ε·tanh(ε/2) ≤ ε²/2.

    Examples
    --------
    >>> from discreet import PureDP, Sensitivity
    >>> mechanism = PermuteAndFlip.calibrate(PureDP(1.0), Sensitivity(moves=(1,)))
    >>> mechanism.probabilities([0, 1, 2]).round(4).tolist()
    [0.0594, 0.1756, 0.765]
    """

    name: ClassVar[str] = "permute_and_flip"

    def profile(self, sensitivity: Sensitivity) -> ImpliedProfile:
        """What ε-DP implies."""
        return ImpliedProfile(PureDP(up(self.span(sensitivity))))

    def probabilities(self, scores: Truth) -> NDArray[np.float64]:
        """Exact law of the choice."""
        values = float_truth(scores)
        return flip_probabilities(np.exp(self.factor * (values - values.max())))

    def choose(self, scores: Truth, *, rng: int | np.random.Generator | None = None) -> int:
        """One choice: every coin is flipped and every place looked at, so that the time does not tell who won."""
        values = float_truth(scores)
        if rng is not None:
            source = generator(rng)
            heads = source.random(values.size) < np.exp(self.factor * (values - values.max()))
            places = source.permutation(values.size).astype(np.uint64)
        else:
            behind = whole_gaps(scores)
            heads = self._coins(exact_scores(scores)) if behind is None else self._whole_coins(behind)
            places = _places(values.size)
        return int(np.argmin(np.where(heads, places, _NOWHERE)))

    def _coins(self, scores: list[Fraction]) -> NDArray[np.bool_]:
        best, factor = max(scores), Fraction(self.factor)
        exponents = [factor * (score - best) for score in scores]
        chances = np.exp([float(exponent) for exponent in exponents])
        return exact_events(chances, 2.0**-43, lambda index: ball(exponents[index]).exp())

    def _whole_coins(self, behind: NDArray[np.float64]) -> NDArray[np.bool_]:
        # The exponent x is within 2⁻⁵³ of itself, so e^−x within x·e^−x·2⁻⁵³ and the error of exp: far below 2⁻⁴³.
        factor = Fraction(self.factor)
        chances = np.exp(self.factor * behind)
        return exact_events(chances, 2.0**-43, lambda index: ball(factor * int(behind[index])).exp())


def _places(count: int) -> NDArray[np.uint64]:
    """Places in a uniformly random order, as secure words; equal words are drawn again."""
    while True:
        words = SYSTEM_ENTROPY.words(count)
        if np.unique(words).size == count and words.max() < _NOWHERE:
            return words
