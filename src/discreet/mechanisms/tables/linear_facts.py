"""Linear facts: public values of linear functions of a table, and the directions in which they leave it free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter

__all__ = ["LinearFacts", "Rows"]

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
