"""Formulas: every operation of a row's formula on the engine, beside plain Python; and dates as they are written.

A formula is a tree. The reference walks it with values that may be missing: a comparison with a missing value is
neither true nor false, and what has no value is missing.
"""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Any

from discreet.audit.recomputed import Compared, Recomputed, recomputed, refused
from discreet.core.columns import Dates
from discreet.core.errors import WrongType
from discreet.core.row_expression import Term
from discreet.core.rows import take
from discreet.core.schema import Bands, Bounds, Categories, Column, Schema
from discreet.declarations.language import Formula
from discreet.opening import open_source

__all__ = ["audit_formulas"]

Row = Mapping[str, Any]
_COLUMNS: dict[str, Column] = {
    "id": Bounds(0, 1000, grid=1),
    "a": Bounds(-2, 2, grid=0.5),
    "b": Bounds(-2, 2, grid=0.25),
    "c": Categories(["x", "y"]),
    "k": Categories([3, 1, 2]),
    "f": Categories([False, True]),
    "d": Dates("1950-01-01", "2030-12-31"),
    "e": Dates("1950-01-01", "2030-12-31"),
    "m": Dates("1950-01-01", "2030-12-01", grid="month"),
    "y": Dates("1950-01-01", "2030-01-01", grid="year"),
}
_CONDITIONS = (
    "a >= 1", "a > b", "1 >= a", "0.5 < a", "a == 0.5 or b != 0.5", "a <= b and c == 'y'", "c != 'x'", "not (a < b)",
    "not f", "f and a > 0", "f == true", "f != true", "c in ('x', 'y')", "k in (1, 2)", "k == 3", "k not in (3)",
    "a between -1 and 0.5", "a is missing", "(a < b) is missing", "not (a is missing or c is missing)",
    "(a / b) is missing", "-a > b", "a - -b >= 1", "d < e", "d >= 2000-02-29", "m <= d", "y < d", "m == y",
    "year(d) > 1990 or month(d) == 2", "weekday(d) in (6, 7)", "age(d, 2020-06-15) >= 18",
)  # fmt: skip
_NUMBERS = (
    "a + b", "a - b", "a * b", "a / b", "-a", "a - b - 1", "a / b / 2", "abs(a - b)", "log1p(a)", "sqrt(b)", "d - e",
    "d - m", "d - y", "year(d)", "month(d)", "weekday(d)", "year(m) * 100 + month(m)", "year(y)", "age(d, e)",
    "age(d, 2001-03-01)", "age(d, 2001-02-28)",
)  # fmt: skip


def audit_formulas() -> Recomputed:
    """Compute formulas of random rows, with gaps, on the engine and in plain Python.

    Examples
    --------
    >>> audit_formulas().passed
    True
    """
    return recomputed("Formulas and dates", [_formulas, _filters, _written, _bands])


# ---- plain Python ---------------------------------------------------------------------------------------------------

_SIGNS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip


def _reference(term: Term, row: Row) -> Any:
    """The value of a formula for a row; None where it has none."""
    if term.op == "column":
        return row[term.parts[0]]
    if term.op in ("number", "text", "truth", "date"):
        return term.parts[0]
    if term.op in ("and", "or"):
        return _joined(term.op, *(_reference(part, row) for part in term.parts))
    if term.op == "missing":
        return _reference(term.parts[0], row) is None
    signs, parts = [part for part in term.parts if not isinstance(part, Term)], list(term.parts)
    values = [_reference(part, row) for part in parts if isinstance(part, Term)]
    if None in values:
        return None
    if term.op == "not":
        return not values[0]
    if term.op == "in":
        return values[0] in values[1:]
    if term.op == "negative":
        return -values[0]
    return _called(signs[0], values) if term.op == "call" else _signed(signs[0], *values)


def _joined(op: str, first: bool | None, second: bool | None) -> bool | None:
    certain = op == "or"  # what decides alone, whatever the other is
    if certain in (first, second):
        return certain
    return None if None in (first, second) else not certain


