"""Many simulated comparisons at once: the library's own methods and liu2023's on the same samples, summarised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.guarantee import Guarantee
from discreet.core.sensitivity import Sensitivity
from discreet.inference.noise import excess_kurtosis
from discreet.inference.two_sample import ArmMean, Contrast, NoiseAwarePosterior, arm_mean, contrast
from discreet.mechanisms.laplace import Laplace
from discreet.questions.comparison.methods import (
    CURVATURE_WEIGHT,
    PLACEMENT_SHARE,
    Spending,
    fitted,
    noise_aware_contrast,
    placed,
)
from discreet.questions.comparison.paper import Ordered, PaperMethod, paper_method

# ---- The outcome laws of liu2023 section 5.1, simulated per partition wherever the law allows
#
# A partition's sum needs the number of its non-zero units (binomial) and, for counts, one draw of the negative binomial
# of their total; log-normal amounts are drawn one by one, but only the non-zero ones. Units are never drawn singly.


Array = NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """Repeated experiments: partition differences, and per arm the sum and sum of squares over all units.

    Attributes
    ----------
    differences
        z, one row per repeat and one column per partition.
    sums, squares
        Σy and Σy² per repeat and arm (control, treatment), of outcomes clipped to the law's bounds.
    n
        Units per arm.
    """

    differences: Array
    sums: Array
    squares: Array
    n: int

    @cached_property
    def ordered(self) -> Ordered:
        """The partition differences, sorted."""
        return Ordered.of(self.differences)


Totals = tuple[Array, Array, Array]
"""Partition sums, total sum and total sum of squares of one arm."""


@dataclass(frozen=True)
class Outcome:
    """A law of the outcome in both arms.

    Attributes
    ----------
    name, bounds
        Name, and public bounds of the outcome.
    draw
        ``draw(share, size, shape, rng)``: totals for partitions of ``size`` units, with ``share`` the arm's
        parameter (share of non-zeros, or the mean).
    control, treatment
        That parameter in the control arm, and in the treatment arm where there is an effect.
    mean
        Expected outcome for a value of that parameter.
    """

    name: str
    bounds: tuple[float, float]
    draw: Callable[[float, int, tuple[int, int], tuple[float, float], np.random.Generator], Totals]
    control: float
    treatment: float
    mean: Callable[[float], float]

    def effect(self, different: bool) -> float:
        """θ, the true difference of means."""
        return self.mean(self.treatment) - self.mean(self.control) if different else 0.0

    def sample(self, n: int, partitions: int, repeats: int, different: bool, rng: np.random.Generator) -> Sample:
        """``repeats`` experiments with n units per arm in equal partitions."""
        size, shape = n // partitions, (repeats, partitions)
        arms = [
            self.draw(parameter, size, shape, self.bounds, rng)
            for parameter in (self.control, self.treatment if different else self.control)
        ]
        return Sample(
            differences=(arms[1][0] - arms[0][0]) / size,
            sums=np.stack([arm[1] for arm in arms], axis=1),
            squares=np.stack([arm[2] for arm in arms], axis=1),
            n=size * partitions,
        )


def _gaussian(
    mean: float, size: int, shape: tuple[int, int], bounds: tuple[float, float], rng: np.random.Generator
) -> Totals:
    sigma, n = 6.0, size * shape[1]
    sums = rng.normal(size * mean, sigma * np.sqrt(size), shape)
    total = sums.sum(axis=1)
    # Within partitions the squares are chi-square and independent of the sums; the bounds are 7 σ away.
    within = sigma**2 * rng.chisquare(n - shape[1], shape[0]) if size > 1 else 0.0
    return sums, total, within + (sums**2).sum(axis=1) / size


def zero_inflated(
    share: float, size: int, shape: tuple[int, int], bounds: tuple[float, float], rng: np.random.Generator, draw: Any
) -> Totals:
    """Zero-inflated amounts: draw the non-zero ones and add them up per partition."""
    counts = rng.binomial(size, share, shape)
    values = np.clip(draw(int(counts.sum())), *bounds)
    ends = np.cumsum(counts.ravel())
    running = np.concatenate([[0.0], np.cumsum(values)])
    sums = np.diff(running[np.concatenate([[0], ends])]).reshape(shape)
    rows = np.concatenate([[0], np.cumsum(counts.sum(axis=1))])
    squares = np.diff(np.concatenate([[0.0], np.cumsum(values**2)])[rows])
    return sums, sums.sum(axis=1), squares


def _log_normal(
    share: float, size: int, shape: tuple[int, int], bounds: tuple[float, float], rng: np.random.Generator
) -> Totals:
    return zero_inflated(share, size, shape, bounds, rng, lambda count: rng.lognormal(4.6, 1.0, count))


def _negative_binomial(
    share: float, size: int, shape: tuple[int, int], bounds: tuple[float, float], rng: np.random.Generator
) -> Totals:
    def draw(count: int) -> Array:
        # Poisson with a gamma mean: mean 3, size τ = 2, variance μ + μ²/τ.
        return rng.poisson(rng.gamma(2.0, 1.5, count)).astype(float)

    return zero_inflated(share, size, shape, bounds, rng, draw)


LAWS = {
    law.name: law
    for law in (
        Outcome("Gaussian", (-40.0, 50.0), _gaussian, 3.32, 4.95, lambda mean: mean),
        Outcome("ZILN", (0.0, 5000.0), _log_normal, 0.02, 0.03, lambda share: share * float(np.exp(5.1))),
        Outcome("ZINB", (0.0, 100.0), _negative_binomial, 0.02, 0.03, lambda share: 3.0 * share),
    )
}
"""The three laws of the study with the bounds used here."""


Bounds = tuple[float, float]


def simulated_contrast(
    name: str,
    sample: Sample,
    guarantee: Guarantee,
    *,
    bounds: Bounds,
    censor: tuple[float, float],
    rng: np.random.Generator,
    as_published: bool = False,
    m: int = 4,
) -> Contrast:
    """One method on all repeats of a sample; ``bounds`` are those of the outcome."""
    spending = Spending(guarantee, rng)
    if name == "direct":
        return contrast(direct(sample, spending, bounds), [-1.0, 1.0], kurtosis=_kurtosis(spending))
    if name == "noise_aware":
        return noise_aware(sample, spending, bounds, censor)
    z = sample.differences
    if name == "original":
        df = np.full(len(z), float(z.shape[1] - 1))
        return Contrast(z.mean(axis=1), z.var(axis=1, ddof=1) / z.shape[1], df)
    method = paper_method(name, as_published=as_published, m=m)
    assert isinstance(method, PaperMethod)
    width = bounds[1] - bounds[0]
    return method.contrasts(sample.ordered, spending, (-width, width), censor)


def direct(sample: Sample, spending: Spending, bounds: Bounds) -> list[ArmMean]:
    """Both arms' means from noisy bounded moments, sizes public."""
    assert spending.rng is not None
    low, width, n = bounds[0], bounds[1] - bounds[0], sample.n
    weight = float(CURVATURE_WEIGHT[spending.norm])
    scale, laplace = _unit(spending)
    first = (sample.sums - n * low) / width
    second = (sample.squares - 2 * low * sample.sums + n * low**2) / width**2
    moments = np.stack([first, weight * (first - second)], axis=-1)
    moments = moments + scale * _noise(moments.shape, laplace, spending.rng)
    return [
        arm_mean(
            moments[:, arm],
            size=n,
            low=low,
            width=width,
            weight=weight,
            noise_variance=(2 if laplace else 1) * scale**2,
            kurtosis=_kurtosis(spending),
        )
        for arm in (0, 1)
    ]


