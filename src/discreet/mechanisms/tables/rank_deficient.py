"""The rank-deficient Gaussian mechanism: no noise in directions that are public anyway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.noise.truth import Truth
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.tables.clipping import Box, Clip
from discreet.mechanisms.tables.post_processed import PostProcessed, exact_total

__all__ = ["LinearFacts", "RankDeficientGaussian", "Rows"]


# ---- Linear facts: public values of linear functions of a table, and the directions in which they leave it free


Array = NDArray[np.float64]
Rows = tuple[tuple[float, ...], ...]

_ZERO = 1e-9
"""A unit vector of which less than this is left after a projection lies in the space that was projected away."""


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
        rows = tuple(tuple(requirements.finite("constraints", entry) for entry in row) for row in constraints)
        if not rows or len({len(row) for row in rows}) != 1:
            raise InvalidParameter("constraints", rows, "must be rows of one length", "Pass one row per fact.")
        if np.linalg.matrix_rank(np.array(rows)) < len(rows):
            raise InvalidParameter("constraints", rows, "must be linearly independent", "Drop repeated facts.")
        if values is None or len(values) != len(rows):
            raise InvalidParameter(
                "values", values, "must give the public value of every constraint", "Pass one value per row."
            )
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
        matrix = np.array([[requirements.finite("basis", entry) for entry in row] for row in basis])
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
