"""Column profile: what the counts of a profile say of one column, each figure with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

import numpy as np

from discreet.core.columns import Bounds, Column, Unlisted
from discreet.core.dates import EPOCH, Dates
from discreet.interval import Interval
from discreet.questions.profiles.cell_edges import FIRST, between, even_edges, octave_quarters, tidy_bounds
from discreet.questions.profiles.fine_cells import Grid
from discreet.questions.profiles.found_bounds import CellCounts, FoundBounds, whole_numbers

__all__ = ["QUARTILES", "ColumnProfile", "Estimate", "Located", "located", "narrowed", "percent"]

QUARTILES = (0.25, 0.5, 0.75)
_FEW_FRACTIONS = 0.1
"""Numbers of which fewer than this proportion have decimals are whole numbers."""
_NARROW = 3
"""Cells; a range that far from zero and that narrow is divided once more."""
_MOST_STEPS = 2**40
"""Grid steps from zero that bounds may have."""
_SHARP = 0.02
"""Proportions whose interval is no longer are told without it."""
_MARKED = 10_000
"""Numbers from here on get marks between thousands: 1984 may be a year."""
_PER_LABEL = 10
"""Units per distinct value from which text is a label."""


def percent(proportion: float) -> str:
    """A proportion as people write it."""
    return f"{100 * proportion:.0f} %"


@dataclass(frozen=True)
class Estimate:
    """A figure and the interval that the noise leaves it."""

    value: float
    interval: Interval

    def proportion_words(self) -> str:
        """A proportion in words: with its interval where that is not all but nothing."""
        low, high = float(self.interval.low), float(self.interval.high)
        if high - low <= _SHARP:
            return percent(self.value)
        return f"at most {percent(high)}" if low <= 0 else f"{percent(self.value)} ({percent(low)} to {percent(high)})"

    def to_dict(self) -> dict[str, Any]:
        """Both as JSON-ready data."""
        return {"value": self.value, "interval": self.interval.to_dict()}


@dataclass(frozen=True)
class Located:
    """What the first counts say of a column: its kind, the part of the grid it lies in, and the cells to count next."""

    kind: str
    grid: Grid | None = None
    first: CellCounts | None = field(default=None, compare=False)

    @property
    def whole(self) -> bool:
        """Whether values are whole numbers; days are."""
        return self.kind in ("whole number", "date")


def located(counts: Any, mechanism: Any) -> Located:
    """The kind of a column, chosen by its noisy counts, and the cells in which to count it next."""
    counts = np.asarray(counts, dtype=float)
    whole, others = whole_numbers(counts[2 : FIRST.first_date])
    both = CellCounts(FIRST.numbers, whole + others, mechanism, summed=2)
    dates = CellCounts(FIRST.dates, counts[FIRST.first_date :], mechanism)
    text = CellCounts((), counts[1:2], mechanism)
    found = {"number": both.standing_out(), "date": dates.standing_out(), "text": text.standing_out()}
    sizes = {
        kind: float(of.counts[slice(run[0], run[1] + 1)].sum())
        for kind, of in (("number", both), ("date", dates), ("text", text))
        if (run := found[kind]) is not None
    }
    if not sizes:
        return Located("unknown")
    kind = max(sizes, key=lambda one: sizes[one])
    if kind == "text":
        return Located("text")
    run = found[kind]
    if run is None:  # the kinds that were sized stood out
        return Located("unknown")
    if kind == "date":
        edges = even_edges(*between(FIRST.dates, *run), whole=True)
        return Located("date", Grid((), edges), dates)
    clear = both.clear()  # elsewhere noise would count as fractions
    if others[clear].sum() < _FEW_FRACTIONS * both.counts[clear].sum():
        only = CellCounts(FIRST.numbers, whole, mechanism)
        again = only.standing_out() or run
        edges = octave_quarters(*between(FIRST.numbers, *again), whole=True)
        return Located("whole number", Grid(edges), only)
    return Located("number", Grid(octave_quarters(*between(FIRST.numbers, *run), whole=False)), both)


def second_counts(grid: Grid, counts: Any, mechanism: Any) -> CellCounts:
    """The counts of a column's own kind, without what is missing or of another kind."""
    counts = np.asarray(counts, dtype=float)
    if grid.dates:
        return CellCounts(grid.dates, counts[grid.first_date :], mechanism)
    return CellCounts(grid.numbers, counts[2 : grid.first_date], mechanism)


