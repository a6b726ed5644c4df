"""Frames: each value of a frame is converted by itself, whatever other values its column holds.

A frame's column may be stored as numbers, or as objects because of one text in somebody else's row. The meaning of a
value must not depend on that, so objects become the text that means the same as the value would in a column of its
own kind (``docs/proofs/reading.md``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from discreet.core.errors import InvalidParameter

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FRAMES", "LARGEST_WHOLE_FLOAT", "canonical_text", "distinct_names"]

LARGEST_WHOLE_FLOAT = 2**53
_MANY_DIGITS = 10**400
_MISSING = ("NAType", "NaTType")


def canonical_text(value: Any) -> str | None:
    """The text that means the same as a value; None where it is missing.

    Examples
    --------
    >>> [canonical_text(value) for value in (1, 1.0, True, "1.0", 1.5, float("inf"), float("nan"))]
    ['1', '1', 'true', '1.0', '1.5e+00', '1e+999', None]
    """
    value = value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value
    if value is None or type(value).__name__ in _MISSING:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()  # lone surrogates have no UTF-8
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, int | float | Decimal):
        return _number_text(value)
    try:
        return canonical_text(str(value))
    except Exception:  # a foreign object may fail in any way, and its row must still have an outcome
        return None


def _number_text(value: int | float | Decimal) -> str | None:
    """A whole number's digits. A float that is not whole gets a signed exponent, which no id or label has."""
    if value != value:
        return None
    if not -_MANY_DIGITS < value < _MANY_DIGITS:  # also infinite
        return "1e+999" if value > 0 else "-1e+999"
    if isinstance(value, Decimal):
        return f"{value:f}" if value != int(value) else str(int(value))
    if isinstance(value, int) or (value.is_integer() and abs(value) <= LARGEST_WHOLE_FLOAT):
        return str(int(value))
    text = repr(float(value))
    return text if "e" in text else f"{text}e+00"


def _texts(values: Iterable[Any]) -> pa.Array:
    import pyarrow as pa

    return pa.array([canonical_text(value) for value in values], pa.large_string())


def _plain(column: Any) -> Any:
    """An Arrow column of a kind that every engine reads alike: whole numbers, floats, booleans or text."""
    import pyarrow as pa
    from pyarrow import types

    kind = column.type
    if types.is_dictionary(kind):
        return _plain(column.cast(kind.value_type))
    if types.is_integer(kind) and not types.is_uint64(kind):
        return column.cast(pa.int64())
    if types.is_floating(kind):
        return column.cast(pa.float64())
    if types.is_boolean(kind):
        return column
    if types.is_decimal(kind) or types.is_nested(kind):
        return _texts(column.to_pylist())
    try:
        return column.cast(pa.large_string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return _texts(column.to_pylist())


def _table(columns: Iterable[tuple[Any, Any]]) -> pa.Table:
    import pyarrow as pa

    found = [(str(name), _plain(column)) for name, column in columns]
    distinct_names([name for name, _ in found])
    return pa.table([column for _, column in found], names=[name for name, _ in found])


def distinct_names(names: list[str]) -> None:
    """Refuse two columns of one name; engines do not tell upper from lower case."""
    if len({name.casefold() for name in names}) < len(names):
        raise InvalidParameter("source", "…", "has two columns of one name", "Rename one.")


def _pandas(frame: Any) -> pa.Table:
    import pyarrow as pa

    def column(values: Any) -> Any:
        if values.dtype.name == "category":
            kinds = _texts(values.cat.categories)
            return kinds.take(pa.array(values.cat.codes, mask=values.isna()))
        try:  # typed numbers and columns of nothing but text need no look at each value
            kind = None if values.dtype.kind in "biuf" else pa.large_string()
            return pa.array(values, kind, from_pandas=True)
        except (TypeError, ValueError):
            return _texts(values)

    return _table((name, column(frame.iloc[:, place])) for place, name in enumerate(frame.columns))


def _polars(frame: Any) -> pa.Table:
    def column(series: Any) -> Any:
        return _texts(series.to_list()) if series.dtype.is_object() else series.to_arrow()

    return _table((series.name, column(series)) for series in frame.iter_columns())


def _arrow(table: Any) -> pa.Table:
    return _table(zip(table.column_names, table.columns, strict=True))


FRAMES: Mapping[str, Callable[[Any], Any]] = {
    "pandas.DataFrame": _pandas,
    "polars.DataFrame": _polars,
    "polars.LazyFrame": lambda frame: _polars(frame.collect()),
    "pyarrow.Table": _arrow,
    "pyarrow.RecordBatch": _arrow,
    "pyarrow.RecordBatchReader": lambda reader: _arrow(reader.read_all()),
}
