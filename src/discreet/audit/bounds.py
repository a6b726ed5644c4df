"""Bounds: what two counts certify about a privacy loss."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "certified_epsilon",
    "certified_mu",
    "clopper_pearson",
    "smallest_excess",
    "smallest_mu",
]

Array = NDArray[np.float64]


def clopper_pearson(successes: ArrayLike, trials: int, alpha: float) -> tuple[Array, Array]:
    """One-sided lower and upper confidence limits of a binomial probability, each at level 1 − ``alpha``."""
    from scipy.special import betaincinv

    k = np.asarray(successes, dtype=float)
    low = np.where(k > 0, betaincinv(np.maximum(k, 1), trials - k + 1, alpha), 0.0)
    high = np.where(k < trials, betaincinv(k + 1, np.maximum(trials - k, 1), 1 - alpha), 1.0)
    return low, high


def certified_epsilon(first: ArrayLike, second: ArrayLike, trials: int, alpha: float, delta: float = 0.0) -> Any:
    """The ε that any (ε, δ) claim must exceed, given how often an event happened on two neighbours.

    Valid with probability 1 − 2·``alpha`` for an event that was fixed before these draws were looked at.
    """
    low, _ = clopper_pearson(first, trials, alpha)
    _, high = clopper_pearson(second, trials, alpha)
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(low - delta, 0.0)) - np.log(high)


def certified_mu(first: ArrayLike, second: ArrayLike, trials: int, alpha: float) -> Any:
    """The μ that any μ-GDP claim must exceed: a test that errs with α and β has Φ⁻¹(1−β) − Φ⁻¹(α) ≤ μ."""
    from scipy.special import ndtri

    low, _ = clopper_pearson(first, trials, alpha)
    _, high = clopper_pearson(second, trials, alpha)
    return ndtri(low) - ndtri(high)


def smallest_excess(p: float, trials: int, alpha: float, epsilon: float, power: float = 0.99) -> float:
    """The smallest true ε above the claim that an event of probability ``p`` reveals with probability ``power``.

    The event has probability p on one neighbour and p·e^(−ε′) on the other; normal approximation of both log
    frequencies, which is accurate for the counts of an audit (thousands).
    """
    from scipy.special import ndtri

    margin, luck = -float(ndtri(alpha)), float(ndtri(power))
    excess = epsilon
    for _ in range(60):
        q = p * math.exp(-excess)
        here, there = math.sqrt((1 - p) / (p * trials)), math.sqrt((1 - q) / (q * trials))
        # Both limits must be passed, so their margins add; chance moves both counts independently.
        excess = epsilon + margin * (here + there) + luck * math.hypot(here, there)
        if excess > epsilon + 50:
            return math.inf
    return excess


def smallest_mu(p: float, trials: int, alpha: float, mu: float, power: float = 0.99) -> float:
    """As `smallest_excess`, for a claim of μ-GDP."""
    from scipy.special import ndtr, ndtri

    margin, luck = -float(ndtri(alpha)), float(ndtri(power))
    excess = mu
    for _ in range(60):
        places = float(ndtri(p)), float(ndtri(p)) - excess
        slopes = [math.exp(-z * z / 2) / math.sqrt(2 * math.pi) for z in places]
        shares = [float(ndtr(z)) for z in places]
        here, there = (
            math.sqrt(share * (1 - share) / trials) / max(slope, 1e-12)
            for share, slope in zip(shares, slopes, strict=True)
        )
        excess = mu + margin * (here + there) + luck * math.hypot(here, there)
        if excess > mu + 20:
            return math.inf
    return excess
