"""The exponential mechanism on ranks: private quantiles on a public grid."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.door import Rng
from discreet.core.errors import InvalidParameter, WrongType
from discreet.core.guarantee import Guarantee, Profile, PureDP, ZeroConcentratedDP
from discreet.core.noise.choice import choose, noisy_argmax
from discreet.core.noise.sampler import Floats, LargestExponentialFamily, Truth, generator
from discreet.core.numbers import decimal, greatest, up
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms.choices.selection import ChoiceLaw, ExponentialMechanism, RangeProfile, flip_probabilities
from discreet.mechanisms.composition import compose, compose_curves
from discreet.mechanisms.loss_distribution import ImpliedProfile
from discreet.mechanisms.mechanism import Kind, Mechanism

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
        """Parameters of `NestedCounts` besides the rate."""


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