def _signed(sign: str, left: Any, right: Any) -> Any:
    if sign == "/" and right == 0:
        return None
    found = _SIGNS[sign](left, right)
    return found.days if hasattr(found, "days") else found


def _called(name: str, values: list[Any]) -> Any:
    first = values[0]
    if name == "age":
        return values[1].year - first.year - ((values[1].month, values[1].day) < (first.month, first.day))
    if name == "weekday":
        return first.isoweekday()
    if name in ("year", "month"):
        return getattr(first, name)
    if name == "abs":
        return abs(first)
    if name == "log1p":
        return math.log(first + 1) if first > -1 else None
    return math.sqrt(first) if first >= 0 else None


# ---- rows -----------------------------------------------------------------------------------------------------------


def _rows() -> list[dict[str, Any]]:
    """Values on their grids and at the ends of months and years, with gaps."""
    draw = random.Random(3)
    days = [date(*day) for day in ((1969, 12, 31), (1970, 1, 1), (2000, 2, 29), (2001, 3, 1), (1999, 12, 31),
                                   (2024, 2, 28), (1955, 7, 4), (2030, 12, 31))]  # fmt: skip
    choices: dict[str, Any] = {
        "a": [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0],
        "b": [-1.0, 0.0, 0.25, 0.5, 1.0],
        "c": ["x", "y"],
        "k": [1, 2, 3],
        "f": [True, False],
        "d": days,
        "e": days,
        "m": [date(1969, 12, 1), date(1970, 1, 1), date(2000, 2, 1), date(2024, 11, 1)],
        "y": [date(1960, 1, 1), date(1970, 1, 1), date(2000, 1, 1)],
    }
    found = []
    for number in range(120):
        row = {name: draw.choice(values) if draw.random() > 0.08 else None for name, values in choices.items()}
        found.append({"id": number, **row})
    return found


def _table(rows: list[dict[str, Any]]) -> Any:
    import pyarrow

    return pyarrow.table({name: pyarrow.array([row[name] for row in rows]) for name in rows[0]})


def _encoded(rows: list[dict[str, Any]], schema: Schema) -> dict[str, list[Any]]:
    """Codes and grid steps by declared column, for the rows that a filter leaves, in order."""
    data = open_source(_table(rows))
    snapshot = take(data, schema)
    found = data.fetch(snapshot.table).to_pylist()
    found.sort(key=lambda row: row[snapshot.names["id"]])
    return {name: [row[encoded] for row in found] for name, encoded in snapshot.names.items()}


# ---- comparisons ----------------------------------------------------------------------------------------------------


def _formulas() -> Iterator[Compared]:
    """All formulas at once, as computed columns."""
    truth, number = Categories([False, True]), Bounds(-400_000, 400_000, grid=2.0**-6)
    columns = dict(_COLUMNS)
    for kind, texts in ((truth, _CONDITIONS), (number, _NUMBERS)):
        for text in texts:
            columns[text] = type(kind)(**{**_said(kind), "value": Formula(text)})
    rows = _rows()
    found = _encoded(rows, Schema(columns=columns))
    for text in _CONDITIONS:
        wanted = [_reference(Formula(text).term, row) for row in rows]
        yield text, found[text] == [None if one is None else int(one) for one in wanted]
    for text in _NUMBERS:
        for step, row in zip(found[text], rows, strict=True):
            value = _reference(Formula(text).term, row)
            close = step is None if value is None else step is not None and abs(step - 64 * value) <= 0.5 + 1e-9
            yield text, close


def _said(kind: Any) -> dict[str, Any]:
    return {"labels": kind.labels} if isinstance(kind, Categories) else {"low": kind.low, "high": kind.high,
                                                                         "grid": kind.grid}  # fmt: skip


def _filters() -> Iterator[Compared]:
    """Rows whose condition is true, and no others."""
    rows = _rows()
    for text in ("a >= 1 and c != 'x'", "not (a < b)", "(c == 'x') is missing or f", "age(d, e) >= 18"):
        formula = Formula(text)
        found = _encoded(rows, Schema(columns=_COLUMNS, where=formula))
        yield f"where {text}", found["id"] == [row["id"] for row in rows if _reference(formula.term, row) is True]


