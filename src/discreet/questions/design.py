"""Design: estimates about the population that rows were sampled from, with weights, strata and clusters.

A unit with a weight and a value is split into parts that are not negative and add up to one, so one release knows the
estimate, its design-based variance, the number of respondents and that of trimmed weights. Proof:
``docs/proofs/weights.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeVar, cast, get_args

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.columns import Bands
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import is_pure
from discreet.core.numbers import decimal
from discreet.core.protection import Neighbours
from discreet.core.rows import DesignTotals, Snapshot, design_totals
from discreet.core.schema import Contribution, Design, Schema, in_parts
from discreet.core.sensitivity import Sensitivity
from discreet.inference.design import DesignCells, DesignMoments, inner_degree, measured_moments, squared_moments
from discreet.inference.noise import combined_error, excess_kurtosis, largest_variance, solved
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.gaussian import Gaussian
from discreet.questions.formulas import Formula
from discreet.questions.grouped import Grouped, GroupedRelease, public_bins
from discreet.questions.moments import part_weights, weighed_sensitivity
from discreet.questions.question import (
    DEFAULT_ROWS,
    Forecast,
    Measurement,
    column_names,
    fractions,
)
from discreet.results.answer import FromRelease
from discreet.results.display import Facts, Interval, number
from discreet.results.frames import Reading, Row
from discreet.results.printed import told_numbers
from discreet.results.release import Release, Statistic
from discreet.results.wording import pvalue_equation

A = TypeVar("A")
Estimated = Literal["mean", "proportion", "variance", "standard deviation", "estimated total", "estimated count"]
_FACTORS = {
    1.0: (Fraction(5, 2), Fraction(4)), 1.5: (Fraction(71, 20), Fraction(12)), 2.0: (Fraction(187, 50), Fraction(1)),
}  # fmt: skip
"""By how often u(1 − u) counts: what it is multiplied by for Gaussian noise in all, and the part of trimmed weights."""
_SPARE = 20
"""Weights that are trimmed leave one part in so many of themselves to be told from others."""


@dataclass(frozen=True, kw_only=True)
class DesignParts(Statistic):
    """Totals by stratum of the parts of units with a weight w and a value y, scaled to u = w/top and [0, 1].

    Parts of a unit: u²·bⱼ(y) and c·u(1 − u)·bⱼ(y), in Bernstein polynomials, and what is left of 1, in one place where
    its weight was trimmed and in another where it was not.

    Guarantee
    ---------
    The parts of a unit are not negative and add up to at most 1, in all strata and groups together: add/remove moves
    them by at most 1 in ℓ₁ and ℓ₂, replace-one by at most 2 and √2. Proof: ``docs/proofs/weights.md``.

    Parameters
    ----------
    of
        What is estimated.
    bounds
        Bounds of the value; none where weights alone are added up.
    weight_high, top
        The largest weight that counts, and the weight at u = 1, which is larger where trimmed weights are told.
    strata, population
        Labels of the strata, and how many of the population are in each, where that is public.
    whole
        Whether all sampled rows are there, or a filter took some away.
    clusters
        Whether units are clusters, whose mean of yes and no is neither.
    weighed
        Whether inner parts are multiplied by weights for Gaussian noise.
    inner
        How often u(1 − u) counts, c: 2, and 1.5 where trimmed weights are told; once in clusters.

    Examples
    --------
    >>> people = DesignParts(of="mean", bounds=(0, 10), weight_high=200, top=210)
    >>> people.size, people.sensitivity(neighbours=Neighbours.ADD_REMOVE).l1
    (7, 1.0)
    """

    name: ClassVar[str] = "design_parts"
    of: Estimated
    bounds: tuple[float, ...] = ()
    weight_high: float
    top: float
    strata: tuple[Any, ...] = ()
    population: tuple[float, ...] = ()
    whole: bool = True
    clusters: bool = False
    weighed: bool = False
    inner: float = 1.0

    def __post_init__(self) -> None:
        if requirements.positive("inner", self.inner) not in _FACTORS or (self.clusters and self.inner != 1):
            raise InvalidParameter("inner", self.inner, f"must be one of {[*_FACTORS]}, and 1 in clusters", "Pass 1.0.")
        requirements.one_of("of", self.of, get_args(Estimated), 'Write "mean".')
        for name in ("bounds", "strata", "population"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def release_type(self) -> type[Release]:
        return DesignRelease

    @property
    def title(self) -> str:
        return self.of

    @property
    def degree(self) -> int:
        """Degree of the parts of the value: two tell the variance of a mean, of yes and no one does."""
        if self.squared:
            return 4
        return 0 if not self.bounds else 1 if self.of == "proportion" and not self.clusters else 2

    @property
    def squared(self) -> bool:
        """True where squared distances from the mean are averaged."""
        return self.of in ("variance", "standard deviation")

    @property
    def total(self) -> bool:
        """True where weighted values are added up instead of averaged."""
        return self.of in ("estimated total", "estimated count")

    @property
    def trims(self) -> bool:
        """True where trimmed weights are told."""
        return self.top > self.weight_high

    @cached_property
    def moments(self) -> dict[str, NDArray[np.float64]]:
        """What the parts of a stratum are weighted by to give each moment, as `measured_moments`."""
        found = measured_moments(self.degree, self.inner)
        return found if self.trims else {name: weights[:-1] for name, weights in found.items()}

    @property
    def parts(self) -> int:
        """Number of parts of one stratum."""
        return len(self.moments["n"])

    @property
    def size(self) -> int:
        """Number of totals."""
        return self.parts * max(1, len(self.strata))

    @property
    def multiplied(self) -> tuple[Fraction, ...]:
        """The factor of each part of a stratum before noise is added: all 1 but for Gaussian noise."""
        if not self.weighed:
            return (Fraction(1),) * self.parts
        whole, factor = _FACTORS[self.inner]
        u = decimal(self.weight_high) / decimal(self.top)
        left = 1 - u if self.inner == 1 else 1 - u**4 - (whole * u * (1 - u)) ** 2
        small = (factor * self.left_of_trimmed) ** 2 <= left
        trimmed = (factor if small else Fraction(1),) if self.trims else ()
        inner = (whole / Fraction(self.inner),) * (inner_degree(self.degree) + 1)
        return (*part_weights(self.degree), *inner, Fraction(1), *trimmed)

    @property
    def left_of_trimmed(self) -> Fraction:
        """What is left of 1 where a weight was trimmed, (1 − u)(1 − (c − 1)u)."""
        u = decimal(self.weight_high) / decimal(self.top)
        return (1 - u) * (1 - (Fraction(self.inner) - 1) * u)

    def sensitivity(self, *, neighbours: Neighbours) -> Sensitivity:
        """The distance by which one unit moves the totals."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        return self.moved(1, neighbours)

    def moved(self, groups: int, neighbours: Neighbours) -> Sensitivity:
        """The same for the totals of several groups together."""
        moved = in_parts(Contribution(total=1), groups, self.size, neighbours)
        return weighed_sensitivity(moved, self.multiplied) if self.weighed else moved

    @property
    def powers(self) -> tuple[tuple[int, int], ...]:
        """Powers of weight and value whose sums the totals are made of."""
        firsts = [(1, q) for q in range(inner_degree(self.degree) + 1)]
        return (*firsts, *((2, q) for q in range(self.degree + 1)))

    def of_totals(self, found: DesignTotals, cell: int, top: int) -> list[Fraction]:
        """The parts of one cell, from exact sums of grid steps. Private."""
        own = {(p, q): Fraction(int(found.sums[p, q][cell]), top**p * found.reach**q) for p, q in self.powers}
        inner = inner_degree(self.degree)
        seconds = _bernstein([own[2, q] for q in range(self.degree + 1)])
        times = Fraction(self.inner)
        firsts = [times * one for one in _bernstein([own[1, q] - own[2, q] for q in range(inner + 1)])]
        left, trimmed = (Fraction(int(one[cell]), top) for one in (found.left, found.trimmed))
        of_trimmed = trimmed * decimal(self.weight_high) / decimal(self.top)  # u(1 − u), added up
        left -= (times - 1) * (own[1, 0] - own[2, 0] - of_trimmed)
        trimmed -= (times - 1) * of_trimmed
        parts = [*seconds, *firsts, left, trimmed] if self.trims else [*seconds, *firsts, left]
        return [factor * part for factor, part in zip(self.multiplied, parts, strict=True)]

    def shared(self, values: Any) -> Mapping[str, Any]:
        whole = np.asarray(values, dtype=float).reshape(-1, self.size)
        return {"everybody": whole.sum(axis=0).tolist(), "groups": len(whole)}


