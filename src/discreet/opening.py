"""Opening: which rows a source means: a frame, a path, a connection or its address.

How their values are read is the core's business (`discreet.core.rows`).
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.core.dialect import Dialect
from discreet.core.errors import InvalidParameter, SourceError, WrongType
from discreet.core.rows import engines
from discreet.core.rows.csv_file import read_names
from discreet.core.rows.frames import FRAMES
from discreet.core.rows.read import Dataset, file_rows, frame_rows, parquet_types, viewed

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["column_types", "connection_at", "open_source", "without_password"]

_SUFFIXES = (".csv", ".csv.gz", ".csv.zst", ".tsv", ".parquet")
_FIX = 'Pass a frame, a path such as "rows.parquet", or a connection with table="name".'


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
    return Dataset(rows, connection, name, dialect)


def _opened(
    source: Any, table: str | None, engine: Any, memory: str | None, dialect: Dialect
) -> tuple[ir.Table, Any, str]:
    """The rows as an ibis table, with the connection that holds them and what they are called."""
    ibis, kind = engines.load_ibis(), engines.kind_of(source)
    if kind in FRAMES:
        name, connection = f"{kind.split('.')[0]} table", _engine(engine, memory)
        return frame_rows(source, connection, name), connection, name
    if isinstance(source, ibis.Table):
        # A view keeps the query in one piece: ibis would merge its filters into ours and lose the names of tables.
        return source.view(), source.get_backend(), "ibis table"
    if isinstance(source, str | os.PathLike) and "://" not in os.fspath(source):
        path = os.fspath(source)
        if table is not None:
            raise InvalidParameter(
                "table", table, "has no meaning for a file", 'For a database write "duckdb://file.db".'
            )
        return *file_rows(path, _files(path), dialect, partial(_engine, engine, memory)), path
    if kind == "pyspark.DataFrame":
        connection = engines.connection_of(source.sparkSession)
        return viewed(connection, source), connection, "Spark frame"
    connection = connection_at(source) if isinstance(source, str) else engines.connection_of(source)
    if connection is None:
        raise WrongType("source", type(source).__name__, "is not a source that can be read", _FIX)
    if table is None:
        raise InvalidParameter("table", None, "is needed to read from a connection", 'Pass table="customers".')
    name = f"{without_password(source) if isinstance(source, str) else kind} {table}"
    return engines.guarded(name, lambda: connection.table(table)), connection, name


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


def column_types(path: str, dialect: Dialect) -> Mapping[str, str]:
    """Names and types of a file's columns, from its header alone; all columns of a CSV file are text."""
    files = _files(path)
    if path.lower().rstrip("/").endswith(".parquet"):
        return parquet_types(files)
    return dict.fromkeys(engines.guarded(path, lambda: read_names(files[0], dialect)), "string")


def _engine(engine: Any, memory: str | None, files: Sequence[str] = ()) -> Any:
    """The connection that runs the plan for frames and files."""
    if engine in (None, "duckdb"):
        return engines.embedded(memory, files)
    if isinstance(engine, str):
        return connection_at(engine)
    connection = engines.connection_of(engine)
    if connection is None:
        raise WrongType(
            "engine", type(engine).__name__, "is not an engine", 'Pass "duckdb", "spark", an address or a connection.'
        )
    return connection


def connection_at(address: str) -> Any:
    """Connection for ``spark``, ``spark://…``, or any address that ibis understands."""
    if address == "spark" or address.startswith(("spark://", "local[")):
        return engines.spark("local[*]" if address == "spark" else address)
    path = address.removeprefix("duckdb://")
    if address.startswith("duckdb://") and not Path(path).is_file():
        raise SourceError(f"source = {address!r}: there is no such database. Check the path. Nothing was spent.")
    ibis = engines.load_ibis()
    if address.startswith("duckdb://"):
        return engines.guarded(address, lambda: ibis.duckdb.connect(path, read_only=True, **engines.SEALED))
    return engines.guarded(without_password(address), lambda: ibis.connect(address))


def without_password(address: str) -> str:
    """The address as it may be shown."""
    return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:…@", address)
