"""Coverage: how often population intervals hold the truth, on populations of many shapes.

``python benchmarks/coverage.py [--quick] [DIRECTORY]`` computes what is missing in the directory, writes its page and
prints a table with the target. ``docs/studies/coverage`` holds a full run.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from coverage_cells import (
    FEWER,
    GUARANTEES,
    LEAST,
    LEVEL,
    Parameters,
    columns_of,
    coverage_part,
    coverage_row,
    guarantee_of,
    parts_of,
    released,
    settings,
)
from coverage_logistic import LOGISTIC_PARTS
from coverage_pairs import PAIRED_PARTS
from discreet.core.guarantee import ApproxDP, GaussianDP, PureDP, ZeroConcentratedDP
from discreet.core.protection import Neighbours
from discreet.core.schema import Bounds, Contribution, PrivacyUnit, Schema
from discreet.core.sensitivity import Sensitivity
from discreet.inference.moments import (
    Binomial,
    GammaVariance,
    PairMoments,
    PartMoments,
    ReleaseLaw,
    moment_weights,
)
from discreet.inference.noise import excess_kurtosis
from discreet.inference.two_sample import arm_mean, contrast
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.bounded.laplace import BoundaryInflatedLaplace, BoundedLaplace
from discreet.mechanisms.omission.step import PoissonSample
from discreet.papers.comparisons import Sample, checked_noise_aware, zero_inflated
from discreet.papers.study import Progress, Row, Study, run
from discreet.questions.bounded import Variance
from discreet.questions.comparison.methods import Spending
from discreet.questions.covariance_matrix import CovarianceMatrixQuestion
from discreet.questions.mean import MeanQuestion
from discreet.questions.moments import BernsteinMoments
from discreet.questions.proportion import Proportion
from discreet.questions.quantile import Quantiles, stacked
from discreet.questions.question import Measurement
from discreet.questions.tables.table import ContingencyTable
from discreet.questions.variance import VarianceQuestion
from discreet.results.release import release
from populations import POPULATIONS, Population

__all__ = ["COMPARISON_PARTS", "JOINT_PARTS", "QUANTILE_PARTS", "STUDY", "UNIT_PARTS"]


# ---- Coverage of comparisons: two arms measured directly, and from censored partition means on sparse outcomes


Array = NDArray[np.float64]


def direct(parameters: Parameters, seed: int) -> Iterator[Row]:
    """The difference of the means of two arms of the same population, whose sizes are private.

    The treatment has n units, the control so many times as many as ``ratio`` says.
    """
    rng, population, n = np.random.default_rng(seed), POPULATIONS[parameters["population"]], parameters["n"]
    spending = Spending(GUARANTEES[parameters["guarantee"]](parameters["budget"]))
    moved = Sensitivity(l1=1.0) if spending.norm == "l1" else Sensitivity(l2=1.0)
    law = spending.mechanism.calibrate(spending.guarantee, moved).law(0.0)
    u = population.points[:, None]
    parts = np.concatenate([(1 - u) ** 2, 2 * u * (1 - u), u**2], axis=1)
    arms, sizes = [], (n * parameters.get("ratio", 1), n)
    for size in sizes:
        totals = population.samples(size, parameters["repeats"], rng) @ parts
        noisy = totals + np.asarray(law.sample(totals.shape, rng=rng))
        arms.append(
            arm_mean(
                noisy,
                size=None,
                low=0.0,
                width=1.0,
                weight=1.0,
                noise_variance=float(np.max(law.variance)),
                kurtosis=excess_kurtosis(law),
            )
        )
    found = contrast(arms, [-1.0, 1.0], kurtosis=excess_kurtosis(law))
    low, high = found.ends(LEVEL)
    mean = population.mean
    noise = float(np.max(law.variance)) * (mean**2 + (0.5 - mean) ** 2 + (1 - mean) ** 2)
    ideal = math.sqrt(sum(population.variance / size + noise / size**2 for size in sizes))
    yield coverage_row(parameters, (low <= 0) & (high >= 0), high - low, ideal)


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
    low, high = found.ends(LEVEL)
    covered = (low <= 0) & (high >= 0)
    sampling = float(np.mean(sample.differences.var(axis=1))) / _PARTITIONS
    row = coverage_row(parameters, covered, high - low, math.sqrt(sampling))
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
    coverage_part(
        "uneven",
        "Difference of two arms of uneven sizes, direct",
        direct,
        settings(
            POPULATIONS, 1000, ratio=(10, 100), guarantee=GUARANTEES, n=(100, 300, 1000), budget=(0.3, 1.0, 5.0, 20.0)
        ),
    ),
    coverage_part("censored", "Difference of two arms of sparse outcomes, noise-aware", censored, _censored_cells),
)


# ---- Coverage of covariances and correlations, on pairs of columns of many shapes


_DEGREE = 4
_SHOWN = 20
_STATISTIC = BernsteinMoments(of="covariances", bounds=((0, 1), (0, 1)), degrees=(_DEGREE, _DEGREE))


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
    asked = CovarianceMatrixQuestion(schema, ["x", "y"], guarantee=guarantee_of(parameters)).measurement
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


# ---- Coverage of quantiles with intervals, of the data and of the population, in three groups at once


_POINTS = 10_000
_GROUPS = 3


def quantile(parameters: Parameters, seed: int) -> Iterator[Row]:
    """A quantile of three groups of n rows each; every group counts as one repeat."""
    rng, population = np.random.default_rng(seed), POPULATIONS[parameters["population"]]
    share, n, of_data = parameters["share"], parameters["n"], parameters["of"] == "data"
    guarantee = GUARANTEES[parameters["guarantee"]](parameters["budget"])
    statistic = Quantiles(
        probabilities=share,
        bounds=Bounds(0, _POINTS, grid=1),
        interval=LEVEL,
        rows_at_least=None if of_data else n,
    )
    sensitivity = statistic.sensitivity(neighbours=Neighbours.ADD_REMOVE, grouped=True)
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


_QUANTILES_AXES = {"share": (0.5, 0.9), "guarantee": GUARANTEES, "n": (100, 1000, 10_000), "budget": (0.3, 1.0, 10.0)}
_QUANTILES_NAMES = [name for name in POPULATIONS if name != "t, 3 df"]  # heavier tails are among them
QUANTILE_PARTS = (
    coverage_part(
        "quantile",
        "Median and 90 % quantile of the data, by group",
        quantile,
        settings(_QUANTILES_NAMES, 120, of=("data",), **_QUANTILES_AXES),
    ),
    coverage_part(
        "population-quantile",
        "Median and 90 % quantile of the population, by group",
        quantile,
        settings(_QUANTILES_NAMES, 120, of=("population",), **_QUANTILES_AXES),
    ),
)


# ---- Coverage where units have several rows, where a Poisson sample was taken, and of shares in tables


_UNITS_SHOWN = 40
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
    asked = MeanQuestion(_UNITS, "x", guarantee=guarantee_of(parameters), variance=True).measurement
    found = PartMoments(**released(asked, drawn @ _parts(population), rng))
    covered = found.accepts_mean(population.mean, LEVEL)
    low, high = PartMoments(**released(asked, drawn[:_UNITS_SHOWN] @ _parts(population), rng)).mean_interval(LEVEL)
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
    question = MeanQuestion(Schema(columns=_COLUMNS), "x", guarantee=guarantee, variance=True)
    found = _kept(question, kept, rng)
    covered = found.accepts_mean(truths, LEVEL)
    low, high = _kept(question, kept[:_UNITS_SHOWN], rng).mean_interval(LEVEL)
    number = _STEP.rate * parameters["n"]
    noise = float(found.noise_of(moment_weights(_DEGREE, 1, population.mean))[0]) / number**2
    sampling = (1 - _STEP.rate) * population.variance / number
    yield coverage_row(parameters, covered, np.asarray(high) - np.asarray(low), math.sqrt(noise + sampling))


def sampled_variance(parameters: Parameters, seed: int) -> Iterator[Row]:
    """The variance of all rows of the data, from the same sample."""
    population, data, kept, guarantee, rng = _poisson(parameters, seed)
    first, second = (data @ population.points**power / parameters["n"] for power in (1, 2))
    question = VarianceQuestion(Schema(columns=_COLUMNS), "x", guarantee=guarantee)
    found = _kept(question, kept, rng)
    covered = found.accepts_variance(second - first**2, LEVEL)
    low, high = _kept(question, kept[:_UNITS_SHOWN], rng).variance_interval(LEVEL)
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


SHOWN_WIDTHS = 40
MECHANISMS: dict[str, Any] = {"bounded": BoundedLaplace, "boundary-inflated": BoundaryInflatedLaplace}


def _moments(
    parameters: Parameters, asked: Measurement, population: Population, rng: np.random.Generator
) -> tuple[PartMoments, Callable[[Array], float]]:
    """Noisy totals of many samples, and how large the noise of a combination of them is per row."""
    n, statistic = parameters["n"], cast(BernsteinMoments, asked.statistic)
    totals = population.samples(n, parameters["repeats"], rng) @ parts_of(population.points, statistic.degrees[0])
    found = PartMoments(**released(asked, totals, rng))
    return found, lambda weights: float(found.noise_of(weights)[0]) / n**2


def _mean_alone(parameters: Parameters) -> Measurement:
    """Two parts, also for a public number of rows, where a question would measure the mean itself."""
    schema, statistic = columns_of(parameters, "x"), BernsteinMoments(bounds=((0, 1),), degrees=(1,))
    sensitivity = statistic.sensitivity(neighbours=schema.neighbours)
    return Measurement(
        statistic=statistic,
        sensitivity=sensitivity,
        mechanism=additive_noise(guarantee_of(parameters), sensitivity),
        public={} if schema.size is None else {"n": schema.size},
        read="the mean",
    )


def _coverage_first(found: PartMoments) -> PartMoments:
    """The first repeats, whose intervals are computed."""
    return replace(found, totals=np.asarray(found.totals)[:SHOWN_WIDTHS])


def _agreeing(inside: Any, covered: NDArray[np.bool_]) -> None:
    """Whatever is accepted must lie in the interval, which may hold more; within rounding of an end one may differ."""
    if np.count_nonzero(covered[:SHOWN_WIDTHS] & ~np.asarray(inside)) > 1:
        raise ArithmeticError("an interval leaves out what it accepts")


def mean(parameters: Parameters, seed: int) -> Iterator[Row]:
    """The mean, from five parts or, where nothing but the mean is asked for, from two."""
    rng, population = np.random.default_rng(seed), POPULATIONS[parameters["population"]]
    question = MeanQuestion(columns_of(parameters, "x"), "x", guarantee=guarantee_of(parameters), variance=True)
    asked = question.measurement if parameters["parts"] == 5 else _mean_alone(parameters)
    found, noise = _moments(parameters, asked, population, rng)
    covered = found.accepts_mean(population.mean, LEVEL)
    low, high = _coverage_first(found).mean_interval(LEVEL)
    _agreeing((low <= population.mean) & (population.mean <= high), covered)
    weights = moment_weights(found.degree, 1, population.mean)
    ideal = math.sqrt(population.variance / parameters["n"] + noise(weights))
    yield coverage_row(parameters, covered, np.asarray(high) - np.asarray(low), ideal)


def variance(parameters: Parameters, seed: int) -> Iterator[Row]:
    """The variance, from five parts."""
    rng, population = np.random.default_rng(seed), POPULATIONS[parameters["population"]]
    question = VarianceQuestion(columns_of(parameters, "x"), "x", guarantee=guarantee_of(parameters))
    found, noise = _moments(parameters, question.measurement, population, rng)
    covered = found.accepts_variance(population.variance, LEVEL)
    low, high = _coverage_first(found).variance_interval(LEVEL)
    _agreeing((low <= population.variance) & (population.variance <= high), covered)
    weights = moment_weights(4, 2, population.mean) - population.variance
    sampling = (population.moment(4) - population.variance**2) / parameters["n"]
    yield coverage_row(parameters, covered, np.asarray(high) - np.asarray(low), math.sqrt(sampling + noise(weights)))


def bounded_variance(parameters: Parameters, seed: int) -> Iterator[Row]:
    """A variance alone, in bounded noise: no fourth moment is measured, so the worst one is assumed."""
    rng, population = np.random.default_rng(seed), POPULATIONS[parameters["population"]]
    n, repeats = parameters["n"], parameters["repeats"]
    counts = population.samples(n, repeats, rng)
    first = counts @ population.points / n
    truths = (counts @ population.points**2 - n * first**2) / (n - 1)
    statistic = Variance(bounds=(0, 1), n=n)
    sensitivity = statistic.sensitivity(neighbours=Neighbours.REPLACE_ONE)
    kind = MECHANISMS[parameters["mechanism"]]
    mechanism = kind.calibrate(PureDP(parameters["budget"]), sensitivity, bounds=statistic.domain())
    values = np.asarray(mechanism.law(np.clip(truths, *statistic.domain())).sample(rng=rng))
    law = ReleaseLaw(model=GammaVariance(n=n, width=1.0, largest=statistic.domain()[1]), mechanism=mechanism)
    covered = np.asarray(law.accepts(values, population.variance, LEVEL))
    widths = np.array([float(law.interval(float(value), LEVEL).width) for value in values[:2]])
    noise = float(np.max(np.asarray(mechanism.law(population.variance).variance)))
    sampling = (population.moment(4) - population.variance**2) / n
    yield coverage_row(parameters, covered, widths, math.sqrt(sampling + noise))


def proportion(parameters: Parameters, seed: int) -> Iterator[Row]:
    """A proportion in bounded noise: binomial samples, for which the interval is exact."""
    rng, share = np.random.default_rng(seed), POPULATIONS[parameters["population"]].mean
    n, statistic = parameters["n"], Proportion(n=parameters["n"])
    sensitivity = statistic.sensitivity(n=n, neighbours=Neighbours.REPLACE_ONE)
    kind = MECHANISMS[parameters["mechanism"]]
    mechanism = kind.calibrate(PureDP(parameters["budget"]), sensitivity, bounds=(0.0, 1.0))
    truths = rng.binomial(n, share, size=parameters["repeats"]) / n
    values = np.asarray(mechanism.law(truths).sample(rng=rng))
    law = ReleaseLaw(model=Binomial(n=n), mechanism=mechanism)
    covered = np.asarray(law.accepts(values, share, LEVEL))
    widths = np.array([float(law.interval(float(value), LEVEL).width) for value in values[:2]])
    noise = float(np.max(np.asarray(mechanism.law(share).variance)))
    yield coverage_row(parameters, covered, widths, math.sqrt(share * (1 - share) / n + noise))


_BOTH = {"size": ("private", "public"), "guarantee": GUARANTEES}


def _yes_no(quick: bool) -> list[dict[str, Any]]:
    """Yes/no populations alone."""
    cells = settings(POPULATIONS, 1000, mechanism=MECHANISMS)(quick)
    return [cell for cell in cells if str(cell["population"]).startswith("yes")]


STUDY = Study(
    paper="coverage",
    title="coverage: how often population intervals hold",
    introduction="""