def _bernstein(powers: Sequence[Fraction]) -> list[Fraction]:
    """Sums of the Bernstein polynomials of y, from those of its powers.

    Examples
    --------
    >>> [str(one) for one in _bernstein([Fraction(1), Fraction(1, 2), Fraction(1, 4)])]  # of y = 1/2
    ['1/4', '1/2', '1/4']
    """
    d = len(powers) - 1
    return [
        sum((math.comb(d, j) * math.comb(d - j, i) * (-1) ** i * powers[j + i] for i in range(d - j + 1)), Fraction(0))
        for j in range(d + 1)
    ]


@dataclass(frozen=True)
class DesignRelease(Release):
    """Noisy parts of weights and values, and the estimate about the population that is read from them.

    Intervals are of what was asked for. The standard error counts sampling and noise.
    """

    @property
    def _of(self) -> DesignParts:
        return cast(DesignParts, self.statistic)

    @cached_property
    def moments(self) -> DesignMoments:
        """The parts as moments of weights and values, with the distribution of their noise.

        For a variance the value is the squared distance from the mean, over the largest.
        """
        if not self._of.squared:
            return self._of_values
        moments, _ = squared_moments(self._of_values.moments, self._of_values.estimate)
        return replace(self._of_values, moments=moments)

    @cached_property
    def _of_values(self) -> DesignMoments:
        """The moments of values as they are."""
        of = self._of
        factors = np.array([float(one) for one in of.multiplied])
        parts = np.asarray(self.value, dtype=float).reshape(-1, of.parts) / factors
        everybody = self.public.get("everybody")
        low, high = of.bounds or (1.0, 1.0)
        return DesignMoments(
            parts=parts,
            everybody=parts if everybody is None else np.asarray(everybody).reshape(-1, of.parts) / factors,
            groups=self.public.get("groups", 1),
            moments=of.moments,
            noise=self._summed * largest_variance(self.mechanism) / factors**2,
            kurtosis=excess_kurtosis(self.mechanism.law(0.0)),
            total=of.total,
            ends=(low, high),
            people=np.array(of.population) if of.population else None,
            top=of.top,
            whole=of.whole,
        )

    @property
    def _summed(self) -> int:
        """How many cells of a table were added up, each with its noise."""
        return int(self.public.get("summed", 1))

    def _shown(self, value: float) -> float:
        """A share of the bounds, or a total of shares of the largest weight, in the unit of the answer."""
        if self._of.total:
            return value * self._of.top
        low, high = self._of.bounds
        if self._of.squared:
            found = (high - low) ** 2 * max(value, 0.0)
            return found if self._of.of == "variance" else math.sqrt(found)
        return low + (high - low) * value

    @cached_property
    def _squares(self) -> float:
        """What the mean of scaled squares is multiplied by, to be a variance of scaled values."""
        _, largest = squared_moments(self._of_values.moments, self._of_values.estimate)
        units = max(float(self._of_values.sum("n").sum()), 2.0)
        return largest * units / (units - 1)

    def _spread_between(self, found: Interval) -> Interval:
        """The same for a variance, with what an estimated mean may hide."""
        values = self._of_values
        z = -float(scipy.special.ndtri((1 - found.level) / 2))
        hidden = (z * values.noise_error) ** 2 + values.error**2
        low, high = (self._squares * float(end) for end in found)
        return Interval(self._shown(low), self._shown(min(high + hidden, 0.5)), found.level)

    def _between(self, found: Interval) -> Interval:
        if self._of.squared:
            return self._spread_between(found)
        low, high = (self._shown(float(end)) for end in found)
        never_negative = self._of.total and min(self.moments.ends) >= 0
        return Interval(max(low, 0.0) if never_negative else low, high, found.level)

    @property
    def estimate(self) -> float:
        """The estimate about the population."""
        found = self._shown(self.moments.estimate * (self._squares if self._of.squared else 1.0))
        return max(found, 0.0) if self._of.total and min(self.moments.ends) >= 0 else found

    @property
    def mean(self) -> float:
        """The estimated mean, where one was asked for."""
        if self._of.total:
            raise AttributeError(f"{self._of.of} was asked for, not a mean.")
        low, high = self._of.bounds
        return low + (high - low) * self._of_values.estimate

    @property
    def standard_error(self) -> float:
        """Of the estimate, by sampling and noise together."""
        if not self._of.squared:
            return self._scale * self.moments.error
        found = self._scale**2 * self._squares * self.moments.error
        if self._of.of == "variance":
            return found
        # |√a − √b| is at most |a − b|/√a, and √|a − b|
        return found / (2 * self.estimate) if 4 * self.estimate**2 > found else math.sqrt(found)

    @property
    def coefficient_of_variation(self) -> float:
        """The standard error over the estimate."""
        return self.standard_error / abs(self.estimate) if self.estimate else math.inf

    @property
    def count(self) -> float:
        """The noisy number of sampled units that took part, as `respondents`."""
        return self.respondents

    @property
    def respondents(self) -> float:
        """The noisy number of sampled units that took part."""
        return float(self.moments.parts.sum(axis=0) @ self._of.moments["n"])

    @property
    def effective_respondents(self) -> float:
        """Kish's effective sample size, (Σw)²/Σw²."""
        return self.moments.effective

    @property
    def design_effect(self) -> float:
        """Kish's design effect: by how much unequal weights multiply the variance of a mean."""
        return self.moments.design_effect

    @property
    def trimmed(self) -> float | None:
        """The noisy number of weights that were moved down to the largest; None where the bounds allow no larger."""
        if not self._of.trims:
            return None
        return float(self.moments.parts[:, -1].sum()) / float(self._of.left_of_trimmed)

    def noise_interval(self, level: float = 0.95) -> Interval:
        """Interval for the estimate without noise; privacy noise only."""
        return self._between(self.moments.interval(level, sampled=False))

    def population_interval(self, level: float = 0.95) -> Interval:
        """Design-based interval for the population: sampling and noise together."""
        return self._between(self.moments.interval(level))

    def difference_interval(self, other: DesignRelease, level: float = 0.95) -> Interval:
        """Design-based interval for this estimate less that of another group of the same release.

        From the intervals of both, on each side (MOVER): the errors of means are independent where units are rows, or
        strata make the difference more exact than that. In clusters, with public strata, and for totals they depend on
        each other: there the distances to the ends add up, which holds for any dependence.

        Examples
        --------
        >>> import pyarrow
        >>> from discreet import Bounds, Categories, PureDP, Session
        >>> rows = pyarrow.table({"w": [2.0] * 2000, "y": [3.0, 7.0] * 1000, "arm": ["A", "B"] * 1000})
        >>> columns = {"y": Bounds(0, 10, grid=1), "arm": Categories(["A", "B"])}
        >>> schema = Schema(columns=columns, design=Design(weight="w", weight_high=4))
        >>> by_arm = Session(rows, schema, ledger=":memory:", budget=PureDP(5.0)).mean("y", by="arm", epsilon=5.0)
        >>> 3.5 < by_arm["B"].difference_interval(by_arm["A"]).low < 4
        True
        """
        if self.release_id != other.release_id or self._of != other._of:
            raise InvalidParameter("other", other.release_id[:8], "is no group of the same release", "Ask by=….")
        if self._of.squared:
            raise InvalidParameter("difference", self._of.of, "has no interval here", "Compare means or shares.")
        apart = self.apart
        # without what strata take off each of them, the variances of both bound that of the difference
        mine, others = (
            (replace(one.moments, whole=False) if apart else one.moments).interval(level) for one in (self, other)
        )
        first, second = self.moments.estimate, other.moments.estimate
        together = math.hypot if apart else lambda *distances: sum(distances)
        below = together(first - float(mine.low), float(others.high) - second)
        above = together(float(mine.high) - first, second - float(others.low))
        return Interval(self._scale * (first - second - below), self._scale * (first - second + above), level)

    @property
    def apart(self) -> bool:
        """True where the errors of groups are independent, or strata make differences more exact than that."""
        return not (self._of.total or self._of.clusters or self._of.population)

    @property
    def _scale(self) -> float:
        """The width of the bounds, or the largest weight, in the unit of the answer."""
        return self._of.top if self._of.total else self._of.bounds[1] - self._of.bounds[0]

    def _counted(self, weights: ArrayLike, scale: float = 1.0) -> Interval:
        """Interval for a number of units in the data."""
        factors = np.array([float(one) for one in self._of.multiplied])
        found = scale * float(self.moments.parts.sum(axis=0) @ np.asarray(weights))
        used = np.tile(np.asarray(weights) / factors, self._summed * len(self.moments.parts))
        reach = scale * combined_error(self.mechanism, used, 0.95)
        return Interval(float(max(math.floor(found - reach), 0)), float(max(math.ceil(found + reach), 0)), 0.95)

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The estimate with both intervals, then respondents, effective ones and the design effect of weights."""
        asked = Reading(
            "", self.estimate, self.noise_interval(), self.population_interval(), measure=self._of.of,
            standard_error=self.standard_error,
        )  # fmt: skip
        respondents = max(round(self.respondents), 0)
        variation = self.coefficient_of_variation
        found = [
            asked,
            *([Reading("", variation, measure="coefficient of variation")] if math.isfinite(variation) else []),
            Reading("", respondents, self._counted(self._of.moments["n"]), measure="respondents"),
            Reading("", self.effective_respondents, measure="effective respondents"),
            Reading("", self.design_effect, measure="design effect"),
        ]
        if self.trimmed is None:
            return found
        last = [0.0] * (self._of.parts - 1) + [1.0]
        interval = self._counted(last, 1 / float(self._of.left_of_trimmed))
        return [*found, Reading("", max(round(self.trimmed), 0), interval, measure="trimmed weights")]

    def facts(self) -> Facts:
        """The facts to show: the estimate, its intervals and error, and what the weights are like."""
        trimmed = self.trimmed
        return [
            *told_numbers([self.readings()[0].to_dict()]),
            ("standard error", f"{number(self.standard_error)}, sampling and noise"),
            ("coefficient of variation", f"{100 * self.coefficient_of_variation:.1f} %"),
            ("respondents", number(max(round(self.respondents), 0))),
            ("effective respondents", f"{self.effective_respondents:,.0f}, design effect {self.design_effect:.2f}"),
            *([] if trimmed is None else [("trimmed weights", number(max(round(trimmed), 0)))]),
            *self.protection_facts(),
        ]


@dataclass(frozen=True)
class DesignComparison(FromRelease):
    """The difference of two groups' means under a design, with the release that it is read from.

    Examples
    --------
    >>> import pyarrow
    >>> from discreet import Bounds, Categories, PureDP, Session
    >>> rows = pyarrow.table({"w": [2.0] * 2000, "y": [3.0, 7.0] * 1000, "arm": ["A", "B"] * 1000})
    >>> columns = {"y": Bounds(0, 10, grid=1), "arm": Categories(["A", "B"])}
    >>> schema = Schema(columns=columns, design=Design(weight="w", weight_high=4))
    >>> found = Session(rows, schema, ledger=":memory:", budget=PureDP(5.0)).compare_means("y", by="arm", epsilon=5.0)
    >>> 3.5 < found.estimate < 4.5, found.pvalue < 1e-6
    (True, True)
    """

    release: GroupedRelease[DesignRelease]

    @cached_property
    def _arms(self) -> tuple[DesignRelease, DesignRelease]:
        (_, control), (_, treatment) = self.release.items()
        return control, treatment

    @property
    def estimate(self) -> float:
        """The mean of the second group less that of the first."""
        control, treatment = self._arms
        return treatment.estimate - control.estimate

    @property
    def standard_error(self) -> float:
        """By sampling and noise together; the most where the errors of both groups depend on each other."""
        errors = [arm.standard_error for arm in self._arms]
        return math.hypot(*errors) if self._arms[0].apart else sum(errors)

    def population_interval(self, level: float = 0.95) -> Interval:
        """Design-based interval for the difference in the population."""
        control, treatment = self._arms
        return treatment.difference_interval(control, level)

    @cached_property
    def pvalue(self) -> float:
        """One less the level up to which intervals exclude 0: two-sided, of equal means in the population."""

        def inside(digits: float) -> float:
            return float(self.population_interval(1 - 10.0**-digits).contains(0.0))

        return float(10.0 ** -solved(inside, 1.0, most=12.0, halvings=40))

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The difference, then each group's mean with what its weights are like."""
        control, treatment = self.release.labels()
        difference = Reading(
            f"{treatment} − {control}", self.estimate, population=self.population_interval(),
            labels={"treatment": treatment, "control": control}, measure="difference of means",
            standard_error=self.standard_error, pvalue=self.pvalue,
        )  # fmt: skip
        return [difference, *self.release.readings()]

    def verdict(self) -> Mapping[str, Any]:
        return {"test": "equal means", "pvalue": self.pvalue}

    @property
    def _title(self) -> str:
        return f"Difference of means by {', '.join(self.release.grouping.by)}"

    def facts(self) -> Facts:
        difference = told_numbers([self.readings()[0].to_dict()])
        return [*difference, ("equal means", pvalue_equation(self.pvalue)), *self.release.facts()]


