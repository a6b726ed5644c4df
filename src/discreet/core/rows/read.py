"""Reading: rows on an engine, and how frames and files become such rows.

Nothing is guessed: the dialect of a file is declared, and the meaning of a value depends on that value alone
(``docs/proofs/rows.md``).
"""

from __future__ import annotations

import codecs
import os
import re
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from difflib import get_close_matches
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.core import requirements
from discreet.core.errors import InvalidParameter, SourceError, WrongType
from discreet.core.rows import engines
from discreet.core.rows.engines import remove_directory, spill_directory

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa


# ---- Dialect: how a file of text is written. Declared by its owner, never guessed from its content.


# Encodings without a shift state: in a stateful one, a character of one row could change how later rows are read.
_ENCODINGS = ("utf-8", "utf-16", "utf-32", "ascii", "iso8859", "cp", "mac", "koi8", "gb", "big5", "euc", "shift_jis")

_DELIMITER = r"""(?![0-9A-Za-z"'\r\n])[\x01-\x7f]"""
THOUSANDS = (".", ",", "'", "\u2019", " ", "\u00a0", "\u202f")


@dataclass(frozen=True, kw_only=True)
class Dialect:
    r"""The format of a CSV file.

    A file that does not follow its dialect is refused as a whole, before anything is spent. Inside a file that does,
    every value has a meaning (``docs/proofs/rows.md``).

    Parameters
    ----------
    delimiter
        Character between fields: a comma by default, a tab for ``.tsv`` files.
    decimal
        Decimal mark of numbers written as text: ``"."`` or ``","``.
    encoding
        Encoding of the characters, by Python's name for it.
    header
        Whether the first line names the columns; they are ``column1``, ``column2``, … otherwise.
    thousands
        Mark between groups of three digits, for example ``"."`` in 1.234,50: a dot, a comma, an apostrophe or a blank.
    symbols
        Signs that may stand before or after a number and are no part of it, with blanks between them: ``"$ % EUR"``.
        The number in ``12.5 %`` is 12.5.

    Examples
    --------
    >>> Dialect(delimiter=";", decimal=",").delimiter_of("visits.csv")
    ';'
    >>> Dialect().delimiter_of("visits.tsv")
    '\t'
    """

    delimiter: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    header: bool = True
    thousands: str | None = None
    symbols: str = ""

    def __post_init__(self) -> None:
        if self.delimiter is not None and not re.fullmatch(_DELIMITER, str(self.delimiter)):
            raise InvalidParameter("delimiter", self.delimiter, "must be one ASCII sign", 'Pass ";" or "\\t".')
        requirements.one_of("decimal", self.decimal, (".", ","))
        if self.thousands is not None:
            requirements.one_of("thousands", self.thousands, [mark for mark in THOUSANDS if mark != self.decimal])
        if re.search(r"[0-9.,+-]|\b[eE]\b", requirements.instance("symbols", self.symbols, str, 'text like "$ %"')):
            raise InvalidParameter("symbols", self.symbols, "must be signs without digits", 'Pass "$ %", for example.')
        requirements.instance("header", self.header, bool, "True or False")
        if not self.codec.startswith(_ENCODINGS):
            raise InvalidParameter("encoding", self.encoding, "is not known", 'Pass "utf-8", "latin-1" or "cp1252".')

    @property
    def codec(self) -> str:
        """Python's codec; a byte-order mark, which spreadsheets write before UTF-8, is no part of the data."""
        try:
            return re.sub(r"^utf-8$", "utf-8-sig", codecs.lookup(self.encoding).name)
        except (LookupError, TypeError):
            return ""

    def declared(self) -> dict[str, Any]:
        """The settings that differ from the default, as in the ``[source]`` table of a plan file."""
        return {name: value for name, value in vars(self).items() if value != getattr(Dialect(), name)}

    def delimiter_of(self, path: str) -> str:
        """The delimiter of a file; refused where it is the decimal mark as well."""
        delimiter = self.delimiter or ("\t" if path.lower().endswith(".tsv") else ",")
        if delimiter == self.decimal:
            raise InvalidParameter("decimal", self.decimal, "is the delimiter too", 'Pass delimiter=";".')
        return delimiter


