"""Clipped noise: a Laplace or Gaussian table, moved to the nearest possible one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from discreet.contract.mechanism import mechanism_from_dict
from discreet.core import requirements
from discreet.core.guarantee import Guarantee
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.location_noise import AdditiveNoise
from discreet.mechanisms.tables.clipping import Box, Clip
from discreet.mechanisms.tables.post_processed import PostProcessed, exact_total

__all__ = ["Clipped"]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Clipped(PostProcessed):
    """M^c of lee2022, section 2.4, for plain noise: `Laplace` or `Gaussian`, then clipping and rounding.

    Guarantee
    ---------
    That of the mechanism inside: clipping is post-processing, and never takes the output away from the truth
    (lee2022, Proposition 8). Proof: ``docs/proofs/table_noise.md``.

    Parameters
    ----------
    mechanism
        `Laplace` or `Gaussian` with its parameters.
    rank_deficient
        Move the noisy table to the nearest one with the exact total before it is clipped.
    total, clip, box, integers
        See `PostProcessed`.

    Examples
    --------
    >>> from discreet import GaussianDP, Laplace, Sensitivity
    >>> Clipped.calibrate(GaussianDP(1.0), Sensitivity(moves=(1, 1)), kind=Laplace).mechanism.scale < 1.36
    True
    >>> ages = Clipped(mechanism=Laplace(2.0), clip="box", box=((18, 100),))  # truncation to a rectangle
    >>> ages.process(np.array([12.5, 40.0, 131.0]))
    array([ 18.,  40., 100.])
    """

    mechanism: AdditiveNoise
    clip: Clip = "nonnegative"
    rank_deficient: bool = False
    name: ClassVar[str] = "clipped"

    def __post_init__(self) -> None:
        inner: Any = self.mechanism
        if isinstance(inner, dict):
            inner = mechanism_from_dict(inner)
        requirements.instance("mechanism", inner, (Laplace, Gaussian), "Laplace(scale=1.0), for example")
        object.__setattr__(self, "mechanism", inner)
        requirements.instance("rank_deficient", self.rank_deficient, bool, "rank_deficient=True or False")
        super().__post_init__()

    @classmethod
    def calibrate(
        cls,
        guarantee: Guarantee,
        sensitivity: Sensitivity,
        *,
        kind: type[AdditiveNoise] = Gaussian,
        rank_deficient: bool = False,
        total: int | None = None,
        clip: Clip = "nonnegative",
        box: Box | None = None,
        integers: bool = False,
    ) -> Self:
        """The least noise of that kind that meets ``guarantee`` for ``sensitivity``."""
        return cls(
            mechanism=kind.calibrate(guarantee, sensitivity),
            rank_deficient=rank_deficient,
            total=total,
            clip=clip,
            box=box,
            integers=integers,
        )

    @property
    def noise(self) -> AdditiveNoise:
        """The mechanism inside."""
        return self.mechanism

    @property
    def keeps_total(self) -> bool:
        """Whether the measurement has the table's exact total."""
        return self.rank_deficient

    @property
    def scale(self) -> float:
        """Scale of the noise."""
        return self.mechanism.scale

    def _closed_cost(self, cells: Array) -> float:
        # lee2022, Theorem 1 and Lemma 13: one variance a cell; the projection on the total takes one away.
        variance = float(np.asarray(self.mechanism.law(0.0).variance))
        if not self.rank_deficient:
            return cells.size * variance
        offset = 0.0 if self.total is None else (self.total - exact_total(cells)) ** 2 / cells.size
        return (cells.size - 1) * variance + offset

    def parameters(self) -> dict[str, Any]:
        """The parameters as JSON-ready data."""
        inner = self.mechanism.to_dict()
        return {"mechanism": inner, "rank_deficient": self.rank_deficient, **self._common()}
