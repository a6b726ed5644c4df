"""Bounded scale: the smallest scale at which Laplace noise conditioned on a domain meets a guarantee.

`bounded_laplace_scales` solves whole arrays in floats, with an error bound that makes each result safe.
`bounded_laplace_scale` solves one problem in ball arithmetic, to the last bit for PureDP. Formulas and proofs:
``docs/proofs/bounded_laplace.md``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP, is_pure
from discreet.core.numbers import ball, decimal, least, normal_cdf, precisely, up
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms import loss_distribution
from discreet.mechanisms.bounded.curve import (
    FLAT,
    BoundedCurve,
    concentration_bound,
    divergence,
    divergence_bound,
    half_line_bound,
    largest_divergence,
    largest_loss,
    overlap,
    rise,
    total_variation,
    worst_position,
)

# ---- Touching shift: how far the truth may move, in scales, until the worst pair's δ(ε) is the δ allowed
#
# Floats only, for whole arrays: a starting point for certificates, which do not depend on it. Notation and formulas:
# ``docs/proofs/bounded_laplace.md``, sections 3 and 5.


Array = NDArray[np.float64]

_PURE_STEPS = 60
_HALF_LINE_STEPS = 4
_TOUCHING_STEPS = 12
_SECANT_STEPS = 60
_CLOSE = 2.0**-24
"""Relative step after which Newton's method needs no further one: it squares the error."""
_SHORT, _LONG = 2.0**-60, 2.0**100
"""The rest of the domain in shifts: below the first there is none, and from the second on it is a half-line."""


def pure_shift(epsilon: Array, excess: Array, start: Array | None = None, steps: int = _PURE_STEPS) -> Array:
    """The shift t = Δ/b whose largest loss is ε, where the rest of the domain is ``excess`` times the shift.

    The loss has slope 2 − Δ/(u−l) at 0 and bends down, so Newton's method started below the solution climbs to it.
    """
    excess = np.clip(excess, _SHORT, _LONG)
    shift = np.maximum(epsilon / (2 - 1 / (1 + excess)), epsilon - math.log(2)) if start is None else start
    for _ in range(steps):
        rest = shift * excess
        whole = shift + rest
        up = rise(shift)
        across = rise(rest)
        along = rise(whole)
        gain = up * across / along
        bend = shift * (1 - up) / up + rest * (1 - across) / across - whole * (1 - along) / along
        step = (epsilon - shift - np.log1p(gain)) / (1 + gain / (1 + gain) * bend / shift)
        shift = shift + step
        if np.all(np.abs(step) <= 2.0**-30 * shift):  # the next step would be below 2⁻⁶⁰
            break
    return shift


def touching_shift(epsilon: Array, delta: Array, excess: Array) -> tuple[Array, Array, Array]:
    """The shift whose largest δ(ε; t) is δ, that t, and its derivative in the shift: Newton's method.

    Both equations are solved at once, from the half-line's closed form. A problem that does not settle, because its
    curve is nearly flat, is left at the last step.
    """
    excess = np.clip(excess, _SHORT, _LONG)
    with np.errstate(all="ignore"):
        shift, near = _first_guess(epsilon, delta, excess)
        drift = np.zeros_like(shift)
        active, parts = np.arange(shift.size), [epsilon, delta, excess, shift, near]
        shift, near = shift.copy(), near.copy()
        for _ in range(_TOUCHING_STEPS):
            move, at = parts[3:]
            step, slope, stride = _newton_step(*parts)
            moved = np.maximum(move + step, move / 2)
            place = np.maximum(at + stride + slope * (moved - move), at / 4)
            place = np.minimum(np.minimum(place, 4 * at), np.minimum(parts[2] * moved / 2, FLAT))
            shift[active], near[active], drift[active] = moved, place, slope
            settled = (np.abs(moved - move) <= _CLOSE * move) & (np.abs(place - at) <= 4 * _CLOSE * at)
            going = np.flatnonzero(~settled)
            if going.size == 0:
                break
            active = active[going]
            parts = [values[going] for values in (*parts[:3], moved, place)]
    return shift, near, drift


