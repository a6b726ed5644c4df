"""The Laplace mechanism: its distribution, its exact privacy curve, its calibration.

A scale is a float that the sampler uses as it stands, so its binary value counts; a guarantee is the decimal it prints
as. Proofs: ``docs/proofs/laplace.md``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import comb, prod
from typing import ClassVar, Self

import numpy as np
from flint import arb, fmpq, fmpq_poly
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import (
    ApproxDP,
    Curve,
    GaussianDP,
    Guarantee,
    PureDP,
    ZeroConcentratedDP,
    gaussian_delta,
    plain,
)
from discreet.core.noise.sampler import Family, Floats, LaplaceFamily, Location
from discreet.core.numbers import ball, decimal, least, normal_cdf, precisely, thin, up
from discreet.core.sensitivity import Sensitivity, exact_moves
from discreet.mechanisms import loss_distribution
from discreet.mechanisms.mechanism import AdditiveNoise, LocationLaw, probabilities

# ---- The exact privacy curve of Laplace noise in any number of coordinates
#
# With unit scale and shifts t₁, …, t_k (total T) the hockey-stick divergence has a closed form: e^{(ε−T)/2}
# times a polynomial on each interval between the points ±t₁ ± … ± t_k (``docs/proofs/laplace.md``, section 3):
#
#     δ(ε) = 1 + e^{(ε−T)/2} · 2^{−k} · Σ_{c > ε} P_p(c − ε)        for 0 ≤ ε < T,
#
# one term for each choice of signs, p of them positive and c their sum. Equal shifts share their terms, so a
# record that moves k cells by the same amount costs k + 1 terms and not 2^k.


@lru_cache(maxsize=256)
def _polynomials(count: int) -> tuple[fmpq_poly, ...]:
    """P_p for p = 1, …, k positive signs; there is none for p = 0, whose point −T lies below every ε ≥ 0.

    P_p is the inverse Laplace transform of (s+½)^{p−1}·(s−½)^{k−p−1} / s^k; for p = k that of its pole at 0.
    """
    half = fmpq(1, 2)
    plus, minus = fmpq_poly([half, 1]), fmpq_poly([-half, 1])
    numerators = [plus ** (p - 1) * minus ** (count - p - 1) for p in range(1, count)]
    geometric = fmpq_poly([fmpq(-2) * fmpq(2) ** j for j in range(count)])  # 1/(s − ½) around 0
    numerators.append(plus ** (count - 1) * geometric)
    return tuple(_inverse(numerator, count) for numerator in numerators)


def _inverse(numerator: fmpq_poly, count: int) -> fmpq_poly:
    """Σ a_m s^{m−k} becomes Σ a_m x^{k−1−m} / (k−1−m)!, for the powers m < k."""
    coefficients, factorial = [], 1
    for power in range(count):
        factorial *= max(power, 1)
        coefficients.append(numerator[count - 1 - power] / factorial)
    return fmpq_poly(coefficients)


def _value(polynomial: fmpq_poly, x: arb) -> arb:
    total = arb(0)
    for coefficient in reversed(polynomial.coeffs()):
        total = total * x + arb(coefficient)
    return total


def laplace_rho(shifts: Iterable[Fraction]) -> arb:
    """Σ (t + e^{−t} − 1): the tight zCDP parameter (``docs/proofs/laplace.md``, section 4)."""
    total = arb(0)
    for shift in shifts:
        t = ball(shift)
        total += t + (-t).expm1()
    return total


Array = NDArray[np.float64]
Moves = tuple[Fraction, ...]


class LaplaceLaw(LocationLaw):
    """Laplace noise: density exp(−|x − truth|/b) / 2b.

    Examples
    --------
    >>> law = LaplaceLaw(10.0, 2.0)
    >>> law.mean, law.variance, law.cdf(10.0)
    (10.0, 8.0, 0.5)
    """

    @property
    def variance(self) -> Floats:
        """2·b²."""
        return plain(np.broadcast_to(2 * self.scale**2, self._shape))

    def pdf(self, x: ArrayLike) -> Floats:
        """Density."""
        return plain(np.exp(-np.abs(self._standardised(x))) / (2 * self.scale))

    def cdf(self, x: ArrayLike) -> Floats:
        """Distribution function."""
        z = self._standardised(x)
        half = np.exp(-np.abs(z)) / 2
        return plain(np.where(z < 0, half, 1 - half))

    def quantile(self, q: ArrayLike) -> Floats:
        """Inverse distribution function."""
        p = probabilities(q)
        with np.errstate(divide="ignore"):
            z = np.where(p < 0.5, np.log(2 * p), -np.log(2 * (1 - p)))
        return plain(self.location + self.scale * z)

    def _family(self, location: Location, scale: Array, grid: Array, shape: tuple[int, ...]) -> Family:
        return LaplaceFamily(scale, scale / grid)

    def _simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return rng.laplace(self.location, self.scale, size=shape)


class LaplaceProfile(loss_distribution.CurveProfile):
    """Laplace noise of one scale on every coordinate; the worst neighbour moves coordinate i by t_i scales.

    Parameters
    ----------
    shifts
        The t_i = Δ_i / b of the coordinates that move; fractions stay exact. Where only the ℓ₁ sensitivity is
        known, the single shift Δ₁ / b is the worst case in any dimension (lee2022, Conjecture 12, proved in
        ``docs/proofs/laplace.md``).

    Notes
    -----
    **Guarantee.** With T = Σ t_i the curve is exactly T-DP, Σ (t_i + e^{−t_i} − 1)-zCDP and, for one shift t,
    μ-GDP with μ = −2Φ⁻¹(e^{−t/2}/2) (lee2022, Proposition 9); all of them tight. For more than about a dozen
    *different* shifts the smallest are merged, which gives an upper bound.

    Examples
    --------
    >>> table = LaplaceProfile([0.5, 0.5])  # a record moves between two cells, scale 2
    >>> print(table.pure(), table.gaussian())
    ε = 1 μ = 0.707552
    >>> round(LaplaceProfile([1]).gaussian().mu, 5)  # the same ℓ₁ sensitivity in one cell
    1.03006
    """

    made_of: ClassVar[tuple[str, ...]] = ("shifts",)
    largest_size: ClassVar[int] = 4096
    """Most terms of one curve; beyond it the smallest shifts are merged, which can only raise the curve."""

    def __init__(self, shifts: Sequence[float | Fraction]) -> None:
        requirements.instance("shifts", shifts, (list, tuple, np.ndarray), "shifts=[1.0]")
        exact = tuple(sorted((requirements.exact_positive("shifts", shift) for shift in shifts), reverse=True))
        if not exact:
            raise InvalidParameter("shifts", shifts, "must not be empty", "Pass one shift per moved coordinate.")
        self.shifts = exact
        self.total = sum(exact, Fraction(0))

    @staticmethod
    def size(shifts: Iterable[Fraction]) -> int:
        """Number of terms of the curve."""
        return prod(times + 1 for times in Counter(shifts).values())

    @cached_property
    def merged(self) -> tuple[Fraction, ...]:
        """The shifts, the smallest of them added up until the curve has few enough terms.

        f_s ⊗ f_t ≥ f_{s+t} (``docs/proofs/laplace.md``), so the merged curve lies above the exact one.
        """
        parts = list(self.shifts)
        while self.size(parts) > self.largest_size:
            parts = sorted([*parts[:-2], parts[-2] + parts[-1]], reverse=True)
        return tuple(parts)

    @cached_property
    def _points(self) -> list[tuple[Fraction, int, int]]:
        """The points c > 0, each with its number of positive signs and its ways, the largest first."""
        points: dict[tuple[Fraction, int], int] = {(Fraction(0), 0): 1}
        for shift, times in Counter(self.merged).items():
            grown: Counter[tuple[Fraction, int]] = Counter()
            for (point, positive), ways in points.items():
                for p in range(times + 1):
                    grown[point + (2 * p - times) * shift, positive + p] += ways * comb(times, p)
            points = dict(grown)
        return sorted(((c, p, ways) for (c, p), ways in points.items() if c > 0), reverse=True)

    def delta(self, epsilon: Fraction) -> arb:
        """δ(ε) for ε ≥ 0 as a ball, at the working precision."""
        if epsilon >= self.total:
            return arb(0)
        count = len(self.merged)
        polynomials, total = _polynomials(count), arb(0)
        for point, positive, ways in self._points:
            if point <= epsilon:
                break
            total += ways * _value(polynomials[positive - 1], ball(point - epsilon))
        return 1 + (ball(epsilon - self.total) / 2).exp() * total / arb(2) ** count

    def _delta(self, epsilon: float) -> float:
        exact = decimal(epsilon)
        if exact >= self.total:  # no outcome loses more than T, and a ball around 0 would never get thin
            return 0.0
        return min(up(thin(lambda: self.delta(exact))), 1.0)

    def _epsilon(self, delta: float) -> float:
        if delta == 0:
            return up(self.total)
        if self._delta(0.0) <= delta:
            return 0.0
        with precisely():
            # Exact for one shift; for several, the curve lies below that of the merged one.
            guess = float(ball(self.total) + 2 * (1 - ball(decimal(delta))).log())
        return least(lambda epsilon: self._delta(epsilon) <= delta, max(guess, 1e-9))

    def gaussian(self) -> GaussianDP:
        """The tightest μ: closed form for one shift, a certified search for several."""
        if len(self.shifts) == 1:
            return GaussianDP(_single_mu(self.shifts[0]))
        return GaussianDP(_covering_mu(self))

    def pure(self) -> PureDP:
        return PureDP(up(self.total))

    def concentrated(self) -> ZeroConcentratedDP:
        return ZeroConcentratedDP(up(thin(lambda: laplace_rho(self.shifts))))

    def losses(self) -> list[tuple[loss_distribution.PrivacyLoss, int]]:
        return [(loss_distribution.laplace_loss(shift), times) for shift, times in Counter(self.shifts).items()]

    def _reach(self) -> float:
        return min(float(self.total), 700.0)

    def _tradeoff(self, alpha: NDArray[np.float64]) -> Curve:
        if len(self.shifts) > 1:
            return super()._tradeoff(alpha)
        # lee2022, proof of Proposition 9: T(Lap(0, 1), Lap(t, 1)).
        t = float(self.shifts[0])
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            left = 1 - np.exp(t) * alpha
            middle = np.exp(-t) / (4 * alpha)
            right = np.exp(-t) * (1 - alpha)
        return plain(np.where(alpha >= 0.5, right, np.where(alpha >= math.exp(-t) / 2, middle, left)))

    def __str__(self) -> str:
        shown = ", ".join(f"{float(shift):.6g}" for shift in self.shifts[:4])
        more = f", … ({len(self.shifts)} in all)" if len(self.shifts) > 4 else ""
        return f"Laplace noise, shifted by {shown}{more} scales"


def _single_mu(shift: Fraction) -> float:
    """The smallest μ with Φ(−μ/2) ≤ e^{−t/2}/2 (lee2022, Proposition 9)."""
    with precisely():
        target = (-ball(shift) / 2).exp() / 2
        guess = float((2 * target).erfcinv() * arb(8).sqrt())
        return least(lambda mu: bool(normal_cdf(-ball(decimal(mu)) / 2) <= target), guess)


def _covering_mu(curve: LaplaceProfile) -> float:
    """The smallest μ whose Gaussian curve lies above ``curve`` everywhere, up to about 1e-12 of it."""
    with precisely():

        def mu_at(epsilon: float) -> float:
            return loss_distribution.gaussian_parameter(epsilon, float(curve.delta(Fraction(epsilon))))

        # At the total itself δ is 0, which says nothing about μ.
        guess = loss_distribution.supremum(mu_at, 0.0, float(curve.total) * 0.999)
        # A scale that was calibrated to 0.3 must report 0.3, not the next float: try the short decimal first.
        short = float(f"{guess:.12g}")
        if short > 0 and loss_distribution.dominates(ball(decimal(short)), curve.delta, curve.total):
            return short
    return loss_distribution.first_certified(
        guess, lambda mu: loss_distribution.dominates(ball(decimal(mu)), curve.delta, curve.total)
    )


def laplace_scale(guarantee: Guarantee, sensitivity: Sensitivity) -> float:
    """The smallest scale b of Laplace noise that meets ``guarantee``.

    With the ℓ₁ sensitivity Δ alone: Δ/ε under `PureDP`, Δ/(ε − 2 log(1−δ)) under `ApproxDP`,
    Δ/(−2 log 2Φ(−μ/2)) under `GaussianDP` (lee2022, Proposition 9 and Conjecture 12) and Δ/t under
    `ZeroConcentratedDP`, t + e^{−t} − 1 = ρ. With ``moves`` the exact curve in several dimensions gives a
    smaller one (lee2022 (17)), to the last bit, except under `GaussianDP`, where it is within 1e-12 of it.

    Examples
    --------
    >>> laplace_scale(PureDP(1.0), Sensitivity(l1=2.0))
    2.0
    >>> round(laplace_scale(GaussianDP(1.0), Sensitivity(l1=2.0)), 6)
    2.071403
    >>> round(laplace_scale(GaussianDP(1.0), Sensitivity(moves=(1, 1))), 6)
    1.358905
    """
    loss_distribution.refuse_nothing(guarantee)
    moves = exact_moves(sensitivity)
    if isinstance(guarantee, PureDP) or (isinstance(guarantee, ApproxDP) and guarantee.delta == 0):
        bound = sum(moves, Fraction(0))
        epsilon = decimal(guarantee.epsilon)
        return loss_distribution.least_scale(
            lambda b: bound <= epsilon * Fraction(b), loss_distribution.quotient(bound, epsilon), guarantee
        )
    if isinstance(guarantee, ApproxDP):
        return _laplace_approximate(guarantee, moves)
    if isinstance(guarantee, GaussianDP):
        return _laplace_gaussian(guarantee, moves)
    return _laplace_concentrated(guarantee.to(ZeroConcentratedDP), moves)


def _laplace_approximate(guarantee: ApproxDP, moves: Moves) -> float:
    epsilon = decimal(guarantee.epsilon)
    total = sum(moves, Fraction(0))
    with precisely(loss_distribution.working_bits(guarantee.delta)):
        delta = ball(decimal(guarantee.delta))
        reach = ball(epsilon) - 2 * (1 - delta).log()
        guess = float(ball(total) / reach)
        if len(moves) == 1:
            return loss_distribution.least_scale(lambda b: bool(ball(total) <= reach * ball(b)), guess, guarantee)

        def holds(scale: float) -> bool:
            return bool(LaplaceProfile(_shifts(moves, scale)).delta(epsilon) <= delta)

        return loss_distribution.least_scale(holds, guess, guarantee)


def _laplace_concentrated(guarantee: ZeroConcentratedDP, moves: Moves) -> float:
    with precisely():
        rho = ball(decimal(guarantee.rho))
        # t + e^{−t} − 1 lies between t²/2 − t³/6 and min(t²/2, t): either inverse starts the search.
        guess = float(sum(moves, Fraction(0))) / max(math.sqrt(2 * guarantee.rho / len(moves)), guarantee.rho)
        return loss_distribution.least_scale(lambda b: bool(laplace_rho(_shifts(moves, b)) <= rho), guess, guarantee)


def _laplace_gaussian(guarantee: GaussianDP, moves: Moves) -> float:
    total = sum(moves, Fraction(0))
    with precisely():
        mu = ball(decimal(guarantee.mu))
        if len(moves) == 1:
            reach = -2 * (2 * normal_cdf(-mu / 2)).log()
            return loss_distribution.least_scale(
                lambda b: bool(ball(total) <= reach * ball(b)), float(ball(total) / reach), guarantee
            )
        guess = _touching_scale(mu, moves)
    # Ask the profile itself, so that what the mechanism reports later never exceeds what was asked for.
    return loss_distribution.first_certified(
        guess, lambda b: LaplaceProfile(_shifts(moves, b)).gaussian().within(guarantee)
    )


def _touching_scale(mu: arb, moves: Moves) -> float:
    """The smallest scale whose curve stays below the Gaussian one, numerically (lee2022 (17))."""
    from scipy.optimize import brentq

    largest = float(sum(moves, Fraction(0)) / Fraction(float(-2 * (2 * normal_cdf(-mu / 2)).log())))

    def scale_at(epsilon: float) -> float:
        exact = Fraction(epsilon)
        target = gaussian_delta(mu, exact)

        def excess(log_scale: float) -> float:
            return float(LaplaceProfile(_shifts(moves, math.exp(log_scale))).delta(exact) / target - 1)

        return math.exp(brentq(excess, math.log(largest) - 12, math.log(largest) + 1e-3, xtol=1e-15, rtol=1e-15))

    # Every ε gives a lower bound on the scale; the touching point lies below the total at the first of them.
    return loss_distribution.supremum(scale_at, 0.0, float(sum(moves, Fraction(0))) / scale_at(0.0))


def _shifts(moves: Moves, scale: float) -> Moves:
    exact = Fraction(scale)
    return tuple(move / exact for move in moves)


@dataclass(frozen=True)
class Laplace(AdditiveNoise):
    """Independent Laplace noise on every coordinate.

    Parameters
    ----------
    scale
        Scale b of the noise: its mean distance from 0. `Laplace.calibrate` finds the least for a guarantee.
    grid
        Power of two to which outputs are rounded; by default 2⁻²⁰ of the scale.

    Guarantee
    ---------
    With t = Δ₁/b it is t-DP, (ε, 1 − e^{(ε−t)/2})-DP for every ε < t, −2Φ⁻¹(e^{−t/2}/2)-GDP and
    (t + e^{−t} − 1)-zCDP, in any dimension and for the neighbour relation of Δ₁. All four are tight for a change
    of one coordinate; where a record is known to move several coordinates (``Sensitivity(moves=…)``) the last
    three are smaller, and computed so. Proofs: ``docs/proofs/laplace.md``.

    Examples
    --------
    >>> from discreet import PureDP
    >>> from discreet.core.sensitivity import Sensitivity
    >>> Laplace.calibrate(PureDP(1.0), Sensitivity(l1=2.0))
    Laplace(scale=2.0, grid=None)
    """

    name: ClassVar[str] = "laplace"
    _law: ClassVar[type[LocationLaw]] = LaplaceLaw

    @classmethod
    def calibrate(cls, guarantee: Guarantee, sensitivity: Sensitivity, *, grid: float | None = None) -> Self:
        """The least noise that meets ``guarantee`` for ``sensitivity``; the scale is rounded up."""
        return cls(laplace_scale(guarantee, sensitivity), grid)

    def profile(self, sensitivity: Sensitivity) -> LaplaceProfile:
        """The exact privacy curve."""
        return LaplaceProfile(_shifts(exact_moves(sensitivity), self.scale))
