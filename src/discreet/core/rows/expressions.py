r"""Expressions: what a column's value becomes on an engine: an id, a label's code, or a grid step.

Every function is total: whatever a value is, the engine returns. Patterns avoid what regular expressions of engines
read differently: ``\s``, ``$``, and letters whose case is ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from discreet.core.columns import ASCII_LOWER, EPOCH, LONGEST_LABEL, Bands, Bounds, Categories, Column, Dates, Label
from discreet.core.errors import WrongType
from discreet.core.rows.read import LARGEST_WHOLE_FLOAT, Dialect
from discreet.core.schema import Feature, Schema

if TYPE_CHECKING:
    import ibis.expr.types as ir


# ---- Calendar: dates as whole numbers on an engine
#
# Only text of one closed pattern is ever cast to a date, by a cast that cannot fail: engines agree on what such text
# means, and text that is no day of the Gregorian calendar is missing.


_BLANK = r"[ \t]*"
_DAY = 86_400_000
_REST = r"(?:[T ][0-9:.,+Z -]*)?(?:\t[ \t]*)?"  # a time, then blanks: each character has one reading, which is fast
_MARK = r"[-./]"
_YEAR = "([0-9]{4})"
_ISO = r"^[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}\z"
_OTHER = "([0-9]{1,2})"
_GROUPS = {
    "ymd": ((_YEAR, _OTHER, _OTHER), (1, 2, 3)),
    "dmy": ((_OTHER, _OTHER, _YEAR), (3, 2, 1)),
    "mdy": ((_OTHER, _OTHER, _YEAR), (3, 1, 2)),
}


def date_count(column: Any, dates: Dates, name: str) -> Any:
    """A column's days, months or years, as `Dates` counts them; null where there is no date."""
    kind = column.type()
    if dates.value is not None:  # a formula's date is the number of its day
        return _counted(_date(column), dates)
    if not (kind.is_date() or kind.is_timestamp() or kind.is_string()):
        raise WrongType("column", name, f"is of type {kind}, not a date", "Convert it to dates, or to text.")
    if kind.is_timestamp() and kind.timezone is not None and _is_duckdb(column):
        return _counted(_utc_date(column), dates)
    parts, order = _GROUPS[dates.order if kind.is_string() else "ymd"]
    pattern = rf"^{_BLANK}{_MARK.join(parts)}{_REST}\z"
    text = column.cast("string")
    year, month, day = (text.re_extract(pattern, group) for group in order)
    year = year.nullif("0000")  # engines differ about the year 0
    written = year.concat("-", month, "-", day)
    if order == (1, 2, 3):  # most dates are written as engines read them, which is four times as fast
        written = text.re_search(_ISO).ifelse(text, written)
    return _counted(written.try_cast("date"), dates)


def _utc_date(column: Any) -> Any:
    """The day of a timestamp on DuckDB at UTC, whatever the connection's time zone is; null beyond four-digit years.

    A cast, and the seconds that ibis asks for, would be those of the connection's time zone.
    """
    import ibis
    from ibis.expr import datatypes

    instant = ibis.udf.scalar.builtin(name="epoch_ms", signature=((column.type(),), datatypes.int64))
    known = column.cast("string").re_search(r"^[1-9][0-9]{3}-")  # infinite ones have no milliseconds
    milliseconds = instant(lambda moment: moment)(known.ifelse(column, None))
    return _date(((milliseconds - (milliseconds % _DAY + _DAY) % _DAY) / _DAY).cast("int64")).cast("date")


def _counted(day: Any, dates: Dates) -> Any:
    import ibis

    if dates.unit == "day":
        return day.delta(ibis.date(EPOCH.isoformat()), unit="day").cast("float64")
    months = (day.year().cast("int64") - 1970) * 12 + day.month() - 1
    return (day.year() if dates.unit == "year" else months).cast("float64")


def _date(days: Any) -> Any:
    import ibis

    return ibis.date(EPOCH.isoformat()) + days.as_interval("D")


