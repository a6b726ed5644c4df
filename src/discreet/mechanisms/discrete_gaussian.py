"""The discrete Gaussian mechanism: whole-number noise for ρ-zCDP; its distribution, its calibration.

Proofs: ``docs/proofs/gaussian.md``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from flint import arb, ctx
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.noise.sampler import Family, Floats, Location, Truth, Words, plain, uniform_ball
from discreet.core.numbers import ball, decimal, least, thin, up
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms.loss_distribution import (
    Convolution,
    CurveProfile,
    PrivacyLoss,
    gaussian_parameter,
    least_scale,
    refuse_nothing,
)
from discreet.mechanisms.mechanism import LocationLaw, WholeNoise, probabilities, whole_truth

# ---- The exact sampler of discrete Gaussian noise: the tail of its magnitude as a table, in two precisions
#
# One bit is the sign and the others are a uniform U: the magnitude is at least m ≥ 1 exactly where U is below
# P(|K| ≥ m). Doubles with an error bound decide nearly every draw; balls decide the others.
# Proof: ``docs/proofs/gaussian.md``, section 2.


Array = NDArray[np.float64]

LARGEST_SCALE = 1024.0
"""A larger table would be slow, and would gain nothing: rounding adds 1/12 to a variance of a million."""
_REACH = 38.6
"""Standard deviations that the table spans: what lies beyond is below 1e-320."""
TABLE_ERROR = 2.0**-36
"""Relative error of the tails in doubles: fewer than 2¹⁶ additions of 2⁻⁵³ each, and exponents within 2⁻⁴⁰."""
_FEWEST_BITS, _MOST_BITS = 10, 15
"""So many first bits of a uniform look up its magnitude; a draw that they do not settle is searched for."""


class DiscreteGaussianFamily:
    """±m with P(|K| ≥ m + 1) ≤ U < P(|K| ≥ m): one bit for the sign, the others for U. The grid must be 1.

    ``tails`` holds P(|K| ≥ m) for m = 1, 2, … in doubles, ``centre`` P(K = 0).

    Examples
    --------
    >>> table = family_of(1.0)
    >>> table.tails[:3].round(4).tolist(), round(table.centre, 4)
    ([0.6011, 0.1171, 0.0091], 0.3989)
    """

    def __init__(self, scale: float) -> None:
        self.scale = scale
        steps = np.arange(1, math.ceil(_REACH * scale) + 2)
        with np.errstate(over="ignore", under="ignore"):
            weights = np.exp(-((steps / scale) ** 2) / 2)
        beyond = np.cumsum(weights[::-1])[::-1]  # from the small end, so that errors stay relative
        total = 1 + 2 * float(beyond[0])
        self.centre = 1 / total
        self.weights, self.tails = weights / total, 2 * beyond / total
        bits = min(_FEWEST_BITS + math.ceil(math.log2(scale + 1)), _MOST_BITS)  # many times the tails that matter
        self.shift = np.uint64(63 - bits)

    @cached_property
    def rising(self) -> Array:
        """The tails in rising order."""
        return self.tails[::-1]

    def magnitudes(self, uniforms: Array) -> NDArray[np.int64]:
        """The number of tails that exceed each number of (0, 1)."""
        return np.asarray(self.tails.size - np.searchsorted(self.rising, uniforms, side="right"), dtype=np.int64)

    @cached_property
    def thresholds(self) -> tuple[Words, Words]:
        """The tails in units of 2⁻⁶³, rounded down and up by more than their error; in rising order."""
        parts = self.rising * 2.0**63
        low = np.floor(parts * (1 - TABLE_ERROR))
        high = np.ceil(parts * (1 + TABLE_ERROR))
        return low.astype(np.uint64), np.minimum(high, 2.0**63).astype(np.uint64)

    @cached_property
    def guide(self) -> NDArray[np.float64]:
        """Magnitude by the first bits of a uniform; NaN where they leave two possible."""
        cell = np.uint64(1) << self.shift
        first = np.arange(2 ** (63 - int(self.shift)), dtype=np.uint64) * cell
        least, most = self.between(first + (cell - np.uint64(1)), first)
        return np.where(least == most, least, math.nan)

    def between(self, last: Words, first: Words) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The least and the largest magnitude of all uniforms between two, in units of 2⁻⁶³."""
        low, high = self.thresholds
        return (
            low.size - np.searchsorted(low, last, side="right"),
            high.size - np.searchsorted(high, first, side="right"),
        )

    def fast(self, words: Words, part: slice) -> tuple[Array, float]:
        """Noise, and no error: a draw that doubles cannot decide is NaN."""
        uniforms = words >> np.uint64(1)
        noise = self.guide[uniforms >> self.shift]
        open_ = np.flatnonzero(np.isnan(noise))
        if open_.size:
            least, most = self.between(uniforms[open_], uniforms[open_])
            noise[open_] = np.where(least == most, least, math.nan)
        noise.view(np.uint64)[...] ^= words << np.uint64(63)  # the lowest bit is the sign
        return noise, 0.0

    def enclose(self, index: int, bits: int, count: int) -> arb:
        """The magnitude as a point where the bits decide it; otherwise a ball around two of them."""
        extra = count - 64
        first, rest = bits >> extra, bits & ((1 << extra) - 1)
        uniform = uniform_ball(((first >> 1) << extra) | rest, count - 1)
        square = Fraction(self.scale) ** 2
        size = int(self.magnitudes(np.asarray(float(uniform.mid()))))
        while uniform < 2 * at_least(square, size + 1):
            size += 1
        while size > 0 and uniform >= 2 * at_least(square, size):
            size -= 1
        decided = uniform >= 2 * at_least(square, size + 1) and (
            size == 0 or bool(uniform < 2 * at_least(square, size))
        )
        return (-1 if first & 1 else 1) * (arb(size) if decided else arb(size, 1))


