"""Location noise: mechanisms that add independent noise of one law and one scale to every coordinate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from discreet.core import requirements
from discreet.core.contract import Mechanism
from discreet.core.guarantee import Guarantee
from discreet.core.noise.location import power_of_two
from discreet.core.sensitivity import Sensitivity

if TYPE_CHECKING:
    from discreet.core.noise.law import Truth
    from discreet.core.noise.laws import LocationLaw

__all__ = ["AdditiveNoise"]


@dataclass(frozen=True)
class AdditiveNoise(Mechanism):
    """Noise of one law and one scale on every coordinate.

    Parameters
    ----------
    scale
        Scale of the noise, in units of the statistic.
    grid
        Power of two to which outputs are rounded; by default 2⁻²⁰ of the scale. Rounding is post-processing.
    """

    scale: float
    grid: float | None = None
    _law: ClassVar[type[LocationLaw]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", requirements.positive("scale", self.scale))
        if self.grid is not None:
            object.__setattr__(self, "grid", power_of_two("grid", self.grid))

    @classmethod
    def _scale(cls, guarantee: Guarantee, sensitivity: Sensitivity) -> float:
        """The smallest sufficient scale, rounded up."""
        raise TypeError(f"{cls.__name__} defines no calibration")

    @classmethod
    def calibrate(cls, guarantee: Guarantee, sensitivity: Sensitivity, *, grid: float | None = None) -> Self:
        """The least noise that meets ``guarantee`` for ``sensitivity``; the scale is rounded up."""
        requirements.instance("guarantee", guarantee, Guarantee, "a guarantee such as PureDP(1.0)")
        requirements.instance("sensitivity", sensitivity, Sensitivity, "Sensitivity(l1=1.0), for example")
        return cls(cls._scale(guarantee, sensitivity), grid)

    def law(self, truth: Truth) -> LocationLaw:
        """The exact distribution of the output given the truth."""
        return self._law(truth, self.scale, grid=self.grid)

    def l2_cost(self, truth: Truth) -> float:
        """Expected squared distance between output and truth, summed over coordinates (lee2022 (5), Lemma 13)."""
        return float(np.sum(self.law(truth).variance))

    def parameters(self) -> dict[str, Any]:
        """The parameters as JSON-ready data."""
        return {"scale": self.scale, "grid": self.grid}
