"""Gaussian threshold: groups are shown whose noisy number of units exceeds a public threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.errors import NoConversion
from discreet.core.guarantee import GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.privacy_curve import gaussian_delta
from discreet.core.rounding import ball, decimal, down, least, normal_cdf, precisely, up
from discreet.core.sensitivity import Sensitivity, root_up
from discreet.mechanisms.choices.group_selection import Flags, GroupSelection, changed_groups, selecting_guarantee
from discreet.mechanisms.gaussian import GaussianLaw, gaussian_scale
from discreet.mechanisms.loss_distribution import CurveProfile

if TYPE_CHECKING:
    from discreet.core.privacy_profile import Profile

__all__ = ["GaussianThreshold", "ThresholdProfile"]


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
        self.scale, self.threshold, self.groups = Fraction(scale), Fraction(threshold), groups

    def _delta(self, epsilon: float) -> float:
        with precisely():
            scale = ball(self.scale)
            # A group that one unit holds alone has the count 1; it is the only event that tells the data sets apart
            # for certain, so its probability is part of δ.
            hidden = normal_cdf((ball(self.threshold) - 1) / scale)
            some = 1 - hidden**self.groups
            if not some < 1:
                return 1.0
            same, less = decimal(epsilon), decimal(down(ball(decimal(epsilon)) + (1 - some).log()))
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
        return {
            "profile": "threshold",
            "scale": float(self.scale),
            "threshold": float(self.threshold),
            "groups": self.groups,
        }

    def __repr__(self) -> str:
        return f"ThresholdProfile({float(self.scale)!r}, {float(self.threshold)!r}, {self.groups})"


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
