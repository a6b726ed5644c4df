"""Spread in parts: the five totals of a mean with its variance, asked for the variance or for its root."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from discreet.display import Facts, number
from discreet.interval import Interval
from discreet.publish.readings import Reading
from discreet.questions.parts import MeanAndVarianceInParts, MeanAndVarianceInPartsRelease
from discreet.releases import Release

__all__ = ["SpreadInPartsRelease", "StandardDeviationInParts", "VarianceInParts"]


@dataclass(frozen=True, kw_only=True)
class VarianceInParts(MeanAndVarianceInParts):
    """Variance of a column in public bounds: the totals of `MeanAndVarianceInParts`, read for the variance.

    Guarantee
    ---------
    Add/remove: ℓ₁ = ℓ₂ = 1. Replace-one: 2 and √2.

    Examples
    --------
    >>> VarianceInParts(bounds=(0, 10)).title
    'variance'
    """

    name: ClassVar[str] = "variance_in_parts"

    @classmethod
    def release_type(cls) -> type[Release]:
        return SpreadInPartsRelease


@dataclass(frozen=True, kw_only=True)
class StandardDeviationInParts(VarianceInParts):
    """Standard deviation of a column in public bounds: the same totals, read for the root of the variance.

    Guarantee
    ---------
    Add/remove: ℓ₁ = ℓ₂ = 1. Replace-one: 2 and √2.

    Examples
    --------
    >>> StandardDeviationInParts(bounds=(0, 10)).title
    'standard deviation'
    """

    name: ClassVar[str] = "standard_deviation_in_parts"


@dataclass(frozen=True)
class SpreadInPartsRelease(MeanAndVarianceInPartsRelease):
    """Five noisy totals, asked for the variance or the standard deviation: both intervals are of what was asked for."""

    @property
    def _rooted(self) -> bool:
        return isinstance(self.statistic, StandardDeviationInParts)

    @property
    def measure(self) -> str:
        return self._of.title

    @property
    def standard_error(self) -> None:
        """Not known in closed form; the intervals are."""
        return None

    @property
    def estimate(self) -> float:
        """What was asked for."""
        return self.standard_deviation if self._rooted else self.variance

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """Interval for the data; privacy noise only."""
        return self.standard_deviation_interval(level) if self._rooted else self.variance_interval(level)

    def population_interval(self, level: float = 0.95) -> Interval:
        """Interval for the population: noise and sampling together, from measured fourth moments."""
        if self._rooted:
            return self.population_standard_deviation_interval(level)
        return self.population_variance_interval(level)

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """What was asked for, and the standard deviation, each with both intervals."""
        return super().readings(columns)[1 if self._rooted else 0 :]

    def facts(self) -> Facts:
        """What to show, with what was asked for first and the mean before the number of rows."""
        shown = [fact for fact in super().facts()[1:] if not (self._rooted and fact[0] == "standard deviation")]
        place = [name for name, _ in shown].index(self.rows_name)
        mean = ("mean", number(self.mean))
        return [(self.measure, number(self.estimate)), *shown[:place], mean, *shown[place:]]
