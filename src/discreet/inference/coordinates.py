"""Coordinates: the one-dimensional mechanism that protected one coordinate of a vector."""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.errors import InvalidParameter
from discreet.mechanisms.mechanism import Mechanism

__all__ = ["coordinate_mechanism"]


def coordinate_mechanism(mechanism: Mechanism, index: int, value: Any) -> Mechanism:
    """The mechanism that acted on coordinate ``index``, given the whole released ``value``.

    Mechanisms that add independent noise to each coordinate have one; mechanisms that build a coordinate's domain
    from others (a covariance inside its variances) say so by a ``coordinate(index, value)`` method.
    """
    own = getattr(mechanism, "coordinate", None)
    if own is not None:
        return own(index, value)  # type: ignore[no-any-return]
    parameters = mechanism.parameters()
    if "scale" not in parameters or parameters.get("as_published") is not None:
        raise InvalidParameter(
            "mechanism",
            mechanism.name,
            "does not protect each coordinate by itself, so it has no law of one coordinate",
            "Use a mechanism with independent noise, or DoubleSanitization.",
        )
    fields: dict[str, Any] = {"scale": _pick(parameters["scale"], index), "grid": parameters.get("grid")}
    if "bounds" in parameters:
        bounds = parameters["bounds"]
        fields["bounds"] = bounds[index] if np.ndim(bounds[0]) == 1 else bounds
    return type(mechanism)(**fields)


def _pick(scale: Any, index: int) -> float:
    return float(scale if np.ndim(scale) == 0 else np.asarray(scale)[index])
