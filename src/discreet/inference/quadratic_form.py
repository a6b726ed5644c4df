"""Quadratic form: departures weighed by the inverse covariance of sampling error plus noise, with their χ² limit.

For a measurement x with mean m(η) under the null and covariance C, the statistic
e'(C⁻¹ − C⁻¹J(J'C⁻¹J)⁻J'C⁻¹)e of the residual e = x − m(η̂) with Jacobian J does not depend, to first order, on how η was
estimated, and tends to χ². Proof: ``docs/proofs/chi_square.md``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from discreet.core.errors import InvalidParameter
from discreet.inference.measured_table import MeasuredTable

__all__ = ["goodness_form", "homogeneity_form", "independence_form"]

Array = NDArray[np.float64]
_LARGEST = 4000


def goodness_form(table: MeasuredTable, probabilities: Array) -> tuple[float, int]:
    """Statistic and degrees of freedom, in O(p)."""
    diagonal = table.size * probabilities + table.variance
    residual = table.cells - table.size * probabilities
    weighted = probabilities / diagonal
    if table.n is None:
        # The estimated N is one nuisance direction, π₀ itself; it also absorbs −N·π₀π₀'.
        square = residual @ (residual / diagonal) - (weighted @ residual) ** 2 / (weighted @ probabilities)
    else:
        # C = diag(Nπ₀ + σ²) − N·π₀π₀' on the tables of total zero, inverted by Sherman and Morrison.
        gain = table.size / (1 - table.size * float(weighted @ probabilities))
        square = residual @ (residual / diagonal) + gain * (weighted @ residual) ** 2
    return float(square), table.cells.size - 1


def _covariance(table: MeasuredTable, shares: Array) -> Array:
    return np.diag(table.size * shares + table.variance) - table.size * np.outer(shares, shares)


def _projected_form(residual: Array, covariance: Array, jacobian: Array) -> float:
    solved = np.linalg.solve(covariance, np.column_stack([residual, jacobian]))
    own, tangent = solved[:, 0], solved[:, 1:]
    inner = jacobian.T @ tangent
    return float(residual @ own - (jacobian.T @ own) @ np.linalg.pinv(inner, hermitian=True) @ (tangent.T @ residual))


def _small_enough(cells: int) -> None:
    if cells > _LARGEST:
        raise InvalidParameter(
            "null", f"{cells} cells", f"the quadratic form takes at most {_LARGEST}", "Use null=MonteCarlo()."
        )


def homogeneity_form(tables: Sequence[MeasuredTable]) -> tuple[float, int]:
    """Statistic and degrees of freedom (r − 1)(p − 1)."""
    p, r = tables[0].cells.size, len(tables)
    _small_enough(p * r)
    together = np.asarray(sum(table.cells for table in tables))
    pooled = tables[0].shares(together / sum(table.size for table in tables))
    covariance = np.zeros((r * p, r * p))
    nuisance = 0 if all(table.n is not None for table in tables) else r
    jacobian = np.zeros((r * p, p - 1 + nuisance))
    contrasts = np.eye(p)[:, 1:] - np.eye(p)[:, :1]
    for index, table in enumerate(tables):
        part = slice(index * p, (index + 1) * p)
        covariance[part, part] = _covariance(table, pooled)
        jacobian[part, : p - 1] = table.size * contrasts
        if nuisance and table.n is None:
            jacobian[part, p - 1 + index] = pooled
    residual = np.concatenate([table.cells - table.size * pooled for table in tables])
    return _projected_form(residual, covariance, jacobian), (r - 1) * (p - 1)


def independence_form(table: MeasuredTable) -> tuple[float, int]:
    """Statistic and degrees of freedom (r − 1)(c − 1)."""
    rows, columns = table.shape
    _small_enough(rows * columns)
    square = table.cells.reshape(rows, columns) / table.size
    by_row, by_column = table.shares(square.sum(axis=1)), table.shares(square.sum(axis=0))
    shares = np.outer(by_row, by_column).ravel()
    row_moves = [np.outer(move, by_column).ravel() for move in (np.eye(rows)[1:] - np.eye(rows)[:1])]
    column_moves = [np.outer(by_row, move).ravel() for move in (np.eye(columns)[1:] - np.eye(columns)[:1])]
    directions = [*row_moves, *column_moves, *([shares] if table.n is None else [])]
    residual = table.cells - table.size * shares
    statistic = _projected_form(residual, _covariance(table, shares), np.column_stack(directions))
    return statistic, (rows - 1) * (columns - 1)
