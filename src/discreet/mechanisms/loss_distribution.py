"""Privacy-loss distributions on a lattice, and their convolution with a proved error.

The privacy loss L = log(dP/dQ) of a pair of neighbours, drawn from P, determines δ(ε) = E (1 − e^{ε−L})₊; losses
of independent releases add. Each loss is spread onto the two lattice points around it so that both neighbours
keep their probabilities (doroshenko2022, "connecting the dots"): the spread pair dominates the true one, so what
is computed from it is an upper bound. Proofs of all error terms: ``docs/proofs/composition.md``.
"""

from __future__ import annotations

import math
import re
import sys
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import (
    ApproxDP,
    Curve,
    GaussianDP,
    Guarantee,
    Profile,
    PureDP,
    ZeroConcentratedDP,
    gaussian_delta,
    plain,
    type_one,
)
from discreet.core.numbers import PRECISION, ball, decimal, least, normal_cdf, precisely, up
from discreet.mechanisms.mechanism import json_ready

Array = NDArray[np.float64]

_UNIT = 2.0**-53
_INFLATION = 2.0**-36
"""Relative slack on every lattice mass: covers quadrature (below 1e-12) and every rounding on the way."""
_REACH = 37.5
"""Standard deviations kept of a Gaussian loss: beyond them lies less than 1e-307."""
_TAIL = 46.0
"""The convolution's window leaves out at most e^{−46} ≈ 1e-20 of the tilted law on each side."""
_LARGEST_WINDOW = 2**20
_MOST_TILTS = 60


@dataclass(frozen=True)
class PrivacyLoss:
    """The distribution of one privacy loss: atoms, a density on an interval, and a mass at infinity.

    Attributes
    ----------
    atoms
        Pairs (loss, probability).
    infinite
        Probability of an infinite loss.
    neglected
        How much of ``atoms`` and ``infinite`` was moved up from where it belongs.
    density, low, high
        Density of the continuous part, and the interval that carries it.
    spread
        Rough standard deviation; it only steers the choice of the lattice.
    smooth
        Length over which the density changes by a moderate factor.
    """

    atoms: tuple[tuple[float, float], ...]
    spread: float
    infinite: float = 0.0
    neglected: float = 0.0
    density: Callable[[Array], Array] | None = None
    low: float = 0.0
    high: float = 0.0
    smooth: float = 1.0

    @property
    def width(self) -> float:
        """Length of the interval that carries all finite losses."""
        ends = [value for value, _ in self.atoms] + ([self.low, self.high] if self.density else [])
        return max(ends) - min(ends)


def laplace_loss(shift: Fraction) -> PrivacyLoss:
    """Loss of Lap(0, 1) against Lap(t, 1): atoms at ±t, density e^{(l−t)/2}/4 between them."""
    t = _above(shift)
    return PrivacyLoss(
        atoms=((t, 0.5), (-t, 0.5 * math.exp(-t))),
        spread=2 * math.tanh(t / 2),
        density=lambda loss: 0.25 * np.exp((loss - t) / 2),
        low=-t,
        high=t,
    )


def geometric_loss(unit: Fraction, move: int) -> PrivacyLoss:
    """Loss of two-sided geometric noise of scale 1/``unit`` that moves by m: (m − 2j)·unit for j = 0, …, m."""
    t = _above(unit)
    shrink = math.exp(-t)
    inner = -math.expm1(-t) / (1 + shrink)
    masses = [1 / (1 + shrink), *(inner * shrink**j for j in range(1, move)), shrink**move / (1 + shrink)]
    atoms = tuple(((move - 2 * j) * t, mass) for j, mass in enumerate(masses) if mass > 0)
    mean = sum(loss * mass for loss, mass in atoms)
    return PrivacyLoss(atoms=atoms, spread=math.sqrt(sum(mass * (loss - mean) ** 2 for loss, mass in atoms)))


