"""Inference under a sampling design: means, shares and totals of a population from noisy sums of weights.

A parameter is accepted where a total that has mean zero under it lies within its quantiles, noise and sampling
together, as for unweighted means. The sampling variance is the linearised one, of units drawn with replacement in every
stratum. Derivation, and what is exact: ``docs/proofs/weights.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.inference.moments import UNSEEN, Booleans, hull, moment_weights, moved_back, within
from discreet.inference.noise import MonteCarlo
from discreet.inference.tables import ChiSquareResult, compared
from discreet.results.display import Interval

Array = NDArray[np.float64]
_CAUTION = 0.5
"""The number of standard deviations of its noise that are added to a measured sum of squares."""


@dataclass(frozen=True, kw_only=True)
class DesignMoments:
    """Noisy parts of weights u and values y, both within [0, 1], of one group and of all groups together.

    Parameters
    ----------
    parts, everybody
        Noisy parts by stratum, of the group and of all groups; the same where there is one group.
    groups
        How many cells of noise ``everybody`` has.
    moments
        What parts are weighted by to give Σu, Σu², Σuy, Σu²y, Σu²y² and the number of units, by the names ``u``,
        ``uu``, ``uy``, ``uuy``, ``uuyy`` and ``n``.
    noise, kurtosis
        Variance of the noise in each part, and the excess kurtosis of one noise.
    total
        Whether Σu·x is estimated, where x = ``ends[0]`` + (``ends[1]`` − ``ends[0]``)·y, instead of a mean of y.
    ends
        The values of x at y = 0 and 1.
    people, top
        Units of the population in each stratum, where that is public, and the weight at u = 1.
    whole
        Whether all sampled units are there: where a filter took some away, how many there were is not known.
    """

    parts: Array
    everybody: Array
    groups: int
    moments: Mapping[str, Array]
    noise: Array
    kurtosis: float
    total: bool = False
    ends: tuple[float, float] = (0.0, 1.0)
    people: Array | None = None
    top: float = 1.0
    whole: bool = True

    def sum(self, name: str, *, all_groups: bool = False) -> Array:
        """A moment by stratum."""
        return np.asarray((self.everybody if all_groups else self.parts) @ self.moments[name])

    def deviation(self, name: str, groups: int = 1) -> float:
        """Standard deviation of the noise in a moment of one stratum."""
        return float(np.sqrt(groups * (self.moments[name] ** 2 @ self.noise)))

    # ---- weights and strata

    @cached_property
    def units(self) -> Array:
        """Sampled units by stratum, at least two."""
        return np.maximum(self.sum("n", all_groups=True), 2.0)

    @cached_property
    def scale(self) -> Array:
        """What a stratum's weights are multiplied by: to add up to its population, where that is public."""
        return np.ones(len(self.parts)) if self.people is None else self.people / self.top / self._weights

    @cached_property
    def _weights(self) -> Array:
        """Everybody's Σu by stratum, at least one deviation of its noise, which must not turn a stratum around."""
        return np.maximum(self.sum("u", all_groups=True), max(self.deviation("u", self.groups), 1e-9))

    @cached_property
    def factor(self) -> Array:
        """What squared weights of a stratum are multiplied by: n/(n − 1), and the share that was not sampled."""
        factor = self.scale**2 * self.units / (self.units - 1)
        if self.people is None:
            return np.asarray(factor)
        fewest = np.maximum(self.sum("n", all_groups=True) - self.deviation("n", self.groups), 0.0)
        return np.asarray(factor * np.clip(1 - fewest / self.people, 0.0, 1.0))

    # ---- estimates

    @cached_property
    def weight(self) -> float:
        """Σu over strata, at least one deviation of its noise."""
        found = float(self.scale @ self.sum("u"))
        return max(found, float(np.linalg.norm(self.scale)) * self.deviation("u"), 1e-300)

    @cached_property
    def estimate(self) -> float:
        """The mean of y, within [0, 1], or the total."""
        top = float(self.scale @ self.sum("uy"))
        if self.total:
            low, high = self.ends
            return low * float(self.scale @ self.sum("u")) + (high - low) * top
        return min(max(top / self.weight, 0.0), 1.0)

    def _residual(self, theta: Array) -> tuple[Array, Array]:
        """The residual a + b·y of a unit at θ, as its two coefficients: y − θ of a mean, x of a total."""
        if self.total:
            low, high = self.ends
            return np.full(np.shape(theta), low), np.full(np.shape(theta), high - low)
        return -np.asarray(theta, dtype=float), np.ones(np.shape(theta))

    def _centred(self, theta: Array) -> tuple[Array, Array, Array]:
        """Coefficients of residuals, and by stratum what is taken from everybody's so that weights fit the population.

        The first axis is that of θ, the second that of strata.
        """
        a, b = (one[..., None] for one in self._residual(theta))
        if self.people is None:
            return a, b, np.zeros_like(a) + np.zeros(len(self.parts))
        shift = (a * self.sum("u") + b * self.sum("uy")) / self._weights
        reach = np.maximum(np.abs(a), np.abs(a + b))
        return a, b, np.clip(shift, -reach, reach)

    def _noise(self, theta: Array) -> tuple[Array, Array]:
        """Variance and fourth cumulant of the noise in the total at θ."""
        a, b, shift = (one[..., None] for one in self._centred(theta))
        own = (a - shift) * self.moments["u"] + b * self.moments["uy"]
        other = shift * self.moments["u"]
        scale = self.scale[:, None]
        variances = [(scale * own) ** 2 * self.noise, (scale * other) ** 2 * self.noise]
        counted = (1.0, self.groups - 1.0)
        total = sum(n * one.sum(axis=(-1, -2)) for n, one in zip(counted, variances, strict=True))
        fourth = sum(n * (one**2).sum(axis=(-1, -2)) for n, one in zip(counted, variances, strict=True))
        return np.asarray(total), self.kurtosis * np.asarray(fourth)

    def _squares(self, theta: Array, *, cautious: bool) -> Array:
        """Σ(u·residual)² over strata with their factors; ``cautious`` adds to it for its noise."""
        a, b, shift = self._centred(theta)
        c = a - shift
        found = c**2 * self.sum("uu") + 2 * c * b * self.sum("uuy") + b**2 * self.sum("uuyy")
        if self.people is not None:
            found = found + shift**2 * (self.sum("uu", all_groups=True) - self.sum("uu"))
        total = np.maximum((self.factor * found).sum(axis=-1), 0.0)
        if not cautious:
            return np.asarray(total)
        c, b = c[..., None], b[..., None]
        weights = c**2 * self.moments["uu"] + 2 * c * b * self.moments["uuy"] + b**2 * self.moments["uuyy"]
        return np.asarray(
            total + _CAUTION * np.sqrt(((self.factor[:, None] * weights) ** 2 * self.noise).sum(axis=(-1, -2)))
        )

    @cached_property
    def _between(self) -> float:
        """What is known of the sum of squares because every stratum was sampled by itself."""
        if not self.whole or self.people is not None:
            return 0.0
        a, b = self._residual(np.asarray(self.estimate))
        weights = a * self.moments["u"] + b * self.moments["uy"]
        sums = (self.parts @ weights) ** 2 - float(weights**2 @ self.noise)
        units = self.units + self.deviation("n", self.groups)
        return float((self.factor * np.maximum(sums, 0.0) / units).sum())

    def _cautious_weight(self) -> float:
        """Σu²/Σu, plus one deviation of its noise: the mean weight of the weights."""
        found = float((self.factor @ self.sum("uu")) / max(float(self.scale @ self.sum("u")), self.weight))
        noise = float(np.linalg.norm(self.factor)) * self.deviation("uu") / self.weight
        return min(max(found, 0.0) + noise, float(np.max(self.factor / np.maximum(self.scale, 1e-300))))

    # ---- acceptance

    @cached_property
    def _unseen(self) -> float:
        """The largest share of the weight at an end of which a sample may have nothing; all where values are the ends.

        Of six units of the mean weight that are expected a sample has one. Of yes and no the variance follows from θ.
        """
        if self.total or np.array_equal(self.moments["uuy"], self.moments["uuyy"]):
            return 1.0
        return min(UNSEEN * self._at_estimate[0] / self.weight, 1.0)

    @cached_property
    def _at_estimate(self) -> tuple[float, float]:
        heavy = self._cautious_weight()
        return heavy, float(self._squares(np.asarray(self.estimate), cautious=True))

    def sampling(self, theta: Array) -> Array:
        """Variance of the total at θ by sampling: units at an end are added until the population has the parameter."""
        heavy, _ = self._at_estimate
        point = np.asarray(theta, dtype=float)
        squares = self._squares(point, cautious=True)
        if self.total:
            reach = max(abs(end) for end in self.ends)
            found = squares + np.abs(point - self.estimate) * heavy * reach
        else:
            far = np.where(point > self.estimate, 1.0, 0.0)
            gap = far - self.estimate
            share = np.clip((point - self.estimate) / np.where(gap == 0, 1.0, gap), 0.0, self._unseen)
            found = (1 - share) * squares + share * heavy * self.weight * (far - point) ** 2
        return np.asarray(np.maximum(found - self._between, 0.0))

    def accepts(self, theta: Array, level: float, *, sampled: bool) -> Booleans:
        """True where the interval covers θ: about the population, or, not ``sampled``, about the data."""
        point = np.asarray(theta, dtype=float)
        a, b = (one[..., None] for one in self._residual(point))
        total = ((a * self.sum("u") + b * self.sum("uy")) * self.scale).sum(axis=-1)
        if self.total:
            total = total - point
        else:
            total = total + moved_back(self.scale @ self.sum("uy"), self.scale @ self.sum("u"))
        variance, fourth = self._noise(point)
        spread = self.sampling(point) if sampled else np.zeros(np.shape(point))
        heavy, _ = self._at_estimate
        skew = spread * heavy * ((1 - 2 * point) if not self.total else sum(self.ends))
        return within((total, total), variance + spread, (skew, skew), fourth, level)

    def interval(self, level: float = 0.95, *, sampled: bool = True) -> Interval:
        """Interval for the mean of y, or for the total."""
        checked = requirements.level(level)
        centre = np.asarray(self.estimate)
        ends = (0.0, 1.0)
        if self.total:
            z = -float(scipy.special.ndtri((1 - checked) / 2))
            spread = np.sqrt(self._noise(centre)[0] + (self.sampling(centre) if sampled else 0.0))
            heavy, _ = self._at_estimate
            reach = 8 * z * (float(spread) + z * heavy * max(abs(end) for end in self.ends))
            ends = (self.estimate - reach, self.estimate + reach)
        found = hull(lambda theta: self.accepts(theta, checked, sampled=sampled), centre, ends, checked)
        return Interval(float(np.asarray(found.low)), float(np.asarray(found.high)), checked)

    # ---- standard error, weights

    @cached_property
    def error(self) -> float:
        """Standard error of the estimate, sampling and noise together."""
        point = np.asarray(self.estimate)
        spread = max(float(self._squares(point, cautious=False)) - self._between, 0.0)
        both = np.sqrt(float(self._noise(point)[0]) + spread)
        return float(both if self.total else both / self.weight)

    @property
    def noise_error(self) -> float:
        """Standard error of the estimate by the noise alone."""
        found = float(np.sqrt(self._noise(np.asarray(self.estimate))[0]))
        return found if self.total else found / self.weight

    @property
    def effective(self) -> float:
        """Kish's effective number of units, (Σu)²/Σu², between 1 and the number of units."""
        number = max(float(self.sum("n").sum()), 1.0)
        squares = max(float(self.sum("uu").sum()), 1e-300)
        return float(np.clip(max(float(self.sum("u").sum()), 0.0) ** 2 / squares, 1.0, number))

    @property
    def design_effect(self) -> float:
        """Kish's design effect: sampled units over effective ones."""
        return max(float(self.sum("n").sum()), 1.0) / self.effective


