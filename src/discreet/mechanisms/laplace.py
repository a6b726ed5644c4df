"""The Laplace mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from discreet.core.guarantee import Guarantee, PureDP
from discreet.core.noise.laws import LaplaceLaw, LocationLaw
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.location_noise import AdditiveNoise

if TYPE_CHECKING:
    from discreet.mechanisms.profile import LaplaceProfile

__all__ = ["Laplace"]


@dataclass(frozen=True)
class Laplace(AdditiveNoise):
    """Independent Laplace noise on every coordinate.

    Guarantee
    ---------
    With t = Δ₁/b it is t-DP, (ε, 1 − e^{(ε−t)/2})-DP for every ε < t, −2Φ⁻¹(e^{−t/2}/2)-GDP and
    (t + e^{−t} − 1)-zCDP, in any dimension and for the neighbour relation of Δ₁. All four are tight for a change
    of one coordinate; where a record is known to move several coordinates (``Sensitivity(moves=…)``) the last
    three are smaller, and computed so. Proofs: ``docs/proofs/laplace.md`` and ``docs/proofs/laplace_gdp.md``.

    Examples
    --------
    >>> from discreet import PureDP, Sensitivity
    >>> Laplace.calibrate(PureDP(1.0), Sensitivity(l1=2.0))
    Laplace(scale=2.0, grid=None)
    """

    name: ClassVar[str] = "laplace"
    _law: ClassVar[type[LocationLaw]] = LaplaceLaw

    @classmethod
    def _scale(cls, guarantee: Guarantee, sensitivity: Sensitivity) -> float:
        from discreet.mechanisms.calibration import laplace_scale

        return laplace_scale(guarantee, sensitivity)

    def profile(self, sensitivity: Sensitivity) -> LaplaceProfile:
        """The exact privacy curve."""
        from discreet.mechanisms.profile import LaplaceProfile

        moves = sensitivity.moves or (sensitivity.require_l1(),)
        return LaplaceProfile(tuple(Fraction(move) / Fraction(self.scale) for move in moves))

    def guarantee(
        self, sensitivity: Sensitivity, kind: type[Guarantee] | None = None, *, delta: float | None = None
    ) -> Guarantee:
        """ε = Δ₁/b, or the tightest guarantee of the kind asked for."""
        return self.profile(sensitivity).guarantee(kind or PureDP, delta=delta)