def gaussian_loss(square: Fraction) -> PrivacyLoss:
    """Loss of N(0, 1) against N(μ, 1), μ² = ``square``: normal with mean μ²/2 and standard deviation μ."""
    with precisely():
        mu = _above(ball(square).sqrt())
    mean, low, high = mu**2 / 2, mu**2 / 2 - _REACH * mu, mu**2 / 2 + _REACH * mu
    factor = 1 / (mu * math.sqrt(2 * math.pi))
    return PrivacyLoss(
        atoms=((low, 1e-307),),
        spread=mu,
        infinite=1e-307,
        neglected=2e-307,
        density=lambda loss: factor * np.exp(-0.5 * ((loss - mean) / mu) ** 2),
        low=low,
        high=high,
        smooth=mu / 8,
    )


def response_loss(epsilon: float, delta: float) -> PrivacyLoss:
    """Loss of the worst (ε, δ)-DP pair: randomised response that fails with probability δ (kairouz2015)."""
    top = _above(decimal(epsilon))
    heads = 1 / (1 + math.exp(-top))
    tails = heads * math.exp(-top)
    return PrivacyLoss(
        atoms=((top, (1 - delta) * heads), (-top, (1 - delta) * tails)),
        spread=top / math.cosh(min(top / 2, 300.0)),
        infinite=_above(decimal(delta)) if delta > 0 else 0.0,
    )


def curve_loss(delta: Callable[[float], float], reach: float) -> PrivacyLoss:
    """A loss that dominates any symmetric pair whose privacy curve is known: knots on it, joined by chords.

    δ is convex in x = e^ε, so the lower convex hull of upper bounds at knots lies above it; its kinks are the
    atoms (doroshenko2022). The other half of the atoms follows from symmetry.
    """
    ratios, epsilons = loss_knots(reach)
    return knotted_loss(ratios, np.array([delta(epsilon) for epsilon in epsilons.tolist()]))


def loss_knots(reach: float) -> tuple[Array, Array]:
    """Values of e^ε from 1 to e^``reach``, and values of ε that are certainly not above their logarithms."""
    ratios = np.exp(np.linspace(0.0, min(reach, 300.0), 513))
    return ratios, np.maximum(np.log(ratios) * (1 - 1e-15) - 1e-300, 0.0)


def knotted_loss(ratios: Array, deltas: Array) -> PrivacyLoss:
    """As `curve_loss`, from upper bounds of δ at given values of e^ε."""
    points = [(Fraction(x), Fraction(delta)) for x, delta in zip(ratios.tolist(), deltas.tolist(), strict=True)]
    hull: list[tuple[Fraction, Fraction]] = []
    for point in points:
        while len(hull) > 1 and _slope(hull[-2], point) <= _slope(hull[-2], hull[-1]):
            hull.pop()
        hull.append(point)
    slopes = [_slope(left, right) for left, right in pairwise(hull)] + [Fraction(0)]
    atoms, rest = [], 1 - hull[-1][1]
    for i in range(1, len(hull)):
        other = slopes[i] - slopes[i - 1]  # Q's probability of this loss, which by symmetry is P's of minus it
        loss = math.nextafter(math.log(hull[i][0]), math.inf)
        atoms += [(loss, float(other * hull[i][0])), (-loss, float(other))]
        rest -= other * (1 + hull[i][0])
    atoms.append((0.0, max(float(rest), 0.0)))
    spread = math.sqrt(sum(mass * loss**2 for loss, mass in atoms))
    return PrivacyLoss(atoms=tuple(atoms), spread=spread, infinite=float(hull[-1][1]))


def _slope(left: tuple[Fraction, Fraction], right: tuple[Fraction, Fraction]) -> Fraction:
    return (right[1] - left[1]) / (right[0] - left[0])


def _above(value: Fraction | arb) -> float:
    """A float whose binary value is at least ``value``; the pair with the larger parameter dominates."""
    return math.nextafter(up(value), math.inf)


