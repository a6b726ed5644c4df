"""Margins noise: what all mechanisms for many margins of one table share, and the workload they serve."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.contract.mechanism import Mechanism
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.noise.truth import Truth
from discreet.core.protection import Neighbours
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.tables.components import Axes, below, centred_share, shape_of
from discreet.mechanisms.tables.margin_scales import Accuracy

if TYPE_CHECKING:
    from discreet.core.exact import Exact

__all__ = ["Component", "MarginsNoise", "Workload"]

Array = NDArray[np.float64]
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