def days_of(count: Any, dates: Dates) -> Any:
    """Days since 1970-01-01 of what `Dates` counts: the first day of a month or year."""
    import ibis

    if dates.unit == "day":
        return count
    first = ibis.date(EPOCH.isoformat())
    day = first + (count - 1970).as_interval("Y") if dates.unit == "year" else first + count.as_interval("M")
    return day.cast("date").delta(first, unit="day").cast("int64")


def civil(days: Any) -> tuple[Any, Any, Any]:
    """Year, month and day of a number of days since 1970-01-01."""
    day = _date(days).cast("date")
    return day.year().cast("int64"), day.month().cast("int64"), day.day().cast("int64")


_TRUE, _FALSE = rf"^{_BLANK}[tT][rR][uU][eE]{_BLANK}\z", rf"^{_BLANK}[fF][aA][lL][sS][eE]{_BLANK}\z"
_INFINITE = r"[iI][nN][fF]([iI][nN][iI][tT][yY])?"
_WORD = rf"^{_BLANK}[+-]?[tTfFiI]"
_DIGITS = r"^(0|-?[1-9][0-9]*)\z"
_WHOLE = rf"^{_BLANK}(?:\+|(-))?0*([1-9][0-9]*|0)(?:\.0*)?{_BLANK}\z"  # one reading of each digit: linear time
_LOST_DIGITS = r"^[+-]?[0-9]+(\.[0-9]*)?[eE][+-][0-9]+\z"
_EXACT_DIGITS, _FEW = 15, 32
_PLAIN = Dialect()


def _number(written: Dialect) -> str:
    mark = re.escape(written.decimal)
    thousands = re.escape(written.thousands or "")
    grouped = rf"[0-9]{{1,3}}(?:{thousands}[0-9]{{3}})+(?:{mark}[0-9]*)?|" if thousands else ""
    digits = rf"(?:{grouped}[0-9]+(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:[eE][+-]?[0-9]+)?"
    symbol = rf"(?:(?:{'|'.join(map(re.escape, written.symbols.split()))}){_BLANK})?" if written.symbols else ""
    return rf"^{_BLANK}{symbol}[+-]?{symbol}{digits}{_BLANK}{symbol}\z"


def stripped(text: Any) -> Any:
    """The text without blanks around it; null for one that is longer than any label, because a long one takes time."""
    text = (text.length() <= LONGEST_LABEL).ifelse(text, None)
    return text.re_replace(r"^[ \t]+|[ \t]+\z", "")


def _text(column: Any, name: str) -> Any:
    """The canonical text of a value that is not a float; an empty text is a missing one."""
    kind = column.type()
    if kind.is_string():
        return column.nullif("")
    if kind.is_decimal():
        return _whole_text(column.cast("string")).coalesce(column.cast("string"))
    if kind.is_integer() or kind.is_boolean() or kind.is_uuid() or kind.is_date():
        return column.cast("string")
    raise WrongType("column", name, f"is of type {kind}, which has no canonical text", "Cast it to text.")


def _whole(column: Any) -> Any:
    """A float as a whole number; null where it is none. Guarded first: engines cast 1e30 or NaN with an error."""
    within = (column.abs() <= LARGEST_WHOLE_FLOAT).ifelse(column, None)
    return (within == within.floor()).ifelse(within, None).cast("int64")


def _whole_text(text: Any) -> Any:
    """The digits of a whole number that is written as 7, +7, 007 or 7.0; null for other text."""
    import ibis

    sign = text.re_extract(_WHOLE, 1)
    digits = text.re_extract(_WHOLE, 2)
    return ibis.cases(
        (text.re_search(_DIGITS), text),
        (digits == "", ibis.literal(None, type="string")),
        (digits == "0", digits),
        else_=sign.concat(digits),
    )


def identifier(column: Any, name: str) -> Any:
    """The id as a whole number or text; null where there is none, or where its digits were lost.

    Floats beyond 2⁵³ or with decimals are no ids, nor is text like ``1.23457E+14``, into which spreadsheets turn long
    ids: different people would share one.
    """
    kind = column.type()
    if kind.is_integer():
        return column
    if kind.is_floating():  # frames hold whole-number ids with gaps as floats
        return _whole(column)
    text = _text(column, name)
    return text.re_search(_LOST_DIGITS).ifelse(None, text) if kind.is_string() else text