def narrowed(found: Located, second: CellCounts, share: float) -> Grid | None:
    """The cells in which to count a range that is narrow and far from zero once more; None where it is not."""
    chosen = chosen_bounds(found, second, share)
    apart = found.kind == "date" or chosen.low > 0 or chosen.high < 0
    if not apart or chosen.last - chosen.first > _NARROW:
        return None
    edges = even_edges(chosen.low, chosen.high, whole=found.whole)
    if len(edges) <= chosen.last - chosen.first + 1:
        return None
    return Grid((), edges) if found.kind == "date" else Grid(edges)


def chosen_bounds(found: Located, second: CellCounts, share: float) -> FoundBounds:
    """The range that the second counts, and the first where they are of the same values, choose."""
    return second.bounds(share, None if found.first is None else second.adjusted(found.first))


@dataclass(frozen=True, kw_only=True)
class ColumnProfile:
    """What is released of one column.

    Attributes
    ----------
    name
        Of the column.
    kind
        ``"number"``, ``"whole number"``, ``"date"``, ``"label"``, ``"text"``, or ``"unknown"`` where too few values
        stand out from the noise.
    missing, unreadable
        Proportions of the rows: without a value, and with a value of another kind.
    low, high
        The bounds, in the numbers of the column; dates count days since 1970-01-01. None for other kinds.
    held
        Proportion of the values inside the bounds.
    quartiles
        Where a quarter, a half and three quarters of the values lie below.
    distinct
        Number of distinct labels, each unit with one of its own.
    histogram
        The released counts: edges, and one count more.
    """

    name: str
    kind: str
    missing: Estimate
    unreadable: Estimate
    low: float | None = None
    high: float | None = None
    held: Estimate | None = None
    quartiles: tuple[Estimate, ...] = ()
    distinct: Estimate | None = None
    histogram: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())

    def declared(self) -> Column | None:
        """The column's declaration for a schema; None where nothing was found."""
        if self.low is None or self.high is None:
            return Unlisted() if self.kind == "label" else None
        if self.kind == "date":
            return Dates(_day(self.low), _day(self.high))
        largest = max(abs(self.low), abs(self.high))
        if largest >= _MOST_STEPS:  # a grid of one would have too many steps
            grid = 2.0 ** math.ceil(math.log2(largest / _MOST_STEPS) + 1)
            return Bounds(math.floor(self.low / grid) * grid, math.ceil(self.high / grid) * grid, grid=grid)
        return Bounds(self.low, self.high, grid=1.0) if self.kind == "whole number" else Bounds(self.low, self.high)

    def shown(self, value: float) -> str:
        """A value of the column as people write it."""
        if not math.isfinite(value):
            return "…"
        if self.kind == "date":
            return str(_day(value))
        marked = "," if abs(value) >= _MARKED else ""
        return f"{value:{marked}.0f}" if self.kind == "whole number" else f"{value:{marked}.6g}"

    def shown_about(self, found: Estimate) -> str:
        """A value that is known about, without digits that its interval does not support."""
        width = float(found.interval.high) - float(found.interval.low)
        if self.kind != "number" or not width > 0:
            return self.shown(found.value)
        width = min(width, abs(found.value) / 10 or 1.0)  # three digits at least
        return self.shown(round(found.value, 1 - math.floor(math.log10(width))))

    def range_words(self) -> str:
        """The bounds as people write them; nothing where there are none."""
        return "" if self.low is None or self.high is None else f"{self.shown(self.low)} to {self.shown(self.high)}"

    def words(self) -> str:
        """The column in a sentence of a codebook."""
        if self.kind == "unknown":
            return "unknown: too few values stand out from the noise"
        parts = [self.kind]
        if self.low is not None and self.high is not None and self.held is not None:
            least = min(max(float(self.held.interval.low), 0.0), 1.0)
            parts.append(f"{self.range_words()} holds {percent(self.held.value)} (at least {percent(least)})")
        if self.quartiles:
            parts.append(f"quartiles {', '.join(map(self.shown_about, self.quartiles))}")
        if self.distinct is not None:
            ends = self.distinct.interval
            parts.append(f"{self.distinct.value:,.0f} distinct ({ends.low:,.0f} to {ends.high:,.0f})")
        parts.append(f"{self.missing.proportion_words()} missing")
        if self.unreadable.interval.low > 0 and self.kind not in ("label", "text"):
            parts.append(f"{self.unreadable.proportion_words()} of another kind")
        return "; ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        declared = self.declared()
        return {
            "name": self.name,
            "kind": self.kind,
            "missing": self.missing.to_dict(),
            "unreadable": self.unreadable.to_dict(),
            "low": self.low,
            "high": self.high,
            "held": None if self.held is None else self.held.to_dict(),
            "quartiles": [one.to_dict() for one in self.quartiles],
            "distinct": None if self.distinct is None else self.distinct.to_dict(),
            "histogram": {"edges": list(self.histogram[0]), "counts": list(self.histogram[1])},
            "declared": None if declared is None else declared.to_dict(),
        }


