"""Quantiles: values below which given shares of the rows lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.answers import Answer
from discreet.contract.statistic import Statistic
from discreet.core import requirements
from discreet.core.errors import InvalidParameter, NoPopulationInterval, WrongType
from discreet.core.exact import Exact
from discreet.core.guarantee import Guarantee
from discreet.core.noise.truth import Floats
from discreet.core.protection import ROW, Neighbours, Protection, Unit
from discreet.core.rounding import not_below
from discreet.core.schema import Bounds, Contribution, Schema
from discreet.core.sensitivity import Sensitivity
from discreet.display import Facts, number
from discreet.interval import Interval
from discreet.mechanisms.choices.quantile_choice import QuantileChoice
from discreet.mechanisms.choices.quantile_interval import QuantileInterval
from discreet.mechanisms.choices.ranks import share_of
from discreet.publish.readings import Reading
from discreet.questions.forecast import DEFAULT_ROWS, Forecast
from discreet.questions.forms import COLUMN, COLUMNS, FLAG, LEVEL, PROBABILITIES, UNIT_SUM, WHOLE, Form
from discreet.questions.grouped import GroupedRelease
from discreet.questions.question import Expected, Histograms, MeasuredQuestion, Measurement, column_names
from discreet.questions.sampled_shares import noise_miss, sampled_shares
from discreet.questions.typical_ranks import typical_ranks
from discreet.releases import Release

__all__ = ["MOST_POINTS", "QuantileQuestion", "QuantileRelease", "Quantiles", "stacked"]

Chosen = QuantileChoice | QuantileInterval
_LEVEL = 0.95
"""Of an interval that nobody asked about; a recursion, which has none, leaves it out."""
_SAMPLING = 0.8
"""Part of an interval's error probability that is left to sampling alone; noise and sampling share the rest."""
MOST_POINTS = 2**22
"""Finest grid for quantiles; every point is a candidate that must be weighed."""


