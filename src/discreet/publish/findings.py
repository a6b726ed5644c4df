"""Findings: the main result of each release as sentences, from its published numbers alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from discreet.publish.grids import label_words, place_of
from discreet.publish.readings import by_measure, reliability
from discreet.publish.wording import measure_words, reading_words, verdict

__all__ = ["findings"]

Reading = Mapping[str, Any]
_FEW = 4
_KINDS = ("population", "noise")
"""Kinds of intervals, the wider first."""


def findings(release: Mapping[str, Any]) -> list[str]:
    """What a release says, in one to three sentences. Intervals are those of 95 %.

    Examples
    --------
    >>> told = {"labels": {}, "label": "", "measure": "mean", "estimate": 24.6, "standard_error": None,
    ...         "noise": {"low": 23.5, "high": 25.7}, "population": None}
    >>> findings({"test": None, "subject": "age", "readings": [told]})
    ['The mean age is 24.6 (noise interval 23.5 to 25.7).']
    """
    tested = [] if release["test"] is None else [verdict(release["test"])]
    measured = by_measure(release["readings"])
    if not measured:
        return tested or ["There is nothing to show: no label is common enough."]
    measure, first = next(iter(measured.items()))
    if isinstance(first[0]["estimate"], str):
        return [*tested, _chosen(measure, first)]
    words, middle = _middle(measure_words(release, measure), first)
    if len(first) == 1:
        return [*tested, f"The {words} is {_with_interval(first[0])}."]
    if tested:
        return tested
    if len({tuple(place_of(reading)) for reading in first}) > 1:
        return _of_margins(words, first)
    return [_compared(words, middle), *_unreliable(first)]


def _kind(readings: Sequence[Reading]) -> str | None:
    """The widest kind of interval that all of these numbers have."""
    return next((kind for kind in _KINDS if all(reading[kind] is not None for reading in readings)), None)


def _words(reading: Reading, kind: str | None) -> tuple[str, str]:
    estimate, noise, both = reading_words(reading)
    return estimate, {"noise": noise, "population": both}.get(kind or "", "")


def _with_interval(reading: Reading) -> str:
    kind = _kind([reading])
    estimate, interval = _words(reading, kind)
    return estimate if kind is None else f"{estimate} ({kind} interval {interval})"


def _chosen(measure: str, readings: Sequence[Reading]) -> str:
    if measure == "mode":
        return f"The most frequent label is {readings[0]['estimate']}."
    labels = [str(reading["label"]) for reading in readings]
    shown = ", ".join(labels[:_FEW])
    return f"{len(labels):,} labels are common enough to be shown: {shown}{', …' if len(labels) > _FEW else ''}."


def _middle(words: str, readings: Sequence[Reading]) -> tuple[str, Sequence[Reading]]:
    """Of quantiles by group, those nearest the middle: numbers of one kind can be compared. A single one is named."""
    shares = {reading["labels"].get("probability") for reading in readings}
    if None in shares or 1 < len(shares) == len(readings):
        return words, readings
    nearest = min(shares, key=lambda share: abs(share - 0.5))
    named = words.replace(
        "quantile of", "median" if nearest == 0.5 else f"{label_words(nearest, 'probability')} quantile of"
    )
    return named, [reading for reading in readings if reading["labels"]["probability"] == nearest]


def _compared(words: str, readings: Sequence[Reading]) -> str:
    """Up to four numbers one by one; else the least and the greatest, and whether their intervals overlap."""
    kind = _kind(readings)
    if len(readings) <= _FEW:
        each = [(_name(reading), *_words(reading, kind)) for reading in readings]
        told = "; ".join(
            f"{name}{':' if name.endswith('%') else ''} {estimate}{f' ({interval})' if interval else ''}"
            for name, estimate, interval in each
        )
        return f"{words[:1].upper()}{words[1:]}{f', with {kind} intervals' if kind else ''}: {told}."
    least, most = (function(readings, key=lambda one: one["estimate"]) for function in (min, max))
    told = (
        f"The {words} ranges from {_words(least, None)[0]} ({_name(least)}) to {_words(most, None)[0]} ({_name(most)})"
    )
    if kind is None:
        return f"{told}."
    overlap = "overlap" if least[kind]["high"] >= most[kind]["low"] else "do not overlap"
    return f"{told}; their {kind} intervals {overlap}."


def _name(reading: Reading) -> str:
    """Of what a number is; the share of a quantile by group goes without saying where only one is compared."""
    others = [str(label) for column, label in place_of(reading).items() if column != "probability"]
    return ", ".join(others) if others and "probability" in reading["labels"] else str(reading["label"])


def _unreliable(readings: Sequence[Reading]) -> list[str]:
    marked = sum(reliability(reading) == "unreliable" for reading in readings)
    if not marked:
        return []
    return [f"{marked:,} of {len(readings):,} numbers are unreliable: their standard error exceeds a third of them."]


def _of_margins(words: str, readings: Sequence[Reading]) -> list[str]:
    """The total, and the range of each margin by one column."""
    found: dict[str, list[Reading]] = {}
    for reading in readings:
        place = place_of(reading)
        if len(place) < 2:
            found.setdefault(next(iter(place), ""), []).append(reading)
    total = [f"The {words} is {_with_interval(one)} in all." for one in found.pop("", [])]
    ranges = [_range(column, margin) for column, margin in found.items()]
    return [*total, *ranges, *_unreliable(readings)]


def _range(column: str, readings: Sequence[Reading]) -> str:
    least, most = (function(readings, key=lambda one: one["estimate"]) for function in (min, max))
    return f"By {column}: from {_words(least, None)[0]} ({_name(least)}) to {_words(most, None)[0]} ({_name(most)})."
