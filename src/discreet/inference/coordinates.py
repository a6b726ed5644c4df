"""Coordinates: one measured number of a vector release, and the one-dimensional mechanism that protected it."""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.core.contract import Mechanism
from discreet.core.errors import InvalidParameter

__all__ = ["measured_coordinate"]


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