def summarised(
    name: str,
    found: Located,
    first: tuple[Estimate, Estimate],
    second: CellCounts,
    last: CellCounts,
    share: float,
    level: float,
) -> ColumnProfile:
    """A column of numbers or dates, from its counts: bounds, the proportion they hold, and quartiles."""
    chosen = chosen_bounds(found, second, share) if last is second else last.bounds(share, last.adjusted(second))
    outside, least, most = last.outside(chosen, level)
    values = max(float(last.counts.sum()), 1.0)
    held = [min(max(1 - lost / values, 0.0), 1.0) for lost in (outside, most, least)]
    high = chosen.high - 1 if found.whole else chosen.high
    low, high = tidy_bounds(chosen.low, max(high, chosen.low + (1 if found.whole else 0)), whole=found.whole)
    grids = [last] if found.first is None else [last, found.first]
    quartiles = tuple(_quartile(_closest(grids, q, level), level, found.whole) for q in QUARTILES)
    return ColumnProfile(
        name=name,
        kind=found.kind,
        missing=first[0],
        unreadable=first[1],
        low=low,
        high=high,
        held=Estimate(held[0], Interval(held[1], held[2], level)),
        quartiles=quartiles,
        histogram=(last.edges, tuple(last.counts.tolist())),
    )


def labelled(kind: str, distinct: float, rows: float) -> str:
    """Whether text is a label: many rows share each of its values."""
    return "label" if kind == "text" and max(distinct, 1.0) * _PER_LABEL <= rows else kind


def _closest(grids: Sequence[CellCounts], q: float, level: float) -> tuple[float, float, float]:
    """A quantile between the closest edges of several grids, each at its part of 1 − level.

    The last grid divides the largest values, the first one also the small ones.
    """
    found = [grid.quantile(q, 1 - (1 - level) / len(grids)) for grid in grids]
    low, high = max(one[1] for one in found), min(one[2] for one in found)
    value = min(found, key=lambda one: one[2] - one[1])[0]
    return (min(max(value, low), high), low, high) if low < high else found[0]  # both miss once in 1 / (1 - level)


def _quartile(found: Sequence[float], level: float, whole: bool) -> Estimate:
    """A quantile between edges; of whole numbers it is one of them."""
    value, low, high = found
    value, high = (math.floor(value), high - 1) if whole else (value, high)
    return Estimate(float(value), Interval(min(low, value), max(high, value), level))


def _day(count: float) -> date:
    """The date of a day's number, inside what a calendar can say."""
    try:
        return EPOCH + timedelta(days=round(count))
    except OverflowError:
        return date.max if count > 0 else date.min
