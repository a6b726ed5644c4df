"""Typical ranks: how far published quantiles are off where rows are spread evenly over the bounds."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms.choices.interval_ends import PARTS
from discreet.mechanisms.choices.quantile_choice import QuantileChoice
from discreet.mechanisms.choices.quantile_interval import QuantileInterval, rough_pair
from discreet.mechanisms.choices.ranks import Histogram, RankClasses, share_of, simulated

__all__ = ["typical_ranks"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
_DATA_SETS = 60
_ANSWERS = 6
"""From each data set and for each quantile: 95 % of the errors are then known to about 5 %."""
_FINE = 30
"""Rows farther from a quantile than so many ranks come in clumps of a thirtieth of their distance."""
_ALIKE = 0.05
"""And rows whose distances change log-weights by no more than this, too."""


@lru_cache(maxsize=256)
def typical_ranks(
    mechanism: QuantileChoice | QuantileInterval, shares: tuple[float, ...], rows: int, level: float = 0.95
) -> float:
    """With probability ``level`` a quantile is within so many ranks of its target: the worst of the quantiles.

    The mechanism runs, many times at once, on ``rows`` rows that are spread evenly over the grid. Of an interval, the
    error is that of its farther end: the rows between it and the target, without those on the end itself.

    Examples
    --------
    >>> median = QuantileChoice(factor=1.0, probabilities=(0.5,), lowest=0, highest=10_000, grid=1.0)
    >>> typical_ranks(median, (0.5,), 1000) < median.rank_error()
    True
    """
    rng = np.random.default_rng(1)  # no data is read: a plan says the same each time
    factor = mechanism.factor if isinstance(mechanism, QuantileChoice) else mechanism.first + mechanism.second
    targets = np.array([float(share_of(share)) * rows for share in shares])
    ranks = _ranks(targets, rows, factor)
    errors = []
    for _ in range(_DATA_SETS):  # groups are alike, so one stands for all
        data = _spread(ranks, rows, mechanism, rng)
        ends = _chosen(data, mechanism, rng) if isinstance(mechanism, QuantileChoice) else _ends(data, mechanism, rng)
        errors.append(_off(data, ends, targets))
    return float(np.max(np.quantile(np.concatenate(errors), level, axis=0, method="higher")))


def _ranks(targets: Floats, rows: int, factor: float) -> Integers:
    """Ranks whose rows are told apart: all of them close to a target, fewer and fewer farther away."""
    away, least = [0], max(1, int(_ALIKE / factor))
    while away[-1] < rows:
        away.append(away[-1] + max(least, away[-1] // _FINE))
    near = np.rint(targets).astype(np.int64)[:, None] + np.concatenate([away, np.negative(away)])
    return np.unique(np.append(near[(near > 0) & (near < rows)], rows))


def _spread(
    ranks: Integers, rows: int, mechanism: QuantileChoice | QuantileInterval, rng: np.random.Generator
) -> Histogram:
    """Rows spread evenly: order statistics of the uniform law, those between two ranks with the upper one."""
    places = np.cumsum(rng.standard_gamma(np.diff(ranks, prepend=0)))
    share = places / (places[-1] + rng.standard_gamma(rows + 1 - ranks[-1]))
    steps = mechanism.lowest + np.floor(share * (mechanism.highest - mechanism.lowest) + 0.5).astype(np.int64)
    steps = np.concatenate([[mechanism.lowest], steps, [mechanism.highest]])
    last = np.append(np.diff(steps) > 0, True)  # of several in one place
    return steps[last], np.diff(np.concatenate([[0], ranks, [rows]])[last], prepend=0)


def _chosen(data: Histogram, mechanism: QuantileChoice, rng: np.random.Generator) -> Integers:
    """Steps that a choice publishes: answers × quantiles × 1."""
    if mechanism.recursive:
        alone, truth = replace(mechanism, groups=1), np.array(data)
        drawn = np.array([np.ravel(alone.draw(truth, rng=rng)) for _ in range(_ANSWERS // 2)])
        return np.rint(drawn / mechanism.grid).astype(np.int64)[:, :, None]
    classes, rows = RankClasses.of(data), int(data[1].sum())
    steps = []
    for q in mechanism.probabilities:
        target = share_of(q) * rows
        apart = classes.distances(target, target.denominator) / target.denominator
        place = simulated(apart, mechanism.factor, classes.widths, rng, flip=mechanism.flip, size=_ANSWERS)
        steps.append(classes.starts[place] + rng.integers(classes.widths[place]))
    order = np.argsort(np.argsort(mechanism.probabilities, kind="stable"), kind="stable")
    return np.sort(np.array(steps).T, axis=1)[:, order, None]


def _ends(data: Histogram, mechanism: QuantileInterval, rng: np.random.Generator) -> Integers:
    """Steps where intervals end: answers × quantiles × 2, all from the same cells."""
    rows, ends = int(data[1].sum()), []
    for low, high in mechanism.shares:
        shares = share_of(low), share_of(high)
        first = mechanism.first_targets(*shares, rows)
        rough = rough_pair(data, first, Fraction(mechanism.first), rng, flip=mechanism.flip)
        choice = mechanism.ends(rough)
        common = math.lcm(PARTS, *(share.denominator for share in shares))
        apart = choice.distances(data, (shares[0] * rows, shares[1] * rows), common)
        place = simulated(apart / common, mechanism.second, None, rng, flip=mechanism.flip, size=_ANSWERS)
        ends.append(np.stack(choice.at(place), axis=1))
    return np.stack(ends, axis=1)


def _off(data: Histogram, ends: Integers, targets: Floats) -> Floats:
    """Rows between each target and what was published for it: a step, or the ends of an interval."""
    steps, counts = data
    upto = np.append(0, np.cumsum(counts))
    left, right = upto[np.searchsorted(steps, ends[..., -1])], upto[np.searchsorted(steps, ends[..., 0], side="right")]
    return np.asarray(np.maximum(np.maximum(left - targets, targets - right), 0.0))