family_of = lru_cache(maxsize=64)(DiscreteGaussianFamily)
"""The sampler of a scale; they are kept, because a session asks for the same scales again."""


def _weight(square: Fraction, step: int) -> arb:
    return (-ball(step**2 / (2 * square))).exp()


@lru_cache(maxsize=64)
def _sum_from(square: Fraction, first: int, bits: int) -> arb:
    """Σ e^{−k²/2σ²} over k ≥ ``first`` ≥ 1, good to ``bits``, which must be the working precision."""
    weight = _weight(square, first)
    ratio = _weight(square, 1) ** (2 * first + 1)
    falls = _weight(square, 1) ** 2
    total, negligible = arb(0), weight * arb(2) ** -(bits + 8)
    # Successive weights have falling ratios, so the rest is less than a geometric series.
    while not (weight < negligible and ratio < arb(1) / 2):
        total += weight
        weight, ratio = weight * ratio, ratio * falls
    return total + weight * arb(1, 1)  # the rest lies between 0 and twice the first weight left out


def at_least(square: Fraction, step: int) -> arb:
    """P(K ≥ step) for discrete Gaussian noise with σ² = ``square``, as a ball at the working precision."""
    if step <= 0:
        return 1 - at_least(square, 1 - step)
    return _sum_from(square, step, ctx.prec) / (1 + 2 * _sum_from(square, 1, ctx.prec))


# ---- The exact privacy curve of discrete Gaussian noise
#
# Proofs: ``docs/proofs/gaussian.md``.


_PROFILE_REACH = 38.0
"""Standard deviations kept of the noise when its losses are listed: beyond them lies less than 1e-307."""


