"""Sources: a frame, a path or a connection becomes a data set that can be aggregated where it lies.

This room and `discreet.core.rows` are the only ones that speak to an engine. The embedded DuckDB is the default; a
Spark session, or any connection that ibis knows, runs the same plan by being named as the engine.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from discreet.core.errors import DiscreetError, InvalidParameter, MissingExtra, SourceError, WrongType
from discreet.core.rows.spilling import remove_directory, spill_directory

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

__all__ = ["Dataset", "open_source"]

_SUFFIXES = (".csv", ".csv.gz", ".csv.zst", ".tsv", ".parquet")
_MEMORY = "3GB"
"""What the embedded engine takes at most, unless told otherwise; the rest spills."""
_FIX = 'Pass a frame, a path such as "rows.parquet", or a connection with table="name".'


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
    lock
        Held while the engine works: connections are not safe to share between threads.
    discarded
        Stored tables to be dropped when the engine is free.
    """

    table: ir.Table
    connection: Any
    name: str
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
            return _guarded(self.name, lambda: self.connection.to_pyarrow(expression))

    def store(self, name: str, expression: ir.Table) -> ir.Table:
        """Compute an intermediate table once, on the engine, and call it ``name`` there."""
        with self.lock:
            self._drop_discarded()
            return _guarded(self.name, lambda: _materialised(self.connection, name, expression))

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
                _drop(self.connection, self.discarded.pop())


def _materialised(connection: Any, name: str, expression: ir.Table) -> ir.Table:
    if connection.name != "pyspark":
        return connection.create_table(name, expression, temp=True)
    # Spark recomputes what it merely caches; a checkpoint cuts the plan, so the source is never read again.
    frame = connection._session.sql(connection.compile(expression)).localCheckpoint()
    frame.createOrReplaceTempView(name)
    return connection.table(name)


def _drop(connection: Any, name: str) -> None:
    if connection.name == "pyspark":
        connection._session.catalog.dropTempView(name)
    else:
        connection.drop_table(name, force=True)


def open_source(source: Any, *, table: str | None = None, engine: Any = None, memory: str | None = None) -> Dataset:
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

    Examples
    --------
    >>> import pyarrow
    >>> open_source(pyarrow.table({"age": [30, 40]}))
    Dataset('pyarrow table', engine='duckdb', columns=[age: int64])
    """
    if isinstance(source, Dataset):
        return source
    ibis = _ibis()
    kind = _kind(source)
    if kind in _FRAMES:
        return _from_frame(_FRAMES[kind](source), f"{kind.split('.')[0]} table", engine, memory)
    if isinstance(source, ibis.Table):
        return Dataset(source, source.get_backend(), source.get_name() if hasattr(source, "get_name") else "table")
    if isinstance(source, str | os.PathLike):
        text = os.fspath(source)
        if "://" in text:
            return _from_connection(_address(text), table, text)
        return _from_path(text, table, engine, memory)
    if kind == "pyspark.DataFrame":
        return _from_spark_frame(source)
    connection = _connection(source)
    if connection is not None:
        return _from_connection(connection, table, kind)
    raise WrongType("source", type(source).__name__, "is no kind of source that can be read", _FIX)


def _ibis() -> Any:
    try:
        import ibis
        import pyarrow  # noqa: F401  (every result comes back through it)
    except ImportError as missing:
        raise MissingExtra(missing.name or "ibis", "tables") from None
    return ibis


def _kind(source: Any) -> str:
    """Package and class of a source, so that no package is imported only to ask."""
    top = type(source).__module__.split(".")[0]
    return f"{'duckdb' if top == '_duckdb' else top}.{type(source).__name__}"


def _pandas(frame: Any) -> pa.Table:
    import pyarrow as pa

    columns = {}
    if frame.columns.duplicated().any():
        raise InvalidParameter("source", list(frame.columns), "has two columns of one name", "Rename one.")
    for name in frame.columns:
        try:
            columns[str(name)] = pa.Array.from_pandas(frame[name])
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            # A column of mixed kinds is read as text, as it would be from a CSV file.
            columns[str(name)] = pa.array([None if one is None or one != one else str(one) for one in frame[name]])
    return pa.table(columns)


_FRAMES: dict[str, Callable[[Any], Any]] = {
    "pandas.DataFrame": _pandas,
    "polars.DataFrame": lambda frame: frame.to_arrow(),
    "polars.LazyFrame": lambda frame: frame.collect().to_arrow(),
    "pyarrow.Table": lambda table: table,
    "pyarrow.RecordBatch": lambda batch: _arrow_table([batch]),
    "pyarrow.RecordBatchReader": lambda reader: reader.read_all(),
}


def _arrow_table(batches: list[Any]) -> Any:
    import pyarrow as pa

    return pa.Table.from_batches(batches)


def _embedded(memory: str | None) -> Any:
    """An in-memory DuckDB that spills, if it must, into a private directory that goes away with it."""
    ibis = _ibis()
    spill, held = spill_directory()
    settings = {
        "temp_directory": str(spill),
        "allow_community_extensions": "false",
        "memory_limit": _MEMORY if memory is None else memory,
    }
    connection = ibis.duckdb.connect(**settings)
    connection.con.execute("SET enable_progress_bar = false")
    weakref.finalize(connection, remove_directory, spill, held)
    return connection


def _from_frame(arrow: pa.Table, name: str, engine: Any, memory: str | None) -> Dataset:
    connection = _embedded(memory) if engine in (None, "duckdb") else _engine(engine)
    if connection.name == "duckdb":
        connection.con.register("source", arrow)
        return Dataset(connection.table("source"), connection, name)
    label = f"discreet_source_{os.urandom(6).hex()}"
    return Dataset(_guarded(name, lambda: _uploaded(connection, label, arrow)), connection, name)


def _uploaded(connection: Any, label: str, arrow: pa.Table) -> Any:
    if connection.name == "pyspark":
        frame = connection._session.createDataFrame(arrow.to_pandas())
        frame.createOrReplaceTempView(label)
        return connection.table(label)
    return connection.create_table(label, arrow, temp=True)


def _from_path(path: str, table: str | None, engine: Any, memory: str | None) -> Dataset:
    if table is not None:
        raise InvalidParameter("table", table, "has no meaning for a file", 'For a database write "duckdb://file.db".')
    if not path.lower().endswith(_SUFFIXES):
        raise InvalidParameter("source", path, f"must end in one of {', '.join(_SUFFIXES)}", _FIX)
    files = sorted(glob.glob(path)) if glob.has_magic(path) and not Path(path).exists() else [path]
    if not files or not all(Path(file).is_file() or (file == path and Path(file).is_dir()) for file in files):
        raise SourceError(f"source = {path!r}: there is no such file. Check the path; nothing was spent.")
    connection = _embedded(memory) if engine in (None, "duckdb") else _engine(engine)
    if path.lower().endswith(".parquet"):
        # Spark expands globs itself.
        places = path if connection.name == "pyspark" else files
        return Dataset(_guarded(path, lambda: connection.read_parquet(places)), connection, path)
    return Dataset(_guarded(path, lambda: _read_csv(connection, path, files)), connection, path)


def _read_csv(connection: Any, path: str, files: list[str]) -> Any:
    """Read CSV as text: types come from the schema, never from a look at the first rows."""
    separator = "\t" if path.lower().endswith(".tsv") else ","
    if connection.name == "pyspark":
        return connection.read_csv(path, header=True, inferSchema=False, sep=separator, mode="FAILFAST", escape='"')
    return connection.read_csv(
        files, header=True, all_varchar=True, delim=separator, quote='"', escape='"', ignore_errors=False
    )


def _engine(engine: Any) -> Any:
    if isinstance(engine, str):
        return _address(engine)
    connection = _connection(engine)
    if connection is None:
        raise WrongType(
            "engine", type(engine).__name__, "is no engine", 'Pass "duckdb", "spark", an address or a connection.'
        )
    return connection


def _address(address: str) -> Any:
    """Connection for ``spark``, ``spark://…``, or any address that ibis understands."""
    if address == "spark" or address.startswith(("spark://", "local[")):
        return _spark("local[*]" if address == "spark" else address)
    if address == "duckdb":
        return _embedded(None)
    path = address.removeprefix("duckdb://")
    if address.startswith("duckdb://") and not Path(path).is_file():
        raise SourceError(f"source = {address!r}: there is no such database. Check the path; nothing was spent.")
    ibis = _ibis()
    if address.startswith("duckdb://"):
        return _guarded(address, lambda: ibis.duckdb.connect(path, read_only=True))
    return _guarded(_without_password(address), lambda: ibis.connect(address))


