"""What newcomers write by mistake, and the words they get."""

import re
from pathlib import Path

import pyarrow
import pytest

from discreet import Bounds, Categories, PureDP, Schema, Session
from discreet.cli.main import main
from discreet.core.errors import InvalidParameter, PlanFileError, SourceError
from discreet.plans.job import Job
from discreet.plans.profile import plan_profile
from discreet.questions import TablesQuestion, asked
from discreet.results.display import expected

PLAN = """
[source]
path = "people.csv"
[budget]
epsilon = 1.0
[schema.columns.age]
low = 0
high = 100
grid = 1
[[release]]
name = "age"
ask = "mean"
column = "age"
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    file = tmp_path / "plan.toml"
    file.write_text(PLAN)
    (tmp_path / "people.csv").write_text("age\n30\n40\n")
    return file


OTHER = [
    ("average", "mean"),
    ("percentile", "quantile"),
    ("correlation", "covariance_matrix"),
    ("t_test", "compare_means"),
]


@pytest.mark.parametrize(("word", "name"), OTHER)
def test_other_names_are_answered_with_the_right_one(plan: Path, word: str, name: str) -> None:
    plan.write_text(PLAN.replace('"mean"', f'"{word}"'))
    with pytest.raises(PlanFileError, match=f"'{word}' is not a question. Here it is '{name}'."):
        Job(plan)
    session = Session(
        pyarrow.table({"age": [1.0]}), Schema(columns={"age": Bounds(0, 100, grid=1)}), ledger=":memory:", epsilon=1.0
    )
    for asking in (session, session.plan):
        with pytest.raises(AttributeError, match=f"Here it is '{name}'"):
            getattr(asking, word)


def test_no_other_name_is_taken() -> None:
    questions = asked()
    others = [word for name, one in questions.items() if "also" in vars(one) for word in one.also]
    assert len(others) == len(set(others))
    assert not set(others) & set(questions)


def test_a_plan_says_that_its_data_is_missing(plan: Path) -> None:
    assert Job(plan).plan().warnings == ()
    (plan.parent / "people.csv").unlink()
    (warning,) = Job(plan).plan().warnings
    assert "there is no file people.csv" in warning


@pytest.mark.parametrize(
    ("own", "given", "words"),
    [
        (None, "2026-11", "needs a plan with a period"),
        ("{month}", "2026-13", "is no month"),
        ("{month}", "2026-Q4", "is no month"),
        ("{quarter}", "2026-11", "is no quarter"),
        ("{date}", "2026-11-00", "is no date"),
        ("{year}", "26", "is no year"),
    ],
)
def test_periods_are_checked(plan: Path, own: str | None, given: str, words: str) -> None:
    plan.write_text(PLAN if own is None else f'period = "{own}"\n{PLAN}')
    with pytest.raises(PlanFileError, match=words):
        Job(plan, period=given)


@pytest.mark.parametrize(("own", "given"), [("{month}", "2026-02"), ("{date}", "2024-02-29"), ("spring", "autumn")])
def test_periods_that_fit_are_taken(plan: Path, own: str, given: str) -> None:
    plan.write_text(f'period = "{own}"\n{PLAN}')
    assert Job(plan, period=given).file.period == given


def test_all_margins_are_asked_for_by_a_sentence() -> None:
    schema = Schema(columns={name: Categories(["a", "b"]) for name in ("region", "age", "sex")})
    listed = [["region"], ["age"], ["sex"], ["region", "age"], ["region", "sex"], ["age", "sex"]]
    told = TablesQuestion(schema, "all margins of region, age, sex up to 2", epsilon=1.0)
    assert told.content() == TablesQuestion(schema, listed, epsilon=1.0).content()
    every = TablesQuestion(schema, "all margins of region, age, sex", epsilon=1.0)
    assert every.content() == TablesQuestion(schema, [*listed, ["region", "age", "sex"]], epsilon=1.0).content()
    with pytest.raises(InvalidParameter, match="'agee'"):
        TablesQuestion(schema, "all margins of region, agee", epsilon=1.0)
    with pytest.raises(InvalidParameter, match="all margins of"):
        TablesQuestion(schema, "everything", epsilon=1.0)


def test_a_plan_has_a_line_for_every_table() -> None:
    schema = Schema(columns={name: Categories(["a", "b"]) for name in ("region", "age", "sex")})
    planned = TablesQuestion(schema, "all margins of region, age, sex up to 2", epsilon=1.0).plan()
    errors = {name: error for name, error, _ in planned.parts}
    assert list(errors) == ["region", "age", "sex", "region × age", "region × sex", "age × sex"]
    assert max(errors.values()) == pytest.approx(planned.error_95, rel=1e-9)
    assert all(re.search(rf"^  {name} +{expected(error)} ", str(planned), re.M) for name, error in errors.items())


@pytest.mark.parametrize(("settings", "words"), [({}, "--delimiter ';'"), ({"delimiter": ";"}, "--encoding cp1252")])
def test_files_of_another_dialect_are_told_how_to_be_read(
    tmp_path: Path, settings: dict[str, str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "panel.csv"
    file.write_bytes("id;größe\n1;172,5\n".encode("latin-1"))
    with pytest.raises(SourceError, match=words):
        plan_profile(file, PureDP(1.0), **settings)
    with pytest.raises(SystemExit):
        main(["describe", str(file), *(f"--{name}={value}" for name, value in settings.items())])
    assert words in capsys.readouterr().err
    assert "größe" in plan_profile(file, PureDP(1.0), delimiter=";", encoding="cp1252").question.columns