# ---- CSV files: decode, check, split; every field stays text. What each step means: ``docs/proofs/rows.md``.
#
# Quotes are what makes CSV hard. In a well-formed file they alternate: the first opens a field, the second closes it
# or is the first of a doubled quote, and so on. A character is therefore inside quotes exactly where an odd number of
# quotes stands before it, which numpy counts for a whole piece at once. A file whose quotes stand anywhere else is
# refused, so that the fast splitter of Arrow, which is lenient there, never sees one.


# A record that is longer than the longest is read as one of missing values, wherever it stands; a header may not be.
_PIECE, _GLIMPSE, _LABELS, _LARGE, _LONGEST, _WIDEST = 1 << 24, 1 << 16, 1 << 16, 1 << 30, 1 << 23, 100_000
_QUOTE, _NEWLINE, _RETURN = b'"\n\r'
_IN_MEMORY = 1 << 27
"""Bytes of fields that are held in memory; more are copied to the disk."""
MOST_NUMBERED = 1_000
"""Columns of files without a header that can be asked for; those without a row have all of them."""


@dataclass(frozen=True)
class _CsvFile:
    path: str
    dialect: Dialect
    strict: bool = False
    """True where bytes that are no text are refused. Otherwise they are spelled out, spoiling only their field."""

    def pieces(self, size: int) -> Iterator[tuple[int, bytes]]:
        """Whole records as UTF-8 that ends with a line feed, with the number of the line that each piece begins on."""
        import pyarrow as pa

        errors = "strict" if self.strict else "backslashreplace"
        decoder = codecs.getincrementaldecoder(self.dialect.codec)(errors)
        rest, line, cut, gone = b"", 1, False, 0  # and how many lines of a record that is too long are gone
        with pa.input_stream(self.path, compression="detect") as file:
            while raw := file.read(max(size, len(rest))):  # a long record is looked at a few times, not for each piece
                piece = rest + self._decoded(decoder, raw, line + gone + rest.count(b"\n"))
                end = _end_of_records(piece)
                if end:
                    yield line, self._short(piece[:end], line, cut)
                    line, cut, gone = line + gone + piece.count(b"\n", 0, end), False, 0
                rest = piece[end:]
                if len(rest) > _LONGEST:  # what is left of it says how many fields it has, and whether a quote is open
                    cut, gone = True, gone + rest.count(b"\n")
                    rest = self._missing(rest) + b'"' * (rest.count(b'"') % 2)
        rest += self._decoded(decoder, b"", line + gone)
        if rest:
            yield line, self._short(rest if rest.endswith(b"\n") else rest + b"\n", line, cut)

    def _missing(self, record: bytes) -> bytes:
        """A record of as many fields, all of them empty."""
        delimiter = self.dialect.delimiter_of(self.path).encode()
        places = _positions(record, delimiter[0])
        return delimiter * int((np.searchsorted(_positions(record, _QUOTE), places) % 2 == 0).sum())

    def _short(self, piece: bytes, line: int, cut: bool) -> bytes:
        """Whole records, of which those that are too long are of missing values; ``cut`` says that the first one is.

        The length of a record alone decides, and not where pieces end, which depends on the records before it.
        """
        half = max(_LONGEST // 2, 1)
        windows = range(0, len(piece), half)
        if not cut and _QUOTE not in piece and all(piece.find(b"\n", at, at + half) >= 0 for at in windows):
            return piece  # a line ends in each half of the longest record, as in all ordinary files
        ends = _ends(piece)
        starts = np.concatenate([[0], ends[:-1] + 1]) if ends.size else ends
        long = np.flatnonzero((ends - starts >= _LONGEST) | (cut & (starts == 0)))
        if long.size and line == 1 and self.dialect.header and not starts[long[0]]:
            raise self.refused(line, f"has more than {_LONGEST:,} bytes", "Close its quotes, or end its lines.")
        for place in long[::-1].tolist():
            start, end = int(starts[place]), int(ends[place])
            piece = piece[:start] + self._missing(piece[start:end]) + piece[end:]
        return piece

    def _decoded(self, decoder: Any, raw: bytes, line: int) -> bytes:
        try:
            return bytes(decoder.decode(raw, not raw).encode())
        except UnicodeDecodeError as failure:
            line += failure.object[: failure.start].count(b"\n")
            fix = 'Declare the encoding, for example encoding = "cp1252"; in a plan, write it below [source].'
            raise self.refused(line, f"is not {self.dialect.encoding}", fix) from None

    def parsed(self, line: int, piece: bytes, names: Sequence[str]) -> pa.Table:
        """The fields of whole records as text; refuses what is malformed."""
        import pyarrow as pa
        from pyarrow import csv

        piece = _without_returns(piece)
        quoted = self._check_quotes(line, piece)
        options = {
            "read_options": csv.ReadOptions(block_size=len(piece) + len(codecs.BOM_UTF8), column_names=names),
            "parse_options": csv.ParseOptions(
                delimiter=self.dialect.delimiter_of(self.path), quote_char=quoted and '"', double_quote=True,
                newlines_in_values=quoted, ignore_empty_lines=len(names) > 1),
            "convert_options": csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), null_values=[], check_utf8=False),
        }  # fmt: skip
        try:
            # Arrow drops a byte-order mark before what it reads. It gets one of ours, so that no row loses its own.
            return csv.read_csv(pa.BufferReader(codecs.BOM_UTF8 + piece), **options)
        except pa.ArrowInvalid:
            bad, found = self._miscounted(piece, len(names))
            fix = 'Correct the file, or declare its delimiter = ";", for example; in a plan, write it below [source].'
            raise self.refused(line + bad, f"has {found} fields, not {len(names)}", fix) from None

    def _check_quotes(self, line: int, piece: bytes) -> bool:
        """True where anything is quoted; refuses quotes that stand where they mean nothing."""
        text = np.frombuffer(piece, np.uint8)
        quotes = _positions(piece, _QUOTE)
        delimiter = ord(self.dialect.delimiter_of(self.path))
        # Every piece ends with a line feed, so the byte "before" its first one, text[-1], ends a line too.
        beside = np.zeros((2, 256), bool)  # the bytes that may stand before an opening and after a closing quote
        beside[:, [delimiter, _NEWLINE, _QUOTE]] = beside[1, _RETURN] = True
        opened, closed = ~beside[0, text[quotes[::2] - 1]], ~beside[1, text[quotes[1::2] + 1]]
        unclosed = quotes[-1:] if quotes.size % 2 else quotes[:0]
        for wrong, rule in (
            (quotes[::2][opened], "has a quote inside a field that does not begin with one"),
            (quotes[1::2][closed], "has text after a closing quote"),
            (unclosed, "opens a quote that is never closed"),
        ):
            if wrong.size:
                at = line + piece.count(b"\n", 0, int(wrong[0]))
                raise self.refused(at, rule, "Write the file with quotes around such fields and inner quotes doubled.")
        return bool(quotes.size)

    def _miscounted(self, piece: bytes, expected: int) -> tuple[int, int]:
        """Lines before the first record that has another number of fields, and that number."""
        quotes, ends = _positions(piece, _QUOTE), _ends(piece)
        delimiters = _positions(piece, ord(self.dialect.delimiter_of(self.path)))
        delimiters = delimiters[np.searchsorted(quotes, delimiters) % 2 == 0]
        fields = np.diff(np.searchsorted(delimiters, ends), prepend=0) + 1
        length = np.diff(ends, prepend=-1) - 1
        blank = length <= (np.frombuffer(piece, np.uint8)[ends - 1] == _RETURN)
        bad = int(np.argmax((fields != expected) & ~blank))
        return piece.count(b"\n", 0, int(ends[bad - 1]) + 1) if bad else 0, int(fields[bad])

    def header(self, first: bytes) -> tuple[list[str], int]:
        """Names of the columns, and where the rows begin in the first piece."""
        ends = _ends(first)
        if not ends.size:  # an open quote swallows even the end of the header
            self._check_quotes(1, first)
        end = int(ends[0]) + 1 if self.dialect.header else len(first)
        if self.dialect.header and _without_returns(first[:end]) != first[:end]:
            raise self.refused(1, "has a carriage return without a line feed", "End every line with a line feed.")
        width = self._miscounted(first[:end], 0)[1]
        if width > _WIDEST:
            raise self.refused(1, f"has {width:,} fields, more than {_WIDEST:,}", "Write the columns that you need.")
        if not self.dialect.header:  # its first record is somebody's row, and is read like every other
            return numbered(width), 0
        names = [column[0].as_py() for column in self.parsed(1, first[:end], [str(i) for i in range(width)]).columns]
        if "" in names or len({name.casefold() for name in names}) < width:
            raise self.refused(1, "must give every column a name of its own", "Correct it, or declare header = false.")
        return names, end

    def parts(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """The rows, a piece at a time; the file must have these columns, in any order."""
        names: list[str] = []
        for line, piece in self.pieces(_PIECE):
            start = 0
            if not names:
                names, start = self.header(piece)
                if set(names) != set(columns):
                    raise self.refused(1, "names other columns than the first file", "Read files of one kind together.")
            if piece[start:]:
                yield self.parsed(line + piece.count(b"\n", 0, start), piece[start:], names)

    def refused(self, line: int, rule: str, fix: str) -> SourceError:
        return SourceError(f"source = {self.path!r}: line {line} {rule}. {fix} Nothing was spent.")


def read_names(path: str, dialect: Dialect) -> list[str]:
    """The names of the columns, from the first line alone."""
    file = _CsvFile(path, dialect)
    for _, piece in file.pieces(_GLIMPSE):
        return file.header(piece)[0]
    raise SourceError(f"source = {path!r}: is empty. Check the path. Nothing was spent.")


def numbered(count: int) -> list[str]:
    """The names of the columns of a file without a header.

    Examples
    --------
    >>> numbered(2)
    ['column1', 'column2']
    """
    return [f"column{place + 1}" for place in range(count)]


def _names_of(paths: Sequence[str], dialect: Dialect) -> list[str]:
    """The names of the columns of files; without a header those of the first row, or all where there is no row."""
    if dialect.header:
        return read_names(paths[0], dialect)
    for file in (_CsvFile(path, dialect) for path in paths):
        for _, piece in file.pieces(_GLIMPSE):
            return file.header(piece)[0]
    return numbered(MOST_NUMBERED)


def check_csv(paths: Sequence[str], dialect: Dialect) -> None:
    """Refuse, with its line, what is malformed or not in the declared encoding; for the owner of the rows alone."""
    columns = _names_of(paths, dialect)
    for path in paths:
        for _ in _CsvFile(path, dialect, strict=True).parts(columns):
            pass


def copy_csv(paths: Sequence[str], dialect: Dialect, copy: Path, in_memory: int = -1) -> pa.Table | None:
    """Write all rows of files that have the same columns, as text, into one Parquet file, if they are not few.

    The copy makes the rows lasting, and the same for every engine: what was checked is what is read, however the files
    change. Up to ``in_memory`` bytes are given back instead.
    """
    import pyarrow as pa

    columns = _names_of(paths, dialect)
    fields = pa.schema(dict.fromkeys(columns, pa.string()))
    parts = (part.select(columns) for path in paths for part in _CsvFile(path, dialect).parts(columns))
    # `empty_table` imports pandas
    few, size = [pa.Table.from_arrays([pa.chunked_array([], pa.string())] * len(columns), schema=fields)], 0
    for part in parts:
        few.append(part)
        size += part.nbytes
        if size > in_memory:
            break
    if size <= in_memory:
        return pa.concat_tables(few)
    from pyarrow import parquet

    # A third of the time of Arrow's own choice. Only large copies are worth the work of making them smaller.
    small = sum(os.path.getsize(path) for path in paths) < _LARGE
    how: Any = {"compression": "none", "use_dictionary": False} if small else {"dictionary_pagesize_limit": _LABELS}
    with parquet.ParquetWriter(copy, fields, write_statistics=False, **how) as writer:
        for part in chain(few, parts):
            writer.write_table(part)
    return None


def _positions(piece: bytes, character: int) -> NDArray[np.int64]:
    if character not in piece:  # far faster than an array, and most files have no quotes
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.frombuffer(piece, np.uint8) == character)