class DiscreteGaussianProfile(CurveProfile):
    """Discrete Gaussian noise on every coordinate; the worst neighbour moves coordinate i by the whole number m_i.

    Parameters
    ----------
    square
        σ²; a fraction stays exact.
    moves
        The whole numbers m_i of the coordinates that move; None where only ``norm`` is known.
    norm
        Σ m_i², the squared ℓ₂ norm of the worst move; it follows from ``moves``.

    Notes
    -----
    **Guarantee.** Exactly Σm_i²/2σ²-zCDP, reached at order 2. δ(ε) of one coordinate is the difference of two tails,
    exactly; of several a convolution, rounded up; where only the norm is known, what ρ implies. It is ε-DP for no ε
    and is not Δ₂/σ-GDP.

    Examples
    --------
    >>> count = DiscreteGaussianProfile(Fraction(4), [1])
    >>> print(count.concentrated(), round(count.delta_at(1.0), 6))
    ρ = 0.125 0.007249
    """

    made_of: ClassVar[tuple[str, ...]] = ("square", "moves", "norm")

    def __init__(self, square: float | Fraction, moves: Sequence[int] | None = None, norm: int | None = None) -> None:
        self.square = requirements.exact_positive("square", square)
        self.moves = None if moves is None else tuple(requirements.positive_integer("moves", one) for one in moves)
        if self.moves == () or (self.moves is None and norm is None):
            raise InvalidParameter("moves", moves, "must not be empty", "Pass one move per moved coordinate.")
        listed = None if self.moves is None else sum(move**2 for move in self.moves)
        self.norm = requirements.positive_integer("norm", norm if listed is None else listed)

    @property
    def rho(self) -> Fraction:
        """Σm_i²/2σ², exactly."""
        return self.norm / (2 * self.square)

    def concentrated(self) -> ZeroConcentratedDP:
        return ZeroConcentratedDP(up(self.rho))

    def pure(self) -> PureDP:
        raise NoConversion(
            "discrete Gaussian noise has no PureDP guarantee: its privacy loss is unbounded. "
            "Use Geometric noise, or state an ApproxDP guarantee with epsilon_at(delta)."
        )

    def gaussian(self) -> GaussianDP:
        raise NoConversion(
            "discrete Gaussian noise is not stated in μ: it loses more than Gaussian noise of the same scale. "
            f"Ask with GaussianDP({math.sqrt(2 * self.rho):.6g}), which Gaussian noise of that scale meets."
        )

    @cached_property
    def _convolution(self) -> Convolution:
        return Convolution(self.losses())

    def _delta(self, epsilon: float) -> float:
        if self.moves is None:
            return self.concentrated().delta_at(epsilon)
        if len(self.moves) > 1:
            # The decimal that ε prints as may lie half a unit below its binary value.
            together = self._convolution.upper(math.nextafter(epsilon, 0.0))
            return min(together, self.concentrated().delta_at(epsilon))
        return min(up(thin(lambda: self._excess(decimal(epsilon)))), 1.0)

    def _excess(self, epsilon: Fraction) -> arb:
        """P(K ≤ k) − e^ε·P(K ≤ k − m), where k is the last noise whose loss (m² − 2mk)/2σ² exceeds ε."""
        (move,) = self.moves or (1,)
        last = math.ceil(Fraction(move, 2) - epsilon * self.square / move) - 1
        return at_least(self.square, -last) - ball(epsilon).exp() * at_least(self.square, move - last)

    def _epsilon(self, delta: float) -> float:
        if self.moves is None:
            return self.concentrated().epsilon_at(delta)
        if self._delta(0.0) <= delta:
            return 0.0
        if len(self.moves) > 1:
            guess = self.concentrated().epsilon_at(delta)
            return math.inf if math.isinf(guess) else least(lambda epsilon: self._delta(epsilon) <= delta, guess)
        if delta == 0:
            return math.inf
        guess = GaussianDP(math.sqrt(2 * self.rho)).epsilon_at(delta)
        return least(lambda epsilon: self._delta(epsilon) <= delta, max(guess, 1e-9))

    def losses(self) -> list[tuple[PrivacyLoss, int]]:
        if self.moves is None:
            return super().losses()
        return [(_loss(self.square, move), times) for move, times in Counter(self.moves).items()]

    def _reach(self) -> float:
        rho = float(self.rho)
        return min(rho + 9 * math.sqrt(2 * rho), 700.0)


