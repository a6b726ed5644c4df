"""Selection: what mechanisms share that publish *which* candidate scores best, and nothing else."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
import scipy
from flint import arb
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.door import Rng
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, Profile, PureDP, ZeroConcentratedDP
from discreet.core.noise import sampler
from discreet.core.noise.choice import choose, exact_events, noisy_argmax
from discreet.core.numbers import ball, decimal, greatest, precisely, up
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace, LaplaceProfile
from discreet.mechanisms.loss_distribution import CurveProfile, ImpliedProfile, PrivacyLoss, curve_loss
from discreet.mechanisms.mechanism import Kind, Law, Mechanism, Size

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
    ε = 1 ρ = 0.125 μ = 0.623893
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
    def support(self) -> tuple[sampler.Floats, sampler.Floats]:
        """First and last position."""
        return 0.0, float(self.probabilities.size - 1)

    @property
    def mean(self) -> sampler.Floats:
        """Expected position."""
        return float(self.probabilities @ np.arange(self.probabilities.size))

    @property
    def variance(self) -> sampler.Floats:
        """Variance of the position."""
        return float(self.probabilities @ np.square(np.arange(self.probabilities.size) - self.mean))

    @property
    def bias(self) -> sampler.Floats:
        """Expected position minus that of the best candidate."""
        return self.mean - self.best

    def pdf(self, x: ArrayLike) -> sampler.Floats:
        """Probability of each position; 0 for what is none."""
        points = np.asarray(x, dtype=float)
        known = (points == np.floor(points)) & (points >= 0) & (points < self.probabilities.size)
        return sampler.plain(np.where(known, self.probabilities[np.where(known, points, 0).astype(int)], 0.0))

    def cdf(self, x: ArrayLike) -> sampler.Floats:
        """Probability of a position of at most ``x``."""
        sums = np.concatenate([[0.0], np.cumsum(self.probabilities)])
        return sampler.plain(
            sums[np.clip(np.floor(np.asarray(x, dtype=float)) + 1, 0, self.probabilities.size).astype(int)]
        )

    def quantile(self, q: ArrayLike) -> sampler.Floats:
        """Smallest position with that much probability up to it."""
        sums = np.cumsum(self.probabilities)
        # Cumulated probabilities are off by a few floats: q = 1/2 must find the position whose sum is 1/2.
        positions = np.searchsorted(sums, np.asarray(q, dtype=float) * (1 - 2.0**-50))
        return sampler.plain(np.minimum(positions, sums.size - 1).astype(float))

    def sample(self, size: Size = None, *, rng: Rng = None) -> Any:
        """Positions, as integers."""
        count = 1 if size is None else int(np.prod(size))
        if rng is None:
            draws = np.array([self._draw() for _ in range(count)])
        else:
            draws = sampler.generator(rng).choice(self.probabilities.size, size=count, p=self.probabilities)
        return int(draws[0]) if size is None else draws.reshape(size)


def exact_scores(truth: sampler.Truth) -> list[Fraction]:
    """Scores as exact fractions; refuses what is not a non-empty row of finite numbers."""
    floats = sampler.float_truth(truth)
    if floats.ndim != 1 or floats.size == 0:
        raise InvalidParameter("scores", floats.shape, "must be one score per candidate", "Pass a non-empty row.")
    values = truth.tolist() if isinstance(truth, np.ndarray) else list(truth)  # type: ignore[arg-type]
    return [Fraction(value) for value in values]


def whole_gaps(truth: sampler.Truth) -> Array | None:
    """The gaps of whole-number scores behind the best, as exact floats; None for other kinds of scores.

    Arrays take the same time whatever is in them, which sums of fractions do not.
    """
    floats = sampler.float_truth(truth)
    whole = np.asarray(truth).dtype.kind in "iu" and floats.ndim == 1 and floats.size > 0
    if not whole or np.abs(floats).max() >= 2.0**52:
        return None
    return np.asarray(floats - floats.max())


def largest_move(sensitivity: Sensitivity) -> Fraction:
    """The largest move of a single score: the largest of the moves; where they are unknown, ℓ₂ bounds it."""
    return Fraction(sensitivity.moves[0] if sensitivity.moves else sensitivity.require_l2())


def moves_one_way(sensitivity: Sensitivity) -> bool:
    """True where only a single score moves, so that scores never move in opposite directions."""
    return sensitivity.moves is not None and len(sensitivity.moves) == 1


class Selection(Mechanism):
    """A mechanism whose truth is a row of scores and whose output is the position of a good one.

    Two facts make a guarantee tight: where all scores move in the same direction between neighbours
    (``monotone=True``, as counts do when a record is added), ε is half of what it is in general; where a single
    score moves (``Sensitivity(moves=(1,))``) this is recognised without being declared.
    """

    monotone: bool

    @abstractmethod
    def probabilities(self, scores: sampler.Truth) -> Array:
        """Probability of each candidate, in closed form or by quadrature."""

    @abstractmethod
    def choose(self, scores: sampler.Truth, *, rng: Rng = None) -> int:
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
        """The largest distance by which two scores can move apart."""
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

    def law(self, truth: sampler.Truth) -> ChoiceLaw:
        """The exact distribution of the chosen position."""
        scores = sampler.float_truth(truth)
        return ChoiceLaw(self.probabilities(truth), int(np.argmax(scores)), lambda: self.choose(truth))

    def draw(self, truth: sampler.Truth, *, rng: Rng = None) -> sampler.Floats:
        """The chosen position."""
        return self.choose(truth, rng=rng)

    def check(self, exact: Exact) -> None:
        """Refuse what is not a row of scores."""
        exact_scores(exact.value)

    def noise_interval(self, value: sampler.Floats, level: float) -> tuple[sampler.Floats, sampler.Floats]:
        """A choice says nothing about the scores: the interval is the whole line."""
        return -np.inf, np.inf

    def error(self, level: float = 0.95) -> sampler.Floats:
        """The loss that the chosen score, of two candidates, stays within with probability ``level``."""
        return self.score_loss(2, level)

    @abstractmethod
    def score_loss(self, candidates: int, level: float = 0.95) -> float:
        """With probability ``level`` the chosen score is within this of the best, whatever the scores."""


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


# ---- The exponential mechanism.


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
    >>> from discreet import PureDP
    >>> from discreet.core.sensitivity import Sensitivity
    >>> counts = Sensitivity(moves=(1,))  # one record adds one to one count
    >>> mechanism = ExponentialMechanism.calibrate(PureDP(1.0), counts)
    >>> mechanism.factor, mechanism.probabilities([0, 1, 2]).round(4).tolist()
    (1.0, [0.09, 0.2447, 0.6652])
    """

    name: ClassVar[str] = "exponential"

    def profile(self, sensitivity: Sensitivity) -> RangeProfile:
        """Bounded range."""
        return RangeProfile(self.span(sensitivity))

    def probabilities(self, scores: sampler.Truth) -> NDArray[np.float64]:
        """Softmax."""
        values = sampler.float_truth(scores)
        weights = np.exp(self.factor * (values - values.max()))
        return np.asarray(weights / weights.sum())

    def choose(self, scores: sampler.Truth, *, rng: Rng = None) -> int:
        """One choice."""
        if rng is not None:
            weights = self.probabilities(scores)
            return int(sampler.generator(rng).choice(weights.size, p=weights))
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
    return noisy_argmax([factor * gap for gap in gaps], sampler.GumbelFamily, 1.0)


