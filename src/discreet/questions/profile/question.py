"""Profile question: kinds, bounds, quartiles, missing and distinct values of columns of which nothing is declared."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from discreet.core import requirements
from discreet.core.columns import Order
from discreet.core.door import Allowance, Claim, Passed, Step
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import ApproxDP, Guarantee, PureDP
from discreet.core.ledger.balance import Accounting
from discreet.core.protection import Protection
from discreet.core.requirements import one_of
from discreet.core.rows import Snapshot, take
from discreet.core.schema import PrivacyUnit, Schema
from discreet.core.sensitivity import Sensitivity
from discreet.inference.noise import NoiseSum, largest_variance
from discreet.mechanisms.additive import Noise, additive_noise
from discreet.mechanisms.mechanism import Mechanism, mechanism_from_dict, mechanism_of
from discreet.questions import form
from discreet.questions.profile.columns import (
    FIRST,
    QUARTILES,
    UNIT_SIZES,
    CellCounts,
    ColumnCells,
    ColumnProfile,
    Located,
    ProfiledNumber,
    fine_counts,
    kurtosis_of,
    labelled,
    located,
    narrowed,
    percent,
    second_counts,
    sizes_between,
    summarised,
    unit_rows,
)
from discreet.questions.question import Question, column_names
from discreet.results.answer import Readable, protection_published
from discreet.results.display import Facts, Interval
from discreet.results.frames import Reading
from discreet.results.ledger import Ledger, accounting_of
from discreet.results.plan import Plan, affordable

# ---- Profile release: the noisy counts of a profile, and the codebook that follows from them.


# ---- Unit count: how many units there are, from histograms in each of which every unit lies once


_LEAST = 1e-12
"""Noise that is all but nothing counts as this variance."""


def counted_units(histograms: Iterable[tuple[Mechanism, Sequence[float]]], level: float) -> ProfiledNumber:
    """The number of units, not below zero: the mean of all histograms' totals, each weighed by its precision.

    Examples
    --------
    >>> from discreet.mechanisms import Gaussian
    >>> round(counted_units([(Gaussian(1.0), [30.0, 70.0]), (Gaussian(1.0), [103.0])], 0.95).value)
    102
    """
    totals, variances, shapes = [], [], []
    for mechanism, counts in histograms:
        totals.append(float(np.sum(counts)))
        variances.append(len(counts) * max(largest_variance(mechanism), _LEAST))
        shapes.append(kurtosis_of(mechanism) / len(counts))
    precisions = 1 / np.asarray(variances)
    weights = precisions / precisions.sum()
    deviation = float(precisions.sum() ** -0.5)
    # A sum's fourth cumulant is the sum of its parts': each part has its kurtosis times its squared variance.
    kurtosis = float(np.sum(np.asarray(shapes) * (weights**2 * variances) ** 2)) / deviation**4
    reach = float(NoiseSum(0.0, [deviation], kurtosis).quantile((1 + level) / 2))
    found = float(weights @ totals)
    return ProfiledNumber(max(found, 0.0), Interval(max(found - reach, 0.0), max(found + reach, 0.0), level))


# ---- Unit limits: how many rows units have, and the limit that loses least


@dataclass(frozen=True)
class UnitSizes:
    """The released distribution of rows per unit.

    Attributes
    ----------
    counts
        Noisy numbers of units, between the sizes of `cell_edges.UNIT_SIZES`.
    mechanism
        Whose noise they carry.
    guarantee
        At which guarantee limits are compared: the profile's own.
    """

    counts: Sequence[float]
    mechanism: Mechanism
    guarantee: Guarantee

    @cached_property
    def _cells(self) -> CellCounts:
        return CellCounts(tuple(map(float, UNIT_SIZES)), np.asarray(self.counts, dtype=float), self.mechanism)

    @cached_property
    def _units(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Sizes and how many units have each; what noise explains counts as nothing."""
        cells = self._cells
        run = cells.standing_out() or (0, 0)
        sizes = [(low + high - 1) / 2 for low, high in pairwise((1, *UNIT_SIZES, 2 * UNIT_SIZES[-1]))]
        inside = np.arange(len(sizes))
        kept = np.where((inside >= run[0]) & (inside <= run[1]), np.maximum(cells.counts, 0.0), 0.0)
        return np.asarray(sizes), kept

    @property
    def rows(self) -> float:
        """About how many rows there are; those of the largest units are counted too low."""
        sizes, units = self._units
        return float(sizes @ units)

    def dropped(self, limit: int) -> float:
        """About which proportion of the rows lies beyond a limit."""
        sizes, units = self._units
        return float(np.maximum(sizes - limit, 0) @ units / max(self.rows, 1.0))

    def error(self, limit: int) -> float:
        """Error of a count of all rows under a limit: what it drops, and the noise that it costs, in rows."""
        noise = additive_noise(self.guarantee, Sensitivity(moves=(1.0,)), whole=True).law(0.0).variance
        return float(np.hypot(self.dropped(limit) * self.rows, limit * np.sqrt(np.max(np.asarray(noise)))))

    @cached_property
    def best_limit(self) -> int:
        """The limit whose error is least."""
        return min((edge - 1 for edge in UNIT_SIZES), key=self.error)

    def whole(self, level: float) -> ProfiledNumber:
        """Proportion of the units that the best limit leaves whole, with an interval that is valid for every limit."""
        beyond, least, most = self._cells.beyond(UNIT_SIZES.index(self.best_limit + 1), level)
        units = max(float(self._cells.counts.sum()), 1.0)
        kept = [min(max(1 - lost / units, 0.0), 1.0) for lost in (beyond, most, least)]
        return ProfiledNumber(kept[0], Interval(kept[1], kept[2], level))

    def words(self, unit: str) -> str:
        """The limit, and what it loses, in a sentence."""
        best, whole = self.best_limit, self.whole(0.95)
        sizes, units = self._units
        usual = float(sizes @ units / max(units.sum(), 1.0))
        return (
            f"about {usual:.3g}; a limit of {best} loses least: {percent(whole.value)} (at least "
            f"{percent(float(whole.interval.low))}) of the {unit}s have no more, it drops about "
            f"{100 * self.dropped(best):.1f} % of the rows, and the error of a count at this guarantee is about "
            f"{self.error(best):,.0f} rows"
        )


