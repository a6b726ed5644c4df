"""Omission of rows before a mechanism: samples and outlier-score suppression, with their guarantees.

A step has three parts: `apply` chooses the rows with secret, exact randomness; `amplify` tells what a mechanism's
guarantee becomes behind it; `before` tells what the mechanism may spend to meet a target. Who is kept must stay
secret: the guarantee is lost when the kept rows are shown.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any, ClassVar, TypeVar

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from discreet.core import requirements
from discreet.core.door import Rng
from discreet.core.errors import InvalidParameter, NoConversion, WrongType
from discreet.core.guarantee import ApproxDP, Guarantee, PureDP
from discreet.core.noise.choice import exact_events
from discreet.core.noise.sampler import SYSTEM_ENTROPY, Entropy, generator
from discreet.core.numbers import ball, decimal, precisely, up
from discreet.core.protection import ROW, Neighbours, Unit
from discreet.core.rows.read import canonical_text
from discreet.core.schema import Schema
from discreet.mechanisms.omission import amplification

# ---- Outlier scores: the mean distance of each record to all records, for distances normalised by public bounds.
#
# miranda2026 (§5.3) deletes record x with probability out_D(x) = m + (M − m)·mean_y d(x, y). Every distance here
# lies in [0, 1] by public facts alone: values outside the bounds count as the nearest bound.


Array = NDArray[np.float64]
_BLOCK = 1 << 22
"""Distances held at once by the Euclidean blocks: 32 MB."""


class Distance(ABC):
    """A distance between records with values in [0, 1] that satisfies the triangle inequality."""

    name: ClassVar[str]

    @abstractmethod
    def prepare(self, data: Any) -> NDArray[Any]:
        """The records as an array; refuses what the distance is not defined for."""

    @abstractmethod
    def mean_distances(self, data: Any) -> Array:
        """Mean distance of each record to all records, itself included."""

    @abstractmethod
    def mean_distance_ball(self, data: NDArray[Any], index: int) -> arb:
        """The same for one prepared record, as a rigorous enclosure."""

    @abstractmethod
    def error(self, count: int) -> float:
        """Bound on the rounding error of `mean_distances` for ``count`` records."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The distance as JSON-ready data."""


def _numbers(data: Any, low: NDArray[np.float64] | float, high: NDArray[np.float64] | float, dimensions: int) -> Array:
    """Numbers within the bounds. What is missing or not a number counts as the lower bound, as any fixed point would.

    Each value is converted by itself and none is refused: a refusal would tell that somebody's value is odd.
    """
    array = np.asarray(data)
    if array.ndim != dimensions:
        shape = "one number per record" if dimensions == 1 else "one row per record"
        raise InvalidParameter("data", array.shape, f"must have {shape}", "Reshape it.")
    if array.dtype.kind not in "biuf":
        array = np.array([_number(value) for value in array.reshape(-1)]).reshape(array.shape)
    numbers = np.asarray(array, dtype=float)
    return np.clip(np.where(np.isnan(numbers), low, numbers), low, high)


def _number(value: Any) -> float:
    try:
        return float(canonical_text(value) or "nan")
    except ValueError:
        return math.nan


@dataclass(frozen=True)
class AbsoluteDistance(Distance):
    """|x − y| / (high − low) for numbers, in O(n log n).

    Examples
    --------
    >>> AbsoluteDistance((0, 10)).mean_distances([0, 0, 0, 10]).tolist()
    [0.25, 0.25, 0.25, 0.75]
    """

    bounds: tuple[float, float]
    name: ClassVar[str] = "absolute"

    def __post_init__(self) -> None:
        low, high = requirements.ordered_bounds("bounds", self.bounds)
        requirements.finite("bounds", low), requirements.finite("bounds", high)
        object.__setattr__(self, "bounds", (low, high))

    def prepare(self, data: Any) -> Array:
        """Numbers, clamped to the bounds."""
        return _numbers(data, *self.bounds, dimensions=1)

    def mean_distances(self, data: Any) -> Array:
        """Sorting turns Σ|x − y| into prefix sums."""
        values = self.prepare(data) - self.bounds[0]
        if values.size == 0:
            return np.asarray(values)
        order = np.argsort(values, kind="stable")
        ranked = values[order]
        below = np.arange(ranked.size)
        prefix = np.concatenate([[0.0], np.cumsum(ranked)[:-1]])
        total = prefix[-1] + ranked[-1]
        sums = ranked * below - prefix + (total - prefix - ranked) - ranked * (ranked.size - 1 - below)
        result = np.empty_like(sums)
        result[order] = np.clip(sums / (ranked.size * (self.bounds[1] - self.bounds[0])), 0.0, 1.0)
        return np.asarray(result)

    def mean_distance_ball(self, data: NDArray[Any], index: int) -> arb:
        """Exact: a sum of fractions."""
        values, counts = np.unique(data, return_counts=True)
        own = Fraction(float(data[index]))
        total = sum((abs(Fraction(float(v)) - own) * int(c) for v, c in zip(values, counts, strict=True)), Fraction(0))
        width = Fraction(self.bounds[1]) - Fraction(self.bounds[0])
        return ball(total / (len(data) * width))

    def error(self, count: int) -> float:
        """Sums of n rounded numbers below the width: at most 4n units in the last place, with a margin."""
        return 8.0 * (count + 8) * 2.0**-53

    def to_dict(self) -> dict[str, Any]:
        """Name and bounds."""
        return {"name": self.name, "bounds": list(self.bounds)}


