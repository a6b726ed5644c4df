"""Spending: turning shares of one guarantee into noise, in one kind of mechanism throughout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.noise.law import Floats, Truth
from discreet.core.sensitivity import Sensitivity
from discreet.inference.noise_sum import excess_kurtosis
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.location_noise import AdditiveNoise

__all__ = ["Measured", "Purse"]


@dataclass(frozen=True)
class Measured:
    """A noisy vector with the law of its noise.

    Attributes
    ----------
    value
        The noisy statistics.
    scale
        Scale of the noise on each of them.
    noise_variance, kurtosis
        Variance and excess kurtosis of the noise on each of them.
    """

    value: Floats
    scale: float
    noise_variance: float
    kurtosis: float


@dataclass(frozen=True)
class Purse:
    """One guarantee to spend, and the randomness to spend it with.

    The noise is Laplace or Gaussian, whichever is smaller. Shares compose to at most the whole:
    `Guarantee.split` rounds them so.
    """

    guarantee: Guarantee
    rng: np.random.Generator | None = None

    def __post_init__(self) -> None:
        if not any(value > 0 for value in self.guarantee.parameters().values()):
            raise InvalidParameter("guarantee", self.guarantee, "leaves nothing to spend", "Pass PureDP(1.0), say.")

    @cached_property
    def mechanism(self) -> type[AdditiveNoise]:
        """Laplace or Gaussian: one unit moves the moments by at most 1 in either norm."""
        return type(additive_noise(self.guarantee, Sensitivity(l1=1.0)))

    @property
    def norm(self) -> str:
        """The norm of the sensitivity that matters."""
        return "l1" if self.mechanism is Laplace else "l2"

    def split(self, weights: Sequence[float]) -> list[Purse]:
        """Purses that compose to at most this one."""
        return [Purse(part, self.rng) for part in self.guarantee.split(weights)]

    def measure(self, truth: Truth, sensitivity: Sensitivity) -> Measured:
        """Spend all of it on one vector."""
        mechanism = self.mechanism.calibrate(self.guarantee, sensitivity)
        law = mechanism.law(0.0)
        drawn = mechanism.draw(truth, rng=self.rng)
        return Measured(drawn, mechanism.scale, float(np.max(law.variance)), excess_kurtosis(law))
