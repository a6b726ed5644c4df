"""Sampling models: how a statistic of n rows varies around the population's parameter.

Each model gives, for a parameter, the distribution of the data's statistic as weighted points. Mixing a
mechanism's law over these points gives the distribution of the *release*, sampling and noise together.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy  # whose submodules load when first used
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter

__all__ = ["BetaMean", "Binomial", "GammaVariance", "NormalCovariance", "SamplingModel", "largest_fourth"]

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