def half_line(epsilon: Array, delta: Array) -> tuple[Array, Array, Array]:
    """The touching shift on a half-line, with 1 − w and t there; t is infinite where no end matters to the worst pair.

    δ(X + w² − 2w³) = (1 − w)²(w² + X(1 + 2w)), with X = e^ε, is a polynomial in 1 − w, here divided by X.
    """
    fade, spare = np.exp(-epsilon), rise(epsilon)
    faded = delta * fade
    last, first, second, third = delta * spare, 4 * faded, 3 + fade + 5 * faded, 2 * (1 + fade + faded)
    gap = (faded + np.sqrt(faded * faded + last * second / 4)) * 2 / second
    for _ in range(_HALF_LINE_STEPS):
        value = (((fade * gap - third) * gap + second) * gap - first) * gap - last
        gap = gap - value / (((4 * fade * gap - 3 * third) * gap + 2 * second) * gap - first)
    w = 1 - gap
    square = w * w
    shift = epsilon + np.log1p((gap * (1 + w + 2 * square) - square * spare) / (2 * w * square))
    near = -np.log1p(-gap * (1 + square * fade) / (w * (spare + fade * gap * (1 + w))))
    return shift, gap, np.where(np.isnan(near), np.inf, near)


def _first_guess(epsilon: Array, delta: Array, excess: Array) -> tuple[Array, Array]:
    """The half-line's solution, moved to the shift that has its largest loss in the domain at hand."""
    shift, _, near = half_line(epsilon, delta)
    up = rise(shift)
    moved = pure_shift(shift + np.log1p(up), excess, shift, 2)
    # Near the end δ is a parabola in t; its top moves as the rate does at which s falls there.
    near = near * _parabola_top(rise(moved) / rise(excess * moved)) / _parabola_top(up)
    return moved, np.minimum(np.minimum(near, 20.0), 0.45 * excess * moved)


def _parabola_top(ratio: Array) -> Array:
    """The top of (S − κt)·(t + (S − κt)/4) over S, with κ = 2·ratio/(1 + ratio)."""
    rate = 2 * ratio / (1 + ratio)
    return np.asarray((2 - rate) / (rate * (4 - rate)))


def _newton_step(epsilon: Array, delta: Array, excess: Array, shift: Array, t: Array) -> tuple[Array, Array, Array]:
    """The step of the shift, the slope of the worst t in the shift, and the step of t at the shift as it is.

    ``left`` is E(t), ``right`` E(L − t), ``a`` e⁻ᵗ, ``q`` e^{t−R}, ``c`` e⁻ᴰ, θ = s/2, ``w`` e^{−θ} and ``m`` Z·∂δ/∂t.
    Suffixes t and d are derivatives, d along the ray R = excess·D; those of z and zz are divided by z and zz.
    """
    rest = excess * shift
    left = rise(t)
    right = rise(rest + shift - t)
    up = rise(shift)
    a = np.exp(-t)
    c = 1 - up
    q = np.exp(np.maximum(t - rest, -700.0))
    ac, qc, lq = a * c, q * c, excess * q
    z = left + right
    gain = up * a * rise(rest - 2 * t) / z
    zz = z * (1 + gain)  # Z(t + D)
    half = rise((shift + np.log1p(gain) - epsilon) / 2)
    w = 1 - half
    value = half * (2 * left + a * half) / z
    drop, gone = a - qc, qc + lq * c  # of Z, in t and d
    z_t, zz_t, z_d, zz_d = drop / z, (ac - q) / zz, gone / z, (ac + lq) / zz
    theta_t = -up * (a * right + q * left) / (z * zz)
    theta_d = (1 + zz_d - z_d) / 2
    theta_tt = ((a + qc) / z + z_t * z_t - (ac + q) / zz - zz_t * zz_t) / 2
    theta_td = ((lq - ac) / zz - zz_t * zz_d - z_d + z_t * z_d) / 2
    r, aww, lean = 2 * w * (left + a * half), 2 * a * w * w, half * (1 + w) * a
    turn = aww - 2 * w * theta_t * (1 - 2 * a * w)
    value_d = r * theta_d / z - value * z_d
    m = r * theta_t + lean - value * drop
    m_t = theta_t * (turn + aww) + r * theta_tt - lean + value * (a + qc)
    m_d = theta_d * turn + r * theta_td - value_d * drop - value * gone
    bend = np.minimum(m_t + m, -0.1 * np.abs(m))
    stride = -m / bend
    top = value + m * stride / (2 * z)  # the maximum over t, to second order
    step = 2 * (np.sqrt(delta * top) - top) / value_d
    return step, -m_d / bend, stride


