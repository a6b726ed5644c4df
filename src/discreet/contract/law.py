"""Law: the exact conditional distribution of a mechanism's output given the truth."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from discreet.core.noise.truth import Floats

__all__ = ["Law"]


class Law(ABC):
    """A distribution, or an array of independent ones, with everything inference needs.

    Array arguments broadcast against the shape of the location.
    """

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of one draw."""

    @property
    @abstractmethod
    def support(self) -> tuple[Floats, Floats]:
        """Smallest interval that holds all outcomes."""

    @property
    @abstractmethod
    def mean(self) -> Floats:
        """Expected output."""

    @property
    @abstractmethod
    def variance(self) -> Floats:
        """Variance of the output."""

    @property
    @abstractmethod
    def bias(self) -> Floats:
        """Expected output minus truth."""

    @property
    def mse(self) -> Floats:
        """Mean squared error: variance plus squared bias."""
        return self.variance + self.bias**2

    @abstractmethod
    def pdf(self, x: ArrayLike) -> Floats:
        """Density at ``x``."""

    @abstractmethod
    def cdf(self, x: ArrayLike) -> Floats:
        """Probability of an output of at most ``x``."""

    @abstractmethod
    def quantile(self, q: ArrayLike) -> Floats:
        """The value below which the output falls with probability ``q``."""

    @abstractmethod
    def sample(
        self, size: int | tuple[int, ...] | None = None, *, rng: int | np.random.Generator | None = None
    ) -> Floats:
        """Draw outputs: one per location, or ``size`` of them in front.

        ``rng=None`` draws exactly, from operating-system entropy. A seed or a numpy generator draws the same
        law in floating point, for simulations only.
        """
