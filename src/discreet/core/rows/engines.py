"""Engines: DuckDB, embedded or the caller's own, and Spark, each through ibis."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from decimal import Decimal
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from logging import getLogger
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from discreet.core.errors import DiscreetError, InvalidParameter, MissingExtra, SourceError, WrongType

# ---- Spilling: a private directory for what the embedded engine cannot hold in memory.
#
# A process that is killed cannot clean up, so each one removes what dead ones left behind. A directory is alive while
# its process holds a lock on it; the system releases that lock however the process ends. Other users of the machine can
# put anything beside it under such a name, so only directories of this user are opened.


_PREFIX = "discreet-spills-"


def spill_directory() -> tuple[Path, int | None]:
    """Make a directory that only this user can read, with its lock held; `remove_directory` takes both."""
    place = tempfile.gettempdir()  # it may hold tens of thousands of names
    for left in [Path(place, name) for name in os.listdir(place) if name.startswith(_PREFIX)]:
        if (lock := _locked(left, wait=False)) is not None:
            remove_directory(left, lock)
    while True:
        directory = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        held = _locked(directory, wait=True)
        if directory.exists():  # and not taken for abandoned before it was locked
            return directory, held
        remove_directory(directory, held)


def _locked(directory: Path, *, wait: bool) -> int | None:
    """A handle that holds the lock on a directory of this user; None where others hold it, or no lock can be had."""
    with suppress(OSError):
        # Windows opens no directory, and refuses to remove files in use. What is no directory is not even opened:
        # a pipe would wait for its other end.
        if sys.platform != "win32" and os.lstat(directory).st_uid == os.getuid():
            import fcntl

            handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(handle)
                raise
            return handle
    return None


def remove_directory(directory: Path, held: int | None) -> None:
    """Remove a directory, then release its lock: whoever waits for it must find the directory gone."""
    shutil.rmtree(directory, ignore_errors=True)
    if held is not None:
        os.close(held)


# ---- Engines: DuckDB, embedded or the caller's own, and Spark, each through ibis.


_MEMORY = "3GB"
"""The memory that a session with the embedded engine takes at most, unless told otherwise; the rest spills."""
_OWN_MEMORY = 7 * 10**8
"""Of that, what is left for the libraries, and for the rows that are looked at together."""
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
SEALED = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
}


@cache
def load_ibis() -> Any:
    """The package ibis, or an error that says how to install it."""
    try:
        import ibis
        import pyarrow  # noqa: F401  (every result comes back through it)
    except ImportError as missing:
        raise MissingExtra(missing.name or "ibis", "tables") from None
    _load_compilers_when_used()
    return ibis


def _load_compilers_when_used() -> None:
    """Spare a first answer the compilers of all the dialects that ibis speaks, of which it needs one."""
    whole = "ibis.backends.sql.compilers"
    spec = None if whole in sys.modules else find_spec(whole)
    if spec is None or spec.loader is None:
        return
    package = module_from_spec(spec)
    execute = spec.loader.exec_module

    def found(name: str) -> Any:
        with suppress(ModuleNotFoundError):
            return import_module(f"{whole}.{name}")
        del vars(package)["__getattr__"]
        execute(package)  # the classes of all of them
        return getattr(package, name)

    vars(package)["__getattr__"] = found
    sys.modules[whole] = package


def kind_of(source: Any) -> str:
    """Package and class of a source, so that no package is imported only to ask."""
    top = type(source).__module__.split(".")[0]
    return f"{'duckdb' if top == '_duckdb' else top}.{type(source).__name__}"


def embedded(memory: str | None, files: Sequence[str] = ()) -> Any:
    """An in-memory DuckDB that reads these files and nothing else outside its memory.

    It spills, if it must, into a private directory that goes away with it.
    """
    spill, held = spill_directory()
    memory = _engine_memory(_MEMORY if memory is None else memory)
    connection = load_ibis().duckdb.connect(temp_directory=str(spill), memory_limit=memory, **SEALED)
    weakref.finalize(connection, remove_directory, spill, held)
    weakref.finalize(connection, connection.con.interrupt)  # a query that was stopped would go on and delay the end
    paths = ", ".join("'" + os.path.abspath(file).replace("'", "''") + "'" for file in files)
    # A notebook without ipywidgets draws no progress bar, and refuses to be told so.
    drawn = connection.con.sql("SELECT current_setting('enable_progress_bar')").fetchall() == [(True,)]
    sealed = (*("enable_progress_bar = false",) * drawn, "enable_external_access = false", "lock_configuration = true")
    connection.con.execute(";".join(f"SET {setting}" for setting in (f"allowed_paths = [{paths}]", *sealed)))
    return connection


def _engine_memory(memory: str) -> str:
    """What the engine may take of an amount of memory: all but what is left for the rest, or half of little."""
    amount = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *([KMGT]?)B", memory.strip(), re.IGNORECASE)
    if amount is None:
        return memory  # in words that DuckDB knows, or refuses
    whole = float(amount[1]) * _UNITS[amount[2].upper()]
    return f"{int(max(whole - _OWN_MEMORY, whole / 2))}B"


def spark(master: str) -> Any:
    """Connection to a Spark that says nothing: what it logs of a failed task may quote a row."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as missing:
        raise MissingExtra(missing.name or "pyspark", "spark") from None
    if master.startswith("local") and shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise SourceError("engine = 'spark': a local Spark needs Java, and there is none. Install Java 17.")
    settings: dict[str, Any] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "OFF",  # the log of a failed task may quote a row
        "spark.sql.execution.replaceHashWithSortAgg": "true",  # stored rows lie in the order of what they are added by
    }
    if master.startswith("local"):
        # One machine gains nothing from the 200 partitions of a cluster, nor from a job for every stage.
        settings["spark.sql.shuffle.partitions"] = str(os.cpu_count() or 1)
        settings["spark.sql.adaptive.enabled"] = "false"
        # As much as the embedded engine, unless Spark is told otherwise anywhere: of its 1 GB, stored rows spill soon.
        os.environ.setdefault("SPARK_DRIVER_MEMORY", "3g")
    builder = SparkSession.builder.master(master).appName("discreet").config(map=settings)
    getLogger("SQLQueryContextLogger").disabled = True  # so may what Python prints of it
    return connection_of(guarded(master, builder.getOrCreate))


