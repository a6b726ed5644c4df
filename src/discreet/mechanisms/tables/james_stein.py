"""James-Stein Gaussian mechanisms: noisy tables, shrunk towards a point that is cheap to be wrong about."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self, get_args

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.noise.truth import Truth
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.tables.clipping import Box, Clip, onto_total
from discreet.mechanisms.tables.linear_facts import LinearFacts, Rows
from discreet.mechanisms.tables.post_processed import PostProcessed, exact_total
from discreet.mechanisms.tables.rank_deficient import RankDeficientGaussian
from discreet.mechanisms.tables.shrinkage import Towards, james_stein_risk, shrunk, target

__all__ = ["JamesSteinGaussian"]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class JamesSteinGaussian(PostProcessed):
    """M_JS0, M_JS and M_rJS of lee2022: Gaussian noise, then James-Stein shrinkage.

    Shrinkage pays in squared error whatever the truth is: from three shrunk dimensions on, the output is closer to
    the truth than its measurement, on average and for every table. With fewer it is the measurement itself.

    Guarantee
    ---------
    With μ = Δ₂/σ it is μ-GDP, and has every other guarantee of `Gaussian`: shrinkage is post-processing (lee2022,
    Theorems 4 to 6). The rank-deficient form publishes the exact total, and is refused where that is private. Proofs:
    ``docs/proofs/james_stein.md`` and ``docs/proofs/rank_deficient.md``.

    Parameters
    ----------
    scale
        Standard deviation σ of the noise.
    towards
        ``"zero"``: towards the origin, M_JS0; in the rank-deficient form towards the uniform table. ``"mean"``:
        towards the mean of the cells, M_JS; in the rank-deficient form towards the mean of the Helmert coordinates,
        M_rJS (10), which leaves one more direction unshrunk.
    rank_deficient
        Keep the exact total.
    as_published
        The plain factor 1 − (k−2)σ²/S, which can turn negative, instead of its positive part.
    total, clip, box, integers
        See `PostProcessed`.
    constraints, values
        Rows c and public values v with c·θ = v, instead of the total, as in `RankDeficientGaussian`.
    basis
        With constraints: U_θ of lee2022 (6), one row per cell, whose columns are the free directions. Towards the mean
        the result depends on it; by default Helmert's columns, generalised.
    grid
        Power of two to which the noise is rounded before anything else.

    Examples
    --------
    >>> mechanism = JamesSteinGaussian(scale=10.0, towards="mean", rank_deficient=True)
    >>> counts = [40, 30, 20, 10, 30, 20, 40, 10, 25, 25]
    >>> round(mechanism.l2_cost(counts), 1), RankDeficientGaussian(scale=10.0).l2_cost(counts)
    (612.7, 900.0)
    >>> public = {"constraints": ((1,) * 5 + (0,) * 5, (0,) * 5 + (1,) * 5), "values": (130, 120)}  # two totals
    >>> halves = JamesSteinGaussian(scale=10.0, rank_deficient=True, **public)
    >>> round(halves.l2_cost(counts), 1), RankDeficientGaussian(scale=10.0, **public).l2_cost(counts)
    (588.4, 800.0)
    """

    scale: float
    towards: Towards = "mean"
    rank_deficient: bool = False
    as_published: bool = False
    constraints: Rows | None = None
    values: tuple[float, ...] | None = None
    basis: Rows | None = None
    grid: float | None = None
    name: ClassVar[str] = "james_stein_gaussian"

    def __post_init__(self) -> None:
        super().__post_init__()
        base = Gaussian(self.scale, self.grid)
        object.__setattr__(self, "scale", base.scale)
        object.__setattr__(self, "grid", base.grid)
        requirements.instance("towards", self.towards, str, 'towards="mean"')
        if self.towards not in get_args(Towards):
            raise InvalidParameter(
                "towards", self.towards, f"must be one of {list(get_args(Towards))}", 'Pass towards="mean".'
            )
        for name in ("rank_deficient", "as_published"):
            requirements.instance(name, getattr(self, name), bool, f"{name}=True or False")
        if self.constraints is not None:
            self._declare()
        elif self.values is not None or self.basis is not None:
            raise InvalidParameter("constraints", None, "must be given with values and basis", "Pass constraints=….")

    def _declare(self) -> None:
        if not self.rank_deficient or self.total is not None or self.clip == "simplex":
            raise InvalidParameter(
                "constraints", self.constraints, "say what is public instead of the total",
                "Pass rank_deficient=True, leave out total, and do not clip to it.",
            )  # fmt: skip
        facts = LinearFacts.of(self.constraints, self.values)
        object.__setattr__(self, "constraints", facts.rows)
        object.__setattr__(self, "values", facts.values)
        if self.basis is not None:
            object.__setattr__(self, "basis", facts.checked_basis(self.basis))

    @cached_property
    def _facts(self) -> LinearFacts | None:
        return None if self.constraints is None else LinearFacts.of(self.constraints, self.values)

    def _directions(self, facts: LinearFacts) -> Array:
        return facts.basis if self.basis is None else np.array(self.basis)

    @classmethod
    def calibrate(
        cls,
        guarantee: Guarantee,
        sensitivity: Sensitivity,
        *,
        towards: Towards = "mean",
        rank_deficient: bool = False,
        as_published: bool = False,
        total: int | None = None,
        clip: Clip = "none",
        box: Box | None = None,
        integers: bool = False,
        constraints: Rows | None = None,
        values: tuple[float, ...] | None = None,
        basis: Rows | None = None,
        grid: float | None = None,
    ) -> Self:
        """The least noise that meets ``guarantee`` for ``sensitivity``; the scale is rounded up."""
        return cls(
            scale=Gaussian.calibrate(guarantee, sensitivity).scale,
            towards=towards,
            rank_deficient=rank_deficient,
            as_published=as_published,
            total=total,
            clip=clip,
            box=box,
            integers=integers,
            constraints=constraints,
            values=values,
            basis=basis,
            grid=grid,
        )

    @property
    def noise(self) -> Gaussian:
        """Gaussian noise on every cell."""
        return Gaussian(self.scale, self.grid)

    @property
    def keeps_total(self) -> bool:
        """Whether the measurement has the table's exact total."""
        return self.rank_deficient and self.constraints is None

    def _check_size(self, cells: int) -> None:
        super()._check_size(cells)
        if self._facts is not None:
            self._facts.check_length(cells)

    def _constrained(self, cells: Array, truth: Truth) -> Array:
        return super()._constrained(cells, truth) if self._facts is None else self._facts.projected(cells)

    def _shrunk(self, cells: Array) -> Array:
        if self._facts is not None:  # lee2022 (10): shrink the coordinates U_θᵀx, and keep what is public
            directions = self._directions(self._facts)
            goal = target(directions.shape[1], self.towards, rank_deficient=False)
            free = shrunk(cells @ directions, self.scale**2, goal, positive_part=not self.as_published)
            return np.asarray(self._facts.known + free @ directions.T)
        goal = target(cells.shape[-1], self.towards, self.rank_deficient)
        return shrunk(cells, self.scale**2, goal, positive_part=not self.as_published)

    def _closed_cost(self, cells: Array) -> float:
        if self._facts is not None:
            near = self._facts.projected(cells)
            directions, off = self._directions(self._facts), near - cells
            goal = target(directions.shape[1], self.towards, rank_deficient=False)
            risk = james_stein_risk(near @ directions, self.scale**2, goal, positive_part=not self.as_published)
            return float(off @ off) + risk
        goal = target(cells.size, self.towards, self.rank_deficient)
        offset = 0.0
        if self.rank_deficient and self.total is not None:
            # A declared total that is off moves every cell alike, and nothing else.
            offset = (self.total - exact_total(cells)) ** 2 / cells.size
            cells = onto_total(cells, float(self.total))
        return offset + james_stein_risk(cells, self.scale**2, goal, positive_part=not self.as_published)

    def confidence_interval(self, value: Any, level: float) -> tuple[Any, Any]:
        """Interval for every cell behind a *measurement*."""
        if self.rank_deficient:
            facts: dict[str, Any] = {"constraints": self.constraints, "values": self.values}
            return RankDeficientGaussian(scale=self.scale, grid=self.grid, **facts).confidence_interval(value, level)
        return self.noise.confidence_interval(value, level)

    def parameters(self) -> dict[str, Any]:
        """The parameters as JSON-ready data."""
        return {
            "scale": self.scale,
            "towards": self.towards,
            "rank_deficient": self.rank_deficient,
            "as_published": self.as_published,
            **self._common(),
            "constraints": None if self.constraints is None else [list(row) for row in self.constraints],
            "values": None if self.values is None else list(self.values),
            "basis": None if self.basis is None else [list(row) for row in self.basis],
            "grid": self.grid,
        }
