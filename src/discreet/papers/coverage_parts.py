"""Noisy totals in parts of many samples, with the weights and the noise of the question that would release them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.protection import Neighbours
from discreet.core.schema import Bounds, Schema
from discreet.inference.noise_sum import excess_kurtosis
from discreet.papers.coverage_cells import GUARANTEES, Parameters
from discreet.questions.parts import rows_per_unit
from discreet.questions.question import Measurement

__all__ = ["columns_of", "guarantee_of", "parts_of", "released"]

Array = NDArray[np.float64]
_COLUMN = Bounds(0, 1, grid=2**-10, nulls="refuse")  # so that a public number of rows stays what it is


def guarantee_of(parameters: Parameters) -> Any:
    """The guarantee of a setting, with its budget."""
    return GUARANTEES[parameters["guarantee"]](parameters["budget"])


def columns_of(parameters: Parameters, *names: str) -> Schema:
    """Columns between 0 and 1, in a table whose number of rows is private or public as the setting says."""
    public = parameters["size"] == "public"
    return Schema(
        columns=dict.fromkeys(names, _COLUMN),
        neighbours=Neighbours.REPLACE_ONE if public else Neighbours.ADD_REMOVE,
        size=parameters["n"] if public else None,
    )


def parts_of(points: Array, degree: int) -> Array:
    """The parts of every point, one column each."""
    columns = [math.comb(degree, k) * points**k * (1 - points) ** (degree - k) for k in range(degree + 1)]
    return np.stack(columns, axis=1)


def released(asked: Measurement, totals: Array, rng: np.random.Generator) -> dict[str, Any]:
    """What `NoisyTotals` are made of where a release measures exact totals, of which every line is another sample."""
    statistic: Any = asked.statistic
    weights, law = np.array([float(weight) for weight in statistic.multiplied]), asked.mechanism.law(0.0)
    return {
        "totals": totals + np.asarray(law.sample(totals.shape, rng=rng)) / weights,
        "noise": float(np.max(law.variance)) / weights**2,
        "kurtosis": excess_kurtosis(law),
        "size": asked.public.get("n"),
        "rows_per_unit": rows_per_unit(asked.sensitivity, statistic.multiplied),
    }
