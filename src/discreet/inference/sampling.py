"""Sampling models: how a statistic of n rows varies around the population's parameter.

Each model gives, for a parameter, the distribution of the data's statistic as weighted points. Mixing a
mechanism's law over these points gives the distribution of the *release*, sampling and noise together.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from discreet.contract.mechanism import Mechanism
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.noise.truth import Floats, plain
from discreet.interval import Interval

if TYPE_CHECKING:
    from discreet.contract.mechanism import Law

__all__ = [
    "BetaMean", "Binomial", "GammaVariance", "NoiseAware", "NormalCovariance", "ReleaseLaw", "SamplingModel",
    "as_matrix", "debiased", "largest_fourth", "last_that_holds", "measured_coordinate", "pairs", "settled_shares",
    "share_below", "whole_count", "whole_interval",
]  # fmt: skip


Array = NDArray[np.float64]

_REACH, _NODES, _CELLS = 6.0, 384, 480
_FEW = 5.0
_EXACT_BINOMIAL = 20_000


@cache
def _normal_nodes(count: int = _NODES) -> tuple[Array, Array]:
    """Points of a standard normal and their probabilities.

    The trapezium rule: its error is below 1e-3 even for a step function far in a tail, and
    negligible for a smooth one.
    """
    points = np.linspace(-_REACH, _REACH, count)
    weights = np.exp(-points * points / 2)
    return points, weights / weights.sum()


def _edges(centre: float, spread: float, cells: int, low: float, high: float) -> Array:
    """Ends of cells around a centre, inside [low, high]: 12 deviations on each side, and the rest in one cell."""
    inner = np.linspace(max(low, centre - 12 * spread), min(high, centre + 12 * spread), cells + 1)
    return np.unique(np.concatenate([[low], inner, [high]]))


def _middles(edges: Array, cumulative: Array) -> tuple[Array, Array]:
    """Middles of cells and their probabilities."""
    weights = np.diff(cumulative)
    kept = weights > 0
    return ((edges[1:] + edges[:-1]) / 2)[kept], weights[kept] / weights[kept].sum()


class SamplingModel(ABC):
    """The distribution of a statistic of n rows, given the population's parameter."""

    @property
    @abstractmethod
    def range(self) -> tuple[float, float]:
        """Smallest and largest value of the parameter."""

    @abstractmethod
    def nodes(self, parameter: float) -> tuple[Array, Array]:
        """Values of the statistic and their probabilities."""

    @abstractmethod
    def variance(self, parameter: float) -> float:
        """Sampling variance of the statistic."""


def _rows(n: int, at_least: int) -> int:
    return requirements.positive_integer("n", n, at_least=at_least)


@dataclass(frozen=True, kw_only=True)
class Binomial(SamplingModel):
    """A proportion of n independent rows: exactly binomial."""

    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", _rows(self.n, 1))

    @property
    def range(self) -> tuple[float, float]:
        """[0, 1]."""
        return 0.0, 1.0

    def variance(self, parameter: float) -> float:
        """p(1 − p)/n."""
        return parameter * (1 - parameter) / self.n

    def nodes(self, parameter: float) -> tuple[Array, Array]:
        """k/n with binomial probabilities; above 20,000 rows, quantiles of the beta law that matches it."""
        if parameter in (0.0, 1.0):
            return np.array([parameter]), np.array([1.0])
        if self.n > _EXACT_BINOMIAL:
            return BetaMean(n=self.n).nodes(parameter)
        reach = 9 * math.sqrt(self.n * parameter * (1 - parameter)) + 30
        first = max(0, math.floor(self.n * parameter - reach))
        k = np.arange(first, min(self.n, math.ceil(self.n * parameter + reach)) + 1)
        log_pmf = (
            scipy.special.gammaln(self.n + 1)
            - scipy.special.gammaln(k + 1)
            - scipy.special.gammaln(self.n - k + 1)
            + scipy.special.xlogy(k, parameter)
            + scipy.special.xlog1py(self.n - k, -parameter)
        )
        weights = np.exp(log_pmf)
        return k / self.n, weights / weights.sum()