def _without_returns(piece: bytes) -> bytes:
    """The piece, with a space for each carriage return that neither ends a line nor is quoted.

    Common writers leave it unquoted, so one person's value must not make the file malformed. Arrow would end a line.
    """
    returns = _positions(piece, _RETURN)
    returns = returns[np.searchsorted(_positions(piece, _QUOTE), returns) % 2 == 0]
    text = np.frombuffer(piece, np.uint8)
    inner = returns[text[returns + 1] != _NEWLINE]
    if not inner.size:
        return piece
    text = text.copy()
    text[inner] = ord(" ")
    return text.tobytes()


def _ends(piece: bytes) -> Any:
    """Positions of the line feeds that end records: those outside quotes."""
    newlines = _positions(piece, _NEWLINE)
    return newlines[np.searchsorted(_positions(piece, _QUOTE), newlines) % 2 == 0]


def _end_of_records(piece: bytes) -> int:
    """Length of the whole records at the beginning of a piece."""
    if _QUOTE not in piece:
        return piece.rfind(b"\n") + 1
    ends = _ends(piece)
    return int(ends[-1]) + 1 if ends.size else 0


# ---- Frames: each value of a frame is converted by itself, whatever other values its column holds.
#
# A frame's column may be stored as numbers, or as objects because of one text in somebody else's row. The meaning of a
# value must not depend on that, so objects become the text that means the same as the value would in a column of its
# own kind (``docs/proofs/rows.md``).


