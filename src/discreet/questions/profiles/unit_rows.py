"""Unit rows: one row of each unit, read once by whoever counts its values.

The embedded engine brings values here in batches. Plain texts are read here; the engine types the others, each once.
Engines that may hold more than fits here count where the data lies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.core.columns import Order
from discreet.core.dialect import Dialect
from discreet.core.rows import Snapshot
from discreet.core.rows.expressions import identifier
from discreet.core.rows.read import Dataset
from discreet.core.rows.snapshot import UNIT, stored
from discreet.core.rows.typed_values import EXACT_DIGITS, MISSING, OTHER, one_row_each, shortened, typed, typed_texts

__all__ = [
    "FineCounts", "Grid", "UnitRows", "Visitor", "array_of", "fine_counts", "plain_values", "sizes_between",
    "unit_rows", "unit_sizes",
]  # fmt: skip


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


class Visitor(Protocol):
    """Who is shown the values of columns, which are told by their places."""

    def add(self, place: int, numbers: Any, decimals: Any, days: Any, times: Any) -> None:
        """Add numbers (NaN where there is none), whether they have decimals, days, and how often each counts.

        Arrays of one length, or one value for all. Days count from 1970-01-01, and speak where there is no number.
        """

    def forget(self, place: int) -> None:
        """Take back all that was added of a column."""


@dataclass(frozen=True)
class UnitRows:
    """One row of each unit, still private: of column k its numbers ``nk``, its days ``dk``, or its texts ``tk``."""

    dataset: Dataset
    table: Any
    order: Order

    def __repr__(self) -> str:
        return "UnitRows(…)"

    def visit(self, visitor: Visitor) -> None:
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
        """How many different values columns have. Private."""
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

    def _visit_plain(self, visitor: Visitor) -> tuple[Any, list[str]]:
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

    def _add_counted(self, visitor: Visitor, counted: Any) -> None:
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


def _add_batch(visitor: Visitor, values: Mapping[str, Any]) -> None:
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
class Grid:
    """The cells of a column: missing is 0, other text 1; then numbers between edges, and dates between edges.

    A cell holds its lower edge and not its upper one; the first and the last are open. Where they are ``split``, each
    cell of numbers is two: of whole numbers, and of others. Edges of numbers move down to those of fine cells.

    Examples
    --------
    >>> Grid((0.0, 1.0, 1.001, 1000.5)).numbers
    (0.0, 1.0, 1000.0)
    """

    numbers: tuple[float, ...] = ()
    dates: tuple[float, ...] = ()
    split: bool = False

    def __post_init__(self) -> None:
        fine = np.unique(_LEAST[number_cells(np.asarray(self.numbers, dtype=np.float64)) + _CELLS + 1])
        object.__setattr__(self, "numbers", tuple(fine.tolist()))

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
    """How many values of a column lie in each fine cell. Private."""

    counts: Codes

    def __repr__(self) -> str:
        return "FineCounts(…)"

    def add(self, codes: Codes, times: Any) -> None:
        """Count values by their codes, each so many times."""
        found = np.bincount(codes, None if np.isscalar(times) else times)
        self.counts[: found.size] += found.astype(np.int64, copy=False)

    def cells(self, grid: Grid) -> list[int]:
        """How many values lie in each cell of a grid."""
        codes = np.flatnonzero(self.counts)
        place, decimals = np.divmod(np.clip(codes, _NUMBERS, _DATES - 1) - _NUMBERS, 2)
        number = 2 + np.searchsorted(grid.numbers, _LEAST[place], "right") * (1 + grid.split) + decimals * grid.split
        days = np.where(codes > _DATES, codes - _DATES + _EARLIEST - 1.0, -np.inf)
        date = grid.first_date + np.searchsorted(grid.dates, days, "right")
        cells = np.where(codes < _NUMBERS, codes, np.where(codes < _DATES, number, date))
        counts = np.zeros(grid.size, np.int64)
        np.add.at(counts, cells, self.counts[codes])
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


@dataclass(frozen=True)
class _FineCells:
    """Counts the values that it is shown."""

    found: Sequence[FineCounts]

    def add(self, place: int, numbers: Any, decimals: Any, days: Any, times: Any) -> None:
        self.found[place].add(_codes(numbers, decimals, days), times)

    def forget(self, place: int) -> None:
        self.found[place].counts[:] = 0


def fine_counts(rows: UnitRows, columns: Sequence[str]) -> dict[str, FineCounts]:
    """Of each column, how many values lie in each fine cell, one row of each unit. Private."""
    found = [FineCounts(np.zeros(_CODES, np.int64)) for _ in columns]
    rows.visit(_FineCells(found))
    return dict(zip(columns, found, strict=True))


def sizes_between(snapshot: Snapshot, edges: Sequence[float]) -> list[int]:
    """How many units have so many rows, between edges. Private."""
    found = unit_sizes(snapshot).to_pydict()
    counts = np.zeros(len(edges) + 1, np.int64)
    np.add.at(counts, np.searchsorted(edges, found["held"], "right"), found["n"])
    return [int(count) for count in counts]
