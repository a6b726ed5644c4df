"""Opening: which rows a source means: a frame, a path, a connection or its address.

How their values are read is the core's business (`discreet.core.rows`).
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from discreet.core.errors import InvalidParameter, SourceError, WrongType
from discreet.core.rows import engines, read
from discreet.core.rows.snapshot import check_types
from discreet.core.schema import Dates, Schema

if TYPE_CHECKING:
    import ibis.expr.types as ir


_SUFFIXES = (".csv", ".csv.gz", ".csv.zst", ".tsv", ".parquet")
_TEXTS = tuple(one for one in _SUFFIXES if one != ".parquet")
_KNOWN = ("ibis", "duckdb", "pyspark", "discreet")
"""Packages whose objects are read in ways of their own."""
_FIX = 'Pass a frame, a path such as "rows.parquet", or a connection with table="name".'


class Source:
    """A data set that was named. Its header may be looked at for nothing; its rows are read after the payment.

    A value of a frame or file may decide whether reading it fails, and how long it takes. So a session first asks for
    what is public (names of columns, types that a catalogue declares, whether the engine can do the work), then pays,
    and only then opens the rows.

    Parameters
    ----------
    source, table, engine, memory
        As in `open_source`.
    dialect
        How its text is written.
    """

    def __init__(
        self, source: Any, *, table: str | None, engine: Any, memory: str | None, dialect: read.Dialect
    ) -> None:
        self.source = _framed(source)
        self.table = table
        self.memory = memory
        self.dialect = dialect
        self._engine = engine
        self._lock = RLock()
        self._frame: Any = None
        self._opened: dict[Any, read.Dataset] = {}
        self._kind = engines.kind_of(self.source)
        self._is_frame = self._kind in read.FRAMES
        named = isinstance(self.source, str | os.PathLike) and "://" not in os.fspath(self.source)
        self._file = os.fspath(self.source) if named else None
        """The path of files; None for other sources."""
        text = (self._file or "").lower().rstrip("/").endswith(_TEXTS)
        self.declares_types = not self._is_frame and not text
        """True where the types of columns are facts of a catalogue. Those of a frame follow from everybody's values."""
        self._unnamed = text and not dialect.header
        """True where only rows show the number of columns: text without a header. Those are somebody's rows."""
        shown = without_password(self.source) if isinstance(self.source, str) else "source"
        self._name = f"{self._kind.split('.')[0]} table" if self._is_frame else self._file or shown

    def names(self) -> tuple[str, ...]:
        """Names of the columns; no row is looked at."""
        if self._unnamed:
            raise InvalidParameter(
                "columns", [], "are not known of a file without a header before its rows are read",
                'Name them: columns=["column1", "column2"], for example. Nothing was spent.',
            )  # fmt: skip
        if self._is_frame:
            return read.frame_names(self.source)
        if self._file is not None:
            return tuple(column_types(self._file, self.dialect))
        return tuple(self.rows().types())

    def check(self, schema: Schema, columns: Sequence[str]) -> None:
        """Refuse what header, catalogue and engine already tell; no row is looked at, and nothing is spent."""
        self.connection()
        known = read.numbered(read.MOST_NUMBERED) if self._unnamed else self.names()
        read.require_columns(self._name, known, (schema.unit.column, *columns))
        if self.declares_types:
            check_types(self.rows(), schema)

    def may_have(self, columns: Sequence[str]) -> bool:
        """True where the header does not rule these columns out."""
        return self._unnamed or {*self.names()}.issuperset(columns)

    def check_texts(self) -> None:
        """Refuse a file of text that is malformed or in another encoding, with its line; for the owner of the rows."""
        if self._file is not None and not self.declares_types:
            engines.guarded(self._name, lambda: read.check_csv(_files(self._file or ""), self.dialect))

    def connection(self) -> Any:
        """The engine that the caller chose for frames and files, once it is known to be able; None for the embedded."""
        engines.load_ibis()
        if self._engine in (None, "duckdb") or isinstance(self.source, read.Dataset):
            return None
        with self._lock:
            if isinstance(self._engine, str):
                self._engine = connection_at(self._engine)
            connection = engines.connection_of(self._engine)
            if connection is None:
                raise WrongType(
                    "engine", type(self._engine).__name__, "is not an engine",
                    'Pass "duckdb", "spark", an address or a connection.',
                )  # fmt: skip
            engines.require_able(connection)
            self._engine = connection
            return connection

    def rows(self, columns: Sequence[str] | None = None, dates: Collection[str] = ()) -> read.Dataset:
        """The rows, opened once. Of a frame only these columns are converted; those of ``dates`` as text."""
        with self._lock:
            if isinstance(self.source, read.Dataset):
                return self.source
            if not self._is_frame:
                columns, dates = None, ()
            key = None if columns is None else tuple(sorted({*columns})), frozenset(dates)
            if key not in self._opened:
                self._opened[key] = read.Dataset(*self._read(columns, dates), self.dialect)
            return self._opened[key]

    def _read(self, columns: Sequence[str] | None, dates: Collection[str]) -> tuple[ir.Table, Any, str]:
        """The rows as an ibis table, with the connection that holds them and what they are called."""
        ibis = engines.load_ibis()
        kind = self._kind
        chosen = self.connection()
        source = self.source
        table = self.table
        connect = partial(engines.embedded, self.memory)
        if self._is_frame:
            if self._frame is None:
                self._frame = read.held(source)  # a reader can be read once only
            connection = chosen or connect()
            return (
                read.uploaded(connection, read.converted(self._frame, columns, dates), self._name),
                connection,
                self._name,
            )
        if isinstance(source, ibis.Table):
            _require_declared(source)
            # A view keeps the query in one piece: ibis would merge its filters into ours and lose the names of tables.
            own = source.get_backend()
            return engines.plain_texts(own, source.view()), own, "ibis table"
        if self._file is not None:
            if table is not None:
                raise InvalidParameter(
                    "table", table, "has no meaning for a file", 'For a database write "duckdb://file.db".'
                )
            found = read.file_rows(self._file, _files(self._file), self.dialect, lambda files: chosen or connect(files))
            return *found, self._file
        if kind == "pyspark.DataFrame":
            connection = engines.connection_of(source.sparkSession)
            return engines.plain_texts(connection, read.viewed(connection, source)), connection, "Spark frame"
        connection = connection_at(source) if isinstance(source, str) else engines.connection_of(source)
        if connection is None:
            raise WrongType("source", type(source).__name__, "is not a source that can be read", _FIX)
        if table is None:
            raise InvalidParameter("table", None, "is needed to read from a connection", 'Pass table="customers".')
        name = f"{without_password(source) if isinstance(source, str) else kind} {table}"
        engines.require_able(connection)
        engines.require_declared(connection, [table])
        with engines.alone(connection):
            found = engines.guarded(name, lambda: engines.plain_texts(connection, connection.table(table)))
        return found, connection, name


