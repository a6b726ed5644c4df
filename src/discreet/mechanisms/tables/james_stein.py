"""James-Stein Gaussian mechanisms: noisy tables, shrunk towards a point that is cheap to be wrong about."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import scipy
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.noise.sampler import Truth
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.tables.post_processed import PostProcessed, exact_total, onto_total

# ---- The rank-deficient Gaussian mechanism: no noise in directions that are public anyway.


# ---- Linear facts: public values of linear functions of a table, and the directions in which they leave it free


Array = NDArray[np.float64]
Rows = tuple[tuple[float, ...], ...]

_ZERO = 1e-9
"""A unit vector of which less than this is left after a projection lies in the space that was projected away."""


def _matrix(name: str, value: Any) -> Rows:
    """Rows of numbers, all of one length."""
    form = f"{name}=((1, 1, 0),)"
    given = [requirements.listed(name, row, form) for row in requirements.listed(name, value, form)]
    rows = tuple(tuple(requirements.finite(name, entry) for entry in row) for row in given)
    if not rows or len({len(row) for row in rows}) != 1:
        raise InvalidParameter(name, rows, "must be rows of one length", "Pass one row per fact.")
    return rows


@dataclass(frozen=True)
class LinearFacts:
    """Rows c and public values v with c·θ = v for the table θ.

    Examples
    --------
    >>> facts = LinearFacts.of([[1, 1, 0, 0], [0, 0, 1, 1]], [10, 20])
    >>> facts.projected(np.array([6.0, 6.0, 9.0, 8.0]))
    array([ 5. ,  5. , 10.5,  9.5])
    """

    rows: Rows
    values: tuple[float, ...]

    @classmethod
    def of(cls, constraints: Any, values: Any) -> LinearFacts:
        """Check what the user declares; rows must be independent, with one value each."""
        rows = _matrix("constraints", constraints)
        if np.linalg.matrix_rank(np.array(rows)) < len(rows):
            raise InvalidParameter("constraints", rows, "must be linearly independent", "Drop repeated facts.")
        if values is None or len(requirements.listed("values", values, "values=(10,)")) != len(rows):
            fix = "Pass one value per row."
            raise InvalidParameter("values", values, "must give the public value of every constraint", fix)
        return cls(rows, tuple(requirements.finite("values", value) for value in values))

    @cached_property
    def _inverse(self) -> Array:
        return np.asarray(np.linalg.pinv(np.array(self.rows)))

    def projected(self, cells: Array) -> Array:
        """The nearest tables (last axis) that agree with the facts."""
        self.check_length(cells.shape[-1])
        missing = np.asarray(self.values) - cells @ np.array(self.rows).T
        return np.asarray(cells + missing @ self._inverse.T)

    def check_length(self, cells: int) -> None:
        """Refuse a table of another number of cells."""
        if len(self.rows[0]) != cells:
            raise InvalidParameter(
                "constraints", f"{len(self.rows[0])} columns", f"must have one for each of {cells} cells",
                "Give every row one entry per cell, in the order of the flattened table.",
            )  # fmt: skip

    def kept(self) -> Array:
        """The share of the noise variance that the projection leaves in every cell."""
        return np.asarray(1 - np.einsum("ij,ji->i", self._inverse, np.array(self.rows)))

    @property
    def known(self) -> Array:
        """C⁺v, the part of the table that the facts fix: the nearest point to the origin that agrees with them."""
        return np.asarray(self._inverse @ np.asarray(self.values))

    @cached_property
    def basis(self) -> Array:
        """U_θ of lee2022 (6): orthonormal columns for the free directions; for the total alone, the Helmert columns.

        Gram–Schmidt on the projections of −e_p, −e_{p−1}, …, which gives Helmert's columns where the fact is the total.
        """
        p = len(self.rows[0])
        free = np.eye(p) - self._inverse @ np.array(self.rows)
        found: list[Array] = []
        for start in -free[::-1]:
            rest = start.copy()
            for _ in range(2):  # twice is enough (Kahan)
                for column in found:
                    rest -= (column @ rest) * column
            length = float(np.linalg.norm(rest))
            if length > _ZERO and len(found) < p - len(self.rows):
                found.append(rest / length)
        return np.array(found).T.reshape(p, len(found))

    def checked_basis(self, basis: Sequence[Sequence[float]]) -> Rows:
        """A basis given by rows (one per cell): orthonormal columns for exactly the directions that are free."""
        matrix = np.array(_matrix("basis", basis))
        p, q = len(self.rows[0]), len(self.rows[0]) - len(self.rows)
        fits = matrix.shape == (p, q)
        if not fits or not np.allclose(matrix.T @ matrix, np.eye(q), atol=1e-9):
            raise InvalidParameter("basis", "…", f"must be {q} orthonormal columns of {p} cells", "Leave basis out.")
        if not np.allclose(np.array(self.rows) @ matrix, 0, atol=1e-9 * max(map(np.linalg.norm, self.rows))):
            raise InvalidParameter("basis", "…", "must not move what the constraints fix", "Leave basis out.")
        return tuple(tuple(map(float, row)) for row in matrix)


@dataclass(frozen=True, kw_only=True)
class RankDeficientGaussian(PostProcessed):
    """M_r of lee2022: Gaussian noise, projected on the tables that agree with what is public.

    By default the public fact is the total. Other facts are linear: ``constraints`` and their public ``values``.

    Guarantee
    ---------
    With μ = Δ₂/σ it is μ-GDP, tight, and has every other guarantee of `Gaussian` (lee2022, Theorem 2). The exact total
    may only be read from the data under replace-one neighbours, where it is public; otherwise it must be given. Proof:
    ``docs/proofs/table_noise.md``.

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
    >>> from discreet import GaussianDP, Neighbours
    >>> from discreet.questions import ContingencyTable
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
        if self.constraints is None:
            if self.values is not None:
                raise InvalidParameter("values", self.values, "belong to constraints", "Pass both, or total=….")
            return
        if self.total is not None or self.clip == "simplex":
            fix = "Leave out total, and do not clip to it."
            raise InvalidParameter("constraints", self.constraints, "already say what is public", fix)
        facts = LinearFacts.of(self.constraints, self.values)
        object.__setattr__(self, "constraints", facts.rows)
        object.__setattr__(self, "values", facts.values)

    @cached_property
    def _facts(self) -> LinearFacts | None:
        return None if self.constraints is None else LinearFacts.of(self.constraints, self.values)

    @classmethod
    def calibrate(cls, guarantee: Guarantee, sensitivity: Sensitivity, **settings: Any) -> Self:
        """The least noise that meets ``guarantee``, rounded up; ``settings`` are the other fields of the mechanism."""
        return cls(scale=Gaussian.calibrate(guarantee, sensitivity).scale, **settings)

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

    def noise_interval(self, value: Any, level: float) -> tuple[Any, Any]:
        """Interval for every cell: the projection takes its share of the noise away."""
        array = np.asarray(value, dtype=float)
        kept = np.sqrt(self._kept(array.size)).reshape(array.shape)
        low, high = Gaussian(self.scale, self.grid).noise_interval(np.zeros(()), level)
        return array + kept * low, array + kept * high

    @property
    def projects(self) -> bool:
        """True where the measurement is moved to declared facts, so that cells no longer carry independent noise."""
        return self._facts is not None

    def agreeing(self, cells: Array) -> Array:
        """The nearest table that agrees with the facts."""
        return cells if self._facts is None else self._facts.projected(cells)

    def _kept(self, cells: int) -> Array:
        """The share of the noise variance that the projection leaves in every cell."""
        return np.full(cells, 1 - 1 / cells) if self._facts is None else self._facts.kept()

    def error(self, level: float = 0.95) -> float:
        """An upper bound for every cell: that of `Gaussian`."""
        return float(np.asarray(self.noise.error(level)))