def _spelled(label: Label) -> Iterator[str]:
    """The texts that mean a label."""
    if isinstance(label, str):
        yield label
        return
    yield str(int(label))
    if label in (0, 1):
        yield "true" if label else "false"


def _label_text(column: Any, labels: Categories, name: str) -> Any:
    """The text under which a value is looked up; null where it can be none of the labels."""
    import ibis

    kind = column.type()
    by_text = isinstance(labels.labels[0], str)
    if kind.is_floating():
        return _whole(column).cast("string")
    text = _text(column, name)
    if by_text:  # a label that is written like a float that is not whole must not match one
        lost = any(re.search(_LOST_DIGITS.replace(r"\z", r"\Z"), str(label)) for label in labels.labels)
        return text.re_search(_LOST_DIGITS).ifelse(None, text) if lost else text
    if not kind.is_string():
        return text
    words = ((text.re_search(_TRUE), "true"), (text.re_search(_FALSE), "false"))
    return _whole_text(text).coalesce(ibis.cases(*words, else_=ibis.literal(None, type="string")))


def _code(column: Any, labels: Categories, name: str) -> Any:
    """Position of a row's label on the list; null where it is not on it."""
    import ibis

    if isinstance(labels, Bands):
        return _band(number_of(column, name), labels)
    text = _label_text(column, labels, name)
    spelled = [(one, code) for code, label in enumerate(labels.labels) for one in _spelled(label)]
    if column.type().is_boolean():  # its text takes far longer
        words = [(column == (one == "true"), code) for one, code in spelled if one in ("true", "false")]
        found = ibis.cases((column.isnull(), None), *words, else_=None).cast("int64")
    else:
        plain = isinstance(labels.labels[0], str) or not column.type().is_string()
        found = _looked_up(text, spelled, plain)
    others = labels.spellings()
    if not others:
        return found
    found = found.coalesce(_looked_up(_folded(text, labels), list(others.items()), not labels.ignore_case))
    whole = [(one, code) for one, code in others.items() if re.fullmatch("0|-?[1-9][0-9]*", one)]
    if not whole or not column.type().is_string():
        return found
    return found.coalesce(_looked_up(_whole_text(text), whole, False))  # a code may be written as 01 or 1.0


def _folded(text: Any, labels: Categories) -> Any:
    """The text under which other spellings are looked up: as `Categories.folded`."""
    letters = "".join(map(chr, ASCII_LOWER)), "".join(map(chr, ASCII_LOWER.values()))
    return stripped(text).translate(*letters) if labels.ignore_case else text


def _band(value: Any, bands: Bands) -> Any:
    """Number of the band that holds a value; null where none does."""
    import ibis

    nowhere = ibis.literal(None, type="int64")
    below = [(value < edge, code) for code, edge in enumerate(bands.edges[1:-1])]
    last = (value <= bands.edges[-1], bands.cells - 1)
    return ibis.cases((value.isnull() | (value < bands.edges[0]), nowhere), *below, last, else_=nowhere)


def _looked_up(text: Any, spelled: list[tuple[str, int]], plain: bool) -> Any:
    """The code of a text; null where it has none."""
    import ibis
    import pyarrow as pa

    if plain and len(spelled) <= _FEW:  # cheaper than a table of them, unless each case reads a pattern again
        if [code for _, code in spelled] == [*range(len(spelled))] and _is_duckdb(text):
            # In a file that lists its words, DuckDB looks up each word once, and not in each row.
            return _list_position()(ibis.array([one for one, _ in spelled]), text).nullif(0) - 1
        return ibis.cases(*((text == one, code) for one, code in spelled), else_=ibis.literal(None, type="int64"))
    texts, codes = zip(*spelled, strict=True)
    known = ibis.memtable(pa.table({"label": pa.array(texts, pa.string()), "code": pa.array(codes, pa.int64())}))
    # Engines turn this into a hash join; a chain of 20,000 cases takes minutes.
    return known.filter(known.label == text).code.max().as_scalar()


