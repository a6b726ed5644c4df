"""Touching shift: how far the truth may move, in scales, until the worst pair's δ(ε) is the δ allowed.

Floats only, for whole arrays: a starting point for certificates, which do not depend on it. Notation and formulas:
``docs/proofs/bounded_laplace.md``, sections 3 and 5.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms.bounded.bounded_curve import FLAT, divergence, rise, worst_position

__all__ = ["bracketed_shift", "half_line", "pure_shift", "touching_shift"]

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
