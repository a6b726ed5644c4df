"""Many margins from one release: Gaussian noise on the components of the margins of a table.

Proof: ``docs/proofs/margins.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import GaussianDP, Guarantee
from discreet.core.noise.truth import Truth, generator
from discreet.core.sensitivity import Sensitivity, root_up
from discreet.mechanisms.gaussian import GaussianLaw, GaussianProfile, gaussian_scale
from discreet.mechanisms.tables.components import Axes, centred, centred_share, lifted, scaled_centred, shape_of
from discreet.mechanisms.tables.margin_scales import component_variances, variance_shares
from discreet.mechanisms.tables.margins_noise import Component, MarginsNoise, Workload

__all__ = ["MarginsGaussian"]

Array = NDArray[np.float64]
Rng = int | np.random.Generator | None
_MOST_PATTERNS = 14
"""Up to this many axes every pattern of changed axes is tried; beyond, a bound for all of them serves."""
_SLACK = Fraction(2**30 + 1, 2**30)
"""Covers the rounding of sums of at most 2²⁰ non-negative floats, which is below 2⁻³²."""


@dataclass(frozen=True, kw_only=True)
class MarginsGaussian(MarginsNoise):
    """Gaussian noise on the components of margins: every margin follows, and all of them add up.

    Guarantee
    ---------
    One row has squared length p_A = ∏(1 − 1/d) in the component A. So adding or removing a row costs exactly
    μ² = Σ_A p_A/σ_A², whichever row it is, and the release is μ-GDP, tight. Replacing one costs at most the largest,
    over sets S of changed axes, of 2·Σ_A (p_A/σ_A²)·[1 − ∏_{i∈A∩S}(−1/(d_i − 1))]. A unit of k rows costs k times μ.

    Examples
    --------
    >>> from discreet import GaussianDP
    >>> workload = Workload(sizes=(8, 15, 2), tables=((), (0,), (1,), (0, 1)), weights=(1.0,) * 4)
    >>> one_row = Sensitivity(l1=4.0, l2=2.0)  # the total, two margins of one axis, one of two
    >>> mechanism = MarginsGaussian.calibrate(GaussianDP(1.0), one_row, workload=workload)
    >>> round(mechanism.guarantee(one_row).mu, 12), round(mechanism.standard_error((0, 1)), 3)
    (1.0, 1.744)
    """

    name: ClassVar[str] = "margins_gaussian"
    own_kind: ClassVar[type[Guarantee]] = GaussianDP

    @classmethod
    def calibrate(
        cls, guarantee: Guarantee, sensitivity: Sensitivity, *, workload: Workload | None = None, replaced: bool = False
    ) -> Self:
        """The most accurate tables that ``guarantee`` allows; every scale is rounded up."""
        wanted = requirements.instance("workload", workload, Workload, "Workload(sizes=…, tables=…, weights=…)")
        shares = variance_shares(wanted.sizes, wanted.tables)
        variances = component_variances(shares, np.array(wanted.weights), wanted.accuracy)
        roots = dict(zip(shares.components, np.sqrt(variances), strict=True))
        shape = cls(
            sizes=wanted.sizes,
            components=tuple(
                Component(
                    layer, axes, float(roots[axes]) * wanted.reaches[layer] * math.prod(shape_of(wanted.sizes, axes))
                )
                for layer, axes in wanted.layout()
            ),
            replaced=replaced,
            reaches=wanted.reaches,
        )
        # At this shape the release is a Gaussian one with μ = Δ; gaussian_scale says by how much to stretch it.
        stretch = gaussian_scale(guarantee, Sensitivity(l2=shape._mu(sensitivity)))
        return shape._stretched(stretch, sensitivity, guarantee)

    def _stretched(self, factor: float, sensitivity: Sensitivity, guarantee: Guarantee) -> Self:
        """The same shape with more noise: the products are rounded, so a few last bits decide."""
        for steps in (0, *(2**power for power in range(24))):
            wide = factor * (1 + steps * 2.0**-52)
            components = tuple(Component(one.layer, one.axes, one.scale * wide) for one in self.components)
            found = type(self)(sizes=self.sizes, components=components, replaced=self.replaced, reaches=self.reaches)
            if found.profile(sensitivity).within(guarantee):
                return found
        raise InvalidParameter("guarantee", guarantee, "is out of reach of floating-point scales", "Ask for less.")

    def profile(self, sensitivity: Sensitivity) -> GaussianProfile:
        """The exact privacy curve; ``sensitivity`` is that of the stacked margins: a row moves one cell of each."""
        return GaussianProfile(Fraction(self._mu(sensitivity)))

    def _mu(self, sensitivity: Sensitivity) -> float:
        """μ, rounded up: the rows of a unit, or the pairs that are exchanged, times the cost of one."""
        return root_up(_dyadic_above(self._squared_cost * self.rows_of(sensitivity) ** 2))

    @cached_property
    def _squared_cost(self) -> Fraction:
        """μ² of one row that comes or goes, or that is replaced by another."""
        costs = [_dyadic_above(self._cost(one)) for one in self.components]
        single = sum(costs, Fraction(0))
        return max(single, self._replacement_cost(costs)) if self.replaced else single

    def _cost(self, one: Component) -> Fraction:
        """reach²·∏d(d − 1)/scale²: what one row costs in one component, in whole numbers."""
        moved = math.prod(self.sizes[axis] * (self.sizes[axis] - 1) for axis in one.axes)
        return self.reaches[one.layer] ** 2 * moved / Fraction(one.scale) ** 2

    def _replacement_cost(self, costs: Sequence[Fraction]) -> Fraction:
        """An upper bound on ‖T(e_x − e_y)‖², over all rows x and y; exact up to 2⁻³⁰ for a few axes."""
        used = sorted({axis for one in self.components for axis in one.axes})
        if len(used) > _MOST_PATTERNS:
            # A product of factors −1/(d − 1) is most negative with a single one of them.
            worst = [Fraction(2) if one.layer else self._most_apart(one.axes) for one in self.components]
            return 2 * sum((cost * bound for cost, bound in zip(costs, worst, strict=True)), Fraction(0))
        patterns = np.arange(2 ** len(used))
        factors = {
            axis: np.where(patterns >> place & 1, -1.0 / (self.sizes[axis] - 1), 1.0) for place, axis in enumerate(used)
        }
        # The two values of a sum have the same sign or opposite ones: a column for each.
        signs, found = np.array([1.0, -1.0]), np.zeros((patterns.size, 2))
        for one, cost in zip(self.components, costs, strict=True):
            alike = math.prod((factors[axis] for axis in one.axes), start=np.ones(patterns.size))[:, None]
            found += float(cost) * (1 - alike * (signs if one.layer else 1.0))
        return 2 * Fraction(float(found.max())) * _SLACK

    def _most_apart(self, axes: Axes) -> Fraction:
        """The largest 1 − ∏(−1/(d − 1)) over any of the axes; the total never changes."""
        return 1 + max((Fraction(1, self.sizes[axis] - 1) for axis in axes), default=Fraction(-1))

    def measure(self, truth: Truth, *, rng: Rng = None) -> Array:
        """Noisy components.

        The component times its number of cells is a whole number, so the noise on it is drawn exactly. Only the centred
        margin meets the noise: what the row moves besides would cost more. The noise is centred afterwards.
        """
        whole = [scaled_centred(block).ravel() for _, block in self.blocks(truth)]
        cells = [self._cells(one.axes) for one in self.components]
        scales = np.repeat([one.scale for one in self.components], cells)
        source = None if rng is None else generator(rng)
        noisy = np.asarray(GaussianLaw(np.concatenate(whole), scales).sample(rng=source))
        return np.concatenate([(centred(block) / block.size).ravel() for _, block in self.blocks(noisy)])

    def law(self, truth: Truth) -> GaussianLaw:
        """The law of every coordinate by itself. Those of one component depend on each other: they add up to 0."""
        location = [centred(block.astype(float)).ravel() for _, block in self.blocks(truth)]
        deviations = [self._deviation(one) * math.sqrt(centred_share(self.sizes, one.axes)) for one in self.components]
        cells = [self._cells(one.axes) for one in self.components]
        return GaussianLaw(np.concatenate(location), np.repeat(deviations, cells))

    def _deviation(self, one: Component) -> float:
        return one.scale / self._cells(one.axes)

    def variances(self, layer: int = 0) -> Mapping[Axes, float]:
        """Noise variance of each component of a layer, before centring."""
        return {one.axes: self._deviation(one) ** 2 for one in self.components if one.layer == layer}

    def reach(self, level: float) -> float:
        """The normal quantile: combinations of normal noise are normal."""
        return NormalDist().inv_cdf((1 + level) / 2)

    def simulated(self, table: Axes, size: int, rng: np.random.Generator) -> Array:
        """Centred normal noise of each component, spread over the other axes."""
        found = np.zeros((size, *shape_of(self.sizes, table)))
        for axes, variance in self.variances().items():
            if set(axes) <= set(table):
                others = math.prod(self.sizes[axis] for axis in table if axis not in axes)
                noise = rng.normal(0.0, math.sqrt(variance) / others, size=(size, *shape_of(self.sizes, axes)))
                found += lifted(centred(noise, first=1), self.sizes, axes, table)
        return found


def _dyadic_above(ratio: Fraction) -> Fraction:
    """A fraction with a power of two below, at most 2⁻⁹⁶ larger: sums of thousands of them stay short."""
    shift = 96 - (ratio.numerator.bit_length() - ratio.denominator.bit_length())
    scaled = ratio * Fraction(2) ** shift
    return Fraction(math.ceil(scaled)) / Fraction(2) ** shift
