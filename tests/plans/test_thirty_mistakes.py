"""Mistakes of a newcomer: each text names the parameter, the value, the rule and what to write instead."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from discreet import Bounds, Categories, Contribution, Ledger, Neighbours, PrivacyUnit, PureDP, Schema, Session
from discreet.core.errors import DiscreetError
from discreet.plans.job import Job

ROWS = pa.table({"age": [30, 40] * 50, "region": ["n", "s"] * 50})
COLUMNS = {"age": Bounds(0, 100, grid=1), "region": Categories(["n", "s"])}


def session(**columns: object) -> Session:
    return Session(ROWS, Schema(columns={**COLUMNS, **columns}), ledger=":memory:", epsilon=1.0)


def twice() -> None:
    asked = session()
    asked.mean("age", epsilon=0.1, name="a")
    asked.count(epsilon=0.1, name="a")


def of_people() -> None:
    schema = Schema(columns={"age": Bounds(0, 100)}, unit=PrivacyUnit("region"))
    Session(ROWS, schema, ledger=":memory:", epsilon=1.0).count(epsilon=0.1)


IN_PYTHON: list[tuple[Callable[[], object], tuple[str, ...]]] = [
    (lambda: Bounds(100, 0), ("bounds = (100.0, 0.0)", "lower end must be below", "Swap the two")),
    (lambda: Bounds(0, 100.5, grid=1), ("high = 100.5", "not a multiple of grid = 1", "Write high=101")),
    (lambda: Bounds("0", "100"), ("low = '0'", "must be a real number", "Pass an int or a float")),
    (lambda: Categories([]), ("labels = []", "must be a non-empty list", "Write numbers")),
    (lambda: Categories("north"), ("labels = 'north'", "must be a list", 'Pass ["north", "south"]')),
    (lambda: Categories(["a", "a"]), ("labels = ['a', 'a']", "must not repeat", "List every label once")),
    (lambda: Categories(["a"], unknown="b"), ("unknown = 'b'", 'must be "drop"', 'Write unknown = "=')),
    (lambda: Contribution(), ("contribution", "sets no limit on rows", "Write Contribution(total=4)")),
    (lambda: Contribution(total=3, rows=2), ("total = 3", "excludes groups and rows", "Write Contribution(total=3)")),
    (lambda: Schema(columns={}, size=9), ("size = 9", "keep the number of units private", "Remove size, or add")),
    (
        lambda: Schema(columns={}, neighbours=Neighbours.REPLACE_ONE),
        ("size = None", "need the public number", "Pass size"),
    ),
    (lambda: PureDP(-1), ("epsilon = -1", "must not be negative", "Pass epsilon")),
    (lambda: PureDP(1e9), ("epsilon = 1000000000.0", "must be at most 1000", "Pass 1 or less")),
    (lambda: session().mean("age"), ("guarantee = None", "must be given", "Pass epsilon=0.1")),
    (lambda: session().mean("age", 1.0), ("setting = 1.0", "must be given by name", "Write epsilon=1.0")),
    (lambda: session().mean("agee", epsilon=0.1), ("column = 'agee'", "not declared", "Did you mean 'age'?")),
    (lambda: session().mean("region", epsilon=0.1), ("column = 'region'", "labels, not a number", "Use a column")),
    (
        lambda: session().mean("age", by="age", epsilon=0.1),
        ("by = 'age'", "labels are needed", 'Declare "age": Bands('),
    ),
    (
        lambda: session().usable_values(["age"], epsilon=0.1),
        ("setting = ['age']", "given by name", "by name go columns"),
    ),
    (lambda: session().mode("region", epsilon=0.1).noise_interval(), ("'mode'", "is a label", "Use count_gap()")),
    (
        lambda: session().mean("age", epsilom=0.1),
        ("epsilom = 0.1", "is not a setting of mean", "Did you mean 'epsilon'"),
    ),
    (lambda: session().mean("age", epsilon=3), ("costs ε = 3", "has ε = 1 left", "Ask for less")),
    (twice, ("name = 'a'", "was used for a different release", "Use a new name")),
    (
        lambda: session().proportion("region", label="x", epsilon=0.1),
        ("label = 'x'", "not a label", "Use one of: 'n', 's'"),
    ),
    (
        lambda: session().quantile("age", 50, epsilon=0.1),
        ("probabilities = 50", "must lie in [0, 1]", "Write 0.5 for 50 %"),
    ),
    (lambda: session().where("incme > 3"), ("where = 'incme > 3'", "'incme', which is not declared", "Use one of")),
    (
        lambda: session().where("region == n"),
        ("where = 'region == n'", "not declared", "A label stands in quotes: 'n'"),
    ),
    (lambda: session().where("region == 'x'"), ("where", "'x', which is no label of 'region'", "Use one of: 'n', 's'")),
    (lambda: session(pay=Bounds(0, 9)).mean("pay", epsilon=0.1), ("source", "has no column 'pay'", "Check the schema")),
    (lambda: Ledger("none.ledger"), ("none.ledger", "there is no ledger", "Pass budget=PureDP(1.0)")),
    (of_people, ("contribution = None", "may have any number of rows", 'Write PrivacyUnit("region", contribution=')),
    (lambda: session().regression("age", [], epsilon=0.1), ("on = []", "at least one", 'Pass on=["age", "sex"]')),
    (lambda: session().regression(epsilon=0.1), ("column = None", "is missing", 'formula="income ~ age + sex"')),
    (
        lambda: session(region=Categories(["n", "s", "w"])).compare_means("age", by="region", epsilon=0.1),
        ("by = 'region'", "must have two labels", "ask compare_arms"),
    ),
]


@pytest.mark.parametrize(("mistake", "words"), IN_PYTHON, ids=[" ".join(words[:1]) for _, words in IN_PYTHON])
def test_a_mistake_in_python(mistake: Callable[[], object], words: tuple[str, ...]) -> None:
    with pytest.raises(DiscreetError) as refused:
        mistake()
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none.csv", ("source = '", "there is no such file", "Check the path")),
        ("table.xlsx", ("table.xlsx", "must end in one of .csv", "`discreet convert`")),
        ("plan.toml", ("plan.toml", "must end in one of .csv", "That is a plan")),
    ],
)
def test_a_file_that_is_no_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)  # a long path is cut
    with pytest.raises(DiscreetError) as refused:
        Session(name, Schema(columns={}), ledger=":memory:", epsilon=1.0).count(epsilon=0.1)
    for word in words:
        assert word in str(refused.value)


PLAN = """
[source]
path = "people.csv"
[budget]
epsilon = 1.0
[schema.columns.age]
low = 0
high = 100
[schema.columns.region]
categories = ["n", "s"]
[[release]]
name = "a"
ask = "mean"
column = "age"
"""


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("[budget]\nepsilon = 1.0\n", "", (":1:", "[budget] is missing", "`discreet describe`")),
        ("[budget]", "[buget]", (":4:", "'buget' is not a setting", "Did you mean 'budget'?")),
        ("low = 0", 'low = "zero"', (":7:", "low = 'zero'", "must be a real number")),
        ("high = 100", "high = 1,000", ("at line 8", "not valid TOML", "Write 1_000 for 1,000.")),
        ("epsilon = 1.0", "epsilon = .5", ("at line 5", "not valid TOML", "Write 0.5 for .5.")),
        ('ask = "mean"', "ask = mean", ("at line 13", "not valid TOML", 'Write "mean" in quotes.')),
        ('"mean"', '"avg"', (":13:", "ask = 'avg' is not a question", "Here it is 'mean'.")),
        ('column = "age"\n', "", (":11:", "mean needs column")),
        ("column =", "colum =", (":14:", "'colum' is not a setting", "Did you mean 'column'?")),
        ('"age"', '"aeg"', (":14:", "column = 'aeg': is not declared", "Did you mean 'age'?")),
        ("low = 0", "low = 500", (":6:", "bounds = (500.0, 100.0)", "Swap the two")),
        ('column = "age"', 'column = "age"\nby = "region"\nwhere = "age > old"', ("where", "'old'", "not declared")),
    ],
)  # fmt: skip
def test_a_mistake_in_a_plan(tmp_path: Path, right: str, wrong: str, words: tuple[str, ...]) -> None:
    assert right in PLAN
    (tmp_path / "people.csv").write_text("age,region\n30,n\n")
    file = tmp_path / "plan.toml"
    file.write_text(PLAN)
    Job(file).plan()
    file.write_text(PLAN.replace(right, wrong))
    with pytest.raises(DiscreetError) as refused:
        Job(file).plan()
    for word in words:
        assert word in str(refused.value)


def test_there_are_thirty_and_more() -> None:
    assert len(IN_PYTHON) >= 30