def _framed(source: Any) -> Any:
    """The frame in an ibis table that is nothing else, the reader of a stream; every other source as it is."""
    kind = engines.kind_of(source)
    if kind.split(".")[0] not in _KNOWN and kind not in read.FRAMES and hasattr(source, "__arrow_c_stream__"):
        import pyarrow as pa

        return pa.RecordBatchReader.from_stream(source)  # for its schema: no row is read before the payment
    if kind != "ibis.Table":
        return source
    operation = source.op()
    return operation.data.obj if type(operation).__name__ == "InMemoryTable" else source


def _require_declared(table: ir.Table) -> None:
    """Refuse an expression of ibis over what has no declared types."""
    from ibis.expr import operations

    if table.op().find(operations.InMemoryTable):
        raise WrongType(
            "source", "ibis table", "holds a frame, whose types follow from the values in its rows",
            "Pass the frame itself, or make it a table of the database. Nothing was spent.",
        )  # fmt: skip
    engines.require_declared(table.get_backend(), [one.name for one in table.op().find(operations.DatabaseTable)])


def source_of(given: Any, *, engine: Any = None) -> Source:
    """A source, from itself or from what `open_source` takes: the data, or a dict of settings."""
    options = given if isinstance(given, Mapping) else {"source": given}
    options = {"table": None, "engine": engine, "memory": None, **options}
    source = options.pop("source")
    if isinstance(source, Source):
        return source
    own = {name: options.pop(name) for name in ("table", "engine", "memory")}
    return Source(source, **own, dialect=read.Dialect(**options))


