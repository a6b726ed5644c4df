"""Randomised responses: the worst mechanisms that (ε, δ)-DP allows, and their exact composition.

A mechanism is (ε, δ)-DP if and only if it is a post-processing of randomised response that fails with
probability δ (kairouz2015), so the composition of those responses is the optimal composition of the guarantees.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from flint import arb

from discreet.core.guarantee import ApproxDP, GaussianDP, PureDP, ZeroConcentratedDP
from discreet.core.rounding import ball, decimal, precisely, up
from discreet.mechanisms.curve_profile import CurveProfile
from discreet.mechanisms.loss_distribution import PrivacyLoss, response_loss

__all__ = ["MOST_OUTCOMES", "ResponseProfile", "Responses", "any_failure"]

MOST_OUTCOMES = 20_000
_BITS = 640


class ResponseProfile(CurveProfile):
    """The privacy curve of the worst (ε, δ)-DP mechanism.

    Examples
    --------
    >>> print(ResponseProfile(1.0).concentrated())
    ZeroConcentratedDP(ρ=0.462117)
    """

    def __init__(self, epsilon: float, delta: float = 0.0) -> None:
        self.bound = ApproxDP(epsilon, delta)

    def _delta(self, epsilon: float) -> float:
        return self.bound._delta(epsilon)

    def _epsilon(self, delta: float) -> float:
        return self.bound._epsilon(delta)

    def gaussian(self) -> GaussianDP:
        return self.bound.to(GaussianDP)

    def pure(self) -> PureDP:
        return self.bound.to(PureDP)

    def concentrated(self) -> ZeroConcentratedDP:
        return self.bound.to(ZeroConcentratedDP)

    def losses(self) -> list[tuple[PrivacyLoss, int]]:
        return [(response_loss(self.bound.epsilon, self.bound.delta), 1)]

    def _reach(self) -> float:
        return min(self.bound.epsilon, 700.0)

    def to_dict(self) -> dict[str, Any]:
        return {"profile": "response", **self.bound.parameters()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResponseProfile) and self.bound == other.bound

    def __hash__(self) -> int:
        return hash(self.bound)

    def __repr__(self) -> str:
        return f"ResponseProfile({self.bound.epsilon!r}, {self.bound.delta!r})"

    def __str__(self) -> str:
        return f"The worst mechanism within {self.bound}"


class Responses:
    """Exact composition of randomised responses (kairouz2015; murtagh2016 where they differ).

    Parameters
    ----------
    parts
        The (ε, δ) guarantees. Responses with the same ε share their outcomes: k of them have k + 1.

    Examples
    --------
    >>> round(Responses([ApproxDP(0.1, 0.0)] * 100).epsilon_at(1e-6), 4)
    4.7746
    """

    def __init__(self, parts: Iterable[ApproxDP]) -> None:
        guarantees = list(parts)
        times = Counter(decimal(part.epsilon) for part in guarantees if part.epsilon > 0)
        self.failure = any_failure(guarantees)
        with precisely(_BITS):
            outcomes: dict[Fraction, arb] = {Fraction(0): arb(1)}
            for epsilon, count in times.items():
                outcomes = _extended(outcomes, epsilon, count)
            self._losses = sorted(outcomes)
            # Tail sums from the largest loss down: P(L > l) and Q(L > l) between neighbouring losses.
            first, second = [arb(0)], [arb(0)]
            for loss in reversed(self._losses):
                first.append(first[-1] + outcomes[loss])
                second.append(second[-1] + outcomes[loss] * (-ball(loss)).exp())
        self._first, self._second = first[::-1], second[::-1]

    @staticmethod
    def outcomes(parts: Iterable[ApproxDP]) -> int:
        """Number of distinct outcomes, to see whether the exact composition is affordable."""
        return math.prod(count + 1 for count in Counter(part.epsilon for part in parts).values())

    def delta_at(self, epsilon: float) -> float:
        """Smallest δ such that the composition is (ε, δ)-DP, rounded up."""
        exact = decimal(epsilon)
        above = bisect_right(self._losses, exact)
        with precisely(_BITS):
            hidden = self._first[above] - ball(exact).exp() * self._second[above]
            return min(up(ball(self.failure) + (1 - ball(self.failure)) * hidden), 1.0)

    def epsilon_at(self, delta: float) -> float:
        """Smallest ε such that the composition is (ε, δ)-DP, rounded up; infinity where there is none."""
        if decimal(delta) < self.failure:
            return math.inf
        target = (decimal(delta) - self.failure) / (1 - self.failure)
        with precisely(_BITS):
            wanted = ball(target)
            low, high = bisect_right(self._losses, 0), len(self._losses)
            while low < high:  # the first loss at which δ has come down to the target
                middle = (low + high) // 2
                at = self._first[middle + 1] - ball(self._losses[middle]).exp() * self._second[middle + 1]
                low, high = (low, middle) if at <= wanted else (middle + 1, high)
            if low == len(self._losses):
                return up(self._losses[-1])
            ratio = (self._first[low] - wanted) / self._second[low]
            return 0.0 if ratio <= 1 else max(0.0, up(ratio.log()))


def any_failure(parts: Iterable[ApproxDP]) -> Fraction:
    """Probability that at least one of the responses fails."""
    counts = Counter(part.delta for part in parts)
    return 1 - math.prod(((1 - decimal(delta)) ** times for delta, times in counts.items()), start=Fraction(1))


def _extended(outcomes: dict[Fraction, arb], epsilon: Fraction, count: int) -> dict[Fraction, arb]:
    """Outcomes after ``count`` more responses of the same ε."""
    odds = ball(epsilon).exp()
    chances = [(1 + odds) ** -count]
    for j in range(count):
        chances.append(chances[-1] * odds * (count - j) / (j + 1))
    grown: dict[Fraction, arb] = {}
    for loss, chance in outcomes.items():
        for j, factor in enumerate(chances):
            sum_ = loss + (2 * j - count) * epsilon
            grown[sum_] = grown.get(sum_, arb(0)) + chance * factor
    return grown
