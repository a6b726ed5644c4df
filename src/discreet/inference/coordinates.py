"""Coordinates: one measured number of a vector release, and the one-dimensional mechanism that protected it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.contract import Mechanism
from discreet.core.errors import InvalidParameter
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.bounded.boundary_inflated import BoundaryInflatedLaplace
from discreet.mechanisms.bounded.bounded_covariance import BoundedCovariance
from discreet.mechanisms.bounded.bounded_laplace import BoundedLaplace
from discreet.mechanisms.bounded.bounded_proportions import BoundedProportions
from discreet.mechanisms.laplace import Laplace
from discreet.questions.covariance_matrix import pairs

__all__ = ["measured_coordinate"]


def measured_coordinate(mechanism: Mechanism, measured: Any, index: int) -> tuple[float, Mechanism]:
    """The measurement of coordinate ``index`` and the mechanism that acted on it.

    Conclusions are drawn from measurements, not from what post-processing (rescaling, repair) made of them, because
    measurements have a known law.
    """
    values = np.asarray(measured, dtype=float)
    if isinstance(mechanism, BoundedCovariance):
        return float(values[index]), _entry(mechanism, values, index)
    if isinstance(mechanism, BoundedProportions):
        return _share(mechanism, values, index)
    parameters = mechanism.parameters()
    if "scale" not in parameters:
        raise InvalidParameter(
            "mechanism",
            mechanism.name,
            "does not protect each coordinate by itself, so none has a law of its own",
            "Release the vector with independent noise on every coordinate.",
        )
    fields: dict[str, Any] = {"scale": _pick(parameters["scale"], index), "grid": parameters.get("grid")}
    if "bounds" in parameters:
        bounds = parameters["bounds"]
        fields["bounds"] = bounds[index] if np.ndim(bounds[0]) == 1 else bounds
    return float(values[index]), type(mechanism)(**fields)


def _pick(scale: Any, index: int) -> float:
    return float(scale if np.ndim(scale) == 0 else np.asarray(scale)[index])


def _entry(mechanism: BoundedCovariance, values: NDArray[np.float64], index: int) -> Mechanism:
    """A variance inside its public domain; a covariance inside what the released variances leave it."""
    j, k = pairs(mechanism.dimension)[index]
    bounds = mechanism.variance_bounds[j]
    if j != k:
        reach = math.sqrt(max(values[j] * values[k], 0.0))
        if reach == 0:
            raise InvalidParameter(
                "value", 0.0, "a released variance of 0 leaves the covariance no range", "Release with bounded noise."
            )
        bounds = (-reach, reach)
    shares = len(mechanism.changes) if mechanism.weights is None else list(mechanism.weights)
    part = mechanism.budget.split(shares)[index]
    change = Sensitivity(l1=mechanism.changes[index])
    if mechanism.inflated:
        return BoundaryInflatedLaplace.calibrate(part, change, bounds=bounds)
    published = "liu2019" if mechanism.as_published else None
    width = bounds[1] - bounds[0]
    if j != k and change.require_l1() > width:  # a change larger than the domain is one of the domain's width
        change = Sensitivity(l1=width)
    return BoundedLaplace.calibrate(part, change, bounds=bounds, as_published=published)


def _share(mechanism: BoundedProportions, values: NDArray[np.float64], index: int) -> tuple[float, Mechanism]:
    """A measured proportion: a leaf of the tree, or one of those that are not left out."""
    inner: Mechanism
    if mechanism.noise == "laplace":
        inner = Laplace(mechanism.scale, mechanism.grid)
    else:
        kind = BoundedLaplace if mechanism.noise == "bounded" else BoundaryInflatedLaplace
        inner = kind(scale=mechanism.scale, bounds=(0.0, 1.0), grid=mechanism.grid)
    if mechanism.method != "all_but_one":
        return float(values[index - mechanism.categories]), inner
    left_out = mechanism.left_out % mechanism.categories
    if index == left_out:
        raise InvalidParameter("category", index, "was not measured: it takes the rest", "Use method='rescale'.")
    return float(values[index - (index > left_out)]), inner
