"""Margins noise: what all mechanisms for many margins of one table share, and the workload they serve."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.contract.mechanism import Mechanism
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.noise.truth import Truth
from discreet.core.protection import Neighbours
from discreet.core.sensitivity import Sensitivity

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from discreet.core.exact import Exact

__all__ = [
    "Accuracy", "Axes", "Component", "MarginsNoise", "Workload", "below", "cell_covariance", "centred",
    "centred_share", "component_variances", "direct_shares", "lifted", "margin_of", "scaled_centred", "shape_of",
    "variance_shares",
]  # fmt: skip


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
    """How much of each component's variance reaches a cell of each table, and what a row costs in each component."""

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


Rng = int | np.random.Generator | None
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
    """Whether a scale of 0 may mark a margin that is estimated from others."""

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
        check = requirements.non_negative if self._unmeasured else requirements.positive
        return Component(one.layer, axes, check("scale", one.scale))

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
        """How many standard errors the noise of any combination of cells stays below, with probability ``level``."""

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

    def expected_error(self, level: float = 0.95) -> float:
        """The noise of a cell of any measured count stays below this with probability ``level``."""
        worst = max(self.standard_error(one.axes) for one in self.components if one.layer == 0)
        return worst * self.reach(level)

    def parameters(self) -> dict[str, Any]:
        """The parameters as JSON-ready data."""
        return {
            "sizes": list(self.sizes),
            "components": [{**vars(one), "axes": list(one.axes)} for one in self.components],
            "replaced": self.replaced,
            "reaches": list(self.reaches),
        }

    def _cells(self, axes: Axes) -> int:
        return math.prod(shape_of(self.sizes, axes))
