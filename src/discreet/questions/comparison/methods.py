"""Methods that use the whole budget once: direct, noise-aware, and the better of the two from public facts."""

from __future__ import annotations

import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.door import Allowance, Step
from discreet.core.errors import InvalidParameter, NotCertified, WrongType
from discreet.core.guarantee import Guarantee
from discreet.core.noise.sampler import Floats, Truth, generator
from discreet.core.numbers import Grid, product_total, total
from discreet.core.protection import Neighbours
from discreet.core.sensitivity import Sensitivity
from discreet.inference.noise import excess_kurtosis
from discreet.inference.two_sample import ArmMean, Contrast, NoiseAwarePosterior, arm_mean, contrast, positive_part_mean
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.mechanism import AdditiveNoise, Mechanism
from discreet.questions.question import fractions, whole_bounds
from discreet.results.release import Statistic

# ---- Arms: the private totals of an experiment, per arm and per partition, as whole numbers on the outcome's grid.


Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Arms:
    """The input of a comparison: counts and sums of grid offsets. Its repr shows no value.

    Parameters
    ----------
    low, width, largest
        A unit's outcome is ``low + width · offset/largest`` with a whole offset in {0, …, largest}.
    counts, sums
        Units and sums of offsets, one row per arm (control first) and one column per partition.
    squares
        Sum of squared offsets per arm.
    labels
        Names of the arms.
    """

    low: float
    width: float
    largest: int
    counts: Integers = field(repr=False)
    sums: NDArray[Any] = field(repr=False)
    squares: tuple[int, ...] = field(repr=False)
    labels: tuple[str, ...] = ("control", "treatment")

    @property
    def partitions(self) -> int:
        """Number of partitions."""
        return int(self.counts.shape[1])

    def size(self, arm: int) -> int:
        """Units of an arm."""
        return int(self.counts[arm].sum())

    def total(self, arm: int) -> int:
        """Sum of an arm's offsets."""
        return sum(int(value) for value in self.sums[arm])

    @cached_property
    def means(self) -> NDArray[np.float64]:
        """Partition means per arm; an empty partition has the middle of the bounds, whatever the data is."""
        counts = np.maximum(self.counts, 1)
        share = self.sums.astype(float) / counts / self.largest
        return np.asarray(self.low + self.width * np.where(self.counts > 0, share, 0.5))

    def differences(self, first: int = 1, second: int = 0) -> NDArray[np.float64]:
        """z: partition means of arm ``first`` minus those of arm ``second``, zero where either is empty."""
        both = (self.counts[first] > 0) & (self.counts[second] > 0)
        return np.where(both, self.means[first] - self.means[second], 0.0)


def arms_from_columns(
    columns: dict[str, Any],
    *,
    bounds: tuple[float, float],
    partitions: int,
    equal: bool,
    labels: dict[str, Any] | None = None,
    rng: int | np.random.Generator | None = None,
) -> Arms:
    """Totals of in-memory columns, one outcome per unit.

    Parameters
    ----------
    columns
        Outcomes of each arm's units, by arm; the first is the control.
    bounds
        Public bounds of the outcome.
    partitions
        Number of partitions.
    equal
        Whether partitions are equal in size, which needs public sizes. Otherwise every unit draws its own, so that
        nobody's partition depends on who else takes part.
    labels
        Natural partitions: for each arm the partition number (0 … partitions − 1) of every unit.
    """
    grid = Grid(bounds=bounds)
    source = generator(rng) if rng is not None else np.random.default_rng(secrets.randbits(256))
    counts, sums, squares = [], [], []
    for name, values in columns.items():
        offsets = grid.offsets(name, values)
        if labels is not None:
            parts = _labels(name, labels.get(name), offsets.size, partitions)
        elif equal:
            parts = source.permutation(offsets.size) % partitions
        else:
            parts = source.integers(partitions, size=offsets.size)
        counts.append(np.bincount(parts, minlength=partitions))
        sums.append(_sums(parts, offsets, partitions))
        squares.append(product_total(offsets, offsets))
    return Arms(
        low=float(grid.origin),
        width=float(grid.largest * grid.exact_step),
        largest=grid.largest,
        counts=np.stack(counts),
        sums=np.stack(sums),
        squares=tuple(squares),
        labels=tuple(columns),
    )


