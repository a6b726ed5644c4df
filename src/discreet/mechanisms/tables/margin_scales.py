"""Scales of margins: how to split one budget over components so that the wanted tables are most accurate.

A search like any calibration, and not trusted: the door verifies what comes of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms.tables.components import Axes, below, centred_share

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["Accuracy", "component_variances", "direct_shares", "variance_shares"]

Array = NDArray[np.float64]
Accuracy = Literal["sum", "largest"]
_ROUNDS = 5_000
_MOST_CANDIDATES = 256
_SMALL, _NOTHING = -3.0, 1e-3
"""Where the search starts for tables that are not wanted, and the share below which a table is not measured at all."""
_POWERS = (4.0, 16.0, 64.0, 256.0)
"""Powers whose sums lead from the sum of errors to the largest of them."""
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


def direct_shares(
    sizes: Sequence[int], tables: Sequence[Axes], weights: Array, accuracy: Accuracy = "sum"
) -> dict[Axes, float]:
    """Shares of a pure budget for tables that are measured directly; those without a share are not measured.

    A table W with share e tells about each component A below it with variance ∏d/e² (d of the axes of W that A lacks),
    and several tables tell more together. The weighted cell variances are not convex in the shares, so the search for
    their least sum starts from the wanted tables, from the largest ones alone, and from all margins, and keeps the
    best. The search for the least of the largest goes on from there with power sums of higher and higher powers.
    """
    shares = variance_shares(sizes, tables)
    candidates = shares.components if len(shares.components) <= _MOST_CANDIDATES else tuple(dict.fromkeys(tables))
    told = np.array(
        [
            [
                0.0 if not set(axes) <= set(table) else 1 / math.prod(sizes[a] for a in table if a not in axes)
                for axes in shares.components
            ]
            for table in candidates
        ]
    )

    def cost(logs: Array, power: float) -> tuple[float, Array]:
        """Logarithm of the power mean of weighted cell variances, and its slope."""
        parts = np.exp(logs - logs.max())
        split = parts / parts.sum()
        precision = split**2 @ told
        cells = weights * (shares.of_tables @ (1 / precision))
        largest = float(cells.max())
        powers = (cells / largest) ** power
        pull = powers / cells / float(powers.sum())
        wanted = shares.of_tables.T @ (pull * weights)
        slope = 2 * split * (told @ (-wanted / precision**2))
        return math.log(largest) + math.log(float(powers.sum())) / power, split * (slope - float(slope @ split))

    largest = [not any(set(one) < set(other) for other in candidates) for one in candidates]
    starts = [[one in tables for one in candidates], largest, [True] * len(candidates)]
    found = [_descended(lambda x: cost(x, 1.0), np.where(np.array(start) | largest, 0.0, _SMALL)) for start in starts]
    last = 1.0
    if accuracy == "largest":
        for last in _POWERS:
            found = [_descended(lambda x, power=last: cost(x, power), logs) for logs in found]  # type: ignore[misc]
    best = min(found, key=lambda logs: cost(logs, last)[0])
    split = np.exp(best - best.max())
    split = np.where((split < _NOTHING * split.sum()) & ~np.array(largest), 0.0, split)
    return {table: float(part) for table, part in zip(candidates, split / split.sum(), strict=True) if part > 0}


def _descended(cost: Callable[[Array], tuple[float, Array]], start: Array) -> Array:
    from scipy.optimize import minimize

    return np.asarray(minimize(cost, start, jac=True, method="L-BFGS-B", bounds=[(-30.0, 30.0)] * start.size).x)
