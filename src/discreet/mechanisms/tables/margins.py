"""Margins noise: what all mechanisms for many margins of one table share, and the workload they serve."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.door import Rng
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP
from discreet.core.noise.sampler import Truth, generator
from discreet.core.protection import Neighbours
from discreet.core.sensitivity import Exact, Sensitivity, root_up
from discreet.mechanisms.gaussian import GaussianLaw, GaussianProfile, gaussian_scale
from discreet.mechanisms.laplace import LaplaceLaw, LaplaceProfile
from discreet.mechanisms.loss_distribution import refuse_nothing
from discreet.mechanisms.mechanism import Law, Mechanism

if TYPE_CHECKING:
    from scipy.sparse import csr_array


# ---- Components of margins: every margin of a table as a sum of parts that do not overlap
#
# The *component* of a set A of axes is what the A-margin says beyond all smaller margins: the margin, centred along
# each
# of its axes. A margin W is the sum of the components below it, each spread evenly over the axes it lacks. No matrix is
# ever built: everything is a mean along an axis. Proof: ``docs/proofs/margins.md``.


Array = NDArray[np.float64]
Axes = tuple[int, ...]
"""Positions of some axes, in increasing order; the empty one stands for the total."""


def below(tables: Iterable[Axes]) -> tuple[Axes, ...]:
    """All margins of some tables, the smallest first.

    Examples
    --------
    >>> below([(0, 2), (1,)])
    ((), (0,), (1,), (2,), (0, 2))
    """
    found = {part for table in tables for size in range(len(table) + 1) for part in combinations(table, size)}
    return tuple(sorted(found, key=lambda axes: (len(axes), axes)))


def shape_of(sizes: Sequence[int], axes: Axes) -> tuple[int, ...]:
    """Shape of a margin."""
    return tuple(sizes[axis] for axis in axes)


def centred_share(sizes: Sequence[int], axes: Axes) -> Fraction:
    """p = ∏(1 − 1/d): squared length of one row in a component, and the part of the noise that centring leaves."""
    return math.prod((Fraction(sizes[axis] - 1, sizes[axis]) for axis in axes), start=Fraction(1))


def centred(margin: Array, first: int = 0) -> Array:
    """The component of a margin: its mean along every axis, from the ``first`` on, removed."""
    part = margin
    for axis in range(first, margin.ndim):
        part = part - part.mean(axis=axis, keepdims=True)
    return part


def lifted(component: Array, sizes: Sequence[int], axes: Axes, table: Axes) -> Array:
    """A component (or a stack of them) with an axis of length 1 for each axis of the table that it lacks."""
    spread = [sizes[axis] if axis in axes else 1 for axis in table]
    return component.reshape((*component.shape[: component.ndim - len(axes)], *spread))


def scaled_centred(margin: NDArray[Any]) -> NDArray[Any]:
    """The component times the number of cells: d·x − Σx along every axis, in whole numbers."""
    # |d·x − Σx| ≤ d·Σ|x| along every axis in turn; beyond 64 bits Python's own integers take over.
    largest = math.prod(margin.shape) * int(np.sum(np.abs(margin)))
    part = margin.astype(np.int64 if largest < 2**62 else object)
    for axis, size in enumerate(margin.shape):
        part = part * size - part.sum(axis=axis, keepdims=True)
    return np.asarray(part)


def margin_of(components: Mapping[Axes, Array], sizes: Sequence[int], table: Axes) -> Array:
    """A margin from the components below it."""
    total = np.zeros(shape_of(sizes, table))
    for axes in below([table]):
        if axes in components:
            others = math.prod(sizes[axis] for axis in table if axis not in axes)
            total += lifted(components[axes], sizes, axes, table) / others
    return total


def cell_covariance(
    variances: Mapping[Axes, float], sizes: Sequence[int], one: Mapping[int, int], other: Mapping[int, int]
) -> float:
    """Noise covariance of two cells, each given by its position along its own axes.

    ``variances`` are those of the noise in each component, before it is centred.
    """
    shared = tuple(sorted(set(one) & set(other)))
    found = 0.0
    for axes in below([shared]):
        if axes in variances:
            alike = math.prod((one[axis] == other[axis]) - 1 / sizes[axis] for axis in axes)
            spread = math.prod(sizes[axis] for cell in (one, other) for axis in cell if axis not in axes)
            found += variances[axes] * alike / spread
    return found


# ---- Scales of margins: how to split one budget over components so that the wanted tables are most accurate
#
# A search like any calibration, and not trusted: the door verifies what comes of it.


Accuracy = Literal["sum", "largest"]
_ROUNDS = 5_000
_MOST_CANDIDATES = 256
_SMALL, _NOTHING = -3.0, 1e-3
"""Where the search starts for tables that are not wanted, and the share below which a table is not measured at all."""
_POWERS = (4.0, 16.0, 64.0, 256.0)
"""Powers whose sums lead from the sum of errors to the largest of them."""
_GAP = 1e-7
"""The search for the least largest variance stops within this of the optimum, which duality bounds."""


@dataclass(frozen=True)
class Shares:
    """The part of each component's variance that reaches a cell of each table, and a row's cost in each component."""

    components: tuple[Axes, ...]
    of_tables: csr_array
    cost: Array


def variance_shares(sizes: Sequence[int], tables: Sequence[Axes]) -> Shares:
    """Cell variance of table W is Σ σ_A²·p_A/∏d² over the components A below it, with d of the axes that A lacks."""
    from scipy.sparse import csr_array

    components = below(tables)
    column = {axes: position for position, axes in enumerate(components)}
    cost = np.array([float(centred_share(sizes, axes)) for axes in components])
    entries, rows, columns = [], [], []
    for row, table in enumerate(tables):
        for axes in below([table]):
            spread = math.prod(sizes[axis] for axis in table if axis not in axes)
            entries.append(cost[column[axes]] / spread**2)
            rows.append(row)
            columns.append(column[axes])
    shape = (len(tables), len(components))
    return Shares(components, csr_array((entries, (rows, columns)), shape=shape), cost)


def component_variances(shares: Shares, weights: Array, accuracy: Accuracy) -> Array:
    """Noise variances of the components, for a row that costs μ² = 1 in all.

    ``"sum"`` makes the weighted sum of cell variances least, in closed form: with v = Σ w·share, σ² ∝ √(p/v) (Xiao et
    al., NeurIPS 2023). ``"largest"`` makes the largest weighted cell variance least: the sum for those weights on the
    tables that make it largest, since the two problems are dual.
    """
    if accuracy == "sum":
        return _least_sum(shares, weights)
    chosen = np.full(weights.size, 1 / weights.size)
    for _ in range(_ROUNDS):
        variances = _least_sum(shares, chosen * weights)
        cells = weights * (shares.of_tables @ variances)
        average = float(chosen @ cells)  # no choice of variances can do better than this for all tables at once
        if cells.max() <= average * (1 + _GAP):
            break
        chosen *= cells / average
        chosen /= chosen.sum()
    return variances


def _least_sum(shares: Shares, weights: Array) -> Array:
    value = shares.of_tables.T @ weights / shares.cost  # v of one unit of σ²·p
    # A component that no weighted table needs still gets finite noise: next to none of the budget.
    value = np.maximum(value, 1e-12 * value.max())
    per_cost = 1 / np.sqrt(value)
    return np.asarray(per_cost * float(np.sum(shares.cost / per_cost)))


def direct_shares(
    sizes: Sequence[int], tables: Sequence[Axes], weights: Array, accuracy: Accuracy = "sum"
) -> dict[Axes, float]:
    """Shares of a pure budget for tables that are measured directly; those without a share are not measured.

    A table W with share e tells about each component A below it with variance ∏d/e² (d of the axes of W that A lacks),
    and several tables tell more together. The weighted cell variances are not convex in the shares, so the search for
    their least sum starts from the wanted tables, from the largest ones alone, and from all margins, and keeps the
    best. The search for the least of the largest goes on from there with power sums of higher and higher powers.
    """
    shares = variance_shares(sizes, tables)
    candidates = shares.components if len(shares.components) <= _MOST_CANDIDATES else tuple(dict.fromkeys(tables))
    told = np.array(
        [
            [
                0.0 if not set(axes) <= set(table) else 1 / math.prod(sizes[a] for a in table if a not in axes)
                for axes in shares.components
            ]
            for table in candidates
        ]
    )

    def cost(logs: Array, power: float) -> tuple[float, Array]:
        """Logarithm of the power mean of weighted cell variances, and its slope."""
        parts = np.exp(logs - logs.max())
        split = parts / parts.sum()
        precision = split**2 @ told
        cells = weights * (shares.of_tables @ (1 / precision))
        largest = float(cells.max())
        powers = (cells / largest) ** power
        pull = powers / cells / float(powers.sum())
        wanted = shares.of_tables.T @ (pull * weights)
        slope = 2 * split * (told @ (-wanted / precision**2))
        return math.log(largest) + math.log(float(powers.sum())) / power, split * (slope - float(slope @ split))

    largest = [not any(set(one) < set(other) for other in candidates) for one in candidates]
    starts = [[one in tables for one in candidates], largest, [True] * len(candidates)]
    found = [_descended(lambda x: cost(x, 1.0), np.where(np.array(start) | largest, 0.0, _SMALL)) for start in starts]
    last = 1.0
    if accuracy == "largest":
        for last in _POWERS:
            found = [_descended(lambda x, power=last: cost(x, power), logs) for logs in found]  # type: ignore[misc]
    best = min(found, key=lambda logs: cost(logs, last)[0])
    split = np.exp(best - best.max())
    split = np.where((split < _NOTHING * split.sum()) & ~np.array(largest), 0.0, split)
    return {table: float(part) for table, part in zip(candidates, split / split.sum(), strict=True) if part > 0}


def _descended(cost: Callable[[Array], tuple[float, Array]], start: Array) -> Array:
    from scipy.optimize import minimize

    return np.asarray(minimize(cost, start, jac=True, method="L-BFGS-B", bounds=[(-30.0, 30.0)] * start.size).x)


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
    """The margins that are wanted of one table, and the accuracy that each is to have.

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
        return sum(self.cells_of(table) for table in self.tables)

    def cells_of(self, axes: Axes) -> int:
        """Number of cells of one margin."""
        return math.prod(shape_of(self.sizes, axes))

    def layout(self) -> tuple[tuple[int, Axes], ...]:
        """Layer and axes of everything that is measured; a public total is not."""
        layers = range(len(self.reaches))
        parts = [(layer, axes) for layer in layers for axes in below(self.tables)]
        return tuple(part for part in parts if not (self.total_public and part == (0, ())))


