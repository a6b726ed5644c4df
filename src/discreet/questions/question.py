"""Question: one thing to release, described from public facts alone.

A question knows its statistic, its sensitivity under the schema's limits, its mechanism, and how to turn exact totals
into the exact value. Making one reads no data; `discreet.session` asks it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.contract import Mechanism
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import ApproxDP, Guarantee
from discreet.core.protection import Neighbours
from discreet.core.schema import Bounds, Contribution, Schema
from discreet.core.sensitivity import Sensitivity
from discreet.core.stability import check_unit_sum
from discreet.core.statistic import Statistic
from discreet.questions.grouped import Grouped

__all__ = ["Counted", "Expected", "Histograms", "PublicFacts", "Question", "Selection"]

Counted = Callable[[NDArray[Any], Mapping[tuple[str, ...], NDArray[Any]]], Any]
"""From counts and sums per cell to the exact value."""
Histograms = list[tuple[NDArray[np.int64], NDArray[np.int64]]]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which rows a question is about: groups, limits per unit, and whether sums per unit take the place of rows."""

    by: tuple[str, ...] = ()
    contribution: Contribution | None = None
    unit_sum: Bounds | None = None


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a plan is told to expect, in all groups together. It serves plans only and changes no release.

    Attributes
    ----------
    rows
        Number of rows (or of units, where they count once) that take part.
    mean
        Value of the mean (or share); by default the one with the largest error.
    """

    rows: int | None = None
    mean: float | None = None

    def __post_init__(self) -> None:
        if self.rows is not None:
            requirements.positive_integer("expected_rows", self.rows)

    def slope(self, low: float, high: float, name: str = "expected_mean") -> float:
        """Where the mean lies between the bounds, from −1 to 1; an end where nothing is expected."""
        if self.mean is None:
            return 1.0
        mean = requirements.finite(name, self.mean)
        if not low <= mean <= high:
            raise InvalidParameter(name, mean, f"must lie within the bounds {low:g} to {high:g}", "Check the value.")
        return (2 * mean - low - high) / (high - low)

    def per_group(self, groups: int, moves: Sequence[float]) -> tuple[float, ...] | None:
        """What moves a total by ``moves`` moves its share per row, in groups of equal size."""
        return None if self.rows is None else tuple(move * groups / self.rows for move in moves)


@dataclass(frozen=True, kw_only=True)
class Question:
    """One thing to release.

    Attributes
    ----------
    guarantee
        What was asked for.
    statistic, sensitivity, mechanism, public
        As the release will carry them.
    by, columns, contribution, unit_sum, products
        What has to be added up.
    value
        From totals to the exact value; ``from_histograms`` instead where the whole distribution is needed, and
        ``from_blocks`` where totals by several sets of columns are, all of the same rows.
    read
        What people read from the release: the error of a plan is its error.
    weights
        How far one unit of the noise on each number that it is read from moves it; None where that is not known.
    bound
        For choices, which have no noise to weigh: how far off they stay, as a function of the level.
    """

    guarantee: Guarantee
    statistic: Statistic
    sensitivity: Sensitivity
    mechanism: Mechanism
    by: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    contribution: Contribution | None = None
    unit_sum: Bounds | None = None
    products: tuple[tuple[str, ...], ...] = ()
    public: Mapping[str, Any]
    value: Counted | None = None
    from_histograms: Callable[[Histograms], Any] | None = None
    blocks: tuple[tuple[str, ...], ...] = ()
    from_blocks: Callable[[Mapping[tuple[str, ...], Any]], Any] | None = None
    read: str
    weights: tuple[float, ...] | None = (1.0,)
    bound: Callable[[float], float] | None = None

    @property
    def claim(self) -> Guarantee | None:
        """The guarantee to charge where it must be named: an (ε, δ) pair is one of many that hold."""
        return self.guarantee if isinstance(self.guarantee, ApproxDP) else None

    @property
    def keeps_total(self) -> bool:
        """Whether the total of the table is public: every unit is in exactly one cell, and none can drop out."""
        return "n" in self.public and bool(self.by)

    def content(self, schema: Schema) -> dict[str, Any]:
        """All of what is asked, as JSON-ready data; what a plan expects is no part of it."""
        names = [*self.by, *self.columns]
        return {
            "ask": self.statistic.name,
            "by": list(self.by),
            "columns": list(self.columns),
            "limits": schema.contribution(self.contribution).to_dict(),
            "unit_sum": None if self.unit_sum is None else self.unit_sum.to_dict(),
            "statistic": self.statistic.to_dict(),
            "schema": schema.facts_of(names),
        }

    def standard_error(self) -> float | None:
        """Root mean square of the noise in what is read; None for choices and where too little is expected."""
        if self.bound is not None or self.weights is None:
            return None
        deviation = math.sqrt(float(np.max(np.asarray(self.mechanism.law(0.0).variance))))
        return deviation * math.hypot(*self.weights)

    def expected_error(self, level: float = 0.95) -> float | None:
        """The noise in what is read stays below this with probability ``level``."""
        if self.bound is not None:
            return self.bound(level)
        if self.weights is None:
            return None
        if len(self.weights) == 1:
            return float(np.max(self.mechanism.expected_error(level))) * abs(self.weights[0])
        from discreet.inference.noise_sum import combined_error

        return combined_error(self.mechanism, self.weights, level)


@dataclass(frozen=True)
class PublicFacts:
    """What all questions about data that a schema describes share."""

    schema: Schema

    def _limits(self, chosen: Selection) -> Contribution:
        """Limits per unit; a clipped sum counts once per group."""
        limits = self.schema.contribution(chosen.contribution)
        if chosen.unit_sum is None:
            return limits
        return Contribution(groups=limits.groups, rows=1)

    def _values(self, column: str, chosen: Selection) -> Bounds:
        """Bounds of what is added up: the column's, or those of a unit's sum."""
        bounds = self.schema.bounds(column)
        if chosen.unit_sum is None:
            return bounds
        check_unit_sum(self.schema, (column,), chosen.unit_sum)
        return chosen.unit_sum

    def _labels(self, by: Sequence[str]) -> dict[str, tuple[Any, ...]]:
        return {name: tuple(self.schema.categories(name).labels) for name in by}

    def _every_unit_once(self, columns: Sequence[str]) -> bool:
        """Whether replace-one neighbours have the same number of rows, so that it is public."""
        kept = all(self.schema.column(name).keeps_every_row for name in columns)
        return self.schema.neighbours is Neighbours.REPLACE_ONE and self.schema.unit.column is None and kept

    def _grouped(self, statistic: Statistic, by: Sequence[str]) -> Statistic:
        return Grouped(of=statistic, by=self._labels(by)) if by else statistic