@dataclass(frozen=True)
class DiscreteDistance(Distance):
    """0 for equal records and 1 for different ones, in O(n log n) at most.

    Examples
    --------
    >>> DiscreteDistance().mean_distances(["a", "a", "a", "b"]).tolist()
    [0.25, 0.25, 0.25, 0.75]
    """

    name: ClassVar[str] = "discrete"

    def prepare(self, data: Any) -> NDArray[Any]:
        """Codes of the distinct records."""
        array = np.asarray(data)
        if array.ndim not in (1, 2):
            raise InvalidParameter("data", array.shape, "must have one value or one row per record", "Reshape it.")
        if array.size == 0:
            return np.zeros(0, dtype=np.int64)
        if array.ndim == 1 and array.dtype.kind in "iu" and int(array.max()) - int(array.min()) < 1 << 24:
            return (array.astype(np.int64) - int(array.min())).astype(np.int64)
        if array.dtype.kind == "O":  # values of several kinds have no order; a missing one equals other missing ones
            array = np.array([canonical_text(value) or "" for value in array.reshape(-1)]).reshape(array.shape)
        axis = None if array.ndim == 1 else 0
        return np.unique(array, axis=axis, return_inverse=True)[1].reshape(-1).astype(np.int64)

    def mean_distances(self, data: Any) -> Array:
        """1 − (share of equal records), from one count."""
        codes = self.prepare(data)
        if codes.size == 0:
            return np.zeros(0)
        return np.asarray((codes.size - np.bincount(codes)[codes]) / codes.size)

    def mean_distance_ball(self, data: NDArray[Any], index: int) -> arb:
        """Exact: a quotient of counts."""
        return ball(Fraction(int(np.count_nonzero(data != data[index])), len(data)))

    def error(self, count: int) -> float:
        """One correctly rounded division."""
        return 2.0**-52

    def to_dict(self) -> dict[str, Any]:
        """Name only."""
        return {"name": self.name}