@dataclass(frozen=True)
class Lattice:
    """Upper bounds ``masses`` on the probabilities of the losses ``points``·step."""

    points: NDArray[np.int64]
    masses: Array
    step: float

    @classmethod
    def of(cls, loss: PrivacyLoss, step: float) -> Lattice:
        """Spread a loss onto the lattice of multiples of ``step``, a power of two."""
        at, mass = (np.array(column, dtype=float) for column in zip(*loss.atoms, strict=True))
        if loss.density is not None:
            nodes, weights = _quadrature(loss, step)
            at, mass = np.concatenate([at, nodes]), np.concatenate([mass, weights * loss.density(nodes)])
        cell = np.floor(at / step)
        share = np.clip(np.expm1(cell * step - at) / math.expm1(-step), 0.0, 1.0)
        first = int(cell.min())
        index = (cell - first).astype(np.int64)
        size = int(index.max()) + 2
        masses = np.bincount(index, mass * (1 - share), size) + np.bincount(index + 1, mass * share, size)
        (kept,) = np.nonzero(masses)
        return cls(kept + first, np.asarray(masses[kept] * (1 + _INFLATION), dtype=np.float64), step)

    @cached_property
    def losses(self) -> Array:
        """The lattice points."""
        return self.points * np.float64(self.step)

    @cached_property
    def _logarithms(self) -> Array:
        return np.log(self.masses)

    def log_mgf(self, tilt: float) -> float:
        """log Σ p·e^{θl}."""
        exponents = self._logarithms + tilt * self.losses
        top = float(exponents.max())
        return top + math.log(float(np.exp(exponents - top).sum()))

    def tilted(self, tilt: float) -> Array:
        """The masses times e^{θl}, normalised to one."""
        return np.exp(self._logarithms + tilt * self.losses - self.log_mgf(tilt))