def bracketed_shift(epsilon: Array, delta: Array, excess: Array) -> tuple[Array, Array, Array]:
    """The same as `touching_shift`, more slowly and always: false position on √δ (the Illinois method)."""
    low = pure_shift(epsilon + delta, excess)  # (ε + δ)-DP implies (ε, δ)-DP
    high = np.maximum(epsilon - 2 * np.log1p(-np.sqrt(delta)), low)  # the pair at the end alone has δ(ε) ≥ δ
    near = np.full_like(low, np.nan)

    def gap(which: NDArray[np.intp], shift: Array) -> Array:
        rest = np.where(excess[which] == 0, 0.0, shift * excess[which])
        known = near[which]
        start = None if np.isnan(known).any() else known
        # δ is flat around the worst t, so half the digits of t will do.
        near[which] = worst_position(epsilon[which], shift, rest, start, settled=_CLOSE)
        with np.errstate(all="ignore"):
            found = divergence(epsilon[which], near[which], shift, rest)
        return np.asarray(np.sqrt(found) - np.sqrt(delta[which]))

    every = np.arange(low.size)
    below, above = gap(every, low), gap(every, high)
    shift = high.copy()
    active = every
    side = np.zeros_like(every)
    for _ in range(_SECANT_STEPS):
        with np.errstate(all="ignore"):
            middle = (low * above - high * below) / (above - below)
        middle = np.where((middle > low) & (middle < high), middle, (low + high) / 2)
        here = gap(active, middle)
        shift[active] = middle
        left = here < 0
        # An end that stays for the second time counts half, or it would stay for good.
        below = np.where(left, here, np.where(side == -1, below / 2, below))
        above = np.where(left, np.where(side == 1, above / 2, above), here)
        side = np.where(left, 1, -1)
        low, high = np.where(left, middle, low), np.where(left, high, middle)
        keep = (high - low > _CLOSE**2 * high) & (np.abs(here) > _CLOSE**2 * np.sqrt(delta[active]))
        active, low, high, below, above, side = (values[keep] for values in (active, low, high, below, above, side))
        if active.size == 0:
            break
    with np.errstate(all="ignore"):
        near = worst_position(epsilon, shift, np.where(excess == 0, 0.0, shift * excess), near)
        drift = _newton_step(epsilon, delta, np.clip(excess, _SHORT, _LONG), shift, near)[1]
    return shift, near, np.where(np.isfinite(drift), drift, 0.0)


Solver = Callable[[Array, Array, Array], tuple[Array, Array, Array]]

