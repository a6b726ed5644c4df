"""The four recipes of CONTRIBUTING.md: a toy mechanism, statistic, question and engine, and the places each needs."""

import re
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar

import ibis
import numpy as np
import pyarrow as pa
import pytest

from discreet import Categories, Ledger, Neighbours, PureDP, Release, Schema, Session, questions
from discreet import release as publish
from discreet.audit.attack_plan import pipelines
from discreet.core.rows.source import open_source
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms import Laplace
from discreet.plans.job import Job
from discreet.plans.skeleton import skeleton
from discreet.questions import form
from discreet.questions.bounded import BoundedStatistic, Domain
from discreet.questions.facade import Asked, Questions
from discreet.questions.question import MeasuredQuestion, Measurement
from discreet.testing import check_calibration, check_mechanism, check_source, check_statistic
from tests.questions.test_every_question import ASKED

ROOT = Path(__file__).parents[2]
RECIPES = (
    (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Four recipes")[2].partition("## Style")[0]
)
UNIT = Sensitivity(l1=1.0)


def test_the_recipes_name_places_that_exist():
    assert re.findall(r"^\*\*(An? \w+)\*\*", RECIPES, re.M) == ["A mechanism", "A statistic", "A question", "An engine"]
    for place in re.findall(r"`((?:src|docs|tests)/[^`]*)`", RECIPES):
        assert (ROOT / place).exists(), place
    for name in re.findall(r"`(check_\w+)`", RECIPES):
        assert name in globals(), name


@dataclass(frozen=True)
class ToyLaplace(Laplace):
    """A mechanism of somebody else."""

    name: ClassVar[str] = "toy_laplace"


def test_a_mechanism_is_one_class():
    [calibrated] = check_calibration(ToyLaplace, [PureDP(1.0)], UNIT)
    assert check_mechanism(calibrated, UNIT, rng=1).tightness > 0.99
    ledger = Ledger(":memory:", PureDP(1.0))
    noisy = publish(Twice().exact([True, False], neighbours=Neighbours.ADD_REMOVE), ToyLaplace(2.0), ledger=ledger)
    assert noisy.guarantee == PureDP(1.0)
    assert Release.from_json(noisy.to_json()).mechanism == ToyLaplace(2.0)


@dataclass(frozen=True, kw_only=True)
class Twice(BoundedStatistic):
    """Twice the number of rows for which the data is true: one row changes it by at most 2."""

    name: ClassVar[str] = "toy_twice"

    def domain(self, n: int | None = None) -> Domain:
        return 0.0, np.inf

    def sensitivity(self, *, n: int | None = None, neighbours: Neighbours) -> Sensitivity:
        return Sensitivity(moves=(2.0,))

    def value(self, data: Any) -> int:
        return 2 * int(np.count_nonzero(data))


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_a_statistic_is_one_class(neighbours):
    assert check_statistic(Twice(), [True, False], n=3, neighbours=neighbours) > 0.99
    exact = Twice().exact([True, True], neighbours=neighbours)
    noisy = publish(exact, Laplace.calibrate(PureDP(1.0), exact.sensitivity), rng=1)
    assert isinstance(noisy, Release)
    assert noisy.plot().to_dict()
    assert Release.from_json(noisy.to_json()).statistic == Twice()


@dataclass(frozen=True)
class TwiceQuestion(MeasuredQuestion[Release]):
    """Twice the number of rows with a label.

    Guarantee
    ---------
    A row changes it by at most 2.
    """

    ask: ClassVar[str] = "twice"
    meaning: ClassVar[str] = "Twice as many as there are."
    forms: ClassVar[form.Forms] = {"column": form.COLUMN, "label": form.LABEL}
    column: str
    _: KW_ONLY
    label: str = "yes"

    def _measured(self) -> Measurement:
        place = self.schema.categories(self.column).labels.index(self.label)
        moved = Sensitivity(moves=(2.0,))
        return Measurement(
            statistic=Twice(),
            sensitivity=moved,
            mechanism=Laplace.calibrate(self.guarantee, moved),
            by=(self.column,),
            public={},
            value=lambda counts, sums: 2 * int(counts[place]),
            read="twice the rows",
        )


PLAN = """\
[source]
path = "votes.csv"

[budget]
epsilon = 1.0

[schema.columns.vote]
categories = ["yes", "no"]

[[release]]
name = "twice"
ask = "twice"
column = "vote"
"""


def test_a_question_is_one_class_and_one_line_of_a_list(tmp_path, monkeypatch):
    schema = Schema(columns={"vote": Categories(["yes", "no"])})
    session = Session(pa.table({"vote": ["yes"] * 300}), schema, ledger=":memory:", budget=PureDP(2.0))
    answer = session.ask(TwiceQuestion(schema, "vote", guarantee=PureDP(1.0)))
    assert abs(answer.value - 600) < 2 * 40  # real entropy: beyond 40 scales with probability 4e-18
    assert session.plan(TwiceQuestion(schema, "vote", guarantee=PureDP(1.0))).read == "twice the rows"
    monkeypatch.setattr(Questions, "twice", Asked(lambda: TwiceQuestion), raising=False)
    assert session.plan.twice("vote", guarantee=PureDP(1.0)).error_95 > 0
    assert "twice" in dir(session.plan)
    assert re.search(r"#   twice +column \[label\]", skeleton("votes.csv", {"vote": "string"}))
    (tmp_path / "votes.csv").write_text("vote\n" + "yes\n" * 300)
    (tmp_path / "plan.toml").write_text(PLAN)
    result = Job(tmp_path / "plan.toml").run()
    assert "Twice as many as there are." in result.markdown.read_text()
    assert Job(tmp_path / "plan.toml").run().drawn == 0


def test_every_question_has_its_places():
    reference = " ".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    audited = {name for pipeline in pipelines() for name in pipeline.covers}
    for kind in {*questions.asked().values()}:
        name = kind.__name__
        assert kind.__module__.startswith("discreet.questions."), name
        assert kind.ask in ASKED, f"{name}: tests/questions/test_every_question.py"
        assert f"automodule:: {kind.__module__}" in reference, f"{name}: docs/reference"
        assert f"Session.{kind.ask}" in audited, f"{name}: audit"
        words = " ".join(base.__doc__ or "" for base in kind.__mro__ if base.__module__ == kind.__module__)
        assert "Guarantee" in words, f"{name}: docstring"
        for proof in re.findall(r"docs/proofs/\w+\.md", words):
            assert (ROOT / proof).exists(), f"{name}: {proof}"


def test_an_engine_is_a_connection():
    connection = ibis.duckdb.connect()
    check_source(lambda table: open_source(table, engine=connection), quick=True)
