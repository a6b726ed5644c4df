"""James-Stein Gaussian mechanisms: noisy tables, shrunk towards a point that is cheap to be wrong about."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import scipy
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.noise.truth import Truth
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.tables.clipping import Box, Clip, onto_total
from discreet.mechanisms.tables.helmert import trend
from discreet.mechanisms.tables.post_processed import PostProcessed, exact_total
from discreet.mechanisms.tables.rank_deficient import LinearFacts, RankDeficientGaussian, Rows

__all__ = ["JamesSteinGaussian", "Target", "Towards", "james_stein_risk", "shrunk", "target"]


# ---- Shrinkage: James-Stein estimators of noisy tables, and their exact mean squared error
#
# Formulas and proofs: ``docs/proofs/table_noise.md``.


Array = NDArray[np.float64]
Towards = Literal["zero", "mean"]

_SERIES_UP_TO = 1e8
"""Largest noncentrality whose Poisson mixture is summed; beyond it an expansion is exact to 1e-14."""


@dataclass(frozen=True)
class Target:
    """Where shrinkage goes: ``dimensions`` of the table are shrunk, ``kept`` are not, the others carry no noise."""

    towards: Towards
    rank_deficient: bool
    dimensions: int
    kept: int

    @property
    def constant(self) -> int:
        """The James-Stein constant k − 2; 0, and so no shrinkage, where two dimensions or fewer could shrink."""
        return max(self.dimensions - 2, 0)


def target(cells: int, towards: Towards, rank_deficient: bool) -> Target:
    """The dimensions that each James-Stein mechanism shrinks (lee2022, Lemma B.3)."""
    free = cells - 1 if rank_deficient else cells
    kept = 1 if towards == "mean" else 0
    return Target(towards, rank_deficient, max(free - kept, 0), min(kept, free))


def _split(table: Array, goal: Target) -> tuple[Array, Array]:
    """The part of each table that stays, and the part that shrinks."""
    if goal.towards == "zero" and not goal.rank_deficient:
        return np.zeros_like(table), table
    centre = np.broadcast_to(table.mean(axis=-1, keepdims=True), table.shape)
    rest = table - centre
    if not (goal.towards == "mean" and goal.rank_deficient) or table.shape[-1] < 2:
        return centre, rest
    direction = trend(table.shape[-1])
    # m̃ of lee2022 (10), the mean of the Helmert coordinates: U_θ·1 has squared length p − 1.
    level = (rest @ direction / (table.shape[-1] - 1))[..., None] * direction
    return centre + level, rest - level


def shrunk(table: Array, variance: float | Array, goal: Target, *, positive_part: bool = True) -> Array:
    """James-Stein estimates of the tables along the last axis from observations with this noise variance.

    Examples
    --------
    >>> goal = target(4, "zero", rank_deficient=False)
    >>> shrunk(np.array([3.0, 4.0, 0.0, 0.0]), 1.0, goal).round(2)
    array([2.76, 3.68, 0.  , 0.  ])
    """
    if goal.constant == 0:
        return table
    stays, shrinks = _split(table, goal)
    square = np.einsum("...i,...i->...", shrinks, shrinks)
    with np.errstate(divide="ignore"):
        factor = 1 - goal.constant * np.asarray(variance) / square
    if positive_part:
        factor = np.maximum(factor, 0.0)
    # A table that is exactly at its target stays there.
    factor = np.where(square > 0, factor, 0.0)
    return np.asarray(stays + factor[..., None] * shrinks)


def james_stein_risk(truth: Array, variance: float, goal: Target, *, positive_part: bool = True) -> float:
    """E‖estimate − truth‖² in closed form (lee2022, Lemma B.3; for the positive part see the proof page).

    Examples
    --------
    >>> goal = target(5, "zero", rank_deficient=False)
    >>> james_stein_risk(np.zeros(5), 1.0, goal, positive_part=False)  # 5 − 3²/3
    2.0
    """
    k, c = goal.dimensions, goal.constant
    if c == 0:
        return (k + goal.kept) * variance
    _, shrinks = _split(truth, goal)
    noncentrality = float(shrinks @ shrinks) / variance
    risk = k - c**2 * _mean_reciprocal(k, noncentrality)
    if positive_part:
        risk -= _positive_part_gain(k, noncentrality)
    return (goal.kept + risk) * variance


def _mixture(noncentrality: float, first: float, last: float) -> tuple[Array, Array]:
    """Poisson(λ/2) weights and their indices between two bounds."""
    half = noncentrality / 2
    start, stop = max(math.floor(first), 0), math.ceil(last) + 1
    index = np.arange(min(start, stop), stop, dtype=float)
    if half == 0:
        return index, (index == 0).astype(float)
    return index, np.exp(index * math.log(half) - half - scipy.special.gammaln(index + 1))


def _mean_reciprocal(k: int, noncentrality: float) -> float:
    """E[1/W] for W ~ χ²_k(λ), k ≥ 3: the mean of 1/(k − 2 + 2J) for J ~ Poisson(λ/2)."""
    if noncentrality <= _SERIES_UP_TO:
        half, spread = noncentrality / 2, 40 + 12 * math.sqrt(noncentrality / 2)
        index, weight = _mixture(noncentrality, half - spread, half + spread)
        return float(np.sum(weight / (k - 2 + 2 * index)))
    # Expansion around the mean m with the cumulants 2^{r−1}(r−1)!(k + rλ); the next term is below 1e-14.
    mean = k + noncentrality
    second, third = 2 * (k + 2 * noncentrality), 8 * (k + 3 * noncentrality)
    return (1 + second / mean**2 - third / mean**3 + 3 * second**2 / mean**4) / mean


def _positive_part_gain(k: int, noncentrality: float) -> float:
    """How much the positive part saves: E[(W − 2c + c²/W − 2λ(1 − c/W'))·1{· < c}].

    W ~ χ²_k(λ) and W' ~ χ²_{k+2}(λ), c = k − 2. Only mixture components below about c matter, so the sum is short
    for any λ.
    """
    c = k - 2
    half = noncentrality / 2
    # The chance that χ²_{k+2j} falls below k − 2 is negligible (< 1e-20) for j beyond this.
    last = 60 + 12 * math.sqrt(k)
    index, weight = _mixture(noncentrality, max(0.0, half - 40 - 12 * math.sqrt(half)), last)
    if index.size == 0:
        return 0.0
    below = {shift: scipy.special.gammainc((k + shift + 2 * index) / 2, c / 2) for shift in (-2, 0, 2)}
    df = k + 2 * index
    own = df * below[2] - 2 * c * below[0] + c**2 * below[-2] / (df - 2)
    cross = below[2] - c * below[0] / df
    return float(np.sum(weight * (own - 2 * noncentrality * cross)))


@dataclass(frozen=True, kw_only=True)
class JamesSteinGaussian(PostProcessed):
    """M_JS0, M_JS and M_rJS of lee2022: Gaussian noise, then James-Stein shrinkage.

    Shrinkage pays in squared error whatever the truth is: from three shrunk dimensions on, the output is closer to
    the truth than its measurement, on average and for every table. With fewer it is the measurement itself.

    Guarantee
    ---------
    With μ = Δ₂/σ it is μ-GDP, and has every other guarantee of `Gaussian`: shrinkage is post-processing (lee2022,
    Theorems 4 to 6). The rank-deficient form publishes the exact total, and is refused where that is private. Proofs:
    ``docs/proofs/table_noise.md``.

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
