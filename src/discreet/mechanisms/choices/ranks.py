"""Ranks: how far the points of a public grid are from a target rank, in private data.

A histogram is a pair of rows: the grid steps that occur, with both ends of the grid, and how often they occur. The
distance of a point v from the rank t is max(L(v) − t, t − R(v)), with L(v) rows below v and R(v) rows at most v. It is
negative inside a tie that t falls into. Proofs: ``docs/proofs/quantile.md``.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.noise.choice import choose, noisy_argmax
from discreet.core.noise.families import LargestExponentialFamily
from discreet.core.noise.truth import Truth
from discreet.core.rounding import decimal

__all__ = [
    "FARTHEST",
    "Histogram",
    "RankClasses",
    "below",
    "group_histograms",
    "histogram",
    "picked",
    "rank_distances",
    "share_of",
    "simulated",
]

Integers = NDArray[np.int64]
Histogram = tuple[Integers, Integers]
Generator = np.random.Generator | None
_FINEST = 10**6
"""Largest denominator of a share."""
FARTHEST = 2**52
"""Largest distance, in parts of a rank: floats hold the difference of two exactly."""


def share_of(q: float | Fraction) -> Fraction:
    """The share that a probability stands for: the nearest fraction with a denominator of at most a million.

    Decimals of six digits are exact, and 1/3 is a third. Ranks are whole numbers of its denominator's parts, so every
    probability has an answer for every number of rows.

    Examples
    --------
    >>> share_of(0.25), share_of(1 / 3), share_of(0.1 + 0.2)
    (Fraction(1, 4), Fraction(1, 3), Fraction(3, 10))
    """
    return (q if isinstance(q, Fraction) else decimal(q)).limit_denominator(_FINEST)


def histogram(truth: Truth, lowest: int, highest: int) -> Histogram:
    """Steps in order, from end to end of the grid, and their counts."""
    array = np.asarray(truth)
    if array.dtype.kind not in "iu" or array.ndim != 2 or len(array) != 2:
        raise WrongType("truth", type(truth).__name__, "must be steps and counts", "Use Quantiles.exact.")
    steps, counts = array.astype(np.int64)
    whole = steps.size >= 2 and steps[0] == lowest and steps[-1] == highest and bool((np.diff(steps) > 0).all())
    if not whole or counts.min() < 0:
        raise InvalidParameter("truth", "…", "must be a histogram over the whole grid", "Use Quantiles.exact.")
    return steps, counts


def group_histograms(truth: Truth, lowest: int, highest: int, groups: int) -> list[Histogram]:
    """The histogram of each group, where the truth holds the groups' grids one after another."""
    if groups == 1:
        return [histogram(truth, lowest, highest)]
    cells = highest - lowest + 1
    steps, counts = histogram(truth, lowest, lowest + groups * cells - 1)
    starts = np.searchsorted(steps, lowest + cells * np.arange(groups + 1))
    return [
        histogram(np.array([steps[a:b] - group * cells, counts[a:b]]), lowest, highest)
        for group, (a, b) in enumerate(pairwise(starts.tolist()))
    ]


def rank_distances(left: Integers, right: Integers, target: Fraction, common: int) -> Integers:
    """max(L − t, t − R) of candidates in order, in parts of 1/common, a multiple of the target's denominator.

    The ends are open: no rank is below the first candidate or above the last.
    """
    aim = int(target * common)
    over, under = common * left - aim, aim - common * right
    distances = np.maximum(over, under)
    distances[0], distances[-1] = under[0], over[-1]
    # Beyond 2·10⁸ ranks points are equally far: a distance cut off by constants moves no more than itself.
    return np.clip(distances, -FARTHEST, FARTHEST)


class _Scores(Sequence[Fraction]):
    """−factor · distance, exactly, of those candidates that are asked for."""

    def __init__(self, distances: Integers, factor: Fraction) -> None:
        self.distances, self.factor = distances, factor

    def __len__(self) -> int:
        return self.distances.size

    def __getitem__(self, place: Any) -> Any:
        return -self.factor * int(self.distances[place])


def picked(
    distances: Integers, factor: Fraction, multiplicity: Integers | None, rng: Generator, *, flip: bool = False
) -> int:
    """A class of candidates by multiplicity · exp(−factor · distance), or by permute and flip, exactly.

    Permute and flip: the class with the largest −factor · distance + Exp(1) among its candidates.
    """
    if rng is not None:
        return int(simulated(distances, float(factor), multiplicity, rng, flip=flip)[0])
    if not flip:
        scores = (distances.min() - distances).astype(float)  # whole numbers up to 2⁵³, so exact
        return int(choose(scores, factor, multiplicity=multiplicity))
    runs = np.arange(distances.size) if multiplicity is None else np.flatnonzero(multiplicity > 0)
    apart = distances[runs]
    family = LargestExponentialFamily(np.ones(runs.size) if multiplicity is None else multiplicity[runs].astype(float))
    behind = (apart.min() - apart) * float(factor)
    return int(runs[noisy_argmax(_Scores(apart, factor), lambda *_: family, 1.0, behind=behind)])


def simulated(
    distances: NDArray[Any],
    factor: float,
    multiplicity: Integers | None,
    rng: np.random.Generator,
    *,
    flip: bool = False,
    size: int = 1,
) -> Integers:
    """Classes as `picked` draws them, many at once and in floating point."""
    runs = np.arange(distances.size) if multiplicity is None else np.flatnonzero(multiplicity > 0)
    apart, shape = distances[runs], (size, runs.size)
    scores = (apart.min() - apart) * factor
    counts = None if multiplicity is None else multiplicity[runs].astype(float)
    if not flip:
        noise = rng.gumbel(size=shape) + (0.0 if counts is None else np.log(counts))
    elif counts is None:
        noise = rng.standard_exponential(shape)
    else:
        noise = -np.log(-np.expm1(-rng.standard_exponential(shape) / counts))
    return np.asarray(runs[np.argmax(scores + noise, axis=1)])


def below(count: int, rng: Generator) -> int:
    """A uniform whole number from 0 to count − 1."""
    return secrets.randbelow(count) if rng is None else int(rng.integers(count))


@dataclass(frozen=True)
class RankClasses:
    """Grid points in classes of the same rank distance: every data value, and every gap between two of them."""

    starts: Integers
    widths: Integers
    left: Integers
    right: Integers

    @classmethod
    def of(cls, part: Histogram) -> RankClasses:
        """The classes of a histogram."""
        steps, counts = part
        ranks = np.concatenate([[0], np.cumsum(counts)])
        size = 2 * steps.size - 1
        starts, widths = np.empty(size, np.int64), np.ones(size, np.int64)
        left, right = np.empty(size, np.int64), np.empty(size, np.int64)
        starts[0::2], left[0::2], right[0::2] = steps, ranks[:-1], ranks[1:]
        starts[1::2], widths[1::2] = steps[:-1] + 1, np.diff(steps) - 1
        left[1::2] = right[1::2] = ranks[1:-1]
        return cls(starts, widths, left, right)

    def distances(self, target: Fraction, common: int) -> Integers:
        """Rank distance of each class, in parts of 1/common."""
        return rank_distances(self.left, self.right, target, common)

    def draw(self, target: Fraction, factor: Fraction, rng: Generator, *, flip: bool = False) -> int:
        """One grid step with probability proportional to exp(−factor · distance), or by permute and flip, exactly."""
        common = target.denominator
        place = picked(self.distances(target, common), factor / common, self.widths, rng, flip=flip)
        return int(self.starts[place]) + below(int(self.widths[place]), rng)
