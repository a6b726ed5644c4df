"""Source header: the names and types of a source's columns, and the tables of a connection; no row is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.core.dialect import Dialect
from discreet.core.rows import engines
from discreet.opening import column_types, connection_at, open_source, without_password

__all__ = ["source_columns", "source_tables"]

_DIALECT = tuple(vars(Dialect()))
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
    return column_types(source, Dialect(**{key: options[key] for key in _DIALECT if key in options}))


def source_tables(address: str) -> list[str]:
    """The tables of a connection such as ``duckdb://sales.db``, by name."""
    connection = connection_at(address)
    shown = without_password(address)
    if connection.name == "duckdb":  # ibis lists its tables by a method that duckdb deprecates
        found = engines.guarded(shown, lambda: connection.con.execute(_TABLES).fetchall())
        return sorted(str(name) for (name,) in found)
    return sorted(engines.guarded(shown, connection.list_tables))
