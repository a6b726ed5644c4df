"""Structured law: the distribution of an output that several steps make, known through draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.core.noise.truth import Floats, Truth, float_truth
from discreet.omission.sampled_law import SampledLaw

if TYPE_CHECKING:
    Array = NDArray[np.float64]

__all__ = ["StructuredLaw"]


class Simulable(Protocol):
    """A mechanism that can draw many outputs at once, in floating point."""

    def simulate(self, truth: Truth, size: int, rng: int | np.random.Generator | None) -> Array:
        """``size`` outputs for one truth."""

    def draw(self, truth: Truth, *, rng: int | np.random.Generator | None = None) -> Floats:
        """One output."""


class StructuredLaw(SampledLaw):
    """The joint distribution of a vector whose coordinates are drawn one after another and repaired together.

    Moments and distribution functions are coordinate by coordinate, from simulated draws with a fixed seed.
    """

    mechanism: Simulable  # type: ignore[assignment]  # anything that simulates will do

    def __init__(self, mechanism: Simulable, truth: Truth, lower: Array, upper: Array) -> None:
        self.mechanism, self.truth = mechanism, truth
        self.location = float_truth(truth)
        self._support = lower, upper

    @property
    def support(self) -> tuple[Floats, Floats]:
        """Public ends of every coordinate."""
        return self._support
