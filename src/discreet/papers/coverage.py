"""Coverage: how often population intervals hold the truth, over sample sizes, budgets and places in the domain."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.contract import Mechanism
from discreet.core.exact import Exact
from discreet.core.guarantee import PureDP
from discreet.core.protection import Neighbours, Protection
from discreet.core.sensitivity import Sensitivity
from discreet.inference.population import (
    NoiseAware,
    ReleaseLaw,
    confidence_points,
    settled_shares,
    share_below,
)
from discreet.inference.sampling import BetaMean, Binomial, GammaVariance, NormalCovariance, SamplingModel
from discreet.mechanisms.bounded.boundary_inflated import BoundaryInflatedLaplace
from discreet.mechanisms.bounded.bounded_laplace import BoundedLaplace
from discreet.papers.figure import Figure
from discreet.papers.study import Part, Row, Study
from discreet.questions.covariance import Covariance
from discreet.questions.mean import Mean, Proportion
from discreet.questions.variance import Variance
from discreet.releases import release

__all__ = ["STUDY"]

Array = NDArray[np.float64]

MECHANISMS: dict[str, Any] = {"bounded": BoundedLaplace, "boundary-inflated": BoundaryInflatedLaplace}
LEVEL = 0.95
REPLACE = Neighbours.REPLACE_ONE
SHOWN_WIDTHS = 4
LEAST, MOST = 0.935, 0.97
NO_REGION = "both atoms above 5 %"
"""Noise that lands on either end of the domain more often than 5 %: no 95 % region leaves anything out."""
CONCENTRATION = 10.0
"""a + b of the beta population of the mean's part: a skewed, continuous population."""


