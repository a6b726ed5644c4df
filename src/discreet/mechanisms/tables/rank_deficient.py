"""The rank-deficient Gaussian mechanism: no noise in directions that are public anyway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.noise.law import Truth
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.tables.clipping import Clip
from discreet.mechanisms.tables.post_processed import PostProcessed, exact_total

__all__ = ["RankDeficientGaussian"]

Array = NDArray[np.float64]
Rows = tuple[tuple[float, ...], ...]


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
    total, clip, integers
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
            self._check_constraints(self.constraints)
        elif self.values is not None:
            raise InvalidParameter("values", self.values, "belong to constraints", "Pass both, or total=….")

    def _check_constraints(self, constraints: Sequence[Sequence[float]]) -> None:
        if self.total is not None or self.clip == "simplex":
            raise InvalidParameter(
                "constraints", constraints, "already say what is public", "Leave out total, and do not clip to it."
            )
        rows = tuple(tuple(requirements.finite("constraints", entry) for entry in row) for row in constraints)
        if not rows or len({len(row) for row in rows}) != 1:
            raise InvalidParameter("constraints", rows, "must be rows of one length", "Pass one row a fact.")
        if np.linalg.matrix_rank(np.array(rows)) < len(rows):
            raise InvalidParameter("constraints", rows, "must be linearly independent", "Drop repeated facts.")
        if self.values is None or len(self.values) != len(rows):
            raise InvalidParameter(
                "values", self.values, "must give the public value of every constraint", "Pass one value per row."
            )
        object.__setattr__(self, "constraints", rows)
        object.__setattr__(self, "values", tuple(requirements.finite("values", value) for value in self.values))

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
        grid: float | None = None,
    ) -> Self:
        """The least noise that meets ``guarantee`` for ``sensitivity``; the scale is rounded up."""
        scale = Gaussian.calibrate(guarantee, sensitivity).scale
        own = cls(scale=scale, total=total, clip=clip, integers=integers, grid=grid)
        return own if constraints is None and values is None else replace(own, constraints=constraints, values=values)

    @property
    def noise(self) -> Gaussian:
        """Gaussian noise on every cell, before the projection."""
        return Gaussian(self.scale, self.grid)

    @property
    def keeps_total(self) -> bool:
        """True: the measurement agrees with what is public (unless that is something else than the total)."""
        return self.constraints is None

    def _constrained(self, cells: Array, truth: Truth) -> Array:
        return super()._constrained(cells, truth) if self.constraints is None else self._projected(cells)

    def _projected(self, cells: Array) -> Array:
        rows = np.array(self.constraints)
        if rows.shape[1] != cells.shape[-1]:
            raise InvalidParameter(
                "constraints", f"{rows.shape[1]} columns", f"must have one for each of {cells.shape[-1]} cells",
                "Give every row one entry a cell, in the order of the flattened table.",
            )  # fmt: skip
        missing = np.asarray(self.values) - cells @ rows.T
        return np.asarray(cells + missing @ np.linalg.pinv(rows).T)

    def _closed_cost(self, cells: Array) -> float:
        # lee2022, Theorem 2: q·σ², plus what a declared total is off by.
        public = 1 if self.constraints is None else len(self.constraints)
        cost = (cells.size - public) * self.scale**2
        if self.constraints is not None:
            shift = self._projected(cells) - cells
            return cost + float(shift @ shift)
        return cost + (0.0 if self.total is None else (self.total - exact_total(cells)) ** 2 / cells.size)

    def confidence_interval(self, value: Any, level: float) -> tuple[Any, Any]:
        """Interval for every cell: the projection takes its share of the noise away."""
        array = np.asarray(value, dtype=float)
        kept = np.sqrt(self._kept(array.size)).reshape(array.shape)
        low, high = Gaussian(self.scale, self.grid).confidence_interval(np.zeros(()), level)
        return array + kept * low, array + kept * high

    def _kept(self, cells: int) -> Array:
        """The share of the noise variance that the projection leaves in every cell."""
        if self.constraints is None:
            return np.full(cells, 1 - 1 / cells)
        rows = np.array(self.constraints)
        return np.asarray(1 - np.einsum("ij,ji->i", np.linalg.pinv(rows), rows))

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
