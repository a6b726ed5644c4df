"""Spending: turning shares of one guarantee into noise, in one kind of mechanism throughout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from discreet.contract.mechanism import Mechanism
from discreet.core.door import Allowance, Step
from discreet.core.errors import InvalidParameter, NotCertified
from discreet.core.guarantee import Guarantee
from discreet.core.noise.truth import Floats, Truth
from discreet.core.sensitivity import Sensitivity
from discreet.inference.noise_sum import excess_kurtosis
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.location_noise import AdditiveNoise

__all__ = ["Measured", "Spending"]


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
class Spending:
    """A part of a comparison's guarantee, to be spent on one measurement.

    The noise is Laplace or Gaussian, whichever is smaller. Parts compose to at most the whole: `Guarantee.split` rounds
    them so, and the door counts them.

    Attributes
    ----------
    guarantee
        What it may cost.
    rng
        Set in simulations only.
    allowance
        Where draws come from, and what counts them; without one there are only plans and simulations.
    """

    guarantee: Guarantee
    rng: np.random.Generator | None = None
    allowance: Allowance | None = None

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

    def split(self, weights: Sequence[float]) -> list[Spending]:
        """Parts that compose to at most this one."""
        return [replace(self, guarantee=part) for part in self.guarantee.split(weights)]

    def draw(self, mechanism: Mechanism, truth: Truth, sensitivity: Sensitivity) -> Floats:
        """Spend all of it on one draw."""
        if self.allowance is not None:
            return self.allowance.draw(Step(mechanism, sensitivity, self.guarantee), truth)
        if self.rng is None:
            raise NotCertified("only a release that passes the door may draw; this one only plans.")
        return mechanism.measure(truth, rng=self.rng)

    def measure(self, truth: Truth, sensitivity: Sensitivity) -> Measured:
        """Spend all of it on one vector."""
        mechanism = self.mechanism.calibrate(self.guarantee, sensitivity)
        law = mechanism.law(0.0)
        drawn = self.draw(mechanism, truth, sensitivity)
        return Measured(drawn, mechanism.scale, float(np.max(law.variance)), excess_kurtosis(law))
