"""The exact privacy curve of discrete Gaussian noise.

Proofs: ``docs/proofs/discrete_gaussian.md``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

from flint import arb

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import GaussianDP, PureDP, ZeroConcentratedDP
from discreet.core.privacy_curve import PrivacyCurve
from discreet.core.rounding import ball, decimal, least, thin, up
from discreet.mechanisms.curve_profile import CurveProfile, exact_positive
from discreet.mechanisms.discrete_gaussian_family import at_least
from discreet.mechanisms.loss_distribution import Convolution, PrivacyLoss

__all__ = ["DiscreteGaussianProfile"]

_REACH = 38.0
"""Standard deviations kept of the noise when its losses are listed: beyond them lies less than 1e-307."""


class DiscreteGaussianProfile(CurveProfile):
    """Discrete Gaussian noise on every coordinate; the worst neighbour moves coordinate i by the whole number m_i.

    Parameters
    ----------
    square
        σ²; a fraction stays exact.
    moves
        The whole numbers m_i of the coordinates that move; None where only ``norm`` is known.
    norm
        Σ m_i², the squared ℓ₂ norm of the worst move; it follows from ``moves``.

    Notes
    -----
    **Guarantee.** Exactly Σm_i²/2σ²-zCDP, reached at order 2. δ(ε) of one coordinate is the difference of two tails,
    exactly; of several a convolution, rounded up; where only the norm is known, what ρ implies. It is ε-DP for no ε
    and is not Δ₂/σ-GDP.

    Examples
    --------
    >>> count = DiscreteGaussianProfile(Fraction(4), [1])
    >>> print(count.concentrated(), round(count.delta_at(1.0), 6))
    ZeroConcentratedDP(ρ=0.125) 0.007249
    """

    def __init__(self, square: float | Fraction, moves: Sequence[int] | None = None, norm: int | None = None) -> None:
        self.square = exact_positive("square", square)
        self.moves = None if moves is None else tuple(requirements.positive_integer("moves", one) for one in moves)
        if self.moves == () or (self.moves is None and norm is None):
            raise InvalidParameter("moves", moves, "must not be empty", "Pass one move per moved coordinate.")
        listed = None if self.moves is None else sum(move**2 for move in self.moves)
        self.norm = requirements.positive_integer("norm", norm if listed is None else listed)

    @property
    def rho(self) -> Fraction:
        """Σm_i²/2σ², exactly."""
        return self.norm / (2 * self.square)

    def concentrated(self) -> ZeroConcentratedDP:
        return ZeroConcentratedDP(up(self.rho))

    def pure(self) -> PureDP:
        raise NoConversion(
            "discrete Gaussian noise has no PureDP guarantee: its privacy loss is unbounded. "
            "Use Geometric noise, or state an ApproxDP guarantee with epsilon_at(delta)."
        )

    def gaussian(self) -> GaussianDP:
        raise NoConversion(
            "discrete Gaussian noise is not stated in μ: it loses more than Gaussian noise of the same scale. "
            f"Ask with GaussianDP({math.sqrt(2 * self.rho):.6g}), which Gaussian noise of that scale meets."
        )

    @cached_property
    def _together(self) -> PrivacyCurve | None:
        """The curve where it is not that of a single coordinate."""
        if self.moves is None:
            return self.concentrated()
        return None if len(self.moves) == 1 else _Convolved(self.losses(), self.concentrated())

    def _delta(self, epsilon: float) -> float:
        if self._together is not None:
            return self._together.delta_at(epsilon)
        return min(up(thin(lambda: self._excess(decimal(epsilon)))), 1.0)

    def _excess(self, epsilon: Fraction) -> arb:
        """P(K ≤ k) − e^ε·P(K ≤ k − m), where k is the last noise whose loss (m² − 2mk)/2σ² exceeds ε."""
        (move,) = self.moves or (1,)
        last = math.ceil(Fraction(move, 2) - epsilon * self.square / move) - 1
        return at_least(self.square, -last) - ball(epsilon).exp() * at_least(self.square, move - last)

    def _epsilon(self, delta: float) -> float:
        if self._together is not None:
            return self._together.epsilon_at(delta)
        if delta == 0:
            return math.inf
        if self._delta(0.0) <= delta:
            return 0.0
        guess = GaussianDP(math.sqrt(2 * self.rho)).epsilon_at(delta)
        return least(lambda epsilon: self._delta(epsilon) <= delta, max(guess, 1e-9))

    def losses(self) -> list[tuple[PrivacyLoss, int]]:
        if self.moves is None:
            return super().losses()
        return [(_loss(self.square, move), times) for move, times in Counter(self.moves).items()]

    def _reach(self) -> float:
        rho = float(self.rho)
        return min(rho + 9 * math.sqrt(2 * rho), 700.0)

    def to_dict(self) -> dict[str, Any]:
        moves = None if self.moves is None else list(self.moves)
        return {"profile": "discrete_gaussian", "square": str(self.square), "moves": moves, "norm": self.norm}

    def _key(self) -> tuple[Any, ...]:
        return self.square, self.moves, self.norm

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DiscreteGaussianProfile) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"DiscreteGaussianProfile({self.square}, {self.moves}, {self.norm})"


class _Convolved(PrivacyCurve):
    """The curve of independent losses, by convolution; never above what their ρ implies."""

    def __init__(self, losses: list[tuple[PrivacyLoss, int]], stated: ZeroConcentratedDP) -> None:
        self.convolution, self.stated = Convolution(losses), stated

    def _delta(self, epsilon: float) -> float:
        # The decimal that ε prints as may lie half a unit below its binary value.
        return min(self.convolution.upper(math.nextafter(epsilon, 0.0)), self.stated.delta_at(epsilon))

    def _epsilon(self, delta: float) -> float:
        if self._delta(0.0) <= delta:
            return 0.0
        guess = self.stated.epsilon_at(delta)
        return math.inf if math.isinf(guess) else least(lambda epsilon: self._delta(epsilon) <= delta, guess)


def _loss(square: Fraction, move: int) -> PrivacyLoss:
    """Losses (m² − 2mk)/2σ² of the noises k, each rounded up, which can only raise the curve."""
    sigma = math.sqrt(square)
    reach = math.ceil(_REACH * sigma) + 1
    weights = [math.exp(-float(k * k / (2 * square))) for k in range(reach + 1)]
    total = math.fsum(weights) + math.fsum(weights[1:])
    atoms = tuple(
        (math.nextafter(float((move**2 - 2 * move * k) / (2 * square)), math.inf), weights[abs(k)] / total)
        for k in range(-reach, reach + 1)
        if weights[abs(k)] > 0
    )
    return PrivacyLoss(atoms=(*atoms, (atoms[-1][0], 1e-307)), spread=move / sigma, infinite=1e-307, neglected=2e-307)