def _is_duckdb(column: Any) -> bool:
    return bool(column.get_backend().name == "duckdb")


@cache
def _list_position() -> Any:
    """A function of DuckDB that ibis wraps in many cases."""
    import ibis
    from ibis.expr import datatypes

    signature = ((datatypes.Array(datatypes.string), datatypes.string), datatypes.int64)
    return ibis.udf.scalar.builtin(name="list_position", signature=signature)(lambda texts, text: text)


def _no_label(column: Any, labels: Categories, name: str) -> Any:
    """True where a label is missing, rather than not on the list."""
    kind = column.type()
    if isinstance(labels, Bands):
        return number_of(column, name).isnull()
    if labels.missing:
        text = _whole(column).cast("string") if kind.is_floating() else _text(column, name)
        text = _folded(text, labels)
        words = text.isin([labels.folded(word) for word in labels.missing]).fill_null(False)
    if kind.is_string():
        none = column.isnull() | (column == "")
    else:
        none = column.isnull() | column.isnan() if kind.is_floating() else column.isnull()
    return none | words if labels.missing else none


def label_code(column: Any, labels: Categories, name: str) -> Any:
    """Position of a row's label on the list; null where the row is to be dropped."""
    import ibis

    unknown, missing = (ibis.literal(labels.replacement(one), type="int64") for one in ("unknown", "nulls"))
    return _no_label(column, labels, name).ifelse(missing, _code(column, labels, name).coalesce(unknown))


def forbidden_label(column: Any, labels: Categories, name: str) -> Any:
    """True where a row's label is one that the schema refuses."""
    import ibis

    forbidden = ibis.literal(False)
    if labels.nulls == "refuse":
        forbidden = forbidden | _no_label(column, labels, name)
    if labels.unknown == "refuse":
        forbidden = forbidden | (~_no_label(column, labels, name) & _code(column, labels, name).isnull())
    return forbidden


def number_of(column: Any, name: str, written: Dialect = _PLAIN) -> Any:
    """The value as a double, infinite ones included; null where it is missing or not a number."""
    kind = column.type()
    if kind.is_floating():
        return column.isnan().ifelse(None, column.cast("float64"))
    if kind.is_string():
        return _number_in(column, written)
    if kind.is_boolean():
        return column.cast("int64").cast("float64")
    if kind.is_decimal() and (kind.precision or _EXACT_DIGITS + 1) > _EXACT_DIGITS:
        return _number_in(column.cast("string"), _PLAIN)  # engines round long decimals differently
    if kind.is_numeric():
        return column.cast("float64")
    raise WrongType("column", name, f"is of type {kind}, not a number", "Declare categories, or convert it.")


def _number_in(text: Any, written: Dialect) -> Any:
    import ibis

    digits, symbols = text, sorted(written.symbols.split(), key=len, reverse=True)  # US$ before $
    for mark in (written.thousands, *symbols, *(" \t" if symbols else "")):
        digits = digits.replace(mark, "") if mark else digits
    digits = digits if written.decimal == "." else digits.replace(written.decimal, ".")
    return ibis.cases(
        (text.re_search(_number(written)), digits.try_cast("float64")),
        (~text.re_search(_WORD), ibis.literal(None, type="float64")),  # one test instead of four, for most texts
        (text.re_search(_TRUE), 1.0),
        (text.re_search(_FALSE), 0.0),
        (text.re_search(rf"^{_BLANK}\+?{_INFINITE}{_BLANK}\z"), float("inf")),
        (text.re_search(rf"^{_BLANK}-{_INFINITE}{_BLANK}\z"), float("-inf")),
        else_=ibis.literal(None, type="float64"),
    )


def _without(value: Any, column: Any, bounds: Bounds) -> Any:
    """The value; null where a number or word stands for a missing one."""
    words = [str(one).strip(" \t") for one in bounds.missing]
    numbers = [float(one) for one in words if re.fullmatch(_number(_PLAIN).replace(r"\z", ""), one)]
    gone = value.isin(numbers)
    if column.type().is_string():
        gone = gone | stripped(column).isin(words)
    return gone.fill_null(False).ifelse(None, value)


