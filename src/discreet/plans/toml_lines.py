"""TOML lines: where every table and setting of a plan file stands, so that refusals can name the line."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

__all__ = ["lines_of"]


def lines_of(text: str) -> Iterator[tuple[str, int]]:
    """Line of every table and key, by its dotted path; releases by their number."""
    prefix, seen = "", -1
    for position, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped.startswith("[[release]]"):
            seen += 1
            prefix = f"release.{seen}"
            yield prefix, position
        elif stripped.startswith("[") and "=" not in stripped.split("]")[0]:
            prefix = ".".join(_path(stripped.split("#")[0].strip()))
            yield prefix, position
        elif "=" in stripped and not stripped.startswith("#"):
            keys = _path(f"{stripped.split('=')[0].strip()} = 0")
            if keys:
                yield ".".join([prefix, *keys] if prefix else keys), position


def _path(line: str) -> list[str]:
    """Keys that one line of TOML opens, outermost first."""
    try:
        table: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return []
    keys = []
    while isinstance(table, dict) and len(table) == 1:
        key, table = next(iter(table.items()))
        keys.append(key)
    return keys
