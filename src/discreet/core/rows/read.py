"""Reading: a frame, a path or a connection becomes a data set that can be aggregated where it lies.

Nothing is guessed: the dialect of a file is declared, and the meaning of a value depends on that value alone
(``docs/proofs/reading.md``).
"""

from __future__ import annotations

import glob
import os
import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from discreet.core.dialect import Dialect
from discreet.core.errors import InvalidParameter, SourceError, WrongType
from discreet.core.rows import engines
from discreet.core.rows.csv_file import copy_csv, read_names
from discreet.core.rows.frames import FRAMES, distinct_names
from discreet.core.rows.spilling import remove_directory, spill_directory

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

__all__ = ["Dataset", "column_types", "open_source"]

_SUFFIXES = (".csv", ".csv.gz", ".csv.zst", ".tsv", ".parquet")
_FIX = 'Pass a frame, a path such as "rows.parquet", or a connection with table="name".'
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
        known = self.table.columns
        for name in columns:
            if name is not None and name not in known:
                near = get_close_matches(name, known, n=1)
                fix = f"Did you mean {near[0]!r}?" if near else "Check the schema against the data."
                raise SourceError(f"source = {self.name!r}: has no column {name!r}. {fix} Nothing was spent.")

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


def open_source(
    source: Any,
    *,
    table: str | None = None,
    engine: Any = None,
    memory: str | None = None,
    delimiter: str | None = None,
    decimal: str = ".",
    encoding: str = "utf-8",
    header: bool = True,
    thousands: str | None = None,
    symbols: str = "",
) -> Dataset:
    """Open a data set where it lies.

    Parameters
    ----------
    source
        A pandas, polars, pyarrow or Spark frame; the path or glob of CSV or Parquet files; an ibis table; a DuckDB,
        Spark or ibis connection; or the address of one (``"duckdb://sales.db"``, ``"spark://host:7077"``).
    table
        Name of the table, where ``source`` is a connection or its address.
    engine
        Who runs the plan for frames and files: the embedded DuckDB by default, ``"spark"`` for a local Spark, the
        address of a Spark master, a Spark session, or an ibis connection.
    memory
        Most memory the embedded DuckDB may use, for example ``"3GB"``; beyond it spills to a private directory.
    delimiter, encoding, header
        How CSV files are written: see `Dialect`.
    decimal, thousands, symbols
        How numbers that are text are written, in files and elsewhere: see `Dialect`.

    Examples
    --------
    >>> import pyarrow
    >>> open_source(pyarrow.table({"age": [30, 40]}))
    Dataset('pyarrow table', engine='duckdb', columns=[age: int64])
    """
    if isinstance(source, Dataset):
        return source
    dialect = Dialect(
        delimiter=delimiter, decimal=decimal, encoding=encoding, header=header, thousands=thousands, symbols=symbols
    )
    rows, connection, name = _opened(source, table, engine, memory, dialect)
    engines.require_operations(connection)
    return Dataset(rows, connection, name, dialect)


def _opened(
    source: Any, table: str | None, engine: Any, memory: str | None, dialect: Dialect
) -> tuple[ir.Table, Any, str]:
    """The rows as an ibis table, with the connection that holds them and what they are called."""
    ibis, kind = engines.load_ibis(), engines.kind_of(source)
    if kind in FRAMES:
        name, connection = f"{kind.split('.')[0]} table", engines.engine_of(engine, memory)
        return _uploaded(connection, FRAMES[kind](source), name), connection, name
    if isinstance(source, ibis.Table):
        # A view keeps the query in one piece: ibis would merge its filters into ours and lose the names of tables.
        return source.view(), source.get_backend(), "ibis table"
    if isinstance(source, str | os.PathLike) and "://" not in os.fspath(source):
        return _from_path(os.fspath(source), table, engine, memory, dialect)
    if kind == "pyspark.DataFrame":
        connection = engines.connection_of(source.sparkSession)
        return _viewed(connection, source), connection, "Spark frame"
    connection = engines.address(source) if isinstance(source, str) else engines.connection_of(source)
    if connection is None:
        raise WrongType("source", type(source).__name__, "is not a source that can be read", _FIX)
    if table is None:
        raise InvalidParameter("table", None, "is needed to read from a connection", 'Pass table="customers".')
    name = f"{engines.without_password(source) if isinstance(source, str) else kind} {table}"
    return engines.guarded(name, lambda: connection.table(table)), connection, name


