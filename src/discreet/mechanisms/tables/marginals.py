"""Many margins from one release: Gaussian noise on the components of the margins of a table.

Proof: ``docs/proofs/margins.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.contract import Mechanism
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import GaussianDP, Guarantee
from discreet.core.noise.law import Truth, generator
from discreet.core.protection import Neighbours
from discreet.core.sensitivity import Sensitivity, root_up
from discreet.mechanisms.gaussian import GaussianLaw, GaussianProfile, gaussian_scale
from discreet.mechanisms.tables.components import (
    Axes,
    below,
    centred,
    centred_share,
    scaled_centred,
    shape_of,
)
from discreet.mechanisms.tables.margin_scales import Accuracy, component_variances, variance_shares

if TYPE_CHECKING:
    from discreet.core.exact import Exact

__all__ = ["Component", "MarginsGaussian", "Workload"]

Array = NDArray[np.float64]
Rng = int | np.random.Generator | None
_MOST_PATTERNS = 14
"""Up to this many axes every pattern of changed axes is tried; beyond, a bound for all of them serves."""
_SLACK = Fraction(2**30 + 1, 2**30)
"""Covers the rounding of sums of at most 2²⁰ non-negative floats, which is below 2⁻³²."""
_MOST_COMPONENTS = 2**20


@dataclass(frozen=True)
class Component:
    """One measured part: of counts (``layer`` 0) or of sums (1), along some axes, with the noise of its whole numbers.

    ``scale`` is the standard deviation of the noise on the component times the number of its cells.
    """

    layer: int
    axes: Axes
    scale: float


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What is wanted of one table: which margins, and how accurate each is to be.

    Parameters
    ----------
    sizes
        Number of labels along every axis, two or more.
    tables
        Wanted margins, each as the positions of its axes; the empty one is the total.
    weights
        Weight of the mean squared error of each table.
    accuracy
        Whether the weighted ``"sum"`` of the tables' errors is made least, or the ``"largest"``.
    total_public
        Whether the number of rows is known without noise.
    reaches
        How far one row moves a cell: 1 for counts; then, where sums are released too, the largest size of a value.

    Examples
    --------
    >>> Workload(sizes=(8, 15, 2), tables=((0, 1), (1, 2)), weights=(1.0, 1.0)).cells
    150
    """

    sizes: tuple[int, ...]
    tables: tuple[Axes, ...]
    weights: tuple[float, ...]
    accuracy: Accuracy = "sum"
    total_public: bool = False
    reaches: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        if any(size < 2 for size in self.sizes):
            raise InvalidParameter("sizes", self.sizes, "must be two labels or more", "Leave other axes out.")
        if len(self.weights) != len(self.tables) or not all(weight > 0 for weight in self.weights):
            raise InvalidParameter("weights", self.weights, "must be positive, one for each table", "Pass [1, 2].")
        requirements.one_of("accuracy", self.accuracy, ("sum", "largest"))

    @property
    def cells(self) -> int:
        """Number of cells of all wanted tables."""
        return sum(math.prod(shape_of(self.sizes, table)) for table in self.tables)

    def layout(self) -> tuple[tuple[int, Axes], ...]:
        """Layer and axes of everything that is measured; a public total is not."""
        layers = range(len(self.reaches))
        parts = [(layer, axes) for layer in layers for axes in below(self.tables)]
        return tuple(part for part in parts if not (self.total_public and part == (0, ())))


