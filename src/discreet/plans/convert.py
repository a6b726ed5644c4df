"""Convert: tables of SPSS, Stata, SAS and Excel as Parquet files, with what their makers wrote about each column.

A release must not depend on one person's value through a type or an error. So a column's type follows from the
dictionary of the file and never from its values; a workbook has no dictionary, so all of its columns become text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.core.errors import InvalidParameter, MissingExtra, SourceError
from discreet.core.files import reason

if TYPE_CHECKING:
    import pyarrow as pa

_STATA, _SAS, _SPSS = "Stata", "SAS", "SPSS"
_DAY = 86_400
_READERS = {
    ".sav": (_SPSS, "read_sav"),
    ".zsav": (_SPSS, "read_sav"),
    ".por": (_SPSS, "read_por"),
    ".dta": (_STATA, "read_dta"),
    ".sas7bdat": (_SAS, "read_sas7bdat"),
    ".xpt": (_SAS, "read_xport"),
}
_WORKBOOK = ".xlsx"
_DATES = {
    _SPSS: (date(1582, 10, 14), {"DATE": _DAY, "ADATE": _DAY, "EDATE": _DAY, "SDATE": _DAY, "DATETIME": _DAY}),
    _STATA: (date(1960, 1, 1), {"%td": 1, "%d": 1, "%tc": 1000 * _DAY, "%tC": 1000 * _DAY}),
    _SAS: (date(1960, 1, 1), {"DATETIME": _DAY, "DATE": 1, "MMDDYY": 1, "DDMMYY": 1, "YYMMDD": 1, "E8601DA": 1}),
}
"""From when on each program counts, and how many of its units a day has, by the first letters of a column's format."""
_MOST_CODES = 20
"""Codes of a range of missing values that are written out."""


@dataclass(frozen=True)
class Described:
    """What the maker of a table wrote about a column: its title, words for its codes, and codes of missing values."""

    title: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    missing: Sequence[float | str] = ()

    def stored(self) -> dict[str, str]:
        """As the metadata of a Parquet column."""
        return {"discreet": json.dumps({"title": self.title, "labels": dict(self.labels), "missing": [*self.missing]})}


def convert(source: Path, sheet: str | None = None) -> bytes:
    """A table as a Parquet file.

    Parameters
    ----------
    source
        A file of SPSS (.sav, .zsav, .por), Stata (.dta), SAS (.sas7bdat, .xpt) or Excel (.xlsx).
    sheet
        Of a workbook; the first by default.
    """
    kind = source.suffix.lower()
    if kind != _WORKBOOK and kind not in _READERS:
        known = ", ".join((*_READERS, _WORKBOOK))
        raise InvalidParameter(
            "file", source.name, f"must end in one of {known}", "Use CSV and Parquet files as they are."
        )
    if sheet is not None and kind != _WORKBOOK:
        raise InvalidParameter("sheet", sheet, "is of a workbook", "Leave the sheet out.")
    columns = _of_workbook(source, sheet) if kind == _WORKBOOK else _of_dictionary(source, *_READERS[kind])
    return _parquet(source, columns)


Columns = Mapping[str, tuple["pa.Array", Described]]


def _parquet(source: Path, columns: Columns) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    if not columns:
        raise SourceError(f"file = {source.name!r}: has no columns. Check the file, or name another sheet.")
    fields = [pa.field(name, values.type, metadata=told.stored()) for name, (values, told) in columns.items()]
    table = pa.Table.from_arrays([values for values, _ in columns.values()], schema=pa.schema(fields))
    found = BytesIO()
    parquet.write_table(table, found)
    return found.getvalue()


def described(file: str) -> dict[str, Described]:
    """What a converted file says about its columns; nothing where it was made by somebody else."""
    from pyarrow import parquet

    found = {}
    for column in parquet.read_schema(file):
        told = _told((column.metadata or {}).get(b"discreet", b""))
        if told is not None:
            found[column.name] = told
    return found


def _told(stored: bytes) -> Described | None:
    """What was stored of a column; None where it was not stored by `convert`, since anybody can write such files."""
    try:
        told = Described(**json.loads(stored))
    except (ValueError, TypeError, RecursionError):
        return None
    texts = (told.title, *told.labels, *told.labels.values()) if isinstance(told.labels, dict) else (None,)
    codes = told.missing if isinstance(told.missing, list) else [None]
    known = all(isinstance(one, str) for one in texts) and all(isinstance(one, str | float | int) for one in codes)
    return told if known else None


# ---- Dictionaries: SPSS, Stata and SAS say of every column whether it is text, what it is called and what codes mean.