def _loss(square: Fraction, move: int) -> PrivacyLoss:
    """Losses (m² − 2mk)/2σ² of the noises k, each rounded up, which can only raise the curve."""
    sigma = math.sqrt(square)
    reach = math.ceil(_PROFILE_REACH * sigma) + 1
    weights = [math.exp(-float(k * k / (2 * square))) for k in range(reach + 1)]
    total = math.fsum(weights) + math.fsum(weights[1:])
    atoms = tuple(
        (math.nextafter(float((move**2 - 2 * move * k) / (2 * square)), math.inf), weights[abs(k)] / total)
        for k in range(-reach, reach + 1)
        if weights[abs(k)] > 0
    )
    return PrivacyLoss(atoms=(*atoms, (atoms[-1][0], 1e-307)), spread=move / sigma, infinite=1e-307, neglected=2e-307)


_ON_A_STEP = 1e-11
"""A probability this close to one that the distribution function takes counts as that one."""


class DiscreteGaussianLaw(LocationLaw):
    """Discrete Gaussian noise: P(truth + k) ∝ e^{−k²/2σ²} for whole k.

    Examples
    --------
    >>> law = DiscreteGaussianLaw(10, 1.0)
    >>> law.mean, round(law.variance, 6), round(law.pdf(10), 4), law.quantile([0.025, 0.5, 0.975]).tolist()
    (10.0, 1.0, 0.3989, [8.0, 10.0, 12.0])
    >>> round(DiscreteGaussianLaw(0, 0.4).variance, 4)  # less than σ² = 0.16
    0.0808
    """

    def __init__(self, location: Truth, scale: float) -> None:
        super().__init__(whole_truth(location), _scale(scale), grid=1.0)
        self._table = family_of(float(self.scale))

    @property
    def variance(self) -> Floats:
        """Σ k²·P(k), which is at most σ²."""
        steps = np.arange(1, self._table.weights.size + 1)
        return plain(np.broadcast_to(2 * float(steps**2 @ self._table.weights), self._shape))

    def pdf(self, x: ArrayLike) -> Floats:
        """Probability of ``x``; 0 where it is not a whole number."""
        distance = np.abs(np.asarray(x, dtype=float) - self.location)
        with np.errstate(over="ignore"):
            chance = self._table.centre * np.exp(-((distance / self.scale) ** 2) / 2)
        return plain(np.where(distance == np.floor(distance), chance, 0.0))

    def cdf(self, x: ArrayLike) -> Floats:
        """Distribution function."""
        steps = np.floor(np.asarray(x, dtype=float) - self.location)
        beyond = self._beyond(np.where(steps < 0, -steps, steps + 1))
        return plain(np.where(steps < 0, beyond, 1 - beyond))

    def _beyond(self, steps: Array) -> Array:
        """P(K ≥ steps) for whole numbers of at least one."""
        tails = np.append(self._table.tails / 2, 0.0)
        return np.asarray(tails[np.minimum(steps, tails.size).astype(np.int64) - 1])

    def quantile(self, q: ArrayLike) -> Floats:
        """The smallest whole number x with P(output ≤ x) ≥ q."""
        p = probabilities(q)
        half = self._table.rising / 2
        # Below ½ the tails of at least p count, above it those that exceed 1 − p.
        low = half.size - np.searchsorted(half, p * (1 - _ON_A_STEP), side="left")
        high = half.size - np.searchsorted(half, (1 - p) * (1 + _ON_A_STEP), side="right")
        steps = np.where(p <= 0.5, -low, high).astype(float)
        steps = np.where(p == 0, -math.inf, np.where(p == 1, math.inf, steps))
        return plain(self.location + steps)

    def _family(self, location: Location, scale: Array, grid: Array, shape: tuple[int, ...]) -> Family:
        return family_of(float(scale))

    def _simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        sizes = self._table.magnitudes(rng.random(shape))
        return np.asarray(np.where(rng.random(shape) < 0.5, -sizes, sizes) + self.location)


def _scale(scale: Any) -> float:
    number = requirements.positive("scale", scale)
    if number > LARGEST_SCALE:
        rule = f"must be at most {LARGEST_SCALE:g}; beyond, rounded Gaussian noise is as good"
        raise InvalidParameter("scale", scale, rule, f"Use Gaussian(scale={number:g}, grid=1).")
    return number


