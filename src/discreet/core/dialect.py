"""Dialect: how a file of text is written. Declared by its owner, never guessed from its content."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Any

from discreet.core import requirements
from discreet.core.errors import InvalidParameter

__all__ = ["Dialect"]

# Encodings without a shift state: in a stateful one, a character of one row could change how later rows are read.
_ENCODINGS = ("utf-8", "utf-16", "utf-32", "ascii", "iso8859", "cp", "mac", "koi8", "gb", "big5", "euc", "shift_jis")

THOUSANDS = (".", ",", "'", "\u2019", " ", "\u00a0", "\u202f")


@dataclass(frozen=True, kw_only=True)
class Dialect:
    r"""How a CSV file is written.

    A file that does not follow its dialect is refused as a whole, before anything is spent. Inside a file that does,
    every value has a meaning (``docs/proofs/reading.md``).

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

    def __post_init__(self) -> None:
        given: Any = self.delimiter
        if given is not None and not _separates(given):
            raise InvalidParameter(
                "delimiter", given, "must be one ASCII character that is no letter, digit, quote or end of line",
                'Pass ";", "\\t" or "|".',
            )  # fmt: skip
        requirements.one_of("decimal", self.decimal, (".", ","))
        if self.thousands is not None:
            requirements.one_of("thousands", self.thousands, [mark for mark in THOUSANDS if mark != self.decimal])
        requirements.instance("header", self.header, bool, "True or False")
        if not self._codec().startswith(_ENCODINGS):
            raise InvalidParameter("encoding", self.encoding, "is not known", 'Pass "utf-8", "latin-1" or "cp1252".')

    def _codec(self) -> str:
        try:
            return codecs.lookup(self.encoding).name
        except (LookupError, TypeError):
            return ""

    @property
    def codec(self) -> str:
        """Python's codec; a byte-order mark, which spreadsheets write before UTF-8, is no part of the data."""
        return "utf-8-sig" if self._codec() == "utf-8" else self._codec()

    def declared(self) -> dict[str, Any]:
        """What differs from the default, as in the ``[source]`` table of a plan file."""
        return {name: value for name, value in vars(self).items() if value != getattr(Dialect(), name)}

    def delimiter_of(self, path: str) -> str:
        """The delimiter of a file; refused where it is the decimal mark as well."""
        delimiter = self.delimiter or ("\t" if path.lower().endswith(".tsv") else ",")
        if delimiter == self.decimal:
            raise InvalidParameter("decimal", self.decimal, "is the delimiter too", 'Pass delimiter=";".')
        return delimiter


def _separates(character: Any) -> bool:
    one = isinstance(character, str) and len(character) == 1 and character.isascii()
    return one and not character.isalnum() and character not in "\"'\r\n\0"
