"""ChoiceLaw: the distribution of a chosen candidate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.contract.law import Law
from discreet.core.noise.truth import Floats, generator, plain

__all__ = ["ChoiceLaw"]

Array = NDArray[np.float64]


class ChoiceLaw(Law):
    """Outcomes 0 … k − 1 with given probabilities.

    Parameters
    ----------
    probabilities
        One per candidate.
    best
        Position of the truly best candidate, from which bias is counted.
    draw
        The exact sampler; `sample` without a generator calls it.

    Examples
    --------
    >>> law = ChoiceLaw(np.array([0.25, 0.75]), best=1, draw=lambda: 1)
    >>> law.mean, law.pdf([0, 1, 2]).tolist(), law.quantile(0.2)
    (0.75, [0.25, 0.75, 0.0], 0.0)
    """

    def __init__(self, probabilities: Array, best: int, draw: Callable[[], int]) -> None:
        self.probabilities = probabilities / probabilities.sum()
        self.best = best
        self._draw = draw

    @property
    def shape(self) -> tuple[int, ...]:
        """One position."""
        return ()

    @property
    def support(self) -> tuple[Floats, Floats]:
        """First and last position."""
        return 0.0, float(self.probabilities.size - 1)

    @property
    def mean(self) -> Floats:
        """Expected position."""
        return float(self.probabilities @ np.arange(self.probabilities.size))

    @property
    def variance(self) -> Floats:
        """Variance of the position."""
        return float(self.probabilities @ np.square(np.arange(self.probabilities.size) - self.mean))

    @property
    def bias(self) -> Floats:
        """Expected position minus that of the best candidate."""
        return self.mean - self.best

    def pdf(self, x: ArrayLike) -> Floats:
        """Probability of each position; 0 for what is none."""
        points = np.asarray(x, dtype=float)
        known = (points == np.floor(points)) & (points >= 0) & (points < self.probabilities.size)
        return plain(np.where(known, self.probabilities[np.where(known, points, 0).astype(int)], 0.0))

    def cdf(self, x: ArrayLike) -> Floats:
        """Probability of a position of at most ``x``."""
        sums = np.concatenate([[0.0], np.cumsum(self.probabilities)])
        return plain(sums[np.clip(np.floor(np.asarray(x, dtype=float)) + 1, 0, self.probabilities.size).astype(int)])

    def quantile(self, q: ArrayLike) -> Floats:
        """Smallest position with that much probability up to it."""
        sums = np.cumsum(self.probabilities)
        # Cumulated probabilities are off by a few floats: q = 1/2 must find the position whose sum is 1/2.
        positions = np.searchsorted(sums, np.asarray(q, dtype=float) * (1 - 2.0**-50))
        return plain(np.minimum(positions, sums.size - 1).astype(float))

    def sample(self, size: int | tuple[int, ...] | None = None, *, rng: int | np.random.Generator | None = None) -> Any:
        """Positions, as integers."""
        count = 1 if size is None else int(np.prod(size))
        if rng is None:
            draws = np.array([self._draw() for _ in range(count)])
        else:
            draws = generator(rng).choice(self.probabilities.size, size=count, p=self.probabilities)
        return int(draws[0]) if size is None else draws.reshape(size)