_MARGIN = 2.0**-45
"""Relative slack of the vectorised results: covers all rounding in `largest_loss` and in Δ, u − l and ε themselves."""
_ULPS = 2.0**-51
"""Relative error of a few operations on floats."""
_FINE = 2.0**-42 * np.array([3.0, 4.0])
_COARSE = 2.0 ** np.arange(-40.0, -1.0, 2.0)
"""By how much a scale is raised above the numerical solution, relatively, until it is certified."""
_SCALE_LONG = 32.0
"""A domain that reaches so many scales beyond the worst pair is as good as a half-line."""
WEAK_MU = 8.0
"""Beyond this a μ-GDP guarantee hides next to nothing, and is met through the ε-DP that implies it."""
_CHUNK = 6144
"""Problems solved at a time: their arrays stay in cache."""


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
        Scales that provably meet the guarantee; within 1e-13 of the smallest where δ = 0 and about 1e-12 elsewhere.

    Examples
    --------
    >>> bounded_laplace_scales([0.5, 1.0], 0.0, 0.1, 0.0, 1.0).round(6)
    array([0.352787, 0.161156])
    >>> float(bounded_laplace_scales(1.0, 0.01, 0.1, 0.0, 1.0).round(6))
    0.135497
    """
    eps, dlt, change, rest = _problem(epsilon, delta, sensitivity, lower, upper)
    scales = np.empty(eps.shape)
    flat = [values.ravel() for values in (eps, dlt, change, rest)]
    out = scales.reshape(-1)
    solve = _approximate_scales if np.any(dlt > 0) else _pure_scales
    for start in range(0, out.size, _CHUNK):
        out[start : start + _CHUNK] = solve(*(values[start : start + _CHUNK] for values in flat))
    return scales


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
    change = np.minimum(change, width)  # a truth is clamped, so no pair lies further apart than the ends
    return eps, dlt, change, np.maximum(width - change, 0.0)


def _pure_scales(epsilon: Array, _: Array, change: Array, rest: Array) -> Array:
    with np.errstate(over="ignore"):
        # Solve for slightly less than ε, then check in floats against half of that margin: the other half covers
        # every rounding error of the check (docs/proofs/bounded_laplace.md, "Scales").
        scale = change / pure_shift(epsilon * (1 - _MARGIN), rest / change)
        short = np.flatnonzero(largest_loss(change / scale, rest / scale) > epsilon * (1 - _MARGIN / 2))
        while short.size:
            scale[short] *= 1 + _MARGIN
            moved, room = change[short] / scale[short], rest[short] / scale[short]
            short = short[largest_loss(moved, room) > epsilon[short] * (1 - _MARGIN / 2)]
    return scale


def _approximate_scales(epsilon: Array, delta: Array, change: Array, rest: Array) -> Array:
    """The touching scale, raised until its certificate holds: by little, and by more from a slower, surer solution."""
    scale, short = _long_domain_scales(epsilon, delta, change, rest)
    for solve, growths in ((touching_shift, _FINE), (bracketed_shift, _COARSE)):
        short = _raised(solve, growths, (epsilon, delta, change, rest), scale, short)
    pure = np.union1d(np.flatnonzero(delta == 0), short)
    if pure.size:
        loss = np.where(epsilon > 0, epsilon, delta)  # δ-DP implies (0, δ)-DP
        scale[pure] = _pure_scales(*(values[pure] for values in (loss, delta, change, rest)))
    return scale


def _long_domain_scales(epsilon: Array, delta: Array, change: Array, rest: Array) -> tuple[Array, NDArray[np.intp]]:
    """Scales of the half-line, and where δ > 0 but the domain is too short for them, or there is no certificate."""
    with np.errstate(all="ignore"):
        shift, gap, near = half_line(epsilon, delta)
        scale = change / shift * (1 + _FINE[0])
        bound = half_line_bound(epsilon, change / scale * (1 + _ULPS), gap)
        settled = (bound <= delta * (1 - _ULPS)) & (rest > (2 * near + _SCALE_LONG) * scale)
    return scale, np.flatnonzero((delta > 0) & ~settled)


def _raised(
    solve: Solver, growths: Array, problem: tuple[Array, ...], scale: Array, short: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Set the ``short`` scales to the first that is certified; returns those for which none was."""
    if short.size == 0:
        return short
    shift, near, drift = solve(*(values[short] for values in (*problem[:2], problem[3] / problem[2])))
    for growth in growths:
        epsilon, delta, change, rest = (values[short] for values in problem)
        trial = change / shift * (1 + growth)
        # Both lengths rounded up: δ grows in each of them.
        moved, room = change / trial * (1 + _ULPS), (rest + _ULPS * (change + rest)) / trial * (1 + _ULPS)
        bound = divergence_bound(epsilon, moved, room, near - drift * growth * shift)
        scale[short] = trial
        left = ~(bound <= delta * (1 - _ULPS))
        short = short[left]
        shift, near, drift = shift[left], near[left], drift[left]
        if short.size == 0:
            break
    return short


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
        fix = "Raise it above 0."
        raise InvalidParameter("guarantee", guarantee, "allows no information at all, so no finite noise meets it", fix)
    limit = change if width is None else min(change, width)
    if is_pure(guarantee):
        epsilon = decimal(guarantee.epsilon)
        if limit == width:  # one pair only: the loss is Δ/b
            return least(lambda b: limit <= epsilon * Fraction(b), float(limit / epsilon))
        with precisely():
            return _scale_for_loss(ball(epsilon), limit, width)
    try:
        return _certified_scale(guarantee, limit, width)
    except ArithmeticError:
        raise InvalidParameter(
            "guarantee", guarantee, "is too extreme for a certified scale", "Pass a value nearer to 1."
        ) from None


def _certified_scale(guarantee: Guarantee, limit: Fraction, width: Fraction | None) -> float:
    if isinstance(guarantee, ApproxDP):
        return _approximate_scale(guarantee, limit, width)
    if isinstance(guarantee, GaussianDP):
        return _gaussian_scale(guarantee, limit, width)
    return _concentrated_scale(guarantee.to(ZeroConcentratedDP), limit, width)


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
    guess = float(change) / float(pure_shift(np.asarray(float(reach)), excess))
    return least(lambda scale: bool(_curve(scale, change, width).loss() <= reach), guess)


