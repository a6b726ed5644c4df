"""Quantiles: values below which given shares of the rows lie."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.columns import Bands
from discreet.core.errors import InvalidParameter, NoPopulationInterval, WrongType
from discreet.core.guarantee import Guarantee
from discreet.core.noise.sampler import Floats
from discreet.core.numbers import not_below
from discreet.core.protection import ROW, Neighbours, Protection, Unit
from discreet.core.schema import Bounds, Contribution
from discreet.core.sensitivity import Exact, Sensitivity, root_up
from discreet.inference.design import DesignMoments, measured_moments
from discreet.mechanisms.choices.nested_counts import NestedCounts
from discreet.mechanisms.choices.quantile import (
    Histogram,
    QuantileChoice,
    RankClasses,
    share_of,
    simulated,
)
from discreet.questions import form
from discreet.questions.design import (
    IN_BINS,
    DesignRelease,
    design_measurement,
    in_bins,
    likely_weights,
    no_design_for,
)
from discreet.questions.grouped import GroupedRelease, intervals_by, joined, place_of
from discreet.questions.question import (
    ESTIMATED,
    DeclaredColumns,
    Expected,
    Forecast,
    Histograms,
    MeasuredQuestion,
    Measurement,
    column_names,
)
from discreet.results.answer import FromRelease
from discreet.results.display import Facts, Interval
from discreet.results.frames import Reading
from discreet.results.printed import told_numbers
from discreet.results.release import Release, Statistic

# ---- Typical ranks: how far published quantiles are off where rows are spread evenly over the bounds


Chosen = QuantileChoice | NestedCounts
Integers = NDArray[np.int64]
Array = NDArray[np.float64]
_DATA_SETS = 60
_ANSWERS = 6
"""From each data set and for each quantile: 95 % of the errors are then known to about 5 %."""
_FINE = 30
"""Rows farther from a quantile than so many ranks come in clumps of a thirtieth of their distance."""
_ALIKE = 0.05
"""And rows whose distances change log-weights by no more than this, too."""


@lru_cache(maxsize=256)
def typical_ranks(mechanism: Chosen, shares: tuple[float, ...], rows: int, level: float = 0.95) -> float:
    """With probability ``level`` a quantile is within so many ranks of its target: the worst of the quantiles.

    The mechanism runs, many times at once, on ``rows`` rows that are spread evenly over the grid. Of an interval, the
    error is that of its farther end: the rows between it and the target, without those on the end itself.

    Examples
    --------
    >>> median = QuantileChoice(factor=1.0, probabilities=(0.5,), lowest=0, highest=10_000, grid=1.0)
    >>> typical_ranks(median, (0.5,), 1000) < median.rank_error()
    True
    """
    rng = np.random.default_rng(1)  # no data is read: a plan says the same each time
    targets = np.array([float(share_of(share)) * rows for share in shares])
    ranks = _ranks(targets, rows, _sharpness(mechanism))
    data = [_spread(ranks, rows, mechanism, rng) for _ in range(_DATA_SETS)]  # groups are alike: one stands for all
    if isinstance(mechanism, NestedCounts):
        drawn = mechanism.simulated([one for one in data for _ in range(_ANSWERS)], rng)
        published = list(drawn[..., ::2].reshape(_DATA_SETS, _ANSWERS, len(shares), 2))  # the middle is no end
    else:
        published = [_published(one, mechanism, len(shares), rng) for one in data]
    errors = [_off(one, ends, targets) for one, ends in zip(data, published, strict=True)]
    return float(np.max(np.quantile(np.concatenate(errors), level, axis=0, method="higher")))


def _sharpness(mechanism: Chosen) -> float:
    return mechanism.factor if isinstance(mechanism, QuantileChoice) else mechanism.rate


def _published(data: Histogram, mechanism: QuantileChoice, quantiles: int, rng: np.random.Generator) -> Integers:
    """Steps that are published: answers × quantiles × 1."""
    if not mechanism.recursive:
        return _chosen(data, mechanism, rng)
    alone, truth = replace(mechanism, groups=1), np.array(data)
    drawn = np.array([alone.draw(truth, rng=rng) for _ in range(_ANSWERS)]) / mechanism.grid
    return np.rint(drawn).astype(np.int64).reshape(_ANSWERS, quantiles, 1)


def _ranks(targets: Array, rows: int, factor: float) -> Integers:
    """Ranks whose rows are told apart: all of them close to a target, fewer and fewer farther away."""
    away, least = [0], max(1, int(min(_ALIKE / factor, rows)))
    while away[-1] < rows:
        away.append(away[-1] + max(least, away[-1] // _FINE))
    near = np.rint(targets).astype(np.int64)[:, None] + np.concatenate([away, np.negative(away)])
    return np.unique(np.append(near[(near > 0) & (near < rows)], rows))


def _spread(ranks: Integers, rows: int, mechanism: Chosen, rng: np.random.Generator) -> Histogram:
    """Rows spread evenly: uniform order statistics, those between two ranks with the upper one."""
    places = np.cumsum(rng.standard_gamma(np.diff(ranks, prepend=0)))
    share = places / (places[-1] + rng.standard_gamma(rows + 1 - ranks[-1]))
    steps = mechanism.lowest + np.floor(share * (mechanism.highest - mechanism.lowest) + 0.5).astype(np.int64)
    steps = np.concatenate([[mechanism.lowest], steps, [mechanism.highest]])
    last = np.append(np.diff(steps) > 0, True)  # of several in one place
    return steps[last], np.diff(np.concatenate([[0], ranks, [rows]])[last], prepend=0)


def _chosen(data: Histogram, mechanism: QuantileChoice, rng: np.random.Generator) -> Integers:
    """Steps that a choice publishes: answers × quantiles × 1."""
    classes, rows = RankClasses.of(data), int(data[1].sum())
    steps = []
    for q in mechanism.probabilities:
        target = share_of(q) * rows
        apart = classes.distances(target, target.denominator) / target.denominator
        place = simulated(apart, mechanism.factor, classes.widths, rng, flip=mechanism.flip, size=_ANSWERS)
        steps.append(classes.starts[place] + rng.integers(classes.widths[place]))
    order = np.argsort(np.argsort(mechanism.probabilities, kind="stable"), kind="stable")
    return np.sort(np.array(steps).T, axis=1)[:, order, None]


def _off(data: Histogram, ends: Integers, targets: Array) -> Array:
    """Rows between each target and what was published for it: a step, or the ends of an interval."""
    steps, counts = data
    upto = np.append(0, np.cumsum(counts))
    left = upto[np.searchsorted(steps, ends[..., -1])]
    right = upto[np.searchsorted(steps, ends[..., 0], side="right")]
    return np.asarray(np.maximum(np.maximum(left - targets, targets - right), 0.0))


_LEVEL = 0.95
"""Of an interval that nobody asked about; a recursion, which has none, leaves it out."""
MOST_POINTS = 2**22
"""Finest grid for quantiles that are chosen; every point is a candidate that must be weighed."""
_MOST_COUNTED = 2**60
"""Finest grid, of all groups together, for those that are read from counts."""


@dataclass(frozen=True, kw_only=True)
class Quantiles(Statistic):
    """One quantile or several of a column with a public grid.

    Protect them with `QuantileChoice`; where an interval is wanted, with `NestedCounts`.

    Parameters
    ----------
    probabilities
        A share such as 0.5 for the median, or several.
    bounds
        The column's public limits and grid.
    interval
        Confidence level of an interval to be published with each quantile; None publishes the quantiles alone, each by
        a sharper choice.
    rows_at_least
        Public lower bound on the number of rows: the interval then covers the quantile of the population the rows
        are a random sample of; without it, the quantile of the data. It decides how sharp the interval is, and not
        whether it holds.
    recursive
        Choose several quantiles by splitting the data, so that the cost grows with the logarithm of their number.
    rows_per_unit
        How many rows of a unit there may be: they may tell no more of the population than one.

    Notes
    -----
    **Guarantee.** A unit with m rows changes the distance of any point from a target rank by at most
    m·max(q, 1−q) under add/remove and m under replace-one, and counts by m and 2m (``docs/proofs/quantile.md``).

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
    rows_per_unit: int = 1

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
        if self.bounds.cells > MOST_POINTS and self.interval is None:
            raise InvalidParameter(
                "grid", self.bounds.grid, f"makes more than {MOST_POINTS:,} grid points", "Use a coarser grid."
            )
        if self.interval is not None:
            requirements.level(self.interval)
        if self.rows_at_least is not None:
            requirements.positive_integer("rows_at_least", self.rows_at_least)
        if self.recursive and self.interval is not None:
            raise InvalidParameter("recursive", True, "has no intervals", "Leave out one of the two.")
        requirements.positive_integer("rows_per_unit", self.rows_per_unit)

    @property
    def shares(self) -> tuple[float, ...]:
        """The probabilities as a tuple."""
        return self.probabilities if isinstance(self.probabilities, tuple) else (self.probabilities,)

    @classmethod
    def release_type(cls) -> type[Release]:
        return QuantileRelease

    def _grid(self) -> dict[str, Any]:
        return {"lowest": self.bounds.lowest, "highest": self.bounds.highest, "grid": self.bounds.grid}

    def targets(self) -> dict[str, Any]:
        """Parameters of `QuantileChoice` besides its factor."""
        return {"probabilities": self.shares, "recursive": self.recursive, **self._grid()}

    def intervals(self) -> dict[str, Any]:
        """Parameters of `NestedCounts` besides its rate."""
        if self.interval is None:
            raise InvalidParameter("interval", None, "must be a level for this mechanism", "Pass interval=0.95.")
        together = 0 if self.rows_at_least is None else self.rows_per_unit
        least = 1 if self.rows_at_least is None else self.rows_at_least
        return {"shares": self.shares, "miss": 1 - self.interval, "together": together, "rows": least, **self._grid()}

    def mechanism(self, guarantee: Guarantee, sensitivity: Sensitivity, groups: int = 1) -> Chosen:
        """The sharpest choice of quantiles, or of quantiles with intervals, that meets a guarantee."""
        kind: type[Chosen] = QuantileChoice if self.interval is None else NestedCounts
        return kind.calibrate(guarantee, sensitivity, statistic=self, groups=groups)

    def sensitivity(self, *, neighbours: Neighbours, rows_per_unit: int = 1, grouped: bool = False) -> Sensitivity:
        """Largest change of a rank distance; in groups, of the sum over groups of their largest changes."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        rows = requirements.positive_integer("rows_per_unit", rows_per_unit)
        if self.interval is not None:  # counts: a replaced row leaves one cell for another
            return Sensitivity(l1=float(rows * neighbours.sides), l2=root_up(Fraction(rows**2 * neighbours.sides)))
        if neighbours is Neighbours.REPLACE_ONE and not (self.recursive or grouped):
            return Sensitivity(l1=float(rows))
        worst = Fraction(1) if self.recursive else max(max(share_of(q), 1 - share_of(q)) for q in self.shares)
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
class QuantileRelease(Release):
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
        return self.noise_interval(level)

    def noise_interval(self, level: float | None = None) -> Interval:
        """The interval that was published, of the level it was planned for.

        It covers the quantile of the data, or of the population where ``rows_at_least`` was declared. Without a
        planned interval only the grid itself is certain.
        """
        planned = self._quantiles.interval
        parts = self._parts()
        if planned is None:
            low, high = self.mechanism.noise_interval(parts[:, 0], requirements.level(level or 0.95))
            return Interval(self._shaped(low), self._shaped(high), level or 0.95)
        if level is not None and level != planned:
            raise InvalidParameter("level", level, f"the interval was published at {planned}", "Leave level out.")
        return Interval(self._shaped(parts[:, 0]), self._shaped(parts[:, 2]), planned)

    def _shaped(self, values: Floats) -> Floats:
        array = np.asarray(values)
        return array if isinstance(self._quantiles.probabilities, tuple) else float(array[0])

    def facts(self) -> Facts:
        """The facts to show of a release."""
        return [*told_numbers(self.told_readings()), *self.protection_facts()]

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """Each quantile, with the interval that was published with it."""
        values = np.atleast_1d(np.asarray(self.estimate, dtype=float))
        of = self._quantiles
        intervals: list[Interval | None] = [None] * len(values)
        if of.interval is not None:
            found = self.noise_interval()
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


# ---- Under a design: from the weights in bins


@dataclass(frozen=True)
class DesignQuantiles(FromRelease):
    """Quantiles of a population by the inverted test of a share (Woodruff 1952), from the weights in bins.

    A bin is kept unless the shares of the population below its ends say that the quantile is elsewhere. All quantiles
    are read from one release, whose other shares can be asked for, too.

    Parameters
    ----------
    release
        The weights in bins.
    edges
        The ends of the bins.
    probabilities
        The shares of the population below the quantiles.
    place
        Which group is asked about, where there are several.

    Examples
    --------
    >>> import pyarrow
    >>> from discreet import Bounds, Design, PureDP, Schema, Session
    >>> rows = pyarrow.table({"w": [1.0, 3.0] * 1000, "y": [20.0, 60.0] * 1000})
    >>> schema = Schema(columns={"y": Bounds(0, 100, grid=1)}, design=Design(weight="w", weight_high=4))
    >>> found = Session(rows, schema, ledger=":memory:", budget=PureDP(5.0)).median("y", epsilon=5.0)
    >>> 55 < found.estimate < 65
    True
    """

    release: GroupedRelease[DesignRelease]
    edges: tuple[float, ...]
    probabilities: float | tuple[float, ...]
    place: int = 0

    @property
    def _shares(self) -> list[float]:
        return [float(one) for one in np.atleast_1d(self.probabilities)]

    @cached_property
    def _below(self) -> list[DesignMoments]:
        """For every edge but the last, the share below as a mean of yes and no; the first has none, by its noise."""
        every = [self.release.part(self.place * self._bins + place).moments for place in range(self._bins)]
        first, parts = every[0], np.array([one.parts for one in every])  # by bin, stratum and part
        inner = 1 / float(first.moments["u"][1])
        moments = {name: weights[: parts.shape[2] + 2] for name, weights in measured_moments(1, inner).items()}
        rest, none = first.everybody[:, 2:], np.zeros(len(first.everybody))
        everybody = np.column_stack([none, first.everybody[:, 0], none, first.everybody[:, 1], rest])
        found = []
        for place in range(1, len(every)):
            low, high = parts[:place].sum(axis=0), parts[place:].sum(axis=0)
            both = np.column_stack([high[:, 0], low[:, 0], high[:, 1], low[:, 1], low[:, 2:] + high[:, 2:]])
            up, down = float(len(every) - place), float(place)
            times = np.array([up, down, up, down, *[up + down] * (parts.shape[2] - 2)])
            own = first.noise[[0, 0, 1, 1, *range(2, parts.shape[2])]]
            found.append(
                DesignMoments(
                    parts=both, everybody=everybody, groups=first.groups // self._bins, moments=moments,
                    noise=own * times, kurtosis=first.kurtosis, people=first.people, top=first.top, whole=first.whole,
                )
            )  # fmt: skip
        return found

    @property
    def _bins(self) -> int:
        return len(self.edges) - 1

    def _inside(self, share: float, level: float, *, sampled: bool) -> tuple[float, float]:
        """The ends of the bins that are kept."""
        point = np.asarray(share)
        above, below = [], []
        for one in self._below:
            rejected = not bool(one.accepts(point, level, sampled=sampled))
            more = float(one.scale @ (one.sum("uy") - share * one.sum("u"))) > 0
            above.append(rejected and more)
            below.append(rejected and not more)
        # a bin is left out where there is surely too much below its lower end, or too little below its upper end
        kept = [
            place
            for place in range(len(self._below) + 1)
            if not (place > 0 and above[place - 1]) and not (place < len(below) and below[place])
        ]
        kept = kept or [*range(len(self._below) + 1)]
        return self.edges[kept[0]], self.edges[kept[-1] + 1]

    def _interval(self, level: float, *, sampled: bool) -> Interval:
        checked = requirements.level(level)
        ends = np.array([self._inside(share, checked, sampled=sampled) for share in self._shares])
        if not isinstance(self.probabilities, tuple):
            return Interval(float(ends[0, 0]), float(ends[0, 1]), checked)
        return Interval(ends[:, 0], ends[:, 1], checked)

    def noise_interval(self, level: float = 0.95) -> Interval:
        """Interval for the quantiles that the weights of respondents give, without noise."""
        return self._interval(level, sampled=False)

    def population_interval(self, level: float = 0.95) -> Interval:
        """Design-based interval for the quantiles of the population."""
        return self._interval(level, sampled=True)

    @cached_property
    def _found(self) -> list[float]:
        """Where the share below reaches each probability, evenly spread within a bin, and within its interval."""
        up_to = np.maximum.accumulate([0.0, *(min(max(one.estimate, 0.0), 1.0) for one in self._below), 1.0])
        found = []
        for share in self._shares:
            low, high = self._inside(share, 0.95, sampled=False)
            found.append(min(max(float(np.interp(share, up_to, self.edges)), low), high))
        return found

    @property
    def estimate(self) -> Any:
        """The quantiles, one for each probability."""
        return np.array(self._found) if isinstance(self.probabilities, tuple) else self._found[0]

    @property
    def standard_error(self) -> Any:
        """A quarter of the 95 % interval's width or so: its width over 3.92 (Woodruff)."""
        low, high = self.population_interval()
        return (high - low) / 3.92

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The quantiles, then respondents and what their weights are like."""
        found = []
        for share, value in zip(self._shares, self._found, strict=True):
            noise, both = (Interval(*self._inside(share, 0.95, sampled=one), 0.95) for one in (False, True))
            found.append(
                Reading(
                    f"{100 * share:g} %", value, noise, both, labels={"probability": share}, measure="quantile",
                    standard_error=float(both.high - both.low) / 3.92,
                )
            )  # fmt: skip
        whole = self._below[0]
        told = {
            "respondents": max(round(float(whole.sum("n").sum())), 0), "effective respondents": whole.effective,
            "design effect": whole.design_effect,
        }  # fmt: skip
        return [*found, *(Reading("", value, measure=name) for name, value in told.items())]

    @property
    def _title(self) -> str:
        *by, binned = self.release.grouping.by
        told = f" by {', '.join(by)}" if by else ""
        return f"Quantiles of {binned.removesuffix(IN_BINS)}{told}"


@dataclass(frozen=True)
class QuantilesOfGroups(DesignQuantiles):
    """Quantiles of every group; ``found["A"]`` are those of one of them.

    Examples
    --------
    >>> import pyarrow
    >>> from discreet import Bounds, Categories, Design, PureDP, Schema, Session
    >>> rows = pyarrow.table({"w": [1.0, 3.0] * 1000, "y": [20.0, 60.0] * 1000, "g": ["a", "b"] * 1000})
    >>> columns = {"y": Bounds(0, 100, grid=1), "g": Categories(["a", "b"])}
    >>> schema = Schema(columns=columns, design=Design(weight="w", weight_high=4))
    >>> found = Session(rows, schema, ledger=":memory:", budget=PureDP(5.0)).median("y", by="g", epsilon=5.0)
    >>> 15 < found["a"].estimate < 25, 55 < found["b"].estimate < 65
    (True, True)
    """

    def labels(self) -> tuple[Any, ...]:
        """Labels of the groups: single ones for one column, tuples for several."""
        found = [label[:-1] for label in self.release.labels()[:: self._bins]]
        return tuple(label[0] if len(label) == 1 else label for label in found)

    def __getitem__(self, label: Any) -> DesignQuantiles:
        return DesignQuantiles(self.release, self.edges, self.probabilities, place_of(label, self.labels()))

    def items(self) -> list[tuple[Any, DesignQuantiles]]:
        """Labels with their quantiles."""
        return [(label, self[label]) for label in self.labels()]

    @property
    def estimate(self) -> dict[Any, Any]:
        """The quantiles, by group."""
        return {label: one.estimate for label, one in self.items()}

    @property
    def standard_error(self) -> dict[Any, Any]:
        """Their standard errors, by group."""
        return {label: one.standard_error for label, one in self.items()}

    def _interval(self, level: float, *, sampled: bool) -> Interval:
        return intervals_by({label: one._interval(level, sampled=sampled) for label, one in self.items()})

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """Those of every group, under its labels."""
        by = [*self.release.grouping.by][:-1]
        return [
            replace(
                part, label=joined(label, part.label),
                labels=dict(zip(by, label if len(by) > 1 else (label,), strict=True)) | dict(part.labels),
            )
            for label, one in self.items()
            for part in one.readings()
        ]  # fmt: skip


@dataclass(frozen=True)
class QuantileQuestion(MeasuredQuestion[QuantileRelease]):
    """Quantiles of a column, in all or by group, with intervals unless ``interval`` is None or they are recursive.

    Guarantee
    ---------
    As `Quantiles`, for the rows that a unit keeps. Proof: ``docs/proofs/quantile.md``.

    Examples
    --------
    >>> from discreet import Bounds, Schema
    >>> schema = Schema(columns={"age": Bounds(0, 120, grid=1)})
    >>> QuantileQuestion(schema, "age", 0.5, epsilon=1.0).plan().error_95 < 30  # in ranks, of an interval's ends
    True
    >>> alone = QuantileQuestion(schema, "age", 0.5, epsilon=1.0, interval=None).plan()
    >>> alone.error_95 <= round(alone.worst_error)
    True
    """

    topic: ClassVar[str] = "Numbers"
    answers: ClassVar[str] = "Which values have a quarter, a half, nine tenths of the rows below them?"
    ask: ClassVar[str] = "quantile"
    under_design: ClassVar[bool] = True
    also: ClassVar[tuple[str, ...]] = ("percentile", "quantiles", "percentiles")
    heading: ClassVar[str] = "Quantiles of {subject}"
    meaning: ClassVar[str] = "The value of {subject} below which this share of {noun} lies."
    forms: ClassVar[form.Forms] = {
        "column": form.COLUMN,
        "probabilities": form.PROBABILITIES,
        "by": form.COLUMNS,
        "interval": form.LEVEL,
        "rows_at_least": form.WHOLE,
        "recursive": form.FLAG,
        "expected_rows": form.WHOLE,
    }
    column: str
    probabilities: float | Sequence[float]
    _: KW_ONLY
    by: str | Sequence[str] = ()
    interval: float | None = _LEVEL
    rows_at_least: int | None = None
    recursive: bool = False
    contribution: Contribution | None = None
    expected_rows: int | None = None
    _binned: str = field(default="", init=False, repr=False, compare=False)

    def __post_init__(self, epsilon: float | None, delta: float | None, rho: float | None, mu: float | None) -> None:
        if self.schema.design is not None:
            schema, binned = in_bins(self.schema, self.column)
            object.__setattr__(self, "schema", schema)
            object.__setattr__(self, "_binned", binned)
        super().__post_init__(epsilon, delta, rho, mu)

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return {**columns.number(), "probabilities": [0.25, 0.5, 0.75]}

    def _measured(self) -> Measurement:
        requirements.instance("recursive", self.recursive, bool, "recursive=True or False")
        by = column_names(self.by)
        if self.schema.design is not None:
            no_design_for(self, "contribution", "recursive", "rows_at_least", interval=_LEVEL)
            return self._of_design(by)
        limits = self.schema.contribution(self.contribution)
        level, least = self._level(), self._independent_rows(limits)
        groups = self.schema.cells(by, "by")
        most = MOST_POINTS if level is None else _MOST_COUNTED // groups
        bounds, coarse = _coarsened(self.schema.bounds(self.column), most)
        statistic = Quantiles(
            probabilities=self._shares(),
            bounds=bounds,
            interval=level,
            rows_at_least=least,
            recursive=self.recursive,
            rows_per_unit=1 if least is None else limits.most_rows(1),
        )
        sensitivity = statistic.sensitivity(
            neighbours=self.schema.neighbours, rows_per_unit=limits.most_rows(groups), grouped=bool(by)
        )

        def value(found: Histograms) -> Any:
            return stacked([statistic.whole((steps + coarse // 2) // coarse, rows) for steps, rows in found], bounds)

        mechanism = statistic.mechanism(self.guarantee, sensitivity, groups)
        told = self.schema.size or self.rows_at_least if self.expected_rows is None else self.expected_rows
        rows = max(1, round(Expected(rows=told).rows_per_group(groups)))
        return Measurement(
            statistic=self.grouped(statistic, by),
            sensitivity=sensitivity,
            mechanism=mechanism,
            by=by,
            columns=(self.column,),
            contribution=self.contribution,
            public={},
            from_histograms=value,
            read="ranks" if statistic.interval is None else "ranks to interval's end",
            forecast=lambda: Forecast(
                error=partial(typical_ranks, mechanism, statistic.shares, rows),
                bound=mechanism.rank_error if isinstance(mechanism, QuantileChoice) else None,
                scenario=Expected(rows=rows * groups).words(groups),
            ),
        )

    @property
    def _alone(self) -> Quantiles:
        """The quantiles themselves, checked."""
        return Quantiles(
            probabilities=self._shares(), bounds=_coarsened(self.schema.bounds(self.column), MOST_POINTS)[0]
        )

    def _of_design(self, by: tuple[str, ...]) -> Measurement:
        """The weights in bins of every group, which every quantile is read from."""
        self._alone  # noqa: B018  (refuses what is no probability)
        found = design_measurement(
            self, "estimated count", (*by, self._binned), read="the number in the population", people=False
        )
        groups = self.schema.cells(by, "by")
        rows = Expected(rows=self.expected_rows).rows_per_group(groups)
        heavy, share = likely_weights(cast(Any, self.schema.design))
        mean = heavy * share
        # At the middle half of the bins are added up; noise in their weight, in rows of the mean weight.
        cells = self.schema.cells((self._binned,))
        middle = math.sqrt(cells) / 2

        def forecast() -> Forecast:
            whole = found.forecast()
            weights = tuple(middle * one / mean for one in whole.weights)
            each = " per group" if by else ""
            return Forecast(weights=weights, scenario=f"{rows:,.0f} rows{each} with weights alike, at the median")

        return replace(found, read="ranks", forecast=forecast)

    def answer_of(self, release: Any) -> QuantileRelease:
        """The quantiles of a release: under a design they are read from weights in bins."""
        if self.schema.design is None:
            return cast(QuantileRelease, release)
        bands = cast(Bands, self.schema.column(self._binned))
        shares = tuple(float(share) for share in self._alone.shares)
        asked = shares if isinstance(self._alone.probabilities, tuple) else shares[0]
        kind = QuantilesOfGroups if self.by else DesignQuantiles
        return cast(QuantileRelease, kind(release, tuple(bands.edges), asked))

    def heading_words(self, words: Mapping[str, str]) -> str:
        told, shares = super().heading_words(words), np.atleast_1d(self._shares()).tolist()
        named = "Median" if shares == [0.5] else f"{100 * shares[0]:.4g} % quantile of"
        return told.replace("Quantiles of", named, 1) if len(shares) == 1 else told

    def meaning_words(self, words: Mapping[str, str]) -> str:
        subject = self.subject_words(words)
        shares = np.atleast_1d(self._shares()).tolist()
        if shares == [0.5] and self.schema.design is None:
            return f"The median of {subject}."
        told = ", ".join(f"{100 * one:.4g} %" for one in shares)
        if self.schema.design is not None:
            return f"Values of {subject} below which {told} of the population lie. {ESTIMATED}"
        return f"Values of {subject} below which {told} of {self.noun_words(words)} lie."

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
        """The number of rows to count on: at the worst, k rows of a unit tell no more of the population than one."""
        if self.rows_at_least is None:
            return None
        rows = requirements.positive_integer("rows_at_least", self.rows_at_least)
        return max(1, rows // limits.most_rows(1))


def _coarsened(bounds: Bounds, most: int) -> tuple[Bounds, int]:
    """The column's grid, or the finest multiple of it with few enough points to weigh each."""
    coarse = 1
    while (bounds.highest - bounds.lowest) // coarse >= most:
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


@dataclass(frozen=True)
class MedianQuestion(QuantileQuestion):
    """Median of a column, in all or by group: a quantile of one half.

    Examples
    --------
    >>> from discreet import Bounds, Schema
    >>> schema = Schema(columns={"age": Bounds(0, 120, grid=1)})
    >>> MedianQuestion(schema, "age", epsilon=1.0).probabilities
    0.5
    """

    heading: ClassVar[str] = "Median {subject}"
    topic: ClassVar[str] = "Numbers"
    answers: ClassVar[str] = "Which value has half of the rows below it?"
    forms: ClassVar[form.Forms] = {
        name: form for name, form in QuantileQuestion.forms.items() if name != "probabilities"
    }
    probabilities: float | Sequence[float] = field(default=0.5, init=False)

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return columns.number()