@dataclass(frozen=True, kw_only=True)
class Quantiles(Statistic):
    """One quantile or several of a column with a public grid.

    Protect them with `QuantileChoice`, or with `QuantileInterval` where an interval is wanted.

    Parameters
    ----------
    probabilities
        A share such as 0.5 for the median, or several.
    bounds
        The column's public limits and grid.
    interval
        Confidence level of an interval to be published with each quantile, whose middle is then the estimate; None
        publishes the quantiles alone, each by a sharper choice.
    rows_at_least
        Public lower bound on the number of rows: the interval then covers the quantile of the population the rows
        are a random sample of; without it, the quantile of the data.
    recursive
        Choose several quantiles by splitting the data, so that the cost grows with the logarithm of their number.

    Notes
    -----
    **Guarantee.** A unit with m rows changes the distance of any point from a target rank by at most
    m·max(q, 1−q) under add/remove and m under replace-one (``docs/proofs/quantile.md``).

    Examples
    --------
    >>> median = Quantiles(probabilities=0.5, bounds=Bounds(0, 100, grid=1))
    >>> median.sensitivity(neighbours=Neighbours.ADD_REMOVE).l1
    0.5
    """

    name: ClassVar[str] = "quantiles"
    probabilities: float | tuple[float, ...]
    bounds: Bounds
    interval: float | None = None
    rows_at_least: int | None = None
    recursive: bool = False

    def __post_init__(self) -> None:
        given: Any = self.probabilities
        if isinstance(given, np.ndarray) and given.ndim == 0:
            given = given.item()
        many = tuple(given) if isinstance(given, Sequence | np.ndarray) else (given,)
        clean = tuple(requirements.probability("probabilities", q, below_one=False) for q in many)
        if not clean or len(set(clean)) != len(clean) or 0 in clean or 1 in clean:
            raise InvalidParameter(
                "probabilities", given, "must be different numbers strictly between 0 and 1", "Pass 0.5, for example."
            )
        object.__setattr__(self, "probabilities", clean if isinstance(given, Sequence | np.ndarray) else clean[0])
        if isinstance(self.bounds, dict):
            object.__setattr__(self, "bounds", _bounds(self.bounds))
        requirements.instance("bounds", self.bounds, Bounds, "Bounds(0, 100, grid=1)")
        if self.bounds.cells > MOST_POINTS:
            raise InvalidParameter(
                "grid", self.bounds.grid, f"makes more than {MOST_POINTS:,} grid points", "Use a coarser grid."
            )
        if self.interval is not None:
            requirements.level(self.interval)
        if self.rows_at_least is not None:
            requirements.positive_integer("rows_at_least", self.rows_at_least)
        if self.recursive and self.interval is not None:
            raise InvalidParameter("recursive", True, "has no intervals", "Leave out one of the two.")

    @property
    def shares(self) -> tuple[float, ...]:
        """The probabilities as a tuple."""
        return self.probabilities if isinstance(self.probabilities, tuple) else (self.probabilities,)

    @classmethod
    def release_type(cls) -> type[Release]:
        return QuantileRelease

    def parameters(self) -> dict[str, Any]:
        many = isinstance(self.probabilities, tuple)
        return {
            "probabilities": list(self.shares) if many else self.probabilities,
            "bounds": self.bounds.to_dict(),
            "interval": self.interval,
            "rows_at_least": self.rows_at_least,
            "recursive": self.recursive,
        }

    def _enclosed(self) -> tuple[tuple[float, float], ...]:
        """For each quantile the shares of rows that an interval must enclose."""
        if self.interval is None or self.rows_at_least is None:
            return tuple((q, q) for q in self.shares)
        each_side = _SAMPLING * (1 - self.interval) / 2
        return tuple(sampled_shares(q, self.rows_at_least, each_side) for q in self.shares)

    def _grid(self) -> dict[str, Any]:
        return {"lowest": self.bounds.lowest, "highest": self.bounds.highest, "grid": self.bounds.grid}

    def targets(self) -> dict[str, Any]:
        """Parameters of `QuantileChoice` besides its factor."""
        return {"probabilities": self.shares, "recursive": self.recursive, **self._grid()}

    def intervals(self) -> dict[str, Any]:
        """Parameters of `QuantileInterval` besides its factors and ``miss``."""
        if self.interval is None:
            raise InvalidParameter("interval", None, "must be a level for this mechanism", "Pass interval=0.95.")
        return {"shares": self._enclosed(), **self._grid()}

    def noise_miss(self, factor: float) -> float:
        """How often the noise of a second stage with this factor may leave the shares that an interval encloses."""
        error = 1 - requirements.level(self.interval)
        if self.rows_at_least is None:
            return error
        each = zip(self.shares, self._enclosed(), strict=True)
        return min(noise_miss(q, pair, self.rows_at_least, error, factor) for q, pair in each)

    def mechanism(self, guarantee: Guarantee, sensitivity: Sensitivity, groups: int = 1) -> Chosen:
        """The sharpest choice of quantiles, or of quantiles with intervals, that meets a guarantee."""
        kind: type[Chosen] = QuantileChoice if self.interval is None else QuantileInterval
        return kind.calibrate(guarantee, sensitivity, statistic=self, groups=groups)

    def sensitivity(self, *, neighbours: Neighbours, rows_per_unit: int = 1, grouped: bool = False) -> Sensitivity:
        """Largest change of a rank distance; in groups, of the sum over groups of their largest changes."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        rows = requirements.positive_integer("rows_per_unit", rows_per_unit)
        if neighbours is Neighbours.REPLACE_ONE and not (self.recursive or grouped):
            return Sensitivity(l1=float(rows))
        worst = (
            Fraction(1)
            if self.recursive
            else max(max(share_of(q), 1 - share_of(q)) for pair in self._enclosed() for q in pair)
        )
        # In parts of the data a replaced row is removed from one and added to another.
        return Sensitivity(l1=not_below(rows * worst * neighbours.sides))

    def exact_histogram(
        self,
        steps: ArrayLike,
        counts: ArrayLike,
        *,
        neighbours: Neighbours,
        unit: Unit = ROW,
        rows_per_unit: int = 1,
    ) -> Exact:
        """The private histogram from grid steps that occur and their counts, such as a database makes."""
        return Exact(
            self.whole(np.asarray(steps, dtype=np.int64), np.asarray(counts, dtype=np.int64)),
            self.sensitivity(neighbours=neighbours, rows_per_unit=rows_per_unit),
            Protection(unit, neighbours),
            statistic=self,
        )

    def whole(self, steps: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Steps and counts with both ends of the grid, each step once. Private."""
        ends = np.array([self.bounds.lowest, self.bounds.highest])
        places, position = np.unique(np.concatenate([ends, steps]), return_inverse=True)
        if places[0] < ends[0] or places[-1] > ends[1]:
            raise InvalidParameter("steps", "…", "must lie on the grid", "Clip the data first.")
        totals = np.zeros(places.size, dtype=np.int64)
        np.add.at(totals, position, np.concatenate([[0, 0], counts]))
        return np.array([places, totals])

    def exact(self, data: ArrayLike, *, neighbours: Neighbours, unit: Unit = ROW) -> Exact:
        """The private histogram of a column; values are clipped to the bounds and rounded to the grid."""
        try:
            column = np.asarray(data, dtype=float)
        except (TypeError, ValueError, OverflowError):
            raise WrongType("data", "…", "must be a column of numbers", "Pass a list, an array or a series.") from None
        if column.ndim != 1 or not np.isfinite(column).all():
            raise InvalidParameter("data", "…", "must be one column of finite numbers", "Drop missing values first.")
        clipped = np.clip(column, self.bounds.low, self.bounds.high)
        steps = np.clip(np.floor(clipped / self.bounds.grid + 0.5), self.bounds.lowest, self.bounds.highest)
        found, counts = np.unique(steps.astype(np.int64), return_counts=True)
        return self.exact_histogram(found, counts, neighbours=neighbours, unit=unit)