def _written() -> Iterator[Compared]:
    """Dates in text, in three orders, and text that is no date."""
    days = ("2024-01-31", "31.01.2024", "01/31/2024", "2023-02-29", "2024-1-5 10:30", "0000-01-01", "x", "",
            "1900-01-01", "2030-12-31", " 1969-12-31 ", "05.04.2003")  # fmt: skip
    rows = [{"id": number, "written": text} for number, text in enumerate(days)]
    for order in ("ymd", "dmy", "mdy"):
        for unit in ("day", "month", "year"):
            written = Dates("1900-01-01", "2030-12-31", grid=unit, order=order)
            found = _encoded(rows, Schema(columns={"id": _COLUMNS["id"], "written": written}))["written"]
            for text, step in zip(days, found, strict=True):
                wanted = _read(text, order)
                yield f"{text!r} as {order}", step == (None if wanted is None else _count(wanted, unit))
                if wanted is not None:
                    first = wanted.replace(day=wanted.day if unit == "day" else 1)
                    first = first.replace(month=1) if unit == "year" else first
                    yield "the day of a count", written.day(step) == first

    numbers = Schema(columns={"id": Dates("1900-01-01", "2030-12-31")})
    yield "numbers as dates", refused(lambda: _encoded(rows, numbers), WrongType)

    yield "a formula of no column", refused(lambda: Schema(columns=_COLUMNS, where=Formula("1 < 2")))
    yield from _spelled()


def _spelled() -> Iterator[Compared]:
    """Labels under other spellings; a code that is a whole number may be written as 01 or 1.0."""
    answer = Categories(["no", "yes"], aliases={"0": "no", "1": "yes", "Y": "yes"})
    codes = {"yes": 1, "no": 0, "1": 1, "01": 1, "1.0": 1, "0": 0, "00": 0, "Y": 1, "y": None, "2": None, "": None}
    rows: list[dict[str, Any]] = [{"id": number, "answer": text} for number, text in enumerate(codes)]
    found = _encoded(rows, Schema(columns={"id": _COLUMNS["id"], "answer": answer}))["answer"]
    for text, code in zip(codes, found, strict=True):
        yield f"the label {text!r}", code == codes[text]


def _read(text: str, order: str) -> date | None:
    """A day as `datetime` reads it, from three numbers in the declared order."""
    parts = text.strip().split(" ")[0].replace(".", "-").replace("/", "-").split("-")
    if len(parts) != 3:
        return None
    named = dict(zip(order, parts, strict=True))
    if len(named["y"]) != 4:
        return None
    try:
        return date(int(named["y"]), int(named["m"]), int(named["d"]))
    except ValueError:
        return None


def _count(day: date, unit: str) -> int:
    months = (day.year - 1970) * 12 + day.month - 1
    return {"day": (day - date(1970, 1, 1)).days, "month": months, "year": day.year}[unit]


def _bands() -> Iterator[Compared]:
    """A band holds its lower edge; the last holds both of its edges; what is outside is unknown."""
    edges = [0, 16, 25, 26, 65]
    named = {"0–15": (0, 15), "16–24": (16, 24), "25": (25, 25), "26–65": (26, 65)}
    banded = Bands(edges=edges)
    yield "names of bands", banded.labels == tuple(named)
    yield "names of bands between fractions", Bands(edges=[0, 0.5, 1]).labels == ("0–<0.5", "0.5–1")
    rows = [{"id": place, "age": float(age)} for place, age in enumerate((-1, 0, 15, 16, 24, 25, 26, 64, 65, 66))]
    found = _encoded(rows, Schema(columns={"id": _COLUMNS["id"], "age": banded}))["age"]
    places = list(named.values())
    for row, code in zip(rows, found, strict=True):
        wanted = [place for place, (low, high) in enumerate(places) if low <= row["age"] <= high]
        yield f"band of {row['age']}", code == (wanted[0] if wanted else None)
