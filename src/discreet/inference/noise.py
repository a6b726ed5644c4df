"""The distribution of a normal sampling error plus independent noises, which the interval around a release needs.

Nothing here asks which mechanism drew the noise. Its distribution gives the standard deviation and the excess kurtosis,
and the sum is that of a normal and of Laplace variables with the same two numbers: exact for Laplace noise (kurtosis
3), for normal noise (0) and for every mixture of both, and right to four moments for any other symmetric distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.noise.sampler import generator, plain
from discreet.core.sensitivity import root_up
from discreet.mechanisms.mechanism import Law, Mechanism
from discreet.results.display import Interval

Array = NDArray[np.float64]

_APART = 0.01
"""Equal scales are spread by at most this much, which moves probabilities by less than 1e-4; fewer than six by less."""
_MOST_APART = 8
_HALVINGS = 50
_LOGITS = np.linspace(-34.0, 34.0, 1201)
"""Where quantiles are taken for moments: evenly in the logit, so that both tails are reached to 1e-15."""
_COARSE = 1 / 64
_NO_NORMAL = 1e-3
"""A normal share of so little of the standard deviation moves probabilities by less than 1e-6: it is left out."""
_NORMAL = 1e-4
"""A smaller Laplace share (a kurtosis below 3e-8) is a rounding error of the quantiles."""


def largest_variance(mechanism: Mechanism) -> float:
    """Of the noise that a mechanism adds to each of its numbers, where that does not move with the truth."""
    return float(np.max(np.asarray(mechanism.law(0.0).variance)))


def excess_kurtosis(law: Law) -> float:
    """Fourth cumulant over squared variance of one noise, from the quantiles of its distribution.

    Examples
    --------
    >>> from discreet.mechanisms import Gaussian, Laplace
    >>> round(excess_kurtosis(Laplace(2.0).law(0.0)), 6), abs(round(excess_kurtosis(Gaussian(2.0).law(0.0)), 6))
    (3.0, 0.0)
    """
    chances = 1 / (1 + np.exp(-_LOGITS))  # without scipy, which takes a plan longer to import than all else
    weights = chances * chances[::-1]
    weights /= weights.sum()
    values = np.asarray(law.quantile(chances), dtype=float) - float(np.ravel(law.mean)[0])
    square = float(weights @ values**2)
    # Geometric noise of a large ε is 0 at every quantile that is looked at.
    return float(weights @ values**4) / square**2 - 3 if square > 0 else 0.0


def half_cell(law: Law) -> float:
    """The most that rounding to the distribution's grid can move one draw; 0 where it names no grid."""
    return float(np.max(np.asarray(getattr(law, "grid", 0.0)))) / 2


def moves_with_truth(mechanism: Mechanism) -> bool:
    """True where the truth only shifts the distribution: unbiased, unbounded, and equally wide at all truths."""
    laws = [mechanism.law(truth) for truth in (0.0, 1.0)]
    free = all(np.all(np.isinf(np.asarray(end))) for law in laws for end in law.support)
    first, second = (float(np.ravel(law.variance)[0]) for law in laws)
    # Laws that are known through draws are neither bounded nor exact; a shift has the same quantiles but for it.
    shifted = np.subtract(*(np.asarray(law.quantile([0.1, 0.9])) for law in laws[::-1]))
    return bool(free and np.isclose(first, second) and np.allclose(shifted, 1.0, atol=1e-6))