@dataclass(frozen=True)
class DesignTables(FromRelease):
    """Estimated people in several tables, all of them margins of one: so they add up.

    Parameters
    ----------
    release
        The table by all columns.
    tables
        The columns of each table that was asked for.

    Examples
    --------
    >>> import pyarrow
    >>> from discreet import Categories, PureDP, Session
    >>> rows = pyarrow.table({"w": [1.0, 3.0] * 1000, "g": ["a", "b"] * 1000, "h": ["u", "u", "v", "v"] * 500})
    >>> columns = {"g": Categories(["a", "b"]), "h": Categories(["u", "v"])}
    >>> schema = Schema(columns=columns, design=Design(weight="w", weight_high=4))
    >>> session = Session(rows, schema, ledger=":memory:", budget=PureDP(5.0))
    >>> found = session.tables([["g"], ["g", "h"]], epsilon=5.0)
    >>> 2900 < found.table("g")["b"].estimate < 3100
    True
    """

    release: GroupedRelease[DesignRelease]
    tables: tuple[tuple[str, ...], ...]

    def table(self, *columns: str) -> GroupedRelease[DesignRelease]:
        """The table by these columns, whose cells are sums of those of the whole."""
        by = self.release.grouping.by
        columns = column_names(columns[0] if len(columns) == 1 else columns, "columns")
        if not columns or not {*columns} <= {*by}:
            raise InvalidParameter("columns", columns, f"must be some of {list(by)}", 'Pass table("sex"), for example.')
        if columns == tuple(by):
            return self.release
        sizes = [len(labels) for labels in by.values()]
        parts = np.asarray(self.release.value, dtype=float).reshape(*sizes, -1)
        over = tuple(place for place, name in enumerate(by) if name not in columns)
        kept = [name for name in by if name in columns]
        whole = np.moveaxis(parts.sum(axis=over), [kept.index(name) for name in columns], range(len(columns)))
        grouping = replace(self.release.grouping, by={name: by[name] for name in columns})
        added = math.prod(sizes[place] for place in over)
        return replace(
            self.release, value=whole.ravel(), statistic=grouping, public={**self.release.public, "summed": added}
        )

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The cells of every table that was asked for."""
        return [one for names in self.tables for one in self.table(*names).readings()]

    @property
    def _title(self) -> str:
        return f"Estimated counts by {', '.join(self.release.grouping.by)}"


_BINS = 64
"""Bins of equal width between which quantiles are found, where the grid has as many steps."""

IN_BINS = ", in bins"


def in_bins(schema: Schema, column: str, edges: int | Sequence[float] | None = None) -> tuple[Schema, str]:
    """The schema with a number's bins as labels, by which a design adds weights up, and the name of that column."""
    bounds = schema.bounds(column)
    name = "edges" if isinstance(edges, Sequence) else "bins"
    bins = public_bins(name, bounds, min(_BINS, bounds.cells - 1) if edges is None else edges)
    labels = [str(one) for one in bins.names()]
    if len(labels) < 2:
        raise InvalidParameter(name, edges, "must make at least two bins", "Pass bins=10, or three edges.")
    bands = Bands(edges=bins.edges, labels=labels, value=Formula(f"`{column}`"))
    return replace(schema, columns={**schema.columns, column + IN_BINS: bands}), column + IN_BINS


