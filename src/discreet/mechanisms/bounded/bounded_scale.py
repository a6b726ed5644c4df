"""Bounded scale: the smallest scale at which Laplace noise conditioned on a domain meets a guarantee.

`bounded_laplace_scales` solves whole arrays in floats, with an error bound that makes each result safe.
`bounded_laplace_scale` solves one problem in ball arithmetic, to the last bit for PureDP. Formulas and proofs:
``docs/proofs/bounded_laplace.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.rounding import ball, decimal, least, normal_cdf, precisely
from discreet.mechanisms.bounded.bounded_curve import (
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
from discreet.mechanisms.gaussian import is_pure
from discreet.mechanisms.loss_distribution import dominates, first_certified

__all__ = [
    "WEAK_MU", "bounded_laplace_scale", "bounded_laplace_scales", "bracketed_shift", "half_line", "published_scale",
    "pure_shift", "touching_shift",
]  # fmt: skip


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
        up, across, along = rise(shift), rise(rest), rise(whole)
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
    left, right, up = rise(t), rise(rest + shift - t), rise(shift)
    a, c, q = np.exp(-t), 1 - up, np.exp(np.maximum(t - rest, -700.0))
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
    shift, active, side = high.copy(), every, np.zeros_like(every)
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
_FINE, _COARSE = 2.0**-42 * np.array([3.0, 4.0]), 2.0 ** np.arange(-40.0, -1.0, 2.0)
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
        raise InvalidParameter(
            "guarantee", guarantee, "allows no information at all, so no finite noise meets it", "Raise it above 0."
        )
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
        return first_certified(guess, lambda b: bool(_curve(b, change, width).delta(epsilon) <= bound))


def _gaussian_scale(guarantee: GaussianDP, change: Fraction, width: Fraction | None) -> float:
    from scipy.optimize import brentq

    excess = _rest(change, width) / float(change)
    if guarantee.mu > WEAK_MU:  # the ε-DP that implies it: Φ(−μ/2) = 1/(1 + e^ε)
        with precisely():
            missed = normal_cdf(-ball(decimal(guarantee.mu)) / 2)
            return _scale_for_loss((1 / missed - 1).log() * (1 - ball(2.0**-40)), change, width)
    # Near 0 the curves meet in δ(0) = erf(μ/√8), far out in 1 − δ(0): whichever of the two is small.
    apart, shared = math.erf(guarantee.mu / math.sqrt(8)), math.erfc(guarantee.mu / math.sqrt(8))

    def gap(log_shift: float) -> float:
        shift = np.asarray(math.exp(log_shift))
        rest = shift * excess if excess else np.asarray(0.0)
        if apart < shared:
            return math.log(float(total_variation(shift, rest)) / apart)
        return math.log(shared / float(overlap(shift, rest)))

    # t lies between δ(0) and −2·ln(1 − δ(0)) + 2·ln 2.
    low, high = math.log(apart) - 0.1, math.log(2 * math.log(2 / shared)) + 0.1
    guess = float(change) / math.exp(brentq(gap, low, high, xtol=1e-15, rtol=1e-15))
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