def _approximate_scale(guarantee: ApproxDP, change: Fraction, width: Fraction | None) -> float:
    epsilon = decimal(guarantee.epsilon)
    excess = np.array([_rest(change, width) / float(change)])
    shift, _, _ = bracketed_shift(np.array([guarantee.epsilon]), np.array([guarantee.delta]), excess)
    guess = float(change) / float(shift[0])
    with precisely():
        bound = ball(decimal(guarantee.delta))
        return loss_distribution.first_certified(
            guess, lambda b: bool(_curve(b, change, width).delta(epsilon) <= bound)
        )


def _gaussian_scale(guarantee: GaussianDP, change: Fraction, width: Fraction | None) -> float:
    from scipy.optimize import brentq

    excess = _rest(change, width) / float(change)
    if guarantee.mu > WEAK_MU:  # the ε-DP that implies it: Φ(−μ/2) = 1/(1 + e^ε)
        with precisely():
            missed = normal_cdf(-ball(decimal(guarantee.mu)) / 2)
            return _scale_for_loss((1 / missed - 1).log() * (1 - ball(2.0**-40)), change, width)
    # Near 0 the curves meet in δ(0) = erf(μ/√8), far out in 1 − δ(0): whichever of the two is small.
    apart = math.erf(guarantee.mu / math.sqrt(8))
    shared = math.erfc(guarantee.mu / math.sqrt(8))

    def gap(log_shift: float) -> float:
        shift = np.asarray(math.exp(log_shift))
        rest = shift * excess if excess else np.asarray(0.0)
        if apart < shared:
            return math.log(float(total_variation(shift, rest)) / apart)
        return math.log(shared / float(overlap(shift, rest)))

    # t lies between δ(0) and −2·ln(1 − δ(0)) + 2·ln 2.
    low = math.log(apart) - 0.1
    high = math.log(2 * math.log(2 / shared)) + 0.1
    guess = float(change) / math.exp(brentq(gap, low, high, xtol=1e-15, rtol=1e-15))
    with precisely():
        mu = ball(decimal(guarantee.mu))
        # A margin of 2⁻³⁶ lets the certificate settle with few cells; without one the two curves touch at ε = 0.
        return loss_distribution.first_certified(
            guess * (1 + 2.0**-36), lambda b: _dominated(mu, _curve(b, change, width))
        )


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


# ---- Bounded profile: the privacy curve of Laplace noise conditioned on a domain, coordinate by coordinate.


