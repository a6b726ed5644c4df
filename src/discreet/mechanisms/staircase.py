"""The staircase mechanism: of all noise on one number under ε-DP, that of least variance.

A density that falls in steps of a factor e^{−ε}, each as wide as a unit can move the number (geng2016). Proofs:
``docs/proofs/staircase.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee, PureDP
from discreet.core.noise.sampler import (
    LOG_BUDGET,
    Family,
    Floats,
    Location,
    Truth,
    Words,
    exponential_ball,
    exponential_noise,
    plain,
    with_sign,
)
from discreet.core.numbers import ball, decimal, not_below
from discreet.core.sensitivity import Exact, Sensitivity, exact_moves
from discreet.mechanisms.geometric import Geometric, GeometricProfile
from discreet.mechanisms.mechanism import AdditiveNoise, LocationLaw, probabilities

Array = NDArray[np.float64]

_LARGEST_EPSILON = 64.0
"""The noise of a larger ε stays that of this one, whose plateau is a billionth of a step."""
_FLAT = 0.01
"""Below this ε the best plateau is ½ to three digits, and its formula cancels."""


@dataclass(frozen=True)
class Steps:
    """The shape of staircase noise: P(|X| > x) = c·b^k·(1 − s(1 − b)) at x/period + 1 − plateau = k + s.

    So with w = (ln c − ln P)/ε, k and f its whole part and its rest, the magnitude at a tail of P is
    (k + plateau − 1 + (1 − b^f)/(1 − b))·period: continuous and increasing in w (section 1).
    """

    epsilon: float
    period: float
    plateau: float

    @cached_property
    def fall(self) -> float:
        """1 − b."""
        return -math.expm1(-self.epsilon)

    @cached_property
    def log_start(self) -> float:
        """ln c, with 1/c = plateau·(1 − b) + b."""
        return -math.log(self.plateau * self.fall + math.exp(-self.epsilon))

    def magnitude(self, exponential: Array) -> Array:
        """The magnitude at a tail of e^{−exponential}, in periods."""
        steps = (exponential + self.log_start) / self.epsilon
        whole = np.floor(steps)
        rest = -np.expm1(-self.epsilon * (steps - whole)) / self.fall
        return np.asarray(whole + (self.plateau - 1) + rest)

    def place(self, distance: Array) -> tuple[Array, Array]:
        """Which step a distance lies on, and how far along it."""
        place = np.abs(distance) / self.period + (1 - self.plateau)
        whole = np.floor(place)
        return whole, place - whole

    def tail(self, distance: Array) -> Array:
        """P(|X| > distance)."""
        whole, rest = self.place(distance)
        return np.asarray(np.exp(self.log_start - whole * self.epsilon) * (1 - rest * self.fall))

    def density(self, distance: Array) -> Array:
        """Of X, at this distance from the truth."""
        whole, _ = self.place(distance)
        return np.asarray(np.exp(self.log_start - whole * self.epsilon) * self.fall / (2 * self.period))

    @cached_property
    def variance(self) -> float:
        """c(1 − b)²/3·Σ b^k (k + plateau)³, in units of the squared period."""
        fall, b, at = self.fall, math.exp(-self.epsilon), self.plateau
        powers = (
            at**3 / fall + 3 * at**2 * b / fall**2 + 3 * at * b * (1 + b) / fall**3 + b * (1 + 4 * b + b * b) / fall**4
        )
        return math.exp(self.log_start) * fall**2 / 3 * powers * self.period**2


def best_plateau(epsilon: float) -> float:
    """The plateau of least variance (geng2016, Theorem 5).

    Examples
    --------
    >>> round(best_plateau(1.0), 4), round(best_plateau(5.0), 4)
    (0.4167, 0.1445)
    """
    if epsilon < _FLAT:
        return 0.5
    b, fall = math.exp(-epsilon), -math.expm1(-epsilon)
    root = (b - 2 * b**2 + 2 * b**4 - b**5) / 2
    return math.cbrt(root) / fall**2 - b / fall


@dataclass(frozen=True)
class StaircaseFamily:
    """±magnitude(−ln U): one bit for the sign, the others for U."""

    steps: Steps
    scale: Fraction
    grid: Array

    def fast(self, words: Words, part: slice) -> tuple[Array, float]:
        """Noise in cells and its error bound."""
        exponential, error = exponential_noise(words, np.asarray(1.0))
        largest = float(np.nanmax(exponential, initial=0.0)) + 1
        cells = self.steps.period / (self.grid if self.grid.ndim == 0 else self.grid[part])
        noise = self.steps.magnitude(exponential) * cells
        # w moves the magnitude by at most ε/(1 − b) periods; ε·w is E + ln c with a few roundings of its size, and so
        # is what is added up, in units of at least 1/ε.
        bound = (error + 8 * largest * LOG_BUDGET) / self.steps.fall
        return with_sign(noise, words), float(np.max(cells)) * bound

    def enclose(self, index: int, bits: int, count: int) -> arb:
        """Noise as a ball: the magnitude rises with the exponential, so its ends have its ends."""
        sign, exponential = exponential_ball(bits, count)
        period, plateau = Fraction(self.steps.period), Fraction(self.steps.plateau)
        epsilon = ball(period / self.scale)
        fall = -(-epsilon).expm1()
        steps = (exponential - (ball(plateau) * fall + (-epsilon).exp()).log()) / epsilon
        ends = []
        for end in (steps.lower(), steps.upper()):
            whole = end.floor()  # of a point, so a point
            ends.append((whole + ball(plateau) - 1 - (-epsilon * (end - whole)).expm1() / fall) * ball(period))
        return sign * ends[0].union(ends[1])


class StaircaseLaw(LocationLaw):
    """Staircase noise around a truth.

    Examples
    --------
    >>> law = Staircase(scale=0.2, period=1.0, plateau=best_plateau(5.0)).law(10.0)
    >>> law.mean, round(law.variance, 4), round(law.cdf(10.2), 3)
    (10.0, 0.0297, 0.979)
    """

    def __init__(
        self, location: Truth, scale: float, period: float, plateau: float, *, grid: float | None = None
    ) -> None:
        super().__init__(location, scale, grid=grid)
        self.period, self.plateau, self._exact_scale = period, plateau, Fraction(scale)
        self._steps = Steps(float(Fraction(period) / self._exact_scale), period, plateau)

    @property
    def variance(self) -> Floats:
        """The variance, of which Laplace noise of the same ε has more."""
        return plain(np.broadcast_to(self._steps.variance, self._shape))

    def _distance(self, x: ArrayLike) -> Array:
        return np.asarray(np.asarray(x, dtype=float) - self.location)

    def pdf(self, x: ArrayLike) -> Floats:
        """Density."""
        return plain(self._steps.density(self._distance(x)))

    def cdf(self, x: ArrayLike) -> Floats:
        """Distribution function."""
        away = self._distance(x)
        half = self._steps.tail(away) / 2
        return plain(np.where(away < 0, half, 1 - half))

    def quantile(self, q: ArrayLike) -> Floats:
        """Inverse distribution function."""
        p = probabilities(q)
        with np.errstate(divide="ignore", invalid="ignore"):
            tail = -np.log(2 * np.minimum(p, 1 - p))
            away = np.where(np.isinf(tail), np.inf, self._steps.magnitude(tail) * self._steps.period)
        return plain(self.location + np.where(p < 0.5, -away, away))

    def _family(self, location: Location, scale: Array, grid: Array, shape: tuple[int, ...]) -> Family:
        return StaircaseFamily(self._steps, self._exact_scale, grid)

    def _simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        away = self._steps.magnitude(rng.exponential(size=shape)) * self._steps.period
        return np.asarray(self.location + np.where(rng.random(shape) < 0.5, -away, away))


@dataclass(frozen=True, kw_only=True)
class Staircase(AdditiveNoise):
    """Noise on one number, or on several of which a unit moves one, whose density falls in steps.

    Parameters
    ----------
    scale
        b in e^{−period/b}, the factor from one step to the next.
    period
        Width of a step: how far a unit can move the number.
    plateau
        Half the width of the middle step over the period, from 0 to 1.
    grid
        Power of two to which outputs are rounded; by default 2⁻²⁰ of the scale. Rounding is post-processing.

    Guarantee
    ---------
    A move by at most m periods, m whole, is m·period/scale-DP. Under ε-DP no noise added to a real number has a smaller
    variance (geng2016); δ(ε), ρ and μ are those of randomised response, which bound them. Proof:
    ``docs/proofs/staircase.md``.

    Examples
    --------
    >>> from discreet import PureDP
    >>> from discreet.mechanisms import Laplace
    >>> one = Sensitivity(moves=(1.0,))
    >>> kinds = (Laplace, Staircase)
    >>> [round(float(kind.calibrate(PureDP(5.0), one).law(0.0).variance), 4) for kind in kinds]
    [0.08, 0.0297]
    """

    name: ClassVar[str] = "staircase"
    period: float
    plateau: float

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "period", requirements.positive("period", self.period))
        plateau = requirements.positive("plateau", self.plateau)
        if plateau > 1:
            raise InvalidParameter("plateau", plateau, "must be at most 1", "Pass best_plateau(1.0), for example.")
        object.__setattr__(self, "plateau", plateau)
        if Fraction(self.period) > Fraction(_LARGEST_EPSILON) * Fraction(self.scale):
            rule = f"must be at least period/{_LARGEST_EPSILON:g}"
            raise InvalidParameter("scale", self.scale, rule, "Pass a larger scale.")

    @classmethod
    def calibrate(cls, guarantee: Guarantee, sensitivity: Sensitivity, *, grid: float | None = None) -> Self:
        """The steps of least variance that meet ``guarantee`` for ``sensitivity``; the scale is rounded up."""
        period = not_below(_single(sensitivity))
        # Randomised response meets another kind of guarantee with the ε of geometric noise on a count.
        unit = Geometric.calibrate(guarantee, Sensitivity(moves=(1.0,)))
        epsilon = decimal(guarantee.epsilon) if isinstance(guarantee, PureDP) else 1 / Fraction(unit.scale)
        wide = not_below(Fraction(period) / min(epsilon, Fraction(_LARGEST_EPSILON)))
        return cls(scale=wide, period=period, plateau=best_plateau(period / wide), grid=grid)

    def law(self, truth: Truth) -> StaircaseLaw:
        """The exact distribution of the output given the truth."""
        return StaircaseLaw(truth, self.scale, self.period, self.plateau, grid=self.grid)

    def profile(self, sensitivity: Sensitivity) -> GeometricProfile:
        """The curve of randomised response with the same ε."""
        periods = math.ceil(_single(sensitivity) / Fraction(self.period))
        return GeometricProfile(periods * Fraction(self.period) / Fraction(self.scale), [1])

    def check(self, exact: Exact) -> None:
        """Refuse several numbers of which a unit might move more than one."""
        if exact.sensitivity.moves is None and np.asarray(exact.value).size > 1:
            rule = "staircase noise on several numbers needs moves"
            raise InvalidParameter("sensitivity", exact.sensitivity, rule, "Pass Sensitivity(moves=(1,)).")


def _single(sensitivity: Sensitivity) -> Fraction:
    """The move of the one number that a unit moves: two half moves could each cross an edge of a step."""
    moves = exact_moves(sensitivity)
    if len(moves) > 1:
        raise InvalidParameter(
            "sensitivity", sensitivity, "must be that of one number at a time", "Use Laplace or geometric noise."
        )
    return moves[0]