def open_declared(source: Source, schema: Schema, others: Sequence[str] = ()) -> read.Dataset:
    """The rows of a source, with the columns that a schema makes use of and ``others``; no other is converted."""
    schema = schema.of_rows
    declared = [name for name in schema.columns if source.may_have(schema.source_columns([name]))]
    columns = {*schema.source_columns(declared), *others} - {None}
    dates = [name for name in columns if isinstance(schema.columns.get(name), Dates)]
    return source.rows([*columns, *([] if schema.unit.column is None else [schema.unit.column])], dates)


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
) -> read.Dataset:
    """Open a data set where it lies, with all of its columns.

    Parameters
    ----------
    source
        A pandas, polars, pyarrow or Spark frame, or another object with ``__arrow_c_stream__``; the path or glob of CSV
        or Parquet files; an ibis table of DuckDB or Spark; a connection to one of them; or its address
        (``"duckdb://sales.db"``, ``"spark://host:7077"``).
    table
        Name of the table, where ``source`` is a connection or its address.
    engine
        Who runs the plan for frames and files: the embedded DuckDB by default, ``"spark"`` for a local Spark, the
        address of a Spark master, a Spark session, or a DuckDB connection.
    memory
        Most memory that a session on the embedded DuckDB takes: ``"3GB"`` by default, 0.7 of it for the
        libraries. Rows beyond it lie in a private directory on disk.
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
    if isinstance(source, read.Dataset):
        return source
    dialect = read.Dialect(
        delimiter=delimiter, decimal=decimal, encoding=encoding, header=header, thousands=thousands, symbols=symbols
    )
    return Source(source, table=table, engine=engine, memory=memory, dialect=dialect).rows()


def _files(path: str) -> list[str]:
    """The files that a path means: itself if it exists, the files of a folder, or what a pattern matches."""
    if not path.lower().rstrip("/").endswith(_SUFFIXES):
        fix = f"{_FIX} `discreet convert` makes Parquet files of those of SPSS, Stata, SAS and Excel."
        if path.lower().endswith(".toml"):
            fix = "That is a plan: pass the file of rows that it names under [source]."
        raise InvalidParameter("source", path, f"must end in one of {', '.join(_SUFFIXES)}", fix)
    # os.path, and not pathlib: a name that no file can have is no file, and no error
    files = [path] if os.path.exists(path) else sorted(glob.glob(path))
    if os.path.isdir(path):
        files = sorted(str(file) for file in Path(path).iterdir() if file.name.endswith(_SUFFIXES))
    if not files or not all(map(os.path.isfile, files)):
        raise SourceError(f"source = {path!r}: there is no such file. Check the path. Nothing was spent.")
    return files


def column_types(path: str, dialect: read.Dialect) -> Mapping[str, str]:
    """Names and types of a file's columns, from its header alone; all columns of a CSV file are text."""
    files = _files(path)
    if path.lower().rstrip("/").endswith(".parquet"):
        return read.parquet_types(files)
    return dict.fromkeys(engines.guarded(path, lambda: read.read_names(files[0], dialect)), "string")


def connection_at(address: str) -> Any:
    """Connection for ``spark``, ``spark://…`` or ``duckdb://file.db``; others are refused before anything is opened."""
    if address == "spark" or address.startswith(("spark://", "local[")):
        return engines.spark("local[*]" if address == "spark" else address)
    if not address.startswith("duckdb://"):
        raise InvalidParameter(
            "source", without_password(address), "is not the address of an engine that discreet reads rows on",
            'Use "duckdb://file.db" or "spark://host:7077", or export the table to Parquet files. Nothing was spent.',
        )  # fmt: skip
    path = address.removeprefix("duckdb://")
    if not os.path.isfile(path):
        raise SourceError(f"source = {address!r}: there is no such database. Check the path. Nothing was spent.")
    return engines.guarded(address, lambda: engines.load_ibis().duckdb.connect(path, read_only=True, **engines.SEALED))


def without_password(address: str) -> str:
    """The address as it may be shown."""
    return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:…@", address)


# ---- Source header: the names and types of a source's columns, and the tables of a connection; no row is looked at.


_DIALECT = tuple(vars(read.Dialect()))
_TABLES = "select table_name from information_schema.tables"


def source_columns(options: Mapping[str, Any]) -> Mapping[str, str]:
    r"""Names and types of the columns of a source, from the header of a file or the catalogue of a connection.

    Parameters
    ----------
    options
        What a session takes: source, table, engine, memory and the dialect of a file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(f"{folder}/people.csv", "w") as file:
    ...         _ = file.write("age;region\n41;north\n")
    ...     source_columns({"source": f"{folder}/people.csv", "delimiter": ";"})
    {'age': 'string', 'region': 'string'}
    """
    source = str(options["source"])
    if "://" in source:
        return open_source(source, table=options.get("table"), engine=options.get("engine")).types()
    return column_types(source, read.Dialect(**{key: options[key] for key in _DIALECT if key in options}))


def source_tables(address: str) -> list[str]:
    """The tables of a connection such as ``duckdb://sales.db``, by name."""
    connection = connection_at(address)
    shown = without_password(address)
    if connection.name == "duckdb":  # ibis lists its tables by a method that duckdb deprecates
        found = engines.guarded(shown, lambda: connection.con.sql(_TABLES).fetchall())
        return sorted(str(name) for (name,) in found)
    return sorted(engines.guarded(shown, connection.list_tables))


# ---- Source identity: the text by which a ledger knows a source again; where the data is, and never what is in it.


def source_identity(place: str | os.PathLike[str], table: str | None = None) -> str:
    """One text for one place, however its path is written.

    Examples
    --------
    >>> source_identity("survey.csv") == source_identity("./survey.csv")
    True
    """
    name = os.fspath(place)
    known = name if "://" in name or "\0" in name else os.path.realpath(name)  # no file's name holds a zero
    return json.dumps({"place": known, "table": table}, sort_keys=True)
