"""The exponential mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.core.noise.choice import choose, noisy_argmax
from discreet.core.noise.families import GumbelFamily
from discreet.core.noise.truth import Truth, float_truth, generator
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.choices.selection import RangeProfile, WeighedSelection, exact_scores, whole_gaps

__all__ = ["ExponentialMechanism"]


@dataclass(frozen=True)
class ExponentialMechanism(WeighedSelection):
    """Choose candidate i with probability proportional to exp(factor · score_i).

    Parameters
    ----------
    factor
        Inverse temperature.
    monotone
        Whether all scores move in the same direction between neighbours.

    Guarantee
    ---------
    With Δ the largest change of a single score: ε = factor·Δ where scores are monotone and 2·factor·Δ otherwise;
    in both cases ε-bounded range, so also ε²/8-zCDP. Neighbours are those of Δ. Proof: ``docs/proofs/selection.md``.

    Examples
    --------
    >>> from discreet import PureDP, Sensitivity
    >>> counts = Sensitivity(moves=(1,))  # one record adds one to one count
    >>> mechanism = ExponentialMechanism.calibrate(PureDP(1.0), counts)
    >>> mechanism.factor, mechanism.probabilities([0, 1, 2]).round(4).tolist()
    (1.0, [0.09, 0.2447, 0.6652])
    """

    name: ClassVar[str] = "exponential"

    def profile(self, sensitivity: Sensitivity) -> RangeProfile:
        """Bounded range."""
        return RangeProfile(self.span(sensitivity))

    def probabilities(self, scores: Truth) -> NDArray[np.float64]:
        """Softmax."""
        values = float_truth(scores)
        weights = np.exp(self.factor * (values - values.max()))
        return np.asarray(weights / weights.sum())

    def choose(self, scores: Truth, *, rng: int | np.random.Generator | None = None) -> int:
        """One choice."""
        if rng is not None:
            weights = self.probabilities(scores)
            return int(generator(rng).choice(weights.size, p=weights))
        behind = whole_gaps(scores)
        if behind is not None:
            return int(choose(behind, Fraction(self.factor)))
        exact = exact_scores(scores)
        best = max(exact)
        gaps = [score - best for score in exact]
        if all(Fraction(float(gap)) == gap for gap in gaps):
            return int(choose([float(gap) for gap in gaps], Fraction(self.factor)))
        # Fractions become whole numbers over a common denominator, so that nothing is rounded.
        common = math.lcm(*(gap.denominator for gap in gaps))
        whole = [int(gap * common) for gap in gaps]
        return _choose_whole(whole, Fraction(self.factor) / common)


def _choose_whole(gaps: list[int], factor: Fraction) -> int:
    """Choose by whole numbers; those beyond 2⁵³ are too far behind for doubles and go through their quotient."""
    largest = max(-gap for gap in gaps)
    shift = max(0, largest.bit_length() - 53)
    if shift == 0:
        return int(choose([float(gap) for gap in gaps], factor))
    # P ∝ exp(factor·gap) is the argmax of factor·gap plus standard Gumbel noise.
    return noisy_argmax([factor * gap for gap in gaps], GumbelFamily, 1.0)