# ---- Helmert coordinates: the directions in which a table can move while its total stands still.
#
# The Helmert matrix (lee2022, section 4.1) has the constant column u₁ = p^{−1/2}·1 and, for k = 2, …, p, the columns
# u_k = [k(k−1)]^{−1/2}·(1, …, 1, 1−k, 0, …, 0). It is never built: both directions are running sums, so a table of p
# cells takes O(p) time and memory.


def _weights(cells: int) -> tuple[Array, Array]:
    """k − 1 and [k(k−1)]^{−1/2} for k = 2, …, p."""
    before = np.arange(1.0, cells)
    return before, 1 / np.sqrt(before * (before + 1))


def to_helmert(table: Array) -> Array:
    """The p − 1 coordinates U_θᵀx of the part of a table that does not change its total (last axis).

    Examples
    --------
    >>> to_helmert(np.array([3.0, 1.0, 2.0])).round(4)
    array([1.4142, 0.    ])
    """
    before, weight = _weights(table.shape[-1])
    coordinates = np.cumsum(table[..., :-1], axis=-1)
    coordinates -= before * table[..., 1:]
    coordinates *= weight
    return coordinates


def from_helmert(coordinates: Array) -> Array:
    """The table U_θ·z with total zero that has these Helmert coordinates.

    Examples
    --------
    >>> table = np.array([3.0, 1.0, 2.0])
    >>> (2 + from_helmert(to_helmert(table))).round(12)
    array([3., 1., 2.])
    """
    cells = coordinates.shape[-1] + 1
    before, weight = _weights(cells)
    scaled = coordinates * weight
    table = np.zeros((*coordinates.shape[:-1], cells))
    table[..., :-1] = np.cumsum(scaled[..., ::-1], axis=-1)[..., ::-1]
    table[..., 1:] -= before * scaled
    return table