def _without_password(address: str) -> str:
    return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:…@", address)


def _spark(master: str) -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError as missing:
        raise MissingExtra(missing.name or "pyspark", "spark") from None
    if master.startswith("local") and shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise SourceError("engine = 'spark': a local Spark needs Java, and there is none. Install Java 17.")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
    }
    if master.startswith("local"):  # one machine gains nothing from the 200 partitions of a cluster
        settings["spark.sql.shuffle.partitions"] = str(os.cpu_count() or 1)
    builder = SparkSession.builder.master(master).appName("discreet")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return _from_spark(_guarded(master, builder.getOrCreate))


def _from_spark(session: Any) -> Any:
    import ibis

    return ibis.pyspark.connect(session)


def _from_spark_frame(frame: Any) -> Dataset:
    label = f"discreet_source_{os.urandom(6).hex()}"
    frame.createOrReplaceTempView(label)
    connection = _from_spark(frame.sparkSession)
    return Dataset(connection.table(label), connection, "Spark frame")


def _connection(source: Any) -> Any:
    """The ibis connection behind a connection object; None where it is not one."""
    ibis, kind = _ibis(), _kind(source)
    if isinstance(source, ibis.backends.BaseBackend):
        return source
    if kind == "duckdb.DuckDBPyConnection":
        return ibis.duckdb.from_connection(source)
    if kind == "pyspark.SparkSession":
        return _from_spark(source)
    return None


def _from_connection(connection: Any, table: str | None, name: str) -> Dataset:
    if table is None:
        raise InvalidParameter("table", None, "is needed to read from a connection", 'Pass table="customers".')
    return Dataset(_guarded(name, lambda: connection.table(table)), connection, f"{_without_password(name)} {table}")


def _guarded(name: str, action: Callable[[], Any]) -> Any:
    """Run something on the engine; its errors may quote data, so they are replaced by ones that do not."""
    try:
        return action()
    except DiscreetError:
        raise
    except Exception as failure:
        line = re.search(r"[Ll]ine:?\s+(\d+)", str(failure))
        where = f" (near line {line.group(1)})" if line else ""
        raise SourceError(
            f"source = {name!r}: the engine cannot read it{where}: {_reason(failure)}. "
            "The engine's own words are held back because they may quote data; nothing was spent."
        ) from None


_REASONS = {
    "TableNotFound": "there is no such table",
    "CatalogException": "there is no such table",
    "AnalysisException": "there is no such table or column",
    "FileNotFoundError": "there is no such file",
    "PermissionError": "permission is denied",
    "OutOfMemoryException": "it ran out of memory",
    "ConversionException": "a value has another type than its column",
    "IOException": "the file cannot be opened or is damaged",
}


def _reason(failure: Exception) -> str:
    kind = type(failure).__name__
    return _REASONS.get(kind, f"it is malformed or not supported ({kind})")
