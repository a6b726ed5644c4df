"""Tests of one released margin among many: the null is simulated through the noise that this margin has."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from discreet.inference.chi_square import ChiSquareResult
from discreet.inference.monte_carlo import MonteCarlo

__all__ = ["Departure", "simulated_test"]

Array = NDArray[np.float64]
Departure = Callable[[Array, float | None, float], Array]
"""From tables, the public number of rows and the noise variance of a cell to how far they lie from the null."""
_SIMULATED_CELLS = 4_000_000


def simulated_test(
    test: str,
    method: str,
    observed: Array,
    expected: Array,
    df: int,
    departure: Departure,
    *,
    rows: int,
    public: int | None,
    noise_variance: float,
    noise: Callable[[int, np.random.Generator], Array],
    null: MonteCarlo,
) -> ChiSquareResult:
    """Compare the departure of an observed table with those of simulated ones.

    Parameters
    ----------
    test, method
        What is tested, and by which statistic.
    observed, expected
        The measured table, and the cell probabilities under the null.
    df
        Degrees of freedom of the hypothesis.
    departure
        The statistic.
    rows, public
        Rows to simulate, and their number where it is public.
    noise_variance, noise
        Of a cell; and the noise of whole tables, so many at a time.
    null
        How many tables to simulate, and from which seed.
    """
    rng = null.generator()
    statistic = float(departure(observed, public, noise_variance))
    found = []
    for size in _chunks(null.n_resamples, expected.size):
        tables = rng.multinomial(rows, expected.ravel(), size=size).reshape(size, *expected.shape)
        found.append(np.asarray(departure(tables + noise(size, rng), public, noise_variance)))
    simulated = np.concatenate(found)
    pvalue = null.pvalue(statistic, simulated)
    return ChiSquareResult(test, method, statistic, pvalue, df, simulated, (float(rows),))


def _chunks(resamples: int, cells: int) -> list[int]:
    most = max(_SIMULATED_CELLS // cells, 1)
    return [min(most, resamples - start) for start in range(0, resamples, most)]
