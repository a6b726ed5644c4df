"""The house: rules about the source itself."""

import ast
import io
import re
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from shutil import copy
from types import FrameType

import pyarrow
import pytest

import discreet
from discreet import Bounds, PureDP, Schema, Session
from discreet.audit.statistical import no_collection
from discreet.plans.job import Job
from discreet.questions import asked
from discreet.results.release import Release

SOURCE = Path(discreet.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
EXAMPLES = Path(__file__).parents[2] / "examples"


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


LONGEST = 715
"""Code lines of a file: it is as long as its idea, and no idea is that long."""


def test_files_are_as_long_as_an_idea() -> None:
    lengths = {file.name: code_lines(file.read_text()) for file in FILES}
    assert {name: size for name, size in lengths.items() if size > LONGEST} == {}


HIDDEN = {
    "mechanisms/mechanism.py",
}
"""Files that may import discreet's own modules by name: what is to become a lazy public table."""


def test_no_import_by_name_hides_a_cycle() -> None:
    hiding = {
        str(file.relative_to(SOURCE))
        for file in FILES
        if re.search(r"import_module\(\s*f?\"discreet", file.read_text())
    }
    assert hiding <= HIDDEN


HEAVY = {
    "altair", "duckdb", "formulaic", "ibis", "jinja2", "markdown_it", "markupsafe", "openpyxl", "pandas", "polars",
    "psycopg", "pyarrow", "pyspark", "scipy", "sklearn", "vl_convert",
}  # fmt: skip
"""Libraries that are slow to import, or that an installation may lack."""
PLATFORM = {"fcntl"}


def test_only_heavy_libraries_are_imported_inside_functions() -> None:
    """The command line alone imports rooms late, so that ``discreet --help`` is quick."""
    late = {
        f"{file.relative_to(SOURCE)}: {name}"
        for file in FILES
        if room(str(file)) != "cli"
        for function in ast.walk(ast.parse(file.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in _imported(node)
        if name not in HEAVY | PLATFORM
    }
    assert late - {"papers/study.py: discreet", "audit/exact_losses.py: time"} == set()


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
        name = frame.f_code.co_filename  # templates are compiled, too, and are no code of ours
        return local if name.startswith(str(SOURCE)) and name.endswith(".py") else None

    before = sys.gettrace()
    with no_collection():
        sys.settrace(called)  # type: ignore[arg-type]
        try:
            ask()
        finally:
            sys.settrace(before)
    return dict(Counter(name for name, _ in lines)), len(lines)


def walked(ask: Callable[[], object]) -> tuple[int, int, int]:
    """Files and lines of discreet that a call passes through, and its calls from room to room."""
    crossings = 0

    def profiled(frame: FrameType, event: str, argument: object) -> None:
        nonlocal crossings
        if event != "call" or frame.f_back is None:
            return
        there, here = room(frame.f_code.co_filename), room(frame.f_back.f_code.co_filename)
        crossings += bool(there and here and there != here)

    sys.setprofile(profiled)
    try:
        files, lines = traced(ask)
    finally:
        sys.setprofile(None)
    return len(files), lines, crossings


def room(filename: str) -> str | None:
    """The room of a file: the first part of its path below discreet."""
    path = Path(filename)
    return path.relative_to(SOURCE).parts[0] if path.is_relative_to(SOURCE) else None


def walks(folder: Path) -> dict[str, int]:
    """How far a mean and a regression walk, at their first call."""
    rows = pyarrow.table({"age": [float(i % 80) for i in range(1000)], "pay": [float(i % 70) for i in range(1000)]})
    schema = Schema(columns={"age": Bounds(0, 100, grid=1), "pay": Bounds(0, 100, grid=1)})
    found: dict[str, int] = {}
    for name, ask in {
        "mean": lambda session: session.mean("age", epsilon=1.0),
        "regression": lambda session: session.regression("pay", on=["age"], guarantee=PureDP(1.0)),
    }.items():
        ask(Session(rows, schema, ledger=":memory:", budget=PureDP(4.0)))  # what is imported is not what is executed
        session = Session(rows, schema, ledger=folder / f"{name}.ledger", budget=PureDP(4.0))
        files, lines, crossings = walked(lambda ask=ask, session=session: ask(session))
        found |= {f"{name}: files": files, f"{name}: lines": lines, f"{name}: calls from room to room": crossings}
    return found


def walk_of_a_run(folder: Path) -> dict[str, int]:
    """How far `discreet run` walks for the three releases of the demonstration."""
    for name in ("warm", "traced"):  # what is imported is not what is executed
        place = folder / name
        place.mkdir()
        for file in ("survey.csv", "survey.toml"):
            copy(EXAMPLES / file, place)
    Job(folder / "warm" / "survey.toml").run()
    files, lines = traced(lambda: Job(folder / "traced" / "survey.toml").run())
    return {"run: files": len(files), "run: lines": lines}


def measured() -> dict[str, float]:
    """The size of the house."""
    texts = {file: file.read_text() for file in FILES}
    trees = {file: ast.parse(text) for file, text in texts.items()}
    lines = {file: code_lines(text) for file, text in texts.items()}
    classes = [node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    imports = sum(
        (node.end_lineno or 0) - node.lineno + 1
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    )
    comments = sum(text.count("\n# ") + len(re.findall(r"\n +# |  # ", text)) for text in texts.values())
    whole, core = sum(lines.values()), [size for file, size in lines.items() if room(str(file)) == "core"]
    assert all(asked().values())  # which imports every question, with its releases
    releases = [Release]
    for one in releases:
        releases += one.__subclasses__()
    own = [sum(base.__module__.startswith("discreet") for base in one.__mro__) for one in releases]
    return {
        "files": len(FILES),
        "code lines": whole,
        "classes": len(classes),
        "class names with several meanings": sum(count > 1 for count in Counter(classes).values()),
        "entries at the top": sum(not one.name.startswith("__p") and one.suffix != ".pyi" for one in SOURCE.iterdir()),
        "core: code lines": sum(core),
        "imports, per mille of the code": round(1000 * imports / whole),
        "kinds of release": sum(one.__module__.startswith("discreet.") for one in {*releases}) - 1,
        "own classes in the longest MRO of a release": max(own),
        "facade: code lines": lines[SOURCE / "questions" / "facade.py"],
        "code lines for each comment": round(whole / comments),
    }


MOST = {
    "files": 217,
    "code lines": 58_952,
    "classes": 545,
    "class names with several meanings": 0,
    "entries at the top": 16,
    "core: code lines": 6_859,
    "imports, per mille of the code": 78,
    "kinds of release": 18,
    "own classes in the longest MRO of a release": 5,
    "facade: code lines": 118,
    "code lines for each comment": 27,
    "mean: files": 30,
    "mean: lines": 1_210,
    "mean: calls from room to room": 70,
    "regression: files": 35,
    "regression: lines": 1_576,
    "regression: calls from room to room": 183,
    "run: files": 63,
    "run: lines": 4_490,
}
"""What the house may be at most. Whoever adds a capability removes as much elsewhere, or says why in a decision."""


def test_the_house_does_not_grow(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # folders of other processes would be looked at, too
    found = measured() | walks(tmp_path) | walk_of_a_run(tmp_path)
    with capsys.disabled():
        for name, value in found.items():
            print(f"\n{name:>48}: {value:>7,} (at most {MOST.get(name, 0):,})", end="")
    assert {name: value for name, value in found.items() if value > MOST[name]} == {}