@dataclass(frozen=True, kw_only=True)
class BetaMean(SamplingModel):
    """A mean of n independent rows in public bounds: a beta law with the right mean, variance and support.

    Parameters
    ----------
    n
        Number of rows.
    bounds
        Public bounds of a row.
    dispersion
        Population variance as a share of its largest possible value (μ − c₀)(c₁ − μ), in (0, 1]. 1 is the worst
        case (all rows at the two bounds) and needs no knowledge of the population. Given as a *share*, the
        variance shrinks as μ nears a bound, so that intervals behave there as Wilson's does for a proportion.
    """

    n: int
    bounds: tuple[float, float] = (0.0, 1.0)
    dispersion: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", _rows(self.n, 1))
        if requirements.probability("dispersion", self.dispersion, below_one=False) == 0:
            raise InvalidParameter("dispersion", self.dispersion, "must be positive", "Use 1 where nothing is known.")

    @property
    def range(self) -> tuple[float, float]:
        """The bounds of a row."""
        return self.bounds

    def variance(self, parameter: float) -> float:
        """Share × (μ − c₀)(c₁ − μ)/n."""
        low, high = self.bounds
        return self.dispersion * (parameter - low) * (high - parameter) / self.n

    def nodes(self, parameter: float) -> tuple[Array, Array]:
        """Cells of the beta law, or of several of them."""
        low, high = self.bounds
        position = (parameter - low) / (high - low)
        if not 0 < position < 1:
            return np.array([parameter]), np.array([1.0])
        values, weights = self._cells(position, self.n / self.dispersion - 1)
        return np.asarray(low + (high - low) * values), weights

    @staticmethod
    def _cells(position: float, concentration: float) -> tuple[Array, Array]:
        if concentration <= 0:  # one row, at the bounds: nothing is known but its mean
            return np.array([0.0, 1.0]), np.array([1 - position, position])
        spread = math.sqrt(position * (1 - position) / (concentration + 1))
        edges = _edges(position, spread, _CELLS, 0.0, 1.0)
        return _middles(edges, scipy.special.betainc(position * concentration, (1 - position) * concentration, edges))


def largest_fourth(variance: float, width: float) -> float:
    """Largest fourth central moment of a population on an interval, given its variance: at most width⁴/12.

    Deviations reach at most D, where the mean lies as near an end as the variance V allows, so μ₄ ≤ V·D².

    Examples
    --------
    >>> largest_fourth(0.25, 1.0), round(largest_fourth(1e-9, 1.0) / 1e-9, 6)
    (0.0625, 1.0)
    """
    room = max(width**2 - 4 * variance, 0.0)
    reach = (width + math.sqrt(room)) / 2
    return min(variance * reach**2, width**4 / 12)


@dataclass(frozen=True, kw_only=True)
class GammaVariance(SamplingModel):
    """A sample variance of n independent rows: a gamma law with the mean and the variance of a sample variance.

    Parameters
    ----------
    n
        Number of rows.
    largest
        Upper end of the statistic's domain.
    width
        Width of the bounds of a row.
    kurtosis
        μ₄/σ⁴ of the population, where it is known: 3 for normal data. By default the worst that the bounds allow for
        the variance, so that the interval holds for any population; release a variance in parts
        (`Session.variance`) for one that measures it.
    """

    n: int
    width: float
    largest: float
    kurtosis: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", _rows(self.n, 2))
        if self.kurtosis is not None and requirements.positive("kurtosis", self.kurtosis) < 1:
            raise InvalidParameter("kurtosis", self.kurtosis, "cannot be below 1", "Pass μ₄/σ⁴, 3 for normal data.")

    @property
    def range(self) -> tuple[float, float]:
        """Zero to a quarter of the squared width, the largest population variance."""
        return 0.0, self.width**2 / 4

    def variance(self, parameter: float) -> float:
        """(μ₄ − σ⁴(n − 3)/(n − 1))/n; where μ₄ is assumed, its last term, 2σ⁴/n², counts twice.

        Near the largest variance only that term is left, and the law is that of a square, whose tail is longer.
        """
        known = None if self.kurtosis is None else self.kurtosis * parameter**2
        fourth = largest_fourth(parameter, self.width) if known is None else known
        # Noise may ask for variances whose worst case no gamma law reaches; a little is always left.
        left = parameter**2 * (1e-12 if known is not None else 2 / (self.n * (self.n - 1)))
        return left + max((fourth - parameter**2 * (self.n - 3) / (self.n - 1)) / self.n, 0.0)

    def nodes(self, parameter: float) -> tuple[Array, Array]:
        """Cells of the gamma law, inside the domain; of few yeses among noes, half of it is a scaled Poisson law."""
        if parameter <= 0:
            return np.array([0.0]), np.array([1.0])
        spread = math.sqrt(self.variance(parameter))
        shape = (parameter / spread) ** 2
        edges = _edges(parameter, spread, _CELLS, 0.0, parameter + 40 * spread)
        below = np.asarray(scipy.special.gammainc(shape, edges * (shape / parameter)), dtype=float)
        values, weights = _middles(edges, below)
        if self.kurtosis is None and shape < _FEW:  # rows at a distance that occur `shape` times on average
            counts = np.arange(60)
            poisson = np.exp(scipy.special.xlogy(counts, shape) - shape - scipy.special.gammaln(counts + 1))
            values = np.append(values, counts * spread**2 / parameter)
            weights = np.append(weights, poisson / poisson.sum()) / 2
        return np.minimum(values, self.largest), weights


