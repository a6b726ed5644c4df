"""Dialect: how a file of text is written. Declared by its owner, never guessed from its content."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import Any

from discreet.core import requirements
from discreet.core.errors import InvalidParameter

__all__ = ["Dialect"]

# Encodings without a shift state: in a stateful one, a character of one row could change how later rows are read.
_ENCODINGS = ("utf-8", "utf-16", "utf-32", "ascii", "iso8859", "cp", "mac", "koi8", "gb", "big5", "euc", "shift_jis")

_DELIMITER = r"""(?![0-9A-Za-z"'\r\n])[\x01-\x7f]"""
THOUSANDS = (".", ",", "'", "\u2019", " ", "\u00a0", "\u202f")


@dataclass(frozen=True, kw_only=True)
class Dialect:
    r"""How a CSV file is written.

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
        """What differs from the default, as in the ``[source]`` table of a plan file."""
        return {name: value for name, value in vars(self).items() if value != getattr(Dialect(), name)}

    def delimiter_of(self, path: str) -> str:
        """The delimiter of a file; refused where it is the decimal mark as well."""
        delimiter = self.delimiter or ("\t" if path.lower().endswith(".tsv") else ",")
        if delimiter == self.decimal:
            raise InvalidParameter("decimal", self.decimal, "is the delimiter too", 'Pass delimiter=";".')
        return delimiter