class BoundedLaplaceProfile(loss_distribution.CurveProfile):
    """Bounded Laplace noise; the worst neighbour moves coordinate i by t_i scales in a domain of w_i scales.

    Parameters
    ----------
    moves
        Pairs (t_i, w_i) as fractions; w_i is None for a half-line.
    shares
        Parts of ε, adding up to one, that the coordinates were calibrated to; tried where their δ are added.

    Notes
    -----
    **Guarantee.** For one coordinate the curve is exact: δ(ε) is the maximum over all pairs of neighbours, which for
    0 < ε < the largest loss lies inside the domain; μ is the tightest up to 1e-11 and ρ up to 0.5 %. For several
    coordinates the largest losses, the μ² and the ρ of the coordinates add; the sum of the losses is attained. δ(ε)
    is that of the coordinates' worst curves, convolved. Proofs: ``docs/proofs/bounded_laplace.md``.

    Examples
    --------
    >>> profile = BoundedLaplaceProfile([(Fraction(1), Fraction(10))])
    >>> print(profile.pure(), profile.gaussian())
    ε = 1.48985 μ = 1.02856
    >>> round(profile.delta_at(1.0), 6)
    0.07293
    """

    made_of: ClassVar[tuple[str, ...]] = ("moves",)

    def __init__(
        self, moves: Iterable[tuple[Fraction, Fraction | None]], shares: Sequence[Fraction] | None = None
    ) -> None:
        self.moves = tuple(moves)
        self.shares = None if shares is None else tuple(shares)

    @cached_property
    def _curves(self) -> tuple[BoundedCurve, ...]:
        return tuple(BoundedCurve(*move) for move in self.moves)

    @cached_property
    def _counts(self) -> dict[tuple[Fraction, Fraction | None], int]:
        return Counter(self.moves)

    @cached_property
    def _total(self) -> Fraction:
        return sum((curve.total for curve in self._curves), Fraction(0))

    def _delta(self, epsilon: float) -> float:
        if decimal(epsilon) >= self._total:
            return 0.0
        with precisely():
            if len(self.moves) == 1:
                return min(up(self._curves[0].delta(decimal(epsilon))), 1.0)
            # Every split of ε over the coordinates gives a valid bound, so the least of some of them is one.
            added = min(self._added(decimal(epsilon), shares) for shares in self._splits())
        # The decimal that ε prints as may lie half a unit below its binary value.
        return min(added, self._convolution.upper(math.nextafter(epsilon, 0.0)), self.pure().delta_at(epsilon))

    def losses(self) -> list[tuple[loss_distribution.PrivacyLoss, int]]:
        """The loss of a pair that dominates all pairs of neighbours, for each coordinate."""
        found = []
        for move, count in self._counts.items():
            curve = BoundedCurve(*move)
            ratios, epsilons = loss_distribution.loss_knots(min(float(curve.total), 700.0))
            found.append((loss_distribution.knotted_loss(ratios, curve.bounds(epsilons)), count))
        return found

    @cached_property
    def _convolution(self) -> loss_distribution.Convolution:
        return loss_distribution.Convolution(self.losses())

    def _splits(self) -> list[tuple[Fraction, ...]]:
        """Ways to split ε: evenly, by the coordinates' losses, and as they were calibrated."""
        even = (Fraction(1, len(self.moves)),) * len(self.moves)
        by_loss = tuple(curve.total / self._total for curve in self._curves)
        return [even, by_loss] if self.shares is None else [even, by_loss, self.shares]

    def _added(self, epsilon: Fraction, shares: tuple[Fraction, ...]) -> float:
        """Basic composition: the δ of the coordinates at their shares of ε, added."""
        parts = Counter(zip(self.moves, shares, strict=True))
        total = arb(0)
        for (move, share), count in parts.items():
            total += count * BoundedCurve(*move).delta(epsilon * share)
        return min(up(total), 1.0)

    def _epsilon(self, delta: float) -> float:
        if delta == 0:
            return up(self._total)
        if self._delta(0.0) <= delta:
            return 0.0
        if len(self.moves) > 1:
            return self._bisected(delta, min(self.pure().epsilon_at(delta), float(self._total)))
        return least(lambda epsilon: self._delta(epsilon) <= delta, self._epsilon_guess(delta))

    def _bisected(self, delta: float, high: float) -> float:
        """An ε with δ(ε) ≤ δ, within 2⁻³⁰ of the smallest."""
        low = 0.0
        while high - low > 2.0**-30 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self._delta(middle) <= delta else (middle, high)
        return high

    def _epsilon_guess(self, delta: float) -> float:
        from scipy.optimize import brentq

        curve = self._curves[0]
        shift = np.asarray(float(curve.shift))
        rest = np.asarray(math.inf if curve.rest is None else float(curve.rest))

        def gap(epsilon: float) -> float:
            at = np.asarray(epsilon)
            return math.sqrt(float(divergence(at, worst_position(at, shift, rest), shift, rest))) - math.sqrt(delta)

        top = float(self._total)
        return float(brentq(gap, 0.0, top, xtol=1e-300, rtol=1e-14)) if gap(0.0) > 0 > gap(top) else top

    @cached_property
    def _mu(self) -> float:
        with precisely():
            square = Fraction(0)
            for move, count in self._counts.items():
                square += count * decimal(_tightest_mu(BoundedCurve(*move))) ** 2
            if len(self.moves) == 1:
                return _tightest_mu(self._curves[0])
            return least(lambda mu: decimal(mu) ** 2 >= square, math.sqrt(square))

    def gaussian(self) -> GaussianDP:
        return GaussianDP(self._mu)

    def pure(self) -> PureDP:
        return PureDP(up(self._total))

    @cached_property
    def _rho(self) -> float:
        total = Fraction(0)
        for (shift, width), count in self._counts.items():
            reach = shift if width is None else min(shift, width)
            rest = math.inf if width is None else float(width - reach)
            total += count * Fraction(concentration_bound(float(reach), rest))
        return up(total)

    def concentrated(self) -> ZeroConcentratedDP:
        return ZeroConcentratedDP(self._rho)

    def _reach(self) -> float:
        return min(float(self._total), 700.0)

    def __str__(self) -> str:
        shift, width = self.moves[0]
        domain = "a half-line" if width is None else f"a domain of {float(width):.6g} scales"
        more = f" and {len(self.moves) - 1} more" if len(self.moves) > 1 else ""
        return f"bounded Laplace noise, shifted by {float(shift):.6g} scales in {domain}{more}"