def _cells(repeats: int) -> Callable[[bool], list[dict[str, Any]]]:
    def cells(quick: bool) -> list[dict[str, Any]]:
        sizes, budgets = ((50, 200, 1000), (0.1, 0.5, 1.0, 5.0)) if not quick else ((50, 200), (0.1, 1.0))
        return [
            {"mechanism": m, "n": n, "epsilon": e, "place": p, "repeats": repeats // 20 if quick else repeats}
            for m, n, e, p in product(MECHANISMS, sizes, budgets, (0.02, 0.1, 0.5))
        ]

    return cells


def _mechanism(parameters: Mapping[str, Any], sensitivity: Sensitivity, domain: Any, share: float = 1.0) -> Mechanism:
    kind = MECHANISMS[parameters["mechanism"]]
    return kind.calibrate(PureDP(parameters["epsilon"] * share), sensitivity, bounds=domain)  # type: ignore[no-any-return]


def _row(parameters: Mapping[str, Any], covered: NDArray[np.bool_], ignoring: NDArray[np.bool_], width: float) -> Row:
    coverage = float(np.mean(covered))
    return {
        "mechanism": parameters["mechanism"],
        "n": parameters["n"],
        "epsilon": parameters["epsilon"],
        "place": parameters["place"],
        "repeats": covered.size,
        "coverage": coverage,
        "standard_error": math.sqrt(LEVEL * (1 - LEVEL) / covered.size),
        "noise_ignored": float(np.mean(ignoring)),
        "mean_width": width,
    }


def _vectorised(
    parameters: Mapping[str, Any],
    truths: Array,
    statistic: Any,
    model: SamplingModel,
    parameter: float,
    rng: np.random.Generator,
) -> Row:
    """One acceptance region serves all repeats; the first few intervals are computed, and must agree with it."""
    n = parameters["n"]
    mechanism = _mechanism(parameters, statistic.sensitivity(n=n, neighbours=REPLACE), statistic.domain(n))
    values = np.asarray(mechanism.law(truths).sample(rng=rng))
    law, method = ReleaseLaw(model=model, mechanism=mechanism), NoiseAware()
    covered = np.asarray(method.accepts(law, values, parameter, LEVEL))
    intervals = [method.interval(law, float(value), LEVEL) for value in values[:SHOWN_WIDTHS]]
    agree = [interval.contains(parameter) == bool(hit) for interval, hit in zip(intervals, covered, strict=False)]
    if sum(agree) < len(agree) - 1:  # a value within rounding of an end may differ
        raise ArithmeticError("intervals and acceptance regions disagree")
    errors = np.sqrt([model.variance(float(np.clip(value, *model.range))) for value in values])
    ignoring = np.asarray(np.abs(values - parameter) <= 1.959964 * errors)
    atoms = law.at(parameter).atoms()
    remark = NO_REGION if min(atoms) > 1 - LEVEL else ""
    width = float(np.mean([float(one.width) for one in intervals]))
    return _row(parameters, covered, ignoring, width) | {"remark": remark}


def proportion(parameters: Mapping[str, Any], seed: int) -> Iterator[Row]:
    """Binomial samples."""
    rng = np.random.default_rng(seed)
    n, p = parameters["n"], parameters["place"]
    truths = rng.binomial(n, p, size=parameters["repeats"]) / n
    yield _vectorised(parameters, truths, Proportion(n=n), Binomial(n=n), p, rng)


def variance(parameters: Mapping[str, Any], seed: int) -> Iterator[Row]:
    """Samples of the symmetric beta population that has the wanted share of the largest variance."""
    rng = np.random.default_rng(seed)
    n, share = parameters["n"], parameters["place"]
    shape = (1 / share - 1) / 2
    truths = rng.beta(shape, shape, size=(parameters["repeats"], n)).var(axis=1, ddof=1)
    statistic = Variance(bounds=(0, 1), n=n)
    model = GammaVariance(n=n, width=1.0, largest=statistic.domain()[1])
    yield _vectorised(parameters, truths, statistic, model, share / 4, rng)


def covariance(parameters: Mapping[str, Any], seed: int) -> Iterator[Row]:
    """Normal pairs, clipped four deviations out; the place is that of the covariance in ± the product of deviations."""
    rng = np.random.default_rng(seed)
    n, correlation = parameters["n"], 2 * parameters["place"] - 1
    matrix = [[1.0, correlation], [correlation, 1.0]]
    pairs = np.clip(rng.multivariate_normal([0, 0], matrix, size=(parameters["repeats"], n)), -4, 4)
    centred = pairs - pairs.mean(axis=1, keepdims=True)
    truths = np.sum(centred[:, :, 0] * centred[:, :, 1], axis=1) / (n - 1)
    statistic = Covariance(bounds=((-4, 4), (-4, 4)), n=n)
    model = NormalCovariance(n=n, variances=1.0, largest=statistic.domain()[1])
    yield _vectorised(parameters, truths, statistic, model, correlation, rng)


def _releases(parameters: Mapping[str, Any], statistic: Any, truths: Array, rng: np.random.Generator) -> list[Any]:
    """Releases of many samples' statistics, each with half of the budget; all alike but for their value."""
    sensitivity = statistic.sensitivity(neighbours=REPLACE)
    mechanism = _mechanism(parameters, sensitivity, statistic.domain(), 0.5)
    first = release(
        Exact(float(truths[0]), sensitivity, Protection(neighbours=REPLACE), statistic=statistic), mechanism, rng=rng
    )
    return [replace(first, value=float(value)) for value in np.asarray(mechanism.law(truths).sample(rng=rng))]


def _debiased(mechanism: Mechanism, values: Array) -> Array:
    """As `MeanRelease.debiased`, for many values at once."""
    low, high = np.zeros_like(values), np.ones_like(values)
    for _ in range(40):
        middle = (low + high) / 2
        below = np.asarray(mechanism.law(middle).mean) <= values
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low


def _accepted(mechanism: Mechanism, n: int, place: float, values: Array, shares: Array) -> NDArray[np.bool_]:
    """As `NoiseAware.accepts` with the models of many releases: tails are interpolated over the dispersion."""
    grid = np.geomspace(1e-6, 1.0, 60)
    mixtures = [
        ReleaseLaw(model=BetaMean(n=n, dispersion=(float(one),)), mechanism=mechanism).at(place) for one in grid
    ]
    tails = np.array([mixture.tails(values) for mixture in mixtures])
    atoms = np.array([mixture.atoms() for mixture in mixtures])
    law = ReleaseLaw(model=BetaMean(n=n), mechanism=mechanism)
    noise = law.spread(place) ** 2 - law.model.variance(place)
    covered = np.empty(values.size, dtype=bool)
    for index, row in enumerate(np.log(shares)):
        reached, exceeded = (np.interp(row, np.log(grid), tails[:, side, index]).mean() for side in (0, 1))
        lower, upper = (float(np.interp(row, np.log(grid), atoms[:, side]).mean()) for side in (0, 1))
        spread = math.sqrt(noise + shares[index].mean() * law.model.variance(place))
        below = (1 - LEVEL) * share_below(place, (0.0, 1.0), spread)
        low, high = settled_shares(below, (lower, upper), 1 - LEVEL)
        covered[index] = reached >= low and exceeded >= high
    return covered


def _plausible(first: Any, variances: Array, centre: Array) -> Array:
    """As `VarianceRelease.plausible`, for many values at once: means of about the same size share a model."""
    levels = np.geomspace(1 / first.n, 0.5, 30)
    sizes = np.clip(np.minimum(centre, 1 - centre), levels[0], 0.5)
    group = np.rint(np.interp(np.log(sizes), np.log(levels), np.arange(levels.size)))
    points = np.empty((variances.size, 12))
    for one in np.unique(group):
        law = ReleaseLaw(model=first.sampling_model(mean=float(levels[int(one)])), mechanism=first.mechanism)
        points[group == one] = confidence_points(law, variances[group == one], 12)
    return points


def mean(parameters: Mapping[str, Any], seed: int) -> Iterator[Row]:
    """Beta samples; half of ε for the mean and half for the variance, which the interval needs.

    The first few repeats are also decided by the releases' own `population_interval` model, and must agree.
    """
    rng = np.random.default_rng(seed)
    n, place, repeats = parameters["n"], parameters["place"], parameters["repeats"]
    rows = rng.beta(place * CONCENTRATION, (1 - place) * CONCENTRATION, size=(repeats, n))
    averages = _releases(parameters, Mean(bounds=(0, 1), n=n), rows.mean(axis=1), rng)
    spreads = _releases(parameters, Variance(bounds=(0, 1), n=n), rows.var(axis=1, ddof=1), rng)
    values = np.array([average.value for average in averages])
    variances = np.array([spread.value for spread in spreads])
    centre = _debiased(averages[0].mechanism, values)
    largest = np.maximum(centre * (1 - centre), 1e-300)
    shares = np.clip(_plausible(spreads[0], variances, centre) / largest[:, None], 1e-6, 1.0)
    covered = _accepted(averages[0].mechanism, n, place, values, shares)
    widths, agree = [], 0
    for average, spread, hit in zip(averages[:SHOWN_WIDTHS], spreads, covered, strict=False):
        law = ReleaseLaw(model=average.sampling_model(variance=spread), mechanism=average.mechanism)
        agree += NoiseAware().accepts(law, float(average.value), place, LEVEL) == bool(hit)
        widths.append(float(NoiseAware().interval(law, float(average.value), LEVEL).width))
    if agree < SHOWN_WIDTHS - 1:
        raise ArithmeticError("the fast decision and the releases' own disagree")
    ignoring = np.asarray(np.abs(values - place) <= 1.959964 * np.sqrt(np.maximum(variances, 0.0) / n))
    atoms = ReleaseLaw(model=BetaMean(n=n), mechanism=averages[0].mechanism).at(place).atoms()
    remark = NO_REGION if min(atoms) > 1 - LEVEL else ""
    yield _row(parameters, covered, ignoring, float(np.mean(widths))) | {"remark": remark}


def finding(rows: list[Row]) -> str:
    """The extremes of the table, and what lies outside the target."""
    kept = [row for row in rows if not row.get("remark")]
    coverage = [row["coverage"] for row in kept]
    ignored = [row["noise_ignored"] for row in rows]
    error = max(row["standard_error"] for row in rows)
    inside = sum(LEAST <= value <= MOST for value in coverage)
    text = (
        f"Coverage of the nominal 95 % interval lies between {100 * min(coverage):.1f} % and "
        f"{100 * max(coverage):.1f} % over {len(kept)} settings (Monte-Carlo standard error {100 * error:.2f} %), "
        f"{inside} of them inside 93.5–97 %; ignoring the noise, between {100 * min(ignored):.1f} % and "
        f"{100 * max(ignored):.1f} %."
    )
    if len(kept) < len(rows):
        text += (
            f" In {len(rows) - len(kept)} further settings clamped noise lands on *each* end of the domain more often "
            "than 5 %; the release says nearly nothing, every parameter is kept, and coverage is 100 %."
        )
    return text


_REPORTED = "Coverage of 50–92 % for intervals that ignore the noise, at ε ≤ 0.5 (liu2019 section 4.2)."


def _part(name: str, title: str, compute: Any, repeats: int) -> Part:
    return Part(
        name=name,
        title=title,
        cells=_cells(repeats),
        compute=compute,
        reported=_REPORTED,
        finding=finding,
        figures=(
            Figure(
                name=f"{name}-coverage",
                title=title,
                x="epsilon",
                y="coverage",
                colour="place",
                column="n",
                row="mechanism",
                log_x=True,
            ),
        ),
    )


STUDY = Study(
    paper="coverage",
    title="coverage: how often population intervals hold",
    introduction="""
Every row is one setting: a mechanism, a sample size, a budget, and the place of the true value in its domain. The
interval of `population_interval(0.95)` combines sampling error and noise. `noise_ignored` is the coverage of the
interval that takes the release for the data's own statistic. `place` is the share of the domain at which the
true value lies.
""",
    parts=(
        _part("proportion", "Proportion: binomial samples", proportion, 2000),
        _part("mean", "Mean: skewed samples, with a private variance for half of the budget", mean, 2000),
        _part("variance", "Variance: symmetric beta samples", variance, 2000),
        _part("covariance", "Covariance: normal pairs with known variances", covariance, 2000),
    ),
)
