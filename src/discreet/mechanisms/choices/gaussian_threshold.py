"""Gaussian threshold: groups are shown whose noisy number of units exceeds a public threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.guarantee import Guarantee
from discreet.core.sensitivity import Sensitivity, root_up
from discreet.mechanisms.choices.group_selection import Flags, GroupSelection, changed_groups, selecting_guarantee
from discreet.mechanisms.choices.threshold_profile import ThresholdProfile
from discreet.mechanisms.gaussian import GaussianLaw, gaussian_scale

if TYPE_CHECKING:
    from discreet.core.privacy_profile import Profile

__all__ = ["GaussianThreshold"]

Array = NDArray[np.float64]
_REACH = NormalDist().inv_cdf(0.95)
"""How far above the threshold a group must be to be shown with probability 95 %, in standard deviations."""


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

        target, groups = selecting_guarantee(guarantee), changed_groups(sensitivity)
        least = gaussian_scale(target, Sensitivity(l2=root_up(Fraction(groups))))

        def shown(log_excess: float) -> float:
            scale = least * (1 + math.exp(log_excess))
            return _threshold(scale, groups, target.epsilon, target.delta) + _REACH * scale

        best = minimize_scalar(shown, bounds=(-12.0, 1.0), method="bounded", options={"xatol": 1e-3})
        scale = least * (1 + math.exp(float(best.x)))
        threshold, step = _threshold(scale, groups, target.epsilon, target.delta), 1e-9 * scale
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

    def shown(self, counts: NDArray[np.int64], *, rng: int | np.random.Generator | None = None) -> Flags:
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
    above, below = log_ndtr(moved / 2 - epsilon / moved), epsilon + log_ndtr(-moved / 2 - epsilon / moved)
    spent = np.append(np.exp(above) * -np.expm1(np.minimum(below - above, 0.0)), 0.0)
    left = delta - spent
    if left.min() <= 0:
        return math.inf
    one = -np.expm1(np.log1p(-left) / new)  # each of so many new groups may be shown with this probability
    return 1 + scale * float(np.max(-ndtri(one)))
