"""Expressions: what a column's value becomes on an engine: an id, a label's code, a grid step."""

from __future__ import annotations

from typing import Any

from discreet.core.errors import WrongType
from discreet.core.schema import Bounds, Categories

__all__ = [
    "forbidden_label",
    "grid_step",
    "identifier",
    "label_code",
    "missing",
]

_NUMBER = r"^\s*[+-]?((\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|inf|infinity|INF|Inf|Infinity)\s*$"
_LARGEST_EXACT_ID = 2**53


def identifier(column: Any, name: str) -> Any:
    """The id as a whole number or text; what has no canonical text is refused by its type."""
    kind = column.type()
    if kind.is_integer() or kind.is_string():
        return column
    if kind.is_floating():  # frames hold whole-number ids with gaps as floats
        whole = (column == column.floor()) & (column.abs() <= _LARGEST_EXACT_ID)
        return whole.ifelse(column, None).cast("int64")
    if kind.is_uuid() or kind.is_date():
        return column.cast("string")
    raise WrongType("unit", name, f"an id column of type {kind} has no canonical text", "Cast it to text.")


def text_of(column: Any, labels: Categories, name: str) -> Any:
    """The label of a row as text, written the same way on every engine."""
    kind, first = column.type(), labels.labels[0]
    if kind.is_floating() and isinstance(first, int):
        return identifier(column, name).cast("string")
    if not (kind.is_string() or kind.is_integer() or kind.is_boolean()):
        raise WrongType("column", name, f"labels of type {kind} have no canonical text", "Cast it to text.")
    if kind.is_boolean() and not isinstance(first, bool):
        return column.cast("int64").cast("string")
    text = column.cast("string")
    return text.lower() if isinstance(first, bool) else text


def label_text(label: Any) -> str:
    return str(label).lower() if isinstance(label, bool) else str(label)


def label_code(column: Any, labels: Categories, name: str) -> Any:
    """Position of a row's label on the list; null where the row is to be dropped."""
    import ibis

    text = text_of(column, labels, name)
    unknown, missing = labels.replacement("unknown"), labels.replacement("nulls")
    branches = [(text == label_text(label), code) for code, label in enumerate(labels.labels)]
    branches.append((text.isnull(), ibis.literal(missing, type="int64")))
    return ibis.cases(*branches, else_=ibis.literal(unknown, type="int64"))


def forbidden_label(column: Any, labels: Categories, name: str) -> Any:
    """Whether a row's label is one that the schema refuses."""
    import ibis

    text = text_of(column, labels, name)
    forbidden = ibis.literal(False)
    if labels.nulls == "refuse":
        forbidden = forbidden | text.isnull()
    if labels.unknown == "refuse":
        listed = text.isin([label_text(label) for label in labels.labels])
        forbidden = forbidden | (text.notnull() & ~listed)
    return forbidden


def missing(column: Any, name: str) -> Any:
    """Whether a value is missing, NaN, or text that is no number."""
    kind = column.type()
    if kind.is_string():
        return column.isnull() | ~column.re_search(_NUMBER)
    if kind.is_floating():
        return column.isnull() | column.isnan()
    if kind.is_numeric() or kind.is_boolean():
        return column.isnull()
    raise WrongType("column", name, f"is of type {kind}, not a number", "Declare categories, or convert it.")


def number_of(column: Any) -> Any:
    """The value as a double, where it is not missing."""
    kind = column.type()
    if kind.is_string():
        return column.strip().try_cast("float64")
    if kind.is_boolean():
        return column.cast("int64").cast("float64")
    return column if kind.is_float64() else column.cast("float64")


def grid_step(column: Any, bounds: Bounds, name: str) -> Any:
    """Grid step of the clipped value. Clipping first means that no cast can overflow."""
    import ibis

    value = number_of(column)
    return ibis.cases(
        (missing(column, name), ibis.literal(bounds.null_index(), type="int64")),
        (value <= bounds.low, ibis.literal(bounds.lowest, type="int64")),
        (value >= bounds.high, ibis.literal(bounds.highest, type="int64")),
        else_=(value / bounds.grid + 0.5).floor().cast("int64"),
    )