def _uploaded(connection: Any, arrow: pa.Table, name: str) -> Any:
    """Rows of this machine as a table on the engine."""
    if connection.name == "pyspark":  # straight from Arrow: by way of pandas, whole numbers with gaps become floats
        return engines.guarded(name, lambda: _viewed(connection, connection._session.createDataFrame(arrow)))
    if connection.name == "duckdb":
        label = _label()
        connection.con.register(label, arrow)
        return connection.table(label)
    return engines.guarded(name, lambda: connection.create_table(_label(), arrow, temp=True))


def _viewed(connection: Any, frame: Any) -> Any:
    label = _label()
    frame.createOrReplaceTempView(label)
    return connection.table(label)


def _label() -> str:
    return f"discreet_source_{os.urandom(6).hex()}"


def _files(path: str) -> list[str]:
    """The files that a path means: itself if it exists, the files of a folder, or what a pattern matches."""
    if not path.lower().rstrip("/").endswith(_SUFFIXES):
        raise InvalidParameter("source", path, f"must end in one of {', '.join(_SUFFIXES)}", _FIX)
    place = Path(path)
    files = [path] if place.exists() else sorted(glob.glob(path))
    if place.is_dir():
        files = sorted(str(file) for file in place.iterdir() if file.name.endswith(_SUFFIXES))
    if not files or not all(Path(file).is_file() for file in files):
        raise SourceError(f"source = {path!r}: there is no such file. Check the path. Nothing was spent.")
    return files


def _from_path(
    path: str, table: str | None, engine: Any, memory: str | None, dialect: Dialect
) -> tuple[ir.Table, Any, str]:
    if table is not None:
        raise InvalidParameter("table", table, "has no meaning for a file", 'For a database write "duckdb://file.db".')
    files = _files(path)
    if path.lower().rstrip("/").endswith(".parquet"):
        _parquet_schema(files)
        connection = engines.engine_of(engine, memory, [*files, *map(_literal, files)])
        return engines.guarded(path, lambda: _read_parquet(connection, files)), connection, path
    directory, held = spill_directory()
    copy = directory / "rows.parquet"
    try:
        engines.guarded(path, lambda: copy_csv(files, dialect, copy))
        connection = engines.engine_of(engine, memory, [str(copy)])
    except BaseException:
        remove_directory(directory, held)
        raise
    weakref.finalize(connection, remove_directory, directory, held)
    return engines.guarded(path, lambda: _read_copy(connection, copy)), connection, path


def _read_copy(connection: Any, copy: Path) -> Any:
    """Rows of a private file; other engines than DuckDB may run where they cannot see it."""
    if connection.name == "duckdb":
        return connection.read_parquet(str(copy))
    from pyarrow import parquet

    return _uploaded(connection, parquet.read_table(copy), copy.name)


def _read_parquet(connection: Any, files: Sequence[str]) -> Any:
    """Read exactly these files: engines expand patterns and take columns from folder names unless told otherwise."""
    if connection.name == "pyspark":
        escaped = [re.sub(r"([\\*?\[\]{}])", r"\\\1", os.path.abspath(file)) for file in files]
        return _viewed(connection, connection._session.read.parquet(*escaped))
    return connection.read_parquet([_literal(file) for file in files], hive_partitioning=False)


def _literal(file: str) -> str:
    """A pattern of DuckDB that matches this file alone."""
    return re.sub(r"([*?\[])", r"[\1]", os.path.abspath(file))


def _parquet_schema(files: Sequence[str]) -> Mapping[str, str]:
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


def column_types(path: str, dialect: Dialect) -> Mapping[str, str]:
    """Names and types of a file's columns, from its header alone; all columns of a CSV file are text."""
    files = _files(path)
    if path.lower().rstrip("/").endswith(".parquet"):
        return _parquet_schema(files)
    return dict.fromkeys(engines.guarded(path, lambda: read_names(files[0], dialect)), "string")
