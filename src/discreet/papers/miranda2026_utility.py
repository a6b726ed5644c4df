"""Utility with and without omission, for many repeats at once.

A sample of a column is described by how many records of each value stay: a binomial number per distinct value,
because records with equal values are kept with equal probability. So one repeat costs a draw per distinct value,
not per record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr

from discreet.core.errors import NoConversion
from discreet.core.guarantee import ApproxDP
from discreet.omission.amplification import before_outlier_suppression, before_poisson_sampling
from discreet.papers.miranda2026_data import Column

__all__ = [
    "Estimate",
    "Omit",
    "difference",
    "estimate_mean",
    "estimate_share",
    "kept_counts",
    "mean_errors",
    "mode_failures",
    "spendable",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Omit:
    """What is omitted: nothing, a Poisson sample (rate), or outliers (m, M)."""

    rate: float | None = None
    m: float | None = None
    M: float | None = None

    def keep(self, mean_distances: Array) -> Array:
        """Probability of keeping each distinct value."""
        if self.rate is not None:
            return np.full(mean_distances.shape, self.rate)
        if self.m is not None and self.M is not None:
            return np.asarray(1 - self.m - (self.M - self.m) * mean_distances)
        return np.ones(mean_distances.shape)


@lru_cache(maxsize=4096)
def spendable(epsilon: float, delta: float, omit: Omit) -> tuple[float, float] | None:
    """(ε, δ) that the mechanism may spend behind ``omit`` at the target (ε, δ); None where there is no such budget."""
    if omit.rate is None and omit.m is None:
        return epsilon, delta
    target = ApproxDP(epsilon, delta)
    try:
        if omit.rate is not None:
            inner = before_poisson_sampling(target, omit.rate)
        else:
            assert omit.m is not None
            assert omit.M is not None
            inner = before_outlier_suppression(target, omit.m, omit.M)
    except NoConversion:
        return None
    return inner.epsilon, inner.delta


def mean_distances(data: Column, kind: str) -> Array:
    """Mean distance of each distinct value to all records: absolute over the bounds, or discrete."""
    share = data.counts / data.size
    if kind == "discrete":
        return np.asarray(1 - share)
    below = np.cumsum(share) - share
    weighted = np.cumsum(share * data.values) - share * data.values
    total = float(share @ data.values)
    gaps = data.values * below - weighted + (total - weighted - share * data.values) - data.values * (1 - below - share)
    return np.asarray(gaps / (data.bounds[1] - data.bounds[0]))


def kept_counts(data: Column, omit: Omit, kind: str, repeats: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """How many records of each distinct value stay, in each repeat."""
    if omit.rate is None and omit.m is None:
        return np.broadcast_to(data.counts, (repeats, data.counts.size))
    chances = omit.keep(mean_distances(data, kind) if omit.m is not None else np.zeros(data.counts.size))
    # Repeats run fastest, so that the generator sets up each binomial law once.
    return np.asarray(generator.binomial(data.counts[:, None], chances[:, None], size=(data.counts.size, repeats)).T)


@lru_cache(maxsize=4096)
def gaussian_scale(epsilon: float, delta: float) -> float:
    """σ of the optimal Gaussian mechanism for sensitivity 1 (balle2018), in floating point: simulations only."""

    def excess(log_scale: float) -> float:
        scale = math.exp(log_scale)
        first, second = log_ndtr([0.5 / scale - epsilon * scale, -0.5 / scale - epsilon * scale])
        return float(first + math.log(max(-math.expm1(epsilon + second - first), 1e-300)) - math.log(delta))

    high = 0.0
    while excess(high) > 0:
        high += 1.0
    return math.exp(brentq(excess, -12.0, high, xtol=1e-13))


def mean_errors(
    data: Column, noise: str, budget: tuple[float, float], counts: NDArray[np.int64], generator: np.random.Generator
) -> Array:
    """Percent errors of the noisy sum over the noisy count, half of the budget each (miranda2026 §3.1)."""
    sums, totals = counts @ data.values, counts.sum(axis=1)
    reach = max(abs(end) for end in data.bounds)
    if noise == "laplace":
        scale = 2 / budget[0]
        noises = generator.laplace(scale=scale, size=(2, len(counts)))
    else:
        scale = gaussian_scale(budget[0] / 2, budget[1] / 2)
        noises = generator.normal(scale=scale, size=(2, len(counts)))
    with np.errstate(divide="ignore", invalid="ignore"):
        means = (sums + reach * noises[0]) / (totals + noises[1])
    return np.asarray(100 * np.abs(means - data.mean) / data.mean)


def mode_failures(
    data: Column, mechanism: str, budget: tuple[float, float], counts: NDArray[np.int64], generator: np.random.Generator
) -> NDArray[np.bool_]:
    """Whether each repeat chooses a wrong mode, among all whole numbers within the bounds."""
    low, high = (int(end) for end in data.bounds)
    positions = (data.values - low).astype(int)
    truth = positions[int(np.argmax(data.counts))]
    noisy = np.zeros((len(counts), high - low + 1))
    noisy[:, positions] = counts
    noisy += _selection_noise(mechanism, budget, noisy.shape, generator)
    return np.asarray(np.argmax(noisy, axis=1) != truth)


def _selection_noise(
    mechanism: str, budget: tuple[float, float], shape: tuple[int, ...], generator: np.random.Generator
) -> Array:
    """Noise under which the largest count is the choice; as published, 2Δ for exponential and Gumbel noise."""
    epsilon, delta = budget
    if mechanism == "noisy max, Laplace":
        return np.asarray(generator.laplace(scale=1 / epsilon, size=shape))
    if mechanism == "noisy max, Gaussian":
        return np.asarray(generator.normal(scale=gaussian_scale(epsilon, delta), size=shape))
    if mechanism == "noisy max, exponential":
        return np.asarray(generator.standard_exponential(size=shape) * (2 / epsilon))
    return np.asarray(generator.gumbel(scale=2 / epsilon, size=shape))


@dataclass(frozen=True)
class Estimate:
    """A mean over repeats with its standard error and a 95 % interval."""

    value: float
    error: float
    low: float
    high: float


def estimate_mean(draws: Array) -> Estimate:
    """Mean and normal interval."""
    finite = np.asarray(draws, dtype=float)
    mean, error = float(finite.mean()), float(finite.std(ddof=1) / math.sqrt(finite.size))
    return Estimate(mean, error, mean - 1.96 * error, mean + 1.96 * error)


def estimate_share(hits: NDArray[np.bool_]) -> Estimate:
    """Share and Wilson interval."""
    n, share, z = hits.size, float(hits.mean()), 1.96
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return Estimate(share, math.sqrt(max(share * (1 - share), 0.25 / n) / n), middle - half, middle + half)


def difference(without: Estimate, with_omission: Estimate) -> tuple[float, float]:
    """u(M) − u(M∘S), positive where omission helps, and its z-score."""
    gap = without.value - with_omission.value
    spread = math.hypot(without.error, with_omission.error)
    return gap, gap / spread if spread > 0 else 0.0
