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
from numpy.typing import NDArray
from scipy import special

from discreet.core import requirements
from discreet.core.errors import InvalidParameter

__all__ = ["BetaMean", "Binomial", "GammaVariance", "NormalCovariance", "SamplingModel"]

Array = NDArray[np.float64]

_REACH, _NODES, _CELLS = 6.0, 384, 480
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
            special.gammaln(self.n + 1)
            - special.gammaln(k + 1)
            - special.gammaln(self.n - k + 1)
            + special.xlogy(k, parameter)
            + special.xlog1py(self.n - k, -parameter)
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
        Several values are equally likely ones, where the variance is itself only known with an error.
    """

    n: int
    bounds: tuple[float, float] = (0.0, 1.0)
    dispersion: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", _rows(self.n, 1))
        shares = tuple(requirements.probability("dispersion", x, below_one=False) for x in self.dispersion)
        if len(shares) == 0 or min(shares) == 0:
            raise InvalidParameter("dispersion", shares, "must be positive", "Use (1.0,) where nothing is known.")
        object.__setattr__(self, "dispersion", shares)

    @property
    def range(self) -> tuple[float, float]:
        """The bounds of a row."""
        return self.bounds

    def variance(self, parameter: float) -> float:
        """Share × (μ − c₀)(c₁ − μ)/n."""
        low, high = self.bounds
        return sum(self.dispersion) / len(self.dispersion) * (parameter - low) * (high - parameter) / self.n

    def nodes(self, parameter: float) -> tuple[Array, Array]:
        """Cells of the beta law, or of several of them."""
        low, high = self.bounds
        position = (parameter - low) / (high - low)
        if not 0 < position < 1:
            return np.array([parameter]), np.array([1.0])
        cells = _CELLS if len(self.dispersion) == 1 else _CELLS // 3
        parts = [self._cells(position, self.n / share - 1, cells) for share in self.dispersion]
        values = np.concatenate([middle for middle, _ in parts])
        weights = np.concatenate([weight for _, weight in parts]) / len(parts)
        return np.asarray(low + (high - low) * values), weights

    @staticmethod
    def _cells(position: float, concentration: float, cells: int) -> tuple[Array, Array]:
        if concentration <= 0:  # one row, at the bounds: nothing is known but its mean
            return np.array([0.0, 1.0]), np.array([1 - position, position])
        spread = math.sqrt(position * (1 - position) / (concentration + 1))
        edges = _edges(position, spread, cells, 0.0, 1.0)
        return _middles(edges, special.betainc(position * concentration, (1 - position) * concentration, edges))


@dataclass(frozen=True, kw_only=True)
class GammaVariance(SamplingModel):
    """A sample variance of n independent rows: a gamma law, exact (χ²) for normal data.

    Parameters
    ----------
    n
        Number of rows.
    largest
        Upper end of the statistic's domain.
    width
        Width of the bounds of a row.
    kurtosis
        μ₄/σ⁴ of the population, where it is known. By default that of the beta law on the bounds with the same
        variance: in the middle 3 where the variance is small against the bounds (normal data), 1.8 for uniform
        data, 1 where all rows are at the bounds; more where the mean is near a bound.
    position
        Where the population's mean lies between the bounds, in (0, 1), if something is known about it.
    """

    n: int
    width: float
    largest: float
    kurtosis: float | None = None
    position: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", _rows(self.n, 2))
        requirements.probability("position", self.position)
        requirements.positive("position", self.position)
        if self.kurtosis is not None and requirements.positive("kurtosis", self.kurtosis) < 1:
            raise InvalidParameter("kurtosis", self.kurtosis, "cannot be below 1", "Pass μ₄/σ⁴, 3 for normal data.")

    @property
    def range(self) -> tuple[float, float]:
        """Zero to a quarter of the squared width, the largest population variance."""
        return 0.0, self.width**2 / 4

    def _kurtosis(self, parameter: float) -> float:
        if self.kurtosis is not None:
            return self.kurtosis
        room = self.position * (1 - self.position)
        share = min(1.0, parameter / (room * self.width**2))
        lean = (1 - 2 * self.position) ** 2 / room
        return 3 + 6 * share * (lean - 1 - share) / ((1 + share) * (1 + 2 * share))

    def variance(self, parameter: float) -> float:
        """σ⁴(2/(n − 1) + (κ − 3)/n)."""
        return parameter**2 * max(2 / (self.n - 1) + (self._kurtosis(parameter) - 3) / self.n, 1e-12)

    def nodes(self, parameter: float) -> tuple[Array, Array]:
        """Cells of the gamma law, inside the domain."""
        if parameter <= 0:
            return np.array([0.0]), np.array([1.0])
        spread = math.sqrt(self.variance(parameter))
        shape = (parameter / spread) ** 2
        edges = _edges(parameter, spread, _CELLS, 0.0, parameter + 40 * spread)
        below = np.asarray(special.gammainc(shape, edges * (shape / parameter)), dtype=float)
        values, weights = _middles(edges, below)
        return np.minimum(values, self.largest), weights


@dataclass(frozen=True, kw_only=True)
class NormalCovariance(SamplingModel):
    """A sample covariance of n independent rows: normal, with the variance it has for normal data.

    Parameters
    ----------
    n
        Number of rows.
    variances
        Product of the two population variances, or an upper bound of it.
    largest
        Upper end of the statistic's domain.
    reach
        Largest absolute covariance; by default the root of ``variances``. Where those are only estimates, say so by
        giving ``largest``.
    """

    n: int
    variances: float
    largest: float
    reach: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", _rows(self.n, 2))

    @property
    def range(self) -> tuple[float, float]:
        """± the largest absolute covariance."""
        end = min(math.sqrt(self.variances), self.largest) if self.reach is None else self.reach
        return -end, end

    def variance(self, parameter: float) -> float:
        """(σ₁²σ₂² + σ₁₂²)/(n − 1)."""
        return (self.variances + parameter**2) / (self.n - 1)

    def nodes(self, parameter: float) -> tuple[Array, Array]:
        """Normal points, inside the domain."""
        points, weights = _normal_nodes()
        values = parameter + math.sqrt(self.variance(parameter)) * points
        return np.clip(values, -self.largest, self.largest), weights
