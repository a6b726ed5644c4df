"""Readings: the numbers of an answer, each with its intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from discreet.interval import Interval

__all__ = ["CAUTION", "UNRELIABLE", "Reading", "by_measure", "reliability"]

CAUTION, UNRELIABLE = 0.165, 0.333
"""Standard error over estimate from which a number is flagged, as statistical offices have it (Statistics Canada)."""
_SIGNED = ("covariance", "correlation", "coefficient", "difference of means", "centre")
"""Measures of which zero is a value like any other: a relative error says nothing of them."""
_NORMAL = 1.96  # a 95 % interval reaches so many standard errors


@dataclass(frozen=True)
class Reading:
    """One number with its 95 % intervals.

    Attributes
    ----------
    label
        Of what, for people: group, cell or quantile; empty for a single number.
    estimate
        The number, or the label where a label was chosen.
    noise
        Interval for the number in the data: privacy noise alone.
    population
        Interval for the number in the population: noise and sampling; None where it is not known.
    labels
        Of what, for machines: columns with their labels.
    measure
        What the number is: a count, a mean, a standard deviation, …
    standard_error
        Of the noise alone; where only a population interval is known, of noise and sampling. None where it is not
        known.
    pvalue
        Of the hypothesis that the number is 0 in the population; None where it was not tested.
    """

    label: str
    estimate: float | str
    noise: Interval | None = None
    population: Interval | None = None
    labels: Mapping[str, Any] = field(default_factory=dict)
    measure: str = "value"
    standard_error: float | None = None
    pvalue: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The reading as JSON-ready data."""
        return {
            "label": self.label,
            "labels": dict(self.labels),
            "measure": self.measure,
            "estimate": self.estimate,
            "noise": None if self.noise is None else self.noise.to_dict(),
            "population": None if self.population is None else self.population.to_dict(),
            "standard_error": self.standard_error,
            "pvalue": self.pvalue,
        }


def by_measure(readings: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Readings, as plain data, under what they measure: numbers of one kind share a table and an axis."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for reading in readings:
        found.setdefault(reading["measure"], []).append(reading)
    return found


def reliability(reading: Mapping[str, Any]) -> str:
    """Nothing, "caution" or "unreliable", by the standard error over the number: a rule of published numbers.

    Only numbers that cannot be negative are judged.

    Examples
    --------
    >>> told = {"measure": "count", "estimate": 30.0, "standard_error": 6.0, "noise": None, "population": None}
    >>> reliability(told), reliability({**told, "estimate": 300.0}), reliability({**told, "estimate": 3.0})
    ('caution', '', 'unreliable')
    """
    estimate, error, known = reading["estimate"], reading["standard_error"], reading["noise"] or reading["population"]
    if isinstance(estimate, str) or reading["measure"] in _SIGNED or (known is not None and known["low"] < 0):
        return ""
    if error is None and known is not None:
        error = (known["high"] - known["low"]) / 2 / _NORMAL
    if not error or (known is not None and known["low"] == known["high"]):
        return ""
    variation = error / abs(estimate) if estimate else inf
    return "unreliable" if variation > UNRELIABLE else "caution" if variation > CAUTION else ""
