"""Tied pair: two statistics with a public linear equality between them (liu2019, Remark 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from discreet.contract.mechanism import Mechanism
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.noise.truth import Truth, float_truth, generator
from discreet.core.rounding import not_below
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.bounded.boundary_inflated import BoundaryInflatedLaplace
from discreet.mechanisms.bounded.bounded_laplace import BoundedLaplace
from discreet.mechanisms.bounded.domain import Domain, StructuredLaw

if TYPE_CHECKING:
    from discreet.core.exact import Exact
    from discreet.core.privacy_profile import Profile

__all__ = ["TiedPair"]

Array = NDArray[np.float64]
Rng = int | np.random.Generator | None


@dataclass(frozen=True, kw_only=True)
class TiedPair(Mechanism):
    """Bounded noise on the first of two statistics with a₁·s₁ + a₂·s₂ = c; the second follows.

    Parameters
    ----------
    scale
        Scale of the noise on s₁.
    bounds
        Public domains of s₁ and s₂.
    total
        The public constant c.
    coefficients
        a₁ and a₂, not zero.
    inflated
        Clamp Laplace noise instead of conditioning it on the domain.
    grid
        Power of two to which s₁ is rounded.

    Guarantee
    ---------
    That of bounded (or boundary-inflated) Laplace noise for the change of s₁ inside the domain that both statistics
    allow it, [max(l₁, …), min(u₁, …)]; the second is post-processing.

    Examples
    --------
    >>> pair = TiedPair(scale=0.1, bounds=((0, 1), (0.2, 1)), total=1.0)
    >>> pair.domain
    (0.0, 0.8)
    >>> first, second = pair.draw([0.3, 0.7], rng=1)
    >>> round(float(first + second), 9)
    1.0
    """

    name: ClassVar[str] = "tied_pair"
    scale: float
    bounds: Any
    total: float
    coefficients: Any = (1.0, 1.0)
    inflated: bool = False
    grid: float | None = None
    _inner: BoundedLaplace | BoundaryInflatedLaplace = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        domain = Domain.of(self.bounds)
        if domain.single or len(domain.lows) != 2:
            raise InvalidParameter("bounds", self.bounds, "must be two pairs", "Pass ((0, 1), (0, 1)).")
        object.__setattr__(self, "total", requirements.finite("total", self.total))
        given = requirements.listed("coefficients", self.coefficients, "coefficients=(1, 1)")
        if len(given) != 2:
            raise InvalidParameter("coefficients", given, "must be two numbers", "Pass (1, 1), for example.")
        first, second = (requirements.finite("coefficients", a) for a in given)
        if first == 0 or second == 0:
            raise InvalidParameter("coefficients", self.coefficients, "must not be zero", "Pass (1, 1), for example.")
        requirements.instance("inflated", self.inflated, bool, "inflated=True or False")
        object.__setattr__(self, "coefficients", (first, second))
        object.__setattr__(self, "bounds", tuple(zip(domain.lows, domain.highs, strict=True)))
        kind = BoundaryInflatedLaplace if self.inflated else BoundedLaplace
        object.__setattr__(self, "_inner", kind(scale=self.scale, bounds=self.domain, grid=self.grid))

    @property
    def domain(self) -> tuple[float, float]:
        """What both domains leave the first statistic."""
        (low, high), others = self.bounds
        a, b = self.coefficients
        ends = sorted((self.total - b * end) / a for end in others)
        allowed = max(low, ends[0]), min(high, ends[1])
        if not allowed[0] < allowed[1] or (math.isinf(allowed[0]) and math.isinf(allowed[1])):
            raise InvalidParameter(
                "bounds", self.bounds, "leave the first statistic no interval", "Check them with the equality."
            )
        return allowed

    @classmethod
    def calibrate(cls, guarantee: Guarantee, sensitivity: Sensitivity, **options: Any) -> Self:
        """The least noise that meets ``guarantee``; ``options`` are the other parameters of the constructor."""
        draft = cls(scale=1.0, **options)
        own = draft._first(sensitivity)
        return cls(scale=type(draft._inner).calibrate(guarantee, own, bounds=draft.domain).scale, **options)

    def _first(self, sensitivity: Sensitivity) -> Sensitivity:
        """The sensitivity of s₁: the equality gives it its part of the ℓ₁ change of both."""
        # a·Δs₁ = −b·Δs₂ and |Δs₁| + |Δs₂| ≤ Δ together.
        a, b = (abs(Fraction(one)) for one in self.coefficients)
        change = Fraction(sensitivity.require_l1()) * b / (a + b)
        return Sensitivity(l1=not_below(change))

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """The exact privacy curve of the first statistic."""
        return self._inner.profile(self._first(sensitivity))

    def check(self, exact: Exact) -> None:
        """The value must be the pair."""
        if float_truth(exact.value).shape != (2,):
            raise InvalidParameter("value", "…", "must be the two statistics", "Pass [first, second].")

    def law(self, truth: Truth) -> StructuredLaw:
        """The distribution of the pair, known through draws; that of the first alone is `first_law`."""
        ends = np.array([self.domain, sorted(self._second(np.asarray(self.domain)))]).T
        return StructuredLaw(self, truth, ends[0], ends[1])

    def first_law(self, truth: Truth) -> Any:
        """The exact law of the first statistic's output."""
        if float_truth(truth).shape != (2,):
            raise InvalidParameter("truth", "…", "must be the two statistics", "Pass both, though one is measured.")
        return self._inner.law(np.asarray(truth, dtype=object)[0])

    def _second(self, first: Array) -> Array:
        a, b = self.coefficients
        return np.asarray((self.total - a * first) / b)

    def draw(self, truth: Truth, *, rng: Rng = None) -> Array:
        """One output: the noisy first statistic, and the second that goes with it."""
        first = np.asarray(self.first_law(truth).sample(rng=rng))
        return np.stack([first, self._second(first)])

    def simulate(self, truth: Truth, size: int, rng: Rng) -> Array:
        """``size`` outputs for one truth, in floating point, for studies."""
        first = np.asarray(self.first_law(truth).sample(size, rng=generator(0 if rng is None else rng)))
        return np.stack([first, self._second(first)], axis=-1)

    def confidence_interval(self, value: Any, level: float) -> tuple[Array, Array]:
        """The exact interval of the first statistic, and its image for the second."""
        low, high = self._inner.confidence_interval(np.asarray(value, dtype=float)[..., 0], level)
        image = np.sort(np.stack([self._second(np.asarray(low)), self._second(np.asarray(high))], axis=-1), axis=-1)
        return np.stack([np.asarray(low), image[..., 0]], axis=-1), np.stack([np.asarray(high), image[..., 1]], axis=-1)

    def expected_error(self, level: float = 0.95) -> Array:
        """How far from the truth each statistic stays with probability ``level``, at the worst truth."""
        a, b = self.coefficients
        return np.asarray(np.array([1.0, abs(a / b)]) * self._inner.expected_error(level))

    def parameters(self) -> dict[str, Any]:
        """The parameters as JSON-ready data."""
        return {
            "scale": self.scale,
            "bounds": Domain.of(self.bounds).parameters(),
            "total": self.total,
            "coefficients": list(self.coefficients),
            "inflated": self.inflated,
            "grid": self.grid,
        }
