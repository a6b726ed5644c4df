"""Unit rows: one row of each unit, read once by whoever counts its values.

The embedded engine brings values here in batches. Plain texts are read here; the engine types the others, each once.
Engines that may hold more than fits here count where the data lies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from discreet.core.dates import Order
from discreet.core.rows import Snapshot
from discreet.core.rows.expressions import identifier
from discreet.core.rows.read import Dataset
from discreet.core.rows.snapshot import UNIT, stored
from discreet.core.rows.typed_values import MISSING, one_row_each, shortened, typed, typed_texts
from discreet.questions.profiles.plain_texts import array_of, plain_values

__all__ = ["UnitRows", "Visitor", "unit_rows", "unit_sizes"]

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
