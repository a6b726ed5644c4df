"""The public face: every name imports, and importing the package stays light."""

import sys
import types
from collections import Counter
from pathlib import Path

import pytest

import discreet
import discreet.audit
import discreet.inference
import discreet.mechanisms
import discreet.questions
from tests.processes import output

ROOMS = (discreet, discreet.audit, discreet.inference, discreet.mechanisms, discreet.questions)


@pytest.mark.parametrize(("room", "name"), [(room, name) for room in ROOMS for name in room.__all__])
def test_every_public_name_is_there(room, name):
    assert not isinstance(getattr(room, name), types.ModuleType)
    assert name in dir(room)


def test_few_names_are_at_the_top():
    assert len(discreet.__all__) <= 31


def test_a_name_has_one_place():
    names = Counter(name for room in ROOMS for name in room.__all__)
    assert [name for name, places in names.items() if places > 1] == []


def test_misspelt_names_are_refused():
    with pytest.raises(AttributeError, match="no_such_name"):
        discreet.no_such_name  # noqa: B018


def test_a_bare_import_loads_no_heavy_library():
    heavy = ("numpy", "scipy", "flint", "ibis", "duckdb", "pandas", "altair", "sklearn")
    code = f"import sys, discreet; print([name for name in {heavy} if name in sys.modules])"
    assert output([sys.executable, "-c", code]).strip() == "[]"


def test_a_session_imports_no_question_before_it_is_asked():
    """Imports are most of the time that a first answer takes."""
    questions = ("mean", "tables.table", "regression.linear")
    late = ("ibis", "duckdb", "pandas", "pyarrow", "scipy.stats", *(f"discreet.questions.{name}" for name in questions))
    code = f"import sys; from discreet import Session; print([name for name in {late} if name in sys.modules])"
    assert output([sys.executable, "-c", code]).strip() == "[]"


def test_a_plan_imports_no_engine_and_no_special_functions():
    late = ("ibis", "duckdb", "pandas", "pyarrow", "scipy.special", "jinja2", "altair", "rich")
    plan = Path(__file__).parents[2] / "examples" / "survey.toml"
    code = (
        f"import sys; from discreet.cli.main import main; main(['plan', {str(plan)!r}]); "
        f"print([name for name in {late} if name in sys.modules])"
    )
    assert output([sys.executable, "-c", code]).splitlines()[-1] == "[]"


def test_a_first_count_loads_the_compiler_of_its_dialect_alone():
    """All of ibis's own would take as long as the rest of it; they are there once somebody asks for one."""
    rows = Path(__file__).parents[2] / "examples" / "survey.csv"
    code = (
        "import sys; from discreet import Bounds, Schema, Session; "
        "schema = Schema(columns={'age': Bounds(18, 100, grid=1)}); "
        f"Session({str(rows)!r}, schema, ledger=':memory:', epsilon=1.0).count(epsilon=0.5); "
        "print([name for name in sys.modules if name.endswith(('compilers.snowflake', 'compilers.trino'))]); "
        "import ibis, ibis.backends.sql.compilers as all_; print(all_.TrinoCompiler.__name__, all_.sqlite.__name__); "
        "print(ibis.to_sql(ibis.memtable({'a': [1]}).count(), dialect='postgres')[:6], hasattr(all_, 'nothing'))"
    )
    told = output([sys.executable, "-c", code]).splitlines()
    assert told == ["[]", "TrinoCompiler ibis.backends.sql.compilers.sqlite", "SELECT False"]


def test_the_function_release_is_not_hidden_by_its_room():
    code = "import discreet.core.door; from discreet import release; print(callable(release))"
    assert output([sys.executable, "-c", code]).strip() == "True"
