"""Coverage of comparisons: two arms measured directly, and from censored partition means on sparse outcomes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.guarantee import PureDP
from discreet.core.sensitivity import Sensitivity
from discreet.inference.arm_means import arm_mean, contrast
from discreet.inference.noise_sum import excess_kurtosis
from discreet.papers.comparisons import checked_noise_aware
from discreet.papers.coverage_cells import FEWER, GUARANTEES, LEVEL, Parameters, coverage_part, coverage_row, settings
from discreet.papers.outcomes import Sample, zero_inflated
from discreet.papers.populations import POPULATIONS
from discreet.papers.study import Row
from discreet.questions.comparison.noise_shares import Spending

__all__ = ["COMPARISON_PARTS"]

Array = NDArray[np.float64]


def direct(parameters: Parameters, seed: int) -> Iterator[Row]:
    """The difference of the means of two arms of the same population, whose sizes are private."""
    rng, population, n = np.random.default_rng(seed), POPULATIONS[parameters["population"]], parameters["n"]
    spending = Spending(GUARANTEES[parameters["guarantee"]](parameters["budget"]))
    moved = Sensitivity(l1=1.0) if spending.norm == "l1" else Sensitivity(l2=1.0)
    law = spending.mechanism.calibrate(spending.guarantee, moved).law(0.0)
    u = population.points[:, None]
    parts = np.concatenate([(1 - u) ** 2, 2 * u * (1 - u), u**2], axis=1)
    arms = []
    for _ in range(2):
        totals = population.samples(n, parameters["repeats"], rng) @ parts
        noisy = totals + np.asarray(law.sample(totals.shape, rng=rng))
        arms.append(
            arm_mean(noisy, size=None, low=0.0, width=1.0, weight=1.0, noise_variance=float(np.max(law.variance)))
        )
    found = contrast(arms, [-1.0, 1.0], kurtosis=excess_kurtosis(law))
    half = found.half_width(LEVEL)
    mean = population.mean
    noise = float(np.max(law.variance)) * (mean**2 + (0.5 - mean) ** 2 + (1 - mean) ** 2) / n**2
    ideal = math.sqrt(2 * (population.variance / n + noise))
    yield coverage_row(parameters, np.abs(np.asarray(found.estimate)) <= half, 2 * half, ideal)


Draw = Callable[[int, tuple[int, int], tuple[float, float], np.random.Generator], tuple[Array, Array, Array]]


def _sparse(share: float, log_mean: float, log_spread: float) -> Draw:
    """One in so many spends, lognormally."""

    def draw(
        size: int, shape: tuple[int, int], bounds: tuple[float, float], rng: np.random.Generator
    ) -> tuple[Array, Array, Array]:
        return zero_inflated(share, size, shape, bounds, rng, lambda count: rng.lognormal(log_mean, log_spread, count))

    return draw


_OUTCOMES: dict[str, tuple[Draw, tuple[float, float]]] = {
    "1 in 20 spends": (_sparse(0.05, 4.0, 1.0), (0.0, 5000.0)),
    "1 in 200 spends much": (_sparse(0.005, 6.0, 1.2), (0.0, 50_000.0)),
    "1 in 1,000 spends much": (_sparse(0.001, 6.0, 1.2), (0.0, 50_000.0)),
}
_PARTITIONS = 200


def censored(parameters: Parameters, seed: int) -> Iterator[Row]:
    """The noise-aware comparison of two arms of n units each, with its check of misfit, from 200 partitions."""
    rng, repeats, size = np.random.default_rng(seed), parameters["repeats"], parameters["n"] // _PARTITIONS
    draw, bounds = _OUTCOMES[parameters["population"]]
    arms = [draw(size, (repeats, _PARTITIONS), bounds, rng) for _ in range(2)]
    sample = Sample(
        differences=(arms[1][0] - arms[0][0]) / size,
        sums=np.stack([arm[1] for arm in arms], axis=1),
        squares=np.stack([arm[2] for arm in arms], axis=1),
        n=size * _PARTITIONS,
    )
    found, misfits = checked_noise_aware(sample, Spending(PureDP(parameters["budget"]), rng), bounds, (0.1, 0.1))
    half = found.half_width(LEVEL)
    covered = np.abs(np.asarray(found.estimate)) <= half
    sampling = float(np.mean(sample.differences.var(axis=1))) / _PARTITIONS
    row = coverage_row(parameters, covered, 2 * half, math.sqrt(sampling))
    yield {**row, "fell_back": float(np.mean(misfits))}


def _censored_cells(quick: bool) -> list[dict[str, Any]]:
    sizes, budgets = ((50_000, 200_000), (0.5, 1.0, 3.0, 10.0, 30.0)) if not quick else ((50_000,), (1.0, 3.0, 10.0))
    names = ("population", "n", "budget")
    grid = product(_OUTCOMES, sizes, budgets)
    return [dict(zip(names, cell, strict=True)) | {"repeats": 100 if quick else 500} for cell in grid]


COMPARISON_PARTS = (
    coverage_part(
        "comparison",
        "Difference of two arms, direct",
        direct,
        settings(POPULATIONS, 1000, guarantee=GUARANTEES, **FEWER),
    ),
    coverage_part("censored", "Difference of two arms of sparse outcomes, noise-aware", censored, _censored_cells),
)
