"""Coverage: how often population intervals hold the truth, on populations of many shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.core.guarantee import PureDP
from discreet.core.protection import Neighbours
from discreet.inference.noisy_totals import moment_weights
from discreet.inference.part_moments import PartMoments
from discreet.inference.population import NoiseAware, ReleaseLaw
from discreet.inference.sampling import Binomial, GammaVariance
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.bounded.boundary_inflated import BoundaryInflatedLaplace
from discreet.mechanisms.bounded.bounded_laplace import BoundedLaplace
from discreet.papers.coverage_cells import GUARANTEES, LEVEL, Parameters, coverage_part, coverage_row, settings
from discreet.papers.coverage_comparisons import COMPARISON_PARTS
from discreet.papers.coverage_joint import JOINT_PARTS
from discreet.papers.coverage_logistic import LOGISTIC_PARTS
from discreet.papers.coverage_pairs import PAIRED_PARTS
from discreet.papers.coverage_parts import columns_of, guarantee_of, parts_of, released
from discreet.papers.coverage_quantiles import QUANTILE_PARTS
from discreet.papers.coverage_units import UNIT_PARTS
from discreet.papers.populations import POPULATIONS, Population
from discreet.papers.study import Row, Study
from discreet.questions.mean import MeanQuestion
from discreet.questions.parts import MeanInParts, Parts
from discreet.questions.proportion import Proportion
from discreet.questions.question import Measurement
from discreet.questions.variance import Variance, VarianceQuestion

__all__ = ["STUDY"]

Array = NDArray[np.float64]

SHOWN_WIDTHS = 40
MECHANISMS: dict[str, Any] = {"bounded": BoundedLaplace, "boundary-inflated": BoundaryInflatedLaplace}


def _moments(
    parameters: Parameters, asked: Measurement, population: Population, rng: np.random.Generator
) -> tuple[PartMoments, Callable[[Array], float]]:
    """Noisy totals of many samples, and how large the noise of a combination of them is per row."""
    n, statistic = parameters["n"], cast(Parts, asked.statistic)
    totals = population.samples(n, parameters["repeats"], rng) @ parts_of(population.points, statistic.degree)
    found = PartMoments(**released(asked, totals, rng))
    return found, lambda weights: float(found.noise_of(weights)[0]) / n**2


def _mean_alone(parameters: Parameters) -> Measurement:
    """Two parts, also for a public number of rows, where a question would measure the mean itself."""
    schema, statistic = columns_of(parameters, "x"), MeanInParts(bounds=(0, 1))
    sensitivity = statistic.sensitivity(neighbours=schema.neighbours)
    return Measurement(
        statistic=statistic,
        sensitivity=sensitivity,
        mechanism=additive_noise(guarantee_of(parameters), sensitivity),
        public={} if schema.size is None else {"n": schema.size},
        read="the mean",
    )


def _first(found: PartMoments) -> PartMoments:
    """The first repeats, whose intervals are computed."""
    return replace(found, totals=np.asarray(found.totals)[:SHOWN_WIDTHS])


def _agreeing(inside: Any, covered: NDArray[np.bool_]) -> None:
    """Whatever is accepted must lie in the interval, which may hold more; within rounding of an end one may differ."""
    if np.count_nonzero(covered[:SHOWN_WIDTHS] & ~np.asarray(inside)) > 1:
        raise ArithmeticError("an interval leaves out what it accepts")


def mean(parameters: Parameters, seed: int) -> Iterator[Row]:
    """The mean, from five parts or, where nothing but the mean is asked for, from two."""
    rng, population = np.random.default_rng(seed), POPULATIONS[parameters["population"]]
    question = MeanQuestion(columns_of(parameters, "x"), "x", guarantee_of(parameters), spread=True)
    asked = question.measurement if parameters["parts"] == 5 else _mean_alone(parameters)
    found, noise = _moments(parameters, asked, population, rng)
    covered = found.accepts_mean(population.mean, LEVEL)
    low, high = _first(found).mean_interval(LEVEL)
    _agreeing((low <= population.mean) & (population.mean <= high), covered)
    weights = moment_weights(found.degree, 1, population.mean)
    ideal = math.sqrt(population.variance / parameters["n"] + noise(weights))
    yield coverage_row(parameters, covered, np.asarray(high) - np.asarray(low), ideal)


def variance(parameters: Parameters, seed: int) -> Iterator[Row]:
    """The variance, from five parts."""
    rng, population = np.random.default_rng(seed), POPULATIONS[parameters["population"]]
    question = VarianceQuestion(columns_of(parameters, "x"), "x", guarantee_of(parameters))
    found, noise = _moments(parameters, question.measurement, population, rng)
    covered = found.accepts_variance(population.variance, LEVEL)
    low, high = _first(found).variance_interval(LEVEL)
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
    covered = np.asarray(NoiseAware().accepts(law, values, population.variance, LEVEL))
    widths = np.array([float(NoiseAware().interval(law, float(value), LEVEL).width) for value in values[:2]])
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
    covered = np.asarray(NoiseAware().accepts(law, values, share, LEVEL))
    widths = np.array([float(NoiseAware().interval(law, float(value), LEVEL).width) for value in values[:2]])
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
a budget of at least 1.

Logistic regressions have one to four numbers, of which a number goes with the one before it, and three labels of which
one has a seventh of the rows; log-odds that change by up to 6 between the bounds; outcomes of 3 %; and outcomes that a
number or a label separates, whose coefficient only an interval without an end holds. The least covered coefficient
counts. Where the noise leaves nothing to conclude from, the interval reaches from −∞ to ∞ and counts as one that holds:
`nothing_said` in the results is the share of such releases.

Differences of pairs are normal, shifted, tied, mostly zero, heavy-tailed, skewed or in two clusters; positive in 97 %
of rows or in all; or negative in 1 row of 10 to 1,000, by little or by much. Both intervals are counted, for the noise
and for the population, and the less covered one is shown.

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