Every row is one setting: a population, a number of rows, a guarantee with its budget, and whether the number of rows is
public. No interval was made for one of the populations: yes/no answers with shares from .001 to .5, heaped ages, two
modes, spending with many zeros, Pareto and lognormal amounts that are clipped, Student's t with 2.2 and 3 degrees of
freedom, ties, and values that are narrow in wide bounds. A group of an answer by groups is such a setting with the
group's number of rows. Figures and tables show the *least* coverage over guarantees, relations and mechanisms. The
width ratio compares the median width with that of an interval whose variances are all known, for 1,000 rows or more and
a budget of at least 1. Intervals that ignore the noise cover 50–92 % at ε ≤ 0.5 (liu2019, section 4.2).

Logistic regressions have one to four numbers and three labels, outcomes of 3 %, and outcomes that a number or a label
separates. The least covered coefficient counts. Where the noise leaves nothing to conclude from, the interval reaches
from −∞ to ∞ and counts as one that covers: `nothing_said` in the results is the proportion of such releases. Of
differences of pairs both intervals are counted, and the less covered one is shown. Uneven arms have 10 or 100 times as
many units in the control as in the treatment.

One setting lies below 93.5 % by more than chance explains: a noise-aware comparison of two arms of 50,000 units in 200
partitions, of which one unit in 1,000 spends. Most partitions then hold nobody who spends, and their means are far from
the normal law that the method assumes.
""",
    parts=(
        coverage_part(
            "mean", "Mean, with its variance: five parts", mean, settings(POPULATIONS, 1000, parts=(5,), **_BOTH)
        ),
        coverage_part(
            "mean-alone", "Mean alone: two parts, worst case", mean, settings(POPULATIONS, 1000, parts=(2,), **_BOTH)
        ),
        coverage_part("variance", "Variance: five parts", variance, settings(POPULATIONS, 1000, **_BOTH)),
        coverage_part("proportion", "Proportion in bounded noise, public n", proportion, _yes_no),
        coverage_part(
            "bounded-variance",
            "Variance in bounded noise, public n: worst case",
            bounded_variance,
            settings(POPULATIONS, 1000, mechanism=MECHANISMS),
        ),
        *JOINT_PARTS,
        *UNIT_PARTS,
        *QUANTILE_PARTS,
        *COMPARISON_PARTS,
        *LOGISTIC_PARTS,
        *PAIRED_PARTS,
    ),
)


# ---- The program


def lines(tables: Mapping[str, list[Row]]) -> list[str]:
    """One line per statistic: the least coverage over its settings beside the target, and the median width."""
    shown = [f"{'statistic':<18} {'settings':>8} {'least':>7} {'width':>7}  target        met"]
    for name, rows in tables.items():
        least = min(float(row["coverage"]) for row in rows)
        ample = [row for row in rows if int(row["n"]) >= 1000 and float(row["budget"]) >= 1 and row["width_ratio"]]
        width = statistics.median(float(row["width_ratio"]) for row in ample)
        slack = 3 * max(float(row["standard_error"]) for row in rows)
        met = "yes" if least >= LEAST else "within three Monte-Carlo errors" if least >= LEAST - slack else "NO"
        shown.append(f"{name:<18} {len(rows):>8} {least:>7.1%} {width:>7.2f}  ≥ {LEAST:.1%}       {met}")
    return shown


def _progress(progress: Progress) -> None:
    print(f"\r{progress.done}/{progress.total} {progress.part:<12}", end="", file=sys.stderr, flush=True)


def main() -> None:
    """Run the study and print its table."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--quick"]
    out = Path(arguments[0]) if arguments else Path(__file__).parent / "results" / "coverage"
    result = run(STUDY, out, quick="--quick" in sys.argv, progress=_progress)
    print(file=sys.stderr)
    print("\n".join(lines(result.rows)))


if __name__ == "__main__":
    main()