def connection_of(source: Any) -> Any:
    """The ibis connection behind a connection object; None where it is not one."""
    ibis, kind = load_ibis(), kind_of(source)
    if isinstance(source, ibis.backends.BaseBackend):
        return source
    if kind == "duckdb.DuckDBPyConnection":
        with alone(source):
            (own,) = source.sql("SELECT current_setting('TimeZone')").fetchall()[0]
            connection = ibis.duckdb.from_connection(source)
            source.execute(f"SET TimeZone = '{own}'")  # which ibis sets to UTC for good
        return connection
    if kind == "pyspark.SparkSession":
        with _in_utc(source):  # which ibis sets for good
            return ibis.pyspark.connect(source)
    return None


def require_able(connection: Any) -> None:
    """Refuse an engine, or a setting of it, that would read rows in another way; no row is looked at."""
    if connection.name not in ("duckdb", "pyspark"):
        raise InvalidParameter(
            "engine", connection.name, "is not one that discreet reads rows on",
            "Use DuckDB or Spark, or export the table to Parquet files. Nothing was spent.",
        )  # fmt: skip
    with alone(connection):
        needed = [(name, _setting(connection, name), meant) for name, meant in _NEEDED[connection.name].items()]
    for setting, found, meant in needed:
        if found is not None and found.lower() not in meant:
            raise InvalidParameter(
                "engine", f"{setting} = {found}", "makes the engine confuse texts, or the order of rows",
                f"Set it to {meant[0] or 'nothing'!r} for this connection. Nothing was spent.",
            )  # fmt: skip


_NEEDED: dict[str, dict[str, tuple[str, ...]]] = {
    # Ids that differ in case or accents belong to different people.
    "duckdb": {
        "default_collation": ("", "binary", "c", "posix"),
        # Stored rows stay in the order of units and values.
        "preserve_insertion_order": ("true",),
        "default_null_order": ("nulls_last", "last"),
    },
    # A backslash in a pattern must stay one.
    "pyspark": {
        "spark.sql.parser.escapedStringLiterals": ("false",),
        "spark.sql.session.collation.default": ("utf8_binary",),
    },
}


