"""Interval ends: the pairs of edges that an interval may begin and end at, and how far each has to reach.

A pair that is likely, because its edges are close to the middle, has a small margin; the others share what is left of
the error probability. Proofs: ``docs/proofs/quantile.md``, Theorem 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms.choices.ranks import FARTHEST, Histogram

__all__ = ["PARTS", "IntervalEnds"]

Integers = NDArray[np.int64]

PARTS = 16
"""Margins are whole multiples of 1/16 rank, so that ranks stay short fractions."""
_MOST = 2**31
_FALL = 0.5
_FLAT = 3.0
"""The k-th edge from the middle outwards, from 0 on, has the weight (k + 3)^−½; edges across it that of the first."""


@dataclass(frozen=True)
class IntervalEnds:
    """Pairs of a lower and an upper edge, and the ranks beyond its targets that each pair has to reach.

    A lower end stands for the cell up to below the next edge, an upper end for that from above the edge before.

    Parameters
    ----------
    lower, upper
        Edges in order: the first lower one is the lowest point of the grid, the last upper one the highest.
    margins
        For each pair, in sixteenths of a rank: larger for lower edges farther down and upper edges farther up.
    """

    lower: Integers
    upper: Integers
    margins: Integers

    @classmethod
    def of(cls, lower: Integers, upper: Integers, *, middle: float, factor: float, others: float) -> IntervalEnds:
        """Margins with which wrong pairs together have ``others`` times the weight of a right one, at most."""
        across = int(np.count_nonzero(lower > middle)), int(np.count_nonzero(upper < middle))
        outwards = _costs(lower.size, across[0])[::-1, None] + _costs(upper.size, across[1])
        allowed = math.log(np.exp(-outwards).sum() / others)
        sixteenths = np.ceil(PARTS * (allowed + outwards) / factor * (1 + 1e-12))
        if sixteenths.max() > _MOST:  # farther than distances are told apart: the whole grid
            return cls(lower[:1], upper[-1:], np.ones((1, 1), dtype=np.int64))
        return cls(lower, upper, np.maximum(sixteenths, 0).astype(np.int64))

    def distances(self, part: Histogram, targets: tuple[Fraction, Fraction], common: int) -> Integers:
        """How far each pair is from reaching as far as it has to and no farther, in parts of 1/common.

        The largest of four numbers of rows: those by which either end falls short of its margin, and those by which the
        next edge inwards would not. The outermost edges never fall short, and the innermost have no next.
        """
        steps, counts = part
        ranks = np.concatenate([[0], np.cumsum(counts)])
        below, upto = ranks[np.searchsorted(steps, self.lower)], ranks[np.searchsorted(steps, self.upper, side="right")]
        margins = common // PARTS * self.margins
        low_short = margins + (common * below - int(targets[0] * common))[:, None]
        high_short = margins + (int(targets[1] * common) - common * upto)
        furthest = np.full((4, *margins.shape), -FARTHEST)
        furthest[0, 1:], furthest[1, :, :-1] = low_short[1:], high_short[:, :-1]
        furthest[2, :-1], furthest[3, :, 1:] = -low_short[1:], -high_short[:, :-1]
        # Beyond 2·10⁸ ranks pairs are equally far: a distance cut off by constants moves no more than itself.
        return np.asarray(np.clip(furthest.max(axis=0).ravel(), -FARTHEST, FARTHEST))

    def at(self, places: Integers | int) -> tuple[Integers, Integers]:
        """Lower and upper ends of pairs at places in the order of the distances."""
        first, second = np.divmod(places, self.upper.size)
        ends = self.lower[first], self.upper[second]
        return np.minimum(*ends), np.maximum(*ends)  # ends that cross, which is unlikely, are put in order


def _costs(size: int, across: int) -> NDArray[np.float64]:
    """Logarithms of how unlikely the edges of a list are, from its inner end outwards; across the middle all alike."""
    return np.asarray(_FALL * np.log(np.maximum(np.arange(size) - across, 0) + _FLAT))