def _labels(name: str, values: Any, size: int, partitions: int) -> Integers:
    array = np.asarray(values)
    if array.shape != (size,) or array.dtype.kind not in "iu":
        raise WrongType(
            "partition_labels", type(values).__name__, f"must be one whole number for every unit of {name!r}",
            "Pass an integer array as long as the outcomes.",
        )  # fmt: skip
    if np.any((array < 0) | (array >= partitions)):
        raise InvalidParameter("partition_labels", name, f"must lie in 0 … {partitions - 1}", "Recode the labels.")
    return array.astype(np.int64)


def _sums(parts: Integers, offsets: Integers, partitions: int) -> NDArray[Any]:
    """Exact sums of offsets per partition: floats would round, so upper and lower bits are added apart."""
    upper = np.bincount(parts, weights=(offsets >> 16).astype(float), minlength=partitions)
    lower = np.bincount(parts, weights=(offsets & 0xFFFF).astype(float), minlength=partitions)
    if total(offsets) != (int(upper.sum()) << 16) + int(lower.sum()):
        raise ArithmeticError("sums of partitions do not add up to the sum of all units")
    return (upper.astype(np.int64) << 16) + lower.astype(np.int64)


def check_sizes(arms: Arms, *, public: bool) -> None:
    """Refuse what cannot be compared; sizes are read only where they are public."""
    if public:
        for arm, label in enumerate(arms.labels):
            requirements.positive_integer(f"units of {label}", arms.size(arm), at_least=2)


# ---- Mean difference: what is measured to compare the means of arms, from units or from partitions of units.


CURVATURE_WEIGHT: dict[str, Fraction] = {"l1": Fraction(1), "l2": Fraction(13, 4)}
"""Largest handy weight κ of Σa(1 − a) beside Σa that costs nothing, under ℓ₁ and under ℓ₂."""

_RESOLUTION = 2**30
"""Partition values are resolved to this share of the censoring interval."""


def size_is_public(neighbours: Neighbours, arm: str) -> bool:
    """True where the number of units per arm is public: one unit is replaced, and stays in its arm."""
    return neighbours is Neighbours.REPLACE_ONE and arm == "public"


@dataclass(frozen=True, kw_only=True)
class MeanDifference(Statistic):
    """The difference of two (or more) arms' means of one bounded outcome.

    **Guarantee.** With a = (y − low)/(high − low) in [0, 1] the value holds, per arm,

    - where sizes are public (replace-one, public arm): (Σa, κ·Σa(1 − a)). One unit changes one arm, by at most 1 in
      ℓ₁ for κ = 1 and by at most 1 in ℓ₂ for κ = 13/4: the second coordinate costs nothing.
    - otherwise: (Σ(1 − a)², Σ2a(1 − a), Σa²), which add up to the number of units. Adding a unit changes it by exactly
      1 in ℓ₁; replacing one, in the same arm or from one arm to another, by at most 2 in ℓ₁ and √2 in ℓ₂.

    Proofs: ``docs/proofs/mean_difference.md``.

    Parameters
    ----------
    bounds
        Public bounds of the outcome of a unit; values outside are clipped.
    arm
        ``"public"`` where the experiment fixed each unit's arm; ``"private"`` where it is part of the record, so that
        replacing a record may move it to another arm.
    arms
        Number of arms.
    norm
        ``"l1"`` for Laplace noise, ``"l2"`` for Gaussian noise: it fixes κ.
    partitions, censor
        Where partition means are used: their number, and the shares censored below and above.

    Examples
    --------
    >>> outcome = MeanDifference(bounds=(0, 500))
    >>> outcome.sensitivity(neighbours=Neighbours.REPLACE_ONE).l1
    1.0
    >>> MeanDifference(bounds=(0, 500), arm="private").sensitivity(neighbours=Neighbours.REPLACE_ONE).l1
    2.0
    """

    name: ClassVar[str] = "mean_difference"
    bounds: tuple[float, float]
    arm: str = "public"
    arms: int = 2
    norm: str = "l1"
    partitions: int | None = None
    censor: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", whole_bounds("bounds", self.bounds))
        object.__setattr__(self, "arms", requirements.positive_integer("arms", self.arms, at_least=2))
        requirements.one_of("arm", self.arm, ("public", "private"))
        requirements.one_of("norm", self.norm, tuple(CURVATURE_WEIGHT))
        if self.partitions is not None:
            object.__setattr__(
                self, "partitions", requirements.positive_integer("partitions", self.partitions, at_least=10)
            )
        if self.censor is not None:
            object.__setattr__(self, "censor", censoring(self.censor))

    def sensitivity(self, *, neighbours: Neighbours) -> Sensitivity:
        """Largest change of the moments of all arms together."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.REPLACE_ONE")
        if size_is_public(neighbours, self.arm):
            return _unit_move(self.norm)
        if neighbours is Neighbours.ADD_REMOVE:
            return Sensitivity(l1=1.0)
        return Sensitivity(l1=2.0, l2=math.nextafter(math.sqrt(2), 2))

    def value(self, count: int, summed: int, squares: int, largest: int, neighbours: Neighbours) -> list[Fraction]:
        """Moments of one arm from the count, sum and sum of squares of its grid offsets in {0, …, largest}."""
        return arm_moments(
            count, summed, squares, largest, public=size_is_public(neighbours, self.arm),
            weight=CURVATURE_WEIGHT[self.norm],
        )  # fmt: skip


def _unit_move(norm: str) -> Sensitivity:
    return Sensitivity(l1=1.0) if norm == "l1" else Sensitivity(l2=1.0)


def arm_moments(
    count: int, summed: int, squares: int, largest: int, *, public: bool, weight: Fraction
) -> list[Fraction]:
    """The moments of `MeanDifference` for one arm, exactly."""
    first = Fraction(summed, largest)
    second = Fraction(squares, largest**2)
    if public:
        return [first, weight * (first - second)]
    return [count - 2 * first + second, 2 * (first - second), second]


def censoring(value: Any) -> tuple[float, float]:
    """Shares (α, β) to censor below and above: each in (0, ½), together below 0.9."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InvalidParameter("censor", value, "must be a pair (α, β)", "Pass censor=(0.1, 0.1).")
    shares = [requirements.probability("censor", share) for share in value]
    if not all(0 < share < 0.5 for share in shares) or sum(shares) >= 0.9:
        raise InvalidParameter("censor", value, "needs 0 < α, β < ½ and α + β < 0.9", "Pass censor=(0.1, 0.1).")
    return shares[0], shares[1]


