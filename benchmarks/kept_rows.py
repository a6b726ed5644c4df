"""Kept rows: studies of many settings that are run one after another and stored as soon as each is known."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Study = Callable[[int, list[Row]], Iterator[Row]]
"""Takes the repeats and the rows that are known, and gives those that are missing."""


def run_missing(results: Path, studies: Mapping[str, Study], part: str, repeats: int) -> None:
    """Run what is missing of one part, print it and keep it."""
    stored: Row = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    kept = stored.setdefault(part, [])
    for row in studies[part](repeats, kept):
        print(row, flush=True)
        kept.append(row)
        stored[f"repeats of {part}"] = repeats
        results.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
