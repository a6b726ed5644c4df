"""The generalized Gaussian mechanism (liu2019 (3)): noise with density proportional to ``exp(−(|x|/b)^p)``.

Order 1 would be Laplace noise, order 2 is Gaussian noise, and higher orders have flatter tops and lighter tails.
Proof: ``docs/proofs/generalized_gaussian.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
import scipy
from flint import arb
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, Profile, PureDP, ZeroConcentratedDP
from discreet.core.noise.sampler import Family, Floats, Location, Truth, Words, plain, uniform_ball
from discreet.core.numbers import ball, decimal, least, precisely, thin, up
from discreet.core.sensitivity import Sensitivity, exact_moves
from discreet.mechanisms.composition import compose_curves
from discreet.mechanisms.gaussian import GaussianProfile, gaussian_scale
from discreet.mechanisms.loss_distribution import CurveProfile, least_scale, refuse_nothing
from discreet.mechanisms.mechanism import AdditiveNoise, Kind, LocationLaw, probabilities

# ---- The exact sampler of generalized Gaussian noise: the inverse of its distribution function, in two precisions
#
# If G has the gamma law of shape 1/p, then ±G^{1/p} has density proportional to exp(−|z|^p). The tail of |z| is the
# regularised incomplete gamma function Q(1/p, z^p), which is inverted here.


Array = NDArray[np.float64]

QUANTILE_BUDGET = 2.0**-36
"""Absolute error that the quantile in doubles may have, in scales; a test measures less than a hundredth of it."""

_FEW_BITS = 2**46
"""A tail below 2⁻¹⁷ has too few leading bits for doubles: the balls take such a draw, once in 2¹⁷."""


def tail(z: arb, order: int) -> arb:
    """P(|Z| > z) = Q(1/p, z^p) for z ≥ 0, as a ball; 1 where z is at most 0."""
    if z <= 0:
        return arb(1)
    if not z > 0:  # a ball around 0: the density of |Z| is at most p/Γ(1/p), so the tail hardly moves
        reach = z.abs_upper() * order / (1 / arb(order)).gamma()
        return (1 - reach / 2) + arb(0, 1) * reach / 2
    return (z**order).gamma_upper(1 / arb(order), regularized=1)


@dataclass(frozen=True)
class GeneralizedGaussianFamily:
    """±b·z with Q(1/p, z^p) = U: one bit for the sign, the others for U."""

    scale: Array
    scale_in_cells: Array
    order: int

    def fast(self, words: Words, part: slice) -> tuple[Array, float]:
        """Noise in cells and its error bound."""
        magnitudes = (words >> np.uint64(1)).view(np.int64)
        quantile = scipy.special.gammainccinv(1 / self.order, magnitudes * 2.0**-63) ** (1 / self.order)
        quantile[magnitudes < _FEW_BITS] = math.nan
        scale = self.scale_in_cells if self.scale_in_cells.ndim == 0 else self.scale_in_cells[part]
        noise = np.asarray(quantile * scale)
        noise.view(np.uint64)[...] ^= words << np.uint64(63)  # the lowest bit is the sign
        # The unseen bits move U by 2⁻⁶³ and z by that over the density, which is at least 2⁻¹⁹ where U is above 2⁻¹⁷.
        return noise, float(np.max(scale)) * (QUANTILE_BUDGET + 2.0**-44)

    def enclose(self, index: int, bits: int, count: int) -> arb:
        """Noise as a ball: the quantiles of both ends of the uniform interval."""
        extra = count - 64
        first, rest = bits >> extra, bits & ((1 << extra) - 1)
        uniform = uniform_ball(((first >> 1) << extra) | rest, count - 1)
        scale = ball(float(self.scale if self.scale.ndim == 0 else self.scale[index]))
        return (-1 if first & 1 else 1) * scale * self._quantile(uniform)

    def _quantile(self, uniform: arb) -> arb:
        middle, density = self._newton(uniform.mid())
        radius = (uniform.rad() + abs(tail(middle, self.order) - uniform.mid())) / density
        while True:  # until both ends are proved to lie outside the interval
            radius = (4 * radius).upper()
            low = (middle - radius).lower()
            high = (middle + radius).upper()
            above = bool(low <= 0) or bool(tail(low, self.order) >= uniform)
            if above and bool(tail(high, self.order) <= uniform):
                return middle + radius * arb(0, 1)

    def _newton(self, uniform: arb) -> tuple[arb, arb]:
        """An approximate quantile, as a point, and the density there; nothing rests on how good it is."""
        p = self.order
        z = arb(max(float(scipy.special.gammainccinv(1 / p, float(uniform))) ** (1 / p), 2.0**-60))
        factor = p / (1 / arb(p)).gamma()
        density = (factor * (-(z**p)).exp()).mid()
        for _ in range(12):
            moved = (z + (tail(z, p) - uniform) / density).mid()
            if not moved > 0:
                break
            z, density = moved, (factor * (-(moved**p)).exp()).mid()
        return z, density


_HIGHEST_ORDER = 16
"""Beyond it the distribution is close to uniform noise, which protects nobody at small δ."""
_STATED_DELTA = 1e-6


def _order(value: Any) -> int:
    order = requirements.positive_integer("order", value, at_least=2)
    if order > _HIGHEST_ORDER:
        raise InvalidParameter("order", value, f"must be a whole number from 2 to {_HIGHEST_ORDER}", "Pass order=4.")
    return order


class GeneralizedGaussianLaw(LocationLaw):
    """Generalized Gaussian noise: density ``p/(2b·Γ(1/p))·exp(−(|x − truth|/b)^p)``.

    Examples
    --------
    >>> law = GeneralizedGaussianLaw(10.0, 2.0, order=4)
    >>> round(law.variance, 4), law.cdf(10.0)
    (1.352, 0.5)
    """

    def __init__(self, location: Truth, scale: ArrayLike, order: int, *, grid: ArrayLike | None = None) -> None:
        super().__init__(location, scale, grid=grid)
        self.order = _order(order)

    @property
    def variance(self) -> Floats:
        """b²·Γ(3/p)/Γ(1/p)."""
        ratio = math.gamma(3 / self.order) / math.gamma(1 / self.order)
        return plain(np.broadcast_to(ratio * self.scale**2, self._shape))

    def pdf(self, x: ArrayLike) -> Floats:
        """Density."""
        z = np.abs(self._standardised(x))
        return plain(np.exp(-(z**self.order)) * self.order / (2 * self.scale * math.gamma(1 / self.order)))

    def cdf(self, x: ArrayLike) -> Floats:
        """Distribution function."""
        z = self._standardised(x)
        half = scipy.special.gammaincc(1 / self.order, np.abs(z) ** self.order) / 2
        return plain(np.where(z < 0, half, 1 - half))

    def quantile(self, q: ArrayLike) -> Floats:
        """Inverse distribution function."""
        p = probabilities(q)
        z = scipy.special.gammainccinv(1 / self.order, 2 * np.minimum(p, 1 - p)) ** (1 / self.order)
        return plain(self.location + self.scale * np.where(p < 0.5, -z, z))

    def _family(self, location: Location, scale: Array, grid: Array, shape: tuple[int, ...]) -> Family:
        return GeneralizedGaussianFamily(scale, np.asarray(scale / grid), self.order)

    def _simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        sizes = rng.standard_gamma(1 / self.order, size=shape) ** (1 / self.order)
        return np.asarray(self.location + self.scale * np.where(rng.random(shape) < 0.5, -sizes, sizes))


class GeneralizedGaussianProfile(CurveProfile):
    """Generalized Gaussian noise of order 3 or more on one number that moves by t scales.

    Parameters
    ----------
    shift
        t = Δ/b; fractions stay exact.
    order
        The power p.

    Notes
    -----
    **Guarantee.** δ(ε) = F(x) − e^ε·F(x − t), where F is the standard distribution function and x solves
    ``|x − t|^p − |x|^p = ε``; exact. There is no ε-DP, no ρ-zCDP and no μ-GDP guarantee for an order above 2.

    Examples
    --------
    >>> profile = GeneralizedGaussianProfile(0.25, order=4)
    >>> round(profile.delta_at(1.0), 6)
    0.026239
    """

    made_of: ClassVar[tuple[str, ...]] = ("shift", "order")

    def __init__(self, shift: float | Fraction, *, order: int) -> None:
        self.shift = requirements.exact_positive("shift", shift)
        self.order = _order(order)

    def _delta(self, epsilon: float) -> float:
        exact = decimal(epsilon)
        return min(up(thin(lambda: self._delta_ball(exact))), 1.0)

    def _delta_ball(self, epsilon: Fraction) -> arb:
        edge, gap = self._edge(epsilon), ball(self.shift)
        if edge > 0:
            # 1 − Q(x)/2 would cancel where δ is small; but an edge above 0 means ε < t^p, where δ is not.
            return 1 - tail(edge, self.order) / 2 - ball(epsilon).exp() * tail(gap - edge, self.order) / 2
        if edge <= 0:
            away = -edge
            return (tail(away, self.order) - ball(epsilon).exp() * tail(away + gap, self.order)) / 2
        half = (1 + (1 - tail(abs(edge), self.order)) * arb(0, 1)) / 2  # F of a ball around 0
        return half - ball(epsilon).exp() * tail(gap - edge, self.order) / 2

    def _edge(self, epsilon: Fraction) -> arb:
        """The output x up to which the loss ``|x − t|^p − |x|^p`` is above ε: a ball that is proved to hold it."""
        p = self.order
        t = ball(self.shift)
        wanted = ball(epsilon)

        def loss(x: arb) -> arb:
            return abs(x - t) ** p - abs(x) ** p

        x = arb(_float_edge(float(self.shift), p, float(epsilon)))
        for _ in range(12):
            slope = p * ((x - t).sgn() * abs(x - t) ** (p - 1) - x.sgn() * abs(x) ** (p - 1))
            if not slope < 0:
                break
            x = (x - (loss(x) - wanted) / slope).mid()
        radius = (abs(x) + t).upper() * arb(2) ** -200
        while not (loss(x - radius) >= wanted and loss(x + radius) <= wanted):
            radius = 16 * radius
        return x + radius * arb(0, 1)

    def _epsilon(self, delta: float) -> float:
        if self._delta(0.0) <= delta:
            return 0.0
        if delta == 0:
            return math.inf
        from scipy.optimize import brentq

        goal, high = math.log(delta), 1.0
        while self._delta(high) > delta:
            high *= 4
        root = brentq(lambda e: math.log(max(self._delta(e), 1e-320)) - goal, 0.0, high, xtol=1e-14, rtol=1e-13)
        return least(lambda epsilon: self._delta(epsilon) <= delta, max(root, 1e-300))

    def pure(self) -> PureDP:
        raise _unbounded("PureDP")

    def concentrated(self) -> ZeroConcentratedDP:
        raise _unbounded("ZeroConcentratedDP")

    def gaussian(self) -> GaussianDP:
        raise _unbounded("GaussianDP")

    def _reach(self) -> float:
        """The loss at the output that is exceeded with probability 1e-18."""
        far = float(scipy.special.gammainccinv(1 / self.order, 2e-18)) ** (1 / self.order)
        return float(min((far + float(self.shift)) ** self.order - far**self.order, 700.0))

    def __str__(self) -> str:
        return f"generalized Gaussian noise of order {self.order}, shifted by {float(self.shift):.6g} scales"


def _unbounded(kind: str) -> NoConversion:
    return NoConversion(
        f"generalized Gaussian noise of order 3 or more has no {kind} guarantee: its privacy loss grows faster than "
        "that of Gaussian noise. State an ApproxDP guarantee with epsilon_at(delta)."
    )


def _float_edge(shift: float, order: int, epsilon: float) -> float:
    """The solution of ``|x − t|^p − |x|^p = ε`` in doubles: where the certified search starts."""
    from scipy.optimize import brentq

    def excess(x: float) -> float:
        return abs(x - shift) ** order - abs(x) ** order - epsilon

    low = -max(shift, (epsilon / (order * shift)) ** (1 / (order - 1)))  # the loss there is at least ε: it is convex
    return float(brentq(excess, 2 * low, shift / 2 + 1e-300, xtol=1e-300, rtol=1e-15))


@dataclass(frozen=True)
class GeneralizedGaussian(AdditiveNoise):
    """Independent generalized Gaussian noise of one order on every coordinate (liu2019 (3)).

    Guarantee
    ---------
    (ε, δ)-DP with the exact δ(ε) of `GeneralizedGaussianProfile`, for the neighbour relation of the sensitivity. In
    several dimensions the worst change of a given ℓ₁ size moves one coordinate; where the moves are known their losses
    are composed, which gives an upper bound. Order 2 is `Gaussian` with σ = b/√2. Proof:
    ``docs/proofs/generalized_gaussian.md``.

    Parameters
    ----------
    scale, grid
        Scale b of the noise, and the power of two to which outputs are rounded.
    order
        The power p, a whole number from 2 to 16.

    Examples
    --------
    >>> from discreet import ApproxDP
    >>> from discreet.core.sensitivity import Sensitivity
    >>> noise = GeneralizedGaussian.calibrate(ApproxDP(1.0, 1e-6), Sensitivity(l1=1.0), order=3)
    >>> round(noise.scale, 3), round(noise.law(0.0).variance, 2)  # Gaussian noise would have 17.84
    (12.488, 58.22)
    """

    order: int = 4
    name: ClassVar[str] = "generalized_gaussian"
    own_kind: ClassVar[type[Guarantee]] = ApproxDP

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "order", _order(self.order))

    @classmethod
    def calibrate(
        cls, guarantee: Guarantee, sensitivity: Sensitivity, *, order: int = 4, grid: float | None = None
    ) -> Self:
        """The least noise that meets ``guarantee`` for ``sensitivity``; the scale is rounded up."""
        return cls(_scale(guarantee, sensitivity, _order(order)), grid, order)

    def law(self, truth: Truth) -> GeneralizedGaussianLaw:
        """The exact distribution of the output given the truth."""
        return GeneralizedGaussianLaw(truth, self.scale, order=self.order, grid=self.grid)

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """The exact privacy curve of one number; for several moves their composition."""
        scale = Fraction(self.scale)
        if self.order == 2:
            with precisely():
                return GaussianProfile(up(arb(2).sqrt() * ball(Fraction(sensitivity.require_l2()) / scale)))
        parts = [GeneralizedGaussianProfile(move / scale, order=self.order) for move in exact_moves(sensitivity)]
        return parts[0] if len(parts) == 1 else compose_curves(parts)

    def guarantee(self, sensitivity: Sensitivity, kind: Kind = None, *, delta: float | None = None) -> Guarantee:
        """The guarantee for ``sensitivity``: by default (ε, δ)-DP at δ = 1e-6."""
        if kind is None and delta is None:
            delta = _STATED_DELTA
        return super().guarantee(sensitivity, kind, delta=delta)


def _scale(guarantee: Guarantee, sensitivity: Sensitivity, order: int) -> float:
    refuse_nothing(guarantee)
    if order == 2:  # ask the profile itself, which rounds √2 up
        guess = math.sqrt(2) * gaussian_scale(guarantee, sensitivity)
        own = GeneralizedGaussian
        return least_scale(lambda b: own(b, order=2).profile(sensitivity).within(guarantee), guess, guarantee)
    moves = exact_moves(sensitivity)
    if not (isinstance(guarantee, ApproxDP) and guarantee.delta > 0):
        raise _unbounded(type(guarantee).__name__)

    def reached(scale: float) -> float:
        return GeneralizedGaussian(scale, order=order).profile(sensitivity).delta_at(guarantee.epsilon)

    guess = _root(lambda scale: math.log(max(reached(scale), 1e-320) / guarantee.delta), float(sum(moves)), len(moves))
    if len(moves) == 1:
        return least_scale(lambda scale: reached(scale) <= guarantee.delta, guess, guarantee)
    # Composed curves are upper bounds made from knots: a millionth more noise is well within their accuracy.
    while reached(guess) > guarantee.delta:
        guess *= 1 + 1e-6
    return guess


def _root(excess: Callable[[float], float], start: float, moves: int) -> float:
    """The scale at which a decreasing function is 0; roughly where each evaluation is a composition."""
    from scipy.optimize import brentq

    accuracy, low, high = 1e-13 if moves == 1 else 1e-6, start, start
    while excess(low) < 0:
        low /= 4
    while excess(high) > 0:
        high *= 4
    return float(brentq(excess, low, high, rtol=accuracy, xtol=accuracy * low))