def noise_aware(sample: Sample, spending: Spending, bounds: Bounds, censor: tuple[float, float]) -> Contrast:
    """The noise-aware method on all repeats, without its check of misfit."""
    return noise_aware_contrast(noise_aware_fit(sample, spending, bounds, censor)[0], kurtosis=_kurtosis(spending))


def checked_noise_aware(
    sample: Sample, spending: Spending, bounds: Bounds, censor: tuple[float, float]
) -> tuple[Contrast, Any]:
    """The same with the check, and which repeats contradict themselves."""
    return fitted(*noise_aware_fit(sample, spending, bounds, censor), kurtosis=_kurtosis(spending))


def noise_aware_fit(
    sample: Sample, spending: Spending, bounds: Bounds, censor: tuple[float, float], share: float = PLACEMENT_SHARE
) -> tuple[NoiseAwarePosterior, Contrast]:
    """The posteriors and direct contrasts of all repeats."""
    assert spending.rng is not None
    first, second = spending.split([share, 1 - share])
    laplace = spending.mechanism is Laplace
    means = direct(sample, first, bounds)
    start = contrast(means, [-1.0, 1.0], kurtosis=_kurtosis(spending))
    count = sample.differences.shape[1]
    low, high = placed(start, count, censor)
    a = (np.clip(sample.differences, low[:, None], high[:, None]) - low[:, None]) / (high - low)[:, None]
    weight = float(CURVATURE_WEIGHT[spending.norm])
    scale, _ = _unit(second)
    pieces = np.stack([a.sum(axis=1), weight * (a * (1 - a)).sum(axis=1)])
    pieces = pieces + scale * _noise(pieces.shape, laplace, spending.rng)
    posterior = NoiseAwarePosterior(
        partitions=count,
        low=low,
        high=high,
        first=pieces[0],
        second=pieces[1],
        weight=weight,
        noise_variance=(2 if laplace else 1) * scale**2,
        plain=start.estimate,
        plain_noise=start.noise_variance,
        spread=count * sum(arm.variance for arm in means),
        spread_error=count * np.sqrt(sum(arm.variance_error**2 for arm in means)),
    )
    return posterior, start


def _unit(spending: Spending) -> tuple[float, bool]:
    return spending.mechanism.calibrate(spending.guarantee, Sensitivity(l1=1.0)).scale, spending.mechanism is Laplace


def _kurtosis(spending: Spending) -> float:
    return excess_kurtosis(spending.mechanism(1.0).law(0.0))


def _noise(shape: tuple[int, ...], laplace: bool, rng: np.random.Generator) -> Array:
    return rng.laplace(size=shape) if laplace else rng.standard_normal(shape)


def summary(found: Contrast, truth: float) -> dict[str, Any]:
    """Bias, RMSE, coverage and width of 95 % intervals, and the share of repeats that reject equal means."""
    error = np.asarray(found.estimate) - truth
    low, high = found.ends(0.95)
    return {
        "bias": float(error.mean()),
        "rmse": float(np.sqrt((error**2).mean())),
        "coverage": float(((low <= truth) & (truth <= high)).mean()),
        "width": float((high - low).mean()),
        "rejected": float(((low > 0) | (high < 0)).mean()),
    }
