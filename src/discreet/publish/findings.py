"""Findings: the main result of each release as sentences, from its published numbers alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from discreet.publish.readings import by_measure, reliability
from discreet.publish.wording import measure_words, reading_words, verdict

__all__ = ["Grid", "TOTAL", "findings", "grids", "label_columns", "label_words", "place_of"]


# ---- Grids: released numbers as tables with labels down the side and across, and totals in their place


Reading = Mapping[str, Any]
TOTAL = "total"
_FEWEST = 4  # numbers; fewer are as clear in a list
_WIDEST = 12  # labels across; a page shows no more


@dataclass(frozen=True)
class Grid:
    """One table.

    Attributes
    ----------
    down, across
        Columns whose labels stand at the side, and the one whose labels stand above.
    heads
        The labels above; None for the total.
    lines
        Labels at the side, None for a total, with the readings beside them; None where nothing was released.
    """

    down: tuple[str, ...]
    across: str
    heads: tuple[Any, ...]
    lines: tuple[tuple[tuple[Any, ...], tuple[Reading | None, ...]], ...]

    @property
    def name(self) -> str:
        """The columns of the table."""
        return " × ".join((*self.down, self.across))

    def readings(self) -> list[Reading]:
        """All numbers in the table."""
        return [one for _, cells in self.lines for one in cells if one is not None]


def place_of(reading: Reading) -> dict[str, Any]:
    """Where a number belongs: columns with their labels; a margin lacks the columns that it is summed over."""
    labels = dict(reading["labels"])
    rest = {name: label for name, label in labels.items() if name != "table"}
    return rest if labels.get("table") == (" × ".join(rest) or TOTAL) else labels


def label_columns(readings: Iterable[Reading]) -> list[str]:
    """The columns whose labels tell these numbers apart, for a list of them."""
    return list(dict.fromkeys(name for reading in readings for name in place_of(reading)))


def label_words(label: Any, column: str = "") -> str:
    """A label as readers see it; the total where there is none."""
    if label is None:
        return TOTAL
    return f"{100 * label:g} %" if column == "probability" else str(label)


def grids(readings: Sequence[Reading]) -> list[Grid]:
    """The tables that show these numbers of one measure; none where a list is clearer.

    Numbers by two or more columns are a table. Where margins of one another are among them, each largest table shows
    those that belong to it as totals.

    Examples
    --------
    >>> cells = [{"labels": {"a": a, "b": b}, "estimate": 1.0} for a in "xy" for b in "pq"]
    >>> cells += [{"labels": {"a": a}, "estimate": 2.0} for a in "xy"]
    >>> grid, = grids(cells)
    >>> grid.name, grid.heads, [side for side, _ in grid.lines]
    ('a × b', ('p', 'q', None), [('x',), ('y',)])
    """
    placed = {tuple(sorted(place_of(one).items(), key=str)): one for one in readings}
    kinds = list(dict.fromkeys(tuple(place_of(one)) for one in readings))
    largest = [one for one in kinds if not any(set(one) < set(other) for other in kinds)]
    if len(placed) < _FEWEST or any(len(one) < 2 for one in largest):
        return []
    made = [_grid(columns, readings, placed, kinds) for columns in largest]
    return [grid for grid in made if grid is not None] if None not in made else []


def _grid(
    columns: tuple[str, ...], readings: Sequence[Reading], placed: Mapping[Any, Reading], kinds: Iterable[Sequence[str]]
) -> Grid | None:
    """The table over these columns; None where cells are missing or too many would stand side by side."""
    own = [place for place in map(place_of, readings) if set(place) == set(columns)]
    labels = {name: list(dict.fromkeys(place[name] for place in own)) for name in columns}
    if len(own) != prod(len(found) for found in labels.values()):
        return None
    across = columns[-1] if len(labels[columns[-1]]) <= _WIDEST else min(columns, key=lambda name: len(labels[name]))
    if len(labels[across]) > _WIDEST:
        return None
    down = tuple(name for name in columns if name != across)
    within = [set(kind) for kind in kinds if set(kind) <= set(columns)]
    ends: dict[str, list[Any]] = {
        name: [*labels[name], *([None] if any(name not in kind for kind in within) else [])] for name in columns
    }
    lines = []
    for side in product(*(ends[name] for name in down)):
        cells = tuple(_at(placed, (*zip(down, side, strict=True), (across, head))) for head in ends[across])
        if any(cell is not None for cell in cells):
            lines.append((side, cells))
    return Grid(down, across, tuple(ends[across]), tuple(lines))


def _at(placed: Mapping[Any, Reading], place: Iterable[tuple[str, Any]]) -> Reading | None:
    return placed.get(tuple(sorted(((name, label) for name, label in place if label is not None), key=str)))


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
