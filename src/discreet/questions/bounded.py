"""The common base of statistics of bounded columns: bounds, a grid, the number of rows, an exact value, a reading."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self, TypeAlias, cast

import numpy as np

from discreet import inference
from discreet.core import requirements
from discreet.core.errors import DiscreetError, InvalidParameter, NoPopulationInterval, WrongType
from discreet.core.numbers import Grid, decimal
from discreet.core.protection import ROW, Neighbours, Protection, Unit
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.inference.moments import NoiseAware, ReleaseLaw, SamplingModel, debiased
from discreet.mechanisms.bounded.laplace import BoundaryInflatedLaplace, BoundedLaplace
from discreet.questions.question import Forecast, Measurement
from discreet.results.display import Facts, Interval, number
from discreet.results.frames import Reading
from discreet.results.release import Release, Statistic

Method: TypeAlias = "NoiseAware | inference.DoubleSanitization"

Domain = tuple[Any, Any]
"""Lower and upper end of a statistic's value: two floats, or two arrays for a vector."""


def whole_bounds(name: str, value: Any) -> tuple[float, float]:
    """Two finite ends."""
    low, high = requirements.ordered_bounds(name, tuple(value) if isinstance(value, list) else value)
    if math.isinf(low) or math.isinf(high):
        raise InvalidParameter(name, value, "must be finite", "Give both ends; they must be public knowledge.")
    return low, high


def bounds_of_columns(name: str, value: Any, count: int | None = None) -> tuple[tuple[float, float], ...]:
    """One pair of finite bounds per column."""
    if isinstance(value, str) or not isinstance(value, list | tuple) or len(value) == 0:
        raise WrongType(name, value, "must be one pair of bounds per column", f"Pass {name}=((0, 1), (0, 5)).")
    if count is not None and len(value) != count:
        raise InvalidParameter(name, value, f"must be {count} pairs of bounds", f"Pass {name}=((0, 1), (0, 5)).")
    return tuple(whole_bounds(name, pair) for pair in value)


class BoundedStatistic(Statistic):
    """A statistic of columns with public bounds.

    Subclasses say how to compute the exact value, its public domain and its sensitivity.
    """

    def __post_init__(self) -> None:
        given = getattr(self, "n", None)
        if given is not None:
            object.__setattr__(self, "n", requirements.positive_integer("n", given, at_least=self.least_rows))

    @classmethod
    def release_type(cls) -> type[Release]:
        return Release

    @property
    def least_rows(self) -> int:
        """The fewest rows for which the statistic has a value."""
        return 1

    @abstractmethod
    def domain(self, n: int | None = None) -> Domain:
        """The smallest public set that holds the value, for ``n`` rows where it depends on them."""

    @abstractmethod
    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        """The largest change between neighbours."""

    @abstractmethod
    def value(self, data: Any) -> Any:
        """The exact value: a fraction, an integer, or an object array of fractions. Private."""

    def rows(self, data: Any) -> int:
        """Number of rows."""
        try:
            return len(data)
        except TypeError:
            raise WrongType(
                "data", type(data).__name__, "must be a column", "Pass a list, an array or a series."
            ) from None

    def exact(self, data: Any, *, neighbours: Neighbours, unit: Unit = ROW) -> Exact:
        """The exact, still private value, ready for `discreet.release`.

        Parameters
        ----------
        data
            The column, or what the statistic says it takes.
        neighbours
            Which data sets must be hard to tell apart.
        unit
            Whose presence is protected; one unit must be one row here.
        """
        _require_neighbours(neighbours)
        return Exact(
            self.value(data),
            self.sensitivity(neighbours=neighbours),
            Protection(unit, neighbours),
            statistic=self,
        )