@dataclass(frozen=True)
class DiscreteGaussian(WholeNoise):
    """Independent discrete Gaussian noise on every coordinate: whole numbers stay whole numbers.

    A truth that is not a whole number is rounded first (halves up), which no neighbour can exploit.

    Parameters
    ----------
    scale
        σ in e^{−k²/2σ²}: at the same ρ that of Gaussian noise, with no more variance. At most 1024.

    Guarantee
    ---------
    With whole moves m_i it is Σm_i²/2σ²-zCDP, exactly, for the neighbour relation of the moves (canonne2020). It is
    ε-DP for no ε, and not μ-GDP with μ = Δ₂/σ. Moves that are not whole numbers are rounded up.
    Proof: ``docs/proofs/gaussian.md``.

    Examples
    --------
    >>> from discreet import ZeroConcentratedDP
    >>> from discreet.core.sensitivity import Sensitivity
    >>> noise = DiscreteGaussian.calibrate(ZeroConcentratedDP(0.125), Sensitivity(moves=(1,)))
    >>> noise, noise.noise_interval(120, 0.95)
    (DiscreteGaussian(scale=2.0), (116.0, 124.0))
    """

    name: ClassVar[str] = "discrete_gaussian"
    words: ClassVar[str] = "discrete Gaussian noise"
    own_kind: ClassVar[type[Guarantee]] = ZeroConcentratedDP

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _scale(self.scale))

    @classmethod
    def calibrate(cls, guarantee: Guarantee, sensitivity: Sensitivity) -> Self:
        """The least noise that meets ``guarantee`` for ``sensitivity``; the scale is rounded up."""
        refuse_nothing(guarantee)
        if isinstance(guarantee, PureDP) or (isinstance(guarantee, ApproxDP) and guarantee.delta == 0):
            raise NoConversion(
                f"discrete Gaussian noise cannot meet {guarantee}: its privacy loss is unbounded. Use Geometric noise."
            )
        if isinstance(guarantee, GaussianDP):
            raise NoConversion(
                f"discrete Gaussian noise is not stated in μ, so not in {guarantee}. Use Gaussian noise."
            )
        norm = Fraction(_profile(Fraction(1), sensitivity).norm)
        if isinstance(guarantee, ZeroConcentratedDP):
            rho = decimal(guarantee.rho)
            guess = math.sqrt(norm / (2 * rho))
            return cls(least_scale(lambda scale: norm <= 2 * rho * Fraction(scale) ** 2, guess, guarantee))
        approximate = guarantee.to(ApproxDP)
        guess = math.sqrt(norm) / gaussian_parameter(approximate.epsilon, approximate.delta)
        return cls(least_scale(lambda scale: cls(scale).profile(sensitivity).within(guarantee), guess, guarantee))

    def law(self, truth: Truth) -> DiscreteGaussianLaw:
        """The exact distribution of the output given the truth."""
        return DiscreteGaussianLaw(truth, self.scale)

    def profile(self, sensitivity: Sensitivity) -> DiscreteGaussianProfile:
        """The exact privacy curve."""
        return _profile(Fraction(self.scale) ** 2, sensitivity)

    def check(self, exact: Exact) -> None:
        """Refuse several numbers that need not be whole, where only a norm is known: rounding could move each."""
        self._need_moves(exact, several=max(np.asarray(exact.value).size, exact.sensitivity.dimension or 1) > 1)


def _profile(square: Fraction, sensitivity: Sensitivity) -> DiscreteGaussianProfile:
    """The curve for σ² = ``square``; one number moves by the next whole one, a vector by a whole squared norm."""
    requirements.instance("sensitivity", sensitivity, Sensitivity, "Sensitivity(moves=(1,))")
    if sensitivity.moves is not None:
        return DiscreteGaussianProfile(square, [math.ceil(move) for move in sensitivity.moves])
    bound = Fraction(sensitivity.require_l2())
    if sensitivity.dimension == 1 or bound <= 1:  # a whole vector of norm 1 moves in one coordinate, by one
        return DiscreteGaussianProfile(square, [math.ceil(bound)])
    several = (sensitivity.dimension or 1) > 1
    return DiscreteGaussianProfile(square, norm=math.floor(bound**2) if several else math.ceil(bound) ** 2)
