"""Bounded curve: the exact privacy curve of Laplace noise conditioned on a domain.

Lengths are in units of the scale: the truth moves by ``shift``, and ``rest`` is what the domain is longer than that
(infinite for a half-line). With E(x) = 1 − e⁻ˣ and Z(t) = E(t) + E(shift + rest − t), twice holohan2018's C, the
neighbours at t and t + shift have, for ε ≥ 0,

    δ(ε; t) = E(s/2)·(2·E(t) + e⁻ᵗ·E(s/2)) / Z(t),    s = shift + ln(Z(t + shift)/Z(t)) − ε  (where positive).

Every form here is a sum of positive terms, so nothing cancels. That the pair at distance ``shift`` is the worst, that
s falls in t, and that δ(ε; ·) first rises and then falls, no later than at rest/2, is proved in
``docs/proofs/bounded_laplace.md``; the certificates rest on these three facts.
"""

from __future__ import annotations

import heapq
import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import scipy
from flint import arb
from numpy.typing import NDArray

from discreet.core.numbers import ball, precisely

Array = NDArray[np.float64]

FLAT = 45.0
"""Beyond this many scales from the lower end e⁻ᵗ no longer changes a float: the curve is flat."""
_ROUNDING = 2.0**-47
"""Relative error allowed to each float formula here; expm1, exp and log1p are good to about 2⁻⁵²."""
_TINY = -700.0
"""Below this exponent exp would leave the normal floats, which is slow; what is added matters nowhere."""
_COARSE_BITS = 12
_FINE_STEPS = 60
_BALL_HALVINGS = 60
_GROWTHS = 2.0 ** np.arange(3, 48, 3)
"""Distances from the worst position at which the sign of the slope is tried, in units of its own doubt."""


def rise(x: Array) -> Array:
    """E(x) = 1 − e⁻ˣ."""
    return -np.expm1(-x)


def _last(rest: Array) -> Array:
    """The last position that has to be looked at: the middle of the rest."""
    return np.minimum(rest / 2, FLAT)


def largest_loss(shift: Array, rest: Array) -> Array:
    """The largest privacy loss, Δ/b + ln(C(l+Δ)/C(l)) (holohan2018, Lemma 3.3), without cancellation."""
    return shift + np.log1p(rise(shift) * rise(rest) / rise(shift + rest))


def _log_ratio(t: Array, shift: Array, rest: Array) -> Array:
    """ln(Z(t + shift)/Z(t)) for t ≤ rest/2."""
    return np.log1p(rise(shift) * np.exp(-t) * rise(rest - 2 * t) / _normaliser(t, shift, rest))


def _normaliser(t: Array, shift: Array, rest: Array) -> Array:
    return rise(t) + rise(rest + shift - t)


def _pulls(epsilon: Array, t: Array, shift: Array, rest: Array) -> tuple[Array, Array, Array]:
    """Two positive terms whose difference has the sign of ∂δ(ε; t)/∂t, for t ≤ rest/2, and their relative error."""
    left = rise(t)
    right = rise(rest + shift - t)
    decay = np.exp(-t)
    mass = left + right
    gain = rise(shift) * decay * rise(rest - 2 * t) / mass
    top = shift + np.log1p(gain)
    excess = np.maximum(top - epsilon, 0.0)
    half = rise(excess / 2)
    reach = left + decay * half
    fall = rise(shift) * (decay * right + np.exp(np.maximum(t - rest, _TINY)) * left) / (mass * mass * (1 + gain))
    falling = 2 * (1 - half) * fall * reach + half * decay * (reach + left) * rise(rest + shift - 2 * t) / mass
    return half * decay * (2 - half), falling, _doubt(epsilon, top)


def _doubt(epsilon: Array, top: Array) -> Array:
    """Relative error of what is computed from the excess ``top`` − ε."""
    return _ROUNDING * (1 + (top + epsilon) / np.maximum(top - epsilon, 0.0))