FORMAT = 2
"""Cells follow from earlier counts by rules: another rule is another format."""
_LEVEL = 0.95
_HALF_MISS = (1 + _LEVEL) / 2
"""The level of each of two figures that one interval needs."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One draw of a profile: columns with their noisy counts.

    Attributes
    ----------
    mechanism, sensitivity
        How they were protected.
    counts
        The noisy counts by column: of its cells, or of its distinct labels.
    """

    mechanism: Mechanism
    sensitivity: Sensitivity
    counts: Mapping[str, tuple[float, ...]]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {
            "mechanism": self.mechanism.to_dict(),
            "sensitivity": self.sensitivity.to_dict(),
            "counts": {name: list(counts) for name, counts in self.counts.items()},
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Stage:
        """Read what `to_dict` wrote."""
        return Stage(
            mechanism=mechanism_from_dict(data["mechanism"]),
            sensitivity=Sensitivity.from_dict(data["sensitivity"]),
            counts={name: tuple(counts) for name, counts in data["counts"].items()},
        )


@dataclass(frozen=True, kw_only=True)
class ProfileRelease(Readable):
    """The contents of a data set: a codebook whose every figure was released.

    Attributes
    ----------
    names
        The columns, in order.
    share
        Proportion of the values that bounds are to hold.
    size
        The public number of units, where it is public.
    stages
        Up to three draws: the whole line, the part where values lie, and narrow ranges with distinct labels.
    guarantee, protection
        What all draws together guarantee, and to whom.
    """

    names: tuple[str, ...]
    share: float
    size: int | None
    stages: tuple[Stage, ...]
    guarantee: Guarantee
    protection: Protection
    release_id: str
    created: str
    simulated: bool = False

    @cached_property
    def columns(self) -> dict[str, ColumnProfile]:
        """The released facts, by column."""
        return {name: self._column(name) for name in self.names}

    @cached_property
    def units(self) -> ProfiledNumber:
        """Number of units."""
        return self._units(_LEVEL)

    @cached_property
    def _units_of_proportions(self) -> ProfiledNumber:
        return self._units(_HALF_MISS)

    def _units(self, level: float) -> ProfiledNumber:
        if self.size is not None:
            return ProfiledNumber(float(self.size), Interval(self.size, self.size, level))
        drawn = ((stage.mechanism, name, counts) for stage in self.stages for name, counts in stage.counts.items())
        # A single count is of distinct labels, but for that of the units.
        return counted_units([(by, counts) for by, name, counts in drawn if len(counts) > 1 or name == TOTAL], level)

    @cached_property
    def unit_sizes(self) -> UnitSizes | None:
        """The numbers of rows that units have; None where a row is the unit."""
        first = self.stages[0]
        counts = first.counts.get(SIZES)
        return None if counts is None else UnitSizes(counts, first.mechanism, self.guarantee)

    @cached_property
    def where(self) -> dict[str, Located]:
        """The result of the first draw for each column."""
        first = self.stages[0]
        return {name: located(first.counts[name], first.mechanism) for name in self.names}

    @cached_property
    def narrower(self) -> dict[str, ColumnCells]:
        """Columns whose range is to be divided once more, from the first two draws."""
        second = self.stages[1]
        found = {
            name: narrowed(one, second_counts(one.grid, second.counts[name], second.mechanism), self.share)
            for name, one in self.where.items()
            if one.grid is not None
        }
        return {name: grid for name, grid in found.items() if grid is not None}

    def _column(self, name: str) -> ColumnProfile:
        found, stages = self.where[name], self.stages
        missing, other = (self._proportion(name, place) for place in (0, 1))
        if found.grid is None:
            return self._text(name, found.kind, missing, other)
        second = last = second_counts(found.grid, stages[1].counts[name], stages[1].mechanism)
        narrow = self.narrower.get(name) if len(stages) > 2 else None
        if narrow is not None:
            last = second_counts(narrow, stages[2].counts[name], stages[2].mechanism)
        return summarised(name, found, (missing, other), second, last, share=self.share, level=_LEVEL)

    def _text(self, name: str, kind: str, missing: ProfiledNumber, other: ProfiledNumber) -> ColumnProfile:
        distinct = None
        if len(self.stages) > 2 and kind == "text":
            distinct = self._counted(self.stages[2], name, 0)
            kind = labelled(kind, distinct.value, self.units.value)
        return ColumnProfile(name=name, kind=kind, missing=missing, unreadable=other, distinct=distinct)

    def _counted(self, stage: Stage, name: str, place: int, level: float = _LEVEL) -> ProfiledNumber:
        """One whole number that was measured, not below zero."""
        measured = float(stage.counts[name][place])
        low, high = (float(np.max(end)) for end in stage.mechanism.noise_interval(measured, level))
        return ProfiledNumber(max(measured, 0.0), Interval(max(low, 0.0), max(high, 0.0), level))

    def _proportion(self, name: str, place: int) -> ProfiledNumber:
        """A count over the number of units: both lie in their intervals at once."""
        part = self._counted(self.stages[0], name, place, _HALF_MISS)
        whole = self._units_of_proportions
        shown = min(part.value / max(whole.value, 1.0), 1.0)
        low = min(part.interval.low / max(whole.interval.high, 1.0), shown)
        high = 1.0 if whole.interval.low < 1 else min(max(part.interval.high / whole.interval.low, shown), 1.0)
        return ProfiledNumber(shown, Interval(low, high, _LEVEL))

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """Every figure with its interval."""
        found = [Reading("", self.units.value, self.units.interval, measure=f"{self.protection.unit}s")]
        for name, one in self.columns.items():
            figures = {"proportion missing": one.missing, "proportion of another kind": one.unreadable}
            if one.held is not None:
                figures["proportion inside the bounds"] = one.held
            figures |= {f"{q:.0%} quantile": value for q, value in zip(QUARTILES, one.quartiles, strict=False)}
            if one.distinct is not None:
                figures["distinct labels"] = one.distinct
            found += [
                Reading(name, figure.value, figure.interval, labels={"column": name}, measure=measure)
                for measure, figure in figures.items()
            ]
            ends = (("lower bound", one.low), ("upper bound", one.high))
            found += [
                Reading(name, end, labels={"column": name}, measure=measure) for measure, end in ends if end is not None
            ]
        sizes = self.unit_sizes
        if sizes is not None:
            limit = float(sizes.best_limit)
            whole = sizes.whole(_LEVEL)
            found.append(Reading("", limit, measure=f"limit of rows per {self.protection.unit} that loses least"))
            found.append(
                Reading(
                    "", whole.value, whole.interval, measure=f"proportion of {self.protection.unit}s within that limit"
                )
            )
        return found

    def published(self) -> dict[str, Any]:
        return protection_published(self, self.stages[0].mechanism.to_dict(), str(self.stages[0].sensitivity))

    def heading(self) -> str:
        return "Codebook" + (" (simulated: protects nobody)" if self.simulated else "")

    def facts(self) -> Facts:
        """The facts to show."""
        ends = self.units.interval
        shown = [(f"{self.protection.unit}s", f"{self.units.value:,.0f} ({ends.low:,.0f} to {ends.high:,.0f}, 95 %)")]
        sizes = self.unit_sizes
        if sizes is not None:
            shown.append((f"rows per {self.protection.unit}", sizes.words(str(self.protection.unit))))
        shown += [(name, one.words()) for name, one in self.columns.items()]
        return [
            *shown,
            *([] if sizes is None else [("counted", f"each {self.protection.unit} once, with one of its rows")]),
            ("guarantee", f"{self.guarantee}: {self.guarantee.sentence()}"),
            ("protects against", str(self.protection)),
            ("release", f"{self.release_id[:8]}, {self.created}"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data; `from_dict` reads it back."""
        return {
            "discreet": "profile",
            "format": FORMAT,
            "columns": list(self.names),
            "share": self.share,
            "size": self.size,
            "stages": [stage.to_dict() for stage in self.stages],
            "guarantee": self.guarantee.to_dict(),
            "protection": self.protection.to_dict(),
            "release_id": self.release_id,
            "created": self.created,
            "simulated": self.simulated,
        }

    @staticmethod
    def from_dict(data: Any) -> ProfileRelease:
        """Read what `to_dict` wrote."""
        if not isinstance(data, dict) or data.get("discreet") != "profile" or data.get("format") != FORMAT:
            raise InvalidParameter("data", data, f"must be a profile of format {FORMAT}", "Check the file.")
        return ProfileRelease(
            names=tuple(data["columns"]),
            share=data["share"],
            size=data["size"],
            stages=tuple(Stage.from_dict(stage) for stage in data["stages"]),
            guarantee=Guarantee.from_dict(data["guarantee"]),
            protection=Protection.from_dict(data["protection"]),
            release_id=data["release_id"],
            created=data["created"],
            simulated=data["simulated"],
        )


TOTAL, SIZES = "\0units", "\0rows"
"""Counts that are of no column: no column has such a name."""


# ---- Profile question: kinds, bounds, quartiles, missing and distinct values of columns of which nothing is declared.


_STAGES = (0.4, 0.5, 0.1)
"""Parts of the budget. The last is for few columns, so a small part buys as little noise."""

_ENOUGH = 60
"""Units per unit of a count's error from which bounds hold what they should: see ``docs/howto/profile.md``."""

_FEWEST = 100
"""Units that a profile needs however little noise it has."""


@dataclass(frozen=True)
class ProfileQuestion(Question[ProfileRelease]):
    """The contents of columns of which nothing is declared but the name.

    Guarantee
    ---------
    A unit counts with one of its rows, which lies in one cell of each column: in each of up to three draws it moves as
    many counts by one as there are columns drawn. Later draws choose their columns and cells from earlier outputs;
    `discreet.core.door` takes their costs from one allowance. Proof: ``docs/proofs/private_bounds.md``.

    Attributes
    ----------
    columns
        Names of columns of the source; by default all that a session's source has, or those of the schema where no
        source is known. They need no declaration, and what the schema says of them is not used. Without any, as in
        ``columns=()``, a profile tells the number of units and how many rows they have.
    proportion
        Proportion of the values that the bounds of a column are to hold.
    order
        How dates are written: ``"ymd"``, ``"dmy"`` or ``"mdy"``.

    Examples
    --------
    >>> asked = ProfileQuestion(Schema(columns={}), epsilon=1.0, columns=["age", "income"])
    >>> asked.first.scale, asked.first.name
    (5.0, 'geometric')
    """

    rehearsed: ClassVar[bool] = False
    under_design: ClassVar[bool] = True
    ask: ClassVar[str] = "profile"
    also: ClassVar[tuple[str, ...]] = ("describe", "summary")
    heading: ClassVar[str] = "What the columns hold"
    meaning: ClassVar[str] = "What each column holds: kind, bounds, quartiles, missing and distinct values."
    part: ClassVar[str] = "column"
    leads: ClassVar[bool] = True
    forms: ClassVar[form.Forms] = {
        "columns": form.COLUMNS,
        "proportion": form.SHARE,
        "order": form.METHOD,
    }
    _: KW_ONLY
    columns: str | Sequence[str] | None = None
    proportion: float = 0.95
    order: Order = "ymd"

    def _validate(self) -> None:
        check_proportion(self.proportion)
        one_of("order", self.order, ("ymd", "dmy", "mdy"), 'Write "dmy" for 31.01.2024.')
        if self.schema.where is not None or self.schema.related:
            raise InvalidParameter(
                "schema", "where, related", "a profile reads the columns of one table as they are", "Leave both out."
            )
        if self.columns is not None or self.names:  # else a session's source will name them
            self.first  # noqa: B018  (refuses what cannot be met)

    def of_source(self, names: Callable[[], tuple[str, ...]]) -> Self:
        return self if self.columns is not None else replace(self, columns=names())

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns, in order."""
        return tuple(self.schema.columns) if self.columns is None else column_names(self.columns, "columns")

    @cached_property
    def _parts(self) -> tuple[Accounting | None, tuple[Guarantee, ...]]:
        """The accounting of the draws, and the cost that each may have: under (ε, δ) the accounting with less noise."""
        stages = _STAGES if self.names else (1.0,)
        if not isinstance(self.guarantee, ApproxDP):
            return None, tuple(self.guarantee.split(stages))
        pure = None, tuple(PureDP(self.guarantee.epsilon).split(stages))
        if self.guarantee.delta == 0:
            return pure
        allowed = accounting_of(self.guarantee, "gdp")
        whole = allowed.at_most(allowed.allowance)
        gaussian = allowed, tuple(whole.split(stages))
        return min((pure, gaussian), key=lambda one: largest_variance(self._noise(one[1][0], self._moved_first)))

    def _moved(self, histograms: int, single: int = 0) -> Sensitivity:
        """The counts that a unit moves by one: a cell per histogram, or two where it is replaced, and single ones."""
        sides = self.schema.neighbours.sides
        return Sensitivity(moves=(1.0,) * (histograms * sides + single))

    @property
    def _moved_first(self) -> Sensitivity:
        """Of the first draw: a cell of each column and, where ids are the units, how many have so many rows."""
        return self._moved(len(self.names) + (self.schema.unit.column is not None))

    def _noise(self, guarantee: Guarantee, sensitivity: Sensitivity) -> Noise:
        return additive_noise(guarantee, sensitivity, whole=True)

    @cached_property
    def first(self) -> Noise:
        """The noise of the first draw."""
        names, unit = self.names, self.schema.unit.column
        if unit in names or (not names and unit is None):
            raise InvalidParameter(
                "columns", list(names), "must name columns other than the id", 'Pass columns=["age"], for example.'
            )
        return self._noise(self._parts[1][0], self._moved_first)

    def content(self) -> dict[str, Any]:
        return {
            "ask": self.ask,
            "columns": list(self.names),
            "proportion": self.proportion,
            "order": self.order,
            "schema": self.schema.facts_of(()),
        }

    def claim(self, ledger: Ledger | None) -> Claim:
        moved = self._moved_first
        return Claim(
            guarantee=self.guarantee,
            protection=self.schema.protection(),
            question=self.content(),
            mechanism=self.first.to_dict(),
            sensitivity=moved,
            steps=[Step(self.first, moved, self._parts[1][0])],
            counted=self._parts[0],
        )

    def draw(self, rows: Snapshot, claim: Claim, allowance: Allowance, passed: Passed) -> ProfileRelease:
        each = unit_rows(rows, self.names, self.order) if self.names else None
        fine = {} if each is None else fine_counts(each, self.names)

        def cells(grids: Mapping[str, ColumnCells]) -> dict[str, list[int]]:
            return {name: fine[name].cells(grid) for name, grid in grids.items()}

        def distinct(texts: Sequence[str]) -> dict[str, list[int]]:
            found = each.distinct([self.names.index(name) for name in texts]) if each and texts else []
            return {name: [count] for name, count in zip(texts, found, strict=True)}

        sizes = None if self.schema.unit.column is None else sizes_between(_all_rows(rows), UNIT_SIZES)
        return self.drawn(allowance, passed, cells=cells, distinct=distinct, unit_sizes=sizes)

    def drawn(
        self, allowance: Allowance, passed: Passed, *,
        cells: Callable[[Mapping[str, ColumnCells]], dict[str, list[int]]],
        distinct: Callable[[Sequence[str]], dict[str, list[int]]],
        unit_sizes: list[int] | None = None,
    ) -> ProfileRelease:  # fmt: skip
        """Up to three draws; each counts what the outputs of the former ones say.

        All counts are private: by column, how many values lie in each cell of a grid, and the number of distinct labels
        in a list; and how many units have so many rows.
        """
        claim = self.claim(None)
        truths = cells(dict.fromkeys(self.names, FIRST))
        if unit_sizes is not None:
            truths[SIZES] = unit_sizes
        found = ProfileRelease(
            names=self.names,
            share=self.proportion,
            size=self.schema.size,
            stages=(_drawn(allowance, claim.steps[0], truths),),
            guarantee=claim.guarantee,
            protection=claim.protection,
            **vars(passed),
        )
        if not self.names:
            return found
        grids = {name: one.grid for name, one in found.where.items() if one.grid is not None}
        # Every histogram of the second draw says how many units there are; where there is none, they are counted.
        single = {} if grids or self.schema.size is not None else {TOTAL: [sum(truths[self.names[0]])]}
        found = self._next(found, allowance, 1, cells(grids), single)
        texts = distinct([name for name, one in found.where.items() if one.kind == "text"])
        return self._next(found, allowance, 2, cells(found.narrower), texts)

    def _next(
        self,
        found: ProfileRelease,
        allowance: Allowance,
        stage: int,
        histograms: Mapping[str, Any],
        single: Mapping[str, Any],
    ) -> ProfileRelease:
        """The release with one more draw; of no columns nothing is drawn."""
        cost, truths = self._parts[1][stage], {**histograms, **single}
        if not truths:
            empty = replace(found.stages[0], counts={})
            return replace(found, stages=(*found.stages, empty))
        moved = self._moved(len(histograms), len(single))
        step = Step(self._noise(cost, moved), moved, cost)
        return replace(found, stages=(*found.stages, _drawn(allowance, step, truths)))

    def read(self, stored: Any) -> ProfileRelease:
        return ProfileRelease.from_dict(stored)

    def columns_read(self) -> tuple[str, ...]:
        return ()  # of the schema

    def source_columns_read(self) -> tuple[str, ...]:
        return self.names

    def counted_words(self) -> str | None:
        unit = self.schema.unit
        return None if unit.column is None else f"each {unit.name} once, with one of its rows"

    def plan(self, ledger: Ledger | None = None) -> Plan:
        remaining, after = affordable(ledger, self.guarantee)
        second = self._noise(self._parts[1][1], self._moved(len(self.names))) if self.names else self.first
        error = float(np.max(second.error(0.95)))
        needed = max(_ENOUGH * error, _FEWEST)
        digit = 10.0 ** (math.floor(math.log10(needed)) - 1)
        return Plan(
            statistic=self.ask,
            mechanism=second.name,
            scale=float(second.scale),
            guarantee=self.guarantee,
            read="each count",
            error_95=error,
            standard_error=float(np.sqrt(largest_variance(second))),
            remaining=remaining,
            remaining_after=after,
            notes=()
            if not self.names
            else (
                f"bounds of {len(self.names)} columns that hold {100 * self.proportion:g} % need about "
                f"{digit * math.ceil(needed / digit):,.0f} {self.schema.unit.name}s or more",
            ),
            details={"columns": list(self.names), "mechanism": second.to_dict()},
        )


def undeclared(schema: Schema) -> Schema:
    """The same people and neighbours, and nothing else: no columns, limits, filters or joins."""
    unit = PrivacyUnit(schema.unit.column, nulls=schema.unit.nulls)
    return Schema(columns={}, unit=unit, neighbours=schema.neighbours, size=schema.size)


def check_proportion(proportion: Any) -> float:
    """The proportion that bounds are to hold; more than 0.999 is lost in the noise."""
    held = requirements.probability("proportion", proportion, below_one=True)
    if not 0.5 <= held <= 0.999:
        raise InvalidParameter("proportion", held, "must lie between 0.5 and 0.999", "Pass proportion=0.95.")
    return held


def _drawn(allowance: Allowance, step: Step, truths: Mapping[str, Any]) -> Stage:
    """One draw over the counts of all columns, taken apart again."""
    sizes = [len(counts) for counts in truths.values()]
    noisy = np.asarray(allowance.draw(step, np.concatenate([np.asarray(one) for one in truths.values()])), dtype=float)
    parts = np.split(noisy, np.cumsum(sizes)[:-1])
    counts = {name: tuple(part.tolist()) for name, part in zip(truths, parts, strict=True)}
    return Stage(mechanism=mechanism_of(step), sensitivity=step.sensitivity, counts=counts)


def _all_rows(rows: Snapshot) -> Snapshot:
    """The rows of the source before filters and joins: what a profile is of. Private."""
    if rows.schema.where is None and not rows.schema.related:
        return rows
    return take(rows.dataset, replace(rows.schema, columns={}, where=None, related={}, design=None), salt=rows.salt)