_VIEWS = "SELECT lower(view_name), sql FROM duckdb_views() WHERE NOT internal"
_GUESSED = re.compile(
    r"\b(?:read_(?:csv|json|ndjson|xlsx)\w*|sniff_csv|st_read)\b"
    r"|\.(?:csv|tsv|txt|json|jsonl|ndjson|xlsx)(?:\.gz|\.zst)?[\"']"
    r"|\b(?:\w*(?:pandas|polars|arrow)\w*_scan|__duckdb_source\w*)\b",  # a registered frame, from DuckDB 2 on
    re.IGNORECASE,
)
"""The words that make DuckDB look at values before it says what type a column has."""


def require_declared(connection: Any, tables: Iterable[str]) -> None:
    """Refuse tables of DuckDB whose types follow from somebody's values: frames, and views over them or over text."""
    if connection.name != "duckdb":
        return
    with alone(connection):
        views = dict(connection.con.sql(_VIEWS).fetchall())
    waiting = [name.lower() for name in tables]
    known = set[str]()
    while waiting:
        name = waiting.pop()
        if name in known or name not in views:
            continue
        known.add(name)
        query = views[name]
        if not query or _GUESSED.search(query):  # before DuckDB 2, a registered frame has no query
            raise WrongType(
                "table", name, "has types that follow from the values in its rows",
                "Pass the frame or the path of the file itself, or make it a table of the database. Nothing was spent.",
            )  # fmt: skip
        waiting += [other for other in views if re.search(rf"\b{re.escape(other)}\b", query, re.IGNORECASE)]


def plain_texts(connection: Any, table: Any) -> Any:
    """A table of the caller in which texts have the order of their bytes.

    An ENUM has an order of its own, and a collation may take two ids for one.
    """
    if connection.name == "pyspark":
        for field in connection._session.sql(connection.compile(table)).schema:
            if getattr(field.dataType, "collation", "UTF8_BINARY") != "UTF8_BINARY":
                raise WrongType(
                    "column", field.name, f"has the collation {field.dataType.collation}, which confuses texts",
                    "Cast it to STRING COLLATE UTF8_BINARY. Nothing was spent.",
                )  # fmt: skip
        return table
    encode, decode = _bytes_and_back()
    return table.mutate(
        **{name: decode(encode(table[name])) for name, kind in table.schema().items() if kind.is_string()}
    )


@cache
def _bytes_and_back() -> tuple[Any, Any]:
    """Functions of DuckDB that ibis has no names for; it leaves out a cast from text to text, which says less."""
    import ibis

    def encode(text: str) -> bytes: ...  # type: ignore[empty-body]

    def decode(bytes: bytes) -> str: ...  # type: ignore[empty-body]

    return ibis.udf.scalar.builtin(encode), ibis.udf.scalar.builtin(decode)


def _setting(connection: Any, name: str) -> str | None:
    if connection.name == "pyspark":
        found = connection._session.conf.get(name, None)
        return None if found is None else str(found)
    return str(connection.con.sql(f"SELECT current_setting('{name}')").fetchall()[0][0])


@contextmanager
def _in_utc(session: Any) -> Iterator[None]:
    """Run Spark at UTC, and leave the caller's time zone as it was."""
    own = session.conf.get("spark.sql.session.timeZone")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        yield
    finally:
        session.conf.set("spark.sql.session.timeZone", own)


@contextmanager
def _at_work(session: Any) -> Iterator[None]:
    """Run Spark at UTC and without a word: what it logs of a failed task may quote a row.

    A session of Spark Connect cannot tell its server to be silent.
    """
    if type(session).__module__.startswith("pyspark.sql.connect"):
        with _in_utc(session):
            yield
        return
    root = session.sparkContext._jvm.org.apache.logging.log4j.LogManager.getRootLogger()
    own = root.getLevel().toString()
    session.sparkContext.setLogLevel("OFF")
    try:
        with _in_utc(session):
            yield
    finally:
        session.sparkContext.setLogLevel(own)


_turns: WeakKeyDictionary[Any, tuple[Lock, list[str]]] = WeakKeyDictionary()
"""For each connection the lock of who is at work, and the tables that are to be dropped."""