def _dominated(mu: arb, curve: BoundedCurve) -> bool:
    return loss_distribution.dominates(mu, curve.delta, curve.total)


def _tightest_mu(curve: BoundedCurve) -> float:
    """The smallest μ whose Gaussian curve covers this one: the two touch at ε = 0; certified everywhere."""
    guess = 2 * math.sqrt(2) * float(curve.overlap().erfcinv())
    if not guess <= WEAK_MU:
        return PureDP(up(curve.total)).to(GaussianDP).mu
    return loss_distribution.first_certified(guess * (1 + 2.0**-38), lambda mu: _dominated(ball(decimal(mu)), curve))


# ---- Bounded loss: the largest privacy loss of bounded Laplace noise when a change may spread over coordinates
#
# In one coordinate the loss e(z) of a change z is concave in z, so a change of given ℓ₁ size loses most when it is
# spread: unlike for Laplace noise, the ℓ₁ sensitivity alone does not settle the guarantee of a vector.


@dataclass(frozen=True)
class Coordinate:
    """One coordinate: its scale and the length of its domain, None for a half-line."""

    scale: Fraction
    width: Fraction | None

    def move(self, change: Fraction) -> tuple[Fraction, Fraction | None]:
        """A change in units of the scale, with the domain."""
        return change / self.scale, None if self.width is None else self.width / self.scale

    def loss(self, change: Fraction) -> arb:
        """The largest loss of a change; 0 for none."""
        return BoundedCurve(*self.move(change)).loss() if change > 0 else arb(0)

    def slope(self, change: Fraction) -> arb:
        """The derivative of the loss, (1 + Z′/Z)/b with Z the normaliser; 0 beyond the domain."""
        shift, width = self.move(change)
        if width is not None and shift >= width:
            return arb(0)
        away = (-ball(shift)).exp()
        back = arb(0) if width is None else ball(shift - width).exp()
        return (1 + (away - back) / (2 - away - back)) / ball(self.scale)


def spread_loss(coordinates: Sequence[Coordinate], change: Fraction) -> float:
    """An upper bound of Σ e_j(z_j) over all z ≥ 0 with Σ z_j ≤ change; equal to it up to the accuracy of the split.

    For any z the tangents give Σ e_j(y_j) ≤ Σ (e_j(z_j) − e_j′(z_j)·z_j) + change·max e_j′(z_j), as each e_j is
    concave.
    """
    with precisely():
        if len(set(coordinates)) == 1:
            return up(len(coordinates) * coordinates[0].loss(change / len(coordinates)))
        parts = _even_slopes(coordinates, change)
        slopes = [one.slope(part) for one, part in zip(coordinates, parts, strict=True)]
        total = ball(change) * max((slope.upper() for slope in slopes), key=float)
        for one, part, slope in zip(coordinates, parts, slopes, strict=True):
            total += one.loss(part) - slope * ball(part)
        return up(total)


def _even_slopes(coordinates: Sequence[Coordinate], change: Fraction) -> list[Fraction]:
    """A split of the change at which all slopes are about equal (floats; any split gives a valid bound)."""
    scales = np.array([float(one.scale) for one in coordinates])
    widths = np.array([np.inf if one.width is None else float(one.width) for one in coordinates])
    most, ends = np.minimum(widths, float(change)), np.exp(-widths / scales)

    def split(level: float) -> NDArray[np.float64]:
        # With x = exp(part/scale), s the slope in units of 1/scale and c = exp(−width/scale), the slope is s where
        # c(2 − s)x² − 2(1 − s)x − s = 0: of two ways to write the root that is positive, the one that does not cancel.
        slopes = np.minimum(level * scales, 2.0)
        less = 1 - slopes
        root = np.sqrt(less**2 + ends * slopes * (2 - slopes))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(less > 0, (less + root) / (ends * (2 - slopes)), slopes / (root - less))
            return np.asarray(np.clip(scales * np.log(ratios), 0.0, most))

    low, high = 0.0, 2 / scales.min()
    for _ in range(80):
        level = (low + high) / 2
        low, high = (level, high) if split(level).sum() > float(change) else (low, level)
    return [Fraction(float(part)) for part in split((low + high) / 2)]


