"""Plain texts: numbers and dates as most programs write them, read by Arrow's casts at a fraction of the usual cost.

What a text means is the engine's to say, by the rules of ``docs/proofs/reading.md``. Arrow reads fewer texts than
these rules do, and reads them alike: what it refuses, and what it might read otherwise, is left to the engine. So the
rules decide what a text means, and other texts in its column decide only how fast it is read.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.dates import Order
from discreet.core.dialect import Dialect
from discreet.core.rows.typed_values import MISSING, OTHER

__all__ = ["array_of", "plain_values"]

_DAY = 86_400_000_000
"""Microseconds."""
_YEAR_ONE = -719_162
"""Day of 0001-01-01: the year 0 is no date."""
_TRIED = 32
_UNCLEAR = r"^[ \t]*(?:[+-]?(?:[0-9.,]|(?i:true|false|inf))|\z)"
"""Texts that begin otherwise are words, unless symbols may stand before a number."""
_NUMBER = r"^[+-]?(?:[0-9]+(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:[eE][+-]?[0-9]+)?\z"


def plain_values(texts: Any, *, written: Dialect, order: Order = "ymd") -> tuple[Any, Any, Any]:
    """Numbers and days of plain texts, as arrays or one value for all, and the texts that are not plain.

    Empty and null texts are plain, and so are words: they have no number, and no day.

    Examples
    --------
    >>> import pyarrow as pa
    >>> numbers, days, others = plain_values(pa.array(["1.50", "", "north", "3 or 4"]), written=Dialect())
    >>> numbers.tolist(), (days == OTHER).tolist(), others.to_pylist()
    ([1.5, nan, nan], [False, False, True], ['3 or 4'])
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    some = pc.binary_length(texts).cast(pa.bool_())
    held = texts if some.true_count == len(texts) else texts.filter(some)
    missing = len(texts) - len(held)
    if written.decimal == "." and (numbers := _numbers(held)) is not None:
        return np.append(numbers, np.full(missing, np.nan)), MISSING, held[:0]
    if order == "ymd" and (days := _days(held)) is not None:
        return np.float64(np.nan), np.append(days, np.full(missing, MISSING)), held[:0]
    trimmed = pc.ascii_trim(held, " \t")
    plain = pc.match_substring_regex(trimmed, _NUMBER.format(mark=re.escape(written.decimal)))
    numbers = _numbers(pc.replace_substring(trimmed.filter(plain), written.decimal, "."))
    if numbers is None:
        return np.full(missing, np.nan), MISSING, held
    others = held.filter(pc.invert(plain))
    if written.symbols:
        return np.append(numbers, np.full(missing, np.nan)), MISSING, others
    unclear = pc.match_substring_regex(others, _UNCLEAR)
    words = len(others) - unclear.true_count
    days = np.repeat([MISSING, OTHER], [len(numbers) + missing, words])
    return np.append(numbers, np.full(missing + words, np.nan)), days, others.filter(unclear)


def _numbers(texts: Any) -> NDArray[np.float64] | None:
    """The numbers; None where a text has no number: ``nan`` is none."""
    import pyarrow as pa

    cast = _cast(texts, pa.float64())
    if cast is None:
        return None
    numbers = array_of(cast)
    return None if np.isnan(numbers).any() else numbers


def _days(texts: Any) -> NDArray[np.int64] | None:
    """The days; None where a text has none, or has one that Arrow reads otherwise."""
    import pyarrow as pa

    cast = _cast(texts, pa.timestamp("us"))
    if cast is None:
        return None
    days = array_of(cast.cast(pa.int64())) // _DAY
    return None if np.any(days < _YEAR_ONE) else days


def _cast(texts: Any, kind: Any) -> Any:
    """All texts as another type, or None; the first ones are tried first, since Arrow is slow where it fails."""
    import pyarrow as pa

    try:
        texts[:_TRIED].cast(kind)
        return texts.cast(kind)
    except pa.ArrowInvalid:
        return None


def array_of(column: Any) -> NDArray[Any]:
    """An Arrow column without nulls, straight from its buffer: Arrow's own way imports pandas."""
    found = np.frombuffer(column.buffers()[1], column.type.to_pandas_dtype(), column.offset + len(column))
    return found[column.offset :]
