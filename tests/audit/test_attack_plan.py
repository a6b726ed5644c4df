"""Attacking a plan: worst-case files of its own kind, every release judged, faults found, nothing read or spent."""

import json
from pathlib import Path

import pytest

from discreet.audit.attack_plan import attack_plan
from discreet.cli.main import main
from discreet.core import schema
from discreet.plans.job import Job, attack_words
from discreet.plans.plan_file import PlanFile
from tests.planted_faults import everywhere

PLAN = """
title = "Visits"
[source]
path = "visits.csv"
delimiter = ";"
decimal = ","
[budget]
epsilon = 1.0
[schema.unit]
column = "person"
groups = 2
rows = 2
[schema.columns.spend]
low = -10
high = 2
grid = 0.5
[schema.columns.arm]
categories = ["a; quoted", "b", "c"]
[[release]]
name = "total"
ask = "sum"
column = "spend"
by = "arm"
[[release]]
name = "visits"
ask = "count"
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    file = tmp_path / "visits.toml"
    file.write_text(PLAN)
    return file


def test_every_release_is_judged_and_nothing_is_left_behind(plan):
    found = attack_plan(plan, draws=2_000)
    assert found.passed, str(found)
    assert [one.name for one in found.releases] == ["total", "visits"]
    assert found.releases[0]["change"] == found.releases[0]["declared"] == 40.0
    assert all(one.reached > 0.99 for one in found.releases)
    assert [file.name for file in plan.parent.iterdir()] == ["visits.toml"]
    assert "Releases of the plan" in found.to_html()


def test_a_fault_of_five_percent_is_found(plan):
    original = schema.stability

    def faulty(limits, **facts):
        right = original(limits, **facts)
        return type(right)(l1=right.l1 * 0.95, l2=right.l2 * 0.95)

    with everywhere(original, faulty):
        found = attack_plan(plan, draws=2_000)
    assert not found.releases[0].passed
    assert "declared" in found.releases[0].findings[0]


def test_the_command_writes_a_page_and_fails_where_something_is_found(plan, capsys):
    main(["attack", str(plan), "--json", "--out", str(plan.parent / "attack.html")])
    assert json.loads(capsys.readouterr().out)["passed"]
    assert "Attack on the plan" in (plan.parent / "attack.html").read_text()
    rows = "".join(f"{number};{number % 3};b\n" for number in range(40))
    (plan.parent / "visits.csv").write_text("person;spend;arm\n" + rows)
    assert "This plan was attacked on" in Job(plan).run().markdown.read_text()
    plan.write_text(PLAN.replace("high = 2", "high = 3"))
    assert attack_words(PlanFile.read(plan)) is None
