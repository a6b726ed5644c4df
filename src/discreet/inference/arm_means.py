"""Arm means from noisy moments: estimate, sampling variance and the exact law of the noise, arm by arm.

Vectorised: moments may carry leading axes (repeats of a simulation); the last axis holds one arm's moments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # whose submodules load when first used
from numpy.typing import NDArray

from discreet.inference.noise_sum import NoiseSum

__all__ = ["ArmMean", "Contrast", "arm_mean", "contrast", "positive_part_mean"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ArmMean:
    """One arm's mean.

    Attributes
    ----------
    estimate
        The estimated mean.
    size
        Number of units, estimated where it is private.
    variance
        Estimated sampling variance of the estimate; may be negative through noise.
    variance_error
        Standard deviation of that estimate, from noise and from sampling.
    noise
        Standard deviation that each moment's noise gives the estimate, along the first axis.
    """

    estimate: Array
    size: Array
    variance: Array
    variance_error: Array
    noise: Array


def arm_mean(moments: Any, *, size: Any, low: float, width: float, weight: float, noise_variance: float) -> ArmMean:
    """Estimate an arm's mean from its noisy moments (see `MeanDifference`).

    Parameters
    ----------
    moments
        (Σa, κ·Σa(1 − a)) where ``size`` is public; (Σ(1 − a)², Σ2a(1 − a), Σa²) where it is None.
    size
        Public number of units.
    low, width
        a = (y − low)/width.
    weight
        κ.
    noise_variance
        Variance of the noise on each moment.
    """
    values = np.asarray(moments, dtype=float)
    if size is not None:
        count = np.asarray(size, dtype=float)
        mean = values[..., 0] / count
        square = (values[..., 0] - values[..., 1] / weight) / count
        slopes = np.stack([np.ones_like(mean), np.zeros_like(mean)]) / count
        curve = np.stack([1 - 2 * mean, np.full_like(mean, -1 / weight)]) / count
    else:
        count = np.maximum(values.sum(axis=-1), 2.0)
        mean = np.clip((values[..., 2] + values[..., 1] / 2) / count, 0.0, 1.0)
        square = values[..., 2] / count
        slopes = np.stack([-mean, 0.5 - mean, 1 - mean]) / count
        tilt = 2 * mean**2 - square
        curve = np.stack([tilt, tilt - mean, 1 + tilt - 2 * mean]) / count
    spread = square - mean**2
    # A variance estimate also varies with the sample; its kurtosis is unknown, and that of a normal is the least.
    error = noise_variance * (curve**2).sum(axis=0) + 2 * np.maximum(spread, 0) ** 2 / count
    return ArmMean(
        estimate=low + width * mean,
        size=count,
        variance=width**2 * spread / count,
        variance_error=width**2 * np.sqrt(error) / count,
        noise=width * np.sqrt(noise_variance) * np.abs(slopes),
    )


@dataclass(frozen=True)
class Contrast:
    """A linear combination of arm means with everything an interval needs; fields are arrays in simulations.

    Attributes
    ----------
    estimate
        Σ cᵢ · meanᵢ.
    sampling_variance
        Variance of its sampling error.
    df
        Degrees of freedom of the standard error, which is itself estimated.
    noise
        Standard deviations of the independent noises in it, along the first axis.
    kurtosis
        Excess kurtosis of one noise: 3 for Laplace noise, 0 for normal noise.
    """

    estimate: Any
    sampling_variance: Any
    df: Any
    noise: Any = ()
    kurtosis: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The numbers of a single contrast as JSON-ready data; the constructor takes them back."""
        numbers = {name: float(getattr(self, name)) for name in self.__dataclass_fields__ if name != "noise"}
        return numbers | {"noise": [float(deviation) for deviation in self.noise]}

    @property
    def noise_variance(self) -> Any:
        """Variance of all noises together."""
        deviations = np.asarray(self.noise, dtype=float)
        return (deviations**2).sum(axis=0) if deviations.size else 0.0

    @property
    def law(self) -> NoiseSum:
        """The law of estimate minus truth."""
        return NoiseSum(self.sampling_variance, self.noise, self.kurtosis)

    @property
    def standard_error(self) -> Any:
        """Square root of the total variance."""
        return np.sqrt(self.sampling_variance + self.noise_variance)

    def half_width(self, level: float) -> Array:
        """Half the width of the interval at ``level``: the Student score, read as a quantile of the exact law."""
        from scipy.special import ndtr, stdtrit

        score = stdtrit(self.df, 0.5 + level / 2)
        return self.law.quantile(ndtr(np.minimum(score, 8.0)))

    def pvalue(self, null: float = 0.0) -> Array:
        """Two-sided p-value of the hypothesis that the contrast is ``null``; agrees with the intervals."""
        from scipy.special import stdtr

        return np.asarray(2 * stdtr(self.df, -self.law.score(self.estimate - null)))


def contrast(arms: list[ArmMean], coefficients: list[float], *, kurtosis: float) -> Contrast:
    """Combine arm means whose noises have one law; a posterior mean keeps the sampling variance positive."""
    pairs = list(zip(arms, coefficients, strict=True))
    raw = sum(c**2 * arm.variance for arm, c in pairs)
    error = np.sqrt(sum(c**4 * arm.variance_error**2 for arm, c in pairs))
    noise = np.concatenate([np.abs(c) * arm.noise for arm, c in pairs if c != 0])
    noise_variance = (noise**2).sum(axis=0)
    sampling = positive_part_mean(raw, error)
    df = np.maximum(2 * (sampling + noise_variance) ** 2 / np.maximum(error, 1e-300) ** 2, 3.0)
    return Contrast(
        estimate=sum(c * arm.estimate for arm, c in pairs),
        sampling_variance=sampling,
        df=np.minimum(df, 1e9),
        noise=noise[noise.reshape(len(noise), -1).max(axis=1) > 0],
        kurtosis=kurtosis,
    )


def positive_part_mean(estimate: Any, error: Any) -> Array:
    """E[v | v > 0] for v around ``estimate`` with normal ``error``: a variance that noise made small or negative.

    Examples
    --------
    >>> round(float(positive_part_mean(10.0, 1.0)), 6), round(float(positive_part_mean(0.0, 1.0)), 4)
    (10.0, 0.7979)
    """
    spread = np.maximum(error, 1e-300)
    ratio = np.asarray(estimate / spread, dtype=float)
    hazard = np.exp(-0.5 * ratio**2 - 0.5 * np.log(2 * np.pi) - scipy.special.log_ndtr(ratio))
    # Far below zero the difference of two large numbers is the mean of an exponential.
    return np.asarray(np.where(ratio > -30, spread * (ratio + hazard), spread / np.maximum(-ratio, 1.0)))
