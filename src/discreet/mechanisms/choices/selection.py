"""Selection: what mechanisms share that publish *which* candidate scores best, and nothing else."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from discreet.contract.mechanism import Mechanism
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee, PureDP
from discreet.core.noise.truth import Floats, Truth, float_truth
from discreet.core.rounding import decimal, greatest
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.choices.choice_law import ChoiceLaw

if TYPE_CHECKING:
    from discreet.core.exact import Exact

__all__ = ["Selection", "WeighedSelection", "exact_scores", "largest_move", "moves_one_way", "whole_gaps"]

Array = NDArray[np.float64]


def exact_scores(truth: Truth) -> list[Fraction]:
    """Scores as exact fractions; refuses what is not a non-empty row of finite numbers."""
    floats = float_truth(truth)
    if floats.ndim != 1 or floats.size == 0:
        raise InvalidParameter("scores", floats.shape, "must be one score per candidate", "Pass a non-empty row.")
    values = truth.tolist() if isinstance(truth, np.ndarray) else list(truth)  # type: ignore[arg-type]
    return [Fraction(value) for value in values]


def whole_gaps(truth: Truth) -> Array | None:
    """How far whole-number scores are behind the best, as exact floats; None for other kinds of scores.

    Arrays take the same time whatever is in them, which sums of fractions do not.
    """
    floats = float_truth(truth)
    whole = np.asarray(truth).dtype.kind in "iu" and floats.ndim == 1 and floats.size > 0
    if not whole or np.abs(floats).max() >= 2.0**52:
        return None
    return np.asarray(floats - floats.max())


def largest_move(sensitivity: Sensitivity) -> Fraction:
    """How far a single score can move: the largest of the moves; where they are unknown, ℓ₂ bounds it."""
    return Fraction(sensitivity.moves[0] if sensitivity.moves else sensitivity.require_l2())


def moves_one_way(sensitivity: Sensitivity) -> bool:
    """Whether a single score moves at all, so that scores never move in opposite directions."""
    return sensitivity.moves is not None and len(sensitivity.moves) == 1


class Selection(Mechanism):
    """A mechanism whose truth is a row of scores and whose output is the position of a good one.

    Two facts make a guarantee tight: where all scores move in the same direction between neighbours
    (``monotone=True``, as counts do when a record is added), ε is half of what it is in general; where a single
    score moves (``Sensitivity(moves=(1,))``) this is recognised without being declared.
    """

    monotone: bool

    @abstractmethod
    def probabilities(self, scores: Truth) -> Array:
        """Probability of each candidate, in closed form or by quadrature."""

    @abstractmethod
    def choose(self, scores: Truth, *, rng: int | np.random.Generator | None = None) -> int:
        """One choice; exact where no generator is given."""

    @abstractmethod
    def span(self, sensitivity: Sensitivity) -> Fraction:
        """The pure ε for ``sensitivity``, exactly."""

    @classmethod
    @abstractmethod
    def _from_strength(cls, strength: float, monotone: bool) -> Self:
        """The mechanism whose ``span`` is at most strength × (distance that scores move apart)."""

    def _one_way(self, sensitivity: Sensitivity) -> bool:
        return self.monotone or moves_one_way(sensitivity)

    def _spread(self, sensitivity: Sensitivity) -> Fraction:
        """How far apart two scores can move."""
        return largest_move(sensitivity) * (1 if self._one_way(sensitivity) else 2)

    @classmethod
    def calibrate(cls, guarantee: Guarantee, sensitivity: Sensitivity, *, monotone: bool = False) -> Self:
        """The sharpest choice that meets ``guarantee``: pure, or any kind through the mechanism's own profile."""
        requirements.instance("guarantee", guarantee, Guarantee, "a guarantee such as PureDP(1.0)")
        requirements.instance("sensitivity", sensitivity, Sensitivity, "Sensitivity(moves=(1,)), for example")
        spread = largest_move(sensitivity) * (1 if monotone or moves_one_way(sensitivity) else 2)
        if isinstance(guarantee, PureDP):
            target = decimal(guarantee.epsilon)
            if target == 0:
                raise InvalidParameter("guarantee", guarantee, "leaves nothing to choose by", "Pass epsilon > 0.")
            strength = greatest(lambda value: Fraction(value) * spread <= target, float(target / spread))
            return cls._from_strength(strength, monotone)
        return cls._from_strength(_strongest(cls, guarantee, sensitivity, monotone, spread), monotone)

    def law(self, truth: Truth) -> ChoiceLaw:
        """The exact distribution of the chosen position."""
        scores = float_truth(truth)
        return ChoiceLaw(self.probabilities(truth), int(np.argmax(scores)), lambda: self.choose(truth))

    def draw(self, truth: Truth, *, rng: int | np.random.Generator | None = None) -> Floats:
        """The chosen position."""
        return self.choose(truth, rng=rng)

    def check(self, exact: Exact) -> None:
        """Refuse what is not a row of scores."""
        exact_scores(exact.value)

    def confidence_interval(self, value: Floats, level: float) -> tuple[Floats, Floats]:
        """A choice says nothing about the scores: the interval is the whole line."""
        return -np.inf, np.inf

    def expected_error(self, level: float = 0.95) -> Floats:
        """How far below the best of two candidates the chosen score stays with probability ``level``."""
        return self.score_loss(2, level)

    @abstractmethod
    def score_loss(self, candidates: int, level: float = 0.95) -> float:
        """With probability ``level`` the chosen score is within this of the best, whatever the scores."""

    def parameters(self) -> dict[str, Any]:
        """The parameters as JSON-ready data."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True)
class WeighedSelection(Selection):
    """A selection that weighs candidates by exp(factor · score): what they share beyond how they choose.

    Parameters
    ----------
    factor
        Inverse temperature.
    monotone
        Whether all scores move in the same direction between neighbours.
    """

    factor: float
    monotone: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", requirements.positive("factor", self.factor))
        requirements.instance("monotone", self.monotone, bool, "monotone=True or False")

    @classmethod
    def _from_strength(cls, strength: float, monotone: bool) -> Self:
        return cls(strength, monotone)

    def span(self, sensitivity: Sensitivity) -> Fraction:
        """factor × the distance that scores can move apart."""
        return Fraction(self.factor) * self._spread(sensitivity)

    def score_loss(self, candidates: int, level: float = 0.95) -> float:
        """ln(k / (1 − level)) / factor (mcsherry2007); permute-and-flip never exceeds it (mckenna2020)."""
        count = requirements.positive_integer("candidates", candidates)
        return math.log(max(count - 1, 1) / (1 - requirements.level(level))) / self.factor


def _strongest(
    cls: type[Selection], guarantee: Guarantee, sensitivity: Sensitivity, monotone: bool, spread: Fraction
) -> float:
    """Largest strength whose profile is within ``guarantee``."""

    def fits(strength: float) -> bool:
        mechanism = cls._from_strength(strength, monotone)
        return mechanism.profile(sensitivity).within(guarantee)

    low, high = 0.0, 1e-6 / float(spread)
    if not fits(high):
        raise InvalidParameter("guarantee", guarantee, "leaves nothing to choose by", "Pass a larger guarantee.")
    while fits(2 * high) and high * float(spread) < 500:
        high *= 2
    low, high = high, 2 * high
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
