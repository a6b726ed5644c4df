"""CSV files: decode, check, split; every field stays text. What each step means: ``docs/proofs/rows.md``.

Quotes are what makes CSV hard. In a well-formed file they alternate: the first opens a field, the second closes it
or is the first of a doubled quote, and so on. A character is therefore inside quotes exactly where an odd number of
quotes stands before it, which numpy counts for a whole piece at once. A file whose quotes stand anywhere else is
refused, so that the fast splitter of Arrow, which is lenient there, never sees one.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.dialect import Dialect
from discreet.core.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["check_csv", "copy_csv", "read_names"]

# A record that is longer than the longest, or has more fields than the widest, is one whose quotes nobody closed.
_PIECE, _GLIMPSE, _LABELS, _LARGE, _LONGEST, _WIDEST = 1 << 24, 1 << 16, 1 << 16, 1 << 30, 1 << 23, 100_000
_QUOTE, _NEWLINE, _RETURN = b'"\n\r'


@dataclass(frozen=True)
class _CsvFile:
    path: str
    dialect: Dialect
    strict: bool = False
    """Whether bytes that are no text are refused. Otherwise they are spelled out: they spoil their own field alone."""

    def pieces(self, size: int) -> Iterator[tuple[int, bytes]]:
        """Whole records as UTF-8 that ends with a line feed, with the number of the line that each piece begins on."""
        import pyarrow as pa

        errors = "strict" if self.strict else "backslashreplace"
        decoder, rest, line = codecs.getincrementaldecoder(self.dialect.codec)(errors), b"", 1
        with pa.input_stream(self.path, compression="detect") as file:
            while raw := file.read(max(size, len(rest))):  # a long record is looked at a few times, not for each piece
                piece = rest + self._decoded(decoder, raw, line + rest.count(b"\n"))
                end = _end_of_records(piece)
                if end:
                    yield line, piece[:end]
                    line += piece.count(b"\n", 0, end)
                rest = piece[end:]
                if len(rest) > _LONGEST:
                    raise self.refused(line, f"has more than {_LONGEST:,} bytes", "Close its quotes, or end its lines.")
        rest += self._decoded(decoder, b"", line)
        if rest:
            yield line, rest if rest.endswith(b"\n") else rest + b"\n"

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
        """Whether anything is quoted; refuses quotes that stand where they mean nothing."""
        text = np.frombuffer(piece, np.uint8)
        quotes = _positions(piece, _QUOTE)
        delimiter = ord(self.dialect.delimiter_of(self.path))
        # Every piece ends with a line feed, so the byte "before" its first one, text[-1], ends a line too.
        opened = ~np.isin(text[quotes[::2] - 1], (delimiter, _NEWLINE, _QUOTE))
        closed = ~np.isin(text[quotes[1::2] + 1], (delimiter, _NEWLINE, _RETURN, _QUOTE))
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
        end = int(ends[0]) + 1
        if _without_returns(first[:end]) != first[:end]:
            raise self.refused(1, "has a carriage return without a line feed", "End every line with a line feed.")
        width = self._miscounted(first[:end], 0)[1]
        if width > _WIDEST:
            raise self.refused(1, f"has {width:,} fields, more than {_WIDEST:,}", "Write the columns that you need.")
        names = [column[0].as_py() for column in self.parsed(1, first[:end], [str(i) for i in range(width)]).columns]
        if not self.dialect.header:
            return [f"column{i + 1}" for i in range(width)], 0
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


def check_csv(paths: Sequence[str], dialect: Dialect) -> None:
    """Refuse, with its line, what is malformed or not in the declared encoding; for the owner of the rows alone."""
    columns = read_names(paths[0], dialect)
    for path in paths:
        for _ in _CsvFile(path, dialect, strict=True).parts(columns):
            pass


def copy_csv(paths: Sequence[str], dialect: Dialect, copy: Path) -> None:
    """Write all rows of files that have the same columns, as text, into one Parquet file.

    The copy makes the rows lasting, and the same for every engine: what was checked is what is read, however the files
    change.
    """
    import pyarrow as pa
    from pyarrow import parquet

    columns = read_names(paths[0], dialect)
    fields = pa.schema(dict.fromkeys(columns, pa.string()))
    # A third of the time of Arrow's own choice. Only large copies are worth the work of making them smaller.
    small = sum(os.path.getsize(path) for path in paths) < _LARGE
    how: Any = {"compression": "none", "use_dictionary": False} if small else {"dictionary_pagesize_limit": _LABELS}
    with parquet.ParquetWriter(copy, fields, write_statistics=False, **how) as writer:
        for path in paths:
            for part in _CsvFile(path, dialect).parts(columns):
                writer.write_table(part.select(columns))


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
