"""Column profile: what the counts of a profile say of one column, each figure with its interval."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.columns import EPOCH, Bounds, Column, Dates, Order, PrivateLabels
from discreet.core.rows import Snapshot
from discreet.core.rows.expressions import identifier
from discreet.core.rows.keep import EXACT_DIGITS, MISSING, OTHER, one_row_each, shortened, typed, typed_texts
from discreet.core.rows.read import Dataset, Dialect
from discreet.core.rows.snapshot import UNIT, stored
from discreet.inference.noise import NoiseSum, excess_kurtosis, largest_variance
from discreet.mechanisms.mechanism import Mechanism
from discreet.results.display import Interval

# ---- Unit rows: one row of each unit, read once by whoever counts its values.
#
# The embedded engine brings values here in batches. Plain texts are read here; the engine types the others, each once.
# Engines that may hold more than fits here count where the data lies.


# ---- Plain texts: numbers and dates as most programs write them, read by Arrow's casts at a fraction of the usual cost
#
# What a text means is the engine's to say, by the rules of ``docs/proofs/rows.md``. Arrow reads fewer texts than
# these rules do, and reads them alike: what it refuses, and what it might read otherwise, is left to the engine. So the
# rules decide what a text means, and other texts in its column decide only how fast it is read.


_DAY = 86_400_000_000
"""Microseconds."""
_YEAR_ONE = -719_162
"""Day of 0001-01-01: the year 0 is no date."""
_TRIED = 32
_UNCLEAR = r"^[ \t]*(?:[+-]?(?:[0-9.,]|(?i:true|false|inf))|\z)"
"""Texts that begin otherwise are words, unless symbols may stand before a number."""
_NUMBER = r"^[+-]?(?:[0-9]+(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:[eE][+-]?[0-9]+)?\z"


def plain_values(texts: Any, *, written: Dialect, order: Order = "ymd") -> tuple[Any, Any, Any]:
    """Numbers and days of plain texts, as arrays or one value for all, and the texts that are not plain.

    Empty and null texts are plain, and so are words: they have no number, and no day.

    Examples
    --------
    >>> import pyarrow as pa
    >>> numbers, days, others = plain_values(pa.array(["1.50", "", "north", "3 or 4"]), written=Dialect())
    >>> numbers.tolist(), (days == OTHER).tolist(), others.to_pylist()
    ([1.5, nan, nan], [False, False, True], ['3 or 4'])
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    some = pc.binary_length(texts).cast(pa.bool_())
    held = texts if some.true_count == len(texts) else texts.filter(some)
    missing = len(texts) - len(held)
    if written.decimal == "." and (numbers := _numbers(held)) is not None:
        return np.append(numbers, np.full(missing, np.nan)), MISSING, held[:0]
    if order == "ymd" and (days := _days(held)) is not None:
        return np.float64(np.nan), np.append(days, np.full(missing, MISSING)), held[:0]
    trimmed = pc.ascii_trim(held, " \t")
    plain = pc.match_substring_regex(trimmed, _NUMBER.format(mark=re.escape(written.decimal)))
    numbers = _numbers(pc.replace_substring(trimmed.filter(plain), written.decimal, "."))
    if numbers is None:
        return np.full(missing, np.nan), MISSING, held
    others = held.filter(pc.invert(plain))
    if written.symbols:
        return np.append(numbers, np.full(missing, np.nan)), MISSING, others
    unclear = pc.match_substring_regex(others, _UNCLEAR)
    words = len(others) - unclear.true_count
    days = np.repeat([MISSING, OTHER], [len(numbers) + missing, words])
    return np.append(numbers, np.full(missing + words, np.nan)), days, others.filter(unclear)


def _numbers(texts: Any) -> NDArray[np.float64] | None:
    """The numbers; None where a text has no number: ``nan`` is none."""
    import pyarrow as pa

    cast = _cast(texts, pa.float64())
    if cast is None:
        return None
    numbers = array_of(cast)
    return None if np.isnan(numbers).any() else numbers


def _days(texts: Any) -> NDArray[np.int64] | None:
    """The days; None where a text has none, or has one that Arrow reads otherwise."""
    import pyarrow as pa

    cast = _cast(texts, pa.timestamp("us"))
    if cast is None:
        return None
    days = array_of(cast.cast(pa.int64())) // _DAY
    return None if np.any(days < _YEAR_ONE) else days


def _cast(texts: Any, kind: Any) -> Any:
    """All texts as another type, or None; the first ones are tried first, since Arrow is slow where it fails."""
    import pyarrow as pa

    try:
        texts[:_TRIED].cast(kind)
        return texts.cast(kind)
    except pa.ArrowInvalid:
        return None


def array_of(column: Any) -> NDArray[Any]:
    """An Arrow column without nulls, straight from its buffer: Arrow's own way imports pandas."""
    found = np.frombuffer(column.buffers()[1], column.type.to_pandas_dtype(), column.offset + len(column))
    return found[column.offset :]


_AT_ONCE, _ROWS = 2**23, 2**16
"""Values, and rows, that are brought here at a time: one column then fits a processor's cache."""
_ROOM = 2**28
"""Bytes that texts which are not plain may take here; each column has an equal part."""


