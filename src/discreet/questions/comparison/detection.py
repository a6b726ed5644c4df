"""Detection: which difference a comparison finds, from the interval that it will print and not from a formula.

A test does not know the sampling variance: it estimates it from noisy moments, and allows for what it does not know.
Where noise is large against the variance, that costs far more than the standard error says. So the test itself is run
on noise and sampling errors that public facts and a guessed spread imply.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.contract.law import Law
from discreet.inference.arm_means import ArmMean, Contrast, arm_mean, contrast
from discreet.inference.noise_aware import NoiseAwarePosterior
from discreet.inference.noise_sum import excess_kurtosis
from discreet.questions.comparison.methods import NoiseAware, Setting, fitted, normed, placed
from discreet.questions.comparison.noise_shares import Spending
from discreet.questions.mean_difference import CURVATURE_WEIGHT, WinsorizedMoments

__all__ = ["aware_detection", "direct_detection"]

_RUNS = 1000
_AWARE_RUNS = 500
_HALVINGS = 40


def direct_detection(
    spending: Spending, setting: Setting, sizes: Sequence[int], spread: float, *, power: float, level: float
) -> float:
    """Smallest difference that the direct comparison finds with probability ``power`` at level ``level``.

    Outcomes lie near the lower bound, as sparse ones do: one unit in twenty has a height of its own that gives this
    standard deviation.
    """
    arms, law = _simulated(spending, setting, sizes, spread)
    return _smallest(contrast(arms, [-1.0, 1.0], kurtosis=excess_kurtosis(law)), power, level)


def aware_detection(
    method: NoiseAware, spending: Spending, setting: Setting, sizes: Sequence[int], spread: float, *, power: float,
    level: float,
) -> tuple[float, float]:  # fmt: skip
    """Root mean square of the error of the noise-aware comparison, and the smallest difference that it finds.

    The method runs, with its check of misfit, on partition means that are normal.
    """
    share = method.share(spending, setting)
    first, second = spending.split([share, 1 - share])
    rng = np.random.default_rng(2)
    count = setting.partitions
    values = rng.normal(0.0, math.sqrt(count * spread**2 * sum(1 / size for size in sizes[:2])), (_AWARE_RUNS, count))
    arms, law = _simulated(first, setting, sizes, spread, differences=values.mean(axis=1))
    kurtosis = excess_kurtosis(law)
    start = contrast(arms, [-1.0, 1.0], kurtosis=kurtosis)
    low, high = placed(start, count, setting.censor)
    winsorized = (np.clip(values, low[:, None], high[:, None]) - low[:, None]) / (high - low)[:, None]
    weight = float(CURVATURE_WEIGHT[second.norm])
    moved = WinsorizedMoments(interval=(0.0, 1.0), partitions=count, norm=second.norm).sensitivity()
    noise = second.mechanism.calibrate(second.guarantee, moved).law(0.0)
    sums = np.stack([winsorized.sum(axis=1), weight * (winsorized * (1 - winsorized)).sum(axis=1)])
    sums = sums + np.asarray(noise.quantile(rng.random(sums.shape)))
    posterior = NoiseAwarePosterior(
        partitions=count, low=low, high=high, first=sums[0], second=sums[1], weight=weight,
        noise_variance=float(np.max(np.asarray(noise.variance))), plain=start.estimate,
        plain_noise=start.noise_variance, spread=count * sum(arm.variance for arm in arms),
        spread_error=count * np.sqrt(sum(arm.variance_error**2 for arm in arms)), ratios=setting.ratios,
        shares=setting.shares,
    )  # fmt: skip
    found, _ = fitted(posterior, start, kurtosis=kurtosis)
    return float(np.sqrt(np.mean(np.asarray(found.estimate) ** 2))), _smallest(found, power, level)


def _smallest(runs: Contrast, power: float, level: float) -> float:
    """Smallest shift of all runs with which so many of them exclude 0."""
    half, away = runs.half_width(level), np.asarray(runs.estimate)

    def found(effect: float) -> float:
        return float(np.mean(np.abs(away + effect) > half))

    low, high = 0.0, 2 * float(np.max(half) + np.max(np.abs(away)))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if found(middle) >= power else (middle, high)
    return high


def _simulated(
    spending: Spending,
    setting: Setting,
    sizes: Sequence[int],
    spread: float,
    differences: NDArray[np.float64] | None = None,
) -> tuple[list[ArmMean], Law]:
    """Two arms with equal means, once per run of noise and of sampling, and the law of the noise.

    Where the sampled differences are given, all of the sampling error is in them.
    """
    rng = np.random.default_rng(1)  # public facts alone are simulated, so a plan may repeat itself
    low, high = setting.statistic.bounds
    statistic = normed(setting.statistic, spending, setting.statistic.arms)
    mechanism = spending.mechanism.calibrate(spending.guarantee, statistic.sensitivity(neighbours=setting.neighbours))
    law = mechanism.law(0.0)
    weight = float(CURVATURE_WEIGHT[statistic.norm])
    public = setting.sizes is not None
    arms = []
    for place, size in enumerate(sizes[:2]):
        first, second = _sampled_moments(size, spread / (high - low), rng)
        if differences is not None:
            first = np.full(differences.size, first.mean()) + place * size * differences / (high - low)
            second = np.full(differences.size, second.mean())
        curved = first - second
        exact = [first, weight * curved] if public else [size - first - curved, 2 * curved, second]
        noisy = np.stack(exact, axis=-1)
        noisy = noisy + np.asarray(law.quantile(rng.random(noisy.shape)))
        arms.append(
            arm_mean(
                noisy, size=size if public else None, low=low, width=high - low, weight=weight,
                noise_variance=float(np.max(np.asarray(law.variance))),
            )
        )  # fmt: skip
    return arms, law


def _sampled_moments(size: int, spread: float, rng: np.random.Generator) -> tuple[Any, Any]:
    """Σa and Σa² of ``size`` outcomes in [0, 1] with this standard deviation, most of them 0."""
    # One in twenty is above 0, or as many more as the spread needs within the bounds: p(1 − p) ≥ s².
    share = max(0.05, (1 - np.sqrt(max(1 - 4 * spread**2, 0.0))) / 2)
    height = min(spread / np.sqrt(share * (1 - share)), 1.0)
    count: NDArray[np.int64] = rng.binomial(size, share, _RUNS)
    return height * count, height**2 * count
