"""Typed text: what a person types into a field, as a value of the plan file, and back.

What does not fit stays as it was typed: the plan file then holds text where a number belongs, its reader says so, and
nothing that was typed is lost.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from datetime import date
from typing import Any

from discreet.studio.toml_document import GONE

__all__ = ["shown_text", "typed_value"]

_DIGITS = 100  # of a number; Python reads none of some thousands
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def typed_value(kind: str, text: str) -> Any:
    """The value that was typed; `GONE` for an empty field.

    Examples
    --------
    >>> typed_value("number", "0.50"), typed_value("numbers", "0, 18, 65"), typed_value("number", "about ten")
    (0.5, [0, 18, 65], 'about ten')
    >>> typed_value("labels", "north, south")
    ['north', 'south']
    """
    if not text.strip():
        return GONE
    return _READ.get(kind, lambda typed: typed)(text)


def _number(text: str) -> Any:
    stripped = text.strip()
    for read in (int, float):
        try:
            value = read(stripped)
        except ValueError:
            continue
        return value if abs(value) < 1e300 else text  # infinity and nan are no numbers of a plan
    return text


def _number_or_day(text: str) -> Any:
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        return _number(text)


def _numbers(text: str) -> Any:
    values = [_number(part) for part in text.strip().strip("[]").split(",") if part.strip()]
    return text if any(isinstance(value, str) for value in values) else values


def _labels(text: str) -> Any:
    """Labels between commas or line ends; quoted as in TOML where they hold either."""
    given = _toml(f"[{text}]") if '"' in text else None
    if isinstance(given, list):
        return given
    parts = [part.strip() for part in text.replace("\n", ",").split(",")]
    return [_label(part) for part in parts if part]


def _label(text: str) -> Any:
    """Labels that look like whole numbers, true or false are those: files hold them as such."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isdecimal() and len(text) < _DIGITS and text == str(int(text)) else text


def _toml(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError, KeyError):
        return text


def _flag(text: str) -> Any:
    return {"true": True, "false": False}.get(text, text)


_READ = {
    "number": _number,
    "bound": _number_or_day,
    "numbers": _numbers,
    "labels": _labels,
    "label": _label,
    "columns": lambda text: text.split("\n"),
    "flag": _flag,
    "toml": _toml,
}


def shown_text(kind: str, value: Any) -> str:
    """A value of the plan file as a field shows it.

    Examples
    --------
    >>> shown_text("numbers", [0, 18.5]), shown_text("labels", ["a", "b, c"]), shown_text("toml", {"low": 0})
    ('0, 18.5', '"a", "b, c"', '{ low = 0 }')
    """
    if value is GONE or value is None:
        return ""
    if kind == "columns":
        return "\n".join(map(str, value)) if isinstance(value, list) else str(value)
    if kind in ("numbers", "labels") and isinstance(value, list):
        return _listed(kind, value)
    return _plain(value) if kind == "toml" else _word(value)


def _listed(kind: str, values: list[Any]) -> str:
    words = [_word(value) for value in values]
    plain = all(typed_value("label", word) == value for word, value in zip(words, values, strict=True))
    if kind == "numbers" or (
        plain and not any(set(word) & set(',"\n') or word != word.strip() or not word.isprintable() for word in words)
    ):
        return ", ".join(words)
    return ", ".join(_plain(value) for value in values)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else value if isinstance(value, str) else _plain(value)


def _plain(value: Any) -> str:
    """A value as TOML writes it on one line."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(str(key))} = {_plain(one)}" for key, one in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_plain, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    return repr(value) if isinstance(value, int | float) else str(value)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    """Text as TOML quotes it: as JSON does, and without the one control character that JSON lets through."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
