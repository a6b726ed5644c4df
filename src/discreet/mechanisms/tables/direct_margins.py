"""Many margins under a pure guarantee: Laplace noise on some of the tables, from which all margins are estimated.

Proof: ``docs/proofs/margins.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from discreet.contract.law import Law
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import ApproxDP, Guarantee, PureDP
from discreet.core.noise.truth import Truth, generator
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.calibration import refuse_nothing
from discreet.mechanisms.gaussian import GaussianLaw
from discreet.mechanisms.laplace import LaplaceLaw, LaplaceProfile
from discreet.mechanisms.tables.components import Axes, below, centred, centred_share, lifted, shape_of
from discreet.mechanisms.tables.margin_scales import direct_shares
from discreet.mechanisms.tables.margins_noise import Component, MarginsNoise, Workload

__all__ = ["MarginsLaplace"]

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
