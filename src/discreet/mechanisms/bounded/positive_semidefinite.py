"""Positive semidefinite: the nearest covariance matrix with its variances inside their bounds (higham2002)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["nearest_covariance"]

Array = NDArray[np.float64]

_MOST_ROUNDS = 2000
_CLOSE = 1e-12


def _onto_cone(matrix: Array) -> Array:
    """The nearest positive-semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def nearest_covariance(matrix: Array, lower: Array, upper: Array) -> Array:
    """The nearest positive-semidefinite matrix whose diagonal lies within bounds, in the Frobenius norm.

    Alternating projections with Dykstra's correction, as in higham2002 for correlation matrices: onto the cone, and
    onto the matrices whose diagonal lies within the bounds. The last step scales rows and columns alike, which keeps
    the matrix in the cone and puts the diagonal exactly where it must be.

    Parameters
    ----------
    matrix
        A symmetric matrix; returned itself where it already is what is asked for.
    lower, upper
        Bounds of the diagonal.

    Examples
    --------
    >>> bad = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    >>> good = nearest_covariance(bad, np.zeros(3), np.full(3, 2.0))
    >>> bool(np.linalg.eigvalsh(good).min() > -1e-12), bool(np.diag(good).max() <= 2.0)
    (True, True)
    """
    diagonal = np.diag(matrix)
    scale = max(float(np.abs(matrix).max()), 1e-300)
    inside = bool(np.all((diagonal >= lower) & (diagonal <= upper)))
    if inside and float(np.linalg.eigvalsh(matrix)[0]) >= -_CLOSE * scale:
        return matrix
    current, correction = matrix, np.zeros_like(matrix)
    for _ in range(_MOST_ROUNDS):
        shifted = current - correction
        cone = _onto_cone(shifted)
        correction = cone - shifted
        following = cone.copy()
        np.fill_diagonal(following, np.clip(np.diag(cone), lower, upper))
        if np.abs(following - cone).max() <= _CLOSE * scale and np.abs(following - current).max() <= _CLOSE * scale:
            break
        current = following
    return _within_bounds(cone, lower, upper)


def _within_bounds(matrix: Array, lower: Array, upper: Array) -> Array:
    diagonal = np.diag(matrix).copy()
    wanted = np.clip(diagonal, lower, upper)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(diagonal > 0, np.sqrt(wanted / diagonal), 0.0)
    scaled = factor[:, None] * matrix * factor[None, :]
    np.fill_diagonal(scaled, wanted)
    return np.asarray((scaled + scaled.T) / 2)