@dataclass(frozen=True, kw_only=True)
class WinsorizedMoments(Statistic):
    """Moments of partition values pulled into a public interval: (Σa, κ·Σa(1 − a)) with a = (clip(z) − l)/(u − l).

    **Guarantee.** One unit belongs to one partition, so it moves one a in [0, 1], under both neighbour relations and
    whether its arm is public or not: by at most 1 in ℓ₁ for κ = 1, and by at most 1 in ℓ₂ for κ = 13/4. With
    w = 2a − 1 these are the winsorized sum and, from 1 − w² = 4a(1 − a), the winsorized sum of squares: every
    piece of the censored likelihood that is not a count alone.

    Parameters
    ----------
    interval
        Public (l*, u*).
    partitions
        Number of partitions.
    norm
        ``"l1"`` or ``"l2"``, which fixes κ.

    Examples
    --------
    >>> pieces = WinsorizedMoments(interval=(-1, 1), partitions=4)
    >>> [str(x) for x in pieces.value(np.array([-9.0, 0.0, 0.0, 9.0]))]
    ['2', '1/2']
    >>> pieces.sensitivity().l1
    1.0
    """

    name: ClassVar[str] = "winsorized_moments"
    interval: tuple[float, float]
    partitions: int
    norm: str = "l1"

    def __post_init__(self) -> None:
        object.__setattr__(self, "interval", whole_bounds("interval", self.interval))
        object.__setattr__(self, "partitions", requirements.positive_integer("partitions", self.partitions))

    def sensitivity(self) -> Sensitivity:
        """Largest change by one unit."""
        return _unit_move(self.norm)

    def value(self, differences: NDArray[np.float64]) -> NDArray[np.object_]:
        """The exact moments of partition values."""
        low, high = self.interval
        # Each a is rounded to a whole number of 2⁻³⁰ parts on its own, so sums are exact and a stays in [0, 1].
        share = (np.clip(differences, low, high) - low) / (high - low)
        parts = np.clip(np.floor(share * _RESOLUTION + 0.5).astype(np.int64), 0, _RESOLUTION)
        curved = Fraction(product_total(parts, _RESOLUTION - parts), _RESOLUTION**2)
        return fractions([Fraction(total(parts), _RESOLUTION), CURVATURE_WEIGHT[self.norm] * curved])


# ---- Methods that use the whole budget once: direct, noise-aware, and the better of the two from public facts.


# ---- Spending: turning shares of one guarantee into noise, in one kind of mechanism throughout


