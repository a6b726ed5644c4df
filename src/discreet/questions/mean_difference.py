"""Mean difference: what is measured to compare the means of arms, from units or from partitions of units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.contract.statistic import Statistic
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.grid import product_total, total
from discreet.core.protection import Neighbours
from discreet.core.sensitivity import Sensitivity
from discreet.questions.bounded import fractions, whole_bounds

__all__ = ["CURVATURE_WEIGHT", "MeanDifference", "WinsorizedMoments", "arm_moments", "size_is_public"]

CURVATURE_WEIGHT: dict[str, Fraction] = {"l1": Fraction(1), "l2": Fraction(13, 4)}
"""Largest handy weight κ of Σa(1 − a) beside Σa that costs nothing, under ℓ₁ and under ℓ₂."""

_RESOLUTION = 2**30
"""Partition values are resolved to this share of the censoring interval."""


def size_is_public(neighbours: Neighbours, arm: str) -> bool:
    """Whether the number of units per arm is public: one unit is replaced, and stays in its arm."""
    return neighbours is Neighbours.REPLACE_ONE and arm == "public"


@dataclass(frozen=True, kw_only=True)
class MeanDifference(Statistic):
    """The difference of two (or more) arms' means of one bounded outcome.

    **Guarantee.** With a = (y − low)/(high − low) in [0, 1] the value holds, per arm,

    - where sizes are public (replace-one, public arm): (Σa, κ·Σa(1 − a)). One unit changes one arm, by at most 1 in
      ℓ₁ for κ = 1 and by at most 1 in ℓ₂ for κ = 13/4: the second coordinate costs nothing.
    - otherwise: (Σ(1 − a)², Σ2a(1 − a), Σa²), which add up to the number of units. Adding a unit changes it by exactly
      1 in ℓ₁; replacing one, in the same arm or from one arm to another, by at most 2 in ℓ₁ and √2 in ℓ₂.

    Proofs: ``docs/proofs/mean_difference.md``.

    Parameters
    ----------
    bounds
        Public bounds of the outcome of a unit; values outside are clipped.
    arm
        ``"public"`` where the experiment fixed each unit's arm; ``"private"`` where it is part of the record, so that
        replacing a record may move it to another arm.
    arms
        Number of arms.
    norm
        ``"l1"`` for Laplace noise, ``"l2"`` for Gaussian noise: it fixes κ.
    partitions, censor
        Where partition means are used: their number, and the shares censored below and above.

    Examples
    --------
    >>> outcome = MeanDifference(bounds=(0, 500))
    >>> outcome.sensitivity(neighbours=Neighbours.REPLACE_ONE).l1
    1.0
    >>> MeanDifference(bounds=(0, 500), arm="private").sensitivity(neighbours=Neighbours.REPLACE_ONE).l1
    2.0
    """

    name: ClassVar[str] = "mean_difference"
    bounds: tuple[float, float]
    arm: str = "public"
    arms: int = 2
    norm: str = "l1"
    partitions: int | None = None
    censor: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", whole_bounds("bounds", self.bounds))
        object.__setattr__(self, "arms", requirements.positive_integer("arms", self.arms, at_least=2))
        requirements.one_of("arm", self.arm, ("public", "private"))
        requirements.one_of("norm", self.norm, tuple(CURVATURE_WEIGHT))
        if self.partitions is not None:
            object.__setattr__(
                self, "partitions", requirements.positive_integer("partitions", self.partitions, at_least=10)
            )
        if self.censor is not None:
            object.__setattr__(self, "censor", censoring(self.censor))

    def parameters(self) -> dict[str, Any]:
        return {
            "bounds": list(self.bounds),
            "arm": self.arm,
            "arms": self.arms,
            "norm": self.norm,
            "partitions": self.partitions,
            "censor": None if self.censor is None else list(self.censor),
        }

    def sensitivity(self, *, neighbours: Neighbours) -> Sensitivity:
        """Largest change of the moments of all arms together."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.REPLACE_ONE")
        if size_is_public(neighbours, self.arm):
            return _unit_move(self.norm)
        if neighbours is Neighbours.ADD_REMOVE:
            return Sensitivity(l1=1.0)
        return Sensitivity(l1=2.0, l2=math.nextafter(math.sqrt(2), 2))

    def value(self, count: int, summed: int, squares: int, largest: int, neighbours: Neighbours) -> list[Fraction]:
        """Moments of one arm from the count, sum and sum of squares of its grid offsets in {0, …, largest}."""
        return arm_moments(
            count, summed, squares, largest, public=size_is_public(neighbours, self.arm),
            weight=CURVATURE_WEIGHT[self.norm],
        )  # fmt: skip


