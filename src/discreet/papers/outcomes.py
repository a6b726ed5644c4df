"""The outcome laws of liu2023 section 5.1, simulated per partition wherever the law allows.

A partition's sum needs the number of its non-zero units (binomial) and, for counts, one draw of the negative binomial
of their total; log-normal amounts are drawn one by one, but only the non-zero ones. Units are never drawn singly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.questions.comparison.sanitizing import Ordered

__all__ = ["LAWS", "Outcome", "Sample", "zero_inflated"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """Repeated experiments: partition differences, and per arm the sum and sum of squares over all units.

    Attributes
    ----------
    differences
        z, one row per repeat and one column per partition.
    sums, squares
        Σy and Σy² per repeat and arm (control, treatment), of outcomes clipped to the law's bounds.
    n
        Units per arm.
    """

    differences: Array
    sums: Array
    squares: Array
    n: int

    @cached_property
    def ordered(self) -> Ordered:
        """The partition differences, sorted."""
        return Ordered.of(self.differences)


Totals = tuple[Array, Array, Array]
"""Partition sums, total sum and total sum of squares of one arm."""


@dataclass(frozen=True)
class Outcome:
    """A law of the outcome in both arms.

    Attributes
    ----------
    name, bounds
        Name, and public bounds of the outcome.
    draw
        ``draw(share, size, shape, rng)``: totals for partitions of ``size`` units, with ``share`` the arm's
        parameter (share of non-zeros, or the mean).
    control, treatment
        That parameter in the control arm, and in the treatment arm where there is an effect.
    mean
        Expected outcome for a value of that parameter.
    """

    name: str
    bounds: tuple[float, float]
    draw: Callable[[float, int, tuple[int, int], tuple[float, float], np.random.Generator], Totals]
    control: float
    treatment: float
    mean: Callable[[float], float]

    def effect(self, different: bool) -> float:
        """θ, the true difference of means."""
        return self.mean(self.treatment) - self.mean(self.control) if different else 0.0

    def sample(self, n: int, partitions: int, repeats: int, different: bool, rng: np.random.Generator) -> Sample:
        """``repeats`` experiments with n units per arm in equal partitions."""
        size, shape = n // partitions, (repeats, partitions)
        arms = [
            self.draw(parameter, size, shape, self.bounds, rng)
            for parameter in (self.control, self.treatment if different else self.control)
        ]
        return Sample(
            differences=(arms[1][0] - arms[0][0]) / size,
            sums=np.stack([arm[1] for arm in arms], axis=1),
            squares=np.stack([arm[2] for arm in arms], axis=1),
            n=size * partitions,
        )


def _gaussian(
    mean: float, size: int, shape: tuple[int, int], bounds: tuple[float, float], rng: np.random.Generator
) -> Totals:
    sigma, n = 6.0, size * shape[1]
    sums = rng.normal(size * mean, sigma * np.sqrt(size), shape)
    total = sums.sum(axis=1)
    # Within partitions the squares are chi-square and independent of the sums; the bounds are 7 σ away.
    within = sigma**2 * rng.chisquare(n - shape[1], shape[0]) if size > 1 else 0.0
    return sums, total, within + (sums**2).sum(axis=1) / size


def zero_inflated(
    share: float, size: int, shape: tuple[int, int], bounds: tuple[float, float], rng: np.random.Generator, draw: Any
) -> Totals:
    """Zero-inflated amounts: draw the non-zero ones and add them up per partition."""
    counts = rng.binomial(size, share, shape)
    values = np.clip(draw(int(counts.sum())), *bounds)
    ends = np.cumsum(counts.ravel())
    running = np.concatenate([[0.0], np.cumsum(values)])
    sums = np.diff(running[np.concatenate([[0], ends])]).reshape(shape)
    rows = np.concatenate([[0], np.cumsum(counts.sum(axis=1))])
    squares = np.diff(np.concatenate([[0.0], np.cumsum(values**2)])[rows])
    return sums, sums.sum(axis=1), squares


def _log_normal(
    share: float, size: int, shape: tuple[int, int], bounds: tuple[float, float], rng: np.random.Generator
) -> Totals:
    return zero_inflated(share, size, shape, bounds, rng, lambda count: rng.lognormal(4.6, 1.0, count))


def _negative_binomial(
    share: float, size: int, shape: tuple[int, int], bounds: tuple[float, float], rng: np.random.Generator
) -> Totals:
    def draw(count: int) -> Array:
        # Poisson with a gamma mean: mean 3, size τ = 2, variance μ + μ²/τ.
        return rng.poisson(rng.gamma(2.0, 1.5, count)).astype(float)

    return zero_inflated(share, size, shape, bounds, rng, draw)


LAWS = {
    law.name: law
    for law in (
        Outcome("Gaussian", (-40.0, 50.0), _gaussian, 3.32, 4.95, lambda mean: mean),
        Outcome("ZILN", (0.0, 5000.0), _log_normal, 0.02, 0.03, lambda share: share * float(np.exp(5.1))),
        Outcome("ZINB", (0.0, 100.0), _negative_binomial, 0.02, 0.03, lambda share: 3.0 * share),
    )
}
"""The three laws of the study with the bounds used here."""