@dataclass(frozen=True, kw_only=True)
class NormalCovariance(SamplingModel):
    """A sample covariance of n independent rows: normal, with the largest variance that is possible.

    Parameters
    ----------
    n
        Number of rows.
    mixed
        Upper bound of E[(x − μ)²(y − ν)²]; by Cauchy and Schwarz the root of the product of two `largest_fourth`.
    largest
        Upper end of the statistic's domain.
    reach
        Largest absolute covariance of the population.
    """

    n: int
    mixed: float
    largest: float
    reach: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", _rows(self.n, 2))

    @property
    def range(self) -> tuple[float, float]:
        """± the largest absolute covariance."""
        return -self.reach, self.reach

    def variance(self, parameter: float) -> float:
        """(E[(x − μ)²(y − ν)²] − σ₁₂²)/(n − 1), which exceeds what a sample covariance has."""
        return max(self.mixed - parameter**2, 1e-12 * self.mixed) / (self.n - 1)

    def nodes(self, parameter: float) -> tuple[Array, Array]:
        """Normal points, inside the domain."""
        points, weights = _normal_nodes()
        values = parameter + math.sqrt(self.variance(parameter)) * points
        return np.clip(values, -self.largest, self.largest), weights


# ---- Population: intervals for the population's parameter, from sampling error and noise together
#
# The release R of a statistic s of n rows has the distribution of the mechanism's law at s, mixed over the sampling
# distribution of s. For every parameter θ this gives an acceptance region for R of probability exactly ``level``;
# the interval holds the parameters that accept the value that was released. Nothing is approximated in the noise,
# so coverage is that of the sampling model, near the bounds of a domain as well as inside it.


_STEPS = 40


@dataclass(frozen=True, kw_only=True)
class ReleaseLaw:
    """Distribution of a release over samples and noise, for every value of the parameter."""

    model: SamplingModel
    mechanism: Mechanism

    def at(self, parameter: float) -> Mixture:
        """The distribution for one parameter."""
        points, weights = self.model.nodes(parameter)
        return Mixture(law=self.mechanism.law(points[:, None]), weights=weights)

    def spread(self, parameter: float) -> float:
        """Standard deviation of sampling and noise together, as if there were no bounds."""
        return math.sqrt(self.model.variance(parameter) + self._noise_variance)

    @cached_property
    def _noise_variance(self) -> float:
        low, high = self.model.range
        return float(np.max(np.asarray(self.mechanism.law((low + high) / 2).variance)))


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """A mechanism's law mixed over the values that a statistic takes in samples."""

    law: Law
    weights: Array

    def _below(self, values: Array) -> Array:
        cdf = np.broadcast_to(self.law.cdf(values), (self.weights.size, values.size))
        return np.asarray(self.weights @ cdf)

    def tails(self, value: ArrayLike) -> tuple[Array, Array]:
        """P(R ≤ value) and P(R ≥ value), for one value or many."""
        values = np.atleast_1d(np.asarray(value, dtype=float))
        return self._below(values), 1 - self._below(np.nextafter(values, -math.inf))

    def atoms(self) -> tuple[float, float]:
        """P(R = lower end) and P(R = upper end) of the noise's support; zero for a continuous law."""
        low, high = float(np.min(self.law.support[0])), float(np.max(self.law.support[1]))
        lower = float(self.tails(low)[0][0]) if math.isfinite(low) else 0.0
        upper = float(self.tails(high)[1][0]) if math.isfinite(high) else 0.0
        return lower, max(upper, 0.0)


