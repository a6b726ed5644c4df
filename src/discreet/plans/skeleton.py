"""Skeleton: a plan file to fill in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from textwrap import wrap

from discreet.core.errors import InvalidParameter, WrongType
from discreet.plans.plan_file import SETTINGS

__all__ = ["skeleton"]

_TYPED = (".parquet",)
_NUMBERS = ("int", "float", "decimal", "uint")
_UNIT = """\
# Who is protected. If a person can have several rows, uncomment this table and name the column of people; without it
# the guarantee is for single rows.
# [schema.unit]
# column = "…"
# total = …  # at most this many rows of each person count; others are left out by a random choice

# Only column names {and_types}were read. Bounds and categories are public facts that you know; never take them from the
# data. Uncomment the columns that you will use."""
_LIMITS = [
    "# low = …   # public limits; values outside are moved to the nearer one",
    "# high = …",
    "# grid = …  # values are rounded to multiples of it: 1 for years, 0.01 for money",
]


def skeleton(source: str, types: Mapping[str, str]) -> str:
    """A plan file to fill in, from column names and types alone."""
    if not types:
        raise InvalidParameter("source", source, "has no columns", "Check the file.")
    typed = source.lower().endswith(_TYPED)  # all columns of a CSV are text
    lines = [
        f'title = "Releases from {_quoted(Path(source).name)}"',
        "",
        "[source]",
        f'path = "{_quoted(source)}"',
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


def _questions() -> list[str]:
    """What can be asked, in comments."""
    lines = [
        "# What can be asked, with its settings; those in brackets may be left out. Every question also takes title,",
        "# its share of the budget (or its own epsilon), and limits per person (total, or groups and rows):",
    ]
    for ask, settings in SETTINGS.items():
        words = " ".join(name if required else f"[{name}]" for name, required in settings.items())
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