# ---- Tests of tables: the departure of estimated cells from a hypothesis, by a null with the design's variance


_FEW = 0.25
"""Units of the mean weight that the squares of a cell are mixed with: of rarer ones they say little."""


@dataclass(frozen=True, kw_only=True)
class DesignCells:
    """Noisy weights of the cells of a table, and what is needed to simulate them again.

    Parameters
    ----------
    weights, squares
        Σu and Σu² of each cell, over strata.
    deviations, noise
        Standard deviations of the noise in both, and so many draws of the noise in all weights.
    respondents
        The noisy number of units.
    """

    weights: Array
    squares: Array
    deviations: tuple[float, float]
    noise: Callable[[int, np.random.Generator], Array]
    respondents: float

    @cached_property
    def heavy(self) -> Array:
        """Squares over weights in each cell: of rare ones that of all cells."""
        total = max(float(self.weights.sum()), float(np.sqrt(self.weights.size)) * self.deviations[0], 1e-9)
        mean = (max(float(self.squares.sum()), 0.0) + float(np.sqrt(self.weights.size)) * self.deviations[1]) / total
        mean = min(max(mean, 1e-9), 1.0)
        mixed = _FEW * mean + self.deviations[0]
        found = (np.maximum(self.squares, 0.0) + mixed * mean) / (np.maximum(self.weights, 0.0) + mixed)
        return np.asarray(np.clip(found, 1e-9, 1.0))

    def tested(self, test: str, expected: Callable[[Array], Array], df: int, null: MonteCarlo) -> ChiSquareResult:
        """The test of a hypothesis that says what is expected of tables, of their own margins or sizes."""
        rng, cells = null.generator(), self.weights.size

        def departure(tables: Array) -> Array:
            wanted = expected(tables)
            variance = self.heavy * np.maximum(wanted, 0.0) + self.deviations[0] ** 2 + 1e-12
            return np.asarray(((tables - wanted) ** 2 / variance).sum(axis=-1))

        under = np.maximum(expected(np.maximum(self.weights, 0.0)), 0.0) / self.heavy

        def draw(size: int) -> Array:
            return departure(self.heavy * rng.poisson(under, (size, cells)) + self.noise(size, rng))

        statistic = float(departure(self.weights))
        return compared(test, "design-based", statistic, draw, null, df, cells, [self.respondents])


