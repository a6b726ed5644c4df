"""Coverage of covariances and correlations, on pairs of columns of many shapes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from discreet.inference.pair_moments import PairMoments
from discreet.papers.coverage_cells import FEWER, GUARANTEES, LEVEL, Parameters, coverage_part, coverage_row, settings
from discreet.papers.coverage_parts import columns_of, guarantee_of, parts_of, released
from discreet.papers.study import Row
from discreet.questions.covariance_matrix import CovarianceMatrixQuestion
from discreet.questions.covariances_in_parts import CovariancesInParts

__all__ = ["JOINT_PARTS"]

Array = NDArray[np.float64]
_DEGREE = 4
_SHOWN = 20
_STATISTIC = CovariancesInParts(bounds=((0, 1), (0, 1)), degrees=(_DEGREE, _DEGREE))


@dataclass(frozen=True)
class Pairs:
    """Points in the unit square that are equally likely: a population whose joint moments are exact."""

    points: Array

    @cached_property
    def deviations(self) -> Array:
        """Points from their means."""
        return np.asarray(self.points - self.points.mean(axis=0))

    @cached_property
    def covariance(self) -> float:
        """Covariance of the two columns."""
        return float(np.mean(self.deviations.prod(axis=1)))

    @cached_property
    def correlation(self) -> float:
        """Correlation of the two columns."""
        return self.covariance / math.sqrt(float(np.prod(self.deviations.var(axis=0))))

    @cached_property
    def parts(self) -> Array:
        """The tensor parts of every point."""
        first, second = (parts_of(column, _DEGREE) for column in self.points.T)
        return np.asarray((first[:, :, None] * second[:, None, :]).reshape(len(self.points), -1))


@cache
def pairs(name: str) -> Pairs:
    """A population by name; a fixed seed makes it the same in every run."""
    rng = np.random.default_rng(20)
    normal = rng.standard_normal((1000, 2))
    tied = np.column_stack([normal[:, 0], 0.6 * normal[:, 0] + 0.8 * normal[:, 1]])
    yes = {"yes .3": 0.3, "yes .02": 0.02}
    if name in yes:
        first = np.arange(1000) < 1000 * yes[name]
        kept = rng.random(1000) < 0.6
        return Pairs(np.column_stack([first, np.where(kept, first, rng.permutation(first))]).astype(float))
    made = {
        "normal": 0.5 + tied / 8,
        "normal .95": 0.5 + np.column_stack([normal[:, 0], 0.95 * normal[:, 0] + 0.31 * normal[:, 1]]) / 8,
        "lognormal": np.exp(tied) / 30,
        "t, 3 df": 0.5 + tied / np.sqrt(rng.chisquare(3, (1000, 1)) / 3) / 40,
        "hurdle, unrelated": np.column_stack(
            [
                np.where(rng.random(1000) < 0.8, 0.0, stats.gamma(1.2, scale=0.08).rvs(1000, random_state=rng)),
                rng.random(1000),
            ]
        ),
        "narrow": np.column_stack([0.3 + 0.01 * tied[:, 0], 0.5 + tied[:, 1] / 6]),
    }
    return Pairs(np.clip(made[name], 0.0, 1.0))


_NAMES = ("yes .3", "yes .02", "normal", "normal .95", "lognormal", "t, 3 df", "hurdle, unrelated", "narrow")


def _released(parameters: Parameters, rng: np.random.Generator) -> PairMoments:
    """Noisy totals of many samples."""
    schema, population = columns_of(parameters, "x", "y"), pairs(parameters["population"])
    asked = CovarianceMatrixQuestion(schema, ["x", "y"], guarantee_of(parameters)).measurement
    equal = np.full(len(population.points), 1 / len(population.points))
    totals = rng.multinomial(parameters["n"], equal, size=parameters["repeats"]) @ population.parts
    return PairMoments(**released(asked, totals, rng), shape=(_DEGREE + 1, _DEGREE + 1))


def _first(found: PairMoments) -> PairMoments:
    return replace(found, totals=np.asarray(found.totals)[:_SHOWN])


def _ideal(found: PairMoments, weights: Array, departures: Array, n: int) -> float:
    """Standard error where all variances are known: of the departure from row to row, and of the noise in its total."""
    return math.sqrt(float(np.var(departures)) / n + float(found.noise_of(weights)[0]) / n**2)


def covariance(parameters: Parameters, seed: int) -> Iterator[Row]:
    """The covariance of two columns, from 5 × 5 tensor parts."""
    population, found = pairs(parameters["population"]), _released(parameters, np.random.default_rng(seed))
    covered = found.accepts_covariance(population.covariance, LEVEL)
    low, high = _first(found).covariance_interval(LEVEL)
    means = tuple(population.points.mean(axis=0).tolist())
    weights = _STATISTIC.weights((1, 1), means) - population.covariance
    ideal = _ideal(found, weights, population.deviations.prod(axis=1), parameters["n"])
    yield coverage_row(parameters, covered, np.asarray(high) - np.asarray(low), ideal)


def correlation(parameters: Parameters, seed: int) -> Iterator[Row]:
    """The correlation of two columns, from the same parts."""
    population, found = pairs(parameters["population"]), _released(parameters, np.random.default_rng(seed))
    covered = found.accepts_correlation(population.correlation, LEVEL)
    low, high = _first(found).correlation_interval(LEVEL)
    scales = population.deviations.std(axis=0)
    means = tuple(population.points.mean(axis=0).tolist())
    both, *own = (_STATISTIC.weights(powers, means) for powers in ((1, 1), (2, 0), (0, 2)))
    half = population.correlation / 2
    weights = both / scales.prod() - half * (own[0] / scales[0] ** 2 + own[1] / scales[1] ** 2)
    z = population.deviations / scales
    ideal = _ideal(found, weights, z.prod(axis=1) - half * (z**2).sum(axis=1), parameters["n"])
    yield coverage_row(parameters, covered, np.asarray(high) - np.asarray(low), min(ideal, 0.5))


_AXES: dict[str, Any] = {"size": ("private", "public"), "guarantee": GUARANTEES, **FEWER}
JOINT_PARTS = (
    coverage_part("covariance", "Covariance: 5 × 5 tensor parts", covariance, settings(_NAMES, 400, **_AXES)),
    coverage_part("correlation", "Correlation: 5 × 5 tensor parts", correlation, settings(_NAMES, 400, **_AXES)),
)
