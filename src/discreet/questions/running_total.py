"""Running total: how many rows, or how much, up to each of a public list of periods, and what is read from a release.

The running totals follow from the measurements of all periods so far, so what was published for a period never changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, ClassVar, cast

import numpy as np

from discreet.answers import Answer
from discreet.contract.statistic import Statistic
from discreet.core import requirements
from discreet.core.errors import InvalidParameter, spelling
from discreet.display import Facts, number
from discreet.inference.noise_sum import combined_error
from discreet.inference.running_sums import running_sums, weights
from discreet.inference.whole_counts import whole_count, whole_interval
from discreet.interval import Interval
from discreet.publish.readings import Reading
from discreet.releases import Release

__all__ = ["RunningTotal", "RunningTotalRelease"]


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

    def parameters(self) -> dict[str, Any]:
        bounds = None if self.bounds is None else list(self.bounds)
        return {"periods": list(self.periods), "period": self.period, "bounds": bounds}

    def measurement(self, added: Sequence[Fraction]) -> Fraction:
        """What is measured of the amounts that each period added: f₀·x_t + f₁·x_{t−1} + …. Private."""
        known = [*reversed(added[: len(self.so_far)])]
        return sum((weight * one for weight, one in zip(weights(len(known)), known, strict=True)), Fraction(0))

    def shown(self, sums: Sequence[float]) -> list[float]:
        """What is published of running sums: whole counts, and totals that never turn back where the truth cannot."""
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
class RunningTotalRelease(Answer):
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
        """What each period added: the differences of the running totals."""
        values = [*self.totals.values()]
        return dict(zip(self._of.so_far, np.diff([0.0, *values]).tolist(), strict=True))

    def confidence_interval(self, level: float = 0.95) -> Interval:
        """Interval for the running total of the period that was released, from the law of the noise."""
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
        """How far the noise of each measurement moves a running total."""
        return [float(weight) for weight in weights(place + 1)]

    def _steps(self, place: int) -> list[float]:
        """How far the noise of each measurement moves what a period added."""
        known = self._weights(place)
        return [known[0], *np.diff(known).tolist()]

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The running total of every period so far, then what each of them added."""
        noun = "rows" if self._of.bounds is None else "total"
        scale, periods = float(self.mechanism.parameters()["scale"]), list(enumerate(self._of.so_far))
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
        """What to show: the running totals, and how they are protected."""
        told = []
        for period, value in self.totals.items():
            interval = self.total_interval(period)
            told.append((f"up to {period}", f"{number(value)} ({number(interval.low)} to {number(interval.high)})"))
        words = f"{self.guarantee}: of all {len(self._of.periods)} periods together"
        return [*told, ("guarantee", words), *(one for one in self.protection_facts() if one[0] != "guarantee")]
