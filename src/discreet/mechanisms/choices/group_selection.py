"""Group selection: which labels of an unlimited set are common enough to be shown.

Proofs: ``docs/proofs/group_selection.md``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from flint import arb, fmpz
from numpy.typing import ArrayLike, NDArray

from discreet.contract.mechanism import Law, Mechanism
from discreet.core import requirements
from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import ApproxDP, Guarantee, PureDP
from discreet.core.noise.entropy import SYSTEM_ENTROPY
from discreet.core.noise.truth import Floats, Truth, float_truth, generator
from discreet.core.rounding import ball, decimal, precisely, up
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.calibration import ImpliedProfile

if TYPE_CHECKING:
    from discreet.core.privacy_profile import Profile

__all__ = ["GroupSelection", "InclusionLaw", "OptimalSelection", "changed_groups", "selecting_guarantee"]


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

    def sample(
        self, size: int | tuple[int, ...] | None = None, *, rng: int | np.random.Generator | None = None
    ) -> Floats:
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
        raise InvalidParameter(
            "sensitivity", sensitivity, "must say how many groups a unit is in, each with one", "Pass moves=(1, 1)."
        )
    return len(sensitivity.moves)


class GroupSelection(Mechanism):
    """Shows each group that somebody is in, independently, with a probability that grows with its size."""

    own_kind: ClassVar[type[Guarantee]] = ApproxDP

    @abstractmethod
    def chance(self, sizes: ArrayLike) -> NDArray[np.float64]:
        """Probability of being shown, for groups of these sizes."""

    @abstractmethod
    def shown(self, counts: NDArray[np.int64], *, rng: int | np.random.Generator | None = None) -> Flags:
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

    def draw(self, truth: Truth, *, rng: int | np.random.Generator | None = None) -> Any:
        """One for every group that is shown, zero for the others."""
        return self.shown(_counts(truth), rng=rng).astype(float)

    def expected_error(self, level: float = 0.95) -> float:
        """Size of the smallest groups that are shown with probability ``level``."""
        return float(self.size_shown(level))

    def parameters(self) -> dict[str, Any]:
        """The parameters as JSON-ready data."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


def _counts(truth: Truth) -> NDArray[np.int64]:
    float_truth(truth)  # refuses what is no row of numbers
    array = np.asarray(truth)
    if array.dtype.kind not in "iu" or array.ndim != 1 or (array.size and array.min() < 1):
        raise InvalidParameter(
            "truth", "…", "must be whole numbers of units, one or more in each group", "Count first."
        )
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

    def shown(self, counts: NDArray[np.int64], *, rng: int | np.random.Generator | None = None) -> Flags:
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
        """What (ε, δ)-DP of each group implies for all groups of a unit."""
        groups = changed_groups(sensitivity)
        epsilon, delta = decimal(self.epsilon) * groups, decimal(self.delta) * groups
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
            raise InvalidParameter(
                "guarantee", ApproxDP(epsilon, delta), "shows no group of less than a million units", "Raise epsilon."
            )
    return found


@lru_cache(maxsize=64)
def _chances(epsilon: float, delta: float) -> NDArray[np.float64]:
    return np.array([number / _WHOLE for number in _numerators(epsilon, delta)])