@dataclass(frozen=True, kw_only=True)
class MarginsGaussian(Mechanism):
    """Gaussian noise on the components of margins: every margin follows, and all of them add up.

    The exact value is a vector: the margins of one table along the axes of every component, one after another. The
    output has the noisy components in the same places.

    Guarantee
    ---------
    One row has squared length p_A = ∏(1 − 1/d) in the component A. So adding or removing a row costs exactly
    μ² = Σ_A p_A/σ_A², whichever row it is, and the release is μ-GDP, tight. Replacing one costs at most the largest,
    over sets S of changed axes, of 2·Σ_A (p_A/σ_A²)·[1 − ∏_{i∈A∩S}(−1/(d_i − 1))]. A unit of k rows costs k times μ.

    Parameters
    ----------
    sizes
        Number of labels along every axis.
    components
        What is measured, with its noise.
    replaced
        Whether a row may be replaced by another one; otherwise rows come or go.
    reaches
        How far one row moves a cell of each layer.

    Examples
    --------
    >>> from discreet import GaussianDP
    >>> workload = Workload(sizes=(8, 15, 2), tables=((), (0,), (1,), (0, 1)), weights=(1.0,) * 4)
    >>> one_row = Sensitivity(l1=4.0, l2=2.0)  # the total, two margins of one axis, one of two
    >>> mechanism = MarginsGaussian.calibrate(GaussianDP(1.0), one_row, workload=workload)
    >>> round(mechanism.guarantee(one_row).mu, 12), round(mechanism.standard_error((0, 1)), 3)
    (1.0, 1.744)
    """

    sizes: tuple[int, ...]
    components: tuple[Component, ...]
    replaced: bool = False
    reaches: tuple[int, ...] = (1,)
    name: ClassVar[str] = "margins_gaussian"
    own_kind: ClassVar[type[Guarantee]] = GaussianDP

    def __post_init__(self) -> None:
        sizes = tuple(requirements.positive_integer("sizes", size, at_least=2) for size in self.sizes)
        reaches = tuple(requirements.positive_integer("reaches", reach) for reach in self.reaches)
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "reaches", reaches)
        object.__setattr__(self, "components", tuple(self._checked(one) for one in self.components))
        requirements.instance("replaced", self.replaced, bool, "replaced=True or False")
        if not 0 < len(self.components) <= _MOST_COMPONENTS:
            raise InvalidParameter(
                "components", len(self.components), f"must be 1 to {_MOST_COMPONENTS}", "Ask for fewer tables."
            )

    def _checked(self, given: Any) -> Component:
        one = given if isinstance(given, Component) else Component(**given)
        axes = tuple(one.axes)
        if sorted(set(axes)) != list(axes) or not set(axes) <= set(range(len(self.sizes))):
            raise InvalidParameter("components", axes, "must be positions of axes in order", "Check the layout.")
        if one.layer not in range(len(self.reaches)):
            raise InvalidParameter("components", one.layer, "must name a layer with a reach", "Check the layout.")
        return Component(one.layer, axes, requirements.positive("scale", one.scale))

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
                Component(layer, axes, float(roots[axes]) * wanted.reaches[layer] * _cells(wanted.sizes, axes))
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

    @property
    def layout(self) -> tuple[tuple[int, Axes], ...]:
        """Layer and axes of every component, in the order of the vector."""
        return tuple((one.layer, one.axes) for one in self.components)

    def check(self, exact: Exact) -> None:
        """Refuse a value that is no stack of margins, and neighbours that the cost was not computed for."""
        if getattr(exact.statistic, "layout", None) != self.layout:
            raise InvalidParameter(
                "mechanism", self.name, "protects the margins of one table, in its own order", "Use Margins.exact(…)."
            )
        if (exact.neighbours is Neighbours.REPLACE_ONE) != self.replaced:
            raise InvalidParameter(
                "neighbours", exact.neighbours.value, "are not those of the mechanism", "Calibrate it with them."
            )

    def profile(self, sensitivity: Sensitivity) -> GaussianProfile:
        """The exact privacy curve; ``sensitivity`` is that of the stacked margins: a row moves one cell of each."""
        return GaussianProfile(Fraction(self._mu(sensitivity)))

    def _mu(self, sensitivity: Sensitivity) -> float:
        """μ, rounded up: the rows of a unit, or the pairs that are exchanged, times the cost of one."""
        each = sum(self.reaches[one.layer] for one in self.components) * (2 if self.replaced else 1)
        rows = Fraction(sensitivity.require_l1()) / each
        return root_up(_dyadic_above(self._squared_cost * rows**2))

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

    def blocks(self, vector: Any) -> Iterator[tuple[Component, NDArray[Any]]]:
        """The parts of a stacked vector, each in the shape of its margin."""
        array, start = np.asarray(vector), 0
        for one in self.components:
            shape = shape_of(self.sizes, one.axes)
            yield one, array[start : start + math.prod(shape)].reshape(shape)
            start += math.prod(shape)

    @property
    def dimension(self) -> int:
        """Length of the stacked vector."""
        return sum(_cells(self.sizes, one.axes) for one in self.components)

    def measure(self, truth: Truth, *, rng: Rng = None) -> Array:
        """Noisy components.

        The component times its number of cells is a whole number, so the noise on it is drawn exactly. Only the centred
        margin meets the noise: what the row moves besides would cost more. The noise is centred afterwards.
        """
        whole = [scaled_centred(block).ravel() for _, block in self.blocks(truth)]
        cells = [_cells(self.sizes, one.axes) for one in self.components]
        scales = np.repeat([one.scale for one in self.components], cells)
        source = None if rng is None else generator(rng)
        noisy = np.asarray(GaussianLaw(np.concatenate(whole), scales).sample(rng=source))
        return np.concatenate([(centred(block) / block.size).ravel() for _, block in self.blocks(noisy)])

    def draw(self, truth: Truth, *, rng: Rng = None) -> Array:
        """One output."""
        return self.measure(truth, rng=rng)

    def law(self, truth: Truth) -> GaussianLaw:
        """The law of every coordinate by itself. Those of one component depend on each other: they add up to 0."""
        location = [centred(block.astype(float)).ravel() for _, block in self.blocks(truth)]
        deviations = [self._deviation(one) * math.sqrt(centred_share(self.sizes, one.axes)) for one in self.components]
        cells = [_cells(self.sizes, one.axes) for one in self.components]
        return GaussianLaw(np.concatenate(location), np.repeat(deviations, cells))

    def _deviation(self, one: Component) -> float:
        return one.scale / _cells(self.sizes, one.axes)

    def variances(self, layer: int = 0) -> Mapping[Axes, float]:
        """Noise variance of each component of a layer, before centring."""
        return {one.axes: self._deviation(one) ** 2 for one in self.components if one.layer == layer}

    def standard_error(self, table: Axes, layer: int = 0) -> float:
        """Exact standard error of every cell of a margin, from the noise."""
        found, variances = 0.0, self.variances(layer)
        for axes in below([table]):
            spread = math.prod(self.sizes[axis] for axis in table if axis not in axes)
            found += variances.get(axes, 0.0) * float(centred_share(self.sizes, axes)) / spread**2
        return math.sqrt(found)

    def expected_error(self, level: float = 0.95) -> float:
        """The noise of a cell of any measured count stays below this with probability ``level``."""
        worst = max(self.standard_error(one.axes) for one in self.components if one.layer == 0)
        return float(np.max(GaussianLaw(0.0, worst).quantile((1 + level) / 2)))

    def parameters(self) -> dict[str, Any]:
        """The parameters as JSON-ready data."""
        return {
            "sizes": list(self.sizes),
            "components": [{**vars(one), "axes": list(one.axes)} for one in self.components],
            "replaced": self.replaced,
            "reaches": list(self.reaches),
        }


def _cells(sizes: Sequence[int], axes: Axes) -> int:
    return math.prod(shape_of(sizes, axes))


def _dyadic_above(ratio: Fraction) -> Fraction:
    """A fraction with a power of two below, at most 2⁻⁹⁶ larger: sums of thousands of them stay short."""
    shift = 96 - (ratio.numerator.bit_length() - ratio.denominator.bit_length())
    scaled = ratio * Fraction(2) ** shift
    return Fraction(math.ceil(scaled)) / Fraction(2) ** shift