def _turn(connection: Any) -> tuple[Lock, list[str]]:
    own = getattr(connection, "con", None) or getattr(connection, "_session", None) or connection
    return _turns.setdefault(own, (Lock(), []))


@contextmanager
def alone(connection: Any) -> Iterator[None]:
    """Work that no other session does on the same connection meanwhile: a query ends what another still reads."""
    lock, names = _turn(connection)
    with lock:
        _drop(connection, names)
        yield


def passing(connection: Any, table: Any, name: str, *held: Any) -> Any:
    """A table that goes with the last expression over it, and what it is made of no earlier."""
    weakref.finalize(table.op(), let_go, connection, name, *held).atexit = False
    return table


def let_go(connection: Any, name: str, *_held: Any) -> None:
    """Drop a table: now, or before the next work where somebody is at it.

    Python may collect a table at any moment, in any thread, even while the connection returns the result of a query.
    """
    lock, names = _turn(connection)
    names.append(name)
    if lock.acquire(blocking=False):
        try:
            _drop(connection, names)
        finally:
            lock.release()


def _drop(connection: Any, names: list[str]) -> None:
    while names:
        with suppress(Exception):  # the connection may be closed, and the table gone with it
            drop(connection, names.pop())


def _upload(connection: Any, expression: Any) -> None:
    """Give the engine the lists of labels, and other tables in memory, that a query reads; each goes with its query."""
    from ibis.expr.operations import InMemoryTable

    for table in expression.op().find(InMemoryTable):
        rows = table.data.to_pyarrow(table.schema)
        if connection.name == "pyspark":
            connection._session.createDataFrame(rows).createOrReplaceTempView(table.name)
        else:
            connection.con.register(table.name, rows)
        weakref.finalize(table, let_go, connection, table.name).atexit = False


_MOST_SHAPES = 512
_shapes: dict[Any, tuple[str, tuple[str, ...]]] = {}
"""Queries in SQL by their shapes, with the names of the tables that they were compiled for."""


def compiled(connection: Any, expression: Any) -> str:
    """The query in SQL. Queries that differ in names that discreet gave to tables alone are compiled once."""
    try:
        shape, names = _shape(expression.op())
    except TypeError:  # it holds what only ibis knows to compare
        return str(connection.compile(expression))
    key = connection.name, shape
    known = _shapes.pop(key, None) or (connection.compile(expression), names)
    _shapes[key] = known  # the last: those that nobody asks again are the first to go
    if len(_shapes) > _MOST_SHAPES:
        _shapes.pop(next(iter(_shapes)), None)
    now = dict(zip(known[1], names, strict=True))
    return _OWN.sub(lambda found: now.get(found[0], found[0]), known[0])


_OWN = re.compile(
    r"\b(?:discreet_(?:marked_)?[0-9a-f]{16}|discreet_source_[0-9a-f]{12}|ibis_\w+_memtable_[0-9a-z]{26})\b"
)
"""The names that discreet and ibis draw for tables."""


def _shape(query: Any) -> tuple[Any, tuple[str, ...]]:
    """What a query is but for the names drawn for its tables; and these names, in the order in which they are met."""
    from ibis.expr import operations

    places: dict[Any, int] = {}
    names: list[str] = []
    told: list[Any] = []
    references: dict[int, int] = {}
    waiting = [query]
    while waiting:  # and not by recursion: an expression may be as deep as it is long
        if lacking := [one for one in waiting[-1].__children__ if one not in places]:
            waiting += lacking
            continue
        one = waiting.pop()
        if one in places:
            continue
        if isinstance(one, operations.DatabaseTable | operations.InMemoryTable):
            drawn = _OWN.fullmatch(one.name) is not None
            if drawn and one.name not in names:
                names.append(one.name)
            space = getattr(one, "namespace", None)
            where = space and (space.catalog, space.database)
            parts: Any = names.index(one.name) if drawn else one.name, where, _part(one.schema, places)
        elif isinstance(one, operations.Reference):  # ibis numbers them through, of whatever was asked before
            parts = _part(one.parent, places), references.setdefault(one.identifier, len(references))
        else:
            parts = _part(one.__args__, places)
        told.append((type(one), parts))
        places[one] = len(told)
    return tuple(told), tuple(names)


