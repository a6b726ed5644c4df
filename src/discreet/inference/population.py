"""Population: intervals for the population's parameter, from sampling error and noise together.

The release R of a statistic s of n rows has the distribution of the mechanism's law at s, mixed over the sampling
distribution of s. For every parameter θ this gives an acceptance region for R of probability exactly ``level``;
the interval holds the parameters that accept the value that was released. Nothing is approximated in the noise,
so coverage is that of the sampling model, near the bounds of a domain as well as inside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.interval import Interval

if TYPE_CHECKING:
    from discreet.contract.law import Law
    from discreet.contract.mechanism import Mechanism
    from discreet.inference.sampling import SamplingModel

__all__ = [
    "NoiseAware",
    "ReleaseLaw",
    "debiased",
    "last_that_holds",
    "settled_shares",
    "share_below",
]

Array = NDArray[np.float64]

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