@dataclass(frozen=True)
class UnitRows:
    """One row of each unit, still private: of column k its numbers ``nk``, its days ``dk``, or its texts ``tk``."""

    dataset: Dataset
    table: Any
    order: Order

    def __repr__(self) -> str:
        return "UnitRows(…)"

    def visit(self, visitor: FineCounts) -> None:
        """Show all values, in one pass; columns with many texts that are not plain take another. Private."""
        if self.dataset.engine != "duckdb":
            self._add_counted(visitor, shortened(stored(self.dataset, self._typed(self.table))))
            return
        left, hard = self._visit_plain(visitor)
        if left is not None:
            self._add_counted(visitor, typed_texts(left, self.dataset.written, self.order))
        if hard:
            self._scan(self._typed(self.table.select(*hard)), lambda values: _add_batch(visitor, values))

    def distinct(self, places: Sequence[int]) -> list[int]:
        """The number of different values of each column. Private."""
        columns = [self.table[name] for name in self.table.columns]  # in the order of their places
        named = {f"s{k}": identifier(columns[k], "") if columns[k].type().is_string() else columns[k] for k in places}
        found = self.dataset.fetch(self.table.aggregate(**{name: one.nunique() for name, one in named.items()}))
        return [int(column[0].as_py()) for column in found.columns]

    def _typed(self, rows: Any) -> Any:
        return typed(rows, self.dataset.written, self.order)

    def _scan(self, rows: Any, visit: Callable[[dict[str, Any]], None]) -> None:
        numbers = {name: rows[name].fill_null(np.nan) for name in rows.columns if name[0] == "n"}
        size = min(max(_AT_ONCE // len(rows.columns), 1), _ROWS)

        def batch(found: Any) -> None:
            visit(dict(zip(found.schema.names, found.columns, strict=True)))

        self.dataset.scan(rows.mutate(**numbers), batch, size)

    def _visit_plain(self, visitor: FineCounts) -> tuple[Any, list[str]]:
        """Texts that are not plain, as counted in each batch, and the columns that have too many of them."""
        texts = [name for name in self.table.columns if name[0] == "t"]
        left: dict[str, list[Any]] = {name: [] for name in texts}

        def batch(values: dict[str, Any]) -> None:
            _add_batch(visitor, {name: column for name, column in values.items() if name[0] != "t"})
            for name in [*left]:
                numbers, days, others = plain_values(values[name], written=self.dataset.written, order=self.order)
                visitor.add(int(name[1:]), numbers, numbers != np.floor(numbers), days, 1)
                left[name].append(others.value_counts())
                if sum(part.nbytes for part in left[name]) > _ROOM // len(values):
                    del left[name]
                    visitor.forget(int(name[1:]))

        self._scan(self.table, batch)
        return _joined(left), [name for name in texts if name not in left]

    def _add_counted(self, visitor: FineCounts, counted: Any) -> None:
        found = self.dataset.fetch(counted.mutate(n=counted.n.fill_null(np.nan)))
        places, numbers, decimals, days, held = (array_of(column.combine_chunks()) for column in found.columns)
        for place in np.unique(places).tolist():
            own = places == place
            visitor.add(place, numbers[own], decimals[own], days[own], held[own])


def _joined(left: Mapping[str, Sequence[Any]]) -> Any:
    """One Arrow table of places, texts and counts; None where there are no texts."""
    import pyarrow as pa

    parts = [(int(name[1:]), part) for name, counted in left.items() for part in counted if len(part)]
    if not parts:
        return None
    columns = zip(*([_repeated(place, len(part)), *part.flatten()] for place, part in parts), strict=True)
    return pa.table([pa.chunked_array(column) for column in columns], names=["j", "t0", "held"])


def _repeated(place: int, times: int) -> Any:
    """An Arrow column of one number, from a buffer: Arrow's own way imports pandas."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int64(), times, [None, pa.py_buffer(np.full(times, place))])


def _add_batch(visitor: FineCounts, values: Mapping[str, Any]) -> None:
    """Show numbers and days of a batch."""
    for place in {name[1:] for name in values}:
        numbers = array_of(values[f"n{place}"]) if f"n{place}" in values else np.float64(np.nan)
        days = array_of(values[f"d{place}"]) if f"d{place}" in values else MISSING
        visitor.add(int(place), numbers, numbers != np.floor(numbers), days, 1)


def unit_rows(snapshot: Snapshot, columns: Sequence[str], order: Order) -> UnitRows:
    """One row of each unit, with columns of the source. Private."""
    return UnitRows(snapshot.dataset, one_row_each(snapshot, columns, order), order)


def unit_sizes(snapshot: Snapshot) -> Any:
    """Numbers of rows that units have, and how many units have each. Private."""
    units = snapshot.table.group_by(UNIT).aggregate(held=snapshot.table.count())
    return snapshot.dataset.fetch(units.group_by("held").aggregate(n=units.count()))


# ---- Fine cells: where the values of a column lie, counted once, so that any coarser grid follows without another look
#
# A fine cell of numbers is what one sign, exponent and first binary digits have in common: 256 of them divide an
# octave.
# A day is a fine cell of dates. A value's fine cell depends on that value alone.


_LOWEST, _HIGHEST = -16, 48
"""Octaves that are told apart. Smaller numbers are zero or the largest negative ones, larger ones are alike."""
_FIRST = (1023 + _LOWEST) << EXACT_DIGITS
_CELLS = ((_HIGHEST - _LOWEST) << EXACT_DIGITS) + 1
"""Fine cells of positive numbers. Negative ones have one more, for what lies below all of them."""
_EARLIEST, _LATEST = -40_000, 40_000
"""Days that are told apart; others count with the last of them, or below the first."""
_NUMBERS = 2
_DATES = _NUMBERS + 2 * (2 * _CELLS + 2)
_CODES = _DATES + _LATEST - _EARLIEST + 2
"""Codes: missing, other text, two for each fine cell of numbers (without decimals, and with), then days."""

Codes = NDArray[np.int64]


def number_cells(values: NDArray[np.float64]) -> Codes:
    """Fine cells of numbers, in their order; zero is 0.

    The bits of a float are its sign, its exponent and its digits, so the first of them number its cell. Negative
    numbers are rounded down too: a cell holds its lower edge.

    Examples
    --------
    >>> cells = number_cells(np.array([-1.0, -0.0, 0.0, 1.0, 1.001, 1.004]))
    >>> (cells - cells[2]).tolist()
    [-4097, 0, 0, 4097, 4097, 4098]
    """
    bits = np.asarray(values, dtype=np.float64).view(np.int64)
    sign = bits >> 63
    place = bits & (2**63 - 1)
    place ^= sign
    place -= sign
    place >>= 52 - EXACT_DIGITS
    cells = np.clip(place - (_FIRST - 1), 0, _CELLS)
    cells += place >> 63
    place += _FIRST
    return np.asarray(cells + np.clip(place, -_CELLS, 0))


def _lower_edges() -> NDArray[np.float64]:
    """The least number of each fine cell, from the lowest one on."""
    positive = ((np.arange(_CELLS) + _FIRST) << (52 - EXACT_DIGITS)).view(np.float64)
    return np.concatenate([[-np.inf], -positive[::-1], [0.0], positive])


_LEAST = _lower_edges()


@dataclass(frozen=True)
class ColumnCells:
    """The cells of a column: missing is 0, other text 1; then numbers between edges, and dates between edges.

    A cell holds its lower edge and not its upper one; the first and the last are open. Where they are ``split``, each
    cell of numbers is two: of whole numbers, and of others. Edges of numbers move down to those of fine cells.

    Examples
    --------
    >>> ColumnCells((0.0, 1.0, 1.001, 1000.5)).numbers
    (0.0, 1.0, 1000.0)
    """

    numbers: tuple[float, ...] = ()
    dates: tuple[float, ...] = ()
    split: bool = False

    def __post_init__(self) -> None:
        fine = _LEAST[number_cells(np.asarray(self.numbers, dtype=np.float64)) + _CELLS + 1]
        object.__setattr__(self, "numbers", tuple(sorted({*fine.tolist()})))

    @property
    def first_date(self) -> int:
        """Number of the first cell of dates."""
        return 2 + (len(self.numbers) + 1) * (1 + self.split)

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.first_date + len(self.dates) + 1


@dataclass(frozen=True, eq=False)
class FineCounts:
    """The number of values in each fine cell, column by column; columns are told by their places. Private."""

    counts: Sequence[Codes]

    def __repr__(self) -> str:
        return "FineCounts(…)"

    def add(self, place: int, numbers: Any, decimals: Any, days: Any, times: Any) -> None:
        """Add numbers (NaN where there is none), whether they have decimals, days, and how often each counts.

        Arrays of one length, or one value for all. Days count from 1970-01-01, and speak where there is no number.
        """
        found = np.bincount(_codes(numbers, decimals, days), None if np.isscalar(times) else times)
        self.counts[place][: found.size] += found.astype(np.int64, copy=False)

    def forget(self, place: int) -> None:
        """Take back all that was added of a column."""
        self.counts[place][:] = 0

    def column(self, place: int) -> FineCounts:
        """The counts of one column alone."""
        return FineCounts([self.counts[place]])

    def cells(self, grid: ColumnCells) -> list[int]:
        """The number of values of the first column in each cell of a grid."""
        own = self.counts[0]
        codes = np.flatnonzero(own)
        place, decimals = np.divmod(np.clip(codes, _NUMBERS, _DATES - 1) - _NUMBERS, 2)
        number = 2 + np.searchsorted(grid.numbers, _LEAST[place], "right") * (1 + grid.split) + decimals * grid.split
        days = np.where(codes > _DATES, codes - _DATES + _EARLIEST - 1.0, -np.inf)
        date = grid.first_date + np.searchsorted(grid.dates, days, "right")
        cells = np.where(codes < _NUMBERS, codes, np.where(codes < _DATES, number, date))
        counts = np.zeros(grid.size, np.int64)
        np.add.at(counts, cells, own[codes])
        return [int(count) for count in counts]


def _codes(numbers: Any, decimals: Any, days: Any) -> Codes:
    """The codes of values: of their number, or of their day where there is none."""
    codes = number_cells(numbers)
    codes *= 2
    codes += decimals
    codes += _NUMBERS + 2 * (_CELLS + 1)
    date = np.clip(days, _EARLIEST - 1, _LATEST) - (_EARLIEST - 1) + _DATES
    other = np.where(np.asarray(days) > OTHER, date, np.asarray(days) == OTHER)
    return np.asarray(np.where(np.isnan(numbers), other, codes))


def fine_counts(rows: UnitRows, columns: Sequence[str]) -> dict[str, FineCounts]:
    """Of each column, how many values lie in each fine cell, one row of each unit. Private."""
    found = FineCounts([np.zeros(_CODES, np.int64) for _ in columns])
    rows.visit(found)
    return {name: found.column(place) for place, name in enumerate(columns)}


def sizes_between(snapshot: Snapshot, edges: Sequence[float]) -> list[int]:
    """The number of units by their number of rows, between edges. Private."""
    found = unit_sizes(snapshot).to_pydict()
    counts = np.zeros(len(edges) + 1, np.int64)
    np.add.at(counts, np.searchsorted(edges, found["held"], "right"), found["n"])
    return [int(count) for count in counts]


# ---- Column profile: what the counts of a profile say of one column, each figure with its interval.


# ---- Found bounds: from noisy counts in cells to a range that holds a share of the values. Post-processing alone


Array = NDArray[np.float64]
_FALSE_ALARM = 0.002
"""The chance that noise alone makes a cell of an empty column stand out."""
_NEXT_TO_IT = 2.5
"""Standard errors from which a cell beside one that stands out belongs to it."""
_CLEAR = 4.0
"""Standard errors from which a cell is no noise: beyond the last such cell, counts are taken to fall outwards."""
_SAFE = 3.0
"""Standard errors of one count by which a range should lose less than it may."""
_WIDER = 1.25
"""A range may be so much wider than the narrowest that seems to hold enough, to be safe or to lose less."""
_NEARLY = 1.02
"""Among ranges that are wider by so little, the one that loses least is chosen."""

_SOME_NOISE = 1e-2


@dataclass(frozen=True)
class FoundBounds:
    """A range between two edges.

    Attributes
    ----------
    low, high
        The range: values from ``low`` to less than ``high``.
    first, last
        The places of both edges.
    """

    low: float
    high: float
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class CellCounts:
    """Noisy counts between edges, with the noise they carry.

    Attributes
    ----------
    edges
        In order; a value that equals an edge lies above it. Both outermost cells are open.
    counts
        One more than edges.
    mechanism
        Whose noise each count carries, independently.
    summed
        How many measured counts make up each of these.
    """

    edges: tuple[float, ...]
    counts: Array
    mechanism: Mechanism
    summed: int = 1

    @cached_property
    def deviation(self) -> float:
        """Standard deviation of one count."""
        return float(np.sqrt(self.summed * largest_variance(self.mechanism)))

    def standing_out(self) -> tuple[int, int] | None:
        """First and last cell of what noise cannot explain, with what adjoins it; None where there is nothing."""
        found = np.flatnonzero(self.counts > _noise_reaches(self.mechanism, self.summed, self.counts.size))
        if not found.size:
            return None
        first, last = int(found[0]), int(found[-1])
        beside = self.counts > _NEXT_TO_IT * self.deviation
        while last + 1 < self.counts.size and beside[last + 1]:
            last += 1
        while first > 0 and beside[first - 1]:
            first -= 1
        return first, last

    def clear(self) -> NDArray[np.intp]:
        """The cells that are no noise."""
        return np.flatnonzero(self.counts > _CLEAR * self.deviation)

    def adjusted(self, other: CellCounts) -> Array:
        """These counts, corrected by others of the same values: least squares over blocks between common edges."""
        common = sorted(set(self.edges) & set(other.edges))
        own, theirs = (np.searchsorted(common, [-np.inf, *edges], side="right") for edges in (self.edges, other.edges))
        found = self.counts.astype(float)
        for block in range(len(common) + 1):
            mine, its = own == block, theirs == block
            spread = mine.sum() * self.deviation**2
            others = its.sum() * other.deviation**2
            found[mine] += (other.counts[its].sum() - self.counts[mine].sum()) * self.deviation**2 / (spread + others)
        return found

    def bounds(self, share: float, counts: Array | None = None) -> FoundBounds:
        """A range between edges that holds ``share`` of the values: the narrowest that does so with a margin for noise.

        Where none that is about as narrow as possible has the margin, the range that loses least is chosen.
        """
        used = self.counts if counts is None else counts
        below, above = self._tail(used[::-1])[::-1], self._tail(used)
        allowed = (1 - share) * max(float(used.sum()), 1.0)
        edges = np.asarray(self.edges)
        loss, width = below[:, None] + above[None, :], edges[None, :] - edges[:, None]
        fits = (width > 0) & (loss <= allowed)
        if not fits.any():
            return FoundBounds(float(edges[0]), float(edges[-1]), 0, edges.size - 1)
        near = fits & (width <= _WIDER * width[fits].min())
        safe = near & (loss + _SAFE * self.deviation <= allowed)
        if safe.any():
            near = safe & (width <= _NEARLY * width[safe].min())
        place = int(np.argmin(np.where(near, loss, np.inf)))
        first, last = (int(one) for one in np.unravel_index(place, loss.shape))
        return FoundBounds(float(edges[first]), float(edges[last]), first, last)

    def _tail(self, counts: Array) -> Array:
        """About how many values lie above each edge.

        What noise hides is taken to fall outwards: beyond the last cell that is clear, or beyond the median. So the
        noise of a long tail averages out, and a spike that is clear stays where it is.
        """
        median = int(np.searchsorted(np.maximum.accumulate(np.cumsum(counts)), counts.sum() / 2))
        clear = replace(self, counts=counts).clear()
        start = min(max(median, int(clear[-1]) if clear.size else 0), counts.size - 1)
        smooth = np.r_[counts[:start], _falling(counts[start:])]
        above: Array = np.maximum(np.cumsum(smooth[::-1])[::-1][1:], 0.0)
        return above

    def outside(self, found: FoundBounds, level: float) -> tuple[float, float, float]:
        """The number of values outside a range that was chosen among these edges, with an interval.

        The interval is valid for all ranges between edges at once, so that the choice cannot spoil it.
        """
        counts = np.r_[self.counts[: found.first + 1], self.counts[found.last + 1 :]]
        ranges = len(self.edges) * (len(self.edges) - 1) / 2 or 1
        size = np.array([float(counts.size)])
        reach = float(self._reach(size, size, 1 - (1 - level) / ranges)[0])
        total = float(counts.sum())
        return total, total - reach, total + reach

    def beyond(self, edge: int, level: float) -> tuple[float, float, float]:
        """The number of values that reach an edge chosen among these, with an interval that is valid for all edges."""
        counts = self.counts[edge + 1 :]
        size = np.array([float(counts.size)])
        reach = float(self._reach(size, size, 1 - (1 - level) / len(self.edges))[0])
        total = float(counts.sum())
        return total, total - reach, total + reach

    def _reach(self, squares: Array, fourths: Array, level: float) -> Array:
        """The reach of sums of noise around zero, from the sums of squares and fourth powers of their weights.

        One noise stands for each sum: of the same variance, and of the largest kurtosis among them.
        """
        kurtosis = kurtosis_of(self.mechanism) * float(np.max(fourths / squares**2)) / self.summed
        return NoiseSum(0.0, (self.deviation * np.sqrt(squares))[None], kurtosis).quantile((1 + level) / 2)

    def quantile(self, q: float, level: float) -> tuple[float, float, float]:
        """A quantile of the values, and the edges between which it lies with probability ``level``.

        The quantile is above an edge where (1 − q)·(values below) < q·(values above); each edge gets its part of
        1 − level. An end that is not known is infinite.
        """
        edges = np.asarray(self.edges)
        below = np.cumsum(self.counts)[:-1]
        above = np.cumsum(self.counts[::-1])[::-1][1:]
        tilt = (1 - q) * below - q * above
        reach = _tilt_reaches(self.mechanism, self.summed, edges.size, q, level)
        sure_below = np.flatnonzero(tilt + reach < 0)
        sure_above = np.flatnonzero(tilt - reach > 0)
        low = float(edges[sure_below[-1]]) if sure_below.size else -np.inf
        high = float(edges[sure_above[0]]) if sure_above.size else np.inf
        return self._interpolated(tilt), low, max(high, low)

    def _interpolated(self, tilt: Array) -> float:
        """Where the tilt, made to rise, crosses zero."""
        rising = -_falling(-tilt, floor=None)
        return float(np.interp(0.0, rising, np.asarray(self.edges)))


@lru_cache(maxsize=256)
def _noise_reaches(mechanism: Mechanism, summed: int, cells: int) -> float:
    """The number that the largest count of an empty column stays below; columns share it."""
    cell = CellCounts((), np.zeros(1), mechanism, summed)
    return float(cell._reach(np.ones(1), np.ones(1), 1 - 2 * _FALSE_ALARM / cells)[0])


@lru_cache(maxsize=512)
def _tilt_reaches(mechanism: Mechanism, summed: int, edges: int, q: float, level: float) -> Array:
    """The reach of the noise in the tilt at each of so many edges; columns share it."""
    cells = np.arange(1, edges + 1)
    squares, fourths = (cells * (1 - q) ** k + (edges + 1 - cells) * q**k for k in (2, 4))
    return CellCounts((), np.zeros(1), mechanism, summed)._reach(squares, fourths, 1 - (1 - level) / edges)


@lru_cache(maxsize=64)
def kurtosis_of(mechanism: Mechanism) -> float:
    """Excess kurtosis of a mechanism's noise."""
    law = mechanism.law(0.0)
    # Noise that is all but nothing has no shape to measure; the largest kurtosis errs on the safe side.
    return excess_kurtosis(law) if float(np.max(np.asarray(law.variance))) > _SOME_NOISE else 3.0


def _falling(values: Array, floor: float | None = 0.0) -> Array:
    """The nearest sequence that never rises (pool adjacent violators), not below ``floor``."""
    pools: list[tuple[float, int]] = []
    for value in values.tolist():
        mean, size = value, 1
        while pools and pools[-1][0] < mean:
            before, count = pools.pop()
            mean, size = (before * count + mean * size) / (count + size), count + size
        pools.append((mean, size))
    found = np.repeat([mean for mean, _ in pools], [size for _, size in pools])
    return found if floor is None else np.maximum(found, floor)


def whole_numbers(counts: Sequence[Any]) -> tuple[Array, Array]:
    """Counts of whole numbers and of others, from cells that tell them apart."""
    pairs = np.asarray(counts, dtype=float).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


# ---- Cell edges: the public grids on which a profile counts, each chosen from what was released before
#
# The first grid covers every number and date: octaves on both sides of zero, and decades. The second divides what the
# first found into quarters of octaves. The third divides a narrow range once more.


_SMALLEST, _LARGEST = -10, 40
"""Octaves begin at 2^-10; numbers beyond 2^40 share one cell."""
_OCTAVES = tuple(2.0**power for power in range(_SMALLEST, _LARGEST + 1))
FIRST_NUMBERS = (*(-octave for octave in reversed(_OCTAVES)), *_OCTAVES)
FIRST_DATES = tuple(float((date(year, 1, 1) - EPOCH).days) for year in range(1900, 2051, 10))
UNIT_SIZES = (2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025)
"""Units have one row, two, three, four, 5–6, 7–8, 9–12, …, or more than 1,024."""
_PARTS = 4
"""Parts of an octave. More of them add up to more noise in a tail; fewer make bounds too wide."""
_DEPTH = 3
"""Octaves that are divided, from the largest down: what is smaller than an eighth of it is close to zero."""


FIRST = ColumnCells(FIRST_NUMBERS, FIRST_DATES, split=True)
"""The cells of a column of which nothing is known."""


def octave_quarters(low: float, high: float, *, whole: bool) -> tuple[float, ...]:
    """Edges between two edges of the first grid: quarters of the largest octaves, and one octave beyond.

    Examples
    --------
    >>> octave_quarters(16.0, 32.0, whole=True)
    (8.0, 16.0, 20.0, 24.0, 28.0, 32.0, 64.0)
    """
    largest = max(abs(low), abs(high))
    edges: set[float] = set()
    for sign, end, start in ((1.0, high, max(low, 0.0)), (-1.0, -low, max(-high, 0.0))):
        octave = end
        while octave > max(start, 0.0) and octave > largest / 2**_DEPTH:
            half = octave / 2
            edges |= {sign * (half + half * part / _PARTS) for part in range(_PARTS + 1)}
            octave = half
        if end > 0:
            edges |= {sign * octave, sign * 2 * end} | ({0.0} if start < octave else {sign * start / 2})
    if 0.0 in edges and high > 0:
        edges.add(1.0 if whole else _OCTAVES[0])  # zero gets a cell of its own: many columns have a spike there
    return tuple(sorted({math.ceil(edge) + 0.0 for edge in edges} if whole else edges))


def even_edges(low: float, high: float, *, whole: bool, parts: int = 16) -> tuple[float, ...]:
    """Edges at even distances; whole numbers where values are whole.

    Examples
    --------
    >>> even_edges(1984.0, 2048.0, whole=True, parts=4)
    (1984.0, 2000.0, 2016.0, 2032.0, 2048.0)
    """
    step = (high - low) / parts
    step = max(1.0, math.ceil(step)) if whole else step
    count = max(1, math.ceil((high - low) / step - 1e-9))
    return tuple(low + step * place for place in range(count + 1))


def tidy_bounds(low: float, high: float, *, whole: bool) -> tuple[float, float]:
    """Bounds moved outwards to short decimals, by at most a hundredth of their distance.

    Examples
    --------
    >>> tidy_bounds(0.375, 51.25, whole=False)
    (0.3, 51.3)
    """
    if whole:
        return float(math.floor(low)), float(math.ceil(high))
    digits = 2 - math.floor(math.log10(high - low))
    scale = 10.0**digits
    return round(math.floor(low * scale) / scale, digits), round(math.ceil(high * scale) / scale, digits)


def between(edges: Sequence[float], first: int, last: int) -> tuple[float, float]:
    """The ends of a run of cells; an open end is one cell further, and what is all but zero is zero."""
    low = 2 * edges[0] - edges[1] if first == 0 else edges[first - 1]
    high = 2 * edges[-1] - edges[-2] if last == len(edges) else edges[last]
    low, high = (0.0 if abs(end) <= _OCTAVES[0] else end for end in (low, high))
    return (low, high) if low < high else (0.0, 1.0)


QUARTILES = (0.25, 0.5, 0.75)
_FEW_FRACTIONS = 0.1
"""Numbers of which fewer than this proportion have decimals are whole numbers."""
_NARROW = 3
"""Cells; a range that far from zero and that narrow is divided once more."""
_MOST_STEPS = 2**40
"""Grid steps from zero that bounds may have."""
_SHARP = 0.02
"""Proportions whose interval is no longer are told without it."""
_MOST_CODES, _NEARLY_ALL = 10, 0.99
_MARKED = 10_000
"""Numbers from here on get marks between thousands: 1984 may be a year."""
_PER_LABEL = 10
"""Units per distinct value from which text is a label."""
_HALF = 0.5
"""Bounds that may hold less are not offered as a declaration."""


def percent(proportion: float) -> str:
    """A proportion as people write it."""
    return f"{100 * proportion:.0f} %"


@dataclass(frozen=True)
class ProfiledNumber:
    """A figure and the interval that the noise leaves it."""

    value: float
    interval: Interval

    def proportion_words(self) -> str:
        """A proportion in words: with its interval where that is not all but nothing."""
        low = float(self.interval.low)
        high = float(self.interval.high)
        if high - low <= _SHARP:
            return percent(self.value)
        return f"at most {percent(high)}" if low <= 0 else f"{percent(self.value)} ({percent(low)} to {percent(high)})"

    def to_dict(self) -> dict[str, Any]:
        """Both as JSON-ready data."""
        return {"value": self.value, "interval": self.interval.to_dict()}


@dataclass(frozen=True)
class Located:
    """The result of a column's first counts: its kind, its part of the grid, and the cells to count next."""

    kind: str
    grid: ColumnCells | None = None
    first: CellCounts | None = field(default=None, compare=False)

    @property
    def whole(self) -> bool:
        """True where values are whole numbers; days are."""
        return self.kind in ("whole number", "date")


def located(counts: Any, mechanism: Any) -> Located:
    """The kind of a column, chosen by its noisy counts, and the cells in which to count it next."""
    counts = np.asarray(counts, dtype=float)
    whole, others = whole_numbers(counts[2 : FIRST.first_date])
    both = CellCounts(FIRST.numbers, whole + others, mechanism, summed=2)
    dates = CellCounts(FIRST.dates, counts[FIRST.first_date :], mechanism)
    text = CellCounts((), counts[1:2], mechanism)
    found = {"number": both.standing_out(), "date": dates.standing_out(), "text": text.standing_out()}
    sizes = {
        kind: float(of.counts[slice(run[0], run[1] + 1)].sum())
        for kind, of in (("number", both), ("date", dates), ("text", text))
        if (run := found[kind]) is not None
    }
    if not sizes:
        return Located("unknown")
    kind = max(sizes, key=lambda one: sizes[one])
    if kind == "text":
        return Located("text")
    run = found[kind]
    if run is None:  # the kinds that were sized stood out
        return Located("unknown")
    if kind == "date":
        edges = even_edges(*between(FIRST.dates, *run), whole=True)
        return Located("date", ColumnCells((), edges), dates)
    clear = both.clear()  # elsewhere noise would count as fractions
    if others[clear].sum() < _FEW_FRACTIONS * both.counts[clear].sum():
        only = CellCounts(FIRST.numbers, whole, mechanism)
        again = only.standing_out() or run
        edges = octave_quarters(*between(FIRST.numbers, *again), whole=True)
        return Located("whole number", ColumnCells(edges), only)
    return Located("number", ColumnCells(octave_quarters(*between(FIRST.numbers, *run), whole=False)), both)


def second_counts(grid: ColumnCells, counts: Any, mechanism: Any) -> CellCounts:
    """The counts of a column's own kind, without what is missing or of another kind."""
    counts = np.asarray(counts, dtype=float)
    if grid.dates:
        return CellCounts(grid.dates, counts[grid.first_date :], mechanism)
    return CellCounts(grid.numbers, counts[2 : grid.first_date], mechanism)


def narrowed(found: Located, second: CellCounts, share: float) -> ColumnCells | None:
    """The cells in which to count a range that is narrow and far from zero once more; None where it is not."""
    chosen = chosen_bounds(found, second, share)
    apart = found.kind == "date" or chosen.low > 0 or chosen.high < 0
    if not apart or chosen.last - chosen.first > _NARROW:
        return None
    edges = even_edges(chosen.low, chosen.high, whole=found.whole)
    if len(edges) <= chosen.last - chosen.first + 1:
        return None
    return ColumnCells((), edges) if found.kind == "date" else ColumnCells(edges)


def chosen_bounds(found: Located, second: CellCounts, share: float) -> FoundBounds:
    """The range that the second counts, and the first where they are of the same values, choose."""
    return second.bounds(share, None if found.first is None else second.adjusted(found.first))


@dataclass(frozen=True, kw_only=True)
class ColumnProfile:
    """The released facts about one column.

    Attributes
    ----------
    name
        Of the column.
    kind
        ``"number"``, ``"whole number"``, ``"date"``, ``"label"``, ``"text"``, or ``"unknown"`` where too few values
        stand out from the noise.
    missing, unreadable
        Proportions of the rows: without a value, and with a value of another kind.
    low, high
        The bounds, in the numbers of the column; dates count days since 1970-01-01. None for other kinds.
    held
        Proportion of the values inside the bounds.
    quartiles
        Where a quarter, a half and three quarters of the values lie below.
    distinct
        Number of distinct labels, each unit with one of its own.
    histogram
        The released counts: edges, and one count more.
    """

    name: str
    kind: str
    missing: ProfiledNumber
    unreadable: ProfiledNumber
    low: float | None = None
    high: float | None = None
    held: ProfiledNumber | None = None
    quartiles: tuple[ProfiledNumber, ...] = ()
    distinct: ProfiledNumber | None = None
    histogram: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())

    @property
    def reliable(self) -> bool:
        """True where the bounds are known to contain half of the values at least."""
        return self.held is not None and float(self.held.interval.low) >= _HALF

    def declared(self) -> Column | None:
        """The column's declaration for a schema; None where nothing was found."""
        if self.low is None or self.high is None:
            return PrivateLabels() if self.kind == "label" else None
        if not self.reliable:
            return None
        if self.kind == "date":
            return Dates(_day(self.low), _day(self.high))
        largest = max(abs(self.low), abs(self.high))
        if largest >= _MOST_STEPS:  # a grid of one would have too many steps
            grid = 2.0 ** math.ceil(math.log2(largest / _MOST_STEPS) + 1)
            return Bounds(math.floor(self.low / grid) * grid, math.ceil(self.high / grid) * grid, grid=grid)
        return Bounds(self.low, self.high, grid=1.0) if self.kind == "whole number" else Bounds(self.low, self.high)

    @property
    def codes(self) -> tuple[int, ...]:
        """The few whole numbers that hold nearly all values, which are likely codes of labels; none for others."""
        declared = self.declared()
        if self.kind != "whole number" or not isinstance(declared, Bounds) or declared.cells > _MOST_CODES:
            return ()
        held = self.held is not None and self.held.value >= _NEARLY_ALL
        return tuple(range(int(declared.low), int(declared.high) + 1)) if held else ()

    def shown(self, value: float) -> str:
        """A value of the column as people write it."""
        if not math.isfinite(value):
            return "…"
        if self.kind == "date":
            return str(_day(value))
        marked = "," if abs(value) >= _MARKED else ""
        return f"{value:{marked}.0f}" if self.kind == "whole number" else f"{value:{marked}.6g}"

    def shown_about(self, found: ProfiledNumber) -> str:
        """A value that is known about, without digits that its interval does not support."""
        width = float(found.interval.high) - float(found.interval.low)
        if self.kind != "number" or not width > 0:
            return self.shown(found.value)
        width = min(width, abs(found.value) / 10 or 1.0)  # three digits at least
        return self.shown(round(found.value, 1 - math.floor(math.log10(width))))

    def range_words(self) -> str:
        """The bounds as people write them; nothing where there are none."""
        return "" if self.low is None or self.high is None else f"{self.shown(self.low)} to {self.shown(self.high)}"

    def words(self) -> str:
        """The column in a sentence of a codebook."""
        if self.kind == "unknown":
            return "unknown: too few values stand out from the noise"
        parts = [self.kind]
        if self.low is not None and self.high is not None and self.held is not None:
            least = min(max(float(self.held.interval.low), 0.0), 1.0)
            known = f" holds {percent(self.held.value)} (at least {percent(least)})"
            parts.append(f"{self.range_words()}{known if self.reliable else ': how much it holds is not known'}")
            told = ", ".join(map(self.shown_about, self.quartiles))
            parts.append(f"quartiles {told}" if told else "quartiles not known")
        if self.distinct is not None:
            ends = self.distinct.interval
            parts.append(f"{self.distinct.value:,.0f} distinct ({ends.low:,.0f} to {ends.high:,.0f})")
        parts.append(f"{self.missing.proportion_words()} missing")
        if self.unreadable.interval.low > 0 and self.kind not in ("label", "text"):
            parts.append(f"{self.unreadable.proportion_words()} of another kind")
        return "; ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        declared = self.declared()
        return {
            "name": self.name,
            "kind": self.kind,
            "missing": self.missing.to_dict(),
            "unreadable": self.unreadable.to_dict(),
            "low": self.low,
            "high": self.high,
            "held": None if self.held is None else self.held.to_dict(),
            "quartiles": [one.to_dict() for one in self.quartiles],
            "distinct": None if self.distinct is None else self.distinct.to_dict(),
            "histogram": {"edges": list(self.histogram[0]), "counts": list(self.histogram[1])},
            "declared": None if declared is None else declared.to_dict(),
        }


def summarised(
    name: str,
    found: Located,
    first: tuple[ProfiledNumber, ProfiledNumber],
    second: CellCounts,
    last: CellCounts,
    share: float,
    level: float,
) -> ColumnProfile:
    """A column of numbers or dates, from its counts: bounds, the proportion they hold, and quartiles."""
    chosen = chosen_bounds(found, second, share) if last is second else last.bounds(share, last.adjusted(second))
    outside, least, most = last.outside(chosen, level)
    values = max(float(last.counts.sum()), 1.0)
    held = [min(max(1 - lost / values, 0.0), 1.0) for lost in (outside, most, least)]
    high = chosen.high - 1 if found.whole else chosen.high
    low, high = tidy_bounds(chosen.low, max(high, chosen.low + (1 if found.whole else 0)), whole=found.whole)
    grids = [last] if found.first is None else [last, found.first]
    each = [_quartile(_closest(grids, q, level), level, found.whole) for q in QUARTILES]
    quartiles = _in_order(each, low, high, level)
    return ColumnProfile(
        name=name,
        kind=found.kind,
        missing=first[0],
        unreadable=first[1],
        low=low,
        high=high,
        held=ProfiledNumber(held[0], Interval(held[1], held[2], level)),
        quartiles=quartiles,
        histogram=(last.edges, tuple(last.counts.tolist())),
    )


def labelled(kind: str, distinct: float, rows: float) -> str:
    """The kind of a column, where text is a label if many rows share each of its values."""
    return "label" if kind == "text" and max(distinct, 1.0) * _PER_LABEL <= rows else kind


def _closest(grids: Sequence[CellCounts], q: float, level: float) -> tuple[float, float, float]:
    """A quantile between the closest edges of several grids, each at its part of 1 − level.

    The last grid divides the largest values, the first one also the small ones.
    """
    found = [grid.quantile(q, 1 - (1 - level) / len(grids)) for grid in grids]
    low = max(one[1] for one in found)
    high = min(one[2] for one in found)
    value = min(found, key=lambda one: one[2] - one[1])[0]
    return (min(max(value, low), high), low, high) if low < high else found[0]  # both miss once in 1 / (1 - level)


def _quartile(found: Sequence[float], level: float, whole: bool) -> ProfiledNumber:
    """A quantile between edges; of whole numbers it is one of them."""
    value, low, high = found
    value, high = (math.floor(value), high - 1) if whole else (value, high)
    return ProfiledNumber(float(value), Interval(min(low, value), max(high, value), level))


def _in_order(each: Sequence[ProfiledNumber], low: float, high: float, level: float) -> tuple[ProfiledNumber, ...]:
    """Quartiles in their order and inside the bounds; none where one of them could be anywhere between the bounds."""
    values = sorted(min(max(one.value, low), high) for one in each)
    ends = [sorted(float(getattr(one.interval, end)) for one in each) for end in ("low", "high")]
    if any(least <= low and most >= high for least, most in zip(*ends, strict=True)) and low < high:
        return ()
    return tuple(
        ProfiledNumber(value, Interval(min(least, value), max(most, value), level))
        for value, least, most in zip(values, *ends, strict=True)
    )


def _day(count: float) -> date:
    """The date of a day's number, inside what a calendar can say."""
    try:
        return EPOCH + timedelta(days=round(count))
    except OverflowError:
        return date.max if count > 0 else date.min
