"""Group selection: which labels of an unlimited set are common enough to be shown.

Proofs: ``docs/proofs/group_selection.md``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from flint import arb, fmpz
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.door import Rng
from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, Profile, PureDP, ZeroConcentratedDP, gaussian_delta
from discreet.core.noise.sampler import SYSTEM_ENTROPY, Floats, Truth, float_truth, generator
from discreet.core.numbers import ball, decimal, down, least, normal_cdf, precisely, up
from discreet.core.sensitivity import Sensitivity, root_up
from discreet.mechanisms.gaussian import GaussianLaw, gaussian_scale
from discreet.mechanisms.loss_distribution import CurveProfile, ImpliedProfile
from discreet.mechanisms.mechanism import Law, Mechanism, Size

# ---- InclusionLaw: independent yes and no, each with its own probability


Array = NDArray[np.float64]


class InclusionLaw(Law):
    """One (shown) or zero (hidden) for every group.

    Parameters
    ----------
    probabilities
        Of being shown, one per group.
    draw
        The exact sampler; `sample` without a generator calls it.

    Examples
    --------
    >>> law = InclusionLaw(np.array([0.25, 1.0]), lambda: np.array([False, True]))
    >>> law.mean.tolist(), law.pdf([[1, 1], [0, 0]]).tolist(), law.quantile(0.5).tolist()
    ([0.25, 1.0], [[0.25, 1.0], [0.75, 0.0]], [0.0, 1.0])
    """

    def __init__(self, probabilities: Array, draw: Callable[[], NDArray[np.bool_]]) -> None:
        self.probabilities = np.asarray(probabilities, dtype=float)
        self._draw = draw

    @property
    def shape(self) -> tuple[int, ...]:
        """One number per group."""
        return self.probabilities.shape

    @property
    def support(self) -> tuple[Floats, Floats]:
        """Zero and one."""
        return 0.0, 1.0

    @property
    def mean(self) -> Floats:
        """The probabilities."""
        return self.probabilities

    @property
    def variance(self) -> Floats:
        """p(1 − p)."""
        return np.asarray(self.probabilities * (1 - self.probabilities))

    @property
    def bias(self) -> Floats:
        """Against showing every group."""
        return np.asarray(self.probabilities - 1)

    def pdf(self, x: ArrayLike) -> Floats:
        """Probability of each outcome."""
        points = np.asarray(x, dtype=float)
        return np.where(points == 1, self.probabilities, np.where(points == 0, 1 - self.probabilities, 0.0))

    def cdf(self, x: ArrayLike) -> Floats:
        """Probability of an outcome of at most ``x``."""
        points = np.asarray(x, dtype=float)
        return np.where(points >= 1, 1.0, np.where(points >= 0, 1 - self.probabilities, 0.0))

    def quantile(self, q: ArrayLike) -> Floats:
        """Zero up to the probability of being hidden, then one."""
        return np.where(np.asarray(q, dtype=float) <= 1 - self.probabilities, 0.0, 1.0)

    def sample(self, size: Size = None, *, rng: Rng = None) -> Floats:
        """Zeros and ones."""
        count = 1 if size is None else int(np.prod(size))
        if rng is None:
            draws = np.array([self._draw() for _ in range(count)], dtype=float)
        else:
            draws = (generator(rng).random((count, *self.shape)) < self.probabilities).astype(float)
        if size is None:
            return np.asarray(draws[0])
        return draws.reshape((size if isinstance(size, tuple) else (size,)) + self.shape)


Flags = NDArray[np.bool_]
_BITS = 256
_WHOLE = 1 << _BITS
_LONGEST = 1 << 20
"""Counts beyond which nothing is tabulated: such a guarantee would show no group of a million units."""


def selecting_guarantee(guarantee: Guarantee) -> ApproxDP:
    """The (ε, δ) to spend on a list of groups; a pure guarantee cannot show any."""
    requirements.instance("guarantee", guarantee, Guarantee, "ApproxDP(1.0, 1e-8)")
    if isinstance(guarantee, ApproxDP) and guarantee.delta > 0:
        return guarantee
    why = "a label that only one unit holds may be shown with probability δ at most, so δ must be above 0"
    if isinstance(guarantee, PureDP | ApproxDP):
        raise InvalidParameter("guarantee", guarantee, why, "Pass ApproxDP(1.0, 1e-8), for example.")
    raise NoConversion(f"groups cannot be chosen under {guarantee}: {why}. Pass ApproxDP(1.0, 1e-8), for example.")


def changed_groups(sensitivity: Sensitivity) -> int:
    """Number of counts that one unit changes by one each."""
    requirements.instance("sensitivity", sensitivity, Sensitivity, "Sensitivity(moves=(1,))")
    if sensitivity.moves is None or max(sensitivity.moves) > 1:
        fix = "Pass moves=(1, 1)."
        raise InvalidParameter("sensitivity", sensitivity, "must say how many groups a unit is in, each with one", fix)
    return len(sensitivity.moves)


class GroupSelection(Mechanism):
    """Shows each group that somebody is in, independently, with a probability that grows with its size."""

    own_kind: ClassVar[type[Guarantee]] = ApproxDP

    @abstractmethod
    def chance(self, sizes: ArrayLike) -> NDArray[np.float64]:
        """Probability of being shown, for groups of these sizes."""

    @abstractmethod
    def shown(self, counts: NDArray[np.int64], *, rng: Rng = None) -> Flags:
        """Which groups are shown, given how many units each has."""

    def chosen(self, labels: Sequence[Any], counts: NDArray[np.int64]) -> tuple[Any, ...]:
        """The labels that are shown, in their own order, given how many units hold each."""
        flags = self.shown(counts).tolist()
        return tuple(sorted(label for label, one in zip(labels, flags, strict=True) if one))

    def size_shown(self, probability: float = 0.95) -> int:
        """Size of the smallest groups that are shown with this probability.

        It is certain about nothing that is missing: a group that is not on the list may just be small.
        """
        wanted = requirements.level(probability)
        high = 1
        while self.chance([high])[0] < wanted:
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.chance([middle])[0] >= wanted else (middle, high)
        return high

    def law(self, truth: Truth) -> InclusionLaw:
        """Independent yes and no, one per group."""
        counts = _counts(truth)
        return InclusionLaw(self.chance(counts), lambda: self.shown(counts))

    def draw(self, truth: Truth, *, rng: Rng = None) -> Any:
        """One for every group that is shown, zero for the others."""
        return self.shown(_counts(truth), rng=rng).astype(float)

    def error(self, level: float = 0.95) -> float:
        """Size of the smallest groups that are shown with probability ``level``."""
        return float(self.size_shown(level))


def _counts(truth: Truth) -> NDArray[np.int64]:
    float_truth(truth)  # refuses what is no row of numbers
    array = np.asarray(truth)
    if array.dtype.kind not in "iu" or array.ndim != 1 or (array.size and array.min() < 1):
        fix = "Count first."
        raise InvalidParameter("truth", "…", "must be whole numbers of units, one or more in each group", fix)
    return array.astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class OptimalSelection(GroupSelection):
    """Shows every group with the largest probability that (ε, δ)-DP allows (desfontaines2022, Theorem 1).

    Guarantee
    ---------
    (ε, δ)-DP for a unit in one group; m·ε and m·δ for one in m groups. A group of one unit is shown with probability δ.
    Probabilities are whole numbers of 2⁻²⁵⁶, computed and drawn exactly.

    Parameters
    ----------
    epsilon, delta
        What each group may cost.

    Examples
    --------
    >>> rule = OptimalSelection.calibrate(ApproxDP(1.0, 1e-6), Sensitivity(moves=(1,)))
    >>> rule.size_shown(), [round(float(p), 3) for p in rule.chance([1, 10, 14, 16])]
    (16, [0.0, 0.013, 0.7, 0.959])
    """

    epsilon: float
    delta: float
    name: ClassVar[str] = "optimal_selection"

    def __post_init__(self) -> None:
        checked = selecting_guarantee(ApproxDP(self.epsilon, self.delta))
        object.__setattr__(self, "epsilon", checked.epsilon)
        object.__setattr__(self, "delta", checked.delta)

    @classmethod
    def calibrate(cls, guarantee: Guarantee, sensitivity: Sensitivity) -> Self:
        """The rule that shows most at this guarantee: an equal share of ε and δ for each group of a unit."""
        part = selecting_guarantee(guarantee).split(changed_groups(sensitivity))[0]
        return cls(epsilon=part.epsilon, delta=part.delta)

    def numerators(self) -> list[int]:
        """2²⁵⁶ times the probability of being shown, for sizes 0, 1, 2, … up to the first that is always shown."""
        return _numerators(self.epsilon, self.delta)

    def chance(self, sizes: ArrayLike) -> NDArray[np.float64]:
        table = _chances(self.epsilon, self.delta)
        return np.asarray(table[np.minimum(np.asarray(sizes, dtype=np.int64), table.size - 1)])

    def shown(self, counts: NDArray[np.int64], *, rng: Rng = None) -> Flags:
        if rng is not None:
            return np.asarray(generator(rng).random(counts.size) < self.chance(counts))
        exact = self.numerators()
        sizes = np.minimum(counts, len(exact) - 1)
        first = np.array([min(number >> (_BITS - 64), 2**64 - 1) for number in exact], dtype=np.uint64)[sizes]
        words = SYSTEM_ENTROPY.words(counts.size)
        flags = np.asarray((words < first) | (sizes == len(exact) - 1))
        for place in np.flatnonzero((words == first) & ~flags).tolist():  # 64 bits tie once in 2⁶⁴ draws
            rest = int.from_bytes(SYSTEM_ENTROPY.words((_BITS - 64) // 64).tobytes(), "little")
            flags[place] = rest < exact[int(sizes[place])] % (1 << (_BITS - 64))
        return flags

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """The privacy curve that (ε, δ)-DP of each group implies for all groups of a unit."""
        groups = changed_groups(sensitivity)
        epsilon = decimal(self.epsilon) * groups
        delta = decimal(self.delta) * groups
        return ImpliedProfile(ApproxDP(up(epsilon), min(up(delta), 1.0)))


@lru_cache(maxsize=64)
def _numerators(epsilon: float, delta: float) -> list[int]:
    with precisely(_BITS + 128 + int(2 * epsilon)):
        growth = int((ball(decimal(epsilon)).exp() * arb(2) ** _BITS).floor().unique_fmpz() or fmpz(0))
    if growth < _WHOLE:
        growth = _WHOLE  # e^ε ≥ 1
    extra = int(Fraction(decimal(delta)) * _WHOLE)
    found = [0]
    while found[-1] < _WHOLE:
        last = found[-1]
        left = max(_WHOLE - last - extra, 0)
        found.append(min((growth * last >> _BITS) + extra, _WHOLE - -(-left * _WHOLE // growth), _WHOLE))
        if len(found) > _LONGEST or found[-1] == last:
            rule = "shows no group of less than a million units"
            raise InvalidParameter("guarantee", ApproxDP(epsilon, delta), rule, "Raise epsilon.")
    return found


@lru_cache(maxsize=64)
def _chances(epsilon: float, delta: float) -> NDArray[np.float64]:
    return np.array([number / _WHOLE for number in _numerators(epsilon, delta)])


# ---- Gaussian threshold: groups are shown whose noisy number of units exceeds a public threshold.


# ---- Threshold profile: the privacy curve of a Gaussian threshold on the sizes of groups that are not public


class ThresholdProfile(CurveProfile):
    """The bound of ``docs/proofs/group_selection.md``, which takes the worst over the number of new groups.

    Parameters
    ----------
    scale, threshold
        Of the noise, and what a noisy size must exceed.
    groups
        Number m of groups that a unit changes by one each.

    Examples
    --------
    >>> ThresholdProfile(10.0, 60.0, 3).delta_at(1.0) < 1e-6
    True
    """

    def __init__(self, scale: float, threshold: float, groups: int) -> None:
        self.scale = Fraction(scale)
        self.threshold = Fraction(threshold)
        self.groups = groups

    def _delta(self, epsilon: float) -> float:
        with precisely():
            scale = ball(self.scale)
            # A group that one unit holds alone has the count 1; it is the only event that tells the data sets apart
            # for certain, so its probability is part of δ.
            hidden = normal_cdf((ball(self.threshold) - 1) / scale)
            some = 1 - hidden**self.groups
            if not some < 1:
                return 1.0
            same = decimal(epsilon)
            less = decimal(down(ball(decimal(epsilon)) + (1 - some).log()))
            bounds = []
            for new in range(self.groups + 1):
                left = self.groups - new
                bounds.append(1 - hidden**new + self._moved(scale, left, same))
                if left:  # one of the others vanishes
                    bounds.append(1 - hidden**new + self._moved(scale, left - 1, less))
        # The unit's groups may be new or shared in any mixture: the worst of them counts.
        return min(max(up(bound) for bound in bounds), 1.0)

    def _moved(self, scale: arb, groups: int, epsilon: Fraction) -> arb:
        """δ of the groups that both data sets have."""
        if groups == 0:
            return arb(0) if epsilon >= 0 else 1 - ball(epsilon).exp()
        return gaussian_delta(arb(groups).sqrt() / scale, epsilon)

    def _epsilon(self, delta: float) -> float:
        if self._delta(1000.0) > delta:
            return math.inf
        if self._delta(0.0) <= delta:
            return 0.0
        return least(lambda epsilon: self._delta(epsilon) <= delta, float(math.sqrt(self.groups) / self.scale))

    def pure(self) -> PureDP:
        self._refuse("PureDP")

    def gaussian(self) -> GaussianDP:
        self._refuse("GaussianDP")

    def concentrated(self) -> ZeroConcentratedDP:
        self._refuse("ZeroConcentratedDP")

    def _refuse(self, kind: str) -> NoReturn:
        raise NoConversion(
            f"a list of groups cannot be stated as {kind}: a label that only one unit holds may be shown. "
            "State it as ApproxDP with a δ."
        )

    def _reach(self) -> float:
        return 40.0

    def to_dict(self) -> dict[str, Any]:
        sizes = {"scale": float(self.scale), "threshold": float(self.threshold)}
        return {"profile": "threshold", **sizes, "groups": self.groups}


_REACH = NormalDist().inv_cdf(0.95)
"""The distance above the threshold at which a group is shown with probability 95 %, in standard deviations."""


@dataclass(frozen=True, kw_only=True)
class GaussianThreshold(GroupSelection):
    """Shows groups whose size plus Gaussian noise is above a threshold; the better rule where units are in many groups.

    Guarantee
    ---------
    For a unit in m groups, with p_j the probability that one of j groups of a single unit is shown: (ε, δ)-DP for
    δ = max_j p_j + max{δ_{√(m−j)/σ}(ε), δ_{√(m−j−1)/σ}(ε + log(1 − p_m))}, certified in rigorous arithmetic. Proof:
    ``docs/proofs/group_selection.md``.

    Parameters
    ----------
    scale
        Standard deviation σ of the noise.
    threshold
        What a noisy size must exceed; rounded up to the grid of the noise.

    Examples
    --------
    >>> from discreet import ApproxDP
    >>> rule = GaussianThreshold.calibrate(ApproxDP(1.0, 1e-6), Sensitivity(moves=(1,) * 10))
    >>> rule.size_shown(), rule.guarantee(Sensitivity(moves=(1,) * 10), delta=1e-6).epsilon <= 1
    (93, True)
    """

    scale: float
    threshold: float
    name: ClassVar[str] = "gaussian_threshold"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", requirements.positive("scale", self.scale))
        object.__setattr__(self, "threshold", requirements.positive("threshold", self.threshold))

    @classmethod
    def calibrate(cls, guarantee: Guarantee, sensitivity: Sensitivity) -> Self:
        """Noise and threshold that show the smallest groups with probability 95 % at this guarantee."""
        from scipy.optimize import minimize_scalar

        target = selecting_guarantee(guarantee)
        groups = changed_groups(sensitivity)
        least = gaussian_scale(target, Sensitivity(l2=root_up(Fraction(groups))))

        def shown(log_excess: float) -> float:
            scale = least * (1 + math.exp(log_excess))
            return _threshold(scale, groups, target.epsilon, target.delta) + _REACH * scale

        best = minimize_scalar(shown, bounds=(-12.0, 1.0), method="bounded", options={"xatol": 1e-3})
        scale = least * (1 + math.exp(float(best.x)))
        threshold = _threshold(scale, groups, target.epsilon, target.delta)
        step = 1e-9 * scale
        while not ThresholdProfile(scale, threshold, groups).within(target):  # the search was in floating point
            threshold, step = threshold + step, 2 * step
        return cls(scale=scale, threshold=threshold)

    def _bar(self) -> tuple[float, float]:
        """The threshold on the grid of the noise, and the grid."""
        grid = float(np.max(GaussianLaw(0.0, self.scale).grid))
        return math.ceil(self.threshold / grid) * grid, grid

    def chance(self, sizes: ArrayLike) -> Array:
        from scipy.special import ndtr

        bar, grid = self._bar()
        return np.asarray(ndtr((np.asarray(sizes, dtype=float) - bar - grid / 2) / self.scale))

    def shown(self, counts: NDArray[np.int64], *, rng: Rng = None) -> Flags:
        if counts.size == 0:
            return np.zeros(0, dtype=bool)
        return np.asarray(np.asarray(GaussianLaw(counts, self.scale).sample(rng=rng)) > self._bar()[0])

    def profile(self, sensitivity: Sensitivity) -> Profile:
        """The bound of the theorem, for every ε."""
        return ThresholdProfile(self.scale, self.threshold, changed_groups(sensitivity))


def _threshold(scale: float, groups: int, epsilon: float, delta: float) -> float:
    """The least threshold that the theorem allows, in floating point; infinity where the noise is too small."""
    from scipy.special import log_ndtr, ndtri

    new = np.arange(1, groups + 1)
    moved = np.sqrt(groups - new[:-1]) / scale
    above = log_ndtr(moved / 2 - epsilon / moved)
    below = epsilon + log_ndtr(-moved / 2 - epsilon / moved)
    spent = np.append(np.exp(above) * -np.expm1(np.minimum(below - above, 0.0)), 0.0)
    left = delta - spent
    if left.min() <= 0:
        return math.inf
    one = -np.expm1(np.log1p(-left) / new)  # each of so many new groups may be shown with this probability
    return 1 + scale * float(np.max(-ndtri(one)))