def _quadrature(loss: PrivacyLoss, step: float) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on panels that no lattice point cuts."""
    lines = np.arange(math.floor(loss.low / step), math.ceil(loss.high / step) + 1) * step
    panels = math.ceil((loss.high - loss.low) / loss.smooth)
    edges = np.union1d(lines, np.linspace(loss.low, loss.high, panels + 1))
    edges = edges[(edges >= loss.low) & (edges <= loss.high)]
    # 10 nodes are good to 1e-15 on panels as long as ``smooth``; 3 are where panels are 64 times shorter.
    nodes, weights = np.polynomial.legendre.leggauss(10 if step > loss.smooth / 64 else 3)
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    return (middle[:, None] + half[:, None] * nodes).ravel(), (half[:, None] * weights).ravel()


_Window = tuple[int, Array, float, float, float]
"""A cyclic convolution of tilted laws: first k, masses at (first + k)·step, tilt, log of the factor, rounding error."""


class Convolution:
    """The distribution of a sum of independent privacy losses, with an error bound on everything it answers.

    Parameters
    ----------
    losses
        Pairs (loss, how often it occurs).

    Attributes
    ----------
    count, step, highest
        Number of losses, lattice step, and the largest finite sum on the lattice.
    reach
        An ε beyond which δ is negligible for trade-offs.
    """

    def __init__(self, losses: Sequence[tuple[PrivacyLoss, int]]) -> None:
        self.count = sum(times for _, times in losses)
        spread = math.sqrt(sum(times * loss.spread**2 for loss, times in losses))
        finest = max(20 * spread / _LARGEST_WINDOW, max(loss.width for loss, _ in losses) / _LARGEST_WINDOW)
        wanted = max(spread / (2000 * math.sqrt(self.count)), finest, 2.0**-1000)
        self.step = 2.0 ** math.floor(math.log2(wanted))
        self._parts = [(Lattice.of(loss, self.step), times) for loss, times in losses]
        self._infinite = -math.expm1(sum(times * math.log1p(-loss.infinite) for loss, times in losses))
        self._neglected = sum(times * loss.neglected for loss, times in losses)
        self._moved = 1e-15 * sum(times * loss.width for loss, times in losses)  # parameters were rounded up
        self._unit_tilt = 1 / spread if spread > 0 else 1.0
        self._tilts = [(0.0, self._mean(0.0))]
        self._windows: dict[int, _Window] = {}
        self.highest = sum(times * int(part.points[-1]) for part, times in self._parts) * self.step
        self.reach = min(self.highest, self._tilts[0][1] + 9 * spread)

    def _log_mgf(self, tilt: float) -> float:
        return sum(times * part.log_mgf(tilt) for part, times in self._parts)

    def _mean(self, tilt: float) -> float:
        return sum(times * float(part.tilted(tilt) @ part.losses) for part, times in self._parts)

    def _choice(self, epsilon: float) -> int:
        """The first of the tilts 0, 1/8, √2/8, 2/8, … standard deviations whose law has its mean above ε."""
        while self._tilts[-1][1] < epsilon and len(self._tilts) < _MOST_TILTS:
            tilt = self._unit_tilt / 8 * math.sqrt(2) ** (len(self._tilts) - 1)
            self._tilts.append((tilt, self._mean(tilt)))
        return next((i for i, (_, mean) in enumerate(self._tilts) if mean >= epsilon), len(self._tilts) - 1)

    def _window(self, epsilon: float) -> _Window:
        """The convolution under the tilt that puts ε near the middle, where its rounding error is relative."""
        chosen = self._choice(epsilon)
        if chosen not in self._windows:
            if len(self._windows) >= 6:
                self._windows.pop(next(iter(self._windows)))
            self._windows[chosen] = self._convolve(self._tilts[chosen][0])
        return self._windows[chosen]

    def _ends(self, tilt: float) -> tuple[float, float]:
        """Chernoff: ends between which the tilted law keeps all but e^{−46} on each side."""
        base = self._log_mgf(tilt)
        trials = [self._unit_tilt * 2.0**j for j in range(-3, 8)]
        high = min((self._log_mgf(tilt + s) - base + _TAIL) / s for s in trials)
        low = max(-(self._log_mgf(tilt - s) - base + _TAIL) / s for s in trials)
        return low, high

    def _convolve(self, tilt: float) -> _Window:
        from scipy.fft import irfft, next_fast_len, rfft

        low, high = self._ends(tilt)
        first = math.floor(low / self.step)
        size = next_fast_len(max(math.ceil(high / self.step) - first + 1, 16), real=True)
        precision = 10 * _UNIT * math.log2(size)  # higham2002b, Theorem 24.2, with room to spare
        product, error = np.ones(size // 2 + 1, dtype=complex), precision
        for part, times in self._parts:
            folded = np.bincount(part.points % size, part.tilted(tilt), size)
            product *= _power(rfft(folded), times)
            error += times * (1.01 * precision * float(np.linalg.norm(folded)) + 4 * _UNIT)
        masses = np.roll(irfft(product, size), -(first % size))
        return first, np.maximum(masses, 0.0), tilt, self._log_mgf(tilt), error

    def _finite(self, epsilon: float) -> tuple[float, float]:
        """Σ p·(1 − e^{ε−l})₊ over the finite losses of the lattice, and a bound on its error."""
        if epsilon >= self.highest:
            return 0.0, 0.0
        first, masses, tilt, log_factor, rounding = self._window(epsilon)
        start = min(max(math.ceil(epsilon / self.step) - first, 0), len(masses))
        excess = (first + np.arange(start, len(masses))) * self.step - epsilon
        weights = -np.expm1(-excess) * np.exp(-tilt * excess)
        value = float(masses[start:] @ weights)
        error = rounding * float(np.linalg.norm(weights)) + 3 * math.exp(-_TAIL)
        slack = 16 * _UNIT * (self.count + abs(log_factor) + tilt * abs(epsilon) + len(weights))
        factor = math.exp(log_factor - tilt * epsilon)
        return value * factor, (error + slack * value) * factor

    def upper(self, epsilon: float) -> float:
        """An upper bound on δ(ε)."""
        value, error = self._finite(epsilon)
        return min(1.0, (self._infinite + value + error) * (1 + 8 * _UNIT))

    def lower(self, epsilon: float) -> float:
        """A lower bound on δ(ε).

        The spread adds to the loss a sum of independent errors, each of range ``step`` and of mean at most
        step²/8 (nearly), so by hoeffding1963 it exceeds ``shift`` with probability at most q.
        """
        rough = self.upper(epsilon)
        drift = self.count * self.step**3 / (8 * -math.expm1(-self.step)) * 1.001
        best = 0.0
        for share in (1e-1, 1e-2, 1e-4):
            q = max(share * rough, 1e-300)
            shift = drift + self.step * math.sqrt(self.count * math.log(1 / q) / 2) + self._moved
            value, error = self._finite(epsilon + shift)
            kept = (value - error) * (1 - 2 * self.count * _INFLATION)
            best = max(best, kept + self._infinite * (1 - 8 * _UNIT) - q - 2 * self._neglected)
        return best

    @cached_property
    def vertices(self) -> tuple[Array, Array]:
        """Type-I and type-II errors of the tests "reject where the loss is above l", both rounded down."""
        first, masses, _, log_factor, rounding = self._convolve(0.0)
        losses = (first + np.arange(len(masses))) * self.step
        error = rounding * math.sqrt(len(losses)) + 3 * math.exp(-_TAIL)
        scale = math.exp(log_factor)
        ratio = np.exp(-np.clip(losses, -300.0, 300.0))[::-1]
        other = np.cumsum(masses[::-1] * ratio) * (1 - 4 * self.count * _INFLATION)
        other -= rounding * np.sqrt(np.cumsum(ratio**2)) + 3 * math.exp(-_TAIL) * ratio
        alpha = np.maximum.accumulate(np.concatenate([[0.0], scale * other]))
        power = self._infinite + error + scale * np.concatenate([[0.0], np.cumsum(masses[::-1])])
        return alpha, np.maximum(1 - power, 0.0)


def _power(values: NDArray[np.complex128], times: int) -> NDArray[np.complex128]:
    """values^times by repeated squaring, whose rounding error is easier to bound than that of exp and log."""
    result = np.ones_like(values)
    while times:
        if times & 1:
            result = result * values
        times >>= 1
        if times:
            values = values * values
    return result


# ---- Curve profiles: what the privacy curve of a mechanism says besides its own numbers


_KNOTS = 128


class CurveProfile(Profile):
    """A profile that answers from its curve δ(ε) alone what has no closed form: trade-offs and privacy losses."""

    made_of: ClassVar[tuple[str, ...]] = ()
    """The attributes that make the curve; profiles with the same ones are equal. Without any, each is its own."""

    def to_dict(self) -> dict[str, Any]:
        name = re.sub("(?<=[a-z])(?=[A-Z])", "_", type(self).__name__.removesuffix("Profile")).lower()
        return {"profile": name, **{fact: json_ready(getattr(self, fact)) for fact in self.made_of}}

    def _key(self) -> tuple[Any, ...]:
        return tuple(getattr(self, fact) for fact in self.made_of) or (id(self),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CurveProfile) and type(self) is type(other) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        facts = {name: one for name, one in self.to_dict().items() if name != "profile"}
        return f"{type(self).__name__}({', '.join(f'{name}={one}' for name, one in facts.items())})"

    @abstractmethod
    def _reach(self) -> float:
        """An ε beyond which the curve no longer matters for trade-offs."""

    def losses(self) -> list[tuple[PrivacyLoss, int]]:
        """Independent privacy losses that add up to this profile's, each with its number of repetitions.

        By default one loss on a few hundred points, made from the curve alone; it dominates the true one.
        """
        return [(curve_loss(self._delta, self._reach()), 1)]

    def tradeoff(self, alpha: ArrayLike) -> Curve:
        """The smallest type-II error of any test between the worst neighbours at type-I error ``alpha``.

        Examples
        --------
        >>> from discreet.mechanisms.laplace import LaplaceProfile
        >>> LaplaceProfile([1]).tradeoff([0.0, 0.25, 1.0]).round(4)
        array([1.    , 0.3679, 0.    ])
        """
        return self._tradeoff(type_one(alpha))

    def _tradeoff(self, alpha: NDArray[np.float64]) -> Curve:
        # f(α) is the largest 1 − δ(ε) − e^ε·α and e^{−ε}·(1 − δ(ε) − α) over ε ≥ 0: each is a valid lower
        # bound (dong2022, Proposition 2.12), so the search over ε needs no certificate.
        half = np.linspace(0.0, self._reach(), _KNOTS)
        kept = 1 - np.array([self._delta(float(knot)) for knot in half])
        knots, kept = np.concatenate([-half[:0:-1], half]), np.concatenate([kept[:0:-1], kept])
        return plain(np.array([self._power(a, knots, kept) for a in alpha.ravel().tolist()]).reshape(alpha.shape))

    def _power(self, alpha: float, knots: NDArray[np.float64], kept: NDArray[np.float64]) -> float:
        from scipy.optimize import minimize_scalar

        def height(epsilon: float) -> float:  # below 0: the second of the two bounds, at −ε
            rest = 1 - self._delta(abs(epsilon))
            return rest - math.exp(epsilon) * alpha if epsilon >= 0 else math.exp(epsilon) * (rest - alpha)

        heights = np.where(knots >= 0, kept - np.exp(knots) * alpha, np.exp(np.minimum(knots, 0.0)) * (kept - alpha))
        best = int(np.argmax(heights))
        window = (float(knots[max(best - 1, 0)]), float(knots[min(best + 1, len(knots) - 1)]))
        found = minimize_scalar(lambda e: -height(e), bounds=window, method="bounded", options={"xatol": 1e-9})
        return max(0.0, height(float(knots[best])), -float(found.fun))


def privacy_losses(profile: Profile) -> list[tuple[PrivacyLoss, int]]:
    """The losses of a profile; of one that states none, a loss that its curve up to δ = 1e-12 dominates."""
    if isinstance(profile, CurveProfile):
        return profile.losses()
    return [(curve_loss(profile.delta_at, min(profile.epsilon_at(1e-12), 700.0)), 1)]


# ---- Envelopes: certified proofs that one privacy curve lies above another everywhere


_MOST_CELLS = 5000
_BITS = 192


def dominates(mu: arb, delta: Callable[[Fraction], arb], total: Fraction) -> bool:
    """True where δ_μ(ε) ≥ δ(ε) is proved for every ε, so that a mechanism with the curve ``delta`` is μ-GDP.

    The curve is that of a symmetric set of pairs, in ball arithmetic, and 0 from the largest loss ``total`` on.
    Both curves are convex in x = e^ε. On a cell [x₀, x₁] the Gaussian one lies above its tangent at the
    middle and the other below its chord, so two comparisons at the ends settle the whole cell; a cell that
    they do not settle is halved. Symmetric pairs need ε ≥ 0 only, and δ(ε) = 0 beyond the curve's total.
    """
    # A comparison of balls is true only when it is certain: a doubt halves a cell and never passes it.
    with precisely(_BITS):
        known: dict[Fraction, arb] = {}
        cells = [(Fraction(0), total)]
        for _ in range(_MOST_CELLS):
            if not cells:
                return True
            low, high = cells.pop()
            for end in (low, high):
                if end not in known:
                    known[end] = delta(end)
                    if gaussian_delta(mu, end) < known[end]:
                        return False
            if not _settled(mu, low, high, known):
                middle = (low + high) / 2
                cells += [(low, middle), (middle, high)]
        return False


def _settled(mu: arb, low: Fraction, high: Fraction, known: dict[Fraction, arb]) -> bool:
    centre = (low + high) / 2
    # dδ_μ/dx = −Φ(−μ/2 − ε/μ): the terms that contain the density cancel.
    height = gaussian_delta(mu, centre)
    slope = -normal_cdf(-mu / 2 - ball(centre) / mu)
    at = ball(centre).exp()
    return all(bool(height + slope * (ball(end).exp() - at) >= known[end]) for end in (low, high))


def supremum(function: Callable[[float], float], low: float, high: float) -> float:
    """The largest value of a function that is smooth between few kinks; a numerical estimate, not a bound."""
    from scipy.optimize import minimize_scalar

    grid = np.linspace(low, high, 33)
    values = [function(float(x)) for x in grid]
    best = int(np.argmax(values))
    window = (float(grid[max(best - 1, 0)]), float(grid[min(best + 1, len(grid) - 1)]))
    found = minimize_scalar(lambda x: -function(x), bounds=window, method="bounded", options={"xatol": 1e-12})
    return max(values[best], -float(found.fun))


def gaussian_parameter(epsilon: float, delta: float) -> float:
    """A float solution μ of δ_μ(ε) = δ; only a starting point for certified searches."""
    from scipy.optimize import brentq

    if delta < 1e-300:
        return 0.0
    exact = Fraction(epsilon)

    def excess(log_mu: float) -> float:
        value = gaussian_delta(ball(math.exp(log_mu)), exact)
        return float(value.log()) - math.log(delta) if value > 0 else -1e9

    return math.exp(brentq(excess, -700.0, 8.0, xtol=1e-15, rtol=1e-15))


def first_certified(guess: float, holds: Callable[[float], bool]) -> float:
    """The first of guess·(1 + 2^{−46}), guess·(1 + 2^{−44}), … for which a certificate exists."""
    # Each step gives up two bits of tightness, never of rigour: only what is certified is returned.
    for bits in range(46, 0, -2):
        candidate = guess * (1 + 2.0**-bits)
        if holds(candidate):
            return candidate
    raise ArithmeticError("no certificate was found near the numerical solution")


# ---- Calibration: what the searches for the least noise share.
#
# A scale is a float that the sampler uses as it stands, so its binary value counts; the guarantee is the decimal it
# prints as. A search returns a float for which the true parameter of the noise is *proved* not to exceed the guarantee.


def refuse_nothing(guarantee: Guarantee) -> None:
    """Refuse what is no guarantee, and a guarantee that allows nothing."""
    requirements.instance("guarantee", guarantee, Guarantee, "a guarantee such as PureDP(1.0)")
    if not any(guarantee.parameters().values()):
        fix = "Raise it above 0."
        raise InvalidParameter("guarantee", guarantee, "allows no information at all, so no finite noise meets it", fix)


def least_scale(holds: Callable[[float], bool], guess: float, guarantee: Guarantee) -> float:
    """The smallest scale that ``holds``, a monotone predicate."""
    try:
        return least(holds, guess)
    except ArithmeticError:
        raise InvalidParameter(
            "guarantee", guarantee, "needs a noise scale beyond the largest float", "Raise it."
        ) from None


def quotient(bound: Fraction, parameter: Fraction) -> float:
    """bound / parameter as a finite float, to start a search from."""
    return float(min(bound / parameter, Fraction(sys.float_info.max)))


def working_bits(delta: float) -> int:
    """Enough bits to tell numbers of the size of δ apart after cancellation against 1."""
    return PRECISION + max(0, -math.frexp(delta)[1])


# ---- Implied profile: the privacy curve that follows from a stated guarantee alone


class ImpliedProfile(CurveProfile):
    """The privacy curve that a guarantee implies: that of the worst mechanism that satisfies it.

    Parameters
    ----------
    stated
        The guarantee that was proved.

    Examples
    --------
    >>> ImpliedProfile(PureDP(1.0)).delta_at(0.0) == PureDP(1.0).delta_at(0.0)
    True
    """

    def __init__(self, stated: Guarantee) -> None:
        self.stated = stated

    def _delta(self, epsilon: float) -> float:
        return self.stated.delta_at(epsilon)

    def _epsilon(self, delta: float) -> float:
        return self.stated.epsilon_at(delta)

    def pure(self) -> PureDP:
        return self.stated.to(PureDP)

    def gaussian(self) -> GaussianDP:
        return self.stated.to(GaussianDP)

    def concentrated(self) -> ZeroConcentratedDP:
        return self.stated.to(ZeroConcentratedDP)

    def guarantee(self, kind: type[Guarantee], *, delta: float | None = None) -> Guarantee:
        """The stated guarantee where it has the kind asked for, else what it implies."""
        if kind is ApproxDP and delta is None and isinstance(self.stated, ApproxDP):
            return self.stated
        return super().guarantee(kind, delta=delta)

    def within(self, budget: Guarantee) -> bool:
        """True where the stated guarantee implies ``budget``."""
        return self.stated.within(budget)

    def _reach(self) -> float:
        return min(
            self.stated.epsilon_at(1e-12) if not isinstance(self.stated, ApproxDP) else self.stated.epsilon, 700.0
        )

    def to_dict(self) -> dict[str, Any]:
        return {"profile": "implied", "stated": self.stated.to_dict()}

    def __str__(self) -> str:
        return f"the worst mechanism within {self.stated}"
