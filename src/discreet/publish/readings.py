"""Readings: the numbers of an answer, each with its intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from discreet.core.interval import Interval

__all__ = ["Reading"]


@dataclass(frozen=True)
class Reading:
    """One number with its 95 % intervals.

    Attributes
    ----------
    label
        Of what: group, cell or quantile; empty for a single number.
    estimate
        The number, or the label where a label was chosen.
    noise
        Interval for the number in the data: privacy noise alone.
    population
        Interval for the number in the population: noise and sampling; None where it is not known.
    """

    label: str
    estimate: float | str
    noise: Interval | None
    population: Interval | None = None

    def to_dict(self) -> dict[str, Any]:
        """The reading as JSON-ready data."""
        return {
            "label": self.label,
            "estimate": self.estimate,
            "noise": None if self.noise is None else self.noise.to_dict(),
            "population": None if self.population is None else self.population.to_dict(),
        }