class PublicSizeStatistic(BoundedStatistic):
    """A statistic that divides by the number of rows, which must therefore be public.

    Under replace-one the number of rows is public by definition and is taken from the data. Under add/remove it
    is private, so it must be declared (``n=…`` at construction): then neighbours have n and n ± 1 rows, as in
    liu2019 "Def 2", the noise is fixed by the declared n, and n itself is not protected.
    """

    n: int | None
    rooted: ClassVar[bool] = False
    concluded_from_measured: ClassVar[bool] = False
    """Whether conclusions are drawn from the noisy measurement, and not from the value that is shown for it."""

    @classmethod
    def release_type(cls) -> type[Release]:
        return PublicSizeRelease

    @cached_property
    def _grids(self) -> tuple[Grid, ...]:
        """The grid of each of several columns."""
        mine = cast(Any, self)
        return tuple(Grid(bounds=pair, step=mine.grid) for pair in mine.bounds)

    @property
    def independent_rows(self) -> int | None:
        """The public number of rows, less what is estimated besides the mean."""
        return self.n

    def sampling_model(self, released: PublicSizeRelease, **known: Any) -> SamplingModel:
        """The model of variation between samples, with what is ``known`` of the population."""
        raise NoPopulationInterval(
            "statistic", self.title, "has no model of how it varies between samples", "Release one number at a time."
        )

    def require_n(self, n: int | None) -> int:
        """The public number of rows: the one given, or the one declared."""
        rows = self.n if n is None else n
        if rows is None:
            raise InvalidParameter("n", None, "the public number of rows is needed", "Pass n=….")
        return requirements.positive_integer("n", rows, at_least=self.least_rows)

    def require_n_between(self, n: int | None, neighbours: Neighbours) -> int:
        """As `require_n`; under add/remove the neighbour with one row less must have a value too."""
        _require_neighbours(neighbours)
        rows = self.require_n(n)
        if neighbours is Neighbours.ADD_REMOVE and rows <= self.least_rows:
            raise InvalidParameter("n", rows, f"must be above {self.least_rows} under add/remove", "Collect more rows.")
        return rows

    def of_size(self, n: int) -> Self:
        """The statistic with its number of rows declared."""
        return replace(self, n=n)  # type: ignore[type-var]

    def exact(self, data: Any, *, neighbours: Neighbours, unit: Unit = ROW) -> Exact:
        """The exact, still private value, ready for `discreet.release`; see `BoundedStatistic.exact`."""
        _require_neighbours(neighbours)
        rows = self.rows(data)
        if neighbours is Neighbours.ADD_REMOVE and self.n is None:
            raise InvalidParameter(
                "n",
                None,
                "the number of rows is private under add/remove, and this statistic divides by it",
                f"Declare it public with {type(self).__name__}(…, n=…), use Neighbours.REPLACE_ONE, "
                "or release NoisyAverage, which protects the number of rows too.",
            )
        if self.n is not None and rows != self.n:
            raise InvalidParameter("n", self.n, "is not the number of rows of the data", "Declare the right n.")
        sized = self.of_size(rows)
        return Exact(
            sized.value(data),
            sized.sensitivity(neighbours=neighbours),
            Protection(unit, neighbours),
            statistic=sized,
            public={"n": rows},
        )


def _require_neighbours(neighbours: Any) -> None:
    requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.REPLACE_ONE")


