"""Frames: each value of a frame is converted by itself, whatever other values its column holds.

A frame's column may be stored as numbers, or as objects because of one text in somebody else's row. The meaning of a
value must not depend on that, so objects become the text that means the same as the value would in a column of its
own kind (``docs/proofs/rows.md``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.core.errors import InvalidParameter

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FRAMES", "LARGEST_WHOLE_FLOAT", "canonical_text", "converted", "distinct_names", "frame_names", "held"]

LARGEST_WHOLE_FLOAT = 2**53 - 1
"""Larger floats may stand for several whole numbers."""
_MANY_DIGITS = 10**400
_MISSING = ("NAType", "NaTType")
_NESTED = (list, tuple, set, frozenset, dict, np.ndarray)
"""What holds several values is none."""
FRAMES = frozenset(
    {
        "pandas.DataFrame", "polars.DataFrame", "polars.LazyFrame", "pyarrow.Table", "pyarrow.RecordBatch",
        "pyarrow.RecordBatchReader",
    }
)  # fmt: skip


def canonical_text(value: Any) -> str | None:
    """The text that means the same as a value; None where it is missing, or is not one value.

    Examples
    --------
    >>> [canonical_text(value) for value in (1, 1.0, True, "1.0", 1.5, float("inf"), float("nan"), [1, 2])]
    ['1', '1', 'true', '1.0', '1.5e+00', '1e+999', None, None]
    """
    try:
        return _text_of(value)
    except Exception:  # a foreign object may fail in any way, and its row must still have an outcome
        return None


def _text_of(value: Any) -> str | None:
    if isinstance(value, np.datetime64):  # numpy would make a number of its nanoseconds
        return None if np.isnat(value) else str(value)
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or type(value).__name__ in _MISSING or isinstance(value, _NESTED):
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()  # lone surrogates have no UTF-8
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, int | float | Decimal):
        return _number_text(value)
    if isinstance(value, datetime) and value.tzinfo is not None:  # its day is that of UTC, as in files
        return str(value.astimezone(UTC))
    return _text_of(str(value))


def _number_text(value: int | float | Decimal) -> str | None:
    """A whole number's digits. A float that is not whole gets a signed exponent, which no id or label has."""
    if value != value:
        return None
    if not -_MANY_DIGITS < value < _MANY_DIGITS:  # also infinite
        return "1e+999" if value > 0 else "-1e+999"
    if isinstance(value, Decimal):
        if value == int(value):
            return str(int(value))
        text = f"{value:f}"
        return text if len(text) <= len(str(_MANY_DIGITS)) else f"{value:e}"
    if isinstance(value, int) or (value.is_integer() and abs(value) <= LARGEST_WHOLE_FLOAT):
        return str(int(value))
    text = repr(float(value))
    return text if "e" in text else f"{text}e+00"


def _texts(values: Iterable[Any]) -> pa.Array:
    import pyarrow as pa

    return pa.array([canonical_text(value) for value in values], pa.large_string())


def _values(column: Any) -> Iterator[Any]:
    """The values of an Arrow column, one by one: what Python cannot hold is missing, and leaves the others."""
    for scalar in column:
        try:
            yield scalar.as_py()
        except (OverflowError, ValueError):
            yield None


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
        return _texts(_values(column))
    if types.is_timestamp(kind) and kind.tz is not None:  # as it is stored: at UTC
        column = column.cast(pa.timestamp(kind.unit))
    try:
        text = column.cast(pa.large_string())
        text.validate(full=True)  # a file may call bytes text that are none
        return text
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        unread = types.is_string(kind) or types.is_large_string(kind)
        return _texts(_values(column.cast(pa.large_binary()) if unread else column))


def distinct_names(names: Sequence[str]) -> None:
    """Refuse two columns of one name; engines do not tell upper from lower case."""
    if len({name.casefold() for name in names}) < len(names):
        raise InvalidParameter("source", "…", "has two columns of one name", "Rename one.")


def frame_names(frame: Any) -> tuple[str, ...]:
    """Names of a frame's columns; no value is looked at."""
    if hasattr(frame, "collect_schema"):
        names = frame.collect_schema().names()
    else:
        names = frame.columns if hasattr(frame, "iloc") else frame.schema.names
    found = tuple(str(name) for name in names)
    distinct_names(found)
    return found


def held(frame: Any) -> Any:
    """The frame, or what a plan or a reader gives, which can be read once only."""
    if hasattr(frame, "collect_schema") and hasattr(frame, "collect"):
        return frame.collect()
    return frame.read_all() if hasattr(frame, "read_all") else frame


def _pandas(values: Any) -> Any:
    import pyarrow as pa

    kind = values.dtype
    if kind.name == "category":
        return _texts(values.cat.categories).take(pa.array(values.cat.codes, mask=values.isna()))
    if isinstance(kind, np.dtype) and kind.kind in "iu":
        # They would be floats if somebody else's value were missing. Int64 and its like hold gaps by themselves.
        return pa.array(values.to_numpy().astype(np.float64))
    try:  # typed numbers and columns of nothing but text need no look at each value
        return pa.array(values, None if kind.kind in "biuf" else pa.large_string(), from_pandas=True)
    except (TypeError, ValueError):
        return _texts(map(_float_beyond, values))


def _float_beyond(value: Any) -> Any:
    """The value; a whole number beyond 2⁵³ as a float, as in a column of nothing but numbers."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return float(value) if whole and LARGEST_WHOLE_FLOAT < abs(value) < 2**64 else value


def converted(frame: Any, columns: Collection[str] | None = None, dates: Collection[str] = ()) -> pa.Table:
    """These columns of a frame, or all, as Arrow columns; numbers among the ``dates`` as text.

    An empty column of dates has numbers for its type, until somebody has a date.
    """
    import pyarrow as pa

    found: dict[str, Any] = {}
    for place, name in enumerate(frame_names(frame)):
        if columns is not None and name not in columns:
            continue
        if hasattr(frame, "iloc"):
            column = _pandas(frame.iloc[:, place])
        elif hasattr(frame, "to_series"):
            series = frame.to_series(place)
            column = _texts(series.to_list()) if series.dtype.is_object() else series.to_arrow()
        else:
            column = frame.column(place)
        column = _plain(column)
        found[name] = column.cast(pa.large_string()) if name in dates else column
    if not found:  # rows can still be counted
        found = {frame_names(frame)[0] if len(frame_names(frame)) else "row": pa.nulls(len(frame), pa.bool_())}
    return pa.table(found)
