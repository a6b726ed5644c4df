"""Scales of margins: how to split one budget over components so that the wanted tables are most accurate.

A search like any calibration, and not trusted: the door verifies what comes of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms.tables.components import Axes, below, centred_share

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["Accuracy", "component_variances", "variance_shares"]

Array = NDArray[np.float64]
Accuracy = Literal["sum", "largest"]
_ROUNDS = 5_000
_GAP = 1e-7
"""The search for the least largest variance stops within this of the optimum, which duality bounds."""


@dataclass(frozen=True)
class Shares:
    """How much of each component's variance reaches a cell of each table, and what a row costs in each component."""

    components: tuple[Axes, ...]
    of_tables: csr_array
    cost: Array


def variance_shares(sizes: Sequence[int], tables: Sequence[Axes]) -> Shares:
    """Cell variance of table W is Σ σ_A²·p_A/∏d² over the components A below it, with d of the axes that A lacks."""
    from scipy.sparse import csr_array

    components = below(tables)
    column = {axes: position for position, axes in enumerate(components)}
    cost = np.array([float(centred_share(sizes, axes)) for axes in components])
    entries, rows, columns = [], [], []
    for row, table in enumerate(tables):
        for axes in below([table]):
            spread = math.prod(sizes[axis] for axis in table if axis not in axes)
            entries.append(cost[column[axes]] / spread**2)
            rows.append(row)
            columns.append(column[axes])
    shape = (len(tables), len(components))
    return Shares(components, csr_array((entries, (rows, columns)), shape=shape), cost)


def component_variances(shares: Shares, weights: Array, accuracy: Accuracy) -> Array:
    """Noise variances of the components, for a row that costs μ² = 1 in all.

    ``"sum"`` makes the weighted sum of cell variances least, in closed form: with v = Σ w·share, σ² ∝ √(p/v) (Xiao et
    al., NeurIPS 2023). ``"largest"`` makes the largest weighted cell variance least: the sum for those weights on the
    tables that make it largest, since the two problems are dual.
    """
    if accuracy == "sum":
        return _least_sum(shares, weights)
    chosen = np.full(weights.size, 1 / weights.size)
    for _ in range(_ROUNDS):
        variances = _least_sum(shares, chosen * weights)
        cells = weights * (shares.of_tables @ variances)
        average = float(chosen @ cells)  # no choice of variances can do better than this for all tables at once
        if cells.max() <= average * (1 + _GAP):
            break
        chosen *= cells / average
        chosen /= chosen.sum()
    return variances


def _least_sum(shares: Shares, weights: Array) -> Array:
    value = shares.of_tables.T @ weights / shares.cost  # v of one unit of σ²·p
    # A component that no weighted table needs still gets finite noise: next to none of the budget.
    value = np.maximum(value, 1e-12 * value.max())
    per_cost = 1 / np.sqrt(value)
    return np.asarray(per_cost * float(np.sum(shares.cost / per_cost)))