def fractions(values: list[Fraction]) -> np.ndarray[Any, np.dtype[np.object_]]:
    """An object array of fractions."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


@dataclass(frozen=True, kw_only=True)
class OneColumn(BoundedStatistic):
    """A statistic of one column, clipped to public bounds.

    Parameters
    ----------
    bounds
        Public bounds (c₀, c₁) of a row; values outside are clipped.
    grid
        Resolution, a power of two; 1 for a column of whole numbers.
    """

    bounds: tuple[float, float]
    grid: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "bounds", whole_bounds("bounds", self.bounds))
        self._grid  # noqa: B018  (refuses a bad grid at construction)

    @cached_property
    def _grid(self) -> Grid:
        return Grid(bounds=self.bounds, step=self.grid)


def clipped(data: Iterable[Any], bounds: tuple[float, float]) -> list[Fraction]:
    """The rows exactly, moved into public bounds, which mean the decimals they print as. Private."""
    low, high = (decimal(end) for end in bounds)
    return [min(max(Fraction(requirements.finite("data", x)), low), high) for x in data]


@dataclass(frozen=True)
class PublicSizeRelease(Release):
    """A released mean, variance, standard deviation or covariance of a public number of rows.

    ``value`` is what was protected: for a standard deviation its square. Intervals are for what was asked for.
    """

    @property
    def _of(self) -> PublicSizeStatistic:
        return cast(PublicSizeStatistic, self.statistic)

    @property
    def n(self) -> int:
        """The public number of rows; of a pooled statistic one more than its degrees of freedom."""
        return requirements.positive_integer("n", self._of.independent_rows)

    @property
    def domain(self) -> tuple[float, float]:
        """The public domain of the statistic."""
        low, high = self._of.domain()
        return float(low), float(high)

    @property
    def debiased(self) -> float:
        """The value corrected for the bias of bounded noise, inside the domain."""
        return debiased(self.mechanism, self._number(), self.domain)

    def _number(self) -> float:
        if np.ndim(self.value) != 0:
            raise WrongType("value", self.value, "must be one number", "Release one statistic at a time.")
        return float(self.measured if self._of.concluded_from_measured else self.value)

    @property
    def mean(self) -> float:
        """The released mean."""
        if self._of.name != "mean":
            raise AttributeError(f"a {self._of.title} has no mean. Release Mean(…).")
        return self._number()

    @property
    def variance(self) -> float:
        """The released variance (divisor n − 1)."""
        if self._of.name not in ("variance", "standard_deviation"):
            raise AttributeError(f"a {self._of.title} has no variance. Release Variance(…).")
        return self._number()

    @property
    def standard_deviation(self) -> float:
        """Root of the released variance, which must not be negative: release it with a bounded mechanism."""
        if not self._of.rooted:
            raise AttributeError(f"a {self._of.title} has no standard deviation. Release StandardDeviation(…).")
        if self._number() < 0:
            raise InvalidParameter(
                "variance", self._number(), "a negative released variance has no root",
                "Release it with BoundedLaplace or BoundaryInflatedLaplace.",
            )  # fmt: skip
        return math.sqrt(self._number())

    def sampling_model(self, **known: Any) -> SamplingModel:
        """The model of variation between samples, with what is ``known`` of the population."""
        return self._of.sampling_model(self, **known)

    def sampling_variance(self, **known: Any) -> float:
        """Sampling variance of the statistic, at the debiased value."""
        return self.sampling_model(**known).variance(self.debiased)

    def noise_interval(self, level: float = 0.95) -> Interval:
        """Interval for the data, from the known distribution of the noise."""
        found = super().noise_interval(level)
        return root_interval(found) if self._of.rooted else found

    def population_interval(self, level: float = 0.95, *, method: Method | None = None, **known: Any) -> Interval:
        """Interval for the population's parameter: sampling error and noise together.

        Parameters
        ----------
        level
            Confidence level.
        method
            `NoiseAware()` by default; `DoubleSanitization(m=…)` adds the variance of repeated noise.
        known
            What is known of the population; see the statistic's `sampling_model`.
        """
        found = self.protected_interval(level, method=method, **known)
        return root_interval(found) if self._of.rooted else found

    def protected_interval(self, level: float, *, method: Method | None = None, **known: Any) -> Interval:
        """The same for what was protected: of a standard deviation the variance."""
        checked = requirements.level(level)
        if isinstance(method, inference.DoubleSanitization):
            combined = method.combine(self._number(), self.mechanism, self.sampling_variance(**known))
            return combined.population_interval(checked)
        chosen = NoiseAware() if method is None else method
        requirements.instance("method", chosen, NoiseAware, "NoiseAware() or DoubleSanitization(m=1000)")
        law = ReleaseLaw(model=self.sampling_model(**known), mechanism=self.mechanism)
        return chosen.interval(law, self._number(), checked)

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The number, with both intervals."""
        (read,) = super().readings(columns)
        read = replace(read, population=self.known_population_interval())
        if not self._of.rooted:
            return [read]
        return [replace(read, estimate=math.sqrt(max(self._number(), 0.0)), standard_error=None)]

    def facts(self) -> Facts:
        """The facts to show; a standard deviation before the variance that was protected."""
        first = [(self._of.title, number(self.standard_deviation))] if self._of.rooted else []
        return [*first, *super().facts()]

    def known_population_interval(self) -> Interval | None:
        """The 95 % interval for the population, or None where there is none.

        Such intervals are for independent rows; several rows of one unit are not.
        """
        if self.unit.column is not None and not self.public.get("per_unit"):
            return None
        try:
            return self.population_interval()
        except DiscreetError:
            return None


