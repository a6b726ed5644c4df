"""The house: rules about the source itself."""

import ast
import io
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pyarrow
import pytest

import discreet
from discreet import Bounds, PureDP, Schema, Session
from discreet.audit.collection import no_collection

SOURCE = Path(discreet.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))


def test_no_two_files_share_a_name() -> None:
    names = Counter(file.name for file in FILES if file.name != "__init__.py")
    assert [name for name, count in names.items() if count > 1] == []


def test_nothing_hangs_on_an_assert() -> None:
    """``python -O`` removes asserts; the papers' studies may keep theirs, as no release depends on them."""
    trusted = [file for file in FILES if "papers" not in file.relative_to(SOURCE).parts]
    asserting = [
        f"{file.relative_to(SOURCE)}:{node.lineno}"
        for file in trusted
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Assert)
    ]
    assert asserting == []


LONGEST = 700
CORE_NOW = 5458
"""Code lines of the core; it may only become smaller. The aim is 3,500."""


def code_lines(source: str) -> int:
    """Lines that hold code: no blanks, comments or docstrings."""
    described = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    words: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, described) and ast.get_docstring(node, clean=False) is not None:
            words.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    silent = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {line for one in tokens if one.type not in silent for line in range(one.start[0], one.end[0] + 1)}
    return len(lines - words)


def test_files_are_short() -> None:
    lengths = {file.name: code_lines(file.read_text()) for file in FILES}
    assert {name: size for name, size in lengths.items() if size > LONGEST} == {}


def test_the_core_is_small(capsys: pytest.CaptureFixture[str]) -> None:
    """What must be right for a guarantee to hold: printed, and never more than now."""
    rooms = Counter[str]()
    for file in (SOURCE / "core").rglob("*.py"):
        parts = file.relative_to(SOURCE / "core").parts
        rooms[parts[0] if len(parts) > 1 else "others"] += code_lines(file.read_text())
    with capsys.disabled():
        print(f"\ncore: {sum(rooms.values())} code lines ({dict(rooms)})", end="")
    assert sum(rooms.values()) <= CORE_NOW


HEAVY = {
    "altair", "duckdb", "ibis", "jinja2", "markdown_it", "markupsafe", "openpyxl", "pandas", "polars", "psycopg",
    "pyarrow", "pyspark", "scipy", "sklearn", "vl_convert",
}  # fmt: skip
"""Libraries that are slow to import, or that an installation may lack."""
PLATFORM = {"fcntl"}


def test_only_heavy_libraries_are_imported_inside_functions() -> None:
    """The command line alone imports rooms late, so that ``discreet --help`` is quick."""
    late = {
        f"{file.relative_to(SOURCE)}: {name}"
        for file in FILES
        if not file.name.startswith("cli")
        for function in ast.walk(ast.parse(file.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in _imported(node)
        if name not in HEAVY | PLATFORM
    }
    assert late - {"papers/study.py: discreet", "audit/sweep.py: time"} == set()


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    return [name.split(".")[0] for name in names]


def traced(ask: Callable[[], object]) -> tuple[dict[str, int], int]:
    """Files of discreet that a call passes through, each with its executed lines, and the lines in all."""
    lines: set[tuple[str, int]] = set()

    def local(frame: FrameType, event: str, argument: object) -> object:
        if event == "line":
            lines.add((frame.f_code.co_filename, frame.f_lineno))
        return local

    def called(frame: FrameType, event: str, argument: object) -> object:
        return local if frame.f_code.co_filename.startswith(str(SOURCE)) else None

    before = sys.gettrace()
    with no_collection():
        sys.settrace(called)  # type: ignore[arg-type]
        try:
            ask()
        finally:
            sys.settrace(before)
    return dict(Counter(name for name, _ in lines)), len(lines)


def test_a_mean_passes_through_few_files(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What an auditor must read for ``Session.mean``: printed, and never more than now."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # folders of other processes would be looked at, too
    rows = pyarrow.table({"age": [float(i % 80) for i in range(1000)]})
    schema = Schema(columns={"age": Bounds(0, 100, grid=1)})
    session = Session(rows, schema, ledger=":memory:", budget=PureDP(4.0))
    session.plan.mean("age", PureDP(1.0))  # what is imported once is not what is executed
    found = [traced(lambda: session.mean("age", PureDP(1.0))) for _ in range(2)]
    with capsys.disabled():
        for name, (files, lines) in zip(("first", "second"), found, strict=True):
            mine = sum(not Path(file).is_relative_to(SOURCE / "core") for file in files)
            print(f"\n{name} mean of a session: {len(files)} files ({mine} outside the core), {lines} lines", end="")
    most = [(49, 964), (44, 809)]
    assert all(len(files) <= few and lines <= short for (files, lines), (few, short) in zip(found, most, strict=True))