def product_of_margins(shape: tuple[int, int]) -> Callable[[Array], Array]:
    """What independence expects of flattened tables of that shape."""

    def expected(tables: Array) -> Array:
        square = tables.reshape(*tables.shape[:-1], *shape)
        total = square.sum(axis=(-2, -1), keepdims=True)
        both = square.sum(axis=-1, keepdims=True) * square.sum(axis=-2, keepdims=True)
        return np.asarray((both / np.where(total > 0, total, np.inf)).reshape(tables.shape))

    return expected


def measured_moments(degree: int, inner: float = 1.0) -> dict[str, Array]:
    """The weights of parts that give each moment, for values in parts of the degree: see `DesignMoments`.

    Parts: u²·bⱼ(y) of that degree, u(1 − u)·bⱼ(y) of half of it, which counts ``inner`` times, then what is left of
    units within the trim, and of trimmed ones. Up to the first two powers of y with u, and four with u², as far as they
    are measured; of yes and no all powers are the first.

    Examples
    --------
    >>> measured_moments(1)["uy"].tolist()
    [0.0, 1.0, 0.0, 1.0, 0.0, 0.0]
    """
    first = inner_degree(degree)
    rest = np.zeros(2)

    def parts(of: int, power: int) -> Array:
        if of == 0:
            return np.full(1, float(power == 0))
        return moment_weights(of, 1 if of == 1 and power > 1 else power)

    found = {"n": np.ones(degree + first + 4)}
    for power in range(max(first, 1) + 1):
        found["u" + "y" * power] = np.concatenate([parts(degree, power), parts(first, power) / inner, rest])
    for power in range(max(degree, 2) + 1):
        found["uu" + "y" * power] = np.concatenate([parts(degree, power), np.zeros(first + 1), rest])
    return found


def inner_degree(degree: int) -> int:
    """The degree of the parts u(1 − u)·bⱼ(y) beside u²·bⱼ(y) of the degree: half of it, rounded up."""
    return (degree + 1) // 2


def squared_moments(moments: Mapping[str, Array], mean: float) -> tuple[dict[str, Array], float]:
    """The moments of v = (y − mean)²/D in the place of y, and D, the largest square."""
    largest = max(mean, 1 - mean) ** 2
    square, fourth = ([math.comb(k, i) * (-mean) ** (k - i) / largest ** (k / 2) for i in range(k + 1)] for k in (2, 4))
    found = {name: moments[name] for name in ("n", "u", "uu")}
    for name, of, coefficients in (("uy", "u", square), ("uuy", "uu", square), ("uuyy", "uu", fourth)):
        found[name] = np.asarray(coefficients) @ np.array([moments[of + "y" * i] for i in range(len(coefficients))])
    return found, largest