def root_interval(interval: Interval) -> Interval:
    """The interval of a variance as one of the standard deviation: the root is monotone."""
    low, high = (math.sqrt(max(float(end), 0.0)) for end in interval)
    return Interval(low, high, interval.level)


# ---- Outputs that lie where the statistic can lie: noise conditioned on that (holohan2018), or clamped to it (liu2019)


OUTPUTS: Mapping[str, type[BoundedLaplace | BoundaryInflatedLaplace]] = {
    "bounded": BoundedLaplace,
    "inflated": BoundaryInflatedLaplace,
}
_PLACES, _POINTS = 21, 2000


def kept_inside(question: Any, size: int | None, measured: Callable[[int], Measurement]) -> Measurement:
    """The measurement of one number of a public ``size``, by the noise that the question names as its ``output``."""
    if isinstance(question.output, str) and question.output == "truncated":
        rule = "is bounded noise of a scale that exceeds the guarantee (liu2019)"
        raise InvalidParameter("output", question.output, rule, 'Write output = "bounded", at a scale that keeps it.')
    kind = OUTPUTS[requirements.one_of("output", question.output, [*OUTPUTS])]
    if size is None:
        rule = "needs one number of a public number of rows; what is read from totals lies within the bounds anyway"
        fix = 'Leave output out, or declare neighbours = "replace_one" and size, and ask without groups.'
        raise InvalidParameter("output", question.output, rule, fix)
    found = measured(size)
    domain = cast(PublicSizeStatistic, found.statistic).domain()
    mechanism = kind.calibrate(question.guarantee, found.sensitivity, bounds=domain)
    forecast = Forecast(error=lambda level: float(mechanism.error(level)))
    return replace(found, mechanism=mechanism, forecast=lambda: forecast)


def output_notes(question: Any, found: Measurement) -> tuple[str, ...]:
    """The cost of an ``output`` in bias and mean squared error, over the domain, beside what the default has."""
    if question.output is None:
        return ()
    statistic = cast(PublicSizeStatistic, found.statistic)
    read = np.sqrt if statistic.rooted else np.asarray
    chances = (np.arange(_POINTS) + 0.5) / _POINTS
    low, high = statistic.domain()
    truths = np.linspace(float(low), float(high), _PLACES)
    moved = np.array([read(found.mechanism.law(one).quantile(chances)) - read(one) for one in truths])
    bias, squared = np.abs(moved.mean(axis=1)).max(), (moved**2).mean(axis=1)
    usual = question.changed(output=None).measurement.standard_error()
    return (
        f"output = {question.output!r} has a bias of up to {bias:.3g} and a mean squared error of "
        f"{squared.mean():.3g}, at most {squared.max():.3g}, over all values of {found.read}; by default it is "
        f"{usual**2:.3g}",
    )
