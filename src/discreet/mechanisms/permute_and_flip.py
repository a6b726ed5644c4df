"""Permute-and-flip: never worse than the exponential mechanism in expected score, at the same ε."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from discreet import requirements
from discreet.guarantees import PureDP
from discreet.mechanisms.selection import Selection, exact_scores, whole_gaps
from discreet.noise.entropy import SYSTEM_ENTROPY
from discreet.noise.events import exact_events
from discreet.noise.law import Truth, float_truth, generator
from discreet.profiles.implied import ImpliedProfile
from discreet.rounding import ball, up
from discreet.sensitivity import Sensitivity

__all__ = ["PermuteAndFlip", "flip_probabilities"]

_NODES = 400
"""Gauss–Legendre nodes; exact for up to 800 candidates, and beyond that far below rounding error."""


def flip_probabilities(chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """p_i · ∫₀¹ Π_{j≠i} (1 − p_j·u) du: the expansion over subsets, summed by an exact quadrature.

    The candidates' order is a sort by uniform times u; i wins at time u if its coin (p_i) shows heads and none of
    the others, each earlier with probability u, had heads before.
    """
    nodes, weights = np.polynomial.legendre.leggauss(min(_NODES, chances.size // 2 + 1))
    times = (nodes + 1) / 2
    losses = np.log1p(-np.minimum(chances[:, None] * times, 1.0))
    others = np.exp(losses.sum(axis=0) - losses)
    result = chances * (others @ (weights / 2))
    return np.asarray(result / result.sum())


@dataclass(frozen=True)
class PermuteAndFlip(Selection):
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

    factor: float
    monotone: bool = False
    name: ClassVar[str] = "permute_and_flip"

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", requirements.positive("factor", self.factor))
        requirements.instance("monotone", self.monotone, bool, "monotone=True or False")

    @classmethod
    def _from_strength(cls, strength: float, monotone: bool) -> Self:
        return cls(strength, monotone)

    def span(self, sensitivity: Sensitivity) -> Fraction:
        """factor × the distance that scores can move apart."""
        return Fraction(self.factor) * self._spread(sensitivity)

    def profile(self, sensitivity: Sensitivity) -> ImpliedProfile:
        """What ε-DP implies."""
        return ImpliedProfile(PureDP(up(self.span(sensitivity))))

    def probabilities(self, scores: Truth) -> NDArray[np.float64]:
        """Exact law of the choice."""
        values = float_truth(scores)
        return flip_probabilities(np.exp(self.factor * (values - values.max())))

    def choose(self, scores: Truth, *, rng: int | np.random.Generator | None = None) -> int:
        """One choice: every coin is flipped, so the time taken does not tell which candidate won."""
        values = float_truth(scores)
        if rng is not None:
            source = generator(rng)
            heads = source.random(values.size) < np.exp(self.factor * (values - values.max()))
            order = source.permutation(values.size)
        else:
            behind = whole_gaps(scores)
            heads = self._coins(exact_scores(scores)) if behind is None else self._whole_coins(behind)
            order = _permutation(values.size)
        return int(order[np.argmax(heads[order])])

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

    def score_loss(self, candidates: int, level: float = 0.95) -> float:
        """ln(k / (1 − level)) / factor: the exponential mechanism's bound, which it never exceeds."""
        count = requirements.positive_integer("candidates", candidates)
        return math.log(max(count - 1, 1) / (1 - requirements.level(level))) / self.factor


def _permutation(count: int) -> NDArray[np.intp]:
    """A uniformly random order, from secure words; equal words are drawn again."""
    while True:
        words = SYSTEM_ENTROPY.words(count)
        if np.unique(words).size == count:
            return np.argsort(words)