LARGEST_WHOLE_FLOAT = 2**53 - 1
"""Larger floats may stand for several whole numbers."""
_MOST_ZEROS = 400
_MANY_DIGITS = 10**_MOST_ZEROS
_MISSING = ("NAType", "NaTType")
_NESTED = (list, tuple, set, frozenset, dict, np.ndarray)
"""Values of these types hold several values, and count as none."""
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
        # A tiny number has a million zeros, which take long to write: one person's value must not decide the time.
        text = f"{value:f}" if value.adjusted() > -_MOST_ZEROS else ""
        return text if 0 < len(text) <= len(str(_MANY_DIGITS)) else f"{value:e}"
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
    """Refuse two columns of one name, as engines do not tell upper from lower case, and names they cannot write."""
    if len({name.casefold() for name in names}) < len(names):
        raise InvalidParameter("source", "…", "has two columns of one name", "Rename one.")
    if any(name == "" or "\0" in name for name in names):
        raise InvalidParameter("source", "…", "has a column without a name, or with a zero byte in it", "Rename it.")


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


def _polars(series: Any) -> Any:
    import pyarrow as pa

    if series.dtype.is_object():
        return _texts(series.to_list())
    try:
        return series.to_arrow()
    except (pa.ArrowException, NotImplementedError, TypeError, ValueError):
        # Whole numbers of 128 bits, which polars makes of all values where one has more than 64.
        return _texts(series.to_list())


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
            column = _polars(frame.to_series(place))
        else:
            column = frame.column(place)
        column = _plain(column)
        found[name] = column.cast(pa.large_string()) if name in dates else column
    if not found:  # rows can still be counted
        found = {frame_names(frame)[0] if len(frame_names(frame)) else "row": pa.nulls(len(frame), pa.bool_())}
    return pa.table(found)


