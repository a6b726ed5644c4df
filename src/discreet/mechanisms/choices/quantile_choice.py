"""The exponential mechanism on ranks: private quantiles on a public grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from discreet.contract.mechanism import Mechanism
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.noise.truth import Floats, Truth, generator
from discreet.core.rounding import decimal, greatest, up
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.calibration import ImpliedProfile
from discreet.mechanisms.choices.exponential_mechanism import ExponentialMechanism
from discreet.mechanisms.choices.permute_and_flip import flip_probabilities
from discreet.mechanisms.choices.ranks import Histogram, RankClasses, group_histograms, histogram, share_of
from discreet.mechanisms.choices.selection import ChoiceLaw, RangeProfile
from discreet.mechanisms.composition import compose, compose_profiles

if TYPE_CHECKING:
    from discreet.core.exact import Exact
    from discreet.core.privacy_profile import Profile

__all__ = ["QuantileChoice", "range_factor"]

Integers = NDArray[np.int64]
Generator = int | np.random.Generator | None
_SMALLEST = 2.0**-40


@runtime_checkable
class Described(Protocol):
    """A statistic that says what its quantiles ask of the choice, for example `discreet.Quantiles`."""

    def targets(self) -> dict[str, Any]:
        """Parameters of `QuantileChoice` besides the factor."""


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
        object.__setattr__(self, "grid", requirements.positive("grid", self.grid))
        listed = requirements.listed("probabilities", self.probabilities, "probabilities=(0.5,)")
        object.__setattr__(self, "probabilities", listed)
        for name in ("lowest", "highest"):
            requirements.instance(name, getattr(self, name), (int, np.integer), f"{name}=0, a grid step")
        for q in self.probabilities:
            requirements.probability("probabilities", q, below_one=False)
            if 0 < q < _SMALLEST:
                raise InvalidParameter("probabilities", q, "has too many digits", "Pass 0 for the smallest value.")
        if not self.probabilities:
            raise InvalidParameter("probabilities", self.probabilities, "must not be empty", "Pass (0.5,).")
        requirements.positive_integer("groups", self.groups)
        if not self.lowest < self.highest:
            raise InvalidParameter("lowest", self.lowest, "must be below highest", "Swap the two.")

    @property
    def rounds(self) -> int:
        """How many choices one row takes part in."""
        count = len(self.probabilities)
        return math.ceil(math.log2(count + 1)) if self.recursive else count

    @classmethod
    def calibrate(
        cls, guarantee: Guarantee, sensitivity: Sensitivity, *, statistic: Described | None = None, groups: int = 1
    ) -> Self:
        """The sharpest choices that meet ``guarantee`` for the quantiles of ``statistic``."""
        described: Described = requirements.instance("statistic", statistic, Described, "statistic=Quantiles(…)")
        plain = cls(factor=1.0, groups=groups, flip=isinstance(guarantee, PureDP), **described.targets())
        part = guarantee.split(plain.rounds)[0] if plain.rounds > 1 else guarantee
        return replace(plain, factor=range_factor(part, sensitivity))

    def span(self, sensitivity: Sensitivity) -> Fraction:
        """Range of one choice."""
        return 2 * Fraction(self.factor) * Fraction(sensitivity.require_l1())

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """Bounded range, once per round."""
        one = self._one(sensitivity)
        return one if self.rounds == 1 else compose_profiles([one] * self.rounds)

    def _one(self, sensitivity: Sensitivity) -> ImpliedProfile | RangeProfile:
        """The curve of one choice."""
        span = self.span(sensitivity)
        return ImpliedProfile(PureDP(up(span))) if self.flip else RangeProfile(span)

    def guarantee(
        self, sensitivity: Sensitivity, kind: type[Guarantee] | None = None, *, delta: float | None = None
    ) -> Guarantee:
        """Pure ε by default; none for the published algorithm."""
        if self.as_published:
            return None  # type: ignore[return-value]  # the release door refuses it on real data
        wanted = kind or PureDP
        if self.rounds > 1 and wanted in (PureDP, ZeroConcentratedDP):
            return compose(*[self._one(sensitivity).guarantee(wanted)] * self.rounds)
        return self.profile(sensitivity).guarantee(wanted, delta=delta)

    def parameters(self) -> dict[str, Any]:
        """The parameters as JSON-ready data."""
        return {
            "factor": self.factor,
            "probabilities": list(self.probabilities),
            "lowest": self.lowest,
            "highest": self.highest,
            "grid": self.grid,
            "recursive": self.recursive,
            "groups": self.groups,
            "flip": self.flip,
            "as_published": self.as_published,
        }

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

    def expected_error(self, level: float = 0.95) -> Floats:
        """Error in ranks, for the least favourable data."""
        return self.rank_error(level)

    def confidence_interval(self, value: Floats, level: float) -> tuple[Floats, Floats]:
        """A value alone says nothing about how dense the data is around it: the whole grid."""
        low, high = self.lowest * self.grid, self.highest * self.grid
        return np.full(np.shape(value), low)[()], np.full(np.shape(value), high)[()]

    def chances(self, truth: Truth) -> NDArray[np.float64]:
        """Probability of every grid point, for a single quantile and a moderate grid; for checks and plots."""
        part = histogram(truth, self.lowest, self.highest)
        classes, target = RankClasses.of(part), _rank(self.probabilities[0], part)
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

    def draw(self, truth: Truth, *, rng: Generator = None) -> Floats:
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
        target, factor = relative * int(counts.sum()), Fraction(self.factor)
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


def _as_published(truth: Truth, q: float, epsilon: float, lowest: int, highest: int, rng: Generator) -> float:
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
