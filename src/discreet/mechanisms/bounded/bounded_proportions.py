"""The bounded proportions mechanism: shares of categories that are possible and add up to one."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from discreet.contract.mechanism import Mechanism
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee
from discreet.core.noise.truth import Truth, float_truth, generator
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.bounded.boundary_inflated import BoundaryInflatedLaplace
from discreet.mechanisms.bounded.bounded_laplace import BoundedLaplace
from discreet.mechanisms.bounded.domain import StructuredLaw
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.tables.clipping import onto_simplex

if TYPE_CHECKING:
    from discreet.core.exact import Exact
    from discreet.core.privacy_profile import Profile

__all__ = ["BoundedProportions", "HistogramTree"]


# ---- Histogram tree: nodes above the cells of a histogram, and the consistent values nearest to noisy ones (hay2010)


Array = NDArray[np.float64]


class HistogramTree:
    """A tree of any branching over any number of leaves; the root is the whole and is not measured.

    Parameters
    ----------
    leaves
        Number of cells. Where it is no power of ``branching`` the last node of a level has fewer children.
    branching
        Largest number of children of a node.

    Examples
    --------
    >>> tree = HistogramTree(4, 2)
    >>> tree.levels, tree.nodes
    (2, 6)
    >>> tree.sums(np.array([1, 2, 3, 4])).tolist()
    [3, 7, 1, 2, 3, 4]
    """

    def __init__(self, leaves: int, branching: int) -> None:
        self.branching = requirements.positive_integer("branching", branching, at_least=2)
        sizes = [requirements.positive_integer("leaves", leaves, at_least=2)]
        while sizes[0] > self.branching:
            sizes.insert(0, -(-sizes[0] // self.branching))
        self._sizes = sizes  # from below the root down to the leaves
        self._variances = self._bottom_up_variances()

    @property
    def levels(self) -> int:
        """Measured levels; a record counts once in each."""
        return len(self._sizes)

    @property
    def nodes(self) -> int:
        """Measured nodes, from below the root down to the leaves, level by level."""
        return sum(self._sizes)

    def _parents(self, level: int) -> NDArray[np.intp]:
        """Index of the parent, one level up, of each node; the root for the first level."""
        if level == 0:
            return np.zeros(self._sizes[0], dtype=np.intp)
        return np.arange(self._sizes[level]) // self.branching

    def _gathered(self, values: Any, level: int, parents: int) -> Any:
        """Sums over the children of each parent, along the last axis."""
        starts = np.searchsorted(self._parents(level), np.arange(parents))
        return np.add.reduceat(values, starts, axis=-1)

    def sums(self, cells: NDArray[Any]) -> NDArray[Any]:
        """The value of every node; exact where the cells are integers or fractions."""
        rows = [cells]
        for level in range(self.levels - 1, 0, -1):
            rows.insert(0, self._gathered(rows[0], level, self._sizes[level - 1]))
        return np.concatenate(rows, axis=-1)

    def _bottom_up_variances(self) -> list[Array]:
        """Variance of each node's best estimate from its own subtree, in units of one measurement's."""
        variances = [np.ones(self._sizes[-1])]
        for level in range(self.levels - 1, 0, -1):
            below = self._gathered(variances[0], level, self._sizes[level - 1])
            variances.insert(0, below / (1 + below))
        return variances

    def consistent(self, noisy: Array, total: float = 1.0) -> Array:
        """Cells that add up at every node, given noisy nodes; never negative.

        Bottom up, a node's own measurement and the sum of its children are weighted by their precision; top down, what
        a parent has more than its children is shared among them by their variance. On a full tree these are hay2010's
        formulas. A negative node becomes 0 and its siblings are rescaled to their parent (liu2019, footnote 3).
        """
        rows = self._split(noisy)
        for level in range(self.levels - 1, 0, -1):
            below = self._gathered(self._variances[level], level, self._sizes[level - 1])
            children = self._gathered(rows[level], level, self._sizes[level - 1])
            rows[level - 1] = (below * rows[level - 1] + children) / (1 + below)
        above = np.full((*noisy.shape[:-1], 1), float(total))
        for level in range(self.levels):
            above = self._shared(rows[level], above, level)
        return above

    def _split(self, noisy: Array) -> list[Array]:
        ends = np.cumsum(self._sizes)[:-1]
        return [np.array(row) for row in np.split(noisy, ends, axis=-1)]

    def _shared(self, estimates: Array, above: Array, level: int) -> Array:
        parents, count = self._parents(level), above.shape[-1]
        share = self._variances[level] / self._gathered(self._variances[level], level, count)[parents]
        missing = above - self._gathered(estimates, level, count)
        values = np.maximum(estimates + share * missing[..., parents], 0.0)
        found = self._gathered(values, level, count)
        children = self._gathered(np.ones(self._sizes[level]), level, count)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(found > 0, above / found, 0.0)
        even = np.where(found > 0, 0.0, above / children)
        return np.asarray(values * factor[..., parents] + even[..., parents])


Rng = int | np.random.Generator | None
Method = Literal["rescale", "all_but_one", "universal_histogram", "simplex"]
Noise = Literal["bounded", "inflated", "laplace"]


@dataclass(frozen=True, kw_only=True)
class BoundedProportions(Mechanism):
    """A vector of K proportions by bounded noise, brought to add up to one (liu2019 section 4.2).

    Parameters
    ----------
    scale
        Scale of the noise on every measured number.
    categories
        Number of proportions K.
    method
        ``"rescale"``: noise on every proportion, then division by their sum. ``"all_but_one"``: noise on all but one,
        which takes the rest. ``"universal_histogram"``: noise on every node of a tree above the proportions, made
        consistent from the leaves up and from the root, which is 1, down; negative nodes become 0 and their siblings
        are rescaled (liu2019, footnote 3). ``"simplex"``: noise on every proportion, then the nearest point of the
        simplex.
    noise
        ``"bounded"`` (conditioned on [0, 1]), ``"inflated"`` (clamped to it) or ``"laplace"`` (neither).
    branching
        Children of a node of the tree.
    left_out
        Index of the proportion that takes the rest.
    grid
        Power of two to which noisy numbers are rounded.

    Guarantee
    ---------
    That of the noise, for the moves of the measured numbers: a record moves one proportion by 1/n (add/remove) or two
    of them (replace-one), and in the tree one or two nodes of each level. What follows is post-processing. Proof:
    ``docs/proofs/bounded_laplace.md``.

    Examples
    --------
    >>> from discreet import PureDP, Sensitivity
    >>> moves = Sensitivity(moves=(0.01, 0.01), dimension=4)
    >>> mechanism = BoundedProportions.calibrate(PureDP(1.0), moves, method="universal_histogram")
    >>> noisy = mechanism.draw([0.1, 0.2, 0.3, 0.4], rng=1)
    >>> round(float(noisy.sum()), 12), bool(noisy.min() >= 0)
    (1.0, True)
    """

    name: ClassVar[str] = "bounded_proportions"
    scale: float
    categories: int
    method: Method = "rescale"
    noise: Noise = "bounded"
    branching: int = 2
    left_out: int = -1
    grid: float | None = None
    _tree: HistogramTree | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", requirements.positive("scale", self.scale))
        size = requirements.positive_integer("categories", self.categories, at_least=2)
        object.__setattr__(self, "categories", size)
        for name, choices in (("method", get_args(Method)), ("noise", get_args(Noise))):
            requirements.one_of(name, getattr(self, name), choices)
        if self.noise == "laplace" and self.method != "simplex":
            raise InvalidParameter(
                "noise", self.noise, f"leaves [0, 1], which {self.method!r} does not mend", 'Use method="simplex".'
            )
        requirements.instance("left_out", self.left_out, int, "left_out=-1")
        if not -size <= self.left_out < size:
            raise InvalidParameter("left_out", self.left_out, f"must index {size} proportions", "Pass left_out=0.")
        tree = HistogramTree(size, self.branching) if self.method == "universal_histogram" else None
        object.__setattr__(self, "_tree", tree)
        _ = self._inner  # refuses a bad grid at construction

    @classmethod
    def calibrate(
        cls,
        guarantee: Guarantee,
        sensitivity: Sensitivity,
        *,
        categories: int | None = None,
        method: Method = "rescale",
        noise: Noise | None = None,
        branching: int = 2,
        left_out: int = -1,
        grid: float | None = None,
    ) -> Self:
        """The least noise that meets ``guarantee`` for the moves of the proportions."""
        size = sensitivity.dimension if categories is None else categories
        if size is None:
            raise InvalidParameter(
                "categories", None, "the number of proportions is needed", "Pass categories=…, or a dimension."
            )
        kind: Noise = noise or ("laplace" if method == "simplex" else "bounded")
        fixed: dict[str, Any] = {
            "categories": size,
            "method": method,
            "noise": kind,
            "branching": branching,
            "left_out": left_out,
            "grid": grid,
        }
        draft = cls(scale=1.0, **fixed)
        measured = draft._measured(sensitivity)
        if kind == "laplace":
            return cls(scale=Laplace.calibrate(guarantee, measured).scale, **fixed)
        bounded = BoundedLaplace if kind == "bounded" else BoundaryInflatedLaplace
        return cls(scale=bounded.calibrate(guarantee, measured, bounds=(0, 1)).scale, **fixed)

    @property
    def _inner(self) -> Mechanism:
        """The mechanism that protects each measured number."""
        if self.noise == "laplace":
            return Laplace(self.scale, self.grid)
        kind = BoundedLaplace if self.noise == "bounded" else BoundaryInflatedLaplace
        return kind(scale=self.scale, bounds=(0.0, 1.0), grid=self.grid)

    def _measured(self, sensitivity: Sensitivity) -> Sensitivity:
        """The sensitivity of the numbers that are measured: every level of the tree moves as the leaves do."""
        requirements.instance("sensitivity", sensitivity, Sensitivity, "Sensitivity(moves=…), for example")
        levels, size = 1, self.categories
        if self._tree is not None:
            levels, size = self._tree.levels, self._tree.nodes
        elif self.method == "all_but_one":
            size = self.categories - 1
        if sensitivity.moves is not None:
            moves = sensitivity.moves[: max(size, 1)] * levels
            return Sensitivity(moves=moves, dimension=size)
        total = levels * Fraction(sensitivity.require_l1())
        number = float(total)
        up = number if Fraction(number) >= total else float(np.nextafter(number, np.inf))
        return Sensitivity(l1=up, dimension=size)

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """The privacy curve of the measured numbers."""
        return self._inner.profile(self._measured(sensitivity))

    def check(self, exact: Exact) -> None:
        """The value must have one entry per category."""
        if float_truth(exact.value).shape != (self.categories,):
            raise InvalidParameter(
                "value", "…", f"must be a vector of {self.categories} proportions", "Match the categories."
            )

    def law(self, truth: Truth) -> StructuredLaw:
        """The distribution of the output, known through draws."""
        return StructuredLaw(self, truth, np.zeros(self.categories), np.ones(self.categories))

    def _queries(self, truth: Truth) -> NDArray[Any]:
        """The exact numbers to measure: proportions, all but one of them, or the nodes of the tree."""
        if float_truth(truth).shape != (self.categories,):
            raise InvalidParameter("truth", "…", f"must be {self.categories} proportions", "Match the categories.")
        values = np.array([Fraction(value) for value in np.asarray(truth, dtype=object).ravel()], dtype=object)
        if self._tree is not None:
            return self._tree.sums(values)
        return np.delete(values, self.left_out) if self.method == "all_but_one" else values

    def measure(self, truth: Truth, *, rng: Rng = None) -> Array:
        """Noise on the numbers that are measured."""
        return np.asarray(self._inner.draw(self._queries(truth), rng=rng))

    def present(self, measurement: Any, *, rng: Rng = None) -> Array:
        """Proportions that are not negative and add up to one; measurements along the last axis."""
        noisy = np.asarray(measurement, dtype=float)
        if self._tree is not None:
            return self._tree.consistent(noisy)
        if self.method == "simplex":
            return onto_simplex(noisy, 1.0)
        if self.method == "all_but_one":
            return self._completed(noisy)
        return _rescaled(noisy)

    def _completed(self, noisy: Array) -> Array:
        """Insert the rest; where the others exceed one, the rest is 0 and they are rescaled."""
        kept = np.maximum(noisy, 0.0)
        total = kept.sum(axis=-1, keepdims=True)
        kept = np.where(total > 1, kept / np.where(total > 0, total, 1.0), kept)
        rest = np.maximum(1 - kept.sum(axis=-1), 0.0)
        index = self.left_out % self.categories
        return np.insert(kept, index, rest, axis=-1)

    def draw(self, truth: Truth, *, rng: Rng = None) -> Array:
        """One output."""
        return self.present(self.measure(truth, rng=rng))

    def simulate(self, truth: Truth, size: int, rng: Rng) -> Array:
        """``size`` outputs for one truth, in floating point, for studies: an array of size × categories."""
        queries = self._queries(truth).astype(float)
        noisy = self._inner.law(queries).sample(size, rng=generator(0 if rng is None else rng))
        return self.present(noisy)

    def confidence_interval(self, value: Any, level: float) -> tuple[Array, Array]:
        """Intervals for the true proportions behind a *measurement*, one by one.

        The proportion that takes the rest has the interval of the others' sum, each at a stricter level.
        """
        measured = np.asarray(value, dtype=float)
        if self._tree is not None:
            measured = measured[..., -self.categories :]
        if self.method != "all_but_one":
            low, high = self._inner.confidence_interval(measured, level)
            return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
        low, high = self._inner.confidence_interval(measured, level)
        strict = 1 - (1 - level) / (self.categories - 1)
        below, above = self._inner.confidence_interval(measured, strict)
        rest = np.clip(1 - np.sum(above, axis=-1), 0, 1), np.clip(1 - np.sum(below, axis=-1), 0, 1)
        index = self.left_out % self.categories
        return np.insert(low, index, rest[0], axis=-1), np.insert(high, index, rest[1], axis=-1)

    def coordinate(self, measured: Array, index: int) -> tuple[float, Mechanism]:
        """A measured proportion, and what protected it: a leaf of the tree, or one of those that are not left out."""
        if self.method != "all_but_one":
            return float(measured[index - self.categories]), self._inner
        left_out = self.left_out % self.categories
        if index == left_out:
            raise InvalidParameter("category", index, "was not measured: it takes the rest", "Use method='rescale'.")
        return float(measured[index - (index > left_out)]), self._inner

    def expected_error(self, level: float = 0.95) -> Any:
        """How far from the truth a measured number stays with probability ``level``, at the worst truth."""
        return self._inner.expected_error(level)

    def parameters(self) -> dict[str, Any]:
        """The parameters as JSON-ready data."""
        names = ("scale", "categories", "method", "noise", "branching", "left_out", "grid")
        return {name: getattr(self, name) for name in names}


def _rescaled(noisy: Array) -> Array:
    """Divide by the sum; a vector of zeros says nothing, so it becomes uniform."""
    total = noisy.sum(axis=-1, keepdims=True)
    return np.where(total > 0, noisy / np.where(total > 0, total, 1.0), 1 / noisy.shape[-1])
