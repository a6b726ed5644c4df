"""Box noise: many numbers that each move a little, protected together.

A row that moves every one of k totals by at most Δ moves them by kΔ in ℓ₁, and Laplace noise must cover all of it. Box
noise covers the largest of the moves alone: its density falls with the largest coordinate, and its privacy curve is
that of Laplace noise on a single number that moves by Δ. The price is a longer radius: a coordinate has the variance
(k + 1)(k + 2)/3 squared scales, where Laplace noise has 2k². Several boxes that a row moves by one in all have noise of
their own each, of the same scale. Proof: ``docs/proofs/box_noise.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
import scipy  # whose submodules load when first used
from flint import arb
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.noise import sampler
from discreet.core.numbers import ball
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms.laplace import LaplaceProfile, laplace_scale
from discreet.mechanisms.mechanism import LocationLaw, Mechanism, probabilities

Array = NDArray[np.float64]
_ONE = np.asarray(1.0)
_SIDE_ERROR = 2.0**-50
"""Covers 64 bits as a double between −1 and 1, the bits beyond them, and the two products with the radius."""
_HALVINGS = 64


class BoxLaw(LocationLaw):
    """Box noise: density exp(−‖x − truth‖∞/b) / (2ᵏ·k!·bᵏ) for k numbers.

    Densities, moments and quantiles are those of one coordinate. Coordinates are uncorrelated, and share a radius.

    Parameters
    ----------
    location
        The truth: k numbers for every box, which are drawn together, or one of them.
    scale, dimension, grid, boxes
        b, k, the power of two to which draws are rounded, and how many boxes follow one another.

    Examples
    --------
    >>> law = BoxLaw(10.0, 2.0, dimension=5)
    >>> law.mean, law.variance, law.cdf(10.0)
    (10.0, 56.0, 0.5)
    """

    def __init__(
        self, location: sampler.Truth, scale: float, *, dimension: int, grid: float | None = None, boxes: int = 1
    ) -> None:
        super().__init__(location, scale, grid=grid)
        self.dimension = dimension
        if self._shape and math.prod(self._shape) != dimension * boxes:
            raise InvalidParameter(
                "truth", f"{math.prod(self._shape)} numbers", f"must be {dimension * boxes}, or one of them",
                "Set dimension to how many there are.",
            )  # fmt: skip

    @property
    def variance(self) -> sampler.Floats:
        """(k + 1)(k + 2)/3·b²."""
        k = self.dimension
        return sampler.plain(np.broadcast_to((k + 1) * (k + 2) / 3 * self.scale**2, self._shape))

    def pdf(self, x: ArrayLike) -> sampler.Floats:
        """Density of a coordinate: Q(k, |x|/b)/2kb, with Q the upper incomplete gamma function over Γ(k)."""
        z = np.abs(self._standardised(x))
        return sampler.plain(scipy.special.gammaincc(self.dimension, z) / (2 * self.dimension * self.scale))

    def cdf(self, x: ArrayLike) -> sampler.Floats:
        """Distribution function of a coordinate."""
        z = self._standardised(x)
        tail = self._tail(np.abs(z))
        return sampler.plain(np.where(z < 0, tail, 1 - tail))

    def _tail(self, z: Array) -> Array:
        """P(X > z) = (k·Q(k + 1, z) − z·Q(k, z))/2k for z ≥ 0."""
        k = self.dimension
        with np.errstate(invalid="ignore"):
            found = scipy.special.gammaincc(k + 1, z) / 2 - z * scipy.special.gammaincc(k, z) / (2 * k)
        return np.asarray(np.where(np.isinf(z), 0.0, np.maximum(found, 0.0)))

    def quantile(self, q: ArrayLike) -> sampler.Floats:
        """Inverse distribution function of a coordinate, by halving."""
        p = probabilities(q)
        tail = np.minimum(p, 1 - p)
        # P(X > z) ≤ P(radius > z), so the radius that exceeds its own quantile is above what is looked for.
        low = np.zeros(p.shape)
        high = scipy.special.gammainccinv(self.dimension + 1, tail)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            above = self._tail(middle) > tail
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        reach = np.where(tail == 0.5, 0.0, high)
        return sampler.plain(self.location + self.scale * np.where(p < 0.5, -reach, reach))

    def _family(self, location: sampler.Location, scale: Array, grid: Array, shape: tuple[int, ...]) -> sampler.Family:
        together = self.dimension if self._shape else 1
        cells = float(self.scale / self.grid)
        rows = math.prod(shape) // together
        return _BoxFamily(float(self.scale), cells, rows, self.dimension, together)

    def _simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        together = self.dimension if self._shape else 1
        radii = rng.gamma(self.dimension + 1.0, size=math.prod(shape) // together)
        sides = rng.uniform(-1.0, 1.0, size=(radii.size, together)) * radii[:, None]
        return np.asarray(sides.reshape(shape) * self.scale + self.location)


class _BoxFamily:
    """b·R·(2U − 1): a uniform point of a cube whose half side is the radius that several coordinates share.

    A radius is the sum of k + 1 standard exponential variables, known to as many bits as any of its coordinates needs.
    """

    def __init__(
        self,
        scale: float,
        in_cells: float,
        rows: int,
        dimension: int,
        together: int = 1,
        entropy: sampler.Entropy = sampler.SYSTEM_ENTROPY,
    ) -> None:
        self.scale, self.in_cells, self.together = scale, in_cells, together
        self._parts, self._entropy = dimension + 1, entropy
        self._words = entropy.words(rows * self._parts)
        self._further: dict[int, tuple[list[int], int]] = {}
        exponential = sampler.ExponentialFamily(_ONE, _ONE)
        with np.errstate(all="ignore"):  # NaN where bits are too few: those rows are worked out in balls
            drawn, error = exponential.fast(self._words, slice(0, self._words.size))
        self.radii = drawn.reshape(rows, self._parts).sum(axis=1)
        # The errors of the parts, and of adding them up in any order.
        self.error = self._parts * (error + float(np.fmax.reduce(self.radii, initial=0.0)) * 2.0**-52)

    def fast(self, words: sampler.Words, part: slice) -> tuple[Array, Array]:
        """Noise in cells and its error bound."""
        radii = self.radii[np.arange(part.start, part.stop) // self.together]
        sides = words.astype(float) * 2.0**-63 - 1.0
        error = self.in_cells * (self.error + radii * _SIDE_ERROR)
        return sides * radii * self.in_cells, error

    def enclose(self, index: int, bits: int, count: int) -> arb:
        """Noise as a ball."""
        side = 2 * sampler.uniform_ball(bits, count) - 1
        return ball(self.scale) * self.radius(index // self.together, count) * side

    def radius(self, row: int, count: int) -> arb:
        """A radius as a ball, from at least so many bits of each of its parts."""
        start = row * self._parts
        bits, known = self._further.get(row, ([int(word) for word in self._words[start : start + self._parts]], 64))
        while known < count:
            bits = [(old << 64) | int(new) for old, new in zip(bits, self._entropy.words(self._parts), strict=True)]
            known += 64
        self._further[row] = bits, known
        return sum((-sampler.uniform_ball(one, known).log() for one in bits), arb(0))


@dataclass(frozen=True)
class BoxNoise(Mechanism):
    """Noise on k numbers together: uniform in a cube whose size is random (the ℓ∞ K-norm mechanism).

    Parameters
    ----------
    scale
        b in exp(−‖x‖∞/b), in units of the statistic: Δ∞/ε meets ε-DP, whatever k is.
    dimension
        k, how many numbers are protected together.
    grid
        Power of two to which outputs are rounded; by default 2⁻²⁰ of the scale. Rounding is post-processing.
    boxes
        How many boxes of k numbers follow one another, each with a radius of its own. With two or more, a sensitivity
        counts every box as one coordinate, which moves by the largest of its moves: it must have a ``dimension`` of as
        many, and its ℓ₁ is what the noise covers.

    Guarantee
    ---------
    With t = Δ∞/b, or Δ₁/b for several boxes, it is t-DP, (ε, 1 − e^{−(t−ε)/2})-DP for every ε from 0 to t,
    (t + e^{−t} − 1)-zCDP and μ-GDP with μ = −2Φ⁻¹(e^{−t/2}/2), all tight: the privacy curve of Laplace noise on one
    number. Proof: ``docs/proofs/box_noise.md``.

    Examples
    --------
    >>> from discreet import PureDP
    >>> from discreet.core.sensitivity import Sensitivity
    >>> from discreet.mechanisms import Laplace
    >>> each = Sensitivity(linf=1.0, dimension=20)
    >>> noise = BoxNoise.calibrate(PureDP(1.0), each)
    >>> noise, noise.guarantee(each)
    (BoxNoise(scale=1.0, dimension=20, grid=None, boxes=1), PureDP(epsilon=1.0))
    >>> noise.law(0.0).variance, Laplace.calibrate(PureDP(1.0), each).law(0.0).variance
    (154.0, 800.0)
    """

    name: ClassVar[str] = "box_noise"
    scale: float
    dimension: int
    grid: float | None = None
    boxes: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", requirements.positive("scale", self.scale))
        object.__setattr__(self, "dimension", requirements.positive_integer("dimension", self.dimension))
        object.__setattr__(self, "boxes", requirements.positive_integer("boxes", self.boxes))
        if self.grid is not None:
            object.__setattr__(self, "grid", sampler.power_of_two("grid", self.grid))

    @classmethod
    def calibrate(
        cls,
        guarantee: Guarantee,
        sensitivity: Sensitivity,
        *,
        grid: float | None = None,
        in_boxes_of: int | None = None,
    ) -> Self:
        """The least noise that meets ``guarantee`` for ``sensitivity``, whose ``dimension`` must be known.

        With ``in_boxes_of`` that is the number of boxes, each of so many numbers.
        """
        requirements.instance("sensitivity", sensitivity, Sensitivity, "Sensitivity(linf=1.0, dimension=5)")
        if sensitivity.dimension is None:
            raise InvalidParameter(
                "sensitivity", sensitivity, "must have a dimension: box noise protects a fixed number of numbers",
                "Pass Sensitivity(linf=1.0, dimension=5), for example.",
            )  # fmt: skip
        together = (sensitivity.dimension, 1) if in_boxes_of is None else (in_boxes_of, sensitivity.dimension)
        shaped = cls(1.0, together[0], grid, together[1])
        return replace(shaped, scale=laplace_scale(guarantee, Sensitivity(l1=shaped._moved(sensitivity))))

    def _moved(self, sensitivity: Sensitivity) -> float:
        """The move of all boxes together, each by the largest of its moves."""
        if self.boxes == 1:
            return sensitivity.require_linf()
        if sensitivity.dimension != self.boxes:
            raise InvalidParameter(
                "sensitivity", sensitivity, f"must count each of the {self.boxes} boxes as one coordinate",
                f"Pass Sensitivity(l1=1.0, dimension={self.boxes}), for example.",
            )  # fmt: skip
        return sensitivity.require_l1()

    def law(self, truth: sampler.Truth) -> BoxLaw:
        """The exact distribution of the output given the truth: of all numbers together, or of one of them."""
        return BoxLaw(truth, self.scale, dimension=self.dimension, grid=self.grid, boxes=self.boxes)

    def profile(self, sensitivity: Sensitivity) -> LaplaceProfile:
        """The exact privacy curve."""
        requirements.instance("sensitivity", sensitivity, Sensitivity, "Sensitivity(linf=1.0, dimension=5)")
        return LaplaceProfile([Fraction(self._moved(sensitivity)) / Fraction(self.scale)])

    def check(self, exact: Exact) -> None:
        """Refuse more or fewer numbers than the noise was made for."""
        value = np.asarray(exact.value)
        if (value.ndim or self.boxes > 1) and value.size != self.dimension * self.boxes:
            rule = f"must be {value.size}, as many as there are numbers"
            raise InvalidParameter("dimension", self.dimension, rule, "Calibrate it to them.")

    def noise_interval(self, value: sampler.Floats, level: float) -> tuple[sampler.Floats, sampler.Floats]:
        """An interval for each number by itself."""
        law = self.law(0.0)
        reach = law.quantile((1 + level) / 2) + law.grid / 2
        return sampler.plain(np.asarray(value) - reach), sampler.plain(np.asarray(value) + reach)