def _unit_move(norm: str) -> Sensitivity:
    return Sensitivity(l1=1.0) if norm == "l1" else Sensitivity(l2=1.0)


def arm_moments(
    count: int, summed: int, squares: int, largest: int, *, public: bool, weight: Fraction
) -> list[Fraction]:
    """The moments of `MeanDifference` for one arm, exactly."""
    first, second = Fraction(summed, largest), Fraction(squares, largest**2)
    if public:
        return [first, weight * (first - second)]
    return [count - 2 * first + second, 2 * (first - second), second]


def censoring(value: Any) -> tuple[float, float]:
    """Shares (α, β) to censor below and above: each in (0, ½), together below 0.9."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InvalidParameter("censor", value, "must be a pair (α, β)", "Pass censor=(0.1, 0.1).")
    shares = [requirements.probability("censor", share) for share in value]
    if not all(0 < share < 0.5 for share in shares) or sum(shares) >= 0.9:
        raise InvalidParameter("censor", value, "needs 0 < α, β < ½ and α + β < 0.9", "Pass censor=(0.1, 0.1).")
    return shares[0], shares[1]


@dataclass(frozen=True, kw_only=True)
class WinsorizedMoments(Statistic):
    """Moments of partition values pulled into a public interval: (Σa, κ·Σa(1 − a)) with a = (clip(z) − l)/(u − l).

    **Guarantee.** One unit belongs to one partition, so it moves one a in [0, 1], under both neighbour relations and
    whether its arm is public or not: by at most 1 in ℓ₁ for κ = 1, and by at most 1 in ℓ₂ for κ = 13/4. With
    w = 2a − 1 these are the winsorized sum and, from 1 − w² = 4a(1 − a), the winsorized sum of squares: every
    piece of the censored likelihood that is not a count alone.

    Parameters
    ----------
    interval
        Public (l*, u*).
    partitions
        Number of partitions.
    norm
        ``"l1"`` or ``"l2"``, which fixes κ.

    Examples
    --------
    >>> pieces = WinsorizedMoments(interval=(-1, 1), partitions=4)
    >>> [str(x) for x in pieces.value(np.array([-9.0, 0.0, 0.0, 9.0]))]
    ['2', '1/2']
    >>> pieces.sensitivity().l1
    1.0
    """

    name: ClassVar[str] = "winsorized_moments"
    interval: tuple[float, float]
    partitions: int
    norm: str = "l1"

    def __post_init__(self) -> None:
        object.__setattr__(self, "interval", whole_bounds("interval", self.interval))
        object.__setattr__(self, "partitions", requirements.positive_integer("partitions", self.partitions))

    def parameters(self) -> dict[str, Any]:
        return {"interval": list(self.interval), "partitions": self.partitions, "norm": self.norm}

    def sensitivity(self) -> Sensitivity:
        """Largest change by one unit."""
        return _unit_move(self.norm)

    def value(self, differences: NDArray[np.float64]) -> NDArray[np.object_]:
        """The exact moments of partition values."""
        low, high = self.interval
        # Each a is rounded to a whole number of 2⁻³⁰ parts on its own, so sums are exact and a stays in [0, 1].
        share = (np.clip(differences, low, high) - low) / (high - low)
        parts = np.clip(np.floor(share * _RESOLUTION + 0.5).astype(np.int64), 0, _RESOLUTION)
        curved = Fraction(product_total(parts, _RESOLUTION - parts), _RESOLUTION**2)
        return fractions([Fraction(total(parts), _RESOLUTION), CURVATURE_WEIGHT[self.norm] * curved])
