"""Calibration: the least noise that meets a guarantee, rounded up and certified in ball arithmetic.

The scale is a float that the sampler uses as it stands, so its binary value counts; the guarantee is the
decimal it prints as. Each function returns a float b for which the true parameter of noise at scale b is
*proved* not to exceed the guarantee. Proofs: ``docs/proofs/laplace.md`` and ``docs/proofs/gaussian.md``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from fractions import Fraction

from flint import arb

from discreet.core import requirements
from discreet.core.curves import gaussian_delta
from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.rounding import PRECISION, ball, decimal, least, normal_cdf, precisely
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.envelope import first_certified, gaussian_parameter, supremum
from discreet.mechanisms.laplace_curve import LaplaceCurve, laplace_rho
from discreet.mechanisms.profile import GaussianProfile, LaplaceProfile

__all__ = ["gaussian_profile", "gaussian_scale", "laplace_profile", "laplace_scale"]

Moves = tuple[Fraction, ...]


def laplace_profile(scale: float, sensitivity: Sensitivity) -> LaplaceProfile:
    """The exact privacy curve of Laplace noise; coordinate by coordinate where the moves are known."""
    exact = Fraction(requirements.positive("scale", scale))
    return LaplaceProfile([move / exact for move in _moves(sensitivity)])


def gaussian_profile(scale: float, sensitivity: Sensitivity) -> GaussianProfile:
    """The exact privacy curve of Gaussian noise with standard deviation ``scale``."""
    exact = Fraction(requirements.positive("scale", scale))
    return GaussianProfile(Fraction(sensitivity.require_l2()) / exact)


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
    _spends(guarantee)
    moves = _moves(sensitivity)
    if isinstance(guarantee, PureDP) or (isinstance(guarantee, ApproxDP) and guarantee.delta == 0):
        bound, epsilon = sum(moves, Fraction(0)), decimal(guarantee.epsilon)
        return _least(lambda b: bound <= epsilon * Fraction(b), _quotient(bound, epsilon), guarantee)
    if isinstance(guarantee, ApproxDP):
        return _laplace_approximate(guarantee, moves)
    if isinstance(guarantee, GaussianDP):
        return _laplace_gaussian(guarantee, moves)
    assert isinstance(guarantee, ZeroConcentratedDP)
    return _laplace_concentrated(guarantee, moves)


def gaussian_scale(guarantee: Guarantee, sensitivity: Sensitivity) -> float:
    """The smallest standard deviation σ of Gaussian noise that meets ``guarantee``.

    With the ℓ₂ sensitivity Δ: Δ/μ under `GaussianDP`, Δ/√(2ρ) under `ZeroConcentratedDP`, and the analytic
    calibration (balle2018, Theorem 8) under `ApproxDP`, each to the last bit; never under `PureDP`.

    Examples
    --------
    >>> gaussian_scale(ZeroConcentratedDP(0.5), Sensitivity(l2=1.0))
    1.0
    >>> round(gaussian_scale(ApproxDP(1.0, 1e-5), Sensitivity(l2=1.0)), 6)
    3.730632
    """
    if isinstance(guarantee, PureDP) or (isinstance(guarantee, ApproxDP) and guarantee.delta == 0):
        raise NoConversion(
            "Gaussian noise never meets a PureDP guarantee: its privacy loss is unbounded. "
            "Ask for ApproxDP with δ > 0, or use Laplace noise."
        )
    _spends(guarantee)
    bound = Fraction(sensitivity.require_l2())
    if isinstance(guarantee, GaussianDP):
        mu = decimal(guarantee.mu)
        return _least(lambda s: bound <= mu * Fraction(s), _quotient(bound, mu), guarantee)
    if isinstance(guarantee, ZeroConcentratedDP):
        rho = decimal(guarantee.rho)
        guess = float(bound) / math.sqrt(2 * guarantee.rho)
        return _least(lambda s: bound**2 <= 2 * rho * Fraction(s) ** 2, guess, guarantee)
    assert isinstance(guarantee, ApproxDP)
    return _gaussian_approximate(guarantee, bound)


def _moves(sensitivity: Sensitivity) -> Moves:
    requirements.instance("sensitivity", sensitivity, Sensitivity, "Sensitivity(l1=1.0)")
    if sensitivity.moves is not None:
        return tuple(Fraction(move) for move in sensitivity.moves)
    return (Fraction(sensitivity.require_l1()),)


def _spends(guarantee: Guarantee) -> None:
    requirements.instance("guarantee", guarantee, Guarantee, "a guarantee such as PureDP(1.0)")
    if not any(guarantee.parameters().values()):
        raise InvalidParameter(
            "guarantee",
            guarantee,
            "allows no information at all, so no finite noise meets it",
            "Raise it above 0.",
        )


def _least(holds: Callable[[float], bool], guess: float, guarantee: Guarantee) -> float:
    try:
        return least(holds, guess)
    except ArithmeticError:
        raise InvalidParameter(
            "guarantee", guarantee, "needs a noise scale beyond the largest float", "Raise it."
        ) from None


def _quotient(bound: Fraction, parameter: Fraction) -> float:
    return float(min(bound / parameter, Fraction(sys.float_info.max)))


def _working_bits(delta: float) -> int:
    """Enough bits to tell numbers of the size of δ apart after cancellation against 1."""
    return PRECISION + max(0, -math.frexp(delta)[1])


def _laplace_approximate(guarantee: ApproxDP, moves: Moves) -> float:
    epsilon, total = decimal(guarantee.epsilon), sum(moves, Fraction(0))
    with precisely(_working_bits(guarantee.delta)):
        delta = ball(decimal(guarantee.delta))
        reach = ball(epsilon) - 2 * (1 - delta).log()
        guess = float(ball(total) / reach)
        if len(moves) == 1:
            return _least(lambda b: bool(ball(total) <= reach * ball(b)), guess, guarantee)

        def holds(scale: float) -> bool:
            return bool(LaplaceCurve(_shifts(moves, scale)).delta(epsilon) <= delta)

        return _least(holds, guess, guarantee)


def _laplace_concentrated(guarantee: ZeroConcentratedDP, moves: Moves) -> float:
    with precisely():
        rho = ball(decimal(guarantee.rho))
        # t + e^{−t} − 1 lies between t²/2 − t³/6 and min(t²/2, t): either inverse starts the search.
        guess = float(sum(moves, Fraction(0))) / max(math.sqrt(2 * guarantee.rho / len(moves)), guarantee.rho)
        return _least(lambda b: bool(laplace_rho(_shifts(moves, b)) <= rho), guess, guarantee)


def _laplace_gaussian(guarantee: GaussianDP, moves: Moves) -> float:
    total = sum(moves, Fraction(0))
    with precisely():
        mu = ball(decimal(guarantee.mu))
        if len(moves) == 1:
            reach = -2 * (2 * normal_cdf(-mu / 2)).log()
            return _least(lambda b: bool(ball(total) <= reach * ball(b)), float(ball(total) / reach), guarantee)
        guess = _touching_scale(mu, moves)
    # Ask the profile itself, so that what the mechanism reports later never exceeds what was asked for.
    return first_certified(guess, lambda b: LaplaceProfile(_shifts(moves, b)).gaussian().within(guarantee))


def _touching_scale(mu: arb, moves: Moves) -> float:
    """The smallest scale whose curve stays below the Gaussian one, numerically (lee2022 (17))."""
    from scipy.optimize import brentq

    largest = float(sum(moves, Fraction(0)) / Fraction(float(-2 * (2 * normal_cdf(-mu / 2)).log())))

    def scale_at(epsilon: float) -> float:
        exact = Fraction(epsilon)
        target = gaussian_delta(mu, exact)

        def excess(log_scale: float) -> float:
            return float(LaplaceCurve(_shifts(moves, math.exp(log_scale))).delta(exact) / target - 1)

        return math.exp(brentq(excess, math.log(largest) - 12, math.log(largest) + 1e-3, xtol=1e-15, rtol=1e-15))

    # Every ε gives a lower bound on the scale; the touching point lies below the total at the first of them.
    return supremum(scale_at, 0.0, float(sum(moves, Fraction(0))) / scale_at(0.0))


def _shifts(moves: Moves, scale: float) -> Moves:
    exact = Fraction(scale)
    return tuple(move / exact for move in moves)


def _gaussian_approximate(guarantee: ApproxDP, bound: Fraction) -> float:
    epsilon = decimal(guarantee.epsilon)
    with precisely(_working_bits(guarantee.delta)):
        delta = ball(decimal(guarantee.delta))
        guess = float(bound) / gaussian_parameter(guarantee.epsilon, guarantee.delta)
        return _least(lambda s: bool(gaussian_delta(ball(bound / Fraction(s)), epsilon) <= delta), guess, guarantee)
