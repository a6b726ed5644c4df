"""InclusionLaw: independent yes and no, each with its own probability."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.contract.law import Law
from discreet.core.noise.truth import Floats, generator

__all__ = ["InclusionLaw"]

Array = NDArray[np.float64]


class InclusionLaw(Law):
    """One (shown) or zero (hidden) for every group.

    Parameters
    ----------
    probabilities
        Of being shown, one per group.
    draw
        The exact sampler; `sample` without a generator calls it.

    Examples
    --------
    >>> law = InclusionLaw(np.array([0.25, 1.0]), lambda: np.array([False, True]))
    >>> law.mean.tolist(), law.pdf([[1, 1], [0, 0]]).tolist(), law.quantile(0.5).tolist()
    ([0.25, 1.0], [[0.25, 1.0], [0.75, 0.0]], [0.0, 1.0])
    """

    def __init__(self, probabilities: Array, draw: Callable[[], NDArray[np.bool_]]) -> None:
        self.probabilities = np.asarray(probabilities, dtype=float)
        self._draw = draw

    @property
    def shape(self) -> tuple[int, ...]:
        """One number per group."""
        return self.probabilities.shape

    @property
    def support(self) -> tuple[Floats, Floats]:
        """Zero and one."""
        return 0.0, 1.0

    @property
    def mean(self) -> Floats:
        """The probabilities."""
        return self.probabilities

    @property
    def variance(self) -> Floats:
        """p(1 − p)."""
        return np.asarray(self.probabilities * (1 - self.probabilities))

    @property
    def bias(self) -> Floats:
        """Against showing every group."""
        return np.asarray(self.probabilities - 1)

    def pdf(self, x: ArrayLike) -> Floats:
        """Probability of each outcome."""
        points = np.asarray(x, dtype=float)
        return np.where(points == 1, self.probabilities, np.where(points == 0, 1 - self.probabilities, 0.0))

    def cdf(self, x: ArrayLike) -> Floats:
        """Probability of an outcome of at most ``x``."""
        points = np.asarray(x, dtype=float)
        return np.where(points >= 1, 1.0, np.where(points >= 0, 1 - self.probabilities, 0.0))

    def quantile(self, q: ArrayLike) -> Floats:
        """Zero up to the probability of being hidden, then one."""
        return np.where(np.asarray(q, dtype=float) <= 1 - self.probabilities, 0.0, 1.0)

    def sample(
        self, size: int | tuple[int, ...] | None = None, *, rng: int | np.random.Generator | None = None
    ) -> Floats:
        """Zeros and ones."""
        count = 1 if size is None else int(np.prod(size))
        if rng is None:
            draws = np.array([self._draw() for _ in range(count)], dtype=float)
        else:
            draws = (generator(rng).random((count, *self.shape)) < self.probabilities).astype(float)
        if size is None:
            return np.asarray(draws[0])
        return draws.reshape((size if isinstance(size, tuple) else (size,)) + self.shape)
