"""The geometric mechanism: whole-number noise for whole numbers; its law, its calibration.

Proofs: ``docs/proofs/geometric.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.guarantee import GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.noise.exact_draws import Family
from discreet.core.noise.families import GeometricFamily
from discreet.core.noise.location import Location
from discreet.core.noise.truth import Floats, Truth, plain
from discreet.core.rounding import decimal, not_below
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.calibration import exact_moves, least_scale, refuse_nothing
from discreet.mechanisms.geometric_profile import GeometricProfile
from discreet.mechanisms.location_noise import LocationLaw, probabilities
from discreet.mechanisms.whole_noise import WholeNoise, whole_truth

if TYPE_CHECKING:
    from discreet.core.exact import Exact

__all__ = ["Geometric", "GeometricLaw"]

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
    >>> from discreet import PureDP, Sensitivity
    >>> noise = Geometric.calibrate(PureDP(1.0), Sensitivity(moves=(1,)))
    >>> noise, noise.confidence_interval(120, 0.95)
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
        moves, unit = exact_moves(sensitivity), 1 / Fraction(self.scale)
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