@dataclass(frozen=True, kw_only=True)
class NoiseAware:
    """The default method: invert the exact distribution of the release.

    The acceptance region of a parameter leaves α = 1 − level outside, α/2 on each side where there is room. Near
    an end of the parameter's range all of α goes to the other side, because a release on that side of the range
    is no evidence against the end; the same where the noise law has an atom there that is larger than its share.
    The split changes monotonically, so the accepted parameters form an interval, which is never empty.
    """

    def accepts(self, law: ReleaseLaw, value: ArrayLike, parameter: float, level: float = 0.95) -> Any:
        """Whether the interval for ``value`` holds ``parameter``; for many values at once, an array."""
        below, above = self._outcome(law, value, parameter, 1 - level)
        accepted = below & above
        return bool(accepted[0]) if np.ndim(value) == 0 else accepted

    def interval(self, law: ReleaseLaw, value: float, level: float = 0.95) -> Interval:
        """The parameters that accept ``value``."""
        checked = requirements.level(level)
        number = requirements.finite("value", value)
        low, high = law.model.range

        def outcome(parameter: float) -> tuple[bool, bool]:
            below, above = self._outcome(law, number, parameter, 1 - checked)
            return bool(below[0]), bool(above[0])

        upper = last_that_holds(lambda theta: outcome(theta)[0], low, high)
        lower = -last_that_holds(lambda theta: outcome(-theta)[1], -high, -low)
        return Interval(min(lower, upper), max(lower, upper), checked)

    def _outcome(self, law: ReleaseLaw, value: ArrayLike, parameter: float, alpha: float) -> tuple[Any, Any]:
        """Whether each value is not too low, and not too high, for the parameter."""
        mixture = law.at(parameter)
        below, above = self._shares(law, mixture, parameter, alpha)
        reached, exceeded = mixture.tails(value)
        return reached >= below, exceeded >= above

    def _shares(self, law: ReleaseLaw, mixture: Mixture, parameter: float, alpha: float) -> tuple[float, float]:
        """Probability left outside below and above."""
        below = alpha * share_below(parameter, law.model.range, law.spread(parameter))
        return settled_shares(below, mixture.atoms(), alpha)


def settled_shares(below: float, atoms: tuple[float, float], alpha: float) -> tuple[float, float]:
    """The shares left outside below and above, once an atom that is larger than its share has been let in."""
    lower_atom, upper_atom = atoms
    blocked_below, blocked_above = below < lower_atom, alpha - below < upper_atom
    if not blocked_below and not blocked_above:
        return below, alpha - below
    if blocked_below and blocked_above:
        blocked_below = lower_atom >= upper_atom
    if blocked_below:
        return (0.0, alpha) if upper_atom <= alpha else (0.0, 0.0)
    return (alpha, 0.0) if lower_atom <= alpha else (0.0, 0.0)


def share_below(parameter: float, ends: tuple[float, float], spread: float) -> float:
    """Which share of α is left outside below: 0 near the lower end, 1 near the upper one, 1/2 far from both.

    It is 0 for a distance of 1.5 deviations (or a quarter of the range), so that no release, however low, leaves an
    interval shorter than that.
    """
    low, high = ends
    margin = min(1.5, (high - low) / spread / 4)
    above_low, below_high = (parameter - low) / spread - margin, (high - parameter) / spread - margin
    room_below = -math.expm1(-(max(above_low, 0.0) ** 2))
    room_above = -math.expm1(-(max(below_high, 0.0) ** 2))
    return room_below / (room_below + room_above)


