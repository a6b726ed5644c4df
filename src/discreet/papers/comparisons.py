"""Many simulated comparisons at once: the library's own methods and liu2023's on the same samples, summarised."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.guarantee import Guarantee
from discreet.core.sensitivity import Sensitivity
from discreet.inference.arm_means import ArmMean, Contrast, arm_mean, contrast
from discreet.inference.noise_aware import NoiseAwarePosterior
from discreet.inference.noise_sum import excess_kurtosis
from discreet.mechanisms.laplace import Laplace
from discreet.papers.outcomes import Sample
from discreet.questions.comparison.methods import PLACEMENT_SHARE, fitted, noise_aware_contrast, placed
from discreet.questions.comparison.noise_shares import Spending
from discreet.questions.comparison.paper import PaperMethod, paper_method
from discreet.questions.mean_difference import CURVATURE_WEIGHT

__all__ = ["OURS", "checked_noise_aware", "direct", "noise_aware", "simulated_contrast", "summary"]

Array = NDArray[np.float64]
Bounds = tuple[float, float]

OURS = ("direct", "noise_aware")


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
    half = np.asarray(found.half_width(0.95))
    return {
        "bias": float(error.mean()),
        "rmse": float(np.sqrt((error**2).mean())),
        "coverage": float((np.abs(error) <= half).mean()),
        "width": float(2 * half.mean()),
        "rejected": float((np.abs(found.estimate) > half).mean()),
    }