@dataclass(frozen=True)
class NoiseSum:
    """N(0, variance) + Σ dᵢZᵢ for independent, symmetric Zᵢ of one law, scaled to variance 1; arrays give one law each.

    Parameters
    ----------
    variance
        Variance of the normal part.
    deviations
        Standard deviations dᵢ of the noises along the first axis; may be empty.
    kurtosis
        Excess kurtosis k of one noise. Each noise counts as a normal and a Laplace variable whose variances are the
        shares 1 − √(k/3) and √(k/3) of its own; k is taken into [0, 3].

    Notes
    -----
    With distinct scales the product of Laplace characteristic functions is the signed mixture Σ wᵢ/(1 + bᵢ²t²) with
    wᵢ = Π_{j≠i} bᵢ²/(bᵢ² − bⱼ²), and normal plus one Laplace has a closed distribution function.

    Examples
    --------
    >>> law = NoiseSum(0.0, [2.0**0.5], 3.0)
    >>> round(float(law.quantile(0.975)), 3), round(float(law.standard_deviation), 4)
    (2.996, 1.4142)
    >>> round(float(NoiseSum(1.0, []).quantile(0.975)), 4)
    1.96
    """

    variance: Any
    deviations: Any
    kurtosis: float = 0.0

    @classmethod
    def of(cls, law: Law, weights: ArrayLike, variance: Any = 0.0) -> NoiseSum:
        """The distribution of N(0, variance) + Σ wᵢZᵢ for noises Zᵢ of ``law``, which is that of one coordinate."""
        spread = float(np.sqrt(np.max(np.asarray(law.variance))))
        deviations = spread * np.abs(np.asarray(weights, dtype=float))
        kurtosis = excess_kurtosis(law)
        if len(deviations) > _MOST_APART:
            # Scales of so many noises cannot be told apart in floats: one noise has their variance and kurtosis.
            total = (deviations**2).sum(axis=0)
            kurtosis *= float(np.max((deviations**4).sum(axis=0) / np.maximum(total, 1e-300) ** 2))
            deviations = np.sqrt(total)[None]
        return cls(variance, deviations, kurtosis)

    @property
    def _laplace_share(self) -> float:
        return float(np.sqrt(np.clip(self.kurtosis / 3, 0.0, 1.0)))

    @cached_property
    def _normal_variance(self) -> Array:
        deviations = np.asarray(self.deviations, dtype=float)
        noise = (deviations**2).sum(axis=0) if deviations.size else 0.0
        return np.asarray(np.asarray(self.variance, dtype=float) + (1 - self._laplace_share) * noise)

    @cached_property
    def standard_deviation(self) -> Array:
        """Standard deviation of the sum."""
        deviations = np.asarray(self.deviations, dtype=float)
        noise = (deviations**2).sum(axis=0) if deviations.size else 0.0
        return np.asarray(np.sqrt(np.asarray(self.variance, dtype=float) + noise))

    @cached_property
    def _mixture(self) -> list[tuple[Array, Array]]:
        """Weights and scales of the signed mixture; noises far below the others are left out."""
        scales = np.asarray(self.deviations, dtype=float) * np.sqrt(self._laplace_share / 2)
        if scales.size == 0 or self._laplace_share < _NORMAL:
            return []
        largest = np.maximum(scales.max(axis=0), 1e-300)
        scales = np.sort(np.maximum(scales, 1e-3 * largest), axis=0)
        power = (scales**2).sum(axis=0)
        # The weights grow with the inverse distances of the scales, and lose so many digits: seven are given away.
        apart = min(_APART, 0.5 * 10 ** (-7 / max(len(scales) - 1, 1)))
        for i in range(1, len(scales)):
            scales[i] = np.maximum(scales[i], scales[i - 1] * (1 + apart))
        scales *= np.sqrt(power / (scales**2).sum(axis=0))  # the variance stays what it was
        mixture = []
        for i, scale in enumerate(scales):
            weight = np.ones_like(scale)
            for j, other in enumerate(scales):
                if j != i:
                    weight = weight * scale**2 / (scale**2 - other**2)
            mixture.append((weight, scale))
        return mixture

    def sf(self, x: Any) -> Array:
        """P(sum > x) for x ≥ 0."""
        spread = np.sqrt(np.maximum(self._normal_variance, (1e-9 * self.standard_deviation) ** 2))
        spread = np.maximum(spread, 1e-300)
        point = np.asarray(x, dtype=float)
        mixture = self._mixture
        if not mixture:
            return np.asarray(scipy.special.ndtr(-point / spread))
        if np.all(spread <= _NO_NORMAL * self.standard_deviation):
            return np.clip(sum(weight / 2 * np.exp(-point / scale) for weight, scale in mixture), 0.0, 0.5)
        total = np.zeros(np.broadcast_shapes(point.shape, spread.shape))
        for weight, scale in mixture:
            ratio = spread / scale
            near = np.exp(
                np.minimum(0.5 * ratio**2 - point / scale + scipy.special.log_ndtr(point / spread - ratio), 700)
            )
            far = np.exp(
                np.minimum(0.5 * ratio**2 + point / scale + scipy.special.log_ndtr(-point / spread - ratio), 700)
            )
            total = total + weight * (scipy.special.ndtr(-point / spread) + 0.5 * (near - far))
        return np.clip(total, 0.0, 0.5)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Draws of the sum, for simulations; the law is one, not an array of them."""
        scales = np.ravel(np.asarray(self.deviations, dtype=float)) * np.sqrt(self._laplace_share / 2)
        noise = rng.laplace(size=(size, scales.size)) @ scales
        return np.asarray(np.sqrt(float(self._normal_variance)) * rng.standard_normal(size) + noise)

    def quantile(self, q: Any) -> Array:
        """The value with P(sum ≤ value) = q, for q ≥ ½."""
        tail = 1 - np.asarray(q, dtype=float)
        shape = np.broadcast_shapes(tail.shape, self.standard_deviation.shape)
        low = np.zeros(shape)
        high = self.standard_deviation * (5 + 3 * np.log(0.5 / np.maximum(tail, 1e-300)))
        high = np.broadcast_to(high, shape).copy()
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            above = self.sf(middle) > tail
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return np.asarray(0.5 * (low + high))

    def score(self, x: Any) -> Array:
        """The standard normal quantile that has the same tail as |x|: a normal score."""
        return np.asarray(-scipy.special.ndtri(np.maximum(self.sf(np.abs(x)), 1e-300)))


def solved(
    function: Callable[[float], float], value: float, *, start: float = 1.0, most: float = math.inf, halvings: int = 100
) -> float:
    """Where an increasing function of what is not negative takes a value, up to ``most``: by halving."""
    low, high = 0.0, min(start, most)
    while high < most and function(high) < value:
        low, high = high, min(2 * high, most)
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < value else (low, middle)
    return high


def combined_error(mechanism: Mechanism, weights: ArrayLike, level: float) -> float:
    """|Σ wᵢZᵢ| stays below this with probability ``level``, for independent noises Zᵢ of one mechanism."""
    law = mechanism.law(0.0)
    sizes = np.abs(np.asarray(weights, dtype=float))
    used = sizes[sizes > 0]
    if used.size == 1:
        return float(used[0] * np.max(law.quantile((1 + level) / 2)))
    return float(NoiseSum.of(law, used).quantile((1 + level) / 2))


def coarse(law: Law) -> bool:
    """True where the grid of a distribution is so coarse that steps show: whole-number noise of a moderate scale."""
    return 2 * half_cell(law) > _COARSE * float(np.sqrt(np.max(np.asarray(law.variance))))


def sum_quantile(law: Law, count: int, q: float) -> float:
    """The smallest grid point that the sum of ``count`` independent noises of a coarse law exceeds with at most 1 − q.

    Examples
    --------
    >>> from discreet.mechanisms import Geometric
    >>> law = Geometric(1.0).law(0)
    >>> sum_quantile(law, 1, 0.975), sum_quantile(law, 2, 0.975)
    (3.0, 4.0)
    """
    step = 2 * half_cell(law)
    reach = math.ceil(float(np.max(np.asarray(law.quantile(1 - 1e-12)))) / step)
    points = np.arange(-reach - 0.5, reach + 1) * step
    one = np.diff(np.asarray(law.cdf(points)))
    total = one
    for _ in range(count - 1):
        total = np.convolve(total, one)
    beyond = 1 - np.cumsum(total)  # what lies beyond the reach counts as exceeding
    first = int(np.argmax(beyond <= 1 - q + 1e-11))
    return float(first - count * reach) * step


# ---- Running sums: the square root of adding up, which spreads the noise of a sequence of releases
#
# With f_k = C(2k, k)/4ᵏ the lower triangular matrix F, F_ts = f_{t−s}, is the square root of the matrix A of ones on
# and
# below the diagonal: F·F = A, because the series of f is (1 − x)^{−1/2} and that of A is (1 − x)^{−1}. A sequence that
# releases F·x plus noise gives the running totals F·(F·x + z) = A·x + F·z. Proof: ``docs/proofs/running_totals.md``.


def weights(count: int) -> list[Fraction]:
    """The first weights f_0, f_1, …: exact, and never rising.

    Examples
    --------
    >>> [str(weight) for weight in weights(4)]
    ['1', '1/2', '3/8', '5/16']
    """
    found = [Fraction(1)]
    for k in range(1, count):
        found.append(found[-1] * Fraction(2 * k - 1, 2 * k))
    return found


def column_norm(count: int) -> float:
    """√(Σ f_k²) over so many periods, rounded up: how far one row of the first period moves all releases together.

    Examples
    --------
    >>> round(column_norm(24), 4)
    1.4403
    """
    return root_up(sum((weight**2 for weight in weights(count)), Fraction(0)))


def running_sums(measured: Sequence[float]) -> list[float]:
    """The running totals that measurements of F·x give, in order; each needs no later one.

    Examples
    --------
    >>> running_sums([10.0, 15.0, 18.75])
    [10.0, 20.0, 30.0]
    """
    known = [float(weight) for weight in weights(len(measured))]
    return [math.fsum(known[t - s] * measured[s] for s in range(t + 1)) for t in range(len(measured))]


def even_split(count: int) -> float:
    """The error of the last running total against that of a budget split evenly over all periods, squares adding.

    Examples
    --------
    >>> round(even_split(24), 3)
    0.423
    """
    return column_norm(count) ** 2 / math.sqrt(count)


# ---- What a released sum and count tell about the mean of the data
#
# For the true pair (S, n) and the released one (S + Z₁, n + Z₂), the mean θ = S/n satisfies
# (S + Z₁) − θ(n + Z₂) = Z₁ − θZ₂, whose law is known exactly. The interval holds every θ within the bounds that
# this law does not reject (as Fieller's does for normal noise), so its coverage is exact, for small counts too.


Weights = Callable[[Any], Array]
_STEPS = 401
_FINER = 33
_ROUNDS = 6
"""33 points in each of 6 rounds place an end within 10⁻⁹ of a grid step."""


def ratio_interval(
    totals: tuple[Any, Any],
    mechanism: Mechanism,
    bounds: tuple[float, float],
    centre: float,
    reach: float,
    level: float,
    weights: Weights,
) -> Interval:
    """Interval for centre + reach·S/n from the noisy pair (S, n), or from many pairs at once.

    S − θn has the distribution of Σ wᵢ(θ)Zᵢ, with independent noises Zᵢ that are alike and the ``weights`` wᵢ(θ).
    """
    alpha = 1 - requirements.level(level)
    top, bottom = np.broadcast_arrays(*(np.asarray(total, dtype=float) for total in totals))
    low, high = ((end - centre) / reach for end in bounds)
    # No sum is outside: to say so brings it nearer to what any mean would make it, and accepts more.
    top = np.where(bottom > 0, np.clip(top, low * np.maximum(bottom, 0.0), high * np.maximum(bottom, 0.0)), top)
    tail = _tail(mechanism)

    def accepted(theta: Array) -> NDArray[np.bool_]:
        return np.asarray(tail(np.abs(top - theta * bottom), np.abs(weights(theta))) >= alpha)

    # The estimate itself is one of the points: an interval may be narrower than the grid.
    best = np.clip(np.divide(top, bottom, out=np.full(top.shape, low), where=bottom > 0), low, high)
    steps = np.linspace(low, high, _STEPS).reshape(-1, *[1] * top.ndim)
    grid = np.sort(np.concatenate([np.broadcast_to(steps, (_STEPS, *top.shape)), best[None]]), axis=0)
    held = accepted(grid)
    first = np.argmax(held, axis=0)
    last = len(grid) - 1 - np.argmax(held[::-1], axis=0)
    inner, outer = (
        np.array([np.take_along_axis(grid, np.clip(place, 0, len(grid) - 1)[None], axis=0)[0] for place in pair])
        for pair in ((first, last), (first - 1, last + 1))
    )
    shares = np.linspace(0.0, 1.0, _FINER).reshape(-1, *[1] * inner.ndim)
    for _ in range(_ROUNDS):
        points = inner + shares * (outer - inner)
        # The last point that is still accepted, and the next one, which is not (or is the end of the bounds).
        place = np.maximum(np.argmin(accepted(points), axis=0), 1)
        inner, outer = (np.take_along_axis(points, one[None], axis=0)[0] for one in (place - 1, place))
    # The noise of a tiny count can put every mean out of reach: claim nothing.
    ends = [np.where(held.any(axis=0), centre + reach * outer[k], bounds[k]) for k in (0, 1)]
    return Interval(plain(np.maximum(ends[0], bounds[0])), plain(np.minimum(ends[1], bounds[1])), level)


def _tail(mechanism: Mechanism) -> Callable[[Array, Array], Array]:
    """P(|Σ wᵢZᵢ| > t) as a function of t and the |wᵢ|, with half a grid cell of rounding each allowed for."""
    law = mechanism.law(0.0)
    cell = half_cell(law)
    spread = float(np.sqrt(np.max(law.variance)))
    kurtosis = excess_kurtosis(law)

    def tail(t: Array, weights: Array) -> Array:
        noise = NoiseSum(0.0, spread * weights, kurtosis)
        return 2 * noise.sf(np.maximum(t - cell * weights.sum(axis=0), 0.0))

    return tail


# ---- Null distributions: by simulation through the mechanism, or by asymptotic theory.


@dataclass(frozen=True, kw_only=True)
class MonteCarlo:
    """Simulate the null distribution: draw tables, pass them through the release's own mechanism.

    A p-value is post-processing of a release, so ordinary pseudo-random numbers do.

    Parameters
    ----------
    n_resamples
        Number of simulated releases.
    rng
        Seed or generator; by default fresh.
    as_published
        Report the share of simulated statistics at or above the observed one, as lee2022 does, instead of the valid
        (1 + count)/(1 + n_resamples). It can be 0. Tests of tables then take the paper's statistic too, unless they
        are given another.

    Examples
    --------
    >>> MonteCarlo(n_resamples=4).pvalue(2.5, np.array([1.0, 2.0, 3.0, 4.0]))
    0.6
    """

    n_resamples: int = 4999
    rng: int | np.random.Generator | None = None
    as_published: bool = False

    def __post_init__(self) -> None:
        checked = requirements.positive_integer("n_resamples", self.n_resamples)
        object.__setattr__(self, "n_resamples", checked)
        requirements.instance("as_published", self.as_published, bool, "as_published=True or False")
        if self.rng is not None:
            generator(self.rng)

    def generator(self) -> np.random.Generator:
        """The source of simulated tables."""
        return np.random.default_rng() if self.rng is None else generator(self.rng)

    def pvalue(self, observed: float, null: Array) -> float:
        """The share of the null distribution that is at least as extreme, the observation itself included."""
        above = int(np.count_nonzero(null >= observed))
        if self.as_published:
            return above / null.size
        return (1 + above) / (1 + null.size)

    def to_dict(self) -> dict[str, Any]:
        """The method as JSON-ready data."""
        return {"null": "monte_carlo", "n_resamples": self.n_resamples, "as_published": self.as_published}


@dataclass(frozen=True, kw_only=True)
class Asymptotic:
    """The limiting χ² distribution of the quadratic form; exact for Gaussian noise that dwarfs sampling error."""

    def to_dict(self) -> dict[str, Any]:
        """The method as JSON-ready data."""
        return {"null": "asymptotic"}


# ---- Noisy totals: what moments and fits are read from


@dataclass(frozen=True, kw_only=True)
class NoisyTotals:
    """Totals that add up to the number of rows, each with independent noise; leading axes are repeats of a simulation.

    Parameters
    ----------
    totals
        The noisy totals along the last axis.
    noise
        Variance of the noise on each of them.
    kurtosis
        Excess kurtosis of that noise.
    size
        The public number of rows, or None where it is read from the totals.
    rows_per_unit
        At most so many rows are one unit's. Units are independent; by Cauchy and Schwarz the squared deviation of a
        unit's rows together is at most so many times the sum of theirs. 0 stands for rows that are the whole
        population: intervals then count the noise alone. 1 − p stands for a Poisson sample of a share p of it.
    """

    totals: Any
    noise: Any
    kurtosis: float = 0.0
    size: int | None = None
    rows_per_unit: float = 1

    @cached_property
    def parts(self) -> Array:
        """The totals; where their sum is public, the nearest ones that have it."""
        found = np.asarray(self.totals, dtype=float)
        if self.size is None:
            return found
        shares = self._noise / self._noise.sum()
        return np.asarray(found + (self.size - found.sum(axis=-1))[..., None] * shares)

    @cached_property
    def _noise(self) -> Array:
        return np.broadcast_to(np.asarray(self.noise, dtype=float), np.shape(self.totals)[-1:])

    @cached_property
    def rows(self) -> Array:
        """Number of rows, known or estimated; at least 1."""
        return np.asarray(np.maximum(self.parts.sum(axis=-1), 1.0))

    def total(self, weights: Array) -> Array:
        """Σ wₖPₖ."""
        return np.asarray((self.parts * weights).sum(axis=-1))

    def noise_of(self, weights: Array) -> tuple[Array, Array]:
        """Variance and fourth cumulant of Σ wₖZₖ."""
        variances = self.used(weights) ** 2 * self._noise
        return variances.sum(axis=-1), self.kurtosis * (variances**2).sum(axis=-1)

    def at_least_noise(self, weights: Array) -> Array:
        """A total of what is not negative, at least one deviation of its noise."""
        return np.asarray(np.maximum(self.total(weights), np.sqrt(self.noise_of(weights)[0])))

    def used(self, weights: Array) -> Array:
        """The weights of the noise after a public size takes out its sum, each part its share."""
        if self.size is None:
            return weights
        shares = self._noise / self._noise.sum()
        return np.asarray(weights - (weights * shares).sum(axis=-1, keepdims=True))

    def cautious(self, weights: Array) -> Array:
        """The mean over rows of what the weights add up, at least 0, plus one standard deviation of its noise."""
        found = self.total(weights) / self.rows
        noise = self.noise_of(weights - found[..., None])[0]
        return np.asarray(np.maximum(found, 0.0) + np.sqrt(noise) / self.rows)
