"""Computed: a formula as an expression over the encoded columns of one row.

Every operation is total. What has no value (a missing operand, a division by zero, the logarithm of a negative number)
is missing; a comparison with a missing value is neither true nor false, and a row is kept only where a condition is
true.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from discreet.core.columns import Bounds, Categories, Column
from discreet.core.dates import EPOCH, Dates
from discreet.core.row_expression import Term, label_of
from discreet.core.rows.calendar import civil, days_of
from discreet.core.rows.frames import LARGEST_WHOLE_FLOAT

__all__ = ["as_number", "computed"]

_SIGNS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "+": operator.add, "-": operator.sub, "*": operator.mul, "and": operator.and_, "or": operator.or_,
}  # fmt: skip
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def computed(term: Term, encoded: Mapping[str, Any], columns: Mapping[str, Column]) -> Any:
    """The value of a checked formula: a float, a day's number or a truth value.

    Parameters
    ----------
    encoded
        For each column that the formula names, its code or grid step.
    columns
        What is declared of them.
    """
    import ibis

    def value(part: Term) -> Any:
        return computed(part, encoded, columns)

    parts = term.parts
    if term.op == "number":
        return ibis.literal(parts[0], type="float64")
    if term.op == "date":
        return ibis.literal(parts[0].toordinal() - EPOCH.toordinal(), type="int64")
    if term.op == "column":
        return _decoded(encoded[parts[0]], columns[parts[0]])
    if term.op in ("and", "or"):
        return _SIGNS[term.op](value(parts[0]), value(parts[1]))
    if term.op == "not":
        return as_number(value(parts[0])) == 0
    if term.op == "missing":
        plain = encoded[parts[0].parts[0]] if parts[0].op == "column" else as_number(_known(value(parts[0])))
        return plain.isnull()
    if term.op in ("compare", "in"):
        return _compared(term, encoded, columns)
    if term.op == "negative":
        return -value(parts[0])
    if term.op == "arithmetic":
        left, right = (value(part).cast("float64") for part in parts[1:])
        return left / (right == 0).ifelse(None, right) if parts[0] == "/" else _SIGNS[parts[0]](left, right)
    return _called(parts[0], [value(part) for part in parts[1:]])


def as_number(value: Any) -> Any:
    """A truth value as 1 or 0: comparisons and NOT lose their brackets before IS NULL on some engines."""
    return value.cast("int8") if value.type().is_boolean() else value


def _decoded(step: Any, declared: Column) -> Any:
    """A label's text, or the number of a grid step: the double nearest to the decimal, as numbers of formulas are."""
    if isinstance(declared, Dates):
        return days_of(step.cast("int64"), declared)
    if isinstance(declared, Bounds):
        return _number(step.cast("int64"), declared)
    if isinstance(declared, Categories):
        return step == declared.labels.index(True) if isinstance(declared.labels[0], bool) else _spelled(step, declared)
    return step.cast("string")


def _number(step: Any, declared: Bounds) -> Any:
    """The number of a grid step. Products stay in 64 bits, or in floats, which have no largest whole number."""
    numerator, denominator = declared.step.numerator, declared.step.denominator
    if declared.reach * numerator <= LARGEST_WHOLE_FLOAT and denominator <= LARGEST_WHOLE_FLOAT:
        return (step * numerator).cast("float64") / denominator
    return step.cast("float64") * declared.grid


def _spelled(code: Any, labels: Categories) -> Any:
    """The text of a label's code, from a table: a chain of 20,000 cases takes minutes."""
    import ibis
    import pyarrow as pa

    texts = pa.array([str(label) for label in labels.labels], pa.string())
    known = ibis.memtable(pa.table({"label": texts, "code": pa.array(range(labels.cells), pa.int64())}))
    return known.filter(known.code == code).label.max().as_scalar()


def _compared(term: Term, encoded: Mapping[str, Any], columns: Mapping[str, Column]) -> Any:
    sign, *parts = term.parts if term.op == "compare" else ("==", *term.parts)
    if parts[0].op != "column" and parts[1].op == "column":
        parts[:2], sign = [parts[1], parts[0]], _FLIPPED.get(sign, sign)
    declared = columns[parts[0].parts[0]] if parts[0].op == "column" else None
    if isinstance(declared, Categories):
        labels = list(declared.labels)
        left, rights = encoded[parts[0].parts[0]], [labels.index(label_of(part)) for part in parts[1:]]
    else:
        left, *rights = (_known(computed(part, encoded, columns)) for part in parts)
    found = _SIGNS[sign](left, rights[0])
    for right in rights[1:]:
        found = found | (left == right)
    return found


def _known(value: Any) -> Any:
    """Without NaN, which arithmetic passes on: an engine repeats what is asked twice, at every step twice as much."""
    return value.isnan().ifelse(None, value) if value.type().is_floating() else value


def _called(name: str, values: list[Any]) -> Any:
    first = values[0]
    if name == "abs":
        return first.abs()
    if name == "log1p":
        return (first + 1 > 0).ifelse(first + 1, None).ln()
    if name == "sqrt":
        return (first >= 0).ifelse(first, None).sqrt()
    if name == "weekday":  # 1970-01-01 was a Thursday; Monday is 1
        return ((first + 3) % 7 + 7) % 7 + 1
    year, month, day = civil(first)
    if name == "age":
        later, its_month, its_day = civil(values[1])
        return later - year - (its_month * 100 + its_day < month * 100 + day).cast("int64")
    return year if name == "year" else month
