"""Running sums: the square root of adding up, which spreads the noise of a sequence of releases.

With f_k = C(2k, k)/4ᵏ the lower triangular matrix F, F_ts = f_{t−s}, is the square root of the matrix A of ones on and
below the diagonal: F·F = A, because the series of f is (1 − x)^{−1/2} and that of A is (1 − x)^{−1}. A sequence that
releases F·x plus noise gives the running totals F·(F·x + z) = A·x + F·z. Proof: ``docs/proofs/running_totals.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from discreet.core.sensitivity import root_up

__all__ = ["column_norm", "even_split", "running_sums", "weights"]


def weights(count: int) -> list[Fraction]:
    """The first weights f_0, f_1, …: exact, and never rising.

    Examples
    --------
    >>> [str(weight) for weight in weights(4)]
    ['1', '1/2', '3/8', '5/16']
    """
    found = [Fraction(1)]
    for k in range(1, count):
        found.append(found[-1] * Fraction(2 * k - 1, 2 * k))
    return found


def column_norm(count: int) -> float:
    """√(Σ f_k²) over so many periods, rounded up: how far one row of the first period moves all releases together.

    Examples
    --------
    >>> round(column_norm(24), 4)
    1.4403
    """
    return root_up(sum((weight**2 for weight in weights(count)), Fraction(0)))


def running_sums(measured: Sequence[float]) -> list[float]:
    """The running totals that measurements of F·x give, in order; each needs no later one.

    Examples
    --------
    >>> running_sums([10.0, 15.0, 18.75])
    [10.0, 20.0, 30.0]
    """
    known = [float(weight) for weight in weights(len(measured))]
    return [math.fsum(known[t - s] * measured[s] for s in range(t + 1)) for t in range(len(measured))]


def even_split(count: int) -> float:
    """The error of the last running total against that of a budget split evenly over all periods, squares adding.

    Examples
    --------
    >>> round(even_split(24), 3)
    0.423
    """
    return column_norm(count) ** 2 / math.sqrt(count)