def _value_of(column: Any, bounds: Bounds, name: str, written: Dialect) -> Any:
    """The number, or the count of a date, before it is clipped; null where there is none."""
    value = date_count(column, bounds, name) if isinstance(bounds, Dates) else number_of(column, name, written)
    return _without(value, column, bounds) if bounds.missing else value


USABLE, BELOW, ABOVE = 1, 2, 3
"""Marks of values."""


def placed(value: Any, low: Any, high: Any) -> Any:
    """The mark of a number that may lie below or above its bounds; 0 where there is none."""
    import ibis

    return ibis.cases((value.isnull(), 0), (low, BELOW), (high, ABOVE), else_=USABLE).cast("int8")


def usable(column: Any, declared: Column, name: str, written: Dialect = _PLAIN) -> Any:
    """`USABLE` where a value can be read, lies within its bounds, is on its list; `BELOW` or `ABOVE` them; else 0."""
    if isinstance(declared, Bounds):
        value = _value_of(column, declared, name, written)
        return placed(value, value < declared.low, value > declared.high)
    if isinstance(declared, Categories):
        found = ~_no_label(column, declared, name) & _code(column, declared, name).notnull()
    else:
        found = identifier(column, name).notnull()
    return found.fill_null(False).cast("int8")


def grid_step(column: Any, bounds: Bounds, name: str, written: Dialect = _PLAIN) -> Any:
    """Grid step of the clipped value. Clipping first means that no cast can overflow."""
    import ibis

    value = _value_of(column, bounds, name, written)
    return ibis.cases(
        (value.isnull(), ibis.literal(bounds.null_index(), type="int64")),
        (value <= bounds.low, ibis.literal(bounds.lowest, type="int64")),
        (value >= bounds.high, ibis.literal(bounds.highest, type="int64")),
        else_=(value / bounds.grid + 0.5).floor().cast("int64"),
    )


# ---- Sums: whole numbers, added up so that nothing overflows on any engine.


_SMALL = 2**22
"""Sums of 2⁴⁰ numbers within this fit 64 bits; beyond, 38 decimal digits hold 2⁴⁰ products of two grid steps."""
LIMB = 2**20
"""Half of a grid step of at most 40 bits: four of them multiply to 80 bits."""
TOO_MANY = 2**31
"""A unit with so many rows counts nothing, where its sums could leave 64 bits."""


def clipped(sums: Any, low: int, high: int) -> Any:
    """The sum, moved to the nearer limit where it lies outside, and only then cast."""
    import ibis

    return ibis.cases(
        (sums <= low, ibis.literal(low, type="int64")),
        (sums >= high, ibis.literal(high, type="int64")),
        else_=sums.cast("int64"),
    )


