"""Typical ranks: how far published quantiles are off where rows are spread evenly over the bounds."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms.choices.quantile_choice import QuantileChoice
from discreet.mechanisms.choices.quantile_interval import QuantileInterval
from discreet.mechanisms.choices.ranks import share_of

__all__ = ["typical_ranks"]

Integers = NDArray[np.int64]
_DATA_SETS = 40
_ANSWERS = 400
"""For each quantile: 95 % of its errors are then known to about 5 %."""


@lru_cache(maxsize=256)
def typical_ranks(
    mechanism: QuantileChoice | QuantileInterval, shares: tuple[float, ...], rows: int, level: float = 0.95
) -> float:
    """With probability ``level`` a quantile is within so many ranks of its target: the worst of the quantiles.

    The mechanism itself runs, on groups of ``rows`` rows that are spread evenly over the grid. Of an interval, the rank
    error is that of its farther end.

    Examples
    --------
    >>> median = QuantileChoice(factor=1.0, probabilities=(0.5,), lowest=0, highest=10_000, grid=1.0)
    >>> typical_ranks(median, (0.5,), 1000) < median.rank_error()
    True
    """
    rng = np.random.default_rng(1)  # no data is read: a plan says the same each time
    cells, groups = mechanism.highest - mechanism.lowest + 1, mechanism.groups
    targets = np.array([float(share_of(share)) * rows for share in shares])
    errors = []
    for _ in range(_DATA_SETS):
        drawn = np.sort(np.floor(rng.random((groups, rows)) * (cells - 1) + 0.5).astype(np.int64), axis=1)
        truth = _histogram(drawn, cells, mechanism.lowest)
        for _ in range(-(-_ANSWERS // (_DATA_SETS * groups))):
            found = np.reshape(mechanism.draw(truth, rng=rng), (groups, len(shares), -1))
            steps = np.rint(found / mechanism.grid).astype(np.int64) - mechanism.lowest
            errors += [_off(own, values, targets) for own, values in zip(steps, drawn, strict=True)]
    return float(np.max(np.quantile(errors, level, axis=0, method="higher")))


def _histogram(drawn: Integers, cells: int, lowest: int) -> Integers:
    """Steps and counts of groups one after another, each with both ends of its grid."""
    parts = []
    for group, values in enumerate(drawn):
        steps, counts = np.unique(np.concatenate([[0, cells - 1], values]), return_counts=True)
        counts[[0, -1]] -= 1
        parts.append(np.array([lowest + group * cells + steps, counts]))
    return np.concatenate(parts, axis=1)


def _off(steps: Integers, values: Integers, targets: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks between each target and what was published for it: a step, or an interval's ends around a step."""
    left, right = (np.searchsorted(values, steps, side=side) for side in ("left", "right"))
    if steps.shape[-1] == 1:
        return np.asarray(np.maximum(np.maximum(left[:, 0] - targets, targets - right[:, 0]), 0.0))
    return np.asarray(np.maximum(targets - left[:, 0], right[:, -1] - targets))
