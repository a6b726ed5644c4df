"""Many margins under a pure guarantee: Laplace noise on some of the tables, from which all margins are estimated.

Proof: ``docs/proofs/margins.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from discreet.contract.mechanism import Law
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP
from discreet.core.noise.truth import Truth, generator
from discreet.core.sensitivity import Sensitivity, root_up
from discreet.mechanisms.calibration import refuse_nothing
from discreet.mechanisms.gaussian import GaussianLaw, GaussianProfile, gaussian_scale
from discreet.mechanisms.laplace import LaplaceLaw, LaplaceProfile
from discreet.mechanisms.tables.margins_noise import (
    Axes,
    Component,
    MarginsNoise,
    Workload,
    below,
    centred,
    centred_share,
    component_variances,
    direct_shares,
    lifted,
    scaled_centred,
    shape_of,
    variance_shares,
)

__all__ = ["MarginsGaussian", "MarginsLaplace"]


Array = NDArray[np.float64]
Rng = int | np.random.Generator | None


@dataclass(frozen=True, kw_only=True)
class MarginsLaplace(MarginsNoise):
    """Laplace noise on some tables; what they say of each component is averaged by its precision.

    Noise on components, best for Gaussian noise, is bad here: a row moves a component of k axes by nearly 2ᵏ in ℓ₁.

    Guarantee
    ---------
    A row moves one cell of every measured table by its reach, so the release is ε-DP with ε = Σ reach/b over the scales
    b of the measured tables; twice that where a row is replaced, and k times for a unit of k rows.

    Parameters
    ----------
    sizes, components, replaced, reaches
        As in `MarginsNoise`; a ``scale`` of 0 marks a margin that is not measured itself.

    Examples
    --------
    >>> workload = Workload(sizes=(8, 15, 2), tables=((), (0,), (1,), (0, 1)), weights=(1.0,) * 4)
    >>> one_row = Sensitivity(l1=4.0)
    >>> mechanism = MarginsLaplace.calibrate(PureDP(1.0), one_row, workload=workload)
    >>> round(mechanism.guarantee(one_row).epsilon, 12), round(mechanism.standard_error((0, 1)), 3)
    (1.0, 4.83)
    """

    name: ClassVar[str] = "margins_laplace"
    _unmeasured: ClassVar[bool] = True

    @classmethod
    def calibrate(
        cls, guarantee: Guarantee, sensitivity: Sensitivity, *, workload: Workload | None = None, replaced: bool = False
    ) -> Self:
        """The most accurate tables found for a pure guarantee; every scale is rounded up."""
        wanted = requirements.instance("workload", workload, Workload, "Workload(sizes=…, tables=…, weights=…)")
        epsilon = guarantee.epsilon if isinstance(guarantee, ApproxDP) else guarantee.to(PureDP).epsilon
        refuse_nothing(guarantee)
        split = direct_shares(wanted.sizes, wanted.tables, np.array(wanted.weights), wanted.accuracy)
        layers = len(wanted.reaches)
        components = [
            Component(layer, axes, wanted.reaches[layer] * layers / split[axes] if axes in split else 0.0)
            for layer, axes in wanted.layout()
        ]
        shape = cls(sizes=wanted.sizes, components=tuple(components), replaced=replaced, reaches=wanted.reaches)
        for steps in (0, *(2**power for power in range(24))):
            factor = float(shape._shift(sensitivity)) / epsilon * (1 + steps * 2.0**-52)
            stretched = tuple(Component(one.layer, one.axes, one.scale * factor) for one in components)
            found = cls(sizes=wanted.sizes, components=stretched, replaced=replaced, reaches=wanted.reaches)
            if found.profile(sensitivity).within(guarantee):
                return found
        raise InvalidParameter("guarantee", guarantee, "is out of reach of floating-point scales", "Ask for less.")

    def profile(self, sensitivity: Sensitivity) -> LaplaceProfile:
        """The curve of one shift of that length, which is the worst case in any dimension."""
        return LaplaceProfile([self._shift(sensitivity)])

    def _shift(self, sensitivity: Sensitivity) -> Fraction:
        """ε: what a unit moves, in units of the scales."""
        row = sum((self.reaches[one.layer] / Fraction(one.scale) for one in self._measured()), Fraction(0))
        return self.rows_of(sensitivity) * row * (2 if self.replaced else 1)

    def _measured(self) -> Iterator[Component]:
        return (one for one in self.components if one.scale > 0)

    def measure(self, truth: Truth, *, rng: Rng = None) -> Array:
        """Noisy tables, and from them the estimate of every component."""
        blocks = [(one, block) for one, block in self.blocks(truth) if one.scale > 0]
        scales = np.repeat([one.scale for one, _ in blocks], [block.size for _, block in blocks])
        source = None if rng is None else generator(rng)
        noisy = np.asarray(
            LaplaceLaw(np.concatenate([block.ravel() for _, block in blocks]), scales).sample(rng=source)
        )
        tables, start = {}, 0
        for one, block in blocks:
            tables[one.layer, one.axes] = noisy[start : start + block.size].reshape(block.shape)
            start += block.size
        return np.concatenate([self._estimated(one.layer, one.axes, tables).ravel() for one in self.components])

    def _estimated(self, layer: int, axes: Axes, tables: Mapping[tuple[int, Axes], Array], first: int = 0) -> Array:
        """A component, from all tables that hold it, each weighed by its precision."""
        found: Array | float = 0.0
        for table, weight in self._weights(layer, axes).items():
            others = tuple(first + place for place, axis in enumerate(table) if axis not in axes)
            found = found + weight * centred(tables[layer, table].sum(axis=others), first)
        return np.asarray(found)

    def _weights(self, layer: int, axes: Axes) -> dict[Axes, float]:
        precisions = {
            one.axes: 1 / (2 * one.scale**2 * math.prod(self.sizes[axis] for axis in one.axes if axis not in axes))
            for one in self._measured()
            if one.layer == layer and set(axes) <= set(one.axes)
        }
        return {table: precision / sum(precisions.values()) for table, precision in precisions.items()}

    def variances(self, layer: int = 0) -> Mapping[Axes, float]:
        """Noise variance of each component of a layer, before centring: tables that hold it add their precisions."""
        found = {}
        for one in self.components:
            if one.layer == layer:
                weights = self._weights(layer, one.axes)
                scales = {other.axes: other.scale for other in self._measured() if other.layer == layer}
                found[one.axes] = sum(
                    weight**2 * 2 * scales[table] ** 2 * self._cells(table) / self._cells(one.axes)
                    for table, weight in weights.items()
                )
        return found

    def law(self, truth: Truth) -> Law:
        """A normal law with the variance of every coordinate: sums of many Laplace noises, nearly."""
        location = [centred(block.astype(float)).ravel() for _, block in self.blocks(truth)]
        layers = [self.variances(layer) for layer in range(len(self.reaches))]
        deviations = [
            math.sqrt(layers[one.layer][one.axes] * centred_share(self.sizes, one.axes)) for one in self.components
        ]
        return GaussianLaw(np.concatenate(location), np.repeat(deviations, [part.size for part in location]))

    def reach(self, level: float) -> float:
        """The larger of the normal and the Laplace quantile: sums of Laplace noises lie between the two."""
        upper = (1 + level) / 2
        return max(NormalDist().inv_cdf(upper), float(np.max(LaplaceLaw(0.0, math.sqrt(0.5)).quantile(upper))))

    def simulated(self, table: Axes, size: int, rng: np.random.Generator) -> Array:
        """Laplace noise on the measured tables, taken through the same estimates."""
        drawn = {
            (one.layer, one.axes): rng.laplace(0.0, one.scale, size=(size, *shape_of(self.sizes, one.axes)))
            for one in self._measured()
            if one.layer == 0
        }
        found = np.zeros((size, *shape_of(self.sizes, table)))
        for axes in below([table]):
            if self._weights(0, axes):
                others = math.prod(self.sizes[axis] for axis in table if axis not in axes)
                found += lifted(self._estimated(0, axes, drawn, first=1), self.sizes, axes, table) / others
        return found


# ---- Many margins from one release: Gaussian noise on the components of the margins of a table
#
# Proof: ``docs/proofs/margins.md``.


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
