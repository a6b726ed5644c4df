"""Threshold profile: the privacy curve of a Gaussian threshold on the sizes of groups that are not public."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NoReturn

from flint import arb

from discreet.core.curves import gaussian_delta
from discreet.core.errors import NoConversion
from discreet.core.guarantee import GaussianDP, PureDP, ZeroConcentratedDP
from discreet.core.rounding import ball, decimal, down, least, normal_cdf, precisely, up
from discreet.mechanisms.curve_profile import CurveProfile

__all__ = ["ThresholdProfile"]


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