def assigned_loss(coordinates: Sequence[Coordinate], moves: Sequence[Fraction]) -> float:
    """The largest Σ e_j(i)(m_i) over all ways to give the moves to different coordinates, rounded up."""
    from scipy.optimize import linear_sum_assignment

    with precisely():
        kinds = sorted(set(coordinates), key=lambda one: (one.scale, one.width or Fraction(-1)))
        table = {(one, move): up(one.loss(move)) for one in kinds for move in set(moves)}
    losses = np.array([[table[one, move] for one in coordinates] for move in moves])
    rows, columns = linear_sum_assignment(losses, maximize=True)
    # The assignment is optimal up to rounding in its own comparisons.
    total = sum((Fraction(losses[i, j]) for i, j in zip(rows, columns, strict=True)), Fraction(0))
    return up(total * (1 + Fraction(1, 2**40)))


def common_scale(guarantee: Guarantee, sensitivity: Sensitivity, widths: Sequence[Fraction | None]) -> float:
    """A single scale at which the noise of all coordinates together meets ``guarantee``.

    It is the smallest one for PureDP. In equal domains with known moves it is, for ApproxDP, the smallest by the
    convolved curve, up to 0.1 %, and for the other kinds the smallest by addition where the moves are equal. Elsewhere
    it is the scale whose bounded loss implies the guarantee.
    """
    moves = None if sensitivity.moves is None else [Fraction(move) for move in sensitivity.moves]
    same = len(set(widths)) == 1
    if moves is not None and same and not is_pure(guarantee):
        sufficient = bounded_laplace_scale(guarantee.split(len(moves))[0], max(moves), widths[0])
        if isinstance(guarantee, ApproxDP) and len(moves) > 1:
            return _convolved_scale(guarantee, moves, widths[0], sufficient)
        return sufficient
    loss = decimal(_loss_allowed(guarantee))
    change = Fraction(sensitivity.require_l1())

    def holds(scale: float) -> bool:
        coordinates = [Coordinate(Fraction(scale), width) for width in widths]
        if moves is None:
            return decimal(spread_loss(coordinates, change)) <= loss
        if same:
            with precisely():
                return bool(sum((coordinates[0].loss(move) for move in moves), arb(0)) <= ball(loss))
        return decimal(assigned_loss(coordinates, moves)) <= loss

    sufficient = 2 * float(change / loss) * (1 + 2.0**-46)  # the loss is below 2Δ/b
    return _least_scale(holds, sufficient / 4, sufficient, 2.0**-46)


def _convolved_scale(
    guarantee: ApproxDP, moves: Sequence[Fraction], width: Fraction | None, sufficient: float
) -> float:
    """A scale, at most that of basic composition, at which the convolved curve of all moves meets (ε, δ)."""

    def holds(scale: float) -> bool:
        coordinate = Coordinate(Fraction(scale), width)
        profile = BoundedLaplaceProfile([coordinate.move(move) for move in moves])
        return profile.delta_at(guarantee.epsilon) <= guarantee.delta

    alone = bounded_laplace_scale(guarantee, max(moves), width)
    return _least_scale(holds, min(alone, sufficient), sufficient, 2.0**-10)


def _least_scale(holds: Callable[[float], bool], low: float, high: float, accuracy: float) -> float:
    """A scale that holds, not above ``high``, which does, and relatively within ``accuracy`` of the smallest."""
    while high - low > accuracy * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _loss_allowed(guarantee: Guarantee) -> float:
    """The largest loss ε, up to 2⁻⁵⁰, such that ε-DP implies the guarantee."""
    if isinstance(guarantee, PureDP | ApproxDP) and getattr(guarantee, "delta", 0.0) == 0:
        return guarantee.epsilon
    low, high = getattr(guarantee, "epsilon", 0.0), 2.0**-40
    while high <= low or PureDP(high).within(guarantee):
        low, high = max(low, high), 2 * high
    while high - low > 2.0**-50 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if PureDP(middle).within(guarantee) else (low, middle)
    return low
