"""The Gaussian mechanism: its distribution, its exact privacy curve, its calibration.

Proof: ``docs/proofs/gaussian.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
import scipy  # whose submodules load when first used
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.errors import NoConversion
from discreet.core.guarantee import (
    ApproxDP,
    Curve,
    GaussianDP,
    Guarantee,
    PureDP,
    ZeroConcentratedDP,
    gaussian_delta,
    is_pure,
)
from discreet.core.noise.sampler import Family, Floats, GaussianFamily, Location, plain
from discreet.core.numbers import ball, decimal, least, precisely, thin, up
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms import loss_distribution
from discreet.mechanisms.mechanism import AdditiveNoise, LocationLaw, probabilities

Array = NDArray[np.float64]


class GaussianLaw(LocationLaw):
    """Normal noise with standard deviation ``scale``.

    Examples
    --------
    >>> law = GaussianLaw(10.0, 2.0)
    >>> law.variance, round(law.quantile(0.975), 3)
    (4.0, 13.92)
    """

    @property
    def variance(self) -> Floats:
        """σ²."""
        return plain(np.broadcast_to(self.scale**2, self._shape))

    def pdf(self, x: ArrayLike) -> Floats:
        """Density."""
        z = self._standardised(x)
        return plain(np.exp(-z * z / 2) / (math.sqrt(2 * math.pi) * self.scale))

    def cdf(self, x: ArrayLike) -> Floats:
        """Distribution function."""
        return plain(scipy.special.ndtr(self._standardised(x)))

    def quantile(self, q: ArrayLike) -> Floats:
        """Inverse distribution function."""
        return plain(self.location + self.scale * scipy.special.ndtri(probabilities(q)))

    def _family(self, location: Location, scale: Array, grid: Array, shape: tuple[int, ...]) -> Family:
        return GaussianFamily(scale, scale / grid)

    def _simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return rng.normal(self.location, self.scale, size=shape)


class GaussianProfile(loss_distribution.CurveProfile):
    """Gaussian noise: telling the worst neighbours apart is telling N(0, 1) from N(μ, 1).

    Parameters
    ----------
    mu
        Δ₂ / σ; fractions stay exact.

    Notes
    -----
    **Guarantee.** Exactly μ-GDP and μ²/2-zCDP (lee2022, Theorem 1); never ε-DP.

    Examples
    --------
    >>> print(GaussianProfile(Fraction(1, 2)).gaussian(), GaussianProfile(1).concentrated())
    μ = 0.5 ρ = 0.5
    """

    made_of: ClassVar[tuple[str, ...]] = ("mu",)

    def __init__(self, mu: float | Fraction) -> None:
        self.mu = requirements.exact_positive("mu", mu)

    def _delta(self, epsilon: float) -> float:
        return min(up(thin(lambda: gaussian_delta(ball(self.mu), decimal(epsilon)))), 1.0)

    def _epsilon(self, delta: float) -> float:
        if self._delta(0.0) <= delta:
            return 0.0
        if delta == 0:
            return math.inf
        # The guarantee's μ is rounded up to a float; the exact μ starts the search from there.
        guess = self.gaussian().epsilon_at(delta)
        return least(lambda epsilon: self._delta(epsilon) <= delta, guess)

    def gaussian(self) -> GaussianDP:
        return GaussianDP(up(self.mu))

    def pure(self) -> PureDP:
        raise NoConversion(
            "Gaussian noise has no PureDP guarantee: its privacy loss is unbounded. "
            "Use Laplace noise, or state an ApproxDP guarantee with epsilon_at(delta)."
        )

    def concentrated(self) -> ZeroConcentratedDP:
        return ZeroConcentratedDP(up(self.mu**2 / 2))

    def losses(self) -> list[tuple[loss_distribution.PrivacyLoss, int]]:
        return [(loss_distribution.gaussian_loss(self.mu**2), 1)]

    def _reach(self) -> float:
        mu = float(self.mu)
        return min(mu**2 / 2 + 9 * mu, 700.0)  # the loss is N(μ²/2, μ²): nine deviations leave less than 1e-18

    def _tradeoff(self, alpha: NDArray[np.float64]) -> Curve:
        return GaussianDP(up(self.mu)).tradeoff(alpha)

    def __str__(self) -> str:
        return f"Gaussian noise, shifted by {float(self.mu):.6g} standard deviations"


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
    if is_pure(guarantee):
        raise NoConversion(
            "Gaussian noise never meets a PureDP guarantee: its privacy loss is unbounded. "
            "Ask for ApproxDP with δ > 0, or use Laplace noise."
        )
    loss_distribution.refuse_nothing(guarantee)
    requirements.instance("sensitivity", sensitivity, Sensitivity, "Sensitivity(l2=1.0)")
    bound = Fraction(sensitivity.require_l2())
    if isinstance(guarantee, GaussianDP):
        mu = decimal(guarantee.mu)
        return loss_distribution.least_scale(
            lambda s: bound <= mu * Fraction(s), loss_distribution.quotient(bound, mu), guarantee
        )
    if isinstance(guarantee, ZeroConcentratedDP):
        rho = decimal(guarantee.rho)
        guess = float(bound) / math.sqrt(2 * guarantee.rho)
        return loss_distribution.least_scale(lambda s: bound**2 <= 2 * rho * Fraction(s) ** 2, guess, guarantee)
    return _gaussian_approximate(guarantee.to(ApproxDP), bound)


def _gaussian_approximate(guarantee: ApproxDP, bound: Fraction) -> float:
    epsilon = decimal(guarantee.epsilon)
    with precisely(loss_distribution.working_bits(guarantee.delta)):
        delta = ball(decimal(guarantee.delta))
        guess = float(bound) / loss_distribution.gaussian_parameter(guarantee.epsilon, guarantee.delta)
        return loss_distribution.least_scale(
            lambda s: bool(gaussian_delta(ball(bound / Fraction(s)), epsilon) <= delta), guess, guarantee
        )


@dataclass(frozen=True)
class Gaussian(AdditiveNoise):
    """Independent normal noise on every coordinate; ``scale`` is its standard deviation.

    Guarantee
    ---------
    With μ = Δ₂/σ it is μ-GDP, μ²/2-zCDP and (ε, Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ))-DP for every ε ≥ 0, all tight, for
    the neighbour relation of Δ₂. It is ε-DP for no ε. Proof: ``docs/proofs/gaussian.md``.

    Examples
    --------
    >>> from discreet import GaussianDP
    >>> from discreet.core.sensitivity import Sensitivity
    >>> Gaussian.calibrate(GaussianDP(0.5), Sensitivity(l2=1.0))
    Gaussian(scale=2.0, grid=None)
    """

    name: ClassVar[str] = "gaussian"
    own_kind: ClassVar[type[Guarantee]] = GaussianDP
    _law: ClassVar[type[LocationLaw]] = GaussianLaw

    @classmethod
    def calibrate(cls, guarantee: Guarantee, sensitivity: Sensitivity, *, grid: float | None = None) -> Self:
        """The least noise that meets ``guarantee`` for ``sensitivity``; the scale is rounded up."""
        return cls(gaussian_scale(guarantee, sensitivity), grid)

    def profile(self, sensitivity: Sensitivity) -> GaussianProfile:
        """The exact privacy curve."""
        return GaussianProfile(Fraction(sensitivity.require_l2()) / Fraction(self.scale))
