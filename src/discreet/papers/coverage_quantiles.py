"""Coverage of quantiles with intervals, of the data and of the population, in three groups at once."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from discreet.core.protection import Neighbours
from discreet.core.schema import Bounds
from discreet.papers.coverage_cells import GUARANTEES, LEVEL, Parameters, coverage_part, coverage_row, settings
from discreet.papers.populations import POPULATIONS, Population
from discreet.papers.study import Row
from discreet.questions.quantile import Quantiles, stacked

__all__ = ["QUANTILE_PARTS"]

Array = NDArray[np.float64]
_POINTS = 10_000
_GROUPS = 3


def quantile(parameters: Parameters, seed: int) -> Iterator[Row]:
    """A quantile of three groups of n rows each; every group counts as one repeat."""
    rng, population = np.random.default_rng(seed), POPULATIONS[parameters["population"]]
    share, n, of_data = parameters["share"], parameters["n"], parameters["of"] == "data"
    statistic = Quantiles(
        probabilities=share,
        bounds=Bounds(0, _POINTS, grid=1),
        interval=LEVEL,
        rows_at_least=None if of_data else n,
    )
    sensitivity = statistic.sensitivity(neighbours=Neighbours.ADD_REMOVE, grouped=True)
    guarantee = GUARANTEES[parameters["guarantee"]](parameters["budget"])
    mechanism = statistic.mechanism(guarantee, sensitivity, _GROUPS)
    points = np.rint(population.points * _POINTS).astype(np.int64)
    times = math.ceil(parameters["repeats"] / _GROUPS)
    covered, widths = [], []
    for _ in range(times):
        counts = population.samples(n, _GROUPS, rng)
        truth = stacked([statistic.whole(points, one) for one in counts], statistic.bounds)
        found = np.asarray(mechanism.draw(truth, rng=rng)).reshape(_GROUPS, 3)
        for one, (low, _, high) in zip(counts, found.tolist(), strict=True):
            # A share of the rows, or of the population, lies at most so far, and another below.
            weights = one / n if of_data else population.weights
            below, within = weights[points < low].sum(), weights[points <= high].sum()
            covered.append(below <= share + 1e-9 and within >= share - 1e-9)
            widths.append(high - low)
    ideal = 0.0 if of_data else _POINTS * _sampled_width(population, share, n) / (2 * 1.959964)
    yield coverage_row(parameters, np.array(covered), np.array(widths), ideal)


def _sampled_width(population: Population, share: float, n: int) -> float:
    """How far apart the quantiles lie between which a sample's own falls with probability 95 %."""
    order = np.argsort(population.points)
    reached = np.cumsum(population.weights[order])
    reach = 1.959964 * math.sqrt(share * (1 - share) / n)
    ends = np.searchsorted(reached, np.clip([share - reach, share + reach], 0.0, reached[-1] - 1e-12))
    return float(np.ptp(population.points[order][ends]))


_AXES = {"share": (0.5, 0.9), "guarantee": GUARANTEES, "n": (100, 1000, 10_000), "budget": (0.3, 1.0, 10.0)}
_NAMES = [name for name in POPULATIONS if name != "t, 3 df"]  # heavier tails are among them
QUANTILE_PARTS = (
    coverage_part(
        "quantile",
        "Median and 90 % quantile of the data, by group",
        quantile,
        settings(_NAMES, 120, of=("data",), **_AXES),
    ),
    coverage_part(
        "population-quantile",
        "Median and 90 % quantile of the population, by group",
        quantile,
        settings(_NAMES, 120, of=("population",), **_AXES),
    ),
)
