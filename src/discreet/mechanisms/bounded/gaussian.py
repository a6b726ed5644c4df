"""The bounded Gaussian mechanism: Gaussian noise conditioned on the output lying in the domain.

Proof: ``docs/proofs/bounded_gaussian.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import scipy
from flint import arb
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.guarantee import GaussianDP, Guarantee
from discreet.core.noise.sampler import (
    LOG_BUDGET,
    NORMAL_BUDGET,
    Family,
    Floats,
    Location,
    Truth,
    Words,
    plain,
    uniform_ball,
)
from discreet.core.numbers import ball
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.bounded.laplace import Domain, OnDomain, TruncatedLaplaceLaw
from discreet.mechanisms.gaussian import GaussianProfile, gaussian_scale
from discreet.mechanisms.mechanism import probabilities, spread

Array = NDArray[np.float64]

_FAR = 40.0
"""Standard deviations beyond which no truth fits an output: a tail of 10⁻³⁴⁹."""
_HALVINGS = 80


class TruncatedGaussianLaw(TruncatedLaplaceLaw):
    """Normal noise conditioned on the output lying in [lower, upper].

    The location must lie within the bounds; mechanisms clamp it there first.

    Examples
    --------
    >>> law = TruncatedGaussianLaw(0.2, 0.1, 0.0, 1.0)
    >>> round(law.mean, 6), round(law.variance, 6), law.support
    (0.205525, 0.008865, (0.0, 1.0))
    """

    @property
    def _mass(self) -> tuple[Array, Array]:
        """Φ(distance) − ½ to the left and right."""
        return _half_mass(self._sides[0]), _half_mass(self._sides[1])

    @property
    def bias(self) -> Floats:
        """Expected output minus truth: positive left of the middle, negative right of it."""
        left, right = (-np.expm1(-np.square(side) / 2) for side in self._sides)
        return plain(self.scale * (right - left) / (math.sqrt(2 * math.pi) * sum(self._mass)))

    @property
    def variance(self) -> Floats:
        """Second moment around the truth, ∫z²φ as an incomplete gamma function, minus squared bias."""
        left, right = (scipy.special.gammainc(1.5, np.square(side) / 2) / 2 for side in self._sides)
        return plain(self.scale**2 * (left + right) / sum(self._mass) - np.square(self.bias))

    def pdf(self, x: ArrayLike) -> Floats:
        """Density."""
        points = np.asarray(x, dtype=float)
        inside = (points >= self.lower) & (points <= self.upper)
        density = np.exp(-np.square(self._standardised(points)) / 2)
        return plain(np.where(inside, density / (math.sqrt(2 * math.pi) * self.scale * sum(self._mass)), 0.0))

    def cdf(self, x: ArrayLike) -> Floats:
        """Distribution function."""
        z = self._standardised(np.clip(x, self.lower, self.upper))
        left, right = self._mass
        return plain(np.clip((left + np.copysign(_half_mass(np.abs(z)), z)) / (left + right), 0.0, 1.0))

    def quantile(self, q: ArrayLike) -> Floats:
        """Inverse distribution function."""
        left, right = self._mass
        signed = probabilities(q) * (left + right) - left
        noise = math.sqrt(2) * scipy.special.erfinv(2 * signed)
        return plain(np.clip(self.location + self.scale * noise, self.lower, self.upper))

    def _family(self, location: Location, scale: Array, grid: Array, shape: tuple[int, ...]) -> Family:
        lower, upper = (spread(bound, shape) for bound in (self.lower, self.upper))
        return TruncatedGaussianFamily(scale, scale / grid, location, lower, upper)


def _half_mass(distance: Array) -> Array:
    """Φ(d) − ½, accurate for small d."""
    return np.asarray(scipy.special.erf(distance / math.sqrt(2)) / 2)


@dataclass(frozen=True)
class TruncatedGaussianFamily:
    """Normal noise conditioned so that location plus noise lies between two bounds; one uniform, no rejection.

    A rejection loop would show through its running time where the centre lies.
    """

    scale: Array
    scale_in_cells: Array
    location: Location
    lower: Array
    upper: Array

    def fast(self, words: Words, part: slice) -> tuple[Array, Array]:
        """Noise in cells and its error bound."""
        scale, cells, lower, upper = (
            values if values.ndim == 0 else values[part]
            for values in (self.scale, self.scale_in_cells, self.lower, self.upper)
        )
        left = _half_mass(self.location.above(lower, part) / scale)
        mass = left + _half_mass(self.location.below(upper, part) / scale)
        signed = (words >> np.uint64(1)).view(np.int64) * 2.0**-63 * mass - left
        tail = 0.5 - np.abs(signed)
        noise = -scipy.special.ndtri(tail)
        # The error of s: that of two error functions and of the bits that are not seen, and what rounds at ½.
        error = cells * (1.2534 * (4 * LOG_BUDGET * mass + 2.0**-51) / tail + NORMAL_BUDGET * noise)
        return cells * np.copysign(noise, signed), error

    def enclose(self, index: int, bits: int, count: int) -> arb:
        """Noise as a ball."""
        scale, lower, upper = (
            float(values if values.ndim == 0 else values[index]) for values in (self.scale, self.lower, self.upper)
        )
        centre, width = self.location.exact(index), ball(scale) * arb(2).sqrt()
        left = arb(1) if math.isinf(lower) else (ball(centre - Fraction(lower)) / width).erf()
        right = arb(1) if math.isinf(upper) else (ball(Fraction(upper) - centre) / width).erf()
        return width * (uniform_ball(bits, count) * (left + right) - left).erfinv()


@dataclass(frozen=True, kw_only=True)
class BoundedGaussian(OnDomain):
    """Gaussian noise whose distribution is supported on the domain.

    A truth outside the domain is clamped into it first.

    Parameters
    ----------
    scale
        Standard deviation σ of the underlying normal distribution.
    bounds
        Public domain: a pair ``(low, high)`` for a scalar or for every coordinate, or one pair per coordinate. One end
        of a pair may be infinite (or None).
    grid
        Power of two to which outputs are rounded; by default 2⁻²⁰ of the scale. Rounding is post-processing.

    Guarantee
    ---------
    That of Gaussian noise of the same σ: with μ = Δ₂/σ it is μ-GDP, μ²/2-zCDP and (ε, δ)-DP on Gaussian noise's curve,
    for the neighbour relation of Δ₂. Unlike with Laplace noise, conditioning costs nothing. It is ε-DP for no ε that is
    stated. Proof: ``docs/proofs/bounded_gaussian.md``.

    Examples
    --------
    >>> from discreet import GaussianDP
    >>> from discreet.core.sensitivity import Sensitivity
    >>> mechanism = BoundedGaussian.calibrate(GaussianDP(1.0), Sensitivity(l2=0.1), bounds=(0, 1))
    >>> mechanism.scale
    0.1
    >>> law = mechanism.law(0.2)
    >>> round(law.mean, 6), round(law.mse, 6)
    (0.205525, 0.008895)
    """

    name: ClassVar[str] = "bounded_gaussian"
    own_kind: ClassVar[type[Guarantee]] = GaussianDP

    @classmethod
    def _least_scale(cls, guarantee: Guarantee, sensitivity: Sensitivity, domain: Domain) -> float:
        return gaussian_scale(guarantee, Sensitivity(l2=_move(sensitivity, domain)))

    def law(self, truth: Truth) -> TruncatedGaussianLaw:
        """The exact distribution of the output; a truth outside the domain counts as its nearest point."""
        low, high = self._domain.ends
        return TruncatedGaussianLaw(self._domain.clamp(truth), self.scale, low, high, grid=self.grid)

    def profile(self, sensitivity: Sensitivity) -> GaussianProfile:
        """The privacy curve of Gaussian noise, which that of the conditioned noise does not exceed."""
        return GaussianProfile(Fraction(_move(sensitivity, self._domain)) / Fraction(self.scale))

    def noise_interval(self, value: Floats, level: float) -> tuple[Floats, Floats]:
        """Interval for the truth in the domain: truths from which neither tail of the output is improbable."""
        low, high = self._domain.ends
        half = np.asarray(self.law(np.where(np.isfinite(low), low, high)).grid) / 2
        points = np.asarray(value, dtype=float)
        first, last = (np.maximum(low, points - _FAR * self.scale), np.minimum(high, points + _FAR * self.scale))
        least = (1 - level) / 2
        below = self._farthest(np.clip(points - half, low, high), points, first, least)
        above = self._farthest(np.clip(points + half, low, high), points, last, least)
        return plain(below), plain(above)

    def _farthest(self, output: Array, near: Array, far: Array, least: float) -> Array:
        """The truth farthest towards ``far`` from which an output at or beyond this one has that probability."""

        def fits(truth: Array) -> Array:
            below = np.asarray(self.law(truth).cdf(output))
            return np.asarray(np.where(far < near, 1 - below, below) >= least)

        low, high = self._domain.ends
        inside = np.clip(near, low, high)
        whole = fits(np.clip(far, low, high))
        outside = np.clip(far, low, high)
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            kept = fits(middle)
            inside, outside = np.where(kept, middle, inside), np.where(kept, outside, middle)
        return np.where(whole, np.clip(far, low, high), outside)

    def error(self, level: float = 0.95) -> Floats:
        """The error that the output stays within with probability ``level``: largest for a truth at an end."""
        low, high = self._domain.ends
        error = self.scale * math.sqrt(2) * scipy.special.erfinv(level * 2 * _half_mass((high - low) / self.scale))
        return float(error) if np.ndim(error) == 0 else np.asarray(error)


def _move(sensitivity: Sensitivity, domain: Domain) -> float:
    """The ℓ₂ norm of a move, or for a single number the length of its domain where that is shorter."""
    requirements.instance("sensitivity", sensitivity, Sensitivity, "Sensitivity(l2=1.0), for example")
    bound = float(sensitivity.require_l2())
    width = domain.widths[0]
    one = len(sensitivity.moves) == 1 if sensitivity.moves else sensitivity.dimension in (None, 1)
    if not (domain.single and one) or width is None or Fraction(bound) <= width:
        return bound
    number = float(width)
    return number if Fraction(number) >= width else float(np.nextafter(number, np.inf))
