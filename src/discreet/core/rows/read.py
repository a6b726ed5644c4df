"""Reading: rows on an engine, and how frames and files become such rows.

Nothing is guessed: the dialect of a file is declared, and the meaning of a value depends on that value alone
(``docs/proofs/rows.md``).
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from discreet.core.dialect import Dialect
from discreet.core.errors import SourceError, WrongType
from discreet.core.rows import engines
from discreet.core.rows.csv_file import copy_csv
from discreet.core.rows.frames import converted, distinct_names
from discreet.core.rows.spilling import remove_directory, spill_directory

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

__all__ = ["Dataset", "file_rows", "frame_rows", "parquet_types", "require_columns", "viewed"]

_MOST_DIGITS = 38


@dataclass(frozen=True)
class Dataset:
    """Rows on an engine, still private: its repr shows column names and types only.

    Attributes
    ----------
    table
        The ibis table.
    connection
        The ibis connection that holds it.
    name
        What the source is called in messages.
    written
        How its text is written: the marks of numbers.
    lock
        Held while the engine works: connections are not safe to share between threads.
    discarded
        Stored tables to be dropped when the engine is free.
    """

    table: ir.Table
    connection: Any
    name: str
    written: Dialect = field(default_factory=Dialect)
    lock: Any = field(default_factory=Lock, repr=False, compare=False)
    discarded: list[str] = field(default_factory=list, repr=False, compare=False)

    def __post_init__(self) -> None:
        engines.require_able(self.connection)

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {kind}" for name, kind in self.types().items())
        return f"Dataset({self.name!r}, engine={self.engine!r}, columns=[{columns}])"

    @property
    def engine(self) -> str:
        """Name of the engine."""
        return str(self.connection.name)

    def types(self) -> dict[str, str]:
        """Column names with their types on the engine; no value is looked at."""
        return {name: str(kind) for name, kind in self.table.schema().items()}

    def require(self, *columns: str | None) -> None:
        """Refuse where a column is missing; None stands for no column."""
        require_columns(self.name, self.table.columns, columns)

    def fetch(self, expression: ir.Table) -> pa.Table:
        """Run an aggregate and bring its (small) result here."""
        with self.lock:
            return engines.guarded(self.name, lambda: engines.fetched(self.connection, expression))

    def scan(self, expression: ir.Table, visit: Callable[[Any], None], rows: int) -> None:
        """Bring the rows of a query here, in batches of so many; only the embedded engine can."""
        with self.lock:
            engines.guarded(self.name, lambda: [*map(visit, engines.batches(self.connection, expression, rows))])

    def store(self, name: str, expression: ir.Table) -> ir.Table:
        """Compute an intermediate table once, on the engine, and call it ``name`` there."""
        with self.lock:
            self._drop_discarded()
            return engines.guarded(self.name, lambda: engines.materialised(self.connection, name, expression))

    def bring(self, rows: pa.Table) -> ir.Table:
        """Rows of another engine, as a table on this one."""
        with self.lock:
            return _uploaded(self.connection, rows, self.name)

    def discard(self, name: str) -> None:
        """Drop a stored table: now, or before the next one is stored where the engine is at work.

        Python may collect a table at any moment, even while this connection returns the result of a query.
        """
        self.discarded.append(name)
        if self.lock.acquire(blocking=False):
            try:
                self._drop_discarded()
            finally:
                self.lock.release()

    def _drop_discarded(self) -> None:
        while self.discarded:
            with suppress(Exception):  # the connection may be closed, and the table gone with it
                engines.drop(self.connection, self.discarded.pop())


def require_columns(source: str, known: Sequence[str], columns: Sequence[str | None]) -> None:
    """Refuse where a source lacks a column; None stands for no column."""
    for name in columns:
        if name is not None and name not in known:
            near = get_close_matches(name, known, n=1)
            fix = f"Did you mean {near[0]!r}?" if near else "Check the schema against the data."
            raise SourceError(f"source = {source!r}: has no column {name!r}. {fix} Nothing was spent.")


def _uploaded(connection: Any, arrow: pa.Table, name: str) -> Any:
    """Rows of this machine as a table on the engine."""
    if connection.name == "pyspark":  # straight from Arrow: by way of pandas, whole numbers with gaps become floats
        return engines.guarded(name, lambda: viewed(connection, connection._session.createDataFrame(arrow)))
    label = _label()
    connection.con.register(label, arrow)
    return connection.table(label)


def viewed(connection: Any, frame: Any) -> Any:
    """A frame of Spark as a table, whose view goes with the last expression over it."""
    label = _label()
    frame.createOrReplaceTempView(label)
    table = connection.table(label)
    weakref.finalize(table.op(), _forget, connection, label).atexit = False
    return table


def _forget(connection: Any, label: str) -> None:
    with suppress(Exception):  # the connection may be closed, and the view gone with it
        engines.drop(connection, label)


def _label() -> str:
    return f"discreet_source_{os.urandom(6).hex()}"


def frame_rows(
    frame: Any, columns: Sequence[str] | None, dates: Collection[str], connection: Any, name: str
) -> ir.Table:
    """The rows of a frame, on an engine: these columns, or all of them."""
    return _uploaded(connection, converted(frame, columns, dates), name)


def file_rows(
    path: str, files: Sequence[str], dialect: Dialect, connect: Callable[[Sequence[str]], Any]
) -> tuple[ir.Table, Any]:
    """The rows of the files that a path means, with the connection that ``connect`` makes to read such files."""
    if path.lower().rstrip("/").endswith(".parquet"):
        parquet_types(files)
        connection = connect([*files, *map(_literal, files)])
        return engines.guarded(path, lambda: _read_parquet(connection, files)), connection
    directory, held = spill_directory()
    copy = directory / "rows.parquet"
    try:
        engines.guarded(path, lambda: copy_csv(files, dialect, copy))
        connection = connect([str(copy)])
    except BaseException:
        remove_directory(directory, held)
        raise
    weakref.finalize(connection, remove_directory, directory, held)
    return engines.guarded(path, lambda: _read_copy(connection, copy)), connection


def _read_copy(connection: Any, copy: Path) -> Any:
    """Rows of a private file; other engines than DuckDB may run where they cannot see it."""
    if connection.name == "duckdb":
        return connection.read_parquet(str(copy))
    from pyarrow import parquet

    return _uploaded(connection, parquet.read_table(copy), copy.name)


def _read_parquet(connection: Any, files: Sequence[str]) -> Any:
    """Read exactly these files: engines expand patterns and take columns from folder names unless told otherwise."""
    if connection.name == "pyspark":
        if hidden := [file for file in files if os.path.basename(file).startswith(("_", "."))]:
            raise SourceError(
                f"source = {hidden[0]!r}: Spark does not read files whose names begin with _ or a dot. Rename it, or "
                "read the files on DuckDB. Nothing was spent."
            )
        escaped = [re.sub(r"([\\*?\[\]{}])", r"\\\1", os.path.abspath(file)) for file in files]
        return viewed(connection, connection._session.read.parquet(*escaped))
    return connection.read_parquet([_literal(file) for file in files], hive_partitioning=False)


def _literal(file: str) -> str:
    """A pattern of DuckDB that matches this file alone."""
    return re.sub(r"([*?\[])", r"[\1]", os.path.abspath(file))


def parquet_types(files: Sequence[str]) -> Mapping[str, str]:
    """Names and types of the columns, which all files must share."""
    import pyarrow as pa
    from pyarrow import parquet

    schemas = {file: engines.guarded(file, partial(parquet.read_schema, file)) for file in files}
    first = schemas[files[0]]
    distinct_names(first.names)
    for file, schema in schemas.items():
        if {one.name: one.type for one in schema} != {one.name: one.type for one in first}:
            raise SourceError(f"source = {file!r}: has other columns than {files[0]!r}. Nothing was spent.")
    for one in first:
        if pa.types.is_decimal(one.type) and one.type.precision > _MOST_DIGITS:
            raise WrongType("column", one.name, f"has more than {_MOST_DIGITS} digits", "Cast it to text.")
    return {one.name: str(one.type) for one in first}
