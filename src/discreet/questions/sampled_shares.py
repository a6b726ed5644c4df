"""Sampled shares: how far the shares of a random sample are from those of the population it is from.

P(X ≤ k) ≤ Φ(−√(2n·H((k + 1)/n, q))) for a binomial number X of n rows below its mean, with H the relative entropy
(zubkov2013). Both functions hold for every number of rows from the one that is given on. Proof:
``docs/proofs/quantile.md``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.noise.truth import Floats

__all__ = ["noise_miss", "sampled_shares"]

_STRATA = 4000
"""Of the noise: its tail is averaged from above, so more of them lose less."""


def sampled_shares(q: float, rows: int, miss: float) -> tuple[float, float]:
    """Shares around q that a binomial share of at least ``rows`` draws leaves with probability ``miss`` each side.

    Examples
    --------
    >>> sampled_shares(0.5, 10_000, 0.02)
    (0.489631, 0.510369)
    """
    from scipy import optimize, special  # heavy, and only needed for intervals

    budget = float(special.ndtri(miss)) ** 2 / (2 * rows)

    def spent(share: float) -> float:
        return float(_entropy(share, q)) - budget

    # A share s is left where k + 1 ≤ sn + 1, so s is the point of that entropy moved out by 1/n.
    low = 0.0 if spent(0.0) <= 0 else max(float(optimize.brentq(spent, 0.0, q)) - 1 / rows, 0.0)
    high = 1.0 if spent(1.0) <= 0 else min(float(optimize.brentq(spent, q, 1.0)) + 1 / rows, 1.0)
    # Outwards to six digits: shares stay short decimals, so ranks stay exact.
    return float(Fraction(math.floor(low * 10**6), 10**6)), float(Fraction(math.ceil(high * 10**6), 10**6))


def noise_miss(q: float, shares: tuple[float, float], rows: int, error: float, factor: float) -> float:
    """How often the noise may leave a sample's shares, so that an interval leaves q with probability ``error`` at most.

    The noise takes an end y ranks inside its share with probability miss · e^(−factor·y) at most. So an interval is
    wrong where a sample falls short by more than nothing, or, in the part ``miss`` of all cases, by more than that
    exponential lacks.

    Examples
    --------
    >>> shares = sampled_shares(0.5, 10_000, 0.02)
    >>> noise_miss(0.5, shares, 10_000, 0.05, 1.0), round(noise_miss(0.5, shares, 10_000, 0.05, 0.05), 3)
    (1.0, 0.108)
    """
    inside = np.append(-np.log(np.arange(_STRATA - 1, 0, -1) / _STRATA) / factor, math.inf)
    alone, both = 0.0, 0.0
    for share, at in ((shares[0], q), (1 - shares[1], 1 - q)):
        alone += float(_short(share, at, rows, 0.0)) if share > 0 else 0.0  # at share 0 the noise alone decides
        both += float(np.mean(_short(share, at, rows, inside)))
    return min(1.0, max(error - alone, 0.0) / (both - alone) * (1 - 1e-9))


def _short(share: float, q: float, rows: int, inside: float | NDArray[np.float64]) -> Floats:
    """Bound on P(X ≤ share · rows + inside)."""
    from scipy import special

    moved = np.minimum(share + (1 + np.asarray(inside)) / rows, q)
    return np.where(moved < q, special.ndtr(-np.sqrt(2 * rows * _entropy(moved, q))), 1.0)[()]


def _entropy(share: Floats, q: float) -> Any:
    from scipy import special

    return special.rel_entr(share, q) + special.rel_entr(1 - np.asarray(share), 1 - q)
