"""Runs on a schedule: the lines of the how-to do what the page says, and two schedulers do not collide."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from discreet.cli.main import main
from discreet.core.errors import PlanFileError
from discreet.plans.job import Job
from discreet.results.ledger import Ledger

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "schedule.md").read_text(encoding="utf-8")
PLAN = """
title = "Register"
period = "2026-02"
[source]
path = "register.csv"
[ledger]
path = "register.ledger"
[budget]
mu = 0.5
[schema.columns.month]
categories = ["2026-01", "2026-02", "2026-03"]
[[release]]
name = "entries"
ask = "running_total"
over = "month"
"""


def block(kind: str, below: str = "") -> str:
    """The only block of a kind, or the first one below a heading."""
    found = re.findall(rf"^```{kind}\n(.*?)^```", PAGE.partition(below)[2] if below else PAGE, re.MULTILINE | re.DOTALL)
    assert below or len(found) == 1
    return str(found[0])


@pytest.fixture
def office(tmp_path: Path) -> Path:
    """A register, its plan, and a program that is called discreet; January is released."""
    (tmp_path / "register.toml").write_text(PLAN)
    (tmp_path / "register.csv").write_text("month\n" + "2026-01\n" * 300 + "2026-02\n" * 200)
    program = tmp_path / "bin" / "discreet"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m discreet "$@"\n')
    program.chmod(0o755)
    Job(tmp_path / "register.toml", period="2026-01").run()
    return tmp_path


def shell(office: Path, line: str) -> "subprocess.Popen[str]":
    surroundings = os.environ | {"PATH": f"{office / 'bin'}:{os.environ['PATH']}"}
    command = line.replace("/srv/register", str(office))
    return subprocess.Popen(
        ["/bin/sh", "-c", command],
        env=surroundings,
        cwd=office,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def events(office: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (office / "register.log").read_text().splitlines()]


def test_cron_and_airflow_at_once(office: Path) -> None:
    """The command of the cron line and that of the task, started together: one draws, the other repeats."""
    minute, hour, day, month, weekday, cron = block("text", below="## cron").strip().split(" ", 5)
    assert (minute, hour, day, month, weekday) == ("0", "3", "1", "*", "*")
    cron = cron.split(" || ")[0]
    settings: dict[str, str] = {}
    task = block("text", below="## Airflow").split("\n", 1)[1].replace("BashOperator(", "settings.update(")
    exec(task, {"settings": settings})
    airflow = settings["bash_command"].replace("{{ ds[:7] }}", "2026-02")
    both = [shell(office, line) for line in (cron, airflow)]
    for one in both:
        out, err = one.communicate(timeout=120)
        assert (one.returncode, out) == (0, ""), err
    told = [event["event"] for event in events(office)]
    assert sorted(told) == ["done", "done", "released", "repeated", "started", "started"]
    with Ledger(office / "register.ledger", read_only=True) as ledger:
        assert len(ledger.events()) == 2  # January and February, each paid for once


def test_the_workflow(office: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(office)
    runs = [line.split("- run: ")[1] for line in block("yaml").splitlines() if "- run: " in line]
    assert [line.split()[:2] for line in runs] == [["discreet", "run"]] * 2
    before = sorted(office.rglob("*"))
    main(runs[0].split()[1:])
    assert sorted(office.rglob("*")) == before  # a dry run writes nothing
    main(runs[1].split()[1:])
    assert capsys.readouterr().out == ""
    assert [event["event"] for event in events(office)] == ["started", "released", "done"]
    assert set(json.loads(block("json"))) == set(events(office)[1])


@pytest.mark.parametrize(
    ("change", "status", "says"),
    [
        (("2026-02", "2026-03"), 2, "needs '2026-02'"),
        (("over = ", "over = = "), 2, "not valid TOML"),
        (("mu = 0.5", "mu = 0.6"), 5, "opened with budget"),
        (('"entries"', '"others"\ncolumn = "spend"'), 2, "spend"),
        (('path = "register.csv"', 'path = "moved.csv"'), 4, "moved.csv"),
    ],
)
def test_a_dry_run_refuses_as_a_run_does(office: Path, change: tuple[str, str], status: int, says: str) -> None:
    plan = office / "register.toml"
    plan.write_text(plan.read_text().replace(*change, 1))
    for more in (["--dry-run"], []):
        with pytest.raises(SystemExit) as ended:
            main(["run", str(plan), "--quiet", "--log", str(office / "register.log"), *more])
        assert ended.value.code == status
        assert len(Ledger(office / "register.ledger", read_only=True).events()) == 1
    refused = [event for event in events(office) if event["event"] == "refused"]
    assert [event["status"] for event in refused] == [status] * 2
    assert all(says in event["why"] for event in refused)


def test_a_dry_run_counts_what_is_left(office: Path) -> None:
    with Ledger(office / "register.ledger") as ledger:
        ledger.reserve(
            ledger.remaining(), question={"ask": "x"}, mechanism={"name": "x"}, sensitivity={"l2": 1.0},
            protection=Job(office / "register.toml").file.schema.protection(),
        )  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        main(["run", str(office / "register.toml"), "--dry-run"])
    assert ended.value.code == 3


def test_a_log_that_cannot_be_written_spends_nothing(office: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", str(office / "register.toml"), "--log", str(office / "nowhere" / "x.log")])
    assert ended.value.code == 1
    assert len(Ledger(office / "register.ledger", read_only=True).events()) == 1


def test_what_a_check_refuses_names_the_line(office: Path) -> None:
    with pytest.raises(PlanFileError, match=r"register\.toml:12: release 'entries'"):
        Job(office / "register.toml", period="2026-03").check()


def test_every_command_speaks_json(office: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, ledger = str(office / "register.toml"), str(office / "register.ledger")
    results = str(office / "register-report" / "2026-01" / "results.json")
    for words in (
        ["plan", plan], ["run", plan], ["run", plan, "--dry-run"], ["review", plan], ["export", results],
        ["describe", str(office / "register.csv")], ["ledger", "show", ledger],
        ["ledger", "show", ledger, "--by", "period"],
        ["ledger", "explain", ledger, "entries"], ["ledger", "verify", ledger], ["ledger", "anchor", ledger],
    ):  # fmt: skip
        main([*words, "--json"])
        json.loads(capsys.readouterr().out)