def _part(value: Any, places: Mapping[Any, int]) -> Any:
    """An argument of an operation, with places for other operations.

    A number is told by its type and how it prints: 1, 1.0 and True, or 0.0 and -0.0, are equal to Python. A text that
    holds such a name would be changed with it.
    """
    if hasattr(type(value), "__children__"):
        return (places[value],)
    if isinstance(value, Mapping):
        return dict, tuple((_part(name, places), _part(one, places)) for name, one in value.items())
    if isinstance(value, tuple):
        return tuple, tuple(_part(one, places) for one in value)
    if isinstance(value, frozenset):
        return frozenset, tuple(_part(one, places) for one in sorted(value))
    if isinstance(value, int | float | Decimal | date):
        return type(value), repr(value)
    own = isinstance(value, str) and _OWN.search(value)
    if value is None or (isinstance(value, str) and not own) or type(value).__module__ == "ibis.expr.datatypes.core":
        return type(value), value
    raise TypeError(type(value))


def fetched(connection: Any, expression: Any) -> Any:
    """The result of a query as a pyarrow table."""
    if connection.name == "pyspark":  # ibis goes by way of pandas, where whole numbers with gaps become floats
        with _at_work(connection._session):
            return _spark_frame(connection, expression).toArrow()
    _upload(connection, expression)  # ibis's own way imports pandas, which takes longer than a small query
    found = connection.con.sql(compiled(connection, expression)).to_arrow_table()
    meant = expression.schema().to_pyarrow()
    return found if found.schema.equals(meant) else found.cast(meant)


def numbers_of(column: Any) -> NDArray[Any]:
    """The whole numbers of an Arrow column without gaps. Its own `to_numpy` imports pandas."""
    whole = column.combine_chunks() if hasattr(column, "chunks") else column
    if whole.null_count or not str(whole.type).startswith("int"):
        raise TypeError(str(whole.type))
    values = whole.buffers()[1] or b""
    found: NDArray[Any] = np.frombuffer(values, str(whole.type))
    return found[whole.offset : whole.offset + len(whole)]


