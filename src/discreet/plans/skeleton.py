"""Skeleton: a plan file to fill in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from textwrap import wrap
from types import MappingProxyType
from typing import Any

from discreet.core.errors import InvalidParameter, SourceError, WrongType
from discreet.questions import asked

__all__ = ["skeleton"]

_TYPED = (".parquet",)
_NUMBERS = ("int", "uint", "float", "double", "halffloat", "decimal")
_UNIT = """\
# Who is protected. If a person can have several rows, uncomment this table and name the column of people; without it
# the guarantee is for single rows.
# [schema.unit]
# column = "…"
# total = …  # at most this many rows per person count; discreet drops others at random

# Only column names {and_types}were read. Bounds and categories are public facts that you know; never take them from the
# data. Uncomment the columns that you will use."""
_LIMITS = [
    "# low = …   # public bounds; values beyond are moved to the nearer one",
    "# high = …",
    "# grid = …  # values are rounded to multiples of it: 1 for years, 0.01 for money",
]


_OTHER_DELIMITERS = {";": ";", "\t": "\\t", "|": "|"}
_DATA = re.compile(r"\s*([+-]?[\d.,]*\d|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}.*|\S+@\S+\.\S+)\s*")
"""A number, a date or an e-mail address: what a column is hardly called, and a first row without a header holds."""


def skeleton(source: str, types: Mapping[str, str], dialect: Mapping[str, Any] = MappingProxyType({})) -> str:
    """A plan file to fill in, from column names and types alone.

    Parameters
    ----------
    source
        The path of the data.
    types
        The names of the columns, with their types.
    dialect
        The settings of a CSV file that differ from the default.
    """
    if not types:
        raise InvalidParameter("source", source, "has no columns", "Check the file.")
    typed = source.lower().endswith(_TYPED)  # all columns of a CSV are text
    if not typed:
        _check_names(source, list(types))
    lines = [
        f'title = "Releases from {_quoted(Path(source).name)}"',
        "",
        "[source]",
        f'path = "{_quoted(source)}"',
        *(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in dialect.items()),
        "",
        "[budget]",
        "epsilon = 1.0",
        "",
        "[schema]",
        'neighbours = "add_remove"  # or "replace_one" with size = the public number of units',
        "",
        _UNIT.format(and_types="and types " if typed else ""),
    ]
    for name, kind in types.items():
        lines += ["", f'# [schema.columns."{_quoted(name)}"]{f"  # {kind}" if typed else ""}', *_column_lines(kind)]
    lines += ["", *_questions(), "[[release]]", 'name = "rows"', 'ask = "count"', "share = 1.0", ""]
    return "\n".join(lines)


def _check_names(source: str, names: list[str]) -> None:
    """Refuse a header that does not split, or that looks like somebody's record: a plan is shown to others."""
    if len(names) == 1 and (found := [shown for mark, shown in _OTHER_DELIMITERS.items() if mark in names[0]]):
        raise SourceError(
            f"source = {source!r}: the header is one field with {found[0]!r} inside. If that is the delimiter, add "
            f"--delimiter '{found[0]}', and --decimal ',' if numbers have decimal commas."
        )
    for place, name in enumerate(names, 1):
        if _DATA.fullmatch(name):
            raise SourceError(
                f"source = {source!r}: name {place} of the header looks like data, not like a name. Add a first line "
                "with the names of the columns."
            )


def _questions() -> list[str]:
    """What can be asked, in comments."""
    lines = [
        "# What can be asked, with its settings; those in brackets are optional. Every question also takes title,",
        "# its share of the budget (or its own epsilon), and limits per person (total, or groups and rows):",
    ]
    for ask, kind in asked().items():
        words = " ".join(name if required else f"[{name}]" for name, required in kind.settings().items())
        first, *rest = wrap(words, 96)
        lines += [f"#   {ask:<17} {first}", *(f"#   {'':<17} {line}" for line in rest)]
    return lines


def _column_lines(kind: str) -> list[str]:
    if kind.lstrip("!").startswith(_NUMBERS):
        return _LIMITS
    if kind.lstrip("!").startswith("bool"):
        return ["# categories = [true, false]"]
    return [
        '# categories = ["…"]  # every label that can occur; or, if that is not public:',
        '# unlisted = true     # only ask = "groups" can use it; or, if it holds numbers:',
        *_LIMITS,
    ]


def _quoted(text: str) -> str:
    if not isinstance(text, str):
        raise WrongType("name", text, "must be text", "Rename the column.")
    escaped = json.dumps(text, ensure_ascii=False)
    return escaped[1:-1]