def cells_of(release: GroupedRelease[DesignRelease]) -> DesignCells:
    """The cells of a table that was estimated under a design."""
    every = [part.moments for _, part in release.items()]
    first = every[0]
    factors = [float(one) for one in cast(DesignParts, release.grouping.of).multiplied]
    used = first.moments["u"] / np.array(factors)
    scale, factor = first.scale, first.factor
    law = release.mechanism.law(0.0)

    def noise(size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        found = np.zeros((size, len(every)))
        for stratum in scale:  # one part at a time: tables may have thousands of cells
            for weight in used[used != 0]:
                found += stratum * weight * law.sample((size, len(every)), rng=rng)
        return found

    return DesignCells(
        weights=np.array([float(one.scale @ one.sum("u")) for one in every]),
        squares=np.array([float(one.factor @ one.sum("uu")) for one in every]),
        deviations=(
            float(np.linalg.norm(scale)) * first.deviation("u"), float(np.linalg.norm(factor)) * first.deviation("uu")
        ),
        noise=noise,
        respondents=max(sum(float(one.sum("n").sum()) for one in every), 0.0),
    )  # fmt: skip


# ---- Measurement


def trim_steps(schema: Schema) -> tuple[int, int]:
    """In grid steps of the weight, the largest that counts and the one at u = 1.

    Examples
    --------
    >>> trim_steps(Schema(columns={}, design=Design(weight="w", weight_high=300)))
    (3000, 3150)
    """
    design = cast(Design, schema.design)
    weights = schema.bounds(design.weight)
    trim = int(decimal(design.weight_high) / weights.step)
    told = schema.unit.column is not None or weights.highest > trim
    return trim, trim + -(-trim // _SPARE) if told else trim


def design_measurement(
    question: Any,
    of: Estimated,
    by: tuple[str, ...],
    *,
    value: str | None = None,
    label: int | None = None,
    expected_rows: int | None = None,
    read: str,
    people: bool = True,
) -> Measurement:
    """The measurement of an estimate about the population.

    Parameters
    ----------
    question, of, by
        What is asked, what is estimated, and columns of labels to group by.
    value, label
        The column that is weighed, if any, and the code of the label whose share is asked for.
    expected_rows, read
        What a plan is told to expect, and what people read from the release.
    people
        Whether numbers of people are read from counts, and not shares of them.
    """
    schema: Schema = question.schema
    design = cast(Design, schema.design)
    trim, top = trim_steps(schema)
    weights = schema.bounds(design.weight)
    if value is not None and value in (design.weight, design.strata):
        raise InvalidParameter("column", value, "is what the design is made of", "Ask about another column.")
    if design.population and design.strata in by and people and of in ("estimated total", "estimated count"):
        fix = "Ask for the mean or proportion by stratum, and multiply it with the stratum's population."
        raise InvalidParameter("by", by, "holds the strata, whose populations are public", fix)
    strata = () if design.strata is None or design.strata in by else (design.strata,)
    labels = schema.categories(strata[0]).labels if strata else ()
    if schema.where is not None and design.population:
        rule = "leaves a part of the population, whose total is not known"
        raise InvalidParameter("where", schema.where.text, rule, "Ask by groups, or leave design.population out.")
    if of == "estimated count" and design.population and not by and people:
        rule = "says already how many there are"
        raise InvalidParameter("design.population", dict(design.population), rule, "Count by groups: by=….")
    squared = of in ("variance", "standard deviation")
    if squared and schema.unit.column is not None:
        rule = "adds rows up to one mean for each cluster, whose variance is another"
        fix = "Declare rows as units where one of each cluster was asked."
        raise InvalidParameter("design.cluster", schema.unit.column, rule, fix)
    if value is None:
        bounds: tuple[float, ...] = ()
    elif label is not None:
        bounds = (0.0, 1.0)
    else:
        declared = schema.bounds(value)
        bounds = (declared.low, declared.high)
    parts = DesignParts(
        of=of,
        bounds=bounds,
        weight_high=design.weight_high,
        top=float(top * weights.step),
        strata=tuple(labels),
        population=tuple(design.population[one] for one in labels) if design.population else (),  # none by stratum
        whole=schema.where is None,
        clusters=schema.unit.column is not None,
        inner=1.0 if schema.unit.column is not None else 1.5 if top > trim else 2.0,
    )
    groups = schema.cells(by, "by") if by else 1

    def measured(used: DesignParts) -> Measurement:
        sensitivity = used.moved(groups, schema.neighbours)

        def from_rows(rows: Snapshot) -> Any:
            found = design_totals(rows, (*by, *strata), value, label, used.powers, trim=trim, top=top)
            cells = range(groups * max(1, len(used.strata)))
            return fractions([part for cell in cells for part in used.of_totals(found, cell, top)])

        gaussian = used.weighed
        return Measurement(
            statistic=question.grouped(used, by),
            sensitivity=sensitivity,
            mechanism=Gaussian.calibrate(question.guarantee, sensitivity)
            if gaussian
            else additive_noise(question.guarantee, sensitivity),
            by=(*by, *strata, *([value] if label is not None and value is not None else [])),
            columns=(design.weight, *([] if value is None or label is not None else [value])),
            contribution=None if schema.unit_is_row else Contribution(total=1),
            public={},
            from_rows=from_rows,
            read=read,
            forecast=lambda: _forecast(used, groups, expected_rows, design),
            trims=lambda: _trims(question),
        )

    plain = measured(parts)
    if is_pure(question.guarantee):
        return plain
    return min(plain, measured(replace(parts, weighed=True)), key=lambda one: one.standard_error() or 0.0)


_TYPICAL = 0.5
"""A plan takes weights to be alike, at half of the largest: its ratio to the mean is 1.3 to 3 in most surveys."""


def weights_words(design: Design | None) -> str:
    """What a plan takes weights to be, in words."""
    if design is None:
        return ""
    return f"with {'the weights expected' if design.expected else 'weights of half the largest'}"


def _forecast(parts: DesignParts, groups: int, expected: int | None, design: Design) -> Forecast:
    """The noise in an estimate from units with the weights expected and values spread evenly over the bounds."""
    likely = design.expected
    rows = DEFAULT_ROWS if expected is None else expected / groups
    mean = _TYPICAL if not likely else float(np.minimum(_weights(likely), parts.weight_high).mean()) / parts.weight_high
    factors = np.array([float(one) for one in parts.multiplied])
    low, high = parts.bounds or (1.0, 1.0)
    moments = parts.moments
    if parts.total:
        moved = parts.top * (low * moments["u"] + (high - low) * moments["uy"]) / factors
        worst = None
    elif parts.squared:
        weight = rows * mean * parts.weight_high / parts.top
        scale = (high - low) ** (2 if parts.of == "variance" else 1) / (
            1 if parts.of == "variance" else 2 * _SPREAD**0.5
        )
        moved = scale * (moments["uyy"] - moments["uy"] + (0.25 - _SPREAD) * moments["u"]) / factors / weight
        worst = scale * (moments["uyy"] - 2 * moments["uy"] + moments["u"]) / factors / weight
    else:
        weight = rows * mean * parts.weight_high / parts.top
        moved, worst = (
            (high - low) * (moments["uy"] - centre * moments["u"]) / factors / weight for centre in (0.5, 1.0)
        )
    strata = max(1, len(parts.strata))
    like = "whatever their weights are" if parts.total else weights_words(design)
    return Forecast(
        weights=tuple(np.tile(moved, strata).tolist()),
        worst=None if worst is None else tuple(np.tile(worst, strata).tolist()),
        scenario=f"{rows:,.0f} rows{' per group' if groups > 1 else ''} {like}",
    )


def _weights(likely: Sequence[float]) -> NDArray[np.float64]:
    """A thousand weights with these quantiles at even distances."""
    shares = np.linspace(0.0, 1.0, len(likely))
    return np.asarray(np.interp((np.arange(1000) + 0.5) / 1000, shares, sorted(likely)))


def likely_weights(design: Design) -> tuple[float, float]:
    """Squares over weights, and the share of rows that are effective, where weights are as a plan takes them to be."""
    if not design.expected:
        return _TYPICAL * design.weight_high, 1.0
    kept = np.minimum(_weights(design.expected), design.weight_high)
    heavy = float((kept**2).mean() / kept.mean())
    return heavy, float(kept.mean()) / heavy


_SPREAD = 1 / 12
"""Variance of values that are spread evenly from 0 to 1."""
_SHARES = (1.0, 0.99, 0.98, 0.95, 0.9, 0.8)
"""Which shares of the expected weights the trims of a plan leave as they are."""


def _trims(question: Any) -> tuple[Row, ...]:
    """What each of several trims costs in bias and gains in noise."""
    design: Design = question.schema.design
    if not design.expected:
        rule = "is needed to compare trims: quantiles of the weights, from a codebook or an earlier year"
        raise InvalidParameter("design.expected", None, rule, "Declare expected=[5, 20, 60, 300], for example.")
    weights = _weights(design.expected)
    bounds = question.schema.bounds(design.weight)
    steps = {bounds.index(float(np.quantile(weights, share))) for share in _SHARES} | {bounds.index(design.weight_high)}
    rows = [_trimmed(question, weights, float(step * bounds.step)) for step in steps if 0 < step <= bounds.highest]
    return tuple(sorted(rows, key=lambda row: row["rmse"]))


def _trimmed(question: Any, weights: NDArray[np.float64], trim: float) -> Row:
    design: Design = question.schema.design
    found = question.changed(schema=replace(question.schema, design=replace(design, weight_high=trim))).measurement
    whole = found.statistic
    parts = cast(DesignParts, whole.of if isinstance(whole, Grouped) else whole)
    groups = whole.groups if isinstance(whole, Grouped) else 1
    rows = DEFAULT_ROWS if question.rows_planned is None else question.rows_planned / groups
    low, high = parts.bounds or (1.0, 1.0)
    kept = np.minimum(weights, trim)
    lost = float((weights - kept).sum() / weights.sum())
    if parts.total:
        middle = (low + high) / 2
        squares = ((high - low) ** 2 * _SPREAD + middle**2) * float((kept**2).mean())
        sampling = math.sqrt(rows * max(squares - (kept.mean() * middle) ** 2 / groups, 0.0))
        bias = rows * lost * float(weights.mean()) * max(abs(low), abs(high))
    else:
        effective = rows * kept.mean() ** 2 / (kept**2).mean()
        sampling = (high - low) * math.sqrt((0.25 if parts.of == "proportion" else _SPREAD) / effective)
        bias = lost * (high - low)
        if parts.squared:  # of even values the variance of (y − ½)² is 1/180
            root = 1.0 if parts.of == "variance" else 1 / (2 * _SPREAD**0.5 * (high - low))
            sampling, bias = (root * (high - low) ** 2 * one for one in (math.sqrt(1 / 180 / effective), lost))
    both = math.hypot(found.standard_error() or 0.0, sampling)
    return {
        "setting": f"weight_high = {trim:g}", "mechanism": found.mechanism.name, "error_95": found.error(),
        "rmse": math.hypot(both, bias), "bias": bias, "lowest": None, "highest": None, "width": 2 * 1.96 * both,
    }  # fmt: skip


def no_design_for(question: Any, *names: str, **usual: Any) -> None:
    """Refuse settings that change how rows are measured, which a design does: what is not off, or not as usual."""
    for name in (*names, *usual):
        given, value = getattr(question, name), usual.get(name)
        off = name in names and (given is None or given is False)
        if not off and (name in names or type(given) is not type(value) or given != value):
            raise InvalidParameter(name, given, "has no form under a design", f"Leave {name} out.")


def tables_measurement(
    question: Any, wanted: list[list[str]], columns: Callable[[list[list[str]]], Mapping[str, Any]]
) -> Measurement:
    """The table by all columns, with weights; every other table is a margin of it."""
    no_design_for(
        question, weights="tables", accuracy="sum", mean_of=None, public_total=None, impossible=(), bins=None,
        presented=True, contribution=None,
    )  # fmt: skip
    if not all(wanted):
        raise InvalidParameter("tables", [], "asks for the total", "Ask count() for it, by itself.")
    if question.schema.unit.column is not None:
        rule = "leaves rows of one cluster in several cells, whose sum varies by more than is measured"
        raise InvalidParameter("design.cluster", question.schema.unit.column, rule, "Ask for each table by itself.")
    return design_measurement(question, "estimated count", tuple(columns(wanted)), read="the number in the population")


def tables_of(question: Any, release: A, wanted: list[list[str]]) -> A:
    """The tables of a release: under a design they are margins of the one that was estimated."""
    if question.schema.design is None:
        return release
    return cast(A, DesignTables(cast(Any, release), tuple(map(tuple, wanted))))
