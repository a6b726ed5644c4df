"""Slope: how one number changes with another, as the median slope of pairs of rows.

Public: ``session.slope("pay", on="age", epsilon=1.0)``. Least squares need the spread of the predictor over its bounds;
the median slope of pairs does not, so it is sharper where bounds are wide, and a few odd rows hardly move it. Proofs:
``docs/proofs/slope.md``.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, cast

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, NoPopulationInterval
from discreet.core.guarantee import Guarantee
from discreet.core.noise.sampler import Floats
from discreet.core.protection import Neighbours
from discreet.core.rows import Snapshot, matrix
from discreet.core.schema import Bounds
from discreet.core.sensitivity import Sensitivity, root_up
from discreet.mechanisms.choices.nested_counts import NestedCounts
from discreet.questions import form
from discreet.questions.question import (
    DeclaredColumns,
    Expected,
    Forecast,
    MeasuredQuestion,
    Measurement,
    first_of,
)
from discreet.results.display import Facts, Interval, within
from discreet.results.frames import Reading
from discreet.results.printed import told_numbers
from discreet.results.release import Release, Statistic

Array = NDArray[np.float64]
_PER_UNIT = 4096
"""Cells of the ladder per unit of asinh(slope/scale): a cell is as wide as 1/4096 of its slope."""
_FIRST = 0.12, 0.4, 0.9, 1.6, 3.0
"""Where the first counts are divided, to both sides, in such units: slopes are rarely much smaller than their scale."""
_DATA_SETS, _ANSWERS = 40, 8
"""From each data set so many releases: 95 % of the errors are then known to about 5 %."""
_MOST_PAIRS = 100

# ---- The order of rows: by a secret, so that pairs are a random matching, and each row's place is its own affair


def keyed(columns: Array, salt: str) -> tuple[Array, NDArray[np.bool_]]:
    """Rows in the order of a keyed hash of their values and of their number among equal rows, each with a bit of it.

    One row more is inserted somewhere and leaves the others as they are.
    """
    rows = np.ascontiguousarray(columns[np.lexsort((columns[:, 1], columns[:, 0]))] + 0.0)  # no negative zeros
    starts = np.flatnonzero(np.append(True, np.any(rows[1:] != rows[:-1], axis=1))[: len(rows)])
    copies = np.arange(len(rows)) - np.repeat(starts, np.diff(np.append(starts, len(rows))))
    blocks = _enciphered(rows, salt).copy()
    blocks[:, 1] ^= copies.astype(np.uint64)
    keys = _enciphered(blocks, salt)
    order = np.lexsort((keys[:, 1], keys[:, 0]))  # stable: where keys agree, values and numbers decide
    return rows[order], keys[order, 1] & np.uint64(1) == 1


def _enciphered(blocks: NDArray[Any], salt: str) -> NDArray[np.uint64]:
    """Blocks of 16 bytes under a secret permutation."""
    cipher = Cipher(algorithms.AES(hashlib.sha256(f"pairs|{salt}".encode()).digest()), modes.ECB())
    return np.frombuffer(cipher.encryptor().update(blocks.tobytes()), dtype=np.uint64).reshape(-1, 2)


def pair_slopes(columns: Array, pairs: int, salt: str) -> Array:
    """Slopes of every row with each of the next rows in the keyed order; without a run they are ±∞ by chance.

    ``columns`` holds the predictor and the outcome.
    """
    rows, bits = keyed(columns, salt)
    found = []
    for apart in range(1, min(pairs, len(rows) - 1) + 1):
        run, rise = (rows[apart:] - rows[:-apart]).T
        # Which of two rows comes first is by chance, and of equal rows a bit decides.
        toss = np.where(bits[apart:] ^ bits[:-apart], 1.0, -1.0)
        with np.errstate(divide="ignore", over="ignore"):
            found.append(np.where(rise == 0, np.where(run == 0, toss, 0.0), rise) / np.where(run == 0, 0.0, run))
    return np.concatenate(found) if found else np.zeros(0)


@lru_cache(maxsize=16)
def ladder_edges(scale: float, cells: int) -> Array:
    """Edges between 2·cells + 1 cells around zero: even in asinh(slope/scale)."""
    half = scale * np.sinh((np.arange(cells) + 0.5) / _PER_UNIT)
    return np.concatenate([-half[::-1], half])


@dataclass(frozen=True, kw_only=True)
class PairSlopes(Statistic):
    """The median of the slopes of pairs of rows, on a ladder of cells that are finer towards zero.

    Guarantee
    ---------
    One row more adds at most 2k slopes and parts at most k pairs: 3k cells move by one in all, under replace-one 6k.
    So ℓ₂ is at most √5·k and √18·k.
    Proof: ``docs/proofs/slope.md``.

    Parameters
    ----------
    predictor, outcome
        The public bounds and grids of the two columns.
    pairs
        With how many of the rows behind it each row makes a pair.
    interval
        Level of the interval.
    rows_at_least
        Public lower bound on the number of rows: the interval then covers the median slope of the population.

    Examples
    --------
    >>> slopes = PairSlopes(predictor=Bounds(0, 10, grid=1), outcome=Bounds(0, 100, grid=1))
    >>> slopes.sensitivity(neighbours=Neighbours.ADD_REMOVE).l1
    48.0
    """

    name: ClassVar[str] = "pair_slopes"
    predictor: Bounds
    outcome: Bounds
    pairs: int = 16
    interval: float = 0.95
    rows_at_least: int | None = None

    def __post_init__(self) -> None:
        for name in ("predictor", "outcome"):
            given = getattr(self, name)
            bounds = Bounds(**given) if isinstance(given, dict) else given
            object.__setattr__(self, name, requirements.instance(name, bounds, Bounds, "Bounds(0, 100, grid=1)"))
        if requirements.positive_integer("pairs", self.pairs) > _MOST_PAIRS:
            raise InvalidParameter("pairs", self.pairs, f"must be at most {_MOST_PAIRS}", "Pass pairs=16.")
        requirements.level(self.interval)
        if self.rows_at_least is not None:
            requirements.positive_integer("rows_at_least", self.rows_at_least)

    def release_type(self) -> type[Release]:
        return SlopeRelease

    @property
    def scale(self) -> float:
        """Where the cells of the ladder begin to widen: a quarter of a slope that spans both bounds."""
        run, rise = (bounds.high - bounds.low for bounds in (self.predictor, self.outcome))
        return rise / run / 4

    @property
    def cells(self) -> int:
        """Cells on either side of zero, up to the steepest slope of two different values of the predictor."""
        steepest = (self.outcome.high - self.outcome.low) / self.predictor.grid
        return math.ceil(_PER_UNIT * math.asinh(steepest / self.scale)) + 1

    def histogram(self, columns: Array, salt: str) -> NDArray[np.int64]:
        """The cells that slopes lie in, and how many do. Private."""
        # Comparisons are the same for a pair wherever it stands; a vectorised logarithm may round by its place.
        edges = ladder_edges(self.scale, self.cells)
        places = np.searchsorted(edges, pair_slopes(columns, self.pairs, salt)) - self.cells
        ends = [-self.cells, self.cells]  # which the grid has, whether a slope lies there or not
        steps, found = np.unique(np.concatenate([ends, places]).astype(np.int64), return_counts=True)
        return np.array([steps, found - np.isin(steps, ends)])

    def targets(self) -> dict[str, Any]:
        """The ladder."""
        return {"lowest": -self.cells, "highest": self.cells, "grid": 1.0}

    def intervals(self) -> dict[str, Any]:
        """What has to be read from counts: the median, of the data or of the population."""
        sampled = {} if self.rows_at_least is None else {"together": 1, "rows": self.rows_at_least, "pairs": self.pairs}
        to_a_side = [step for one in _FIRST if (step := round(one * _PER_UNIT)) < self.cells]
        first = (*(-step for step in reversed(to_a_side)), *to_a_side)
        return {"shares": (0.5,), "miss": 1 - self.interval, "first": first, **sampled, **self.targets()}

    def sensitivity(self, *, neighbours: Neighbours) -> Sensitivity:
        """How far one row moves the counts."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        moved = 3 * self.pairs * neighbours.sides
        # At most 2k in one cell and k from another; 3k and 3k where a row is replaced.
        square = (5 if neighbours is Neighbours.ADD_REMOVE else 18) * self.pairs**2
        return Sensitivity(l1=float(moved), l2=root_up(Fraction(square)))

    def mechanism(self, guarantee: Guarantee, sensitivity: Sensitivity) -> NestedCounts:
        """Counts with the least noise that meets a guarantee."""
        return NestedCounts.calibrate(guarantee, sensitivity, statistic=self)

    def shown_value(self, value: Floats) -> float:
        """The estimate, as a slope."""
        parts = np.asarray(value, dtype=float).reshape(-1, 3)
        return self.scale * math.sinh(parts[len(parts) // 2, 1] / _PER_UNIT)

    def ends(self, value: Floats) -> tuple[float, float]:
        """The ends of the interval, as slopes: the outer edges of their cells, and ±∞ at the ends of the ladder."""
        parts = np.asarray(value, dtype=float).reshape(-1, 3)
        edges = np.concatenate([[-np.inf], ladder_edges(self.scale, self.cells), [np.inf]])
        return float(edges[int(parts[0, 0]) + self.cells]), float(edges[int(parts[-1, 2]) + self.cells + 1])


@dataclass(frozen=True)
class SlopeRelease(Release):
    """A published slope, with the interval that was published with it."""

    @property
    def _of(self) -> PairSlopes:
        return cast(PairSlopes, self.statistic)

    def noise_interval(self, level: float | None = None) -> Interval:
        """The interval that was published, of the level it was planned for.

        It covers the median slope of the pairs of the data, or of the population where ``rows_at_least`` was declared.
        """
        planned = self._of.interval
        if level is not None and level != planned:
            raise InvalidParameter("level", level, f"the interval was published at {planned}", "Leave level out.")
        return Interval(*self._of.ends(self.measured), planned)

    def population_interval(self, level: float | None = None) -> Interval:
        """Interval for the population's median slope, where a number of rows was declared."""
        if self._of.rows_at_least is None:
            raise NoPopulationInterval(
                "release",
                "a slope",
                "must be asked for the population, whose interval is wider",
                "Ask with rows_at_least=…, a public lower bound of the number of rows.",
            )
        self.require_sample()
        return self.noise_interval(level)

    def readings(self, columns: Sequence[str] = ()) -> list[Reading]:
        """The slope with its interval."""
        found, sampled = self.noise_interval(), self._of.rows_at_least is not None
        return [Reading("", self.estimate, None if sampled else found, found if sampled else None, measure="slope")]

    def facts(self) -> Facts:
        """The facts to show of a slope."""
        return [*told_numbers([self.readings()[0].to_dict()]), *self.protection_facts()]


@lru_cache(maxsize=64)
def _typical_ends(statistic: PairSlopes, mechanism: NestedCounts, rows: int) -> Array:
    """Distances of the farther end from the slope, which is 0, where rows are spread evenly over both bounds."""
    rng = np.random.default_rng(1)  # no data is read: a plan says the same each time
    spread = [(bounds.low, bounds.high) for bounds in (statistic.predictor, statistic.outcome)]
    data = [np.column_stack([rng.uniform(*ends, rows) for ends in spread]) for _ in range(_DATA_SETS)]
    histograms = [statistic.histogram(columns, str(place)) for place, columns in enumerate(data)]
    counted = [one for one in histograms for _ in range(_ANSWERS)]
    drawn = mechanism.simulated([(steps, rows) for steps, rows in counted], rng)
    return np.array([max(map(abs, statistic.ends(np.ravel(one)))) for one in drawn])


@dataclass(frozen=True)
class SlopeQuestion(MeasuredQuestion[SlopeRelease]):
    """Slope of one number on another: the median of the slopes of pairs of rows, with an interval.

    Least squares (`RegressionQuestion`) take more predictors. This is sharper where a predictor varies little within
    its bounds, and a few odd rows hardly move it. Where errors are symmetric, both estimate the same slope.

    Guarantee
    ---------
    As `PairSlopes`. Proof: ``docs/proofs/slope.md``.

    Parameters
    ----------
    column, on
        The outcome and the predictor.
    pairs
        With how many others each row makes a pair on either side; more of them sample the data better.
    rows_at_least
        Public lower bound on the number of rows: the interval then covers the slope of the population.

    Examples
    --------
    >>> from discreet import Bounds, Schema
    >>> schema = Schema(columns={"age": Bounds(18, 100, grid=1), "pay": Bounds(0, 200, grid=1)})
    >>> SlopeQuestion(schema, "pay", on="age", epsilon=1.0, expected_rows=5000).plan().error_95 < 0.3
    True
    """

    topic: ClassVar[str] = "Numbers"
    answers: ClassVar[str] = "By how much does one number change with another?"
    ask: ClassVar[str] = "slope"
    also: ClassVar[tuple[str, ...]] = ("theil_sen", "trend")
    heading: ClassVar[str] = "Slope of {subject}"
    meaning: ClassVar[str] = "The median slope of {subject} over pairs of rows."
    behind: ClassVar[None] = None  # one row more moves several pairs, and a sample of rows pairs others
    forms: ClassVar[form.Forms] = {
        "column": form.COLUMN,
        "on": form.COLUMN,
        "pairs": form.WHOLE,
        "interval": form.NUMBER,
        "rows_at_least": form.WHOLE,
        "expected_rows": form.WHOLE,
    }
    column: str
    on: str
    _: KW_ONLY
    pairs: int = 16
    interval: float = 0.95
    rows_at_least: int | None = None
    expected_rows: int | None = None

    @classmethod
    def suggested(cls, columns: DeclaredColumns) -> dict[str, Any]:
        return {"column": first_of(columns.numbers), "on": first_of(columns.numbers, 1)}

    def columns_read(self) -> tuple[str, ...]:
        return self.column, self.on

    def heading_words(self, words: Mapping[str, str]) -> str:
        return f"{super().heading_words(words)} on {within(words[self.on]) if self.on in words else self.on}"

    def _measured(self) -> Measurement:
        for name in ("column", "on"):
            requirements.instance(name, getattr(self, name), str, f'{name}="age"')
        if self.on == self.column:
            raise InvalidParameter("on", self.on, "is the outcome itself", "Name another column.")
        if not self.schema.unit_is_row:
            rule = "pairs are made of rows, so a unit must be a row"
            raise InvalidParameter("unit", self.schema.unit.name, rule, "Ask of data with one row per unit.")
        public = self.public_size(self.column, self.on)
        statistic = PairSlopes(
            predictor=self.schema.bounds(self.on),
            outcome=self.schema.bounds(self.column),
            pairs=self.pairs,
            interval=self.interval,
            rows_at_least=public if self.rows_at_least is None else self.rows_at_least,
        )
        sensitivity = statistic.sensitivity(neighbours=self.schema.neighbours)
        mechanism = statistic.mechanism(self.guarantee, sensitivity)

        def value(rows: Snapshot) -> Any:
            return statistic.histogram(matrix(rows, [self.on, self.column]), rows.salt)

        told = statistic.rows_at_least if self.expected_rows is None else self.expected_rows
        rows = round(Expected(rows=told).rows_per_group())
        return Measurement(
            statistic=statistic,
            sensitivity=sensitivity,
            mechanism=mechanism,
            columns=(self.column, self.on),
            public={},
            from_rows=value,
            read="a slope's farther end",
            forecast=lambda: Forecast(
                error=lambda level: float(
                    np.quantile(_typical_ends(statistic, mechanism, rows), level, method="higher")  # some are infinite
                ),
                scenario=Expected(rows=rows).words(),
            ),
        )