def arrow_of(values: NDArray[np.int64]) -> Any:
    """Numbers as Arrow holds them. `pyarrow.array` imports pandas."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int64(), values.size, [None, pa.py_buffer(values)])


def asked_again(connection: Any, expression: Any) -> Callable[..., Any]:
    """A query on DuckDB that is compiled once: what of its rows to select, and where, gives a pyarrow table.

    It has no parameters, which take a statement of their own: what others ask of the connection before its result is
    read would take the result's place.
    """
    _upload(connection, expression)
    query = compiled(connection, expression)

    def ask(what: str, where: str, _held: Any = expression) -> Any:  # the tables that it reads live on
        return connection.con.sql(f"SELECT {what} FROM ({query}) AS rows WHERE {where}").to_arrow_table()

    return ask


def batches(connection: Any, expression: Any, rows: int) -> Iterator[Any]:
    """The result of a query on DuckDB, in batches of at most so many rows.

    It is stored before the first one is read: what still streams would end, in silence, at the next query of whoever
    else uses the connection.
    """
    materialised(connection, name := f"discreet_{secrets.token_hex(8)}", expression)
    whole = f'FROM temp.main."{name}"'
    try:
        ((size,),) = connection.con.sql(f"SELECT count(*) {whole}").fetchall()
        for low in range(0, size, rows):
            piece = connection.con.sql(f"SELECT * {whole} WHERE rowid BETWEEN {low} AND {low + rows - 1}")
            yield from piece.to_arrow_table().to_batches()
    finally:
        drop(connection, name)


def materialised(connection: Any, name: str, expression: Any, together: Sequence[str] = ()) -> Any:
    """A table that is computed once and stored on the engine; on Spark, rows that agree in some columns lie together.

    What is asked of such rows then moves none of them between machines.
    """
    if connection.name == "duckdb":  # two statements in place of the six of ibis
        _upload(connection, expression)
        columns = ", ".join(one.sql(dialect="duckdb") for one in expression.schema().to_sqlglot_column_defs("duckdb"))
        connection.con.execute(f'CREATE TEMPORARY TABLE "{name}" ({columns})')
        connection.con.execute(f'INSERT INTO temp.main."{name}" {compiled(connection, expression)}')
        return connection.table(name, database=("temp", "main"))
    # Spark recomputes what it merely caches; a checkpoint cuts the plan, so the source is never read again.
    with _at_work(connection._session):
        frame = _spark_frame(connection, expression)
        if together:
            frame = frame.repartition(*together).sortWithinPartitions(*together)
        _checkpoints[name] = frame = frame.localCheckpoint()
        frame.createOrReplaceTempView(name)
    return connection.table(name)


_checkpoints: dict[str, Any] = {}
"""The frames of Spark that are stored, by their names."""


MARKED, _BITS = "discreet_marked_", "_bits"


_SMALL_COPY = 1 << 23
"""Bytes that are copied in less time than the import of pandas takes."""


def registered(connection: Any, name: str, rows: Any) -> Any:
    """A table of Arrow, on DuckDB, which imports pandas before it reads one in its place."""
    if rows.nbytes > _SMALL_COPY:
        connection.con.register(name, rows)
    else:
        connection.con.register(label := f"{name}_rows", rows.__arrow_c_stream__())
        connection.con.execute(f'CREATE TEMPORARY TABLE "{name}" AS FROM "{label}"')
        connection.con.unregister(label)
    return connection.table(name, database=("temp", "main"))


def appended(connection: Any, name: str, rows: Any) -> None:
    """Add rows of Arrow, with the same columns, to a table that is stored on DuckDB."""
    connection.con.register(label := f"{name}_rows", rows.__arrow_c_stream__())
    connection.con.execute(f'INSERT INTO temp.main."{name}" SELECT * FROM "{label}"')
    connection.con.unregister(label)


def marked(connection: Any, name: str, table: str, bits: NDArray[np.bool_]) -> Any:
    """The rows of a table that is stored on DuckDB whose bit is set, in the order of their places, which they keep."""
    import pyarrow as pa

    packed = pa.py_buffer(np.packbits(bits, bitorder="little"))
    connection.con.execute(f'CREATE TEMPORARY TABLE "{name}{_BITS}" (kept BOOLEAN)')
    whole = pa.Array.from_buffers(pa.bool_(), bits.size, [None, packed])
    appended(connection, name + _BITS, pa.Table.from_arrays([whole], names=["kept"]))
    connection.con.execute(
        f'CREATE TEMPORARY VIEW "{name}" AS SELECT rows.rowid AS rowid, rows.* '
        f'FROM temp.main."{table}" AS rows POSITIONAL JOIN temp.main."{name}{_BITS}" AS bits WHERE bits.kept'
    )
    return connection.table(name, database=("temp", "main"))


def _spark_frame(connection: Any, expression: Any) -> Any:
    _upload(connection, expression)
    return connection._session.sql(compiled(connection, expression))


def drop(connection: Any, name: str) -> None:
    """Drop a stored table, the view of one whose rows are marked, or what was registered."""
    if connection.name == "pyspark":
        connection._session.catalog.dropTempView(name)
        frame = _checkpoints.pop(name, None)
        if frame is not None and hasattr(frame, "_jdf"):  # or it would lie in memory until Java collects its garbage
            frame._jdf.logicalPlan().rdd().unpersist(False)
    elif name.startswith(MARKED):
        connection.con.execute(f'DROP VIEW temp.main."{name}"; DROP TABLE temp.main."{name}{_BITS}"')
    else:
        connection.con.unregister(name)
        connection.con.execute(f'DROP TABLE IF EXISTS temp.main."{name}"')


def guarded(name: str, action: Callable[[], Any]) -> Any:
    """Run something on the engine; its errors may quote data, so they are replaced by ones that do not."""
    try:
        return action()
    except DiscreetError:
        raise
    except Exception as failure:
        # so DuckDB says that somebody stopped the program, before and from version 2
        if isinstance(failure.__cause__, KeyboardInterrupt) or str(failure) == "Query interrupted":
            raise KeyboardInterrupt from None
        kind = type(failure).__name__
        reason = _REASONS.get(kind, f"it is malformed or not supported ({kind})")
        raise SourceError(
            f"source = {name!r}: the engine cannot read it: {reason}. "
            "The engine's own words are held back because they may quote data. Nothing was spent."
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
    "OSError": "the file cannot be opened or is damaged",
}