@dataclass(frozen=True)
class NoisyVector:
    """A noisy vector with the distribution of its noise.

    Attributes
    ----------
    value
        The noisy statistics.
    scale
        Scale of the noise on each of them.
    noise_variance, kurtosis
        Variance and excess kurtosis of the noise on each of them.
    """

    value: Floats
    scale: float
    noise_variance: float
    kurtosis: float


@dataclass(frozen=True)
class Spending:
    """A part of a comparison's guarantee, to be spent on one measurement.

    The noise is Laplace or Gaussian, whichever is smaller. Parts compose to at most the whole: `Guarantee.split` rounds
    them so, and `discreet.core.door` counts them.

    Attributes
    ----------
    guarantee
        What it may cost.
    rng
        Set in simulations only.
    allowance
        Where draws come from, and what counts them; without one there are only plans and simulations.
    """

    guarantee: Guarantee
    rng: np.random.Generator | None = None
    allowance: Allowance | None = None

    def __post_init__(self) -> None:
        if not any(value > 0 for value in self.guarantee.parameters().values()):
            raise InvalidParameter("guarantee", self.guarantee, "leaves nothing to spend", "Pass PureDP(1.0), say.")

    @cached_property
    def mechanism(self) -> type[AdditiveNoise]:
        """Laplace or Gaussian: one unit moves the moments by at most 1 in either norm."""
        return type(additive_noise(self.guarantee, Sensitivity(l1=1.0)))

    @property
    def norm(self) -> str:
        """The norm of the sensitivity that matters."""
        return "l1" if self.mechanism is Laplace else "l2"

    def split(self, weights: Sequence[float]) -> list[Spending]:
        """Parts that compose to at most this one."""
        return [replace(self, guarantee=part) for part in self.guarantee.split(weights)]

    def draw(self, mechanism: Mechanism, truth: Truth, sensitivity: Sensitivity) -> Floats:
        """Spend all of it on one draw."""
        if self.allowance is not None:
            return self.allowance.draw(Step(mechanism, sensitivity, self.guarantee), truth)
        if self.rng is None:
            raise NotCertified("only a release that passes the door may draw; this one only plans.")
        return mechanism.measure(truth, rng=self.rng)

    def measure(self, truth: Truth, sensitivity: Sensitivity) -> NoisyVector:
        """Spend all of it on one vector."""
        mechanism = self.mechanism.calibrate(self.guarantee, sensitivity)
        law = mechanism.law(0.0)
        drawn = self.draw(mechanism, truth, sensitivity)
        return NoisyVector(drawn, mechanism.scale, float(np.max(law.variance)), excess_kurtosis(law))


PLACEMENT_SHARE = 0.3
_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)
_MISFIT = 9.21
"""The 99 % quantile of χ² with two degrees of freedom: four statistics less two parameters."""


@dataclass(frozen=True)
class Setting:
    """The public facts of a comparison.

    Attributes
    ----------
    statistic
        Bounds, arms, partitions and censoring.
    neighbours
        Between which data sets.
    sizes
        Public number of units per arm; None where it is private.
    ratios, shares
        Where natural partitions have public, unequal sizes: σⱼ/σ and the share of partitions that has each.
    """

    statistic: MeanDifference
    neighbours: Neighbours
    sizes: tuple[int, ...] | None
    ratios: tuple[float, ...] = (1.0,)
    shares: tuple[float, ...] = (1.0,)

    @property
    def partitions(self) -> int:
        """Number of partitions."""
        if self.statistic.partitions is None:
            raise InvalidParameter("partitions", None, "is needed by this method", "Pass partitions=….")
        return self.statistic.partitions

    @property
    def censor(self) -> tuple[float, float]:
        """Shares to censor below and above."""
        return self.statistic.censor or (0.1, 0.1)


@dataclass(frozen=True)
class Finding:
    """The conclusion that a method draws from its noisy statistics."""

    contrast: Contrast
    method: str
    noisy: dict[str, Any] = field(default_factory=dict)
    control: Contrast | None = None
    notes: tuple[str, ...] = ()


def cut(value: Any) -> tuple[float, float]:
    """Public cut-offs (l, u) of partition values."""
    return whole_bounds("cutoffs", value)


