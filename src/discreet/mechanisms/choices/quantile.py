"""The exponential mechanism on ranks: private quantiles on a public grid."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.door import Rng
from discreet.core.errors import InvalidParameter, NoConversion, WrongType
from discreet.core.guarantee import Guarantee, Profile, PureDP, ZeroConcentratedDP
from discreet.core.noise.choice import choose, noisy_argmax
from discreet.core.noise.sampler import Floats, LargestExponentialFamily, Truth, generator
from discreet.core.numbers import decimal, greatest, up
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms.choices.selection import ChoiceLaw, ExponentialMechanism, RangeProfile, flip_probabilities
from discreet.mechanisms.composition import compose, compose_curves
from discreet.mechanisms.loss_distribution import ImpliedProfile
from discreet.mechanisms.mechanism import Kind, Law, Mechanism

# ---- Ranks: how far the points of a public grid are from a target rank, in private data.
#
# A histogram is a pair of rows: the grid steps that occur, with both ends of the grid, and how often they occur. The
# distance of a point v from the rank t is max(L(v) − t, t − R(v)), with L(v) rows below v and R(v) rows at most v. It
# is negative inside a tie that t falls into. Proofs: ``docs/proofs/quantile.md``.


Integers = NDArray[np.int64]
Histogram = tuple[Integers, Integers]
Generator = np.random.Generator | None
_FINEST = 10**6
"""Largest denominator of a share."""
FARTHEST = 2**52
"""Largest distance, in parts of a rank: floats hold the difference of two exactly."""


def share_of(q: float | Fraction) -> Fraction:
    """The share that a probability stands for: the nearest fraction with a denominator of at most a million.

    Decimals of six digits are exact, and 1/3 is a third. Ranks are whole numbers of its denominator's parts, so every
    probability has an answer for every number of rows.

    Examples
    --------
    >>> share_of(0.25), share_of(1 / 3), share_of(0.1 + 0.2)
    (Fraction(1, 4), Fraction(1, 3), Fraction(3, 10))
    """
    return (q if isinstance(q, Fraction) else decimal(q)).limit_denominator(_FINEST)


def histogram(truth: Truth, lowest: int, highest: int) -> Histogram:
    """Steps in order, from end to end of the grid, and their counts."""
    array = np.asarray(truth)
    if array.dtype.kind not in "iu" or array.ndim != 2 or len(array) != 2:
        raise WrongType("truth", type(truth).__name__, "must be steps and counts", "Use Quantiles.exact.")
    steps, counts = array.astype(np.int64)
    whole = steps.size >= 2 and steps[0] == lowest and steps[-1] == highest and bool((np.diff(steps) > 0).all())
    if not whole or counts.min() < 0:
        raise InvalidParameter("truth", "…", "must be a histogram over the whole grid", "Use Quantiles.exact.")
    return steps, counts


def group_histograms(truth: Truth, lowest: int, highest: int, groups: int) -> list[Histogram]:
    """The histogram of each group, where the truth holds the groups' grids one after another."""
    if groups == 1:
        return [histogram(truth, lowest, highest)]
    cells = highest - lowest + 1
    steps, counts = histogram(truth, lowest, lowest + groups * cells - 1)
    starts = np.searchsorted(steps, lowest + cells * np.arange(groups + 1))
    return [
        histogram(np.array([steps[a:b] - group * cells, counts[a:b]]), lowest, highest)
        for group, (a, b) in enumerate(pairwise(starts.tolist()))
    ]


def rank_distances(left: Integers, right: Integers, target: Fraction, common: int) -> Integers:
    """max(L − t, t − R) of candidates in order, in parts of 1/common, a multiple of the target's denominator.

    The ends are open: no rank is below the first candidate or above the last.
    """
    aim = int(target * common)
    over, under = common * left - aim, aim - common * right
    distances = np.maximum(over, under)
    distances[0], distances[-1] = under[0], over[-1]
    # Beyond 2·10⁸ ranks points are equally far: a distance cut off by constants moves no more than itself.
    return np.clip(distances, -FARTHEST, FARTHEST)


class _Scores(Sequence[Fraction]):
    """−factor · distance, exactly, of those candidates that are asked for."""

    def __init__(self, distances: Integers, factor: Fraction) -> None:
        self.distances, self.factor = distances, factor

    def __len__(self) -> int:
        return self.distances.size

    def __getitem__(self, place: Any) -> Any:
        return -self.factor * int(self.distances[place])


def picked(
    distances: Integers, factor: Fraction, multiplicity: Integers | None, rng: Generator, *, flip: bool = False
) -> int:
    """A class of candidates by multiplicity · exp(−factor · distance), or by permute and flip, exactly.

    Permute and flip: the class with the largest −factor · distance + Exp(1) among its candidates.
    """
    if rng is not None:
        return int(simulated(distances, float(factor), multiplicity, rng, flip=flip)[0])
    if not flip:
        scores = (distances.min() - distances).astype(float)  # whole numbers up to 2⁵³, so exact
        return int(choose(scores, factor, multiplicity=multiplicity))
    runs = np.arange(distances.size) if multiplicity is None else np.flatnonzero(multiplicity > 0)
    apart = distances[runs]
    family = LargestExponentialFamily(np.ones(runs.size) if multiplicity is None else multiplicity[runs].astype(float))
    behind = (apart.min() - apart) * float(factor)
    return int(runs[noisy_argmax(_Scores(apart, factor), lambda *_: family, 1.0, behind=behind)])


