"""Selection: what mechanisms share that publish *which* candidate scores best, and nothing else."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from discreet.contract.mechanism import Law, Mechanism
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.noise.truth import Floats, Truth, float_truth, generator, plain
from discreet.core.rounding import ball, decimal, greatest, precisely, up
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.loss_distribution import CurveProfile, PrivacyLoss, curve_loss

if TYPE_CHECKING:
    from discreet.core.exact import Exact

__all__ = [
    "ChoiceLaw", "RangeProfile", "Selection", "WeighedSelection", "exact_scores", "largest_move", "moves_one_way",
    "whole_gaps",
]  # fmt: skip


# ---- The profile of mechanisms of bounded range, such as the exponential mechanism


class RangeProfile(CurveProfile):
    """η-bounded range: between neighbours all log-probabilities change by amounts within an interval of length η.

    Parameters
    ----------
    span
        η, exact.

    Notes
    -----
    **Guarantee.** η-DP, η²/8-zCDP, μ-GDP for Φ(μ/2) = 1/(1 + e^{−η/2}), and δ(ε) = (1 − e^{(ε−η)/2})²/(1 − e^{−η});
    each is the smallest that holds for all η-bounded-range mechanisms, but for zCDP (``docs/proofs/selection.md``).

    Examples
    --------
    >>> profile = RangeProfile(Fraction(1))
    >>> print(profile.pure(), profile.concentrated(), profile.gaussian())
    PureDP(ε=1) ZeroConcentratedDP(ρ=0.125) GaussianDP(μ=0.623893)
    """

    def __init__(self, span: Fraction) -> None:
        self.span = span

    def _delta(self, epsilon: float) -> float:
        gap = decimal(epsilon) - self.span
        if gap >= 0:
            return 0.0
        with precisely():
            return min(up((ball(gap) / 2).expm1() ** 2 / -(-ball(self.span)).expm1()), 1.0)

    def _epsilon(self, delta: float) -> float:
        if self._delta(0.0) <= delta:
            return 0.0
        with precisely():
            root: arb = (ball(decimal(delta)) * -(-ball(self.span)).expm1()).sqrt()
            return max(0.0, up(ball(self.span) + 2 * (1 - root).log()))

    def gaussian(self) -> GaussianDP:
        return PureDP(up(self.span / 2)).to(GaussianDP)

    def pure(self) -> PureDP:
        return PureDP(up(self.span))

    def concentrated(self) -> ZeroConcentratedDP:
        return ZeroConcentratedDP(up(self.span**2 / 8))

    def losses(self) -> list[tuple[PrivacyLoss, int]]:
        return [(_range_loss(self.span), 1)]

    def _reach(self) -> float:
        return min(float(self.span), 700.0)

    def to_dict(self) -> dict[str, Any]:
        return {"profile": "range", "span": str(self.span)}


@lru_cache(maxsize=64)  # the steps of one release share η, and the door asks for each of them more than once
def _range_loss(span: Fraction) -> PrivacyLoss:
    profile = RangeProfile(span)
    return curve_loss(profile._delta, profile._reach())


# ---- ChoiceLaw: the distribution of a chosen candidate


Array = NDArray[np.float64]


class ChoiceLaw(Law):
    """Outcomes 0 … k − 1 with given probabilities.

    Parameters
    ----------
    probabilities
        One per candidate.
    best
        Position of the truly best candidate, from which bias is counted.
    draw
        The exact sampler; `sample` without a generator calls it.

    Examples
    --------
    >>> law = ChoiceLaw(np.array([0.25, 0.75]), best=1, draw=lambda: 1)
    >>> law.mean, law.pdf([0, 1, 2]).tolist(), law.quantile(0.2)
    (0.75, [0.25, 0.75, 0.0], 0.0)
    """

    def __init__(self, probabilities: Array, best: int, draw: Callable[[], int]) -> None:
        self.probabilities = probabilities / probabilities.sum()
        self.best = best
        self._draw = draw

    @property
    def shape(self) -> tuple[int, ...]:
        """One position."""
        return ()

    @property
    def support(self) -> tuple[Floats, Floats]:
        """First and last position."""
        return 0.0, float(self.probabilities.size - 1)

    @property
    def mean(self) -> Floats:
        """Expected position."""
        return float(self.probabilities @ np.arange(self.probabilities.size))

    @property
    def variance(self) -> Floats:
        """Variance of the position."""
        return float(self.probabilities @ np.square(np.arange(self.probabilities.size) - self.mean))

    @property
    def bias(self) -> Floats:
        """Expected position minus that of the best candidate."""
        return self.mean - self.best

    def pdf(self, x: ArrayLike) -> Floats:
        """Probability of each position; 0 for what is none."""
        points = np.asarray(x, dtype=float)
        known = (points == np.floor(points)) & (points >= 0) & (points < self.probabilities.size)
        return plain(np.where(known, self.probabilities[np.where(known, points, 0).astype(int)], 0.0))

    def cdf(self, x: ArrayLike) -> Floats:
        """Probability of a position of at most ``x``."""
        sums = np.concatenate([[0.0], np.cumsum(self.probabilities)])
        return plain(sums[np.clip(np.floor(np.asarray(x, dtype=float)) + 1, 0, self.probabilities.size).astype(int)])

    def quantile(self, q: ArrayLike) -> Floats:
        """Smallest position with that much probability up to it."""
        sums = np.cumsum(self.probabilities)
        # Cumulated probabilities are off by a few floats: q = 1/2 must find the position whose sum is 1/2.
        positions = np.searchsorted(sums, np.asarray(q, dtype=float) * (1 - 2.0**-50))
        return plain(np.minimum(positions, sums.size - 1).astype(float))

    def sample(self, size: int | tuple[int, ...] | None = None, *, rng: int | np.random.Generator | None = None) -> Any:
        """Positions, as integers."""
        count = 1 if size is None else int(np.prod(size))
        if rng is None:
            draws = np.array([self._draw() for _ in range(count)])
        else:
            draws = generator(rng).choice(self.probabilities.size, size=count, p=self.probabilities)
        return int(draws[0]) if size is None else draws.reshape(size)


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
