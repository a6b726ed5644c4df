"""The house: rules about the source itself."""

import ast
from collections import Counter
from pathlib import Path

import discreet

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