def worst_position(
    epsilon: Array, shift: Array, rest: Array, near: Array | None = None, *, settled: float = 2.0**-44
) -> Array:
    """Where the worst pair begins, in scales from the lower end: the sign change of the slope, in floats.

    Bisection, then false position on the logarithm of the ratio of the two pulls, until it or the bracket is relatively
    below ``settled``. ``near`` is a position to start from, where one is known from a similar problem.
    """
    shape = np.broadcast_shapes(np.shape(epsilon), np.shape(shift), np.shape(rest))
    eps, move, room = (np.broadcast_to(values, shape).ravel() for values in (epsilon, shift, rest))
    last = _last(room)
    with np.errstate(all="ignore"):
        if near is None:
            low, high = _bisected(eps, move, room, np.zeros_like(last), last)
        else:
            start = np.broadcast_to(near, shape).ravel()
            low = np.minimum(0.6 * start, last)
            high = np.minimum(1.5 * start, last)
        below = _tilt(eps, low, move, room)
        above = _tilt(eps, high, move, room)
        lost = ~((below > 0) & (above <= 0)) & (last > 0)
        if near is not None and np.any(lost):
            low[lost], high[lost] = _bisected(eps[lost], move[lost], room[lost], np.zeros_like(last[lost]), last[lost])
            below[lost], above[lost] = (_tilt(eps[lost], end[lost], move[lost], room[lost]) for end in (low, high))
        return _false_position((eps, move, room), low, high, below, above, settled).reshape(shape)


def _tilt(epsilon: Array, t: Array, shift: Array, rest: Array) -> Array:
    rising, falling, _ = _pulls(epsilon, t, shift, rest)
    return np.asarray(np.clip(np.log(rising / falling), -50.0, 50.0))


