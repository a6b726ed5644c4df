"""The bounded proportions mechanism: shares of categories that are possible and add up to one."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.door import Rng
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee, Profile
from discreet.core.noise.sampler import Truth, float_truth, generator
from discreet.core.numbers import not_below
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms.bounded.laplace import BoundaryInflatedLaplace, BoundedLaplace, Domain
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.mechanism import Mechanism, SampledLaw
from discreet.mechanisms.tables.post_processed import onto_simplex

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
    dropped_rows
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
    >>> from discreet import PureDP
    >>> from discreet.core.sensitivity import Sensitivity
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
    dropped_rows: int = -1
    grid: float | None = None
    _tree: HistogramTree | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", requirements.positive("scale", self.scale))
        size = requirements.positive_integer("categories", self.categories, at_least=2)
        object.__setattr__(self, "categories", size)
        requirements.positive_integer("branching", self.branching, at_least=2)
        for name, choices in (("method", get_args(Method)), ("noise", get_args(Noise))):
            requirements.one_of(name, getattr(self, name), choices)
        if self.noise == "laplace" and self.method != "simplex":
            fix = 'Use method="simplex".'
            raise InvalidParameter("noise", self.noise, f"leaves [0, 1], which {self.method!r} does not mend", fix)
        requirements.instance("dropped_rows", self.dropped_rows, int, "dropped_rows=-1")
        if not -size <= self.dropped_rows < size:
            fix = "Pass dropped_rows=0."
            raise InvalidParameter("dropped_rows", self.dropped_rows, f"must index {size} proportions", fix)
        tree = HistogramTree(size, self.branching) if self.method == "universal_histogram" else None
        object.__setattr__(self, "_tree", tree)
        _ = self._inner  # refuses a bad grid at construction

    @classmethod
    def calibrate(cls, guarantee: Guarantee, sensitivity: Sensitivity, **settings: Any) -> Self:
        """The least noise that meets ``guarantee`` for the moves of the proportions.

        ``settings`` are the other fields of the mechanism; the number of categories and the noise have defaults here.
        """
        given = settings.pop("categories", None)
        size = sensitivity.dimension if given is None else given
        if size is None:
            fix = "Pass categories=…, or a dimension."
            raise InvalidParameter("categories", None, "the number of proportions is needed", fix)
        best: Noise = "laplace" if settings.get("method") == "simplex" else "bounded"
        named = settings.pop("noise", None)
        kind = best if named is None else named
        draft = cls(scale=1.0, categories=size, noise=kind, **settings)
        measured = draft._measured(sensitivity)
        if kind == "laplace":
            return replace(draft, scale=Laplace.calibrate(guarantee, measured).scale)
        bounded = BoundedLaplace if kind == "bounded" else BoundaryInflatedLaplace
        return replace(draft, scale=bounded.calibrate(guarantee, measured, bounds=(0, 1)).scale)

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
            fix = "Match the categories."
            raise InvalidParameter("value", "…", f"must be a vector of {self.categories} proportions", fix)

    def law(self, truth: Truth) -> SampledLaw:
        """The distribution of the output, known through draws."""
        return SampledLaw(self, truth, (0.0, 1.0))

    def _queries(self, truth: Truth) -> NDArray[Any]:
        """The exact numbers to measure: proportions, all but one of them, or the nodes of the tree."""
        if float_truth(truth).shape != (self.categories,):
            raise InvalidParameter("truth", "…", f"must be {self.categories} proportions", "Match the categories.")
        values = np.array([Fraction(value) for value in np.asarray(truth, dtype=object).ravel()], dtype=object)
        if self._tree is not None:
            return self._tree.sums(values)
        return np.delete(values, self.dropped_rows) if self.method == "all_but_one" else values

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
        index = self.dropped_rows % self.categories
        return np.insert(kept, index, rest, axis=-1)

    def draw(self, truth: Truth, *, rng: Rng = None) -> Array:
        """One output."""
        return self.present(self.measure(truth, rng=rng))

    def simulate(self, truth: Truth, size: int, rng: Rng) -> Array:
        """``size`` outputs for one truth, in floating point, for studies: an array of size × categories."""
        queries = self._queries(truth).astype(float)
        noisy = self._inner.law(queries).sample(size, rng=generator(0 if rng is None else rng))
        return self.present(noisy)

    def noise_interval(self, value: Any, level: float) -> tuple[Array, Array]:
        """Intervals for the true proportions behind a *measurement*, one by one.

        The proportion that takes the rest has the interval of the others' sum, each at a stricter level.
        """
        measured = np.asarray(value, dtype=float)
        if self._tree is not None:
            measured = measured[..., -self.categories :]
        if self.method != "all_but_one":
            low, high = self._inner.noise_interval(measured, level)
            return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
        low, high = self._inner.noise_interval(measured, level)
        strict = 1 - (1 - level) / (self.categories - 1)
        below, above = self._inner.noise_interval(measured, strict)
        rest = np.clip(1 - np.sum(above, axis=-1), 0, 1), np.clip(1 - np.sum(below, axis=-1), 0, 1)
        index = self.dropped_rows % self.categories
        return np.insert(low, index, rest[0], axis=-1), np.insert(high, index, rest[1], axis=-1)

    def coordinate(self, measured: Array, index: int) -> tuple[float, Mechanism]:
        """A measured proportion, and what protected it: a leaf of the tree, or one of those that are not left out."""
        if self.method != "all_but_one":
            return float(measured[index - self.categories]), self._inner
        dropped_rows = self.dropped_rows % self.categories
        if index == dropped_rows:
            raise InvalidParameter("category", index, "was not measured: it takes the rest", "Use method='rescale'.")
        return float(measured[index - (index > dropped_rows)]), self._inner

    def error(self, level: float = 0.95) -> Any:
        """The error that a measured number stays within with probability ``level``, at the worst truth."""
        return self._inner.error(level)


def _rescaled(noisy: Array) -> Array:
    """Divide by the sum; a vector of zeros says nothing, so it becomes uniform."""
    total = noisy.sum(axis=-1, keepdims=True)
    return np.where(total > 0, noisy / np.where(total > 0, total, 1.0), 1 / noisy.shape[-1])


# ---- Tied pair: two statistics with a public linear equality between them (liu2019, Remark 1).


@dataclass(frozen=True, kw_only=True)
class TiedPair(Mechanism):
    """Bounded noise on the first of two statistics with a₁·s₁ + a₂·s₂ = c; the second follows.

    Parameters
    ----------
    scale
        Scale of the noise on s₁.
    bounds
        Public domains of s₁ and s₂.
    total
        The public constant c.
    coefficients
        a₁ and a₂, not zero.
    inflated
        Clamp Laplace noise instead of conditioning it on the domain.
    grid
        Power of two to which s₁ is rounded.

    Guarantee
    ---------
    That of bounded (or boundary-inflated) Laplace noise for the change of s₁ inside the domain that both statistics
    allow it, [max(l₁, …), min(u₁, …)]; the second is post-processing.

    Examples
    --------
    >>> pair = TiedPair(scale=0.1, bounds=((0, 1), (0.2, 1)), total=1.0)
    >>> pair.domain
    (0.0, 0.8)
    >>> first, second = pair.draw([0.3, 0.7], rng=1)
    >>> round(float(first + second), 9)
    1.0
    """

    name: ClassVar[str] = "tied_pair"
    scale: float
    bounds: Any
    total: float
    coefficients: Any = (1.0, 1.0)
    inflated: bool = False
    grid: float | None = None
    _inner: BoundedLaplace | BoundaryInflatedLaplace = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        domain = Domain.of(self.bounds)
        if domain.single or len(domain.lows) != 2:
            raise InvalidParameter("bounds", self.bounds, "must be two pairs", "Pass ((0, 1), (0, 1)).")
        object.__setattr__(self, "total", requirements.finite("total", self.total))
        given = requirements.listed("coefficients", self.coefficients, "coefficients=(1, 1)")
        if len(given) != 2:
            raise InvalidParameter("coefficients", given, "must be two numbers", "Pass (1, 1), for example.")
        first, second = (requirements.finite("coefficients", a) for a in given)
        if first == 0 or second == 0:
            raise InvalidParameter("coefficients", self.coefficients, "must not be zero", "Pass (1, 1), for example.")
        requirements.instance("inflated", self.inflated, bool, "inflated=True or False")
        object.__setattr__(self, "coefficients", (first, second))
        object.__setattr__(self, "bounds", tuple(zip(domain.lows, domain.highs, strict=True)))
        kind = BoundaryInflatedLaplace if self.inflated else BoundedLaplace
        object.__setattr__(self, "_inner", kind(scale=self.scale, bounds=self.domain, grid=self.grid))

    @property
    def domain(self) -> tuple[float, float]:
        """The interval that both domains leave the first statistic."""
        (low, high), others = self.bounds
        a, b = self.coefficients
        ends = sorted((self.total - b * end) / a for end in others)
        allowed = max(low, ends[0]), min(high, ends[1])
        if not allowed[0] < allowed[1] or (math.isinf(allowed[0]) and math.isinf(allowed[1])):
            fix = "Check them with the equality."
            raise InvalidParameter("bounds", self.bounds, "leave the first statistic no interval", fix)
        return allowed

    @classmethod
    def calibrate(cls, guarantee: Guarantee, sensitivity: Sensitivity, **options: Any) -> Self:
        """The least noise that meets ``guarantee``; ``options`` are the other parameters of the constructor."""
        draft = cls(scale=1.0, **options)
        own = draft._first(sensitivity)
        return cls(scale=type(draft._inner).calibrate(guarantee, own, bounds=draft.domain).scale, **options)

    def _first(self, sensitivity: Sensitivity) -> Sensitivity:
        """The sensitivity of s₁: the equality gives it its part of the ℓ₁ change of both."""
        # a·Δs₁ = −b·Δs₂ and |Δs₁| + |Δs₂| ≤ Δ together.
        a, b = (abs(Fraction(one)) for one in self.coefficients)
        change = Fraction(sensitivity.require_l1()) * b / (a + b)
        return Sensitivity(l1=not_below(change))

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """The exact privacy curve of the first statistic."""
        return self._inner.profile(self._first(sensitivity))

    def check(self, exact: Exact) -> None:
        """The value must be the pair."""
        if float_truth(exact.value).shape != (2,):
            raise InvalidParameter("value", "…", "must be the two statistics", "Pass [first, second].")

    def law(self, truth: Truth) -> SampledLaw:
        """The distribution of the pair, known through draws; that of the first alone is `first_law`."""
        ends = np.array([self.domain, sorted(self._second(np.asarray(self.domain)))]).T
        return SampledLaw(self, truth, (ends[0], ends[1]))

    def first_law(self, truth: Truth) -> Any:
        """The exact distribution of the first statistic's output."""
        if float_truth(truth).shape != (2,):
            raise InvalidParameter("truth", "…", "must be the two statistics", "Pass both, though one is measured.")
        return self._inner.law(np.asarray(truth, dtype=object)[0])

    def _second(self, first: Array) -> Array:
        a, b = self.coefficients
        return np.asarray((self.total - a * first) / b)

    def draw(self, truth: Truth, *, rng: Rng = None) -> Array:
        """One output: the noisy first statistic, and the second that goes with it."""
        first = np.asarray(self.first_law(truth).sample(rng=rng))
        return np.stack([first, self._second(first)])

    def simulate(self, truth: Truth, size: int, rng: Rng) -> Array:
        """``size`` outputs for one truth, in floating point, for studies."""
        first = np.asarray(self.first_law(truth).sample(size, rng=generator(0 if rng is None else rng)))
        return np.stack([first, self._second(first)], axis=-1)

    def noise_interval(self, value: Any, level: float) -> tuple[Array, Array]:
        """The exact interval of the first statistic, and its image for the second."""
        low, high = self._inner.noise_interval(np.asarray(value, dtype=float)[..., 0], level)
        image = np.sort(np.stack([self._second(np.asarray(low)), self._second(np.asarray(high))], axis=-1), axis=-1)
        return np.stack([np.asarray(low), image[..., 0]], axis=-1), np.stack([np.asarray(high), image[..., 1]], axis=-1)

    def error(self, level: float = 0.95) -> Array:
        """The error that each statistic stays within with probability ``level``, at the worst truth."""
        a, b = self.coefficients
        return np.asarray(np.array([1.0, abs(a / b)]) * self._inner.error(level))