# ---- Permute-and-flip: never worse than the exponential mechanism in expected score, at the same ε.


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

    Its output has the distribution of report noisy max with exponential noise of scale 1/factor.

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
    >>> from discreet import PureDP
    >>> from discreet.core.sensitivity import Sensitivity
    >>> mechanism = PermuteAndFlip.calibrate(PureDP(1.0), Sensitivity(moves=(1,)))
    >>> mechanism.probabilities([0, 1, 2]).round(4).tolist()
    [0.0594, 0.1756, 0.765]
    """

    name: ClassVar[str] = "permute_and_flip"

    def profile(self, sensitivity: Sensitivity) -> ImpliedProfile:
        """The privacy curve that ε-DP implies."""
        return ImpliedProfile(PureDP(up(self.span(sensitivity))))

    def probabilities(self, scores: sampler.Truth) -> NDArray[np.float64]:
        """Exact distribution of the choice."""
        values = sampler.float_truth(scores)
        return flip_probabilities(np.exp(self.factor * (values - values.max())))

    def choose(self, scores: sampler.Truth, *, rng: Rng = None) -> int:
        """One choice: every coin is flipped and every place looked at, so that the time does not tell who won."""
        values = sampler.float_truth(scores)
        if rng is not None:
            source = sampler.generator(rng)
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
        words = sampler.SYSTEM_ENTROPY.words(count)
        if np.unique(words).size == count and words.max() < _NOWHERE:
            return words


# ---- Report noisy max: add independent noise to every score and publish only which is largest.


_FAMILIES: dict[str, Any] = {
    "laplace": sampler.LaplaceFamily,
    "exponential": sampler.ExponentialFamily,
    "gaussian": sampler.GaussianFamily,
}
_PANEL_NODES, _PANEL_WEIGHTS = np.polynomial.legendre.leggauss(16)
_REACH = {"laplace": 40.0, "gaussian": 9.0}


@dataclass(frozen=True)
class ReportNoisyMax(Selection):
    """Which score is largest after noise is added to each.

    Parameters
    ----------
    scale
        Scale of the noise: b of Laplace and exponential noise, σ of Gaussian noise.
    noise
        ``"laplace"``, ``"exponential"`` or ``"gaussian"``.
    monotone
        Whether all scores move in the same direction between neighbours.

    Guarantee
    ---------
    With Δ the largest change of a single score: ε = Δ/b where scores are monotone and 2Δ/b otherwise; with Laplace
    noise also never more than Δ₁/b. Gaussian noise is proved as post-processing of the Gaussian mechanism on all
    scores, μ = Δ₂/σ, which is good only where few scores move, as for counts of disjoint groups
    (miranda2026 §3.1); there is no pure ε. Exponential noise has the distribution of `PermuteAndFlip`.

    Examples
    --------
    >>> from discreet import PureDP
    >>> from discreet.core.sensitivity import Sensitivity
    >>> counts = Sensitivity(moves=(1,))
    >>> mechanism = ReportNoisyMax.calibrate(PureDP(1.0), counts)
    >>> mechanism.scale, mechanism.probabilities([0, 1, 2]).round(4).tolist()
    (1.0, [0.0825, 0.2462, 0.6713])
    """

    scale: float
    noise: str = "laplace"
    monotone: bool = False
    name: ClassVar[str] = "report_noisy_max"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", requirements.positive("scale", self.scale))
        requirements.instance("monotone", self.monotone, bool, "monotone=True or False")
        requirements.instance("noise", self.noise, str, 'noise="laplace"')
        if self.noise not in _FAMILIES:
            raise InvalidParameter("noise", self.noise, f"must be one of {sorted(_FAMILIES)}", "Check the spelling.")

    @classmethod
    def calibrate(
        cls, guarantee: Guarantee, sensitivity: Sensitivity, *, monotone: bool = False, noise: str | None = None
    ) -> Self:
        """The least noise that meets ``guarantee``: Laplace for `PureDP`, Gaussian for the other kinds."""
        pure = isinstance(guarantee, PureDP) or (isinstance(guarantee, ApproxDP) and guarantee.delta == 0)
        kind = noise or ("laplace" if pure else "gaussian")
        if kind == "gaussian":
            return cls(Gaussian.calibrate(guarantee, sensitivity).scale, kind, monotone)
        apart = largest_move(sensitivity) * (1 if monotone or moves_one_way(sensitivity) else 2)
        if kind == "laplace" and sensitivity.l1 is not None and _total(sensitivity) <= apart:
            return cls(Laplace.calibrate(guarantee, sensitivity).scale, kind, monotone)
        return cls(super().calibrate(guarantee, sensitivity, monotone=monotone).scale, kind, monotone)

    @classmethod
    def _from_strength(cls, strength: float, monotone: bool) -> Self:
        scale = 1 / strength
        while Fraction(scale) * Fraction(strength) < 1:
            scale = math.nextafter(scale, math.inf)
        return cls(scale, "exponential", monotone)

    def span(self, sensitivity: Sensitivity) -> Fraction:
        """The pure ε, exactly."""
        if self.noise == "gaussian":
            raise InvalidParameter("noise", self.noise, "has no pure guarantee", "Use Laplace or exponential noise.")
        apart = self._spread(sensitivity)
        if self.noise == "laplace" and sensitivity.l1 is not None:
            apart = min(apart, _total(sensitivity))
        return apart / Fraction(self.scale)

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """The curve of the noisy scores where that is at least as good, else what ε-DP implies."""
        if self.noise == "gaussian":
            return Gaussian(self.scale).profile(sensitivity)
        span = self.span(sensitivity)
        if self.noise == "laplace" and span == _total(sensitivity) / Fraction(self.scale):
            moves = sensitivity.moves or (sensitivity.require_l1(),)
            return LaplaceProfile(tuple(Fraction(move) / Fraction(self.scale) for move in moves))
        return ImpliedProfile(PureDP(up(span)))

    def guarantee(self, sensitivity: Sensitivity, kind: Kind = None, *, delta: float | None = None) -> Guarantee:
        """Pure ε, μ-GDP for Gaussian noise, or the tightest guarantee of the kind asked for."""
        own: type[Guarantee] = GaussianDP if self.noise == "gaussian" else PureDP
        return super().guarantee(sensitivity, kind or own, delta=delta)

    def probabilities(self, scores: sampler.Truth) -> Array:
        """P(i is largest) = ∫ f(x − s_i)·Π_{j≠i} F(x − s_j) dx, by Gauss–Legendre between the kinks."""
        values = sampler.float_truth(scores)
        gaps = (values - values.max()) / self.scale
        if self.noise == "exponential":
            return flip_probabilities(np.exp(gaps))
        reach = _REACH[self.noise]
        # A score two reaches behind wins with a probability below 1e-16: its kink needs no piece of its own.
        points, weights = _mesh(gaps[gaps > -2 * reach], reach)
        log_density, log_below = _LOGS[self.noise]
        z = points - gaps[:, None]
        below = log_below(z)
        # Sums of logarithms: a product of thousands of distribution functions would underflow.
        densities = np.exp(log_density(z) + below.sum(axis=0) - below)
        result = densities @ weights
        return np.asarray(result / result.sum())

    def choose(self, scores: sampler.Truth, *, rng: Rng = None) -> int:
        """One choice."""
        if rng is None:
            exact, family = exact_scores(scores), _FAMILIES[self.noise]
            return noisy_argmax(exact, family, self.scale, behind=whole_gaps(scores))
        values = sampler.float_truth(scores)
        source = sampler.generator(rng)
        draw = {"laplace": source.laplace, "gaussian": source.normal}
        if self.noise == "exponential":
            return int(np.argmax(values + source.exponential(self.scale, values.size)))
        return int(np.argmax(values + draw[self.noise](0.0, self.scale, values.size)))

    def score_loss(self, candidates: int, level: float = 0.95) -> float:
        """A union bound over the noise of all candidates."""
        count = requirements.positive_integer("candidates", candidates)
        tail = (1 - requirements.level(level)) / count
        if self.noise == "exponential":
            return -self.scale * math.log(tail)
        if self.noise == "laplace":
            return -2 * self.scale * math.log(tail)
        from scipy.special import ndtri

        return float(-2 * self.scale * ndtri(tail / 2))


def _total(sensitivity: Sensitivity) -> Fraction:
    """ℓ₁, exactly where the moves are known."""
    if sensitivity.moves:
        return sum((Fraction(move) for move in sensitivity.moves), Fraction(0))
    return Fraction(sensitivity.require_l1())


def _mesh(gaps: Array, reach: float) -> tuple[Array, Array]:
    """Quadrature points around the best score; pieces end at the scores, where a Laplace density has kinks."""
    ends = np.unique(np.concatenate([np.arange(-reach, reach + 0.5), gaps[np.abs(gaps) < reach]]))
    left, width = ends[:-1], np.diff(ends)
    points = left[:, None] + width[:, None] * (_PANEL_NODES + 1) / 2
    return points.ravel(), (width[:, None] * _PANEL_WEIGHTS / 2).ravel()


def _laplace_log_below(z: Array) -> Array:
    tail = np.exp(-np.abs(z)) / 2
    return np.where(z < 0, -np.abs(z) - math.log(2), np.log1p(-tail))


def _laplace_log_density(z: Array) -> Array:
    return -np.abs(z) - math.log(2)


def _normal_log_density(z: Array) -> Array:
    return np.asarray(-z * z / 2 - math.log(2 * math.pi) / 2)


def _normal_log_below(z: Array) -> Array:
    return np.asarray(scipy.special.log_ndtr(z))


_LOGS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "laplace": (_laplace_log_density, _laplace_log_below),
    "gaussian": (_normal_log_density, _normal_log_below),
}
