"""Sampled law: the distribution of a post-processed output, known through draws."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.contract.mechanism import Law
from discreet.core.errors import InvalidParameter
from discreet.core.noise.truth import Floats, Truth, float_truth, generator

if TYPE_CHECKING:
    from discreet.mechanisms.tables.post_processed import PostProcessed

__all__ = ["SampledLaw"]

Array = NDArray[np.float64]

_DRAWS = 20_000
_CELLS = 4_000_000


class SampledLaw(Law):
    """The joint distribution of all cells of a post-processed table.

    `sample` draws exactly. Moments and distribution functions are cell by cell, from simulated draws with a fixed
    seed, so they repeat: 20,000 draws, or as many as four million cells allow.
    """

    def __init__(self, mechanism: PostProcessed, truth: Truth) -> None:
        self.mechanism, self.truth = mechanism, truth
        self.location = float_truth(truth)

    @cached_property
    def _draws(self) -> Array:
        size = min(_DRAWS, max(_CELLS // max(self.location.size, 1), 16))
        return self.mechanism.simulate(self.truth, size, rng=0).reshape(size, *self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one draw."""
        return self.location.shape

    @property
    def support(self) -> tuple[Floats, Floats]:
        """Non-negative cells where the mechanism clips, otherwise the whole line."""
        low = -np.inf if self.mechanism.clip == "none" else 0.0
        high = np.inf
        if self.mechanism.clip == "simplex" and self.mechanism.total is not None:
            high = float(self.mechanism.total)
        return np.full(self.shape, low), np.full(self.shape, high)

    @property
    def mean(self) -> Floats:
        """Expected output."""
        return np.asarray(self._draws.mean(axis=0))

    @property
    def variance(self) -> Floats:
        """Variance of the output."""
        return np.asarray(self._draws.var(axis=0))

    @property
    def bias(self) -> Floats:
        """Expected output minus truth."""
        return np.asarray(self.mean - self.location)

    def pdf(self, x: ArrayLike) -> Floats:
        """Refused: a post-processed cell has atoms, and so no density."""
        raise InvalidParameter("x", x, "a post-processed output has no density", "Use cdf, quantile or sample.")

    def cdf(self, x: ArrayLike) -> Floats:
        """Share of draws of at most ``x``."""
        return np.asarray((self._draws <= np.asarray(x, dtype=float)).mean(axis=0))

    def quantile(self, q: ArrayLike) -> Floats:
        """Quantile of the draws; ``q`` is one probability."""
        return np.asarray(np.quantile(self._draws, float(np.asarray(q)), axis=0))

    def sample(
        self, size: int | tuple[int, ...] | None = None, *, rng: int | np.random.Generator | None = None
    ) -> Floats:
        """Draw outputs, exactly; or, with ``rng``, simulate them in floating point."""
        source = None if rng is None else generator(rng)
        if size is None:
            return self.mechanism.draw(self.truth, rng=source)
        front = (size,) if isinstance(size, int | np.integer) else tuple(size)
        rows = [self.mechanism.draw(self.truth, rng=source) for _ in range(int(np.prod(front, dtype=int)))]
        return np.asarray(rows).reshape(*front, *self.shape)
