"""The walk of `Session.mean`, file by file: writes ``docs/explanation/walk.md``.

What a first mean passes through with a ledger on disk: files in the order in which it enters them, the lines that it
executes in each, and how often rooms call one another.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType

import pyarrow

import discreet
from discreet import Bounds, PureDP, Schema, Session

SOURCE = Path(discreet.__file__).parent
PAGE = SOURCE.parents[1] / "docs" / "explanation" / "walk.md"
_INTRODUCTION = """\
# The walk of a mean

`session.mean("age", epsilon=1.0)`, asked for the first time of 1,000 rows in memory with a ledger on disk, passes
through {files} files of discreet and executes {lines} of their lines. `python benchmarks/walk.py` writes this page.
"""


def walked() -> tuple[dict[str, int], Counter[tuple[str, str]]]:
    """Executed lines of each file, in the order of the first visit, and calls from room to room."""
    entered: dict[str, set[int]] = {}
    crossings: Counter[tuple[str, str]] = Counter()

    def line(frame: FrameType, event: str, argument: object) -> object:
        if event == "line":
            entered[frame.f_code.co_filename].add(frame.f_lineno)
        return line

    def call(frame: FrameType, event: str, argument: object) -> object:
        if not frame.f_code.co_filename.startswith(str(SOURCE)):
            return None
        entered.setdefault(frame.f_code.co_filename, set())
        caller = frame.f_back.f_code.co_filename if frame.f_back is not None else ""
        if caller.startswith(str(SOURCE)) and _room(caller) != _room(frame.f_code.co_filename):
            crossings[_room(caller), _room(frame.f_code.co_filename)] += 1
        return line

    rows = pyarrow.table({"age": [float(age % 80) for age in range(1000)]})
    schema = Schema(columns={"age": Bounds(0, 100, grid=1)})
    Session(rows, schema, ledger=":memory:", budget=PureDP(4.0)).mean("age", epsilon=1.0)  # what is imported late
    with tempfile.TemporaryDirectory() as folder:
        session = Session(rows, schema, ledger=Path(folder) / "walk.ledger", budget=PureDP(4.0))
        sys.settrace(call)  # type: ignore[arg-type]
        try:
            session.mean("age", epsilon=1.0)
        finally:
            sys.settrace(None)
    return {name: len(lines) for name, lines in entered.items()}, crossings


def _room(filename: str) -> str:
    return Path(filename).relative_to(SOURCE).parts[0].removesuffix(".py")


def page() -> str:
    """The page as markdown."""
    files, crossings = walked()
    head = _INTRODUCTION.format(files=len(files), lines=f"{sum(files.values()):,}")
    arrows = [f"{one + ' to ' + other:<24}{times:>4}" for (one, other), times in sorted(crossings.items())]
    visits = [f"{Path(name).relative_to(SOURCE)!s:<40}{lines:>4}" for name, lines in files.items()]
    tables = {"Calls from room to room:": arrows, "Files in the order in which it enters them, with lines:": visits}
    drawn = ["\n".join([title, "", "```text", *lines, "```"]) for title, lines in tables.items()]
    return "\n".join([head, "\n\n".join(drawn), ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
