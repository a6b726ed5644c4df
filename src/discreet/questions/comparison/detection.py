"""Detection: which difference a comparison finds, from the interval that it will print and not from a formula.

A test does not know the sampling variance: it estimates it from noisy moments, and allows for what it does not know.
Where noise is large against the variance, that costs far more than the standard error says. So the test itself is run
on noise and sampling errors that public facts and a guessed spread imply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.inference.arm_means import Contrast, arm_mean, contrast
from discreet.inference.noise_sum import excess_kurtosis
from discreet.questions.comparison.methods import Setting, normed
from discreet.questions.comparison.noise_shares import Spending
from discreet.questions.mean_difference import CURVATURE_WEIGHT

__all__ = ["direct_detection"]

_RUNS = 1000
_HALVINGS = 40


def direct_detection(
    spending: Spending, setting: Setting, sizes: Sequence[int], spread: float, *, power: float, level: float
) -> float:
    """Smallest difference that the direct comparison finds with probability ``power`` at level ``level``.

    Outcomes lie near the lower bound, as sparse ones do: one unit in twenty has a height of its own that gives this
    standard deviation.
    """
    runs = _simulated(spending, setting, sizes, spread)
    half = runs.half_width(level)
    away = np.asarray(runs.estimate)

    def found(effect: float) -> float:
        return float(np.mean(np.abs(away + effect) > half))

    low, high = 0.0, 2 * float(np.max(half) + np.max(np.abs(away)))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if found(middle) >= power else (middle, high)
    return high


def _simulated(spending: Spending, setting: Setting, sizes: Sequence[int], spread: float) -> Contrast:
    """Contrasts of two arms with equal means, one per run of noise and of sampling."""
    rng = np.random.default_rng(1)  # public facts alone are simulated, so a plan may repeat itself
    low, high = setting.statistic.bounds
    statistic = normed(setting.statistic, spending, setting.statistic.arms)
    mechanism = spending.mechanism.calibrate(spending.guarantee, statistic.sensitivity(neighbours=setting.neighbours))
    law = mechanism.law(0.0)
    weight = float(CURVATURE_WEIGHT[statistic.norm])
    public = setting.sizes is not None
    arms = []
    for size in sizes[:2]:
        first, second = _sampled_moments(size, spread / (high - low), rng)
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
    return contrast(arms, [-1.0, 1.0], kurtosis=excess_kurtosis(law))


def _sampled_moments(size: int, spread: float, rng: np.random.Generator) -> tuple[Any, Any]:
    """Σa and Σa² of ``size`` outcomes in [0, 1] with this standard deviation, most of them 0."""
    # One in twenty is above 0, or as many more as the spread needs within the bounds: p(1 − p) ≥ s².
    share = max(0.05, (1 - np.sqrt(max(1 - 4 * spread**2, 0.0))) / 2)
    height = min(spread / np.sqrt(share * (1 - share)), 1.0)
    count: NDArray[np.int64] = rng.binomial(size, share, _RUNS)
    return height * count, height**2 * count