def simulated(
    distances: NDArray[Any],
    factor: float,
    multiplicity: Integers | None,
    rng: np.random.Generator,
    *,
    flip: bool = False,
    size: int = 1,
) -> Integers:
    """Classes as `picked` draws them, many at once and in floating point."""
    runs = np.arange(distances.size) if multiplicity is None else np.flatnonzero(multiplicity > 0)
    apart, shape = distances[runs], (size, runs.size)
    scores = (apart.min() - apart) * factor
    counts = None if multiplicity is None else multiplicity[runs].astype(float)
    if not flip:
        noise = rng.gumbel(size=shape) + (0.0 if counts is None else np.log(counts))
    elif counts is None:
        noise = rng.standard_exponential(shape)
    else:
        noise = -np.log(-np.expm1(-rng.standard_exponential(shape) / counts))
    return np.asarray(runs[np.argmax(scores + noise, axis=1)])


def below(count: int, rng: Generator) -> int:
    """A uniform whole number from 0 to count − 1."""
    return secrets.randbelow(count) if rng is None else int(rng.integers(count))


@dataclass(frozen=True)
class RankClasses:
    """Grid points in classes of the same rank distance: every data value, and every gap between two of them."""

    starts: Integers
    widths: Integers
    left: Integers
    right: Integers

    @classmethod
    def of(cls, part: Histogram) -> RankClasses:
        """The classes of a histogram."""
        steps, counts = part
        ranks = np.concatenate([[0], np.cumsum(counts)])
        size = 2 * steps.size - 1
        starts = np.empty(size, np.int64)
        widths = np.ones(size, np.int64)
        left = np.empty(size, np.int64)
        right = np.empty(size, np.int64)
        starts[0::2], left[0::2], right[0::2] = steps, ranks[:-1], ranks[1:]
        starts[1::2], widths[1::2] = steps[:-1] + 1, np.diff(steps) - 1
        left[1::2] = right[1::2] = ranks[1:-1]
        return cls(starts, widths, left, right)

    def distances(self, target: Fraction, common: int) -> Integers:
        """Rank distance of each class, in parts of 1/common."""
        return rank_distances(self.left, self.right, target, common)

    def draw(self, target: Fraction, factor: Fraction, rng: Generator, *, flip: bool = False) -> int:
        """One grid step with probability proportional to exp(−factor · distance), or by permute and flip, exactly."""
        common = target.denominator
        place = picked(self.distances(target, common), factor / common, self.widths, rng, flip=flip)
        return int(self.starts[place]) + below(int(self.widths[place]), rng)


# ---- The exponential mechanism on ranks: private quantiles on a public grid.


_SMALLEST = 2.0**-40


@runtime_checkable
class RankStatistic(Protocol):
    """A statistic that says which quantiles and intervals it wants, for example `Quantiles`."""

    def targets(self) -> dict[str, Any]:
        """Parameters of `QuantileChoice` besides the factor."""

    def intervals(self) -> dict[str, Any]:
        """Parameters of `QuantileInterval` besides the factors and ``miss``."""

    def noise_miss(self, factor: float) -> float:
        """The ``miss`` that the intervals allow, given the factor of the second stage."""


def require_grid(mechanism: Any) -> None:
    """Refuse what is no public grid, or no number of groups."""
    object.__setattr__(mechanism, "grid", requirements.positive("grid", mechanism.grid))
    for name in ("lowest", "highest"):
        requirements.instance(name, getattr(mechanism, name), (int, np.integer), f"{name}=0, a grid step")
    requirements.positive_integer("groups", mechanism.groups)
    if not mechanism.lowest < mechanism.highest:
        raise InvalidParameter("lowest", mechanism.lowest, "must be below highest", "Swap the two.")


