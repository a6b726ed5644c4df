"""Found bounds: from noisy counts in cells to a range that holds a share of the values. Post-processing alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.contract.mechanism import Mechanism
from discreet.inference.noise_sum import NoiseSum, excess_kurtosis, largest_variance

__all__ = ["CellCounts", "FoundBounds", "kurtosis_of"]

Array = NDArray[np.float64]
_FALSE_ALARM = 0.002
"""How often noise alone makes a cell of an empty column stand out."""
_NEXT_TO_IT = 2.5
"""Standard errors from which a cell beside one that stands out belongs to it."""
_CLEAR = 4.0
"""Standard errors from which a cell is no noise: beyond the last such cell, counts are taken to fall outwards."""
_SAFE = 3.0
"""Standard errors of one count by which a range should lose less than it may."""
_WIDER = 1.25
"""A range may be so much wider than the narrowest that seems to hold enough, to be safe or to lose less."""
_NEARLY = 1.02
"""Among ranges that are wider by so little, the one that loses least is chosen."""

_SOME_NOISE = 1e-2


@dataclass(frozen=True)
class FoundBounds:
    """A range between two edges.

    Attributes
    ----------
    low, high
        The range: values from ``low`` to less than ``high``.
    first, last
        The places of both edges.
    """

    low: float
    high: float
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class CellCounts:
    """Noisy counts between edges, with the noise they carry.

    Attributes
    ----------
    edges
        In order; a value that equals an edge lies above it. Both outermost cells are open.
    counts
        One more than edges.
    mechanism
        Whose noise each count carries, independently.
    summed
        How many measured counts make up each of these.
    """

    edges: tuple[float, ...]
    counts: Array
    mechanism: Mechanism
    summed: int = 1

    @cached_property
    def deviation(self) -> float:
        """Standard deviation of one count."""
        return float(np.sqrt(self.summed * largest_variance(self.mechanism)))

    def standing_out(self) -> tuple[int, int] | None:
        """First and last cell of what noise cannot explain, with what adjoins it; None where there is nothing."""
        found = np.flatnonzero(self.counts > _noise_reaches(self.mechanism, self.summed, self.counts.size))
        if not found.size:
            return None
        first, last = int(found[0]), int(found[-1])
        beside = self.counts > _NEXT_TO_IT * self.deviation
        while last + 1 < self.counts.size and beside[last + 1]:
            last += 1
        while first > 0 and beside[first - 1]:
            first -= 1
        return first, last

    def clear(self) -> NDArray[np.intp]:
        """The cells that are no noise."""
        return np.flatnonzero(self.counts > _CLEAR * self.deviation)

    def adjusted(self, other: CellCounts) -> Array:
        """These counts, corrected by others of the same values: least squares over blocks between common edges."""
        common = sorted(set(self.edges) & set(other.edges))
        own, theirs = (np.searchsorted(common, [-np.inf, *edges], side="right") for edges in (self.edges, other.edges))
        found = self.counts.astype(float)
        for block in range(len(common) + 1):
            mine, its = own == block, theirs == block
            spread, others = mine.sum() * self.deviation**2, its.sum() * other.deviation**2
            found[mine] += (other.counts[its].sum() - self.counts[mine].sum()) * self.deviation**2 / (spread + others)
        return found

    def bounds(self, share: float, counts: Array | None = None) -> FoundBounds:
        """A range between edges that holds ``share`` of the values: the narrowest that does so with a margin for noise.

        Where none that is about as narrow as possible has the margin, the range that loses least is chosen.
        """
        used = self.counts if counts is None else counts
        below, above = self._tail(used[::-1])[::-1], self._tail(used)
        allowed = (1 - share) * max(float(used.sum()), 1.0)
        edges = np.asarray(self.edges)
        loss, width = below[:, None] + above[None, :], edges[None, :] - edges[:, None]
        fits = (width > 0) & (loss <= allowed)
        if not fits.any():
            return FoundBounds(float(edges[0]), float(edges[-1]), 0, edges.size - 1)
        near = fits & (width <= _WIDER * width[fits].min())
        safe = near & (loss + _SAFE * self.deviation <= allowed)
        if safe.any():
            near = safe & (width <= _NEARLY * width[safe].min())
        place = int(np.argmin(np.where(near, loss, np.inf)))
        first, last = (int(one) for one in np.unravel_index(place, loss.shape))
        return FoundBounds(float(edges[first]), float(edges[last]), first, last)

    def _tail(self, counts: Array) -> Array:
        """About how many values lie above each edge.

        What noise hides is taken to fall outwards: beyond the last cell that is clear, or beyond the median. So the
        noise of a long tail averages out, and a spike that is clear stays where it is.
        """
        median = int(np.searchsorted(np.maximum.accumulate(np.cumsum(counts)), counts.sum() / 2))
        clear = replace(self, counts=counts).clear()
        start = min(max(median, int(clear[-1]) if clear.size else 0), counts.size - 1)
        smooth = np.r_[counts[:start], _falling(counts[start:])]
        above: Array = np.maximum(np.cumsum(smooth[::-1])[::-1][1:], 0.0)
        return above

    def outside(self, found: FoundBounds, level: float) -> tuple[float, float, float]:
        """How many values lie outside a range that was chosen among these edges, with an interval.

        The interval holds for all ranges between edges at once, so that the choice cannot spoil it.
        """
        counts = np.r_[self.counts[: found.first + 1], self.counts[found.last + 1 :]]
        ranges = len(self.edges) * (len(self.edges) - 1) / 2 or 1
        size = np.array([float(counts.size)])
        reach = float(self._reach(size, size, 1 - (1 - level) / ranges)[0])
        total = float(counts.sum())
        return total, total - reach, total + reach

    def beyond(self, edge: int, level: float) -> tuple[float, float, float]:
        """How many values reach an edge that was chosen among these, with an interval that holds for all of them."""
        counts = self.counts[edge + 1 :]
        size = np.array([float(counts.size)])
        reach = float(self._reach(size, size, 1 - (1 - level) / len(self.edges))[0])
        total = float(counts.sum())
        return total, total - reach, total + reach

    def _reach(self, squares: Array, fourths: Array, level: float) -> Array:
        """How far sums of noise stay from zero, from the sums of squares and fourth powers of their weights.

        One noise stands for each sum: of the same variance, and of the largest kurtosis among them.
        """
        kurtosis = kurtosis_of(self.mechanism) * float(np.max(fourths / squares**2)) / self.summed
        return NoiseSum(0.0, (self.deviation * np.sqrt(squares))[None], kurtosis).quantile((1 + level) / 2)

    def quantile(self, q: float, level: float) -> tuple[float, float, float]:
        """A quantile of the values, and the edges between which it lies with probability ``level``.

        The quantile is above an edge where (1 − q)·(values below) < q·(values above); each edge gets its part of
        1 − level. An end that is not known is infinite.
        """
        edges = np.asarray(self.edges)
        below, above = np.cumsum(self.counts)[:-1], np.cumsum(self.counts[::-1])[::-1][1:]
        tilt = (1 - q) * below - q * above
        reach = _tilt_reaches(self.mechanism, self.summed, edges.size, q, level)
        sure_below, sure_above = np.flatnonzero(tilt + reach < 0), np.flatnonzero(tilt - reach > 0)
        low = float(edges[sure_below[-1]]) if sure_below.size else -np.inf
        high = float(edges[sure_above[0]]) if sure_above.size else np.inf
        return self._interpolated(tilt), low, max(high, low)

    def _interpolated(self, tilt: Array) -> float:
        """Where the tilt, made to rise, crosses zero."""
        rising = -_falling(-tilt, floor=None)
        return float(np.interp(0.0, rising, np.asarray(self.edges)))


@lru_cache(maxsize=256)
def _noise_reaches(mechanism: Mechanism, summed: int, cells: int) -> float:
    """What the largest count of an empty column stays below; columns share it."""
    cell = CellCounts((), np.zeros(1), mechanism, summed)
    return float(cell._reach(np.ones(1), np.ones(1), 1 - 2 * _FALSE_ALARM / cells)[0])


@lru_cache(maxsize=512)
def _tilt_reaches(mechanism: Mechanism, summed: int, edges: int, q: float, level: float) -> Array:
    """How far noise moves the tilt at each of so many edges; columns share it."""
    cells = np.arange(1, edges + 1)
    squares, fourths = (cells * (1 - q) ** k + (edges + 1 - cells) * q**k for k in (2, 4))
    return CellCounts((), np.zeros(1), mechanism, summed)._reach(squares, fourths, 1 - (1 - level) / edges)


@lru_cache(maxsize=64)
def kurtosis_of(mechanism: Mechanism) -> float:
    """Excess kurtosis of a mechanism's noise."""
    law = mechanism.law(0.0)
    # Noise that is all but nothing has no shape to measure; the largest kurtosis errs on the safe side.
    return excess_kurtosis(law) if float(np.max(np.asarray(law.variance))) > _SOME_NOISE else 3.0


def _falling(values: Array, floor: float | None = 0.0) -> Array:
    """The nearest sequence that never rises (pool adjacent violators), not below ``floor``."""
    pools: list[tuple[float, int]] = []
    for value in values.tolist():
        mean, size = value, 1
        while pools and pools[-1][0] < mean:
            before, count = pools.pop()
            mean, size = (before * count + mean * size) / (count + size), count + size
        pools.append((mean, size))
    found = np.repeat([mean for mean, _ in pools], [size for _, size in pools])
    return found if floor is None else np.maximum(found, floor)


def whole_numbers(counts: Sequence[Any]) -> tuple[Array, Array]:
    """Counts of whole numbers and of others, from cells that tell them apart."""
    pairs = np.asarray(counts, dtype=float).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]
