"""The geometric mechanism: whole-number noise for whole numbers; its distribution, its calibration.

Proofs: ``docs/proofs/geometric.md``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import ClassVar, Self

import numpy as np
from flint import arb, arb_poly
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.noise.sampler import Family, Floats, GeometricFamily, Location, Truth, plain
from discreet.core.numbers import ball, decimal, least, not_below, precisely, thin, up
from discreet.core.sensitivity import Exact, Sensitivity, exact_moves
from discreet.mechanisms.loss_distribution import CurveProfile, PrivacyLoss, geometric_loss, least_scale, refuse_nothing
from discreet.mechanisms.mechanism import LocationLaw, WholeNoise, probabilities, whole_truth

# ---- The exact privacy curve of two-sided geometric noise: finitely many losses, so every number is a finite sum
#
# Proofs: ``docs/proofs/geometric.md``.


_MOST_LOSSES = 4096
"""A longer list of losses is replaced by two, ±T·unit, which dominate it (section 5)."""


class GeometricProfile(CurveProfile):
    """Two-sided geometric noise of one scale on every coordinate; the worst neighbour moves coordinate i by m_i.

    Parameters
    ----------
    unit
        1/b, the loss of a move by one; a fraction stays exact.
    moves
        The whole numbers m_i of the coordinates that move.

    Notes
    -----
    **Guarantee.** With T = Σ m_i the curve is exactly T·unit-DP; δ(ε), ρ and μ are finite sums, all of them tight.
    Where T is above 4,096 they are those of randomised response with ε = T·unit, an upper bound.

    Examples
    --------
    >>> count = GeometricProfile(Fraction(1), [1])
    >>> print(count.pure(), count.concentrated(), count.gaussian())
    ε = 1 ρ = 0.462117 μ = 1.23204
    """

    made_of: ClassVar[tuple[str, ...]] = ("unit", "moves")

    def __init__(self, unit: float | Fraction, moves: Sequence[int]) -> None:
        exact = requirements.exact_positive("unit", unit)
        sizes = sorted((requirements.positive_integer("moves", move) for move in moves), reverse=True)
        if not sizes:
            raise InvalidParameter("moves", moves, "must not be empty", "Pass one move per moved coordinate.")
        total = sum(sizes)
        self.unit, self.moves = (exact, tuple(sizes)) if total <= _MOST_LOSSES else (exact * total, (1,))
        self.total = sum(self.moves)

    @cached_property
    def _counted(self) -> list[tuple[int, int]]:
        return list(Counter(self.moves).items())

    def _masses(self) -> list[arb]:
        """P(J = j) for j = 0, …, T, where the loss is (T − 2J)·unit, at the working precision."""
        product = arb_poly([1])
        for move, times in self._counted:
            product *= arb_poly(_one_coordinate(self.unit, move)) ** times
        return [product[j] for j in range(self.total + 1)]

    def _excess(self, epsilon: Fraction) -> arb:
        """Σ P(J)·(1 − e^{ε − loss}) over the losses above ε."""
        sum_ = arb(0)
        for j, mass in enumerate(self._masses()):
            gap = epsilon - (self.total - 2 * j) * self.unit
            if gap >= 0:
                break
            sum_ -= mass * ball(gap).expm1()
        return sum_

    def _delta(self, epsilon: float) -> float:
        exact = decimal(epsilon)
        if exact >= self.total * self.unit:  # no outcome loses more, and a ball around 0 would never get thin
            return 0.0
        return min(up(thin(lambda: self._excess(exact))), 1.0)

    def _epsilon(self, delta: float) -> float:
        if delta == 0:
            return up(self.total * self.unit)
        if self._delta(0.0) <= delta:
            return 0.0
        with precisely():
            # Exact where only the largest loss exceeds ε, as it does for a single count.
            kept = 1 - ball(decimal(delta)) / self._masses()[0]
            guess = float(ball(self.total * self.unit) + kept.log()) if kept > 0 else 0.0
        return least(lambda epsilon: self._delta(epsilon) <= delta, max(guess, 1e-9))

    def pure(self) -> PureDP:
        return PureDP(up(self.total * self.unit))

    def concentrated(self) -> ZeroConcentratedDP:
        def divergence() -> arb:
            return sum((times * _mean_loss(self.unit, move) for move, times in self._counted), arb(0))

        return ZeroConcentratedDP(up(thin(divergence)))

    def gaussian(self) -> GaussianDP:
        """The tightest μ: the trade-off function is a polygon, and G_μ lies below it where it does at the corners."""
        with precisely():
            beyond = list(accumulate(reversed(self._masses()[1:])))[::-1]  # P(J > k) for k = 0, …, T − 1
            quantiles = [(2 * tail).erfcinv() * arb(2).sqrt() for tail in beyond]
            pairs = zip(quantiles, reversed(quantiles), strict=True)
            return GaussianDP(max(up(one + other) for one, other in pairs))

    def losses(self) -> list[tuple[PrivacyLoss, int]]:
        return [(geometric_loss(self.unit, move), times) for move, times in self._counted]

    def _reach(self) -> float:
        return min(float(self.total * self.unit), 700.0)


def _one_coordinate(unit: Fraction, move: int) -> list[arb]:
    """Probabilities of the losses (m − 2j)·unit, j = 0, …, m, of one coordinate (section 2)."""
    shrink = (-ball(unit)).exp()
    first, inner = 1 / (1 + shrink), (1 - shrink) / (1 + shrink)
    return [first, *(inner * shrink**j for j in range(1, move)), first * shrink**move]


def _mean_loss(unit: Fraction, move: int) -> arb:
    """E L, which is the tight ρ of one coordinate (section 4)."""
    masses = _one_coordinate(unit, move)
    return ball(unit) * sum(((move - 2 * j) * mass for j, mass in enumerate(masses)), arb(0))


Array = NDArray[np.float64]

_ON_A_STEP = 1e-11
"""A probability this close to one that the distribution function takes counts as that one."""


class GeometricLaw(LocationLaw):
    """Two-sided geometric noise: P(truth + k) = (1 − a)/(1 + a)·a^|k| for whole k, a = e^{−1/b}.

    Examples
    --------
    >>> law = GeometricLaw(10, 1.0)
    >>> law.mean, round(law.variance, 4), round(law.pdf(10), 4), law.quantile([0.025, 0.5, 0.975]).tolist()
    (10.0, 1.8413, 0.4621, [7.0, 10.0, 13.0])
    """

    def __init__(self, location: Truth, scale: ArrayLike) -> None:
        super().__init__(whole_truth(location), scale, grid=1.0)
        self._shrink = np.exp(-1 / self.scale)

    @property
    def variance(self) -> Floats:
        """2a/(1 − a)², here as ½/sinh²(1/2b)."""
        with np.errstate(over="ignore"):
            return plain(np.broadcast_to(0.5 / np.sinh(0.5 / self.scale) ** 2, self._shape))

    def pdf(self, x: ArrayLike) -> Floats:
        """Probability of ``x``; 0 where it is not a whole number."""
        distance = np.abs(np.asarray(x, dtype=float) - self.location)
        chance = np.tanh(0.5 / self.scale) * np.exp(-distance / self.scale)
        return plain(np.where(distance == np.floor(distance), chance, 0.0))

    def cdf(self, x: ArrayLike) -> Floats:
        """Distribution function."""
        steps = np.floor(np.asarray(x, dtype=float) - self.location)
        tail = np.exp(-np.where(steps < 0, -steps, steps + 1) / self.scale) / (1 + self._shrink)
        return plain(np.where(steps < 0, tail, 1 - tail))

    def quantile(self, q: ArrayLike) -> Floats:
        """The smallest whole number x with P(output ≤ x) ≥ q."""
        p = probabilities(q)
        with np.errstate(divide="ignore"):
            tail = -self.scale * np.log(np.minimum(p, 1 - p) * (1 + self._shrink))
        slack = _ON_A_STEP * (1 + np.abs(np.where(np.isfinite(tail), tail, 0.0)))
        steps = np.where(p <= 0.5, np.ceil(-tail - slack), np.ceil(tail - 1 - slack))
        return plain(self.location + steps + 0.0)

    def _family(self, location: Location, scale: Array, grid: Array, shape: tuple[int, ...]) -> Family:
        return GeometricFamily(scale)

    def _simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        # The whole part of an exponential variable is geometric, and the difference of two of them is two-sided.
        up, down = (np.floor(rng.exponential(size=shape) * self.scale) for _ in range(2))
        return np.asarray(up - down + self.location)


@dataclass(frozen=True)
class Geometric(WholeNoise):
    """Independent two-sided geometric noise on every coordinate: whole numbers stay whole numbers.

    A truth that is not a whole number is rounded first (halves up), which no neighbour can exploit.

    Parameters
    ----------
    scale
        b in e^{−|k|/b}: as for Laplace noise, Δ₁/ε meets ε-DP, with less variance.

    Guarantee
    ---------
    With whole moves m_i and T = Σ m_i it is T/b-DP; δ(ε), ρ and μ are exact finite sums (`GeometricProfile`). Moves
    that are not whole numbers are rounded up. Under ε-DP no other noise on a count has a smaller expected error
    (ghosh2009). Proof: ``docs/proofs/geometric.md``.

    Examples
    --------
    >>> from discreet import PureDP
    >>> from discreet.core.sensitivity import Sensitivity
    >>> noise = Geometric.calibrate(PureDP(1.0), Sensitivity(moves=(1,)))
    >>> noise, noise.noise_interval(120, 0.95)
    (Geometric(scale=1.0), (117.0, 123.0))
    """

    name: ClassVar[str] = "geometric"
    words: ClassVar[str] = "geometric noise"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", requirements.positive("scale", self.scale))

    @classmethod
    def calibrate(cls, guarantee: Guarantee, sensitivity: Sensitivity) -> Self:
        """The least noise that meets ``guarantee`` for ``sensitivity``; the scale is rounded up."""
        refuse_nothing(guarantee)
        total = sum(exact_moves(sensitivity), Fraction(0))
        guess = float(total) / _reach(guarantee)
        if isinstance(guarantee, PureDP):  # ε is exact; a search by guarantees could leave their range
            unit = cls(1.0).profile(sensitivity)  # it takes moves in whole numbers, rounded up
            return cls(not_below(unit.total * unit.unit / decimal(guarantee.epsilon)))
        return cls(least_scale(lambda scale: cls(scale).profile(sensitivity).within(guarantee), guess, guarantee))

    def law(self, truth: Truth) -> GeometricLaw:
        """The exact distribution of the output given the truth."""
        return GeometricLaw(truth, self.scale)

    def profile(self, sensitivity: Sensitivity) -> GeometricProfile:
        """The exact privacy curve; where only ℓ₁ is known, the curve of the worst mechanism with the same ε."""
        moves = exact_moves(sensitivity)
        unit = 1 / Fraction(self.scale)
        if sensitivity.moves is None:
            return GeometricProfile(math.ceil(moves[0]) * unit, [1])
        return GeometricProfile(unit, [math.ceil(move) for move in moves])

    def check(self, exact: Exact) -> None:
        """Refuse several numbers that need not be whole, where only ℓ₁ is known: rounding could move each of them."""
        self._need_moves(exact, several=np.asarray(exact.value).size > 1)


def _reach(guarantee: Guarantee) -> float:
    """The loss T/b that one moved coordinate may have, to start the search from."""
    if isinstance(guarantee, ZeroConcentratedDP):
        return max(math.sqrt(2 * guarantee.rho), guarantee.rho)
    if isinstance(guarantee, GaussianDP):
        return float(guarantee.mu)
    (epsilon, delta) = (*guarantee.parameters().values(), 0.0)[:2]
    # Randomised response with e^t = (e^ε + δ)/(1 − δ) is (ε, δ)-DP.
    return float(epsilon + math.log1p(delta * math.exp(-epsilon)) - math.log1p(-delta))