@dataclass(frozen=True)
class EuclideanDistance(Distance):
    """‖x − y‖ over the diameter of a public box, exactly and in blocks: O(n²·d) time, O(n) memory.

    Parameters
    ----------
    bounds
        One pair (low, high) per coordinate.

    Examples
    --------
    >>> EuclideanDistance(((0, 3), (0, 4))).mean_distances([[0, 0], [3, 4]]).tolist()
    [0.5, 0.5]
    """

    bounds: tuple[tuple[float, float], ...]
    name: ClassVar[str] = "euclidean"

    def __post_init__(self) -> None:
        if np.ndim(self.bounds) != 2 or len(self.bounds) == 0:
            raise WrongType("bounds", self.bounds, "must hold a pair per coordinate", "Pass bounds=((0, 1), (0, 1)).")
        clean = tuple(requirements.ordered_bounds("bounds", pair) for pair in self.bounds)
        for pair in clean:
            requirements.finite("bounds", pair[0]), requirements.finite("bounds", pair[1])
        object.__setattr__(self, "bounds", clean)

    def prepare(self, data: Any) -> Array:
        """Rows, clamped to the box."""
        shape = np.shape(data)
        (low, high) = np.asarray(self.bounds).T
        if len(shape) == 2 and shape[1] != len(self.bounds):
            fix = "Select the columns."
            raise InvalidParameter("data", shape, f"must have {len(self.bounds)} columns, one per bound", fix)
        return _numbers(data, low, high, dimensions=2)

    def _diameter(self) -> float:
        low, high = np.asarray(self.bounds).T
        return float(np.linalg.norm(high - low))

    def mean_distances(self, data: Any) -> Array:
        """Blocks of rows against all rows."""
        from scipy.spatial.distance import cdist

        rows = self.prepare(data)
        count = len(rows)
        result = np.empty(count)
        block = max(1, _BLOCK // max(count, 1))
        for start in range(0, count, block):
            result[start : start + block] = cdist(rows[start : start + block], rows).sum(axis=1)
        return np.clip(result / (max(count, 1) * self._diameter()), 0.0, 1.0)

    def mean_distance_ball(self, data: NDArray[Any], index: int) -> arb:
        """A sum of square-root balls."""
        total = arb(0)
        for row in data:
            square = sum(
                ((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in zip(row, data[index], strict=True)),
                Fraction(0),
            )
            total += ball(square).sqrt()
        width = sum(((Fraction(high) - Fraction(low)) ** 2 for low, high in self.bounds), Fraction(0))
        return total / (len(data) * ball(width).sqrt())

    def error(self, count: int) -> float:
        """Pairwise sums of n correctly rounded distances, with a margin for the d squares in each."""
        return 8.0 * (count + 8 * len(self.bounds) + 8) * 2.0**-53

    def to_dict(self) -> dict[str, Any]:
        """Name and bounds."""
        return {"name": self.name, "bounds": [list(pair) for pair in self.bounds]}


def outlier_scores(data: ArrayLike, m: float, M: float, distance: Distance) -> Array:
    """out_D(x) = m + (M − m)·(mean distance of x to all records), in floating point.

    Examples
    --------
    >>> outlier_scores([0, 0, 0, 10], 0.1, 0.5, AbsoluteDistance((0, 10))).round(3).tolist()
    [0.2, 0.2, 0.2, 0.4]
    """
    requirements.instance("distance", distance, Distance, "AbsoluteDistance((0, 125))")
    return np.asarray(m + (M - m) * distance.mean_distances(data))


def distance_from_dict(data: Mapping[str, Any]) -> Distance:
    """Read what `Distance.to_dict` wrote; unknown distances are refused.

    Examples
    --------
    >>> distance_from_dict({"name": "absolute", "bounds": [0, 125]})
    AbsoluteDistance(bounds=(0.0, 125.0))
    """
    fields = dict(data)
    kinds: dict[Any, type[Distance]] = {
        kind.name: kind for kind in (AbsoluteDistance, DiscreteDistance, EuclideanDistance)
    }
    name = fields.pop("name", None)
    if name not in kinds:
        raise InvalidParameter("distance", name, f"must be one of {sorted(kinds)}", "Check the file.")
    return kinds[name](**fields)


# ---- Omission of rows before a mechanism: Poisson samples and outlier-score suppression, with their guarantees.


G = TypeVar("G", bound=Guarantee)


class Omission(ABC):
    """A step that leaves out rows."""

    name: ClassVar[str]
    columns: tuple[str, ...] | None = None
    """Columns of the source that decide which rows stay."""
    sampled: float | None = None
    """The largest chance to stay, where each row stays or goes whatever the others hold; None where others decide."""
    neighbours: ClassVar[Neighbours] = Neighbours.ADD_REMOVE
    """The neighbours for which the guarantee is proved."""

    @abstractmethod
    def kept(self, data: Any, *, rng: Rng = None, entropy: Entropy = SYSTEM_ENTROPY) -> NDArray[np.bool_]:
        """Which rows stay: one true or false per row."""

    @abstractmethod
    def amplify(self, guarantee: G) -> G:
        """The guarantee of a mechanism behind this step."""

    @abstractmethod
    def before(self, guarantee: G) -> G:
        """The guarantee that a mechanism behind this step may spend to meet ``guarantee``."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The step as JSON-ready data, for the ledger."""

    @abstractmethod
    def words(self) -> str:
        """The rows that stay, in words."""

    def apply(self, data: Any, rng: Rng = None) -> Any:
        """The rows that stay, in the container they came in (array, frame, table or list)."""
        mask = self.kept(data, rng=rng)
        if hasattr(data, "filter") and hasattr(data, "schema"):  # polars and pyarrow
            return data.filter(mask)
        if hasattr(data, "loc"):  # pandas
            return data.loc[mask]
        if isinstance(data, list | tuple):
            return type(data)(row for row, stays in zip(data, mask, strict=True) if stays)
        return np.asarray(data)[mask]

    def require(self, neighbours: Neighbours, unit: Unit = ROW) -> None:
        """Refuse the settings for which there is no theorem."""
        if neighbours is not self.neighbours:
            rows = "added and removed" if self.neighbours is Neighbours.ADD_REMOVE else "replaced"
            rule = f"{type(self).__name__} is proved for {rows} rows only"
            fix = f"Use Neighbours.{self.neighbours.name}, or do not omit rows."
            raise InvalidParameter("neighbours", neighbours, rule, fix)
        if unit != ROW:
            rule = f"{type(self).__name__} omits rows one by one, which protects no unit with several rows"
            raise InvalidParameter("unit", str(unit), rule, "Bound each unit to one row first, or do not omit rows.")

    def inside(self, schema: Schema) -> Schema:
        """What is public about the rows that stay."""
        return schema


def _columns(data: Any, names: tuple[str, ...]) -> NDArray[Any]:
    """The named columns of a pandas, polars or pyarrow table: one row per record, or one value where there is one."""
    known = list(getattr(data, "column_names", None) or getattr(data, "columns", []))
    missing = [name for name in names if name not in known]
    if missing or not names:
        raise InvalidParameter("columns", names, "must be columns of the data", "Check their names.")
    parts = [np.asarray(data[name]) for name in names]
    return parts[0] if len(parts) == 1 else np.column_stack(parts)


def _length(data: Any) -> int:
    try:
        return len(data)
    except TypeError:
        raise InvalidParameter("data", type(data).__name__, "must have rows", "Pass an array or a frame.") from None


@dataclass(frozen=True)
class PoissonSample(Omission):
    """Keep each row independently with probability ``rate``.

    Guarantee
    ---------
    See `amplification.poisson_sampling`. Sampling lowers ε for the same noise, but at equal privacy it
    costs accuracy (miranda2026 §3): use it to save time, not to gain precision.

    Examples
    --------
    >>> PoissonSample(0.5).amplify(PureDP(1.0))
    PureDP(epsilon=0.6201145069582776)
    >>> int(PoissonSample(0.5).kept(range(1000), rng=1).sum())
    507
    """

    rate: float
    name: ClassVar[str] = "poisson_sample"

    def __post_init__(self) -> None:
        rate = requirements.probability("rate", self.rate, below_one=False)
        if rate == 0:
            raise InvalidParameter("rate", self.rate, "must be positive", "Pass the probability of keeping a row.")
        object.__setattr__(self, "rate", rate)
        object.__setattr__(self, "sampled", rate)

    def kept(self, data: Any, *, rng: Rng = None, entropy: Entropy = SYSTEM_ENTROPY) -> NDArray[np.bool_]:
        """Which rows stay; each exactly with the decimal probability ``rate``."""
        count = _length(data)
        if rng is not None:
            return generator(rng).random(count) < self.rate
        return exact_events(np.full(count, self.rate), 2.0**-52, lambda _: ball(decimal(self.rate)), entropy=entropy)

    def amplify(self, guarantee: G) -> G:
        """ln(1 + p(e^ε − 1)) and p·δ."""
        return amplification.poisson_sampling(guarantee, self.rate)

    def before(self, guarantee: G) -> G:
        """The inverse of `amplify`."""
        return amplification.before_poisson_sampling(guarantee, self.rate)

    def to_dict(self) -> dict[str, Any]:
        """Name and rate."""
        return {"name": self.name, "rate": self.rate}

    def words(self) -> str:
        return f"a random sample that keeps each row with probability {self.rate:g}"


@dataclass(frozen=True)
class SampleByLabel(Omission):
    """Keep each row with the probability that its label has: a thinner sample of large groups, for example.

    What is asked behind it is about the rows that stay, in which the groups no longer have the shares that they have in
    the data.

    Parameters
    ----------
    column
        The column of labels.
    rates
        The probability of keeping a row, by label.
    others
        The same for rows with any other label, or none.

    Guarantee
    ---------
    See `amplification.poisson_sampling`: the largest rate counts. A row's chance depends on that row alone.

    Examples
    --------
    >>> step = SampleByLabel("region", {"north": 0.1, "south": 0.5})
    >>> step.amplify(PureDP(1.0))
    PureDP(epsilon=0.6201145069582776)
    """

    column: str
    rates: Mapping[str, float]
    others: float = 0.0
    name: ClassVar[str] = "sample_by_label"

    def __post_init__(self) -> None:
        column = requirements.instance("column", self.column, str, '"region"')
        given = requirements.instance("rates", self.rates, Mapping, '{"north": 0.1, "south": 0.5}')
        rates = {str(label): requirements.probability("rates", rate, below_one=False) for label, rate in given.items()}
        others = requirements.probability("others", self.others, below_one=False)
        largest = max([*rates.values(), others])
        if not rates or largest == 0:
            raise InvalidParameter("rates", dict(given), "must keep some rows", 'Pass {"north": 0.1}, for example.')
        for name, value in (("rates", rates), ("others", others), ("columns", (column,)), ("sampled", largest)):
            object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return hash((self.column, *self.rates.items(), self.others))

    def kept(self, data: Any, *, rng: Rng = None, entropy: Entropy = SYSTEM_ENTROPY) -> NDArray[np.bool_]:
        """Which rows stay; each exactly with the decimal probability of its label."""
        labels = _columns(data, (self.column,))
        chances = np.array([self.rates.get(canonical_text(one) or "", self.others) for one in labels], dtype=float)
        if rng is not None:
            return generator(rng).random(len(chances)) < chances
        return exact_events(chances, 2.0**-52, lambda index: ball(decimal(chances[index])), entropy=entropy)

    def amplify(self, guarantee: G) -> G:
        """ln(1 + p(e^ε − 1)) and p·δ for the largest rate p."""
        return amplification.poisson_sampling(guarantee, [*self.rates.values(), self.others])

    def before(self, guarantee: G) -> G:
        """The inverse of `amplify`."""
        return amplification.before_poisson_sampling(guarantee, [*self.rates.values(), self.others])

    def to_dict(self) -> dict[str, Any]:
        """Name, column and rates."""
        return {"name": self.name, "column": self.column, "rates": dict(self.rates), "others": self.others}

    def words(self) -> str:
        rates = ", ".join(f"{rate:g} for {label}" for label, rate in self.rates.items())
        return f"a random sample by {self.column}: each row is kept with probability {rates}, {self.others:g} otherwise"


@dataclass(frozen=True)
class FixedSample(Omission):
    """Keep ``size`` rows of a public number of rows; every choice of them is equally likely.

    Parameters
    ----------
    size
        The number of rows that stay.
    population
        The public number of rows.

    Guarantee
    ---------
    See `amplification.sampling_without_replacement`, between data sets that differ in one replaced row. As for every
    sample, it costs accuracy at equal privacy.

    Examples
    --------
    >>> FixedSample(500, 1000).amplify(PureDP(1.0))
    PureDP(epsilon=0.6201145069582776)
    >>> int(FixedSample(500, 1000).kept(range(1000), rng=1).sum())
    500
    """

    size: int
    population: int
    name: ClassVar[str] = "fixed_sample"
    neighbours: ClassVar[Neighbours] = Neighbours.REPLACE_ONE

    def __post_init__(self) -> None:
        object.__setattr__(self, "sampled", amplification.sampled_share(self.size, self.population))

    def kept(self, data: Any, *, rng: Rng = None, entropy: Entropy = SYSTEM_ENTROPY) -> NDArray[np.bool_]:
        """Which rows stay. Where there are fewer than declared, the missing ones are chosen from, too."""
        places = max(_length(data), self.population)
        order = _random_order(places, entropy) if rng is None else generator(rng).permutation(places)
        chosen = np.zeros(places, dtype=np.bool_)
        chosen[order[: self.size]] = True
        return chosen[: _length(data)]

    def amplify(self, guarantee: G) -> G:
        """ln(1 + p(e^ε − 1)) and p·δ for p = size/population."""
        return amplification.sampling_without_replacement(guarantee, self.size, self.population)

    def before(self, guarantee: G) -> G:
        """The inverse of `amplify`."""
        return amplification.before_sampling_without_replacement(guarantee, self.size, self.population)

    def inside(self, schema: Schema) -> Schema:
        """A sample has a public size of its own; refuses another number of rows than the schema's."""
        if schema.size != self.population:
            rule = f"must be the schema's public number of rows, {schema.size}"
            raise InvalidParameter("population", self.population, rule, f"Pass population={schema.size}.")
        return replace(schema, size=self.size)

    def to_dict(self) -> dict[str, Any]:
        """Name and both numbers."""
        return {"name": self.name, "size": self.size, "population": self.population}

    def words(self) -> str:
        return f"a random sample of {self.size:,} of the {self.population:,} rows"


def _random_order(count: int, entropy: Entropy) -> NDArray[np.intp]:
    """A uniformly random order: that of random keys, drawn again until all of them differ."""
    while True:
        keys = entropy.words(2 * count).reshape(2, count)
        order = np.lexsort(keys)
        ordered = keys[:, order]
        if not (ordered[:, 1:] == ordered[:, :-1]).all(axis=0).any():
            return order


@dataclass(frozen=True)
class OutlierSuppression(Omission):
    """Delete each row with a probability between m and M that grows with its mean distance to all rows.

    Parameters
    ----------
    m, M
        Smallest and largest probability of deletion, 0 < m ≤ M < 1.
    distance
        `AbsoluteDistance`, `DiscreteDistance` or `EuclideanDistance`, with public bounds.
    columns
        Which columns of a frame the distance is between; not needed for arrays.

    Guarantee
    ---------
    See `discreet.mechanisms.omission.amplification.outlier_suppression`; ε may grow.

    Examples
    --------
    >>> from discreet.mechanisms.omission.step import AbsoluteDistance
    >>> step = OutlierSuppression(0.4, 0.5, AbsoluteDistance((0, 125)))
    >>> round(step.amplify(PureDP(1.0)).epsilon, 6)
    0.871989
    """

    m: float
    M: float
    distance: Distance
    columns: tuple[str, ...] | None = None
    name: ClassVar[str] = "outlier_suppression"

    def __post_init__(self) -> None:
        requirements.instance("distance", self.distance, Distance, "AbsoluteDistance((0, 125))")
        amplification.outlier_suppression(PureDP(0.0), self.m, self.M)  # refuses what the theorem does not cover

    def kept(self, data: Any, *, rng: Rng = None, entropy: Entropy = SYSTEM_ENTROPY) -> NDArray[np.bool_]:
        """Which rows stay; each is deleted exactly with probability out_D(x)."""
        values = data if self.columns is None else _columns(data, self.columns)
        rows = self.distance.prepare(values)
        scores = outlier_scores(values, self.m, self.M, self.distance)
        if rng is not None:
            return generator(rng).random(len(rows)) >= scores
        low = decimal(self.m)
        width = decimal(self.M) - decimal(self.m)

        def enclose(index: int) -> arb:
            return ball(low) + ball(width) * self.distance.mean_distance_ball(rows, index)

        return ~exact_events(scores, self.distance.error(len(rows)) + 2.0**-50, enclose, entropy=entropy)

    def amplify(self, guarantee: G) -> G:
        """ε^S and (1 − m)·δ."""
        return amplification.outlier_suppression(guarantee, self.m, self.M)

    def before(self, guarantee: G) -> G:
        """The inverse of `amplify`, where there is one."""
        return amplification.before_outlier_suppression(guarantee, self.m, self.M)

    def to_dict(self) -> dict[str, Any]:
        """Name, probabilities and distance."""
        columns = None if self.columns is None else list(self.columns)
        return {"name": self.name, "m": self.m, "M": self.M, "distance": self.distance.to_dict(), "columns": columns}

    def words(self) -> str:
        of = "" if self.columns is None else f" in {', '.join(self.columns)}"
        return f"rows of which each was dropped with probability {self.m:g} to {self.M:g}, outliers{of} more often"


def omission_from_dict(data: Mapping[str, Any]) -> Omission:
    """Read what `Omission.to_dict` wrote; unknown steps are refused.

    Examples
    --------
    >>> omission_from_dict({"name": "poisson_sample", "rate": 0.5})
    PoissonSample(rate=0.5)
    """
    fields = dict(data)
    name = fields.pop("name", None)
    if name == OutlierSuppression.name:
        columns = fields.pop("columns", None)
        distance = distance_from_dict(fields.pop("distance"))
        return OutlierSuppression(distance=distance, columns=None if columns is None else tuple(columns), **fields)
    samples = {kind.name: kind for kind in (PoissonSample, SampleByLabel, FixedSample)}
    if name not in samples:
        raise InvalidParameter("step", name, f"must be one of {[*samples, OutlierSuppression.name]}", "Check the file.")
    made: Omission = samples[name](**fields)
    return made


# ---- The suppression theorem, evaluated on finite universes for any suppression algorithm.
#
# miranda2026 bounds the guarantee of M∘S for an arbitrary algorithm S that deletes records, by a maximum over all
# neighbouring data sets and all subsets that S may leave (Theorem 5.3, whose statement misses a logarithm, and
# B.6). The maximum is taken here by enumeration with exact probabilities, so keep universes small: the work grows
# like (number of data sets) × 2^(records).
#
# A data set is a tuple of records; an algorithm maps it to the probability of each set of *kept positions*, so that
# equal records stay distinct.


Database = tuple[Hashable, ...]
Kept = frozenset[int]
Algorithm = Callable[[Database], Mapping[Kept, Fraction | float]]
"""Data set → probability of each set of kept positions."""


def independent_deletion(deletion: Callable[[Database], Sequence[Fraction | float]]) -> Algorithm:
    """The algorithm that deletes each record independently, with the probabilities ``deletion(data)`` gives."""

    def algorithm(data: Database) -> dict[Kept, Fraction]:
        law: dict[Kept, Fraction] = {frozenset(): Fraction(1)}
        for position, probability in enumerate(deletion(data)):
            gone = Fraction(probability)
            law = {
                kept | extra: weight * share
                for kept, weight in law.items()
                for extra, share in ((frozenset[int](), gone), (frozenset({position}), 1 - gone))
                if share > 0
            }
        return law

    return algorithm


def suppression(guarantee: Guarantee, algorithm: Algorithm, universe: Iterable[Hashable], largest: int) -> Guarantee:
    """The guarantee of M∘S over all data sets of at most ``largest`` records (Theorems 5.3 and B.6).

    Parameters
    ----------
    guarantee
        `PureDP` or `ApproxDP` of the mechanism, between add/remove neighbours.
    algorithm
        The suppression algorithm.
    universe
        Possible records.
    largest
        Largest number of records.

    Guarantee
    ---------
    (ε^S, δ^S)-DP between add/remove neighbours **within the enumerated data sets**, for every mechanism M with
    the given guarantee. Where an output is possible on one side only, it is assigned to the nearest subset that
    both sides can leave (Theorem B.6), at the price of group privacy.

    Examples
    --------
    >>> half = independent_deletion(lambda data: [Fraction(1, 2)] * len(data))
    >>> round(suppression(PureDP(1.0), half, universe=["a", "b"], largest=3).epsilon, 6)
    0.620115
    """
    stated: PureDP | ApproxDP = requirements.instance("guarantee", guarantee, (PureDP, ApproxDP), "PureDP(1.0)")
    delta = stated.delta if isinstance(stated, ApproxDP) else 0.0
    with precisely():
        step = ball(decimal(stated.epsilon))
        worst_ratio, worst_delta = arb(1), arb(0)
        for data, record in _pairs(universe, largest):
            for ratio, share in _directions(algorithm, data, record, step):
                worst_ratio, worst_delta = worst_ratio.max(ratio), worst_delta.max(share)
        epsilon = max(0.0, up(worst_ratio.log()))
        raised = up(worst_delta * ball(decimal(delta)))
    if isinstance(guarantee, PureDP):
        return PureDP(epsilon)
    if raised >= 1:
        raise NoConversion(f"{guarantee} gives no guarantee behind this algorithm: δ would reach 1. Lower epsilon.")
    return ApproxDP(epsilon, raised)


def _pairs(universe: Iterable[Hashable], largest: int) -> Iterator[tuple[Database, Hashable]]:
    records = tuple(dict.fromkeys(universe))
    if not records:
        raise InvalidParameter("universe", records, "must not be empty", "Pass the possible records.")
    for size in range(requirements.positive_integer("largest", largest)):
        for data in combinations_with_replacement(records, size):
            for record in records:
                yield data, record


def _geometric(step: arb, terms: int) -> arb:
    """Σ_{k < terms} e^{kε}: the factor of δ for a group of that many records."""
    return sum(((step * k).exp() for k in range(terms)), arb(0))


def _assigned(source: Iterable[Kept], target: Sequence[Kept]) -> Iterator[tuple[Kept, list[Kept]]]:
    """Identity where possible, else the nearest subset: fibres of the assignment."""
    fibres: dict[Kept, list[Kept]] = {kept: [] for kept in target}
    for kept in source:
        image = kept if kept in fibres else min(target, key=lambda other: (len(other ^ kept), sorted(other)))
        fibres[image].append(kept)
    yield from fibres.items()


def _directions(algorithm: Algorithm, data: Database, record: Hashable, step: arb) -> Iterator[tuple[arb, arb]]:
    """(e^ε, δ/δ_M) that bound M(S(D)) by M(S(D + y)), and then the other way round."""
    last, nothing = len(data), Fraction(0)
    small = _checked(algorithm(data), last)
    large = _checked(algorithm((*data, record)), last + 1)
    without = {kept: weight for kept, weight in large.items() if last not in kept}
    with_record = {kept - {last}: weight for kept, weight in large.items() if last in kept}
    reachable = sorted({*without, *with_record}, key=sorted)
    ratio, share = arb(0), arb(0)
    for kept, fibre in _assigned(small, reachable):
        added = ball(with_record.get(kept, nothing)) * (-step).exp()
        base = ball(without.get(kept, nothing)) + added
        weight, group = arb(0), arb(0)
        for other in fibre:
            distance = len(kept ^ other)
            weight += (step * distance).exp() * ball(small[other])
            group += ball(small[other]) * _geometric(step, distance)
        ratio = ratio.max(weight / base)
        share += added / base * weight + group
    yield ratio, share
    ratio, share = arb(0), arb(0)
    for kept, fibre in _assigned(reachable, sorted(small, key=sorted)):
        weight = arb(0)
        for other in fibre:
            distance = len(kept ^ other)
            absent = ball(without.get(other, nothing))
            present = ball(with_record.get(other, nothing))
            weight += (step * distance).exp() * (absent + step.exp() * present)
            share += absent * _geometric(step, distance) + present * _geometric(step, distance + 1)
        ratio = ratio.max(weight / ball(small[kept]))
    yield ratio, share


def _checked(law: Mapping[Kept, Fraction | float], size: int) -> dict[Kept, Fraction]:
    """Exact probabilities of the possible outcomes; refuses laws that are not laws on subsets."""
    exact = {frozenset(kept): Fraction(weight) for kept, weight in law.items() if weight > 0}
    total = sum(exact.values(), Fraction(0))
    if abs(total - 1) > Fraction(1, 10**9) or any(weight < 0 for weight in law.values()):
        fix = "Divide by their sum."
        raise InvalidParameter("algorithm", float(total), "must return probabilities that add up to 1", fix)
    if any(not 0 <= position < size for kept in exact for position in kept):
        fix = "Count from 0."
        raise InvalidParameter("algorithm", sorted(map(sorted, exact)), "keeps positions beyond the data", fix)
    return exact


def suppressor_sensitivity(
    suppressor: Callable[[Database], Iterable[int]], universe: Iterable[Hashable], largest: int
) -> int:
    """The sensitivity of a deterministic suppressor on small data sets (miranda2026, Theorem 5.1).

    Parameters
    ----------
    suppressor
        Maps a data set to the kept positions.
    universe, largest
        Possible records and the largest number of them.

    Returns
    -------
    int
        The largest number of neighbouring steps between S(D) and S(D + y), walking only through data sets that
        are contained in some output of S. It is a lower bound of the sensitivity over larger data sets: one
        that grows with ``largest`` points to an unbounded one.

    Examples
    --------
    >>> below_two = lambda data: [i for i, x in enumerate(data) if x < 2]
    >>> suppressor_sensitivity(below_two, universe=[0, 1, 2, 3], largest=4)
    1
    """
    records = tuple(dict.fromkeys(universe))
    results: dict[Database, Database] = {}
    for size in range(requirements.positive_integer("largest", largest) + 1):
        for data in combinations_with_replacement(records, size):
            kept = sorted(set(suppressor(data)))
            results[data] = tuple(sorted((data[i] for i in kept), key=records.index))
    allowed = _closed_downwards(set(results.values()))
    worst = 0
    for data, record in _pairs(records, largest):
        grown = tuple(sorted((*data, record), key=records.index))
        worst = max(worst, _steps(results[data], results[grown], allowed, records))
    return worst


def _closed_downwards(databases: set[Database]) -> set[Database]:
    waiting, closed = list(databases), set(databases)
    while waiting:
        data = waiting.pop()
        for position in range(len(data)):
            smaller = data[:position] + data[position + 1 :]
            if smaller not in closed:
                closed.add(smaller)
                waiting.append(smaller)
    return closed


def _steps(start: Database, goal: Database, allowed: set[Database], records: Sequence[Hashable]) -> int:
    """Length of the shortest walk by adding and removing single records."""
    queue, seen = deque([(start, 0)]), {start}
    while queue:
        data, steps = queue.popleft()
        if data == goal:
            return steps
        smaller = (data[:position] + data[position + 1 :] for position in range(len(data)))
        larger = (tuple(sorted((*data, record), key=records.index)) for record in records)
        for other in (*smaller, *larger):
            if other in allowed and other not in seen:
                seen.add(other)
                queue.append((other, steps + 1))
    raise InvalidParameter("suppressor", start, "leaves data sets that are not connected", "Allow steps of one record.")
