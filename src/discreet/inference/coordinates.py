"""Coordinates: one measured number of a vector release, and the one-dimensional mechanism that protected it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.contract.mechanism import Mechanism
from discreet.core.errors import InvalidParameter

__all__ = ["as_matrix", "measured_coordinate", "pairs"]


def pairs(dimension: int) -> list[tuple[int, int]]:
    """Coordinates of a covariance vector: the variances, then the covariances above the diagonal, row by row."""
    above = [(j, k) for j in range(dimension) for k in range(j + 1, dimension)]
    return [(j, j) for j in range(dimension)] + above


def as_matrix(vector: Any, dimension: int) -> NDArray[np.float64]:
    """The symmetric matrix of a covariance vector."""
    matrix = np.zeros((dimension, dimension))
    for (j, k), value in zip(pairs(dimension), np.asarray(vector, dtype=float), strict=True):
        matrix[j, k] = matrix[k, j] = value
    return matrix


def measured_coordinate(mechanism: Mechanism, measured: Any, index: int) -> tuple[float, Mechanism]:
    """The measurement of coordinate ``index`` and the mechanism that acted on it.

    Conclusions are drawn from measurements, not from what post-processing (rescaling, repair) made of them, because
    measurements have a known law. A mechanism that draws coordinates one after another says which one acted through
    its own ``coordinate``; others have parameters per coordinate, or the same for all.
    """
    values = np.asarray(measured, dtype=float)
    own = getattr(mechanism, "coordinate", None)
    if own is not None:
        value, inner = own(values, index)
        return float(value), inner
    parameters = mechanism.parameters()
    if "scale" not in parameters:
        raise InvalidParameter(
            "mechanism",
            mechanism.name,
            "does not protect each coordinate by itself, so none has a law of its own",
            "Release the vector with independent noise on every coordinate.",
        )
    fields = parameters | {"scale": _pick(parameters["scale"], index)}
    if "bounds" in parameters:
        bounds = parameters["bounds"]
        fields["bounds"] = bounds[index] if np.ndim(bounds[0]) == 1 else bounds
    return float(values[index]), type(mechanism)(**fields)


def _pick(scale: Any, index: int) -> float:
    return float(scale if np.ndim(scale) == 0 else np.asarray(scale)[index])