# ---- Reading: rows on an engine, and how frames and files become such rows.


_MOST_DIGITS = 38


@dataclass(frozen=True)
class Dataset:
    """Rows on an engine, still private: its repr shows column names and types only.

    Attributes
    ----------
    table
        The ibis table.
    connection
        The ibis connection that holds it.
    name
        What the source is called in messages.
    written
        How its text is written: the marks of numbers.
    """

    table: ir.Table
    connection: Any
    name: str
    written: Dialect = field(default_factory=Dialect)

    def __post_init__(self) -> None:
        engines.require_able(self.connection)

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {kind}" for name, kind in self.types().items())
        return f"Dataset({self.name!r}, engine={self.engine!r}, columns=[{columns}])"

    @property
    def engine(self) -> str:
        """Name of the engine."""
        return str(self.connection.name)

    def types(self) -> dict[str, str]:
        """Column names with their types on the engine; no value is looked at."""
        return {name: str(kind) for name, kind in self.table.schema().items()}

    def require(self, *columns: str | None) -> None:
        """Refuse where a column is missing; None stands for no column."""
        require_columns(self.name, self.table.columns, columns)

    def fetch(self, expression: ir.Table) -> pa.Table:
        """Run an aggregate and bring its (small) result here."""
        with engines.alone(self.connection):
            return engines.guarded(self.name, lambda: engines.fetched(self.connection, expression))

    def scan(self, expression: ir.Table, visit: Callable[[Any], None], rows: int) -> None:
        """Bring the rows of a query here, in batches of so many; only the embedded engine can."""
        with engines.alone(self.connection):
            engines.guarded(self.name, lambda: [*map(visit, engines.batches(self.connection, expression, rows))])

    def store(self, name: str, expression: ir.Table, together: Sequence[str] = ()) -> ir.Table:
        """Compute an intermediate table once, on the engine, and call it ``name`` there."""
        with engines.alone(self.connection):
            store = partial(engines.materialised, self.connection, name, expression, together)
            return engines.guarded(self.name, store)

    def append(self, table: ir.Table, rows: pa.Table) -> None:
        """Add rows to a stored table; only the embedded engine can."""
        with engines.alone(self.connection):
            engines.guarded(self.name, lambda: engines.appended(self.connection, table.op().name, rows))

    def marked(self, name: str, table: str, bits: NDArray[np.bool_]) -> ir.Table:
        """The rows of a stored table whose bit is set, called ``name``; only the embedded engine can."""
        with engines.alone(self.connection):
            return engines.guarded(self.name, lambda: engines.marked(self.connection, name, table, bits))

    def asked_again(self, expression: ir.Table) -> Callable[..., pa.Table]:
        """A query that is asked of many parts of its rows, in SQL; only the embedded engine can."""
        with engines.alone(self.connection):
            ask = engines.guarded(self.name, lambda: engines.asked_again(self.connection, expression))

        def again(what: str, where: str) -> pa.Table:
            with engines.alone(self.connection):
                return engines.guarded(self.name, lambda: ask(what, where))

        return again

    def bring(self, rows: pa.Table) -> ir.Table:
        """Rows of another engine, as a table on this one."""
        return uploaded(self.connection, rows, self.name)