def _of_dictionary(source: Path, program: str, reader: str) -> Columns:
    import pyarrow as pa

    try:
        library = import_module("pyreadstat")
    except ImportError:
        raise MissingExtra("pyreadstat", "formats") from None
    settings: dict[str, Any] = {"output_format": "dict", "disable_datetime_conversion": True}
    if program == _SPSS and reader == "read_sav":
        settings["user_missing"] = True  # codes of missing values stay codes, and the plan declares them
    try:
        values, told = getattr(library, reader)(str(source), **settings)
    except (OSError, library.ReadstatError, library.PyreadstatError, UnicodeError) as failure:
        words = reason(failure) if isinstance(failure, OSError) else f"it is no whole file of {program}."
        raise SourceError(f"file = {source.name!r}: cannot be read: {words}") from None
    found = {}
    for name, column in values.items():
        about = Described(
            title=(told.column_names_to_labels.get(name) or "").strip(),
            labels={code_text(code): str(label) for code, label in told.variable_value_labels.get(name, {}).items()},
            missing=list(_codes(told.missing_ranges.get(name, ()))),
        )
        if told.readstat_variable_types[name] == "string":
            found[name] = (pa.array([None if one is None else str(one) for one in column], pa.string()), about)
            continue
        numbers = np.array([math.nan if one is None else one for one in column], dtype=float)
        days = _days(program, str(told.original_variable_types.get(name)), numbers)
        found[name] = (pa.array(numbers, from_pandas=True) if days is None else days, about)
    return found


def _days(program: str, written: str, numbers: np.ndarray[Any, np.dtype[np.float64]]) -> pa.Array | None:
    """A column of dates as days; None where its format is not that of a date."""
    import pyarrow as pa

    start, kinds = _DATES[program]
    unit = next((unit for kind, unit in kinds.items() if written.startswith(kind)), None)
    if unit is None:
        return None
    since = np.floor(numbers / unit) + (start - date(1970, 1, 1)).days
    possible = np.abs(since) < 3_000_000  # days of the years that a date can have, and none for what is missing
    return pa.array(np.where(possible, since, 0).astype(np.int32), mask=~possible).cast(pa.date32())


def code_text(value: Any) -> str:
    """A code as a plan writes it: whole numbers without decimals."""
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _codes(ranges: Sequence[Mapping[str, Any]]) -> Iterator[float | str]:
    """The codes of missing values; of a long range only its ends, which the plan has to complete."""
    for one in ranges:
        low, high = one["lo"], one["hi"]
        if isinstance(low, str) or low == high or not high - low <= _MOST_CODES:
            yield from dict.fromkeys(end for end in (low, high) if isinstance(end, str) or math.isfinite(end))
        else:
            yield from np.arange(math.ceil(low), high + 1).tolist()


# ---- Workbooks: cells have types of their own, so each becomes the text that a person reads


def _of_workbook(source: Path, sheet: str | None) -> Columns:
    import pyarrow as pa

    try:
        book = import_module("openpyxl").load_workbook(source, read_only=True, data_only=True)
    except ImportError:
        raise MissingExtra("openpyxl", "formats") from None
    except OSError as failure:
        raise SourceError(f"file = {source.name!r}: cannot be read: {reason(failure)}") from None
    except Exception:  # a damaged archive or page fails in many ways, none of which is for readers
        raise SourceError(f"file = {source.name!r}: is no whole workbook. Save it again as .xlsx.") from None
    if sheet is not None and sheet not in book.sheetnames:
        raise InvalidParameter("sheet", sheet, f"must be one of {book.sheetnames}", "Check the spelling.")
    lines = (book[sheet] if sheet is not None else book.worksheets[0]).iter_rows(values_only=True)
    names = [_text(one) for one in next(lines, ())]
    while names and names[-1] is None:
        names.pop()
    if None in names or len(set(names)) < len(names):
        raise SourceError(f"file = {source.name!r}: its first row must name each column once. Name the columns.")
    rows = [[_text(one) for one in line[: len(names)]] for line in lines]
    empty = [None] * len(names)
    filled = [(row + empty)[: len(names)] for row in rows]
    return {
        str(name): (pa.array([row[at] for row in filled], pa.string()), Described()) for at, name in enumerate(names)
    }


def _text(cell: Any) -> str | None:
    if cell is None or isinstance(cell, str):
        return cell or None
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, datetime) and cell.time() == time():
        return cell.date().isoformat()
    return cell.isoformat() if isinstance(cell, date | time) else code_text(cell)
