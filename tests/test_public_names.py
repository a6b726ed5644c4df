"""The public face: every name imports, and importing the package stays light."""

import sys

import pytest

import discreet
from tests.processes import output


@pytest.mark.parametrize("name", discreet.__all__)
def test_every_public_name_is_there(name):
    assert getattr(discreet, name) is not None
    assert name in dir(discreet)


def test_names_are_neither_modules_nor_misspelt():
    import types

    shadowed = [name for name in discreet.__all__ if isinstance(getattr(discreet, name), types.ModuleType)]
    assert shadowed == []
    with pytest.raises(AttributeError, match="no_such_name"):
        discreet.no_such_name  # noqa: B018


def test_a_bare_import_loads_no_heavy_library():
    heavy = ("numpy", "scipy", "flint", "ibis", "duckdb", "pandas", "altair", "sklearn")
    code = f"import sys, discreet; print([name for name in {heavy} if name in sys.modules])"
    assert output([sys.executable, "-c", code]).strip() == "[]"


def test_the_function_release_is_not_hidden_by_its_room():
    code = "import discreet.core.door; from discreet import Exact, release; print(callable(release))"
    assert output([sys.executable, "-c", code]).strip() == "True"


def test_editors_see_the_same_names():
    import ast
    from pathlib import Path

    tree = ast.parse(Path(discreet.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.asname: node.module.removeprefix("discreet.") for node in block.body for alias in node.names}
    assert seen == discreet._PUBLIC
