"""The discrete Gaussian mechanism: whole-number noise for ρ-zCDP; its law, its calibration.

Proofs: ``docs/proofs/discrete_gaussian.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.noise.exact_draws import Family
from discreet.core.noise.location import Location
from discreet.core.noise.truth import Floats, Truth, plain
from discreet.core.rounding import decimal
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.calibration import least_scale, refuse_nothing
from discreet.mechanisms.discrete_gaussian_family import LARGEST_SCALE, DiscreteGaussianFamily, magnitude_table
from discreet.mechanisms.discrete_gaussian_profile import DiscreteGaussianProfile
from discreet.mechanisms.envelope import gaussian_parameter
from discreet.mechanisms.location_noise import LocationLaw, probabilities
from discreet.mechanisms.whole_noise import WholeNoise, whole_truth

if TYPE_CHECKING:
    from discreet.core.exact import Exact

__all__ = ["DiscreteGaussian", "DiscreteGaussianLaw"]

Array = NDArray[np.float64]

_ON_A_STEP = 1e-11
"""A probability this close to one that the distribution function takes counts as that one."""


class DiscreteGaussianLaw(LocationLaw):
    """Discrete Gaussian noise: P(truth + k) ∝ e^{−k²/2σ²} for whole k.

    Examples
    --------
    >>> law = DiscreteGaussianLaw(10, 1.0)
    >>> law.mean, round(law.variance, 6), round(law.pdf(10), 4), law.quantile([0.025, 0.5, 0.975]).tolist()
    (10.0, 1.0, 0.3989, [8.0, 10.0, 12.0])
    >>> round(DiscreteGaussianLaw(0, 0.4).variance, 4)  # less than σ² = 0.16
    0.0808
    """

    def __init__(self, location: Truth, scale: float) -> None:
        super().__init__(whole_truth(location), _scale(scale), grid=1.0)
        self._table = magnitude_table(float(self.scale))

    @property
    def variance(self) -> Floats:
        """Σ k²·P(k), which is at most σ²."""
        steps = np.arange(1, self._table.weights.size + 1)
        return plain(np.broadcast_to(2 * float(steps**2 @ self._table.weights), self._shape))

    def pdf(self, x: ArrayLike) -> Floats:
        """Probability of ``x``; 0 where it is not a whole number."""
        distance = np.abs(np.asarray(x, dtype=float) - self.location)
        with np.errstate(over="ignore"):
            chance = self._table.centre * np.exp(-((distance / self.scale) ** 2) / 2)
        return plain(np.where(distance == np.floor(distance), chance, 0.0))

    def cdf(self, x: ArrayLike) -> Floats:
        """Distribution function."""
        steps = np.floor(np.asarray(x, dtype=float) - self.location)
        beyond = self._beyond(np.where(steps < 0, -steps, steps + 1))
        return plain(np.where(steps < 0, beyond, 1 - beyond))

    def _beyond(self, steps: Array) -> Array:
        """P(K ≥ steps) for whole numbers of at least one."""
        tails = np.append(self._table.tails / 2, 0.0)
        return np.asarray(tails[np.minimum(steps, tails.size).astype(np.int64) - 1])

    def quantile(self, q: ArrayLike) -> Floats:
        """The smallest whole number x with P(output ≤ x) ≥ q."""
        p = probabilities(q)
        half = self._table.rising / 2
        # Below ½ the tails of at least p count, above it those that exceed 1 − p.
        low = half.size - np.searchsorted(half, p * (1 - _ON_A_STEP), side="left")
        high = half.size - np.searchsorted(half, (1 - p) * (1 + _ON_A_STEP), side="right")
        steps = np.where(p <= 0.5, -low, high).astype(float)
        steps = np.where(p == 0, -math.inf, np.where(p == 1, math.inf, steps))
        return plain(self.location + steps)

    def _family(self, location: Location, scale: Array, grid: Array, shape: tuple[int, ...]) -> Family:
        return DiscreteGaussianFamily(float(scale))

    def _simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        sizes = self._table.magnitudes(rng.random(shape))
        return np.asarray(np.where(rng.random(shape) < 0.5, -sizes, sizes) + self.location)


def _scale(scale: Any) -> float:
    number = requirements.positive("scale", scale)
    if number > LARGEST_SCALE:
        raise InvalidParameter(
            "scale",
            scale,
            f"must be at most {LARGEST_SCALE:g}; beyond, rounded Gaussian noise is as good",
            f"Use Gaussian(scale={number:g}, grid=1).",
        )
    return number


@dataclass(frozen=True)
class DiscreteGaussian(WholeNoise):
    """Independent discrete Gaussian noise on every coordinate: whole numbers stay whole numbers.

    A truth that is not a whole number is rounded first (halves up), which no neighbour can exploit.

    Parameters
    ----------
    scale
        σ in e^{−k²/2σ²}: at the same ρ that of Gaussian noise, with no more variance. At most 1024.

    Guarantee
    ---------
    With whole moves m_i it is Σm_i²/2σ²-zCDP, exactly, for the neighbour relation of the moves (canonne2020). It is
    ε-DP for no ε, and not μ-GDP with μ = Δ₂/σ. Moves that are not whole numbers are rounded up.
    Proof: ``docs/proofs/discrete_gaussian.md``.

    Examples
    --------
    >>> from discreet import Sensitivity, ZeroConcentratedDP
    >>> noise = DiscreteGaussian.calibrate(ZeroConcentratedDP(0.125), Sensitivity(moves=(1,)))
    >>> noise, noise.confidence_interval(120, 0.95)
    (DiscreteGaussian(scale=2.0), (116.0, 124.0))
    """

    name: ClassVar[str] = "discrete_gaussian"
    words: ClassVar[str] = "discrete Gaussian noise"
    own_kind: ClassVar[type[Guarantee]] = ZeroConcentratedDP

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _scale(self.scale))

    @classmethod
    def calibrate(cls, guarantee: Guarantee, sensitivity: Sensitivity) -> Self:
        """The least noise that meets ``guarantee`` for ``sensitivity``; the scale is rounded up."""
        refuse_nothing(guarantee)
        if isinstance(guarantee, PureDP) or (isinstance(guarantee, ApproxDP) and guarantee.delta == 0):
            raise NoConversion(
                f"discrete Gaussian noise cannot meet {guarantee}: its privacy loss is unbounded. Use Geometric noise."
            )
        if isinstance(guarantee, GaussianDP):
            raise NoConversion(
                f"discrete Gaussian noise is not stated in μ, so not in {guarantee}. Use Gaussian noise."
            )
        norm = Fraction(_profile(Fraction(1), sensitivity).norm)
        if isinstance(guarantee, ZeroConcentratedDP):
            rho = decimal(guarantee.rho)
            guess = math.sqrt(norm / (2 * rho))
            return cls(least_scale(lambda scale: norm <= 2 * rho * Fraction(scale) ** 2, guess, guarantee))
        approximate = guarantee.to(ApproxDP)
        guess = math.sqrt(norm) / gaussian_parameter(approximate.epsilon, approximate.delta)
        return cls(least_scale(lambda scale: cls(scale).profile(sensitivity).within(guarantee), guess, guarantee))

    def law(self, truth: Truth) -> DiscreteGaussianLaw:
        """The exact distribution of the output given the truth."""
        return DiscreteGaussianLaw(truth, self.scale)

    def profile(self, sensitivity: Sensitivity) -> DiscreteGaussianProfile:
        """The exact privacy curve."""
        return _profile(Fraction(self.scale) ** 2, sensitivity)

    def check(self, exact: Exact) -> None:
        """Refuse several numbers that need not be whole, where only a norm is known: rounding could move each."""
        self._need_moves(exact, several=max(np.asarray(exact.value).size, exact.sensitivity.dimension or 1) > 1)


def _profile(square: Fraction, sensitivity: Sensitivity) -> DiscreteGaussianProfile:
    """The curve for σ² = ``square``; one number moves by the next whole one, a vector by a whole squared norm."""
    requirements.instance("sensitivity", sensitivity, Sensitivity, "Sensitivity(moves=(1,))")
    if sensitivity.moves is not None:
        return DiscreteGaussianProfile(square, [math.ceil(move) for move in sensitivity.moves])
    bound = Fraction(sensitivity.require_l2())
    if sensitivity.dimension == 1 or bound <= 1:  # a whole vector of norm 1 moves in one coordinate, by one
        return DiscreteGaussianProfile(square, [math.ceil(bound)])
    several = (sensitivity.dimension or 1) > 1
    return DiscreteGaussianProfile(square, norm=math.floor(bound**2) if several else math.ceil(bound) ** 2)
