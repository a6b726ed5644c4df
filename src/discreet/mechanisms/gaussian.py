"""The Gaussian mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from discreet.core.guarantee import GaussianDP, Guarantee
from discreet.core.noise.laws import GaussianLaw, LocationLaw
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.location_noise import AdditiveNoise

if TYPE_CHECKING:
    from discreet.mechanisms.profile import GaussianProfile

__all__ = ["Gaussian"]


@dataclass(frozen=True)
class Gaussian(AdditiveNoise):
    """Independent normal noise on every coordinate; ``scale`` is its standard deviation.

    Guarantee
    ---------
    With μ = Δ₂/σ it is μ-GDP, μ²/2-zCDP and (ε, Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ))-DP for every ε ≥ 0, all tight, for
    the neighbour relation of Δ₂. It is ε-DP for no ε. Proof: ``docs/proofs/gaussian.md``.

    Examples
    --------
    >>> from discreet import GaussianDP, Sensitivity
    >>> Gaussian.calibrate(GaussianDP(0.5), Sensitivity(l2=1.0))
    Gaussian(scale=2.0, grid=None)
    """

    name: ClassVar[str] = "gaussian"
    _law: ClassVar[type[LocationLaw]] = GaussianLaw

    @classmethod
    def _scale(cls, guarantee: Guarantee, sensitivity: Sensitivity) -> float:
        from discreet.mechanisms.calibration import gaussian_scale

        return gaussian_scale(guarantee, sensitivity)

    def profile(self, sensitivity: Sensitivity) -> GaussianProfile:
        """The exact privacy curve."""
        from discreet.mechanisms.profile import GaussianProfile

        return GaussianProfile(Fraction(sensitivity.require_l2()) / Fraction(self.scale))

    def guarantee(
        self, sensitivity: Sensitivity, kind: type[Guarantee] | None = None, *, delta: float | None = None
    ) -> Guarantee:
        """μ = Δ₂/σ, or the tightest guarantee of the kind asked for."""
        return self.profile(sensitivity).guarantee(kind or GaussianDP, delta=delta)