def require_columns(source: str, known: Sequence[str], columns: Sequence[str | None]) -> None:
    """Refuse where a source lacks a column; None stands for no column."""
    for name in columns:
        if name is not None and name not in known:
            near = get_close_matches(name, known, n=1)
            fix = f"Did you mean {near[0]!r}?" if near else "Check the schema against the data."
            raise SourceError(f"source = {source!r}: has no column {name!r}. {fix} Nothing was spent.")


def uploaded(connection: Any, arrow: pa.Table, name: str) -> Any:
    """Rows of this machine as a table on the engine."""
    if connection.name == "pyspark":  # straight from Arrow: by way of pandas, whole numbers with gaps become floats
        return engines.guarded(name, lambda: viewed(connection, connection._session.createDataFrame(arrow)))
    label = _label()
    with engines.alone(connection):
        return engines.passing(connection, engines.registered(connection, label, arrow), label)


def viewed(connection: Any, frame: Any) -> Any:
    """A frame of Spark as a table."""
    label = _label()
    frame.createOrReplaceTempView(label)
    return engines.passing(connection, connection.table(label), label)


def _label() -> str:
    return f"discreet_source_{os.urandom(6).hex()}"


def file_rows(
    path: str, files: Sequence[str], dialect: Dialect, connect: Callable[[Sequence[str]], Any]
) -> tuple[ir.Table, Any]:
    """The rows of the files that a path means, with the connection that ``connect`` makes to read such files."""
    if path.lower().rstrip("/").endswith(".parquet"):
        parquet_types(files)
        connection = connect([*files, *map(_literal, files)])
        return engines.guarded(path, lambda: _read_parquet(connection, files)), connection
    directory, held = spill_directory()
    copy = directory / "rows.parquet"
    try:
        rows = engines.guarded(path, lambda: copy_csv(files, dialect, copy, _IN_MEMORY))
        connection = connect([str(copy)] if rows is None else [])
    except BaseException:
        remove_directory(directory, held)
        raise
    if rows is not None:
        remove_directory(directory, held)
        return uploaded(connection, rows, path), connection
    weakref.finalize(connection, remove_directory, directory, held)
    return engines.guarded(path, lambda: _read_copy(connection, copy)), connection


