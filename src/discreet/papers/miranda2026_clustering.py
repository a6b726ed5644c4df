"""Clustering of the miranda2026 study: NICV of DPLloyd, and the average cost of k-median."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.guarantee import PureDP
from discreet.omission.outliers import EuclideanDistance
from discreet.papers.miranda2026_data import adult_table, four_groups
from discreet.papers.miranda2026_settings import (
    CLUSTERING_RATES,
    EPSILONS,
    FEW_RATES,
    FEW_SPANS,
    SPANS,
    omissions,
    utility_row,
)
from discreet.papers.miranda2026_utility import Estimate, Omit, estimate_mean, spendable
from discreet.papers.study import Parameters, Row
from discreet.questions.clusters import DPLloyd, KMedian
from discreet.questions.clusters.box import Box, labels_of

__all__ = ["CLUSTERINGS", "clustering_cells", "clustering_rows"]

CLUSTERINGS = ("DPLloyd", "k-median")


def clustering_cells(omission: str, data: str, quick: bool) -> list[Parameters]:
    """One cell per algorithm, ε and rate or m: some of them run for minutes."""
    # k-median is slow; where the noise is equal rather than the guarantee, a rough picture is enough.
    repeats = {
        ("DPLloyd", True): 3 if quick else 500,
        ("DPLloyd", False): 500,
        ("k-median", True): 2 if quick else 20,
        ("k-median", False): 5,
    }
    reductions = (True,) if omission == "sampling" or quick else (True, False)
    rates = FEW_RATES if quick else CLUSTERING_RATES
    spans = FEW_SPANS if quick else SPANS
    settings = {"rate": rates} if omission == "sampling" else {"m": tuple(dict.fromkeys(m for m, _ in spans))}
    return [
        {
            "clustering": name,
            "omission": omission,
            "epsilon": epsilon,
            "reduced": reduced,
            setting: value,
            "repeats": repeats[name, reduced],
            "quick": quick,
            "data": data,
        }
        for name in CLUSTERINGS
        for epsilon in (EPSILONS[::2] if quick else EPSILONS)
        for reduced in reductions
        for setting, values in settings.items()
        for value in values
    ]


def clustering_rows(parameters: Parameters, seed: int, folder: str = "") -> Iterable[Row]:
    """NICV of DPLloyd on Adult, or average cost of k-median on generated points, over some rates or (m, M)."""
    generator = np.random.default_rng(seed)
    epsilon, name = float(parameters["epsilon"] or 0), str(parameters["clustering"])
    task = _Clustering(name, int(parameters["repeats"] or 0), bool(parameters["quick"]), folder)
    plain = task.without_omission(epsilon)
    for omit in omissions(parameters):
        budget = spendable(epsilon, 0.0, omit) if parameters["reduced"] else (epsilon, 0.0)
        other = None if budget is None else task.utility(omit, budget[0], generator)
        yield utility_row(parameters, "adult" if name == "DPLloyd" else "four groups", name, omit, plain, other)


@dataclass(frozen=True)
class _Clustering:
    """An algorithm on its data."""

    name: str
    repeats: int
    quick: bool
    folder: str

    def utility(self, omit: Omit, epsilon: float, generator: np.random.Generator) -> Estimate:
        """Cost for all rows of centres found on the rows that are kept."""
        rows, _ = _clustering_data(self)
        chances = omit.keep(_mean_distances(self) if omit.m is not None else np.zeros(len(rows)))
        costs = []
        for _ in range(self.repeats):
            kept = rows if omit == Omit() else rows[generator.random(len(rows)) < chances]
            costs.append(_clustering_cost(self.name, rows, kept, epsilon, self.quick, generator))
        return estimate_mean(np.array(costs))

    @lru_cache(maxsize=64)  # noqa: B019 - a frozen value, as hashable as a number
    def without_omission(self, epsilon: float) -> Estimate:
        """The baseline: the same in all cells of an ε, so its seed depends on ε alone."""
        return self.utility(Omit(), epsilon, np.random.default_rng([2026, round(1000 * epsilon)]))


@lru_cache(maxsize=4)
def _clustering_data(task: _Clustering) -> tuple[NDArray[np.float64], tuple[tuple[float, float], ...]]:
    """Rows and their bounds."""
    if task.name == "DPLloyd":
        rows = adult_table(task.folder)[:: 8 if task.quick else 1]
        return rows, ((-1.0, 1.0),) * rows.shape[1]
    return four_groups(2026), ((1.0, 100.0),) * 2


@lru_cache(maxsize=4)
def _mean_distances(task: _Clustering) -> NDArray[np.float64]:
    """The mean distance of each row to all; it takes seconds, and only suppression asks for it."""
    rows, bounds = _clustering_data(task)
    return EuclideanDistance(bounds).mean_distances(rows)


def _clustering_cost(
    name: str, rows: Any, kept: Any, epsilon: float, quick: bool, generator: np.random.Generator
) -> float:
    if name == "DPLloyd":
        bounds = [(-1.0, 1.0)] * rows.shape[1]
        model = DPLloyd(5, guarantee=PureDP(epsilon), bounds=bounds, as_published=True, iterations=5 if quick else 20)
        centres = model.fit(kept, rng=generator).cluster_centers_
        labels = labels_of(Box(bounds).cells(rows), centres)
        return float(np.square(rows - centres[labels]).sum(axis=1).mean())
    step = 9 if quick else 1
    universe = np.array(list(itertools.product(range(1, 101, step), repeat=2)), dtype=float)
    swaps = 30 if quick else None
    model_k = KMedian(4, guarantee=PureDP(epsilon), universe=universe, swaps=swaps, as_published=True)
    centres = model_k.fit(kept, rng=generator).cluster_centers_
    return float(np.linalg.norm(rows[:, None] - centres[None], axis=2).min(axis=1).mean())
