"""Profile question: kinds, bounds, quartiles, missing and distinct values of columns of which nothing is declared."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from discreet.contract.mechanism import mechanism_of
from discreet.core import requirements
from discreet.core.columns import Order
from discreet.core.door import Allowance, Claim, Passed, Step
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import ApproxDP, Guarantee, PureDP
from discreet.core.ledger.accounting import Accounting
from discreet.core.requirements import one_of
from discreet.core.rows import Snapshot, take
from discreet.core.schema import PrivacyUnit, Schema
from discreet.core.sensitivity import Sensitivity
from discreet.inference.noise_sum import largest_variance
from discreet.ledgers import Ledger
from discreet.ledgers.terms import accounting_of
from discreet.mechanisms.additive import Noise, additive_noise
from discreet.plans.plan import Plan, affordable
from discreet.questions.forms import COLUMNS, METHOD, SHARE, Form
from discreet.questions.profiles.column_profile import FIRST, UNIT_SIZES
from discreet.questions.profiles.profile_release import SIZES, TOTAL, ProfileRelease, Stage
from discreet.questions.profiles.unit_rows import Grid, fine_counts, sizes_between, unit_rows
from discreet.questions.question import Question, column_names

__all__ = ["Counting", "ProfileQuestion", "check_proportion", "undeclared"]

_STAGES = (0.4, 0.5, 0.1)
"""Parts of the budget. The last is for few columns, so a small part buys as little noise."""

_ENOUGH = 60
"""Units per unit of a count's error from which bounds hold what they should: see ``docs/howto/profile.md``."""

_FEWEST = 100
"""Units that a profile needs however little noise it has."""


@dataclass(frozen=True)
class Counting:
    """Where the exact counts of a profile come from; all of them are private.

    Attributes
    ----------
    cells
        By column, how many values lie in each cell of a grid.
    unit_sizes
        How many units have so many rows.
    distinct
        By column of text, the number of its distinct labels, in a list.
    """

    cells: Callable[[Mapping[str, Grid]], dict[str, list[int]]]
    unit_sizes: Callable[[], list[int]]
    distinct: Callable[[Sequence[str]], dict[str, list[int]]]


@dataclass(frozen=True)
class ProfileQuestion(Question[ProfileRelease]):
    """What columns hold of which nothing is declared but the name.

    Guarantee
    ---------
    A unit counts with one of its rows, which lies in one cell of each column: in each of up to three draws it moves as
    many counts by one as there are columns drawn. Later draws choose their columns and cells from earlier outputs; the
    door takes their costs from one allowance. Proof: ``docs/proofs/private_bounds.md``.

    Attributes
    ----------
    columns
        Names of columns of the source; those of the schema by default. They need no declaration, and what the schema
        says of them is not used. Without any, a profile tells the number of units and how many rows they have.
    proportion
        Proportion of the values that the bounds of a column are to hold.
    order
        How dates are written: ``"ymd"``, ``"dmy"`` or ``"mdy"``.

    Examples
    --------
    >>> asked = ProfileQuestion(Schema(columns={}), PureDP(1.0), columns=["age", "income"])
    >>> asked.first.scale, asked.first.name
    (5.0, 'geometric')
    """

    ask: ClassVar[str] = "profile"
    meaning: ClassVar[str] = "What each column holds: kind, bounds, quartiles, missing and distinct values."
    part: ClassVar[str] = "column"
    leads: ClassVar[bool] = True
    forms: ClassVar[Mapping[str, Form]] = {"columns": COLUMNS, "proportion": SHARE, "order": METHOD}
    schema: Schema
    guarantee: Guarantee
    _: KW_ONLY
    columns: str | Sequence[str] = ()
    proportion: float = 0.95
    order: Order = "ymd"

    def __post_init__(self) -> None:
        requirements.instance("guarantee", self.guarantee, Guarantee, "a guarantee such as PureDP(1.0)")
        names = self.names
        unit = self.schema.unit.column
        if unit in names or (not names and unit is None):
            raise InvalidParameter(
                "columns", list(names), "must name columns other than the id", 'Pass columns=["age"], for example.'
            )
        check_proportion(self.proportion)
        one_of("order", self.order, ("ymd", "dmy", "mdy"), 'Write "dmy" for 31.01.2024.')
        if self.schema.where is not None or self.schema.related:
            raise InvalidParameter(
                "schema", "where, related", "a profile reads the columns of one table as they are", "Leave both out."
            )
        self.first  # noqa: B018  (refuses what cannot be met)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns, in order."""
        return column_names(self.columns, "columns") or tuple(self.schema.columns)

    @cached_property
    def _parts(self) -> tuple[Accounting | None, tuple[Guarantee, ...]]:
        """How the draws add up, and what each may cost: under (ε, δ) the accounting with less noise."""
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
        """How many counts a unit moves by one: a cell per histogram, or two where it is replaced, and single ones."""
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

        def cells(grids: Mapping[str, Grid]) -> dict[str, list[int]]:
            return {name: fine[name].cells(grid) for name, grid in grids.items()}

        def distinct(texts: Sequence[str]) -> dict[str, list[int]]:
            found = each.distinct([self.names.index(name) for name in texts]) if each and texts else []
            return {name: [count] for name, count in zip(texts, found, strict=True)}

        counting = Counting(cells, lambda: sizes_between(_all_rows(rows), UNIT_SIZES), distinct)
        return self.drawn(counting, allowance, passed)

    def drawn(self, counting: Counting, allowance: Allowance, passed: Passed) -> ProfileRelease:
        """Up to three draws; each counts what the outputs of the former ones say."""
        claim = self.claim(None)
        truths = counting.cells(dict.fromkeys(self.names, FIRST))
        if self.schema.unit.column is not None:
            truths[SIZES] = counting.unit_sizes()
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
        found = self._next(found, allowance, 1, counting.cells(grids), single)
        distinct = counting.distinct([name for name, one in found.where.items() if one.kind == "text"])
        return self._next(found, allowance, 2, counting.cells(found.narrower), distinct)

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
        error = float(np.max(second.expected_error(0.95)))
        needed = max(_ENOUGH * error, _FEWEST)
        digit = 10.0 ** (math.floor(math.log10(needed)) - 1)
        return Plan(
            statistic=self.ask,
            mechanism=second.name,
            scale=float(second.scale),
            guarantee=self.guarantee,
            read="each count",
            expected_error=error,
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
    return take(rows.dataset, replace(rows.schema, columns={}, where=None, related={}), salt=rows.salt)