def exact_sum(factors: Sequence[Any], reaches: Sequence[int]) -> Any:
    """Sum of products of factors within their ``reaches`` that cannot overflow."""
    reach = math.prod(reaches)
    if reach <= _SMALL:
        return math.prod(factors[1:], start=factors[0]).sum().cast("int64")
    if reach > 2**62:  # two products of 64 bits, multiplied in 38 digits
        halves = [factors[: len(factors) // 2], factors[len(factors) // 2 :]]
        factors = [math.prod(half[1:], start=half[0]).cast("decimal(19, 0)") for half in halves]
    product = math.prod(factors[1:], start=factors[0])
    if reach > 2**62 or not _is_duckdb(product):  # which adds up 64 bits in 128, four times as fast
        product = product.cast("decimal(38, 0)")
    return product.sum().cast("decimal(38, 0)")


def quotient(number: Any, by: Any) -> Any:
    """The number of times ``by`` goes into a number. Engines divide whole numbers differently, or not at all."""
    return ((number - number % by) / by).round().cast("int64")


# ---- Features: one value of each unit, made of the encoded rows of that unit alone.
#
# Everything is a whole number of grid steps or the code of a label, so a value is the same on every engine and in any
# order of the rows. Nothing overflows and nothing is divided by zero, so every table has its features. Proof:
# ``docs/proofs/rows.md``.


def features_of(table: ir.Table, unit: str, schema: Schema, made: Sequence[str], names: Mapping[str, str]) -> ir.Table:
    """One row per unit: its id, and ``x0, x1, …`` for the features of a schema that are ``made``, before clipping.

    Parameters
    ----------
    table, names
        The encoded rows, and where their declared columns are.
    """
    rows = schema.of_rows
    features = [rows.features[name] for name in made]
    table = _with_ends(table, unit, features, names)
    values = {f"x{place}": _taken(table, place, feature, rows, names) for place, feature in enumerate(features)}
    finer = {place: one.finer(rows.bounds(str(one.of)), schema.bounds(made[place])) for place, one in _means(features)}
    sums: dict[str, Any] = {}
    for place, feature in _means(features):
        sums |= _halves(place, table[names[str(feature.of)]], rows.bounds(str(feature.of)), finer[place])
    units = table.group_by(unit).aggregate(**values, **sums)
    means = {
        f"x{place}": _mean(units, place) + finer[place] * rows.bounds(str(feature.of)).lowest
        for place, feature in _means(features)
    }
    return units.mutate(**means)


def _means(features: Sequence[Feature]) -> list[tuple[int, Feature]]:
    return [(place, feature) for place, feature in enumerate(features) if feature.take == "mean"]


def _with_ends(table: ir.Table, unit: str, features: Sequence[Feature], names: Mapping[str, str]) -> ir.Table:
    """The rows with ``at``, their place in the order where they have a value, and ``end``, that of their unit's end."""
    ordered = [(place, one) for place, one in enumerate(features) if one.order is not None]
    at = {
        f"at{place}": table[names[str(one.of)]].notnull().ifelse(table[names[str(one.order)]], None)
        for place, one in ordered
    }
    table = table.mutate(**at)
    own = {
        f"end{place}": (table[f"at{place}"].min() if one.take == "first" else table[f"at{place}"].max())
        for place, one in ordered
    }
    return table.mutate(**{name: end.over(group_by=unit) for name, end in own.items()})


def _taken(table: ir.Table, place: int, feature: Feature, rows: Schema, names: Mapping[str, str]) -> Any:
    """The value made of a unit's rows: a grid step, a count or a code; for a mean the number of its rows."""
    if feature.of is None:
        return table.count()
    value = table[names[feature.of]]
    if feature.take in ("count", "mean"):
        return value.count()
    if feature.take == "sum":
        return exact_sum([value.cast("int64")], [rows.bounds(feature.of).reach])
    if feature.take in ("any", "all"):
        true = (value == list(rows.categories(feature.of).labels).index(True)).cast("int8")
        return true.max() if feature.take == "any" else true.min()
    if feature.order is not None:  # of rows at the same place the smallest value, so that no engine chooses
        return value.min(where=table[f"at{place}"] == table[f"end{place}"])
    return value.min() if feature.take == "min" else value.max()


def _halves(place: int, value: Any, bounds: Bounds, finer: int) -> dict[str, Any]:
    """Sums of the upper and lower halves of a value's fine steps above the lower bound: each below 2²¹ a row."""
    steps = (value.cast("int64") - bounds.lowest) * finer
    upper = quotient(steps, LIMB)
    return {f"upper{place}": exact_sum([upper], [LIMB * 2]), f"lower{place}": exact_sum([steps % LIMB], [LIMB])}


def _mean(units: ir.Table, place: int) -> Any:
    """The sum over the number of rows, rounded to the nearest whole number, halves up.

    With less than `TOO_MANY` rows both sums and ``rest`` are below 2⁵³, where every quotient is exact.
    """
    count = units[f"x{place}"]
    count = ((count > 0) & (count < TOO_MANY)).ifelse(count, None)
    upper, lower = units[f"upper{place}"], units[f"lower{place}"]
    rest = upper % count * LIMB + lower
    return quotient(upper, count) * LIMB + quotient(rest, count) + (rest % count * 2 >= count).cast("int64")