def _read_copy(connection: Any, copy: Path) -> Any:
    """Rows of a private file; other engines than DuckDB may run where they cannot see it."""
    if connection.name == "duckdb":
        return connection.read_parquet(str(copy))
    from pyarrow import parquet

    return uploaded(connection, parquet.read_table(copy), copy.name)


def _read_parquet(connection: Any, files: Sequence[str]) -> Any:
    """Read exactly these files: engines expand patterns and take columns from folder names unless told otherwise."""
    if connection.name == "pyspark":
        if hidden := [file for file in files if os.path.basename(file).startswith(("_", "."))]:
            raise SourceError(
                f"source = {hidden[0]!r}: Spark does not read files whose names begin with _ or a dot. Rename it, or "
                "read the files on DuckDB. Nothing was spent."
            )
        escaped = [re.sub(r"([\\*?\[\]{}])", r"\\\1", os.path.abspath(file)) for file in files]
        return viewed(connection, connection._session.read.parquet(*escaped))
    return connection.read_parquet([_literal(file) for file in files], hive_partitioning=False)


def _literal(file: str) -> str:
    """A pattern of DuckDB that matches this file alone."""
    return re.sub(r"([*?\[])", r"[\1]", os.path.abspath(file))


def parquet_types(files: Sequence[str]) -> Mapping[str, str]:
    """Names and types of the columns, which all files must share."""
    import pyarrow as pa
    from pyarrow import parquet

    schemas = {file: engines.guarded(file, partial(parquet.read_schema, file)) for file in files}
    first = schemas[files[0]]
    distinct_names(first.names)
    for file, schema in schemas.items():
        if {one.name: one.type for one in schema} != {one.name: one.type for one in first}:
            raise SourceError(f"source = {file!r}: has other columns than {files[0]!r}. Nothing was spent.")
    for one in first:
        if pa.types.is_decimal(one.type) and one.type.precision > _MOST_DIGITS:
            raise WrongType("column", one.name, f"has more than {_MOST_DIGITS} digits", "Cast it to text.")
    return {one.name: str(one.type) for one in first}
