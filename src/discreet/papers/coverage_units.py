"""Coverage where units have several rows, where a Poisson sample was taken, and of shares in tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.guarantee import ApproxDP, GaussianDP, PureDP, ZeroConcentratedDP
from discreet.core.schema import Bounds, Contribution, PrivacyUnit, Schema
from discreet.inference.noisy_totals import moment_weights
from discreet.inference.part_moments import PartMoments
from discreet.mechanisms.additive import additive_noise
from discreet.omission.step import PoissonSample
from discreet.papers.coverage_cells import FEWER, GUARANTEES, LEVEL, Parameters, coverage_part, coverage_row, settings
from discreet.papers.coverage_parts import guarantee_of, parts_of, released
from discreet.papers.populations import POPULATIONS, Population
from discreet.papers.study import Row
from discreet.questions.mean import MeanQuestion
from discreet.questions.table import ContingencyTable
from discreet.questions.variance import VarianceQuestion
from discreet.releases import release

__all__ = ["UNIT_PARTS"]

Array = NDArray[np.float64]
_DEGREE = 4
_SHOWN = 40
_STEP = PoissonSample(0.3)
_ROWS = (1, 5, 30)
"""Rows of a unit; as many units have each number, and all rows of a unit are alike."""
_COLUMNS = {"x": Bounds(0, 1, grid=2**-10)}
_UNITS = Schema(columns=_COLUMNS, unit=PrivacyUnit("unit", contribution=Contribution(rows=max(_ROWS))))


def _parts(population: Population) -> Array:
    return parts_of(population.points, _DEGREE)


def units(parameters: Parameters, seed: int) -> Iterator[Row]:
    """The mean over rows of units with 1, 5 or 30 rows, all alike within a unit: the limit is 30."""
    rng, population = np.random.default_rng(seed), POPULATIONS[parameters["population"]]
    each = max(parameters["n"] // len(_ROWS), 1)
    drawn = np.sum([rows * population.samples(each, parameters["repeats"], rng) for rows in _ROWS], axis=0)
    asked = MeanQuestion(_UNITS, "x", guarantee_of(parameters), spread=True).measurement
    found = PartMoments(**released(asked, drawn @ _parts(population), rng))
    covered = found.accepts_mean(population.mean, LEVEL)
    low, high = PartMoments(**released(asked, drawn[:_SHOWN] @ _parts(population), rng)).mean_interval(LEVEL)
    number = each * sum(_ROWS)
    noise = float(found.noise_of(moment_weights(_DEGREE, 1, population.mean))[0]) / number**2
    sampling = population.variance * each * sum(rows**2 for rows in _ROWS) / number**2
    yield coverage_row(parameters, covered, np.asarray(high) - np.asarray(low), math.sqrt(noise + sampling))


def _poisson(
    parameters: Parameters, seed: int
) -> tuple[Population, NDArray[np.int64], Array, Any, np.random.Generator]:
    """A population, samples of it, what a Poisson sample of three in ten keeps of them, and what that may spend."""
    rng, population = np.random.default_rng(seed), POPULATIONS[parameters["population"]]
    data = population.samples(parameters["n"], parameters["repeats"], rng)
    kept = rng.binomial(data, _STEP.rate) @ _parts(population)
    return population, data, kept, _STEP.before(PureDP(parameters["budget"])), rng


def _kept(question: MeanQuestion | VarianceQuestion, totals: Array, rng: np.random.Generator) -> PartMoments:
    """Totals of a Poisson sample of the data, of which a share is not in it."""
    return PartMoments(**released(question.measurement, totals, rng) | {"rows_per_unit": 1 - _STEP.rate})


def sampled(parameters: Parameters, seed: int) -> Iterator[Row]:
    """The mean of all rows of the data, from a Poisson sample of three in ten."""
    population, data, kept, guarantee, rng = _poisson(parameters, seed)
    truths = data @ population.points / parameters["n"]
    question = MeanQuestion(Schema(columns=_COLUMNS), "x", guarantee, spread=True)
    found = _kept(question, kept, rng)
    covered = found.accepts_mean(truths, LEVEL)
    low, high = _kept(question, kept[:_SHOWN], rng).mean_interval(LEVEL)
    number = _STEP.rate * parameters["n"]
    noise = float(found.noise_of(moment_weights(_DEGREE, 1, population.mean))[0]) / number**2
    sampling = (1 - _STEP.rate) * population.variance / number
    yield coverage_row(parameters, covered, np.asarray(high) - np.asarray(low), math.sqrt(noise + sampling))


def sampled_variance(parameters: Parameters, seed: int) -> Iterator[Row]:
    """The variance of all rows of the data, from the same sample."""
    population, data, kept, guarantee, rng = _poisson(parameters, seed)
    first, second = (data @ population.points**power / parameters["n"] for power in (1, 2))
    question = VarianceQuestion(Schema(columns=_COLUMNS), "x", guarantee)
    found = _kept(question, kept, rng)
    covered = found.accepts_variance(second - first**2, LEVEL)
    low, high = _kept(question, kept[:_SHOWN], rng).variance_interval(LEVEL)
    number = _STEP.rate * parameters["n"]
    weights = moment_weights(_DEGREE, 2, population.mean) - population.variance
    noise = float(found.noise_of(weights)[0]) / number**2
    sampling = (1 - _STEP.rate) * (population.moment(4) - population.variance**2) / number
    yield coverage_row(parameters, covered, np.asarray(high) - np.asarray(low), math.sqrt(noise + sampling))


_SHARES: dict[str, list[float]] = {"even": [0.5, 0.3, 0.2], "rare": [0.03, 0.001, 0.969]}
_TABLE = ContingencyTable({"answer": ["yes", "perhaps", "no"]})
_CURRENCIES: dict[str, Any] = {
    "ε-DP": PureDP,
    "ρ-zCDP": lambda budget: ZeroConcentratedDP(budget**2 / 2),
    "(ε, δ)-DP": lambda budget: ApproxDP(budget, 1e-6),
    "μ-GDP": GaussianDP,
}
"""All four guarantees: geometric noise, the smaller of two, and normal noise on whole and on real numbers."""


def shares(parameters: Parameters, seed: int) -> Iterator[Row]:
    """The shares of a table with three cells; the least covered of them counts."""
    rng, truth = np.random.default_rng(seed), np.array(_SHARES[parameters["population"]])
    sensitivity = _TABLE.exact_counts(np.zeros(3, dtype=int)).sensitivity
    mechanism = additive_noise(_CURRENCIES[parameters["guarantee"]](parameters["budget"]), sensitivity, whole=True)
    drawn = rng.multinomial(parameters["n"], truth, size=parameters["repeats"])
    found = [release(_TABLE.exact_counts(counts), mechanism, rng=rng).population_interval(LEVEL) for counts in drawn]
    low, high = (np.array([np.asarray(getattr(one, end), dtype=float) for one in found]) for end in ("low", "high"))
    covered = (low <= truth) & (truth <= high)
    least = int(np.argmin(covered.mean(axis=0)))
    noise = float(np.max(np.asarray(mechanism.law(0).variance))) / parameters["n"] ** 2
    ideal = math.sqrt(float(truth[least] * (1 - truth[least])) / parameters["n"] + noise)
    yield coverage_row(parameters, covered[:, least], (high - low)[:, least], ideal)


UNIT_PARTS = (
    coverage_part(
        "table", "Shares of a table with three cells", shares, settings(_SHARES, 400, guarantee=_CURRENCIES, **FEWER)
    ),
    coverage_part(
        "units",
        "Mean over rows of units with 1 to 30 rows",
        units,
        settings(POPULATIONS, 1000, guarantee=GUARANTEES, **FEWER),
    ),
    coverage_part(
        "sampled",
        "Mean of the data, from a Poisson sample",
        sampled,
        settings(POPULATIONS, 1000, guarantee=("ε-DP",), **FEWER),
    ),
    coverage_part(
        "sampled-variance",
        "Variance of the data, from a Poisson sample",
        sampled_variance,
        settings(POPULATIONS, 1000, guarantee=("ε-DP",), **FEWER),
    ),
)