@dataclass(frozen=True, kw_only=True)
class MarginsNoise(Mechanism):
    """Noise on margins of one table, from which every smaller margin follows.

    The exact value is a vector: the margins of the table along the axes of every component, one after another. The
    output has the noisy components in the same places.

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
    """

    sizes: tuple[int, ...]
    components: tuple[Component, ...]
    replaced: bool = False
    reaches: tuple[int, ...] = (1,)
    _unmeasured: ClassVar[bool] = False
    """True where a scale of 0 may mark a margin that is estimated from others."""

    def __post_init__(self) -> None:
        sizes = tuple(requirements.positive_integer("sizes", size, at_least=2) for size in self.sizes)
        reaches = tuple(requirements.positive_integer("reaches", reach) for reach in self.reaches)
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "reaches", reaches)
        object.__setattr__(self, "components", tuple(self._checked(one) for one in self.components))
        requirements.instance("replaced", self.replaced, bool, "replaced=True or False")
        if not 0 < len(self.components) <= _MOST_COMPONENTS:
            fix = "Ask for fewer tables."
            raise InvalidParameter("components", len(self.components), f"must be 1 to {_MOST_COMPONENTS}", fix)

    def _checked(self, given: Any) -> Component:
        one = given if isinstance(given, Component) else Component(**given)
        axes = tuple(one.axes)
        if sorted(set(axes)) != list(axes) or not set(axes) <= set(range(len(self.sizes))):
            raise InvalidParameter("components", axes, "must be positions of axes in order", "Check the layout.")
        if one.layer not in range(len(self.reaches)):
            raise InvalidParameter("components", one.layer, "must name a layer with a reach", "Check the layout.")
        check = requirements.non_negative if self._unmeasured else requirements.positive
        return Component(one.layer, axes, check("scale", one.scale))

    @property
    def layout(self) -> tuple[tuple[int, Axes], ...]:
        """Layer and axes of every component, in the order of the vector."""
        return tuple((one.layer, one.axes) for one in self.components)

    def check(self, exact: Exact) -> None:
        """Refuse a value that is no stack of margins, and neighbours that the cost was not computed for."""
        if getattr(exact.statistic, "layout", None) != self.layout:
            fix = "Use Margins.exact(…)."
            raise InvalidParameter("mechanism", self.name, "protects the margins of one table, in its own order", fix)
        if (exact.neighbours is Neighbours.REPLACE_ONE) != self.replaced:
            fix = "Calibrate it with them."
            raise InvalidParameter("neighbours", exact.neighbours.value, "are not those of the mechanism", fix)

    def rows_of(self, sensitivity: Sensitivity) -> Fraction:
        """Rows of one unit, or pairs of them that are exchanged: a row moves one cell of every margin by its reach."""
        each = sum(self.reaches[one.layer] for one in self.components) * (2 if self.replaced else 1)
        return Fraction(sensitivity.require_l1()) / each

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
        return sum(self._cells(one.axes) for one in self.components)

    def draw(self, truth: Truth, *, rng: Rng = None) -> Array:
        """One output."""
        return np.asarray(self.measure(truth, rng=rng))

    @abstractmethod
    def variances(self, layer: int = 0) -> Mapping[Axes, float]:
        """Noise variance of each component of a layer, before centring."""

    @abstractmethod
    def reach(self, level: float) -> float:
        """The standard errors that the noise of any combination of cells stays below, with probability ``level``."""

    @abstractmethod
    def simulated(self, table: Axes, size: int, rng: np.random.Generator) -> Array:
        """Noise of a margin, ``size`` times, in floating point."""

    def standard_error(self, table: Axes, layer: int = 0) -> float:
        """Exact standard error of every cell of a margin, from the noise."""
        found, variances = 0.0, self.variances(layer)
        for axes in below([table]):
            spread = math.prod(self.sizes[axis] for axis in table if axis not in axes)
            found += variances.get(axes, 0.0) * float(centred_share(self.sizes, axes)) / spread**2
        return math.sqrt(found)

    def error(self, level: float = 0.95) -> float:
        """The noise of a cell of any measured count stays below this with probability ``level``."""
        worst = max(self.standard_error(one.axes) for one in self.components if one.layer == 0)
        return worst * self.reach(level)

    def _cells(self, axes: Axes) -> int:
        return math.prod(shape_of(self.sizes, axes))


# ---- Many margins under a pure guarantee: Laplace noise on some of the tables, from which all margins are estimated.
#
# Proof: ``docs/proofs/margins.md``.


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
        if epsilon == 0:
            raise InvalidParameter("guarantee", guarantee, "has no epsilon for this noise", "Pass epsilon > 0.")
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
        """A normal distribution with the variance of every coordinate: sums of many Laplace noises, nearly."""
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
        signs = np.array([1.0, -1.0])
        found = np.zeros((patterns.size, 2))
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
        """The distribution of every coordinate by itself. Those of one component are dependent: they add up to 0."""
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
