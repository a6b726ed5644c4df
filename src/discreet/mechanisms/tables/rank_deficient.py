"""The rank-deficient Gaussian mechanism: no noise in directions that are public anyway."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.noise.truth import Truth
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.tables.clipping import Box, Clip
from discreet.mechanisms.tables.linear_facts import LinearFacts, Rows
from discreet.mechanisms.tables.post_processed import PostProcessed, exact_total

__all__ = ["RankDeficientGaussian"]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class RankDeficientGaussian(PostProcessed):
    """M_r of lee2022: Gaussian noise, projected on the tables that agree with what is public.

    By default the public fact is the total. Other facts are linear: ``constraints`` and their public ``values``.

    Guarantee
    ---------
    With μ = Δ₂/σ it is μ-GDP, tight, and has every other guarantee of `Gaussian` (lee2022, Theorem 2). The exact total
    may only be read from the data under replace-one neighbours, where it is public; otherwise it must be given. Proof:
    ``docs/proofs/rank_deficient.md``.

    Parameters
    ----------
    scale
        Standard deviation σ of the noise in every direction that is not public.
    total, clip, box, integers
        See `PostProcessed`.
    constraints, values
        Rows c and public values v with c·θ = v, instead of the total. The values must be known without the data: the
        margins of an earlier publication, for example.
    grid
        Power of two to which the noise is rounded before the projection.

    Examples
    --------
    >>> from discreet import ContingencyTable, GaussianDP, Neighbours
    >>> table = ContingencyTable({"arm": ["a", "b"], "outcome": ["no", "yes"]})
    >>> s = table.sensitivity(Neighbours.REPLACE_ONE)
    >>> mechanism = RankDeficientGaussian.calibrate(GaussianDP(0.5), s)
    >>> round(mechanism.l2_cost([[10, 20], [30, 40]]), 6)  # 3 of 4 dimensions
    24.0
    """

    scale: float
    constraints: Rows | None = None
    values: tuple[float, ...] | None = None
    grid: float | None = None
    name: ClassVar[str] = "rank_deficient_gaussian"

    def __post_init__(self) -> None:
        super().__post_init__()
        base = Gaussian(self.scale, self.grid)
        object.__setattr__(self, "scale", base.scale)
        object.__setattr__(self, "grid", base.grid)
        if self.constraints is not None:
            self._declare()
        elif self.values is not None:
            raise InvalidParameter("values", self.values, "belong to constraints", "Pass both, or total=….")

    def _declare(self) -> None:
        if self.total is not None or self.clip == "simplex":
            raise InvalidParameter(
                "constraints", self.constraints, "already say what is public", "Leave out total, and do not clip to it."
            )
        facts = LinearFacts.of(self.constraints, self.values)
        object.__setattr__(self, "constraints", facts.rows)
        object.__setattr__(self, "values", facts.values)

    @cached_property
    def _facts(self) -> LinearFacts | None:
        return None if self.constraints is None else LinearFacts.of(self.constraints, self.values)

    @classmethod
    def calibrate(
        cls,
        guarantee: Guarantee,
        sensitivity: Sensitivity,
        *,
        total: int | None = None,
        clip: Clip = "none",
        integers: bool = False,
        constraints: Rows | None = None,
        values: tuple[float, ...] | None = None,
        box: Box | None = None,
        grid: float | None = None,
    ) -> Self:
        """The least noise that meets ``guarantee`` for ``sensitivity``; the scale is rounded up."""
        scale = Gaussian.calibrate(guarantee, sensitivity).scale
        own = cls(scale=scale, total=total, clip=clip, integers=integers, box=box, grid=grid)
        return own if constraints is None and values is None else replace(own, constraints=constraints, values=values)

    @property
    def noise(self) -> Gaussian:
        """Gaussian noise on every cell, before the projection."""
        return Gaussian(self.scale, self.grid)

    @property
    def keeps_total(self) -> bool:
        """True: the measurement agrees with what is public (unless that is something else than the total)."""
        return self.constraints is None

    def _check_size(self, cells: int) -> None:
        super()._check_size(cells)
        if self._facts is not None:
            self._facts.check_length(cells)

    def _constrained(self, cells: Array, truth: Truth) -> Array:
        return super()._constrained(cells, truth) if self._facts is None else self._facts.projected(cells)

    def _closed_cost(self, cells: Array) -> float:
        # lee2022, Theorem 2: q·σ², plus what a declared total is off by.
        if self._facts is not None:
            shift = self._facts.projected(cells) - cells
            return (cells.size - len(self._facts.rows)) * self.scale**2 + float(shift @ shift)
        offset = 0.0 if self.total is None else (self.total - exact_total(cells)) ** 2 / cells.size
        return (cells.size - 1) * self.scale**2 + offset

    def confidence_interval(self, value: Any, level: float) -> tuple[Any, Any]:
        """Interval for every cell: the projection takes its share of the noise away."""
        array = np.asarray(value, dtype=float)
        kept = np.sqrt(self._kept(array.size)).reshape(array.shape)
        low, high = Gaussian(self.scale, self.grid).confidence_interval(np.zeros(()), level)
        return array + kept * low, array + kept * high

    def _kept(self, cells: int) -> Array:
        """The share of the noise variance that the projection leaves in every cell."""
        return np.full(cells, 1 - 1 / cells) if self._facts is None else self._facts.kept()

    def expected_error(self, level: float = 0.95) -> float:
        """An upper bound for every cell: that of `Gaussian`."""
        return float(np.asarray(self.noise.expected_error(level)))

    def parameters(self) -> dict[str, Any]:
        """The parameters as JSON-ready data."""
        constraints = None if self.constraints is None else [list(row) for row in self.constraints]
        values = None if self.values is None else list(self.values)
        return {
            "scale": self.scale,
            **self._common(),
            "constraints": constraints,
            "values": values,
            "grid": self.grid,
        }
