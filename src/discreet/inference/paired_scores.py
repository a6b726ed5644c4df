"""Scores of differences: what each pair adds to a test of whether differences lean to one side.

A pair scores the sign of its difference, or that sign times the rank of its size. The sum of all scores is released as
a *balance*, which one row moves by at most one whatever the other rows are: see ``docs/proofs/signed_ranks.md``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["METHODS", "PairedScores", "PublicRankScores", "RankScores", "SignScores", "scores_of"]

Array = NDArray[np.float64]
_SIGNS_AT_ONCE = 4_000_000
_NORMAL_FROM = 500
"""From so many rows on, null rank sums are drawn from the normal law: their excess kurtosis is −3.6 over the rows."""


class PairedScores(ABC):
    """How a sum of scores becomes a balance, and how it varies.

    The *lean* of differences is their sum of scores over the largest there is, between −1 and 1.
    """

    name: ClassVar[str]
    hypothesis: ClassVar[str]
    """What a test by these scores assumes."""
    null_variance: ClassVar[float]
    """Of the balance, for each row, where differences are balanced."""
    share_moved: ClassVar[float]
    """How far a balance of one per row moves the share, there."""

    @abstractmethod
    def most(self, rows: Any) -> Any:
        """The largest sum of scores of so many rows."""

    @abstractmethod
    def balance(self, total: Any, rows: Any) -> Any:
        """The balance of a sum of scores; exact for exact numbers."""

    @abstractmethod
    def total(self, balance: Any, rows: Any) -> Any:
        """The sum of scores that has a balance."""

    @abstractmethod
    def null_totals(self, rows: int, size: int, rng: np.random.Generator) -> Array:
        """So many sums of scores of differences without ties that are as likely to be positive as negative."""

    @abstractmethod
    def independent_signs(self, rows: int) -> int:
        """How many independent signs have a mean that spreads as widely as the lean does, over all populations."""


class RankScores(PairedScores):
    """Wilcoxon's signed ranks.

    The balance of a rank sum W of n rows is 2mW/(2m² + |W|) with m = n + 1: about W/n where differences are balanced.
    W/n itself would move by up to 3/2 where they are not.

    Examples
    --------
    >>> from fractions import Fraction
    >>> ranks = RankScores()
    >>> ranks.balance(Fraction(6), 3), ranks.total(Fraction(24, 19), 3)
    (Fraction(24, 19), Fraction(6, 1))
    """

    name, hypothesis = "ranks", "symmetric differences"
    null_variance, share_moved = 1 / 3, 1.0

    def most(self, rows: Any) -> Any:
        return rows * (rows + 1) / 2

    def balance(self, total: Any, rows: Any) -> Any:
        beyond = rows + 1
        return 2 * beyond * total / (2 * beyond * beyond + abs(total))

    def total(self, balance: Any, rows: Any) -> Any:
        beyond = rows + 1
        # No sum of scores has a balance of 2/5 of the rows: a noisy one beyond is far from its pole at 2m.
        return 2 * beyond * beyond * balance / (2 * beyond - abs(balance))

    def null_totals(self, rows: int, size: int, rng: np.random.Generator) -> Array:
        if rows >= _NORMAL_FROM:
            return rng.normal(0.0, math.sqrt(rows * (rows + 1) * (2 * rows + 1) / 6), size)
        ranks, found = np.arange(1.0, rows + 1), []
        for start in range(0, size, step := max(_SIGNS_AT_ONCE // max(rows, 1), 1)):
            positive = rng.random((min(step, size - start), rows), dtype=np.float32) < 0.5
            found.append(2 * (positive @ ranks) - ranks.sum())
        return np.concatenate(found)

    def independent_signs(self, rows: int) -> int:
        # Means over disjoint pairs of rows, averaged over all ways to pair them, are the lean (Hoeffding 1963, 5a).
        return max(rows // 2, 1)


class PublicRankScores(RankScores):
    """The same for a public number of rows, by which the rank sum is divided."""

    def balance(self, total: Any, rows: Any) -> Any:
        return total / rows

    def total(self, balance: Any, rows: Any) -> Any:
        return balance * rows


class SignScores(PairedScores):
    """Signs alone: how many more differences are positive than negative.

    Examples
    --------
    >>> SignScores().balance(3, 7), SignScores().most(7)
    (3, 7)
    """

    name, hypothesis = "signs", "balanced signs"
    null_variance, share_moved = 1.0, 0.5

    def most(self, rows: Any) -> Any:
        return rows

    def balance(self, total: Any, rows: Any) -> Any:
        return total

    def total(self, balance: Any, rows: Any) -> Any:
        return balance

    def null_totals(self, rows: int, size: int, rng: np.random.Generator) -> Array:
        return np.asarray(2.0 * rng.binomial(rows, 0.5, size) - rows)

    def independent_signs(self, rows: int) -> int:
        return rows


METHODS = ("ranks", "signs")
"""Names under which questions ask for scores."""


def scores_of(method: str, *, public: bool) -> PairedScores:
    """The scores of a method, for a public or a private number of rows."""
    if method == "signs":
        return SignScores()
    return PublicRankScores() if public else RankScores()