def unused(method: str, settings: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse settings that a method would not look at."""
    for name, value in settings.items():
        if name not in known:
            looks = f"one of {', '.join(known)}" if known else "nothing of the kind"
            raise InvalidParameter(
                name,
                value,
                f"is no setting of {method}, which takes {looks}",
                f"Leave {name} out, or name another method.",
            )


def check_censor(method: Any, statistic: MeanDifference) -> None:
    """Refuse unequal censoring where the likelihood is not robust to it."""
    below, above = statistic.censor or (0.0, 0.0)
    if below != above and statistic.partitions is not None and isinstance(method, PartitionLikelihood | Best):
        raise InvalidParameter(
            "censor",
            (below, above),
            "must be two equal shares for noise_aware: unequal ones bias the mean of sparse outcomes",
            "Pass censor=(0.1, 0.1).",
        )
    cutoffs = getattr(method, "cutoffs", None)
    most = statistic.bounds[1] - statistic.bounds[0]
    if cutoffs is not None and not (cutoffs[0] < most and -most < cutoffs[1]):
        raise InvalidParameter(
            "cutoffs", cutoffs, f"leave out all differences of means, which lie between {-most:g} and {most:g}",
            "Pass cut-offs on both sides of the usual difference.",
        )  # fmt: skip


class Method(ABC):
    """A way to compare two arms."""

    name: ClassVar[str]
    certified: ClassVar[bool] = True

    @abstractmethod
    def run(self, arms: Arms, spending: Spending, setting: Setting) -> Finding:
        """Spend the spending on the arms' totals and conclude."""

    def parameters(self) -> dict[str, Any]:
        """Public parameters, for the ledger."""
        return {"name": self.name} | {one.name: getattr(self, one.name) for one in fields(cast(Any, self))}


@dataclass(frozen=True)
class Direct(Method):
    """Bounded moments of every arm: no partitions, no censoring, one sanitization with the whole budget.

    Guarantee
    ---------
    The guarantee spent, by the sensitivity of `MeanDifference`. The mean's noise has scale width/(n·ε) per arm, and the
    moment that the standard error needs comes at no further cost.
    """

    name: ClassVar[str] = "direct"

    def means(self, arms: Arms, spending: Spending, setting: Setting) -> tuple[list[ArmMean], NoisyVector]:
        """Every arm's mean, and the noisy moments behind them."""
        statistic = normed(setting.statistic, spending, len(arms.labels))
        moments = [
            statistic.value(arms.size(i), arms.total(i), arms.squares[i], arms.largest, setting.neighbours)
            for i in range(len(arms.labels))
        ]
        measured = spending.measure(
            fractions([value for arm in moments for value in arm]),
            statistic.sensitivity(neighbours=setting.neighbours),
        )
        values = np.asarray(measured.value).reshape(len(arms.labels), -1)
        means = [
            arm_mean(
                values[i],
                size=None if setting.sizes is None else setting.sizes[i],
                low=arms.low,
                width=arms.width,
                weight=float(CURVATURE_WEIGHT[statistic.norm]),
                noise_variance=measured.noise_variance,
                kurtosis=measured.kurtosis,
            )
            for i in range(len(arms.labels))
        ]
        return means, measured

    def run(self, arms: Arms, spending: Spending, setting: Setting) -> Finding:
        means, measured = self.means(arms, spending, setting)
        return Finding(
            contrast(means, [-1.0, 1.0], kurtosis=measured.kurtosis),
            self.name,
            noisy={"moments": np.asarray(measured.value).tolist(), "noise_scale": measured.scale},
            control=contrast(means[:1], [1.0], kurtosis=measured.kurtosis),
        )


@dataclass(frozen=True)
class PartitionLikelihood(Method):
    """Winsorized partition means with the joint distribution of all sanitized statistics as likelihood (errata T6).

    A share of the budget measures the arms directly: that places the interval (l*, u*), from the outcome's own bounds
    and n units rather than P partition values, and it stays in the likelihood. The rest measures the winsorized sum
    and sum of squares of the P partition differences, together, at the price of the sum alone.

    Partition values must be nearly normal for that likelihood. Where the direct and the censored moments contradict
    each other (a test at the 1 % level, from released numbers alone), the result is the direct one, with an interval
    that holds both, and says so. The two censored shares must be equal: unequal ones bias the mean of sparse outcomes
    by as much as the interval is wide, where noise hides the contradiction.

    Guarantee
    ---------
    The guarantee spent: the two measurements compose, the second given the public interval of the first.

    Parameters
    ----------
    placement_share
        Share of the budget for the placement. Where it is left out it is chosen from public facts: the one with the
        least expected error for ``expected_sd``, and 0.3 without it, which is close to the best wherever this method is
        better than the direct one.
    expected_sd
        A guess of the outcome's standard deviation.
    cutoffs
        A public interval (l, u) in place of (l*, u*). The arms are measured directly all the same: that stays in the
        likelihood, and is what its fit is tested against.
    """

    name: ClassVar[str] = "noise_aware"
    placement_share: float | None = None
    expected_sd: float | None = None
    cutoffs: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.placement_share is not None and requirements.probability("placement_share", self.placement_share) == 0:
            raise InvalidParameter("placement_share", self.placement_share, "must be positive", "Pass 0.3.")
        if self.expected_sd is not None:
            object.__setattr__(self, "expected_sd", requirements.positive("expected_sd", self.expected_sd))
        if self.cutoffs is not None:
            object.__setattr__(self, "cutoffs", cut(self.cutoffs))

    def interval(self, start: Contrast, setting: Setting) -> tuple[Any, Any]:
        """The cut-offs: declared, or placed by a direct measurement."""
        if self.cutoffs is None:
            return placed(start, setting.partitions, setting.censor)
        low, high = setting.statistic.bounds
        return within(self.cutoffs, (low - high, high - low))

    def share(self, spending: Spending, setting: Setting) -> float:
        """The share of the budget for the placement, from public facts."""
        if self.placement_share is not None:
            return self.placement_share
        if self.expected_sd is None or setting.sizes is None:
            return PLACEMENT_SHARE
        sizes, expected_sd = setting.sizes, self.expected_sd
        return min(
            _SHARES,
            key=lambda share: expected_error(
                PartitionLikelihood(share, cutoffs=self.cutoffs), spending, setting, sizes, expected_sd
            ),
        )

    def run(self, arms: Arms, spending: Spending, setting: Setting) -> Finding:
        share = self.share(spending, setting)
        first, second = spending.split([share, 1 - share])
        means, measured = Direct().means(arms, first, setting)
        start = contrast(means, [-1.0, 1.0], kurtosis=measured.kurtosis)
        low, high = within(self.interval(start, setting), (-arms.width, arms.width))
        pieces = WinsorizedMoments(interval=(low, high), partitions=setting.partitions, norm=second.norm)
        partitioned = second.measure(pieces.value(arms.differences()), pieces.sensitivity())
        a, c = np.asarray(partitioned.value)
        error = math.sqrt(sum(float(arm.variance_error) ** 2 for arm in means))
        posterior = NoiseAwarePosterior(
            partitions=setting.partitions, low=low, high=high, first=a, second=c,
            weight=float(CURVATURE_WEIGHT[second.norm]), noise_variance=partitioned.noise_variance,
            plain=start.estimate, plain_noise=start.noise_variance,
            spread=setting.partitions * float(sum(arm.variance for arm in means)),
            spread_error=setting.partitions * error, ratios=setting.ratios, shares=setting.shares,
        )  # fmt: skip
        found, notes = fitting(posterior, start, kurtosis=partitioned.kurtosis)
        noisy = {
            "interval": [low, high],
            "winsorized_moments": [float(a), float(c)],
            "moments": np.asarray(measured.value).tolist(),
            "noise_scales": [measured.scale, partitioned.scale],
        }
        name = Direct.name if notes else self.name
        return Finding(found, name, noisy, contrast(means[:1], [1.0], kurtosis=measured.kurtosis), notes)

    def arm_means(self, arms: Arms, spending: Spending, setting: Setting) -> tuple[list[Contrast], dict[str, Any]]:
        """Every arm's own mean, from winsorized partition means of all arms measured together (liu2023 section 7)."""
        share = self.share(spending, setting)
        first, second = spending.split([share, 1 - share])
        means, measured = Direct().means(arms, first, setting)
        starts = [contrast([mean], [1.0], kurtosis=measured.kurtosis) for mean in means]
        bounds = (arms.low, arms.low + arms.width)
        intervals = [within(placed(start, setting.partitions, setting.censor), bounds) for start in starts]
        pieces = [
            WinsorizedMoments(interval=(low, high), partitions=setting.partitions, norm=second.norm)
            for low, high in intervals
        ]
        values = [value for piece, own in zip(pieces, arms.means, strict=True) for value in piece.value(own)]
        moved = pieces[0].sensitivity()
        if setting.statistic.arm == "private" and setting.neighbours is Neighbours.REPLACE_ONE:
            # A record that changes arms moves one partition mean in each of the two.
            moved = Sensitivity(l1=2.0) if second.norm == "l1" else Sensitivity(l2=math.nextafter(math.sqrt(2), 2))
        partitioned = second.measure(fractions(values), moved)
        noisy = np.asarray(partitioned.value).reshape(len(means), 2)
        found = [
            fitting(
                NoiseAwarePosterior(
                    partitions=setting.partitions, low=low, high=high, first=a, second=c,
                    weight=float(CURVATURE_WEIGHT[second.norm]), noise_variance=partitioned.noise_variance,
                    plain=start.estimate, plain_noise=start.noise_variance,
                    spread=setting.partitions * float(mean.variance),
                    spread_error=setting.partitions * float(mean.variance_error),
                ),
                start,
                kurtosis=partitioned.kurtosis,
            )[0]
            for (low, high), (a, c), start, mean in zip(intervals, noisy, starts, means, strict=True)
        ]  # fmt: skip
        return found, {
            "intervals": [[low, high] for low, high in intervals],
            "winsorized_moments": noisy.tolist(),
            "moments": np.asarray(measured.value).tolist(),
            "noise_scales": [measured.scale, partitioned.scale],
        }


def placed(start: Contrast, partitions: int, censor: tuple[float, float]) -> tuple[Any, Any]:
    """(l*, u*) from a direct measurement: the wished quantiles, widened by what is unknown of the centre."""
    sigma = np.sqrt(partitions * start.sampling_variance)
    doubt = np.sqrt(start.noise_variance)
    reach_low, reach_high = (-float(scipy.special.ndtri(share)) for share in censor)
    return start.estimate - reach_low * sigma - doubt, start.estimate + reach_high * sigma + doubt


def within(interval: tuple[Any, Any], bounds: tuple[float, float]) -> tuple[float, float]:
    """The part of an interval that partition values can reach; all of it where noise put the interval outside."""
    low = max(float(interval[0]), bounds[0])
    high = min(float(interval[1]), bounds[1])
    return (low, high) if low < high else bounds


def fitting(posterior: NoiseAwarePosterior, start: Contrast, *, kurtosis: float) -> tuple[Contrast, tuple[str, ...]]:
    """The posterior as a contrast; the direct measurement, with a note, where the two contradict each other."""
    found, misfits = fitted(posterior, start, kurtosis=kurtosis)
    note = (
        "censored and direct moments contradict each other, so the direct ones are used, in an interval that holds both"
    )
    return found, (note,) if misfits else ()


def fitted(posterior: NoiseAwarePosterior, start: Contrast, *, kurtosis: float) -> tuple[Contrast, Any]:
    """The same for many simulated comparisons at once, and which of them contradict themselves.

    A contradiction may be a bias of the censored moments or an extreme noise in the direct ones: by itself the direct
    interval then holds 3 to 6 times in 10. So their distance counts as one more standard deviation, which takes the
    interval over both.
    """
    mean, _, sigma = posterior.moments()
    misfits = posterior.misfit(mean, sigma) > _MISFIT
    aware = noise_aware_contrast(posterior, kurtosis=kurtosis)
    apart = np.abs(np.asarray(start.estimate) - aware.estimate)
    both = np.concatenate([np.asarray(start.noise), apart[None]])
    alone = np.zeros_like(both)
    alone[: len(aware.noise)] = aware.noise
    found = Contrast(
        estimate=np.where(misfits, start.estimate, aware.estimate),
        sampling_variance=np.where(misfits, start.sampling_variance, aware.sampling_variance),
        df=np.where(misfits, start.df, aware.df),
        noise=np.where(misfits, both, alone),
        kurtosis=kurtosis,
    )
    return found, misfits


def noise_aware_contrast(posterior: NoiseAwarePosterior, *, kurtosis: float) -> Contrast:
    """The posterior as a contrast; what exceeds the sampling variance is noise, with the tails of its mechanism."""
    mean, variance, sigma = posterior.moments()
    scale = np.average(np.square(posterior.ratios), weights=posterior.shares)
    sampling = np.minimum(sigma**2 * scale / posterior.partitions, 0.999999 * variance)
    df = np.full(np.shape(mean), float(posterior.partitions - 1))
    return Contrast(mean, sampling, df, np.sqrt(variance - sampling)[None], kurtosis)


@dataclass(frozen=True)
class Best(Method):
    """Direct or noise-aware, whichever has the smaller expected error. Decided from public facts before any draw.

    Parameters
    ----------
    expected_sd
        A guess of the outcome's standard deviation; by default one hundredth of the width of its bounds, which suits
        outcomes that are mostly zero.
    """

    name: ClassVar[str] = "best"
    expected_sd: float | None = None

    def __post_init__(self) -> None:
        if self.expected_sd is not None:
            object.__setattr__(self, "expected_sd", requirements.positive("expected_sd", self.expected_sd))

    def chosen(self, spending: Spending, setting: Setting) -> Method:
        """The method that public facts speak for."""
        if setting.sizes is None or setting.statistic.partitions is None:
            return Direct()
        low, high = setting.statistic.bounds
        expected_sd = (high - low) / 100 if self.expected_sd is None else self.expected_sd
        direct, aware = (
            expected_error(method, spending, setting, setting.sizes, expected_sd)
            for method in (Direct(), PartitionLikelihood(expected_sd=self.expected_sd))
        )
        return PartitionLikelihood(expected_sd=self.expected_sd) if aware < direct else Direct()

    def run(self, arms: Arms, spending: Spending, setting: Setting) -> Finding:
        return self.chosen(spending, setting).run(arms, spending, setting)


def expected_error(
    method: Method, spending: Spending, setting: Setting, sizes: Sequence[int], expected_sd: float
) -> float:
    """Expected standard error of a method, from public facts and a guessed standard deviation of the outcome."""
    low, high = setting.statistic.bounds
    sampling = expected_sd**2 * sum(1 / size for size in sizes[:2])
    unit = _unit_variance(spending, setting)
    direct_noise = unit * sum(((high - low) / size) ** 2 for size in sizes[:2])
    if setting.sizes is None:  # noise of three moments, the most for a mean at an end of the bounds: 0² + ½² + 1²
        direct_noise *= 1.25
    if isinstance(method, Direct):
        return math.sqrt(sampling + direct_noise)
    if not isinstance(method, PartitionLikelihood):
        raise InvalidParameter("method", method, "has no closed expected error", 'Use "direct" or "noise_aware".')
    share = method.share(spending, setting)
    first, second = spending.split([share, 1 - share])
    start_noise = direct_noise / unit * _unit_variance(first, setting)
    count = setting.partitions
    doubt = math.sqrt(start_noise)
    # The interval is placed by a variance that is itself measured, and far too large where noise hides the true one.
    weight = float(CURVATURE_WEIGHT[spending.norm])
    moved = _unit_variance(first, setting) * (1 + weight**-2 if setting.sizes is not None else 1.0)
    error = (high - low) ** 2 * math.sqrt(moved * sum(size**-4 for size in sizes[:2]))
    believed = math.sqrt(float(positive_part_mean(sampling, error)) * count)
    reach = [-float(scipy.special.ndtri(share)) * believed + doubt for share in setting.censor]
    if method.cutoffs is not None:
        declared = within(method.cutoffs, (low - high, high - low))
        reach = [-declared[0], declared[1]]
    width = sum(reach)
    sigma = math.sqrt(sampling * count + start_noise)
    inside = max(float(sum(scipy.special.ndtr(end / sigma) for end in reach)) - 1, 1e-9)
    partition = WinsorizedMoments(interval=(0.0, 1.0), partitions=count, norm=second.norm).sensitivity()
    scale = second.mechanism.calibrate(second.guarantee, partition).scale
    noise = (2 if second.norm == "l1" else 1) * (width * scale / (count * inside)) ** 2
    # The two noisy measurements are combined, each with the weight its noise allows.
    return math.sqrt(1.03 * sampling + 1 / (1 / noise + 1 / start_noise))


def _unit_variance(spending: Spending, setting: Setting) -> float:
    """Variance of the noise on one moment."""
    statistic = normed(setting.statistic, spending, setting.statistic.arms)
    scale = spending.mechanism.calibrate(spending.guarantee, statistic.sensitivity(neighbours=setting.neighbours)).scale
    return scale**2 * (2 if spending.norm == "l1" else 1)


def normed(statistic: MeanDifference, spending: Spending, arms: int) -> MeanDifference:
    """The statistic for these arms, with the norm of the noise that is spent on it."""
    return replace(statistic, norm=spending.norm, arms=arms)


def public_sizes(arms: Arms, neighbours: Neighbours, arm: str) -> tuple[int, ...] | None:
    """Numbers of units per arm where they are public."""
    return tuple(arms.size(i) for i in range(len(arms.labels))) if size_is_public(neighbours, arm) else None
