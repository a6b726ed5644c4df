"""Arm means from noisy moments: estimate, sampling variance and the exact distribution of the noise, arm by arm.

Vectorised: moments may carry leading axes (repeats of a simulation); the last axis holds one arm's moments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InsufficientBudget, InvalidParameter, WrongType
from discreet.core.guarantee import ApproxDP, Guarantee
from discreet.core.noise.sampler import generator
from discreet.core.sensitivity import Exact
from discreet.inference.least_squares import JointTest
from discreet.inference.moments import UNSEEN, reached, tilted
from discreet.inference.noise import MonteCarlo, NoiseSum
from discreet.mechanisms.mechanism import Mechanism
from discreet.results.display import Facts, Interval, Result, number
from discreet.results.ledger import Ledger
from discreet.results.release import Release, release

Array = NDArray[np.float64]


_MOST_SCORE, _HALVINGS = 8.0, 50
"""p-values below 2Φ(−8) are not told apart."""
_SHARES = np.linspace(0.0, 1.0, 17)
_TINY = 1e-300


@dataclass(frozen=True)
class ArmScore:
    """The input of the interval for one arm's mean; fields are arrays in simulations.

    A mean θ is accepted where Σa − nθ lies within its quantiles, whose variance is that of the noise and of the
    population with the mean θ that is nearest to what was measured (`discreet.inference.moments.tilted`). So the
    interval is wide on the side of a tail that a small arm may not have seen.

    Attributes
    ----------
    share
        The mean of a = (y − low)/width.
    rows
        Number of units.
    spread
        Variance of a from unit to unit: its mean given that it is positive, as far as noise leaves it open.
    noise
        Variance of the noise on each moment.
    kurtosis
        Excess kurtosis of that noise.
    low, width
        The bounds of y.
    public
        Whether the number of units is known: then Σa alone is noisy.
    """

    share: Any
    rows: Any
    spread: Any
    noise: float
    kurtosis: float
    low: float
    width: float
    public: bool

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready data; the constructor takes it back."""
        return {name: bool(value) if name == "public" else float(value) for name, value in vars(self).items()}

    @property
    def centre(self) -> Array:
        """The mean of a, between the bounds."""
        return np.asarray(np.clip(np.asarray(self.share, dtype=float), 0.0, 1.0))

    @property
    def estimate(self) -> Array:
        """The mean of y, between the bounds."""
        return np.asarray(self.low + self.width * self.centre)

    def noise_at(self, theta: Array) -> tuple[Array, Array]:
        """Variance and fourth cumulant of the noise in Σa − nθ."""
        places = np.array([1.0]) if self.public else np.array([0.0, 0.5, 1.0])
        moves = np.asarray(places - (0.0 if self.public else theta[..., None]))
        variances = self.noise * np.broadcast_to(moves, (*np.shape(theta), len(places))) ** 2
        return variances.sum(axis=-1), self.kurtosis * (variances**2).sum(axis=-1)

    def sampling_at(self, theta: Array) -> Array:
        """Sampling variance of Σa − nθ in the population with the mean θ that is nearest to what was measured.

        As many rows at an end of the bounds as may not have been seen move the mean; the rest of the way is a shift.
        """
        unseen = np.where(theta > self.centre, 1 - self.centre, self.centre) * np.minimum(UNSEEN / self.rows, 1.0)
        nearest = np.clip(theta, self.centre - unseen, self.centre + unseen)
        return np.asarray(self.rows * tilted(self.centre, np.asarray(self.spread), nearest, (0.0, 1.0)))

    def told(self, theta: Array) -> tuple[Array, Array, Array]:
        """Squared distance of the measured mean from θ, variance and fourth cumulant of the measured mean there."""
        noise, fourth = self.noise_at(theta)
        variance = np.maximum(noise + self.sampling_at(theta), _TINY)
        apart = np.asarray(self.rows * (np.asarray(self.share, dtype=float) - theta))
        return apart**2 / variance, variance / self.rows**2, fourth / self.rows**4

    def ends(self, level: float) -> tuple[Array, Array]:
        """The interval for the mean of y."""
        score = -scipy.special.ndtri((1 - level) / 2)

        def accepts(theta: Array) -> NDArray[np.bool_]:
            square, variance, fourth = self.told(theta)
            return np.asarray(np.sqrt(square) <= _quantile(score, fourth / variance**2))

        low, high = reached(accepts, self.centre, (0.0, 1.0))
        return self.low + self.width * low, self.low + self.width * high


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
    score
        What its own interval needs.
    """

    estimate: Array
    size: Array
    variance: Array
    variance_error: Array
    noise: Array
    score: ArmScore


def arm_mean(
    moments: Any, *, size: Any, low: float, width: float, weight: float, noise_variance: float, kurtosis: float
) -> ArmMean:
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
    noise_variance, kurtosis
        Variance and excess kurtosis of the noise on each moment.
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
    noise = noise_variance * (curve**2).sum(axis=0)
    error = noise + 2 * np.maximum(spread, 0) ** 2 / count
    inside = np.clip(mean, 0.0, 1.0)
    likely = np.minimum(positive_part_mean(spread, np.sqrt(noise)), inside * (1 - inside) + 1 / (4 * count))
    return ArmMean(
        estimate=low + width * mean,
        size=count,
        variance=width**2 * spread / count,
        variance_error=width**2 * np.sqrt(error) / count,
        noise=width * np.sqrt(noise_variance) * np.abs(slopes),
        score=ArmScore(mean, count, likely, noise_variance, kurtosis, low, width, size is not None),
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
    arms
        The one arm, or control and treatment, where their scores are known: intervals and p-values then come from
        them, are not symmetric, and hold where arms are uneven and outcomes rare or skewed.
    """

    estimate: Any
    sampling_variance: Any
    df: Any
    noise: Any = ()
    kurtosis: float = 0.0
    arms: tuple[ArmScore, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The numbers of a single contrast as JSON-ready data."""
        told = {name: float(getattr(self, name)) for name in ("estimate", "sampling_variance", "df", "kurtosis")}
        noise = [float(deviation) for deviation in self.noise]
        return told | {"noise": noise, "arms": [arm.to_dict() for arm in self.arms]}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Contrast:
        """Read what `to_dict` wrote."""
        arms = tuple(ArmScore(**arm) for arm in data.get("arms", ()))
        return Contrast(**data | {"noise": np.asarray(data["noise"], dtype=float), "arms": arms})

    @property
    def noise_variance(self) -> Any:
        """Variance of all noises together."""
        deviations = np.asarray(self.noise, dtype=float)
        return (deviations**2).sum(axis=0) if deviations.size else 0.0

    @property
    def law(self) -> NoiseSum:
        """The distribution of estimate minus truth."""
        return NoiseSum(self.sampling_variance, self.noise, self.kurtosis)

    @property
    def standard_error(self) -> Any:
        """Square root of the total variance."""
        return np.sqrt(self.sampling_variance + self.noise_variance)

    def half_width(self, level: float) -> Array:
        """Half the width of the interval at ``level``: the Student score, as a quantile of the exact distribution."""
        from scipy.special import ndtr, stdtrit

        score = stdtrit(self.df, 0.5 + level / 2)
        return self.law.quantile(ndtr(np.minimum(score, 8.0)))

    def excludes(self, value: float, level: float) -> NDArray[np.bool_]:
        """True where a value lies outside the interval at a level."""
        if len(self.arms) == 2:
            return ~self._accepts(np.asarray(value / self.arms[0].width), level)
        low, high = self.ends(level)
        return np.asarray((value < low) | (value > high))

    def shifted(self, effect: float) -> Contrast:
        """The same measurement of a treatment whose mean is larger by ``effect``."""
        if len(self.arms) != 2:
            return replace(self, estimate=self.estimate + effect)
        control, treatment = self.arms
        moved = replace(treatment, share=treatment.share + effect / treatment.width)
        return replace(self, estimate=self.estimate + effect, arms=(control, moved))

    def ends(self, level: float) -> tuple[Array, Array]:
        """The interval at a level."""
        if not self.arms:
            half = self.half_width(level)
            return np.asarray(self.estimate - half), np.asarray(self.estimate + half)
        if len(self.arms) == 1:
            low, high = self.arms[0].ends(level)
        else:
            middle, width = self._between, self.arms[0].width
            low, high = (width * end for end in reached(lambda apart: self._accepts(apart, level), middle, (-1.0, 1.0)))
        # Noise may take an arm's mean out of the bounds, and the estimate with it: the interval goes along.
        return np.minimum(low, self.estimate), np.maximum(high, self.estimate)

    def pvalue(self, null: float = 0.0) -> Array:
        """Two-sided p-value of the hypothesis that the contrast is ``null``; agrees with the intervals."""
        from scipy.special import ndtr, stdtr

        if len(self.arms) != 2:
            return np.asarray(2 * stdtr(self.df, -self.law.score(self.estimate - null)))
        square, tails = self._distance(np.asarray(null / self.arms[0].width))
        low = np.zeros(np.shape(square))
        high = np.full(np.shape(square), _MOST_SCORE)
        for _ in range(_HALVINGS):  # the score whose quantile, with the heavier tails of the noise, is the distance
            middle = (low + high) / 2
            short = _quantile(middle, tails) < np.sqrt(square)
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return np.asarray(2 * ndtr(-low))

    @property
    def _between(self) -> Array:
        """The difference of the arms' means, between the bounds, in widths of the bounds."""
        control, treatment = self.arms
        return np.asarray(treatment.centre - control.centre)

    def _accepts(self, apart: Array, level: float) -> NDArray[np.bool_]:
        square, tails = self._distance(apart)
        return np.asarray(np.sqrt(square) <= _quantile(-scipy.special.ndtri((1 - level) / 2), tails))

    def _distance(self, apart: Array) -> tuple[Array, Array]:
        """The least distance Σ (mᵢ − θᵢ)²/vᵢ(θᵢ) of the measured means from two means that are ``apart``, as a score.

        The variances are those of the tilted populations with these means, so an arm without a yes has no variance of
        zero; in arms of one size the tilts cancel. Also the excess kurtosis of the noise in the difference there.
        """
        control, treatment = self.arms
        moved = np.asarray(apart - self._between)
        shares = np.reshape(_SHARES, (-1, *[1] * np.ndim(moved)))  # of the way that the control goes to the treatment
        thetas = control.centre - shares * moved, treatment.centre + (1 - shares) * moved
        told = [arm.told(theta) for arm, theta in zip(self.arms, thetas, strict=True)]
        possible = np.all([(theta >= -1e-12) & (theta <= 1 + 1e-12) for theta in thetas], axis=0)
        squares = np.where(possible, sum(one[0] for one in told), np.inf)
        variance, fourth = (np.asarray(sum(one[place] for one in told)) for place in (1, 2))
        cumulants = fourth / np.maximum(variance, _TINY) ** 2
        best = np.argmin(squares, axis=0)[None]
        square, tails = (np.take_along_axis(each, best, axis=0)[0] for each in (squares, cumulants))
        return square, tails


def _quantile(score: Any, kurtosis: Array) -> Array:
    """The quantile of a sum with this excess kurtosis at a normal score, by Cornish and Fisher, on the safe side."""
    return np.asarray(score + np.maximum(score**3 - 3 * score, 0.0) / 24 * kurtosis)


def contrast(arms: list[ArmMean], coefficients: list[float], *, kurtosis: float) -> Contrast:
    """Combine arm means whose noises have one distribution; a posterior mean keeps the sampling variance positive."""
    pairs = list(zip(arms, coefficients, strict=True))
    raw = sum(c**2 * arm.variance for arm, c in pairs)
    error = np.sqrt(sum(c**4 * arm.variance_error**2 for arm, c in pairs))
    noise = np.concatenate([np.abs(c) * arm.noise for arm, c in pairs if c != 0])
    noise_variance = (noise**2).sum(axis=0)
    sampling = positive_part_mean(raw, error)
    df = np.maximum(2 * (sampling + noise_variance) ** 2 / np.maximum(error, 1e-300) ** 2, 3.0)
    scores = [arm.score for arm in arms] if coefficients in ([1.0], [-1.0, 1.0]) else []
    # What noise leaves open of the arms' variances is known better of their sum than of each.
    apart = sum(score.width**2 * score.spread / score.rows for score in scores)
    factor = np.minimum(sampling / np.maximum(apart, _TINY), 1.0)
    return Contrast(
        estimate=sum(c * arm.estimate for arm, c in pairs),
        sampling_variance=sampling,
        df=np.minimum(df, 1e9),
        noise=noise[noise.reshape(len(noise), -1).max(axis=1) > 0],
        kurtosis=kurtosis,
        arms=tuple(replace(score, spread=factor * score.spread) for score in scores),
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


# ---- Equal means: Welch's test of any number of arms, with the null distribution simulated through the noise.
#
# The statistic adds up squared distances of the arms' means from their weighted mean, each over its own variance, so
# arms may differ in size and spread. Under the hypothesis the means vary with sampling and noise, and the variances
# with their degrees of freedom (a parametric bootstrap, as Krishnamoorthy, Lu and Mathew 2007 for means without
# noise).


def equal_means(arms: Sequence[Contrast], null: MonteCarlo) -> JointTest:
    """Test whether all arms have one mean.

    Parameters
    ----------
    arms
        Independent estimates of every arm's mean.
    null
        How many releases to simulate under the hypothesis, and from which seed.

    Examples
    --------
    >>> alike = [Contrast(2.0, 0.01, 50.0), Contrast(2.1, 0.02, 40.0), Contrast(1.9, 0.01, 50.0)]
    >>> apart = [*alike[:2], Contrast(3.0, 0.01, 50.0)]
    >>> [equal_means(arms, MonteCarlo(rng=1)).pvalue < 0.05 for arms in (alike, apart)]
    [False, True]
    """
    rng, size = null.generator(), null.n_resamples
    scores = [score for one in arms for score in one.arms]
    if len(scores) == len(arms):
        return _equal_scores(scores, null, rng)
    variances = np.array([float(one.standard_error) ** 2 for one in arms])
    observed = float(_distance(np.array([float(one.estimate) for one in arms]), variances))
    means = np.stack([one.law.sample(size, rng) for one in arms], axis=-1)
    df = np.array([float(one.df) for one in arms])
    found = _distance(means, variances * rng.chisquare(df, size=(size, len(arms))) / df)
    return JointTest(observed, len(arms) - 1, null.pvalue(observed, found))


def _equal_scores(arms: Sequence[ArmScore], null: MonteCarlo, rng: np.random.Generator) -> JointTest:
    """The test with every arm's variance at the common mean, which no arm without a yes can make small."""
    low, high = np.clip([min(arm.share for arm in arms), max(arm.share for arm in arms)], 0.0, 1.0).tolist()
    thetas = np.linspace(low, high, 1025)
    told = [arm.told(thetas) for arm in arms]
    squares = np.asarray(sum(one[0] for one in told))
    best = int(np.argmin(squares))
    means = [_drawn(arm, float(thetas[best]), null.n_resamples, rng) for arm in arms]
    found = _distance(np.stack(means, axis=-1), np.array([one[1][best] for one in told]))
    return JointTest(float(squares[best]), len(arms) - 1, null.pvalue(float(squares[best]), found))


def _drawn(arm: ArmScore, theta: float, size: int, rng: np.random.Generator) -> Array:
    """Errors of an arm's measured mean where θ is the true one: sampling, skewed as the bounds allow, and noise."""
    places = np.array([1.0]) if arm.public else np.array([0.0, 0.5, 1.0]) - theta
    noise = NoiseSum(0.0, math.sqrt(arm.noise) * np.abs(places), arm.kurtosis).sample(size, rng)
    sampling = _skewed(float(arm.sampling_at(np.asarray(theta))), 1 - 2 * theta, size, rng)
    return np.asarray((sampling + noise) / arm.rows)


def _skewed(variance: float, third: float, size: int, rng: np.random.Generator) -> Array:
    """Sampling errors of a total with this variance, and ``third`` times it as third cumulant: gamma variables."""
    if variance <= 0 or third == 0:
        return np.asarray(math.sqrt(max(variance, 0.0)) * rng.standard_normal(size))
    shape = 4 * variance / third**2  # a gamma variable of shape k has skewness 2/√k
    side = math.copysign(math.sqrt(variance / shape), third)
    return np.asarray(side * (rng.gamma(shape, size=size) - shape))


def _distance(means: Array, variances: Array) -> Array:
    weights = 1 / np.maximum(variances, 1e-300)
    middle = (weights * means).sum(axis=-1) / weights.sum(axis=-1)
    return np.asarray((weights * (means - middle[..., None]) ** 2).sum(axis=-1))


# ---- Noise-aware inference: the joint law of sanitized partition statistics given (θ, σ), and the posterior from it.
#
# The statistics are (Σa, κΣa(1 − a)) of partition values winsorized to a public interval, and beside them, where there
# is one, a noisy estimate of the plain mean difference. Given θ and σ each is a sum over independent partitions, so
# jointly normal to the accuracy of the central limit theorem, with a covariance that is known in closed form; the
# mechanism adds its own, exactly known covariance. No budget is spent to learn a noise variance (errata T6).


@dataclass(frozen=True)
class WinsorizedLaw:
    """Moments of a = (clip(z, l, u) − l)/(u − l) and c = a(1 − a) for z ~ N(θ, σ²).

    Examples
    --------
    >>> law = WinsorizedLaw.of(0.0, 1.0, -1.0, 1.0)
    >>> round(float(law.mean_a), 6), round(float(law.inside), 4)
    (0.5, 0.6827)
    """

    mean_a: Array
    mean_c: Array
    var_a: Array
    var_c: Array
    cov_ac: Array
    inside: Array
    slope: Array
    """E[(1 − 2a); inside], for the covariance of z and c by Stein's lemma."""

    @classmethod
    def of(cls, theta: Any, sigma: Any, low: Any, high: Any) -> WinsorizedLaw:
        """Closed forms from partial moments of the normal up to the fourth."""
        width = high - low
        left, right = (low - theta) / sigma, (high - theta) / sigma
        pdf_l = np.exp(-0.5 * left**2) / np.sqrt(2 * np.pi)
        pdf_r = np.exp(-0.5 * right**2) / np.sqrt(2 * np.pi)
        inside = scipy.special.ndtr(right) - scipy.special.ndtr(left)
        above = scipy.special.ndtr(-right)
        partial = [inside, pdf_l - pdf_r]
        for k in range(2, 5):
            partial.append((k - 1) * partial[k - 2] - right ** (k - 1) * pdf_r + left ** (k - 1) * pdf_l)
        shift, scale = (theta - low) / width, sigma / width
        powers = []
        for k in range(1, 5):
            inner = sum(_BINOMIAL[k][j] * shift ** (k - j) * scale**j * partial[j] for j in range(k + 1))
            powers.append(inner + above)
        first, second, third, fourth = powers
        mean_c = first - second
        return cls(
            mean_a=first,
            mean_c=mean_c,
            var_a=np.maximum(second - first**2, 0),
            var_c=np.maximum(second - 2 * third + fourth - mean_c**2, 0),
            cov_ac=second - third - first * mean_c,
            inside=inside,
            slope=inside - 2 * (first - above),
        )


_BINOMIAL = {1: (1, 1), 2: (1, 2, 1), 3: (1, 3, 3, 1), 4: (1, 4, 6, 4, 1)}


@dataclass(frozen=True, kw_only=True)
class NoiseAwarePosterior:
    """Posterior of θ under the Jeffreys prior, given sanitized statistics; arrays are independent problems.

    Parameters
    ----------
    partitions
        P.
    low, high
        Public interval.
    first, second
        Noisy Σa and κΣa(1 − a).
    weight
        κ.
    noise_variance
        Variance of the noise on each of the two.
    plain, plain_noise
        A noisy estimate of the mean difference itself and the variance of its noise.
    spread, spread_error
        A noisy estimate of σ² (variance of z) and its standard deviation.
    ratios, shares
        Where partitions are unequal: values of σⱼ/σ, and the share of partitions that has each.
    """

    partitions: int
    low: Any
    high: Any
    first: Any
    second: Any
    weight: float
    noise_variance: Any
    plain: Any
    plain_noise: Any
    spread: Any
    spread_error: Any
    ratios: tuple[float, ...] = (1.0,)
    shares: tuple[float, ...] = (1.0,)

    def log_likelihood(self, theta: Any, sigma: Any) -> Array:
        """Log-density of all statistics at (θ, σ)."""
        distance, determinant = self._fit(theta, sigma)
        return np.asarray(-0.5 * (distance + determinant))

    def misfit(self, theta: Any, sigma: Any) -> Array:
        """Squared distance of the four statistics from what (θ, σ) expects of them, in their own covariance.

        Two numbers are fitted to four, so at the best fit it is about χ² with two degrees of freedom where partition
        values are normal. It grows where the direct and the censored moments tell two stories.
        """
        return self._fit(theta, sigma)[0]

    def _fit(self, theta: Any, sigma: Any) -> tuple[Array, Array]:
        """Squared distance and log-determinant of the normal distribution of all statistics at (θ, σ)."""
        count, weight = self.partitions, self.weight
        width = np.asarray(self.high - self.low)
        zero = np.zeros(np.broadcast_shapes(np.shape(theta), np.shape(sigma), width.shape))
        mean_a, mean_c, v_aa, v_cc, v_ac, v_za, v_zc, v_zz = (zero.copy() for _ in range(8))
        for ratio, share in zip(self.ratios, self.shares, strict=True):
            own = np.asarray(sigma) * ratio
            law, n = WinsorizedLaw.of(theta, own, self.low, self.high), count * share
            mean_a += n * law.mean_a
            mean_c += n * law.mean_c
            v_aa += n * law.var_a
            v_cc += n * law.var_c
            v_ac += n * law.cov_ac
            v_za += share * own**2 * law.inside / width
            v_zc += share * own**2 * law.slope / width
            v_zz += share * own**2 / count
        mean_c, v_cc, v_ac, v_zc = weight * mean_c, weight**2 * v_cc, weight * v_ac, weight * v_zc
        v_aa, v_cc, v_zz = v_aa + self.noise_variance, v_cc + self.noise_variance, v_zz + self.plain_noise
        d_a, d_c, d_z = self.first - mean_a, self.second - mean_c, self.plain - theta
        distance, determinant = _normal_distance((d_a, d_c, d_z), (v_aa, v_ac, v_za, v_cc, v_zc, v_zz))
        variance = np.asarray(sigma) ** 2 * sum(s * r**2 for r, s in zip(self.ratios, self.shares, strict=True))
        return np.asarray(distance + ((self.spread - variance) / self.spread_error) ** 2), determinant

    def moments(self, nodes: int = 25, passes: int = 4) -> tuple[Array, Array, Array]:
        """Posterior mean and variance of θ, and posterior mean of σ, by quadrature on a box that closes in."""
        base = np.maximum(np.sqrt(np.maximum(self.spread, 0.0)), 0.2 * np.sqrt(self.spread_error))
        base = np.maximum(base, 0.05 * (self.high - self.low))
        center_t = np.broadcast_to(np.asarray(self.plain, dtype=float), np.shape(base)).copy()
        half_t = 6 * np.sqrt(self.plain_noise + base**2 / self.partitions)
        center_s, half_s = np.log(base), np.full(np.shape(base), 2.5)
        axis = np.linspace(-1, 1, nodes)
        x = axis.reshape((nodes, 1) + (1,) * np.ndim(base))
        y = axis.reshape((1, nodes) + (1,) * np.ndim(base))
        for step in range(passes):
            theta, tau = center_t + half_t * x, center_s + half_s * y
            log_weight = self.log_likelihood(theta, np.exp(tau))
            weight = np.exp(log_weight - log_weight.max(axis=(0, 1), keepdims=True))
            mass = weight.sum(axis=(0, 1))
            center_t = (weight * theta).sum(axis=(0, 1)) / mass
            center_s = (weight * tau).sum(axis=(0, 1)) / mass
            var_t = (weight * (theta - center_t) ** 2).sum(axis=(0, 1)) / mass
            var_s = (weight * (tau - center_s) ** 2).sum(axis=(0, 1)) / mass
            if step < passes - 1:
                cell_t, cell_s = 2 * half_t / (nodes - 1), 2 * half_s / (nodes - 1)
                half_t = np.minimum(half_t, 6 * np.sqrt(var_t) + cell_t)
                half_s = np.minimum(half_s, 6 * np.sqrt(var_s) + cell_s)
        return center_t, var_t, np.exp(center_s)


def _normal_distance(d: tuple[Array, Array, Array], v: tuple[Array, ...]) -> tuple[Array, Array]:
    """Squared distance and log-determinant of a three-dimensional normal, by its Cholesky factors."""
    v11, v12, v13, v22, v23, v33 = v
    l21, l31 = v12 / v11, v13 / v11
    r22 = np.maximum(v22 - l21 * v12, 1e-12 * v22)
    l32 = (v23 - l31 * v12) / r22
    r33 = np.maximum(v33 - l31 * v13 - l32**2 * r22, 1e-12 * v33)
    e2 = d[1] - l21 * d[0]
    e3 = d[2] - l31 * d[0] - l32 * e2
    distance = d[0] ** 2 / v11 + e2**2 / r22 + e3**2 / r33
    return np.asarray(distance), np.asarray(np.log(v11) + np.log(r22) + np.log(r33))


# ---- The censored normal likelihood of partition differences (liu2023 section 3), by maximum and by quadrature
#
# Everything is vectorised: the statistics may be arrays of any one shape, one likelihood per element. The parameters
# are θ and τ = log σ. The Jeffreys prior f(θ, σ²) ∝ σ⁻² is flat in (θ, τ), so mode and quadrature share one surface.


_ROOT = np.sqrt(2 / np.pi)
_STEPS = 60
_CONVERGED = 1e-9
_REACH = 6.5
"""The quadrature covers this many standard deviations of the posterior around its mode, on every side."""


@dataclass(frozen=True)
class LocationEstimate:
    """An estimate of θ with the variance that the likelihood gives it; arrays where the statistics are arrays."""

    estimate: Any
    variance: Any


@dataclass(frozen=True)
class CensoredNormal:
    """Log-likelihood of P normal values of which some are only known to lie below or above (liu2023 (14), (19)).

    Parameters
    ----------
    below, inside, above
        Number of values below ``lower``, between, and above ``upper``; they need not be whole numbers.
    lower, upper
        Where censoring begins.
    total, squares
        Sum and sum of squares of the values inside.

    Notes
    -----
    Noise can make the sum of squares smaller than the square of the sum allows, and the likelihood unbounded. It is
    raised to ``total²/inside`` plus a millionth of the squared censoring width, the nearest value that data can have.

    Examples
    --------
    >>> fit = CensoredNormal(below=1.0, inside=8.0, above=1.0, lower=-1.3, upper=1.3, total=0.0, squares=4.0).maximum()
    >>> round(float(fit.estimate), 9)
    0.0
    """

    below: Any
    inside: Any
    above: Any
    lower: Any
    upper: Any
    total: Any
    squares: Any

    def __post_init__(self) -> None:
        names = ("below", "inside", "above", "lower", "upper", "total", "squares")
        below, inside, above, lower, upper, total, squares = np.broadcast_arrays(
            *(np.asarray(getattr(self, name), dtype=float) for name in names)
        )
        low = np.minimum(lower, upper)
        high = np.maximum(lower, upper)
        width = np.maximum(high - low, 1e-300)
        inside = np.maximum(inside, 1.0)
        # Values inside cannot have a mean outside, however noisy their sum is.
        total = np.clip(total, inside * low, inside * high)
        squares = np.maximum(squares, total**2 / inside + 1e-6 * inside * width**2)
        clean = (np.maximum(below, 0.0), inside, np.maximum(above, 0.0), low, high, total, squares)
        for name, value in zip(names, clean, strict=True):
            object.__setattr__(self, name, value)

    def _start(self) -> tuple[Array, Array]:
        """Mean and spread of the values with the censored ones put at the ends."""
        count = self.below + self.inside + self.above
        mean = (self.below * self.lower + self.total + self.above * self.upper) / count
        square = (self.below * self.lower**2 + self.squares + self.above * self.upper**2) / count
        return mean, 0.5 * np.log(np.maximum(square - mean**2, 1e-12 * (self.upper - self.lower) ** 2) + 1e-300)

    def log_likelihood(self, theta: Any, tau: Any) -> Array:
        """ll(θ, log σ) up to a constant; θ and τ broadcast against the statistics."""
        scale = np.exp(-tau)
        quadratic = self.squares - 2 * theta * self.total + self.inside * theta**2
        value = -self.inside * tau - 0.5 * quadratic * scale**2
        value = value + self.below * scipy.special.log_ndtr((self.lower - theta) * scale)
        return np.asarray(value + self.above * scipy.special.log_ndtr((theta - self.upper) * scale))

    def _derivatives(self, theta: Array, tau: Array) -> tuple[Array, ...]:
        """Gradient and Hessian in (θ, τ)."""
        scale = np.exp(-tau)
        left, right = (self.lower - theta) * scale, (theta - self.upper) * scale
        mills_l, mills_r = _mills(left), _mills(right)
        curve_l, curve_r = -mills_l * (left + mills_l), -mills_r * (right + mills_r)
        deviation = (self.total - self.inside * theta) * scale
        square = (self.squares - 2 * theta * self.total + self.inside * theta**2) * scale**2
        g_theta = (deviation - self.below * mills_l + self.above * mills_r) * scale
        g_tau = -self.inside + square - self.below * mills_l * left - self.above * mills_r * right
        h_tt = (-self.inside + self.below * curve_l + self.above * curve_r) * scale**2
        bent_l, bent_r = self.below * (mills_l + left * curve_l), self.above * (mills_r + right * curve_r)
        h_ts = (-2 * deviation + bent_l - bent_r) * scale
        h_ss = -2 * square + left * bent_l + right * bent_r
        return g_theta, g_tau, h_tt, h_ts, h_ss

    def mode(self) -> tuple[Array, Array, tuple[Array, Array, Array]]:
        """Maximum (θ, τ) by damped Newton steps, and the negative Hessian there."""
        theta, tau = self._start()
        value = self.log_likelihood(theta, tau)
        damping = np.full(theta.shape, 1e-3)
        for _ in range(_STEPS):
            g_theta, g_tau, h_tt, h_ts, h_ss = self._derivatives(theta, tau)
            size = np.exp(-2 * tau) * np.maximum(self.inside, 1.0)  # scale of the θ curvature
            a, b, c = -h_tt + damping * size, -h_ts, -h_ss + damping * self.inside
            determinant = a * c - b * b
            bad = (determinant <= 0) | (a <= 0)
            a, c = np.where(bad, np.abs(a) + np.abs(b) + size, a), np.where(bad, np.abs(c) + np.abs(b) + self.inside, c)
            b, determinant = np.where(bad, 0.0, b), np.where(bad, a * c, determinant)
            step_theta = (c * g_theta - b * g_tau) / determinant
            step_tau = np.clip((a * g_tau - b * g_theta) / determinant, -1.0, 1.0)
            trial = self.log_likelihood(theta + step_theta, tau + step_tau)
            better = trial >= value
            theta, tau = np.where(better, theta + step_theta, theta), np.where(better, tau + step_tau, tau)
            value = np.where(better, trial, value)
            damping = np.where(better, damping * 0.1, np.minimum(damping * 20 + 1e-6, 1e12))
            small = np.abs(step_theta) * np.exp(-tau) + np.abs(step_tau) < _CONVERGED
            if np.all(small | (damping > 1e10)):
                break
        _, _, h_tt, h_ts, h_ss = self._derivatives(theta, tau)
        return theta, tau, (-h_tt, -h_ts, -h_ss)

    def maximum(self) -> LocationEstimate:
        """Maximum likelihood: θ̂ and its variance from the inverse of the observed information."""
        theta, _, information = self.mode()
        return LocationEstimate(theta, _inverse(information)[0])

    def posterior(self, nodes: int = 25) -> LocationEstimate:
        """Posterior mean and variance of θ under the Jeffreys prior (20), (21), by quadrature over (θ, τ).

        The trapezoid rule on a box of ±6.5 standard deviations around the mode, in coordinates that decorrelate the
        two parameters there; for a smooth surface that vanishes at the edges its error falls exponentially.
        """
        theta, tau, information = self.mode()
        v_theta, v_cross, v_tau = _inverse(information)
        root_tau = np.sqrt(v_tau)
        slope = v_cross / root_tau
        root_rest = np.sqrt(np.maximum(v_theta - slope**2, 1e-12 * v_theta))
        axis = np.linspace(-_REACH, _REACH, nodes)
        x = axis.reshape((nodes, 1) + (1,) * theta.ndim)
        y = axis.reshape((1, nodes) + (1,) * theta.ndim)
        # σ has a heavier upper tail than a normal: stretch that side.
        tau_nodes = tau + root_tau * (y + 0.15 * np.maximum(y, 0.0) ** 2 / 2)
        weight_y = 1 + 0.15 * np.maximum(y, 0.0)
        spread = np.exp(tau_nodes - tau)  # θ spreads with σ
        theta_nodes = theta + slope * y + root_rest * spread * x
        log_weight = self.log_likelihood(theta_nodes, tau_nodes)
        log_weight -= log_weight.max(axis=(0, 1), keepdims=True)
        weight = np.exp(log_weight) * weight_y * spread
        mass = weight.sum(axis=(0, 1))
        mean = (weight * (theta_nodes - theta)).sum(axis=(0, 1)) / mass
        variance = (weight * (theta_nodes - theta - mean) ** 2).sum(axis=(0, 1)) / mass
        return LocationEstimate(theta + mean, variance)


def _mills(x: Array) -> Array:
    """φ(x)/Φ(x), stable in both tails."""
    return np.asarray(np.exp(-0.5 * x * x - scipy.special.log_ndtr(x)) * (_ROOT / 2))


def _inverse(information: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    """Inverse of a symmetric 2×2 matrix; where it is not positive definite, that of its diagonal."""
    a, b, c = information
    a, c = np.maximum(a, 1e-300), np.maximum(c, 1e-300)
    determinant = a * c - b * b
    b = np.where(determinant <= 1e-12 * a * c, 0.0, b)
    determinant = a * c - b * b
    return c / determinant, -b / determinant, a / determinant


# ---- Multiple synthesis and double sanitization: two published ways to account for noise in a conclusion.
#
# Both treat the noise as if its law were not known. The default of this library uses the law itself
# (`discreet.inference.moments`); these stand beside it for comparison and for statistics without a law.


@dataclass(frozen=True, kw_only=True)
class CombinedEstimate(Result):
    """An estimate with a total variance and a Student-t (or normal) distribution.

    Attributes
    ----------
    estimate
        The point estimate.
    within
        Sampling variance.
    between
        Variance of the noise, as estimated.
    variance
        Total variance.
    df
        Degrees of freedom; infinite for a normal distribution.
    """

    estimate: float
    within: float
    between: float
    variance: float
    df: float

    @property
    def standard_error(self) -> float:
        """Square root of the total variance."""
        return math.sqrt(self.variance)

    def population_interval(self, level: float = 0.95) -> Interval:
        """Estimate ± Student-t quantile × standard error."""
        from scipy.special import ndtri, stdtrit

        tail = 0.5 + requirements.level(level) / 2
        quantile = float(ndtri(tail) if math.isinf(self.df) else stdtrit(self.df, tail))
        reach = quantile * self.standard_error
        return Interval(self.estimate - reach, self.estimate + reach, level)

    def pvalue(self, null: float = 0.0) -> float:
        """Two-sided p-value of the hypothesis that the parameter is ``null``."""
        from scipy.special import ndtr, stdtr

        if self.variance == 0:
            return 1.0 if self.estimate == null else 0.0
        statistic = -abs(self.estimate - null) / self.standard_error
        return 2 * float(ndtr(statistic) if math.isinf(self.df) else stdtr(self.df, statistic))

    def to_dict(self) -> dict[str, Any]:
        """The numbers by name."""
        return {
            "estimate": self.estimate,
            "within": self.within,
            "between": self.between,
            "variance": self.variance,
            "df": self.df if math.isfinite(self.df) else None,
        }

    def heading(self) -> str:
        return "Combined estimate"

    def facts(self) -> Facts:
        return [
            ("estimate", number(self.estimate)),
            ("standard error", number(self.standard_error)),
            ("95 % interval", str(self.population_interval())),
            ("degrees of freedom", "normal" if math.isinf(self.df) else f"{self.df:.1f}"),
        ]

    def __str__(self) -> str:
        degrees = "normal" if math.isinf(self.df) else f"{self.df:.1f} df"
        return f"{self.estimate:.6g} ± {self.standard_error:.3g} ({degrees})"


@dataclass(frozen=True, kw_only=True)
class MultipleSynthesis:
    """Sanitize m times with a share of the budget each, and combine (liu2019; liu2023 (6)–(7)).

    Parameters
    ----------
    m
        Number of sets; the papers use 3 to 5.

    Notes
    -----
    With estimates θ₁, …, θ_m and sampling variances v₁, …, v_m: the estimate is the mean θ̄, within variance
    w = mean(v), between variance b = Σ(θ_h − θ̄)²/(m − 1), total variance b/m + w, and
    ν = (m − 1)(1 + mw/b)² degrees of freedom. The budget is split only to learn a noise variance that is public
    anyway, so the interval is wider than it need be; and bias near the bounds of a domain stays in.

    Examples
    --------
    >>> combined = MultipleSynthesis(m=3).combine([1.0, 2.0, 3.0], [0.5, 0.5, 0.5])
    >>> combined.estimate, round(combined.variance, 4), round(combined.df, 2)
    (2.0, 0.8333, 12.5)
    """

    m: int = 5

    def __post_init__(self) -> None:
        object.__setattr__(self, "m", requirements.positive_integer("m", self.m, at_least=2))

    def share(self, guarantee: Guarantee) -> Guarantee:
        """The guarantee that each of the m sets may spend."""
        return guarantee.split(self.m)[0]

    def release(
        self,
        exact: Exact,
        mechanism: type[Mechanism],
        guarantee: Guarantee,
        *,
        ledger: Ledger | None = None,
        rng: int | np.random.Generator | None = None,
        **options: Any,
    ) -> tuple[Release, ...]:
        """Release the same value m times, each with its share of ``guarantee``.

        ``options`` go to the mechanism's `calibrate`, for example ``bounds``.
        """
        requirements.instance("exact", exact, Exact, "an Exact, such as Exact(10.0, Sensitivity(l1=1.0))")
        requirements.instance("guarantee", guarantee, Guarantee, "a guarantee such as PureDP(1.0)")
        kind: Any = mechanism
        if not isinstance(kind, type) or not issubclass(kind, Mechanism):
            raise WrongType("mechanism", mechanism, "must be a kind of mechanism", "Pass Laplace, for example.")
        if ledger is not None and not (preview := ledger.preview(guarantee)).affordable:
            raise InsufficientBudget(guarantee, preview.remaining)  # before the first of m, not half-way
        share = self.share(guarantee)
        chosen = mechanism.calibrate(share, exact.sensitivity, **options)
        named = share if isinstance(share, ApproxDP) else None  # an (ε, δ) pair is one of many that hold
        source = None if rng is None else generator(rng)
        return tuple(release(exact, chosen, ledger=ledger, guarantee=named, rng=source) for _ in range(self.m))

    def population(self, releases: Sequence[Release], **known: Any) -> CombinedEstimate:
        """Combine m releases of a mean, proportion, variance or covariance into an estimate of the population's.

        ``known`` is what is known of the population, as in the releases' ``sampling_model``.
        """
        variances = [release.sampling_variance(**known) for release in releases]  # type: ignore[attr-defined]
        return self.combine([float(release.measured) for release in releases], variances)

    def combine(self, estimates: Sequence[float], variances: Sequence[float]) -> CombinedEstimate:
        """Combine the estimates of the m sets and their sampling variances."""
        theta = _numbers("estimates", estimates)
        sampling = _numbers("variances", variances)
        if theta.shape != (self.m,) or sampling.shape != (self.m,):
            raise InvalidParameter(
                "estimates",
                theta.shape,
                f"must be {self.m} numbers, with {self.m} variances",
                "Pass one estimate and one variance a set.",
            )
        if not (np.all(np.isfinite(theta)) and np.all(np.isfinite(sampling)) and np.all(sampling >= 0)):
            raise InvalidParameter(
                "variances",
                "…",
                "estimates must be finite and variances finite and not negative",
                "Pass numbers that are.",
            )
        within = float(sampling.mean())
        between = float(theta.var(ddof=1))
        df = (self.m - 1) * (1 + self.m * within / between) ** 2 if between > 0 else math.inf
        return CombinedEstimate(
            estimate=float(theta.mean()),
            within=within,
            between=between,
            variance=between / self.m + within,
            df=df,
        )


@dataclass(frozen=True, kw_only=True)
class DoubleSanitization:
    """Sanitize the released value again m times to learn the noise variance (liu2023 section 2.2).

    Costs no privacy: it starts from the release. The total variance is v₁ + v₂(1 + 1/m), with v₁ the sampling
    variance and v₂ the variance of the m doubly sanitized values.

    Parameters
    ----------
    m
        Number of repeats.
    """

    m: int = 1000

    def __post_init__(self) -> None:
        object.__setattr__(self, "m", requirements.positive_integer("m", self.m, at_least=2))

    def combine(
        self,
        value: float,
        mechanism: Mechanism,
        sampling_variance: float,
        *,
        rng: int | np.random.Generator | None = None,
    ) -> CombinedEstimate:
        """The released value with the variance of its noise added to the sampling variance."""
        requirements.instance("mechanism", mechanism, Mechanism, "the mechanism of the release")
        within = requirements.non_negative("sampling_variance", sampling_variance)
        start = requirements.finite("value", value)
        again = np.asarray(mechanism.draw(np.full(self.m, start), rng=rng), dtype=float)
        between = float(again.var(ddof=1))
        if not math.isfinite(between):
            raise InvalidParameter("value", value, "is too large for its noise to be seen", "Use smaller units.")
        return CombinedEstimate(
            estimate=start,
            within=within,
            between=between,
            variance=within + between * (1 + 1 / self.m),
            df=math.inf,
        )


def _numbers(name: str, values: Any) -> NDArray[np.float64]:
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise WrongType(name, values, "must be numbers", "Pass one a set.") from None
