"""Running total: how many rows, or how much, up to each of a public list of periods, and what is read from a release.

The running totals follow from the measurements of all periods so far, so what was published for a period never changes.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from itertools import accumulate
from typing import Any, ClassVar, Self, cast

import numpy as np

from discreet.core import requirements
from discreet.core.door import Allowance, Claim, Passed, Step, not_failed
from discreet.core.errors import InvalidParameter, NoConversion, spelling
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.numbers import decimal, not_below
from discreet.core.protection import Fact, Neighbours
from discreet.core.rows import Selected, Snapshot, totals
from discreet.core.schema import Bounds, Contribution, stability
from discreet.core.sensitivity import Sensitivity, root_up
from discreet.inference.moments import whole_count, whole_interval
from discreet.inference.noise import combined_error, even_split, running_sums, weights
from discreet.mechanisms.gaussian import Gaussian, gaussian_scale
from discreet.questions import form
from discreet.questions.question import DeclaredColumns, Question, first_of
from discreet.results.display import Facts, Interval
from discreet.results.frames import Reading
from discreet.results.ledger import Ledger, Spend, accounting_of
from discreet.results.plan import DETECTED, Plan, affordable
from discreet.results.printed import told_numbers
from discreet.results.release import Release, Statistic


@dataclass(frozen=True, kw_only=True)
class RunningTotal(Statistic):
    """The number of rows, or the total of a bounded column, up to one of a public list of periods.

    Parameters
    ----------
    periods
        All periods of the sequence, in order.
    period
        The one that is released.
    bounds
        Bounds of what is added up; None where rows are counted.

    Examples
    --------
    >>> RunningTotal(periods=("2026-01", "2026-02", "2026-03"), period="2026-02").so_far
    ('2026-01', '2026-02')
    """

    name: ClassVar[str] = "running_total"
    periods: tuple[Any, ...]
    period: Any
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "periods", tuple(self.periods))
        object.__setattr__(self, "bounds", None if self.bounds is None else tuple(map(float, self.bounds)))
        if not any(type(one) is type(self.period) and one == self.period for one in self.periods):
            wish = spelling(self.period, [str(one) for one in self.periods])
            raise InvalidParameter("period", self.period, "is not one of the periods", wish)

    @property
    def so_far(self) -> tuple[Any, ...]:
        """The periods up to the one that is released."""
        return self.periods[: self.periods.index(self.period) + 1]

    @classmethod
    def release_type(cls) -> type[Release]:
        return RunningTotalRelease

    def measurement(self, added: Sequence[Fraction]) -> Fraction:
        """The number measured of the amounts that each period added: f₀·x_t + f₁·x_{t−1} + …. Private."""
        known = [*reversed(added[: len(self.so_far)])]
        return sum((weight * one for weight, one in zip(weights(len(known)), known, strict=True)), Fraction(0))

    def shown(self, sums: Sequence[float]) -> list[float]:
        """The running sums as published: whole counts, and totals that never turn back where the truth cannot."""
        values = [float(whole_count(one)) for one in sums] if self.bounds is None else list(sums)
        low, high = (0.0, 1.0) if self.bounds is None else self.bounds
        if low < 0 < high:
            return values
        further = max if low >= 0 else min
        return list(accumulate((further(value, 0.0) for value in values), further))

    def interval(self, middle: float, reach: float, shown: float, level: float) -> Interval:
        """The possible values within reach of an unbiased estimate, together with the one that is shown."""
        low, high = middle - reach, middle + reach
        if self.bounds is None:
            return Interval(*whole_interval(low, high, shown), level)
        if self.bounds[0] >= 0:
            low = max(low, 0.0)
        if self.bounds[1] <= 0:
            high = min(high, 0.0)
        return Interval(min(low, shown), max(high, shown), level)


@dataclass(frozen=True)
class RunningTotalRelease(Release):
    """The running totals up to a period, and what each period added.

    ``value`` is the running total of the period that was released. Totals that cannot fall do not: each is at least the
    one before it. The amounts added are their differences.
    """

    @property
    def _of(self) -> RunningTotal:
        return cast(RunningTotal, self.statistic)

    @property
    def measurements(self) -> tuple[float, ...]:
        """The noisy measurements of all periods so far."""
        return (*self.public["earlier"], float(np.asarray(self.measured)))

    @property
    def totals(self) -> dict[Any, float]:
        """The running total up to each period so far."""
        return dict(zip(self._of.so_far, self._of.shown(running_sums(self.measurements)), strict=True))

    @property
    def added(self) -> dict[Any, float]:
        """The amount that each period added: the differences of the running totals."""
        values = [*self.totals.values()]
        return dict(zip(self._of.so_far, np.diff([0.0, *values]).tolist(), strict=True))

    def noise_interval(self, level: float = 0.95) -> Interval:
        """Interval for the running total of the period that was released, from the distribution of the noise."""
        return self.total_interval(self._of.period, level)

    def total_interval(self, period: Any, level: float = 0.95) -> Interval:
        """Interval for the running total up to a period."""
        place = self._place(period)
        middle = running_sums(self.measurements[: place + 1])[-1]
        reach = combined_error(self.mechanism, self._weights(place), requirements.level(level))
        return self._of.interval(middle, reach, self.totals[period], level)

    def added_interval(self, period: Any, level: float = 0.95) -> Interval:
        """Interval for what a period added."""
        place = self._place(period)
        sums = [0.0, *running_sums(self.measurements[: place + 1])]
        reach = combined_error(self.mechanism, self._steps(place), requirements.level(level))
        return self._of.interval(sums[-1] - sums[-2], reach, self.added[period], level)

    def _place(self, period: Any) -> int:
        if period not in self._of.so_far:
            wish = spelling(period, [str(one) for one in self._of.so_far])
            raise InvalidParameter("period", period, "is not one of the periods so far", wish)
        return self._of.so_far.index(period)

    def _weights(self, place: int) -> list[float]:
        """The weight of each measurement's noise in a running total."""
        return [float(weight) for weight in weights(place + 1)]

    def _steps(self, place: int) -> list[float]:
        """The weight of each measurement's noise in the amount that a period added."""
        known = self._weights(place)
        return [known[0], *np.diff(known).tolist()]

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The running total of every period so far, then what each of them added."""
        noun = "rows" if self._of.bounds is None else "total"
        scale = float(self.mechanism.parameters()["scale"])
        periods = list(enumerate(self._of.so_far))
        known, added = self.totals, self.added
        sums = [
            Reading(
                str(period), known[period], self.total_interval(period), labels={"period": period},
                measure=f"{noun} so far", standard_error=scale * math.hypot(*self._weights(place)),
            )
            for place, period in periods
        ]  # fmt: skip
        steps = [
            Reading(
                str(period), added[period], self.added_interval(period), labels={"period": period},
                measure=f"{noun} added", standard_error=scale * math.hypot(*self._steps(place)),
            )
            for place, period in periods
        ]  # fmt: skip
        return [*sums, *steps]

    def facts(self) -> Facts:
        """The facts to show: the running totals, and how they are protected."""
        sums = (one for one in self.readings() if one.measure.endswith("so far"))
        told = told_numbers(one.to_dict() | {"label": f"up to {one.label}"} for one in sums)
        words = f"{self.guarantee}: of all {len(self._of.periods)} periods together"
        return [*told, ("guarantee", words), *(one for one in self.protection_facts() if one[0] != "guarantee")]


# ---- The question of a running total: one release per period, charged period by period, of one whole sequence
#
# The source keeps the rows of all periods. Each period adds one measurement to those in the ledger. Proof:
# ``docs/proofs/running_totals.md``.


_SLACK = 1 + 2.0**-46
"""So much more noise than the guarantee needs: the last period must not fail by the rounding of its charge."""


@dataclass(frozen=True)
class RunningTotalQuestion(Question[RunningTotalRelease]):
    """Running total of rows, or of a column, up to a period of a public list; the guarantee is that of the whole list.

    Guarantee
    ---------
    One row, or one unit in its first period, moves the measurements of all T periods together by at most
    Δ·√(f₀² + … + f_{T−1}²) in ℓ₂, with Δ as for a count or a sum and f_k = C(2k, k)/4ᵏ. It is assumed that rows keep
    their period, and that units with several rows lose none of them between two releases unless they lose all.

    Attributes
    ----------
    over
        Column of labels that are the periods, listed in order.
    period
        The period to release; a plan file fills in its own.
    column
        What to add up; rows are counted where it is left out.
    contribution
        Limits per unit within its first period, as for a sum.

    Examples
    --------
    >>> from discreet import Categories, Schema
    >>> schema = Schema(columns={"month": Categories([f"2026-{month:02d}" for month in range(1, 13)])})
    >>> asked = RunningTotalQuestion(schema, "month", mu=1.0, period="2026-03")
    >>> round(asked.mechanism.scale, 4), list(asked.claim(None).parts)
    (1.3604, ['2026-01', '2026-02', '2026-03'])
    """

    topic: ClassVar[str] = "Counts and shares"
    answers: ClassVar[str] = "How many rows are there up to each month or wave? Later periods cost nothing more."
    rehearsed: ClassVar[bool] = False
    needs_delta: ClassVar[bool] = True
    ask: ClassVar[str] = "running_total"
    also: ClassVar[tuple[str, ...]] = ("cumulative_sum",)
    heading: ClassVar[str] = "Number of {noun} by period"
    meaning: ClassVar[str] = "How many {noun} there are up to each period, and how many each period added."
    part: ClassVar[str] = "period"
    continues: ClassVar[bool] = True
    forms: ClassVar[form.Forms] = {"over": form.COLUMN, "period": form.LABEL, "column": form.COLUMN}
    over: str
    _: KW_ONLY
    period: Any = None
    column: str | None = None
    contribution: Contribution | None = None

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return {"over": first_of(columns.listed), "period": columns.label()["label"]}

    def _validate(self) -> None:
        if isinstance(self.guarantee, PureDP) or (isinstance(self.guarantee, ApproxDP) and self.guarantee.delta == 0):
            raise NoConversion(
                "a running total adds normal noise, which has no ε alone. Give mu or rho, for example GaussianDP(0.5)."
            )
        if self.schema.neighbours is Neighbours.REPLACE_ONE:
            raise InvalidParameter(
                "neighbours", "replace_one", "a replaced row may move to another period, which is not covered",
                "Declare add_remove, which protects the number of rows too.",
            )  # fmt: skip
        if self.schema.made_from is not None:
            raise InvalidParameter(
                "schema", "per_unit", "a feature changes as rows are added, which is not covered",
                "Ask of the rows, with contribution=Contribution(rows=…).",
            )  # fmt: skip
        if self.period is None:
            raise InvalidParameter(
                "period", None, "is needed: the one to release", 'Pass period="2026-11", or write it in the plan.'
            )
        named = {str(label): label for label in self.schema.categories(self.over).labels}
        if isinstance(self.period, str):  # a plan writes its period as text, also where the labels are years
            object.__setattr__(self, "period", named.get(self.period, self.period))
        if self.column is not None:
            self.schema.bounds(self.column)  # refuses labels, and what is no name
        related = {name for one in self.schema.related.values() for name in one.given()}
        read = self.schema.columns_behind(self.columns_read())  # with what ``where`` and formulas name
        if moving := [name for name in read if name in related]:
            raise InvalidParameter(
                "over" if self.over in moving else "columns", moving[0],
                "comes from a related table, where the rows that a unit keeps change as rows are added: its first "
                "period could become later, which is not covered",
                "Use columns of the first table, also in where.",
            )  # fmt: skip
        self.claim(None)  # refuses what cannot be answered before anything is planned or spent

    # -- what is measured ----------------------------------------------------------------------------------

    @property
    def statistic(self) -> RunningTotal:
        """The statistic that is measured."""
        bounds = None if self._bounds is None else (self._bounds.low, self._bounds.high)
        return RunningTotal(periods=tuple(self.schema.categories(self.over).labels), period=self.period, bounds=bounds)

    @property
    def _bounds(self) -> Bounds | None:
        """Bounds of what is added up; None where rows are."""
        return None if self.column is None else self.schema.bounds(self.column)

    @property
    def _limits(self) -> Contribution:
        """The limits on one unit: its first period, and so many rows in it."""
        limits = self.schema.contribution(self.contribution)
        return Contribution(groups=1, rows=limits.most_rows_in_a_group())

    @property
    def _move(self) -> Fraction:
        """The distance by which one unit moves the amount that its period added."""
        ends = (0, 1) if self._bounds is None else (decimal(self._bounds.low), decimal(self._bounds.high))
        alone = stability(self._limits, cells=1, neighbours=self.schema.neighbours, low=ends[0], high=ends[1])
        return Fraction(alone.require_l2())

    @property
    def sensitivity(self) -> Sensitivity:
        """The distance by which one unit moves the measurements of all periods together."""
        squares = (weight**2 for weight in weights(len(self.statistic.periods)))
        return Sensitivity(l2=root_up(sum(squares, Fraction(0)) * self._move**2))

    @property
    def mechanism(self) -> Gaussian:
        """The noise of every measurement, calibrated to the whole sequence; worked out once."""
        found = self.__dict__.get("_mechanism")
        if found is None:
            scale = gaussian_scale(self.guarantee, self.sensitivity) * _SLACK
            found = self.__dict__["_mechanism"] = Gaussian(scale)
        return cast(Gaussian, found)

    def _exact(self, rows: Snapshot) -> Fraction:
        """The true, still private value of the measurement."""
        columns = () if self.column is None else (self.column,)
        selected = Selected(
            by=(self.over,), columns=columns, first=True,
            contribution=None if self.schema.unit.column is None else self._limits,
        )  # fmt: skip
        found = totals(rows, selected, [columns] if columns else [])
        steps = found.counts if self._bounds is None else found.sums[columns]
        step = Fraction(1) if self._bounds is None else self._bounds.step
        return self.statistic.measurement([int(one) * step for one in steps])

    # -- what is claimed -----------------------------------------------------------------------------------

    def content(self) -> dict[str, Any]:
        return self._content(self.statistic)

    def _content(self, statistic: RunningTotal) -> dict[str, Any]:
        columns = [self.over] if self.column is None else [self.over, self.column]
        return {
            "ask": self.ask,
            "over": self.over,
            "columns": columns,
            "limits": self._limits.to_dict(),
            "statistic": statistic.to_dict(),
            "schema": self.schema.facts_of(columns),
        }

    @property
    def sequence(self) -> str:
        """The name under which the ledger counts the whole sequence: the same for all of its periods."""
        content = self._content(self._beginning) | {"guarantee": self.guarantee.to_dict()}
        return f"{self.ask}:{hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]}"

    @property
    def _beginning(self) -> RunningTotal:
        return replace(self.statistic, period=self.statistic.periods[0])

    def claim(self, ledger: Ledger | None) -> Claim:
        if ledger is not None:
            self._check(ledger)
        return self._claims([self.statistic])[0]

    def claims(self, ledger: Ledger | None) -> list[Claim]:
        return self._claims([replace(self.statistic, period=one) for one in self.statistic.periods])

    def _claims(self, statistics: Sequence[RunningTotal]) -> list[Claim]:
        """The claims of the releases of all periods: about the whole sequence, charged to the periods so far."""
        mechanism, whole, name = self.mechanism, self.sensitivity, self.sequence
        kind: type[Guarantee] = ZeroConcentratedDP if isinstance(self.guarantee, ZeroConcentratedDP) else GaussianDP
        most = max(len(one.so_far) for one in statistics)
        moves = [Sensitivity(l2=not_below(weight * self._move)) for weight in weights(most)]
        costs = [Step(mechanism, move, mechanism.guarantee(move, kind)) for move in moves]
        return [
            Claim(
                guarantee=self.guarantee,
                protection=self.schema.protection(Fact.HISTORY),
                question=self._content(one),
                mechanism=mechanism.to_dict(),
                sensitivity=whole,
                steps=[Step(mechanism, whole, self.guarantee)],
                partition=name,
                request=f"{name}:{one.period}",  # a sequence needs its stored measurements
                parts=dict(zip(map(str, one.so_far), reversed(costs[: len(one.so_far)]), strict=True)),
            )
            for one in statistics
        ]

    def first_period(self) -> Self:
        return replace(self, period=self.statistic.periods[0])

    def charge_now(self, ledger: Ledger | None) -> Guarantee:
        """The guarantee that this period adds to the total of the ledger, which has charged the earlier ones."""
        if ledger is not None:
            _check_currency(ledger)
        claim = self.claim(None)
        if ledger is None or not self._made(ledger):
            return claim.parts[str(self.period)].cost  # the newest period moves most
        return ledger.preview(claim.charged, partition=self.sequence).charge

    def _made(self, ledger: Ledger) -> dict[Any, Spend]:
        """The releases of the sequence so far, by period; the first one of each."""
        made = [spend for spend in ledger.events() if spend.partition == self.sequence]
        return {spend.question["statistic"]["period"]: spend for spend in reversed(made)}

    def _check(self, ledger: Ledger) -> None:
        """Refuse a ledger that cannot add up, and a period whose predecessors were not released."""
        _check_currency(ledger)
        made = self._made(ledger)
        missing = [one for one in self.statistic.so_far[:-1] if one not in made or not made[one].answered]
        if missing:
            raise InvalidParameter(
                "period", self.period, f"the running total needs {missing[0]!r}, which was not released yet",
                f"Release it first, with period = {str(missing[0])!r}. Nothing was spent.",
            )  # fmt: skip

    # -- plan and answer -----------------------------------------------------------------------------------

    def plan(self, ledger: Ledger | None = None) -> Plan:
        count = len(self.statistic.periods)
        charge = self.charge_now(ledger)
        remaining, after = affordable(ledger, charge)
        noise = [float(weight) for weight in weights(count)]
        standard = self.mechanism.scale * math.hypot(*noise)
        return Plan(
            statistic=self.statistic.name,
            mechanism=self.mechanism.name,
            scale=self.mechanism.scale,
            guarantee=self.guarantee,
            read="the running total",
            error_95=combined_error(self.mechanism, noise, 0.95),
            standard_error=standard,
            smallest_effect=DETECTED * standard,
            remaining=remaining,
            remaining_after=after,
            notes=(
                f"all {count} periods together cost {self.guarantee}; the first one adds {self.charge_now(None)}",
                f"the error is that of the last period: {even_split(count):.2f} of what it would be if the budget were "
                "split evenly",
            ),
            details={
                "statistic": self.statistic.to_dict(),
                "mechanism": self.mechanism.to_dict(),
                "sensitivity": self.sensitivity.to_dict(),
            },
        )

    def following(self, ledger: Ledger, request: str | None) -> Self:
        """The question with the measurements of earlier periods; refuses a period that was released before."""
        made = self._made(ledger)
        before = made.get(self.period)
        if before is not None and before.request != request:
            raise InvalidParameter(
                "period", self.period, "of this sequence was released before",
                f"Ask with name={before.request!r} for the stored answer. Nothing was spent.",
            )  # fmt: skip
        stored = [(ledger.answer(made[one].release_id), made[one].request) for one in self.statistic.so_far[:-1]]
        ledger.partition(self.sequence, [str(one) for one in self.statistic.periods])
        other = replace(self)
        other.__dict__["earlier"] = [_measured(not_failed(answer, asked)) for answer, asked in stored]
        return other

    def draw(self, rows: Snapshot, claim: Claim, allowance: Allowance, passed: Passed) -> RunningTotalRelease:
        earlier = self.__dict__["earlier"]
        measured = float(np.asarray(allowance.draw(claim.steps[0], self._exact(rows))))
        return RunningTotalRelease(
            value=self.statistic.shown(running_sums([*earlier, measured]))[-1],
            mechanism=self.mechanism,
            sensitivity=self.sensitivity,
            guarantee=self.guarantee,
            protection=claim.protection,
            statistic=self.statistic,
            public={"earlier": earlier, "counted": self.counted_words()},
            measurement=np.asarray(measured),
            **vars(passed),
        )

    def read(self, stored: Any) -> RunningTotalRelease:
        return cast(RunningTotalRelease, Release.from_dict(stored))

    # -- words ---------------------------------------------------------------------------------------------

    def columns_read(self) -> tuple[str, ...]:
        return (self.over,) if self.column is None else (self.over, self.column)

    def meaning_words(self, words: Mapping[str, str]) -> str:
        subject = self.subject_words(words)
        if subject is None:
            return super().meaning_words(words)
        return f"The total of {subject} up to each period, and what each added."

    def counted_words(self) -> str:
        unit = self.schema.unit
        if unit.column is None:
            return "each row in its period, which must not change from one release to the next"
        rows = f"at most {self._limits.rows} rows"
        return f"{rows} of each {unit.name}, in the first period in which it has any; rows are only added, never moved"


def _measured(stored: Mapping[str, Any]) -> float:
    return float(stored["value"] if stored["measurement"] is None else stored["measurement"])


def _check_currency(ledger: Ledger) -> None:
    """Refuse a ledger that cannot pay for a sequence period by period, and say what to write instead."""
    budget = ledger.budget
    if ledger.accounting in ("gdp", "zcdp"):
        return
    why = "a running total needs a budget in mu or rho, in which the periods add up"
    if isinstance(budget, ApproxDP) and budget.delta > 0:
        implied = accounting_of(budget, "gdp")
        mu = implied.at_most(implied.allowance).parameters()["mu"]
        raise NoConversion(f"{why}. Open a ledger with mu = {mu:.6g}, which implies {budget}. Nothing was spent.")
    raise NoConversion(f"{why}. Open a ledger with a budget such as GaussianDP(0.5). Nothing was spent.")