def trend(cells: int) -> Array:
    """The direction U_θ·1 in which all Helmert coordinates grow alike: high first cells, low last ones.

    Its squared length is p − 1. M_rJS leaves this direction unshrunk (lee2022 (10)).

    Examples
    --------
    >>> trend(3).round(4)
    array([ 1.1154, -0.2989, -0.8165])
    """
    return from_helmert(np.ones(cells - 1))


# ---- James-Stein Gaussian mechanisms: noisy tables, shrunk towards a point that is cheap to be wrong about.


# ---- Shrinkage: James-Stein estimators of noisy tables, and their exact mean squared error
#
# Formulas and proofs: ``docs/proofs/table_noise.md``.


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
    """The saving by the positive part: E[(W − 2c + c²/W − 2λ(1 − c/W'))·1{· < c}].

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
class JamesSteinGaussian(RankDeficientGaussian):
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

    towards: Towards = "mean"
    rank_deficient: bool = False
    as_published: bool = False
    basis: Rows | None = None
    name: ClassVar[str] = "james_stein_gaussian"

    def __post_init__(self) -> None:
        super().__post_init__()
        requirements.instance("towards", self.towards, str, 'towards="mean"')
        if self.towards not in get_args(Towards):
            fix = 'Pass towards="mean".'
            raise InvalidParameter("towards", self.towards, f"must be one of {list(get_args(Towards))}", fix)
        for name in ("rank_deficient", "as_published"):
            requirements.instance(name, getattr(self, name), bool, f"{name}=True or False")
        if self.constraints is not None and not self.rank_deficient:
            fix = "Pass rank_deficient=True."
            raise InvalidParameter("constraints", self.constraints, "say what is public instead of the total", fix)
        if self.basis is not None:
            if self._facts is None:
                raise InvalidParameter("constraints", None, "must be given with a basis", "Pass constraints=….")
            object.__setattr__(self, "basis", self._facts.checked_basis(self.basis))

    def _directions(self, facts: LinearFacts) -> Array:
        return facts.basis if self.basis is None else np.array(self.basis)

    @property
    def keeps_total(self) -> bool:
        """True where the measurement has the table's exact total."""
        return self.rank_deficient and self.constraints is None

    @property
    def projects(self) -> bool:
        """False: shrinkage reads the free directions alone, so the measurement stays as it was drawn."""
        return False

    def _constrained(self, cells: Array, truth: Truth) -> Array:
        if self._facts is None:
            return super()._constrained(cells, truth)
        self._facts.check_length(cells.shape[-1])
        return cells

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

    def largest_bias(self, cells: int) -> float:
        """Bound on the distance of the expected table of so many cells from the truth: σ√(k − 2)/2."""
        free = target(cells, self.towards, self.rank_deficient)
        if self._facts is not None:
            free = target(self._directions(self._facts).shape[1], self.towards, rank_deficient=False)
        return self.scale * math.sqrt(free.constant) / 2

    def noise_interval(self, value: Any, level: float) -> tuple[Any, Any]:
        """Interval for every cell behind a *measurement*."""
        if not self.rank_deficient:
            return self.noise.noise_interval(value, level)
        array = np.asarray(value, dtype=float)
        return super().noise_interval(self.agreeing(array.ravel()).reshape(array.shape), level)