def last_that_holds(holds: Callable[[float], bool], low: float, high: float, *, steps: int = _STEPS) -> float:
    """The last point of [low, high] at which a predicate holds that is true first and false later."""
    if holds(high):
        return high
    if not holds(low):
        return low
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def debiased(mechanism: Mechanism, value: float, bounds: tuple[float, float]) -> float:
    """The truth for which ``value`` is the expected output; the nearest end of ``bounds`` where there is none.

    A law on a bounded domain is biased towards its middle (liu2019 Proposition 1), more so near its ends; this
    undoes the bias as far as the domain allows. For unbiased noise it only clamps.
    """
    low, high = bounds
    number = requirements.finite("value", value)

    def mean(truth: float) -> float:
        return float(np.asarray(mechanism.law(truth).mean))

    clamped = min(max(number, low), high)
    # With one end only, the bias points away from it, so the truth lies between it and the value.
    first = low if math.isfinite(low) else clamped
    last = high if math.isfinite(high) else clamped
    return last_that_holds(lambda truth: mean(truth) <= number, first, last)


# ---- Coordinates: one measured number of a vector release, and the one-dimensional mechanism that protected it


def pairs(dimension: int) -> list[tuple[int, int]]:
    """Coordinates of a covariance vector: the variances, then the covariances above the diagonal, row by row."""
    above = [(j, k) for j in range(dimension) for k in range(j + 1, dimension)]
    return [(j, j) for j in range(dimension)] + above


def as_matrix(vector: Any, dimension: int) -> NDArray[np.float64]:
    """The symmetric matrix of a covariance vector."""
    matrix = np.zeros((dimension, dimension))
    for (j, k), value in zip(pairs(dimension), np.asarray(vector, dtype=float), strict=True):
        matrix[j, k] = matrix[k, j] = value
    return matrix


def measured_coordinate(mechanism: Mechanism, measured: Any, index: int) -> tuple[float, Mechanism]:
    """The measurement of coordinate ``index`` and the mechanism that acted on it.

    Conclusions are drawn from measurements, not from what post-processing (rescaling, repair) made of them, because
    measurements have a known law. A mechanism that draws coordinates one after another says which one acted through
    its own ``coordinate``; others have parameters per coordinate, or the same for all.
    """
    values = np.asarray(measured, dtype=float)
    own = getattr(mechanism, "coordinate", None)
    if own is not None:
        value, inner = own(values, index)
        return float(value), inner
    parameters = mechanism.parameters()
    if "scale" not in parameters:
        raise InvalidParameter(
            "mechanism",
            mechanism.name,
            "does not protect each coordinate by itself, so none has a law of its own",
            "Release the vector with independent noise on every coordinate.",
        )
    fields = parameters | {"scale": _pick(parameters["scale"], index)}
    if "bounds" in parameters:
        bounds = parameters["bounds"]
        fields["bounds"] = bounds[index] if np.ndim(bounds[0]) == 1 else bounds
    return float(values[index]), type(mechanism)(**fields)


def _pick(scale: Any, index: int) -> float:
    return float(scale if np.ndim(scale) == 0 else np.asarray(scale)[index])


# ---- Whole counts: what is shown of a noisy count, and of its interval


def whole_count(measured: Floats) -> Floats:
    """The count nearest to a noisy one: whole, and not below 0."""
    return plain(np.maximum(np.floor(np.asarray(measured, dtype=float) + 0.5), 0.0))


def whole_interval(low: Floats, high: Floats, shown: Floats) -> tuple[Floats, Floats]:
    """The counts within an interval, together with the one that is shown.

    Nothing is lost: the truth is a count, so it lies in an interval if and only if it is one of the counts in it.
    """
    # Ends that are whole but for rounding errors are whole.
    first, last = np.ceil(np.asarray(low) - 1e-9), np.floor(np.asarray(high) + 1e-9)
    return plain(np.minimum(np.maximum(first, 0.0), shown)), plain(np.maximum(last, shown))