def _bisected(epsilon: Array, shift: Array, rest: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Brackets of the sign change, 2⁻¹² of what they were; several cuts a round where there are few problems."""
    cuts = 1 if low.size > 64 else 63
    inner = np.arange(1, cuts + 1)[:, None] / (cuts + 1)
    for _ in range(math.ceil(_COARSE_BITS / math.log2(cuts + 1))):
        rising, falling, _ = _pulls(epsilon, low + (high - low) * inner, shift, rest)
        passed = np.sum(np.logical_and.accumulate(rising > falling, axis=0), axis=0)
        part = (high - low) / (cuts + 1)
        low, high = low + part * passed, low + part * (passed + 1)
    return low, high


def _false_position(
    problem: tuple[Array, Array, Array], low: Array, high: Array, below: Array, above: Array, settled: float
) -> Array:
    """The Illinois method, on those problems that have not settled yet."""
    found = (low + high) / 2
    active = np.flatnonzero((below > 0) & (above <= 0) & (high > low))
    found[above > 0], found[below <= 0] = high[above > 0], low[below <= 0]
    eps, move, room, low, high, below, above = (values[active] for values in (*problem, low, high, below, above))
    side = np.zeros_like(active)
    for _ in range(_FINE_STEPS):
        if active.size == 0:
            break
        middle = (low * above - high * below) / (above - below)
        middle = np.where((middle > low) & (middle < high), middle, (low + high) / 2)
        here = _tilt(eps, middle, move, room)
        found[active] = middle
        left = here > 0
        # An end that stays for the second time counts half, or it would stay for good.
        below = np.where(left, here, np.where(side == -1, below / 2, below))
        above = np.where(left, np.where(side == 1, above / 2, above), here)
        side = np.where(left, 1, -1)
        low, high = np.where(left, middle, low), np.where(left, high, middle)
        keep = (np.abs(here) > settled) & (high - low > settled * high)
        active, side = active[keep], side[keep]
        eps, move, room, low, high, below, above = (
            values[keep] for values in (eps, move, room, low, high, below, above)
        )
    return found


def _value(excess: Array, near: Array, far: Array, shift: Array, rest: Array) -> Array:
    half = rise(np.maximum(excess, 0.0) / 2)
    return half * (2 * rise(far) + np.exp(-far) * half) / _normaliser(near, shift, rest)


def divergence(epsilon: Array, t: Array, shift: Array, rest: Array) -> Array:
    """δ(ε; t) for t ≤ rest/2."""
    return _value(shift + _log_ratio(t, shift, rest) - epsilon, t, t, shift, rest)


def total_variation(shift: Array, rest: Array) -> Array:
    """δ(0): the worst pair is then the one in the middle of the domain."""
    middle = _last(rest)
    return _value(shift, middle, middle, shift, rest)


def overlap(shift: Array, rest: Array) -> Array:
    """1 − δ(0), without cancellation."""
    middle = _last(rest)
    return 2 * np.exp(-shift / 2) * rise((shift + rest) / 2) / _normaliser(middle, shift, rest)


def divergence_bound(epsilon: Array, shift: Array, rest: Array, near: Array | None = None) -> Array:
    """An upper bound of δ(ε) = max over t, valid in spite of rounding and as tight as floats allow.

    Around the worst position t₀ (``near``, where it is known) the sign of the slope is checked, with its error bound,
    at t₀ ± h; then the maximum lies between them, and there s ≤ s(t₀ − h), 2E(t) + e⁻ᵗE ≤ its value at t₀ + h and
    Z(t) ≥ Z(t₀ − h). Where a sign is not certain h grows; the ends 0 and rest/2 need no check.
    """
    with np.errstate(all="ignore"):
        centre = worst_position(epsilon, shift, rest) if near is None else np.clip(near, 0.0, _last(rest))
        low, high = _around(epsilon, centre, shift, rest)
        top = shift + _log_ratio(low, shift, rest)
        excess = top - epsilon + _ROUNDING * (top + epsilon)
        return np.asarray(_value(excess, low, high, shift, rest) * (1 + _ROUNDING))


def half_line_bound(epsilon: Array, shift: Array, gap: Array) -> Array:
    """An upper bound of δ(ε) in every domain, valid in spite of rounding: that of the half-line, at w = 1 − ``gap``.

    There (1 − e^{−shift})·δ = F(w) is concave, with F″ ≤ −2; so it is nowhere above F(w) + F′(w)²/4.
    """
    up, theta = rise(shift), -np.log1p(-gap)
    lag = epsilon - shift + 2 * theta  # ln(Z(t + shift)/Z(t))
    below = np.expm1(lag - _ROUNDING * (epsilon + shift + 2 * theta))
    slope = np.abs(below - up + 2 * gap) + _ROUNDING * (epsilon + shift + 2 * theta)
    reach = up * (1 + _ROUNDING) - (1 - gap) * below
    return np.asarray((gap * reach + slope * slope / 4) / up * (1 + _ROUNDING))


def _around(epsilon: Array, centre: Array, shift: Array, rest: Array) -> tuple[Array, Array]:
    """The nearest tried positions below and above ``centre`` where the slope certainly points back, or the ends."""
    problem = np.broadcast_arrays(epsilon, centre, shift, rest)
    eps, middle, move, room = (values.ravel() for values in problem)
    top = move + _log_ratio(middle, move, room)
    step = (middle + (top - eps) / 4) * _doubt(eps, top)  # δ is about in proportion to t + s/4
    low, high = (
        _certain_side(eps, middle, move, room, side, step, end).reshape(problem[0].shape)
        for side, end in ((-1, np.zeros_like(room)), (1, room / 2))
    )
    return low, high


def _certain_side(
    epsilon: Array, centre: Array, shift: Array, rest: Array, side: int, step: Array, end: Array
) -> Array:
    """The nearest tried position on one side where the slope certainly points back; ``end`` where there is none."""
    parts: tuple[Array, ...] = (epsilon, centre, shift, rest, step)
    found, unsure = end, np.arange(end.size)
    for growth in _GROWTHS:
        epsilon, centre, shift, rest, step = parts
        trial = centre + side * growth * step
        rising, falling, doubt = _pulls(epsilon, trial, shift, rest)
        inside = (trial > 0) & (trial < _last(rest))
        certain = side * (falling - rising) > doubt * (rising + falling)
        found[unsure] = np.where(inside & certain, trial, found[unsure])
        left = np.flatnonzero(inside & ~certain)
        if left.size == 0:
            break
        unsure, parts = unsure[left], tuple(values[left] for values in parts)
    return found


class BoundedCurve:
    """The curve δ(ε) in ball arithmetic, for one move of the truth.

    Parameters
    ----------
    shift
        How far the truth moves, in scales; moves longer than the domain count as the domain.
    width
        Length of the domain in scales; None for a half-line.
    """

    def __init__(self, shift: Fraction, width: Fraction | None) -> None:
        self.shift = shift if width is None else min(shift, width)
        self.rest = None if width is None else width - self.shift
        self.total = self._total()

    def _total(self) -> Fraction:
        if self.rest == 0:  # one pair only: the loss is the shift, exactly
            return self.shift
        with precisely():
            mantissa, exponent = self.loss().upper().man_exp()
        return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)

    def _floats(self) -> tuple[Array, Array]:
        rest = math.inf if self.rest is None else float(self.rest)
        return np.asarray(float(self.shift)), np.asarray(rest)

    def bounds(self, epsilons: Array) -> Array:
        """Upper bounds of δ at many ε, in floats: both lengths are rounded up, for δ grows in each of them."""
        shift, rest = self._floats()
        bound = divergence_bound(epsilons, shift * (1 + 2.0**-50), rest * (1 + 2.0**-50))
        return np.where(epsilons < float(self.total) * (1 + 2.0**-50), np.minimum(bound, 1.0), 0.0)

    def _rise_to_end(self, distance: Fraction) -> arb:
        """E of the distance from the upper end of a pair's rest; 1 on a half-line."""
        return arb(1) if self.rest is None else _rise_ball(ball(self.rest - distance))

    def loss(self) -> arb:
        """The largest privacy loss."""
        shift, rise = ball(self.shift), _rise_ball(ball(self.shift))
        whole = arb(1) if self.rest is None else _rise_ball(ball(self.shift + self.rest))
        return shift + (rise * self._rise_to_end(Fraction(0)) / whole).log1p()

    def _normaliser(self, t: Fraction) -> arb:
        return _rise_ball(ball(t)) + self._rise_to_end(t - self.shift)

    def _log_ratio(self, t: Fraction) -> arb:
        gain = _rise_ball(ball(self.shift)) * (-ball(t)).exp() * self._rise_to_end(2 * t)
        return (gain / self._normaliser(t)).log1p()

    def _slope(self, epsilon: Fraction, t: Fraction) -> arb:
        """A number with the sign of ∂δ(ε; t)/∂t: the difference of `_pulls`, in balls."""
        shift = self.shift
        left = _rise_ball(ball(t))
        right = self._rise_to_end(t - shift)
        decay = (-ball(t)).exp()
        mass, gain = left + right, self._log_ratio(t).expm1()
        half = _rise_ball((ball(shift - epsilon) + self._log_ratio(t)) / 2)
        if not half > 0:
            return arb(-1) if half < 0 else arb(0, 1)
        reach = left + decay * half
        rising = half * decay * ((2 - half) - (reach + left) * self._rise_to_end(2 * t - shift) / mass)
        mirror = arb(0) if self.rest is None else ball(t - self.rest).exp()
        fall = _rise_ball(ball(shift)) * (decay * right + mirror * left) / (mass * mass * (1 + gain))
        return rising - 2 * (1 - half) * fall * reach

    def _value(self, epsilon: Fraction, near: Fraction, far: Fraction | None) -> arb:
        """δ(ε; t) at near = far, or its bound over t between them; ``far`` None is infinitely far."""
        excess = ball(self.shift - epsilon) + self._log_ratio(near)
        half = _rise_ball(excess / 2)
        reach = arb(2) if far is None else 2 * _rise_ball(ball(far)) + (-ball(far)).exp() * half
        return half * reach / self._normaliser(near)

    def delta(self, epsilon: Fraction) -> arb:
        """A ball that holds the maximum of δ(ε; t) over all pairs, relatively about 1e-11 wide."""
        if epsilon >= self.total:
            return arb(0)
        if epsilon == 0:
            return self.middle()
        shift, rest = self._floats()
        centre = Fraction(float(worst_position(np.asarray(float(epsilon)), shift, rest)))
        low, high = self._narrowed(epsilon, self._bracket(epsilon, centre, -1), self._bracket(epsilon, centre, 1))
        top = self._value(epsilon, low, high)
        bottom = self._value(epsilon, centre, centre)
        bottom = bottom if bottom > 0 else arb(0)
        return bottom.union(top) if top > 0 else arb(0)

    def _narrowed(
        self, epsilon: Fraction, low: Fraction | None, high: Fraction | None
    ) -> tuple[Fraction, Fraction | None]:
        """Halve a bracket that the float solution left wide."""
        start = low or Fraction(0)
        for _ in range(_BALL_HALVINGS):
            if high is None or high - start <= high * Fraction(1, 2**41):
                break
            middle = (start + high) / 2
            slope = self._slope(epsilon, middle)
            if slope > 0:
                start = middle
            elif slope < 0:
                high = middle
            else:
                break
        return start, high

    def _bracket(self, epsilon: Fraction, centre: Fraction, side: int) -> Fraction | None:
        """A point on one side of the maximum: as `_certain_side`, in balls. None is the far end of a half-line."""
        middle = None if self.rest is None else self.rest / 2
        end = Fraction(0) if side < 0 else middle
        for exponent in range(-42, 8, 5):
            trial = centre + side * max(centre, Fraction(1, 2**20)) * Fraction(2) ** exponent
            if trial <= 0 or trial > FLAT or (middle is not None and trial >= middle):
                return end
            if side * self._slope(epsilon, trial) < 0:
                return trial
        return end

    def middle(self) -> arb:
        """δ(0), the total variation distance of the worst pair, which lies in the middle of the domain."""
        half = _rise_ball(ball(self.shift) / 2)
        if self.rest is None:
            return half
        reach = 2 * _rise_ball(ball(self.rest) / 2) + (-ball(self.rest) / 2).exp() * half
        return half * reach / self._normaliser(self.rest / 2)

    def overlap(self) -> arb:
        """1 − δ(0), without cancellation: 2·e^{−shift/2}·E(width/2)/Z."""
        gone = (-ball(self.shift) / 2).exp()
        if self.rest is None:
            return gone
        return 2 * gone * _rise_ball(ball(self.shift + self.rest) / 2) / self._normaliser(self.rest / 2)


def _rise_ball(x: arb) -> arb:
    return -(-x).expm1()


class Ridge:
    """Upper bounds of δ(ε; t) over ranges of t, at fixed values of ε: what lies left or right of the ridge is monotone.

    Parameters
    ----------
    epsilons
        The values of ε.
    shift, rest
        The pair's distance and the rest of the domain, in scales.
    """

    def __init__(self, epsilons: Array, shift: float, rest: float) -> None:
        self.epsilons = epsilons
        self.shift = np.asarray(shift)
        self.rest = float(rest)
        self._top = divergence_bound(epsilons, self.shift, np.asarray(rest))
        with np.errstate(all="ignore"):
            centre = worst_position(epsilons, self.shift, np.asarray(rest))
            self._low, self._high = _around(epsilons, centre, self.shift, np.asarray(rest))

    def bound(self, low: float, high: float) -> Array:
        """An upper bound of δ(ε; t) over low ≤ t ≤ high, for each ε."""
        return np.where(high <= self._low, self._at(high), np.where(low >= self._high, self._at(low), self._top))

    def _at(self, t: float) -> Array:
        # e⁻ᵗ − e^{t−rest}, from the nearer end so that it does not cancel.
        gap = self.rest - 2 * t
        drift = math.copysign(1.0, gap) * np.exp(-min(t, self.rest - t)) * rise(np.asarray(abs(gap)))
        position = np.asarray(t)
        top = self.shift + np.log1p(rise(self.shift) * drift / _normaliser(position, self.shift, np.asarray(self.rest)))
        excess = top - self.epsilons + _ROUNDING * (np.abs(top) + self.shift + self.epsilons)
        return np.asarray(_value(excess, position, position, self.shift, np.asarray(self.rest)) * (1 + _ROUNDING))


# ---- Bounded concentration: an upper bound of the zCDP parameter of Laplace noise conditioned on a domain
#
# The Rényi divergence of order a of a pair is a mixture of its hockey-stick divergences: with H its curve in one
# direction and K in the other,
#
#     exp((a−1)·R_a) = 1 + a(a−1)·∫₀^∞ (e^{(a−1)ε}·H(ε) + e^{−aε}·K(ε)) dε.
#
# The pairs are cut into cells of positions t; on a cell, `bounded_curve` bounds H and K from above, the
# integral is bounded by chords (a hockey-stick divergence is convex in e^ε), and the order runs over short intervals.
# The cell with the largest bound is halved until that gains little. Details: ``docs/proofs/bounded_laplace.md``.


_KNOTS = 160
_ORDERS = 300
_FIRST_CELLS = 16
_MOST_CELLS = 64
_ENOUGH = 2e-4
_WIDE = 120.0
"""A domain longer than this many scales cannot be told from a half-line."""
_SAFETY = 1 + 2.0**-40


def concentration_bound(shift: float, rest: float) -> float:
    """A ρ for which every pair at distance ``shift`` (in scales) satisfies R_a ≤ a·ρ for all orders a > 1."""
    width = min(rest, _WIDE + shift)
    total = float(largest_loss(np.asarray(shift), np.asarray(width))) * _SAFETY
    knots = total * np.linspace(0.0, 1.0, _KNOTS + 1)
    ridge = Ridge(knots, shift, width)
    edges = _positions(width)
    cells = [(-_cell_bound(ridge, low, high, knots), low, high) for low, high in pairwise(edges)]
    heapq.heapify(cells)
    last = -cells[0][0]
    for count in range(_MOST_CELLS):
        _, low, high = heapq.heappop(cells)
        middle = (low + high) / 2
        for part in ((low, middle), (middle, high)):
            heapq.heappush(cells, (-_cell_bound(ridge, *part, knots), *part))
        if count % 8 == 7:
            now = -cells[0][0]
            if last - now <= _ENOUGH * now:
                break
            last = now
    return -cells[0][0] * _SAFETY


def largest_divergence(shift: float, rest: float) -> float:
    """The largest Kullback–Leibler divergence of a pair, over a fine mesh of positions: a lower bound of ρ."""
    width = min(rest, _WIDE + shift)
    t = np.unique(np.concatenate([np.linspace(0.0, width, 401), _positions(width)]))
    left = -np.expm1(-t)
    right = -np.expm1(t - width - shift)
    decay = np.exp(-shift)
    drift = np.sign(width - 2 * t) * np.exp(-np.minimum(t, width - t)) * -np.expm1(-np.abs(width - 2 * t))
    gain = -np.expm1(-shift) * drift / (left + right)
    # The loss falls from its top by 2·min(x − t, shift) as the output x moves right.
    fallen = (scipy.special.gammainc(2.0, shift) + shift * decay * -np.expm1(t - width)) / (left + right)
    return float(np.max(shift + np.log1p(gain) - 2 * fallen))


def _positions(width: float) -> list[float]:
    """Cells that are even in the distance from the nearer end, on the scale of the noise."""
    if width == 0:
        return [0.0, 0.0]
    half = _FIRST_CELLS // 2
    near = -np.log1p(np.linspace(0.0, 1.0, half + 1) * np.expm1(-min(width, 20.0) / 2))
    near[-1] = width / 2
    return [*near.tolist(), *(width - near[-2::-1]).tolist()]


def _cell_bound(ridge: Ridge, low: float, high: float, knots: Array) -> float:
    return _largest_ratio(ridge.bound(low, high), ridge.bound(ridge.rest - high, ridge.rest - low), knots)


def _largest_ratio(forward: Array, backward: Array, knots: Array) -> float:
    """An upper bound of R_a/a over all a > 1, from upper bounds of the two curves at the knots."""
    total = knots[-1]
    # Beyond the order total/ρ the largest loss alone is enough; ρ is at least the value at a = 1.
    first = float(np.sum(_integrals(np.array([1.0]), forward, backward, knots)))
    last = max(total / first, 1.0)
    orders = 1 + (last - 1) * np.linspace(0.0, 1.0, _ORDERS + 1)
    up, down = _integrals(orders, forward, backward, knots)
    largest, smallest = up[1:] + down[:-1], up[:-1] + down[1:]
    argument = orders[:-1] * (orders[:-1] - 1) * smallest
    with np.errstate(invalid="ignore", divide="ignore"):
        damping = np.where(argument > 0, np.log1p(argument) / argument, 1.0)
    return float(max(np.max(largest * damping), first))


def _integrals(orders: Array, forward: Array, backward: Array, knots: Array) -> tuple[Array, Array]:
    """Upper bounds of the two integrals for each order: increasing and decreasing in the order."""
    step = knots[1]
    rate = (orders - 1)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_up = np.where(rate > 0, np.expm1(rate * step) / rate, step)
    mean_down = -np.expm1(-orders * step) / orders
    up = np.exp(rate * knots[:-1]) * mean_up
    down = np.exp(-orders[:, None] * knots[:-1]) * mean_down[:, None]
    # A chord in e^ε leaves at least half of the drop below it, up to the curvature of the exponentials.
    drop_up = (forward[:-1] - forward[1:]) * (np.exp(-step) / 2)
    drop_down = (backward[:-1] - backward[1:])[None, :] * np.exp(-(1 + orders) * step)[:, None] / 2
    return up @ (forward[:-1] - drop_up), np.sum(down * (backward[:-1] - drop_down), axis=1)