def _bounds(stored: dict[str, Any]) -> Bounds:
    """Bounds that were written out as data."""
    try:
        return Bounds(**stored)
    except TypeError:
        raise InvalidParameter(
            "bounds", stored, "must hold low, high and grid", "Pass Bounds(0, 1, grid=0.1)."
        ) from None


@dataclass(frozen=True)
class QuantileRelease(Answer):
    """Published quantiles; with intervals where they were asked for."""

    @property
    def _quantiles(self) -> Quantiles:
        return cast(Quantiles, self.statistic)

    def _parts(self) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        return np.atleast_1d(np.asarray(self.value, dtype=float)).reshape(len(self._quantiles.shares), -1)

    @property
    def estimate(self) -> Floats:
        """The quantiles, one per probability."""
        parts = self._parts()
        middle = parts[:, parts.shape[1] // 2]
        return middle if isinstance(self._quantiles.probabilities, tuple) else float(middle[0])

    def population_interval(self, level: float | None = None) -> Interval:
        """Interval for the population's quantiles, where one was asked for with a public number of rows."""
        if self._quantiles.rows_at_least is None:
            raise NoPopulationInterval(
                "release",
                "quantiles",
                "must be asked for the population, because an interval costs privacy of its own",
                "Ask with interval=0.95 and rows_at_least=…, a public lower bound of the number of rows.",
            )
        self.require_sample()
        return self.confidence_interval(level)

    def confidence_interval(self, level: float | None = None) -> Interval:
        """The interval that was published, of the level it was planned for.

        It covers the quantile of the data, or of the population where ``rows_at_least`` was declared. Without a
        planned interval only the grid itself is certain.
        """
        planned = self._quantiles.interval
        parts = self._parts()
        if planned is None:
            low, high = self.mechanism.confidence_interval(parts[:, 0], requirements.level(level or 0.95))
            return Interval(self._shaped(low), self._shaped(high), level or 0.95)
        if level is not None and level != planned:
            raise InvalidParameter("level", level, f"the interval was published at {planned}", "Leave level out.")
        return Interval(self._shaped(parts[:, 0]), self._shaped(parts[:, 2]), planned)

    def _shaped(self, values: Floats) -> Floats:
        array = np.asarray(values)
        return array if isinstance(self._quantiles.probabilities, tuple) else float(array[0])

    def facts(self) -> Facts:
        """What to show of a release."""
        shown = []
        for one in self.readings():
            known = one.noise or one.population
            reach = "" if known is None else f" ({number(known.low)} to {number(known.high)})"
            shown.append((f"{one.label} quantile", f"{number(one.estimate)}{reach}"))
        of = "the population" if self._quantiles.rows_at_least is not None else "the noise"
        level = self._quantiles.interval
        return [
            *shown,
            *([] if level is None else [("intervals", f"{100 * level:g} %, for {of}")]),
            *self.protection_facts(),
        ]

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """Each quantile, with the interval that was published with it."""
        values = np.atleast_1d(np.asarray(self.estimate, dtype=float))
        of = self._quantiles
        intervals: list[Interval | None] = [None] * len(values)
        if of.interval is not None:
            found = self.confidence_interval()
            ends = (np.atleast_1d(np.asarray(end, dtype=float)).tolist() for end in (found.low, found.high))
            intervals = [Interval(low, high, found.level) for low, high in zip(*ends, strict=True)]
        # With a declared number of rows the interval is for the population, else for the data.
        return [
            Reading(
                f"{100 * share:g} %",
                float(value),
                one if of.rows_at_least is None else None,
                None if of.rows_at_least is None else one,
                labels={"probability": float(share)},
                measure="quantile",
            )
            for share, value, one in zip(of.shares, values, intervals, strict=True)
        ]


@dataclass(frozen=True)
class QuantileQuestion(MeasuredQuestion[QuantileRelease | GroupedRelease[QuantileRelease]]):
    """Quantiles of a column, in all or by group, with intervals unless ``interval`` is None or they are recursive.

    Guarantee
    ---------
    As `Quantiles`, for the rows that a unit keeps. Proof: ``docs/proofs/quantile.md``.

    Examples
    --------
    >>> from discreet import PureDP, Schema
    >>> schema = Schema(columns={"age": Bounds(0, 120, grid=1)})
    >>> QuantileQuestion(schema, "age", 0.5, PureDP(1.0)).plan().expected_error < 30  # in ranks, of an interval's ends
    True
    >>> alone = QuantileQuestion(schema, "age", 0.5, PureDP(1.0), interval=None).plan()
    >>> alone.expected_error <= round(alone.worst_error)
    True
    """

    ask: ClassVar[str] = "quantile"
    meaning: ClassVar[str] = "The value of {subject} below which this share of rows lies."
    forms: ClassVar[Mapping[str, Form]] = {
        "column": COLUMN,
        "probabilities": PROBABILITIES,
        "by": COLUMNS,
        "interval": LEVEL,
        "rows_at_least": WHOLE,
        "recursive": FLAG,
        "unit_sum": UNIT_SUM,
    }
    schema: Schema
    column: str
    probabilities: float | Sequence[float]
    guarantee: Guarantee
    _: KW_ONLY
    by: str | Sequence[str] = ()
    interval: float | None = _LEVEL
    rows_at_least: int | None = None
    recursive: bool = False
    contribution: Contribution | None = None
    unit_sum: Bounds | None = None

    def _measured(self) -> Measurement:
        requirements.instance("recursive", self.recursive, bool, "recursive=True or False")
        by = column_names(self.by)
        limits = self.limits(self.contribution, self.unit_sum)
        bounds, coarse = _coarsened(self._values(self.column, self.unit_sum))
        statistic = Quantiles(
            probabilities=self._shares(),
            bounds=bounds,
            interval=self._level(),
            rows_at_least=self._independent_rows(limits),
            recursive=self.recursive,
        )
        groups = self.schema.cells(by)
        sensitivity = statistic.sensitivity(
            neighbours=self.schema.neighbours, rows_per_unit=limits.most_rows(groups), grouped=bool(by)
        )

        def value(found: Histograms) -> Any:
            return stacked([statistic.whole((steps + coarse // 2) // coarse, rows) for steps, rows in found], bounds)

        mechanism = statistic.mechanism(self.guarantee, sensitivity, groups)
        known = self.schema.size or self.rows_at_least
        rows = max(1, known // groups) if known else DEFAULT_ROWS
        return Measurement(
            statistic=self.grouped(statistic, by),
            sensitivity=sensitivity,
            mechanism=mechanism,
            by=by,
            columns=(self.column,),
            contribution=self.contribution,
            unit_sum=self.unit_sum,
            public={},
            from_histograms=value,
            read="ranks" if statistic.interval is None else "ranks to an end",
            forecast=lambda: Forecast(
                error=partial(typical_ranks, mechanism, statistic.shares, rows),
                bound=None if statistic.interval else mechanism.rank_error,
                scenario=Expected(rows=rows * groups).words(groups),
            ),
        )

    def meaning_words(self, words: Mapping[str, str]) -> str:
        subject, shares = self.subject_words(words), np.atleast_1d(self._shares()).tolist()
        if shares == [0.5]:
            return f"The median of {subject}."
        return f"Values of {subject} below which {', '.join(f'{100 * one:.4g} %' for one in shares)} of rows lie."

    def _shares(self) -> Any:
        given: Any = self.probabilities
        if isinstance(given, float | int):
            return given
        return requirements.listed("probabilities", given, "a quantile such as 0.5, or a list of them")

    def _level(self) -> float | None:
        """The level of the intervals; false, as a plan file says it, is none."""
        unasked = self.recursive and self.interval == _LEVEL
        return None if unasked or self.interval is False else self.interval

    def _independent_rows(self, limits: Contribution) -> int | None:
        """How many rows to count on: k rows of a unit say no more of the population than one of them, at the worst."""
        if self.rows_at_least is None:
            return None
        rows = requirements.positive_integer("rows_at_least", self.rows_at_least)
        return max(1, rows // limits.most_rows(1))


def _coarsened(bounds: Bounds) -> tuple[Bounds, int]:
    """The column's grid, or the finest multiple of it with few enough points to weigh each."""
    coarse = 1
    while (bounds.highest - bounds.lowest) // coarse >= MOST_POINTS:
        coarse *= 10
    if coarse == 1:
        return bounds, 1
    step = bounds.step * coarse
    low, high = (bounds.lowest + coarse // 2) // coarse, (bounds.highest + coarse // 2) // coarse
    return Bounds(float(low * step), float(high * step), grid=float(step)), coarse


def stacked(histograms: list[NDArray[np.int64]], bounds: Bounds) -> NDArray[np.int64]:
    """Histograms of groups one after another on one long grid."""
    shifted = [np.array([one[0] + group * bounds.cells, one[1]]) for group, one in enumerate(histograms)]
    return np.concatenate(shifted, axis=1)
