"""Source kinds: the same few rows as a file, a frame or a table of a database, as users have them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

__all__ = ["SOURCES", "Source", "as_source"]

Row = Mapping[str, Any]
Source = tuple[Any, dict[str, Any]]
"""What a session reads, and how it is told to."""


def as_source(kind: str, rows: Sequence[Row], texts: Sequence[str], names: Sequence[str], folder: Path) -> Source:
    """Rows as one kind of source; an empty table has the same columns and types as any other.

    Parameters
    ----------
    kind
        One of `SOURCES`.
    rows
        The data; None is a gap.
    texts, names
        Which columns hold text, and all columns in order; the others hold numbers.
    folder
        Where files go.
    """
    return SOURCES[kind](rows, texts, names, folder)


def _arrow(rows: Sequence[Row], texts: Sequence[str], names: Sequence[str]) -> pyarrow.Table:
    import pyarrow

    kinds = {name: pyarrow.string() if name in texts else pyarrow.float64() for name in names}
    return pyarrow.table({name: pyarrow.array([row[name] for row in rows], kind) for name, kind in kinds.items()})


def _as_arrow(rows: Sequence[Row], texts: Sequence[str], names: Sequence[str], folder: Path) -> Source:
    return _arrow(rows, texts, names), {}


def _as_pandas(rows: Sequence[Row], texts: Sequence[str], names: Sequence[str], folder: Path) -> Source:
    return _arrow(rows, texts, names).to_pandas(), {}  # gaps of numbers become NaN there


def _as_polars(rows: Sequence[Row], texts: Sequence[str], names: Sequence[str], folder: Path) -> Source:
    import polars

    return polars.from_arrow(_arrow(rows, texts, names)), {}


def _as_csv(rows: Sequence[Row], texts: Sequence[str], names: Sequence[str], folder: Path) -> Source:
    path = folder / "rows.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(["" if row[name] is None else row[name] for name in names] for row in rows)
    return str(path), {}


def _as_parquet(rows: Sequence[Row], texts: Sequence[str], names: Sequence[str], folder: Path) -> Source:
    from pyarrow import parquet

    path = folder / "rows.parquet"
    parquet.write_table(_arrow(rows, texts, names), path)
    return str(path), {}


def _as_database(rows: Sequence[Row], texts: Sequence[str], names: Sequence[str], folder: Path) -> Source:
    import duckdb

    connection = duckdb.connect()
    connection.register("arrived", _arrow(rows, texts, names))
    connection.execute("CREATE TABLE people AS SELECT * FROM arrived")
    return connection, {"table": "people"}


SOURCES: dict[str, Callable[[Sequence[Row], Sequence[str], Sequence[str], Path], Source]] = {
    "arrow": _as_arrow,
    "pandas": _as_pandas,
    "polars": _as_polars,
    "csv": _as_csv,
    "parquet": _as_parquet,
    "duckdb": _as_database,
}
"""By name. Spark starts too slowly for an audit; `discreet.testing.check_source` compares it with the others."""