@dataclass(frozen=True, kw_only=True)
class QuantileChoice(Mechanism):
    """Publish grid points near given ranks: by exp(−factor · rank distance), or by permute and flip.

    The truth is a pair of rows: the grid steps that occur, with both ends of the grid, and how often they occur.

    Parameters
    ----------
    factor
        Inverse temperature, per rank.
    probabilities
        Which quantiles.
    lowest, highest, grid
        The public grid: values are ``step · grid`` for steps from lowest to highest.
    recursive
        Split the data at the middle quantile and go on in both halves; the cost grows with the logarithm of the
        number of quantiles only.
    flip
        Choose by permute and flip, which is sharper at the same pure ε: every point has the score −factor · distance
        plus a standard exponential, and the largest wins.
    groups
        Number of disjoint groups of rows; the truth then holds the groups' grids one after another, and every group
        gets its own quantiles.
    as_published
        liu2023's Algorithm 1, for simulations: it has no guarantee (errata E2, E3).

    Notes
    -----
    **Guarantee.** With Δ the largest change of a rank distance (`Quantiles.sensitivity`): each choice has bounded
    range 2·factor·Δ, so it is that pure ε and ε²/8-zCDP; choices compose. Permute and flip has the pure ε alone, and
    is chosen under `PureDP` only. Proof: ``docs/proofs/quantile.md``.

    Examples
    --------
    >>> choice = QuantileChoice(factor=2.0, probabilities=(0.5,), lowest=0, highest=10, grid=1.0)
    >>> data = np.array([[0, 4, 5, 10], [0, 1000, 1, 0]])
    >>> choice.draw(data)
    4.0
    """

    name: ClassVar[str] = "quantile_choice"
    factor: float
    probabilities: tuple[float, ...]
    lowest: int
    highest: int
    grid: float
    recursive: bool = False
    groups: int = 1
    flip: bool = False
    as_published: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", requirements.positive("factor", self.factor))
        listed = requirements.listed("probabilities", self.probabilities, "probabilities=(0.5,)")
        object.__setattr__(self, "probabilities", listed)
        require_grid(self)
        for q in self.probabilities:
            requirements.probability("probabilities", q, below_one=False)
            if 0 < q < _SMALLEST:
                raise InvalidParameter("probabilities", q, "has too many digits", "Pass 0 for the smallest value.")
        if not self.probabilities:
            raise InvalidParameter("probabilities", self.probabilities, "must not be empty", "Pass (0.5,).")

    @property
    def rounds(self) -> int:
        """The number of choices that one row takes part in."""
        count = len(self.probabilities)
        return math.ceil(math.log2(count + 1)) if self.recursive else count

    @classmethod
    def calibrate(
        cls, guarantee: Guarantee, sensitivity: Sensitivity, *, statistic: RankStatistic | None = None, groups: int = 1
    ) -> Self:
        """The sharpest choices that meet ``guarantee`` for the quantiles of ``statistic``."""
        described: RankStatistic = requirements.instance(
            "statistic", statistic, RankStatistic, "statistic=Quantiles(…)"
        )
        plain = cls(factor=1.0, groups=groups, flip=isinstance(guarantee, PureDP), **described.targets())
        part = guarantee.split(plain.rounds)[0] if plain.rounds > 1 else guarantee
        return replace(plain, factor=range_factor(part, sensitivity))

    def span(self, sensitivity: Sensitivity) -> Fraction:
        """Range of one choice."""
        return 2 * Fraction(self.factor) * Fraction(sensitivity.require_l1())

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """Bounded range, once per round."""
        one = self._one(sensitivity)
        return one if self.rounds == 1 else compose_curves([one] * self.rounds)

    def _one(self, sensitivity: Sensitivity) -> ImpliedProfile | RangeProfile:
        """The curve of one choice."""
        span = self.span(sensitivity)
        return ImpliedProfile(PureDP(up(span))) if self.flip else RangeProfile(span)

    def guarantee(self, sensitivity: Sensitivity, kind: Kind = None, *, delta: float | None = None) -> Guarantee:
        """Pure ε by default; none for the published algorithm."""
        if self.as_published:
            return None  # type: ignore[return-value]  # the release door refuses it on real data
        wanted = kind or PureDP
        if self.rounds > 1 and wanted in (PureDP, ZeroConcentratedDP):
            return compose(*[self._one(sensitivity).guarantee(wanted)] * self.rounds)
        return self.profile(sensitivity).guarantee(wanted, delta=delta)

    def check(self, exact: Exact) -> None:
        """Refuse what is not a histogram on this grid."""
        self._parts(exact.value)

    def _parts(self, truth: Truth) -> list[Histogram]:
        """The histogram of each group."""
        return group_histograms(truth, self.lowest, self.highest, self.groups)

    def rank_error(self, level: float = 0.95) -> float:
        """With probability ``level`` a published value is within this many ranks of its target."""
        others = self.highest - self.lowest
        # By permute and flip a point beats the best, which has noise too, half as often.
        return max(math.log(others / (2 if self.flip else 1) / (1 - requirements.level(level))), 0.0) / self.factor

    def error(self, level: float = 0.95) -> Floats:
        """Error in ranks, for the least favourable data."""
        return self.rank_error(level)

    def noise_interval(self, value: Floats, level: float) -> tuple[Floats, Floats]:
        """A value alone says nothing about how dense the data is around it: the whole grid."""
        low, high = self.lowest * self.grid, self.highest * self.grid
        return np.full(np.shape(value), low)[()], np.full(np.shape(value), high)[()]

    def chances(self, truth: Truth) -> NDArray[np.float64]:
        """Probability of every grid point, for a single quantile and a moderate grid; for checks and plots."""
        part = histogram(truth, self.lowest, self.highest)
        classes = RankClasses.of(part)
        target = _rank(self.probabilities[0], part)
        logs = -self.factor / target.denominator * classes.distances(target, target.denominator)
        weights = np.exp(logs - logs[classes.widths > 0].max())
        if self.flip:
            weights = flip_probabilities(np.minimum(weights, 1.0), classes.widths)
        each = np.repeat(weights, classes.widths)
        return np.asarray(each / each.sum())

    def law(self, truth: Truth) -> ChoiceLaw:
        """Distribution of the published grid step, counted from the lowest; for a single quantile."""
        chances = self.chances(truth)
        return ChoiceLaw(
            chances, int(np.argmax(chances)), lambda: self._steps(self._parts(truth)[0], None)[0] - self.lowest
        )

    def draw(self, truth: Truth, *, rng: Rng = None) -> Floats:
        """The published quantiles, in order."""
        if self.as_published:
            steps = [_as_published(truth, q, self.factor, self.lowest, self.highest, rng) for q in self.probabilities]
        else:
            random = None if rng is None else generator(rng)
            steps = [float(step) for part in self._parts(truth) for step in self._steps(part, random)]
        values = np.array([step * self.grid for step in steps])
        return float(values[0]) if values.size == 1 else values

    def _steps(self, part: Histogram, random: np.random.Generator | None) -> list[int]:
        if self.recursive:
            found: dict[int, int] = {}
            order = sorted(range(len(self.probabilities)), key=lambda i: self.probabilities[i])
            self._split(part, order, (Fraction(0), Fraction(1)), found, random)
            return [found[i] for i in range(len(self.probabilities))]
        classes = RankClasses.of(part)
        factor = Fraction(self.factor)
        steps = [classes.draw(_rank(q, part), factor, random, flip=self.flip) for q in self.probabilities]
        # What follows is post-processing: quantiles are in order.
        ranks = np.argsort(np.argsort(self.probabilities, kind="stable"), kind="stable")
        return [sorted(steps)[rank] for rank in ranks]

    def _split(
        self,
        part: Histogram,
        order: Sequence[int],
        share: tuple[Fraction, Fraction],
        found: dict[int, int],
        rng: np.random.Generator | None,
    ) -> None:
        """Choose the middle quantile of a part of the grid, then go on below and above it."""
        if not order:
            return
        middle = order[len(order) // 2]
        steps, counts = part
        low, high = share
        q = share_of(self.probabilities[middle])
        # The part's own share is rounded as shares are, so that ranks stay exact whatever the shares are.
        relative = share_of((q - low) / (high - low)) if high > low else Fraction(1, 2)
        target = relative * int(counts.sum())
        factor = Fraction(self.factor)
        step = RankClasses.of(part).draw(target, factor, rng, flip=self.flip)
        found[middle] = step
        below, above = _cut(steps, counts, step)
        self._split(below, order[: len(order) // 2], (low, q), found, rng)
        self._split(above, order[len(order) // 2 + 1 :], (q, high), found, rng)


def range_factor(guarantee: Guarantee, sensitivity: Sensitivity) -> float:
    """The largest factor with which one choice of range 2·factor·Δ meets ``guarantee``."""
    spread = 2 * Fraction(sensitivity.require_l1())
    if isinstance(guarantee, PureDP):
        target = decimal(guarantee.epsilon)
        if target == 0:
            raise InvalidParameter("guarantee", guarantee, "leaves nothing to choose by", "Pass epsilon > 0.")
        return greatest(lambda factor: Fraction(factor) * spread <= target, float(target / spread))
    return ExponentialMechanism.calibrate(guarantee, Sensitivity(l1=sensitivity.require_l1())).factor


def _rank(q: float, part: Histogram) -> Fraction:
    return share_of(q) * int(part[1].sum())


def _cut(steps: Integers, counts: Integers, at: int) -> tuple[Histogram, Histogram]:
    """The histogram up to a step and from it on; the step's own rows go below, its grid point to both."""
    split = int(np.searchsorted(steps, at))
    present = split < steps.size and steps[split] == at
    own = int(counts[split]) if present else 0
    below = np.append(steps[:split], at), np.append(counts[:split], own)
    rest = split + 1 if present else split
    above = np.insert(steps[rest:], 0, at), np.insert(counts[rest:], 0, 0)
    return below, above


def _as_published(truth: Truth, q: float, epsilon: float, lowest: int, highest: int, rng: Rng) -> float:
    """liu2023 Algorithm 1, in steps of the grid: j from 1 … P−1 by width · exp(−ε|j − qP|), then uniform."""
    if rng is None:
        raise InvalidParameter("rng", None, "the published algorithm is for simulations only", "Pass rng=….")
    steps, counts = histogram(truth, lowest, highest)
    values = np.repeat(steps, counts).astype(float)
    if values.size < 2:
        raise InvalidParameter("truth", "…", "needs two rows at least", "Pass more data.")
    ranks = np.arange(1, values.size)
    widths = np.diff(values)
    with np.errstate(divide="ignore"):
        logs = np.log(widths) - epsilon * np.abs(ranks - q * values.size)
    if np.isneginf(logs).all():
        return float(values[0])
    random = generator(rng)
    chosen = int(np.argmax(logs + random.gumbel(size=logs.size)))
    return float(random.uniform(values[chosen], values[chosen + 1]))


# ---- Quantiles with intervals: an ordered pair of grid points around each, in two stages.
#
# The first stage finds where the data is. The second decides on a few cells around it, and it alone has to be right for
# the interval to cover. Proofs: ``docs/proofs/quantile.md``.


# ---- Interval ends: the pairs of edges that an interval may begin and end at, and how far each has to reach
#
# A pair that is likely, because its edges are close to the middle, has a small margin; the others share what is left of
# the error probability. Proofs: ``docs/proofs/quantile.md``, Theorem 4.


PARTS = 16
"""Margins are whole multiples of 1/16 rank, so that ranks stay short fractions."""
_MOST = 2**31
_FALL = 0.5
_FLAT = 3.0
"""The k-th edge from the middle outwards, from 0 on, has the weight (k + 3)^−½; edges across it that of the first."""


@dataclass(frozen=True)
class IntervalEnds:
    """Pairs of a lower and an upper edge, and the ranks beyond its targets that each pair has to reach.

    A lower end stands for the cell up to below the next edge, an upper end for that from above the edge before.

    Parameters
    ----------
    lower, upper
        Edges in order: the first lower one is the lowest point of the grid, the last upper one the highest.
    margins
        For each pair, in sixteenths of a rank: larger for lower edges farther down and upper edges farther up.
    """

    lower: Integers
    upper: Integers
    margins: Integers

    @classmethod
    def of(cls, lower: Integers, upper: Integers, *, middle: float, factor: float, others: float) -> IntervalEnds:
        """Margins with which wrong pairs together have ``others`` times the weight of a right one, at most."""
        across = int(np.count_nonzero(lower > middle)), int(np.count_nonzero(upper < middle))
        outwards = _costs(lower.size, across[0])[::-1, None] + _costs(upper.size, across[1])
        allowed = math.log(np.exp(-outwards).sum() / others)
        sixteenths = np.ceil(PARTS * (allowed + outwards) / factor * (1 + 1e-12))
        if sixteenths.max() > _MOST:  # farther than distances are told apart: the whole grid
            return cls(lower[:1], upper[-1:], np.ones((1, 1), dtype=np.int64))
        return cls(lower, upper, np.maximum(sixteenths, 0).astype(np.int64))

    def distances(self, part: Histogram, targets: tuple[Fraction, Fraction], common: int) -> Integers:
        """The distance of each pair from reaching as far as it has to and no farther, in parts of 1/common.

        The largest of four numbers of rows: those by which either end falls short of its margin, and those by which the
        next edge inwards would not. The outermost edges never fall short, and the innermost have no next.
        """
        steps, counts = part
        ranks = np.concatenate([[0], np.cumsum(counts)])
        below = ranks[np.searchsorted(steps, self.lower)]
        upto = ranks[np.searchsorted(steps, self.upper, side="right")]
        margins = common // PARTS * self.margins
        low_short = margins + (common * below - int(targets[0] * common))[:, None]
        high_short = margins + (int(targets[1] * common) - common * upto)
        furthest = np.full((4, *margins.shape), -FARTHEST)
        furthest[0, 1:], furthest[1, :, :-1] = low_short[1:], high_short[:, :-1]
        furthest[2, :-1], furthest[3, :, 1:] = -low_short[1:], -high_short[:, :-1]
        # Beyond 2·10⁸ ranks pairs are equally far: a distance cut off by constants moves no more than itself.
        return np.asarray(np.clip(furthest.max(axis=0).ravel(), -FARTHEST, FARTHEST))

    def at(self, places: Integers | int) -> tuple[Integers, Integers]:
        """Lower and upper ends of pairs at places in the order of the distances."""
        first, second = np.divmod(places, self.upper.size)
        ends = self.lower[first], self.upper[second]
        return np.minimum(*ends), np.maximum(*ends)  # ends that cross, which is unlikely, are put in order


def _costs(size: int, across: int) -> NDArray[np.float64]:
    """Logarithms of how unlikely the edges of a list are, from its inner end outwards; across the middle all alike."""
    return np.asarray(_FALL * np.log(np.maximum(np.arange(size) - across, 0) + _FLAT))


# ---- Round ladders: where the public cells around two points begin and end
#
# People heap: ages at multiples of five, incomes at thousands. An interval that ends exactly on a heap leaves its
# rows on
# the edge, and one that ends a step beside it encloses them all. So each rung of a ladder is the roundest number there.


_RATIO, _COARSE = 1.09, 1.5
"""Of the distances of neighbouring rungs from their point, and of those that are close to it."""
_CLOSE, _CLOSEST = 2.0**-6.5, 2.0**-10
"""Parts of half the way: beside a gap all rows between the points are that close to one of them."""
_BEYOND = 3
"""Rungs beyond the points are farther apart each time, up to the ends of the grid."""
_ACROSS, _FEW = 1.7, 11
"""The same ratio for the few rungs beyond the middle: where one point lies in an empty tail, both ends belong there."""


def round_ladders(low: int, high: int, lowest: int, highest: int) -> tuple[Integers, Integers]:
    """Edges for lower ends, from the lowest point of the grid to the middle, and for upper ends, on to the highest.

    Rungs become denser and denser towards ``low`` and ``high``: whatever the scale on which rows lie beside them, some
    rungs lie between these rows. Each list has a few edges on the other side of the middle, too.

    Examples
    --------
    >>> lower, upper = round_ladders(103, 197, 0, 1000)
    >>> lower[lower > 120].tolist()
    [122, 124, 125, 128, 130, 132, 135, 138, 140, 145, 150, 180, 185, 190, 192, 195, 196]
    >>> upper[upper > 190].tolist()
    [191, 192, 193, 194, 195, 196, 197, 200, 230, 300, 500, 1000]
    """
    half = max((high - low) / 2, 1.0)
    rungs = {lowest, low, high, highest, *_between(low, half, 1), *_between(high, half, -1)}
    rungs |= {*_beyond(low, half, -1, highest - lowest), *_beyond(high, half, 1, highest - lowest)}
    edges = np.array(sorted(rung for rung in rungs if lowest <= rung <= highest), dtype=np.int64)
    middle = (low + high) / 2
    lower = np.union1d(edges[edges <= middle], [*_across(high, half, -1)])
    upper = np.union1d(edges[edges >= middle], [*_across(low, half, 1)])
    return lower.astype(np.int64), upper.astype(np.int64)


def roundest(low: float, high: float) -> int | None:
    """The roundest whole number between two: a multiple of the largest of 1, 5, 10, 50, … that has one there.

    Examples
    --------
    >>> roundest(103, 197), roundest(103.5, 109), roundest(103.1, 103.9)
    (150, 105, None)
    """
    first, last = math.ceil(low), math.floor(high)
    if first > last:
        return None
    digits = len(str(max(-first, last)))
    steps = (five * 10**power for power in range(digits, -1, -1) for five in (5, 1))
    step: int = next(step for step in steps if last // step * step >= first)
    middle = round((first + last) / 2 / step) * step  # of several, the one in the middle
    return middle if first <= middle <= last else last // step * step


def _between(point: int, half: float, side: int) -> Iterator[int]:
    """Rungs on one side of a point, from half the way to the other down to the closest."""
    away = half
    while away >= max(half * _CLOSEST, 0.5):
        rung = roundest(*sorted((point + side * away / _RATIO, point + side * away)))
        away /= _RATIO if away > half * _CLOSE else _COARSE
        if rung is not None:
            yield rung


def _across(point: int, half: float, side: int) -> Iterator[int]:
    """Rungs on one side of a point, coarser, for the ends that belong on the other side of the middle."""
    for away in (half / _ACROSS**step for step in range(1, _FEW + 1)):
        rung = roundest(*sorted((point + side * away / _ACROSS, point + side * away)))
        if rung is not None:
            yield rung


def _beyond(point: int, half: float, side: int, most: int) -> Iterator[int]:
    """Rungs on one side of a point, farther and farther apart."""
    away, step = 0.0, max(half / 4, 1.0)
    while away < most:
        rung = roundest(*sorted((point + side * (away + 1), point + side * (away + step))))
        away, step = away + step, _BEYOND * step
        if rung is not None:
            yield rung


_FIRST_SHARE = 0.22
_AIM = 80.0
"""The first stage aims this many ranks to either side, at a factor of one in all: less, and it is lost in wide gaps."""
_MOST_STEPS = 2**26
"""Across the grid: floats then hold the number of pairs of points exactly."""


@dataclass(frozen=True, kw_only=True)
class QuantileInterval(Mechanism):
    """Publish for each quantile a lower end, an estimate and an upper end: grid points around its rank.

    The truth is that of `QuantileChoice`.

    Parameters
    ----------
    first, second
        Inverse temperatures of the two stages, per rank.
    shares
        For each quantile the shares of the rows that its ends must enclose: (q, q) for the quantile of the data, a
        wider pair for that of a population.
    miss
        Probability, at most, that an interval does not enclose its shares; for an end to be y ranks inside them it is
        e^(−second·y) times as large.
    lowest, highest, grid
        The public grid: values are ``step · grid`` for steps from lowest to highest.
    groups
        Number of disjoint groups of rows, as in `QuantileChoice`.
    flip
        Choose by permute and flip, as in `QuantileChoice`.

    Notes
    -----
    **Guarantee.** With Δ the largest change of a rank distance (`Quantiles.sensitivity`) a stage with factor f has
    bounded range 2fΔ, or the pure ε alone by permute and flip; the stages of all quantiles compose.

    Examples
    --------
    >>> choice = QuantileInterval(
    ...     first=0.3, second=0.7, shares=((0.5, 0.5),), miss=0.05, lowest=0, highest=1000, grid=1.0
    ... )
    >>> steps = np.arange(1001)
    >>> low, estimate, high = choice.draw(np.array([steps, np.ones_like(steps)]), rng=3).tolist()
    >>> low <= 500 <= high, high - low < 60
    (True, True)
    """

    name: ClassVar[str] = "quantile_interval"
    first: float
    second: float
    shares: tuple[tuple[float, float], ...]
    miss: float
    lowest: int
    highest: int
    grid: float
    groups: int = 1
    flip: bool = False

    def __post_init__(self) -> None:
        for name in ("first", "second"):
            object.__setattr__(self, name, requirements.positive(name, getattr(self, name)))
        require_grid(self)
        if not requirements.probability("miss", self.miss, below_one=False) > 0:
            raise InvalidParameter("miss", self.miss, "must be above 0 and at most 1", "Pass miss=0.05.")
        listed = requirements.listed("shares", self.shares, "shares=((0.5, 0.5),)")
        object.__setattr__(self, "shares", tuple(_pair(pair) for pair in listed))
        if not self.shares:
            raise InvalidParameter("shares", self.shares, "must not be empty", "Pass ((0.5, 0.5),).")
        if self.highest - self.lowest > _MOST_STEPS:
            fix = "Use a coarser grid."
            raise InvalidParameter("highest", self.highest, f"must be at most {_MOST_STEPS:,} steps above lowest", fix)

    @classmethod
    def calibrate(
        cls, guarantee: Guarantee, sensitivity: Sensitivity, *, statistic: RankStatistic | None = None, groups: int = 1
    ) -> Self:
        """The sharpest choices that meet ``guarantee`` for the intervals of ``statistic``."""
        described: RankStatistic = requirements.instance(
            "statistic", statistic, RankStatistic, "statistic=Quantiles(interval=0.95, …)"
        )
        wanted = described.intervals()
        each = guarantee.split(len(wanted["shares"]))[0]
        first, second = (range_factor(part, sensitivity) for part in each.split([_FIRST_SHARE, 1 - _FIRST_SHARE]))
        flip = isinstance(guarantee, PureDP)
        miss = described.noise_miss(second)
        return cls(first=first, second=second, miss=miss, groups=groups, flip=flip, **wanted)

    def _stages(self, sensitivity: Sensitivity) -> list[RangeProfile | ImpliedProfile]:
        """Curves of all stages."""
        moved = 2 * Fraction(sensitivity.require_l1())
        spans = [Fraction(factor) * moved for factor in (self.first, self.second)] * len(self.shares)
        return [ImpliedProfile(PureDP(up(span))) if self.flip else RangeProfile(span) for span in spans]

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """Bounded range or pure ε, once per stage."""
        return compose_curves(self._stages(sensitivity))

    def guarantee(self, sensitivity: Sensitivity, kind: Kind = None, *, delta: float | None = None) -> Guarantee:
        """Pure ε by default."""
        wanted = kind or PureDP
        if wanted in (PureDP, ZeroConcentratedDP):
            return compose(*(profile.guarantee(wanted) for profile in self._stages(sensitivity)))
        return self.profile(sensitivity).guarantee(wanted, delta=delta)

    def check(self, exact: Exact) -> None:
        """Refuse what is not a histogram on this grid."""
        group_histograms(exact.value, self.lowest, self.highest, self.groups)

    def law(self, truth: Truth) -> Law:
        """There is none for numbers that come in threes."""
        raise NoConversion("a quantile with its interval has no law of one number. Use QuantileChoice for one value.")

    def error(self, level: float = 0.95) -> Floats:
        """An interval with ``miss`` = 1 − level reaches about this many ranks to either side of its quantile."""
        rows = math.ceil(2 * _AIM / (self.first + self.second))
        rough = max(self.highest - rows, self.lowest), self.highest
        ends = self.ends(rough, 1 - requirements.level(level))
        middle = sum(rough) / 2
        inside = int(np.searchsorted(ends.lower, middle, side="right")), int(np.searchsorted(ends.upper, middle))
        likely = max(inside[0] - 3, 0), min(inside[1] + 2, ends.upper.size - 1)  # rungs a little outside the middle
        return float(ends.margins[likely]) / PARTS

    def noise_interval(self, value: Floats, level: float) -> tuple[Floats, Floats]:
        """The ends that were published; they hold at the level they were planned for."""
        parts = np.asarray(value, dtype=float).reshape(-1, 3)
        return parts[:, 0], parts[:, 2]

    def draw(self, truth: Truth, *, rng: Rng = None) -> Floats:
        """Lower end, estimate and upper end of each quantile, group by group."""
        random = None if rng is None else generator(rng)
        steps = [
            step
            for part in group_histograms(truth, self.lowest, self.highest, self.groups)
            for low, high in self.shares
            for step in self._one(part, share_of(low), share_of(high), random)
        ]
        return np.array([step * self.grid for step in steps])

    def _one(
        self, part: Histogram, low: Fraction, high: Fraction, rng: np.random.Generator | None
    ) -> tuple[float, float, float]:
        rows = int(part[1].sum())
        rough = rough_pair(part, self.first_targets(low, high, rows), Fraction(self.first), rng, flip=self.flip)
        targets = low * rows, high * rows
        lower, upper = fine_pair(part, self.ends(rough), targets, Fraction(self.second), rng, flip=self.flip)
        return lower, (lower + upper) // 2, upper

    def ends(self, rough: tuple[int, int], miss: float | None = None) -> IntervalEnds:
        """Ends that the second stage chooses from, around two points."""
        # By permute and flip a pair beats the best, which has noise too, half as often.
        others = (2 if self.flip else 1) * (self.miss if miss is None else miss)
        edges = round_ladders(*rough, self.lowest, self.highest)
        return IntervalEnds.of(*edges, middle=sum(rough) / 2, factor=self.second, others=others)

    def first_targets(self, low: Fraction, high: Fraction, rows: int) -> tuple[Fraction, Fraction]:
        """Ranks that the first stage aims at: beyond those that the second will."""
        aim = math.ceil(min(_AIM / (self.first + self.second), _MOST))  # farther, the second takes the whole grid
        return low * rows - aim, high * rows + aim


def _pair(pair: Any) -> tuple[float, float]:
    ends = requirements.listed("shares", pair, "shares=((0.5, 0.5),)")
    if len(ends) != 2:
        raise InvalidParameter("shares", pair, "must be pairs of two shares", "Pass ((0.5, 0.5),).")
    low, high = (requirements.probability("shares", share, below_one=False) for share in ends)
    if low > high:
        raise InvalidParameter("shares", pair, "must be in order", "Swap the two.")
    if math.lcm(share_of(low).denominator, share_of(high).denominator) > _FINEST:  # ranks would outgrow whole numbers
        raise InvalidParameter("shares", pair, "must have a small common denominator", "Round them to six digits.")
    return low, high


def rough_pair(
    part: Histogram,
    targets: tuple[Fraction, Fraction],
    factor: Fraction,
    rng: np.random.Generator | None,
    *,
    flip: bool = False,
) -> tuple[int, int]:
    """Two grid points in order, from all pairs (v, w) by the distance max(d(v), d(w)), exactly.

    Pairs of the same maximum are a shell: one is chosen by its size and distance, then one of its pairs uniformly.
    """
    classes = RankClasses.of(part)
    common = math.lcm(*(target.denominator for target in targets))
    sides = [_Side.of(classes, target, common) for target in targets]
    levels = np.unique(np.concatenate([side.distances for side in sides]))
    up_to = [np.concatenate([[0], side.points_up_to(levels)]) for side in sides]
    pairs = up_to[0] * up_to[1]  # of points: fewer than 2⁵³, by `_MOST_STEPS`
    shell = picked(levels, factor / common, np.diff(pairs), rng, flip=flip)
    place = below(int(pairs[shell + 1] - pairs[shell]), rng)
    (inner, outer), (few, many) = ((int(one[shell]), int(one[shell + 1])) for one in up_to)
    on_shell = (outer - inner) * many  # the first point is on the shell, the second anywhere up to it
    if place < on_shell:
        first, second = inner + place // many, place % many
    else:
        first, second = (place - on_shell) // (many - few), few + (place - on_shell) % (many - few)
    steps = sides[0].step(first), sides[1].step(second)
    return min(steps), max(steps)


@dataclass(frozen=True)
class _Side:
    """Grid points in the order of their distance from one target."""

    distances: Integers
    starts: Integers
    ends: Integers

    @classmethod
    def of(cls, classes: RankClasses, target: Fraction, common: int) -> _Side:
        distances = classes.distances(target, common)
        order = np.argsort(distances, kind="stable")
        return cls(distances[order], classes.starts[order], np.cumsum(classes.widths[order]))

    def points_up_to(self, levels: Integers) -> Integers:
        """The number of points with a distance of at most each level."""
        places = np.searchsorted(self.distances, levels, side="right")
        return np.asarray(np.concatenate([[0], self.ends])[places])

    def step(self, index: int) -> int:
        """The point at a place of the order."""
        place = int(np.searchsorted(self.ends, index, side="right"))
        before = int(self.ends[place - 1]) if place else 0
        return int(self.starts[place]) + index - before


def fine_pair(
    part: Histogram,
    ends: IntervalEnds,
    targets: tuple[Fraction, Fraction],
    factor: Fraction,
    rng: np.random.Generator | None,
    *,
    flip: bool = False,
) -> tuple[int, int]:
    """A lower and an upper end, by how far they are from enclosing two targets with their margin, exactly."""
    common = math.lcm(PARTS, *(target.denominator for target in targets))
    place = picked(ends.distances(part, targets, common), factor / common, None, rng, flip=flip)
    lower, upper = ends.at(place)
    return int(lower), int(upper)
