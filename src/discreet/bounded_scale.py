"""Bounded scale: the smallest scale at which Laplace noise conditioned on a domain meets a guarantee.

`bounded_laplace_scales` solves whole arrays in floats, with an error bound that makes each result safe.
`bounded_laplace_scale` solves one problem in ball arithmetic, to the last bit for PureDP. Formulas and proofs:
``docs/proofs/bounded_laplace.md``.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from discreet.bounded_concentration import concentration_bound, largest_divergence
from discreet.bounded_curve import (
    BoundedCurve,
    divergence,
    divergence_bound,
    largest_loss,
    total_variation,
    worst_position,
)
from discreet.envelope import dominates, first_certified
from discreet.errors import InvalidParameter
from discreet.guarantees import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.rounding import ball, decimal, least, precisely

__all__ = ["bounded_laplace_scale", "bounded_laplace_scales", "published_scale"]

Array = NDArray[np.float64]

_MARGIN = 2.0**-45
"""Relative slack of the vectorised results: covers all rounding in `largest_loss` and in Δ, u − l and ε themselves."""
_NEWTON_STEPS = 60
_SECANT_STEPS = 60


def _rise(x: Array) -> Array:
    return -np.expm1(-x)


def _quotient(x: Array) -> Array:
    """x / (eˣ − 1), which is 1 at 0 and vanishes far out."""
    capped = np.minimum(x, 700.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(capped == 0, 1.0, capped / np.expm1(capped))


def _pure_shift(epsilon: Array, excess: Array) -> Array:
    """The shift t = Δ/b whose largest loss is ε, where the rest of the domain is ``excess`` times the shift.

    The loss is concave in t with slope 2 − Δ/(u−l) at 0, so Newton's method started below the solution climbs to it.
    """
    with np.errstate(invalid="ignore"):
        steepest = np.where(np.isinf(excess), 2.0, 1 + excess / (1 + excess))
    shift = np.maximum(epsilon / steepest, epsilon - math.log(2))
    for _ in range(_NEWTON_STEPS):
        rest = np.where(excess == 0, 0.0, shift * excess)
        gain = _rise(shift) * _rise(rest) / _rise(shift + rest)
        missing = epsilon - shift - np.log1p(gain)
        curvature = _quotient(shift) + _quotient(rest) - _quotient(shift + rest)
        step = missing / (1 + gain / (1 + gain) * curvature / shift)
        shift = shift + step
        if np.all(np.abs(step) <= 2.0**-52 * shift):
            break
    return np.asarray(shift)


def bounded_laplace_scales(
    epsilon: ArrayLike, delta: ArrayLike, sensitivity: ArrayLike, lower: ArrayLike, upper: ArrayLike
) -> Array:
    """Smallest scales of bounded Laplace noise for arrays of (ε, δ), Δ and domains, which broadcast.

    Parameters
    ----------
    epsilon, delta
        The guarantee; δ = 0 is ε-DP. Not both may be 0.
    sensitivity
        Largest change Δ of the statistic.
    lower, upper
        Ends of the domain; either may be infinite.

    Returns
    -------
    numpy.ndarray
        Scales that provably meet the guarantee; within 1e-13 of the smallest where δ = 0 and about 1e-8 elsewhere.

    Examples
    --------
    >>> bounded_laplace_scales([0.5, 1.0], 0.0, 0.1, 0.0, 1.0).round(6)
    array([0.352787, 0.161156])
    >>> float(bounded_laplace_scales(1.0, 0.01, 0.1, 0.0, 1.0).round(6))
    0.135497
    """
    eps, dlt, change, rest = _problem(epsilon, delta, sensitivity, lower, upper)
    if np.any(dlt > 0):
        return _approximate_scales(eps, dlt, change, rest)
    return _pure_scales(eps, change, rest)


def _problem(
    epsilon: ArrayLike, delta: ArrayLike, sensitivity: ArrayLike, lower: ArrayLike, upper: ArrayLike
) -> tuple[Array, Array, Array, Array]:
    """Checked, broadcast arrays: ε, δ, the change, and what the domain is longer than it."""
    eps, dlt, change, low, high = np.broadcast_arrays(
        *(np.asarray(values, dtype=float) for values in (epsilon, delta, sensitivity, lower, upper))
    )
    rules = (
        ("epsilon", epsilon, np.isfinite(eps) & (eps >= 0), "must be finite and at least 0 everywhere"),
        ("delta", delta, (dlt >= 0) & (dlt < 1), "must lie in [0, 1) everywhere"),
        ("epsilon", epsilon, (eps > 0) | (dlt > 0), "must be positive where delta is 0"),
        ("sensitivity", sensitivity, np.isfinite(change) & (change > 0), "must be finite and positive everywhere"),
        ("lower", lower, (low < high) & np.isfinite(np.where(np.isinf(low), high, low)), "must be below upper"),
    )
    for name, value, holds, rule in rules:
        if not np.all(holds):
            raise InvalidParameter(name, value, rule, "Check the array's entries.")
    width = high - low
    change = np.minimum(change, width)
    return eps, dlt, change, np.maximum(width - change, 0.0)


def _pure_scales(epsilon: Array, change: Array, rest: Array) -> Array:
    with np.errstate(over="ignore"):
        scale = change / _pure_shift(epsilon * (1 - _MARGIN), rest / change)
        for _ in range(8):
            short = largest_loss(change / scale, rest / scale) > epsilon * (1 - _MARGIN / 2)
            if not np.any(short):
                break
            scale = np.where(short, scale * (1 + _MARGIN), scale)
    return np.asarray(scale)


def _approximate_scales(epsilon: Array, delta: Array, change: Array, rest: Array) -> Array:
    """Bracketed false position on the shift; then the scale is raised until the certified bound is below δ."""
    target = np.where(delta > 0, delta, 0.5)
    low = _pure_shift(epsilon + target, rest / change)  # (ε + δ)-DP implies (ε, δ)-DP
    high = epsilon - 2 * np.log1p(-np.sqrt(target))  # there the pair at the end alone has δ(ε) ≥ δ
    shift = _touching_shift(epsilon, target, low, np.maximum(high, low), rest / change)
    scale = change / shift
    fallback = _pure_scales(np.where(epsilon > 0, epsilon, 1.0), change, rest)
    fallback = np.where(epsilon > 0, fallback, change / target)
    wanted = target * (1 - _MARGIN)
    for growth in 2.0 ** np.arange(-36.0, -1.0, 3.0):
        short = divergence_bound(epsilon, change / scale, rest / scale) > wanted
        if not np.any(short):
            break
        scale = np.where(short, scale * (1 + growth), scale)
    scale = np.where(divergence_bound(epsilon, change / scale, rest / scale) > wanted, fallback, scale)
    return np.asarray(np.where(delta > 0, np.minimum(scale, fallback), fallback))


def _touching_shift(epsilon: Array, delta: Array, low: Array, high: Array, excess: Array) -> Array:
    """The shift at which the largest δ(ε; t) is δ, by false position on its square root (Illinois)."""
    goal = np.sqrt(delta)

    def gap(shift: Array) -> Array:
        rest = np.where(excess == 0, 0.0, shift * excess)
        position = worst_position(epsilon, shift, rest)
        with np.errstate(all="ignore"):
            return np.sqrt(divergence(epsilon, position, shift, rest)) - goal

    below, above = gap(low), gap(high)
    for _ in range(_SECANT_STEPS):
        with np.errstate(all="ignore"):
            middle = (low * above - high * below) / (above - below)
        middle = np.where((middle > low) & (middle < high), middle, (low + high) / 2)
        here = gap(middle)
        left = here < 0
        below, above = np.where(left, here, below / 2), np.where(left, above / 2, here)
        low, high = np.where(left, middle, low), np.where(left, high, middle)
        if np.all((high - low <= 2.0**-44 * high) | (np.abs(here) <= 2.0**-46 * goal)):
            return np.asarray(middle)
    return np.asarray(middle)


def bounded_laplace_scale(guarantee: Guarantee, change: Fraction, width: Fraction | None) -> float:
    """The smallest scale of bounded Laplace noise that meets ``guarantee``, certified in ball arithmetic.

    Parameters
    ----------
    guarantee
        PureDP: the smallest float that will do. ApproxDP and GaussianDP: within about 1e-10 of the smallest scale.
        ZeroConcentratedDP: within 0.5 % of it.
    change
        Largest change Δ of the statistic.
    width
        Length of the domain; None for a half-line.

    Examples
    --------
    >>> round(bounded_laplace_scale(PureDP(1.0), Fraction(1, 10), Fraction(1)), 12)
    0.161156010442
    """
    if not any(guarantee.parameters().values()):
        raise InvalidParameter(
            "guarantee", guarantee, "allows no information at all, so no finite noise meets it", "Raise it above 0."
        )
    limit = change if width is None else min(change, width)
    if isinstance(guarantee, PureDP) or (isinstance(guarantee, ApproxDP) and guarantee.delta == 0):
        epsilon = decimal(guarantee.epsilon)
        if limit == width:  # one pair only: the loss is Δ/b
            return least(lambda b: limit <= epsilon * Fraction(b), float(limit / epsilon))
        with precisely():
            return _scale_for_loss(ball(epsilon), limit, width)
    if isinstance(guarantee, ApproxDP):
        return _approximate_scale(guarantee, limit, width)
    if isinstance(guarantee, GaussianDP):
        return _gaussian_scale(guarantee, limit, width)
    assert isinstance(guarantee, ZeroConcentratedDP)
    return _concentrated_scale(guarantee, limit, width)


def published_scale(guarantee: Guarantee, change: Fraction, width: Fraction | None) -> float:
    """holohan2018 (3.1): the loss may reach ε − log(1 − δ); valid, but for δ > 0 larger than it need be."""
    if not isinstance(guarantee, ApproxDP | PureDP):
        raise InvalidParameter("guarantee", guarantee, "holohan2018 knows ε and δ only", "Pass ApproxDP or PureDP.")
    delta = guarantee.delta if isinstance(guarantee, ApproxDP) else 0.0
    with precisely():
        reach = ball(decimal(guarantee.epsilon)) - (1 - ball(decimal(delta))).log()
        return _scale_for_loss(reach, change if width is None else min(change, width), width)


def _rest(change: Fraction, width: Fraction | None) -> float:
    return math.inf if width is None else float(width - change)


def _curve(scale: float, change: Fraction, width: Fraction | None) -> BoundedCurve:
    exact = Fraction(scale)
    return BoundedCurve(change / exact, None if width is None else width / exact)


def _scale_for_loss(reach: arb, change: Fraction, width: Fraction | None) -> float:
    excess = np.asarray(_rest(change, width) / float(change))
    guess = float(change) / float(_pure_shift(np.asarray(float(reach)), excess))
    return least(lambda scale: bool(_curve(scale, change, width).loss() <= reach), guess)


def _approximate_scale(guarantee: ApproxDP, change: Fraction, width: Fraction | None) -> float:
    epsilon, delta = decimal(guarantee.epsilon), np.asarray(guarantee.delta)
    excess = np.asarray(_rest(change, width) / float(change))
    eps = np.asarray(guarantee.epsilon)
    low = _pure_shift(eps + delta, excess)
    high = np.maximum(eps - 2 * np.log1p(-np.sqrt(delta)), low)
    guess = float(change) / float(_touching_shift(eps, delta, low, high, excess))
    with precisely():
        bound = ball(decimal(guarantee.delta))
        return first_certified(guess, lambda b: bool(_curve(b, change, width).delta(epsilon) <= bound))


def _gaussian_scale(guarantee: GaussianDP, change: Fraction, width: Fraction | None) -> float:
    from scipy.optimize import brentq

    excess = _rest(change, width) / float(change)
    goal = math.erf(guarantee.mu / math.sqrt(8))
    if goal == 1.0:
        raise InvalidParameter("guarantee", guarantee, "is too weak to calibrate noise to", "Pass a smaller μ.")

    def gap(log_shift: float) -> float:
        shift = np.asarray(math.exp(log_shift))
        rest = shift * excess if excess else np.asarray(0.0)
        return math.log(float(total_variation(shift, rest)) / goal)

    guess = float(change) / math.exp(brentq(gap, math.log(goal) - 1, math.log(goal) + 10, xtol=1e-15, rtol=1e-15))
    with precisely():
        mu = ball(decimal(guarantee.mu))
        # A margin of 2⁻³⁶ lets the certificate settle with few cells; without one the two curves touch at ε = 0.
        return first_certified(guess * (1 + 2.0**-36), lambda b: dominates(mu, _curve(b, change, width)))


def _concentrated_scale(guarantee: ZeroConcentratedDP, change: Fraction, width: Fraction | None) -> float:
    """The search runs on the divergence of order 1, which is the largest in practice; the bound then covers all."""
    from scipy.optimize import brentq

    excess = _rest(change, width) / float(change)

    def gap(log_shift: float) -> float:
        shift = math.exp(log_shift)
        return math.log(largest_divergence(shift, shift * excess if excess else 0.0) / guarantee.rho)

    # ρ lies between (t + e⁻ᵗ − 1)/3 and 2·min(t², t): bracket with room to spare.
    start = math.log(max(math.sqrt(guarantee.rho), guarantee.rho))
    guess = float(change) / math.exp(brentq(gap, start - 2, start + 3, xtol=1e-12, rtol=1e-12))
    limit = guarantee.rho * (1 - 2.0**-40)  # covers the rounding of the two quotients
    for margin in (0.0015, 0.002, 0.0025, 0.003, 0.004, 0.006, 0.01, 0.03, 0.1, 1.0):
        scale = guess * (1 + margin)
        if concentration_bound(float(change) / scale, _rest(change, width) / scale) <= limit:
            return scale
    raise ArithmeticError("no certificate was found near the numerical solution")
